"""Private logistic regression that tunes its own penalty."""

from __future__ import annotations

from typing import Any

from skdp._types import Relation, TuningMethod, Verbose
from skdp.linear_model.classification import DPLinearClassification
from skdp.methods import Method
from skdp.model_selection.tuned_model import TunedLinearModel
from skdp.privacy.budget_accountant import BudgetAccountant


class DPLogisticRegressionCV(TunedLinearModel, DPLinearClassification):
    """Differentially private logistic regression that tunes its own penalty.

    As :class:`~sklearn.linear_model.LogisticRegressionCV`, but within one privacy budget, whatever
    the number of candidates: choice and fit are functions of noisy means and gradients.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget, > 0.
    delta : float, default=1e-6
        In [0, 1), far below 1 / n_samples; 0 is pure epsilon-differential privacy.
    method : {"auto", "gradient", "bilevel"} or Method, default="auto"
        A name, or an object of :mod:`skdp.methods` with parameters of its own. Both need delta > 0.

        - "gradient": that of :class:`~skdp.linear_model.DPLogisticRegression`. The model is shrunk
          by the noise that is known to be in it, each group of features by its own, which is a
          penalty that nothing has to be spent on.
        - "bilevel": :class:`skdp.methods.Bilevel`, which spends a part of the budget on which
          groups of features matter, and shortens the columns of the others: all coefficients have
          less noise. Where that cannot pay it is "gradient".
        - "auto": "gradient", with `penalty_groups` "bilevel"; with delta = 0 or a solver what
          DPLogisticRegression takes, which tunes nothing.
    alpha_bounds : tuple of two floats or None, default=None
        Public bounds of alpha in the mean loss plus ``(alpha / 2) ||w||^2``. None: no bounds,
        but for bilevel tuning as published from 1e-6 to 10 times the square of `data_norm`. Beside
        `penalty_groups` they select "gradient".
    penalty_groups : array-like of shape (n_features,) or None, default=None
        A label per feature, all integers or all strings; features with the same label share an
        alpha. None: one alpha for all. More than about ten groups choose by chance.
    data_norm : float or None, default=None
        Public bound on the Euclidean norm of rows; longer ones are shrunk. None: 1 and a warning.
    fit_intercept : bool, default=True
        Whether there is an intercept: free, but penalised in methods as published.
    classes : array-like or None, default=None
        The public labels, sorted in `classes_`. None: taken from y with a `PrivacyLeakWarning`.
    class_weight : dict, "balanced" or None, default=None
        Cost of an error for each class; 1 for those that are not named. It shifts the intercept of
        a log loss at no price, and else weighs the records. "balanced": inverse to the shares of
        the classes that "gradient" and "output" release for the log loss.
    neighbouring : {"replace_one", "add_remove"}, default="replace_one"
        Neighbouring data sets differ in one record replaced, or added or removed, with less noise.
    n_public : int or None, default=None
        Public nominal number of records for "add_remove". None: ``len(X)``, which discloses n.
    weight_bound : float or None, default=None
        Public bound on `sample_weight`; larger weights are clipped to it. None: 1, with a warning.
    max_records_per_user : int or None, default=None
        Of `user_ids`: a record weighs 1 over the number of its person's records, or over this if
        that is larger. None: 1 (docs/guide/persons_and_weights.md).
    solver : str, Solver or callable, default="auto"
        What solves, as in :class:`~skdp.linear_model.DPRidge`; nothing is then tuned. An object of
        `method` has its own.
    accountant : BudgetAccountant or None, default=None
        Is charged before a record is read, besides those of open ``with`` blocks.
    random_state : int, RandomState, Generator or None, default=None
        None: the system's secure generator. A seed is for tests: who knows it subtracts the noise.
    verbose : int or callable, default=0
        1 prints the progress; a callable is given ``(name, done, planned)``. It is not private.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Private coefficients.
    intercept_ : ndarray of shape (1,) or (n_classes,)
    coef_noise_, intercept_noise_ : of the shapes of `coef_` and `intercept_`
        Standard deviations of the noise, where the method tells it (docs/guide/noise_of_a_fit.md).
    alpha_ : float or ndarray of shape (n_groups,) or (n_groups + 1,)
        The penalty that was chosen, or that the shrinkage by the noise is equivalent to. If there
        are groups, one per group, in the order of the sorted labels, and at the end that of the
        intercept where it has one.
    alpha_path_ : ndarray of shape (n_steps,) or (n_steps, n_penalties)
        The penalties on the way to the chosen one, which is the last. With "bilevel" first those of
        the shrinkage alone, then with those that the factors of the columns stand for.
    privacy_ : PrivacyReport
        All releases and their cost.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.model_selection import DPLogisticRegressionCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.7, 0.7, size=(5000, 2))
    >>> y = (X[:, 0] > 0).astype(int)
    >>> model = DPLogisticRegressionCV(data_norm=1.0, classes=[0, 1], random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        method: TuningMethod | Method = "auto",
        alpha_bounds: tuple[float, float] | None = None,
        penalty_groups: Any = None,
        data_norm: float | None = None,
        fit_intercept: bool = True,
        classes: Any = None,
        class_weight: Any = None,
        neighbouring: Relation = "replace_one",
        n_public: int | None = None,
        weight_bound: float | None = None,
        max_records_per_user: int | None = None,
        solver: Any = "auto",
        accountant: BudgetAccountant | None = None,
        random_state: Any = None,
        verbose: Verbose = 0,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.method = method
        self.alpha_bounds = alpha_bounds
        self.penalty_groups = penalty_groups
        self.data_norm = data_norm
        self.fit_intercept = fit_intercept
        self.classes = classes
        self.class_weight = class_weight
        self.neighbouring = neighbouring
        self.n_public = n_public
        self.weight_bound = weight_bound
        self.max_records_per_user = max_records_per_user
        self.solver = solver
        self.accountant = accountant
        self.random_state = random_state
        self.verbose = verbose

"""Private ridge regression that tunes its own penalty."""

from __future__ import annotations

from typing import Any

from skdp._types import Relation, TuningMethod, Verbose
from skdp.linear_model.regression import DPLinearRegression
from skdp.methods import Method
from skdp.model_selection.tuned_model import TunedLinearModel
from skdp.privacy.budget_accountant import BudgetAccountant


class DPRidgeCV(TunedLinearModel, DPLinearRegression):
    """Differentially private ridge regression that tunes its own penalty.

    As :class:`~sklearn.linear_model.RidgeCV`, but within one privacy budget, whatever the number of
    candidates: choice and fit are functions of noisy means and gradients.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget, > 0.
    delta : float, default=1e-6
        In [0, 1), far below 1 / n_samples; 0 is pure epsilon-differential privacy.
    method : {"auto", "gradient", "bilevel"} or Method, default="auto"
        A name, or an object of :mod:`skdp.methods`, as of :class:`DPLogisticRegressionCV`. "auto":
        "gradient", with `penalty_groups` "bilevel"; with delta = 0 or a solver what
        :class:`~skdp.linear_model.DPRidge` takes, which tunes nothing.
    alpha_bounds : tuple of two floats or None, default=None
        Public bounds of alpha in the mean loss plus ``(alpha / 2) ||w||^2``. None: no bounds,
        but for bilevel tuning as published from 1e-6 to 10 times the square of `data_norm`. Beside
        `penalty_groups` they select "gradient".
    penalty_groups : array-like of shape (n_features,) or None, default=None
        A label per feature, all integers or all strings; features with the same label share an
        alpha. None: one alpha for all. More than about ten groups choose by chance.
    data_norm : float or None, default=None
        Public bound on the Euclidean norm of rows; longer ones are shrunk. None: 1 and a warning.
    target_range : tuple of two floats or None, default=None
        Public range of y; targets and predictions are clipped to it. None: (-1, 1) and a warning.
    fit_intercept : bool, default=True
        Whether there is an intercept: free, but penalised in methods as published.
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
    coef_ : ndarray of shape (n_features,)
        Private coefficients, in units of y per unit of X.
    intercept_ : float
    coef_noise_, intercept_noise_ : of the shapes of `coef_` and `intercept_`
        Standard deviations of the noise, where the method tells it (docs/guide/noise_of_a_fit.md).
    target_range_ : tuple of two floats
        That of the fit, which predictions are clipped to.
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
    >>> from skdp.model_selection import DPRidgeCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.3, 0.3, size=(20000, 10))
    >>> y = X[:, 0] + 0.1 * rng.standard_normal(20000)
    >>> model = DPRidgeCV(data_norm=1.0, target_range=(-1, 1), random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.7)
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
        target_range: tuple[float, float] | None = None,
        fit_intercept: bool = True,
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
        self.target_range = target_range
        self.fit_intercept = fit_intercept
        self.neighbouring = neighbouring
        self.n_public = n_public
        self.weight_bound = weight_bound
        self.max_records_per_user = max_records_per_user
        self.solver = solver
        self.accountant = accountant
        self.random_state = random_state
        self.verbose = verbose

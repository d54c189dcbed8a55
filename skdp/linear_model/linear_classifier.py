"""Private linear classification with a choice of losses."""

from __future__ import annotations

from typing import Any

from skdp._checks import check_option
from skdp._types import Auto, ClassifierLoss, LinearMethod, Relation, Verbose
from skdp.linear_model.classification import DPLinearClassification
from skdp.methods import Method
from skdp.privacy.budget_accountant import BudgetAccountant
from skdp.problems import HingeLoss, LogisticLoss, Loss, OneVsRestLoss, SquaredHingeLoss

TWO_CLASS_LOSSES: dict[str, Loss] = {
    "log_loss": LogisticLoss(),
    "hinge": HingeLoss(),
    "smoothed_hinge": HingeLoss().smoothed(1.0),
    "squared_hinge": SquaredHingeLoss(),
}


class DPLinearClassifier(DPLinearClassification):
    """Differentially private linear classification: support vector machines and log loss.

    By default, with delta > 0, the model is fitted by noisy gradient steps that are planned from
    public numbers, and nothing has to be tuned. `delta` = 0, `solver` and `method` select another
    private algorithm; without delta `alpha` may, too.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget, > 0.
    delta : float, default=1e-6
        In [0, 1), far below 1 / n_samples; 0 is pure epsilon-differential privacy.
    loss : {"log_loss", "hinge", "smoothed_hinge", "squared_hinge"}, default="log_loss"
        In the margin z of the true class:

        - "log_loss": ``log(1 + exp(-z))``, as :class:`DPLogisticRegression`; softmax for several
          classes.
        - "hinge": ``max(0, 1 - z)``, the linear support vector machine. Its Moreau envelope
          is minimised instead, with a public width of 5 % of the standard deviation that the
          noise gives to a margin, so that any data can be solved to a proven accuracy.
          ``privacy_.plan["smoothing"]`` is the width.
        - "smoothed_hinge": ``(1 - z)^2 / 2`` between 0 and 1, linear below, 0 above.
        - "squared_hinge": ``max(0, 1 - z)^2``.

        With several classes, all but "log_loss" solve one problem per class against the rest. The
        noise is for sqrt(n_classes) times the sensitivity of one.
    alpha : "auto" or float, default="auto"
        L2 penalty as in :class:`~sklearn.linear_model.SGDClassifier`, ``1 / (n_samples C)``; it
        enters after all releases. "auto": none but what the noise asks for.
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
    method : {"auto", "gradient", "output", "objective", "output_perturbation", "phased", \
            "exponential", "mirror_descent"} or Method, default="auto"
        A name, or an object of :mod:`skdp.methods` with parameters. "auto" is "gradient", mostly
        "output" with a `solver`; for delta = 0 "output" of squared errors, else mostly "objective".
    solver : str, Solver or callable, default="auto"
        What solves, and selects a method that does: a name of `skdp.solvers.SOLVERS` such as
        "lbfgs", a `skdp.solvers.Solver`, or a callable ``(problem, accuracy) -> array``.
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
    alpha_ : float
        The penalty used.
    privacy_ : PrivacyReport
        All releases and their cost.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.linear_model import DPLinearClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.7, 0.7, size=(20000, 2))
    >>> y = (X[:, 0] > 0).astype(int)
    >>> model = DPLinearClassifier(loss="hinge", data_norm=1.0, classes=[0, 1], random_state=0)
    >>> model = model.fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        loss: ClassifierLoss = "log_loss",
        alpha: float | Auto = "auto",
        data_norm: float | None = None,
        fit_intercept: bool = True,
        classes: Any = None,
        class_weight: Any = None,
        neighbouring: Relation = "replace_one",
        n_public: int | None = None,
        weight_bound: float | None = None,
        max_records_per_user: int | None = None,
        method: LinearMethod | Method = "auto",
        solver: Any = "auto",
        accountant: BudgetAccountant | None = None,
        random_state: Any = None,
        verbose: Verbose = 0,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.loss = loss
        self.alpha = alpha
        self.data_norm = data_norm
        self.fit_intercept = fit_intercept
        self.classes = classes
        self.class_weight = class_weight
        self.neighbouring = neighbouring
        self.n_public = n_public
        self.weight_bound = weight_bound
        self.max_records_per_user = max_records_per_user
        self.method = method
        self.solver = solver
        self.accountant = accountant
        self.random_state = random_state
        self.verbose = verbose

    def _check_parameters(self) -> None:
        check_option("loss", self.loss, tuple(TWO_CLASS_LOSSES))
        super()._check_parameters()

    def _loss(self, n_classes: int) -> Loss:
        if self.loss == "log_loss":
            return super()._loss(n_classes)
        two = TWO_CLASS_LOSSES[self.loss]
        return two if n_classes == 2 else OneVsRestLoss(two, n_classes)

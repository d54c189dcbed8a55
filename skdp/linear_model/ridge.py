"""Private ridge regression."""

from __future__ import annotations

from typing import Any

from skdp._types import Auto, LinearMethod, Relation, Verbose
from skdp.linear_model.intervals import CoefficientIntervalsMixin
from skdp.linear_model.regression import DPLinearRegression
from skdp.methods import Method
from skdp.privacy.budget_accountant import BudgetAccountant


class DPRidge(CoefficientIntervalsMixin, DPLinearRegression):
    """Differentially private least squares with an L2 penalty.

    By default, with delta > 0, the model is fitted by noisy gradient steps that are planned from
    public numbers, and nothing has to be tuned. `delta` = 0, `solver` and `method` select another
    private algorithm.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget, > 0.
    delta : float, default=1e-6
        In [0, 1), far below 1 / n_samples; 0 is pure epsilon-differential privacy.
    alpha : "auto" or float, default="auto"
        L2 penalty, ``1 / n_samples`` of that of :class:`~sklearn.linear_model.Ridge`; it enters
        after all releases. "auto": none but what the noise asks for.
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
    method : {"auto", "gradient", "output", "objective", "output_perturbation", "phased", \
            "exponential", "mirror_descent"} or Method, default="auto"
        A name, or an object of :mod:`skdp.methods` with parameters. "auto" is "gradient", mostly
        "output" with a `solver`; for delta = 0 "output" of squared errors, else mostly "objective".
    solver : str, Solver or callable, default="auto"
        What solves, and selects a method that does: a name of `skdp.solvers.SOLVERS` such as
        "lbfgs", a `skdp.solvers.Solver`, or a callable ``(problem, accuracy) -> array``.
    intervals : bool, default=False
        Whether :meth:`coef_interval` is to give confidence intervals of the coefficients. A
        Newton step is then released with half of the squared mu of the budget, and `coef_` has
        more noise. By the default method, for records of one weight and replace-one neighbours.
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
    alpha_ : float
        The penalty used.
    privacy_ : PrivacyReport
        All releases and their cost.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.linear_model import DPRidge
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.7, 0.7, size=(20000, 2))
    >>> y = X[:, 0]
    >>> model = DPRidge(data_norm=1.0, target_range=(-1, 1), random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.8)
    True
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        alpha: float | Auto = "auto",
        data_norm: float | None = None,
        target_range: tuple[float, float] | None = None,
        fit_intercept: bool = True,
        neighbouring: Relation = "replace_one",
        n_public: int | None = None,
        weight_bound: float | None = None,
        max_records_per_user: int | None = None,
        method: LinearMethod | Method = "auto",
        solver: Any = "auto",
        intervals: bool = False,
        accountant: BudgetAccountant | None = None,
        random_state: Any = None,
        verbose: Verbose = 0,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.alpha = alpha
        self.data_norm = data_norm
        self.target_range = target_range
        self.fit_intercept = fit_intercept
        self.neighbouring = neighbouring
        self.n_public = n_public
        self.weight_bound = weight_bound
        self.max_records_per_user = max_records_per_user
        self.method = method
        self.solver = solver
        self.intervals = intervals
        self.accountant = accountant
        self.random_state = random_state
        self.verbose = verbose

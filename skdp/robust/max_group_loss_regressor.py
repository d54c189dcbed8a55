"""Private linear regression for the worst group."""

from __future__ import annotations

from typing import Any

import numpy as np

from skdp._types import Auto, GroupMethod, RegressorLoss, Relation, Verbose
from skdp.linear_model.linear_regressor import DPLinearRegressor
from skdp.methods import Method
from skdp.privacy.budget_accountant import BudgetAccountant
from skdp.robust.grouped_linear_model import GroupedLinearModel


class DPMaxGroupLossRegressor(GroupedLinearModel, DPLinearRegressor):
    """Differentially private linear regression whose worst group does well.

    Minimises the largest mean loss of a group of records. Other regressors minimise the mean over
    all records, in which small groups count little. The groups are needed during ``fit`` only.
    Data frames may keep their column in predictions.

    By default, with delta > 0, the model is fitted by noisy gradient steps. `solver` and some
    `loss` select solves in place of steps; `delta` = 0 the published saddle point, where noise
    grows with the largest weight of a group.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget, > 0.
    delta : float, default=1e-6
        In [0, 1), far below 1 / n_samples; 0 is pure epsilon-differential privacy.
    loss : {"squared_error", "huber", "absolute_error", "quantile"}, default="squared_error"
        As in :class:`~skdp.linear_model.DPLinearRegressor`.
    group_names : array-like or None, default=None
        The public set of groups. None: taken from `groups` with a `PrivacyLeakWarning`.
    group_proportions : {"private", "public"}, array-like or dict, default="private"
        The sizes of the groups. "private": released with noise, from a part of the budget.
        "public": those of `groups`, whose values are then not protected. Else public proportions,
        in the order of `group_names` (sorted, if these are None) or by name (also a Series of
        pandas), whose sum is 1; they must not be frequencies in the private records.
    alpha : "auto" or float, default="auto"
        L2 penalty of the objective, which selects "output" and enters after the releases. "auto":
        none. Methods as published have their own.
    data_norm : float or None, default=None
        Public bound on the Euclidean norm of rows; longer ones are shrunk. None: 1 and a warning.
    target_range : tuple of two floats or None, default=None
        Public range of y; targets and predictions are clipped to it. None: (-1, 1) and a warning.
    huber_threshold : float or None, default=None
        In units of y. None: a tenth of the width of `target_range`.
    quantile : float, default=0.5
        In (0, 1).
    fit_intercept : bool, default=True
        Whether there is an intercept: free, but penalised in methods as published.
    neighbouring : {"replace_one", "add_remove"}, default="replace_one"
        Neighbouring data sets differ in one record replaced, or ("gradient", "output" and
        "mirror_descent") in one record added or removed: features, target and group.
    n_public : int or None, default=None
        Public nominal number of records for "add_remove". None: ``len(X)``, which discloses n.
    weight_bound : float or None, default=None
        Public bound on `sample_weight`; larger weights are clipped to it. None: 1, with a warning.
    method : {"auto", "gradient", "output", "saddle", "phased", "rgda", "mirror_descent"} \
            or Method, default="auto"
        Private algorithm: a name, or an object of :mod:`skdp.methods` with parameters of its own.
        "auto" is "gradient" for delta > 0, the log loss and the squared error; else, and with an
        `alpha` or a `solver`, "output", where it is proven, or "phased".
    solver : str, Solver, SaddleSolver or callable, default="auto"
        What solves: "auto", a name such as "newton" or "lbfgs", a `skdp.solvers.Solver`, or a
        callable ``(problem, accuracy) -> array``; it selects "output". A name such as
        "extragradient", or a `skdp.solvers.SaddleSolver`, selects "phased", where a callable is one
        ``(problem, accuracy) -> (x, y)``. An object of `method` has its own.
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
    target_range_ : tuple of two floats
        That of the fit, which predictions are clipped to.
    alpha_ : float
        The penalty used; of "gradient" what the shrinkage by its noise is equivalent to.
    group_names_ : ndarray of shape (n_groups,)
        As declared, else sorted: the order of all that follows.
    group_proportions_ : ndarray of shape (n_groups,)
        Declared, public or released ones; missing where none are needed.
    group_weights_ : ndarray of shape (n_groups,)
        Noisy worst-case weights on the simplex, larger for groups with larger losses.
        Missing for saddle points that do not release them.
    privacy_ : PrivacyReport
        All releases and their cost.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)

    See Also
    --------
    skdp.linear_model.DPLinearRegressor : For the mean loss.
    DPMaxGroupLossClassifier : For labels; how the weights of the groups keep noise small.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.robust import DPMaxGroupLossRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.7, 0.7, size=(50000, 2))
    >>> groups = rng.choice(["most", "few"], size=50000, p=[0.8, 0.2])
    >>> y = np.where(groups == "most", X[:, 0], X[:, 1])
    >>> model = DPMaxGroupLossRegressor(
    ...     group_names=["most", "few"], group_proportions=[0.8, 0.2],
    ...     data_norm=1.0, target_range=(-1, 1), random_state=0,
    ... )
    >>> of_groups = model.fit(X, y, groups=groups).group_scores(X, y, groups)
    >>> bool(min(of_groups.values()) > 0.2)
    True
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        loss: RegressorLoss = "squared_error",
        group_names: Any = None,
        group_proportions: Any = "private",
        alpha: float | Auto = "auto",
        data_norm: float | None = None,
        target_range: tuple[float, float] | None = None,
        huber_threshold: float | None = None,
        quantile: float = 0.5,
        fit_intercept: bool = True,
        neighbouring: Relation = "replace_one",
        n_public: int | None = None,
        weight_bound: float | None = None,
        method: GroupMethod | Method = "auto",
        solver: Any = "auto",
        accountant: BudgetAccountant | None = None,
        random_state: Any = None,
        verbose: Verbose = 0,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.loss = loss
        self.group_names = group_names
        self.group_proportions = group_proportions
        self.alpha = alpha
        self.data_norm = data_norm
        self.target_range = target_range
        self.huber_threshold = huber_threshold
        self.quantile = quantile
        self.fit_intercept = fit_intercept
        self.neighbouring = neighbouring
        self.n_public = n_public
        self.weight_bound = weight_bound
        self.method = method
        self.solver = solver
        self.accountant = accountant
        self.random_state = random_state
        self.verbose = verbose

    def _record_losses(self, X: Any, y: np.ndarray) -> np.ndarray:
        bound = max(abs(end) for end in self.target_range_)
        return self._loss(bound).value(self._scores(X)[:, 0], y.astype(np.float64))

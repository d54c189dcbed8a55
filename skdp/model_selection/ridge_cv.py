"""Private ridge regression that tunes its own penalty."""

from __future__ import annotations

from typing import Any

from skdp._types import ReplaceOne, RidgeTuner
from skdp.linear_model.regression import DPLinearRegression
from skdp.model_selection.tuned_model import TunedLinearModel, methods
from skdp.privacy.budget_accountant import BudgetAccountant
from skdp.problems import HalfSquaredLoss, Loss


class DPRidgeCV(TunedLinearModel, DPLinearRegression):
    """Differentially private ridge regression that tunes its own penalty.

    As :class:`~sklearn.linear_model.RidgeCV`, but within one privacy budget, whatever the number of
    candidates: choice and fit are functions of the noisy second moments of the records.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget, > 0.
    delta : float, default=1e-6
        In [0, 1), far below 1 / n_samples. 0 is pure epsilon-differential privacy, with spherical
        Laplace noise instead of Gaussian.
    method : {"sufficient_statistics", "bilevel", "bilevel_minibatch", "hypergradient", \
            "exponential", "public"}, default="sufficient_statistics"
        - "sufficient_statistics": the moments are released once, with noise; both the choice and
          the fit are functions of them. No budget is split.
        - "bilevel": Kornowski (2024), Alg. 1, corrected: gradient steps in log alpha from private
          solutions for a training and a validation half; "bilevel_minibatch": solutions by noisy
          steps on batches (needs dp-accounting >= 0.5).
        - "hypergradient": noisy derivatives of the validation loss of the exact solution.
        - "exponential": a draw from a grid of alpha by the exponential mechanism.
        - "public": alpha by a formula of public numbers.

        All but the first end with output perturbation on all records at the chosen alpha. They suit
        other losses and sizes, and serve for comparison: see docs/model_selection.md.
    alpha_bounds : tuple of two floats or None, default=None
        Public bounds of alpha in the mean loss plus ``(alpha / 2) ||w||^2``. None:
        from 1e-6 to 1e6 (default method) or 10 (others) times the square of `data_norm`.
    penalty_groups : array-like of shape (n_features,) or None, default=None
        A label per feature, all integers or all strings; features with the same label share an
        alpha. None: one alpha for all. More than about ten groups choose by chance. The default
        method gives the intercept the best alpha for all coefficients together, the others tune it
        as a group.
    cv : int or None, default=None
        None: the loss of every candidate is estimated from statistics of all records, corrected
        for the bias of using them twice. An integer K: the statistics of K folds are released, and
        each is predicted from the others; every fold then has the noise of its few records.
    data_norm : float or None, default=None
        Public bound on the Euclidean norm of a row of X, > 0. Longer rows are scaled down to it,
        also in predictions. None: 1, with a warning: features that were not scaled exceed it.
    target_range : tuple of two floats or None, default=None
        Public range of y, in the units of y; targets and predictions are clipped to it. With an
        intercept, predictions are centered at its middle. None: (-1, 1), with a warning.
    fit_intercept : bool, default=True
        The intercept is the weight of a constant feature, penalised like the others.
    intercept_scaling : float, default=0.3
        Value of that feature in units of `data_norm`. Its weight is penalised as that of a feature
        of value `data_norm` would be. A small value makes room for the noise in the mean of the
        rows, a large one makes all noise larger; 0.2 to 0.5 serve most data.
    neighbouring : {"replace_one"}, default="replace_one"
        Neighbouring data sets differ in one record replaced; their size is public.
    tune_share : float, default=0.2
        Part of the budget that the choice may spend, for the methods that split it.
    solver : str, Solver or callable, default="auto"
        For the methods that solve penalised problems; see :func:`skdp.solvers.resolve_solver`.
    accountant : BudgetAccountant or None, default=None
        The budget that a fit is charged to before it reads a record, besides those of the open
        ``with`` blocks of :class:`skdp.BudgetAccountant`. None: those alone, if there are any.
    random_state : int, RandomState, Generator or None, default=None
        None draws the noise from the operating system's secure generator. Anything else
        makes it reproducible, for tests: anyone who knows the seed can subtract the noise.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Private coefficients, in units of y per unit of X.
    intercept_ : float
    target_range_ : tuple of two floats
        That of the fit, which predictions are clipped to.
    alpha_ : float or ndarray of shape (n_groups,) or (n_groups + 1,)
        The alpha that was chosen. If there are groups, one per group, in the order of the sorted
        labels, and at the end that of the intercept if there is one.
    alpha_path_ : ndarray of shape (n_steps,) or (n_steps, n_penalties)
        The penalties on the way to the chosen one, the last of them; functions of what was
        released.
    privacy_ : PrivacyReport
        All releases and their cost.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)

    See Also
    --------
    skdp.linear_model.DPRidge : With a given alpha, or one by a public rule.

    Notes
    -----
    Noise: second moments of rows and scaled targets move by at most ``sqrt(2) (X^2 + g^2 Y^2) / n``
    in the Frobenius norm. Proofs, also of the estimate that values of alpha are compared by:
    docs/theory/tuning.md.

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

    _methods = methods("sufficient_statistics")

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        method: RidgeTuner = "sufficient_statistics",
        alpha_bounds: tuple[float, float] | None = None,
        penalty_groups: Any = None,
        cv: int | None = None,
        data_norm: float | None = None,
        target_range: tuple[float, float] | None = None,
        fit_intercept: bool = True,
        intercept_scaling: float = 0.3,
        neighbouring: ReplaceOne = "replace_one",
        tune_share: float = 0.2,
        solver: Any = "auto",
        accountant: BudgetAccountant | None = None,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.method = method
        self.alpha_bounds = alpha_bounds
        self.penalty_groups = penalty_groups
        self.cv = cv
        self.data_norm = data_norm
        self.target_range = target_range
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.neighbouring = neighbouring
        self.tune_share = tune_share
        self.solver = solver
        self.accountant = accountant
        self.random_state = random_state

    def _loss(self, target_bound: float) -> Loss:
        return HalfSquaredLoss(target_bound)

"""Private ridge regression that tunes its own penalty."""

from __future__ import annotations

from typing import Any

from skdp._types import InnerSolver, Relation, RidgeTuner, Verbose
from skdp.linear_model.regression import DPLinearRegression
from skdp.model_selection.tuned_model import TunedLinearModel, methods
from skdp.privacy.budget_accountant import BudgetAccountant
from skdp.problems import HalfSquaredLoss, Loss


class DPRidgeCV(TunedLinearModel, DPLinearRegression):
    """Differentially private ridge regression that tunes its own penalty.

    As :class:`~sklearn.linear_model.RidgeCV`, but within one privacy budget, whatever the number of
    candidates: choice and fit are functions of noisy moments and gradients.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget, > 0.
    delta : float, default=1e-6
        In [0, 1), far below 1 / n_samples. 0 is pure epsilon-differential privacy, with spherical
        Laplace noise instead of Gaussian.
    method : {"auto", "gradient", "sufficient_statistics", "bilevel", "bilevel_minibatch", \
            "hypergradient", "exponential", "public"}, default="auto"
        - "gradient" (delta > 0): that of :class:`~skdp.linear_model.DPRidge`. The model is shrunk
          by the noise that is known to be in it, each group of features by its own, which is a
          penalty that nothing has to be spent on.
        - "sufficient_statistics": the moments are released once, with noise; both the
          choice and the fit are functions of them. No budget is split.
        - "bilevel": Kornowski (2024), Alg. 1, corrected: gradient steps in log alpha from private
          solutions for a training and a validation half; "bilevel_minibatch": solutions by noisy
          steps on batches (needs the extra `accounting`).
        - "hypergradient": noisy derivatives of the validation loss of the exact solution.
        - "exponential": a draw from a grid of alpha by the exponential mechanism.
        - "public": alpha by a formula of public numbers.
        - "auto": "gradient"; with delta = 0 "sufficient_statistics" if there are candidates or
          groups, else the default of DPRidge, which has no penalty; with a solver output
          perturbation on prepared rows.

        Those after "sufficient_statistics" end with output perturbation on all records at the
        chosen alpha. They serve for comparison: see docs/guide/tuning.md.
    alphas : array-like of float or None, default=None
        Public candidates of alpha, for "gradient". None: all values within `alpha_bounds`.
    alpha_bounds : tuple of two floats or None, default=None
        Public bounds of alpha in the mean loss plus ``(alpha / 2) ||w||^2``. None: with "gradient"
        no bounds, else from 1e-6 to 1e6 (released moments) or 10 (others) times the square of
        `data_norm`.
    penalty_groups : array-like of shape (n_features,) or None, default=None
        A label per feature, all integers or all strings; features with the same label share an
        alpha. None: one alpha for all. More than about ten groups choose by chance. "gradient" has
        no penalty of the intercept, released moments give it the best alpha for all coefficients
        together, the others tune it as a group.
    data_norm : float or None, default=None
        Public bound on the Euclidean norm of a row of X, > 0. Longer rows are scaled down to it,
        also in predictions. None: 1, with a warning: features that were not scaled exceed it.
    target_range : tuple of two floats or None, default=None
        Public range of y, in the units of y; targets and predictions are clipped to it. With an
        intercept, predictions are centered at its middle. None: (-1, 1), with a warning.
    fit_intercept : bool, default=True
        The intercept is free with "gradient", the weight of a penalised constant feature in the
        other methods. Without it, rows should have a mean near 0.
    intercept_scaling : float, default=0.3
        Value of that feature in units of `data_norm`. Its weight is penalised as that of a feature
        of value `data_norm` would be. A small value makes room for the noise in the mean of the
        rows, a large one makes all noise larger; 0.2 to 0.5 serve most data.
    neighbouring : {"replace_one", "add_remove"}, default="replace_one"
        Neighbouring data sets differ in one record replaced (their size is public), or in one
        record added or removed (`n_public` is then the size assumed). The methods that end with
        output perturbation are for "replace_one".
    n_public : int or None, default=None
        Public nominal number of records for "add_remove". None: ``len(X)``, which discloses n.
    weight_bound : float or None, default=None
        Public bound on `sample_weight`: weights are divided by it and clipped to 1. The smaller it
        is, the less noise. None: 1, with a warning if weights are given.
    max_records_per_user : int or None, default=None
        Of `user_ids`: a record weighs 1 over the number of its person's records, or over this
        if it is larger. Above 1 for a model of the average record, not of the average person, which
        has more noise. None: 1.
    tune_share : float, default=0.2
        Part of the budget that the choice may spend, for the methods that split it.
    inner : {"output_perturbation", "localized_gd", "localized_sgd"} or None, default=None
        Private solver of the lower problems of "bilevel": noise on a certified solution (None), or
        noisy gradient steps on all records (DP-Loc-GD) or on batches (DP-Loc-SGD, the same as
        "bilevel_minibatch").
    solver : str, Solver or callable, default="auto"
        For the methods that solve penalised problems, "auto" among them; see
        :func:`skdp.solvers.resolve_solver`. The others refuse one.
    accountant : BudgetAccountant or None, default=None
        The budget that a fit is charged to before it reads a record, besides those of the open
        ``with`` blocks of :class:`skdp.BudgetAccountant`. None: those alone, if there are any.
    random_state : int, RandomState, Generator or None, default=None
        None draws the noise from the operating system's secure generator. Anything else
        makes it reproducible, for tests: anyone who knows the seed can subtract the noise.
    verbose : int or callable, default=0
        1 prints how many of the planned steps are done, and the progress of long solves; a callable
        is called as ``(name, done, planned)`` in place of it. That of solves depends on the
        records: it is not private.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Private coefficients, in units of y per unit of X.
    intercept_ : float
    coef_noise_ : ndarray of the shape of `coef_`
        Standard deviations of what the noise adds to the coefficients, from what was released;
        missing for methods that do not tell it (docs/guide/noise_of_a_fit.md).
    intercept_noise_ : float or ndarray of the shape of `intercept_`
        The same of the intercept.
    target_range_ : tuple of two floats
        That of the fit, which predictions are clipped to.
    alpha_ : float or ndarray of shape (n_groups,) or (n_groups + 1,)
        The alpha that was chosen. With "gradient" the penalty that leaves of an average coefficient
        what the shrinkage by the noise has left of it, or the candidate nearest to that. If there
        are groups, one per group, in the order of the sorted labels, and at the end that of the
        intercept where it has one.
    alpha_path_ : ndarray of shape (n_steps,) or (n_steps, n_penalties)
        The penalties on the way to the chosen one, the last of them; functions of what was
        released. With "gradient" the chosen one alone.
    privacy_ : PrivacyReport
        All releases and their cost.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)

    See Also
    --------
    skdp.linear_model.DPRidge : With a given alpha, or one by a public rule.

    Notes
    -----
    Noise of "gradient": docs/theory/core.md, Theorem 1. Of "sufficient_statistics": second
    moments of rows and scaled targets move by at most ``sqrt(2) (X^2 + g^2 Y^2) / n`` in the
    Frobenius norm. Proofs, also of the estimate that values of alpha are compared by:
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
        method: RidgeTuner = "auto",
        alphas: Any = None,
        alpha_bounds: tuple[float, float] | None = None,
        penalty_groups: Any = None,
        data_norm: float | None = None,
        target_range: tuple[float, float] | None = None,
        fit_intercept: bool = True,
        intercept_scaling: float = 0.3,
        neighbouring: Relation = "replace_one",
        n_public: int | None = None,
        weight_bound: float | None = None,
        max_records_per_user: int | None = None,
        tune_share: float = 0.2,
        inner: InnerSolver | None = None,
        solver: Any = "auto",
        accountant: BudgetAccountant | None = None,
        random_state: Any = None,
        verbose: Verbose = 0,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.method = method
        self.alphas = alphas
        self.alpha_bounds = alpha_bounds
        self.penalty_groups = penalty_groups
        self.data_norm = data_norm
        self.target_range = target_range
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.neighbouring = neighbouring
        self.n_public = n_public
        self.weight_bound = weight_bound
        self.max_records_per_user = max_records_per_user
        self.tune_share = tune_share
        self.inner = inner
        self.solver = solver
        self.accountant = accountant
        self.random_state = random_state
        self.verbose = verbose

    def _loss(self, target_bound: float) -> Loss:
        return HalfSquaredLoss(target_bound)

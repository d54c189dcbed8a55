"""Private linear regression for the worst group."""

from __future__ import annotations

from typing import Any

import numpy as np

from skdp.linear_model.linear_regressor import DPLinearRegressor
from skdp.robust.grouped_model import GroupedLinearModel

__all__ = ["DPMaxGroupLossRegressor"]


class DPMaxGroupLossRegressor(GroupedLinearModel, DPLinearRegressor):
    """Differentially private linear regression whose worst group does well.

    Minimises the largest mean loss of a group of records, where other regressors minimise the
    mean over all records, in which small groups hardly count. The groups are needed during
    ``fit`` only.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget, > 0.
    delta : float, default=1e-6
        In [0, 1), far below 1 / n_samples. 0 is pure epsilon-differential privacy, with spherical
        Laplace noise instead of Gaussian.
    loss : {"squared_error", "huber", "absolute_error", "quantile"}, default="squared_error"
        As in :class:`~skdp.linear_model.DPLinearRegressor`. The noise grows with the largest
        possible loss: "huber" has less of it than "squared_error".
    group_mode : {"proportions", "public", "histogram", "floored"}, default="proportions"
        What makes the groups comparable; group sizes are private unless said otherwise.

        - "proportions": losses of group g weigh 1 / (n_samples p_g), with the public
          `group_proportions`.
        - "public": neighbours have the same groups. Their sizes are then known, and the noise is
          smaller, but whether somebody belongs to a group is not protected.
        - "histogram": proportions are estimated first, with `histogram_share` of the budget.
        - "floored": mean losses of the groups, those with fewer than
          n_samples / `max_group_weight` records divided by this number in place of their size.
          Needs neither proportions nor a budget for them, but more noise.
    group_names : array-like or None, default=None
        The public set of groups. None: taken from `groups` with a `PrivacyLeakWarning`.
    group_proportions : array-like, dict or None, default=None
        Public proportions of the groups, in the order of `group_names` (or sorted, if these are
        None), or by name (also a Series of pandas); their sum is 1. For "proportions" only. None:
        equal ones, with a warning. Wrong ones weigh the groups differently; the guarantee does not
        need them to be right, but they must not be frequencies in the private records.
    max_group_weight : float, default=10.0
        Limit W of the weight n_samples / n_g of a group, >= 1. Noise grows with the largest
        weight; a group with a share p below 1 / W counts for p W of a group, and may be left
        behind at any budget.
    histogram_share : float, default=0.1
        Part of the budget that "histogram" spends on the proportions.
    release_group_weights : bool, default=False
        Whether ``group_weights_`` is released, within the same budget; the coefficients have more
        noise then.
    alpha : "auto" or float, default="auto"
        Strength of an L2 penalty that is part of the objective. "auto" is 0; the regularisers of
        the private algorithm come on top.
    data_norm : float or None, default=None
        Public bound on the Euclidean norm of a row of X, > 0. Longer rows are scaled down to it,
        also in predictions. None: 1, with a warning: features that were not scaled exceed it.
    coef_norm : float or None, default=None
        Radius of the ball that the coefficients (intercept weight included) live in. None: the
        norm of a good predictor on isotropic rows. A smaller radius
        means less noise, because it bounds the losses.
    target_range : tuple of two floats or None, default=None
        Public range of y, in the units of y; ``fit`` clips targets to it. With an intercept,
        predictions are centered at its middle. None: (-1, 1), with a warning.
    huber_threshold : float or None, default=None
        In units of y. None: a tenth of the width of `target_range`.
    quantile : float, default=0.5
        In (0, 1).
    fit_intercept : bool, default=True
        The intercept is the weight of a constant feature, penalised like the others; an
        unpenalised one would have unbounded sensitivity.
    intercept_scaling : float, default=0.1
        Value of that feature in units of `data_norm`.
    neighbouring : {"replace_one"}, default="replace_one"
        Neighbouring data sets differ in one record replaced: features, target and group.
    method : {"auto", "output", "phased"}, default="auto"
        "output" adds noise once to the solution for all records. "phased" solves on disjoint
        blocks of records, each around the noisy solution of the one before, if a public bound
        says that this is better. "auto" is "phased"; ``privacy_.method`` tells what was done.
    objective : {"empirical", "population"}, default="empirical"
        Automatic choices for the loss on these records, or on others of their distribution.
    solver : str, SaddleSolver or callable, default="auto"
        "auto", a name such as "extragradient" or "accelerated_svrg", a
        `skdp.solvers.SaddleSolver`, or a callable ``(problem, accuracy) -> (x, y)``.
    calibration : {"analytic", "paper"}, default="analytic"
        "paper": the published phases and constants, for comparison. They spend half of the budget,
        and at realistic sizes their noise hides everything.
    random_state : int, RandomState, Generator or None, default=None
        None draws the noise from the operating system's secure generator. Anything else
        makes it reproducible, for tests: anyone who knows the seed can subtract the noise.
    verbose : int, default=0
        1 prints the progress of long solves. The output depends on the records: it is not private.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Private coefficients, in units of y per unit of X.
    intercept_ : float
    alpha_ : float
        The penalty used; in phases, `alpha`.
    group_names_ : ndarray of shape (n_groups,)
        Sorted.
    group_proportions_ : ndarray of shape (n_groups,)
        Declared, public or, for "histogram", private ones; not for "floored".
    group_weights_ : ndarray of shape (n_groups,)
        The weights under which the groups' losses are worst, with noise, on the simplex; a group
        that is harder to please has a larger one. Only if they are released.
    privacy_ : PrivacyReport
        All releases and their cost.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)

    See Also
    --------
    skdp.linear_model.DPLinearRegressor : For the mean loss.
    DPMaxGroupLossClassifier : For labels.

    Notes
    -----
    Minimising ``max_g (1 / n_g) sum_(i in g) loss_i`` with the groups' actual sizes is not private
    with noise for a mean of n records: a record that changes its group rescales the losses of two
    groups. With 1 / (n p_g) it moves the solution by O(1 / n), see
    `skdp.problems.GroupWeights`. The saddle problem is solved to a proven accuracy, and the
    coefficients get noise for how far they can move (Zhang et al. 2022, Alg. 4, with block
    constants, the analytic Gaussian mechanism and planned phases). Proofs: docs/theory/saddle.md.

    References
    ----------
    L. Zhang, K. K. Thekumparampil, S. Oh, N. He, "Bring your own algorithm for optimal
    differentially private stochastic minimax optimization", NeurIPS 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.robust import DPMaxGroupLossRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.7, 0.7, size=(50000, 2))
    >>> groups = rng.choice(["most", "few"], size=50000, p=[0.8, 0.2])
    >>> y = np.where(groups == "most", X[:, 0], X[:, 1])
    >>> model = DPMaxGroupLossRegressor(
    ...     group_names=["most", "few"],
    ...     group_proportions=[0.8, 0.2],
    ...     data_norm=1.0,
    ...     target_range=(-1, 1),
    ...     random_state=0,
    ... )
    >>> few, most = model.fit(X, y, groups=groups).group_scores(X, y, groups)
    >>> bool(min(few, most) > 0.2)
    True
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        loss: str = "squared_error",
        group_mode: str = "proportions",
        group_names: Any = None,
        group_proportions: Any = None,
        max_group_weight: float = 10.0,
        histogram_share: float = 0.1,
        release_group_weights: bool = False,
        alpha: float | str = "auto",
        data_norm: float | None = None,
        coef_norm: float | None = None,
        target_range: tuple[float, float] | None = None,
        huber_threshold: float | None = None,
        quantile: float = 0.5,
        fit_intercept: bool = True,
        intercept_scaling: float = 0.1,
        neighbouring: str = "replace_one",
        method: str = "auto",
        objective: str = "empirical",
        solver: Any = "auto",
        calibration: str = "analytic",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.loss = loss
        self.group_mode = group_mode
        self.group_names = group_names
        self.group_proportions = group_proportions
        self.max_group_weight = max_group_weight
        self.histogram_share = histogram_share
        self.release_group_weights = release_group_weights
        self.alpha = alpha
        self.data_norm = data_norm
        self.coef_norm = coef_norm
        self.target_range = target_range
        self.huber_threshold = huber_threshold
        self.quantile = quantile
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.neighbouring = neighbouring
        self.method = method
        self.objective = objective
        self.solver = solver
        self.calibration = calibration
        self.random_state = random_state
        self.verbose = verbose

    def _default_groups(self, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros(len(targets), dtype=np.intp), np.zeros(1, dtype=np.intp)

    def _record_losses(self, X: Any, y: np.ndarray) -> np.ndarray:
        bound = max(abs(end) for end in self._range)
        return self._loss(bound).value(self.predict(X), y.astype(np.float64))

    def predict(self, X: Any) -> np.ndarray:
        """Predicted targets in the units of y.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            A data frame may still have the column of the groups.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return super().predict(self._without_groups(X))

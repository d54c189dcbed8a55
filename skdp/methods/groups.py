"""The methods of worst-group models: ours, and published algorithms."""

from __future__ import annotations

import math
from typing import Any

from skdp._checks import check_bool, check_count, check_real
from skdp.algorithms.plan import Plan
from skdp.algorithms.worst_group.max_group_loss import plan_max_group_loss
from skdp.algorithms.worst_group.network import plan_group_network
from skdp.algorithms.worst_group.vertices import plan_group_mirror_descent
from skdp.methods.base import Candidate, Method, Published
from skdp.methods.linear import Entrywise
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import REPLACED_RELATIONS, Neighbouring
from skdp.privacy.gaussian_dp import gaussian_mu
from skdp.problems import Design
from skdp.solvers import resolve_solver

#: Largest weight of a group over the relative noise of a mean.
_WEIGHT_FOR_NOISE = 0.08
#: Of saddle points: largest weight over ``n mu / sqrt(d)``, and records per feature and weight
#: where it is public and where a look at the groups' losses chooses it.
_WEIGHT_FOR_MU, _RECORDS, _RECORDS_OF_LOOK = 0.0066, 50.0, 5.0


class Grouped(Method):
    """Base of the published methods of groups; its defaults serve those that have no parameters."""

    max_group_weight: float | str = "auto"
    histogram_share: float = 0.1
    release_group_weights: bool = False

    def weight_bound(self, design: Design, budget: PrivacyBudget) -> float:
        """Return the public bound on the weight of a group."""
        if self.max_group_weight != "auto":
            return float(self.max_group_weight)
        if budget.is_pure:
            return 10.0
        # as far as the noise of a mean gradient allows; a draw of a vertex has the noise of the
        # logarithm of their number
        d = math.log(2.0 * design.width) if self.is_entrywise else design.n_features
        noise = 2.0 * math.sqrt(d) / (design.n_records * gaussian_mu(budget.epsilon, budget.delta))
        return min(max(_WEIGHT_FOR_NOISE / noise, 1.0), 1000.0)

    def check(self, name: Any, budget: PrivacyBudget, neighbouring: Neighbouring) -> None:
        super().check(name, budget, neighbouring)
        if self.max_group_weight != "auto":
            check_real("max_group_weight", self.max_group_weight, 1.0, 1e9)
        check_real("histogram_share", self.histogram_share, 1e-6, 1.0 - 1e-6)
        check_bool("release_group_weights", self.release_group_weights)


class SaddleOutputPerturbation(Grouped, Published):
    """Output perturbation of the saddle point of weights and groups, as published.

    A plain model and the noisy losses of the groups under it decide how far the weights of groups
    may differ. One solve of the penalised saddle problem on all records follows, with noise once,
    which grows with the largest weight; or, where that is 1, another plain model.

    Parameters
    ----------
    alpha : "auto" or float, default="auto"
        L2 penalty that is part of the objective. "auto": by a public bound.
    coef_norm : float or None, default=None
        Radius of the ball of the coefficients, intercept weight included. None: the norm of a good
        predictor.
    max_group_weight : "auto" or float, default="auto"
        Public bound W >= 1 on the weight of a group's records, where all records have the weight 1
        on average; 1 is the plain model. "auto": chosen by a part of the budget; with
        ``delta == 0`` by public numbers.
    histogram_share : float, default=0.1
        Part of the budget for noisy sizes of the groups, where they are private.
    release_group_weights : bool, default=False
        Whether the worst-case weights are released as ``group_weights_``; more noise.
    population : bool, default=False
        Whether "auto" is for the loss on other records of the distribution, not on these.
    intercept_scaling : float, default=0.1
        As in :class:`OutputPerturbation`.
    solver : str, SaddleSolver or callable, default="auto"
        "auto", a name of `skdp.solvers.SADDLE_SOLVERS`, a `skdp.solvers.SaddleSolver`, or a
        callable ``(problem, accuracy) -> (x, y)``.

    References
    ----------
    Zhang et al. (2022), Bring Your Own Algorithm for Optimal Differentially Private Stochastic
    Minimax Optimization, Algorithm 3. docs/theory/saddle.md.
    """

    relations = REPLACED_RELATIONS
    is_weighted = True
    is_bounded = True
    n_phases: int | str = 1

    def __init__(
        self,
        alpha: float | str = "auto",
        coef_norm: float | None = None,
        max_group_weight: float | str = "auto",
        histogram_share: float = 0.1,
        release_group_weights: bool = False,
        population: bool = False,
        intercept_scaling: float = 0.1,
        solver: Any = "auto",
    ) -> None:
        self.alpha = alpha
        self.coef_norm = coef_norm
        self.max_group_weight = max_group_weight
        self.histogram_share = histogram_share
        self.release_group_weights = release_group_weights
        self.population = population
        self.intercept_scaling = intercept_scaling
        self.solver = solver

    def weight_bound(self, design: Design, budget: PrivacyBudget) -> float:
        """Return the public bound on the weight of a group, or on what a look may choose."""
        n, d = design.n_records, design.n_features
        if self._looks(budget):
            return max(1.0, n / (_RECORDS_OF_LOOK * d))
        if self.max_group_weight != "auto":
            return float(self.max_group_weight)
        # a spherical Laplace vector is as long as a normal one for this mu
        pure = budget.epsilon / math.sqrt(d)
        mu = pure if budget.is_pure else gaussian_mu(budget.epsilon, budget.delta)
        return max(1.0, min(_WEIGHT_FOR_MU * n * mu / math.sqrt(d), n / (_RECORDS * d)))

    def plan(self, objective: Any, budget: PrivacyBudget) -> Plan:
        return plan_max_group_loss(
            self.applied(objective),
            budget,
            self.calibration,
            n_phases=None if isinstance(self.n_phases, str) else int(self.n_phases),
            looks=self._looks(budget),
        )

    def _looks(self, budget: PrivacyBudget) -> bool:
        """Whether the largest weight follows from the groups' losses."""
        is_free = self.max_group_weight == "auto" and self.calibration == "analytic"
        return is_free and not budget.is_pure

    def check_solver(self, solver: Any) -> None:
        resolve_solver(solver, saddle=True)


class PhasedSaddle(SaddleOutputPerturbation):
    """Phased output perturbation of saddle points, as published.

    Saddle problems on disjoint blocks of records, each around the noisy solution of the one before;
    with few records one phase, which is :class:`SaddleOutputPerturbation`.

    Parameters
    ----------
    alpha, coef_norm, max_group_weight, histogram_share, release_group_weights : object
        As in :class:`SaddleOutputPerturbation`.
    population, intercept_scaling, solver : object
        As in :class:`SaddleOutputPerturbation`.
    calibration : {"analytic", "paper"}, default="analytic"
        "paper": the published constants, errata corrected, for declared or public proportions and
        ``epsilon < 2``; it spends half of the budget.
    n_phases : "auto" or int, default="auto"
        "auto": the number with the smallest public bound. Of "paper": as published.

    References
    ----------
    Zhang et al. (2022), Algorithm 4. docs/theory/saddle.md.
    """

    splits = True
    published_epsilon = 2.0

    def __init__(
        self,
        alpha: float | str = "auto",
        coef_norm: float | None = None,
        max_group_weight: float | str = "auto",
        histogram_share: float = 0.1,
        release_group_weights: bool = False,
        population: bool = False,
        intercept_scaling: float = 0.1,
        solver: Any = "auto",
        calibration: str = "analytic",
        n_phases: int | str = "auto",
    ) -> None:
        given = alpha, coef_norm, max_group_weight, histogram_share, release_group_weights
        super().__init__(*given, population, intercept_scaling, solver)
        self.calibration = calibration
        self.n_phases = n_phases

    def check(self, name: Any, budget: PrivacyBudget, neighbouring: Neighbouring) -> None:
        super().check(name, budget, neighbouring)
        if self.n_phases != "auto":
            check_count("n_phases", self.n_phases, 1, 255)
            if self.calibration == "paper":
                raise ValueError("calibration='paper' has its own number of phases.")

    def candidate(self, objective: Any, budget: PrivacyBudget) -> Candidate | None:
        """Return its plan: what "auto" takes where nothing else is proven."""
        plan = self.plan(objective, budget)
        return plan.bound(), lambda: plan


class RGDA(Grouped):
    """DP-RGDA: recursive noisy gradients, descent in the weights and ascent in the groups.

    It is made for networks (:class:`skdp.robust.DPMaxGroupLossMLPClassifier`). Its escape phase,
    for second-order points, is in :func:`skdp.algorithms.dp_rgda` alone. Of a linear model it has
    more noise than the default, and with few records for its columns it is hardly better than a
    constant. For ``delta > 0``.

    Parameters
    ----------
    max_group_weight : "auto" or float, default="auto"
        As in :class:`SaddleOutputPerturbation`.

    References
    ----------
    Xu et al. (2026). docs/theory/dp_rgda.md.
    """

    needs_delta = True

    def __init__(self, max_group_weight: float | str = "auto") -> None:
        self.max_group_weight = max_group_weight

    def plan(self, objective: Any, budget: PrivacyBudget) -> Plan:
        return plan_group_network(objective, budget)


class GroupMirrorDescent(Grouped, Entrywise):
    """Mirror descent in the l1 ball and in the simplex of groups; mostly hardly above a constant.

    As published, for smooth losses, many features that are bounded entrywise and few that matter.
    The variants other than "plain" are below a constant but with millions of records, and warn
    where draws are mostly random.

    Parameters
    ----------
    variant : {"plain", "bias_reduced", "boosted"}, default="plain"
        The published algorithm.
    feature_bound : float or None, default=None
        As in :class:`MirrorDescent`.
    coef_norm_l1 : float or None, default=None
        As in :class:`MirrorDescent`.
    max_group_weight : "auto" or float, default="auto"
        As in :class:`SaddleOutputPerturbation`.
    histogram_share : float, default=0.1
        As in :class:`SaddleOutputPerturbation`.

    References
    ----------
    González et al. (2024), Algorithms 1 to 4. docs/theory/mirror_descent.md, Proposition 7.
    """

    relations = (Neighbouring.REPLACE_ONE, Neighbouring.ADD_REMOVE)
    variants = ("plain", "bias_reduced", "boosted")
    alpha = "auto"

    def __init__(
        self,
        variant: str = "plain",
        feature_bound: float | None = None,
        coef_norm_l1: float | None = None,
        max_group_weight: float | str = "auto",
        histogram_share: float = 0.1,
    ) -> None:
        self.variant = variant
        self.feature_bound = feature_bound
        self.coef_norm_l1 = coef_norm_l1
        self.max_group_weight = max_group_weight
        self.histogram_share = histogram_share

    def plan(self, objective: Any, budget: PrivacyBudget) -> Plan:
        return plan_group_mirror_descent(self.applied(objective), budget)

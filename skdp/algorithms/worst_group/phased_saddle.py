"""The worst group's loss, privately: phases of the saddle problem, by public bounds.

The algorithm is Zhang et al. (2022), Alg. 4. The factors of the groups' losses are public, the
same for all data sets, or released first (:class:`HistogramPlan`) with a share of the budget.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from skdp._runtime import without_warnings
from skdp.algorithms.output.phased_saddle import (
    PhasedSaddlePlan,
    SaddlePhase,
    plan_phased_saddle_output_perturbation,
)
from skdp.algorithms.plan import Run
from skdp.algorithms.worst_group import rules
from skdp.algorithms.worst_group.group_plan import GroupResult, SizedGroupPlan
from skdp.algorithms.worst_group.group_sums import GroupSizes
from skdp.algorithms.worst_group.proportions import NoisyProportions, proportions_sensitivity
from skdp.mechanisms import calibrated_mechanism
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import ComposedEvent
from skdp.privacy.report import Release
from skdp.problems import (
    Design,
    EmpiricalRisk,
    GroupWeights,
    MaxGroupLossProblem,
    Records,
    Simplex,
    max_group_loss_constants,
)
from skdp.problems.domains import euclidean_norm
from skdp.problems.group_objective import GroupObjective
from skdp.problems.rounding import two_sums


@dataclass(frozen=True, kw_only=True)
class MaxGroupLossBound:
    """Public estimate of the expected excess of the largest group loss, for choosing a plan.

    As :func:`skdp.algorithms.output.phased.phased_utility_bound`, but for groups. The
    weights' regulariser costs ``(nu/2) ||y* - c||^2``, for which
    y* is taken half-way from equal weights to one group. A group has only ``n / c`` records. Noise
    moves the losses of different groups in different directions, of which the maximum takes the
    worst: ``sqrt(2 log(G) q v)`` with the variance v of a coordinate of the noise and the
    mean square ``q = loss.sampling_scale * h`` of the gradient along one direction,
    ``h = loss.curvature * second_moment``.

    Where mu_1 > 2 h it is multiplied by ``(mu_1 / 2 h)^2``: it would favour the predictor 0 if
    the budget is small, which predicts no label. The risk must be smooth.
    """

    objective: GroupObjective

    @cached_property
    def _numbers(self) -> tuple[float, float, float, float]:
        """Lipschitz constant, largest loss, curvature h and gradient ``sqrt(2 log(G) q)``."""
        objective = self.objective
        loss, design = objective.risk.loss, objective.design
        lipschitz = loss.lipschitz(design.feature_norm, objective.radius)
        largest = loss.largest_value(design.feature_norm, objective.radius)
        curvature = loss.curvature * design.second_moment
        gradient = min(lipschitz, math.sqrt(loss.sampling_scale * curvature))
        gradient *= math.sqrt(2.0 * math.log(objective.weights.n_groups))
        return lipschitz, largest, curvature, gradient

    def __call__(self, phases: Sequence[SaddlePhase]) -> float:
        objective, (lipschitz, largest, curvature, gradient) = self.objective, self._numbers
        risk, design, weights = objective.risk, objective.design, objective.weights
        c, dimension, first = weights.bound, objective.dimension, phases[0]
        total = risk.penalty_cost(design, first.regularisation, objective.comparator_norm)
        away = 0.5 * Simplex(weights.n_groups).circumradius
        total += 0.5 * first.other_regularisation * away**2
        square, moved = 0.0, 0.0
        for k, phase in enumerate(phases):
            if objective.population:
                stability = lipschitz * lipschitz / phase.modulus
                stability += largest * largest / phase.other_modulus
                total += 2.0 * c**2 * stability / phase.n_records
            else:
                total += c * risk.sampling_cost(design, phase.modulus, phase.n_records)
            if k:
                total += min(0.5 * phase.regularisation * square, moved)
            square = phase.mean_square
            variance = square / dimension
            moved = risk.noise_cost(design, variance) + gradient * math.sqrt(variance)
            moved = min(lipschitz * math.sqrt(square), moved) + 0.5 * objective.alpha * square
        return (total + moved) * max(1.0, 0.5 * first.regularisation / curvature) ** 2


@dataclass(frozen=True, kw_only=True)
class MaxGroupLossPlan(SizedGroupPlan):
    """Phases of the saddle problem of groups with known weights, for a smooth risk.

    They may follow from noisy proportions, which a :class:`HistogramPlan` has released.
    """

    phased: PhasedSaddlePlan
    has_saddle = True

    @property
    def n_phases(self) -> int:
        return len(self.phased.phases)

    @property
    def alpha(self) -> float:
        """The penalty of the solution; that of several phases has no one center."""
        added = self.phased.regularisation[0] if self.n_phases == 1 else 0.0
        return self.objective.alpha + added

    @property
    def releases(self) -> tuple[Release, ...]:
        joint = self.phased.released == "joint"
        name = "(sqrt(mu_x) coefficients, sqrt(mu_y) group weights)" if joint else "coefficients"
        return (*self.first_releases(), self.phased.release(name, self.objective.neighbouring))

    def bound(self) -> float:
        return self.phased.bound()

    def remarks(self) -> tuple[str, ...]:
        return self.phased.remarks()

    def to_dict(self) -> dict[str, Any]:
        numbers = {
            "radius": self.objective.radius,
            **self.public_numbers(),
            **self.phased.to_dict(),
        }
        if self.objective.release_weights:
            numbers["group_weights_noise"] = self.phased.phases[-1].noise_scale_y
        return numbers

    @without_warnings()
    def run(self, data: Records, run: Run) -> GroupResult:
        """Release the coefficients x and, if the objective says so, the worst-case weights y."""
        self.objective.design.check(data)
        weights, radius = self.objective.weights, self.objective.radius
        # the regularisers are those of the phases
        problem = MaxGroupLossProblem(data, self.risk.loss, weights, radius, 1.0, 1.0)
        strata = data.groups if weights.public_groups else None
        found = self.phased.run(problem, run, strata)
        # without noise if they are not released
        return self.result(found.point, found.y if self.objective.release_weights else None)


@dataclass(frozen=True, kw_only=True)
class HistogramPlan(SizedGroupPlan):
    """Noisy proportions of the groups first, then a fit that is planned with them.

    A record that changes its group changes two counts by 1: a distance of ``sqrt(2) / n``.
    """

    budget: PrivacyBudget
    sizes: NoisyProportions
    n_phases: int | None = None
    has_saddle = True

    @property
    def event(self) -> ComposedEvent:
        """Both releases; their costs do not depend on the proportions."""
        share = 1.0 - self.objective.histogram_share
        parts = self.sizes.mechanism, calibrated_mechanism(self.budget, 1.0, share=share)
        return ComposedEvent(tuple(part.event(self.objective.neighbouring) for part in parts))

    @cached_property
    def releases(self) -> tuple[Release, ...]:
        """Those for the largest weights; in a run the second one follows from the proportions."""
        return self.fit(self.objective.weights).releases

    def to_dict(self) -> dict[str, Any]:
        return {"radius": self.objective.radius, **self.public_numbers()}

    def fit(self, weights: GroupWeights) -> MaxGroupLossPlan:
        """Plan the fit with the rest of the budget."""
        objective = replace(self.objective, weights=weights)
        return replace(_plan_fit(objective, self.budget, self.n_phases), sizes=self.sizes)

    def run(self, data: Records, run: Run) -> GroupResult:
        self.objective.design.check(data)
        data.check_targets(self.objective.risk.loss)
        if data.shares is None:
            known = self.weighted(data.groups, run.noise)
        else:
            self.objective.weights.check_groups(data.groups)
            size = self.objective.weights.n_groups
            sums = data.total(GroupSizes(size))
            known = self.known(self.sizes.noisy(sums / data.n_units, run.noise))
        plan = known.fit(known.objective.weights)
        return replace(plan, proportions=known.proportions).run(data, run)


def max_group_loss(
    records: Records,
    risk: EmpiricalRisk,
    weights: GroupWeights,
    budget: PrivacyBudget,
    *,
    radius: float,
    n_phases: int | None = None,
    calibration: Literal["analytic", "paper"] = "analytic",
    run: Run | None = None,
    **options: Any,
) -> GroupResult:
    """Minimise the largest loss of a group over a ball, privately.

    Parameters
    ----------
    records : Records
        With targets and groups 0, ..., n_groups - 1.
    risk : EmpiricalRisk
        The mean of a convex loss that is not negative.
    weights : GroupWeights
        Public; with a histogram only their bound counts.
    budget : PrivacyBudget
    radius : float
        Public radius of the ball.
    n_phases, calibration
        See :func:`plan_max_group_loss`.
    run : Run, optional
        See :func:`skdp.algorithms.phased_saddle_output_perturbation`.
    **options
        `alpha`, `population`, `release_weights` and `histogram_share` of :class:`GroupObjective`.
    """
    design = Design.of(records)
    objective = GroupObjective(risk, design, coef_norm=radius, weights=weights, **options)
    plan = plan_max_group_loss(objective, budget, calibration, n_phases=n_phases)
    return plan.run(records, run or Run())


def plan_max_group_loss(
    objective: GroupObjective,
    budget: PrivacyBudget,
    calibration: str = "analytic",
    *,
    n_phases: int | None = None,
) -> MaxGroupLossPlan | HistogramPlan:
    """Choose the smooth risk, the phases and their noise by :class:`MaxGroupLossBound`.

    An objective with a histogram has a :class:`HistogramPlan`.

    Parameters
    ----------
    objective : GroupObjective
    budget : PrivacyBudget
    calibration : {"analytic", "paper"}, default="analytic"
        "paper": Alg. 4 as published, for comparison.
    n_phases : int, optional
        1 is output perturbation of all records; default: the planner chooses.

    Raises
    ------
    ValueError
        For a risk that is no mean over records, or if the calibration does not apply.
    """
    risk, relation = objective.risk, objective.neighbouring
    if not relation.is_replaced:
        raise ValueError("The saddle problem of groups has no proof for neighbouring='add_remove'.")
    if objective.design.is_weighted and calibration == "paper":
        raise ValueError("calibration='paper' has no proof for user_ids, nor for sample_weight.")
    if not risk.is_mean:
        raise ValueError(f"{type(risk).__name__} is no mean over records: phases do not apply.")
    if calibration == "paper" and (objective.release_weights or objective.histogram_share):
        raise ValueError("calibration='paper' releases the coefficients alone, without histogram.")
    if share := objective.histogram_share:
        design = objective.design
        sensitivity = proportions_sensitivity(design.n_records)
        if design.is_weighted:  # sums of weights are rounded, counts are not
            sensitivity += two_sums(design.n_terms)
        sizes = NoisyProportions(
            objective=objective,
            mechanism=calibrated_mechanism(budget, sensitivity, share=share),
            reference="docs/theory/saddle.md, 'Groups': one record, two counts",
        )
        return HistogramPlan(objective=objective, budget=budget, sizes=sizes, n_phases=n_phases)
    return _plan_fit(objective, budget, n_phases, calibration)


def _plan_fit(
    objective: GroupObjective,
    budget: PrivacyBudget,
    n_phases: int | None,
    calibration: str = "analytic",
) -> MaxGroupLossPlan:
    """Plan for known weights of the groups, with what a histogram leaves of the budget."""
    risk, design, weights = objective.risk, objective.design, objective.weights
    center_norm = euclidean_norm(Simplex(weights.n_groups).center(weights.n_groups))

    def plan(smooth: GroupObjective) -> MaxGroupLossPlan:
        constants = max_group_loss_constants(
            smooth.risk.loss, weights, design, smooth.radius, 1.0, 1.0, center_norm_y=center_norm
        )
        phased = plan_phased_saddle_output_perturbation(
            constants,
            budget,
            release="joint" if smooth.release_weights else "x",
            alpha=smooth.alpha,
            share=1.0 - smooth.histogram_share,
            calibration=calibration,  # type: ignore[arg-type]
            utility=MaxGroupLossBound(objective=smooth),
            n_phases=n_phases,
        )
        return MaxGroupLossPlan(objective=smooth, phased=phased, sizes=None)

    if risk.is_smooth:
        return plan(objective)
    # a width that suits the noise of the last phase, which depends on the width a little, but not
    # far below a margin: other solvers than Newton's would take very long
    spread = design.feature_norm * risk.reference_norm(design)
    least = rules.LEAST_MARGIN_SPREAD * risk.loss.margin_scale
    for _ in range(3):
        planned = plan(replace(objective, risk=risk.smoothed(spread)))
        spread = max(least, design.feature_norm * planned.phased.phases[-1].noise_deviation("x"))
    return planned

"""The worst group's loss, privately: saddle points by public bounds.

The algorithm is Zhang et al. (2022), Alg. 3 or 4. The groups' shares are public, the same for all
data sets, or released first with a part of the budget (docs/theory/saddle.md, "Groups").
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from skdp._runtime import without_warnings
from skdp.algorithms.output.phased_saddle import (
    PhasedSaddlePlan,
    SaddlePhase,
    plan_phased_saddle_output_perturbation,
)
from skdp.algorithms.plan import Run
from skdp.algorithms.worst_group import rules
from skdp.algorithms.worst_group.group_losses import (
    GroupSizes,
)
from skdp.algorithms.worst_group.group_plan import GroupResult, SizedGroupPlan
from skdp.algorithms.worst_group.proportions import NoisyProportions, proportions_sensitivity
from skdp.mechanisms import calibrated_mechanism
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.report import Release
from skdp.problems import (
    MaxGroupLossProblem,
    Records,
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
    def _numbers(self) -> tuple[float, float, float, float, float, float]:
        """Lipschitz constant, largest loss, curvature h and gradient ``sqrt(2 log(G) q)``.

        And the largest weight, and the distance of y* from its center.
        """
        objective = self.objective
        loss, design = objective.risk.loss, objective.design
        lipschitz = loss.lipschitz(design.feature_norm, objective.radius)
        largest = loss.largest_value(design.feature_norm, objective.radius)
        curvature = loss.curvature * design.second_moment
        gradient = min(lipschitz, math.sqrt(loss.sampling_scale * curvature))
        gradient *= math.sqrt(2.0 * math.log(objective.weights.n_groups))
        domain = objective.weights.domain
        return lipschitz, largest, curvature, gradient, domain.largest, 0.5 * domain.circumradius

    def __call__(self, phases: Sequence[SaddlePhase]) -> float:
        objective, (lipschitz, largest, curvature, gradient, c, away) = (
            self.objective,
            self._numbers,
        )
        risk, design = objective.risk, objective.design
        dimension, first = objective.dimension, phases[0]
        total = risk.penalty_cost(design, first.regularisation, objective.comparator_norm)
        total += 0.5 * first.other_regularisation * away**2
        square, moved = 0.0, 0.0
        for k, phase in enumerate(phases):
            if objective.population:
                stability = (c * lipschitz) ** 2 / phase.modulus
                stability += largest * largest / phase.other_modulus
                total += 2.0 * stability / phase.n_records
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
    """Phases of the saddle problem of groups, after a histogram if there is one.

    Attributes
    ----------
    phased : PhasedSaddlePlan
        For a smooth risk. Before a run with a histogram it is that for the largest weights.
    budget : PrivacyBudget
    n_phases : int or None
    share : float
        Part of the budget for the phases.
    """

    phased: PhasedSaddlePlan
    budget: PrivacyBudget
    n_phases: int | None
    share: float = 1.0
    sizes: NoisyProportions | None = None
    has_saddle = True

    @property
    def alpha(self) -> float:
        """The penalty of the solution; that of several phases has no one center."""
        added = self.phased.regularisation[0] if len(self.phased.phases) == 1 else 0.0
        return self.objective.alpha + added

    @property
    def releases(self) -> tuple[Release, ...]:
        last = self.phased.release("coefficients", self.objective.neighbouring)
        return (*self.first_releases(), last)

    def bound(self) -> float:
        return self.phased.bound()

    def remarks(self) -> tuple[str, ...]:
        return self.phased.remarks()

    def to_dict(self) -> dict[str, Any]:
        radius = self.objective.radius
        return {"radius": radius, **self.public_numbers(), **self.phased.to_dict()}

    def run(self, data: Records, run: Run) -> GroupResult:
        """Release the coefficients."""
        self.objective.design.check(data)
        self.objective.weights.check_groups(data.groups)
        if self.sizes is None:
            return self._phases(data, run)
        data.check_targets(self.objective.risk.loss)
        sums = data.total(GroupSizes(self.objective.weights.n_groups))
        known = self.known(self.sizes.noisy(sums / data.n_units, run.noise))
        # planned again, of the risk before it was smoothed
        objective = replace(self.sizes.objective, weights=known.objective.weights)
        fit = _plan_phases(objective, self.budget, self.n_phases, share=self.share)
        found = replace(fit, sizes=self.sizes, proportions=known.proportions)
        return found._phases(data, run)

    @without_warnings()
    def _phases(self, data: Records, run: Run) -> GroupResult:
        """Carry out the phases for known shares of the groups."""
        weights, radius = self.objective.weights, self.objective.radius
        # the regularisers are those of the phases
        problem = MaxGroupLossProblem(data, self.risk.loss, weights, radius, 1.0, 1.0)
        strata = data.groups if weights.public_groups else None
        return self.result(self.phased.run(problem, run, strata).point, None)


def plan_max_group_loss(
    objective: GroupObjective,
    budget: PrivacyBudget,
    calibration: str = "analytic",
    *,
    n_phases: int | None = None,
) -> MaxGroupLossPlan:
    """Choose the smooth risk, the phases and their noise by :class:`MaxGroupLossBound`.

    Parameters
    ----------
    objective : GroupObjective
    budget : PrivacyBudget
    calibration : {"analytic", "paper"}, default="analytic"
        "paper": Alg. 4 as published, for comparison.
    n_phases : int, optional
        Default: the planner chooses.

    Raises
    ------
    ValueError
        For a risk that is no mean over records, or if the calibration does not apply.
    """
    risk = objective.risk
    if not objective.neighbouring.is_replaced:
        raise ValueError("The saddle problem of groups has no proof for neighbouring='add_remove'.")
    if objective.design.is_weighted and calibration == "paper":
        raise ValueError("calibration='paper' has no proof for user_ids, nor for sample_weight.")
    if not risk.is_mean:
        raise ValueError(f"{type(risk).__name__} is no mean over records: phases do not apply.")
    share, design = objective.histogram_share, objective.design
    if calibration == "paper" and share:
        raise ValueError("calibration='paper' releases the coefficients alone, without histogram.")
    plan = _plan_phases(objective, budget, n_phases, calibration, 1.0 - share)
    if not share:
        return plan
    sensitivity = proportions_sensitivity(design.n_records)
    if design.is_weighted:  # sums of weights are rounded, counts are not
        sensitivity += two_sums(design.n_terms)
    sizes = NoisyProportions(
        objective=objective,
        mechanism=calibrated_mechanism(budget, sensitivity, share=share),
        reference="docs/theory/saddle.md, 'Groups': one record, two counts",
    )
    return replace(plan, sizes=sizes)


def _plan_phases(
    objective: GroupObjective,
    budget: PrivacyBudget,
    n_phases: int | None,
    calibration: str = "analytic",
    share: float = 1.0,
) -> MaxGroupLossPlan:
    """Plan for known shares of the groups, with a part of the budget."""
    risk, design, weights = objective.risk, objective.design, objective.weights
    center_norm = euclidean_norm(np.ones(weights.n_groups))

    def plan(smooth: GroupObjective) -> MaxGroupLossPlan:
        constants = max_group_loss_constants(
            smooth.risk.loss, weights, design, smooth.radius, 1.0, 1.0, center_norm_y=center_norm
        )
        phased = plan_phased_saddle_output_perturbation(
            constants,
            budget,
            alpha=smooth.alpha,
            share=share,
            calibration=calibration,  # type: ignore[arg-type]
            utility=MaxGroupLossBound(objective=smooth),
            n_phases=n_phases,
        )
        return MaxGroupLossPlan(
            objective=smooth, phased=phased, budget=budget, n_phases=n_phases, share=share
        )

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

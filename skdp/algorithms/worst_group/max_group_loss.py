"""The worst group's loss, privately: saddle points by public bounds, after a look at the groups.

The algorithm is Zhang et al. (2022), Alg. 3 or 4. The groups' shares are public, the same for all
data sets, or released first with a part of the budget. The bound W on the weight of a group is
public, or follows from the noisy losses of the groups under a released plain model, which the
saddle problem is then centered at. With W = 1 there is nothing but the plain model
(docs/theory/saddle.md, "Groups").
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from skdp._runtime import without_warnings
from skdp.algorithms.core.fit import CorePlan, plan_core, plan_core_of
from skdp.algorithms.core.noisy_sums import Level, NoisySum
from skdp.algorithms.core.plan import inputs_of
from skdp.algorithms.output.phased_saddle import (
    PhasedSaddlePlan,
    SaddlePhase,
    plan_phased_saddle_output_perturbation,
)
from skdp.algorithms.plan import Run
from skdp.algorithms.worst_group import rules
from skdp.algorithms.worst_group.group_losses import (
    ClippedLossTerms,
    GroupTotals,
    clipped_losses,
    loss_range,
    loss_sensitivity,
)
from skdp.algorithms.worst_group.group_plan import GroupPlan, GroupResult, noisy_sizes
from skdp.algorithms.worst_group.plain_models import PlainModelPlan
from skdp.mechanisms import NoiseSource, calibrated_mechanism
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import ComposedEvent
from skdp.privacy.report import Release
from skdp.problems import (
    Ball,
    EmpiricalRisk,
    GroupWeights,
    MaxGroupLossProblem,
    Records,
)
from skdp.problems.domains import euclidean_norm
from skdp.problems.group_objective import GroupObjective
from skdp.problems.max_group_loss import max_group_loss_constants
from skdp.problems.rounding import two_margins


@dataclass(frozen=True, kw_only=True)
class MaxGroupLossBound:
    """Public estimate of the expected excess of the largest group loss, for choosing a plan.

    As :func:`skdp.algorithms.output.phased.phased_utility_bound`, but y* is half-way from equal
    weights to one group, a group has only ``n / c`` records, and noise moves the losses of groups
    in different directions: ``sqrt(2 log(G) q v)``, v the variance of a coordinate of the noise and
    ``q = loss.sampling_scale * h``, ``h = loss.curvature * second_moment``. Where mu_1 > 2 h it is
    multiplied by ``(mu_1 / 2 h)^2``: it would favour the predictor 0, which predicts no label.
    """

    objective: GroupObjective

    @cached_property
    def _numbers(self) -> tuple[float, float, float, float, float, float]:
        """Lipschitz constant, largest loss, h, ``sqrt(2 log(G) q)``, c, and half a radius."""
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
        lipschitz, largest, curvature, gradient, c, away = self._numbers
        objective, risk, design = self.objective, self.objective.risk, self.objective.design
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
class MaxGroupLossPlan(GroupPlan):
    """Phases of the saddle problem of groups with known shares, for a smooth risk."""

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
        return (self.phased.release(name, self.objective.neighbouring),)

    def bound(self) -> float:
        return self.phased.bound()

    def remarks(self) -> tuple[str, ...]:
        return self.phased.remarks()

    def to_dict(self) -> dict[str, Any]:
        radius = self.objective.radius
        numbers = {"radius": radius, **self.public_numbers(), **self.phased.to_dict()}
        if self.objective.release_weights:
            numbers["group_weights_noise"] = self.phased.phases[-1].noise_scale_y
        return numbers

    @without_warnings()
    def run(self, data: Records, run: Run, center: np.ndarray | None = None) -> GroupResult:
        """Release the coefficients x and, if the objective says so, the worst-case weights y.

        The center of the regulariser of x is a released point; by default it is 0.
        """
        self.objective.design.check(data)
        weights, radius = self.objective.weights, self.objective.radius
        center = None if center is None else Ball(radius).project(center)
        # the regularisers are those of the phases
        problem = MaxGroupLossProblem(data, self.risk.loss, weights, radius, 1.0, 1.0)
        problem = problem.with_regularisers(1.0, 1.0, center)
        strata = data.groups if weights.public_groups else None
        found = self.phased.run(problem, run, strata)
        # without noise if they are not released
        shares = np.array(weights.domain.shares)
        return self.result(
            found.point, shares * found.y if self.objective.release_weights else None
        )


@dataclass(frozen=True, kw_only=True)
class LookPlan(GroupPlan):
    """Noisy shares of the groups, and a look at their losses, where a fit waits for them."""

    budget: PrivacyBudget
    n_phases: int | None
    #: Part of the budget for what follows.
    share: float
    #: The model that the groups' losses are looked at under; None: their largest weight is public.
    plain: CorePlan | None = None
    losses: NoisySum | None = None
    #: After a run: of the fit.
    last: GroupPlan | None = None
    has_saddle = True

    @property
    def earlier(self) -> tuple[Release, ...]:
        """The releases before the fit."""
        looks = () if self.plain is None else self.plain.releases
        losses = () if self.losses is None else (self.losses.describe(),)
        return (*self.first_releases(), *looks, *losses)

    @property
    def event(self) -> ComposedEvent:
        """All releases; what the last ones cost does not depend on the others."""
        rest = calibrated_mechanism(self.budget, 1.0, share=self.share)
        last = rest.event(self.objective.neighbouring)
        return ComposedEvent((*(release.event for release in self.earlier), last))

    @cached_property
    def releases(self) -> tuple[Release, ...]:
        """Before a run those for the largest weights."""
        last = self.fit(self.objective.weights) if self.last is None else self.last
        return (*self.earlier, *last.releases)

    @property
    def risk(self) -> EmpiricalRisk:
        return self.objective.risk if self.last is None else self.last.risk

    @property
    def alpha(self) -> float:
        return self.objective.alpha if self.last is None else self.last.alpha

    def alarms(self) -> tuple[str, ...]:
        return () if self.plain is None else self.plain.alarms()

    def found_alarms(self) -> tuple[str, ...]:
        return () if self.last is None else self.last.found_alarms()

    def remarks(self) -> tuple[str, ...]:
        if self.last is None:
            return ()
        if self.losses is None:
            return self.last.remarks()
        largest = max(self.last.objective.weights.largest)
        looked = f"after a look at the groups' losses their largest weight is {largest:.3g}"
        return (looked, *self.last.remarks())

    def to_dict(self) -> dict[str, Any]:
        last = {} if self.last is None else self.last.to_dict()
        return {"radius": self.objective.radius, **self.public_numbers(), **last}

    def fit(self, weights: GroupWeights, n_phases: int | None = None) -> MaxGroupLossPlan:
        """Plan the fit with the rest of the budget."""
        objective = replace(self.objective, weights=weights)
        return _plan_fit(objective, self.budget, n_phases or self.n_phases, share=self.share)

    def run(self, data: Records, run: Run) -> GroupResult:
        self.objective.design.check(data)
        data.check_targets(self.objective.risk.loss)
        self.objective.weights.check_groups(data.groups)
        known = self.weighted(data, run.noise)
        return known._looked(data, run) if self.losses is not None else known._ended(data, run)

    def _ended(self, data: Records, run: Run, center: np.ndarray | None = None) -> GroupResult:
        plan = self.fit(self.objective.weights)
        plan = replace(plan, proportions=self.proportions)
        result = plan.run(data, run, center)
        done: GroupResult = replace(result, plan=replace(self, last=result.plan))
        return done

    def _looked(self, data: Records, run: Run) -> GroupResult:
        """Release a plain model and the groups' losses, then fit for what they call for."""
        assert self.plain is not None and self.losses is not None
        result = self.plain.run(data, run)
        plain: CorePlan = result.plan
        looked = replace(self, plain=plain)
        weights = looked._chosen(data, result.point, run.noise)
        objective = replace(self.objective, weights=weights)
        looked = replace(looked, objective=objective)
        if weights.bound > 1.0 or (self.n_phases or 1) > 1:
            return looked._ended(data, run, result.point)
        level = Level.of(self.budget).part(self.share)
        again = PlainModelPlan(**inputs_of(plan_core_of(objective, level.mu)))
        second = again.run(data, run)
        # both are estimates of one model
        share = level.mu**2 / (level.mu**2 + plain.mu**2)
        point = result.point + share * (second.point - result.point)
        last: PlainModelPlan = replace(second.plan, proportions=self.proportions)
        shares = np.array(weights.domain.shares) if objective.release_weights else None
        released = last.result(point, shares)
        done: GroupResult = replace(released, plan=replace(looked, last=last))
        return done

    def _chosen(self, data: Records, point: np.ndarray, noise: NoiseSource) -> GroupWeights:
        """Choose the bound on the weights of the groups by their noisy losses."""
        assert self.plain is not None and self.losses is not None
        weights, n = self.objective.weights, self.objective.design.n_records
        clipped = clipped_losses(self.plain)
        flat = point.reshape(self.plain.loss.n_outputs, -1)
        terms = ClippedLossTerms(
            loss=self.plain.loss, clipped=clipped, weights=flat, shift=np.zeros(())
        )
        reached = data.norm_bound * euclidean_norm(point)
        moved = clipped.moved(two_margins(self.objective.design.width, reached))
        exact = data.total(GroupTotals(weights.n_groups, terms))
        sums, scale = self.losses.release(exact, noise, moved)
        p = np.array(weights.domain.shares)
        losses = clipped.losses(sums[:, 0] / (n * p)) * clipped.unit / clipped.factor
        gaps = excess_losses(losses, scale * clipped.unit / (n * p), p, n, clipped.unit)
        bounds = np.geomspace(1.0, max(1.0, weights.bound), rules.BOUNDS)
        prices = [self.fit(weights.capped(bound), 1).bound() for bound in bounds]
        left = 1.0 - (np.minimum(1.0, bounds[:, None] * p) - p) / np.maximum(1.0 - p, 1e-12)
        return weights.capped(float(bounds[np.argmin(prices + (gaps * left).max(axis=1))]))


def excess_losses(
    losses: np.ndarray, errors: np.ndarray, shares: np.ndarray, n_records: float, unit: float
) -> np.ndarray:
    """Return what the groups' losses are surely above the mean: shrunk, less one deviation.

    What is above the loss of a large group counts, if that is more: its weight is large already.
    """
    variances = errors**2 + unit**2 * rules.LOSS_VARIANCE / (n_records * shares)
    spread = (unit * rules.LARGEST_SPREAD) ** 2
    shrunk = (losses - shares @ losses) * spread / (spread + variances)
    usual = float(shrunk[shares >= rules.LARGE].max(initial=0.0))
    return np.maximum(shrunk - np.sqrt(variances) - usual, 0.0)


def plan_max_group_loss(
    objective: GroupObjective,
    budget: PrivacyBudget,
    calibration: str = "analytic",
    *,
    n_phases: int | None = None,
    looks: bool = False,
) -> MaxGroupLossPlan | LookPlan | PlainModelPlan:
    """Choose the smooth risk, the phases and their noise by :class:`MaxGroupLossBound`.

    Parameters
    ----------
    objective : GroupObjective
    budget : PrivacyBudget
    calibration : {"analytic", "paper"}, default="analytic"
        "paper": Alg. 4 as published, for comparison.
    n_phases : int, optional
        Default: the planner chooses. Unless there are several, the plain model is taken where the
        largest weight is 1.
    looks : bool, default=False
        Whether the bound of the weights is an upper one, of what a look at the losses chooses.

    Returns
    -------
    MaxGroupLossPlan, LookPlan or PlainModelPlan

    Raises
    ------
    ValueError
        For a risk that is no mean over records, or if the calibration does not apply.
    """
    risk, relation, weights = objective.risk, objective.neighbouring, objective.weights
    if not relation.is_replaced:
        raise ValueError("The saddle problem of groups has no proof for neighbouring='add_remove'.")
    if objective.design.is_weighted and calibration == "paper":
        raise ValueError("calibration='paper' has no proof for user_ids, nor for sample_weight.")
    if not risk.is_mean:
        raise ValueError(f"{type(risk).__name__} is no mean over records: phases do not apply.")
    share = objective.histogram_share
    if calibration == "paper" and (objective.release_weights or share or looks):
        raise ValueError("calibration='paper' releases the coefficients alone, without histogram.")
    is_plain = weights.bound == 1.0 and (n_phases or 1) == 1 and calibration == "analytic"
    if is_plain and not budget.is_pure:
        return PlainModelPlan(**inputs_of(plan_core(objective, budget)))
    looks = looks and weights.bound > 1.0 and not budget.is_pure
    if not (share or looks):
        return _plan_fit(objective, budget, n_phases, calibration)
    plan = LookPlan(objective=objective, budget=budget, n_phases=n_phases, share=1.0 - share)
    if share:
        reference = "docs/theory/saddle.md, 'Groups': one record, two counts"
        level = Level.of(budget).part(share)
        plan = replace(plan, sizes=noisy_sizes(objective, level, weights.n_groups, reference))
    if not looks:
        return plan
    rest = Level.of(budget).part(plan.share)
    first = plan_core_of(objective, rest.part(rules.PLAIN_SHARE).mu)
    losses = NoisySum(
        design=objective.design,
        neighbouring=relation,
        mu=rest.part(rules.LOOK_SHARE).mu,
        sensitivity=loss_sensitivity(first.loss, True),
        size=loss_range(first.loss)[1],
        n_entries=weights.n_groups,
        name="losses of the groups",
        reference="docs/theory/worst_group.md, Lemma 2",
    )
    left = 1.0 - rules.PLAIN_SHARE - rules.LOOK_SHARE
    return replace(plan, share=plan.share * left, plain=first, losses=losses)


def _plan_fit(
    objective: GroupObjective,
    budget: PrivacyBudget,
    n_phases: int | None,
    calibration: str = "analytic",
    share: float = 1.0,
) -> MaxGroupLossPlan:
    """Plan for known shares of the groups, with a part of the budget."""
    risk, design, weights = objective.risk, objective.design, objective.weights

    def plan(smooth: GroupObjective) -> MaxGroupLossPlan:
        constants = max_group_loss_constants(
            smooth.risk.loss, weights, design, smooth.radius, 1.0, 1.0
        )
        phased = plan_phased_saddle_output_perturbation(
            constants,
            budget,
            release="joint" if smooth.release_weights else "x",
            alpha=smooth.alpha,
            share=share,
            calibration=calibration,  # type: ignore[arg-type]
            utility=MaxGroupLossBound(objective=smooth),
            n_phases=n_phases,
        )
        return MaxGroupLossPlan(objective=smooth, phased=phased)

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

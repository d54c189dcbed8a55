"""The exponential mechanism after localisation, and the draws of linear models.

Algorithms 10 and 11 of Lowy and Razaviyayn (2021), appendix G: output perturbation finds a small
ball, in which the density of :mod:`skdp.algorithms.exponential.mechanism` is sharper. Proofs:
``docs/theory/exponential_mechanism.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import gammaincc

from skdp.algorithms.exponential import rules
from skdp.algorithms.exponential.mechanism import (
    ExponentialPlan,
    bound_log_proposals,
    bound_oscillation,
    check_case,
    check_proposals,
    plan_exponential_mechanism,
)
from skdp.algorithms.exponential.sampling import CenteredBall
from skdp.algorithms.output.one_shot import OutputPerturbationPlan, plan_output_perturbation
from skdp.algorithms.output.regularized_risk import plan_regularized_risk
from skdp.algorithms.plan import Result, Run, require_replace_one
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import ComposedEvent, PrivacyEvent
from skdp.problems import (
    Ball,
    Design,
    EmpiricalRisk,
    FiniteSumProblem,
    Loss,
    Objective,
    Records,
    bounded_problem_radius,
)

#: Smallest ratio of a local radius to the large one: rounded to 1e-4 there.
_SMALLEST_SHARE = 1e-12


@dataclass(frozen=True, kw_only=True)
class LocalizedExponentialPlan(ExponentialPlan):
    """A localisation and a draw, each with half of the budget."""

    #: Release of the center w0.
    output: OutputPerturbationPlan
    #: Radius r0 of the ball around w0; the draw is from its part in the large ball.
    local_radius: float
    #: Bounds on the probability that the ball around w0 does not hold the minimiser, and on what
    #: that adds to the expected objective (docs/theory/exponential_mechanism.md, Lemma 3).
    miss_probability: float
    miss_cost: float

    shown = (
        *ExponentialPlan.shown,
        *("local_radius", "miss_probability", "miss_cost"),
        *("output.mechanism.sensitivity", "output.mechanism.noise_scale", "output.accuracy"),
    )

    def bound(self) -> float:
        """That of a draw at the largest oscillation, plus ``miss_cost``."""
        return super().bound() + self.miss_cost

    def localised(self, center: np.ndarray) -> ExponentialPlan:
        """Plan the draw around a released center."""
        norm, design = float(np.linalg.norm(center)), self.design
        radii = self.local_radius, norm, self.radius
        oscillation = bound_oscillation(self.loss, design.feature_norm, *radii, design.is_slack)
        return replace(self, oscillation=oscillation)

    @property
    def event(self) -> PrivacyEvent:
        """The cost of both points, which the release of the last one has."""
        return ComposedEvent((*(r.event for r in self.output.releases), super().event))

    def run(self, data: Records, run: Run) -> Result:
        self.design.check(data)
        problem = FiniteSumProblem(data, self.loss, self.alpha, Ball(self.radius))
        center = self.output.run(problem, run).point
        near = CenteredBall(center=center, radius=self.local_radius)
        point = self.localised(center).draw(data, run, near)
        return Result(point=point, plan=self, path=(center,))


def localized_exponential(
    records: Records,
    loss: Loss,
    budget: PrivacyBudget,
    *,
    run: Run | None = None,
    **options: Any,
) -> Result:
    """Localise the minimiser by output perturbation, then draw from its neighbourhood.

    Lowy and Razaviyayn (2021), Alg. 10 and 11: half of the budget each. The draw is from the
    intersection of the ball around 0 and of a small one around the released point, on which the
    losses differ by less. The `path` of the result has the released center.

    Parameters
    ----------
    records, loss, budget, run
        As in :func:`exponential_mechanism`.
    **options
        `radius`, `alpha`, and the optional parameters of :func:`plan_localized_exponential`.
    """
    plan = plan_localized_exponential(loss, Design.of(records), budget, **options)
    return plan.run(records, run or Run())


def plan_localized_exponential(
    loss: Loss,
    design: Design,
    budget: PrivacyBudget,
    *,
    radius: float,
    alpha: float,
) -> LocalizedExponentialPlan:
    """Choose the noise, the density and the local radius of the least bound from public numbers.

    Parameters
    ----------
    loss, design, budget, radius
        As in :func:`plan_exponential_mechanism`.
    alpha : float
        > 0.

    Raises
    ------
    ValueError
        As :func:`plan_exponential_mechanism`, for ``alpha == 0`` and for a tiny local radius.
    """
    check_case(loss, budget, radius, alpha, design.n_records)
    if not alpha > 0:
        raise ValueError(f"alpha == {alpha}: localisation needs strong convexity, alpha > 0.")
    norm, half = design.feature_norm, PrivacyBudget(0.5 * budget.epsilon)
    radius = bounded_problem_radius(loss, norm, alpha, radius)
    constants = EmpiricalRisk(loss).constants(design, alpha, radius)
    output = plan_output_perturbation(constants, half, neighbouring=design.replaced)

    def plan(local_radius: float) -> LocalizedExponentialPlan:
        local_radius = min(local_radius, 2.0 * radius)  # that is all of the large ball
        probability, excess = _miss(output, local_radius)
        # a smaller norm of the center allows for a larger concentration, at most this one
        least = bound_oscillation(loss, norm, local_radius, 0.0, radius, design.is_slack)
        s = design.n_records * half.epsilon / least
        near = min(local_radius, radius)
        cost = (constants.lipschitz + alpha * radius) * excess
        return LocalizedExponentialPlan(
            loss=loss,
            design=design,
            epsilon=half.epsilon,
            alpha=alpha,
            radius=radius,
            oscillation=bound_oscillation(
                loss, norm, local_radius, radius, radius, design.is_slack
            ),
            log_proposals=bound_log_proposals(loss, norm, radius, near, alpha, design.width, s),
            reference="Lowy & Razaviyayn 2021, Alg. 11 with the oscillation of the losses",
            output=output,
            local_radius=local_radius,
            miss_probability=probability,
            miss_cost=cost,
        )

    mean = design.width * output.mechanism.noise_scale + output.accuracy
    plans = (plan(share * mean) for share in np.geomspace(*rules.LOCAL_RADII))
    best = min(plans, key=LocalizedExponentialPlan.bound)
    if best.local_radius < _SMALLEST_SHARE * radius:
        raise ValueError(
            f"The local radius, {best.local_radius:g}, is too small for double precision around a "
            f"point of norm up to {radius:g}. Use output perturbation."
        )
    check_proposals(best.log_proposals)
    return best


def plan_draw(
    objective: Objective, budget: PrivacyBudget
) -> ExponentialPlan | LocalizedExponentialPlan:
    """Plan a draw for an objective, alone or after localisation by their bounds.

    The ball is that of the objective or, if that needs too many proposals and no radius was
    declared, that of a good predictor.
    """
    require_replace_one(objective.neighbouring, "A draw")
    radius = objective.radius
    if objective.coef_norm is None and _fast_draw(objective, budget, radius) is None:
        radius = objective.risk.reference_norm(objective.design)
    if objective.alpha == 0:
        return _draw(objective, budget, radius)
    loss, design = _smooth_loss(objective, budget), objective.design
    local = plan_localized_exponential(loss, design, budget, radius=radius, alpha=objective.alpha)
    alone = _fast_draw(objective, budget, radius)
    return local if alone is None or local.bound() < alone.bound() else alone


def draw_bound(objective: Objective, budget: PrivacyBudget) -> float:
    """Return the bound of a draw on the ball of the objective, for comparison with other methods.

    Those are for rows of the largest norm, and fall with the squares of norms. ``inf``: slow draws.
    """
    if not (budget.is_pure and objective.risk.loss.n_outputs == 1):
        return math.inf
    plan = _fast_draw(objective, budget, objective.radius)
    if plan is None or plan.log_proposals > math.log(rules.FAST_LIMIT):
        return math.inf
    bound = rules.BOUND_FACTOR * plan.bound()
    if objective.population:
        # uniform stability: total variation times the range of a loss over the ball
        lipschitz = plan.loss.lipschitz(objective.design.feature_norm, plan.radius)
        bound += 2.0 * plan.radius * lipschitz * math.tanh(0.5 * budget.epsilon)
    return bound


def _fast_draw(
    objective: Objective, budget: PrivacyBudget, radius: float
) -> ExponentialPlan | None:
    """Return :func:`_draw`, or None if it needs too many proposals."""
    try:
        return _draw(objective, budget, radius)
    except ValueError:
        return None


def _draw(objective: Objective, budget: PrivacyBudget, radius: float) -> ExponentialPlan:
    loss, design, alpha = _smooth_loss(objective, budget), objective.design, objective.alpha
    return plan_exponential_mechanism(loss, design, budget, radius=radius, alpha=alpha)


def _smooth_loss(objective: Objective, budget: PrivacyBudget) -> Loss:
    smooth = objective.risk.is_smooth
    return (objective if smooth else plan_regularized_risk(objective, budget)).risk.loss


def _miss(output: OutputPerturbationPlan, local_radius: float) -> tuple[float, float]:
    """Bounds on ``P(distance > r0)`` and ``E (distance - r0)_+`` of the center to the minimiser."""
    scale, d = output.mechanism.noise_scale, output.constants.dimension
    beyond = 2.0 * output.constants.radius - local_radius
    if beyond <= 0:
        return 0.0, 0.0
    x = (local_radius - output.accuracy) / scale
    if x <= 0:
        return 1.0, min(beyond, scale * (d - x))
    probability = float(gammaincc(d, x))
    excess = scale * max(d * float(gammaincc(d + 1, x)) - x * probability, 0.0)
    return probability, min(beyond * probability, excess)

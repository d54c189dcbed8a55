"""The exponential mechanism over a ball, sampled exactly, alone or after localisation.

Algorithms 9, 10 and 11 of Lowy and Razaviyayn (2021), appendix G: a point of a ball with density
proportional to ``exp(-s F(w))``, F the regularised empirical risk; pure epsilon-differential
privacy. Markov chains would only come near that law and lose the guarantee. The sampler of
:mod:`skdp.algorithms.exponential.sampling` has *exactly* the stated law (up to floating point), and
a run time that depends on the records. Proofs: ``docs/theory/exponential_mechanism.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import gammaincc

from skdp._checks import check_non_negative, check_positive
from skdp._runtime import without_warnings
from skdp.algorithms.exponential import rules
from skdp.algorithms.exponential.sampling import CenteredBall, Density, draw
from skdp.algorithms.output.one_shot import OutputPerturbationPlan, plan_output_perturbation
from skdp.algorithms.output.regularized_risk import plan_regularized_risk
from skdp.algorithms.plan import Plan, Result, Run, require_replace_one
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import ComposedEvent, ExponentialMechanismEvent
from skdp.privacy.report import Release
from skdp.problems import (
    ROUNDING_SLACK,
    Ball,
    Design,
    EmpiricalRisk,
    FiniteSumProblem,
    LogisticLoss,
    Loss,
    Objective,
    Records,
    SoftmaxLoss,
    bounded_problem_radius,
)

#: Largest public bound on the expected number of proposals that a plan accepts.
PROPOSAL_LIMIT = 1e6
#: Largest ``n epsilon``, the unit of the exponents of the density, and smallest ratio of a local
#: radius to the large one: rounded to 1e-4 there.
_LARGEST_EXPONENT, _SMALLEST_SHARE = 1e11, 1e-12
#: Usual standard deviations, of targets over their bound and of log odds, for a warning.
_SPREAD, _SPREAD_OF_ODDS = 0.16, 1.0
#: Least base-2 logarithm of a step of the grid of released points.
_LEAST_LOG = -1000


@dataclass(frozen=True, kw_only=True)
class ExponentialPlan(Plan):
    """One draw from a ball."""

    loss: Loss
    design: Design
    epsilon: float
    alpha: float
    radius: float
    #: Bound on ``max - min`` over the ball of the difference of two records' losses.
    oscillation: float
    #: Logarithm of a bound on the expected number of proposals.
    log_proposals: float
    reference: str = "Lowy & Razaviyayn 2021, Alg. 9 with the oscillation of the losses"

    shown = "alpha", "radius", "oscillation", "concentration", "log_proposals"

    @property
    def risk(self) -> EmpiricalRisk:
        return EmpiricalRisk(self.loss)

    @property
    def concentration(self) -> float:
        """The factor s of the density ``exp(-s F(w))``: ``n epsilon / oscillation``."""
        return self.design.n_records * self.epsilon / self.oscillation

    @property
    def step(self) -> float:
        """Step of the public grid of released points: at most 2^-20 of the width of a density
        whose minimiser is inside of the ball.

        A power of 2 that follows from bounds on the derivatives of F on the ball.
        """
        norm, s, slope = self.design.feature_norm, self.concentration, self._slope
        curvature = self.loss.smoothness(norm) + self.alpha
        width = min(max(1.0 / (s * slope), 1.0 / math.sqrt(s * curvature)), self.radius)
        return math.ldexp(1.0, max(math.frexp(width)[1] - 1 - rules.LOG_STEPS, _LEAST_LOG))

    def alarms(self) -> tuple[str, ...]:
        """Warn of a draw that adds as much to the loss as a constant does."""
        bound, added = self.loss.target_bound, 0.5 * self.design.width / self.concentration
        if bound and not self.loss.is_quadratic:
            return ()
        spread = _SPREAD * bound if bound else _SPREAD_OF_ODDS
        curvature = 1.0 if bound else LogisticLoss().curvature
        if added <= 0.5 * curvature * spread**2:
            return ()
        return (
            f"The noise of a draw of {self.design.width} coefficients adds about {added:.3g} to "
            f"the mean loss. A constant may be as good{', unless targets vary much' * bool(bound)}",
        )

    def remarks(self) -> tuple[str, ...]:
        return (
            "the sampler decides in double precision: delta = 0 holds up to a total variation of "
            "the size of rounding (docs/theory/exponential_mechanism.md, Lemma 5)",
        )

    @property
    def _slope(self) -> float:
        """Lipschitz constant of F on the ball."""
        lipschitz = self.loss.lipschitz(self.design.feature_norm, self.radius)
        return lipschitz + self.alpha * self.radius

    def bound(self) -> float:
        """``d / s``, and what the grid adds (docs/theory/exponential_mechanism.md, Lemma 2)."""
        d = self.design.width
        return d / self.concentration + self._slope * self.step * math.sqrt(d)

    @property
    def event(self) -> ExponentialMechanismEvent:
        """The cost of the draw: log ratios lie in an interval of length epsilon (Lemma 1)."""
        return ExponentialMechanismEvent(self.epsilon, self.design.replaced)

    @property
    def releases(self) -> tuple[Release, ...]:
        """The draw: sensitivity is the oscillation, the noise scale ``oscillation / epsilon``."""
        scales = self.oscillation, self.oscillation / self.epsilon
        sizes = self.design.width, self.design.n_records
        release = Release(
            "coefficients", "exponential", *scales, *sizes, self.reference, self.event
        )
        return (release,)

    def run(self, data: Records, run: Run) -> Result:
        return Result(point=self.draw(data, run), plan=self)

    def draw(self, records: Records, run: Run, *balls: CenteredBall) -> np.ndarray:
        """Draw from the intersection of the plan's ball and others."""
        self.design.check(records)
        balls = (CenteredBall(center=np.zeros(self.design.width), radius=self.radius), *balls)
        with without_warnings():
            density = Density(
                records=records,
                loss=self.loss,
                alpha=self.alpha,
                concentration=self.concentration,
                balls=balls,
            )
            for _ in run.counted("draw", 1):
                point = draw(density, run.solver, run.rng, run.noise)
            # towards 0, so that it stays in the ball; + 0.0: no sign of zero
            return np.asarray(np.trunc(point / self.step) * self.step) + 0.0


@dataclass(frozen=True, kw_only=True)
class LocalizedExponentialPlan(Plan):
    """A localisation and a draw, each with half of the budget."""

    #: Release of the center w0.
    output: OutputPerturbationPlan
    #: The draw for a center on the sphere, which has the largest oscillation; the actual one
    #: follows from the released center by :meth:`localised`.
    sampling: ExponentialPlan
    #: Radius r0 of the ball around w0; the draw is from its part in the large ball.
    local_radius: float
    #: Bounds on the probability that the ball around w0 does not hold the minimiser, and on what
    #: that adds to the expected objective (docs/theory/exponential_mechanism.md, Lemma 3).
    miss_probability: float
    miss_cost: float

    shown = (
        *(f"sampling.{name}" for name in ExponentialPlan.shown),
        *("local_radius", "miss_probability", "miss_cost"),
        *("output.mechanism.sensitivity", "output.mechanism.noise_scale", "output.accuracy"),
    )

    @property
    def alpha(self) -> float:
        return self.sampling.alpha

    @property
    def risk(self) -> EmpiricalRisk:
        return self.sampling.risk

    def alarms(self) -> tuple[str, ...]:
        return self.sampling.alarms()

    def bound(self) -> float:
        """That of a draw at the largest oscillation, plus ``miss_cost``."""
        return self.sampling.bound() + self.miss_cost

    def localised(self, center: np.ndarray) -> ExponentialPlan:
        """Plan the draw around a released center."""
        sampling, norm = self.sampling, float(np.linalg.norm(center))
        radii = self.local_radius, norm, sampling.radius
        design = sampling.design
        oscillation = _oscillation(
            sampling.loss, design.feature_norm, *radii, is_slack=design.is_slack
        )
        return replace(sampling, oscillation=oscillation)

    @property
    def event(self) -> ComposedEvent:
        return ComposedEvent((*(r.event for r in self.output.releases), self.sampling.event))

    @property
    def releases(self) -> tuple[Release, ...]:
        """The last point; with its event both points."""
        return (replace(self.sampling.releases[0], event=self.event),)

    def run(self, data: Records, run: Run) -> LocalizedExponentialResult:
        sampling = self.sampling
        sampling.design.check(data)
        problem = FiniteSumProblem(data, sampling.loss, sampling.alpha, Ball(sampling.radius))
        center = self.output.run(problem, run).point
        near = CenteredBall(center=center, radius=self.local_radius)
        point = self.localised(center).draw(data, run, near)
        return LocalizedExponentialResult(point=point, plan=self, center=center)


@dataclass(frozen=True, kw_only=True)
class LocalizedExponentialResult(Result):
    """A private point, the plan, and the released center; the guarantee covers both points."""

    center: np.ndarray


def exponential_mechanism(
    records: Records,
    loss: Loss,
    budget: PrivacyBudget,
    *,
    run: Run | None = None,
    **options: Any,
) -> Result:
    """Draw a point of a ball with density proportional to ``exp(-s F(w))``; replace-one neighbours.

    F is ``mean loss + (alpha/2) ||w||^2``, and ``s = n epsilon / oscillation``
    (Lowy and Razaviyayn 2021, Alg. 9, with a smaller oscillation than ``4 L R``).

    Parameters
    ----------
    records : Records
    loss : Loss
        Convex, smooth, of one margin.
    budget : PrivacyBudget
        With ``delta == 0``.
    run : Run, optional
        Its solver finds the anchor of the sampler: it decides how long sampling takes, never its
        law.
    **options
        `radius`, and the optional parameters of :func:`plan_exponential_mechanism`.
    """
    plan = plan_exponential_mechanism(loss, Design.of(records), budget, **options)
    return plan.run(records, run or Run())


def plan_exponential_mechanism(
    loss: Loss,
    design: Design,
    budget: PrivacyBudget,
    *,
    radius: float,
    alpha: float = 0.0,
    proposal_limit: float = PROPOSAL_LIMIT,
) -> ExponentialPlan:
    """Choose the density from public numbers.

    Parameters
    ----------
    loss : Loss
    design : Design
    budget : PrivacyBudget
    radius : float
        Public radius of the ball. With ``alpha > 0`` the ball is cut down to
        ``loss.solution_radius``, which holds the minimiser of every data set.
    alpha : float, default=0.0
    proposal_limit : float, default=1e6
        Largest bound on the expected number of proposals
        (docs/theory/exponential_mechanism.md, Lemma 4).

    Raises
    ------
    ValueError
        For ``delta > 0``, several margins, or too many proposals.
    """
    _check_case(loss, budget, radius, alpha, design.n_records)
    norm, epsilon = design.feature_norm, budget.epsilon
    if alpha > 0:
        radius = bounded_problem_radius(loss, norm, alpha, radius)
    oscillation = _oscillation(loss, norm, radius, 0.0, radius, design.is_slack)
    s = design.n_records * epsilon / oscillation
    log_proposals = _log_proposals(loss, norm, radius, radius, alpha, design.width, s)
    _check_proposals(log_proposals, proposal_limit)
    return ExponentialPlan(
        loss=loss,
        design=design,
        epsilon=epsilon,
        alpha=alpha,
        radius=radius,
        oscillation=oscillation,
        log_proposals=log_proposals,
    )


def localized_exponential(
    records: Records,
    loss: Loss,
    budget: PrivacyBudget,
    *,
    run: Run | None = None,
    **options: Any,
) -> LocalizedExponentialResult:
    """Localise the minimiser by output perturbation, then draw from its neighbourhood.

    Lowy and Razaviyayn (2021), Alg. 10 and 11: half of the budget each. The draw is from the
    intersection of the ball around 0 and of a small one around the released point, on which the
    losses differ by less.

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
    xi: float | None = None,
    proposal_limit: float = PROPOSAL_LIMIT,
) -> LocalizedExponentialPlan:
    """Choose the local radius, the noise and the density from public numbers.

    Parameters
    ----------
    loss, design, budget, radius, proposal_limit
        As in :func:`plan_exponential_mechanism`.
    alpha : float
        > 0.
    xi : float, optional
        The local radius in units of ``d * noise scale``, the mean norm of the noise. Default:
        the radius that minimises the public bound of the plan.

    Raises
    ------
    ValueError
        As :func:`plan_exponential_mechanism`, for ``alpha == 0`` and for a tiny local radius.
    """
    _check_case(loss, budget, radius, alpha, design.n_records)
    if not alpha > 0:
        raise ValueError(f"alpha == {alpha}: localisation needs strong convexity, alpha > 0.")
    if xi is not None:
        check_positive(xi=xi)
    norm, half = design.feature_norm, PrivacyBudget(0.5 * budget.epsilon)
    radius = bounded_problem_radius(loss, norm, alpha, radius)
    constants = EmpiricalRisk(loss).constants(design, alpha, radius)
    output = plan_output_perturbation(constants, half, neighbouring=design.replaced)

    def plan(local_radius: float) -> LocalizedExponentialPlan:
        local_radius = min(local_radius, 2.0 * radius)  # that is all of the large ball
        probability, excess = _miss(output, local_radius)
        # a smaller norm of the center allows for a larger concentration, at most this one
        least = _oscillation(loss, norm, local_radius, 0.0, radius, design.is_slack)
        s = design.n_records * half.epsilon / least
        near = min(local_radius, radius)
        sampling = ExponentialPlan(
            loss=loss,
            design=design,
            epsilon=half.epsilon,
            alpha=alpha,
            radius=radius,
            oscillation=_oscillation(loss, norm, local_radius, radius, radius, design.is_slack),
            log_proposals=_log_proposals(loss, norm, radius, near, alpha, design.width, s),
            reference="Lowy & Razaviyayn 2021, Alg. 11 with the oscillation of the losses",
        )
        cost = (constants.lipschitz + alpha * radius) * excess
        return LocalizedExponentialPlan(
            output=output,
            sampling=sampling,
            local_radius=local_radius,
            miss_probability=probability,
            miss_cost=cost,
        )

    mean = design.width * output.mechanism.noise_scale + output.accuracy
    shares = np.geomspace(*rules.LOCAL_RADII) if xi is None else [xi]
    best = min((plan(share * mean) for share in shares), key=LocalizedExponentialPlan.bound)
    if best.local_radius < _SMALLEST_SHARE * radius:
        raise ValueError(
            f"The local radius, {best.local_radius:g}, is too small for double precision around a "
            f"point of norm up to {radius:g}. Use a larger xi, or output perturbation."
        )
    _check_proposals(best.sampling.log_proposals, proposal_limit)
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

    Three times its own: those of the others are for rows of the largest norm, and the cost of noise
    falls with the squares of the norms; that of a draw does not. ``inf`` for slow draws.
    """
    if not (budget.is_pure and objective.risk.loss.n_outputs == 1):
        return math.inf
    plan = _fast_draw(objective, budget, objective.radius, limit=rules.FAST_LIMIT)
    if plan is None:
        return math.inf
    bound = rules.BOUND_FACTOR * plan.bound()
    if objective.population:
        # uniform stability: total variation times the range of a loss over the ball
        lipschitz = plan.loss.lipschitz(objective.design.feature_norm, plan.radius)
        bound += 2.0 * plan.radius * lipschitz * math.tanh(0.5 * budget.epsilon)
    return bound


def _fast_draw(*arguments: Any, **options: Any) -> ExponentialPlan | None:
    """Return :func:`_draw`, or None if it needs too many proposals."""
    try:
        return _draw(*arguments, **options)
    except ValueError:
        return None


def _draw(
    objective: Objective, budget: PrivacyBudget, radius: float, limit: float = PROPOSAL_LIMIT
) -> ExponentialPlan:
    return plan_exponential_mechanism(
        _smooth_loss(objective, budget),
        objective.design,
        budget,
        radius=radius,
        alpha=objective.alpha,
        proposal_limit=limit,
    )


def _smooth_loss(objective: Objective, budget: PrivacyBudget) -> Loss:
    smooth = objective.risk.is_smooth
    return (objective if smooth else plan_regularized_risk(objective, budget)).risk.loss


def _check_case(
    loss: Loss, budget: PrivacyBudget, radius: float, alpha: float, n_records: int
) -> None:
    if not budget.is_pure:
        raise ValueError(
            f"delta == {budget.delta}: the exponential mechanism gives pure privacy, delta must be "
            "0. Output perturbation and the phased method make use of a delta > 0."
        )
    if loss.n_outputs != 1 or isinstance(loss, SoftmaxLoss):
        raise ValueError(
            f"{type(loss).__name__} is not a loss of one margin: no exact sampler is known for it. "
            "Use output perturbation or the phased method."
        )
    check_positive(radius=radius, n_records=n_records)
    check_non_negative(alpha=alpha)
    if n_records * budget.epsilon > _LARGEST_EXPONENT:
        raise ValueError(
            f"n_records * epsilon == {n_records * budget.epsilon:g}: the exponent of the density "
            "would be rounded too much. Use output perturbation or the phased method."
        )


def _check_proposals(log_proposals: float, limit: float) -> None:
    if not log_proposals <= math.log(limit):
        exponent = log_proposals / math.log(10.0)
        raise ValueError(
            f"There is no exact sampler that is fast enough for this case: up to 10^{exponent:.1f} "
            f"proposals are expected, {limit:g} are allowed. The loss is too flat on the ball of "
            "the coefficients for their number. For the log loss a smaller ball helps (coef_norm), "
            "for the others only a large alpha. Output perturbation and the phased method "
            "('output' and 'phased', also for delta = 0) have no such limit."
        )


def _oscillation(
    loss: Loss,
    feature_norm: float,
    radius: float,
    center_norm: float,
    outer_radius: float,
    is_slack: bool = False,
) -> float:
    """Bound the oscillation of the difference of two records' losses, or of one if `is_slack`.

    Over the points within `radius` of a center of the given norm, and of norm at most
    `outer_radius`: twice the integral of the gradient diameter along a ray from the center (as
    an upper sum over shells), or twice the range of the difference if that is smaller.
    """
    norms = np.minimum(
        center_norm + radius * np.arange(1, rules.SHELLS + 1) / rules.SHELLS,
        max(outer_radius, center_norm),
    )
    shells, counts = np.unique(norms, return_counts=True)
    diameters = [loss.gradient_diameter(feature_norm, float(norm)) for norm in shells]
    by_value = 2.0 * loss.value_range(feature_norm, float(norms[-1]))
    if is_slack:
        alone = [loss.lipschitz(feature_norm, float(norm)) for norm in shells]
        diameters = [max(pair) for pair in zip(diameters, alone, strict=True)]
        by_value = max(by_value, loss.largest_value(feature_norm, float(norms[-1])))
    by_gradient = 2.0 * radius * float(counts @ diameters) / rules.SHELLS
    return min(by_gradient, by_value) * ROUNDING_SLACK


def _log_proposals(
    loss: Loss, norm: float, outer_radius: float, radius: float, alpha: float, d: int, s: float
) -> float:
    """Lemma 4: ``min((d/2) log(ratio of curvatures), s sup (F - q))``."""
    most = loss.curvature * norm**2
    least = loss.least_curvature(norm, outer_radius) * norm**2
    if math.isinf(most):
        return math.inf
    ratio = (most + alpha) / (least + alpha) if least + alpha > 0 else math.inf
    return min(0.5 * d * math.log(ratio), 2.0 * s * (most - least) * radius**2)


def _miss(output: OutputPerturbationPlan, local_radius: float) -> tuple[float, float]:
    """Bounds on ``P(distance > r0)`` and ``E (distance - r0)_+`` of the center to the minimiser.

    The distance is at most the accuracy plus the noise's norm, which is Gamma distributed, and
    at most the diameter of the large ball.
    """
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

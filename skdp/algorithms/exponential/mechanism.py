"""The exponential mechanism over a ball, sampled exactly.

Algorithm 9 of Lowy and Razaviyayn (2021), appendix G: a point of a ball with density proportional
to ``exp(-s F(w))``, F the regularised empirical risk; pure epsilon-differential privacy. Markov
chains would only come near that law and lose the guarantee. The sampler of
:mod:`skdp.algorithms.exponential.sampling` has *exactly* the stated law (up to floating point), and
a run time that depends on the records. Proofs: ``docs/theory/exponential_mechanism.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from skdp._checks import check_non_negative, check_positive
from skdp._runtime import without_warnings
from skdp.algorithms.exponential import rules
from skdp.algorithms.exponential.sampling import CenteredBall, Density, draw
from skdp.algorithms.plan import Plan, Result, Run
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import ExponentialMechanismEvent, PrivacyEvent
from skdp.privacy.report import Release
from skdp.problems import (
    ROUNDING_SLACK,
    Design,
    EmpiricalRisk,
    LogisticLoss,
    Loss,
    Records,
    SoftmaxLoss,
    bounded_problem_radius,
)

#: Largest public bound on the expected number of proposals that a plan accepts.
PROPOSAL_LIMIT = 1e6
#: Largest ``n epsilon``, the unit of the exponents of the density: rounded to 1e-4 there.
_LARGEST_EXPONENT = 1e11
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

    shown: ClassVar[tuple[str, ...]] = (
        *("alpha", "radius", "oscillation", "concentration", "log_proposals"),
    )

    @property
    def risk(self) -> EmpiricalRisk:
        return EmpiricalRisk(self.loss)

    @property
    def concentration(self) -> float:
        """The factor s of the density ``exp(-s F(w))``: ``n epsilon / oscillation``."""
        return self.design.n_records * self.epsilon / self.oscillation

    @property
    def step(self) -> float:
        """Step of the public grid of released points, far below the width of a density."""
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
    def event(self) -> PrivacyEvent:
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

    Raises
    ------
    ValueError
        For ``delta > 0``, several margins, or more than a million expected proposals
        (docs/theory/exponential_mechanism.md, Lemma 4).
    """
    check_case(loss, budget, radius, alpha, design.n_records)
    norm, epsilon = design.feature_norm, budget.epsilon
    if alpha > 0:
        radius = bounded_problem_radius(loss, norm, alpha, radius)
    oscillation = bound_oscillation(loss, norm, radius, 0.0, radius, design.is_slack)
    s = design.n_records * epsilon / oscillation
    log_proposals = bound_log_proposals(loss, norm, radius, radius, alpha, design.width, s)
    check_proposals(log_proposals)
    return ExponentialPlan(
        loss=loss,
        design=design,
        epsilon=epsilon,
        alpha=alpha,
        radius=radius,
        oscillation=oscillation,
        log_proposals=log_proposals,
    )


def check_case(
    loss: Loss, budget: PrivacyBudget, radius: float, alpha: float, n_records: int
) -> None:
    """Refuse what no draw is known for."""
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


def check_proposals(log_proposals: float) -> None:
    """Refuse a density that takes too many proposals."""
    if not log_proposals <= math.log(PROPOSAL_LIMIT):
        exponent = log_proposals / math.log(10.0)
        raise ValueError(
            f"There is no exact sampler that is fast enough for this case: up to 10^{exponent:.1f} "
            f"proposals are expected, {PROPOSAL_LIMIT:g} are allowed. The loss is too flat on the "
            "ball of the coefficients for their number. For the log loss a smaller ball helps "
            "(coef_norm), for the others only a large alpha. Output perturbation and the phased "
            "method ('output' and 'phased', also for delta = 0) have no such limit."
        )


def bound_oscillation(
    loss: Loss,
    feature_norm: float,
    radius: float,
    center_norm: float,
    outer_radius: float,
    is_slack: bool = False,
) -> float:
    """Bound the oscillation of the difference of two records' losses, or of one if `is_slack`.

    Over the points within `radius` of a center of the given norm, and of norm at most
    `outer_radius`: by the gradient diameter along a ray from the center, or by the range.
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


def bound_log_proposals(
    loss: Loss, norm: float, outer_radius: float, radius: float, alpha: float, d: int, s: float
) -> float:
    """Lemma 4: ``min((d/2) log(ratio of curvatures), s sup (F - q))``."""
    most = loss.curvature * norm**2
    least = loss.least_curvature(norm, outer_radius) * norm**2
    if math.isinf(most):
        return math.inf
    ratio = (most + alpha) / (least + alpha) if least + alpha > 0 else math.inf
    return min(0.5 * d * math.log(ratio), 2.0 * s * (most - least) * radius**2)

"""The exponential mechanism over a ball, sampled exactly, alone or after localisation.

Algorithms 9, 10 and 11 of Lowy and Razaviyayn (2021), appendix G: a point of a ball with density
proportional to ``exp(-s F(w))``, F the regularised empirical risk; pure epsilon-differential
privacy. Markov chains would only come near that law and lose the guarantee, so the sampler here
is a rejection sampler, whose accepted point has *exactly* the stated law (up to floating point):

1. F lies above a quadratic q that touches it at one point, the *anchor*;
2. a Gaussian, tilted towards the balls by one multiplier each, is thinned to ``exp(-s q)`` on them;
3. ``exp(-s (F - q))`` thins that to the target, block of records by block, until rejection.

The anchor, q and the multipliers are computed from the records, but the law of the result does
not depend on them: they only decide how many proposals it takes. There is no limit to that
number, because giving up would be an event that depends on the records. *Run time is therefore
not protected*: it depends on the records, and must not be published. Proofs:
``docs/theory/exponential_mechanism.md``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import brentq
from scipy.special import gammaincc
from sklearn.utils.extmath import row_norms

from skdp.algorithms.output_perturbation import (
    OutputPerturbationPlan,
    _certifiable_accuracy,
    output_perturbation,
    plan_output_perturbation,
)
from skdp.mechanisms import NoiseSource
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import ComposedEvent, ExponentialMechanismEvent, Neighbouring
from skdp.privacy.report import Release
from skdp.problems import (
    ROUNDING_SLACK,
    Ball,
    BoundedRows,
    Domain,
    FiniteSumProblem,
    Loss,
    bounded_problem_radius,
    generalised_linear_constants,
)
from skdp.problems.rows import RowBlock
from skdp.solvers import resolve_solver, solve_certified

__all__ = [
    "ExponentialPlan",
    "ExponentialResult",
    "LocalizedExponentialPlan",
    "LocalizedExponentialResult",
    "exponential_mechanism",
    "exponential_utility_bound",
    "localized_exponential",
    "plan_exponential_mechanism",
    "plan_localized_exponential",
]

#: Largest public bound on the expected number of thinned proposals that a plan accepts.
PROPOSAL_LIMIT = 1e6

#: Shells in the bound on the oscillation, levels in that on the curvature.
_SHELLS, _LEVELS = 16, 64
#: Growth of the log of the expected number of proposals that the anchor's inaccuracy may cause.
_ANCHOR_SLACK = 0.1
#: Numbers in a batch of proposals and in a block of margins.
_BATCH_NUMBERS, _MARGIN_NUMBERS = 1 << 20, 1 << 18
_FIRST_BATCH, _MAX_THINNED, _MAX_ROWS = 16, 512, 1 << 14
#: Rounds of coordinate ascent for the multipliers of several balls.
_ASCENTS = 40


@dataclass(frozen=True)
class ExponentialPlan:
    """Everything that is decided before the records are read.

    Attributes
    ----------
    epsilon : float
    alpha, radius : float
        Of the regulariser and of the ball.
    n_records, dimension : int
    oscillation : float
        Bound on ``max - min`` over the ball of the difference of two records' losses.
    log_proposals : float
        Logarithm of a bound on the expected number of thinned proposals.
    reference : str
    """

    epsilon: float
    alpha: float
    radius: float
    n_records: int
    dimension: int
    oscillation: float
    log_proposals: float
    reference: str

    @property
    def concentration(self) -> float:
        """The number s of the density ``exp(-s F(w))``: ``n epsilon / oscillation``."""
        return self.n_records * self.epsilon / self.oscillation

    @property
    def event(self) -> ExponentialMechanismEvent:
        """What the draw costs: log ratios lie in an interval of length epsilon (Lemma 1)."""
        return ExponentialMechanismEvent(self.epsilon)

    def release(self, name: str = "coefficients") -> Release:
        """The statement about what leaves the algorithm.

        The sensitivity is the oscillation, in units of the loss; the noise scale is
        ``oscillation / epsilon``, the inverse of the factor of the summed losses.
        """
        return Release(
            name=name,
            mechanism="exponential",
            sensitivity=self.oscillation,
            noise_scale=self.oscillation / self.epsilon,
            dimension=self.dimension,
            n_records=self.n_records,
            reference=self.reference,
            event=self.event,
        )

    def to_dict(self) -> dict[str, Any]:
        """The public numbers of the plan as plain Python types."""
        return {
            "alpha": self.alpha,
            "radius": self.radius,
            "oscillation": self.oscillation,
            "concentration": self.concentration,
            "log_proposals": self.log_proposals,
        }


@dataclass(frozen=True)
class LocalizedExponentialPlan:
    """Plan of a localisation and a draw, each with half of the budget.

    Attributes
    ----------
    output : OutputPerturbationPlan
        Of the centre w0.
    sampling : ExponentialPlan
        Of the draw, for a centre on the sphere, which has the largest oscillation; the actual
        one follows from the released centre by :meth:`localised`.
    local_radius : float
        Radius r0 of the ball around w0 that is drawn from, as far as it lies in the large ball.
    miss_probability : float
        Bound on the probability that the ball around w0 does not hold the minimiser.
    miss_cost : float
        Bound on what that adds to the expected objective.
    loss : Loss
    feature_norm : float
    """

    output: OutputPerturbationPlan
    sampling: ExponentialPlan
    local_radius: float
    miss_probability: float
    miss_cost: float
    loss: Loss
    feature_norm: float

    def localised(self, center: np.ndarray) -> ExponentialPlan:
        """The plan of the draw around a released centre."""
        oscillation = _oscillation(
            self.loss,
            self.feature_norm,
            self.local_radius,
            float(np.linalg.norm(center)),
            self.sampling.radius,
        )
        return replace(self.sampling, oscillation=oscillation)

    @property
    def event(self) -> ComposedEvent:
        """Both releases."""
        return ComposedEvent((self.output.mechanism.event, self.sampling.event))

    def release(self, name: str = "coefficients") -> Release:
        """The statement about the last point; with its event both points."""
        return replace(self.sampling.release(name), event=self.event)

    def to_dict(self) -> dict[str, Any]:
        """The public numbers of the plan as plain Python types."""
        return {
            **self.sampling.to_dict(),
            "local_radius": self.local_radius,
            "miss_probability": self.miss_probability,
            "miss_cost": self.miss_cost,
            "sensitivity": self.output.mechanism.sensitivity,
            "noise_scale": self.output.mechanism.noise_scale,
            "accuracy": self.output.accuracy,
        }


@dataclass(frozen=True)
class ExponentialResult:
    """A private point and the plan that it was made by.

    Attributes
    ----------
    point : ndarray of shape (dimension,)
    plan : ExponentialPlan
    """

    point: np.ndarray
    plan: ExponentialPlan


@dataclass(frozen=True)
class LocalizedExponentialResult:
    """A private point, the released centre, and the plan.

    Attributes
    ----------
    point, center : ndarray of shape (dimension,)
        Both are covered by the guarantee and may be published together.
    plan : LocalizedExponentialPlan
    """

    point: np.ndarray
    center: np.ndarray
    plan: LocalizedExponentialPlan


def exponential_mechanism(
    rows: BoundedRows,
    targets: np.ndarray,
    loss: Loss,
    budget: PrivacyBudget,
    *,
    radius: float,
    alpha: float = 0.0,
    neighbouring: Neighbouring | str = Neighbouring.REPLACE_ONE,
    proposal_limit: float = PROPOSAL_LIMIT,
    noise: NoiseSource | None = None,
) -> ExponentialResult:
    """Draw a point of a ball with density proportional to ``exp(-s F(w))``.

    F is ``mean loss + (alpha/2) ||w||^2``, and ``s = n epsilon / oscillation``
    (Lowy and Razaviyayn 2021, Alg. 9, with a smaller oscillation than ``4 L R``).

    Parameters
    ----------
    rows : BoundedRows
    targets : ndarray of shape (n,)
    loss : Loss
        Convex, smooth, of one margin.
    budget : PrivacyBudget
        With ``delta == 0``.
    radius : float
        Public radius of the ball.
    alpha : float, default=0.0
    neighbouring : Neighbouring or str, default="replace_one"
        The only relation that is covered.
    proposal_limit : float, default=1e6
        See :func:`plan_exponential_mechanism`.
    noise : NoiseSource, optional
        Default: the operating system's secure generator.

    Returns
    -------
    ExponentialResult

    Raises
    ------
    ValueError
        For another relation, or if the plan does not cover the case; before any record is read.
    """
    _check_relation(neighbouring)
    plan = plan_exponential_mechanism(
        loss,
        feature_norm=rows.norm_bound,
        row_width=rows.width,
        n_records=rows.n_records,
        budget=budget,
        radius=radius,
        alpha=alpha,
        proposal_limit=proposal_limit,
    )
    balls = (_BallAround(np.zeros(rows.width), plan.radius),)
    point = _draw(
        _Records(rows, targets, loss, alpha),
        balls,
        plan.concentration,
        "auto",
        np.random.default_rng(),
        NoiseSource() if noise is None else noise,
    )
    return ExponentialResult(point, plan)


def plan_exponential_mechanism(
    loss: Loss,
    *,
    feature_norm: float,
    row_width: int,
    n_records: int,
    budget: PrivacyBudget,
    radius: float,
    alpha: float = 0.0,
    proposal_limit: float = PROPOSAL_LIMIT,
) -> ExponentialPlan:
    """Fix the density from public numbers.

    Parameters
    ----------
    loss : Loss
    feature_norm : float
        Norm that no row exceeds, intercept feature included.
    row_width, n_records : int
    budget : PrivacyBudget
    radius : float
        With ``alpha > 0`` the ball is cut down to ``loss.solution_radius``, which holds the
        minimiser of every data set.
    alpha : float, default=0.0
    proposal_limit : float, default=1e6
        Refuse the case if the bound on the expected number of thinned proposals
        (``log_proposals``, docs/theory/exponential_mechanism.md, Lemma 4) is larger.

    Returns
    -------
    ExponentialPlan

    Raises
    ------
    ValueError
        For ``delta > 0``, several margins, or too many proposals.
    """
    _check_case(loss, budget, radius, alpha, n_records)
    if alpha > 0:
        radius = bounded_problem_radius(loss, feature_norm, alpha, radius)
    oscillation = _oscillation(loss, feature_norm, radius, 0.0, radius)
    s = n_records * budget.epsilon / oscillation
    log_proposals = _log_proposals(loss, feature_norm, radius, radius, alpha, row_width, s)
    _check_proposals(log_proposals, proposal_limit)
    return ExponentialPlan(
        budget.epsilon,
        alpha,
        radius,
        n_records,
        row_width,
        oscillation,
        log_proposals,
        "Lowy & Razaviyayn 2021, Alg. 9 with the oscillation of the losses",
    )


def localized_exponential(
    rows: BoundedRows,
    targets: np.ndarray,
    loss: Loss,
    budget: PrivacyBudget,
    *,
    radius: float,
    alpha: float,
    xi: float | None = None,
    neighbouring: Neighbouring | str = Neighbouring.REPLACE_ONE,
    proposal_limit: float = PROPOSAL_LIMIT,
    solver: Any = "auto",
    solver_rng: np.random.Generator | None = None,
    noise: NoiseSource | None = None,
    verbose: int = 0,
) -> LocalizedExponentialResult:
    """Localise the minimiser by output perturbation, then draw from its neighbourhood.

    Lowy and Razaviyayn (2021), Alg. 10 and 11: half of the budget each. The draw is from the
    intersection of the ball of the given radius around 0 and of a small one around the released
    point, on which the losses differ by less.

    Parameters
    ----------
    rows, targets, loss, budget, radius, neighbouring, proposal_limit, noise
        As in :func:`exponential_mechanism`.
    alpha : float
        > 0.
    xi : float, optional
        See :func:`plan_localized_exponential`.
    solver, solver_rng, verbose
        As in :func:`skdp.algorithms.output_perturbation`.

    Returns
    -------
    LocalizedExponentialResult

    Raises
    ------
    ValueError
        For another relation, or if the plan does not cover the case; before any record is read.
    """
    _check_relation(neighbouring)
    plan = plan_localized_exponential(
        loss,
        feature_norm=rows.norm_bound,
        row_width=rows.width,
        n_records=rows.n_records,
        block_size=rows.block_size,
        budget=budget,
        radius=radius,
        alpha=alpha,
        xi=xi,
        proposal_limit=proposal_limit,
    )
    solver = resolve_solver(solver)
    noise = NoiseSource() if noise is None else noise
    rng = np.random.default_rng() if solver_rng is None else solver_rng
    problem = FiniteSumProblem(rows, targets, loss, alpha, Ball(plan.sampling.radius))
    center = output_perturbation(
        problem,
        PrivacyBudget(plan.sampling.epsilon),
        solver=solver,
        solver_rng=rng,
        noise=noise,
        verbose=verbose,
    ).point
    balls = (
        _BallAround(np.zeros(rows.width), plan.sampling.radius),
        _BallAround(center, plan.local_radius),
    )
    point = _draw(
        _Records(rows, targets, loss, alpha),
        balls,
        plan.localised(center).concentration,
        solver,
        rng,
        noise,
    )
    return LocalizedExponentialResult(point, center, plan)


def plan_localized_exponential(
    loss: Loss,
    *,
    feature_norm: float,
    row_width: int,
    n_records: int,
    block_size: int,
    budget: PrivacyBudget,
    radius: float,
    alpha: float,
    xi: float | None = None,
    proposal_limit: float = PROPOSAL_LIMIT,
) -> LocalizedExponentialPlan:
    """Fix both steps from public numbers.

    Parameters
    ----------
    loss, feature_norm, row_width, n_records, budget, radius, proposal_limit
        As in :func:`plan_exponential_mechanism`.
    block_size : int
        As in :func:`skdp.problems.generalised_linear_constants`.
    alpha : float
        > 0.
    xi : float, optional
        The local radius in units of ``d * noise scale``, the mean norm of the noise. Default:
        the radius that minimises the public :func:`exponential_utility_bound`.

    Returns
    -------
    LocalizedExponentialPlan
    """
    _check_case(loss, budget, radius, alpha, n_records)
    if not alpha > 0:
        raise ValueError(f"alpha == {alpha}: localisation needs strong convexity, alpha > 0.")
    if xi is not None and not (xi > 0 and math.isfinite(xi)):
        raise ValueError(f"xi == {xi}, must be > 0 and finite.")
    radius = bounded_problem_radius(loss, feature_norm, alpha, radius)
    half = PrivacyBudget(0.5 * budget.epsilon)
    constants = generalised_linear_constants(
        loss,
        alpha=alpha,
        radius=radius,
        feature_norm=feature_norm,
        row_width=row_width,
        n_records=n_records,
        block_size=block_size,
    )
    output = plan_output_perturbation(constants, half)

    def plan(local_radius: float) -> LocalizedExponentialPlan:
        local_radius = min(local_radius, 2.0 * radius)  # that is all of the large ball
        probability, excess = _miss(output, local_radius)
        # a smaller norm of the centre allows for a larger concentration, at most this one
        least = _oscillation(loss, feature_norm, local_radius, 0.0, radius)
        log_proposals = _log_proposals(
            loss,
            feature_norm,
            radius,
            min(local_radius, radius),
            alpha,
            row_width,
            n_records * half.epsilon / least,
        )
        sampling = ExponentialPlan(
            half.epsilon,
            alpha,
            radius,
            n_records,
            row_width,
            _oscillation(loss, feature_norm, local_radius, radius, radius),
            log_proposals,
            "Lowy & Razaviyayn 2021, Alg. 11 with the oscillation of the losses",
        )
        cost = (constants.lipschitz + alpha * radius) * excess
        return LocalizedExponentialPlan(
            output, sampling, local_radius, probability, cost, loss, feature_norm
        )

    mean = row_width * output.mechanism.noise_scale + output.accuracy
    if xi is not None:
        best = plan(xi * mean)
    else:
        candidates = [plan(mean * share) for share in np.geomspace(0.05, 60.0, 60)]
        best = min(candidates, key=exponential_utility_bound)
    _check_proposals(best.sampling.log_proposals, proposal_limit)
    return best


def exponential_utility_bound(plan: ExponentialPlan | LocalizedExponentialPlan) -> float:
    """Public bound on the expected excess of F over its minimum on the ball.

    ``d / s`` for a draw (docs/theory/exponential_mechanism.md, Lemma 2). After localisation, s
    is that of the largest oscillation, and ``miss_cost`` is added: ``(L + alpha R)`` times the
    expected distance by which the minimiser lies outside of the local ball (Lemma 3).

    Parameters
    ----------
    plan : ExponentialPlan or LocalizedExponentialPlan
    """
    if isinstance(plan, LocalizedExponentialPlan):
        return exponential_utility_bound(plan.sampling) + plan.miss_cost
    return plan.dimension / plan.concentration


def _check_relation(neighbouring: Neighbouring | str) -> None:
    if Neighbouring(neighbouring) is not Neighbouring.REPLACE_ONE:
        raise ValueError("The exponential mechanism is proven for neighbouring='replace_one' only.")


def _check_case(
    loss: Loss, budget: PrivacyBudget, radius: float, alpha: float, n_records: int
) -> None:
    if not budget.is_pure:
        raise ValueError(
            f"delta == {budget.delta}: the exponential mechanism gives pure privacy, delta must be "
            "0. Output perturbation and the phased method make use of a delta > 0."
        )
    if loss.n_outputs != 1:
        raise ValueError(
            f"{type(loss).__name__} has {loss.n_outputs} margins: no exact sampler is known for "
            "it. Use output perturbation or the phased method."
        )
    if not (radius > 0 and math.isfinite(radius)):
        raise ValueError(f"radius == {radius}, must be > 0 and finite.")
    if not (alpha >= 0 and math.isfinite(alpha)):
        raise ValueError(f"alpha == {alpha}, must be >= 0 and finite.")
    if not n_records >= 1:
        raise ValueError(f"n_records == {n_records}, must be >= 1.")


def _check_proposals(log_proposals: float, limit: float) -> None:
    if not log_proposals <= math.log(limit):
        exponent = log_proposals / math.log(10.0)
        raise ValueError(
            f"There is no exact sampler that is fast enough for this case: up to 10^{exponent:.1f} "
            f"proposals are expected, proposal_limit == {limit:g}. The loss is too flat somewhere "
            "on the ball for the number of coefficients. A smaller radius or a larger alpha help; "
            "output perturbation and the phased method (delta = 0 as well) have no such limit."
        )


def _oscillation(
    loss: Loss, feature_norm: float, radius: float, center_norm: float, outer_radius: float
) -> float:
    """Bound on the oscillation of the difference of two records' losses.

    Over the points within `radius` of a centre of the given norm, and of norm at most
    `outer_radius`: twice the integral of the gradient diameter along a ray from the centre (as
    an upper sum over shells), or twice the range of the difference if that is smaller.
    """
    norms = np.minimum(
        center_norm + radius * np.arange(1, _SHELLS + 1) / _SHELLS, max(outer_radius, center_norm)
    )
    shells, counts = np.unique(norms, return_counts=True)
    diameters = [loss.gradient_diameter(feature_norm, float(norm)) for norm in shells]
    by_gradient = radius * float(counts @ diameters) / _SHELLS
    by_value = loss.value_range(feature_norm, float(norms[-1]))
    return 2.0 * min(by_gradient, by_value) * ROUNDING_SLACK


def _log_proposals(
    loss: Loss,
    feature_norm: float,
    outer_radius: float,
    radius: float,
    alpha: float,
    dimension: int,
    concentration: float,
) -> float:
    """Lemma 4: ``min((d/2) log(ratio of curvatures), s sup (F - q))``."""
    most = loss.curvature * feature_norm**2
    least = loss.least_curvature(feature_norm, outer_radius) * feature_norm**2
    if math.isinf(most):
        return math.inf
    ratio = (most + alpha) / (least + alpha) if least + alpha > 0 else math.inf
    return min(0.5 * dimension * math.log(ratio), 2.0 * concentration * (most - least) * radius**2)


def _miss(output: OutputPerturbationPlan, local_radius: float) -> tuple[float, float]:
    """Bounds on ``P(distance > r0)`` and ``E (distance - r0)_+`` of the centre to the minimiser.

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


@dataclass(frozen=True)
class _Records:
    """The records and the objective ``F(w) = mean loss + (alpha/2) ||w||^2``."""

    rows: BoundedRows
    targets: np.ndarray
    loss: Loss
    alpha: float

    def __post_init__(self) -> None:
        targets = np.asarray(self.targets)
        if len(targets) != self.rows.n_records:
            raise ValueError(f"{len(targets)} targets for {self.rows.n_records} rows.")
        self.loss.check_targets(targets)
        object.__setattr__(self, "targets", targets)

    @property
    def is_quadratic(self) -> bool:
        """Whether F is its own quadratic lower bound: known from the kind of loss."""
        return self.loss.least_curvature(self.rows.norm_bound, 1.0) == self.loss.curvature


@dataclass(frozen=True)
class _BallAround:
    """A ball ``||w - center|| <= radius``."""

    center: np.ndarray
    radius: float

    def project(self, point: np.ndarray) -> np.ndarray:
        return self.center + Ball(self.radius).project(point - self.center)

    def holds(self, point: np.ndarray) -> bool:
        return float(np.linalg.norm(point - self.center)) <= self.radius


@dataclass(frozen=True)
class _Lens(Domain):
    """The intersection of a ball around 0 with a ball around one of its points."""

    outer: _BallAround
    inner: _BallAround

    @property
    def radius(self) -> float:  # type: ignore[override]
        norm = float(np.linalg.norm(self.inner.center)) + self.inner.radius
        return min(self.outer.radius, norm)

    @property
    def reach(self) -> float:
        return self.inner.radius

    def center(self, dimension: int) -> np.ndarray:
        return self.inner.center

    def projection_rounding(self, dimension: int) -> float:
        return 4.0 * Ball(self.outer.radius).projection_rounding(dimension)

    def project(self, point: np.ndarray) -> np.ndarray:
        """Onto one of the balls if that lies in the other, else onto where their spheres meet."""
        if self.outer.holds(point) and self.inner.holds(point):
            return point
        for one, other in ((self.outer, self.inner), (self.inner, self.outer)):
            candidate = one.project(point)
            if other.holds(candidate):
                return candidate
        distance = float(np.linalg.norm(self.inner.center))
        axis = self.inner.center / distance
        along = 0.5 * (distance**2 + self.outer.radius**2 - self.inner.radius**2) / distance
        across = point - (point @ axis) * axis
        length = float(np.linalg.norm(across))
        height = math.sqrt(max(self.outer.radius**2 - along**2, 0.0)) * (1.0 - 1e-12)
        return along * axis + (across * (height / length) if length > 0 else 0.0)


def _draw(
    records: _Records,
    balls: Sequence[_BallAround],
    concentration: float,
    solver: Any,
    solver_rng: np.random.Generator,
    noise: NoiseSource,
) -> np.ndarray:
    """An exact draw from ``exp(-s F)`` on the intersection of the balls."""
    if records.is_quadratic:
        anchor = balls[-1].center
    else:
        anchor = _near_minimiser(records, balls, concentration, solver, solver_rng)
    bound = _LowerBound.at(anchor, records, balls)
    proposal = _Proposal.tuned(bound, balls, concentration)
    return _sample(records, bound, proposal, concentration, noise)


def _near_minimiser(
    records: _Records,
    balls: Sequence[_BallAround],
    concentration: float,
    solver: Any,
    rng: np.random.Generator,
) -> np.ndarray:
    """A good anchor: near the minimiser over the balls. Any other one is valid as well."""
    radius = balls[0].radius
    domain = Ball(radius) if len(balls) == 1 else _Lens(balls[0], balls[1])
    alpha = max(records.alpha, _ANCHOR_SLACK / (concentration * radius**2))
    problem = FiniteSumProblem(records.rows, records.targets, records.loss, alpha, domain)
    constants = problem.constants
    slope = constants.lipschitz + alpha * radius + 2.0 * radius * constants.total_smoothness
    accuracy = max(_ANCHOR_SLACK / (concentration * slope), _certifiable_accuracy(constants))
    return solve_certified(problem, accuracy, resolve_solver(solver), rng=rng).point


@dataclass(frozen=True)
class _LowerBound:
    """A quadratic below F on the balls, equal to it at the anchor.

    ``q(w) = F(anchor) + <g, w - anchor> + (1/2) (w - anchor)' H (w - anchor)``, with g the
    gradient at the anchor and ``H = (1/n) sum_i c_i x_i x_i' + alpha I``, c_i the least second
    derivative of a record's loss.

    Attributes
    ----------
    eigenvalues, eigenvectors : ndarray
        Of H.
    linear : ndarray of shape (dimension,)
        ``H anchor - g``: q is ``w' H w / 2 - w' linear`` plus a constant.
    margins, values, slopes, curvatures : ndarray of shape (n_records,)
        Of each record at the anchor, and c_i.
    """

    eigenvalues: np.ndarray
    eigenvectors: np.ndarray
    linear: np.ndarray
    margins: np.ndarray
    values: np.ndarray
    slopes: np.ndarray
    curvatures: np.ndarray

    @classmethod
    def at(cls, anchor: np.ndarray, records: _Records, balls: Sequence[_BallAround]) -> _LowerBound:
        """The bound that touches F at `anchor`."""
        rows, loss, n = records.rows, records.loss, records.rows.n_records
        margins, values, slopes, curvatures = np.empty((4, n))
        least = _LeastCurvature(loss, rows.norm_bound * balls[0].radius)
        gradient = records.alpha * anchor
        bend = records.alpha * np.eye(rows.width)
        for block in rows.blocks():
            part, targets = block.rows, records.targets[block.rows]
            margins[part] = block.margins(anchor[None])
            values[part], slopes[part] = loss.value_and_derivative(margins[part], targets)
            curvatures[part] = least(_margin_bound(block, balls))
            gradient = gradient + block.pull_back(slopes[part]).ravel() / n
            bend += block.gram(curvatures[part]) / n
        linear = bend @ anchor - gradient
        eigenvalues, eigenvectors = eigh(bend)
        eigenvalues = np.maximum(eigenvalues, records.alpha)  # but for rounding it is so
        return cls(eigenvalues, eigenvectors, linear, margins, values, slopes, curvatures)


class _LeastCurvature:
    """Least second derivative over ``|margin| <= reach``, from a table for speed.

    Parameters
    ----------
    loss : Loss
    largest : float
        Bound on all margins.
    """

    def __init__(self, loss: Loss, largest: float) -> None:
        self.step = largest / _LEVELS
        levels = self.step * np.arange(1, _LEVELS + 2) * ROUNDING_SLACK
        self.table = np.array([loss.least_curvature(1.0, float(level)) for level in levels])

    def __call__(self, reach: np.ndarray) -> np.ndarray:
        return self.table[np.minimum((reach / self.step).astype(int), _LEVELS)]


def _margin_bound(block: RowBlock, balls: Sequence[_BallAround]) -> np.ndarray:
    """Bound on the absolute margins of a block's records over the balls."""
    norms = row_norms(block.matrix)
    if block.scale is not None:
        norms = norms * block.scale
    norms = np.hypot(norms, block.intercept)
    bounds = [np.abs(block.margins(ball.center[None])) + ball.radius * norms for ball in balls]
    return np.minimum.reduce(bounds)


@dataclass(frozen=True)
class _Proposal:
    """A Gaussian and how to thin it to ``exp(-s q)`` on the balls, for any multipliers >= 0.

    With ``q_lam = q + sum_j (lam_j / 2) (||w - c_j||^2 - r_j^2)``, at most q on the balls, the
    Gaussian is ``exp(-s q_lam)`` and a draw from it is kept with probability
    ``exp(-s (q - q_lam))`` if it lies in the balls. Coordinates are those of the eigenvectors.

    Attributes
    ----------
    eigenvectors : ndarray of shape (dimension, dimension)
    mean, deviations : ndarray of shape (dimension,)
    centers : ndarray of shape (n_balls, dimension)
    radii, weights : ndarray of shape (n_balls,)
        Weights are ``s lam_j / 2``.
    """

    eigenvectors: np.ndarray
    mean: np.ndarray
    deviations: np.ndarray
    centers: np.ndarray
    radii: np.ndarray
    weights: np.ndarray

    @classmethod
    def tuned(
        cls, bound: _LowerBound, balls: Sequence[_BallAround], concentration: float
    ) -> _Proposal:
        """With the multipliers that accept most."""
        centers = np.array([ball.center for ball in balls]) @ bound.eigenvectors
        radii = np.array([ball.radius for ball in balls])
        linear = bound.eigenvectors.T @ bound.linear
        multipliers = _best_multipliers(bound.eigenvalues, linear, centers, radii, concentration)
        return cls.of(bound, balls, concentration, multipliers)

    @classmethod
    def of(
        cls,
        bound: _LowerBound,
        balls: Sequence[_BallAround],
        concentration: float,
        multipliers: np.ndarray,
    ) -> _Proposal:
        """With the given multipliers."""
        centers = np.array([ball.center for ball in balls]) @ bound.eigenvectors
        precision = bound.eigenvalues + multipliers.sum()
        mean = (bound.eigenvectors.T @ bound.linear + multipliers @ centers) / precision
        return cls(
            bound.eigenvectors,
            mean,
            1.0 / np.sqrt(concentration * precision),
            centers,
            np.array([ball.radius for ball in balls]),
            0.5 * concentration * multipliers,
        )

    def draw(self, size: int, noise: NoiseSource) -> tuple[np.ndarray, np.ndarray]:
        """The accepted ones of `size` proposals, and what is left of their allowances.

        A proposal is accepted if the sum of all its costs (minus log probabilities) does not
        exceed its allowance, a standard exponential variable.
        """
        d = len(self.mean)
        points = self.mean + self.deviations * noise.standard_normal(size * d).reshape(size, d)
        allowances = -np.log(noise.uniform(size))
        inside = np.ones(size, dtype=bool)
        for center, radius, weight in zip(self.centers, self.radii, self.weights, strict=True):
            room = radius**2 - np.square(points - center).sum(axis=1)
            inside &= room >= 0.0
            allowances -= weight * room
        kept = inside & (allowances >= 0.0)
        return points[kept] @ self.eigenvectors.T, allowances[kept]


def _best_multipliers(
    eigenvalues: np.ndarray,
    linear: np.ndarray,
    centers: np.ndarray,
    radii: np.ndarray,
    concentration: float,
) -> np.ndarray:
    """The multipliers that maximise the probability of acceptance (Lemma 4).

    Its logarithm is concave in them. Where one is positive, the mean square of the proposal's
    distance to the ball's centre is the squared radius.
    """
    multipliers = np.zeros(len(radii))

    def excess(j: int, multiplier: float) -> float:
        multipliers[j] = multiplier
        precision = eigenvalues + multipliers.sum()
        if not precision.min() > 0:
            return math.inf
        mean = (linear + multipliers @ centers) / precision
        spread = float((1.0 / precision).sum()) / concentration
        return float(np.square(mean - centers[j]).sum()) + spread - float(radii[j]) ** 2

    for _ in range(_ASCENTS if len(radii) > 1 else 1):
        before = multipliers.copy()
        for j, radius in enumerate(radii):
            if excess(j, 0.0) <= 0:
                continue
            upper = 1.0 / (concentration * radius**2)
            while excess(j, upper) > 0:
                upper *= 4.0
            lower = 0.25 * upper
            while excess(j, lower) <= 0 and lower > 1e-300:
                lower *= 0.25
            if lower > 1e-300:
                root = brentq(lambda x, j=j: excess(j, math.exp(x)), *np.log([lower, upper]))
                multipliers[j] = math.exp(root)
        if np.allclose(multipliers, before, rtol=1e-3, atol=0.0):
            break
    return multipliers


def _sample(
    records: _Records,
    bound: _LowerBound,
    proposal: _Proposal,
    concentration: float,
    noise: NoiseSource,
) -> np.ndarray:
    """The first proposal that passes all thinning: exact, whatever the bound's anchor is."""
    size, largest = _FIRST_BATCH, max(_FIRST_BATCH, _BATCH_NUMBERS // len(proposal.mean))
    while True:
        points, allowances = proposal.draw(size, noise)
        for start in range(0, len(points), _MAX_THINNED):
            part = slice(start, start + _MAX_THINNED)
            passed = _thin(records, bound, concentration, points[part], allowances[part])
            if passed.size:
                return points[part][passed[0]].copy()
        size = min(2 * size, largest)


def _thin(
    records: _Records,
    bound: _LowerBound,
    concentration: float,
    points: np.ndarray,
    allowances: np.ndarray,
) -> np.ndarray:
    """Indices of the points with ``s (F - q) <= allowance``, in order.

    ``F - q`` is a mean of one term >= 0 per record, so a point is dropped as soon as a part of
    the records has used up its allowance.
    """
    active = np.arange(len(points))
    if records.is_quadratic:
        return active
    n, start = records.rows.n_records, 0
    left = allowances.copy()
    while start < n and active.size:
        size = min(max(_MARGIN_NUMBERS // active.size, 16), _MAX_ROWS)
        block = records.rows.block(slice(start, min(start + size, n)))
        part = block.rows
        margins = block.margins(points[active]).reshape(-1, active.size)
        moved = margins - bound.margins[part, None]
        values = records.loss.value(margins, records.targets[part, None])
        values -= bound.values[part, None]
        values -= (bound.slopes[part, None] + 0.5 * bound.curvatures[part, None] * moved) * moved
        left[active] -= concentration / n * values.sum(axis=0)
        active = active[left[active] >= 0.0]
        start += size
    return active

"""Exact draws from densities ``exp(-s F(w))`` on a ball or where two balls meet, by rejection.

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
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import brentq
from sklearn.utils.extmath import row_norms

from skdp.algorithms.output_perturbation import (
    certifiable_accuracy,
)
from skdp.mechanisms import NoiseSource
from skdp.problems import (
    ROUNDING_SLACK,
    Ball,
    Domain,
    FiniteSumProblem,
    Loss,
    Records,
)
from skdp.problems.domains import euclidean_norm
from skdp.problems.records import Block
from skdp.solvers import resolve_solver, solve_certified

__all__ = ["BallAround", "Lens", "LowerBound", "Proposal", "SummedLoss", "draw", "sample"]

#: Levels in the bound on the curvature.
_LEVELS = 64
#: Growth of the log of the expected number of proposals that the anchor's inaccuracy may cause.
_ANCHOR_SLACK = 0.1
#: Numbers in a batch of proposals and in a block of margins.
_BATCH_NUMBERS, _MARGIN_NUMBERS = 1 << 20, 1 << 18
_FIRST_BATCH, _MAX_THINNED, _MAX_ROWS = 16, 512, 1 << 14
#: Rounds of coordinate ascent for the multipliers of several balls, and their range.
_ASCENTS = 40
_SMALLEST, _LARGEST = 1e-300, 1e300

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class SummedLoss:
    """The records and the objective ``F(w) = mean loss + (alpha/2) ||w||^2``."""

    records: Records
    loss: Loss
    alpha: float

    def __post_init__(self) -> None:
        self.records.check_targets(self.loss)

    @property
    def is_quadratic(self) -> bool:
        """Whether F is its own quadratic lower bound: known from the kind of loss."""
        return self.loss.is_quadratic


@dataclass(frozen=True)
class BallAround:
    """A ball ``||w - center|| <= radius``."""

    center: np.ndarray
    radius: float

    def project(self, point: np.ndarray) -> np.ndarray:
        return self.center + Ball(self.radius).project(point - self.center)

    def holds(self, point: np.ndarray, slack: float = 1.0) -> bool:
        return euclidean_norm(point - self.center) <= slack * self.radius


@dataclass(frozen=True)
class Lens(Domain):
    """The intersection of a ball around 0 with a ball around one of its points."""

    outer: BallAround
    inner: BallAround

    @property
    def radius(self) -> float:  # type: ignore[override]
        norm = euclidean_norm(self.inner.center) + self.inner.radius
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
        distance = euclidean_norm(self.inner.center)
        outer, inner = self.outer.radius, self.inner.radius
        if distance <= _EPS * outer:  # but for rounding, one of them lies in the other
            return min(self.outer, self.inner, key=lambda ball: ball.radius).project(point)
        axis = self.inner.center / distance
        # outer^2 - distance^2 - inner^2 without cancellation: the inner ball may be tiny and at the
        # edge, or as large as the outer one and near its center
        if inner < 0.5 * outer:
            beyond = (outer - distance) * (distance + outer) - inner**2
        else:
            beyond = (outer - inner) * (outer + inner) - distance**2
        along = distance + 0.5 * beyond / distance
        across = point - (point @ axis) * axis
        length = euclidean_norm(across)
        height = math.sqrt(max(self.inner.radius**2 - (along - distance) ** 2, 0.0))
        height *= 1.0 - 1e-12
        return along * axis + (across * (height / length) if length > 0 else 0.0)


def draw(
    objective: SummedLoss,
    balls: Sequence[BallAround],
    concentration: float,
    solver: Any,
    solver_rng: np.random.Generator,
    noise: NoiseSource,
) -> np.ndarray:
    """An exact draw from ``exp(-s F)`` on the intersection of the balls."""
    anchor = balls[-1].center
    if not objective.is_quadratic:
        found = near_minimiser(objective, balls, concentration, solver, solver_rng)
        if all(ball.holds(found, ROUNDING_SLACK) for ball in balls):  # an anchor must lie in them
            anchor = found
    bound = LowerBound.at(anchor, objective, balls)
    proposal = Proposal.tuned(bound, balls, concentration)
    return sample(objective, bound, proposal, concentration, noise)


def near_minimiser(
    objective: SummedLoss,
    balls: Sequence[BallAround],
    concentration: float,
    solver: Any,
    rng: np.random.Generator,
) -> np.ndarray:
    """A good anchor: near the minimiser over the balls. Any other one is valid as well.

    So nothing depends on whether the solver succeeds, or on how accurate projections are.
    """
    radius = balls[0].radius
    domain = Ball(radius) if len(balls) == 1 else Lens(balls[0], balls[1])
    alpha = max(objective.alpha, _ANCHOR_SLACK / (concentration * radius**2))
    problem = FiniteSumProblem(objective.records, objective.loss, alpha, domain)
    constants = problem.constants
    slope = constants.lipschitz + alpha * radius + 2.0 * radius * constants.total_smoothness
    accuracy = max(_ANCHOR_SLACK / (concentration * slope), certifiable_accuracy(constants))
    try:
        return solve_certified(problem, accuracy, resolve_solver(solver), rng=rng).point
    except RuntimeError:
        return balls[-1].center


@dataclass(frozen=True)
class LowerBound:
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
    def at(
        cls, anchor: np.ndarray, objective: SummedLoss, balls: Sequence[BallAround]
    ) -> LowerBound:
        """The bound that touches F at `anchor`."""
        records, loss, n = objective.records, objective.loss, objective.records.n_records
        margins, values, slopes, curvatures = np.empty((4, n))
        least = _LeastCurvature(loss, records.norm_bound * balls[0].radius)
        gradient = objective.alpha * anchor
        bend = objective.alpha * np.eye(records.width)
        for block in records.blocks():
            part = block.positions
            margins[part] = block.margins(anchor[None])
            values[part], slopes[part] = loss.value_and_derivative(margins[part], block.targets)
            curvatures[part] = least(_margin_bound(block, balls))
            gradient = gradient + block.pull_back(slopes[part]).ravel() / n
            bend += block.gram(curvatures[part]) / n
        linear = bend @ anchor - gradient
        eigenvalues, eigenvectors = _eigh(bend)
        eigenvalues = np.maximum(eigenvalues, objective.alpha)  # but for rounding it is so
        return cls(eigenvalues, eigenvectors, linear, margins, values, slopes, curvatures)


def _eigh(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues and eigenvectors of a symmetric matrix of finite entries of any size."""
    _, exponent = math.frexp(float(np.abs(matrix).max()))
    unit = math.ldexp(1.0, exponent - 1)  # no entry is above 2 in absolute value
    scaled = matrix / unit
    try:
        eigenvalues, eigenvectors = eigh(scaled)
    except np.linalg.LinAlgError:  # another algorithm
        eigenvalues, eigenvectors = eigh(scaled, driver="ev")
    return eigenvalues * unit, eigenvectors


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


def _margin_bound(block: Block, balls: Sequence[BallAround]) -> np.ndarray:
    """Bound on the absolute margins of a block's records over the balls."""
    norms = row_norms(block.matrix)
    if block.scale is not None:
        norms = norms * block.scale
    norms = np.hypot(norms, block.intercept)
    bounds = [np.abs(block.margins(ball.center[None])) + ball.radius * norms for ball in balls]
    return np.minimum.reduce(bounds)


@dataclass(frozen=True)
class Proposal:
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
        cls, bound: LowerBound, balls: Sequence[BallAround], concentration: float
    ) -> Proposal:
        """With the multipliers that accept most."""
        centers = np.array([ball.center for ball in balls]) @ bound.eigenvectors
        radii = np.array([ball.radius for ball in balls])
        linear = bound.eigenvectors.T @ bound.linear
        multipliers = _best_multipliers(bound.eigenvalues, linear, centers, radii, concentration)
        return cls.of(bound, balls, concentration, multipliers)

    @classmethod
    def of(
        cls,
        bound: LowerBound,
        balls: Sequence[BallAround],
        concentration: float,
        multipliers: np.ndarray,
    ) -> Proposal:
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
        allowances = noise.exponential(size)
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
    distance to the ball's centre is the squared radius. The law of the draw does not depend on
    them, so where rounding hides the root the end of a bracket will do.
    """
    multipliers = np.zeros(len(radii))

    def excess(j: int, multiplier: float) -> float:
        multipliers[j] = multiplier
        precision = eigenvalues + multipliers.sum()
        if not precision.min() > 0:
            return sys.float_info.max
        mean = (linear + multipliers @ centers) / precision
        spread = float((1.0 / precision).sum()) / concentration
        found = float(np.square(mean - centers[j]).sum()) + spread - float(radii[j]) ** 2
        return min(found, sys.float_info.max)  # root finders need finite numbers

    for _ in range(_ASCENTS if len(radii) > 1 else 1):
        before = multipliers.copy()
        for j, radius in enumerate(radii):
            if excess(j, 0.0) <= 0:
                continue
            upper = min(max(1.0 / (concentration * radius**2), _SMALLEST), _LARGEST)
            while not excess(j, upper) <= 0 and upper < _LARGEST:
                upper *= 4.0
            while excess(j, 0.25 * upper) <= 0 and upper > _SMALLEST:
                upper *= 0.25
            part = 1.0
            if excess(j, 0.25 * upper) > 0 >= excess(j, upper):
                part = brentq(lambda x, j=j, end=upper: excess(j, x * end), 0.25, 1.0, disp=False)
            multipliers[j] = part * upper
        if np.allclose(multipliers, before, rtol=1e-3, atol=0.0):
            break
    return multipliers


def sample(
    objective: SummedLoss,
    bound: LowerBound,
    proposal: Proposal,
    concentration: float,
    noise: NoiseSource,
) -> np.ndarray:
    """The first proposal that passes all thinning: exact, whatever the bound's anchor is."""
    size, largest = _FIRST_BATCH, max(_FIRST_BATCH, _BATCH_NUMBERS // len(proposal.mean))
    while True:
        points, allowances = proposal.draw(size, noise)
        for start in range(0, len(points), _MAX_THINNED):
            part = slice(start, start + _MAX_THINNED)
            passed = thin(objective, bound, concentration, points[part], allowances[part])
            if passed.size:
                return points[part][passed[0]].copy()
        size = min(2 * size, largest)


def thin(
    objective: SummedLoss,
    bound: LowerBound,
    concentration: float,
    points: np.ndarray,
    allowances: np.ndarray,
) -> np.ndarray:
    """Indices of the points with ``s (F - q) <= allowance``, in order.

    ``F - q`` is a mean of one term >= 0 per record, so a point is dropped as soon as a part of
    the records has used up its allowance.
    """
    active = np.arange(len(points))
    if objective.is_quadratic:
        return active
    n, start = objective.records.n_records, 0
    left = allowances.copy()
    while start < n and active.size:
        size = min(max(_MARGIN_NUMBERS // active.size, 16), _MAX_ROWS)
        block = objective.records.block(slice(start, min(start + size, n)))
        part = block.positions
        margins = block.margins(points[active]).reshape(-1, active.size)
        moved = margins - bound.margins[part, None]
        values = objective.loss.value(margins, block.targets[:, None])
        values -= bound.values[part, None]
        values -= (bound.slopes[part, None] + 0.5 * bound.curvatures[part, None] * moved) * moved
        left[active] -= concentration / n * values.sum(axis=0)
        active = active[left[active] >= 0.0]
        start += size
    return active

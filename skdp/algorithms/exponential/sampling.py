"""Exact draws from densities ``exp(-s F(w))`` on a ball or the intersection of two, by rejection.

1. F lies above a quadratic q that touches it at one point, the *anchor*;
2. a Gaussian, tilted towards the balls by one multiplier each, proposes points; rejection leaves
   draws from ``exp(-s q)`` on the balls;
3. rejection with probability ``1 - exp(-s (F - q))``, block of records by block, leaves draws from
   the target.

The anchor, q and the multipliers are computed from the records, but the law of the result does
not depend on them: they only decide how many proposals it takes. That number has no limit, because
giving up would be an event that depends on the records. *Run time is therefore not protected*: it
depends on the records, and must not be published. Proofs: ``docs/theory/exponential_mechanism.md``.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import brentq

from skdp.algorithms.exponential import rules
from skdp.algorithms.kernel import certifiable_accuracy
from skdp.mechanisms import NoiseSource
from skdp.problems import ROUNDING_SLACK, Ball, Domain, FiniteSumProblem, Loss, Records
from skdp.problems.domains import euclidean_norm
from skdp.problems.rounding import EPS
from skdp.solvers import resolve_solver, solve_certified

#: Numbers in a batch of proposals and in a block of margins.
_BATCH_NUMBERS, _MARGIN_NUMBERS = 1 << 20, 1 << 18
#: Range of the multipliers of balls.
_SMALLEST, _LARGEST = 1e-300, 1e300


@dataclass(frozen=True, kw_only=True)
class CenteredBall:
    """A ball ``||w - center|| <= radius``."""

    center: np.ndarray
    radius: float

    def project(self, point: np.ndarray) -> np.ndarray:
        return self.center + Ball(self.radius).project(point - self.center)

    def holds(self, point: np.ndarray, slack: float = 1.0) -> bool:
        return euclidean_norm(point - self.center) <= slack * self.radius


@dataclass(frozen=True, kw_only=True)
class Lens(Domain):
    """The intersection of a ball around 0 with a ball around one of its points."""

    outer: CenteredBall
    inner: CenteredBall

    @property
    def radius(self) -> float:  # type: ignore[override]
        norm = euclidean_norm(self.inner.center) + self.inner.radius
        return min(self.outer.radius, norm)

    @property
    def circumradius(self) -> float:
        return self.inner.radius

    def center(self, dimension: int) -> np.ndarray:
        return self.inner.center

    def projection_rounding(self, dimension: int) -> float:
        return 4.0 * Ball(self.outer.radius).projection_rounding(dimension)

    def project(self, point: np.ndarray) -> np.ndarray:
        """Project onto one of the balls if that lies in the other, else onto both spheres."""
        if self.outer.holds(point) and self.inner.holds(point):
            return point
        for one, other in ((self.outer, self.inner), (self.inner, self.outer)):
            candidate = one.project(point)
            if other.holds(candidate):
                return candidate
        distance = euclidean_norm(self.inner.center)
        outer, inner = self.outer.radius, self.inner.radius
        if distance <= EPS * outer:  # but for rounding, one of them lies in the other
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
        height = math.sqrt(max(inner**2 - (along - distance) ** 2, 0.0)) * (1.0 - 1e-12)
        return along * axis + (across * (height / length) if length > 0 else 0.0)


@dataclass(frozen=True, kw_only=True)
class Density:
    """``exp(-s F(w))`` on a ball around 0, or on its intersection with one around a point of it.

    ``F = mean loss + (alpha/2) ||w||^2``, and the factor s is the concentration.
    """

    records: Records
    loss: Loss
    alpha: float
    concentration: float
    balls: tuple[CenteredBall, ...]

    def __post_init__(self) -> None:
        self.records.check_targets(self.loss)

    def near_minimiser(self, solver: Any, rng: np.random.Generator) -> np.ndarray:
        """Find a good anchor: near the minimiser of F over the balls. Any one is valid."""
        radius, s = self.balls[0].radius, self.concentration
        domain = (
            Ball(radius) if len(self.balls) == 1 else Lens(outer=self.balls[0], inner=self.balls[1])
        )
        alpha = max(self.alpha, rules.ANCHOR_SLACK / (s * radius**2))
        problem = FiniteSumProblem(self.records, self.loss, alpha, domain)
        constants = problem.constants
        gradient = constants.lipschitz + alpha * radius + 2.0 * radius * constants.total_smoothness
        accuracy = max(rules.ANCHOR_SLACK / (s * gradient), certifiable_accuracy(constants))
        try:
            return solve_certified(problem, accuracy, resolve_solver(solver), rng=rng).point
        except RuntimeError:
            return self.balls[-1].center


@dataclass(frozen=True, kw_only=True)
class LowerBound:
    """A quadratic below F on the balls, equal to it at the anchor.

    ``q(w) = F(anchor) + <g, w - anchor> + (1/2) (w - anchor)' H (w - anchor)``, with g the
    gradient at the anchor and ``H = (1/n) sum_i c_i x_i x_i' + alpha I``, c_i the least second
    derivative of a record's loss on the balls. Eigenvalues and eigenvectors are those of H,
    `linear` is ``H anchor - g``, and the other arrays hold for each record its margin, loss and
    derivative at the anchor, and c_i.
    """

    eigenvalues: np.ndarray
    eigenvectors: np.ndarray
    linear: np.ndarray
    margins: np.ndarray
    values: np.ndarray
    derivatives: np.ndarray
    curvatures: np.ndarray

    @classmethod
    def at(cls, anchor: np.ndarray, density: Density) -> LowerBound:
        """Make the bound that touches F at `anchor`."""
        records, loss, n = density.records, density.loss, density.records.n_units
        margins, values, derivatives, curvatures = np.empty((4, records.n_records))
        # least second derivatives for margins up to each level, from a table for speed
        step = records.norm_bound * density.balls[0].radius / rules.LEVELS
        levels = step * np.arange(1, rules.LEVELS + 2) * ROUNDING_SLACK
        least = np.array([loss.least_curvature(1.0, float(level)) for level in levels])
        gradient = density.alpha * anchor
        hessian = density.alpha * np.eye(records.width)
        for block in records.blocks():
            part, norms = block.positions, block.norms()
            margins[part] = block.margins(anchor[None])
            values[part], derivatives[part] = loss.value_and_derivative(
                margins[part], block.targets
            )
            bounds = [
                np.abs(block.margins(ball.center[None])) + ball.radius * norms
                for ball in density.balls
            ]
            largest = np.minimum.reduce(bounds)
            curvatures[part] = least[np.minimum((largest / step).astype(int), rules.LEVELS)]
            gradient = gradient + block.pull_back(derivatives[part]).ravel() / n
            hessian += block.gram(curvatures[part]) / n
        eigenvalues, eigenvectors = _eigh(hessian)
        eigenvalues = np.maximum(eigenvalues, density.alpha)  # but for rounding it is so
        linear = hessian @ anchor - gradient
        return cls(
            eigenvalues=eigenvalues,
            eigenvectors=eigenvectors,
            linear=linear,
            margins=margins,
            values=values,
            derivatives=derivatives,
            curvatures=curvatures,
        )


def _eigh(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Decompose a symmetric matrix of finite entries of any size."""
    _, exponent = math.frexp(float(np.abs(matrix).max()))
    unit = math.ldexp(1.0, exponent - 1)  # no entry is above 2 in absolute value
    scaled = matrix / unit
    try:
        eigenvalues, eigenvectors = eigh(scaled)
    except np.linalg.LinAlgError:  # another algorithm
        eigenvalues, eigenvectors = eigh(scaled, driver="ev")
    return eigenvalues * unit, eigenvectors


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """A Gaussian whose draws rejection turns into draws from ``exp(-s q)`` on the balls.

    With ``q_lam = q + sum_j (lam_j / 2) (||w - c_j||^2 - r_j^2)``, at most q on the balls, the
    Gaussian is ``exp(-s q_lam)`` and a draw from it is kept with probability
    ``exp(-s (q - q_lam))`` if it lies in the balls. Valid for any multipliers ``lam_j >= 0``.
    Coordinates are those of the eigenvectors; the weight of a ball is ``s lam_j / 2``.
    """

    eigenvectors: np.ndarray
    mean: np.ndarray
    deviations: np.ndarray
    centers: np.ndarray
    radii: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(
        cls, bound: LowerBound, density: Density, multipliers: np.ndarray | None = None
    ) -> Proposal:
        """Make the Gaussian of some multipliers; default: those that accept most."""
        s, eigenvectors = density.concentration, bound.eigenvectors
        centers = np.array([ball.center for ball in density.balls]) @ eigenvectors
        radii = np.array([ball.radius for ball in density.balls])
        linear = eigenvectors.T @ bound.linear
        if multipliers is None:
            multipliers = _best_multipliers(bound.eigenvalues, linear, centers, radii, s)
        precision = bound.eigenvalues + multipliers.sum()
        mean = (linear + multipliers @ centers) / precision
        deviations = 1.0 / np.sqrt(s * precision)
        return cls(
            eigenvectors=eigenvectors,
            mean=mean,
            deviations=deviations,
            centers=centers,
            radii=radii,
            weights=0.5 * s * multipliers,
        )

    def draw(self, size: int, noise: NoiseSource) -> tuple[np.ndarray, np.ndarray]:
        """Return the proposals with costs below their allowances, and the rest of these."""
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
    eigenvalues: np.ndarray, linear: np.ndarray, centers: np.ndarray, radii: np.ndarray, s: float
) -> np.ndarray:
    """Maximise the probability of acceptance (Lemma 4), whose logarithm is concave.

    Where a multiplier is positive, the mean square of the proposal's distance to the ball's center
    is the squared radius. Any multipliers are valid.
    """
    multipliers = np.zeros(len(radii))

    def excess(j: int, multiplier: float) -> float:
        multipliers[j] = multiplier
        precision = eigenvalues + multipliers.sum()
        if not precision.min() > 0:
            return sys.float_info.max
        mean = (linear + multipliers @ centers) / precision
        spread = float((1.0 / precision).sum()) / s
        found = float(np.square(mean - centers[j]).sum()) + spread - float(radii[j]) ** 2
        return min(found, sys.float_info.max)  # root finders need finite numbers

    for _ in range(rules.ASCENTS if len(radii) > 1 else 1):
        before = multipliers.copy()
        for j, radius in enumerate(radii):
            if excess(j, 0.0) <= 0:
                continue
            upper = min(max(1.0 / (s * radius**2), _SMALLEST), _LARGEST)
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


def draw(density: Density, solver: Any, rng: np.random.Generator, noise: NoiseSource) -> np.ndarray:
    """Draw a point from a density exactly; the solver, with `rng`, finds the anchor."""
    anchor = density.balls[-1].center
    if not density.loss.is_quadratic:  # else F is its own lower bound
        found = density.near_minimiser(solver, rng)
        if all(ball.holds(found, ROUNDING_SLACK) for ball in density.balls):
            anchor = found  # an anchor must lie in the balls
    bound = LowerBound.at(anchor, density)
    return sample(density, bound, Proposal.of(bound, density), noise)


def sample(
    density: Density, bound: LowerBound, proposal: Proposal, noise: NoiseSource
) -> np.ndarray:
    """Return the first proposal that is accepted: exact, whatever the bound's anchor is."""
    size, largest = rules.FIRST_BATCH, max(rules.FIRST_BATCH, _BATCH_NUMBERS // len(proposal.mean))
    while True:
        points, allowances = proposal.draw(size, noise)
        for start in range(0, len(points), rules.MOST_POINTS):
            part = slice(start, start + rules.MOST_POINTS)
            accepted = accept(density, bound, points[part], allowances[part])
            if accepted.size:
                return points[part][accepted[0]].copy()
        size = min(2 * size, largest)


def accept(
    density: Density, bound: LowerBound, points: np.ndarray, allowances: np.ndarray
) -> np.ndarray:
    """Return the indices of the points with ``s (F - q) <= allowance``, by blocks of records."""
    active = np.arange(len(points))
    if density.loss.is_quadratic:
        return active
    n, last, start = density.records.n_units, density.records.n_records, 0
    left = allowances.copy()
    while start < last and active.size:
        size = min(max(_MARGIN_NUMBERS // active.size, 16), rules.MOST_ROWS)
        block = density.records.block(slice(start, min(start + size, last)))
        part = block.positions
        margins = block.margins(points[active]).reshape(-1, active.size)
        moved = margins - bound.margins[part, None]
        values = density.loss.value(margins, block.targets[:, None])
        values -= bound.values[part, None]
        slopes = bound.derivatives[part, None] + 0.5 * bound.curvatures[part, None] * moved
        values -= slopes * moved
        left[active] -= density.concentration / n * block.weighted(values).sum(axis=0)
        active = active[left[active] >= 0.0]
        start += size
    return active

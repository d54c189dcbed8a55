"""Proofs of accuracy from computable quantities.

**Minimisation.** Let F be mu-strongly convex and beta-smooth on the closed convex set X, and
``T(w) = Proj_X(w - grad F(w) / beta)``. Then

    ``||w - w*|| <= (beta / mu) ||w - T(w)||``    for every w of X,

which is never above the certificates C1 (``||grad F(w)|| / mu``, in the interior) and C2 (with a
normal vector, on the boundary) and needs no decision whether w lies on the boundary. In the
interior C1 is computed too, as it is less sensitive to rounding there
(docs/theory/output_perturbation.md, Lemma 3).

**A forward-backward step** (C4): :func:`certify_saddle`. A step from any feasible pair gives a pair
whose distance to the saddle point in the norm ``||(x, y)||_M^2 = mu_x ||x||^2 + mu_y ||y||^2`` is
bounded (docs/theory/saddle.md, Lemma 3).

In both all rounding errors enter linearly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from skdp.problems import Problem, SaddleConstants, SaddleProblem
from skdp.problems.domains import euclidean_norm
from skdp.problems.rounding import EPS
from skdp.problems.saddle import Pair

#: Step of the saddle certificate and of the extragradient method in units of 1 / l.
STEP = math.sqrt(2.0) - 1.0


@dataclass(frozen=True)
class Certificate:
    """A proven bound on the Euclidean distance to the exact solution."""

    distance: float


@dataclass(frozen=True)
class Attempt:
    """The result of one solver.

    Attributes
    ----------
    solver : str
    distance : float
        Certified distance of its answer; ``inf`` without a usable one.
    error : str or None
        The exception that it raised, or what is wrong with its answer.
    """

    solver: str
    distance: float
    error: str | None = None


@dataclass(frozen=True)
class Solution:
    """A feasible point and the proof of its accuracy.

    Attributes
    ----------
    point : ndarray of shape (dimension,)
    distance : float
        The certified distance to the exact solution.
    attempts : tuple of Attempt
        Of the chosen solver and, as far as needed, of trusted ones. They depend on the records.
    """

    point: np.ndarray
    distance: float
    attempts: tuple[Attempt, ...] = ()


@dataclass(frozen=True)
class SaddlePoint:
    """A feasible pair and a proven bound on its distance to the saddle point.

    Attributes
    ----------
    x, y : ndarray
    distance : float
        ``sqrt(mu_x ||x - x*||^2 + mu_y ||y - y*||^2)`` does not exceed it.
    attempts : tuple of Attempt
        As those of a :class:`Solution`.
    """

    x: np.ndarray
    y: np.ndarray
    distance: float
    attempts: tuple[Attempt, ...] = ()

    @property
    def point(self) -> Pair:
        """The pair ``(x, y)``."""
        return self.x, self.y


def certify(problem: Problem, point: np.ndarray, gradient: np.ndarray | None = None) -> Certificate:
    """Bound the distance of a feasible `point` to the solution of a smooth `problem`.

    Parameters
    ----------
    problem : Problem
    point : ndarray of shape (dimension,)
        A point of the domain, as ``problem.domain.project`` returns it.
    gradient : ndarray of shape (dimension,), optional
        The gradient at the point, when it is at hand.

    Returns
    -------
    Certificate
        Every gradient norm is increased by the rounding bound of the problem, every step
        by that of the step and of the projection.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.problems import Ball, DeclaredProblem
    >>> from skdp.solvers import certify
    >>> problem = DeclaredProblem(
    ...     lambda w: (0.5 * float(w @ w), w), dimension=2, lipschitz=1.0, smoothness=1.0,
    ...     strong_convexity=1.0, domain=Ball(1.0),
    ... )
    >>> 0.3 <= certify(problem, np.array([0.3, 0.0])).distance < 0.31
    True
    """
    if gradient is None:
        gradient = problem.gradient(point)
    mu, beta, domain = problem.strong_convexity, problem.smoothness, problem.domain
    length, rounding = euclidean_norm(gradient), problem.gradient_rounding(point)
    distance = (length + rounding) / mu
    if math.isnan(distance):
        distance = math.inf
    if domain.circumradius < distance:  # both points lie in the domain
        away = domain.circumradius + euclidean_norm(point - domain.center(point.size))
        distance = min(distance, away)
    ahead = point - gradient / beta
    after = domain.project(ahead)
    if after is not ahead:  # in the interior the step is the gradient with more rounding
        error = EPS * (2.0 * euclidean_norm(point) + 3.0 * length / beta)
        error += domain.projection_rounding(point.size)
        moved = euclidean_norm(point - after) * (1.0 + point.size * EPS) + error
        distance = min(distance, (beta * moved + rounding) / mu)
    return Certificate(distance)


def certify_saddle(problem: SaddleProblem, x: np.ndarray, y: np.ndarray) -> SaddlePoint:
    """Certify the forward-backward image z+ of a pair z, with a step ``eta / mu`` in each block.

    ``eta = (sqrt(2) - 1) / l``, l the condition number. The distance is that of z+, not of z: with
    ``s = (z - z+) / step - A(z) + A(z+)`` block by block it is at most ``sqrt(sum ||s_b||^2 /
    mu_b)``. There is one step per block: with one per coordinate and a Euclidean projection the
    statement is false (docs/theory/saddle.md, "Certificate").

    *Rounding.* Let u be the computed ``z - T A(z)`` and p the exact projection of the exact
    ``z - T A(z)`` with the *computed* A(z), whose error therefore cancels. The bound holds for p
    with the exact A(p); p differs from z+ by at most e, the error of u plus that of the
    projection. So ``||s||`` is increased by ``e / t``, by the error of ``A(z+)``, by the smoothness
    times e, and by the roundings of its own three terms; the distance by ``||e||_M``.

    Parameters
    ----------
    problem : SaddleProblem
    x, y : ndarray
        A feasible pair, as ``problem.project`` returns it.

    Returns
    -------
    SaddlePoint
        Distance ``inf`` where something is not finite.
    """
    operators, constants = problem.operator(x, y), problem.constants
    moduli = constants.moduli
    eta = STEP / constants.condition_number
    steps = eta / moduli[0], eta / moduli[1]
    after = problem.project(x - steps[0] * operators[0], y - steps[1] * operators[1])
    operators_after = problem.operator(*after)
    norms = [euclidean_norm(block) for block in (x, y)]
    sizes = [
        euclidean_norm(s) + euclidean_norm(t)
        for s, t in zip(operators, operators_after, strict=True)
    ]
    moves = [euclidean_norm(z - ahead) for z, ahead in zip((x, y), after, strict=True)]
    errors, rounding = _allowances(
        constants, norms, sizes, moves, problem.operator_rounding(*after), steps
    )
    total = 0.0
    parts = zip((x, y), after, operators, operators_after, steps, rounding, moduli, strict=True)
    for z, ahead, operator, following, step, error, mu in parts:
        residual = (z - ahead) / step + (following - operator)
        total += (euclidean_norm(residual) + error) ** 2 / mu
    distance = math.sqrt(total) * (1.0 + 16.0 * EPS) + constants.norm(*errors)
    return SaddlePoint(*after, distance if math.isfinite(distance) else math.inf)


def certifiable_saddle_accuracy(constants: SaddleConstants) -> float:
    """Compute a public accuracy, in the norm M, that :func:`certify_saddle` surely reaches.

    Eight times the rounding terms of the certificate at the largest feasible norms; in an
    unbounded domain at the largest norms of a solution.
    """
    norms, sizes = [], []
    for block in (constants.x, constants.y):
        away = 2.0 * constants.localisation / math.sqrt(block.modulus)
        norms.append(min(block.radius, block.center_norm + away))
        sizes.append(2.0 * (block.lipschitz + block.modulus * (norms[-1] + block.center_norm)))
    eta = STEP / constants.condition_number
    steps = eta / constants.x.modulus, eta / constants.y.modulus
    moves = [step * size for step, size in zip(steps, sizes, strict=True)]
    operator_rounding = constants.operator_rounding(*norms)
    errors, rounding = _allowances(constants, norms, sizes, moves, operator_rounding, steps)
    return 8.0 * (constants.dual_norm(*rounding) + constants.norm(*errors))


def _allowances(
    constants: SaddleConstants,
    norms: list[float],
    sizes: list[float],
    moves: list[float],
    operator_rounding: tuple[float, float],
    steps: tuple[float, float],
) -> tuple[list[float], list[float]]:
    """Errors of the blocks of z+, and of those of s, from norms of z, of both A and of z - z+."""
    blocks = constants.x, constants.y
    errors = [
        EPS * (2.0 * norm + 3.0 * step * size) + block.projection_rounding
        for block, norm, step, size in zip(blocks, norms, steps, sizes, strict=True)
    ]
    rounding = [
        error / step
        + computed
        + block.smoothness * error
        + constants.coupling * other_error
        + block.modulus * error
        + (block.dimension + 8.0) * EPS * (move / step + size)
        for block, error, other_error, step, computed, move, size in zip(
            blocks, errors, errors[::-1], steps, operator_rounding, moves, sizes, strict=True
        )
    ]
    return errors, rounding

"""Proofs of accuracy from computable quantities.

**Minimisation.** One rule serves every domain. Let F be mu-strongly convex and beta-smooth on
the closed convex set X, and ``T(w) = Proj_X(w - grad F(w) / beta)``. Then

    ``||w - w*|| <= (beta / mu) ||w - T(w)||``    for every w of X.

*Proof.* ``w - grad F(w) / beta`` contracts distances by ``1 - mu / beta``, the projection
expands none, and ``T(w*) = w*``: ``||w - w*|| <= ||w - T(w)|| + ||T(w) - T(w*)|| <=
||w - T(w)|| + (1 - mu / beta) ||w - w*||``.

In exact arithmetic it is never above the certificates C1 and C2 of the specification of
Zhang et al. (2022), ``||grad F(w) + v|| / mu`` for a v in the normal cone at w, because
``w = Proj_X(w + v / beta)``. Unlike C2 it needs no decision whether w lies on the boundary
(review W5): all rounding errors enter linearly. Inside of X it equals C1, which is computed
too, being the less sensitive to rounding there.

**A step of any forward-backward method** (C3, and C4 for saddle points):
:func:`forward_backward_distance`. One such step from any feasible pair gives a pair whose distance
to the saddle point in the norm ``||(x, y)||_M^2 = mu_x ||x||^2 + mu_y ||y||^2`` is bounded, on
whatever face of the domains it lies. All rounding errors enter linearly. Proofs:
docs/theory/saddle.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from skdp.problems.domains import euclidean_norm

if TYPE_CHECKING:
    from skdp.problems import Problem, SaddleConstants, SaddleProblem

__all__ = [
    "STEP",
    "Attempt",
    "Certificate",
    "ForwardBackwardStep",
    "Pair",
    "SaddlePoint",
    "Solution",
    "certifiable_saddle_accuracy",
    "certify",
    "certify_saddle",
    "forward_backward_distance",
]

#: A point of both blocks of a saddle problem.
Pair = tuple[np.ndarray, np.ndarray]

_EPS = float(np.finfo(np.float64).eps)
#: Step of the saddle certificate and of the extragradient method in units of 1 / lt.
STEP = math.sqrt(2.0) - 1.0


@dataclass(frozen=True)
class Certificate:
    """A proven bound on the distance to the exact solution.

    Attributes
    ----------
    distance : float
        Euclidean distance to the solution that the point does not exceed.
    rule : str
        "gradient" (C1), "step" (the rule of the module) or "diameter" (both points lie in the
        domain).
    """

    distance: float
    rule: str


@dataclass(frozen=True)
class Attempt:
    """What one solver made of a problem.

    Attributes
    ----------
    solver : str
    distance : float
        Certified distance of its answer; ``inf`` without a usable one.
    error : str or None
        What it raised, or what was wrong with its answer.
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
    certificate : Certificate
    attempts : tuple of Attempt
        The solver that was asked for and, as far as needed, the trusted ones after it. They
        depend on the records, like the point.
    """

    point: np.ndarray
    certificate: Certificate
    attempts: tuple[Attempt, ...] = ()

    @property
    def distance(self) -> float:
        """The certified distance to the exact solution."""
        return self.certificate.distance


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
    """
    if gradient is None:
        gradient = problem.gradient(point)
    mu, beta, domain = problem.strong_convexity, problem.smoothness, problem.domain
    length, rounding = euclidean_norm(gradient), problem.gradient_rounding(point)
    rule, distance = "gradient", (length + rounding) / mu
    if math.isnan(distance):
        distance = math.inf
    if domain.circumradius < distance:
        away = domain.circumradius + euclidean_norm(point - domain.center(point.size))
        if away < distance:
            rule, distance = "diameter", away
    ahead = point - gradient / beta
    after = domain.project(ahead)
    if after is not ahead:  # in the interior the step is the gradient with more rounding
        error = _EPS * (2.0 * euclidean_norm(point) + 3.0 * length / beta)
        error += domain.projection_rounding(point.size)
        moved = euclidean_norm(point - after) * (1.0 + point.size * _EPS) + error
        step = (beta * moved + rounding) / mu
        if step < distance:
            rule, distance = "step", step
    return Certificate(distance, rule)


@dataclass(frozen=True)
class ForwardBackwardStep:
    """One block of ``z+ = Proj_Z(z - step * A(z))``.

    Attributes
    ----------
    before, after : ndarray
        The block of z and of z+.
    operator_before, operator_after : ndarray
        The block of A(z) and of A(z+).
    step : float
        One number for the whole block: with a step per coordinate and a Euclidean
        projection the statement is false (review W10).
    strong_monotonicity : float
        Modulus mu of the block.
    """

    before: np.ndarray
    after: np.ndarray
    operator_before: np.ndarray
    operator_after: np.ndarray
    step: float
    strong_monotonicity: float


def forward_backward_distance(
    blocks: Sequence[ForwardBackwardStep], rounding: Sequence[float] | None = None
) -> float:
    """Certificates C3 (one block: minimisation) and C4 (two blocks: a saddle point).

    With ``s = (z - z+) / step - A(z) + A(z+)`` block by block,
    ``sqrt(sum mu_b ||z+_b - z*_b||^2) <= sqrt(sum ||s_b||^2 / mu_b)``. For one block that is
    ``sqrt(mu)`` times the distance.

    *Proof.* ``(z - z+) / step - A(z)`` lies in the normal cone at z+, hence s in
    ``A(z+) + N(z+)``; 0 lies in that set at z*. Strong monotonicity between the two and
    Cauchy's inequality in the metric of the moduli.

    Parameters
    ----------
    blocks : sequence of ForwardBackwardStep
    rounding : sequence of float, optional
        Bounds on the rounding error of each ``||s_b||``.

    Returns
    -------
    float
        Bound on the distance of z+ to the solution in the norm ``sqrt(sum mu_b ||.||^2)``.
    """
    slack = [0.0] * len(blocks) if rounding is None else rounding
    total = 0.0
    for block, error in zip(blocks, slack, strict=True):
        residual = (block.before - block.after) / block.step
        residual += block.operator_after - block.operator_before
        total += (euclidean_norm(residual) + error) ** 2 / block.strong_monotonicity
    return math.sqrt(total)


def certify_saddle(
    problem: SaddleProblem,
    x: np.ndarray,
    y: np.ndarray,
    operator: tuple[np.ndarray, np.ndarray] | None = None,
) -> SaddlePoint:
    """The forward-backward image of a pair, and its certified distance to the saddle point.

    With ``eta = (sqrt(2) - 1) / lt``, ``t_x = eta / mu_x``, ``t_y = eta / mu_y`` and
    ``z+ = Proj(z - T A(z))``, ``s = T^-1 (z - z+) - A(z) + A(z+)``:
    ``||z+ - z*||_M <= sqrt(||s_x||^2 / mu_x + ||s_y||^2 / mu_y)``. It is z+ that the bound is
    for, not z. One step per block: with one per coordinate it would be false (review W10).

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
    operator : pair of ndarray, optional
        ``problem.operator(x, y)``, when it is at hand.

    Returns
    -------
    SaddlePoint
        Distance ``inf`` where something is not finite.
    """
    operators = problem.operator(x, y) if operator is None else operator
    constants = problem.constants
    eta = STEP / constants.condition_number
    steps = eta / constants.x.modulus, eta / constants.y.modulus
    after = problem.project(x - steps[0] * operators[0], y - steps[1] * operators[1])
    operators_after = problem.operator(*after)
    blocks = tuple(
        ForwardBackwardStep(*arguments)
        for arguments in zip(
            (x, y), after, operators, operators_after, steps, constants.moduli, strict=True
        )
    )
    norms = [euclidean_norm(block.before) for block in blocks]
    sizes = [
        euclidean_norm(s) + euclidean_norm(t)
        for s, t in zip(operators, operators_after, strict=True)
    ]
    moves = [euclidean_norm(block.before - block.after) for block in blocks]
    errors, rounding = _allowances(
        constants, norms, sizes, moves, problem.operator_rounding(*after), steps
    )
    distance = forward_backward_distance(blocks, rounding) * (1.0 + 16.0 * _EPS)
    distance += constants.norm(*errors)
    return SaddlePoint(*after, distance if math.isfinite(distance) else math.inf)


def certifiable_saddle_accuracy(constants: SaddleConstants) -> float:
    """Public accuracy, in the norm M, that :func:`certify_saddle` reaches with a wide margin.

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
        _EPS * (2.0 * norm + 3.0 * step * size) + block.projection_rounding
        for block, norm, step, size in zip(blocks, norms, steps, sizes, strict=True)
    ]
    rounding = [
        error / step
        + computed
        + block.smoothness * error
        + constants.coupling * other_error
        + block.modulus * error
        + (block.dimension + 8.0) * _EPS * (move / step + size)
        for block, error, other_error, step, computed, move, size in zip(
            blocks, errors, errors[::-1], steps, operator_rounding, moves, sizes, strict=True
        )
    ]
    return errors, rounding

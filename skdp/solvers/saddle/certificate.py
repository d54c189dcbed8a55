"""Proof of the accuracy of a saddle point from computable quantities (C4).

One forward-backward step from any feasible pair gives a pair whose distance to the saddle
point in the norm ``||(x, y)||_M^2 = mu_x ||x||^2 + mu_y ||y||^2`` is bounded by
:func:`skdp.solvers.forward_backward_distance`, on whatever face of the domains it lies. All
rounding errors enter linearly. Proofs: docs/theory/saddle.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from skdp.problems.domains import euclidean_norm
from skdp.solvers.certificates import Attempt, ForwardBackwardStep, forward_backward_distance

if TYPE_CHECKING:
    from skdp.problems import SaddleConstants, SaddleProblem

__all__ = ["STEP", "SaddlePoint", "certifiable_saddle_accuracy", "certify_saddle"]

_EPS = float(np.finfo(np.float64).eps)
#: Step of the certificate and of the extragradient method in units of 1 / lt.
STEP = math.sqrt(2.0) - 1.0


@dataclass(frozen=True)
class SaddlePoint:
    """A feasible pair and a proven bound on its distance to the saddle point.

    Attributes
    ----------
    x, y : ndarray
    distance : float
        ``sqrt(mu_x ||x - x*||^2 + mu_y ||y - y*||^2)`` does not exceed it.
    attempts : tuple of Attempt
        The solver that was asked for and, if needed, the trusted one. They depend on the records,
        like the pair.
    """

    x: np.ndarray
    y: np.ndarray
    distance: float
    attempts: tuple[Attempt, ...] = ()


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

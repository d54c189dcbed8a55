"""The extragradient method (Korpelevich 1976) in the metric of the moduli."""

from __future__ import annotations

import math

from numpy.random import Generator

from skdp.problems import SaddleConstants, SaddleProblem
from skdp.problems.domains import euclidean_norm
from skdp.problems.saddle import Pair
from skdp.solvers.base import SaddleSolver
from skdp.solvers.certificates import STEP, certify_saddle

#: Longest step, in the scaled coordinates; the regulariser alone allows no more than 1/2.
_LONGEST = 0.25
#: Share of the last move in the condition for a step; 1 would leave nothing for rounding.
_LAST = 0.9
#: Growth of the step after an iteration that would have allowed it.
_GROWTH = 1.5
#: Iterations between two certificates once the steps look short enough.
_PAUSE = 8


def extragradient_iterations(constants: SaddleConstants, accuracy: float, start: float) -> int:
    """Iterations after which :func:`certify_saddle` is proven to give `accuracy`.

    ``(2 / eta) log(4 l start / accuracy)`` with l the condition number, ``eta = (sqrt(2) - 1) / l``
    and `start` the first distance in the norm M (docs/theory/saddle.md, Lemmas 3 and 4).
    """
    kappa = constants.condition_number
    ratio = max(1.0, 4.0 * kappa * start / accuracy)
    return max(1, math.ceil(2.0 * kappa / STEP * math.log(ratio)))


class Extragradient(SaddleSolver):
    """Extragradient steps until certified: ``zh = Proj(z - T A(z))``, ``z <- Proj(z - T A(zh))``.

    ``T = eta M^-1``. A step ``eta <= 1/4`` that leads from z to z' is accepted if
    ``2 eta <A(z) - A(zh), z' - zh> <= min(1 - 2 eta, 1/2) ||zh - z||^2 + 0.9 ||z' - zh||^2``, which
    is more than the proof of the contraction by ``1 - eta`` needs; else it is halved, but not below
    ``(sqrt(2) - 1) / l``, l the condition number, which is proven to contract. It makes at most
    :func:`extragradient_iterations`.
    """

    def _solve(self, problem: SaddleProblem, accuracy: float, start: Pair, rng: Generator) -> Pair:
        constants = problem.constants
        shortest = STEP / constants.condition_number
        eta, (x, y) = max(shortest, _LONGEST), start
        away = certify_saddle(problem, x, y)
        # half of the accuracy is for rounding; the start is within `distance` plus one step of z*
        step = constants.norm(euclidean_norm(away.x - x), euclidean_norm(away.y - y))
        first = min(constants.diameter, away.distance + step)
        limit = extragradient_iterations(constants, 0.5 * accuracy, first)
        pause = 0
        for _ in range(limit + 1):
            operator = problem.operator(x, y)
            while True:
                steps = eta / constants.x.modulus, eta / constants.y.modulus
                half = problem.project(x - steps[0] * operator[0], y - steps[1] * operator[1])
                operator_half = problem.operator(*half)
                after = problem.project(
                    x - steps[0] * operator_half[0], y - steps[1] * operator_half[1]
                )
                move_x, move_y = x - half[0], y - half[1]
                last_x, last_y = after[0] - half[0], after[1] - half[1]
                change_x, change_y = operator[0] - operator_half[0], operator[1] - operator_half[1]
                excess = 2.0 * eta * float(change_x @ last_x + change_y @ last_y)
                moved = constants.norm(euclidean_norm(move_x), euclidean_norm(move_y))
                last = constants.norm(euclidean_norm(last_x), euclidean_norm(last_y))
                allowed = min(1.0 - 2.0 * eta, 0.5) * moved**2 + _LAST * last**2
                if eta <= shortest or excess <= allowed:
                    break
                eta = max(shortest, 0.5 * eta)
            # C4 of the half step, without an allowance for rounding
            residual_x, residual_y = move_x / steps[0] - change_x, move_y / steps[1] - change_y
            bound = constants.dual_norm(euclidean_norm(residual_x), euclidean_norm(residual_y))
            x, y = after
            pause -= 1
            if bound <= accuracy and pause <= 0:
                if certify_saddle(problem, x, y).distance <= accuracy:
                    return x, y
                pause = _PAUSE
            if _GROWTH**2 * excess <= allowed:
                eta = min(_LONGEST, _GROWTH * eta)
        return x, y

"""Simultaneous gradient descent and ascent in the metric of the moduli."""

from __future__ import annotations

from numpy.random import Generator

from skdp.problems import SaddleProblem
from skdp.problems.saddle import Pair
from skdp.solvers.base import SaddleSolver
from skdp.solvers.certificates import certify_saddle

#: Iterations between two certificates.
_PAUSE = 20


class GDA(SaddleSolver):
    """``z <- Proj(z - M^-1 A(z) / l^2)``: the squared distance shrinks by ``1 - 1 / l^2``.

    l is the condition number. The slowest of all, a baseline.
    """

    def __init__(self, max_iterations: int = 100_000) -> None:
        self.max_iterations = max_iterations

    def _solve(self, problem: SaddleProblem, accuracy: float, start: Pair, rng: Generator) -> Pair:
        constants = problem.constants
        eta = 1.0 / constants.condition_number**2
        step_x, step_y = eta / constants.x.modulus, eta / constants.y.modulus
        x, y = start
        for iteration in range(self.max_iterations):
            gradient_x, gradient_y = problem.operator(x, y)
            if iteration % _PAUSE == 0:
                reached = certify_saddle(problem, x, y, (gradient_x, gradient_y)).distance
                if reached <= accuracy:
                    break
            x, y = problem.project(x - step_x * gradient_x, y - step_y * gradient_y)
        return x, y

    def pass_limit(self, problem: SaddleProblem, accuracy: float) -> float:
        return self.max_iterations * (1.0 + 1.0 / _PAUSE)

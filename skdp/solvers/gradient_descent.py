"""Proximal gradient descent."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from skdp.solvers.base import Solver
from skdp.solvers.certificates import certify

if TYPE_CHECKING:
    from skdp.problems import Problem

__all__ = ["GradientDescent"]


class GradientDescent(Solver):
    """Gradient steps on the losses, the regulariser and the domain by their prox.

    A step ``w <- prox(w - grad f(w) / l)`` with l the smoothness of the mean loss f contracts
    the distance to the solution by ``1 / (1 + mu / l)``: the forward step expands nothing
    and the prox of a mu-strongly convex function contracts.

    Parameters
    ----------
    max_iterations : int, default=10_000
    """

    def __init__(self, max_iterations: int = 10_000) -> None:
        self.max_iterations = max_iterations

    def _solve(
        self, problem: Problem, accuracy: float, start: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        step = 1.0 / (problem.smoothness - problem.strong_convexity)
        w = start
        for _ in range(self.max_iterations):
            penalty = problem.penalty_gradient(w)
            gradient = problem.gradient(w)
            if certify(problem, w, gradient).distance <= accuracy:
                break
            w = problem.prox(w - step * (gradient - penalty), step)
        return w

    def pass_limit(self, problem: Problem, accuracy: float) -> float:
        mu = problem.strong_convexity
        rate = math.log1p(mu / (problem.smoothness - mu))
        distance = problem.constants.localisation
        needed = math.log(max(1.0, 2.0 * problem.smoothness * distance / (mu * accuracy))) / rate
        return min(self.max_iterations, 1.0 + math.ceil(needed))

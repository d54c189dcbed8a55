"""Projected accelerated gradient descent with a provable number of iterations."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from skdp.solvers.base import Solver
from skdp.solvers.certificates import certify

if TYPE_CHECKING:
    from skdp.problems import Problem

__all__ = ["AcceleratedGradient", "accelerated_gradient_iterations"]


def accelerated_gradient_iterations(
    smoothness: float, strong_convexity: float, start_distance: float, accuracy: float
) -> int:
    """Iterations after which the distance to the solution is at most `accuracy`.

    ``T = max(1, ceil(sqrt(kappa) log(9 beta D^2 / (8 gap))))`` with ``gap = mu accuracy^2 / 2``:
    review W6, which proves it for projected iterations whether or not the constraint is
    active (the published count, Lowy and Razaviyayn 2021, Lemma 3.2, is unproven there).

    Parameters
    ----------
    smoothness, strong_convexity : float
        beta and mu of the whole objective.
    start_distance : float
        D, a bound on the distance of the start to the solution.
    accuracy : float
        Wanted distance.
    """
    ratio = 9.0 * smoothness * start_distance**2 / (4.0 * strong_convexity * accuracy**2)
    if ratio <= 1.0:
        return 1
    return max(1, math.ceil(math.sqrt(smoothness / strong_convexity) * math.log(ratio)))


class AcceleratedGradient(Solver):
    """Nesterov's method for strongly convex objectives (Lowy and Razaviyayn 2021, Alg. 4).

    Stops as soon as a certificate allows, and in exact arithmetic no later than after
    :func:`accelerated_gradient_iterations`. This is the fallback whose success is a theorem.

    Parameters
    ----------
    max_iterations : int, optional
        Fewer iterations than the theorem asks for; default: no other limit.
    """

    def __init__(self, max_iterations: int | None = None) -> None:
        self.max_iterations = max_iterations

    def _solve(
        self, problem: Problem, accuracy: float, start: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        beta, mu = problem.smoothness, problem.strong_convexity
        ratio = math.sqrt(mu / beta)
        momentum = (1.0 - ratio) / (1.0 + ratio)
        # half the accuracy: what remains is room for rounding in the certificate
        budget = self._limited(
            accelerated_gradient_iterations(
                beta, mu, certify(problem, start).distance, 0.5 * accuracy
            )
        )
        previous, point = start, start
        for _ in range(budget):
            ahead = point + momentum * (point - previous)
            gradient = problem.gradient(ahead)
            previous, point = point, problem.domain.project(ahead - gradient / beta)
            # the step contracts by 1 - mu / beta: see skdp.solvers.certificates
            if beta * float(np.linalg.norm(ahead - point)) <= 0.5 * mu * accuracy:
                break
        return point

    def pass_limit(self, problem: Problem, accuracy: float) -> float:
        reach = problem.constants.localisation
        return 2.0 + self._limited(
            accelerated_gradient_iterations(
                problem.smoothness, problem.strong_convexity, reach, 0.5 * accuracy
            )
        )

    def _limited(self, iterations: int) -> int:
        return iterations if self.max_iterations is None else min(iterations, self.max_iterations)

"""Accelerated projected gradient descent."""

from __future__ import annotations

import math

import numpy as np
from numpy.random import Generator

from skdp.problems import Problem
from skdp.solvers.base import Solver, Vector
from skdp.solvers.certificates import certify


def accelerated_gradient_iterations(
    smoothness: float, strong_convexity: float, start_distance: float, accuracy: float
) -> int:
    """Iterations after which the distance to the solution is at most `accuracy`.

    ``T = max(1, ceil(sqrt(kappa) log(9 beta D^2 / (8 gap))))`` with ``gap = mu accuracy^2 / 2``:
    docs/theory/output_perturbation.md, Lemma 3a, whether or not the constraint is active (the
    published count, Lowy and Razaviyayn 2021, Lemma 3.2, is unproven there).

    beta and mu are those of the objective, D is `start_distance`, a bound on the distance of the
    start to the solution.
    """
    ratio = 9.0 * smoothness * start_distance**2 / (4.0 * strong_convexity * accuracy**2)
    if ratio <= 1.0:
        return 1
    return max(1, math.ceil(math.sqrt(smoothness / strong_convexity) * math.log(ratio)))


class AcceleratedGradient(Solver):
    """Nesterov's method for strongly convex objectives (Lowy and Razaviyayn 2021, Alg. 4).

    Stops as soon as a certificate allows, and in exact arithmetic no later than after
    :func:`accelerated_gradient_iterations`, or `max_iterations` if that is less.
    """

    def __init__(self, max_iterations: int | None = None) -> None:
        self.max_iterations = max_iterations

    def _solve(self, problem: Problem, accuracy: float, start: Vector, rng: Generator) -> Vector:
        beta, mu = problem.smoothness, problem.strong_convexity
        ratio = math.sqrt(mu / beta)
        momentum = (1.0 - ratio) / (1.0 + ratio)
        previous, point = start, start
        # half the accuracy: the rest is for rounding in the certificate
        distance, most = certify(problem, start).distance, self.max_iterations
        proven = accelerated_gradient_iterations(beta, mu, distance, 0.5 * accuracy)
        for _ in range(proven if most is None else min(proven, most)):
            ahead = point + momentum * (point - previous)
            gradient = problem.gradient(ahead)
            previous, point = point, problem.domain.project(ahead - gradient / beta)
            # the step contracts by 1 - mu / beta: see skdp.solvers.certificates
            if beta * float(np.linalg.norm(ahead - point)) <= 0.5 * mu * accuracy:
                break
        return point

"""Stochastic recursive gradient (Nguyen, Liu, Scheinberg and Takac 2017) with a prox."""

from __future__ import annotations

import math

import numpy as np

from skdp.solvers.base import FiniteSum
from skdp.solvers.certificates import certify
from skdp.solvers.mini_batches import BestSoFar, StochasticSolver, draws

__all__ = ["SARAH"]


class SARAH(StochasticSolver):
    """SARAH: ``n + kappa`` gradients up to logarithms.

    The estimate of the gradient is updated along the path, ``v <- grad f_b(w_t) -
    grad f_b(w_{t-1}) + v``, with step ``1 / (2 l)``; the next snapshot is a uniformly random
    iterate of the epoch, so the epoch ends there. An epoch has at most 2 m steps at first (m
    batches); one that does not halve the certificate is followed by one twice as long, up to
    ``2 m + 4.5 l / mu``, the length that the theory asks for. That theory is for the whole
    space; on other domains each step ends with the prox.
    """

    def _solve(
        self, problem: FiniteSum, accuracy: float, start: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        batches = self.batches(problem)
        smoothness = batches.smoothness(rng)
        step = 1.0 / (2.0 * smoothness)
        most = 2 * len(batches)
        longest = most + math.ceil(4.5 * smoothness / problem.strong_convexity)
        best, last_distance, w, passes = BestSoFar(start), np.inf, start, 0.0
        while passes < self.max_passes:
            gradient = problem.gradient(w)
            distance = certify(problem, w, gradient).distance
            if distance <= accuracy:
                return w
            if distance > 0.5 * last_distance:
                most = min(2 * most, longest)
            last_distance = distance
            if best.is_lost(problem, w, gradient):
                w, step = best.point, 0.5 * step
                gradient = problem.gradient(w)
            length = int(rng.integers(1, most + 1))
            estimate, before = gradient - problem.penalty_gradient(w), w
            w = problem.prox(w - step * estimate, step)
            for j in draws(rng, len(batches), length):
                batch = batches[j]
                change = batch.residuals(w)
                change -= batch.residuals(before)
                estimate = estimate + batches.gradient(batch, change)
                before, w = w, problem.prox(w - step * estimate, step)
            passes += 1.0 + 2.0 * length / len(batches)
        return best.point

"""Proximal stochastic variance-reduced gradient (Johnson and Zhang 2013; Xiao and Zhang 2014)."""

from __future__ import annotations

import math

import numpy as np

from skdp.solvers.base import FiniteSum
from skdp.solvers.certificates import certify
from skdp.solvers.mini_batches import BestSoFar, StochasticSolver, draws

__all__ = ["SVRG"]


class SVRG(StochasticSolver):
    """Prox-SVRG: ``n + kappa`` gradients up to logarithms.

    An epoch takes the full gradient at a snapshot and remembers its residuals, then steps
    ``w <- prox(w - eta (grad f_b(w) - grad f_b(snapshot) + full))``; the last iterate is the next
    snapshot, where the full gradient is also the certificate. With l the smoothness of a batch
    and m batches, ``eta = 1 / (4 l)``. An epoch has 2 m steps at first; one that does not halve
    the certificate is followed by one twice as long, up to ``2 m + 2 l / mu`` steps: the proven
    length is of that order (Zhang et al. 2022 specification, section 4.3: ``100 l / mu`` steps
    with ``eta = 0.1 / l``) but seldom needed. A run that is lost (see
    ``BestSoFar``) goes back to its best snapshot with half the step.
    """

    def _solve(
        self, problem: FiniteSum, accuracy: float, start: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        batches = self.batches(problem)
        smoothness = batches.smoothness(rng)
        step = 1.0 / (4.0 * smoothness)
        length = 2 * len(batches)
        longest = length + math.ceil(2.0 * smoothness / problem.strong_convexity)
        best, last_distance, w, passes = BestSoFar(start), np.inf, start, 0.0
        while passes < self.max_passes:
            snapshot, full = problem.residuals_and_gradient(w)
            gradient = full + problem.penalty_gradient(w)
            distance = certify(problem, w, gradient).distance
            if distance <= accuracy:
                return w
            if distance > 0.5 * last_distance:
                length = min(2 * length, longest)
            last_distance = distance
            if best.is_lost(problem, w, gradient):
                w, step = best.point, 0.5 * step
                snapshot, full = problem.residuals_and_gradient(w)
            for j in draws(rng, len(batches), length):
                batch = batches[j]
                change = batch.residuals(w)
                change -= snapshot[batch.positions]
                w = problem.prox(w - step * (full + batches.gradient(batch, change)), step)
            passes += 1.0 + length / len(batches)
        return best.point

"""SAGA (Defazio, Bach and Lacoste-Julien 2014)."""

from __future__ import annotations

import numpy as np

from skdp.solvers.base import FiniteSum
from skdp.solvers.certificates import certify
from skdp.solvers.mini_batches import BestSoFar, StochasticSolver, draws

__all__ = ["SAGA"]

#: Epochs between two full gradients.
_CHECK_EVERY = 10


class SAGA(StochasticSolver):
    """SAGA with a table of residuals: ``n + kappa`` gradients up to logarithms.

    Step ``1 / (3 l)`` with l the smoothness of a batch. After every epoch the mean of the table
    estimates the certificate; a full gradient is taken when that looks small enough, and
    every ten epochs, to refresh the table and to see whether the step has to be halved.
    """

    def _solve(
        self, problem: FiniteSum, accuracy: float, start: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        batches = self.batches(problem)
        m = len(batches)
        step = 1.0 / (3.0 * batches.smoothness(rng))
        w, passes, best = start, 0.0, BestSoFar(start)
        epoch, check = 0, 1
        while True:
            if epoch == check - 1:
                table, mean = problem.residuals_and_gradient(w)
                passes += 1.0
                gradient = mean + problem.penalty_gradient(w)
                if certify(problem, w, gradient).distance <= accuracy:
                    return w
                if best.is_lost(problem, w, gradient):
                    w, step = best.point, 0.5 * step
                    table, mean = problem.residuals_and_gradient(w)
                if passes >= self.max_passes:
                    return best.point
                check = epoch + _CHECK_EVERY + 1
            for j in draws(rng, m, m):
                batch = batches[j]
                residuals = batch.residuals(w)
                change = batches.gradient(batch, residuals - table[batch.positions])
                table[batch.positions] = residuals
                w = problem.prox(w - step * (mean + change), step)
                mean = mean + change / m
            passes += 1.0
            epoch += 1
            estimate = certify(problem, w, mean + problem.penalty_gradient(w)).distance
            if estimate <= accuracy or passes >= self.max_passes:
                check = epoch + 1

"""SAGA (Defazio, Bach and Lacoste-Julien 2014)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from skdp.solvers.certificates import certify
from skdp.solvers.mini_batches import MiniBatches, StochasticSolver, draws

if TYPE_CHECKING:
    from skdp.problems import FiniteSumProblem

__all__ = ["SAGA"]


class SAGA(StochasticSolver):
    """SAGA with a table of residuals: ``n + kappa`` gradients up to logarithms.

    Step ``1 / (3 l)`` with l the smoothness of a batch. After every epoch the mean of the table
    estimates the certificate; only when that looks small enough is a full gradient taken.
    """

    def minimise(
        self,
        problem: FiniteSumProblem,
        accuracy: float,
        start: np.ndarray,
        rng: np.random.Generator,
    ) -> np.ndarray:
        batches = MiniBatches(problem, self.batch_size)
        m = len(batches)
        step = 1.0 / (3.0 * batches.smoothness(rng))
        w, passes, best, best_distance = start, 1.0, start, np.inf
        table, mean = problem.residuals_and_gradient(w)
        hopeful = True
        while True:
            if hopeful:
                table, mean = problem.residuals_and_gradient(w)
                passes += 1.0
                distance = certify(problem, w, mean + problem.penalty_gradient(w)).distance
                if distance <= accuracy:
                    return w
                if distance < best_distance:
                    best, best_distance = w, distance
                elif not distance < 4.0 * best_distance:
                    w, step = best, 0.5 * step
                    table, mean = problem.residuals_and_gradient(w)
            if passes >= self.max_passes:
                return best
            for j in draws(rng, m, m):
                batch = batches[j]
                residuals = batch.residuals(w)
                change = batches.gradient(batch, residuals - table[batch.rows])
                table[batch.rows] = residuals
                w = problem.prox(w - step * (mean + change), step)
                mean = mean + change / m
            passes += 1.0
            estimate = certify(problem, w, mean + problem.penalty_gradient(w)).distance
            hopeful = estimate <= accuracy or not estimate < 1e3 * best_distance
            hopeful = hopeful or passes >= self.max_passes

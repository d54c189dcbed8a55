"""Forward-backward SAGA for saddle points (Palaniappan and Bach 2016)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from skdp.solvers.base import Pair
from skdp.solvers.saddle.batches import (
    DIVERGENCE,
    SHRINKAGE,
    Best,
    SaddleBatches,
    StochasticSaddleSolver,
)

if TYPE_CHECKING:
    from skdp.problems import SaddleProblem

__all__ = ["SaddleSAGA"]


class SaddleSAGA(StochasticSaddleSolver):
    """:class:`SaddleSVRG` with a table of the batches' last operators in place of a snapshot.

    ``z <- prox(z - s (B_j(z) - table_j + mean of the table))``, then ``table_j = B_j(z)`` at the
    old z. With m batches ``s = 1 / (8 l^2 + 2 m)`` in scaled coordinates; l is measured, and
    doubled up to its public bound when m or ``1 / s`` steps fail to reduce the certificate. One
    batch per step; the table has the size of m solutions.
    """

    def _solve(
        self, problem: SaddleProblem, accuracy: float, start: Pair, rng: np.random.Generator
    ) -> Pair:
        batches, passes, (x, y) = SaddleBatches(problem, self.batch_size), 0.0, start
        constants, count = problem.constants, len(batches)
        lipschitz = batches.lipschitz(problem, start, rng)
        best, fresh = Best(problem, start), True
        while passes < self.max_passes and best.distance > accuracy:
            if fresh:
                table = [problem.batch_operator(rows, x, y) for rows in batches.rows]
                mean_x = sum(w * t[0] for w, t in zip(batches.weights, table, strict=True))
                mean_y = sum(w * t[1] for w, t in zip(batches.weights, table, strict=True))
                passes, fresh = passes + 1.0, False
            step = 1.0 / (8.0 * lipschitz**2 + 2.0 * count)
            step_x = step / constants.x.modulus
            step_y = step / constants.y.modulus
            length = int(min(max(count, 1.0 / step), count * (self.max_passes - passes) + 1.0))
            for j in batches.draws(rng, length):
                gradient_x, gradient_y = problem.batch_operator(batches.rows[j], x, y)
                change_x, change_y = gradient_x - table[j][0], gradient_y - table[j][1]
                x, y = problem.prox(
                    x - step_x * (mean_x + change_x),
                    y - step_y * (mean_y + change_y),
                    step_x,
                    step_y,
                )
                mean_x = mean_x + batches.weights[j] * change_x
                mean_y = mean_y + batches.weights[j] * change_y
                table[j] = gradient_x, gradient_y
            passes += 2.0 + length / count
            shrinkage = best.improve((x, y))
            if not shrinkage <= SHRINKAGE:
                lipschitz = min(2.0 * lipschitz, constants.data_lipschitz)
                if not shrinkage <= DIVERGENCE:
                    (x, y), fresh = best.pair, True
        return best.pair

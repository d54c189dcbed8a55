"""Loopless extragradient steps with variance reduction (Alacaoglu and Malitsky 2022)."""

from __future__ import annotations

import math
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

__all__ = ["LSVRE"]


class LSVRE(StochasticSaddleSolver):
    """L-SVRE: ``n + sqrt(n) kappa`` operators without nested loops.

    In scaled coordinates, with m batches, ``p = min(1, 2 / m)``, ``t = 0.9 sqrt(p) / l`` and a
    snapshot w: ``zb = (1 - p) z + p w``, ``zh = prox(zb - t B(w))``,
    ``z <- prox(zb - t (B(w) + B_j(zh) - B_j(w)))``, and with probability p ``w = z`` (Zhang et al.
    2022 specification, section 4.4). l is measured, and doubled up to its public bound when a run
    of steps fails to reduce the certificate.
    """

    def _solve(
        self, problem: SaddleProblem, accuracy: float, start: Pair, rng: np.random.Generator
    ) -> Pair:
        batches, passes, (x, y) = SaddleBatches(problem, self.batch_size), 0.0, start
        constants, count = problem.constants, len(batches)
        p = min(1.0, 2.0 / count)
        lipschitz = batches.lipschitz(problem, start, rng)
        best, snapshot = Best(problem, start), start
        full = problem.data_operator(x, y)
        while passes < self.max_passes and best.distance > accuracy:
            step = min(1.0, 0.9 * math.sqrt(p) / max(lipschitz, 1e-12))
            step_x = step / constants.x.modulus
            step_y = step / constants.y.modulus
            length = int(min(2.0 / min(p, step) + count, count * (self.max_passes - passes) + 1.0))
            renewals = 0
            for j, coin in zip(batches.draws(rng, length), rng.random(length), strict=True):
                rows = batches.rows[j]
                mid_x = (1.0 - p) * x + p * snapshot[0] - step_x * full[0]
                mid_y = (1.0 - p) * y + p * snapshot[1] - step_y * full[1]
                half = problem.prox(mid_x, mid_y, step_x, step_y)
                new_x, new_y = problem.batch_operator(rows, *half)
                old_x, old_y = problem.batch_operator(rows, *snapshot)
                x, y = problem.prox(
                    mid_x - step_x * (new_x - old_x),
                    mid_y - step_y * (new_y - old_y),
                    step_x,
                    step_y,
                )
                if coin < p:
                    snapshot, full = (x, y), problem.data_operator(x, y)
                    renewals += 1
            passes += 2.0 + renewals + 2.0 * length / count
            shrinkage = best.improve((x, y))
            if not shrinkage <= SHRINKAGE:
                lipschitz = min(2.0 * lipschitz, constants.data_lipschitz)
                if not shrinkage <= DIVERGENCE:
                    x, y = snapshot = best.pair
                    full = problem.data_operator(x, y)
        return best.pair

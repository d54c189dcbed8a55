"""Stochastic operators with variance reduction: SVRG, SAGA and L-SVRE for saddle points.

In scaled coordinates ``(sqrt(mu_x) x, sqrt(mu_y) y)``; B is the operator of the data part, B_j that
of batch j, m the number of batches and l the Lipschitz constant of each. Constants:
docs/theory/saddle.md, "Solvers".
"""

from __future__ import annotations

import math

import numpy as np

from skdp.problems.saddle import Pair
from skdp.solvers.saddle.batches import SaddleRun, StochasticSaddleSolver


class SaddleSVRG(StochasticSaddleSolver):
    """Forward-backward SVRG (Palaniappan and Bach 2016): ``n + kappa^2`` operators.

    With a snapshot zs and the centers c,
    ``z <- Proj([z - s (B(zs) + B_j(z) - B_j(zs)) + s c] / (1 + s))`` for a random batch j. With
    ``s = 1 / (5 l^2)`` and ``log 4 / log(1 + s)`` steps, an epoch reduces the expected squared
    distance to 3/4 (docs/theory/saddle.md, Lemma 5).
    """

    def _factor(self, run: SaddleRun) -> float:
        """Return ``1 + t`` for the pull t to the snapshot."""
        return 1.0

    def _shrinkage(self, run: SaddleRun) -> float:
        return 1.0 - (1.0 - super()._shrinkage(run)) / self._factor(run)

    def _steps(self, run: SaddleRun) -> tuple[Pair, float]:
        batches, z = run.batches, np.concatenate(run.point)
        factor = self._factor(run)
        step = 1.0 / max(1.0, 5.0 * (run.lipschitz / factor) ** 2)
        length = min(math.ceil(math.log(4.0) / math.log1p(step)), run.limit)
        scaled = step / factor  # that of the operator with the pull, whose modulus is 1 + t
        steps, weight = batches.steps(scaled), scaled * (factor - 1.0)
        shrink = 1.0 / (1.0 + weight)
        snapshot, full = z, batches.operator(z)
        for j in batches.draws(run.rng, length):
            z = z - steps * (full + batches.operator(z, j) - batches.operator(snapshot, j))
            if weight > 0:
                z = shrink * (z + weight * snapshot)
            # shrinking by both weights at once is the proximal map of the sum
            z = batches.prox(z, shrink * steps)
        return batches.pair(z), 1.0 + 2.0 * length / len(batches)


class AcceleratedSaddleSVRG(SaddleSVRG):
    """Proximal points, each an epoch of :class:`SaddleSVRG`: ``n + sqrt(n) kappa`` operators.

    t times the distance to the snapshot is added to the operator, ``1 + t = max(1, l / sqrt(m))``,
    which leaves a condition number of ``l / (1 + t)``. The published
    ``2 log(2 (1 + t)) / log(4/3)`` epochs per proximal point are for the worst case: one epoch,
    from its own snapshot, was 5 to 30 times faster wherever it was measured.
    """

    def _factor(self, run: SaddleRun) -> float:
        return max(1.0, run.lipschitz / math.sqrt(len(run.batches)))


class SaddleSAGA(StochasticSaddleSolver):
    """:class:`SaddleSVRG` with a table of the batches' last operators in place of a snapshot.

    ``z <- prox(z - s (B_j(z) - table_j + mean of the table))``, then ``table_j = B_j(z)`` at the
    old z, with ``s = 1 / (8 l^2 + 2 m)``. A run has m or ``1 / s`` steps. The table has the size of
    m solutions.
    """

    def _steps(self, run: SaddleRun) -> tuple[Pair, float]:
        batches, count, passes = run.batches, len(run.batches), 0.0
        z = np.concatenate(run.point)
        if run.memory is None:
            table = [batches.operator(z, j) for j in range(count)]
            mean = sum(w * part for w, part in zip(batches.weights, table, strict=True))
            run.memory, passes = (table, mean), 1.0
        table, mean = run.memory
        step = 1.0 / (8.0 * run.lipschitz**2 + 2.0 * count)
        steps = batches.steps(step)
        length = int(min(max(count, 1.0 / step), run.limit))
        for j in batches.draws(run.rng, length):
            operator = batches.operator(z, j)
            change = operator - table[j]
            z = batches.prox(z - steps * (mean + change), steps)
            mean = mean + batches.weights[j] * change
            table[j] = operator
        run.memory = table, mean
        return batches.pair(z), passes + length / count


class LSVRE(StochasticSaddleSolver):
    """L-SVRE (Alacaoglu and Malitsky 2022): ``n + sqrt(n) kappa`` operators without nested loops.

    With ``p = min(1, 2 / m)``, ``t = 0.9 sqrt(p) / l`` and a snapshot w: ``zb = (1 - p) z + p w``,
    ``zh = prox(zb - t B(w))``, ``z <- prox(zb - t (B(w) + B_j(zh) - B_j(w)))``, and with
    probability p ``w = z``.
    """

    def _steps(self, run: SaddleRun) -> tuple[Pair, float]:
        batches, count, renewals = run.batches, len(run.batches), 0
        z = np.concatenate(run.point)
        snapshot, full = run.memory or (z, batches.operator(z))
        p = min(1.0, 2.0 / count)
        step = min(1.0, 0.9 * math.sqrt(p) / max(run.lipschitz, 1e-12))
        steps = batches.steps(step)
        length = int(min(2.0 / min(p, step) + count, run.limit))
        for j, uniform in zip(batches.draws(run.rng, length), run.rng.random(length), strict=True):
            middle = (1.0 - p) * z + p * snapshot - steps * full
            half = batches.prox(middle, steps)
            change = batches.operator(half, j) - batches.operator(snapshot, j)
            z = batches.prox(middle - steps * change, steps)
            if uniform < p:
                snapshot, full = z, batches.operator(z)
                renewals += 1
        run.memory = snapshot, full
        return batches.pair(z), renewals + 2.0 * length / count

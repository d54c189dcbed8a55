"""Stochastic operators with variance reduction: SVRG, SAGA and L-SVRE for saddle points.

In scaled coordinates ``(sqrt(mu_x) x, sqrt(mu_y) y)``; B is the operator of the data part, B_j that
of batch j, m the number of batches and l the Lipschitz constant of each. Constants: Zhang et al.
(2022) specification, section 4.4, and docs/theory/saddle.md.
"""

from __future__ import annotations

import math

from skdp.solvers.base import Pair
from skdp.solvers.saddle.batches import SaddleRun, StochasticSaddleSolver

__all__ = ["LSVRE", "AcceleratedSaddleSVRG", "SaddleSAGA", "SaddleSVRG"]


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
        problem, batches, snapshot, (x, y) = run.problem, run.batches, run.point, run.point
        factor = self._factor(run)
        step = 1.0 / max(1.0, 5.0 * (run.lipschitz / factor) ** 2)
        length = min(math.ceil(math.log(4.0) / math.log1p(step)), run.limit)
        scaled = step / factor  # that of the operator with the pull, whose modulus is 1 + t
        step_x, step_y = batches.steps(scaled)
        weight = scaled * (factor - 1.0)
        shrink = 1.0 / (1.0 + weight)
        full_x, full_y = problem.data_operator(*snapshot)
        for j in batches.draws(run.rng, length):
            rows = batches.rows[j]
            old_x, old_y = problem.batch_operator(rows, *snapshot)
            new_x, new_y = problem.batch_operator(rows, x, y)
            x = x - step_x * (full_x + new_x - old_x)
            y = y - step_y * (full_y + new_y - old_y)
            if weight > 0:
                x = shrink * (x + weight * snapshot[0])
                y = shrink * (y + weight * snapshot[1])
            # shrinking by both weights at once is the proximal map of the sum
            x, y = problem.prox(x, y, shrink * step_x, shrink * step_y)
        return (x, y), 1.0 + 2.0 * length / len(batches)


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
        problem, batches, passes, (x, y) = run.problem, run.batches, 0.0, run.point
        if run.memory is None:
            table = [problem.batch_operator(rows, x, y) for rows in batches.rows]
            means = [
                sum(w * part for w, part in zip(batches.weights, parts, strict=True))
                for parts in zip(*table, strict=True)
            ]
            run.memory, passes = (table, *means), 1.0
        table, mean_x, mean_y = run.memory
        count = len(batches)
        step = 1.0 / (8.0 * run.lipschitz**2 + 2.0 * count)
        step_x, step_y = batches.steps(step)
        length = int(min(max(count, 1.0 / step), run.limit))
        for j in batches.draws(run.rng, length):
            gradient_x, gradient_y = problem.batch_operator(batches.rows[j], x, y)
            change_x, change_y = gradient_x - table[j][0], gradient_y - table[j][1]
            x, y = problem.prox(
                *(x - step_x * (mean_x + change_x), y - step_y * (mean_y + change_y)),
                *(step_x, step_y),
            )
            mean_x = mean_x + batches.weights[j] * change_x
            mean_y = mean_y + batches.weights[j] * change_y
            table[j] = gradient_x, gradient_y
        run.memory = table, mean_x, mean_y
        return (x, y), passes + length / count


class LSVRE(StochasticSaddleSolver):
    """L-SVRE (Alacaoglu and Malitsky 2022): ``n + sqrt(n) kappa`` operators without nested loops.

    With ``p = min(1, 2 / m)``, ``t = 0.9 sqrt(p) / l`` and a snapshot w: ``zb = (1 - p) z + p w``,
    ``zh = prox(zb - t B(w))``, ``z <- prox(zb - t (B(w) + B_j(zh) - B_j(w)))``, and with
    probability p ``w = z``.
    """

    def _steps(self, run: SaddleRun) -> tuple[Pair, float]:
        problem, batches, renewals, (x, y) = run.problem, run.batches, 0, run.point
        snapshot, full = run.memory or (run.point, problem.data_operator(x, y))
        count = len(batches)
        p = min(1.0, 2.0 / count)
        step = min(1.0, 0.9 * math.sqrt(p) / max(run.lipschitz, 1e-12))
        steps = step_x, step_y = batches.steps(step)
        length = int(min(2.0 / min(p, step) + count, run.limit))
        for j, coin in zip(batches.draws(run.rng, length), run.rng.random(length), strict=True):
            rows = batches.rows[j]
            mid_x = (1.0 - p) * x + p * snapshot[0] - step_x * full[0]
            mid_y = (1.0 - p) * y + p * snapshot[1] - step_y * full[1]
            half = problem.prox(mid_x, mid_y, *steps)
            new_x, new_y = problem.batch_operator(rows, *half)
            old_x, old_y = problem.batch_operator(rows, *snapshot)
            mid_x, mid_y = mid_x - step_x * (new_x - old_x), mid_y - step_y * (new_y - old_y)
            x, y = problem.prox(mid_x, mid_y, *steps)
            if coin < p:
                snapshot, full = (x, y), problem.data_operator(x, y)
                renewals += 1
        run.memory = snapshot, full
        return (x, y), renewals + 2.0 * length / count

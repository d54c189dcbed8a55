"""Stochastic gradients of mini-batches with variance reduction (SVRG)."""

from __future__ import annotations

import math

import numpy as np
from numpy.random import Generator

from skdp._checks import check_count
from skdp.problems.finite_sum import Batch
from skdp.solvers.base import FiniteSum, Solver, Vector
from skdp.solvers.certificates import certify

#: Numbers in a batch of dense rows: its products then cost more than calling them.
_BATCH_NUMBERS = 1 << 15
#: Below this size, calling the products costs more than the products.
_SMALL_BATCH = 64
#: Least number of batches: with fewer, a stochastic method is gradient descent in disguise.
_MIN_BATCHES = 16
#: Snapshots without improvement after which the run is lost.
_PATIENCE = 3


class MiniBatches:
    """The records in m batches that are views, so that an epoch costs one to three gradients.

    Of a dense X, record i belongs to batch ``i mod m``: an even sample even if the records are
    sorted. Batches of a CSR matrix are consecutive rows, because others would have to be copied.
    The objective is the mean of m functions, one per batch, in place of one per record.

    `batch_size` is approximate. Default: 32 768 stored numbers or n / 16 records, whichever is
    less, and no more than ``max(64, 4 n / kappa)``, as about kappa steps are taken whatever the
    size of a batch.
    """

    def __init__(self, problem: FiniteSum, batch_size: int | None = None) -> None:
        n = problem.n_records
        if batch_size is None:
            records = problem.records
            stored = records.n_records * records.n_features
            stored = records.matrix.nnz if records.is_sparse else stored
            width = max(1, min(records.width, stored // max(1, n)))
            kappa = problem.smoothness / problem.strong_convexity
            useful = max(_SMALL_BATCH, 4.0 * n / kappa)
            batch_size = int(max(1, min(_BATCH_NUMBERS // width, 2048, n // _MIN_BATCHES, useful)))
        count = max(1, round(n / batch_size))
        # a period in the order of the records does no harm if it is coprime to the count
        while 30 < count < n and math.gcd(count, 30) > 1:
            count += 1
        self.problem = problem
        self.count = min(count, max(1, n))

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, j: int) -> Batch:
        n = self.problem.n_records
        if self.problem.records.is_sparse:
            return self.problem.batch(slice(j * n // self.count, (j + 1) * n // self.count))
        return self.problem.batch(slice(j, n, self.count))

    def gradient(self, batch: Batch, residuals: np.ndarray) -> np.ndarray:
        """Return the gradient (without regulariser) of the batch's function, from its residuals."""
        return batch.pull_back(residuals) * (self.count / self.problem.n_public)

    def smoothness(self, rng: Generator) -> float:
        """Smoothness of a batch's function: measured on three, with a margin of a quarter.

        Power iteration on ``curvature * X_b' X_b``; a step size that is wrong costs time only.
        """
        problem, largest = self.problem, 0.0
        size = self.count / problem.n_public
        public = problem.loss.smoothness(problem.records.norm_bound)
        weights = rng.standard_normal((1, problem.records.width))
        for j in rng.integers(self.count, size=3):
            block, v = self[j].block, weights / np.linalg.norm(weights)
            for _ in range(12):
                v = block.pull_back(block.margins(v))
                eigenvalue = float(np.linalg.norm(v))
                if eigenvalue == 0.0:
                    break
                v /= eigenvalue
            largest = max(largest, eigenvalue)
        measured = 1.25 * problem.loss.curvature * size * largest
        most = public * (math.ceil(problem.n_records / self.count) * size)
        return min(max(measured, 1e-6 * public), most)


class SVRG(Solver):
    """Prox-SVRG: ``n + kappa`` gradients up to logarithms.

    The full gradient at a snapshot certifies it. Then an epoch of steps with random batches b,
    ``w <- prox(w - eta (grad f_b(w) - grad f_b(snapshot) + full))`` with ``eta = 1 / (4 l)``, l the
    smoothness of a batch (Johnson and Zhang 2013; Xiao and Zhang 2014), ends at the next snapshot.
    An epoch has 2 m steps at first, m the number of batches; one that does not halve the
    certificate is followed by one twice as long, up to ``2 m + 2 l / mu`` steps. The proven length
    is of that order (``100 l / mu`` steps with ``eta = 0.1 / l``: Xiao and Zhang, Theorem 3.1) but
    rarely needed. A run that is lost goes back to its best snapshot with a doubled l.

    Parameters
    ----------
    batch_size : int, optional
        Records per batch. 1 is the textbook method. Default: that of :class:`MiniBatches`.
    max_passes : float, default=300
        Passes over the records (gradients divided by records) after which it gives up.
    """

    needs = frozenset({"records"})

    def __init__(self, batch_size: int | None = None, max_passes: float = 300.0) -> None:
        self.batch_size = batch_size
        self.max_passes = max_passes

    def check_supports(self, problem: FiniteSum) -> None:
        super().check_supports(problem)
        if self.batch_size is not None:
            check_count("batch_size", self.batch_size)

    def _solve(self, problem: FiniteSum, accuracy: float, start: Vector, rng: Generator) -> Vector:
        batches = MiniBatches(problem, self.batch_size)
        smoothness, length, point = batches.smoothness(rng), 2 * len(batches), start
        longest = length + math.ceil(2.0 * smoothness / problem.strong_convexity)
        best, least, stale, beta = start, math.inf, 0, problem.smoothness
        passes, last_distance = 0.0, math.inf
        while passes < self.max_passes:
            residuals, full = problem.residuals_and_gradient(point)
            gradient = full + problem.penalty_gradient(point)
            distance = certify(problem, point, gradient).distance
            if distance <= accuracy:
                return point
            if distance > 0.5 * last_distance:
                length = min(2 * length, longest)
            last_distance = distance
            # far from the solution all certificates equal the diameter, gradient mappings do not
            mapped = problem.domain.project(point - gradient / beta)
            norm = beta * float(np.linalg.norm(point - mapped))
            stale += 1
            if norm < least:
                best, least, stale = point, norm, 0
            elif stale >= _PATIENCE or not norm < 1e6 * least:  # the run is lost
                stale, point = 0, best
                smoothness *= 2.0
                residuals, full = problem.residuals_and_gradient(point)
            step = 1.0 / (4.0 * smoothness)
            for j in rng.integers(len(batches), size=length).tolist():
                batch = batches[j]
                change = batch.residuals(point) - residuals[batch.block.positions]
                slope = full + batches.gradient(batch, change)
                point = problem.prox(point - step * slope, step)
            passes += 1.0 + length / len(batches)
        return best

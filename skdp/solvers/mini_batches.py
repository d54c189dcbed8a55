"""Batches of records, and the base of the solvers that work on them."""

from __future__ import annotations

import math

import numpy as np
from numpy.random import Generator

from skdp._checks import check_count
from skdp.problems import Batch
from skdp.solvers.base import FiniteSum, Solver

#: Numbers in a batch of dense rows: its products then cost more than calling them.
_BATCH_NUMBERS = 1 << 15
#: Below this size, calling the products costs more than the products.
_SMALL_BATCH = 64
#: Least number of batches: with fewer, a stochastic method is gradient descent in disguise.
_MIN_BATCHES = 16


class MiniBatches:
    """The records in m batches that are views, so that an epoch costs one to three gradients.

    Of a dense X, record i belongs to batch ``i mod m``: an even sample even if the records are
    sorted. Batches of a CSR matrix are consecutive rows, because others would have to be copied.
    The objective is the mean of m functions, one per batch, in place of one per record.

    Parameters
    ----------
    problem : FiniteSumProblem
    batch_size : int, optional
        Approximate number of records per batch; default: 32 768 stored numbers or n / 16 records,
        whichever is less.
    most_useful : float, default=inf
        Bound on the default batch size: see :class:`StochasticSolver`.
    """

    def __init__(
        self, problem: FiniteSum, batch_size: int | None = None, most_useful: float = math.inf
    ) -> None:
        n = problem.n_records
        if batch_size is None:
            width = max(1, min(problem.records.width, problem.records.n_stored // max(1, n)))
            useful = max(_SMALL_BATCH, most_useful)
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

    def smoothness(self, rng: Generator, n_batches: int = 3, power: int = 12) -> float:
        """Smoothness of a batch's function: measured on a few, with a margin of a quarter.

        Power iteration on ``curvature * X_b' X_b``; a step size that is wrong costs time only.
        """
        problem, largest = self.problem, 0.0
        size = self.count / problem.n_public
        public = problem.loss.smoothness(problem.records.norm_bound)
        weights = rng.standard_normal((1, problem.records.width))
        for j in rng.integers(self.count, size=n_batches):
            block, v = self[j].block, weights / np.linalg.norm(weights)
            for _ in range(power):
                v = block.pull_back(block.margins(v))
                eigenvalue = float(np.linalg.norm(v))
                if eigenvalue == 0.0:
                    break
                v /= eigenvalue
            largest = max(largest, eigenvalue)
        measured = 1.25 * problem.loss.curvature * size * largest
        most = public * (math.ceil(problem.n_records / self.count) * size)
        return min(max(measured, 1e-6 * public), most)


class StochasticSolver(Solver):
    """Base of the solvers that work on mini-batches.

    Parameters
    ----------
    batch_size : int, optional
        Records per batch. 1 is the textbook method. Default: that of :class:`MiniBatches`, but
        no more than ``max(64, 4 n / kappa)`` for the methods without momentum, which take about
        kappa steps whatever the size of a batch.
    max_passes : float, default=300
        Passes over the records (gradients divided by records) after which the solver gives up.
    """

    needs = frozenset({"records"})
    _large_batches = False

    def __init__(self, batch_size: int | None = None, max_passes: float = 300.0) -> None:
        self.batch_size = batch_size
        self.max_passes = max_passes

    def check_supports(self, problem: FiniteSum) -> None:
        super().check_supports(problem)
        if self.batch_size is not None:
            check_count("batch_size", self.batch_size)

    def batches(self, problem: FiniteSum) -> MiniBatches:
        """Make the batches of a run on this problem."""
        kappa = problem.smoothness / problem.strong_convexity
        useful = math.inf if self._large_batches else 4.0 * problem.n_records / kappa
        return MiniBatches(problem, self.batch_size, useful)

    def pass_limit(self, problem: FiniteSum, accuracy: float) -> float:
        return self.max_passes

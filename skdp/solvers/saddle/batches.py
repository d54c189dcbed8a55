"""Batches of records for the stochastic saddle solvers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from skdp.problems.domains import euclidean_norm
from skdp.solvers.base import Pair, SaddleSolver
from skdp.solvers.certificates import certify_saddle

if TYPE_CHECKING:
    from skdp.problems import SaddleProblem

__all__ = ["DIVERGENCE", "SHRINKAGE", "Best", "SaddleBatches", "StochasticSaddleSolver"]

#: Share of the Lipschitz constant that was measured on a few batches. The steps of the theorems
#: are for the worst case; where these longer ones fail to converge, solvers raise the constant.
_SHARE = 0.4
#: A run of steps that leaves more of the certified distance has to be made with shorter steps,
SHRINKAGE = 0.9
#: and one that leaves more than this to be forgotten.
DIVERGENCE = 10.0


class StochasticSaddleSolver(SaddleSolver):
    """Base of the saddle solvers that work on batches.

    Parameters
    ----------
    batch_size : int, optional
        Default: n / 16 records, at most 256.
    max_passes : float, default=2000
        Passes over the records after which it gives up.
    """

    def __init__(self, batch_size: int | None = None, max_passes: float = 2000.0) -> None:
        self.batch_size = batch_size
        self.max_passes = max_passes

    def pass_limit(self, problem: SaddleProblem, accuracy: float) -> float:
        return self.max_passes


class Best:
    """The best certified of the pairs that a solver has come by."""

    def __init__(self, problem: SaddleProblem, z: Pair) -> None:
        self._problem = problem
        self.pair, self.distance = z, certify_saddle(problem, *z).distance

    def improve(self, z: Pair) -> float:
        """Take z if it is better; its certified distance relative to the best before."""
        found, before = certify_saddle(self._problem, *z).distance, self.distance
        if found <= before:
            self.pair, self.distance = z, found
        return found / before if before > 0 else math.inf


class SaddleBatches:
    """The records in batches of about equal size, drawn in proportion to it."""

    def __init__(self, problem: SaddleProblem, batch_size: int | None) -> None:
        n = problem.n_records
        size = max(1, min(256, n // 16)) if batch_size is None else batch_size
        count = max(1, min(n, round(n / size)))
        self.rows = [slice(j, n, count) for j in range(count)]
        sizes = np.array([len(range(j, n, count)) for j in range(count)])
        self.weights = sizes / n

    def __len__(self) -> int:
        return len(self.rows)

    def draws(self, rng: np.random.Generator, size: int) -> np.ndarray:
        return rng.choice(len(self.rows), p=self.weights, size=size)

    def lipschitz(
        self,
        problem: SaddleProblem,
        z: Pair,
        rng: np.random.Generator,
        n_batches: int = 3,
        power: int = 8,
    ) -> float:
        """A share of the scaled Lipschitz constant of a batch's operator near z, measured.

        Power iteration along feasible differences. It is no bound, which costs time only.
        """
        constants, largest = problem.constants, 0.0
        length = 0.1 * constants.localisation
        for j in rng.integers(len(self), size=n_batches):
            rows = self.rows[j]
            base = problem.batch_operator(rows, *z)
            v = rng.standard_normal(z[0].size), rng.standard_normal(z[1].size)
            for _ in range(power):
                size = constants.norm(euclidean_norm(v[0]), euclidean_norm(v[1]))
                if not 0 < size < math.inf:
                    break
                far = problem.project(*(a + length / size * b for a, b in zip(z, v, strict=True)))
                moved = constants.norm(euclidean_norm(far[0] - z[0]), euclidean_norm(far[1] - z[1]))
                if moved <= 1e-6 * length:  # the way is blocked by the domain
                    v = -v[0], -v[1]
                    continue
                operator = problem.batch_operator(rows, *far)
                change = operator[0] - base[0], operator[1] - base[1]
                size = constants.dual_norm(euclidean_norm(change[0]), euclidean_norm(change[1]))
                largest = max(largest, size / moved)
                v = change[0] / constants.x.modulus, change[1] / constants.y.modulus
        return min(_SHARE * largest, constants.data_lipschitz)

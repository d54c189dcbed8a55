"""Stochastic operators of mini-batches with variance reduction (L-SVRE)."""

from __future__ import annotations

import math

import numpy as np
from numpy.random import Generator

from skdp.problems import SaddleProblem
from skdp.problems.domains import euclidean_norm
from skdp.problems.saddle import Pair
from skdp.solvers.base import SaddleSolver
from skdp.solvers.certificates import certify_saddle

#: Share of the measured Lipschitz constant. The steps of the theorem are for the worst case; where
#: these longer ones fail to converge, the constant is raised.
_SHARE = 0.4
#: A run of steps that leaves more of the certified distance has to be made with shorter steps,
_SHRINKAGE = 0.9
#: and one that leaves more than this to be forgotten.
_DIVERGENCE = 10.0


class SaddleBatches:
    """The records in batches of about equal size, drawn in proportion to it."""

    def __init__(self, problem: SaddleProblem, batch_size: int | None) -> None:
        self.problem, n = problem, problem.n_records
        self.split = problem.constants.x.dimension
        size = max(1, min(256, n // 16)) if batch_size is None else batch_size
        count = max(1, min(n, round(n / size)))
        self.rows = [slice(j, n, count) for j in range(count)]
        self.weights = np.array([len(range(j, n, count)) for j in range(count)]) / n

    def __len__(self) -> int:
        return len(self.rows)

    def draws(self, rng: Generator, size: int) -> np.ndarray:
        return rng.choice(len(self.rows), p=self.weights, size=size)

    def pair(self, z: np.ndarray) -> Pair:
        """Return the blocks of z = (x, y) in one vector."""
        return z[: self.split], z[self.split :]

    def steps(self, step: float) -> np.ndarray:
        """Return the step of each coordinate of z for a step in scaled coordinates."""
        x, y = self.problem.constants.x, self.problem.constants.y
        return np.repeat([step / x.modulus, step / y.modulus], [x.dimension, y.dimension])

    def operator(self, z: np.ndarray, j: int | None = None) -> np.ndarray:
        """Return the operator of the data part at z, of batch j or of all records."""
        if j is None:
            return np.concatenate(self.problem.data_operator(*self.pair(z)))
        return np.concatenate(self.problem.batch_operator(self.rows[j], *self.pair(z)))

    def prox(self, z: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """Return the proximal map of the regularisers and domains."""
        return np.concatenate(self.problem.prox(*self.pair(z), float(steps[0]), float(steps[-1])))

    def lipschitz(self, z: Pair, rng: Generator) -> float:
        """Measure a share of the scaled Lipschitz constant of a batch's operator near z.

        By power iteration along feasible differences, on three batches. No bound, which costs time
        only.
        """
        problem, constants, largest = self.problem, self.problem.constants, 0.0
        length = 0.1 * constants.localisation
        for j in rng.integers(len(self), size=3):
            rows = self.rows[j]
            base = problem.batch_operator(rows, *z)
            v = rng.standard_normal(z[0].size), rng.standard_normal(z[1].size)
            for _ in range(8):
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


class LSVRE(SaddleSolver):
    """L-SVRE (Alacaoglu and Malitsky 2022): ``n + sqrt(n) kappa`` operators without nested loops.

    In coordinates scaled by the roots of the moduli, with B the operator of the data part, B_j that
    of batch j, m the number of batches, l the Lipschitz constant of each, ``p = min(1, 2 / m)``,
    ``t = 0.9 sqrt(p) / l`` and a snapshot w: ``zb = (1 - p) z + p w``, ``zh = prox(zb - t B(w))``,
    ``z <- prox(zb - t (B(w) + B_j(zh) - B_j(w)))``, and with probability p ``w = z``.

    l is measured, and doubled up to its public bound when a run of steps fails to reduce the
    certificate at its end.

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

    def _solve(self, problem: SaddleProblem, accuracy: float, start: Pair, rng: Generator) -> Pair:
        batches, passes = SaddleBatches(problem, self.batch_size), 0.0
        lipschitz, count = batches.lipschitz(start, rng), len(batches)
        best, distance = start, certify_saddle(problem, *start).distance
        z, snapshot = np.concatenate(start), None
        p = min(1.0, 2.0 / count)
        while passes < self.max_passes and distance > accuracy:
            if snapshot is None:
                snapshot, full = z, batches.operator(z)
            step = min(1.0, 0.9 * math.sqrt(p) / max(lipschitz, 1e-12))
            steps = batches.steps(step)
            limit = int(count * (self.max_passes - passes) + 1.0)
            length = int(min(2.0 / min(p, step) + count, limit))
            draws, uniforms = batches.draws(rng, length), rng.random(length)
            for j, uniform in zip(draws, uniforms, strict=True):
                middle = (1.0 - p) * z + p * snapshot - steps * full
                half = batches.prox(middle, steps)
                change = batches.operator(half, j) - batches.operator(snapshot, j)
                z = batches.prox(middle - steps * change, steps)
                if uniform < p:
                    snapshot, full = z, batches.operator(z)
                    passes += 1.0
            passes += 2.0 + 2.0 * length / count
            found, before = certify_saddle(problem, *batches.pair(z)).distance, distance
            if found <= distance:
                best, distance = batches.pair(z), found
            if not found <= _SHRINKAGE * before:
                lipschitz = min(2.0 * lipschitz, problem.constants.data_lipschitz)
                if not found <= _DIVERGENCE * before:
                    z, snapshot = np.concatenate(best), None
        return best

"""Katyusha (Allen-Zhu 2018), an accelerated stochastic method."""

from __future__ import annotations

import math

import numpy as np

from skdp.solvers.base import FiniteSum
from skdp.solvers.certificates import certify
from skdp.solvers.mini_batches import BestSoFar, MiniBatches, StochasticSolver, draws

__all__ = ["Katyusha"]


class Katyusha(StochasticSolver):
    """Katyusha: ``n + sqrt(n kappa)`` gradients up to logarithms.

    Lowy and Razaviyayn (2021), Alg. 5 with erratum E6 (the printed "L" of the momentum is the
    smoothness; snapshots are what is averaged), in the form of the Zhang et al. (2022)
    specification, section 4.3: with m batches of smoothness l, epochs of 2 m steps,
    ``tau_2 = 1/2``, ``tau_1 = min(sqrt(2 m mu / (3 l)), 1/2)`` and
    ``gamma = 1 / (3 tau_1 l)``,

    - ``x = tau_1 z + tau_2 snapshot + (1 - tau_1 - tau_2) y``,
    - ``z <- prox_gamma(z - gamma v)`` with v the estimate of SVRG at x,
    - ``y <- x + tau_1 (z - z_before)``, which stays in the domain,

    and the mean of the y, with weights ``(1 + gamma mu)^j``, as next snapshot.
    """

    def batches(self, problem: FiniteSum) -> MiniBatches:
        """Large ones: with momentum b records cost sqrt(b) times as many gradients only."""
        return MiniBatches(problem, self.batch_size)

    def _solve(
        self, problem: FiniteSum, accuracy: float, start: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        batches = self.batches(problem)
        mu, length = problem.strong_convexity, 2 * len(batches)
        smoothness = batches.smoothness(rng)
        best, passes = BestSoFar(start, patience=5), 0.0  # momentum is not monotone
        snapshot = y = z = start
        while passes < self.max_passes:
            residuals, full = problem.residuals_and_gradient(snapshot)
            gradient = full + problem.penalty_gradient(snapshot)
            if certify(problem, snapshot, gradient).distance <= accuracy:
                return snapshot
            if best.is_lost(problem, snapshot, gradient):
                snapshot = y = z = best.point
                smoothness *= 2.0
                residuals, full = problem.residuals_and_gradient(snapshot)
            momentum = min(math.sqrt(length * mu / (3.0 * smoothness)), 0.5)
            step = 1.0 / (3.0 * momentum * smoothness)
            growth, weight = 1.0 + step * mu, 0.0
            mean = snapshot
            for j in draws(rng, len(batches), length):
                x = momentum * z + 0.5 * snapshot + (0.5 - momentum) * y
                batch = batches[j]
                change = batch.residuals(x)
                change -= residuals[batch.positions]
                before = z
                z = problem.prox(z - step * (full + batches.gradient(batch, change)), step)
                y = x + momentum * (z - before)
                weight = 1.0 + weight / growth  # of all y so far, in units of the newest
                mean = mean + (y - mean) / weight
            snapshot = mean
            passes += 1.0 + length / len(batches)
        return best.point

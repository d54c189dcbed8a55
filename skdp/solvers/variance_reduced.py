"""Stochastic gradients with variance reduction: SVRG, SARAH, SAGA and Katyusha.

All take the full gradient at a snapshot, which certifies it, and then an epoch of steps with single
batches, whose last point is the next snapshot. l is the smoothness of a batch, m the number of
batches. A run that is lost goes back to its best snapshot with a doubled l, which halves the steps.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator

from skdp.problems import Batch
from skdp.solvers.base import FiniteSum, Vector
from skdp.solvers.certificates import certify
from skdp.solvers.mini_batches import MiniBatches, StochasticSolver

#: Epochs of SAGA between two full gradients.
_CHECK_EVERY = 10


@dataclass
class Run:
    """State of a solve."""

    problem: Any
    batches: MiniBatches
    rng: Generator
    accuracy: float
    smoothness: float
    #: Steps of an epoch.
    length: int
    #: The snapshot, all residuals there, and the gradient without the regulariser.
    point: np.ndarray
    residuals: Any = None
    gradient: Any = None
    #: Kept by a solver from one epoch to the next; None at first and after a restart.
    memory: Any = None

    def draws(self, length: int) -> list[Batch]:
        """Draw independent uniform batches."""
        numbers = self.rng.integers(len(self.batches), size=length).tolist()
        return [self.batches[j] for j in numbers]

    def change(self, batch: Batch, w: np.ndarray) -> np.ndarray:
        """Return the gradient of a batch at w less that at the snapshot."""
        change = batch.residuals(w)
        change -= self.residuals[batch.positions]
        return self.batches.gradient(batch, change)


class _EpochSolver(StochasticSolver):
    """Frame of the methods. A subclass implements :meth:`_epoch`."""

    #: Longest epoch in units of l / mu, beyond the 2 m steps of the first.
    _growth = 0.0
    #: Snapshots without improvement after which the run is lost.
    _patience = 3

    @abstractmethod
    def _epoch(self, run: Run) -> tuple[np.ndarray, float]:
        """Return the next snapshot, and the number of passes over the records."""

    def _solve(self, problem: FiniteSum, accuracy: float, start: Vector, rng: Generator) -> Vector:
        batches = self.batches(problem)
        run = Run(
            *(problem, batches, rng, accuracy, batches.smoothness(rng), 2 * len(batches), start)
        )
        longest = run.length + math.ceil(self._growth * run.smoothness / problem.strong_convexity)
        best, least, stale, beta = start, math.inf, 0, problem.smoothness
        passes, last_distance = 0.0, math.inf
        while passes < self.max_passes:
            run.residuals, run.gradient = problem.residuals_and_gradient(run.point)
            gradient = run.gradient + problem.penalty_gradient(run.point)
            distance = certify(problem, run.point, gradient).distance
            if distance <= accuracy:
                return run.point
            if distance > 0.5 * last_distance:
                run.length = min(2 * run.length, longest)
            last_distance = distance
            # far from the solution all certificates equal the diameter, gradient mappings do not
            mapped = problem.domain.project(run.point - gradient / beta)
            norm = beta * float(np.linalg.norm(run.point - mapped))
            stale += 1
            if norm < least:
                best, least, stale = run.point, norm, 0
            elif stale >= self._patience or not norm < 1e6 * least:  # the run is lost
                stale, run.point, run.memory = 0, best, None
                run.smoothness *= 2.0
                run.residuals, run.gradient = problem.residuals_and_gradient(run.point)
            run.point, cost = self._epoch(run)
            passes += 1.0 + cost
        return best


class SVRG(_EpochSolver):
    """Prox-SVRG: ``n + kappa`` gradients up to logarithms.

    Steps ``w <- prox(w - eta (grad f_b(w) - grad f_b(snapshot) + full))`` with ``eta = 1 / (4 l)``
    (Johnson and Zhang 2013; Xiao and Zhang 2014). An epoch has 2 m steps at first; one that does
    not halve the certificate is followed by one twice as long, up to ``2 m + 2 l / mu`` steps. The
    proven length is of that order (``100 l / mu`` steps with ``eta = 0.1 / l``: Xiao and Zhang,
    Theorem 3.1) but rarely needed.
    """

    _growth = 2.0

    def _epoch(self, run: Run) -> tuple[np.ndarray, float]:
        step, w = 1.0 / (4.0 * run.smoothness), run.point
        for batch in run.draws(run.length):
            w = run.problem.prox(w - step * (run.gradient + run.change(batch, w)), step)
        return w, run.length / len(run.batches)


class SARAH(_EpochSolver):
    """SARAH: ``n + kappa`` gradients up to logarithms.

    The estimate of the gradient is updated along the path, ``v <- grad f_b(w_t) -
    grad f_b(w_{t-1}) + v``, with step ``1 / (2 l)``; the next snapshot is a uniformly random
    iterate of the epoch, so the epoch ends there (Nguyen, Liu, Scheinberg and Takac 2017). The
    lengths grow as those of :class:`SVRG`, up to ``2 m + 4.5 l / mu``, which the theory asks for.
    It is for the whole space; on other domains each step ends with the prox.
    """

    _growth = 4.5

    def _epoch(self, run: Run) -> tuple[np.ndarray, float]:
        length = int(run.rng.integers(1, run.length + 1))
        step, estimate, before = 1.0 / (2.0 * run.smoothness), run.gradient, run.point
        w = run.problem.prox(before - step * estimate, step)
        for batch in run.draws(length):
            change = batch.residuals(w)
            change -= batch.residuals(before)
            estimate = estimate + run.batches.gradient(batch, change)
            before, w = w, run.problem.prox(w - step * estimate, step)
        return w, 2.0 * length / len(run.batches)


class SAGA(_EpochSolver):
    """SAGA with a table of residuals: ``n + kappa`` gradients up to logarithms.

    Step ``1 / (3 l)`` (Defazio, Bach and Lacoste-Julien 2014). After every m steps the mean of the
    table estimates the certificate; the full gradient is taken when that looks small enough, and
    every 10 m steps.
    """

    def _epoch(self, run: Run) -> tuple[np.ndarray, float]:
        problem, batches, table, mean = run.problem, run.batches, run.residuals, run.gradient
        m, step, w = len(batches), 1.0 / (3.0 * run.smoothness), run.point
        passes = 0.0
        while passes < _CHECK_EVERY:
            passes += 1.0
            for batch in run.draws(m):
                residuals = batch.residuals(w)
                change = batches.gradient(batch, residuals - table[batch.positions])
                table[batch.positions] = residuals
                w = problem.prox(w - step * (mean + change), step)
                mean = mean + change / m
            estimate = certify(problem, w, mean + problem.penalty_gradient(w)).distance
            if estimate <= run.accuracy:
                break
        return w, passes


class Katyusha(_EpochSolver):
    """Katyusha: ``n + sqrt(n kappa)`` gradients up to logarithms.

    Lowy and Razaviyayn (2021), Alg. 5 (Allen-Zhu 2018) with erratum L6 (the printed "L" of the
    momentum is the smoothness; snapshots are averaged): epochs of 2 m steps, ``tau_2 = 1/2``,
    ``tau_1 = min(sqrt(2 m mu / (3 l)), 1/2)`` and ``gamma = 1 / (3 tau_1 l)``,

    - ``x = tau_1 z + tau_2 snapshot + (1 - tau_1 - tau_2) y``,
    - ``z <- prox_gamma(z - gamma v)`` with v the estimate of SVRG at x,
    - ``y <- x + tau_1 (z - z_before)``, which stays in the domain,

    and the mean of the y, with weights ``(1 + gamma mu)^j``, as next snapshot.
    """

    _patience = 5  # momentum is not monotone
    _large_batches = True  # with momentum b records cost sqrt(b) times as many gradients only

    def _epoch(self, run: Run) -> tuple[np.ndarray, float]:
        mu, mean = run.problem.strong_convexity, run.point
        y, z = (mean, mean) if run.memory is None else run.memory
        momentum = min(math.sqrt(run.length * mu / (3.0 * run.smoothness)), 0.5)
        step = 1.0 / (3.0 * momentum * run.smoothness)
        growth, weight = 1.0 + step * mu, 0.0
        for batch in run.draws(run.length):
            x, before = momentum * z + 0.5 * run.point + (0.5 - momentum) * y, z
            z = run.problem.prox(z - step * (run.gradient + run.change(batch, x)), step)
            y = x + momentum * (z - before)
            weight = 1.0 + weight / growth  # of all y so far, in units of the newest
            mean = mean + (y - mean) / weight
        run.memory = y, z
        return mean, run.length / len(run.batches)

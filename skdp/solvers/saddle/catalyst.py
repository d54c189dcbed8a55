"""Accelerated proximal points in one block, around any saddle solver."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable

import numpy as np
from numpy.random import Generator

from skdp.problems import SaddleProblem
from skdp.problems.counting import counted
from skdp.problems.domains import euclidean_norm
from skdp.problems.saddle import Pair
from skdp.solvers.base import SaddleSolver
from skdp.solvers.certificates import certifiable_saddle_accuracy, certify_saddle
from skdp.solvers.resolve import resolve_solver
from skdp.solvers.saddle.batches import SaddleBatches

#: Error of a proximal point relative to its distance to the point it is near to.
_INEXACTNESS = 0.1
#: Trials to reach that, each more accurate than the last.
_TRIALS = 8


class Catalyst(SaddleSolver):
    """Accelerated proximal points in the worse conditioned block, each found by another solver.

    With x that block and ``q = mu_x / (mu_x + beta)``: z is about the saddle point of
    ``F + (beta/2) ||x - u||^2``, and the next u is x moved on by ``(1 - sqrt q) / (1 + sqrt q)``
    times the way from the last x. ``beta = mu_x (l / sqrt(m) - 1)`` for m batches whose operators
    have the Lipschitz constant l, measured, in scaled coordinates; m is 1 for a solver without
    batches (Lin, Mairal and Harchaoui 2018). Where the problem has no batches, beta is the
    smoothness of the block, as in Minimax-APPA (Lin, Jin and Jordan 2020, Algorithm 3).

    A proximal point is accurate enough if the certificate of its own problem says that its error is
    a tenth of its distance to u. The worse block is that with the larger of ``smoothness / mu``
    of its block; x if they are equal. After `max_passes` over the records it gives up.
    """

    def __init__(
        self,
        solver: str | SaddleSolver | Callable[[SaddleProblem, float], Pair] = "accelerated_svrg",
        max_passes: float = 2000.0,
    ) -> None:
        self.solver = solver
        self.max_passes = max_passes

    def _solve(self, problem: SaddleProblem, accuracy: float, start: Pair, rng: Generator) -> Pair:
        most = self.max_passes * problem.n_records
        search = _Search(problem, accuracy, start)

        def stop_at_limit(evaluations: int) -> None:
            if evaluations > most:
                raise _OutOfPassesError

        with contextlib.suppress(_OutOfPassesError):
            search.run(counted(problem, stop_at_limit), self._resolved(), rng)
        return search.best

    def check_supports(self, problem: SaddleProblem) -> None:
        self._resolved().check_supports(problem)

    def pass_limit(self, problem: SaddleProblem, accuracy: float) -> float:
        return self.max_passes

    def _resolved(self) -> SaddleSolver:
        return resolve_solver(self.solver, saddle=True)


class _OutOfPassesError(Exception):
    """On its way past the inner solver."""


class _Search:
    """State of a solve; `best` is the best certified pair."""

    def __init__(self, problem: SaddleProblem, accuracy: float, start: Pair) -> None:
        self.accuracy = accuracy
        self.best = start
        self._distance = certify_saddle(problem, *start).distance

    def run(self, problem: SaddleProblem, solver: SaddleSolver, rng: Generator) -> None:
        c = problem.constants
        conditions = c.x.smoothness / c.x.modulus, c.y.smoothness / c.y.modulus
        block = 0 if conditions[0] >= conditions[1] else 1
        modulus = c.moduli[block]
        if problem.has_batches:
            batches = SaddleBatches(problem, getattr(solver, "batch_size", None))
            count = len(batches) if hasattr(solver, "batch_size") else 1
            factor = max(1.0, batches.lipschitz(self.best, rng) / math.sqrt(count))
        else:
            factor = 1.0 + conditions[block]
        beta, root = modulus * (factor - 1.0), math.sqrt(1.0 / factor)
        if beta == 0.0:
            answer = solver._solve(problem, self.accuracy, self.best, rng)
            return self._accept(problem, problem.project(*answer))
        z, anchor = self.best, self.best[block]
        tolerance = _INEXACTNESS * self._distance
        while self._distance > self.accuracy:
            near, before = _near(problem, block, beta, anchor), z[block]
            floor = certifiable_saddle_accuracy(near.constants)
            for _ in range(_TRIALS):
                answer = solver._solve(near, max(tolerance, floor), z, rng)
                found = certify_saddle(near, *near.project(*answer))
                z = found.x, found.y
                self._accept(problem, z)
                moved = math.sqrt(beta) * euclidean_norm(z[block] - anchor)
                enough = _INEXACTNESS * moved
                if found.distance <= max(enough, floor) or self._distance <= self.accuracy:
                    break
                tolerance = min(enough, 0.5 * tolerance)
            tolerance = enough
            anchor = z[block] + (1.0 - root) / (1.0 + root) * (z[block] - before)

    def _accept(self, problem: SaddleProblem, z: Pair) -> None:
        distance = certify_saddle(problem, *z).distance
        if distance <= self._distance:
            self.best, self._distance = z, distance


def _near(problem: SaddleProblem, block: int, beta: float, anchor: np.ndarray) -> SaddleProblem:
    """Return the problem plus ``beta / 2`` times the block's squared distance to the anchor."""
    # two multiples of squared distances add up to one to their weighted mean, but for a constant
    alphas, centers = [problem.alpha_x, problem.alpha_y], [problem.center_x, problem.center_y]
    factor = alphas[block] + beta
    centers[block] = (alphas[block] * centers[block] + beta * anchor) / factor
    alphas[block] = factor
    return problem.with_regularisers(alphas[0], alphas[1], centers[0], centers[1])

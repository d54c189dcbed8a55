"""Subgradient methods. They run on losses with kinks, too, which no certificate covers."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from skdp.problems.problem import Problem
from skdp.solvers.base import FiniteSum, Solver, Vector
from skdp.solvers.certificates import certify
from skdp.solvers.mini_batches import StochasticSolver

#: A certificate is computed whenever the number of epochs has grown by this factor.
_CHECK_GROWTH = 1.2


class Subgradient(Solver):
    """Full subgradients with steps ``2 / (mu (t + 1))`` (Lowy and Razaviyayn 2021, Alg. 2).

    Corrected as in erratum L4: a subgradient of the objective. In the whole space the
    iterate is ``w_{T+1} = c - (1/mu) sum_t weight_t g_t`` with weights ``2 t / (T (T + 1))``
    and g_t the subgradients of the mean loss. On other domains the sum is projected and not each
    step (dual averaging). Of a loss with kinks all `max_iterations` are made.

    The method is conditional gradient with steps ``2 / (t + 1)`` on the dual, whose curvature is
    at most ``(2 L)^2 / mu`` (Jaggi 2013, Theorem 2; Bach 2015). So a distance tau takes about
    ``(L / (mu tau))^2`` iterations, which is affordable for coarse accuracies only.
    """

    needs = frozenset({"records"})

    def __init__(self, max_iterations: int = 1000) -> None:
        self.max_iterations = max_iterations

    def _solve(self, problem: FiniteSum, accuracy: float, start: Vector, rng: Generator) -> Vector:
        mu, w, mean = problem.strong_convexity, start, np.zeros(problem.dimension)
        center = np.zeros(problem.dimension) if problem.center is None else problem.center
        for t in range(1, self.max_iterations + 1):
            gradient = problem.gradient(w)
            if _is_certified(problem, w, accuracy, gradient):
                break
            mean += 2.0 / (t + 1.0) * (gradient - problem.penalty_gradient(w) - mean)
            w = problem.domain.project(center - mean / mu)
        return w

    def pass_limit(self, problem: FiniteSum, accuracy: float) -> float:
        return self.max_iterations


class StochasticSubgradient(StochasticSolver):
    """Subgradients of batches, weighted average (Lowy and Razaviyayn 2021, Alg. 3).

    Corrected as in erratum L4: steps ``2 / (mu (t + 1))`` for the objective with its regulariser,
    and the average of the points where subgradients were taken, with weights proportional to t.
    Batches come in a new random order in each epoch. Of a loss with kinks all epochs are made.
    """

    _large_batches = True  # the number of steps counts

    def _solve(self, problem: FiniteSum, accuracy: float, start: Vector, rng: Generator) -> Vector:
        batches, mu = self.batches(problem), problem.strong_convexity
        center = np.zeros(problem.dimension) if problem.center is None else problem.center
        w = average = start
        t, check = 0, 1.0
        for epoch in range(1, int(self.max_passes) + 1):
            for j in rng.permutation(len(batches)).tolist():
                t += 1
                share, batch = 2.0 / (t + 1.0), batches[j]
                average = average + share * (w - average)
                gradient = batches.gradient(batch, batch.residuals(w))
                w = problem.domain.project((1.0 - share) * w + share * (center - gradient / mu))
            if epoch >= check:
                check *= _CHECK_GROWTH
                if _is_certified(problem, average, accuracy):
                    break
        return average


def _is_certified(
    problem: Problem, point: np.ndarray, accuracy: float, gradient: np.ndarray | None = None
) -> bool:
    return problem.is_smooth and certify(problem, point, gradient).distance <= accuracy

"""Subgradient methods, with the dual vector that proves their accuracy."""

from __future__ import annotations

import numpy as np

from skdp.solvers.base import Records, Solver
from skdp.solvers.certificates import certify, certify_dual
from skdp.solvers.mini_batches import MiniBatches, StochasticSolver

__all__ = ["StochasticSubgradient", "Subgradient"]

#: A certificate is computed whenever the number of steps has grown by this factor.
_CHECK_GROWTH = 1.2


class Subgradient(Solver):
    """Full subgradients with steps ``2 / (mu (t + 1))`` (Lowy and Razaviyayn 2021, Alg. 2).

    Corrected as in erratum E4: a subgradient of the whole objective. In the whole space the
    iterate is ``w_{T+1} = c - (1/mu) sum_t weight_t g_t`` with weights ``2 t / (T (T + 1))``
    and g_t the subgradients of the mean loss, that is the point ``w_a`` of the dual vector of
    the averaged slopes (:func:`skdp.solvers.certify_dual`). This identity is kept on other
    domains, where it means that the sum is projected and not each step (dual averaging); the
    method is then conditional gradient on the dual with steps ``2 / (t + 1)``.

    *Certificate.* For a non-smooth loss the gap of ``certify_dual``, valid for every dual vector.
    It falls as ``O(L^2 / (mu T))`` along the iterates, because it is the gap of the conditional
    gradient method for a dual whose curvature is at most ``(2 L)^2 / mu`` (Jaggi 2013, Theorem 2;
    Bach 2015). So a distance tau takes about ``(L / (mu tau))^2`` iterations, which is affordable
    for coarse accuracies only; for the rest, the gate calls the augmented Lagrangian method.
    For a smooth loss the certificate is that of gradients.

    Parameters
    ----------
    max_iterations : int, default=1000
    """

    needs = frozenset({"records"})

    def __init__(self, max_iterations: int = 1000) -> None:
        self.max_iterations = max_iterations

    def minimise(
        self,
        problem: Records,
        accuracy: float,
        start: np.ndarray,
        rng: np.random.Generator,
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        mu, smooth = problem.strong_convexity, problem.is_smooth
        center = np.zeros(problem.dimension) if problem.center is None else problem.center
        w, dual, pull = start, np.zeros(0), np.zeros(problem.dimension)
        check = 1.0
        for t in range(1, self.max_iterations + 1):
            slopes, gradient = problem.residuals_and_gradient(w)
            if smooth and certify(problem, w, gradient + mu * (w - center)).distance <= accuracy:
                return w
            share = 2.0 / (t + 1.0)
            pull = pull + share * (gradient - pull)
            if not smooth:
                dual = slopes if t == 1 else dual + share * (slopes - dual)
            w = problem.domain.project(center - pull / mu)
            if not smooth and t >= check:
                check *= _CHECK_GROWTH
                if certify_dual(problem, dual).certificate.distance <= accuracy:
                    break
        return w if smooth else (w, dual)

    def pass_limit(self, problem: Records, accuracy: float) -> float:
        return self.max_iterations


class StochasticSubgradient(StochasticSolver):
    """Subgradients of batches, weighted average (Lowy and Razaviyayn 2021, Alg. 3).

    Corrected as in erratum E4: steps ``2 / (mu (t + 1))`` for the objective with its regulariser,
    and the average of the points where subgradients were taken, with weights proportional
    to t. Batches come in a new random order in each epoch.

    *Certificate.* For a non-smooth loss the gap of :func:`skdp.solvers.certify_dual`, valid for
    every dual vector; the one used here holds for each record the average of the slopes
    that its visits have seen, weighted like the points. Smooth losses: that of gradients.
    """

    def batches(self, problem: Records) -> MiniBatches:
        """Large ones: their number of steps is what counts."""
        return MiniBatches(problem, self.batch_size)

    def minimise(
        self,
        problem: Records,
        accuracy: float,
        start: np.ndarray,
        rng: np.random.Generator,
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        batches = self.batches(problem)
        mu, smooth = problem.strong_convexity, problem.is_smooth
        center = np.zeros(problem.dimension) if problem.center is None else problem.center
        w = average = start
        dual = np.zeros(0 if smooth else problem.n_records)
        t, check = 0, 1.0
        for epoch in range(1, int(self.max_passes) + 1):
            for j in rng.permutation(len(batches)).tolist():
                t += 1
                batch = batches[j]
                slopes = batch.residuals(w)
                share = 2.0 / (t + 1.0)
                average = average + share * (w - average)
                if not smooth:
                    dual[batch.positions] += 2.0 / (epoch + 1.0) * (slopes - dual[batch.positions])
                gradient = batches.gradient(batch, slopes)
                w = problem.domain.project((1.0 - share) * w + share * (center - gradient / mu))
            if epoch >= check:
                check *= _CHECK_GROWTH
                if smooth:
                    distance = certify(problem, average).distance
                else:
                    distance = certify_dual(problem, dual).certificate.distance
                if distance <= accuracy:
                    break
        return average if smooth else (average, dual)

"""The trusted solver of piecewise linear losses: the augmented Lagrangian method."""

from __future__ import annotations

import numpy as np

from skdp.solvers.accelerated_gradient import AcceleratedGradient
from skdp.solvers.base import Records, Solver
from skdp.solvers.certificates import certify_dual
from skdp.solvers.newton import Newton

__all__ = ["AugmentedLagrangian"]


class AugmentedLagrangian(Solver):
    """Proximal point steps on the dual, each a smooth problem for Newton's method.

    The loss is replaced by its Moreau envelope of width h around the current dual vector a
    (:class:`skdp.problems.EnvelopeLoss`), the smooth problem is minimised, and the slopes
    there are the next a. That is the proximal point algorithm on the concave dual
    (Rockafellar 1976), which converges for any sequence of widths, and in finitely many steps
    where, as here, the dual is piecewise quadratic on a polyhedron. Every a comes with its
    certificate, :func:`skdp.solvers.certify_dual`.

    Parameters
    ----------
    max_steps : int, default=100
        Dual steps.
    shrink : float, default=0.2
        Factor of the width from one step to the next.
    """

    losses = "piecewise linear"
    needs = frozenset({"records"})

    def __init__(self, max_steps: int = 100, shrink: float = 0.2) -> None:
        self.max_steps = max_steps
        self.shrink = shrink

    def minimise(
        self,
        problem: Records,
        accuracy: float,
        start: np.ndarray,
        rng: np.random.Generator,
    ) -> tuple[np.ndarray, np.ndarray]:
        loss, targets = problem.loss, problem.records.targets
        kinks, low, high = loss.pieces(targets)
        dual = 0.5 * (low + high)
        inner: Solver = Newton(1e-3) if Newton.affordable(problem) else AcceleratedGradient()
        point, best = start, (start, dual)
        width = max(float(np.abs(problem.margins(start) - kinks).mean()), 1e-6)
        best_distance = np.inf
        for _ in range(self.max_steps):
            smooth = problem.with_loss(*loss.envelope(targets, width, dual))
            point = problem.domain.project(
                np.asarray(inner.minimise(smooth, 0.01 * accuracy, point, rng))
            )
            dual = np.clip(dual + (problem.margins(point) - kinks) / width, low, high)
            solution = certify_dual(problem, dual, point)
            if solution.certificate.distance < best_distance:
                best, best_distance = (solution.point, dual), solution.certificate.distance
            if best_distance <= accuracy:
                break
            # a narrow envelope amplifies the rounding of margins
            rounding = smooth.gradient_rounding(point) / problem.strong_convexity
            if rounding < self.shrink * accuracy:
                width *= self.shrink
        return best

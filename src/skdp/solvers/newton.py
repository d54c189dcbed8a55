"""Newton's method with a Cholesky (or, on the sphere, eigenvalue) factorisation.

Each step minimises a quadratic model exactly over the domain. Least squares is its own
model, so one step is the closed form of ridge regression, constrained or not. When there
are many more rows than coefficients, the model's Hessian comes from an evenly spaced part
of the rows and is improved by BFGS corrections: a step then costs one pass over the data
instead of a Gram matrix. If a step fails to shrink the certificate enough, full Hessians
and a line search take over.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigh
from scipy.optimize import brentq

from skdp.solvers.base import Solver
from skdp.solvers.certificates import certify

if TYPE_CHECKING:
    from skdp.problems import FiniteSumProblem

__all__ = ["Newton"]

#: Rows per coefficient in a sub-sampled Hessian; its relative error is about 1/sqrt of this.
_ROWS_PER_COEFFICIENT = 400
_MIN_SAMPLE = 1 << 15
#: A step with an old or sub-sampled Hessian must shrink the certificate by this factor.
_CONTRACTION = 0.5


class QuadraticModel:
    """``<g, v - w> + (1/2) (v - w)' H (v - w)`` with H factorised once."""

    def __init__(self, hessian: np.ndarray, radius: float) -> None:
        self.hessian = hessian
        self.radius = radius
        self.factor = cho_factor(hessian)
        self._spectrum: tuple[np.ndarray, np.ndarray] | None = None

    def corrected(self, step: np.ndarray, change: np.ndarray) -> QuadraticModel:
        """The BFGS correction: the model with ``H step = change``; self if not convex."""
        bent, slope = self.hessian @ step, float(step @ change)
        if not slope > 0:
            return self
        hessian = self.hessian + np.outer(change, change) / slope
        hessian -= np.outer(bent, bent) / float(step @ bent)
        try:
            return QuadraticModel(hessian, self.radius)
        except LinAlgError:
            return self

    def minimiser(self, w: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """The exact minimiser over the ball of the model's radius."""
        step = cho_solve(self.factor, gradient)
        free = w - step
        if float(np.linalg.norm(free)) <= self.radius:
            return free
        if self._spectrum is None:
            self._spectrum = eigh(self.hessian)
        values, vectors = self._spectrum
        # (H + t I) v = H w - g with t > 0 such that ||v|| = R: the secular equation
        right = vectors.T @ (self.hessian @ w - gradient)
        values = np.maximum(values, 0.0)

        def excess(t: float) -> float:
            return 1.0 / self.radius - 1.0 / float(np.linalg.norm(right / (values + t)))

        upper = float(np.linalg.norm(right)) / self.radius
        t = brentq(excess, 0.0, upper, xtol=1e-16 * upper, rtol=1e-15) if excess(0.0) > 0 else 0.0
        v = vectors @ (right / (values + t))
        return v * (self.radius / float(np.linalg.norm(v)))


class Newton(Solver):
    """Newton's method over a ball or the whole space; needs a twice differentiable loss."""

    #: Largest number of coefficients for which :meth:`affordable` says yes.
    max_dimension = 2000

    @classmethod
    def affordable(cls, problem: FiniteSumProblem) -> bool:
        """Whether forming and factorising Hessians is reasonable, from the shape alone."""
        return problem.dimension <= cls.max_dimension

    def minimise(
        self,
        problem: FiniteSumProblem,
        accuracy: float,
        start: np.ndarray,
        rng: np.random.Generator,
    ) -> np.ndarray:
        sample = max(_MIN_SAMPLE, _ROWS_PER_COEFFICIENT * problem.rows.width)
        step = problem.n_records // sample
        w, model = start, None
        if step >= 4:
            part = problem.thinned(step)
            w = _newton(part, 0.0, start, None, max_steps=8, rough=True)
            with contextlib.suppress(LinAlgError):
                model = QuadraticModel(part.hessian(w), problem.domain.radius)
        return _newton(problem, accuracy, w, model)


def _newton(
    problem: FiniteSumProblem,
    accuracy: float,
    w: np.ndarray,
    model: QuadraticModel | None,
    max_steps: int = 200,
    rough: bool = False,
) -> np.ndarray:
    """Minimise until certified; `rough` stops at the accuracy that a sample deserves."""
    w = problem.domain.project(w)
    gradient = problem.gradient(w)
    distance = certify(problem, w, gradient).distance
    if rough:
        accuracy = 1e-3 * distance
    best, best_distance = w, distance
    fresh = False
    for _ in range(max_steps):
        if best_distance <= accuracy:
            break
        if model is None:
            try:
                model = QuadraticModel(problem.hessian(w), problem.domain.radius)
            except LinAlgError:
                break
            fresh = True
        candidate = problem.domain.project(model.minimiser(w, gradient))
        if not np.isfinite(candidate).all():
            break
        candidate_gradient = problem.gradient(candidate)
        distance = certify(problem, candidate, candidate_gradient).distance
        if distance > _CONTRACTION * best_distance:
            if not fresh:
                model = None  # the old Hessian is not good enough here
                continue
            if distance >= best_distance:
                shorter = _line_search(problem, w, gradient, candidate)
                if shorter is None:
                    break
                candidate = shorter
                candidate_gradient = problem.gradient(candidate)
                distance = certify(problem, candidate, candidate_gradient).distance
            model = None
        if model is not None and not rough:
            model = model.corrected(candidate - w, candidate_gradient - gradient)
        w, gradient, fresh = candidate, candidate_gradient, False
        if distance < best_distance:
            best, best_distance = w, distance
    return best


def _line_search(
    problem: FiniteSumProblem, w: np.ndarray, gradient: np.ndarray, candidate: np.ndarray
) -> np.ndarray | None:
    """Armijo back-tracking from w towards a minimiser of the model; None if it fails."""
    direction = candidate - w
    slope = float(gradient @ direction)
    if not slope < 0:
        return None
    value = problem.value(w)
    length = 1.0
    while length > 1e-10:
        point = w + length * direction
        if problem.value(point) <= value + 1e-4 * length * slope:
            return point
        length *= 0.5
    return None

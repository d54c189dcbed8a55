"""Newton's method with a Cholesky (or, on the sphere, eigenvalue) factorisation.

Each step minimises a quadratic model over the domain; for least squares one step is exact. For
other losses of many more rows than coefficients the model's Hessian comes from an evenly spaced
part of the rows and is improved by BFGS corrections, so that a step costs one pass over the data
instead of a Gram matrix. Gram matrices are made in single precision first. If a step fails to
shrink the certificate enough, full Hessians and a line search take over.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from numpy.random import Generator
from scipy.linalg import eigh
from scipy.linalg.lapack import dpotrf, dpotrs
from scipy.optimize import brentq

from skdp.problems import Problem
from skdp.problems.domains import Ball, Domain, WholeSpace
from skdp.solvers.base import Solver, Vector
from skdp.solvers.certificates import certify

#: Rows per coefficient in a sub-sampled Hessian; its relative error is about 1/sqrt of this.
_ROWS_PER_COEFFICIENT = 40
_MIN_SAMPLE = 1 << 13
_MAX_STEPS = 200
#: A step with an old or sub-sampled Hessian must shrink the certificate by this factor.
_CONTRACTION = 0.5
#: Gradient steps after the last Newton step, if that was not enough.
_POLISHING_STEPS = 100
_TINY = float(np.finfo(np.float64).tiny)
#: Steps of the inner method for domains without a closed form.
_MAX_MODEL_STEPS = 20_000


class QuadraticModel:
    """``<g, v - w> + (1/2) (v - w)' H (v - w)`` over a domain, with H factorised once.

    Parameters
    ----------
    hessian : ndarray of shape (dimension, dimension)
    domain : Domain
    smallest : float
        Lower bound on the eigenvalues; those that rounding has pushed below it are raised.
    """

    def __init__(self, hessian: np.ndarray, domain: Domain, smallest: float) -> None:
        self.hessian = hessian
        self.domain = domain
        self.smallest = smallest
        factor, failed = dpotrf(hessian, clean=0)
        self.factor = None if failed else factor  # or beyond the precision of Cholesky's method

    @cached_property
    def spectrum(self) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues in ascending order, and eigenvectors."""
        values, vectors = eigh(self.hessian)
        return np.maximum(values, self.smallest), vectors

    def _solve(self, right: np.ndarray) -> np.ndarray:
        if self.factor is not None:
            return dpotrs(self.factor, right)[0]
        values, vectors = self.spectrum
        return vectors @ ((vectors.T @ right) / values)

    def corrected(self, step: np.ndarray, change: np.ndarray) -> QuadraticModel:
        """Return the BFGS correction: the model with ``H step = change``; self if not convex."""
        product, curvature = self.hessian @ step, float(step @ change)
        modelled = float(step @ product)
        if not (curvature > 0 and modelled > 0):
            return self
        hessian = self.hessian + change[:, None] * (change / curvature)
        hessian -= product[:, None] * (product / modelled)
        return QuadraticModel(hessian, self.domain, self.smallest)

    def minimiser(self, w: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Return the minimiser over the domain: exact in the whole space and in a ball."""
        free = w - self._solve(gradient)
        if isinstance(self.domain, Ball):
            inside = float(np.linalg.norm(free)) <= self.domain.radius
            return free if inside else self._on_sphere(w, gradient, self.domain.radius)
        if np.array_equal(self.domain.project(free), free):
            return free
        return self._projected(w, gradient)

    def _on_sphere(self, w: np.ndarray, gradient: np.ndarray, radius: float) -> np.ndarray:
        # (H + t I) v = H w - g with t > 0 such that ||v|| = R: the secular equation
        values, vectors = self.spectrum
        right = vectors.T @ (self.hessian @ w - gradient)

        def excess(t: float) -> float:
            return 1.0 / radius - 1.0 / float(np.linalg.norm(right / (values + t)))

        upper = float(np.linalg.norm(right)) / radius
        t = brentq(excess, 0.0, upper, xtol=_TINY, rtol=1e-15) if excess(0.0) > 0 else 0.0
        v = vectors @ (right / (values + t))
        return v * (radius / float(np.linalg.norm(v)))

    def _projected(self, w: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Accelerated projected gradient, to a small part of the length of the step."""
        values, _ = self.spectrum
        beta, mu = float(values[-1]) * (1.0 + 1e-10), max(float(values[0]), 1e-300)
        ratio = math.sqrt(min(1.0, mu / beta))
        momentum = (1.0 - ratio) / (1.0 + ratio)
        previous = point = w
        for _ in range(min(_MAX_MODEL_STEPS, math.ceil(60.0 / ratio))):
            ahead = point + momentum * (point - previous)
            ahead_gradient = gradient + self.hessian @ (ahead - w)
            previous, point = point, self.domain.project(ahead - ahead_gradient / beta)
            moved = float(np.linalg.norm(point - w))
            if beta * float(np.linalg.norm(ahead - point)) <= 1e-4 * mu * moved:
                break
        return point


class Newton(Solver):
    """Newton's method; needs a twice differentiable loss.

    References
    ----------
    Any method will do, since its point is certified (docs/theory/output_perturbation.md, Lemma 2).
    """

    needs = frozenset({"hessian"})
    ends_at_gradient = True

    #: Largest number of coefficients for which :meth:`affordable` says yes.
    max_dimension = 2000

    @classmethod
    def affordable(cls, problem: Problem) -> bool:
        """Return whether Hessians can be had and are of a reasonable size, from the shape alone."""
        return "hessian" in problem.offers and problem.dimension <= cls.max_dimension

    def _solve(self, problem: Problem, accuracy: float, start: Vector, rng: Generator) -> Vector:
        if problem.is_quadratic and isinstance(problem.domain, (Ball, WholeSpace)):  # one step
            problem = problem.with_moments()
            model = QuadraticModel(problem.hessian(start), problem.domain, problem.strong_convexity)
            return problem.domain.project(model.minimiser(start, problem.gradient(start)))
        sample = max(_MIN_SAMPLE, _ROWS_PER_COEFFICIENT * problem.constants.row_width)
        w, sampled, step = start, None, 0
        if "records" in problem.offers:
            step = problem.records.n_units // sample  # type: ignore[attr-defined]
        if step >= 4:
            part = problem.subsample(step)  # type: ignore[attr-defined]
            w = _newton(part, 0.0, start, None, max_steps=8, rough=True)
            sampled = QuadraticModel(part.hessian(w), problem.domain, problem.strong_convexity)
        return _newton(problem, accuracy, w, sampled)


def _newton(
    problem: Problem,
    accuracy: float,
    w: np.ndarray,
    model: QuadraticModel | None,
    max_steps: int = _MAX_STEPS,
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
            model = QuadraticModel(problem.hessian(w), problem.domain, problem.strong_convexity)
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
    if rough or best_distance <= accuracy:
        return best
    # a few projected gradient steps remove the error from the rounding of the model
    for _ in range(_POLISHING_STEPS):
        gradient = problem.gradient(w)
        distance = certify(problem, w, gradient).distance
        if distance < best_distance:
            best, best_distance = w, distance
        if distance <= accuracy:
            break
        w = problem.domain.project(w - gradient / problem.smoothness)
    return best


def _line_search(
    problem: Problem, w: np.ndarray, gradient: np.ndarray, candidate: np.ndarray
) -> np.ndarray | None:
    """Back-tracking from w towards a minimiser of the model; None if it fails.

    A step is taken if it decreases the value enough (Armijo) or, where values differ by
    rounding only, if the directional derivative says so (Hager and Zhang 2005): of a convex
    function, one that is not much steeper upwards than it was downwards.
    """
    direction = candidate - w
    derivative = float(gradient @ direction)
    if not derivative < 0:
        return None
    value = problem.value(w)
    noise = 1e-13 * abs(value)
    length = 1.0
    while length > 1e-10:
        point = w + length * direction
        reached = problem.value(point)
        if reached <= value + 1e-4 * length * derivative:
            return point
        if reached <= value + noise and problem.gradient(point) @ direction <= -0.8 * derivative:
            return point
        length *= 0.5
    return None

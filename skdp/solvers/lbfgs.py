"""Limited-memory BFGS through scipy."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from scipy.optimize import Bounds, brentq, minimize

from skdp.problems import Problem
from skdp.problems.domains import Ball, Box, WholeSpace
from skdp.solvers.accelerated_gradient import AcceleratedGradient
from skdp.solvers.base import Solver, Vector
from skdp.solvers.certificates import certify

_TINY = float(np.finfo(np.float64).tiny)
#: Stored correction pairs, and iterations of one minimisation, and of the last gradient steps.
_MEMORY, _MAX_ITERATIONS = 10, 2000
#: Multipliers that are tried.
_MAX_MULTIPLIERS = 60
#: Runs on differences of the objective, where values no longer distinguish points.
_RESTARTS = 3


class _AccurateEnough(Exception):
    """Carries the point at which an objective was found to be accurate enough.

    And its gradient there, if it is that of the problem.
    """

    def __init__(self, point: np.ndarray, gradient: np.ndarray | None = None) -> None:
        self.point, self.gradient = point, gradient


class LBFGS(Solver):
    """scipy's L-BFGS-B on the whole space and in a box; in a ball on a Lagrangian.

    When the free minimiser lies outside of the ball, the solution minimises the objective plus
    ``(t/2) ||w||^2`` for the multiplier t > 0 at which its norm is the radius. t is found by
    bracketing, each minimisation starting from the last, until the projected point is certified.

    Rounding ends scipy's line search, which compares values, and the search of t, early: then
    projected accelerated gradient steps follow (:class:`AcceleratedGradient`). On other domains
    these do all the work.
    """

    ends_at_gradient = True

    def _solve(self, problem: Problem, accuracy: float, start: Vector, rng: Generator) -> Vector:
        domain = problem.domain
        if not isinstance(domain, (Ball, Box, WholeSpace)):
            return AcceleratedGradient()._solve(problem, accuracy, start, rng)
        try:
            if isinstance(domain, Ball):
                point = self._in_ball(problem, accuracy, start, domain.radius)
            else:
                box = domain if isinstance(domain, Box) else None
                point, _ = self._minimise(problem, accuracy, start, box)
            point = _unless_certified(problem, accuracy, point)
        except _AccurateEnough as done:
            return done.point
        return AcceleratedGradient(_MAX_ITERATIONS)._solve(problem, accuracy, point, rng)

    def _in_ball(self, problem: Problem, accuracy: float, start: Vector, radius: float) -> Vector:
        point = start

        def excess(t: float) -> float:
            nonlocal point
            point, gradient = self._minimise(problem, accuracy, point, shrink=t)
            _unless_certified(problem, accuracy, point, gradient)
            return 1.0 / radius - 1.0 / max(float(np.linalg.norm(point)), 1e-300)

        if excess(0.0) <= 0:
            return point
        # at the solution t R <= ||grad of the data part|| <= Lipschitz constant
        upper = 2.0 * problem.lipschitz / radius
        t = brentq(excess, 0.0, upper, xtol=_TINY, rtol=1e-14, maxiter=_MAX_MULTIPLIERS, disp=False)
        return self._minimise(problem, accuracy, point, shrink=float(t))[0]

    def _minimise(
        self,
        problem: Problem,
        accuracy: float,
        start: np.ndarray,
        box: Box | None = None,
        shrink: float = 0.0,
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Minimise the objective plus ``(shrink/2) ||w||^2``, in a box if given.

        Returns the gradient of the problem at the point as well, if it is at hand.
        """
        beta = problem.smoothness + shrink
        # certifies the point; half is left for rounding
        tolerance = 0.5 * problem.strong_convexity * accuracy

        def gradient_unless_done(w: np.ndarray, gradient: np.ndarray) -> np.ndarray:
            gradient += shrink * w
            mapping = gradient if box is None else beta * (w - box.project(w - gradient / beta))
            if float(np.linalg.norm(mapping)) <= tolerance:
                is_own = shrink == 0.0
                raise _AccurateEnough(w.copy(), gradient.copy() if is_own else None)
            return gradient

        def objective(w: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = problem.value_and_gradient(w)
            gradient = gradient_unless_done(w, gradient)
            return value + 0.5 * shrink * float(w @ w), gradient

        def change(w: np.ndarray) -> tuple[float, np.ndarray]:
            """F(w) - F(start) by the trapezoidal rule: for small steps, where F only rounds."""
            gradient = gradient_unless_done(w, problem.gradient(w))
            return 0.5 * float((gradient + at_start) @ (w - start)), gradient

        # scipy stops on the largest entry only, which would ask for sqrt(d) times too much
        limits = {"maxiter": _MAX_ITERATIONS, "maxfun": 2 * _MAX_ITERATIONS}
        options = {"maxcor": _MEMORY, "gtol": 0.0, "ftol": 0.0, **limits}
        bounds = None if box is None else Bounds(box.lower, box.upper)
        arguments = {"jac": True, "method": "L-BFGS-B", "bounds": bounds, "options": options}
        try:
            start = minimize(objective, start, **arguments).x
            for _ in range(_RESTARTS):
                at_start = gradient_unless_done(start, problem.gradient(start))
                start = minimize(change, start, **arguments).x
        except _AccurateEnough as done:
            return done.point, done.gradient
        return start, None


def _unless_certified(
    problem: Problem, accuracy: float, point: np.ndarray, gradient: np.ndarray | None = None
) -> np.ndarray:
    """Return the nearest feasible point; raises :class:`_AccurateEnough` if it is certified.

    `gradient` is that at the point, when it is at hand.
    """
    feasible = problem.domain.project(point)
    if certify(problem, feasible, gradient if feasible is point else None).distance <= accuracy:
        raise _AccurateEnough(feasible)
    return feasible

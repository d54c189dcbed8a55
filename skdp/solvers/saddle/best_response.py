"""Saddle points by minimisation of the primal function, with any solver of such problems."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.random import Generator

from skdp.problems import SaddleProblem
from skdp.problems.domains import euclidean_norm
from skdp.problems.problem import Problem
from skdp.problems.rounding import EPS
from skdp.problems.saddle import Pair, Response
from skdp.solvers.base import SaddleSolver, Solver
from skdp.solvers.certificates import STEP, certify_saddle
from skdp.solvers.resolve import resolve_solver

#: Ratio of the regularisers of y that follow on each other,
_SOFTENING = 5.0
#: and the accuracy of all but the last, in units of the localisation.
_ROUGH = 1e-2

#: Records in the sample that rough solutions are computed of, at least and per coordinate of x,
_MIN_SAMPLE, _PER_COORDINATE = 1 << 14, 100
#: and the ratio of records from which it pays.
_SAMPLING_PAYS = 4


class BestResponse(SaddleSolver):
    """Minimises the primal function ``Phi(x) = max over y of F(x, y)``, where f is linear in y.

    The maximiser is a projection, ``y(x) = Proj(c_y + grad_y f(x) / alpha_y)``. Phi is
    mu_x-strongly convex with gradient ``grad_x F(x, y(x))``, and smooth, because y(x) is Lipschitz
    (docs/theory/saddle.md, Lemma 6). Newton's method takes a few passes over the records. Where y
    is regularised weakly, Phi almost has kinks: so stronger regularisers come first, each problem
    starting from the rough solution of the one before, with a sample of the records.

    As y(x) multiplies the rounding of x, pairs are accurate to about ``l^2`` units of rounding, l
    the condition number, where :class:`Extragradient` reaches ``40 l``.

    Parameters
    ----------
    solver : str, Solver or callable, default="auto"
        A solver of :mod:`skdp.solvers`. It is interrupted as soon as the pair ``(x, y(x))`` of a
        point that it evaluates is certified.
    """

    def __init__(
        self, solver: str | Solver | Callable[[Problem, float], np.ndarray] = "auto"
    ) -> None:
        self.solver = solver

    def _solve(self, problem: SaddleProblem, accuracy: float, start: Pair, rng: Generator) -> Pair:
        solver, x, part = self._resolved(), start[0], _subsample(problem)
        alphas = _softer(problem) if part is problem else [*_softer(problem), problem.alpha_y]
        for alpha in alphas:
            regularised = part.with_regularisers(
                problem.alpha_x, alpha, problem.center_x, problem.center_y
            )
            rough = _ROUGH * regularised.constants.localisation
            x = _minimise(regularised, max(accuracy, rough), solver, x, rng)[0]
        return _minimise(problem, accuracy, solver, x, rng)

    def check_supports(self, problem: SaddleProblem) -> None:
        if not is_linear(problem):
            raise ValueError(
                f"BestResponse is for functions that are linear in y and regularised there; a "
                f"{type(problem).__name__} is not."
            )
        self._resolved().check_supports(_PrimalProblem(problem, math.inf))

    def _resolved(self) -> Solver:
        return resolve_solver(self.solver)


def _softer(problem: SaddleProblem) -> list[float]:
    """Return the regularisers of y above its own, in descending order, by public numbers."""
    alphas, alpha = [], _SOFTENING * problem.alpha_y
    while alpha < problem.constants.y.lipschitz:
        alphas.append(alpha)
        alpha *= _SOFTENING
    return alphas[::-1]


def _subsample(problem: SaddleProblem) -> SaddleProblem:
    """Return some evenly spaced records, enough for a good start; all where that does not pay."""
    step = problem.n_records // max(_MIN_SAMPLE, _PER_COORDINATE * problem.constants.x.dimension)
    if step < _SAMPLING_PAYS or "records" not in problem.offers:
        return problem
    return problem.take(np.arange(0, problem.n_records, step))


def _minimise(
    problem: SaddleProblem, accuracy: float, solver: Solver, x: np.ndarray, rng: Generator
) -> Pair:
    primal = _PrimalProblem(problem, accuracy)
    try:
        point = solver._solve(primal, primal.sufficient_accuracy, x, rng)
    except _Found as found:
        return found.pair
    x = problem.domain_x.project(np.asarray(point, dtype=np.float64))
    return x, problem.best_response(x).y


def is_linear(problem: SaddleProblem) -> bool:
    """Return whether f is linear in y, by the public constants, and regularised there."""
    linear = problem.constants.y.smoothness == 0.0 and problem.record_moduli[1] == 0.0
    return linear and problem.alpha_y > 0.0


class _Found(Exception):
    """Carries a certified pair past the solver that came upon it."""

    def __init__(self, *pair: np.ndarray) -> None:
        self.pair = pair[0], pair[1]


class _PrimalProblem(Problem):
    """The primal function as a problem; :class:`_Found` is raised at its solution.

    The certificate of the saddle point decides, because that of the minimisation rests on the
    larger smoothness ``coupling^2 / mu_y``.
    """

    def __init__(self, saddle: SaddleProblem, accuracy: float) -> None:
        constants = saddle.constants
        self.saddle = saddle
        self.accuracy = accuracy
        self.domain = saddle.domain_x
        self.dimension = constants.x.dimension
        self.alpha = saddle.alpha_x
        self.center = saddle.center_x
        self.offers = saddle.offers & {"hessian"}
        self.constants = constants.primal()
        self._last: tuple[np.ndarray, Response] | None = None

    @property
    def sufficient_accuracy(self) -> float:
        """Distance to the minimiser at which the pair is certified, in exact arithmetic.

        ``||(x, y(x)) - z*||_M <= ||x - x*|| sqrt(mu_x + coupling^2 / mu_y)``, and the certificate
        is at most ``4 l`` times that (docs/theory/saddle.md, Lemma 3).
        """
        c = self.saddle.constants
        stretch = math.hypot(math.sqrt(c.x.modulus), c.coupling / math.sqrt(c.y.modulus))
        return self.accuracy / (4.0 * c.condition_number * stretch)

    def value(self, w: np.ndarray) -> float:
        return self._respond(w).value

    def gradient(self, w: np.ndarray) -> np.ndarray:
        response = self._respond(w)
        gradient = response.gradient + self.penalty_gradient(w)
        self._stop_if_found(w, response.y, gradient)
        return gradient

    def value_and_gradient(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        gradient = self.gradient(w)
        return self.value(w), gradient

    def hessian(self, w: np.ndarray) -> np.ndarray:
        """A generalised one: the derivative of the projection is that of the face it lands on."""
        response, saddle = self._respond(w), self.saddle
        cross = saddle.cross_derivative(w)
        curvature = cross.T @ saddle.domain_y.projection_derivative(response.unprojected) @ cross
        hessian = saddle.hessian_x(w, response.y) + curvature / saddle.alpha_y
        return hessian + self.alpha * np.eye(w.size)

    def gradient_rounding(self, w: np.ndarray) -> float:
        """Return the errors of y(x) and of the gradient at a given y."""
        saddle, c = self.saddle, self.saddle.constants
        norm_y = min(c.y.radius, euclidean_norm(self._respond(w).y) * (1.0 + 1e-9))
        error_x, error_y = c.operator_rounding(euclidean_norm(w), norm_y)
        free = c.y.center_norm + c.y.lipschitz / saddle.alpha_y
        error_y = error_y / saddle.alpha_y + 4.0 * EPS * free + c.y.projection_rounding
        return error_x + c.coupling * error_y

    def _respond(self, w: np.ndarray) -> Response:
        if self._last is None or not np.array_equal(self._last[0], w):
            self._last = w.copy(), self.saddle.best_response(w)
        return self._last[1]

    def _stop_if_found(self, w: np.ndarray, y: np.ndarray, gradient: np.ndarray) -> None:
        # No certificate is below (1 - STEP) times the length of its step by eta (the block of y
        # does not move), which needs no further pass over the records.
        c = self.saddle.constants
        step = STEP / (c.condition_number * c.x.modulus)
        moved = euclidean_norm(w - self.domain.project(w - step * gradient)) / step
        if (1.0 - STEP) * moved <= self.accuracy * math.sqrt(c.x.modulus):
            w = self.domain.project(w)
            if certify_saddle(self.saddle, w, y).distance <= self.accuracy:
                raise _Found(w, y)

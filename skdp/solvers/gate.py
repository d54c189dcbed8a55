"""The certified solve, for minimisation and for saddle points.

The answer of a solver is projected onto the domain and certified; if the certificate does not reach
the accuracy, or there is no usable answer, trusted deterministic methods continue from there. A
wrong solver costs time, never privacy: the result of :func:`certified_solve` is within `accuracy`
of the exact solution for every data set. The solver is a private copy and works on a private
problem with read-only records; only code that tampers with memory on purpose escapes these checks.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import Generator

from skdp._runtime import without_warnings
from skdp._types import Verbose
from skdp.data.sources import DataError
from skdp.problems.problem import Problem
from skdp.problems.saddle import Pair, SaddleProblem
from skdp.solvers.certificates import Attempt, SaddlePoint, Solution, certify, certify_saddle
from skdp.solvers.copying import private_copy, solver_name

if TYPE_CHECKING:
    from skdp.solvers.base import BaseSolver


class _Minimisation:
    """The parts of a certified solve that differ from those of saddle problems."""

    #: The trusted solvers of a problem, in order. Set by :mod:`skdp.solvers.registry`.
    trusted: Callable[[Any], Sequence[BaseSolver]]

    def center(self, problem: Problem) -> Solution:
        """Return the center of the domain, certified by the size of the domain alone."""
        domain = problem.domain
        return Solution(domain.center(problem.dimension), domain.circumradius)

    def feasible(self, problem: Problem, answer: Any) -> np.ndarray:
        """Return a private, finite point of the domain; ValueError or TypeError if impossible."""
        return problem.domain.project(_finite(answer, problem.dimension))

    def certify(self, problem: Problem, point: np.ndarray, seen: _Seen | None = None) -> Solution:
        """Certify a feasible point, by the gradient that was seen last if it is there."""
        gradient = None if seen is None else seen.gradient_at(point)
        return Solution(point, certify(problem, point, gradient).distance)

    def observed(self, problem: Problem, private: Problem) -> _Seen:
        """Let the problem of a solver evaluate gradients here, where the last one is kept.

        They are of `problem`, whatever the solver makes of its own copy.
        """
        seen = _Seen()

        def value_and_gradient(w: np.ndarray) -> tuple[float, np.ndarray]:
            point = w.copy()
            value, gradient = problem.value_and_gradient(point)
            return value, seen.keep(point, gradient)

        def gradient(w: np.ndarray) -> np.ndarray:
            point = w.copy()
            return seen.keep(point, problem.gradient(point))

        vars(private).update(gradient=gradient, value_and_gradient=value_and_gradient)
        return seen


class _Seen:
    """The last gradient that was evaluated for a solver, and where."""

    def __init__(self) -> None:
        self._last: tuple[np.ndarray, np.ndarray] | None = None

    def keep(self, point: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Keep a gradient, and return a copy, which may be written to."""
        self._last = point, gradient
        return gradient.copy()

    def gradient_at(self, point: np.ndarray) -> np.ndarray | None:
        """Return the gradient at a point, if it is the last one."""
        if self._last is None or not np.array_equal(self._last[0], point):
            return None
        return self._last[1]


class _Saddle:
    trusted: Callable[[Any], Sequence[BaseSolver]]

    def center(self, problem: SaddleProblem) -> SaddlePoint:
        constants = problem.constants
        x = problem.domain_x.center(constants.x.dimension)
        y = problem.domain_y.center(constants.y.dimension)
        return SaddlePoint(x, y, 0.5 * constants.diameter)

    def feasible(self, problem: SaddleProblem, answer: Any) -> Pair:
        x, y = answer
        constants = problem.constants
        return problem.project(_finite(x, constants.x.dimension), _finite(y, constants.y.dimension))

    def certify(self, problem: SaddleProblem, point: Pair, seen: None = None) -> SaddlePoint:
        return certify_saddle(problem, *point)


MINIMISATION, SADDLE = _Minimisation(), _Saddle()


def certified_solve(
    problem: Any,
    accuracy: float,
    solver: BaseSolver,
    start: Any = None,
    rng: Generator | None = None,
    verbose: Verbose = 0,
) -> Any:
    """Implement :func:`skdp.solvers.solve_certified` for a solver object."""
    kind: Any = SADDLE if isinstance(problem, SaddleProblem) else MINIMISATION
    if not accuracy > 0:
        raise ValueError(f"accuracy == {accuracy}, must be > 0.")
    if kind is MINIMISATION and not problem.is_smooth:
        raise ValueError(
            "The objective is not smooth: no accuracy can be certified. Use the smooth "
            "approximation of the loss, loss.smoothed(width)."
        )
    solver = private_copy(solver).for_problem(problem, accuracy)
    solver.check_supports(problem)
    try:
        begin = problem.start() if start is None else kind.feasible(problem, start)
    except (TypeError, ValueError) as reason:
        raise ValueError(f"start must be a finite vector, or a pair of them: {reason}") from None
    center = kind.center(problem)
    if center.distance <= accuracy:  # a public decision
        return center
    rng = np.random.default_rng() if rng is None else rng
    best: Any = None
    attempts: list[Attempt] = []
    for method in (solver, *kind.trusted(problem)):
        name = solver_name(method)  # it has seen nothing yet
        if method is not solver and name == attempts[0].solver and type(method) is type(solver):
            continue
        with without_warnings():
            if kind is MINIMISATION and "hessian" in method.needs:
                problem = problem.with_moments()  # which certificates use as well
            if best is not None and best.distance < kind.certify(problem, begin).distance:
                begin = best.point
            found, error = _attempt(kind, problem, accuracy, method, begin, rng)
        reached = math.inf if found is None else found.distance
        attempts.append(Attempt(name, reached, error))
        report_attempt(verbose, name, reached <= accuracy, error)
        if found is not None and (best is None or reached <= best.distance):
            best = found
        if best is not None and best.distance <= accuracy:
            return replace(best, attempts=tuple(attempts))
    raise RuntimeError(
        f"The accuracy {accuracy:g} cannot be certified in double precision for this problem."
    )


def _attempt(
    kind: Any, problem: Any, accuracy: float, solver: BaseSolver, start: Any, rng: Generator
) -> tuple[Any, str | None]:
    """Return the certified answer of a solver, or its error: errors depend on the records."""
    private = problem.for_solver()
    seen = kind.observed(problem, private) if solver.ends_at_gradient else None
    try:
        answer = solver._solve(private, accuracy, copy.deepcopy(start), rng)
        found = kind.certify(problem, kind.feasible(problem, answer), seen)
    except BaseException as error:  # SystemExit included
        records = getattr(problem, "records", None)
        is_from_source = isinstance(error, DataError) and not getattr(records, "in_memory", True)
        if is_from_source or isinstance(error, KeyboardInterrupt):  # no matter of the solver
            raise
        return None, f"{type(error).__name__}: {error}"
    return (found if found.distance < math.inf else None), None


def _finite(vector: Any, length: int) -> np.ndarray:
    """Return a private, finite vector; ValueError or TypeError if impossible."""
    if vector is None:
        raise TypeError("a vector is needed, not None.")
    vector = np.array(vector, dtype=np.float64).ravel()
    if vector.shape != (length,):
        raise ValueError(f"{vector.size} numbers are not {length}.")
    if not np.isfinite(vector).all():
        raise ValueError("a number is not finite.")
    return vector


def report_attempt(verbose: Verbose, name: str, is_reached: bool, error: str | None) -> None:
    """Report that a solver has ended; it depends on the records."""
    if callable(verbose):
        verbose(name, 1.0, 1.0)
    elif verbose:
        ended = "reached" if is_reached else "not reached, a trusted solver goes on"
        print(f"[skdp] {name}: accuracy {ended}" + f" ({error})" * bool(error), flush=True)

"""The contract of a solver, and the one place where its word is checked.

A solver may be anything: what it returns is projected onto the domain and certified; when
the certificate does not reach the accuracy (or there is no usable point at all), trusted
deterministic methods finish the job from there. A wrong or lazy solver costs time, never
privacy: the point that leaves :func:`solve_certified` is within `accuracy` of the exact
solution for every data set. The solver works on an object of its own with read-only
records; only code that tampers with memory on purpose is beyond any check in the same
process.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from skdp.solvers.certificates import Attempt, Certificate, Solution, certify, certify_dual
from skdp.solvers.gate import Described, own_copy, quietly, solver_name
from skdp.solvers.progress import Progress

if TYPE_CHECKING:
    from skdp.problems import Problem

__all__ = ["CallableSolver", "Records", "Solver", "certified_answer", "own_copy", "solve_certified"]


#: A :class:`skdp.problems.FiniteSumProblem`, for solvers that need "records". Any for the type
#: checker, because a method must accept what the method that it overrides accepts.
Records = Any

#: What a solver may say of the losses that it is for.
_KINDS = ("any", "smooth", "piecewise linear")


class Solver(Described, ABC):
    """Base class of non-private solvers.

    A subclass implements :meth:`minimise`; it need not be right, see the module.
    """

    #: What it can minimise: "any" loss, only "smooth" or only "piecewise linear" ones.
    losses = "any"
    #: What it asks of a problem besides values and gradients (:attr:`Problem.offers`).
    needs: frozenset[str] = frozenset()

    @abstractmethod
    def minimise(
        self,
        problem: Problem,
        accuracy: float,
        start: np.ndarray,
        rng: np.random.Generator,
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Return a point that should be within `accuracy` of the solution.

        Parameters
        ----------
        problem : Problem
        accuracy : float
            Wanted Euclidean distance to the exact solution.
        start : ndarray of shape (dimension,)
            Feasible point to start from.
        rng : numpy.random.Generator
            The solver's own randomness, apart from all privacy noise.

        Returns
        -------
        point : ndarray of shape (dimension,)
            For a non-smooth loss better a pair of `point` and `dual`, the latter of shape
            (n_records,) as in :func:`skdp.solvers.certify_dual`: a point alone is proven
            accurate only up to the slopes at the kinks, which it does not tell.
        """

    @property
    def holds_records(self) -> bool:
        """Whether the object contains something that was computed from records."""
        return False

    def check_supports(self, problem: Problem) -> None:
        """Raise a ValueError if the solver is not made for the problem, by what is public.

        Called before any work. Override it to refuse invalid parameters as well.
        """
        if self.losses not in _KINDS:
            raise ValueError(f"losses == {self.losses!r}, must be one of {list(_KINDS)}.")
        kind = "smooth" if problem.is_smooth else "piecewise linear"
        if self.losses not in ("any", kind):
            raise ValueError(
                f"{type(self).__name__} is for {self.losses} losses, this one is {kind}."
            )
        missing = self.needs - problem.offers
        if missing:
            raise ValueError(
                f"{type(self).__name__} needs {' and '.join(sorted(missing))}, which a "
                f"{type(problem).__name__} does not offer."
            )

    def pass_limit(self, problem: Problem, accuracy: float) -> float:
        """Public limit of the passes over the records, roughly; ``inf`` where none is known.

        For progress messages only. A pass is as many gradients as there are records.
        """
        return np.inf

    def solve(
        self,
        problem: Problem,
        accuracy: float,
        start: np.ndarray | None = None,
        rng: np.random.Generator | None = None,
        verbose: int = 0,
    ) -> Solution:
        """Return a point whose certificate proves distance <= `accuracy`.

        Parameters are those of :func:`solve_certified`.
        """
        return solve_certified(problem, accuracy, self, start, rng, verbose)


@dataclass(frozen=True)
class CallableSolver(Solver):
    """Adapter for a function ``(problem, accuracy) -> array``."""

    function: Callable[[Problem, float], np.ndarray]

    def minimise(
        self,
        problem: Problem,
        accuracy: float,
        start: np.ndarray,
        rng: np.random.Generator,
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        return self.function(problem, accuracy)


def solve_certified(
    problem: Problem,
    accuracy: float,
    solver: Solver,
    start: np.ndarray | None = None,
    rng: np.random.Generator | None = None,
    verbose: int = 0,
) -> Solution:
    """Run `solver`, check its answer, and finish the job with trusted methods if needed.

    Parameters
    ----------
    problem : Problem
    accuracy : float
        Distance to the exact solution that the returned point is proven to have.
    solver : Solver
    start : ndarray of shape (dimension,), optional
        Default: the centre of the regulariser.
    rng : numpy.random.Generator, optional
        Randomness for the solver; default: a fresh generator.
    verbose : int, default=0
        1 prints the progress of long solves. How much is printed depends on the records: it
        is for whoever holds them, and must not be published.

    Returns
    -------
    Solution
        Its `attempts` tell who found the point: look there when debugging a solver.

    Raises
    ------
    ValueError
        If the solver is not made for the problem's kind of loss.
    RuntimeError
        If `accuracy` is below what double precision can certify. Plans rule this out
        beforehand from public numbers (``ProblemConstants.gradient_rounding``).
    """
    solver.check_supports(problem)
    if not accuracy > 0:
        raise ValueError(f"accuracy == {accuracy}, must be > 0.")
    if start is None:
        start = np.zeros(problem.dimension) if problem.center is None else problem.center
    start = np.array(start, dtype=np.float64)
    if start.shape != (problem.dimension,) or not np.isfinite(start).all():
        raise ValueError(f"start must be a finite vector of shape ({problem.dimension},).")
    start = problem.domain.project(start)
    rng = np.random.default_rng() if rng is None else rng
    if problem.domain.circumradius <= accuracy:  # a public decision: the centre will do
        center = problem.domain.center(problem.dimension)
        return Solution(center, Certificate(problem.domain.circumradius, "diameter"))
    best: Solution | None = None
    attempts: tuple[Attempt, ...] = ()
    for method in (solver, *_trusted_solvers(problem)):
        name = solver_name(method, getattr(method, "function", None))  # it has seen nothing yet
        given = problem.for_solver()
        progress = Progress(name, method, problem, accuracy) if verbose else None
        if progress is not None:
            progress.watch(given)
        begin = start if best is None or _is_better(problem, start, best) else best.point
        solution, error = quietly(
            partial(_certified, problem, given, accuracy, method, begin.copy(), rng)
        )
        reached = np.inf if solution is None else solution.certificate.distance
        attempts += (Attempt(name, reached, error),)
        if progress is not None:
            progress.close(reached, error)
        if best is None or reached <= best.certificate.distance:
            best = solution
        if best is not None and best.certificate.distance <= accuracy:
            return Solution(best.point, best.certificate, attempts)
    raise RuntimeError(
        f"The accuracy {accuracy:g} cannot be certified in double precision for this problem."
    )


def _certified(
    problem: Problem,
    given: Problem,
    accuracy: float,
    solver: Solver,
    start: np.ndarray,
    rng: np.random.Generator,
) -> Solution | None:
    """The solver's answer to `given`, certified for `problem`."""
    return certified_answer(problem, solver.minimise(given, accuracy, start, rng))


def _is_better(problem: Problem, start: np.ndarray, solution: Solution) -> bool:
    """Whether a trusted solver had better begin at the start than at a foreign answer."""
    return problem.is_smooth and certify(problem, start).distance < solution.certificate.distance


def certified_answer(problem: Records, answer: Any) -> Solution | None:
    """The best certified point that can be made of what a solver returned.

    Raises
    ------
    ValueError, TypeError
        If it is not a finite vector of the right length (or a pair with such a vector).
    """
    point, dual = answer if isinstance(answer, tuple) and len(answer) == 2 else (answer, None)
    if point is None:
        raise TypeError("the solver returned None.")
    point = np.array(point, dtype=np.float64).ravel().copy()
    if point.shape != (problem.dimension,):
        raise ValueError(f"{point.size} numbers were returned, not {problem.dimension}.")
    if not np.isfinite(point).all():
        raise ValueError("the point is not finite.")
    if problem.is_smooth:
        point = problem.domain.project(point)
        solution = Solution(point, certify(problem, point))
    else:
        duals = _slopes_near(problem, point) if dual is None else [_as_dual(problem, dual)]
        solutions = (certify_dual(problem, dual, point) for dual in duals)
        solution = min(solutions, key=lambda solution: solution.certificate.distance)
    return solution if np.isfinite(solution.certificate.distance) else None


def _as_dual(problem: Records, dual: Any) -> np.ndarray:
    dual = np.array(dual, dtype=np.float64).ravel()
    if dual.shape != (problem.n_records,):
        raise ValueError(f"dual has shape {dual.shape}, must be ({problem.n_records},).")
    return np.nan_to_num(dual, copy=False)


def _slopes_near(problem: Records, point: np.ndarray) -> Iterator[np.ndarray]:
    """Dual vectors that a point suggests: slopes of envelopes of several widths there."""
    kinks, low, high = problem.loss.pieces(problem.records.targets)
    offset = problem.margins(problem.domain.project(point)) - kinks
    for width in np.abs(offset).mean() * 10.0 ** -np.arange(0.0, 11.0, 2.0) + 1e-300:
        yield np.clip(0.5 * (low + high) + offset / width, low, high)


def _trusted_solvers(problem: Problem) -> list[Solver]:
    # imported here: these modules build on the contract above
    from skdp.solvers.accelerated_gradient import AcceleratedGradient
    from skdp.solvers.augmented_lagrangian import AugmentedLagrangian
    from skdp.solvers.lbfgs import LBFGS
    from skdp.solvers.newton import Newton

    if not problem.is_smooth:
        return [AugmentedLagrangian()]
    fast: Solver = Newton() if Newton.affordable(problem) else LBFGS()
    return [fast, AcceleratedGradient()]  # the success of the last is a theorem

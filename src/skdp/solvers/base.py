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

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from skdp.solvers.certificates import Certificate, certify

if TYPE_CHECKING:
    from skdp.problems import FiniteSumProblem

__all__ = ["CallableSolver", "Solution", "Solver", "solve_certified"]


@dataclass(frozen=True)
class Solution:
    """A feasible point and the proof of its accuracy.

    Attributes
    ----------
    point : ndarray of shape (dimension,)
    certificate : Certificate
    """

    point: np.ndarray
    certificate: Certificate


class Solver(ABC):
    """Base class of non-private solvers.

    A subclass implements :meth:`minimise`; it need not be right, see the module.
    """

    @abstractmethod
    def minimise(
        self,
        problem: FiniteSumProblem,
        accuracy: float,
        start: np.ndarray,
        rng: np.random.Generator,
    ) -> np.ndarray:
        """Return a point that should be within `accuracy` of the solution.

        Parameters
        ----------
        problem : FiniteSumProblem
        accuracy : float
            Wanted Euclidean distance to the exact solution.
        start : ndarray of shape (dimension,)
            Feasible point to start from.
        rng : numpy.random.Generator
            The solver's own randomness, apart from all privacy noise.

        Returns
        -------
        ndarray of shape (dimension,)
        """

    def solve(
        self,
        problem: FiniteSumProblem,
        accuracy: float,
        start: np.ndarray | None = None,
        rng: np.random.Generator | None = None,
    ) -> Solution:
        """Return a point whose certificate proves distance <= `accuracy`."""
        return solve_certified(problem, accuracy, self, start, rng)


@dataclass(frozen=True)
class CallableSolver(Solver):
    """Adapter for a function ``(problem, accuracy) -> array``."""

    function: Callable[[FiniteSumProblem, float], np.ndarray]

    def minimise(
        self,
        problem: FiniteSumProblem,
        accuracy: float,
        start: np.ndarray,
        rng: np.random.Generator,
    ) -> np.ndarray:
        return self.function(problem, accuracy)


def solve_certified(
    problem: FiniteSumProblem,
    accuracy: float,
    solver: Solver,
    start: np.ndarray | None = None,
    rng: np.random.Generator | None = None,
) -> Solution:
    """Run `solver`, check its answer, and finish the job with trusted methods if needed.

    Parameters
    ----------
    problem : FiniteSumProblem
    accuracy : float
        Distance to the exact solution that the returned point is proven to have.
    solver : Solver
    start : ndarray of shape (dimension,), optional
        Default: the centre of the regulariser.
    rng : numpy.random.Generator, optional
        Randomness for the solver; default: a fresh generator.

    Returns
    -------
    Solution

    Raises
    ------
    RuntimeError
        If `accuracy` is below what double precision can certify. Plans rule this out
        beforehand from public numbers (``ProblemConstants.gradient_rounding``).
    """
    if start is None:
        start = np.zeros(problem.dimension) if problem.center is None else problem.center
    start = problem.domain.project(np.array(start, dtype=np.float64))
    rng = np.random.default_rng() if rng is None else rng
    if problem.domain.radius <= accuracy:  # a public decision: the centre will do
        return Solution(np.zeros(problem.dimension), Certificate(problem.domain.radius, "diameter"))
    solution = _attempt(problem, accuracy, solver, start, rng)
    for trusted in _trusted_solvers(problem):
        if solution is not None and solution.certificate.distance <= accuracy:
            return solution
        better = _attempt(
            problem, accuracy, trusted, start if solution is None else solution.point, rng
        )
        if better is not None and (
            solution is None or better.certificate.distance <= solution.certificate.distance
        ):
            solution = better
    if solution is None or solution.certificate.distance > accuracy:
        raise RuntimeError(
            f"The accuracy {accuracy:g} cannot be certified in double precision for this problem."
        )
    return solution


def _attempt(
    problem: FiniteSumProblem,
    accuracy: float,
    solver: Solver,
    start: np.ndarray,
    rng: np.random.Generator,
) -> Solution | None:
    """The solver's point, projected and certified; None when it gave no usable point."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # a convergence warning depends on the records
        try:
            point = solver.minimise(problem.for_solver(), accuracy, start.copy(), rng)
            point = np.array(point, dtype=np.float64).ravel()
        except Exception:  # whatever a foreign solver raises depends on the records too
            return None
        if point.shape != (problem.dimension,) or not np.isfinite(point).all():
            return None
        point = problem.domain.project(point)
        certificate = certify(problem, point)
    return Solution(point, certificate) if np.isfinite(certificate.distance) else None


def _trusted_solvers(problem: FiniteSumProblem) -> list[Solver]:
    # imported here: these modules build on the contract above
    from skdp.solvers.accelerated_gradient import AcceleratedGradient
    from skdp.solvers.newton import Newton

    trusted: list[Solver] = [AcceleratedGradient()]
    return [Newton(), *trusted] if Newton.affordable(problem) else trusted

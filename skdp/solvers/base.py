"""The contracts of solvers: `_solve` is raw and anyone's, `solve` is certified."""

from __future__ import annotations

import functools
import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from skdp.solvers.certificates import Pair
from skdp.solvers.gate import certified_solve

if TYPE_CHECKING:
    from skdp.problems import Problem, SaddleProblem

__all__ = [
    "BaseSolver",
    "CallableSaddleSolver",
    "CallableSolver",
    "FiniteSum",
    "Pair",
    "SaddleSolver",
    "Solver",
]

#: A :class:`skdp.problems.FiniteSumProblem`, for solvers that need "records". Any for the type
#: checker, because a method must accept what the method that it overrides accepts.
FiniteSum = Any


@functools.cache
def _defaults(kind: type) -> dict[str, str]:
    """Representations of the default parameters of a class."""
    parameters = inspect.signature(kind).parameters
    return {name: repr(parameter.default) for name, parameter in parameters.items()}


class ReprMixin:
    """Represents a solver by its class and the parameters that differ from their defaults."""

    def __repr__(self) -> str:
        defaults = _defaults(type(self))  # type: ignore[arg-type]
        shown = [
            f"{name}={value!r}"
            for name, value in vars(self).items()
            if name in defaults and repr(value) != defaults[name]
        ]
        return f"{type(self).__name__}({', '.join(shown)})"


class BaseSolver(ReprMixin, ABC):
    """What solvers of minimisation and of saddle problems have in common."""

    #: What it needs of a problem besides gradients: some of the problem's `offers`.
    needs: frozenset[str] = frozenset()

    @abstractmethod
    def _solve(self, problem: Any, accuracy: float, start: Any, rng: np.random.Generator) -> Any:
        """Return a point that should be within `accuracy` of the solution; see the subclasses."""

    def solve(
        self,
        problem: Any,
        accuracy: float,
        start: Any = None,
        rng: np.random.Generator | None = None,
        verbose: int = 0,
    ) -> Any:
        """Return a point whose certificate proves distance <= `accuracy`.

        A copy of the solver is run. Parameters and errors are those of
        :func:`skdp.solvers.solve_certified`.

        Returns
        -------
        Solution or SaddlePoint
        """
        return certified_solve(problem, accuracy, self, start, rng, verbose)

    @property
    def holds_records(self) -> bool:
        """Whether the object contains something that was computed from records."""
        return False

    def for_problem(self, problem: Any, accuracy: float) -> BaseSolver:
        """Choose the solver to run, by public numbers. Default: this one."""
        return self

    def check_supports(self, problem: Any) -> None:
        """Raise a ValueError if the solver is not made for the problem, by public numbers.

        Called before any work. Override it to refuse invalid parameters as well.
        """
        missing = self.needs - problem.offers
        if missing:
            raise ValueError(
                f"{type(self).__name__} needs {' and '.join(sorted(missing))}, which a "
                f"{type(problem).__name__} does not offer."
            )

    def pass_limit(self, problem: Any, accuracy: float) -> float:
        """Public limit of the passes over the records, roughly; ``inf`` where none is known.

        For progress messages only. A pass is as many gradients as there are records.
        """
        return math.inf


class Solver(BaseSolver):
    """Base class of non-private solvers of minimisation problems.

    A subclass implements :meth:`_solve`, which need not be right: :meth:`solve` certifies its
    answers.
    """

    @abstractmethod
    def _solve(
        self, problem: Problem, accuracy: float, start: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
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
        ndarray of shape (dimension,)
        """


class SaddleSolver(BaseSolver):
    """Base class of non-private saddle solvers; :meth:`solve` certifies answers of `_solve`."""

    @abstractmethod
    def _solve(
        self, problem: SaddleProblem, accuracy: float, start: Pair, rng: np.random.Generator
    ) -> Pair:
        """Return a pair that should be within `accuracy` of the saddle point.

        Parameters
        ----------
        problem : SaddleProblem
        accuracy : float
            Wanted distance in the norm ``sqrt(mu_x ||x||^2 + mu_y ||y||^2)``.
        start : pair of ndarray
            Feasible point to start from.
        rng : numpy.random.Generator
            The solver's own randomness, apart from all privacy noise.

        Returns
        -------
        x, y : ndarray
            Certified is their forward-backward image, see :func:`skdp.solvers.certify_saddle`.
        """


@dataclass(frozen=True)
class _Callable:
    """Adapter for a function ``(problem, accuracy) -> answer``."""

    function: Callable[[Any, float], Any]

    def _solve(self, problem: Any, accuracy: float, start: Any, rng: np.random.Generator) -> Any:
        return self.function(problem, accuracy)


class CallableSolver(_Callable, Solver):
    """Adapter for a function ``(problem, accuracy) -> array``."""


class CallableSaddleSolver(_Callable, SaddleSolver):
    """Adapter for a function ``(problem, accuracy) -> (x, y)``."""

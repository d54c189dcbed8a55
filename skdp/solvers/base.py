"""Base classes of solvers: `_solve` is not trusted, `solve` is certified."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator

from skdp._types import Verbose
from skdp.solvers.gate import certified_solve

#: A :class:`skdp.problems.FiniteSumProblem`, for solvers that need "records". Any for the type
#: checker, because a method must accept what the method that it overrides accepts.
FiniteSum = Any
#: The coefficients of a minimisation problem.
Vector = np.ndarray


class BaseSolver(ABC):
    """Base of solvers of minimisation and of saddle problems."""

    #: Evaluations that it needs besides gradients: some of the problem's `offers`.
    needs: frozenset[str] = frozenset()
    #: Whether a minimiser usually is where the last gradient was evaluated, of a problem that the
    #: solver leaves as it is: the certificate then needs no other one.
    ends_at_gradient = False

    def __repr__(self) -> str:
        """Return the class and the parameters that differ from their defaults."""
        parameters = inspect.signature(type(self)).parameters
        shown = [
            f"{name}={value!r}"
            for name, value in vars(self).items()
            if name in parameters and repr(value) != repr(parameters[name].default)
        ]
        return f"{type(self).__name__}({', '.join(shown)})"

    @abstractmethod
    def _solve(self, problem: Any, accuracy: float, start: Any, rng: Generator) -> Any:
        """Return a point that should be within `accuracy` of the solution.

        Parameters
        ----------
        problem : Problem or SaddleProblem
        accuracy : float
            Wanted distance, Euclidean or in the norm ``sqrt(mu_x ||x||^2 + mu_y ||y||^2)``.
        start : ndarray of shape (dimension,) or pair of ndarray
            A feasible point.
        rng : numpy.random.Generator
            For the solver, apart from all privacy noise.

        Returns
        -------
        ndarray or pair of ndarray
            Of a pair (x, y) the forward-backward image is certified:
            :func:`skdp.solvers.certify_saddle`.
        """

    def solve(
        self,
        problem: Any,
        accuracy: float,
        start: Any = None,
        rng: Generator | None = None,
        verbose: Verbose = 0,
    ) -> Any:
        """Call :func:`skdp.solvers.solve_certified` with this solver."""
        return certified_solve(problem, accuracy, self, start, rng, verbose)

    @property
    def holds_records(self) -> bool:
        """Whether the object contains a function of records."""
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


class Solver(BaseSolver):
    """Base of non-private solvers of minimisation problems; :meth:`solve` certifies `_solve`."""


class SaddleSolver(BaseSolver):
    """Base of non-private saddle solvers; :meth:`solve` certifies `_solve`."""


@dataclass(frozen=True)
class _Callable:
    """Adapter for a function ``(problem, accuracy) -> answer``."""

    function: Callable[[Any, float], Any]

    def _solve(self, problem: Any, accuracy: float, start: Any, rng: Generator) -> Any:
        return self.function(problem, accuracy)


class CallableSolver(_Callable, Solver):
    """Adapter for a function ``(problem, accuracy) -> array``."""


class CallableSaddleSolver(_Callable, SaddleSolver):
    """Adapter for a function ``(problem, accuracy) -> (x, y)``."""

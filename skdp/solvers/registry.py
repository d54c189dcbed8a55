"""Solvers by name, the public rules of "auto", and the trusted solvers.

This module stands above the solvers: a new one is a module and a row here. Those of Lowy and
Razaviyayn (2021), Alg. 2, 3 and 5, are not among them: privacy comes from the certified solution.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from numpy.random import Generator

from skdp._types import Verbose
from skdp.problems import Problem
from skdp.problems.saddle import SaddleProblem
from skdp.solvers.accelerated_gradient import AcceleratedGradient
from skdp.solvers.base import BaseSolver, SaddleSolver, Solver
from skdp.solvers.gate import MINIMISATION, SADDLE, certified_solve
from skdp.solvers.lbfgs import LBFGS
from skdp.solvers.newton import Newton
from skdp.solvers.resolve import SADDLE_SOLVERS, SOLVERS, resolve_solver
from skdp.solvers.saddle.best_response import BestResponse, is_linear
from skdp.solvers.saddle.extragradient import Extragradient
from skdp.solvers.saddle.lsvre import LSVRE
from skdp.solvers.svrg import SVRG

#: Cost of a Hessian per coefficient, in units of the passes of L-BFGS as estimated below.
_HESSIAN_WEIGHT = 0.4
#: Largest number of coordinates of x for which Hessians pay in saddle problems, at a moderate
#: condition number and at one from which other methods take very long.
_MAX_DIMENSION, _MAX_DIMENSION_IF_HARD = 200, 2000
_HARD = 1e5
#: Number of records from which steps with a part of them pay.
_MANY_RECORDS = 30_000


class _Auto(BaseSolver):
    """Runs the solver that it chooses by public numbers."""

    def _solve(self, problem: Any, accuracy: float, start: Any, rng: Generator) -> Any:
        return self.for_problem(problem, accuracy)._solve(problem, accuracy, start, rng)


class Auto(_Auto, Solver):
    """Newton when its Hessians pay, else L-BFGS; decided by public numbers alone.

    L-BFGS takes about ``kappa^0.4 log(1 / accuracy)`` passes, measured over three decades of
    kappa; a Hessian costs about ``dimension`` passes, of a faster kind (matrix products) if there
    is one output. The constants come from the same measurements (git tag ``studies``).
    """

    def for_problem(self, problem: Problem, accuracy: float) -> Solver:
        constants = problem.constants
        digits = math.log(max(math.e, constants.localisation / accuracy))
        passes = constants.condition_number**0.4 * digits
        weight = _HESSIAN_WEIGHT * (2.0 if problem.n_outputs > 1 else 1.0)
        newton = weight * problem.dimension <= passes and Newton.affordable(problem)
        return Newton() if newton else LBFGS()


class AutoSaddle(_Auto, SaddleSolver):
    """Newton's method on the primal function, else :class:`Extragradient` or :class:`LSVRE`.

    The first needs f to be linear in y, and Hessians, which pay up to some 200 coordinates of x,
    2000 where the public condition number is above 1e5. Without Hessians, stochastic steps take
    half the time of extragradient steps at 1e5 records, measured with 5 groups.
    """

    def for_problem(self, problem: SaddleProblem, accuracy: float) -> SaddleSolver:
        if _newton_pays(problem):
            return BestResponse("newton")
        many = problem.has_batches and problem.n_records >= _MANY_RECORDS
        return LSVRE() if many else Extragradient()


SOLVERS.update(
    auto=Auto,
    newton=Newton,
    lbfgs=LBFGS,
    accelerated_gradient=AcceleratedGradient,
    svrg=SVRG,
)
SADDLE_SOLVERS.update(
    auto=AutoSaddle,
    best_response=BestResponse,
    extragradient=Extragradient,
    lsvre=LSVRE,
)
#: Our own classes, whatever is registered later: they read no records but those of their problem.
OWN_SOLVERS = frozenset(SOLVERS.values())


def _newton_pays(problem: SaddleProblem) -> bool:
    """Return whether Newton's method on the primal function can be had at a reasonable price."""
    hard = problem.constants.condition_number > _HARD
    largest = _MAX_DIMENSION_IF_HARD if hard else _MAX_DIMENSION
    small = problem.constants.x.dimension <= largest
    return small and "hessian" in problem.offers and is_linear(problem)


def _trusted(problem: Problem) -> list[BaseSolver]:
    # the success of the last is a theorem
    return [Newton() if Newton.affordable(problem) else LBFGS(), AcceleratedGradient()]


def _trusted_saddle(problem: SaddleProblem) -> list[BaseSolver]:
    # the success of the last is a theorem
    return [*([BestResponse("newton")] if _newton_pays(problem) else []), Extragradient()]


MINIMISATION.trusted, SADDLE.trusted = _trusted, _trusted_saddle


def solve_certified(
    problem: Problem | SaddleProblem,
    accuracy: float,
    solver: str | BaseSolver | Callable[[Any, float], Any] = "auto",
    start: Any = None,
    rng: Generator | None = None,
    verbose: Verbose = 0,
) -> Any:
    """Run a solver, certify its answer, and finish with trusted methods if needed.

    Parameters
    ----------
    problem : Problem or SaddleProblem
    accuracy : float
        Distance to the exact solution that the returned point is proven to have: Euclidean, or
        in the norm ``sqrt(mu_x ||x||^2 + mu_y ||y||^2)`` for a saddle point.
    solver : str, Solver, SaddleSolver or callable, default="auto"
        See :func:`resolve_solver`. A copy of it is run.
    start : ndarray of shape (dimension,) or pair of ndarray, optional
        Default: the center of the regulariser.
    rng : numpy.random.Generator, optional
        Randomness for the solver; default: a fresh generator.
    verbose : int or callable, default=0
        1 prints whether a solver has reached the accuracy; a callable is called as ``(name, 1.0,
        1.0)`` after each. It depends on the records: do not publish it.

    Returns
    -------
    Solution or SaddlePoint
        Its `attempts` name the solver that found the point.

    Raises
    ------
    ValueError
        If the solver is not made for the problem, or the problem is not smooth.
    RuntimeError
        If double precision cannot certify `accuracy`. Plans rule this out from public numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.problems import Ball, DeclaredProblem
    >>> from skdp.solvers import solve_certified
    >>> problem = DeclaredProblem(
    ...     lambda w: (0.5 * float((w - 0.5) @ (w - 0.5)), w - 0.5), dimension=2, lipschitz=2.5,
    ...     smoothness=1.0, strong_convexity=1.0, domain=Ball(2.0),
    ... )
    >>> solution = solve_certified(problem, 1e-6, "lbfgs")
    >>> solution.point.round(4), solution.distance <= 1e-6
    (array([0.5, 0.5]), True)
    """
    chosen = resolve_solver(solver, isinstance(problem, SaddleProblem))
    return certified_solve(problem, accuracy, chosen, start, rng, verbose)

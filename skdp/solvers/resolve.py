"""Solvers by name: the tables that :mod:`skdp.solvers.registry` fills."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any

from sklearn.base import BaseEstimator

from skdp._checks import shown
from skdp.solvers.base import BaseSolver, CallableSaddleSolver, CallableSolver, SaddleSolver, Solver

#: Solvers of minimisation problems, and of saddle problems, by name.
SOLVERS: dict[str, type[Solver]] = {}
SADDLE_SOLVERS: dict[str, type[SaddleSolver]] = {}


def resolve_solver(
    solver: str | BaseSolver | Callable[[Any, float], Any], saddle: bool = False
) -> Any:
    """Turn a name, a solver or a callable into a solver.

    Parameters
    ----------
    solver : str, Solver, SaddleSolver or callable
        "auto" chooses by public numbers of the problem.
    saddle : bool, default=False
        Whether it is for saddle problems.

    Returns
    -------
    Solver or SaddleSolver

    Raises
    ------
    ValueError
        For an unknown name or anything else.

    Examples
    --------
    >>> from skdp.solvers import resolve_solver
    >>> type(resolve_solver("lbfgs")).__name__
    'LBFGS'
    """
    names: dict[str, Any] = {**(SADDLE_SOLVERS if saddle else SOLVERS)}
    kind: Any = SaddleSolver if saddle else Solver
    if isinstance(solver, kind):
        return solver
    if isinstance(solver, str) and solver in names:
        return names[solver]()
    foreign = isinstance(solver, (type, BaseSolver))
    if callable(solver) and not foreign:
        return CallableSaddleSolver(solver) if saddle else CallableSolver(solver)
    hint = ""
    if isinstance(solver, type):
        hint = f" Pass an object, {solver.__name__}(), not the class."
    elif isinstance(solver, str):
        close = difflib.get_close_matches(solver.lower(), names, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
    elif isinstance(solver, BaseEstimator):
        hint = " Wrap an estimator in skdp.solvers.SklearnSolver."
    elif hasattr(solver, "_solve") and not isinstance(solver, BaseSolver):
        hint = f" Derive its class from skdp.solvers.{kind.__name__}."
    answer = "(x, y)" if saddle else "array"
    raise ValueError(
        f"solver == {shown(solver)}, must be one of {sorted(names)}, a "
        f"skdp.solvers.{kind.__name__} or a callable (problem, accuracy) -> {answer}.{hint}"
    )


def is_saddle_solver(solver: Any) -> bool:
    """Whether a solver, or one of that name, is for saddle problems alone."""
    if isinstance(solver, str):
        return solver in SADDLE_SOLVERS and solver not in SOLVERS
    return isinstance(solver, SaddleSolver)

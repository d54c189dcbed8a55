"""What the gates of minimisation and of saddle points have in common.

A gate runs solvers of whatever origin: on an object of their own, without a word that could
tell something about the records.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from skdp.problems.silence import without_warnings
from skdp.solvers.stateless import kept_in_functions

__all__ = ["Described", "is_shared", "own_copy", "quietly", "refuse_shared", "solver_name"]

_Result = TypeVar("_Result")


class Described:
    """The representation of a solver: its class and the parameters that are no defaults."""

    def __repr__(self) -> str:
        known = inspect.signature(type(self)).parameters
        shown = [
            f"{name}={value!r}"
            for name, value in vars(self).items()
            if name in known and repr(value) != repr(known[name].default)
        ]
        return f"{type(self).__name__}({', '.join(shown)})"


def own_copy(solver: Any) -> Any:
    """A copy for one solve: what a solver stores in itself about the records is not kept."""
    with contextlib.suppress(Exception):
        return copy.deepcopy(solver)
    return solver


def refuse_shared(solver: Any) -> None:
    """Refuse a solver whose state is not copied, where it must not remember one solve in the next.

    A deep copy of an object shares its functions (:mod:`skdp.solvers.stateless`).

    Raises
    ------
    ValueError
        By the solver alone, before anything is computed.
    """
    name = solver_name(solver, getattr(solver, "function", None))
    if own_copy(solver) is solver:
        raise ValueError(
            f"{name} cannot be copied. Phases need a solver of their own each: what "
            "it keeps of one block of records must not reach the next."
        )
    for place in kept_in_functions(solver):
        raise ValueError(
            f"{name} could keep something of one block of records for the next in {place}. Pass "
            "an object, a skdp.solvers.Solver or one with __call__: each phase works on a copy."
        )


def is_shared(solver: Any) -> bool:
    """Whether :func:`refuse_shared` refuses a solver."""
    try:
        refuse_shared(solver)
    except ValueError:
        return True
    return False


def solver_name(solver: Any, function: Any = None) -> str:
    """How a solver, or the function that it adapts, is called in reports."""
    if function is not None:
        return str(getattr(function, "__qualname__", type(function).__name__))
    try:
        return repr(solver)[:200]
    except Exception:
        return type(solver).__name__


def quietly(work: Callable[[], _Result]) -> tuple[_Result | None, str | None]:
    """Its result, or what went wrong: warnings and errors depend on the records."""
    with without_warnings():
        try:
            return work(), None
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # SystemExit included
            return None, f"{type(error).__name__}: {error}"

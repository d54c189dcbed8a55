"""Private copies of solvers.

``copy.deepcopy`` copies the attributes of an object, but shares functions and classes. A function
is stateless if it assigns to nothing but its local variables, and if everything that it refers to
(variables of enclosing functions, defaults, attributes, global variables) is immutable.

The standard library, numpy, scipy and scikit-learn are trusted. Files, attributes of modules,
global variables in the methods of a class, or a ``__deepcopy__`` that shares are not found: they
are the responsibility of the solver's author.
"""

from __future__ import annotations

import contextlib
import copy
import dis
import functools
import sys
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

_CONSTANTS = (type(None), bool, int, float, complex, str, bytes, range, np.generic, np.dtype)
_CODE = (type, types.ModuleType, types.FunctionType, np.ufunc)
_TRUSTED = {"numpy", "scipy", "sklearn", "skdp", *sys.stdlib_module_names} - {"__main__"}
#: Ways to reach variables by their names.
_REFLECTION = {"setattr", "globals", "vars", "__dict__", "__setattr__", "exec", "eval"}


def private_copy(solver: Any) -> Any:
    """Copy a solver for one solve, so that it keeps nothing about the records.

    A solver that cannot be copied is returned as it is.
    """
    with contextlib.suppress(Exception):
        return copy.deepcopy(solver)
    return solver


def require_copyable(solver: Any) -> None:
    """Refuse a solver that could carry state from one solve to the next, by a ValueError.

    Decided by the solver alone, before anything is computed.
    """
    if private_copy(solver) is solver:
        raise ValueError(
            f"{solver_name(solver)} cannot be copied. Each phase needs a private copy of the "
            "solver: what it keeps of one block of records must not reach the next."
        )
    for place in _shared_state(solver, set()):
        raise ValueError(
            f"{solver_name(solver)} could keep something of one block of records for the next in "
            f"{place}. Pass an object, a skdp.solvers.Solver or one with __call__: each phase "
            "works on a copy."
        )


def is_copyable(solver: Any) -> bool:
    """Return whether :func:`require_copyable` accepts a solver."""
    try:
        require_copyable(solver)
    except ValueError:
        return False
    return True


def solver_name(solver: Any) -> str:
    """Name a solver, or the function that it adapts, in reports."""
    function = getattr(solver, "function", None)
    if function is not None:
        return str(getattr(function, "__qualname__", type(function).__name__))
    try:
        return repr(solver)[:200]
    except Exception:
        return type(solver).__name__


def _shared_state(value: Any, seen: set[int]) -> Iterator[str]:
    """Places where the functions of a deep copy of a solver could keep something, in words."""
    if id(value) in seen or isinstance(value, (*_CONSTANTS, types.ModuleType, np.ndarray)):
        return
    seen.add(id(value))
    if isinstance(value, (type, types.FunctionType)) and _is_trusted(value):
        return
    parts: list[Any] = []
    if isinstance(value, type):
        yield from _class_state(value)
    elif isinstance(value, types.FunctionType):
        yield from (f"{name!r}, which it assigns" for name in _assigned(value))
        for name, part in _references(value):
            if not _is_constant(part):
                yield f"{name!r}, a {type(part).__name__} that it refers to"
            parts.append(part)
    elif isinstance(value, types.MethodType):
        parts = [value.__self__]
    elif isinstance(value, functools.partial):
        parts = [value.func, *value.args, *value.keywords.values()]
    elif isinstance(value, dict):
        parts = list(value.values())
    elif isinstance(value, (list, tuple, set, frozenset)):
        parts = list(value)
    elif callable(value) and not _is_constant(value) and _is_shared(value):
        yield f"a {type(value).__name__} that cannot be copied"
    else:
        yield from _shared_state(type(value), seen)
        parts = list(getattr(value, "__dict__", {}).values())
        slots = [name for kind in type(value).__mro__ for name in _slots(kind)]
        parts += [getattr(value, name) for name in slots if hasattr(value, name)]
    for part in parts:
        yield from _shared_state(part, seen)


def _is_trusted(value: type | types.FunctionType) -> bool:
    return str(value.__module__).split(".")[0] in _TRUSTED


def _slots(kind: type) -> tuple[str, ...]:
    slots = vars(kind).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _class_state(kind: type) -> Iterator[str]:
    """Return the attributes of a class that can change; all its objects share them."""
    for parent in kind.__mro__:
        if _is_trusted(parent):
            continue
        for name, part in vars(parent).items():
            if not name.startswith("__") and isinstance(part, (list, dict, set, bytearray)):
                yield f"{name!r}, a {type(part).__name__} of the class {parent.__name__}"


def _codes(function: types.FunctionType) -> list[types.CodeType]:
    """Return the code of a function and of those that are defined in it."""
    codes = [function.__code__]
    for code in codes:
        codes += [part for part in code.co_consts if isinstance(part, types.CodeType)]
    return codes


def _assigned(function: types.FunctionType) -> Iterator[str]:
    """Return the names other than local variables, and attributes, that a function assigns to."""
    enclosing = function.__code__.co_freevars
    for code in _codes(function):
        for instruction in dis.get_instructions(code):
            outer = instruction.opname == "STORE_DEREF" and instruction.argval in enclosing
            if outer or instruction.opname in ("STORE_GLOBAL", "STORE_ATTR"):
                yield str(instruction.argval)
            if instruction.opname.startswith("LOAD") and instruction.argval in _REFLECTION:
                yield f"what it reaches by {instruction.argval}"


def _references(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """Return the names and values of all that a function refers to apart from its arguments."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # an empty cell
            yield name, cell.cell_contents
    defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    yield from (("a default", value) for value in defaults)
    yield from vars(function).items()
    names = {
        instruction.argval
        for code in _codes(function)
        for instruction in dis.get_instructions(code)
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    }
    for name in names & function.__globals__.keys():
        yield name, function.__globals__[name]


def _is_constant(value: Any) -> bool:
    """Return whether a value cannot change; functions among them are examined on their own."""
    if isinstance(value, (tuple, frozenset)):
        return all(map(_is_constant, value))
    if isinstance(value, types.BuiltinFunctionType):  # a method of a list is one, too
        return value.__self__ is None or isinstance(value.__self__, types.ModuleType)
    return isinstance(value, (*_CONSTANTS, *_CODE))


def _is_shared(value: Any) -> bool:
    try:
        return copy.deepcopy(value) is value
    except Exception:
        return True

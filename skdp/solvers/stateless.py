"""Whether the functions that a solver consists of can keep something from one call to the next.

``copy.deepcopy`` gives a solver object a state of its own, but it shares functions. A function is
without memory if it assigns to nothing but its local variables, and if all that it refers to
(variables of enclosing functions, defaults, attributes, global variables) is of a kind that does
not change. No such check can find files, attributes of modules, or global variables in the methods
of a class: those are the responsibility of the solver's author.
"""

from __future__ import annotations

import contextlib
import copy
import dis
import functools
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

__all__ = ["kept_in_functions"]

_CONSTANTS = (type(None), bool, int, float, complex, str, bytes, range, np.generic, np.dtype)
_CODE = (type, types.ModuleType, types.FunctionType, np.ufunc)


def kept_in_functions(solver: Any) -> Iterator[str]:
    """Places where the functions of a deep copy of `solver` could keep something, in words."""
    return _places(solver, set())


def _places(value: Any, seen: set[int]) -> Iterator[str]:
    if id(value) in seen or isinstance(value, (*_CONSTANTS, type, types.ModuleType, np.ndarray)):
        return
    seen.add(id(value))
    parts: list[Any] = []
    if isinstance(value, types.FunctionType):
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
    elif hasattr(value, "__dict__"):
        parts = list(vars(value).values())
    for part in parts:
        yield from _places(part, seen)


def _codes(function: types.FunctionType) -> list[types.CodeType]:
    """The code of a function and of those that are defined in it."""
    codes = [function.__code__]
    for code in codes:
        codes += [part for part in code.co_consts if isinstance(part, types.CodeType)]
    return codes


def _assigned(function: types.FunctionType) -> Iterator[str]:
    """Names other than local variables, and attributes, that a function assigns to."""
    enclosing = function.__code__.co_freevars
    for code in _codes(function):
        for instruction in dis.get_instructions(code):
            outer = instruction.opname == "STORE_DEREF" and instruction.argval in enclosing
            if outer or instruction.opname in ("STORE_GLOBAL", "STORE_ATTR"):
                yield str(instruction.argval)


def _references(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """Names and values of all that a function refers to apart from its arguments."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # an empty cell
            yield name, cell.cell_contents
    defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    yield from (("a default", value) for value in defaults)
    yield from vars(function).items()
    for name in {name for code in _codes(function) for name in code.co_names}:
        if name in function.__globals__:
            yield name, function.__globals__[name]


def _is_constant(value: Any) -> bool:
    """Whether a value cannot change; functions among them are examined on their own."""
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

"""Copies of problems and records for solvers, whose changes do not reach the original."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from skdp.problems.domains import Domain
from skdp.problems.matrices import read_only_view

_IMMUTABLE = (bool, int, float, str, type(None))


def copy_parts(problem: object, other: object) -> None:
    """Give `other` copies of domains and dataclasses, frozen ones too, and read-only arrays."""
    for name, part in vars(problem).items():
        if _is_part(part):
            vars(other)[name] = _copy_part(part)
        elif isinstance(part, np.ndarray):
            vars(other)[name] = read_only_view(part)


def _is_part(value: object) -> bool:
    return isinstance(value, Domain) or (
        hasattr(type(value), "__dataclass_fields__") and hasattr(value, "__dict__")
    )


def _copy_part(part: Any) -> Any:
    """A deep copy, faster than that of :func:`copy.deepcopy` for numbers and parts of parts."""
    other = object.__new__(type(part))
    for name, value in vars(part).items():
        if not isinstance(value, _IMMUTABLE):
            value = _copy_part(value) if _is_part(value) else copy.deepcopy(value)
        vars(other)[name] = value
    return other

"""Copies of problems and records for solvers, whose changes do not reach the original."""

from __future__ import annotations

import copy
from dataclasses import is_dataclass
from typing import TypeVar

import numpy as np

from skdp.problems.domains import Domain
from skdp.problems.matrices import read_only_view

_Object = TypeVar("_Object")


def solver_copy(original: _Object) -> _Object:
    """Copy an object with its domains and dataclasses, frozen ones too; arrays are read-only."""
    other = copy.copy(original)
    for name, part in vars(original).items():
        if isinstance(part, np.ndarray):
            vars(other)[name] = read_only_view(part)
        elif isinstance(part, Domain) or is_dataclass(part):
            vars(other)[name] = copy.deepcopy(part)
    return other

"""Checks of numbers that users pass."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

__all__ = ["check_count", "check_real"]


def check_count(name: str, value: Any) -> None:
    """Raise TypeError or ValueError unless `value` is an integer >= 1."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be an integer, got {value!r}.")
    if value < 1:
        raise ValueError(f"{name} == {value}, must be >= 1.")


def check_real(name: str, value: Any, low: float, high: float) -> None:
    """Raise TypeError or ValueError unless `value` is a real number in [low, high]."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a real number, got {value!r}.")
    if not float(value) >= low:
        raise ValueError(f"{name} == {value}, must be a number >= {low:g}.")
    if float(value) > high:
        raise ValueError(f"{name} == {value}, must be <= {high:g}.")

"""Minimum and maximum of numbers or arrays; numbers stay Python floats."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def is_finite(value: Any) -> bool:
    """Return whether a number, or all of an array, is finite."""
    return bool(np.isfinite(value).all()) if isinstance(value, np.ndarray) else math.isfinite(value)


def minimum(first: Any, second: Any) -> Any:
    """Return the smaller of two numbers, elementwise if one of them is an array."""
    if isinstance(first, np.ndarray) or isinstance(second, np.ndarray):
        return np.minimum(first, second)
    return min(first, second)


def maximum(first: Any, second: Any) -> Any:
    """Return the larger of two numbers, elementwise if one of them is an array."""
    if isinstance(first, np.ndarray) or isinstance(second, np.ndarray):
        return np.maximum(first, second)
    return max(first, second)

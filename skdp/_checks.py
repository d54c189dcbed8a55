"""Checks of numbers, options and lengths: one wording for all errors about parameters."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from sklearn.utils import check_consistent_length

_Closed = Literal["both", "left", "right", "neither"]

#: Doubles hold all integers up to here.
_LARGEST_COUNT = 2**53


#: Largest public bound in units of rows, targets, weights or coefficients; one over it is the
#: smallest. Fourth powers of quotients of two bounds are then far from the ends of doubles.
LARGEST_UNIT = 1e30


class InvalidTypeError(TypeError, ValueError):
    """A parameter of the wrong type; both errors, as in scikit-learn."""


def shown(value: Any) -> str:
    """Return ``repr(value)`` for a message, also for integers that are too long for one."""
    try:
        return repr(value)
    except ValueError:  # sys.set_int_max_str_digits
        if isinstance(value, int):
            return f"an integer of {value.bit_length()} bits"
        return f"a {type(value).__name__} with an integer that is too long"


def check_real(
    name: str,
    value: Any,
    low: float = -math.inf,
    high: float = math.inf,
    *,
    closed: _Closed = "both",
) -> None:
    """Raise InvalidTypeError or ValueError unless `value` is a real number in a range.

    A bool is no number. The `closed` ends of [low, high] belong to the range.
    """
    if type(value) is not float and (  # most are floats; the check of others takes longer
        isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real)
    ):
        raise InvalidTypeError(f"{name} must be a real number, got {shown(value)}.")
    try:
        number = float(value)
    except OverflowError:  # of an integer
        number = -math.inf if value < 0 else math.inf
    left, right = closed in ("both", "left"), closed in ("both", "right")
    is_above = low <= number if left else low < number
    if not (is_above and (number <= high if right else number < high)):
        raise _out_of_range(name, number, low, high, left, right)


def _out_of_range(
    name: str, value: float, low: float, high: float, left: bool = True, right: bool = True
) -> ValueError:
    if high < math.inf:
        range_ = f"in {'[' if left else '('}{low:.10g}, {high:.10g}{']' if right else ')'}"
    else:
        range_ = f"{'>=' if left else '>'} {low:.10g}{'' if right else ' and finite'}"
    return ValueError(f"{name} == {shown(value)}, must be {range_}.")


def check_unit(name: str, value: Any, low: float = 1.0 / LARGEST_UNIT) -> None:
    """Raise as :func:`check_real` unless a bound lies within those in which all methods work."""
    check_real(name, value, low, LARGEST_UNIT)


def check_pair(name: str, pair: Any, low: float, high: float) -> tuple[float, float]:
    """Return the ends of a public range, or raise: they must increase, in [low, high]."""
    if not isinstance(pair, tuple | list | np.ndarray) or len(pair) != 2:
        raise ValueError(f"{name} must be a pair (low, high), got {shown(pair)}.")
    for end in pair:
        check_real(f"an end of {name}", end, low, high)
    if not pair[0] < pair[1]:
        raise ValueError(f"{name} == {shown(pair)}, must be low < high.")
    return float(pair[0]), float(pair[1])


def check_positive(**parameters: Any) -> None:
    """Raise as :func:`check_real` unless all parameters are finite and > 0."""
    for name, value in parameters.items():
        if not (type(value) is float and 0.0 < value < math.inf):  # as most are
            check_real(name, value, 0.0, closed="neither")


def check_non_negative(**parameters: Any) -> None:
    """Raise as :func:`check_real` unless all parameters are finite and >= 0."""
    for name, value in parameters.items():
        check_real(name, value, 0.0, closed="left")


def check_count(
    name: str, value: Any, low: int = 1, high: float = math.inf, *, largest: float = _LARGEST_COUNT
) -> None:
    """Raise InvalidTypeError or ValueError unless `value` is an integer in [low, high].

    `largest` is infinite for counts that nothing makes a float of.
    """
    if type(value) is not int and (  # as most are
        isinstance(value, bool) or not isinstance(value, numbers.Integral)
    ):
        raise InvalidTypeError(f"{name} must be an integer, got {shown(value)}.")
    value = int(value)
    if not low <= value <= high:
        raise _out_of_range(name, value, low, high)
    if value > largest:
        raise ValueError(f"{name} == {shown(value)}, must be at most 2^53.")


def check_option(name: str, value: Any, options: Sequence[str]) -> None:
    """Raise ValueError unless `value` is one of some strings."""
    if not (isinstance(value, str) and value in options):
        raise ValueError(f"{name} == {shown(value)}, must be one of {list(options)}.")


def check_bool(name: str, value: Any) -> None:
    """Raise InvalidTypeError unless `value` is True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise InvalidTypeError(f"{name} == {shown(value)}, must be True or False.")


def check_lengths(*arrays: Any) -> None:
    """Raise unless arrays have the same length; None is left out, and no value is quoted."""
    try:
        check_consistent_length(*arrays)
    except TypeError:  # goes on with what has no length
        raise InvalidTypeError(
            "X must have one row per record, and y and groups one entry; got a single value."
        ) from None

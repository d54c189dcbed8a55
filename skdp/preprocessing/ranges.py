"""Declared ranges of features: their forms, their checks, and the map of each range to [-1, 1]."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skdp._checks import shown
from skdp._records import validate_array


def check_ranges(ranges: Any) -> None:
    """Check what can be checked before the columns are known."""
    if not isinstance(ranges, Mapping):
        _as_pairs(ranges)


def ranges_per_feature(transformer: Any) -> np.ndarray:
    """Return `ranges` in the order of the columns that a transformer saw, (n_features, 2)."""
    ranges, n_features = transformer.ranges, transformer.n_features_in_
    if isinstance(ranges, Mapping):
        if not hasattr(transformer, "feature_names_in_"):
            raise ValueError(
                "ranges is a dict of column names, but the columns of X are not named by "
                "strings. Pass a data frame, or one (low, high) row per feature."
            )
        names = list(transformer.feature_names_in_)
        missing = [name for name in names if name not in ranges]
        unknown = [name for name in ranges if name not in names]
        if missing or unknown:
            raise ValueError(
                f"ranges must name the columns of X. Without a range: {missing}; "
                f"not in X: {unknown}."
            )
        return _as_pairs([ranges[name] for name in names], names)
    pairs = _as_pairs(ranges)
    if np.ndim(ranges) == 1:
        return np.repeat(pairs, n_features, axis=0)
    if len(pairs) != n_features:
        raise ValueError(f"ranges has {len(pairs)} rows, but X has {n_features} features.")
    return pairs


def fill_values_per_feature(transformer: Any) -> np.ndarray:
    """Return `fill_value` of a transformer in the order of its columns; NaN where it names none."""
    value, n_features = transformer.fill_value, transformer.n_features_in_
    if isinstance(value, Mapping):
        names = list(getattr(transformer, "feature_names_in_", ()))
        unknown = [name for name in value if name not in names]
        if unknown:
            raise ValueError(f"fill_value names columns that are not in X: {unknown}.")
        numbers = [value.get(name, np.nan) for name in names]
        given = list(value.values())
    else:
        numbers = given = value
    try:
        values = np.asarray(numbers, dtype=np.float64)
        is_finite = np.isfinite(np.asarray(given, dtype=np.float64)).all()
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"fill_value must hold numbers, got {shown(value)}.") from error
    if not is_finite or values.shape not in ((), (n_features,)):
        raise ValueError(
            f"fill_value must be a finite number, or one for each of the {n_features} features, "
            f"got {shown(value)}."
        )
    return np.broadcast_to(values, (n_features,))


def hint_of_ends(given: Any) -> str:
    """Say how ranges are written, if all lower ends and then all upper ends were given."""
    with contextlib.suppress(ValueError):  # of sequences of several lengths
        ends = np.asarray(given)
        if ends.ndim == 2 and len(ends) == 2 and ends.dtype.kind in "iuf":
            return " Ranges are one (low, high) pair per column: list(zip(lower, upper))."
    return ""


def to_unit_interval(X: np.ndarray, ranges: np.ndarray) -> np.ndarray:
    """Clip each column to its range and map the range to [-1, 1]; keeps the dtype."""
    low, high = ranges.T
    middle, half = middle_and_half(low, high)
    out = (np.clip(X, low, high) - middle) / half
    return np.clip(out, -1.0, 1.0).astype(X.dtype, copy=False)


def middle_and_half(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Middle and half-width of ranges, without overflow."""
    return 0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low


def validated_inverse(transformer: Any, X: Any) -> np.ndarray:
    """Return rows that a fitted transformer may have made, for its ``inverse_transform``."""
    check_is_fitted(transformer)
    X = validate_array(X)
    if X.shape[1] != transformer.n_features_in_:
        raise ValueError(
            f"X has {X.shape[1]} features, but {type(transformer).__name__} was fitted with "
            f"{transformer.n_features_in_}."
        )
    return X


def _as_pairs(ranges: Any, names: list[str] | None = None) -> np.ndarray:
    """Checked ranges, shape (n, 2) in float64; `names` is for the message."""
    try:
        pairs = np.atleast_2d(np.array(ranges, dtype=np.float64))
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            f"ranges must hold pairs (low, high) of numbers, got {shown(ranges)}."
        ) from error
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise ValueError(
            "ranges must be a pair (low, high), an array of shape (n_features, 2) or a dict of "
            f"pairs; got the shape {np.shape(ranges)}.{hint_of_ends(ranges)}"
        )
    low, high = pairs.T
    _, half = middle_and_half(low, high)
    bad = ~(np.isfinite(low) & np.isfinite(high) & (low < high) & (half > 0))
    if bad.any():
        at = int(np.argmax(bad))
        where = f" of {names[at]!r}" if names else f" of feature {at}" if len(pairs) > 1 else ""
        raise ValueError(
            f"In ranges: the range{where} is ({low[at]:g}, {high[at]:g}), must be finite "
            f"with low < high.{hint_of_ends(ranges)}"
        )
    return pairs

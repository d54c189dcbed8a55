"""Validation of records: errors come before anything is computed and quote no value of a record."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn import config_context
from sklearn.utils.validation import validate_data

#: Errors of scikit-learn and numpy that go on with values of the records, and what is said instead.
_QUOTING = {
    "could not convert string to float": "X must be numeric, and so must y of a regressor.",
    "Complex data not supported": "X and y must be real.",
    "Expected 2D array, got 1D array instead": "Reshape your data: X has one row per record.",
    "Expected 2D array, got scalar array instead": "Reshape your data: X has one row per record.",
}
_FILL = (
    "Fill missing features with a public constant, such as "
    "SimpleImputer(strategy='constant', fill_value=...), or leave such records out; means and "
    "medians of the records are not private."
)


def validate_records(estimator: Any, X: Any, y: Any = "no_validation", **options: Any) -> Any:
    """Validate with scikit-learn's ``validate_data``; refuse NaN in any configuration.

    `options` are those of ``validate_data``; the result is X or, with a y, (X, y). The message of
    the ValueError for invalid input holds no value of a record.
    """
    options = {"dtype": [np.float64, np.float32], **options}
    # casts and sums of extreme entries must not raise or warn for some records
    silent = np.errstate(all="ignore")
    with refuse_without_values(), config_context(assume_finite=False), silent:
        if isinstance(y, str):
            return validate_data(estimator, X, **options)
        X, y = validate_data(estimator, X, y, **options)
        if options.get("y_numeric"):
            y = y.astype(np.float64, copy=False)
            if not np.isfinite(y).all():  # None in an array of objects becomes NaN here
                raise ValueError("Input y contains NaN or infinity.")
        return X, y


@contextlib.contextmanager
def refuse_without_values() -> Iterator[None]:
    """Raise errors about input without the values that they quote."""
    try:
        yield
    except OverflowError:
        raise ValueError("X and y must be numbers of double precision.") from None
    except ValueError as error:
        text = str(error)
        for problem, remedy in _QUOTING.items():
            if text.startswith(problem):
                raise ValueError(f"{problem}. {remedy}") from None
        first = text.split("\n", 1)[0]
        if first.startswith("Input ") and "contains NaN" in first:
            remedy = "Leave such records out." if first.startswith("Input y ") else _FILL
            raise ValueError(f"{first} {remedy}") from None
        raise


def take_rows(X: Any, rows: np.ndarray) -> Any:
    """Return some rows of a frame, a matrix or a list of lists."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    if issparse(X):
        X = X.tocsr()
    return X[rows] if hasattr(X, "shape") else np.asarray(X)[rows]

"""Validation of records: errors come before anything is computed and quote no value of a record."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
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
    check_sparse_format(X)
    with refuse_without_values(), config_context(assume_finite=False), silent:
        if isinstance(y, str):
            X = validate_data(estimator, X, **options)
            check_sparse_format(X)
            return X
        X, y = validate_data(estimator, X, y, **options)
        check_sparse_format(X)
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
    if sp.issparse(X):
        X = X.tocsr()
    return X[rows] if hasattr(X, "shape") else np.asarray(X)[rows]


def check_sparse_format(X: Any) -> None:
    """Raise ValueError unless all indices of a sparse matrix are within its shape.

    SciPy's constructors do not look at them. Its compiled loops read and write where they point,
    which ends the process at best. X is not changed: ``X.check_format()`` removes spare entries.
    """
    if sp.issparse(X) and not _is_consistent(X):
        raise ValueError(
            "X is an inconsistent sparse matrix: indices or pointers are out of range. "
            "X.check_format(full_check=True) says which."
        )


def _is_consistent(X: Any) -> bool:
    if X.format in ("csr", "csc", "bsr"):
        size, width = X.shape if X.format != "csc" else X.shape[::-1]
        if X.format == "bsr":
            size, width = size // X.blocksize[0], width // X.blocksize[1]
        pointers, indices = X.indptr, X.indices
        return (
            _are_integers(pointers, indices)
            and len(pointers) == size + 1
            and pointers[0] == 0
            and bool((pointers[1:] >= pointers[:-1]).all())
            and pointers[-1] <= min(len(indices), len(X.data))
            and _is_within(indices, width)
        )
    if X.format == "coo":
        is_paired = len(X.row) == len(X.col) == len(X.data)
        are_within = _is_within(X.row, X.shape[0]) and _is_within(X.col, X.shape[1])
        return _are_integers(X.row, X.col) and is_paired and are_within
    return True  # other formats are checked once they are converted


def _are_integers(*arrays: Any) -> bool:
    return all(array.ndim == 1 and array.dtype.kind == "i" for array in arrays)


def _is_within(indices: np.ndarray, size: int) -> bool:
    return not indices.size or bool(indices.min() >= 0 and indices.max() < size)

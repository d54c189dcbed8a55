"""Validation of records: errors come before anything is computed and quote no value of a record."""

from __future__ import annotations

import contextlib
import numbers
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn import config_context
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

#: Errors of scikit-learn and numpy that go on with values of the records, and what is said instead.
_QUOTING = {
    "could not convert string to float": "X must be numeric, and so must y of a regressor.",
    "Complex data not supported": "X and y must be real.",
    "Expected 2D array, got 1D array instead": "Reshape your data: X has one row per record.",
    "Expected 2D array, got scalar array instead": "Reshape your data: X has one row per record.",
}
_FILL = (
    "Fill missing features with a public constant, such as fill_value of BoundedScaler or missing "
    "of a column of TableEncoder, or leave such records out; means and medians of the records are "
    "not private, and SimpleImputer keeps the type of the columns."
)

_TEXT = (
    "is not numeric: encode text by declared categories, such as OneHotEncoder(categories=[...]), "
    "or all columns of a frame by skdp.TableEncoder(columns)."
)
_HUGE = "holds an integer beyond double precision."
_NO_PERSON = "user_ids holds missing values: every record belongs to somebody."
#: Blank text, and what ``str`` makes of missing values.
_NO_IDS = frozenset({"", "nan", "None", "NaT", "<NA>"}) | {b"", b"nan", b"None", b"NaT", b"<NA>"}
_DATES = "holds dates or times: turn them into numbers, such as days since a fixed day."


def validate_records(estimator: Any, X: Any, y: Any = "no_validation", **options: Any) -> Any:
    """Validate with scikit-learn's ``validate_data``; refuse NaN in any configuration.

    `options` are those of ``validate_data``; the result is X or, with a y, (X, y). The message of
    the ValueError for invalid input holds no value of a record.
    """
    options = {"dtype": [np.float64, np.float32], **options}
    # casts and sums of extreme entries must not raise or warn for some records
    silent = np.errstate(all="ignore")
    check_kind(X)
    if options["dtype"] is not None:
        _refuse_dates(X)
    with _naming_the_column(X, options), silent:
        has_y, is_numeric = not isinstance(y, str), options.get("y_numeric", False)
        if has_y:
            refuse_kinds("y", y, "mMc" if is_numeric else "cS")
        valid = validate_data(estimator, X, y, **options)
        X, y = valid if has_y else (valid, None)
        check_sparse_format(X)
        if not has_y:
            return X
        if is_numeric:
            y = y.astype(np.float64, copy=False)
            if not np.isfinite(y).all():  # None in an array of objects becomes NaN here
                raise ValueError("Input y contains NaN or infinity.")
        elif y.dtype == object and not all(isinstance(label, str) for label in y):
            # as scikit-learn, whose scores refuse such labels
            raise ValueError(
                "Unknown label type: unknown. y is an array of objects that are not all strings: "
                "convert it, such as by y.astype(int), y.astype(bool) or y.astype(str)."
            )
        return X, y


_KINDS = {"m": "times", "M": "dates or times", "c": "complex numbers", "S": "bytes", "U": "text"}


def refuse_kinds(name: str, values: Any, kinds: str) -> None:
    """Raise ValueError for masked values, and for arrays of some of numpy's kinds."""
    if np.ma.is_masked(values):
        raise ValueError(f"{name} holds missing values: some entries are masked.")
    kind = ""
    with contextlib.suppress(Exception):  # no array: whoever reads it says so
        kind = np.asarray(values).dtype.kind
    if kind and kind in kinds:
        what = "Complex data" if kind == "c" else "They are"  # as scikit-learn says it
        raise ValueError(f"{name} holds {_KINDS[kind]}. {what} not supported.")


def validate_array(X: Any) -> np.ndarray:
    """Return numbers that no estimator has seen, checked as by :func:`validate_records`."""
    options = {"dtype": [np.float64, np.float32]}
    _refuse_dates(X)
    with _naming_the_column(X, options):
        return np.asarray(check_array(X, input_name="X", **options))


@contextlib.contextmanager
def _naming_the_column(X: Any, options: dict[str, Any]) -> Iterator[None]:
    """Refuse missing values in any configuration, and name the column of X that is at fault."""
    try:
        with refuse_without_values(), config_context(assume_finite=False):
            yield
    except (TypeError, ValueError, OverflowError) as error:
        first = str(error)
        fault = None
        if options["dtype"] is not None and not first.startswith("Input y "):
            with contextlib.suppress(Exception):  # X is no table: the error says so
                fault = _fault(X, options.get("ensure_all_finite", True) is True)
        if fault is None:
            raise
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{first} {fault}") from None


def _refuse_dates(X: Any) -> None:
    """Raise ValueError for columns of dates, which numpy may turn into huge numbers of its own."""
    types = getattr(X, "dtypes", None) if hasattr(X, "columns") else [getattr(X, "dtype", None)]
    for j, dtype in enumerate(types if types is not None else []):
        is_date = dtype.is_temporal if hasattr(dtype, "is_temporal") else None
        if is_date() if is_date else getattr(dtype, "kind", "") in ("m", "M"):
            name = repr(list(X.columns)[j]) if hasattr(X, "columns") else j
            raise ValueError(f"X must be numeric. Column {name} {_DATES}")


def _fault(X: Any, refuse_nan: bool) -> str | None:
    """Say what is wrong with the first column that is not of finite numbers; no value is named."""
    if sp.issparse(X):
        entries = X.tocoo()
        wrong = ~np.isfinite(entries.data)
        return f"It is in column {entries.col[wrong].min()}." if wrong.any() else None
    names = list(X.columns) if hasattr(X, "columns") else None
    table = X if hasattr(X, "shape") else np.asarray(X, dtype=object)
    if len(table.shape) != 2:
        return None
    for j in range(table.shape[1]):
        column = table if names is None else X.iloc[:, j] if hasattr(X, "iloc") else X[names[j]]
        values = np.asarray(column[:, j] if names is None else column)
        problem = _problem(values, refuse_nan)
        if problem:
            return f"Column {j if names is None else repr(names[j])} {problem}"
    return None


def _problem(values: np.ndarray, refuse_nan: bool) -> str | None:
    if values.dtype.kind in "mM":
        return _DATES
    if values.dtype.kind not in "biuf":
        entries = values.astype(object)
        try:
            values = np.array([np.nan if is_missing(v) else float(v) for v in entries])
        except (TypeError, ValueError):
            return _DATES if any(hasattr(v, "year") for v in entries) else _TEXT
        except OverflowError:
            return _HUGE
    if np.isinf(values).any():
        return "contains infinity."
    return "contains NaN." if refuse_nan and np.isnan(values).any() else None


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, NaT or pandas' NA."""
    try:
        return value is None or bool(value != value)
    except TypeError:  # NA has no truth value
        return True
    except ValueError:  # of arrays
        return False


def distinct_persons(user_ids: Any, n_samples: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted ids of persons, and a position in them per record; refuse other kinds."""
    if not hasattr(user_ids, "__len__"):
        raise ValueError("user_ids must hold one id for each record, or name a column of X.")
    ids = np.asarray(user_ids, dtype=object if isinstance(user_ids, list | tuple) else None)
    if ids.ndim != 1 or len(ids) != n_samples:
        raise ValueError("user_ids must be one-dimensional, with one id for each row of X.")
    if ids.dtype.kind == "T":  # strings of any length, which may be missing
        ids = ids.astype(object)
    is_known = ids.dtype.kind in "iuUS"
    if ids.dtype == object:
        kinds = {type(each) for each in ids}
        are_whole = bool not in kinds and all(issubclass(each, numbers.Integral) for each in kinds)
        is_known = are_whole or all(issubclass(kind, str) for kind in kinds)
        if are_whole:  # as objects where 64 bits do not suffice
            ids = np.array([int(each) for each in ids], dtype=object)
            with contextlib.suppress(OverflowError):
                ids = ids.astype(np.int64)
    may_miss = ids.dtype.kind in "OfcmM"
    if np.ma.is_masked(user_ids) or (may_miss and any(map(is_missing, ids))):
        raise ValueError(_NO_PERSON)
    if not is_known:
        raise ValueError(
            "user_ids must be integers or strings, all of one kind: convert them, such as by "
            "`.astype(int)`."
        )
    found, codes = np.unique(ids, return_inverse=True)
    texts = (each.strip() for each in found.tolist() if isinstance(each, str | bytes))
    if not _NO_IDS.isdisjoint(texts):
        raise ValueError(_NO_PERSON)
    return found, codes.reshape(-1)


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
            first = first.replace("Input contains", "Input y contains").rstrip(".")  # of objects
            remedy = _FILL if first.startswith("Input X ") else "Leave such records out."
            raise ValueError(f"{first}. {remedy}") from None
        raise


def take_rows(X: Any, rows: np.ndarray) -> Any:
    """Return some rows of a frame, a matrix or a list of lists."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    if sp.issparse(X):
        X = X.tocsr()
    return X[rows] if hasattr(X, "shape") else np.asarray(X)[rows]


def check_kind(X: Any) -> None:
    """Raise an error for what is no table at all, and for tables that cannot be read."""
    if X is None or isinstance(X, type) or callable(X):
        kind = "a class" if isinstance(X, type) else f"a {type(X).__name__}"
        raise TypeError(f"X must be a table of records, got {'None' if X is None else kind}.")
    if hasattr(X, "collect") and hasattr(X, "explain"):
        raise TypeError("X is a lazy frame: call its method collect() before.")
    check_sparse_format(X)


def check_sparse_format(X: Any) -> None:
    """Raise ValueError unless X has two dimensions and all indices are within its shape.

    SciPy's constructors do not look at them. Its compiled loops read and write where they point,
    which ends the process at best. X is not changed: ``X.check_format()`` removes spare entries.
    """
    if sp.issparse(X) and X.ndim != 2:
        raise ValueError(f"X must have 2 dimensions, got a sparse array of {X.ndim}.")
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
    if X.format == "lil":  # what a row lacks would be whatever is in memory
        return list(map(len, X.rows)) == list(map(len, X.data))
    return True  # other formats are checked once they are converted


def _are_integers(*arrays: Any) -> bool:
    return all(array.ndim == 1 and array.dtype.kind == "i" for array in arrays)


def _is_within(indices: np.ndarray, size: int) -> bool:
    return not indices.size or bool(indices.min() >= 0 and indices.max() < size)


def has_column(X: Any, name: str | None) -> bool:
    """Whether X is a data frame with a column of this name."""
    names = X.column_names if hasattr(X, "num_rows") else getattr(X, "columns", ())
    return name is not None and name in list(names)


def without_column(X: Any, name: str | None) -> Any:
    """Return a data frame without a column; X itself if it has none of this name."""
    if not has_column(X, name):
        return X
    return X.drop(columns=[name]) if hasattr(X, "iloc") else X.drop([name])

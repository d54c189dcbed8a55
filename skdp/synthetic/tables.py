"""Categorical tables as integer codes, and back: arrays, pandas and polars data frames.

No data frame library is imported: frames are taken apart and made by their own methods.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from skdp._checks import InvalidTypeError
from skdp._records import check_kind, is_missing, validate_records

Categories = tuple[tuple[Any, ...], ...]


def library_of(X: Any) -> str:
    """Return "pandas", "polars" or "numpy"."""
    module = type(X).__module__.partition(".")[0]
    is_frame = module in ("pandas", "polars") and hasattr(X, "columns")
    return module if is_frame else "numpy"


def validated(estimator: Any, X: Any, *, allow_nan: bool, reset: bool) -> Any:
    """Check the shape and the column names of a table; arrays are made of what is no frame."""
    check_kind(X)
    if library_of(X) != "numpy":
        validate_data(estimator, X, reset=reset, skip_check_array=True)
        if X.shape[0] == 0 or X.shape[1] == 0:
            raise ValueError(
                f"Found array with {X.shape[0]} sample(s) and {X.shape[1]} feature(s) "
                f"(shape={tuple(X.shape)}) while a minimum of 1 is required."
            )
        return X
    if isinstance(X, (list, tuple)):
        X = _object_array(X)
    finite = "allow-nan" if allow_nan else True
    return validate_records(estimator, X, dtype=None, ensure_all_finite=finite, reset=reset)


def _object_array(rows: Sequence[Any]) -> Any:
    """Make an array that keeps the types of a list of rows of strings or of mixed values."""
    array = np.asarray(rows, dtype=object)
    try:
        numeric = np.asarray(rows)
    except ValueError:
        return array
    return numeric if numeric.dtype.kind in "biufc" else array


def columns_of(X: Any) -> list[list[Any]]:
    """Return the values of each column as Python objects."""
    if library_of(X) == "pandas":
        return [X.iloc[:, j].tolist() for j in range(X.shape[1])]
    if library_of(X) == "polars":
        return [column.to_list() for column in X.get_columns()]
    return [X[:, j].tolist() for j in range(X.shape[1])]


def array_of_objects(values: Sequence[Any]) -> np.ndarray:
    """Return a 1-d array of values of any kind, also of sequences."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def has_missing(categories: Categories) -> bool:
    """Whether a missing value is among the categories of a column."""
    return any(is_missing(value) for values in categories for value in values)


def refuse_floats(X: Any, names: Sequence[Any]) -> None:
    """Raise ValueError for columns of fractional numbers, whose values tell the records."""
    for name, column in zip(names, columns_of(X), strict=True):
        if any(isinstance(value, float) and value % 1.0 for value in column if value == value):
            raise ValueError(
                f"Column {name!r} of X holds fractional numbers, whose values would be taken as "
                "categories: divide it into bins with public edges, or declare `categories`."
            )


def distinct_values(X: Any) -> list[set[Any]]:
    """Collect the values of each column; this is not private."""
    found = []
    for j, column in enumerate(columns_of(X)):
        try:
            values = set(column)
        except TypeError:
            raise InvalidTypeError(f"Column {j} of X holds values that are not hashable.") from None
        if any(is_missing(value) for value in values):
            raise ValueError(
                f"Column {j} of X contains NaN or None: declare `categories` with None among them, "
                "or fill missing values with a public constant."
            )
        found.append(values)
    return found


def ordered_categories(columns: Iterable[set[Any]]) -> Categories:
    """Return values in increasing order; of mixed kinds, by their types."""
    found = []
    for values in columns:
        try:
            found.append(tuple(sorted(values)))
        except TypeError:
            found.append(tuple(sorted(values, key=lambda value: (str(type(value)), repr(value)))))
    return tuple(found)


def declared_categories(categories: Any, names: Sequence[Any]) -> Categories:
    """Match declared categories, a list or a dict of lists, with the columns of a table."""
    if isinstance(categories, Mapping):
        missing = [name for name in names if name not in categories]
        unknown = [name for name in categories if name not in set(names)]
        if missing or unknown:
            raise ValueError(
                f"categories must name the columns of X: missing {missing}, unknown {unknown}."
            )
        categories = [categories[name] for name in names]
    elif isinstance(categories, (str, bytes)) or not hasattr(categories, "__iter__"):
        raise InvalidTypeError(
            "categories must be 'auto', a list with the categories of each column, or a dict of "
            f"such lists by column name; got {type(categories).__name__}."
        )
    lists = []
    for values in categories:
        if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
            raise InvalidTypeError("categories must hold one list per column.")
        lists.append(tuple(values.tolist() if hasattr(values, "tolist") else values))
    if len(lists) != len(names):
        raise ValueError(
            f"categories has {len(lists)} lists, X has {len(names)} columns: declare one list per "
            "column."
        )
    for name, values in zip(names, lists, strict=True):
        keys = [None if is_missing(value) else value for value in values]
        try:
            n_distinct = len(set(keys))
        except TypeError:
            raise InvalidTypeError(f"categories of column {name!r} must be hashable.") from None
        if not values or n_distinct != len(values):
            raise ValueError(f"categories of column {name!r} must be distinct, and at least one.")
    return tuple(lists)


def encode(X: Any, categories: Categories, names: Sequence[Any]) -> np.ndarray:
    """Replace values by the positions of their categories; errors about others name no value."""
    codes = np.empty((X.shape[0], len(categories)), dtype=np.intp)
    for j, (column, values) in enumerate(zip(columns_of(X), categories, strict=True)):
        index = {value: k for k, value in enumerate(values) if not is_missing(value)}
        try:
            found = map(index.get, column, repeat(-1))
            codes[:, j] = np.fromiter(found, dtype=np.intp, count=len(column))
        except TypeError:
            raise InvalidTypeError(
                f"Column {names[j]!r} of X holds values that are not hashable."
            ) from None
        unknown = np.flatnonzero(codes[:, j] < 0)
        missing = [k for k, value in enumerate(values) if is_missing(value)]
        are_missing = [is_missing(column[i]) for i in unknown]
        if missing and all(are_missing):
            codes[unknown, j] = missing[0]
        elif any(are_missing) and not missing:
            raise ValueError(
                f"Column {names[j]!r} of X contains NaN or None: declare None among its "
                "`categories`, or fill missing values with a public constant."
            )
        elif unknown.size:
            raise ValueError(
                f"Column {names[j]!r} of X holds a value that is not among its `categories`. "
                "Declare all that are possible, or map the others to one of them before."
            )
    return codes


@dataclass(frozen=True)
class TableFormat:
    """How a table is made: the class, names and types of the one that was fitted."""

    library: str
    kind: type
    names: tuple[Any, ...]
    #: One per column, with the declared categories if it lists any; of arrays a single one.
    dtypes: tuple[Any, ...]

    @classmethod
    def of(cls, X: Any, categories: Categories) -> TableFormat:
        """Take the format of a validated table.

        Types of arrays and frames are public. They are kept where they hold all categories.
        """
        library = library_of(X)
        if library == "numpy":
            values = tuple(value for column in categories for value in column)
            kept = X.dtype
            if kept.kind in "SU":  # wide enough for all categories
                is_text = all(isinstance(value, str | bytes) for value in values)
                kept = np.asarray(values).dtype if is_text else np.dtype(object)
            elif kept.kind in "biufO":
                kept = _declared_dtype(kept, values)
            return cls(library, np.ndarray, tuple(range(X.shape[1])), (kept,))
        dtypes = X.dtypes.tolist() if library == "pandas" else list(X.dtypes)
        pairs = zip(dtypes, categories, strict=True)
        kept = tuple(_column_dtype(type(X), dtype, values) for dtype, values in pairs)
        return cls(library, type(X), tuple(X.columns), kept)

    def decode(self, codes: np.ndarray, categories: Categories) -> Any:
        """Make a table from codes."""
        pairs = enumerate(categories)
        columns = [array_of_objects(values)[codes[:, j]] for j, values in pairs]
        if self.library == "numpy":
            return np.stack(columns, axis=1).astype(self.dtypes[0])
        if self.library == "polars":
            schema = dict(zip(self.names, self.dtypes, strict=True))
            data = {name: c.tolist() for name, c in zip(self.names, columns, strict=True)}
            return self.kind(data, schema=schema)
        frame = self.kind(dict(enumerate(columns)))
        frame = frame.astype(dict(enumerate(self.dtypes)))
        frame.columns = list(self.names)
        return frame


def _column_dtype(kind: type, dtype: Any, values: tuple[Any, ...]) -> Any:
    """Return the type of a column of a frame: that of the fitted one, if all categories have it.

    Whether an integer column becomes one of floats may depend on a record. So the declared
    categories decide which of them it is, and the fitted column only about its width.
    """
    present = [value for value in values if not is_missing(value)]
    name = type(dtype).__name__
    if name in ("CategoricalDtype", "Enum"):  # the categories that it lists may be of the records
        options = {"ordered": dtype.ordered} if name == "CategoricalDtype" else {}
        return type(dtype)(present, **options)
    if isinstance(dtype, np.dtype):
        return _declared_dtype(dtype, values) if dtype.kind in "biufO" else dtype
    if name == "StringDtype" and not all(isinstance(value, str) for value in present):
        return np.dtype(object)
    if not _is_plain(dtype):
        return dtype
    options = {} if hasattr(kind, "iloc") else {"strict": False}
    try:
        column: Any = kind({"c": present}, **options)
        wanted = (column.convert_dtypes() if hasattr(column, "iloc") else column).dtypes[:1]
    except (TypeError, ValueError, OverflowError):  # of several kinds
        return dtype
    wanted = next(iter(wanted))
    if _kind(dtype) != _kind(wanted):
        return wanted
    try:
        held = column.astype(dtype) if hasattr(column, "iloc") else column.cast(dtype)
        is_same = columns_of(held)[0] == present
    except Exception:  # polars has errors of its own
        is_same = False
    return dtype if is_same else wanted


def _is_plain(dtype: Any) -> bool:
    """Whether a type of pandas or polars is of numbers, booleans or nothing but missing values."""
    if hasattr(dtype, "is_numeric"):
        return bool(dtype.is_numeric()) or str(dtype) in ("Boolean", "Null")
    return getattr(dtype, "kind", "") in tuple("biuf") and hasattr(dtype, "numpy_dtype")


def _kind(dtype: Any) -> str:
    """Return "integer", "float" or another name for a type of numbers of pandas or polars."""
    if hasattr(dtype, "is_integer"):
        for name in ("integer", "float"):
            if getattr(dtype, f"is_{name}")():
                return name
        return str(dtype)
    return {"i": "integer", "u": "integer", "f": "float"}.get(dtype.kind, str(dtype.kind))


def _declared_dtype(dtype: np.dtype[Any], values: tuple[Any, ...]) -> np.dtype[Any]:
    """Return the type of numpy for a column with these categories, as near to `dtype` as can be."""
    present, wanted = [value for value in values if not is_missing(value)], np.dtype(object)
    with suppress(ValueError, OverflowError):
        if not any(isinstance(value, str | bytes) for value in present):
            wanted = np.asarray(present).dtype
    if len(present) < len(values):
        wanted = np.dtype({"i": float, "u": float, "f": float}.get(wanted.kind, object))
    if wanted.kind not in "biuf" or not _holds(wanted, values):
        wanted = np.dtype(object)
    same = dtype.kind == wanted.kind or {dtype.kind, wanted.kind} == {"i", "u"}
    return dtype if same and _holds(dtype, values) else wanted


def _holds(dtype: np.dtype[Any], values: tuple[Any, ...]) -> bool:
    """Whether a type represents all values that are not missing exactly."""
    try:
        with np.errstate(all="ignore"):
            cast = array_of_objects(values).astype(dtype).tolist()
        return all(a == b or is_missing(b) for a, b in zip(cast, values, strict=True))
    except (OverflowError, TypeError, ValueError):
        return False

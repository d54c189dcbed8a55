"""Columns of tables of any library as numpy arrays.

No data frame library is imported: pandas, polars and pyarrow are known by their methods.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

#: The part of an ISO 8601 date that is read; time zones are dropped, so that times are local.
_ISO = re.compile(r"\s*(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d)?))?")


class Table:
    """Columns of a frame of pandas, polars or pyarrow, or of an array, by position.

    `names` are those of the columns, and None for arrays.
    """

    def __init__(self, X: Any) -> None:
        self.names: list[Any] | None = None
        self._read: Callable[[int, slice], Any] = lambda j, rows: X[rows, j]
        #: Return the type of column j in its library.
        self.dtype: Callable[[int], Any] = lambda j: X.dtype
        if _is_of_pandas(X):
            self.names = list(X.columns)
            self._read = lambda j, rows: _of_pandas(X.iloc[rows, j])
            self.dtype = lambda j: X.iloc[:, j].dtype
        elif hasattr(X, "get_columns"):
            self.names = list(X.columns)
            self._read = lambda j, rows: _of_polars(X.to_series(j)[rows])
            self.dtype = lambda j: X.to_series(j).dtype
        elif _is_of_arrow(X):
            self.names = list(X.column_names)
            self._read = lambda j, rows: _of_arrow(X.column(j)[rows])
            self.dtype = lambda j: X.schema.field(j).type
        self.n_rows, self.n_columns = (int(size) for size in X.shape)

    def column(self, j: int, rows: slice = slice(None)) -> np.ndarray:
        """Return values of column j: numbers, datetime64 or objects."""
        return np.asarray(self._read(j, rows))

    def position_of(self) -> dict[Any, int]:
        """Map the name of each column to its position; names that occur twice are refused."""
        names = self.names or []
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            raise ValueError(f"X has two columns named {twice[0]!r}.")
        return {name: j for j, name in enumerate(names)}


def _is_of_pandas(X: Any) -> bool:
    return hasattr(X, "iloc") and hasattr(X, "columns")


def _is_of_arrow(X: Any) -> bool:
    return hasattr(X, "column_names") and hasattr(X, "num_rows")


def is_frame(X: Any) -> bool:
    """Whether X has named columns."""
    return _is_of_pandas(X) or _is_of_arrow(X) or hasattr(X, "get_columns")


def _of_pandas(series: Any) -> Any:
    dtype = series.dtype
    if isinstance(dtype, np.dtype):
        return series.to_numpy()
    kind = getattr(dtype, "kind", "O")
    if kind == "M":
        if getattr(series.dt, "tz", None) is not None:
            series = series.dt.tz_localize(None)
        return series.to_numpy(dtype="datetime64[s]")
    if kind in "iuf" and hasattr(dtype, "numpy_dtype"):
        if not series.hasnans:
            return series.to_numpy(dtype=dtype.numpy_dtype)
        return series.to_numpy(dtype=np.float64, na_value=np.nan)
    return series.to_numpy(dtype=object)


def _of_polars(series: Any) -> Any:
    dtype = series.dtype
    if dtype.is_temporal() and getattr(dtype, "time_zone", None) is not None:
        series = series.dt.replace_time_zone(None)
    name = str(dtype)
    if name.startswith(("Int", "UInt", "Float", "Date", "Boolean")):
        return series.to_numpy()
    return objects(series.to_list())


def _of_arrow(column: Any) -> Any:
    name = str(column.type)
    if name.startswith(("bool", "int", "uint", "float", "double", "halffloat")):
        values = column.to_numpy() if hasattr(column, "chunks") else column.to_numpy(False)
        return values
    if name.startswith("date"):
        return np.array(column.to_pylist(), dtype="datetime64[s]")
    return objects(column.to_pylist())


def objects(values: Iterable[Any]) -> np.ndarray:
    """Return a 1-d array of Python objects, which may be sequences themselves."""
    return np.fromiter(values, dtype=object)


def numbers_of(values: np.ndarray) -> np.ndarray:
    """Return values as doubles: text is parsed, and what is no number is NaN."""
    if values.dtype.kind in "biuf":
        with np.errstate(all="ignore"):
            return values.astype(np.float64)
    if values.dtype.kind in "mMc":
        return np.full(len(values), np.nan)
    items = values.tolist()
    with contextlib.suppress(TypeError, ValueError, OverflowError):
        found = np.array(items, dtype=np.float64)
        if found.ndim == 1:  # no sequences of numbers
            return found
    return np.array([_number(value) for value in items], dtype=np.float64)


def _number(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return np.inf
    except Exception:  # of any object
        return np.nan


def dates_of(values: np.ndarray) -> np.ndarray:
    """Return values as datetime64[s]: ISO 8601 text is parsed, and what is no date is NaT."""
    if values.dtype.kind == "M":
        return values.astype("datetime64[s]")
    if values.dtype.kind in "biufmc":
        return np.full(len(values), "NaT", dtype="datetime64[s]")
    texts = [value if isinstance(value, str) else _iso(value) for value in values.tolist()]
    known = {text: date_of(text) for text in set(texts)}
    return np.array([known[text] for text in texts], dtype="datetime64[s]")


def _iso(value: Any) -> str:
    """Return the local time of a date, or nothing."""
    try:
        return str(value.isoformat()) if hasattr(value, "isoformat") else str(np.datetime64(value))
    except Exception:
        return ""


def date_of(text: str) -> np.datetime64:
    """Return the local time that ISO 8601 text begins with, or NaT."""
    found = _ISO.match(text)
    try:
        return np.datetime64("T".join(filter(None, found.groups())) if found else "NaT", "s")
    except ValueError:
        return np.datetime64("NaT", "s")


def level_text(value: Any) -> str:
    """Return the text by which categories match: 1, 1.0, " 1" and "1.0" are the same."""
    if isinstance(value, (float, np.floating)) and value == np.rint(value):
        value = int(value)
    text = str(value).strip()
    return re.sub(r"^(-?\d+)\.0+$", r"\1", text)

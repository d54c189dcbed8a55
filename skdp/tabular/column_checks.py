"""Declarations to fill in, and a comparison of declarations with records for the data holder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdp._runtime import without_warnings
from skdp.tabular.columns import (
    Category,
    Date,
    Declaration,
    Flag,
    Number,
    Text,
    present_values,
)
from skdp.tabular.frames import Table, dates_of, is_frame, numbers_of
from skdp.tabular.level_codes import level_codes
from skdp.tabular.matching import as_declaration, closest, has_categories, is_by_name, listed

#: Parts of the values from which on a finding is one.
_CLIPPED, _OTHER_UNIT, _IDENTIFIER = 0.02, 0.5, 0.5
#: Part of a range that has to hold more than nine tenths of the values.
_NARROW = 0.05
#: An identifier has more than this many values.
_MANY = 20
_SHOWN = 5
_WARNING = (
    "NOT PRIVATE: computed from the records, for the data holder's eyes only. Do not publish, and "
    "do not set ranges or values by it: look them up where they are defined."
)


def describe_columns(X: Any) -> str:
    """Write declarations to fill in, from names and types of the columns alone.

    Print the result and paste it. No value is looked at: two tables with the same names and types
    have the same description. What ``...`` stands for is to be known without the records.

    Parameters
    ----------
    X : data frame or ndarray of shape (n_samples, n_columns)
        Only names and types of its columns are read.

    Returns
    -------
    str
        Python code with ``...`` where you know what is public.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp.tabular import describe_columns
    >>> frame = pd.DataFrame({"age": [31, 25], "vip": [True, False], "job": ["cook", "clerk"]})
    >>> print(describe_columns(frame.astype({"job": object})))
    columns = {
        'age': (..., ...),  # int64; or [...]
        'vip': bool,  # bool
        'job': [...],  # object; or Date(..., ...), Text()
    }
    """
    table = Table(X if is_frame(X) or hasattr(X, "dtype") else np.asarray(X))
    lines = []
    for j in range(table.n_columns):
        declared, note = _guess(table.dtype(j))
        key = "" if table.names is None else f"{table.names[j]!r}: "
        lines.append(f"    {key}{declared},  # {note}")
    start, end = ("columns = [", "]") if table.names is None else ("columns = {", "}")
    return "\n".join([start, *lines, end])


def _guess(dtype: Any) -> tuple[str, str]:
    """Return a declaration for a type of a column, and a comment."""
    if has_categories(dtype):
        note = "of the column's type; public if that was written down without the records"
        return repr(list(dtype.categories)), note
    name = str(dtype)
    lower = name.lower()
    if lower.startswith("bool"):
        return "bool", name
    if lower.startswith(("date", "timestamp")):
        return "Date(..., ...)", name
    if lower.startswith(("int", "uint")):
        return "(..., ...)", f"{name}; or [...]"
    if lower.startswith(("float", "double", "decimal", "halffloat")):
        return "(..., ...)", name
    return "[...]", f"{name}; or Date(..., ...), Text()"


@dataclass(frozen=True)
class ColumnFinding:
    """Something to look at in a column.

    Attributes
    ----------
    column : object
        Its name, or its position.
    kind : str
        "lacking", "undeclared", "declaration", "target", "missing", "unread", "infinity",
        "clipped", "narrow", "unknown", "never", "constant" or "identifier".
    text : str
    """

    column: Any
    kind: str
    text: str


@dataclass(frozen=True, repr=False)
class ColumnReport:
    """Findings of :func:`check_columns`. They are not private.

    Attributes
    ----------
    rows : tuple of ColumnFinding
    """

    rows: tuple[ColumnFinding, ...]

    def __repr__(self) -> str:
        width = max((len(str(row.column)) for row in self.rows), default=0)
        lines = [f"  {row.column!s:<{width}}  {row.text}" for row in self.rows]
        return "\n".join([_WARNING, *(lines or ["  no findings"])])


def check_columns(X: Any, columns: Any, *, target: Any = None) -> ColumnReport:
    """Compare declarations with the records, for the data holder alone.

    **The findings are not private**, and no budget is charged for them. They find columns in other
    units than declared, categories that are spelt in another way, and values that no declaration
    reads. Ranges that are then adapted to the records are measured and not declared: correct what is
    wrong by what is known without them.

    Parameters
    ----------
    X : data frame or array-like of shape (n_samples, n_columns)
        The records.
    columns : dict of {name: declaration}, list of declarations, or pair
        As of :class:`TableEncoder`.
    target : object, default=None
        Name of the column of the targets, which is no feature.

    Returns
    -------
    ColumnReport
        Its `rows`; ``print`` shows them.

    See Also
    --------
    skdp.inspection.check_pipeline : The same for all steps of a pipeline.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp.tabular import check_columns
    >>> frame = pd.DataFrame({"age": [310, 250, 40, 380], "job": ["admin", "cook", "cook", "clerk"]})
    >>> print(check_columns(frame, {"age": (18, 90), "job": ["admin.", "cook", "clerk"]}))
    NOT PRIVATE: computed from the records, for the data holder's eyes only. Do not publish, and do not set ranges or values by it: look them up where they are defined.
      age  75 % outside of the range: another unit?
      job  25 % in no declared category, mostly 'admin' (did you mean 'admin.'?)
      job  declared, but no record has it: 'admin.'
    """  # noqa: E501
    if not is_frame(X):
        X = X if hasattr(X, "dtype") else np.array(X, dtype=object)
    with without_warnings():
        return ColumnReport(tuple(_findings(Table(X), columns, target)))


def _findings(table: Table, columns: Any, target: Any) -> Iterator[ColumnFinding]:
    position = table.position_of() if table.names is not None else {}
    if is_by_name(columns):
        left = [name for name in position if name not in columns and name != target]
        for name in columns:
            if name not in position:
                yield ColumnFinding(name, "lacking", f"declared, but not in X{closest(name, left)}")
        for name in left:
            near = closest(name, [n for n in columns if n not in left])
            yield ColumnFinding(name, "undeclared", f"in X, but not declared{near}")
        pairs = [(name, position[name], each) for name, each in columns.items() if name in position]
    else:
        names = table.names or [f"x{j}" for j in range(table.n_columns)]
        given = listed(columns)
        if given is not None and len(given) != table.n_columns:
            text = f"{len(given)} declarations for {table.n_columns} columns"
            yield ColumnFinding("columns", "lacking", text)
        given = given or [columns] * table.n_columns
        pairs = [(name, j, each) for j, (name, each) in enumerate(zip(names, given, strict=False))]
    for name, j, each in pairs:
        if target is not None and name == target:
            text = "is the target: a model of it predicts what it was given"
            yield ColumnFinding(name, "target", text)
        try:
            declared = as_declaration(each, f"Column {name!r}")
        except ValueError as error:
            text = str(error).removeprefix(f"Column {name!r}").lstrip(": ")
            yield ColumnFinding(name, "declaration", text)
            continue
        for kind, text in _of_column(declared, table.column(j)):
            yield ColumnFinding(name, kind, text)


_Found = Iterator[tuple[str, str]]


def _of_column(declared: Declaration, values: np.ndarray) -> _Found:
    is_category = isinstance(declared, Category) and not isinstance(declared, Flag)
    present = present_values(values, keeps_blank=is_category or isinstance(declared, Text))
    lost = 1.0 - len(present) / max(len(values), 1)
    if lost > 0 and not getattr(declared, "missing", True):
        yield "missing", f"{_percent(lost)} missing: declare missing=True"
    if not len(present):
        yield "constant", "no value is there"
    elif isinstance(declared, Category) and is_category:
        yield from _of_levels(declared, present, len(values))
    elif not isinstance(declared, Text):
        yield from _of_unread(declared, present, len(values))
        read = present[declared.is_read(present)]
        if isinstance(declared, Date) and "trend" in declared.parts:
            declared = declared.trend
            read = dates_of(read).astype(np.float64)
        if isinstance(declared, Number) and declared.low is not None:
            yield from _of_number(declared, numbers_of(read))


def _of_unread(declared: Declaration, present: np.ndarray, n: int) -> _Found:
    """Yield values that the declaration does not read."""
    unread = present[~declared.is_read(present)]
    what = "flags" if isinstance(declared, Flag) else "dates"
    if isinstance(declared, Number):
        found, what = numbers_of(unread), "numbers"
        if np.isinf(found).any():
            yield "infinity", "contains infinity"
        unread = unread[np.isnan(found)]
    if len(unread):
        text = f"{_percent(len(unread) / n)} are no {what}, such as {_most(unread)!r}: convert them"
        yield "unread", text


def _of_number(declared: Number, found: np.ndarray) -> _Found:
    if not len(found):
        return
    outside = float(np.mean((found < declared.low) | (found > declared.high)))
    if outside > _CLIPPED:
        unit = ": another unit?" if outside > _OTHER_UNIT else ", which are clipped"
        yield "clipped", f"{_percent(outside)} outside of the range{unit}"
    position = declared.position(found)
    if position.min() == position.max():
        yield "constant", "constant" + (" after clipping" if outside else "")
        return
    first, last = np.quantile(position, [0.05, 0.95])
    if last - first < 2.0 * _NARROW and outside <= _CLIPPED:
        part = _percent(0.5 * (last - first))
        yield "narrow", f"the middle 90 % are in {part} of the range: another unit, or log=True?"


def _of_levels(declared: Category, present: np.ndarray, n: int) -> _Found:
    codes = level_codes(present, declared.values)
    unknown = present[codes < 0]
    if len(unknown):
        most = _most(unknown)
        near = closest(most, declared.values)
        text = f"{_percent(len(unknown) / n)} in no declared category, mostly {most!r}{near}"
        yield "unknown", text
    seen = {*codes.tolist()}
    never = [repr(value) for k, value in enumerate(declared.values) if k not in seen]
    if never:
        shown = ", ".join(never[:_SHOWN]) + (", ..." if len(never) > _SHOWN else "")
        yield "never", f"declared, but no record has it: {shown}"
    n_distinct = len({*map(str, present.tolist())})
    if len(present) > _MANY and n_distinct > _IDENTIFIER * len(present):
        share = n_distinct / len(present)
        yield "identifier", f"{_percent(share)} of the values differ: an identifier?"
    if n_distinct == 1:
        yield "constant", "constant"


def _most(values: np.ndarray) -> Any:
    """Return the most frequent value."""
    texts = Counter(map(str, values.tolist()))
    return texts.most_common(1)[0][0]


def _percent(share: float) -> str:
    return f"{100.0 * share:.3g} %"

"""Declarations of columns: what is public of them, and how their values are read.

A declaration is a value: it compares, hashes and prints as it was written. It is turned into
*parts*, each of which is a number in [-1, 1], a level among public ones, or text; see
:mod:`skdp.tabular.table_encoder` for the features that are made of them.
"""

from __future__ import annotations

import math
import numbers
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import HashingVectorizer

from skdp._checks import check_bool, check_count, check_real, shown
from skdp._records import is_missing
from skdp.preprocessing.ranges import to_unit_interval
from skdp.tabular.frames import date_of, dates_of, level_text, numbers_of, objects
from skdp.tabular.level_codes import MISSING, NONE, level_codes

#: Texts of a flag.
_NO, _YES = ("no", "false", "n", "f"), ("yes", "true", "y", "t")
#: A category or a text counts as at most this many features when a plan is made.
_MOST_COUNTED = 64
#: Levels of the parts of a date.
_DATE_LEVELS: dict[str, range] = {
    "quarter": range(1, 5),
    "month": range(1, 13),
    "day": range(1, 32),
    "weekday": range(7),
    "hour": range(24),
}


class Part(NamedTuple):
    """Something that a column is read as.

    Kinds are "number" (doubles in [-1, 1], NaN if missing), "levels" (positions among `labels`, -1
    for none of them), "text" (rows of norm at most 1), and "constant", a number without a feature.
    A missing value has a feature of its own with `has_missing`: of levels the last one. The linear
    block has `n_features`.
    """

    name: str
    kind: str
    labels: tuple[str, ...] = ()
    has_missing: bool = False
    n_features: int = 1

    @property
    def n_counted(self) -> int:
        """Number of features that a plan counts."""
        return min(self.n_features, _MOST_COUNTED + self.has_missing + ("other" in self.labels))


class Declaration:
    """Base of declarations of columns."""

    def __post_init__(self) -> None:
        check_bool("missing", getattr(self, "missing", True))

    @abstractmethod
    def expand(self, name: str) -> tuple[Part, ...]:
        """Return the parts of a column of this name."""

    @abstractmethod
    def read(self, values: np.ndarray, where: str) -> list[Any]:
        """Read values as `Table.column` returns them: one array for each part."""

    def is_read(self, values: np.ndarray) -> np.ndarray:
        """Whether each value has a meaning under this declaration."""
        return np.ones(len(values), dtype=bool)

    def _refuse_lost(self, values: np.ndarray, where: str) -> None:
        """Raise ValueError where some values have no meaning and may not be missing.

        Missing are None, NaN, NaT, NA and blank text, and nothing else: other text that is no
        number or date is an error, whether or not values may be missing.
        """
        present = present_values(values)
        if len(present):
            raise self._unread_error(present, where)
        if len(values) and not getattr(self, "missing", True):
            raise ValueError(
                f"{where} has missing values (NaN or None): declare "
                f"{type(self).__name__}(..., missing=True), fill them with a public constant, or "
                "leave such records out."
            )

    def _unread_error(self, values: np.ndarray, where: str) -> ValueError:
        """Say why values that are there cannot be read."""
        raise NotImplementedError


@dataclass(frozen=True)
class Number(Declaration):
    """A number between two public bounds; values outside are clipped.

    Parameters
    ----------
    low, high : float or None, default=None
        Public range in the column's own units, with low < high. What is possible, not what occurs.
        Neither: a :class:`DPTabularClassifier` or :class:`DPTabularRegressor` spends a part of its
        budget on limits. Other models need declared ones.
    log : bool or float, default=False
        For ranges over powers of ten: True replaces x by asinh(x), and a number s > 0 by
        asinh(x / s), which is linear below s and logarithmic above, also for negative numbers.
    missing : bool, default=False
        Whether values may be missing. They then have a feature of their own.

    Examples
    --------
    >>> from skdp.tabular import Number
    >>> Number(18, 90, missing=True)
    Number(low=18, high=90, log=False, missing=True)
    """

    low: Any = None
    high: Any = None
    log: bool | float = field(default=False, kw_only=True)
    missing: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.log, (bool, np.bool_)):
            check_real("log", self.log, 1e-100, 1e100)
        if self.low is None and self.high is None and not self.log:
            return  # limits are still to be found, by a release
        is_pair = all(is_real(end) for end in (self.low, self.high))
        if not (is_pair and -math.inf < self.low < self.high < math.inf and self._ends[1] > 0):
            raise ValueError(
                f"Number needs finite low < high, got ({shown(self.low)}, {shown(self.high)})."
            )

    @property
    def _ends(self) -> tuple[np.ndarray, float]:
        """The range after the logarithm, shape (1, 2), and its half-width."""
        ends = self._scaled(np.array([[self.low, self.high]], dtype=np.float64))
        return ends, float(0.5 * ends[0, 1] - 0.5 * ends[0, 0])

    def _scaled(self, values: np.ndarray) -> np.ndarray:
        """Take the logarithm, if there is one."""
        return values if not self.log else np.arcsinh(values / float(self.log))

    def expand(self, name: str) -> tuple[Part, ...]:
        return (Part(name, "number", (), self.missing, 1 + self.missing),)

    def read(self, values: np.ndarray, where: str) -> list[Any]:
        found = numbers_of(values)
        if np.isinf(found).any():
            raise ValueError(f"{where} contains infinity (inf).")
        self._refuse_lost(values[np.isnan(found)], where)
        return [self.position(found)]

    def position(self, found: np.ndarray) -> np.ndarray:
        """Map the range to [-1, 1]; NaN stays."""
        ends, _ = self._ends
        clipped = np.clip(found, float(self.low), float(self.high))
        return to_unit_interval(self._scaled(clipped)[:, None], ends)[:, 0]

    def value(self, position: np.ndarray) -> np.ndarray:
        """Return numbers at positions in [-1, 1] of the range: the inverse of :meth:`position`."""
        ends, half = self._ends
        scaled = 0.5 * ends[0, 0] + 0.5 * ends[0, 1] + half * position
        return scaled if not self.log else np.sinh(scaled) * float(self.log)

    def is_read(self, values: np.ndarray) -> np.ndarray:
        return np.isfinite(numbers_of(values))

    def _unread_error(self, values: np.ndarray, where: str) -> ValueError:
        if values.dtype.kind == "c":
            return ValueError(f"{where}: Complex data not supported.")
        if values.dtype.kind in "mM" or any(hasattr(value, "year") for value in values.tolist()):
            return ValueError(
                f"{where} was declared Number but holds dates or time differences: declare a range "
                'such as Date("2015-01-01", "2026-01-01"), or turn differences into numbers.'
            )
        return ValueError(
            f"{where} was declared Number but holds text. Declare Category([...]) or Text(), or "
            "take signs such as % and $ and commas between thousands away before, and replace "
            "markers of missing values such as '?' by None."
        )


@dataclass(frozen=True)
class Category(Declaration):
    """One of several public values; others have no feature, like a value that is 0.

    Values match if they are equal or the same text: 1, 1.0, "1" and " 1" are the same, so that a
    way through a file of text changes nothing. 7 is "007", unless "7" is declared, too.

    Parameters
    ----------
    values : list
        The possible values, from a code book and not from the records.
    missing : bool, default=False
        Whether values may be missing. They then have a feature of their own.
    other : bool, default=False
        Whether other values have a feature.

    Examples
    --------
    >>> from skdp.tabular import Category
    >>> Category(["a", "b"])
    Category(values=('a', 'b'), missing=False, other=False)
    """

    values: Any
    missing: bool = field(default=False, kw_only=True)
    other: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        values = self.values
        values = values.tolist() if hasattr(values, "tolist") else values
        if not isinstance(values, (list, tuple)):
            raise ValueError(f"Category needs a list of values, got {shown(values)}.")
        values = tuple(values)
        if not values or any(is_missing(value) for value in values):
            raise ValueError(
                "Category needs at least one value, none of them missing (missing=True is for "
                f"that), got {list(values)}."
            )
        texts = [level_text(value) for value in values]
        twice = sorted(text for text in set(texts) if texts.count(text) > 1)
        if twice:
            raise ValueError(f"Category lists a value twice: {twice[0]!r}, in {list(values)}.")
        try:
            hash(values)
        except TypeError:
            raise ValueError(f"Category needs values that are hashable, got {values}.") from None
        object.__setattr__(self, "values", values)

    def expand(self, name: str) -> tuple[Part, ...]:
        extra = ("other",) * self.other + ("missing",) * self.missing
        labels = (*map(str, self.values), *extra)
        return (Part(name, "levels", labels, self.missing, len(labels)),)

    def read(self, values: np.ndarray, where: str) -> list[Any]:
        codes = level_codes(values, self.values)
        lost = codes == MISSING
        self._refuse_lost(values[lost], where)
        codes[lost] = len(self.values) + self.other
        if self.other:
            codes[codes == NONE] = len(self.values)
        return [codes]

    def is_read(self, values: np.ndarray) -> np.ndarray:
        return level_codes(values, self.values) >= 0


@dataclass(frozen=True)
class Flag(Category):
    """Yes or no: a bool, 0 or 1, or no, yes, false, true, n, y, f or t in any case.

    Parameters
    ----------
    missing : bool, default=False
        Whether values may be missing. They then have a feature of their own.

    Examples
    --------
    >>> from skdp.tabular import Flag, check_columns
    >>> import pandas as pd
    >>> check_columns(pd.DataFrame({"vip": ["yes", "no", "no"]}), {"vip": Flag()}).rows
    ()
    """

    values: Any = field(default=(False, True), init=False, repr=False)
    other: bool = field(default=False, init=False, repr=False)

    def read(self, values: np.ndarray, where: str) -> list[Any]:
        found = _of_flags(values)
        if (level_codes(found, self.values) == NONE).any():
            raise ValueError(
                f"{where} was declared Flag but holds other values than 0/1, no/yes and "
                "false/true. Declare Category([...])."
            )
        return super().read(found, where)

    def is_read(self, values: np.ndarray) -> np.ndarray:
        return super().is_read(_of_flags(values))


@dataclass(frozen=True)
class Date(Declaration):
    """A date or time: its trend over a public range, and its place in year, week or day.

    Parameters
    ----------
    low, high : str, date or datetime
        Public range, such as "2015-01-01". The trend is clipped to it, the other parts are kept.
    parts : tuple of str, default=("trend", "month", "weekday")
        "trend" and "year" are numbers; "quarter", "month", "day", "weekday" (0 is Monday) and
        "hour" are categories.
    missing : bool, default=False
        Whether values may be missing. They then have a feature of their own.

    Examples
    --------
    >>> from skdp.tabular import Date
    >>> Date("2015-01-01", "2026-01-01", parts="trend")
    Date(low='2015-01-01', high='2026-01-01', parts=('trend',), missing=False)
    """

    low: Any
    high: Any
    parts: Any = field(default=("trend", "month", "weekday"), kw_only=True)
    missing: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        names = (self.parts,) if isinstance(self.parts, str) else tuple(self.parts)
        known = ["trend", "year", *_DATE_LEVELS]
        if not names or len(set(names)) < len(names) or not set(names) <= set(known):
            raise ValueError(f"parts must be some of {known}, got {shown(self.parts)}.")
        low, high = (_day(end) for end in (self.low, self.high))
        if not low < high:
            raise ValueError(f"Date needs low < high, got ({shown(low)}, {shown(high)}).")
        for name, value in (("low", low), ("high", high), ("parts", names)):
            object.__setattr__(self, name, value)

    def expand(self, name: str) -> tuple[Part, ...]:
        found = []
        for number, part in enumerate(self.parts):
            has_missing = self.missing and number == 0
            if part in ("trend", "year"):
                called = name if part == "trend" else f"{name}_year"
                found.append(Part(called, "number", (), has_missing, 1 + has_missing))
            else:
                labels = (*map(str, _DATE_LEVELS[part]), *("missing",) * has_missing)
                found.append(Part(f"{name}_{part}", "levels", labels, has_missing, len(labels)))
        return tuple(found)

    @property
    def trend(self) -> Number:
        """The range in seconds since 1970."""
        low, high = (float(date_of(end).astype(np.int64)) for end in (self.low, self.high))
        return Number(low, high)

    @property
    def years(self) -> Number:
        """The range of years."""
        low, high = int(self.low[:4]), int(self.high[:4])
        return Number(low, max(high, low + 1))

    def read(self, values: np.ndarray, where: str) -> list[Any]:
        found = dates_of(values)
        lost = np.isnat(found)
        self._refuse_lost(values[lost], where)
        out: list[Any] = []
        known = np.where(lost, np.datetime64(self.low, "s"), found)
        for number, part in enumerate(self.parts):
            if part == "trend":
                read = self.trend.position(known.astype(np.float64))
                read[lost] = np.nan
            elif part == "year":
                years = known.astype("datetime64[Y]").astype(np.float64) + 1970.0
                read = self.years.position(years)
                read[lost] = np.nan
            else:
                read = _date_codes(known, part)
                read[lost] = len(_DATE_LEVELS[part]) if number == 0 else NONE
            out.append(read)
        return out

    def is_read(self, values: np.ndarray) -> np.ndarray:
        return ~np.isnat(dates_of(values))

    def _unread_error(self, values: np.ndarray, where: str) -> ValueError:
        return ValueError(
            f"{where} was declared Date, but holds values that are no date and no text such as "
            "2026-01-31 or 2026-01-31 12:00. Convert the column, for example by "
            "pandas.to_datetime, and replace markers of missing values such as '?' by None."
        )


@dataclass(frozen=True)
class Text(Declaration):
    """Words, hashed into a fixed number of features; a missing value is an empty text.

    Parameters
    ----------
    n_features : int, default=1024
        Words that share one count together.
    """

    n_features: int = 2**10

    def __post_init__(self) -> None:
        check_count("n_features", self.n_features, 2, 2**24)

    def expand(self, name: str) -> tuple[Part, ...]:
        return (Part(name, "text", (), False, self.n_features),)

    def read(self, values: np.ndarray, where: str) -> list[Any]:
        words = ["" if is_missing(value) else str(value) for value in values.tolist()]
        hashed = HashingVectorizer(n_features=self.n_features).transform(words)
        return [sp.csr_matrix(hashed)]


def _of_flags(values: np.ndarray) -> np.ndarray:
    """Return values with the texts of a flag as bools."""
    if values.dtype.kind not in "OUT":
        return values
    known: dict[str, Any] = dict.fromkeys(_NO, False) | dict.fromkeys(_YES, True)
    known[""] = None  # blank text is missing
    return objects(
        known.get(each.strip().lower(), each) if isinstance(each, str) else each for each in values
    )


def _date_codes(dates: np.ndarray, part: str) -> np.ndarray:
    """Return the position of dates among the levels of a part."""
    days = dates.astype("datetime64[D]")
    months = dates.astype("datetime64[M]")
    month = months.astype(np.intp) % 12
    if part == "month":
        return month
    if part == "quarter":
        return month // 3
    if part == "day":
        return (days - months.astype("datetime64[D]")).astype(np.intp)
    if part == "weekday":  # 1 January 1970 was a Thursday
        return (days.astype(np.intp) + 3) % 7
    return (dates - days.astype("datetime64[s]")).astype(np.intp) // 3600


def is_real(value: Any) -> bool:
    """Whether a value is a number, and no bool."""
    return isinstance(value, numbers.Real) and not isinstance(value, (bool, np.bool_))


def _day(end: Any) -> str:
    """Return an end of a range of dates as ISO 8601 text."""
    found = dates_of(objects([end]))[0]
    if np.isnat(found):
        raise ValueError(
            f'An end of Date must be a date or text such as "2026-01-31", got {shown(end)}.'
        )
    return str(found).removesuffix("T00:00:00")


def present_values(values: np.ndarray, keeps_blank: bool = False) -> np.ndarray:
    """Return the values that are not missing; blank text is missing unless it may be a level."""
    if values.dtype.kind in "mM":
        return values[~np.isnat(values)]
    if values.dtype.kind in "biufc":
        return values[values == values]
    are_there = [not is_missing(value) for value in values.tolist()]
    if not keeps_blank:
        items = zip(are_there, values.tolist(), strict=True)
        blank = ("", "nan")
        are_there = [
            there and not (isinstance(value, str) and value.strip().lower() in blank)
            for there, value in items
        ]
    return values[np.array(are_there, dtype=bool)]

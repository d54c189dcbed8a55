"""Declarations of columns: what is public of them, and how their values are read.

A declaration is a value: it compares, hashes and prints as it was written. It is turned into
*parts*, each of which is a number in [-1, 1], a level among public ones, or text; see
:mod:`skdp.tabular.table_encoder` for the features that are made of them.
"""

from __future__ import annotations

import datetime
import math
import numbers
import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import HashingVectorizer

from skdp._checks import check_bool, check_count, check_real, shown
from skdp._records import is_missing
from skdp.preprocessing.ranges import to_unit_interval
from skdp.tabular.frames import date_of, dates_of, level_text, numbers_of, objects

#: A category or a text counts as at most this many features when a plan is made.
_MOST_COUNTED = 64
#: Levels of the parts of a date, and how they are read.
_DATE_LEVELS: dict[str, tuple[int, ...]] = {
    "month": tuple(range(1, 13)),
    "day": tuple(range(1, 32)),
    "weekday": tuple(range(7)),
    "hour": tuple(range(24)),
    "quarter": (1, 2, 3, 4),
}
_DATE_PARTS = ("trend", "year", *_DATE_LEVELS)
#: What counts as false and as true in a Flag.
_NO, _YES = ("0", "no", "false", "n", "f"), ("1", "yes", "true", "y", "t")
#: What readers of text files take for a missing value, among others.
_READ_AS_MISSING = ("", "NA", "N/A", "n/a", "NULL", "null", "None", "NaN", "nan")


class Part(NamedTuple):
    """Something that a column is read as.

    Attributes
    ----------
    name : str
    kind : {"number", "flag", "levels", "text", "constant"}
        Read as doubles in [-1, 1], as -1 or 1 (NaN if missing), as positions among the levels (-1
        for none of them), or as rows of norm at most 1; a number without a feature.
    labels : tuple of str
        Names of the levels.
    has_missing : bool
        Whether missing values have a feature of their own. Of levels it is the last level.
    n_features : int
        In the linear block.
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

    def _set_options(self, *names: str) -> None:
        """Check options that are True or False, and keep them as such."""
        for name in names:
            check_bool(name, getattr(self, name))
            object.__setattr__(self, name, bool(getattr(self, name)))

    @abstractmethod
    def expand(self, name: str) -> tuple[Part, ...]:
        """Return the parts of a column of this name."""

    @abstractmethod
    def read(self, values: np.ndarray, where: str) -> list[Any]:
        """Read some values of a column: one array for each part.

        Parameters
        ----------
        values : ndarray
            As :meth:`skdp.tabular.frames.Table.column` returns them.
        where : str
            The column, for messages.
        """

    @abstractmethod
    def is_read(self, values: np.ndarray) -> np.ndarray:
        """Whether each value has a meaning under this declaration."""

    def check_readable(self, values: np.ndarray, where: str) -> None:
        """Raise ValueError if no value of a whole column can be read, though some are there."""

    def _refuse_lost(self, values: np.ndarray, where: str, note: str = "") -> None:
        """Raise ValueError where some values have no meaning and may not be missing.

        Missing are None, NaN, NaT, NA and blank text, and nothing else: other text that is no
        number or date is an error, whether or not values may be missing.
        """
        present = present_values(values)
        if len(present):
            raise self._unread_error(present, where)
        if len(values) and not getattr(self, "missing", True):
            raise _missing_error(where, self, note)

    def _unread_error(self, values: np.ndarray, where: str) -> ValueError:
        """Say why values that are there cannot be read."""
        raise NotImplementedError


def _show(declaration: Any, *arguments: Any, **options: Any) -> str:
    """Return the call that makes a declaration; options at their defaults are left out."""
    texts = ["..." if value is ... else repr(value) for value in arguments]
    defaults = {"log": False, "missing": False, "other": False}
    changed = {name: v for name, v in options.items() if v is not defaults.get(name)}
    texts += [f"{name}={value!r}" for name, value in changed.items()]
    return f"{type(declaration).__name__}({', '.join(texts)})"


@dataclass(frozen=True, repr=False)
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
    Number(18, 90, missing=True)
    """

    low: Any = None
    high: Any = None
    log: bool | float = field(default=False, kw_only=True)
    missing: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        self._set_options("missing")
        if not isinstance(self.log, (bool, np.bool_)):
            check_real("log", self.log, 1e-100, 1e100)
        if self.low is ... or self.high is ... or (self.is_open and not self.log):
            return
        is_pair = all(_is_real(end) for end in (self.low, self.high))
        if not (is_pair and -math.inf < self.low < self.high < math.inf and self._ends[1] > 0):
            raise ValueError(
                f"Number needs finite low < high, got ({shown(self.low)}, {shown(self.high)})."
            )

    def __repr__(self) -> str:
        limits = () if self.is_open else (self.low, self.high)
        return _show(self, *limits, log=self.log, missing=self.missing)

    @property
    def is_open(self) -> bool:
        """Whether limits are still to be found, by a release."""
        return self.low is None and self.high is None

    @property
    def _ends(self) -> tuple[np.ndarray, float]:
        """The range after the logarithm, shape (1, 2), and its half-width."""
        ends = self.scaled(np.array([[self.low, self.high]], dtype=np.float64))
        return ends, float(0.5 * ends[0, 1] - 0.5 * ends[0, 0])

    def scaled(self, values: np.ndarray) -> np.ndarray:
        """Take the logarithm, if there is one."""
        if self.log is False:
            return values
        return np.arcsinh(values / self._unit)

    @property
    def _unit(self) -> float:
        return 1.0 if self.log is True else float(self.log)

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
        return to_unit_interval(self.scaled(clipped)[:, None], ends)[:, 0]

    def value(self, position: np.ndarray) -> np.ndarray:
        """Return numbers at positions in [-1, 1] of the range: the inverse of :meth:`position`."""
        ends, half = self._ends
        scaled = 0.5 * ends[0, 0] + 0.5 * ends[0, 1] + half * position
        return scaled if self.log is False else np.sinh(scaled) * self._unit

    def is_read(self, values: np.ndarray) -> np.ndarray:
        return np.isfinite(numbers_of(values))

    def _unread_error(self, values: np.ndarray, where: str) -> ValueError:
        if values.dtype.kind == "c":
            return ValueError(f"{where}: Complex data not supported.")
        if values.dtype.kind == "M" or any(hasattr(value, "year") for value in values.tolist()):
            return ValueError(
                f"{where} was declared Number but holds dates: declare a range such as "
                'Date("2015-01-01", "2026-01-01").'
            )
        if values.dtype.kind == "m":
            return ValueError(f"{where} holds time differences: turn them into numbers.")
        return ValueError(
            f"{where} was declared Number but holds text. Declare Category([...]) or Text(), or "
            "take signs such as % and $ and commas between thousands away before, and replace "
            "markers of missing values such as '?' by None."
        )


@dataclass(frozen=True, repr=False)
class Category(Declaration):
    """One of several public values.

    Values match if they are equal or the same text: 1, 1.0, "1" and " 1" are the same, so that a
    way through a file of text changes nothing. 7 is "007", unless "7" is declared, too.

    Parameters
    ----------
    values : list
        The possible values, from a code book and not from the records.
    missing : bool, default=False
        Whether values may be missing. They then have a feature of their own.
    other : bool, default=False
        Whether values that are not declared have a feature of their own. False: they are allowed
        and have none.

    Examples
    --------
    >>> from skdp.tabular import Category
    >>> Category(["a", "b"], other=True)
    Category(['a', 'b'], other=True)
    """

    values: Any
    missing: bool = field(default=False, kw_only=True)
    other: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        self._set_options("missing", "other")
        values = self.values
        if values is ... or (isinstance(values, (list, tuple)) and list(values) == [...]):
            object.__setattr__(self, "values", ...)
            return
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

    def __repr__(self) -> str:
        values = [...] if self.values is ... else list(self.values)
        text = _show(self, values, missing=self.missing, other=self.other)
        return text.replace("[Ellipsis]", "[...]")

    def expand(self, name: str) -> tuple[Part, ...]:
        extra = ("other",) * self.other + ("missing",) * self.missing
        labels = (*map(str, self.values), *extra)
        return (Part(name, "levels", labels, self.missing, len(labels)),)

    def read(self, values: np.ndarray, where: str) -> list[Any]:
        codes = level_codes(values, self.values)
        if (codes == MISSING).any():
            if not self.missing:
                raise _missing_error(where, self, note_of_missing(self.values))
            codes[codes == MISSING] = len(self.values) + self.other
        if self.other:
            codes[codes == NONE] = len(self.values)
        return [codes]

    def is_read(self, values: np.ndarray) -> np.ndarray:
        return level_codes(values, self.values) >= 0

    def check_readable(self, values: np.ndarray, where: str) -> None:
        present = present_values(values, keeps_blank=True)
        if self.other or not len(present) or self.is_read(present).any():
            return
        hint = ""
        if len(self.values) == 2 and all(_is_real(value) for value in self.values):
            hint = f" A range of numbers is a pair: ({self.values[0]!r}, {self.values[1]!r})."
        raise ValueError(f"{where} has no value that is one of the declared categories.{hint}")


@dataclass(frozen=True, repr=False)
class Flag(Declaration):
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

    missing: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        self._set_options("missing")

    def __repr__(self) -> str:
        return _show(self, missing=self.missing)

    def expand(self, name: str) -> tuple[Part, ...]:
        return (Part(name, "flag", (), self.missing, 1 + self.missing),)

    def read(self, values: np.ndarray, where: str) -> list[Any]:
        codes = self._codes(values)
        if (codes == NONE).any():
            raise ValueError(
                f"{where} was declared Flag but holds other values than 0/1, no/yes and "
                "false/true. Declare Category([...])."
            )
        self._refuse_lost(values[codes == MISSING], where)
        return [np.where(codes == MISSING, np.nan, np.where(codes % 2 == 1, 1.0, -1.0))]

    def _codes(self, values: np.ndarray) -> np.ndarray:
        if values.dtype.kind in "OUT":
            items = (None if _is_blank(value) else value for value in values)
            values = objects(v.lower() if isinstance(v, str) else v for v in items)
        return level_codes(values, _FLAG_VALUES)

    def is_read(self, values: np.ndarray) -> np.ndarray:
        return self._codes(values) >= 0


#: Even positions are false and odd ones are true.
_FLAG_VALUES = tuple(word for pair in zip(_NO, _YES, strict=True) for word in pair)


@dataclass(frozen=True, repr=False)
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
    >>> Date("2015-01-01", "2026-01-01")
    Date('2015-01-01', '2026-01-01')
    """

    low: Any
    high: Any
    parts: Any = field(default=("trend", "month", "weekday"), kw_only=True)
    missing: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        self._set_options("missing")
        names = (self.parts,) if isinstance(self.parts, str) else tuple(self.parts)
        if not names or len(set(names)) < len(names) or not set(names) <= set(_DATE_PARTS):
            raise ValueError(f"parts must be some of {list(_DATE_PARTS)}, got {shown(self.parts)}.")
        low, high = (end if end is ... else _day(end) for end in (self.low, self.high))
        if ... not in (low, high) and not str(low) < str(high):
            raise ValueError(f"Date needs low < high, got ({shown(low)}, {shown(high)}).")
        for name, value in (("low", low), ("high", high), ("parts", names)):
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        options = {} if self.parts == ("trend", "month", "weekday") else {"parts": self.parts}
        return _show(self, self.low, self.high, **options, missing=self.missing)

    def expand(self, name: str) -> tuple[Part, ...]:
        found = []
        for number, part in enumerate(self.parts):
            called = name if part == "trend" else f"{name}_{part}"
            has_missing = self.missing and number == 0
            if part in _DATE_LEVELS:
                labels = (*map(str, _DATE_LEVELS[part]), *("missing",) * has_missing)
                found.append(Part(called, "levels", labels, has_missing, len(labels)))
            else:
                found.append(Part(called, "number", (), has_missing, 1 + has_missing))
        return tuple(found)

    @property
    def trend(self) -> Number:
        """The range in seconds since 1970."""
        low, high = (float(date_of(end).astype(np.int64)) for end in (self.low, self.high))
        return Number(low, high)

    @property
    def years(self) -> Number:
        """The years of the range, the last one at least one after the first."""
        low, high = int(self.low[:4]), int(self.high[:4])
        return Number(low, max(high, low + 1))

    def read(self, values: np.ndarray, where: str) -> list[Any]:
        found = dates_of(values)
        lost = np.isnat(found)
        self._refuse_lost(values[lost], where)
        out: list[Any] = []
        known = np.where(lost, np.datetime64(self.low, "s"), found)
        for number, part in enumerate(self.parts):
            if part in _DATE_LEVELS:
                codes = _date_codes(known, part)
                codes[lost] = len(_DATE_LEVELS[part]) if number == 0 else NONE
                out.append(codes)
            else:
                if part == "trend":
                    position = self.trend.position(known.astype(np.float64))
                else:
                    year = known.astype("datetime64[Y]").astype(np.float64) + 1970.0
                    position = self.years.position(year)
                position[lost] = np.nan
                out.append(position)
        return out

    def is_read(self, values: np.ndarray) -> np.ndarray:
        return ~np.isnat(dates_of(values))

    def _unread_error(self, values: np.ndarray, where: str) -> ValueError:
        return ValueError(
            f"{where} was declared Date, but holds values that are no date and no text such as "
            "2026-01-31 or 2026-01-31 12:00. Convert the column, for example by "
            "pandas.to_datetime, and replace markers of missing values such as '?' by None."
        )


@dataclass(frozen=True, repr=False)
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

    def __repr__(self) -> str:
        return "Text()" if self.n_features == 2**10 else f"Text({self.n_features})"

    def expand(self, name: str) -> tuple[Part, ...]:
        return (Part(name, "text", (), False, self.n_features),)

    def read(self, values: np.ndarray, where: str) -> list[Any]:
        words = ["" if is_missing(value) else str(value) for value in values.tolist()]
        hashed = HashingVectorizer(n_features=self.n_features).transform(words)
        return [sp.csr_matrix(hashed)]

    def is_read(self, values: np.ndarray) -> np.ndarray:
        return np.ones(len(values), dtype=bool)


#: Codes of values that are no level.
NONE, MISSING = -1, -2


def level_codes(values: np.ndarray, levels: Sequence[Any]) -> np.ndarray:
    """Return the position of each value among levels, or NONE or MISSING."""
    codes = _LevelCodes(levels)
    items = values.tolist()
    try:
        return np.fromiter(map(codes.__getitem__, items), dtype=np.intp, count=len(items))
    except TypeError:  # not hashable
        found = map(codes.of_text, items)
        return np.fromiter(found, dtype=np.intp, count=len(items))


class _LevelCodes(dict[Any, int]):
    """Positions of levels; what is not equal to one is compared as text, once for each value."""

    def __init__(self, levels: Sequence[Any]) -> None:
        super().__init__((level, k) for k, level in enumerate(levels))
        self._texts = {level_text(level): k for k, level in enumerate(levels)}
        for text, k in _without_zeros(self._texts).items():
            self._texts.setdefault(text, k)
        for k, level in enumerate(levels):
            if isinstance(level, (bool, np.bool_)):
                for text in (str(int(level)), str(bool(level)).lower()):
                    self._texts.setdefault(text, k)

    def __missing__(self, value: Any) -> int:
        if is_missing(value):
            return MISSING
        self[value] = code = self.of_text(value)
        return code

    def of_text(self, value: Any) -> int:
        """Return the code of a value by its text alone."""
        if is_missing(value):
            return MISSING
        code = self._texts.get(level_text(value), NONE)
        if code == NONE and isinstance(value, (bool, np.bool_)):
            code = self._texts.get(str(int(value)), NONE)
            code = self._texts.get(str(value).lower(), NONE) if code == NONE else code
        return code


def _without_zeros(codes: dict[str, int]) -> dict[str, int]:
    """Return the codes of whole numbers that begin with zeros by the numbers, if they differ."""
    padded = {text: str(int(text)) for text in codes if re.fullmatch(r"0\d+", text)}
    counts = Counter(padded.values())
    return {short: codes[text] for text, short in padded.items() if counts[short] == 1}


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


def _is_real(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, (bool, np.bool_))


def _day(end: Any) -> str:
    """Return an end of a range of dates as ISO 8601 text."""
    if isinstance(end, (datetime.date, np.datetime64)):
        end = end.isoformat() if isinstance(end, datetime.date) else str(end)
    found = date_of(end) if isinstance(end, str) else np.datetime64("NaT")
    if np.isnat(found):
        raise ValueError(
            f'An end of Date must be a date or text such as "2026-01-31", got {shown(end)}.'
        )
    text = str(found)
    return text.removesuffix("T00:00:00")


def present_values(values: np.ndarray, keeps_blank: bool = False) -> np.ndarray:
    """Return the values that are not missing; blank text is missing unless it may be a level."""
    if values.dtype.kind in "mM":
        return values[~np.isnat(values)]
    if values.dtype.kind in "biufc":
        return values[values == values]
    are_there = [not is_missing(value) for value in values.tolist()]
    if not keeps_blank:
        items = zip(are_there, values.tolist(), strict=True)
        are_there = [there and not _is_blank(value) for there, value in items]
    return values[np.array(are_there, dtype=bool)]


def _is_blank(value: Any) -> bool:
    return isinstance(value, str) and value.strip().lower() in ("", "nan")


def note_of_missing(levels: Sequence[Any]) -> str:
    """Say which level a reader of text files takes for a missing value, if there is one."""
    found = [level for level in levels if level in _READ_AS_MISSING]
    if not found:
        return ""
    return f" pandas.read_csv takes {found[0]!r} for a missing value unless keep_default_na=False."


def _missing_error(where: str, declared: Any, note: str = "") -> ValueError:
    """Say which declaration allows missing values."""
    many = isinstance(declared, Category) and len(declared.values) > 3
    allowed = replace(declared, missing=True, **({"values": ...} if many else {}))
    return ValueError(
        f"{where} has missing values (NaN or None): declare {allowed!r}, fill them with a public "
        f"constant, or leave such records out.{note}"
    )

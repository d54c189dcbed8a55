"""Declarations: forms, reading of values, and what is refused."""

import datetime as dt
import pickle
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone

from skdp.tabular import (
    Category,
    Date,
    DPTabularClassifier,
    Flag,
    Number,
    TableEncoder,
    Text,
    check_columns,
)
from skdp.tabular.frames import objects
from skdp.tabular.matching import as_declaration

NAN = float("nan")
DECLARATIONS = [
    Number(),
    Number(missing=True),
    Number(18, 90),
    Number(-1.5, 1e6, log=True, missing=True),
    Number(0, 10, log=1000.0),
    Category(["a", "b"]),
    Category((1, 2.5, True and "x"), missing=True),
    Date("2015-01-01", "2026-01-01"),
    Date("2015-01-01", "2026-01-01T06:00:00", parts=("hour",), missing=True),
    Text(),
    Text(64),
]


@pytest.mark.parametrize("declared", DECLARATIONS, ids=repr)
def test_a_declaration_is_a_value(declared):
    again = eval(repr(declared))
    assert again == declared and hash(again) == hash(declared) and repr(again) == repr(declared)
    assert pickle.loads(pickle.dumps(declared)) == declared
    assert clone(TableEncoder({"x": declared})).columns == {"x": declared}
    assert sum(other == declared for other in DECLARATIONS) == 1


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ((0, 1), Number(0, 1)),
        (["a", "b"], Category(["a", "b"])),
        (np.array([1, 2]), Category([1, 2])),
        (bool, Flag()),
        (Text, Text()),
        (pd.CategoricalDtype(["b", "a"]), Category(["b", "a"])),
        (pl.Enum(["b", "a"]), Category(["b", "a"])),
        (Date(dt.date(2020, 1, 1), np.datetime64("2021-01-01")), Date("2020-01-01", "2021-01-01")),
    ],
)
def test_short_forms(short, long):
    assert as_declaration(short, "Column 'x'") == long


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda: Number(90, 17), r"Number needs finite low < high, got \(90, 17\)"),
        (lambda: Number(0, np.inf), "finite low < high"),
        (lambda: Number(NAN, 1), "finite low < high"),
        (lambda: Number("0", 1), "finite low < high"),
        (lambda: Number(3), "finite low < high"),
        (lambda: Number(high=3), "finite low < high"),
        (lambda: Number(log=True), "finite low < high"),
        (lambda: Number(0, 1, log=-1.0), "log == -1"),
        (lambda: Number(0, 1, missing="yes"), "missing == 'yes', must be True or False"),
        (lambda: Category([]), "at least one value"),
        (lambda: Category(["a", None]), "none of them missing"),
        (lambda: Category("ab"), "a list of values"),
        (lambda: Category([1, " 1"]), "lists a value twice: '1'"),
        (lambda: Category([[1], [2]]), "hashable"),
        (lambda: Date("2020-01-01", "2019-01-01"), "low < high"),
        (lambda: Date("1 May 2020", "2021-01-01"), 'text such as "2026-01-31"'),
        (lambda: Date(..., ...), r'text such as "2026-01-31", got Ellipsis'),
        (lambda: Date("2020-01-01", "2021-01-01", parts=("hours",)), "parts must be some of"),
        (lambda: Text(1), "n_features == 1"),
    ],
)
def test_invalid_declarations(declare, message):
    with pytest.raises(ValueError, match=message):
        declare()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (3, r"Column 'x': expected \(low, high\), a list of categories, .* got 3"),
        ("a", "expected"),
        ((90, 17), r"Column 'x': Number needs finite low < high"),
        (["a", "a"], "Column 'x': Category lists a value twice"),
        (..., "Column 'x' is still to be declared"),
        ((..., 90), "still to be declared"),
        (["a", ...], "still to be declared"),
        (float, "expected"),
    ],
)
def test_what_is_no_declaration(given, message):
    with pytest.raises(ValueError, match=message):
        as_declaration(given, "Column 'x'")


def read(declared, values, as_array=False):
    values = np.asarray(values) if as_array else objects(values)
    (found,) = as_declaration(declared, "Column 'x'").read(values, "Column 'x'")
    return found


@pytest.mark.parametrize(
    ("declared", "values", "found"),
    [
        ((0, 10), [0, 5, 10, 20, -3], [-1, 0, 1, 1, -1]),
        ((0, 10), ["2.5", Decimal("7.5"), True, np.float32(10)], [-0.5, 0.5, -0.8, 1]),
        (
            Number(0, 10, missing=True),
            [5, None, NAN, " ", "nan", pd.NA, "5"],
            [0] + [NAN] * 5 + [0],
        ),
        (Number(-1e200, 1e200), [1e308, 0], [1, 0]),
        (Number(0, np.sinh(2), log=True), [np.sinh(1.5)], [0.5]),
        (Number(0, 100 * np.sinh(2), log=100.0), [100 * np.sinh(1.0)], [0]),
        ([1, 2], [1, 1.0, "1", " 1", "1.0", True, "2.00", 3, "x"], [0] * 6 + [1, -1, -1]),
        (["1", "01"], [1, "01", "1"], [0, 1, 0]),
        (["021", "100", "00"], [21, 21.0, "021", "0", 1], [0, 0, 0, 2, -1]),
        (["07", "007"], [7, "07", "007"], [-1, 0, 1]),
        (["a", "b"], ["b", " a ", "B", ("a",), [1]], [1, 0, -1, -1, -1]),
        ([True, False], [True, "True", "true", 1, 1.0, "0", "false"], [0, 0, 0, 0, 0, 1, 1]),
        (["true", "false"], [True, False], [0, 1]),
        (["1", "0"], [True, False], [0, 1]),
        (Category(["a"], missing=True), ["a", "x", None, NAN, pd.NaT], [0, -1, 1, 1, 1]),
        (bool, [True, 0, "1", "yes", " true", "N", 0.0, "false"], [1, 0, 1, 1, 1, 0, 0, 0]),
        (Flag(missing=True), [True, " ", None, "f"], [1, 2, 2, 0]),
        (Category(["a"], other=True, missing=True), ["a", "b", None], [0, 1, 2]),
    ],
)
def test_values_are_read(declared, values, found):
    np.testing.assert_allclose(read(declared, values), found, rtol=0, atol=1e-15)


def test_dates_are_read():
    values = ["2020-01-01", dt.datetime(2020, 12, 31, 23, 5), pd.Timestamp("2021-06-15 12:00"), ""]
    parts = ("trend", "month", "day", "weekday", "hour")
    declared = Date("2020-01-01", "2021-01-01", parts=parts, missing=True)
    trend, month, day, weekday, hour = declared.read(objects(values), "")
    np.testing.assert_allclose(trend, [-1, 1 - 2 * (55 / 1440) / 366, 1, NAN], rtol=1e-12)
    for codes, found in (
        (month, [0, 11, 5, -1]),
        (day, [0, 30, 14, -1]),
        (weekday, [2, 3, 1, -1]),
        (hour, [0, 23, 12, -1]),
    ):
        np.testing.assert_array_equal(codes, found)
    zoned = pd.Series(pd.to_datetime(["2020-03-01 23:30"]).tz_localize("Asia/Tokyo"))
    assert Date("2020-01-01", "2021-01-01", parts="hour").read(objects(zoned), "")[0][0] == 23
    first = Date("2020-01-01", "2021-01-01", parts=("month", "day"), missing=True)
    np.testing.assert_array_equal(first.read(objects([None]), ""), [[12], [-1]])


def test_words_are_hashed():
    rows = read(Text(64), ["good wine", "wine good", None, 3.5])
    assert rows.shape == (4, 64)
    np.testing.assert_allclose(rows.power(2).sum(axis=1).ravel(), [[1, 1, 0, 0]], atol=1e-15)
    assert (rows[0] != rows[1]).nnz == 0


@pytest.mark.parametrize(
    ("declared", "values", "message"),
    [
        ((0, 1), [0.5, None], r"has missing values .*declare Number\(\.\.\., missing=True\)"),
        ((0, 1), [0.5, "secret"], "Number but holds text"),
        ((0, 1), ["secret", "b", None], r"Number but holds text. Declare Category\(\[...\]\)"),
        ((0, 1), ["7 %", "8 %"], "take signs such as % and "),
        ((0, 1), [dt.date(2020, 1, 1)], "Number but holds dates"),
        ((0, 1), np.array(["2020-01-01"], dtype="M8[D]"), "Number but holds dates"),
        ((0, 1), np.array([1], dtype="m8[D]"), "time differences"),
        ((0, 1), [0.5, np.inf], "contains infinity"),
        (["a"], ["a", None], r"declare Category\(\.\.\., missing=True\)"),
        (Date("2020-01-01", "2021-01-01"), ["2020-02-02", ""], "missing values"),
        (Date("2020-01-01", "2021-01-01"), ["secret", 17], "no date and no text such as"),
    ],
)
def test_values_that_are_refused(declared, values, message):
    with pytest.raises(ValueError, match=f"^Column 'x' .*{message}") as refused:
        read(declared, values, isinstance(values, np.ndarray))
    assert "secret" not in str(refused.value)


#: What is no number or date, though it is there.
UNREAD = {
    "thousands": (Number(0, 1e4, missing=True), ["5.0", "1,826.94"]),
    "comma": (Number(0, 1e4, missing=True), ["5", "1826,94"]),
    "sign": (Number(0, 1e4, missing=True), ["5", "$3"]),
    "percent": (Number(0, 1e4, missing=True), ["5", "3 %"]),
    "marker": (Number(0, 1e4, missing=True), ["5", "?"]),
    "object": (Number(0, 1e4, missing=True), [5.0, [3.0]]),
    "infinity": (Number(0, 1e4, missing=True), ["5", "inf"]),
    "time": (Number(0, 1e4, missing=True), [5.0, dt.date(2020, 1, 1)]),
    "date": (Date("2020-01-01", "2021-01-01", missing=True), ["2020-02-02", "31.12.2020"]),
    "number": (Date("2020-01-01", "2021-01-01", missing=True), ["2020-02-02", 17]),
}


@pytest.mark.parametrize("case", UNREAD)
def test_what_cannot_be_read_is_not_missing(case):
    """One rule for fit, predict and check_columns, wherever in the column the value stands."""
    declared, values = UNREAD[case]
    spoilt = values[:1] * 99 + values[1:]
    fine = pd.DataFrame({"x": pd.Series(values[:1] * 100, dtype=object)})
    target, unfitted = np.arange(100) % 2, TableEncoder({"x": declared})
    model = DPTabularClassifier(columns={"x": declared}, classes=[0, 1])
    fitted, encoder = clone(model).fit(fine, target), clone(unfitted).fit(fine)
    for rows in (spoilt, spoilt[::-1]):
        frame = pd.DataFrame({"x": pd.Series(rows, dtype=object)})
        with pytest.raises(ValueError, match="Column 'x' "):
            read(declared, rows)
        methods = unfitted.fit, unfitted.fit_transform, encoder.transform, fitted.predict
        for method, *given in (*((method,) for method in methods), (model.fit, target)):
            with pytest.raises(ValueError, match="Column 'x' "):
                method(frame, *given)
        kinds = {row.kind for row in check_columns(frame, {"x": declared}).rows}
        assert kinds & {"unread", "infinity"}


@pytest.mark.parametrize("lost", [None, np.nan, pd.NA, pd.NaT, "", " ", "nan"])
@pytest.mark.parametrize("case", ["marker", "date"])
def test_what_is_missing(case, lost):
    declared, values = UNREAD[case]
    (found, *_) = declared.read(objects([values[0], lost]), "Column 'x'")
    assert np.isfinite(found[0]) and np.isnan(found[1])
    frame = pd.DataFrame({"x": pd.Series([values[0], lost] * 30, dtype=object)})
    with pytest.raises(ValueError, match=r"has missing values.*missing=True\)"):
        TableEncoder({"x": replace(declared, missing=False)}).fit_transform(frame)
    kinds = {row.kind for row in check_columns(frame, {"x": declared}).rows}
    assert "unread" not in kinds


def test_years_and_quarters_of_dates():
    declared = Date("2010-01-01", "2020-12-31", parts=("year", "quarter"))
    assert [part.name for part in declared.expand("joined")] == ["joined_year", "joined_quarter"]
    years, quarters = declared.read(objects(["2010-05-01", "2015-12-01", "2020-02-03"]), "")
    np.testing.assert_allclose(years, [-1.0, 0.0, 1.0], atol=1e-15)
    assert quarters.tolist() == [1, 3, 0]

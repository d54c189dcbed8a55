"""Descriptions from types alone, and findings about records that say that they are not private."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.pipeline import make_pipeline

import skdp
from skdp.inspection import check_pipeline
from skdp.tabular import Date, Number, TableEncoder, Text
from skdp.tabular import check_columns as check
from skdp.tabular import describe_columns as describe

N = 200


def frame(seed=0, n=N):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.uniform(18, 90, n),
            "count": rng.integers(0, 9, n),
            "vip": rng.random(n) < 0.5,
            "job": pd.Series(rng.choice(["cook", "clerk"], n), dtype="str"),
            "state": pd.Categorical(rng.choice(["AK", "AL"], n), categories=["AK", "AL"]),
            "joined": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 99, n), "D"),
        }
    )


def test_descriptions_follow_from_names_and_types():
    described = describe(frame())
    assert described == describe(frame(seed=1, n=3)) == describe(frame().iloc[:0])
    assert [line.partition("  #")[0] for line in described.splitlines()] == [
        "columns = {",
        "    'age': (..., ...),",
        "    'count': (..., ...),",
        "    'vip': bool,",
        "    'job': [...],",
        "    'state': ['AK', 'AL'],",
        "    'joined': Date(..., ...),",
        "}",
    ]
    assert "or Date(..., ...), Text()" in described and "without the records" in described
    names = {"Date": Date}
    exec(described.replace("Date(..., ...)", 'Date("2020-01-01", "2021-01-01")'), names)
    with pytest.raises(ValueError, match="Column 'age' is still to be declared"):
        TableEncoder(names["columns"]).fit(frame())


def test_descriptions_of_other_tables():
    as_polars = pl.from_pandas(frame().drop(columns="state"))
    as_polars = as_polars.with_columns(
        as_polars["job"].cast(pl.Enum(["cook", "clerk"])), pl.lit(1).cast(pl.Decimal(8, 2))
    )
    lines = describe(as_polars).splitlines()
    kinds = [line.partition(": ")[2].partition(",  #")[0] for line in lines[1:-1]]
    number, text = "(..., ...)", "['cook', 'clerk']"
    assert kinds == [number, number, "bool", text, "Date(..., ...)", number]
    arrow = pytest.importorskip("pyarrow").Table.from_pandas(frame().drop(columns="state"))
    assert describe(arrow).count(": (..., ...)") == 2
    assert describe(np.zeros((3, 2))) == describe([[0.0, 1.0]])
    assert describe(np.zeros((3, 2))).splitlines()[1] == "    (..., ...),  # float64"


@pytest.mark.parametrize(
    ("declared", "values", "kinds", "text"),
    [
        ((18, 90), lambda rng: rng.uniform(200, 1000, N), ["clipped", "constant"], "another unit?"),
        ((18, 60), lambda rng: rng.uniform(18, 90, N), ["clipped"], "which are clipped"),
        ((0, 1e6), lambda rng: rng.uniform(0, 1e3, N), ["narrow"], "are in 0.0"),
        ((0, 1e4), lambda rng: rng.uniform(0, 1e3, N), [], ""),
        (Number(0, 1e6, log=True), lambda rng: rng.uniform(0, 1e3, N), [], ""),
        (["a", "b"], lambda rng: ["a", "b"] * 90 + ["c"] * 20, ["unknown"],
         "10 % in no declared category, mostly 'c'"),
        ((0, 9), lambda rng: np.full(N, 3), ["constant"], "constant"),
        ((0, 9), lambda rng: np.where(np.arange(N) < 50, np.nan, np.arange(N) % 10), ["missing"],
         "25 % missing: declare missing=True"),
        ((0, 9), lambda rng: np.where(np.arange(N) < 2, " ", (np.arange(N) % 10).astype(str)),
         ["missing"], "1 % missing: declare missing=True"),
        ((0, 9), lambda rng: np.where(np.arange(N) < 2, np.inf, np.arange(N) % 10), ["infinity"],
         "infinity"),
        (["admin.", "cook"], lambda rng: rng.choice(["admin", "cook"], N), ["unknown", "never"],
         "mostly 'admin' (did you mean 'admin.'?)"),
        ([f"p{k}" for k in range(N)], lambda rng: [f"p{k}" for k in range(N)], ["identifier"],
         "an identifier?"),
        (["a", "b"], lambda rng: ["a"] * N, ["never", "constant"], "no record has it: 'b'"),
        (bool, lambda rng: rng.choice(["true", "perhaps"], N), ["unread"], "'perhaps'"),
        (Date("2020-01-01", "2021-01-01"), lambda rng: ["2020-02-02"] * 100 + ["?"] * 100,
         ["unread", "constant"], "50 % are no dates, such as '?'"),
        (Date("2020-01-01", "2021-01-01"), lambda rng: ["2025-02-02"] * N,
         ["clipped", "constant"], "100 % outside of the range"),
        (Date("2020-01-01", "2021-01-01", parts="hour"), lambda rng: ["2025-02-02"] * N, [], ""),
        (..., lambda rng: rng.uniform(18, 90, N), ["declaration"], "is still to be declared"),
        ((18, 90), lambda rng: [None] * N, ["missing", "constant"], "no value is there"),
        ((18, 90), lambda rng: rng.uniform(18, 90, N), [], ""),
        (Text(), lambda rng: [None, "a b"] * (N // 2), [], ""),
    ],
)  # fmt: skip
def test_findings(declared, values, kinds, text):
    X = pd.DataFrame({"x": pd.Series(values(np.random.default_rng(0)))})
    report = check(X, {"x": declared})
    assert [row.kind for row in report.rows] == kinds
    assert text in str(report)
    assert all(row.column == "x" for row in report.rows)


def test_columns_that_do_not_match():
    columns = {"Age": (18, 90), "count": (0, 9), "vip": bool, "job": ["cook", "clerk"]}
    columns |= {"state": ["AK", "AL"], "joined": Date("2020-01-01", "2020-06-01")}
    report = check(frame(), columns)
    assert [(row.column, row.kind) for row in report.rows] == [
        ("Age", "lacking"),
        ("age", "undeclared"),
    ]
    assert "did you mean 'age'?" in report.rows[0].text
    assert check(frame()[["age"]].to_numpy(), [(0, 99), (0, 1)]).rows[0].kind == "lacking"
    assert check([[1.0], [1.0]] * 5, (0, 9)).rows[0].kind == "constant"


def test_a_report_says_that_it_is_not_private():
    for report in (check(frame()[["age"]], {"age": (0, 1)}), check([[0.0], [1.0]] * 5, (0, 1))):
        assert "NOT PRIVATE" in str(report) and "NOT PRIVATE" in repr(report)


def test_the_check_of_a_pipeline_has_the_same_findings():
    columns = {"age": (1, 2), "job": ["cook", "clerk"]}
    X = frame()
    rows = check(X, columns).rows
    model = make_pipeline(TableEncoder(columns), skdp.DPRidge(data_norm=1.0))
    for estimator in (model, skdp.DPTabularRegressor(columns=columns)):
        found = [f.message for f in check_pipeline(estimator, X).findings if f.kind == "clipped"]
        assert found == [f"column 'age': {row.text}" for row in rows if row.kind == "clipped"]
    kinds = [f.kind for f in check_pipeline(TableEncoder(columns), X).findings]
    assert kinds.count("undeclared") == 4 and not check_pipeline(model).findings


def test_a_fit_does_not_look(monkeypatch):
    """The lint is never part of a fit."""
    monkeypatch.setattr("skdp.tabular.column_checks._findings", lambda *_: 1 / 0)
    skdp.DPTabularRegressor(columns=(0, 1), target_range=(0, 1)).fit([[0.5]] * 9, [0.5] * 9)

"""Features of rows: their norm, their independence of other rows, names, libraries, sketches."""

import datetime as dt
import warnings
from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given, settings

from skdp.data import ChunkSource
from skdp.tabular import (
    Category,
    Date,
    DPTabularClassifier,
    DPTabularRegressor,
    FeaturePlan,
    Number,
    TableEncoder,
    Text,
)
from skdp.tabular.pair_sketch import PairSketch
from skdp.tabular.row_features import RowFeatures

COLUMNS = {
    "age": Number(18, 90, missing=True),
    "pay": Number(0, 1e6, log=1000.0),
    "hours": (0, 80),
    "job": Category(["clerk", "cook", "judge"], missing=True),
    "grade": [1, 2, 3],
    "vip": Category([False, True], missing=True),
    "joined": Date("2015-01-01", "2026-01-01", missing=True),
    "note": Text(16),
}
PLANS = [
    FeaturePlan.fixed("linear"),
    FeaturePlan.fixed("curves"),
    FeaturePlan(frequencies=(2, 3), products=True, n_sketch=45),
    FeaturePlan(n_sketch=30),
]
PAIRS = [("job", "age"), ("vip", "joined_month")]
numbers = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False), st.sampled_from([5e-324, -1e308, 0.0, 54.0])
)
ROWS = st.tuples(
    st.one_of(numbers, st.none()),
    numbers,
    numbers,
    st.sampled_from(["clerk", " cook", "judge", "lawyer", None, 7]),
    st.sampled_from([1, 2.0, "3", "x"]),
    st.sampled_from([True, 0, "yes", None]),
    st.sampled_from([dt.datetime(2017, 8, 9, 10), "2031-02-28", "", None]),
    st.sampled_from(["", "a b c", "wine wine", None]),
)


def frame_of(rows):
    return pd.DataFrame(rows, columns=list(COLUMNS), dtype=object)


def table(n=50, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": np.where(rng.random(n) < 0.1, np.nan, rng.uniform(15, 95, n)),
            "pay": rng.exponential(3e4, n),
            "hours": rng.integers(0, 80, n),
            "job": rng.choice(np.array(["clerk", "cook", "judge", "lawyer", None], object), n),
            "grade": rng.integers(1, 5, n),
            "vip": rng.random(n) < 0.3,
            "joined": np.datetime64("2016-01-01") + rng.integers(0, 3000, n).astype("m8[D]"),
            "note": rng.choice(["good wine", "", "bad"], n),
        }
    )


@settings(max_examples=25)
@given(st.lists(ROWS, min_size=1, max_size=4), st.sampled_from(PLANS))
@example([(None, 1e308, 80, "x", 3, True, "", "a")], PLANS[2])
def test_every_row_has_norm_at_most_one(rows, plan):
    """Exactly, in rational arithmetic, whatever the record."""
    encoder = TableEncoder(COLUMNS, features=plan, pairs=PAIRS)
    for row in encoder.fit(table(9)).transform(frame_of(rows)):
        assert sum(Fraction(float(value)) ** 2 for value in row) <= 1


def test_long_rows_are_shortened_to_one_and_others_are_not():
    """Most entries of a sketch at their largest: all numbers at an end of their range."""
    X = np.vstack([np.ones((1, 9)), -np.ones((1, 9)), np.zeros((1, 9))])
    encoder = TableEncoder(features="pairs").fit(X)
    features = encoder.row_features
    before = features.unbounded(list(X.T))
    norms, after = np.linalg.norm(before, axis=1), encoder.transform(X)
    assert (norms[:2] > 1.1).all() and norms[2] < 1.0
    np.testing.assert_allclose(after[:2], before[:2] / norms[:2, None], rtol=1e-12)
    np.testing.assert_array_equal(after[2], before[2])


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_a_row_does_not_depend_on_others(plan):
    """Permuted, split, one by one: the same bits."""
    X = table(700)
    encoder = TableEncoder(COLUMNS, features=plan, pairs=PAIRS)
    Z = encoder.fit_transform(X)
    order = np.random.default_rng(1).permutation(len(X))
    np.testing.assert_array_equal(encoder.transform(X.iloc[order]), Z[order])
    np.testing.assert_array_equal(encoder.transform(X.iloc[333:]), Z[333:])
    for i in (0, 1, 299, 699):
        np.testing.assert_array_equal(TableEncoder.transform(encoder, X.iloc[[i]]), Z[[i]])


def test_nothing_is_learned():
    one, two = (TableEncoder(COLUMNS).fit(table(seed=seed)) for seed in (0, 1))
    assert sorted(vars(one)) == sorted(vars(two))
    assert (one.schema_, one.feature_plan_) == (two.schema_, two.feature_plan_)
    np.testing.assert_array_equal(one.transform(table()), two.transform(table()))


@pytest.mark.parametrize("columns", [{"a": (0, 1), "b": (0, 2)}, [(0, 1), (0, 2)]], ids=type)
def test_declarations_are_those_of_the_fit(columns):
    X = pd.DataFrame({"a": [0.2, 0.9], "b": [0.3, 1.7]})
    encoder = TableEncoder(columns).fit(X)
    expected = encoder.transform(X)
    columns["a" if isinstance(columns, dict) else 0] = (-300, 300)
    np.testing.assert_array_equal(encoder.transform(X), expected)


@pytest.mark.parametrize(
    "other",
    [
        lambda frame: pl.DataFrame(
            {name: [None if pd.isna(v) else v for v in frame[name]] for name in frame}
        ),
        lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
        lambda frame: frame.convert_dtypes(),
        lambda frame: frame.astype({"job": "category", "grade": "string", "joined": object}),
        lambda frame: frame.astype({"hours": "Int8", "pay": object, "vip": "string"}),
        lambda frame: frame[list(frame)[::-1]],
        lambda frame: frame.assign(joined=frame["joined"].dt.strftime("%Y-%m-%d %H:%M")),
    ],
    ids=["polars", "pyarrow", "nullable", "types", "text", "order", "dates"],
)
def test_libraries_and_types_have_the_same_features(other):
    X = table()
    encoder = TableEncoder(COLUMNS, features="pairs").fit(X)
    np.testing.assert_array_equal(encoder.transform(other(X)), encoder.transform(X))
    again = TableEncoder(COLUMNS, features="pairs").fit_transform(other(X))
    np.testing.assert_array_equal(again, encoder.transform(X))


def test_a_list_declares_the_columns_of_an_array():
    X = table().drop(columns=["joined"])
    columns = {name: each for name, each in COLUMNS.items() if name != "joined"}
    by_name = TableEncoder(columns, features="pairs").fit_transform(X)
    by_position = TableEncoder(list(columns.values()), features="pairs")
    np.testing.assert_array_equal(by_position.fit_transform(X.to_numpy()), by_name)
    np.testing.assert_array_equal(by_position.fit_transform(X.to_numpy().tolist()), by_name)
    np.testing.assert_array_equal(by_position.fit_transform(X), by_name)


# of pandas 2.0 with numpy 1.24, where it writes missing values
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")
def test_a_file_of_text_changes_nothing(tmp_path):
    X = table()
    X.to_csv(tmp_path / "table.csv", index=False)
    encoder = TableEncoder(COLUMNS).fit(X)
    for dtype in (None, str):
        again = pd.read_csv(tmp_path / "table.csv", dtype=dtype)
        np.testing.assert_allclose(encoder.transform(again), encoder.transform(X), atol=1e-9)


def test_names():
    plan = FeaturePlan(frequencies=(2,), products=True, n_sketch=2)
    columns = {n: COLUMNS[n] for n in ("age", "job", "grade")}
    columns["joined"] = Date("2020-01-01", "2021-01-01", parts=("trend", "weekday"))
    pairs = [("grade", "age"), ("joined_weekday", "grade")]
    encoder = TableEncoder(columns, features=plan, pairs=pairs).fit(table()[list(columns)])
    age = ["age", "age_missing", *(f"age_cos{q}" for q in range(2, 7))]
    grades, days = [f"grade_{k}" for k in (1, 2, 3)], [f"joined_weekday_{k}" for k in range(7)]
    assert encoder.get_feature_names_out().tolist() == [
        *("age", "age_missing", "job_clerk", "job_cook", "job_judge", "job_missing"),
        *(*grades, "joined", *days, "age_cos2", "joined_cos2", "age*joined"),
        *(f"{one}*{other}" for one in age for other in grades),
        *(f"{one}*{other}" for one in grades for other in days),
        *("pairs_0", "pairs_1"),
    ]
    clash = TableEncoder({"a": Category(["missing", "x"], missing=True)})
    clash.fit(pd.DataFrame({"a": ["x"]}))
    assert list(clash.get_feature_names_out()) == ["a_missing", "a_x", "a_missing_"]


def test_sparse_rows_are_shortened():
    """Numbers at their ends would make rows of a norm of 1.14."""
    n, columns = 50, {f"x{j}": (0, 1) for j in range(9)} | {"level": list(range(200))}
    X = pd.DataFrame({f"x{j}": np.ones(n) for j in range(9)} | {"level": np.arange(n)})
    rows = TableEncoder(columns, features="linear").fit_transform(X)
    assert all(sum(Fraction(float(v)) ** 2 for v in row.data) <= 1 for row in rows)
    assert rows.power(2).sum(axis=1).min() > 0.999


def test_sparse_and_dense_features_are_the_same(monkeypatch):
    wide = {"job": Category(["cook", *range(60)], missing=True), "note": Text(512)}
    columns = {**COLUMNS, **wide}
    encoder = TableEncoder(columns, features="linear").fit(table())
    found = encoder.transform(table())
    monkeypatch.setattr(RowFeatures, "is_sparse", False)
    dense = encoder.transform(table())
    assert found.format == "csr"
    np.testing.assert_allclose(found.toarray(), dense, rtol=0, atol=1e-15)
    assert isinstance(TableEncoder(columns).fit_transform(table()), np.ndarray)


def test_the_values_of_features():
    """One number, one category: the blocks by hand."""
    plan = FeaturePlan(frequencies=(2, 5))
    encoder = TableEncoder([Number(0, 4, missing=True), ["a", "b"]], features=plan)
    Z = encoder.fit_transform([[3, "b"], [None, "x"]])
    weights = np.array([0.45 * 2 / 2, 0.45 * 2 / 5])
    divisor = np.sqrt(1.15 * (1 + np.square(weights).sum() / 4))
    angle = np.pi * (0.5 + 1) / 2
    row = [1.25 * 0.5, 0, 0, 1, *weights * np.cos([2 * angle, 5 * angle])]
    np.testing.assert_allclose(Z[0], np.array(row) / np.sqrt(2) / divisor, atol=1e-15)
    np.testing.assert_allclose(Z[1], np.eye(6)[1] / np.sqrt(2) / divisor, atol=1e-15)


def test_declared_pairs_of_a_row():
    """All products of features of two columns, which an array has by position."""
    encoder = TableEncoder([(0, 4), ["a", "b"]], features="linear", pairs=[(1, 0)])
    Z = encoder.fit_transform([[3, "b"], [1, "x"]])
    divisor, t = np.sqrt(1.15 * 1.5), np.pi * 0.75
    curves = np.array([0.7, 0.47, 0.35, 0.28, 0.23]) * np.cos(np.arange(2, 7) * t)
    number = np.array([1.25 * 0.5, *curves])
    products = np.sqrt(2) * np.outer(number, [0, 1]).ravel() / 2
    row = [1.25 * 0.5 / np.sqrt(2), 0, 1 / np.sqrt(2), *products]
    np.testing.assert_allclose(Z[0], np.array(row) / divisor, atol=1e-15)
    assert not Z[1, 1:].any()


def test_products_and_sketch_of_a_row():
    X = np.array([[0.5, -0.2, 1.0]])
    plan = FeaturePlan(products=True, n_sketch=30)
    features = TableEncoder(features=plan).fit(X).row_features
    values = list(X.T)
    found = features.unbounded(values)[0] * features.divisor
    products = 0.35 * 3 / np.sqrt(3) * np.array([-0.1, 0.5, -0.2])
    np.testing.assert_allclose(found[3:6], products, rtol=1e-14)
    phi = features.phi(values)[0]
    t = np.pi * (X[0] + 1) / 2
    curves = [0.7 * np.cos(2 * t), 0.47 * np.cos(3 * t)]
    np.testing.assert_allclose(phi, np.hstack([1.25 * X[0], *curves]) / np.sqrt(3), atol=1e-15)
    sketch = features.sketch
    slow = np.zeros(30)
    for a in range(len(phi)):
        for b in range(len(phi)):
            k = (sketch.buckets[0, a] + sketch.buckets[1, b]) % 30
            slow[k] += sketch.signs[0, a] * sketch.signs[1, b] * phi[a] * phi[b]
    np.testing.assert_allclose(found[6:], 0.3 * slow, rtol=0, atol=1e-15)
    w = np.random.default_rng(0).standard_normal(30)
    assert phi @ sketch.quadratic_form(w) @ phi == pytest.approx(w @ slow, abs=1e-13)


def test_the_sketch_is_frozen():
    """Models of one version are read by the next ones."""
    sketch = PairSketch.of(8, 45)
    buckets = [[43, 23, 16, 37, 0, 35, 35, 16], [0, 13, 12, 15, 39, 17, 0, 13]]
    signs = [[-1, 1, 1, 1, 1, -1, 1, 1], [-1, 1, -1, -1, 1, 1, 1, -1]]
    assert (sketch.buckets.tolist(), sketch.signs.tolist()) == (buckets, signs)
    longer = PairSketch.of(20, 45)
    np.testing.assert_array_equal(longer.buckets[:, :8], sketch.buckets)
    X = np.linspace(-1, 1, 15).reshape(3, 5)
    Z = TableEncoder(features=FeaturePlan(n_sketch=30)).fit_transform(X)
    assert Z.sum(axis=1) == pytest.approx(
        [-1.9217157524650081, 0.0005452609564783016, 1.3669727915143584], rel=1e-12
    )


@settings(max_examples=15)
@given(st.lists(ROWS, min_size=1, max_size=3))
def test_no_record_warns(rows):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TableEncoder(COLUMNS, features="pairs").fit(table(9)).transform(frame_of(rows))


@pytest.mark.parametrize(
    ("columns", "change", "message"),
    [
        ({**COLUMNS, "hour": (0, 1)}, [*COLUMNS][1:], "X does not have: 'age', 'hour'.$"),
        ({"Hours": (0, 80)}, ["hours"], r"does not have: 'Hours' \(did you mean 'hours'\?\)"),
        (
            {"age": COLUMNS["age"]},
            ["age", "pay"],
            r"without .*: \['pay'\]. If one .* columns_left=",
        ),
        ({"age": (0, 1)}, ["age"], "Column 'age' has missing values"),
        ({"age": ...}, ["age"], "Column 'age' is still to be declared"),
        ({"job": (0, 1)}, ["job"], "Column 'job' was declared Number but holds text"),
        ({"joined": (0, 1)}, ["joined"], "Column 'joined' was declared Number but holds dates"),
        (COLUMNS, lambda X: X.to_numpy(), r"X has no column names: pass a data frame or a list"),
        ([(0, 1)] * 3, lambda X: X.to_numpy()[:, :4], r"3 declarations, X has 4 columns.$"),
        (([0, 1], [8, 9]), ["pay"], r"2 declarations, X .* list\(zip\(lower, upper"),
        (([0, 0], [1, 1]), ["pay"], r"lists a value twice.* list\(zip\(lower, upper"),
        ((0, 1), lambda X: X[["job"]].to_numpy(), "'x0' was declared Number but holds text"),
        (COLUMNS, ["age", *COLUMNS], r"X has two columns named 'age'"),
        (Number(), ["hours"], r"was declared Number\(\) without limits"),
        ([Number(), (0, 1)], lambda X: np.zeros((3, 2)), r"declared Number\(\) without limits"),
        ({}, [*COLUMNS], "declares no column"),
        ("ab", [*COLUMNS], "columns must be a dict"),
        ((0, 1), lambda X: X[["hours"]].iloc[:0], "minimum of 1 is required"),
    ],
)
def test_errors_name_the_column_and_no_value(columns, change, message):
    X = change(table()) if callable(change) else table()[change]
    encoder = TableEncoder(columns)
    with pytest.raises(ValueError, match=message) as refused:
        encoder.fit(X)
    assert not hasattr(encoder, "schema_")
    values = {"clerk", "cook", "judge", "lawyer", "good wine", "2016"}
    assert not any(value in str(refused.value) for value in values)


def test_all_columns_at_fault_are_named_at_once():
    X = table()[["age", "job", "note"]]
    with pytest.raises(ValueError, match=r"(?s)'age' has .*\n.*'job' has missing") as refused:
        TableEncoder({"age": (0, 1), "job": ["cook"], "note": Text()}).fit(X)
    assert str(refused.value).count("\n") == 1
    with pytest.raises(ValueError, match=r"'hours' has no value .* A range .*: \(-1, 80\)"):
        TableEncoder({"hours": [-1, 80]}).fit(table()[["hours"]])
    with pytest.raises(ValueError, match=r"'a' has no value .*\n.*'b' has no value"):
        TableEncoder({"a": ["?"], "b": ["?"]}).fit(pd.DataFrame({"a": ["x"], "b": ["y"]}))
    with pytest.raises(ValueError, match=r"(?s)'job' was declared.*describe_columns\(X\)"):
        TableEncoder().fit(X)
    with pytest.raises(TypeError, match=r"collect\(\)"):
        TableEncoder().fit(pl.DataFrame({"a": [1]}).lazy())


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"features": "all"}, "features == 'all'"),
        ({"pairs": "ab"}, "pairs must be a list of pairs of names, got 'ab'"),
        ({"pairs": ["ab"]}, "pairs must hold pairs of names of columns, got 'ab'"),
        ({"pairs": [("x0", "x1")]}, "pairs names 'x1', which is not declared"),
        ({"pairs": [("x0", "x0")]}, r"pairs holds \('x0', 'x0'\): two columns are needed"),
        ({"columns": [Text()], "pairs": [(0, 0)]}, "pairs names 0, whose declaration is Text"),
    ],
)
def test_invalid_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        TableEncoder(**parameters).fit([[0.0]])


def test_one_declared_category_in_a_column_is_enough():
    """Wherever it stands, and in sources none; others count where they have a feature."""
    X, y = pd.DataFrame({"x": ["b"] * 99 + ["a"]}), np.zeros(100)
    parts = [slice(0, 50), slice(50, 100)]
    encoder = TableEncoder({"x": ["a"]}, features="linear").fit(X)
    assert encoder.transform(X).sum() == encoder.transform(X)[-1].sum() > 0.0
    TableEncoder({"x": ["a"]}).fit(ChunkSource(lambda k: X[parts[k]], n_chunks=2))
    TableEncoder({"x": Category(["z"], other=True)}).fit(X)
    model = DPTabularRegressor(columns={"x": ["z"]}, target_range=(0, 1))
    with pytest.raises(ValueError, match="'x' has no value"):
        model.fit(X, y)
    model.fit(ChunkSource(lambda k: (X[parts[k]], y[parts[k]]), n_chunks=2))
    assert model.encoder_.n_features_in_ == 1
    assert model.set_params(columns={"x": ["a"]}).fit(X, y).encoder_.n_features_in_ == 1


def test_records_in_chunks_are_encoded_where_they_are_read():
    X = table(100)
    encoder = TableEncoder(COLUMNS, features="pairs").fit(X)
    source = ChunkSource(lambda k: X[30 * k : 30 * k + 30], n_chunks=4)
    fitted = TableEncoder(COLUMNS, features="pairs")
    for mapped in (source.map(encoder), encoder.transform(source), fitted.fit_transform(source)):
        rows = np.concatenate([mapped.read(k).X for k in range(4)])
        np.testing.assert_array_equal(rows, encoder.transform(X))


def test_frames_of_dask_are_encoded_and_predicted_lazily():
    dask = pytest.importorskip("dask.dataframe")
    X = table(100).drop(columns=["job", "note"])
    columns = {name: COLUMNS[name] for name in X}
    encoder, lazy = TableEncoder(columns).fit(X), dask.from_pandas(X, npartitions=3)
    np.testing.assert_array_equal(encoder.transform(lazy).compute(), encoder.transform(X))
    y = np.array([0, 1] * 50)
    model = DPTabularClassifier(columns=columns, classes=[0, 1], random_state=0).fit(X, y)
    for name in ("predict", "predict_proba"):
        found = getattr(model, name)(lazy).compute()
        np.testing.assert_allclose(found, getattr(model, name)(X), rtol=1e-12)


def test_columns_that_are_not_declared_may_be_dropped():
    """The features are those of the declared columns alone."""
    frame = pd.DataFrame({"a": [0.5, 0.1], "pay": [1.0, 2.0]})
    found = TableEncoder({"a": (0, 1)}, columns_left="drop").fit_transform(frame)
    np.testing.assert_array_equal(found, TableEncoder({"a": (0, 1)}).fit_transform(frame[["a"]]))

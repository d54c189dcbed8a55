import json
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from refusals import one_at_a_time
from sklearn.cluster import KMeans
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skdp.privacy import PrivacyLeakWarning
from skdp.synthetic import DPSyntheticData

CATEGORIES = {"job": ["a", "b", "c", "d"], "ill": [False, True], "age": [20, 40, 60]}
N = 2000


def values(n=N, seed=0):
    rng = np.random.default_rng(seed)
    job = rng.choice(["a", "b", "c"], n, p=[0.5, 0.3, 0.2])
    ill = rng.random(n) < np.where(job == "a", 0.8, 0.2)
    return {"job": job, "ill": ill, "age": rng.choice([20, 40, 60], n)}


def pandas_table(n=N, seed=0):
    columns = values(n, seed)
    job = pd.Categorical(columns["job"])
    return pd.DataFrame({**columns, "job": job, "age": columns["age"].astype("int16")})


def polars_table(n=N, seed=0):
    types = {"job": pl.Enum(["a", "b", "c"]), "ill": pl.Boolean, "age": pl.Int16}
    return pl.DataFrame({k: v.tolist() for k, v in values(n, seed).items()}, schema=types)


def array_table(n=N, seed=0):
    return np.column_stack([column.astype(object) for column in values(n, seed).values()])


def declared(**parameters):
    return DPSyntheticData(**{"categories": CATEGORIES, "random_state": 0, **parameters})


def lists():
    return list(CATEGORIES.values())


def test_frames_keep_names_and_types():
    out = declared().fit(polars_table()).sample(50, random_state=1)
    assert isinstance(out, pl.DataFrame)
    types = {"job": pl.Enum(CATEGORIES["job"]), "ill": pl.Boolean, "age": pl.Int16}
    assert dict(out.schema) == types
    model = declared().fit(pandas_table())
    out = model.sample(50, random_state=1)
    assert isinstance(out, pd.DataFrame)
    assert list(out.columns) == ["job", "ill", "age"]
    assert out["ill"].dtype == bool
    assert out["age"].dtype == "int16"
    # the type lists the declared categories, and not those of the records
    assert list(out["job"].dtype.categories) == CATEGORIES["job"]
    assert set(out["age"]) <= {20, 40, 60}
    assert list(model.feature_names_in_) == ["job", "ill", "age"]


@pytest.mark.parametrize("dtype", ["<U1", "S1", "int8", "float32", "bool"])
def test_arrays_keep_their_type(dtype):
    X = np.array([[0, 1], [1, 1], [1, 0]]).astype(dtype)
    found = sorted(set(X.ravel().tolist()))
    out = DPSyntheticData(categories=[found, found], random_state=0).fit(X).sample(9)
    assert out.dtype == X.dtype
    assert out.shape == (9, 2)
    assert set(out.ravel().tolist()) <= set(found)


def test_the_kind_of_table_does_not_matter():
    tables = [
        declared().fit(pandas_table()).distribution_,
        declared().fit(polars_table()).distribution_,
        declared(categories=lists()).fit(array_table().tolist()).distribution_,
    ]
    for table in tables[1:]:
        np.testing.assert_array_equal(table, tables[0])
    assert tables[0].shape == (4, 2, 3)


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_missing_values_are_a_category_if_declared(missing):
    X = np.array([["u", missing], ["v", "q"], ["v", missing]], dtype=object)
    parameters = {"random_state": 0, "delta": 1e-3}
    model = DPSyntheticData(categories=[["u", "v"], [None, "q"]], **parameters).fit(X)
    assert model.sample(20).shape == (20, 2)
    with pytest.raises(ValueError, match="NaN"):
        DPSyntheticData(categories=[["u", "v"], ["q"]], **parameters).fit(X)
    numbers = DPSyntheticData(categories=[[0.5, missing]], **parameters).fit([[0.5], [np.nan]])
    assert numbers.sample(20).dtype == float


def test_answers_and_samples_are_near_the_records():
    """n = 2000, epsilon 5: marginals within 0.05, seeded."""
    frame = pandas_table()
    model = declared(epsilon=5.0).fit(frame)
    exact = pd.crosstab(frame["job"].astype(str), frame["ill"]).to_numpy() / N
    found = model.answer([("job", "ill")])[("job", "ill")]
    assert np.abs(found[:3] - exact).max() < 0.05
    np.testing.assert_allclose(model.answer([("ill", "job")])[("ill", "job")], found.T)
    sample = model.sample(N, random_state=0)
    again = pd.crosstab(sample["job"], sample["ill"], dropna=False).to_numpy() / N
    assert np.abs(again - found).max() < 0.01
    assert set(model.answer()) == {("job", "ill"), ("job", "age"), ("ill", "age")}
    assert set(model.answer("1-way")) == {("job",), ("ill",), ("age",)}
    np.testing.assert_allclose(model.distribution_.sum(axis=2), found, atol=1e-9)


def cells_of(frame):
    codes = frame["job"].cat.codes, frame["ill"].astype(int), frame["age"] // 20 - 1
    return np.ravel_multi_index(codes, (4, 2, 3))


@pytest.mark.parametrize("method", ["adaptive", "mirror_descent"])
def test_queries_of_three_columns(method):
    """n = 2000, epsilon 10: total variation of the whole table, seeded."""
    frame = pandas_table()
    model = declared(epsilon=10.0, queries="3-way", method=method).fit(frame)
    (key, found), *others = model.answer().items()
    assert key == ("job", "ill", "age") and not others
    exact = np.bincount(cells_of(frame), minlength=24).reshape(4, 2, 3) / N
    assert 0.5 * np.abs(found - exact).sum() < (0.03 if method == "adaptive" else 0.06)


def test_queries_of_a_matrix():
    rng = np.random.default_rng(0)
    matrix = rng.integers(0, 2, (20, 24)).astype(float)
    frame = pandas_table()
    cells = cells_of(frame)
    for method in ("adaptive", "mirror_descent"):
        model = declared(epsilon=10.0, queries=matrix, method=method).fit(frame)
        error = np.abs(model.answer() - matrix[:, cells].mean(axis=1))
        assert error.max() < (0.05 if method == "adaptive" else 0.15)
        np.testing.assert_allclose(model.answer(matrix[:3]), model.answer()[:3])


REFUSED = [
    *one_at_a_time(
        epsilon=[0], delta=[1.0], queries=["pairs", "0-way", np.ones((2, 5))], method=["magic"],
        categories=["all", 3], random_state=["x"],
    ),
    ({"method": "adaptive", "delta": 0.0}, "needs delta > 0"),
    ({"neighbouring": "add_remove"}, "replace_one"),
    ({"categories": lists()[:2]}, "2 lists"),
    ({"categories": ["ab", [0], [1]]}, "one list per column"),
    ({"categories": [["a", "a"], [0], [1]]}, "distinct"),
    ({"categories": {"job": ["a"]}}, "missing"),
    ({"categories": {**CATEGORIES, "pay": [1]}}, "unknown"),
]  # fmt: skip


@pytest.mark.parametrize(("parameters", "match"), REFUSED)
def test_bad_parameters(parameters, match):
    with pytest.raises(ValueError, match=match):
        declared(**parameters).fit(pandas_table(20))


def test_marginals_of_more_columns_than_there_are():
    with pytest.raises(ValueError, match="queries == '4-way', but X has 3 columns"):
        declared(queries="4-way").fit(pandas_table())
    one = DPSyntheticData(categories=[["a", "b", "c"]], random_state=0)
    assert one.fit(array_table()[:, :1]).answer("1-way").keys() == {(0,)}
    with pytest.raises(ValueError, match="a list of tuples of column names"):
        one.answer(["job"])


def test_undeclared_values_are_refused_without_being_named():
    frame = pandas_table(50)
    frame["age"] = frame["age"].where(np.arange(50) != 7, 33)
    with pytest.raises(ValueError, match="Column 'age'") as caught:
        declared().fit(frame)
    assert "33" not in str(caught.value)
    model = declared().fit(pandas_table(50))
    with pytest.raises(ValueError, match="Column 'age'"):
        model.transform(frame)


def test_only_inferred_categories_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        declared().fit(pandas_table())
    with pytest.warns(PrivacyLeakWarning, match="`categories`"):
        model = declared(categories="auto").fit(pandas_table())
    assert [list(part) for part in model.categories_] == [["a", "b", "c"], [0, 1], [20, 40, 60]]
    assert any("categories" in caveat for caveat in model.privacy_.caveats)


def test_the_first_step_of_a_pipeline():
    """What follows is fitted to synthetic records; predictions are for real ones."""
    frame, seen = pandas_table(300), []

    class Seen(OneHotEncoder):
        def fit(self, X, y=None):
            seen.append(X)
            return super().fit(X)

    pipeline = make_pipeline(
        declared(), Seen(sparse_output=False), KMeans(2, n_init=1, random_state=0)
    )
    labels = pipeline.fit(frame).predict(frame)
    assert labels.shape == (300,)
    assert seen[0].shape == frame.shape
    assert not seen[0].equals(frame)
    # the pipeline's own transform passes real records on
    pd.testing.assert_frame_equal(pipeline[0].transform(frame), frame)
    with pytest.warns(PrivacyLeakWarning, match="column of X"):  # a target beside the table
        declared().fit_transform(frame, np.zeros(300))


def test_reports():
    model = declared(random_state=None).fit(pandas_table())
    report = model.privacy_
    assert (report.epsilon, report.delta, report.method) == (1.0, 1e-6, "adaptive")
    assert json.loads(json.dumps(report.to_dict()))["plan"]["n_categories"] == [4, 2, 3]
    assert not report.caveats
    assert "all pairs of columns are measured" in str(report)
    X = np.random.default_rng(0).integers(0, 9, (100, 5))
    wide = DPSyntheticData(categories=[range(9)] * 5, random_state=0).fit(X).privacy_
    assert "single columns" in str(wide)
    with pytest.warns(UserWarning, match="delta == 0.1"):
        declared(delta=0.1).fit(pandas_table(50))
    assert declared(delta=0.0).fit(pandas_table(50)).privacy_.method == "mirror_descent"


def test_what_needs_a_fit():
    model = declared()
    for call in (model.sample, model.answer, lambda: model.transform(pandas_table(5))):
        with pytest.raises(NotFittedError):
            call()
    assert not hasattr(model, "distribution_")
    fitted = declared().fit(pandas_table(50))
    with pytest.raises(ValueError, match="n_samples"):
        fitted.sample(0)
    with pytest.raises(ValueError, match="did not have"):
        fitted.answer([("job", "pay")])
    with pytest.raises(ValueError, match="distinct"):
        fitted.answer([("job", "job")])


def test_wide_tables_have_answers_but_no_table():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 10, (500, 12))
    model = DPSyntheticData(categories=[range(10)] * 12, random_state=0).fit(X)
    assert not hasattr(model, "distribution_")
    assert model.answer([(0, 11)])[(0, 11)].shape == (10, 10)
    with pytest.raises(ValueError, match="mirror_descent"):
        DPSyntheticData(categories=[range(10)] * 12, method="mirror_descent").fit(X)


KINDS = {
    "list": lambda values: [[value] for value in values],
    "array": lambda values: np.array([[value] for value in values]),
    "objects": lambda values: np.array([[value] for value in values], dtype=object),
    "pandas": lambda values: pd.DataFrame({0: values}),
    "nullable": lambda values: pd.DataFrame({0: values}).convert_dtypes(),
    "polars": lambda values: pl.DataFrame({"a": values}, strict=False),
}


#: Declared categories, and two columns of neighbours.
NEIGHBOURS = [
    ([0, 1, 2.5], [0, 1], [0, 2.5]),
    ([0, 1, None], [0, 1], [0, None]),
    ([0, 1, 2], [0, 1], [0, True]),
    ([True, False, None], [True, False], [True, None]),
    (["a", "b", None], ["a", "b"], ["a", None]),
    ([0, 2**60 + 1, None], [0, 2**60 + 1], [0, 0]),
    ([0.5, 1, None], [1, 1], [1, None]),
]


@pytest.mark.parametrize(
    ("kind", "number"),
    [(kind, (i + shift) % 7) for i, kind in enumerate(KINDS) for shift in (0, 1, 4)],
)
def test_declared_categories_decide_the_type_and_never_the_records(kind, number):
    """Neighbours give samples of one type, which holds every category."""
    categories, values, others = NEIGHBOURS[number]
    if kind == "nullable" and others == [0, True]:
        pytest.skip("pandas has no such column of its own types")
    found = []
    for column in (values, others):
        model = DPSyntheticData(100.0, categories=[categories], random_state=0)
        model.fit(KINDS[kind](20 * column))
        out = model._format.decode(np.arange(len(categories))[:, None], model._categories)
        found.append(str(getattr(out, "dtypes", getattr(out, "dtype", None))))
        column = out[out.columns[0]] if hasattr(out, "columns") else out[:, 0]
        cells = column.to_list() if hasattr(column, "to_list") else column.tolist()
        for cell, category in zip(cells, categories, strict=True):
            assert cell == category or category is None
    assert found[0] == found[1]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "Int8", "float32"])
def test_a_type_too_narrow_for_a_category_is_not_kept(dtype):
    frame = pd.DataFrame({"a": [0, 1] * 20}).astype(dtype)
    array = frame.to_numpy(np.dtype(dtype.lower()))
    for X in (frame, array, pl.DataFrame(array)):
        model = DPSyntheticData(categories=[[0, 1, 2**30 + 1]], random_state=0).fit(X)
        out = np.asarray(model._format.decode(np.arange(3)[:, None], model._categories)).ravel()
        assert out.tolist() == [0, 1, 2**30 + 1]


@pytest.mark.parametrize("words", [["a", "b", "long"], [b"a", b"b", b"long"], ["a", "b", 7]])
def test_the_type_of_strings_holds_all_categories(words):
    X = np.array(20 * words[:2])[:, None]
    model = DPSyntheticData(categories=[words], random_state=0).fit(X)
    out = model._format.decode(np.arange(3)[:, None], model._categories)
    assert out.ravel().tolist() == words


@pytest.mark.parametrize("kind", KINDS)
def test_floats_are_no_categories_unless_declared(kind):
    X = KINDS[kind]([0.25, 1.75] * 10)
    with pytest.raises(ValueError, match="fractional numbers") as caught:
        DPSyntheticData(random_state=0).fit(X)
    assert "1.75" not in str(caught.value)
    DPSyntheticData(categories=[[0.25, 1.75]], random_state=0).fit(X)
    with pytest.warns(PrivacyLeakWarning, match="categories"):
        whole = DPSyntheticData(random_state=0).fit(KINDS[kind]([0.0, 2.0] * 10))
    assert whole.categories_[0].tolist() == [0.0, 2.0]

"""X of kinds that no estimator takes: a TypeError or a ValueError with a sentence, and no fit."""

from __future__ import annotations

import functools
import warnings

import dask.array
import dask.dataframe
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from every_estimator import ESTIMATORS, declared, records

from skdp import BudgetAccountant
from skdp.algorithms.plan import MOST_NUMBERS
from skdp.data import DataError, ParquetRecords
from skdp.linear_model import DPLogisticRegression, DPRidge
from skdp.mechanisms import NoiseSource
from skdp.preprocessing import BoundedScaler, BoundedSplineTransformer, DPStandardScaler
from skdp.synthetic import DPSyntheticData
from skdp.tabular import DPTabularClassifier, DPTabularRegressor, TableEncoder

N = 40
ROWS = np.random.default_rng(0).uniform(-0.5, 0.5, (N, 2))
Y = (ROWS[:, 0] > 0).astype(int)


def dated():
    days = np.arange(N).astype("M8[D]")
    return np.column_stack([days, days])


def with_field(X, name, value):
    """A copy of a sparse matrix with one entry of a field replaced."""
    X = X.copy()
    place, number = value
    getattr(X, name)[place] = number
    return X


def broken(n=N, d=2):
    """Matrices of which SciPy's compiled loops would read or write out of bounds."""
    rows = sp.random(n, d, density=0.7, format="csr", random_state=0)
    for name, value in {
        "indices": (0, d),
        "indices ": (1, -1),
        "indices  ": (2, 10**9),
        "indptr": (3, 10**6),
        "indptr ": (3, -5),
        "indptr  ": (-1, 10**6),
        "indptr   ": (0, 1),
    }.items():
        yield f"csr {name} {value}", with_field(rows, name.strip(), value)
    yield "csc", with_field(rows.tocsc(), "indices", (0, n))
    yield "bsr", with_field(rows.tobsr((2, 2)), "indices", (0, 1))
    yield "coo rows", with_field(rows.tocoo(), "row", (0, n))
    yield "coo columns", with_field(rows.tocoo(), "col", (0, -1))
    short = rows.copy()
    short.data = short.data[:-1]
    yield "csr without the last entry", short
    lists = rows.tolil()
    lists.rows[0] = [d + 7] * len(lists.rows[0])
    yield "lil", lists
    lists = rows.tolil()
    lists.data[3] = lists.data[3][:-1]
    yield "lil without a value", lists


ODD = {
    "None": lambda: None,
    "number": lambda: 0.5,
    "0-d": lambda: np.array(0.5),
    "1-d": lambda: ROWS[:, 0],
    "3-d": lambda: ROWS[:, :, None],
    "text": lambda: "records.csv",
    "bytes": lambda: b"records",
    "dict": lambda: {"a": ROWS[:, 0], "b": ROWS[:, 1]},
    "set": lambda: {0.1, 0.2},
    "generator": lambda: (row for row in ROWS),
    "function": lambda: len,
    "class": lambda: pd.DataFrame,
    "ragged": lambda: [[0.1, 0.2]] * (N - 1) + [[0.1]],
    "nested": lambda: [[[0.1], 0.2]] * N,
    "complex": lambda: ROWS + 1j,
    "structured": lambda: np.zeros(N, dtype=[("a", float), ("b", float)]),
    "objects": lambda: np.full((N, 2), object(), dtype=object),
    "no rows": lambda: ROWS[:0],
    "no columns": lambda: ROWS[:, :0],
    "dates": dated,
    "1-d coo": lambda: sp.coo_array(ROWS[:, 0]),
    "1-d csr": lambda: sp.csr_array(ROWS[:, 0]),
    "1-d dok": lambda: sp.dok_array(ROWS[:, 0]),
    "series": lambda: pd.Series(ROWS[:, 0]),
    "names twice": lambda: pd.DataFrame(np.hstack([ROWS, ROWS]), columns=list("aabb")),
    "objects in a frame": lambda: pd.DataFrame({"a": [[1]] * N, "b": [{}] * N}),
    "polars series": lambda: pl.Series("a", ROWS[:, 0]),
    "lazy frame": lambda: pl.LazyFrame({"a": ROWS[:, 0], "b": ROWS[:, 1]}),
    "arrow array": lambda: pa.array(ROWS[:, 0]),
    "dask without client": lambda: dask.array.from_array(ROWS),
    "dask series": lambda: dask.dataframe.from_pandas(pd.Series(ROWS[:, 0]), npartitions=2),
    "dask delayed": lambda: dask.delayed(ROWS),
} | {name: lambda X=X: X for name, X in broken()}
MODELS = {kind.__name__: lambda kind=kind: declared(kind) for kind in ESTIMATORS} | {
    "DPStandardScaler": lambda: DPStandardScaler(ranges=(-1, 1)),
    "BoundedScaler": lambda: BoundedScaler(ranges=(-1, 1)),
    "BoundedSplineTransformer": lambda: BoundedSplineTransformer(ranges=(-1, 1)),
    "TableEncoder": lambda: TableEncoder([(-1, 1), (-1, 1)]),
    "TableEncoder by name": lambda: TableEncoder({"a": (-1, 1), "b": (-1, 1)}),
    "TableEncoder of texts": lambda: TableEncoder([["u", "v"], ["u", "v"]]),
    "DPTabularClassifier": lambda: DPTabularClassifier(columns=(-1, 1), classes=[0, 1]),
    "DPTabularRegressor": lambda: DPTabularRegressor(
        columns={"a": (-1, 1), "b": (-1, 1)}, target_range=(-1, 1)
    ),
    "DPSyntheticData": lambda: DPSyntheticData(categories=[[0, 1], [0, 1]]),
}


@pytest.fixture(scope="module")
def fitted():
    frames = {
        "TableEncoder of texts": pd.DataFrame({"a": ["u"] * N, "b": ["v"] * N}),
        "DPSyntheticData": pd.DataFrame({"a": Y, "b": Y}),
    }
    usual = pd.DataFrame(ROWS, columns=["a", "b"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {name: MODELS[name]().fit(frames.get(name, usual), Y) for name in MODELS}


def complaint(call, X):
    """Return what is wrong with the error of a call; None if nothing is."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call(X)
    except (TypeError, ValueError) as error:
        return None if len(str(error).split()) > 3 else repr(error)
    except Exception as error:
        return repr(error)
    return "no error"


@pytest.mark.parametrize("kind", ODD)
def test_fits_refuse_them(kind, monkeypatch):
    """Before any noise or payment."""

    def draw(*args):
        raise AssertionError("noise")

    monkeypatch.setattr(NoiseSource, "words", draw)
    with BudgetAccountant(100.0, 0.1) as accountant:
        found = {
            name: complaint(functools.partial(make().fit, y=Y), ODD[kind]())
            for name, make in MODELS.items()
        }
    assert not {name: what for name, what in found.items() if what is not None}
    assert not accountant.entries


@pytest.mark.parametrize("kind", ODD)
def test_fitted_models_refuse_them(kind, fitted):
    """Or compute something: encoders take any value for one that is not declared."""
    found = {}
    for name, model in fitted.items():
        method = getattr(model, "predict", None) or getattr(model, "transform", None)
        if method is not None:
            found[name] = complaint(method, ODD[kind]())
    assert not {name: what for name, what in found.items() if what not in (None, "no error")}


@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("change", ["names", "rows"])
def test_files_that_were_written_anew(tmp_path, change, is_late):
    """Before the first pass it is an invalid input, later a DataError."""
    path = tmp_path / "t.parquet"
    frame = pd.DataFrame(ROWS, columns=["a", "b"]).assign(y=Y)
    frame.to_parquet(path, row_group_size=10)
    source = ParquetRecords(path, "y")

    def change_file(number=2, *done):
        if number < 2:
            return
        other = frame.rename(columns={"b": "c"}) if change == "names" else frame[:20]
        other.to_parquet(path, row_group_size=10)

    model = DPLogisticRegression(data_norm=1.0, classes=[0, 1])
    if is_late:
        source.progress = change_file
    else:
        change_file()
    with pytest.raises(DataError if is_late else ValueError) as caught:
        model.fit(source)
    reason = caught.value if not is_late else caught.value.__cause__
    text = "has no column 'b'" if change == "names" else "has no row group"
    assert "t.parquet" in str(caught.value) and text in str(reason)


def test_valid_matrices_stay_as_they_are():
    """With spare room behind the entries, in any format, and with any type of indices."""
    X, y = records(DPRidge, n=50)
    expected = declared(DPRidge).fit(X, y).coef_
    roomy = sp.csr_matrix(X)
    roomy.data = np.append(roomy.data, [np.pi, np.pi])
    roomy.indices = np.append(roomy.indices, [0, 0]).astype(roomy.indices.dtype)
    for kept in (roomy, *(sp.csr_matrix(X).asformat(f) for f in ("csc", "bsr", "coo", "lil"))):
        data = getattr(kept, "data", None)
        model = declared(DPRidge).fit(kept, y)
        assert getattr(kept, "data", None) is data
        np.testing.assert_allclose(model.coef_, expected, atol=1e-7)
    wide = sp.csr_matrix(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    np.testing.assert_allclose(declared(DPRidge).fit(wide, y).coef_, expected, atol=1e-7)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_absurd_numbers_of_columns_are_refused_before_the_charge(kind):
    width = 10**9 if kind is DPRidge else MOST_NUMBERS + 1
    accountant = BudgetAccountant(5.0, 1e-5)
    y = records(kind, n=20)[1]
    with pytest.raises(ValueError, match="columns, which are too many"):
        declared(kind, accountant=accountant).fit(sp.csr_matrix((20, width)), y)
    assert accountant.total().epsilon == 0


def test_many_coefficients_of_several_classes_have_the_same_bound():
    accountant = BudgetAccountant(5.0, 1e-5)
    model = DPLogisticRegression(classes=range(5), data_norm=1.0, accountant=accountant)
    with pytest.raises(ValueError, match="columns, which are too many"):
        model.fit(sp.csr_matrix((20, 1 << 24)), np.arange(20) % 5)
    assert accountant.total().epsilon == 0

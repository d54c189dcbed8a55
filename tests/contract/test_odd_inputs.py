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
from every_estimator import ESTIMATORS, declared

from skdp.data import DataError, ParquetRecords
from skdp.linear_model import DPLogisticRegression
from skdp.mechanisms import NoiseSource
from skdp.preprocessing import BoundedScaler, BoundedSplineTransformer, DPStandardScaler
from skdp.synthetic import DPSyntheticData
from skdp.tabular import DPTabularClassifier, DPTabularRegressor, TableEncoder

N = 40
ROWS = np.random.default_rng(0).uniform(-0.5, 0.5, (N, 2))
Y = (ROWS[:, 0] > 0).astype(int)


def broken(kind):
    """A sparse matrix whose last pointer is beyond its entries."""
    X = kind(ROWS)
    X.indptr[-1] = 10**6
    return X


def dated():
    days = np.arange(N).astype("M8[D]")
    return np.column_stack([days, days])


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
    "broken csr": lambda: broken(sp.csr_array),
    "broken csr matrix": lambda: broken(sp.csr_matrix),
    "broken csc": lambda: broken(sp.csc_array),
    "series": lambda: pd.Series(ROWS[:, 0]),
    "names twice": lambda: pd.DataFrame(np.hstack([ROWS, ROWS]), columns=list("aabb")),
    "objects in a frame": lambda: pd.DataFrame({"a": [[1]] * N, "b": [{}] * N}),
    "polars series": lambda: pl.Series("a", ROWS[:, 0]),
    "lazy frame": lambda: pl.LazyFrame({"a": ROWS[:, 0], "b": ROWS[:, 1]}),
    "arrow array": lambda: pa.array(ROWS[:, 0]),
    "dask without client": lambda: dask.array.from_array(ROWS),
    "dask series": lambda: dask.dataframe.from_pandas(pd.Series(ROWS[:, 0]), npartitions=2),
    "dask delayed": lambda: dask.delayed(ROWS),
}
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
    """Before any noise."""

    def draw(*args):
        raise AssertionError("noise")

    monkeypatch.setattr(NoiseSource, "words", draw)
    found = {
        name: complaint(functools.partial(make().fit, y=Y), ODD[kind]())
        for name, make in MODELS.items()
    }
    assert not {name: what for name, what in found.items() if what is not None}


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

"""Transformers and predictions on sources and on Dask collections."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from skdp import DPLogisticRegression, DPRidge
from skdp.data import ArrayRecords, ChunkSource, DataError, ParquetRecords, RecordsChangedError
from skdp.data.collections import first_rows
from skdp.preprocessing import (
    BoundedScaler,
    BoundedSplineTransformer,
    DPStandardScaler,
    private_ranges,
)
from skdp.privacy import BudgetAccountant

N = 300
SIZES = ((100, 0, 150, 50),)


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    return pd.DataFrame(rng.normal(size=(N, 3)), columns=["age", "size", "speed"])


@pytest.fixture
def parquet(frame, tmp_path):
    frame.to_parquet(tmp_path / "one.parquet", row_group_size=100)
    return ParquetRecords(tmp_path / "one.parquet")


RANGES = {"age": (-1, 1), "size": (-2, 2), "speed": (0, 1)}
TRANSFORMERS = [
    BoundedScaler(RANGES),
    BoundedSplineTransformer(RANGES, n_knots=3),
    BoundedSplineTransformer(RANGES, n_knots=3, sparse_output=True),
    make_pipeline(BoundedScaler(RANGES), BoundedSplineTransformer((-1, 1))),
]
IDS = ["scaler", "splines", "sparse splines", "pipeline"]


def dense(X):
    return X.toarray() if sp.issparse(X) else X


@pytest.mark.parametrize("transformer", TRANSFORMERS, ids=IDS)
def test_transformers_map_sources(frame, parquet, transformer):
    """With the names of the columns; what is fitted is that of a fit in memory."""
    expected = dense(transformer.fit_transform(frame))
    in_memory = vars(transformer if not hasattr(transformer, "steps") else transformer[0]).copy()
    source = transformer.fit_transform(parquet)
    np.testing.assert_array_equal(np.concatenate([*source.apply(dense)]), expected)
    on_source = vars(transformer if not hasattr(transformer, "steps") else transformer[0])
    assert on_source.keys() == in_memory.keys()
    assert list(on_source["feature_names_in_"]) == list(frame.columns)


WIDE = {"age": (-8, 8), "size": (-8, 8), "speed": (-8, 8)}


def test_private_scalers_and_ranges_are_those_in_memory(frame, parquet):
    """With the same draws, of a source that is read twice and has targets that do not matter."""
    scaler = DPStandardScaler(50.0, ranges=WIDE, random_state=0)
    expected = clone(scaler).fit(frame)
    chunks, read = [], parquet.read
    parquet.read = lambda k: chunks.append(k) or read(k)
    found = scaler.fit(parquet)
    assert len(chunks) == 1 + 2 * parquet.n_chunks  # the first rows, validity, sums
    for name in ("mean_", "var_", "scale_", "ranges_"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-12)
    assert list(found.feature_names_in_) == list(frame.columns)
    assert found.privacy_.to_dict() == expected.privacy_.to_dict()
    scaled = np.concatenate([*found.transform(parquet).apply(np.asarray)])
    np.testing.assert_allclose(scaled, expected.transform(frame), rtol=1e-9)
    options = {"quantiles": (0.3, 0.7), "epsilon": 50.0, "delta": 0.0, "random_state": 0}
    np.testing.assert_array_equal(
        private_ranges(parquet, WIDE, **options), private_ranges(frame, WIDE, **options)
    )


def test_private_scalers_take_collections_and_end_pipelines_of_sources(client, frame):
    X = collection("frame", frame)
    scaler = DPStandardScaler(50.0, ranges=WIDE, random_state=0)
    expected = clone(scaler).fit(frame)
    found = scaler.fit_transform(X)
    np.testing.assert_allclose(found.compute(), expected.transform(frame), rtol=1e-9)
    y = (frame["age"] > 0).to_numpy().astype(int)
    model = DPLogisticRegression(0.1, classes=[0, 1], data_norm=3.0, random_state=0)
    steps = make_pipeline(scaler, model).set_params(dpstandardscaler__ranges=(-8, 8))
    in_memory = clone(steps).fit(frame.to_numpy(), y)
    chunks = steps.fit(ArrayRecords(frame.to_numpy(), y, chunk_rows=70))
    np.testing.assert_allclose(chunks[-1].coef_, in_memory[-1].coef_, rtol=0, atol=1e-9)


@pytest.mark.parametrize("release", ["scaler", "ranges"])
@pytest.mark.parametrize(
    ("number", "value", "error"),
    [(1, np.nan, ValueError), (2, 0.125, RecordsChangedError), (2, np.nan, DataError)],
)
def test_columns_that_are_invalid_or_change(frame, release, number, value, error):
    """Before the payment, or after it; no value of a record is said."""

    class Changing(ArrayRecords):
        n_passes = 0

        def read(self, k):
            chunk = super().read(k)
            if k == 2 and self.n_passes == number:
                chunk.X[5, 1] = value
            return chunk

        def reduce(self, task, merge):
            self.n_passes += 1
            return super().reduce(task, merge)

    source, accountant = Changing(frame.to_numpy().copy(), chunk_rows=100), BudgetAccountant(60.0)
    with pytest.raises(error, match=r"chunk 2.*NaN" if number == 1 else "pass 2|Pass 2") as caught:
        if release == "scaler":
            DPStandardScaler(50.0, 0.0, ranges=(-8, 8), accountant=accountant).fit(source)
        else:
            private_ranges(
                source, (-8, 8), quantiles=(0.3, 0.7), epsilon=50.0, delta=0.0,
                accountant=accountant,
            )  # fmt: skip
    assert accountant.total().epsilon == pytest.approx(50.0 * (number == 2))
    assert "0.125" not in str(caught.value)


def collection(kind, frame):
    """A Dask collection with an empty partition, of which rows and columns may be unknown."""
    if kind == "frame":
        return dd.concat(
            [dd.from_pandas(frame[:100], npartitions=1), dd.from_pandas(frame[100:], npartitions=2)]
        )[["age", "size", "speed"]]
    X = da.from_array(frame.to_numpy(), chunks=(SIZES[0], (2, 1)))
    return X[X[:, 0] < 1e9] if kind == "unknown rows" else X


@pytest.mark.parametrize(
    ("number", "kind"),
    [(0, "frame"), (1, "array"), (2, "unknown rows"), (2, "frame"), (3, "frame")],
)
def test_transformers_map_collections(client, frame, number, kind):
    transformer = TRANSFORMERS[number]
    if kind != "frame":
        frame = frame.rename(columns={"age": 0, "size": 1, "speed": 2})
        transformer = clone(transformer).set_params(ranges=(-1, 1))
    X = collection(kind, frame)
    if kind == "frame" and getattr(transformer, "sparse_output", False):
        with pytest.raises(ValueError, match="Sparse results need a Dask array"):
            transformer.fit_transform(X)
        return
    found = transformer.fit_transform(X)
    expected = transformer.fit_transform(frame)
    assert found.shape[1] == expected.shape[1] and found.dtype == expected.dtype
    np.testing.assert_array_equal(dense(found.compute()), dense(expected))


@pytest.mark.parametrize(
    ("kind", "labels"),
    [("frame", (0, 1)), ("array", ("a", "b", "c")), ("unknown rows", ("no", "yes"))],
)
def test_predictions_on_collections(client, frame, kind, labels):
    """Lazy arrays, equal to the predictions in memory."""
    X = frame if kind == "frame" else frame.to_numpy()
    y = np.asarray(labels)[np.arange(N) % len(labels)]
    model = DPLogisticRegression(classes=list(labels), epsilon=10, random_state=0).fit(X, y)
    for method in ("predict", "decision_function", "predict_proba", "predict_log_proba"):
        found, expected = getattr(model, method)(collection(kind, frame)), getattr(model, method)(X)
        assert found.ndim == expected.ndim
        if method == "predict":
            np.testing.assert_array_equal(found.compute(), expected)
        else:
            np.testing.assert_allclose(found.compute(), expected, rtol=1e-9)


def test_predictions_on_sources_are_made_chunk_by_chunk(frame):
    X = frame.to_numpy()
    model = DPRidge(target_range=(0, 1), random_state=0).fit(X, X[:, 0])
    source = ArrayRecords(X, chunk_rows=70)
    np.testing.assert_array_equal(np.concatenate([*source.apply(model.predict)]), model.predict(X))
    for method in (model.predict, LogisticRegression().fit(X, X[:, 0] > 0).predict, np.asarray):
        with pytest.raises(TypeError, match=r"source\.apply\(model\.predict\)"):
            method(source)
    parts = [frame[:0], frame[:7], frame]  # fitting takes the first chunk with rows
    source = ChunkSource(parts.__getitem__, 3)
    assert first_rows(source) is parts[1] and first_rows(frame) is frame
    with pytest.raises(ValueError, match="holds no records"):
        BoundedScaler().fit(ChunkSource(parts.__getitem__, 1))

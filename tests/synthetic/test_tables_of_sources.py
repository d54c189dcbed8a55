"""Synthetic tables of sources: the releases are those of the same fit in memory, exactly."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from skdp.data import Chunk, ChunkSource, RecordsChangedError
from skdp.mechanisms import NoiseSource
from skdp.problems import categorical
from skdp.synthetic import DPSyntheticData

pytestmark = pytest.mark.filterwarnings("ignore:The categories were inferred")
SIZES = (2, 3, 4, 2, 3)
EDGES = 0, 700, 700, 701, 2400, 3000
CATEGORIES = [list(range(size)) for size in SIZES]
REGIONS = ["north", "south", "west"]
QUERIES = np.random.default_rng(1).integers(0, 3, (4, 6))


def table(n_columns=5):
    rng = np.random.default_rng(0)
    return np.column_stack([rng.integers(0, size, 3000) for size in SIZES[:n_columns]])


def frame():
    X = table(3)
    names = np.array([*REGIONS, None], dtype=object)
    return pd.DataFrame({"a": X[:, 0], "b": names[X[:, 1]], "c": names[X[:, 2]]})


def chunked(X, edges=EDGES, **options):
    names = tuple(X.columns) if hasattr(X, "columns") else None

    def read(k):
        rows = slice(edges[k], edges[k + 1])
        return X.iloc[rows] if names else X[rows]

    return ChunkSource(read, n_chunks=len(edges) - 1, feature_names=names, **options)


def assert_same(found, expected):
    assert found.privacy_.to_dict() == expected.privacy_.to_dict()
    samples = [pd.DataFrame(model.sample(50, random_state=0)) for model in (found, expected)]
    pd.testing.assert_frame_equal(*samples)
    np.testing.assert_equal(found.answer("2-way"), expected.answer("2-way"))


@pytest.mark.parametrize(
    ("X", "parameters"),
    [
        (table(), {"queries": "3-way"}),  # 2-way, by rounds and all pairs: see weights below
        (table(2), {"queries": QUERIES, "categories": CATEGORIES[:2]}),
        (table(3), {"delta": 0.0, "categories": CATEGORIES[:3]}),  # mirror descent
        (table(2), {"delta": 0.0, "queries": QUERIES, "categories": CATEGORIES[:2]}),
        (frame(), {"categories": [[0, 1], REGIONS, [None, *REGIONS]]}),
        (frame()[["a", "b"]], {"categories": "auto"}),
        (table(1), {"queries": "1-way", "categories": "auto"}),
    ],
)  # fmt: skip
def test_a_fit_is_that_in_memory(X, parameters):
    model = DPSyntheticData(**{"categories": CATEGORIES, "random_state": 0, **parameters})
    found = model.fit(chunked(X))
    assert_same(found, DPSyntheticData(**model.get_params()).fit(X))
    assert (found.n_features_in_, list(found.categories_[0])) == (X.shape[1], [0, 1])


class Counting:
    """Rows of chunks, and how often they are read."""

    def __init__(self, X, changed=None):
        self.X, self.changed, self.n_reads = X, changed, 0

    def __call__(self, k):
        self.n_reads += 1
        X = self.X[k * 1000 : (k + 1) * 1000]
        if self.changed is not None and self.n_reads >= self.changed:
            X = X.copy()
            X[0, 0] = 1 - X[0, 0]
        return X


@pytest.mark.parametrize(("cells", "n_passes"), [(1 << 18, 2), (11, 11)])
def test_all_that_rounds_need_is_counted_before_them(cells, n_passes, monkeypatch):
    monkeypatch.setattr(categorical, "_CELLS", cells)  # no marginal has more than 12
    model = DPSyntheticData(0.05, categories=CATEGORIES, random_state=0)
    read = Counting(table())
    found = model.fit(ChunkSource(read, 3, chunk_sizes=[1000] * 3))
    assert read.n_reads == 3 * n_passes + 1  # one more for the types of the columns
    assert_same(found, DPSyntheticData(**model.get_params()).fit(table()))


def test_a_record_that_changes_ends_the_fit_before_any_noise(monkeypatch):
    def draw(*args):
        raise AssertionError("noise after a fault")

    monkeypatch.setattr(NoiseSource, "words", draw)
    source = ChunkSource(Counting(table(), changed=6), 3, chunk_sizes=[1000] * 3)
    with pytest.raises(RecordsChangedError, match="pass 2"):
        DPSyntheticData(categories=CATEGORIES).fit(source)


def with_value(value):
    X = table(2).astype(object)
    X[2000, 1] = value
    return X


@pytest.mark.parametrize(
    ("X", "parameters", "message"),
    [
        (with_value(77), {}, "chunk 3: Column 1 of X holds a value that is not among"),
        (with_value(np.nan), {}, "chunk 3: .*(NaN|None)"),
        (with_value(0.123), {"categories": "auto"}, "chunk 3: Column 1 of X holds fractional"),
        (sp.csr_array(table(2)), {}, "[Ss]parse"),
        (table(2)[:0], {}, "no records"),
    ],
)
def test_what_is_refused(X, parameters, message):
    model = DPSyntheticData(**{"categories": CATEGORIES[:2], **parameters})
    with pytest.raises((TypeError, ValueError), match=message) as raised:
        model.fit(chunked(X, (0, 700, 700, 701, 2400, 3000)))
    assert "77" not in str(raised.value)
    assert "0.123" not in str(raised.value)
    assert not hasattr(model, "privacy_")


WEIGHTS = np.random.default_rng(2).uniform(0.0, 1.3, 3000)
IDS = np.sort(np.random.default_rng(3).integers(0, 700, 3000))


def weighted(weights=WEIGHTS, ids=None):
    edges = EDGES if ids is None else np.searchsorted(ids, [0, 200, 200, 201, 600, 700])
    parts = Chunk(table(), sample_weight=weights, user_ids=ids)
    return ChunkSource(lambda k: parts.take(slice(*edges[k : k + 2])), 5)


@pytest.mark.parametrize("epsilon", [0.05, 8.0])  # rounds, and all pairs
@pytest.mark.parametrize("ids", [None, IDS], ids=["records", "persons"])
def test_weights_are_those_in_memory(epsilon, ids):
    weights = np.where(WEIGHTS < 0.1, 0.0, WEIGHTS)
    model = DPSyntheticData(epsilon, categories=CATEGORIES, weight_bound=1.2, random_state=0)
    expected = clone(model).fit(table(), user_ids=ids, sample_weight=weights)
    assert_same(model.fit(weighted(weights, ids)), expected)
    assert model.privacy_.unit == ("record" if ids is None else "user")


def test_weights_that_are_refused():
    model = DPSyntheticData(categories=CATEGORIES, weight_bound=1.0)
    with pytest.raises(ValueError, match="A source holds"):
        model.fit(weighted(), sample_weight=WEIGHTS)
    with pytest.raises(ValueError, match="chunk 4: sample_weight must be finite and >= 0"):
        model.fit(weighted(np.where(np.arange(3000) == 2500, -0.123, WEIGHTS)))
    with pytest.raises(ValueError, match="has no proof for weights"):
        clone(model).set_params(method="mirror_descent").fit(weighted())
    with pytest.warns(UserWarning, match="weight_bound was not declared"):
        clone(model).set_params(weight_bound=None).fit(weighted())
    weights = WEIGHTS.copy()
    source = weighted(weights)
    source.progress = lambda *_: weights.__setitem__(7, np.nextafter(weights[7], 2.0))
    with pytest.raises(RecordsChangedError, match="pass 3"):
        model.fit(source)


def test_parquet_and_what_follows_in_pipelines(tmp_path):
    pytest.importorskip("pyarrow")
    from skdp.data import ParquetRecords

    X = frame()[["a", "b"]]
    X.to_parquet(tmp_path / "table.parquet", row_group_size=800, index=False)
    source = ParquetRecords(tmp_path / "table.parquet")
    model = DPSyntheticData(categories=[[0, 1], REGIONS], random_state=0)
    synthetic = model.fit_transform(source)
    pd.testing.assert_frame_equal(synthetic, model.fit_transform(X))
    passed_on = model.transform(source)
    pd.testing.assert_frame_equal(passed_on.read(1).X, X[800:1600].reset_index(drop=True))

"""Parquet files: columns, types, nulls, files in order, and the copy for a fit."""

import os
import pickle
import stat

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder

from skdp.data import DataError, ParquetRecords

N = 1000


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": rng.normal(size=N),
            "count": rng.integers(0, 9, N),
            "clicked": rng.integers(0, 2, N),
            "new": rng.integers(0, 2, N).astype(bool),
            "region": pd.Categorical(np.array(["west", "east"])[rng.integers(0, 2, N)]),
        }
    )


@pytest.fixture
def folder(table, tmp_path):
    """Two files of the table, in row groups of at most 300 and 200 rows."""
    return written(table, tmp_path / "events")


def written(table, folder):
    folder.mkdir()
    table[:400].to_parquet(folder / "a.parquet", row_group_size=300)
    table[400:].to_parquet(folder / "b.parquet", row_group_size=200)
    return folder


def opened(folder, *transformers, **options):
    return ParquetRecords(folder, "clicked", groups="region", **options).opened(*transformers)


def all_records(source):
    """X, y and groups of all chunks."""
    chunks = [source.read(k) for k in range(source.n_chunks)]
    return [np.concatenate([chunk[j] for chunk in chunks]) for j in range(3)]


@pytest.mark.parametrize("scratch", [False, True])
def test_records_of_two_files(table, folder, tmp_path, scratch):
    with opened(folder, scratch=tmp_path if scratch else None) as source:
        for each in (source, pickle.loads(pickle.dumps(source)), source.for_workers()):
            X, y, groups = all_records(each)
            np.testing.assert_array_equal(X, table[["age", "count", "new"]].to_numpy(float))
            assert X.dtype == float and y.dtype == table["clicked"].dtype and groups.dtype == object
            np.testing.assert_array_equal(y, table["clicked"])
            np.testing.assert_array_equal(groups, table["region"].astype(object))


def test_names_and_sizes_come_from_the_footers(folder, monkeypatch):
    monkeypatch.setattr(pq.ParquetFile, "read_row_group", None)
    source = ParquetRecords(folder, "clicked", groups="region")
    assert source.feature_names == ("age", "count", "new")
    assert source.chunk_sizes == (300, 100, 200, 200, 200)
    assert source.describe(4).endswith("events/b.parquet, row group 2)")


@pytest.mark.parametrize(
    "paths",
    [lambda folder: folder, lambda folder: str(folder) + "/", lambda folder: f"{folder}/*.parquet",
     lambda folder: f"{folder.parent}/ev*/[ab].parquet",
     lambda folder: [folder / "b.parquet", folder / "a.parquet"],
     lambda folder: f"file://{folder}/*.parquet", lambda folder: f"file://{folder}"],
)  # fmt: skip
def test_files_are_found_and_sorted(folder, paths):
    (folder / "_hidden.parquet").write_text("no Parquet")
    (folder / "readme.txt").write_text("no Parquet")
    if not isinstance(paths(folder), list) and "*.parquet" in str(paths(folder)):
        (folder / "_hidden.parquet").unlink()  # a pattern means what it matches
    source = ParquetRecords(paths(folder), "clicked")
    assert sum(source.chunk_sizes) == N
    assert "a.parquet" in source.describe(0) and "b.parquet" in source.describe(4)


def test_other_file_systems(folder):
    fsspec = pytest.importorskip("fsspec").filesystem("file")
    below = pafs.SubTreeFileSystem(str(folder), pafs.LocalFileSystem())
    for filesystem, path in ((fsspec, str(folder)), (below, "*.parquet")):
        source = ParquetRecords(path, "clicked", features=["new"], filesystem=filesystem)
        assert pickle.loads(pickle.dumps(source)).read(1).X.shape == (100, 1)


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        ((pa.float32(), pa.float32()), np.float32),
        ((pa.float32(), pa.float64()), np.float64),
        ((pa.float32(), pa.int8()), np.float64),
        ((pa.bool_(), pa.bool_()), np.float64),
        ((pa.decimal128(21, 2), pa.int64()), np.float64),
    ],
)
def test_types_of_features(tmp_path, types, expected):
    columns = [pa.array([0, 1, None], pa.int64()).cast(each) for each in types]
    pq.write_table(pa.table(columns, ["a", "b"]), tmp_path / "one.parquet")
    X = ParquetRecords(tmp_path).read(0).X
    assert X.dtype == expected
    np.testing.assert_array_equal(X, [[0, 0], [1, 1], [np.nan, np.nan]])


def test_files_with_other_types_of_a_column(tmp_path):
    """The type of X is that of all files."""
    for name, dtype in (("a", np.float32), ("b", np.int64), ("c", np.float32)):
        pd.DataFrame({"x": np.ones(2, dtype)}).to_parquet(tmp_path / f"{name}.parquet")
    source = ParquetRecords(tmp_path)
    assert {source.read(k).X.dtype for k in range(3)} == {np.dtype(float)}


def test_nulls_of_targets_and_groups_stay_nulls(tmp_path):
    frame = pa.table({"x": [1.0, 2.0], "y": [None, 1], "g": pa.array(["a", None])})
    pq.write_table(frame, tmp_path / "one.parquet")
    for scratch in (None, tmp_path):
        with ParquetRecords(tmp_path, "y", groups="g", scratch=scratch).opened() as source:
            _, y, groups = source.read(0)[:3]
            assert np.isnan(y[0]) and y[1] == 1 and list(groups) == ["a", None]


@pytest.mark.parametrize("scratch", [False, True])
def test_other_features_become_frames_for_transformers(table, folder, tmp_path, scratch):
    encoder = ColumnTransformer(
        [("region", OneHotEncoder(categories=[["east", "west"]], sparse_output=False), ["region"])],
        remainder="passthrough",
        verbose_feature_names_out=False,
    ).fit(table.drop(columns="clicked")[:1])
    source = ParquetRecords(folder, "clicked", scratch=tmp_path if scratch else None)
    assert list(source.read(0).X.columns) == ["age", "count", "new", "region"]
    with source.map(encoder).opened() as mapped:
        X = np.concatenate([mapped.read(k).X for k in range(mapped.n_chunks)])
    np.testing.assert_array_equal(X, encoder.transform(table.drop(columns="clicked")))


@pytest.mark.parametrize("end", [None, ValueError, KeyboardInterrupt])
def test_the_copy_is_private_decoded_once_and_deleted(folder, tmp_path, monkeypatch, end):
    reads = []
    read = ParquetRecords.read
    monkeypatch.setattr(ParquetRecords, "read", lambda *args: reads.append(1) or read(*args))
    scratch = tmp_path / "scratch"
    scratch.mkdir()

    def fit():
        with opened(folder, FunctionTransformer(np.abs), scratch=scratch) as source:
            (private,) = scratch.iterdir()
            assert stat.S_IMODE(private.stat().st_mode) == 0o700
            assert sorted(os.listdir(private)) == ["X.npy", "groups.npy", "y.npy"]
            assert {stat.S_IMODE(path.stat().st_mode) for path in private.iterdir()} == {0o600}
            for _ in range(3):
                assert (all_records(source)[0] >= 0).all()
            if end is not None:
                raise end

    if end is None:
        fit()
    else:
        with pytest.raises(end):
            fit()
    assert len(reads) == 5 and not list(scratch.iterdir())


def test_a_failing_reader_leaves_no_copy(folder, tmp_path):
    (folder / "b.parquet").write_bytes((folder / "b.parquet").read_bytes())
    source = ParquetRecords(folder, "clicked", groups="region", scratch=tmp_path)
    (folder / "b.parquet").unlink()
    with pytest.raises(FileNotFoundError), source.opened():
        raise AssertionError
    assert [path.name for path in tmp_path.iterdir()] == ["events"]


@pytest.fixture
def little_room():
    """Files of at most 4 kB, as on a full disk."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize(("user_ids", "has_fallocate"), [(None, True), ("count", False)])
def test_a_full_disk(table, tmp_path, user_ids, has_fallocate, monkeypatch, request):
    """The error has the path and the cause, and no records stay."""
    if not has_fallocate:
        monkeypatch.delattr(os, "posix_fallocate", raising=False)
    numbers = table[["age", "count", "clicked"]].astype({"count": int})
    folder, scratch = written(numbers, tmp_path / "events"), tmp_path / "scratch"
    scratch.mkdir()
    request.getfixturevalue("little_room")
    source = ParquetRecords(folder, "clicked", user_ids=user_ids, scratch=scratch)
    with pytest.raises(DataError, match=r"scratch.*X\.npy cannot be written: File too large"):
        source.opened().__enter__()
    assert not list(scratch.iterdir())


def numbers_that_vary(X):
    X = X[["age", "count"]]
    return X.loc[:, (X != 0).any()].to_numpy()


@pytest.mark.parametrize(
    ("transformers", "text"),
    [
        ([], "no dense array of numbers"),
        ([FunctionTransformer(lambda X: X.to_numpy())], "no dense array of numbers"),
        ([OneHotEncoder()], "no dense array of numbers"),
        ([FunctionTransformer(numbers_that_vary)], "number of columns"),
        ([OrdinalEncoder(dtype=np.float32)], None),
    ],
)
def test_what_the_copy_refuses(table, tmp_path, transformers, text):
    table["age"] = np.where(np.arange(N) < 400, 1.0, 0.0)
    folder = written(table, tmp_path / "events")
    for transformer in transformers:
        transformer.fit(table.drop(columns="clicked"))
    context = ParquetRecords(folder, "clicked", scratch=tmp_path).opened(*transformers)
    if text is None:
        with context as source:
            assert source.read(0).X.dtype == np.float32
    else:
        with pytest.raises(ValueError, match=text) as found, context:
            raise AssertionError
        assert str(folder) in str(found.value)


@pytest.mark.parametrize(
    ("paths", "options", "error", "text"),
    [
        ("none/*.parquet", {}, FileNotFoundError, "none"),
        ("events/none.parquet", {}, FileNotFoundError, "none.parquet"),
        ("events/*.csv", {}, FileNotFoundError, "No Parquet file matches"),
        ("events", {"target": "missing"}, ValueError, r"a\.parquet has no column 'missing'"),
        ("events", {"features": ["age", "x"]}, ValueError, "no column 'x'"),
        ("events", {"features": []}, ValueError, "no features"),
        ("empty.parquet", {}, ValueError, "holds no records"),
    ],
)
def test_files_that_are_refused(table, folder, tmp_path, monkeypatch, paths, options, error, text):
    monkeypatch.chdir(tmp_path)
    pq.ParquetWriter("empty.parquet", pa.schema({"x": pa.float64()})).close()
    with pytest.raises(error, match=text):
        ParquetRecords(paths, **options)


def test_large_row_groups_paths_of_the_home_folder_and_indices(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(folder.parent))
    assert ParquetRecords("~/events/a.parquet", "clicked").n_chunks == 2
    pd.DataFrame({"x": [1.0, 2.0]}, index=[5, 3]).to_parquet(tmp_path / "one.parquet")
    assert ParquetRecords(tmp_path / "one.parquet").feature_names == ("x",)
    monkeypatch.setattr("skdp.data.parquet._LARGE", 7000)
    with pytest.warns(UserWarning, match=r"row groups of .* GB.*row_group_size"):
        ParquetRecords(folder, "clicked")

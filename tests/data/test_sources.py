"""Reading: sizes, rows, order of merges, transformers, jobs."""

import importlib
import math
import pickle
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp
from joblib import parallel_backend
from sklearn.model_selection import cross_val_score
from sklearn.preprocessing import FunctionTransformer

from skdp.data import ArrayRecords, ChunkSource, DataError, RecordsChangedError
from skdp.data.sources import failed_chunk, merge_tree, split_range
from skdp.linear_model import DPRidge

N, D = 1000, 3


@pytest.fixture(scope="module")
def arrays():
    rng = np.random.default_rng(0)
    names = np.array(["west", "east"])
    return rng.normal(size=(N, D)), rng.integers(0, 2, N), names[rng.integers(0, 2, N)]


class Reader:
    """Chunks of 1, 0, 500 and 499 rows."""

    EDGES = (0, 1, 1, 501, 1000)

    def __init__(self, arrays, kind=np.asarray):
        self.arrays, self.kind = arrays, kind

    def __call__(self, k):
        X, *others = (array[self.EDGES[k] : self.EDGES[k + 1]] for array in self.arrays)
        return self.kind(X), *others


#: Every kind of source of the same records, by the arrays and the paths of their files.
SOURCES = {
    "Fortran": lambda X, y, g, paths: ArrayRecords(np.asfortranarray(X), y, g, chunk_rows=1),
    "CSR": lambda X, y, g, paths: ArrayRecords(sp.csr_array(X), y, g, chunk_rows=999),
    "mapped": lambda X, y, g, paths: ArrayRecords(*paths, chunk_rows=64, mapped=True),
    "read": lambda X, y, g, paths: ArrayRecords(*paths, chunk_rows=1000),
    "mixed": lambda X, y, g, paths: ArrayRecords(str(paths[0]), y, g),
    "memmap": lambda X, y, g, paths: ArrayRecords(np.load(paths[0], mmap_mode="r"), y, g),
    "function": lambda *arrays: ChunkSource(Reader(arrays[:3], sp.csr_matrix), 4),
}


@pytest.fixture
def source(request, arrays, tmp_path):
    paths = [tmp_path / f"{k}.npy" for k in range(3)]
    for path, array in zip(paths, arrays, strict=True):
        np.save(path, array)
    return SOURCES[request.param](*arrays, paths)


def assert_equal(chunk, arrays):
    for part, array in zip(chunk[:3], arrays, strict=True):
        dense = part.toarray() if sp.issparse(part) else part
        assert dense.dtype == array.dtype
        np.testing.assert_array_equal(dense, array)


@pytest.mark.parametrize("source", SOURCES, indirect=True)
def test_chunks_are_the_records(source, arrays):
    """Before and after pickling, from two threads at once."""

    def check(k, source):
        part = slice(starts[k], starts[k + 1])
        assert_equal(source.read(k), [array[part] for array in arrays])

    sizes = [source.read(k).X.shape[0] for k in range(source.n_chunks)]
    starts = np.cumsum([0, *sizes])
    assert starts[-1] == N
    assert source.chunk_sizes is None or list(source.chunk_sizes) == sizes
    for each in (source, pickle.loads(pickle.dumps(source)), source.for_workers()):
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(check, range(source.n_chunks), [each] * source.n_chunks))
    with source.opened() as opened:
        check(0, opened)


def test_ranges_are_consecutive_and_even():
    for n in (1, 7, 8, 9, 1000):
        ranges = split_range(n, 8)
        assert [k for each in ranges for k in each] == list(range(n))
        assert max(map(len, ranges)) - min(map(len, ranges)) <= 1 and min(map(len, ranges)) > 0


@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 255, 256, 257, 4097])
def test_a_tree_merges_in_order_and_in_few_levels(n):
    depth, most = {}, 0

    def merge(parts):
        nonlocal most
        most = max(most, len(parts))
        merged = [k for part in parts for k in part]
        depth[tuple(merged)] = 1 + max(depth.get(tuple(part), 0) for part in parts)
        return merged

    merged = merge_tree(([k] for k in range(n)), merge)
    assert merged == list(range(n))
    assert most <= 16
    assert depth.get(tuple(merged), 0) == (math.ceil(math.log(n, 16) - 1e-9) if n > 1 else 0)


def column_sums(k, source):
    chunk = source.read(k)
    return chunk.X.sum(axis=0) + np.sum(chunk.y)


def added(parts):
    return np.sum(parts, axis=0)


def test_jobs_give_the_sums_of_the_loop(arrays, tmp_path):
    np.save(tmp_path / "X.npy", arrays[0])
    loop = ArrayRecords(tmp_path / "X.npy", arrays[1], chunk_rows=10)
    jobs = ArrayRecords(tmp_path / "X.npy", arrays[1], chunk_rows=10, n_jobs=2)
    with parallel_backend("threading"):
        found, expected = (each.reduce(column_sums, added) for each in (jobs, loop))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def doubled(X):
    return 2 * X


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_transformers_act_where_chunks_are_read(arrays, n_jobs):
    mapped = ChunkSource(Reader(arrays), 4, n_jobs=n_jobs).map(
        FunctionTransformer(doubled), FunctionTransformer(np.negative)
    )
    with parallel_backend("threading"):
        sums = mapped.reduce(column_sums, added)
    X, y, groups = arrays
    np.testing.assert_allclose(sums, -2 * X.sum(axis=0) + 4 * y.sum() - 3 * y.sum(), rtol=1e-9)
    assert_equal(mapped.read(2), [-2 * X[1:501], y[1:501], groups[1:501]])
    assert mapped.read(1).X.shape == (0, D)
    with mapped.for_workers().opened() as opened:
        assert_equal(opened.read(0), [-2 * X[:1], y[:1], groups[:1]])


def test_results_of_a_function_leave_out_empty_chunks(arrays):
    source = ChunkSource(Reader(arrays), 4)
    parts = list(source.apply(lambda X: X[:, 0]))
    assert [len(part) for part in parts] == [1, 500, 499]
    np.testing.assert_array_equal(np.concatenate(parts), arrays[0][:, 0])


def test_progress_is_told_after_each_chunk(arrays):
    class Task:
        pass_number = 7

        def __call__(self, k, source):
            return 1

    said = []
    mapped = ChunkSource(Reader(arrays), 4).map(FunctionTransformer())
    mapped.progress = lambda *what: said.append(what)
    assert mapped.reduce(Task(), sum) == 4
    assert mapped.reduce(lambda k, source: 1, sum) == 4
    assert said == [(number, done, 4) for number in (7, 0) for done in (1, 2, 3, 4)]


def test_errors_know_their_chunk(arrays):
    def task(k, source):
        if k == 2:
            raise OSError("gone")

    source = ChunkSource(Reader(arrays), 4)
    with pytest.raises(OSError, match="gone") as found:
        source.reduce(task, list)
    assert failed_chunk(found.value) == failed_chunk(pickle.loads(pickle.dumps(found.value))) == 2
    assert failed_chunk(OSError()) is None
    assert source.map().describe(2) == "chunk 2"
    assert issubclass(RecordsChangedError, DataError)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"X": np.ones((3, 2)), "y": np.ones(2)}, ValueError, "equal lengths"),
        ({"X": np.ones(3)}, ValueError, "X must have 2"),
        ({"X": np.ones((3, 1)), "y": np.ones((3, 1))}, ValueError, "y must have 1"),
        ({"X": np.ones((3, 1)), "chunk_rows": 0}, ValueError, "chunk_rows"),
        ({"X": sp.csc_array(np.eye(3))}, TypeError, r"X\.tocsr"),
        ({"X": "missing.npy"}, FileNotFoundError, "missing.npy"),
        ({"X": "text.npy"}, ValueError, "magic"),
        ({"X": "Fortran.npy"}, ValueError, "Fortran order"),
        ({"X": "objects.npy"}, ValueError, "Python objects"),
        ({"X": "short.npy"}, OSError, "shorter than its header"),
    ],
)
def test_arrays_that_are_refused(arguments, error, text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.npy").write_text("no array")
    np.save("Fortran.npy", np.asfortranarray(np.ones((3, 2))))
    np.save("objects.npy", np.array([[None]]))
    np.save("short.npy", np.ones((30, 2)))
    (tmp_path / "short.npy").write_bytes((tmp_path / "short.npy").read_bytes()[:-8])
    with pytest.raises(error, match=text):
        ArrayRecords(**arguments)


@pytest.mark.parametrize("mapped", [True, False])
def test_a_file_that_is_cut_later_is_an_error(tmp_path, mapped):
    """And not the end of the process, as access to a map beyond its file would be."""
    path = tmp_path / "X.npy"
    np.save(path, np.ones((5000, 2)))
    source = ArrayRecords(path, chunk_rows=5000, mapped=mapped)
    source.read(0)
    with open(path, "r+b") as file:
        file.truncate(4096)
    with pytest.raises(OSError, match="shorter"):
        source.read(0)


CUT = """
import os, sys, warnings
import numpy as np
from skdp.data import ArrayRecords, DataError
from skdp.linear_model import DPLogisticRegression

class Cut(ArrayRecords):
    def reduce(self, task, merge):  # in the middle of pass 3, while a chunk is in use
        def cutting(k, source):
            part = source.read(k)
            if task.pass_number == 3 and k == 1:
                os.truncate(sys.argv[1], 4096)
            return part.X.sum() * 0 or task(k, source)
        cutting.pass_number = task.pass_number
        return super().reduce(cutting, merge)

warnings.simplefilter("ignore")
try:
    model = DPLogisticRegression(0.01, data_norm=1.0, classes=[0, 1])
    model.fit(Cut(*sys.argv[1:], chunk_rows=5000))
except DataError as error:
    print(error)
"""


def test_a_file_that_is_cut_in_use_is_an_error(tmp_path):
    """Of the fit, in a process that goes on."""
    np.save(tmp_path / "X.npy", np.ones((20_000, 4)))
    np.save(tmp_path / "y.npy", np.arange(20_000) % 2)
    command = [sys.executable, "-c", CUT, tmp_path / "X.npy", tmp_path / "y.npy"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.search("Pass 3 could not read chunk 1: OSError", done.stdout)


def test_large_arrays_do_not_travel_and_long_headers_and_empty_arrays_are_read(tmp_path):
    large = ArrayRecords(np.zeros((1 << 21, 5)))
    for message, call in (
        ("give paths", lambda: pickle.dumps(large)), ("give paths", large.for_workers),
        ("n_chunks must be at least 1", lambda: ChunkSource(lambda k: None, 0)),
        ("has 1 entries for 2 chunks", lambda: ChunkSource(lambda k: None, 2, chunk_sizes=[1])),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            call()
    with open(tmp_path / "X.npy", "wb") as file:
        np.lib.format.write_array(file, np.ones((0, 2)), version=(2, 0))
    source = ArrayRecords(tmp_path / "X.npy")
    assert source.chunk_sizes == (0,) and source.read(0).X.shape == (0, 2)


def test_sources_cannot_be_indexed(arrays):
    source = ArrayRecords(*arrays)
    for index in (len, lambda source: source[0], list):
        with pytest.raises(TypeError, match="cross-validation needs records in memory"):
            index(source)
    with pytest.raises(TypeError) as found:
        cross_val_score(DPRidge(target_range=(0, 1)), source)
    assert "cannot be indexed" in str(found.value.__cause__ or found.value)


@pytest.mark.parametrize(
    ("module", "package", "text"),
    [("parquet", "pyarrow", r'ParquetRecords needs pyarrow: pip install "skdp\[parquet\]"'),
     ("dask", "distributed", r'DaskRecords needs dask: pip install "skdp\[dask\]"')],
)  # fmt: skip
def test_optional_packages_are_named(monkeypatch, module, package, text):
    monkeypatch.delitem(sys.modules, f"skdp.data.{module}", raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=text):
        importlib.import_module(f"skdp.data.{module}")

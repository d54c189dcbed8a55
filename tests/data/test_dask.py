"""A Dask cluster gives the sums of a loop, whatever happens to its workers."""

import pickle
import time
from concurrent.futures import ThreadPoolExecutor

import dask
import dask.array as da
import dask.dataframe as dd
import distributed
import numpy as np
import pandas as pd
import pytest
from local_cluster import (
    FailingOnce,
    Slow,
    added,
    ends_the_process,
    key_of_the_task,
    kill_worker,
    reduce_inside_a_worker,
    sums,
)
from sklearn.preprocessing import FunctionTransformer

from skdp.data import ArrayRecords, ChunkSource, DataError, ParquetRecords
from skdp.data import dask as skdp_dask
from skdp.data.collections import as_source
from skdp.data.dask import DaskRecords
from skdp.data.sources import failed_chunk

N, D = 1000, 3


@pytest.fixture(scope="module")
def arrays():
    rng = np.random.default_rng(0)
    return rng.normal(size=(N, D)), rng.normal(size=N)


@pytest.fixture
def files(arrays, tmp_path):
    """A source of 16 chunks that workers can read."""
    np.save(tmp_path / "X.npy", arrays[0])
    np.save(tmp_path / "y.npy", arrays[1])
    return ArrayRecords(tmp_path / "X.npy", tmp_path / "y.npy", chunk_rows=64)


@pytest.fixture
def expected(files):
    return files.reduce(sums, added)


def parquet(X, y, folder):
    frame = pd.DataFrame(X, columns=list("abc")).assign(y=y)
    frame.to_parquet(folder / "one.parquet", row_group_size=300)
    return ParquetRecords(folder / "one.parquet", "y")


def collections(X, y):
    """Dask arrays with partitions of unequal length and columns in two blocks; frames of them."""
    return da.from_array(X, chunks=((1, 500, 200, 299), (2, 1))), da.from_array(
        y, chunks=((1, 500, 200, 299),)
    )


def frames(X, y):
    """Frames with an empty partition."""
    frame = dd.from_pandas(pd.DataFrame(X, columns=list("abc")).assign(y=y), npartitions=3)
    frame = dd.concat([frame[frame.a > 1e9], frame], interleave_partitions=True)
    return frame[list("abc")], frame["y"]


LAYOUTS = {
    "files": lambda X, y, folder: (ArrayRecords(folder / "X.npy", folder / "y.npy"),),
    "arrays sent": lambda X, y, folder: (ArrayRecords(X, y, chunk_rows=100),),
    "Parquet": lambda X, y, folder: (parquet(X, y, folder),),
    "persisted": lambda X, y, folder: dask.persist(*collections(X, y)),
    "frames": lambda X, y, folder: frames(X, y),
    "array and series": lambda X, y, folder: (lambda X, y: (X.to_dask_array(), y))(*frames(X, y)),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_sums_are_those_of_the_loop(client, arrays, files, expected, tmp_path, layout):
    source = DaskRecords(*LAYOUTS[layout](*arrays, tmp_path))
    np.testing.assert_allclose(source.reduce(sums, added), expected, rtol=1e-9)
    mapped = source.map(FunctionTransformer(np.negative)).reduce(sums, added)
    np.testing.assert_allclose(mapped[2:], -expected[2:], rtol=1e-9)
    # on the client
    chunks = [source.read(k) for k in range(source.n_chunks)]
    assert source.chunk_sizes in (None, tuple(chunk.X.shape[0] for chunk in chunks))
    np.testing.assert_array_equal(np.concatenate([chunk.X for chunk in chunks]), arrays[0])
    np.testing.assert_array_equal(np.concatenate([chunk.y for chunk in chunks]), arrays[1])


def test_what_is_a_source(client, arrays, files):
    source = as_source(*frames(*arrays))
    assert isinstance(source, DaskRecords) and source.chunk_sizes is None
    assert source.feature_names == ("a", "b", "c")
    source = as_source(*collections(*arrays))
    assert source.chunk_sizes == (1, 500, 200, 299) and source.feature_names is None
    assert as_source(files) is files
    assert as_source(*arrays) is None
    for refused in (as_source, DaskRecords):
        with pytest.raises(ValueError, match=r"A source holds .* itself"):
            refused(files, arrays[1])


@pytest.mark.slow
def test_persisted_partitions_of_a_killed_worker_are_made_again(own_client, arrays, expected):
    with own_client.as_current():
        X, y = own_client.persist(list(collections(*arrays)))
    source = DaskRecords(X, y, client=own_client)
    np.testing.assert_allclose(source.reduce(sums, added), expected, rtol=1e-9)
    kill_worker(own_client)
    np.testing.assert_allclose(source.reduce(sums, added), expected, rtol=1e-9)


def test_failed_reads_are_tried_again(client, files, expected, tmp_path):
    flaky = ChunkSource(FailingOnce(files, tmp_path, every=5), files.n_chunks)
    with pytest.raises(OSError, match="does not answer") as found:
        DaskRecords(flaky, retries=0).reduce(sums, added)
    assert failed_chunk(found.value) % 5 == 0
    for path in tmp_path.glob("failed-*"):
        path.unlink()
    found = DaskRecords(flaky, retries=3).reduce(sums, added)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert len(list(tmp_path.glob("failed-*"))) == 4


def set_failures(number, dask_scheduler):
    dask_scheduler.allowed_failures = number


@pytest.mark.slow
def test_a_task_that_ends_its_workers_is_named(own_client, files):
    own_client.run_on_scheduler(set_failures, 0)
    with pytest.raises(DataError, match=r"Chunks \d+ to \d+ ended 1 workers"):
        DaskRecords(files, client=own_client).reduce(ends_the_process, added)


def test_two_reductions_at_once(client, files, expected, tmp_path):
    task = Slow(tmp_path, 0.02)
    sources = [files, files.map(FunctionTransformer(np.negative))]
    with ThreadPoolExecutor(2) as pool:
        found = pool.map(lambda source: DaskRecords(source).reduce(task, added), sources)
    for sign, each in zip((1, -1), found, strict=True):
        np.testing.assert_allclose(each[2:], sign * expected[2:], rtol=1e-9)


def test_an_interrupt_cancels_the_pass(client, files, tmp_path, monkeypatch):
    def interrupt(future, timeout=None):
        raise KeyboardInterrupt

    task = Slow(tmp_path, 0.2)
    task.name = "skdp-interrupted"
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(distributed.Future, "result", interrupt)
        DaskRecords(files).reduce(task, added)
    time.sleep(1.0)
    assert len(list(tmp_path.glob("begun-*"))) < files.n_chunks
    assert not [key for key in client.cluster.scheduler.tasks if task.name in str(key)]


def test_tasks_have_the_names_of_the_fit(client, files):
    keys = DaskRecords(files, tasks_per_thread=1).reduce(key_of_the_task, added)
    assert len(keys) == files.n_chunks and len(set(keys)) == 2
    assert {key.rsplit("-", 1)[0] for key in keys} == {
        "skdp-DPRidge-pass7-0",
        "skdp-DPRidge-pass7-8",
    }


def test_records_are_read_from_the_client(client, files, tmp_path):
    with pytest.raises(RuntimeError, match="Fit on the client"):
        client.submit(reduce_inside_a_worker, str(tmp_path / "X.npy")).result()
    with pytest.raises(TypeError, match="cannot be sent to its workers"):
        pickle.dumps(DaskRecords(files))


@pytest.mark.parametrize(
    ("others", "error", "text"),
    [
        (da.ones(9, chunks=2), ValueError, "X has 3 partitions, y 5"),
        (da.ones(9, chunks=((3, 4, 2),)), ValueError, "partition 1 has 3 rows of X and 4 of y"),
        (np.ones(9), TypeError, "y must be a Dask array"),
        (da.ones((9, 1), chunks=3), ValueError, r"y must have 1 dimension"),
    ],
)
def test_collections_that_are_refused(client, others, error, text):
    with pytest.raises(error, match=text):
        DaskRecords(da.ones((9, 2), chunks=3), others)


def test_a_client_is_needed_and_many_partitions_are_warned_of(client, files, monkeypatch):
    with pytest.warns(UserWarning, match="X has 2001 partitions"):
        DaskRecords(da.ones((2001, 2), chunks=(1, 2)))

    def no_client():
        raise ValueError("No clients found")

    monkeypatch.setattr(distributed, "default_client", no_client)
    with pytest.raises(ValueError, match=r"need a client: create one with distributed\.Client"):
        DaskRecords(files)


def test_copies_and_large_arrays_stay_on_their_machine(client, arrays, tmp_path):
    source = parquet(*arrays, tmp_path)
    source.scratch = str(tmp_path)
    with pytest.raises(ValueError, match="scratch is for one machine"):
        DaskRecords(source.map())
    with pytest.raises(ValueError, match="give paths"):
        DaskRecords(ArrayRecords(np.zeros((1 << 21, 5))))


def test_a_cluster_without_workers_ends_the_pass(monkeypatch):
    monkeypatch.setattr(skdp_dask, "_NO_WORKERS", 1.0)
    monkeypatch.setattr(skdp_dask, "_LOOK", 0.2)
    with (
        dask.config.set({"distributed.scheduler.no-workers-timeout": None}),
        distributed.Client(
            n_workers=0, host="127.0.0.1", dashboard_address="127.0.0.1:0", set_as_default=False
        ) as client,
    ):
        source = DaskRecords(ChunkSource(len, 2), client=client)
        with pytest.raises(DataError, match="no workers for 1 seconds"):
            source.reduce(sums, added)


def test_a_result_that_comes_as_a_wait_ends(client, files, expected, monkeypatch):
    result = distributed.Future.result

    def late(future, timeout=None):
        found = result(future)
        if timeout is not None:
            raise distributed.TimeoutError
        return found

    monkeypatch.setattr(distributed.Future, "result", late)
    np.testing.assert_allclose(DaskRecords(files).reduce(sums, added), expected, rtol=1e-9)

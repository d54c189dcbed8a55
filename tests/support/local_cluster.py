"""A Dask cluster of two worker processes, and tasks that workers import from here."""

import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest


@pytest.fixture(scope="session")
def client():
    """Return the client of a cluster of this session; no test may close it or end its workers."""
    with new_client() as client:
        yield client


@pytest.fixture
def own_client():
    """Return the client of a cluster of one test, whose workers may be killed."""
    with new_client(set_as_default=False) as client:
        yield client


def new_client(**options):
    """Start two workers of one thread, which end with the client."""
    distributed = pytest.importorskip("distributed")
    # tasks that find no worker end in an error
    pytest.importorskip("dask").config.set({"distributed.scheduler.no-workers-timeout": "60s"})
    return distributed.Client(
        n_workers=2,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",  # any free port
        silence_logs=60,
        **options,
    )


def kill_worker(client, which=0):
    """Send SIGKILL to a worker."""
    pids = [*client.run(os.getpid).values()]
    os.kill(pids[which % len(pids)], signal.SIGKILL)


def added(parts):
    """Merge sums."""
    return sum(parts[1:], parts[0])


def sums(k, source):
    """Number of records and sums of columns and targets."""
    chunk = source.read(k)
    X = np.asarray(chunk.X, dtype=float)
    targets = 0.0 if chunk.y is None else float(np.sum(chunk.y))
    return np.array([X.shape[0], targets, *X.sum(axis=0)])


def in_another_order(X):
    """Return the rows as a shuffle does that is computed again."""
    return np.random.default_rng().permutation(X)


class Slow:
    """A task, after some time, with a file for each chunk that was begun."""

    def __init__(self, folder, seconds, task=sums):
        self.folder, self.seconds, self.task = Path(folder), seconds, task

    def __call__(self, k, source):
        (self.folder / f"begun-{k}").touch()
        time.sleep(self.seconds)
        return self.task(k, source)


class FailingOnce:
    """A reader of a source that fails at the first attempt at some chunks."""

    def __init__(self, source, folder, every):
        self.source, self.folder, self.every = source, Path(folder), every

    def __call__(self, k):
        if k % self.every == 0 and not (self.folder / f"failed-{k}").exists():
            (self.folder / f"failed-{k}").touch()
            raise OSError("a disk does not answer")
        return self.source.read(k)


def ends_the_process(k, source):
    """End the worker at one chunk."""
    if k == 9:
        os._exit(1)
    return 1


def key_of_the_task(k, source):
    """Name of the running task."""
    from distributed import get_worker

    return [get_worker().get_current_task()]


key_of_the_task.name = "skdp-DPRidge"
key_of_the_task.pass_number = 7


def reduce_inside_a_worker(path):
    """Read records of the cluster in one of its tasks."""
    from distributed import get_client

    from skdp.data import ArrayRecords
    from skdp.data.dask import DaskRecords

    return DaskRecords(ArrayRecords(path), client=get_client()).reduce(sums, added)

"""Records on a Dask cluster: collections, or a source that its workers read."""

from __future__ import annotations

import contextlib
import importlib
import math
import time
import uuid
import warnings
from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from skdp.data.sources import (
    Chunk,
    DataError,
    Merge,
    RecordSource,
    Task,
    merge_tree,
    reduce_range,
    split_range,
)

try:
    import dask
    import dask.array
    import dask.utils
    import distributed
except ImportError as error:
    raise ImportError('DaskRecords needs dask: pip install "skdp[dask]"') from error

#: Partitions above which the scheduler's work for one pass takes seconds.
_MANY = 2000
#: Seconds that a pass waits for a worker, unless Dask's "distributed.scheduler.no-workers-timeout"
#: says it; and between two looks at whether there is one.
_NO_WORKERS, _LOOK = 300.0, 2.0
_LOST = "The cluster was closed or lost, or the pass was cancelled."


class DaskRecords(RecordSource):
    """Records of a Dask cluster.

    A pass is one graph: tasks on chunks, and merges. Lost tasks run again. Nothing stays on the
    workers between passes: persist collections that fit into their memory before.

    Parameters
    ----------
    X : Dask array, Dask DataFrame or RecordSource
        A chunk is a partition. Of a source, the workers must be able to read what it reads: its
        paths exist on their machines.
    y, groups : Dask array or Series, optional
        Collections with the partitions of X.
    user_ids, sample_weight : Dask array or Series, optional
        Whose record each is, and its weight. All records of a person are in one partition, as after
        ``frame.shuffle(on="user")``, which has to be persisted.
    client : distributed.Client, optional
        The current client by default.
    retries : int, default=2
        Number of times that a task that raised an error runs again.
    tasks_per_thread : int, default=2
        Tasks of a pass per thread of the cluster, if X is a source.

    Notes
    -----
    A pass that finds no workers for 300 seconds, or for Dask's setting
    ``distributed.scheduler.no-workers-timeout``, ends in a :class:`~skdp.data.DataError`.
    """

    def __init__(
        self,
        X: Any,
        y: Any = None,
        groups: Any = None,
        *,
        user_ids: Any = None,
        sample_weight: Any = None,
        client: Any = None,
        retries: int = 2,
        tasks_per_thread: int = 2,
    ) -> None:
        self.client = _current_client() if client is None else client
        self.retries = retries
        self.tasks_per_thread = tasks_per_thread
        given = Chunk(None, y, groups, user_ids, sample_weight)._asdict()
        others = {name: part for name, part in given.items() if part is not None}
        self._source: RecordSource | None = None
        if isinstance(X, RecordSource):
            if others:
                raise ValueError("A source holds its columns itself: pass it alone.")
            self._source = X.for_workers()
            self.n_chunks = X.n_chunks
            self.chunk_sizes = X.chunk_sizes
            self.feature_names = X.feature_names
            return
        if isinstance(X, dask.array.Array):
            X = _whole_rows(X)
        # kept, for persisted partitions end with them: delayed ones do not hold them
        self._collections = columns = {"X": X, **others}
        partitions = {name: _partitions(name, column) for name, column in columns.items()}
        _check_partitions(columns, {name: len(each) for name, each in partitions.items()})
        #: One dictionary of delayed X, y and groups per chunk.
        self._partitions = [
            dict(zip(partitions, parts, strict=True))
            for parts in zip(*partitions.values(), strict=True)
        ]
        self.n_chunks = len(self._partitions)
        self.chunk_sizes = _known_sizes(X)
        self.feature_names = tuple(X.columns) if hasattr(X, "columns") else None
        if self.n_chunks > _MANY:
            warnings.warn(
                f"X has {self.n_chunks} partitions, each of which costs the scheduler about 2 ms "
                "in every pass: repartition to about 100 MB each.",
                stacklevel=2,
            )

    def read(self, k: int) -> Chunk:
        """Bring records of chunk k to this process."""
        if self._source is not None:
            return self._source.read(k)
        parts = self._partitions[k]
        found = [
            self._result(f) for f in self.client.compute([*parts.values()], retries=self.retries)
        ]
        return _chunk(*found, names=tuple(parts))

    def reduce(self, task: Task, merge: Merge) -> Any:
        """Return the merge of ``task(k, source)`` over every chunk k, computed by the workers."""
        _refuse_inside_a_worker()
        if self.client.status != "running":
            raise DataError(_LOST)
        # one node, so that the graph holds it once
        work = dask.delayed(_itself, pure=False)(_Work(task, merge, self._source))
        name = f"{getattr(task, 'name', 'skdp')}-pass{getattr(task, 'pass_number', 0)}"
        call = uuid.uuid4().hex  # two fits may run on one scheduler
        chunks_of = {f"{name}-{chunks[0]}-{call}": chunks for chunks in self._ranges()}
        parts = [self._part(work, key, chunks) for key, chunks in chunks_of.items()]
        total = merge_tree(parts, lambda nodes: dask.delayed(_merged, pure=False)(work, *nodes))
        future = self.client.compute(total, retries=self.retries, optimize_graph=False)
        try:
            return self._result(future)
        except distributed.KilledWorker as error:
            raise DataError(_killed(error, chunks_of.get(error.task))) from error
        except CancelledError as error:
            raise DataError(_LOST) from error
        finally:
            if not future.done():
                with contextlib.suppress(
                    Exception
                ):  # of a closed client, which would hide the cause
                    future.cancel()

    def _result(self, future: Any) -> Any:
        """Wait for a result as long as there are workers; DataError after some time without."""
        given = dask.config.get("distributed.scheduler.no-workers-timeout", None)
        limit = _NO_WORKERS if given is None else dask.utils.parse_timedelta(given)
        seen = time.monotonic()
        while True:
            try:
                return future.result(timeout=_LOOK)
            except distributed.TimeoutError:
                if future.done():  # just now, or the error is that of the task
                    return future.result()
            if self.client.status != "running" or self.client.nthreads():
                seen = time.monotonic()
            elif time.monotonic() - seen > limit:
                raise DataError(
                    f"The cluster has had no workers for {limit:g} seconds: start some, or set "
                    "Dask's distributed.scheduler.no-workers-timeout to wait longer."
                )

    def _ranges(self) -> list[range]:
        if self._source is None:
            return [range(k, k + 1) for k in range(self.n_chunks)]
        threads = sum(self.client.nthreads().values())
        return split_range(self.n_chunks, self.tasks_per_thread * max(threads, 1))

    def _part(self, work: Any, key: str, chunks: range) -> Any:
        """Return the node of consecutive chunks."""
        if self._source is not None:
            node = dask.delayed(_on_source, pure=False)
            return node(work, chunks.start, chunks.stop, dask_key_name=key)
        parts = self._partitions[chunks.start]
        node = dask.delayed(_on_partition, pure=False)
        return node(work, chunks.start, tuple(parts), *parts.values(), dask_key_name=key)

    def __getstate__(self) -> NoReturn:
        raise TypeError("A cluster cannot be sent to its workers.")


class _Work:
    """What the tasks of a pass share; no tuple, in which Dask would search for collections."""

    def __init__(self, task: Task, merge: Merge, source: RecordSource | None) -> None:
        self.task = task
        self.merge = merge
        self.source = source


def _itself(work: _Work) -> _Work:
    return work


def _on_source(work: _Work, first: int, stop: int) -> Any:
    assert work.source is not None
    return reduce_range(work.task, work.merge, work.source, range(first, stop))


def _on_partition(work: _Work, k: int, names: tuple[str, ...], *parts: Any) -> Any:
    source = _Partition(_chunk(*parts, names=names))
    return reduce_range(work.task, work.merge, source, range(k, k + 1))


def _merged(work: _Work, *parts: Any) -> Any:
    return work.merge(list(parts))


def _chunk(*parts: Any, names: tuple[str, ...]) -> Chunk:
    X, *others = parts
    return Chunk(
        X, **{name: np.asarray(each) for name, each in zip(names[1:], others, strict=True)}
    )


class _Partition(RecordSource):
    """The source of a task on a partition: any number names the one chunk that is there."""

    n_chunks = 1

    def __init__(self, chunk: Chunk) -> None:
        self.chunk = chunk

    def read(self, k: int) -> Chunk:
        return self.chunk

    def describe(self, k: int) -> str:
        return f"partition {k}"


def over_partitions(X: Any, function: Callable[[Any], Any]) -> Any:
    """Return the lazy array of ``function(partition)``, whose rows are those of the partition.

    A row of zeros tells the type and the columns of its results.
    """
    _check_collection("X", X)
    if isinstance(X, dask.array.Array):
        X = _whole_rows(X)
        on_partition = _OnPartition(function, function(np.zeros((1, X.shape[1]), X.dtype))[:0])
        some = on_partition.nothing
        if some.ndim == 1:
            return X.map_blocks(on_partition, drop_axis=1, dtype=some.dtype, meta=some)
        return X.map_blocks(
            on_partition, chunks=(X.chunks[0], some.shape[1:]), dtype=some.dtype, meta=some
        )
    pandas = importlib.import_module("pandas")
    zeros = pandas.DataFrame(0, index=[0], columns=X.columns).astype(X.dtypes.to_dict())
    some = function(zeros)[:0]
    if not isinstance(some, np.ndarray):
        raise ValueError("Sparse results need a Dask array, such as X.to_dask_array().")
    on_partition = _OnPartition(function, some)
    with dask.config.set({"dataframe.convert-string": False}):  # text labels stay objects
        meta = _as_frame(zeros[:0], on_partition)
        return X.map_partitions(_as_frame, on_partition, meta=meta).values


@dataclass(frozen=True, eq=False)
class _OnPartition:
    """A function of rows, and its result for none."""

    function: Callable[[Any], Any]
    nothing: Any

    def __call__(self, X: Any) -> Any:
        return self.function(X) if X.shape[0] else self.nothing


def _as_frame(X: Any, on_partition: _OnPartition) -> Any:
    found = on_partition(X)
    pandas = importlib.import_module("pandas")
    kind = pandas.Series if found.ndim == 1 else pandas.DataFrame
    return kind(found, dtype=found.dtype if found.dtype.kind in "biuf" else object)


def _whole_rows(X: Any) -> Any:
    """Return an array whose rows are not divided."""
    return X.rechunk({1: -1}) if X.ndim == 2 and X.numblocks[1] > 1 else X


def _current_client() -> Any:
    try:
        return distributed.default_client()
    except ValueError:
        raise ValueError(
            "Records on Dask need a client: create one with distributed.Client()."
        ) from None


def _refuse_inside_a_worker() -> None:
    try:
        distributed.get_worker()
    except ValueError:
        return
    raise RuntimeError("Fit on the client: records of a cluster cannot be read inside its tasks.")


def _partitions(name: str, column: Any) -> list[Any]:
    """Return the delayed partitions of a collection."""
    _check_collection(name, column)
    delayed = column.to_delayed()
    return delayed.ravel().tolist() if isinstance(delayed, np.ndarray) else list(delayed)


def _check_collection(name: str, column: Any) -> None:
    """Raise an error for what is no collection, or has another number of dimensions."""
    if not isinstance(getattr(column, "npartitions", None), int):  # a Delayed has any attribute
        raise TypeError(f"{name} must be a Dask array, DataFrame or Series, as X is.")
    dimensions = 2 if name == "X" else 1
    if getattr(column, "ndim", None) != dimensions:
        raise ValueError(f"{name} must have {dimensions} dimension(s).")


def _check_partitions(columns: dict[str, Any], counts: dict[str, int]) -> None:
    """Raise ValueError unless the others are divided as X is."""
    known = _known_sizes(columns["X"])
    for name, column in columns.items():
        if counts[name] != counts["X"]:
            raise ValueError(f"X has {counts['X']} partitions, {name} {counts[name]}.")
        sizes = _known_sizes(column)
        for k, (m, size) in enumerate(zip(known or (), sizes or (), strict=False)):
            if m != size:
                raise ValueError(f"partition {k} has {m} rows of X and {size} of {name}.")


def _known_sizes(column: Any) -> tuple[int, ...] | None:
    """Return the rows of each partition; None if Dask does not know them."""
    if not isinstance(column, dask.array.Array) or any(map(math.isnan, column.chunks[0])):
        return None
    return tuple(column.chunks[0])


def _killed(error: Any, chunks: range | None) -> str:
    which = "A task on the records" if chunks is None else f"Chunks {chunks[0]} to {chunks[-1]}"
    return (
        f"{which} ended {error.allowed_failures + 1} workers: is their memory large enough? "
        "Dask's setting is distributed.scheduler.allowed-failures."
    )

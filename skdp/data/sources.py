"""Sources of records: numbered chunks of rows that can be read any number of times.

A source knows files and engines and nothing of losses or privacy. Its primitive is
:meth:`RecordSource.reduce`, a map over all chunks and a merge: an engine overrides this method, a
storage format overrides :meth:`RecordSource.read`.
"""

from __future__ import annotations

import contextlib
import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, NoReturn

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

#: Results that are merged at once.
FAN_IN = 16
#: Ranges of chunks per job: a slow one does not keep the others waiting.
_RANGES_PER_JOB = 4
_NO_INDEX = "A RecordSource cannot be indexed: cross-validation needs records in memory."

Task = Callable[[int, "RecordSource"], Any]
Merge = Callable[[list[Any]], Any]


class DataError(RuntimeError):
    """Records could not be read, or an engine failed, after the first pass."""


class RecordsChangedError(DataError):
    """The records of a pass are not those of the first pass."""


class Chunk(NamedTuple):
    """Some records.

    Attributes
    ----------
    X : ndarray, CSR matrix or data frame
    y, groups : ndarray or None
        One target and one group per row.
    user_ids : ndarray or None
        Whose record each row is. All records of a person are in one chunk.
    sample_weight : ndarray or None
        One weight per row.
    unmapped : table or None
        What X was before :meth:`RecordSource.map`; its marks are compared, for the last bits of
        computed features may differ from one read to the next.
    """

    X: Any
    y: Any = None
    groups: Any = None
    user_ids: Any = None
    sample_weight: Any = None
    unmapped: Any = None

    def take(self, rows: slice | np.ndarray) -> Chunk:
        """Return the records of `rows`."""
        tables = (getattr(part, "iloc", part) for part in self)
        return Chunk(*(None if table is None else table[rows] for table in tables))


class RecordSource(ABC):
    """Records in numbered chunks that can be read any number of times.

    Every read gives the same records in the same order, which may depend on what they contain.

    Attributes
    ----------
    n_chunks : int
        Number of chunks, at least one; a chunk may have no rows.
    chunk_sizes : sequence of int or None
        Rows of each chunk; None if a first pass has to count them.
    feature_names : sequence of str or None
        Names of the columns, if the source has them.
    n_jobs : int or None
        Jobs of :meth:`reduce`; None for a loop in this process.
    progress : callable or None
        Called as ``progress(number_of_the_pass, chunks_done, n_chunks)`` after each chunk of the
        loop; a task has its number as attribute ``pass_number``.
    """

    n_chunks: int
    chunk_sizes: Sequence[int] | None = None
    feature_names: Sequence[str] | None = None
    n_jobs: int | None = None
    progress: Callable[[int, int, int], Any] | None = None

    @abstractmethod
    def read(self, k: int) -> Chunk:
        """Return chunk k, the same at every call, from any thread or process."""

    def reduce(self, task: Task, merge: Merge) -> Any:
        """Return the merge of ``task(k, self)`` over every chunk k.

        Parameters
        ----------
        task : callable
            Has no side effects, may run anywhere and any number of times; exactly one result per
            chunk is merged. It can be pickled. Optional attributes: ``pass_number`` (int) and
            ``name`` (str), for progress and dashboards.
        merge : callable
            Takes a list of up to 16 results in the order of the chunks and returns one.

        Raises
        ------
        Exception
            That of a task; :func:`failed_chunk` tells in which chunk.
        """
        jobs = 1 if self.n_jobs is None else effective_n_jobs(self.n_jobs)
        if jobs == 1:
            return merge_tree(self._reported(task), merge)
        ranges = split_range(self.n_chunks, _RANGES_PER_JOB * jobs)
        parts = Parallel(n_jobs=jobs)(
            delayed(reduce_range)(task, merge, self, chunks) for chunks in ranges
        )
        return merge_tree(parts, merge)

    def _reported(self, task: Task) -> Iterator[Any]:
        number = getattr(task, "pass_number", 0)
        for done, part in enumerate(results(task, self, range(self.n_chunks)), start=1):
            if self.progress is not None:
                self.progress(number, done, self.n_chunks)
            yield part

    def map(self, *transformers: Any) -> MappedRecords:
        """Return the source of records transformed where they are read.

        Each transformer is fitted already, and its ``transform`` treats each row apart.
        """
        return MappedRecords(self, *transformers)

    def apply(self, function: Callable[[Any], Any]) -> Iterator[Any]:
        """Yield ``function(X)`` for the rows X of each chunk in order; empty chunks are left out.

        X is a data frame where features have names. Example: ``source.apply(model.predict)``.
        """
        for k in range(self.n_chunks):
            X = self.read(k).X
            if X.shape[0]:
                yield function(with_names(X, self.feature_names))

    def for_workers(self) -> RecordSource:
        """Return the source as other processes should read it."""
        return self

    def opened(self, *transformers: Any) -> AbstractContextManager[RecordSource]:
        """Return a context whose value is what a fit reads: this source, or a copy for the fit.

        With transformers it is the source mapped by them.
        """
        return contextlib.nullcontext(self.map(*transformers) if transformers else self)

    def describe(self, k: int) -> str:
        """Name chunk k in messages."""
        return f"chunk {k}"

    def __array__(self, *args: Any, **options: Any) -> NoReturn:
        raise TypeError(
            "A RecordSource is no array. Predictions are made by source.apply(model.predict)."
        )

    def __len__(self) -> NoReturn:
        raise TypeError(_NO_INDEX)

    def __getitem__(self, key: Any) -> NoReturn:
        raise TypeError(_NO_INDEX)


def with_names(X: Any, names: Sequence[str] | None) -> Any:
    """Return an array as a data frame, if its columns have names."""
    if names is None or not isinstance(X, np.ndarray):
        return X
    return importlib.import_module("pandas").DataFrame(X, columns=list(names))


class MappedRecords(RecordSource):
    """Records of another source, transformed where they are read, from the first transformer on."""

    def __init__(self, source: RecordSource, *transformers: Any) -> None:
        self.source = source
        self.transformers = transformers
        self.n_chunks = source.n_chunks
        self.chunk_sizes = source.chunk_sizes

    @property
    def progress(self) -> Callable[[int, int, int], Any] | None:
        """What the source calls after each chunk."""
        return self.source.progress

    @progress.setter
    def progress(self, function: Callable[[int, int, int], Any] | None) -> None:
        self.source.progress = function

    def read(self, k: int) -> Chunk:
        chunk = self.source.read(k)
        X = chunk.X
        if X.shape[0]:  # scikit-learn's transformers refuse tables without rows
            if self.transformers and hasattr(self.transformers[0], "feature_names_in_"):
                X = with_names(X, self.source.feature_names)
            try:
                for transformer in self.transformers:
                    X = transformer.transform(X)
            except ValueError as error:
                raise ValueError(f"{self.describe(k)}: {error}") from error
        elif self.transformers and hasattr(self.transformers[-1], "get_feature_names_out"):
            X = np.zeros((0, len(self.transformers[-1].get_feature_names_out())))
        return chunk._replace(X=X, unmapped=chunk.X if chunk.unmapped is None else chunk.unmapped)

    def reduce(self, task: Task, merge: Merge) -> Any:
        """Reduce with the engine of the source: its workers read and transform."""
        return self.source.reduce(MappedTask(task, self.transformers), merge)

    def for_workers(self) -> RecordSource:
        return MappedRecords(self.source.for_workers(), *self.transformers)

    def opened(self, *transformers: Any) -> AbstractContextManager[RecordSource]:
        """Open the source, which may keep a copy of the transformed records."""
        return self.source.opened(*self.transformers, *transformers)

    def describe(self, k: int) -> str:
        return self.source.describe(k)


@dataclass(frozen=True)
class MappedTask:
    """A task on transformed records, for the source that they are read from."""

    task: Task
    transformers: tuple[Any, ...]

    def __call__(self, k: int, source: RecordSource) -> Any:
        return self.task(k, MappedRecords(source, *self.transformers))

    @property
    def pass_number(self) -> int:
        """Number of the pass."""
        return getattr(self.task, "pass_number", 0)

    @property
    def name(self) -> str:
        """Name on dashboards."""
        return getattr(self.task, "name", "skdp")


class ChunkSource(RecordSource):
    """Records from a function.

    Parameters
    ----------
    read : callable
        ``read(k)`` returns ``(X, y)``, ``(X, y, groups)``, X or a :class:`Chunk` for chunk k, the
        same at every call.
        With `n_jobs` or on a cluster it must be possible to pickle it.
    n_chunks : int
        Number of chunks, from 0 on.
    chunk_sizes : sequence of int, optional
        Rows of each chunk; without it a first pass counts them.
    feature_names : sequence of str, optional
        Names of the columns.
    n_jobs : int, optional
        Jobs of joblib's current backend that read at the same time.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.data import ChunkSource
    >>> def read(k):
    ...     rng = np.random.default_rng(k)
    ...     X = rng.uniform(-1, 1, (1000, 3))
    ...     return X, X @ [1.0, 2.0, 3.0]
    >>> source = ChunkSource(read, n_chunks=4)
    >>> source.read(3).X.shape
    (1000, 3)
    """

    def __init__(
        self,
        read: Callable[[int], Any],
        n_chunks: int,
        *,
        chunk_sizes: Sequence[int] | None = None,
        feature_names: Sequence[str] | None = None,
        n_jobs: int | None = None,
    ) -> None:
        if n_chunks < 1:
            raise ValueError(f"n_chunks must be at least 1, got {n_chunks}.")
        if chunk_sizes is not None and len(chunk_sizes) != n_chunks:
            raise ValueError(f"chunk_sizes has {len(chunk_sizes)} entries for {n_chunks} chunks.")
        self.reader = read
        self.n_chunks = n_chunks
        self.chunk_sizes = chunk_sizes
        self.feature_names = feature_names
        self.n_jobs = n_jobs

    def read(self, k: int) -> Chunk:
        found = self.reader(k)
        return Chunk(*found) if isinstance(found, tuple) else Chunk(found)


def merge_tree(parts: Iterable[Any], merge: Merge) -> Any:
    """Merge parts in order, up to 16 at once; at most 15 unmerged ones per level are kept."""
    levels: list[list[Any]] = []
    for part in parts:
        for level in levels:
            level.append(part)
            if len(level) < FAN_IN:
                break
            part = merge(level[:])
            level.clear()
        else:
            levels.append([part])
    rest: list[Any] = []
    for level in levels:
        nodes = level + rest
        rest = [merge(nodes)] if len(nodes) > 1 else nodes
    return rest[0]


def results(task: Task, source: RecordSource, chunks: Iterable[int]) -> Iterator[Any]:
    """Yield the task's result for each chunk; its errors remember the chunk."""
    for k in chunks:
        try:
            yield task(k, source)
        except Exception as error:
            error.failed_chunk = k  # type: ignore[attr-defined]
            raise


def failed_chunk(error: BaseException) -> int | None:
    """Return the chunk whose task raised the error, if it is known."""
    return getattr(error, "failed_chunk", None)


def reduce_range(task: Task, merge: Merge, source: RecordSource, chunks: range) -> Any:
    """Merge the results of consecutive chunks: what one job does."""
    return merge_tree(results(task, source, chunks), merge)


def split_range(n: int, parts: int) -> list[range]:
    """Split 0, ..., n - 1 into at most `parts` ranges whose lengths differ by at most one."""
    parts = min(n, parts)
    edges = [n * i // parts for i in range(parts + 1)]
    return [range(first, last) for first, last in pairwise(edges)]

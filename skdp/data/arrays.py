"""Records in arrays, or in .npy files that are read or mapped chunk by chunk."""

from __future__ import annotations

import copy
import math
import os
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from skdp.data.sources import Chunk, RecordSource

#: Numbers in a chunk, about: 8 MB of doubles.
_CHUNK_NUMBERS = 1 << 20
#: Rows that a chunk has at least.
_LEAST_ROWS = 1024
#: Bytes of arrays in memory up to which they are sent to other processes.
_SENT = 1 << 26


class ArrayRecords(RecordSource):
    """Records in arrays or .npy files.

    Parameters
    ----------
    X : array of shape (n, d), CSR matrix, or path of a .npy file in C order
        Rows of the records.
    y, groups : array of shape (n,) or path of a .npy file, optional
        Their targets, and their groups.
    user_ids, sample_weight : array of shape (n,) or path of a .npy file, optional
        Whose record each is, and its weight. Records of a person stand beside each other; chunks
        then end with a person.
    chunk_rows : int, optional
        Rows of a chunk; by default a power of two, for about 8 MB of doubles.
    mapped : bool, default=False
        Map files into memory instead of reading chunks, in about half the time. The operating
        system ends the process if such a file is cut or written anew during a fit.
    n_jobs : int, optional
        Jobs of joblib's current backend that read at the same time.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.data import ArrayRecords
    >>> source = ArrayRecords(np.ones((2500, 3)), np.ones(2500), chunk_rows=1000)
    >>> source.chunk_sizes
    (1000, 1000, 500)
    """

    def __init__(
        self,
        X: Any,
        y: Any = None,
        groups: Any = None,
        *,
        user_ids: Any = None,
        sample_weight: Any = None,
        chunk_rows: int | None = None,
        mapped: bool = False,
        n_jobs: int | None = None,
    ) -> None:
        given = Chunk(X, y, groups, user_ids, sample_weight)._asdict()
        self._tables = {
            name: _table(name, data, mapped) for name, data in given.items() if data is not None
        }
        shape = self._tables["X"].shape
        lengths = {name: table.shape[0] for name, table in self._tables.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"{', '.join(lengths)} must have equal lengths, got {lengths}.")
        if chunk_rows is None:
            # a power of two: the labels of records are made in stretches of as many
            wanted = max(_LEAST_ROWS, _CHUNK_NUMBERS // max(shape[1], 1))
            chunk_rows = 1 << round(math.log2(wanted))
        elif chunk_rows < 1:
            raise ValueError(f"chunk_rows must be at least 1, got {chunk_rows}.")
        self._edges = self._chunk_edges(chunk_rows)
        self.chunk_sizes: tuple[int, ...] = tuple(b - a for a, b in pairwise(self._edges))
        self.n_chunks = len(self.chunk_sizes)
        self.n_jobs = n_jobs

    def _chunk_edges(self, chunk_rows: int) -> list[int]:
        """Return the first position of each chunk, and the number of records."""
        n = self._tables["X"].shape[0]
        edges = [*range(0, n, chunk_rows), n] if n else [0, 0]
        if "user_ids" not in self._tables:
            return edges
        ids = self._tables["user_ids"].read(0, n)
        starts = np.append(np.flatnonzero(ids[1:] != ids[:-1]) + 1, n)
        return [0, *np.unique(starts[np.searchsorted(starts, edges[1:])]).tolist()]

    def read(self, k: int) -> Chunk:
        first, stop = self._edges[k : k + 2]
        return Chunk(**{name: t.read(first, stop) for name, t in self._tables.items()})

    def for_workers(self) -> ArrayRecords:
        """Return the source without maps, which memory monitors count; refuse large arrays."""
        source = copy.copy(self)
        source._tables = {name: table.for_workers() for name, table in self._tables.items()}
        return source

    def close(self) -> None:
        """Give up the maps, and with them the room of files that were deleted."""
        for table in self._tables.values():
            table.close()


class _Held:
    """An array in memory."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.shape = array.shape

    def read(self, first: int, stop: int) -> Any:
        return self.array[first:stop]

    def for_workers(self) -> _Held:
        array = self.array
        size = array.data.nbytes if sp.issparse(array) else array.nbytes
        if size > _SENT:
            raise ValueError(
                f"Arrays of {size >> 20} MB are not sent to other processes: give paths of .npy "
                "files or Dask collections, or use joblib's backend 'threading'."
            )
        return self

    def close(self) -> None:
        pass

    def __getstate__(self) -> dict[str, Any]:
        return vars(self.for_workers())


class _File:
    """An array in a .npy file, read through one map per process or without any."""

    def __init__(self, path: str, mapped: bool) -> None:
        self.path = os.path.abspath(path)
        self.mapped = mapped
        self._map: np.ndarray | None = None
        with open(path, "rb") as file:
            if np.lib.format.read_magic(file) == (1, 0):
                header = np.lib.format.read_array_header_1_0(file)
            else:
                header = np.lib.format.read_array_header_2_0(file)
            self.shape, in_columns, self.dtype = header
            self.start = file.tell()
        if self.dtype.hasobject:
            raise ValueError(f"{path} holds Python objects: save numbers or fixed-length text.")
        if in_columns and len(self.shape) > 1:
            raise ValueError(f"{path} is in Fortran order: save np.ascontiguousarray(X).")
        self.row = math.prod(self.shape[1:])
        self._check_length()

    def _check_length(self) -> None:
        """Raise OSError for a file that was cut; a map of it would end the process."""
        if os.path.getsize(self.path) < self.start + self.shape[0] * self.row * self.dtype.itemsize:
            raise OSError(f"{self.path} is shorter than its header says.")

    def read(self, first: int, stop: int) -> np.ndarray:
        self._check_length()
        if self.mapped and self._map is None:
            # a new map for every read would take each page anew
            self._map = np.memmap(self.path, self.dtype, "r", self.start, self.shape)
        if self._map is not None:
            return np.asarray(self._map)[first:stop]
        size = self.row * self.dtype.itemsize
        part = np.empty((stop - first) * size, np.uint8)
        with open(self.path, "rb", buffering=0) as file:
            file.seek(self.start + first * size)
            _fill(part.data, file)
        return part.view(self.dtype).reshape(stop - first, *self.shape[1:])

    def for_workers(self) -> _File:
        return _File(self.path, mapped=False)

    def close(self) -> None:
        self._map = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_map": None}


def _fill(view: memoryview, file: Any) -> None:
    """Read the next bytes of a file until a view is full."""
    while view:
        n_read = file.readinto(view)
        if not n_read:
            raise OSError(f"{file.name} is shorter than its header says.")
        view = view[n_read:]


def _table(name: str, data: Any, mapped: bool) -> _Held | _File:
    """Return the array or file of X, y or the groups."""
    table: _Held | _File
    if isinstance(data, (str, os.PathLike)):
        table = _File(os.fspath(data), mapped)
    elif hasattr(data, "columns"):
        raise TypeError(f"{name} must be an array: a frame in memory is fitted as it is.")
    elif sp.issparse(data):
        if data.format != "csr":
            raise TypeError(f"{name} must be a CSR matrix: use {name}.tocsr().")
        table = _Held(data)
    else:
        table = _Held(np.asarray(data))
    dimensions = 2 if name == "X" else 1
    if len(table.shape) != dimensions:
        raise ValueError(f"{name} must have {dimensions} dimension(s), got {len(table.shape)}.")
    return table

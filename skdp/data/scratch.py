"""A copy of decoded records for the time of a fit: .npy files in a private folder."""

from __future__ import annotations

import contextlib
import math
import os
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from skdp._records import distinct_persons
from skdp.data.arrays import ArrayRecords
from skdp.data.sources import Chunk, DataError, RecordSource, merge_tree

#: Bytes that are written at once where a system cannot reserve room.
_ZEROS = 1 << 20


@contextlib.contextmanager
def stored(source: RecordSource, folder: str, by_person: bool) -> Iterator[RecordSource]:
    """Read `source`, whose sizes are known, into a new folder inside `folder`.

    With `by_person`, which takes one more pass, records are sorted by `user_ids`, which become
    numbers. Only its owner may open the new folder. It is deleted with the context, also by an
    exception. Raises DataError if there is no room for the copy, ValueError if the chunks are no
    dense arrays of one type and width, or ids are not of one kind.
    """
    with tempfile.TemporaryDirectory(prefix="skdp-", dir=folder) as private:  # mode 0700
        copy = _copied(source, private, _Persons.of(source) if by_person else None)
        try:
            yield copy
        finally:
            copy.close()


def _copied(source: RecordSource, folder: str, persons: _Persons | None) -> _Scratch:
    sizes = source.chunk_sizes or ()
    n = sum(sizes)
    columns: dict[str, _Column] = {}
    with contextlib.ExitStack() as files:

        def write(chunk: Chunk, where: str) -> None:
            chunk = chunk._replace(X=_numbers(chunk.X, where), unmapped=None)
            places = None
            if persons is not None:
                codes, places = persons.placed(chunk.user_ids)
                chunk = chunk._replace(user_ids=codes)
            for name, part in chunk._asdict().items():
                if part is None:
                    continue
                if name not in columns:
                    path = os.path.join(folder, f"{name}.npy")
                    columns[name] = _Column(path, n, part, files)
                columns[name].write(part, places, f"{name} of {where}")

        for k in range(source.n_chunks):
            if sizes[k]:  # others are not transformed
                write(source.read(k), source.describe(k))  # gone before the next one is read
    return _Scratch(columns)


class _Persons:
    """The places of records that are sorted by persons, and by their order within each.

    Ids are sorted and distinct.
    """

    def __init__(self, ids: np.ndarray, counts: np.ndarray) -> None:
        self._ids, self._next = ids, np.cumsum(counts) - counts

    @classmethod
    def of(cls, source: RecordSource) -> _Persons:
        """Count the records of each person."""
        counted = (_counted(source.read(k).user_ids) for k in range(source.n_chunks))
        return cls(*merge_tree(counted, _merged))

    def placed(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the codes and the places of the next records."""
        codes = np.searchsorted(self._ids, ids)
        order = np.argsort(codes, kind="stable")
        persons, first, numbers = np.unique(codes[order], return_index=True, return_counts=True)
        places = np.empty_like(codes)
        places[order] = np.repeat(self._next[persons] - first, numbers) + np.arange(len(codes))
        self._next[persons] += numbers
        return codes, places


def _counted(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    found, codes = distinct_persons(ids, len(ids))
    return found, np.bincount(codes)


def _merged(parts: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    ids, counts = map(np.concatenate, zip(*parts, strict=True))
    if ids.dtype == object and any(not isinstance(each, str) for each in ids):
        raise ValueError("user_ids must be integers or strings, all of one kind.")
    found, codes = np.unique(ids, return_inverse=True)
    return found, np.bincount(codes, weights=counts).astype(np.intp)


def _numbers(X: Any, name: str) -> np.ndarray:
    """Return X in single or double precision."""
    with contextlib.suppress(TypeError, ValueError):  # the error would quote an entry
        if isinstance(X, np.ndarray):
            return X.astype(np.float32 if X.dtype == np.float32 else np.float64, copy=False)
    raise ValueError(
        f"{name} is no dense array of numbers, and scratch stores nothing else: map other "
        "features by encoders that return dense arrays."
    )


class _Column:
    """A part of all records in a file; text as codes."""

    def __init__(self, path: str, n: int, first: np.ndarray, files: contextlib.ExitStack) -> None:
        self.path = path
        self.codes: dict[Any, int] | None = None if first.dtype.kind in "biuf" else {}
        self.dtype = first.dtype if self.codes is None else np.dtype(np.int32)
        self.width = first.shape[1:]
        self.shape = (n, *self.width)
        self._map: np.ndarray | None = None
        header = {"shape": self.shape, "fortran_order": False, "descr": self.dtype.str}
        with _naming(path):
            opened = open(path, "w+b", opener=_private)  # noqa: SIM115
            self.file = files.enter_context(opened)
            np.lib.format.write_array_header_1_0(self.file, header)
            _reserve(self.file, math.prod(self.shape) * self.dtype.itemsize)

    def write(self, part: np.ndarray, places: np.ndarray | None, name: str) -> None:
        """Write the next entries, or those of some places."""
        if self.codes is not None:
            labels = part.tolist()
            for label in dict.fromkeys(labels):
                self.codes.setdefault(label, len(self.codes))
            part = np.fromiter(map(self.codes.__getitem__, labels), self.dtype, len(labels))
        if (part.dtype, part.shape[1:]) != (self.dtype, self.width):
            raise ValueError(
                f"{name} has another type or number of columns than the chunks before."
            )
        if places is None:
            with _naming(self.path):
                np.ascontiguousarray(part).tofile(self.file)
            return
        if self._map is None:
            self._map = np.memmap(self.file, self.dtype, "r+", self.file.tell(), self.shape)
        self._map[places] = part

    @property
    def labels(self) -> np.ndarray | None:
        """What the codes stand for."""
        return None if self.codes is None else np.array([*self.codes, None], dtype=object)[:-1]


@contextlib.contextmanager
def _naming(path: str) -> Iterator[None]:
    """Raise DataError for a file that cannot be written."""
    try:
        yield
    except OSError as error:
        raise DataError(
            f"The copy of the records in {path} cannot be written: {error.strerror or error}."
        ) from error


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _reserve(file: Any, size: int) -> None:
    """Take room for the next bytes: a map of a file that has none would end the process."""
    file.flush()
    start = file.tell()
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, start + size)
        return
    while size:
        size -= file.raw.write(bytes(min(_ZEROS, size)))
    file.seek(start)


class _Scratch(ArrayRecords):
    """Records in files, text decoded when it is read."""

    def __init__(self, columns: dict[str, _Column]) -> None:
        paths: dict[str, Any] = {name: column.path for name, column in columns.items()}
        super().__init__(**paths, mapped=True)
        self._labels = {name: column.labels for name, column in columns.items()}

    def read(self, k: int) -> Chunk:
        chunk = super().read(k)
        text = {name: v[getattr(chunk, name)] for name, v in self._labels.items() if v is not None}
        return chunk._replace(**text)

"""A copy of decoded records for the time of a fit: .npy files in a private folder."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from skdp.data.arrays import ArrayRecords
from skdp.data.sources import Chunk, RecordSource, Rows


@contextlib.contextmanager
def stored(source: RecordSource, folder: str) -> Iterator[RecordSource]:
    """Read `source`, whose sizes are known, once into a new folder inside `folder`.

    Only its owner may open the new folder. It is deleted with the context, also by an exception.

    Raises
    ------
    ValueError
        If the chunks are no dense arrays of one type and width.
    """
    with tempfile.TemporaryDirectory(prefix="skdp-", dir=folder) as private:  # mode 0700
        copy = _copied(source, private)
        try:
            yield copy
        finally:
            copy.close()


def _copied(source: RecordSource, folder: str) -> _Scratch:
    n = sum(source.chunk_sizes or ())
    columns: dict[str, _Column] = {}
    with contextlib.ExitStack() as files:
        for k in range(source.n_chunks):
            chunk = source.read(k)
            if not chunk.X.shape[0]:  # and so not transformed
                continue
            chunk = chunk._replace(X=_numbers(chunk.X, source.describe(k)))
            for name, part in chunk._asdict().items():
                if part is None:
                    continue
                if name not in columns:
                    columns[name] = _Column(os.path.join(folder, f"{name}.npy"), n, part)
                    files.enter_context(columns[name].file)
                columns[name].append(part, f"{name} of {source.describe(k)}")
    return _Scratch(columns)


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
    """X, y or groups of all records in a file; text as codes."""

    def __init__(self, path: str, n: int, first: np.ndarray) -> None:
        self.path = path
        self.codes: dict[Any, int] | None = None if first.dtype.kind in "biuf" else {}
        self.dtype = first.dtype if self.codes is None else np.dtype(np.int32)
        self.width = first.shape[1:]
        self.file = open(path, "wb")  # noqa: SIM115  # closed with the others
        header = {"shape": (n, *self.width), "fortran_order": False, "descr": self.dtype.str}
        np.lib.format.write_array_header_1_0(self.file, header)

    def append(self, part: np.ndarray, name: str) -> None:
        if self.codes is not None:
            labels = part.tolist()
            for label in dict.fromkeys(labels):
                self.codes.setdefault(label, len(self.codes))
            part = np.fromiter(map(self.codes.__getitem__, labels), self.dtype, len(labels))
        if (part.dtype, part.shape[1:]) != (self.dtype, self.width):
            raise ValueError(
                f"{name} has another type or number of columns than the chunks before."
            )
        np.ascontiguousarray(part).tofile(self.file)

    @property
    def labels(self) -> np.ndarray | None:
        """What the codes stand for."""
        return None if self.codes is None else np.array([*self.codes, None], dtype=object)[:-1]


class _Scratch(ArrayRecords):
    """Records in files, text decoded when it is read."""

    def __init__(self, columns: dict[str, _Column]) -> None:
        paths: dict[str, Any] = {name: column.path for name, column in columns.items()}
        super().__init__(**paths)
        self._labels = {name: column.labels for name, column in columns.items()}

    def read(self, k: int, rows: Rows = slice(None)) -> Chunk:
        chunk = super().read(k, rows)
        text = {name: v[getattr(chunk, name)] for name, v in self._labels.items() if v is not None}
        return chunk._replace(**text)

"""Records in Parquet files, read row group by row group."""

from __future__ import annotations

import contextlib
import fnmatch
import os
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np

from skdp.data.scratch import stored
from skdp.data.sources import Chunk, RecordSource

try:
    import pyarrow as pa
    import pyarrow.fs as pafs
    import pyarrow.parquet as pq
except ImportError as error:
    raise ImportError('ParquetRecords needs pyarrow: pip install "skdp[parquet]"') from error

#: Decoded bytes of a row group above which it is said that groups should be smaller.
_LARGE = 1 << 30


class ParquetRecords(RecordSource):
    """Records in Parquet files; a chunk is a row group.

    Numeric and boolean features become one array of doubles, or of single precision if all are; a
    null becomes NaN. With other features each chunk is a data frame, for ``source.map``, such as
    with a fitted ColumnTransformer of declared categories.

    Parameters
    ----------
    paths : str or list of str
        A file, a pattern with ``*``, a folder (with all its ``.parquet`` files), or several; files
        are read in the order of their names. A URI such as ``s3://bucket/part-*.parquet`` too.
    target : str or None, default=None
        Column of the targets.
    groups : str, optional
        Column of the groups.
    user_ids, sample_weight : str, optional
        Columns that tell whose record each is, and its weight. All records of a person are in one
        row group, or there is a `scratch`: the copy is sorted by persons.
    features : sequence of str, optional
        Columns of X; all others by default.
    scratch : str, optional
        A folder with room for the decoded records. A fit then decodes once, into an unencrypted
        copy that is deleted when the fit ends, and not in every pass.
    filesystem : pyarrow.fs.FileSystem or fsspec filesystem, optional
        Where paths are.

    Examples
    --------
    >>> from skdp.data import ParquetRecords
    >>> source = ParquetRecords("events/*.parquet", target="clicked")  # doctest: +SKIP
    """

    def __init__(
        self,
        paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        target: str | None = None,
        *,
        groups: str | None = None,
        user_ids: str | None = None,
        sample_weight: str | None = None,
        features: Sequence[str] | None = None,
        scratch: str | os.PathLike[str] | None = None,
        filesystem: Any = None,
    ) -> None:
        named = Chunk(None, target, groups, user_ids, sample_weight)._asdict()
        #: Columns by the parts of a chunk.
        self._others = {part: name for part, name in named.items() if name is not None}
        self.scratch = None if scratch is None else os.fspath(scratch)
        self._filesystem, files = _find(paths, filesystem)
        footers = {file: pq.read_metadata(file, filesystem=self._filesystem) for file in files}
        schemas = {file: footer.schema.to_arrow_schema() for file, footer in footers.items()}
        self.feature_names: tuple[str, ...] = tuple(
            self._features(schemas[files[0]]) if features is None else features
        )
        self._columns = [*self.feature_names, *self._others.values()]
        self._check_columns(schemas)
        types = [
            schema.field(name).type for schema in schemas.values() for name in self.feature_names
        ]
        #: Of X; None for data frames.
        self._dtype = _common_type(types)
        self._row_groups = [
            (file, i) for file, footer in footers.items() for i in range(footer.num_row_groups)
        ]
        if not self._row_groups:
            raise ValueError(f"{files[0]} holds no records.")
        metadata = [footers[file].row_group(i) for file, i in self._row_groups]
        self.chunk_sizes = tuple(each.num_rows for each in metadata)
        self.n_chunks = len(metadata)
        row = len(self.feature_names) * (self._dtype or np.dtype(float)).itemsize
        largest = max(max(each.num_rows * row, each.total_byte_size) for each in metadata)
        if largest > _LARGE:
            warnings.warn(
                f"There are row groups of {largest / 1e9:.1f} GB, and a few are in memory at once: "
                "write them again with row_group_size=... rows for 8 to 100 MB.",
                stacklevel=2,
            )

    def _features(self, schema: pa.Schema) -> list[str]:
        """Return all columns but those of other parts and the index of pandas."""
        return [
            name
            for name in schema.names
            if name not in self._others.values() and not name.startswith("__index_level_")
        ]

    def _check_columns(self, schemas: dict[str, pa.Schema]) -> None:
        if not self.feature_names:
            raise ValueError("There are no features beside the target and the groups.")
        for file, schema in schemas.items():
            missing = [name for name in self._columns if name not in schema.names]
            if missing:
                raise ValueError(f"{file} has no column {missing[0]!r}.")

    def read(self, k: int) -> Chunk:
        path, i = self._row_groups[k]
        with self._filesystem.open_input_file(path) as opened:
            file = pq.ParquetFile(opened)
            self._check_columns({path: file.schema_arrow})
            if i >= file.num_row_groups:
                raise ValueError(f"{path} has no row group {i} any more: it was written anew.")
            others = file.read_row_group(i, columns=list(self._others.values()))
            parts = {part: _values(others.column(name)) for part, name in self._others.items()}
            return Chunk(self._rows(file, i), **parts)

    def _rows(self, file: pq.ParquetFile, i: int) -> Any:
        """Return X of a row group, of which few columns are decoded at once."""
        names = self.feature_names
        if self._dtype is None:
            return file.read_row_group(i, columns=names).select(names).to_pandas()
        # requests to a distant file system take longer than columns
        is_local = isinstance(self._filesystem, pafs.LocalFileSystem)
        at_once = 1 if is_local else len(names)
        X = np.empty((file.metadata.row_group(i).num_rows, len(names)), dtype=self._dtype)
        for first in range(0, len(names), at_once):
            some = names[first : first + at_once]
            table = file.read_row_group(i, columns=some, use_threads=not is_local)
            for j, name in enumerate(some, start=first):
                column = table.column(name).cast(pa.from_numpy_dtype(self._dtype), safe=False)
                X[:, j] = column.to_numpy()
        return X

    def opened(self, *transformers: Any) -> AbstractContextManager[RecordSource]:
        """Return the context of a copy in `scratch`, of transformed records, or of this source."""
        source = self.map(*transformers) if transformers else self
        if self.scratch is None:
            return contextlib.nullcontext(source)
        return stored(source, self.scratch, by_person="user_ids" in self._others)

    def for_workers(self) -> ParquetRecords:
        """Return the source; refuse a copy, which is on one machine."""
        if self.scratch is not None:
            raise ValueError("scratch is for one machine: on a cluster, persist a Dask collection.")
        return self

    def describe(self, k: int) -> str:
        file, i = self._row_groups[k]
        return f"chunk {k} ({file}, row group {i})"


def _common_type(types: list[pa.DataType]) -> np.dtype | None:
    """Return the type of an array of all features; None if some are not numeric."""
    numeric = (
        pa.types.is_integer,
        pa.types.is_boolean,
        pa.types.is_float32,
        pa.types.is_float64,
        pa.types.is_decimal,
    )
    if not all(any(check(each) for check in numeric) for each in types):
        return None
    return np.dtype(np.float32 if all(map(pa.types.is_float32, types)) else np.float64)


def _values(column: pa.ChunkedArray) -> np.ndarray:
    """Return a column that is no feature: numbers, or objects if they are text."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.to_numpy()


def _find(paths: Any, filesystem: Any) -> tuple[pafs.FileSystem, list[str]]:
    """Return the file system and the sorted names of the files."""
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    names = [os.fspath(path) for path in given]
    if filesystem is None and any("://" in name for name in names):
        located = [_of_uri(name) for name in names]
        filesystem, names = located[0][0], [name for _, name in located]
    elif filesystem is None:
        filesystem = pafs.LocalFileSystem()
        names = [Path(name).expanduser().absolute().as_posix() for name in names]
    elif not isinstance(filesystem, pafs.FileSystem):
        filesystem = pafs.PyFileSystem(pafs.FSSpecHandler(filesystem))
    files = {file for name in names for file in _matching(filesystem, name)}
    if not files:
        raise FileNotFoundError(f"No Parquet file matches {', '.join(names)}.")
    return filesystem, sorted(files)


def _of_uri(uri: str) -> tuple[pafs.FileSystem, str]:
    """Return the file system of a URI and its path, in which patterns stay as they are."""
    parts = uri.split("/")
    wild = _first_pattern(parts)
    filesystem, folder = pafs.FileSystem.from_uri("/".join(parts[:wild]))
    return filesystem, "/".join([folder, *parts[wild:]])


def _first_pattern(parts: list[str]) -> int:
    patterns = [i for i, part in enumerate(parts) if set(part) & set("*?[")]
    return patterns[0] if patterns else len(parts)


def _matching(filesystem: pafs.FileSystem, path: str) -> list[str]:
    """Return the files of a name, a folder or a pattern."""
    info = filesystem.get_file_info(path)
    if info.type == pafs.FileType.File:
        return [path]
    if info.type == pafs.FileType.Directory:
        return [
            file
            for file in _files_below(filesystem, path, recursive=True)
            if file.endswith(".parquet")
            and not any(part[0] in "._" for part in file[len(path) + 1 :].split("/"))
        ]
    parts = path.split("/")
    wild = _first_pattern(parts)
    if wild == len(parts):
        return []
    folder = "/".join(parts[:wild]) or "/"
    return [
        file
        for file in _files_below(filesystem, folder, recursive=wild + 1 < len(parts))
        if file.count("/") == path.count("/")
        and all(map(fnmatch.fnmatchcase, file.split("/"), parts))
    ]


def _files_below(filesystem: pafs.FileSystem, folder: str, recursive: bool) -> list[str]:
    found = filesystem.get_file_info(pafs.FileSelector(folder, recursive=recursive))
    return [info.path for info in found if info.type == pafs.FileType.File]

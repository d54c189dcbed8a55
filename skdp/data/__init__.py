"""Records that do not fit in memory: files, functions that read, and Dask clusters.

:class:`ParquetRecords` needs the extra "parquet", ``skdp.data.dask.DaskRecords`` the extra "dask".
Both are loaded when they are asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from skdp.data.arrays import ArrayRecords
from skdp.data.sources import Chunk, ChunkSource, DataError, RecordsChangedError, RecordSource

if TYPE_CHECKING:  # for type checkers and editors
    from skdp.data.parquet import ParquetRecords as ParquetRecords

__all__ = [
    "ArrayRecords",
    "Chunk",
    "ChunkSource",
    "DataError",
    "ParquetRecords",
    "RecordSource",
    "RecordsChangedError",
]


def __getattr__(name: str) -> Any:
    """Load what needs an optional package when it is asked for."""
    if name != "ParquetRecords":
        raise AttributeError(f"module 'skdp.data' has no attribute {name!r}")
    return importlib.import_module("skdp.data.parquet").ParquetRecords

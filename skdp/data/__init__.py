"""Records that do not fit in memory: files, functions that read, and Dask clusters."""

from __future__ import annotations

from skdp.data.arrays import ArrayRecords
from skdp.data.sources import Chunk, ChunkSource, DataError, RecordsChangedError, RecordSource

__all__ = [
    "ArrayRecords",
    "Chunk",
    "ChunkSource",
    "DataError",
    "RecordSource",
    "RecordsChangedError",
]

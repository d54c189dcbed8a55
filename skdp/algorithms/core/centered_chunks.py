"""Records of a source as centered rows: sums over chunks, which are read in every pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdp.algorithms.core.centered_rows import CenteredRecords, CenteredRows, Centering
from skdp.problems import Records
from skdp.problems.block import Block
from skdp.problems.chunked_records import ChunkedRecords


@dataclass(frozen=True, kw_only=True)
class CenteredTotal:
    """Sum a statistic of centered rows over the records of a chunk."""

    centering: Centering
    statistic: Callable[[Block, np.ndarray], np.ndarray]

    def __call__(self, records: Records) -> np.ndarray:
        rows = CenteredRows(records, self.centering, has_threads=False)
        return rows.full_total(self.statistic)


class CenteredChunks(CenteredRecords):
    """View records of a source as centered rows.

    Parameters
    ----------
    records : ChunkedRecords
    centering : Centering
    """

    def __init__(self, records: ChunkedRecords, centering: Centering) -> None:
        super().__init__(records.data_norm, records.intercept > 0.0, centering)
        self.records = records

    def full_total(self, statistic: Callable[[Block, np.ndarray], np.ndarray]) -> Any:
        total = CenteredTotal(centering=self.centering, statistic=statistic)
        return self.records.chunk_total(total)


def centered(records: Records | ChunkedRecords, centering: Centering) -> CenteredRecords:
    """View records as centered rows."""
    if isinstance(records, ChunkedRecords):
        return CenteredChunks(records, centering)
    return CenteredRows(records, centering)

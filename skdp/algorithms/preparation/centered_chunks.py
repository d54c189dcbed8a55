"""Records of a source as centered rows: sums over chunks, which are read in every pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdp.algorithms.preparation.centered_rows import CenteredRecords, CenteredRows, Centering
from skdp.mechanisms import NoiseSource, SecretLabels
from skdp.problems import Records
from skdp.problems.block import Block
from skdp.problems.chunked_records import ChunkedRecords, LabelledPart


@dataclass(frozen=True, kw_only=True)
class CenteredTotal:
    """Sum a statistic of centered rows over the records of a chunk.

    With `by_person` no person is divided between two parts.
    """

    centering: Centering
    statistic: Callable[[Block, np.ndarray], np.ndarray]
    by_person: bool

    def __call__(self, records: Records) -> np.ndarray:
        rows = CenteredRows(records, self.centering, has_threads=False)
        return rows.total(self.statistic, 0) if self.by_person else rows.full_total(self.statistic)


class CenteredChunks(CenteredRecords):
    """View records of a source as centered rows.

    Parameters
    ----------
    records : ChunkedRecords
    centering : Centering
    """

    def __init__(self, records: ChunkedRecords, centering: Centering) -> None:
        super().__init__(records.data_norm, records.intercept > 0.0, centering)
        self.of_persons = records.persons is not None
        self._records, self._centering = records, centering
        self._blocks: list[LabelledPart | None] = [None]

    def divide(self, n_blocks: int, noise: NoiseSource) -> None:
        if n_blocks == len(self._blocks):
            return
        self._blocks = [None]
        if n_blocks > 1:
            labels = SecretLabels(n_blocks, noise).for_readers()
            self._blocks = [*self._records.labelled(labels)]

    def total(self, statistic: Callable[[Block, np.ndarray], np.ndarray], k: int) -> Any:
        return self._sum(statistic, self._blocks[k], self.of_persons)

    def full_total(self, statistic: Callable[[Block, np.ndarray], np.ndarray]) -> Any:
        return self._sum(statistic, None)

    def _sum(
        self,
        statistic: Callable[[Block, np.ndarray], np.ndarray],
        part: LabelledPart | None,
        by_person: bool = False,
    ) -> Any:
        total = CenteredTotal(centering=self._centering, statistic=statistic, by_person=by_person)
        return self._records.chunk_total(total, part)


def centered(records: Records | ChunkedRecords, centering: Centering) -> CenteredRecords:
    """View records as centered rows."""
    if isinstance(records, ChunkedRecords):
        return CenteredChunks(records, centering)
    return CenteredRows(records, centering)

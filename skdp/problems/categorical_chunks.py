"""Categorical records of a source: marginals are counted in a few passes, all that a fit needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdp.problems.categorical import universe_size
from skdp.problems.chunked_records import ChunkedRecords

#: Cells that a pass counts, unless one marginal has more: engines keep up to 30 partial sums.
_CELLS = 1 << 18

Columns = tuple[int, ...]


@dataclass(frozen=True)
class CellCounts:
    """Counts of some marginals of the records of a chunk."""

    marginals: tuple[Columns, ...]

    def __call__(self, records: Any) -> tuple[np.ndarray, ...]:
        return tuple(map(records.counts, self.marginals))


class CategoricalChunks:
    """Records of a source, whose chunks are bounded to :class:`CategoricalRecords`."""

    def __init__(self, records: ChunkedRecords, sizes: tuple[int, ...]) -> None:
        self.sizes = sizes
        self._records = records
        self._counts: dict[Columns, np.ndarray] = {}

    @property
    def n_records(self) -> int:
        """Number of persons, or of records where each is a unit of its own."""
        return self._records.n_units

    @property
    def is_slack(self) -> bool:
        """Whether the weights of a unit may add up to less than 1."""
        return self._records.is_weighted

    @property
    def has_persons(self) -> bool:
        """Whether it is known whose record each is."""
        return self._records.has_persons

    def counted(self, marginals: Iterable[Sequence[int]]) -> CategoricalChunks:
        """Count marginals for :meth:`counts`, as many in a pass as there is room for."""
        for keys in self._passes(dict.fromkeys(map(tuple, marginals))):
            found = self._records.chunk_total(CellCounts(keys))
            self._counts.update(zip(keys, found, strict=True))
        return self

    def _passes(self, keys: Iterable[Columns]) -> Iterator[tuple[Columns, ...]]:
        """Divide marginals into those of each pass."""
        some: list[Columns] = []
        room = _CELLS
        for key in keys:
            n_cells = universe_size([self.sizes[c] for c in key])
            if some and n_cells > room:
                yield tuple(some)
                some, room = [], _CELLS
            some.append(key)
            room -= n_cells
        if some:
            yield tuple(some)

    def counts(self, columns: Sequence[int]) -> np.ndarray:
        """As of :class:`CategoricalRecords`, of a marginal that was counted."""
        return self._counts[tuple(columns)]

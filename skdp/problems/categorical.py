"""Tables of categorical records: integer codes of declared categories, and their counts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skdp.problems.chunked_records import ChunkedRecords
from skdp.problems.persons import shared_units


def universe_size(sizes: Sequence[int]) -> int:
    """Return the number of conceivable records, exactly.

    Examples
    --------
    >>> from skdp.problems import universe_size
    >>> universe_size([2, 3, 4])
    24
    """
    return math.prod(int(size) for size in sizes)


Columns = tuple[int, ...]

#: Cells that a pass counts, unless one marginal has more: engines keep up to 30 partial sums.
_CELLS = 1 << 18
#: Binary digits of the sums of weights of persons, and of those of weights that only enter counts.
_WEIGHT_BITS, _COUNT_BITS = 32, 52


@dataclass(frozen=True)
class CategoricalRecords:
    """Records with a public number of categories per column."""

    #: Shape (n_records, n_columns). Code j of column c is in ``range(sizes[c])``.
    codes: np.ndarray
    #: Number of categories per column.
    sizes: tuple[int, ...]
    #: Shape (n_records,). Weights of records, from :meth:`of_units`; None where every record is a
    #: unit of its own.
    shares: np.ndarray | None = None
    #: Number of units.
    n_persons: int | None = None

    def __post_init__(self) -> None:
        if self.codes.ndim != 2 or self.codes.shape[1] != len(self.sizes):
            raise ValueError("codes must have one column per entry of sizes.")

    def of_units(
        self,
        weights: np.ndarray | None = None,
        persons: np.ndarray | None = None,
        n_units: int | None = None,
    ) -> CategoricalRecords:
        """Weigh the records so that counts are exact; `weights` or `persons` may be None.

        Without weights those of the records of each person add up to 1, exactly: multiples of 2^-s,
        as large an s that sums over all records have 32 digits. What is left by division goes to
        the records of a person in the order of their codes, whatever the order of the table
        (docs/theory/persons.md). Weights in [0, 1], divided by the number of records of the person
        that have one, are rounded down to multiples of a power of two.

        Codes of persons are from 0 on without a gap; `n_units` is the number of units of the table
        that these are records of, by default of these.
        """
        if n_units is None:
            n_units = len(self.codes) if persons is None else int(persons.max()) + 1
        if weights is not None:
            unit, numbers = 1 << (_COUNT_BITS - n_units.bit_length()), np.ones(len(weights))
            if persons is not None:
                numbers = np.maximum(np.bincount(persons, weights > 0.0), 1.0)[persons]
            shares = np.floor(weights * np.floor(unit / numbers)) / unit
        elif persons is not None:
            unit, shares = 1 << (_WEIGHT_BITS - n_units.bit_length()), np.empty(len(persons))
            order = np.lexsort((*self.codes.T, persons))
            shares[order] = shared_units(persons[order], unit) / unit
        else:
            return self
        return replace(self, shares=shares, n_persons=n_units)

    @property
    def n_records(self) -> int:
        """Number of persons, or of records where each is a unit of its own."""
        return len(self.codes) if self.n_persons is None else self.n_persons

    def counted(self, marginals: Iterable[Sequence[int]]) -> CategoricalRecords:
        """Return itself: any marginal can be counted at any time."""
        return self

    def counts(self, columns: Sequence[int]) -> np.ndarray:
        """Count the records of each cell of a marginal, with their weights.

        Exact: the numbers are integers, or multiples of a power of two. Replacing one record moves
        one count up by 1 and one down by 1, or nothing; replacing one person moves counts by the
        difference of two distributions on the cells.
        """
        shape = tuple(self.sizes[c] for c in columns)
        cells = np.ravel_multi_index(tuple(self.codes[:, c] for c in columns), shape)
        return np.bincount(cells, self.shares, universe_size(shape)).reshape(shape)


@dataclass(frozen=True)
class CellCounts:
    """Counts of some marginals of the records of a chunk."""

    marginals: tuple[Columns, ...]

    def __call__(self, records: Any) -> tuple[np.ndarray, ...]:
        return tuple(map(records.counts, self.marginals))


class CategoricalChunks:
    """Records of a source, as :class:`CategoricalRecords`, counted in a few passes."""

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


#: Records that marginals are counted of, in memory or in chunks.
CategoricalTable = CategoricalRecords | CategoricalChunks

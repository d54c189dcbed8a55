"""Workloads: sets of linear queries on categorical records.

A linear query maps each conceivable record to a number; its answer on records is the mean. The
conceivable records, the universe, are in C order: the category of the last column changes first.
The queries are public, and so is how far one record moves each of them.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from skdp._checks import shown
from skdp.privacy.events import Neighbouring
from skdp.problems.categorical import CategoricalTable, universe_size

#: Bits of the queries of a matrix, in units of the largest: their sums over records are exact.
_BITS = 20


class Workload(ABC):
    """Linear queries whose values on a single record differ by at most `range`."""

    #: Number of categories per column.
    sizes: tuple[int, ...]

    @property
    def marginals(self) -> tuple[tuple[int, ...], ...]:
        """Columns of the marginals whose counts :meth:`sums` needs."""
        return (tuple(range(len(self.sizes))),)

    @property
    @abstractmethod
    def n_queries(self) -> int:
        """Number of queries."""

    @property
    @abstractmethod
    def range(self) -> float:
        """Largest difference of a query's values on two conceivable records."""

    @property
    @abstractmethod
    def largest(self) -> float:
        """Bound on the absolute values of the queries."""

    @abstractmethod
    def sums(self, records: CategoricalTable) -> np.ndarray:
        """Sum each query over the records, without rounding; shape (n_queries,)."""

    @abstractmethod
    def answers(self, distribution: np.ndarray) -> np.ndarray:
        """Answer each query on a distribution of the universe, of shape `sizes`."""

    @abstractmethod
    def combine(self, weights: np.ndarray) -> np.ndarray:
        """Add up weighted queries to a table of the universe, of shape `sizes`."""


class Marginals(Workload):
    """The cells of all marginals of some order, which are never made into a matrix.

    The order, a number of columns, is at most that of the table. `columns` has the marginals in
    lexicographic order; a query is a cell of one, in C order.
    """

    range = largest = 1.0

    def __init__(self, sizes: Sequence[int], order: int) -> None:
        self.sizes = tuple(int(size) for size in sizes)
        self.order = min(int(order), len(self.sizes))
        self.columns = tuple(itertools.combinations(range(len(self.sizes)), self.order))

    def shape(self, columns: Sequence[int]) -> tuple[int, ...]:
        """Shape of a marginal."""
        return tuple(self.sizes[c] for c in columns)

    @property
    def marginals(self) -> tuple[tuple[int, ...], ...]:
        return self.columns

    @cached_property
    def _ends(self) -> np.ndarray:
        return np.cumsum([universe_size(self.shape(columns)) for columns in self.columns])

    @property
    def n_queries(self) -> int:
        return int(self._ends[-1])

    def sums(self, records: CategoricalTable) -> np.ndarray:
        return np.concatenate([records.counts(columns).ravel() for columns in self.columns])

    def answers(self, distribution: np.ndarray) -> np.ndarray:
        # column by column, kept or summed out, so that marginals share the sums
        tables: dict[tuple[int, ...], np.ndarray] = {(): distribution}
        for c in range(len(self.sizes)):
            left, found = len(self.sizes) - c - 1, {}
            for kept, table in tables.items():
                if len(kept) < self.order:
                    found[(*kept, c)] = table
                if len(kept) + left >= self.order:
                    found[kept] = table.sum(axis=len(kept))
            tables = found
        return np.concatenate([tables[columns].ravel() for columns in self.columns])

    def combine(self, weights: np.ndarray) -> np.ndarray:
        table = np.zeros(self.sizes)
        parts = np.split(weights, self._ends[:-1])
        for columns, part in zip(self.columns, parts, strict=True):
            if part.any():
                table += part.reshape(
                    [size if c in columns else 1 for c, size in enumerate(self.sizes)]
                )
        return table


class QueryMatrix(Workload):
    """Queries as the rows of a finite matrix, whose columns are the universe in C order.

    Entries are rounded to multiples of 2^-20 of the smallest power of two above the largest of
    them, so that sums over up to 2^32 records are exact.
    """

    def __init__(self, sizes: Sequence[int], matrix: Any) -> None:
        self.sizes = tuple(int(size) for size in sizes)
        try:
            matrix = np.asarray(matrix, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            raise ValueError(
                "queries must be a string such as '2-way' or a matrix of numbers; in `answer` "
                f"also a list of tuples of column names. It is {shown(matrix)}."
            ) from None
        size = universe_size(self.sizes)
        if matrix.ndim != 2 or matrix.shape[1] != size or not len(matrix):
            raise ValueError(
                f"queries has shape {matrix.shape}, must be (n_queries, {size}): one column for "
                "each combination of categories."
            )
        if not np.isfinite(matrix).all():
            raise ValueError("queries must be finite.")
        largest = float(np.abs(matrix).max())
        if not 1e-100 <= largest <= 1e100:
            raise ValueError("the largest entry of queries must lie in [1e-100, 1e100].")
        self._unit = math.ldexp(1.0, math.frexp(largest)[1] - _BITS)
        self._numerators = np.rint(matrix / self._unit).astype(np.int64)
        self.matrix = self._numerators * self._unit

    @property
    def n_queries(self) -> int:
        return len(self.matrix)

    @cached_property
    def range(self) -> float:
        """Largest difference of a query's values; at least one unit of rounding."""
        spans = self._numerators.max(axis=1) - self._numerators.min(axis=1)
        return max(int(spans.max()), 1) * self._unit

    @property
    def largest(self) -> float:
        return float(np.abs(self.matrix).max())

    def sums(self, records: CategoricalTable) -> np.ndarray:
        counts = records.counts(range(len(self.sizes))).ravel()
        return (self._numerators @ counts) * self._unit

    def answers(self, distribution: np.ndarray) -> np.ndarray:
        return self.matrix @ distribution.ravel()

    def combine(self, weights: np.ndarray) -> np.ndarray:
        return (weights @ self.matrix).reshape(self.sizes)


@dataclass(frozen=True)
class QueryObjective:
    """Public numbers of a private answer to a workload."""

    workload: Workload
    n_records: int
    neighbouring: Neighbouring = Neighbouring.REPLACE_ONE
    #: Whether the weights of a record, or of a person's records, may add up to less than 1.
    is_slack: bool = False

"""Sums over the rows of columns, which are in memory or in chunks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdp.problems.chunked_records import ChunkedRecords
from skdp.problems.rounding import tree_sum

#: Rows that are summed at once.
COLUMN_BLOCK = 4096
#: Columns in [-1, 1], an array (or what has its slices) or :class:`ChunkedRecords` of such pairs,
#: and the person of each record of an array, or None.
Columns = tuple[Any, np.ndarray | None]


@dataclass(frozen=True)
class ColumnTotal:
    """Sum a statistic over blocks of rows, in a tree.

    `statistic` is of a block of rows and their weights, None for 1.
    """

    statistic: Callable[[np.ndarray, np.ndarray | None], Any]

    def __call__(self, X: Any, weights: np.ndarray | None = None) -> Any:
        blocks = (
            slice(start, start + COLUMN_BLOCK) for start in range(0, max(len(X), 1), COLUMN_BLOCK)
        )
        return tree_sum(
            self.statistic(X[block, :], None if weights is None else weights[block])
            for block in blocks
        )


@dataclass(frozen=True)
class OfPersons:
    """A sum over columns in which all persons weigh the same, if records are of persons."""

    #: From an array and the weights of its rows, or None, to a sum.
    total: Callable[[np.ndarray, np.ndarray | None], Any]
    #: The weight of a person, in integer parts for its records; None for 1, in quotients.
    unit: int | None = None

    def __call__(self, columns: Any) -> Any:
        X, persons = columns
        if persons is None:
            return self.total(X, None)
        numbers = np.bincount(persons)
        weights = 1.0 / numbers if self.unit is None else self.unit // numbers
        return self.total(X, weights[persons])

    def of(self, columns: Columns) -> Any:
        """Sum over columns in memory or in chunks, all records of a person being in one."""
        chunks = columns[0]
        return chunks.chunk_total(self) if isinstance(chunks, ChunkedRecords) else self(columns)


def are_of_persons(columns: Columns) -> bool:
    """Whether it is known whose record each is."""
    X, persons = columns
    return X.has_persons if isinstance(X, ChunkedRecords) else persons is not None


def check_shape(columns: Columns, shape: tuple[int, int]) -> None:
    """Raise ValueError unless there are as many units and columns as a plan is for."""
    X, persons = columns
    if persons is not None:
        n_units = int(persons.max()) + 1
    else:
        n_units = X.n_units if isinstance(X, ChunkedRecords) else len(X)
    n_features = X.n_features if isinstance(X, ChunkedRecords) else X.shape[1]
    if (n_units, n_features) != shape:
        raise ValueError("The plan is for records of another shape.")

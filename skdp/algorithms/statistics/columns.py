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
#: Columns in [-1, 1], an array or :class:`ChunkedRecords` of arrays, and the person of each record
#: of an array, or None.
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
            self.statistic(X[block], None if weights is None else weights[block])
            for block in blocks
        )

    def of(self, X: Any, weights: np.ndarray | None = None) -> Any:
        """Sum over columns in memory or in chunks."""
        return X.chunk_total(self) if isinstance(X, ChunkedRecords) else self(X, weights)


def check_shape(columns: Columns, shape: tuple[int, int]) -> None:
    """Raise ValueError unless there are as many units and columns as a plan is for."""
    X, persons = columns
    if persons is not None:
        n_units = int(persons.max()) + 1
    else:
        n_units = X.n_records if isinstance(X, ChunkedRecords) else len(X)
    n_features = X.n_features if isinstance(X, ChunkedRecords) else X.shape[1]
    if (n_units, n_features) != shape:
        raise ValueError("The plan is for records of another shape.")

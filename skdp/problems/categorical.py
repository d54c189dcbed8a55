"""Tables of categorical records: integer codes of declared categories, and their counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


def universe_size(sizes: Sequence[int]) -> int:
    """Return the number of conceivable records, exactly.

    Examples
    --------
    >>> from skdp.problems import universe_size
    >>> universe_size([2, 3, 4])
    24
    """
    return math.prod(int(size) for size in sizes)


@dataclass(frozen=True)
class CategoricalRecords:
    """Records with a public number of categories per column.

    Parameters
    ----------
    codes : ndarray of int, shape (n_records, n_columns)
        Code j of column c is in ``range(sizes[c])``.
    sizes : tuple of int
        Number of categories per column.
    """

    codes: np.ndarray
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.codes.ndim != 2 or self.codes.shape[1] != len(self.sizes):
            raise ValueError("codes must have one column per entry of sizes.")

    @property
    def n_records(self) -> int:
        return len(self.codes)

    def counts(self, columns: Sequence[int]) -> np.ndarray:
        """Count the records of each cell of a marginal.

        Exact: the numbers are integers. Replacing one record moves one count up by 1 and one
        down by 1, or nothing.

        Parameters
        ----------
        columns : sequence of int

        Returns
        -------
        counts : ndarray of int64, shape ``tuple(sizes[c] for c in columns)``
        """
        shape = tuple(self.sizes[c] for c in columns)
        cells = np.ravel_multi_index(tuple(self.codes[:, c] for c in columns), shape)
        return np.bincount(cells, minlength=universe_size(shape)).reshape(shape)

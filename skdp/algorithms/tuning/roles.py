"""Which records train and which validate: by position, never by value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from skdp._checks import check_count

__all__ = ["Roles", "fold_slices"]


def fold_slices(n_records: int, n_folds: int | None) -> list[slice]:
    """Folds of records: ``i % n_folds == k`` in the k-th, or one of all records for None."""
    if n_folds is None:
        return [slice(None)]
    check_count("n_folds", n_folds, 2, n_records)
    return [slice(k, None, n_folds) for k in range(n_folds)]


@dataclass(frozen=True)
class Roles:
    """Pairs of disjoint sets of records, and what one record can do to a mean over the pairs.

    Parameters
    ----------
    n_records : int
    n_folds : int or None, default=None
        None: one pair, records of even position train and those of odd position validate. An
        integer K: K pairs; in the k-th one records with ``i % K == k`` validate and all others
        train.
    """

    n_records: int
    n_folds: int | None = None

    def __post_init__(self) -> None:
        if self.n_records < 2:
            raise ValueError(f"n_samples={self.n_records}, must be at least 2.")
        fold_slices(self.n_records, self.n_folds)

    def pairs(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Positions of the training and of the validating records of each pair."""
        position = np.arange(self.n_records)
        if self.n_folds is None:
            yield position[::2], position[1::2]
            return
        for fold in fold_slices(self.n_records, self.n_folds):
            yield np.delete(position, fold), position[fold]

    def sensitivity(self, train: float, validate: float) -> float:
        """How far the mean over the pairs moves when one record is replaced.

        A record that trains among m moves the value of its pair by ``train / m``, one that
        validates among m by ``validate / m``. In one pair it has one of the roles: the
        larger of the two counts. In K pairs it validates once and trains K - 1 times:
        ``(validate / m' + (K - 1) train / m) / K`` with the smallest sets (review K20).
        """
        n, folds = self.n_records, self.n_folds
        if folds is None:
            return max(train / (n - n // 2), validate / (n // 2))
        largest = -(-n // folds)
        return (validate / (n // folds) + (folds - 1) * train / (n - largest)) / folds

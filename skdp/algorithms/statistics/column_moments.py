"""Means and mean squares of bounded columns, released once.

A column in [-1, 1] has the statistics z and c z^2 per record. Between z and z' they move by
``(a, c a b)`` with ``a = z - z'``, ``b = z + z'`` and ``|a| + |b| <= 2``. So the square of the
distance is at most ``a^2 (1 + c^2 (2 - |a|)^2)``. It is 4 at ``|a| = 2`` for every c, and nowhere
above for ``c^2 <= min (2 + a) / (a^2 (2 - a)) = 2.7725...``, attained at ``a = sqrt(5) - 1``. With
c = 1.66 the mean squares are released at no cost: the means alone move by as much, 2 per column.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from skdp._checks import check_count
from skdp._runtime import without_warnings
from skdp.algorithms.plan import Plan, Result, Run, require_replace_one
from skdp.algorithms.statistics.columns import (
    COLUMN_BLOCK,
    Columns,
    ColumnTotal,
    OfPersons,
    check_shape,
)
from skdp.mechanisms import calibrated_mechanism
from skdp.mechanisms.additive import AdditiveMechanism
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import Neighbouring
from skdp.privacy.report import Release
from skdp.problems.constants import MOST_RECORDS
from skdp.problems.rounding import EPS, ROUNDING_SLACK, chain

#: Weight of the squares, c above.
SQUARE_WEIGHT = 1.66


@dataclass(frozen=True)
class ColumnMoments:
    """Sums of columns, then of their squares times `SQUARE_WEIGHT`."""

    def __call__(self, block: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
        block = block.astype(np.float64)
        if weights is None:
            return np.concatenate([block.sum(axis=0), SQUARE_WEIGHT * (block**2).sum(axis=0)])
        return np.concatenate([weights @ block, SQUARE_WEIGHT * (weights @ block**2)])


@dataclass(frozen=True, kw_only=True)
class ColumnMomentsPlan(Plan):
    """Release the mean and the mean square of each column."""

    #: Or the number of persons: a record then weighs one over the number of its person's.
    n_records: int
    n_features: int
    budget: PrivacyBudget
    #: A record or a person is replaced.
    neighbouring: Neighbouring = Neighbouring.REPLACE_ONE

    def __post_init__(self) -> None:
        require_replace_one(self.neighbouring, type(self).__name__)
        check_count("n_records", self.n_records)
        check_count("n_features", self.n_features)

    @cached_property
    def mechanism(self) -> AdditiveMechanism:
        """Noise for both kinds of means, the squares times `SQUARE_WEIGHT`."""
        n, d = self.n_records, self.n_features
        exact = 2.0 * math.sqrt(d) / n * ROUNDING_SLACK
        # each of the two data sets has sums that are off by EPS chain(n) n, and a division;
        # the number of records of persons is private, and weights are quotients
        size = math.sqrt(d * (1.0 + SQUARE_WEIGHT**2))
        of_persons = self.neighbouring.unit == "user"
        most = MOST_RECORDS if of_persons else n
        terms = chain(most, COLUMN_BLOCK, COLUMN_BLOCK) + 2.0 * of_persons
        rounding = 2.0 * EPS * (terms + 4.0) * size
        return calibrated_mechanism(self.budget, exact + rounding)

    @property
    def releases(self) -> tuple[Release, ...]:
        reference = (
            "skdp.algorithms.statistics.column_moments: means and mean squares of bounded columns"
        )
        shape = 2 * self.n_features, self.n_records
        return (
            self.mechanism.describe("means and mean squares", *shape, reference, self.neighbouring),
        )

    @property
    def noise_deviations(self) -> tuple[float, float]:
        """Standard deviations of the noise in a mean and in a mean square."""
        width = 2 * self.n_features
        of_mean = math.sqrt(self.mechanism.mean_square(width) / width)
        return of_mean, of_mean / SQUARE_WEIGHT

    def to_dict(self) -> dict[str, Any]:
        return {"n_records": self.n_records, "square_weight": SQUARE_WEIGHT}

    @without_warnings()
    def run(self, data: Columns, run: Run) -> Result:
        """Release the moments; the point is means, then mean squares."""
        check_shape(data, (self.n_records, self.n_features))
        total = OfPersons(ColumnTotal(ColumnMoments())).of(data)
        point = self.mechanism.release(total / self.n_records, run.noise)
        point[self.n_features :] /= SQUARE_WEIGHT
        return Result(point=point, plan=self)

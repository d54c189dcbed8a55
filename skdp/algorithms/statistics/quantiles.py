"""Quantiles of bounded columns by the exponential mechanism (Smith 2011, Algorithm 2).

The candidates are a public grid. The score of a candidate t at rank k is the distance of k from the
interval [number of records below t, number of records up to t]. A replaced record moves both ends
by at most 1, so the score has sensitivity 1; ranks are integers, so it is exact.

If persons are replaced, a record weighs ``floor(U / m)``, for a person with m records and a power
of two U: those of a person add up to U at most, and sums are integers below 2^53. In units of U
both ends move by at most 1, exactly (docs/theory/persons.md).

References
----------
.. [1] A. Smith, "Privacy-preserving statistical estimation with optimal convergence rates",
   STOC 2011, Algorithm 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np

from skdp._checks import check_count, check_real
from skdp._runtime import without_warnings
from skdp.algorithms.plan import Plan, Result, Run, require_replace_one
from skdp.algorithms.statistics.columns import Columns, OfPersons, are_of_persons, check_shape
from skdp.mechanisms.calibration import draw_epsilon
from skdp.mechanisms.softmax import draw_exponential
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import ExponentialMechanismEvent, Neighbouring, RepeatedEvent
from skdp.privacy.report import Release


@dataclass(frozen=True)
class RanksOfGrid:
    """Weights of the entries below and up to each point of an ascending grid: (d, 2, m).

    Weights are integers that add up to at most 2^52, so that the sums are exact.
    """

    grid: np.ndarray

    def __call__(self, X: Any, weights: np.ndarray | None = None) -> np.ndarray:
        found, sides = [], cast("tuple[Any, ...]", ("left", "right"))
        for j in range(X.shape[1]):
            column = X[:, j : j + 1].ravel()
            if weights is None:
                column, sums = np.sort(column), np.arange(len(column) + 1)
            else:
                order = np.argsort(column)
                column, sums = column[order], np.append(0, np.cumsum(weights[order]))
            found.append([sums[np.searchsorted(column, self.grid, side)] for side in sides])
        return np.array(found)


@dataclass(frozen=True, kw_only=True)
class QuantilesPlan(Plan):
    """Draw quantiles of each column."""

    #: Or the number of persons.
    n_records: int
    n_features: int
    #: In [0, 1].
    quantiles: tuple[float, ...]
    #: For all draws together.
    budget: PrivacyBudget
    #: Points of the grid on [-1, 1].
    n_candidates: int = 1001
    #: A record or a person is replaced.
    neighbouring: Neighbouring = Neighbouring.REPLACE_ONE

    shown = "quantiles", "n_candidates", "draw_epsilon"

    def __post_init__(self) -> None:
        require_replace_one(self.neighbouring, type(self).__name__)
        check_count("n_records", self.n_records)
        check_count("n_features", self.n_features)
        check_count("n_candidates", self.n_candidates, 2, 10**7)
        for quantile in self.quantiles:
            check_real("a quantile", quantile, 0.0, 1.0)

    @property
    def n_draws(self) -> int:
        return self.n_features * len(self.quantiles)

    @cached_property
    def draw_epsilon(self) -> float:
        """Parameter of each draw: plain addition, or if there are many, Gaussian DP."""
        plain = self.budget.epsilon / self.n_draws
        return max(plain, draw_epsilon(self.budget, 1.0 / self.n_draws))

    @property
    def rank_error(self) -> float:
        """Bound all distances from ranks, with 95 % (McSherry and Talwar 2007, Theorem 6)."""
        return 2.0 * math.log(20.0 * self.n_candidates * self.n_draws) / self.draw_epsilon

    @property
    def grid(self) -> np.ndarray:
        return np.linspace(-1.0, 1.0, self.n_candidates)

    @property
    def releases(self) -> tuple[Release, ...]:
        event = ExponentialMechanismEvent(self.draw_epsilon, self.neighbouring)
        scale, reference = 2.0 / self.draw_epsilon, "Smith (2011), Algorithm 2, on a public grid"
        sizes = 1.0, scale, self.n_draws, self.n_records
        repeated = RepeatedEvent(event, self.n_draws)
        return (Release("quantiles", "exponential", *sizes, reference, repeated),)

    def ranks(self, data: Columns) -> tuple[np.ndarray, int]:
        """Return :class:`RanksOfGrid` of columns, and the rank that a person moves them by."""
        unit = 1 << (52 - self.n_records.bit_length()) if are_of_persons(data) else 1
        return OfPersons(RanksOfGrid(self.grid), unit).of(data), unit

    def scores(self, ranks: np.ndarray, quantile: float, unit: int = 1) -> np.ndarray:
        """Compute the distance in ranks of each candidate from a quantile: not private."""
        rank, (below, up_to) = round(quantile * self.n_records) * unit, ranks
        distances = np.maximum(np.maximum(below - rank, rank - up_to), 0)
        return distances if unit == 1 else distances / unit

    @without_warnings()
    def run(self, data: Columns, run: Run) -> Result:
        """Draw quantiles; the point has shape (n_features, n_quantiles)."""
        check_shape(data, (self.n_records, self.n_features))
        ranks, unit = self.ranks(data)
        drawn = [
            draw_exponential(self.scores(column, quantile, unit), self.draw_epsilon, run.noise)
            for column in ranks
            for quantile in self.quantiles
        ]
        return Result(point=self.grid[drawn].reshape(self.n_features, -1), plan=self)

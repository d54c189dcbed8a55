"""Quantiles of bounded columns by the exponential mechanism (Smith 2011, Algorithm 2).

The candidates are a public grid. The score of a candidate t at rank k is the distance of k from the
interval [number of records below t, number of records up to t]. A replaced record moves both ends
by at most 1, so the score has sensitivity 1; ranks are integers, so it is exact.

References
----------
.. [1] A. Smith, "Privacy-preserving statistical estimation with optimal convergence rates",
   STOC 2011, Algorithm 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from skdp._checks import check_count, check_real
from skdp._runtime import without_warnings
from skdp.algorithms.plan import Plan, Result, Run
from skdp.mechanisms.calibration import draw_epsilon
from skdp.mechanisms.softmax import draw_exponential
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import ExponentialMechanismEvent, Neighbouring, RepeatedEvent
from skdp.privacy.report import Release


@dataclass(frozen=True, kw_only=True)
class QuantilesPlan(Plan):
    """Draw quantiles of each column; replace-one neighbours.

    Parameters
    ----------
    n_records, n_features : int
    quantiles : tuple of float
        In [0, 1].
    budget : PrivacyBudget
        For all draws together.
    n_candidates : int
        Points of the grid on [-1, 1].
    """

    n_records: int
    n_features: int
    quantiles: tuple[float, ...]
    budget: PrivacyBudget
    n_candidates: int = 1001

    def __post_init__(self) -> None:
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
        """Bound on the distance of all draws from their ranks, with probability 95 %.

        A draw is more than t ranks worse than the best candidate with a probability of at most
        ``n_candidates exp(-t draw_epsilon / 2)``: each candidate that is worse by t is less likely
        than the best one by that exponential (McSherry and Talwar 2007, Theorem 6).
        """
        return 2.0 * math.log(20.0 * self.n_candidates * self.n_draws) / self.draw_epsilon

    @property
    def grid(self) -> np.ndarray:
        return np.linspace(-1.0, 1.0, self.n_candidates)

    @property
    def releases(self) -> tuple[Release, ...]:
        event = ExponentialMechanismEvent(self.draw_epsilon, Neighbouring.REPLACE_ONE)
        scale, reference = 2.0 / self.draw_epsilon, "Smith (2011), Algorithm 2, on a public grid"
        sizes = 1.0, scale, self.n_draws, self.n_records
        repeated = RepeatedEvent(event, self.n_draws)
        return (Release("quantiles", "exponential", *sizes, reference, repeated),)

    def to_dict(self) -> dict[str, Any]:
        return {
            "quantiles": list(self.quantiles),
            "n_candidates": self.n_candidates,
            "draw_epsilon": self.draw_epsilon,
        }

    def scores(self, column: np.ndarray, quantile: float) -> np.ndarray:
        """Compute the distance in ranks of each candidate from a quantile: not private."""
        column, rank = np.sort(column), round(quantile * self.n_records)
        below = np.searchsorted(column, self.grid, side="left")
        up_to = np.searchsorted(column, self.grid, side="right")
        return np.maximum(np.maximum(below - rank, rank - up_to), 0)

    @without_warnings()
    def run(self, data: np.ndarray, run: Run) -> Result:
        """Draw from columns in [-1, 1]; the point has shape (n_features, n_quantiles)."""
        if data.shape != (self.n_records, self.n_features):
            raise ValueError("The plan is for records of another shape.")
        drawn = [
            draw_exponential(self.scores(column, quantile), self.draw_epsilon, run.noise)
            for column in data.T
            for quantile in self.quantiles
        ]
        return Result(point=self.grid[drawn].reshape(self.n_features, -1), plan=self)

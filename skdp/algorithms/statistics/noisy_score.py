"""The mean of one bounded score per record, released with noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from skdp._checks import check_count
from skdp._runtime import without_warnings
from skdp.algorithms.plan import Plan, Result, Run
from skdp.mechanisms import calibrated_mechanism
from skdp.mechanisms.additive import AdditiveMechanism
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.report import Release
from skdp.problems.rounding import EPS


@dataclass(frozen=True, kw_only=True)
class NoisyScorePlan(Plan):
    """Release the mean of scores in [0, 1]; replace-one neighbours.

    One record moves the sum of the scores by at most 1. The sum is rounded once, by at most
    ``n EPS / 2`` on each of two data sets.

    Parameters
    ----------
    n_records : int
    budget : PrivacyBudget
    """

    n_records: int
    budget: PrivacyBudget

    def __post_init__(self) -> None:
        check_count("n_records", self.n_records)

    @cached_property
    def mechanism(self) -> AdditiveMechanism:
        """Noise for the sum."""
        return calibrated_mechanism(self.budget, 1.0 + EPS * self.n_records)

    @property
    def noise_deviation(self) -> float:
        """Standard deviation of the noise in the mean."""
        return math.sqrt(self.mechanism.mean_square(1)) / self.n_records

    @property
    def releases(self) -> tuple[Release, ...]:
        reference = "skdp.algorithms.statistics.noisy_score: sum of scores in [0, 1]"
        return (self.mechanism.describe("sum of scores", 1, self.n_records, reference),)

    def to_dict(self) -> dict[str, Any]:
        return {"n_records": self.n_records}

    @without_warnings()
    def run(self, data: np.ndarray, run: Run) -> Result:
        """Release the mean of the scores, clipped to [0, 1] each; NaN counts as 0."""
        if data.shape != (self.n_records,):
            raise ValueError("The plan is for another number of records.")
        scores = np.clip(np.nan_to_num(data.astype(np.float64), nan=0.0), 0.0, 1.0)
        total = np.array([math.fsum(scores)])
        return Result(point=self.mechanism.release(total, run.noise) / self.n_records, plan=self)

"""The spread of numeric targets around an offset: a noisy histogram of their distances.

Second moments of targets tell nothing of their spread where it is a small part of their range.
Distances are counted in powers of 2 of the range; a record is in one bin
(docs/theory/preparation.md, Lemma B).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from skdp.algorithms.preparation.noisy_sums import NoisySum
from skdp.mechanisms import NoiseSource
from skdp.privacy.events import Neighbouring
from skdp.privacy.report import Release
from skdp.problems import Design, Records
from skdp.problems.records import Block

#: Ends of the bins of |y - offset| over the bound on targets, from above.
_ENDS = (*(2.0**power for power in range(1, -8, -1)), 0.0)
#: Share of a normal law that is further away than its standard deviation.
_OUTSIDE = 0.32
#: Least spread.
_LEAST = 2.0**-9


@dataclass(frozen=True, kw_only=True)
class SpreadPlan:
    """A release of the counts of targets by their distance from an offset.

    Attributes
    ----------
    bound : float
        On the absolute value of targets.
    sum : NoisySum
    """

    bound: float
    sum: NoisySum

    def describe(self) -> Release:
        """Describe the release."""
        return self.sum.describe()

    def release(
        self, records: Records, offset: float, noise: NoiseSource, n_records: float | None = None
    ) -> float:
        """Release the standard deviation of the targets around an offset, about.

        `n_records` is their number, if it was released; None: the public one.
        """
        edges = np.array(_ENDS[-2:0:-1]) * self.bound  # ascending, without the ends

        def statistic(block: Block) -> np.ndarray:
            distances = np.abs(block.targets - offset)
            bins = np.searchsorted(edges, distances, side="left")
            return np.bincount(bins, minlength=len(edges) + 1).astype(np.float64)

        counts, _ = self.sum.release(records.total(statistic), noise)
        shares = np.maximum(counts, 0.0)[::-1] / (n_records or self.sum.design.n_records)
        outside = 0.0
        for share, high, low in zip(shares, _ENDS[:-1], _ENDS[1:], strict=True):
            if outside + share >= _OUTSIDE:
                found = high - (high - low) * (_OUTSIDE - outside) / share
                return max(found, _LEAST) * self.bound
            outside += float(share)
        return _LEAST * self.bound


def plan_spread(design: Design, bound: float, neighbouring: Neighbouring, mu: float) -> SpreadPlan:
    """Calibrate the release to mu-Gaussian differential privacy, by Lemma B."""
    counts = NoisySum(
        design=design,
        neighbouring=neighbouring,
        mu=mu,
        sensitivity=math.sqrt(neighbouring.n_changes),  # counts are exact
        n_entries=len(_ENDS) - 1,
        name="counts of targets by their distance from the offset",
        reference="docs/theory/preparation.md, Lemma B",
    )
    return SpreadPlan(bound=bound, sum=counts)

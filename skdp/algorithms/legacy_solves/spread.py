"""The spread of numeric targets around an offset: a noisy histogram of their distances.

Second moments of targets tell nothing of their spread where it is a small part of their range.
Distances are counted in powers of 2 of the range; a record is in one bin
(docs/theory/preparation.md, Lemma B).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from skdp.algorithms.core.noisy_sums import NoisySum
from skdp.algorithms.legacy_solves import rules
from skdp.mechanisms import NoiseSource
from skdp.privacy.events import Neighbouring
from skdp.privacy.report import Release
from skdp.problems import Design, Records
from skdp.problems.block import Block


@dataclass(frozen=True, kw_only=True)
class DistanceCounts:
    """Counts of targets by their distance from an offset, in bins with ascending inner edges."""

    offset: float
    edges: np.ndarray

    def __call__(self, block: Block) -> np.ndarray:
        distances = np.abs(block.targets - self.offset)
        bins = np.searchsorted(self.edges, distances, side="left")
        return block.count(bins, len(self.edges) + 1).astype(np.float64)


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
        ends = _ends()
        edges = ends[-2:0:-1] * self.bound  # ascending, without the ends
        exact = records.total(DistanceCounts(offset=offset, edges=edges))
        counts, _ = self.sum.release(exact, noise)
        shares = np.maximum(counts, 0.0)[::-1] / (n_records or self.sum.design.n_records)
        outside, least = 0.0, 0.25 * float(ends[-2])
        for share, high, low in zip(shares, ends[:-1], ends[1:], strict=True):
            if outside + share >= rules.OUTSIDE_SHARE:
                found = high - (high - low) * (rules.OUTSIDE_SHARE - outside) / share
                return max(float(found), least) * self.bound
            outside += float(share)
        return least * self.bound


def _ends() -> np.ndarray:
    """Ends of the bins of |y - offset| over the bound on targets, from above."""
    return np.append(2.0 ** np.arange(1.0, 1.0 - rules.BINS, -1.0), 0.0)


def plan_spread(
    design: Design, bound: float, neighbouring: Neighbouring, mu: float, is_pure: bool = False
) -> SpreadPlan:
    """Calibrate the release as :class:`NoisySum` does, by Lemma B."""
    counts = NoisySum(
        design=design,
        neighbouring=neighbouring,
        mu=mu,
        sensitivity=math.sqrt(neighbouring.n_changes),
        size=1.0 if design.is_weighted else 0.0,  # counts of records are exact
        n_entries=rules.BINS,
        name="counts of targets by their distance from the offset",
        reference="docs/theory/preparation.md, Lemma B",
        is_pure=is_pure,
    )
    return SpreadPlan(bound=bound, sum=counts)

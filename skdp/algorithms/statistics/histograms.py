"""Histograms of columns, released once.

A record counts in at most one bin of each column, so that its counts have the norm sqrt(d) at most,
and so have those of a person, whose records share its weight. Under add/remove this is what the
counts move by. Of a replaced record or person the counts before and after have no negative
entries, so that the squares of their norms add up to at most 2 d. Where columns have scales, d is
the sum of their squares.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from skdp._checks import check_count, check_positive
from skdp._runtime import without_warnings
from skdp.algorithms.plan import Plan, Result, Run
from skdp.algorithms.statistics.columns import Columns, ColumnTotal, OfPersons
from skdp.mechanisms.additive import AdditiveMechanism, GaussianMechanism
from skdp.privacy.events import Neighbouring
from skdp.privacy.report import Release
from skdp.problems.rounding import ROUNDING_SLACK

#: Weight of a unit: sums of its parts are integers, which are exact in any order.
UNIT = 2**20


@dataclass(frozen=True)
class BinCounts:
    """Counts of each column's bins, of rows of bins or of their places in [-1, 1]."""

    n_bins: int

    def __call__(self, block: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
        n, d = block.shape
        if block.dtype.kind == "f":
            block = np.rint((block.astype(np.float64) + 1.0) * (0.5 * (self.n_bins - 1)))
        places = (block.astype(np.intp) + self.n_bins * np.arange(d)).ravel()
        parts = np.repeat(np.broadcast_to(UNIT if weights is None else weights, n), d)
        # sums of integers below 2^53, in doubles
        counts = np.bincount(places, weights=parts, minlength=self.n_bins * d)
        return counts.astype(np.int64).reshape(d, self.n_bins)


@dataclass(frozen=True, kw_only=True)
class HistogramsPlan(Plan):
    """Release how many records, or persons, are in each bin of each column."""

    #: Nominal number of records or of persons, for the report.
    n_records: int
    #: What counts of each column are multiplied by, powers of 2: a larger one has less noise, at
    #: the cost of others.
    scales: tuple[float, ...]
    n_bins: int
    #: Of the Gaussian differential privacy of the release.
    mu: float
    neighbouring: Neighbouring
    #: What the columns are, for the report.
    of: str = "columns"

    shown = "n_bins", "scales"

    def __post_init__(self) -> None:
        if any(math.frexp(each)[0] != 0.5 for each in self.scales):  # products are exact
            raise ValueError(f"scales == {self.scales}, must be powers of 2.")
        check_count("n_bins", self.n_bins, 2)
        check_positive(mu=self.mu)

    @property
    def mechanism(self) -> AdditiveMechanism:
        squares = math.fsum(each**2 for each in self.scales)
        sensitivity = math.sqrt(self.neighbouring.n_changes * squares)
        return GaussianMechanism(sensitivity * ROUNDING_SLACK, 1.0 / self.mu)

    @property
    def deviations(self) -> np.ndarray:
        """Standard deviations of the noise in the counts of each column."""
        return self.mechanism.noise_scale / np.array(self.scales)

    @property
    def releases(self) -> tuple[Release, ...]:
        reference = "docs/theory/tabular.md, Lemma 3"
        shape = len(self.scales) * self.n_bins, self.n_records
        name = f"histograms of {self.of}"
        return (self.mechanism.describe(name, *shape, reference, self.neighbouring),)

    @without_warnings()
    def run(self, data: Columns, run: Run) -> Result:
        """Release the counts; the point has those of one column after the other."""
        exact = OfPersons(ColumnTotal(BinCounts(self.n_bins)), UNIT).of(data) / UNIT
        scales = np.repeat(self.scales, self.n_bins)
        noisy = self.mechanism.release(scales * exact.ravel(), run.noise)
        return Result(point=noisy / scales, plan=self)

"""Noisy sums over the records: noise for what one record changes, rounding included."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skdp.algorithms.core.centered_rows import sum_rounding
from skdp.algorithms.core.levels import Level
from skdp.mechanisms import AdditiveMechanism, NoiseSource
from skdp.privacy.events import Neighbouring
from skdp.privacy.report import Release
from skdp.problems import ROUNDING_SLACK, Design


@dataclass(frozen=True, kw_only=True)
class NoisySum:
    """A release of the sum over the records of vectors of bounded norm.

    Attributes
    ----------
    design : Design
    neighbouring : Neighbouring
    mu : float
        Of the Gaussian differential privacy of the release; if it `is_pure`, its epsilon.
    sensitivity : float
        What one record changes in the exact sum.
    size : float, default=0.0
        Bound on the norms of the vectors, for the rounding of their sum; 0 if earlier releases
        decide about it.
    n_entries : int
        Of the sum.
    name, reference : str
        In the privacy report.
    is_pure : bool, default=False
    """

    design: Design
    neighbouring: Neighbouring
    mu: float
    sensitivity: float
    size: float = 0.0
    n_entries: int
    name: str
    reference: str
    is_pure: bool = False

    def bound(self, moved: float = 0.0) -> float:
        """Bound what one record changes in the computed sum.

        `moved` bounds what the computed vector of a record changes by, in its last bits, with the
        place of the record in the table.
        """
        return self._unmoved + self.design.n_records * self.design.size_ratio * moved

    @cached_property
    def _unmoved(self) -> float:
        return self.sensitivity * ROUNDING_SLACK + sum_rounding(self.design, self.size)

    def mechanism(self, moved: float = 0.0) -> AdditiveMechanism:
        """Return the noise for what one record changes."""
        return Level(self.mu, self.is_pure).mechanism(self.bound(moved))

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise of an entry."""
        return self.mechanism().deviation(self.n_entries)

    def describe(self) -> Release:
        """Describe the release."""
        return self.mechanism().describe(
            self.name, self.n_entries, self.design.n_records, self.reference, self.neighbouring
        )

    def release(
        self, exact: np.ndarray, noise: NoiseSource, moved: float = 0.0
    ) -> tuple[np.ndarray, float]:
        """Return the noisy sum, of finite numbers, and the standard deviation of an entry."""
        mechanism = self.mechanism(moved)
        noisy = mechanism.release(exact.ravel(), noise).reshape(exact.shape)
        return np.nan_to_num(noisy), mechanism.deviation(exact.size)

"""Levels of privacy, and noisy sums over the records, with noise for what one record changes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from skdp.algorithms.core.centered_rows import sum_rounding
from skdp.mechanisms import (
    AdditiveMechanism,
    GaussianMechanism,
    NoiseSource,
    SphericalLaplaceMechanism,
)
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import Neighbouring
from skdp.privacy.gaussian_dp import gaussian_mu
from skdp.privacy.report import Release
from skdp.problems import ROUNDING_SLACK, Design


@dataclass(frozen=True)
class Level:
    """What a release, or several of them together, may cost."""

    #: Of Gaussian differential privacy; if it `is_pure`, epsilon.
    mu: float
    is_pure: bool = False

    @classmethod
    def of(cls, budget: PrivacyBudget) -> Level:
        """Return that of a whole budget."""
        if budget.is_pure:
            return cls(budget.epsilon, True)
        return cls(gaussian_mu(budget.epsilon, budget.delta))

    def part(self, share: float) -> Level:
        """Return a part: the squares of mu add up to that of the whole, and so do epsilons."""
        return Level(self.mu * (share if self.is_pure else math.sqrt(share)), self.is_pure)

    def mechanism(self, sensitivity: float) -> AdditiveMechanism:
        """Return the noise of a release: normal, or spherical Laplace noise."""
        if self.is_pure:
            return SphericalLaplaceMechanism(sensitivity, self.mu)
        return GaussianMechanism(sensitivity, 1.0 / self.mu)

    def deviation(self, dimension: int) -> float:
        """Return the standard deviation of a coordinate of the noise for the sensitivity 1."""
        return (math.sqrt(dimension + 1.0) if self.is_pure else 1.0) / self.mu


@dataclass(frozen=True, kw_only=True)
class NoisySum:
    """A release of the sum over the records of vectors of bounded norm."""

    design: Design
    neighbouring: Neighbouring
    #: Of the Gaussian differential privacy of the release; if it `is_pure`, its epsilon.
    mu: float
    #: What one record changes in the exact sum.
    sensitivity: float
    #: Bound on the norms of the vectors, for the rounding of their sum; 0 until earlier releases
    #: tell it.
    size: float = 0.0
    #: Number of entries of the sum.
    n_entries: int
    #: What the privacy report says.
    name: str
    reference: str
    is_pure: bool = False

    def bound(self, moved: float = 0.0) -> float:
        """Bound what one record changes in the computed sum.

        `moved` bounds what the computed vector of a record changes by, in its last bits, with the
        place of the record in the table.
        """
        in_place = self.sensitivity * ROUNDING_SLACK + sum_rounding(self.design, self.size)
        return in_place + self.design.n_records * self.design.size_ratio * moved

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

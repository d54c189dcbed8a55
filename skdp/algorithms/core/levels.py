"""Levels of privacy and their parts: mu of Gaussian differential privacy, or epsilon of pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from skdp.mechanisms import AdditiveMechanism, GaussianMechanism, SphericalLaplaceMechanism
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.gaussian_dp import gaussian_mu


@dataclass(frozen=True)
class Level:
    """What a release, or several of them together, may cost.

    Attributes
    ----------
    mu : float
        Of Gaussian differential privacy; if it `is_pure`, epsilon.
    is_pure : bool, default=False
    """

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

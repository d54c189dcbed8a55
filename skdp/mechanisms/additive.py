"""Additive noise mechanisms for vectors of bounded Euclidean sensitivity."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from skdp._checks import check_real
from skdp.mechanisms import grid
from skdp.mechanisms.calibration import Calibration, gaussian_noise_multiplier
from skdp.mechanisms.noise_source import NoiseSource
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import GaussianEvent, Neighbouring, PrivacyEvent, PureEvent
from skdp.privacy.report import Release


@dataclass(frozen=True)
class AdditiveMechanism(ABC):
    """Noise for a value that moves by at most `sensitivity` (Euclidean) between neighbours."""

    sensitivity: float

    #: Name in reports.
    name = ""

    def __post_init__(self) -> None:
        """Refuse parameters whose noise vanishes, underflows or overflows."""
        for name in tuple(self.__dataclass_fields__)[:2]:  # sensitivity, noise per unit of it
            value = getattr(self, name)
            check_real(name, value, 0.0, closed="neither")
            if type(value) is not float:  # no product in single precision
                object.__setattr__(self, name, float(value))
        scale = self.noise_scale
        check_real("the scale of the noise", scale, grid.LEAST_SCALE, grid.LARGEST_SCALE)

    @property
    @abstractmethod
    def noise_scale(self) -> float:
        """Scale of the noise in the units of the value."""

    @abstractmethod
    def event(self, neighbouring: Neighbouring) -> PrivacyEvent:
        """Describe the cost of one release, if the sensitivity is that under `neighbouring`."""

    def describe(
        self,
        name: str,
        dimension: int,
        n_records: int,
        reference: str,
        neighbouring: Neighbouring = Neighbouring.REPLACE_ONE,
    ) -> Release:
        """Describe a release with this noise; see :class:`skdp.privacy.Release` for the parameters.

        The sensitivity must be that under `neighbouring`.
        """
        scales = self.sensitivity, self.noise_scale
        event = self.event(neighbouring)
        return Release(name, self.name, *scales, dimension, n_records, reference, event)

    @abstractmethod
    def mean_square(self, dimension: int) -> float:
        """Return the expected squared norm of the noise."""

    @abstractmethod
    def deviation(self, dimension: int) -> float:
        """Return the standard deviation of each coordinate of the noise."""

    @abstractmethod
    def draw(self, dimension: int, noise: NoiseSource) -> np.ndarray:
        """Draw the noise alone, rounded to doubles, shape (dimension,)."""

    @abstractmethod
    def release(self, value: np.ndarray, noise: NoiseSource) -> np.ndarray:
        """Add noise to `value`, shape (dimension,): their exact sum, rounded to a public grid."""


@dataclass(frozen=True)
class GaussianMechanism(AdditiveMechanism):
    """Isotropic normal noise of standard deviation ``noise_multiplier * sensitivity``."""

    noise_multiplier: float

    name = "gaussian"

    @property
    def noise_scale(self) -> float:
        return self.noise_multiplier * self.sensitivity

    def event(self, neighbouring: Neighbouring) -> PrivacyEvent:
        return GaussianEvent(self.noise_multiplier, neighbouring)

    def mean_square(self, dimension: int) -> float:
        return dimension * self.noise_scale * self.noise_scale

    def deviation(self, dimension: int) -> float:
        return self.noise_scale

    def draw(self, dimension: int, noise: NoiseSource) -> np.ndarray:
        return self.noise_scale * noise.standard_normal(dimension)

    def release(self, value: np.ndarray, noise: NoiseSource) -> np.ndarray:
        return noise.add_normal(value, self.noise_scale)


@dataclass(frozen=True)
class SphericalLaplaceMechanism(AdditiveMechanism):
    """Noise of density proportional to ``exp(-epsilon ||z|| / sensitivity)``; pure epsilon-DP.

    The direction is uniform, the norm Gamma distributed with shape = dimension and scale
    ``sensitivity / epsilon`` (Chaudhuri, Monteleoni, Sarwate 2011; Lowy and Razaviyayn 2021,
    section 2). The shape must be the dimension exactly:
    docs/theory/output_perturbation.md, Lemma 2.
    """

    epsilon: float

    name = "spherical_laplace"

    @property
    def noise_scale(self) -> float:
        return self.sensitivity / self.epsilon

    def event(self, neighbouring: Neighbouring) -> PureEvent:
        return PureEvent(self.epsilon, neighbouring)

    def mean_square(self, dimension: int) -> float:
        return dimension * (dimension + 1) * self.noise_scale * self.noise_scale

    def deviation(self, dimension: int) -> float:
        return self.noise_scale * math.sqrt(dimension + 1.0)

    def draw(self, dimension: int, noise: NoiseSource) -> np.ndarray:
        return self.noise_scale * noise.gamma(dimension) * noise.direction(dimension)

    def release(self, value: np.ndarray, noise: NoiseSource) -> np.ndarray:
        return noise.add_spherical_laplace(value, self.noise_scale)


def calibrated_mechanism(
    budget: PrivacyBudget,
    sensitivity: float,
    calibration: Calibration = "analytic",
    share: float = 1.0,
) -> AdditiveMechanism:
    """Make the mechanism that spends `budget`, or a share of it, on one release.

    Spherical Laplace noise for ``delta == 0``, else Gaussian noise with the multiplier c of
    the calibration (see :func:`skdp.mechanisms.gaussian_noise_multiplier`). Releases whose shares,
    in (0, 1], add up to 1 cost the budget together: ``share * epsilon`` each, or
    ``c / sqrt(share)``, because the squares of the Gaussian DP parameters ``1 / c`` add.

    Examples
    --------
    >>> from skdp.mechanisms import calibrated_mechanism
    >>> from skdp.privacy import PrivacyBudget
    >>> calibrated_mechanism(PrivacyBudget(1.0), sensitivity=0.1)
    SphericalLaplaceMechanism(sensitivity=0.1, epsilon=1.0)
    """
    check_real("share", share, 0.0, 1.0, closed="right")
    if budget.is_pure:
        return SphericalLaplaceMechanism(sensitivity, share * budget.epsilon)
    multiplier = gaussian_noise_multiplier(budget.epsilon, budget.delta, calibration)
    return GaussianMechanism(sensitivity, multiplier / math.sqrt(share))

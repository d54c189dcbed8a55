"""Noise whose numbers a test chooses: added in floating point, not rounded to a grid."""

from typing import Any

import numpy as np
import pytest

from skdp.mechanisms import NoiseSource


class PlainNoise(NoiseSource):
    """Noise that is added as `standard_normal`, `gamma` and `direction` say."""

    def add_normal(self, value: Any, scale: float) -> np.ndarray:
        return np.asarray(value + scale * self.standard_normal(value.size))

    def add_spherical_laplace(self, value: Any, scale: float) -> np.ndarray:
        return np.asarray(value + scale * self.gamma(value.size) * self.direction(value.size))


def use_plain_noise(patch: pytest.MonkeyPatch) -> None:
    """Let every source of noise add its numbers in floating point."""
    for name in ("add_normal", "add_spherical_laplace"):
        patch.setattr(NoiseSource, name, getattr(PlainNoise, name))

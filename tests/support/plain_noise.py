"""Noise whose numbers a test chooses, or less noise than is stated."""

from typing import Any

import numpy as np
import pytest

from skdp.mechanisms import GaussianMechanism, NoiseSource, SphericalLaplaceMechanism


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


def scale_noise(patch: pytest.MonkeyPatch, part: float) -> None:
    """Let mechanisms draw and add only a part of their noise, behind the back of all plans."""
    for mechanism in (GaussianMechanism, SphericalLaplaceMechanism):
        full = mechanism.draw
        patch.setattr(mechanism, "draw", lambda *args, full=full: part * full(*args))
    for name in ("add_normal", "add_spherical_laplace"):
        whole = getattr(NoiseSource, name)

        def scaled(source: Any, value: Any, scale: float, whole: Any = whole) -> Any:
            return whole(source, value, part * scale)

        patch.setattr(NoiseSource, name, scaled)

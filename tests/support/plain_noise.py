"""Noise whose numbers a test chooses, none, or less than is stated."""

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


class Silent(PlainNoise):
    """No noise at all: exact movements become visible."""

    def standard_normal(self, size: Any) -> np.ndarray:
        return np.zeros(size)

    def gamma(self, shape: Any) -> float:
        return 0.0

    def direction(self, dimension: Any) -> np.ndarray:
        return np.full(dimension, dimension**-0.5)


def seeded(seed: int = 0) -> NoiseSource:
    """Return the noise of a seed."""
    return NoiseSource(np.random.default_rng(seed).bytes)


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

"""Random bits for privacy noise, apart from all other randomness.

By default the bits come from the operating system's secure generator. Samples are made by
inversion from 64-bit integers, so one path serves secure and seeded bits; tails beyond a
probability of about 1e-18 are cut off, so a smaller delta is not delivered (nor, by a rejection
sampler that takes m proposals, one below about m times that). Doubles are
rounded numbers: like every sampler in floating point this one is open to attacks on the
lowest bits of an output (Mironov, 2012); the package does not claim otherwise.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
from scipy.special import ndtri

__all__ = ["NoiseSource"]


class NoiseSource:
    """Samples of standard distributions from a stream of random bytes.

    Parameters
    ----------
    random_bytes : callable ``(n) -> bytes``, default=os.urandom
    """

    def __init__(self, random_bytes: Callable[[int], bytes] = os.urandom) -> None:
        self._bytes = random_bytes

    def _integers(self, size: int) -> np.ndarray:
        return np.frombuffer(self._bytes(8 * size), dtype=np.uint64)

    def _uniform_tail(self, integers: np.ndarray) -> np.ndarray:
        """Uniform numbers in (0, 1) from the upper 63 bits, fine-grained near 0."""
        return ((integers >> np.uint64(1)).astype(np.float64) + 0.5) * 2.0**-63

    def uniform(self, size: int) -> np.ndarray:
        """Independent uniform variables in (0, 1], fine-grained near 0."""
        return self._uniform_tail(self._integers(size))

    def standard_normal(self, size: int) -> np.ndarray:
        """Independent N(0, 1) variables."""
        integers = self._integers(size)
        # half the tail probability and a separate sign: both tails reach 2^-64
        magnitude = -ndtri(0.5 * self._uniform_tail(integers))
        return np.where(integers & np.uint64(1), magnitude, -magnitude)

    def gamma(self, shape: int) -> float:
        """One Gamma(shape, 1) variable for an integer shape: a sum of exponentials."""
        return float(-np.log(self._uniform_tail(self._integers(shape))).sum())

    def direction(self, dimension: int) -> np.ndarray:
        """One uniformly distributed unit vector."""
        while True:
            vector = self.standard_normal(dimension)
            norm = float(np.linalg.norm(vector))
            if norm > 0:
                return vector / norm

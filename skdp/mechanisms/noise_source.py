"""Random bits for privacy noise, apart from all other randomness.

By default the bits come from the operating system's secure generator. Normal and exponential
variables are partial draws of exactly their law (:mod:`skdp.mechanisms.partial_draws`), and noise
is added to a value exactly (:mod:`skdp.mechanisms.grid`): what is released is the exact sum,
rounded to a public grid. One path serves secure and seeded bits.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from skdp._checks import check_count, check_real
from skdp.mechanisms import grid
from skdp.mechanisms.partial_draws import (
    EXPONENTIAL,
    NO_DRAWS,
    NORMAL,
    Bytes,
    Law,
    PartialDraws,
    draw,
    joined,
)
from skdp.privacy.blocks import OfThisThread

#: Normal variables that are drawn ahead.
_MOST_RESERVED = 1 << 16


class NoiseSource:
    """Samples of standard distributions from a stream of random bytes.

    Parameters
    ----------
    random_bytes : callable ``(n) -> bytes``, default=os.urandom
    """

    #: Whose samplers these are, in reports.
    name = "skdp"

    def __init__(self, random_bytes: Bytes = os.urandom) -> None:
        self._bytes = random_bytes
        self._kept: dict[Law, PartialDraws] = {}
        self._process, self._lock = os.getpid(), threading.Lock()

    def words(self, size: int) -> np.ndarray:
        """Draw independent uniform 64-bit integers."""
        check_count("size", size, 0)
        return np.frombuffer(self._bytes(8 * size), dtype=np.uint64)

    def _draws(self, law: Law, size: int) -> PartialDraws:
        check_count("size", size, 0)
        with self._lock:
            draws = self._fill(law, size)
            self._kept[law] = draws[size:]
        return draws[:size]

    def _fill(self, law: Law, size: int) -> PartialDraws:
        """Keep at least `size` draws, and return all that are kept."""
        if self._process != os.getpid():  # a fork would draw what its parent draws
            self._process, self._kept = os.getpid(), {}
        kept = self._kept.get(law, NO_DRAWS)
        missing = size - len(kept.units)
        if missing > 0:
            kept = self._kept[law] = joined([kept, draw(law, missing, self._bytes)])
        return kept

    def __reduce__(self) -> Any:
        raise TypeError("A NoiseSource cannot be copied: copies would draw the same noise.")

    def reserve(self, size: int) -> None:
        """Draw normal variables ahead: many at once take less time than a few at a time."""
        check_count("size", size, 0)
        with self._lock:
            self._fill(NORMAL, min(size, _MOST_RESERVED))

    def add_normal(self, value: np.ndarray, scale: float) -> np.ndarray:
        """Add independent normal noise of standard deviation `scale`, and round to a grid."""
        return grid.add_normal(value, scale, self._draws(NORMAL, value.size), self._bytes)

    def add_spherical_laplace(self, value: np.ndarray, scale: float) -> np.ndarray:
        """Add noise of density proportional to ``exp(-||z|| / scale)``, and round to a grid."""
        lengths, directions = (self._draws(law, value.size) for law in (EXPONENTIAL, NORMAL))
        return grid.add_spherical_laplace(value, scale, lengths, directions, self._bytes)

    def exponential(self, size: int) -> np.ndarray:
        """Draw independent exponential variables of mean 1, rounded to doubles."""
        return np.abs(self._draws(EXPONENTIAL, size).values)

    def standard_normal(self, size: int) -> np.ndarray:
        """Draw independent N(0, 1) variables, rounded to doubles."""
        return self._draws(NORMAL, size).values.copy()

    def gamma(self, shape: int) -> float:
        """Draw one Gamma(shape, 1) variable for an integer shape: a sum of exponentials."""
        check_count("shape", shape)
        return float(self.exponential(shape).sum())

    def direction(self, dimension: int) -> np.ndarray:
        """Draw one uniformly distributed unit vector."""
        check_count("dimension", dimension)
        while True:
            vector = self.standard_normal(dimension)
            norm = float(np.linalg.norm(vector))
            if norm > 0:
                return vector / norm

    def bernoulli(self, size: int, probability: float) -> np.ndarray:
        """Draw independent booleans, each true with exactly this probability in [0, 1].

        Compares a uniform binary fraction with the probability, 16 bits at a time.
        """
        check_real("probability", probability, 0.0, 1.0)
        words = np.frombuffer(self._bytes(2 * size), dtype="<u2")
        rest, first = math.modf(probability * 2.0**16)  # exact: a shift of the binary point
        heads = words < int(first)
        if rest:
            ties = np.flatnonzero(words == int(first))
            if ties.size:
                heads[ties] = self.bernoulli(ties.size, rest)
        return heads


#: Makes the secure source of noise, where it is not that of this package.
SECURE: OfThisThread[Callable[[], NoiseSource]] = OfThisThread("skdp_noise")


def secure_noise() -> NoiseSource:
    """Make the source of noise of a fit without a seed."""
    return (SECURE.get() or NoiseSource)()


def noise_source_name(random_state: Any) -> str:
    """Return the name of the source of noise of a fit, which a seed makes that of this package."""
    return (secure_noise() if random_state is None else NoiseSource()).name

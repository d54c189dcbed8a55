"""Random bits for privacy noise, apart from all other randomness.

By default the bits come from the operating system's secure generator. Samples are made by
inversion from 64-bit integers, so one path serves secure and seeded bits. A uniform variable is a
binary fraction: its first word has 63 bits, and the few variables whose first word has less than
42 significant bits draw another word. So neither tail of a draw ends, and each is resolved to a
relative 2^-42 of its probability (docs/theory/noise.md). Like every sampler in floating point this
one is open to attacks on the lowest bits of an output (Mironov, 2012).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable

import numpy as np
from scipy.special import erfcx, ndtri, ndtri_exp

#: Bits of the first word of a variable, and how many of them must be significant.
_BITS, _SIGNIFICANT_BITS = 63, 42
_ONE = np.uint64(1)


class NoiseSource:
    """Samples of standard distributions from a stream of random bytes.

    Parameters
    ----------
    random_bytes : callable ``(n) -> bytes``, default=os.urandom
    """

    def __init__(self, random_bytes: Callable[[int], bytes] = os.urandom) -> None:
        self._bytes = random_bytes

    def words(self, size: int) -> np.ndarray:
        """Draw independent uniform 64-bit integers."""
        return np.frombuffer(self._bytes(8 * size), dtype=np.uint64)

    def _refined(self, cells: np.ndarray) -> np.ndarray:
        """Draw exponential variables -log U for U in cells ``[k, k + 1) 2^-63``."""
        # U = (k + V) 2^-63 with V uniform; for k = 0 this is an exponential that starts again
        log_rest = -self.exponential(cells.size)
        log_cells = np.full(cells.size, -math.inf)
        np.log(cells.astype(np.float64), out=log_cells, where=cells > 0)
        return _BITS * math.log(2.0) - np.logaddexp(log_cells, log_rest)

    def exponential(self, size: int) -> np.ndarray:
        """Draw independent exponential variables of mean 1."""
        cells = self.words(size) >> _ONE
        values = -np.log(_middles(cells))
        coarse = _coarse(cells)
        if coarse.size:
            values[coarse] = self._refined(cells[coarse])
        return values

    def standard_normal(self, size: int) -> np.ndarray:
        """Draw independent N(0, 1) variables."""
        words = self.words(size)
        cells = words >> _ONE
        # the tail probability of the magnitude is uniform; the lowest bit is the sign
        magnitudes = -ndtri(0.5 * _middles(cells))
        coarse = _coarse(cells)
        if coarse.size:
            magnitudes[coarse] = _normal_quantiles(self._refined(cells[coarse]) + math.log(2.0))
        return magnitudes * (2.0 * (words & _ONE) - 1.0)

    def gamma(self, shape: int) -> float:
        """Draw one Gamma(shape, 1) variable for an integer shape: a sum of exponentials."""
        return float(self.exponential(shape).sum())

    def direction(self, dimension: int) -> np.ndarray:
        """Draw one uniformly distributed unit vector."""
        while True:
            vector = self.standard_normal(dimension)
            norm = float(np.linalg.norm(vector))
            if norm > 0:
                return vector / norm

    def bernoulli(self, size: int, probability: float) -> np.ndarray:
        """Draw independent booleans, each true with exactly this probability in [0, 1].

        Compares a uniform binary fraction with the probability, 16 bits at a time.
        """
        words = np.frombuffer(self._bytes(2 * size), dtype="<u2")
        rest, first = math.modf(probability * 2.0**16)  # exact: a shift of the binary point
        heads = words < int(first)
        if rest:
            ties = np.flatnonzero(words == int(first))
            if ties.size:
                heads[ties] = self.bernoulli(ties.size, rest)
        return heads


def _middles(cells: np.ndarray) -> np.ndarray:
    middles = cells.astype(np.float64)
    middles += 0.5
    middles *= 2.0**-_BITS
    return middles


def _normal_quantiles(exponents: np.ndarray) -> np.ndarray:
    """Return the z > 0 with ``P(N(0, 1) > z) = exp(-exponent)``, for exponents above 10."""
    z = -ndtri_exp(-exponents)  # beyond 64 with a relative error of 1e-12, so one Newton step
    scaled = 0.5 * erfcx(z / math.sqrt(2.0))
    error = np.log(scaled) - 0.5 * z * z + exponents
    return z + error * math.sqrt(2.0 * math.pi) * scaled


def _coarse(cells: np.ndarray) -> np.ndarray:
    """Return the positions of the cells that are wide in comparison with their numbers."""
    return np.flatnonzero(cells < np.uint64(1 << _SIGNIFICANT_BITS - 1))

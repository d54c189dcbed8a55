"""Noise added exactly: the sum of a value and of noise of its exact law, rounded to a public grid.

Floating-point sums of a value and noise have lowest bits that tell the value (Mironov 2012). Here
the released number is ``g N`` with a public step g, a power of 2 near 2^-30 of the noise, and the
integer N nearest to ``(value + noise) / g``, the noise being a partial draw. Doubles enclose the
real sum; where the interval holds the middle between two integers, exact arithmetic decides, with
further bits of the draw. So the release is a function of the ideal mechanism's, and as private.
Proofs: docs/theory/noise.md.

References
----------
I. Mironov, "On significance of the least significant bits for differential privacy", CCS 2012.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property

import numpy as np

from skdp.mechanisms.partial_draws import CELL_BITS, Bytes, PartialDraws

#: Base-2 logarithm of the noise in steps of the grid, and the least one of a step.
_LOG_STEPS, _LEAST_LOG = 30, -1000
_DIGIT = np.uint64(2**21 - 1)


def step_of(deviation: float) -> float:
    """Return the step of the grid for noise of a standard deviation per coordinate.

    Deviations above 1e290 are refused: sums could overflow.
    """
    if not deviation <= 1e290:
        raise ValueError(
            f"the noise has a standard deviation of {deviation:g}, above 1e290: epsilon is too "
            "small, or a bound too large."
        )
    return math.ldexp(1.0, max(math.frexp(deviation)[1] - 1 - _LOG_STEPS, _LEAST_LOG))


def add_normal(value: np.ndarray, scale: float, draws: PartialDraws, source: Bytes) -> np.ndarray:
    """Add ``scale`` times normal draws to a value, and round to the grid.

    Parameters
    ----------
    value : ndarray of shape (dimension,)
    scale : float
        > 0.
    draws : PartialDraws
    source : callable ``(n) -> bytes``
        Of further bits of the draws.

    Returns
    -------
    ndarray of shape (dimension,)
        Multiples of the step, rounded to doubles.
    """
    step = step_of(scale)
    factor, noise = scale / step, draws.values  # the quotient is exact: the step is a power of 2
    errors = np.abs(noise)
    errors += 1.0
    errors *= factor * 2.0**-50
    noise *= factor
    return _rounded(value, step, noise, errors, _Normals(factor, draws, source))


def add_spherical_laplace(
    value: np.ndarray, scale: float, lengths: PartialDraws, directions: PartialDraws, source: Bytes
) -> np.ndarray:
    """Add ``scale`` times a vector of spherical Laplace law to a value, and round to the grid.

    The vector is a sum of exponential draws times a normal vector over its norm.

    Parameters
    ----------
    value : ndarray of shape (dimension,)
    scale : float
        > 0.
    lengths, directions : PartialDraws
        Exponential and normal draws, `dimension` of each.
    source : callable ``(n) -> bytes``
        Of further bits of the draws.

    Returns
    -------
    ndarray of shape (dimension,)
        Multiples of the step, rounded to doubles.
    """
    d = value.size
    step = step_of(scale * math.sqrt(d + 1.0))
    length, normals = math.fsum(lengths.magnitudes), directions.values
    square = math.fsum(normals * normals)
    radius = scale / step * length
    if d == 1:  # the direction is the sign
        normals, square = directions.signs, 1.0
    ratio = radius / math.sqrt(square)
    noise = ratio * normals
    # relative errors of the length and of the square
    relative = 2.0**-51 * (d + length) / length + 2.0**-48 * (d + square) / square
    errors = 2.0 * relative * np.abs(noise) + ratio * 2.0**-50 * (1.0 + np.abs(normals))
    if not relative < 2.0**-10:
        errors[:] = math.inf
    return _rounded(value, step, noise, errors, _Sphere(scale / step, lengths, directions, source))


def _rounded(
    value: np.ndarray, step: float, noise: np.ndarray, errors: np.ndarray, exact: _Exact
) -> np.ndarray:
    """Round ``value + step * noise`` to multiples of `step`.

    Parameters
    ----------
    value : ndarray of shape (dimension,)
    step : float
        A power of 2.
    noise, errors : ndarray of shape (dimension,)
        The noise in steps, and a bound on how far it is off before it is added.
    exact : _Normals or _Sphere
        The same noise.
    """
    with np.errstate(all="ignore"):
        scaled = value / step
        is_fine = np.abs(scaled) < 2.0**53
        all_fine = bool(is_fine.all())
        if not all_fine:  # multiples of the step, or no numbers
            scaled = np.where(is_fine, scaled, 0.0)
        whole = np.rint(scaled)
        base = whole * step if all_fine else np.where(is_fine, whole * step, value)
        scaled -= whole  # exact: the last bits of a double
        total = scaled + noise
        rounded = np.rint(total)
        errors = errors + 2.0**-52 * (1.0 + np.abs(noise))
        is_decided = np.abs(total - rounded) + errors < 0.5
        if not is_decided.all():
            for i in np.flatnonzero(~is_decided).tolist():
                rounded[i] = _nearest(Fraction(float(scaled[i])), exact, i)
        base += rounded * step
        base += 0.0  # no sign of zero, which would tell that of the value
    return base


def _nearest(rest: Fraction, exact: _Exact, i: int) -> int:
    """Return the integer nearest to a number plus coordinate i of the noise."""
    half = Fraction(1, 2)
    while True:
        first, last = (math.floor(rest + end + half) for end in exact.bounds(i))
        if first == last:
            return first
        exact.refine(i)


class _Normals:
    """Normal draws times a factor, in exact arithmetic."""

    def __init__(self, factor: float, draws: PartialDraws, source: Bytes) -> None:
        self._factor, self._draws, self._source = Fraction(factor), draws, source

    def bounds(self, i: int) -> tuple[Fraction, Fraction]:
        """Bound coordinate i."""
        sign, unit = int(self._draws.signs[i]), int(self._draws.units[i])
        low, high = (sign * self._factor * (unit + end) for end in self._draws.fraction(i).bounds)
        return low, high

    def refine(self, i: int) -> None:
        """Draw more bits."""
        self._draws.fraction(i).refine(self._source)


class _Sphere:
    """A factor times a sum of exponential draws, in a normal direction, in exact arithmetic."""

    def __init__(
        self, factor: float, lengths: PartialDraws, directions: PartialDraws, source: Bytes
    ) -> None:
        self._factor, self._parts, self._source = Fraction(factor), (lengths, directions), source
        self._size = CELL_BITS

    def bounds(self, i: int) -> tuple[Fraction, Fraction]:
        """Bound coordinate i."""
        d = len(self._parts[0].units)
        length, total, square = self._sums
        ratios = Fraction(length, 1 << self._size), Fraction(length + d, 1 << self._size)
        if d > 1:
            end = self._end(self._parts[1], i)
            # the norm of the normal vector, from below and above
            least, largest = math.isqrt(square), math.isqrt(square + 2 * total + d) + 1
            low = ratios[0] * Fraction(end, largest)
            # without a bound from above, far more than a step
            high = ratios[1] * Fraction(end + 1, least) if least else low + 2 / self._factor
            ratios = low, high
        sign = int(self._parts[1].signs[i]) * self._factor
        return sign * ratios[0], sign * ratios[1]

    def refine(self, i: int) -> None:
        """Draw more bits of all numbers."""
        self._size += 64
        for part in self._parts:
            for j in range(len(part.units)):
                if part.fraction(j).size < self._size:
                    part.fraction(j).refine(self._source)
        del self._sums

    def _end(self, part: PartialDraws, i: int) -> int:
        """Return the first bits of draw i of a part, without its sign, as an integer."""
        fraction = int(part.cells[i])
        if self._size > CELL_BITS:
            bits = part.fraction(i)
            fraction = bits.numerator >> bits.size - self._size
        return (int(part.units[i]) << self._size) + fraction

    @cached_property
    def _sums(self) -> tuple[int, int, int]:
        """Sum the lengths, the normals and the squares of the normals, as far as they are known."""
        lengths, normals = self._parts
        if self._size == CELL_BITS:
            return _exact_sums(lengths)[0], *_exact_sums(normals)
        ends = [self._end(normals, i) for i in range(len(normals.units))]
        length = sum(self._end(lengths, i) for i in range(len(ends)))
        return length, sum(ends), sum(end * end for end in ends)


def _exact_sums(part: PartialDraws) -> tuple[int, int]:
    """Sum draws and their squares in units of 2^-63, from the first bits of their fractions."""
    # digits in base 2^21: sums of 2^17 products of two of them are below 2^59
    fractions = [(part.cells >> np.uint64(shift)) & _DIGIT for shift in (0, 21, 42)]
    digits = np.stack([*fractions, part.units.astype(np.uint64)])
    total = square = 0
    for start in range(0, digits.shape[1], 1 << 17):
        block = digits[:, start : start + (1 << 17)]
        for j, sum_of_digit in enumerate(block.sum(axis=1).tolist()):
            total += sum_of_digit << 21 * j
        for j, row in enumerate((block[:, None] * block).sum(axis=2).tolist()):
            square += sum(entry << 21 * (j + k) for k, entry in enumerate(row))
    return total, square


#: The noise of a release in exact arithmetic.
_Exact = _Normals | _Sphere

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

from skdp._checks import check_real
from skdp.mechanisms.partial_draws import CELL_BITS, Bytes, PartialDraws

#: Base-2 logarithm of the noise in steps of the grid, and the least one of a step.
_LOG_STEPS, _LEAST_LOG = 30, -1000
#: Scales of noise that are released.
LEAST_SCALE, LARGEST_SCALE = 1e-290, 1e290
_DIGIT, _HALF = np.uint64(2**21 - 1), np.uint64(2**32 - 1)


def step_of(deviation: float) -> float:
    """Return the step of the grid for noise of a standard deviation per coordinate.

    Above 1e290 sums could overflow, and below 1e-290 there may be no noise left.
    """
    check_real("the scale of the noise", deviation, LEAST_SCALE, LARGEST_SCALE)
    return math.ldexp(1.0, max(math.frexp(deviation)[1] - 1 - _LOG_STEPS, _LEAST_LOG))


def add_normal(value: np.ndarray, scale: float, draws: PartialDraws, source: Bytes) -> np.ndarray:
    """Add ``scale`` times normal draws to a value, and round to the grid.

    `source` has further bits of the draws. Returns multiples of the step, rounded to doubles.
    """
    step, scale = step_of(scale), float(scale)  # a power of 2: the quotient is exact
    return _rounded(value, step, _Normals(scale / step, draws, source))


def add_spherical_laplace(
    value: np.ndarray, scale: float, lengths: PartialDraws, directions: PartialDraws, source: Bytes
) -> np.ndarray:
    """Add ``scale`` times a vector of spherical Laplace law to a value, and round to the grid.

    The vector is a sum of exponential draws times a normal vector over its norm; there are as many
    of both as coordinates. `source` has further bits of the draws. Returns multiples of the step,
    rounded to doubles.
    """
    check_real("the scale of the noise", scale, LEAST_SCALE, LARGEST_SCALE)
    scale = float(scale)
    step = step_of(scale * math.sqrt(value.size + 1.0))
    return _rounded(value, step, _Sphere(scale / step, lengths, directions, source))


def _rounded(value: np.ndarray, step: float, noise: _Noise) -> np.ndarray:
    """Round ``value + step * noise`` to multiples of `step`, a power of 2."""
    if not value.size:
        return np.empty(0)
    with np.errstate(all="ignore"):
        scaled = value / step
        whole, fixed = np.rint(scaled), None
        if not _largest(scaled) < 2.0**53:  # multiples of the step, or no numbers
            fixed = ~(np.abs(scaled) < 2.0**53)
            scaled[fixed] = whole[fixed] = 0.0
        base = whole * step
        if fixed is not None:
            base[fixed] = value[fixed]
        scaled -= whole  # exact: the last bits of a double
        total, error = noise.near()
        total += scaled
        rounded = np.rint(total)
        total -= rounded
        if not _largest(total) + error < 0.5:
            for i in np.flatnonzero(~(np.abs(total) + error < 0.5)).tolist():
                rest = Fraction(float(scaled[i]))
                rounded[i] = _nearest(rest, noise, i)
        base += rounded * step
        base += 0.0  # no sign of zero, which would tell that of the value
    return base


def _largest(numbers: np.ndarray) -> float:
    """Return the largest absolute value of at least one number."""
    return float(np.maximum.reduce(np.abs(numbers)))


def _nearest(rest: Fraction, noise: _Noise, i: int) -> int:
    """Return the integer nearest to a number plus coordinate i of the noise."""
    half = Fraction(1, 2)
    while True:
        first, last = (math.floor(rest + end + half) for end in noise.bounds(i))
        if first == last:
            return first
        noise.refine(i)


class _Normals:
    """Normal draws times a factor."""

    def __init__(self, factor: float, draws: PartialDraws, source: Bytes) -> None:
        self._factor, self._draws, self._source = factor, draws, source

    def near(self) -> tuple[np.ndarray, float]:
        """Return doubles near the coordinates, and how far their sums with 1/2 may be off."""
        noise = self._factor * self._draws.values
        largest = _largest(noise)
        return noise, 2.0**-50 * (self._factor + largest) + 2.0**-52 * (1.0 + largest)

    def bounds(self, i: int) -> tuple[Fraction, Fraction]:
        """Bound coordinate i, in exact arithmetic."""
        sign, unit = self._draws.sign(i), int(self._draws.units[i])
        factor = sign * Fraction(self._factor)
        low, high = (factor * (unit + end) for end in self._draws.fraction(i).bounds)
        return low, high

    def refine(self, i: int) -> None:
        """Draw more bits."""
        self._draws.fraction(i).refine(self._source)


class _Sphere:
    """A factor times a sum of exponential draws, in a normal direction."""

    def __init__(
        self, factor: float, lengths: PartialDraws, directions: PartialDraws, source: Bytes
    ) -> None:
        self._factor, self._parts, self._source = factor, (lengths, directions), source
        self._size = CELL_BITS

    def near(self) -> tuple[np.ndarray, float]:
        """Return doubles near the coordinates, and how far their sums with 1/2 may be off."""
        ratio, relative = self._ratio
        normals = self._parts[1].values
        noise = ratio * (normals if len(normals) > 1 else np.sign(normals))
        if not relative < 2.0**-10:
            return noise, math.inf
        largest = _largest(noise)
        error = 2.0**-50 * ratio + (2.0**-50 + relative) * largest
        return noise, error + 2.0**-52 * (1.0 + largest)

    @cached_property
    def _ratio(self) -> tuple[float, float]:
        """The norm over that of the normal vector, and how far the unknown bits may move it.

        From the middles of what the first bits allow; the second number is relative.
        """
        length, total, square = self._sums
        d, size = len(self._parts[0].units), self._size
        radius, norm_squared = (2 * length + d) / (1 << size + 1), 1.0
        if d > 1:  # otherwise the direction is the sign
            norm_squared = (2 * (square + total) + d) / (1 << 2 * size + 1)
        relative = 2.0**-62 * (d / radius + (d + norm_squared) / norm_squared)
        return self._factor * radius / math.sqrt(norm_squared), relative

    def bounds(self, i: int) -> tuple[Fraction, Fraction]:
        """Bound coordinate i, in exact arithmetic."""
        factor, d = Fraction(self._factor), len(self._parts[0].units)
        length, total, square = self._sums
        ratios = Fraction(length, 1 << self._size), Fraction(length + d, 1 << self._size)
        if d > 1:
            end = self._end(self._parts[1], i)
            # the norm of the normal vector, from below and above
            least, largest = math.isqrt(square), math.isqrt(square + 2 * total + d) + 1
            low = ratios[0] * Fraction(end, largest)
            # without a bound from above, far more than a step
            high = ratios[1] * Fraction(end + 1, least) if least else low + 2 / factor
            ratios = low, high
        sign = self._parts[1].sign(i) * factor
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
            return _sum(lengths), _sum(normals), _sum_of_squares(normals)
        ends = [self._end(normals, i) for i in range(len(normals.units))]
        length = sum(self._end(lengths, i) for i in range(len(ends)))
        return length, sum(ends), sum(end * end for end in ends)


def _sum(part: PartialDraws) -> int:
    """Sum draws, without their signs, in units of 2^-63, from the first bits of their fractions."""
    # halves of 32 bits: sums of up to 2^32 of them are below 2^64
    low, high = ((part.cells >> np.uint64(shift)) & _HALF for shift in (0, 32))
    return int(low.sum()) + (int(high.sum()) << 32) + (int(part.units.sum()) << CELL_BITS)


def _sum_of_squares(part: PartialDraws) -> int:
    """Sum squares of draws in units of 2^-126, from the first bits of their fractions."""
    square = 0
    for start in range(0, len(part.units), 1 << 17):
        cells, units = (each[start : start + (1 << 17)] for each in (part.cells, part.units))
        # digits in base 2^21: sums of 2^17 products of two of them are below 2^59
        fractions = [(cells >> np.uint64(shift)) & _DIGIT for shift in (0, 21, 42)]
        digits = np.array([*fractions, units], dtype=np.uint64)
        for j, row in enumerate(np.einsum("ik,jk->ij", digits, digits).tolist()):
            square += sum(entry << 21 * (j + k) for k, entry in enumerate(row))
    return square


#: The noise of a release, in steps.
_Noise = _Normals | _Sphere

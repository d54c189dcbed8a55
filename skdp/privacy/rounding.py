"""Rounding of totals to floats, on the private side.

Sums under composition are exact rational numbers, because squares of noise multipliers and counts
of releases leave the range of doubles: 1e-163 squared is 0 there, and 10**170 releases of that cost
something. A total is rounded once, when it is converted, and upwards.
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction


def ceil_float(value: Fraction) -> float:
    """Smallest float that is not below `value` >= 0; infinity where there is no other."""
    try:
        nearest = float(value)
    except OverflowError:
        return math.inf
    return nearest if nearest >= value else math.nextafter(nearest, math.inf)


def floor_float(value: Fraction) -> float:
    """Largest float that is not above `value` >= 0."""
    rounded = ceil_float(value)
    return rounded if rounded == value else math.nextafter(rounded, 0.0)


def ceil_sqrt(value: Fraction) -> float:
    """Return the square root of `value` >= 0 rounded up, exact where the root is a float.

    Neither overflow nor underflow of `value` matters. A root that is a normal number is above the
    exact one by a relative 3e-16 at most.
    """
    numerator, denominator = value.as_integer_ratio()
    # at least 128 bits before the root, so 64 after it
    shift = 64 + max(0, denominator.bit_length() - numerator.bit_length())
    scaled = -(-(numerator << 2 * shift) // denominator)
    root = math.isqrt(scaled)
    return ceil_float(Fraction(root + (root * root < scaled), 1 << shift))


@functools.lru_cache(maxsize=4096)
def ceil_reciprocal(value: float) -> Fraction:
    """Return ``1 / value`` rounded up to 53 bits, without the limits of a float's exponent.

    The value is finite and > 0. The denominator is a power of 2, so that sums of many stay short.
    """
    mantissa, exponent = math.frexp(value)
    quotient = 1.0 / mantissa
    if Fraction(quotient) * Fraction(mantissa) < 1:
        quotient = math.nextafter(quotient, math.inf)
    return Fraction(quotient) / Fraction(2) ** exponent

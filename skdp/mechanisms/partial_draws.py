"""Exact draws of which only as many bits are known as decisions needed.

A *partial draw* is an integer and the first bits of a fraction. The bits that follow are
independent and fair, and are drawn if something depends on them, so that the draw stands for a
real number of exactly its law (Karney 2016). Two laws on the positive numbers have this form:
draw an integer k with probability proportional to ``exp(-w(k))``, draw a uniform fraction x, and
keep ``k + x`` with probability ``exp(-t(k, x))``, else start again. For the magnitude of a normal
variable ``w = k^2 / 2`` and ``t = x (2 k + x) / 2``; for an exponential variable ``w = k`` and
``t = x``.

Both decisions compare a uniform number, of which 31 or 32 bits are drawn, with a probability that
is known up to an error. Where these do not decide it, in about one of 2^27 cases, exact arithmetic
and further bits do. Proofs: docs/theory/noise.md.

References
----------
C. F. F. Karney, "Sampling exactly from the normal distribution", ACM Transactions on Mathematical
Software 42 (2016).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Context, Decimal
from fractions import Fraction
from functools import cache
from itertools import accumulate
from typing import Any

import numpy as np

#: Bits of a fraction, of the number that draws an integer, and of the coin.
CELL_BITS, _UNIT_BITS, _COIN_BITS = 63, 31, 32
#: Bits of the table of integers.
_TABLE_BITS = 11
#: Error of ``2^32 exp(-t)`` that is allowed for: 2^-38 of the largest value.
_COIN_ERROR = 2.0**-6
#: Numbers of trials at a time.
_LEAST_BATCH, _LARGEST_BATCH = 512, 1 << 14
_ONE = np.uint64(1)

#: A source of independent fair bits, as the given number of bytes.
Bytes = Callable[[int], bytes]


class Bits:
    """A uniform number in ``[numerator, numerator + 1) / 2^size``."""

    def __init__(self, numerator: int, size: int) -> None:
        self.numerator, self.size = numerator, size

    def refine(self, source: Bytes) -> None:
        """Draw 64 more bits."""
        self.numerator = (self.numerator << 64) | int.from_bytes(source(8), "little")
        self.size += 64

    @property
    def bounds(self) -> tuple[Fraction, Fraction]:
        one = 1 << self.size
        return Fraction(self.numerator, one), Fraction(self.numerator + 1, one)


@dataclass(frozen=True, eq=False)
class Law:
    """A law of positive numbers ``k + x``."""

    #: The function w.
    weight: Callable[[int], Fraction]
    #: The function t, increasing in x, for Fractions and for arrays.
    exponent: Callable[[Any, Any], Any]


NORMAL = Law(lambda k: Fraction(k * k, 2), lambda k, x: x * (2 * k + x) / 2)
EXPONENTIAL = Law(Fraction, lambda k, x: x)


@dataclass(frozen=True)
class PartialDraws:
    """Independent draws from a law, each with a sign."""

    #: Shape (size,). The integers k.
    units: np.ndarray
    #: Shape (size,). The first 63 bits of the fractions.
    cells: np.ndarray
    #: Shape (size,). The draws with their signs, off by at most ``2^-52 (1 + |value|)``; never 0.
    values: np.ndarray
    #: Fractions of which more bits are known.
    longer: dict[int, Bits] = field(default_factory=dict)

    def sign(self, i: int) -> int:
        """Return 1 or -1, the sign of draw i."""
        return 1 if self.values[i] > 0.0 else -1

    def fraction(self, i: int) -> Bits:
        """Return the fraction of draw i; its further bits are kept."""
        return self.longer.setdefault(i, Bits(int(self.cells[i]), CELL_BITS))

    def __getitem__(self, part: slice) -> PartialDraws:
        longer = {}
        if self.longer:
            start, stop, _ = part.indices(len(self.units))
            longer = {i - start: bits for i, bits in self.longer.items() if start <= i < stop}
        return PartialDraws(self.units[part], self.cells[part], self.values[part], longer)


def signed_draws(
    units: np.ndarray, cells: np.ndarray, signs: np.ndarray, longer: dict[int, Bits]
) -> PartialDraws:
    """Put draws together; `signs` are 1 or -1."""
    values = cells.astype(np.float64)
    values += 0.5
    values *= 2.0**-CELL_BITS
    values += units
    values *= signs
    return PartialDraws(units, cells, values, longer)


#: None at all.
NO_DRAWS = signed_draws(np.empty(0, np.int64), np.empty(0, np.uint64), np.empty(0), {})


def joined(parts: list[PartialDraws]) -> PartialDraws:
    """Put draws one after the other."""
    parts = [part for part in parts if len(part.units)] or [NO_DRAWS]
    if len(parts) == 1:
        return parts[0]
    longer: dict[int, Bits] = {}
    start = 0
    for part in parts:
        longer |= {start + i: bits for i, bits in part.longer.items()}
        start += len(part.units)
    return PartialDraws(
        np.concatenate([part.units for part in parts]),
        np.concatenate([part.cells for part in parts]),
        np.concatenate([part.values for part in parts]),
        longer,
    )


def draw(law: Law, size: int, source: Bytes) -> PartialDraws:
    """Draw at least `size` variables, hundreds at a time."""
    parts, missing = [], size
    while missing > 0:
        n_trials = min(max(missing + missing // 2, _LEAST_BATCH), _LARGEST_BATCH)
        parts.append(_trials(law, n_trials, source))
        missing -= len(parts[-1].units)
    return joined(parts)


def _trials(law: Law, n_trials: int, source: Bytes) -> PartialDraws:
    """Carry out trials side by side, and keep those that succeed."""
    words, fractions = np.frombuffer(source(16 * n_trials), dtype="<u8").reshape(2, n_trials)
    firsts = words >> np.uint64(64 - _UNIT_BITS)
    coins = (words >> _ONE) & np.uint64(2**_COIN_BITS - 1)
    cells, cuts = fractions >> _ONE, _cuts(law)
    # the first bits of `firsts` decide most units
    units = _table(law)[firsts >> np.uint64(_UNIT_BITS - _TABLE_BITS)]
    others = np.flatnonzero(units < 0)
    units[others] = np.searchsorted(cuts, firsts[others])
    margins = -law.exponent(units, cells * 2.0**-CELL_BITS)
    np.exp(margins, out=margins)
    margins *= 2.0**_COIN_BITS
    margins -= coins
    is_kept = margins >= 1.0 + _COIN_ERROR
    is_open = (margins > -_COIN_ERROR) & ~is_kept
    is_open[others] |= cuts[units[others]] == firsts[others]
    longer = {}
    for i in np.flatnonzero(is_open).tolist():
        unit, bits = exact_trial(law, int(firsts[i]), int(coins[i]), int(cells[i]), source)
        is_kept[i] = unit is not None
        units[i], longer[i] = unit or 0, bits
    kept = np.flatnonzero(is_kept)
    if longer:
        places = {int(i): place for place, i in enumerate(kept)}
        longer = {places[i]: bits for i, bits in longer.items() if i in places}
    signs = 2.0 * (words[kept] & _ONE) - 1.0
    return signed_draws(units[kept], cells[kept], signs, longer)


def exact_trial(
    law: Law, first: int, coin: int, cell: int, source: Bytes
) -> tuple[int | None, Bits]:
    """Carry out one trial in exact arithmetic, with further bits where they are needed.

    `first`, `coin` and `cell` are the first 31, 32 and 63 bits of the numbers that draw the
    integer, decide, and are the fraction. Returns integer and fraction; the integer is None if the
    trial fails.
    """
    unit = _exact_unit(law, Bits(first, _UNIT_BITS), source)
    fraction, level, digits = Bits(cell, CELL_BITS), Bits(coin, _COIN_BITS), 40
    while True:
        low, high = fraction.bounds
        below, above = level.bounds
        if above <= exp_bounds(law.exponent(unit, high), digits)[0]:
            return unit, fraction
        if below >= exp_bounds(law.exponent(unit, low), digits)[1]:
            return None, fraction
        fraction.refine(source)
        level.refine(source)
        digits += 40


def _exact_unit(law: Law, number: Bits, source: Bytes) -> int:
    """Return the integer whose interval of cumulative probabilities holds a uniform number."""
    digits = 40
    while True:
        low, high = number.bounds
        for k, (least, largest) in enumerate(cumulative(law, digits)):
            if low < largest:
                if high <= least:
                    return k
                break
        number.refine(source)
        digits += 40


@cache
def cumulative(law: Law, digits: int) -> list[tuple[Fraction, Fraction]]:
    """Bound the probabilities of at most k, for all k of a weight above ``10**-digits``."""
    terms: list[tuple[Fraction, Fraction]] = []
    while not terms or terms[-1][1] > Fraction(1, 10**digits):
        terms.append(exp_bounds(law.weight(len(terms)), digits + 10))
    # weights grow by 1/2 at least: the terms left out add up to less than two of the last
    lows, highs = (list(accumulate(bounds)) for bounds in zip(*terms, strict=True))
    least, largest = lows[-1], highs[-1] + 2 * terms[-1][1]
    return [(low / largest, high / least) for low, high in zip(lows, highs, strict=True)]


@cache
def _cuts(law: Law) -> np.ndarray:
    """First bits of the cumulative probabilities, up to the largest number that there is.

    A number with other first bits is on the side of the probability that these bits say.
    """
    cuts = []
    for least, largest in cumulative(law, 40):
        cuts.append(int(least * 2**_UNIT_BITS))
        assert cuts[-1] == int(largest * 2**_UNIT_BITS)
        if cuts[-1] == 2**_UNIT_BITS - 1:
            break
    return np.array(cuts, dtype=np.uint64)


@cache
def _table(law: Law) -> np.ndarray:
    """Integers by the first bits of the numbers that draw them; -1 where those do not decide."""
    first = np.arange(1 << _TABLE_BITS, dtype=np.uint64) << np.uint64(_UNIT_BITS - _TABLE_BITS)
    last = first + np.uint64((1 << _UNIT_BITS - _TABLE_BITS) - 1)
    least, largest = np.searchsorted(_cuts(law), first), np.searchsorted(_cuts(law), last, "right")
    return np.where(least == largest, least, -1)


def exp_bounds(exponent: Fraction, digits: int) -> tuple[Fraction, Fraction]:
    """Bound ``exp(-exponent)``, for an exponent >= 0, from both sides within ``10^-digits``."""
    context = Context(prec=digits + 10, Emin=-(10**9), Emax=10**9)
    # the quotient and its exponential are rounded correctly, and t exp(-t) is at most 0.37
    quotient = context.divide(Decimal(exponent.numerator), Decimal(exponent.denominator))
    value = Fraction(context.exp(context.minus(quotient)))
    error = Fraction(1, 10 ** (digits + 1))
    return max(value - error, Fraction(0)), min(value + error, Fraction(1))

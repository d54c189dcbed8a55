"""Draws as they are computed: their laws far into the tails, and the privacy that they give.

A *tape* is a number U of (0, 1) in base 2^63, digit by digit: the bits that a draw is made of. The
probability that a draw exceeds a value is found by bisection over tapes, through the sampler.
"""

import itertools
import math
import sys
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import special, stats

from skdp.mechanisms import NoiseSource, SphericalLaplaceMechanism, calibrated_mechanism
from skdp.privacy import PrivacyBudget

#: A draw is off by at most this in the logarithm of its tail probability, relative to 1 + that.
RESOLUTION, ROUNDING = 2.0**-41, 2.0**-48
#: Digits of a tape: far more than the draws of these tests read.
DIGITS = 80
#: Numerator of the smallest tape whose draw reads no further digits.
SMALLEST = 3 << 188
#: False-alarm rate of every statistical test; their seeds are fixed.
ALARM = 1e-6


class Tape:
    """Bits of one draw: the digits of U, each with a sign bit, then none."""

    def __init__(self, numerator):
        self.numerator, self.read = numerator, 0

    def __call__(self, n_bytes):
        assert n_bytes == 8 and self.read < DIGITS
        self.read += 1
        digit = (self.numerator >> 63 * (DIGITS - self.read)) & (2**63 - 1)
        return (2 * digit + 1).to_bytes(8, sys.byteorder)


def normal(numerator):
    return float(NoiseSource(Tape(numerator)).standard_normal(1)[0])


def exponential(numerator):
    return NoiseSource(Tape(numerator)).gamma(1)


def numerator_of(probability):
    return int(mpmath.floor(probability * mpmath.mpf(2) ** (63 * DIGITS)))


def survival(draw, value, expected):
    """Probability that a draw of positive sign exceeds `value`, from the draws themselves."""
    if value < 0:
        return Fraction(1)
    one = 2 ** (63 * DIGITS)
    low = numerator_of(expected * (1 - mpmath.mpf(2) ** -36))
    high = min(numerator_of(expected * (1 + mpmath.mpf(2) ** -36)) + 1, one - 1)
    if not draw(low) > value:
        low = SMALLEST
        if not draw(low) > value:
            return Fraction(0)  # beyond the end of the draws
    if draw(high) > value:
        high = one
    while high - low > 1 + (low >> 56):
        middle = (low + high) // 2
        low, high = (middle, high) if draw(middle) > value else (low, middle)
    return Fraction(high, one)


def both_tails(t):
    """``P(|N(0, 1)| > t)``."""
    return mpmath.erfc(mpmath.mpf(float(t)) / mpmath.sqrt(2))


def exponential_tail(t):
    return mpmath.exp(-mpmath.mpf(float(t)))


def masses(draw, tail, cuts, shift):
    """Exact probabilities of the intervals between cuts under the symmetric draw plus a shift."""
    above = []
    for cut in cuts:
        t = float(cut) - shift
        half = survival(draw, abs(t), tail(abs(t))) / 2
        above.append(half if t >= 0 else 1 - half)
    ends = [Fraction(1), *above, Fraction(0)]
    return [first - second for first, second in itertools.pairwise(ends)]


def hockey_stick(draw, tail, epsilon, shift, cuts):
    """``sum of max(0, P(I) - e^epsilon P'(I))`` over all intervals I, the outer ones included."""
    factor = mpmath.exp(epsilon)
    total = mpmath.mpf(0)
    for here, there in zip(
        masses(draw, tail, cuts, 0.0), masses(draw, tail, cuts, -shift), strict=True
    ):
        here, there = (mpmath.mpf(p.numerator) / p.denominator for p in (here, there))
        total += max(mpmath.mpf(0), here - factor * there)
    return total


@pytest.mark.mostly("slow", 1)
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-10, 1e-15])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0, 30.0, 50.0, 100.0, 300.0, 1000.0])
def test_gaussian_draws_deliver_delta(epsilon, delta):
    """Draws and shifted draws differ by the stated delta; values out of reach count in full."""
    mechanism = calibrated_mechanism(PrivacyBudget(epsilon, delta), 1.0)
    shift = 1.0 / mechanism.noise_scale
    threshold = epsilon / shift - 0.5 * shift  # the best test of the exact laws
    end = normal(SMALLEST) - shift + 1e-9  # of the shifted draws, as far as a tape goes
    cuts = np.union1d(np.linspace(-8.0, 8.0, 17), threshold + np.linspace(-1.0, 9.0, 21))
    cuts = np.union1d(cuts, [end])
    with mpmath.workdps(50):
        found = hockey_stick(normal, both_tails, epsilon, shift, cuts)
        assert found <= delta
        assert found >= 0.999 * delta  # the calibration is tight


@pytest.mark.mostly("audit", 4)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0, 30.0, 50.0, 100.0, 300.0, 1000.0])
def test_laplace_draws_are_pure(epsilon):
    """No interval is more than e^epsilon as likely as under the neighbour, however far out."""
    cuts = np.concatenate([np.linspace(-0.5, 50.0, 11), [200.0, 500.0, 800.0]])
    with mpmath.workdps(50):
        here = masses(exponential, exponential_tail, cuts, 0.0)
        for shift in (epsilon, -epsilon):  # in units of the noise scale
            there = masses(exponential, exponential_tail, cuts, shift)
            for p, q in zip(here, there, strict=True):
                assert q > 0
                ratio = mpmath.mpf(p.numerator * q.denominator) / (p.denominator * q.numerator)
                # an interval has at least half of what lies above or below it
                slack = 8.0 * (RESOLUTION + ROUNDING * (1.0 + cuts[-1] + epsilon))
                assert mpmath.log(ratio) <= epsilon + slack


@pytest.mark.parametrize("dimension", [1, 2, 5, 20])
def test_spherical_noise_has_no_end(dimension):
    """The norms that no shifted draw has would count as infinite losses: there are none."""
    rounds, epsilon = 40, 1000.0
    zeros, rest = iter([b"\x00"] * rounds), np.random.default_rng(dimension)
    source = NoiseSource(lambda n: next(zeros, b"") * n or rest.bytes(n))
    mechanism = SphericalLaplaceMechanism(1.0, epsilon)
    largest = float(np.linalg.norm(mechanism.draw(dimension, source))) / mechanism.noise_scale
    assert largest > dimension * rounds * 63.0 * math.log(2.0)
    # every further round adds as much; the norms beyond this one alone have no mass to speak of
    assert special.gammaincc(dimension, largest - epsilon) < 1e-300


@pytest.mark.parametrize(("draw", "tail"), [(normal, both_tails), (exponential, exponential_tail)])
def test_computed_quantiles(draw, tail):
    """Every draw is the quantile of a probability in its cell, to the rounding that docs state.

    Random tapes at all depths, and those at both ends of a digit, where cells are widest.
    """
    rng = np.random.default_rng(0)
    exponents = np.concatenate([rng.uniform(0.01, 130.0, 300), rng.uniform(130.0, 4000.0, 100)])
    tapes = [mpmath.mpf(2) ** -float(e) for e in exponents]
    for depth in (1, 2, 5, 30):
        for k in (*range(1, 6), 2**20 + 1, 2**41 - 1, 2**41, 2**41 + 1, 2**41 + 2):
            tapes.append((k + mpmath.mpf(rng.uniform())) * mpmath.mpf(2) ** (-63 * depth))
    near_one = 1 - mpmath.mpf(2) ** -np.arange(2.0, 50.0)
    with mpmath.workdps(60):
        for u in tapes:
            moved = mpmath.log(tail(draw(numerator_of(u)))) - mpmath.log(u)
            assert abs(moved) <= RESOLUTION + ROUNDING * (1 - mpmath.log(u))
        for u in near_one:  # small draws: absolute errors, below the rounding of any sum
            assert abs(tail(draw(numerator_of(u))) - u) <= 2.0**-52


def starting_with(cell, seed):
    """Bits whose first words lie in a given cell, with random signs, then random bits."""
    rng = np.random.default_rng(seed)
    first = [True]

    def random_bytes(n):
        if not first.pop() if first else True:
            return rng.bytes(n)
        return (np.uint64(2 * cell) + rng.integers(0, 2, n // 8).astype(np.uint64)).tobytes()

    return random_bytes


@pytest.mark.parametrize("kind", ["normal", "exponential"])
@pytest.mark.parametrize("cell", [0, 1, 5, 2**20])
def test_law_within_a_cell_of_the_tail(kind, cell):
    """Given the first word, U is uniform in its cell: for 0, a draw that starts again beyond."""
    source = NoiseSource(starting_with(cell, seed=cell))
    if kind == "exponential":
        exponents = source.exponential(20_000)
    else:
        sample = source.standard_normal(20_000)
        assert abs(np.sign(sample).sum()) < 5.0 * math.sqrt(20_000)
        exponents = -special.log_ndtr(-np.abs(sample)) - math.log(2.0)
    beyond = exponents - 63.0 * math.log(2.0)
    if cell == 0:
        assert beyond.min() > 0.0
        assert stats.kstest(beyond, "expon").pvalue > ALARM
    else:
        width = math.log1p(1.0 / cell)
        within = np.expm1(-beyond - math.log(cell)) * cell
        rounding = 100.0 * 2.0**-52 / width
        assert within.min() > -rounding and within.max() < 1.0 + rounding
        assert stats.kstest(within, "uniform").pvalue > ALARM


def test_ordinary_words_are_read_once():
    """A seeded stream gives the same numbers as inversion word by word."""
    words = np.frombuffer(np.random.default_rng(3).bytes(8000), dtype=np.uint64)
    tails = ((words >> np.uint64(1)).astype(float) + 0.5) * 2.0**-63
    source = NoiseSource(np.random.default_rng(3).bytes)
    signs = np.where(words & np.uint64(1), 1.0, -1.0)
    np.testing.assert_array_equal(source.standard_normal(1000), -signs * special.ndtri(0.5 * tails))
    source = NoiseSource(np.random.default_rng(3).bytes)
    np.testing.assert_array_equal(source.exponential(1000), -np.log(tails))


def test_exponential_law():
    sample = NoiseSource(np.random.default_rng(0).bytes).exponential(100_000)
    assert stats.kstest(sample, "expon").pvalue > ALARM


@pytest.mark.parametrize("probability", [0.3, 1.0 - 2.0**-53, 1e-9, 1e-30, 0.0, 1.0])
def test_bernoulli_draws_are_exact(probability):
    """A draw compares all digits of U with the probability; ties of one digit read the next."""
    bits = 16 * DIGITS
    threshold = Fraction(probability) * 2**bits
    assert threshold.denominator == 1
    for offset in (-(2 ** (bits - 48)), -1, 0, 1, 2 ** (bits - 48)):
        numerator = int(threshold) + offset
        if 0 <= numerator < 2**bits:
            digits = ((numerator >> shift) % 2**16 for shift in range(bits - 16, -1, -16))
            words = (digit.to_bytes(2, "little") for digit in digits)
            heads = NoiseSource(lambda n, words=words: next(words)).bernoulli(1, probability)
            assert bool(heads[0]) == (offset < 0)

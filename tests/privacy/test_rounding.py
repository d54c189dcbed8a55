"""Totals are never below the exact value, at any size of noise, epsilon and count.

What adds under composition is compared with exact rational numbers, what is converted with
arithmetic of 700 digits, so that 1e-300 beside 1 is seen.
"""

import math
import sys
from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from skdp.privacy.accountants import GaussianDPAccountant, PureAccountant, ZCDPAccountant
from skdp.privacy.composition import tightest_epsilon
from skdp.privacy.events import (
    RECORD_RELATIONS,
    ComposedEvent,
    ExponentialMechanismEvent,
    GaussianEvent,
    Neighbouring,
    PoissonSampledSumEvent,
    PureEvent,
    RepeatedEvent,
)
from skdp.privacy.gaussian_dp import gaussian_delta, gaussian_epsilon, gaussian_mu, pure_mu
from skdp.privacy.rounding import ceil_float, ceil_reciprocal, ceil_sqrt, floor_float

mpmath = pytest.importorskip("mpmath")

REPLACE_ONE, ADD_REMOVE = RECORD_RELATIONS
TINY = math.ulp(0.0)
LARGEST = sys.float_info.max
#: Everywhere from 1e-300 to 1e300, and the ends of double precision.
SIZES = st.one_of(
    st.floats(-300.0, 300.0).map(lambda power: 10.0**power),
    st.sampled_from([TINY, 3 * TINY, 2.3e-308, 1.0, LARGEST]),
)
MODERATE = st.floats(-8.0, 3.0).map(lambda power: 10.0**power)
COUNTS = st.one_of(st.integers(1, 9), st.integers(0, 300).map(lambda power: 10**power))
DELTAS = st.one_of(
    st.floats(-320.0, -0.01).map(lambda power: 10.0**power), st.sampled_from([0.0, TINY])
)
FRACTIONS = st.builds(lambda x, y, n: Fraction(x) ** 2 / Fraction(y) * n, SIZES, SIZES, COUNTS)


# --- rounding ----------------------------------------------------------------------------------


@given(FRACTIONS)
@example(Fraction(0))
@example(Fraction(9, 4))
def test_floats_and_roots_are_the_next_ones_above(value):
    rounded, root = ceil_float(value), ceil_sqrt(value)
    assert rounded >= value
    assert value == 0 or math.nextafter(rounded, 0.0) < value
    assert root == math.inf or Fraction(root) ** 2 >= value
    assert value == 0 or Fraction(math.nextafter(root, 0.0)) ** 2 < value
    assert ceil_sqrt(Fraction(9, 4)) == 1.5


@given(SIZES, FRACTIONS)
def test_reciprocals_are_above_and_quotients_rounded_down(value, divisor):
    product = ceil_reciprocal(value) * Fraction(value)
    assert 1 <= product <= 1 + Fraction(1, 2**51)
    assert ceil_reciprocal(2.0**-1074) == 2**1074
    exact = Fraction(value) / divisor
    rounded = floor_float(exact)
    assert 0.0 <= rounded <= exact < math.nextafter(rounded, math.inf)


# --- what adds ---------------------------------------------------------------------------------


def releases(kinds):
    event = st.builds(lambda kind, size: kind(size, REPLACE_ONE), st.sampled_from(kinds), SIZES)
    return st.lists(st.tuples(event, COUNTS), min_size=1, max_size=4)


def composed(parts):
    return ComposedEvent([RepeatedEvent(*part) for part in parts])


@given(releases([PureEvent, ExponentialMechanismEvent]))
@example([(PureEvent(1e-163, REPLACE_ONE), 10**170)])
@example([(PureEvent(TINY, REPLACE_ONE), 1), (PureEvent(LARGEST, REPLACE_ONE), 1)])
def test_epsilons_add_up_exactly(parts):
    event = composed(parts)
    exact = sum(Fraction(leaf.epsilon) * count for leaf, count in parts)
    for total in (
        tightest_epsilon(event, 0.0),
        PureAccountant().compose(event).total,
        PureAccountant().compose(event).get_epsilon(0.0),
    ):
        assert total == ceil_float(exact) >= exact > 0


@given(releases([GaussianEvent, PureEvent, ExponentialMechanismEvent]))
@example([(GaussianEvent(1e170, REPLACE_ONE), 1)])
@example([(ExponentialMechanismEvent(TINY, REPLACE_ONE), 1)])
def test_squares_add_up_without_underflow(parts):
    mu_squared = rho = Fraction(0)
    for leaf, count in parts:
        if isinstance(leaf, GaussianEvent):
            square = 1 / Fraction(leaf.noise_multiplier) ** 2
            mu_squared, rho = mu_squared + count * square, rho + count * square / 2
        elif isinstance(leaf, PureEvent):
            mu_squared += count * Fraction(pure_mu(leaf.epsilon)) ** 2
            rho += count * Fraction(leaf.epsilon) ** 2 / 2
        else:
            mu_squared += count * Fraction(pure_mu(ceil_float(Fraction(leaf.epsilon) / 2))) ** 2
            rho += count * Fraction(leaf.epsilon) ** 2 / 8
    gaussian = GaussianDPAccountant().compose(composed(parts))
    concentrated = ZCDPAccountant().compose(composed(parts))
    slack = 1 + Fraction(1, 2**50)
    assert ceil_sqrt(mu_squared) <= gaussian.mu <= ceil_sqrt(mu_squared * slack)
    assert ceil_float(mu_squared) <= gaussian.total <= ceil_float(mu_squared * slack)
    assert ceil_float(rho) <= concentrated.total <= ceil_float(rho * slack)
    for accountant in (gaussian, concentrated):
        assert accountant.total > 0.0
        assert accountant.get_epsilon(0.0) == math.inf
        assert accountant.get_delta(0.0) > 0.0


# --- what is converted -------------------------------------------------------------------------


def exactly(function):
    """Evaluate with 700 digits."""

    def evaluate(*arguments):
        with mpmath.workdps(700):
            return function(*(_exact(argument) for argument in arguments))

    return evaluate


def _exact(number):
    if isinstance(number, Fraction):
        return mpmath.mpf(number.numerator) / number.denominator
    return mpmath.mpf(number)


def erfc(z):
    """Beyond 1e100 mpmath's own overflows; there the next terms are 1e-400 of the first two."""
    if abs(z) < 1e100:
        return mpmath.erfc(z)
    tail = mpmath.exp(-z * z) / (abs(z) * mpmath.sqrt(mpmath.pi)) * (1 - 1 / (2 * z * z))
    return tail if z > 0 else 2 - tail


@exactly
def exact_delta(epsilon, mu):
    near, far = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
    root = mpmath.sqrt(2)
    return (erfc(-near / root) - mpmath.exp(epsilon) * erfc(-far / root)) / 2


@exactly
def exact_pure_delta(epsilon, total):
    return -mpmath.expm1(epsilon - total) / (1 + mpmath.exp(-total))


@settings(max_examples=20)
@given(SIZES)
@example(0.99e-8)
@example(1.01e-8)
def test_pure_mu_at_any_size(epsilon):
    @exactly
    def excess(mu, epsilon):
        """Type II error of the Gaussian less that of randomised response, in relative terms."""
        half = mu / (2 * mpmath.sqrt(2))
        if epsilon < 1:
            return mpmath.tanh(epsilon / 2) / mpmath.erf(half) - 1
        return mpmath.log(erfc(half) / 2) + mpmath.log1p(mpmath.exp(epsilon))

    assert excess(pure_mu(epsilon), epsilon) <= 0
    if epsilon > 1e-300:
        assert excess(pure_mu(epsilon) * (1.0 - 3e-9), epsilon) > 0


@settings(max_examples=30)
@given(st.one_of(SIZES, MODERATE), st.floats(-9.0, 39.0))
@example(1e20, 0.0)
@example(1e154, -3.0)
@example(TINY, -1.0)
def test_delta_of_a_gaussian_at_any_size(mu, x):
    """x is the argument of the normal law: deltas from 1 to the smallest."""
    epsilon = max(0.0, mu * (x + 0.5 * mu))
    if epsilon < math.inf:
        delta, exact = gaussian_delta(epsilon, mu), exact_delta(epsilon, mu)
        assert exact <= delta <= 1.0
        assert delta <= exact * (1 + 1e-9) or exact < 1e-300 or mu > 1e3 or epsilon > 1e4


@pytest.mark.search
@settings(max_examples=20)
@given(SIZES, DELTAS.filter(bool))
@example(1e150, 1e-6)
@example(1e-318, 1e-320)
@example(1e-291, 1e-295)
def test_epsilon_of_a_gaussian_at_any_size(mu, delta):
    epsilon = gaussian_epsilon(delta, mu)
    assert (epsilon < math.inf) or mu > 1e150
    if epsilon < math.inf:
        assert exact_delta(epsilon, mu) <= delta
    if min(mu, delta) > 1e-290 and 1e-6 * mu < epsilon < math.inf:
        assert exact_delta(epsilon * (1.0 - 1e-6), mu) > delta


@settings(max_examples=15)
@given(st.one_of(SIZES, MODERATE), DELTAS.filter(bool))
@example(LARGEST, 1e-6)
@example(1e-12, 1e-300)
@example(1e4, 0.999)
def test_mu_of_a_budget_at_any_size(epsilon, delta):
    mu = gaussian_mu(epsilon, delta)
    assert mu > 0.0
    assert exact_delta(epsilon, mu) <= delta
    if 1e-12 <= epsilon <= 1e4 and delta >= 1e-300:
        assert exact_delta(epsilon, mu * (1.0 + 1e-7)) > delta


@pytest.mark.search
@settings(max_examples=30)
@given(releases([PureEvent, ExponentialMechanismEvent]), DELTAS, st.floats(0.0, 1.0))
def test_conversion_of_pure_totals_at_any_size(parts, delta, fraction):
    accountant = PureAccountant().compose(composed(parts))
    total = sum(Fraction(leaf.epsilon) * count for leaf, count in parts)
    epsilon = accountant.get_epsilon(delta)
    if epsilon < math.inf:
        assert exact_pure_delta(epsilon, total) <= delta
    weaker = fraction * ceil_float(total)
    if weaker < math.inf:
        assert exact_pure_delta(weaker, total) <= accountant.get_delta(weaker) <= 1.0


@pytest.mark.search
def test_mixed_totals_at_any_size(without_dp_accounting):
    """Not below the exact cost of either part."""

    @settings(max_examples=15)
    @given(releases([GaussianEvent]), SIZES, COUNTS, DELTAS, st.sampled_from(Neighbouring))
    @example([(GaussianEvent(1.0, REPLACE_ONE), 1)], 1e-163, 10**170, 1e-6, REPLACE_ONE)
    def check(gaussians, size, count, delta, relation):
        parts = [(GaussianEvent(leaf.noise_multiplier, relation), k) for leaf, k in gaussians]
        square = sum(k / Fraction(leaf.noise_multiplier) ** 2 for leaf, k in parts)
        with mpmath.workdps(700):
            mu = mpmath.sqrt(_exact(square))
        epsilon = tightest_epsilon(composed([*parts, (PureEvent(size, relation), count)]), delta)
        assert epsilon > 0.0 or delta > 0.0
        if epsilon < math.inf:
            assert exact_delta(epsilon, mu) <= delta
            assert exact_pure_delta(epsilon, size) <= delta  # one of them

    check()


# --- very different sizes ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "other",
    [
        PureEvent(1e-163, ADD_REMOVE),
        GaussianEvent(1e170, ADD_REMOVE),
        PoissonSampledSumEvent(1e-3, GaussianEvent(1e170, ADD_REMOVE), 1e170),
        RepeatedEvent(PureEvent(1e-163, ADD_REMOVE), 10**150),
    ],
)
def test_convolution_of_very_different_sizes(other):
    pytest.importorskip("dp_accounting")
    pure = PureEvent(0.5, ADD_REMOVE)
    epsilon = tightest_epsilon(ComposedEvent([pure, other]), 1e-6)
    assert exact_pure_delta(epsilon, 0.5) <= 1e-6
    assert epsilon <= 0.5 + 1e-3

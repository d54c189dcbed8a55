"""The laws of the mechanisms and the bits that they are made of."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from skdp.mechanisms import (
    GaussianMechanism,
    NoiseSource,
    SphericalLaplaceMechanism,
    calibrated_mechanism,
)
from skdp.privacy import GaussianDPAccountant, PrivacyBudget, PureAccountant
from skdp.privacy.events import ComposedEvent, GaussianEvent, Neighbouring, PureEvent


@pytest.fixture
def source():
    return NoiseSource(np.random.default_rng(20260101).bytes)


def test_default_bits_are_the_operating_systems():
    assert NoiseSource()._bytes is __import__("os").urandom


def test_lowy_worked_example():
    """Expected norms of section 9: n = 1e4, d = 20, Delta = 0.02, eps = 1."""
    pure = calibrated_mechanism(PrivacyBudget(1.0), 0.02)
    assert pure.noise_scale * 20 == pytest.approx(0.4)
    assert math.sqrt(pure.mean_square(20)) == pytest.approx(0.40988, abs=5e-6)
    mean_chi = math.sqrt(2) * math.gamma(10.5) / math.gamma(10)
    for calibration, sigma, mean in (("zwb", 0.101683, 0.4491), ("analytic", 0.084494, 0.3732)):
        mechanism = calibrated_mechanism(PrivacyBudget(1.0, 1e-6), 0.02, calibration)
        assert mechanism.noise_scale == pytest.approx(sigma, abs=5e-7)
        assert mechanism.noise_scale * mean_chi == pytest.approx(mean, abs=5e-5)
        assert mechanism.mean_square(20) == pytest.approx(20 * sigma**2, rel=1e-4)


def test_events_and_choice():
    pure = calibrated_mechanism(PrivacyBudget(2.0), 1.0)
    assert isinstance(pure, SphericalLaplaceMechanism)
    assert pure.event("add_remove") == PureEvent(2.0, "add_remove")
    gaussian = calibrated_mechanism(PrivacyBudget(1.0, 1e-5), 3.0)
    event = GaussianEvent(gaussian.noise_scale / 3.0, "replace_one")
    assert gaussian.event(Neighbouring.REPLACE_ONE) == event


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_share_is_a_part_of_the_budget(delta):
    """A share of 2 would cost more than the budget; shares of sum 1 cost it exactly."""
    budget = PrivacyBudget(1.0, delta)
    for share in (2.0, 1.0 + 1e-9, 0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="share"):
            calibrated_mechanism(budget, 1.0, share=share)
    mechanisms = [calibrated_mechanism(budget, 1.0, share=share) for share in (0.7, 0.2, 0.1)]
    events = [mechanism.event(Neighbouring.REPLACE_ONE) for mechanism in mechanisms]
    accountant = GaussianDPAccountant() if delta else PureAccountant()
    spent = accountant.compose(ComposedEvent(tuple(events))).get_epsilon(delta)
    assert 1.0 - 1e-6 <= spent <= 1.0 + 1e-12


NO_NUMBERS = [0, -1.0, math.inf, math.nan, 10**400, True, None, "1", 1j]
EXTREME = [5e-324, 1e-200, np.float32(1e-40), 1.0, np.float32(1e38), 1.7e308]


@pytest.mark.parametrize("kind", [GaussianMechanism, SphericalLaplaceMechanism])
def test_what_is_no_positive_number_is_refused(kind):
    for number in NO_NUMBERS:
        for given in ((number, 1.0), (1.0, number)):
            with pytest.raises((TypeError, ValueError)):
                kind(*given)


@pytest.mark.parametrize("kind", [GaussianMechanism, SphericalLaplaceMechanism])
def test_noise_that_vanishes_or_overflows_is_refused(kind, source):
    """What is not refused is released with noise of the stated scale, and has finite numbers."""
    for sensitivity, noise in itertools.product(EXTREME, EXTREME):
        exact = Fraction(float(sensitivity)), Fraction(float(noise))
        scale = exact[0] * exact[1] if kind is GaussianMechanism else exact[0] / exact[1]
        if not 1e-290 <= scale <= 1e290:
            with pytest.raises(ValueError, match="noise"):
                kind(sensitivity, noise)
            continue
        mechanism = kind(sensitivity, noise)
        assert 1e-290 <= mechanism.noise_scale <= 1e290
        assert abs(Fraction(mechanism.noise_scale) / scale - 1) < 1e-15
        if mechanism.noise_scale < 1e280:
            assert mechanism.release(np.zeros(1), source)[0] != 0
        assert mechanism.draw(2, source).all() and mechanism.mean_square(2) >= 0


@pytest.mark.parametrize("scale", [0.0, 5e-324, 1e-300, 1e300, math.inf, math.nan, 10**400])
def test_sources_refuse_such_scales_too(scale, source):
    for add in (source.add_normal, source.add_spherical_laplace):
        with pytest.raises(ValueError, match=r"must be in \[1e-290, 1e\+290\]"):
            add(np.array([0.3]), scale)


@pytest.mark.parametrize("size", [0, -1, 1.5, 10**400, None])
def test_sizes_of_draws_are_counts(size, source):
    names = {"gamma": "shape", "direction": "dimension"}
    if size != 0:
        names |= dict.fromkeys(["words", "exponential", "standard_normal", "reserve"], "size")
    for name, parameter in names.items():
        with pytest.raises(ValueError, match=parameter):
            getattr(source, name)(size)


@pytest.mark.parametrize("probability", [-0.1, 1.1, math.nan, 10**400, "a"])
def test_probabilities_are_checked(probability, source):
    with pytest.raises(ValueError, match="probability"):
        source.bernoulli(3, probability)

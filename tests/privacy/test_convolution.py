"""Totals by convolution of privacy loss distributions, with dp-accounting."""

import math

import pytest
from scipy.optimize import brentq
from scipy.special import ndtr

from skdp.privacy import accountants
from skdp.privacy.accountants import tightest_epsilon
from skdp.privacy.events import (
    ExponentialMechanismEvent,
    GaussianEvent,
    PoissonSampledSumEvent,
    RepeatedEvent,
)

pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def delta_of_a_sampled_sum(epsilon, probability, multiplier):
    """Delta of one sum to which a record adds 1 or -1, by its definition.

    With probability q the record is in the sum: (1 - q) N(0, s^2) + q N(1, s^2) against the same
    with -1. Their ratio increases, so the worst set of outcomes is a half-line.
    """

    def log_ratio(x):
        def law(mean):
            tilt = (2.0 * mean * x - 1.0) / (2.0 * multiplier**2)
            return math.log((1.0 - probability) + probability * math.exp(tilt))

        return law(1.0) - law(-1.0) - epsilon

    end = brentq(log_ratio, -100.0 * multiplier, 100.0 * multiplier)

    def above(mean):
        inside, outside = ndtr((mean - end) / multiplier), ndtr(-end / multiplier)
        return (1.0 - probability) * outside + probability * inside

    return above(1.0) - math.exp(epsilon) * above(-1.0)


@pytest.mark.mostly("slow", 1)
@pytest.mark.parametrize(("probability", "multiplier"), [(0.1, 2.0), (0.01, 1.0), (0.5, 0.7)])
def test_one_sampled_sum_is_exact(probability, multiplier):
    """What one record adds is half of the sensitivity of a sum without samples."""
    plain = GaussianEvent(0.5 * multiplier, "replace_one")
    event = PoissonSampledSumEvent(probability, plain, multiplier)
    epsilon = tightest_epsilon(event, 1e-5)
    assert delta_of_a_sampled_sum(epsilon, probability, multiplier) <= 1e-5
    assert delta_of_a_sampled_sum(0.99 * epsilon, probability, multiplier) > 1e-5


@pytest.mark.parametrize("count", [3, 10_000])
def test_some_delta_is_kept_for_the_rounding(monkeypatch, count):
    """The convolution works with floats: its sums of probabilities are exact to 1e-12 or so."""
    deltas, convolve = [], accountants._convolve

    def noted(leaves, delta, *arguments):
        deltas.append(delta)
        return convolve(leaves, delta, *arguments)

    monkeypatch.setattr(accountants, "_convolve", noted)
    event = RepeatedEvent(ExponentialMechanismEvent(0.01, "replace_one"), count)
    tightest_epsilon(event, 1e-6)
    kept = 1e-12 * max(1.0, count / 1000)
    assert deltas and all(delta <= 1e-6 - 0.999 * kept for delta in deltas)

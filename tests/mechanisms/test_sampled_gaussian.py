"""Sums over Poisson samples: calibration of runs with sampled parts, batches."""

import math

import numpy as np
import pytest

from skdp.mechanisms import NoiseSource, SampledGaussianMechanism, gaussian_noise_multiplier
from skdp.mechanisms.sampled_gaussian import poisson_sample, sampling_rates, smallest_scale
from skdp.privacy import PrivacyBudget
from skdp.privacy.accountants import tightest_epsilon
from skdp.privacy.events import ComposedEvent, GaussianEvent, PoissonSampledEvent

BUDGET = PrivacyBudget(1.0, 1e-6)
WHOLE = gaussian_noise_multiplier(1.0, 1e-6)


def half_sampled(scale, rate=0.1, steps=10):
    """Half of the budget for one Gaussian, half for sampled sums."""
    sampled = SampledGaussianMechanism(1.0, scale * WHOLE * math.sqrt(2 * steps), rate, steps)
    whole = GaussianEvent(WHOLE * math.sqrt(2), "replace_one")
    return ComposedEvent((whole, sampled.event("replace_one")))


def test_sampling_rates():
    assert sampling_rates(half_sampled(1.0)) == [(0.1, 10)]
    assert sampling_rates(half_sampled(1.0, rate=1.0)) == []
    assert sampling_rates(PoissonSampledEvent(1.0, GaussianEvent(1.0, "replace_one"))) == []
    assert sampling_rates(PoissonSampledEvent(0.3, GaussianEvent(1.0, "replace_one"))) == [(0.3, 1)]


@pytest.mark.slow
def test_scale_of_the_sampled_part_of_a_run():
    pytest.importorskip("dp_accounting")
    scale = smallest_scale(half_sampled, BUDGET)
    assert scale < 0.5
    assert 0.998 < tightest_epsilon(half_sampled(scale), 1e-6) <= 1.0
    assert tightest_epsilon(half_sampled(0.98 * scale), 1e-6) > 1.0


def test_noise_never_vanishes():
    pytest.importorskip("dp_accounting")
    for rate, steps in ((1e-9, 10), (9e-7, 1), (0.0, 3)):
        with pytest.raises(ValueError, match="ever drawn"):
            smallest_scale(lambda s, r=rate, k=steps: half_sampled(s, r, k), BUDGET)


def test_too_much_is_left_to_the_caller():
    pytest.importorskip("dp_accounting")
    event = ComposedEvent((half_sampled(1.0), GaussianEvent(WHOLE / 2, "replace_one")))
    assert smallest_scale(lambda s: event, BUDGET) == 1.0
    assert tightest_epsilon(event, 1e-6) > 1.0


def test_batches():
    """Each record by itself: 2000 batches of 50, deviations of 5 standard errors (3e-5 in all)."""
    noise, rate, runs = NoiseSource(np.random.default_rng(0).bytes), 0.3, 2000
    taken = np.zeros((runs, 50))
    for k in range(runs):
        batch = poisson_sample(50, rate, noise)
        assert (np.diff(batch) > 0).all()
        taken[k, batch] = 1.0
    spread = math.sqrt(rate * (1 - rate) / runs)
    assert (np.abs(taken.mean(axis=0) - rate) < 5 * spread).all()
    sizes = taken.sum(axis=1)
    assert sizes.var() == pytest.approx(50 * rate * (1 - rate), rel=5 * math.sqrt(2 / runs))

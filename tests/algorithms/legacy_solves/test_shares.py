"""What is kept of the weights of columns, by what their records tell."""

import math

import numpy as np
import pytest

from skdp.algorithms.legacy_solves.shares import (
    expected_reliability,
    kept_of_columns,
    reliability,
)


@pytest.mark.parametrize("noise", [1e-4, 1e-3])
def test_weights_are_kept_by_the_records_of_their_columns(noise):
    """Half of it from 1.5 over the noise and 3 records on; all far beyond noise."""
    n, error = 16_000, 1e-3
    half = math.hypot(1.5 * noise, 3.0 / n)
    columns, variances = half * np.array([0.0, -1.0, 1.0, 3.0]), np.array([0.1, 0.2, 0.3, 0.4])
    few = 3.0 / n / (np.maximum(columns, 0.0) + error)
    parts = expected_reliability(columns, error, half)
    for factor, beyond in ((1e-6, 0.0), (2.0, 0.0), (4.0, 0.75), (40.0, 0.9975)):
        learnt = factor * np.sqrt(variances + few**2)[None]
        kept = kept_of_columns(learnt, variances[None], columns, error, noise=noise, n_records=n)
        np.testing.assert_allclose(kept[0], np.maximum(parts, beyond), rtol=1e-6)


def test_without_noise_half_is_kept_at_half():
    values = np.geomspace(0.1, 10.0, 7)
    exact = values**2 / (1.0 + values**2)
    np.testing.assert_allclose(expected_reliability(values, 0.1, 1.0), exact, atol=0.05)
    assert (expected_reliability(-values, 0.1, 1.0) < 0.01).all()
    for extreme in (np.full(3, 1e300), np.full(3, -1e300), np.zeros(3)):
        assert np.isfinite(expected_reliability(extreme, 1.0, 1e-9)).all()


@pytest.mark.parametrize("law", [(0.0,), (0.3, 0.3, 8.0), (6.0,)])
def test_what_is_kept_is_nearer_to_the_truth_than_by_the_noisy_number_alone(law):
    """The noise is 2.7 times the moment where half is kept, as with 3 % of the budget."""
    rng, errors = np.random.default_rng(0), []
    for _ in range(20):
        truth = rng.choice(law, 20)
        noisy = truth + 2.7 * rng.normal(size=20)
        alone = np.maximum(noisy, 0.0)
        exact = reliability(truth, 1.0)
        found = expected_reliability(noisy, 2.7, 1.0)
        errors.append([((kept - exact) ** 2).mean() for kept in (found, reliability(alone, 1.0))])
    ours, its = np.mean(errors, axis=0)
    assert ours < 0.9 * its

import itertools

import numpy as np
import pytest

from skdp.algorithms.queries.product_mixture import ProductMixture

SIZES = (2, 3, 4)


def pairs_of(table):
    for pair in itertools.combinations(range(3), 2):
        yield pair, table.sum(axis=tuple({0, 1, 2} - set(pair)))


def fitted(noise=0.0, seed=0):
    rng = np.random.default_rng(seed)
    table = rng.dirichlet(np.full(24, 0.3)).reshape(SIZES)
    targets = {key: part + noise * rng.standard_normal(part.shape) for key, part in pairs_of(table)}
    return ProductMixture(SIZES, targets, max(noise, 1e-4) ** 2, rng), table


def test_marginals_are_fitted_to_below_the_noise():
    mixture, table = fitted(1e-3)
    for key, exact in pairs_of(table):
        assert np.abs(mixture.marginal(key) - exact).max() < 5e-3


def test_marginals_are_those_of_the_table():
    mixture, _ = fitted(0.01)
    table = mixture.table()
    assert table.min() >= 0
    assert abs(table.sum() - 1) < 1e-12
    np.testing.assert_allclose(mixture.marginal((2, 0)), table.sum(axis=1).T, atol=1e-14)
    np.testing.assert_allclose(mixture.marginal((1,)), table.sum(axis=(0, 2)), atol=1e-14)
    np.testing.assert_allclose(mixture.marginal((0, 1, 2)), table, atol=1e-14)


@pytest.mark.parametrize("noise", [1e-12, 1.0, 1e8])
def test_any_noise_gives_a_distribution(noise):
    table = fitted(noise)[0].table()
    assert np.isfinite(table).all()
    assert abs(table.sum() - 1) < 1e-9


def test_samples_have_the_marginals_of_the_mixture():
    """Seven deviations of independent draws; false alarms below 1e-6."""
    mixture, _ = fitted(0.01)
    n = 20_000
    codes = mixture.sample(n, np.random.default_rng(1))
    counts = np.zeros(SIZES)
    np.add.at(counts, tuple(codes.T), 1)
    p = mixture.table()
    assert np.all(np.abs(counts - n * p) <= 7 * np.sqrt(n * p * (1 - p)) + 7)

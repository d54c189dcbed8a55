"""Orders of records: uniform, independent of one another."""

import itertools

import numpy as np
from plain_noise import seeded
from scipy.stats import chi2

from skdp.mechanisms import NoiseSource, random_order

#: Of every chi-square test.
FALSE_ALARM = 1e-6


def chi_square(counts, expected):
    return float(((counts - expected) ** 2 / expected).sum())


def test_every_order_is_as_likely():
    noise, orders = seeded(0), list(itertools.permutations(range(4)))
    counts = dict.fromkeys(orders, 0)
    for _ in range(12_000):
        counts[tuple(random_order(4, noise).tolist())] += 1
    statistic = chi_square(np.array(list(counts.values())), 500.0)
    assert statistic < chi2.isf(FALSE_ALARM, len(orders) - 1)


def test_equal_words_are_drawn_again():
    """Ties in the order of the table would make its first records come first."""
    words = iter([[5, 5, 1], [7, 3, 9]])

    class Tied(NoiseSource):
        def words(self, size):
            return np.array(next(words), dtype=np.uint64)

    assert random_order(3, Tied()).tolist() == [1, 0, 2]

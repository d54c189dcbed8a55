"""Orders and labels of records: uniform, independent of one another, secret."""

import gc
import itertools
import pickle

import numpy as np
import pytest
from plain_noise import seeded
from scipy.stats import chi2

from skdp.mechanisms import NoiseSource, SecretLabels, random_order, secret_order

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


@pytest.mark.parametrize("n_labels", [1, 2, 7, 12, 255])
def test_labels_are_uniform_and_independent(n_labels):
    labels = SecretLabels(n_labels, seeded(1)).of(0, 200_000)
    counts = np.bincount(labels, minlength=n_labels)
    assert len(counts) == n_labels
    if n_labels > 1:
        assert chi_square(counts, 2e5 / n_labels) < chi2.isf(FALSE_ALARM, n_labels - 1)
        pairs = np.bincount(labels[::2].astype(int) * n_labels + labels[1::2])
        pairs = np.pad(pairs, (0, n_labels**2 - len(pairs)))
        assert chi_square(pairs, 1e5 / n_labels**2) < chi2.isf(FALSE_ALARM, n_labels**2 - 1)


def test_labels_are_a_function_of_the_position_and_of_the_key():
    labels = SecretLabels(12, seeded(2))
    whole = labels.of(0, 200_000)
    for start, stop in ((0, 0), (5, 5), (0, 1), (65_535, 65_537), (70_000, 199_999)):
        np.testing.assert_array_equal(labels.of(start, stop), whole[start:stop])
    other = SecretLabels(12, seeded(3)).of(0, 200_000)
    agree = int((whole == other).sum())
    # binomial with mean 16,667 and deviation 124: 5 deviations have probability 6e-7
    assert abs(agree - 200_000 / 12) < 5 * 124


def test_members_are_kept_for_as_long_as_their_key(monkeypatch):
    """Those of the first positions; in the process, and not in what is sent to another one."""
    monkeypatch.setattr(secret_order, "_MOST_KEPT", 2)
    labels = SecretLabels(12, seeded(2)).for_readers()
    whole = labels.members(5, 0, 300_000)
    made = []
    make = secret_order.KeyedLabels._segment
    monkeypatch.setattr(
        secret_order.KeyedLabels, "_segment", lambda self, k: made.append(k) or make(self, k)
    )
    np.testing.assert_array_equal(labels.members(5, 0, 300_000), whole)
    assert made == [2, 3, 4]
    other = pickle.loads(pickle.dumps(labels))
    assert vars(other) == vars(labels) == {"n_labels": 12, "key": labels.key}
    np.testing.assert_array_equal(other.members(5, 0, 300_000), whole)
    assert made[3:] == [0, 1, 2, 3, 4]
    del labels, other
    gc.collect()
    assert not secret_order._KEPT


def test_members_are_a_partition():
    labels = SecretLabels(5, seeded(4))
    members = labels.members(1000)
    assert len(members) == 5
    for label, positions in enumerate(members):
        np.testing.assert_array_equal(positions, np.flatnonzero(labels.of(0, 1000) == label))
    assert [len(each) for each in SecretLabels(5, seeded(4)).members(0)] == [0] * 5


@pytest.mark.parametrize("stretch", [(0, 0), (5, 5), (0, 1), (65_535, 65_537), (70_000, 199_999)])
@pytest.mark.parametrize("n_labels", [1, 12, 255])
def test_members_of_a_stretch_are_those_of_its_labels(n_labels, stretch):
    labels = SecretLabels(n_labels, seeded(4)).for_readers()
    own = labels.of(*stretch)
    for label in range(n_labels):
        places = stretch[0] + np.flatnonzero(own == label)
        np.testing.assert_array_equal(labels.members(label, *stretch), places)


def test_the_key_stays_in_the_process():
    with pytest.raises(TypeError, match="cannot be copied"):
        pickle.dumps(SecretLabels(3, seeded(0)))


@pytest.mark.parametrize("n_labels", [0, 256])
def test_numbers_of_labels_that_do_not_fit_a_byte(n_labels):
    with pytest.raises(ValueError, match="n_labels"):
        SecretLabels(n_labels, seeded(0))

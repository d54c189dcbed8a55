"""Blocks of records: sizes, assignment, generators."""

import itertools

import numpy as np
import pytest
from scipy.stats import chi2

from skdp.algorithms.output import rules
from skdp.algorithms.output.blocks import assign_blocks, block_sizes
from skdp.mechanisms import NoiseSource

FALSE_ALARM = 1e-6


@pytest.mark.parametrize("decrease", sorted({decrease for _, decrease in rules.GROWING_SCHEDULES}))
def test_sizes(decrease):
    for n in (1, 2, 10, 999, 100_000):
        for count in range(1, 13):
            sizes = block_sizes(n, count, decrease)
            assert sum(sizes) == n and len(sizes) == count
            assert all(type(size) is int and size >= 0 for size in sizes)
            assert sizes == sorted(sizes, reverse=True)
            for first, second in itertools.pairwise(sizes[1:]):
                assert abs(first - decrease * second) <= decrease  # rounded down, both
            assert 0 <= sizes[0] - sizes[-1] * decrease ** (count - 1) < count + decrease**count


@pytest.mark.parametrize("stratified", [False, True])
@pytest.mark.parametrize("sizes", [(7,), (40, 20, 10), (30, 30, 30), (70, 2, 1), (33, 33, 33)])
def test_every_record_is_in_one_block(sizes, stratified):
    rng = np.random.default_rng(0)
    for n in (sum(sizes), sum(sizes) + 2):
        strata = rng.integers(0, 3, n) if stratified else None
        assignment = assign_blocks(NoiseSource(rng.bytes), n, sizes, strata)
        assert assignment.shape == (n,)
        counts = np.bincount(assignment, minlength=len(sizes) + 1)
        assert tuple(counts) == (*sizes, n - sum(sizes))


def assert_frequencies(counts, expected):
    """Chi-square test of multinomial counts, false-alarm rate 1e-6."""
    counts, expected = np.asarray(counts, float).ravel(), np.asarray(expected, float).ravel()
    assert counts[expected == 0].sum() == 0
    counts, expected = counts[expected > 0], expected[expected > 0]
    assert expected.sum() == pytest.approx(counts.sum())
    statistic = ((counts - expected) ** 2 / expected).sum()
    assert statistic < chi2.isf(FALSE_ALARM, len(counts) - 1)


def test_dealing_is_uniform():
    """The blocks of two records are those of two draws without replacement."""
    sizes, n, trials = np.array([6, 3, 2, 1]), 12, 3000  # one record is left over: block 3
    rng = np.random.default_rng(1)
    first, last = np.zeros(4), np.zeros((4, 4))
    for _ in range(trials):
        assignment = assign_blocks(NoiseSource(rng.bytes), n, [int(size) for size in sizes[:3]])
        first[assignment[0]] += 1
        last[assignment[0], assignment[n - 1]] += 1
    assert_frequencies(first, trials * sizes / n)
    pairs = (np.outer(sizes, sizes) - np.diag(sizes)) / (n * (n - 1))
    assert_frequencies(last, trials * pairs)


def test_dealing_is_uniform_within_a_stratum():
    """How many of a stratum a block gets is fixed; which of them is not."""
    strata, trials = np.array([1, 0, 0, 1, 0, 0, 1, 0, 0, 1, 1, 0]), 1500
    rng = np.random.default_rng(2)
    counts = {}
    for stratum in (0, 1):
        known = np.bincount(
            assign_blocks(NoiseSource(rng.bytes), 12, (6, 4, 2), strata)[strata == stratum],
            minlength=3,
        )
        counts[stratum] = known
    seen = np.zeros((12, 3))
    for _ in range(trials):
        assignment = assign_blocks(NoiseSource(rng.bytes), 12, (6, 4, 2), strata)
        for stratum, known in counts.items():
            assert (np.bincount(assignment[strata == stratum], minlength=3) == known).all()
        seen[np.arange(12), assignment] += 1
    for record in (0, 1, 10, 11):
        stratum = strata[record]
        assert_frequencies(seen[record], trials * counts[stratum] / np.sum(strata == stratum))


def test_blocks_get_their_share_of_every_stratum():
    """At most ``1 + K n_k / n`` records away, because each prefix is at most half of that away."""
    rng = np.random.default_rng(3)
    for _ in range(60):
        n, count = int(rng.integers(20, 2000)), int(rng.integers(1, 9))
        sizes = block_sizes(n, count, float(rng.choice([1.0, 2.0, 4.0])))
        sizes[0] -= int(rng.integers(0, 2))  # a record may be left over
        if min(sizes) < 1:
            continue
        strata = rng.choice(5, n, p=[0.6, 0.2, 0.1, 0.07, 0.03])
        assignment = assign_blocks(NoiseSource(rng.bytes), n, sizes, strata)
        for stratum in range(5):
            size = np.sum(strata == stratum)
            got = np.bincount(assignment[strata == stratum], minlength=count)[:count]
            share = np.array(sizes) / n
            assert (np.abs(got - size * share) <= 1 + (count + 1) * share).all()


def test_the_assignment_depends_on_strata_and_random_numbers_alone():
    """Names of the strata do not matter, only their order; without strata nothing does."""
    strata = np.random.default_rng(4).integers(0, 3, 50)
    assignment = [
        assign_blocks(NoiseSource(np.random.default_rng(5).bytes), 50, (30, 20), labels)
        for labels in (strata, strata * 10 - 4, np.array(["a", "b", "c"])[strata])
    ]
    assert (assignment[0] == assignment[1]).all() and (assignment[0] == assignment[2]).all()

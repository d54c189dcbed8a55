"""Partial draws: decisions against mpmath, laws, far tails, and the bits that are kept."""

import copy
import itertools
import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

from skdp.mechanisms import NoiseSource
from skdp.mechanisms.partial_draws import (
    CELL_BITS,
    EXPONENTIAL,
    NORMAL,
    Bits,
    _cuts,
    _trials,
    cumulative,
    draw,
    exact_trial,
    exp_bounds,
    joined,
    signed_draws,
)

#: False-alarm rate of every statistical test; their seeds are fixed.
ALARM = 1e-6
LAWS = {"normal": NORMAL, "exponential": EXPONENTIAL}
each_law = pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
N_TRIALS = 512


def seeded(seed=0):
    return np.random.default_rng(seed).bytes


def zeros(n):
    return b"\x00" * n


def ones(n):
    return b"\xff" * n


def refused(n):
    raise AssertionError("more bits were drawn than the decision needs")


def probability_up_to(law, k):
    """Exact cumulative probability of the integers, by mpmath."""
    if law is EXPONENTIAL:
        return 1 - mpmath.exp(-(k + 1))
    weights = [mpmath.exp(-mpmath.mpf(j * j) / 2) for j in range(60)]
    return mpmath.fsum(weights[: k + 1]) / mpmath.fsum(weights)


def level_of(law, unit, x):
    """Exact probability that a trial succeeds, by mpmath."""
    return mpmath.exp(-(x if law is EXPONENTIAL else x * (2 * unit + x) / 2))


def as_mpf(fraction):
    return mpmath.mpf(fraction.numerator) / fraction.denominator


@pytest.mark.parametrize("digits", [10, 40, 90])
def test_bounds_of_the_exponential_function(digits):
    rng = np.random.default_rng(0)
    exponents = [Fraction(float(t)) for t in rng.exponential(10.0, 100)]
    exponents += [Fraction(0), Fraction(1, 3**50), Fraction(5000), Fraction(2**200 + 1, 2**199)]
    with mpmath.workdps(150):
        for t in exponents:
            low, high = exp_bounds(t, digits)
            assert as_mpf(low) <= mpmath.exp(-as_mpf(t)) <= as_mpf(high)
            assert high - low <= Fraction(1, 10**digits)


@each_law
def test_bounds_of_cumulative_probabilities(law):
    for digits in (40, 80):
        bounds = cumulative(law, digits)
        with mpmath.workdps(150):
            for k, (low, high) in enumerate(bounds):
                assert as_mpf(low) < probability_up_to(law, k) < as_mpf(high)
                assert high - low < Fraction(1, 10 ** (digits - 3))
            assert 1 - probability_up_to(law, len(bounds) - 1) < mpmath.mpf(10) ** (3 - digits)


def crafted(law, seed):
    """Words of trials: random ones, and ones next to every decision."""
    rng = np.random.default_rng(seed)
    firsts = rng.integers(0, 2**31, N_TRIALS)
    cells = rng.integers(0, 2**63, N_TRIALS, dtype=np.uint64)
    cells[::7] = [0, 2**63 - 1][seed % 2]
    cuts = _cuts(law).astype(np.int64)
    firsts[: N_TRIALS // 2 : 4] = np.clip(
        rng.choice(cuts, N_TRIALS // 8) + rng.choice([-1, 1], N_TRIALS // 8), 0, 2**31 - 2
    )
    firsts -= np.isin(firsts, cuts)  # those are for exact arithmetic
    units = np.searchsorted(cuts, firsts)
    levels = np.exp(-np.asarray(law.exponent(units, cells * 2.0**-63))) * 2.0**32
    coins = rng.integers(0, 2**32, N_TRIALS)
    near = slice(1, None, 2)  # one and two steps from the level, on either side
    steps = rng.choice([-2, -1, 1, 2], N_TRIALS)
    coins[near] = np.clip(np.floor(levels).astype(np.int64) + steps, 0, 2**32 - 1)[near]
    signs = rng.integers(0, 2, N_TRIALS, dtype=np.uint64)
    words = firsts.astype(np.uint64) << np.uint64(33) | coins.astype(np.uint64) << np.uint64(1)
    return firsts, coins, cells, words | signs, cells << np.uint64(1)


@each_law
def test_first_bits_on_a_boundary_leave_the_integer_to_further_bits(law):
    for k, cut in enumerate(_cuts(law).tolist()):
        for more, is_above in ((b"\0", False), (b"\xff", True)):
            given = iter([(cut << 33).to_bytes(8, "little") + bytes(8), more * 8, more * 8])
            draws = _trials(law, 1, lambda n, given=given: next(given, bytes(n)))
            assert (draws.units[0] > k) == is_above


@each_law
@pytest.mark.parametrize("seed", range(3))
def test_fast_decisions_are_the_exact_ones(law, seed):
    """Against mpmath and against exact arithmetic, also next to the boundary of each decision."""
    firsts, coins, cells, *words = crafted(law, seed)
    given = iter([np.concatenate(words).tobytes()])
    draws = _trials(law, N_TRIALS, lambda n: next(given, None) or seeded(seed)(n))
    kept = zip(draws.units.tolist(), draws.cells.tolist(), strict=True)
    n_open = 0
    with mpmath.workdps(50):
        ends = [probability_up_to(law, k) * 2**31 for k in range(len(_cuts(law)))]
        for first, coin, cell in zip(firsts.tolist(), coins.tolist(), cells.tolist(), strict=True):
            unit = next(k for k, end in enumerate(ends) if first < end)
            assert first + 1 <= ends[unit]  # crafted so
            x = mpmath.mpf(cell) / 2**63
            # the fraction ends within 2^-63: the level moves by less than 1e-8 of a step
            level = level_of(law, unit, x) * 2**32
            if coin + 1 < level - 1e-8:
                assert next(kept) == (unit, cell)
            elif coin < level + 1e-8:
                n_open += 1
                if draws_has(draws, unit, cell):
                    next(kept)
            else:
                continue
            found, _ = exact_trial(law, first, coin, cell, seeded(seed))
            assert found == unit or coin + 1 >= level - 1e-8
    assert next(kept, None) is None
    assert n_open < 0.2 * N_TRIALS  # fractions of 0, where a trial fails hardly ever


def draws_has(draws, unit, cell):
    return bool(np.any((draws.units == unit) & (draws.cells == np.uint64(cell))))


@each_law
def test_open_decisions_are_made_by_further_bits(law):
    """The same first bits: all zeros after them are below the boundary, all ones above."""
    with mpmath.workdps(80):
        for k, cut in enumerate(_cuts(law).tolist()[:-1]):
            cell = 2**62
            units = [exact_trial(law, cut, 0, cell, source)[0] for source in (zeros, ones)]
            assert units == [k, k + 1]
        for unit, cell in itertools.product((0, 1, 3), (0, 1, 2**61 + 1, 2**63 - 1)):
            low, high = (level_of(law, unit, mpmath.mpf(c) / 2**63) for c in (cell, cell + 1))
            coin = int(mpmath.floor(high * 2**32))
            if coin + 1 <= low * 2**32 or coin == 2**32:  # no open decision here
                continue
            first = int(_cuts(law)[unit]) - 1
            assert exact_trial(law, first, coin, cell, zeros)[0] == unit
            assert exact_trial(law, first, coin, cell, ones)[0] is None


@each_law
def test_no_tail_ends(law):
    """A uniform number 2^-200 below 1 draws the integer whose tail probability that is."""
    calls = iter([ones(8), ones(8), b"\xff" * 5 + b"\x00" * 3])  # 31 + 64 + 64 + ... ones
    unit, _ = exact_trial(law, 2**31 - 1, 0, 0, lambda n: next(calls, zeros(n)))
    with mpmath.workdps(100):
        number = 1 - mpmath.mpf(2) ** -159
        assert probability_up_to(law, unit - 1) <= number < probability_up_to(law, unit)
    assert unit > (12 if law is NORMAL else 100)


@each_law
def test_decided_trials_draw_no_bits(law):
    assert exact_trial(law, 0, 0, 2**62, refused)[0] == 0
    assert exact_trial(law, 0, 2**32 - 1, 2**62, refused)[0] is None


def test_laws():
    """KS tests of values and of tails, and a chi-square test of the integers."""
    source = NoiseSource(seeded(1))
    normals, exponentials = source.standard_normal(300_000), source.exponential(300_000)
    assert stats.kstest(normals, "norm").pvalue > ALARM
    assert stats.kstest(exponentials, "expon").pvalue > ALARM
    tail = np.abs(normals[np.abs(normals) > 3.0])
    assert stats.kstest(tail, lambda x: 1 - stats.norm.sf(x) / stats.norm.sf(3.0)).pvalue > ALARM
    units = np.bincount(np.minimum(draw(NORMAL, 300_000, seeded(2)).units, 3), minlength=4)
    expected = 2.0 * np.append(np.diff(stats.norm.cdf([0, 1, 2, 3])), stats.norm.sf(3.0))
    assert stats.chisquare(units, expected * units.sum()).pvalue > ALARM


def test_calls_of_all_sizes_give_one_stream():
    """Draws that are left over are the next ones: none is lost, none is used twice."""
    whole = NoiseSource(seeded(3)).standard_normal(340)
    source, sizes = NoiseSource(seeded(3)), (1, 30, 0, 9, 300)
    np.testing.assert_array_equal(np.concatenate([source.standard_normal(s) for s in sizes]), whole)
    source = NoiseSource(seeded(4))
    drawn = np.concatenate([source.standard_normal(s) for s in (100, 2000, 1, 700, 5000, 20)])
    assert len(np.unique(drawn)) == len(drawn)


def test_no_numbers_are_drawn_where_none_are_asked_for():
    def no_bits(size):
        raise AssertionError("bits are drawn")

    noise = NoiseSource(no_bits)
    noise.reserve(0)
    for draw_none in (noise.standard_normal, noise.exponential):
        assert draw_none(0).shape == (0,)
    for add in (noise.add_normal, noise.add_spherical_laplace):
        assert add(np.empty(0), 1.0).shape == (0,)


def test_draws_ahead_are_the_noise_of_the_steps():
    drawn, bits = [], seeded()

    def source(size):
        drawn.append(size)
        return bits(size)

    noise = NoiseSource(source)
    noise.reserve(3000)
    before = sum(drawn)
    for _ in range(60):
        noise.add_normal(np.zeros(50), 1.0)
    # 3000 draws were there: further bits are needed for a few sums in 10^5 alone
    assert sum(drawn) - before <= 64
    noise.reserve(10)
    first = noise.standard_normal(10)
    assert len(np.unique(np.concatenate([first, noise.standard_normal(10)]))) == 20


def test_parts_keep_their_longer_fractions():
    draws = draw(NORMAL, 100, seeded())[:100]
    draws.fraction(3).refine(seeded(1))
    draws.fraction(60).refine(seeded(2))
    first, second = draws[:50], draws[50:]
    assert (list(first.longer), list(second.longer)) == ([3], [10])
    both = joined([second, first])
    assert {i: both.longer[i].numerator for i in both.longer} == {
        10: draws.longer[60].numerator,
        53: draws.longer[3].numerator,
    }
    assert both.fraction(53).numerator >> 64 == int(both.cells[53])
    np.testing.assert_array_equal(both.values, np.append(draws.values[50:], draws.values[:50]))


def test_values_are_near_the_draws():
    draws = draw(NORMAL, 5000, seeded())
    extremes = np.array([0, 1, 2**63 - 1, 2**62], dtype=np.uint64)
    draws = joined(
        [draws, signed_draws(np.array([0, 7, 8, 40]), extremes, np.array([1.0, -1, 1, -1]), {})]
    )
    for i, value in enumerate(draws.values):
        for end in Bits(int(draws.cells[i]), CELL_BITS).bounds:
            exact = draws.sign(i) * (int(draws.units[i]) + end)
            assert abs(Fraction(float(value)) - exact) <= Fraction(1, 2**52) * (1 + abs(exact))


@pytest.mark.parametrize("probability", [0.3, 1.0 - 2.0**-53, 1e-9, 1e-30, 0.0, 1.0])
def test_bernoulli_draws_are_exact(probability):
    """A draw compares all digits of U with the probability; ties of one digit read the next."""
    bits = 16 * 80
    threshold = Fraction(probability) * 2**bits
    assert threshold.denominator == 1
    for offset in (-(2 ** (bits - 48)), -1, 0, 1, 2 ** (bits - 48)):
        numerator = int(threshold) + offset
        if 0 <= numerator < 2**bits:
            digits = ((numerator >> shift) % 2**16 for shift in range(bits - 16, -1, -16))
            words = (digit.to_bytes(2, "little") for digit in digits)
            heads = NoiseSource(lambda n, words=words: next(words)).bernoulli(1, probability)
            assert bool(heads[0]) == (offset < 0)


def test_no_copy_draws_the_same_noise():
    source = NoiseSource()
    source.standard_normal(1)
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot be copied"):
            copied(source)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("ahead", [0, 500])
def test_a_fork_draws_other_noise(ahead):
    """Than what follows in its parent, and than what that has drawn ahead."""
    source = NoiseSource()
    source.standard_normal(1)
    source.reserve(ahead)
    read, write = os.pipe()
    process = os.fork()
    if process == 0:
        source.reserve(min(ahead, 10))
        os.write(write, source.standard_normal(5).tobytes())
        os._exit(0)
    os.waitpid(process, 0)
    assert not set(source.standard_normal(500)) & set(np.frombuffer(os.read(read, 40)))
    os.close(read)
    os.close(write)


def test_threads_share_no_draw():
    source = NoiseSource()
    with ThreadPoolExecutor(8) as pool:
        drawn = np.concatenate(list(pool.map(source.standard_normal, [3] * 3000)))
    assert len(np.unique(drawn)) == len(drawn)

"""Draws from a softmax: their law, bit by bit, and their cost."""

import math
from collections import Counter
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np
import pytest
from plain_noise import seeded
from scipy import stats

from skdp.mechanisms import NoiseSource, SoftmaxMechanism, calibrated_draws
from skdp.mechanisms.softmax import _below_exp, draw_exponential, draw_softmax, exponential_logits
from skdp.privacy import (
    ComposedEvent,
    ExponentialMechanismEvent,
    Neighbouring,
    PrivacyBudget,
    PureAccountant,
    RepeatedEvent,
    ZCDPAccountant,
    tightest_epsilon,
)


class Script(NoiseSource):
    """Words that a test dictates."""

    def __init__(self, words):
        self.left = list(words)
        super().__init__(lambda n: np.array([self.left.pop(0) for _ in range(n // 8)], np.uint64))


def test_frequencies_are_those_of_the_softmax():
    # false alarms: 1e-4
    scores = np.array([0.0, 0.5, -1.0, 2.0, -8.0, -40.0])
    counts = np.bincount(draw_softmax(scores, 200_000, seeded(0)), minlength=6)
    law = np.exp(scores - 2.0) / np.exp(scores - 2.0).sum()
    assert stats.chisquare(counts[:5], 200_000 * law[:5] / law[:5].sum()).pvalue > 1e-4
    assert counts[5] == 0


def test_what_double_precision_would_never_draw_has_its_probability():
    """A tail index is proposed by its integer weight, and kept with the rest of its probability."""
    # one index at 0, one at -100; proposals at the end of the total are those of the latter
    bits = 59
    rest = 2.0**bits * math.exp(-100.0)  # the chance to keep it, about 2^-85
    first = int(rest * 2.0**128) >> 64  # the first 64 bits of that chance
    assert first == 0
    second = int(rest * 2.0**128) % 2**64
    for word, expected in [(second - 2**20, True), (second + 2**20, False)]:
        assert _below_exp(0, -100.0, 0.0, bits, 1, Script([word])) is expected
    assert not _below_exp(1, -100.0, 0.0, bits, 1, Script([]))


@pytest.mark.parametrize("exponent", [-1e300, -1e5, -800.0])
def test_remote_scores_cost_few_words(exponent):
    assert not _below_exp(0, exponent, 0.0, 20, 1, Script([0] * 3 + [1] + [0] * 20))


def test_comparisons_agree_with_rational_enclosures():
    """Refined decisions against a threshold of 200 digits."""
    rng = np.random.default_rng(3)
    for _ in range(200):
        score, bits = -rng.uniform(0.0, 50.0), int(rng.integers(20, 60))
        count = int(2.0**bits * math.exp(score) * rng.uniform(1.0, 3.0)) + 1
        exact = Fraction(Context(prec=200).exp(Decimal(score))) * 2**bits / count
        words = math.floor(exact * 2**192)
        top, middle, low = words >> 128, (words >> 64) % 2**64, words % 2**64
        shift = int(rng.integers(1, 2**40))
        for sign in (-1, 1):
            moved = (top << 128) + (middle << 64) + low + sign * shift
            script = Script([(moved >> 64) % 2**64, moved % 2**64, *[0] * 4])
            assert _below_exp(moved >> 128, score, 0.0, bits, count, script) is (sign < 0)


def test_the_law_is_exact_for_a_whole_tree_of_short_words():
    """Proposal and comparison as integers: the law that the code states, term by term."""
    scores = np.array([0.0, -1.5, -3.0])
    bits = 60 - 2
    counts = (np.exp(scores) * 2.0**bits * (1.0 + 4.0 * 2.0**-40)).astype(np.int64) + 1
    chances = np.exp(scores) * 2.0**bits / counts
    assert (chances < 1.0).all()
    law = counts * chances / (counts * chances).sum()
    assert law == pytest.approx(np.exp(scores) / np.exp(scores).sum(), rel=1e-12)
    # the proposals that the words pick are the cells of the cumulative counts
    ends = np.cumsum(counts)
    total_bits = (int(ends[-1]) - 1).bit_length()
    picked = Counter()
    for word in (0, ends[0] - 1, ends[0], ends[1] - 1, ends[1], ends[2] - 1):
        picked[int(draw_softmax(scores, 1, Script([int(word) << (64 - total_bits), 0]))[0])] += 1
    assert picked == {0: 2, 1: 2, 2: 2}
    # the first word beyond the total is refused
    beyond = [int(ends[2]) << (64 - total_bits), 0, 0]
    assert draw_softmax(scores, 1, Script(beyond))[0] == 0


def proposal(scores, index):
    """The word that proposes an index, whose integer weight is the smallest, 1."""
    bits = 60 - (len(scores) - 1).bit_length()
    weights = np.exp(scores - scores.max()) * 2.0**bits * (1.0 + 4.0 * 2.0**-40)
    ends = np.cumsum(weights.astype(np.int64) + 1)
    return (int(ends[index]) - 1) << (64 - (int(ends[-1]) - 1).bit_length())


@pytest.mark.parametrize(("words", "drawn"), [([0, 0], 1), ([1 << 63, 0, 0], 0)])
def test_a_proposal_is_kept_by_its_probability(words, drawn):
    """Of an index below all resolution, which else had that of its integer weight, 2^-59."""
    scores = np.array([0.0, -100.0])  # U below 2^-128 is kept: exp(-100) 2^59 is above 2^-86
    script = Script([proposal(scores, 1), *words])
    assert draw_softmax(scores, 1, script)[0] == drawn
    assert not script.left


@pytest.mark.parametrize("is_kept", [True, False])
def test_undecided_comparisons_are_refined(is_kept):
    """64 bits that agree with the probability decide nothing: the next ones do."""
    scores = np.array([0.0, -100.0 / 3.0])
    count = int(math.exp(scores[1]) * 2.0**59 * (1.0 + 4.0 * 2.0**-40)) + 1
    exact = Fraction(Context(prec=100).exp(Decimal(scores[1]))) * 2**59 / count
    first = math.floor(exact * 2**64)
    then = math.floor(exact * 2**128) % 2**64
    then += -(2**40) if is_kept else 2**40
    # the last proposal, if the first is refused, is index 0
    script = Script([proposal(scores, 1), first, then, *([] if is_kept else [0, 0])])
    assert draw_softmax(scores, 1, script)[0] == int(is_kept)
    assert not script.left


@pytest.mark.parametrize("scores", [np.array([]), np.zeros((2, 2)), np.array([0.0, np.nan])])
def test_scores_are_checked(scores):
    with pytest.raises(ValueError, match="scores"):
        draw_softmax(scores, 1, seeded(0))
    with pytest.raises(ValueError, match="no draws"):
        calibrated_draws(PrivacyBudget(1.0, 1e-6), [(1.0, 0)])


def test_release_counts_the_draws():
    release = SoftmaxMechanism(0.3).describe("vertices", 8, 100, "a lemma", n_draws=7)
    assert release.event == RepeatedEvent(
        ExponentialMechanismEvent(0.6, Neighbouring.REPLACE_ONE), 7
    )
    assert (release.mechanism, release.sensitivity, release.dimension) == ("exponential", 0.3, 8)


@pytest.mark.parametrize(
    ("budget", "draws"), [((1.0, 1e-6), [(2.0, 100)]), ((1.0, 0.0), [(0.1, 3), (1.0, 5), (7.0, 1)])]
)
def test_calibration_spends_the_budget_and_no_more(budget, draws):
    budget = PrivacyBudget(*budget)

    def event(scale):
        return ComposedEvent(
            [
                RepeatedEvent(SoftmaxMechanism(scale * unit).event(Neighbouring.REPLACE_ONE), n)
                for unit, n in draws
            ]
        )

    scale = calibrated_draws(budget, draws)
    assert tightest_epsilon(event(scale), budget.delta) <= budget.epsilon
    best = min(
        accountant().compose(event(1.001 * scale)).get_epsilon(budget.delta)
        for accountant in (PureAccountant, ZCDPAccountant)
    )
    assert best > budget.epsilon


def test_calibration_leaves_room_for_products_in_another_order():
    """Plans multiply c by the shape of a step first; what they charge stays within the budget."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        budget = PrivacyBudget(float(np.exp(rng.uniform(-5, 3))), 0.0)
        shape, units = float(np.exp(rng.normal())), np.exp(rng.normal(size=20)).tolist()
        scale = calibrated_draws(budget, [(shape * unit, 3) for unit in units])
        events = [
            SoftmaxMechanism((scale * shape) * unit).event(Neighbouring.REPLACE_ONE)
            for unit in units
        ]
        event = ComposedEvent([RepeatedEvent(each, 3) for each in events])
        cost = PureAccountant().compose(event).get_epsilon(0.0)
        assert (1 - 3e-9) * budget.epsilon < cost <= budget.epsilon


def test_draws_by_scores_have_their_law():
    """Chi-square test, false alarms at a rate of 1e-6; a slightly other law would be seen."""
    scores = np.array([0.0, 0.3, 1.0, 0.5, 2.0])
    logits = exponential_logits(scores, 1.5)
    np.testing.assert_allclose(logits, -0.75 * scores, atol=1e-6)
    counts = np.bincount(draw_softmax(logits, 40_000, seeded(0)), minlength=5)
    for epsilon, is_law in ((1.5, True), (1.3, False)):
        law = np.exp(-0.5 * epsilon * scores)
        assert bool(stats.chisquare(counts, 40_000 * law / law.sum()).pvalue > 1e-6) is is_law
    (best,) = {draw_exponential(np.array([1e9, 0.0]), 1e3, seeded(k)) for k in range(20)}
    assert best == 1


@pytest.mark.parametrize("epsilon", [1e-50, 1e-6, 0.3, 400.0])
def test_rounding_of_exponents_is_within_epsilon(epsilon):
    """The log ratios of neighbours, as rational numbers, lie in an interval of length epsilon."""
    rng = np.random.default_rng(0)
    size, largest = 400, Fraction(0)
    for reach in (1.0, 1e4, 2.0**30, 1e200):
        scores = rng.uniform(1.0, 1.0 + reach, size)
        others = scores + rng.choice([-1.0, 1.0], size)
        # the sum above may be rounded to more than a step of 1
        exact = [abs(Fraction(a) - Fraction(b)) <= 1 for a, b in zip(scores, others, strict=True)]
        others = np.where(exact, others, scores)
        here, there = (exponential_logits(each, epsilon) for each in (scores, others))
        moved = [Fraction(a) - Fraction(b) for a, b in zip(here, there, strict=True)]
        assert max(moved) - min(moved) <= Fraction(epsilon)
        largest = max(largest, max(moved) - min(moved))
    # and no more is lost than rounding needs
    assert largest >= Fraction(epsilon) * Fraction(1 - 2**-20)

"""The smallest proven epsilon: exact losses, mixed totals, and plain addition."""

import math
import sys
from fractions import Fraction

import pytest
from exact_losses import (
    ADD_REMOVE,
    DRAW,
    GAUSSIAN,
    PLD_MODULE,
    PURE,
    RELATIONS,
    REPLACE_ONE,
    SPECS,
    NovelEvent,
    events_and_pairs,
    exact_delta,
    pure_pair,
    under,
)
from hypothesis import example, given, settings
from hypothesis import strategies as st

from skdp.privacy import composition
from skdp.privacy.accountants import (
    GaussianDPAccountant,
    PureAccountant,
    UnsupportedEventError,
    ZCDPAccountant,
)
from skdp.privacy.composition import tightest_epsilon
from skdp.privacy.events import (
    ComposedEvent,
    ExponentialMechanismEvent,
    GaussianEvent,
    PureEvent,
    RepeatedEvent,
)
from skdp.privacy.gaussian_dp import gaussian_epsilon, gaussian_mu

# --- the smallest of them --------------------------------------------------------------------


def test_tightest_is_exact_for_gaussians_and_that_of_a_pure_release():
    for relation in RELATIONS:
        event = under(relation, RepeatedEvent(GAUSSIAN, 9))
        for delta in (1e-6, 1e-30):
            assert tightest_epsilon(event, delta) == gaussian_epsilon(delta, 1.5)
        assert tightest_epsilon(event, 0.0) == math.inf
    assert tightest_epsilon(ComposedEvent([PURE, DRAW]), 0.0) == 1.0
    assert tightest_epsilon(PURE, 1e-6) == PureAccountant().compose(PURE).get_epsilon(1e-6)
    assert tightest_epsilon(ComposedEvent([]), 0.0) == 0.0


def test_tightest_takes_the_relation_from_the_event():
    """An argument can but confirm it."""
    for relation, other in (RELATIONS, RELATIONS[::-1]):
        event = under(relation, RepeatedEvent(PURE, 3))
        for named in (None, relation, relation.value):
            assert tightest_epsilon(event, 0.0, named) == 1.5
        for wrong in (other, other.value):
            with pytest.raises(ValueError, match=f"a fit under '{relation.value}'"):
                tightest_epsilon(event, 0.0, wrong)
        assert tightest_epsilon(ComposedEvent([]), 0.0, relation) == 0.0


def test_tightest_takes_zcdp_for_many_softmax_draws(without_dp_accounting):
    event = RepeatedEvent(ExponentialMechanismEvent(0.01, REPLACE_ONE), 10000)
    bound = tightest_epsilon(event, 1e-6)
    assert bound == ZCDPAccountant().compose(event).get_epsilon(1e-6)
    assert bound < 0.9 * GaussianDPAccountant().compose(event).get_epsilon(1e-6)


@pytest.mark.mostly("slow", 1)
@pytest.mark.parametrize(
    "event",
    [
        # pure releases have 2^9 different sums here, and 501 there
        ComposedEvent([GAUSSIAN, *(PureEvent(0.05 + 0.01 * i, REPLACE_ONE) for i in range(9))]),
        ComposedEvent([GAUSSIAN, DRAW]),
        RepeatedEvent(PureEvent(0.1, REPLACE_ONE), 500),
    ],
)
def test_convolution_tightens_mixed_totals(event, monkeypatch):
    pytest.importorskip(PLD_MODULE)
    tight = tightest_epsilon(event, 1e-6)
    monkeypatch.setitem(sys.modules, PLD_MODULE, None)
    loose = tightest_epsilon(event, 1e-6)
    assert tight < 0.9995 * loose < math.inf


@pytest.mark.parametrize("delta", [1e-6, 1e-3])
def test_convolution_of_repeated_releases_is_exact(delta):
    pytest.importorskip(PLD_MODULE)
    epsilon = tightest_epsilon(RepeatedEvent(PureEvent(0.3, REPLACE_ONE), 8), delta)
    assert exact_delta([pure_pair(0.3)] * 8, epsilon) <= delta
    assert exact_delta([pure_pair(0.3)] * 8, epsilon * (1.0 - 2e-3)) > delta


@pytest.mark.parametrize("count", [3, 10_000])
def test_some_delta_is_kept_for_the_rounding(monkeypatch, count):
    """The convolution works with floats: its sums of probabilities are exact to 1e-12 or so."""
    pytest.importorskip(PLD_MODULE)
    deltas, convolve = [], composition._convolve

    def noted(leaves, delta, *arguments):
        deltas.append(delta)
        return convolve(leaves, delta, *arguments)

    monkeypatch.setattr(composition, "_convolve", noted)
    tightest_epsilon(RepeatedEvent(ExponentialMechanismEvent(0.01, REPLACE_ONE), count), 1e-6)
    kept = 1e-12 * max(1.0, count / 1000)
    assert deltas and all(delta <= 1e-6 - 0.999 * kept for delta in deltas)


@pytest.mark.search
@settings(max_examples=4)
@given(SPECS, st.floats(0.0, 0.9))
def test_tightest_never_below_the_exact_loss(specs, fraction):
    event, pairs = events_and_pairs(specs)
    epsilon = fraction * sum(part[1] for part in specs)
    exact = exact_delta(pairs, epsilon)
    if exact > 1e-9:
        assert tightest_epsilon(event, exact * (1.0 - 1e-4)) > epsilon


@pytest.mark.parametrize("relation", RELATIONS)
def test_tightest_refuses_what_nothing_is_proved_about(relation):
    with pytest.raises(UnsupportedEventError, match="NovelEvent"):
        tightest_epsilon(under(relation, ComposedEvent([PURE, NovelEvent()])), 1e-6)


# --- plain addition of pure releases -----------------------------------------------------------


@pytest.mark.parametrize(
    ("relation", "kind", "installed"),
    [(REPLACE_ONE, PureEvent, True), (ADD_REMOVE, ExponentialMechanismEvent, False)],
)
def test_a_pure_release_adds_its_epsilon_at_most(relation, kind, installed, monkeypatch):
    """The accountants alone say 5.385 and 11.787 for the pure releases, where 2 and 3 are true."""
    if not installed:
        monkeypatch.setitem(sys.modules, PLD_MODULE, None)
    gaussian = GaussianEvent(1.0 / gaussian_mu(1.0, 1e-6), relation)
    for epsilon in (1.0, 2.0):
        event = ComposedEvent([gaussian, kind(epsilon, relation)])
        alone = GaussianDPAccountant().compose(event).get_epsilon(1e-6)
        assert tightest_epsilon(event, 1e-6) <= 1.0 + epsilon < alone
    many = ComposedEvent([gaussian, RepeatedEvent(kind(0.75, relation), 4)])
    assert tightest_epsilon(many, 1e-6) <= 4.0


PARTS = st.lists(
    st.tuples(
        st.sampled_from([GaussianEvent, PureEvent, ExponentialMechanismEvent]),
        st.floats(-3.0, 2.0).map(lambda power: 10.0**power),
        st.integers(1, 50),
    ),
    min_size=1,
    max_size=6,
)
SMALL_DELTAS = st.one_of(st.just(0.0), st.floats(-14.0, -0.1).map(lambda power: 10.0**power))


def counted(parts, relation=REPLACE_ONE):
    return [RepeatedEvent(kind(size, relation), count) for kind, size, count in parts]


def split_pure(events):
    pure = [event for event in events if PureAccountant().supports(event)]
    return pure, [event for event in events if event not in pure]


@pytest.mark.search
def test_tightest_is_below_every_bound_of_a_mix(without_dp_accounting):
    """Each accountant alone, and the exact Gaussian part plus the epsilons of the others."""

    @settings(max_examples=40)
    @example([(GaussianEvent, 1e-3, 1), (PureEvent, 10**1.25, 2)], 0.1, REPLACE_ONE)
    @given(PARTS, SMALL_DELTAS, st.sampled_from(RELATIONS))
    def check(parts, delta, relation):
        events = counted(parts, relation)
        pure, gaussian = split_pure(events)
        total = tightest_epsilon(ComposedEvent(events), delta)
        for accountant in (GaussianDPAccountant(), ZCDPAccountant(), PureAccountant()):
            if accountant.supports(ComposedEvent(events)):
                assert total <= accountant.compose(ComposedEvent(events)).get_epsilon(delta)
        mu = math.sqrt(sum(event.count / event.event.noise_multiplier**2 for event in gaussian))
        added = sum(event.count * Fraction(event.event.epsilon) for event in pure)
        assert total <= (gaussian_epsilon(delta, mu) + float(added)) * (1.0 + 1e-9)
        alone = tightest_epsilon(ComposedEvent(gaussian), delta)
        assert total >= alone
        if 0.0 < total < math.inf:  # rounded up from at most the exact sum
            assert Fraction(math.nextafter(total, 0.0)) < Fraction(alone) + added

    check()


def test_large_pure_releases_are_added_and_small_ones_composed(without_dp_accounting):
    """Less than all of it plainly added, and less than nothing of it."""
    small = RepeatedEvent(ExponentialMechanismEvent(0.01, REPLACE_ONE), 1000)
    large = PureEvent(5.0, REPLACE_ONE)
    event = ComposedEvent([GAUSSIAN, small, large])
    by_hand = tightest_epsilon(ComposedEvent([GAUSSIAN, small]), 1e-6) + 5.0
    bounds = [
        GaussianDPAccountant().compose(event).get_epsilon(1e-6),
        ZCDPAccountant().compose(event).get_epsilon(1e-6),
        tightest_epsilon(GAUSSIAN, 1e-6) + 15.0,
    ]
    assert tightest_epsilon(event, 1e-6) == pytest.approx(by_hand, rel=1e-12)
    assert by_hand < 0.8 * min(bounds)

import itertools
import math
import sys
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import brentq

from skdp.privacy.accountants import (
    GaussianDPAccountant,
    PrivacyAccountant,
    PureAccountant,
    UnsupportedEventError,
    ZCDPAccountant,
    import_convolution,
    tightest_epsilon,
)
from skdp.privacy.events import (
    ApproximateEvent,
    ComposedEvent,
    ExponentialMechanismEvent,
    GaussianEvent,
    Neighbouring,
    PoissonSampledEvent,
    PoissonSampledSumEvent,
    PrivacyEvent,
    PureEvent,
    RepeatedEvent,
)
from skdp.privacy.gaussian_dp import gaussian_delta, gaussian_epsilon, gaussian_mu

DELTAS = [1e-12, 1e-9, 1e-6, 1e-3, 0.1]
EPSILONS = [0.0, 0.1, 0.5, 1.0, 3.0, 10.0]
PLD_MODULE = "dp_accounting.pld.privacy_loss_distribution"


REPLACE_ONE, ADD_REMOVE = RELATIONS = tuple(Neighbouring)


@dataclass(frozen=True)
class NovelEvent(PrivacyEvent):
    """An event that nothing is proved about."""

    neighbouring: Neighbouring = REPLACE_ONE

    def __post_init__(self):
        pass


def under(relation, event):
    """The same numbers, measured under another relation."""
    if isinstance(event, ComposedEvent):
        return ComposedEvent([under(relation, part) for part in event.events])
    if isinstance(event, RepeatedEvent | PoissonSampledEvent):
        return replace(event, event=under(relation, event.event))
    return replace(event, neighbouring=relation)


# --- exact losses of small compositions, by enumeration --------------------------------------


def two_point_pair(epsilon, above):
    """The worst pair of laws with log-ratio in [above - epsilon, above]."""
    low, high = math.exp(above - epsilon), math.exp(above)
    chance = (1.0 - low) / (high - low)  # of the second law at the outcome of ratio `high`
    return [(high * chance, chance), (low * (1.0 - chance), 1.0 - chance)]


def pure_pair(epsilon):
    return two_point_pair(2.0 * epsilon, epsilon)


def exact_delta(pairs, epsilon):
    """Hockey-stick divergence of a product of pairs of finite laws."""
    total = 0.0
    for outcome in itertools.product(*pairs):
        first = math.prod(probability for probability, _ in outcome)
        second = math.prod(probability for _, probability in outcome)
        total += max(0.0, first - math.exp(epsilon) * second)
    return total


def test_the_enumeration_knows_randomised_response():
    assert exact_delta([pure_pair(1.0)], 0.0) == pytest.approx(math.tanh(0.5))
    assert exact_delta([pure_pair(1.0)], 1.0) == pytest.approx(0.0, abs=1e-15)
    assert exact_delta([pure_pair(1.0)] * 2, 1.0) == pytest.approx(
        (math.exp(2.0) - math.exp(1.0)) / (1.0 + math.e) ** 2
    )


SPECS = st.lists(
    st.tuples(st.booleans(), st.floats(0.05, 3.0), st.floats(0.05, 0.95)), min_size=1, max_size=6
)


def events_and_pairs(specs):
    events, pairs = [], []
    for pure, epsilon, fraction in specs:
        if pure:
            events.append(PureEvent(epsilon, REPLACE_ONE))
            pairs.append(pure_pair(epsilon))
        else:
            events.append(ExponentialMechanismEvent(epsilon, REPLACE_ONE))
            pairs.append(two_point_pair(epsilon, fraction * epsilon))
    return ComposedEvent(events), pairs


# --- what every accountant must do -----------------------------------------------------------


class AccountantContract:
    accountant: type[PrivacyAccountant]
    supported: tuple[PrivacyEvent, ...]
    unsupported: tuple[PrivacyEvent, ...]
    extreme: tuple[PrivacyEvent, ...]

    def total(self, *events):
        accountant = self.accountant()
        for event in events:
            accountant.compose(event)
        return accountant

    def test_nothing_costs_nothing(self):
        for accountant in (
            self.total(),
            self.total(ComposedEvent([])),
            self.total(PureEvent(0, REPLACE_ONE)),
        ):
            assert accountant.get_epsilon(0.0) == 0.0
            assert accountant.get_delta(0.0) == 0.0

    def test_epsilon_falls_with_delta_and_grows_with_the_event(self):
        for event in self.supported:
            once, twice = self.total(event), self.total(event, event)
            losses = [once.get_epsilon(delta) for delta in DELTAS]
            assert losses == sorted(losses, reverse=True)
            assert losses[0] > losses[-1]
            assert all(twice.get_epsilon(delta) > once.get_epsilon(delta) for delta in DELTAS[:3])

    def test_delta_falls_with_epsilon_and_grows_with_the_event(self):
        for event in self.supported:
            once, twice = self.total(event), self.total(event, event)
            losses = [once.get_delta(epsilon) for epsilon in EPSILONS]
            assert losses == sorted(losses, reverse=True)
            assert losses[0] > losses[-1] >= 0.0
            assert losses[0] <= 1.0
            assert all(twice.get_delta(epsilon) >= once.get_delta(epsilon) for epsilon in EPSILONS)

    def test_order_of_composition_does_not_matter(self):
        results = set()
        for order in itertools.permutations(self.supported):
            accountant = self.total(*order)
            results.add((accountant.get_epsilon(1e-6), accountant.get_delta(0.3)))
        assert len(results) == 1

    def test_count_repetition_and_composition_agree(self):
        for event in self.supported:
            expected = self.total(event, event, event).get_epsilon(1e-6)
            for accountant in (
                self.accountant().compose(event, 3),
                self.total(RepeatedEvent(event, 3)),
                self.total(ComposedEvent([event] * 3)),
            ):
                assert accountant.get_epsilon(1e-6) == pytest.approx(expected, rel=1e-12)

    def test_epsilon_and_delta_agree(self):
        @settings(max_examples=100, deadline=None)
        @given(st.floats(-14.0, -0.01), st.integers(0, 50), st.sampled_from(self.supported))
        def check(power, count, event):
            accountant = self.accountant().compose(event, count)
            assert accountant.get_delta(accountant.get_epsilon(10.0**power)) <= 10.0**power

        check()

    def test_delta_and_epsilon_agree(self):
        @settings(max_examples=100, deadline=None)
        @given(st.floats(0.0, 20.0), st.integers(1, 50), st.sampled_from(self.supported))
        def check(epsilon, count, event):
            accountant = self.accountant().compose(event, count)
            delta = accountant.get_delta(epsilon)
            if 1e-200 < delta < 0.9:  # near 1 a rounding of delta moves epsilon visibly
                assert accountant.get_epsilon(delta) <= epsilon * (1.0 + 1e-8) + 1e-6

        check()

    def test_supported_events_are_supported(self):
        assert all(self.accountant().supports(event) for event in self.supported)
        assert self.accountant().supports(ComposedEvent(self.supported))

    def test_refuses_what_it_has_no_proof_for(self):
        for event in [*self.unsupported, NovelEvent()]:
            hidden = ComposedEvent([self.supported[0], RepeatedEvent(event, 2)])
            accountant = self.total(self.supported[0])
            before = accountant.get_epsilon(1e-6)
            for refused in (event, hidden):
                assert not accountant.supports(refused)
                with pytest.raises(UnsupportedEventError, match=type(event).__name__):
                    accountant.compose(refused)
            assert accountant.get_epsilon(1e-6) == before

    @pytest.mark.parametrize("bad", [-0.1, math.nan])
    def test_refuses_bad_arguments(self, bad):
        accountant = self.total(self.supported[0])
        with pytest.raises(ValueError, match="delta"):
            accountant.get_epsilon(bad)
        with pytest.raises(ValueError, match="epsilon"):
            accountant.get_delta(bad)
        with pytest.raises(ValueError, match="count"):
            accountant.compose(self.supported[0], -1)

    def test_relation_is_that_of_the_events(self):
        assert self.accountant().neighbouring is None
        assert self.total(ComposedEvent([])).neighbouring is None
        assert self.accountant("add_remove").neighbouring is ADD_REMOVE
        with pytest.raises(ValueError, match="nearby"):
            self.accountant("nearby")
        for relation, other in (RELATIONS, RELATIONS[::-1]):
            event = under(relation, self.supported[0])
            for accountant in (self.total(event), self.accountant(relation).compose(event)):
                before = accountant.get_epsilon(1e-6)
                assert accountant.neighbouring is relation
                for count in (0, 1):
                    with pytest.raises(ValueError, match=f"must be '{relation.value}'"):
                        accountant.compose(under(other, self.supported[0]), count)
                assert accountant.get_epsilon(1e-6) == before > 0.0
            with pytest.raises(ValueError, match=f"must be '{other.value}'"):
                self.accountant(other).compose(event)

    def test_a_refused_event_does_not_set_the_relation(self):
        accountant = self.accountant()
        with pytest.raises(UnsupportedEventError):
            accountant.compose(NovelEvent(ADD_REMOVE))
        assert accountant.compose(self.supported[0]).neighbouring is REPLACE_ONE

    def test_never_below_the_exact_loss(self):
        @settings(max_examples=100, deadline=None)
        @given(SPECS, st.floats(0.0, 0.9))
        def check(specs, fraction):
            event, pairs = events_and_pairs(specs)
            epsilon = fraction * sum(part[1] for part in specs)
            exact = exact_delta(pairs, epsilon)
            accountant = self.total(event)
            assert accountant.get_delta(epsilon) >= exact - 1e-14
            if exact > 1e-9:
                assert accountant.get_epsilon(exact * (1.0 - 1e-4)) > epsilon

        check()

    def test_losses_beyond_double_precision_are_infinite_not_errors(self):
        for event in self.extreme:
            accountant = self.total(event)
            assert accountant.get_epsilon(1e-6) >= 1e290
            assert accountant.get_delta(1.0) == 1.0


class TestGaussianDPAccountant(AccountantContract):
    accountant = GaussianDPAccountant
    supported = (
        GaussianEvent(0.7, REPLACE_ONE),
        PureEvent(0.4, REPLACE_ONE),
        ExponentialMechanismEvent(0.8, REPLACE_ONE),
    )
    unsupported = (PoissonSampledEvent(0.5, GaussianEvent(1.0, REPLACE_ONE)),)
    extreme = (
        GaussianEvent(1e-200, REPLACE_ONE),
        PureEvent(1e300, REPLACE_ONE),
        ExponentialMechanismEvent(1e300, REPLACE_ONE),
    )

    @pytest.mark.parametrize("delta", DELTAS)
    def test_gaussians_are_exact(self, delta):
        event = ComposedEvent(
            [RepeatedEvent(GaussianEvent(4.0, REPLACE_ONE), 4), GaussianEvent(1.0, REPLACE_ONE)]
        )
        mu = math.sqrt(4.0 / 16.0 + 1.0)
        assert self.total(event).get_epsilon(delta) == pytest.approx(
            gaussian_epsilon(delta, mu), rel=1e-12
        )
        assert self.total(event).get_delta(2.0) == gaussian_delta(2.0, mu)

    def test_phases_calibrated_to_a_budget_fit_in_it(self):
        for epsilon, phases in itertools.product([0.1, 1.0, 8.0], [1, 3, 17]):
            sigma = math.sqrt(phases) / gaussian_mu(epsilon, 1e-6)
            total = self.total(RepeatedEvent(GaussianEvent(sigma, REPLACE_ONE), phases))
            assert epsilon * (1.0 - 1e-6) <= total.get_epsilon(1e-6) <= epsilon

    @pytest.mark.mostly("slow", 1)
    @pytest.mark.parametrize(("sigma", "count"), [(0.8, 1), (3.0, 10), (20.0, 300)])
    def test_gaussians_against_dp_accounting(self, sigma, count):
        dp_accounting = pytest.importorskip("dp_accounting")
        pytest.importorskip(PLD_MODULE)
        oracle = dp_accounting.pld.PLDAccountant()
        oracle.compose(dp_accounting.GaussianDpEvent(sigma), count)
        ours = self.total(RepeatedEvent(GaussianEvent(sigma, REPLACE_ONE), count))
        for delta in (1e-9, 1e-6, 1e-3):
            assert ours.get_epsilon(delta) == pytest.approx(oracle.get_epsilon(delta), abs=2e-4)
        for epsilon in (0.1, 1.0, 2.0):
            assert ours.get_delta(epsilon) == pytest.approx(oracle.get_delta(epsilon), rel=1e-3)

    @pytest.mark.parametrize("epsilon", [0.01, 0.5, 2.0, 8.0, 25.0])
    def test_softmax_draw_has_the_smallest_parameter_that_covers_its_range(self, epsilon):
        mu = math.sqrt(self.total(ExponentialMechanismEvent(epsilon, REPLACE_ONE)).total)
        slack = []
        for above in epsilon * np.linspace(0.01, 0.99, 99):
            pair = two_point_pair(epsilon, above)
            corner = exact_delta([pair], 0.0), gaussian_delta(0.0, mu)
            slack.append(corner[1] / corner[0])
            for loss in np.linspace(0.0, 0.95, 8) * above:
                assert gaussian_delta(loss, mu) >= exact_delta([pair], loss) * (1.0 - 1e-9)
        assert min(slack) == pytest.approx(1.0, abs=1e-6)  # attained by the symmetric range
        assert max(slack) > 1.0 + 1e-3


class TestZCDPAccountant(AccountantContract):
    accountant = ZCDPAccountant
    supported = (
        GaussianEvent(0.7, REPLACE_ONE),
        PureEvent(0.4, REPLACE_ONE),
        ExponentialMechanismEvent(0.8, REPLACE_ONE),
    )
    unsupported = (PoissonSampledEvent(0.5, GaussianEvent(1.0, REPLACE_ONE)),)
    extreme = (
        GaussianEvent(1e-200, REPLACE_ONE),
        PureEvent(1e300, REPLACE_ONE),
        ExponentialMechanismEvent(1e300, REPLACE_ONE),
    )

    def test_costs(self):
        assert self.total(GaussianEvent(2.0, REPLACE_ONE)).total == pytest.approx(1.0 / 8.0)
        assert self.total(PureEvent(0.6, REPLACE_ONE)).total == pytest.approx(0.18)
        assert self.total(ExponentialMechanismEvent(0.6, REPLACE_ONE)).total == pytest.approx(0.045)

    @settings(max_examples=200, deadline=None)
    @given(
        st.floats(-3.0, 3.0).map(lambda power: 10.0**power),
        st.floats(-30.0, -0.5).map(lambda power: 10.0**power),
    )
    def test_never_below_the_exact_gaussian(self, sigma, delta):
        exact = gaussian_epsilon(delta, 1.0 / sigma)
        ours = self.total(GaussianEvent(sigma, REPLACE_ONE)).get_epsilon(delta)
        assert ours >= exact * (1.0 - 1e-9)
        if exact > 1.0 / sigma:
            assert ours <= 1.6 * exact

    @pytest.mark.parametrize("rho", [1e-6, 1e-3, 0.1, 1.0, 30.0])
    @pytest.mark.parametrize("delta", [1e-15, 1e-6, 0.01])
    def test_the_order_is_the_best_one(self, rho, delta):
        orders = 1.0 + np.logspace(-6, 8, 20001)
        steps = np.log1p(-1.0 / orders) * (orders - 1.0) - np.log(orders) - math.log(delta)
        best = float(np.min(orders * rho + steps / (orders - 1.0)))
        ours = self.total(PureEvent(math.sqrt(2.0 * rho), REPLACE_ONE)).get_epsilon(delta)
        assert ours == pytest.approx(max(best, 0.0), rel=1e-5, abs=1e-12)

    def test_conversion_against_dp_accounting(self):
        dp_accounting = pytest.importorskip("dp_accounting")
        oracle = pytest.importorskip("dp_accounting.rdp").RdpAccountant(
            orders=1.0 + np.logspace(-2, 3, 2000)
        )
        oracle.compose(dp_accounting.GaussianDpEvent(2.0), 5)
        ours = self.total(RepeatedEvent(GaussianEvent(2.0, REPLACE_ONE), 5))
        for delta in (1e-9, 1e-6, 1e-3):
            assert ours.get_epsilon(delta) == pytest.approx(oracle.get_epsilon(delta), rel=1e-4)


class TestPureAccountant(AccountantContract):
    accountant = PureAccountant
    supported = (
        PureEvent(0.4, REPLACE_ONE),
        ExponentialMechanismEvent(0.8, REPLACE_ONE),
        PureEvent(1.1, REPLACE_ONE),
    )
    unsupported = (
        GaussianEvent(10.0, REPLACE_ONE),
        PoissonSampledEvent(0.5, PureEvent(1.0, REPLACE_ONE)),
    )
    extreme = (PureEvent(1e300, REPLACE_ONE), ExponentialMechanismEvent(1e300, REPLACE_ONE))

    def test_epsilons_add_at_delta_zero(self):
        total = self.total(
            RepeatedEvent(PureEvent(0.1, REPLACE_ONE), 10),
            ExponentialMechanismEvent(0.5, REPLACE_ONE),
        )
        # the floating-point number 0.1 is above 1/10: ten of them are above 1
        assert total.get_epsilon(0.0) == math.nextafter(1.5, 2.0)
        assert total.get_delta(math.nextafter(1.5, 2.0)) == 0.0
        assert total.get_delta(1.5 - 1e-9) > 0.0

    @pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
    def test_one_release_is_exact(self, epsilon):
        accountant = self.total(PureEvent(epsilon, REPLACE_ONE))
        for weaker in np.linspace(0.0, 0.99, 10) * epsilon:
            exact = exact_delta([pure_pair(epsilon)], weaker)
            assert accountant.get_delta(weaker) == pytest.approx(exact, rel=1e-9)
            assert accountant.get_epsilon(exact) == pytest.approx(weaker, abs=1e-9)

    @pytest.mark.parametrize(("epsilon", "count"), [(0.05, 40), (0.3, 5), (2.0, 1)])
    def test_against_dp_accounting(self, epsilon, count):
        pld = pytest.importorskip(PLD_MODULE)
        oracle = pld.from_privacy_parameters(
            pld.common.DifferentialPrivacyParameters(epsilon), value_discretization_interval=1e-4
        ).self_compose(count)
        ours = self.total(RepeatedEvent(PureEvent(epsilon, REPLACE_ONE), count))
        for delta in (1e-9, 1e-6, 1e-3):
            theirs = oracle.get_epsilon_for_delta(delta)
            assert ours.get_epsilon(delta) >= theirs - count * 1e-4
            if count == 1:
                assert ours.get_epsilon(delta) == pytest.approx(theirs, abs=1e-4)


# --- the smallest of them --------------------------------------------------------------------


@pytest.fixture
def without_dp_accounting(monkeypatch):
    monkeypatch.setitem(sys.modules, PLD_MODULE, None)


GAUSSIAN, PURE, DRAW = (
    GaussianEvent(2.0, REPLACE_ONE),
    PureEvent(0.5, REPLACE_ONE),
    ExponentialMechanismEvent(0.5, REPLACE_ONE),
)


@pytest.mark.parametrize("relation", RELATIONS)
def test_tightest_is_exact_for_gaussians(relation):
    event = under(relation, RepeatedEvent(GAUSSIAN, 9))
    assert tightest_epsilon(event, 1e-6) == gaussian_epsilon(1e-6, 1.5)
    assert tightest_epsilon(event, 1e-30) == gaussian_epsilon(1e-30, 1.5)
    assert tightest_epsilon(event, 0.0) == math.inf


def test_tightest_takes_the_relation_from_the_event():
    """Sampling is amplified under add/remove only, and an argument can but confirm that."""
    sampled = RepeatedEvent(PoissonSampledEvent(0.01, PURE), 3)
    totals = {}
    for relation, other in (RELATIONS, RELATIONS[::-1]):
        event = under(relation, sampled)
        totals[relation] = tightest_epsilon(event, 0.0)
        assert tightest_epsilon(event, 0.0, relation) == totals[relation]
        assert tightest_epsilon(event, 0.0, relation.value) == totals[relation]
        for wrong in (other, other.value):
            with pytest.raises(ValueError, match=f"'{relation.value}', must be '{other.value}'"):
                tightest_epsilon(event, 0.0, wrong)
        assert tightest_epsilon(ComposedEvent([]), 0.0, relation) == 0.0
    assert totals[ADD_REMOVE] < 0.02 * totals[REPLACE_ONE] == pytest.approx(0.03)
    assert tightest_epsilon(PoissonSampledEvent(0.5, ComposedEvent([])), 0.0) == 0.0


def test_tightest_takes_the_pure_bound_for_a_pure_release():
    assert tightest_epsilon(ComposedEvent([PURE, DRAW]), 0.0) == 1.0
    assert tightest_epsilon(PURE, 1e-6) == PureAccountant().compose(PURE).get_epsilon(1e-6)
    assert tightest_epsilon(ComposedEvent([]), 0.0) == 0.0


def test_tightest_takes_zcdp_for_many_softmax_draws(without_dp_accounting):
    event = RepeatedEvent(ExponentialMechanismEvent(0.01, REPLACE_ONE), 10000)
    bound = tightest_epsilon(event, 1e-6)
    assert bound == ZCDPAccountant().compose(event).get_epsilon(1e-6)
    assert bound < 0.9 * GaussianDPAccountant().compose(event).get_epsilon(1e-6)


@pytest.mark.mostly("slow", 1)
@pytest.mark.parametrize(
    "event",
    [
        ComposedEvent([GAUSSIAN, PURE]),
        ComposedEvent([GAUSSIAN, DRAW]),
        RepeatedEvent(PureEvent(0.1, REPLACE_ONE), 100),
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


def test_convolution_is_not_asked_for_deltas_near_its_rounding(monkeypatch):
    event = ComposedEvent([GAUSSIAN, PURE])
    with_it = [tightest_epsilon(event, delta) for delta in (1e-10, 1e-14)]
    monkeypatch.setitem(sys.modules, PLD_MODULE, None)
    assert with_it == [tightest_epsilon(event, delta) for delta in (1e-10, 1e-14)]


@pytest.mark.slow
def test_tightest_does_not_depend_on_order():
    other = PureEvent(0.3, REPLACE_ONE)
    forth = ComposedEvent([GAUSSIAN, other, RepeatedEvent(PURE, 2), DRAW])
    back = ComposedEvent([PURE, DRAW, PURE, other, GAUSSIAN])
    assert tightest_epsilon(forth, 1e-5) == tightest_epsilon(back, 1e-5)


@pytest.mark.search
@settings(max_examples=8, deadline=None)
@given(SPECS, st.floats(0.0, 0.9))
def test_tightest_never_below_the_exact_loss(specs, fraction):
    event, pairs = events_and_pairs(specs)
    epsilon = fraction * sum(part[1] for part in specs)
    exact = exact_delta(pairs, epsilon)
    if exact > 1e-9:
        assert tightest_epsilon(event, exact * (1.0 - 1e-4)) > epsilon


@pytest.mark.search
@settings(max_examples=4, deadline=None)
@given(st.floats(0.7, 5.0), SPECS)
def test_tightest_never_below_the_loss_of_a_part(sigma, specs):
    event, pairs = events_and_pairs(specs)
    epsilon = tightest_epsilon(ComposedEvent([event, GaussianEvent(sigma, REPLACE_ONE)]), 1e-6)
    # tiny slack: what the exact Gaussian alone costs, and what the finite part alone costs
    assert epsilon >= gaussian_epsilon(1e-6, 1.0 / sigma) * (1.0 - 1e-6)
    assert exact_delta(pairs, epsilon) <= 1e-6


def test_mixed_total_against_quadrature():
    """Gaussian and randomised response: the exact delta by the law of total probability."""
    event = ComposedEvent([GaussianEvent(1.5, REPLACE_ONE), PURE])
    epsilon = tightest_epsilon(event, 1e-5)

    def exact(epsilon):
        # the losses add: split by the outcome of randomised response; a loss below zero is
        # covered by the identity delta(-x) = 1 - e^-x + e^-x delta(x)
        total = 0.0
        for first, second in pure_pair(PURE.epsilon):
            left = epsilon - math.log(first / second)
            assert left >= 0.0
            total += first * gaussian_delta(left, 1.0 / 1.5)
        return total

    assert exact(epsilon) <= 1e-5
    pytest.importorskip(PLD_MODULE)
    assert exact(epsilon * (1.0 - 1e-3)) > 1e-5


@pytest.mark.parametrize("relation", RELATIONS)
def test_tightest_refuses_what_nothing_is_proved_about(relation):
    for event in (NovelEvent(), PoissonSampledEvent(0.5, ComposedEvent([PURE, NovelEvent()]))):
        with pytest.raises(UnsupportedEventError, match="NovelEvent"):
            tightest_epsilon(under(relation, event), 1e-6)


@pytest.mark.parametrize("bad", [-0.1, 1.1, math.nan])
def test_tightest_refuses_bad_deltas(bad):
    for event in (GAUSSIAN, PURE, PoissonSampledEvent(0.5, GAUSSIAN)):
        with pytest.raises(ValueError, match="delta"):
            tightest_epsilon(under(ADD_REMOVE, event), bad)


# --- plain addition of pure releases -----------------------------------------------------------


@pytest.mark.mostly("slow", 1)
@pytest.mark.parametrize("installed", [True, False])
@pytest.mark.parametrize("kind", [PureEvent, ExponentialMechanismEvent])
@pytest.mark.parametrize("relation", RELATIONS)
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

    @settings(max_examples=150, deadline=None)
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


def test_split_totals_are_valid(without_dp_accounting):
    """A Gaussian and randomised response: the exact delta by the law of total probability."""

    def divergence(epsilon, mu):
        if epsilon >= 0.0:
            return gaussian_delta(epsilon, mu)
        return -math.expm1(epsilon) + math.exp(epsilon) * gaussian_delta(-epsilon, mu)

    def exact(epsilon, mu, pure):
        return sum(
            first * divergence(epsilon - math.log(first / second), mu)
            for first, second in pure_pair(pure)
        )

    for mu, pure in itertools.product([0.1, 1.0, 3.0], [0.1, 2.0, 10.0]):
        event = ComposedEvent([GaussianEvent(1.0 / mu, REPLACE_ONE), PureEvent(pure, REPLACE_ONE)])
        for delta in (1e-9, 1e-3):
            assert exact(tightest_epsilon(event, delta), mu, pure) <= delta * (1.0 + 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("installed", [True, False])
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("pure", [PURE, DRAW, PureEvent(1000.0, REPLACE_ONE)])
def test_sampled_totals_are_below_the_sum_of_their_parts(pure, relation, installed, monkeypatch):
    """With and without the convolution; 1000 nats are beyond it, the sampled part is not."""
    if not installed:
        monkeypatch.setitem(sys.modules, PLD_MODULE, None)
    plain = GaussianEvent(1.0, relation)
    sampled = PoissonSampledEvent(0.05, plain)
    if relation is REPLACE_ONE:
        sampled = PoissonSampledSumEvent(0.05, plain, 2.0)
    pure = under(relation, pure)
    whole, unsampled, rest = (
        tightest_epsilon(event, 1e-5)
        for event in (
            ComposedEvent([RepeatedEvent(sampled, 5), pure]),
            ComposedEvent([RepeatedEvent(plain, 5), pure]),
            RepeatedEvent(sampled, 5),
        )
    )
    assert whole <= unsampled
    assert whole <= math.nextafter(rest + tightest_epsilon(pure, 0.0), math.inf)
    if installed:
        assert whole < 0.999 * unsampled


# --- Poisson sampling ------------------------------------------------------------------------


def amplified(epsilon, probability):
    return math.log1p(probability * math.expm1(epsilon))


def test_sampled_pure_release_is_amplified_under_add_remove():
    event = under(ADD_REMOVE, PoissonSampledEvent(0.1, ComposedEvent([PURE, DRAW])))
    expected = amplified(1.0, 0.1)
    assert tightest_epsilon(event, 0.0) == pytest.approx(expected, rel=1e-12)
    assert tightest_epsilon(RepeatedEvent(event, 7), 0.0) == pytest.approx(7 * expected, rel=1e-12)
    nested = PoissonSampledEvent(0.5, PoissonSampledEvent(0.2, PureEvent(800.0, ADD_REMOVE)))
    assert tightest_epsilon(nested, 0.0) == pytest.approx(800.0 + math.log(0.1))


@given(st.floats(0.01, 5.0), st.floats(0.01, 0.99), st.floats(0.0, 0.99), st.booleans())
def test_amplification_covers_randomised_response(epsilon, probability, fraction, swap):
    """Both directions of add/remove, exactly."""
    pair = [
        ((1.0 - probability) * second + probability * first, second)
        for first, second in pure_pair(epsilon)
    ]
    if swap:
        pair = [(second, first) for first, second in pair]
    accountant = PureAccountant().compose(PureEvent(amplified(epsilon, probability), ADD_REMOVE))
    loss = fraction * accountant.get_epsilon(0.0)
    assert accountant.get_delta(loss) >= exact_delta([pair], loss) - 1e-14


@pytest.mark.mostly("slow", 2)
@pytest.mark.parametrize("inner", [PURE, DRAW, GAUSSIAN, ComposedEvent([PURE, GAUSSIAN])])
def test_sampling_is_dropped_under_replace_one(inner):
    sampled = RepeatedEvent(PoissonSampledEvent(0.01, inner), 3)
    plain = RepeatedEvent(inner, 3)
    assert tightest_epsilon(sampled, 1e-6) == tightest_epsilon(plain, 1e-6)


def test_amplification_would_be_wrong_under_replace_one():
    """Without the record the output is recognisable: the third outcome of the two laws below."""
    probability = 0.1
    pair = [(probability * first, probability * second) for first, second in pure_pair(1.0)]
    pair.append((1.0 - probability, 1.0 - probability))
    claimed = tightest_epsilon(PoissonSampledEvent(probability, PureEvent(1.0, REPLACE_ONE)), 0.0)
    assert exact_delta([pair], claimed) == pytest.approx(0.0, abs=1e-15)
    assert exact_delta([pair], amplified(1.0, probability)) > 0.03


@pytest.mark.parametrize("relation", RELATIONS)
def test_trivial_sampling(relation):
    always, never = (PoissonSampledEvent(q, under(relation, GAUSSIAN)) for q in (1.0, 0.0))
    assert tightest_epsilon(always, 1e-6) == tightest_epsilon(GAUSSIAN, 1e-6)
    assert tightest_epsilon(never, 0.0) == 0.0


@pytest.mark.parametrize("probability", [0.01, 0.3])
@pytest.mark.parametrize("sigma", [0.8, 2.0, 10.0])
def test_one_sampled_gaussian_is_exact(probability, sigma):
    """Removing a record gives exactly q delta(log(1 + (e^epsilon - 1) / q))."""
    event = PoissonSampledEvent(probability, GaussianEvent(sigma, ADD_REMOVE))
    epsilon = tightest_epsilon(event, 1e-6)

    def exact(epsilon):
        inner = math.log1p(math.expm1(epsilon) / probability)
        return probability * gaussian_delta(inner, 1.0 / sigma)

    assert exact(epsilon) <= 1e-6 * (1.0 + 1e-9)
    assert exact(epsilon * (1.0 - 1e-6)) > 1e-6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("probability", "sigma", "count"), [(0.01, 1.0, 1000), (0.1, 3.0, 50), (0.5, 2.0, 4)]
)
def test_sampled_gaussians_against_dp_accounting(probability, sigma, count):
    dp_accounting = pytest.importorskip("dp_accounting")
    pld = pytest.importorskip(PLD_MODULE)
    event = RepeatedEvent(PoissonSampledEvent(probability, GaussianEvent(sigma, ADD_REMOVE)), count)
    theirs = dp_accounting.SelfComposedDpEvent(
        dp_accounting.PoissonSampledDpEvent(probability, dp_accounting.GaussianDpEvent(sigma)),
        count,
    )
    ours = tightest_epsilon(event, 1e-6)
    above = dp_accounting.pld.PLDAccountant().compose(theirs).get_epsilon(1e-6)
    assert ours == pytest.approx(above, rel=1e-3)
    below = pld.from_gaussian_mechanism(
        sigma,
        sampling_prob=probability,
        pessimistic_estimate=False,
        use_connect_dots=False,
        value_discretization_interval=1e-3,
    ).self_compose(count)
    assert ours >= below.get_epsilon_for_delta(1e-6)
    renyi = pytest.importorskip("dp_accounting.rdp").RdpAccountant().compose(theirs)
    assert ours <= renyi.get_epsilon(1e-6)


@pytest.mark.parametrize(("probability", "sigma", "count"), [(0.01, 1.0, 20), (0.3, 4.0, 3)])
@pytest.mark.parametrize("delta", [1e-8, 1e-3])
def test_bound_without_dp_accounting_is_valid(
    probability, sigma, count, delta, without_dp_accounting
):
    sampled = PoissonSampledEvent(probability, GaussianEvent(sigma, ADD_REMOVE))
    event = ComposedEvent([RepeatedEvent(sampled, count), GaussianEvent(sigma, ADD_REMOVE)])
    bound = tightest_epsilon(event, delta)
    sys.modules.pop(PLD_MODULE)
    pld = pytest.importorskip(PLD_MODULE)
    optimistic = {
        "pessimistic_estimate": False,
        "use_connect_dots": False,
        "value_discretization_interval": 1e-3,
    }
    below = pld.from_gaussian_mechanism(sigma, sampling_prob=probability, **optimistic)
    below = below.self_compose(count).compose(pld.from_gaussian_mechanism(sigma, **optimistic))
    assert below.get_epsilon_for_delta(delta) <= bound < math.inf


def test_sampled_gaussian_without_dp_accounting_is_amplified(without_dp_accounting):
    event = under(ADD_REMOVE, RepeatedEvent(PoissonSampledEvent(0.01, GAUSSIAN), 2))
    by_hand = 2.0 * amplified(gaussian_epsilon(5e-5, 0.5), 0.01)
    assert tightest_epsilon(event, 1e-6) == pytest.approx(by_hand, rel=1e-9)
    assert by_hand < 0.1 * tightest_epsilon(under(REPLACE_ONE, event), 1e-6)


def test_delta_is_shared_between_sampled_and_plain_releases(without_dp_accounting):
    event = ComposedEvent([RepeatedEvent(PoissonSampledEvent(0.01, GAUSSIAN), 2), GAUSSIAN])
    event = under(ADD_REMOVE, event)
    share = 1e-6 / 3.0
    by_hand = gaussian_epsilon(share, 0.5)
    by_hand += 2.0 * amplified(gaussian_epsilon(share / 0.01, 0.5), 0.01)
    assert tightest_epsilon(event, 1e-6) == pytest.approx(by_hand, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    "inner",
    [
        RepeatedEvent(ExponentialMechanismEvent(0.3, REPLACE_ONE), 100),
        RepeatedEvent(ExponentialMechanismEvent(0.003, REPLACE_ONE), 100),
        RepeatedEvent(PureEvent(1e-3, REPLACE_ONE), 1000),
    ],
)
def test_add_remove_never_costs_more_than_replace_one(inner):
    event = PoissonSampledEvent(0.5, inner)
    plain = tightest_epsilon(event, 1e-6)
    assert tightest_epsilon(under(ADD_REMOVE, event), 1e-6) < plain


# --- sums over Poisson samples under replace-one -----------------------------------------------


def sampled_sum(probability, noise, sensitivity=2.0):
    """The noise is in units of what one record adds at most."""
    return PoissonSampledSumEvent(
        probability, GaussianEvent(noise / sensitivity, REPLACE_ONE), noise
    )


def log_mixture(x, probability, noise, shift):
    return np.logaddexp(
        math.log1p(-probability) + stats.norm.logpdf(x, 0.0, noise),
        math.log(probability) + stats.norm.logpdf(x, shift, noise),
    )


def sampled_sum_delta(probability, noise, epsilon):
    """Divergence of the claimed pair of laws in closed form; their likelihood ratio increases."""
    first, second = (
        lambda x, shift=shift: log_mixture(x, probability, noise, shift) for shift in (1.0, -1.0)
    )
    cut = brentq(lambda x: first(x) - second(x) - epsilon, -1e3, 1e3, xtol=1e-14)
    tails = [
        (1.0 - probability) * stats.norm.sf(cut, 0.0, noise)
        + probability * stats.norm.sf(cut, shift, noise)
        for shift in (1.0, -1.0)
    ]
    return tails[0] - math.exp(epsilon) * tails[1]


@pytest.mark.slow
def test_the_pair_dominates_all_records_in_the_ball():
    """A search over directions and lengths of the two records; the claim is exact and attained."""
    rng = np.random.default_rng(0)
    slack, tight = [], []
    for trial in range(40):
        rate, noise = rng.uniform(0.02, 0.95), np.exp(rng.uniform(-1, 1))
        beta = np.exp(rng.uniform(-1.5, 1.5))
        grid, step = np.linspace(-8 * noise - 1, 8 * noise + 1, 1001, retstep=True)
        angle, (first, second) = rng.uniform(0, 2 * np.pi), rng.uniform(0, 1, 2) ** 0.2
        if trial % 8 == 0:
            angle, first, second = np.pi, 1.0, 1.0
        laws = []
        for vector in ((first, 0.0), (second * np.cos(angle), second * np.sin(angle))):
            bumps = [
                np.multiply.outer(*(stats.norm.pdf(grid, m, noise) for m in mean))
                for mean in ((0.0, 0.0), vector)
            ]
            laws.append((1 - rate) * bumps[0] + rate * bumps[1])
        divergence = np.maximum(laws[0] - beta * laws[1], 0.0).sum() * step**2
        slack.append(sampled_sum_delta(rate, noise, math.log(beta)) - divergence)
        if trial % 8 == 0:
            tight.append(abs(slack[-1]))
    assert min(slack) > -2e-5  # error of the quadrature
    assert max(slack) > 0.01
    assert max(tight) < 2e-5


@pytest.mark.mostly("slow", 1)
@pytest.mark.parametrize(
    ("probability", "noise"), [(1e-3, 0.3), (0.1, 1.0), (0.4, 2.0), (0.9, 0.7)]
)
@pytest.mark.parametrize("delta", [1e-8, 1e-4])
def test_one_sampled_sum_is_exact(probability, noise, delta):
    pytest.importorskip(PLD_MODULE)
    epsilon = tightest_epsilon(sampled_sum(probability, noise), delta)
    assert sampled_sum_delta(probability, noise, epsilon) <= delta
    assert sampled_sum_delta(probability, noise, epsilon * (1.0 - 2e-3)) > delta


@pytest.mark.slow
@pytest.mark.parametrize(("probability", "noise"), [(0.1, 1.0), (0.4, 2.0), (0.9, 0.7)])
def test_two_sampled_sums_by_quadrature(probability, noise):
    pytest.importorskip(PLD_MODULE)
    x, step = np.linspace(-8 * noise - 1, 8 * noise + 1, 2001, retstep=True)
    laws = [np.exp(log_mixture(x, probability, noise, shift)) for shift in (1.0, -1.0)]
    first, second = (np.multiply.outer(law, law) for law in laws)
    epsilon = tightest_epsilon(RepeatedEvent(sampled_sum(probability, noise), 2), 1e-3)
    delta = np.maximum(first - math.exp(epsilon) * second, 0.0).sum() * step**2
    assert 0.995e-3 < delta <= 1e-3 * (1.0 + 1e-4)  # error of the quadrature


def test_sampled_sum_and_gaussian_by_quadrature():
    """The Gaussian is integrated in closed form, the sampled sum on a grid."""
    pytest.importorskip(PLD_MODULE)
    x, step = np.linspace(-13.0, 13.0, 4001, retstep=True)
    first, second = (log_mixture(x, 0.2, 1.5, shift) for shift in (1.0, -1.0))

    def exact(epsilon):
        left, mu = epsilon - (first - second), 0.5
        inner = stats.norm.cdf(mu / 2 - left / mu) - np.exp(left) * stats.norm.cdf(
            -mu / 2 - left / mu
        )
        return float((np.exp(first) * inner).sum() * step)

    epsilon = tightest_epsilon(ComposedEvent([sampled_sum(0.2, 1.5), GAUSSIAN]), 1e-5)
    assert exact(epsilon) <= 1e-5
    assert exact(epsilon * (1.0 - 2e-3)) > 1e-5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("probability", "noise", "count"), [(0.01, 1.0, 1000), (0.1, 3.0, 50), (0.5, 2.0, 4)]
)
def test_sampled_sums_against_dp_accounting(probability, noise, count):
    dp_accounting = pytest.importorskip("dp_accounting")
    pld = pytest.importorskip(PLD_MODULE)
    theirs = dp_accounting.PoissonSampledDpEvent(probability, dp_accounting.GaussianDpEvent(noise))
    replace = dp_accounting.NeighboringRelation.REPLACE_ONE
    above = dp_accounting.pld.PLDAccountant(replace).compose(theirs, count).get_epsilon(1e-6)
    below = pld.from_gaussian_mechanism(
        noise,
        sampling_prob=probability,
        neighboring_relation=replace,
        pessimistic_estimate=False,
        use_connect_dots=False,
        value_discretization_interval=1e-3,
    ).self_compose(count)
    ours = tightest_epsilon(RepeatedEvent(sampled_sum(probability, noise), count), 1e-6)
    assert ours == pytest.approx(above, rel=1e-3)
    assert ours >= below.get_epsilon_for_delta(1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("others", [[GAUSSIAN], [PURE], [DRAW, GAUSSIAN]])
def test_sampled_sums_compose_with_other_events(others):
    pytest.importorskip(PLD_MODULE)
    sums, rest = RepeatedEvent(sampled_sum(0.05, 1.0), 10), ComposedEvent(others)
    plain = RepeatedEvent(GaussianEvent(0.5, REPLACE_ONE), 10)
    alone, remainder, together, unsampled = (
        tightest_epsilon(event, 1e-5)
        for event in (sums, rest, ComposedEvent([sums, rest]), ComposedEvent([plain, rest]))
    )
    assert max(alone, remainder) < together < 0.5 * unsampled
    basic = tightest_epsilon(sums, 5e-6) + tightest_epsilon(rest, 5e-6)
    assert together < basic
    assert together == tightest_epsilon(ComposedEvent([*others, sums]), 1e-5)


@pytest.mark.slow
def test_sampled_sums_of_different_kinds_compose():
    pytest.importorskip(PLD_MODULE)
    one, other = sampled_sum(0.05, 1.0), sampled_sum(0.3, 4.0)
    both = tightest_epsilon(ComposedEvent([one, other]), 1e-5)
    assert both > max(tightest_epsilon(event, 1e-5) for event in (one, other))
    assert both < sum(tightest_epsilon(event, 5e-6) for event in (one, other))


@pytest.mark.slow
def test_sampled_sums_cost_more_the_more_is_sampled_and_never_more_than_all():
    pytest.importorskip(PLD_MODULE)
    losses = [
        tightest_epsilon(RepeatedEvent(sampled_sum(probability, 2.0), 5), 1e-5)
        for probability in (0.0, 1e-7, 1e-3, 0.1, 0.5, 0.9, 0.999, 1.0)
    ]
    assert losses == sorted(losses)
    assert losses[:2] == [0.0, 0.0]
    assert losses[-1] == tightest_epsilon(RepeatedEvent(GaussianEvent(1.0, REPLACE_ONE), 5), 1e-5)
    assert losses[5] < 0.95 * losses[-1]


@pytest.mark.slow
@pytest.mark.parametrize("sensitivity", [2.0, 0.1])
@pytest.mark.parametrize("probability", [0.01, 0.9, 1.0])
def test_a_small_sensitivity_may_beat_the_sampling(probability, sensitivity):
    event = sampled_sum(probability, 2.0, sensitivity)
    plain = tightest_epsilon(event.event, 1e-5)
    by_pair = tightest_epsilon(sampled_sum(probability, 2.0), 1e-5)
    # the smaller of the two bounds, whichever it is
    assert tightest_epsilon(event, 1e-5) == pytest.approx(min(plain, by_pair), rel=1e-3)
    assert tightest_epsilon(event, 1e-5) <= plain


@pytest.mark.slow
def test_a_sampled_sum_within_a_sample_under_replace_one_keeps_its_own_sampling():
    event = sampled_sum(0.1, 2.0)
    nested = PoissonSampledEvent(0.2, ComposedEvent([PURE, event]))
    assert tightest_epsilon(nested, 1e-5) == tightest_epsilon(ComposedEvent([PURE, event]), 1e-5)


@pytest.mark.mostly("slow", 1)
@pytest.mark.parametrize("old", [False, True])
def test_sampled_sums_without_a_new_dp_accounting_are_unsampled(old, monkeypatch):
    event = ComposedEvent([RepeatedEvent(sampled_sum(0.1, 2.0), 3), PURE])
    plain = ComposedEvent([RepeatedEvent(GaussianEvent(1.0, REPLACE_ONE), 3), PURE])
    if old:
        pld = pytest.importorskip(PLD_MODULE)
        new = pld.from_gaussian_mechanism

        def from_gaussian_mechanism(
            standard_deviation, sampling_prob=1.0, value_discretization_interval=1e-4
        ):
            return new(
                standard_deviation,
                sampling_prob=sampling_prob,
                value_discretization_interval=value_discretization_interval,
            )

        monkeypatch.setattr(pld, "from_gaussian_mechanism", from_gaussian_mechanism)
        with pytest.raises(ImportError, match=r"dp-accounting >= 0\.5"):
            import_convolution("replace_one")
        assert import_convolution("add_remove") is pld
    else:
        monkeypatch.setitem(sys.modules, PLD_MODULE, None)
        for relation in RELATIONS:
            with pytest.raises(ImportError, match=r"skdp\[accounting\]"):
                import_convolution(relation)
    assert tightest_epsilon(event, 1e-5) == tightest_epsilon(plain, 1e-5)


def test_sampled_sums_beyond_the_convolution_are_unsampled():
    event = sampled_sum(0.1, 2.0)
    for delta in (1e-14, 0.0):
        assert tightest_epsilon(event, delta) == tightest_epsilon(event.event, delta)
    for noise in (1e-2, 1e-200):
        loud = sampled_sum(0.1, noise)
        assert tightest_epsilon(loud, 1e-5) == tightest_epsilon(loud.event, 1e-5)
    quiet = sampled_sum(0.1, 1e200)
    assert 0.0 <= tightest_epsilon(quiet, 1e-5) <= tightest_epsilon(quiet.event, 1e-5)


def test_accountants_refuse_sampled_sums():
    for accountant in (GaussianDPAccountant(), ZCDPAccountant(), PureAccountant()):
        assert not accountant.supports(sampled_sum(0.1, 2.0))


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(
    "event",
    [
        ComposedEvent([PureEvent(1000.0, REPLACE_ONE), GAUSSIAN]),
        ComposedEvent([PURE, GaussianEvent(1e-3, REPLACE_ONE)]),
        ComposedEvent([PURE, PoissonSampledEvent(1e-5, GaussianEvent(1e-4, REPLACE_ONE))]),
        ComposedEvent([PURE, PoissonSampledEvent(1e-5, GaussianEvent(1e-200, REPLACE_ONE))]),
        ComposedEvent([PURE, PoissonSampledEvent(0.5, GaussianEvent(1e155, REPLACE_ONE))]),
        ComposedEvent([PURE, PoissonSampledEvent(0.5, GaussianEvent(1e200, REPLACE_ONE))]),
        ComposedEvent([PureEvent(1e-200, REPLACE_ONE), RepeatedEvent(PURE, 1000)]),
    ],
)
def test_extreme_events_have_a_bound(event, relation):
    assert tightest_epsilon(under(relation, event), 1e-2) > 0.0


# --------------------------------------------------------------------- (epsilon, delta)-DP releases


def test_deltas_of_approximate_releases_add_and_the_rest_is_pure():
    one = ApproximateEvent(0.5, REPLACE_ONE, 1e-6)
    assert tightest_epsilon(one, 1e-6) == 0.5
    assert tightest_epsilon(one, 0.999e-6) == math.inf
    assert tightest_epsilon(one, 0.1) == tightest_epsilon(PureEvent(0.5, REPLACE_ONE), 0.1 - 1e-6)
    for count in (2, 7):
        many = RepeatedEvent(one, count)
        assert tightest_epsilon(many, (count - 0.5) * 1e-6) == math.inf
        assert tightest_epsilon(many, count * 1e-6 * (1 + 1e-12)) <= count * 0.5 * (1 + 1e-12)
        pure = RepeatedEvent(PureEvent(0.5, REPLACE_ONE), count)
        assert tightest_epsilon(many, 1e-5) >= tightest_epsilon(pure, 1e-5)
    gaussian = GaussianEvent(1.0 / gaussian_mu(0.25, 1e-7), REPLACE_ONE)
    total = tightest_epsilon(ComposedEvent([one, gaussian]), 1e-6 + 1e-7)
    assert 0.7 < total <= 0.75 * (1 + 1e-9)
    for accountant in (PureAccountant(), GaussianDPAccountant(), ZCDPAccountant()):
        assert not accountant.supports(one)
        with pytest.raises(UnsupportedEventError):
            accountant.compose(one)


def test_randomised_response_that_fails_attains_the_rule():
    """With probability delta the record is shown, else randomised response: exact divergences."""
    epsilon, lost, count = 0.7, 0.01, 3
    p = math.exp(epsilon) / (1.0 + math.exp(epsilon))
    first = np.array([lost, (1 - lost) * p, (1 - lost) * (1 - p), 0.0])
    second = first[::-1]
    laws = [np.ones(1), np.ones(1)]
    for _ in range(count):
        laws = [np.outer(law, one).ravel() for law, one in zip(laws, (first, second), strict=True)]
    event = RepeatedEvent(ApproximateEvent(epsilon, REPLACE_ONE, lost), count)
    for delta in (0.031, 0.1, 0.3):
        claimed = tightest_epsilon(event, delta)
        exact = np.maximum(laws[0] - math.exp(claimed) * laws[1], 0.0).sum()
        assert exact <= delta
    assert tightest_epsilon(event, 0.0299) == math.inf
    sampled = PoissonSampledEvent(0.5, ApproximateEvent(epsilon, REPLACE_ONE, lost))
    assert tightest_epsilon(sampled, lost) == epsilon
    assert tightest_epsilon(sampled, 0.99 * lost) == math.inf

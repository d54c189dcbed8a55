"""Accountants: what each of them must do, and events with few proofs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from exact_losses import (
    ADD_REMOVE,
    RELATIONS,
    REPLACE_ONE,
    SPECS,
    NovelEvent,
    events_and_pairs,
    exact_delta,
    pure_pair,
    two_point_pair,
    under,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from skdp.privacy.accountants import (
    GaussianDPAccountant,
    PrivacyAccountant,
    PureAccountant,
    UnsupportedEventError,
    ZCDPAccountant,
)
from skdp.privacy.composition import tightest_epsilon
from skdp.privacy.events import (
    ApproximateEvent,
    ComposedEvent,
    ExponentialMechanismEvent,
    GaussianEvent,
    PoissonSampledSumEvent,
    PrivacyEvent,
    PureEvent,
    RepeatedEvent,
)
from skdp.privacy.gaussian_dp import gaussian_delta, gaussian_epsilon, gaussian_mu

DELTAS = [1e-12, 1e-9, 1e-6, 1e-3, 0.1]


# --- what every accountant must do -----------------------------------------------------------


class AccountantContract:
    accountant: type[PrivacyAccountant]
    supported: tuple[PrivacyEvent, ...] = (
        GaussianEvent(0.7, REPLACE_ONE),
        PureEvent(0.4, REPLACE_ONE),
        ExponentialMechanismEvent(0.8, REPLACE_ONE),
    )
    unsupported: tuple[PrivacyEvent, ...] = (
        PoissonSampledSumEvent(0.5, GaussianEvent(1.0, REPLACE_ONE), 2.0),
    )
    extreme: tuple[PrivacyEvent, ...] = (
        GaussianEvent(1e-200, REPLACE_ONE),
        PureEvent(1e300, REPLACE_ONE),
        ExponentialMechanismEvent(1e300, REPLACE_ONE),
    )

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

    def test_count_repetition_and_composition_agree(self):
        assert self.accountant().supports(ComposedEvent(self.supported))
        for event in self.supported:
            assert self.accountant().supports(event)
            expected = self.total(event, event, event).get_epsilon(1e-6)
            for accountant in (
                self.accountant().compose(event, 3),
                self.total(RepeatedEvent(event, 3)),
                self.total(ComposedEvent([event] * 3)),
            ):
                assert accountant.get_epsilon(1e-6) == pytest.approx(expected, rel=1e-12)

    def test_epsilon_and_delta_agree(self):
        @settings(max_examples=100)
        @given(st.floats(-14.0, -0.01), st.integers(0, 50), st.sampled_from(self.supported))
        def check(power, count, event):
            accountant = self.accountant().compose(event, count)
            assert accountant.get_delta(accountant.get_epsilon(10.0**power)) <= 10.0**power

        check()

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
        with pytest.raises(UnsupportedEventError):
            (accountant := self.accountant()).compose(NovelEvent(ADD_REMOVE))
        assert accountant.compose(self.supported[0]).neighbouring is REPLACE_ONE

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
                    with pytest.raises(ValueError, match=f"neighbouring == '{relation.value}'"):
                        accountant.compose(under(other, self.supported[0]), count)
                assert accountant.get_epsilon(1e-6) == before > 0.0
            with pytest.raises(ValueError, match=f"neighbouring == '{other.value}'"):
                self.accountant(other).compose(event)

    def test_never_below_the_exact_loss(self):
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

    @pytest.mark.parametrize("epsilon", [0.01, 2.0, 25.0])
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

    @pytest.mark.parametrize(("rho", "delta"), [(1e-6, 1e-6), (0.1, 1e-15), (30.0, 0.01)])
    def test_the_order_is_the_best_one(self, rho, delta):
        orders = 1.0 + np.logspace(-6, 8, 20001)
        steps = np.log1p(-1.0 / orders) * (orders - 1.0) - np.log(orders) - math.log(delta)
        best = float(np.min(orders * rho + steps / (orders - 1.0)))
        ours = self.total(PureEvent(math.sqrt(2.0 * rho), REPLACE_ONE)).get_epsilon(delta)
        assert ours == pytest.approx(max(best, 0.0), rel=1e-5, abs=1e-12)


class TestPureAccountant(AccountantContract):
    accountant = PureAccountant
    supported = (
        PureEvent(0.4, REPLACE_ONE),
        ExponentialMechanismEvent(0.8, REPLACE_ONE),
        PureEvent(1.1, REPLACE_ONE),
    )
    unsupported = (
        GaussianEvent(10.0, REPLACE_ONE),
        PoissonSampledSumEvent(0.5, GaussianEvent(1.0, REPLACE_ONE), 2.0),
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

"""The exact trade-off of Gaussian and pure releases together."""

import itertools
import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from skdp.privacy import Neighbouring, tightest_epsilon
from skdp.privacy.accountants import GaussianDPAccountant, PureAccountant
from skdp.privacy.events import ComposedEvent, GaussianEvent, PureEvent, RepeatedEvent
from skdp.privacy.pure_releases import mixed_epsilon

RELATION = Neighbouring.REPLACE_ONE


def exact_delta(epsilon, mu, pure):
    """Hockey-stick divergence of N(mu, 1) and coins against N(0, 1) and the other coins."""
    total = 0.0
    for signs in itertools.product((1.0, -1.0), repeat=len(pure)):
        first = math.prod(1.0 / (1.0 + math.exp(-s * e)) for s, e in zip(signs, pure, strict=True))
        second = math.prod(1.0 / (1.0 + math.exp(s * e)) for s, e in zip(signs, pure, strict=True))
        # the first density is above e^epsilon times the second beyond this point
        edge = (epsilon + math.log(second / first)) / mu + 0.5 * mu if mu else None
        if mu:
            total += first * norm.sf(edge - mu) - math.exp(epsilon) * second * norm.sf(edge)
        else:
            total += max(0.0, first - math.exp(epsilon) * second)
    return total


@pytest.mark.parametrize("delta", [1e-9, 1e-5, 1e-2])
@pytest.mark.parametrize(
    ("mu", "pure"),
    [
        (0.0, [0.3, 0.3, 0.3]),
        (0.5, [0.1]),
        (0.02, [0.5]),
        (1.3, [0.1, 0.1, 0.7]),
        (3.0, [2.0, 0.4]),
    ],
)
def test_epsilon_is_that_of_gaussians_and_coins(mu, pure, delta):
    groups = [(epsilon, pure.count(epsilon)) for epsilon in set(pure)]
    found = mixed_epsilon(mu, groups, delta, 100.0)
    assert exact_delta(found, mu, pure) <= delta
    assert exact_delta(found * (1.0 - 1e-6) - 1e-9, mu, pure) > delta


def test_the_closed_form_is_the_integral():
    """The formula that the test above takes as the truth, against quadrature."""
    mu, epsilon, e = 0.8, 0.4, 0.5
    heads = 1.0 / (1.0 + math.exp(-e))

    def above(x, chance):
        first, second = norm.pdf(x, mu) * chance, norm.pdf(x) * (1.0 - chance)
        return max(0.0, first - math.exp(epsilon) * second)

    parts = [quad(above, -12, 14, args=(c,), limit=400)[0] for c in (heads, 1.0 - heads)]
    assert exact_delta(epsilon, mu, [e]) == pytest.approx(sum(parts), rel=1e-7)


def test_where_nothing_is_gained_or_computed():
    assert mixed_epsilon(1.0, [(0.1, 1)], 1e-5, 1.0) == math.inf  # no valid epsilon is below
    assert mixed_epsilon(1.0, [(0.1, 500)], 1e-5, 100.0) == math.inf
    assert mixed_epsilon(1.0, [(1e200, 3)], 1e-5, math.inf) == math.inf
    assert mixed_epsilon(1.0, [(1e200, 3)], 1e-5, 1e250) == math.inf
    assert mixed_epsilon(0.0, [(0.1, 1)], 0.5, 0.1) == 0.0


def test_totals_of_gaussians_and_pure_releases_are_exact_without_convolution(monkeypatch):
    def refused(*_):
        raise AssertionError("the extra is not needed")

    monkeypatch.setattr("skdp.privacy.accountants._pld_epsilon", refused)
    rng = np.random.default_rng(0)
    for _ in range(20):
        sigmas, pure = rng.uniform(0.5, 20.0, 3), rng.uniform(0.01, 1.0, 3)
        events = [GaussianEvent(s, RELATION) for s in sigmas]
        events += [PureEvent(e, RELATION) for e in pure]
        found = tightest_epsilon(ComposedEvent(events), 1e-6)
        mu = math.sqrt((sigmas**-2.0).sum())
        assert exact_delta(found, mu, list(pure)) <= 1e-6
        assert exact_delta(found * (1.0 - 1e-6), mu, list(pure)) > 1e-6
        gaussian = GaussianDPAccountant().compose(ComposedEvent(events[:3])).get_epsilon(1e-6)
        assert found < gaussian + PureAccountant().compose(ComposedEvent(events[3:])).total


def test_never_above_convolution():
    pytest.importorskip("dp_accounting")
    from dp_accounting.pld import privacy_loss_distribution as pld

    for sigma, epsilon, count in ((3.0, 0.1, 1), (8.0, 0.2, 12), (30.0, 0.05, 40)):
        law = pld.from_gaussian_mechanism(sigma).compose(
            pld.from_randomized_response(2.0 / (1.0 + math.exp(epsilon)), 2).self_compose(count)
        )
        events = [
            GaussianEvent(sigma, RELATION),
            RepeatedEvent(PureEvent(epsilon, RELATION), count),
        ]
        found = tightest_epsilon(ComposedEvent(events), 1e-6)
        assert found <= law.get_epsilon_for_delta(1e-6)
        # each law is on a grid of width 1e-4, rounded up
        assert found >= law.get_epsilon_for_delta(1e-6) - 1e-4 * (count + 1)

"""The exact trade-off of Gaussian and pure releases together."""

import math
from collections import Counter

import mpmath
import numpy as np
import pytest

from skdp.privacy import Neighbouring, tightest_epsilon
from skdp.privacy.accountants import GaussianDPAccountant, PureAccountant
from skdp.privacy.composition import mixed_epsilon
from skdp.privacy.events import ComposedEvent, GaussianEvent, PureEvent

RELATION = Neighbouring.REPLACE_ONE


def exact_delta(epsilon, mu, pure):
    """Hockey-stick divergence of N(mu, 1) and coins against N(0, 1) and the other coins."""
    with mpmath.workdps(60):
        pairs = [(mpmath.mpf(1), mpmath.mpf(1))]
        for each, count in Counter(pure).items():
            heads = 1 / (1 + mpmath.exp(-mpmath.mpf(each)))
            coins = [heads**k * (1 - heads) ** (count - k) for k in range(count + 1)]
            ways = [mpmath.binomial(count, k) for k in range(count + 1)]
            pairs = [
                (first * n * p, second * n * q)
                for first, second in pairs
                for n, p, q in zip(ways, coins, reversed(coins), strict=True)
            ]
        factor, total = mpmath.exp(mpmath.mpf(epsilon)), mpmath.mpf(0)
        for first, second in pairs:
            if mu:  # the first density is above e^epsilon times the second beyond this point
                edge = mpmath.log(factor * second / first) / mu + mpmath.mpf(mu) / 2
                total += first * mpmath.ncdf(mu - edge) - factor * second * mpmath.ncdf(-edge)
            else:
                total += max(0, first - factor * second)
        return total


@pytest.mark.parametrize(
    ("mu", "pure", "delta"),
    [(0.0, [0.3, 0.3, 0.3], 1e-5), (0.5, [0.1], 1e-9), (0.02, [0.5], 1e-2),
     (1.3, [0.1, 0.1, 0.7], 1e-5), (3.0, [2.0, 0.4], 1e-9), (0.01, 300 * [5e-4], 1e-5)],
    ids=lambda value: str(value)[:20],
)  # fmt: skip
def test_epsilon_is_that_of_gaussians_and_coins(mu, pure, delta):
    found = mixed_epsilon(mu, Counter(pure).items(), delta, 100.0)
    assert exact_delta(found, mu, pure) <= delta
    assert exact_delta(found * (1.0 - 1e-6) - 1e-9, mu, pure) > delta


def _floor(number):
    """The largest float that is not above."""
    return float(number) if float(number) <= number else math.nextafter(float(number), 0.0)


def test_rounding_of_losses_is_covered():
    """Just above the largest loss: the last place of epsilon is 1e-6 mu, and the start is there."""
    rng = np.random.default_rng(0)
    for _ in range(8):
        mu, small, large = 10.0 ** rng.uniform([-11.0, -4.0, 0.0], [-7.0, -2.0, 1.0])
        groups = [(small, int(rng.integers(1, 11))), (large, int(rng.integers(1, 4)))]
        pure = [each for each, count in groups for _ in range(count)]
        epsilon = sum(pure) + rng.uniform(0.0, 4.0) * mu
        delta = _floor(exact_delta(epsilon, mu, pure))
        for slack in (0.0, 1e-12 * (1.0 + sum(pure))):
            found = mixed_epsilon(mu, groups, delta, 2.0 * epsilon + slack)
            assert exact_delta(found, mu, pure) <= delta


def test_rounding_of_chances_is_covered():
    """Far below a loss delta hardly depends on epsilon: one wrong digit moves epsilon far."""
    rng = np.random.default_rng(0)
    for _ in range(8):
        pure = int(rng.integers(1, 4)) * [rng.uniform(5.0, 25.0)]
        epsilon = rng.uniform(0.1, 0.3) * pure[0]
        delta = _floor(exact_delta(epsilon, 0.0, pure))
        found = mixed_epsilon(0.0, Counter(pure).items(), delta, 2.0 * sum(pure))
        assert exact_delta(found, 0.0, pure) <= delta


def test_where_nothing_is_gained_or_computed():
    assert mixed_epsilon(1.0, [(0.1, 1)], 1e-5, 1.0) == math.inf  # no valid epsilon is below
    assert mixed_epsilon(1.0, [(0.1, 500)], 1e-5, 100.0) == math.inf
    assert mixed_epsilon(1.0, [(1e200, 3)], 1e-5, math.inf) == math.inf
    assert mixed_epsilon(1.0, [(1e200, 3)], 1e-5, 1e250) == math.inf
    assert mixed_epsilon(0.0, [(0.1, 1)], 0.5, 0.1) == 0.0


def test_totals_of_gaussians_and_pure_releases_are_exact_without_convolution(monkeypatch):
    def refused(*_):
        raise AssertionError("the extra is not needed")

    monkeypatch.setattr("skdp.privacy.composition._pld_epsilon", refused)
    rng = np.random.default_rng(0)
    for _ in range(8):
        sigmas, pure = rng.uniform(0.5, 20.0, 3), rng.uniform(0.01, 1.0, 3)
        events = [GaussianEvent(s, RELATION) for s in sigmas]
        events += [PureEvent(e, RELATION) for e in pure]
        found = tightest_epsilon(ComposedEvent(events), 1e-6)
        mu = math.sqrt((sigmas**-2.0).sum())
        assert exact_delta(found, mu, list(pure)) <= 1e-6
        assert exact_delta(found * (1.0 - 1e-6), mu, list(pure)) > 1e-6
        gaussian = GaussianDPAccountant().compose(ComposedEvent(events[:3])).get_epsilon(1e-6)
        assert found < gaussian + PureAccountant().compose(ComposedEvent(events[3:])).total

"""Accounting of Poisson samples, and of sums over them under replace-one."""

import math

import numpy as np
import pytest
from exact_losses import (
    ADD_REMOVE,
    GAUSSIAN,
    PLD_MODULE,
    PURE,
    RELATIONS,
    REPLACE_ONE,
    under,
)
from scipy import stats
from scipy.optimize import brentq

from skdp.privacy.composition import import_convolution, tightest_epsilon
from skdp.privacy.events import (
    ComposedEvent,
    GaussianEvent,
    PoissonSampledSumEvent,
    PureEvent,
    RepeatedEvent,
)
from skdp.privacy.gaussian_dp import gaussian_delta

# --- Poisson sampling ------------------------------------------------------------------------


def sampled_sum(probability, noise, sensitivity=2.0, relation=REPLACE_ONE):
    """The noise is in units of what one record adds at most."""
    return PoissonSampledSumEvent(probability, GaussianEvent(noise / sensitivity, relation), noise)


def sampled_record(probability, noise):
    """The same under add/remove, where what one record adds is the sensitivity."""
    return sampled_sum(probability, noise, 1.0, ADD_REMOVE)


@pytest.mark.parametrize("relation", RELATIONS)
def test_sampling_is_dropped_where_it_is_trivial(relation):
    always, never = (sampled_sum(q, 2.0, 1.0, relation) for q in (1.0, 0.0))
    assert tightest_epsilon(always, 1e-6) == tightest_epsilon(GAUSSIAN, 1e-6)
    assert tightest_epsilon(never, 0.0) == 0.0


@pytest.mark.mostly("slow", 1)
@pytest.mark.parametrize(("probability", "sigma"), [(0.01, 0.8), (0.3, 2.0), (0.01, 10.0)])
def test_one_sampled_record_is_exact(probability, sigma):
    """Removing a record gives exactly q delta(log(1 + (e^epsilon - 1) / q))."""
    pytest.importorskip(PLD_MODULE)
    epsilon = tightest_epsilon(sampled_record(probability, sigma), 1e-6)

    def exact(epsilon):
        inner = math.log1p(math.expm1(epsilon) / probability)
        return probability * gaussian_delta(inner, 1.0 / sigma)

    assert exact(epsilon) <= 1e-6
    assert exact(0.99 * epsilon) > 1e-6


# --- sums over Poisson samples under replace-one -----------------------------------------------


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


@pytest.mark.mostly("slow", 1)
@pytest.mark.parametrize(("probability", "noise"), [(0.1, 2.0), (0.01, 1.0), (0.5, 0.7)])
def test_one_sampled_sum_is_exact(probability, noise):
    """What one record adds is half of the sensitivity of a sum without samples."""
    pytest.importorskip(PLD_MODULE)
    epsilon = tightest_epsilon(sampled_sum(probability, noise), 1e-5)
    assert sampled_sum_delta(probability, noise, epsilon) <= 1e-5
    assert sampled_sum_delta(probability, noise, 0.99 * epsilon) > 1e-5


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
    ("probability", "noise", "count", "relation"),
    [(0.01, 1.0, 1000, "ADD_OR_REMOVE_ONE"), (0.1, 3.0, 50, "REPLACE_ONE")],
)
def test_sampled_gaussians_against_dp_accounting(probability, noise, count, relation):
    """Sampled records under add/remove, and sums over them under replace-one."""
    dp_accounting = pytest.importorskip("dp_accounting")
    pld = pytest.importorskip(PLD_MODULE)
    theirs = dp_accounting.PoissonSampledDpEvent(probability, dp_accounting.GaussianDpEvent(noise))
    their_relation = dp_accounting.NeighboringRelation[relation]
    above = dp_accounting.pld.PLDAccountant(their_relation).compose(theirs, count).get_epsilon(1e-6)
    below = pld.from_gaussian_mechanism(
        noise, sampling_prob=probability, neighboring_relation=their_relation,
        pessimistic_estimate=False, use_connect_dots=False, value_discretization_interval=1e-3,
    ).self_compose(count)  # fmt: skip
    event = sampled_sum(probability, noise)
    if relation == "ADD_OR_REMOVE_ONE":
        event = sampled_record(probability, noise)
    ours = tightest_epsilon(RepeatedEvent(event, count), 1e-6)
    assert ours == pytest.approx(above, rel=1e-3)
    assert ours >= below.get_epsilon_for_delta(1e-6)
    if relation == "ADD_OR_REMOVE_ONE":
        renyi = pytest.importorskip("dp_accounting.rdp").RdpAccountant().compose(theirs, count)
        assert ours <= renyi.get_epsilon(1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("probability", "sensitivity"), [(0.01, 2.0), (1.0, 0.1)])
def test_a_small_sensitivity_may_beat_the_sampling(probability, sensitivity):
    event = sampled_sum(probability, 2.0, sensitivity)
    plain = tightest_epsilon(event.event, 1e-5)
    by_pair = tightest_epsilon(sampled_sum(probability, 2.0), 1e-5)
    # the smaller of the two bounds, whichever it is
    assert tightest_epsilon(event, 1e-5) == pytest.approx(min(plain, by_pair), rel=1e-3)
    assert tightest_epsilon(event, 1e-5) <= plain


@pytest.mark.parametrize("relation", RELATIONS)
def test_sampled_sums_without_dp_accounting_are_unsampled(relation, without_dp_accounting):
    sums = sampled_sum(0.1, 2.0, 2.0, relation)
    pure = under(relation, PURE)
    event, plain = (ComposedEvent([RepeatedEvent(part, 3), pure]) for part in (sums, sums.event))
    with pytest.raises(ImportError, match=r"skdp\[accounting\]"):
        import_convolution()
    assert tightest_epsilon(event, 1e-5) == tightest_epsilon(plain, 1e-5)


def test_sampled_sums_beyond_the_convolution_are_unsampled():
    event = sampled_sum(0.1, 2.0)
    for delta in (1e-14, 0.0):
        assert tightest_epsilon(event, delta) == tightest_epsilon(event.event, delta)
    for noise in (1e-2, 1e-200):
        loud = sampled_sum(0.1, noise)
        assert tightest_epsilon(loud, 1e-5) == tightest_epsilon(loud.event, 1e-5)
    always, never = sampled_sum(1.0, 2.0), sampled_sum(0.0, 2.0)
    assert tightest_epsilon(always, 1e-5) == tightest_epsilon(always.event, 1e-5)
    assert tightest_epsilon(never, 1e-5) == 0.0
    quiet = sampled_sum(0.1, 1e200)
    assert 0.0 <= tightest_epsilon(quiet, 1e-5) <= tightest_epsilon(quiet.event, 1e-5)


@pytest.mark.parametrize(
    "event",
    [
        ComposedEvent([PureEvent(1000.0, REPLACE_ONE), GAUSSIAN]),
        ComposedEvent([PURE, GaussianEvent(1e-3, REPLACE_ONE)]),
        ComposedEvent([PURE, sampled_sum(1e-5, 1e-4, 1.0)]),
        ComposedEvent([PURE, sampled_sum(1e-5, 1e-200, 1.0)]),
        ComposedEvent([PURE, sampled_sum(0.5, 1e155, 1.0)]),
        ComposedEvent([PURE, sampled_sum(0.5, 1e200, 1.0)]),
        ComposedEvent([PureEvent(1e-200, REPLACE_ONE), RepeatedEvent(PURE, 1000)]),
    ],
)
def test_extreme_events_have_a_bound(event):
    assert tightest_epsilon(under(ADD_REMOVE, event), 1e-2) > 0.0

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skdp.privacy.gaussian_dp import gaussian_delta, gaussian_epsilon, gaussian_mu, pure_mu

EPSILONS = st.floats(-6.0, 4.0).map(lambda power: 10.0**power)
DELTAS = st.floats(-30.0, -0.1).map(lambda power: 10.0**power)
MUS = st.floats(-8.0, 3.0).map(lambda power: 10.0**power)


@pytest.mark.parametrize("mu", [1e-12, 1e-3, 1.0, 10.0, 70.0])
def test_delta_at_zero_is_the_total_variation(mu):
    error = gaussian_delta(0.0, mu) / math.erf(mu / math.sqrt(8.0)) - 1.0
    assert -1e-15 <= error <= 2e-11


def test_ends_of_the_ranges():
    assert gaussian_delta(1.0, 0.0) == 0.0
    assert gaussian_delta(1.0, math.inf) == 1.0
    assert gaussian_delta(math.inf, 1.0) == 0.0
    assert gaussian_delta(0.0, 1e3) == 1.0
    assert 0.0 < gaussian_delta(1e4, 1.0) < 1e-300  # the exact value is no double; never zero
    assert 0.0 < gaussian_delta(1e4, 1e-300) < 1e-300
    for delta, mu in ((0.0, 1.0), (1e-6, math.inf), (1e-6, 1e200)):
        assert gaussian_epsilon(delta, mu) == math.inf
    for delta, mu in ((0.0, 0.0), (1.0, 5.0), (0.5, 0.1)):
        assert gaussian_epsilon(delta, mu) == 0.0
    assert pure_mu(0.0) == 0.0
    assert pure_mu(1e-300) == pytest.approx(math.sqrt(math.pi / 2.0) * 1e-300)
    assert pure_mu(1e300) == pytest.approx(2.0 * math.sqrt(2e300))


@given(DELTAS, MUS)
def test_epsilon_is_private_and_nearly_the_smallest(delta, mu):
    epsilon = gaussian_epsilon(delta, mu)
    assert gaussian_delta(epsilon, mu) <= delta
    if epsilon > 1e-6 * mu:
        assert gaussian_delta(epsilon * (1.0 - 1e-8), mu) > delta * (1.0 - 1e-8)


@given(EPSILONS, DELTAS)
def test_calibrated_noise_costs_no_more_than_its_budget(epsilon, delta):
    mu = gaussian_mu(epsilon, delta)
    cost = gaussian_epsilon(delta, mu)
    assert epsilon * (1.0 - 1e-6) - 1e-8 * mu * (1.0 + mu) <= cost <= epsilon


@pytest.mark.parametrize(
    ("delta", "mu"),
    [(1.0 - 1e-11, 8632.9), (1.0 - 1e-10, 50.0), (1.0 - 1e-13, 252.7), (1.0 - 2e-16, 2238.0),
     (3.7e-319, 0.0158), (1.3e-318, 1e-200)],
)  # fmt: skip
def test_epsilon_is_private_where_its_slack_is_not_enough(delta, mu):
    """Delta hardly depends on epsilon near 1, and has few digits near 0: the answer is checked."""
    epsilon = gaussian_epsilon(delta, mu)
    assert gaussian_delta(epsilon, mu) <= delta


NO_BUDGETS = [(0.0, 0.1), (math.inf, 0.1), (1.0, 0.0), (1.0, 1.0)]


@pytest.mark.parametrize("bad", [-1.0, math.nan])
def test_bad_arguments_are_refused(bad):
    for call in (
        lambda: gaussian_delta(bad, 1.0),
        lambda: gaussian_delta(1.0, bad),
        lambda: gaussian_epsilon(bad, 1.0),
        lambda: gaussian_epsilon(0.1, bad),
        lambda: gaussian_mu(bad, 0.1),
        lambda: gaussian_mu(1.0, bad),
        lambda: pure_mu(bad),
        *(lambda budget=budget: gaussian_mu(*budget) for budget in NO_BUDGETS),
    ):
        with pytest.raises(ValueError, match="must"):
            call()

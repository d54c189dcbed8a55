"""Reference numbers of the published algorithms (docs/theory/errata.md)."""

import math

import pytest

from skdp.algorithms.output.published import (
    lowy_gap,
    lowy_regularisation,
    zhang_minimisation_noise,
    zhang_saddle_noise,
    zhang_schedule,
)
from skdp.mechanisms import gaussian_noise_multiplier
from skdp.privacy import PrivacyBudget

BUDGET = PrivacyBudget(0.5, 1e-5)


def test_algorithm_1():
    assert zhang_minimisation_noise(BUDGET, 1.0, 0.1, 1000) == pytest.approx(0.3988659, abs=5e-8)


def test_algorithm_2():
    schedule = zhang_schedule(BUDGET, "alg2", 1.0, 1.0, 1000, 10)
    assert (schedule.n_phases, schedule.block_records) == (10, 100)
    mu = schedule.regularisation
    assert mu == pytest.approx(3.121619, abs=5e-7)
    first, last = (zhang_minimisation_noise(BUDGET, 1.0, mu * 2**k, 100) for k in (1, 10))
    assert first == pytest.approx(0.0638877, abs=5e-8)
    # sigma_1 / 2^9, rounded: 0.0638877 / 512 lies in [1.247805e-4, 1.247808e-4]
    assert last == pytest.approx(0.0638877 / 512, abs=1e-10)
    assert last == pytest.approx(1.247803e-4, rel=3e-6)


def test_algorithm_3():
    x, y = zhang_saddle_noise(BUDGET, 1.0, 0.1, 0.4, 1000)
    assert x == pytest.approx(0.8196737, abs=5e-8)
    assert y == pytest.approx(0.4098369, abs=5e-8)
    # the tight joint release: (2 + 2 r) Lam / n per unit of sqrt(mu), Lam = L / sqrt(mu)
    unit = gaussian_noise_multiplier(0.5, 1e-5) * 2.02 / math.sqrt(0.1) / 1000
    assert unit / math.sqrt(0.1) == pytest.approx(0.1420429, abs=5e-8)
    assert unit / math.sqrt(0.4) == pytest.approx(0.0710214, abs=5e-8)


def test_algorithm_4():
    schedule = zhang_schedule(BUDGET, "alg4", 1.0, 1.0, 1000, 10)
    mu = schedule.regularisation
    assert mu == pytest.approx(2.978375, abs=5e-7)
    first, last = (zhang_saddle_noise(BUDGET, 1.0, mu * 2**k, mu, 100)[0] for k in (1, 10))
    assert first == pytest.approx(0.1946017, abs=5e-8)
    # printed 8.600262e-3; 8.60026145e-3 rounds to one less in the last digit
    assert last == pytest.approx(8.600262e-3, abs=6e-10)


def test_convex_strongly_concave():
    schedule = zhang_schedule(BUDGET, "c-sc", 1.0, 1.0, 1000, 10)
    mu = schedule.regularisation
    assert mu == pytest.approx(2.675673, abs=5e-7)
    noise = zhang_saddle_noise(BUDGET, 1.0, 2 * mu, 0.2, 100, primal_only=True)[0]
    assert noise == pytest.approx(0.3855496, abs=5e-8)


@pytest.mark.parametrize(
    ("epsilon", "basic", "composed"), [(0.5, 13.94799, 9.944505), (1, 7.351149, 5.275910)]
)
def test_algorithms_4_and_5_together(epsilon, basic, composed):
    """Per-mechanism multiplier: half the budget each, and exact composition of two Gaussians."""
    half = gaussian_noise_multiplier(epsilon / 2, 0.5e-5)
    exact = math.sqrt(2) * gaussian_noise_multiplier(epsilon, 1e-5)
    assert half == pytest.approx(basic, rel=5e-7)
    assert exact == pytest.approx(composed, rel=5e-7)


def test_lowy_accuracies():
    """Class H: alpha = 1e-6 in the worked example; F, J and G by their formulas."""
    budget = PrivacyBudget(1.0)
    assert lowy_gap(budget, 20, 10_000, 1.0, 0.25, strong_convexity=0.01) == pytest.approx(1e-6)
    non_smooth = lowy_gap(budget, 20, 10_000, 1.0, math.inf, strong_convexity=0.01)
    assert non_smooth == pytest.approx(1e-6)  # L^2/(mu n) min(1/n, q), q = 20
    r = 20 / 10_000
    assert lowy_gap(budget, 20, 10_000, 1.0, math.inf, radius=2.0) == pytest.approx(
        2.0 * r**1.5 / 21**2
    )
    # L8: the minimum must be kept; in this regime it is the first term
    first = 2 ** (2 / 3) * 0.25 ** (-1 / 3) * 20 ** (-2 / 3) * 1e4 ** (-4 / 3)
    second = 0.25 ** (1 / 3) * 2 ** (4 / 3) * r ** (2 / 3)
    assert first < second
    assert lowy_gap(budget, 20, 10_000, 1.0, 0.25, radius=2.0) == pytest.approx(first)
    with pytest.raises(ValueError, match="must be given"):
        lowy_gap(budget, 20, 10_000, 1.0, 0.25)


def test_lowy_regularisation():
    budget = PrivacyBudget(1.0)
    r = 20 / 10_000
    smooth = lowy_regularisation(budget, 20, 10_000, 1.0, 0.25, 2.0)
    assert smooth == pytest.approx((0.25 / 4) ** (1 / 3) * r ** (2 / 3))
    rough = lowy_regularisation(budget, 20, 10_000, 1.0, math.inf, 2.0)
    assert rough == pytest.approx(1 / (2 * math.sqrt(1 + 1 / r)))


def test_published_noise_is_refused_without_a_proof():
    with pytest.raises(ValueError, match="epsilon < 1"):
        zhang_minimisation_noise(PrivacyBudget(1.0, 1e-5), 1.0, 0.1, 1000)
    with pytest.raises(ValueError, match="epsilon < 1"):
        zhang_saddle_noise(PrivacyBudget(2.0, 1e-5), 1.0, 0.1, 0.1, 1000)

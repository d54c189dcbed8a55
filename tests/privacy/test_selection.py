"""The price of the best of a random number of draws: against enumeration and published bounds."""

import math

import mpmath
import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import chisquare

from skdp.mechanisms import NoiseSource
from skdp.privacy.gaussian_dp import gaussian_delta, gaussian_epsilon
from skdp.privacy.selection import (
    DrawsLaw,
    selection_draw_epsilon,
    selection_epsilon,
    selection_mu,
    selection_pure_epsilon,
)

LAWS = [
    DrawsLaw(mean=mean, name=name)
    for name, mean in (("logarithmic", 3.0), ("geometric", 1.2), ("poisson", 12.0))
]


def of_best(law, chances):
    """Chances of outcomes to be the best draw, by enumeration; outcomes go from worst to best."""
    below = np.concatenate([[0.0], np.cumsum(chances)])
    k = np.arange(1, len(law.chances) + 1)
    return np.diff(np.power.outer(below, k) @ law.chances)


def gaussian_pairs(mu, law):
    """Chances of cells under N(mu, 1) and N(0, 1); those that speak against the first on top."""
    edges = np.linspace(-9.0, 9.0 + mu, 1202)
    edges[0], edges[-1] = -math.inf, math.inf
    cells = np.stack([np.diff(ndtr(edges - mu)), np.diff(ndtr(edges))])
    cell = np.arange(1201)
    yield from (cells, cells[:, ::-1], cells[:, np.argsort(np.abs(cell - 600))])
    for share in (0.1, 0.3, 1.0, 3.0):
        top = np.searchsorted(np.cumsum(cells[0]), share / (share + law.mean))
        yield cells[:, [*cell[top:], *cell[:top]]]


@pytest.mark.parametrize("law", LAWS, ids=str)
@pytest.mark.parametrize("mu", [0.1, 1.0])
def test_no_order_of_gaussian_outcomes_costs_more(law, mu):
    prices = {delta: selection_epsilon(delta, mu, law) for delta in (1e-6, 1e-3)}
    part, reached = 0.7 if law.name == "poisson" else 0.85, 0.0
    for pair in gaussian_pairs(mu, law):
        first, second = (of_best(law, cells) for cells in pair)
        for a, b in ((first, second), (second, first)):
            for delta, epsilon in prices.items():
                assert np.maximum(a - math.exp(epsilon) * b, 0.0).sum() <= delta * (1.0 + 1e-9)
                found = np.maximum(a - math.exp(part * epsilon) * b, 0.0).sum()
                reached = max(reached, found / delta)
    assert reached > 1.0  # such a part of the price would not be enough


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_no_pure_outcomes_cost_more_than_the_price_which_is_reached(law):
    """Pairs whose losses are all +-epsilon, cut into outcomes of any size, in any order."""
    rng = np.random.default_rng(5)
    epsilon, largest = 0.7, 0.0
    for _ in range(400):
        sizes = rng.integers(1, 5, 2)
        parts = [rng.dirichlet(np.full(size, rng.choice([0.2, 1.0]))) + 1e-5 for size in sizes]
        mass = [1.0 / (1.0 + math.exp(epsilon)), 1.0 / (1.0 + math.exp(-epsilon))]
        second = np.concatenate(
            [m * part / part.sum() for m, part in zip(mass, parts, strict=True)]
        )
        first = second * np.exp(epsilon * np.repeat([1.0, -1.0], sizes))
        order = rng.permutation(len(second))
        ratio = of_best(law, first[order]) / of_best(law, second[order])
        largest = max(largest, float(np.abs(np.log(ratio)).max()))
    price = selection_pure_epsilon(epsilon, law)
    assert 0.85 * price < largest <= price * (1.0 + 1e-9)


@pytest.mark.parametrize("shape, name", [(0, "logarithmic"), (1, "geometric")])
def test_price_against_the_formula_by_privacy_profiles(shape, name):
    """Koskela, Redberg and Wang, ICML 2024: their bound with the best loss, and the exact ratio."""
    law = DrawsLaw(mean=10.0, name=name)
    odds = (1.0 - law.parameter) / law.parameter
    published = min(
        (1 + shape) * math.log(math.exp(loss) + odds * gaussian_delta(loss, 0.5))
        + gaussian_epsilon(1e-6 / 10.0, 0.5)
        for loss in np.linspace(0.0, 3.0, 3001)
    )
    ours = selection_epsilon(1e-6, 0.5, law)
    ratio = max(  # by the trade-off itself: the exact largest ratio
        (law.parameter + (1.0 - law.parameter) * ndtr(x + 0.5))
        / (law.parameter + (1.0 - law.parameter) * ndtr(x))
        for x in np.linspace(-8.0, 8.0, 200_001)
    )
    exact = (1 + shape) * math.log(ratio) + gaussian_epsilon(1e-6 / 10.0, 0.5)
    assert ours == pytest.approx(exact, abs=1e-6)
    assert ours < published


@pytest.mark.parametrize("shape, name", [(0, "logarithmic"), (1, "geometric")])
def test_pure_price_tends_to_the_published_one(shape, name):
    many = selection_pure_epsilon(1.0, DrawsLaw(mean=500.0, name=name))
    assert 2.0 + shape - 0.01 < many < 2.0 + shape


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_law(law):
    k = np.arange(1, len(law.chances) + 1)
    assert law.chances.sum() == pytest.approx(1.0, abs=1e-12)
    assert law.chances @ k == pytest.approx(law.mean, rel=1e-9)
    source = NoiseSource(np.random.default_rng(1).bytes)
    drawn = [law.number(lambda p: bool(source.bernoulli(1, p)[0])) for _ in range(1500)]
    cut = 1 + int(np.searchsorted(np.cumsum(law.chances), 0.98))
    seen = np.bincount(np.minimum(drawn, cut), minlength=cut + 1)[1:]
    expected = np.append(law.chances[: cut - 1], law.chances[cut - 1 :].sum())
    assert chisquare(seen, expected * 1500 / expected.sum()).pvalue > 1e-6


def test_rounding_of_chances():
    """Against 40 digits: the proof allows 1e-11."""
    poisson = DrawsLaw(mean=500.0, name="poisson")
    numbers = [1, 10, 100, 400, 500, 600, len(poisson.chances)]
    with mpmath.workdps(40):
        rate = mpmath.mpf(poisson.parameter)
        exact = [rate**k / mpmath.factorial(k) / mpmath.expm1(rate) for k in numbers]
        found = [mpmath.mpf(float(poisson.chances[k - 1])) for k in numbers]
        errors = [abs(a / b - 1) for a, b in zip(found, exact, strict=True) if b > 1e-300]
    assert 0 < max(errors) < 1e-11


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_budgets_of_a_draw_are_the_largest(law):
    for epsilon in (0.1, 1.0, 20.0):
        mu = selection_mu(epsilon, 1e-6, law)
        assert 0.999999 * epsilon < selection_epsilon(1e-6, mu, law) <= epsilon
        one = selection_draw_epsilon(epsilon, law)
        assert 0.999999 * epsilon < selection_pure_epsilon(one, law) <= epsilon
    with pytest.raises(ValueError, match="too small"):
        selection_mu(1e-12, 1e-6, law)


@pytest.mark.parametrize("mean, name", [(1.0, "logarithmic"), (2000, "poisson"), (3, "fixed")])
def test_invalid_laws(mean, name):
    with pytest.raises(ValueError, match=r"mean|name"):
        DrawsLaw(mean=mean, name=name)

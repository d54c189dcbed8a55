"""Reference numbers of the published algorithms (docs/theory/errata.md)."""

import math

import pytest

from skdp.algorithms.output.published import (
    lowy_gap,
    lowy_regularisation,
    zhang_minimisation_noise,
    zhang_saddle_noise,
)
from skdp.privacy import PrivacyBudget


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

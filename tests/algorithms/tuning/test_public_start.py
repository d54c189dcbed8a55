"""The penalty that the published rule starts from: a closed form of public numbers."""

import numpy as np
import pytest

from skdp.algorithms.tuning import BilevelTuningPlan, TuningObjective
from skdp.mechanisms import calibrated_mechanism
from skdp.privacy import PrivacyBudget
from skdp.problems import HalfSquaredLoss, LogisticLoss, PenaltyGroups, Records

LOSSES = {"squared": HalfSquaredLoss(2.0), "logistic": LogisticLoss()}


def rows_of(n=5000, intercept=0.0, seed=0):
    return Records(np.random.default_rng(seed).standard_normal((n, 3)), 1.5, intercept)


def public_alpha(rows, loss, penalties, budget, *, coef_norm, share=1.0):
    return TuningObjective.of(rows, loss, penalties).public_alpha(budget, coef_norm, share)


def wide(width):
    return PenaltyGroups((0,) * width, (1.0,) * width, 1e-9, 1e9)


def test_closed_form():
    """``omega = (2 (2 R^2 r / (n mu))^2 / D0^2)^{1/3}`` with ``r = B + R D0`` (5.6)."""
    budget = PrivacyBudget(1.0, 1e-6)
    mu = 1.0 / calibrated_mechanism(budget, 1.0).noise_scale
    moved = 2 * 1.5**2 * (2.0 + 1.5 * 0.7) / (5000 * mu)
    rule = public_alpha(rows_of(), LOSSES["squared"], wide(3), budget, coef_norm=0.7)
    assert rule == pytest.approx((2 * moved**2 / 0.7**2) ** (1 / 3))


@pytest.mark.parametrize("delta", [1e-6, 0.0])
@pytest.mark.parametrize("loss", list(LOSSES))
def test_it_minimises_bias_plus_noise(loss, delta):
    budget, n, B = PrivacyBudget(0.5, delta), 5000, 0.7
    rule = public_alpha(rows_of(), LOSSES[loss], wide(3), budget, coef_norm=B, share=0.8)
    variance = calibrated_mechanism(budget, 1.0, share=0.8).mean_square(3) / 3
    slope = LOSSES[loss].lipschitz(1.5, B)

    def bound(alpha):
        whitened = 1.5**2 / alpha
        sensitivity = 2 * slope / 1.5 * np.sqrt(whitened) / n
        noise = LOSSES[loss].curvature / 2 * variance * sensitivity**2 * whitened
        return noise + alpha * B**2 / 2

    assert bound(rule) < min(bound(rule * 1.01), bound(rule / 1.01))


def test_bounds_and_intercept():
    budget = PrivacyBudget(1.0, 1e-6)
    loss = LOSSES["squared"]
    narrow = PenaltyGroups((0,) * 3, (1.0,) * 3, 1.0, 2.0)
    assert public_alpha(rows_of(), loss, narrow, budget, coef_norm=1.0) == 1.0
    high = PenaltyGroups((0,) * 3, (1.0,) * 3, 1e-9, 1e-8)
    assert public_alpha(rows_of(), loss, high, budget, coef_norm=1.0) == 1e-8
    # an intercept doubles the squared norm of whitened rows
    four = PenaltyGroups((0,) * 4, (1.0, 1.0, 1.0, 0.01), 1e-9, 1e9)
    pair = [
        public_alpha(rows, loss, penalties, budget, coef_norm=1e-9)
        for rows, penalties in ((rows_of(), wide(3)), (rows_of(intercept=0.15), four))
    ]
    assert pair[1] / pair[0] == pytest.approx(4 ** (1 / 3), rel=1e-6)
    for wrong in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(ValueError, match=f"coef_norm == {wrong}"):
            BilevelTuningPlan(
                objective=TuningObjective.of(rows_of(), loss, narrow),
                budget=budget,
                coef_norm=wrong,
            )

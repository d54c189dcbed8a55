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

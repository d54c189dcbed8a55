"""Tuning by bilevel optimisation: budget, public plan, path, quality."""

import numpy as np
import pytest
import scipy.sparse as sp
from plain_noise import seeded
from tuning_attacks import records
from tuning_runs import tune

from skdp.algorithms import Run
from skdp.algorithms.tuning import bilevel as route
from skdp.algorithms.tuning.bilevel import BilevelTuningPlan, FinalFitPlan
from skdp.algorithms.tuning.objective import TuningObjective
from skdp.mechanisms import GaussianMechanism, calibrated_mechanism
from skdp.privacy import PrivacyBudget
from skdp.problems import HalfSquaredLoss, LogisticLoss, PenaltyGroups, Records

pytestmark = pytest.mark.usefixtures("kept_order")

BUDGET = PrivacyBudget(1.0, 1e-6)
RIDGE, LOGISTIC = HalfSquaredLoss(1.0), LogisticLoss()


def data(loss, n=2000, d=4, seed=0, sparse=False, slope=1.5, intercept=0.1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    signal = slope * X[:, 0]
    if loss.is_quadratic:
        t = np.clip(signal + 0.2 * rng.normal(size=n), -1, 1)
    else:
        t = (rng.uniform(size=n) < 1 / (1 + np.exp(-4 * signal))) * 1.0
    return Records(sp.csr_matrix(X) if sparse else X, 1.0, intercept), t


def groups_of(q, d=4, intercept=True, low=1e-6):
    groups = tuple(j % q for j in range(d)) + ((0,) if intercept else ())
    return PenaltyGroups(groups, (1.0,) * d + ((0.01,) if intercept else ()), low, 10.0)


@pytest.mark.parametrize("loss", [RIDGE, LOGISTIC], ids=["ridge", "logistic"])
def test_follows_the_data(loss, monkeypatch):
    """With a huge budget: a weaker penalty where there is a signal, a stronger one without."""
    monkeypatch.setattr(BilevelTuningPlan, "start_alpha", 0.1)
    budget = PrivacyBudget(1e4, 1e-6)
    alphas = []
    for slope in (1.5, 0.0):
        rows, t = data(loss, slope=slope)
        tuned = tune(
            BilevelTuningPlan, rows.with_targets(t), loss, groups_of(1), budget,
            run=Run(noise=seeded(0)),
        )  # fmt: skip
        alphas.append(float(tuned.alpha[0]))
    assert alphas[0] < 0.05
    assert alphas[1] > 0.2


def test_alphas_out_of_range_of_the_penalty_are_refused_before_a_release(monkeypatch):
    """The public start is within range, values of alpha that noisy steps could reach are not."""
    monkeypatch.setattr(GaussianMechanism, "release", None)
    rows, t = data(LOGISTIC, n=50)
    penalties = PenaltyGroups((0,) * 5, (1.0,) * 5, 1e-60, 5e-52)
    with pytest.raises(ValueError, match="penalty"):
        tune(BilevelTuningPlan, rows.with_targets(t), LOGISTIC, penalties, BUDGET)


LOSS = HalfSquaredLoss(1.0)


def test_bilevel_gradients_have_the_slopes_of_the_cost_of_noise():
    rows, t = records("squared")
    penalties = PenaltyGroups((0, 0, 1, 1, 0), (1.0,) * 5, 1e-4, 10.0)
    budget = PrivacyBudget(1.0, 1e-6)
    objective = TuningObjective.of(rows, LOSS, penalties)
    plan = BilevelTuningPlan(objective=objective, budget=budget)
    problem = route.NoiseAwareProblem(rows.with_targets(t), plan)

    def cost(logs):
        return FinalFitPlan(
            objective=objective, alpha=np.exp(logs), budget=budget, share=0.8
        ).noise_cost

    x, step = np.log([0.3, 0.1]), 1e-3
    slopes = [(cost(x + step * e) - cost(x - step * e)) / (2 * step) for e in np.eye(2)]
    y, y_lam = np.random.default_rng(0).normal(size=(2, 5))
    gradient = problem.hypergradient(x, y, y_lam, 3.0)
    plain = 3.0 * problem.lower_difference_x(x, y, y_lam)
    np.testing.assert_allclose(gradient - plain, slopes, rtol=1e-4, atol=1e-10)
    assert np.abs(slopes).max() > 1e-3


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

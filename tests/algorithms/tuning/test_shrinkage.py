"""The core with a shrinkage by group: what groups and bounds do, and what is said of it."""

import numpy as np
import pytest
from scipy.special import expit

from skdp.algorithms import Run
from skdp.algorithms.core import size as sizes
from skdp.algorithms.core.fit import plan_core
from skdp.algorithms.tuning.objective import TuningObjective
from skdp.algorithms.tuning.shrinkage import plan_shrinkage
from skdp.mechanisms import NoiseSource
from skdp.privacy import PrivacyBudget
from skdp.privacy.gaussian_dp import gaussian_mu
from skdp.problems import (
    EmpiricalRisk,
    HalfSquaredLoss,
    LogisticLoss,
    Objective,
    OneVsRestLoss,
    PenaltyGroups,
    Records,
    SoftmaxLoss,
    SquaredHingeLoss,
)

LOSSES = {"squares": HalfSquaredLoss(1.0), "two": LogisticLoss(), "three": SoftmaxLoss(3)}
every_loss = pytest.mark.parametrize("name", LOSSES)
BUDGET = PrivacyBudget(1.0, 1e-6)


def table(name, n=6000, d=12, seed=0):
    """Off-centre rows; the second half of the features has no effect."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) / (2.0 * np.sqrt(d)) + 0.3 / np.sqrt(d)
    weights = np.where(np.arange(d) < d // 2, 1.0, 0.0)
    margins = 2.0 * (X - X.mean(axis=0)) @ weights
    y = np.clip(0.3 * margins + 0.1 * rng.standard_normal(n), -1.0, 1.0)
    if name == "two":
        y = (rng.random(n) < expit(2.0 * margins + 0.5)).astype(float)
    if name == "three":
        y = np.digitize(margins + 0.5 * rng.logistic(size=n), [-0.4, 0.6])
    return Records(X, 1.0, 0.3, targets=y)


def fitted(name, data=None, groups=None, low=1e-30, high=1e30, epsilon=1.0):
    data = table(name) if data is None else data
    d, k = data.width - 1, max(groups or (0,)) + 1
    members = (*(groups or (0,) * d), 0 if k == 1 else k)
    penalties = PenaltyGroups(members, (1.0,) * d + (0.09,), low, high)
    objective = TuningObjective.of(data, LOSSES[name], penalties)
    plan = plan_shrinkage(objective, gaussian_mu(epsilon, 1e-6))
    return plan, plan.run(data, Run(noise=NoiseSource(np.random.default_rng(0).bytes)))


def parts(result, n_features=12):
    """Coefficients of features, and intercepts."""
    point = result.point.reshape(-1, n_features + 1)
    return point[:, :-1], point[:, -1]


@every_loss
def test_of_one_group_it_is_the_core(name):
    data = table(name)
    plan, result = fitted(name, data)
    objective = Objective(EmpiricalRisk(LOSSES[name]), plan.objective.design)
    core = plan_core(objective, BUDGET)
    assert plan.event == core.event == result.plan.event
    plain = core.run(data, Run(noise=NoiseSource(np.random.default_rng(0).bytes)))
    np.testing.assert_allclose(result.point, plain.point, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(result.noise.coef(), plain.noise.coef(), rtol=1e-9)
    assert result.alpha == pytest.approx(plain.plan.to_dict()["alpha"])
    assert result.path.tolist() == [result.alpha.tolist()]


@every_loss
def test_groups_are_shrunk_by_their_own_noise(name, monkeypatch):
    """Those without an effect nearly to 0, and their noise with them; nothing else is released."""
    monkeypatch.setattr(sizes, "_ALL", 1.0)
    groups = (0,) * 6 + (1,) * 6
    plan, result = fitted(name, groups=groups)
    one, whole = fitted(name)
    assert plan.event == one.event
    assert result.alpha.shape == (2,) and result.alpha[1] > 10.0 * result.alpha[0]
    (ours, _), (usual, _) = parts(result), parts(whole)
    assert np.linalg.norm(ours[:, 6:]) < 0.7 * np.linalg.norm(usual[:, 6:])
    assert np.linalg.norm(ours[:, :6]) > 0.9 * np.linalg.norm(usual[:, :6])
    ratios = result.noise.coef() / whole.noise.coef()
    assert ratios[:, 6:].max() < 0.7 and ratios[:, :6].min() > 0.9
    assert result.noise.margins.average_row < whole.noise.margins.average_row


def test_groups_of_nothing_but_noise():
    """Where no group is above its noise all have the same factor, and alpha is finite."""
    plan, _ = fitted("squares", groups=(0,) * 6 + (1,) * 6)
    signal, factors = plan._parts(np.full((1, 12), 1e-3), 1.0)
    assert signal.tolist() == [0.0, 0.0] and factors.tolist() == [1.0, 1.0]
    rng = np.random.default_rng(0)
    noise = Records(rng.uniform(-0.2, 0.2, (60, 12)), 1.0, 0.3, targets=rng.uniform(-1, 1, 60))
    _, result = fitted("squares", noise, groups=(0,) * 6 + (1,) * 6, epsilon=0.01)
    assert np.isfinite(result.alpha).all() and np.isfinite(result.point).all()


def test_norms_are_kept():
    """Factors are those of what is no noise; the norm of all weights is that of before."""
    plan, _ = fitted("squares", groups=(0,) * 6 + (1,) * 6)
    weights = np.repeat([[2.0, 1.0]], 6, axis=1).reshape(1, 12)
    signal, factors = plan._parts(weights, 0.5)
    np.testing.assert_allclose(signal, [1.0 - 0.5 / 4.0, 0.5])
    assert factors[0] / factors[1] == pytest.approx(signal[0] / signal[1])
    assert np.linalg.norm(weights * factors.repeat(6)) == pytest.approx(np.linalg.norm(weights))


@every_loss
def test_bounds_shrink_and_nothing_enlarges(name):
    """A large lower bound leaves the constant, a small upper bound all."""
    data = table(name)
    _, free = fitted(name, data)
    all_of_it, nothing = (fitted(name, data, low=low, high=2.0 * low)[1] for low in (1e-9, 1e6))
    assert [float(each.alpha[0]) for each in (all_of_it, nothing)] == [2e-9, 1e6]
    np.testing.assert_allclose(all_of_it.point, free.point, rtol=1e-6, atol=1e-9)
    shares = np.bincount(data.targets.astype(int)) / len(data.targets)
    coef, offset = parts(nothing)
    assert np.abs(coef).max() < 1e-3 * np.abs(free.point).max()
    scores = LOSSES[name].class_weights(offset[:, None]) * 0.3 if name != "squares" else 0.0
    if name == "squares":
        assert offset[0] * 0.3 == pytest.approx(data.targets.mean(), abs=0.02)
    elif name == "two":
        assert expit(0.3 * offset[0]) == pytest.approx(shares[1], abs=0.03)
    else:
        p = np.exp(scores[:, 0])
        np.testing.assert_allclose(p / p.sum(), shares, atol=0.03)


def test_what_has_no_proof_is_refused():
    data = table("squares")
    penalties = PenaltyGroups((0,) * 13, (1.0,) * 13, 1e-6, 1.0)
    for loss in (SquaredHingeLoss(), OneVsRestLoss(SquaredHingeLoss(), 3)):
        with pytest.raises(ValueError, match="method='gradient' tunes penalties of"):
            plan_shrinkage(TuningObjective.of(data, loss, penalties), 1.0)

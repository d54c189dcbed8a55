"""Laws of normal margins, planned steps, and models of odd tables."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import expit, log_softmax, softmax
from sklearn.linear_model import LogisticRegression

from skdp import DPLogisticRegression, DPRidge
from skdp.algorithms.core import post
from skdp.algorithms.core.fit import plan_core_of
from skdp.algorithms.core.margin_laws import ROW, Balance, odds, squares
from skdp.algorithms.core.steps import Steps, plan_steps
from skdp.privacy import Neighbouring
from skdp.problems import Design, EmpiricalRisk, HalfSquaredLoss, Objective, SoftmaxLoss

SHARES = {"equal": [0.5, 0.5], "rare": [0.97, 0.03], "three": [0.5, 0.3, 0.2]}


def drawn(shares, deviation, n=200_000):
    """Normal directions and the true probabilities of their margins."""
    rng, balance = np.random.default_rng(0), Balance(np.array(shares))
    g = rng.standard_normal((n, len(shares) - 1))
    base = balance.base(deviation * np.eye(len(shares) - 1), balance.start)
    return balance, g, softmax((base + deviation * g) @ balance.basis.T, axis=1)


@pytest.mark.parametrize("name", SHARES)
def test_the_base_leaves_mean_probabilities(name):
    # the standard error of a mean of 200,000 probabilities is below .001; several classes have few
    # nodes for large deviations
    for deviation, error in ((0.3, 0.002), (1.0, 0.004), (3.0, 0.02)):
        found = drawn(SHARES[name], deviation)[2].mean(axis=0)
        assert found == pytest.approx(SHARES[name], abs=error)


@pytest.mark.parametrize("name", ["rare", "three"])
def test_the_best_size_minimises_the_expected_loss(name):
    """The size for a correlation below 1, against a search on draws."""
    law, correlation = odds(np.array(SHARES[name])), 0.6
    row = int(np.argmin(np.abs(law.deviations - 1.5)))
    t = float(law.deviations[row])
    balance, g, p = drawn(SHARES[name], t, 60_000)
    k = g.shape[1]
    seen = correlation * g + 0.8 * np.random.default_rng(1).standard_normal(g.shape)

    def loss(size):
        base = balance.base(size * np.eye(k), balance.start)
        logs = log_softmax((base + size * seen) @ balance.basis.T, axis=1)
        return -float((p * logs).sum(axis=1).mean())

    best = minimize_scalar(loss, bounds=(0.0, 3.0), method="bounded").x
    assert law.best(np.full((len(law.deviations), 1), correlation))[row, 0] == pytest.approx(
        best, rel=0.06
    )


@pytest.mark.parametrize(("name", "true_size", "s"), [("three", 1.0, 0.6), ("equal", 0.2, 1.5)])
def test_pulls_are_means_of_clipped_residuals(name, true_size, s):
    law, clip = odds(np.array(SHARES[name])), 0.6
    row = int(np.argmin(np.abs(law.deviations - true_size)))
    balance, g, true = drawn(SHARES[name], float(law.deviations[row]), 100_000)
    at = balance.start
    for _ in range(12):  # the constant where clipped residuals have the mean 0
        p = softmax((at + s * g) @ balance.basis.T, axis=1)
        residuals = p[:, None, :] - np.eye(p.shape[1])
        lengths = np.linalg.norm(residuals, axis=2, keepdims=True)
        residuals = residuals * np.minimum(1.0, clip / ROW / lengths)
        mean = np.einsum("ny,nyj->nj", true, residuals) @ balance.basis
        at = at - 4.0 * mean.mean(axis=0)
    pull = float((g * mean).sum(axis=1).mean()) / g.shape[1]
    found = law.pulled(clip)(np.full((len(law.deviations), 1), s))[row, 0]
    assert found == pytest.approx(pull, abs=0.01 * abs(law.pull(clip)[row, 0]) + 0.003)


def test_pulls_of_squares_are_those_of_normal_residuals():
    law, clip = squares(), 0.8
    rng, row = np.random.default_rng(3), 12
    t, s = float(law.deviations[row]), 0.3
    g, e = rng.standard_normal((2, 400_000))
    residuals = np.clip(s * g - (t * g + np.sqrt(1 - t * t) * e), -clip / ROW, clip / ROW)
    found = law.pulled(clip)(np.full((24, 1), s))[row, 0]
    assert found == pytest.approx(float((g * residuals).mean()), abs=0.005)


@pytest.mark.parametrize("momentum", [0.0, 0.8])
def test_noise_in_the_mean_iterate_is_exact(momentum):
    steps = Steps(0.6, 0.2, 10, 1.0, 0.2, 12, 0.7, momentum)
    curvature, found = 0.3, []
    for j in range(12):
        weight = change = total = 0.0
        for step in range(12):
            change = momentum * change - 0.7 * (curvature * weight - (step == j))
            weight += change
            total += weight / 12
        found.append(total)
    assert steps.responses(np.array([curvature]))[:, 0] == pytest.approx(found, rel=1e-12)
    assert steps.parts.sum() == pytest.approx(1.0, rel=1e-12)
    assert (steps.parts > 0.0).all()


def test_the_constant_follows_the_margins_of_rare_classes():
    """Margins of 7 % positives are on average at least 1 / 1.6 of the best ones."""
    rng = np.random.default_rng(0)
    X, w = rng.standard_normal((20_000, 10)), rng.standard_normal(10)
    y = rng.random(20_000) < expit(4.0 * X @ w / np.linalg.norm(w) - 6.5)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    factors = []
    for seed in range(6):
        fit = models(2, epsilon=0.3, random_state=seed).fit(X[:8_000], y[:8_000].astype(int))
        margins = fit.decision_function(X[8_000:])[:, None]
        factors.append(LogisticRegression(C=1e6).fit(margins, y[8_000:]).coef_[0, 0])
    assert 0.9 < np.mean(factors) < 1.6


def test_rounds_of_numbers_are_as_long_as_their_range_allows():
    objective = Objective(
        risk=EmpiricalRisk(HalfSquaredLoss(1.0)),
        design=Design(feature_norm=1.0, width=3, n_records=10**6),
        neighbouring=Neighbouring.REPLACE_ONE,
    )
    plan, means = plan_core_of(objective, 1.0), []
    for deviation in (0.01, 0.5):
        means.append(replace(plan.numbers.means, mean=0.2, deviation=deviation))
    assert [plan.sum_of_round(each).size for each in means] == [10.0, pytest.approx(2.4)]


@pytest.mark.parametrize("n", [10, 1_000, 10**9])
@pytest.mark.parametrize("n_classes", [0, 2, 3])
def test_plans_are_finite(n_classes, n):
    law = odds(np.full(n_classes, 1.0 / n_classes)) if n_classes else squares()
    for mu in (1e-6, 0.3, 1e3):
        steps = plan_steps(law, n_classes, 7, n, 2.0 / (n * mu))
        assert 10 <= steps.n_steps <= 150
        assert 0.0 <= steps.momentum < 1.0
        assert np.isfinite([steps.variance, steps.size, steps.bend]).all()


def models(n_classes, **options):
    shared = {"delta": 1e-6, "data_norm": 1.0, "method": "gradient", "random_state": 0, **options}
    if n_classes:
        return DPLogisticRegression(classes=range(n_classes), **shared)
    return DPRidge(target_range=(-1, 1), **shared)


def test_the_mean_of_skewed_targets_is_right():
    # exponential targets, of whose slopes many are clipped; means of fits have a standard error of
    # .011 deviations at epsilon 1, by the noise of the released mean, and of .0005 at 100
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (20_000, 3))
    y = np.clip(rng.exponential(0.1, 20_000) * np.exp(X[:, 0]) - 1.0, -1.0, 1.0)
    for epsilon, n_fits, error in ((1.0, 6, 0.033), (100.0, 2, 0.002)):
        fits = (models(0, epsilon=epsilon, random_state=seed).fit(X, y) for seed in range(n_fits))
        means = [fit.predict(X).mean() for fit in fits]
        assert abs(np.mean(means) - y.mean()) < error * y.std()


@pytest.mark.parametrize("deviation", [0.5, 1.5])
def test_noise_of_many_classes_is_about_what_all_matrices_tell(deviation, monkeypatch):
    shares = np.full(16, 1.0 / 16)
    steps = plan_steps(odds(shares), 16, 10, 8_000, 2e-3)
    given = np.zeros(15), deviation**2 * np.eye(15), 1.0, 1.0
    about = post.step_variances(SoftmaxLoss(16), steps, *given)
    monkeypatch.setattr(post, "CLASSES", 100)
    exact = post.step_variances(SoftmaxLoss(16), steps, *given)
    assert about.shape == exact.shape == (15,)
    # curvatures are those of typical margins: where these are small noise is overstated
    assert np.abs(np.log(about / exact)).max() < 2.0 * np.log(1.4)

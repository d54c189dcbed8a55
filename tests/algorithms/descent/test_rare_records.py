"""Directions that few records have: noise that nothing holds back is bounded by the floor."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from descent_plans import ADD, REPLACE, objective, plain_plan, plan_of
from plain_noise import Silent

from skdp.algorithms.descent.shares import expected_reliability, reliability
from skdp.algorithms.descent.steps import Descent
from skdp.algorithms.preparation.centered_rows import Centering
from skdp.algorithms.preparation.second_moments import Preconditioner
from skdp.linear_model import DPLogisticRegression, DPRidge
from skdp.privacy import PrivacyBudget
from skdp.privacy.gaussian_dp import gaussian_mu
from skdp.problems import (
    Design,
    EmpiricalRisk,
    HalfSquaredLoss,
    LogisticLoss,
    Objective,
    Records,
    SoftmaxLoss,
    huber_loss,
)
from skdp.robust import DPMaxGroupLossClassifier, DPMaxGroupLossRegressor


def test_a_floor_raises_small_values_alone():
    rng = np.random.default_rng(0)
    vectors, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    values = np.array([0.01, 0.2, 3.0])
    preconditioner = Preconditioner(vectors=vectors, values=values, of_columns=values)
    for floor, values in ((0.0, [0.01, 0.2, 3.0]), (0.1, [0.1, 0.2, 3.0]), (5.0, [5.0] * 3)):
        exact = np.linalg.inv(vectors @ np.diag(values) @ vectors.T)
        np.testing.assert_allclose(preconditioner.matrix(floor), exact, rtol=1e-9, atol=1e-12)


def unheld(plan, value, unit):
    """Noise of a unit row's margin along a direction without curvature, from the schedule."""
    weights = plan.schedule.noise_weights(np.zeros(1))[:, 0]
    deviations = plan.schedule.multipliers * plan.sensitivity * plan.n_blocks
    deviations /= plan.objective.design.n_records
    return float(np.linalg.norm(weights * deviations)) / max(value, plan.floor) / unit


@pytest.mark.parametrize("factor", [1.0, 1.5])
@pytest.mark.parametrize(
    ("loss", "limit"),
    [
        (LogisticLoss(), 1.0),
        (SoftmaxLoss(4), 1.0),
        (HalfSquaredLoss(2.0), 1.5),
        (huber_loss(2.0, 0.5), 1.5),
    ],
    ids=["binary", "classes", "squares", "huber"],
)
@pytest.mark.parametrize(("n", "epsilon"), [(16_000, 1.0), (100_000, 3.0)])
def test_noise_moves_no_margin_further_than_planned(loss, limit, n, epsilon, factor):
    """In any direction; and in those at the floor about as far, not much less."""
    plan = replace(plan_of(loss, n, 4, epsilon, 1e-6), largest_factor=factor)
    if loss.n_margins == 1:
        plan = replace(plan, slowness=2.37)
    assert plan.is_preconditioned and plan.floor > 0.0
    unit, bound = 1.0, limit * (1.0 if factor == 1.0 else 0.5)
    if loss.target_bound:
        plan = replace(plan, target_variance=0.02)
        unit = 2.0 * math.sqrt(0.02)
    for value in (1e-9, 0.1 * plan.floor, plan.floor, 3.0 * plan.floor):
        assert unheld(plan, value, unit) <= 1.25 * bound
    assert unheld(plan, 0.0, unit) >= 0.5 * bound
    margin = plan._steps.path * plan.sensitivity * math.sqrt(plan.n_blocks) / (n * plan.mu)
    assert plan.floor == pytest.approx(0.5 * margin / unit / bound, rel=1e-9)


@pytest.mark.parametrize(
    ("loss", "n", "epsilon", "limit"),
    [
        (LogisticLoss(), 500, 0.1, 2.0),  # what the damping of log odds is
        (SoftmaxLoss(4), 500, 0.3, 2.0),
        (HalfSquaredLoss(2.0), 500, 1.0, 0.75),
        (HalfSquaredLoss(2.0), 4_000, 0.1, 0.75),
    ],
)
def test_noise_of_plain_steps_is_bounded_in_every_direction(loss, n, epsilon, limit):
    plan = plain_plan(objective(loss, n, 12), PrivacyBudget(epsilon, 1e-6))
    assert not plan.is_preconditioned
    unit = 1.0
    if loss.target_bound:
        plan = replace(plan, target_variance=0.02)
        unit = 2.0 * math.sqrt(0.02)
    assert unheld(plan, 1.0, unit) <= 1.25 * limit
    least = replace(plan, damping=0.01) if loss.target_bound else plan
    path = least._horizon * plan.rate * plan.sensitivity / plan.mu / n
    assert 0.5 * path / unit == pytest.approx(limit, rel=0.05)


def test_floor_of_rare_records_in_the_default_plan():
    plan = replace(plan_of(LogisticLoss(), 16_000, 4, 1.0, 1e-6), slowness=2.37)
    sensitivity, mu = 2.0 * plan.clip, plan.mu
    expected = 0.5 * plan.schedule.path * sensitivity * math.sqrt(2) / (mu * 16_000)
    assert plan.n_blocks == 2 and plan.floor == pytest.approx(expected, rel=1e-12)
    assert 0.1 < plan.floor < 0.12
    assert plan.mu < gaussian_mu(1.0, 1e-6)
    assert plan._amplified == pytest.approx(1.0 / (0.25 + plan.ridge), rel=1e-12)
    for share, part in ((0.3, 1.0), (0.1, 0.72**0.5), (0.02, 0.1568**0.5), (1e-3, 0.1568**0.5)):
        assert replace(plan, rarer_share=share).floor == pytest.approx(part * plan.floor)
    rare = replace(plan, rarer_share=0.1)
    assert replace(rare, largest_factor=2.0).floor == replace(plan, largest_factor=2.0).floor
    high = replace(plan, largest_factor=10.0)
    assert high._amplified == pytest.approx(1.0 / high.floor, rel=1e-12)


def known_columns(plan, centering, of_columns):
    """A descent with released moments of columns and means of rows, beside the constant."""
    values = np.array([1e-6, 1e-6, 0.1, 0.2, 1e-6])
    known = Preconditioner(vectors=np.eye(5), values=values, of_columns=np.append(of_columns, 0.0))
    rows = SimpleNamespace(centering=centering)
    return Descent(plan=plan, rows=rows, offsets=np.zeros(1), preconditioner=known)


@pytest.mark.parametrize("relation", [REPLACE, ADD])
@pytest.mark.parametrize("loss", [LogisticLoss(), HalfSquaredLoss(2.0)], ids=["odds", "squares"])
def test_weights_are_kept_by_the_records_of_their_columns(loss, relation):
    """Half of it from 3 (1.5) / mu records on, and 3 more of log odds; all far beyond noise."""
    plan, n = plan_of(loss, 16_000, 4, 10.0, 1e-6, relation), 16_000
    sampled, error = 3.0 * loss.has_odds, plan.moments.sum.deviation / n
    half = math.hypot(1.5 * relation.n_changes / plan.mu, sampled) / n
    unknown = replace(Centering.unknown(4, 1), errors=(1.0, 1.0))
    columns = half * np.array([0.0, -1.0, 1.0, 3.0])
    descent = known_columns(plan, unknown, columns)
    noise = np.array([unheld(plan, value, 1.0) for value in descent.preconditioner.values])[:4]
    few = sampled / n / (np.maximum(columns, 0.0) + error)
    parts = expected_reliability(columns, error, half)
    for factor, beyond in ((1e-6, 0.0), (2.0, 0.0), (4.0, 0.75), (40.0, 0.9975)):
        kept = descent.reliability(factor * np.append(np.hypot(noise, few), 1.0)[None, :])[0]
        np.testing.assert_allclose(kept, [*np.maximum(parts, beyond), 1.0], rtol=1e-6)
    # of squares by means of rows, too, in units of the data norm
    means = half * np.array([-1.5, 0.5, 0.2, 4.5])
    moved = replace(unknown, mean=means, scale=0.5, errors=(half, 1.0))
    kept = known_columns(plan, moved, columns).reliability(np.full((1, 5), 1e-9))[0]
    if loss.target_bound:
        by_means = expected_reliability(means, 0.5 * half, half, is_signed=True)
        assert (by_means > parts)[0] and (by_means > parts)[3]
        parts = np.maximum(parts, by_means)
    np.testing.assert_allclose(kept, [*parts, 1.0], rtol=1e-6)
    plain = replace(descent, preconditioner=None)
    np.testing.assert_array_equal(plain.reliability(np.ones((1, 5))), np.ones((1, 5)))


def test_without_noise_half_is_kept_at_half():
    values = np.geomspace(0.1, 10.0, 7)
    exact = values**2 / (1.0 + values**2)
    np.testing.assert_allclose(expected_reliability(values, 0.1, 1.0), exact, atol=0.05)
    both = expected_reliability(np.append(values, -values), 0.1, 1.0, is_signed=True)
    np.testing.assert_allclose(both, np.append(exact, exact), atol=0.05)
    assert (expected_reliability(-values, 0.1, 1.0) < 0.01).all()
    for extreme in (np.full(3, 1e300), np.full(3, -1e300), np.zeros(3)):
        assert np.isfinite(expected_reliability(extreme, 1.0, 1e-9)).all()


@pytest.mark.parametrize("is_signed", [False, True])
@pytest.mark.parametrize("law", [(0.0,), (0.3, 0.3, 8.0), (6.0,)])
def test_what_is_kept_is_nearer_to_the_truth_than_by_the_noisy_number_alone(law, is_signed):
    """The noise is 2.7 times the moment where half is kept, as with 3 % of the budget."""
    rng, errors = np.random.default_rng(0), []
    for _ in range(20):
        truth = rng.choice(law, 20) * (rng.choice([-1.0, 1.0], 20) if is_signed else 1.0)
        noisy = truth + 2.7 * rng.normal(size=20)
        alone = np.abs(noisy) if is_signed else np.maximum(noisy, 0.0)
        exact = reliability(truth, 1.0)
        found = expected_reliability(noisy, 2.7, 1.0, is_signed)
        errors.append([((kept - exact) ** 2).mean() for kept in (found, reliability(alone, 1.0))])
    ours, its = np.mean(errors, axis=0)
    assert ours < 0.9 * its


@pytest.mark.parametrize("n_features", [1, 4])
def test_a_column_has_as_many_records_as_its_mean_needs(n_features):
    """Rows of norm 1: at least n |m_j| of them are not 0 in column j, and one-hot ones attain it.

    A search for columns with a larger mean, over laws of few and of many records.
    """
    rng, n = np.random.default_rng(0), 500
    for _ in range(200):
        share, power = rng.random(n_features) ** 3, rng.exponential(2.0)
        X = rng.choice([-1.0, 1.0], (n, n_features)) * rng.random((n, n_features)) ** power
        X *= rng.random((n, n_features)) < share
        X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1.0)
        assert ((X != 0.0).sum(axis=0) >= n * np.abs(X.mean(axis=0)) - 1e-9).all()
    X = np.eye(n_features)[rng.integers(0, n_features, n)]
    np.testing.assert_allclose((X != 0.0).sum(axis=0), n * X.mean(axis=0))


@pytest.mark.parametrize(
    ("loss", "power"),
    [(LogisticLoss(), 0.0), (SoftmaxLoss(3), 0.0), (HalfSquaredLoss(2.0), 0.5)],
    ids=["binary", "classes", "squares"],
)
def test_plain_paths_are_shorter_where_rows_may_be_far_from_the_mean(loss, power):
    rng, k = np.random.default_rng(0), max(2, loss.n_outputs + 1)
    X = np.full((400, 3), [0.8, 0.0, 0.0]) + rng.uniform(-0.1, 0.1, (400, 3))
    targets = rng.integers(0, k, 400).astype(float if loss.n_margins == 1 else int)
    records = Records(X, 1.0, 0.1, targets=targets)
    goal = Objective(EmpiricalRisk(loss), Design.of(records))
    plan = plain_plan(goal, PrivacyBudget(0.5, 1e-6))
    descent = plan.prepare(records, Silent())
    done, centering = descent.plan, descent.rows.centering
    # the first feature axis alone has a mean: the others are at a right angle to it
    farthest = np.linalg.norm(np.array([0.0, 1.0, 0.0]) - centering.mean) / centering.scale
    assert done.longest == pytest.approx(farthest, rel=0.02) and farthest > 1.5
    done, unit = (replace(done, damping=0.1, longest=each) for each in (done.longest, 1.0))
    assert done._horizon == pytest.approx(unit._horizon / descent.plan.longest**power)
    known = plan_of(loss, 16_000, 3, 1.0, 1e-6)
    assert known.is_preconditioned and replace(known, longest=5.0)._horizon == known._horizon


def test_plain_and_accelerated_steps_have_no_floor():
    plain = plan_of(LogisticLoss(), 500, 30, 0.1, 1e-6)
    assert plain.moments is None and plain.floor == 0.0
    accelerated = plan_of(HalfSquaredLoss(1.0), 40_000, 3000, 10.0, 1e-6)
    assert accelerated.is_accelerated and accelerated.floor == 0.0


def records(n, share, seed):
    """A rare category of the given share, one-hot; its log odds and means are lower."""
    rng = np.random.default_rng(seed)
    g, Z = (rng.random(n) < share).astype(float), rng.uniform(-1.0, 1.0, (n, 2))
    X = np.column_stack([Z, g, 1.0 - g])
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = (2.2 - 1.5 * g + 1.5 * Z[:, 0] + rng.logistic(size=n) > 0.0).astype(int)
    targets = 0.4 - 0.3 * g + 0.3 * Z[:, 0] + 0.1 * rng.normal(size=n)
    return X, y, np.clip(targets, -1.0, 1.0), g > 0.0


@pytest.mark.parametrize("seeds", [(0, 1), (2, 3)])
def test_rare_records_do_better_than_by_a_constant(seeds):
    """Log loss 1.4 and squared error 0.2 without the floor, by a constant 0.80 and 0.126."""
    losses, errors = [], []
    for seed in seeds:
        X, y, targets, rare = records(16_000, 0.005, seed)
        model = DPLogisticRegression(data_norm=1.0, classes=[0, 1], random_state=seed).fit(X, y)
        assert abs(model.coef_).max() < 6.0
        losses.append(-model.predict_log_proba(X[rare])[np.arange(rare.sum()), y[rare]].mean())
        ridge = DPRidge(data_norm=1.0, target_range=(-1, 1), random_state=seed).fit(X, targets)
        errors.append(float(((ridge.predict(X) - targets)[rare] ** 2).mean()))
    assert np.mean(losses) < 0.8
    assert np.mean(errors) < 0.05


@pytest.mark.parametrize("seed", [0, 1])
def test_groups_among_the_features_do_not_hurt_the_worst_group(seed):
    """n = 16,000 with two groups of 1 %: a largest loss of 5 and more without the floor."""
    rng = np.random.default_rng(seed)
    groups, Z = rng.choice(3, 16_000, p=[0.98, 0.01, 0.01]), rng.uniform(-1, 1, (16_000, 2))
    X = np.hstack([Z, np.eye(3)[groups]])
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = (2.2 - 1.5 * (groups > 0) + 1.5 * Z[:, 0] + rng.logistic(size=16_000) > 0).astype(int)
    model = DPMaxGroupLossClassifier(
        10.0, data_norm=1.0, classes=[0, 1], group_names=[0, 1, 2], random_state=seed
    ).fit(X, y, groups=groups)
    assert max(model.group_losses(X, y, groups).values()) < 0.75
    targets = np.clip(0.4 - 0.3 * (groups > 0) + 0.3 * Z[:, 0], -1.0, 1.0)
    ridge = DPMaxGroupLossRegressor(
        data_norm=1.0, target_range=(-1, 1), group_names=[0, 1, 2], random_state=seed
    ).fit(X, targets, groups=groups)
    assert max(ridge.group_losses(X, targets, groups).values()) < 0.02  # half of the square

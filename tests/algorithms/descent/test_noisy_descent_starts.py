"""Noisy gradient descent where noise rules or steps are missing: start, shrinkage, factor."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from descent_plans import RELATIONS, REPLACE, objective, plan_of, weights_of
from plain_noise import Silent, seeded
from scipy import stats

from skdp.algorithms.descent import steps as module
from skdp.algorithms.descent.noisy_descent import (
    NoisyGradientDescentPlan,
    plan_noisy_gradient_descent,
)
from skdp.algorithms.descent.rules import centering_share
from skdp.algorithms.descent.steps import Descent
from skdp.algorithms.descent.temperature import TemperaturePlan
from skdp.algorithms.plan import Run
from skdp.algorithms.preparation.centered_rows import CenteredRows, Centering
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
    SquaredHingeLoss,
    huber_loss,
)


def descent_of(loss, offset, shift=(0.6, -0.8), relative_noise=0.1, intercept=0.1):
    """A descent on rows whose mean, in units of their scale, is `shift`, and its plan."""
    n = round(2.0 * math.sqrt(2.0) / (relative_noise * gaussian_mu(1.0, 1e-6)))
    plan = plan_of(loss, n, 2, 1.0, 1e-6)
    plan = replace(plan, mu=2.0 * math.sqrt(2.0) / (relative_noise * n))
    offsets = np.full(loss.n_outputs, offset)
    records = Records(np.eye(2), 1.0, intercept, targets=np.ones(2, dtype=int))
    rows = CenteredRows(
        records,
        Centering(mean=0.5 * np.array(shift), scale=0.5, offsets=offsets, target_variance=0.15),
    )
    return Descent(plan=plan, rows=rows, offsets=offsets, preconditioner=None)


def test_the_first_weights_let_the_odds_of_a_rare_class_fall_towards_the_mean_of_rows():
    """1.5 o min(1, |o| / 2) min(1, e / 0.1) m / (|m|^2 + 0.3) for log odds o and a mean m."""
    mean = np.array([0.6, -0.8, 0.0])
    for odds in (-3.0, 2.5):
        start = descent_of(LogisticLoss(), odds).start
        np.testing.assert_allclose(start, [1.5 * odds * mean / 1.3], rtol=1e-12)
    start = descent_of(LogisticLoss(), -1.0, relative_noise=0.04).start
    np.testing.assert_allclose(start, [-1.5 * 0.5 * 0.4 * mean / 1.3], rtol=1e-9)
    start = descent_of(LogisticLoss(), -3.0, shift=(0.0, 0.0)).start
    np.testing.assert_array_equal(start, np.zeros((1, 3)))
    for loss in (HalfSquaredLoss(1.0), SoftmaxLoss(3)):
        assert not descent_of(loss, -3.0).start.any()
    assert not descent_of(LogisticLoss(), -3.0, intercept=0.0).start.any()


def test_a_descent_begins_at_its_start_and_does_not_leave_it_without_gradients(monkeypatch):
    descent = descent_of(LogisticLoss(), -3.0)
    monkeypatch.setattr(module, "clipped_sum", lambda rows, loss, w, *args: np.zeros_like(w))
    np.testing.assert_array_equal(descent.weights(Silent()), descent.start)
    start = np.array([[1.0, 2.0, 3.0]])
    np.testing.assert_array_equal(descent.weights(Silent(), start), start)
    seen = []
    monkeypatch.setattr(
        module, "clipped_sum", lambda rows, loss, w, *args: (seen.append(w), np.ones_like(w))[1]
    )
    end = descent.weights(Silent())
    np.testing.assert_array_equal(seen[0], descent.start)  # so do the gradients
    assert (seen[1] < seen[0]).all() and (end < descent.start).all()


def test_the_start_finds_a_rare_class_that_is_less_typical():
    """ROC AUC over 20 tables of 2000 records, where noise drowns the gradients of few records.

    Without the start the mean is 0.75, and a table has a standard deviation of 0.08.
    """
    areas = {True: [], False: []}
    for seed in range(20):
        rng = np.random.default_rng(seed)
        labels = (rng.random(2000) < 0.05).astype(float)
        X = rng.normal(size=(2000, 20)) + 2.0 * (1.0 - labels)[:, None] * np.eye(20)[0]
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        records = Records(X, 1.0, 0.1, targets=labels)
        goal = Objective(EmpiricalRisk(LogisticLoss()), Design.of(records))
        plan = plan_noisy_gradient_descent(goal, PrivacyBudget(0.2, 1e-6))
        for has_start in areas:
            descent = plan.prepare(records, seeded(seed))
            start = None if has_start else np.zeros((1, 21))
            w = descent.weights(seeded(seed + 100), start)
            scores = X @ descent.rows.weights(w)[0, :-1]
            order = stats.rankdata(scores)[labels == 1.0]
            n = len(order)
            area = (order.sum() - n * (n + 1) / 2) / (n * (2000 - n))
            areas[has_start].append(area)
    assert np.mean(areas[True]) > np.mean(areas[False]) + 0.01


def test_shrinkage_of_two_classes_is_stronger_where_noise_rules():
    """Powers of the share of the signal: 0.3 up to an error of 0.03, 0.4 from 0.13 on."""
    for error, power in ((0.02, 0.3), (0.08, 0.35), (0.2, 0.4), (1.0, 0.4)):
        plan = replace(descent_of(LogisticLoss(), 0.0, relative_noise=error).plan, clip=1.0)
        assert plan.shrinkage(weights_of(1.0, 3), 0.25) == pytest.approx(0.25**power, rel=1e-3)
    plan = descent_of(SoftmaxLoss(3), 0.0, relative_noise=0.2).plan
    assert plan.shrinkage(weights_of(1.0, 3), 0.25) == pytest.approx(0.25**0.3, rel=1e-9)


def test_steps_are_accelerated_where_too_many_features_hide_their_moments():
    plan = plan_of(LogisticLoss(), 10**5, 10**4, 10.0, 1e-6)
    assert plan.missing_steps > 1.0 and plan.is_accelerated and plan.schedule.is_accelerated
    assert plan.schedule.n_steps == 40 and plan.n_blocks == 1
    assert plan.rate * plan.loss.curvature == pytest.approx(1.0)
    small = plan_of(LogisticLoss(), 4000, 2000, 10.0, 1e-6)
    assert not small.is_accelerated and small.rate * small.loss.curvature == pytest.approx(2.0)
    plan = plan_of(HalfSquaredLoss(1.0), 400_000, 2000, 30.0, 1e-6)
    assert plan.is_accelerated and plan.n_blocks == 1  # others would have several
    plan = plan_of(HalfSquaredLoss(1.0), 10**6, 500, 10.0, 1e-6)
    assert plan.missing_steps > 1.0 and plan.is_preconditioned
    assert not plan.schedule.is_accelerated and plan.temperature is None


def test_accelerated_steps_end_where_average_directions_have_been_learnt():
    """Curvature of squares times path: 24 at most, however little noise, and 8 is averaged from."""
    lengths, skipped = [], []
    for n, d, epsilon in ((8000, 100, 3.0), (16_000, 300, 10.0), (16_000, 1200, 0.3)):
        plan = plan_of(HalfSquaredLoss(1.0), n, d, epsilon, 1e-6)
        assert plan.is_accelerated
        plan = replace(plan, rate=plan.rate * 10.0)  # as after a release of small moments
        lengths.append(plan.schedule.path * 0.8 / d)
        skipped.append(plan.schedule.n_skipped / (plan.schedule.n_steps - 1))
    assert lengths[:2] == pytest.approx([24.0, 24.0])
    assert skipped[:2] == pytest.approx([3.0**-0.5, 3.0**-0.5], abs=0.05)
    assert lengths[2] < 4.0 and skipped[2] == 1.0  # noise ends it before


def test_models_of_squares_do_not_depend_on_the_unit_of_the_targets(monkeypatch):
    """Bounds of 1 and 1024 on targets in the same ratio, without noise; steps are missing."""
    release, seen = TemperaturePlan.release, []

    def scaled(self, rows, weights, offsets, factor, noise, spread):
        seen.append((factor, spread))
        return release(self, rows, weights, offsets, factor, noise, spread)

    monkeypatch.setattr(TemperaturePlan, "release", scaled)
    rng = np.random.default_rng(0)
    n, d = 20_000, 4000
    columns = rng.integers(0, d, size=(n, 5))
    X = sp.csr_array((np.full(5 * n, 0.4), columns.ravel(), 5 * np.arange(n + 1)), shape=(n, d))
    X.sum_duplicates()
    y = np.clip(0.3 * (X @ rng.normal(size=d)), -1.0, 1.0)
    points = []
    for unit in (1.0, 1024.0):
        records = Records(X, 1.0, 0.1, targets=unit * y)
        goal = Objective(EmpiricalRisk(HalfSquaredLoss(unit)), Design.of(records))
        plan = plan_noisy_gradient_descent(goal, PrivacyBudget(3.0, 1e-6))
        assert plan.temperature is not None
        result = plan.run(records, Run(noise=Silent()))
        points.append(result.point / unit)
        deviation = math.sqrt(result.plan.target_variance)
        assert seen[-1][1] == pytest.approx(unit * deviation) and deviation < 0.9
    monkeypatch.setattr(NoisyGradientDescentPlan, "shrinkage", lambda *args: 0.0)
    plan.run(records, Run(noise=Silent()))
    assert seen[-1][0] == 0.05
    assert np.linalg.norm(points[0]) > 1.0
    np.testing.assert_allclose(points[1], points[0], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("loss", [LogisticLoss(), SoftmaxLoss(3), HalfSquaredLoss(1.0)], ids=repr)
def test_few_features_leave_the_means_of_targets_their_part(loss):
    """Of 4 features and of 100, for the same noise of a mean of numbers up to 1."""
    for noise, part in ((0.001, 0.0004), (0.02, 0.16), (0.04, 0.2), (0.1, 0.2)):
        scale = 0.2 if loss.target_bound else 0.3
        of_rows = min(max((2.0 * noise / scale) ** 2, 0.01), 0.25)
        share, moves_rows = centering_share(loss, 2.0 * noise, noise)
        assert share == pytest.approx(max(of_rows, part)) and moves_rows
    hinge = SquaredHingeLoss()
    assert centering_share(hinge, 0.04, 0.02)[0] == pytest.approx((0.04 / 0.3) ** 2)
    assert centering_share(hinge, 0.5, 0.1) == (0.0, False)


@RELATIONS
def test_squares_whose_steps_are_missing_are_scaled(relation):
    """The release is paid for, and R2 is better; without missing steps there is none."""
    assert plan_of(HalfSquaredLoss(1.0), 10_000, 20, 1.0, 1e-6, relation).temperature is None
    assert plan_of(huber_loss(1.0, 0.5), 10**5, 10**4, 1.0, 1e-6, relation).temperature is None
    given = HalfSquaredLoss(1.0), 10**5, 10**4, 1.0, 1e-6, relation
    goal = objective(*given[:3], relation)
    assert (
        plan_noisy_gradient_descent(goal, PrivacyBudget(1.0, 1e-6), reserved=0.1).temperature
        is None
    )
    plan = plan_of(*given)
    assert plan.missing_steps > 1.0 and plan.temperature is not None
    mus = [1.0 / release.event.noise_multiplier for release in plan.releases]
    assert math.hypot(*mus) == pytest.approx(gaussian_mu(1.0, 1e-6), rel=1e-9)
    assert plan.schedule.is_accelerated

    rng = np.random.default_rng(0)
    n, d = 50_000, 20_000
    columns = rng.integers(0, d, size=(n, 10))
    X = sp.csr_array((np.full(10 * n, 0.3), columns.ravel(), 10 * np.arange(n + 1)), shape=(n, d))
    X.sum_duplicates()
    y = np.clip(0.3 * (X @ rng.normal(size=d)), -1.0, 1.0)
    records = Records(X, 1.0, 0.1, targets=y)
    design = Design.of(records, None if relation is REPLACE else n)
    goal = Objective(EmpiricalRisk(HalfSquaredLoss(1.0)), design, neighbouring=relation)
    plan = plan_noisy_gradient_descent(goal, PrivacyBudget(3.0, 1e-6))
    scores = []
    for each in (plan, replace(plan, temperature=None)):
        w = each.run(records, Run(noise=seeded())).point
        scores.append(1.0 - np.mean((y - X @ w[:-1] - 0.1 * w[-1]) ** 2) / y.var())
    assert scores[0] > scores[1] + 0.05

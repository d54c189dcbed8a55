"""Where the released number of records takes the place of the public one, and where it must not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from descent_plans import ADD
from laboratory import Laboratory
from noisy_group_runs import planned
from plain_noise import Silent, seeded

from skdp.algorithms.descent import steps
from skdp.algorithms.descent.noisy_descent import plan_noisy_gradient_descent
from skdp.algorithms.plan import Run
from skdp.algorithms.preparation.centered_rows import CenteredRows, Centering
from skdp.algorithms.preparation.second_moments import plan_row_moments
from skdp.algorithms.worst_group.margin_fits import MixFit, ScaleFit
from skdp.privacy import PrivacyBudget
from skdp.problems import Design, EmpiricalRisk, HalfSquaredLoss, LogisticLoss, Objective, Records


def records(n=2000, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-0.5, 0.5, (n, 3))
    y = (X[:, 0] + rng.logistic(size=n) > 0.5).astype(float)
    return Records(X, 1.0, 0.1, targets=y, groups=(X[:, 1] > 0.25).astype(int))


def plan_for(data, n_public, epsilon):
    goal = Objective(EmpiricalRisk(LogisticLoss()), Design.of(data, n_public), neighbouring=ADD)
    return plan_noisy_gradient_descent(goal, PrivacyBudget(epsilon, 1e-6))


@pytest.mark.parametrize("n_public", [1000, 2000, 4000])
def test_gradients_are_divided_by_the_count(n_public, monkeypatch):
    seen, descend = [], steps.descend

    def watched(schedule, total, sensitivity, shape, n_records, *args):
        seen.append(n_records)
        return descend(schedule, total, sensitivity, shape, n_records, *args)

    monkeypatch.setattr(steps, "descend", watched)
    plan = plan_for(records(), n_public, 100.0)
    done = plan.run(records(), Run(noise=Silent())).plan
    assert seen == [pytest.approx(2000.0, rel=1e-6)]
    assert done.n_records == seen[0] and plan.n_records == n_public
    assert done.noise_variance() > 0.0
    fixed = replace(done, counted=None)
    ratio = (n_public / 2000.0) ** 2
    assert done.noise_variance() == pytest.approx(ratio * fixed.noise_variance(), rel=1e-6)
    assert done.floor == pytest.approx(ratio**0.5 * fixed.floor, rel=1e-6)
    # path, error and cost are those of the public number
    assert done.schedule == fixed.schedule
    assert done.relative_noise == fixed.relative_noise and done.releases == fixed.releases


@pytest.mark.parametrize("is_projected", [False, True])
def test_second_moments_are_divided_by_the_count(is_projected):
    X = np.random.default_rng(0).uniform(-1.0, 1.0, (2000, 20)) / 2.0
    design = Design.of(Records(X, 1.0, 0.1), 1000)
    plan = plan_row_moments(design, ADD, 1e3, is_projected)
    found = []
    for counted in (1000.0, 500.0):
        centering = replace(Centering.unknown(20, 1), scale=0.5, n_records=counted)
        rows = CenteredRows(Records(X, 1.0, 0.1), centering)
        if is_projected:
            found.append(plan.largest(rows, Silent()))
            continue
        preconditioner, ridge, _ = plan.preconditioner(rows, Silent())
        found.append(preconditioner.values - ridge)
        assert ridge == pytest.approx(plan.noise * 1000.0 / counted)
    np.testing.assert_allclose(found[1], 2.0 * found[0], rtol=1e-3)


def test_losses_and_sizes_of_groups_follow_the_count():
    data = records()
    plan = planned(LogisticLoss(), Design.of(data, 1000), ADD)
    rows, found = plan.plain.prepare(data, Silent())
    counted = replace(plan.plain, found=found)
    assert counted.n_records == pytest.approx(2000.0, rel=1e-6)
    proportions = plan._proportions(counted, rows, Silent())
    shares = np.bincount(data.groups, minlength=4) / 2000
    np.testing.assert_allclose(proportions[:2], shares[:2], atol=0.01)
    zero = np.zeros((1, 4))
    losses = plan._group_losses(counted, rows, zero, np.zeros(1), proportions, Silent())
    np.testing.assert_allclose(losses, np.log(2.0), atol=1e-6)  # not twice as far from the centre
    strong = plan._group_losses(counted, rows, zero, np.full(1, 3.0), proportions, Silent())
    exact = np.logaddexp(0.0, 3.0) - 3.0 * data.targets
    assert strong[:2].mean() == pytest.approx(np.minimum(exact, 2.0).mean(), abs=0.15)
    fit = ScaleFit(counted, rows, zero, np.zeros(1), proportions)
    np.testing.assert_allclose(fit.sizes, counted.n_records * proportions)
    numbers = planned(HalfSquaredLoss(1.0), Design.of(data, 1000), ADD).plain
    means = replace(numbers.numbers.means, n_records=2000.0)
    numbers = replace(numbers, found=replace(numbers.numbers, means=means))
    mix = MixFit(numbers, rows, (zero, zero), np.zeros(1))
    assert mix.n_records == 2000.0


def test_rounding_and_noise_do_not_follow_the_count():
    """A set of records has one count only, a sensitivity is for all of them."""
    data = records()
    plan = plan_for(data, 1000, 10.0)
    descent = plan.prepare(data, seeded(0))
    assert descent.plan.counted is not None and abs(descent.plan.counted - 2000) < 200
    found = []
    for counted in (None, descent.plan.counted, 100.0, 10_000.0):
        each = replace(descent, plan=replace(descent.plan, counted=counted))
        with Laboratory() as laboratory:
            each.weights(seeded(1))
        found.append([draw.mechanism.sensitivity for draw in laboratory.draws][:1])
    assert found == [found[0]] * 4  # of the first step, whose weights are the same

"""Where the released number of records takes the place of the public one, and where it must not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from laboratory import Laboratory
from noisy_group_runs import ADD, planned
from plain_noise import Silent, seeded

from skdp.algorithms.core.centered_rows import CenteredRows, Centering
from skdp.algorithms.core.fit import plan_core
from skdp.algorithms.core.second_moments import plan_row_moments
from skdp.algorithms.plan import Run
from skdp.algorithms.worst_group.core_stages import StagesFit
from skdp.algorithms.worst_group.margin_fits import MixFit, ScaleFit
from skdp.privacy import PrivacyBudget
from skdp.problems import Design, EmpiricalRisk, HalfSquaredLoss, LogisticLoss, Objective, Records


def records(n=2000, copies=1):
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (n, 3))
    y = (X[:, 0] + rng.logistic(size=n) > 0.5).astype(float)
    X, y = np.tile(X, (copies, 1)), np.tile(y, copies)
    return Records(X, 1.0, 0.1, targets=y, groups=(X[:, 1] > 0.25).astype(int))


def plan_for(data, n_public, epsilon):
    goal = Objective(EmpiricalRisk(LogisticLoss()), Design.of(data, n_public), neighbouring=ADD)
    return plan_core(goal, PrivacyBudget(epsilon, 1e-6))


def test_gradients_are_divided_by_the_count_and_noise_is_not():
    """Twice the records make the same model; a set of records has one count only."""
    found = []
    for data in (records(), records(copies=2)):
        plan = plan_for(data, 1000, 1e6)
        rows, numbers = plan.prepare(data, Silent())
        assert numbers.means.n_records == pytest.approx(data.n_records, rel=1e-6)
        steps = found[0][0].steps if found else numbers.steps
        numbers = replace(numbers, steps=steps)
        with Laboratory() as laboratory:
            plan.stepped(rows, numbers, Run(noise=seeded(1)))
        sensitivity = laboratory.draws[0].mechanism.sensitivity  # the first weights are 0
        found.append((numbers, plan.stepped(rows, numbers, Run(noise=Silent())), sensitivity))
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-4)
    assert np.abs(found[0][1]).max() > 0.1
    # but for rounding, which depends on the length of centered rows
    assert found[0][2] == pytest.approx(found[1][2], rel=1e-9)


def test_second_moments_are_divided_by_the_count():
    X = np.random.default_rng(0).uniform(-1.0, 1.0, (2000, 20)) / 2.0
    design = Design.of(Records(X, 1.0, 0.1), 1000)
    plan = plan_row_moments(design, ADD, 1e3)
    found = []
    for counted in (1000.0, 500.0):
        centering = replace(Centering.unknown(20, 1), scale=0.5, n_records=counted)
        rows = CenteredRows(Records(X, 1.0, 0.1), centering)
        found.append(plan.release(rows, Silent()))
    np.testing.assert_allclose(found[1], 2.0 * found[0], rtol=1e-3)


def test_losses_and_sizes_of_groups_follow_the_count():
    data = records()
    plan = planned(LogisticLoss(), Design.of(data, 1000), ADD)
    fit = StagesFit(plan, data, Run(noise=Silent()))
    rows, counted = fit.rows, fit.plain
    assert counted.n_records == pytest.approx(2000.0, rel=1e-6)
    proportions = fit.proportions()
    shares = np.bincount(data.groups, minlength=4) / 2000
    np.testing.assert_allclose(proportions[:2], shares[:2], atol=0.01)
    zero = np.zeros((1, 4))
    fit.offsets = np.zeros(1)
    losses = fit.losses(zero, proportions)
    np.testing.assert_allclose(losses, np.log(2.0), atol=1e-6)  # not twice as far from the centre
    fit.offsets = np.full(1, 3.0)
    strong = fit.losses(zero, proportions)
    exact = np.logaddexp(0.0, 3.0) - 3.0 * data.targets
    assert strong[:2].mean() == pytest.approx(np.minimum(exact, 2.0).mean(), abs=0.15)
    scales = ScaleFit(counted, rows, zero, np.zeros(1), proportions)
    np.testing.assert_allclose(scales.sizes, counted.n_records * proportions)
    numbers = planned(HalfSquaredLoss(1.0), Design.of(data, 1000), ADD).plain
    means = replace(numbers.numbers.means, n_records=2000.0)
    numbers = replace(numbers, found=replace(numbers.numbers, means=means))
    mix = MixFit(numbers, rows, (zero, zero), np.zeros(1))
    assert mix.n_records == 2000.0

"""Planned noisy gradient descent: reference numbers, clipped gradients, limits."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from descent_plans import (
    ADD,
    RELATIONS,
    REPLACE,
    centering_of,
    objective,
    plain_plan,
    plan_of,
    weights_of,
)
from laboratory import Laboratory
from plain_noise import Scales, Silent, seeded
from scipy import stats
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.linear_model import Ridge

from skdp.algorithms.descent import rules as step_rules
from skdp.algorithms.descent import steps as module
from skdp.algorithms.descent.noisy_descent import (
    NoisyGradientDescentPlan,
    plan_noisy_gradient_descent,
)
from skdp.algorithms.descent.rules import block_count, step_rule
from skdp.algorithms.descent.schedule import descend
from skdp.algorithms.descent.steps import Descent
from skdp.algorithms.descent.temperature import TemperaturePlan
from skdp.algorithms.plan import Run
from skdp.algorithms.preparation.centered_rows import (
    CenteredRows,
    Centering,
    clipped_sum,
    sum_rounding,
)
from skdp.algorithms.preparation.second_moments import plan_row_moments
from skdp.privacy import PrivacyBudget
from skdp.privacy.accountants import tightest_epsilon
from skdp.privacy.events import RECORD_RELATIONS, ComposedEvent, GaussianEvent
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

pytestmark = pytest.mark.usefixtures("kept_order")

# ------------------------------------------------------------------------------------------- plan

#: n, d, classes (1: least squares), epsilon, delta, relation; error, share of the means, clipping
#: norm, steps, step size, momentum, first and last noise, variance of the average
REFERENCE = [
    (
        (455, 30, 2, 1, 1e-5, ADD),
        (0.044909, 0.022409, 0.263791, 34, 8, 0.880999, 4.787092, 11.559566, 1.122164e-1),
    ),
    (
        (455, 30, 2, 1, 1e-5, REPLACE),
        (0.089818, 0.089636, 0.25, 25, 8, 0.828133, 8.090629, 18.091197, 3.795578e-1),
    ),
    (
        (1437, 64, 10, 1, 1e-5, REPLACE),
        (0.041538, 0.019171, 0.274285, 59, 4, 0.932126, 13.037597, 36.133544, 8.451287e-1),
    ),
    (
        (8000, 20, 2, 0.1, 1e-5, ADD),
        (0.017190, 0.01, 0.426376, 39, 8, 0.897220, 67.791175, 169.410106, 3.273897e-2),
    ),
    (
        (39073, 91, 2, 0.1, 1e-6, REPLACE),
        (0.017727, 0.01, 0.419862, 57, 8, 0.928485, 190.046967, 522.191329, 1.276189e-1),
    ),
    (
        (353, 10, 1, 1, 1e-5, REPLACE),
        (0.066840, 0.111690, 0.3, 23, 1.5, 0.820208, 3.655214, 8.004695, 1.141778e-3),
    ),
    (
        (353, 10, 1, 0.1, 1e-5, ADD),
        (0.275464, 0.25, 0.3, 11, 1.5, 0.614331, 11.502966, 20.948744, 1.365058e-2),
    ),
    (
        (80000, 20, 1, 1, 1e-6, REPLACE),
        (0.000472, 0.01, 2.5, 119, 1.5, 0.964850, 28.226904, 57.315948, 6.197480e-5),
    ),
]


@pytest.mark.parametrize(("case", "expected"), REFERENCE)
def test_reference_plans(case, expected, monkeypatch):
    n, d, classes, epsilon, delta, relation = case
    monkeypatch.setattr(step_rules, "_TARGETS_NOISE", math.inf)  # the page has no such rules
    monkeypatch.setattr(step_rules, "PLAIN_DRIFT_OF_SQUARES", math.inf)
    losses = {1: HalfSquaredLoss(1.0), 2: LogisticLoss()}
    loss = losses.get(classes) or SoftmaxLoss(classes)
    plan = plain_plan(objective(loss, n, d, relation), PrivacyBudget(epsilon, delta), 0.0)
    plan = replace(plan, damping=2.0 if classes == 1 else 0.2)
    # the numbers of the page are those of longer clips and of noise that falls as a root
    error = (2.0 if relation is REPLACE else 1.0) * math.sqrt(d) / (n * gaussian_mu(epsilon, delta))
    page = min(max(0.25 * math.sqrt(0.05 / error), 0.25), 1.0)
    plan = replace(plan, clip=max(plan.clip, 0.3) if classes == 1 else page)
    schedule, k = replace(plan.schedule), 2 if relation is REPLACE else 1
    mu = gaussian_mu(epsilon, delta)
    falling = np.sqrt(
        1.0 - np.arange(schedule.n_steps) // plan.n_blocks * plan.n_blocks / schedule.n_steps
    )
    vars(schedule)["multipliers"] = np.sqrt(falling.sum() / plan.n_blocks / falling) / plan.mu
    noise = schedule.multipliers * plan.sensitivity
    curvature = 0.8 / d * {1: 1.0, 2: 0.25}.get(classes, 1.0 / classes)
    unit = plan.sensitivity * plan.n_blocks / n
    found = (
        k * math.sqrt(d) / (n * mu), 1.0 - (plan.mu / mu) ** 2, plan.clip, schedule.n_steps,
        schedule.step_size, schedule.momentum, noise[0], noise[-1],
        schedule.average_variance(curvature, unit),
    )  # fmt: skip
    assert found[:3] == pytest.approx(expected[:3], abs=5.1e-7)
    assert found[3:] == pytest.approx(expected[3:], rel=1e-6)
    assert plan.n_blocks == (7 if n == 80000 else 1)


def test_reference_mu():
    for (epsilon, delta), mu in {
        (0.1, 1e-5): 0.0325207841,
        (1, 1e-5): 0.2680511232,
        (10, 1e-5): 2.0004456204,
        (1, 1e-6): 0.2367043807,
    }.items():
        assert gaussian_mu(epsilon, delta) == pytest.approx(mu, rel=1e-8)


@pytest.mark.parametrize(
    ("loss", "n", "epsilon"),
    [(LogisticLoss(), 8000, 10.0), (LogisticLoss(), 300, 0.1), (HalfSquaredLoss(1.0), 8000, 10.0)],
)
def test_noise_is_fitted_to_curvatures_around_the_average_one(loss, n, epsilon):
    plan = plan_of(loss, n, 20, epsilon, 1e-5)
    average = min(plan._typical_curvature, 0.5 / plan.schedule.step_size)
    assert plan.schedule.curvatures == pytest.approx([average / 8, average / 2, 2 * average])


def test_noise_of_squares_with_much_noise_is_fitted_to_the_path():
    schedule = plan_of(HalfSquaredLoss(1.0), 353, 10, 0.1, 1e-5).schedule
    assert np.array(schedule.curvatures) * schedule.path == pytest.approx([0.0, 0.5, 2.0, 8.0])


@pytest.mark.parametrize("loss", [LogisticLoss(), SoftmaxLoss(4)])
def test_margins_are_shrunk_by_the_share_of_the_signal(loss):
    plan = replace(plan_of(loss, 2000, 10, 1.0, 1e-6), clip=1.0)
    assert plan.shrinkage(weights_of(10.0, 8), 0.5) == pytest.approx(0.6**0.3)
    assert plan.shrinkage(weights_of(0.0, 8), 0.5) == pytest.approx(0.05**0.3)
    squares = plan_of(HalfSquaredLoss(1.0), 10**6, 10, 1.0, 1e-6)
    noisy = plan_of(HalfSquaredLoss(1.0), 100, 10, 0.3, 1e-6)
    assert squares.shrinkage(weights_of(10.0, 8), 0.5) == pytest.approx(0.6)
    assert noisy.shrinkage(weights_of(10.0, 8), 0.5) == pytest.approx(0.6**2)
    assert squares.shrinkage(weights_of(1.0, 8), 0.5) == 0.0


def test_clipped_log_odds_are_corrected_by_the_clipping_norm_and_the_frequency():
    plan = replace(plan_of(LogisticLoss(), 2000, 10, 1.0, 1e-6), clip=math.exp(-1.0), slowness=2.0)
    assert plan.relative_noise < 0.06 and plan.distortion == pytest.approx(1.0)
    expected = math.exp(-1.0 + 0.33 * math.log(2.0) + 0.25 * math.log(3.0))
    assert plan.shrinkage(weights_of(9.0, 8), 0.0) == pytest.approx(expected)
    noisy = replace(plan, mu=0.5 * plan.mu * plan.relative_noise / 0.06)
    assert noisy.distortion == pytest.approx(0.5)
    several = replace(plan_of(SoftmaxLoss(4), 2000, 10, 1.0, 1e-6), clip=0.3)
    assert several.shrinkage(weights_of(9.0, 8), 0.0) == 1.0
    assert replace(plan_of(huber_loss(1.0, 0.5), 2000, 10, 1.0, 1e-6), clip=0.3).distortion == 0.0
    no_release = replace(plan, temperature=None)
    weights, offsets = no_release._rescaled(None, np.ones((1, 9)), np.array([-2.0]), None)
    assert offsets == pytest.approx([-1.6])
    assert weights == pytest.approx(
        np.full((1, 9), plan.shrinkage(weights_of(9.0, 9), plan.noise_variance()))
    )
    several = replace(several, temperature=None)
    assert several._rescaled(None, np.ones((3, 9)), np.ones(3), None)[1] == pytest.approx(
        np.ones(3)
    )


def test_log_odds_are_corrected_with_the_released_frequency_before_the_temperature(monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-0.5, 0.5, size=(2000, 4)), (rng.random(2000) < 0.1).astype(float)
    records, seen = Records(X, 1.0, 0.1, targets=y), []
    rescaled, release = NoisyGradientDescentPlan._rescaled, TemperaturePlan.release

    def before(self, rows, weights, offsets, noise):
        seen.append((self.slowness, self.distortion, float(offsets[0])))
        return rescaled(self, rows, weights, offsets, noise)

    def corrected(self, rows, weights, offsets, *args):
        seen.append(float(offsets[0]))
        return release(self, rows, weights, offsets, *args)

    monkeypatch.setattr(NoisyGradientDescentPlan, "_rescaled", before)
    monkeypatch.setattr(TemperaturePlan, "release", corrected)
    goal = Objective(EmpiricalRisk(LogisticLoss()), Design.of(records))
    plan = plan_noisy_gradient_descent(goal, PrivacyBudget(1.0, 1e-6))
    plan.run(records, Run(noise=seeded(0)))
    (slowness, distortion, offset), used = seen
    frequency = expit(offset)  # as released
    assert slowness == pytest.approx(0.25 / (frequency * (1.0 - frequency)))
    assert slowness > 1.5 and distortion > 0.1
    assert used == pytest.approx((1.0 - 0.2 * distortion) * offset)


def test_clipping_norms_fall_with_the_noise_down_to_a_limit():
    norms = [plan_of(LogisticLoss(), n, 20, 1.0, 1e-6).clip for n in (30, 100, 1000, 3000, 10**7)]
    assert norms == sorted(norms)
    assert norms[0] == 0.05 and norms[-1] == 1.0
    norms = [step_rule(LogisticLoss(), False, e, 20, 1.0).clip for e in (0.2, 0.05, 0.01)]
    assert norms == pytest.approx([0.125, 0.25, 0.25 * 5.0**0.37])
    norms = [plan_of(HalfSquaredLoss(1.0), n, 20, 1.0, 1e-6).clip for n in (100, 10**4, 10**7)]
    assert norms == [0.15, pytest.approx(norms[1]), 2.5] and 0.15 < norms[1] < 2.5


@pytest.mark.parametrize("loss", [LogisticLoss(), SoftmaxLoss(8)], ids=repr)
def test_shrinkage_knows_the_noise_of_weights_that_are_mostly_noise(loss):
    """Of isotropic rows. The ratio is .9 to 1.2; the curvature at 0 would make it 2."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 30))
    X /= np.linalg.norm(X, axis=1)[:, None]
    y = rng.integers(0, max(loss.n_outputs, 2), len(X))
    records = Records(X, 1.0, 0.1, targets=y if loss.n_outputs > 1 else y.astype(float))
    goal = Objective(EmpiricalRisk(loss), Design.of(records))
    plan = plan_noisy_gradient_descent(goal, PrivacyBudget(0.3, 1e-6))
    fits = []
    for seed in range(12):
        noise = seeded(seed)
        descent = plan.prepare(records, noise)
        fits.append(descent.weights(noise).ravel())
    variance = float(np.var(fits, axis=0, ddof=1).mean())
    assert 0.7 < variance / descent.plan.noise_variance() < 1.4


@RELATIONS
@pytest.mark.parametrize("loss", [LogisticLoss(), SoftmaxLoss(4), HalfSquaredLoss(2.0)], ids=repr)
@pytest.mark.parametrize(("n", "epsilon"), [(30, 0.1), (500, 1.0), (10**5, 1.0), (10**6, 30.0)])
def test_the_releases_cost_the_budget(loss, n, epsilon, relation):
    plan = plan_of(loss, n, 9, epsilon, 1e-6, relation)
    mus = [1.0 / release.event.noise_multiplier for release in plan.releases]
    assert math.hypot(*mus) == pytest.approx(gaussian_mu(epsilon, 1e-6), rel=1e-9)
    assert tightest_epsilon(plan.event, 1e-6) == pytest.approx(epsilon, rel=1e-6)
    names = [release.name for release in plan.releases]
    assert ("means of rows and targets" in names) == (n > 30)
    has_odds = not loss.target_bound
    assert ("temperature" in names) == (n >= (500 if loss.n_margins == 1 else 10**5) and has_odds)
    assert plan.n_blocks == 1 or relation is REPLACE
    by_step = ComposedEvent(
        tuple(
            GaussianEvent(float(c), relation) for c in plan.schedule.multipliers[:: plan.n_blocks]
        )
    )
    steps = next(r for r in plan.releases if r.name.startswith("sums"))
    assert tightest_epsilon(by_step, 1e-6) == pytest.approx(
        tightest_epsilon(steps.event, 1e-6), rel=1e-6
    )


def test_a_released_variance_changes_the_steps_and_not_their_cost():
    plan = plan_of(HalfSquaredLoss(1.0), 500, 10, 1.0, 1e-6)
    other = replace(plan, target_variance=0.01)
    assert other.schedule.n_steps != plan.schedule.n_steps
    assert other.event == plan.event
    for each in (plan, other):
        assert (each.schedule.multipliers**-2.0).sum() == pytest.approx(plan.mu**2)


# --------------------------------------------------------------- steps after the released moments


def planned(scales, loss=None, relation=REPLACE, n=40_000, epsilon=1.0):
    """A plan, and records whose columns have about these standard deviations."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, size=(n, len(scales))) * np.asarray(scales) / np.sqrt(len(scales))
    y = np.clip(X @ rng.standard_normal(len(scales)) + 0.2 * rng.standard_normal(n), -1.0, 1.0)
    loss = loss or HalfSquaredLoss(1.0)
    targets = y if loss.target_bound else (y > 0).astype(float)
    records = Records(X, 1.0, 1.0, targets=targets)
    design = Design.of(records, None if relation is REPLACE else n)
    objective = Objective(EmpiricalRisk(loss), design, neighbouring=relation)
    return plan_noisy_gradient_descent(objective, PrivacyBudget(epsilon, 1e-6)), records


def prepared(*args, **options):
    """A plan, and its descent on these records."""
    plan, records = planned(*args, **options)
    return plan, plan.prepare(records, seeded(3))


def test_well_conditioned_least_squares_take_fewer_steps():
    plan, descent = prepared(np.ones(6))
    assert descent.plan.least_moment > 0.5
    assert descent.plan.schedule.n_steps < plan.schedule.n_steps
    # a path that has learnt all directions: 30 over the curvature
    assert descent.plan._horizon == pytest.approx(30.0 / descent.plan.least_moment)


def test_a_slow_direction_keeps_the_steps():
    plan, descent = prepared([1.0, 1.0, 1.0, 1.0, 1.0, 1e-4])
    assert descent.plan.least_moment == 0.0
    after = descent.plan
    noise = after.damping * after.rate * after.sensitivity / after.mu
    assert after._horizon == pytest.approx(40_000 / noise * after.ridge)
    assert after.n_blocks == plan.n_blocks


def test_path_of_the_log_loss_is_that_of_the_plan():
    plan, descent = prepared(np.ones(6), LogisticLoss())
    assert descent.plan.least_moment > 0.0
    ridges = descent.plan.ridge / plan.ridge
    floor = 20.0 * descent.plan.slowness
    assert descent.plan._horizon == pytest.approx(max(plan._horizon * ridges, floor), rel=0.2)


def test_steps_together_spend_what_the_plan_says_in_every_block():
    plan, descent = prepared(np.ones(6), n=200_000)
    schedule = descent.plan.schedule
    assert schedule.n_blocks == descent.plan.n_blocks > 1
    assert schedule.mu == plan.mu
    for k in range(schedule.n_blocks):
        spent = (1.0 / schedule.multipliers[k :: schedule.n_blocks] ** 2).sum()
        assert spent == pytest.approx(plan.mu**2, rel=1e-12)


def test_releases_cost_the_budget_where_they_make_more_blocks():
    """The number of blocks grows after the release of moments; all of it follows from releases."""
    plan, records = planned(np.ones(10), n=60_001, epsilon=0.5)
    with Laboratory() as laboratory:
        result = plan.run(records, Run(noise=seeded(3)))
    after, draws = result.plan, laboratory.draws
    schedule = after.schedule
    assert (plan.n_blocks, after.n_blocks) == (4, 7)
    assert after.sensitivity == 2.0 * after.clip_norm
    for draw in draws[2:]:
        assert draw.mechanism.sensitivity == pytest.approx(2.0 * after.clip_norm, rel=1e-5)
    costs = np.array([(draw.mechanism.sensitivity / draw.scale) ** 2 for draw in draws])
    means, moments, steps = costs[0], costs[1], costs[2:]
    assert len(steps) == schedule.n_steps == schedule.n_blocks * (schedule.n_steps // 7)
    for k in range(7):
        whole = means + moments + steps[k::7].sum()
        assert whole == pytest.approx(gaussian_mu(0.5, 1e-6) ** 2, rel=1e-9)
    # the same transcript on unrelated records, and on those of a neighbour
    X = records.matrix.copy()
    X[7] *= -3.0
    targets = np.where(np.arange(60_001) == 7, -records.targets, records.targets)
    others = Records(0.0 * X, 1.0, 1.0, targets=-targets), Records(X, 1.0, 1.0, targets=targets)
    for other in others:
        with Laboratory(releases=laboratory.releases) as replay:
            again = plan.run(other, Run(noise=seeded(3)))
        assert np.array_equal(again.point, result.point)
        assert again.plan.n_blocks == 7
        assert [draw.scale for draw in replay.draws] == [draw.scale for draw in draws]
    moved = [
        float(np.linalg.norm(mine.value - its.value)) / mine.mechanism.sensitivity
        for mine, its in zip(draws, replay.draws, strict=True)
    ]
    assert max(moved) <= 1.0
    assert max(moved[2::7]) > 0.1  # record 7 is in block 0
    assert all(each < 1e-9 for step, each in enumerate(moved[2:]) if step % 7)


@pytest.mark.parametrize(
    ("n", "d", "epsilon", "counts"),
    [(60_001, 10, 0.5, (4, 7)), (60_001, 10, 0.3, (1, 2)), (200_000, 20, 0.3, (4, 9))],
)
def test_noise_of_blocks_costs_a_fixed_share_times_the_least_moment(n, d, epsilon, counts):
    """0.0005 of the targets' variance; no block has less than 8000 records."""
    plan, descent = prepared(np.ones(d), n=n, epsilon=epsilon)
    after = descent.plan
    error = 2.0 * math.sqrt(d) / (n * after.mu)
    largest = 0.0005 * after.least_moment / (error**2 * d * after.clip**2)
    assert after.clip == 2.5
    assert after.n_blocks == int(min(n / 8000, largest))
    assert (plan.n_blocks, after.n_blocks) == counts
    assert len(descent.rows.norms) == after.n_blocks


def test_paths_of_slow_losses_are_longer():
    """Exactly 30 over the least curvature, which is that of moments over the slowness."""
    after = replace(prepared(np.ones(6))[1].plan, slowness=3.0)
    long, short = replace(after, damping=1e-3), replace(after, damping=1e9)
    assert long._horizon == pytest.approx(90.0 / after.least_moment, rel=1e-12)
    assert short._horizon == 30.0
    noise = after.damping * after.rate * after.sensitivity / after.mu
    slow = replace(after, least_moment=1e-9)
    assert slow._horizon == pytest.approx(40_000 * after.ridge / noise, rel=1e-12)


@pytest.mark.parametrize(("n", "n_blocks"), [(10_000, 1), (60_001, 4)])
def test_the_variance_of_the_average_is_that_of_a_descent_on_blocks(n, n_blocks):
    """20,000 directions of the curvature that the plan expects; false alarms: 1e-6."""
    plan = plan_of(HalfSquaredLoss(1.0), n, 10, 0.5, 1e-6)
    assert plan.n_blocks == n_blocks and plan.is_preconditioned
    curvature, amplified = plan._typical_curvature, plan._amplified

    def total(weights, k):  # of a quadratic that is the same on each block
        return n / n_blocks * curvature / amplified * weights

    found = descend(
        plan.schedule, total, lambda weights: plan.sensitivity, (400, 50), n, seeded(1),
        inverse=amplified * np.eye(50),
    )  # fmt: skip
    square = float((found**2).sum()) / plan.noise_variance()
    assert stats.chi2(found.size).interval(1.0 - 1e-6)[0] < square
    assert square < stats.chi2(found.size).interval(1.0 - 1e-6)[1]


def test_add_remove_has_one_block():
    plan, descent = prepared(np.ones(6), relation=ADD, n=200_000)
    assert plan.n_blocks == descent.plan.n_blocks == 1


@pytest.mark.parametrize(
    ("n", "largest", "count"),
    [(7_999, 50.0, 1), (16_000, 50.0, 2), (10**6, 50.0, 12), (10**6, 0.1, 1)],
)
def test_blocks_have_8000_records_and_noise_allows_them(n, largest, count):
    assert block_count(n, largest) == count


# ------------------------------------------------------------------------------------------ lemmas


def accelerated(plan):
    """The plan with the second moments of a projection."""
    design, relation = plan.objective.design, plan.objective.neighbouring
    moments = plan_row_moments(design, relation, plan.mu, is_projected=True)
    plan = replace(plan, moments=moments)
    assert plan.is_accelerated and plan.schedule.is_accelerated
    return plan


@pytest.mark.parametrize("is_accelerated", [False, True])
def test_the_noise_of_a_step_covers_rounding(is_accelerated):
    """Lemma 4: rows that are not centered are longer; factors of groups are rounded as well."""
    plan = replace(plan_of(LogisticLoss(), 10**9, 2, 1.0, 1e-6), largest_factor=3.0, n_blocks=1)
    plan = accelerated(plan) if is_accelerated else plan
    records = Records(np.eye(2), 1.0, 0.1, targets=np.ones(2))
    rows = CenteredRows(
        records,
        centering_of(np.array([0.6, 0.8]), 0.1),
    )
    assert rows.norm_bound == pytest.approx(20.2)
    rounding = sum_rounding(plan.objective.design, plan.clip * (20.2 / 0.2) * 3.0)
    assert rounding > 1e-3
    # records may be elsewhere: their norms are off, their margins are 0
    norms = 4.0 * (2 + 8) * 2.0**-52 * (20.2 / 0.2) ** 2 * plan.clip
    sensitivity = 2.0 * plan.clip * 3.0 * (1.0 + 1e-9) + rounding + 1e9 * norms * 3.0
    noise = Scales()
    Descent(plan=plan, rows=rows, offsets=np.zeros(1), preconditioner=None).weights(noise)
    assert noise.seen[0] == pytest.approx(sensitivity * plan.schedule.multipliers[0], rel=1e-12)


def _sum_of(row, target, loss, centering, w, clip, intercept=0.1):
    records = Records(np.array([row]), 1.0, intercept, targets=np.array([target]))
    rows = CenteredRows(records, centering)
    return clipped_sum(rows, loss, w, centering.offsets, clip)


@pytest.mark.search
@pytest.mark.parametrize("intercept", [0.0, 0.1])
@pytest.mark.parametrize(
    "loss", [LogisticLoss(), SoftmaxLoss(4), HalfSquaredLoss(1.0), huber_loss(1.0, 0.3)], ids=repr
)
def test_lemma_2_no_record_adds_more_than_the_clipping_norm(loss, intercept):
    """Rows of norm 1e-3 to 1e3, scales down to 1e-3, weights up to 1e3; clipping is attained."""
    rng, largest = np.random.default_rng(2), 0.0
    for _ in range(1000):
        d = int(rng.integers(1, 5))
        mean = rng.normal(size=d)
        mean *= bool(intercept) * rng.random() / np.linalg.norm(mean)
        centering = Centering(
            mean=mean,
            scale=10.0 ** rng.uniform(-3, 0),
            offsets=rng.normal(size=loss.n_outputs),
            target_variance=0.15,
        )
        row = rng.normal(size=d) * 10.0 ** rng.uniform(-3, 3)
        if rng.random() < 0.2:  # next to the mean, where norms cancel
            row = mean * (1.0 + 1e-12 * rng.normal(size=d))
        w = rng.normal(size=(loss.n_outputs, d + bool(intercept))) * 10.0 ** rng.uniform(-2, 3)
        target = rng.uniform(-1, 1) if loss.target_bound else rng.integers(loss.n_margins + 1) % 2
        target = int(target) if isinstance(loss, SoftmaxLoss) else float(target)
        value = _sum_of(row, target, loss, centering, w, 0.25, intercept)
        largest = max(largest, float(np.linalg.norm(value)) / 0.25)
    assert 0.999 < largest <= 1.0 + 1e-9


def test_the_norm_of_the_centered_row_is_clipped_with():
    """With the norm of the row itself, a record far from the mean would add more."""
    centering = centering_of(np.array([0.9, 0.0]), 0.2)
    row, w = np.array([-1.0, 0.0]), np.array([[50.0, 0.0, 0.0]])
    value = _sum_of(row, 1.0, LogisticLoss(), centering, w, 0.25)
    assert np.linalg.norm(value) == pytest.approx(0.25)
    assert np.linalg.norm([(-1.0 - 0.9) / 0.2, 0.2]) > 9.0  # times its residual of 1


def test_the_noise_of_a_step_grows_with_the_weights():
    """Records may be elsewhere in the table, so computed margins differ in the last bits."""
    scales = []

    for relation in RECORD_RELATIONS:
        plan = plan_of(LogisticLoss(), 50, 2, 1.0, 1e-3, relation)
        X = np.random.default_rng(0).normal(size=(50, 2))
        records = Records(X, 1.0, 0.1, targets=np.arange(50) % 2.0)
        plan = replace(
            plan,
            objective=replace(
                plan.objective, design=Design.of(records, None if relation is REPLACE else 50)
            ),
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                module,
                "descend",
                lambda schedule, total, sensitivity, shape, n, noise, unit, inverse, counted: (
                    scales.append([sensitivity(np.full(shape, w)) for w in (0.0, 1e6)]),
                    np.zeros(shape),
                )[1],
            )
            plan.run(records, Run(noise=Silent()))
    for least, largest in scales:
        assert largest > least * (1.0 + 1e-9) > 0.0


@pytest.mark.parametrize("loss", [LogisticLoss(), SquaredHingeLoss()], ids=repr)
@pytest.mark.parametrize("is_accelerated", [False, True])
def test_the_noise_of_a_step_under_add_remove_is_that_of_lemma_4(loss, is_accelerated):
    """For steps that start from released weights, and with factors of groups."""
    n, d, start, seen = 10**8, 2, np.array([[3.0, -4.0, 12.0]]), []
    plan = replace(plan_of(loss, n, d, 1.0, 1e-9, ADD), largest_factor=3.0, clip=0.4)
    plan = accelerated(plan) if is_accelerated else plan
    offsets = np.array([1.5])
    records = Records(np.eye(2), 1.0, 0.1, targets=np.ones(2))
    rows = CenteredRows(
        records,
        Centering(mean=np.array([0.6, 0.8]), scale=0.1, offsets=offsets, target_variance=0.15),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "descend", lambda *args: (seen.append(args[2]), 0.0)[1])
        Descent(plan=plan, rows=rows, offsets=offsets, preconditioner=None).weights(Silent(), start)
    (sensitivity,) = seen
    size = 2.0 / 0.1 + 0.2  # beta: the mean has norm 1
    summed = 0.4 * (1.0 + 1e-9) + sum_rounding(plan.objective.design, 0.4 * size / 0.2)
    norms = 0.4 * 4.0 * (d + 8) * 2.0**-52 * (size / 0.2) ** 2
    for weights in (np.zeros((1, 3)), np.array([[-3.0, 4.0, 1e5]])):
        margins = 2.0 * (d + 8) * 2.0**-52 * (size * np.linalg.norm(start + weights) + 1.5)
        terms = size * max(1.0, loss.curvature) * margins
        expected = 3.0 * (summed + 10 * n * (terms + norms))
        assert sensitivity(weights) == pytest.approx(expected, rel=1e-12)
        # each part counts
        assert min(n * terms, n * norms) > 1e-6 * expected


# ------------------------------------------------------------------------------------------ limits


def fitted(loss, X, targets, epsilon, relation=REPLACE, intercept=0.1, seed=0, data_norm=1.0):
    records = Records(X, data_norm, intercept, targets=targets)
    design = Design.of(records, None if relation is REPLACE else records.n_records)
    goal = Objective(EmpiricalRisk(loss), design, neighbouring=relation)
    plan = plan_noisy_gradient_descent(goal, PrivacyBudget(epsilon, 1e-6))
    point = plan.run(records, Run(noise=seeded(seed))).point.reshape(loss.n_outputs, -1)
    return point * np.append(np.ones(X.shape[1]), [intercept] * bool(intercept))


@pytest.mark.parametrize("data_norm", [1.0, 1e-3, 1e3])
def test_without_noise_least_squares_are_found(data_norm):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(4000, 5)) + np.eye(5)[0]
    X /= np.linalg.norm(X, axis=1).max()
    y = np.clip(X @ rng.normal(size=5) + 0.2 + 0.1 * rng.normal(size=4000), -2, 2)
    w = fitted(HalfSquaredLoss(2.0), data_norm * X, y, 1e6, data_norm=data_norm)[0]
    exact = Ridge(alpha=1e-9).fit(X, y)
    assert np.allclose(data_norm * w[:-1], exact.coef_, rtol=1e-2)
    assert w[-1] == pytest.approx(exact.intercept_, rel=2e-2)


def test_without_noise_a_logistic_model_is_found():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(20000, 4))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    truth = np.array([2.0, -1.0, 0.5, 0.0])
    t = (rng.random(20000) < expit(X @ truth - 0.5)).astype(float)
    w = fitted(LogisticLoss(), X, t, 1e6)[0]

    def loss(v):
        z = X @ v[:-1] + v[-1]
        return (np.logaddexp(0.0, z) - t * z).mean()

    best = minimize(loss, np.zeros(5))
    assert loss(w) <= best.fun + 2e-4


@RELATIONS
@pytest.mark.parametrize("loss", [HalfSquaredLoss, lambda bound: huber_loss(bound, 0.3 * bound)])
def test_units_of_the_targets_do_not_matter(loss, relation):
    rng = np.random.default_rng(9)
    X = rng.normal(size=(3000, 3))
    y = np.clip(X[:, 0], -1, 1)
    model = fitted(loss(1.0), X, y, 3.0, relation)
    for unit in (1e-12, 1e12):
        other = fitted(loss(unit), X, unit * y, 3.0, relation)
        assert np.allclose(other, unit * model, rtol=1e-6)


@pytest.mark.parametrize("kind", [sp.csr_array, lambda X: X.astype(np.float32)])
def test_sparse_and_single_precision_agree_with_dense(kind):
    rng = np.random.default_rng(6)
    X = (rng.normal(size=(300, 6)) * (rng.random((300, 6)) < 0.4)).astype(np.float32)
    t = (X[:, 0] > 0).astype(float)
    dense = fitted(LogisticLoss(), X.astype(float), t, 3.0)
    assert np.allclose(dense, fitted(LogisticLoss(), kind(X), t, 3.0), rtol=1e-9, atol=1e-12)


def test_blocks_agree_between_dense_and_sparse():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(20000, 3))
    y = np.clip(X[:, 0], -1, 1)
    plan = plan_of(HalfSquaredLoss(1.0), 20000, 3, 3.0, 1e-6)
    assert plan.n_blocks == 2
    dense, sparse = (
        fitted(HalfSquaredLoss(1.0), kind(X), y, 3.0) for kind in (np.asarray, sp.csr_array)
    )
    assert np.allclose(dense, sparse, rtol=1e-9)


@pytest.mark.parametrize("loss", [LogisticLoss(), HalfSquaredLoss(1.0)], ids=repr)
def test_without_an_intercept_nothing_is_moved(loss):
    """Rows that are all alike: a model through the origin must not learn a constant."""
    X = np.tile([[1.0, 0.0]], (5000, 1))
    X[::2] *= -1.0
    w = fitted(loss, X, np.ones(5000), 10.0, intercept=0.0)
    assert abs(w[0, 0]) < 0.1  # no column has the second coefficient to learn

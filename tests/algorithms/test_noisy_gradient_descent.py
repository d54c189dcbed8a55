"""Planned noisy gradient descent: reference numbers, lemmas, guard, limits."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from plain_noise import PlainNoise
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.linear_model import Ridge

from skdp.algorithms import noisy_gradient_descent as module
from skdp.algorithms.centering import CenteredRows, Centering, plan_centering, sum_rounding
from skdp.algorithms.noisy_gradient_descent import (
    Descent,
    clipped_sum,
    plan_noisy_gradient_descent,
)
from skdp.algorithms.noisy_steps import WEIGHT_LIMIT, Schedule, descend, plan_schedule
from skdp.algorithms.plan import Run
from skdp.algorithms.row_moments import plan_row_moments
from skdp.algorithms.temperature import plan_temperature
from skdp.mechanisms import NoiseSource
from skdp.privacy import PrivacyBudget
from skdp.privacy.accountants import tightest_epsilon
from skdp.privacy.events import ComposedEvent, GaussianEvent, Neighbouring
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

REPLACE, ADD = Neighbouring.REPLACE_ONE, Neighbouring.ADD_REMOVE
RELATIONS = pytest.mark.parametrize("relation", list(Neighbouring))


def objective(loss, n, d, relation=REPLACE, intercept=0.1):
    ratio = 1.0 if relation is REPLACE else 10.0
    design = Design(1.01, d + bool(intercept), n, 4096, ratio, intercept)
    return Objective(EmpiricalRisk(loss), design, neighbouring=relation)


def plan_of(loss, n, d, epsilon, delta, relation=REPLACE, **options):
    budget = PrivacyBudget(epsilon, delta)
    return plan_noisy_gradient_descent(objective(loss, n, d, relation), budget, **options)


def seeded(seed=0):
    return NoiseSource(np.random.default_rng(seed).bytes)


class Silent(PlainNoise):
    """No noise."""

    def standard_normal(self, size):
        return np.zeros(size)


class Scales(Silent):
    """No noise; remembers the scales that it should have."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def add_normal(self, value, scale):
        self.seen.append(scale)
        return super().add_normal(value, scale)


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
def test_reference_plans(case, expected):
    n, d, classes, epsilon, delta, relation = case
    losses = {1: HalfSquaredLoss(1.0), 2: LogisticLoss()}
    loss = losses.get(classes) or SoftmaxLoss(classes)
    options = {"temperature_share": 0.0, "moments_share": 0.0}
    options["damping"] = 2.0 if classes == 1 else 0.2
    plan = plan_of(loss, n, d, epsilon, delta, relation, **options)
    # the numbers of the page are those of longer clips and of schedules that are not brief
    plan = replace(plan, clip=max(plan.clip, 0.3 if classes == 1 else 0.25))
    schedule, k = replace(plan.schedule, is_brief=False), 2 if relation is REPLACE else 1
    mu = gaussian_mu(epsilon, delta)
    noise = schedule.multipliers * plan.sensitivity
    curvature = 0.8 / d * {1: 1.0, 2: 0.25}.get(classes, 1.0 / classes)
    unit = plan.sensitivity * plan.n_blocks / n
    found = (
        k * math.sqrt(d) / (n * mu),
        1.0 - (plan.mu / mu) ** 2,
        plan.clip,
        schedule.n_steps,
        schedule.step_size,
        schedule.momentum,
        noise[0],
        noise[-1],
        schedule.average_variance(curvature, unit),
    )
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


@pytest.mark.parametrize("is_brief", [False, True])
@pytest.mark.parametrize(("n_blocks", "n_steps"), [(1, 40), (3, 60), (7, 70), (10, 150)])
def test_steps_of_every_block_cost_the_same(n_blocks, n_steps, is_brief):
    schedule = Schedule(n_steps, n_blocks, 1.0, 0.9, 0.7, is_brief=is_brief)
    for k in range(n_blocks):
        cost = (schedule.multipliers[k::n_blocks] ** -2.0).sum()
        assert cost == pytest.approx(0.49, rel=1e-12)


@pytest.mark.parametrize("is_preconditioned", [False, True])
@pytest.mark.parametrize("horizon", [6.0, 60.0, 2000.0])
def test_noise_of_brief_schedules_is_nearly_that_of_one_release(horizon, is_preconditioned):
    """No split of mu over the steps has less noise than all of it for the sum of their weights."""
    schedule = plan_schedule(
        horizon, 0.4, rate=3.0, n_blocks=1, products=1.0, is_preconditioned=is_preconditioned
    )
    brief = replace(schedule, is_brief=True)
    curvatures = np.array([1e-6, 0.5, 2.0, 5.0]) / schedule.path
    least = np.abs(schedule.noise_weights(curvatures)).sum(axis=0) / 0.4
    found, other = (
        np.sqrt([each.average_variance(h, 1.0) for h in curvatures]) for each in (brief, schedule)
    )
    assert (found > (1.0 - 1e-12) * least).all()
    assert (found < 1.04 * least).all()
    assert (found[:3] < other[:3]).all()


def test_log_odds_and_squares_of_much_noise_have_brief_schedules():
    assert plan_of(LogisticLoss(), 8000, 20, 10.0, 1e-5).schedule.is_brief
    assert plan_of(HalfSquaredLoss(1.0), 353, 10, 0.1, 1e-5).schedule.is_brief
    assert not plan_of(HalfSquaredLoss(1.0), 8000, 20, 10.0, 1e-5).schedule.is_brief


def test_variance_of_the_average_is_that_of_simulated_steps():
    """The recursion against the linear map of the noise, formed step by step."""
    schedule, h = plan_schedule(500.0, 0.4, rate=3.0, n_blocks=2, products=1.0), 0.21
    T = schedule.n_steps
    total = np.zeros(T)
    for source in range(T):
        w = v = average = 0.0
        for t in range(T):
            v = schedule.momentum * v + h * w + (t == source)
            w -= schedule.step_size * v
            average += w / T
        total[source] = average * schedule.multipliers[source] * 0.3
    assert schedule.average_variance(h, 0.3) == pytest.approx((total**2).sum(), rel=1e-10)


@pytest.mark.parametrize(("loss", "limit"), [(LogisticLoss(), 0.85), (SoftmaxLoss(4), 1.0)])
def test_margins_are_shrunk_by_the_share_of_the_signal(loss, limit):
    plan = plan_of(loss, 2000, 10, 1.0, 1e-6)
    assert plan.shrinkage(10.0, 8, 0.5) == pytest.approx(limit * 0.6**0.3)
    assert plan.shrinkage(0.0, 8, 0.5) == pytest.approx(limit * 0.05**0.3)
    squares = plan_of(HalfSquaredLoss(1.0), 10**6, 10, 1.0, 1e-6)
    noisy = plan_of(HalfSquaredLoss(1.0), 100, 10, 0.3, 1e-6)
    assert squares.shrinkage(10.0, 8, 0.5) == pytest.approx(0.6)
    assert noisy.shrinkage(10.0, 8, 0.5) == pytest.approx(0.6**2)
    assert squares.shrinkage(1.0, 8, 0.5) == 0.0


def test_the_mean_of_targets_is_shrunk_by_its_noise():
    """As the mean of a normal law with variance 0.05, in units of the squared bound."""
    records = Records(np.zeros((500, 3)), 1.0, 0.1, targets=np.full(500, 0.8))
    goal = Objective(EmpiricalRisk(HalfSquaredLoss(2.0)), Design.of(records))
    for epsilon in (0.3, 1e6):
        plan = plan_noisy_gradient_descent(goal, PrivacyBudget(epsilon, 1e-6))
        deviation = plan.centering.mechanism.noise_scale / 500
        found = plan.prepare(records, Silent()).offsets[0]
        assert found == pytest.approx(0.8 * 0.05 / (0.05 + deviation**2), rel=1e-6)
    assert found == pytest.approx(0.8, rel=1e-4)


def test_clipping_norms_fall_with_the_noise_down_to_a_limit():
    norms = [plan_of(LogisticLoss(), n, 20, 1.0, 1e-6).clip for n in (30, 100, 1000, 3000, 10**7)]
    assert norms == sorted(norms)
    assert norms[0] == 0.05 and norms[-1] == 1.0
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


def test_means_of_rows_are_left_out_where_they_would_be_noise():
    def release(loss, n, relation=REPLACE):
        return plan_of(loss, n, 30, 0.1, 1e-5, relation).centering

    for loss, n in [(LogisticLoss(), 900), (SoftmaxLoss(4), 900), (HalfSquaredLoss(1.0), 900)]:
        with_rows, without = release(loss, n), release(loss, n // 2)
        assert with_rows.moves_rows and not without.moves_rows
        size = with_rows.describe(REPLACE).dimension - without.describe(REPLACE).dimension
        assert size == 30
        assert without.mechanism.sensitivity <= 0.75 * with_rows.mechanism.sensitivity
        assert release(loss, n // 2, ADD).moves_rows
        assert release(loss, n // 4) is None
    centering = release(LogisticLoss(), 480).release(
        Records(np.full((480, 30), 0.1), 1.0, 0.1, targets=np.r_[np.ones(120), np.zeros(360)]),
        Silent(),
    )
    assert (centering.mean == 0.0).all()
    assert centering.offsets[0] < -0.3


def test_a_released_variance_changes_the_steps_and_not_their_cost():
    plan = plan_of(HalfSquaredLoss(1.0), 500, 10, 1.0, 1e-6)
    other = replace(plan, target_variance=0.01)
    assert other.schedule.n_steps != plan.schedule.n_steps
    assert other.event == plan.event
    for each in (plan, other):
        assert (each.schedule.multipliers**-2.0).sum() == pytest.approx(plan.mu**2)


# ------------------------------------------------------------------------------------------ lemmas


def _means(loss, design, relation, rows, targets, moves_rows):
    """What the release of the means is made of, without noise."""
    plan = plan_centering(loss, design, relation, 1.0, moves_rows)
    seen = []

    records = Records(rows, 1.0, design.intercept, targets=targets)
    release = plan.mechanism.release
    object.__setattr__(plan.mechanism, "release", lambda v, noise: (seen.append(v), v)[1])
    plan.release(records, Silent())
    object.__setattr__(plan.mechanism, "release", release)
    return seen[0], plan.mechanism.sensitivity


@RELATIONS
@pytest.mark.parametrize(("intercept", "moves_rows"), [(0.0, True), (0.1, True), (0.1, False)])
@pytest.mark.parametrize(
    ("loss", "targets"),
    [
        (LogisticLoss(), [0.0, 1.0]),
        (SoftmaxLoss(3), [0, 1, 2]),
        (HalfSquaredLoss(2.0), [-2.0, 2.0, 0.0]),
        (huber_loss(2.0, 0.5), [-2.0, 2.0, 0.0]),
    ],
    ids=["binary", "classes", "squares", "huber"],
)
def test_lemma_1_no_record_moves_the_means_further(loss, targets, relation, intercept, moves_rows):
    """Opposite rows of norm 1 attain the bound, where the labels can; random ones stay below."""
    rng = np.random.default_rng(0)
    design = Design(1.01, 3 + bool(intercept), 1, 256, 1.0, intercept)
    x = np.array([0.6, 0.8, 0.0])
    rows = [x, -x, 0.0 * x, *(rng.normal(size=3) * 10.0 ** rng.uniform(-3, 3) for _ in range(20))]
    worst = 0.0
    values = []
    for row in rows:
        for target in targets:
            record = np.array([row]), np.array([target])
            value, sensitivity = _means(loss, design, relation, *record, moves_rows)
            values.append(value)
    for value in values:
        others = values if relation is REPLACE else [np.zeros_like(value)]
        worst = max(worst, *(float(np.linalg.norm(value - other)) for other in others))
    assert worst <= sensitivity
    assert worst >= (1.0 - 1e-6) * sensitivity


@RELATIONS
def test_the_noise_of_the_means_covers_rounding(relation):
    """Lemma 4: at n = 1e9 the rounding of sums is far above the slack of 1e-9."""
    norm = math.sqrt(5.0 if relation is REPLACE else 1.5)
    design = objective(LogisticLoss(), 10**9, 3, relation).design
    rounding = sum_rounding(design, norm)
    assert rounding > 1e-3
    plan, noise = plan_centering(LogisticLoss(), design, relation, 0.5), Scales()
    plan.release(Records(np.eye(3), 1.0, 0.1, targets=np.zeros(3)), noise)
    assert noise.seen == [pytest.approx(2.0 * (norm * (1.0 + 1e-9) + rounding), rel=1e-12)]


def test_the_noise_of_a_step_covers_rounding():
    """Lemma 4: rows that are not centered are longer; factors of groups are rounded as well."""
    plan = replace(plan_of(LogisticLoss(), 10**9, 2, 1.0, 1e-6), largest_factor=3.0, n_blocks=1)
    records = Records(np.eye(2), 1.0, 0.1, targets=np.ones(2))
    rows = CenteredRows(records, Centering(np.array([0.6, 0.8]), 0.1, np.zeros(1), 0.15))
    assert rows.norm_bound == pytest.approx(20.2)
    rounding = sum_rounding(plan.objective.design, plan.clip * (20.2 / 0.2) * 3.0)
    assert rounding > 1e-3
    sensitivity = 2.0 * plan.clip * 3.0 * (1.0 + 1e-9) + rounding
    noise = Scales()
    Descent(plan, rows, np.zeros(1), None).weights(noise)
    assert noise.seen[0] == pytest.approx(sensitivity * plan.schedule.multipliers[0], rel=1e-12)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_centered_rows_are_those_of_the_formula(kind, dtype):
    rng = np.random.default_rng(1)
    X = (rng.normal(size=(23, 4)) * (rng.random((23, 4)) < 0.6)).astype(dtype)
    records = Records(kind(X), 1.5, 0.1, targets=np.zeros(23))
    centering = Centering(np.array([0.2, -0.1, 0.3, 0.0]), 0.4, np.array([0.3]), 0.15)
    lengths = np.maximum(np.linalg.norm(X.astype(float), axis=1, keepdims=True), 1.5)
    A = (X.astype(float) / lengths - centering.mean) / 0.4
    A = np.column_stack([A, np.full(23, 0.2)])
    w, r = rng.normal(size=(2, 5)), rng.normal(size=23)
    for n_blocks in (1, 3):
        rows = CenteredRows(records, centering, n_blocks)
        for k in range(n_blocks):
            mine = slice(k, None, n_blocks)
            (block,) = rows.block(k)
            assert np.allclose(block.margins(rows.weights(w)), A[mine] @ w.T, atol=1e-12)
            sums = rows.sums(block.pull_back(r[mine]))
            assert np.allclose(sums[0], r[mine] @ A[mine], atol=1e-12)
            norms = np.linalg.norm(A[mine], axis=1)
            assert np.allclose(rows.norms[k][0], norms, rtol=1e-9)
            assert (rows.norms[k][0] >= norms * (1.0 - 1e-13)).all()
        assert rows.norm_bound >= max(norms.max() for norms in (np.linalg.norm(A, axis=1),))


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
            mean, 10.0 ** rng.uniform(-3, 0), rng.normal(size=loss.n_outputs), 0.15
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
    centering = Centering(np.array([0.9, 0.0]), 0.2, np.zeros(1), 0.15)
    row, w = np.array([-1.0, 0.0]), np.array([[50.0, 0.0, 0.0]])
    value = _sum_of(row, 1.0, LogisticLoss(), centering, w, 0.25)
    assert np.linalg.norm(value) == pytest.approx(0.25)
    assert np.linalg.norm([(-1.0 - 0.9) / 0.2, 0.2]) > 9.0  # times its residual of 1


@RELATIONS
@pytest.mark.parametrize("loss", [LogisticLoss(), SoftmaxLoss(3)], ids=repr)
def test_no_record_moves_the_temperature_further(loss, relation):
    rng = np.random.default_rng(3)
    centering = Centering(np.array([0.3, 0.1]), 0.05, rng.normal(size=loss.n_outputs), 0.15)
    design = Design(1.01, 3, 1, 256, 1.0 if relation is REPLACE else 10.0, 0.1)
    plan = plan_temperature(loss, design, relation, 1.0)
    w = 10.0 * rng.normal(size=(loss.n_outputs, 3))
    sums, limits = [], []
    for _ in range(60):
        row = rng.normal(size=2) * 10.0 ** rng.uniform(-1, 1)
        target = rng.integers(loss.n_margins + 1) % 2
        target = int(target) if isinstance(loss, SoftmaxLoss) else float(target)
        records = Records(np.array([row]), 1.0, 0.1, targets=np.array([target]))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                "skdp.mechanisms.GaussianMechanism.release",
                lambda this, value, noise: (
                    sums.append(value),
                    limits.append(this.sensitivity),
                    value,
                )[2],
            )
            plan.release(CenteredRows(records, centering), w, centering.offsets, 0.8, Silent())
    assert max(map(np.linalg.norm, sums)) <= 1.0 + 1e-12
    gaps = [np.linalg.norm(a - b) for a in sums for b in sums]
    assert max(gaps) > 1.0
    k = 2.0 if relation is REPLACE else 1.0
    assert k <= min(limits) and max(limits) <= k * (1.0 + 1e-6)


def test_the_noise_of_the_temperature_covers_rounding():
    design = objective(LogisticLoss(), 10**9, 2).design
    plan = plan_temperature(LogisticLoss(), design, REPLACE, 1.0)
    rounding = sum_rounding(design, 1.0)
    assert rounding > 1e-3
    assert plan.mechanism.sensitivity == pytest.approx(2.0 * (1.0 + 1e-9) + rounding, rel=1e-12)


# ------------------------------------------------------------------------------- second moments


def _moments_of(plan, row, centering):
    """The value that is released for one record, and the sensitivity that goes with it."""
    seen = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "skdp.mechanisms.GaussianMechanism.release",
            lambda this, value, noise: (seen.append((value, this.sensitivity)), value)[1],
        )
        rows = CenteredRows(Records(np.array([row]), 1.0, plan.design.intercept), centering)
        (plan.largest if plan.is_projected else plan.inverse)(rows, Silent())
    return seen[0]


@RELATIONS
@pytest.mark.parametrize("is_projected", [False, True])
@pytest.mark.parametrize("intercept", [0.0, 0.1])
def test_lemma_5_no_record_moves_the_second_moments_further(relation, is_projected, intercept):
    """Orthogonal long rows attain the bound; rows near the mean, whose norms cancel, keep it."""
    rng, d = np.random.default_rng(5), 8
    ratio = 1.0 if relation is REPLACE else 10.0
    design = Design(1.01, d + bool(intercept), 1, 256, ratio, intercept)
    plan = plan_row_moments(design, relation, 1e3, is_projected)
    assert plan.is_projected is is_projected
    mean = np.array([0.5, -0.3] + 6 * [0.0]) * bool(intercept)
    centering = Centering(mean, 0.05, np.zeros(1), 0.15)
    rows = [*np.eye(d), -np.eye(d)[0], mean, mean * (1.0 + 1e-13)]
    rows += [rng.normal(size=d) * 10.0 ** rng.uniform(-3, 3) for _ in range(30)]
    released = [_moments_of(plan, row, centering) for row in rows]
    values, limit = [value for value, _ in released], released[0][1]
    others = values if relation is REPLACE else [np.zeros_like(values[0])]
    worst = max(float(np.linalg.norm(a - b)) for a in values for b in others)
    assert worst <= limit
    assert worst >= (0.9 if relation is REPLACE else 0.999) * limit


@pytest.mark.parametrize("is_projected", [False, True])
def test_the_noise_of_second_moments_covers_rounding(is_projected):
    """Lemma 5: terms are formed of products of rows before they are shortened."""
    design = objective(LogisticLoss(), 10**9, 4).design
    plan = plan_row_moments(design, REPLACE, 1e3, is_projected)
    centering = Centering(np.array([0.6, 0.8, 0.0, 0.0]), 0.1, np.zeros(1), 0.15)
    _, sensitivity = _moments_of(plan, np.eye(4)[2], centering)
    rounding = sum_rounding(design, 2.0 * (1.0 + 2.0 * 20.2 if is_projected else 20.2**2))
    assert rounding > 1e-3
    assert sensitivity == pytest.approx(2.0**0.5 * (1.0 + 1e-9) + rounding, rel=1e-12)


@pytest.mark.parametrize("value", [1e308, -1e308, math.inf, math.nan])
def test_infinite_noise_in_the_second_moments_breaks_nothing(value):
    class Huge(PlainNoise):
        def standard_normal(self, size):
            return np.full(size, value)

    records = Records(np.eye(3), 1.0, 0.1)
    rows = CenteredRows(records, Centering.unknown(3, 1))
    with np.errstate(all="ignore"):
        for is_projected in (False, True):
            plan = plan_row_moments(Design.of(records), REPLACE, 1e3, is_projected)
            out = plan.largest(rows, Huge()) if is_projected else plan.inverse(rows, Huge())[0]
            assert np.isfinite(out).all()


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_second_moments_are_those_of_the_centered_rows(kind):
    rng = np.random.default_rng(6)
    X = rng.normal(size=(5000, 4)) * [1.0, 0.3, 0.1, 0.03] + 0.5
    records = Records(kind(X), 2.0, 0.1)
    bounded = X / np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True) / 2.0)
    mean = bounded.mean(axis=0) / 2.0
    rows = CenteredRows(records, Centering(mean, 0.5, np.zeros(1), 0.15))
    A = np.column_stack([(bounded / 2.0 - mean) / 0.5, np.full(len(X), 0.2)])
    A /= np.maximum(1.0, np.linalg.norm(A, axis=1, keepdims=True))
    plan = plan_row_moments(Design.of(records), REPLACE, 1e6)
    exact = np.linalg.inv(A.T @ A / len(X) + plan.noise * np.eye(5))
    assert np.allclose(plan.inverse(rows, Silent())[0], exact, rtol=1e-6)
    largest = np.linalg.eigvalsh(A.T @ A / len(X))[-1]
    plan = plan_row_moments(Design.of(records), REPLACE, 1e6, is_projected=True)
    # 5 features in 5 coordinates: at worst all of them share one
    assert 0.5 * largest <= plan.largest(rows, Silent()) <= 5.0 * largest


def test_which_second_moments_are_released():
    """All where their noise is small and features are few; a projection where steps are missing."""
    few, many = plan_of(LogisticLoss(), 80_000, 100, 1.0, 1e-6), HalfSquaredLoss(1.0)
    assert few.is_preconditioned
    assert few.schedule.n_steps <= 16
    projected = plan_of(many, 100_000, 10_000, 1.0, 1e-6)
    assert projected.moments.is_projected
    assert not projected.is_preconditioned
    assert plan_of(LogisticLoss(), 455, 30, 1.0, 1e-6).moments is None
    for plan in (few, projected):  # the parts of the budget add up to it
        event = ComposedEvent(tuple(release.event for release in plan.releases))
        assert tightest_epsilon(event, 1e-6) == pytest.approx(1.0, rel=1e-6)


def test_steps_are_fewer_and_models_better_on_rows_of_decaying_spectrum():
    """R2 of least squares beside that of plain steps, which cannot learn the small directions."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(12_000, 40)) / np.arange(1, 41) ** 1.5
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    y = 0.3 * (X / X.std(axis=0)) @ rng.normal(size=40) / 40**0.5
    y = np.clip(y + 0.1 * rng.normal(size=len(X)), -1.0, 1.0)
    records = Records(X[:10_000], 1.0, 0.1, targets=y[:10_000])
    goal = Objective(EmpiricalRisk(HalfSquaredLoss(1.0)), Design.of(records))
    scores, steps = [], []
    for share in (None, 0.0):
        plan = plan_noisy_gradient_descent(goal, PrivacyBudget(10.0, 1e-6), moments_share=share)
        w = plan.run(records, Run(noise=seeded())).point
        errors = y[10_000:] - X[10_000:] @ w[:-1] - 0.1 * w[-1]
        scores.append(1.0 - np.mean(errors**2) / y[10_000:].var())
        steps.append(plan.schedule.n_steps)
    assert steps[0] < steps[1] / 4
    assert scores[0] > scores[1] + 0.1


# ------------------------------------------------------------------------------------------- guard


@pytest.mark.parametrize("value", [1e308, math.inf, math.nan])
@pytest.mark.parametrize("row", [[0.0, 0.0], [1.0, 1e-300]])
def test_no_release_makes_a_record_count_for_more(value, row):
    """After the guard every record meets finite weights: its clipped gradient keeps its bound."""
    records = Records(np.array([row]), 1.0, 0.1, targets=np.array([1.0]))
    centering = Centering(np.zeros(2), 1e-3, np.zeros(1), 0.15)
    rows, seen = CenteredRows(records, centering), []

    class Huge(PlainNoise):
        def standard_normal(self, size):
            return np.full(size, value)

    def total(w, k):
        seen.append(w)
        out = clipped_sum(rows, LogisticLoss(), w, centering.offsets, 0.25, k)
        assert np.linalg.norm(out) <= 0.25 * (1.0 + 1e-9)
        return out

    schedule = Schedule(12, 1, 8.0, 0.9, 1.0)
    with np.errstate(all="ignore"):
        out = descend(schedule, total, lambda w: 0.25, (1, 3), 1, Huge())
    assert len(seen) == 12
    assert all(np.linalg.norm(w) <= WEIGHT_LIMIT * (1.0 + 1e-12) for w in [*seen, out])


@pytest.mark.parametrize("unit", [1.0, 1e-3])
def test_no_record_meets_weights_beyond_the_limit(unit):
    lengths = []

    def total(w, k):
        lengths.append(float(np.linalg.norm(w)))
        return np.zeros((1, 3))

    descend(Schedule(12, 1, 8.0, 0.9, 1e-9), total, lambda w: 1.0, (1, 3), 1, seeded(), unit)
    assert lengths == [0.0, *11 * [pytest.approx(1e6 * unit)]]


@pytest.mark.parametrize("value", [1e308, math.inf, math.nan])
def test_a_descent_whose_weights_are_not_finite_starts_again(value):
    seen, normals = [], iter([value, *11 * [0.0]])

    class FirstHuge(PlainNoise):
        def standard_normal(self, size):
            return np.full(size, next(normals))

    def total(w, k):
        seen.append(w.item())
        return np.ones((1, 1))

    with np.errstate(all="ignore"):
        descend(Schedule(12, 1, 8.0, 0.5, 1.0), total, lambda w: 1.0, (1, 1), 1, FirstHuge())
    assert seen[:5] == [0.0, 0.0, -8.0, -20.0, -34.0]  # 8 times 1, 1.5 and 1.75


def test_the_noise_of_a_step_grows_with_the_weights_under_add_remove():
    """Records change their positions, so computed margins differ in the last bits."""
    scales = []

    for relation in Neighbouring:
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
                lambda schedule, total, sensitivity, shape, n, noise, unit, inverse: (
                    scales.append([sensitivity(np.full(shape, w)) for w in (0.0, 1e6)]),
                    np.zeros(shape),
                )[1],
            )
            plan.run(records, Run(noise=Silent()))
    replaced, added = scales
    assert replaced[0] == replaced[1] > 0.0
    assert added[1] > added[0] * (1.0 + 1e-9)


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


def test_the_rows_are_not_copied():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(20000, 3))
    records = Records(X, 1.0, 0.1, targets=X[:, 0])
    rows = CenteredRows(records, Centering.unknown(3, 1), 2)
    assert all(np.shares_memory(block.matrix, X) for k in range(2) for block in rows.block(k))


@pytest.mark.parametrize("loss", [LogisticLoss(), HalfSquaredLoss(1.0)], ids=repr)
def test_without_an_intercept_nothing_is_moved(loss):
    """Rows that are all alike: a model through the origin must not learn a constant."""
    X = np.tile([[1.0, 0.0]], (5000, 1))
    X[::2] *= -1.0
    w = fitted(loss, X, np.ones(5000), 10.0, intercept=0.0)
    assert abs(w[0, 0]) < 0.1  # no column has the second coefficient to learn

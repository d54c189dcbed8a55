"""Centering: no record moves the means further, and what is made of them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from plain_noise import Scales, Silent
from public_objectives import ADD, RELATIONS, REPLACE, objective

from skdp.algorithms.core.centered_rows import sum_rounding
from skdp.algorithms.core.levels import Level
from skdp.algorithms.legacy_solves.centering import plan_centering, share_of_ones
from skdp.algorithms.legacy_solves.plan import plan_preparation
from skdp.algorithms.statistics.margins import PRIOR_VARIANCE
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


def prepared(goal, epsilon, delta=1e-6):
    """The plan of what is learnt before solves."""
    level = Level(gaussian_mu(epsilon, delta))
    return plan_preparation(goal.risk.loss, goal.design, goal.neighbouring, level)


def test_means_of_rows_are_left_out_where_they_would_be_noise():
    def release(loss, n, relation=REPLACE):
        return prepared(objective(loss, n, 30, relation), 0.1, 1e-5).centering

    for loss, n in [(LogisticLoss(), 900), (SoftmaxLoss(4), 900), (HalfSquaredLoss(1.0), 900)]:
        with_rows, without = release(loss, n), release(loss, n // 2)
        assert with_rows.moves_rows and not without.moves_rows
        size = with_rows.describe().dimension - without.describe().dimension
        assert size == 30
        assert without.sum.bound() <= 0.75 * with_rows.sum.bound()
        assert release(loss, n // 2, ADD).moves_rows
        assert (release(loss, n // 4) is None) == (loss.target_bound == 0.0)  # numbers are clipped
    centering = release(LogisticLoss(), 480).release(
        Records(np.full((480, 30), 0.1), 1.0, 0.1, targets=np.r_[np.ones(120), np.zeros(360)]),
        Silent(),
    )
    assert (centering.mean == 0.0).all()
    assert centering.offsets[0] < -0.3


def test_the_mean_of_targets_is_shrunk_by_its_noise():
    """As the mean of a normal law with variance 0.05, in units of the squared bound."""
    records = Records(np.zeros((500, 3)), 1.0, 0.1, targets=np.full(500, 0.8))
    goal = Objective(EmpiricalRisk(HalfSquaredLoss(2.0)), Design.of(records))
    for epsilon in (5.0, 1e6):
        plan = prepared(goal, epsilon)
        assert plan.centering.target_clip == 1.0
        deviation = plan.centering.sum.mechanism().noise_scale / 500
        found = plan.prepare(records, Silent()).centering.offsets[0]
        assert found == pytest.approx(0.8 * 0.05 / (0.05 + deviation**2), rel=1e-6)
    assert found == pytest.approx(0.8, rel=1e-4)


@RELATIONS
def test_targets_are_clipped_where_their_mean_would_be_noise(relation):
    """To at least a quarter of their bound; a normal law about 0 keeps its small mean."""
    rng, plans = np.random.default_rng(0), {}
    for epsilon in (0.1, 1.0, 8.0):
        plan = prepared(objective(HalfSquaredLoss(2.0), 500, 3, relation), epsilon).centering
        plans[epsilon] = plan
        # with squares of targets, as released for clips above a half
        norm = math.sqrt(8.0 if relation is REPLACE else 53 / 16)
        deviation = plan.sum.mechanism().noise_multiplier * norm / 500
        assert plan.target_clip == pytest.approx(min(max(0.06 / deviation, 0.25), 1.0), rel=1e-6)
    clips = [plan.target_clip for plan in plans.values()]
    assert clips[0] == 0.25 and 0.25 < clips[1] < 1.0 == clips[2]
    y = 2.0 * (0.1 + math.sqrt(0.15) * rng.normal(size=200_000))
    records = Records(np.zeros((200_000, 3)), 1.0, 0.1, targets=y.clip(-2.0, 2.0))
    design = objective(HalfSquaredLoss(2.0), 200_000, 3, relation).design
    for clip in (0.25, 0.6):
        plan = plan_centering(HalfSquaredLoss(2.0), design, relation, 10.0)
        release = replace(plan, target_clip=clip).release(records, Silent())
        assert release.offsets[0] == pytest.approx(0.2, abs=0.01)
        assert (release.target_variance == PRIOR_VARIANCE) == (clip < 0.5)
    noisy = plans[0.1]
    deviation = 0.25 * noisy.sum.mechanism().noise_scale / 500
    left = math.erf(0.25 / math.sqrt(2 * 0.15))
    found = noisy.release(Records(np.zeros((500, 3)), 1.0, 0.1, targets=np.ones(500)), Silent())
    expected = 2.0 * 0.25 * left * 0.05 / (left**2 * 0.05 + deviation**2)
    assert found.offsets[0] == pytest.approx(expected, rel=1e-9)


@RELATIONS
def test_squares_of_clipped_targets_are_left_out_where_they_tell_little(relation):
    """Then a record adds less; the variance does not jump where clipping begins."""
    loss, design = HalfSquaredLoss(2.0), objective(HalfSquaredLoss(2.0), 500, 3, relation).design
    little, much = (plan_centering(loss, design, relation, mu) for mu in (1.0, 1e-3))
    assert little.target_clip == 1.0 and much.target_clip == 0.25
    dimensions = [plan.describe().dimension for plan in (little, much)]
    assert dimensions == [6 + (relation is ADD), 5 + (relation is ADD)]
    squares = [plan.sum.bound() ** 2 for plan in (little, much)]
    assert squares == pytest.approx(
        [8.0, 8.0] if relation is REPLACE else [53 / 16, 37 / 16], rel=1e-6
    )
    y = np.random.default_rng(0).uniform(-0.5, 0.5, size=500)
    records = Records(np.zeros((500, 3)), 1.0, 0.1, targets=y)
    found = [
        replace(little, target_clip=clip).release(records, Silent()).target_variance
        for clip in (1.0, 1.0 - 1e-9, 0.75, 0.5 + 1e-9)
    ]
    assert found[1] == pytest.approx(found[0], rel=1e-3)
    assert found[0] < found[2] < found[3] == pytest.approx(0.15, rel=1e-4)


def test_targets_without_an_intercept_are_not_clipped():
    goal = objective(HalfSquaredLoss(1.0), 500, 3, intercept=0.0)
    assert prepared(goal, 0.1).centering.target_clip == 1.0


def _means(loss, design, relation, rows, targets, moves_rows):
    """What the release of the means is made of, without noise."""
    plan = plan_centering(loss, design, relation, 1.0, moves_rows)
    seen = []

    records = Records(rows, 1.0, design.intercept, targets=targets)
    object.__setattr__(plan.sum, "release", lambda v, noise: (seen.append(v) or v, 1.0))
    plan.release(records, Silent())
    return seen[0], plan.sum.bound()


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
    design = Design(1.01, 3 + bool(intercept), 1, 1.0, intercept)
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


def added(loss, n_public, intercept=0.1, mu=1e6, moves_rows=True):
    """The release for add/remove, of which n_public records are expected."""
    design = objective(loss, n_public, 3, ADD, intercept).design
    return plan_centering(loss, design, ADD, mu, moves_rows)


@pytest.mark.parametrize(("intercept", "moves_rows"), [(0.0, True), (0.1, True), (0.1, False)])
@pytest.mark.parametrize("loss", [LogisticLoss(), SoftmaxLoss(3), HalfSquaredLoss(2.0)], ids=repr)
def test_a_count_makes_means_of_sums(loss, intercept, moves_rows):
    """Whatever the public number of records is; its noise is small here."""
    rng = np.random.default_rng(0)
    X = 0.4 + 0.1 * rng.uniform(-1.0, 1.0, (2000, 3))
    classes = rng.choice(3, 2000, p=[0.7, 0.2, 0.1])
    targets = classes if loss.n_margins > 1 else np.minimum(classes, 1).astype(float)
    records = Records(X, 1.0, intercept, targets=targets)
    found = [
        added(loss, n, intercept, moves_rows=moves_rows).release(records, Silent())
        for n in (2000, 1000, 4000, 250, 16_000)
    ]
    for each in found:
        assert each.n_records == pytest.approx(2000, rel=1e-9)
        for name in ("mean", "scale", "offsets", "target_variance"):
            one, other = np.atleast_1d(getattr(each, name)), getattr(found[0], name)
            np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-6)
    if intercept and moves_rows:
        np.testing.assert_allclose(found[0].mean, X.mean(axis=0), rtol=1e-3)
        spread = ((X - X.mean(axis=0)) ** 2).sum(axis=1).mean()
        assert found[1].scale == pytest.approx(math.sqrt(spread), rel=1e-2)


def test_a_public_number_that_is_not_contradicted_has_no_noise():
    plan = added(LogisticLoss(), 1000, mu=0.1)
    scale = plan.sum.mechanism().noise_scale
    error = 2.0 * scale
    assert 20.0 < error < 40.0
    for count, expected in {
        1000.0: 1000.0,
        1000.0 + 1.9 * error: 1000.0,
        1000.0 - 1.9 * error: 1000.0,
        1000.0 + 2.1 * error: 1000.0 + 2.1 * error,
        1000.0 - 2.1 * error: 1000.0 - 2.1 * error,
        1e9: 10_000.0,
        -1e9: 100.0,
        math.inf: 10_000.0,
        math.nan: 1000.0,
    }.items():
        assert plan._n_records(0.5 * count, scale) == pytest.approx(expected, nan_ok=False)
    assert plan_centering(LogisticLoss(), plan.sum.design, REPLACE, 0.1).has_count is False


def test_records_of_any_norm_keep_to_the_sensitivity_with_a_count():
    """x + b^2 (x - 1/2)^2 + c^2 is convex in x = |u|^2: the ends are the largest."""
    plans = {moves: added(HalfSquaredLoss(1.0), 10, mu=1.0, moves_rows=moves) for moves in (0, 1)}
    for moves, plan in plans.items():
        norms = []
        for x in np.linspace(0.0, 1.0, 101):
            rows = np.array([[math.sqrt(x), 0.0, 0.0]])
            value, sensitivity = _means(
                HalfSquaredLoss(1.0), plan.sum.design, ADD, rows, np.ones(1), bool(moves)
            )
            norms.append(float(np.linalg.norm(value)) / sensitivity)
        assert max(norms) <= 1.0 and max(norms[0], norms[-1]) == max(norms)
        assert max(norms) == pytest.approx(1.0, abs=1e-6)


def test_the_share_of_a_rare_class_stays_small():
    """Posterior means under a uniform prior: of cut normal laws; noise may be anything."""
    expected = {
        (0.01, 1e-3): 0.01,
        (0.0, 0.05): 0.0399,
        (0.01, 0.056): 0.0485,
        (0.01, 0.15): 0.1234,
    }
    for given, share in expected.items():
        assert share_of_ones(*given) == pytest.approx(share, abs=6e-5)
    noisy = np.linspace(-1.0, 2.0, 41)
    for deviation in (1e-7, 1e-3, 0.05, 0.3, 1e4):
        shares = np.array([share_of_ones(float(x), deviation) for x in noisy])
        assert (np.diff(shares) >= -1e-12).all()
        np.testing.assert_allclose(shares + shares[::-1], 1.0, atol=1e-9)
        assert shares.min() >= 0.005 and shares.max() <= 0.995
        assert share_of_ones(0.5, deviation) == pytest.approx(0.5, abs=1e-9)
    for noisy in (math.inf, -math.inf, math.nan):
        assert share_of_ones(noisy, 0.1) == 0.5
    assert share_of_ones(1e300, 0.1) > 0.9


def test_the_released_share_minimises_the_expected_log_loss():
    """Against the normal prior: less excess over shares from 1 to 50 %."""
    rng = np.random.default_rng(0)

    def excess(rule):
        total = 0.0
        for p in (0.01, 0.03, 0.1, 0.2, 0.3, 0.4, 0.5):
            q = np.array([rule(p + 0.1 * z) for z in rng.standard_normal(400)])
            total += (p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))).mean()
        return total / 7

    def of_normal_prior(noisy):
        return min(max(0.5 + (noisy - 0.5) * 0.04 / 0.05, 0.02), 0.98)

    assert excess(lambda noisy: share_of_ones(noisy, 0.1)) < 0.85 * excess(of_normal_prior)


@RELATIONS
def test_the_noise_of_the_means_covers_rounding(relation):
    """Lemma 4: at n = 1e9 the rounding of sums is far above the slack of 1e-9."""
    norm = math.sqrt(6.25 if relation is REPLACE else 30 / 16)
    design = objective(LogisticLoss(), 10**9, 3, relation).design
    rounding = sum_rounding(design, norm)
    assert rounding > 1e-3
    plan, noise = plan_centering(LogisticLoss(), design, relation, 0.5), Scales()
    plan.release(Records(np.eye(3), 1.0, 0.1, targets=np.zeros(3)), noise)
    assert noise.seen == [pytest.approx(2.0 * (norm * (1.0 + 1e-9) + rounding), rel=1e-12)]

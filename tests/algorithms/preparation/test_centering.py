"""Centering: no record moves the means further; centered rows are those of the formula."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from descent_plans import ADD, RELATIONS, REPLACE, centering_of, objective, plan_of
from plain_noise import Scales, Silent, seeded

from skdp.algorithms.descent.noisy_descent import plan_noisy_gradient_descent
from skdp.algorithms.preparation import centered_rows as centering_module
from skdp.algorithms.preparation import rules
from skdp.algorithms.preparation.centered_rows import CenteredRows, Centering, sum_rounding
from skdp.algorithms.preparation.centering import plan_centering, share_of_ones
from skdp.privacy import PrivacyBudget
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
from skdp.problems import records as records_module

pytestmark = pytest.mark.usefixtures("kept_order")


def test_means_of_rows_are_left_out_where_they_would_be_noise():
    def release(loss, n, relation=REPLACE):
        return plan_of(loss, n, 30, 0.1, 1e-5, relation).centering

    for loss, n in [(LogisticLoss(), 900), (SoftmaxLoss(4), 900), (HalfSquaredLoss(1.0), 900)]:
        with_rows, without = release(loss, n), release(loss, n // 2)
        assert with_rows.moves_rows and not without.moves_rows
        size = with_rows.describe().dimension - without.describe().dimension
        assert size == 30
        assert without.sum.bound() <= 0.75 * with_rows.sum.bound()
        assert release(loss, n // 2, ADD).moves_rows
        assert release(loss, n // 4) is None
        assert (release(loss, 350) is None) == (loss.target_bound == 0.0)  # numbers are clipped
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
        plan = plan_noisy_gradient_descent(goal, PrivacyBudget(epsilon, 1e-6))
        assert plan.centering.target_clip == 1.0
        deviation = plan.centering.sum.mechanism().noise_scale / 500
        found = plan.prepare(records, Silent()).offsets[0]
        assert found == pytest.approx(0.8 * 0.05 / (0.05 + deviation**2), rel=1e-6)
    assert found == pytest.approx(0.8, rel=1e-4)


@RELATIONS
def test_targets_are_clipped_where_their_mean_would_be_noise(relation):
    """To at least a quarter of their bound; a normal law about 0 keeps its small mean."""
    rng, plans = np.random.default_rng(0), {}
    for epsilon in (0.1, 3.0 if relation is REPLACE else 1.0, 8.0):
        plan = plan_of(HalfSquaredLoss(2.0), 500, 3, epsilon, 1e-6, relation).centering
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
        assert (release.target_variance == rules.PRIOR_VARIANCE) == (clip < 0.5)
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
    assert plan_noisy_gradient_descent(goal, PrivacyBudget(0.1, 1e-6)).centering.target_clip == 1.0


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


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_centered_rows_are_those_of_the_formula(kind, dtype):
    rng = np.random.default_rng(1)
    X = (rng.normal(size=(23, 4)) * (rng.random((23, 4)) < 0.6)).astype(dtype)
    records = Records(kind(X), 1.5, 0.1, targets=np.zeros(23))
    centering = Centering(
        mean=np.array([0.2, -0.1, 0.3, 0.0]),
        scale=0.4,
        offsets=np.array([0.3]),
        target_variance=0.15,
    )
    lengths = np.maximum(np.linalg.norm(X.astype(float), axis=1, keepdims=True), 1.5)
    A = (X.astype(float) / lengths - centering.mean) / 0.4
    A = np.column_stack([A, np.full(23, 0.2)])
    w, r = rng.normal(size=(2, 5)), rng.normal(size=23)
    for n_blocks in (1, 3):
        rows = CenteredRows(records, centering)
        rows.divide(n_blocks, seeded())
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


@pytest.mark.parametrize("row", [0.0, 0.01, 1e30])
def test_norms_of_single_precision_do_not_depend_on_other_records(row):
    """Lemma 4, third part: bit for bit, whether or not all other rows are above the bound."""
    X = 5.0 * np.random.default_rng(0).normal(size=(4000, 20)).astype(np.float32)
    other = X.copy()
    other[7] = row
    centering = centering_of(0.3 * np.eye(20)[0], 0.05)
    for make in (Records, lambda *given: Records(*given).in_double()):
        first, second = (CenteredRows(make(rows, 1.0, 1.0), centering) for rows in (X, other))
        norms = [np.delete(np.concatenate(rows.norms[0]), 7) for rows in (first, second)]
        assert np.array_equal(*norms)


def test_cancellation_bounds_the_error_of_every_squared_norm():
    """Lemma 4: (|u| + |m|)^2 / (rho |A|)^2 for rows along the mean; it is nearly attained."""
    rng, largest = np.random.default_rng(3), 0.0
    records = Records(np.zeros((1, 2)), 1.0, 0.1)
    for _ in range(2000):
        scale, b = 10.0 ** rng.uniform(-3, 0), rng.choice([0.0, 1.0]) * 10.0 ** rng.uniform(-4, 0)
        rows = CenteredRows(
            records,
            centering_of(np.array([b, 0.0]), scale),
        )
        # aligned with the mean, where the square of A is least; near it and up to norm 1
        a = np.concatenate([rng.uniform(-1, 1, 50), np.clip(b * rng.uniform(0, 3, 50), 0, 1)])
        squares = ((a - b) / scale) ** 2 + 0.2**2
        ratio = ((np.abs(a) + b) / scale) ** 2 / squares
        assert ratio.max() <= rows.cancellation * (1.0 + 1e-12)
        largest = max(largest, ratio.max() / rows.cancellation)
    assert largest > 0.4


def test_norms_of_rows_near_the_mean_are_no_smaller_than_they_are():
    """Their squares are differences of numbers of size 1: rounding makes half of them too small."""
    rng = np.random.default_rng(5)
    mean = rng.normal(size=6)
    mean *= 0.9 / np.linalg.norm(mean)
    X = mean + 1e-9 * rng.normal(size=(200, 6))
    centering = centering_of(mean, 0.01)
    rows = CenteredRows(Records(X, 1.0, 0.1), centering)
    constant = Fraction(0.2) ** 2
    for row, norm in zip(X, np.concatenate(rows.norms[0]), strict=True):
        moved = [
            (Fraction(a) - Fraction(m)) / Fraction(0.01) for a, m in zip(row, mean, strict=True)
        ]
        exact = sum(each**2 for each in moved) + constant
        assert exact <= Fraction(norm) ** 2 <= exact * Fraction(1.001)


def test_norms_without_an_intercept_are_no_smaller_than_they_are():
    """A sum of squares is rounded, the more the more features there are."""
    rng = np.random.default_rng(6)
    X = rng.uniform(-0.1, 0.1, size=(100, 40))
    rows = CenteredRows(Records(X, 1.0, 0.0), replace(Centering.unknown(40, 1), scale=0.3))
    for row, norm in zip(X, np.concatenate(rows.norms[0]), strict=True):
        exact = sum(Fraction(a) ** 2 for a in row) / Fraction(0.3) ** 2
        assert exact <= Fraction(norm) ** 2 <= exact * Fraction(1 + 1e-13)


def test_the_rows_are_not_copied():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(20000, 3))
    records = Records(X, 1.0, 0.1, targets=X[:, 0])
    rows = CenteredRows(records, Centering.unknown(3, 1))
    assert all(np.shares_memory(block.matrix, X) for block in rows.block(0))
    rows.divide(2, seeded())  # rows are gathered when they are needed, and not kept
    assert all(isinstance(part, np.ndarray) for block in rows._parts for part in block)


def test_steps_go_over_the_blocks_that_were_chosen_last():
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-0.5, 0.5, size=(1000, 3)), rng.standard_normal(1000)
    records = Records(X, 1.0, 1.0, targets=y)
    rows = CenteredRows(records, Centering.unknown(3, 1))
    rows.divide(4, seeded())
    for k in range(4):
        assert np.array_equal(np.concatenate([b.targets for b in rows.block(k)]), y[k::4])
        lengths = np.linalg.norm(np.column_stack([X[k::4], np.full(250, 0.2)]), axis=1)
        np.testing.assert_allclose(np.concatenate(rows.norms[k]), lengths, rtol=1e-12)
    whole = rows.full_total(lambda block, norms: np.array([block.targets @ norms]))
    in_turn = sum(
        rows.total(lambda block, norms: np.array([block.targets @ norms]), k) for k in range(4)
    )
    np.testing.assert_allclose(whole, in_turn, rtol=1e-12)


@pytest.mark.parametrize("n_blocks", [1, 3])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_parts_are_as_long_as_the_bound_on_rounding_says(n_blocks, dtype):
    records = Records(np.ones((5000, 3), dtype=dtype), 2.0, 1.0, targets=np.arange(5000.0))
    records.block_size = 64
    rows = CenteredRows(records, Centering.unknown(3, 1))
    rows.divide(n_blocks, seeded())
    longest = centering_module._LONGER * records.block_size
    for k in range(n_blocks):
        sizes = [len(block.targets) for block in rows.block(k)]
        assert len(sizes) > 1 and max(sizes) == longest
        assert sizes == [len(norms) for norms in rows.norms[k]]
        targets = np.concatenate([block.targets for block in rows.block(k)])
        assert np.array_equal(targets, np.arange(5000.0)[k::n_blocks])
    design = Design.of(records)
    n_additions = sum_rounding(design, 1.0) / (2.0**-52 * 5000)
    assert n_additions >= longest - 1 + 15 * math.ceil(math.log(5000 / longest, 16))


def test_a_copy_in_double_precision_changes_no_sum(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, size=(5000, 4)).astype(np.float32)
    y = rng.standard_normal(5000)

    def sums():
        records = Records(X, 1.0, 1.0, targets=y).in_double()
        rows = CenteredRows(records, Centering.unknown(4, 1))
        rows.divide(2, seeded())
        return [rows.total(lambda b, norms: b.pull_back(b.targets * norms), k) for k in range(2)]

    copied = sums()
    monkeypatch.setattr(records_module, "_DOUBLED", 0)
    for one, other in zip(copied, sums(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)

"""Fewer looks at the records: shorter paths, blocks, and numbers that are computed once."""

import numpy as np
import pytest
import scipy.sparse as sp

from skdp.algorithms.centering import CenteredRows, Centering
from skdp.algorithms.noisy_gradient_descent import plan_noisy_gradient_descent
from skdp.algorithms.step_rules import block_count
from skdp.mechanisms import NoiseSource
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import Neighbouring
from skdp.problems import Design, EmpiricalRisk, HalfSquaredLoss, LogisticLoss, Objective, Records
from skdp.problems import records as records_module


def table(n, scales, seed=0):
    """Rows in the unit ball whose columns have these standard deviations, about, and targets."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, size=(n, len(scales))) * np.asarray(scales) / np.sqrt(len(scales))
    y = np.clip(X @ rng.standard_normal(len(scales)) + 0.2 * rng.standard_normal(n), -1.0, 1.0)
    return X, y


def prepared(scales, loss=None, relation=Neighbouring.REPLACE_ONE, n=40_000, epsilon=1.0):
    X, y = table(n, scales)
    loss = loss or HalfSquaredLoss(1.0)
    targets = y if loss.target_bound else (y > 0).astype(float)
    records = Records(X, 1.0, 1.0, targets=targets)
    n_public = n if relation is Neighbouring.ADD_REMOVE else None
    design = Design.of(records, n_public)
    objective = Objective(EmpiricalRisk(loss), design, neighbouring=relation)
    plan = plan_noisy_gradient_descent(objective, PrivacyBudget(epsilon, 1e-6))
    return plan, plan.prepare(records, NoiseSource(np.random.default_rng(3).bytes))


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


def test_add_remove_has_one_block():
    plan, descent = prepared(np.ones(6), relation=Neighbouring.ADD_REMOVE, n=200_000)
    assert plan.n_blocks == descent.plan.n_blocks == 1


@pytest.mark.parametrize(
    ("n", "largest", "count"),
    [(7_999, 50.0, 1), (16_000, 50.0, 2), (10**6, 50.0, 12), (10**6, 0.1, 1)],
)
def test_blocks_have_8000_records_and_noise_allows_them(n, largest, count):
    assert block_count(n, largest) == count


def test_steps_go_over_the_blocks_that_were_chosen_last():
    X, y = table(1000, np.ones(3))
    records = Records(X, 1.0, 1.0, targets=y)
    rows = CenteredRows(records, Centering.unknown(3, 1))
    rows.divide(4)
    for k in range(4):
        assert np.array_equal(np.concatenate([b.targets for b in rows.block(k)]), y[k::4])
        lengths = np.linalg.norm(np.column_stack([X[k::4], np.full(250, 0.2)]), axis=1)
        np.testing.assert_allclose(np.concatenate(rows.norms[k]), lengths, rtol=1e-12)
    whole = rows.full_total(lambda block, norms: np.array([block.targets @ norms]))
    in_turn = sum(
        rows.total(lambda block, norms: np.array([block.targets @ norms]), k) for k in range(4)
    )
    np.testing.assert_allclose(whole, in_turn, rtol=1e-12)


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
def test_norms_are_computed_once(layout):
    X, y = table(700, np.full(4, 3.0))
    records = Records(layout(X), 0.9, 0.5, targets=y)
    bounded = np.minimum(np.linalg.norm(X, axis=1), 0.9)
    assert records.scale is not None  # some rows are shortened
    for some in (records, records.take(np.arange(5, 600, 7)), records.take(slice(3, 90))):
        assert some.lengths is not None and not some.lengths.flags.writeable
    np.testing.assert_allclose(records.lengths, bounded, rtol=1e-14)
    np.testing.assert_allclose(records.take(slice(3, 90)).lengths, bounded[3:90], rtol=1e-14)
    block = records.block(np.array([4, 9, 600]))
    np.testing.assert_allclose(block.lengths, bounded[[4, 9, 600]], rtol=1e-14)


def test_norms_of_shortened_huge_rows_are_those_of_the_copy():
    X, y = table(50, np.ones(3))
    X[7] *= 1e200
    records = Records(X, 1.0, 0.5, targets=y)
    assert records.lengths.max() <= 1.0 + 1e-12


def test_single_precision_is_made_double_in_a_copy_of_bounded_size(monkeypatch):
    X, y = table(300, np.ones(4))
    single = Records(X.astype(np.float32), 1.0, 1.0, targets=y)
    double = single.in_double()
    assert double.matrix.dtype == np.float64
    assert np.array_equal(double.matrix, X.astype(np.float32))
    assert single.matrix.dtype == np.float32  # not changed
    sparse = Records(sp.csr_array(X.astype(np.float32)), 1.0, 1.0, targets=y)
    assert sparse.in_double() is sparse
    monkeypatch.setattr(records_module, "_DOUBLED", 8 * X.size - 1)
    assert single.in_double() is single


def test_a_copy_in_double_precision_changes_no_sum(monkeypatch):
    X, y = table(5000, np.ones(4))
    X = X.astype(np.float32)

    def sums():
        records = Records(X, 1.0, 1.0, targets=y).in_double()
        rows = CenteredRows(records, Centering.unknown(4, 1), 2)
        return [rows.total(lambda b, norms: b.pull_back(b.targets * norms), k) for k in range(2)]

    copied = sums()
    monkeypatch.setattr(records_module, "_DOUBLED", 0)
    for one, other in zip(copied, sums(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def test_draws_ahead_are_the_noise_of_the_steps():
    drawn, rng = [], np.random.default_rng(0)

    def source(size):
        drawn.append(size)
        return rng.bytes(size)

    noise = NoiseSource(source)
    noise.reserve(3000)
    before = sum(drawn)
    for _ in range(60):
        noise.add_normal(np.zeros(50), 1.0)
    # 3000 draws were there: further bits are needed for a few sums in 10^5 alone
    assert sum(drawn) - before <= 64
    noise.reserve(10)
    first = noise.standard_normal(10)
    assert len(np.unique(np.concatenate([first, noise.standard_normal(10)]))) == 20

"""Second moments of rows: their lemma and their rounding."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
from laboratory import Laboratory
from plain_noise import PlainNoise, Silent, seeded
from public_objectives import RELATIONS, REPLACE, centering_of

from skdp.algorithms.core.centered_rows import CenteredRows, Centering
from skdp.algorithms.core.fit import plan_core
from skdp.algorithms.core.second_moments import plan_row_moments
from skdp.algorithms.plan import Run
from skdp.privacy import PrivacyBudget
from skdp.problems import Design, EmpiricalRisk, LogisticLoss, Objective, Records
from skdp.problems.rounding import EPS


def test_scaled_columns_are_refused():
    """Norms of centered rows do not know the factors: clipping would let more through."""
    records = Records(np.eye(4), 1.0, 0.1, targets=np.arange(4) % 2.0).scaled(np.full(5, 10.0))
    goal = Objective(EmpiricalRisk(LogisticLoss()), Design.of(records))
    plan = plan_core(goal, PrivacyBudget(1.0, 1e-6))
    with pytest.raises(ValueError, match="scaled"):
        plan.run(records, Run(noise=Silent()))


def released_value(plan, records, centering):
    """The value before noise, and the sensitivity that goes with it."""
    with Laboratory(numbers={0: np.zeros(plan.sum.n_entries)}) as laboratory:
        plan.release(CenteredRows(records, centering), seeded(0))
    (draw,) = laboratory.draws
    return draw.value, draw.mechanism.sensitivity


@RELATIONS
def test_order_and_cancellation_move_the_sums_by_less_than_their_rounding(relation):
    """Rows at a thousandth of their mean: sums in another order, and against extended precision."""
    rng, n, d = np.random.default_rng(1), 3000, 6
    X = np.eye(d)[0] * 0.9 + 1e-3 * rng.normal(size=(n, d))
    order = rng.permutation(n)
    centering = centering_of(np.eye(d)[0] * 0.9, 1e-3)
    first, second = (Records(rows, 1.0, 0.1) for rows in (X, X[order]))
    for records in (first, second):
        records.block_size = 16
    design = Design.of(first, None if relation is REPLACE else n)
    plan = plan_row_moments(design, relation, 1e6)
    (a, limit), (b, _) = (released_value(plan, each, centering) for each in (first, second))
    rounding = limit - plan.sum.bound()
    assert np.linalg.norm(a - b) <= rounding
    # Lemmas 4a and 4b: products of raw rows; sums in blocks of up to 4 x 4096 or of 256 records,
    # whatever they are here, levels of a tree, and chunks
    length, levels = 1.9 / 1e-3 + 0.2, 1 if relation is REPLACE else 3
    rows = min(n * design.size_ratio, 4 * 4096)
    size = length**2
    roundings = 2 * (rows + levels * 16 + 8 * 16 + 16) + 8 * (d + 8)
    assert rounding == pytest.approx(roundings * EPS * n * design.size_ratio * size, rel=1e-9)
    A = (X.astype(np.longdouble) - centering.mean) / np.longdouble(1e-3)
    A = np.column_stack([A, np.full(n, np.longdouble(0.2))])
    A /= np.sqrt(np.maximum((A**2).sum(axis=1, keepdims=True), 1.0))
    exact = (A.T @ A)[np.triu_indices(d + 1)]
    exact = exact * np.where(np.equal(*np.triu_indices(d + 1)), 1.0, math.sqrt(2.0))
    assert np.linalg.norm((a - exact).astype(float)) <= rounding


@RELATIONS
@pytest.mark.parametrize("intercept", [0.0, 0.1])
def test_lemma_5_no_record_moves_the_second_moments_further(relation, intercept):
    """Orthogonal long rows attain the bound; rows near the mean, whose norms cancel, keep it."""
    rng, d = np.random.default_rng(5), 8
    ratio = 1.0 if relation is REPLACE else 10.0
    design = Design(1.01, d + bool(intercept), 1, ratio, intercept)
    plan = plan_row_moments(design, relation, 1e3)
    mean = np.array([0.5, -0.3] + 6 * [0.0]) * bool(intercept)
    centering = centering_of(mean, 0.05)
    rows = [*np.eye(d), -np.eye(d)[0], mean, mean * (1.0 + 1e-13)]
    rows += [rng.normal(size=d) * 10.0 ** rng.uniform(-3, 3) for _ in range(30)]
    released = [released_value(plan, Records(row[None], 1.0, intercept), centering) for row in rows]
    values, limit = [value for value, _ in released], released[0][1]
    others = values if relation is REPLACE else [np.zeros_like(values[0])]
    worst = max(float(np.linalg.norm(a - b)) for a in values for b in others)
    assert worst <= limit
    assert worst >= (0.9 if relation is REPLACE else 0.999) * limit


@pytest.mark.parametrize("value", [1e308, -1e308, math.inf, math.nan])
def test_infinite_noise_in_the_second_moments_breaks_nothing(value):
    class Huge(PlainNoise):
        def standard_normal(self, size):
            return np.full(size, value)

    records = Records(np.eye(3), 1.0, 0.1)
    rows = CenteredRows(records, Centering.unknown(3, 1))
    with np.errstate(all="ignore"):
        moments = plan_row_moments(Design.of(records), REPLACE, 1e3).release(rows, Huge())
    assert np.isfinite(moments).all()


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_second_moments_are_those_of_the_centered_rows(kind):
    rng = np.random.default_rng(6)
    X = rng.normal(size=(5000, 4)) * [1.0, 0.3, 0.1, 0.03] + 0.5
    records = Records(kind(X), 2.0, 0.1)
    bounded = X / np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True) / 2.0)
    mean = bounded.mean(axis=0) / 2.0
    rows = CenteredRows(records, centering_of(mean, 0.5))
    A = np.column_stack([(bounded / 2.0 - mean) / 0.5, np.full(len(X), 0.2)])
    A /= np.maximum(1.0, np.linalg.norm(A, axis=1, keepdims=True))
    plan = plan_row_moments(Design.of(records), REPLACE, 1e6)
    np.testing.assert_allclose(plan.release(rows, Silent()), A.T @ A / len(X), rtol=1e-6)

"""Penalties of blocks before the fit: sums of bounded vectors, and factors of columns."""

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from fit_cases import CASES
from recorded_fits import recorded

from skdp.algorithms.core.centered_rows import CenteredRows, Centering
from skdp.algorithms.core.noisy_sums import NoisySum
from skdp.algorithms.plan import Run
from skdp.algorithms.tuning.blocks import (
    GATE,
    BlockDerivatives,
    BlockMargins,
    BlockMoments,
    BlocksPlan,
    Rescaled,
    plan_blocks,
)
from skdp.algorithms.tuning.objective import TuningObjective
from skdp.algorithms.tuning.shrinkage import ShrinkagePlan, plan_shrinkage
from skdp.mechanisms import NoiseSource
from skdp.model_selection import DPLogisticRegressionCV, DPRidgeCV
from skdp.privacy import PrivacyBudget
from skdp.privacy.gaussian_dp import gaussian_mu
from skdp.problems import HalfSquaredLoss, LogisticLoss, PenaltyGroups, Records, SoftmaxLoss

BUDGET = PrivacyBudget(0.3, 1e-6)


def objective_of(n=1200, d=8, loss=None, groups=(0, 0, 1, 1, 1, 1, 1, 1)):
    rng = np.random.default_rng(0)
    loss = loss or HalfSquaredLoss(1.0)
    targets = rng.uniform(-1, 1, n) if loss.target_bound else rng.integers(0, 2, n)
    records = Records(rng.normal(size=(n, d)), 1.0, 0.3, targets=targets)
    q = max(groups) + 1
    penalties = PenaltyGroups((*groups, q), (1.0,) * (d + 1), 1e-30, 1e30)
    return TuningObjective.of(records, loss, penalties), records


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"groups": (0,) * 8}, "one block"),
        ({"loss": SoftmaxLoss(3)}, "several classes"),
        ({"n": 10**5}, "the noise is too small"),
        ({"n": 300}, "measurements of the blocks would be noise"),
    ],
)
def test_a_closed_gate_is_the_plain_fit_and_says_so(changes, reason):
    objective, _ = objective_of(**changes)
    plan, plain = plan_blocks(objective, BUDGET), plan_shrinkage(objective, gaussian_mu(0.3, 1e-6))
    assert isinstance(plan, ShrinkagePlan) and replace(plan, note="") == plain
    assert any(f"not tuned: {reason}" in remark for remark in plan.remarks())
    assert not any("not tuned" in remark for remark in plain.remarks())


def test_the_gate_is_where_the_noise_of_a_coefficient_is():
    mu = gaussian_mu(BUDGET.epsilon, BUDGET.delta)
    edge = 2.0 * 8 / (mu * math.sqrt(GATE))
    assert isinstance(plan_blocks(objective_of(n=int(edge) - 1)[0], BUDGET), BlocksPlan)
    assert isinstance(plan_blocks(objective_of(n=int(edge) + 2)[0], BUDGET), ShrinkagePlan)


@pytest.mark.parametrize("loss", [HalfSquaredLoss(1.0), LogisticLoss()], ids=str)
def test_vectors_are_shortened_to_what_the_noise_is_for(monkeypatch, loss):
    objective, records = objective_of(loss=loss)
    plan, tops, errors = plan_blocks(objective, BUDGET), [], []
    total, release = CenteredRows.full_total, NoisySum.release

    def watched(rows, statistic):
        tops.extend(
            [(type(statistic), statistic.top)] if isinstance(statistic, BlockMargins) else []
        )
        return total(rows, statistic)

    def released(stated, exact, noise, moved=0.0):
        errors.extend([moved] if "blocks" in stated.name else [])
        return release(stated, exact, noise, moved)

    monkeypatch.setattr(CenteredRows, "full_total", watched)
    monkeypatch.setattr(NoisySum, "release", released)
    plan.run(records, Run())
    sums, changes = (plan.moments, plan.derivatives), objective.neighbouring.n_changes
    moments, derivatives = (each.sensitivity / changes for each in sums)
    assert tops == [(BlockMoments, moments), *3 * [(BlockDerivatives, derivatives)]]
    # at least the rounding of margins of rows of the largest norm
    assert len(errors) == 4 and min(errors) > 1e-16


@pytest.mark.parametrize("unit", [1e-2, 1e3])
def test_factors_do_not_depend_on_the_unit_of_targets(unit):
    X, y, blocks = simulated(n=3000, others=40)
    model = DPRidgeCV(
        epsilon=0.3, data_norm=1.1, target_range=(-4 * unit, 4 * unit), penalty_groups=blocks,
        random_state=0,
    ).fit(X, unit * y)  # fmt: skip
    again = DPRidgeCV(
        epsilon=0.3, data_norm=1.1, target_range=(-4, 4), penalty_groups=blocks, random_state=0
    ).fit(X, y)
    factors = [each.privacy_.plan["block_factors"] for each in (model, again)]
    assert factors[0] == pytest.approx(factors[1], rel=1e-3)
    np.testing.assert_allclose(model.predict(X) / unit, again.predict(X), rtol=0.01, atol=0.01)


def test_a_mean_far_off_is_that_of_predictions(monkeypatch):
    """Without noise, and with a bound on the scaled rows that is not the one declared."""
    monkeypatch.setattr(NoiseSource, "add_normal", lambda self, value, scale: value)
    X, y, blocks = simulated(n=3000, others=30)
    X = X + 0.1 * (np.arange(X.shape[1]) % 3)
    model = DPRidgeCV(
        epsilon=0.3, data_norm=3.0, target_range=(-10, 10), penalty_groups=blocks, random_state=0
    ).fit(X, y + 5.0)
    assert "block_factors" in model.privacy_.plan
    assert model.predict(X).mean() == pytest.approx(float(y.mean()) + 5.0, abs=0.1)
    assert model.score(X, y + 5.0) > 0.4


def test_factors_have_the_least_bias_and_noise_of_a_grid():
    """Proposition B2, written out for two blocks: their quotient alone counts."""
    plan, rho, counts = plan_blocks(objective_of()[0], BUDGET), np.array([0.25, 0.75]), (2, 6)
    first = replace(plan.first, found=plan.first.numbers)
    mu, clip = plan.final.mu_steps, plan.first.numbers.clip
    for energies in ((0.5, 0.01), (0.01, 0.5), (0.02, 0.05)):

        def cost(tau, energies=energies):
            total = 0.0
            for count, part, energy, own in zip(counts, rho, energies, tau, strict=True):
                noise = (2.0 * clip / (1200 * mu)) ** 2 * count / part * (rho @ tau**2) / own**2
                total += count * (energy / count) * noise / (energy / count + noise)
            return total

        tau = plan._factors(np.array(energies), rho, first)
        grid = np.geomspace(0.03, 1.0, 200)
        pairs = [np.array(pair) for own in grid for pair in ((1.0, own), (own, 1.0))]
        assert cost(tau) <= min(map(cost, pairs)) * (1 + 1e-6)


def test_bounds_are_not_for_scaled_columns():
    X, y, blocks = simulated(n=1500, others=20)
    given = {"data_norm": 1.1, "target_range": (-4, 4), "penalty_groups": blocks}
    bounded = DPRidgeCV(alpha_bounds=(1e-6, 1.0), random_state=0, **given).fit(X, y)
    assert bounded.privacy_.method == "gradient"
    with pytest.raises(ValueError, match="alpha_bounds must be None"):
        DPRidgeCV(method="bilevel", alpha_bounds=(1e-6, 1.0), **given).fit(X, y)


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("blocks")])
def test_the_cases_of_the_contract_are_tuned(name):
    assert "block_factors" in recorded(name).model.privacy_.plan


def centered(X, norm=1.0):
    records = Records(X, norm, 0.3, targets=np.zeros(X.shape[0]))
    mean = 0.1 * np.arange(X.shape[1]) / X.shape[1]
    centering = Centering(mean=mean, scale=0.5, offsets=np.zeros(1))
    return CenteredRows(records, centering)


def moments_of(rows, members, top):
    counts, (q, d) = members.sum(axis=1), members.shape
    units = np.zeros((q, d + 1))
    units[:, :d] = members / np.sqrt(counts)[:, None]
    return BlockMoments(
        weights=rows.weights(units), unit=1.0 / math.sqrt(d), members=members,
        mean=rows.shift * rows.unit, scale=rows.unit**2 * counts / d,
        stretch=np.sqrt(counts * q / d), top=top,
    )  # fmt: skip


def test_moments_are_those_of_the_formula_dense_and_sparse():
    rng = np.random.default_rng(0)
    X = np.where(rng.random((40, 6)) < 0.5, 0.0, rng.normal(size=(40, 6)))
    members = np.array([[1.0, 1, 0, 0, 0, 0], [0, 0, 1, 1, 1, 1]])
    rows = centered(X)
    found = rows.full_total(moments_of(rows, members, 4.0))
    U = X / np.maximum(np.linalg.norm(X, axis=1), 1.0)[:, None]
    A = (U - rows.centering.mean) / rows.centering.scale
    lengths = np.sqrt((A**2).sum(axis=1) + rows.constant**2)
    A = A * np.minimum(1.0, 2.0 / lengths)[:, None]
    V = np.sqrt(6.0) * (A @ (members / np.sqrt(members.sum(axis=1))[:, None]).T)
    N = 6.0 * (A**2 @ members.T) / members.sum(axis=1)
    vectors = np.column_stack([V**2 - 1, (N - 1) * np.sqrt(members.sum(axis=1) * 2 / 6.0)])
    long = np.linalg.norm(vectors, axis=1)
    expected = (vectors * np.minimum(1.0, 4.0 / long)[:, None]).sum(axis=0)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    sparse = centered(sp.csr_array(X))
    np.testing.assert_allclose(
        sparse.full_total(moments_of(sparse, members, 4.0)), expected, rtol=1e-9
    )


@pytest.mark.parametrize("kind", ["moments", "derivatives"])
def test_no_record_adds_a_longer_vector_than_stated_and_one_comes_near(kind):
    rng = np.random.default_rng(0)
    members = np.array([[1.0, 1, 0, 0, 0, 0], [0, 0, 1, 1, 1, 1]])
    top, longest = 2.0, 0.0
    for scale in (1e-3, 1.0, 1e3):
        for _ in range(40):
            row = scale * rng.normal(size=(1, 6)) * np.exp(2 * rng.normal(size=6))
            rows = centered(row)
            statistic = moments_of(rows, members, top)
            if kind == "derivatives":
                statistic = BlockDerivatives(
                    weights=statistic.weights, unit=statistic.unit, loss=HalfSquaredLoss(1.0),
                    lengths=10.0 ** rng.uniform(-3, 3, 2), offset=rng.normal(), residual=0.1,
                    top=top,
                )  # fmt: skip
            length = float(np.linalg.norm(rows.full_total(statistic)))
            assert length <= top * (1 + 1e-12)
            longest = max(longest, length)
    assert longest > 0.99 * top


def simulated(n=10_000, relevant=10, others=200, logistic=False, seed=0):
    rng = np.random.default_rng(seed)
    d = relevant + others
    X = rng.normal(size=(n, d)) / np.sqrt(d)
    w = np.zeros(d)
    w[:relevant] = rng.normal(size=relevant)
    s = X @ w * np.sqrt(d) / np.linalg.norm(w)
    y = (rng.uniform(size=n) < 1 / (1 + np.exp(-2 * s))) if logistic else s + rng.normal(size=n)
    return X, y.astype(float), (np.arange(d) >= relevant).astype(int)


def test_where_no_noise_is_drawn_the_model_is_that_of_the_measurements(monkeypatch):
    """Without noise, but with its plan: columns that matter keep their length, others do not."""
    monkeypatch.setattr(NoiseSource, "add_normal", lambda self, value, scale: value)
    X, y, blocks = simulated(n=3000, others=30, logistic=True)
    model = DPLogisticRegressionCV(
        epsilon=0.3, data_norm=1.1, classes=[0, 1], penalty_groups=blocks, random_state=0
    ).fit(X, y)
    assert model.privacy_.plan["block_factors"] == [1.0, pytest.approx(0.3, abs=0.3)]
    assert model.score(X, y) > 0.72


def test_rescaled_rows_are_those_that_are_bounded_twice():
    rng = np.random.default_rng(0)
    X, factors = rng.normal(size=(30, 4)) * 2.0, np.array([1.0, 0.5, 0.03, 1.0])
    U = X / np.maximum(np.linalg.norm(X, axis=1), 1.0)[:, None] * factors
    U = U / np.maximum(np.linalg.norm(U, axis=1) / 0.4, 1.0)[:, None]
    for table in (X, sp.csr_array(X)):
        moved = Rescaled(factors, 0.4)(Records(table, 1.0, 0.3, targets=np.zeros(30)))
        rows = moved.materialise()
        rows = rows.toarray() if sp.issparse(rows) else rows
        np.testing.assert_allclose(rows[:, :4], U, rtol=1e-12, atol=1e-15)
        assert moved.intercept == pytest.approx(0.12)
        assert sp.issparse(moved.matrix) == sp.issparse(table)

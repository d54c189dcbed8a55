"""What noise is for beside exact sensitivities: last bits that follow the place of a record."""

import math
from dataclasses import replace

import numpy as np
import pytest
from laboratory import Laboratory
from plain_noise import Silent, seeded
from public_objectives import objective

from skdp.algorithms.core import fit
from skdp.algorithms.core.centered_rows import CenteredRows, Centering, sum_rounding
from skdp.algorithms.core.fit import plan_core
from skdp.algorithms.core.means import release_means
from skdp.algorithms.core.post import base_at, root_of
from skdp.algorithms.core.size import Square
from skdp.algorithms.plan import Run
from skdp.privacy import PrivacyBudget
from skdp.problems import (
    AdversarialRisk,
    Attack,
    Design,
    EmpiricalRisk,
    HalfSquaredLoss,
    LogisticLoss,
    Objective,
    QuantileLoss,
    Records,
    SoftmaxLoss,
)
from skdp.problems.rounding import two_norms

BUDGET = PrivacyBudget(1.0, 1e-6)
KINKED = QuantileLoss(2.0, 0.3).smoothed(0.05)
LOSSES = [LogisticLoss(), SoftmaxLoss(3), HalfSquaredLoss(2.0)]
RADIUS, MANY = 0.1, 10**9


def prepared(loss, radius=0.0):
    """A plan, and centered rows of records far from the origin; roundings are those of many."""
    rng, k, n = np.random.default_rng(0), loss.n_outputs + 1, 50
    X = np.array([0.9, 0.0, 0.0]) + 0.01 * rng.standard_normal((n, 3))
    y = rng.uniform(-2.0, 2.0, n) if loss.target_bound else rng.integers(k, size=n)
    records = Records(X, 1.0, 0.1, targets=y if k != 2 or loss.target_bound else y.astype(float))
    risk = AdversarialRisk(loss, Attack(2, radius)) if radius else EmpiricalRisk(loss)
    plan = plan_core(Objective(risk, Design.of(records)), PrivacyBudget(100.0, 1e-6))
    rows, found = plan.prepare(records, Silent())
    many = replace(plan.objective, design=replace(plan.objective.design, n_records=MANY))
    return replace(plan, objective=many), rows, found


def paid(run, error, monkeypatch):
    """Return the first sensitivity of a run if margins are off, and how large they may be."""
    sizes = []
    monkeypatch.setattr(fit, "two_margins", lambda d, size: sizes.append(size) or error)
    with Laboratory() as laboratory:
        run()
    assert len(sizes) == len(laboratory.draws)
    return laboratory.draws[0].mechanism.sensitivity, sizes[0]


@pytest.mark.parametrize(
    ("loss", "radius"),
    [*((loss, 0.0) for loss in [*LOSSES, KINKED]), *((loss, RADIUS) for loss in LOSSES)],
    ids=repr,
)
def test_steps_pay_for_margins_and_norms_of_records_that_are_elsewhere(loss, radius, monkeypatch):
    """Errors of margins move a term by their curvature times the norm of a row."""
    plan, rows, found = prepared(loss, radius)
    start, offsets = np.full((loss.n_outputs, 4), 2.0), np.full(loss.n_outputs, 3.0)

    def run():
        plan.stepped(rows, found, Run(noise=seeded()), start=start, offsets=offsets)

    (still, reached), (moving, _) = (paid(run, error, monkeypatch) for error in (0.0, 1.0))
    clip = found.clip
    is_attacked = radius > 0.0
    norms = MANY * two_norms(3, rows.cancellation + is_attacked) * clip
    rounding = sum_rounding(plan.objective.design, clip * (rows.amplification + is_attacked))
    assert rows.amplification > 10.0 and rounding > 0.01 * clip
    assert still == pytest.approx(2.0 * clip + norms + rounding, rel=1e-6)
    longest = rows.norm_bound + radius / rows.unit
    tie = 2.0 * clip / (1e-4 * loss.target_bound) if is_attacked and loss.target_bound else 0.0
    slope = max(loss.curvature, 1.0) * (longest + tie)
    assert (moving - still) / MANY == pytest.approx(slope, rel=1e-6)
    weights = found.scale * np.linalg.norm(start)
    assert reached == pytest.approx(longest * weights + np.linalg.norm(offsets), rel=1e-9)


@pytest.mark.parametrize("loss", LOSSES[:2], ids=repr)
def test_steps_pay_for_and_keep_the_points_at_which_the_constant_follows(loss, monkeypatch):
    plan, rows, found = prepared(loss)
    found = replace(found, steps=replace(found.steps, n_steps=6, size=0.2))
    sizes, seen, kept = [], [], []
    gradients = fit.ClippedGradients
    monkeypatch.setattr(fit, "two_margins", lambda d, size: sizes.append(size) or 0.0)
    monkeypatch.setattr(
        fit, "ClippedGradients", lambda **given: seen.append(given["weights"]) or gradients(**given)
    )
    start, scale = np.full((loss.n_outputs, 4), 5.0), found.scale
    plan.stepped(rows, found, Run(noise=seeded()), start=start, kept=kept)
    assert np.abs(kept[0][0] - start)[:, 3].max() > 0.1
    for size, weights, (at, *_) in zip(sizes, seen, kept, strict=True):
        np.testing.assert_allclose(rows.weights(scale * at), weights, rtol=1e-12)
        offset = np.linalg.norm(rows.centering.offsets)
        reached = rows.norm_bound * np.linalg.norm(scale * at) + offset
        assert size == pytest.approx(reached, rel=1e-12)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_rounds_pay_for_margins_of_records_that_are_elsewhere(loss, monkeypatch):
    plan, rows, found = prepared(loss)
    weights, _, theta = plan.sized(rows, found, np.ones((loss.n_outputs, 4)))
    theta = replace(theta, theta=np.append(3.0, np.full(loss.n_outputs, 0.5)))

    def run():
        plan.corrected(rows, found, weights, theta, Run(noise=seeded()))

    (still, reached), (moving, _) = (paid(run, error, monkeypatch) for error in (0.0, 1e-3))
    moved = (moving - still) / MANY / 1e-3
    # Lemma 4 with a residual of at least sqrt(2), or of 1
    assert moved >= 3.0 * (2.0 + 3.0) * (1.0 + plan.sum_of_round(found.means).size)
    # margins z, and those of the loss in units of its scale, with shift and target
    base, _ = base_at(found.balance, 3.0, root_of(weights[:, :3]), found.start)
    others = np.linalg.norm(plan.offsets(found, base + 0.5)) + loss.target_bound
    expected = rows.norm_bound * np.linalg.norm(weights) * (1.0 + 3.0)
    assert reached == pytest.approx(expected + others / found.scale, rel=1e-9)


@pytest.mark.parametrize("loss", LOSSES[:2], ids=repr)
def test_squares_of_margins_pay_for_those_of_records_that_are_elsewhere(loss, monkeypatch):
    plan, rows, found = prepared(loss)
    units, weights = [], np.ones((loss.n_outputs, 4))
    released = lambda unit, *rest: units.append(unit) or Square(unit, *rest)  # noqa: E731
    monkeypatch.setattr(fit, "Square", released)

    def run():
        plan.sized(rows, found, weights, Run(noise=seeded()))

    (still, reached), (moving, _) = (paid(run, error, monkeypatch) for error in (0.0, 1e-3))
    moved = (moving - still) / MANY / 1e-3
    assert moved == pytest.approx(2.0 / math.sqrt(loss.n_outputs), rel=1e-6)
    # that the constant has no part in
    assert abs(math.log(units[0])) > 0.1
    length = np.linalg.norm(weights[:, :3] / units[0])
    assert reached == pytest.approx(rows.norm_bound * length, rel=1e-9)


def test_means_pay_for_norms_of_records_that_are_elsewhere():
    plan = plan_core(objective(LogisticLoss(), 10**6, 3), BUDGET).means
    with Laboratory() as laboratory:
        release_means(plan, Records(np.eye(3), 1.0, 0.1, targets=np.ones(3)), 2, 1.0, seeded())
    (draw,) = laboratory.draws
    more = draw.mechanism.sensitivity - plan.bound()
    assert more == pytest.approx(1e6 * two_norms(3, 1.0), rel=1e-6)


def test_errors_of_margins_move_a_sum_under_attack_by_what_its_noise_is_for(monkeypatch):
    """At a tie of squares the row turns."""
    records = Records(np.eye(1), 1.0, targets=np.array([0.2]))
    goal = Objective(
        AdversarialRisk(HalfSquaredLoss(2.0), Attack(2, 1.0 / 7.0)), Design.of(records)
    )
    plan = plan_core(goal, BUDGET)
    rows, found = CenteredRows(records, Centering.unknown(1, 1)), plan.numbers
    start = 20.0 * np.eye(1) / found.scale

    def draw(error):
        with Laboratory() as laboratory:
            offsets = np.array([0.2 - 20.0 + error])
            plan.stepped(rows, found, Run(noise=seeded()), start=start, offsets=offsets)
        return laboratory.draws[0]

    sums, claims = [draw(error).value for error in (0.0, -1e-9)], []
    for error in (0.0, 1e-9):
        monkeypatch.setattr(fit, "two_margins", lambda d, size, error=error: error)
        claims.append(draw(0.0).mechanism.sensitivity)
    moved, claimed = np.linalg.norm(sums[1] - sums[0]), claims[1] - claims[0]
    assert 0.8 * claimed < moved <= claimed

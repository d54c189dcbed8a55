"""What noise is for beside exact sensitivities: last bits that follow the place of a record."""

import math

import numpy as np
import pytest
from laboratory import Laboratory
from plain_noise import Silent, seeded
from public_objectives import objective

from skdp.algorithms.core import fit
from skdp.algorithms.core.centered_rows import CenteredRows, Centering
from skdp.algorithms.core.fit import plan_core
from skdp.algorithms.core.means import release_means
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
    Records,
    SoftmaxLoss,
)
from skdp.problems.rounding import two_norms

BUDGET = PrivacyBudget(1.0, 1e-6)
LOSSES = [LogisticLoss(), SoftmaxLoss(3), HalfSquaredLoss(2.0)]


def prepared(loss, n=50):
    """A plan, and centered rows of records far from the origin."""
    rng, k = np.random.default_rng(0), loss.n_outputs + 1
    X = np.array([0.9, 0.0, 0.0]) + 0.01 * rng.standard_normal((n, 3))
    y = rng.uniform(-2.0, 2.0, n) if loss.target_bound else rng.integers(k, size=n)
    records = Records(X, 1.0, 0.1, targets=y if k != 2 or loss.target_bound else y.astype(float))
    plan = plan_core(Objective(EmpiricalRisk(loss), Design.of(records)), BUDGET)
    return plan, *plan.prepare(records, Silent())


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_steps_pay_for_margins_and_norms_of_records_that_are_elsewhere(loss, monkeypatch):
    """Errors of margins move a term by their curvature times the norm of a row."""
    plan, rows, found = prepared(loss)
    limits = []
    for error in (0.0, 1.0):
        monkeypatch.setattr(fit, "two_margins", lambda d, size, error=error: error)
        with Laboratory() as laboratory:
            plan.stepped(rows, found, Run(noise=seeded()))
        limits.append(laboratory.draws[0].mechanism.sensitivity)
    n, clip = plan.objective.design.n_records, found.steps.clip * plan.spread(found.means)
    norms = n * two_norms(3, rows.cancellation) * clip / plan.unit
    exact = 2.0 * clip / plan.unit
    assert limits[0] >= exact + norms
    steepest = max(loss.curvature, 1.0)
    assert limits[1] - limits[0] == pytest.approx(n * rows.norm_bound * steepest, rel=1e-6)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_rounds_pay_for_margins_of_records_that_are_elsewhere(loss, monkeypatch):
    plan, rows, found = prepared(loss)
    weights, size, theta = plan.sized(rows, found, np.ones((loss.n_outputs, 4)))
    limits = []
    for error in (0.0, 1e-3):
        monkeypatch.setattr(fit, "two_margins", lambda d, size, error=error: error)
        with Laboratory() as laboratory:
            plan.corrected(rows, found, weights, theta, Run(noise=seeded()))
        limits.append(laboratory.draws[0].mechanism.sensitivity)
    assert len(laboratory.draws) == 3
    # Lemma 4 with the steepness of this model, which is at least 4 (1 + k)
    moved = (limits[1] - limits[0]) / plan.objective.design.n_records / 1e-3
    assert moved >= 4.0 * (2.0 + math.sqrt(loss.n_outputs)) * (1.0 + size.size)


@pytest.mark.parametrize("loss", LOSSES[:2], ids=repr)
def test_squares_of_margins_pay_for_those_of_records_that_are_elsewhere(loss, monkeypatch):
    plan, rows, found = prepared(loss)
    limits = []
    for error in (0.0, 1e-3):
        monkeypatch.setattr(fit, "two_margins", lambda d, size, error=error: error)
        with Laboratory() as laboratory:
            plan.sized(rows, found, np.ones((loss.n_outputs, 4)), Run(noise=seeded()))
        limits.append(laboratory.draws[0].mechanism.sensitivity)
    moved = (limits[1] - limits[0]) / plan.objective.design.n_records / 1e-3
    assert moved == pytest.approx(2.0 / math.sqrt(loss.n_outputs), rel=1e-6)


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
    start = 20.0 * np.eye(1) / plan.scale(found.means)

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

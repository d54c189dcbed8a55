"""Whole fits on prepared rows, draw by draw: noise, neighbours, and nothing beside releases."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from laboratory import Laboratory
from plain_noise import seeded

from skdp.algorithms import Run
from skdp.algorithms.output.prepared import plan_prepared_output
from skdp.algorithms.tuning.rounds import plan_rounds
from skdp.privacy import PrivacyBudget
from skdp.privacy.events import RECORD_RELATIONS, Neighbouring
from skdp.privacy.gaussian_dp import gaussian_mu
from skdp.problems import (
    Design,
    EmpiricalRisk,
    HalfSquaredLoss,
    HingeLoss,
    LogisticLoss,
    Objective,
    OneVsRestLoss,
    PenaltyGroups,
    QuantileLoss,
    Records,
    SoftmaxLoss,
    SquaredHingeLoss,
)

D = 4
#: Plan, loss, kind of matrix, value of the intercept feature, options of the plan.
FITS = {
    "output-squares": (plan_prepared_output, HalfSquaredLoss(1.0), "dense", 0.3, {}),
    "output-no-intercept": (plan_prepared_output, HalfSquaredLoss(2.0), "csr", 0.0, {}),
    "output-odds": (plan_prepared_output, LogisticLoss(), "float32", 0.3, {}),
    "output-hinge": (plan_prepared_output, HingeLoss(), "dense", 0.3, {}),
    "output-squared-hinge": (plan_prepared_output, SquaredHingeLoss(), "csr", 0.3, {}),
    "output-quantile": (plan_prepared_output, QuantileLoss(1.0, 0.3), "float32", 0.3, {}),
    "output-classes": (plan_prepared_output, SoftmaxLoss(3), "csr", 0.3, {}),
    "output-one-vs-rest": (plan_prepared_output, OneVsRestLoss(HingeLoss(), 3), "dense", 0.3, {}),
    "rounds-squares": (plan_rounds, HalfSquaredLoss(1.0), "float32", 0.3, {}),
    "rounds-odds": (plan_rounds, LogisticLoss(), "dense", 0.3, {}),
    "rounds-classes": (
        plan_rounds,
        SoftmaxLoss(5),
        "csr",
        0.3,
        {"candidates": PenaltyGroups((0,) * D, (1.0,) * D, 1e-6, 1e3), "grid": (1e-3, 1.0)},
    ),
    "rounds-no-intercept": (plan_rounds, LogisticLoss(), "csr", 0.0, {}),
    "rounds-alphas": (
        plan_rounds,
        LogisticLoss(),
        "dense",
        0.3,
        {"candidates": PenaltyGroups((0, 0, 1, 1), (1.0,) * D, 1e-6, 1e3)},
    ),
}
KINDS = {"dense": np.asarray, "csr": sp.csr_array, "float32": lambda X: X.astype(np.float32)}


def records_of(X, targets, kind, intercept):
    records = Records(KINDS[kind](X), 1.0, intercept, targets=targets)
    records.block_size = 16
    return records


def table(loss, n=120):
    """Rows of which a few are long; a rare class, or targets in a small part of their range."""
    bound = loss.target_bound
    rng = np.random.default_rng(0)
    X = 0.1 * rng.standard_normal((n, D)) * [3.0, 1.0, 1.0, 0.1] + 0.2
    targets = np.clip(0.2 + 0.1 * X[:, 0] + 0.02 * rng.standard_normal(n), -bound, bound)
    if loss.n_outputs > 1:
        return X, (X[:, 0] > 0.2).astype(int) + (X[:, 0] > 0.5)
    return X, targets if bound else (X[:, 0] > 0.4) * 1.0


def neighbours(X, y, bound, relation):
    """One record replaced by one far away, or removed."""
    for i in (3, 50, len(X) - 1):
        if relation is Neighbouring.ADD_REMOVE:
            yield np.delete(X, i, axis=0), np.delete(y, i)
        else:
            rows, targets = X.copy(), y.copy()
            rows[i], targets[i] = -5.0, -bound if bound else 1 - min(y[i], 1)
            yield rows, targets


@pytest.mark.parametrize("relation", RECORD_RELATIONS)
@pytest.mark.parametrize("name", FITS)
def test_a_record_moves_each_draw_by_its_sensitivity_and_all_by_the_budget(name, relation):
    """For the same releases of any other table the model is the same, to the last bit."""
    plan_of, loss, kind, intercept, options = FITS[name]
    X, y = table(loss)
    records = records_of(X, y, kind, intercept)
    n_public = 90 if relation is Neighbouring.ADD_REMOVE else None
    objective = Objective(EmpiricalRisk(loss), Design.of(records, n_public), neighbouring=relation)
    budget = PrivacyBudget(20.0, 0.01)
    plan = plan_of(objective, budget, **options)
    assert plan.preparation.moments is not None
    with Laboratory() as laboratory:
        result = plan.run(records, Run(noise=seeded(0)))
    draws, stated, n_solves = laboratory.draws, [], result.plan.n_solves
    for release in result.plan.releases:
        factor, times = release.noise_scale / release.sensitivity, 1
        if "as one" in release.name:
            factor, times = factor * math.sqrt(n_solves), n_solves
        stated += [factor] * times
    drawn = [draw.scale / draw.mechanism.sensitivity for draw in draws]
    assert drawn == pytest.approx(stated, rel=1e-9)
    far = X[::-1] ** 2, y[::-1].copy()
    for rows, targets in (*neighbours(X, y, loss.target_bound, relation), far):
        with Laboratory(releases=laboratory.releases) as watched:
            again = plan.run(records_of(rows, targets, kind, intercept), Run(noise=seeded(0)))
        assert np.array_equal(again.point, result.point)
        assert again.plan == result.plan
        cost = 0.0
        for mine, its in zip(draws, watched.draws, strict=True):
            limit = mine.mechanism.sensitivity
            assert its.mechanism.sensitivity == limit and its.scale == mine.scale
            assert rows is far[0] or np.linalg.norm(mine.value - its.value) <= limit
            cost += (limit / mine.scale) ** 2
        assert cost == pytest.approx(gaussian_mu(budget.epsilon, budget.delta) ** 2, rel=1e-7)

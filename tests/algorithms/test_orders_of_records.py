"""Batches, quarters and folds that are in no configuration of the contract have random orders."""

import numpy as np
import pytest
from plain_noise import seeded

from skdp.algorithms import (
    Run,
    plan_boosted_mirror_descent,
    plan_mirror_descent,
    plan_variance_reduced_frank_wolfe,
)
from skdp.algorithms.queries import mirror_descent as linear_queries
from skdp.model_selection import cross_validation
from skdp.privacy import PrivacyBudget
from skdp.problems import CategoricalRecords, Marginals, QueryObjective
from skdp.problems.vertices import FunctionProblem, VertexDesign

N = 4000


class Ordered(FunctionProblem):
    """Keeps the orders that are asked for."""

    seen: list = []  # noqa: RUF012  one list for all

    def ordered(self, order):
        self.seen.append(order)
        return super().ordered(order)


@pytest.fixture
def problem():
    design = VertexDesign(N, (2, 2), (1.0, 1.0), (1.0, 1.0))
    Ordered.seen.clear()
    return Ordered(
        design,
        lambda points, batch: [np.full((len(np.arange(N)[batch]), 2), 0.5)] * 2,
        lambda points, batch: np.full(len(np.arange(N)[batch]), 0.5),
    )


def assert_random(order):
    """Of the positions; neighbours in it are next to each other about twice, and not always."""
    np.testing.assert_array_equal(np.sort(order), np.arange(len(order)))
    assert (np.diff(order) == 1).sum() < 20


@pytest.mark.parametrize("calibration", ["paper", "analytic"])
def test_rounds_on_batches(problem, calibration):
    given = {"n_rounds": 4, "calibration": calibration}
    plan = plan_mirror_descent(problem.design, PrivacyBudget(1.0, 1e-6), **given)
    plan.run(problem, Run(noise=seeded()))
    assert len(problem.seen) == (calibration == "paper")
    for order in problem.seen:
        assert_random(order)


def test_parts_of_boosting(problem):
    plan = plan_boosted_mirror_descent(
        problem.design, PrivacyBudget(1.0, 1e-6), value_bound=1.0, n_runs=2, n_responses=2,
        work=16.0, most=1,
    )  # fmt: skip
    plan.run(problem, Run(noise=seeded()))
    (order,) = problem.seen  # the runs inside do not draw another one
    assert_random(order)


def test_batches_of_frank_wolfe():
    design = VertexDesign(N, (2,), (1.0,), (1.0,))
    problem = Ordered(design, lambda points, batch: [np.full((len(np.arange(N)[batch]), 2), 0.5)])
    problem.seen.clear()
    plan = plan_variance_reduced_frank_wolfe(problem.design, PrivacyBudget(1.0, 1e-6))
    plan.run(problem, Run(noise=seeded()))
    (order,) = problem.seen
    assert_random(order)


def test_batches_of_linear_queries(monkeypatch):
    seen, sums = [], Marginals.sums
    monkeypatch.setattr(
        Marginals, "sums", lambda self, data: seen.append(data.codes[:, 0]) or sums(self, data)
    )
    plan = linear_queries.plan_linear_queries(
        QueryObjective(Marginals((N,), 1), N), PrivacyBudget(0.1, 1e-6), "paper"
    )
    plan.run(CategoricalRecords(np.arange(N)[:, None], (N,)), Run(noise=seeded()))
    assert len(seen) == plan.n_charged > 1
    rest = np.setdiff1d(np.arange(N), np.concatenate(seen))
    assert len(rest) < plan.n_charged
    assert_random(np.concatenate([*seen, rest]))


def test_folds_of_cross_validation():
    """Test sets in the drawn order make up all records; each fold trains on the other sets."""
    folds = cross_validation._folds(5, N, seeded())
    assert_random(np.concatenate([test for _, test in folds]))
    for k, (train, _) in enumerate(folds):
        others = [test for j, (_, test) in enumerate(folds) if j != k]
        np.testing.assert_array_equal(train, np.concatenate(others))

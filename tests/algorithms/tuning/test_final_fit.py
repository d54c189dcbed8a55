"""The fit at chosen alphas: whitening, sensitivity, noise law, cost."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from plain_noise import Silent, seeded
from tuning_attacks import DataSets, largest_movement, records

from skdp.algorithms.plan import Run
from skdp.algorithms.tuning.bilevel import FinalFitPlan
from skdp.algorithms.tuning.objective import TuningObjective
from skdp.privacy import PrivacyBudget
from skdp.problems import HalfSquaredLoss, LogisticLoss, PenaltyGroups, Records

LOSSES = {"squared": HalfSquaredLoss(1.0), "logistic": LogisticLoss()}
BUDGET = PrivacyBudget(1.0, 1e-6)
GROUPS = PenaltyGroups((0, 0, 1, 1, 0), (1.0, 1.0, 1.0, 1.0, 0.01), 1e-6, 10.0)
ALPHA = np.array([0.3, 0.02])


def plan_final_fit(records, loss, penalties, alpha, budget, share=1.0):
    return FinalFitPlan(
        objective=TuningObjective.of(records, loss, penalties),
        alpha=alpha,
        budget=budget,
        share=share,
    )


def final_fit(records, loss, penalties, alpha, budget, share=1.0, noise=None):
    """The private point and its release."""
    plan = plan_final_fit(records, loss, penalties, alpha, budget, share)
    return plan.run(records, Run(noise=noise)).point, plan.releases[0]


def whitened(records, penalties, alpha):
    objective = TuningObjective.of(records, LOSSES["squared"], penalties)
    view = records.scaled(objective.whitening(alpha))
    assert objective.whitened(alpha).feature_norm == view.norm_bound  # of the plan, and of the run
    return view


def dense(rows):
    X = rows.materialise()
    return X.toarray() if sp.issparse(X) else X


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("loss", list(LOSSES))
def test_without_noise_it_is_the_penalised_minimiser(loss, sparse):
    rows, t = records(loss, n=300, sparse=sparse)
    point, release = final_fit(
        rows.with_targets(t), LOSSES[loss], GROUPS, ALPHA, BUDGET, noise=Silent()
    )
    X, penalty = dense(rows), GROUPS.diagonal(ALPHA)
    gradient = X.T @ LOSSES[loss].derivative(X @ point, t) / len(t) + penalty * point
    # within the certified accuracy: the whitened problem is 1-strongly convex
    error = np.linalg.norm(gradient / np.sqrt(penalty))
    assert error <= 1e-2 * release.sensitivity
    assert release.n_records == 300


@pytest.mark.parametrize("sparse", [False, True])
def test_whitened_rows_are_within_their_bound(sparse):
    rows, _ = records("squared", sparse=sparse)
    view = whitened(rows, GROUPS, ALPHA)
    bound = view.norm_bound
    assert bound == pytest.approx(math.sqrt(1 / 0.02 + 0.01 / (0.3 * 0.01)))
    X = dense(view)
    np.testing.assert_allclose(X, dense(rows) / np.sqrt(GROUPS.diagonal(ALPHA)), rtol=1e-12)
    assert np.linalg.norm(X, axis=1).max() <= bound * (1 + 1e-12)


@pytest.mark.parametrize(("loss", "norm"), [("squared", 5.0), ("logistic", 0.1)])
def test_no_neighbours_move_the_solution_further(loss, norm):
    """Attained: the best ratios are 1.0000, but for 0.988 (logistic, norm 1)."""
    penalties, best = PenaltyGroups((0, 0), (1.0, 1.0), 1e-9, 1e9), 0.0
    for n in (1, 20):
        rows = Records(np.zeros((n, 2)), norm)
        plan = plan_final_fit(rows, LOSSES[loss], penalties, np.ones(1), BUDGET)
        moved = largest_movement(DataSets(loss, norm, 2, n), seed=n, generations=30)
        best = max(best, moved / plan.step.exact_sensitivity)
    assert 0.98 < best <= 1.0


def test_cost_of_noise_bounds_what_noise_costs():
    rows, t = records("squared", n=3000)
    alpha, loss = np.array([0.5, 0.2]), LOSSES["squared"]
    X = dense(rows)
    cost = plan_final_fit(rows, loss, GROUPS, alpha, BUDGET, 0.8).noise_cost
    clean, _ = final_fit(rows.with_targets(t), loss, GROUPS, alpha, BUDGET, 0.8, noise=Silent())
    losses = []
    for k in range(50):
        point, _ = final_fit(
            rows.with_targets(t), loss, GROUPS, alpha, BUDGET, 0.8, noise=seeded(k)
        )
        # and the mirrored noise: without the gradient, whose mean is 0, the mean is precise
        losses += [loss.value(X @ each, t).mean() for each in (point, 2.0 * clean - point)]
    extra = np.mean(losses) - loss.value(X @ clean, t).mean()
    assert 0.02 * cost < extra < cost

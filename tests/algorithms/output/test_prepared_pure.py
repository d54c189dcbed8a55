"""Prepared output perturbation with pure privacy: the budget, the noise, and what outputs tell."""

import math

import numpy as np
import pytest
from plain_noise import seeded

from skdp import DPRidge
from skdp.algorithms import Run
from skdp.algorithms.core.levels import Level
from skdp.algorithms.output.prepared import plan_prepared_output
from skdp.inspection import plan_fit
from skdp.mechanisms import NoiseSource
from skdp.model_selection import DPRidgeCV
from skdp.privacy import PrivacyBudget, tightest_epsilon
from skdp.privacy.events import RECORD_RELATIONS, Neighbouring
from skdp.problems import Design, EmpiricalRisk, HalfSquaredLoss, Objective, Records
from skdp.robust import DPMaxGroupLossRegressor

BUDGET = PrivacyBudget(2.0)


def planned(data, relation, n_public=None, budget=BUDGET):
    objective = Objective(
        EmpiricalRisk(HalfSquaredLoss(1.0)), Design.of(data, n_public), neighbouring=relation
    )
    return plan_prepared_output(objective, budget)


@pytest.mark.parametrize("relation", RECORD_RELATIONS)
@pytest.mark.parametrize(("n", "epsilon"), [(200, 0.1), (400, 1.0), (10**6, 3.0)])
def test_epsilons_of_the_releases_add_up_to_the_budget(relation, n, epsilon):
    design = Design(1.1, 5, n, 1.0 if relation is Neighbouring.REPLACE_ONE else 10.0, 0.3)
    objective = Objective(EmpiricalRisk(HalfSquaredLoss(1.0)), design, neighbouring=relation)
    plan = plan_prepared_output(objective, PrivacyBudget(epsilon))
    total = tightest_epsilon(plan.event, 0.0)
    assert epsilon * (1.0 - 1e-9) <= total <= epsilon * (1.0 + 1e-9)
    assert plan.level.mu > 0.3 * epsilon
    assert {release.mechanism for release in plan.releases} == {"spherical_laplace"}
    assert len(plan.releases) == (3 if n == 200 else 4)  # no second moments


@pytest.mark.parametrize("is_pure", [False, True])
def test_deviations_are_those_of_the_noise(is_pure):
    level = Level(0.5, is_pure).part(0.25)
    assert level.mu == (0.125 if is_pure else 0.25)
    mechanism, noise = level.mechanism(3.0), seeded(0)
    drawn = np.array([mechanism.release(np.zeros(6), noise) for _ in range(4000)])
    assert mechanism.deviation(6) == pytest.approx(3.0 * level.deviation(6))
    assert drawn.std() == pytest.approx(mechanism.deviation(6), rel=0.05)


class Transcript(NoiseSource):
    """Keeps what is released; a second one gives the outputs of the first for other records."""

    def __init__(self, seed, outputs=None):
        super().__init__(np.random.default_rng(seed).bytes)
        self.outputs, self.seen = outputs, []

    def add_spherical_laplace(self, value, scale):
        out = super().add_spherical_laplace(value, scale)
        if self.outputs is not None:
            out = self.outputs[len(self.seen)][2]
        self.seen.append((np.array(value), scale, out))
        return out


def privacy_loss(plan, first, second, seed):
    """Log likelihood ratio of the outputs of a whole fit."""
    one = Transcript(seed)
    plan.run(first, Run("newton", noise=one))
    two = Transcript(seed, one.seen)
    plan.run(second, Run("newton", noise=two))
    loss = 0.0
    for (value, scale, out), (other, same, _) in zip(one.seen, two.seen, strict=True):
        assert same == pytest.approx(scale, rel=1e-9)
        loss += (np.linalg.norm(out - other) - np.linalg.norm(out - value)) / scale
    return loss


@pytest.mark.parametrize("relation", RECORD_RELATIONS)
def test_no_outputs_of_neighbours_tell_more_than_epsilon(relation):
    best = 0.0
    for seed in range(120):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((1000, 1)) * 0.2
        y = np.clip(0.1 * X[:, 0] + 0.01 * rng.standard_normal(1000), -1, 1)
        X = np.clip(X, -1, 1)
        X[0], y[0] = 1.0, 1.0
        other, labels = X.copy(), y.copy()
        other[0], labels[0] = -1.0, rng.choice([-1.0, 1.0])
        if relation is Neighbouring.ADD_REMOVE:
            other, labels = X[1:], y[1:]
        first, second = (
            Records(rows, 1.0, 0.3, targets=targets) for rows, targets in ((X, y), (other, labels))
        )
        plan = planned(first, relation, 1000 if relation is Neighbouring.ADD_REMOVE else None)
        loss = privacy_loss(plan, first, second, seed)
        best = max(best, abs(loss) / BUDGET.epsilon)
    assert 0.3 < best <= 1.0


def test_groups_are_not_prepared_for_pure_privacy():
    """Weighted stages divide the squares of mu."""
    model = DPMaxGroupLossRegressor(
        delta=0.0, group_names=[0, 1], target_range=(-1, 1), data_norm=1.0
    )
    names = [each.release.name for each in plan_fit(model, 5000, 4, n_groups=2).releases]
    assert names and not any("prepared" in name or "weighted" in name for name in names)


def test_squares_are_prepared_for_pure_privacy():
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (4000, 8))
    y = np.clip(X @ rng.standard_normal(8) * 0.5 + 0.1 * rng.standard_normal(4000), -1, 1)
    shared = {"delta": 0.0, "data_norm": 1.5, "target_range": (-1, 1), "random_state": 0}
    prepared = DPRidge(1.0, **shared).fit(X, y)
    printed = DPRidge(1.0, **shared, method="output_perturbation").fit(X, y)
    assert prepared.privacy_.method == "output" and "solve_alpha" in prepared.privacy_.plan
    assert prepared.score(X, y) > printed.score(X, y) + 0.03
    tuned = DPRidgeCV(1.0, **shared).fit(X, y)
    assert np.array_equal(tuned.coef_, prepared.coef_)
    assert "in place of 'gradient', since that needs delta > 0" in str(tuned.privacy_)
    tuned = DPRidgeCV(1.0, alpha_bounds=(1e-3, 1.0), **shared).fit(X, y)
    assert tuned.privacy_.method == "statistics"
    strong = DPRidge(1.0, alpha=1e3, **shared).fit(X, y)
    assert np.linalg.norm(strong.coef_) < 0.01 * np.linalg.norm(prepared.coef_)
    assert math.isfinite(strong.privacy_.noise["coef"])


@pytest.mark.parametrize(("epsilon", "least"), [(0.05, -0.1), (1.0, 0.5), (3.0, 0.75)])
def test_no_direction_overshoots_and_noise_of_means_does_no_harm(epsilon, least):
    """Without second moments all directions are undone alike: here some are 30 times as long."""
    scores = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        z = rng.uniform(-1.0, 1.0, (5_000, 3))
        numbers = np.repeat(z, 4, axis=1) + 0.1 * rng.standard_normal((5_000, 12))
        codes = np.eye(30)[rng.integers(0, 30, 5_000)]
        X = np.hstack([numbers / math.sqrt(12.0), 0.5 * codes])
        X /= np.linalg.norm(X, axis=1).max()
        y = z @ [1.0, 0.5, -0.5] + 0.5 * codes @ rng.standard_normal(30)
        y = np.clip((y + 0.3 * rng.standard_normal(5_000)) / 8.0, -1.0, 1.0)
        model = DPRidge(epsilon, 0.0, data_norm=1.0, target_range=(-1, 1), random_state=seed)
        scores.append(model.fit(X, y).score(X, y))
    assert np.mean(scores) > least

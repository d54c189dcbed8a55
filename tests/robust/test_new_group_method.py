"""A group method is a plan and a row in GROUP_METHODS: a toy one reaches both estimators."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest

from skdp import BudgetAccountant, DPMaxGroupLossClassifier, DPMaxGroupLossRegressor
from skdp.algorithms import GROUP_METHODS, Method
from skdp.algorithms.worst_group.group_plan import GroupPlan, GroupResult
from skdp.inspection import plan_fit
from skdp.mechanisms import AdditiveMechanism, calibrated_mechanism
from skdp.privacy import BudgetExceededError, tightest_epsilon
from skdp.privacy.events import Neighbouring

N, NAMES = 900, ["few", "many"]


@dataclass(frozen=True, kw_only=True)
class ToyPlan(GroupPlan):
    """The mean gradient of the weighted losses at zero, with noise."""

    mechanism: AdditiveMechanism
    proportions: tuple[float, ...] | None = None

    @property
    def alpha(self):
        return 0.125

    @property
    def releases(self):
        n, size = self.objective.design.n_records, self.objective.dimension
        relation = self.objective.neighbouring
        return (self.mechanism.describe("coefficients", size, n, "toy", relation),)

    def to_dict(self):
        return {"alpha": self.alpha, "radius": self.objective.radius}

    def run(self, data, run):
        weights, loss = self.objective.weights, self.risk.loss
        factors, start = np.array(weights.largest), np.zeros((loss.n_outputs, data.width))
        gradient = data.total(
            lambda block: block.pull_back(
                factors[block.groups] * loss.derivative(block.margins(start), block.targets)
            )
        )
        point = self.mechanism.release(-gradient.ravel() / data.n_records, run.noise)
        return GroupResult(
            point=point,
            plan=replace(self, proportions=(0.25, 0.75)),
            weights=np.array([0.75, 0.25]) if self.objective.release_weights else None,
            proportions=np.array([0.25, 0.75]),
            largest=weights.largest,
        )


def plan_toy(objective, budget):
    design = objective.design
    lipschitz = objective.risk.loss.lipschitz(design.feature_norm, 0.0)
    moved = 2.0 * objective.weights.bound * lipschitz / design.n_records
    return ToyPlan(objective=objective, mechanism=calibrated_mechanism(budget, moved * (1 + 1e-9)))


@pytest.fixture(params=[{}, {"clips_groups": True, "has_ball": False}, None])
def row(request, monkeypatch):
    monkeypatch.setattr(ToyPlan, "weighs_groups", request.param is None)
    made = Method(plan=plan_toy, is_bounded=True, **(request.param or {}))
    monkeypatch.setitem(GROUP_METHODS, "toy", made)
    return made


def records():
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (N, 3))
    return X, X[:, 0], np.where(np.arange(N) < 200, "few", "many")


def model(estimator=DPMaxGroupLossRegressor, **parameters):
    shared = {"method": "toy", "data_norm": 1.0, "group_names": NAMES, "random_state": 0}
    if estimator is DPMaxGroupLossRegressor:
        shared["target_range"] = (-1.0, 1.0)
    else:
        shared["classes"] = [0, 1]
    return estimator(**shared | parameters)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("estimator", [DPMaxGroupLossClassifier, DPMaxGroupLossRegressor])
def test_fit_plan_and_report(row, estimator, delta):
    X, y, groups = records()
    y = (y > 0).astype(int) if estimator is DPMaxGroupLossClassifier else y
    fitted = model(estimator, delta=delta, release_group_weights=True).fit(X, y, groups=groups)
    report = fitted.privacy_
    assert report.method == "toy" and fitted.alpha_ == report.plan["alpha"] == 0.125
    assert fitted.group_weights_.tolist() == [0.75, 0.25]
    assert report.plan["group_proportions"] == fitted.group_proportions_.tolist() == [0.25, 0.75]
    assert ("the weights of their records" in str(report)) == ToyPlan.weighs_groups
    assert tightest_epsilon(report.event, delta) <= 1.0
    json.dumps(report.to_dict())
    planned = plan_fit(model(estimator, delta=delta), n_samples=N, n_features=3)
    assert tuple(each.release for each in planned.releases) == report.releases
    hidden = model(estimator, delta=delta).fit(X, y, groups=groups)
    assert not hasattr(hidden, "group_weights_")


def test_spending(row):
    X, y, groups = records()
    accountant = BudgetAccountant(1.0, 1e-6)
    fitted = model(accountant=accountant).fit(X, y, groups=groups)
    assert accountant.event.events == (fitted.privacy_.event,)
    with pytest.raises(BudgetExceededError):
        model(accountant=accountant).fit(X, y, groups=groups)


def test_the_row_says_where_the_proof_applies(row):
    X, y, groups = records()
    floored = model(group_mode="floored")
    if row.clips_groups:
        floored.fit(X, y, groups=groups)
    else:
        with pytest.raises(ValueError, match="'toy' is not for group_mode='floored'"):
            floored.fit(X, y, groups=groups)
    with pytest.raises(ValueError, match="'replace_one' only"):
        model(neighbouring=Neighbouring.ADD_REMOVE.value).fit(X, y, groups=groups)

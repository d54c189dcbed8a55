"""A method of groups is a class of the user's own: a toy one reaches both estimators."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest

from skdp import BudgetAccountant, DPMaxGroupLossClassifier, DPMaxGroupLossRegressor
from skdp.algorithms.worst_group.group_plan import GroupPlan, GroupResult
from skdp.inspection import plan_fit
from skdp.mechanisms import AdditiveMechanism, calibrated_mechanism
from skdp.methods import Method
from skdp.privacy import tightest_epsilon

N, NAMES = 900, ["few", "many"]


@dataclass(frozen=True, kw_only=True)
class ToyPlan(GroupPlan):
    """The mean gradient of the weighted losses at zero, with noise."""

    mechanism: AdditiveMechanism
    step: float
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
        point = self.step * self.mechanism.release(-gradient.ravel() / data.n_records, run.noise)
        return GroupResult(
            point=point,
            plan=replace(self, proportions=(0.25, 0.75)),
            weights=np.array([0.75, 0.25]),
            proportions=np.array([0.25, 0.75]),
            largest=weights.largest,
        )


class ToyMethod(Method):
    """One step along the weighted gradient; records of weights that are fixed before."""

    def __init__(self, step=1.0):
        self.step = step

    def plan(self, objective, budget):
        design, bound = objective.design, objective.weights.bound
        lipschitz = objective.risk.loss.lipschitz(design.feature_norm, 0.0)
        moved = 2.0 * bound * lipschitz / design.n_records
        mechanism = calibrated_mechanism(budget, moved * (1 + 1e-9))
        return ToyPlan(objective=objective, mechanism=mechanism, step=self.step)


def records():
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (N, 3))
    return X, X[:, 0], np.where(np.arange(N) < 200, "few", "many")


def model(estimator=DPMaxGroupLossRegressor, **parameters):
    shared = {"data_norm": 1.0, "group_names": NAMES, "random_state": 0}
    shared |= {"method": ToyMethod(), "group_proportions": [0.25, 0.75]}
    if estimator is DPMaxGroupLossRegressor:
        shared["target_range"] = (-1.0, 1.0)
    else:
        shared["classes"] = [0, 1]
    return estimator(**shared | parameters)


@pytest.mark.parametrize(
    ("estimator", "delta", "weighs_groups"),
    [(DPMaxGroupLossClassifier, 0.0, True), (DPMaxGroupLossRegressor, 1e-6, False)],
)
def test_fit_plan_and_report(estimator, delta, weighs_groups, monkeypatch):
    monkeypatch.setattr(ToyPlan, "weighs_groups", weighs_groups)
    X, y, groups = records()
    y = (y > 0).astype(int) if estimator is DPMaxGroupLossClassifier else y
    fitted = model(estimator, delta=delta).fit(X, y, groups=groups)
    report = fitted.privacy_
    assert report.method == "ToyMethod" and fitted.alpha_ == report.plan["alpha"] == 0.125
    assert fitted.group_weights_.tolist() == [0.75, 0.25]
    assert report.plan["group_proportions"] == fitted.group_proportions_.tolist() == [0.25, 0.75]
    assert ("the weights of their records" in str(report)) == weighs_groups
    assert tightest_epsilon(report.event, delta) <= 1.0
    json.dumps(report.to_dict())
    planned = plan_fit(model(estimator, delta=delta), n_samples=N, n_features=3)
    assert tuple(each.release for each in planned.releases) == report.releases
    assert planned.method == "ToyMethod"


class ToyWithDelta(ToyMethod):
    """Proven for delta > 0 alone."""

    needs_delta = True


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"neighbouring": "add_remove"}, "'replace_one' only"),
        ({"method": ToyWithDelta(), "delta": 0.0}, r"ToyWithDelta\(\) needs delta > 0"),
        ({"method": ToyMethod}, r"pass an object, ToyMethod\(\)"),
    ],
)
def test_the_class_says_where_the_proof_applies(given, message):
    X, y, groups = records()
    accountant = BudgetAccountant(1.0, 1e-6)
    with pytest.raises((ValueError, TypeError), match=message):
        model(accountant=accountant, **given).fit(X, y, groups=groups)
    with pytest.raises(ValueError, match="has no proof for user_ids"):
        model(accountant=accountant).fit(X, y, groups=groups, user_ids=np.arange(N))
    with pytest.raises(ValueError, match="has no proof for weights"):
        made = model(accountant=accountant, weight_bound=1.0)
        made.fit(X, y, groups=groups, sample_weight=np.ones(N))
    assert not accountant.entries

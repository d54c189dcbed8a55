"""The method "mirror_descent" for the worst group: sensitivities, transcripts, l1 ball."""

import itertools
import math
from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp

from skdp.algorithms import Run
from skdp.algorithms.mirror import rounds as vertex_rounds
from skdp.algorithms.mirror.linear import of_vertices
from skdp.algorithms.worst_group.vertices import plan_group_mirror_descent
from skdp.mechanisms import NoiseSource
from skdp.methods import GroupMirrorDescent
from skdp.privacy import PrivacyBudget, tightest_epsilon
from skdp.privacy.events import Neighbouring
from skdp.problems import (
    Design,
    EmpiricalRisk,
    GroupWeights,
    HalfSquaredLoss,
    LogisticLoss,
    Records,
    SoftmaxLoss,
)
from skdp.problems.group_objective import GroupObjective
from skdp.problems.vertices import GroupLinearProblem
from skdp.robust import DPMaxGroupLossClassifier, DPMaxGroupLossRegressor

GROUPS = {"group_names": [0, 1], "group_proportions": [0.75, 0.25]}
COUNTED = {"group_proportions": "private"}
ADDED = {"neighbouring": "add_remove", "n_public": 8000}
BUDGET = PrivacyBudget(1.0, 1e-6)


def mirror(own):
    """Mirror descent with parameters `own`."""
    return {"method": GroupMirrorDescent(**{"feature_bound": 1.0, **own}), "random_state": 0}


def classifier(own=(), **parameters):
    given = {"classes": [0, 1], **mirror(dict(own)), **GROUPS, **parameters}
    return DPMaxGroupLossClassifier(**given)


def regressor(own=(), **parameters):
    given = {"target_range": (-1, 1), **mirror(dict(own)), **GROUPS, **parameters}
    return DPMaxGroupLossRegressor(**given)


def data(n=8000, d=12, seed=0):
    """Two groups, each with a feature of its own that decides."""
    rng = np.random.default_rng(seed)
    X = rng.choice([-1.0, 1.0], size=(n, d))
    groups = (rng.uniform(size=n) < 0.25).astype(int)
    return X, np.where(groups == 0, X[:, 0], X[:, 1]), groups


def quiet():
    return Run(noise=NoiseSource(np.random.default_rng(0).bytes))


def plan_for(
    n, loss, weights=(1.0 / 0.75, 4.0), d=1, budget=BUDGET, options=None, relation=None, **objective
):
    relation = relation or Neighbouring.REPLACE_ONE
    n_public = None if relation.is_replaced else n
    objective = GroupObjective(
        EmpiricalRisk(loss),
        Design.of(Records(np.zeros((n, d)), 2.0), n_public),
        weights=GroupWeights(weights),
        coef_norm_l1=2.0,
        neighbouring=relation,
        **objective,
    )
    return plan_group_mirror_descent(objective, budget, **(options or {}))


def few_records(codes=(0, 1, 1, 1), value=1.0):
    n = len(codes)
    return Records(np.full((n, 1), value), 2.0, targets=np.ones(n), groups=np.array(codes))


@pytest.mark.parametrize("parameters", [{"delta": 0.0}, COUNTED, {**ADDED, **COUNTED}], ids=str)
def test_both_groups_are_served_within_budget_and_ball(parameters):
    X, y, groups = data(8000)
    model = classifier(epsilon=10.0, **parameters)
    model.fit(X, (y > 0).astype(int), groups=groups)
    if model.delta:  # without it, so few records give little
        assert max(model.group_losses(X, (y > 0).astype(int), groups).values()) < 0.66
    assert math.fsum(np.abs(model.coef_[0])) + abs(model.intercept_[0]) <= 3.0
    assert 9.0 < tightest_epsilon(model.privacy_.event, model.delta) <= 10.0
    assert model.group_weights_.sum() == pytest.approx(1.0)
    assert model.alpha_ == 0.0


@pytest.mark.parametrize("relation", [Neighbouring.REPLACE_ONE, Neighbouring.ADD_REMOVE])
@pytest.mark.parametrize(
    "loss",
    [LogisticLoss(), HalfSquaredLoss(1.0), SoftmaxLoss(3)],
    ids=["odds", "squares", "classes"],
)
def test_gradients_of_neighbours_are_as_far_apart_as_planned(loss, relation):
    """All pairs of extreme records and groups, or none; both bounds are nearly attained."""
    plan = plan_for(4, loss, d=2, relation=relation)
    design = plan.descent.design
    ends = (-1.0, 1.0) if loss.target_bound else range(max(2, loss.n_margins))
    rest = (
        np.array([[0.3, 1.0], [-0.7, 0.1], [1.0, -1.0]]),
        np.array([ends[0], ends[1], ends[1]]),
        [0, 1, 1],
    )
    found = {}
    rows = itertools.product((-1.0, 1.0), repeat=2)
    extremes = [([x], [y], [g]) for x, y, g in itertools.product(rows, ends, (0, 1))]
    nobody = [] if relation.is_replaced else [(np.zeros((0, 2)), [], [])]
    for x, y, g in (*nobody, *extremes):
        records = Records(
            np.vstack([x, rest[0]]),
            2.0,
            targets=np.array([*y, *rest[1]]).astype(int if loss.n_margins > 1 else float),
            groups=np.array([*g, *rest[2]]),
        )
        problem = GroupLinearProblem(records, of_vertices(loss), design, plan.objective.weights)
        for drawn, group in itertools.product(range(design.sizes[0]), range(2)):
            point = np.array([drawn]), np.array([group])
            gradient = problem.gradients(point, slice(0, problem.n_records))
            found.setdefault((drawn, group), []).append(gradient)
    for block in range(2):
        pairs = [
            pair
            for each in found.values()
            for pair in (
                itertools.combinations(each, 2)
                if relation.is_replaced
                else itertools.product(each[:1], each[1:])
            )
        ]
        moved = max(np.abs(a[block] - b[block]).max() for a, b in pairs)
        bound = design.oscillations[block] / 4
        # derivatives of several classes are below 1 where margins are bounded
        assert (0.85 if loss.n_margins > 1 and block == 0 else 0.99) * bound < moved <= bound


def test_gradients_are_those_of_the_weighted_risk():
    rng = np.random.default_rng(0)
    X, y, groups = rng.uniform(-1, 1, (50, 3)), rng.integers(2, size=50), rng.integers(2, size=50)
    plan = plan_for(50, LogisticLoss(), d=3)
    problem = GroupLinearProblem(
        Records(X, 2.0, targets=y.astype(float), groups=groups),
        LogisticLoss(),
        plan.descent.design,
        plan.objective.weights,
    )
    first, second = problem.gradients((np.array([0, 5]), np.array([1])), slice(0, 50))
    margins = X @ [1.0, 0.0, -1.0]  # the radius is 2
    losses = np.logaddexp(0.0, margins) - y * margins
    factors = np.array([0.25 / 0.75, 1.0])
    assert second == pytest.approx(factors * np.bincount(groups, losses, 2) / 50)
    slopes = 1.0 / (1.0 + np.exp(-margins)) - y
    half = 2.0 * X.T @ (slopes * (groups == 1)) / 50
    assert first == pytest.approx(np.concatenate([half, -half]))

    values = problem.values((np.array([0, 5]), np.array([1, 1, 0])), slice(10, 50))
    shares = factors * [1.0 / 3.0, 2.0 / 3.0]
    assert values == pytest.approx((shares[groups] * losses)[10:])
    assert values.max() <= plan.descent.design.magnitudes[1]


@pytest.mark.parametrize(
    ("variant", "options"),
    [
        ("bias_reduced", {}),
        pytest.param("boosted", {"n_runs": 2, "n_responses": 2}, marks=pytest.mark.slow),
    ],
)
def test_variants_keep_budget_and_ball(variant, options):
    X, y, groups = data(4000, d=2)
    loose = PrivacyBudget(1e4, 1e-6)
    options = {"work": 16.0, "most": 1, **options}
    plan = plan_for(
        4000, LogisticLoss(), d=2, budget=loose, options=options, mirror_variant=variant
    )
    assert tightest_epsilon(plan.event, 1e-6) <= 1e4
    result = plan.run(Records(X, 2.0, targets=(y > 0) * 1.0, groups=groups), quiet())
    assert result.point.min() > 0.2 and result.point.sum() <= 2.0
    with pytest.raises(ValueError, match="two groups or more"):
        plan_for(8000, LogisticLoss(), weights=(1.0,), mirror_variant="boosted")
    with pytest.raises(ValueError, match="replace_one"):
        plan_for(8000, LogisticLoss(), relation=Neighbouring.ADD_REMOVE, mirror_variant="boosted")


def test_csr_rows_stay_sparse(monkeypatch):
    X, y, groups = data(600)
    X[np.random.default_rng(1).uniform(size=X.shape) < 0.7] = 0.0
    dense = classifier().fit(X, (y > 0).astype(int), groups=groups)
    sparse = sp.csr_matrix(X)
    with monkeypatch.context() as patch:
        patch.setattr(sp.csr_matrix, "toarray", None)
        patch.setattr(sp.csr_array, "toarray", None)
        other = classifier().fit(sparse, (y > 0).astype(int), groups=groups)
    assert other.coef_ == pytest.approx(dense.coef_)


def test_entries_are_clipped_in_fit_and_prediction():
    X, y, groups = data(600)
    wild, tame = (
        classifier({"feature_bound": 0.5}).fit(Z, (y > 0).astype(int), groups=groups)
        for Z in (X, 0.5 * X)
    )
    assert (wild.coef_ == tame.coef_).all()
    assert (wild.decision_function(X) == tame.decision_function(0.5 * X)).all()


@dataclass(frozen=True)
class Wild(LogisticLoss):
    """Its values and derivatives are not within its bounds."""

    wrong: float = math.inf

    def value_and_derivative(self, margins, targets):
        return np.full(len(margins), self.wrong), np.full(len(margins), self.wrong)


@pytest.mark.parametrize("wrong", [math.inf, 100.0, -100.0, math.nan])
def test_derivatives_and_losses_are_clipped(wrong):
    plan = plan_for(4, LogisticLoss())
    design = plan.descent.design
    problem = GroupLinearProblem(few_records(), Wild(wrong), design, plan.objective.weights)
    first, second = problem.gradients((np.array([0]), np.array([1])), slice(0, 4))
    assert np.abs(first).max() <= design.magnitudes[0]
    assert second.min() >= 0.0 and second.max() <= design.magnitudes[1]


def test_the_penalty_is_in_units_of_the_largest_weight():
    plan = plan_for(4, LogisticLoss(), alpha=1.0)
    problem = GroupLinearProblem(
        few_records(value=0.0), LogisticLoss(), plan.descent.design, plan.objective.weights
    )
    first, _ = problem.gradients((np.array([0]), np.array([1])), slice(0, 4))
    assert first == pytest.approx([1.0, -1.0])  # alpha radius coefficient / weight = 1 * 2 * 2 / 4


def test_group_weights_are_the_mean_of_drawn_groups(monkeypatch):
    plan = plan_for(4, LogisticLoss(), options={"n_rounds": 5}, release_weights=True)
    script = itertools.cycle([0, 1])  # coefficients, group
    monkeypatch.setattr(vertex_rounds, "_draw", lambda *_: np.array([next(script)]))
    found = plan.run(few_records(), quiet())
    assert found.weights.tolist() == [0.0, 1.0] and found.point.tolist() == [2.0]


@pytest.mark.parametrize(
    ("n", "value", "message"), [(1, 1.0, "The plan is for"), (1000, 1.5, "bound")]
)
def test_other_records_are_refused_before_anything_is_released(n, value, message, monkeypatch):
    plan = plan_for(1000, LogisticLoss(), (9.0, 9.0), histogram_share=0.1)
    monkeypatch.setattr(type(plan.sizes), "release", None)
    with pytest.raises(ValueError, match=message):
        plan.run(few_records(np.arange(n) % 2, value), quiet())
    with pytest.raises(ValueError, match="histogram_share is too large"):
        plan_for(2000, LogisticLoss(), (9.0, 9.0), histogram_share=0.9)
    with pytest.raises(ValueError, match="at least 1"):
        plan_for(10, LogisticLoss(), (0.5, 0.5))

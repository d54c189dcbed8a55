"""The automatic choice of the method: public, covered by proofs, and of the smallest bound."""

import inspect

import numpy as np
import pytest
from sklearn.base import clone

from skdp import DPLogisticRegression, DPRidge
from skdp.algorithms.methods import METHODS, choose
from skdp.privacy import PrivacyBudget
from skdp.privacy.events import RECORD_RELATIONS, Neighbouring
from skdp.problems import (
    AbsoluteLoss,
    Design,
    EmpiricalRisk,
    HalfSquaredLoss,
    HingeLoss,
    LogisticLoss,
    Objective,
    SoftmaxLoss,
    TiltedRisk,
)

LOSSES = [LogisticLoss(), HalfSquaredLoss(1.0), HingeLoss(), AbsoluteLoss(1.0), SoftmaxLoss(3)]


def choice(loss, n=10_000, width=6, epsilon=1.0, delta=1e-6, has_solver=True, **kwargs):
    """By default among the methods that use a solver."""
    objective = Objective(EmpiricalRisk(loss), Design(1.0, width, n), **kwargs)
    budget = PrivacyBudget(epsilon, delta)
    return choose(METHODS, "auto", objective, budget, has_solver=has_solver)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("relation", RECORD_RELATIONS)
def test_gradient_leads_where_nothing_else_was_asked_for(loss, relation):
    for n, epsilon in ((2, 0.01), (1000, 0.1), (10**6, 1e4)):
        chosen = choice(loss, n, epsilon=epsilon, has_solver=False, neighbouring=relation)
        assert chosen.method == "gradient" and not chosen.bounds
    for asked in (
        {"delta": 0.0},
        {"alpha": 0.1},
        {"coef_norm": 1.0},
        {"population": True},
        {"has_solver": True},
    ):
        options = {"has_solver": False, "neighbouring": relation, **asked}
        assert choice(loss, **options).method != "gradient"


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("relation", RECORD_RELATIONS)
def test_statistics_lead_for_pure_least_squares_with_many_records(loss, relation):
    plain = {"has_solver": False, "neighbouring": relation, "width": 10, "delta": 0.0}
    is_squared = isinstance(loss, HalfSquaredLoss)
    assert (choice(loss, 2500, **plain).method == "statistics") == is_squared
    for n, asked in (
        (2499, {}),
        (10**5, {"alpha": 0.1}),
        (10**5, {"coef_norm": 1.0}),
        (10**5, {"population": True}),
        (10**5, {"has_solver": True}),
        (10**5, {"delta": 1e-6}),
    ):
        assert choice(loss, n, **{**plain, **asked}).method != "statistics"


@pytest.mark.mostly("slow", 3)
@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_smallest_bound_wins(loss, delta):
    for n, epsilon in ((100, 0.1), (10_000, 1.0), (10**6, 3.0)):
        chosen = choice(loss, n, epsilon=epsilon, delta=delta)
        assert chosen.bounds[chosen.method] == min(chosen.bounds.values())
        assert {"output", "phased"} <= set(chosen.bounds)
        assert all(bound > 0 for bound in chosen.bounds.values())


@pytest.mark.mostly("slow", 2)
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_bounds_fall_with_records_and_budget_and_rise_for_the_population(loss):
    def bounds(**kwargs):
        return choice(loss, **kwargs).bounds

    few, many = bounds(), bounds(n=40_000)
    small, large = bounds(epsilon=0.5), bounds(epsilon=2.0)
    population = bounds(population=True)
    for method in ("output", "phased"):
        assert many[method] < few[method]
        assert large[method] <= small[method]
        assert population[method] >= few[method] * (1 - 1e-3)


def test_every_method_wins_somewhere():
    squares = HalfSquaredLoss(1.0)
    assert choice(LogisticLoss(), 1000).method == "objective"
    assert choice(squares, 1000).method == "output"
    assert choice(squares, 10**6).method == "phased"
    assert choice(squares, 10**6, width=3, delta=0.0).method == "exponential"


def test_only_covered_methods_are_candidates():
    squares = HalfSquaredLoss(1.0)
    assert choice(squares, 10**6, neighbouring=Neighbouring.ADD_REMOVE).method == "output"
    # a penalty without a ball is an objective that only one-shot perturbation minimises
    assert choice(squares, 10**6, alpha=0.01).method == "output"
    assert set(choice(squares, 10**6, alpha=0.01, coef_norm=1.0).bounds) == {"output", "phased"}
    tilted = TiltedRisk(squares, 0.1)
    objective = Objective(tilted, Design(1.0, 5, 10**6))
    for delta in (0.0, 1e-6):
        assert choose(METHODS, "auto", objective, PrivacyBudget(1.0, delta)).method == "output"
    # no sampler for several margins, and none that is fast for flat losses in many dimensions
    assert "exponential" not in choice(SoftmaxLoss(3), delta=0.0).bounds
    assert "exponential" not in choice(LogisticLoss(), width=30, delta=0.0).bounds
    assert "exponential" not in choice(squares).bounds


def test_no_argument_is_data():
    parameters = set(inspect.signature(choose).parameters)
    assert parameters == {
        "methods", "name", "objective", "budget", "calibration", "may_split", "has_solver",
        "in_memory", "is_slack",
    }  # fmt: skip
    fields = set(inspect.signature(Objective).parameters)
    assert fields == {
        "risk", "design", "alpha", "coef_norm", "neighbouring", "population", "coef_norm_l1",
        "feature_bound", "mirror_variant", "prepares",
    }  # fmt: skip


@pytest.mark.parametrize("estimator", [DPLogisticRegression(classes=[0, 1]), DPRidge()], ids=str)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_report_says_which_and_why(estimator, delta):
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (3000, 3))
    y = (X[:, 0] > 0).astype(int)
    estimator = clone(estimator).set_params(delta=delta, solver="newton", preparation=None)
    report = estimator.fit(X, y).privacy_
    bounds = report.plan["method_bounds"]
    assert report.method == min(bounds, key=bounds.get)
    asked = estimator.set_params(method="output").fit(X, y).privacy_
    assert asked.method == "output" and "method_bounds" not in asked.plan


def test_the_bounds_rank_the_methods_on_data():
    """Mean squared error of 12 fits on rows like those of the reference design.

    Where the bounds differ by a factor of two or more, the order of the means agrees. The gaps
    are over ten standard errors, so a false alarm is out of the question.
    """
    rng = np.random.default_rng(0)
    n, d = 20_000, 4
    X = rng.standard_normal((n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    w = rng.standard_normal(d)
    y = np.clip(X @ (w * 0.5 * np.sqrt(d) / np.linalg.norm(w)), -1, 1)
    printed = DPRidge(10.0, fit_intercept=False, preparation=None)
    bounds = clone(printed).set_params(solver="newton").fit(X, y).privacy_.plan["method_bounds"]
    assert 2.0 * bounds["phased"] < bounds["output"]
    errors = {
        method: np.mean([
            np.mean((clone(printed).set_params(method=method, random_state=seed)
                     .fit(X, y).predict(X) - y) ** 2)
            for seed in range(12)
        ])
        for method in ("output", "phased")
    }  # fmt: skip
    assert errors["phased"] < errors["output"]

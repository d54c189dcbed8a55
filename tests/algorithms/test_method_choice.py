"""The automatic choice of the method: public, covered by proofs, and of the smallest bound."""

import numpy as np
import pytest

from skdp import DPLinearClassifier
from skdp.methods.choice import METHODS, choose
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
)

LOSSES = [LogisticLoss(), HalfSquaredLoss(1.0), HingeLoss(), AbsoluteLoss(1.0), SoftmaxLoss(3)]
PERTURBED = ["objective", "output_perturbation", "phased", "exponential"]


def choice(
    loss, n=10_000, width=6, epsilon=1.0, delta=1e-6, solver="newton", among=METHODS, **given
):
    """By default among the methods that use a solver."""
    objective = Objective(EmpiricalRisk(loss), Design(1.0, width, n), **given)
    methods = {name: METHODS[name] for name in among}
    return choose(methods, "auto", objective, PrivacyBudget(epsilon, delta), solver=solver)


def compared(loss, delta=1e-6, **given):
    """Only among the methods whose bounds are compared, and of which none leads."""
    return choice(loss, delta=delta, among=PERTURBED if delta else PERTURBED[1:], **given)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("relation", RECORD_RELATIONS)
def test_gradient_leads_unless_a_solver_or_pure_privacy_was_asked_for(loss, relation):
    plain = {"solver": "auto", "neighbouring": relation}
    for n, epsilon in ((2, 0.01), (1000, 0.1), (10**6, 1e4)):
        chosen = choice(loss, n, epsilon=epsilon, **plain)
        assert chosen.method == "gradient" and not chosen.bounds
    for given in ({"alpha": 0.1}, {"width": 1002}):
        assert choice(loss, **plain, **given).method == "gradient"
    for asked in ({"delta": 0.0}, {"solver": "newton"}):
        assert choice(loss, **{**plain, **asked}).method != "gradient"


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize(
    ("relation", "alpha"), list(zip(RECORD_RELATIONS, (0.0, 0.1), strict=True))
)
def test_output_leads_with_a_solver_and_for_pure_least_squares(loss, relation, alpha):
    given = {"neighbouring": relation, "alpha": alpha}
    chosen = choice(loss, **given)
    assert (chosen.method, chosen.bounds) == ("output", {})
    is_squared = isinstance(loss, HalfSquaredLoss)
    for solver in ("auto", "newton"):
        pure = choice(loss, delta=0.0, solver=solver, **given)
        assert (pure.method == "output") == is_squared
    assert choice(loss, width=1002, **given).method == "output"


@pytest.mark.parametrize("relation", RECORD_RELATIONS)
@pytest.mark.parametrize("solver", ["auto", "newton"])
def test_objective_leads_for_pure_privacy_where_a_theorem_has_a_smooth_loss(relation, solver):
    for loss in LOSSES:
        chosen = choice(loss, delta=0.0, solver=solver, neighbouring=relation)
        leads = chosen.method == "objective" and not chosen.bounds
        assert leads == isinstance(loss, (LogisticLoss, SoftmaxLoss))
        penalised = choice(loss, delta=0.0, solver=solver, neighbouring=relation, alpha=0.1)
        assert penalised.method != "objective"


def test_every_method_that_is_compared_wins_somewhere():
    squares = HalfSquaredLoss(1.0)
    assert compared(LogisticLoss(), n=1000).method == "objective"
    assert compared(squares, n=1000).method == "output_perturbation"
    assert compared(squares, n=10**6).method == "phased"
    assert compared(squares, n=10**6, width=3, delta=0.0).method == "exponential"


def test_bounds_are_compared_where_no_method_leads():
    for solver in ("auto", "newton"):  # pure privacy of a loss with kinks
        chosen = choice(HingeLoss(), delta=0.0, solver=solver)
        assert chosen.method == min(chosen.bounds, key=chosen.bounds.get)
        assert set(chosen.bounds) <= set(PERTURBED) and len(chosen.bounds) > 1
        assert "smallest bound" in chosen.reason
    # several solves are compared only where the solver allows them
    objective = Objective(EmpiricalRisk(HalfSquaredLoss(1.0)), Design(1.0, 1002, 10**8))
    budget = PrivacyBudget(1.0, 1e-6)
    for may_split, method in ((True, "phased"), (False, "output_perturbation")):
        methods = {name: METHODS[name] for name in PERTURBED}
        chosen = choose(methods, "auto", objective, budget, solver="newton", may_split=may_split)
        assert chosen.method == method and bool(chosen.bounds) == may_split


def test_only_covered_methods_are_candidates():
    squares = HalfSquaredLoss(1.0)
    added = compared(squares, n=10**6, neighbouring=Neighbouring.ADD_REMOVE)
    assert added.method == "output_perturbation"
    # a penalty without a ball is an objective that only one-shot perturbation minimises
    assert compared(squares, n=10**6, alpha=0.01).method == "output_perturbation"
    assert choice(LogisticLoss(), delta=0.0, alpha=0.01).method == "output_perturbation"
    in_a_ball = compared(squares, n=10**6, alpha=0.01, coef_norm=1.0)
    assert set(in_a_ball.bounds) == {"output_perturbation", "phased"}
    # no sampler for several margins, and none that is fast for flat losses in many dimensions
    assert "exponential" not in compared(SoftmaxLoss(3), delta=0.0).bounds
    assert "exponential" not in compared(LogisticLoss(), width=30, delta=0.0).bounds
    assert "exponential" not in compared(squares).bounds


def test_the_report_says_which_and_why():
    estimator = DPLinearClassifier(loss="hinge", classes=[0, 1], delta=0.0)
    X = np.random.default_rng(0).uniform(-0.3, 0.3, (500, 3))
    y = (X[:, 0] > 0).astype(int)
    report = estimator.set_params(solver="newton").fit(X, y).privacy_
    bounds = report.plan["method_bounds"]
    assert report.method == min(bounds, key=bounds.get)
    asked = estimator.set_params(method="output_perturbation").fit(X, y).privacy_
    assert asked.method == "output_perturbation" and "method_bounds" not in asked.plan

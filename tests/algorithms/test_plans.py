"""A plan runs on records of its design alone: its noise is for no others."""

import dataclasses

import numpy as np
import pytest

from skdp.algorithms import METHODS, output_perturbation, plan_output_perturbation
from skdp.algorithms.max_group_loss import GroupObjective, plan_max_group_loss
from skdp.algorithms.plan import Run
from skdp.privacy import Neighbouring, PrivacyBudget
from skdp.privacy.events import flatten_event
from skdp.problems import (
    Ball,
    Design,
    EmpiricalRisk,
    FiniteSumProblem,
    GroupWeights,
    HalfSquaredLoss,
    Objective,
    Records,
)

LOSS = HalfSquaredLoss(1.0)


def records(n=40, norm=1.0, d=2):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((n, d)), rng.uniform(-1.0, 1.0, n)
    return Records(X, norm, 0.1, targets=y, groups=np.arange(n) % 2)


def plans():
    design, pure = Design.of(records()), PrivacyBudget(1.0)
    gradient = Objective(EmpiricalRisk(LOSS), design)
    yield "gradient", METHODS["gradient"].plan(gradient, PrivacyBudget(1.0, 1e-6), "analytic")
    for name in ("output", "phased", "exponential"):
        method = METHODS[name]
        for alpha in (0.0, 1.0):
            objective = Objective(EmpiricalRisk(LOSS), design, alpha=alpha, coef_norm=1.0)
            yield f"{name}, {alpha:g}", method.plan(objective, pure, "analytic")
    public = Objective(
        EmpiricalRisk(LOSS), Design.of(records(), 40), neighbouring=Neighbouring.ADD_REMOVE
    )
    yield "output, add/remove", METHODS["output"].plan(public, pure, "analytic")
    objective = GroupObjective(EmpiricalRisk(LOSS), design, weights=GroupWeights((2.0, 2.0)))
    for share in (0.0, 0.1):
        shared = dataclasses.replace(objective, histogram_share=share)
        yield f"max-group, histogram {share:g}", plan_max_group_loss(shared, pure)


@pytest.mark.parametrize(("name", "plan"), [pytest.param(*each, id=each[0]) for each in plans()])
def test_other_public_numbers_are_refused(name, plan):
    assert np.isfinite(plan.run(records(), Run()).point).all()
    others = [records(norm=2.0), records(d=3)]
    if "add/remove" not in name:  # their number is private there
        others.append(records(n=20))
    for other in others:
        with pytest.raises(ValueError, match="The plan is for Design"):
            plan.run(other, Run())


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5])
def test_the_event_before_a_run_is_that_of_its_releases(share, delta):
    """With a histogram the second release follows from the first, its cost does not."""
    objective = GroupObjective(
        EmpiricalRisk(LOSS),
        Design.of(records()),
        weights=GroupWeights((2.0, 2.0)),
        histogram_share=share,
    )
    plan = plan_max_group_loss(objective, PrivacyBudget(1.0, delta))
    released = plan.run(records(), Run()).plan
    assert len(released.releases) == (2 if share else 1)
    assert flatten_event(plan.event) == flatten_event(released.event)


def test_problems_beyond_the_plan_are_refused():
    problem = FiniteSumProblem(records(), LOSS, 0.5, Ball(1.0))
    plan = plan_output_perturbation(problem.constants, PrivacyBudget(1.0))
    assert plan.run(problem, Run()).point.shape == (3,)
    for other in (
        FiniteSumProblem(records(n=20), LOSS, 0.5, Ball(1.0)),
        FiniteSumProblem(records(), LOSS, 0.1, Ball(1.0)),
    ):
        with pytest.raises(ValueError, match="exceeds that of the plan"):
            plan.run(other, Run())
        output_perturbation(other, PrivacyBudget(1.0))

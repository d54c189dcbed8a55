"""A plan runs on records of its design alone: its noise is for no others."""

import dataclasses

import numpy as np
import pytest
from plain_noise import Silent

from skdp.algorithms import (
    dp_bilevel,
    output_perturbation,
    plan_bilevel,
    plan_output_perturbation,
    plan_phased_saddle_output_perturbation,
    plan_saddle_output_perturbation,
)
from skdp.algorithms.plan import Run
from skdp.algorithms.worst_group.max_group_loss import plan_max_group_loss
from skdp.mechanisms import NoiseSource
from skdp.methods.choice import METHODS, choose
from skdp.privacy import Neighbouring, PrivacyBudget
from skdp.problems import (
    Ball,
    Design,
    EmpiricalRisk,
    FiniteSumProblem,
    GroupWeights,
    HalfSquaredLoss,
    MaxGroupLossProblem,
    Objective,
    PenaltyGroups,
    PenaltyProblem,
    Records,
    huber_loss,
)
from skdp.problems.group_objective import GroupObjective
from skdp.solvers import solve_certified

LOSS = HalfSquaredLoss(1.0)


def records(n=40, norm=1.0, d=2):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((n, d)), rng.uniform(-1.0, 1.0, n)
    return Records(X, norm, 0.1, targets=y, groups=np.arange(n) % 2)


def plans():
    design, pure = Design.of(records()), PrivacyBudget(1.0)
    gradient = Objective(EmpiricalRisk(LOSS), design)
    yield "gradient", METHODS["gradient"].plan(gradient, PrivacyBudget(1.0, 1e-6))
    for delta in (0.0, 1e-6):
        huber = Objective(EmpiricalRisk(huber_loss(1.0, 0.5)), design)
        plan = METHODS["objective"].plan(huber, PrivacyBudget(1.0, delta))
        yield f"objective, delta {delta:g}", plan
    for name in ("output", "output_perturbation", "phased", "exponential"):
        method = METHODS[name]
        for alpha in (0.0, 1.0):
            objective = Objective(EmpiricalRisk(LOSS), design, alpha=alpha, coef_norm=1.0)
            yield f"{name}, {alpha:g}", method.plan(objective, pure)
    public = Objective(
        EmpiricalRisk(LOSS), Design.of(records(), 40), neighbouring=Neighbouring.ADD_REMOVE
    )
    for name in ("output", "output_perturbation"):
        yield f"{name}, add/remove", METHODS[name].plan(public, pure)
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


def test_problems_beyond_the_plan_are_refused():
    problem = FiniteSumProblem(records(), LOSS, 0.5, Ball(1.0))
    plan = plan_output_perturbation(problem.constants, PrivacyBudget(1.0))
    assert plan.run(problem, Run()).point.shape == (3,)
    for other, message in (
        (FiniteSumProblem(records(n=20), LOSS, 0.5, Ball(1.0)), "n_records"),
        (FiniteSumProblem(records(d=3), LOSS, 0.5, Ball(1.0)), "dimension"),
        (FiniteSumProblem(records(), LOSS, 0.1, Ball(1.0)), "exceeds that of the plan"),
    ):
        with pytest.raises(ValueError, match=message):
            plan.run(other, Run())
        output_perturbation(other, PrivacyBudget(1.0))
    added = plan_output_perturbation(
        problem.constants, PrivacyBudget(1.0), neighbouring=Neighbouring.ADD_REMOVE
    )
    with pytest.raises(ValueError, match="n_public"):
        added.run(problem, Run())


def test_a_plan_for_a_small_ball_is_not_for_a_large_one():
    """Its noise is for the diameter of the ball, and its accuracy is larger than that."""
    tiny = FiniteSumProblem(records(), LOSS, 1e-6, Ball(0.01))
    plan = plan_output_perturbation(tiny.constants, PrivacyBudget(1.0), accuracy_fraction=1e3)
    assert plan.accuracy > plan.mechanism.sensitivity == 0.02
    large = FiniteSumProblem(records(), LOSS, 5000.0, Ball(1000.0))
    assert large.constants.argmin_sensitivity(Neighbouring.REPLACE_ONE) < plan.exact_sensitivity
    with pytest.raises(ValueError, match="exceeds that of the plan"):
        plan.run(large, Run())


def no_noise(size):
    raise AssertionError("noise was drawn.")


class OrderAlone(NoiseSource):
    """Draws the order of the records, and no noise."""

    def add_normal(self, value, scale):
        raise AssertionError("noise was drawn.")

    add_spherical_laplace = add_normal


def group_problem(n=40, norm=1.0, d=2, largest=1.5, radius=1.0, alphas=(0.5, 0.5)):
    weights = GroupWeights((largest, largest))
    return MaxGroupLossProblem(records(n, norm, d), LOSS, weights, radius, *alphas)


@pytest.mark.parametrize("release", ["both", "x", "y", "phased"])
def test_saddle_problems_beyond_the_plan_are_refused(release):
    problem, budget = group_problem(), PrivacyBudget(1.0)
    make = plan_phased_saddle_output_perturbation
    options = {"record_moduli": problem.record_moduli, "n_phases": 2}
    if release != "phased":
        make, options = plan_saddle_output_perturbation, {"release": release}
    plan = make(problem.constants, budget, **options)
    assert np.isfinite(plan.run(problem, Run()).point).all()
    plan.run(group_problem(norm=0.5, largest=1.2), Run())  # its neighbours are nearer
    for other, message in (
        (group_problem(n=39), "The plan is for"),
        (group_problem(n=42), "The plan is for"),
        (group_problem(d=3), "The plan is for"),
        (group_problem(norm=1.1), "exceeds that of the plan"),
        (group_problem(largest=1.8), "exceeds that of the plan"),
        (group_problem(radius=2.0), "exceeds that of the plan"),
    ):
        with pytest.raises(ValueError, match=message):
            plan.run(other, Run(noise=OrderAlone()))
    if release != "phased":  # which has regularisers of its own
        for alphas in ((0.4, 0.5), (0.5, 0.4)):
            with pytest.raises(ValueError, match="exceeds that of the plan"):
                plan.run(group_problem(alphas=alphas), Run(noise=OrderAlone()))


def test_a_saddle_plan_for_a_small_ball_is_not_for_a_large_one():
    """Its noise is for the diameter of the ball, and its accuracy is larger than that."""
    tiny = group_problem(radius=0.01, alphas=(1e-6, 1e-6)).constants
    large = group_problem(radius=2.0, alphas=(1e6, 1e6))
    plan = plan_saddle_output_perturbation(
        tiny, PrivacyBudget(1.0), release="x", accuracy_fraction=1e3
    )
    for name in ("sensitivity", "sensitivity_x", "sensitivity_y"):
        assert getattr(large.constants, name) < getattr(tiny, name)
    with pytest.raises(ValueError, match="exceeds that of the plan"):
        plan.run(large, Run(noise=NoiseSource(no_noise)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"targets": np.full(40, np.nan)}, "targets must be numbers"),
        ({"targets": None}, "no targets"),
        ({"groups": None}, "one group each"),
        ({"groups": np.full(40, 0.5)}, "groups must be integers"),
        ({"groups": np.full(40, 2)}, "groups must be integers"),
    ],
)
def test_a_histogram_is_released_for_valid_records_only(changes, message):
    objective = GroupObjective(
        EmpiricalRisk(LOSS),
        Design.of(records()),
        weights=GroupWeights((2.0, 2.0)),
        histogram_share=0.1,
    )
    columns = {"targets": records().targets, "groups": records().groups} | changes
    with pytest.raises(ValueError, match=message):
        plan_max_group_loss(objective, PrivacyBudget(1.0)).run(
            records().with_targets(**columns), Run(noise=NoiseSource(no_noise))
        )


def test_a_stated_bilevel_plan_is_for_its_public_numbers():
    """Its statement has the sensitivity of the problem that it was made for."""
    budget, groups = PrivacyBudget(1.0, 1e-6), PenaltyGroups((0, 0, 0), (1.0,) * 3, 0.1, 1.0)
    problem, other = (PenaltyProblem(records(norm=norm), LOSS, groups) for norm in (1.0, 2.0))
    plan = plan_bilevel(problem, budget, penalty=1.0, n_steps=2)
    assert plan.run(problem, Run()).plan.releases == plan.releases
    with pytest.raises(ValueError, match="other public numbers"):
        plan.run(other, Run(noise=NoiseSource(no_noise)))
    stated = dp_bilevel(other, budget, penalty=1.0, n_steps=2).plan.releases
    unstated = dataclasses.replace(plan, releases=())
    assert unstated.run(other, Run()).plan.releases == stated != plan.releases


@pytest.mark.parametrize("name", ["phased", "exponential"])
def test_a_method_refuses_a_relation_that_it_has_no_proof_for(name):
    design = Design.of(records(), 400)
    objective = Objective(
        EmpiricalRisk(LOSS), design, coef_norm=1.0, neighbouring=Neighbouring.ADD_REMOVE
    )
    with pytest.raises(ValueError, match="replace_one"):
        choose(METHODS, name, objective, PrivacyBudget(1.0))
    with pytest.raises(ValueError, match="replace_one"):
        METHODS[name].plan(objective, PrivacyBudget(1.0))


def test_the_solution_is_certified_to_half_of_the_accuracy():
    """Noise is for neighbours' points that are each within the accuracy of their solutions."""
    problem = FiniteSumProblem(records(), LOSS, 0.5, Ball(1.0))
    plan = plan_output_perturbation(problem.constants, PrivacyBudget(1.0), accuracy_fraction=0.5)
    exact = solve_certified(problem, 1e-9, "newton").point
    far = problem.domain.project(exact + 0.9 * plan.accuracy * np.eye(3)[0])

    point = plan.run(problem, Run(lambda problem, accuracy: far, noise=Silent())).point
    assert np.linalg.norm(point - exact) <= 0.5 * plan.accuracy

"""Problems of weighted records and of persons: the same as with repeated records."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from every_loss import targets_for
from sklearn.linear_model import LogisticRegression, Ridge, SGDRegressor

from skdp.algorithms import dp_localized_gd, output_perturbation, plan_output_perturbation
from skdp.privacy import PrivacyBudget
from skdp.privacy.events import Neighbouring
from skdp.problems import (
    Attack,
    Ball,
    Design,
    EmpiricalRisk,
    FiniteSumProblem,
    GroupWeights,
    HalfSquaredLoss,
    LogisticLoss,
    Objective,
    PenaltyGroups,
    PenaltyProblem,
    Records,
    SoftmaxLoss,
    TiltedProblem,
    TiltedRisk,
    WholeSpace,
)
from skdp.problems.adversarial import AdversarialProblem
from skdp.problems.max_group_loss import max_group_loss_constants
from skdp.solvers import SklearnSolver, solve_certified

BUDGET = PrivacyBudget(1.0, 1e-6)
PROBLEMS = {
    "mean": lambda records, loss: FiniteSumProblem(records, loss, 0.1, Ball(3.0)),
    "tilted": lambda records, loss: TiltedProblem(records, loss, 0.1, Ball(3.0), 0.7),
    "attacked": lambda records, loss: AdversarialProblem(
        records, loss, 0.1, Ball(3.0), Attack(2, 0.2, records.intercept), 0.05
    ),
}
#: All but attacks on softmax, which have no closed form.
CASES = [
    (name, loss)
    for name in PROBLEMS
    for loss in (LogisticLoss(), HalfSquaredLoss(1.0), SoftmaxLoss(3))
    if name != "attacked" or loss.n_outputs == 1
]


def parts(loss, seed=0):
    """Rows, targets and persons with 1, 2 or 4 records."""
    rng = np.random.default_rng(seed)
    persons = np.repeat(np.arange(30), rng.choice([1, 2, 4], 30))
    return rng.normal(size=(len(persons), 4)), targets_for(loss, rng, len(persons)), persons


@pytest.mark.parametrize(("name", "loss"), CASES, ids=str)
def test_a_person_counts_once(name, loss):
    """Each record four times over the records of its person: four records of each person."""
    container = np.asarray if loss.n_outputs == 1 else sp.csr_matrix
    X, t, persons = parts(loss)
    order = np.random.default_rng(1).permutation(len(t))
    of_persons = Records(container(X[order]), 1.0, 0.3, targets=t[order]).of_units(
        None, persons[order]
    )
    repeats = 4 // np.bincount(persons)[persons]
    repeated = Records(np.repeat(X, repeats, axis=0), 1.0, 0.3, targets=np.repeat(t, repeats))
    ours, reference = (PROBLEMS[name](each, loss) for each in (of_persons, repeated))
    assert ours.n_public == 30 and ours.of_persons
    rng = np.random.default_rng(2)
    for w in rng.normal(size=(3, ours.dimension)):
        np.testing.assert_allclose(ours.value(w), reference.value(w), rtol=1e-12)
        for evaluate in ("gradient", "hessian"):
            each = [getattr(problem, evaluate)(w) for problem in (ours, reference)]
            np.testing.assert_allclose(*each, rtol=1e-10, atol=1e-12)
    assert ours.smoothness == pytest.approx(ours.constants.smoothness + 0.1)


@pytest.mark.parametrize(
    ("loss", "container"), [(LogisticLoss(), np.asarray), (HalfSquaredLoss(1.0), sp.csr_matrix)]
)
def test_solvers_with_batches_need_no_help(loss, container):
    """Of weighted records and of persons; a solver that leaves weights out misses the solution."""
    X, t, persons = parts(loss)
    records = Records(container(X), 1.0, 0.3, targets=t)
    weights = np.random.default_rng(3).choice([0.0, 0.1, 1.0], len(t))
    for weighted in (records.of_units(weights), records.of_units(None, persons)):
        problem = PROBLEMS["mean"](weighted, loss)
        exact = solve_certified(problem, 1e-8, "newton").point
        found = solve_certified(problem, 1e-5, "svrg", rng=np.random.default_rng(0))
        assert len(found.attempts) == 1
        assert np.linalg.norm(found.point - exact) <= 1e-5


def test_scikit_learn_solves_weighted_problems():
    X, t, persons = parts(LogisticLoss())
    for loss, targets, estimator in (
        (LogisticLoss(), t, LogisticRegression(tol=1e-10, max_iter=1000)),
        (HalfSquaredLoss(1.0), t - 0.5, Ridge()),
        (HalfSquaredLoss(1.0), t - 0.5, SGDRegressor(max_iter=3000, tol=None, eta0=0.002)),
    ):
        records = Records(X, 1.0, 0.3, targets=targets).of_units(None, persons)
        problem = FiniteSumProblem(records, loss, 0.1, WholeSpace())
        found = SklearnSolver(estimator)._solve(problem, 0.0, np.zeros(problem.dimension), None)
        exact = solve_certified(problem, 1e-8, "newton").point
        np.testing.assert_allclose(found, exact, atol=0.01)


def test_a_thinned_problem_has_whole_persons():
    """A part of the records of everybody would have more persons than the size allows for."""
    X, t, persons = parts(LogisticLoss())
    problem = PROBLEMS["mean"](Records(X, 1.0, targets=t).of_units(None, persons), LogisticLoss())
    thin = problem.subsample(4)
    assert thin.n_public == thin.records.n_units == 8
    assert set(thin.records.persons.tolist()) == set(range(0, 30, 4))
    np.testing.assert_allclose(np.bincount(thin.records.persons, thin.records.shares)[::4], 1.0)


def test_a_person_is_in_a_batch_with_all_records_or_with_none(monkeypatch):
    """Batches are drawn among persons; a person moves an estimate by no more than is claimed."""
    X, t, persons = parts(LogisticLoss())
    own = persons == 7
    first, second = (
        Records(np.where(own[:, None], sign * 9.0, X), 1.0, targets=t).of_units(None, persons)
        for sign in (1.0, -1.0)
    )
    problem, other = (PROBLEMS["mean"](each, LogisticLoss()) for each in (first, second))
    plan = dp_localized_gd(problem, sampling_rate=0.5, noise_multiplier=9.0).plan
    assert plan.neighbouring is plan.event.neighbouring is Neighbouring.REPLACE_USER
    chosen, y = np.array([2, 7, 11, 29]), np.full(problem.dimension, 1.0)

    def sample(size, rate, noise):
        assert (size, rate) == (30, 0.5)
        return chosen

    monkeypatch.setattr("skdp.algorithms.bilevel.localized_descent.poisson_sample", sample)
    found = plan.gradient(problem, y, None)
    part = PROBLEMS["mean"](first.take(first.records_of(chosen)), LogisticLoss())
    penalty = problem.penalty_gradient(y)
    expected = penalty + (part.gradient(y) - penalty) * len(chosen) / (0.5 * 30)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    moved = np.linalg.norm(found - plan.gradient(other, y, None))
    assert 0.4 * plan.mechanism.sensitivity < moved <= plan.mechanism.sensitivity
    with pytest.raises(ValueError, match="go with a relation of persons"):
        replace(plan, neighbouring=Neighbouring.REPLACE_ONE).run(problem, None)


def test_roles_of_a_bilevel_problem_are_those_of_persons():
    """Persons at even places train, and all of their records weigh alike: as one record each."""
    rng = np.random.default_rng(5)
    X, t = rng.normal(size=(9, 3)), rng.integers(0, 2, 9) + 0.0
    penalties = PenaltyGroups((0,) * 3, (1.0,) * 3, 0.1, 10.0)
    times = rng.integers(1, 4, 9)
    repeated = Records(np.repeat(X, times, axis=0), 1.0, targets=np.repeat(t, times))
    ends = Records(X, 1.0, targets=t), repeated.of_units(None, np.repeat(np.arange(9), times))
    once, thrice = (PenaltyProblem(each, LogisticLoss(), penalties) for each in ends)
    assert (thrice.n_train, thrice.n_val, thrice.of_persons) == (5, 4, True)
    for name, given in (("lower", ()), ("penalised", (0.7,))):
        one, other = (getattr(each, name)(np.zeros(1), *given) for each in (once, thrice))
        w = rng.normal(size=3)
        np.testing.assert_allclose(other.gradient(w), one.gradient(w), atol=1e-12)
        moved = [
            each.constants.argmin_sensitivity(Neighbouring.REPLACE_ONE) for each in (one, other)
        ]
        assert moved[1] == pytest.approx(moved[0], rel=1e-6)


def test_losses_of_others_are_moved_by_a_weight_at_most_by_their_gradient():
    """A declared diameter below the largest gradient does not hold for weights below 1."""

    class Steep(LogisticLoss):
        def gradient_diameter(self, feature_norm, radius):
            return 0.1 * self.lipschitz(feature_norm, radius)

    full = Design(1.0, 3, 100, of_persons=True)
    slack = Design(1.0, 3, 100, of_persons=True, is_slack=True)
    diameters = [EmpiricalRisk(Steep()).constants(each, 0.1, 2.0) for each in (full, slack)]
    low, high = (each.gradient_diameter for each in diameters)
    assert high == pytest.approx(10.0 * low) == diameters[0].lipschitz
    given = Steep(), GroupWeights((1.0,))  # the saddle problem of one group
    of_group = [max_group_loss_constants(*given, each, 2.0, 1.0, 1.0) for each in (full, slack)]
    assert [each.ranges[0][0] for each in of_group] == pytest.approx([low, high])


def test_tilt_is_refused_for_weights_below_1():
    """All others may weigh next to nothing: one person then has most of the tilted weight."""
    records = Records(np.eye(3), 1.0, targets=np.ones(3)).of_units(np.full(3, 1e-3))
    with pytest.raises(ValueError, match="tilt > 0 has no proof"):
        TiltedProblem(records, LogisticLoss(), 0.1, Ball(1.0), 1.0)
    with pytest.raises(ValueError, match="tilt > 0 has no proof"):
        TiltedRisk(LogisticLoss(), 1.0).constants(Design.of(records), 0.1, 1.0)


def test_records_of_persons_need_a_relation_of_persons():
    X, t, persons = parts(LogisticLoss())
    problem = PROBLEMS["mean"](Records(X, 1.0, targets=t).of_units(None, persons), LogisticLoss())
    result = output_perturbation(problem, BUDGET)
    assert result.plan.neighbouring is Neighbouring.REPLACE_USER
    plan = plan_output_perturbation(problem.constants, BUDGET)
    with pytest.raises(ValueError, match="go with a relation of persons"):
        plan.run(problem, None)
    with pytest.raises(ValueError, match="go with a relation of persons"):
        Objective(EmpiricalRisk(LogisticLoss()), Design(1.0, 3, 30, of_persons=True))

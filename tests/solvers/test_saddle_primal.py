"""Solvers around solvers, the choice among all of them, and functions that are not bilinear."""

import copy
import functools

import numpy as np
import pytest
from saddle_problems import ConcaveRecords, GroupLogistic, chosen, distance

from skdp.problems import GroupWeights, LogisticLoss, MaxGroupLossProblem, Records
from skdp.solvers import (
    LSVRE,
    BestResponse,
    Extragradient,
    certifiable_saddle_accuracy,
    certify_saddle,
    resolve_solver,
    solve_certified,
)
from skdp.solvers.saddle.best_response import _Found, _PrimalProblem

ALL = [
    LSVRE(), Extragradient(), BestResponse("newton"), BestResponse("lbfgs"),
    BestResponse("accelerated_gradient"), resolve_solver("auto", saddle=True),
]  # fmt: skip
MU = [(1.0, 1.0), (0.125, 0.5), (0.5, 1.0 / 16)]


@functools.cache
def groups(mu_x=0.5, mu_y=0.5, n=400):
    """A problem, and its solution to all certifiable digits."""
    problem = GroupLogistic.random(n, 3, 3, mu_x, mu_y)
    accuracy = certifiable_saddle_accuracy(problem.constants)
    found = solve_certified(problem, accuracy, Extragradient())
    return problem, (found.x, found.y), found.distance


def max_group_loss(mu=0.1):
    problem, _, _ = groups()
    signs = np.sign(problem.records[:, 0])
    signs[signs == 0] = 1
    return MaxGroupLossProblem(
        Records(
            problem.records * signs[:, None], 1.0,
            targets=(signs > 0).astype(float), groups=problem.groups,
        ), LogisticLoss(), GroupWeights((3.0, 3.0, 3.0)), 2.0, mu, mu,
    )  # fmt: skip


def counted(problem):
    """A copy of a problem, and the numbers of records of all its evaluations."""
    sizes = []

    class Counted(type(problem)):
        def data_operator(self, x, y):
            sizes.append(self.n_records)
            return super().data_operator(x, y)

        def batch_operator(self, rows, x, y):
            sizes.append(len(np.arange(self.n_records)[rows]))
            return super().batch_operator(rows, x, y)

        def best_response(self, x):
            sizes.append(self.n_records)
            return super().best_response(x)

    other = copy.copy(problem)
    other.__class__ = Counted
    return other, sizes


def primal(problem):
    """The wrapped problem; nothing is ever accurate enough for it."""
    return _PrimalProblem(problem, 0.0)


@pytest.mark.parametrize(("solver", "mu"), [(solver, mu) for solver in ALL for mu in MU], ids=repr)
def test_worst_group_is_solved(solver, mu):
    problem, exact, slack = groups(*mu)
    accuracy = 1e-5 * problem.constants.localisation
    rng = np.random.default_rng(0)
    found = solve_certified(problem, accuracy, solver, rng=rng)
    assert len(found.attempts) == 1
    assert distance(problem, found.x, found.y, exact) <= found.distance + slack
    assert found.distance <= accuracy


def test_a_function_is_a_minimisation_solver_as_well():
    problem, exact = chosen(("interior", "face"), 1.0, 1.0, n=64)
    found = solve_certified(problem, 1e-8, BestResponse(lambda problem, accuracy: exact[0]))
    assert len(found.attempts) == 1 and found.distance <= 1e-8


@pytest.mark.parametrize(
    "problem", [groups()[0], max_group_loss(), chosen(("interior", "face"))[0]],
    ids=["groups", "max_group_loss", "bilinear"],
)  # fmt: skip
def test_derivatives_and_constants_of_the_best_response(problem):
    phi, rng = primal(problem), np.random.default_rng(0)
    saddle, h = phi.constants, 1e-6
    for _ in range(20):
        x, other, v = rng.normal(size=(3, phi.dimension)) / 4
        value, gradient = phi.value_and_gradient(x)
        assert value == pytest.approx(problem.value(x, problem.best_response(x).y))
        slope = (phi.value(x + h * v) - phi.value(x - h * v)) / (2 * h)
        assert slope == pytest.approx(gradient @ v, rel=1e-5, abs=1e-8)
        change = (phi.gradient(x + h * v) - phi.gradient(x - h * v)) / (2 * h)
        assert change == pytest.approx(phi.hessian(x) @ v, rel=1e-4, abs=1e-6)
        for y in rng.dirichlet(np.ones(problem.constants.y.dimension), 5):
            assert problem.value(x, y) <= value + 1e-12
        steep = np.linalg.norm(phi.gradient(other) - gradient)
        assert steep <= saddle.total_smoothness * np.linalg.norm(other - x)
        curved = (phi.gradient(other) - gradient) @ (other - x)
        assert curved >= saddle.strong_convexity * np.linalg.norm(other - x) ** 2 * (1 - 1e-12)
        assert np.linalg.norm(gradient - phi.alpha * x) <= saddle.lipschitz


def test_sufficient_accuracy_of_the_best_response():
    """Lemma 6: that close to the minimiser, the pair is certified."""
    rng = np.random.default_rng(0)
    for place in [("interior", "face"), ("sphere", "edge"), ("sphere", "sphere")]:
        problem, exact = chosen(place, 2.0**-4, 2.0**-6)
        phi = _PrimalProblem(problem, 1e-6)
        for _ in range(20):
            v = rng.normal(size=2)
            near = problem.domain_x.project(
                exact[0] + 0.999 * phi.sufficient_accuracy * v / np.linalg.norm(v)
            )
            with pytest.raises(_Found) as found:
                phi.gradient(near)
            assert certify_saddle(problem, *found.value.pair).distance <= 1e-6


def test_newton_takes_few_passes():
    """Whatever the condition number, and where y is hardly regularised."""
    for mu in [(0.1, 0.1), (1e-4, 1e-2), (1e-2, 1e-4), (1e-4, 1e-4)]:
        problem = GroupLogistic.random(2000, 5, 4, *mu)
        watched, sizes = counted(problem)
        accuracy = max(1e-6 * problem.constants.localisation,
                       certifiable_saddle_accuracy(problem.constants))  # fmt: skip
        answer = BestResponse("newton")._solve(watched, accuracy, problem.start(), None)
        assert certify_saddle(problem, *answer).distance <= accuracy
        assert sum(sizes) <= 150 * problem.n_records


def test_what_best_responses_are_not_for():
    regularised, _ = chosen(("interior", "face"), 0.25, 1.0)
    problem = ConcaveRecords(regularised)
    with pytest.raises(ValueError, match="linear in y"):
        solve_certified(problem, 1e-3, "best_response")
    blind = regularised.for_solver()
    blind.offers = frozenset()
    with pytest.raises(ValueError, match="needs hessian"):
        solve_certified(blind, 1e-3, BestResponse("newton"))
    assert len(solve_certified(blind, 1e-6, BestResponse()).attempts) == 1


def test_the_default_is_chosen_by_public_numbers():
    auto = resolve_solver("auto", saddle=True)
    problem, _ = chosen(("interior", "face"), 0.25, 1.0)
    assert repr(auto.for_problem(problem, 1e-6)) == "BestResponse(solver='newton')"
    assert isinstance(auto.for_problem(ConcaveRecords(problem), 1e-6), Extragradient)
    large = ConcaveRecords(problem)
    object.__setattr__(large.constants, "n_records", 10**6)
    assert isinstance(auto.for_problem(large, 1e-6), LSVRE)
    found = solve_certified(problem, 1e-6)
    assert [attempt.solver for attempt in found.attempts] == ["BestResponse(solver='newton')"]


def test_the_last_resort():
    """Where there are no Hessians; from the start, which is better than the lazy answer."""
    problem = ConcaveRecords(chosen(("sphere", "vertex"), 0.25, 1.0)[0])
    found = solve_certified(problem, 1e-8, lambda problem, accuracy: problem.start())
    assert [attempt.solver for attempt in found.attempts][1:] == ["Extragradient()"]
    assert found.distance <= 1e-8


def test_stochastic_steps_end_at_their_limit():
    problem, _, _ = groups(*MU[1])
    for limit in (10.0, 40.0):
        watched, sizes = counted(problem)
        LSVRE(max_passes=limit)._solve(watched, 0.0, problem.start(), np.random.default_rng(0))
        assert 0.5 * limit <= sum(sizes) / problem.n_records <= 1.5 * limit


def test_many_records_are_thinned_at_first():
    """Also where the sample has no record of some group; what is certified is the whole problem."""
    weights = GroupWeights.of_proportions(np.array([0.5, 0.4999, 0.0001]), 10.0)
    rng = np.random.default_rng(0)
    n = 1 << 17
    X = rng.normal(size=(n, 3))
    groups = rng.integers(0, 2, size=n)
    groups[1:10] = 2  # none of each eighth record
    targets = (rng.random(n) < 1 / (1 + np.exp(-X[:, 0] + X[:, 1] * groups))).astype(float)
    problem = MaxGroupLossProblem(
        Records(X, 2.0, targets=targets, groups=groups), LogisticLoss(), weights, 5.0, 0.01, 0.01
    )
    accuracy = 1e-6 * problem.constants.localisation
    evaluations = []
    for records in ({"hessian", "records"}, {"hessian"}):
        problem.offers = frozenset(records)
        watched, sizes = counted(problem)
        found = solve_certified(watched, accuracy, BestResponse("newton"))
        assert len(found.attempts) == 1 and found.distance <= accuracy
        assert certify_saddle(problem, found.x, found.y).distance <= accuracy
        evaluations.append(sum(sizes))
    assert evaluations[0] < 0.7 * evaluations[1]

"""Saddle solvers: certificates against exact solutions, the gate, and each solver."""

import itertools
import math

import numpy as np
import pytest
from saddle_problems import ConcaveRecords, chosen, distance

from skdp.problems import Ball, BilinearProblem, Simplex, WholeSpace
from skdp.solvers import (
    LSVRE,
    BestResponse,
    Extragradient,
    certifiable_saddle_accuracy,
    certify_saddle,
    solve_certified,
)
from skdp.solvers.saddle.extragradient import extragradient_iterations

PLACES = [
    ("interior", "face"), ("interior", "vertex"), ("sphere", "edge"), ("sphere", "vertex"),
    ("sphere", "sphere"),
]  # fmt: skip
SOLVERS = [Extragradient(), LSVRE(), BestResponse("newton"), BestResponse("lbfgs")]
#: Those that are not for functions that are linear in y only.
GENERAL = [solver for solver in SOLVERS if not isinstance(solver, BestResponse)]
#: Solvers for which condition numbers of 1e6 are no matter.
ROBUST = [Extragradient(), BestResponse("newton"), BestResponse("lbfgs")]


def turns(cases, start=0):
    """Cases, each with the next place."""
    return [(case, PLACES[(start + i) % len(PLACES)]) for i, case in enumerate(cases)]


@pytest.mark.parametrize(
    ("mu", "place"),
    turns([(0, 0), (-7, -7), (-20, -20), (4, -20), (-20, 0), (10, -10), (-20, -20)]),
)
def test_certificate_is_never_below_the_distance(place, mu):
    """Condition numbers 5 to 4e6; points at distances 1 to 1e-16 of the solution."""
    problem, exact = chosen(place, 2.0 ** mu[0], 2.0 ** mu[1])
    constants = problem.constants
    floor = certifiable_saddle_accuracy(constants)
    rng = np.random.default_rng(0)
    for exponent, _ in itertools.product(range(17), range(10)):
        shift_x, shift_y = rng.normal(size=2), rng.normal(size=3)
        scales = 10.0**-exponent * rng.choice([0.0, 1.0, 1.0], size=2)
        x, y = problem.project(exact[0] + scales[0] * shift_x, exact[1] + scales[1] * shift_y)
        found = certify_saddle(problem, x, y)
        assert distance(problem, found.x, found.y, exact) <= found.distance
        limit = 4 * constants.condition_number * distance(problem, x, y, exact)  # Lemma 3
        assert found.distance <= limit + 0.25 * floor


def test_certificate_without_constraints():
    problem = BilinearProblem(
        np.zeros((4, 2, 3)), np.ones((4, 2)), np.ones((4, 3)), (0.0, 2.0, 2.0),
        WholeSpace(), WholeSpace(), 0.5, 2.0,
    )  # fmt: skip
    exact = np.full(2, -2.0), np.full(3, -0.5)
    found = certify_saddle(problem, np.zeros(2), np.zeros(3))
    assert distance(problem, found.x, found.y, exact) <= found.distance
    lengths = map(np.linalg.norm, problem.operator(found.x, found.y))
    assert found.distance == pytest.approx(problem.constants.dual_norm(*lengths), rel=1e-9)
    assert solve_certified(problem, 1e-9).distance <= 1e-9


def attempts(solver, problem, exact):
    """The solvers that a solution took, which is certified and as close as it says."""
    accuracy = max(1e-5 * problem.constants.localisation,
                   0.5 * certifiable_saddle_accuracy(problem.constants))  # fmt: skip
    found = solve_certified(problem, accuracy, solver, rng=np.random.default_rng(0))
    assert distance(problem, found.x, found.y, exact) <= found.distance <= accuracy
    return [attempt.solver for attempt in found.attempts]


@pytest.mark.parametrize(
    ("solver", "place"), [*turns(SOLVERS), *turns(SOLVERS, 2), *turns(SOLVERS, 4)], ids=repr
)
def test_every_solver_reaches_the_accuracy(solver, place):
    mu = [(1.0, 1.0), (0.25, 0.5), (256.0, 0.125)][PLACES.index(place) % 3]
    problem, exact = chosen(place, *mu, n=64)
    assert attempts(solver, problem, exact) == [repr(solver)]


@pytest.mark.parametrize("solver", ROBUST, ids=repr)
@pytest.mark.parametrize(
    ("exponents", "place"), turns([(6, 6), (0, -6), (-9, -9), (-18, -18), (4, -18)])
)
def test_condition_numbers(solver, place, exponents):
    """lt from 1.1 to 1e6, to half of the least accuracy of a plan, which is what is asked for."""
    problem, exact = chosen(place, *(2.0**e for e in exponents))
    assert attempts(solver, problem, exact) == [repr(solver)]


@pytest.mark.parametrize(
    ("exponents", "place"), turns([(-4, -4), (-9, -9), (-18, -18), (4, -18), (-9, -4)])
)
def test_gate_around_a_limit_that_is_soon_reached(exponents, place):
    """lt from 1e2 to 1e6: certified, and not below the distance, whoever found it."""
    solver = LSVRE(max_passes=60)
    problem, exact = chosen(place, *(2.0**e for e in exponents), n=16)
    assert attempts(solver, problem, exact)[0] == repr(solver)


def test_proven_number_of_iterations_suffices():
    """Korpelevich's steps of constant length on records that attain the bounds."""
    mu = 2.0**-5
    problem, exact = chosen(("sphere", "vertex"), mu, mu)
    constants = problem.constants
    x, y = problem.start()
    first = distance(problem, x, y, exact)
    assert first <= constants.localisation
    accuracy = 1e-6 * constants.localisation
    eta = (math.sqrt(2) - 1) / constants.condition_number
    steps = eta / constants.x.modulus, eta / constants.y.modulus
    limit = extragradient_iterations(constants, accuracy, constants.localisation)
    for k in range(1, limit + 1):
        slopes = problem.operator(x, y)
        slopes = problem.operator(
            *problem.project(x - steps[0] * slopes[0], y - steps[1] * slopes[1])
        )
        x, y = problem.project(x - steps[0] * slopes[0], y - steps[1] * slopes[1])
        assert distance(problem, x, y, exact) <= (1 - eta) ** (k / 2) * first + 1e-12  # Lemma 4
        if k % 100 == 0 and distance(problem, x, y, exact) < 1e-13:
            break
    assert certify_saddle(problem, x, y).distance <= accuracy


def far_away(problem, accuracy):
    return np.full(2, 1e300), np.full(3, -1e300)


def half_of_it(problem, accuracy):
    return np.zeros(2), None


def raises(problem, accuracy):
    raise SystemExit("secret")


def vandal(problem, accuracy):
    """Makes any point look like the solution of what it was given."""
    problem.alpha_x = problem.alpha_y = 1e9
    object.__setattr__(problem.domain_x, "radius", 1e-3)
    object.__setattr__(problem.constants.x, "modulus", 1e9)
    problem.mean_matrix = np.zeros((2, 3))
    problem.operator = problem.data_operator = lambda x, y: (np.zeros(2), np.zeros(3))
    return problem.start()


@pytest.mark.parametrize("broken", [far_away, half_of_it, raises, vandal])
def test_broken_solvers_are_repaired(broken):
    problem, exact = chosen(("sphere", "vertex"), 0.25, 0.25)
    found = solve_certified(problem, 1e-8, broken)
    assert distance(problem, found.x, found.y, exact) <= found.distance <= 1e-8
    trusted = "BestResponse(solver='newton')"
    assert [attempt.solver for attempt in found.attempts] == [broken.__name__, trusted]
    if broken is raises:
        assert found.attempts[0].error == "SystemExit: secret"


def test_right_answers_coarse_accuracies_and_what_cannot_be_certified():
    problem, exact = chosen(("sphere", "vertex"), 0.25, 0.25)
    found = solve_certified(problem, 1e-8, lambda problem, accuracy: exact)
    assert len(found.attempts) == 1 and found.distance <= 1e-8
    coarse = solve_certified(problem, problem.constants.diameter, raises)  # a public decision
    assert coarse.attempts == () and not coarse.x.any()
    with np.errstate(all="ignore"):
        assert certify_saddle(problem, np.full(2, np.nan), np.ones(3) / 3).distance == math.inf
    with pytest.raises(RuntimeError, match="double precision"):
        solve_certified(problem, 1e-18)
    with pytest.raises(ValueError, match="accuracy"):
        solve_certified(problem, 0.0)


@pytest.mark.parametrize(("solver", "place"), turns(GENERAL), ids=repr)
def test_concavity_of_the_records_themselves(place, solver):
    """The solution is that of the regulariser ``-(1/2) ||y||^2``, which is what it is."""
    regularised, exact = chosen(place, 0.25, 1.0, n=64)
    problem = ConcaveRecords(regularised)
    assert problem.value(*exact) == pytest.approx(regularised.value(*exact))
    assert distance(problem, *problem.start(), exact) <= problem.constants.localisation
    found = solve_certified(problem, 1e-5, solver, rng=np.random.default_rng(0))
    assert len(found.attempts) == 1
    assert distance(problem, found.x, found.y, exact) <= found.distance <= 1e-5


class Guarded(BilinearProblem):
    """Knows its operator at feasible points only; L-BFGS would step out of the domain."""

    def check(self, x, y):
        assert np.linalg.norm(x) <= 1.25 and y.min() >= 0 and abs(y.sum() - 1) < 1e-14

    def data_operator(self, x, y):
        self.check(x, y)
        return super().data_operator(x, y)

    def batch_operator(self, rows, x, y):
        self.check(x, y)
        return super().batch_operator(rows, x, y)


@pytest.mark.parametrize(
    "solver",
    [*(s for s in SOLVERS if "lbfgs" not in repr(s)), far_away],
    ids=lambda solver: getattr(solver, "__name__", repr(solver)),
)
def test_operators_are_asked_for_at_feasible_points_only(solver):
    problem, exact = chosen(("sphere", "vertex"), 0.25, 0.5, n=64)
    parts = problem.matrices, problem.offsets_x, problem.offsets_y
    problem = Guarded(*parts, (4.0, 16.0, 16.0), problem.domain_x, problem.domain_y, 0.25, 0.5)
    found = solve_certified(problem, 1e-6, solver, rng=np.random.default_rng(0))
    assert len(found.attempts) == (2 if solver is far_away else 1)
    assert all(attempt.error is None for attempt in found.attempts)
    assert distance(problem, found.x, found.y, exact) <= 1e-6


def test_unequal_batches_are_unbiased():
    """65 records in batches of 10: the batches' probabilities make up for their sizes."""
    rng = np.random.default_rng(1)
    problem = BilinearProblem(
        rng.normal(size=(65, 2, 3)), rng.normal(size=(65, 2)), rng.normal(size=(65, 3)),
        (1.0, 1.0, 1.0), Ball(1.0), Simplex(3), 0.5, 0.5,
    )  # fmt: skip
    found = solve_certified(problem, 1e-7, LSVRE(batch_size=10), rng=rng)
    assert len(found.attempts) == 1

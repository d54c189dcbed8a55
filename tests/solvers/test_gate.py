"""The gate: solvers that are wrong, write where they may not, or leave cost time only."""

import contextlib
import math
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from finite_problems import exact_solution, random_problem
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from skdp.data import DataError
from skdp.linear_model import DPLinearClassifier, DPLogisticRegression, DPRidge
from skdp.methods import SaddleOutputPerturbation
from skdp.problems import HalfSquaredLoss
from skdp.robust import DPAdversarialClassifier, DPMaxGroupLossClassifier
from skdp.solvers import (
    LBFGS,
    SOLVERS,
    CallableSolver,
    Newton,
    Solver,
    certify,
    resolve_solver,
    solve_certified,
)
from skdp.solvers.gate import MINIMISATION


class Raises(Solver):
    def _solve(self, problem, accuracy, start, rng):
        raise RuntimeError("no")


class Mutates(Solver):
    def _solve(self, problem, accuracy, start, rng):
        start[:] = 1e9
        problem.records.matrix[:] = 0.0
        return start


class Overrides(Solver):
    """Convinces itself that any point is optimal, and returns one that shows the labels."""

    def _solve(self, problem, accuracy, start, rng):
        problem.gradient = lambda w: np.zeros_like(w)
        problem.records.scale = None
        problem.alpha = 1e9
        problem.records.targets = 1 - problem.records.targets
        return np.full(problem.dimension, problem.records.targets[0])


class EndsWrongly(Solver):
    """Says that it ends at its last gradient, and returns something else."""

    ends_at_gradient = True

    def __init__(self, spoil):
        self.spoil = spoil

    def _solve(self, problem, accuracy, start, rng):
        point = start + 0.01
        self.spoil(problem, point)
        return point


def clear_gradient(problem, point):
    problem.gradient(point)[:] = 0.0
    problem.value_and_gradient(point)[1][:] = 0.0


def move_point(problem, point):
    point[:] = Newton().solve(problem, 1e-9).point
    problem.gradient(point)
    point += 0.01


def change_problem(problem, point):
    pull = problem.gradient(point) - problem.penalty_gradient(point)
    problem.alpha = problem.smoothness
    problem.center = point + pull / problem.alpha
    problem.gradient(point)


def does(*actions):
    """A solver that acts on its problem and says that 0 is the solution."""

    def solve(problem, accuracy):
        for action in actions:
            action(problem)
        return np.zeros(problem.dimension)

    return solve


def converts(problem):
    problem.records.targets[problem.records.targets == 0] = -1


def unclips(problem):
    problem.records.scale[:] = 1.0


def warns(problem):
    warnings.warn("did not converge", UserWarning, stacklevel=1)


def flattens(problem):
    object.__setattr__(problem.loss, "derivative", lambda margins, targets: 0.0 * margins)


def inflate_constants(problem, accuracy):
    """Makes every certificate small: the modulus is that of the constants."""
    object.__setattr__(problem.constants, "strong_convexity", 1e12)
    return np.full(problem.dimension, 0.01)


BAD = {
    "garbage": lambda p, a: np.full(p.dimension, 1e300),
    "nan": lambda p, a: np.full(p.dimension, np.nan),
    "infinite": lambda p, a: np.full(p.dimension, np.inf),
    "random": lambda p, a: np.random.default_rng().standard_normal(p.dimension),
    "wrong shape": lambda p, a: np.zeros(p.dimension + 1), "none": lambda p, a: None,
    "text": lambda p, a: "solved", "warns": does(warns), "raises": Raises(), "mutates": Mutates(),
    "overrides": Overrides(), "converts labels": does(converts),
    "unclips": does(unclips), "inflates constants": inflate_constants,
    "flattens the loss": does(flattens), "clears its gradient": EndsWrongly(clear_gradient),
    "moves its point": EndsWrongly(move_point), "changes its problem": EndsWrongly(change_problem),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "radius"), [(name, (None, 0.05)[i % 2]) for i, name in enumerate(BAD)]
)
def test_bad_solvers_cost_time_only(name, radius):
    problem = random_problem(radius=radius)
    exact = exact_solution(problem)
    arrays = problem.records.matrix, problem.records.scale, problem.records.targets
    before = [np.array(array) for array in arrays]
    constants, loss = repr(problem.constants), dict(vars(problem.loss))
    solution = solve_certified(problem, 1e-8, resolve_solver(BAD[name]))
    assert np.linalg.norm(solution.point - exact) <= solution.distance <= 1e-8
    now = problem.records.matrix, problem.records.scale, problem.records.targets
    for array, old in zip(now, before, strict=True):
        np.testing.assert_array_equal(array, old)
    assert (repr(problem.constants), vars(problem.loss)) == (constants, loss)


class SpoilsMoments(Newton):
    def _solve(self, problem, accuracy, start, rng):
        for moment in problem._moments:
            moment[:] = 0.0
        return np.full(problem.dimension, 0.01)


@pytest.mark.parametrize(("sparse", "radius"), [(False, None), (True, 0.05)])
def test_least_squares_reads_records_once_and_trusts_no_solver(sparse, radius, monkeypatch):
    seen, derivative = [], HalfSquaredLoss.derivative

    def counted(self, margins, targets):
        seen.append(len(margins))
        return derivative(self, margins, targets)

    problem = random_problem("squared", radius=radius, sparse=sparse)
    exact = exact_solution(problem)
    monkeypatch.setattr(HalfSquaredLoss, "derivative", counted)
    for solver in (Newton(), SpoilsMoments()):
        seen.clear()
        solution = solve_certified(problem, 1e-8, solver)
        assert np.linalg.norm(solution.point - exact) <= solution.distance <= 1e-8
        assert sum(seen) == problem.n_records
        assert len(solution.attempts) == 1 + (type(solver) is SpoilsMoments)
    assert problem._moments is None


def test_an_accuracy_beyond_the_ball_needs_no_solver():
    """A public decision; tiny balls must not underflow on the way (review of the gate)."""
    for radius in (1e-50, 1e-2):
        problem = random_problem(radius=radius)
        solution = solve_certified(problem, radius, Raises())
        assert solution.distance == radius
        np.testing.assert_array_equal(solution.point, 0)


def test_attempts_tell_who_found_the_point():
    problem = random_problem()
    for answer, said in (
        (lambda p, a: None, "TypeError: a vector is needed, not None."),
        (lambda p, a: np.zeros(2), "ValueError: 2 numbers are not 5."),
        (lambda p, a: np.full(p.dimension, np.inf), "ValueError: a number is not finite."),
        (lambda p, a: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda p, a: np.zeros(p.dimension), None),
    ):
        first, second = solve_certified(problem, 1e-8, resolve_solver(answer)).attempts
        assert first.error == said
        assert first.distance > 1e-8
        assert second.solver == "Newton()"
        assert second.distance <= 1e-8
    for solver in (Newton(), "newton", "auto"):
        attempts = solve_certified(problem, 1e-8, solver).attempts
        assert [attempt.solver for attempt in attempts] == ["Newton()"]


def test_a_trusted_solver_that_failed_is_not_run_again(monkeypatch):
    problem, runs = random_problem(), []

    def lazy(self, problem, accuracy, start, rng):
        runs.append(start)
        return start

    monkeypatch.setattr(Newton, "_solve", lazy)
    attempts = solve_certified(problem, 1e-6, Newton()).attempts
    assert [attempt.solver for attempt in attempts] == ["Newton()", "AcceleratedGradient()"]
    assert len(runs) == 1


def test_arguments_of_solve_are_checked():
    problem = random_problem()
    for accuracy in (0.0, -1.0, np.nan):
        with pytest.raises(ValueError, match="accuracy =="):
            Newton().solve(problem, accuracy)
    for start in (np.zeros(2), np.full(5, np.nan)):
        with pytest.raises(ValueError, match="start must be a finite vector"):
            Newton().solve(problem, 1e-3, start)
    assert certify(problem, np.full(5, np.nan)).distance == np.inf
    with pytest.raises(RuntimeError, match="double precision"):
        solve_certified(random_problem(alpha=1e-6), 1e-18, Newton())
    for size in (0, 2.5, "a"):
        with pytest.raises(ValueError, match=r"batch_size (==|must be an integer)"):
            SOLVERS["svrg"](batch_size=size).solve(problem, 1e-3)


def test_resolve_solver():
    assert isinstance(resolve_solver("lbfgs"), LBFGS)
    own = Newton()
    assert resolve_solver(own) is own
    for bad in ("gradient", 3, None, Newton):
        with pytest.raises(ValueError, match="solver =="):
            resolve_solver(bad)
    for bad, hint in (
        ("newtn", "Did you mean 'newton'"),
        ("LBFGS", "Did you mean 'lbfgs'"),
        (Newton, "Newton\\(\\), not the class"),
        (LogisticRegression(), "Wrap an estimator"),
    ):
        with pytest.raises(ValueError, match=hint):
            resolve_solver(bad)


def test_a_solver_keeps_nothing_of_the_next_ones_start():
    """What it writes into its start reaches neither the caller nor the method after it."""
    problem, given, starts = random_problem(), np.full(5, 0.1), []

    class Spoils(Solver):
        def _solve(self, problem, accuracy, start, rng):
            start[:] = math.nan
            return start

    class Watched(Newton):
        def _solve(self, problem, accuracy, start, rng):
            starts.append(start.copy())
            return super()._solve(problem, accuracy, start, rng)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MINIMISATION, "trusted", lambda problem: [Watched()])
        solution = Spoils().solve(problem, 1e-8, given)
    assert solution.distance <= 1e-8
    np.testing.assert_array_equal(starts, [problem.domain.project(np.full(5, 0.1))])
    np.testing.assert_array_equal(given, np.full(5, 0.1))


def spoil(value, seen):
    """Make all arrays that an object leads to writable if they can be, and write into them."""
    if id(value) in seen:
        return
    seen[id(value)] = value
    if isinstance(value, np.ndarray):
        with contextlib.suppress(ValueError):
            value.setflags(write=True)
            value[...] = np.nan if value.dtype.kind == "f" else 0
        seen["arrays"] = seen.get("arrays", 0) + 1
    parts = value if isinstance(value, dict) else getattr(value, "__dict__", {})
    for part in list(parts.values()):
        spoil(part, seen)
    if isinstance(value, (list, tuple)):
        for part in value:
            spoil(part, seen)


def spoils(problem, accuracy):
    seen = {}
    spoil(problem, seen)
    assert seen["arrays"] > 2
    SPOILED.append(problem)


SPOILED = []


LAYOUTS = "C", "F", "csr", "single", "persons"


SPOILED_FITS = {
    "logistic": (DPLogisticRegression, {"method": "output"}),
    "objective": (DPLogisticRegression, {"method": "objective"}),
    "phased": (DPLogisticRegression, {"method": "phased"}),
    "as published": (DPLogisticRegression, {"method": "output_perturbation"}),
    "hinge": (DPLinearClassifier, {"method": "output", "loss": "hinge"}),
    "squares": (DPRidge, {"method": "output", "target_range": (-1.0, 1.0)}),
    "groups": (DPMaxGroupLossClassifier, {"method": "output", "group_names": [0, 1]}),
    "groups as published": (
        DPMaxGroupLossClassifier,
        {"method": SaddleOutputPerturbation(max_group_weight=3.0), "group_names": [0, 1]},
    ),
    "attacks": (DPAdversarialClassifier, {"method": "output"}),
}


@pytest.mark.parametrize(
    ("name", "layout"), [(name, LAYOUTS[i % len(LAYOUTS)]) for i, name in enumerate(SPOILED_FITS)]
)
def test_a_solver_that_writes_wherever_it_can_changes_nothing(name, layout):
    kind, options = SPOILED_FITS[name]
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-0.5, 0.5, (60, 3)), rng.integers(0, 2, 60)
    X[0] *= 9.0  # and is shortened
    given = {"groups": rng.integers(0, 2, 60)} if "groups" in name else {}
    make = {"F": np.asfortranarray, "csr": sp.csr_array, "single": np.float32}.get(layout, np.array)
    if layout == "persons":
        given["user_ids"] = np.arange(60) // 2
    found = []
    for solver in ("auto", spoils):
        model = clone(kind(**options, epsilon=5.0, delta=1e-5, data_norm=1.0, random_state=0))
        if not options.get("target_range"):
            model.set_params(classes=[0, 1])
        table, labels = make(X), y.copy()
        SPOILED.clear()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            where = "solver" if isinstance(model.method, str) else "method__solver"
            found.append(model.set_params(**{where: solver}).fit(table, labels, **given).coef_)
        np.testing.assert_array_equal(getattr(table, "data", table), getattr(make(X), "data", X))
        np.testing.assert_array_equal(labels, y)
    assert SPOILED
    np.testing.assert_allclose(*found, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "error", [SystemExit, GeneratorExit, MemoryError, DataError, KeyboardInterrupt]
)
def test_a_fit_that_a_solver_leaves_is_whole_or_not_at_all(error):
    """An interrupt ends it, and the model stays as it was; whatever else is raised does not."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-0.5, 0.5, (50, 2)), rng.uniform(-1, 1, 50)

    def leaves(problem, accuracy):
        raise error(float(problem.records.targets.flat[0]))

    model = DPRidge(data_norm=1.0, target_range=(-1, 1), method="output", random_state=0)
    fitted = dict(vars(model.set_params(solver="newton").fit(X, y)))
    model.set_params(solver=leaves)
    if error is KeyboardInterrupt:
        with pytest.raises(KeyboardInterrupt):
            model.fit(2 * X, -y)
        assert vars(model) == fitted | {"solver": leaves}
    else:
        np.testing.assert_allclose(model.fit(X, y).coef_, fitted["coef_"], rtol=1e-6)


def test_names_of_solvers_do_not_escape():
    class Named:
        seen = None

        def __call__(self, problem, accuracy):
            type(self).seen = problem.records.targets[0]
            return np.zeros(problem.dimension)

        def __repr__(self):
            raise KeyError(self.seen)

    solution = solve_certified(random_problem(), 1e-8, CallableSolver(Named()))
    assert solution.distance <= 1e-8

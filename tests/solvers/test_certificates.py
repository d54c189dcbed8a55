"""Certificates and solvers: the true distance is never above what is proven."""

import contextlib
import math
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from skdp.data import DataError
from skdp.linear_model import DPLinearClassifier, DPLogisticRegression, DPRidge
from skdp.methods import SaddleOutputPerturbation
from skdp.problems import (
    Ball,
    Box,
    FiniteSumProblem,
    HalfSquaredLoss,
    LogisticLoss,
    Records,
    Simplex,
    SoftmaxLoss,
    WholeSpace,
    ball_problem,
)
from skdp.robust import DPAdversarialClassifier, DPMaxGroupLossClassifier
from skdp.solvers import (
    LBFGS,
    SOLVERS,
    AcceleratedGradient,
    CallableSolver,
    Newton,
    Solver,
    certify,
    resolve_solver,
    solve_certified,
)
from skdp.solvers.accelerated_gradient import accelerated_gradient_iterations
from skdp.solvers.certificates import forward_backward_distance
from skdp.solvers.gate import MINIMISATION

LOSSES = {"logistic": LogisticLoss(), "softmax": SoftmaxLoss(3), "squared": HalfSquaredLoss(1.0)}


def random_problem(
    loss="logistic", *, n=60, d=4, alpha=1e-2, radius=None, sparse=False, seed=0, center=None
):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * 10.0 ** rng.integers(-2, 1, d)
    targets = rng.integers(0, 3 if loss == "softmax" else 2, n)
    if loss != "softmax":
        targets = targets.astype(float)
    rows = Records(sp.csr_matrix(X) if sparse else X, 1.0, 0.1)
    domain = WholeSpace() if radius is None else Ball(radius)
    return FiniteSumProblem(rows.with_targets(targets), LOSSES[loss], alpha, domain, center=center)


def exact_solution(problem):
    """Far below the accuracies under test, and not by the certificate's word alone."""
    if isinstance(problem.domain, WholeSpace) and isinstance(problem.loss, HalfSquaredLoss):
        hessian = problem.hessian(np.zeros(problem.dimension))
        return -np.linalg.solve(hessian, problem.gradient(np.zeros(problem.dimension)))
    point = np.zeros(problem.dimension)
    for solver in (Newton(), AcceleratedGradient(), Newton()):
        rng = np.random.default_rng(0)
        point = problem.domain.project(solver._solve(problem, 1e-13, point, rng))
    return point


@pytest.mark.search
@settings(max_examples=40)
@given(
    loss=st.sampled_from(list(LOSSES)),
    seed=st.integers(0, 10**6),
    log_alpha=st.floats(-5, 1),
    log_radius=st.floats(-3, 2),
    perturbation=st.floats(-12, 0),
    centered=st.booleans(),
)
def test_certificate_is_never_below_the_true_distance(
    loss, seed, log_alpha, log_radius, perturbation, centered
):
    """Points at every distance from the solution, on the sphere and inside (Lemma 3)."""
    problem = random_problem(loss, alpha=10**log_alpha, radius=10**log_radius, seed=seed, n=15)
    rng = np.random.default_rng(seed)
    if centered:
        problem.center = problem.domain.project(rng.standard_normal(problem.dimension))
    exact = exact_solution(problem)
    proof = certify(problem, exact).distance
    nudge = rng.standard_normal(problem.dimension)
    point = exact + nudge * (10**perturbation * problem.domain.radius / np.linalg.norm(nudge))
    certificate = certify(problem, problem.domain.project(point))
    distance = np.linalg.norm(problem.domain.project(point) - exact)
    assert distance <= certificate.distance + proof


def test_a_certificate_near_the_sphere_is_not_fooled():
    """A point slightly inside, whose gradient is radial, must not certify as 0."""
    problem = random_problem(alpha=1e-2, radius=0.05)
    exact = exact_solution(problem)
    inside = exact * (1 - 1e-5)
    distance = np.linalg.norm(inside - exact)
    assert certify(problem, inside).distance >= distance
    assert certify(problem, exact).distance < 1e-9


DOMAINS = {
    "ball": lambda d, rng: Ball(10 ** rng.uniform(-3, 1)),
    "box": lambda d, rng: Box(-rng.uniform(0, 0.3, d), rng.uniform(0, 0.3, d)),
    "simplex": lambda d, rng: Simplex(d),
}


@pytest.mark.search
@settings(max_examples=60)
@given(
    loss=st.sampled_from(list(LOSSES)),
    domain=st.sampled_from(list(DOMAINS)),
    seed=st.integers(0, 10**6),
    log_alpha=st.floats(-5, 1),
    perturbation=st.floats(-12, 0),
)
def test_step_certificate_on_every_domain(loss, domain, seed, log_alpha, perturbation):
    """Never below the true distance, and never above C2 for the best of the normals tried."""
    rng = np.random.default_rng(seed)
    free = random_problem(loss, alpha=10**log_alpha, seed=seed, n=15)
    chosen = DOMAINS[domain](free.dimension, rng)
    problem = FiniteSumProblem(free.records, free.loss, free.alpha, chosen)
    exact = exact_solution(problem)
    proof = certify(problem, exact).distance
    nudge = rng.standard_normal(problem.dimension)
    point = chosen.project(exact + nudge * 10**perturbation * chosen.circumradius)
    certificate = certify(problem, point).distance
    assert np.linalg.norm(point - exact) <= certificate + proof
    gradient, rounding = problem.gradient(point), problem.gradient_rounding(point)
    noise = 1e-13 * problem.smoothness * (1 + np.linalg.norm(point)) + 10 * rounding
    for _ in range(20):
        # a normal at the point: from it, the projection leads back to the point
        normal = rng.standard_normal(problem.dimension)
        if domain == "ball":
            on_sphere = np.linalg.norm(point) > chosen.radius * (1 - 1e-12)
            normal = on_sphere * abs(normal[0]) * point
        elif domain == "box":
            normal = np.where(point == chosen.upper, abs(normal), 0.0)
            normal -= np.where(point == chosen.lower, abs(rng.standard_normal()), 0.0)
        else:
            normal = np.where(point > 0, 1.0, 1.0 - abs(normal)) * rng.standard_normal()
            normal = normal if (normal[point > 0] >= normal.max() - 1e-15).all() else 0 * normal
        c2 = (np.linalg.norm(gradient + normal) + noise) / problem.strong_convexity
        assert certificate <= c2 * (1 + 1e-9)


def saddle_problem(rng, d, groups):
    """A strongly monotone affine operator on ball x simplex, with its solution by iteration."""
    root = rng.standard_normal((d, d))
    mu_x, mu_y = 10 ** rng.uniform(-2, 1, 2)
    hessian = root @ root.T + mu_x * np.eye(d)
    coupling = rng.standard_normal((groups, d))
    b, c = rng.standard_normal(d), rng.standard_normal(groups)

    def operator(x, y):
        return hessian @ x + coupling.T @ y + b, mu_y * y - coupling @ x - c

    return operator, mu_x, mu_y


@pytest.mark.search
def test_forward_backward_certificates():
    """C4 on ball x simplex and its single-block form C3, along the iterates of extragradient."""
    attained = 0.0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        operator, mu_x, mu_y = saddle_problem(rng, 3, 4)
        ball, simplex = Ball(10 ** rng.uniform(-1, 1)), Simplex(4)
        lipschitz = 60.0 + mu_x + mu_y
        x, y, trace = np.zeros(3), np.full(4, 0.25), []
        for iteration in range(30_000):
            ax, ay = operator(x, y)
            half_x = ball.project(x - ax / lipschitz)
            half_y = simplex.project(y - ay / lipschitz)
            bx, by = operator(half_x, half_y)
            steps, moduli = 2 * (1 / lipschitz,), (mu_x, mu_y)
            step = (x, y), (half_x, half_y), (ax, ay), (bx, by), steps, moduli
            bound = forward_backward_distance(*step)
            if iteration in (0, 1, 3, 10, 30, 100):
                trace.append((half_x, half_y, bound))
            if bound < 1e-9:
                break
            x = ball.project(x - bx / lipschitz)
            y = simplex.project(y - by / lipschitz)
        assert bound < 1e-6
        for near_x, near_y, claimed in trace:
            true = np.sqrt(
                mu_x * np.sum((near_x - half_x) ** 2) + mu_y * np.sum((near_y - half_y) ** 2)
            )
            assert true <= claimed + bound
            attained = max(attained, true / claimed)
    assert attained > 0.1
    rounded = forward_backward_distance(*step, rounding=[1e-3, 1e-3])
    assert rounded >= 1e-3 / np.sqrt(max(mu_x, mu_y))


# --- the gate -----------------------------------------------------------------------------


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
    assert np.linalg.norm(solution.point - exact) <= solution.certificate.distance <= 1e-8
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
        assert solution.certificate.distance == radius
        np.testing.assert_array_equal(solution.point, 0)


@pytest.mark.mostly("slow", 1)
@pytest.mark.parametrize(("kappa", "radius"), [(1e1, 0.02), (1e3, 10.0), (1e5, 0.02)])
def test_accelerated_gradient_count_suffices(kappa, radius):
    """After T projected iterations the distance is at most the accuracy."""
    for seed in range(2):
        problem = random_problem(alpha=0.25 * 1.01 / kappa, radius=radius, seed=seed)
        exact = exact_solution(problem)
        start_distance = float(np.linalg.norm(exact))
        beta, mu = problem.smoothness, problem.strong_convexity
        accuracy = 1e-3 * start_distance
        count = accelerated_gradient_iterations(beta, mu, start_distance, accuracy)
        ratio = np.sqrt(mu / beta)
        previous = point = np.zeros(problem.dimension)
        for _ in range(count):
            ahead = point + (1 - ratio) / (1 + ratio) * (point - previous)
            previous = point
            point = problem.domain.project(ahead - problem.gradient(ahead) / beta)
        assert np.linalg.norm(point - exact) <= accuracy


def test_iteration_counts_of_the_worked_example():
    """Section 9: 153 (theta 1e-3) and 129 (1e-2) as printed; the proven counts are 156, 132."""
    beta, mu, radius, delta = 0.26, 0.01, 5.27697, 0.02
    for theta, printed, proven in ((1e-3, 153, 156), (1e-2, 129, 132)):
        tau = theta * delta / 2
        gap = mu * tau**2 / 2
        assert gap == pytest.approx(5e-13 * (theta / 1e-3) ** 2)
        count = 1 + np.sqrt(26) * np.log((mu + beta) * radius**2 / (2 * gap))
        assert np.ceil(count) == printed
        assert accelerated_gradient_iterations(beta, mu, radius, tau) == proven


def test_sub_sampled_newton_agrees_with_plain(monkeypatch):
    from skdp.solvers import newton

    problem = random_problem(n=5000, d=5, alpha=1e-3)
    plain = Newton().solve(problem, 1e-8).point
    monkeypatch.setattr(newton, "_MIN_SAMPLE", 300)
    monkeypatch.setattr(newton, "_ROWS_PER_COEFFICIENT", 50)
    np.testing.assert_allclose(Newton().solve(problem, 1e-8).point, plain, atol=2e-8)
    # a sample that misleads: its rows are short and of one class
    X, y = np.array(problem.records.matrix), np.arange(5000) % 2.0
    X[::2] *= 0.01
    problem = FiniteSumProblem(Records(X, 1.0, 0.1, targets=y), LogisticLoss(), 1e-3, WholeSpace())
    solution = Newton()._solve(problem, 1e-8, np.zeros(6), np.random.default_rng())
    assert certify(problem, solution).distance <= 1e-8


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


# --- what an adversarial review found -----------------------------------------------------------


def test_norms_do_not_vanish_by_underflow():
    """Squares of entries below 1e-162 are 0: a far point must not be certified, nor be feasible."""
    assert np.linalg.norm(Ball(1e-200).project(np.full(3, 1e-190))) == 0  # what numpy would say
    point = Ball(1e-200).project(np.full(3, 1e-190))
    assert np.abs(point).max() <= 1e-200
    rng = np.random.default_rng(0)
    rows = Records(1e-50 * rng.standard_normal((20, 3)), 1e-50)
    problem = ball_problem(rows.with_targets(np.arange(20) % 2.0), LogisticLoss(), 1e120)
    radius = problem.domain.radius
    for direction in (1.0, -1.0):
        far = np.array([direction * 0.99 * radius, 0.0, 0.0])
        assert certify(problem, far).distance >= 0.5 * radius


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
    assert solution.certificate.distance <= 1e-8


def test_radius_of_solutions_away_from_the_center():
    """The centre of the regulariser may lie outside of the domain."""
    rng = np.random.default_rng(0)
    rows = Records(rng.standard_normal((20, 4)), 1.0)
    targets = np.arange(20) % 2.0
    for domain in (Box(np.full(4, 10.0), np.full(4, 11.0)), Simplex(4), Ball(1000.0)):
        problem = FiniteSumProblem(rows.with_targets(targets), LogisticLoss(), 100.0, domain)
        solution = Newton().solve(problem, 1e-9).point
        assert (
            np.linalg.norm(solution) <= problem.constants.radius <= problem.constants.domain_radius
        )

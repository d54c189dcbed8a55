"""Black-box attacks: the certificate, the sensitivity, erratum E2, foreign solvers, errors."""

import dataclasses
import itertools
import math
import warnings

import numpy as np
import pytest
from scipy.optimize import minimize

from skdp.algorithms import adversarial_output_perturbation, plan_adversarial_output_perturbation
from skdp.algorithms.adversarial_output_perturbation import extragradient_iterations, saddle_gap
from skdp.mechanisms import NoiseSource, calibrated_mechanism, gaussian_noise_multiplier
from skdp.privacy import PrivacyBudget
from skdp.privacy.gaussian_dp import gaussian_delta
from skdp.problems import ConcaveInnerProblem

#: A budget under which noise is invisible, and a finer accuracy than the default.
EXACT, FINE = (PrivacyBudget(1e12, 0.0),), {"accuracy_fraction": 1e-4}
BUDGETS = [PrivacyBudget(1.0, 1e-6), PrivacyBudget(1.0, 0.0)]


def rows_in_ball(v, radius):
    norms = np.linalg.norm(v, axis=1, keepdims=True)
    return v * (radius / np.maximum(norms, radius))


def support_of_rows(g, radius):
    return radius * float(np.linalg.norm(g, axis=1).sum())


class Location:
    """``H = (mu/2) ||w||^2 - mean <w, x_i + v_i>``, ``||v_i|| <= attack``, records in a unit ball.

    ``G = (mu/2) ||w||^2 - <w, mean x> + attack ||w||``, minimal at the mean, shrunk by `attack`.
    """

    def __init__(self, X, attack=0.2, mu=0.5, radius=4.0):
        self.X, self.attack, self.mu, self.radius = X, attack, mu, radius
        n, d = X.shape
        self.problem = ConcaveInnerProblem(
            value=lambda w, v: 0.5 * mu * w @ w - float(((X + v) @ w).mean()),
            gradient_w=lambda w, v: mu * w - (X + v).mean(axis=0),
            gradient_v=lambda w, v: np.tile(-w / n, (n, 1)),
            project_v=lambda v: rows_in_ball(v, attack),
            linear_max_v=lambda g: support_of_rows(g, attack),
            start_v=np.zeros((n, d)),
            dimension=d,
            radius=radius,
            n_records=n,
            mean_of_records=True,
            lipschitz=1.0 + attack,
            strong_convexity=mu,
            smoothness_w=mu,
            smoothness_v=0.0,
            coupling=1.0 / math.sqrt(n),
            lipschitz_v=radius / math.sqrt(n),
            radius_v=math.sqrt(n) * attack,
            gradient_diameter=2.0,  # the attack is the same for all records
        )

    def risk(self, w):
        return 0.5 * self.mu * w @ w - w @ self.X.mean(axis=0) + self.attack * np.linalg.norm(w)

    def attack_at(self, w):
        norm = np.linalg.norm(w)
        return np.tile(-self.attack * w / norm if norm else w, (len(self.X), 1))

    def solution(self):
        mean = self.X.mean(axis=0)
        norm = float(np.linalg.norm(mean))
        return mean / norm * min(max(0.0, norm - self.attack) / self.mu, self.radius)


class Regression:
    """``H = mean [(y_i - <w, x_i + v_i>)^2 / 2 - (c/2) ||v_i||^2] + (mu/2) ||w||^2``, concave in v.

    Records ``||x|| <= 1, |y| <= 1``, attacks of norm at most `attack`, and ``c > radius^2``.
    """

    def __init__(self, X, y, attack=0.3, mu=0.5, radius=1.0, price=2.0):
        self.X, self.y, self.attack, self.mu = X, y, attack, mu
        self.radius, self.price = radius, price
        n, d = X.shape
        feature = 1.0 + attack
        residual = 1.0 + radius * feature

        def residuals(w, v):
            return y - (X + v) @ w

        self.problem = ConcaveInnerProblem(
            value=lambda w, v: (
                0.5 * float(np.mean(residuals(w, v) ** 2 - price * (v**2).sum(axis=1)))
                + 0.5 * mu * w @ w
            ),
            gradient_w=lambda w, v: mu * w - (X + v).T @ residuals(w, v) / n,
            gradient_v=lambda w, v: -(np.outer(residuals(w, v), w) + price * v) / n,
            project_v=lambda v: rows_in_ball(v, attack),
            linear_max_v=lambda g: support_of_rows(g, attack),
            start_v=np.zeros((n, d)),
            dimension=d,
            radius=radius,
            n_records=n,
            mean_of_records=True,
            lipschitz=residual * feature,
            strong_convexity=mu,
            smoothness_w=mu + feature**2,
            smoothness_v=price / n,
            coupling=(residual + feature * radius) / math.sqrt(n),
            lipschitz_v=(residual * radius + price * attack) / math.sqrt(n),
            radius_v=math.sqrt(n) * attack,
            strong_concavity=(price - radius**2) / n,
        )

    def attack_at(self, w):
        """The exact inner maximiser: along w, away from the target."""
        norm, residual = float(np.linalg.norm(w)), self.y - self.X @ w
        length = np.minimum(self.attack, np.abs(residual) * norm / (self.price - norm**2))
        return -np.outer(np.sign(residual) * length, w / norm if norm else w)

    def risk(self, w):
        return self.problem.value(w, self.attack_at(w))

    def solution(self):
        def risk(w):
            v = self.attack_at(w)
            return self.problem.value(w, v), self.problem.gradient_w(w, v)  # Danskin

        found = minimize(risk, np.zeros(self.X.shape[1]), jac=True, tol=1e-14).x
        assert np.linalg.norm(found) < self.radius  # the ball plays no part
        return found


def in_unit_ball(n, d, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X / np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True)) / (1.0 + 1e-12)


def location(n=20, d=3, seed=0, shift=0.6, **options):
    X = 0.4 * in_unit_ball(n, d, seed)
    X[:, 0] += shift
    return Location(X, **options)


def regression(n=20, d=3, seed=0, **options):
    rng = np.random.default_rng(seed + 1)
    return Regression(in_unit_ball(n, d, seed), rng.uniform(-1.0, 1.0, n), **options)


CASES = {
    "location": location,
    "location, ball active": lambda: location(radius=0.3),
    "location, solution at the kink": lambda: location(shift=0.0, attack=0.5),
    "regression": regression,
}


def distance(one, other):
    return float(np.linalg.norm(one - other))


def point_before_noise(problem, seed=5, **options):
    """What was solved: the known noise subtracted, small enough to stay in the ball."""
    noise, again = (NoiseSource(np.random.default_rng(seed).bytes) for _ in range(2))
    result = adversarial_output_perturbation(problem, *EXACT, noise=noise, **FINE, **options)
    return result.point - result.plan.mechanism.draw(problem.dimension, again), result.plan


@pytest.mark.parametrize("case", CASES)
def test_certificate_is_never_below_the_true_gap(case):
    example = CASES[case]()
    problem, best = example.problem, example.solution()
    lowest, mu = example.risk(best), problem.strong_convexity
    rng = np.random.default_rng(7)
    for trial in range(300):
        spread = 10.0 ** rng.uniform(-7, 0.5)
        w = best + spread * rng.standard_normal(problem.dimension)
        near = (example.attack_at(w), example.attack_at(best), problem.start_v)[trial % 3]
        v = near + rng.choice([0.0, spread]) * rng.standard_normal(problem.start_v.shape)
        w, v = problem.project(w, v)
        bound = saddle_gap(problem, w, v)
        assert example.risk(w) - lowest <= bound
        assert distance(w, best) <= math.sqrt(2.0 * bound / mu)


def test_certificate_is_tight_for_exact_attacks():
    example = location()
    w = example.solution() * 1.05
    true = example.risk(w) - example.risk(example.solution())
    assert saddle_gap(example.problem, w, example.attack_at(w)) <= true * (1.0 + 1e-9) + 1e-12


def test_weak_attacks_prove_nothing():
    """A lower bound of the inner maximum can be small where the true risk is not."""
    example = regression(attack=0.5)
    problem = example.problem

    def against_none(w):
        return problem.value(w, problem.start_v), problem.gradient_w(w, problem.start_v)

    w = minimize(against_none, np.zeros(3), jac=True, tol=1e-14).x  # training without attack
    gap = example.risk(w) - example.risk(example.solution())
    assert np.linalg.norm(problem.gradient_w(w, problem.start_v)) <= 1e-6  # it looks solved
    assert gap > 1e-5 and saddle_gap(problem, w, problem.start_v) >= gap
    at_best = example.solution()
    exact, weak = (saddle_gap(problem, at_best, v) for v in (
        example.attack_at(at_best), -example.attack_at(at_best)
    ))  # fmt: skip
    assert exact <= 1e-12 and weak > 1e-3


def test_nothing_is_certified_that_is_not_finite():
    problem = location().problem
    assert saddle_gap(problem, np.full(3, np.nan), problem.start_v) == math.inf
    broken = dataclasses.replace(problem, linear_max_v=lambda g: math.nan)
    assert saddle_gap(broken, np.zeros(3), problem.start_v) == math.inf


@pytest.mark.mostly("search", 1)
@pytest.mark.parametrize("kind", ["location", "regression"])
def test_sensitivity_search(kind):
    """Exact solutions of neighbours: never above Delta; attained by the location problem."""
    rng = np.random.default_rng(11)
    largest, n = 0.0, 3
    for trial in range(40 if kind == "regression" else 1):
        X, y = in_unit_ball(n, 2, trial), rng.choice([-1.0, 1.0], n)
        X[:-1] *= 0.01 if kind == "regression" else 1.0
        if kind == "location":
            X[:-1] = [1.0, 0.0]
        solutions = []
        for record in (np.array([1.0, 0.0]), np.array([-1.0, 0.0]), np.array([0.0, 1.0])):
            for target in (-1.0, 1.0):
                X[-1], y[-1] = record, target
                if kind == "location":
                    example = Location(X.copy(), attack=0.1)
                else:
                    example = Regression(X.copy(), y.copy(), radius=0.9)
                solutions.append(example.solution())
        plan = plan_adversarial_output_perturbation(example.problem, BUDGETS[0])
        moved = max(distance(*pair) for pair in itertools.combinations(solutions, 2))
        assert moved <= plan.exact_sensitivity
        largest = max(largest, moved / plan.exact_sensitivity)
    assert largest > {"location": 0.999, "regression": 0.1}[kind]
    general = dataclasses.replace(example.problem, mean_of_records=False)
    wide = plan_adversarial_output_perturbation(general, BUDGETS[0]).exact_sensitivity
    # not divided by n
    assert wide == pytest.approx(min(n * plan.exact_sensitivity, 2.0 * general.radius))


def test_printed_sensitivity_of_algorithm_8_fails():
    """Erratum E2, exactly: certified points at distance Delta + 2 sqrt(2 alpha / mu).

    Spec section 9: n = 1e4, mu = 0.01, L = 1, alpha = 1e-6; the true delta of the printed noise
    is 4.55e-3 instead of 1e-6.
    """
    n, mu, alpha, budget = 10_000, 0.01, 1e-6, PrivacyBudget(1.0, 1e-6)
    moved = math.sqrt(2.0 * alpha / mu)
    points = []
    for last, sign in ((1.0, 1.0), (-1.0, -1.0)):
        X = np.ones((n, 1))
        X[-1] = last
        example = Location(X, attack=0.1, mu=mu, radius=200.0)
        w = example.solution() + sign * moved * (1.0 - 1e-9)
        attained = example.risk(w) - example.risk(example.solution())
        assert attained == pytest.approx(alpha, rel=1e-3)
        assert saddle_gap(example.problem, w, example.attack_at(w)) <= 1.01 * alpha
        points.append(w)
    exact = 2.0 / (mu * n)
    apart = distance(*points)
    assert apart == pytest.approx(exact + 2.0 * moved, rel=1e-6)
    multiplier = gaussian_noise_multiplier(budget.epsilon, budget.delta, "zwb")
    printed = multiplier * (exact + 2.0 * alpha / mu)
    assert gaussian_delta(budget.epsilon, apart / printed) == pytest.approx(4.55e-3, rel=0.01)
    tight = calibrated_mechanism(budget, exact + 2.0 * moved).noise_scale
    assert gaussian_delta(budget.epsilon, apart / tight) <= budget.delta * (1.0 + 1e-6)


@pytest.mark.parametrize("budget", BUDGETS, ids=["approximate", "pure"])
def test_release_and_plan(budget):
    example = regression()
    problem, d = example.problem, 3
    noise, again = (NoiseSource(np.random.default_rng(2).bytes) for _ in range(2))
    result = adversarial_output_perturbation(problem, budget, accuracy_fraction=0.02, noise=noise)
    plan = result.plan
    delta = 2.0 * problem.lipschitz / (problem.strong_convexity * 20)
    assert plan.exact_sensitivity == pytest.approx(delta, rel=1e-6)
    assert plan.accuracy == pytest.approx(0.01 * delta, rel=1e-6)
    expected = min(delta + 2.0 * plan.accuracy, 2.0 * problem.radius)
    assert plan.mechanism.sensitivity == pytest.approx(expected, rel=1e-6)
    assert plan.mechanism == calibrated_mechanism(budget, plan.mechanism.sensitivity)
    exact = problem.domain.project(example.solution() + plan.mechanism.draw(d, again))
    assert distance(result.point, exact) <= plan.accuracy
    assert np.linalg.norm(result.point) <= problem.radius
    assert plan.release().mechanism == plan.mechanism.name
    # nothing but the point depends on the records
    assert {field.name for field in dataclasses.fields(result)} == {"point", "plan"}
    other = regression(seed=50)
    assert (
        adversarial_output_perturbation(other.problem, budget, accuracy_fraction=0.02).plan == plan
    )


def test_plan_reads_no_record():
    def forbidden(*arguments):
        raise AssertionError("the plan evaluated H")

    names = ["value", "gradient_w", "gradient_v", "project_v", "linear_max_v"]
    blind = dataclasses.replace(regression().problem, **dict.fromkeys(names, forbidden))
    for budget in BUDGETS:
        plan = plan_adversarial_output_perturbation(blind, budget)
        assert plan == plan_adversarial_output_perturbation(regression().problem, budget)


@pytest.mark.parametrize("case", CASES)
def test_default_solver(case):
    example = CASES[case]()
    point, plan = point_before_noise(example.problem)
    assert distance(point, example.solution()) <= plan.accuracy


def test_proven_number_of_iterations():
    """With strong concavity neither a start nor a limit of iterations can spoil the result."""
    for problem, best in (
        (regression().problem, regression().solution()),
        (location().problem.with_concavity(0.5 / 20), None),
    ):
        accuracy = plan_adversarial_output_perturbation(problem, *EXACT, **FINE).accuracy
        proven = extragradient_iterations(problem, 0.25 * problem.strong_convexity * accuracy**2)
        assert math.isfinite(proven)
        calls = 0

        def count(w, v, problem=problem):
            nonlocal calls
            calls += 1
            return problem.gradient_w(w, v)

        counted = dataclasses.replace(problem, gradient_w=count)
        point, plan = point_before_noise(
            counted, max_iterations=0, solver=lambda problem, gap: (np.full(3, 9.0), 9.0)
        )
        assert calls <= 2 * proven + 3
        if best is not None:
            assert distance(point, best) <= plan.accuracy
    assert extragradient_iterations(location().problem, 1e-3) == math.inf


def test_with_concavity_is_a_problem_of_its_own():
    example = location()
    problem, nu = example.problem, 0.01 / 20
    curved = problem.with_concavity(nu)
    w, v = np.array([0.5, -0.2, 0.1]), rows_in_ball(in_unit_ball(20, 3, 9), 0.2)
    step = 1e-6 * in_unit_ball(20, 3, 10)
    slope = (curved.value(w, v + step) - curved.value(w, v - step)) / 2.0
    assert slope == pytest.approx(float((curved.gradient_v(w, v) * step).sum()), rel=1e-5)
    assert curved.gradient_diameter is None and problem.gradient_diameter == 2.0
    assert curved.strong_concavity == nu
    # near 0 the attack is -w / (nu n), and G is mu/2 ||w||^2 + ||w||^2 / (2 nu n) - <w, mean x>
    assert curved.constants.smoothness == pytest.approx(0.5 + 1.0 / (20 * nu))
    assert problem.constants.smoothness == math.inf  # erratum E19
    point, plan = point_before_noise(curved)
    excess = example.risk(point) - example.risk(example.solution())
    slack = problem.constants.lipschitz + 0.5 * 4.0  # slope of G in the ball
    assert excess <= 2.0 * nu * problem.radius_v**2 + slack * plan.accuracy


def broken_solvers():
    def raises(problem, gap):
        raise ZeroDivisionError

    def exits(problem, gap):
        raise SystemExit(3)

    def warns(problem, gap):
        warnings.warn("the records", stacklevel=1)
        return np.zeros(3), np.log(-np.ones((20, 3)))

    def tampers(problem, gap):
        object.__setattr__(problem, "strong_convexity", 1e9)
        object.__setattr__(problem, "linear_max_v", lambda g: 0.0)
        return np.full(3, 5.0), problem.start_v

    return {
        "raises": raises,
        "exits": exits,
        "warns": warns,
        "tampers": tampers,
        "far away": lambda problem, gap: (np.full(3, 1e9), np.full((20, 3), -1e9)),
        "not finite": lambda problem, gap: (np.full(3, np.nan), problem.start_v),
        "wrong shape": lambda problem, gap: (np.zeros(4), problem.start_v),
        "a point alone": lambda problem, gap: np.zeros(3),
        "nothing": lambda problem, gap: None,
        "strings": lambda problem, gap: ("a", "b"),
        "start": lambda problem, gap: (np.zeros(3), problem.start_v),
    }


@pytest.mark.parametrize("name", broken_solvers())
def test_broken_solvers_are_repaired(name):
    example = regression()
    point, plan = point_before_noise(example.problem, solver=broken_solvers()[name])
    assert distance(point, example.solution()) <= plan.accuracy


def test_good_solvers_are_believed_after_one_check():
    example = location()
    evaluations = []

    def exact(problem, gap):
        assert gap == 0.5 * problem.strong_convexity * plan.accuracy**2
        evaluations.clear()
        return example.solution(), example.attack_at(example.solution())

    def gradient_w(w, v):
        evaluations.append(w)
        return example.problem.gradient_w(w, v)

    problem = dataclasses.replace(example.problem, gradient_w=gradient_w)
    plan = plan_adversarial_output_perturbation(problem, *EXACT, **FINE)
    point, _ = point_before_noise(problem, solver=exact, max_iterations=0)
    assert distance(point, example.solution()) <= 1e-11
    assert len(evaluations) <= 3


def test_failure_is_an_error_outside_of_the_guarantee():
    with pytest.raises(RuntimeError, match="depends on the records and is not covered"):
        adversarial_output_perturbation(location().problem, BUDGETS[0], max_iterations=3)


def test_accuracy_beyond_the_ball_needs_no_solver():
    def forbidden(w, v):
        raise AssertionError("H was evaluated")

    problem = dataclasses.replace(location().problem, gradient_error=1.0, gradient_w=forbidden)
    point, plan = point_before_noise(problem, solver=forbidden)
    assert plan.accuracy >= problem.radius and np.linalg.norm(point) <= 1e-9
    assert plan.mechanism.sensitivity <= 2.0 * problem.radius


def test_no_warning_escapes():
    honest = regression().problem

    def gradient_w(w, v):
        warnings.warn("the records", stacklevel=1)
        return honest.gradient_w(w, v) + 0.0 / np.zeros(3) * 0.0

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with pytest.raises(RuntimeError):  # nan everywhere
            adversarial_output_perturbation(
                dataclasses.replace(location().problem, gradient_w=gradient_w),
                BUDGETS[0],
                max_iterations=2,
            )
    assert not seen


def test_functions_that_write_into_their_arguments():
    example = regression()
    honest = example.problem

    def gradient_w(w, v):
        answer = honest.gradient_w(w, v)
        w[:], v[:] = 7.0, 7.0
        return answer

    def linear_max_v(g):
        answer = honest.linear_max_v(g)
        g[:] = 0.0
        return answer

    problem = dataclasses.replace(honest, gradient_w=gradient_w, linear_max_v=linear_max_v)
    assert distance(point_before_noise(problem)[0], point_before_noise(honest)[0]) == 0


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"dimension": 0}, "dimension == 0"),
        ({"n_records": 2.5}, "n_records == 2.5"),
        ({"radius": math.inf}, "radius == inf"),
        ({"lipschitz": 0.0}, "lipschitz == 0"),
        ({"strong_convexity": 0.0}, "strong_convexity == 0"),
        ({"strong_convexity": 1.0}, "exceeds smoothness_w"),
        ({"strong_concavity": 1.0}, "exceeds smoothness_v"),
        ({"coupling": -1.0}, "coupling == -1"),
        ({"lipschitz_v": math.nan}, "lipschitz_v == nan"),
        ({"gradient_error": math.inf}, "gradient_error == inf"),
        ({"gradient_diameter": 3.0}, "twice lipschitz"),
        ({"start_v": np.full((20, 3), np.nan)}, "start_v"),
        ({"start_v": np.zeros((0, 3))}, "start_v"),
    ],
)
def test_invalid_declarations(changes, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(location().problem, **changes)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"accuracy_fraction": 0.0}, "accuracy_fraction == 0"),
        ({"max_iterations": -1}, "max_iterations == -1"),
        ({"solver": "auto"}, "solver == 'auto'"),
    ],
)
def test_invalid_options(options, message):
    with pytest.raises(ValueError, match=message):
        adversarial_output_perturbation(location().problem, BUDGETS[0], **options)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"gradient_w": lambda w, v: np.zeros(2)}, "gradient_w has shape"),
        ({"gradient_v": lambda w, v: w}, "gradient_v has shape"),
        ({"project_v": lambda v: v[0]}, "project_v gave shape"),
    ],
)
def test_functions_of_wrong_shape(changes, message):
    with pytest.raises(ValueError, match=message):
        adversarial_output_perturbation(
            dataclasses.replace(location().problem, **changes), BUDGETS[0]
        )
    with pytest.raises(ValueError, match="strength == 0"):
        location().problem.with_concavity(0.0)

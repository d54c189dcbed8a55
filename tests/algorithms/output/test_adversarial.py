"""Black-box attacks: sensitivity, accuracy, erratum L2, foreign solvers, errors."""

import itertools
import math
import warnings

import numpy as np
import pytest
from saddle_problems import changed
from scipy.optimize import minimize

from skdp.algorithms import (
    Run,
    adversarial_output_perturbation,
    plan_adversarial_output_perturbation,
)
from skdp.mechanisms import NoiseSource, calibrated_mechanism
from skdp.privacy import PrivacyBudget
from skdp.problems import Ball, BlockConstants, DeclaredSaddleProblem, Domain, SaddleConstants

#: A budget under which noise is invisible, and a finer accuracy than the default.
EXACT, FINE = (PrivacyBudget(1e12, 0.0),), {"accuracy_fraction": 1e-4}
BUDGETS = [PrivacyBudget(1.0, 1e-6), PrivacyBudget(1.0, 0.0)]


class RowsInBall(Domain):
    """Attacks on n rows, each of at most `limit`; stacked."""

    def __init__(self, n, d, limit):
        self.shape, self.limit = (n, d), limit
        self.dimension, self.radius = n * d, math.sqrt(n) * limit

    def project(self, point):
        rows = point.reshape(self.shape)
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        return (rows * (self.limit / np.maximum(norms, self.limit))).ravel()

    def projection_rounding(self, dimension):
        return 4.0 * (self.shape[1] + 8) * np.finfo(float).eps * self.radius


def declared(example, alpha_y=0.0, **changes):
    """The problem of an example, with other functions or constants."""
    n, d = example.X.shape
    domains = Ball(example.radius), RowsInBall(n, d, example.attack)
    functions = {name: changes.pop(name, getattr(example, name)) for name in ("value", "gradients")}
    x, y, coupling = example.numbers()
    constants = SaddleConstants(
        n,
        BlockConstants.on(domains[0], d, modulus=example.mu, **x),
        BlockConstants.on(domains[1], n * d, **y),
        coupling,
    )
    return DeclaredSaddleProblem(
        **functions, domain_x=domains[0], domain_y=domains[1],
        constants=changed(constants, **changes), alpha_x=example.mu, alpha_y=alpha_y,
    )  # fmt: skip


class Location:
    """``f = -mean <w, x_i + v_i>``, ``||v_i|| <= attack``, records in a unit ball."""

    #: The attack is the same for all records.
    diameter = 2.0

    def __init__(self, X, attack=0.2, mu=0.5, radius=4.0, nu=0.5):
        self.X, self.attack, self.mu, self.radius, self.nu = X, attack, mu, radius, nu
        self.problem = declared(self, alpha_y=nu / len(X))

    def numbers(self):
        n = len(self.X)
        return (
            {"lipschitz": 1.0 + self.attack},
            {"modulus": self.nu / n, "lipschitz": self.radius / math.sqrt(n)},
            1.0 / math.sqrt(n),
        )

    def value(self, w, v):
        return -float(((self.X + v.reshape(self.X.shape)) @ w).mean())

    def gradients(self, w, v):
        n = len(self.X)
        return -(self.X + v.reshape(self.X.shape)).mean(axis=0), np.tile(-w / n, n)

    def risk(self, w):
        norm = np.linalg.norm(w)
        huber = norm**2 / (2 * self.nu)
        if norm > self.attack * self.nu:
            huber = self.attack * norm - self.attack**2 * self.nu / 2
        return 0.5 * self.mu * w @ w - w @ self.X.mean(axis=0) + huber

    def attack_at(self, w):
        norm = np.linalg.norm(w)
        length = min(self.attack, norm / self.nu)
        return np.tile(-length * w / norm if norm else w, len(self.X))

    def solution(self):
        mean = self.X.mean(axis=0)
        norm = float(np.linalg.norm(mean))
        size = norm / (self.mu + 1 / self.nu)
        if size > self.attack * self.nu:
            size = (norm - self.attack) / self.mu
        return mean / norm * min(size, self.radius)


class Regression:
    """``f = mean [(y_i - <w, x_i + v_i>)^2 / 2 - (c/2) ||v_i||^2]``, strongly concave in v."""

    diameter = None

    def __init__(self, X, y, attack=0.3, mu=0.5, radius=1.0, price=2.0):
        self.X, self.y, self.attack, self.mu = X, y, attack, mu
        self.radius, self.price = radius, price
        self.problem = declared(self)

    def numbers(self):
        n, feature = len(self.X), 1.0 + self.attack
        residual = 1.0 + self.radius * feature
        slope_v = residual * self.radius + self.price * self.attack
        return (
            {"lipschitz": residual * feature, "smoothness": feature**2},
            {
                "modulus": (self.price - self.radius**2) / n,
                "lipschitz": slope_v / math.sqrt(n),
                "smoothness": self.price / n,
            },
            (residual + feature * self.radius) / math.sqrt(n),
        )

    def residuals(self, w, v):
        return self.y - (self.X + v.reshape(self.X.shape)) @ w

    def value(self, w, v):
        return 0.5 * float(np.mean(self.residuals(w, v) ** 2)) - self.price * v @ v / 2 / len(
            self.X
        )

    def gradients(self, w, v):
        n, rows, residuals = len(self.X), v.reshape(self.X.shape), self.residuals(w, v)
        gradient_v = -(np.outer(residuals, w) + self.price * rows) / n
        return -(self.X + rows).T @ residuals / n, gradient_v.ravel()

    def attack_at(self, w):
        """The exact inner maximiser: along w, away from the target."""
        norm, residual = float(np.linalg.norm(w)), self.y - self.X @ w
        length = np.minimum(self.attack, np.abs(residual) * norm / (self.price - norm**2))
        return -np.outer(np.sign(residual) * length, w / norm if norm else w).ravel()

    def risk(self, w):
        return self.problem.value(w, self.attack_at(w))

    def solution(self):
        def risk(w):
            v = self.attack_at(w)
            return self.problem.value(w, v), self.problem.operator(w, v)[0]  # Danskin

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
    "location, near the kink": lambda: location(shift=0.0, attack=0.5, nu=1e-2),
    "regression": regression,
    "many records": lambda: regression(n=3000),
}


def distance(one, other):
    return float(np.linalg.norm(one - other))


def within(plan):
    """Certified distance in x."""
    return plan.accuracy / math.sqrt(plan.constants.x.modulus)


def release(
    problem, *arguments, mean_of_records=True, solver="auto", noise=None, rng=None, **options
):
    run = Run(solver, rng, noise)
    return adversarial_output_perturbation(
        problem, *arguments, mean_of_records=mean_of_records, run=run, **options
    )


def plan_of(problem, *arguments, mean_of_records=True, **options):
    return plan_adversarial_output_perturbation(
        problem.constants, *arguments, mean_of_records=mean_of_records, **options
    )


def point_before_noise(problem, seed=5, **options):
    """What was solved: the known noise subtracted, small enough to stay in the ball."""
    noise, again = (NoiseSource(np.random.default_rng(seed).bytes) for _ in range(2))
    result = release(problem, *EXACT, noise=noise, **FINE, **options)
    drawn = result.plan.mechanism.draw(problem.constants.x.dimension, again)
    return result.point - drawn, result.plan


@pytest.mark.parametrize("case", CASES)
def test_point_is_as_accurate_as_planned(case):
    example = CASES[case]()
    best = example.solution()
    point, plan = point_before_noise(example.problem)
    assert distance(point, best) <= within(plan)
    assert within(plan) <= 1e-4 * plan.exact_sensitivity
    rng = np.random.default_rng(7)
    for _ in range(100):  # the reference is one
        other = example.problem.domain_x.project(best + 0.1 * rng.standard_normal(best.size))
        assert example.risk(other) >= example.risk(best)


def test_weak_attacks_prove_nothing():
    """Training without an attack looks solved, and is not what is released."""
    example = regression(attack=0.5)
    problem, start = example.problem, np.zeros(60)

    def against_none(w):
        return problem.value(w, start), problem.operator(w, start)[0]

    w = minimize(against_none, np.zeros(3), jac=True, tol=1e-14).x
    assert np.linalg.norm(problem.operator(w, start)[0]) <= 1e-6
    assert example.risk(w) - example.risk(example.solution()) > 1e-5
    point, plan = point_before_noise(problem, solver=lambda problem, accuracy: (w, start))
    assert distance(point, example.solution()) <= within(plan) < 1e-2 * distance(point, w)


@pytest.mark.parametrize("kind", ["location", "regression"])
def test_sensitivity_search(kind):
    """Exact solutions of neighbours: never above Delta; attained by the location problem."""
    rng = np.random.default_rng(11)
    largest, n = 0.0, 3
    for trial in range(6 if kind == "regression" else 1):
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
        options = {"gradient_diameter": example.diameter}
        plan = plan_of(example.problem, BUDGETS[0], **options)
        moved = max(distance(*pair) for pair in itertools.combinations(solutions, 2))
        assert moved <= plan.exact_sensitivity
        largest = max(largest, moved / plan.exact_sensitivity)
    assert largest > {"location": 0.999, "regression": 0.1}[kind]
    wide = plan_of(example.problem, BUDGETS[0], mean_of_records=False, **options)
    # not divided by n
    expected = min(n * plan.exact_sensitivity, 2.0 * example.radius)
    assert wide.exact_sensitivity == pytest.approx(expected)


@pytest.mark.parametrize("budget", BUDGETS, ids=["approximate", "pure"])
def test_release_and_plan(budget):
    example = regression()
    problem, constants = example.problem, example.problem.constants
    noise, again = (NoiseSource(np.random.default_rng(2).bytes) for _ in range(2))
    result = release(problem, budget, accuracy_fraction=0.02, noise=noise)
    plan = result.plan
    delta = 2.0 * constants.x.lipschitz / (constants.x.modulus * 20)
    assert plan.exact_sensitivity == pytest.approx(delta, rel=1e-6)
    assert within(plan) == pytest.approx(0.01 * delta, rel=1e-6)
    expected = min(delta + 2.0 * within(plan), 2.0 * example.radius)
    assert plan.mechanism.sensitivity == pytest.approx(expected, rel=1e-6)
    assert plan.mechanism == calibrated_mechanism(budget, plan.mechanism.sensitivity)
    exact = problem.domain_x.project(example.solution() + plan.mechanism.draw(3, again))
    assert distance(result.point, exact) <= within(plan)
    assert np.linalg.norm(result.point) <= example.radius
    assert plan.release().mechanism == plan.mechanism.name
    # nothing but the point depends on the records
    assert result.transcript is None
    assert result.x is result.point and result.y is None and not result.path
    assert release(regression(seed=50).problem, budget, accuracy_fraction=0.02).plan == plan


def test_accuracy_beyond_the_ball_needs_no_solver():
    def forbidden(*arguments):
        raise AssertionError("f was evaluated")

    problem = declared(
        location(), alpha_y=0.5 / 20, gradients=forbidden, x_additional_rounding=10.0
    )
    point, plan = point_before_noise(problem, solver=forbidden)
    assert within(plan) >= 4.0 and np.linalg.norm(point) <= 1e-9
    assert plan.mechanism.sensitivity <= 2.0 * 4.0


@pytest.mark.filterwarnings("error")
def test_no_warning_escapes():
    honest = regression()

    def gradients(w, v):
        warnings.warn("the records", stacklevel=1)
        return honest.gradients(w, v + 0.0 * (np.zeros(60) / np.ones(60)))

    noise = NoiseSource(np.random.default_rng(0).bytes)
    release(declared(honest, gradients=gradients), BUDGETS[0], noise=noise)
    with pytest.raises(RuntimeError):  # nan everywhere: not a function that was declared finite
        release(
            declared(honest, gradients=lambda w, v: (w / 0.0 * 0.0, v)), BUDGETS[0], noise=noise
        )


@pytest.mark.parametrize(
    "options, message",
    [
        ({"accuracy_fraction": 0.0}, "accuracy_fraction == 0"),
        ({"gradient_diameter": 3.0}, "gradient_diameter == 3"),
        ({"gradient_diameter": 0.0}, "gradient_diameter == 0"),
        ({"solver": "newton"}, "solver == 'newton'"),
    ],
)
def test_invalid_options(options, message):
    with pytest.raises(ValueError, match=message):
        release(location().problem, BUDGETS[0], **options)


@pytest.mark.parametrize(
    "answer",
    [(np.zeros(2), np.zeros(60)), (np.zeros(3), np.zeros(3)), (np.zeros(3), np.zeros((20, 3)))],
)
def test_gradients_of_wrong_shape(answer):
    problem = declared(location(), alpha_y=0.5 / 20, gradients=lambda w, v: answer)
    with pytest.raises(ValueError, match="the gradient has shape"):
        problem.operator(np.zeros(3), np.zeros(60))
    with pytest.raises(NotImplementedError, match="batches"):
        problem.batch_operator(slice(3), np.zeros(3), np.zeros(60))

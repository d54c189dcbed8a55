"""Black-box attacks: sensitivity, accuracy, erratum L2, foreign solvers, errors."""

import itertools
import math
import warnings

import numpy as np
import pytest
from saddle_problems import changed

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


class Location:
    """``f = -mean <w, x_i + v_i>``, ``||v_i|| <= attack``, records in a unit ball."""

    #: The attack is the same for all records.
    diameter = 2.0

    def __init__(self, X, attack=0.2, mu=0.5, radius=4.0, nu=0.5):
        self.X, self.attack, self.mu, self.radius, self.nu = X, attack, mu, radius, nu
        self.problem = self.declared()

    def declared(self, **changes):
        """The problem, with other functions or constants."""
        n, d = self.X.shape
        domains, price = (Ball(self.radius), RowsInBall(n, d, self.attack)), self.nu / n
        functions = {
            name: changes.pop(name, getattr(self, name)) for name in ("value", "gradients")
        }
        lipschitz = 1.0 + self.attack, self.radius / math.sqrt(n)
        constants = SaddleConstants(
            n,
            BlockConstants.on(domains[0], d, modulus=self.mu, lipschitz=lipschitz[0]),
            BlockConstants.on(domains[1], n * d, modulus=price, lipschitz=lipschitz[1]),
            1.0 / math.sqrt(n),
        )
        return DeclaredSaddleProblem(
            **functions, domain_x=domains[0], domain_y=domains[1],
            constants=changed(constants, **changes), alpha_x=self.mu, alpha_y=price,
        )  # fmt: skip

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

    def solution(self):
        mean = self.X.mean(axis=0)
        norm = float(np.linalg.norm(mean))
        size = norm / (self.mu + 1 / self.nu)
        if size > self.attack * self.nu:
            size = (norm - self.attack) / self.mu
        return mean / norm * min(size, self.radius)


def in_unit_ball(n, d, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X / np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True)) / (1.0 + 1e-12)


def location(n=20, d=3, seed=0, shift=0.6, **options):
    X = 0.4 * in_unit_ball(n, d, seed)
    X[:, 0] += shift
    return Location(X, **options)


CASES = {
    "location": location,
    "location, ball active": lambda: location(radius=0.3),
    "location, near the kink": lambda: location(shift=0.0, attack=0.5, nu=1e-2),
    "many records": lambda: location(n=3000),
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
    example, start = location(attack=0.3), np.zeros(60)
    w = example.X.mean(axis=0) / example.mu
    assert np.linalg.norm(example.problem.operator(w, start)[0]) <= 1e-6
    assert example.risk(w) - example.risk(example.solution()) > 1e-2
    point, plan = point_before_noise(example.problem, solver=lambda problem, accuracy: (w, start))
    assert distance(point, example.solution()) <= within(plan) < 1e-2 * distance(point, w)


def test_the_sensitivity_is_that_of_exact_solutions_of_neighbours():
    n, solutions = 3, []
    X = np.tile([1.0, 0.0], (n, 1))
    for record in ([1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]):
        X[-1] = record
        example = Location(X.copy(), attack=0.1)
        solutions.append(example.solution())
    options = {"gradient_diameter": example.diameter}
    plan = plan_of(example.problem, BUDGETS[0], **options)
    moved = max(distance(*pair) for pair in itertools.combinations(solutions, 2))
    assert 0.999 * plan.exact_sensitivity < moved <= plan.exact_sensitivity
    wide = plan_of(example.problem, BUDGETS[0], mean_of_records=False, **options)
    # not divided by n
    expected = min(n * plan.exact_sensitivity, 2.0 * example.radius)
    assert wide.exact_sensitivity == pytest.approx(expected)


@pytest.mark.parametrize("budget", BUDGETS, ids=["approximate", "pure"])
def test_release_and_plan(budget):
    example = location()
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
    assert release(location(seed=50).problem, budget, accuracy_fraction=0.02).plan == plan


def test_accuracy_beyond_the_ball_needs_no_solver():
    def forbidden(*arguments):
        raise AssertionError("f was evaluated")

    problem = location().declared(gradients=forbidden, x_additional_rounding=10.0)
    point, plan = point_before_noise(problem, solver=forbidden)
    assert within(plan) >= 4.0 and np.linalg.norm(point) <= 1e-9
    assert plan.mechanism.sensitivity <= 2.0 * 4.0


@pytest.mark.filterwarnings("error")
def test_no_warning_escapes():
    honest = location()

    def gradients(w, v):
        warnings.warn("the records", stacklevel=1)
        return honest.gradients(w, v + 0.0 * (np.zeros(60) / np.ones(60)))

    noise = NoiseSource(np.random.default_rng(0).bytes)
    release(honest.declared(gradients=gradients), BUDGETS[0], noise=noise)
    with pytest.raises(RuntimeError):  # nan everywhere: not a function that was declared finite
        nowhere = honest.declared(gradients=lambda w, v: (w / 0.0 * 0.0, v))
        release(nowhere, BUDGETS[0], noise=noise)


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
    problem = location().declared(gradients=lambda w, v: answer)
    with pytest.raises(ValueError, match="the gradient has shape"):
        problem.operator(np.zeros(3), np.zeros(60))
    with pytest.raises(NotImplementedError, match="batches"):
        problem.batch_operator(slice(3), np.zeros(3), np.zeros(60))

"""Inverse Hessians from secants, guesses of moved solutions, and solves that start from them."""

import numpy as np
import pytest

from skdp.problems import Ball, FiniteSumProblem, LogisticLoss, Records, counted
from skdp.solvers import LBFGS, Newton, solve_certified
from skdp.solvers.secants import Secants, SolutionPath


def positive(rng, d=5):
    half = rng.standard_normal((d, d))
    return half @ half.T + np.eye(d)


def test_secants_are_the_inverse_bfgs_matrix():
    rng = np.random.default_rng(0)
    hessian, first = positive(rng), positive(rng)
    secants, steps = Secants(lambda g: first @ g, memory=3), rng.standard_normal((4, 5))
    for step in steps:
        secants.add(step, hessian @ step)
    secants.add(steps[0], -steps[0])  # not convex
    secants.add(np.zeros(5), np.zeros(5))
    last = hessian @ steps[-1]
    expected = first * (steps[-1] @ last) / (last @ first @ last)
    for step in steps[1:]:  # the last three
        change = hessian @ step
        left = np.eye(5) - np.outer(step, change) / (step @ change)
        expected = left @ expected @ left.T + np.outer(step, step) / (step @ change)
    assert np.array([secants(g) for g in np.eye(5)]) == pytest.approx(expected, rel=1e-9)
    assert secants(last) == pytest.approx(steps[-1])


def test_a_path_knows_where_the_next_minimiser_is():
    rng = np.random.default_rng(1)
    hessian, alpha, linear = positive(rng), 0.3, rng.standard_normal(5)
    total = hessian + alpha * np.eye(5)
    path = SolutionPath(lambda g: np.linalg.solve(total, g))
    for center in rng.standard_normal((3, 5)):
        minimiser = np.linalg.solve(total, linear + alpha * center)
        guess = path.start(alpha * center)
        assert guess is None or guess == pytest.approx(minimiser, abs=1e-12)
        path.add(alpha * center, minimiser)
    assert guess is not None
    with np.errstate(invalid="ignore"):
        assert path.start(np.full(5, np.inf)) is None


GUESSES = {
    "right": lambda inverse: inverse,
    "a hundredth": lambda inverse: 0.01 * inverse,
    "negative": lambda inverse: -inverse,
    "far too large": lambda inverse: 1e9 * inverse,
    "no number": lambda inverse: np.nan * inverse,
}


@pytest.mark.parametrize("name", GUESSES)
def test_a_guess_costs_or_saves_time_only(name):
    rng = np.random.default_rng(2)
    X = rng.uniform(-0.4, 0.4, (300, 4))
    records = Records(X, 1.0, targets=(X[:, 0] > 0.0).astype(float))
    problem = FiniteSumProblem(records, LogisticLoss(), 0.05, Ball(20.0))
    exact = Newton().solve(problem, 1e-11).point
    inverse = GUESSES[name](np.linalg.inv(problem.hessian(np.zeros(4))))
    passes = []
    for guess in (None, Secants(lambda g: inverse @ g)):
        watched = counted(problem)
        watched.guess = guess
        solution = solve_certified(watched, 1e-8, LBFGS())
        assert np.linalg.norm(solution.point - exact) <= solution.distance + 1e-11 <= 1.1e-8
        assert len(solution.attempts) == 1
        passes.append(watched.counts.gradients / 300)
    if name == "right":  # the point, steps, and no other gradient for the certificate
        assert passes[1] <= 6 < passes[0]
    assert passes[1] <= passes[0] + 2

"""Losses with kinks: constants, subgradient methods, and that no certificate covers them."""

import numpy as np
import pytest
import scipy.sparse as sp
from kinked_problems import exact_solution

from skdp.problems import (
    AbsoluteLoss,
    Ball,
    Box,
    FiniteSumProblem,
    HingeLoss,
    Records,
    Simplex,
    WholeSpace,
)
from skdp.solvers import (
    SOLVERS,
    StochasticSubgradient,
    Subgradient,
    solve_certified,
)

LOSSES = {"hinge": HingeLoss(), "absolute": AbsoluteLoss(1.0)}
SUBGRADIENTS = [Subgradient(), StochasticSubgradient(batch_size=5)]


def problem_of(loss, *, n=60, d=3, alpha=0.05, domain=None, sparse=False, seed=0, width=0.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    targets = (
        (X[:, 0] > 0.3 * rng.standard_normal(n)).astype(float)
        if loss == "hinge"
        else np.clip(X[:, 0] + 0.3 * rng.standard_normal(n), -1, 1)
    )
    rows = Records(sp.csr_matrix(X) if sparse else X, 1.0, 0.1)
    phi = LOSSES[loss].smoothed(width) if width else LOSSES[loss]
    return FiniteSumProblem(rows.with_targets(targets), phi, alpha, domain or WholeSpace())


DOMAINS = {
    "free": lambda d: WholeSpace(),
    "ball active": lambda d: Ball(0.2),
    "ball inactive": lambda d: Ball(50.0),
    "box": lambda d: Box(np.full(d, -0.1), np.full(d, 0.3)),
    "simplex": lambda d: Simplex(d),
}


@pytest.mark.parametrize(
    ("solver", "loss", "domain"),
    [
        (SUBGRADIENTS[i % 2], list(LOSSES)[i // 2 % 2], domain)
        for i, domain in enumerate([*DOMAINS, "ball active"])
    ],
)
def test_subgradient_methods_reach_coarse_accuracies_alone(solver, loss, domain):
    problem = problem_of(loss, alpha=0.5, domain=DOMAINS[domain](4))
    exact, error = exact_solution(problem)
    assert error <= 1e-3
    start = problem.domain.project(np.zeros(4))
    point = solver._solve(problem, 0.05, start, np.random.default_rng(0))
    assert np.linalg.norm(point - exact) <= 0.05 - error
    np.testing.assert_allclose(problem.domain.project(point), point, atol=1e-15)


def test_subgradient_error_falls_like_one_over_t():
    """Docstring of Subgradient: ``mu ||w - w*||^2 <= (27/8) 2 (2 L)^2 / (mu (T + 2))``."""
    problem = problem_of("hinge", alpha=0.1, n=200)
    exact, error = exact_solution(problem)
    curvature = (2 * problem.constants.lipschitz) ** 2 / problem.alpha
    for steps in (10, 100, 1000):
        solver = Subgradient(max_iterations=steps)
        point = solver._solve(problem, 0.0, np.zeros(4), np.random.default_rng(0))
        gap = problem.alpha * (np.linalg.norm(point - exact) - error) ** 2
        assert gap <= 27 / 4 * curvature / (steps + 2)


def test_subgradient_iterates_are_those_of_the_listing():
    """In the whole space: x <- x - 2 / (mu (t + 1)) g with g of the objective (erratum L4)."""
    problem = problem_of("hinge", alpha=0.3)
    solver = Subgradient(max_iterations=25)
    point = solver._solve(problem, 0.0, np.zeros(4), np.random.default_rng(0))
    x = np.zeros(4)
    for t in range(1, 26):
        x = x - 2.0 / (problem.alpha * (t + 1)) * problem.gradient(x)
    np.testing.assert_allclose(point, x, atol=1e-12)


@pytest.mark.parametrize("loss", list(LOSSES))
def test_no_kink_is_certified(loss):
    """By public numbers, before any work, and with a way out."""
    problem = problem_of(loss, domain=Ball(3.0))
    for solver in (*SOLVERS, lambda problem, accuracy: 1 / 0):
        with pytest.raises(ValueError, match=r"loss\.smoothed\(width\)"):
            solve_certified(problem, 1e-6, solver)


@pytest.mark.parametrize(("solver", "loss"), [*zip(SUBGRADIENTS, LOSSES, strict=True)])
def test_envelopes_are_certified(solver, loss):
    """By the subgradient method alone, coarsely, or finished by the trusted solvers."""
    problem = problem_of(loss, alpha=2.0, width=1.0, domain=Ball(3.0))
    rng = np.random.default_rng(0)
    for accuracy in (0.05, 1e-6):
        found = solve_certified(problem, accuracy, solver, rng=rng)
        assert found.distance <= accuracy
        assert accuracy < 0.05 or len(found.attempts) == 1
    narrow = problem_of(loss, alpha=2.0, width=1e-8, domain=Ball(3.0))
    exact, error = exact_solution(problem_of(loss, alpha=2.0, domain=Ball(3.0)))
    found = solve_certified(narrow, 1e-6, solver, rng=rng)
    # envelopes are at most width / 2 below the loss
    assert np.linalg.norm(found.point - exact) <= 1e-6 + error + np.sqrt(1e-8 / 2.0)

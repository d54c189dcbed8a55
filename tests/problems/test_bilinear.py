"""Norms in their minimax form, against linear programming."""

import numpy as np
import pytest
from plain_noise import seeded
from scipy.optimize import linprog

from skdp.algorithms import Run, phased_saddle_output_perturbation
from skdp.privacy import PrivacyBudget
from skdp.problems import BilinearProblem
from skdp.solvers import solve_certified


def equations(n, seed=0, p=6, d=3):
    """More equations than coefficients, so that no point solves them all."""
    rng = np.random.default_rng(seed)
    A, b = rng.normal(size=(n, p, d)), rng.normal(size=(n, p))
    A += 2.0 * rng.normal(size=(p, d))
    b += rng.normal(size=p)
    return A / np.linalg.norm(A, axis=(1, 2))[:, None, None], b / 4.0


def least(A, b):
    """Minimiser of ``||A w - b||_1``."""
    p, d = A.shape
    rows = np.block([[A, -np.eye(p)], [-A, -np.eye(p)]])
    bounds = [(None, None)] * d + [(0, None)] * p
    return linprog(np.r_[np.zeros(d), np.ones(p)], rows, np.r_[b, -b], bounds=bounds).x[:d]


def test_the_largest_value_over_y_is_the_norm():
    A, b = equations(50)
    w = np.array([0.3, -0.2, 0.1])
    residual = A.mean(axis=0) @ w - b.mean(axis=0)
    for norm, y, value in (
        ("l1", np.sign(residual), np.abs(residual).sum()),
        ("l2", residual / np.linalg.norm(residual), np.linalg.norm(residual)),
    ):
        problem = BilinearProblem.of_norm(A, b, (1.0, 2.0), 2.0, norm)
        assert problem.value(w, y) - problem.regulariser(w, y) == pytest.approx(value)
        assert problem.domain_y.project(1.001 * y) == pytest.approx(y)


def test_weak_regularisers_give_the_solution_of_the_linear_program():
    A, b = equations(4000)
    problem = BilinearProblem.of_norm(A, b, (1.0, 2.0), 3.0)
    means = A.mean(axis=0), b.mean(axis=0)
    best = least(*means)
    assert np.linalg.norm(best) < 3.0
    exact = solve_certified(problem.with_regularisers(1e-4, 1e-4), 1e-4)
    private = phased_saddle_output_perturbation(
        problem, PrivacyBudget(20.0, 1e-6), run=Run(noise=seeded())
    )
    points = exact.x, private.point, best, np.zeros(3)
    values = [np.abs(means[0] @ w - means[1]).sum() for w in points]
    assert values[2] * (1.0 - 1e-9) <= values[0] < 1.001 * values[2]
    # the private one is regularised for the expectation over other records
    assert values[1] < values[2] + 0.4 * (values[3] - values[2])

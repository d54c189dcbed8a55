"""Losses with kinks: no certificate covers them, and one covers their envelopes."""

import numpy as np
import pytest
from kinked_problems import exact_solution

from skdp.problems import AbsoluteLoss, Ball, FiniteSumProblem, HingeLoss, Records
from skdp.solvers import SOLVERS, solve_certified

LOSSES = {"hinge": HingeLoss(), "absolute": AbsoluteLoss(1.0)}


def problem_of(loss, alpha=0.05, width=0.0):
    rng = np.random.default_rng(0)
    n = 60
    X = rng.standard_normal((n, 3))
    targets = (
        (X[:, 0] > 0.3 * rng.standard_normal(n)).astype(float)
        if loss == "hinge"
        else np.clip(X[:, 0] + 0.3 * rng.standard_normal(n), -1, 1)
    )
    rows = Records(X, 1.0, 0.1)
    phi = LOSSES[loss].smoothed(width) if width else LOSSES[loss]
    return FiniteSumProblem(rows.with_targets(targets), phi, alpha, Ball(3.0))


@pytest.mark.parametrize("loss", list(LOSSES))
def test_no_kink_is_certified(loss):
    """By public numbers, before any work, and with a way out."""
    problem = problem_of(loss)
    for solver in (*SOLVERS, lambda problem, accuracy: 1 / 0):
        with pytest.raises(ValueError, match=r"loss\.smoothed\(width\)"):
            solve_certified(problem, 1e-6, solver)


@pytest.mark.parametrize(("solver", "loss"), [("lbfgs", "hinge"), ("svrg", "absolute")])
def test_envelopes_are_certified(solver, loss):
    """Wide ones by the method alone, narrow ones perhaps by the trusted solvers."""
    problem = problem_of(loss, alpha=2.0, width=1.0)
    rng = np.random.default_rng(0)
    for accuracy in (0.05, 1e-6):
        found = solve_certified(problem, accuracy, solver, rng=rng)
        assert found.distance <= accuracy
        assert len(found.attempts) == 1
    narrow = problem_of(loss, alpha=2.0, width=1e-8)
    exact, error = exact_solution(problem_of(loss, alpha=2.0))
    found = solve_certified(narrow, 1e-6, solver, rng=rng)
    # envelopes are at most width / 2 below the loss
    assert np.linalg.norm(found.point - exact) <= 1e-6 + error + np.sqrt(1e-8 / 2.0)

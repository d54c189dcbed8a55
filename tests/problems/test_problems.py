"""What all problems promise to solvers: derivatives, and bounds on their curvature."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from every_loss import LOSSES, targets_for

from skdp.problems import Attack, Ball, FiniteSumProblem, Records, TiltedProblem
from skdp.problems.adversarial import AdversarialProblem


def problems():
    """Yield a name, a kind of problem, a loss, and options."""
    for i, (name, loss) in enumerate(LOSSES.items()):
        yield f"mean {name}", FiniteSumProblem, loss, {"n_public": 30}
        yield f"tilted {name}", TiltedProblem, loss, {"tilt": (1e-5, 0.7, 8.0)[i % 3]}
    for name in ("logistic", "squared", "squared hinge", "hinge"):
        for norm in (1, 2, math.inf):
            attack = {"attack": Attack(norm, 0.2, 0.4), "bias": 0.02}
            yield f"attacked {name} {norm}", AdversarialProblem, LOSSES[name], attack


PROBLEMS = {name: given for name, *given in problems()}


@pytest.mark.parametrize("name", PROBLEMS)
def test_derivatives_and_curvature(name):
    """By differences; dense and CSR rows by turns, and a center that is not 0."""
    (kind, loss, options), rng = PROBLEMS[name], np.random.default_rng(0)
    X = rng.standard_normal((25, 3))
    rows = Records(sp.csr_matrix(X) if list(PROBLEMS).index(name) % 3 else X, 1.5, 0.4)
    rows.block_size = 16
    rows = rows.with_targets(targets_for(loss, rng, 25))
    center = 0.3 * rng.standard_normal(4 * loss.n_outputs)
    problem = kind(rows, loss, 0.1, Ball(3.0), center=center, **options)
    for scale in (0.0, 2.0):
        w = scale * rng.standard_normal(problem.dimension) / math.sqrt(problem.dimension)
        value, gradient = problem.value_and_gradient(w)
        assert value == problem.value(w)
        np.testing.assert_array_equal(gradient, problem.gradient(w))
        hessian, v = problem.hessian(w), rng.standard_normal(problem.dimension)
        np.testing.assert_allclose(hessian, hessian.T, atol=1e-13)
        np.testing.assert_allclose(problem.hessian_vector(w, v), hessian @ v, atol=1e-12)
        for i, step in enumerate(1e-6 * np.eye(problem.dimension)):
            up, down = problem.value_and_gradient(w + step), problem.value_and_gradient(w - step)
            assert (up[0] - down[0]) / 2e-6 == pytest.approx(gradient[i], abs=1e-7)
            np.testing.assert_allclose((up[1] - down[1]) / 2e-6, hessian[i], atol=2e-5)
    for scale in (0.0, 0.1, 1.0, 3.0, 9.0):  # accelerated methods may leave the ball
        w = rng.standard_normal(problem.dimension)
        bends = np.linalg.eigvalsh(problem.hessian(scale / np.linalg.norm(w) * w))
        assert problem.strong_convexity <= bends.min() * (1 + 1e-12)
        assert bends.max() <= problem.smoothness


@pytest.mark.parametrize("name", ["mean logistic", "mean softmax", "attacked squared 2"])
def test_sums_are_divided_by_the_nominal_size(name):
    (kind, loss, options), rng = PROBLEMS[name], np.random.default_rng(0)
    rows = Records(rng.standard_normal((25, 3)), 1.5, 0.4, targets=targets_for(loss, rng, 25))
    w, found = 0.2 * rng.standard_normal(4 * loss.n_outputs), []
    for n in (25, 50):
        problem = kind(rows, loss, 0.1, Ball(3.0), **{**options, "n_public": n})
        value, gradient = problem.value_and_gradient(w)
        hessian = problem.hessian(w) - 0.1 * np.eye(len(w))
        found.append((value - problem.penalty(w), gradient - problem.penalty_gradient(w), hessian))
    for whole, half in zip(*found, strict=True):
        np.testing.assert_allclose(whole, 2.0 * half, rtol=1e-9, atol=1e-12)

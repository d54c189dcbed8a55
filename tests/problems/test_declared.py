"""Losses of whole data sets with declared constants: releases, sensitivity, refusals."""

import itertools
import math

import numpy as np
import pytest
from refusals import one_at_a_time
from scipy.special import logsumexp, softmax

from skdp.algorithms import Run, output_perturbation, plan_output_perturbation
from skdp.privacy import Neighbouring, PrivacyBudget
from skdp.problems import (
    Ball,
    Box,
    DeclaredProblem,
    FiniteSumProblem,
    LogisticLoss,
    Records,
    WholeSpace,
)
from skdp.solvers import AcceleratedGradient, certify, resolve_solver, solve_certified

BUDGET = PrivacyBudget(1.0, 1e-6)


def smooth_maximum(X, tilt=20.0, curvature=0.0):
    """``(1/t) log sum_i exp(-t <w, x_i>)`` plus a quadratic: the largest of linear losses."""

    def value_and_gradient(w):
        losses = -(X @ w)
        gradient = curvature * w - softmax(tilt * losses) @ X
        return float(logsumexp(tilt * losses) / tilt + 0.5 * curvature * w @ w), gradient

    return value_and_gradient


def maximum_problem(X, *, alpha=0.5, **changes):
    given = {"dimension": X.shape[1], "lipschitz": 1.0, "smoothness": 20.0, "alpha": alpha}
    given |= {"n_records": len(X)}
    return DeclaredProblem(smooth_maximum(X), **(given | changes))


def logistic_pair(radius=None, center=None, n=80, seed=0):
    """Logistic regression by rows, and by functions that are written without the package."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    X /= np.linalg.norm(X, axis=1, keepdims=True) * (1.0 + 1e-12)
    y = rng.integers(0, 2, n).astype(float)
    domain, records = WholeSpace() if radius is None else Ball(radius), Records(X, 1.0, targets=y)
    known = FiniteSumProblem(records, LogisticLoss(), 0.05, domain, center=center)

    def value_and_gradient(w):
        margins = (2.0 * y - 1.0) * (X @ w)
        slopes = -(2.0 * y - 1.0) / (1.0 + np.exp(margins))
        return float(np.logaddexp(0.0, -margins).mean()), X.T @ slopes / n

    def hessian(w):
        p = 1.0 / (1.0 + np.exp(-(X @ w)))
        return (X.T * (p * (1.0 - p))) @ X / n

    declared = DeclaredProblem(
        value_and_gradient, dimension=3, lipschitz=known.constants.lipschitz,
        gradient_diameter=known.constants.gradient_diameter, smoothness=0.25, alpha=0.05,
        domain=domain, n_records=n, mean_of_records=True, hessian=hessian, center=center,
    )  # fmt: skip
    return known, declared


def moved(one, other):
    return float(np.linalg.norm(one - other))


@pytest.mark.parametrize(
    ("radius", "center"), [(None, None), (5.0, np.array([0.3, -0.2, 0.1])), (0.2, None)]
)
def test_the_same_solution_and_sensitivity_as_by_rows(radius, center):
    known, declared = logistic_pair(radius, center)
    w = np.array([0.1, -0.15, 0.05])
    assert declared.value(w) == pytest.approx(known.value(w), rel=1e-14)
    np.testing.assert_allclose(declared.gradient(w), known.gradient(w), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(declared.hessian(w), known.hessian(w), rtol=1e-12, atol=1e-15)
    assert declared.smoothness == pytest.approx(known.smoothness)
    assert declared.constants.radius == pytest.approx(known.constants.radius)
    plans = [plan_output_perturbation(each.constants, BUDGET) for each in (known, declared)]
    sensitivities = [plan.exact_sensitivity for plan in plans]
    assert sensitivities[0] == pytest.approx(sensitivities[1], rel=1e-12)
    points = [solve_certified(each, 1e-8, resolve_solver("newton")) for each in (known, declared)]
    assert points[1].attempts[0].distance <= 1e-8
    assert moved(points[0].point, points[1].point) <= 2e-8


# ------------------------------------------------------------------- envelopes and largest losses

WIDTH = 0.3


def medians(targets, width=WIDTH, **options):
    """The envelope of ``mean_i ||w - b_i||_1``, whose proximal point is a median of 2 n + 1."""
    n, d = targets.shape
    steps = width * (1.0 - 2.0 * np.arange(n + 1) / n)

    def prox(w):
        return np.median(np.concatenate([targets, w + steps[:, None]]), axis=0)

    return DeclaredProblem.envelope(
        lambda w: float(np.abs(w - targets).sum(axis=1).mean()), prox, width=width, dimension=d,
        lipschitz=math.sqrt(d), n_records=n, mean_of_records=True, **options,
    )  # fmt: skip


def test_an_envelope_is_that_of_its_definition():
    """Against the least value on a grid, difference quotients and the declared constants."""
    rng = np.random.default_rng(0)
    targets = rng.uniform(-1.0, 1.0, (6, 1))
    problem, grid = medians(targets, alpha=0.5), np.linspace(-3.0, 3.0, 60_001)
    grid = np.append(grid, targets)
    losses = np.abs(grid - targets).mean(axis=0)
    points = rng.uniform(-2.0, 2.0, (40, 1))
    gradients = []
    for w in points:
        value, gradient = problem.value_and_gradient(w)
        least = (losses + (grid - w) ** 2 / (2.0 * WIDTH)).min()
        assert value - 0.25 * w @ w == pytest.approx(least, abs=1e-8)
        loss = float(np.abs(w - targets).mean())
        assert loss - WIDTH / 2 - 1e-12 <= least <= loss + 1e-8
        ends = [problem.value_and_gradient(w + step)[0] for step in (1e-6, -1e-6)]
        assert gradient[0] == pytest.approx((ends[0] - ends[1]) / 2e-6, abs=1e-7)
        gradients.append(gradient[0] - 0.5 * w[0])
    slopes = np.abs(np.subtract.outer(gradients, gradients))
    apart = np.abs(np.subtract.outer(points[:, 0], points[:, 0]))
    assert np.abs(gradients).max() <= 1.0 + 1e-12 and (slopes <= apart / WIDTH + 1e-12).all()


def test_an_envelope_of_a_mean_moves_like_the_mean():
    """Neighbours' solutions: never further apart than D / (mu n), though it is no mean itself."""
    width, n, alpha, rng, largest = 0.3, 5, 0.5, np.random.default_rng(1), 0.0
    plan = plan_output_perturbation(medians(np.zeros((n, 1)), width, alpha=alpha).constants, BUDGET)
    assert plan.exact_sensitivity == pytest.approx(2.0 / (alpha * n), rel=1e-6)
    for _ in range(25):
        targets = rng.choice([-1.0, -0.2, 0.0, 0.2, 1.0], (n, 1)) * 3.0
        pair = []
        for record in (-3.0, 3.0):
            targets[0] = record
            problem = medians(targets, width, alpha=alpha)
            pair.append(solve_certified(problem, 1e-6, AcceleratedGradient()).point)
        largest = max(largest, moved(*pair))
    assert 0.5 * plan.exact_sensitivity < largest <= plan.exact_sensitivity + 2e-6


def test_a_strongly_convex_loss_has_an_envelope_less_so():
    """``w^2 / 2`` has the envelope ``w^2 / (2 (1 + width))``."""
    problem = DeclaredProblem.envelope(
        lambda w: 0.5 * float(w @ w), lambda w: w / (1.0 + WIDTH), width=WIDTH, dimension=2,
        lipschitz=2.0, radius=1.0, strong_convexity=1.0, prox_error=1e-9,
    )  # fmt: skip
    w = np.array([0.3, -0.4])
    assert problem.value_and_gradient(w)[0] == pytest.approx(0.125 / (1.0 + WIDTH))
    assert problem.constants.strong_convexity == pytest.approx(1.0 / (1.0 + WIDTH))
    assert problem.constants.additional_rounding == pytest.approx(1e-9 / WIDTH, rel=1e-4)


def largest_distance(targets, bias=0.05, **options):
    """The largest of ``||w - b_i||^2 / 2``: its minimiser is the middle of the smallest ball."""
    return DeclaredProblem.largest(
        lambda w: (0.5 * ((w - targets) ** 2).sum(axis=1), w - targets),
        n_losses=len(targets), bias=bias, dimension=targets.shape[1], lipschitz=2.0, radius=1.0,
        largest_value=2.0, loss_smoothness=1.0, strong_convexity=1.0, n_records=len(targets),
        **options,
    )  # fmt: skip


def test_a_largest_loss_is_smooth_and_near_the_largest():
    rng = np.random.default_rng(0)
    targets = rng.normal(size=(9, 3))
    targets /= np.linalg.norm(targets, axis=1, keepdims=True)
    problem = largest_distance(targets)
    smoothness = problem.constants.smoothness
    assert smoothness == pytest.approx(1.0 + math.log(9) / 0.05 * 4.0)
    for _ in range(50):
        w, step = rng.normal(size=3) / 3.0, 1e-4 * rng.normal(size=3)
        value, gradient = problem.value_and_gradient(w)
        truth = 0.5 * ((w - targets) ** 2).sum(axis=1).max()
        assert truth - 0.05 <= value <= truth
        ends = [problem.value_and_gradient(w + sign * step) for sign in (1.0, -1.0)]
        assert gradient @ step == pytest.approx((ends[0][0] - ends[1][0]) / 2.0, rel=1e-4, abs=1e-9)
        bend = np.linalg.norm(ends[0][1] - ends[1][1]) / (2.0 * np.linalg.norm(step))
        assert bend <= smoothness
    corners = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 0.2]])  # the ball of the first two
    centre = solve_certified(largest_distance(corners, 1e-3), 1e-6, AcceleratedGradient()).point
    np.testing.assert_allclose(centre, 0.0, atol=2e-3)
    released = output_perturbation(problem, BUDGET)
    assert released.plan.exact_sensitivity == pytest.approx(2.0, rel=1e-3)  # all of the ball


def test_sensitivity_of_a_largest_loss_is_free_of_n():
    """Exhaustive neighbours on a grid: never above 2 L / mu, and far above 2 L / (mu n)."""
    n, alpha = 12, 0.5
    values = [np.array([np.cos(a), np.sin(a)]) for a in np.arange(8) * math.pi / 4]
    plan = plan_output_perturbation(maximum_problem(np.ones((n, 2)) / 2).constants, BUDGET)
    assert plan.exact_sensitivity == pytest.approx(2.0 / alpha, rel=1e-6)
    others = np.tile(values[0], (n - 1, 1))
    others[1::2] += 1e-3
    others /= np.linalg.norm(others, axis=1, keepdims=True)
    solutions = []
    for record in values:
        problem = maximum_problem(np.vstack([others, record]))
        solutions.append(solve_certified(problem, 1e-9, AcceleratedGradient()).point)
    largest = max(moved(*pair) for pair in itertools.combinations(solutions, 2))
    assert largest <= plan.exact_sensitivity + 2e-9
    assert largest > 3.0 * 2.0 / (alpha * n)  # dividing by n would be wrong


def test_strong_convexity_of_the_loss_itself():
    """mu from f, none from the package: same solution, same sensitivity."""
    X = np.random.default_rng(0).standard_normal((10, 2))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    outside = maximum_problem(X)
    inside = DeclaredProblem(
        smooth_maximum(X, curvature=0.5), dimension=2, lipschitz=1.0 + 0.5 * 2.0,
        gradient_diameter=2.0, smoothness=20.5, strong_convexity=0.5, radius=2.0, n_records=10,
    )  # fmt: skip
    assert isinstance(inside.domain, Ball) and isinstance(outside.domain, WholeSpace)
    assert inside.strong_convexity == outside.strong_convexity
    assert outside.constants.radius == 2.0  # L / alpha
    plans = [plan_output_perturbation(p.constants, BUDGET) for p in (inside, outside)]
    assert plans[0].exact_sensitivity == plans[1].exact_sensitivity
    found = [solve_certified(p, 1e-8, resolve_solver("lbfgs")) for p in (inside, outside)]
    assert moved(found[0].point, found[1].point) <= 2e-8
    assert found[1].attempts[0].distance <= 1e-8  # without help
    # in the whole space a declared radius takes the place of the ball
    spread = DeclaredProblem(
        smooth_maximum(X, curvature=0.5), dimension=2, lipschitz=2.0, smoothness=20.5,
        strong_convexity=0.5, radius=2.0, domain=WholeSpace(),
    )  # fmt: skip
    assert spread.constants.radius == 2.0 and not spread.constants.in_ball


def test_solvers_that_need_more_and_add_remove_are_refused():
    problem = maximum_problem(np.eye(2))
    for solver in ("newton", "svrg"):
        with pytest.raises(ValueError, match=r"needs (hessian|records), which a DeclaredProblem"):
            output_perturbation(problem, BUDGET, run=Run(solver))
    assert not DeclaredProblem.has_nominal_size
    with pytest.raises(ValueError, match="is proven for this problem"):
        output_perturbation(problem, BUDGET, neighbouring=Neighbouring.ADD_REMOVE)


def test_declared_errors_of_the_gradient_are_in_the_accuracy():
    X = np.eye(2)
    error = 1e-2
    rough = maximum_problem(X, gradient_error=error)
    exact = solve_certified(maximum_problem(X), 1e-10, AcceleratedGradient()).point
    assert certify(rough, exact).distance >= error / rough.strong_convexity
    accuracy = plan_output_perturbation(rough.constants, BUDGET).accuracy
    assert accuracy > error / rough.strong_convexity
    solve_certified(rough, 0.5 * accuracy, AcceleratedGradient())


def test_rounding_of_gradients_is_bounded_everywhere():
    """Beyond the declared ball, where L fails, and for a center that is far away."""
    n, unit = 10**6, np.finfo(float).eps
    problem = maximum_problem(np.eye(2), radius=2.0, domain=WholeSpace(), n_records=n)
    assert problem.gradient_rounding(np.zeros(2)) == pytest.approx(0.51 * n * unit, rel=1e-3)
    far = np.array([1e9, 0.0])  # a sum of n gradients of norm up to 20 * 1e9
    assert problem.gradient_rounding(far) == pytest.approx(0.51 * n * unit * 20.0 * 1e9, rel=1e-3)
    away = np.array([1e9, 0.0])
    shifted = maximum_problem(np.eye(2), center=away)
    assert shifted.gradient_rounding(np.zeros(2)) >= 4.0 * unit * 0.5 * 1e9


REFUSED = [
    *one_at_a_time(
        lipschitz=[0.0, math.inf], smoothness=[math.inf, math.nan], gradient_diameter=[0.0],
        gradient_error=[-1e-9], radius=[-1.0], n_records=[0, 1.5], dimension=[0],
        domain=[Box(np.zeros(3), np.ones(3))], alpha=[-1.0],
        center=[np.zeros(3), np.array([np.nan, 0.0])],
    ),
    ({"alpha": 0.0}, "without strong convexity"),
    ({"strong_convexity": 21.0, "radius": 0.01}, "exceeds smoothness"),
    ({"strong_convexity": 0.1}, "unbounded domain"),
    ({"strong_convexity": 1.0, "radius": 1.5}, "contradicts strong_convexity"),
    ({"gradient_diameter": 2.5}, "exceeds twice lipschitz"),
    ({"center": np.full(2, 5.0), "domain": WholeSpace(), "radius": 1.0}, "beyond radius"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "message"), REFUSED)
def test_invalid_declarations(changes, message):
    with pytest.raises(ValueError, match=message):
        maximum_problem(np.eye(2), **changes)


def test_functions_that_write_into_their_argument_or_are_invalid():
    def writes(w):
        answer = smooth_maximum(np.eye(2))(w)
        w[:] = 0.0
        return answer

    problem = DeclaredProblem(writes, dimension=2, lipschitz=1.0, smoothness=20.0, alpha=0.5)
    point = np.array([1.0, -1.0])
    certify(problem, point)
    assert (point == [1.0, -1.0]).all()
    given = {"dimension": 2, "lipschitz": 1.0, "smoothness": 1.0, "alpha": 1.0}
    with pytest.raises(ValueError, match="pair"):
        DeclaredProblem(lambda w: w, **given)
    with pytest.raises(ValueError, match="gradient has shape"):
        DeclaredProblem(lambda w: (0.0, np.zeros(3)), **given)
    short = maximum_problem(np.eye(2), hessian=lambda w: np.eye(3))
    with pytest.raises(ValueError, match="Hessian has shape"):
        short.hessian(np.zeros(2))
    with pytest.raises(ValueError, match="float32"):
        DeclaredProblem(lambda w: (0.0, w.astype(np.float32)), **given)
    DeclaredProblem(lambda w: (0.0, w.astype(np.float32)), **given, gradient_error=1e-6)

"""Piecewise linear losses: constants, envelopes, the gap certificate, the solvers."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

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
    AugmentedLagrangian,
    StochasticSubgradient,
    Subgradient,
    certify_dual,
    resolve_solver,
    solve_certified,
)

LOSSES = {"hinge": HingeLoss(), "absolute": AbsoluteLoss(1.0)}


def problem_of(loss, *, n=60, d=3, alpha=0.05, domain=None, sparse=False, seed=0, **kwargs):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    targets = (
        (X[:, 0] > 0.3 * rng.standard_normal(n)).astype(float)
        if loss == "hinge"
        else np.clip(X[:, 0] + 0.3 * rng.standard_normal(n), -1, 1)
    )
    rows = Records(sp.csr_matrix(X) if sparse else X, 1.0, 0.1)
    return FiniteSumProblem(
        rows.with_targets(targets), LOSSES[loss], alpha, domain or WholeSpace(), **kwargs
    )


def lower_bound(problem, dual):
    """Value of the dual at a dual vector, from its definition."""
    kinks, *_ = problem.loss.pieces(problem.records.targets)
    pull = problem.pull_back(dual)
    center = np.zeros(problem.dimension) if problem.center is None else problem.center
    point = problem.domain.project(center - pull / problem.alpha)
    penalty = 0.5 * problem.alpha * float((point - center) @ (point - center))
    return float(pull @ point - dual @ kinks / problem.n_public + penalty)


DOMAINS = {
    "free": lambda d: WholeSpace(),
    "ball active": lambda d: Ball(0.2),
    "ball inactive": lambda d: Ball(50.0),
    "box": lambda d: Box(np.full(d, -0.1), np.full(d, 0.3)),
    "simplex": lambda d: Simplex(d),
}


@pytest.mark.mostly("slow", 7)
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("domain", list(DOMAINS))
@pytest.mark.parametrize("loss", list(LOSSES))
def test_augmented_lagrangian_reaches_the_accuracy(loss, domain, sparse):
    for alpha in (1.0, 1e-2, 1e-4):
        problem = problem_of(loss, alpha=alpha, domain=DOMAINS[domain](4), sparse=sparse)
        # a thousandth of the sensitivity that would be released with
        sensitivity = min(2.0 / (alpha * 60), 2.0 * problem.domain.circumradius)
        accuracy = 1e-3 * sensitivity
        point, dual = AugmentedLagrangian().minimise(
            problem, accuracy, problem.domain.project(np.zeros(4)), np.random.default_rng(0)
        )
        solution = certify_dual(problem, dual, point)
        assert solution.certificate.distance <= accuracy
        # weak duality: the value at the solution is bracketed, without the certificate's words
        gap = problem.value(solution.point) - lower_bound(problem, dual)
        assert -1e-14 <= gap <= problem.alpha * accuracy**2 + 1e-14


@pytest.mark.search
@settings(max_examples=200, deadline=None)
@given(
    loss=st.sampled_from(list(LOSSES)),
    domain=st.sampled_from(list(DOMAINS)),
    seed=st.integers(0, 10**6),
    log_alpha=st.floats(-3, 1),
    closeness=st.floats(-10, 0),
    centered=st.booleans(),
)
def test_gap_certificate_is_never_below_the_true_distance(
    loss, domain, seed, log_alpha, closeness, centered
):
    """Dual vectors at every distance from the optimal one, feasible or not."""
    rng = np.random.default_rng(seed)
    center = rng.standard_normal(4) if centered else None
    problem = problem_of(
        loss, n=20, alpha=10**log_alpha, domain=DOMAINS[domain](4), seed=seed, center=center
    )
    start = problem.domain.project(np.zeros(4))
    point, dual = AugmentedLagrangian().minimise(problem, 1e-7, start, rng)
    exact = certify_dual(problem, dual, point)
    other_dual = dual + 10**closeness * rng.standard_normal(20)
    nearby = point + 10.0 ** rng.uniform(-8, 0) * rng.standard_normal(4)
    for other in (
        certify_dual(problem, other_dual),
        certify_dual(problem, dual, nearby),
        certify_dual(problem, other_dual, nearby),
    ):
        distance = float(np.linalg.norm(other.point - exact.point))
        assert distance <= other.certificate.distance + exact.certificate.distance
    np.testing.assert_allclose(problem.domain.project(other.point), other.point, atol=1e-15)


def test_gap_certificate_is_attained_up_to_a_factor():
    """One record: the distance is at most the certificate and at least 0.4 of it."""
    rows = Records(np.array([[1.0]]), 1.0)
    problem = FiniteSumProblem(rows.with_targets(np.array([1.0])), HingeLoss(), 10.0, WholeSpace())
    # the solution is w = 1/10 with slope -1; a slope -1 + t gives w = (1 - t) / 10
    for t in (1.0, 1e-2, 1e-4):
        solution = certify_dual(problem, np.array([-1.0 + t]))
        distance = abs(float(solution.point[0]) - 0.1)
        assert distance <= solution.certificate.distance
        assert distance == pytest.approx(t / 10)


@pytest.mark.search
def test_the_bare_gap_without_the_second_half_is_what_the_proof_improves():
    """``||w - w*||^2 <= gap / mu``: half of the textbook ``2 gap / mu``, and still true."""
    worst = 0.0
    for seed, alpha in itertools.product(range(30), (0.01, 0.1, 1.0)):
        problem = problem_of("hinge", n=3, d=1, alpha=alpha, seed=seed)
        rng = np.random.default_rng(seed)
        _, dual = AugmentedLagrangian().minimise(problem, 1e-9, np.zeros(2), rng)
        exact = certify_dual(problem, dual)
        _, low, high = problem.loss.pieces(problem.records.targets)
        for _ in range(30):
            other = certify_dual(problem, rng.uniform(low, high))
            if other.certificate.distance > 1e-6:
                distance = np.linalg.norm(other.point - exact.point)
                worst = max(worst, distance / other.certificate.distance)
    assert 0.5 < worst <= 1.0


@pytest.mark.parametrize("solver", [Subgradient(), StochasticSubgradient(batch_size=5)])
@pytest.mark.parametrize("loss", list(LOSSES))
@pytest.mark.parametrize("domain", list(DOMAINS))
def test_subgradient_methods_certify_coarse_accuracies_alone(solver, loss, domain):
    problem = problem_of(loss, alpha=0.5, domain=DOMAINS[domain](4))
    start = problem.domain.project(np.zeros(4))
    _, dual = solver.minimise(problem, 0.05, start, np.random.default_rng(0))
    assert certify_dual(problem, dual).certificate.distance <= 0.05


def test_subgradient_gap_falls_like_one_over_t():
    """Theorem in the docstring of Subgradient: gap <= (27/8) 2 (2 L)^2 / (mu (T + 2))."""
    problem = problem_of("hinge", alpha=0.1, n=200)
    curvature = (2 * problem.constants.lipschitz) ** 2 / problem.alpha
    for steps in (10, 100, 1000):
        solver = Subgradient(max_iterations=steps)
        best = np.inf
        for t in (steps // 2, steps):
            solver.max_iterations = t
            _, dual = solver.minimise(problem, 0.0, np.zeros(4), np.random.default_rng(0))
            gap = problem.alpha * certify_dual(problem, dual).certificate.distance ** 2
            best = min(best, gap)
        assert best <= 27 / 4 * curvature / (steps + 2)


def test_subgradient_iterates_are_those_of_the_listing():
    """In the whole space: x <- x - 2 / (mu (t + 1)) g with g of the whole objective (E4)."""
    problem = problem_of("hinge", alpha=0.3)
    point, _ = Subgradient(max_iterations=25).minimise(
        problem, 0.0, np.zeros(4), np.random.default_rng(0)
    )
    x = np.zeros(4)
    for t in range(1, 26):
        x = x - 2.0 / (problem.alpha * (t + 1)) * problem.gradient(x)
    np.testing.assert_allclose(point, x, atol=1e-12)


@pytest.mark.parametrize("name", ["auto", "subgradient", "stochastic_subgradient"])
@pytest.mark.parametrize("loss", list(LOSSES))
def test_the_gate_finishes_non_smooth_problems(name, loss):
    problem = problem_of(loss, domain=Ball(3.0))
    solver = resolve_solver(name)
    for limit, small in (("max_passes", 5.0), ("max_iterations", 5)):
        if hasattr(solver, limit):
            setattr(solver, limit, small)
    assert solver.solve(problem, 1e-6).certificate.distance <= 1e-6


def test_what_a_foreign_solver_may_return():
    problem = problem_of("hinge")
    reference = solve_certified(problem, 1e-7, AugmentedLagrangian()).point
    answers = {
        "point": lambda p, a: reference,
        "pair": lambda p, a: AugmentedLagrangian().minimise(p, a, np.zeros(4), None),
        "dual of another length": lambda p, a: (reference, np.zeros(3)),
        "dual with nan": lambda p, a: (reference, np.full(60, np.nan)),
        "garbage": lambda p, a: np.full(4, 1e200),
        "raises": lambda p, a: 1 / 0,
    }
    for name, answer in answers.items():
        solution = solve_certified(problem, 1e-6, resolve_solver(answer))
        assert solution.certificate.distance <= 1e-6, name
        assert np.linalg.norm(solution.point - reference) <= 1.1e-6, name


@pytest.mark.mostly("slow", 1)
@pytest.mark.parametrize("loss", list(LOSSES))
def test_constants_of_the_losses(loss):
    """Slopes, values and the solution's radius, for random data."""
    phi = LOSSES[loss]
    rng = np.random.default_rng(0)
    targets = rng.integers(0, 2, 50).astype(float) if loss == "hinge" else rng.uniform(-1, 1, 50)
    margins = 3 * rng.standard_normal(50)
    expected = (
        np.maximum(0, 1 - (2 * targets - 1) * margins)
        if loss == "hinge"
        else np.abs(margins - targets)
    )
    np.testing.assert_allclose(phi.value(margins, targets), expected, atol=1e-15)
    step = 1e-7
    numeric = (phi.value(margins + step, targets) - phi.value(margins - step, targets)) / (2 * step)
    np.testing.assert_allclose(phi.derivative(margins, targets), numeric, atol=1e-6)
    assert np.abs(phi.derivative(margins, targets)).max() <= phi.lipschitz(1.0, 1.0)
    with pytest.raises(NotImplementedError):
        phi.second_derivative(margins, targets)
    for seed, alpha in itertools.product(range(20), (1e-2, 1.0, 10.0)):
        problem = problem_of(loss, n=5, alpha=alpha, seed=seed)
        solution = solve_certified(problem, 1e-6, AugmentedLagrangian())
        radius = phi.solution_radius(problem.records.norm_bound, alpha)
        assert np.linalg.norm(solution.point) <= radius + 1e-6


@pytest.mark.parametrize("loss", list(LOSSES))
def test_envelopes(loss):
    """Below the loss by at most h/2 (slopes in [-1, 1]); derivative of the value; curvature."""
    phi = LOSSES[loss]
    rng = np.random.default_rng(1)
    targets = rng.integers(0, 2, 300).astype(float) if loss == "hinge" else rng.uniform(-1, 1, 300)
    margins = 2 * rng.standard_normal(300)
    _, low, high = phi.pieces(targets)
    for width in (1e-3, 0.1, 1.0):
        smooth, rows = phi.envelope(targets, width, rng.uniform(low, high))
        below = phi.value(margins, targets) - smooth.value(margins, rows)
        assert (below >= -1e-15).all()
        assert (below <= 0.5 * width * (high - low) ** 2 + 1e-15).all()
        step = 1e-7
        numeric = (smooth.value(margins + step, rows) - smooth.value(margins - step, rows)) / (
            2 * step
        )
        np.testing.assert_allclose(smooth.derivative(margins, rows), numeric, atol=1e-3)
        change = np.abs(smooth.derivative(margins + step, rows) - smooth.derivative(margins, rows))
        assert (change <= smooth.curvature * step * (1 + 1e-6)).all()


@pytest.mark.mostly("slow", 1)
@pytest.mark.parametrize("case", ["one class", "duplicates", "zero rows", "float32", "one record"])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize("loss", list(LOSSES))
def test_degenerate_records(loss, sparse, case):
    rng = np.random.default_rng(0)
    n = 1 if case == "one record" else 30
    X, targets = rng.standard_normal((n, 3)), rng.integers(0, 2, n).astype(float)
    if case == "one class":
        targets[:] = 1.0
    elif case == "duplicates":
        X[:], targets[:] = X[0], targets[0]
    elif case == "zero rows":
        X[:] = 0.0
    elif case == "float32":
        X = X.astype(np.float32)
    rows = Records(sp.csr_matrix(X) if sparse else X, 1.0, 0.1)
    for domain in (WholeSpace(), Ball(0.05), Ball(100.0)):
        problem = FiniteSumProblem(rows.with_targets(targets), LOSSES[loss], 0.1, domain)
        accuracy = 1e-3 * min(2.0 / (0.1 * n), domain.circumradius)
        points = []
        for name in ("augmented_lagrangian", "subgradient", "stochastic_subgradient"):
            solver = resolve_solver(name)
            for limit, small in (("max_passes", 20.0), ("max_iterations", 20)):
                if hasattr(solver, limit):
                    setattr(solver, limit, small)
            solution = solver.solve(problem, accuracy, rng=np.random.default_rng(0))
            assert solution.certificate.distance <= accuracy
            points.append(solution.point)
        assert max(np.linalg.norm(p - points[0]) for p in points) <= 2 * accuracy

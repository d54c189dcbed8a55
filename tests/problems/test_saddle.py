"""Saddle problems: constants, and searches for neighbours that move the solution too far."""

import dataclasses
import math

import numpy as np
import pytest

from skdp.problems import Ball, BilinearProblem, Box, Simplex, WholeSpace
from skdp.solvers import certifiable_saddle_accuracy, solve_certified


def bilinear(n=4, dx=3, dy=2, mu=(0.5, 2.0), domains=None, seed=0, bounds=(1.0, 1.0, 1.0)):
    rng = np.random.default_rng(seed)
    domains = domains or (Ball(1.0), Simplex(dy))
    parts = [rng.normal(size=shape) for shape in ((n, dx, dy), (n, dx), (n, dy))]
    return BilinearProblem(*parts, bounds, *domains, *mu)


def with_record(problem, record, i=0):
    """The problem with record i replaced."""
    parts = [problem.matrices.copy(), problem.offsets_x.copy(), problem.offsets_y.copy()]
    for part, new in zip(parts, record, strict=True):
        part[i] = new
    c = problem.constants
    largest = c.coupling
    bound_x = c.x.lipschitz - (largest * c.y.radius if largest else 0.0)
    bound_y = c.y.lipschitz - (largest * c.x.radius if largest else 0.0)
    return BilinearProblem(
        *parts, (largest, bound_x, bound_y), problem.domain_x, problem.domain_y,
        c.x.modulus, c.y.modulus, problem.center_x, problem.center_y,
    )  # fmt: skip


def solution(problem):
    accuracy = max(1e-7 * problem.constants.sensitivity,
                   certifiable_saddle_accuracy(problem.constants))  # fmt: skip
    return solve_certified(problem, accuracy)


def moved(first, second):
    """Movement between two problems over its bounds: in the norm M, in x and in y."""
    c = first.constants
    one, other = solution(first), solution(second)
    dx, dy = np.linalg.norm(one.x - other.x), np.linalg.norm(one.y - other.y)
    slack = one.distance + other.distance
    bounds = (
        c.sensitivity + slack,
        c.sensitivity_x + slack / math.sqrt(c.x.modulus),
        c.sensitivity_y + slack / math.sqrt(c.y.modulus),
    )
    return np.array([c.norm(dx, dy), dx, dy]) / bounds


@pytest.mark.parametrize("mu", [(0.5, 2.0), (1e-3, 10.0), (100.0, 0.1)])
def test_linear_records_attain_the_joint_bound(mu):
    problem = bilinear(1, 1, 1, mu=mu, domains=(WholeSpace(), WholeSpace()), bounds=(0.0, 0.7, 0.3))
    ends = [with_record(problem, ([[0.0]], [sign * 0.7], [sign * 0.3])) for sign in (1, -1)]
    ratios = moved(*ends)
    assert 0.999 < ratios[0] <= 1


@pytest.mark.parametrize(
    ("range_x", "range_y", "mu"),
    [(1.0, 1.0, (0.5, 2.0)), (0.1, 1.0, (1e-2, 1e2)), (1.0, 0.01, (30.0, 0.1)),
     (0.0, 1.0, (0.5, 2.0))],
)  # fmt: skip
def test_bilinear_records_attain_the_bound_of_a_block(range_x, range_y, mu):
    """All records share A = a, and differ in linear parts of norms range / 2."""
    g = range_x / math.sqrt(mu[0]), range_y / math.sqrt(mu[1])
    a = math.sqrt(mu[0] * mu[1]) * math.tan(0.5 * math.atan2(g[1], g[0]))
    domains = Ball(100.0 * (1 + range_x + range_y) / mu[0]), Ball(100.0 * (2 + a) / min(mu))
    problem = bilinear(3, 1, 1, mu=mu, domains=domains, bounds=(a, range_x / 2, range_y / 2))
    records = [([[a]], [sign * range_x / 2], [-sign * range_y / 2]) for sign in (1, -1)]
    for i in range(3):
        problem = with_record(problem, records[0], i)
    ends = [with_record(problem, record) for record in records]
    for end in ends:
        end.constants = dataclasses.replace(end.constants, gradient_ranges=((range_x, range_y),))
    assert 0.99 < moved(*ends)[1] <= 1


DOMAINS = {
    "ball": (lambda d: Ball(0.3)),
    "simplex": Simplex,
    "box": (lambda d: Box(np.full(d, -0.1), np.full(d, 0.4))),
}


@pytest.mark.parametrize(
    "kinds", [("ball", "simplex"), ("box", "box"), ("simplex", "ball")], ids="-".join
)
def test_random_neighbours_stay_below_the_bounds(kinds):
    """Boundaries are active in most of them; n = 1 to 4, moduli over four orders."""
    rng = np.random.default_rng(5)
    worst = np.zeros(3)
    for seed in range(25):
        n, dx, dy = rng.integers(1, 5), rng.integers(1, 4), rng.integers(2, 4)
        domains = DOMAINS[kinds[0]](dx), DOMAINS[kinds[1]](dy)
        mu = 10.0 ** rng.uniform(-2, 2, size=2)
        first = bilinear(n, dx, dy, mu, domains, seed, bounds=tuple(rng.uniform(0, 1.5, size=3)))
        flip = rng.choice([-1.0, 0.0, 1.0])
        record = (
            flip * first.matrices[0] + rng.normal(size=(dx, dy)) * (flip == 0),
            -first.offsets_x[0],
            -first.offsets_y[0],
        )
        worst = np.maximum(worst, moved(first, with_record(first, record)))
    assert (worst <= 1).all()


def test_operator_rounding_covers_double_precision():
    problem = bilinear(1000, seed=4)
    rng = np.random.default_rng(0)
    exact = [part.astype(np.longdouble).mean(axis=0)
             for part in (problem.matrices, problem.offsets_x, problem.offsets_y)]  # fmt: skip
    for _ in range(20):
        x, y = problem.project(rng.normal(size=3), rng.normal(size=2))
        slopes = problem.operator(x, y)
        true_x = exact[0] @ y.astype(np.longdouble) + exact[1] + np.longdouble(0.5) * x
        true_y = exact[2] - x.astype(np.longdouble) @ exact[0] + np.longdouble(2.0) * y
        errors = np.linalg.norm(slopes[0] - true_x), np.linalg.norm(slopes[1] - true_y)
        assert (np.array(errors, dtype=float) <= problem.operator_rounding(x, y)).all()


def test_records_are_bounded_one_by_one():
    big = np.full((3, 1, 2), 1e200)
    big[1, 0, 0] = np.nan
    offsets = np.array([[5.0], [1.0], [np.inf]])
    problem = BilinearProblem(
        big, offsets, np.ones((3, 2)), (2.0, 3.0, 1.0), Ball(1.0), Ball(1.0), 1.0, 1.0
    )
    np.testing.assert_allclose(problem.matrices[0], [[math.sqrt(2), math.sqrt(2)]])
    assert not problem.matrices[1:].any() and not problem.offsets_y[1:].any()
    assert problem.offsets_x[0] == 3.0 and problem.offsets_x[2] == 0.0
    assert problem.constants.x.lipschitz == 5.0
    with pytest.raises(ValueError, match="bounded domains"):
        bilinear(domains=(WholeSpace(), Ball(1.0)))
    with pytest.raises(ValueError, match="offsets"):
        BilinearProblem(
            big, np.ones((2, 1)), np.ones((3, 2)), (1, 1, 1), Ball(1.0), Ball(1.0), 1, 1
        )


@pytest.mark.filterwarnings("error")
def test_records_are_bounded_in_any_memory_layout():
    rng = np.random.default_rng(0)
    A, b, c = rng.normal(size=(6, 2, 3)) * 1e3, rng.normal(size=(6, 2)), rng.normal(size=(6, 3))
    A[0, 0, 0] = 1.7e308
    turned = np.ascontiguousarray(A.transpose(2, 1, 0)).transpose(2, 1, 0)
    layouts = A, np.asfortranarray(A), turned, np.repeat(A, 2, axis=0)[::2], A.tolist()
    expected, *others = (
        BilinearProblem(each, b, c, (1.0, 1.0, 1.0), Ball(1.0), Ball(1.0), 1.0, 1.0).matrices
        for each in layouts
    )
    norms = np.linalg.norm(expected.reshape(6, -1), axis=1)
    assert (norms <= 1.0 + 1e-12).all() and (norms > 0.99).all()
    for matrices in others:
        np.testing.assert_allclose(matrices, expected)


def test_prox_is_that_of_both_blocks():
    """The nearest feasible point to a mean of point and center: as Problem.prox minimises."""
    domains, rng = (Box(np.full(3, -0.5), np.ones(3)), Ball(1.0)), np.random.default_rng(0)
    problem = bilinear(domains=domains)
    problem.center_x, problem.center_y = centers = rng.normal(size=3), rng.normal(size=2)
    points, steps = (rng.normal(size=3), 0.3 * rng.normal(size=2)), (0.7, 0.1)
    x, y = problem.prox(*points, *steps)
    means = (points[0] + 0.35 * centers[0]) / 1.35, (points[1] + 0.2 * centers[1]) / 1.2
    np.testing.assert_allclose(x, domains[0].project(means[0]), rtol=1e-12)
    np.testing.assert_allclose(y, domains[1].project(means[1]), rtol=1e-12)

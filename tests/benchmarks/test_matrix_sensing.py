"""The instance of matrix sensing is that of the paper, and its derivatives are right.

Xu et al. (2026), section of experiments; what the paper leaves out: benchmarks/README.md.
"""

import importlib
import math
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import brentq, least_squares

pytest.importorskip("matplotlib")
pytest.importorskip("pandas")

ROOT = Path(__file__).parents[2]
#: Norm of the targets, and (Phi, norm of its gradient, least eigenvalue of its Hessian) at x_0 and
#: after 400 steps of gradient descent; the least eigenvalue at 0.
FIXTURES = [
    (None, (1.98362, 0.036910, -0.078075), (0.26998, 0.08395, -0.03054), -0.078521),
    (20.0, (0.527304, 0.019016, -0.040039), (0.29533, 0.07716, -0.03079), -0.040482),
]


@pytest.fixture
def case(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("benchmarks.cases.matrix_sensing")


def numbers(made, x):
    return tuple(made.diagnostics(x).values())


@pytest.mark.parametrize("norm, start, descended, saddle", FIXTURES)
def test_instance_has_known_numbers(case, norm, start, descended, saddle):
    made = case.instance(0, norm)
    assert_allclose(numbers(made, made.start), start, rtol=0, atol=1e-6 * max(1.0, start[0]) + 5e-6)
    assert_allclose(numbers(made, case.descended(made)), descended, rtol=0, atol=1e-5)
    zero = 0.0 * made.start
    mean = np.tensordot(made.b, made.A, 1) / len(made.b)
    assert made.diagnostics(zero)["gradient"] == 0.0  # a strict saddle
    assert made.diagnostics(zero)["curvature"] == pytest.approx(-np.linalg.norm(mean, 2), rel=1e-9)
    assert made.diagnostics(zero)["curvature"] == pytest.approx(saddle, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("norm", [None, 20.0])
def test_the_minimum_is_the_noise_of_the_measurements(case, norm):
    made = case.instance(0, norm)
    found = least_squares(made.residuals, case.descended(made), made.jacobian, xtol=1e-12).x
    phi, gradient, curvature = numbers(made, found)
    assert phi == pytest.approx(3.769e-5, abs=1e-8)
    assert gradient < 1e-6 and curvature > -1e-6


def test_noise_of_the_paper_is_that_of_advanced_composition(case):
    """4080 releases of blocks, half of delta for each of the two uses; the classical Gaussian."""
    number, epsilon, delta = 4080, 2.0, 1e-6
    own = 0.5 * delta / number

    def total(part):
        root = part * math.sqrt(2.0 * number * math.log(2.0 / delta))
        return root + number * part * math.expm1(part) - epsilon

    part = brentq(total, 1e-6, 1.0)
    assert part == pytest.approx(5.458e-3, rel=1e-3) and own == pytest.approx(1.2255e-10, rel=1e-4)
    noise = math.sqrt(2.0 * math.log(1.25 / own)) / part
    assert noise == pytest.approx(case.PAPER_MULTIPLIER, rel=1e-4)


def test_gradients_and_hessian_are_derivatives_and_have_the_stated_form(case):
    made = case.instance(1, 20.0, n=40, p=5)
    rng = np.random.default_rng(0)
    x, v, h = rng.normal(size=made.start.size), rng.normal(size=made.start.size), 1e-5
    slope = (made.value(x + h * v) - made.value(x - h * v)) / (2.0 * h)
    assert slope == pytest.approx(made.gradient(x) @ v, rel=1e-7)
    product = made.hessian(x) @ v
    numeric = (made.gradient(x + h * v) - made.gradient(x - h * v)) / (2.0 * h)
    assert_allclose(product, numeric, atol=1e-6 * np.abs(product).max())
    # the product with (P, Q), by its formula
    (U, V), (P, Q), n = made.factors(x), made.factors(v), len(made.b)
    r = made.residuals(x)
    s = np.einsum("iab,ab->i", made.A, P @ V.T + U @ Q.T)
    first = np.einsum("i,iab,bk->ak", s, made.A, V) + np.einsum("i,iab,bk->ak", r, made.A, Q)
    second = np.einsum("i,iba,bk->ak", s, made.A, U) + np.einsum("i,iba,bk->ak", r, made.A, P)
    assert_allclose(product, np.concatenate([first.ravel(), second.ravel()]) / n, atol=1e-12)


def test_problems_of_the_algorithms_have_the_gradient_of_the_instance(case):
    made = case.instance(2, 20.0, n=40, p=5)
    x, n = np.random.default_rng(1).normal(size=made.start.size), len(made.b)
    value = case.value_problem(made)
    found = value.clipped_sum("joint", (x, np.zeros(0)), None, 1e9, None) / n
    assert_allclose(found, made.gradient(x), atol=1e-12)
    shared, y = case.SharedDual(made), made.residuals(x)
    sums = shared.clipped_sum("joint", (x, y), None, 1e9, None) / n
    assert_allclose(sums[: x.size], made.gradient(x), atol=1e-12)  # y solves the inner problem
    public = shared.public_gradient((x, y))
    assert_allclose(sums[x.size :] + public[1], 0.0, atol=1e-12)
    assert not public[0].any()
    # clipped, in a batch, and changes: as from the matrix of gradients
    anchor, batch = (0.5 * x, y[::-1].copy()), np.array([1, 4, 5, 39])

    def rows(point):
        own = np.zeros((n, n))
        np.fill_diagonal(own, made.residuals(point[0]))
        return np.hstack([point[1][:, None] * made.jacobian(point[0]), own])[batch]

    for before, vectors in ((None, rows((x, y))), (anchor, rows((x, y)) - rows(anchor))):
        found = shared.clipped_sum("joint", (x, y), before, 0.3, batch)
        expected = vectors * np.minimum(1.0, 0.3 / np.linalg.norm(vectors, axis=1))[:, None]
        assert_allclose(found, expected.sum(axis=0), atol=1e-12)

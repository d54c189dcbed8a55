"""Losses: derivatives against finite differences, constants against closed cases."""

import math

import numpy as np
import pytest
from scipy.special import expit

from skdp.problems import HalfSquaredLoss, LogisticLoss, SoftmaxLoss
from skdp.problems.losses import sum_zero_basis

CASES = [
    (LogisticLoss(), [0.0, 1.0]),
    (HalfSquaredLoss(2.0), [-2.0, 0.3]),
    (SoftmaxLoss(2), [0, 1]),
    (SoftmaxLoss(4), [0, 3]),
]


@pytest.mark.parametrize(("loss", "targets"), CASES)
def test_derivatives(loss, targets):
    rng = np.random.default_rng(0)
    targets = np.array(targets * 10)
    k = loss.n_outputs
    margins = rng.standard_normal((20, k)) * 3 if k > 1 else rng.standard_normal(20) * 3
    flat = margins.reshape(20, k)
    derivative = loss.derivative(margins, targets).reshape(20, k)
    second = loss.second_derivative(margins, targets).reshape(20, k, k)
    for a in range(k):
        step = np.zeros(k)
        step[a] = 1e-6
        up, down = ((flat + s * step).reshape(margins.shape) for s in (1, -1))
        numeric = (loss.value(up, targets) - loss.value(down, targets)) / 2e-6
        np.testing.assert_allclose(numeric, derivative[:, a], atol=1e-8)
        numeric = (loss.derivative(up, targets) - loss.derivative(down, targets)) / 2e-6
        np.testing.assert_allclose(numeric.reshape(20, k), second[:, a], atol=1e-8)
    assert np.linalg.eigvalsh(second).max() <= loss.curvature + 1e-12
    assert np.trace(second, axis1=1, axis2=2).max() <= loss.curvature_trace + 1e-12


@pytest.mark.parametrize(("loss", "targets"), CASES[:1] + CASES[2:])
def test_log_losses_do_not_overflow(loss, targets):
    k = loss.n_outputs
    margins = np.array([[800.0] * k, [-800.0] * k])
    margins = margins[:, 0] if k == 1 else margins
    targets = np.array(targets)
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        assert np.isfinite(loss.value(margins, targets)).all()
        assert np.isfinite(loss.derivative(margins, targets)).all()
        assert np.isfinite(loss.second_derivative(margins, targets)).all()


def test_softmax_of_two_classes_is_logistic():
    """K = 2: one margin v with logits v (1, -1) / sqrt(2), hence logistic in sqrt(2) v."""
    rng = np.random.default_rng(1)
    v, t = rng.standard_normal(30), rng.integers(0, 2, 30)
    np.testing.assert_allclose(
        SoftmaxLoss(2).value(v, t), LogisticLoss().value(-math.sqrt(2) * v, t.astype(float))
    )


@pytest.mark.parametrize("k", [2, 3, 10])
def test_sum_zero_basis(k):
    basis = sum_zero_basis(k)
    np.testing.assert_allclose(basis.T @ basis, np.eye(k - 1), atol=1e-14)
    np.testing.assert_allclose(basis.sum(axis=0), 0, atol=1e-14)


@pytest.mark.parametrize(("k", "ratio"), [(1, 1.0991), (2, 1.2698), (5, 1.6173), (10, 1.8208)])
def test_logistic_diameter_reference(k, ratio):
    """G / R of the specification: 1.10, 1.27, 1.62, 1.82 (review Z-7 to four digits)."""
    assert LogisticLoss().gradient_diameter(1.0, k) == pytest.approx(ratio, abs=5e-5)
    assert LogisticLoss().gradient_diameter(1.0, math.inf) == 2.0


def test_diameter_maximisers():
    """The roots are maximisers: no finer grid beats them by more than their inflation."""
    c = np.linspace(0, 1, 200_001)
    for k in (1e-3, 0.5, 3.0, 50.0):
        grid = (2 * expit(k * c) * np.sqrt(1 - c**2)).max()
        assert grid <= LogisticLoss().gradient_diameter(1.0, k) <= grid * (1 + 1e-8)
        grid = (2 * (c * k + 0.7) * np.sqrt(1 - c**2)).max()
        assert grid <= HalfSquaredLoss(0.7).gradient_diameter(1.0, k) <= grid * (1 + 1e-8)


def test_radius_reference():
    """R_auto = 5.27697 at X = 1, lambda = 0.01 (section 9)."""
    assert LogisticLoss().solution_radius(1.0, 0.01) == pytest.approx(5.27697, abs=5e-6)
    assert LogisticLoss().solution_radius(1.0, 100.0) == pytest.approx(0.005)


@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_softmax_constants_at_the_ends(n_classes):
    loss = SoftmaxLoss(n_classes)
    assert loss.lipschitz(1.0, 1e-9) == pytest.approx(math.sqrt(1 - 1 / n_classes), rel=1e-6)
    assert loss.lipschitz(1.0, 1e3) == pytest.approx(math.sqrt(2))

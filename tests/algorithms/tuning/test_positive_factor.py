"""Factorisations that succeed for every finite matrix."""

import numpy as np
import pytest

from skdp.algorithms.tuning.positive_factor import PositiveFactor


@pytest.mark.parametrize("unit", [1e-140, 1.0, 1e140])
def test_positive_definite_matrices_are_solved(unit):
    rng = np.random.default_rng(0)
    half = rng.normal(size=(6, 6)) * np.geomspace(1.0, 1e-3, 6)[:, None]
    matrix, right = unit * (half @ half.T), rng.normal(size=6)
    factor = PositiveFactor(matrix)
    np.testing.assert_allclose(matrix @ factor.solve(right), right, rtol=1e-4)
    np.testing.assert_allclose(factor.inverse() @ matrix, np.eye(6), atol=1e-4)


@pytest.mark.parametrize(
    "matrix",
    [
        np.zeros((4, 4)),
        np.ones((4, 4)),
        -np.eye(4),
        np.ones((4, 4)) - 3.0 * np.eye(4),
        1e300 * np.ones((4, 4)),
        np.diag([1e-320, 1.0, 1e300, 0.0]),
        -np.ones((4, 4)) + 1.5 * np.eye(4),
    ],
    ids=repr,
)
def test_other_matrices_are_no_error(matrix):
    with np.errstate(all="ignore"):
        factor = PositiveFactor(matrix)
        assert np.isfinite(factor.solve(np.full(4, 1e-3))).all()

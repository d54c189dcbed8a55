"""What a problem returns for one record counts no more than is charged for it."""

import math

import numpy as np
import pytest

from skdp.problems.vertices import FunctionProblem, VertexDesign, clipped_entries


def test_derivatives_stay_in_the_declared_interval():
    rows = np.array([[5.0, -5.0], [math.nan, 0.5], [math.inf, -math.inf]])
    for oscillation, low in ((2.0, -1.0), (1.0, 0.0)):
        design = VertexDesign(3, (2,), (1.0,), (oscillation,))
        problem = FunctionProblem(design, lambda points, batch: [rows[batch]])
        for i in range(3):
            (gradient,) = problem.gradients((np.array([0]),), slice(i, i + 1))
            assert (gradient >= low).all() and (gradient <= 1.0).all()
    with pytest.raises(ValueError, match="at most twice the magnitude"):
        VertexDesign(3, (2,), (1.0,), (2.5,))


@pytest.mark.parametrize("bound", [0.1, 0.3, 1.0, 1e-3])
def test_single_precision_does_not_exceed_the_bound(bound):
    X = clipped_entries(np.full((2, 2), 7.0, dtype=np.float32), bound)
    assert X.dtype == np.float32
    assert float(X.max()) <= bound

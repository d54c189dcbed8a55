"""Linear systems of symmetric matrices that are positive definite but for rounding errors.

An error that only some data sets cause would be a release, so matrices that are functions of
released moments are factorised in a way that succeeds for every finite matrix.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from skdp.problems.rounding import EPS

#: Factor from one trial of the shift to the next.
_GROWTH = 16.0


def rounding_floor(size: int) -> float:
    """Smallest eigenvalue that a matrix of this size and of norm about 1 is given: public."""
    return 8.0 * size * EPS


class PositiveFactor:
    """Cholesky factor of a symmetric matrix with a positive diagonal.

    The matrix is scaled to a diagonal of 1, and entries off the diagonal are clipped to [-1, 1],
    which changes no positive semi-definite matrix. If the factorisation fails, the diagonal is
    raised, at first by as much as rounding errors. At a diagonal of more than the size of the
    matrix it cannot fail: the matrix is diagonally dominant.
    """

    def __init__(self, matrix: np.ndarray) -> None:
        size = len(matrix)
        self._roots = np.sqrt(np.maximum(matrix.diagonal(), 1e-300))
        scaled = np.clip(matrix / self._roots / self._roots[:, None], -1.0, 1.0)
        shift = 0.0
        while True:
            scaled[np.diag_indices(size)] = 1.0 + shift
            try:
                self._factor = cho_factor(scaled)
            except LinAlgError:
                shift = max(_GROWTH * shift, rounding_floor(size))
            else:
                return

    def solve(self, right: np.ndarray) -> np.ndarray:
        """Solution for a right-hand side of shape (p,)."""
        return np.asarray(cho_solve(self._factor, right / self._roots) / self._roots)

    def inverse(self) -> np.ndarray:
        """Inverse matrix."""
        return np.asarray(
            cho_solve(self._factor, np.diag(1.0 / self._roots)) / self._roots[:, None]
        )

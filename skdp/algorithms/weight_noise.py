"""How far the noise of a fit moves its weights: post-processing of what was released.

The covariance is that of fits on the same records, to first order in the noise. It says nothing
about the sampling of the records, nor about what early stopping or a penalty leaves unlearnt.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from skdp.problems import Records
from skdp.problems.block import Block

#: Largest number that a square of is finite.
_LARGEST = 1e150


def spectral_norm(matrix: np.ndarray) -> float:
    """Largest singular value, of every matrix: what is released may be no number."""
    matrix = np.clip(np.nan_to_num(matrix), -_LARGEST, _LARGEST)
    size = float(np.abs(matrix).max(initial=0.0))
    if not size:
        return 0.0
    matrix = matrix / size
    gram = matrix @ matrix.T if matrix.shape[0] < matrix.shape[1] else matrix.T @ matrix
    return size * math.sqrt(max(float(np.linalg.eigvalsh(gram)[-1]), 0.0))


@dataclass(frozen=True)
class MarginNoise:
    """Standard deviations of the noise, of one number each."""

    #: Root mean square over the coefficients.
    coef: float
    #: In the margin of an average row.
    average_row: float
    #: In the margin of a row of the same length in the direction where noise is largest.
    rare_row: float

    def to_dict(self) -> dict[str, float]:
        """Return it as plain Python types."""
        return dict(vars(self))


@dataclass(frozen=True)
class PlannedNoise:
    """The noise that public numbers let expect, on isotropic rows of the largest norm."""

    margins: MarginNoise
    #: Standard deviation of the margin of an average row over samples of the population, for a fit
    #: without noise.
    sampling: float


@dataclass(frozen=True, kw_only=True)
class WeightNoise:
    """Covariance of released weights of rows ``(x, 1)``.

    Score s of row x has the variance
    ``sum_k mix[s, k]^2 (sum_q variances[k, q] (directions[q] . (x, 1))^2
    + sum_j plain[k, j] (x_j - c_j)^2) + sum_q (mixed[q, s] . (x, 1))^2``.
    """

    #: Shape (n_directions, n_features + 1).
    directions: np.ndarray
    #: Shape (n_outputs, n_directions).
    variances: np.ndarray
    #: Shape (n_outputs, n_features). Variances of coefficients that do not depend on each other.
    plain: np.ndarray
    #: Shape (n_features,). c, the row where that part vanishes.
    center: np.ndarray
    #: Shape (n_scores, n_outputs). From independent outputs to scores of the decision function.
    mix: np.ndarray
    #: Shape (n_mixed, n_scores, n_features + 1). Few directions in which outputs depend on each
    #: other.
    mixed: np.ndarray
    #: Of average and rare rows, in the mean over scores.
    margins: MarginNoise

    @classmethod
    def independent(
        cls, squares: np.ndarray, intercept: float, norm: float, mix: np.ndarray
    ) -> WeightNoise:
        """Make it from variances of independent weights of ``(x, intercept)``, a row per output.

        `norm` is that of average and rare rows with their last feature.
        """
        d = squares.shape[1] - 1
        of_coef, of_last = np.split(mix**2 @ squares, [d], axis=1)
        lengths = norm**2 - intercept**2, intercept**2
        average, rare = (
            float(np.sqrt((part * lengths[0] + of_last[:, 0] * lengths[1]).mean()))
            for part in (of_coef.mean(axis=1), of_coef.max(axis=1))
        )
        size = float(np.sqrt(of_coef.mean()))
        return cls(
            directions=np.eye(1, d + 1, d) * intercept,
            variances=squares[:, d:],
            plain=squares[:, :d],
            center=np.zeros(d),
            mix=mix,
            mixed=np.zeros((0, len(mix), d + 1)),
            margins=MarginNoise(coef=size, average_row=average, rare_row=rare),
        )

    def coef(self, along: np.ndarray | None = None) -> np.ndarray:
        """Standard deviations of the coefficients, shape (n_scores, n_features).

        Or of sums of coefficients times the rows of `along`, of shape (n_sums, n_features).
        """
        parts, plain, mixed = self.directions[:, :-1], self.plain, self.mixed[:, :, :-1]
        if along is not None:
            parts, mixed = parts @ along.T, mixed @ along.T
            plain = plain @ (along**2).T
        squares = self.mix**2 @ (self.variances @ parts**2 + plain) + (mixed**2).sum(axis=0)
        return np.asarray(np.sqrt(squares))

    def intercept(self) -> np.ndarray:
        """Standard deviations of the scores of the row 0, shape (n_scores,)."""
        squares = self.variances @ self.directions[:, -1] ** 2
        squares += self.plain @ self.center**2
        squares = self.mix**2 @ squares + (self.mixed[:, :, -1] ** 2).sum(axis=0)
        return np.asarray(np.sqrt(squares))

    def scores(self, rows: Records, slopes: np.ndarray | None = None) -> np.ndarray:
        """Standard deviations of scores, or to first order of functions: (n_rows, n_functions).

        Rows have no intercept feature; `slopes`, of shape (n_rows, n_functions, n_scores), are the
        derivatives of the functions.
        """
        n_scores = len(self.mix)
        squares, start = [np.zeros((0, n_scores if slopes is None else slopes.shape[1]))], 0
        for block in rows.blocks():
            end = start + block.matrix.shape[0]
            of_block = np.eye(n_scores)[None] if slopes is None else slopes[start:end]
            squares.append(self._squares(block, of_block))
            start = end
        return np.asarray(np.sqrt(np.concatenate(squares)))

    def _squares(self, block: Block, slopes: np.ndarray) -> np.ndarray:
        """Variances of functions of the scores, shape (n_rows, n_functions)."""
        own = self._along(block, self.directions) ** 2 @ self.variances.T
        if self.plain.any():
            rows, moved = block.rows(), self.plain * self.center
            squares = (rows.multiply(rows) if sp.issparse(rows) else rows**2) @ self.plain.T
            squares += self._along(block, np.column_stack([-2.0 * moved, moved @ self.center]))
            own += np.maximum(squares, 0.0)
        slopes = np.broadcast_to(slopes, (len(own), *slopes.shape[1:]))
        squares = np.einsum("ifk,ik->if", (slopes @ self.mix) ** 2, own)
        for of_scores in self.mixed:
            along = self._along(block, of_scores)
            squares += np.einsum("ifs,is->if", slopes, along) ** 2
        return np.asarray(squares)

    @staticmethod
    def _along(block: Block, directions: np.ndarray) -> np.ndarray:
        margins = block.margins(directions[:, :-1])
        margins = margins.reshape(len(margins), len(directions))  # there may be none
        return np.asarray(margins + directions[:, -1])

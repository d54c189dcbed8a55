"""Gradients of clipped squares around a point, from one pass over the records.

The slope of a record is linear in its margin, or constant, until it meets a kink. Records that are
far from theirs have one Hessian for all points nearby; only the others are looked at again. It is
exact, so that a solve sees the same problem. All of it depends on the records and leaves no fit.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from skdp.problems import Loss
from skdp.problems.losses import HalfSquaredLoss
from skdp.problems.records import Records
from skdp.problems.rounding import EPS, chain
from skdp.problems.slope_clipped import SlopeClippedLoss

#: Part of the records that may be looked at again; above it a whole pass is hardly slower.
_LARGEST_PART = 0.125
#: Bound on rounding in units of that of a gradient by a pass over the records: half of what the
#: accuracy of a plan leaves a certificate (docs/theory/preparation.md, section 6).
ROUNDING = 3.0


def can_expand(records: Any, loss: Loss) -> bool:
    """Whether there is an expansion: of squares with clipped slopes, of records in memory."""
    is_squared = type(loss) is SlopeClippedLoss and type(loss.loss) is HalfSquaredLoss
    return is_squared and isinstance(records, Records)


class Expansion:
    """The mean loss of a problem around a point, where :func:`can_expand`.

    Parameters
    ----------
    problem : PreparedProblem
    point : ndarray of shape (dimension,)
    margins_rounding : float
        Bound on the error of a margin.
    row_norm : float
        Bound on the norms of rows before they are shortened, constant included.
    before : Expansion, optional
        Of the same records around another point, whose Hessian is corrected where bends differ.

    Attributes
    ----------
    hessian : ndarray of shape (dimension, dimension)
        At the point, without the regulariser.
    """

    def __init__(
        self,
        problem: Any,
        point: np.ndarray,
        margins_rounding: float,
        row_norm: float,
        before: Expansion | None = None,
    ) -> None:
        self._records, self._loss, self._n = problem.records, problem.loss, problem.n_public
        self._point = point
        self._radii = np.empty(problem.n_records)
        self._bends = np.empty(problem.n_records, dtype=bool)  # 0 or 1: second derivatives
        loss, norms, weights = self._loss, self._records.norms, point[None, :]

        def statistic(block: Any) -> tuple[np.ndarray, ...]:
            targets = block.targets
            margins = block.margins(weights) if point.any() else np.zeros(len(targets))
            bends = loss.second_derivative(margins, targets)
            self._bends[block.positions] = bends
            slack = np.abs(margins + loss.offset - targets[:, 0])
            slack -= targets[:, 1]
            np.abs(slack, out=slack)
            slack -= margins_rounding
            slack /= norms[block.positions]
            self._radii[block.positions] = slack
            sums = block.pull_back(loss.derivative(margins, targets))
            return (sums, block.gram(bends)) if before is None else (sums,)

        gradient, *hessian = self._records.total(statistic)
        self._gradient = gradient.ravel() / self._n
        constants = problem.constants
        additions = chain(constants.most_terms, most_rows=constants.most_rows)
        products = 0.51 * additions + (constants.row_width + 8.0) ** 2
        self._rounding = constants.gradient_rounding
        self._hessian_rounding = 2.0 * EPS * constants.size_ratio * products * row_norm**2
        self.hessian = hessian[0] / self._n if before is None else self._corrected(before)

    def _corrected(self, before: Expansion) -> np.ndarray:
        """Return the Hessian by another one, whose bends differ."""
        known, positions = before.hessian, np.flatnonzero(self._bends != before._bends)
        self._hessian_rounding += before._hessian_rounding
        if not len(positions):
            return known

        def statistic(block: Any) -> np.ndarray:
            bends = self._bends[block.positions].astype(np.float64)
            return np.asarray(block.gram(bends - before._bends[block.positions]))

        return np.asarray(known + self._records.total(statistic, part=positions) / self._n)

    def near(self, w: np.ndarray, rounding: float) -> np.ndarray | None:
        """Return the positions of the records that may have met a kink on the way to `w`.

        None if they are many, or if the error may exceed `rounding` times :data:`ROUNDING`.

        Parameters
        ----------
        w : ndarray of shape (dimension,)
        rounding : float
            Of a gradient at `w` by a pass over the records.
        """
        away = math.sqrt(float(((w - self._point) ** 2).sum())) * (1.0 + 1e-9)
        error = self._rounding + rounding + self._hessian_rounding * away
        if not error <= ROUNDING * rounding:
            return None
        others = np.flatnonzero(self._radii <= away)
        return others if len(others) <= _LARGEST_PART * len(self._radii) else None

    def gradient(self, w: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Return the mean gradient at `w`, without the regulariser.

        Parameters
        ----------
        w : ndarray of shape (dimension,)
        others : ndarray of int
            What :meth:`near` has returned.
        """
        step = w - self._point
        gradient = self._gradient + self.hessian @ step
        if not len(others):
            return gradient
        loss, weights, moved = self._loss, self._point[None, :], step[None, :]

        def statistic(block: Any) -> np.ndarray:
            before, change = block.margins(weights), block.margins(moved)
            change *= self._bends[block.positions]  # those of the Hessian, to the last bit
            after = loss.derivative(block.margins(w[None, :]), block.targets)
            return block.pull_back(after - loss.derivative(before, block.targets) - change)

        return gradient + self._records.total(statistic, part=others).ravel() / self._n

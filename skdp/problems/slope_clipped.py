"""Losses whose slope is clipped record by record, so that every gradient is short.

The gradient of a record is its slope, the derivative of the loss in the margin, times its row. A
slope of at most ``c / |x_i|`` bounds it by c for every row, however long, and rows stay as they
are. Proof: docs/theory/preparation.md, Lemma A.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skdp.problems.losses import HalfSquaredLoss, LogisticLoss, Loss, SquaredHingeLoss
from skdp.problems.piecewise_linear import SmoothedLoss
from skdp.problems.rounding import ROUNDING_SLACK

#: Losses whose slope is clipped where margins are known.
SLOPES = HalfSquaredLoss, LogisticLoss, SquaredHingeLoss, SmoothedLoss


@dataclass(frozen=True)
class SlopeClippedLoss(Loss):
    """``phi(offset + z)`` with the derivative clipped; linear beyond the margins where that acts.

    Targets have shape (m, 2): the target of the record, and its largest slope, which is at most
    `clip` over the norm of the row.

    Parameters
    ----------
    loss : HalfSquaredLoss, LogisticLoss, SquaredHingeLoss or SmoothedLoss
    offset : float
        Public or released.
    clip : float
        c > 0, bound on the norm of a gradient.
    """

    loss: Loss
    offset: float
    clip: float

    def __post_init__(self) -> None:
        if not isinstance(self.loss, SLOPES):
            raise ValueError(f"slopes of {type(self.loss).__name__} are not clipped.")

    def check_targets(self, targets: np.ndarray) -> None:
        if targets.ndim != 2 or targets.shape[1] != 2:
            raise ValueError(f"targets have shape {targets.shape}, must be (n_records, 2).")
        self.loss.check_targets(targets[:, 0])
        if not (targets[:, 1] >= 0.0).all():
            raise ValueError("the largest slopes must be numbers >= 0.")

    def _kinks(self, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the margins between which the slope is not clipped."""
        labels, slopes = targets[:, 0], targets[:, 1]
        if self.loss.is_quadratic:
            return labels - slopes, labels + slopes
        if isinstance(self.loss, SmoothedLoss):
            kinks, least, most = self.loss.base.pieces(labels)
            moved = self.loss.width * slopes
            low = np.where(slopes < -least, kinks - moved, -np.inf)
            return low, np.where(slopes < most, kinks + moved, np.inf)
        if isinstance(self.loss, SquaredHingeLoss):
            kinks = 0.5 * slopes - 1.0
        else:  # of sigmoids
            with np.errstate(divide="ignore"):
                kinks = np.log(slopes) - np.log1p(-np.minimum(slopes, 1.0))
        is_one = labels > 0.5
        return np.where(is_one, -kinks, -np.inf), np.where(is_one, np.inf, kinks)

    def value(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return self.value_and_derivative(margins, targets)[0]

    def value_and_derivative(
        self, margins: np.ndarray, targets: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        labels, slopes = targets[:, 0], targets[:, 1]
        low, high = self._kinks(targets)
        margins = margins + self.offset
        inner = np.minimum(np.maximum(margins, low), high)
        value, derivative = self.loss.value_and_derivative(inner, labels)
        value += slopes * np.abs(margins - inner)
        return value, np.minimum(np.maximum(derivative, -slopes), slopes)

    def derivative(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        slopes = self.loss.derivative(margins + self.offset, targets[:, 0])
        return np.minimum(np.maximum(slopes, -targets[:, 1]), targets[:, 1])

    def second_derivative(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        margins = margins + self.offset
        slopes = self.loss.derivative(margins, targets[:, 0])
        bends = self.loss.second_derivative(margins, targets[:, 0])
        return np.where(np.abs(slopes) <= targets[:, 1], bends, 0.0)

    @property
    def curvature(self) -> float:
        return self.loss.curvature

    def lipschitz(self, feature_norm: float, radius: float) -> float:
        """Return c, whatever the norms are."""
        return self.clip

    def gradient_diameter(self, feature_norm: float, radius: float) -> float:
        """Return 2 c."""
        return 2.0 * self.clip

    def solution_radius(self, feature_norm: float, alpha: float) -> float:
        """Return ``c / alpha``."""
        return self.clip / alpha * ROUNDING_SLACK

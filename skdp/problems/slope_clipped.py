"""Losses whose slope is clipped record by record, so that every gradient is short.

The gradient of a record is its slope, the derivative of the loss in the margin, times its row. A
slope of at most ``c / |x_i|`` bounds it by c for every row, however long, and rows stay as they
are. Proof: docs/theory/preparation.md, Lemma A.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from skdp.problems.losses import HalfSquaredLoss, LogisticLoss, Loss, SquaredHingeLoss
from skdp.problems.multiclass_losses import OneVsRestLoss, SoftmaxLoss
from skdp.problems.piecewise_linear import PiecewiseLinearLoss, SmoothedLoss
from skdp.problems.rounding import ROUNDING_SLACK

#: Losses whose slope is clipped where margins are known.
SLOPES = HalfSquaredLoss, LogisticLoss, SquaredHingeLoss, SmoothedLoss


@dataclass(frozen=True)
class ClippedLoss(Loss):
    """``phi(offset + z)``, whose derivative in the margins is shortened.

    Targets have shape (m, 2): the target of the record, and the largest length of its derivative,
    which is at most `clip` over the norm of the row.

    Parameters
    ----------
    loss : Loss
    offset : float or tuple of float
        Public or released, for each margin.
    clip : float
        c > 0, bound on the norm of a gradient.
    """

    loss: Loss
    offset: float | tuple[float, ...]
    clip: float

    #: Number of columns of the targets.
    _n_columns: ClassVar[int] = 2

    def check_targets(self, targets: np.ndarray) -> None:
        if targets.ndim != 2 or targets.shape[1] != self._n_columns:
            raise ValueError(
                f"targets have shape {targets.shape}, must be (n_records, {self._n_columns})."
            )
        self.loss.check_targets(self._labels(targets))
        if not (targets[:, 1] >= 0.0).all():
            raise ValueError("the largest slopes must be numbers >= 0.")

    def with_factors(self) -> FactoredLoss:
        """Return the loss whose targets have a third column, factors of the losses."""
        return FactoredLoss(self.loss, self.offset, self.clip, own=self)

    def _labels(self, targets: np.ndarray) -> np.ndarray:
        """Return the targets of the records."""
        return targets[:, 0]

    @property
    def n_outputs(self) -> int:
        return self.loss.n_outputs

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


@dataclass(frozen=True)
class SlopeClippedLoss(ClippedLoss):
    """A loss of one margin with a clipped slope; linear beyond the margins where that acts.

    `loss` is a HalfSquaredLoss, LogisticLoss, SquaredHingeLoss or SmoothedLoss, and `offset` one
    number.
    """

    offset: float

    def __post_init__(self) -> None:
        if not isinstance(self.loss, SLOPES):
            raise ValueError(f"slopes of {type(self.loss).__name__} are not clipped.")

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


@dataclass(frozen=True)
class ClippedSoftmaxLoss(ClippedLoss):
    """The log loss of several classes whose gradient is shortened, and which stays convex.

    It is ``softplus(t)``, t the log odds of all other classes against the record's own, a convex
    function of the margins with a gradient of length ``sqrt(2)`` at most. The softplus gets a
    clipped slope s: the derivative is that of the softmax times ``min(1, s / (1 - p))``, p the
    probability of the record's class.
    """

    loss: SoftmaxLoss
    offset: tuple[float, ...]

    def _labels(self, targets: np.ndarray) -> np.ndarray:
        return targets[:, 0].astype(np.intp)

    def _against(self, margins: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return t, the probabilities among the other classes, and the targets of the softplus."""
        labels, logits = self._labels(targets), self.loss.logits(margins + np.array(self.offset))
        own = np.take_along_axis(logits, labels[:, None], axis=1)
        np.put_along_axis(logits, labels[:, None], -np.inf, axis=1)
        largest = logits.max(axis=1, keepdims=True)
        others = np.exp(logits - largest)
        sums = others.sum(axis=1, keepdims=True)
        against = (np.log(sums) + largest - own)[:, 0]
        slopes = targets[:, 1] / (math.sqrt(2.0) * ROUNDING_SLACK)
        return against, others / sums, np.column_stack([np.zeros(len(slopes)), slopes])

    @property
    def _softplus(self) -> SlopeClippedLoss:
        return SlopeClippedLoss(LogisticLoss(), 0.0, self.clip)

    def value(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        against, _, slopes = self._against(margins, targets)
        return self._softplus.value(against, slopes)

    def derivative(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return self.value_and_derivative(margins, targets)[1]

    def value_and_derivative(
        self, margins: np.ndarray, targets: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        against, directions, slopes = self._against(margins, targets)
        value, derivative = self._softplus.value_and_derivative(against, slopes)
        np.put_along_axis(directions, self._labels(targets)[:, None], -1.0, axis=1)
        return value, (derivative[:, None] * directions) @ self.loss.basis

    def second_derivative(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        against, p, slopes = self._against(margins, targets)
        bends, slope = (
            part(against, slopes)[:, None, None]
            for part in (self._softplus.second_derivative, self._softplus.derivative)
        )
        basis = self.loss.basis
        mean, own = p @ basis, basis[self._labels(targets)]
        out = slope * np.einsum("ik,ka,kb->iab", p, basis, basis, optimize=True)
        out -= slope * (mean[:, :, None] * mean[:, None, :])
        directions = mean - own
        return np.asarray(out + bends * directions[:, :, None] * directions[:, None, :])


@dataclass(frozen=True)
class ClippedOneVsRestLoss(ClippedLoss):
    """One class against the rest, with slopes clipped class by class.

    The record's own class and all others together may each have half of the squared length.
    """

    loss: OneVsRestLoss

    def __post_init__(self) -> None:
        self._each()  # the loss of one class has to be covered

    def _each(self) -> SlopeClippedLoss:
        return SlopeClippedLoss(self.loss.base, 0.0, self.clip)

    def _targets(self, targets: np.ndarray) -> np.ndarray:
        """Return targets of all margins, one after the other, shape (m * K, 2)."""
        n_classes = self.loss.n_classes
        is_own = targets[:, :1] == np.arange(n_classes)
        parts = np.where(is_own, 0.5, 0.5 / (n_classes - 1))
        slopes = np.sqrt(parts) * targets[:, 1:] / ROUNDING_SLACK
        return np.column_stack([is_own.ravel(), slopes.ravel()])

    def _labels(self, targets: np.ndarray) -> np.ndarray:
        return targets[:, 0].astype(np.intp)

    def value(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        values = self._each().value(margins.ravel(), self._targets(targets))
        return values.reshape(margins.shape).sum(axis=1)

    def derivative(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        slopes = self._each().derivative(margins.ravel(), self._targets(targets))
        return slopes.reshape(margins.shape)

    def second_derivative(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        bends = self._each().second_derivative(margins.ravel(), self._targets(targets))
        return np.asarray(bends.reshape(margins.shape)[:, :, None] * np.eye(self.loss.n_classes))


@dataclass(frozen=True)
class FactoredLoss(ClippedLoss):
    """A clipped loss times a factor of each record in [0, 1]: the third column of the targets.

    Bounds are those for the factor 1.
    """

    own: ClippedLoss = field(kw_only=True)
    _n_columns = 3

    def check_targets(self, targets: np.ndarray) -> None:
        super().check_targets(targets)
        factors = targets[:, 2]
        if not ((factors >= 0.0) & (factors <= 1.0)).all():
            raise ValueError("the factors must be numbers from 0 to 1.")

    def _labels(self, targets: np.ndarray) -> np.ndarray:
        return self.own._labels(targets)

    def value(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return targets[:, 2] * self.own.value(margins, targets[:, :2])

    def derivative(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return _times(targets[:, 2], self.own.derivative(margins, targets[:, :2]))

    def value_and_derivative(
        self, margins: np.ndarray, targets: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        factors = targets[:, 2]
        value, derivative = self.own.value_and_derivative(margins, targets[:, :2])
        return factors * value, _times(factors, derivative)

    def second_derivative(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return _times(targets[:, 2], self.own.second_derivative(margins, targets[:, :2]))


def _times(factors: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Multiply the numbers of each record, of any shape, by its factor."""
    return values * factors.reshape(-1, *(1,) * (values.ndim - 1))


def can_be_clipped(loss: Loss) -> bool:
    """Whether there is a clipped form of a loss, or of its smooth envelope."""
    if isinstance(loss, SoftmaxLoss):
        return loss.n_classes > 2
    base = loss.base if isinstance(loss, OneVsRestLoss) else loss
    return isinstance(base, (*SLOPES, PiecewiseLinearLoss))


def clipped(loss: Loss, offsets: np.ndarray, clip: float) -> ClippedLoss:
    """Make the clipped form of a smooth loss that :func:`can_be_clipped`."""
    if isinstance(loss, SoftmaxLoss):
        return ClippedSoftmaxLoss(loss, tuple(offsets.tolist()), clip)
    if isinstance(loss, OneVsRestLoss):
        return ClippedOneVsRestLoss(loss, 0.0, clip)
    return SlopeClippedLoss(loss, float(offsets[0]), clip)

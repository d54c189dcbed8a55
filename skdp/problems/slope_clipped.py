"""Losses whose slope is clipped record by record, so that every gradient is short.

The gradient of a record is its slope, the derivative of the loss in the margin, times its row. A
slope of at most ``c / |x_i|`` bounds it by c for every row, however long, and rows stay as they
are. Proof: docs/theory/core.md, Lemma 8.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import expit, softmax

from skdp.problems.losses import HalfSquaredLoss, LogisticLoss, Loss, SquaredHingeLoss
from skdp.problems.multiclass_losses import OneVsRestLoss, SoftmaxLoss
from skdp.problems.piecewise_linear import PiecewiseLinearLoss, SmoothedLoss
from skdp.problems.rounding import ROUNDING_SLACK

#: Losses whose slope is clipped where margins are known.
SLOPES = HalfSquaredLoss, LogisticLoss, SquaredHingeLoss, SmoothedLoss
#: Largest square of the gradient of mean log odds of several classes that are used.
_LARGEST_SQUARE = 1.4


@dataclass(frozen=True)
class ClippedLoss(Loss):
    """``phi(offset + z)``, whose derivative in the margins is shortened.

    Targets have shape (m, 2): the target of the record, and the largest length of its derivative,
    which is at most `clip` over the norm of the row.
    """

    loss: Loss
    #: Public or released, for each margin.
    offset: float | tuple[float, ...]
    #: c > 0, bound on the norm of a gradient.
    clip: float

    def check_targets(self, targets: np.ndarray) -> None:
        if targets.ndim != 2 or targets.shape[1] != 2:
            raise ValueError(f"targets have shape {targets.shape}, must be (n_records, 2).")
        self.loss.check_targets(self._labels(targets))
        if not (targets[:, 1] >= 0.0).all():
            raise ValueError("the largest slopes must be numbers >= 0.")

    def _labels(self, targets: np.ndarray) -> np.ndarray:
        """Return the targets of the records."""
        labels = targets[:, 0]
        return labels if self.n_outputs == 1 else labels.astype(np.intp)

    def value(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return self.value_and_derivative(margins, targets)[0]

    def derivative(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return self.value_and_derivative(margins, targets)[1]

    n_outputs = property(lambda self: self.loss.n_outputs)
    curvature = property(lambda self: self.loss.curvature)

    def lipschitz(self, feature_norm: float, radius: float) -> float:
        """Return c, whatever the norms are."""
        return self.clip


@dataclass(frozen=True)
class SlopeClippedLoss(ClippedLoss):
    """One of :data:`SLOPES` with a clipped slope; linear beyond the margins where that acts."""

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
        np.minimum(slopes, targets[:, 1], out=slopes)
        return np.maximum(slopes, -targets[:, 1], out=slopes)

    def second_derivative(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        margins = margins + self.offset
        slopes = self.loss.derivative(margins, targets[:, 0])
        bends = self.loss.second_derivative(margins, targets[:, 0])
        return np.where(np.abs(slopes) <= targets[:, 1], bends, 0.0)


@dataclass(frozen=True)
class ClippedSoftmaxLoss(ClippedLoss):
    """The log loss of several classes whose gradient is shortened, and which stays convex.

    It is ``softplus(t)``, t the log odds of all other classes against the record's own, a convex
    function of the margins whose gradient is at most ``sqrt(2)`` long. Where its slope is clipped,
    the mean log odds ``t_0 <= t`` help: their gradient is shorter, and their slope may be larger.
    Slopes are the maximiser of ``s t + s_0 t_0 + H(s + s_0)``, H the binary entropy, among those
    with gradients that are short enough. Proof: docs/theory/core.md, Lemma 8.
    """

    loss: SoftmaxLoss
    offset: tuple[float, ...]

    @cached_property
    def _shares(self) -> np.ndarray:
        """Shares of the classes beside each class, by the offset, shape (K, K)."""
        logits = np.tile(self.loss.logits(np.array([self.offset])), (self.loss.n_classes, 1))
        np.fill_diagonal(logits, -np.inf)
        return np.asarray(softmax(logits, axis=1))

    @cached_property
    def _lengths(self) -> np.ndarray:
        """Lengths of the gradients of t and t_0, (2, K); both of t where the mean is of few."""
        squares = 1.0 + (self._shares**2).sum(axis=1)
        squares[squares > _LARGEST_SQUARE] = 2.0
        return np.sqrt(np.stack([np.full(len(squares), 2.0), squares])) * ROUNDING_SLACK

    @property
    def curvature(self) -> float:
        """Bound the second derivative: of the softmax, and where t_0 takes over from t."""
        ratios = self._lengths[1] / self._lengths[0]
        is_used, ratios = ratios < 1.0, np.minimum(ratios, 0.999)
        least = np.where(np.eye(len(ratios), dtype=bool), np.inf, self._shares).min(axis=1)
        away = (self._shares**2).sum(axis=1) + ratios * (ratios - 2.0 * least)
        bends = 0.25 * (1.0 + away / (1.0 - ratios) ** 2) * ROUNDING_SLACK
        return self.loss.curvature + float((is_used * bends).max())

    def _odds(self, margins: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return t and t_0, their slopes, shapes (2, m), and their gradients, (2, m, K)."""
        labels, logits = self._labels(targets), self.loss.logits(margins + np.array(self.offset))
        own, shares = np.take_along_axis(logits, labels[:, None], axis=1), self._shares
        mean = np.einsum("ij,ij->i", shares[labels], logits) + _entropy(shares).sum(axis=1)[labels]
        np.put_along_axis(logits, labels[:, None], -np.inf, axis=1)
        largest = logits.max(axis=1, keepdims=True)
        others = np.exp(logits - largest)
        sums = others.sum(axis=1, keepdims=True)
        odds = np.stack([(np.log(sums) + largest)[:, 0], mean]) - own[:, 0]
        gradients = np.stack([others / sums, shares[labels]])
        np.put_along_axis(gradients, labels[None, :, None], -1.0, axis=2)
        limits = targets[:, 1] / self._lengths[:, labels]
        total, gap = expit(odds[0]), limits[1] - limits[0]
        between = (limits[1] * odds[1] - limits[0] * odds[0]) / np.maximum(gap, 1e-300)
        moved = (expit(between) - limits[0]) / np.maximum(gap, 1e-300)
        moved = np.where(gap > 0.0, np.minimum(np.maximum(moved, 0.0), 1.0), 0.0)
        is_clipped = total > limits[0]
        slopes = np.where(is_clipped, limits * np.stack([1.0 - moved, moved]), 0.0)
        slopes[0] += np.where(is_clipped, 0.0, total)
        return odds, slopes, gradients

    def value_and_derivative(
        self, margins: np.ndarray, targets: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        odds, slopes, gradients = self._odds(margins, targets)
        total = slopes.sum(axis=0)
        value = (slopes * odds).sum(axis=0) + _entropy(total) + _entropy(1.0 - total)
        return value, np.einsum("pi,pij->ij", slopes, gradients) @ self.loss.basis

    def second_derivative(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        _, slopes, gradients = self._odds(margins, targets)
        labels, basis, total = self._labels(targets), self.loss.basis, slopes.sum(axis=0)
        limits = targets[:, 1] / self._lengths[:, labels]
        is_mixed = (slopes > 0.0).all(axis=0)
        change = np.where(is_mixed, np.stack([-limits[0], limits[1]]), [[1.0], [0.0]])
        change /= np.where(is_mixed, limits[1] - limits[0], 1.0)
        turned = np.einsum("pi,pij->ij", change, gradients) @ basis
        bends = np.where(is_mixed | (total < limits[0]), total * (1.0 - total), 0.0)
        out = np.asarray(bends[:, None, None] * turned[:, :, None] * turned[:, None, :])
        q, slope = gradients[0].copy(), slopes[0][:, None, None]
        np.put_along_axis(q, labels[:, None], 0.0, axis=1)
        mean = q @ basis
        out += slope * np.einsum("ik,ka,kb->iab", q, basis, basis, optimize=True)
        out -= slope * (mean[:, :, None] * mean[:, None, :])
        return out


@dataclass(frozen=True)
class ClippedOneVsRestLoss(ClippedLoss):
    """One class against the rest: the own one and all others have half of the squared length."""

    loss: OneVsRestLoss
    offset: tuple[float, ...]

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

    def _margins(self, margins: np.ndarray) -> np.ndarray:
        return (margins + np.array(self.offset)).ravel()

    def value(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        values = self._each().value(self._margins(margins), self._targets(targets))
        return values.reshape(margins.shape).sum(axis=1)

    def derivative(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        slopes = self._each().derivative(self._margins(margins), self._targets(targets))
        return slopes.reshape(margins.shape)

    def second_derivative(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        bends = self._each().second_derivative(self._margins(margins), self._targets(targets))
        return np.asarray(bends.reshape(margins.shape)[:, :, None] * np.eye(self.loss.n_classes))


def _entropy(p: np.ndarray) -> np.ndarray:
    """``-p log p``, number by number."""
    return np.asarray(-p * np.log(np.maximum(p, 1e-300)))


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
        return ClippedOneVsRestLoss(loss, tuple(offsets.tolist()), clip)
    return SlopeClippedLoss(loss, float(offsets[0]), clip)

"""Losses with one kink, and the smooth losses that approximate them.

``phi(z) = max over a in [low, high] of a (z - kink)``: hinge and absolute error are of this
form with numbers that depend on the target. Lipschitz constants and radii:
docs/theory/constants.md, "Losses with a kink". No solution of these losses can be certified, that
of :meth:`PiecewiseLinearLoss.smoothed` can.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from skdp._checks import check_positive, check_real
from skdp.problems.elementwise import minimum
from skdp.problems.losses import BoundedTargetLoss, Loss, ZeroOneLoss, of_base
from skdp.problems.rounding import ROUNDING_SLACK


class PiecewiseLinearLoss(Loss):
    """A loss of one margin with one kink per record, and its minimum there."""

    curvature = math.inf

    @abstractmethod
    def pieces(self, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return ``(kink, low, high)`` of each record: the kink, the derivatives on both sides."""

    @property
    @abstractmethod
    def kink_bound(self) -> float:
        """Bound on the absolute value of the kinks."""

    @property
    def derivative_bound(self) -> float:
        """Bound S on the absolute value of the derivatives."""
        return 1.0

    @property
    def derivative_range(self) -> float:
        """Bound on the difference of the two derivatives of a record."""
        return 2.0 * self.derivative_bound

    def smoothed(self, width: float) -> SmoothedLoss:
        """Return the Moreau envelope of a width, a smooth loss of the same targets."""
        return SmoothedLoss(self, width)

    def value(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        kink, low, high = self.pieces(targets)
        offset = margins - kink
        return np.maximum(low * offset, high * offset)

    def derivative(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Return a subgradient: at the kink the derivative to its right."""
        kink, low, high = self.pieces(targets)
        return np.where(margins < kink, low, high)

    def second_derivative(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        raise NotImplementedError(f"{type(self).__name__} has no second derivative.")

    def lipschitz(self, feature_norm: float, radius: float) -> float:
        """Return ``S X``."""
        return self.derivative_bound * feature_norm

    def largest_value(self, feature_norm: float, radius: float) -> float:
        """Return ``S (R X + K)`` with K the bound on the kinks."""
        return self.derivative_bound * (radius * feature_norm + self.kink_bound)

    def solution_radius(self, feature_norm: float, alpha: float) -> float:
        """Return ``min(S X / alpha, sqrt(S K / alpha))``.

        At the solution ``alpha ||w||^2 = -mean(a_i z_i)`` with derivatives a_i, and ``-a_i z_i =
        -a_i k_i - a_i (z_i - k_i) <= S K``, because ``a (z - k) >= 0`` where low <= 0 <= high.
        """
        steepest = self.derivative_bound
        by_value = math.sqrt(steepest * self.kink_bound / alpha)
        return min(steepest * feature_norm / alpha, by_value) * ROUNDING_SLACK

    def noise_cost(self, variance: float) -> float:
        """Return ``derivative_range sqrt(variance) / 2``: lines cost nothing on average."""
        return 0.5 * self.derivative_range * variance**0.5


@dataclass(frozen=True)
class HingeLoss(ZeroOneLoss, PiecewiseLinearLoss):
    """``max(0, 1 - s z)`` for targets t in {0, 1}, with the sign ``s = 2 t - 1``."""

    has_one_sided_derivative = True
    kink_bound = 1.0
    derivative_range = 1.0

    def pieces(self, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        kink = 2.0 * targets - 1.0
        return kink, np.minimum(-kink, 0.0), np.maximum(-kink, 0.0)

    def value_range(self, feature_norm: float, radius: float) -> float:
        """Return ``(1 + k) - max(0, 1 - k)`` with ``k = R X``: at margins -k and k."""
        k = radius * feature_norm
        return min(1.0 + k, 2.0 * k)


class _ErrorLoss(BoundedTargetLoss, PiecewiseLinearLoss):
    """A loss of ``z - t`` for targets with ``|t| <= target_bound``."""

    @property
    def kink_bound(self) -> float:
        return self.target_bound

    @property
    def sampling_scale(self) -> float:
        """For residuals with half of the targets' bound as standard deviation."""
        return 0.5 * self.target_bound * self.derivative_bound


@dataclass(frozen=True)
class AbsoluteLoss(_ErrorLoss):
    """``factor * |z - t|``."""

    factor: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(factor=self.factor)

    @property
    def derivative_bound(self) -> float:
        return self.factor

    def pieces(self, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        high = np.full(targets.shape, float(self.factor))
        return targets, -high, high


@dataclass(frozen=True)
class QuantileLoss(_ErrorLoss):
    """``q (t - z)`` where ``z < t``, else ``(1 - q) (z - t)``; half the absolute error at 1/2."""

    #: q in (0, 1).
    quantile: float = 0.5
    derivative_range = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_real("quantile", self.quantile, 0.0, 1.0, closed="neither")

    @property
    def derivative_bound(self) -> float:
        return max(self.quantile, 1.0 - self.quantile)

    def pieces(self, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        low = np.full(targets.shape, -float(self.quantile))
        return targets, low, 1.0 + low


@dataclass(frozen=True)
class SmoothedLoss(Loss):
    """``max over a in [low, high] of a (z - kink) - (h/2) a^2``: a Moreau envelope.

    Never above the piecewise linear loss, and below it by at most ``h S^2 / 2``, S being the
    bound on the derivatives. Of the hinge with h = 1 it is the smoothed hinge (Rennie 2005), of
    ``c |z - t|`` with h = 1 Huber's loss with threshold c.
    """

    base: PiecewiseLinearLoss
    #: h > 0. Must be public.
    width: float

    def __post_init__(self) -> None:
        check_positive(width=self.width)

    target_bound, margin_scale = map(of_base, ("target_bound", "margin_scale"))
    largest_margin_scale, sampling_scale = map(of_base, ("largest_margin_scale", "sampling_scale"))
    has_one_sided_derivative = of_base("has_one_sided_derivative")
    check_targets = of_base("check_targets")

    def value(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return self.value_and_derivative(margins, targets)[0]

    def derivative(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        kink, low, high = self.base.pieces(targets)
        return np.clip((margins - kink) / self.width, low, high)

    def value_and_derivative(
        self, margins: np.ndarray, targets: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        kink, low, high = self.base.pieces(targets)
        offset = margins - kink
        derivative = np.clip(offset / self.width, low, high)
        return derivative * (offset - 0.5 * self.width * derivative), derivative

    def second_derivative(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        kink, low, high = self.base.pieces(targets)
        derivative = (margins - kink) / self.width
        return np.where((low < derivative) & (derivative < high), 1.0 / self.width, 0.0)

    @property
    def curvature(self) -> float:
        return 1.0 / self.width

    def lipschitz(self, feature_norm: float, radius: float) -> float:
        """Return ``X min(S, (R X + K) / h)`` with K the bound on the kinks."""
        widest = (radius * feature_norm + self.base.kink_bound) / self.width
        return feature_norm * min(self.base.derivative_bound, widest) * ROUNDING_SLACK

    def value_range(self, feature_norm: float, radius: float) -> float:
        """That of the piecewise linear loss, or the largest value: the least is 0."""
        range_of_base = self.base.value_range(feature_norm, radius)
        return min(range_of_base, self.largest_value(feature_norm, radius))

    def largest_value(self, feature_norm: float, radius: float) -> float:
        """Return ``a (r - h a / 2)`` with ``r = R X + K`` and ``a = min(S, r / h)``."""
        far = radius * feature_norm + self.base.kink_bound
        steepest = min(self.base.derivative_bound, far / self.width)
        return steepest * (far - 0.5 * self.width * steepest) * ROUNDING_SLACK

    def solution_radius(self, feature_norm: float, alpha: float) -> float:
        """``min(X min(S, K / h) / alpha, sqrt(p / alpha))``, ``p = max of A (K - h A)``, A <= S.

        By convexity ``alpha ||w|| <= ||mean gradient at 0||``. And ``alpha ||w||^2 = -mean(a_i
        z_i)``, where a derivative a of size A inside [low, high] has ``z - k = h a``; at an end, z
        is further from k on the same side: ``-a z <= A (K - h A)``.
        """
        bound, kink, width = self.base.derivative_bound, self.base.kink_bound, self.width
        steepest = min(bound, kink / (2.0 * width))
        by_value = math.sqrt(steepest * (kink - width * steepest) / alpha)
        return min(feature_norm * min(bound, kink / width) / alpha, by_value) * ROUNDING_SLACK

    def noise_cost(self, variance: float) -> float:
        """Return the smaller of the bounds for smooth and for Lipschitz losses."""
        return minimum(super().noise_cost(variance), self.base.noise_cost(variance))


def huber_loss(target_bound: float, threshold: float) -> SmoothedLoss:
    """Return ``r^2 / 2`` of ``r = z - t`` where ``|r| <= threshold``, and linear beyond.

    Examples
    --------
    >>> from skdp.problems import huber_loss
    >>> huber_loss(target_bound=1.0, threshold=0.5).base
    AbsoluteLoss(target_bound=1.0, factor=0.5)
    """
    return AbsoluteLoss(target_bound, threshold).smoothed(1.0)

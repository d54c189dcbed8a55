"""Generalised linear losses phi(margin, target) and their public constants.

A loss is a convex function of ``k`` margins ``z = W x`` and of a target. Adding one is
adding a class here. Every constant holds for *every* record with ``||x|| <= feature_norm``
(intercept feature included) and every W with Frobenius norm at most `radius`; proofs:
``docs/theory/constants.md``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, lambertw, log_expit

from skdp._checks import check_positive, check_real
from skdp.problems.elementwise import minimum
from skdp.problems.rounding import ROUNDING_SLACK

#: W(1/e), W the Lambert function.
_LAMBERT = float(lambertw(math.exp(-1.0)).real)


class Loss(ABC):
    """Interface of a loss; margins have shape (m,) if ``n_outputs == 1`` else (m, k).

    A loss must be immutable and hashable, like a frozen dataclass: plans are remembered by it.
    """

    @property
    def n_outputs(self) -> int:
        """Number k of margins per record."""
        return 1

    def check_targets(self, targets: np.ndarray) -> None:
        """Raise a ValueError unless the targets are encoded as this loss takes them.

        Its constants would not hold otherwise.
        """
        if targets.ndim != 1:
            raise ValueError(f"targets have shape {targets.shape}, must be (n_records,).")
        if targets.dtype.kind not in "fiub":
            raise ValueError(f"targets are of type {targets.dtype}, must be numbers.")

    @abstractmethod
    def value(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Return the loss of each record, shape (m,)."""

    @abstractmethod
    def derivative(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Return the derivative in the margins, of their shape."""

    def value_and_derivative(
        self, margins: np.ndarray, targets: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return both at once, for losses where that is cheaper."""
        return self.value(margins, targets), self.derivative(margins, targets)

    @property
    def n_margins(self) -> int:
        """Number of margins that one record needs: 1, or that of three classes or more."""
        return self.n_classes if self.n_classes > 2 else 1

    #: Public bound on the absolute value of numeric targets; 0 where targets are classes.
    target_bound: float = 0.0

    #: Number of classes; 0 where targets are numbers.
    n_classes: int = 0

    #: Of a log loss: what turns its margins into probabilities.
    link: Literal["logit", "softmax"] | None = None

    @property
    def has_odds(self) -> bool:
        """Whether margins are log odds."""
        return self.link is not None

    def class_weights(self, weights: np.ndarray) -> np.ndarray:
        """Turn weights of the margins, shape (k, width), into those of the decision function."""
        return weights

    #: Whether the second derivative is the same for all margins.
    is_quadratic = False

    #: Whether the sign of the derivative follows from the target, whatever the margin is. Privacy
    #: of objective perturbation rests on it.
    has_one_sided_derivative = False

    @abstractmethod
    def second_derivative(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Return the second derivative in the margins, shape (m,) or (m, k, k)."""

    @property
    @abstractmethod
    def curvature(self) -> float:
        """Bound on the largest eigenvalue of the second derivative."""

    @property
    def curvature_trace(self) -> float:
        """Bound on the trace of the second derivative (= curvature for one margin)."""
        return self.n_outputs * self.curvature

    @property
    def margin_scale(self) -> float:
        """Standard deviation of a good predictor's margins, for planning only."""
        return 1.0

    @property
    def largest_margin_scale(self) -> float:
        """Standard deviation of a confident predictor's margins, for planning only."""
        return 4.0 * self.margin_scale

    @property
    def sampling_scale(self) -> float:
        """``E phi'^2 / E phi''`` of a good predictor, for planning only; 1 for a true log loss.

        Half of it per coefficient and record is the expected excess loss of a fit to a sample.
        """
        return 1.0

    @abstractmethod
    def lipschitz(self, feature_norm: float, radius: float) -> float:
        """Bound ``||grad||`` of one record on the ball of a radius."""

    def slope_bound(self, margin: float) -> float:
        """Bound each derivative in a margin where all margins are at most `margin`."""
        return self.lipschitz(1.0, margin)

    def gradient_diameter(self, feature_norm: float, radius: float) -> float:
        """Bound ``||grad - grad'||`` for two records at one point of the ball."""
        return 2.0 * self.lipschitz(feature_norm, radius)

    def smoothness(self, feature_norm: float) -> float:
        """Return the Lipschitz constant of one record's gradient."""
        return self.curvature * feature_norm**2

    def solution_radius(self, feature_norm: float, alpha: float) -> float:
        """Bound the norm of the minimiser of mean loss + (alpha/2)||W||^2 on any data.

        By default ``L / alpha``: there ``alpha W`` is minus the mean gradient.
        """
        return self.lipschitz(feature_norm, math.inf) / alpha * ROUNDING_SLACK

    def value_range(self, feature_norm: float, radius: float) -> float:
        """Bound the difference of two records' losses at one point of the ball.

        By default the largest value, for losses that are never negative.
        """
        return self.largest_value(feature_norm, radius)

    def largest_value(self, feature_norm: float, radius: float) -> float:
        """Bound one record's loss on the ball, if it is never negative; ``inf`` without a bound."""
        return math.inf

    def least_curvature(self, feature_norm: float, radius: float) -> float:
        """Bound the eigenvalues of the second derivative over the ball from below."""
        return 0.0

    def noise_cost(self, variance: float) -> float:
        """Bound the expected increase of the loss under noise on its margins, for planning.

        The noise is spherically symmetric (for one margin: has mean 0); `variance`, in each
        margin, may be an array. By Green's formula ``curvature_trace * variance / 2``.
        """
        return 0.5 * self.curvature_trace * variance


def of_base(name: str) -> Any:
    """Forward an attribute to the base of a loss."""
    return property(lambda self: getattr(self.base, name))


class ZeroOneLoss(Loss):
    """Base of losses of one margin for targets 0 and 1, not signs."""

    n_classes = 2

    def check_targets(self, targets: np.ndarray) -> None:
        super().check_targets(targets)
        if not ((targets == 0) | (targets == 1)).all():
            raise ValueError(f"{type(self).__name__}: targets must be 0 or 1.")


@dataclass(frozen=True)
class BoundedTargetLoss(Loss):
    """Base of losses of one margin for targets with ``|t| <= target_bound``."""

    target_bound: float

    def __post_init__(self) -> None:
        check_positive(target_bound=self.target_bound)

    def check_targets(self, targets: np.ndarray) -> None:
        super().check_targets(targets)
        if not (np.abs(targets) <= self.target_bound * (1.0 + 1e-12)).all():  # NaN is not
            raise ValueError(
                f"{type(self).__name__}: targets must be numbers within +-{self.target_bound:g}."
            )

    @property
    def margin_scale(self) -> float:
        return 0.5 * self.target_bound

    @property
    def largest_margin_scale(self) -> float:
        return self.target_bound


def _sigmoid(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x)) if x >= 0 else math.exp(x) / (1.0 + math.exp(x))


@dataclass(frozen=True)
class LogisticLoss(ZeroOneLoss):
    """Binary log loss ``log(1 + exp(z)) - t z`` for targets t in {0, 1}."""

    link = "logit"
    curvature = 0.25
    has_one_sided_derivative = True

    def value(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return self._value(np.exp(-np.abs(margins)), margins, targets)

    def derivative(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return self._residual(np.exp(-np.abs(margins)), margins, targets)

    def value_and_derivative(
        self, margins: np.ndarray, targets: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        tail = np.exp(-np.abs(margins))
        return self._value(tail, margins, targets), self._residual(tail, margins, targets)

    @staticmethod
    def _value(tail: np.ndarray, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        value = np.log1p(tail)
        value += np.maximum(margins, 0.0)
        value -= targets * margins
        return value

    @staticmethod
    def _residual(tail: np.ndarray, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Return ``sigmoid(z) - t`` from ``exp(-|z|)``, which is overwritten."""
        tail += 1.0
        np.reciprocal(tail, out=tail)  # sigmoid(|z|)
        tail -= 0.5
        np.copysign(tail, margins, out=tail)  # signs in random order: faster than np.where
        tail += 0.5
        tail -= targets
        return tail

    def second_derivative(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        tail = np.exp(-np.abs(margins))
        return tail / (1.0 + tail) ** 2

    def lipschitz(self, feature_norm: float, radius: float) -> float:
        """Return ``X sigmoid(R X)``: the gradient is ``(sigmoid(z) - t) x`` with ``|z| <= R X``."""
        return feature_norm * _sigmoid(radius * feature_norm)

    def gradient_diameter(self, feature_norm: float, radius: float) -> float:
        """Return ``X max_{0<=c<=1} 2 sigmoid(c R X) sqrt(1 - c^2)``, never above ``2 X``.

        The two gradients are chords of the curve ``sigmoid(R X sin(th)) e^{i th}``; the
        longest chord is symmetric about the direction of W (docs/theory/constants.md). The
        maximiser c is the unique root of ``k (1 - sigmoid(k c)) (1 - c^2) = c`` with ``k = R X``.
        """
        k = radius * feature_norm
        if math.isinf(k):
            return 2.0 * feature_norm
        c = brentq(lambda c: k * _sigmoid(-k * c) * (1.0 - c * c) - c, 0.0, 1.0, xtol=1e-15)
        diameter = 2.0 * _sigmoid(k * c) * math.sqrt(1.0 - c * c)
        return feature_norm * min(diameter * ROUNDING_SLACK, 2.0)

    def solution_radius(self, feature_norm: float, alpha: float) -> float:
        """Return ``min(X / (2 alpha), sqrt(W(1/e) / alpha))``, W the Lambert function."""
        return min(feature_norm / (2.0 * alpha), math.sqrt(_LAMBERT / alpha)) * ROUNDING_SLACK

    def noise_cost(self, variance: float) -> float:
        """Return the smaller of the bounds for smooth and for Lipschitz losses."""
        return minimum(super().noise_cost(variance), variance**0.5)

    def value_range(self, feature_norm: float, radius: float) -> float:
        """Return ``R X``: at ``|z| = R X`` between ``log(1 + exp(z))`` and ``log(1 + exp(-z))``."""
        return radius * feature_norm

    def largest_value(self, feature_norm: float, radius: float) -> float:
        """Return ``log(1 + exp(R X))``."""
        return float(np.logaddexp(0.0, radius * feature_norm)) * ROUNDING_SLACK

    def least_curvature(self, feature_norm: float, radius: float) -> float:
        """Return ``sigmoid(k) sigmoid(-k)`` with ``k = R X``."""
        k = radius * feature_norm
        return _sigmoid(k) * _sigmoid(-k)


@dataclass(frozen=True)
class ClippedLogisticLoss(ZeroOneLoss):
    """Log loss whose derivative is clipped: linear where the probability of the target is small.

    With the sign ``s = 2 t - 1`` and ``m = s z`` it is ``log(1 + exp(-m))`` where
    ``m >= log((1 - c) / c)``, and below the tangent at that point, of slope -c. Its Lipschitz
    constant is the fraction c of that of the log loss.
    """

    #: c in (0, 1]; 1 is the log loss. Must be public, and fixed before the records are seen.
    clip: float = 0.5

    has_one_sided_derivative = True

    def __post_init__(self) -> None:
        check_real("clip", self.clip, 0.0, 1.0, closed="right")

    @property
    def threshold(self) -> float:
        """Margin ``log((1 - c) / c)`` below which the loss is linear; ``-inf`` for c = 1."""
        return math.log1p(-self.clip) - math.log(self.clip) if self.clip < 1.0 else -math.inf

    def value(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        true = (2.0 * targets - 1.0) * margins
        smooth = np.maximum(true, self.threshold)
        out = np.log1p(np.exp(-np.abs(smooth)))
        out += np.maximum(-smooth, 0.0)
        out += self.clip * (smooth - true)
        return out

    def derivative(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        signs = 2.0 * targets - 1.0
        return -signs * np.minimum(expit(-signs * margins), self.clip)

    def second_derivative(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        tail = np.exp(-np.abs(margins))
        is_smooth = (2.0 * targets - 1.0) * margins > self.threshold
        return np.where(is_smooth, tail / (1.0 + tail) ** 2, 0.0)

    @property
    def curvature(self) -> float:
        """``c (1 - c)`` below c = 1/2, else 1/4."""
        least = min(self.clip, 0.5)
        return least * (1.0 - least)

    def lipschitz(self, feature_norm: float, radius: float) -> float:
        """Return ``X min(sigmoid(R X), c)``."""
        return feature_norm * min(_sigmoid(radius * feature_norm), self.clip)

    def largest_value(self, feature_norm: float, radius: float) -> float:
        """Return the loss at the margin ``-R X``."""
        value = self.value(np.array([-radius * feature_norm]), np.array([1.0]))
        return float(value[0]) * ROUNDING_SLACK

    def noise_cost(self, variance: float) -> float:
        """Return the smaller of the bounds for smooth and for Lipschitz losses."""
        return minimum(super().noise_cost(variance), self.clip * variance**0.5)

    def log_odds(self, margins: np.ndarray) -> np.ndarray:
        """Return ``log(P(t = 1) / P(t = 0))`` of the distribution whose risk the margins minimise.

        With q = sigmoid(z) it solves ``p min(1 - q, c) = (1 - p) min(q, c)``. For c = 1/2 it is
        ``sign(z) log((1 + exp(|z|)) / 2)``; for smaller c it is 0 around z = 0.
        """
        log_clip = math.log(self.clip)
        log_true = np.minimum(log_expit(margins), log_clip)
        return log_true - np.minimum(log_expit(-margins), log_clip)


@dataclass(frozen=True)
class HalfSquaredLoss(BoundedTargetLoss):
    """``(z - t)^2 / 2`` for targets with ``|t| <= target_bound``."""

    is_quadratic = True
    curvature = 1.0

    def value(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return 0.5 * (margins - targets) ** 2

    def derivative(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return margins - targets

    def second_derivative(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return np.ones_like(margins)

    @property
    def sampling_scale(self) -> float:
        """Half of the targets' bound as the standard deviation of a residual."""
        return (0.5 * self.target_bound) ** 2

    def lipschitz(self, feature_norm: float, radius: float) -> float:
        """Return ``X (R X + Y)``."""
        return feature_norm * (radius * feature_norm + self.target_bound)

    def gradient_diameter(self, feature_norm: float, radius: float) -> float:
        """Return ``max_{0<=c<=1} 2 X (c R X + Y) sqrt(1 - c^2)``, at
        ``c = (-Y + sqrt(Y^2 + 8 k^2)) / (4 k)`` with ``k = R X`` (docs/theory/constants.md).
        """
        k, bound = radius * feature_norm, self.target_bound
        # the same root without the cancellation at small k; squares of large k would overflow
        part = min(k, 1e150)
        c = 2.0 * part / (bound + (bound**2 + 8.0 * part**2) ** 0.5)
        return 2.0 * feature_norm * (c * k + bound) * (1.0 - c * c) ** 0.5 * ROUNDING_SLACK

    def solution_radius(self, feature_norm: float, alpha: float) -> float:
        """Return ``x Y / (x^2 + alpha)`` with ``x = min(X, sqrt(alpha))``."""
        norm = min(feature_norm, alpha**0.5)
        return norm * self.target_bound / (norm**2 + alpha) * ROUNDING_SLACK

    def largest_value(self, feature_norm: float, radius: float) -> float:
        """Return ``(R X + Y)^2 / 2``."""
        return 0.5 * (radius * feature_norm + self.target_bound) ** 2

    def least_curvature(self, feature_norm: float, radius: float) -> float:
        return 1.0


@dataclass(frozen=True)
class SquaredHingeLoss(ZeroOneLoss):
    """``max(0, 1 - s z)^2`` for targets t in {0, 1}, with the sign ``s = 2 t - 1``."""

    curvature = 2.0
    has_one_sided_derivative = True
    margin_scale = 0.5

    @staticmethod
    def _shortfall(margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return np.maximum(0.0, 1.0 - (2.0 * targets - 1.0) * margins)

    def value(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return self._shortfall(margins, targets) ** 2

    def derivative(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return -2.0 * (2.0 * targets - 1.0) * self._shortfall(margins, targets)

    def second_derivative(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return 2.0 * (self._shortfall(margins, targets) > 0)

    def lipschitz(self, feature_norm: float, radius: float) -> float:
        """Return ``2 X (R X + 1)``."""
        return 2.0 * HalfSquaredLoss(1.0).lipschitz(feature_norm, radius)

    def gradient_diameter(self, feature_norm: float, radius: float) -> float:
        """Twice that of least squares with Y = 1.

        A gradient ``-2 s (1 - s z) x`` is twice the one of ``(z - s)^2 / 2``, or 0; 0 is the
        gradient of an all-zero row's half square with target 0 there.
        """
        return 2.0 * HalfSquaredLoss(1.0).gradient_diameter(feature_norm, radius)

    def solution_radius(self, feature_norm: float, alpha: float) -> float:
        """Return ``min(2 X / alpha, 1 / sqrt(2 alpha))``.

        At the solution ``alpha ||w||^2 = mean of 2 max(0, 1 - u) u <= 1/2`` with ``u = s z``, and
        ``alpha ||w|| <= ||mean gradient at 0||`` by convexity.
        """
        return min(2.0 * feature_norm / alpha, math.sqrt(0.5 / alpha)) * ROUNDING_SLACK

    def value_range(self, feature_norm: float, radius: float) -> float:
        """Return ``(1 + k)^2 - max(0, 1 - k)^2`` with ``k = R X``: at margins -k and k."""
        k = radius * feature_norm
        return 4.0 * k if k < 1.0 else (1.0 + k) ** 2

    def largest_value(self, feature_norm: float, radius: float) -> float:
        """Return ``(1 + R X)^2``."""
        return (1.0 + radius * feature_norm) ** 2

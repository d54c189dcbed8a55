"""Generalised linear losses phi(margin, target) and their public constants.

A loss is a convex function of ``k`` margins ``z = W x`` and of a target. Adding one is
adding a class here. Every constant holds for *every* record with ``||x|| <= feature_norm``
(intercept feature included) and every W with Frobenius norm at most `radius`, whatever
the data are; the formulas are those of Lowy and Razaviyayn (2021), section 7 of our
specification, with proofs in ``docs/theory/constants.md``.

======================  =================================================================
``lipschitz``           sup of the norm of one record's gradient
``gradient_diameter``   sup of the distance between two records' gradients at one W
``smoothness``          Lipschitz constant of one record's gradient
``solution_radius``     bound on the norm of the minimiser of mean loss + alpha/2 ||W||^2
``value_range``         sup of the difference of two records' losses at one W
``largest_value``       sup of one record's loss
``least_curvature``     lower bound on the second derivative
======================  =================================================================
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import lambertw

from skdp._checks import check_count, check_positive
from skdp.problems.elementwise import minimum

__all__ = [
    "HalfSquaredLoss",
    "LogisticLoss",
    "Loss",
    "OneVsRestLoss",
    "SoftmaxLoss",
    "SquaredHingeLoss",
    "sum_zero_basis",
]

#: Inflation of constants that come out of floating-point root finding.
ROOT_SLACK = 1.0 + 1e-9
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
        """Loss of each record, shape (m,)."""

    @abstractmethod
    def derivative(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Derivative in the margins, of their shape."""

    def value_and_derivative(
        self, margins: np.ndarray, targets: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Both at once, for losses where that is cheaper."""
        return self.value(margins, targets), self.derivative(margins, targets)

    #: Whether the second derivative is a constant.
    is_quadratic = False

    @abstractmethod
    def second_derivative(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Second derivative in the margins, shape (m,) or (m, k, k)."""

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
        """Standard deviation that a predictor's margins rarely exceed, for planning only.

        Confident classifiers have large margins; predictions are of the size of their targets.
        """
        return 4.0 * self.margin_scale

    @property
    def sampling_scale(self) -> float:
        """``E phi'^2 / E phi''`` of a good predictor, for planning only.

        Half of it per coefficient and record is the expected excess loss of a fit to a sample; it
        is 1 for a log loss whose model is right.
        """
        return 1.0

    @abstractmethod
    def lipschitz(self, feature_norm: float, radius: float) -> float:
        """Bound on ``||grad||`` of one record on the ball of the given radius."""

    def gradient_diameter(self, feature_norm: float, radius: float) -> float:
        """Bound on ``||grad - grad'||`` for two records at one point of the ball."""
        return 2.0 * self.lipschitz(feature_norm, radius)

    def smoothness(self, feature_norm: float) -> float:
        """Lipschitz constant of one record's gradient."""
        return self.curvature * feature_norm**2

    def solution_radius(self, feature_norm: float, alpha: float) -> float:
        """Radius that holds the minimiser of mean loss + (alpha/2)||W||^2 on any data.

        By default ``L / alpha``: at the minimiser ``alpha W`` is minus the mean gradient.
        """
        return self.lipschitz(feature_norm, math.inf) / alpha * ROOT_SLACK

    def value_range(self, feature_norm: float, radius: float) -> float:
        """Bound on the difference of two records' losses at one point of the ball.

        By default the largest value, for losses that are never negative.
        """
        return self.largest_value(feature_norm, radius)

    def largest_value(self, feature_norm: float, radius: float) -> float:
        """Bound on one record's loss on the ball, for losses that are never negative.

        ``inf``, the default, stands for a loss without such a bound.
        """
        return math.inf

    def least_curvature(self, feature_norm: float, radius: float) -> float:
        """Lower bound on the eigenvalues of the second derivative over the ball."""
        return 0.0

    def noise_cost(self, variance: float) -> float:
        """Bound on the expected increase of the loss under noise on its margins, for planning.

        The noise is spherically symmetric (for one margin: has mean 0), of the given variance in
        each margin, a number or an array. By Green's formula (for one margin: Taylor's theorem)
        ``curvature_trace * variance / 2``.
        """
        return 0.5 * self.curvature_trace * variance


def check_zero_one(loss: Loss, targets: np.ndarray) -> None:
    """Refuse anything but 0 and 1, such as signs."""
    if not ((targets == 0) | (targets == 1)).all():
        raise ValueError(f"{type(loss).__name__}: targets must be 0 or 1.")


def check_within(loss: Loss, targets: np.ndarray, bound: float) -> None:
    """Refuse numbers beyond the declared bound, and NaN."""
    if not (np.abs(targets) <= bound * (1.0 + 1e-12)).all():
        raise ValueError(f"{type(loss).__name__}: targets must be numbers within +-{bound:g}.")


def _sigmoid(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x)) if x >= 0 else math.exp(x) / (1.0 + math.exp(x))


@dataclass(frozen=True)
class LogisticLoss(Loss):
    """Binary log loss ``log(1 + exp(z)) - t z`` for targets t in {0, 1}."""

    def check_targets(self, targets: np.ndarray) -> None:
        super().check_targets(targets)
        check_zero_one(self, targets)

    def value(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        out = np.exp(-np.abs(margins))
        np.log1p(out, out=out)
        out += np.maximum(margins, 0.0)
        out -= targets * margins
        return out

    def derivative(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return self._slope(np.exp(-np.abs(margins)), margins, targets)

    def value_and_derivative(
        self, margins: np.ndarray, targets: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        tail = np.exp(-np.abs(margins))
        value = np.log1p(tail)
        value += np.maximum(margins, 0.0)
        value -= targets * margins
        return value, self._slope(tail, margins, targets)

    @staticmethod
    def _slope(tail: np.ndarray, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """``sigmoid(z) - t`` from ``exp(-|z|)``, which is overwritten."""
        tail += 1.0
        np.reciprocal(tail, out=tail)  # sigmoid(|z|)
        np.copyto(tail, 1.0 - tail, where=margins < 0)
        tail -= targets
        return tail

    def second_derivative(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        tail = np.exp(-np.abs(margins))
        return tail / (1.0 + tail) ** 2

    @property
    def curvature(self) -> float:
        return 0.25

    def lipschitz(self, feature_norm: float, radius: float) -> float:
        """``X sigmoid(R X)``: the gradient is ``(sigmoid(z) - t) x`` with ``|z| <= R X``."""
        return feature_norm * _sigmoid(radius * feature_norm)

    def gradient_diameter(self, feature_norm: float, radius: float) -> float:
        """``X max_{0<=c<=1} 2 sigmoid(c R X) sqrt(1 - c^2)``, never above ``2 X``.

        The two gradients are chords of the curve ``sigmoid(R X sin(th)) e^{i th}``; the
        longest chord is symmetric about the direction of W (review Y-8; proof in
        docs/theory/constants.md). The maximiser c is the unique root of
        ``k (1 - sigmoid(k c)) (1 - c^2) = c`` with ``k = R X``.
        """
        k = radius * feature_norm
        if math.isinf(k):
            return 2.0 * feature_norm
        c = brentq(lambda c: k * _sigmoid(-k * c) * (1.0 - c * c) - c, 0.0, 1.0, xtol=1e-15)
        diameter = 2.0 * _sigmoid(k * c) * math.sqrt(1.0 - c * c)
        return feature_norm * min(diameter * ROOT_SLACK, 2.0)

    def solution_radius(self, feature_norm: float, alpha: float) -> float:
        """``min(X / (2 alpha), sqrt(W(1/e) / alpha))``, W the Lambert function."""
        return min(feature_norm / (2.0 * alpha), math.sqrt(_LAMBERT / alpha)) * ROOT_SLACK

    def noise_cost(self, variance: float) -> float:
        """The smaller of the bounds for smooth and for Lipschitz losses."""
        return minimum(super().noise_cost(variance), variance**0.5)

    def value_range(self, feature_norm: float, radius: float) -> float:
        """``R X``: at ``|z| = R X`` between ``log(1 + exp(z))`` and ``log(1 + exp(-z))``."""
        return radius * feature_norm

    def largest_value(self, feature_norm: float, radius: float) -> float:
        """``log(1 + exp(R X))``."""
        return float(np.logaddexp(0.0, radius * feature_norm)) * ROOT_SLACK

    def least_curvature(self, feature_norm: float, radius: float) -> float:
        """``sigmoid(k) sigmoid(-k)`` with ``k = R X``."""
        k = radius * feature_norm
        return _sigmoid(k) * _sigmoid(-k)


def sum_zero_basis(n_classes: int) -> np.ndarray:
    """Orthonormal basis (n_classes, n_classes - 1) of the vectors that sum to zero."""
    k = n_classes
    basis = np.zeros((k, k - 1))
    for j in range(1, k):  # Helmert contrasts
        basis[:j, j - 1] = 1.0
        basis[j, j - 1] = -j
        basis[:, j - 1] /= math.sqrt(j * (j + 1))
    return basis


@dataclass(frozen=True)
class SoftmaxLoss(Loss):
    """Multinomial log loss of K classes in the K - 1 coordinates that can matter.

    The penalised optimum has class weights that sum to zero, so the weights are written
    as ``B V`` with B an orthonormal basis of the sum-zero subspace: logits ``B z``, with z
    the K - 1 margins ``V x``. The map is an isometry, hence norms, sensitivities and the
    penalty are those of the full weights, and isotropic noise on V is noise in exactly
    the subspace (dimension (K - 1) width), none outside of it (review W7).

    Parameters
    ----------
    n_classes : int
        K >= 2; targets are class indices.
    """

    n_classes: int

    def __post_init__(self) -> None:
        check_count("n_classes", self.n_classes, 2)

    def check_targets(self, targets: np.ndarray) -> None:
        super().check_targets(targets)
        if targets.dtype.kind not in "iu":
            raise ValueError(f"SoftmaxLoss: targets are {targets.dtype}, must be class indices.")
        if targets.size and not 0 <= targets.min() <= targets.max() < self.n_classes:
            raise ValueError(f"SoftmaxLoss: targets must be 0 to {self.n_classes - 1}.")

    @property
    def n_outputs(self) -> int:
        return self.n_classes - 1

    @cached_property
    def basis(self) -> np.ndarray:
        """The basis B, shape (K, K - 1)."""
        basis = sum_zero_basis(self.n_classes)
        basis.flags.writeable = False
        return basis

    def _logits(self, margins: np.ndarray) -> np.ndarray:
        return margins.reshape(len(margins), self.n_outputs) @ self.basis.T

    def probabilities(self, margins: np.ndarray) -> np.ndarray:
        """Class probabilities, shape (m, K)."""
        out = self._logits(margins)
        out -= out.max(axis=1, keepdims=True)
        np.exp(out, out=out)
        out /= out.sum(axis=1, keepdims=True)
        return out

    def value(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        logits = self._logits(margins)
        logits -= logits.max(axis=1, keepdims=True)
        own = np.take_along_axis(logits, targets[:, None], axis=1)[:, 0]
        return np.log(np.exp(logits).sum(axis=1)) - own

    def derivative(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        residuals = self.probabilities(margins)
        residuals[np.arange(len(targets)), targets] -= 1.0
        out = residuals @ self.basis
        return out if margins.ndim == 2 else out[:, 0]

    def second_derivative(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        basis = self.basis
        p = self.probabilities(margins)
        mean = p @ basis
        out = np.einsum("ik,ka,kb->iab", p, basis, basis, optimize=True)
        out -= mean[:, :, None] * mean[:, None, :]
        return out if margins.ndim == 2 else out[:, 0, 0]

    @property
    def curvature(self) -> float:
        """``diag(p) - p p'`` has no eigenvalue above 1/2."""
        return 0.5

    @property
    def curvature_trace(self) -> float:
        """``trace(diag(p) - p p') = 1 - ||p||^2 <= 1 - 1/K``."""
        return 1.0 - 1.0 / self.n_classes

    def lipschitz(self, feature_norm: float, radius: float) -> float:
        """``X sqrt(q (q + m))``, never above ``sqrt(2) X`` (derived, docs/theory/constants.md).

        q bounds the probability of all wrong classes and m that of one class, over logits
        that sum to zero and have norm at most ``k = R X``: two logits differ by at most
        ``sqrt(2) k``, so ``q = (K-1) / (K-1 + e^{-sqrt(2) k})``; by Jensen's inequality
        ``m = 1 / (1 + (K-1) e^{-k sqrt(K/(K-1))})``. Then ``||p - e_y||^2 = (1 - p_y)^2 +
        sum_{j != y} p_j^2 <= q^2 + q m``.
        """
        k, others = radius * feature_norm, self.n_classes - 1
        q = others / (others + math.exp(-math.sqrt(2.0) * k))
        m = 1.0 / (1.0 + others * math.exp(-k * math.sqrt(self.n_classes / others)))
        return feature_norm * min(math.sqrt(q * (q + m)) * ROOT_SLACK, math.sqrt(2.0))

    def solution_radius(self, feature_norm: float, alpha: float) -> float:
        """``min(sqrt((K-1)/K) X / alpha, sqrt(W((K-1)/e) / alpha))``."""
        others = self.n_classes - 1
        by_gradient = math.sqrt(others / self.n_classes) * feature_norm / alpha
        by_value = math.sqrt(float(lambertw(others / math.e).real) / alpha)
        return min(by_gradient, by_value) * ROOT_SLACK

    def noise_cost(self, variance: float) -> float:
        """The smaller of the bounds for smooth and for Lipschitz losses."""
        return minimum(super().noise_cost(variance), (2.0 * self.n_outputs * variance) ** 0.5)

    def value_range(self, feature_norm: float, radius: float) -> float:
        """``log(1 + (K-1) e^{sqrt(2) k}) - log(1 + (K-1) e^{-k sqrt(K/(K-1))})``, ``k = R X``.

        The bounds on the logits are those of :meth:`lipschitz`; the first term bounds the
        loss from above, the second from below.
        """
        k, others = radius * feature_norm, self.n_classes - 1
        steepest = math.sqrt(self.n_classes / others)
        lower = float(np.logaddexp(0.0, math.log(others) - steepest * k))
        return (self.largest_value(feature_norm, radius) - lower) * ROOT_SLACK

    def largest_value(self, feature_norm: float, radius: float) -> float:
        """``log(1 + (K-1) e^{sqrt(2) k})``, ``k = R X``."""
        k, others = radius * feature_norm, self.n_classes - 1
        return float(np.logaddexp(0.0, math.log(others) + math.sqrt(2.0) * k)) * ROOT_SLACK


@dataclass(frozen=True)
class HalfSquaredLoss(Loss):
    """``(z - t)^2 / 2`` for targets with ``|t| <= target_bound``."""

    target_bound: float

    is_quadratic = True

    def __post_init__(self) -> None:
        check_positive(target_bound=self.target_bound)

    def check_targets(self, targets: np.ndarray) -> None:
        super().check_targets(targets)
        check_within(self, targets, self.target_bound)

    def value(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return 0.5 * (margins - targets) ** 2

    def derivative(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return margins - targets

    def second_derivative(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return np.ones_like(margins)

    @property
    def curvature(self) -> float:
        return 1.0

    @property
    def margin_scale(self) -> float:
        return 0.5 * self.target_bound

    @property
    def largest_margin_scale(self) -> float:
        return self.target_bound

    @property
    def sampling_scale(self) -> float:
        """Half of the targets' bound as the standard deviation of a residual."""
        return (0.5 * self.target_bound) ** 2

    def lipschitz(self, feature_norm: float, radius: float) -> float:
        """``X (R X + Y)``."""
        return feature_norm * (radius * feature_norm + self.target_bound)

    def gradient_diameter(self, feature_norm: float, radius: float) -> float:
        """``max_{0<=c<=1} 2 X (c R X + Y) sqrt(1 - c^2)``, at
        ``c = (-Y + sqrt(Y^2 + 8 k^2)) / (4 k)`` with ``k = R X`` (review Y-9).
        """
        k, bound = radius * feature_norm, self.target_bound
        # the same root without the cancellation at small k
        c = 2.0 * k / (bound + math.sqrt(bound**2 + 8.0 * k**2))
        return 2.0 * feature_norm * (c * k + bound) * math.sqrt(1.0 - c * c) * ROOT_SLACK

    def solution_radius(self, feature_norm: float, alpha: float) -> float:
        """``Y / (2 sqrt(alpha))`` if ``X^2 >= alpha`` else ``X Y / (X^2 + alpha)``."""
        if feature_norm**2 >= alpha:
            return self.target_bound / (2.0 * math.sqrt(alpha)) * ROOT_SLACK
        return feature_norm * self.target_bound / (feature_norm**2 + alpha) * ROOT_SLACK

    def largest_value(self, feature_norm: float, radius: float) -> float:
        """``(R X + Y)^2 / 2``."""
        return 0.5 * (radius * feature_norm + self.target_bound) ** 2

    def least_curvature(self, feature_norm: float, radius: float) -> float:
        return 1.0


@dataclass(frozen=True)
class SquaredHingeLoss(Loss):
    """``max(0, 1 - s z)^2`` for targets t in {0, 1}, with the sign ``s = 2 t - 1``."""

    def check_targets(self, targets: np.ndarray) -> None:
        super().check_targets(targets)
        check_zero_one(self, targets)

    @staticmethod
    def _shortfall(margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return np.maximum(0.0, 1.0 - (2.0 * targets - 1.0) * margins)

    def value(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return self._shortfall(margins, targets) ** 2

    def derivative(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return -2.0 * (2.0 * targets - 1.0) * self._shortfall(margins, targets)

    def second_derivative(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return 2.0 * (self._shortfall(margins, targets) > 0)

    @property
    def curvature(self) -> float:
        return 2.0

    @property
    def margin_scale(self) -> float:
        return 0.5

    def lipschitz(self, feature_norm: float, radius: float) -> float:
        """``2 X (R X + 1)``."""
        return 2.0 * HalfSquaredLoss(1.0).lipschitz(feature_norm, radius)

    def gradient_diameter(self, feature_norm: float, radius: float) -> float:
        """Twice that of least squares with Y = 1.

        A gradient ``-2 s (1 - s z) x`` is twice the one of ``(z - s)^2 / 2``, or 0; 0 is the
        gradient of an all-zero row's half square with target 0 there.
        """
        return 2.0 * HalfSquaredLoss(1.0).gradient_diameter(feature_norm, radius)

    def solution_radius(self, feature_norm: float, alpha: float) -> float:
        """``min(2 X / alpha, 1 / sqrt(2 alpha))``.

        At the solution ``alpha ||w||^2 = mean of 2 max(0, 1 - u) u <= 1/2`` with ``u = s z``, and
        ``alpha ||w|| <= ||mean gradient at 0||`` by convexity.
        """
        return min(2.0 * feature_norm / alpha, math.sqrt(0.5 / alpha)) * ROOT_SLACK

    def value_range(self, feature_norm: float, radius: float) -> float:
        """``(1 + k)^2 - max(0, 1 - k)^2`` with ``k = R X``: at margins -k and k."""
        k = radius * feature_norm
        return 4.0 * k if k < 1.0 else (1.0 + k) ** 2

    def largest_value(self, feature_norm: float, radius: float) -> float:
        """``(1 + R X)^2``."""
        return (1.0 + radius * feature_norm) ** 2


@dataclass(frozen=True)
class OneVsRestLoss(Loss):
    """Sum over K classes of a two-class loss of "this one" against "the others".

    One problem with K margins whose solution is that of K separate ones; together they move by
    at most ``sqrt(K)`` times as much as one of them, because the weights of different classes
    are orthogonal directions (review Y-16). Constants: docs/theory/constants.md.

    Parameters
    ----------
    base : Loss
        For targets 0 and 1. The square of its Lipschitz constant, its value range and its
        largest value must be concave functions of the squared radius, as those of all hinges are.
    n_classes : int
        K; targets are class indices.
    """

    base: Loss
    n_classes: int

    def check_targets(self, targets: np.ndarray) -> None:
        SoftmaxLoss(self.n_classes).check_targets(targets)

    @property
    def n_outputs(self) -> int:
        return self.n_classes

    def _each(self, function: Any, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """`function` of the base for each class, shape (m, K)."""
        own = (targets[:, None] == np.arange(self.n_classes)).astype(np.float64)
        return function(margins.ravel(), own.ravel()).reshape(margins.shape)

    def value(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return self._each(self.base.value, margins, targets).sum(axis=1)

    def derivative(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return self._each(self.base.derivative, margins, targets)

    def second_derivative(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        bend = np.zeros((*margins.shape, self.n_classes))
        diagonal = np.arange(self.n_classes)
        bend[:, diagonal, diagonal] = self._each(self.base.second_derivative, margins, targets)
        return bend

    @property
    def curvature(self) -> float:
        return self.base.curvature

    @property
    def margin_scale(self) -> float:
        return self.base.margin_scale * math.sqrt(self.n_classes)

    def lipschitz(self, feature_norm: float, radius: float) -> float:
        """``sqrt(K) L(R / sqrt(K))``: largest where all classes have weights of one length."""
        root = math.sqrt(self.n_classes)
        return root * self.base.lipschitz(feature_norm, radius / root) * ROOT_SLACK

    def gradient_diameter(self, feature_norm: float, radius: float) -> float:
        """``sqrt(K) D(R)``, or 2 L if that is smaller."""
        each = math.sqrt(self.n_classes) * self.base.gradient_diameter(feature_norm, radius)
        return min(each, 2.0 * self.lipschitz(feature_norm, radius))

    def solution_radius(self, feature_norm: float, alpha: float) -> float:
        return math.sqrt(self.n_classes) * self.base.solution_radius(feature_norm, alpha)

    def value_range(self, feature_norm: float, radius: float) -> float:
        """``K`` times that at ``R / sqrt(K)``."""
        share = radius / math.sqrt(self.n_classes)
        return self.n_classes * self.base.value_range(feature_norm, share) * ROOT_SLACK

    def largest_value(self, feature_norm: float, radius: float) -> float:
        """``K`` times that at ``R / sqrt(K)``."""
        share = radius / math.sqrt(self.n_classes)
        return self.n_classes * self.base.largest_value(feature_norm, share) * ROOT_SLACK

    def noise_cost(self, variance: float) -> float:
        return self.n_classes * self.base.noise_cost(variance)

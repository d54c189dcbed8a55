"""Losses of several classes; see :mod:`skdp.problems.losses` for the constants of a loss."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import helmert
from scipy.special import lambertw

from skdp._checks import check_count
from skdp.problems.elementwise import minimum
from skdp.problems.losses import Loss, of_base
from skdp.problems.rounding import ROUNDING_SLACK


@dataclass(frozen=True)
class SoftmaxLoss(Loss):
    """Multinomial log loss of K classes in the K - 1 coordinates that can matter.

    The penalised optimum has class weights that sum to zero, so the weights are written as ``B V``
    with B an orthonormal basis of the sum-zero subspace: logits ``B z``, with z the K - 1 margins
    ``V x``. The map is an isometry, hence norms, sensitivities and the penalty are those of the
    full weights, and isotropic noise on V is noise in exactly the subspace.
    """

    #: K >= 2; targets are class indices.
    n_classes: int

    link = "softmax"
    curvature = 0.5  # no eigenvalue of diag(p) - p p' is larger

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
        """The basis B, shape (K, K - 1), of Helmert contrasts."""
        basis = np.ascontiguousarray(helmert(self.n_classes).T)
        basis.flags.writeable = False
        return basis

    def class_weights(self, weights: np.ndarray) -> np.ndarray:
        return np.asarray(self.basis @ weights)

    def logits(self, margins: np.ndarray) -> np.ndarray:
        """Return the logits of the classes, shape (m, K)."""
        return margins.reshape(len(margins), self.n_outputs) @ self.basis.T

    def probabilities(self, margins: np.ndarray) -> np.ndarray:
        """Return the class probabilities, shape (m, K)."""
        out = self.logits(margins)
        out -= out.max(axis=1, keepdims=True)
        np.exp(out, out=out)
        out /= out.sum(axis=1, keepdims=True)
        return out

    def value(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        logits = self.logits(margins)
        logits -= logits.max(axis=1, keepdims=True)
        true = np.take_along_axis(logits, targets[:, None], axis=1)[:, 0]
        return np.log(np.exp(logits).sum(axis=1)) - true

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
        return feature_norm * min(math.sqrt(q * (q + m)) * ROUNDING_SLACK, math.sqrt(2.0))

    def solution_radius(self, feature_norm: float, alpha: float) -> float:
        """Return ``min(sqrt((K-1)/K) X / alpha, sqrt(W((K-1)/e) / alpha))``."""
        others = self.n_classes - 1
        by_gradient = math.sqrt(others / self.n_classes) * feature_norm / alpha
        by_value = math.sqrt(float(lambertw(others / math.e).real) / alpha)
        return min(by_gradient, by_value) * ROUNDING_SLACK

    def noise_cost(self, variance: float) -> float:
        """Return the smaller of the bounds for smooth and for Lipschitz losses."""
        return minimum(super().noise_cost(variance), (2.0 * self.n_outputs * variance) ** 0.5)

    def value_range(self, feature_norm: float, radius: float) -> float:
        """``log(1 + (K-1) e^{sqrt(2) k}) - log(1 + (K-1) e^{-k sqrt(K/(K-1))})``, ``k = R X``.

        Bounds on the loss from above and below by those on the logits of :meth:`lipschitz`.
        """
        k, others = radius * feature_norm, self.n_classes - 1
        steepest = math.sqrt(self.n_classes / others)
        lower = float(np.logaddexp(0.0, math.log(others) - steepest * k))
        return (self.largest_value(feature_norm, radius) - lower) * ROUNDING_SLACK

    def largest_value(self, feature_norm: float, radius: float) -> float:
        """Return ``log(1 + (K-1) e^{sqrt(2) k})``, ``k = R X``."""
        return self._largest_value(math.sqrt(2.0) * radius * feature_norm)

    def _largest_value(self, apart: float) -> float:
        """Return the largest loss of logits that are at most `apart`."""
        others = math.log(self.n_classes - 1)
        return float(np.logaddexp(0.0, others + apart)) * ROUNDING_SLACK


class LogitLoss(SoftmaxLoss):
    """The same loss in the logits of the K classes, for other geometries than the Euclidean one.

    A derivative is a probability, or one minus it: at most 1, and 1/2-Lipschitz in the largest
    change of a logit (docs/theory/mirror_descent.md, section 4).
    """

    @property
    def n_outputs(self) -> int:
        return self.n_classes

    @cached_property
    def basis(self) -> np.ndarray:
        """The unit vectors: a product with them is exact."""
        return np.eye(self.n_classes)

    def slope_bound(self, margin: float) -> float:
        return 1.0

    def largest_value(self, feature_norm: float, radius: float) -> float:
        """Return ``log(1 + (K-1) e^k)``: logits in the l1 ball of radius ``k = R X``."""
        return self._largest_value(radius * feature_norm)


@dataclass(frozen=True)
class OneVsRestLoss(Loss):
    """Sum over K classes of a two-class loss of "this one" against "the others".

    The solution is that of K separate problems; together they move by at most ``sqrt(K)`` times as
    much as one of them, because the weights of different classes are orthogonal directions:
    docs/theory/constants.md, "One against the rest".
    """

    #: For targets 0 and 1. The square of its Lipschitz constant, its value range and its largest
    #: value must be concave functions of the squared radius, as those of all hinges are.
    base: Loss
    #: K; targets are class indices.
    n_classes: int

    def check_targets(self, targets: np.ndarray) -> None:
        SoftmaxLoss(self.n_classes).check_targets(targets)

    @property
    def n_outputs(self) -> int:
        return self.n_classes

    def _each(
        self, function: Callable[..., np.ndarray], margins: np.ndarray, targets: np.ndarray
    ) -> np.ndarray:
        """Evaluate `function` of the base for each class, shape (m, K)."""
        is_class = (targets[:, None] == np.arange(self.n_classes)).astype(np.float64)
        return function(margins.ravel(), is_class.ravel()).reshape(margins.shape)

    def value(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return self._each(self.base.value, margins, targets).sum(axis=1)

    def derivative(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return self._each(self.base.derivative, margins, targets)

    def second_derivative(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        second = np.zeros((*margins.shape, self.n_classes))
        diagonal = np.arange(self.n_classes)
        second[:, diagonal, diagonal] = self._each(self.base.second_derivative, margins, targets)
        return second

    curvature, slope_bound = map(of_base, ("curvature", "slope_bound"))

    @property
    def margin_scale(self) -> float:
        return self.base.margin_scale * math.sqrt(self.n_classes)

    def lipschitz(self, feature_norm: float, radius: float) -> float:
        """``sqrt(K) L(R / sqrt(K))``: largest where all classes have weights of one length."""
        root = math.sqrt(self.n_classes)
        return root * self.base.lipschitz(feature_norm, radius / root) * ROUNDING_SLACK

    def gradient_diameter(self, feature_norm: float, radius: float) -> float:
        """Return ``sqrt(K) D(R)``, or 2 L if that is smaller."""
        each = math.sqrt(self.n_classes) * self.base.gradient_diameter(feature_norm, radius)
        return min(each, 2.0 * self.lipschitz(feature_norm, radius))

    def solution_radius(self, feature_norm: float, alpha: float) -> float:
        return math.sqrt(self.n_classes) * self.base.solution_radius(feature_norm, alpha)

    def value_range(self, feature_norm: float, radius: float) -> float:
        """Return ``K`` times that at ``R / sqrt(K)``."""
        share = radius / math.sqrt(self.n_classes)
        return self.n_classes * self.base.value_range(feature_norm, share) * ROUNDING_SLACK

    def largest_value(self, feature_norm: float, radius: float) -> float:
        """Return ``K`` times that at ``R / sqrt(K)``."""
        share = radius / math.sqrt(self.n_classes)
        return self.n_classes * self.base.largest_value(feature_norm, share) * ROUNDING_SLACK

    def noise_cost(self, variance: float) -> float:
        return self.n_classes * self.base.noise_cost(variance)

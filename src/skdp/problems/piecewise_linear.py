"""Losses with one kink, and the smooth losses that approximate them.

``phi(z) = max over a in [low, high] of a (z - kink)``: hinge and absolute error are of this
form with numbers that depend on the target. The Lipschitz constants and radii are those of
the specification of Lowy and Razaviyayn (2021), section 7; none of these losses is smooth,
so a problem certifies through its dual (:func:`skdp.solvers.certify_dual`).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from skdp.problems.losses import ROOT_SLACK, Loss, check_within, check_zero_one

__all__ = ["AbsoluteLoss", "EnvelopeLoss", "HingeLoss", "PiecewiseLinearLoss"]


class PiecewiseLinearLoss(Loss):
    """A loss of one margin with one kink per record."""

    @abstractmethod
    def pieces(self, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """``(kink, low, high)`` of each record: where the slope changes, and the two slopes."""

    #: Bound on the absolute value of the slopes.
    slope_bound: float = 1.0

    def value(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        kink, low, high = self.pieces(targets)
        offset = margins - kink
        return np.maximum(low * offset, high * offset)

    def derivative(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """A subgradient: the slope to the right of the kink there."""
        kink, low, high = self.pieces(targets)
        return np.where(margins < kink, low, high)

    def second_derivative(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        raise NotImplementedError(f"{type(self).__name__} has no second derivative.")

    @property
    def curvature(self) -> float:
        return math.inf

    @property
    def curvature_trace(self) -> float:
        return math.inf

    @property
    def margin_scale(self) -> float:
        return 1.0

    def lipschitz(self, feature_norm: float, radius: float) -> float:
        """Slope bound times X."""
        return self.slope_bound * feature_norm

    def envelope(
        self, targets: np.ndarray, width: float, dual: np.ndarray
    ) -> tuple[EnvelopeLoss, np.ndarray]:
        """The smooth approximation around a dual vector: a loss, and the targets that it takes.

        Parameters
        ----------
        targets : ndarray of shape (n,)
        width : float
            h of :class:`EnvelopeLoss`.
        dual : ndarray of shape (n,)
            Slopes that the approximation leans towards.
        """
        return EnvelopeLoss(width, self.slope_bound), np.stack([*self.pieces(targets), dual], 1)


@dataclass(frozen=True)
class HingeLoss(PiecewiseLinearLoss):
    """``max(0, 1 - s z)`` for targets t in {0, 1}, with the sign ``s = 2 t - 1``."""

    def check_targets(self, targets: np.ndarray) -> None:
        super().check_targets(targets)
        check_zero_one(self, targets)

    def pieces(self, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        kink = 2.0 * targets - 1.0
        return kink, np.minimum(-kink, 0.0), np.maximum(-kink, 0.0)

    def solution_radius(self, feature_norm: float, alpha: float) -> float:
        """``min(X / alpha, 1 / sqrt(alpha))``."""
        return min(feature_norm / alpha, 1.0 / math.sqrt(alpha)) * ROOT_SLACK


@dataclass(frozen=True)
class AbsoluteLoss(PiecewiseLinearLoss):
    """``|z - t|`` for targets with ``|t| <= target_bound``."""

    target_bound: float

    def check_targets(self, targets: np.ndarray) -> None:
        super().check_targets(targets)
        check_within(self, targets, self.target_bound)

    def pieces(self, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return targets, np.full_like(targets, -1.0), np.ones_like(targets)

    @property
    def margin_scale(self) -> float:
        return 0.5 * self.target_bound

    def solution_radius(self, feature_norm: float, alpha: float) -> float:
        """``min(X / alpha, sqrt(Y / alpha))``.

        At the solution ``alpha ||w||^2 = -mean(a_i z_i)`` with slopes a_i; where ``a_i`` is
        not 0, ``-a_i z_i <= -a_i t_i <= Y``, because a_i has the sign of ``z_i - t_i`` (and at the
        kink ``z_i = t_i``).
        """
        by_value = math.sqrt(self.target_bound / alpha)
        return min(feature_norm / alpha, by_value) * ROOT_SLACK


@dataclass(frozen=True)
class EnvelopeLoss(Loss):
    """``max over a in [low, high] of a (z - kink) - (h/2) (a - center)^2``.

    The Moreau envelope of a piecewise linear loss, shifted: smooth with curvature ``1/h``,
    never above the loss, and equal to it in the limit of a small h or at the right center.
    Targets are rows ``(kink, low, high, center)``.

    Parameters
    ----------
    width : float
        h > 0.
    slope_bound : float
        Bound on ``|low|`` and ``|high|``.
    """

    width: float
    slope_bound: float = 1.0

    def check_targets(self, targets: np.ndarray) -> None:
        if targets.ndim != 2 or targets.shape[1] != 4:
            raise ValueError(f"targets have shape {targets.shape}, must be (n_records, 4).")

    def derivative(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        kink, low, high, center = targets.T
        return np.clip(center + (margins - kink) / self.width, low, high)

    def value(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        kink, _, _, center = targets.T
        slope = self.derivative(margins, targets)
        return slope * (margins - kink) - 0.5 * self.width * (slope - center) ** 2

    def second_derivative(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        kink, low, high, center = targets.T
        free = center + (margins - kink) / self.width
        return np.where((low < free) & (free < high), 1.0 / self.width, 0.0)

    @property
    def curvature(self) -> float:
        return 1.0 / self.width

    @property
    def curvature_trace(self) -> float:
        return 1.0 / self.width

    @property
    def margin_scale(self) -> float:
        return 1.0

    def lipschitz(self, feature_norm: float, radius: float) -> float:
        return self.slope_bound * feature_norm

    def solution_radius(self, feature_norm: float, alpha: float) -> float:
        return self.slope_bound * feature_norm / alpha * ROOT_SLACK

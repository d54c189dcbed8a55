"""What all routes of private tuning share."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from skdp.privacy.report import Release
from skdp.problems import Records

__all__ = ["PenaltyGroups", "TunedModel", "check_penalties"]


@dataclass(frozen=True)
class PenaltyGroups:
    """Which strength penalises which coefficient: ``(1/2) sum_j alpha_g(j) r_j w_j^2``.

    Parameters
    ----------
    groups : tuple of int
        g(j) in 0, ..., n_groups - 1 for each coefficient, the intercept's included.
    relative : tuple of float
        r_j > 0, 1 for a feature. That of an intercept feature of value s is ``(s / X)^2``, X the
        norm bound of the other features: as if the feature had the value X.
    low, high : float
        Public bounds of the strengths.
    common : tuple of int, default=()
        Groups without a search of their own where released moments are searched: they keep the
        best strength for all groups together.
    """

    groups: tuple[int, ...]
    relative: tuple[float, ...]
    low: float
    high: float
    common: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not 0 < self.low < self.high < math.inf:
            raise ValueError(f"bounds == ({self.low}, {self.high}), must be 0 < low < high.")
        if not 0 < len(self.groups) == len(self.relative):
            raise ValueError("groups and relative strengths must have one entry per coefficient.")
        if sorted(set(self.groups)) != list(range(self.n_groups)):
            raise ValueError("groups must be numbered 0, 1, ... without a gap.")
        if not all(0 < relative < math.inf for relative in self.relative):
            raise ValueError("relative strengths must be > 0 and finite.")

    def rescaled(self, unit: float) -> PenaltyGroups:
        """The same penalties for rows divided by a unit."""
        return replace(self, low=self.low / unit / unit, high=self.high / unit / unit)

    def clipped(self, alpha: np.ndarray) -> np.ndarray:
        """Strengths within the bounds."""
        return np.clip(alpha, self.low, self.high)

    @property
    def n_groups(self) -> int:
        return max(self.groups) + 1

    @property
    def scale(self) -> np.ndarray:
        """r_j, shape (dimension,)."""
        return np.array(self.relative)

    @property
    def members(self) -> np.ndarray:
        """r_j where coefficient j is in group g, else 0; shape (n_groups, dimension)."""
        return np.where(np.arange(self.n_groups)[:, None] == np.array(self.groups), self.scale, 0.0)

    def diagonal(self, alpha: np.ndarray) -> np.ndarray:
        """Strength of every coefficient for strengths of shape (n_groups,)."""
        return np.asarray(alpha)[np.array(self.groups)] * self.scale


def check_penalties(records: Records, penalties: PenaltyGroups) -> None:
    """Refuse strengths that are not one per coefficient."""
    if len(penalties.groups) != records.width:
        raise ValueError(f"{len(penalties.groups)} strengths for {records.width} coefficients.")


@dataclass(frozen=True)
class TunedModel:
    """A private model with private strengths.

    Attributes
    ----------
    point : ndarray of shape (dimension,)
    alpha : ndarray of shape (n_groups,)
    path : ndarray of shape (n_iterates, n_groups)
        Strengths on the way to `alpha`; functions of what was released.
    releases : tuple of Release
        Everything that left the algorithm; point, alpha and path are functions of it.
    plan : dict
        Public numbers.
    """

    point: np.ndarray
    alpha: np.ndarray
    path: np.ndarray
    releases: tuple[Release, ...]
    plan: dict[str, Any] = field(default_factory=dict)

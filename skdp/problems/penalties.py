"""Penalties of groups of coefficients, and whitened coordinates, in which all are penalised alike.

With ``Omega = diag(alpha_g(j) r_j)``, ``v = Omega^{1/2} w`` and ``u = Omega^{-1/2} x``,
``mean loss(<w, x>) + w' Omega w / 2`` is ``mean loss(<v, u>) + ||v||^2 / 2``: the penalty
alpha = 1 on records whose columns are scaled (:meth:`skdp.problems.Records.scaled`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class PenaltyGroups:
    """Which alpha penalises which coefficient: ``(1/2) sum_j alpha_g(j) r_j w_j^2``."""

    #: g(j) in 0, ..., n_groups - 1 for each coefficient, the intercept's included.
    groups: tuple[int, ...]
    #: Penalty factors r_j > 0, 1 for a feature. That of an intercept feature of value s is
    #: ``(s / X)^2``, X the norm bound of the other features: as if the feature had the value X.
    factors: tuple[float, ...]
    #: Public bounds of alpha.
    low: float
    high: float

    def __post_init__(self) -> None:
        if not 0 < self.low < self.high < math.inf:
            raise ValueError(f"bounds == ({self.low}, {self.high}), must be 0 < low < high.")
        if not 0 < len(self.groups) == len(self.factors):
            raise ValueError("groups and penalty factors must have one entry per coefficient.")
        if sorted(set(self.groups)) != list(range(self.n_groups)):
            raise ValueError("groups must be numbered 0, 1, ... without a gap.")
        if not all(0 < factor < math.inf for factor in self.factors):
            raise ValueError("penalty factors must be > 0 and finite.")

    def check_width(self, width: int) -> None:
        """Refuse a number of coefficients other than that of the penalties."""
        if len(self.groups) != width:
            raise ValueError(f"{len(self.groups)} penalties for {width} coefficients.")

    def clipped(self, alpha: np.ndarray) -> np.ndarray:
        """Clip alpha to the bounds."""
        return np.clip(alpha, self.low, self.high)

    @property
    def n_groups(self) -> int:
        return max(self.groups) + 1

    @property
    def members(self) -> np.ndarray:
        """Whether coefficient j is in group g; shape (n_groups, dimension)."""
        return np.arange(self.n_groups)[:, None] == np.array(self.groups)

    def diagonal(self, alpha: np.ndarray) -> np.ndarray:
        """Return the diagonal of Omega for alpha of shape (n_groups,)."""
        return np.asarray(alpha)[np.array(self.groups)] * np.array(self.factors)

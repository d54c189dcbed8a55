"""Closed convex domains that a solution is searched in."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

__all__ = ["Ball", "Domain", "WholeSpace"]


class Domain(ABC):
    """A closed convex set with an exact Euclidean projection."""

    #: Largest Euclidean norm in the set (``inf`` for an unbounded one).
    radius: float

    @abstractmethod
    def project(self, point: np.ndarray) -> np.ndarray:
        """Return the point of the set that is nearest to `point`."""


@dataclass(frozen=True)
class WholeSpace(Domain):
    """All of R^d."""

    radius: float = math.inf

    def project(self, point: np.ndarray) -> np.ndarray:
        return point


@dataclass(frozen=True)
class Ball(Domain):
    """The Euclidean ball of the given radius around the origin."""

    radius: float

    def __post_init__(self) -> None:
        if not (self.radius > 0 and math.isfinite(self.radius)):
            raise ValueError(f"radius == {self.radius}, must be > 0 and finite.")

    def project(self, point: np.ndarray) -> np.ndarray:
        # The certificates need a point that is feasible in exact arithmetic, so the
        # shrunken radius absorbs the rounding of the norm and of the division.
        limit = self.radius * (1.0 - (point.size + 8) * np.finfo(np.float64).eps)
        norm = float(np.linalg.norm(point))
        return point if norm <= limit else point * (limit / norm)

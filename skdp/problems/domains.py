"""Closed convex domains.

Certificates rely on the bounds on the rounding error of their projections.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from skdp._checks import check_count, check_positive
from skdp.problems.rounding import EPS


def euclidean_norm(vector: np.ndarray) -> float:
    """Return the Euclidean norm whose squares neither vanish nor overflow."""
    squares = float(np.vdot(vector, vector))
    if 1e-290 < squares < 1e290:
        return math.sqrt(squares)
    largest = float(np.abs(vector).max(initial=0.0))
    if largest == 0.0 or not math.isfinite(largest):
        return largest
    return largest * float(np.linalg.norm(vector / largest))


class Domain(ABC):
    """A closed convex set with an exact Euclidean projection."""

    #: Largest Euclidean norm in the set (``inf`` for an unbounded one).
    radius: float
    #: Length of the vectors; None where the set is defined for every length.
    dimension: int | None = None

    @abstractmethod
    def project(self, point: np.ndarray) -> np.ndarray:
        """Return the point of the set that is nearest to `point`."""

    def projection_rounding(self, dimension: int) -> float:
        """Bound the Euclidean distance of ``project(point)`` to the exact projection."""
        return 0.0

    def projection_derivative(self, point: np.ndarray) -> np.ndarray:
        """Return a generalised derivative of the projection at `point`, a symmetric matrix."""
        raise NotImplementedError(f"{type(self).__name__} has no derivative of its projection.")

    def center(self, dimension: int) -> np.ndarray:
        """Return the point whose largest distance to the others is :attr:`circumradius`."""
        return np.zeros(dimension)

    @property
    def circumradius(self) -> float:
        """Largest distance from :meth:`center` to a point of the set."""
        return self.radius


@dataclass(frozen=True)
class WholeSpace(Domain):
    """All of R^d."""

    radius: float = math.inf

    def project(self, point: np.ndarray) -> np.ndarray:
        return point

    def projection_derivative(self, point: np.ndarray) -> np.ndarray:
        return np.eye(point.size)


@dataclass(frozen=True)
class Ball(Domain):
    """The Euclidean ball of a radius around the origin.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.problems import Ball
    >>> Ball(1.0).project(np.array([3.0, 4.0]))
    array([0.6, 0.8])
    """

    radius: float

    def __post_init__(self) -> None:
        check_positive(radius=self.radius)

    def project(self, point: np.ndarray) -> np.ndarray:
        # the shrunken radius absorbs the rounding of the norm and of the division: feasible
        limit = self.radius * (1.0 - (point.size + 8) * EPS)
        norm = euclidean_norm(point)
        return point if norm <= limit else point * (limit / norm)

    def projection_derivative(self, point: np.ndarray) -> np.ndarray:
        norm = euclidean_norm(point)
        if norm <= self.radius:
            return np.eye(point.size)
        unit = point / norm
        return self.radius / norm * (np.eye(point.size) - np.outer(unit, unit))

    def projection_rounding(self, dimension: int) -> float:
        return 2.0 * (dimension + 8) * EPS * self.radius


@dataclass(frozen=True, eq=False)
class Box(Domain):
    """``{w: lower <= w <= upper}`` for arrays of shape (dimension,), with infinite bounds, too.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.problems import Box
    >>> Box(np.zeros(2), np.ones(2)).project(np.array([-1.0, 0.5]))
    array([0. , 0.5])
    """

    lower: np.ndarray
    upper: np.ndarray

    def __post_init__(self) -> None:
        lower, upper = np.broadcast_arrays(
            np.asarray(self.lower, dtype=np.float64), np.asarray(self.upper, dtype=np.float64)
        )
        if lower.ndim != 1:
            raise ValueError(f"bounds of shape {lower.shape}, must be (dimension,).")
        if not (lower <= upper).all() or np.isposinf(lower).any() or np.isneginf(upper).any():
            raise ValueError("lower must not exceed upper, and the box must not be empty.")
        for name, bound in (("lower", lower.copy()), ("upper", upper.copy())):
            bound.flags.writeable = False
            object.__setattr__(self, name, bound)

    @property
    def dimension(self) -> int:  # type: ignore[override]
        return len(self.lower)

    @property
    def radius(self) -> float:  # type: ignore[override]
        return float(np.linalg.norm(np.maximum(np.abs(self.lower), np.abs(self.upper))))

    def project(self, point: np.ndarray) -> np.ndarray:
        return np.minimum(np.maximum(point, self.lower), self.upper)

    def projection_derivative(self, point: np.ndarray) -> np.ndarray:
        return np.diag(((point > self.lower) & (point < self.upper)).astype(float))

    def center(self, dimension: int) -> np.ndarray:
        if not math.isfinite(self.radius):
            return self.project(np.zeros(dimension))
        return self.project(0.5 * self.lower + 0.5 * self.upper)

    @property
    def circumradius(self) -> float:
        return 0.5 * float(np.linalg.norm(self.upper - self.lower)) * (1.0 + 1e-9)


@dataclass(frozen=True)
class Simplex(Domain):
    """``{w >= 0: sum(w) = 1}``, the probability vectors of a length.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.problems import Simplex
    >>> Simplex(2).project(np.array([0.8, 0.8]))
    array([0.5, 0.5])
    """

    dimension: int

    radius = 1.0

    def __post_init__(self) -> None:
        check_count("dimension", self.dimension)

    def project(self, point: np.ndarray) -> np.ndarray:
        """Subtract the one number, found by sorting, that makes the positive part sum to 1."""
        if point.min() >= 0.0 and abs(float(point.sum()) - 1.0) <= point.size * EPS:
            return point  # zeros stay zeros
        shifted = point - point.max()  # the entries that stay positive are now within [-1, 0]
        ordered = np.sort(shifted)[::-1]
        thresholds = (np.cumsum(ordered) - 1.0) / np.arange(1, point.size + 1)
        support = int(np.count_nonzero(ordered > thresholds))
        return np.maximum(shifted - thresholds[max(0, support - 1)], 0.0)

    def projection_derivative(self, point: np.ndarray) -> np.ndarray:
        """Centring of the entries that stay positive."""
        positive = (self.project(point) > 0.0).astype(float)
        return np.diag(positive) - np.outer(positive, positive) / positive.sum()

    def projection_rounding(self, dimension: int) -> float:
        # the threshold is a mean of at most d numbers of [-1, 0], less 1 / support
        return math.sqrt(dimension) * (dimension + 8) * EPS

    def center(self, dimension: int) -> np.ndarray:
        return np.full(dimension, 1.0 / dimension)

    @property
    def circumradius(self) -> float:
        return math.sqrt(1.0 - 1.0 / self.dimension) * (1.0 + 1e-12)


def _products(shares: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return numbers whose exact sum is that of the products: of 24 with 26 digits."""
    parts = 134217729.0 * values
    high = parts - (parts - values)
    return np.concatenate([shares * high, shares * (values - high)])


#: Shares of groups are whole multiples of it: products with 24 digits of a number are exact.
SHARE_UNIT = 2.0**-24


@dataclass(frozen=True)
class CappedSimplex(Domain):
    """``{0 <= a <= bound: sum(shares * a) = 1}``: weights of groups, 1 for each among them.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.problems.domains import CappedSimplex
    >>> CappedSimplex((0.75, 0.25), 2.0).project(np.array([1.0, 9.0]))
    array([0.66666667, 2.        ])
    """

    #: Positive multiples of ``2^-24``, of sum 1.
    shares: tuple[float, ...]
    #: At least 1. The set for 1 has one point, that for ``1 / min(shares)`` all of the simplex.
    bound: float

    def __post_init__(self) -> None:
        units = np.array(self.shares) / SHARE_UNIT
        if not (units.size and (units >= 1.0).all() and (units == np.rint(units)).all()):
            raise ValueError("shares must be positive multiples of 2^-24.")
        if units.sum() != 1.0 / SHARE_UNIT:
            raise ValueError(f"shares must add up to 1, not to {sum(self.shares)}.")
        if not self.bound >= 1.0:
            raise ValueError(f"bound == {self.bound}, must be >= 1.")

    @property
    def dimension(self) -> int:  # type: ignore[override]
        return len(self.shares)

    @property
    def upper(self) -> np.ndarray:
        """The largest value of each coordinate."""
        return np.minimum(self.bound, 1.0 / np.array(self.shares))

    @property
    def _caps(self) -> np.ndarray:
        """The bound where it is one: rounding would make ``1 / p`` a little less or more."""
        p = np.array(self.shares)
        return np.where(p * self.bound < 1.0 - 1e-12, self.bound, 2.0 / p)

    @property
    def largest(self) -> float:
        """The largest value of all."""
        return float(self.upper.max())

    def project(self, point: np.ndarray) -> np.ndarray:
        """Subtract the multiple of the shares that makes what is left, clipped, add up to 1."""
        p, upper = np.array(self.shares), self._caps
        is_inside = point.min() >= 0.0 and (point <= upper).all()
        if is_inside and abs(float(p @ point) - 1.0) <= point.size * EPS:
            return point  # zeros stay zeros
        point = np.clip(point, -1e100, 1e100)
        # multiples of p with few digits are exact and change no projection: a small one is left
        for _ in range(64):
            multiple = self._multiple(point, p, upper)
            if not 1.0 < abs(multiple) < math.inf:
                break
            digits, exponent = math.frexp(multiple)
            point = point - math.ldexp(round(math.ldexp(digits, 24)), exponent - 24) * p
        return np.asarray(np.clip(point - multiple * p, 0.0, upper))

    @staticmethod
    def _multiple(point: np.ndarray, p: np.ndarray, upper: np.ndarray) -> float:
        """Return t with ``sum(p * clip(point - t * p, 0, upper)) = 1``, to the last bits."""
        kinks = np.sort(np.concatenate([point, point - upper]) / np.concatenate([p, p]))
        sums = np.clip(point - kinks[:, None] * p, 0.0, upper) @ p  # descending
        k = int(np.clip(np.count_nonzero(sums >= 1.0), 1, len(kinks) - 1))
        multiple, is_middle = float(0.5 * (kinks[k - 1] + kinks[k])), True
        best, least = multiple, math.inf
        for _ in range(8):  # two are enough, unless rounding has missed the right kinks
            left = point - multiple * p
            free, capped = (left > 0.0) & (left < upper), left >= upper
            excess = math.fsum((*_products(p, np.clip(left, 0.0, upper)), -1.0))
            # the solution is at an end of what is flat there
            if abs(excess) < least and (free.any() or not is_middle):
                best, least = multiple, abs(excess)
            if free.any():
                terms = *_products(p[free], point[free]), *_products(p[capped], upper[capped]), -1.0
                before, multiple = multiple, math.fsum(terms) / float(p[free] @ p[free])
                is_middle = False
                if multiple == before:
                    break
            elif excess == 0.0 and is_middle:  # all between these kinks will do
                return min(max(0.0, float(kinks[k - 1])), float(kinks[k]))
            elif not is_middle:  # as near as numbers of this size allow
                break
            else:
                k = min(max(1, k + (1 if excess > 0.0 else -1)), len(kinks) - 1)
                multiple = float(0.5 * (kinks[k - 1] + kinks[k]))
        return best

    def projection_derivative(self, point: np.ndarray) -> np.ndarray:
        """What is orthogonal to the shares, of the entries that are at no bound."""
        found = self.project(point)
        free = np.where((found > 0.0) & (found < self._caps), self.shares, 0.0)
        square = float(free @ free)
        return np.diag((free > 0.0).astype(float)) - np.outer(free, free) / (square or 1.0)

    def projection_rounding(self, dimension: int) -> float:
        # coordinates at a bound are exact, and so is the sum of all products with shares
        return 16.0 * EPS * math.sqrt(dimension) * (self.largest + 1.0)

    def center(self, dimension: int) -> np.ndarray:
        return np.ones(dimension)

    def _most(self, order: np.ndarray) -> float:
        """Sum of the coordinates if those first in the order are as large as they can be."""
        p, upper = np.array(self.shares)[order], self.upper[order]
        left = np.clip(1.0 - np.concatenate([[0.0], np.cumsum(p * upper)[:-1]]), 0.0, None)
        return float(np.minimum(upper, left / p).sum())

    @property
    def radius(self) -> float:  # type: ignore[override]
        # a^2 <= bound a, and the sum of a is largest where small shares come first
        top = self.largest
        return math.sqrt(top * self._most(np.argsort(self.shares))) * (1.0 + 1e-9)

    @property
    def circumradius(self) -> float:
        # |a - 1|^2 <= (bound - 2) sum(a) + G
        top, order = self.largest, np.argsort(self.shares)
        if top == 1.0:
            return 0.0
        total = self._most(order if top >= 2.0 else order[::-1])
        square = (top - 2.0) * total + len(self.shares)
        return math.sqrt(max(square, 0.0)) * (1.0 + 1e-9)

"""Non-convex minimax problems as sums over records, for algorithms that clip record by record.

``min over x, max over y in Y of (1/n) sum_i F_i(x, y) + r(x, y)``: F_i depends on record i, and r
on none. F_i may be non-convex in x. No constant is assumed to hold; the vectors of the records are
clipped instead. See :class:`MinimaxProblem`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Literal

import numpy as np

from skdp.problems.rounding import ROUNDING_SLACK, tree_sum, two_sums

#: A point (x, y).
Point = tuple[np.ndarray, np.ndarray]
#: A block of the gradient: that in x, that in y, or both, one after the other.
BlockName = Literal["x", "y", "joint"]

#: Records whose vectors are formed at a time.
_ROWS = 512


class MinimaxProblem(ABC):
    """A minimax problem of records, whose vectors are clipped before they are summed.

    Attributes
    ----------
    n_records, dimension_x, dimension_y : int
    is_dual_linear : bool
        Whether ``F_i = <y, a_i(x)>`` with a public r: then ``a_i`` is the gradient in y, and
        :meth:`best_dual` solves for y.
    """

    n_records: int
    dimension_x: int
    dimension_y: int
    is_dual_linear: bool = False
    #: Records whose vectors are added in any order; these sums are added in a tree.
    block_size: int = _ROWS

    def dimension(self, block: BlockName) -> int:
        """Return the number of coordinates of a block."""
        sizes = {"x": self.dimension_x, "y": self.dimension_y}
        return sizes.get(block, self.dimension_x + self.dimension_y)

    @abstractmethod
    def clipped_sum(
        self,
        block: BlockName,
        point: Point,
        anchor: Point | None,
        limit: float,
        batch: np.ndarray | None,
    ) -> np.ndarray:
        """Sum clipped vectors of the records of a batch, None for all; not private.

        The vector of record i is its gradient at `point` or, with an `anchor`, the difference of
        its gradients at both. It is scaled down to the Euclidean norm `limit` (the difference, and
        not the gradients that it is made of). The data-free r does not count.
        """

    def rounding_error(self, block: BlockName, point: Point, anchor: Point | None) -> float:
        """Bound how far other records can move the computed vector of a record, by rounding.

        0, as here, if it is computed from this record alone.
        """
        return 0.0

    def largest_weight(self, block: BlockName, point: Point) -> float:
        """Public factor of the clipping norm of a block at a released point; 1 by default."""
        return 1.0

    def diameter(self, block: BlockName, anchor: Point | None) -> float:
        """Bound the distance of two records' clipped vectors, in units of the clipping norm.

        Between 1 and 2; 2 by default.
        """
        return 2.0

    def public_gradient(self, point: Point) -> Point:
        """Return the gradient of the data-free r; 0 by default."""
        return np.zeros(self.dimension_x), np.zeros(self.dimension_y)

    def best_dual(self, mean: np.ndarray) -> np.ndarray:
        """Maximise ``<y, mean> + r(x, y)`` over y, for a linear dual."""
        raise NotImplementedError

    def limit(
        self,
        clip: float,
        block: BlockName,
        point: Point,
        anchor: Point | None,
        size: float | None = None,
    ) -> float:
        """Return the norm to clip to, so that a record moves the computed sum by at most `clip`.

        `size` is a public bound on the number of records, by default their number: under add/remove
        neighbours a limit that follows from their number would move all vectors.

        Each of the vectors is off by a relative 1e-9 and by :meth:`rounding_error`, and their sum
        by the rounding of its additions (docs/theory/dp_rgda.md, "Rounding"). Where rounding is
        larger than the clip, all vectors are shortened until it no longer matters.
        """
        n = float(self.n_records if size is None else size)
        relative = ROUNDING_SLACK + 2.0 * n * two_sums(n)
        shifted = 2.0 * n * self.rounding_error(block, point, anchor)
        shifted = shifted if math.isfinite(shifted) else math.inf
        return max(clip / (relative + 2.0 * n), (clip - shifted) / relative)


class RecordGradients(MinimaxProblem):
    """A problem given by the matrix of its records' gradients; for small dimensions.

    Parameters
    ----------
    n_records, dimension_x, dimension_y : int
    gradients : callable ``(block, point, positions) -> ndarray (m, dimension)``
        Gradients of the records at some positions, each computed from its record alone.
    public_gradient : callable ``point -> (ndarray, ndarray)``, optional
        Of the data-free r.
    best_dual : callable, optional
        Declares that the dual is linear.
    """

    def __init__(
        self,
        n_records: int,
        dimension_x: int,
        dimension_y: int,
        gradients: Callable[[BlockName, Point, np.ndarray], np.ndarray],
        *,
        public_gradient: Callable[[Point], Point] | None = None,
        best_dual: Callable[[np.ndarray], np.ndarray] | None = None,
    ) -> None:
        self.n_records, self.dimension_x, self.dimension_y = n_records, dimension_x, dimension_y
        self.gradients = gradients
        if public_gradient is not None:
            self.public_gradient = public_gradient  # type: ignore[assignment]
        if best_dual is not None:
            self.best_dual, self.is_dual_linear = best_dual, True  # type: ignore[assignment]

    def clipped_sum(
        self,
        block: BlockName,
        point: Point,
        anchor: Point | None,
        limit: float,
        batch: np.ndarray | None,
    ) -> np.ndarray:
        def part(positions: np.ndarray) -> np.ndarray:
            vectors = self.gradients(block, point, positions)
            if anchor is not None:
                vectors = vectors - self.gradients(block, anchor, positions)
            return clip_rows(vectors, limit).sum(axis=0)

        chosen = np.arange(self.n_records) if batch is None else batch
        starts = range(0, len(chosen), self.block_size)
        total = tree_sum(part(chosen[start : start + self.block_size]) for start in starts)
        return np.zeros(self.dimension(block)) if total is None else np.asarray(total)


def clip_rows(vectors: np.ndarray, limit: float) -> np.ndarray:
    """Scale rows down to a Euclidean norm; a row that is not finite, or too long, becomes 0."""
    norms = np.linalg.norm(vectors, axis=1)
    if not np.isfinite(norms).all():
        vectors = np.where(np.isfinite(norms)[:, None], vectors, 0.0)
    return vectors * clip_factors(norms, limit)[:, None]


def clip_factors(norms: np.ndarray, limit: float) -> np.ndarray:
    """Return the factors that bring vectors of these norms to a limit; 0 for one not finite."""
    factors = limit / np.maximum(norms, limit) if limit > 0.0 else np.zeros_like(norms)
    return np.where(np.isfinite(norms), factors, 0.0)

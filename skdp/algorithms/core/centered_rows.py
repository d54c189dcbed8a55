"""Records as centered rows of about unit length, without a copy, and sums over them.

The numbers of a :class:`Centering` are released (:mod:`~.means`) or
public. Sums of gradients are over records whose gradients are clipped to a norm.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from skdp._runtime import Threads
from skdp.algorithms.core.margin_laws import CONSTANT
from skdp.problems import Design, Loss, Records
from skdp.problems.block import Block
from skdp.problems.chunked_records import ChunkedRecords
from skdp.problems.rounding import EPS, MOST_ROWS, tree_sum, two_norms, two_sums

#: Blocks of records in one part of centered rows: many steps are short of time, not of cache.
LONGER = 4
#: For statistics with a false attribute `needs_norms`.
_NO_NORMS = np.empty(0)


@dataclass(frozen=True, kw_only=True)
class Centering:
    """What is known of rows and targets before the first gradient step."""

    #: Shape (n_features,). Of the rows in units of the data norm; 0 without an intercept.
    mean: np.ndarray
    #: Root mean square distance of the rows from it, in (0, 1].
    scale: float
    #: Shape (n_outputs,). Margins of a constant model.
    offsets: np.ndarray
    #: Released number of records, which sums are divided by. None: the public one.
    n_records: float | None = None
    #: Deviations of the noise of a coordinate of the mean of rows, in units of the scale, and of
    #: the mean of targets. 0 and 1 where the offsets are no release.
    errors: tuple[float, float] = (0.0, 1.0)
    #: Value of the constant beside centered rows.
    constant: float = CONSTANT

    @classmethod
    def unknown(cls, n_features: int, n_outputs: int) -> Centering:
        """Return the centering without a release: none."""
        return cls(
            mean=np.zeros(n_features),
            scale=1.0,
            offsets=np.zeros(n_outputs),
        )


def sum_rounding(design: Design, bound: float) -> float:
    """Bound the rounding of two sums over records of vectors of a bounded norm."""
    n = design.n_records * design.size_ratio
    return float(two_sums(design.n_terms, LONGER * MOST_ROWS) * n * bound)


def squared_norms(block: Block) -> np.ndarray:
    """Squared Euclidean norms of bounded rows, without the intercept feature; shape (m,)."""
    return block.lengths**2


class CenteringMap:
    """Rows ``A = ((u - mean) / scale, constant)`` of bounded rows, u in units of their bound.

    The constant is missing without an intercept. Weights and sums are moved between A and the rows
    ``(x, 1)``.
    """

    def __init__(self, data_norm: float, has_intercept: bool, centering: Centering) -> None:
        self.has_intercept, self.centering = has_intercept, centering
        #: Released number of records, if there is one.
        self.n_counted = centering.n_records
        #: The scale in units of rows, and the mean of the rows in units of the scale.
        self.unit = data_norm * centering.scale
        self.shift = centering.mean / centering.scale
        #: Value of the constant; 0 without an intercept.
        self.constant = centering.constant if has_intercept else 0.0
        mean = float(np.linalg.norm(centering.mean))
        #: Bound on the norm of A for every conceivable row.
        self.norm_bound = (1.0 + mean) / centering.scale + self.constant
        self.amplification = self.norm_bound / self.constant if has_intercept else 1.0
        #: Error of a squared norm of A relative to it, in units of that of ``|u|^2`` to ``|u|^2``:
        #: a bound on ``(|u| + |m|)^2 / (scale |A|)^2`` over all rows (Lemma 6).
        self.cancellation = 1.0
        if has_intercept:
            off_center = 9.0 * max(1.0, float(np.linalg.norm(self.shift)) / self.constant) ** 2
            self.cancellation = min(self.amplification**2, off_center)

    def weights(self, weights: np.ndarray) -> np.ndarray:
        """Turn weights of A into weights of ``(x, 1)``, or of x without an intercept."""
        if not self.has_intercept:
            return weights / self.unit
        out = weights / self.unit
        out[:, -1] = self.constant * weights[:, -1] - weights[:, :-1] @ self.shift
        return out

    def coefficients(
        self, weights: np.ndarray, offsets: np.ndarray, intercept: float
    ) -> np.ndarray:
        """Turn weights of A and margins beside them into flat weights of ``(x, intercept)``."""
        point = self.weights(weights)
        if intercept:
            point[:, -1] = (point[:, -1] + offsets) / intercept
        return point.ravel()

    def sums(self, sums: np.ndarray) -> np.ndarray:
        """Turn ``sum_i r_i (x_i, 1)`` into ``sum_i r_i A_i``."""
        out = sums / self.unit
        if self.has_intercept:
            out[:, :-1] -= sums[:, -1:] * self.shift
            out[:, -1] = self.constant * sums[:, -1]
        return out

    def products(self, gram: np.ndarray) -> np.ndarray:
        """Turn ``sum_i r_i (x_i, 1) (x_i, 1)'`` into ``sum_i r_i A_i A_i'``."""
        return self.sums(self.sums(gram).T)


class CenteredRecords(CenteringMap, ABC):
    """Records as these rows."""

    records: Any

    @abstractmethod
    def full_total(self, statistic: Callable[[Block, np.ndarray], np.ndarray]) -> np.ndarray:
        """Sum a statistic over all records, in their order."""


class CenteredRows(CenteredRecords):
    """View records as centered rows; nothing is copied but where said.

    With `has_threads`, threads share sparse rows, whose products have none.
    """

    def __init__(self, records: Records, centering: Centering, has_threads: bool = True) -> None:
        if records.factors is not None:  # norms would not know them
            raise ValueError("Records whose columns are scaled have no centered rows.")
        super().__init__(records.data_norm, records.intercept > 0.0, centering)
        self.records = records.with_intercept(1.0 if self.has_intercept else 0.0)
        self._threads = Threads() if records.is_sparse and has_threads else None
        n, size = records.n_records, LONGER * records.block_size
        if self._threads is not None and n > records.block_size:
            size = -(-n // (4 * -(-n // size)))  # four parts in place of one, for threads to share
        is_double = records.matrix.dtype == np.float64
        #: Parts of the records, which are made once, but for rows in single precision.
        self._parts: list[slice | Block] = []
        for start in range(0, max(n, 1), size):
            part = slice(start, min(start + size, n))
            self._parts.append(self.records.block(part) if is_double else part)

    @cached_property
    def norms(self) -> list[np.ndarray]:
        """Upper bounds on the norms of A, for each part of the records."""
        return list(map(self._norms, self._parts))

    def _block(self, part: slice | Block) -> Block:
        return part if isinstance(part, Block) else self.records.block(part)

    def full_total(self, statistic: Callable[[Block, np.ndarray], np.ndarray]) -> np.ndarray:
        # parts of sparse rows in threads, since their products have none
        parts, norms = self._parts, [_NO_NORMS] * len(self._parts)
        if getattr(statistic, "needs_norms", True):
            norms = self.norms
        if len(parts) == 1:
            return statistic(self._block(parts[0]), norms[0])
        if self._threads is None:
            return tree_sum(map(statistic, map(self._block, parts), norms))

        def of_part(part: slice | Block, norms: np.ndarray) -> np.ndarray:
            return statistic(self._block(part), norms)

        return tree_sum(self._threads.map(of_part, parts, norms))

    def _norms(self, part: slice | Block) -> np.ndarray:
        block, d = self._block(part), len(self.shift)
        squares = squared_norms(block) / self.unit**2
        if not self.has_intercept:
            squares *= 1.0 + (d + 8) * EPS
        else:
            shift = np.append(self.shift / self.unit, 0.0)[None, :]
            squares -= 2.0 * block.margins(shift)
            # the products cancel: an upper bound on their rounding is added
            squares += self.shift @ self.shift + self.constant**2
            squares += two_norms(d, (self.norm_bound - self.constant) ** 2)
        return np.sqrt(np.maximum(squares, 0.0))


@dataclass(frozen=True, kw_only=True)
class ClippedGradients:
    """Sums of clipped gradients in coordinates ``(x, 1)``.

    The gradient of a record is ``r A`` with its residual r, the derivative of the loss at the
    margin ``A w + offset``: it is clipped by shortening r to ``clip_norm / |A|``, and then
    multiplied by the factor of the record's group.
    """

    loss: Loss
    #: Shape (n_outputs, width). Of ``(x, 1)``.
    weights: np.ndarray
    #: Shape () or (n_outputs,).
    offset: np.ndarray
    clip_norm: float
    #: Shape (n_groups,), or None.
    group_factors: np.ndarray | None = None

    def __call__(self, block: Block, norms: np.ndarray) -> np.ndarray:
        return block.pull_back(self.residuals(block, norms))

    def residuals(self, block: Block, norms: np.ndarray) -> np.ndarray:
        """Return the residuals of the clipped gradients, shape (m,) or (m, n_outputs)."""
        margins = block.margins(self.weights)
        margins += self.offset
        residuals = self.loss.derivative(margins, block.targets)
        if residuals.ndim == 1:
            limits = self.clip_norm / norms
            residuals = np.minimum(residuals, limits)
            residuals = np.maximum(residuals, np.negative(limits, out=limits), out=limits)
        else:
            lengths = np.sqrt(np.einsum("ij,ij->i", residuals, residuals))
            factors = np.minimum(1.0, self.clip_norm / np.maximum(lengths * norms, 1e-300))
            residuals = residuals * factors[:, None]
        if self.group_factors is not None:
            own = self.group_factors[block.groups]
            residuals = residuals * (own if residuals.ndim == 1 else own[:, None])
        return residuals


@dataclass(frozen=True, kw_only=True)
class CenteredTotal:
    """Sum a statistic of centered rows over the records of a chunk."""

    centering: Centering
    statistic: Callable[[Block, np.ndarray], np.ndarray]

    def __call__(self, records: Records) -> np.ndarray:
        rows = CenteredRows(records, self.centering, has_threads=False)
        return rows.full_total(self.statistic)


class CenteredChunks(CenteredRecords):
    """View records of a source as centered rows."""

    def __init__(self, records: ChunkedRecords, centering: Centering) -> None:
        super().__init__(records.data_norm, records.intercept > 0.0, centering)
        self.records = records

    def full_total(self, statistic: Callable[[Block, np.ndarray], np.ndarray]) -> Any:
        total = CenteredTotal(centering=self.centering, statistic=statistic)
        return self.records.chunk_total(total)


def centered(records: Records | ChunkedRecords, centering: Centering) -> CenteredRecords:
    """View records as centered rows."""
    if isinstance(records, ChunkedRecords):
        return CenteredChunks(records, centering)
    return CenteredRows(records, centering)

"""Records as prepared rows: centred, whitened, with a constant; a view, nothing is copied."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdp.algorithms.legacy_solves import rules
from skdp.problems import Records
from skdp.problems.block import Block
from skdp.problems.chunked_records import ChunkedRecords
from skdp.problems.loss_sums import GradientSum
from skdp.problems.matrices import read_only_view, scaled_rows
from skdp.problems.records import Part
from skdp.problems.rounding import EPS, MOST_ROWS, ROUNDING_SLACK

#: Blocks of records in one of prepared rows: many passes are short of time, not of cache.
_LONGER = 4


@dataclass(frozen=True, kw_only=True)
class AffineMap:
    """The map from a row ``(x, 1)`` to ``W (u - m) / rho``, u the row over its norm bound.

    Attributes
    ----------
    matrix : ndarray of shape (n_features, n_features + 1)
    constant : float
        Value of the constant beside the whitened row; 0 for none, and then m is 0.
    raw_norm : float
        Bound on the norm of a whitened row before it is shortened.
    largest_norm : float
        Norm that longer whitened rows are shortened to, > 0.
    """

    matrix: np.ndarray
    constant: float
    raw_norm: float
    largest_norm: float

    @classmethod
    def of(
        cls, whitener: np.ndarray, mean: np.ndarray, scale: float, data_norm: float, constant: float
    ) -> AffineMap:
        """Make it from released numbers and the public norm bound."""
        moved = whitener / scale
        matrix = np.column_stack([moved / data_norm, -(moved @ mean)])
        size = float(np.linalg.norm(moved, 2)) if len(moved) else 0.0
        return cls(
            matrix=matrix,
            constant=constant,
            raw_norm=size * (1.0 + float(np.linalg.norm(mean))),
            largest_norm=rules.LARGEST_NORM,
        )

    def weights(self, weights: np.ndarray) -> np.ndarray:
        """Turn weights of prepared rows, none of which is shortened, into weights of ``(x, 1)``."""
        d = len(self.matrix)
        out = weights[:, :d] @ self.matrix
        if self.constant:
            out[:, d] += self.constant * weights[:, d]
        return np.asarray(out)

    def sums(self, sums: np.ndarray) -> np.ndarray:
        """Turn sums of ``r (x, 1)`` into those of prepared rows, none of which is shortened."""
        out = sums @ self.matrix.T
        return np.column_stack([out, self.constant * sums[:, -1]]) if self.constant else out

    @property
    def norm_bound(self) -> float:
        """Bound on the norm of a prepared row."""
        longest = min(self.raw_norm, self.largest_norm)
        return math.hypot(longest, self.constant) * ROUNDING_SLACK

    @property
    def least_norm(self) -> float:
        """The constant, which rows without one may be shorter than."""
        return 1.0 / math.sqrt(len(self.matrix))

    @property
    def relative_rounding(self) -> float:
        """Bound the error of a norm of a prepared row, relative to it or, if longer, `least`."""
        d = len(self.matrix)
        return 8.0 * (d + 8) * EPS * max(1.0, self.raw_norm / self.least_norm) ** 2


@dataclass(frozen=True)
class PreparedBlock:
    """Some prepared records, with the products that problems need of them.

    `inner` holds the rows ``(x, 1)``, `scale` the factors that shorten whitened rows; None when all
    are one.
    """

    inner: Block
    affine: AffineMap
    scale: np.ndarray | None

    def _scaled(self, values: np.ndarray) -> np.ndarray:
        return values if self.scale is None else scaled_rows(values, self.scale)

    @property
    def positions(self) -> slice | np.ndarray:
        return self.inner.positions

    @property
    def targets(self) -> Any:
        return self.inner.targets

    def sum(self, values: np.ndarray) -> Any:
        """As :meth:`skdp.problems.block.Block.sum`."""
        return self.inner.sum(values)

    def margins(self, weights: np.ndarray) -> np.ndarray:
        """As :meth:`skdp.problems.block.Block.margins`."""
        d = len(self.affine.matrix)
        margins = self._scaled(self.inner.margins(weights[:, :d] @ self.affine.matrix))
        if self.affine.constant:
            margins += self.affine.constant * (
                weights[0, d] if margins.ndim == 1 else weights[:, d]
            )
        return margins

    def pull_back(self, residuals: np.ndarray) -> np.ndarray:
        """As :meth:`skdp.problems.block.Block.pull_back`."""
        sums = self.inner.pull_back(self._scaled(residuals)) @ self.affine.matrix.T
        if not self.affine.constant:
            return sums
        out = np.empty((len(sums), sums.shape[1] + 1))
        out[:, :-1], out[:, -1] = sums, self.affine.constant * self.inner.sum(residuals)
        return out

    def gram(self, weights: np.ndarray, rough: bool = False) -> np.ndarray:
        """As :meth:`skdp.problems.block.Block.gram`."""
        matrix, constant = self.affine.matrix, self.affine.constant
        scaled = self._scaled(weights)
        inner = self.inner.gram(self._scaled(scaled), rough)
        gram = matrix @ inner @ matrix.T
        if not constant:
            return gram
        sums = inner[-1:] if self.scale is None else self.inner.pull_back(scaled)
        cross = constant * (sums @ matrix.T)
        corner = np.array([[constant**2 * self.inner.sum(weights)]])
        return np.block([[gram, cross.T], [cross, corner]])

    def rows(self) -> np.ndarray:
        """Form the rows, shape (m, width)."""
        rows = self._scaled(self.inner.rows() @ self.affine.matrix.T)
        if not self.affine.constant:
            return rows
        return np.column_stack([rows, np.full(len(rows), self.affine.constant)])


@dataclass(frozen=True)
class OfRawRows:
    """Sum of gradients over the rows ``(x, 1)`` of prepared records."""

    terms: GradientSum

    def __call__(self, block: Any) -> np.ndarray:
        return self.terms(block.inner)


class PreparedRecords(Records):
    """View bounded records as prepared rows ``(b, constant)``.

    Parameters
    ----------
    records : Records
    affine : AffineMap

    Attributes
    ----------
    norms : ndarray of shape (n_records,)
        Upper bounds on the norms of the prepared rows, at least the constant.
    """

    def __init__(self, records: Records, affine: AffineMap) -> None:
        if records.factors is not None:
            raise ValueError("Records whose columns are scaled have no prepared rows.")
        self.__dict__.update(records.__dict__)
        self.intercept, self.affine = 1.0, affine
        self.block_size = min(_LONGER * records.block_size, MOST_ROWS)
        self.norms, self._shortened = self._lengths()

    @property
    def width(self) -> int:
        return int(self.matrix.shape[1]) + bool(self.affine.constant)

    @property
    def norm_bound(self) -> float:
        return self.affine.norm_bound

    def with_limits(
        self, clip: float, factors: np.ndarray | None = None, steepest: float | None = None
    ) -> PreparedRecords:
        """Put the largest slope of each record, which clips its gradient, beside its target.

        And, if there are any, the factor of its loss; parameters as of :class:`ClippedSlopes`.
        """
        other = copy.copy(self)
        # each column is read by itself
        n_columns = 2 if factors is None and steepest is None else 3
        columns = np.empty((self.n_records, n_columns), order="F")
        columns[:, 0] = self.targets
        norms = np.maximum(self.norms, self.affine.least_norm)
        columns[:, 1] = clip / norms
        if factors is not None:
            columns[:, 2] = factors[self.groups]
        if steepest is not None:
            shorter = np.minimum(rules.LONG_ROW / norms, 1.0) ** 2
            smaller = np.maximum(shorter, np.minimum(columns[:, 1] / steepest, 1.0))
            columns[:, 1] /= smaller
            columns[:, 2] = smaller if factors is None else smaller * columns[:, 2]
        other.targets = read_only_view(columns)
        return other

    def _lengths(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Return upper bounds on the norms, and the factors that shorten whitened rows, if any."""
        matrix, lengths = self.affine.matrix, np.empty(self.n_records)
        for start in range(0, self.n_records, self.block_size):
            part = slice(start, min(start + self.block_size, self.n_records))
            whitened = super().block(part).margins(matrix)
            whitened = whitened.reshape(part.stop - start, len(matrix))  # of one feature, too
            lengths[part] = np.sqrt(np.einsum("ij,ij->i", whitened, whitened))
        longest = self.affine.largest_norm
        shortened = longest / np.maximum(lengths, longest)
        norms = np.hypot(lengths * shortened, self.affine.constant)
        norms *= 1.0 + self.affine.relative_rounding
        are_whole = shortened.min(initial=1.0) == 1.0
        return read_only_view(norms), None if are_whole else read_only_view(shortened)

    def block(self, positions: Part, raw: bool = False) -> Any:
        scale = None if self._shortened is None else self._shortened[positions]
        return PreparedBlock(super().block(positions, raw), self.affine, scale)

    def total(
        self, statistic: Callable[[Any], Any], raw: bool = False, part: Part = slice(None)
    ) -> Any:
        if not isinstance(statistic, GradientSum) or self._shortened is not None:
            return super().total(statistic, raw, part)
        # the map is linear: weights are mapped once, and the sum
        of_rows = GradientSum(statistic.loss, self.affine.weights(statistic.weights))
        return self.affine.sums(super().total(OfRawRows(of_rows), raw, part))

    def take(self, positions: Part, view: bool = False) -> PreparedRecords:
        part = super().take(positions, view)
        assert isinstance(part, PreparedRecords)
        part.norms = read_only_view(self.norms[positions])
        if self._shortened is not None:
            part._shortened = read_only_view(self._shortened[positions])
        return part


@dataclass(frozen=True, kw_only=True)
class ClippedSlopes:
    """View bounded records as prepared rows, with limits on the norm of a gradient.

    Attributes
    ----------
    affine : AffineMap
    clip : float
        The limit.
    factors : ndarray of shape (n_groups,), optional
        Of the losses of the groups, each at most 1.
    steepest : float, optional
        Largest length of the derivative of the loss. If it is given, losses of long rows have
        factors that are smaller, so that their slopes are clipped less, those of the longest rows
        not at all: a clipped slope is small where one of few classes is rare.
    """

    affine: AffineMap
    clip: float
    factors: np.ndarray | None = None
    steepest: float | None = None

    def __call__(self, records: Records) -> PreparedRecords:
        return PreparedRecords(records, self.affine).with_limits(
            self.clip, self.factors, self.steepest
        )

    def of(self, records: Records | ChunkedRecords) -> Any:
        """View records in memory, or those of every chunk where it is read."""
        return self(records) if isinstance(records, Records) else records.viewed(self)

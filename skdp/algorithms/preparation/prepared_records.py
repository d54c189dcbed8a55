"""Records as prepared rows: centred, whitened, with a constant; a view, nothing is copied."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdp.algorithms.preparation import rules
from skdp.problems import Records
from skdp.problems.block import Block
from skdp.problems.chunked_records import ChunkedRecords
from skdp.problems.matrices import read_only_view
from skdp.problems.records import Part
from skdp.problems.rounding import EPS, ROUNDING_SLACK


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

    `inner` holds the rows ``(x, 1)``, `scale` the factors that shorten whitened rows.
    """

    inner: Block
    affine: AffineMap
    scale: np.ndarray

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
        margins = self.inner.margins(weights[:, :d] @ self.affine.matrix)
        margins *= self.scale if margins.ndim == 1 else self.scale[:, None]
        if self.affine.constant:
            margins += self.affine.constant * (
                weights[0, d] if margins.ndim == 1 else weights[:, d]
            )
        return margins

    def pull_back(self, residuals: np.ndarray) -> np.ndarray:
        """As :meth:`skdp.problems.block.Block.pull_back`."""
        scale = self.scale if residuals.ndim == 1 else self.scale[:, None]
        sums = self.inner.pull_back(residuals * scale) @ self.affine.matrix.T
        if not self.affine.constant:
            return sums
        constants = self.affine.constant * np.atleast_1d(self.inner.sum(residuals))
        return np.column_stack([sums, constants])

    def gram(self, weights: np.ndarray, rough: bool = False) -> np.ndarray:
        """As :meth:`skdp.problems.block.Block.gram`."""
        matrix, constant = self.affine.matrix, self.affine.constant
        scaled = weights * self.scale
        gram = matrix @ self.inner.gram(scaled * self.scale, rough) @ matrix.T
        if not constant:
            return gram
        cross = constant * (self.inner.pull_back(scaled) @ matrix.T)
        corner = np.array([[constant**2 * self.inner.sum(weights)]])
        return np.block([[gram, cross.T], [cross, corner]])

    def rows(self) -> np.ndarray:
        """Form the rows, shape (m, width)."""
        rows = (self.inner.rows() @ self.affine.matrix.T) * self.scale[:, None]
        if not self.affine.constant:
            return np.asarray(rows)
        return np.column_stack([rows, np.full(len(rows), self.affine.constant)])


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
        self.norms, self._shortened = self._lengths()

    @property
    def width(self) -> int:
        return int(self.matrix.shape[1]) + bool(self.affine.constant)

    @property
    def norm_bound(self) -> float:
        return self.affine.norm_bound

    def with_limits(self, clip: float, factors: np.ndarray | None = None) -> PreparedRecords:
        """Put the largest slope of each record, which clips its gradient, beside its target.

        And, if there are any, the factor of its group.
        """
        other = copy.copy(self)
        # each column is read by itself
        columns = np.empty((self.n_records, 2 + (factors is not None)), order="F")
        columns[:, 0] = self.targets
        columns[:, 1] = clip / np.maximum(self.norms, self.affine.least_norm)
        if factors is not None:
            columns[:, 2] = factors[self.groups]
        other.targets = read_only_view(columns)
        return other

    def _lengths(self) -> tuple[np.ndarray, np.ndarray]:
        """Return upper bounds on the norms, and the factors that shorten whitened rows."""
        matrix, lengths = self.affine.matrix, np.empty(self.n_records)
        for start in range(0, self.n_records, self.block_size):
            part = slice(start, min(start + self.block_size, self.n_records))
            whitened = super().block(part).rows() @ matrix.T
            lengths[part] = np.sqrt(np.einsum("ij,ij->i", whitened, whitened))
        longest = self.affine.largest_norm
        shortened = longest / np.maximum(lengths, longest)
        norms = np.hypot(lengths * shortened, self.affine.constant)
        norms *= 1.0 + self.affine.relative_rounding
        return read_only_view(norms), read_only_view(shortened)

    def block(self, positions: Part, raw: bool = False) -> Any:
        return PreparedBlock(super().block(positions, raw), self.affine, self._shortened[positions])

    def take(self, positions: Part, view: bool = False) -> PreparedRecords:
        part = super().take(positions, view)
        assert isinstance(part, PreparedRecords)
        part.norms = read_only_view(self.norms[positions])
        part._shortened = read_only_view(self._shortened[positions])
        return part


@dataclass(frozen=True, kw_only=True)
class ClippedSlopes:
    """View bounded records as prepared rows, with limits on the norm of a gradient.

    `factors` are those of the losses of groups, each at most 1; None: there are none.
    """

    affine: AffineMap
    clip: float
    factors: np.ndarray | None = None

    def __call__(self, records: Records) -> PreparedRecords:
        return PreparedRecords(records, self.affine).with_limits(self.clip, self.factors)

    def of(self, records: Records | ChunkedRecords) -> Any:
        """View records in memory, or those of every chunk where it is read."""
        return self(records) if isinstance(records, Records) else records.viewed(self)

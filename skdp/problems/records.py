"""Records: bounded rows of a dense or CSR matrix, with targets and groups.

Each row x_i enters every computation as ``(s_i x_i, c)``: scaled down to the public norm
bound and followed by the constant intercept feature. Neither is materialised, so no copy of X is
made. Work goes block by block, which keeps a block in cache between its two products.

Records may have weights in [0, 1], which every sum over them has. Records of a person are beside
each other and have weights that add up to 1 at most (:mod:`skdp.problems.persons`).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.extmath import row_norms

from skdp._records import check_sparse_format
from skdp._runtime import without_warnings
from skdp.problems.block import Block
from skdp.problems.losses import Loss
from skdp.problems.matrices import (
    HUGE,
    Matrix,
    csr_view,
    read_only,
    read_only_view,
    row_products,
    shrink_huge_rows,
    solver_copy,
)
from skdp.problems.persons import person_starts, rows_of
from skdp.problems.rounding import LEAST_ROWS, MOST_ROWS, tree_sum

#: Positions of some records.
Part = slice | np.ndarray

#: Bytes of one dense block, about half of a core's second-level cache.
_BLOCK_BYTES = 1 << 19
#: Numbers in a block of rows for matrices of second moments: 4 MB, which stay in a cache.
_GRAM_NUMBERS = 1 << 19
#: Rows of one block of scores, so that few operations are on short columns.
_SCORED_ROWS = 1 << 12
#: Norm bounds above which no row in single precision is that long.
_LEAST_SINGLE = 1e-50


class Records:
    """Rows of X, each scaled down to Euclidean norm `data_norm`, plus an intercept feature.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n_records, n_features), float64 or float32
        All arithmetic is in double precision. X is never written to, and copied in these cases
        only: a CSR matrix with duplicate entries; a dense X that is neither C- nor F-contiguous,
        such as every second column of a table; single precision where `data_norm` is below 1e-50;
        and rows so long that their squares could overflow.
    data_norm : float
        Public bound on the norm of a row, in the units of X.
    intercept : float, default=0.0
        Value of the constant feature appended after the scaling; 0 for none.
    targets, groups : ndarray, optional
        One entry per row, in the encoding of the loss and as integers from 0 on. Kept as
        read-only views.

    Attributes
    ----------
    is_sparse : bool
        Whether X is a CSR matrix.
    n_features : int
        Without the intercept.
    shares : ndarray of shape (n_records,) or None
        Weights of the records, from :meth:`of_units`.
    persons : ndarray of int, shape (n_records,), or None
        Whose record each is, ascending.
    is_slack : bool
        Whether the weights of a unit may add up to less than 1.
    """

    in_memory = True
    shares: np.ndarray | None = None
    persons: np.ndarray | None = None
    is_slack = False
    scale: np.ndarray | None = None
    factors: np.ndarray | None = None
    #: Norms of the bounded rows, without the intercept feature.
    lengths: Any = None
    #: Rows of the matrix that are the records; None for all.
    selected: np.ndarray | None = None

    @without_warnings()
    def __init__(
        self,
        X: Matrix,
        data_norm: float,
        intercept: float = 0.0,
        *,
        targets: Any = None,
        groups: Any = None,
    ) -> None:
        check_sparse_format(X)
        if sp.issparse(X):  # without the caller's flags, which may be stale
            X = type(X)((X.data, X.indices, X.indptr), shape=X.shape, copy=False)
        if sp.issparse(X) and not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
            largest = np.finfo(X.dtype).max
            np.clip(X.data, -largest, largest, out=X.data)  # a sum may have overflown
        # how the others are stored must not depend on a row that makes a copy necessary below
        if X.dtype == np.float32 and data_norm < _LEAST_SINGLE:
            X = X.astype(np.float64)
        if not (sp.issparse(X) or X.flags.forc):
            X = X.copy(order="K")
        self.matrix, self.is_sparse = read_only(X), bool(sp.issparse(X))
        self.n_features = int(X.shape[1])
        self.data_norm = data_norm
        self.intercept = intercept
        self.targets, self.groups = self._column("targets", targets), self._column("groups", groups)
        fitting = MOST_ROWS if self.is_sparse else _BLOCK_BYTES // (8 * max(1, X.shape[1]))
        self.block_size = min(max(fitting, LEAST_ROWS), MOST_ROWS)
        scale, norms = self._row_scale()
        # whichever row is the reason, a row is shortened by its own entries alone
        if scale is not None and not (scale * HUGE >= 2.0 * X.shape[1]).all():
            self.matrix = read_only(shrink_huge_rows(X, data_norm))
            scale, norms = self._row_scale()
        if scale is not None:
            self.scale = read_only_view(scale)
        self.lengths = read_only_view(norms if scale is None else norms * scale)

    def with_targets(self, targets: Any, groups: Any = None) -> Records:
        """Replace targets and groups; nothing is copied."""
        other = copy.copy(self)
        other.targets = self._column("targets", targets)
        other.groups = self._column("groups", groups)
        return other

    def with_intercept(self, intercept: float) -> Records:
        """Replace the value of the intercept feature; nothing is copied."""
        other = copy.copy(self)
        other.intercept = intercept
        return other

    def scaled(self, factors: np.ndarray) -> Records:
        """View the records with each column multiplied by a factor > 0; nothing is copied.

        `factors` has shape (width,), the intercept feature's last. `data_norm` and `intercept` stay
        those of the rows before it, :attr:`norm_bound` is that after it.
        """
        other = copy.copy(self)
        other.factors = read_only_view(factors if self.factors is None else self.factors * factors)
        return other

    def viewed(self, view: Callable[[Records], Records]) -> Records:
        """View the records: as of records in chunks, which are viewed where they are read."""
        return view(self)

    def check_targets(self, loss: Loss) -> None:
        """Refuse targets that are missing or not in the encoding of `loss`."""
        if self.targets is None:
            raise ValueError("The records have no targets.")
        loss.check_targets(self.targets)

    def _column(self, name: str, column: Any) -> Any:
        """One entry per row, as a read-only view; None stays None."""
        if column is None:
            return None
        column = np.asarray(column)
        if column.ndim == 0 or len(column) != self.n_records:
            raise ValueError(
                f"{name} has shape {column.shape}, but there are {self.n_records} records."
            )
        return read_only_view(column)

    def _row_scale(self) -> tuple[np.ndarray | None, np.ndarray]:
        """Return factors that bring rows to the norm bound, None when all are one, and norms."""
        # without conversion there are no copies, and one block is fastest
        size = self.n_records if self.matrix.dtype == np.float64 else self.block_size
        norms = np.concatenate([np.zeros(0), *(row_norms(b.matrix) for b in self.blocks(size))])
        is_long = (norms > self.data_norm).any()
        return self.data_norm / np.maximum(norms, self.data_norm) if is_long else None, norms

    @without_warnings()
    def of_units(
        self, weights: Any = None, persons: Any = None, max_records: int | None = None
    ) -> Records:
        """Give the records weights in [0, 1] in every sum, and persons, each of which may be None.

        Weights are multiplied by those that the records have and, with persons, by one over the
        number of records of each, or `max_records` if larger; records whose weight is 0 do not
        count. The records of a person come to stand beside each other: a dense X is then copied
        block by block when it is needed, a CSR matrix at once, and neither if they stand so
        already. `persons` has their codes, from 0 on without a gap.
        """
        other = copy.copy(self)
        if weights is not None:
            weights = weights if self.shares is None else weights * self.shares
            other.shares, other.is_slack = self._column("weights", weights), True
        if persons is None:
            return other
        if (np.diff(persons) < 0).any():
            order = np.argsort(persons, kind="stable")
            other, persons = other.take(order, view=True), persons[order]
        counted = np.ones(len(persons)) if other.shares is None else other.shares
        numbers = np.bincount(persons, weights=counted > 0.0)
        shares = counted / np.maximum(numbers, max_records or 1)[persons]
        other.persons, other.shares = read_only_view(persons), read_only_view(shares)
        other.is_slack = other.is_slack or max_records is not None
        return other

    @property
    def n_units(self) -> int:
        """Number of persons, or of records where each is a unit of its own."""
        return self.n_records if self.persons is None else len(self.starts) - 1

    @property
    def starts(self) -> np.ndarray:
        """Where the records of each person start, and the number of records; (n_units + 1,)."""
        assert self.persons is not None
        return person_starts(self.persons)

    def records_of(self, units: np.ndarray) -> np.ndarray:
        """Return the positions of the records of some units, unit by unit."""
        if self.persons is None:
            return units
        return rows_of(self.starts, units)

    @property
    def n_records(self) -> int:
        return int(self.matrix.shape[0]) if self.selected is None else len(self.selected)

    @property
    def width(self) -> int:
        """Number of features including the intercept."""
        return self.n_features + bool(self.intercept)

    @property
    def norm_bound(self) -> float:
        """Euclidean norm that no row exceeds, intercept feature included."""
        return scaled_norm(self.data_norm, self.intercept, self.factors)

    def blocks(self, size: int | None = None) -> Iterator[Block]:
        """Consecutive blocks of `size` rows (default: block_size) that cover every row once."""
        return map(self.block, _slices(self.n_records, size or self.block_size))

    def block(self, positions: slice | np.ndarray) -> Block:
        """Return some of the records, in double precision.

        Consecutive rows, and each m-th row of a dense X, come as a view if X is float64; other rows
        as a copy.
        """
        scale = None if self.scale is None else self.scale[positions]
        if scale is not None and scale.min(initial=1.0) == 1.0:
            scale = None
        part = self.matrix
        if not sp.issparse(part):
            part = self._rows(positions).astype(np.float64, copy=False)
        elif isinstance(positions, slice) and positions.step in (None, 1):
            pointers = part.indptr[positions.start : positions.stop + 1]
            entries = slice(pointers[0], pointers[-1])
            data = part.data[entries].astype(np.float64, copy=False)
            part = csr_view(part, data, part.indices[entries], pointers - pointers[0])
        else:
            part = part[positions].astype(np.float64, copy=False)
        columns: dict[str, Any] = {"factors": self.factors}
        for name in ("targets", "groups", "lengths", "shares", "persons"):
            column = getattr(self, name)
            columns[name] = None if column is None else column[positions]
        return Block(positions, part, scale, self.intercept, **columns)

    def _rows(self, positions: slice | np.ndarray) -> Matrix:
        """Return rows of the records as they are stored."""
        rows = positions if self.selected is None else self.selected[positions]
        if self.is_sparse or isinstance(rows, slice):
            return self.matrix[rows]
        if not self.matrix.flags.c_contiguous:
            return self.matrix.T.take(rows, axis=1).T  # by rows, all of X would be copied first
        return self.matrix.take(rows, axis=0)  # faster than by brackets

    def margins(self, weights: np.ndarray) -> np.ndarray:
        """Return the products of all rows with each weight vector, shape (n_records, k)."""
        margins = np.empty((self.n_records, len(weights)))
        for block in self.blocks():
            margins[block.positions] = block.margins(weights).reshape(-1, len(weights))
        return margins

    def scores(self, weights: np.ndarray) -> np.ndarray:
        """Multiply all rows by weight vectors without an intercept, shape (n_records, k).

        The numbers of a record do not depend on its place or on other records, so that they may be
        ranked, compared and counted. Slower than :meth:`margins`; `factors` play no part.
        """
        scores = np.empty((self.n_records, len(weights)))
        for block in self.blocks(max(self.block_size, _SCORED_ROWS)):
            scores[block.positions] = row_products(block.matrix, weights, self.data_norm)
        return scores

    def read_only_copy(self) -> Records:
        """Copy the object, not its entries, so that changes of its parts do not reach this one.

        The entries are shared and read-only (``ndarray.fill`` of numpy 1.24 ignores that); pointers
        to the rows of a CSR matrix are copied, because methods of old versions of scipy fill them.
        """
        other = solver_copy(self)
        other.matrix = read_only(self.matrix)
        if self.is_sparse:
            other.matrix.indptr = self.matrix.indptr.copy()
        return other

    def total(self, statistic: Callable[[Block], Any], part: Part = slice(None)) -> Any:
        """Sum a statistic over blocks in the tree of :mod:`skdp.problems.rounding`.

        It turns a block into a number, a new array or a tuple of these, the sum over its records.
        `part` has the positions of the records to sum over.
        """
        chosen: Any = range(*part.indices(self.n_records)) if isinstance(part, slice) else part

        def sums() -> Iterator[Any]:
            for each in _slices(max(1, len(chosen)), self.block_size):
                piece = chosen[each]
                if isinstance(piece, range):
                    piece = slice(piece.start, piece.stop, piece.step)
                yield statistic(self.block(piece))

        return tree_sum(sums())

    def gram(self, curvature: Callable[[Block], np.ndarray], n_outputs: int = 1) -> np.ndarray:
        """Return ``sum_i C_i (x) x_i x_i'`` for symmetric matrices C_i, shape (k * width,) * 2.

        `curvature` turns a block of m rows into its C_i, shape (m,) for numbers or (m, k, k) for k
        outputs.
        """
        k, total = n_outputs, np.zeros((n_outputs, self.width) * 2)
        # products of matrices want larger blocks; there are k^2 numbers per row
        size = max(16, max(self.block_size, _GRAM_NUMBERS // self.width) // k**2)
        for block in self.blocks(size):
            weights = curvature(block).reshape(-1, k, k)
            for a, b in zip(*np.tril_indices(k), strict=True):
                if weights[:, a, b].any():
                    part = np.ascontiguousarray(weights[:, a, b])
                    total[a, :, b] += block.gram(part)
        for a, b in zip(*np.tril_indices(k, -1), strict=True):
            total[b, :, a] = total[a, :, b]
        return total.reshape(k * self.width, k * self.width)

    @without_warnings()
    def materialise(self) -> Matrix:
        """Copy the rows as computations see them: scaled, with the intercept feature."""
        return self.block(slice(0, self.n_records)).rows()

    def take(self, positions: slice | np.ndarray, view: bool = False) -> Records:
        """Copy some of the records.

        With ``view=True``, rows of a dense X at positions in an array are copied block by block
        when they are needed. The other records then stay within reach of who gets the view.
        """
        part = copy.copy(self)
        if view and isinstance(positions, np.ndarray) and not self.is_sparse:
            part.selected = positions if self.selected is None else self.selected[positions]
        else:
            rows = self._rows(positions)
            part.matrix = read_only(rows if self.is_sparse else np.ascontiguousarray(rows))
            part.selected = None
        for name in ("scale", "lengths", "targets", "groups", "shares", "persons"):
            column = getattr(self, name)
            setattr(part, name, None if column is None else read_only_view(column[positions]))
        return part


def _slices(n: int, size: int) -> Iterator[slice]:
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def scaled_norm(data_norm: float, intercept: float, factors: np.ndarray | None) -> float:
    """Bound the norm of rows whose columns are multiplied by factors > 0, the intercept's last."""
    if factors is None:
        return math.hypot(data_norm, intercept)
    largest = factors[: len(factors) - bool(intercept)].max(initial=0.0)
    return math.hypot(data_norm * float(largest), intercept * float(factors[-1]))

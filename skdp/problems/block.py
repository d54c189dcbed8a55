"""Blocks of records: the products that problems need of bounded rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.extmath import row_norms

from skdp.problems.matrices import Matrix, scaled_rows, transposed


@dataclass(frozen=True)
class Block:
    """Some records with the products that problems need of them."""

    #: Where the records are in the full data set.
    positions: slice | np.ndarray
    #: Shape (m, n_features). The raw rows.
    matrix: Matrix
    #: Shape (m,). Factors that bring each row to the norm bound; None when all are one.
    scale: np.ndarray | None
    #: Value of the constant feature; 0 when there is none.
    intercept: float
    #: Shape (m,). Norms of the bounded rows without factors and intercept feature.
    lengths: np.ndarray
    #: One entry per record; None where the records have none.
    targets: Any = None
    groups: Any = None
    #: Shape (width,). Of the columns, the intercept feature last; None when all are one.
    factors: np.ndarray | None = None
    #: Shape (m,). Weights of the records in every sum; None when all are one.
    shares: np.ndarray | None = None
    #: Shape (m,). Whose record each is, ascending; None where every record is a unit of its own.
    persons: np.ndarray | None = None

    def weighted(self, values: np.ndarray) -> np.ndarray:
        """Multiply values of shape (m,) or (m, k) by the weights of the records."""
        return values if self.shares is None else scaled_rows(values, self.shares)

    def sum(self, values: np.ndarray) -> Any:
        """Sum values of shape (m,) or (m, k) over the records, with their weights."""
        return values.sum(axis=0) if self.shares is None else self.shares @ values

    def count(self, codes: np.ndarray, n: int) -> np.ndarray:
        """Count codes below n, each record with its weight; shape (n,)."""
        return np.bincount(codes, weights=self.shares, minlength=n)

    def margins(self, weights: np.ndarray) -> np.ndarray:
        """Return the products with `weights` of shape (k, width): (m,) if k == 1 else (m, k)."""
        d = self.matrix.shape[1]
        if self.factors is not None:
            weights = weights * self.factors
        columns = weights[0] if len(weights) == 1 else weights.T
        margins = self.matrix @ columns[:d]
        if self.scale is not None:
            margins *= self.scale if margins.ndim == 1 else self.scale[:, None]
        if self.intercept:
            margins += self.intercept * columns[d]
        return margins

    def pull_back(self, residuals: np.ndarray) -> np.ndarray:
        """Sum of the rows times `residuals` of shape (m,) or (m, k): (k, width)."""
        residuals = self.weighted(residuals)
        outputs = 1 if residuals.ndim == 1 else residuals.shape[1]
        d = self.matrix.shape[1]
        out = np.empty((outputs, d + bool(self.intercept)))
        if self.intercept:
            out[:, d] = self.intercept * residuals.sum(axis=0)
        if self.scale is not None:
            residuals = scaled_rows(residuals, self.scale)
        out[:, :d] = (transposed(self.matrix) @ residuals).T
        return out if self.factors is None else out * self.factors

    def norms(self) -> np.ndarray:
        """Euclidean norm of each bounded row, intercept feature included; shape (m,)."""
        rows, intercept = self.matrix, self.intercept
        if self.factors is not None:
            columns = self.factors[: rows.shape[1]]
            rows = (rows @ sp.diags(columns)).tocsr() if sp.issparse(rows) else rows * columns
            intercept *= float(self.factors[-1])
        norms = row_norms(rows)
        return np.hypot(norms if self.scale is None else norms * self.scale, intercept)

    def rows(self) -> Matrix:
        """Copy the bounded rows, shape (m, width)."""
        X, d = self.matrix, self.matrix.shape[1]
        if sp.issparse(X):
            X = X.copy() if self.scale is None else scaled_rows(X, self.scale)
            if self.intercept:
                X = sp.hstack([X, np.full((X.shape[0], 1), self.intercept)], format="csr")
            return X if self.factors is None else (X @ sp.diags(self.factors)).tocsr()
        out = np.empty((len(X), d + bool(self.intercept)))
        out[:, :d] = X
        if self.scale is not None:
            long = np.flatnonzero(self.scale < 1.0)
            out[long, :d] *= self.scale[long, None]
        out[:, d:] = self.intercept
        return out if self.factors is None else np.multiply(out, self.factors, out=out)

    def gram(self, weights: np.ndarray) -> np.ndarray:
        """Return ``sum_i weights_i x_i x_i'`` of shape (width, width); weights may be negative."""
        d, weights = self.matrix.shape[1], self.weighted(weights)
        out = np.empty((d + bool(self.intercept),) * 2)
        scaled = weights if self.scale is None else weights * self.scale  # and once more below
        if self.intercept:
            out[d, d] = self.intercept**2 * weights.sum()
            out[:d, d] = out[d, :d] = self.intercept * (self.matrix.T @ scaled)
        if self.scale is not None:
            scaled = scaled * self.scale
        out[:d, :d] = self._products(scaled)
        return out if self.factors is None else out * np.outer(self.factors, self.factors)

    def _products(self, weights: np.ndarray) -> np.ndarray:
        """Return ``sum_i weights_i x_i x_i'`` of the raw rows."""
        X = self.matrix
        if sp.issparse(X):
            return (X.T @ scaled_rows(X, weights)).toarray()
        if not weights.size or weights.min() < 0:
            return X.T @ scaled_rows(X, weights)
        root = X if (weights == 1.0).all() else np.sqrt(weights)[:, None] * X
        return root.T @ root  # one symmetric product: half the arithmetic

"""Dense and CSR matrices: rows scaled in a copy, and views that cannot be written to."""

from __future__ import annotations

import copy
from dataclasses import is_dataclass
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp

from skdp.problems.domains import Domain

_Object = TypeVar("_Object")

#: An ndarray or a CSR matrix or array; their interfaces overlap where it matters here.
Matrix = Any
#: Rows above this multiple of the norm bound are shortened before anything is computed.
HUGE = 1e100


def shrink_huge_rows(X: Matrix, bound: float) -> Matrix:
    """Shorten rows whose squares could overflow to norms from `bound` to sqrt(d) times of it."""
    largest = abs(X).max(axis=1)
    largest = largest.toarray().ravel() if sp.issparse(X) else largest
    factor = np.where(largest > HUGE * bound / X.shape[1], bound / np.maximum(largest, bound), 1.0)
    return scaled_rows(X, factor)


def scaled_rows(X: Matrix, factors: np.ndarray) -> Matrix:
    """Multiply each row of a matrix, or of an array of any shape, by a factor, in a copy."""
    if not sp.issparse(X):
        return X * factors.reshape(-1, *(1,) * (X.ndim - 1))
    X = X.copy()
    X.data *= np.repeat(factors, np.diff(X.indptr))
    return X


def row_products(X: Matrix, weights: np.ndarray, bound: float | None = None) -> np.ndarray:
    """Multiply each row, scaled down to norm `bound`, by weights of shape (k, d): (n, k).

    Each sum runs over the columns in their order, one rounded operation after the other, so that
    the products of a row do not depend on its place or on other rows. A product of matrices adds up
    the last rows of a block in another order.
    """
    if sp.issparse(X):  # row by row
        products = (X @ np.ascontiguousarray(weights.T)).T
        squares = csr_view(X, X.data**2, X.indices, X.indptr) @ np.ones(X.shape[1])
    else:
        products, squares = np.zeros((len(weights), len(X))), np.zeros(len(X))
        for column, factors in zip(np.ascontiguousarray(X.T), weights.T, strict=True):
            products += factors[:, None] * column
            squares += column * column
    if bound is not None:
        products = products * (bound / np.maximum(np.sqrt(squares), bound))
    return products.T


def read_only_view(array: np.ndarray) -> np.ndarray:
    """Return a view that cannot be made writable; the array itself stays its owner's."""
    return np.asarray(array.data.toreadonly())


def read_only(X: Matrix) -> Matrix:
    """Return a view of X that cannot be made writable: a solver may read the rows."""
    if not sp.issparse(X):
        return read_only_view(X)
    return csr_view(X, *map(read_only_view, (X.data, X.indices, X.indptr)))


def transposed(X: Matrix) -> Matrix:
    """Return a view of the transpose of a dense or CSR matrix."""
    if not sp.issparse(X):
        return X.T
    columns = sp.csc_array(X.shape[::-1])  # as in _csr: X.T would copy short slices
    columns.data, columns.indices, columns.indptr = X.data, X.indices, X.indptr
    return columns


def csr_view(like: Matrix, data: np.ndarray, indices: np.ndarray, pointers: np.ndarray) -> Matrix:
    """Make a CSR matrix of views; the constructor would copy short slices of long arrays."""
    X = type(like)((len(pointers) - 1, like.shape[1]))
    X.data, X.indices, X.indptr = data, indices, pointers
    return X


def solver_copy(original: _Object) -> _Object:
    """Copy an object with its domains and dataclasses, frozen ones too; arrays are read-only."""
    other = copy.copy(original)
    for name, part in vars(original).items():
        if isinstance(part, np.ndarray):
            vars(other)[name] = read_only_view(part)
        elif isinstance(part, Domain) or is_dataclass(part):
            vars(other)[name] = copy.deepcopy(part)
    return other

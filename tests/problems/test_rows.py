"""Bounded rows: what every computation sees of X."""

import numpy as np
import pytest
import scipy.sparse as sp

from skdp.problems import BoundedRows


def materialised(rows):
    """The rows as one matrix, through products with unit vectors."""
    identity = np.eye(rows.width)
    return np.vstack(
        [
            np.column_stack([block.margins(unit[None]) for unit in identity])
            for block in rows.blocks()
        ]
    )


@pytest.mark.parametrize("kind", ["dense", "fortran", "csr_matrix", "csr_array"])
@pytest.mark.parametrize("intercept", [0.0, 0.3])
def test_rows_are_scaled_then_extended(kind, intercept):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 4)) * rng.uniform(0, 2, (50, 1))
    X[3] = 0
    make = {
        "dense": np.array, "fortran": np.asfortranarray,
        "csr_matrix": sp.csr_matrix, "csr_array": sp.csr_array,
    }[kind]  # fmt: skip
    rows = BoundedRows(make(X), 1.5, intercept)
    norms = np.linalg.norm(X, axis=1)
    expected = X * np.minimum(1, 1.5 / np.maximum(norms, 1.5))[:, None]
    if intercept:
        expected = np.column_stack([expected, np.full(50, intercept)])
    np.testing.assert_allclose(materialised(rows), expected, rtol=1e-14)
    assert np.linalg.norm(expected, axis=1).max() <= rows.norm_bound * (1 + 1e-14)
    # the products agree with the materialised rows
    w, r, h = rng.standard_normal((2, rows.width)), rng.standard_normal((50, 2)), rng.random(50)
    block = next(rows.blocks())
    np.testing.assert_allclose(block.margins(w), expected @ w.T, atol=1e-13)
    np.testing.assert_allclose(block.pull_back(r), r.T @ expected, atol=1e-13)
    np.testing.assert_allclose(block.gram(h), expected.T @ (h[:, None] * expected), atol=1e-13)
    np.testing.assert_allclose(
        block.gram(h - 0.5), expected.T @ ((h - 0.5)[:, None] * expected), atol=1e-13
    )


def test_blocks_cover_every_row_once():
    rows = BoundedRows(np.ones((1000, 3)), 10.0)
    rows.block_size = 77
    covered = np.concatenate([np.arange(b.rows.start, b.rows.stop) for b in rows.blocks()])
    np.testing.assert_array_equal(covered, np.arange(1000))


def test_duplicate_entries_do_not_hide_a_long_row():
    """A CSR row may store an entry in parts; its norm is that of the sum."""
    parts = sp.csr_matrix((np.ones(100), np.zeros(100, int), [0, 100]), shape=(1, 2))
    rows = BoundedRows(parts, 1.0)
    np.testing.assert_allclose(materialised(rows), [[1.0, 0.0]])
    assert parts.nnz == 100  # the caller's matrix is left alone


@pytest.mark.parametrize("make", [np.array, sp.csr_matrix])
def test_huge_rows_are_bounded_without_overflow(make):
    X = np.array([[1e308, 1e308, 1e308], [1e200, 0, 0], [0.5, 0, 0], [-1e308, 0, 1e-5]])
    given = make(X)
    with np.errstate(all="raise", under="ignore"):
        rows = BoundedRows(given, 1.0)
        seen = materialised(rows)
    np.testing.assert_allclose(np.linalg.norm(seen, axis=1), [1, 1, 0.5, 1], rtol=1e-14)
    np.testing.assert_allclose(seen[0], np.full(3, 3**-0.5))
    np.testing.assert_array_equal(given.toarray() if sp.issparse(given) else given, X)


@pytest.mark.parametrize("make", [np.array, sp.csr_matrix, sp.csr_array])
def test_the_rows_are_read_only_and_not_copied(make):
    X = make(np.ones((10, 2)))
    stored = BoundedRows(X, 1.0).matrix
    mine, theirs = (Z.data if sp.issparse(Z) else Z for Z in (X, stored))
    assert np.shares_memory(mine, theirs)
    with pytest.raises(ValueError, match="read-only"):
        theirs[0] = 5
    mine[0] = 5  # still the caller's own

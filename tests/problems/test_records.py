"""Bounded rows: what every computation sees of X."""

import numpy as np
import pytest
import scipy.sparse as sp

from skdp.problems import Records


def materialised(rows):
    """The rows as one matrix, through products with unit vectors."""
    identity = np.eye(rows.width)
    return np.vstack(
        [
            np.column_stack([block.margins(unit[None]) for unit in identity])
            for block in rows.blocks()
        ]
    )


@pytest.mark.parametrize(
    ("kind", "intercept"),
    [("dense", 0.3), ("fortran", 0.0), ("csr_matrix", 0.0), ("csr_array", 0.3)],
)
def test_rows_are_scaled_then_extended(kind, intercept):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 4)) * rng.uniform(0, 2, (50, 1))
    X[3] = 0
    make = {
        "dense": np.array, "fortran": np.asfortranarray,
        "csr_matrix": sp.csr_matrix, "csr_array": sp.csr_array,
    }[kind]  # fmt: skip
    rows = Records(make(X), 1.5, intercept)
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
    for part in (slice(3, 11), slice(1, None, 3), rng.permutation(50)[:7]):
        np.testing.assert_allclose(materialised(rows.take(part)), expected[part], rtol=1e-14)
        found = rows.take(part).take(slice(0, 2)), rows.block(part).margins(w)
        np.testing.assert_allclose(materialised(found[0]), expected[part][:2], rtol=1e-14)
        np.testing.assert_allclose(found[1], expected[part] @ w.T, atol=1e-13)
    np.testing.assert_allclose(block.pull_back(r), r.T @ expected, atol=1e-13)
    np.testing.assert_allclose(block.gram(h), expected.T @ (h[:, None] * expected), atol=1e-13)
    np.testing.assert_allclose(
        block.gram(h - 0.5), expected.T @ ((h - 0.5)[:, None] * expected), atol=1e-13
    )
    np.testing.assert_allclose(block.gram(np.ones(50)), expected.T @ expected, atol=1e-13)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix])
def test_single_precision_is_bounded_in_double(make):
    """Norms summed up in single precision would miss the bound by 1e-6."""
    X = np.random.default_rng(0).standard_normal((300, 500)).astype(np.float32)
    rows, double = Records(make(X), 3.0), Records(make(X.astype(np.float64)), 3.0)
    assert np.shares_memory(X, rows.matrix) or sp.issparse(rows.matrix)
    np.testing.assert_allclose(rows.scale, double.scale, rtol=1e-14)
    seen = materialised(rows)
    assert seen.dtype == np.float64
    assert np.linalg.norm(seen, axis=1).max() <= 3.0 * (1 + 1e-13)
    for bound in (1e-50, 1e-70):
        huge = Records(make(np.full((1, 2), 1e38, dtype=np.float32)), bound)
        np.testing.assert_allclose(materialised(huge), np.full((1, 2), bound / 2**0.5))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_view_of_some_records_holds_what_a_copy_holds(dtype):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1000, 3)).astype(dtype)
    rows = Records(X, 1.5, 0.1, targets=np.arange(1000.0))
    positions = np.flatnonzero(rng.random(1000) < 0.4)
    copied, view = rows.take(positions), rows.take(positions, view=True)
    assert np.shares_memory(view.matrix, X)
    assert not np.shares_memory(copied.matrix, X)
    for part in (copied, view):
        part.block_size = 64
    inner = np.array([5, 3, 17])
    pairs = [(copied, view), *((copied.take(inner), view.take(inner, v)) for v in (True, False))]
    for first, second in pairs:
        assert first.n_records == second.n_records
        np.testing.assert_array_equal(first.materialise(), second.materialise())
        np.testing.assert_array_equal(materialised(first), materialised(second))
        np.testing.assert_array_equal(first.targets, second.targets)


@pytest.mark.parametrize(
    ("make", "dtype"),
    [(np.array, np.float64), (np.asfortranarray, np.float32), (sp.csr_array, np.float32)],
)
def test_scores_of_equal_rows_are_equal_wherever_they_stand(make, dtype):
    """Products of matrices add up the last rows of a block in another order."""
    rng = np.random.default_rng(0)
    for d in (1, 5, 13, 130):
        row, weights = rng.standard_normal((1, d)).astype(dtype), rng.standard_normal((3, d))
        for length in (0.1, 3.0):
            short = (row * dtype(length / np.linalg.norm(row))).astype(dtype)
            alone = Records(make(short), 1.0).scores(weights)
            fewer = Records(make(short), 1.0).scores(weights[:1])
            np.testing.assert_array_equal(alone[:, :1], fewer)
            for n in (2, 3, 5, 41, 43, 4097):
                found = Records(make(np.tile(short, (n, 1))), 1.0).scores(weights)
                np.testing.assert_array_equal(found, np.tile(alone, (n, 1)))
            exact = short @ weights.T * min(1.0, 1.0 / length)
            np.testing.assert_allclose(alone, exact, atol=1e-5 if dtype == np.float32 else 1e-14)


@pytest.mark.parametrize("make", [np.array, sp.csr_matrix])
@pytest.mark.parametrize("size", [1e-3, 2.0, 9e99, 2e100])
def test_scores_of_a_row_do_not_depend_on_longer_rows(make, size):
    rng = np.random.default_rng(0)
    row, weights = rng.uniform(0.2, 1.0, (1, 13)), rng.standard_normal((1, 13))
    alone = Records(make(row * size), 1.0).scores(weights)
    for other in (0.0, 3.0, 1e100, 1e300):
        rows = np.vstack([np.full((1, 13), other), row * size])
        np.testing.assert_array_equal(Records(make(rows), 1.0).scores(weights)[1:], alone)


def test_duplicate_entries_do_not_hide_a_long_row():
    """A CSR row may store an entry in parts; its norm is that of the sum."""
    for is_canonical in (False, True):  # as a stale flag says
        parts = sp.csr_matrix((np.ones(100), np.zeros(100, int), [0, 100]), shape=(1, 2))
        parts.has_canonical_format = is_canonical
        np.testing.assert_allclose(materialised(Records(parts, 1.0)), [[1.0, 0.0]])
        assert parts.nnz == 100  # the caller's matrix is left alone
    for dtype in (np.float64, np.float32):  # as a dense row of entries whose sum overflows
        largest = np.finfo(dtype).max
        entries = np.array([largest, largest, -largest, -largest, 0.5], dtype=dtype)
        parts = sp.csr_matrix((entries, [0, 0, 1, 1, 0], [0, 4, 5]), shape=(2, 2))
        expected = [[0.5**0.5, -(0.5**0.5)], [0.5, 0.0]]
        np.testing.assert_allclose(materialised(Records(parts, 1.0)), expected, rtol=1e-6)


@pytest.mark.parametrize("make", [np.array, sp.csr_matrix])
def test_huge_rows_are_bounded_without_overflow(make):
    X = np.array([[1e308, 1e308, 1e308], [1e200, 0, 0], [0.5, 0, 0], [-1e308, 0, 1e-5]])
    given = make(X)
    with np.errstate(all="raise", under="ignore"):
        rows = Records(given, 1.0)
        seen = materialised(rows)
    np.testing.assert_allclose(np.linalg.norm(seen, axis=1), [1, 1, 0.5, 1], rtol=1e-14)
    np.testing.assert_allclose(seen[0], np.full(3, 3**-0.5))
    np.testing.assert_array_equal(given.toarray() if sp.issparse(given) else given, X)


@pytest.mark.parametrize(("sparse", "intercept"), [(False, 0.0), (True, 0.3)])
def test_a_column_scale_is_a_view(sparse, intercept):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 4)) * rng.integers(0, 2, (300, 4))
    records = Records(sp.csr_array(X) if sparse else X, 1.0, intercept, targets=np.arange(300))
    records.block_size = 64
    factors = rng.uniform(0.1, 10.0, records.width)
    scaled = records.scaled(factors)
    assert np.shares_memory(
        scaled.matrix.data if sparse else scaled.matrix, records.matrix.data if sparse else X
    )
    seen = materialised(records) * factors
    np.testing.assert_allclose(materialised(scaled), seen, rtol=1e-14)
    assert np.linalg.norm(seen, axis=1).max() <= scaled.norm_bound * (1 + 1e-12)
    assert scaled.norm_bound == pytest.approx(np.hypot(factors[:4].max(), intercept * factors[-1]))
    weights, residuals = rng.standard_normal((2, records.width)), rng.standard_normal((300, 2))
    np.testing.assert_allclose(scaled.margins(weights), seen @ weights.T, rtol=1e-12, atol=1e-13)
    back = scaled.total(lambda block: block.pull_back(residuals[block.positions]))
    np.testing.assert_allclose(back, residuals.T @ seen, rtol=1e-12, atol=1e-13)
    curvature = rng.standard_normal(300)
    np.testing.assert_allclose(
        scaled.gram(lambda block: curvature[block.positions]),
        (seen.T * curvature) @ seen, rtol=1e-11, atol=1e-12,
    )  # fmt: skip
    part = scaled.take(np.array([5, 3])).scaled(1.0 / factors)
    np.testing.assert_allclose(materialised(part), materialised(records)[[5, 3]], rtol=1e-14)
    np.testing.assert_array_equal(part.targets, [5, 3])


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
def test_norms_are_computed_once(layout):
    X = np.random.default_rng(0).uniform(-1.5, 1.5, size=(700, 4))
    records = Records(layout(X), 0.9, 0.5)
    bounded = np.minimum(np.linalg.norm(X, axis=1), 0.9)
    assert records.scale is not None  # some rows are shortened
    for some in (records, records.take(np.arange(5, 600, 7)), records.take(slice(3, 90))):
        assert not some.lengths.flags.writeable
    np.testing.assert_allclose(records.lengths, bounded, rtol=1e-14)
    np.testing.assert_allclose(records.take(slice(3, 90)).lengths, bounded[3:90], rtol=1e-14)
    block = records.block(np.array([4, 9, 600]))
    np.testing.assert_allclose(block.lengths, bounded[[4, 9, 600]], rtol=1e-14)
    single = Records(layout(X.astype(np.float32)), 0.9, 0.5)
    np.testing.assert_allclose(single.lengths, bounded, rtol=1e-6)
    X[7] *= 1e200  # those of the shortened copy
    assert Records(layout(X), 1.0, 0.5).lengths.max() <= 1.0 + 1e-12


LAYOUTS = {
    "c": np.ascontiguousarray,
    "fortran": np.asfortranarray,
    "columns": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "rows": lambda X: np.repeat(X, 2, axis=0)[::2],
    "fortran_rows": lambda X: np.asfortranarray(np.repeat(X, 2, axis=0))[::2],
    "backwards": lambda X: X[::-1, ::-1].copy()[::-1, ::-1],
    "single": lambda X: np.asarray(X, dtype=np.float32),
}


@pytest.mark.parametrize(
    ("layout", "change"),
    [*((layout, "huge") for layout in LAYOUTS), ("c", "long"), ("single", "short")],
)
def test_a_record_does_not_decide_how_those_of_others_are_computed(layout, change):
    """Bit for bit, whether or not a row makes a copy of X necessary."""
    rng, make = np.random.default_rng(0), LAYOUTS[layout]
    # single precision ends at 1e38: a row can be 1e100 times as long as a small bound alone
    bound, unit, huge = (1e-70, 1e-30, 1e35) if layout == "single" else (1.0, 5.0, 1e150)
    X = unit * rng.normal(size=(1000, 20))
    other = X.copy()
    other[7] = {"huge": huge, "long": 3.0 * X[7], "short": 0.0}[change]
    first, second = (Records(make(rows), bound, bound) for rows in (X, other))
    others, w = np.arange(len(X)) != 7, rng.normal(size=(1, 21))
    assert first.matrix.dtype == second.matrix.dtype
    assert first.matrix.strides == second.matrix.strides
    assert first.matrix.flags.forc
    assert np.array_equal(first.lengths[others], second.lengths[others])
    assert np.array_equal(first.margins(w)[others], second.margins(w)[others])
    for step in (1, 3):
        parts = [each.block(slice(1, 1000, step)) for each in (first, second)]
        assert np.array_equal(*(part.margins(w)[others[1::step]] for part in parts))


@pytest.mark.parametrize(
    ("dtype", "make"),
    [(np.float64, np.ascontiguousarray), (np.float32, np.asfortranarray), (float, sp.csr_array)],
)
def test_rows_and_maps_of_files_are_read_only_and_not_copied(tmp_path, dtype, make):
    X = make(np.random.default_rng(0).uniform(-1, 1, size=(300, 4)).astype(dtype))
    parts = [X]
    if isinstance(X, np.ndarray):
        np.save(tmp_path / "rows.npy", X)
        mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
        parts += [mapped, X.T, X[10:200] if X.flags.c_contiguous else X[:, 1:]]
    for given in parts:
        mine, theirs = (
            Z.data if sp.issparse(Z) else Z for Z in (given, Records(given, 1.0).matrix)
        )
        assert np.shares_memory(mine, theirs)
        with pytest.raises(ValueError, match="read-only"):
            theirs[0] = 5
    (X.data if sp.issparse(X) else X)[0] = 5  # still the caller's own

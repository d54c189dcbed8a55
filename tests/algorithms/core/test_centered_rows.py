"""Centered rows are those of the formula, and no norm is smaller than it is."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from public_objectives import centering_of

from skdp.algorithms.core import centered_rows as module
from skdp.algorithms.core.centered_rows import CenteredRows, Centering, sum_rounding
from skdp.problems import Design, Records


def blocks_of(rows):
    """The parts that sums go over."""
    return [rows._block(part) for part in rows._parts]


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_centered_rows_are_those_of_the_formula(kind, dtype):
    rng = np.random.default_rng(1)
    X = (rng.normal(size=(23, 4)) * (rng.random((23, 4)) < 0.6)).astype(dtype)
    records = Records(kind(X), 1.5, 0.1, targets=np.zeros(23))
    centering = Centering(mean=np.array([0.2, -0.1, 0.3, 0.0]), scale=0.4, offsets=np.array([0.3]))
    lengths = np.maximum(np.linalg.norm(X.astype(float), axis=1, keepdims=True), 1.5)
    A = (X.astype(float) / lengths - centering.mean) / 0.4
    A = np.column_stack([A, np.full(23, 0.2)])
    w, r = rng.normal(size=(2, 5)), rng.normal(size=23)
    rows = CenteredRows(records, centering)
    (block,) = blocks_of(rows)
    assert np.allclose(block.margins(rows.weights(w)), A @ w.T, atol=1e-12)
    assert np.allclose(rows.sums(block.pull_back(r))[0], r @ A, atol=1e-12)
    norms = np.linalg.norm(A, axis=1)
    assert np.allclose(rows.norms[0], norms, rtol=1e-9)
    assert (rows.norms[0] >= norms * (1.0 - 1e-13)).all()
    assert rows.norm_bound >= norms.max()


@pytest.mark.parametrize("row", [0.0, 0.01, 1e30])
def test_norms_of_single_precision_do_not_depend_on_other_records(row):
    """Lemma 6, third part: bit for bit, whether or not all other rows are above the bound."""
    X = 5.0 * np.random.default_rng(0).normal(size=(4000, 20)).astype(np.float32)
    other = X.copy()
    other[7] = row
    centering = centering_of(0.3 * np.eye(20)[0], 0.05)
    first, second = (CenteredRows(Records(rows, 1.0, 1.0), centering) for rows in (X, other))
    norms = [np.delete(np.concatenate(rows.norms), 7) for rows in (first, second)]
    assert np.array_equal(*norms)


def test_cancellation_bounds_the_error_of_every_squared_norm():
    """Lemma 6: (|u| + |m|)^2 / (rho |A|)^2 for rows along the mean; it is nearly attained."""
    rng, largest = np.random.default_rng(3), 0.0
    records = Records(np.zeros((1, 2)), 1.0, 0.1)
    for _ in range(2000):
        scale, b = 10.0 ** rng.uniform(-3, 0), rng.choice([0.0, 1.0]) * 10.0 ** rng.uniform(-4, 0)
        rows = CenteredRows(records, centering_of(np.array([b, 0.0]), scale))
        # aligned with the mean, where the square of A is least; near it and up to norm 1
        a = np.concatenate([rng.uniform(-1, 1, 50), np.clip(b * rng.uniform(0, 3, 50), 0, 1)])
        squares = ((a - b) / scale) ** 2 + 0.2**2
        ratio = ((np.abs(a) + b) / scale) ** 2 / squares
        assert ratio.max() <= rows.cancellation * (1.0 + 1e-12)
        largest = max(largest, ratio.max() / rows.cancellation)
    assert largest > 0.4


def test_norms_of_rows_near_the_mean_are_no_smaller_than_they_are():
    """Of differences of numbers of size 1 rounding makes half too small; and of long sums some."""
    rng = np.random.default_rng(5)
    mean = rng.normal(size=6)
    mean *= 0.9 / np.linalg.norm(mean)
    X = mean + 1e-9 * rng.normal(size=(200, 6))
    centering = centering_of(mean, 0.01)
    rows = CenteredRows(Records(X, 1.0, 0.1), centering)
    constant = Fraction(0.2) ** 2
    for row, norm in zip(X, np.concatenate(rows.norms), strict=True):
        moved = [
            (Fraction(a) - Fraction(m)) / Fraction(0.01) for a, m in zip(row, mean, strict=True)
        ]
        exact = sum(each**2 for each in moved) + constant
        assert exact <= Fraction(norm) ** 2 <= exact * Fraction(1.001)
    X = np.random.default_rng(6).uniform(-0.1, 0.1, size=(100, 40))
    rows = CenteredRows(Records(X, 1.0, 0.0), replace(Centering.unknown(40, 1), scale=0.3))
    for row, norm in zip(X, np.concatenate(rows.norms), strict=True):
        exact = sum(Fraction(a) ** 2 for a in row) / Fraction(0.3) ** 2
        assert exact <= Fraction(norm) ** 2 <= exact * Fraction(1 + 1e-13)


def test_the_rows_are_not_copied():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(20000, 3))
    records = Records(X, 1.0, 0.1, targets=X[:, 0])
    rows = CenteredRows(records, Centering.unknown(3, 1))
    assert all(np.shares_memory(block.matrix, X) for block in blocks_of(rows))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_parts_are_as_long_as_the_bound_on_rounding_says(dtype):
    records = Records(np.ones((5000, 3), dtype=dtype), 2.0, 1.0, targets=np.arange(5000.0))
    records.block_size = 64
    rows = CenteredRows(records, Centering.unknown(3, 1))
    longest = module.LONGER * records.block_size
    sizes = [len(block.targets) for block in blocks_of(rows)]
    assert len(sizes) > 1 and max(sizes) == longest
    assert sizes == [len(norms) for norms in rows.norms]
    targets = np.concatenate([block.targets for block in blocks_of(rows)])
    assert np.array_equal(targets, np.arange(5000.0))
    design = Design.of(records)
    n_additions = sum_rounding(design, 1.0) / (2.0**-52 * 5000)
    assert n_additions >= longest - 1 + 15 * math.ceil(math.log(5000 / longest, 16))

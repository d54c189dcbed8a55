from fractions import Fraction
from math import comb, factorial

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, OneHotEncoder, SplineTransformer

from skdp import DPLogisticRegression
from skdp.preprocessing import BoundedSplineTransformer
from skdp.preprocessing.bounded_splines import _LARGEST_SQUARES

X = np.array([[30.0, 0.0], [65.0, 20.0], [120.0, 40.0]])
RANGES = [(0, 100), (0, 80)]


@pytest.mark.parametrize("degree", range(6))
@pytest.mark.parametrize("n_knots", [2, 5])
def test_splines_are_those_of_scikit_learn_up_to_a_constant(degree, n_knots):
    knots = np.linspace(*np.transpose(RANGES), n_knots)
    inside = np.clip(X, *np.transpose(RANGES))
    expected = SplineTransformer(degree=degree, knots=knots).fit(inside).transform(inside)
    out = BoundedSplineTransformer(RANGES, n_knots, degree).fit_transform(X)
    assert out.shape == (3, 2 * (n_knots + degree - 1))
    divisor = (2 * _LARGEST_SQUARES[min(degree, 3)]) ** 0.5
    np.testing.assert_allclose(out * divisor, expected, atol=1e-14)


@given(
    values=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=4),
    n_knots=st.integers(2, 8),
    degree=st.integers(0, 8),
)
def test_no_row_is_longer_than_one(values, n_knots, degree):
    out = BoundedSplineTransformer((-3, 5), n_knots, degree).fit_transform([values])
    assert (out >= -1e-16).all()
    assert np.linalg.norm(out) <= 1 + 1e-14


@pytest.mark.parametrize("degree", range(9))
def test_longest_row_of_a_fine_grid(degree):
    """The divisor is the smallest possible up to degree 3, and safe above."""
    grid = np.linspace(-1, 1, 4001)[:, None]  # knots and middles are on it
    squares = BoundedSplineTransformer((-1, 1), 5, degree).fit_transform(grid) ** 2
    longest = squares.sum(axis=1).max()
    assert longest <= 1 + 1e-14
    if degree <= 3:
        assert longest == pytest.approx(1.0, abs=1e-14)


def spline(degree, x):
    """Value of the B-spline on the knots 0, 1, ..., degree + 1, exactly."""
    powers = (
        (-1) ** k * comb(degree + 1, k) * (x - k) ** degree for k in range(degree + 2) if x >= k
    )
    return sum(powers, Fraction(0)) / factorial(degree)


@pytest.mark.parametrize("degree", [2, 3])
def test_sum_of_squares_in_exact_arithmetic(degree):
    """A polynomial of degree 2 p is known by 2 p + 1 values; the docstring has the same ones."""
    for i in range(2 * degree + 1):
        t = Fraction(i, 2 * degree)
        u = t * (1 - t)
        squares = sum(spline(degree, t + j) ** 2 for j in range(degree + 1))
        stated = {2: u**2 * 3 / 2, 3: -(u**2) / 2 - u**3 * 5 / 9}[degree]
        assert squares == Fraction(1, 2) + stated


@pytest.mark.parametrize("degree", [0, 1, 3])
@pytest.mark.parametrize("sparse_output", [False, True])
def test_values_outside_are_clipped_without_a_word(degree, sparse_output, recwarn):
    splines = BoundedSplineTransformer((0, 1), degree=degree, sparse_output=sparse_output)
    out = splines.fit_transform([[-1e308], [1e308], [0.0], [1.0]])
    out = out.toarray() if sparse_output else out
    np.testing.assert_array_equal(out[:2], out[2:])
    assert (np.linalg.norm(out, axis=1) > 0.5).all()
    assert not recwarn


@given(st.floats(-1e300, 1e300), st.floats(-1e300, 1e300))
def test_any_range_has_finite_splines(low, high):
    if low < high and 0.5 * high - 0.5 * low > 0:
        out = BoundedSplineTransformer((low, high)).fit_transform([[low], [0.5 * low], [high]])
        np.testing.assert_allclose(out.sum(axis=1), 2**0.5, atol=1e-14)


def test_sparse_output():
    out = BoundedSplineTransformer(RANGES, sparse_output=True).fit_transform(X)
    assert sp.issparse(out) and out.format == "csr"
    assert out.nnz <= X.size * 4
    dense = BoundedSplineTransformer(RANGES).fit_transform(X)
    np.testing.assert_allclose(out.toarray(), dense, atol=1e-15)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_ranges_by_column_name(make):
    frame = make({"age": X[:, 0], "hours": X[:, 1]})
    splines = BoundedSplineTransformer({"hours": (0, 80), "age": (0, 100)}, 2, 1).fit(frame)
    plain = BoundedSplineTransformer(RANGES, 2, 1).fit(X)
    np.testing.assert_array_equal(splines.transform(frame), plain.transform(X))
    names = ["age_sp_0", "age_sp_1", "hours_sp_0", "hours_sp_1"]
    assert splines.get_feature_names_out().tolist() == names
    assert plain.get_feature_names_out().tolist() == ["x0_sp_0", "x0_sp_1", "x1_sp_0", "x1_sp_1"]
    with pytest.raises(ValueError, match="input_features"):
        splines.get_feature_names_out(["age"])


def test_invalid_parameters():
    for parameters, message in (
        ({"n_knots": 1}, "n_knots == 1, must be >= 2"),
        ({"n_knots": 5.0}, "n_knots must be an integer"),
        ({"degree": -1}, "degree == -1, must be >= 0"),
        ({"degree": True}, "degree must be an integer"),
        ({"sparse_output": 1}, "sparse_output == 1"),
    ):
        with pytest.raises(ValueError, match=message):
            BoundedSplineTransformer(**parameters).fit(X)


def test_beside_one_hot_columns():
    """The recipe of the docstring: every column of the frame has about the same share of a row."""
    numbers = {"age": (0, 100), "hours": (0, 80)}
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({name: rng.uniform(*ends, 5000) for name, ends in numbers.items()})
    jobs = [["clerk", "cook", "driver"]]
    frame["job"] = rng.choice(jobs[0], 5000)
    columns = ColumnTransformer(
        [
            ("numbers", BoundedSplineTransformer(numbers), list(numbers)),
            ("job", OneHotEncoder(categories=jobs, handle_unknown="ignore"), ["job"]),
        ],
        transformer_weights={"numbers": len(numbers) ** 0.5},
        sparse_threshold=0,
    )
    rows = make_pipeline(columns, Normalizer()).fit_transform(frame)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0)
    shares = np.add.reduceat((rows**2).mean(axis=0), [0, 7, 14])
    np.testing.assert_allclose(shares, 1 / 3, atol=0.03)

    # a U-shaped effect, which a linear model cannot have
    y = np.where(abs(frame["age"] - 50) > 25, "yes", "no")
    shared = {"epsilon": 1.0, "data_norm": 1.0, "classes": ["no", "yes"], "random_state": 0}
    model = make_pipeline(columns, Normalizer(), DPLogisticRegression(**shared)).fit(frame, y)
    assert model.score(frame, y) > 0.9

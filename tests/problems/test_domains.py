"""Domains: projections are exact, and their rounding is bounded."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skdp.problems import Ball, Box, Simplex, WholeSpace


def domains(dimension, rng):
    lower = rng.standard_normal(dimension)
    return {
        "whole": WholeSpace(),
        "ball": Ball(float(rng.uniform(0.1, 3.0))),
        "box": Box(lower, lower + rng.uniform(0, 2, dimension)),
        "orthant": Box(np.zeros(dimension), np.full(dimension, np.inf)),
        "simplex": Simplex(dimension),
    }


@pytest.mark.slow
@settings(max_examples=300)
@given(
    name=st.sampled_from(["whole", "ball", "box", "orthant", "simplex"]),
    dimension=st.integers(1, 12),
    scale=st.floats(-6, 6),
    seed=st.integers(0, 10**6),
)
def test_projection(name, dimension, scale, seed):
    """``<point - p, v - p> <= 0`` for every v of the set, up to the bound on rounding."""
    rng = np.random.default_rng(seed)
    domain = domains(dimension, rng)[name]
    point = rng.standard_normal(dimension) * 10**scale
    p = domain.project(point)
    slack = domain.projection_rounding(dimension) * (1 + np.linalg.norm(point))
    np.testing.assert_allclose(domain.project(p), p, atol=slack)
    if name == "simplex":
        assert (p >= 0).all()
        assert abs(p.sum() - 1) <= slack
        np.testing.assert_array_equal(domain.project(p), p)
    if name == "ball":
        assert np.sqrt(np.sum(p.astype(np.longdouble) ** 2)) <= domain.radius
    for _ in range(20):
        v = domain.project(p + rng.standard_normal(dimension) * 10.0 ** rng.uniform(-3, 1))
        moved, away = np.linalg.norm(v - p), np.linalg.norm(point - p)
        rounding = 4e-15 * np.linalg.norm(point) * moved
        assert (point - p) @ (v - p) <= 2 * slack * (moved + away) + rounding
        if np.isfinite(domain.circumradius):
            assert np.linalg.norm(v - domain.center(dimension)) <= domain.circumradius * (1 + 1e-12)
        assert np.linalg.norm(v) <= domain.radius * (1 + 1e-12)


@settings(max_examples=200)
@given(dimension=st.integers(1, 60), scale=st.floats(-3, 8), seed=st.integers(0, 10**6))
def test_rounding_of_the_simplex_projection(dimension, scale, seed):
    """Against the same projection in extended precision."""
    rng = np.random.default_rng(seed)
    point = rng.standard_normal(dimension) * 10**scale
    if seed % 3 == 0:
        point[:] = point[0]  # ties
    exact = point.astype(np.longdouble) - point.max()
    ordered = np.sort(exact)[::-1]
    thresholds = (np.cumsum(ordered) - 1) / np.arange(1, dimension + 1)
    threshold = thresholds[np.count_nonzero(ordered > thresholds) - 1]
    error = Simplex(dimension).project(point) - np.maximum(exact - threshold, 0)
    assert float(np.sqrt(error @ error)) <= Simplex(dimension).projection_rounding(dimension)


def test_invalid_domains():
    for radius in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(ValueError, match="radius"):
            Ball(radius)
    with pytest.raises(ValueError, match="lower must not exceed"):
        Box(np.array([0.0, 1.0]), np.array([1.0, 0.0]))
    with pytest.raises(ValueError, match="shape"):
        Box(0.0, 1.0)
    with pytest.raises(ValueError, match="dimension"):
        Simplex(0)

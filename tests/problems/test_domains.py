"""Domains: projections are exact, and their rounding is bounded."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skdp.problems import Ball, Box, GroupWeights, Simplex, WholeSpace
from skdp.problems.domains import CappedSimplex


def domains(dimension, rng):
    lower = rng.standard_normal(dimension)
    return {
        "whole": WholeSpace(),
        "ball": Ball(float(rng.uniform(0.1, 3.0))),
        "box": Box(lower, lower + rng.uniform(0, 2, dimension)),
        "orthant": Box(np.zeros(dimension), np.full(dimension, np.inf)),
        "simplex": Simplex(dimension),
    }


@settings(max_examples=60)
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


@settings(max_examples=60)
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


def exact_projection(point, shares, bound):
    """In rational numbers: the sum is piecewise linear in the multiple that is subtracted."""
    v, p = [Fraction(float(x)) for x in point], [Fraction(x) for x in shares]
    upper = Fraction(bound)

    def at(t):
        return [min(max(x - t * q, Fraction(0)), upper) for x, q in zip(v, p, strict=True)]

    def total(t):
        return sum(q * a for q, a in zip(p, at(t), strict=True))

    kinks = sorted({(x - u) / q for x, q in zip(v, p, strict=True) for u in (Fraction(0), upper)})
    low = max(t for t in kinks if total(t) >= 1)
    high = min((t for t in kinks if t > low), default=low)
    if total(low) == 1 or low == high:
        return at(low)
    return at(low + (total(low) - 1) * (high - low) / (total(low) - total(high)))


@pytest.mark.parametrize("seed", range(15))
def test_capped_simplex(seed):
    """The exact projection within the stated rounding; no point beyond the radii."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(rng.integers(2, 7), 10.0 ** rng.uniform(-2, 1)))
    bound = 10.0 ** rng.uniform(0, 4) if seed % 10 else 1.0
    domain = GroupWeights.of_proportions(shares, bound).domain
    d, p = domain.dimension, np.array(domain.shares)
    center = domain.center(d)
    np.testing.assert_array_equal(domain.project(center), center)
    for scale in (1e-2, 1.0, 1e3, 1e10):
        point = scale * rng.normal(size=d)
        found = domain.project(point)
        error = found - np.array([float(a) for a in exact_projection(point, p, domain.bound)])
        # a bound within 1e-12 of 1 / p is none
        assert np.linalg.norm(error) <= domain.projection_rounding(d) + 1e-12 * domain.largest
        np.testing.assert_array_equal(domain.project(found), found)
        assert np.linalg.norm(found) <= domain.radius
        assert np.linalg.norm(found - center) <= domain.circumradius
        derivative, step = domain.projection_derivative(point), 1e-6 * scale * rng.normal(size=d)
        moved = domain.project(point + step) - domain.project(point - step)
        if ((domain.project(point + step) > 0) == (domain.project(point - step) > 0)).all():
            np.testing.assert_allclose(derivative @ p, 0.0, atol=1e-12)
            assert np.linalg.norm(moved) <= 2.0 * np.linalg.norm(step) * (1 + 1e-6) + 1e-12


def test_invalid_domains():
    assert WholeSpace().radius == math.inf
    for message, kind, *options in (
        ("radius", Ball, (0.0,), (-1.0,), (np.inf,), (np.nan,)),
        ("lower must not exceed", Box, (np.array([0.0, 1.0]), np.array([1.0, 0.0]))),
        ("shape", Box, (0.0, 1.0)),
        ("dimension", Simplex, (0,)),
        (r"shares|bound", CappedSimplex, ((0.75, 0.2), 2.0), ((0.75, 0.25), 0.5),
         ((0.1, 0.9), 2.0), ((), 1.0)),
    ):  # fmt: skip
        for numbers in options:
            with pytest.raises(ValueError, match=message):
                kind(*numbers)

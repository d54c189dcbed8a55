"""Adaptive releases on one Poisson batch: counterexamples are searched for (dp_rgda.md, R1, R2)."""

import itertools
import math

import numpy as np
import pytest

#: A grid of two independent standard normal variables, and the weights of its points.
POINTS = np.linspace(-9.0, 9.0, 361)
WEIGHTS = np.exp(-0.5 * POINTS**2) / np.exp(-0.5 * POINTS**2).sum()
FIRST, SECOND = np.meshgrid(POINTS, POINTS, indexing="ij")
BOTH = np.outer(WEIGHTS, WEIGHTS)


def ratio(u, x):
    """Density of N(u, 1) over that of N(0, 1)."""
    return np.exp(u * x - 0.5 * u**2)


def bound(a, b, c, r):
    x = np.linspace(-12.0, 12.0, 20001)
    weights = np.exp(-0.5 * x**2)
    found = np.maximum(0.0, a + b * ratio(r, x) - c * ratio(-r, x))
    return float(found @ weights / weights.sum())


def expectation(a, b, c, one, other):
    return float((BOTH * np.maximum(0.0, a + b * one - c * other)).sum())


def terms():
    """Some (a, b, c), those of divergences of all rates and ratios first."""
    for p, gamma in itertools.product((0.02, 0.3, 0.9), (0.3, 1.0, 1.7, 6.0)):
        yield (1.0 - p) * (1.0 - gamma), p, gamma * p
    yield from [(0.7, 1.0, 2.0), (-0.2, 3.0, 0.1), (0.0, 1.0, 1.0)]


@pytest.mark.parametrize("r", [0.3, 1.2])
def test_opposite_vectors_are_worst(r):
    """Lemma R1, for vectors in the plane."""
    rng = np.random.default_rng(0)
    for a, b, c in terms():
        most = bound(a, b, c, r)
        for _ in range(3):
            u, v = rng.normal(size=(2, 2))
            u, v = (
                r * rng.choice([1.0, rng.uniform()]) * each / np.linalg.norm(each)
                for each in (u, v)
            )
            one, other = (ratio(w[0], FIRST) * ratio(w[1], SECOND) for w in (u, v))
            assert expectation(a, b, c, one, other) <= most * (1.0 + 1e-4) + 1e-7
        one, other = ratio(r, FIRST), ratio(-r, FIRST)
        assert expectation(a, b, c, one, other) == pytest.approx(most, rel=2e-3, abs=1e-5)


@pytest.mark.parametrize("multipliers", [(1.0, 1.0), (0.8, 2.5)])
def test_no_adaptive_second_release_exceeds_the_pair(multipliers):
    """Proposition R2: what a record adds to the second sum may follow from the first release."""
    rng, (first, second) = np.random.default_rng(1), multipliers
    together = math.hypot(1.0 / first, 1.0 / second)
    largest = 0.0
    for a, b, c in terms():
        most = bound(a, b, c, together)
        for _ in range(5):
            starts = rng.choice([-1.0, 1.0, rng.uniform(-1, 1)], size=2) / first
            cut = rng.normal(size=2)
            follow = [
                rng.choice([-1.0, 1.0, rng.uniform(-1, 1)], size=2)[(cut[k] < POINTS).astype(int)]
                for k in range(2)
            ]
            one, other = (
                ratio(starts[k], FIRST) * ratio(follow[k][:, None] / second, SECOND)
                for k in range(2)
            )
            found = expectation(a, b, c, one, other)
            assert found <= most * (1.0 + 1e-4) + 1e-7
            largest = max(largest, found / most)
    assert largest > 0.9

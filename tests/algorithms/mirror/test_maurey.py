"""Errata G8 and G9 of Gonzalez, Guzman and Paquette (2024), section 2, by simulation.

What a mean of K drawn vertices does to the largest of many functions, and to both blocks at once.
Monte-Carlo errors are allowed five standard deviations: false alarms below 1e-6 each.
"""

import math

import numpy as np
import pytest

SIZE, N_RUNS = 8, 20_000


def rng_of(seed):
    return np.random.default_rng(seed)


def point(seed, size=SIZE):
    return rng_of(seed).dirichlet(np.ones(size))


def means(x, count, seed, n_runs=N_RUNS):
    """Means of independent vertices, shape (n_runs, size)."""
    return rng_of(seed).multinomial(count, x, size=n_runs) / count


def slack(sample):
    """Five standard errors of a mean."""
    return 5.0 * np.asarray(sample).std(axis=0) / math.sqrt(len(sample))


class Logistic:
    """``log(1 + exp(a'v))`` with entries of +-u: L0 = u, L1 = u^2 / 4, L2 = u^3 / (6 sqrt 3)."""

    def __init__(self, seed, scale=4.0, size=SIZE):
        self.row = scale * rng_of(seed).choice([-1.0, 1.0], size=size)
        self.lipschitz, self.first = scale, scale**2 / 4.0
        self.second = scale**3 / (6.0 * math.sqrt(3.0))

    def value(self, points):
        return np.logaddexp(0.0, points @ self.row)

    def gradient(self, points):
        return self.row / (1.0 + np.exp(-points @ self.row))[..., None]


class Kinked:
    """``max(a'v - a'x, 0)^2 / 2`` with entries of +-1: L1 = 1, and the kink is at x."""

    first = 1.0

    def __init__(self, x, seed):
        self.row = rng_of(seed).permutation(np.resize([-1.0, 1.0], len(x)))
        self.middle = float(self.row @ x)

    def gradient(self, points):
        return np.maximum(points @ self.row - self.middle, 0.0)[..., None] * self.row


@pytest.mark.parametrize("count", [4, 64])
def test_the_largest_of_many_functions(count):
    """Lemma 2.10 as printed and with its lost factor: erratum G9. Squares grow with log M / K."""
    x, number = np.full(32, 1.0 / 32), 64
    rows = rng_of(11).choice([-1.0, 1.0], size=(number, 32))
    drawn = means(x, count, 12, 10_000)
    # functions a'v + (a'v)^2 / 2: L0 = 2 and L1 = 1 on the simplex
    at = lambda points: points @ rows.T + (points @ rows.T) ** 2 / 2.0  # noqa: E731
    moved = (np.abs(at(drawn) - at(x)) ** 2).max(axis=1)
    curvature, lipschitz = 8.0 / count**2, 4.0 * 4.0 / count  # L1^2 D^4 / 2 and L0^2 D^2
    published = curvature + 2.0 * lipschitz * (4.0 + math.log(number))
    safe = curvature + 4.0 * lipschitz * (1.0 + math.log(2 * number))
    assert moved.mean() + slack(moved) <= min(published, safe)
    # the squares of one function alone, times 3, are less
    alone = (np.abs(at(drawn) - at(x)) ** 2).mean(axis=0).max()
    assert moved.mean() > 3.0 * alone


@pytest.mark.parametrize("count", [4, 32])
def test_both_blocks_at_once(count):
    """Erratum G8: twice the bounds for values and smooth gradients, sqrt 2 times that for kinks."""
    x, y, f = point(18), point(19), Logistic(20, 2.0)
    other = Logistic(21, 2.0)
    row = np.r_[f.row, other.row]
    f.row = row
    z = np.r_[x, y]
    drawn = np.hstack([means(x, count, 22), means(y, count, 23)])
    values, slopes = f.value(drawn) - f.value(z), f.gradient(drawn) - f.gradient(z)
    assert abs(values.mean()) - slack(values) <= 4.0 * f.first / count
    assert (np.abs(slopes.mean(axis=0)) - slack(slopes)).max() <= 4.0 * f.second / count
    only = np.hstack([drawn[:, :SIZE], np.broadcast_to(y, (N_RUNS, SIZE))])
    assert abs(values.mean()) > 1.3 * abs((f.value(only) - f.value(z)).mean())
    kinked = Kinked(z, 24)
    kinked.row = row / 2.0
    kinked.middle = float(kinked.row @ z)
    bias = np.abs(kinked.gradient(drawn).mean(axis=0)).max()
    variance = (2.0 - (kinked.row[:SIZE] @ x) ** 2 - (kinked.row[SIZE:] @ y) ** 2) / count
    assert bias <= 4.0 * math.sqrt(2.0) * kinked.first / math.sqrt(count)
    assert bias == pytest.approx(math.sqrt(variance / (2.0 * math.pi)), rel=0.1)

"""Monte-Carlo tests of the Maurey bounds: what a mean of K drawn vertices does to a function.

Gonzalez, Guzman and Paquette (2024), section 2, corrected: values
(Lemma 2.1, Corollary 2.3), gradients (Corollaries 2.4 and 2.6), tails (Lemma 2.8), largest of many
functions (Lemma 2.10), second moments (Corollaries 2.12 and 2.14), and both blocks at once. The
bounds are loose by factors from 3 to 300, so each test also shows that what it measures is there:
by an exact value, or by a smaller bound that fails. Monte-Carlo errors are allowed five standard
deviations: false alarms below 1e-6 each.
"""

import math

import numpy as np
import pytest
from scipy.stats import binom

SIZE, N_RUNS = 8, 20_000


def rng_of(seed):
    return np.random.default_rng(seed)


def point(seed, size=SIZE):
    return rng_of(seed).dirichlet(np.ones(size))


def means(x, weights, seed, n_runs=N_RUNS):
    """Weighted means of independent vertices, shape (n_runs, size)."""
    rng = rng_of(seed)
    if np.ptp(weights) == 0.0:
        return rng.multinomial(len(weights), x, size=n_runs) * weights[0]
    counts = np.zeros((n_runs, len(x)))
    drawn = rng.choice(len(x), size=(n_runs, len(weights)), p=x)
    for column, weight in zip(drawn.T, weights, strict=True):
        counts[np.arange(n_runs), column] += weight
    return counts


def uniform(count):
    return np.full(count, 1.0 / count)


def slack(sample):
    """Five standard errors of a mean."""
    return 5.0 * np.asarray(sample).std(axis=0) / math.sqrt(len(sample))


class Quadratic:
    """``v'Hv / 2`` with entries of H in [-1, 1]."""

    first, second = 1.0, 0.0

    def __init__(self, seed, size=SIZE):
        h = rng_of(seed).uniform(-1.0, 1.0, size=(size, size))
        self.hessian = (h + h.T) / 2.0

    def value(self, points):
        return 0.5 * np.einsum("...i,ij,...j->...", points, self.hessian, points)


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


@pytest.mark.parametrize("weights", [uniform(16), 0.7 ** np.arange(16)], ids=["mean", "weighted"])
def test_values_of_a_quadratic_are_off_by_its_curvature(weights):
    """Lemma 2.1, with equality: ``sum_t lambda_t^2 sum_ij H_ij Cov_ij / 2``."""
    weights = weights / weights.sum()
    x, f = point(1), Quadratic(2)
    moved = f.value(means(x, weights, 3)) - f.value(x)
    covariance = np.diag(x) - np.outer(x, x)
    squares = float((weights**2).sum())
    exact = 0.5 * squares * float((f.hessian * covariance).sum())
    assert abs(moved.mean() - exact) <= slack(moved)
    # E ||a - x||_1^2 = sum_j x_j (2 - 2 x_j)^2, at most 4
    spread = float((x * (2.0 - 2.0 * x) ** 2).sum())
    assert abs(exact) <= 0.5 * f.first * squares * spread
    assert abs(exact) <= f.first * (1.0 - float((x**2).sum())) * squares


@pytest.mark.parametrize("count", [2, 8, 32])
def test_bias_of_values_and_smooth_gradients(count):
    """Corollaries 2.3 and 2.4: at most ``2 L1 / K`` and ``2 L2 / K``; exact by a binomial law."""
    f = Logistic(5, 2.0)
    x = np.where(f.row > 0, 3.0, 1.0)
    x /= x.sum()
    drawn = means(x, uniform(count), 6)
    values, slopes = f.value(drawn) - f.value(x), f.gradient(drawn) - f.gradient(x)
    heads = np.arange(count + 1)
    law = binom.pmf(heads, count, x[f.row > 0].sum())
    margins = f.lipschitz * (2.0 * heads / count - 1.0)
    bias = law @ np.logaddexp(0.0, margins) - f.value(x)
    slope_bias = f.lipschitz * (law @ (1.0 / (1.0 + np.exp(-margins)))) - abs(f.gradient(x)[0])
    assert abs(values.mean() - bias) <= slack(values)
    assert (np.abs(slopes.mean(axis=0) - np.sign(f.row) * slope_bias) <= slack(slopes)).all()
    assert 0.1 * f.first / count < bias <= 2.0 * f.first / count
    assert 0.1 * f.second / count < abs(slope_bias) <= 2.0 * f.second / count


@pytest.mark.parametrize("count", [16, 64, 256])
def test_bias_of_gradients_with_kinks(count):
    """Corollary 2.6: at most ``4 L1 / sqrt K``. It falls no faster: no bound of order 1/K holds."""
    x = np.full(SIZE, 1.0 / SIZE)
    f = Kinked(x, 7)
    slopes = f.gradient(means(x, uniform(count), 8, 10_000))
    bias = np.abs(slopes.mean(axis=0))
    # a'v is 2 Bin(K, p) / K - 1, with p the share of vertices of value +1
    share = float((f.row > 0) @ x)
    heads = np.arange(count + 1)
    exact = binom.pmf(heads, count, share) @ np.maximum(2.0 * (heads / count - share), 0.0)
    assert (np.abs(bias - exact) <= slack(slopes)).all()
    assert exact <= 4.0 * f.first / math.sqrt(count)
    assert exact > 0.39 * f.first / math.sqrt(count)
    if count == 256:
        assert exact > 4.0 * f.first / count


def tail_bound(f, weights, b):
    """Lemma 2.8 on the simplex, of diameter 2: value that is exceeded with probability e^-b^2."""
    squares = float((weights**2).sum())
    return 2.0 * f.first * squares + b * 2.0 * math.sqrt(2.0) * f.lipschitz * math.sqrt(squares)


@pytest.mark.parametrize("weights", [uniform(24), 0.8 ** np.arange(24)], ids=["mean", "weighted"])
@pytest.mark.parametrize("curved", [False, True])
def test_tails_of_values(weights, curved):
    """Lemma 2.8, of a linear function and of a logistic one; a sixth of the deviation fails."""
    weights = weights / weights.sum()
    f = Logistic(9, 1.0 if curved else 4.0)
    x = np.full(SIZE, 1.0 / SIZE)
    drawn = means(x, weights, 10)
    if curved:
        moved = f.value(drawn) - f.value(x)
    else:
        moved = (drawn - x) @ f.row
        f.first = 0.0
    fails = []
    for b in (0.25, 0.5, 1.0, 1.5, 2.0):
        allowed = math.exp(-(b**2))
        error = 5.0 * math.sqrt(allowed * (1.0 - allowed) / N_RUNS)
        assert (moved >= tail_bound(f, weights, b)).mean() <= allowed + error
        fails.append((moved >= tail_bound(f, weights, b / 6.0)).mean() > allowed + error)
    if not curved:  # of a linear function a mean has about half of the deviation
        assert any(fails)


@pytest.mark.parametrize("count", [4, 64])
def test_the_largest_of_many_functions(count):
    """Lemma 2.10 as printed and with its lost factor: erratum G9. Squares grow with log M / K."""
    x, number = np.full(32, 1.0 / 32), 64
    rows = rng_of(11).choice([-1.0, 1.0], size=(number, 32))
    drawn = means(x, uniform(count), 12, 10_000)
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


@pytest.mark.parametrize("count", [4, 64])
def test_second_moments_of_gradients(count):
    """Corollaries 2.12 and 2.14, the latter in its form without L0, also for kinked gradients."""
    log_d = math.log(SIZE)
    x, f = point(13), Logistic(14)
    slopes = f.gradient(means(x, uniform(count), 15)) - f.gradient(x)
    moment = (np.abs(slopes).max(axis=1) ** 2).mean()
    smooth = 8.0 * f.second**2 / count**2
    for bound in (
        smooth + 8.0 * f.first**2 * (4.0 + log_d) / count,
        smooth + 16.0 * f.first**2 * (1.0 + math.log(2 * SIZE)) / count,
        f.first**2 * (36.0 + 4.0 * math.log(2 * SIZE)) / count,
    ):
        assert moment <= bound
    kinked = Kinked(x, 16)
    slopes = kinked.gradient(means(x, uniform(count), 17)) - kinked.gradient(x)
    second = (np.abs(slopes).max(axis=1) ** 2).mean()
    # half of the variance of a'v: the other half is on the flat side
    variance = (1.0 - kinked.middle**2) / count
    assert second == pytest.approx(variance / 2.0, rel=0.3)
    assert second <= kinked.first**2 * (36.0 + 4.0 * math.log(2 * SIZE)) / count


@pytest.mark.parametrize("count", [4, 32])
def test_both_blocks_at_once(count):
    """Erratum G8: twice the bounds for values and smooth gradients, with kinks sqrt 2 times that.

    A record whose derivatives are equal in both blocks has more than the bias of one block.
    """
    x, y, f = point(18), point(19), Logistic(20, 2.0)
    other = Logistic(21, 2.0)
    row = np.r_[f.row, other.row]
    f.row = row
    z = np.r_[x, y]
    drawn = np.hstack([means(x, uniform(count), 22), means(y, uniform(count), 23)])
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


def test_one_draw_is_enough_for_a_block_that_enters_linearly():
    """For ``sum_i y_i f_i(x)``: no bias of the gradient in x comes from y, and that in y is f's."""
    x, y, count = point(25), point(26, 2), 8
    parts = [Logistic(27), Logistic(28)]
    drawn, group = means(x, uniform(count), 29), means(y, uniform(1), 30)
    slopes = np.stack([f.gradient(drawn) for f in parts], axis=1)
    of_x = np.einsum("rg,rgj->rj", group, slopes)
    smoothed = np.einsum("g,rgj->rj", y, slopes)
    difference = of_x - smoothed
    assert (np.abs(difference.mean(axis=0)) <= slack(difference)).all()
    for f in parts:
        values = f.value(drawn) - f.value(x)
        assert abs(values.mean()) - slack(values) <= 2.0 * f.first / count

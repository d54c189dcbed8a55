"""Releases on a grid: every rounding against exact arithmetic, and an attack on lowest bits."""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from lowest_bits import SCALE, grid_releases, naive_releases, says_zero
from scipy import stats

from skdp.mechanisms import GaussianMechanism, NoiseSource, SphericalLaplaceMechanism
from skdp.mechanisms.grid import (
    _Normals,
    _Sphere,
    _sum,
    _sum_of_squares,
    add_normal,
    add_spherical_laplace,
    step_of,
)
from skdp.mechanisms.partial_draws import CELL_BITS, EXPONENTIAL, NORMAL, draw, signed_draws

#: False-alarm rate of every statistical test; their seeds are fixed.
ALARM = 1e-6
HALF = Fraction(1, 2)


def seeded(seed=0):
    return np.random.default_rng(seed).bytes


def draws_of(law, size, seed=0):
    return draw(law, size, seeded(seed))[:size]


def counted(calls, seed=0):
    rng = np.random.default_rng(seed)

    def source(n):
        calls.append(n)
        return rng.bytes(n)

    return source


def values_of(size, seed=0):
    """Values of all sizes, multiples of powers of 2, and zeros of both signs."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=size) * 10.0 ** rng.integers(-40, 40, size)
    values[::5] = np.round(rng.normal(size=len(values[::5])) * 2.0**20) * 2.0**-30
    values[::7] = rng.normal(size=len(values[::7]))
    values[:2] = np.array([0.0, -0.0])[:size]
    return values


def rounded(value, step, noise):
    """Exact release: the multiple of the step nearest to a sum, as a double."""
    integer = math.floor((Fraction(float(value)) + noise) / Fraction(step) + HALF)
    return float(integer * Fraction(step))


@pytest.mark.parametrize("scale", [1.0, 3e-7, 1e-290, 1e290])
def test_normal_releases_are_the_rounded_exact_sums(scale):
    size = 300
    with np.errstate(over="ignore"):
        values = values_of(size) * max(scale, 1e-270)
    values[~np.isfinite(values)] = 1e308
    draws, step = draws_of(NORMAL, size), step_of(scale)
    released = add_normal(values, scale, draws, seeded(9))
    for i, value in enumerate(values):
        ends = [
            rounded(value, step, draws.sign(i) * Fraction(scale) * (int(draws.units[i]) + end))
            for end in draws.fraction(i).bounds
        ]
        assert ends[0] == ends[1] == released[i]
    assert not np.signbit(released[released == 0.0]).any()


def test_sums_in_the_middle_are_decided_by_further_bits():
    """Middles between two steps within the first bits of a draw, also of one coordinate alone."""
    scale, size = 1.7, 300
    step = step_of(scale)
    draws, values = draws_of(NORMAL, size), []
    for i in range(size):
        noise = (
            Fraction(scale)
            / Fraction(step)
            * (int(draws.units[i]) + sum(draws.fraction(i).bounds) / 2)
        )
        noise *= draws.sign(i)
        rest = HALF - (noise - math.floor(noise))  # in (-1/2, 1/2]
        values.append(float(rest) * step)
    calls = []
    released = add_normal(np.array(values), scale, draws, counted(calls))
    assert len(calls) > 0.9 * size
    for i, value in enumerate(values):
        alone = add_normal(np.array([value]), scale, draws[i : i + 1], seeded())
        assert alone.tolist() == [released[i]]
        noise = [
            draws.sign(i) * Fraction(scale) * (int(draws.units[i]) + end)
            for end in draws.fraction(i).bounds
        ]
        assert rounded(value, step, noise[0]) == rounded(value, step, noise[1]) == released[i]


def exact_sphere(scale, lengths, directions):
    """Noise from the known bits, from the middle of each cell, with 60 digits."""
    middles = [
        [int(part.units[i]) + sum(part.fraction(i).bounds) / 2 for i in range(len(part.units))]
        for part in (lengths, directions)
    ]
    with mpmath.workdps(60):
        length, normals = (
            [mpmath.mpf(m.numerator) / m.denominator for m in part] for part in middles
        )
        norm = mpmath.sqrt(mpmath.fsum(g * g for g in normals))
        ratio = mpmath.mpf(scale) * mpmath.fsum(length) / norm
        return [directions.sign(i) * ratio * g for i, g in enumerate(normals)]


@pytest.mark.parametrize(("dimension", "scale"), [(1, 3e-7), (3, 1.0), (40, 3e-7)])
def test_spherical_releases_are_the_rounded_exact_sums(dimension, scale):
    step = step_of(scale * math.sqrt(dimension + 1.0))
    for seed in range(120 // dimension + 2):
        values = values_of(dimension, seed) * scale
        parts = draws_of(EXPONENTIAL, dimension, seed), draws_of(NORMAL, dimension, 1000 + seed)
        released = add_spherical_laplace(values, scale, *parts, seeded(seed))
        with mpmath.workdps(120):
            for value, noise, found in zip(
                values, exact_sphere(scale, *parts), released, strict=True
            ):
                total = (mpmath.mpf(float(value)) + noise) / step
                # the middles of cells of 63 bits are this near to the draws
                assert abs(total - mpmath.floor(total) - 0.5) > 1e-8
                assert float(Fraction(int(mpmath.floor(total + 0.5))) * Fraction(step)) == found


@pytest.mark.parametrize("dimension", [2, 17])
def test_spherical_sums_in_the_middle_are_decided_by_further_bits(dimension):
    scale, calls = 1.0, []
    step = step_of(scale * math.sqrt(dimension + 1.0))
    parts = draws_of(EXPONENTIAL, dimension), draws_of(NORMAL, dimension, 1)
    with mpmath.workdps(60):
        noise = [z / step for z in exact_sphere(scale, *parts)]
        values = np.array([float(0.5 - (z - mpmath.floor(z))) * step for z in noise])
    released = add_spherical_laplace(values, scale, *parts, counted(calls))
    assert len(calls) >= 2 * dimension
    assert {part.fraction(i).size for part in parts for i in range(dimension)} == {CELL_BITS + 64}
    with mpmath.workdps(100):
        for value, z, found in zip(values, exact_sphere(scale, *parts), released, strict=True):
            total = (mpmath.mpf(float(value)) + z) / step
            assert float(Fraction(int(mpmath.floor(total + 0.5))) * Fraction(step)) == found


def test_exact_bounds_hold_the_noise_at_every_precision():
    """Also with numbers of which more bits are known than of others."""
    parts = draws_of(EXPONENTIAL, 5), draws_of(NORMAL, 5, 1)
    parts[0].fraction(2).refine(seeded(1))
    for _ in range(2):
        parts[1].fraction(4).refine(seeded(2))
    sphere, widths = _Sphere(1.5, *parts, seeded(3)), []
    for _ in range(3):
        bounds = [sorted(sphere.bounds(i)) for i in range(5)]
        widths.append(max(high - low for low, high in bounds))
        sphere.refine(0)
        finer = [sorted(sphere.bounds(i)) for i in range(5)]
        assert all(a <= b <= c <= d for (a, d), (b, c) in zip(bounds, finer, strict=True))
    assert widths[1] < widths[0] * 2.0**-50 and widths[2] < widths[1] * 2.0**-50


@pytest.mark.parametrize(
    ("dimension", "extremes"), [(1, (0, 0)), (2, (255, 255)), (5, (0, 255)), (40, (255, 0))]
)
def test_exact_bounds_hold_whatever_the_further_bits_are(dimension, extremes):
    """Further bits of the lengths and of the directions, all 0 or all 1."""
    for seed in range(5):
        parts = draws_of(EXPONENTIAL, dimension, seed), draws_of(NORMAL, dimension, 100 + seed)
        calls = itertools.count()

        def further(n, calls=calls):
            return bytes([extremes[next(calls) >= dimension]]) * n

        sphere = _Sphere(1.0, *parts, further)
        before = [sorted(sphere.bounds(i)) for i in range(dimension)]
        sphere.refine(0)
        assert next(calls) == 2 * dimension
        for i, (low, high) in enumerate(before):
            after = sorted(sphere.bounds(i))
            assert low <= after[0] and after[1] <= high


def short_draws(size, bits):
    """Draws below 2^-bits, and signs of both kinds."""
    cells = np.random.default_rng(0).integers(0, 2 ** (CELL_BITS - bits), size, dtype=np.uint64)
    return signed_draws(np.zeros(size, dtype=np.int64), cells, (-1.0) ** np.arange(size), {})


@pytest.mark.parametrize(
    ("dimension", "bits"), [(1, 62), (2, 55), (40, 40), (40, 25), (9000, 0), (9000, 62)]
)
def test_doubles_are_as_near_to_the_noise_as_they_say(dimension, bits):
    """Also of short directions and lengths, whose unknown bits count most."""
    draws = draws_of(EXPONENTIAL, dimension), draws_of(NORMAL, dimension, 1)
    if bits:
        draws = short_draws(dimension, bits // 2), short_draws(dimension, bits)
    for noise in (_Sphere(1.5e9, *draws, seeded()), _Normals(1.5e9, draws[1], seeded())):
        found, error = noise.near()
        assert bits or error < 2.0**-44 * np.abs(found).max()
        for i in {*range(dimension)[:20], *range(dimension)[-20:]}:
            for end in noise.bounds(i):
                assert error == math.inf or abs(Fraction(found[i]) - end) <= Fraction(error)


@pytest.mark.parametrize(
    ("factor", "units"),
    [(1e9, [0] * 19 + [40]), (1.0, [0] * 20), (1e-18, [40] + [0] * 9000), (1.0, [3, 0, 9])],
)
def test_bounds_on_errors_cover_each_coordinate(units, factor):
    """Lemmas 4 and 5 of docs/theory/noise.md, for draws of very different sizes."""
    d = len(units)
    cells = np.random.default_rng(0).integers(0, 2**CELL_BITS, d, dtype=np.uint64)
    normals = signed_draws(np.array(units), cells, (-1.0) ** np.arange(d), {})
    lengths = draws_of(EXPONENTIAL, d)
    sizes = [
        k + Fraction(cell + HALF) / 2**CELL_BITS
        for k, cell in zip(units, cells.tolist(), strict=True)
    ]
    # the middles of what the first bits allow, and the largest relative change by the other bits
    radius = Fraction(2 * _sum(lengths) + d, 2 ** (CELL_BITS + 1))
    square = 2 * _sum_of_squares(normals) + 2 * _sum(normals) + d
    square = Fraction(square, 2 ** (2 * CELL_BITS + 1))
    relative = (d / radius + (d + square) / square) / 2**62
    ratio = Fraction(factor) * radius / Fraction(math.sqrt(square))
    places = [0, 1, d // 2, d - 1]
    _, error = _Normals(factor, normals, seeded()).near()
    _, of_sphere = _Sphere(factor, lengths, normals, seeded()).near()
    for i in range(d) if d < 100 else places:
        z = Fraction(factor) * sizes[i]
        least = Fraction(factor) * (1 + sizes[i]) / 2**50 + (1 + z) / 2**52
        assert error * (1.0 + 1e-12) >= least
        z = ratio * sizes[i]
        least = relative * z + (1 + sizes[i]) * ratio / 2**50 + (1 + z) / 2**52
        assert of_sphere * (1.0 + 1e-12) >= least


def test_sums_of_draws_are_exact():
    draws = draws_of(NORMAL, (1 << 17) + 500)
    whole = [
        (unit << CELL_BITS) + cell
        for unit, cell in zip(draws.units.tolist(), draws.cells.tolist(), strict=True)
    ]
    assert _sum(draws) == sum(whole)
    assert _sum_of_squares(draws) == sum(each * each for each in whole)


@pytest.mark.parametrize("value", [-math.inf, math.nan, 1e308])
def test_values_that_are_no_numbers_break_nothing(value):
    source = NoiseSource(seeded())
    for add in (source.add_normal, source.add_spherical_laplace):
        released = add(np.array([value, 1.0]), 1e-3)
        np.testing.assert_equal(released[0], value)
        assert math.isfinite(released[1])


def test_noise_has_the_stated_law():
    """KS tests of what was released; norms of spherical noise are Gamma distributed."""
    source = NoiseSource(seeded(5))
    values = np.random.default_rng(0).normal(size=100_000)
    noise = (GaussianMechanism(0.5, 3.0).release(values, source) - values) / 1.5
    assert stats.kstest(noise, "norm").pvalue > ALARM
    mechanism = SphericalLaplaceMechanism(0.5, 2.0)
    vectors = np.array([mechanism.release(values[:3], source) - values[:3] for _ in range(4000)])
    norms = np.linalg.norm(vectors, axis=1)
    assert stats.kstest(norms / 0.25, stats.gamma(3).cdf).pvalue > ALARM
    assert stats.kstest(vectors[:, 1] / norms, stats.uniform(-1, 2).cdf).pvalue > ALARM


def test_lowest_bits_tell_values_in_floating_point_but_not_on_the_grid():
    """Releases from 0 and 1, whose laws are 0.004 apart: double precision tells which is which."""
    size, step = 400_000, step_of(SCALE)
    naive = [says_zero(naive_releases(value, size, seed=0)) for value in (0, 1)]
    assert min(map(len, naive)) > 20 and naive[0].mean() > 0.9 and not naive[1].any()
    for value in (0, 1):
        released = grid_releases(value, size, seeded(6))
        guesses = says_zero(released)
        assert len(guesses) > 20 and not guesses.any()
        np.testing.assert_array_equal(np.rint(released / step) * step, released)

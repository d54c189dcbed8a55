"""DP-SGDA of the benchmark of the worst group: its noise, and its way to the saddle point."""

import importlib
import math
from pathlib import Path

import numpy as np
import pytest

from skdp.problems import Ball, BilinearProblem, Simplex
from skdp.solvers import solve_certified


@pytest.fixture
def sgda(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))
    return importlib.import_module("benchmarks.sgda")


BALLS = Ball(1.0), Ball(1.0)


def problem_of(records, domains=BALLS):
    return BilinearProblem(*records, (1.0, 1.0, 1.0), *domains, 0.5, 1.0)


def test_no_record_moves_the_sums_by_more_and_some_by_as_much(sgda):
    """A record +-(1, 1, 1) at (x, y) = (-1, 1): both blocks are as long as can be."""
    record = [np.ones((1, 1, 1)), np.ones((1, 1)), np.ones((1, 1))]
    one, other = problem_of(record), problem_of([-part for part in record])
    units = [math.sqrt(2.0) * block.lipschitz for block in (one.constants.x, one.constants.y)]
    bound = sgda.sensitivity(one.constants, units)
    x, y = np.array([-1.0]), np.array([1.0])
    pairs = zip(one.data_operator(x, y), other.data_operator(x, y), units, strict=True)
    moved = math.hypot(*(float((a - b)[0]) / unit for a, b, unit in pairs))
    assert 0.99 * bound < moved <= bound * (1.0 + 1e-9)


def test_without_noise_it_converges_to_the_saddle_point(sgda):
    rng = np.random.default_rng(0)
    records = [rng.normal(0.3, 1.0, size=(40, *shape)) for shape in ((3, 2), (3,), (2,))]
    problem = problem_of(records, (Ball(1.0), Simplex(2)))
    x = sgda.dp_sgda(problem, (1e9, 0.5), (0.1, 0.1), 1600, rng)
    np.testing.assert_allclose(x, solve_certified(problem, 1e-9).x, atol=1e-4)


def test_one_step_adds_the_noise_that_it_is_calibrated_to(sgda):
    """On a record of zeros; with 4,000 coordinates, a false alarm in 1e8 tests."""
    records = [np.zeros((1, 4000, 2)), np.zeros((1, 4000)), np.zeros((1, 2))]
    problem, rate = problem_of(records, (Ball(1e9), Simplex(2))), 0.1
    x = sgda.dp_sgda(problem, (1.0, 1e-6), (rate, rate), 1, np.random.default_rng(0))
    unit = math.sqrt(2.0) * problem.constants.x.lipschitz
    scale = sgda.gaussian_noise_multiplier(1.0, 1e-6) * 2.0 * unit
    assert x.std() == pytest.approx(rate * scale, rel=6.0 / math.sqrt(8000))

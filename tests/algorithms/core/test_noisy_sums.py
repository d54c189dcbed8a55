"""Noisy sums: what one record changes, with rounding, and what comes out."""

import math

import numpy as np
import pytest
from plain_noise import Silent, seeded

from skdp.algorithms.core.centered_rows import sum_rounding
from skdp.algorithms.core.noisy_sums import NoisySum
from skdp.privacy.events import Neighbouring
from skdp.problems import Design


def noisy_sum(design, **changes):
    numbers = {"mu": 0.5, "sensitivity": 2.0, "size": 3.0, "n_entries": 4} | changes
    relation = Neighbouring.REPLACE_ONE
    return NoisySum(
        design=design, neighbouring=relation, name="a sum", reference="Lemma 0", **numbers
    )


def test_the_bound_has_both_kinds_of_rounding():
    """At 1e9 records each is far above the slack of 1e-9."""
    for ratio in (1.0, 10.0):
        design = Design(1.01, 10, 10**9, ratio, 0.1)
        exact, rounding = 2.0 * (1.0 + 1e-9), sum_rounding(design, 3.0)
        assert rounding > 1e-3
        assert noisy_sum(design, size=0.0).bound() == pytest.approx(exact, rel=1e-14)
        assert noisy_sum(design).bound() == pytest.approx(exact + rounding, rel=1e-14)
        moved = exact + rounding + ratio * 1e9 * 1e-10
        assert noisy_sum(design).bound(1e-10) == pytest.approx(moved, rel=1e-14)


def test_the_release_is_what_the_report_says():
    design = Design(1.01, 10, 1000, 1.0, 0.1)
    one = noisy_sum(design)
    report = one.describe()
    assert (report.name, report.dimension, report.n_records) == ("a sum", 4, 1000)
    assert report.noise_scale == one.mechanism().noise_scale == pytest.approx(4.0, rel=1e-6)
    exact = np.zeros((100, 200))
    values, scale = one.release(exact, seeded(0), moved=1.0)
    assert values.shape == exact.shape
    assert scale == one.mechanism(1.0).noise_scale > 500.0 * report.noise_scale
    assert values.std() == pytest.approx(scale, rel=0.05)


def test_numbers_that_are_none_are_released_as_numbers():
    released, _ = noisy_sum(Design(1.01, 10, 1000, 1.0, 0.1)).release(
        np.array([math.nan, math.inf, 1.0]), Silent()
    )
    assert np.isfinite(released).all() and released[2] == 1.0

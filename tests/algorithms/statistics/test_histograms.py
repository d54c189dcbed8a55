"""Histograms of columns: counts are exact, and a unit moves them by no more than is stated."""

import numpy as np
import pytest

from skdp.algorithms.plan import Run
from skdp.algorithms.statistics.columns import ColumnTotal, OfPersons
from skdp.algorithms.statistics.histograms import UNIT, BinCounts, HistogramsPlan
from skdp.mechanisms import NoiseSource
from skdp.privacy.events import Neighbouring

D, BINS = 4, 9


def counts_of(codes, persons=None):
    return OfPersons(ColumnTotal(BinCounts(BINS)), UNIT).of((codes, persons)) / UNIT


def plan(relation, mu=1.0):
    return HistogramsPlan(
        n_records=50, scales=(1.0,) * D, n_bins=BINS, mu=mu, neighbouring=Neighbouring(relation)
    )


def test_counts_are_those_of_the_bins():
    codes = np.random.default_rng(0).integers(0, BINS, (9000, D)).astype(np.int8)
    expected = [np.bincount(column, minlength=BINS) for column in codes.T]
    np.testing.assert_array_equal(counts_of(codes), expected)
    unit = codes.astype(np.float32) * (2.0 / (BINS - 1)) - 1.0  # as chunks hold them
    np.testing.assert_array_equal(counts_of(unit), expected)
    np.testing.assert_array_equal(counts_of(codes[:0]), np.zeros((D, BINS)))


def test_persons_count_once():
    codes = np.array([[0] * D, [1] * D, [1] * D, [2] * D], dtype=np.int8)
    found = counts_of(codes, np.array([0, 1, 1, 1]))
    third = (UNIT // 3) / UNIT
    np.testing.assert_array_equal(found[0, :4], [1.0, 2 * third, third, 0.0])


@pytest.mark.parametrize("relation", list(Neighbouring))
def test_a_unit_moves_counts_by_the_sensitivity_at_most(relation):
    """The bound is met by units whose records are all in one bin."""
    rng, largest, stated = np.random.default_rng(0), 0.0, plan(relation).mechanism.sensitivity
    for trial in range(200):
        ids = np.sort(rng.integers(0, 6, 12))
        ids = np.unique(ids, return_inverse=True)[1] if relation.unit == "user" else None
        base = rng.integers(0, BINS, (12, D)).astype(np.int8)
        mine = (ids == 0) if ids is not None else np.arange(12) == 0
        rest = (base[~mine], None if ids is None else ids[~mine] - 1)
        if trial % 2:
            base[mine] = 0
        other = base.copy()
        other[mine] = 1 if trial % 2 else rng.integers(0, BINS, (mine.sum(), D))
        moved = counts_of(*rest) if not relation.is_replaced else counts_of(other, ids)
        largest = max(largest, float(np.linalg.norm(counts_of(base, ids) - moved)))
    assert 0.999 * stated <= largest <= stated


def test_a_scaled_column_has_less_noise_and_costs_others():
    scaled = HistogramsPlan(
        n_records=50, scales=(1.0, 1.0, 4.0), n_bins=BINS, mu=1.0,
        neighbouring=Neighbouring.ADD_REMOVE,
    )  # fmt: skip
    assert scaled.mechanism.sensitivity == pytest.approx(np.sqrt(18.0))
    np.testing.assert_allclose(scaled.deviations, np.sqrt(18.0) / np.array([1.0, 1.0, 4.0]))
    codes, noise = np.ones((50, 3), dtype=np.int8), NoiseSource(np.random.default_rng(0).bytes)
    drawn = [scaled.run((codes, None), Run(noise=noise)).point for _ in range(150)]
    errors = (np.array(drawn) - counts_of(codes).ravel()).reshape(150, 3, BINS)
    # 1,350 numbers each: off by 10 % once in 10^6 times
    np.testing.assert_allclose(errors.std(axis=(0, 2)), scaled.deviations, rtol=0.1)
    with pytest.raises(ValueError, match="powers of 2"):
        HistogramsPlan(
            n_records=50, scales=(3.0,), n_bins=BINS, mu=1.0, neighbouring=Neighbouring.ADD_REMOVE
        )


def test_runs_count_whole_persons():
    codes, persons = np.zeros((60, D), dtype=np.int8), np.repeat(np.arange(3), 20)
    noise = NoiseSource(np.random.default_rng(0).bytes)
    found = plan("add_remove_user", 1e6).run((codes, persons), Run(noise=noise)).point
    np.testing.assert_allclose(found.reshape(D, BINS)[:, 0], 3.0, atol=1e-3)

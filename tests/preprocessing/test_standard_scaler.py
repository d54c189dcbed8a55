"""DPStandardScaler: its moments, its sensitivity, scikit-learn's checks."""

import math
import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skdp.algorithms.statistics.column_moments import SQUARE_WEIGHT, ColumnMomentsPlan
from skdp.preprocessing import DPStandardScaler, private_ranges
from skdp.privacy import PrivacyBudget, tightest_epsilon

RANGES = [(0, 40), (-200, 200)]


def table(n=5000, seed=0):
    return np.random.default_rng(seed).normal([20, 60], [2, 10], size=(n, 2))


@pytest.mark.parametrize(
    "fit", [DPStandardScaler(ranges=(-9, 9)).fit, lambda X: private_ranges(X, (-9, 9), epsilon=20)]
)
@pytest.mark.parametrize("order", ["C", "F"])
def test_no_copy_of_the_rows_is_made(fit, order):
    X = np.random.default_rng(0).normal(size=(60_000, 20)).copy(order)
    tracemalloc.start()
    try:
        fit(X)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < X.nbytes / 3


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_moments(delta):
    """With 5000 records and epsilon = 1 means and scales are near those of the records."""
    X = table()
    scaler = DPStandardScaler(delta=delta, ranges=RANGES, random_state=0).fit(X)
    noise = np.array([20, 200]) * scaler.privacy_.releases[0].noise_scale
    assert (np.abs(scaler.mean_ - X.mean(axis=0)) < 15 * noise).all()
    assert np.allclose(scaler.var_, scaler.scale_**2)
    assert 0.5 < scaler.scale_[0] / X[:, 0].std() < 2.0
    out = scaler.transform(X)
    assert np.allclose(scaler.inverse_transform(out), X)
    assert abs(out[:, 0].mean()) < 0.5
    report = scaler.privacy_
    assert tightest_epsilon(report.event, delta) <= 1.0 + 1e-9
    assert report.releases[0].sensitivity == pytest.approx(2 * math.sqrt(2) / 5000, rel=1e-6)


def test_values_are_clipped_at_fit_and_transform():
    X = table(100)
    wild = np.where(X > 25, 1e300, X)
    mild = np.where(X > 25, np.minimum(1e300, [40, 200]), X)
    one, two = (DPStandardScaler(ranges=RANGES, random_state=0).fit(x) for x in (wild, mild))
    assert np.array_equal(one.mean_, two.mean_) and np.array_equal(one.scale_, two.scale_)
    assert np.array_equal(one.transform(wild), one.transform(mild))


def test_a_constant_column_is_not_blown_up():
    scaler = DPStandardScaler(random_state=0).fit(np.zeros((1000, 1)))
    assert scaler.scale_[0] >= scaler.privacy_.plan["least_scale"] > 0.01


def test_named_ranges():
    frame = pd.DataFrame(table(50), columns=["age", "hours"])
    scaler = DPStandardScaler(ranges={"hours": RANGES[1], "age": RANGES[0]}).fit(frame)
    assert np.array_equal(scaler.ranges_, RANGES)
    assert list(scaler.get_feature_names_out()) == ["age", "hours"]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"epsilon": 0}, "epsilon"),
        ({"neighbouring": "add_remove"}, "replace_one"),
        ({"ranges": (1, 0)}, "low < high"),
        ({"random_state": -1}, "random_state"),
        ({"accountant": 1}, "accountant"),
    ],
)
def test_invalid_parameters(parameters, message):
    with pytest.raises((TypeError, ValueError), match=message):
        DPStandardScaler(**parameters).fit(np.zeros((3, 1)))


unit = st.floats(-1.0, 1.0)


@given(st.lists(st.tuples(unit, unit), min_size=1, max_size=5))
def test_no_record_moves_the_moments_further(pairs):
    """Any two records; the rest of the table cancels."""
    z, other = np.array(pairs).T
    shift = np.concatenate([z - other, SQUARE_WEIGHT * (z**2 - other**2)])
    plan = ColumnMomentsPlan(n_records=1, n_features=len(z), budget=PrivacyBudget(1.0))
    assert np.linalg.norm(shift) <= plan.mechanism.sensitivity


def test_the_weight_of_the_squares_is_near_the_largest():
    """On a fine grid the bound holds, is attained at the ends, and fails for 1.67."""
    a = np.linspace(0.0, 2.0, 20001)

    def worst(weight):
        return (a**2 * (1.0 + weight**2 * (2.0 - a) ** 2)).max()

    assert worst(SQUARE_WEIGHT) == 4.0 < worst(1.67)


def test_plan_is_for_its_shape():
    with pytest.raises(ValueError, match="another shape"):
        ColumnMomentsPlan(n_records=3, n_features=1, budget=PrivacyBudget(1.0)).run(
            (np.zeros((4, 1)), None), None
        )


def test_nothing_is_said_about_extreme_records():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        X = np.array([[1e308, -1e308], [5e-324, 0.0]])
        DPStandardScaler(ranges=(-1e307, 1e307), delta=0).fit(X).transform(X)

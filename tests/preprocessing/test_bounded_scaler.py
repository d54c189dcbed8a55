import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skdp.preprocessing import BoundedScaler

X = np.array([[30.0, 0.0], [65.0, 20.0], [120.0, 40.0]])
RANGES = [(0, 100), (0, 80)]
SCALED = np.array([[-0.4, -1.0], [0.3, -0.5], [1.0, 0.0]])


@pytest.mark.parametrize("ranges", [RANGES, np.array(RANGES), tuple(RANGES)])
def test_one_range_per_feature(ranges):
    scaler = BoundedScaler(ranges).fit(X)
    np.testing.assert_allclose(scaler.transform(X), SCALED, atol=1e-15)
    np.testing.assert_array_equal(scaler.ranges_, RANGES)
    assert scaler.n_features_in_ == 2
    for_all = BoundedScaler((0, 40)).fit_transform(X)
    np.testing.assert_allclose(for_all, [[0.5, -1], [1, 0], [1, 1]], atol=1e-15)
    with pytest.raises(ValueError, match="3 features"):
        scaler.inverse_transform(np.zeros((1, 3)))


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_ranges_by_column_name(make):
    frame = make({"age": X[:, 0], "hours": X[:, 1]})
    scaler = BoundedScaler({"hours": (0, 80), "age": (0, 100)}).fit(frame)
    np.testing.assert_allclose(scaler.transform(frame), SCALED, atol=1e-15)
    assert list(scaler.feature_names_in_) == ["age", "hours"]
    assert list(scaler.get_feature_names_out()) == ["age", "hours"]


def test_out_of_range_values_are_clipped_without_a_word(recwarn):
    out = BoundedScaler((0, 1)).fit_transform([[-1e308], [1e308], [0.5]])
    np.testing.assert_array_equal(out, [[-1], [1], [0]])
    assert not recwarn


limits = st.floats(-1e300, 1e300)


@given(low=limits, high=limits, value=st.floats(allow_nan=False, allow_infinity=False))
def test_output_is_always_in_the_unit_interval(low, high, value):
    if not low < high or 0.5 * high - 0.5 * low == 0:
        return
    out = BoundedScaler((low, high)).fit_transform([[value], [low], [high]])
    assert (np.abs(out) <= 1).all()
    # rounding of the ends, relative to the width of the range
    width = 0.5 * high - 0.5 * low
    rounding = 4 * np.finfo(float).eps * max(abs(low), abs(high)) / width if width > 1e-300 else 1
    np.testing.assert_allclose(out[1:], [[-1], [1]], rtol=1e-9 + rounding)


@given(st.floats(0, 100), st.floats(0, 80))
def test_inverse(a, b):
    scaler = BoundedScaler(RANGES).fit(X)
    row = [[a, b]]
    np.testing.assert_allclose(scaler.inverse_transform(scaler.transform(row)), row, atol=1e-12)


class TestFillValue:
    HOLES = np.array([[np.nan, 0.0], [65.0, np.nan], [120.0, 40.0]])

    @pytest.mark.parametrize("value", [50, [50, 60], np.array([50.0, 60.0])])
    def test_a_number_per_column(self, value):
        scaler = BoundedScaler(RANGES, fill_value=value).fit(self.HOLES)
        second = np.broadcast_to(value, 2)[1]
        filled = np.array([[50, 0], [65, second], [120, 40]])
        expected = BoundedScaler(RANGES).fit_transform(filled)
        np.testing.assert_array_equal(scaler.transform(self.HOLES), expected)
        assert np.isnan(self.HOLES[0, 0])
        out = BoundedScaler((0, 1), fill_value=-7).fit_transform(np.array([[np.nan]]))
        assert out == [[-1.0]]  # outside of the range it is clipped

    def test_by_name(self):
        frame = pd.DataFrame(self.HOLES, columns=["age", "hours"])
        scaler = BoundedScaler(RANGES, fill_value={"age": 50})
        with pytest.raises(ValueError, match="NaN in a column that fill_value does not name"):
            scaler.fit(frame)
        scaler.fit(frame.fillna({"hours": 1}))
        with pytest.raises(ValueError, match="NaN in a column"):
            scaler.transform(frame)
        with pytest.raises(ValueError, match=r"not in X: \['height'\]"):
            BoundedScaler(RANGES, fill_value={"height": 50}).fit(frame)

    @pytest.mark.parametrize("value", ["a", np.nan, np.inf, [1, 2, 3], [[1, 2]], {"age": np.nan}])
    def test_invalid(self, value):
        frame = pd.DataFrame(X, columns=["age", "hours"])
        with pytest.raises(ValueError, match="fill_value"):
            BoundedScaler(RANGES, fill_value=value).fit(frame)
        with pytest.raises(ValueError, match="infinity"):
            BoundedScaler(fill_value=0).fit([[np.inf]])

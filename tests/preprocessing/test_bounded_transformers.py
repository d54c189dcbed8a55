"""What the transformers by public ranges share: each record by itself, and nothing is learned."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

from skdp.preprocessing import BoundedScaler, BoundedSplineTransformer

X = np.array([[30.0, 0.0], [65.0, 20.0], [120.0, 40.0]])
RANGES = [(0, 100), (0, 80)]

every_kind = pytest.mark.parametrize("kind", [BoundedScaler, BoundedSplineTransformer])


@every_kind
def test_nothing_is_learned_from_the_values(kind):
    before = X.copy()
    one, two = (kind(RANGES).fit(data) for data in (X, 1e6 * X[::-1]))
    assert sorted(vars(one)) == sorted([*one.get_params(), "n_features_in_", "ranges_"])
    assert sorted(vars(one)) == sorted(vars(two))
    np.testing.assert_array_equal(one.ranges_, two.ranges_)
    np.testing.assert_array_equal(one.transform(X), two.transform(X))
    np.testing.assert_array_equal(X, before)


@every_kind
def test_records_are_transformed_one_at_a_time(kind):
    transformer = kind(RANGES).fit(X[:1])
    rows = np.vstack([transformer.transform(row[None]) for row in X])
    np.testing.assert_array_equal(rows, transformer.transform(X))


@pytest.mark.parametrize(
    ("ranges", "message"),
    [((1, 0), "low < high"), ((1, 1), "low < high"), ((0, np.inf), "finite"),
     ((np.nan, 1), "finite"), ([(0, 1), (3, 2)], "feature 1"), (3.0, "shape"), ((1, 2, 3), "shape"),
     ([(0, 1, 2), (0, 1, 2)], r"shape \(2, 3\). Ranges are one .*zip\(lower, upper\)"),
     ([(0, 1), (0, 1, 2)], "pairs"), (("low", "high"), "pairs"), (None, "low < high|pairs"),
     ([(0, 1)] * 3, "3 rows, but X has 2 features"), ({"a": (0, 1), "b": (0, 1)}, "data frame")],
)  # fmt: skip
@every_kind
def test_invalid_ranges(kind, ranges, message):
    with pytest.raises(ValueError, match=message):
        kind(ranges).fit(X)


@every_kind
def test_a_dict_must_name_the_columns(kind):
    frame = pd.DataFrame(X, columns=["age", "hours"])
    with pytest.raises(ValueError, match=r"Without a range: \['hours'\]; not in X: \['hour'\]"):
        kind({"age": (0, 1), "hour": (0, 1)}).fit(frame)
    with pytest.raises(ValueError, match="range of 'hours'"):
        kind({"age": (0, 1), "hours": (2, 1)}).fit(frame)


@every_kind
def test_input_that_is_refused(kind):
    for value in (np.nan, np.inf):
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            kind().fit([[value]])
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            kind().fit([[0.0]]).transform([[value]])
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        kind().fit(sp.csr_array(X))
    for method in {"transform", "inverse_transform"} & set(dir(kind)):
        with pytest.raises(NotFittedError):
            getattr(kind(), method)(X)

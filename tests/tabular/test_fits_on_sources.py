"""Models of tables on sources of records are those in memory; no encoded table is held."""

import numpy as np
import pandas as pd
import pytest

from skdp import BudgetAccountant, Date, DPTabularClassifier, DPTabularRegressor, Number
from skdp.data import ChunkSource, ParquetRecords
from skdp.tabular import Text

N = 700
COLUMNS = {
    "age": Number(18, 90, missing=True),
    "job": ["clerk", "cook"],
    "joined": Date("2015-01-01", "2026-01-01"),
    "note": Text(8),
}
EDGES = [0, 0, 300, 301, 301, N]


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "note": rng.choice(["late and angry", "thanks", None], N),
            "age": np.where(rng.random(N) < 0.1, np.nan, rng.uniform(18, 90, N)),
            "joined": np.datetime64("2016-01-01", "s") + rng.integers(0, 3000, N).astype("m8[D]"),
            "job": rng.choice(["clerk", "cook", "judge"], N),
        }
    )
    frame["left"] = np.where((frame["age"] > 50) ^ (frame["job"] == "cook"), "yes", "no")
    frame["paid"] = frame["age"].fillna(40.0) + rng.normal(0, 5, N)
    return frame


MODELS = {
    "left": lambda: DPTabularClassifier(
        30.0, columns=COLUMNS, classes=["no", "yes"], random_state=0
    ),
    "paid": lambda: DPTabularRegressor(
        30.0,
        columns=COLUMNS,
        target_range=(0, 110),
        neighbouring="add_remove",
        n_public=N - 50,
        random_state=0,
    ),
}


def chunks(frame, target):
    """Frames between EDGES, two of them empty."""

    def read(k):
        part = frame[EDGES[k] : EDGES[k + 1]]
        return part[list(frame)[:4]], part[target].to_numpy()

    return ChunkSource(read, len(EDGES) - 1)


@pytest.mark.parametrize("target", MODELS)
def test_a_fit_on_a_source_is_that_in_memory(target, frame, tmp_path):
    """One of chunks, the other of files that are kept as scratch."""
    X = frame[list(frame)[:4]]
    source = chunks(frame, target)
    if target == "paid":
        frame.to_parquet(tmp_path / "table.parquet", row_group_size=250)
        given = {"features": list(X), "scratch": tmp_path}
        source = ParquetRecords(tmp_path / "table.parquet", target, **given)
    found, expected = MODELS[target]().fit(source), MODELS[target]().fit(X, frame[target])
    assert found.feature_plan_ == expected.feature_plan_ and found.column_maps_
    assert found.privacy_.to_dict() == expected.privacy_.to_dict()
    np.testing.assert_array_equal(found.model_.coef_, expected.model_.coef_)
    np.testing.assert_array_equal(found.predict(X), expected.predict(X))
    assert list(found.feature_names_in_) == list(expected.feature_names_in_) == list(X)


def test_records_that_declarations_do_not_allow_are_refused_before_the_charge(frame):
    """In any chunk, by its number and the column."""
    wrong = frame.copy()
    wrong.loc[500, "joined"] = None
    accountant = BudgetAccountant(30.0, 1e-5)
    model = MODELS["left"]()
    before = dict(vars(model))
    with accountant, pytest.raises(ValueError, match="chunk 4: Column 'joined' has missing values"):
        model.fit(chunks(wrong, "left"))
    with accountant, pytest.raises(ValueError, match="chunk 1: y contains labels"):
        model.fit(chunks(frame, "job"))
    assert accountant.total().epsilon == 0 and vars(model) == before

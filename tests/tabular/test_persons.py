"""Models of tables with persons who have several records."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from skdp import BudgetAccountant, DPTabularClassifier, DPTabularRegressor
from skdp.data import ChunkSource

rng = np.random.default_rng(0)
N = 600
IDS = rng.permutation(np.repeat(np.arange(N), rng.integers(1, 6, N)))
FRAME = pd.DataFrame(
    {"age": rng.uniform(18, 90, len(IDS)), "job": rng.choice(["clerk", "cook"], len(IDS))}
)
Y = np.where(np.abs(FRAME["age"] - 50) > 15, 1, 0)
COLUMNS = {"age": (18, 90), "job": ["clerk", "cook"]}


def classifier(**parameters):
    return DPTabularClassifier(columns=COLUMNS, classes=[0, 1], random_state=0, **parameters)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.from_pandas, pa.Table.from_pandas])
def test_ids_in_a_column(make):
    expected = classifier().fit(FRAME, Y, user_ids=IDS)
    tagged = make(FRAME.assign(patient=[f"p{i:05d}" for i in IDS]))
    model = classifier().fit(tagged, Y, user_ids="patient")
    np.testing.assert_array_equal(model.model_.coef_, expected.model_.coef_)
    assert model.feature_names_in_.tolist() == ["age", "job"]
    np.testing.assert_array_equal(model.predict(tagged), expected.predict(FRAME))
    assert model.score(tagged, Y) == expected.score(FRAME, Y)
    with pytest.raises(ValueError, match=r"without a declaration: \['patient'\]"):
        expected.predict(tagged)
    assert "for persons" in str(model.privacy_) and f"{N} persons" in str(model.privacy_)


@pytest.mark.parametrize("kind", [DPTabularClassifier, DPTabularRegressor])
def test_features_are_planned_for_the_number_of_persons(kind):
    """Persons of one record are records; equal records weigh as one."""
    own = {"classes": [0, 1]} if kind is DPTabularClassifier else {"target_range": (0, 1)}
    model = kind(columns=COLUMNS, random_state=0, epsilon=0.7, **own)
    plain = model.fit(FRAME, Y)
    size, plan = plain.privacy_.releases[0].n_records, plain.feature_plan_
    repeats = np.repeat(np.arange(len(Y)), 3)
    model.fit(FRAME.iloc[repeats], Y[repeats], user_ids=repeats)
    assert model.feature_plan_ == plan
    assert {each.n_records for each in model.privacy_.releases} == {size} == {len(Y)}


def test_what_is_refused():
    with BudgetAccountant(10.0, 1e-4) as accountant:
        for X, ids, message in (
            (FRAME.assign(patient=IDS), "job", "Leave it out"),
            (FRAME, "patient", "no column of X"),
            (FRAME, IDS[1:], "one id for each row"),
            (ChunkSource(lambda k: (FRAME, Y), 1), IDS, "all records in memory"),
        ):
            model, y = classifier(), None if isinstance(X, ChunkSource) else Y
            with pytest.raises(ValueError, match=message):
                model.fit(X, y, user_ids=ids)
            assert not hasattr(model, "privacy_")
        with pytest.raises(ValueError, match="sample_weight is not supported"):
            classifier().fit(FRAME, Y, sample_weight=np.ones(len(Y)))
    assert not accountant.entries

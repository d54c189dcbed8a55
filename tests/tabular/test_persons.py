"""Models of tables with persons who have several records."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone

from skdp import BudgetAccountant, DPTabularClassifier, DPTabularRegressor
from skdp.data import ChunkSource
from skdp.data.sources import Chunk

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
            (ChunkSource(lambda k: (FRAME, Y), 1), IDS, "A source holds"),
        ):
            model, y = classifier(), None if isinstance(X, ChunkSource) else Y
            with pytest.raises(ValueError, match=message):
                model.fit(X, y, user_ids=ids)
            assert not hasattr(model, "privacy_")
        with pytest.raises(ValueError, match="This DPTabularClassifier estimator requires y"):
            classifier().fit(FRAME, None)
    assert not accountant.entries


@pytest.mark.parametrize("ids", [None, IDS])
def test_weights_reach_the_linear_model(ids):
    """Records of weight 0 are as good as absent, whatever is told of them; features stay."""
    wrong = np.random.default_rng(1).random(len(Y)) < 0.5
    targets = np.where(wrong, 1 - Y, Y)
    given = {"epsilon": 50.0, "weight_bound": 3.0}
    plain = classifier(**given).fit(FRAME, targets, user_ids=ids)
    model = classifier(**given).fit(FRAME, targets, user_ids=ids, sample_weight=3.0 * ~wrong)
    assert model.score(FRAME, Y) > 0.9 > 0.8 > plain.score(FRAME, Y)
    assert model.feature_plan_ == plain.feature_plan_
    linear = model.model_
    rows = model.encoder_.transform(FRAME)
    again = clone(linear).fit(rows, targets, user_ids=ids, sample_weight=3.0 * ~wrong)
    np.testing.assert_array_equal(again.coef_, linear.coef_)


@pytest.mark.parametrize("weight", ["balanced", {0: 9.0, 1: 1.0}])
def test_costs_of_classes_shift_the_intercept(weight):
    """At no price; also of persons and of a source of chunks."""
    rare = np.where(FRAME["age"] > 70, 0, 1)
    given, ids, shift = (FRAME, rare), IDS, np.log(rare.mean() / (1 - rare.mean()))
    if weight != "balanced":
        given, ids, shift = (ChunkSource(lambda k: (FRAME, rare), 1), None), None, np.log(9.0)
    plain, model = (
        classifier(epsilon=50.0, features="linear", class_weight=each).fit(*given, user_ids=ids)
        for each in (None, weight)
    )
    np.testing.assert_array_equal(model.model_.coef_, plain.model_.coef_)
    assert model.privacy_.releases == plain.privacy_.releases
    odds = plain.decision_function(FRAME) - model.decision_function(FRAME)
    np.testing.assert_allclose(odds, odds[0])
    assert odds[0] == pytest.approx(shift, abs=0.05)


@pytest.mark.parametrize("unit", ["record", "user"])
def test_no_unit_in_a_source_has_the_releases_of_one(unit):
    """Whether there are any is private: the same relation, and no error."""

    def source(n):
        X, y = np.full((n, 3), 0.5), np.zeros(n, dtype=int)
        ids = np.arange(n) if unit == "user" else None
        return ChunkSource(lambda _: Chunk(X=X, y=y, user_ids=ids), 1)

    models = [
        DPTabularClassifier(
            5.0, classes=[0, 1], neighbouring="add_remove", n_public=1500, random_state=0
        ).fit(source(n))
        for n in (0, 1)
    ]
    first, second = (model.privacy_.releases for model in models)
    assert first[0] == second[0] and first[0].name == "histograms of columns"
    assert {each.event.neighbouring.unit for each in (*first, *second)} == {unit}

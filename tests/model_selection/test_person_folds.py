"""Cross-validation by persons who have several records."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import KFold
from sklearn.pipeline import Pipeline, make_pipeline

from skdp import BudgetAccountant, DPLogisticRegression
from skdp._units import Persons
from skdp.algorithms.statistics.noisy_score import (
    AUCPlan,
    F1ScorePlan,
    LabelledScoresPlan,
    MeanScorePlan,
)
from skdp.model_selection import DPSearchCV, dp_cross_validate
from skdp.preprocessing import DPStandardScaler
from skdp.privacy import PrivacyBudget, tightest_epsilon
from skdp.privacy.events import Neighbouring

rng = np.random.default_rng(0)
N = 400
IDS = rng.permutation(np.repeat(np.arange(N), rng.integers(1, 9, N)))
X = rng.uniform(-0.5, 0.5, (len(IDS), 2))
Y = (X[:, 0] > 0).astype(int)
MODEL = DPLogisticRegression(data_norm=1.0, classes=[0, 1])


FITS = []


class Seen(DPLogisticRegression):
    """Whose records a fit has seen."""

    def fit(self, X, y, *, user_ids=None):
        """As of its base."""
        super().fit(X, y, user_ids=user_ids)
        FITS.append(set(user_ids.tolist()))
        return self


def test_persons_are_in_one_test_set():
    model = Seen(data_norm=1.0, classes=[0, 1], epsilon=100.0)
    scored = []

    def own(model, X, y):
        scored.append(len(X))
        return model.predict(X) == y

    found = dp_cross_validate(model, X, Y, user_ids=IDS, cv=4, scoring=own, score_range=(0, 1))
    assert [len(each) for each in FITS] == [300] * 4
    test_sets = [set(range(N)) - each for each in FITS]
    assert sum(map(len, test_sets)) == N == len(set.union(*test_sets))
    numbers = np.bincount(IDS)
    assert scored == [numbers[list(each)].sum() for each in test_sets]
    assert found["event"].neighbouring is Neighbouring.REPLACE_USER


def test_the_score_of_a_person_is_the_mean_of_its_records():
    persons = Persons(["b", "a", "b", "c", "b"], 5)
    rows = persons.rows_of(np.array([2, 1]))
    assert rows.tolist() == [3, 0, 2, 4]
    assert persons.codes_of(rows).tolist() == [1, 0, 0, 0]
    values = np.array([0.25, 1.0, 0.0, 0.5])
    plan = MeanScorePlan(n_records=2, budget=PrivacyBudget(1.0))
    assert plan.sums(values, None, persons.codes_of(rows)) == pytest.approx([0.25 + 0.5])
    # one person with nearly all records counts once
    many = np.concatenate([X, np.tile([[0.4, 0.0]], (5000, 1))])
    targets = np.append(Y, np.zeros(5000, int))  # wrong for the model
    ids = np.append(IDS, np.full(5000, 7))
    model = clone(MODEL).set_params(epsilon=1e3)
    found = dp_cross_validate(model, many, targets, user_ids=ids, cv=2, epsilon=1e3)
    assert found["test_score"].min() > 0.9


def scored(name, values, labels, persons):
    """The sums of a plan, and those by definition, from the records as if each were alone."""
    kind, options = SCORES[name]
    plan = kind(n_records=int(persons.max()) + 1, budget=PrivacyBudget(1.0), **options)
    weights = 1.0 / np.bincount(persons)[persons]
    if name == "roc_auc":
        signs = np.sign(values[:, None] - values[None]) * (persons[:, None] != persons[None])
        pairs = np.outer(weights * labels, weights * (1 - labels)) * signs
        expected = pairs.sum() / (2 * (plan.n_records - 1)), np.sqrt(0.75) * (weights @ labels)
    else:
        alone = [plan.sums(values[[k]], labels[[k]]) for k in range(len(values))]
        expected = weights @ np.array(alone)
    return plan, plan.sums(values, labels, persons), expected


SCORES = {
    "accuracy": (MeanScorePlan, {}),
    "balanced_accuracy": (LabelledScoresPlan, {"n_labels": 2}),
    "f1": (F1ScorePlan, {"n_labels": 1}),
    "f1_macro": (F1ScorePlan, {"n_labels": 2}),
    "roc_auc": (AUCPlan, {}),
}


@pytest.mark.parametrize("name", SCORES)
def test_records_of_a_person_weigh_1_in_a_score(name):
    rng = np.random.default_rng(1)
    for _ in range(20):
        persons = np.repeat(np.arange(7), rng.choice([1, 3, 4], 7))
        order = rng.permutation(len(persons))
        values, labels = rng.integers(0, 2, (2, len(persons)))
        given = values * rng.choice([1.0, 0.3], len(persons)), labels, persons
        given = given if name in ("accuracy", "roc_auc") else (values, labels, persons)
        _, sums, expected = scored(name, *(part[order] for part in given))
        one = 2.0**-28 if name == "roc_auc" else 2.0**-48  # of the integers that weights are
        np.testing.assert_allclose(sums, expected, rtol=0.0, atol=16 * one)
        np.testing.assert_array_equal(sums, scored(name, *given)[1])  # to the last bit
    alone = np.arange(len(values))
    plan, sums, _ = scored(name, values, labels, alone)
    np.testing.assert_array_equal(plan.sums(values, labels), sums)  # persons of one record


@pytest.mark.parametrize("name", SCORES)
def test_no_person_moves_a_score_further(name):
    """Lemmas 1 to 4 of docs/theory/scores.md for persons of 1 to 50 extreme records."""
    rng, found = np.random.default_rng(2), []
    for _ in range(100):
        n = int(rng.integers(1, 6))
        rest = np.repeat(np.arange(n), rng.integers(1, 4, n))
        values, labels = rng.integers(0, 2, len(rest)), np.full(len(rest), rng.integers(2))
        if rng.random() < 0.5:
            labels = rng.integers(0, 2, len(rest))
        sums = []
        for m in rng.choice([1, 2, 50], 2):
            own = np.full(m, rng.integers(2)) if rng.random() < 0.7 else np.arange(m) % 2
            extreme = rng.choice([-1, 2] if name == "roc_auc" else [0, 1], m)
            parts = (values, extreme), (labels, own), (rest, np.full(m, n))
            plan, released, _ = scored(name, *map(np.concatenate, parts))
            sums.append(released)
        found.append(np.linalg.norm(sums[0] - sums[1]))
    assert 0.99 * plan.sensitivity < max(found) <= plan.mechanism.sensitivity


@pytest.mark.parametrize("scoring", ["roc_auc", "balanced_accuracy", "f1", "f1_macro", "groups"])
def test_scores_of_held_out_persons(scoring):
    given = (
        {"score_groups": Y, "group_names": [0, 1]} if scoring == "groups" else {"scoring": scoring}
    )
    model = clone(MODEL).set_params(epsilon=100.0)
    found = dp_cross_validate(model, X, Y, epsilon=100.0, user_ids=IDS, cv=2, **given)
    assert found["test_score"].min() > 0.9
    assert found["event"].neighbouring is Neighbouring.REPLACE_USER


def test_pipelines_columns_and_price():
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(person=IDS)
    scaler = DPStandardScaler(epsilon=0.2, delta=0.0, ranges=(-0.5, 0.5))
    model = make_pipeline(scaler, clone(MODEL))
    with BudgetAccountant(100.0, 1e-4) as accountant:
        found = dp_cross_validate(model, frame, Y, user_ids="person", cv=3, epsilon=0.1)
    scores = found["score_noise"]
    assert scores == pytest.approx([np.sqrt(2) / 0.1 / (N / 3)] * 3, rel=0.02)  # n of persons
    assert accountant.neighbouring is Neighbouring.REPLACE_USER
    assert tightest_epsilon(found["event"], 1e-5) < 2 * 1.2 + 0.1


def test_fits_of_records_are_refused_before_a_charge():
    with BudgetAccountant(100.0, 1e-4) as accountant:
        with pytest.raises(ValueError, match="give user_ids to all of them"):
            dp_cross_validate(MODEL, X, Y, user_ids=IDS, params={"user_ids": None})
        with pytest.raises(ValueError, match="give user_ids to all of them"):
            dp_cross_validate(MODEL, X, Y, params={"user_ids": IDS})
        for options, message in (
            ({"cv": KFold(3)}, "folds are of persons"),
            ({"cv": N + 1}, "cv"),
            ({"user_ids": IDS[1:]}, "one id for each row"),
        ):
            with pytest.raises(ValueError, match=message):
                dp_cross_validate(MODEL, X, Y, **{"user_ids": IDS, **options})
    assert not accountant.entries


def test_search_holds_persons_out():
    FITS.clear()
    scaler = DPStandardScaler(ranges=(-0.5, 0.5))
    model = Pipeline([("scale", scaler), ("model", Seen(classes=[0, 1], data_norm=2.0))])
    grid = {"scale": [scaler, "passthrough"]}
    scored = []

    def own(model, X, y):
        scored.append(len(X))
        return model.predict(X) == y

    search = DPSearchCV(model, grid, epsilon=20.0, n_draws=2, scoring=own, score_range=(0, 1))
    search.fit(X, Y, user_ids=IDS)
    assert all(len(each) == 300 for each in FITS)
    numbers = np.bincount(IDS)
    assert scored == [numbers[list(set(range(N)) - each)].sum() for each in FITS]
    assert search.privacy_.unit == "user" and search.privacy_.releases[0].n_records == 100
    with BudgetAccountant(100.0, 1e-4) as accountant:
        for ids, params in ((IDS, {"model__user_ids": None}), (None, {"model__user_ids": IDS})):
            with pytest.raises(ValueError, match="give user_ids to all of them"):
                search.fit(X, Y, user_ids=ids, **params)
    assert not accountant.entries

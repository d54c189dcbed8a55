"""Cross-validation by persons who have several records."""

import warnings

import numpy as np
import pandas as pd
import pytest
from laboratory import Laboratory, state
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.model_selection import KFold
from sklearn.pipeline import Pipeline, make_pipeline

from skdp import BudgetAccountant, DPLogisticRegression, DPRidge
from skdp._units import Persons
from skdp.algorithms.statistics.noisy_score import (
    AUCPlan,
    F1ScorePlan,
    LabelledScoresPlan,
    MeanScorePlan,
)
from skdp.model_selection import DPSearchCV, dp_cross_validate
from skdp.model_selection.scoring import _tables, resolve_scoring
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


class Scored:
    """A score that keeps the rows that each model has met."""

    def __init__(self):
        self.models, self.rows = [], []

    def __call__(self, model, X, y):
        """As the accuracy."""
        assert len(X) == 1024  # nobody's records are counted
        if not self.models or self.models[-1] is not model:
            self.models.append(model)
            self.rows.append(set())
        self.rows[-1] |= set(X[:, 0])
        return model.predict(X) == y


def rows_of(persons):
    """What :class:`Scored` keeps of the records of some persons."""
    return set(X[np.isin(IDS, list(persons)), 0])


def test_persons_are_in_one_test_set():
    model, own = Seen(data_norm=1.0, classes=[0, 1], epsilon=100.0), Scored()
    found = dp_cross_validate(model, X, Y, user_ids=IDS, cv=4, scoring=own, score_range=(0, 1))
    assert [len(each) for each in FITS] == [300] * 4
    test_sets = [set(range(N)) - each for each in FITS]
    assert sum(map(len, test_sets)) == N == len(set.union(*test_sets))
    assert own.rows == list(map(rows_of, test_sets))
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
    "recall": (LabelledScoresPlan, {"n_labels": 1}),
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
    for _ in range(40):
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


class Tails(ClassifierMixin, BaseEstimator):
    """A model whose numbers have other last bits in some rows, as products of matrices do."""

    classes_ = np.array([0, 1])

    def decision_function(self, X):
        """Return the first column, rounded up in the last rows and in each third."""
        scores, n = X[:, 0].copy(), len(X)
        other = (np.arange(n) >= n - n % 7) | (np.arange(n) % 3 == 0)
        scores[other] = np.nextafter(scores[other], np.inf)
        return scores

    def predict(self, X):
        """Compare with 0."""
        return (self.decision_function(X) > 0).astype(int)


@pytest.mark.parametrize("scoring", [*SCORES, "precision", "precision_macro", "groups"])
def test_no_person_moves_the_ties_of_others(scoring):
    """Records of one person more or less move the computed numbers of the others to other rows."""
    n, plans = 40, []

    def sums(values, label):
        ids = np.append(np.zeros(len(values), int), np.arange(1, n))
        X = np.append(values, np.zeros(n - 1))[:, None]
        y = np.append(np.full(len(values), label), np.arange(1, n) > 30)
        persons = Persons(ids, len(ids))
        rows = persons.rows_of(np.append(0, np.arange(n - 1, 0, -1)))
        options = (y, [0, 1]) if scoring == "groups" else ()
        name = "accuracy" if scoring == "groups" else scoring
        found = resolve_scoring([declared], y, name, None, *options)
        plans.append(found.plan(n, PrivacyBudget(1.0), persons))
        return plans[-1].sums(*found.data(Tails(), X[rows], y[rows], rows, persons))

    declared, moved = Tails(), []
    declared.classes = [0, 1]
    for label in (0, 1):
        tables = [sums(np.full(m, value), label) for m in range(1, 9) for value in (-1.0, 1.0)]
        moved += [np.linalg.norm(one - other) for one in tables for other in tables]
    assert 0.4 < max(moved) <= plans[0].mechanism.sensitivity


def test_records_of_many_persons_have_few_tables():
    rng = np.random.default_rng(3)
    for n, most in ((5, 2), (100, 8), (5000, 1), (3000, 30)):
        persons = np.repeat(rng.permutation(n), rng.integers(1, most + 1, n))
        tables = _tables(persons)
        assert sorted(tables[tables >= 0]) == list(range(len(persons)))
        assert len(tables) <= 3 + 1.3 * len(persons) / tables.shape[1]
    one = np.append(np.zeros(20_000, int), persons + 1)  # a person with many
    assert len(_tables(one)) <= len(tables) + 21


@pytest.mark.parametrize("scoring", ["f1", "roc_auc", "precision_macro", "groups"])
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


SEARCH = DPSearchCV(MODEL, {"method": ["gradient"]}, epsilon=20.0, n_draws=2, random_state=0)


def test_search_takes_ids_from_a_column():
    frame = pd.DataFrame(X, columns=["a", "b"])
    named = frame.assign(person=IDS)
    expected = clone(SEARCH).fit(frame, Y, user_ids=IDS)
    found = clone(SEARCH).fit(named, Y, user_ids="person")
    np.testing.assert_array_equal(found.decision_function(named), expected.decision_function(frame))
    np.testing.assert_array_equal(found.predict(named), found.predict(frame))
    np.testing.assert_array_equal(found.predict_proba(named), expected.predict_proba(frame))
    assert found.score(named, Y) == expected.score(frame, Y)


def test_fits_of_records_are_refused_before_a_charge():
    with BudgetAccountant(100.0, 1e-4) as accountant:
        with pytest.raises(ValueError, match="give user_ids to all of them"):
            dp_cross_validate(MODEL, X, Y, user_ids=IDS, params={"user_ids": None})
        with pytest.raises(ValueError, match="user_ids= of dp_cross_validate, not params"):
            dp_cross_validate(MODEL, X, Y, params={"user_ids": IDS})
        frame = pd.DataFrame(X, columns=["a", "b"]).assign(person=IDS + 1000)
        for fit in (dp_cross_validate, lambda model, *data, **ids: SEARCH.fit(*data, **ids)):
            with pytest.raises(ValueError, match=r"'person' .* no feature. Leave it out, or name"):
                fit(MODEL, frame, Y, user_ids=IDS + 1000)
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
    own = Scored()
    search = DPSearchCV(model, grid, epsilon=20.0, n_draws=2, scoring=own, score_range=(0, 1))
    search.fit(X, Y, user_ids=IDS)
    assert all(len(each) == 300 for each in FITS)
    assert [rows_of(set(range(N)) - each) for each in FITS] == own.rows
    assert search.privacy_.unit == "user" and search.privacy_.releases[0].n_records == 100
    with BudgetAccountant(100.0, 1e-4) as accountant:
        for ids, params in ((IDS, {"model__user_ids": None}), (None, {"model__user_ids": IDS})):
            with pytest.raises(ValueError, match="give user_ids to all of them"):
                search.fit(X, Y, user_ids=ids, **params)
    assert not accountant.entries


@pytest.mark.parametrize("is_search", [False, True])
def test_nothing_tells_how_many_records_persons_have(is_search):
    """At one history all is equal: draws, messages, attributes, reports. Fits: test_fits.py."""
    left, releases = [], None
    for most in (1, 30):
        rng = np.random.default_rng(most)
        ids = rng.permutation(np.repeat(np.arange(150), rng.integers(1, most + 1, 150)))
        rows = rng.uniform(-1, 1, (len(ids), 2))
        y = (rows[:, 0] > rng.uniform(-0.5, 0.5)).astype(int)
        with Laboratory(releases=releases) as laboratory, warnings.catch_warnings(record=True) as w:
            warnings.simplefilter("always")
            if is_search:
                ridge = DPRidge(data_norm=1.0, target_range=(0, 1), random_state=0)
                grid = {"fit_intercept": [True, False]}
                search = DPSearchCV(ridge, grid, n_draws=2, random_state=0)
                found = search.fit(rows, y, user_ids=ids)
            else:
                options = {"cv": 3, "scoring": "f1", "random_state": 0}
                model = clone(MODEL).set_params(random_state=0)
                found = dp_cross_validate(model, rows, y, user_ids=ids, **options)
        releases = laboratory.releases
        draws = [(each.kind, each.dimension, each.mechanism) for each in laboratory.draws]
        left.append((list(state(found)), draws, [str(each.message) for each in w]))
    assert left[0] == left[1] and left[0][1]

"""Models of tables: the linear model of the encoded rows, planned by public numbers alone."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.inspection import permutation_importance
from sklearn.model_selection import GridSearchCV

from skdp import (
    BudgetAccountant,
    DPLogisticRegression,
    DPRidge,
    DPTabularClassifier,
    DPTabularRegressor,
    PrivacyLeakWarning,
)
from skdp.inspection import plan_fit
from skdp.model_selection import dp_cross_validate
from skdp.tabular import Category, Date, FeaturePlan, Number, TableEncoder, Text
from skdp.tabular.feature_plan import effective_size, feature_bound

COLUMNS = {
    "age": Number(18, 90, missing=True),
    "hours": (0, 80),
    "job": ["clerk", "cook", "judge"],
    "joined": Date("2015-01-01", "2026-01-01"),
    "vip": bool,
}


def table(n=800, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "age": np.where(rng.random(n) < 0.1, np.nan, rng.uniform(18, 90, n)),
            "hours": rng.uniform(0, 80, n),
            "job": rng.choice(["clerk", "cook", "judge"], n),
            "joined": np.datetime64("2016-01-01") + rng.integers(0, 3000, n).astype("m8[D]"),
            "vip": rng.random(n) < 0.3,
        }
    )
    score = 2.0 * (np.abs(X["hours"] - 40) > 20) + (X["job"] == "cook") - X["vip"] - 0.8
    score += rng.normal(0, 0.3, n)
    return X, score.to_numpy()


def labels(score):
    return np.where(score > 0, "yes", "no")


def classifier(epsilon=3.0, **parameters):
    given = {"columns": COLUMNS, "classes": ["no", "yes"], "random_state": 0}
    return DPTabularClassifier(epsilon, **{**given, **parameters})


def regressor(epsilon=3.0, **parameters):
    given = {"columns": COLUMNS, "target_range": (-3, 4), "random_state": 0}
    return DPTabularRegressor(epsilon, **{**given, **parameters})


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize("make", [classifier, regressor])
def test_the_model_is_that_of_the_encoded_rows(make, relation):
    X, score = table()
    sizes = {"n_public": 700} if relation == "add_remove" else {}
    pairs = [("hours", "vip")]
    model = make(neighbouring=relation, pairs=pairs, maps=None, **sizes)
    y = labels(score) if make is classifier else score
    model.fit(X, y)
    plan = FeaturePlan.for_budget(
        3.0, 1e-6, n_records=sizes.get("n_public", 800), columns=COLUMNS, pairs=pairs,
        neighbouring=relation,
    )  # fmt: skip
    assert model.feature_plan_ == plan and plan.frequencies
    rows = TableEncoder(COLUMNS, features=plan, pairs=pairs).fit_transform(X)
    shared = {"data_norm": 1.0, "neighbouring": relation, "random_state": 0, **sizes}
    if make is classifier:
        linear = DPLogisticRegression(3.0, classes=["no", "yes"], **shared).fit(rows, y)
        np.testing.assert_array_equal(model.predict_proba(X), linear.predict_proba(rows))
        np.testing.assert_array_equal(model.predict_log_proba(X), linear.predict_log_proba(rows))
        np.testing.assert_array_equal(model.decision_function(X), linear.decision_function(rows))
        assert list(model.classes_) == ["no", "yes"]
    else:
        linear = DPRidge(3.0, target_range=(-3, 4), **shared)
        linear.fit(rows, y)
    np.testing.assert_array_equal(model.predict(X), linear.predict(rows))
    report, features = model.privacy_, model.privacy_.plan["features"]
    without = {key: value for key, value in report.plan.items() if key != "features"}
    assert replace(report, plan=without) == linear.privacy_
    assert features["n_features"] == rows.shape[1] == model.encoder_.row_features.n_features
    assert model.score(X, y) > 0.6


def test_the_relation_and_the_nominal_size_enter_the_plan():
    X, score = table()
    size = classifier().fit(X, labels(score)).feature_plan_.effective_size
    assert size == effective_size(3.0, 1e-6, 800, "replace_one")
    apart = classifier(neighbouring="add_remove", n_public=800).fit(X[:700], labels(score)[:700])
    assert apart.feature_plan_.effective_size == pytest.approx(2 * size)
    with pytest.warns(UserWarning, match="delta == 0.1"):
        inferred = classifier(delta=0.1, neighbouring="add_remove").fit(X, labels(score))
    assert any("n_public was not given" in caveat for caveat in inferred.privacy_.caveats)


def test_predictions_come_in_slabs(monkeypatch):
    X, score = table()
    model = classifier().fit(X, labels(score))
    whole = model.decision_function(X)
    monkeypatch.setattr("skdp.tabular.table_encoder._SLAB", 300)
    np.testing.assert_allclose(model.decision_function(X), whole, rtol=1e-12)
    columns = {name: [None if pd.isna(v) else v for v in X[name]] for name in list(X)[::-1]}
    reordered = pl.DataFrame(columns)
    np.testing.assert_allclose(model.decision_function(reordered), whole, rtol=1e-12)


@pytest.mark.parametrize("features", ["linear", "curves", "pairs"])
def test_fixed_features(features):
    X, score = table()
    model = regressor(features=features).fit(X, score)
    assert model.feature_plan_ == FeaturePlan.fixed(features)


def test_declared_pairs_are_always_there():
    X, _ = table(4000)
    y = np.where(X["vip"], 1.0, -1.0) * np.sin(X["hours"] / 10)
    plain, paired = (regressor(1.0, pairs=p).fit(X, y) for p in ((), [("vip", "hours")]))
    assert paired.score(X, y) > plain.score(X, y) + 0.2
    features = paired.privacy_.plan["features"]
    assert features["n_paired"] == 12 and plain.privacy_.plan["features"]["n_paired"] == 0
    size = feature_bound(paired.feature_plan_.effective_size, 4000)
    assert features["n_features"] <= size
    planned = plan_fit(regressor(1.0, pairs=[("vip", "hours")]), 4000, 5)
    assert planned.releases[0].release == paired.privacy_.releases[0]


def test_words_and_several_classes():
    rng = np.random.default_rng(0)
    words = np.array(["wine is good", "beer is bad", "tea"])
    kinds = rng.integers(0, 3, 1000)
    X = pd.DataFrame({"note": words[kinds], "age": rng.uniform(0, 1, 1000)})
    columns = {"note": Text(256), "age": (0, 1)}
    model = DPTabularClassifier(30.0, columns=columns, classes=[0, 1, 2], random_state=0)
    model.fit(X, kinds)
    assert model.encoder_.row_features.is_sparse == (model.feature_plan_ == FeaturePlan())
    assert model.predict_proba(X).shape == (1000, 3) and model.score(X, kinds) > 0.9


def test_declarations_by_the_type_of_the_fitted_column_are_a_caveat():
    X, score = table()
    X["job"] = X["job"].astype("category")
    columns = {**COLUMNS, "job": X["job"].dtype}
    caveats = classifier(columns=columns).fit(X, labels(score)).privacy_.caveats
    assert sum("categories of 'job'" in caveat for caveat in caveats) == 1
    for declared in (pd.CategoricalDtype(["judge", "cook"]), Category(["judge", "cook"])):
        fitted = classifier(columns={**COLUMNS, "job": declared}).fit(X, labels(score))
        assert not any("categories of" in caveat for caveat in fitted.privacy_.caveats)


def test_what_is_not_declared_warns_here():
    X, score = table()
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        classifier(classes=None).fit(X, labels(score))
        regressor(target_range=None).fit(X, score)
    assert [each.category for each in found] == [PrivacyLeakWarning, UserWarning]
    assert all(each.filename == __file__ for each in found)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"features": "all"}, "features == 'all'"),
        ({"epsilon": 0}, "epsilon"),
        ({"n_public": 10}, "n_public is for neighbouring='add_remove'"),
        ({"columns": {"age": 3}}, "Column 'age': expected"),
        ({"columns": {"age": Number(missing=True)}}, "without a declaration"),
        ({"weight_bound": 0.0}, "weight_bound"),
    ],
)
def test_invalid_parameters(parameters, message):
    X, score = table(20)
    model = classifier(**parameters)
    before = dict(vars(model))
    with pytest.raises(ValueError, match=message):
        model.fit(X, labels(score))
    assert vars(model) == before


@pytest.mark.filterwarnings("ignore:Parts around a private fit")
def test_meta_estimators():
    X, score = table()
    y = labels(score)
    grid = GridSearchCV(classifier(), {"features": ["linear", "curves"]}, cv=2).fit(X, y)
    found = permutation_importance(grid.best_estimator_, X, y, n_repeats=1, random_state=0)
    assert found.importances_mean.argmax() == 1
    assert len(dp_cross_validate(classifier(), X, y, cv=2)["test_score"]) == 2


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"pairs": [("hours", "vip")]}, "does not cover pairs"),
        ({"features": "pairs"}, "does not cover features='pairs'"),
        ({"user_ids": np.arange(800) // 2}, "does not cover user_ids"),
        ({"epsilon": 0.1}, r"at least \d+ records would do"),
        ({"intervals": "yes"}, "intervals == 'yes', must be"),
    ],
)
def test_intervals_refuse_by_name_what_they_do_not_cover(given, message):
    """Before anything is paid for."""
    X, score = table()
    ids, accountant = given.pop("user_ids", None), BudgetAccountant(5.0, 1e-5)
    model = regressor(**{"intervals": True, "accountant": accountant, **given})
    with pytest.raises((ValueError, TypeError), match=message):
        model.fit(X, score, user_ids=ids)
    assert accountant.total().epsilon == 0.0


def test_intervals_plan_curves_that_noise_does_not_hide():
    """More records, and fewer classes, have more of them; no row is shortened."""
    columns, ends = {f"x{j}": (0, 1) for j in range(4)}, [[0.0] * 4, [1.0] * 4, [0.0, 1.0] * 2]
    found = []
    for n, classes in ((1000, [0, 1]), (10**4, [0, 1]), (10**5, range(3)), (10**5, [0, 1])):
        model = classifier(1.0, columns=columns, classes=classes, intervals=True)
        schema = {name: Number(0, 1) for name in columns}
        plan = model._planned_features(schema, n)
        assert not (plan.products or plan.n_sketch)
        if n > 1000:
            plan_fit(model, n, 4, n_classes=len(classes))  # enough for the linear model
        encoder = TableEncoder(columns, features=plan).fit(pd.DataFrame(ends, columns=[*columns]))
        positions = [2.0 * each - 1.0 for each in np.array(ends).T]
        norms = np.linalg.norm(encoder.row_features.unbounded(positions), axis=1)
        assert norms.max() == pytest.approx(1.0) and norms.max() < 1.0 + 1e-12
        found.append(len(plan.frequencies))
    assert found == sorted(found) and found[0] == 0 and 1 <= found[1] < found[3] < 11
    model = classifier(1.0, columns=columns, classes=None, intervals=True)
    with pytest.raises(ValueError, match="plans features for `classes`, which are None"):
        model.fit(pd.DataFrame(ends, columns=[*columns]), [0, 1, 0])
    declared = model.set_params(classes=range(8))._planned_features(schema, 10**5)
    assert len(declared.frequencies) < found[3]

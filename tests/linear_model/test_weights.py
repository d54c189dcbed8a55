"""Weights of records and costs of classes: what they mean, and which are refused."""

from functools import partial

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score

from skdp import DPLinearClassifier, DPLogisticRegression, DPLogisticRegressionCV, DPRidge
from skdp.methods import Output, OutputPerturbation

D, N = 3, 300
MODELS = {
    "two classes": DPLogisticRegression(classes=[0, 1]),
    "three classes": DPLogisticRegression(classes=[0, 1, 2]),
    "squares": DPRidge(target_range=(-1, 1)),
    "hinges": DPLinearClassifier(loss="hinge", classes=[0, 1]),
}


def declared(name, **parameters):
    given = {"epsilon": 20.0, "data_norm": 1.0, "weight_bound": 2.0, "random_state": 0}
    return clone(MODELS[name]).set_params(**given | parameters)


def table(rng, n=N):
    """Rows in the unit ball, targets and weights."""
    X = rng.normal(size=(n, D)) / np.sqrt(D)
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    return X, (X[:, 0] > 0).astype(int), rng.choice([0.0, 0.01, 1.0, 3.0], size=n)


@pytest.mark.parametrize("name", ["two classes", "squares"])
def test_weights_of_one_are_none_and_others_matter(name):
    """Equal weights change little, and records of weight 0 are as good as absent."""
    rng = np.random.default_rng(1)
    X, y, _ = table(rng, 4000)
    plain = declared(name).fit(X, y)
    same = declared(name).fit(X, y, sample_weight=np.full(4000, 2.0))
    assert same.score(X, y) == pytest.approx(plain.score(X, y), abs=0.02)
    wrong = np.concatenate([y[:2000], 1 - y[2000:]])
    weights = np.repeat([2.0, 0.0], 2000)
    model = declared(name, epsilon=100.0).fit(X, wrong, sample_weight=weights)
    assert model.score(X, y) > declared(name, epsilon=100.0).fit(X, wrong).score(X, y) + 0.3


def test_a_bound_that_is_not_declared():
    X, y, weights = table(np.random.default_rng(3), 50)
    with pytest.warns(UserWarning, match="weight_bound was not declared"):
        declared("squares", weight_bound=None).fit(X, y, sample_weight=weights)


def test_a_person_with_few_records_weighs_less():
    """max_records_per_user: towards the average record."""
    rng = np.random.default_rng(5)
    many = rng.random(3000) < 0.5
    ids = np.repeat(np.arange(3000), np.where(many, 10, 1))
    y = np.where(many[ids], 1.0, -1.0)
    X = np.zeros((len(ids), 1))
    means = [
        DPRidge(50.0, data_norm=1.0, target_range=(-1, 1), max_records_per_user=k, random_state=0)
        .fit(X, y, user_ids=ids)
        .intercept_
        for k in (None, 10)
    ]
    assert abs(means[0]) < 0.1 and means[1] == pytest.approx(9 / 11, abs=0.1)


def test_a_solver_with_batches():
    """Weights and persons reach it; a certificate holds whatever it finds."""
    X, y, weights = table(np.random.default_rng(9))
    given = {"sample_weight": weights, "user_ids": np.arange(N) // 3}
    for method in (Output, partial(OutputPerturbation, alpha=0.1)):
        models = [
            declared("two classes", method=method(solver=each)).fit(X, y, **given)
            for each in ("newton", "svrg")
        ]
        noise = models[0].privacy_.releases[-1].noise_scale
        np.testing.assert_allclose(models[1].coef_, models[0].coef_, atol=0.05 * noise)


# --- costs of classes --------------------------------------------------------------------------


def imbalanced(n, share, seed=0, d=10):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < share).astype(int)
    X = (rng.normal(size=(n, d)) + 0.56 * y[:, None]) / (2.0 * np.sqrt(d))
    return X / np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None], y


@pytest.mark.parametrize("weight", ["balanced", {0: 0.1, 1: 1.9}])
def test_rare_classes_are_found(weight):
    """Within .02 of scikit-learn without privacy, where the plain model finds next to none."""
    (X, y), (seen, labels) = imbalanced(20_000, 0.05), imbalanced(20_000, 0.05, 1)
    reference = LogisticRegression(C=1e3, class_weight=weight).fit(X, y).predict(seen)
    model = DPLogisticRegression(data_norm=1.0, classes=[0, 1], random_state=0)
    found = clone(model).set_params(class_weight=weight).fit(X, y)
    scores = [
        balanced_accuracy_score(labels, each)
        for each in (reference, found.predict(seen), model.fit(X, y).predict(seen))
    ]
    assert scores[1] > scores[0] - 0.02 > scores[2] + 0.1
    np.testing.assert_array_equal(found.coef_, model.coef_)
    assert found.privacy_.releases == model.privacy_.releases


def test_costs_shift_the_intercepts_of_several_classes():
    X, y, _ = table(np.random.default_rng(6))
    plain = declared("three classes").fit(X, y)
    model = declared("three classes", class_weight={0: 4.0, 2: 0.5}).fit(X, y)
    logs = np.log([4.0, 1.0, 0.5])
    np.testing.assert_allclose(model.intercept_ - plain.intercept_, logs - logs.mean())
    odds = model.predict_proba(X) / plain.predict_proba(X)
    np.testing.assert_allclose(odds[:, 0] / odds[:, 2], 8.0)


@pytest.mark.parametrize(
    "model",
    [
        DPLogisticRegressionCV(classes=[0, 1]),
        DPLogisticRegressionCV(classes=[0, 1], alpha_bounds=(0.01, 0.1)),
        DPLogisticRegression(classes=[0, 1], method="output"),
        DPLogisticRegression(classes=[0, 1, 2], method="output"),
    ],
)
def test_classes_are_balanced_by_the_shares_that_a_preparation_releases(model):
    X, _, _ = table(np.random.default_rng(6), 2000)
    y = np.digitize(X[:, 0], [0.3, 0.5][: len(model.classes) - 1])
    model = clone(model).set_params(epsilon=20.0, data_norm=1.0, random_state=0)
    plain = clone(model).fit(X, y)
    model.set_params(class_weight="balanced").fit(X, y)
    shares = np.array(model.privacy_.plan["class_shares"])
    np.testing.assert_allclose(shares, np.bincount(y) / len(y), atol=0.05)
    costs = -np.log(shares)
    expected = costs[1:] - costs[0] if len(costs) == 2 else costs - costs.mean()
    np.testing.assert_allclose(model.intercept_ - plain.intercept_, expected)
    np.testing.assert_array_equal(model.coef_, plain.coef_)
    assert model.privacy_.releases == plain.privacy_.releases


@pytest.mark.parametrize("name", ["hinges", "two classes"])
def test_costs_are_weights_where_there_is_no_shift(name):
    X, y, _ = table(np.random.default_rng(7), 2000)
    given = {} if name == "hinges" else {"fit_intercept": False}
    models = [
        declared(name, class_weight={0: 0.2, 1: 1.0}, **given).fit(X, y),
        declared(name, weight_bound=1.0, **given).fit(X, y, sample_weight=np.where(y, 1.0, 0.2)),
    ]
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)

"""Inside of scikit-learn's meta-estimators: ids and weights on their way, labels and seeds."""

import numpy as np
import pytest
from every_estimator import declared, records
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.model_selection import GroupKFold, KFold, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline

from skdp import (
    BudgetAccountant,
    DPLogisticRegression,
    DPRidge,
)
from skdp.methods import OutputPerturbation
from skdp.model_selection import DPSearchCV, dp_cross_validate
from skdp.preprocessing import BoundedScaler, DPStandardScaler
from skdp.privacy.events import Neighbouring

rng = np.random.default_rng(0)
IDS = rng.permutation(np.repeat(np.arange(200), rng.integers(1, 5, 200)))
X = rng.uniform(-0.5, 0.5, (len(IDS), 2))
Y = (X[:, 0] > 0).astype(int)
W = rng.uniform(0.0, 2.0, len(IDS))
MODEL = DPLogisticRegression(data_norm=2.0, classes=[0, 1], weight_bound=2.0, random_state=0)
BOTH = {"user_ids": IDS, "sample_weight": W}


@pytest.fixture
def routing():
    with config_context(enable_metadata_routing=True):
        yield


def expected():
    scaled = BoundedScaler((-0.5, 0.5)).fit_transform(X)
    return DPLogisticRegression(**MODEL.get_params()).fit(scaled, Y, **BOTH).coef_


def test_pipelines_with_and_without_routing():
    model = make_pipeline(BoundedScaler((-0.5, 0.5)), DPLogisticRegression(**MODEL.get_params()))
    given = {f"dplogisticregression__{name}": value for name, value in BOTH.items()}
    np.testing.assert_array_equal(model.fit(X, Y, **given)[-1].coef_, expected())
    with config_context(enable_metadata_routing=True):
        with pytest.raises(UnsetMetadataPassedError, match="user_ids"):
            model.fit(X, Y, **BOTH)
        model[-1].set_fit_request(user_ids=True, sample_weight=True)
        np.testing.assert_array_equal(model.fit(X, Y, **BOTH)[-1].coef_, expected())


def test_cross_val_score_splits_ids():
    seen = []

    class Seen(DPLogisticRegression):
        def fit(self, X, y, *, user_ids=None, sample_weight=None):
            seen.append((user_ids, sample_weight))
            return super().fit(X, y, user_ids=user_ids, sample_weight=sample_weight)

    model = Seen(data_norm=2.0, classes=[0, 1], weight_bound=2.0)
    with BudgetAccountant(100.0, 1e-4) as accountant:
        cross_val_score(model, X, Y, cv=KFold(3), params=BOTH)
        for (train, _), (ids, weights) in zip(KFold(3).split(X), seen, strict=True):
            np.testing.assert_array_equal(ids, IDS[train])
            np.testing.assert_array_equal(weights, W[train])
        seen.clear()
        with config_context(enable_metadata_routing=True):
            model.set_fit_request(user_ids=True, sample_weight=True)
            folds = {"cv": GroupKFold(3), "params": {**BOTH, "groups": IDS}}
            cross_val_score(model.set_score_request(sample_weight=False), X, Y, **folds)
    kept = [set(ids.tolist()) for ids, _ in seen]
    assert len(kept) == 3 and sum(200 - len(each) for each in kept) == 200  # held out once
    assert accountant.neighbouring is Neighbouring.REPLACE_USER and len(accountant.entries) == 6


@pytest.mark.usefixtures("routing")
def test_private_searches_route_ids():
    scaler = DPStandardScaler(ranges=(-0.5, 0.5)).set_fit_request(user_ids=True)
    model = DPLogisticRegression(data_norm=3.0, classes=[0, 1]).set_fit_request(user_ids=True)
    pipeline = make_pipeline(scaler, model)
    with BudgetAccountant(100.0, 1e-4) as accountant:
        dp_cross_validate(pipeline, X, Y, user_ids=IDS, cv=2)
        search = DPSearchCV(pipeline, {"dplogisticregression__alpha": ["auto"]}, n_draws=2)
        search.fit(X, Y, user_ids=IDS)
    assert accountant.neighbouring is Neighbouring.REPLACE_USER
    assert search.privacy_.unit == "user"


@pytest.mark.parametrize(
    "labels", [[0, 1], [3, 7], [0.0, 1.0], [-1.5, 2.5], [np.int64(4), np.int64(5)], [False, True]]
)
def test_declared_labels_of_dtype_object_are_numbers(labels):
    X, y = records(DPLogisticRegression)
    targets, as_objects = np.array(labels)[y], np.array(labels, dtype=object)
    one, other = (
        declared(DPLogisticRegression, classes=classes).fit(X, targets)
        for classes in (labels, as_objects)
    )
    assert np.array_equal(one.coef_, other.coef_)
    assert np.array_equal(one.predict(X), other.predict(X))


@pytest.mark.parametrize("state", [0, np.random.RandomState(0), np.random.default_rng(0)])
def test_clones_share_the_noise_of_a_seed_and_the_report_says_so(state):
    """The noise of two folds cancels in their difference: no total covers such fits."""
    X, y = records(DPRidge, n=400)
    model = declared(DPRidge, random_state=state, method=OutputPerturbation(alpha=1.0))
    folds = cross_validate(model, X, y, cv=2, return_estimator=True)["estimator"]
    exact = [clone(model).set_params(epsilon=1e9, random_state=1) for _ in folds]
    exact = [
        m.fit(X[part], y[part])
        for m, part in zip(exact, (slice(200, 400), slice(200)), strict=True)
    ]
    noise = [fold.coef_ - m.coef_ for fold, m in zip(folds, exact, strict=True)]
    assert np.abs(noise[0]).max() > 1e-3
    np.testing.assert_allclose(noise[0], noise[1], atol=1e-6)
    assert any(
        "clones, as in cross-validation, share it" in caveat for caveat in folds[0].privacy_.caveats
    )
    model.set_params(random_state=None)
    fresh = cross_validate(model, X, y, cv=2, return_estimator=True)["estimator"]
    noise = [fold.coef_ - m.coef_ for fold, m in zip(fresh, exact, strict=True)]
    assert np.abs(noise[0] - noise[1]).max() > 1e-6

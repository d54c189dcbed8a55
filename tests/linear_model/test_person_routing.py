"""Ids of persons and weights of records on their way through scikit-learn's meta-estimators."""

import numpy as np
import pytest
from sklearn import config_context
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.model_selection import GroupKFold, KFold, cross_val_score
from sklearn.pipeline import make_pipeline

from skdp import (
    BudgetAccountant,
    DPLogisticRegression,
    DPMaxGroupLossClassifier,
    DPTabularRegressor,
)
from skdp.model_selection import DPSearchCV, dp_cross_validate
from skdp.preprocessing import BoundedScaler, DPStandardScaler
from skdp.privacy.events import Neighbouring
from skdp.synthetic import DPSyntheticData

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


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize(
    "estimator",
    [DPMaxGroupLossClassifier(), DPTabularRegressor(), DPStandardScaler(), DPSyntheticData(),
     DPSearchCV(MODEL, {})],
    ids=lambda estimator: type(estimator).__name__,
)  # fmt: skip
def test_who_asks_for_ids(estimator):
    estimator.set_fit_request(user_ids=True)
    requests = estimator.get_metadata_routing()
    requests = getattr(requests, "_self_request", requests)
    assert requests.fit.requests["user_ids"] is True

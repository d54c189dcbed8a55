"""Predictions see rows as the fit saw them, and stay in the range of the targets."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from every_estimator import CLASSIFIERS, ESTIMATORS, REGRESSORS, declared, records

from skdp.robust import DPMaxGroupLossClassifier, DPMaxGroupLossRegressor

every_estimator = pytest.mark.parametrize("kind", ESTIMATORS)
linear_ones = pytest.mark.parametrize("kind", [k for k in ESTIMATORS if "MLP" not in k.__name__])


def shortened(X, bound):
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    return X * np.minimum(1.0, bound / np.maximum(norms, 1e-300))


def outputs(model, X):
    names = ("predict", "decision_function", "predict_proba", "predict_log_proba")
    return {name: getattr(model, name)(X) for name in names if hasattr(model, name)}


@linear_ones
def test_a_prediction_is_that_of_the_shortened_row(kind):
    """By the definition: coefficients times the bounded row, plus the intercept; then clipped."""
    bound = {DPMaxGroupLossClassifier: 0.5, DPMaxGroupLossRegressor: 1.0}.get(kind, 2.0)
    X, y = records(kind)
    model = declared(kind, data_norm=bound, epsilon=100.0).fit(X, y)
    rows = np.vstack([np.zeros((1, 3)), 1e-3 * X[:5], 40.0 * X[:20], 1e150 * X[:3]])
    scores = shortened(rows, bound) @ np.ravel(model.coef_) + np.ravel(model.intercept_)[0]
    name = "decision_function" if kind in CLASSIFIERS else "predict"
    if kind not in CLASSIFIERS:
        scores = np.clip(scores, -1.0, 1.0)
    for container in (np.asarray, sp.csr_matrix, sp.csr_array, np.ndarray.tolist):
        found = getattr(model, name)(container(rows))
        np.testing.assert_allclose(found, scores, rtol=1e-12, atol=1e-12 * np.abs(scores).max())


@every_estimator
def test_all_predictions_ignore_the_length_beyond_the_bound(kind):
    X, y = records(kind)
    model = declared(kind).fit(X, y)
    long = 3.0 * X / np.linalg.norm(X, axis=1, keepdims=True)
    for name, found in outputs(model, 1e6 * long).items():
        np.testing.assert_allclose(found, outputs(model, long)[name], rtol=1e-9, atol=1e-12)
    assert model.score(1e6 * long, y) == pytest.approx(model.score(long, y))


@pytest.mark.parametrize("kind", [DPMaxGroupLossClassifier, DPMaxGroupLossRegressor])
def test_groups_are_scored_on_shortened_rows(kind):
    X, y = records(kind)
    groups = np.arange(200) % 2
    public = {"group_names": [0, 1], "group_proportions": [0.5, 0.5]}
    model = declared(kind, **public).fit(X, y, groups=groups)
    long = 3.0 * X / np.linalg.norm(X, axis=1, keepdims=True)
    for measure in (model.group_scores, model.group_losses):
        assert measure(1e6 * long, y, groups) == pytest.approx(measure(long, y, groups), rel=1e-7)


def test_a_parameter_set_after_the_fit_changes_no_prediction():
    X, y = records(ESTIMATORS[0])
    model = declared(ESTIMATORS[0]).fit(X, y)
    before = model.decision_function(5.0 * X)
    model.set_params(data_norm=100.0)
    assert np.array_equal(model.decision_function(5.0 * X), before)
    assert model.data_norm_ == 1.0


@pytest.mark.parametrize("target_range", [None, (-1.0, 1.0), (2.0, 2.5)])
@pytest.mark.parametrize("kind", REGRESSORS)
def test_predictions_stay_in_the_range_of_the_fit(kind, target_range):
    """Coefficients may be large, and the range may be set anew after the fit."""
    X, y = records(kind)
    model = declared(kind, target_range=target_range)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model.fit(X, y if target_range is None else y + np.mean(target_range))
    low, high = target_range or (-1.0, 1.0)
    model.coef_ = np.array([-3.0, 2.0, 1.0])
    linear = X @ model.coef_ + model.intercept_
    assert linear.min() < low and linear.max() > high
    found = model.predict(X)
    assert np.allclose(found, np.clip(linear, low, high))
    assert model.target_range_ == (low, high)
    assert np.array_equal(model.set_params(target_range=(-9.0, 9.0)).predict(X), found)

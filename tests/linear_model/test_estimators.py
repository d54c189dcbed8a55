"""What users meet: results, labels, errors, workflows."""

from functools import partial

import linear_models
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression, Ridge

from skdp import DPLogisticRegression, DPRidge
from skdp.methods import OutputPerturbation

HUGE = {"epsilon": 1e9, "random_state": 0}  # next to no noise
PENALISED = {"method": OutputPerturbation(alpha=0.01)}


classification = partial(linear_models.classification, 400)


def regression(n=400, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d)) / np.sqrt(d)
    return X, np.clip(X @ rng.standard_normal(d) + 0.1 * rng.standard_normal(n), -1, 1)


# --- the non-private limit -----------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("sparse", [False, True])
def test_large_epsilon_gives_scikit_learns_solution(k, sparse):
    X, y = classification(k=k)
    X = sp.csr_matrix(X) if sparse else X
    ours = DPLogisticRegression(**HUGE, **PENALISED, fit_intercept=False, classes=range(k))
    ours.fit(X, y)
    theirs = LogisticRegression(C=1 / (400 * 0.01), fit_intercept=False, tol=1e-10).fit(X, y)
    assert ours.coef_.shape == theirs.coef_.shape
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=2e-3)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=2e-3)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=4e-3)
    np.testing.assert_allclose(np.exp(ours.predict_log_proba(X)), ours.predict_proba(X))


def test_ridge_limit_in_the_users_units():
    X, y = regression()
    ours = DPRidge(**HUGE, **PENALISED, fit_intercept=False).fit(X, y)
    theirs = Ridge(alpha=400 * 0.01, fit_intercept=False).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=2e-3)
    assert ours.coef_.shape == (3,) and ours.intercept_ == 0.0
    # dollars instead of [-1, 1], centimetres instead of metres: the same model
    method = OutputPerturbation(alpha=0.01 * 1e4)
    scaled = DPRidge(**HUGE, method=method, data_norm=100.0, target_range=(1000.0, 3000.0)).fit(
        100 * X, 2000 + 1000 * y
    )
    plain = DPRidge(**HUGE, **PENALISED).fit(X, y)
    # the same noise, and each solution within the plan's accuracy
    tolerance = 1000 * 1.01 * 2 * plain.privacy_.plan["accuracy"]
    np.testing.assert_allclose(
        scaled.predict(100 * X), 2000 + 1000 * plain.predict(X), rtol=0, atol=tolerance
    )
    assert isinstance(scaled.intercept_, float)


def test_constrained_ridge_lies_on_the_sphere_and_is_optimal():
    X, y = regression()
    method = OutputPerturbation(alpha=1e-3, coef_norm=0.2)
    model = DPRidge(**HUGE, method=method, fit_intercept=False).fit(X, y)
    assert np.linalg.norm(model.coef_) == pytest.approx(0.2, rel=1e-4)
    # the same as ridge with the multiplier of the constraint
    gradient = X.T @ (X @ model.coef_ - y) / 400
    multiplier = -(gradient @ model.coef_) / 0.04
    penalised = Ridge(alpha=400 * multiplier, fit_intercept=False).fit(X, y)
    np.testing.assert_allclose(model.coef_, penalised.coef_, atol=1e-3)

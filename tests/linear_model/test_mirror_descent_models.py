"""The method "mirror_descent" of linear models: l1 ball, entrywise bounds, sparse input."""

import math

import numpy as np
import pytest
import scipy.sparse as sp

from skdp import DPLinearClassifier, DPLinearRegressor, DPLogisticRegression, DPRidge
from skdp.methods import MirrorDescent
from skdp.privacy import tightest_epsilon

METHOD = {"method": MirrorDescent(feature_bound=1.0), "random_state": 0}


def data(n=4000, d=30, seed=0):
    X = np.random.default_rng(seed).uniform(-1.5, 1.5, size=(n, d))
    return X, (X[:, 0] - X[:, 1] > 0).astype(int)


@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_classifiers_learn_within_budget_and_ball(delta):
    X, y = data()
    model = DPLogisticRegression(delta=delta, classes=[0, 1], **METHOD).fit(X, y)
    assert model.score(X, y) > 0.85
    assert math.fsum(np.abs(model.coef_[0])) + abs(model.intercept_[0]) <= 3.0
    report = model.privacy_
    assert report.plan["radius"] == 3.0
    assert tightest_epsilon(report.event, delta) <= 1.0
    assert report.plan["n_draws"] == report.plan["n_rounds"] - 1
    assert np.count_nonzero(model.coef_) <= report.plan["n_draws"]
    assert "l1 ball of radius 3" in str(report)
    assert "shortened" not in str(report)


@pytest.mark.parametrize(
    "model",
    [
        DPRidge(target_range=(-1, 3), **METHOD),
        DPLinearRegressor(loss="huber", target_range=(-1, 3), **METHOD),
    ],
    ids=["ridge", "huber"],
)
def test_regressors_learn(model):
    X, _ = data()
    y = 1.0 + np.clip(X, -1.0, 1.0)[:, 0]
    model.fit(X, y)
    assert model.score(X, y) > 0.5
    assert model.privacy_.plan["radius"] == 2.0
    assert abs(model.intercept_ - 1.0) < 0.5


@pytest.mark.parametrize(
    ("loss", "relation"), [("log_loss", "add_remove"), ("smoothed_hinge", "replace_one")]
)
def test_three_classes_are_learnt(loss, relation):
    X = data()[0]
    y = X[:, :3].argmax(axis=1)
    model = DPLinearClassifier(loss=loss, neighbouring=relation, classes=[0, 1, 2], **METHOD)
    if relation == "add_remove":
        model.set_params(n_public=len(X))
    model.fit(X, y)
    assert model.score(X, y) > 0.7
    assert model.coef_.shape == (3, 30)
    assert model.privacy_.plan["radius"] == 4.5
    # the log loss does not see what is common to the classes, which is taken off
    assert np.abs(model.coef_).sum() <= 4.5 * (4.0 / 3.0 if loss == "log_loss" else 1.0)
    assert tightest_epsilon(model.privacy_.event, 1e-6) <= 1.0
    assert model.privacy_.event.neighbouring == relation


@pytest.mark.parametrize(
    ("variant", "algorithm"),
    [
        pytest.param("anytime", "González et al. 2024, Algorithm 5", marks=pytest.mark.slow),
        pytest.param(
            "bias_reduced", "González et al. 2024, Algorithms 2 and 3", marks=pytest.mark.slow
        ),
        ("variance_reduced", "Asi et al. 2021, Algorithm 3"),
    ],
)
def test_variants_learn_within_budget_and_ball(variant, algorithm):
    X, y = data(n=3000)
    method = MirrorDescent(variant, feature_bound=1.0)
    model = DPLogisticRegression(60.0, classes=[0, 1], method=method, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.85
    assert math.fsum(np.abs(model.coef_[0])) + abs(model.intercept_[0]) <= 3.0
    assert model.privacy_.plan["algorithm"] == algorithm
    assert tightest_epsilon(model.privacy_.event, 1e-6) <= 60.0
    again = model.fit(X, y)  # what is drawn before the records is the same in each plan
    assert (again.coef_ == model.coef_).all()


def test_entries_are_clipped_in_fit_and_prediction():
    X, y = data()
    method = MirrorDescent(feature_bound=0.5)
    fit = DPLinearClassifier(
        loss="squared_hinge", classes=[0, 1], method=method, random_state=0
    ).fit
    wild, tame = fit(X, y), None
    scores = wild.decision_function(X)
    tame = fit(np.clip(X, -0.5, 0.5), y)
    assert (wild.coef_ == tame.coef_).all()
    assert (scores == tame.decision_function(np.clip(X, -0.5, 0.5))).all()
    assert X.max() > 1.4  # the caller's array is as it was


@pytest.mark.parametrize("make", [sp.csr_matrix, lambda X: X.astype(np.float32)])
def test_kinds_of_matrices_agree(make):
    X, y = data()
    X[np.abs(X) < 0.75] = 0.0
    X = X.astype(np.float32).astype(np.float64)
    dense, other = (DPLogisticRegression(classes=[0, 1], **METHOD).fit(Z, y) for Z in (X, make(X)))
    assert other.coef_ == pytest.approx(dense.coef_)
    assert other.decision_function(make(X)) == pytest.approx(dense.decision_function(X), abs=1e-6)


def test_sparse_matrices_are_not_made_dense():
    rng = np.random.default_rng(0)
    X = sp.random(3000, 20_000, density=1e-3, format="csr", random_state=rng)
    y = (rng.uniform(size=3000) > 0.5).astype(int)
    copies = []

    class Watched(sp.csr_matrix):
        def toarray(self, *args, **kwargs):
            copies.append(self.shape)
            return super().toarray(*args, **kwargs)

    model = DPLogisticRegression(classes=[0, 1], **METHOD).fit(Watched(X), y)
    assert model.coef_.shape == (1, 20_000)
    assert not copies

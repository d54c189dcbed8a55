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


def of_two(X):
    return (X[:, 0] - X[:, 1] > 0).astype(int)


def of_three(X):
    return X[:, :3].argmax(axis=1)


def of_numbers(X):
    return 1.0 + np.clip(X, -1.0, 1.0)[:, 0]


NUMBERS = {"target_range": (-1, 3), **METHOD}
THREE = {"classes": [0, 1, 2], **METHOD}
#: Models, targets, what is scored at least, and the radius of the ball.
LEARNT = [
    (DPLogisticRegression(classes=[0, 1], **METHOD), of_two, 0.85, 3.0),
    (DPLogisticRegression(delta=0.0, classes=[0, 1], **METHOD), of_two, 0.85, 3.0),
    (DPRidge(**NUMBERS), of_numbers, 0.5, 2.0),
    (DPLinearRegressor(loss="huber", **NUMBERS), of_numbers, 0.5, 2.0),
    (DPLogisticRegression(neighbouring="add_remove", n_public=4000, **THREE), of_three, 0.7, 4.5),
    (DPLinearClassifier(loss="smoothed_hinge", **THREE), of_three, 0.7, 4.5),
]


@pytest.mark.parametrize(("model", "targets", "score", "radius"), LEARNT)
def test_models_learn_within_budget_and_ball(model, targets, score, radius):
    X, _ = data()
    y = targets(X)
    assert model.fit(X, y).score(X, y) > score
    report, coef = model.privacy_, np.atleast_2d(model.coef_)
    assert report.plan["radius"] == radius
    own = np.abs(model.intercept_[0]) if targets is of_two else 0.0
    # the log loss does not see what is common to the classes, which is taken off
    assert math.fsum(np.abs(coef).ravel()) + own <= radius * (
        4.0 / 3.0 + 1e-12 if len(coef) > 1 else 1.0
    )
    assert tightest_epsilon(report.event, model.delta) <= 1.0
    assert report.plan["n_draws"] == report.plan["n_rounds"] - 1
    assert len(coef) > 1 or np.count_nonzero(coef) <= report.plan["n_draws"]
    assert f"l1 ball of radius {radius:g}" in str(report) and "shortened" not in str(report)


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

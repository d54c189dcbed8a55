"""DPLogisticRegressionCV by noisy gradients and moments: groups, bounds, quality."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import expit
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from skdp.linear_model import DPLogisticRegression
from skdp.methods import OutputPerturbation
from skdp.model_selection import DPLogisticRegressionCV


def planted(n, d=20, seed=0, signal=2.0, shift=0.0, kind="normal"):
    """Rows of norm at most 1 and labels 0 and 1 of a logistic model."""
    rng = np.random.default_rng(seed)
    if kind == "normal":
        X = rng.normal(size=(n, d)) / math.sqrt(d)
    else:
        X = (rng.random((n, d)) < 0.15) / math.sqrt(0.2 * d)
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    slope = np.random.default_rng(99).normal(size=d)
    margins = X @ slope
    margins = signal * (margins - margins.mean()) / margins.std() + shift
    return X, (rng.random(n) < 1.0 / (1.0 + np.exp(-margins))).astype(int)


def cv(epsilon=1.0, delta=1e-6, **params):
    return DPLogisticRegressionCV(
        epsilon, delta, **{"classes": [0, 1], "method": "statistics", **params}
    )


# -------------------------------------------------------------------------------------- parameters


def test_one_class_of_the_declared():
    X, _ = planted(5000, 3)
    model = cv(3.0, classes=["no", "yes"], random_state=0).fit(X, np.full(5000, "yes"))
    assert (model.predict(X) == "yes").all()
    assert model.classes_.tolist() == ["no", "yes"]
    assert np.isfinite(model.coef_).all()


@pytest.mark.parametrize("unit", [1e-30, 1e30])
def test_units_of_rows(unit):
    X, y = planted(2000, 3)
    model = cv(random_state=0).fit(X, y)
    scaled = cv(data_norm=unit, random_state=0).fit(unit * X, y)
    np.testing.assert_allclose(
        scaled.decision_function(unit * X), model.decision_function(X), rtol=1e-3, atol=1e-4
    )
    assert scaled.alpha_ == pytest.approx(unit**2 * model.alpha_, rel=1e-2)


@pytest.mark.parametrize("kind", ["zero", "equal", "normal"])
def test_large_budgets_and_tiny_bounds(kind):
    """Few records, huge epsilon, weak penalties: matrices are singular to the last bit."""
    X = np.random.default_rng(0).normal(size=(16, 4))
    X = {"zero": 0.0 * X, "equal": np.tile(X[0], (16, 1)), "normal": X}[kind]
    y = np.where(X[:, 0] > 0, 1, -1)
    for epsilon, delta in ((1e6, 1e-6), (1e12, 0.0)):
        model = DPLogisticRegressionCV(
            epsilon, delta, classes=[-1, 1], data_norm=1.0, alpha_bounds=(1e-90, 1e-80),
            random_state=0,
        )  # fmt: skip
        assert np.isfinite(model.fit(X, y).coef_).all()


# ------------------------------------------------------------------------------------------ quality


def private_loss(model, seeds, X, y, X_test, y_test):
    losses = []
    for seed in range(seeds):
        fitted = clone(model).set_params(random_state=seed).fit(X, y)
        losses.append(log_loss(y_test, fitted.predict_proba(X_test)))
    return np.mean(losses)


@pytest.mark.mostly("slow", 1)
@pytest.mark.parametrize(
    ("n", "d", "signal", "shift", "kind"),
    [
        (10000, 10, 1.0, 0.0, "normal"),
        (20000, 20, 2.0, 0.5, "binary"),
    ],
)
def test_beats_every_public_alpha(n, d, signal, shift, kind):
    """Of output perturbation as it was printed."""
    X, y = planted(n + 10000, d, signal=signal, shift=shift, kind=kind)
    parts = X[:n], y[:n], X[n:], y[n:]
    printed = DPLogisticRegression(method=OutputPerturbation(), classes=[0, 1])
    ours = private_loss(cv(), 3, *parts)
    others = [
        private_loss(clone(printed).set_params(method__alpha=alpha), 2, *parts)
        for alpha in ("auto", 1e-3, 1e-2, 1e-1)
    ]
    assert ours < min(others)
    exact = LogisticRegression(C=1.0).fit(*parts[:2])
    ideal = log_loss(parts[3], exact.predict_proba(parts[2]))
    assert ours - ideal < 0.5 * (min(others) - ideal)


def test_a_large_budget_gives_the_exact_model():
    """Normal margins: two corrections reach the penalised optimum."""
    X, y = planted(20000, 10, signal=2.0)
    alpha = 1e-3
    model = cv(1e10, alpha_bounds=(alpha, alpha * (1 + 1e-9)), fit_intercept=False).fit(X, y)
    exact = LogisticRegression(C=1 / (20000 * alpha), fit_intercept=False, tol=1e-10).fit(X, y)
    np.testing.assert_allclose(model.coef_, exact.coef_, atol=1e-3 * abs(exact.coef_).max())


def test_intercept_follows_the_base_rate():
    X, y = planted(50000, 5, signal=0.5, shift=-2.5)
    model = cv(random_state=0).fit(X, y)
    assert model.predict_proba(X)[:, 1].mean() == pytest.approx(y.mean(), abs=0.01)


def rare(kind, n, d, seed=0):
    """Rows of norm at most 1 and labels of which 2.3 % are 1; log odds of standard deviation 3."""
    rng = np.random.default_rng(seed)
    if kind == "binary":
        X = (rng.random((n, d)) < rng.uniform(0.02, 0.4, d)).astype(float)
    else:
        X = rng.exponential(size=(n, d))
    odds = X @ (rng.normal(size=d) / X.std(axis=0))
    odds = 3.0 * (odds - odds.mean()) / odds.std()
    # the share of positives is a function of the shift
    shift = brentq(lambda c: expit(odds + c).mean() - 0.023, -50.0, 0.0)
    y = (rng.random(n) < expit(odds + shift)).astype(int)
    norms = np.linalg.norm(X, axis=1)
    return X / np.maximum(norms, 1.5 * np.median(norms))[:, None], y


@pytest.mark.parametrize("kind", ["binary", "skewed"])
def test_rare_positives_tend_to_the_optimum(kind):
    """Within 1 % of the log loss without privacy at the weakest penalty, on other records."""
    X, y = rare(kind, 29000, 20)
    A = np.column_stack([X, np.full(len(X), 0.3)])
    model = cv(1e4, random_state=0, data_norm=1.0).fit(X[:9000], y[:9000])
    exact = LogisticRegression(C=1e6 / 9000, fit_intercept=False, solver="newton-cholesky")
    ideal = log_loss(y[9000:], exact.fit(A[:9000], y[:9000]).predict_proba(A[9000:]))
    assert log_loss(y[9000:], model.predict_proba(X[9000:])) < 1.01 * ideal
    # one gradient and one path entry more per round, all in the report
    gradients = [r.name for r in model.privacy_.releases[1:]]
    assert gradients == [f"gradient {k + 1}" for k in range(len(model.alpha_path_) - 1)]
    assert len(gradients) >= 6

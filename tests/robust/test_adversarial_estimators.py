"""The adversarially robust estimators: sensitivity, and what they are good for."""

import itertools
import math

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits

from skdp import BudgetAccountant, DPLinearClassifier, DPLogisticRegression, DPRidge
from skdp.methods import OutputPerturbation
from skdp.robust import DPAdversarialClassifier, DPAdversarialRegressor

INF = math.inf


def classifier(*args, **kwargs):
    return DPAdversarialClassifier(*args, **{"classes": [0, 1], "random_state": 0, **kwargs})


def regressor(*args, **kwargs):
    return DPAdversarialRegressor(*args, **{"random_state": 0, **kwargs})


def planted(n, seed, d=20):
    """One feature that an attack hardly turns, many weak ones that it turns as it likes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    sign = 2 * y - 1
    X = 0.15 * rng.normal(size=(n, d)) + 0.06 * sign[:, None]
    X[:, 0] = sign * rng.choice([0.35, -0.35], n, p=[0.95, 0.05])
    return X, y


def test_probabilities_exist_for_the_log_loss_only():
    assert not hasattr(classifier(loss="hinge"), "predict_proba")
    fitted = classifier().fit(np.eye(2), [0, 1])
    chances = fitted.predict_proba(np.eye(2))
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    np.testing.assert_allclose(np.exp(fitted.predict_log_proba(np.eye(2))), chances)


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize("norm", [2, INF])
def test_sensitivity_is_the_proven_one(relation, norm):
    """Written down again for large coefficients, where the log loss has slopes up to 1."""
    n, d, a, alpha, bound, scaling = 50, 4, 0.7, 1e-4, 3.0, 0.2
    fitted = classifier(
        method=OutputPerturbation(alpha=alpha, coef_norm=1e5, intercept_scaling=scaling),
        attack_norm=norm, attack_radius=a, data_norm=bound,
        neighbouring=relation, n_public=n if relation == "add_remove" else None,
    ).fit(np.eye(n, d), np.arange(n) % 2)  # fmt: skip
    lifted = bound + a * (1 if norm == 2 else 2)
    lipschitz = math.hypot(lifted, scaling * bound)
    diameter = max(2 * bound * math.hypot(1, scaling), lipschitz)
    moved = (diameter if relation == "replace_one" else lipschitz) / (alpha * n)
    radius = fitted.privacy_.plan["radius"]
    exact = fitted.privacy_.plan["exact_sensitivity"]
    assert exact == pytest.approx(min(moved, 2 * radius), rel=1e-8)
    assert fitted.privacy_.releases[0].sensitivity >= exact


@pytest.mark.parametrize(
    ("relation", "calibration"),
    [("replace_one", "analytic"), ("replace_one", "paper"), ("add_remove", "analytic")],
)
def test_without_an_attack_it_is_the_plain_model(relation, calibration):
    X, y = planted(300, 0, d=3)
    coef_norm = 5.0 if calibration == "paper" else None
    method = OutputPerturbation(calibration=calibration, coef_norm=coef_norm)
    common = {"neighbouring": relation, "random_state": 0, "method": method}
    for robust, plain in [
        (classifier(attack_radius=0, **common), DPLogisticRegression(classes=[0, 1], **common)),
        (
            classifier(attack_radius=0, loss="hinge", **common),
            DPLinearClassifier(classes=[0, 1], loss="hinge", **common),
        ),
        (regressor(attack_radius=0, **common), DPRidge(**common)),
    ]:
        robust.fit(X, y), plain.fit(X, y)
        reports = [model.privacy_.to_dict() for model in (robust, plain)]
        named = [report["plan"].pop("risk") for report in reports]
        assert "Attack" in named[0] and "Attack" not in named[1]
        assert reports[0] == reports[1]
        np.testing.assert_array_equal(robust.coef_, plain.coef_)
        np.testing.assert_array_equal(robust.intercept_, plain.intercept_)


def ellipsoid(w):
    """The move of an ellipsoid with a half axis of 4 and others of 1/2."""
    axes = np.append(4.0, np.full(len(w) - 1, 0.5))
    return axes**2 * w / np.linalg.norm(axes * w)


def test_any_convex_set_by_its_support_function():
    X, y = planted(4000, 1)
    box = {"attack_radius": 0.08, "epsilon": 3.0}
    by_norm = classifier(attack_norm=INF, **box).fit(X, y)
    by_function = classifier(attack_norm=np.sign, **box).fit(X, y)
    np.testing.assert_array_equal(by_function.coef_, by_norm.coef_)
    assert by_function.attacked_score(X, y) == by_norm.attacked_score(X, y)
    assert "sign" in by_function.privacy_.plan["risk"]
    # the attacker turns the strong feature easily: the model leaves it alone
    strong = classifier(attack_norm=ellipsoid, attack_radius=0.1, epsilon=10.0).fit(X, y)
    assert abs(strong.coef_[0, 0]) < 0.3 * np.linalg.norm(strong.coef_[0, 1:])
    plain = classifier(attack_radius=0, attack_norm=ellipsoid, epsilon=10.0).fit(X, y)
    assert strong.attacked_score(X, y) > plain.attacked_score(X, y, 0.1) + 0.02
    spent = BudgetAccountant(1.0, 1e-5)
    for wrong in (lambda w: w[:1], lambda w: w * np.nan):
        with pytest.raises(ValueError, match="attack_norm must return 20 finite numbers"):
            classifier(attack_norm=wrong, accountant=spent).fit(X, y)
    assert spent.total().epsilon == 0.0


def test_several_classes_withstand_the_attack():
    """Against the plain model, and the score against a search over moves."""
    X, y = load_digits(return_X_y=True)
    X = (X - 8.0) / 8.0 / 8.0
    given = {"epsilon": 5.0, "classes": range(10), "attack_norm": INF}
    robust = classifier(attack_radius=0.02, **given).fit(X[:1200], y[:1200])
    plain = classifier(attack_radius=0, **given).fit(X[:1200], y[:1200])
    rows, labels = X[1200:], y[1200:]
    attacked = robust.attacked_score(rows, labels)
    assert attacked > plain.attacked_score(rows, labels, 0.02) + 0.05
    assert robust.attacked_score(rows, labels, 0.0) == robust.score(rows, labels) > attacked
    right = np.ones(len(rows), dtype=bool)
    for other in range(10):
        moves = 0.02 * np.sign(robust.coef_[other] - robust.coef_[labels])
        right &= robust.predict(0.999 * (rows + moves)) == labels  # within the norm of rows
    assert right.mean() == pytest.approx(attacked, abs=0.01)


@pytest.mark.parametrize("loss", ["log_loss", "hinge"])
def test_robust_training_withstands_the_attack(loss):
    X, y = planted(4000, 1)
    X_test, y_test = planted(4000, 2)
    common = {"epsilon": 100.0, "loss": loss, "attack_norm": INF}
    plain = classifier(attack_radius=0, **common).fit(X, y)
    robust = classifier(attack_radius=0.1, **common).fit(X, y)
    assert plain.score(X_test, y_test) > robust.score(X_test, y_test) > 0.9
    assert plain.attacked_score(X_test, y_test, 0.1) < 0.7
    assert robust.attacked_score(X_test, y_test) > 0.9


def test_robust_regression_withstands_the_attack():
    rng = np.random.default_rng(0)
    X, y = planted(4000, 1)
    t = np.clip(y - 0.5 + 0.1 * rng.normal(size=len(y)), -1, 1)
    common = {"epsilon": 10.0, "attack_norm": INF}
    plain = regressor(attack_radius=0, **common).fit(X, t)
    robust = regressor(attack_radius=0.1, **common).fit(X, t)
    assert plain.score(X, t) > robust.score(X, t)
    assert robust.attacked_score(X, t) > plain.attacked_score(X, t, 0.1) + 0.3


@pytest.mark.parametrize("norm", [1, 2, INF])
def test_attacked_score_is_that_of_the_worst_perturbation(norm):
    """Against perturbed rows: corners of the box, or points of the circle, within the bound."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(300, 2)) * rng.choice([0.3, 3.0], (300, 1))  # some rows are shortened
    y = (X[:, 0] + 0.2 * rng.normal(size=300) > 0).astype(int)
    bounded = X / np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    a = 0.15
    corners = np.array(list(itertools.product([-a, a], repeat=2)))
    angle = np.linspace(0, 2 * np.pi, 721)
    moves = corners if norm == INF else a * np.stack([np.cos(angle), np.sin(angle)], 1)
    if norm == 1:
        moves = a * np.concatenate([np.eye(2), -np.eye(2)])
    model = classifier(50.0, attack_norm=norm, attack_radius=a).fit(X, y)

    def scores(fitted, move):  # the attacker moves the row after it was bounded
        return (bounded + move) @ np.ravel(fitted.coef_) + np.ravel(fitted.intercept_)[0]

    wrong = np.any([(scores(model, move) > 0) != y for move in moves], axis=0)
    assert model.attacked_score(X, y) == pytest.approx(1 - wrong.mean(), abs=0.004)
    assert model.attacked_score(sp.csr_matrix(X), y) == model.attacked_score(X, y)
    assert model.attacked_score(X, y, 0.0) == pytest.approx(model.score(X, y))
    line = regressor(50.0, attack_norm=norm, attack_radius=a).fit(X, y)
    errors = np.max([(np.clip(scores(line, move), -1, 1) - y) ** 2 for move in moves], axis=0)
    expected = 1 - errors.sum() / ((y - y.mean()) ** 2).sum()
    assert line.attacked_score(X, y) == pytest.approx(expected, abs=1e-4)
    for fitted in (model, line):
        with pytest.raises(ValueError, match="y has shape"):
            fitted.attacked_score(X, y[:, None])


@pytest.mark.parametrize("radius", [0.0, 0.05, 0.3])
def test_attacks_move_predictions_within_the_range_of_the_targets(radius):
    """Against the worst shift of each row, by `predict`; scores leave the range."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.45, 0.45, size=(400, 2))
    y = np.clip(4.0 * X[:, 0], -1.0, 1.0)
    model = regressor(50.0, attack_norm=2, attack_radius=0.1).fit(X, y)
    model.coef_ = np.array([3.0, -1.0])
    assert np.abs(X @ model.coef_ + model.intercept_).max() > 1.5
    step = radius * model.coef_ / np.linalg.norm(model.coef_)
    worst = np.max([np.abs(model.predict(X + sign * step) - y) for sign in (-1.0, 1.0)], axis=0)
    expected = 1.0 - (worst**2).sum() / ((y - y.mean()) ** 2).sum()
    assert model.attacked_score(X, y, radius) == pytest.approx(expected, rel=1e-9)
    if radius == 0.0:
        assert expected == pytest.approx(model.score(X, y), rel=1e-9)

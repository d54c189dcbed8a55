"""DPLinearClassifier and DPLinearRegressor: results, choices, errors, law of the noise."""

import json
import math
import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.svm import LinearSVC

from skdp import (
    DPLinearClassifier,
    DPLinearRegressor,
    DPLogisticRegression,
    DPRidge,
    PrivacyLeakWarning,
)

CLASSIFIER_LOSSES = ("log_loss", "hinge", "smoothed_hinge", "squared_hinge")
REGRESSOR_LOSSES = ("squared_error", "huber", "absolute_error", "quantile")
EXACT = {"epsilon": 1e8, "random_state": 0}  # next to no noise


def classification(n=300, d=3, k=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d)) / math.sqrt(d)
    scores = X @ rng.standard_normal((d, k)) * 6 + rng.gumbel(size=(n, k))
    return X, scores.argmax(axis=1)


def regression(n=300, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d)) / math.sqrt(d)
    y = 1.2 * X[:, 0] - 0.5 * X[:, -1] + 0.15 * rng.standard_normal(n)
    y[::20] += rng.choice([-1.0, 1.0], len(y[::20]))  # outliers, for Huber
    return X, 5.0 + 3.0 * np.clip(y, -1, 1)


RANGE = (2.0, 8.0)


def estimator(loss, n_classes=2, **kwargs):
    if loss in CLASSIFIER_LOSSES:
        return DPLinearClassifier(loss=loss, classes=range(n_classes), **kwargs)
    return DPLinearRegressor(loss=loss, target_range=RANGE, **kwargs)


def data(loss, n=300, d=3, k=2, seed=0):
    if loss in CLASSIFIER_LOSSES:
        return classification(n, d, k, seed)
    return regression(n, d, seed)


every_loss = pytest.mark.parametrize("loss", CLASSIFIER_LOSSES + REGRESSOR_LOSSES)


# --- the same as others ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("k", "method", "tilt"),
    [
        (2, "output", 0.0),
        (3, "output", 0.0),
        (2, "output", 0.5),
        (3, "output", 0.5),
        (2, "phased", 0.0),
        (3, "phased", 0.0),
        (2, "exponential", 0.0),
    ],
)
def test_log_loss_is_logistic_regression(k, method, tilt):
    X, y = classification(k=k, d=2)
    parameters = {
        "delta": 0.0 if method == "exponential" else 1e-6,
        "coef_norm": 1.0,
        "method": method,
        "tilt": tilt,
        "classes": range(k),
        "random_state": 3,
    }
    ours = DPLinearClassifier(**parameters).fit(X, y)
    theirs = DPLogisticRegression(**parameters).fit(X, y)
    np.testing.assert_array_equal(ours.coef_, theirs.coef_)
    np.testing.assert_array_equal(ours.intercept_, theirs.intercept_)
    np.testing.assert_array_equal(ours.predict_proba(X), theirs.predict_proba(X))
    np.testing.assert_array_equal(ours.predict_log_proba(X), theirs.predict_log_proba(X))
    assert ours.privacy_ == theirs.privacy_


@pytest.mark.parametrize(
    ("method", "tilt"), [("output", 0.0), ("output", 0.05), ("phased", 0.0), ("exponential", 0.0)]
)
def test_squared_error_is_ridge(method, tilt):
    X, y = regression(d=2)
    parameters = {
        "delta": 0.0 if method == "exponential" else 1e-6,
        "coef_norm": 3.0,
        "method": method,
        "tilt": tilt,
        "target_range": RANGE,
        "random_state": 3,
    }
    ours = DPLinearRegressor(**parameters).fit(X, y)
    theirs = DPRidge(**parameters).fit(X, y)
    np.testing.assert_array_equal(ours.coef_, theirs.coef_)
    assert ours.intercept_ == theirs.intercept_
    assert ours.privacy_ == theirs.privacy_


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("k", [2, 3])
def test_large_epsilon_gives_the_support_vector_machine(loss, k):
    """scikit-learn's, with the intercept as the penalised constant feature that ours is."""
    X, y = classification(k=k)
    alpha = 0.05
    ours = estimator(loss, k, alpha=alpha, intercept_scaling=0.5, **EXACT).fit(X, y)
    machine = LinearSVC(
        loss=loss,
        C=1 / (alpha * len(X)),
        fit_intercept=False,
        dual=True,
        tol=1e-9,
        max_iter=1_000_000,
    ).fit(np.column_stack([X, np.full(len(X), 0.5)]), y)
    np.testing.assert_allclose(ours.coef_, machine.coef_[:, :-1], atol=3e-3)
    np.testing.assert_allclose(ours.intercept_, 0.5 * machine.coef_[:, -1], atol=3e-3)
    margins = X @ machine.coef_[:, :-1].T + 0.5 * machine.coef_[:, -1]
    clear = np.ones(len(X), bool)
    if k > 2:
        ordered = np.sort(margins, axis=1)
        clear = ordered[:, -1] - ordered[:, -2] > 0.02
    else:
        clear = abs(margins[:, 0]) > 0.01
    expected = machine.predict(np.column_stack([X, np.full(len(X), 0.5)]))
    assert clear.mean() > 0.9
    np.testing.assert_array_equal(ours.predict(X)[clear], expected[clear])


def smooth(r, name, quantile=0.5, threshold=0.6):
    """Loss of a residual or of a shortfall, and its slope."""
    if name == "smoothed_hinge":
        slope = np.clip(r, 0, 1)
        return slope * (r - slope / 2), slope
    if name == "huber":
        slope = np.clip(r, -threshold, threshold)
        return slope * (r - slope / 2), slope
    low, high = (-1.0, 1.0) if name == "absolute_error" else (-quantile, 1 - quantile)
    return np.maximum(low * r, high * r), np.where(r > 0, high, low)


@pytest.mark.mostly("slow", 3)
@pytest.mark.parametrize("coef_norm", [None, 0.5])
@pytest.mark.parametrize("loss", ["smoothed_hinge", "huber", "absolute_error", "quantile"])
def test_large_epsilon_gives_scipys_solution(loss, coef_norm):
    """The objective written down anew and minimised by SLSQP (or as a quadratic program)."""
    X, y = data(loss, n=120)
    alpha, scaling = 0.3, 0.5
    parameters = {"quantile": 0.8} if loss == "quantile" else {}
    ours = estimator(
        loss, alpha=alpha, intercept_scaling=scaling, coef_norm=coef_norm, **EXACT, **parameters
    ).fit(X, y)
    Z = np.column_stack([X, np.full(len(X), scaling)])
    n, d = Z.shape

    def split(w):
        return 2 * y - 1 if loss == "smoothed_hinge" else y - 5.0, Z @ w

    kinked = loss in ("absolute_error", "quantile")

    def objective(v):
        w = v[:d]
        if kinked:  # v[d:] are the losses
            return v[d:].mean() + alpha / 2 * w @ w, np.append(alpha * w, np.full(n, 1 / n))
        target, z = split(w)
        if loss == "smoothed_hinge":
            value, slope = smooth(1 - target * z, loss)
            slope = -target * slope
        else:
            value, slope = smooth(z - target, loss)
        return value.mean() + alpha / 2 * w @ w, Z.T @ slope / n + alpha * w

    constraints = []
    if coef_norm is not None:
        constraints.append(
            {
                "type": "ineq",
                "fun": lambda v: coef_norm**2 - v[:d] @ v[:d],
                "jac": lambda v: np.append(-2 * v[:d], np.zeros(len(v) - d)),
            }
        )
    start = np.zeros(d)
    if kinked:
        low, high = (-1.0, 1.0) if loss == "absolute_error" else (-0.8, 0.2)
        for slope in (low, high):  # losses above both lines
            jac = np.hstack([-slope * Z, np.eye(n)])
            constraints.append(
                {
                    "type": "ineq",
                    "fun": lambda v, s=slope: v[d:] - s * (Z @ v[:d] - (y - 5.0)),
                    "jac": lambda v, j=jac: j,
                }
            )
        start = np.append(start, np.full(n, 4.0))
    found = minimize(
        objective,
        start,
        jac=True,
        method="SLSQP",
        constraints=constraints,
        options={"maxiter": 1000, "ftol": 1e-10},
    )
    assert found.success
    w = found.x[:d]
    if coef_norm is not None:
        assert np.linalg.norm(w) == pytest.approx(coef_norm, rel=1e-6)
    np.testing.assert_allclose(ours.coef_.ravel(), w[:-1], atol=5e-3)
    middle = 0.0 if loss == "smoothed_hinge" else 5.0
    np.testing.assert_allclose(ours.intercept_ - middle, scaling * w[-1], atol=5e-3)


@pytest.mark.parametrize("tilt", [1.0, 10.0])
@pytest.mark.parametrize("loss", ["hinge", "smoothed_hinge", "squared_hinge", "huber", "log_loss"])
def test_large_epsilon_gives_the_tilted_solution(loss, tilt):
    X, y = data(loss, n=100)
    X = 0.3 * X
    alpha = 2.0
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "tilt ==", UserWarning)
        ours = estimator(
            loss, alpha=alpha, fit_intercept=False, tilt=tilt, epsilon=1e10, random_state=0
        )
        if loss == "huber":
            ours.set_params(target_range=(-1.0, 1.0), huber_threshold=0.2)
            y = (y - 5.0) / 3.0
        ours.fit(X, y)

    def objective(w):
        z = X @ w
        if loss == "huber":
            losses = smooth(z - y, "huber", threshold=0.2)[0]
        else:
            u = (2 * y - 1) * z
            losses = {
                "hinge": lambda: np.maximum(0, 1 - u),
                "smoothed_hinge": lambda: smooth(1 - u, "smoothed_hinge")[0],
                "squared_hinge": lambda: np.maximum(0, 1 - u) ** 2,
                "log_loss": lambda: np.logaddexp(0, -u),
            }[loss]()
        top = losses.max()
        tilted = top + np.log(np.exp(tilt * (losses - top)).mean()) / tilt
        return tilted + alpha / 2 * w @ w

    found = minimize(objective, np.zeros(3), method="BFGS", options={"gtol": 1e-9})
    best = objective(found.x)
    # strong convexity: the objective is within alpha / 2 distance^2 of its least value
    assert objective(ours.coef_.ravel()) - best <= alpha / 2 * (3e-3) ** 2
    np.testing.assert_allclose(ours.coef_.ravel(), found.x, atol=5e-3)
    flat = minimize(lambda w: objective(w), np.zeros(3), method="BFGS")
    assert np.linalg.norm(flat.x) > 1e-3  # there is something to find


# --- what they are for -----------------------------------------------------------------------


@pytest.mark.parametrize("quantile", [0.1, 0.5, 0.9])
def test_quantiles(quantile):
    rng = np.random.default_rng(1)
    X = rng.uniform(-0.7, 0.7, (4000, 2))
    y = X[:, 0] + 0.5 * (0.6 + X[:, 1]) * rng.uniform(-1, 1, 4000)
    model = DPLinearRegressor(
        loss="quantile",
        quantile=quantile,
        alpha=1e-4,
        target_range=(-2.0, 2.0),
        intercept_scaling=1.0,
        **EXACT,
    ).fit(X, y)
    assert (y <= model.predict(X)).mean() == pytest.approx(quantile, abs=0.02)


def test_absolute_error_is_twice_the_median_quantile():
    X, y = regression()
    absolute = estimator("absolute_error", alpha=0.2, **EXACT).fit(X, y)
    median = estimator("quantile", alpha=0.1, **EXACT).fit(X, y)
    np.testing.assert_allclose(absolute.coef_, median.coef_, atol=5e-3)
    assert absolute.intercept_ == pytest.approx(median.intercept_, abs=5e-3)


def test_huber_threshold():
    """A tenth of the range by default, in units of y; large ones give least squares."""
    X, y = regression()
    parameters = {"alpha": 0.1, **EXACT}
    default = estimator("huber", **parameters).fit(X, y)
    same = estimator("huber", huber_threshold=0.6, **parameters).fit(X, y)
    np.testing.assert_allclose(default.coef_, same.coef_, rtol=1e-12)
    noise = [model.privacy_.releases[0].noise_scale for model in (default, same)]
    assert noise[0] == pytest.approx(noise[1], rel=1e-12)
    other = estimator("huber", huber_threshold=0.3, **parameters).fit(X, y)
    assert np.linalg.norm(other.coef_ - default.coef_) > 0.01
    wide = estimator("huber", huber_threshold=1e3, **parameters).fit(X, y)
    squares = estimator("squared_error", **parameters).fit(X, y)
    np.testing.assert_allclose(wide.coef_, squares.coef_, atol=2e-3)
    # and the bound on the gradient is that of the threshold: less noise
    noise = [model.privacy_.releases[0].noise_scale for model in (default, squares)]
    assert noise[0] < 0.5 * noise[1]


def test_units_of_the_targets():
    """y in other units: the same model in these units, for threshold and range in them."""
    X, y = regression()
    for loss in ("huber", "absolute_error", "quantile"):
        alpha = 0.1
        base = estimator(loss, alpha=alpha, **EXACT).fit(X, y)
        # |r| and quantiles scale linearly: the penalty of w -> c w must be divided by c
        c = 10.0
        scaled = estimator(loss, alpha=alpha if loss == "huber" else alpha / c, **EXACT)
        scaled.set_params(target_range=(RANGE[0] * c, RANGE[1] * c)).fit(X, c * y)
        np.testing.assert_allclose(scaled.coef_, c * base.coef_, atol=0.05)
        np.testing.assert_allclose(scaled.predict(X), c * base.predict(X), atol=0.1)


@every_loss
def test_probabilities_exist_for_log_loss_only(loss):
    X, y = data(loss)
    model = estimator(loss, random_state=0)
    for name in ("predict_proba", "predict_log_proba"):
        assert hasattr(model, name) == (loss == "log_loss")
    model.fit(X, y)
    assert hasattr(model, "predict_proba") == (loss == "log_loss")
    if loss == "log_loss":
        p = model.predict_proba(X)
        np.testing.assert_allclose(p.sum(axis=1), 1)
        np.testing.assert_allclose(np.log(p), model.predict_log_proba(X))
    elif loss in CLASSIFIER_LOSSES:
        with pytest.raises(AttributeError, match="predict_proba"):
            model.predict_proba(X)


@pytest.mark.parametrize("loss", CLASSIFIER_LOSSES)
def test_three_classes_with_string_labels(loss):
    X, y = classification(k=3, n=2000)
    labels = np.array(["ant", "bee", "cat"])
    model = DPLinearClassifier(loss=loss, alpha=0.01, classes=["cat", "ant", "bee"], **EXACT)
    model.fit(X, labels[y])
    assert model.classes_.tolist() == ["ant", "bee", "cat"]
    assert model.coef_.shape == (3, 3)
    assert model.intercept_.shape == (3,)
    assert model.decision_function(X).shape == (2000, 3)
    assert set(model.predict(X)) <= set(labels)
    assert model.score(X, labels[y]) > 0.7
    assert model.privacy_.releases[0].dimension == (2 if loss == "log_loss" else 3) * 4
    with pytest.warns(PrivacyLeakWarning, match="class labels"):
        DPLinearClassifier(loss=loss).fit(X, labels[y])


@pytest.mark.parametrize("loss", CLASSIFIER_LOSSES[1:])
def test_one_against_the_rest(loss):
    """The joint problem is one problem per class; its noise is that of sqrt(K) movements."""
    X, y = classification(k=3)
    joint = estimator(loss, 3, alpha=0.5, **EXACT).fit(X, y)
    for label in range(3):
        single = estimator(loss, alpha=0.5, **EXACT).fit(X, (y == label).astype(int))
        np.testing.assert_allclose(joint.coef_[label], single.coef_[0], atol=2e-3)
    if loss != "squared_hinge":  # whose gradients grow with the radius of the joint ball
        moved, alone = (m.privacy_.plan["exact_sensitivity"] for m in (joint, single))
        assert moved == pytest.approx(math.sqrt(3) * alone, rel=1e-6)


# --- penalties, methods and plans ------------------------------------------------------------


#: Loss, number of records, epsilon, delta, coef_norm.
CHOICES = [
    (loss, n, epsilon, delta, coef_norm)
    for loss in ("log_loss", "squared_error", "smoothed_hinge")
    for n in (20, 2000)
    for epsilon in (0.3, 30.0)
    for delta in (0.0, 1e-6)
    for coef_norm in (None, 0.5)
]


@pytest.mark.mostly("slow", 1)
@every_loss
def test_automatic_method_is_the_one_with_the_smallest_bound(loss):
    for n, delta, epsilon, coef_norm in (
        (300, 1e-6, 1.0, None),
        (300, 0.0, 1.0, 0.5),
        (30, 1e-6, 0.1, 2.0),
        (100_000, 1e-6, 1.0, None),
    ):
        X, y = data(loss, n=n, d=1)
        for objective in ("empirical", "population"):
            model = estimator(
                loss,
                delta=delta,
                epsilon=epsilon,
                coef_norm=coef_norm,
                objective=objective,
                solver="newton",
                random_state=0,
            ).fit(X, y)
            report = model.privacy_
            bounds = report.plan["method_bounds"]
            possible = {"output", "phased", "exponential", "objective"}
            assert {"output", "phased"} <= set(bounds) <= possible
            assert coef_norm is None or "objective" not in bounds
            assert all(bound > 0 and math.isfinite(bound) for bound in bounds.values())
            assert delta == 0 or "exponential" not in bounds
            assert report.method == min(bounds, key=bounds.__getitem__)
            asked = clone(model).set_params(method=report.method)
            small = loss in CLASSIFIER_LOSSES and n < 1000
            if report.method == "output" and small:
                np.testing.assert_array_equal(asked.fit(X, y).coef_, model.coef_)
                assert "method_bounds" not in asked.privacy_.plan


@pytest.mark.slow
def test_every_method_is_chosen_somewhere():
    """The choice is a choice: each method wins for some shape and budget."""
    chosen = {}
    for loss, n, epsilon, delta, coef_norm in CHOICES:
        X, y = data(loss, n=n, d=1)
        model = estimator(
            loss, epsilon=epsilon, delta=delta, coef_norm=coef_norm, random_state=0, solver="newton"
        ).fit(X, y)
        chosen[loss, n, epsilon, delta, coef_norm] = model.privacy_.method
    assert set(chosen.values()) == {"output", "phased", "exponential", "objective"}, chosen


def test_no_choice_without_a_proof_for_all():
    X, y = classification()
    cases = (
        {"alpha": 0.1},
        {"neighbouring": "add_remove", "solver": "newton"},
        {"calibration": "paper", "coef_norm": 1.0},
        {"tilt": 0.5, "coef_norm": 0.5},
    )
    for parameters in cases:
        model = estimator("squared_hinge", random_state=0, **parameters).fit(X, y)
        assert model.privacy_.method == "output"
        assert "method_bounds" not in model.privacy_.plan


#: Losses that are curved everywhere: the others are drawn from with a penalty only.
SAMPLED = ("log_loss", "squared_error")

METHODS = [
    {"method": "auto"},
    {"method": "auto", "solver": "newton"},
    {"method": "auto", "delta": 0.0, "coef_norm": 0.5},
    {"method": "output", "delta": 0.0},
    {"method": "output", "alpha": 0.1},
    {"method": "output", "neighbouring": "add_remove", "n_public": 60},
    {"method": "phased"},
    {"method": "phased", "delta": 0.0, "coef_norm": 1.0},
    {"method": "exponential", "delta": 0.0, "coef_norm": 0.5},
    {"method": "exponential", "delta": 0.0, "coef_norm": 0.5, "alpha": 0.5},
    {"method": "auto", "objective": "population", "fit_intercept": False},
    {"method": "output", "calibration": "paper", "coef_norm": 1.0, "epsilon": 10.0},
    {"method": "output", "tilt": 0.3, "coef_norm": 0.1},
]


@pytest.mark.mostly("slow", 9)
@pytest.mark.parametrize("parameters", METHODS, ids=str)
@every_loss
def test_plans_are_public(loss, parameters):
    """Records of equal shape and any content: the same report, warnings and attributes."""
    if loss not in CLASSIFIER_LOSSES:
        parameters = {**parameters, "data_norm": 2.0}
        if parameters["method"] == "exponential" or parameters.get("delta") == 0:
            parameters["coef_norm"] = 0.5
    rng = np.random.default_rng(3)
    n, d = 60, 2
    X, y = data(loss, n=n, d=d)
    far = rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-200, 200, (n, 1))
    others = [
        (np.zeros((n, d)), np.full(n, y[0])),
        (far, rng.integers(0, 2, n) if loss in CLASSIFIER_LOSSES else rng.standard_normal(n) * 1e9),
    ]
    # widths of one and the same seed: only the coefficients may differ
    model = estimator(loss, **parameters)
    if parameters["method"] == "exponential" and "alpha" not in parameters and loss not in SAMPLED:
        messages = set()
        for features, targets in ((X, y), *others):
            with pytest.raises(ValueError, match="There is no exact sampler") as refused:
                clone(model).fit(features, targets)
            messages.add(str(refused.value))
        assert len(messages) == 1
        return
    with warnings.catch_warnings(record=True) as first:
        warnings.simplefilter("always")
        fitted = clone(model).fit(X, y)
    statement = json.dumps(fitted.privacy_.to_dict(), sort_keys=True)
    for features, targets in others:
        with warnings.catch_warnings(record=True) as second:
            warnings.simplefilter("always")
            other = clone(model).fit(features, targets)
        if fitted.privacy_.method == "gradient" and loss in ("squared_error", "huber"):
            # the clipping norm and the steps follow from the released variance of the targets
            assert other.privacy_.event == fitted.privacy_.event
            assert other.privacy_.caveats == fitted.privacy_.caveats
        else:
            assert json.dumps(other.privacy_.to_dict(), sort_keys=True) == statement
            assert other.privacy_ == fitted.privacy_
            assert other.alpha_ == fitted.alpha_
        assert [str(w.message) for w in first] == [str(w.message) for w in second]
        assert set(vars(other)) == set(vars(fitted))
        assert np.isfinite(other.coef_).all()
        assert not np.array_equal(other.coef_, fitted.coef_)


@every_loss
def test_population_penalises_at_least_as_much(loss):
    for n, epsilon, coef_norm in ((300, 1.0, None), (300, 100.0, None), (3000, 10.0, 1.0)):
        X, y = data(loss, n=n)
        alphas = [
            estimator(
                loss,
                epsilon=epsilon,
                coef_norm=coef_norm,
                objective=objective,
                method="output",
                random_state=0,
            )
            .fit(X, y)
            .alpha_
            for objective in ("empirical", "population")
        ]
        assert alphas[0] <= alphas[1] * (1 + 2e-3)  # to the accuracy of the search
    assert alphas[0] < alphas[1]


@every_loss
def test_alpha_zero(loss):
    X, y = data(loss)
    for method in ("auto", "output"):
        with pytest.raises(ValueError, match="alpha == 0 needs coef_norm"):
            estimator(loss, alpha=0, method=method).fit(X, y)
    output = estimator(loss, alpha=0, method="output", coef_norm=1.0, random_state=0).fit(X, y)
    auto = estimator(loss, alpha="auto", method="output", coef_norm=1.0, random_state=0).fit(X, y)
    assert output.alpha_ == auto.alpha_ > 0
    np.testing.assert_array_equal(output.coef_, auto.coef_)
    phased = estimator(loss, alpha=0, method="phased", random_state=0).fit(X, y)
    assert phased.alpha_ == 0
    assert phased.privacy_.method == "phased"
    assert np.isfinite(phased.coef_).all()
    chosen = estimator(loss, alpha=0, coef_norm=1.0, random_state=0).fit(X, y)
    assert chosen.privacy_.method in ("output", "phased")


@every_loss
def test_smoothing_is_reported_and_small(loss):
    """The bias of the envelope is a small part of what the noise costs; the width is public."""
    X, y = data(loss)
    model = estimator(loss, alpha=0.1, method="output", random_state=0).fit(X, y)
    plan, release = model.privacy_.plan, model.privacy_.releases[0]
    kinked = loss in ("hinge", "absolute_error", "quantile")
    assert ("smoothing" in plan) == kinked
    if kinked:
        spread = math.hypot(1.0, 0.1) * release.noise_scale
        slope = 0.5 if loss == "quantile" else 1.0
        assert plan["smoothing"] == pytest.approx(0.05 * spread / slope, rel=0.01)
        assert plan["smoothness"] == pytest.approx(math.hypot(1.0, 0.1) ** 2 / plan["smoothing"])


# --- tilt ------------------------------------------------------------------------------------


@every_loss
def test_a_tilt_that_is_too_large_warns(loss):
    X, y = data(loss, n=50)
    silent = estimator(loss, tilt=1e-3, coef_norm=0.1, random_state=0).fit(X, y)
    plain = estimator(loss, method="output", coef_norm=0.1, random_state=0).fit(X, y)
    assert silent.privacy_.method == "output"
    assert silent.coef_ == pytest.approx(plain.coef_, abs=0.5)
    model = estimator(loss, tilt=1e3, coef_norm=1.0, random_state=0)
    with pytest.warns(
        UserWarning, match="lets one record outweigh all the others together"
    ) as seen:
        model.fit(X, y)
    assert {w.filename for w in seen} == {__file__}
    # capped by the ball: it still says what it released
    assert model.privacy_.plan["exact_sensitivity"] <= 2 * model.privacy_.plan["radius"]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"method": "phased"}, "tilt > 0 needs method='output'"),
        ({"method": "exponential", "delta": 0.0}, "tilt > 0 needs method='output'"),
        ({"neighbouring": "add_remove"}, "tilt > 0 is proven for neighbouring='replace_one' only"),
        ({"solver": "svrg"}, "SVRG (needs|works on batches of) records"),
    ],
)
@pytest.mark.parametrize("loss", ["log_loss", "squared_error", "hinge"])
def test_what_a_tilt_excludes(loss, parameters, message):
    X, y = data(loss)
    model = estimator(loss, tilt=0.1, coef_norm=0.5, **parameters)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)
    assert not hasattr(model, "coef_")


def test_more_tilt_means_more_noise_and_a_smaller_worst_loss():
    X, y = regression(n=500)
    noise, worst = [], []
    for tilt in (0.0, 0.1, 10.0):
        model = estimator("squared_error", tilt=tilt, alpha=0.01, **EXACT)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "tilt ==", UserWarning)
            model.fit(X, y)
        noise.append(model.privacy_.releases[0].noise_scale)
        worst.append(abs(model.predict(X) - y).max())
    assert noise[0] < noise[1] <= noise[2]
    assert worst[0] > worst[1] > worst[2]


# --- errors ----------------------------------------------------------------------------------

ERRORS = [
    (DPLinearClassifier, {"loss": "l2"}, ValueError, "loss == 'l2', must be one of"),
    (DPLinearClassifier, {"loss": None}, ValueError, "loss == None, must be one of"),
    (DPLinearClassifier, {"loss": "huber"}, ValueError, "loss == 'huber', must be one of"),
    (DPLinearRegressor, {"loss": "hinge"}, ValueError, "loss == 'hinge', must be one of"),
    (DPLinearRegressor, {"quantile": 0.0}, ValueError, "quantile == 0.0, must be in"),
    (DPLinearRegressor, {"quantile": 1.0}, ValueError, "quantile == 1.0, must be in"),
    (DPLinearRegressor, {"quantile": math.nan}, ValueError, "quantile == nan, must be in"),
    (DPLinearRegressor, {"quantile": "half"}, TypeError, "quantile must be a real number"),
    (DPLinearRegressor, {"huber_threshold": 0.0}, ValueError, "huber_threshold == 0.0"),
    (DPLinearRegressor, {"huber_threshold": -1}, ValueError, "huber_threshold == -1"),
    (DPLinearRegressor, {"huber_threshold": True}, TypeError, "huber_threshold must be a real"),
    (DPLinearRegressor, {"target_range": (1, 0)}, ValueError, "with low < high"),
]
for _kind in (DPLinearClassifier, DPLinearRegressor):
    ERRORS += [
        (_kind, {"tilt": -1.0}, ValueError, "tilt == -1.0, must be in"),
        (_kind, {"tilt": math.inf}, ValueError, "tilt == inf, must be in"),
        (_kind, {"tilt": "much"}, TypeError, "tilt must be a real number"),
        (_kind, {"objective": "train"}, ValueError, "objective == 'train', must be one of"),
        (_kind, {"method": "sgd"}, ValueError, "method == 'sgd', must be one of"),
        (_kind, {"method": "exponential"}, ValueError, "delta must be 0"),
        (_kind, {"alpha": -1.0}, ValueError, "alpha == -1.0"),
        (_kind, {"epsilon": 0.0}, ValueError, "epsilon"),
        (_kind, {"delta": 1.0}, ValueError, "delta"),
        (_kind, {"coef_norm": 0.0}, ValueError, "coef_norm"),
        (_kind, {"solver": "sgd"}, ValueError, "sgd"),
    ]


@pytest.mark.parametrize(("kind", "parameters", "error", "message"), ERRORS)
def test_bad_parameters(kind, parameters, error, message):
    X, y = classification()
    model = kind(**parameters)
    if kind is DPLinearClassifier:
        model.set_params(classes=[0, 1])
    before = dict(vars(model))
    with pytest.raises(error, match=message):
        model.fit(X, y)
    assert vars(model) == before
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_a_failed_fit_keeps_the_last_one():
    X, y = classification()
    model = estimator("hinge", random_state=0).fit(X, y)
    state = dict(vars(model))
    model.loss = "l2"
    with pytest.raises(ValueError, match="loss == 'l2'"):
        model.fit(X, y)
    model.loss = "hinge"
    assert vars(model) == state


@every_loss
def test_exponential_mechanism_needs_pure_privacy(loss):
    X, y = data(loss, d=1, n=40)
    for delta in (1e-6, 0.1):
        with pytest.raises(ValueError, match="The methods for delta > 0 are"):
            estimator(loss, method="exponential", delta=delta, coef_norm=0.5).fit(X, y)
    parameters = {} if loss in SAMPLED else {"alpha": 0.5}
    model = estimator(
        loss, method="exponential", delta=0.0, coef_norm=0.5, random_state=0, **parameters
    ).fit(X, y)
    assert model.privacy_.method == "exponential"
    assert model.alpha_ == parameters.get("alpha", 0.0)
    intercept = model.intercept_ - (0.0 if loss in CLASSIFIER_LOSSES else 5.0)
    assert np.hypot(np.ravel(model.coef_)[0], np.ravel(intercept)[0] / 0.1) <= 0.5 * (1 + 1e-9)
    if loss in CLASSIFIER_LOSSES[1:]:
        with pytest.raises(
            ValueError,
            match="classes declares 3 labels, but method='exponential' supports two only",
        ):
            estimator(loss, 3, method="exponential", delta=0.0, coef_norm=0.5).fit(X, y)


# --- as estimators of scikit-learn -----------------------------------------------------------


@every_loss
def test_clone_and_pickle(loss):
    X, y = data(loss)
    model = estimator(loss, alpha=0.3, tilt=1e-3, coef_norm=0.3, random_state=0)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert set(model.get_params()) == set(vars(model))
    model.fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.privacy_ == model.privacy_
    np.testing.assert_array_equal(copy.fit(X, y).coef_, model.coef_)
    assert repr(clone(model)).startswith(type(model).__name__)


@pytest.mark.parametrize("tilt", [0.0, 0.01])
@every_loss
def test_layouts_and_precisions(loss, tilt):
    """One plan for dense and sparse rows in both precisions, and nearly the same coefficients."""
    X, y = data(loss)
    X = np.round(X, 2) * (np.random.default_rng(0).random(X.shape) < 0.7)
    models = [
        estimator(loss, alpha=0.1, tilt=tilt, coef_norm=1.0, method="output", random_state=0).fit(
            layout, y
        )
        for layout in (
            X,
            np.asfortranarray(X),
            sp.csr_matrix(X),
            X.astype(np.float32),
            sp.csr_matrix(X.astype(np.float32)),
        )
    ]
    accuracy = models[0].privacy_.plan["accuracy"]
    for other in models[1:]:
        assert other.privacy_ == models[0].privacy_
        slack = (
            2 * accuracy + 1e-4
        )  # single precision moves rows by 1e-8 and solutions by 1 / alpha
        np.testing.assert_allclose(other.coef_, models[0].coef_, atol=slack)
        np.testing.assert_allclose(other.intercept_, models[0].intercept_, atol=slack)


# --- the law of the noise --------------------------------------------------------------------


@pytest.mark.mostly("audit", 1)
@pytest.mark.parametrize("tilt", [0.0, 0.05])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "huber", "quantile"])
def test_noise_is_standard_normal_in_units_of_the_report(loss, tilt):
    """Released minus exact solution: chi-squared, and no mean. False-alarm rate 1e-6 each.

    The exact solution is that of fits with next to no noise but the same envelope.
    """
    n_fits, d = 250, 2
    X, y = data(loss, n=60, d=d)
    parameters = {"alpha": 2.0, "epsilon": 4.0, "delta": 1e-2, "fit_intercept": False}
    if loss not in CLASSIFIER_LOSSES:
        parameters["target_range"] = (-1.0, 1.0)
        y = (y - 5.0) / 3.0
    model = (
        estimator(loss, tilt=tilt, **parameters)
        if loss in CLASSIFIER_LOSSES
        else (DPLinearRegressor(loss=loss, tilt=tilt, **parameters))
    )
    points = np.array(
        [model.set_params(random_state=seed).fit(X, y).coef_.ravel() for seed in range(n_fits)]
    )
    plan, release = model.privacy_.plan, model.privacy_.releases[0]
    assert release.mechanism == "gaussian"
    exact = exact_solution(loss, X, y, 2.0, plan.get("smoothing"), tilt)
    noise = (points - exact) / release.noise_scale
    # the solver's error is far below what the test can see
    assert plan["accuracy"] < 2e-3 * release.noise_scale
    square = stats.chi2(noise.size)
    assert square.ppf(5e-7) <= (noise**2).sum() <= square.isf(5e-7)
    mean = n_fits * (noise.mean(axis=0) ** 2).sum()
    assert mean <= stats.chi2(d).isf(1e-6)
    allowed = math.sqrt(math.log(2 / 1e-6) / (2 * noise.size))  # Massart (1990)
    assert stats.kstest(noise.ravel(), stats.norm.cdf).statistic <= allowed
    assert np.linalg.norm(points, axis=1).max() > 0


def exact_solution(loss, X, y, alpha, width, tilt):
    """By BFGS on the objective written down anew."""

    def envelope(r, low, high, h):
        slope = np.clip(r / h, low, high)
        return slope * (r - h * slope / 2), slope

    def objective(w):
        z = X @ w
        if loss in CLASSIFIER_LOSSES:
            sign = 2.0 * y - 1
            short = 1 - sign * z
            if loss == "hinge":
                value, slope = envelope(short, 0.0, 1.0, width)
            else:
                value, slope = np.maximum(0, short) ** 2, 2 * np.maximum(0, short)
            slope = -sign * slope
        elif loss == "huber":
            value, slope = envelope(z - y, -0.2, 0.2, 1.0)
        else:
            value, slope = envelope(z - y, -0.5, 0.5, width)
        weights = np.full(len(y), 1 / len(y))
        total = value.mean()
        if tilt:
            weights = np.exp(tilt * (value - value.max()))
            total = value.max() + np.log(weights.mean()) / tilt
            weights = weights / weights.sum()
        return total + alpha / 2 * w @ w, X.T @ (weights * slope) + alpha * w

    found = minimize(objective, np.zeros(X.shape[1]), jac=True, method="BFGS")
    assert np.linalg.norm(objective(found.x)[1]) < 1e-4 * alpha
    return found.x


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"method": "phased", "calibration": "paper"}, "epsilon < 1"),
        ({"method": "phased", "calibration": "paper", "epsilon": 0.5, "delta": 0}, "delta > 0"),
        ({"method": "exponential", "calibration": "paper", "delta": 0}, "calibration"),
        ({"solver": "svrg", "tilt": 0.5}, "batches"),
    ],
)
def test_impossible_combinations_are_refused_before_the_data_are_looked_at(parameters, message):
    X = np.full((5, 2), np.nan)
    for model in (DPLinearClassifier(classes=[0, 1]), DPLinearRegressor()):
        with pytest.raises(ValueError, match=message):
            model.set_params(**parameters).fit(X, [0, 1, 0, 1, 0])


def test_reports_do_not_depend_on_earlier_fits():
    """Plans are remembered; that must not show."""
    X = np.random.default_rng(0).uniform(-0.5, 0.5, (3000, 2))
    y = (X[:, 0] > 0).astype(int)
    for loss in ("smoothed_hinge", "hinge"):
        reports = [
            DPLinearClassifier(loss=loss, method="phased", classes=[0, 1], random_state=0)
            .fit(X, y)
            .privacy_.to_dict()
            for _ in range(2)
        ]
        assert reports[0] == reports[1]
        assert ("smoothing" in reports[0]["plan"]) == (loss == "hinge")

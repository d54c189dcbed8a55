"""Linear models: solutions with next to no noise, penalties, tilts, and uses."""

import math
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from linear_models import (
    EXACT,
    RANGE,
    classification,
    data,
    estimator,
    every_loss,
    regression,
)
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import LinearSVC

from skdp import DPLinearClassifier, DPLinearRegressor, DPLogisticRegression, DPRidge
from skdp.methods import ExponentialMechanism, OutputPerturbation, PhasedOutputPerturbation

PENALISED = {"method": OutputPerturbation(alpha=0.01), "fit_intercept": False, **EXACT}

# --- the same as others ----------------------------------------------------------------------


@pytest.mark.parametrize(("k", "make"), [(2, np.asarray), (3, sp.csr_matrix)])
def test_large_epsilon_gives_scikit_learns_solution(k, make):
    X, y = classification(400, k=k)
    ours = DPLogisticRegression(classes=range(k), **PENALISED).fit(make(X), y)
    theirs = LogisticRegression(C=1 / (400 * 0.01), fit_intercept=False, tol=1e-10).fit(X, y)
    assert ours.coef_.shape == theirs.coef_.shape
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=2e-3)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=2e-3)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=4e-3)
    np.testing.assert_allclose(np.exp(ours.predict_log_proba(X)), ours.predict_proba(X))


def test_ridge_in_the_units_of_the_user():
    """Dollars instead of [-1, 1], centimetres instead of metres: the same model."""
    X, y = regression(400)
    y = (y - 5.0) / 3.0
    ours = DPRidge(**PENALISED).fit(X, y)
    theirs = Ridge(alpha=400 * 0.01, fit_intercept=False).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=2e-3)
    assert ours.coef_.shape == (3,) and ours.intercept_ == 0.0
    plain = DPRidge(method=OutputPerturbation(alpha=0.01), **EXACT).fit(X, y)
    scaled = DPRidge(
        method=OutputPerturbation(alpha=0.01 * 1e4), data_norm=100.0, target_range=(1000, 3000),
        **EXACT,
    ).fit(100 * X, 2000 + 1000 * y)  # fmt: skip
    # the same noise, and each solution within the plan's accuracy
    tolerance = 1000 * 1.01 * 2 * plain.privacy_.plan["accuracy"]
    np.testing.assert_allclose(
        scaled.predict(100 * X), 2000 + 1000 * plain.predict(X), rtol=0, atol=tolerance
    )
    assert isinstance(scaled.intercept_, float)


def test_constrained_ridge_lies_on_the_sphere_and_is_optimal():
    """The same as ridge with the multiplier of the constraint."""
    X, y = regression(400)
    y = (y - 5.0) / 3.0
    method = OutputPerturbation(alpha=1e-3, coef_norm=0.2)
    model = DPRidge(**PENALISED | {"method": method}).fit(X, y)
    assert np.linalg.norm(model.coef_) == pytest.approx(0.2, rel=1e-4)
    multiplier = -(X.T @ (X @ model.coef_ - y) / 400 @ model.coef_) / 0.04
    penalised = Ridge(alpha=400 * multiplier, fit_intercept=False).fit(X, y)
    np.testing.assert_allclose(model.coef_, penalised.coef_, atol=1e-3)


def fitted_alike(kinds, X, y, **parameters):
    """The two estimators, which release the same."""
    delta = 0.0 if parameters["method"].is_pure else 1e-6
    ours, theirs = (kind(delta=delta, random_state=3, **parameters).fit(X, y) for kind in kinds)
    np.testing.assert_array_equal(ours.coef_, theirs.coef_)
    np.testing.assert_array_equal(ours.intercept_, theirs.intercept_)
    assert ours.privacy_ == theirs.privacy_
    return ours, theirs


def in_a_ball(coef_norm, tilt):
    """Return the methods that have a ball."""
    return [
        OutputPerturbation(coef_norm=coef_norm),
        OutputPerturbation(coef_norm=coef_norm, tilt=tilt),
        PhasedOutputPerturbation(coef_norm=coef_norm),
        ExponentialMechanism(coef_norm=coef_norm),
    ]


@pytest.mark.parametrize(
    ("k", "method"),
    [(k, each) for k in (2, 3) for each in in_a_ball(1.0, 0.5) if k == 2 or not each.is_binary],
    ids=str,
)
def test_log_loss_is_logistic_regression(k, method):
    X, y = classification(k=k, d=2)
    kinds = (DPLinearClassifier, DPLogisticRegression)
    ours, theirs = fitted_alike(kinds, X, y, method=method, classes=range(k))
    np.testing.assert_array_equal(ours.predict_proba(X), theirs.predict_proba(X))
    np.testing.assert_array_equal(ours.predict_log_proba(X), theirs.predict_log_proba(X))


@pytest.mark.parametrize("method", in_a_ball(3.0, 0.05), ids=str)
def test_squared_error_is_ridge(method):
    X, y = regression(d=2)
    fitted_alike((DPLinearRegressor, DPRidge), X, y, method=method, target_range=RANGE)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("k", [2, 3])
def test_large_epsilon_gives_the_support_vector_machine(loss, k):
    """scikit-learn's, with the intercept as the penalised constant feature that ours is."""
    X, y = classification(k=k)
    alpha = 0.05
    ours = estimator(loss, k, alpha=alpha, intercept_scaling=0.5, **EXACT).fit(X, y)
    given = {"fit_intercept": False, "dual": True, "tol": 1e-9, "max_iter": 1_000_000}
    machine = LinearSVC(loss=loss, C=1 / (alpha * len(X)), **given)
    machine.fit(np.column_stack([X, np.full(len(X), 0.5)]), y)
    np.testing.assert_allclose(ours.coef_, machine.coef_[:, :-1], atol=3e-3)
    np.testing.assert_allclose(ours.intercept_, 0.5 * machine.coef_[:, -1], atol=3e-3)


# --- what they are for -----------------------------------------------------------------------


@pytest.mark.parametrize("quantile", [0.1, 0.5, 0.9])
def test_quantiles(quantile):
    rng = np.random.default_rng(1)
    X = rng.uniform(-0.7, 0.7, (4000, 2))
    y = X[:, 0] + 0.5 * (0.6 + X[:, 1]) * rng.uniform(-1, 1, 4000)
    model = DPLinearRegressor(
        loss="quantile",
        quantile=quantile,
        target_range=(-2.0, 2.0),
        method=OutputPerturbation(alpha=1e-4, intercept_scaling=1.0),
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
    model = estimator(loss, method="auto")
    for name in ("predict_proba", "predict_log_proba"):
        assert hasattr(model, name) == (loss == "log_loss")


# --- penalties, smoothing, tilts ---------------------------------------------------------------


@every_loss
def test_population_penalises_at_least_as_much(loss):
    for n, epsilon, coef_norm in ((300, 1.0, None), (3000, 10.0, 1.0)):
        X, y = data(loss, n=n)
        shared = {"epsilon": epsilon, "coef_norm": coef_norm, "random_state": 0}
        alphas = [
            estimator(loss, population=population, **shared).fit(X, y).alpha_
            for population in (False, True)
        ]
        assert alphas[0] <= alphas[1] * (1 + 2e-3)  # to the accuracy of the search
    assert alphas[0] < alphas[1]


@every_loss
def test_alpha_zero_is_the_chosen_penalty_or_that_of_phases(loss):
    X, y = data(loss)
    zero, auto = (
        estimator(loss, alpha=alpha, coef_norm=1.0, random_state=0).fit(X, y)
        for alpha in (0, "auto")
    )
    assert zero.alpha_ == auto.alpha_ > 0
    np.testing.assert_array_equal(zero.coef_, auto.coef_)
    phased = estimator(loss, alpha=0, method=PhasedOutputPerturbation, random_state=0).fit(X, y)
    assert phased.alpha_ == 0 and np.isfinite(phased.coef_).all()


@every_loss
def test_smoothing_is_reported_and_small(loss):
    """The bias of the envelope is a small part of what the noise costs; the width is public."""
    X, y = data(loss)
    model = estimator(loss, alpha=0.1, random_state=0).fit(X, y)
    plan, release = model.privacy_.plan, model.privacy_.releases[0]
    kinked = loss in ("hinge", "absolute_error", "quantile")
    assert ("smoothing" in plan) == kinked
    if kinked:
        spread = math.hypot(1.0, 0.1) * release.noise_scale
        slope = 0.5 if loss == "quantile" else 1.0
        assert plan["smoothing"] == pytest.approx(0.05 * spread / slope, rel=0.01)
        assert plan["smoothness"] == pytest.approx(math.hypot(1.0, 0.1) ** 2 / plan["smoothing"])


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

"""DPLinearClassifier and DPLinearRegressor: solutions with next to no noise, and uses."""

import math

import numpy as np
import pytest
from linear_models import (
    CLASSIFIER_LOSSES,
    EXACT,
    RANGE,
    classification,
    data,
    estimator,
    every_loss,
    regression,
)
from sklearn.svm import LinearSVC

from skdp import DPLinearClassifier, DPLinearRegressor, DPLogisticRegression, DPRidge
from skdp.methods import ExponentialMechanism, OutputPerturbation, PhasedOutputPerturbation

# --- the same as others ----------------------------------------------------------------------


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
    X, y = data(loss)
    model = estimator(loss, method="auto", random_state=0)
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

"""DPLinearClassifier and DPLinearRegressor: penalties, tilts, layouts, errors."""

import math
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from linear_models import CLASSIFIER_LOSSES, EXACT, data, estimator, every_loss, regression

from skdp import DPLinearClassifier, DPLinearRegressor
from skdp.methods import ExponentialMechanism, OutputPerturbation, PhasedOutputPerturbation

# --- penalties, methods and plans ------------------------------------------------------------


#: Losses that are curved everywhere: the others are drawn from with a penalty only.
SAMPLED = ("log_loss", "squared_error")


@every_loss
def test_population_penalises_at_least_as_much(loss):
    for n, epsilon, coef_norm in ((300, 1.0, None), (300, 100.0, None), (3000, 10.0, 1.0)):
        X, y = data(loss, n=n)
        shared = {"epsilon": epsilon, "coef_norm": coef_norm, "random_state": 0}
        alphas = [
            estimator(loss, population=population, **shared).fit(X, y).alpha_
            for population in (False, True)
        ]
        assert alphas[0] <= alphas[1] * (1 + 2e-3)  # to the accuracy of the search
    assert alphas[0] < alphas[1]


@every_loss
def test_alpha_zero(loss):
    X, y = data(loss)
    with pytest.raises(ValueError, match="alpha == 0 needs coef_norm"):
        estimator(loss, alpha=0).fit(X, y)
    with pytest.raises(ValueError, match="alpha == 0 needs delta > 0"):
        estimator(loss, alpha=0, method="auto", delta=0.0).fit(X, y)
    output = estimator(loss, alpha=0, coef_norm=1.0, random_state=0).fit(X, y)
    auto = estimator(loss, alpha="auto", coef_norm=1.0, random_state=0).fit(X, y)
    assert output.alpha_ == auto.alpha_ > 0
    np.testing.assert_array_equal(output.coef_, auto.coef_)
    phased = estimator(loss, alpha=0, method=PhasedOutputPerturbation, random_state=0).fit(X, y)
    assert phased.alpha_ == 0
    assert phased.privacy_.method == "PhasedOutputPerturbation"
    assert np.isfinite(phased.coef_).all()


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


# --- tilt ------------------------------------------------------------------------------------


@every_loss
def test_a_tilt_that_is_too_large_warns(loss):
    X, y = data(loss, n=50)
    silent = estimator(loss, tilt=1e-3, coef_norm=0.1, random_state=0).fit(X, y)
    plain = estimator(loss, coef_norm=0.1, random_state=0).fit(X, y)
    assert silent.privacy_.method == "OutputPerturbation"
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
        ({"neighbouring": "add_remove"}, "tilt > 0 is proven for neighbouring='replace_one' only"),
        ({"solver": "svrg"}, "SVRG (needs|works on batches of) records"),
    ],
)
@pytest.mark.parametrize("loss", ["hinge"])
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


@every_loss
def test_exponential_mechanism_needs_pure_privacy(loss):
    X, y = data(loss, d=1, n=40)
    for delta in (1e-6, 0.1):
        with pytest.raises(ValueError, match="gives pure privacy: delta must be 0"):
            estimator(loss, method=ExponentialMechanism, delta=delta, coef_norm=0.5).fit(X, y)
    parameters = {} if loss in SAMPLED else {"alpha": 0.5}
    model = estimator(
        loss, method=ExponentialMechanism, delta=0.0, coef_norm=0.5, random_state=0, **parameters
    ).fit(X, y)
    assert model.privacy_.method == "ExponentialMechanism"
    assert model.alpha_ == parameters.get("alpha", 0.0)
    intercept = model.intercept_ - (0.0 if loss in CLASSIFIER_LOSSES else 5.0)
    assert np.hypot(np.ravel(model.coef_)[0], np.ravel(intercept)[0] / 0.1) <= 0.5 * (1 + 1e-9)
    if loss in CLASSIFIER_LOSSES[1:]:
        with pytest.raises(
            ValueError,
            match="classes declares 3 labels, but method='exponential' supports two only",
        ):
            estimator(loss, 3, method="exponential", delta=0.0).fit(X, y)


# --- layouts -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "tilt"), [("log_loss", 0.0), ("hinge", 0.01), ("squared_error", 0.01), ("huber", 0.0)]
)
def test_layouts_and_precisions(loss, tilt):
    """One plan for dense and sparse rows in both precisions, and nearly the same coefficients."""
    X, y = data(loss)
    X = np.round(X, 2) * (np.random.default_rng(0).random(X.shape) < 0.7)
    models = [
        estimator(loss, alpha=0.1, tilt=tilt, coef_norm=1.0, random_state=0).fit(layout, y)
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


@pytest.mark.parametrize(
    ("method", "budget", "message"),
    [
        (PhasedOutputPerturbation(calibration="paper"), {}, "epsilon < 1"),
        (PhasedOutputPerturbation(calibration="paper"), {"epsilon": 0.5, "delta": 0}, "delta > 0"),
        (PhasedOutputPerturbation(calibration="printed"), {}, "calibration == 'printed'"),
        (OutputPerturbation(solver="svrg", tilt=0.5), {}, "batches"),
    ],
)
def test_impossible_combinations_are_refused_before_the_data_are_looked_at(method, budget, message):
    X = np.full((5, 2), np.nan)
    for model in (DPLinearClassifier(classes=[0, 1]), DPLinearRegressor()):
        with pytest.raises(ValueError, match=message):
            model.set_params(method=method, **budget).fit(X, [0, 1, 0, 1, 0])


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

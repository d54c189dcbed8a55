"""DPLinearClassifier and DPLinearRegressor: penalties, tilts, layouts, errors."""

import math
import warnings

import numpy as np
import pytest
from linear_models import EXACT, data, estimator, every_loss, regression

from skdp.methods import PhasedOutputPerturbation

# --- penalties, methods and plans ------------------------------------------------------------


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

"""Other losses of one margin: their typical slopes, plans and models."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from skdp import DPLinearClassifier, DPLinearRegressor
from skdp.algorithms.core.size import shrunk
from skdp.algorithms.core.slopes import ROW, plan_slope_steps, typical
from skdp.algorithms.core.steps import TYPICAL
from skdp.problems import (
    AbsoluteLoss,
    HingeLoss,
    OneVsRestLoss,
    QuantileLoss,
    SquaredHingeLoss,
    huber_loss,
)

pytestmark = pytest.mark.filterwarnings("ignore:The model is nearly a constant")

HINGE = HingeLoss().smoothed(0.1)
#: Losses, and the deviations of targets.
LOSSES = {
    "hinge": (HINGE, 1.0),
    "smoothed hinge": (HingeLoss().smoothed(1.0), 1.0),
    "squared hinge": (SquaredHingeLoss(), 1.0),
    "one against the rest": (OneVsRestLoss(HINGE, 5), 1.0),
    "absolute": (AbsoluteLoss(1.0).smoothed(0.05), math.exp(-1.0)),
    "huber": (huber_loss(1.0, 0.2), math.exp(-1.0)),
    "quantile": (QuantileLoss(1.0, 0.2).smoothed(0.05), math.exp(-1.0)),
}


@pytest.mark.parametrize("part", [0.4, math.inf])
@pytest.mark.parametrize("name", LOSSES)
def test_typical_slopes_are_those_of_draws(name, part):
    """At the constant and the size where steps end: standard errors of means are below .003."""
    loss, spread = LOSSES[name]
    base, n = getattr(loss, "base", loss) if name == "one against the rest" else loss, 200_000
    rng = np.random.default_rng(0)
    clip = part * math.sqrt(typical(loss, spread).square)
    found = typical(loss, spread, clip * math.sqrt(loss.n_outputs) * ROW)
    z = rng.standard_normal(n)
    target, sign = np.zeros(n), 1.0
    if not loss.target_bound:
        label = rng.uniform(size=n) < expit(math.sqrt(2.0) * TYPICAL * z)
        target, sign = label.astype(float), found.size

    def slopes(away=0.0):
        margins = spread * (found.constant + away + sign * z)
        return np.clip(base.derivative(margins, target) / spread, -clip, clip)

    scale = math.sqrt(found.square)
    along = slopes() if loss.target_bound else z * slopes()
    assert abs(along.mean()) < 0.01 * scale
    assert (slopes() ** 2).mean() == pytest.approx(found.square, rel=0.02)
    bend = (slopes(0.1) - slopes(-0.1)).mean() / 0.2
    assert bend == pytest.approx(found.bend, rel=0.05)
    assert found.largest >= found.bend


def models(loss, epsilon, **options):
    shared = {"epsilon": epsilon, "data_norm": 1.0, "method": "gradient", "loss": loss, **options}
    if "hinge" in loss:
        return DPLinearClassifier(**shared)
    return DPLinearRegressor(target_range=(-1, 1), **shared)


def table(n, seed=0):
    rng = np.random.default_rng(seed)
    X = np.clip(0.3 * rng.standard_normal((n, 3)), -0.57, 0.57)
    return X, X[:, 0] - 0.5 * X[:, 1], rng


@pytest.mark.parametrize("is_free", [True, False])
@pytest.mark.parametrize("unit", [1e-8, 1.0, 1e8])
def test_weights_that_are_zero_have_a_size(unit, is_free):
    """It is nothing, and its variance is a number."""
    steps = replace(plan_slope_steps(HINGE, 1.0, 10, 1000.0, 0.01, 1.0), unit=unit)
    size = shrunk(0.0, steps, 1, is_free)
    assert 0.0 < size.deviation < 1e-6 * unit and 0.0 <= size.size <= size.deviation
    assert 0.0 < size.variance < math.inf and size.noise == steps.variance


@pytest.mark.parametrize("quantile", [0.2, 0.5, 0.9])
def test_so_many_targets_are_below_a_quantile(quantile):
    """Of 20,000 skewed targets, whose share varies by .003, and by the noise by about .01."""
    X, signal, rng = table(20_000)
    y = np.clip(0.4 * signal + 0.2 * rng.exponential(size=20_000) - 0.5, -1.0, 1.0)
    model = models("quantile", 3.0, quantile=quantile, random_state=0).fit(X, y)
    assert np.mean(y < model.predict(X)) == pytest.approx(quantile, abs=0.03)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "absolute_error", "huber"])
def test_little_noise_makes_the_model_without_noise(loss):
    X, signal, rng = table(20_000)
    if "hinge" in loss:
        y = (signal + 0.2 * rng.logistic(size=len(X)) > 0.1).astype(int)
        model = models(loss, 100.0, classes=[0, 1], random_state=0).fit(X, y)
        best = np.mean((signal > 0.1) == y)
        assert model.score(X, y) == pytest.approx(best, abs=0.005)
    else:
        y = np.clip(signal + 0.2 * rng.standard_normal(len(X)), -1.0, 1.0)
        model = models(loss, 100.0, random_state=0).fit(X, y)
        assert model.coef_ == pytest.approx([1.0, -0.5, 0.0], abs=0.03)


def test_the_noise_is_that_of_refits():
    """Of 25 fits to the same records, whose deviation is within 21 % with probability .99.

    The ratio is .88 here; with half of the noise drawn it is 1.44.
    """
    X, signal, rng = table(3_000)
    y = np.clip(signal + 0.6 * rng.standard_normal(len(X)), -1.0, 1.0)
    fits = [models("absolute_error", 1.0, random_state=i).fit(X, y) for i in range(25)]
    seen = math.sqrt(np.mean(np.var([np.ravel(fit.coef_) for fit in fits], axis=0)))
    told = math.sqrt(np.mean([np.mean(fit.coef_noise_**2) for fit in fits]))
    assert 0.65 < told / seen < 1.25

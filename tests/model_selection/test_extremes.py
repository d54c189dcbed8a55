"""Fits of tuned models with extreme budgets, bounds and records: every one of them succeeds."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from skdp.model_selection import DPLogisticRegressionCV, DPRidgeCV

SETTINGS = 8


def setting(rng):
    """Public parameters of a fit."""
    n, d = int(rng.integers(8, 40)), int(rng.integers(1, 6))
    data_norm = 10.0 ** rng.integers(-45, 45) if rng.random() < 0.3 else 10.0 ** rng.integers(-8, 8)
    bounds = None
    if rng.random() < 0.4:
        low = 10.0 ** rng.integers(-95, 80)
        bounds = (low, low * 10.0 ** rng.integers(1, 16))
    parameters = {
        "epsilon": 10.0 ** rng.integers(-3, 19),
        "delta": float(rng.choice([0.0, 1e-15, 1e-6])),
        "cv": [None, 2, 4][rng.integers(3)],
        "data_norm": data_norm,
        "alpha_bounds": bounds,
        "penalty_groups": None if rng.random() < 0.6 else [j % 2 for j in range(d)],
        "fit_intercept": bool(rng.random() < 0.7),
    }
    return n, d, parameters


def records(rng, kind, n, d, data_norm):
    """Rows, and targets -1 and 1."""
    X = rng.normal(size=(n, d)) * data_norm
    X = {
        "zero": 0.0 * X,
        "equal": np.repeat(X[:1], n, axis=0),
        "one": X * (np.arange(n) == 0)[:, None],
        "long": X * 1e100,
        "short": X * 1e-160,
        "normal": X,
    }[kind]
    if rng.random() < 0.5:
        return X, np.where(X[:, 0] > 0, 1, -1)  # separable
    return X, rng.choice([-1, 1], size=n)


@pytest.mark.slow
@pytest.mark.parametrize("logistic", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_every_fit_by_released_moments_succeeds(logistic, seed):
    """Settings, each with several data sets: no error, no warning, finite models."""
    rng = np.random.default_rng([seed, logistic])
    for _ in range(SETTINGS):
        n, d, parameters = setting(rng)
        kind = str(rng.choice(["zero", "equal", "one", "long", "short", "normal"]))
        X, y = records(rng, kind, n, d, parameters["data_norm"])
        model = DPLogisticRegressionCV(classes=[-1, 1], random_state=0, **parameters)
        if not logistic:
            bound = 10.0 ** rng.integers(-45, 45)
            model = DPRidgeCV(target_range=(-bound, bound), random_state=0, **parameters)
            y = bound * y
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", message="(The noise|data_norm|delta)")  # public
            model.fit(X, y)
        assert np.isfinite(model.coef_).all() and np.isfinite(model.intercept_).all(), parameters
        low, high = model.privacy_.plan["alpha_bounds"]
        assert (low <= model.alpha_path_).all() and (model.alpha_path_ <= high).all()


@pytest.mark.slow
@pytest.mark.parametrize("folds", [None, 4])
@pytest.mark.parametrize("kind", ["zero", "equal", "normal"])
def test_large_budgets_and_tiny_bounds(kind, folds):
    """Few records, huge epsilon, weak penalties: matrices are singular to the last bit."""
    X, y = records(np.random.default_rng(0), kind, 16, 4, 1.0)
    for epsilon, delta in ((1e6, 1e-6), (1e12, 0.0)):
        model = DPLogisticRegressionCV(
            epsilon,
            delta,
            classes=[-1, 1],
            cv=folds,
            data_norm=1.0,
            alpha_bounds=(1e-90, 1e-80),
            random_state=0,
        )
        model.fit(X, y)
        assert np.isfinite(model.coef_).all()

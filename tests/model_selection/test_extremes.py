"""Fits of tuned models with extreme budgets, bounds and records: every one of them succeeds."""

from __future__ import annotations

import numpy as np
import pytest

from skdp.model_selection import DPLogisticRegressionCV


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
@pytest.mark.parametrize("folds", [None, 4])
@pytest.mark.parametrize("kind", ["zero", "equal", "normal"])
def test_large_budgets_and_tiny_bounds(kind, folds):
    """Few records, huge epsilon, weak penalties: matrices are singular to the last bit."""
    X, y = records(np.random.default_rng(0), kind, 16, 4, 1.0)
    for epsilon, delta in ((1e6, 1e-6), (1e12, 0.0)):
        model = DPLogisticRegressionCV(
            epsilon, delta, classes=[-1, 1], cv=folds, data_norm=1.0, alpha_bounds=(1e-90, 1e-80),
            random_state=0,
        )  # fmt: skip
        model.fit(X, y)
        assert np.isfinite(model.coef_).all()

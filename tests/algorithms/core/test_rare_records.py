"""Directions that few records have: noise in them makes no model worse than a constant."""

import numpy as np

from skdp.linear_model import DPLogisticRegression, DPRidge
from skdp.robust import DPMaxGroupLossClassifier, DPMaxGroupLossRegressor


def records(n, share, seed):
    """A rare category of the given share, one-hot; its log odds and means are lower."""
    rng = np.random.default_rng(seed)
    g, Z = (rng.random(n) < share).astype(float), rng.uniform(-1.0, 1.0, (n, 2))
    X = np.column_stack([Z, g, 1.0 - g])
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = (2.2 - 1.5 * g + 1.5 * Z[:, 0] + rng.logistic(size=n) > 0.0).astype(int)
    targets = 0.4 - 0.3 * g + 0.3 * Z[:, 0] + 0.1 * rng.normal(size=n)
    return X, y, np.clip(targets, -1.0, 1.0), g > 0.0


def test_rare_records_do_better_than_by_a_constant():
    """Log loss 1.4 and squared error 0.2 with all of the noise, by a constant 0.80 and 0.126."""
    losses, errors = [], []
    for seed in (0, 1):
        X, y, targets, rare = records(16_000, 0.005, seed)
        model = DPLogisticRegression(data_norm=1.0, classes=[0, 1], random_state=seed).fit(X, y)
        assert abs(model.coef_).max() < 6.0
        losses.append(-model.predict_log_proba(X[rare])[np.arange(rare.sum()), y[rare]].mean())
        ridge = DPRidge(data_norm=1.0, target_range=(-1, 1), random_state=seed).fit(X, targets)
        errors.append(float(((ridge.predict(X) - targets)[rare] ** 2).mean()))
    assert np.mean(losses) < 0.8
    assert np.mean(errors) < 0.05


def test_groups_among_the_features_do_not_hurt_the_worst_group():
    """n = 16,000 with two groups of 1 %: a largest loss of 5 and more with all of the noise."""
    rng = np.random.default_rng(0)
    groups, Z = rng.choice(3, 16_000, p=[0.98, 0.01, 0.01]), rng.uniform(-1, 1, (16_000, 2))
    X = np.hstack([Z, np.eye(3)[groups]])
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = (2.2 - 1.5 * (groups > 0) + 1.5 * Z[:, 0] + rng.logistic(size=16_000) > 0).astype(int)
    model = DPMaxGroupLossClassifier(
        10.0, data_norm=1.0, classes=[0, 1], group_names=[0, 1, 2], random_state=0
    ).fit(X, y, groups=groups)
    assert max(model.group_losses(X, y, groups).values()) < 0.75
    targets = np.clip(0.4 - 0.3 * (groups > 0) + 0.3 * Z[:, 0], -1.0, 1.0)
    ridge = DPMaxGroupLossRegressor(
        data_norm=1.0, target_range=(-1, 1), group_names=[0, 1, 2], random_state=0
    ).fit(X, targets, groups=groups)
    assert max(ridge.group_losses(X, targets, groups).values()) < 0.02  # half of the square

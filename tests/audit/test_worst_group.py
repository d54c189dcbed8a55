"""Audit of the descent for the worst group: a record changes features, label and group."""

import numpy as np
import pytest
from plain_noise import scale_noise

from skdp.audit import audit_estimator
from skdp.robust import DPMaxGroupLossClassifier


def data_set(row, label, group):
    """Sixty equal rows of two groups, and a record of its own; a third group may have it alone."""
    X, y, groups = np.full((60, 1), 0.3), np.arange(60) % 2, np.arange(60) // 30
    X[-1], y[-1], groups[-1] = row, label, group
    return X, y, {"groups": groups}


def released(model):
    """Coefficients, and the weights of the groups, which are public after a fit."""
    weights = model.privacy_.plan["group_weights"]
    return np.concatenate([model.coef_.ravel(), model.intercept_, weights])


@pytest.mark.audit
def test_a_record_with_its_group_is_hidden_and_less_noise_is_found(monkeypatch):
    """False-alarm rate 1e-3, by the confidence; less noise is found by the estimate."""
    model = DPMaxGroupLossClassifier(
        2.0, delta=1e-5, data_norm=1.0, classes=[0, 1], group_names=[0, 1, 2]
    )
    pair = data_set(1.0, 1, 2), data_set(-1.0, 0, 0)
    options = {"n_runs": 40, "output": released, "random_state": 0}
    result = audit_estimator(model, *pair, **options)
    assert (result.claimed_epsilon, result.delta) == (2.0, 1e-5)
    assert result.gaussian_lower_bound < 2.0
    scale_noise(monkeypatch, 0.05)
    assert audit_estimator(model, *pair, **options).epsilon_estimate > 4.0

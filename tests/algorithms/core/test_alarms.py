"""What a plan and a report say of noise: warnings before a fit and after it."""

import math
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import brentq
from scipy.special import expit
from sklearn.metrics import log_loss, r2_score, roc_auc_score

from skdp.algorithms.core.fit import plan_core
from skdp.linear_model import DPLogisticRegression, DPRidge
from skdp.privacy.budget import PrivacyBudget
from skdp.problems import (
    Design,
    EmpiricalRisk,
    HalfSquaredLoss,
    LogisticLoss,
    Objective,
    SoftmaxLoss,
)
from skdp.tabular import DPTabularClassifier


@pytest.mark.parametrize(
    ("loss", "n", "d", "epsilon", "is_large"),
    [
        (LogisticLoss(), 500, 30, 0.1, True),
        (LogisticLoss(), 500, 30, 1.0, False),
        (SoftmaxLoss(3), 500, 30, 0.1, True),
        (HalfSquaredLoss(1.0), 1300, 8, 0.1, False),
        (HalfSquaredLoss(1.0), 700, 8, 0.1, True),
        (LogisticLoss(), 4000, 65_536, 1.0, False),  # hashed words vary in few directions
        (LogisticLoss(), 400, 65_536, 1.0, True),
    ],
)
def test_a_warning_before_the_fit_by_public_numbers(loss, n, d, epsilon, is_large):
    objective = Objective(EmpiricalRisk(loss), Design(1.005, d + 1, n, intercept=0.1))
    assert bool(plan_core(objective, PrivacyBudget(epsilon, 1e-6)).alarms()) == is_large


@pytest.mark.parametrize("n", [300, 1200])
def test_tables_of_few_records_warn_before_the_fit_where_a_constant_is_as_good(n):
    rng, columns = np.random.default_rng(0), {f"x{j}": list("abcde") for j in range(6)}
    frame = pd.DataFrame({name: rng.choice(each, n + 3000) for name, each in columns.items()})
    odds = 0.8 * sum((frame[name] == "a").to_numpy() - 0.2 for name in columns) - 1.0
    y, lost = (rng.random(len(odds)) < expit(odds)).astype(int), []
    constant = log_loss(y[n:], np.full(3000, y[:n].mean()))
    for seed in range(2):
        model = DPTabularClassifier(columns=columns, classes=[0, 1], random_state=seed)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(frame[:n], y[:n])
        assert any("hardly better" in str(each.message) for each in caught) == (n == 300)
        lost.append(log_loss(y[n:], model.predict_proba(frame[n:])[:, 1]) - constant)
    assert (np.mean(lost) > -0.01) == (n == 300)


@pytest.mark.parametrize(
    ("n", "d", "epsilon", "share", "is_said"),
    [
        (4000, 20, 0.05, 0.02, True),  # log loss above that of a constant, 0.098
        (16_000, 20, 1.0, 0.05, False),  # 0.140 and 0.199
        (4000, 4, 0.1, 0.4, False),
        (2000, 30, 0.2, None, True),  # of numbers: R2 about 0
        (16_000, 20, 1.0, None, False),
    ],
)
def test_it_is_told_that_a_constant_is_as_good(n, d, epsilon, share, is_said):
    """The model predicts worse than a constant where it is told, and better where it is not."""
    rng = np.random.default_rng(0)
    Z = rng.uniform(-1.0, 1.0, (n + 5000, d))
    signal, X = Z @ np.full(d, math.sqrt(3.0 / d)), Z / math.sqrt(d)
    if share is None:
        y = 0.1 * signal + 0.2 * rng.normal(size=len(signal))
        model = DPRidge(epsilon, data_norm=1.0, target_range=(-1.0, 1.0), random_state=0)
    else:
        odds = 2.0 * signal
        odds += brentq(lambda shift: expit(odds + shift).mean() - share, -20.0, 20.0)
        y = (rng.random(len(odds)) < expit(odds)).astype(int)
        model = DPLogisticRegression(epsilon, data_norm=1.0, classes=[0, 1], random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X[:n], y[:n])
    assert sum("hardly better" in str(each.message) for each in caught) == is_said
    if share is None:
        lost = 0.05 - r2_score(y[n:], model.predict(X[n:]))
    else:
        chances = expit(odds[n:])
        constant = log_loss(y[n:], np.full(5000, y[:n].mean()))
        lost = log_loss(y[n:], model.predict_proba(X[n:])[:, 1]) - constant
        assert roc_auc_score(y[n:], chances) > 0.8  # there is something to be learnt
    assert (lost > 0.0) == is_said

"""Audits of whole estimators: neighbouring records, many fits, what the attributes give away.

One record of 20 differs in its target, all others are 0. The attacker looks at a fitted estimator
and says which of the two data sets it has seen: the first if the coefficient of the only
feature is positive. That event is fixed beforehand. If the claim holds,
``P(event) <= e^epsilon P'(event) + delta`` for both orders of the data sets; the two
Clopper-Pearson bounds of a comparison are wrong with probability 1e-4 together, so that a true
claim is refused with probability 1e-4 per case (seeds are fixed: always or never). With half of
the noise in every release (less where noted) the same attack refutes the same claim.

Epsilon = 0.1 and delta = 0.5 are no useful budget. They make the attack strong: nearly all of what
a Gaussian release gives away shows in few fits.
"""

import numpy as np
import pytest
from plain_noise import scale_noise

from skdp.algorithms.tuning import alpha_search
from skdp.audit import epsilon_lower_bound
from skdp.model_selection import DPLogisticRegressionCV, DPRidgeCV

EPSILON, DELTA = 0.1, 0.5
PINNED = (100.0, 101.0)
#: estimator, parameters, fits per data set, part of the noise at which the attack succeeds
CASES = {
    "ridge": (DPRidgeCV, {"alpha_bounds": PINNED}, 300, 0.5),
    "ridge, free alpha": (DPRidgeCV, {}, 300, 0.5),
    "ridge, folds": (DPRidgeCV, {"alpha_bounds": PINNED, "cv": 2}, 300, 0.3),
    "ridge, public": (DPRidgeCV, {"alpha_bounds": PINNED, "method": "public"}, 300, 0.5),
    "logistic": (DPLogisticRegressionCV, {"alpha_bounds": PINNED}, 120, 0.35),
    "logistic, free alpha": (DPLogisticRegressionCV, {}, 100, 0.3),
    "logistic, folds": (DPLogisticRegressionCV, {"alpha_bounds": PINNED, "cv": 2}, 100, 0.25),
    "logistic, public": (
        DPLogisticRegressionCV,
        {"alpha_bounds": PINNED, "method": "public"},
        300,
        0.5,
    ),
}


def records(estimator, first):
    """20 records; the one in the middle of the last fold differs."""
    X = np.zeros((20, 1))
    X[10] = 1.0
    if estimator is DPRidgeCV:
        y = np.zeros(20)
        y[10] = 1.0 if first else -1.0
    else:  # labels of rows that are 0 say nothing without an intercept
        y = np.arange(20) % 2
        y[10] = 1 if first else 0
    return X, y


def hits(estimator, parameters, first, fits):
    X, y = records(estimator, first)
    if estimator is DPLogisticRegressionCV:
        parameters = {**parameters, "classes": [0, 1]}
    found = 0
    for seed in range(fits):
        model = estimator(
            EPSILON, DELTA, fit_intercept=False, random_state=2 * seed + first, **parameters
        ).fit(X, y)
        found += float(np.ravel(model.coef_)[0]) > 0
    return found


@pytest.mark.audit
@pytest.mark.parametrize("case", list(CASES))
def test_whole_estimator_is_private(case, monkeypatch):
    estimator, parameters, fits, part = CASES[case]
    # candidates are compared after the releases: fewer of them save time and nothing else
    monkeypatch.setattr(alpha_search, "_GRID", 5)
    lower = {}
    for scale in (1.0, part):
        with monkeypatch.context() as patch:
            scale_noise(patch, scale)
            p, q = (hits(estimator, parameters, first, fits) for first in (True, False))
        lower[scale] = epsilon_lower_bound(p, q, fits, DELTA, 1.0 - 1e-4)
    assert lower[1.0] <= EPSILON
    assert lower[part] > EPSILON

"""Runs of the tuning on released second moments, and exact moments to compare with."""

import dataclasses
import math

import numpy as np
import scipy.sparse as sp
from plain_noise import PlainNoise
from tuning_runs import tune as tune_by

from skdp.algorithms import Run
from skdp.algorithms.tuning import SufficientStatisticsPlan, plan_private_moments
from skdp.privacy.budget import PrivacyBudget
from skdp.problems import Design, HalfSquaredLoss, PenaltyGroups, Records

#: No noise to speak of.
HUGE = PrivacyBudget(1e20, 0.0)
GAUSSIAN, PURE = PrivacyBudget(1.0, 1e-6), PrivacyBudget(1.0, 0.0)


class Recorder(PlainNoise):
    """Seeded noise that counts the numbers it was asked for; or none at all."""

    def __init__(self, seed=0, silent=False):
        super().__init__(np.random.default_rng(seed).bytes)
        self.sizes, self.silent = [], silent

    def standard_normal(self, size):
        self.sizes.append(size)
        return super().standard_normal(size) * (not self.silent)


def tune_by_sufficient_statistics(records, target_bound, penalties, budget, **options):
    loss = HalfSquaredLoss(target_bound)
    return tune_by(SufficientStatisticsPlan, records, loss, penalties, budget, **options)


def records(n=60, d=3, seed=0, target_bound=1.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) / math.sqrt(d)
    y = X @ np.linspace(1.0, -0.5, d) + 0.2 * rng.normal(size=n)
    return X, np.clip(target_bound * y, -target_bound, target_bound)


def one_alpha(p, low=1e-6, high=10.0):
    return PenaltyGroups((0,) * p, (1.0,) * p, low, high)


def plan_of(rows, target_bound=1.0, budget=GAUSSIAN, n_records=None, coef_norm=1.0):
    design = dataclasses.replace(Design.of(rows), n_records=n_records or rows.n_records)
    return plan_private_moments(budget, design, target_bound=target_bound, coef_norm=coef_norm)


def exact_moments(rows, targets, weight=1.0):
    """Mean of ``u u'`` for ``u = (x, weight t)``, without the package's blocks."""
    X = rows.materialise()
    U = np.column_stack([X.toarray() if sp.issparse(X) else X, weight * targets])
    return U.T @ U / len(U)


def tune(X, y, budget=GAUSSIAN, *, bound=1.0, penalties=None, intercept=0.0, **kwargs):
    rows = Records(X, 1.0, intercept)
    penalties = one_alpha(rows.width) if penalties is None else penalties
    kwargs = {"coef_norm": 1.0, "run": Run(noise=Recorder()), **kwargs}
    return tune_by_sufficient_statistics(rows.with_targets(y), bound, penalties, budget, **kwargs)

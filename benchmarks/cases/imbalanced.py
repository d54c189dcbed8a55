"""Log loss of DPLogisticRegressionCV on rare positives, by budget, up to the limit of no noise.

Margins of rare classes with large coefficients are far from normal. The public number of gradients
(`skdp.algorithms.tuning.newton.round_shares`) is held against two gradients, on the same
seeds, and against the optimum without privacy at the weakest penalty allowed. Test records; rows of
norm at most 1; no data set that is given takes part.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score

from skdp.algorithms import Run
from skdp.algorithms.tuning import NewtonPlan, TuningObjective
from skdp.mechanisms import NoiseSource
from skdp.privacy import PrivacyBudget
from skdp.problems import LogisticLoss, PenaltyGroups, Records

KINDS = ("isotropic", "decay", "heavy", "binary", "skewed")
#: n, d, share of positives, standard deviation of the log odds.
SIZES = ((2_000, 5, 0.05, 3.0), (9_000, 20, 0.023, 3.0), (30_000, 50, 0.01, 6.0))
EPSILONS = (0.3, 1.0, 3.0, 100.0, 1e4, 1e6)
DELTA, INTERCEPT, LOW, HIGH = 1e-6, 0.3, 1e-6, 1e6
#: Budget shares of two gradients.
TWO = (0.6, 0.2, 0.2)


def family(
    kind: str, n: int, d: int, rate: float, strength: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of norm at most 1 and labels of a logistic model of the rows as they were."""
    rng = np.random.default_rng([seed, n, d])
    X = rng.normal(size=(n, d))
    if kind == "decay":
        X /= np.arange(1, d + 1)
    elif kind == "heavy":
        X *= np.abs(rng.standard_t(2.5, size=(n, 1)))
    elif kind == "binary":
        X = (rng.random((n, d)) < rng.uniform(0.02, 0.4, d)).astype(float)
    elif kind == "skewed":
        X = rng.exponential(size=(n, d))
    slope = rng.normal(size=d) / (X.std(axis=0) if kind == "binary" else 1.0)
    odds = X @ slope
    odds *= strength / odds.std()
    low, high = -odds.max() - 50.0, 50.0 - odds.min()
    for _ in range(80):
        shift = 0.5 * (low + high)
        low, high = (shift, high) if expit(odds + shift).mean() < rate else (low, shift)
    y = (rng.random(n) < expit(odds + low)).astype(int)
    norms = np.linalg.norm(X, axis=1)
    return X / np.maximum(norms, 1.5 * np.median(norms))[:, None], y


def run(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    quick = options.quick
    kinds, sizes = (KINDS[:1], SIZES[:1]) if quick else (KINDS, SIZES)
    seeds, epsilons = (2, EPSILONS[1:2]) if quick else (options.seeds, EPSILONS)
    for kind, (n, d, rate, strength) in product(kinds, sizes):
        data = [family(kind, n + 20_000, d, rate, strength, seed) for seed in range(seeds)]
        for epsilon in epsilons:
            yield (
                {"kind": kind, "n": n, "d": d, "positives": rate, "strength": strength}
                | {"epsilon": epsilon, "delta": DELTA, "seeds": seeds}
                | compare(data, n, epsilon)
            )


def compare(data: list[tuple[np.ndarray, np.ndarray]], n: int, epsilon: float) -> dict[str, Any]:
    """Means over data sets, and the paired difference to two gradients."""
    found: dict[str, list[float]] = {"optimum": [], "two": [], "default": [], "auc": []}
    rounds = 0
    for seed, (X, y) in enumerate(data):
        A = np.column_stack([X, np.full(len(X), INTERCEPT)])
        exact = LogisticRegression(
            C=1.0 / (n * LOW), fit_intercept=False, solver="newton-cholesky", max_iter=1000
        ).fit(A[:n], y[:n])
        found["optimum"].append(log_loss(y[n:], expit(A[n:] @ exact.coef_[0])))
        rows, targets = Records(X[:n], 1.0, INTERCEPT), y[:n].astype(float)
        relative = (*(1.0,) * X.shape[1], INTERCEPT**2)
        penalties = PenaltyGroups((0,) * len(relative), relative, LOW, HIGH)
        for name, shares in (("two", TWO), ("default", None)):
            noise = NoiseSource(np.random.default_rng(seed).bytes)
            records = rows.with_targets(targets)
            plan = NewtonPlan(
                objective=TuningObjective.of(records, LogisticLoss(), penalties),
                budget=PrivacyBudget(epsilon, DELTA),
                shares=shares,
            )
            model = plan.run(records, Run(noise=noise))
            found[name].append(log_loss(y[n:], expit(A[n:] @ model.point)))
        found["auc"].append(roc_auc_score(y[n:], A[n:] @ model.point))
        rounds = len(model.plan.releases) - 1
    change = np.subtract(found["default"], found["two"])
    excess = np.divide(found["default"], found["optimum"]) - 1.0
    root = math.sqrt(max(1, len(data) - 1))
    return {
        "gradients": rounds, "optimum": np.mean(found["optimum"]),
        "two_gradients": np.mean(found["two"]), "default": np.mean(found["default"]),
        "roc_auc": np.mean(found["auc"]), "default_minus_two": change.mean(),
        "standard_error": change.std() / root, "excess_over_optimum": excess.mean(),
        "excess_standard_error": excess.std() / root,
    }  # fmt: skip


SHOWN = ["kind", "n", "d", "epsilon", "gradients", "optimum", "two_gradients", "default"]
SHOWN += ["default_minus_two", "standard_error", "excess_over_optimum"]

"""Accuracy under attack: `DPAdversarialClassifier` and the default `DPLogisticRegression`.

Every feature of a test record is moved by the radius in the worst way. "simulated": one feature
that the attack cannot reverse, and nineteen weak ones. "digits": scikit-learn's digits 4 and 9,
about 250 training records with 64 pixels.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize

from benchmarks import tables
from skdp import DPAdversarialClassifier, DPLogisticRegression

EPSILONS = (0.3, 1.0, 3.0, 10.0, 30.0)
RADII = {"simulated": 0.08, "digits": 0.04}
SCORES = ("plain, clean", "plain, attacked", "robust, clean", "robust, attacked")
SHOWN = ["data", "n", "d", "radius", "epsilon", *SCORES]


def run(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for name, radius in RADII.items():
        for epsilon in EPSILONS[-1:] if options.quick else EPSILONS:
            seeds = range(2 if options.quick else options.seeds)
            found = pd.DataFrame([scores(name, epsilon, radius, seed) for seed in seeds])
            row = {"data": name, "radius": radius, "epsilon": epsilon, **found.mean().to_dict()}
            yield row | {f"{score}, error": tables.standard_error(found[score]) for score in SCORES}


def scores(name: str, epsilon: float, radius: float, seed: int) -> dict[str, float]:
    """Test accuracies of one split."""
    X, X_test, y, y_test = simulated(seed) if name == "simulated" else digits(seed)
    found: dict[str, float] = {"n": len(X), "d": X.shape[1]}
    given: dict[str, Any] = {
        "epsilon": epsilon, "data_norm": 1.0, "classes": [0, 1], "random_state": seed
    }  # fmt: skip
    robust = DPAdversarialClassifier(attack_norm=np.inf, attack_radius=radius, **given)
    for way, model in (("plain", DPLogisticRegression(**given)), ("robust", robust)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of noise that is large
            model.fit(X, y)
        rows = X_test / np.maximum(1.0, np.linalg.norm(X_test, axis=1))[:, None]
        margins = (2 * y_test - 1) * (rows @ model.coef_[0] + model.intercept_[0])
        found[f"{way}, clean"] = float(np.mean(margins > 0.0))
        found[f"{way}, attacked"] = float(np.mean(margins > radius * np.abs(model.coef_).sum()))
    return found


def simulated(seed: int) -> list[np.ndarray]:
    """One strong feature that is wrong for one record in twenty, and many weak ones."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, 8000)
    sign = 2 * y - 1
    X = 0.15 * rng.standard_normal((len(y), 20)) + 0.06 * sign[:, None]
    X[:, 0] = sign * rng.choice([0.35, -0.35], len(y), p=[0.95, 0.05])
    return list(train_test_split(X, y, test_size=0.5, random_state=seed))


def digits(seed: int) -> list[np.ndarray]:
    """Pixels from their range 0 to 16 to [-1, 1], then rows of norm one."""
    X, y = load_digits(return_X_y=True)
    chosen = np.isin(y, (4, 9))
    X, y = normalize((X[chosen] - 8) / 8), (y[chosen] == 9).astype(int)
    return list(train_test_split(X, y, test_size=0.3, random_state=seed))


def page(table: pd.DataFrame) -> str:
    """Return the table of docs/benchmarks/attacks.md."""
    rows = []
    for name, part in table.groupby("data", sort=False):
        n, d, radius = part[["n", "d", "radius"]].iloc[0]
        head = f"{name} (n = {n:.0f}, d = {d:.0f}), radius {radius:g}: "
        for score in SCORES:
            rows.append((head + score, *(f"{value:.3f}" for value in part[score])))
            head = ""
    return "\n".join(tables.markdown(("epsilon", *(f"{e:g}" for e in EPSILONS)), rows))


MARK = "attacks"

"""Worst group with a solver: weighted stages beside the saddle problem and the default.

Section 7.5 of the measurements that the stages were planned by: Adult (``--adult PATH``) and made
tables of 20,000 records, 16 features and groups that

- ``hard``: differ in curvature and intercept, and the one of 3 % contradicts the others;
- ``conflict``: follow other features (a minority of 15 %);
- ``alike``: do not differ.

``plain`` is prepared output perturbation, which does not know the groups.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import groups, tables
from benchmarks.cases.worst_group import adult, labels, split
from benchmarks.groups import Data
from skdp.linear_model import DPLogisticRegression
from skdp.robust import DPMaxGroupLossClassifier

DELTA, EPSILONS, NORM = 1e-5, (0.3, 1.0, 3.0), 2.5
SHARES = {
    "hard": (0.6, 0.25, 0.12, 0.03),
    "conflict": (0.85, 0.15),
    "alike": (0.6, 0.25, 0.12, 0.03),
}
METHODS: dict[str, dict[str, Any]] = {
    "default": {},
    "stages": {"solver": "lbfgs"},
    "saddle": {"method": "phased"},
}
SCORES = ("worst_log_loss", "worst_accuracy", "log_loss")


def run(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    quick, n = options.quick, 1_000 if options.quick else 20_000
    makers = {kind: partial(made, kind, n) for kind in SHARES}
    if options.adult is not None and not quick:
        makers["Adult"] = partial(split, adult(options.adult))
    seeds = 1 if quick else min(options.seeds, 4)
    for name, make in makers.items():
        for epsilon in EPSILONS[:1] if quick else EPSILONS:
            found: dict[str, list[dict[str, Any]]] = {}
            for seed in range(seeds):
                data = make(seed)
                norm = NORM if name in SHARES else 1.0
                for method, scores in measured(data, epsilon, seed, norm).items():
                    found.setdefault(method, []).append(scores)
            yield from rows_of(name, epsilon, found)


def made(kind: str, n: int, seed: int, d: int = 16, test: int = 20_000) -> Data:
    rng, shares = np.random.default_rng([seed, 7]), SHARES[kind]
    X = rng.standard_normal((n + test, d)) / np.sqrt(np.arange(1, d + 1))
    codes = rng.choice(len(shares), size=len(X), p=shares)
    if kind == "hard":
        X *= np.array([1.0, 1.5, 0.6, 1.0])[codes, None]
        X[:, :2] += np.array([[0.3, 0.0], [-0.3, 0.2], [0.0, -0.4], [0.5, 0.5]])[codes]
        common, own = rng.standard_normal(d), rng.standard_normal((4, d))
        common /= np.linalg.norm(common)
        own -= np.outer(own @ common, common)
        own /= np.linalg.norm(own, axis=1, keepdims=True)
        angles = np.array([0.0, 0.5, 1.0, 2.2])[:, None]
        weights = np.array([6.0, 3.0, 8.0, 6.0])[:, None]
        weights = weights * (np.cos(angles) * common + np.sin(angles) * own)
        margins = np.einsum("ij,ij->i", X, weights[codes]) + np.array([0.0, 1.0, -1.0, 0.7])[codes]
    elif kind == "conflict":
        margins = np.where(codes == 1, 4.2 * X[:, 1], 3.0 * X[:, 0] - 1.4 * X[:, 1])
    else:
        direction = rng.standard_normal(d)
        margins = 3.0 * X @ (direction / np.linalg.norm(direction))
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True) / NORM, 1.0)
    records = X, labels(margins, rng), np.array(list("abcd"))[codes]
    return groups.divided(kind, records, n, dict(zip("abcd", shares, strict=False)))


def measured(data: Data, epsilon: float, seed: int, norm: float) -> dict[str, dict[str, Any]]:
    """Return the scores of all methods."""
    shared = {"epsilon": epsilon, "delta": DELTA, "data_norm": norm, "classes": [0, 1]}
    shared |= {"random_state": seed}
    models: dict[str, Any] = {
        name: DPMaxGroupLossClassifier(**shared, group_names=data.names, **given).fit(
            data.X, data.y, groups=data.groups
        )
        for name, given in METHODS.items()
    }
    models["plain"] = DPLogisticRegression(**shared, method="output").fit(data.X, data.y)
    return {name: data.scores(m.decision_function(data.X_test)) for name, m in models.items()}


def rows_of(
    name: str, epsilon: float, found: dict[str, list[dict[str, Any]]]
) -> Iterator[dict[str, Any]]:
    for method, scores in found.items():
        table = pd.DataFrame(scores)
        yield {
            **{"data": name, "epsilon": epsilon, "method": method, "seeds": len(table)},
            **{score: float(table[score].mean()) for score in SCORES},
            "error": tables.standard_error(table[SCORES[0]]),
        }


MARK = "worst_group_solvers"
SHOWN = ["data", "epsilon", "method", *SCORES, "error"]


def page(table: pd.DataFrame) -> str:
    """Return worst log loss, worst accuracy and mean log loss of every method."""
    lines = []
    for (data, epsilon), part in table.groupby(["data", "epsilon"], sort=False):
        rows = part.set_index("method")
        cells = [" / ".join(f"{rows.loc[m, s]:.3f}" for s in SCORES) for m in rows.index]
        lines.append([data, f"{epsilon:g}", *cells, f"{rows['error'].max():.3f}"])
    head = ["data", "epsilon", *table["method"].unique(), "largest error"]
    return "\n".join(tables.markdown(head, lines))

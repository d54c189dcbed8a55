"""DPSearchCV against a candidate drawn at random, and against the best one, at the same budget.

Candidates differ in method and penalty, as in the tuning tables. "random" fits each with the whole
budget, on all training records, and averages; "best" is the one of them with the best mean test
score of a table, chosen on the test records.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid, train_test_split

from benchmarks import data, tables
from skdp import DPLogisticRegression, DPRidge, DPSearchCV
from skdp.methods import OutputPerturbation
from skdp.privacy.selection import DrawsName

EPSILONS = (0.3, 1.0, 3.0, 10.0)
PENALTIES = [1e-4, 1e-2, 1.0]
GRID = [
    {"method": ["gradient"]},
    {"method": ["statistics"]},
    {"method": [OutputPerturbation(alpha=alpha) for alpha in PENALTIES]},
]
LAWS: tuple[DrawsName, ...] = ("poisson", "geometric")
SHOWN = ["data", "epsilon", "search", "geometric", "random", "best", "behind"]


def run(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for dataset in data.load(options.adult, options.california, options.quick):
        if len(dataset.classes or ()) > 2:  # one of the methods is for two
            continue
        for epsilon in EPSILONS[:1] if options.quick else EPSILONS:
            yield cell(dataset, epsilon, 2 if options.quick else options.seeds)


def cell(dataset: data.Dataset, epsilon: float, seeds: int) -> dict[str, Any]:
    """Mean test scores (accuracy or R2) of one table."""
    found = [one_split(dataset, epsilon, seed) for seed in range(seeds)]
    table = pd.DataFrame(found)
    candidates = table.filter(like="candidate")
    random = candidates.mean(axis=1)
    return {
        "data": dataset.name,
        "epsilon": epsilon,
        "search": table[LAWS[0]].mean(),
        "geometric": table[LAWS[1]].mean(),
        "random": random.mean(),
        "best": candidates.mean().max(),
        # two standard errors below a random candidate
        "behind": bool(
            (gap := table[LAWS[0]] - random).mean() + 2.0 * tables.standard_error(gap) < 0.0
        ),
    }


def one_split(dataset: data.Dataset, epsilon: float, seed: int) -> dict[str, float]:
    parts = train_test_split(dataset.X, dataset.y, test_size=0.25, random_state=seed)
    X, X_test, y, y_test = parts
    given = {"epsilon": epsilon, "data_norm": 1.0, "random_state": seed}
    model: Any = DPRidge(target_range=dataset.target_range, **given)
    if dataset.is_classification:
        model = DPLogisticRegression(classes=list(dataset.classes or ()), **given)
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of noise that is large
        for number, each in enumerate(ParameterGrid(GRID)):
            one = clone(model).set_params(**each)
            found[f"candidate {number}"] = one.fit(X, y).score(X_test, y_test)
        for law in LAWS:
            search = DPSearchCV(model, GRID, epsilon=epsilon, draws=law, random_state=seed)
            found[law] = search.fit(X, y).score(X_test, y_test)
    return {name: float(np.clip(score, -1.0, 1.0)) for name, score in found.items()}


def page(table: pd.DataFrame) -> str:
    """Return the table of docs/benchmarks/search.md."""
    rows = [
        (row.data, f"{row.epsilon:g}", *(f"{row[name]:.3f}" for name in SHOWN[2:6]))
        for _, row in table.iterrows()
    ]
    head = ("table", "epsilon", "search", "geometric draws", "random candidate", "best candidate")
    behind = f"Two standard errors below a random candidate in {int(table.behind.sum())} of "
    return "\n".join([*tables.markdown(head, rows), "", f"{behind}{len(table)} cells."])


MARK = "search table"

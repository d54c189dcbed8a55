"""Accuracy and R2 with and without `Normalizer`: public ranges, rows bounded by `data_norm`.

Rows of several lengths: as they are after the ranges (each model shortens them to `data_norm`, in
the fit and in predictions) and of unit length. Half of the records are for training, split anew
for each seed.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.model_selection import train_test_split

from benchmarks.data import Dataset, breast_cancer, read_adult, read_california
from skdp.linear_model import DPLogisticRegression, DPRidge
from skdp.model_selection import DPLogisticRegressionCV, DPRidgeCV

EPSILONS = (0.3, 1.0, 3.0, 10.0)


def run(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    warnings.simplefilter("ignore", UserWarning)
    readers = [(breast_cancer, ())]
    if options.adult is not None:
        readers.append((read_adult, (options.adult,)))
    if options.california is not None:
        readers.append((read_california, (options.california,)))
    for read, path in readers:
        unit, ranged = read(*path), read(*path, unit_rows=False)
        typical = _typical_norm(ranged)
        ways = (
            ("normalised", unit, 1.0),
            ("in ranges, data_norm 1", ranged, 1.0),
            (f"in ranges, data_norm {typical:g}", ranged, typical),
        )
        for epsilon in EPSILONS[1:2] if options.quick else EPSILONS:
            for estimator, (rows, data, bound) in product(_estimators(unit, epsilon), ways):
                model = clone(estimator).set_params(data_norm=bound)
                seeds = range(1 if options.quick else options.seeds)
                scores = [_score(clone(model), data, seed) for seed in seeds]
                yield {
                    "data": data.name, "model": type(estimator).__name__, "epsilon": epsilon,
                    "rows": rows, "score": float(np.mean(scores)), "worst": float(np.min(scores)),
                    "standard_error": float(np.std(scores) / np.sqrt(len(scores))),
                }  # fmt: skip


def summarise(table: pd.DataFrame) -> str:
    return str(table.pivot_table("score", ["data", "model", "rows"], "epsilon").round(3))


def _typical_norm(data: Dataset) -> float:
    """Norm of a row with numbers uniform in [-1, 1] and one of each kind of category."""
    numbers, categories = {"adult": (5, 7), "california": (8, 1), "breast_cancer": (30, 0)}[
        data.name
    ]
    return round(float(np.sqrt(numbers / 3 + categories)), 1)


def _estimators(data: Dataset, epsilon: float) -> list[Any]:
    if data.is_classification:
        kinds, public = (DPLogisticRegression, DPLogisticRegressionCV), {"classes": data.classes}
    else:
        kinds, public = (DPRidge, DPRidgeCV), {"target_range": data.target_range}
    return [kind(epsilon, **public) for kind in kinds]


def _score(estimator: Any, data: Dataset, seed: int) -> float:
    X, X_test, y, y_test = train_test_split(data.X, data.y, test_size=0.5, random_state=seed)
    estimator.set_params(random_state=seed)
    return float(estimator.fit(X, y).score(X_test, y_test))

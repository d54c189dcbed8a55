"""The predicted noise of coefficients and scores, against fits on the same records.

Ratios of the predicted standard deviation (root mean square over the fits) to the seen one, medians
over the coefficients and over the scores of twenty rows. Made tables: normal rows off the origin.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from skdp.linear_model import DPLogisticRegression, DPRidge

#: Records, features, decay of the spectrum, norm of rows.
TABLES = ((1000, 30, 0.0, 1.2), (4000, 10, 0.0, 0.6))
N_FITS = 1000


def models() -> dict[str, tuple[Any, int]]:
    """Models by name, and the number of classes; 0 for numbers."""
    ridge: dict[str, Any] = {"data_norm": 1.0, "target_range": (-2.0, 2.0)}
    binary: dict[str, Any] = {"data_norm": 1.0, "classes": [0, 1]}
    return {
        "ridge": (DPRidge(**ridge), 0),
        "ridge, output": (DPRidge(method="output", **ridge), 0),
        "ridge, statistics": (DPRidge(method="statistics", **ridge), 0),
        "logistic": (DPLogisticRegression(**binary), 2),
        "logistic, output": (DPLogisticRegression(method="output", **binary), 2),
        "logistic, objective": (DPLogisticRegression(method="objective", **binary), 2),
        "logistic, statistics": (DPLogisticRegression(method="statistics", **binary), 2),
        "three classes": (DPLogisticRegression(data_norm=1.0, classes=[0, 1, 2]), 3),
    }


def table(n_classes: int, n: int, d: int, decay: float, norm: float) -> tuple[Any, Any]:
    """Draw rows, and targets of a linear model."""
    rng = np.random.default_rng(0)
    sizes = (1.0 + np.arange(d)) ** -decay
    Z = rng.normal(size=(n, d))
    X = Z * sizes * norm / np.linalg.norm(sizes) + 0.3 / np.sqrt(d)
    scores = Z @ rng.normal(size=(d, max(n_classes, 1))) / np.sqrt(d)
    if not n_classes:
        return X, 0.3 * scores[:, 0] + 0.3 * rng.normal(size=n) + 0.2
    if n_classes == 2:
        return X, (1.5 * scores[:, 0] - 0.4 + rng.logistic(size=n) > 0).astype(int)
    return X, (1.5 * scores + rng.gumbel(size=scores.shape)).argmax(axis=1)


def run(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    warnings.simplefilter("ignore", UserWarning)
    n_fits = 5 if options.quick else N_FITS
    for n, d, decay, norm in TABLES[:1] if options.quick else TABLES:
        for name, (model, n_classes) in models().items():
            X, y = table(n_classes, n, d, decay, norm)
            rows, seen, predicted = X[:20], [], []
            for seed in range(n_fits):
                fitted = model.set_params(random_state=seed).fit(X, y)
                is_class = bool(n_classes)
                way = fitted.decision_function if is_class else fitted.predict
                scores, deviations = way(rows, return_std=True)
                seen.append(np.concatenate([np.ravel(fitted.coef_), np.ravel(scores)]))
                both = fitted.coef_noise_.ravel(), deviations.ravel()
                predicted.append(np.concatenate(both))
            std = np.maximum(np.std(seen, axis=0), 1e-12)
            ratio = np.sqrt(np.mean(np.square(predicted), axis=0)) / std
            size = fitted.coef_.size
            yield {
                "model": name, "n": n, "d": d, "decay": decay, "norm": norm, "fits": n_fits,
                "coef": float(np.median(ratio[:size])), "scores": float(np.median(ratio[size:])),
                "least": float(ratio.min()), "largest": float(ratio.max()),
                "seen": float(std[:size].mean()),
            }  # fmt: skip


def summarise(table: pd.DataFrame) -> str:
    return str(table.pivot_table("coef", "model", ["n", "d", "norm"], sort=False).round(2))

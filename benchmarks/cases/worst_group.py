"""Worst group: its test log loss and accuracy against n, its share and epsilon; fit times.

Made data (d = 6, rows of norm 1) with a planted conflict: labels of a minority follow other
features than those of the rest. With ``--adult PATH`` UCI Adult, too: six groups by sex and race,
the shares of the adult population of the United States, in whole per cents, in place of the
records'.

- ``DPLogisticRegression`` does not know the groups;
- ``DPMaxGroupLossClassifier`` in its four modes, at its defaults, with `max_group_weight` 20 in
  place of 10 where the minority is 5 %;
- ``DP-SGDA, tuned`` on the objective of "proportions": the steps and learning rates of a grid that
  have the best log loss of the worst group on the *test* records, without privacy, at every point;
- ``not private``: the objective solved (max group loss), scikit-learn's LogisticRegression.

All budgets are (epsilon, 1e-6) under replace-one neighbours; in mode "public" groups are not
protected. ``spread`` is the standard deviation over draws of the noise. The part ``time`` fits in
turn in one process: DPMaxGroupLossClassifier against scikit-learn's LogisticRegression at its
defaults.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

from benchmarks import data as prepared
from skdp.algorithms import Run, dp_sgda
from skdp.linear_model import DPLogisticRegression
from skdp.mechanisms import NoiseSource
from skdp.privacy import PrivacyBudget
from skdp.problems import (
    Design,
    EmpiricalRisk,
    GroupWeights,
    LogisticLoss,
    MaxGroupLossProblem,
    Records,
)
from skdp.robust import DPMaxGroupLossClassifier
from skdp.solvers import solve_certified

DELTA = 1e-6
MODES = ("proportions", "public", "histogram", "floored")
PLAIN, SGDA = "DPLogisticRegression", "DP-SGDA, tuned"
MINIMAX, MEAN = "not private, max group loss", "not private, LogisticRegression"
METHODS = (PLAIN, *(f"max group loss, {mode}" for mode in MODES), SGDA, MINIMAX, MEAN)
COLORS = dict(zip(METHODS, ("C3", "C0", "C2", "C9", "C4", "C1", "0.2", "0.6"), strict=True))
MARKERS = dict(zip(METHODS, "Xos^vP--", strict=True))
MAX_WEIGHT = 10.0
INTERCEPT = 0.1
NO_REGULARISER = 1e-9
#: Records in a batch of DP-SGDA: this many, or this share of n if it is more.
BATCH, SHARE = 3_000, 0.01
#: Per cent of the adult population by sex and race, to whole numbers: public.
ADULT_SHARES = {
    "Female Black": 6,
    "Female White": 42,
    "Female other": 3,
    "Male Black": 5,
    "Male White": 41,
    "Male other": 3,
}


@dataclass(frozen=True)
class Grid:
    """The sizes of a run."""

    points: tuple[tuple[int, float], ...]  # n and share of the minority
    epsilons: tuple[float, ...]
    seeds: int
    test: int
    steps: tuple[int, ...]
    learning_rates: tuple[float, ...]
    times: tuple[int, ...]
    rounds: int

    def seeds_at(self, n: int) -> int:
        return self.seeds if n <= 100_000 else max(2, self.seeds // 2)

    def epsilons_at(self, n: int) -> tuple[float, ...]:
        return self.epsilons if n < 1_000_000 else (1.0,)


FULL = Grid(
    (
        *((n, share) for n in (10_000, 100_000) for share in (0.05, 0.1, 0.2)),
        *((n, 0.1) for n in (30_000, 300_000, 1_000_000)),
    ),
    (0.3, 1.0, 3.0),
    5,
    100_000,
    (30, 100, 300),
    (3.0, 10.0, 30.0),
    (100_000, 1_000_000),
    3,
)
QUICK = Grid(((1_000, 0.1),), (1.0,), 2, 1_000, (10,), (3.0,), (2_000,), 1)


@dataclass(frozen=True)
class Data:
    """Records for training and for testing, and what is public about the groups."""

    name: str
    X: np.ndarray
    y: np.ndarray
    groups: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    groups_test: np.ndarray
    shares: dict[str, float]

    @property
    def names(self) -> list[str]:
        return sorted(self.shares)

    def scores(self, margins: np.ndarray) -> dict[str, Any]:
        """On the test records: of the worst group, and of all."""
        right = (margins > 0) == (self.y_test == 1)
        loss = np.logaddexp(0.0, -np.where(self.y_test == 1, margins, -margins))
        members = {name: self.groups_test == name for name in self.names}
        losses = {name: float(loss[rows].mean()) for name, rows in members.items()}
        return {
            "worst_accuracy": min(float(right[rows].mean()) for rows in members.values()),
            "worst_log_loss": max(losses.values()),
            "worst_group": max(losses, key=losses.__getitem__),
            "accuracy": float(right.mean()),
            "log_loss": float(loss.mean()),
        }


def run(options: argparse.Namespace) -> list[dict[str, Any]]:
    grid = QUICK if options.quick else FULL
    rows = []
    for n, share in grid.points:
        rows += points_of(conflict(n, share, grid.test), share, grid)
    if options.adult is not None and not options.quick:
        rows += points_of(adult(options.adult), math.nan, grid)
    return rows + [row for n in grid.times for row in times_of(n, grid.rounds)]


def conflict(n: int, share: float, test: int, d: int = 6) -> Data:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n + test, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    few = rng.random(n + test) < share
    margins = np.where(few, 12.0 * X[:, 1], 12.0 * X[:, 0] - 4.0 * X[:, 1])
    y = (rng.random(n + test) < 1.0 / (1.0 + np.exp(-margins))).astype(int)
    groups = np.where(few, "minority", "majority")
    shares = {"minority": share, "majority": 1.0 - share}
    parts = X[:n], y[:n], groups[:n], X[n:], y[n:], groups[n:]
    return Data("conflict", *parts, shares)


def adult(path: str) -> Data:
    """The split of the column `split` if there is one, else a random third for testing."""
    loaded, table = prepared.read_adult(path), pd.read_csv(path)
    race = table["race"].where(table["race"].isin(["White", "Black"]), "other").astype(str)
    groups = (table["sex"].astype(str) + " " + race).to_numpy(dtype=str)
    if "split" in table:
        test = (table["split"] == "test").to_numpy()
    else:
        test = np.random.default_rng(0).random(len(table)) < 1 / 3
    parts = [part[rows] for rows in (~test, test) for part in (loaded.X, loaded.y, groups)]
    return Data("adult", *parts, {name: share / 100 for name, share in ADULT_SHARES.items()})


# --------------------------------------------------------------------------------- methods


def points_of(data: Data, share: float, grid: Grid) -> Iterator[dict[str, Any]]:
    columns = {"part": "scores", "data": data.name, "n": len(data.X), "d": data.X.shape[1]}
    columns |= {"minority": share}
    fixed = {
        MINIMAX: data.scores(margins_of(data, minimax(data))),
        MEAN: data.scores(
            LogisticRegression(C=100.0, max_iter=500)
            .fit(data.X, data.y)
            .decision_function(data.X_test)
        ),
    }
    for epsilon in grid.epsilons_at(len(data.X)):
        start = time.perf_counter()
        rows = columns | {"epsilon": epsilon, "delta": DELTA}
        for method, scores in fixed.items():
            yield rows | summary(method, [scores], [math.nan], "")
        for method, fit in estimators(data, epsilon).items():
            scores, seconds = [], []
            for seed in range(grid.seeds_at(len(data.X))):
                begin = time.perf_counter()
                model = fit(seed)
                seconds.append(time.perf_counter() - begin)
                scores.append(data.scores(model.decision_function(data.X_test)))
            yield rows | summary(method, scores, seconds, model.privacy_.method)
        yield rows | tuned_sgda(data, epsilon, grid)
        seconds = time.perf_counter() - start
        print(
            f"worst_group: {data.name}, n = {len(data.X)}, minority {share:g}, epsilon = "
            f"{epsilon:g}: {seconds:.0f} s",
            file=sys.stderr,
            flush=True,
        )


def summary(
    method: str, scores: list[dict[str, Any]], seconds: list[float], setting: str
) -> dict[str, Any]:
    table = pd.DataFrame(scores)
    row: dict[str, Any] = {"method": method, "seeds": len(scores), "setting": setting}
    for name in ("worst_log_loss", "worst_accuracy", "log_loss", "accuracy"):
        row[name] = float(table[name].mean())
        row[f"{name}_spread"] = float(table[name].std(ddof=1)) if len(table) > 1 else 0.0
    row["worst_group"] = table["worst_group"].mode().iloc[0]
    return row | {"seconds": statistics.median(seconds)}


def estimators(data: Data, epsilon: float) -> dict[str, Callable[[int], Any]]:
    shared = {"epsilon": epsilon, "delta": DELTA, "classes": [0, 1]}

    def plain(seed: int) -> Any:
        return DPLogisticRegression(**shared, random_state=seed).fit(data.X, data.y)

    def grouped(mode: str) -> Callable[[int], Any]:
        options = {"group_proportions": data.shares} if mode == "proportions" else {}
        return lambda seed: DPMaxGroupLossClassifier(
            **shared,
            group_mode=mode,
            group_names=data.names,
            max_group_weight=MAX_WEIGHT if data.name == "adult" else max_weight(data),
            random_state=seed,
            **options,
        ).fit(data.X, data.y, groups=data.groups)

    return {PLAIN: plain} | {f"max group loss, {mode}": grouped(mode) for mode in MODES}


def max_weight(data: Data) -> float:
    """Room for the smallest group's public share, at least the default."""
    return max(MAX_WEIGHT, 1.0 / min(data.shares.values()))


def problem_of(data: Data, alpha: float) -> MaxGroupLossProblem:
    """The objective of mode "proportions"."""
    loss, rows = LogisticLoss(), Records(data.X, 1.0, INTERCEPT)
    bound = MAX_WEIGHT if data.name == "adult" else max_weight(data)
    weights = GroupWeights.of_proportions([data.shares[name] for name in data.names], bound)
    codes = np.searchsorted(data.names, data.groups)
    radius = EmpiricalRisk(loss).reference_norm(Design.of(rows))
    return MaxGroupLossProblem(
        rows.with_targets(data.y.astype(float), codes), loss, weights, radius, alpha, alpha
    )


def margins_of(data: Data, point: np.ndarray) -> np.ndarray:
    return data.X_test @ point[:-1] + INTERCEPT * point[-1]


def minimax(data: Data) -> np.ndarray:
    problem = problem_of(data, 1e-4)
    accuracy = 1e-3 * problem.constants.localisation
    return solve_certified(problem, accuracy, rng=np.random.default_rng(0)).x


def tuned_sgda(data: Data, epsilon: float, grid: Grid) -> dict[str, Any]:
    problem, n = problem_of(data, NO_REGULARISER), len(data.X)
    share = min(1.0, max(BATCH / n, SHARE))

    def scores(steps: int, rate: float, ratio: float, seeds: range) -> tuple[list[Any], float]:
        found = []
        begin = time.perf_counter()
        for seed in seeds:
            result = dp_sgda(
                problem,
                PrivacyBudget(epsilon, DELTA),
                sampling_rate=share,
                n_steps=steps,
                learning_rate_x=rate,
                learning_rate_y=rate * ratio,
                run=Run(noise=NoiseSource(np.random.default_rng([seed, 99]).bytes)),
            )
            found.append(data.scores(margins_of(data, result.x)))
        return found, (time.perf_counter() - begin) / len(seeds)

    tried = list(product(grid.steps, grid.learning_rates, (0.03, 0.3)))
    best = min(
        tried,
        key=lambda each: np.mean(
            [run["worst_log_loss"] for run in scores(*each, range(1000, 1002))[0]]
        ),
    )
    found, seconds = scores(*best, range(grid.seeds_at(n)))
    steps, rate, ratio = best
    setting = (
        f"best of {len(tried)} on the test records, not private: sampling_rate={share:g} "
        f"steps={steps} learning_rates={rate:g},{rate * ratio:g}"
    )
    return summary(SGDA, found, [seconds], setting)


# ----------------------------------------------------------------------------------- times


def times_of(n: int, rounds: int, d: int = 20) -> Iterator[dict[str, Any]]:
    made = conflict(n, 0.1, 1, d)
    rivals: dict[str, Callable[[], Any]] = {
        "LogisticRegression": lambda: LogisticRegression().fit(made.X, made.y)
    }
    for mode in MODES:
        fit = estimators(made, 1.0)[f"max group loss, {mode}"]
        rivals[f"max group loss, {mode}"] = lambda fit=fit: fit(0)
    seconds: dict[str, list[float]] = {name: [] for name in rivals}
    for _ in range(rounds):
        for name, work in rivals.items():
            begin = time.perf_counter()
            work()
            seconds[name].append(time.perf_counter() - begin)
    base = seconds["LogisticRegression"]
    for name, times in seconds.items():
        ratios = [own / other for own, other in zip(times, base, strict=True)]
        yield {
            "part": "time",
            "data": "conflict",
            "n": n,
            "d": d,
            "minority": 0.1,
            "epsilon": 1.0,
            "method": name,
            "seconds": statistics.median(times),
            "ratio": statistics.median(ratios),
            "ratio_min": min(ratios),
            "ratio_max": max(ratios),
            "rounds": rounds,
        }


# ---------------------------------------------------------------------------------- results

_KEYS = ["data", "n", "minority", "epsilon"]


def summarise(table: pd.DataFrame) -> str:
    show = {"float_format": "{:.3f}".format, "na_rep": "-"}
    scores = table[table["part"] == "scores"].assign(minority=table["minority"].fillna(0.0))
    short = {
        name: name.replace("max group loss, ", "")
        .replace("not private", "np")
        .replace("DPLogisticRegression", "DP-LR")
        .replace("LogisticRegression", "LR")
        .replace("DP-SGDA, tuned", "DP-SGDA")
        for name in METHODS
    }
    short[MINIMAX] = "np, max group"
    lines = []
    for value, title in (
        ("worst_log_loss", "log loss of the worst group (lower is better)"),
        ("worst_accuracy", "accuracy of the worst group"),
        ("accuracy", "accuracy over all test records"),
    ):
        wide = scores.pivot_table(index=_KEYS, columns="method", values=value, sort=False)
        wide = wide[[name for name in METHODS if name in wide]].rename(columns=short)
        lines += [f"{title}, means over draws of the noise", wide.to_string(**show), ""]
        if value == "worst_log_loss":
            spread = scores.pivot_table(
                index=_KEYS, columns="method", values=f"{value}_spread", sort=False
            )
            own = [name for name in METHODS[:6] if name in spread]
            lines += [
                "  its standard deviation over draws",
                spread[own].rename(columns=short).to_string(**show),
                "",
            ]
    wide = scores.pivot_table(index=_KEYS, columns="method", values="worst_log_loss", sort=False)
    for mode in MODES:
        own = wide[f"max group loss, {mode}"]
        for rival in (PLAIN, SGDA):
            for name in wide.index.get_level_values("data").unique():
                there = wide.index.get_level_values("data") == name
                won = int((own[there] < wide[rival][there]).sum())
                lines.append(
                    f"{mode}: smaller worst log loss than {rival} at {won} of {there.sum()} points "
                    f"({name})"
                )
    adults = scores[scores["data"] == "adult"]
    if len(adults):
        named = adults.pivot_table(
            index="method", columns="epsilon", values="worst_group", aggfunc="first", sort=False
        )
        lines += ["", "worst group on Adult", named.to_string()]
    times = table[table["part"] == "time"]
    shown = times[["n", "d", "method", "seconds", "ratio", "ratio_min", "ratio_max"]]
    lines += [
        "",
        "fit times over scikit-learn's LogisticRegression",
        shown.to_string(index=False, **show),
    ]
    return "\n".join(lines)


def plot(table: pd.DataFrame, path: Path) -> None:
    from matplotlib import pyplot as plt

    scores = table[(table["part"] == "scores") & (table["data"] == "conflict")]
    epsilons, shares = sorted(scores["epsilon"].unique()), sorted(scores["minority"].unique())
    adults = table[(table["part"] == "scores") & (table["data"] == "adult")]
    n_rows = len(shares) + bool(len(adults))
    figure, axes = plt.subplots(n_rows, 3, figsize=(14.5, 3.3 * n_rows + 0.9), squeeze=False)
    for share, line in zip(shares, axes, strict=False):
        for panel in line[len(epsilons) :]:
            panel.set_visible(False)
        for epsilon, panel in zip(epsilons, line, strict=False):
            part = scores[(scores["epsilon"] == epsilon) & (scores["minority"] == share)]
            draw(panel, part, "n", f"minority {share:.0%}, epsilon = {epsilon:g}")
    if len(adults):
        draw(axes[-1, 0], adults, "epsilon", "UCI Adult")
        for value, panel in zip(("worst_accuracy", "log_loss"), axes[-1, 1:], strict=True):
            draw(panel, adults, "epsilon", "UCI Adult", value)
    handles: dict[str, Any] = {}
    for panel in axes.ravel():
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.tight_layout(rect=(0, 0, 1, 1.0 - 0.8 / figure.get_figheight()))
    figure.legend(handles.values(), handles.keys(), loc="upper center", ncols=4, frameon=False)
    figure.savefig(path, dpi=90)
    plt.close(figure)


def draw(panel: Any, part: pd.DataFrame, axis: str, title: str, value: str = "") -> None:
    value = value or "worst_log_loss"
    for name, curve in part.groupby("method", sort=False):
        curve = curve.sort_values(axis)
        public = name in (MINIMAX, MEAN)
        panel.errorbar(
            curve[axis],
            curve[value],
            yerr=None if public else curve[f"{value}_spread"],
            color=COLORS[name],
            marker="none" if public else MARKERS[name],
            linestyle="--" if public else "-",
            ms=4.5,
            linewidth=1.2,
            label=name,
        )
    panel.set(xscale="log", xlabel=axis)
    if axis == "epsilon":
        values = sorted(part[axis].unique())
        panel.set_xticks(values, [f"{value:g}" for value in values])
        panel.set_xticks([], minor=True)
    if value != "worst_accuracy":
        panel.set_yscale("log")
        panel.yaxis.set_major_formatter("{x:g}")
        panel.yaxis.set_minor_formatter("{x:g}")
        panel.tick_params(axis="y", which="both", labelsize=8)
    panel.set_title(title, fontsize=10)
    panel.set_ylabel(value.replace("_", " ").replace("worst", "worst group's"))

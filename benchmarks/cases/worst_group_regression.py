"""Worst group, regression: its mean squared error on test records, by three private models.

Half of the mean squared error of the group where it is largest, in units of the half-width of the
range of the targets. Data sets, of new records or another split for every seed:

- ``conflict``: n = 20,000, d = 8; targets of a tenth of the records follow other features;
- ``levels``: n = 20,000, d = 8; targets of two groups of 17 and 3 % have other means;
- ``coast and inland`` with ``--california PATH``: California housing by the distance to the ocean;
- ``income`` with ``--california PATH``: its quarters by the published median income.

``plain`` is ``DPRidge``, ``gradient`` and ``phased`` are ``DPMaxGroupLossRegressor`` at its
defaults and with ``method="phased"``, ``no privacy`` minimises the largest loss of a group in the
training records. Budgets are (epsilon, 1e-6) under replace-one neighbours, sizes of groups private.
``--page docs/worst_group.md`` writes the table into the page.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import data as prepared
from skdp.linear_model import DPRidge
from skdp.problems import (
    Design,
    EmpiricalRisk,
    GroupWeights,
    HalfSquaredLoss,
    MaxGroupLossProblem,
    Records,
)
from skdp.robust import DPMaxGroupLossRegressor
from skdp.solvers import solve_certified

DELTA, NO_NOISE, INTERCEPT, ALPHA = 1e-6, 1e6, 0.1, 1e-4
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0, NO_NOISE)
PLAIN, OURS, PHASED, MINIMAX = "plain", "gradient", "phased", "no privacy"
PRIVATE = {
    PLAIN: "`DPRidge`",
    OURS: "`DPMaxGroupLossRegressor`",
    PHASED: 'the same, `method="phased"`',
}


@dataclass(frozen=True)
class Data:
    """Rows in the unit ball, targets in [-1, 1] and groups; the last records are for testing."""

    X: np.ndarray
    y: np.ndarray
    groups: np.ndarray
    n_train: int

    @property
    def training(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        part = slice(self.n_train)
        return self.X[part], self.y[part], self.groups[part]

    def worst_loss(self, predict: Callable[[np.ndarray], np.ndarray]) -> float:
        """Half of the mean squared error of the worst group on the test records."""
        part = slice(self.n_train, None)
        errors = 0.5 * (np.clip(predict(self.X[part]), -1.0, 1.0) - self.y[part]) ** 2
        groups = self.groups[part]
        return max(float(errors[groups == name].mean()) for name in np.unique(groups))


def run(options: argparse.Namespace) -> list[dict[str, Any]]:
    epsilons = (1.0, NO_NOISE) if options.quick else EPSILONS
    seeds = 2 if options.quick else min(options.seeds, 5)
    rows: list[dict[str, Any]] = []
    for name, make in makers(options).items():
        start = time.perf_counter()
        for seed in range(seeds):
            data = make(seed)
            columns = {"data": name, "n": data.n_train, "d": data.X.shape[1], "seed": seed}
            for epsilon in epsilons:
                for method, loss in losses(data, epsilon, seed).items():
                    rows.append({**columns, "epsilon": epsilon, "method": method, "loss": loss})
            loss = data.worst_loss(minimax(data))
            rows.append({**columns, "epsilon": math.inf, "method": MINIMAX, "loss": loss})
        print(
            f"worst_group_regression: {name}, {time.perf_counter() - start:.0f} s", file=sys.stderr
        )
    if options.page is not None:
        prepared.write_between(Path(options.page), "regression", page(pd.DataFrame(rows)))
    return rows


def makers(options: argparse.Namespace) -> dict[str, Callable[[int], Data]]:
    """The data sets of the table, by seed."""
    n = 2_000 if options.quick else 20_000
    made: dict[str, Callable[[int], Data]] = {
        "conflict": lambda k: conflict(n, k),
        "levels": lambda k: levels(n, k),
    }
    if options.california is not None and not options.quick:
        made["California, coast and inland"] = lambda k: california(options.california, k)
        made["California, by income"] = lambda k: california(options.california, k, True)
    return made


def conflict(n: int, seed: int, d: int = 8) -> Data:
    """A tenth of the records follows the second feature, the others the first one."""
    rng = np.random.default_rng([seed, 2])
    X = rng.standard_normal((2 * n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    few = rng.random(2 * n) < 0.1
    y = 1.2 * np.where(few, X[:, 1], X[:, 0]) + 0.2 * rng.standard_normal(2 * n)
    return Data(X, np.clip(y, -1.0, 1.0), np.where(few, "few", "many"), n)


def levels(n: int, seed: int, d: int = 8) -> Data:
    """Groups of 80, 17 and 3 % whose targets have means of -0.2, 0.3 and 0.6."""
    rng = np.random.default_rng([seed, 3])
    X = rng.standard_normal((2 * n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    codes = rng.choice(3, size=2 * n, p=(0.8, 0.17, 0.03))
    means = np.array([-0.2, 0.3, 0.6])[codes]
    y = means + 0.5 * X[:, 0] + 0.2 * rng.standard_normal(2 * n)
    return Data(X, np.clip(y, -1.0, 1.0), np.array(["a", "b", "c"])[codes], n)


def california(path: str, seed: int, by_income: bool = False) -> Data:
    """A random fifth is for testing."""
    loaded, table = prepared.read_california(path), pd.read_csv(path)
    groups = np.where(table["ocean_proximity"] == "INLAND", "inland", "coast")
    if by_income:  # thousands of dollars; limits that anyone could have declared
        limits = np.array([2.5, 3.5, 4.75])
        groups = np.array(list("abcd"))[np.searchsorted(limits, table["median_income"])]
    low, high = loaded.target_range
    y = np.clip(2.0 * (loaded.y - low) / (high - low) - 1.0, -1.0, 1.0)
    order = np.random.default_rng(seed).permutation(len(y))
    return Data(loaded.X[order], y[order], groups[order], len(y) - len(y) // 5)


def losses(data: Data, epsilon: float, seed: int) -> dict[str, float]:
    """Worst group's test losses of the private models."""
    shared: dict[str, Any] = {"epsilon": epsilon, "delta": DELTA, "data_norm": 1.0}
    shared |= {"target_range": (-1.0, 1.0), "random_state": seed}
    X, y, groups = data.training
    models = {PLAIN: DPRidge(**shared).fit(X, y)}
    for name, method in ((OURS, "auto"), (PHASED, "phased")):
        names = sorted(np.unique(data.groups).tolist())
        model = DPMaxGroupLossRegressor(**shared, method=method, group_names=names)
        models[name] = model.fit(X, y, groups=groups)
    return {name: data.worst_loss(model.predict) for name, model in models.items()}


def minimax(data: Data) -> Callable[[np.ndarray], np.ndarray]:
    """Minimise the largest loss of a group in the training records."""
    X, y, groups = data.training
    loss, rows = HalfSquaredLoss(1.0), Records(X, 1.0, INTERCEPT)
    _, codes = np.unique(groups, return_inverse=True)
    shares = np.bincount(codes) / len(codes)
    weights = GroupWeights.of_proportions(shares.tolist(), max(10.0, 1.0 / shares.min()))
    radius = 4.0 * EmpiricalRisk(loss).reference_norm(Design.of(rows))
    problem = MaxGroupLossProblem(rows.with_targets(y, codes), loss, weights, radius, ALPHA, ALPHA)
    accuracy = 1e-3 * problem.constants.localisation
    point = solve_certified(problem, accuracy, rng=np.random.default_rng(0)).x
    return lambda rows: rows @ point[:-1] + INTERCEPT * point[-1]


def page(table: pd.DataFrame) -> str:
    """Write the table of the documentation; the best of the private models is bold."""
    means = table.groupby(["data", "method", "epsilon"], sort=False)["loss"].mean()
    epsilons = sorted(epsilon for epsilon in table["epsilon"].unique() if epsilon < math.inf)
    heads = [*(f"{each:g}" for each in epsilons), MINIMAX]
    lines = ["| epsilon | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
    for name in table["data"].unique():
        best = {each: min(means[name, method, each] for method in PRIVATE) for each in epsilons}
        for method, title in PRIVATE.items():
            shown = [f"{means[name, method, each]:.3f}" for each in epsilons]
            shown = [
                f"**{cell}**" if cell == f"{best[each]:.3f}" else cell
                for cell, each in zip(shown, epsilons, strict=True)
            ]
            last = f"{means[name, MINIMAX, math.inf]:.3f}" if method == OURS else ""
            title = f"{name}: {title}" if method == PLAIN else title
            lines.append(f"| {title} | " + " | ".join([*shown, last]) + " |")
    spread = table.groupby(["data", "method", "epsilon"])["loss"].sem()
    at = spread.index.get_level_values("epsilon")
    small, rest = spread[at == epsilons[0]].max(), spread[at > epsilons[0]].max()
    lines.append(
        f"\nLargest standard error: {small:.3f} at epsilon {epsilons[0]:g}, {rest:.3f} else."
    )
    return "\n".join(lines)


def summarise(table: pd.DataFrame) -> str:
    return page(table)


def plot(table: pd.DataFrame, path: Path) -> None:
    from matplotlib import pyplot as plt

    names = table["data"].unique()
    figure, axes = plt.subplots(1, len(names), figsize=(3.8 * len(names), 3.6), squeeze=False)
    for panel, name in zip(axes[0], names, strict=True):
        part = table[table["data"] == name]
        for method in PRIVATE:
            rows = part[(part["method"] == method) & (part["epsilon"] < NO_NOISE)]
            cells = rows.groupby("epsilon")["loss"]
            panel.errorbar(
                cells.mean().index, cells.mean(), yerr=cells.sem(), marker="o", ms=4, label=method
            )
        best = part[part["method"] == MINIMAX]["loss"].mean()
        panel.axhline(best, color="gray", ls=":", label=MINIMAX)
        panel.set(xscale="log", xlabel="epsilon", title=name)
    axes[0, 0].set_ylabel("worst group's loss")
    axes[0, 0].legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path, dpi=90)
    plt.close(figure)

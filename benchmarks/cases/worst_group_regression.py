"""Worst group, regression: its mean squared error on test records, by three private models.

Half of the mean squared error of the group where it is largest, in units of the half-width of the
range of the targets. Data sets, of new records or another split for every seed:

- ``conflict``: n = 20,000, d = 8; targets of a tenth of the records follow other features;
- ``levels``: n = 20,000, d = 8; targets of two groups of 17 and 3 % have other means;
- ``coast and inland`` with ``--california PATH``: California housing by the distance to the ocean;
- ``income`` with ``--california PATH``: its quarters by the published median income.

``plain`` is ``DPRidge``, ``gradient`` and ``phased`` are ``DPMaxGroupLossRegressor`` at its
defaults and with ``method="phased"``, ``no privacy`` minimises the largest loss
of a group in the training records. Budgets are (epsilon, 1e-6) under replace-one neighbours, sizes
of groups private.
``--page docs/benchmarks/worst_group.md`` writes the table into the page.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import data as prepared
from benchmarks import figures, groups, tables
from benchmarks.groups import Data
from skdp.linear_model import DPRidge
from skdp.problems import HalfSquaredLoss
from skdp.robust import DPMaxGroupLossRegressor

MARK = "regression"
DELTA, NO_NOISE = 1e-6, 1e6
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0, NO_NOISE)
PLAIN, OURS, PHASED, MINIMAX = "plain", "gradient", "phased", "no privacy"
PRIVATE = {
    PLAIN: "`DPRidge`",
    OURS: "`DPMaxGroupLossRegressor`",
    PHASED: "the saddle problem in phases",
}


def run(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    epsilons = (1.0, NO_NOISE) if options.quick else EPSILONS
    for name, make in makers(options).items():
        for seed in range(2 if options.quick else min(options.seeds, 5)):
            data = make(seed)
            columns = {"data": name, "n": len(data.X), "d": data.X.shape[1], "seed": seed}
            for epsilon in epsilons:
                for method, loss in losses(data, epsilon, seed).items():
                    yield {**columns, "epsilon": epsilon, "method": method, "loss": loss}
            point = groups.minimax(groups.problem_of(data, HalfSquaredLoss(1.0), 4.0))
            loss = worst_loss(data, groups.predicted(point, data.X_test))
            yield {**columns, "epsilon": math.inf, "method": MINIMAX, "loss": loss}


def worst_loss(data: Data, predicted: np.ndarray) -> float:
    """Half of the mean squared error of the worst group on the test records."""
    errors = 0.5 * (np.clip(predicted, -1.0, 1.0) - data.y_test) ** 2
    return max(float(errors[rows].mean()) for rows in data.members.values())


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


def divided(
    X: np.ndarray, y: np.ndarray, members: np.ndarray, n: int, order: np.ndarray | None = None
) -> Data:
    """Targets clipped to [-1, 1]; the shares of the groups are those of the training records."""
    data = groups.divided("", (X, np.clip(y, -1.0, 1.0), members), n, {}, order)
    names, counts = np.unique(data.groups, return_counts=True)
    return replace(data, shares=dict(zip(names.tolist(), (counts / n).tolist(), strict=True)))


def conflict(n: int, seed: int, d: int = 8) -> Data:
    """A tenth of the records follows the second feature, the others the first one."""
    rng = np.random.default_rng([seed, 2])
    X = groups.unit_rows(rng, 2 * n, d)
    few = rng.random(2 * n) < 0.1
    y = 1.2 * np.where(few, X[:, 1], X[:, 0]) + 0.2 * rng.standard_normal(2 * n)
    return divided(X, y, np.where(few, "few", "many"), n)


def levels(n: int, seed: int, d: int = 8) -> Data:
    """Groups of 80, 17 and 3 % whose targets have means of -0.2, 0.3 and 0.6."""
    rng = np.random.default_rng([seed, 3])
    X = groups.unit_rows(rng, 2 * n, d)
    codes = rng.choice(3, size=2 * n, p=(0.8, 0.17, 0.03))
    means = np.array([-0.2, 0.3, 0.6])[codes]
    y = means + 0.5 * X[:, 0] + 0.2 * rng.standard_normal(2 * n)
    return divided(X, y, np.array(list("abc"))[codes], n)


def california(path: str, seed: int, by_income: bool = False) -> Data:
    """A random fifth is for testing."""
    loaded, table = prepared.read_california(path), pd.read_csv(path)
    members = np.where(table["ocean_proximity"] == "INLAND", "inland", "coast")
    if by_income:  # thousands of dollars; limits that anyone could have declared
        limits = np.array([2.5, 3.5, 4.75])
        members = np.array(list("abcd"))[np.searchsorted(limits, table["median_income"])]
    low, high = loaded.target_range
    y = 2.0 * (loaded.y - low) / (high - low) - 1.0
    order = np.random.default_rng(seed).permutation(len(y))
    return divided(loaded.X, y, members, len(y) - len(y) // 5, order)


def losses(data: Data, epsilon: float, seed: int) -> dict[str, float]:
    """Worst group's test losses of the private models."""
    shared: dict[str, Any] = {"epsilon": epsilon, "delta": DELTA, "data_norm": 1.0}
    shared |= {"target_range": (-1.0, 1.0), "random_state": seed}
    models = {PLAIN: DPRidge(**shared).fit(data.X, data.y)}
    for name, method in ((OURS, "auto"), (PHASED, "phased")):
        model = DPMaxGroupLossRegressor(**shared, method=method, group_names=data.names)
        models[name] = model.fit(data.X, data.y, groups=data.groups)
    return {name: worst_loss(data, model.predict(data.X_test)) for name, model in models.items()}


def page(table: pd.DataFrame) -> str:
    """Write the table of the documentation; the best of the private models is bold."""
    means = table.groupby(["data", "method", "epsilon"], sort=False)["loss"].mean()
    epsilons = sorted(epsilon for epsilon in table["epsilon"].unique() if epsilon < math.inf)
    rows = []
    for name in table["data"].unique():
        best = {each: min(means[name, method, each] for method in PRIVATE) for each in epsilons}
        for method, title in PRIVATE.items():
            cells = [(f"{means[name, method, each]:.3f}", f"{best[each]:.3f}") for each in epsilons]
            shown = [f"**{cell}**" if cell == least else cell for cell, least in cells]
            last = f"{means[name, MINIMAX, math.inf]:.3f}" if method == OURS else ""
            rows.append([f"{name}: {title}" if method == PLAIN else title, *shown, last])
    spread = table.groupby(["data", "method", "epsilon"])["loss"].sem()
    at = spread.index.get_level_values("epsilon")
    small, rest = spread[at == epsilons[0]].max(), spread[at > epsilons[0]].max()
    lines = tables.markdown(["epsilon", *(f"{each:g}" for each in epsilons), MINIMAX], rows)
    lines.append(
        f"\nLargest standard error: {small:.3f} at epsilon {epsilons[0]:g}, {rest:.3f} else."
    )
    return "\n".join(lines)


summarise = page


def plot(table: pd.DataFrame) -> Any:
    shown = table[table["epsilon"] != NO_NOISE]
    return figures.curves(shown, "epsilon", "loss", "data", "method", ylabel="worst group's loss")

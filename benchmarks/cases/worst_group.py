"""Worst group: its test log loss and accuracy by the default, a plain model and DP-SGDA.

Data sets, of new records or another split for every seed:

- ``conflict``: n = 100,000, d = 6; labels of a minority of 15 % follow other features;
- ``groups``: n = 8,000 and 80,000, d = 20; four groups of 70, 15, 10 and 5 % whose concepts are
  tilted against each other;
- ``rare groups``: the same with n = 80,000 and groups of 83, 15, 1 and 1 %;
- ``adult`` with ``--adult PATH``: six groups by sex and race, 80/20 splits.

Methods
-------
- ``plain``: ``DPLogisticRegression`` at its defaults, which does not know the groups;
- ``private sizes``, ``declared sizes``: ``DPMaxGroupLossClassifier`` at its defaults, the latter
  with ``group_proportions``;
- ``DP-SGDA, tuned``: `benchmarks/sgda.py` with declared proportions (benchmarks/README.md);
- ``no privacy``: the largest loss of a group in the training records minimised exactly.

All budgets are (epsilon, 1e-6) under replace-one neighbours. Differences are paired over the seeds;
``_error`` is a standard error.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import data as prepared
from benchmarks import tables
from benchmarks.sgda import dp_sgda
from skdp.linear_model import DPLogisticRegression
from skdp.problems import (
    Design,
    EmpiricalRisk,
    GroupWeights,
    LogisticLoss,
    MaxGroupLossProblem,
    Records,
)  # fmt: skip
from skdp.robust import DPMaxGroupLossClassifier
from skdp.solvers import solve_certified

DELTA = 1e-6
#: Of the minimax model and of DP-SGDA: value of the constant feature, and both penalties.
INTERCEPT, ALPHA = 0.1, 1e-4
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
#: At most; eight for the larger data sets.
SEEDS = {"groups, n = 8 000": 10}
#: In place of no privacy at all.
NO_NOISE = 1e6
PLAIN, OURS, DECLARED = "plain", "private sizes", "declared sizes"
SGDA, MINIMAX = "DP-SGDA, tuned", "no privacy"
SCORES = ("worst_log_loss", "worst_accuracy", "log_loss", "accuracy")
#: Proportions with two groups of 1 %.
RARE = (0.83, 0.15, 0.01, 0.01)
#: Steps of DP-SGDA with all records, and learning rates of the model and of the weights.
N_STEPS, RATES = 50, tuple(product((2.0, 5.0, 15.0), (0.1, 0.3)))
#: Shares of the adults that the survey of 1994 asked, to whole per cents: public.
SHARES = {
    "Female Black": 0.05, "Female White": 0.26, "Female other": 0.02, "Male Black": 0.05,
    "Male White": 0.59, "Male other": 0.03,
}  # fmt: skip


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

    @property
    def members(self) -> dict[str, np.ndarray]:
        """Test records of each group."""
        return {name: self.groups_test == name for name in self.names}

    def scores(self, margins: np.ndarray) -> dict[str, Any]:
        """On the test records with labels 0 and 1: of the worst group, and of all."""
        right = (margins > 0) == (self.y_test == 1)
        loss = np.logaddexp(0.0, -np.where(self.y_test == 1, margins, -margins))
        losses = {name: float(loss[rows].mean()) for name, rows in self.members.items()}
        return {
            "worst_accuracy": min(float(right[rows].mean()) for rows in self.members.values()),
            "worst_log_loss": max(losses.values()),
            "worst_group": max(losses, key=losses.__getitem__),
            "accuracy": float(right.mean()),
            "log_loss": float(loss.mean()),
        }


def divided(
    name: str,
    records: tuple[np.ndarray, np.ndarray, np.ndarray],
    n: int,
    shares: dict[str, float],
    order: np.ndarray | None = None,
) -> Data:
    """Rows, targets and groups, of which the first n, or those of `order`, are for training."""
    if order is not None:
        records = tuple(part[order] for part in records)  # type: ignore[assignment]
    return Data(name, *(part[:n] for part in records), *(part[n:] for part in records), shares)


def run(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    epsilons = (1.0,) if options.quick else EPSILONS
    for name, make in makers(options).items():
        seeds = 2 if options.quick else min(options.seeds, SEEDS.get(name, 8))
        yield from cells(name, make, seeds, epsilons)


def makers(options: argparse.Namespace) -> dict[str, Callable[[int], Data]]:
    """The data sets of the table, by seed."""
    made: dict[str, Callable[[int], Data]] = {
        "conflict": lambda k: conflict(1_000 if options.quick else 100_000, 0.15, 50_000, seed=k)
    }
    if not options.quick:
        made["groups, n = 8 000"] = lambda k: tilted(8_000, k)
        made["groups, n = 80 000"] = lambda k: tilted(80_000, k)
        made["rare groups"] = lambda k: tilted(80_000, k, test=100_000, shares=RARE)
        if options.adult is not None:
            whole = adult(options.adult)
            made["Adult"] = lambda k: split(whole, k)
    return made


def conflict(n: int, share: float, test: int, d: int = 6, seed: int = 0) -> Data:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n + test, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    few = rng.random(n + test) < share
    margins = np.where(few, 12.0 * X[:, 1], 12.0 * X[:, 0] - 4.0 * X[:, 1])
    records = X, labels(margins, rng), np.where(few, "minority", "majority")
    return divided("conflict", records, n, {"minority": share, "majority": 1.0 - share})


def labels(margins: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return (rng.random(len(margins)) < 1.0 / (1.0 + np.exp(-margins))).astype(int)


def tilted(
    n: int,
    seed: int,
    d: int = 20,
    test: int = 20_000,
    shares: tuple[float, ...] = (0.7, 0.15, 0.1, 0.05),
) -> Data:
    """Four groups; the weights of the last one are at 45 degrees to those of the first."""
    rng = np.random.default_rng([seed, 1])
    X = rng.standard_normal((n + test, d)) / np.sqrt(np.arange(1, d + 1))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    codes = rng.choice(4, size=n + test, p=shares)
    common = rng.standard_normal(d)
    common /= np.linalg.norm(common)
    own = rng.standard_normal((4, d))
    own -= np.outer(own @ common, common)
    own /= np.linalg.norm(own, axis=1, keepdims=True)
    weights = common + np.arange(4)[:, None] / 3.0 * own
    weights *= 10.0 / np.linalg.norm(weights, axis=1, keepdims=True)
    y = labels(np.einsum("ij,ij->i", X, weights[codes]), rng)
    records = X, y, np.array(list("abcd"))[codes]
    return divided("groups", records, n, dict(zip("abcd", shares, strict=True)))


def adult(path: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, labels, and sex with race."""
    loaded, table = prepared.read_adult(path), pd.read_csv(path)
    race = table["race"].where(table["race"].isin(["White", "Black"]), "other").astype(str)
    return loaded.X, loaded.y, (table["sex"].astype(str) + " " + race).to_numpy(dtype=str)


def split(records: tuple[np.ndarray, np.ndarray, np.ndarray], seed: int) -> Data:
    """Four fifths of Adult for training."""
    n = len(records[0])
    order, few = np.random.default_rng(seed).permutation(n), n // 5
    return divided("adult", records, n - few, SHARES, np.concatenate([order[few:], order[:few]]))


# --------------------------------------------------------------------------------- methods


def cells(
    name: str, make: Callable[[int], Data], seeds: int, epsilons: tuple[float, ...]
) -> Iterator[dict[str, Any]]:
    """All methods on all seeds: a row for each method and epsilon."""
    found: dict[tuple[str, float], list[dict[str, Any]]] = {}
    settings: dict[float, tuple[float, float]] = {}
    for seed in range(seeds):
        data = make(seed)
        columns = {"part": "scores", "data": name, "n": len(data.X), "d": data.X.shape[1]}
        for epsilon in (*epsilons, NO_NOISE):
            fits = estimators(data, epsilon, seed)
            for method in (OURS,) if epsilon == NO_NOISE else (PLAIN, OURS, DECLARED):
                scores = data.scores(fits[method]().decision_function(data.X_test))
                found.setdefault((method, epsilon), []).append(scores)
            if epsilon == NO_NOISE:
                point = minimax(problem_of(data))
                scores = data.scores(predicted(point, data.X_test))
                found.setdefault((MINIMAX, epsilon), []).append(scores)
                continue
            if epsilon not in settings:
                settings[epsilon] = min(
                    RATES, key=lambda rates: sgda(data, epsilon, 1000, rates)["worst_log_loss"]
                )
            scores = sgda(data, epsilon, seed, settings[epsilon])
            found.setdefault((SGDA, epsilon), []).append(scores)
    for (method, epsilon), scores in found.items():
        row = {**columns, "epsilon": epsilon, "delta": DELTA, "method": method, "seeds": seeds}
        table = pd.DataFrame(scores)
        for score in SCORES:
            row[score], row[f"{score}_error"] = mean_and_error(table[score])
        for rival in (PLAIN, SGDA, MINIMAX):
            others = found.get((rival, epsilon))
            if method in (OURS, DECLARED) and others is not None:
                other = pd.DataFrame(others)
                for score in SCORES[:2]:
                    key = f"{score}_minus_{rival}"
                    row[key], row[f"{key}_error"] = mean_and_error(table[score] - other[score])
        if method == SGDA:
            row["setting"] = f"learning rates {settings[epsilon][0]:g}, {settings[epsilon][1]:g}"
        yield row | {"worst_group": table["worst_group"].mode().iloc[0]}


def mean_and_error(values: pd.Series) -> tuple[float, float]:
    """Mean over seeds, and its standard error."""
    return float(values.mean()), tables.standard_error(values)


def estimators(data: Data, epsilon: float, seed: int) -> dict[str, Callable[[], Any]]:
    shared = {"epsilon": epsilon, "delta": DELTA, "data_norm": 1.0, "classes": [0, 1]}
    shared |= {"random_state": seed}

    def grouped(**options: Any) -> Any:
        model = DPMaxGroupLossClassifier(**shared, group_names=data.names, **options)
        return model.fit(data.X, data.y, groups=data.groups)

    return {
        PLAIN: lambda: DPLogisticRegression(**shared).fit(data.X, data.y),
        OURS: grouped,
        DECLARED: lambda: grouped(group_proportions=data.shares),
    }


def problem_of(data: Data) -> MaxGroupLossProblem:
    """The largest loss of a group, by the shares, in the ball of a good predictor."""
    rows, shares = Records(data.X, 1.0, INTERCEPT), [data.shares[name] for name in data.names]
    weights = GroupWeights.of_proportions(shares, max(10.0, 1.0 / min(shares)))
    codes = np.searchsorted(data.names, data.groups)
    loss = LogisticLoss()
    radius = EmpiricalRisk(loss).reference_norm(Design.of(rows))
    targets = data.y.astype(float)
    return MaxGroupLossProblem(
        rows.with_targets(targets, codes), loss, weights, radius, ALPHA, ALPHA
    )


def minimax(problem: MaxGroupLossProblem) -> np.ndarray:
    """Minimise the largest loss of a group in the training records."""
    accuracy = 1e-3 * problem.constants.localisation
    return solve_certified(problem, accuracy, rng=np.random.default_rng(0)).x


def predicted(point: np.ndarray, X: np.ndarray) -> np.ndarray:
    return X @ point[:-1] + INTERCEPT * point[-1]


def sgda(data: Data, epsilon: float, seed: int, rates: tuple[float, float]) -> dict[str, Any]:
    rng = np.random.default_rng([seed, 99])
    x = dp_sgda(problem_of(data), (epsilon, DELTA), rates, N_STEPS, rng)
    return data.scores(predicted(x, data.X_test))


# ---------------------------------------------------------------------------------- results

MARK = "worst_group"

_ROWS = {
    PLAIN: "`DPLogisticRegression`",
    OURS: "ours, sizes private",
    DECLARED: "ours, sizes declared",
    SGDA: "DP-SGDA, tuned without privacy",
}


def is_behind(row: pd.Series, rival: str) -> bool:
    """Whether either score is worse than a rival's by more than two standard errors."""
    keys = [f"{score}_minus_{rival}" for score in SCORES[:2]]
    differences = [(row.get(key, math.nan), row.get(f"{key}_error", math.nan)) for key in keys]
    return any(sign * d > 2.0 * e for sign, (d, e) in zip((1.0, -1.0), differences, strict=True))


def page(table: pd.DataFrame) -> str:
    """Write the tables of the documentation; a cell of ours that is behind is bold."""
    scores = table[table["part"] == "scores"]
    epsilons = sorted(scores.loc[scores["epsilon"] != NO_NOISE, "epsilon"].unique())
    parts = []
    for name, part in scores.groupby("data", sort=False):
        n, d, seeds = (int(part[key].iloc[0]) for key in ("n", "d", "seeds"))
        index, lines = part.set_index(["method", "epsilon"]), []
        for method, title in _ROWS.items():
            line = [title]
            for epsilon in epsilons:
                row = index.loc[(method, epsilon)]
                cell = f"{row['worst_log_loss']:.3f} / {row['worst_accuracy']:.3f}"
                ours = method in (OURS, DECLARED)
                worse = ours and (is_behind(row, PLAIN) or is_behind(row, SGDA))
                line.append(f"**{cell}**" if worse else cell)
            lines.append(line)
        for rival in (PLAIN, SGDA):
            key = f"worst_log_loss_minus_{rival}"
            line = [f"log loss, private - {rival.split(',')[0]}"]
            rows = (index.loc[(OURS, epsilon)] for epsilon in epsilons)
            line += [f"{row[key]:+.3f} ± {row[f'{key}_error']:.3f}" for row in rows]
            lines.append(line)
        parts.append(f"*{name}* (n = {n}, d = {d}, {seeds} seeds)\n")
        parts += tables.markdown(["epsilon", *(f"{each:g}" for each in epsilons)], lines)
        ours, best = (index.loc[(method, NO_NOISE)]["worst_log_loss"] for method in (OURS, MINIMAX))
        parts.append(
            f"\nAt epsilon = 1e6: {ours:.3f}; the exact minimiser without privacy: {best:.3f}.\n"
        )
    return "\n".join(parts)


summarise = page

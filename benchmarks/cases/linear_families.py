"""The default linear models against tuned DP-SGD on families of simulated tables.

On these families the constants of noisy gradient descent were chosen: the figures are no check of
them (that is ``linear_table``), they show where the method is weak. Each cell is the mean over a
few simulated tables. DP-SGD has the best of its settings for the cell and the score, which is not
private and flatters it, or the one that is best on the other half of the tables. Replace-one
neighbours, rows of unit norm. No data set that is given takes part.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit
from sklearn.datasets import make_classification

from benchmarks import figures, linear_peers, models
from benchmarks.data import Dataset
from benchmarks.linear_peers import Setting
from benchmarks.linear_protocol import DELTA, REPLACE_ONE, Split, score

CLASSIFICATION = (
    *("isotropic", "spiked", "factors", "clusters", "overlap", "informative"),
    *("one-hot", "pixels", "off-center"),
)
REGRESSION = ("isotropic", "spiked", "factors", "one-hot", "pixels", "off-center")
#: n and d.
SIZES = ((300, 10), (500, 30), (2_400, 15), (2_000, 60), (8_000, 100))
#: Share of the positives; standard deviation of the noise of numeric targets.
RATES, NOISES = (0.05, 0.15, 0.4), (0.5, 1.5)
EPSILONS, N_TEST = (0.1, 0.3, 1.0, 3.0), 3_000
#: Columns of the gains over the best setting and over that of the other half of the tables.
GAINS = ["gain", "gain_other_half"]
#: Steps, value of the intercept's feature, learning rate and clipping norm, with all records in
#: every step: what was best somewhere in ``linear_table``, and smaller learning rates for R2.
_STEPS = {
    "classification": (
        *((10, 0.1, 1, 0.1), (10, 0.1, 4, 0.1), (10, 0.1, 8, 0.1), (10, 0.1, 8, 0.25)),
        *((10, 0.1, 4, 0.25), (10, 0.4, 32, 1.0), (10, 0.4, 8, 0.25), (10, 0.4, 2, 0.25)),
        *((30, 0.1, 1, 0.1), (30, 0.1, 4, 0.25), (30, 0.4, 1, 0.25), (30, 0.4, 4, 0.25)),
        *((30, 0.1, 8, 0.25), (30, 0.4, 8, 0.5), (30, 0.4, 16, 1.0), (100, 0.1, 2, 0.1)),
        *((100, 0.1, 16, 0.1), (100, 0.4, 4, 0.25), (100, 0.4, 1, 0.25), (100, 0.1, 8, 0.25)),
        *((300, 0.1, 2, 0.1), (300, 0.1, 16, 0.5), (300, 0.4, 4, 1.0), (300, 0.1, 1, 0.1)),
    ),
    "regression": (
        *((10, 0.1, 0.1, 0.1), (10, 0.1, 0.2, 0.1), (10, 0.1, 0.5, 0.1), (10, 0.1, 1, 0.1)),
        *((10, 0.1, 4, 0.1), (10, 0.4, 4, 0.25), (10, 0.4, 16, 0.5), (30, 0.1, 0.2, 0.1)),
        *((30, 0.1, 1, 0.1), (30, 0.1, 4, 0.25), (30, 0.4, 4, 0.25), (30, 0.4, 8, 0.5)),
        *((100, 0.1, 2, 0.1), (100, 0.4, 4, 0.25), (300, 0.1, 2, 0.1), (300, 0.4, 8, 1.0)),
    ),
}
SETTINGS = {
    task: tuple(Setting(1.0, *rest) for rest in choices) for task, choices in _STEPS.items()
}


def run(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for cell in cells(options.quick):
        yield from compared(*cell, 2 if options.quick else 6, options.quick)


def cells(quick: bool) -> Iterator[tuple[str, str, int, int, float]]:
    """Yield task, family, n, d and the share of positives or the noise of targets."""
    tasks = (("classification", CLASSIFICATION, RATES), ("regression", REGRESSION, NOISES))
    for task, families, levels in tasks:
        for family in families[: 1 if quick else None]:
            for n, d in SIZES[: 1 if quick else None]:
                for level in levels[-1:] if quick else levels:
                    yield task, family, n, d, level


# --------------------------------------------------------------------------------- simulated tables


def made_rows(
    family: str, n: int, d: int, rate: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray | None]:
    """Rows of unit norm, and labels where the family has classes of its own."""
    labels = None
    if family in ("clusters", "overlap"):
        labels = (rng.random(n) < rate).astype(int)
        centers = rng.normal(size=(2, 3, d)) * (1.5 if family == "clusters" else 0.5)
        X = centers[labels, rng.integers(0, 3, n)] + rng.normal(size=(n, d))
    elif family == "informative":
        X, labels = make_classification(
            n, d, n_informative=5, weights=[1.0 - rate], random_state=int(rng.integers(2**31))
        )
    elif family == "pixels":
        labels = (rng.random(n) < rate).astype(int)
        centers = rng.uniform(size=(2, d)) ** 2
        X = centers[labels] * rng.gamma(2.0, 0.5, (n, 1)) + 0.4 * rng.normal(size=(n, d))
        X = np.clip(X, 0.0, 1.0)
    elif family == "one-hot":
        X = np.zeros((n, d))
        for first in range(0, d - 4, 5):
            category = rng.choice(5, n, p=rng.dirichlet(np.ones(5)))
            X[np.arange(n), first + category] = 1.0
    elif family == "factors":
        X = rng.normal(size=(n, 3)) @ rng.normal(size=(3, d)) + 0.3 * rng.normal(size=(n, d))
    else:
        X = rng.normal(size=(n, d))
        if family == "spiked":
            X /= np.arange(1, d + 1)
        elif family == "off-center":
            X += 2.0 * rng.normal(size=d)
    return X / np.maximum(np.linalg.norm(X, axis=1), 1e-9)[:, None], labels


def made_labels(X: np.ndarray, rate: float, rng: np.random.Generator) -> np.ndarray:
    """Labels of a logistic model whose log odds have standard deviation 2."""
    odds = (X - X.mean(axis=0)) @ rng.normal(size=X.shape[1])
    odds *= 2.0 / odds.std()
    low, high = -20.0, 20.0
    for _ in range(60):
        shift = 0.5 * (low + high)
        low, high = (shift, high) if expit(odds + shift).mean() < rate else (low, shift)
    return (rng.random(len(X)) < expit(odds + low)).astype(int)


def made_numbers(X: np.ndarray, noise: float, rng: np.random.Generator) -> np.ndarray:
    """Targets in [-1, 1] of a linear model with a signal of variance 1 and with noise."""
    y = (X - X.mean(axis=0)) @ rng.normal(size=X.shape[1])
    y = y / y.std() + noise * rng.normal(size=len(X))
    return np.clip(y / (3.5 * y.std()) + 0.1, -1.0, 1.0)


def made(task: str, family: str, n: int, d: int, level: float, seed: int) -> Split:
    """Training and test records of one simulated table."""
    rng = np.random.default_rng([seed, n, d, int(100 * level)])
    is_class = task == "classification"
    X, y = made_rows(family, n + N_TEST, d, level if is_class else 0.5, rng)
    if not is_class:
        y = made_numbers(X, level, rng)
    elif y is None:
        y = made_labels(X, level, rng)
    assert y is not None
    kind = {"classes": (0, 1)} if is_class else {"target_range": (-1.0, 1.0)}
    return Split(Dataset(family, X, y, **kind), seed, X[:n], y[:n], X[n:], y[n:])


# ------------------------------------------------------------------------------------ the two sides


def compared(
    task: str, family: str, n: int, d: int, level: float, tables: int, quick: bool
) -> list[dict[str, Any]]:
    """Rows of one cell: by epsilon and score the means of both sides."""
    epsilons = EPSILONS[2:3] if quick else EPSILONS
    settings = SETTINGS[task][: 2 if quick else None]
    splits = [made(task, family, n, d, level, seed) for seed in range(tables)]
    cell = {"task": task, "family": family, "n": n, "d": d, "level": level}
    return [cell | row for row in gains(both_sides(splits, epsilons, settings), epsilons, settings)]


def both_sides(
    splits: list[Split], epsilons: tuple[float, ...], settings: tuple[Setting, ...]
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """By metric our scores, shape (split, epsilon), and DP-SGD's, (split, epsilon, setting)."""
    ours = [ours_scores(split, epsilons) for split in splits]
    peers = [peer_scores(split, epsilons, settings) for split in splits]
    return {
        metric: (np.array([of[metric] for of in ours]), np.array([of[metric] for of in peers]))
        for metric in ours[0]
    }


def gains(
    sides: dict[str, tuple[np.ndarray, np.ndarray]],
    epsilons: tuple[float, ...],
    settings: tuple[Setting, ...],
) -> list[dict[str, Any]]:
    """By epsilon and score the means of both sides over splits, and the mean gains."""
    rows = []
    for metric, (mine, theirs) in sides.items():
        for i, epsilon in enumerate(epsilons):
            best, setting = linear_peers.best_of(theirs[:, i].T, metric, settings)
            half, _ = linear_peers.best_on_other_half(theirs[:, i].T, metric, settings)
            gain = linear_peers.sign(metric) * (mine[:, i] - np.array([best, half]))
            rows.append(
                {"epsilon": epsilon, "delta": DELTA, "metric": metric, "tables": len(mine)}
                | {"ours": mine[:, i].mean(), "tuned": best.mean(), "other_half": half.mean()}
                | dict(zip(GAINS, gain.mean(axis=1), strict=True))
                | {"standard_error": gain[0].std(ddof=1) / np.sqrt(len(mine))}
                | {"setting": setting}
            )
    return rows


def ours_scores(split: Split, epsilons: tuple[float, ...]) -> dict[str, np.ndarray]:
    """Scores of the default estimators, one per epsilon."""
    found: dict[str, list[float]] = {}
    for epsilon in epsilons:
        model = models.ours(split.dataset, epsilon, DELTA, REPLACE_ONE, len(split.y), split.seed)
        predicted = models.predictions(model.fit(split.X, split.y), split.X_test)
        for metric, values in score(split, predicted).items():
            found.setdefault(metric, []).append(float(values[0]))
    return {metric: np.array(values) for metric, values in found.items()}


def peer_scores(
    split: Split, epsilons: tuple[float, ...], settings: tuple[Setting, ...]
) -> dict[str, np.ndarray]:
    """Scores of DP-SGD of shape (epsilon, setting)."""
    found: dict[str, np.ndarray] = {}
    for indices in linear_peers.by_schedule(settings):
        group = tuple(settings[i] for i in indices)
        q, n_steps, _ = group[0].schedule
        scales = [linear_peers.noise_scale(REPLACE_ONE, e, q, n_steps) for e in epsilons]
        predicted = linear_peers.dp_sgd(
            split,
            group * len(epsilons),
            np.repeat(scales, len(group)),
            np.random.default_rng([split.seed, n_steps]),
        )
        for metric, values in score(split, predicted).items():
            table = found.setdefault(metric, np.empty((len(epsilons), len(settings))))
            table[:, indices] = values.reshape(len(epsilons), len(group))
    return found


# ------------------------------------------------------------------------------------------- report


def summarise(table: pd.DataFrame) -> str:
    """Mean gains over both choices of settings, by score and by one column at a time."""
    table = table.assign(size=table["n"].map("n = {}".format))
    parts = []
    for metric, of_metric in table.groupby("metric", sort=False):
        parts.append(f"{metric}: gain over DP-SGD, best setting / other half's setting")
        for column in ("metric", "epsilon", "family", "size", "level"):
            means = of_metric.groupby(column, sort=False)[GAINS].mean()
            cells = [f"{k} {v[GAINS[0]]:+.4f} / {v[GAINS[1]]:+.4f}" for k, v in means.iterrows()]
            parts.append("  " + ", ".join(cells))
    return "\n".join(parts)


def plot(table: pd.DataFrame) -> Any:
    title = "gain over DP-SGD, other half's setting"
    return figures.curves(table, "epsilon", GAINS[1], "metric", "family", ylabel=title)

"""Synthetic data: distance of two-way marginals, and classifiers trained on synthetic records.

With ``--adult PATH`` UCI Adult, nine categorical columns with ages binned by fixed edges (all
records for marginals, its split for classifiers); without it simulated data. All budgets are
(epsilon, 1e-6) under replace-one neighbours.

- ``DPSyntheticData``: its answers, and the marginals of as many sampled records;
- ``Gaussian histograms``: noise on all pairs, each projected; ``consistent``: made to agree too;
- ``uniform``: without records;
- accuracy on test records of logistic regression on a sample, and of ``DPLogisticRegression`` on
  the records, on the same one-hot columns;
- "small": both methods of ``DPSyntheticData`` on random tables of six columns with 5760
  combinations; "mirror_descent" also with ``delta=0``.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Iterator, Sequence
from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, OneHotEncoder

from skdp.linear_model import DPLogisticRegression
from skdp.mechanisms import gaussian_noise_multiplier
from skdp.synthetic import DPSyntheticData

DELTA = 1e-6
COLUMNS = ["age", "workclass", "education", "marital_status", "occupation", "relationship"]
COLUMNS += ["race", "sex", "income"]
Tables = dict[tuple[int, int], np.ndarray]


def run(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    frame = made(500 if options.quick else 20_000)
    if options.adult is not None and not options.quick:
        frame = adult(options.adult)
    epsilons, seeds = ((1.0,), 1) if options.quick else ((0.3, 1.0, 3.0, 10.0), 3)
    for epsilon, seed in product(epsilons, range(seeds)):
        common = {"n": len(frame), "epsilon": epsilon, "seed": seed, "delta": DELTA}
        yield from (row | common for row in rows_of(frame, epsilon, seed))
    yield from small_tables(options.quick)


def small_tables(quick: bool) -> Iterator[dict[str, Any]]:
    """Distances of answers of both methods, on tables of a small universe."""
    sizes = (2, 3, 4, 5, 6, 8)
    methods = (("adaptive", DELTA), ("mirror_descent", DELTA), ("mirror_descent", 0.0))
    for n, seed in product((500,) if quick else (5000, 50_000), range(1 if quick else 3)):
        table = latent_classes(np.random.default_rng(seed), n, sizes)
        exact = marginals(table, sizes)
        flat = {key: np.full(part.shape, 1.0 / part.size) for key, part in exact.items()}
        common = {"part": "small", "n": n, "seed": seed}
        for epsilon in (1.0,) if quick else (1.0, 3.0):
            for method, delta in methods:
                model = DPSyntheticData(
                    epsilon,
                    delta=delta,
                    method=method,
                    categories=[list(range(size)) for size in sizes],
                    random_state=seed,
                ).fit(table)
                value = mean_distance(exact, model.answer())
                row = {"method": method, "epsilon": epsilon, "delta": delta, "value": value}
                yield common | row
            row = {"method": "uniform", "epsilon": epsilon, "delta": 0.0}
            yield common | row | {"value": mean_distance(exact, flat)}


def latent_classes(rng: np.random.Generator, n: int, sizes: tuple[int, ...]) -> np.ndarray:
    """Codes of columns that depend on one of five classes."""
    latent = rng.integers(0, 5, n)
    laws = [rng.dirichlet(np.full(size, 0.5), 5).cumsum(axis=1) for size in sizes]
    columns = [(rng.random(n)[:, None] > law[latent, :-1]).sum(axis=1) for law in laws]
    return np.column_stack(columns)


def made(n: int) -> pd.DataFrame:
    """Six columns and a label that depend on a latent class."""
    rng = np.random.default_rng(0)
    codes = latent_classes(rng, n, (2, 3, 4, 6, 8, 12, 2))
    table = pd.DataFrame(codes, columns=[*(f"c{j}" for j in range(6)), "label"])
    return table.astype(str).assign(test=rng.random(n) < 0.3)


def adult(path: str) -> pd.DataFrame:
    frame = pd.read_csv(path, skipinitialspace=True)
    bins = [0, 25, 35, 45, 55, 65, 200]
    frame["age"] = pd.cut(frame["age"], bins, right=False).astype(str)
    table = frame[COLUMNS].astype(object).fillna("?").astype(str)
    return table.assign(test=(frame["split"] == "test").to_numpy())


def rows_of(frame: pd.DataFrame, epsilon: float, seed: int) -> list[dict[str, Any]]:
    table = frame.drop(columns="test")
    # all values of the code book occur in the data sets used here
    categories = {name: sorted(table[name].unique()) for name in table}
    sizes = [len(values) for values in categories.values()]
    exact = marginals(codes(table, categories), sizes)

    def fitted(records: pd.DataFrame) -> DPSyntheticData:
        model = DPSyntheticData(epsilon, delta=DELTA, categories=categories, random_state=seed)
        return model.fit(records)

    model = fitted(table)
    position = {name: j for j, name in enumerate(table)}
    answers = {(position[a], position[b]): part for (a, b), part in model.answer().items()}
    sample = marginals(codes(model.sample(len(table), random_state=0), categories), sizes)
    rng = np.random.default_rng(seed)
    noisy = gaussian_histograms(exact, len(table), epsilon, DELTA, rng)
    found = {
        "DPSyntheticData, answers": answers,
        "DPSyntheticData, sample": sample,
        "Gaussian histograms": noisy,
        "Gaussian histograms, consistent": consistent(noisy),
        "uniform": {key: np.full(part.shape, 1.0 / part.size) for key, part in exact.items()},
    }
    rows = [
        {"part": "marginals", "method": name, "value": mean_distance(exact, each)}
        for name, each in found.items()
    ]
    train, test = (table[frame["test"] == side] for side in (False, True))
    *features, label = table
    synthetic = fitted(train).sample(len(train), random_state=0)
    one_hot = OneHotEncoder(categories=[categories[name] for name in features])
    private = DPLogisticRegression(
        epsilon, delta=DELTA, data_norm=1.0, classes=categories[label], random_state=seed
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The noise ", category=UserWarning)
        models = {
            "LogisticRegression on a sample": make_pipeline(
                one_hot, LogisticRegression(max_iter=500)
            ).fit(synthetic[features], synthetic[label]),
            "DPLogisticRegression on the records": make_pipeline(
                one_hot, Normalizer(), private
            ).fit(train[features], train[label]),
        }
    rows += [
        {"part": "accuracy", "method": name, "value": each.score(test[features], test[label])}
        for name, each in models.items()
    ]
    return rows


def codes(table: pd.DataFrame, categories: dict[str, list[str]]) -> np.ndarray:
    return np.column_stack([np.searchsorted(categories[name], table[name]) for name in table])


# ---------------------------------------------------------------- marginals of pairs of columns


def marginals(codes: np.ndarray, sizes: Sequence[int]) -> Tables:
    """Shares of all pairs of columns."""
    tables = {}
    for a, b in combinations(range(len(sizes)), 2):
        cells = codes[:, a] * sizes[b] + codes[:, b]
        counts = np.bincount(cells, minlength=sizes[a] * sizes[b])
        tables[a, b] = counts.reshape(sizes[a], sizes[b]) / len(codes)
    return tables


def mean_distance(one: Tables, other: Tables) -> float:
    """Mean total-variation distance of the marginals."""
    return float(np.mean([0.5 * np.abs(one[key] - other[key]).sum() for key in one]))


def gaussian_histograms(
    exact: Tables, n_records: int, epsilon: float, delta: float, rng: np.random.Generator
) -> Tables:
    """Measure all marginals with Gaussian noise (replace-one neighbours); project each."""
    sensitivity = math.sqrt(2.0 * len(exact)) / n_records
    scale = sensitivity * gaussian_noise_multiplier(epsilon, delta)
    noisy = {key: table + scale * rng.standard_normal(table.shape) for key, table in exact.items()}
    return {key: simplex(table) for key, table in noisy.items()}


def consistent(tables: Tables, rounds: int = 30) -> Tables:
    """Make marginals agree on single columns, and project them, in turn.

    The single columns that all agree on are weighted by the inverse variances of sums of equally
    noisy cells.
    """
    columns = sorted({c for key in tables for c in key})
    for _ in range(rounds):
        for c in columns:
            own = [key for key in tables if c in key]
            sums = [tables[key].sum(axis=1 - key.index(c)) for key in own]
            widths = [tables[key].shape[1 - key.index(c)] for key in own]
            weights = np.array([1.0 / width for width in widths])
            agreed = np.average(sums, axis=0, weights=weights)
            for key, total, width in zip(own, sums, widths, strict=True):
                shift = np.expand_dims((agreed - total) / width, 1 - key.index(c))
                tables = {**tables, key: tables[key] + shift}
        tables = {key: simplex(table) for key, table in tables.items()}
    return tables


def simplex(table: np.ndarray) -> np.ndarray:
    """Project onto the distributions, in Euclidean distance."""
    ordered = np.sort(table.ravel())[::-1]
    excess = np.cumsum(ordered) - 1.0
    last = np.flatnonzero(ordered * np.arange(1, len(ordered) + 1) > excess)[-1]
    return np.maximum(table - excess[last] / (last + 1), 0.0)


SHOWN = ["part", "method", "n", "epsilon", "delta", "seed", "value"]

"""Synthetic data: distance of two-way marginals, and classifiers trained on synthetic records.

With ``--adult PATH`` UCI Adult, nine categorical columns with ages binned by fixed edges (all
records for marginals, its split for classifiers); without it made data. All budgets are (epsilon,
1e-6) under replace-one neighbours.

- ``DPSyntheticData``: its answers, and the marginals of as many sampled records;
- ``Gaussian histograms``: noise on all pairs, each projected; ``consistent``: made to agree too;
- ``uniform``: without records;
- accuracy on test records of logistic regression on a sample, and of ``DPLogisticRegression`` on
  the records, on the same one-hot columns.

AIM and MST of dpmm run in an environment of their own: ``synthetic_peer.py``.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, OneHotEncoder

from benchmarks.marginal_baselines import consistent, gaussian_histograms, marginals, mean_distance
from skdp.linear_model import DPLogisticRegression
from skdp.synthetic import DPSyntheticData

DELTA = 1e-6
COLUMNS = ["age", "workclass", "education", "marital_status", "occupation", "relationship"]
COLUMNS += ["race", "sex", "income"]


def run(options: argparse.Namespace) -> list[dict[str, Any]]:
    frame = made(500 if options.quick else 20_000)
    if options.adult is not None and not options.quick:
        frame = adult(options.adult)
    epsilons, seeds = ((1.0,), 1) if options.quick else ((0.3, 1.0, 3.0, 10.0), 3)
    return [
        row | {"n": len(frame), "epsilon": epsilon, "seed": seed, "delta": DELTA}
        for epsilon in epsilons
        for seed in range(seeds)
        for row in rows_of(frame, epsilon, seed)
    ]


def made(n: int) -> pd.DataFrame:
    """Six columns and a label that depend on a latent class."""
    rng = np.random.default_rng(0)
    latent = rng.integers(0, 5, n)
    sizes = {f"c{j}": size for j, size in enumerate((2, 3, 4, 6, 8, 12))} | {"label": 2}
    laws = {
        name: rng.dirichlet(np.full(size, 0.5), 5).cumsum(axis=1) for name, size in sizes.items()
    }
    found = {
        name: (rng.random(n)[:, None] > law[latent, :-1]).sum(axis=1) for name, law in laws.items()
    }
    return pd.DataFrame(found).astype(str).assign(test=rng.random(n) < 0.3)


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
    tables = {
        "DPSyntheticData, answers": answers,
        "DPSyntheticData, sample": sample,
        "Gaussian histograms": noisy,
        "Gaussian histograms, consistent": consistent(noisy),
        "uniform": {key: np.full(part.shape, 1.0 / part.size) for key, part in exact.items()},
    }
    rows = [
        {"part": "marginals", "method": name, "value": mean_distance(exact, found)}
        for name, found in tables.items()
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


def summarise(table: pd.DataFrame) -> str:
    wide = table.pivot_table(
        index=["part", "method"], columns="epsilon", values="value", sort=False
    )
    return wide.to_string(float_format="{:.4f}".format)


def plot(table: pd.DataFrame, path: Any) -> None:
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(11, 4))
    labels = {"marginals": "mean total-variation distance", "accuracy": "test accuracy"}
    for panel, (part, label) in zip(axes, labels.items(), strict=True):
        for name, rows in table[table["part"] == part].groupby("method", sort=False):
            means = rows.groupby("epsilon")["value"].mean()
            panel.plot(means.index, means, marker="o", label=name)
        panel.set(xscale="log", xlabel="epsilon", ylabel=label)
        panel.legend(fontsize=8)
    axes[0].set_yscale("log")
    figure.tight_layout()
    figure.savefig(path, dpi=90)
    plt.close(figure)

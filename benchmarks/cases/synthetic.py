"""Synthetic data: distance of two-way marginals, and classifiers trained on synthetic records.

With ``--adult PATH`` UCI Adult, nine categorical columns with ages binned by fixed edges (all
records for marginals, its split for classifiers); without it made data. All budgets are (epsilon,
1e-6) under replace-one neighbours.

- ``DPSyntheticData``: its answers, and the marginals of as many sampled records;
- ``Gaussian histograms``: noise on all pairs, each projected; ``consistent``: made to agree too;
- ``uniform``: without records;
- accuracy on test records of logistic regression on a sample, and of ``DPLogisticRegression`` on
  the records, on the same one-hot columns;
- "small": both methods of ``DPSyntheticData`` on random tables of six columns with 5760
  combinations; "mirror_descent" also with ``delta=0``.

MST of dpmm runs in an environment of its own, that of ``--dpmm-python``: ``synthetic_peer.py``. Its
guarantee is for add/remove neighbours, so its noise is smaller than that of the same budget for
replace-one neighbours. ``--only peers`` runs it alone, ``--only skdp`` all but it; other rows of
the results are kept.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
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


PEER = Path(__file__).resolve().parents[1] / "synthetic_peer.py"


def run(options: argparse.Namespace) -> list[dict[str, Any]]:
    frame = made(500 if options.quick else 20_000)
    if options.adult is not None and not options.quick:
        frame = adult(options.adult)
    epsilons, seeds = ((1.0,), 1) if options.quick else ((0.3, 1.0, 3.0, 10.0), 3)
    rows: list[dict[str, Any]] = []
    if options.only is not None:
        rows = kept(options.out / "synthetic.csv", is_peer=options.only == "skdp")
    if options.only != "peers":
        rows += [
            row | {"n": len(frame), "epsilon": epsilon, "seed": seed, "delta": DELTA}
            for epsilon in epsilons
            for seed in range(seeds)
            for row in rows_of(frame, epsilon, seed)
        ]
        rows += small_tables(options.quick)
    if options.only != "skdp" and options.dpmm_python is not None:
        rows += peers(frame, options.dpmm_python)
    return rows


def kept(path: Path, is_peer: bool) -> list[dict[str, Any]]:
    """Rows of earlier results: those of the peer, or the others."""
    columns = ["part", "method", "value", "n", "epsilon", "seed", "delta"]
    table = pd.read_csv(path)[columns]
    return list(table[table["method"].str.startswith("MST") == is_peer].to_dict("records"))


def peers(frame: pd.DataFrame, python: str) -> list[dict[str, Any]]:
    """Distances of samples of MST at epsilon 1 and 3; a run takes minutes."""
    done = subprocess.run(
        [python, str(PEER), "--version"], capture_output=True, text=True, check=True
    )
    name = f"MST of dpmm {done.stdout.strip()}, sample"
    table = frame.drop(columns="test")
    categories = {column: sorted(table[column].unique()) for column in table}
    sizes = [len(values) for values in categories.values()]
    given = codes(table, categories)
    exact, rows = marginals(given, sizes), []
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "in.npz"), Path(folder, "out.npy")
        np.savez(source, codes=given, sizes=np.array(sizes))
        for epsilon in (1.0, 3.0):
            command = [python, str(PEER), str(source), str(target), "mst"]
            subprocess.run([*command, str(epsilon), str(DELTA), "0"], check=True)
            value = mean_distance(exact, marginals(np.load(target), sizes))
            print(f"synthetic: {name}, {epsilon}: {value:.4f}", file=sys.stderr, flush=True)
            row = {"part": "marginals", "method": name, "value": value, "n": len(table)}
            rows.append(row | {"epsilon": epsilon, "seed": 0, "delta": DELTA})
    return rows


def small_tables(quick: bool) -> list[dict[str, Any]]:
    """Distances of answers of both methods, on tables of a small universe."""
    sizes = (2, 3, 4, 5, 6, 8)
    rows: list[dict[str, Any]] = []
    for n in (500,) if quick else (5000, 50_000):
        for seed in range(1 if quick else 3):
            rng = np.random.default_rng(seed)
            latent = rng.integers(0, 5, n)
            laws = [rng.dirichlet(np.full(size, 0.5), 5).cumsum(axis=1) for size in sizes]
            table = np.column_stack(
                [(rng.random(n)[:, None] > law[latent, :-1]).sum(axis=1) for law in laws]
            )
            exact = marginals(table, sizes)
            flat = {key: np.full(part.shape, 1.0 / part.size) for key, part in exact.items()}
            common = {"part": "small", "n": n, "seed": seed}
            for epsilon in (1.0,) if quick else (1.0, 3.0):
                for method, delta in (
                    ("adaptive", DELTA),
                    ("mirror_descent", DELTA),
                    ("mirror_descent", 0.0),
                ):
                    model = DPSyntheticData(
                        epsilon,
                        delta=delta,
                        method=method,
                        categories=[list(range(size)) for size in sizes],
                        random_state=seed,
                    ).fit(table)
                    value = mean_distance(exact, model.answer())
                    row = {"method": method, "epsilon": epsilon, "delta": delta, "value": value}
                    rows.append(common | row)
                row = {"method": "uniform", "epsilon": epsilon, "delta": 0.0}
                rows.append(common | row | {"value": mean_distance(exact, flat)})
    return rows


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
    is_small = table["part"] == "small"
    indices = (["part", "method"], ["part", "n", "method", "delta"])
    return "\n\n".join(
        part.pivot_table(index=index, columns="epsilon", values="value", sort=False).to_string(
            float_format="{:.4f}".format
        )
        for part, index in zip((table[~is_small], table[is_small]), indices, strict=True)
        if len(part)
    )


def plot(table: pd.DataFrame, path: Any) -> None:
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(11, 5))
    labels = {"marginals": "mean total-variation distance", "accuracy": "test accuracy"}
    for panel, (part, label) in zip(axes, labels.items(), strict=True):
        for name, rows in table[table["part"] == part].groupby("method", sort=False):
            means = rows.groupby("epsilon")["value"].mean()
            panel.plot(means.index, means, marker="o", label=name)
        panel.set(xscale="log", xlabel="epsilon", ylabel=label)
        panel.legend(fontsize=7)
    axes[0].set_yscale("log")
    axes[0].legend(fontsize=7, loc="upper right", bbox_to_anchor=(1.0, 0.94))
    figure.tight_layout()
    figure.savefig(path, dpi=90)
    plt.close(figure)

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

MST of dpmm (``--dpmm-python``, ``synthetic_peer.py``) is private for add/remove neighbours, with
less noise than replace-one neighbours need. ``--only skdp`` leaves it out and keeps its rows.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, OneHotEncoder

from benchmarks import figures, tables
from benchmarks.marginal_baselines import consistent, gaussian_histograms, marginals, mean_distance
from skdp.linear_model import DPLogisticRegression
from skdp.synthetic import DPSyntheticData

DELTA = 1e-6
COLUMNS = ["age", "workclass", "education", "marital_status", "occupation", "relationship"]
COLUMNS += ["race", "sex", "income"]


PEER = Path(__file__).resolve().parents[1] / "synthetic_peer.py"


def run(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    frame = made(500 if options.quick else 20_000)
    if options.adult is not None and not options.quick:
        frame = adult(options.adult)
    epsilons, seeds = ((1.0,), 1) if options.quick else ((0.3, 1.0, 3.0, 10.0), 3)
    if options.only is not None:
        yield from kept(options.out / "synthetic.csv", is_peer=options.only == "skdp")
    if options.only != "peers":
        for epsilon, seed in product(epsilons, range(seeds)):
            common = {"n": len(frame), "epsilon": epsilon, "seed": seed, "delta": DELTA}
            yield from (row | common for row in rows_of(frame, epsilon, seed))
        yield from small_tables(options.quick)
    if options.only != "skdp" and options.dpmm_python is not None:
        yield from peers(frame, options.dpmm_python)


def kept(path: Path, is_peer: bool) -> list[dict[str, Any]]:
    """Rows of earlier results: those of the peer, or the others."""
    columns = ["part", "method", "value", "n", "epsilon", "seed", "delta"]
    table = tables.read(path)[columns]
    return list(table[table["method"].str.startswith("MST") == is_peer].to_dict("records"))


def peers(frame: pd.DataFrame, python: str) -> Iterator[dict[str, Any]]:
    """Distances of samples of MST at epsilon 1 and 3; a run takes minutes."""
    command = [python, str(PEER), "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    table = frame.drop(columns="test")
    categories = {column: sorted(table[column].unique()) for column in table}
    sizes = [len(values) for values in categories.values()]
    given = codes(table, categories)
    exact = marginals(given, sizes)
    row = {"part": "marginals", "method": f"MST of dpmm {done.stdout.strip()}, sample"}
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "in.npz"), Path(folder, "out.npy")
        np.savez(source, codes=given, sizes=np.array(sizes))
        for epsilon in (1.0, 3.0):
            command = [python, str(PEER), str(source), str(target), "mst"]
            subprocess.run([*command, str(epsilon), str(DELTA), "0"], check=True)
            value = mean_distance(exact, marginals(np.load(target), sizes))
            more = {"value": value, "n": len(table), "epsilon": epsilon, "seed": 0, "delta": DELTA}
            yield row | more


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


def plot(table: pd.DataFrame) -> Any:
    shown = table[table["part"] != "small"]
    return figures.curves(shown, "epsilon", "value", "part", "method", log="xy")

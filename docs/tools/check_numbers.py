"""Checks measured numbers in prose: ``python docs/tools/check_numbers.py``.

``0.3335<!-- n: adult.log_loss -->`` on a page is the number ``adult.log_loss`` below, rounded to
the digits that are written. Numbers with a percent sign are parts of one.
"""

import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pandas as pd

ROOT = Path(__file__).parents[2]
MARK = re.compile(r"(-?\d[\d,]*(?:\.\d+)?)( %)?<!-- n: ([\w.]+) -->")


@cache
def table(name: str) -> pd.DataFrame:
    """A table of ``benchmarks/results``."""
    return pd.read_csv(ROOT / "benchmarks" / "results" / f"{name}.csv", skiprows=1)


def rows(name: str, **values: object) -> pd.DataFrame:
    """The rows of a table that have these values."""
    found = table(name)
    for column, value in values.items():
        found = found[found[column] == value]
    assert len(found), (name, values)
    return found


def mean(name: str, column: str = "mean", **values: object) -> Callable[[], float]:
    """Mean of a column over the rows that have these values."""
    return lambda: float(rows(name, **values)[column].mean())


def adult(method: str, metric: str = "log loss", epsilon: float = 1) -> Callable[[], float]:
    """A score on Adult, replace-one."""
    one = {"dataset": "adult", "relation": "replace_one", "epsilon": epsilon}
    return mean("linear_table", **one, method=method, metric=metric)


def worst(data: str, method: str, epsilon: float) -> Callable[[], float]:
    """Accuracy of the worst group."""
    values = {"part": "scores", "data": data, "epsilon": epsilon, "method": method}
    return mean("worst_group", "worst_accuracy", **values)


def tabular(method: str, relation: str | None, epsilon: float) -> Callable[[], float]:
    """Mean score on the tables of R's example data."""

    def score() -> float:
        found = rows("tabular", method=method, epsilon=epsilon)
        found = found[~found["dataset"].isin(["adult", "california"])]
        return float(found["mean"][(found["neighbouring"] == relation) | (relation is None)].mean())

    return score


def kept(epsilon: float) -> float:
    """Median over real tables of the part of the gain over a constant that privacy leaves."""
    found = rows("costs", part="all")
    found = found[found["metric"].isin(["ROC AUC", "R2"])]
    names = found["method"].mask(found["epsilon"] == epsilon, "private")
    score = found.assign(name=names).pivot_table("score", "dataset", "name")
    free = score[["no privacy, boosting", "no privacy, linear"]].max(axis=1)
    gained = (score["private"] - score["constant"]) / (free - score["constant"])
    return float(gained.median())


BEST, OTHERS = "DP-SGD, best setting", "DP-SGD, other sets' setting"


NUMBERS: dict[str, Callable[[], float]] = {
    "adult.log_loss": adult("skdp"),
    "adult.accuracy": adult("skdp", "accuracy"),
    "adult.dp_sgd_best": adult(BEST),
    "adult.dp_sgd_others": adult(OTHERS),
    "adult.no_privacy": mean(
        "linear_table", dataset="adult", method="no privacy", metric="log loss"
    ),
    "adult.pure": adult("skdp, delta=0", "accuracy"),
    "adult.diffprivlib": adult("diffprivlib", "accuracy"),
    "adult.records": mean("linear_table", "n_train", dataset="adult"),
    "linear.cells": lambda: len(rows("linear_table", method=BEST)),
    "linear.below": lambda: len(rows("linear_table", method=BEST, verdict="below")),
    "over_constant.all": lambda: len(table("over_constant")),
    "over_constant.above": lambda: len(rows("over_constant", is_above=True)),
    "conflict.plain": worst("conflict", "plain", 1),
    "conflict.ours": worst("conflict", "private sizes", 0.1),
    "adult_groups.plain": worst("Adult", "plain", 1),
    "adult_groups.ours": worst("Adult", "private sizes", 1),
    "tabular.boosting": tabular("no privacy, boosting", None, float("inf")),
}
METRICS = {"accuracy": "accuracy", "log_loss": "log loss", "auc": "ROC AUC"}
for name, metric in METRICS.items():
    NUMBERS[f"adult.{name}.no_privacy"] = mean(
        "linear_table", dataset="adult", method="no privacy", metric=metric
    )
    for epsilon in (0.1, 1):
        NUMBERS[f"adult.{name}.{epsilon}"] = adult("skdp", metric, epsilon)
NUMBERS["synthetic.answers"] = mean(
    "synthetic", "value", part="marginals", method="DPSyntheticData, answers", epsilon=1
)
NUMBERS["tabular.planned_add_remove"] = tabular("planned", "add_remove", 1)
NUMBERS["costs.kept"] = lambda: kept(1.0)
NUMBERS["costs.kept.0.1"] = lambda: kept(0.1)
NUMBERS["tabular.dp_ebm"] = tabular("DP-EBM", "add_remove", 1)


def findings(page: str) -> list[str]:
    """Numbers of a page that are not those of the tables."""
    found = []
    for text, percent, name in MARK.findall(page):
        value = NUMBERS[name]() * (100 if percent else 1)
        digits = len(text.partition(".")[2])
        if f"{value:,.{digits}f}".replace(",", "") != text.replace(",", ""):
            found.append(f"{name} is {value:.6g}, not {text}{percent}")
    return found


if __name__ == "__main__":
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    n_marks = n_findings = 0
    for path in pages:
        page = path.read_text(encoding="utf-8")
        n_marks += len(MARK.findall(page))
        for text in findings(page):
            n_findings += 1
            print(f"{path.relative_to(ROOT)}: {text}")
    print(f"{n_marks} numbers with an identifier, {n_findings} differ")
    sys.exit(bool(n_findings))

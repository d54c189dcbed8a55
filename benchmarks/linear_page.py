"""Writes ``docs/benchmarks/linear.md`` from the table of the comparison of linear models."""

from __future__ import annotations

import math

import pandas as pd

from benchmarks import linear_peers
from benchmarks.linear_protocol import (
    ADD_REMOVE,
    DELTA,
    EPSILONS,
    METRICS,
    REPLACE_ONE,
    SIGNIFICANT,
)
from benchmarks.linear_report import BELOW, OURS, tally
from benchmarks.tables import markdown

#: What stands beside ours in every cell.
BEST = linear_peers.DP_SGD_BEST
RELATION_NAMES = {REPLACE_ONE: "replace-one", ADD_REMOVE: "add/remove"}

HEAD = """\
# Comparison with other private linear models

This page compares the default estimators, `DPLogisticRegression()` and `DPRidge()`, with other
private models. It shows every cell: every data set, neighbouring relation, epsilon and score.

:::{{admonition}} Set-up
Version 0.1.0, its defaults. Rows of unit norm, prepared with public knowledge alone, the same for
every side. 80/20 splits, {seeds}. delta = {delta:g}. Both sides of a cell use the same neighbouring
relation. `benchmarks/run.py linear_table --page docs/benchmarks/linear.md` writes this page. All
methods, settings and standard errors: {{download}}`linear_table.csv
<../../benchmarks/results/linear_table.csv>`.
:::

- **Ours** is the default: epsilon, delta, `data_norm`, `classes` or `target_range`, the relation
  and `n_public`, and nothing else.
- **Tuned DP-SGD** has the best of {n_classification} settings ({n_regression} in regression) of
  batch, steps, learning rate, clipping norm and intercept, chosen *per cell and per score on the
  mean test score*. That choice is not private. The settings were chosen from about 350 on these
  same data sets. Both flatter DP-SGD. "Other half's setting" is chosen on one half of the seeds and
  scored on the other.
- **DP-SGD without a choice** ("other sets' setting") has the setting with the best mean rank over
  the *other data sets* of the same task, for each relation, epsilon and score.
- **AdaSSP** (Wang, 2018) has exact Gaussian accounting, with less noise than as published.
- **DP-EBM** (`interpret-core`) is not linear. It has add/remove neighbours, features in their
  public ranges without unit rows, and few seeds, because it is slow.
- **diffprivlib** has delta = 0 and replace-one neighbours. It stands beside ours with `delta=0`.
- R2 is that of predictions clipped to the public range, on both sides. With several classes, ROC
  AUC is the mean over one class against the rest.
- A cell is **above** or **below** if the mean of the paired differences over the seeds exceeds two
  of its standard errors, and **level** otherwise. With 3 or 5 seeds this is a weak test. Of cells
  without a true difference, 2 or 3 in 100 count as below.
"""

SEEN_TEXT = """\
All data sets were used to choose constants of the default, or looked at afterwards:
[which, and for what](audits.md#what-data-the-constants-have-seen). The figures are no independent
check. In tables losses are bold; the constant is the shares of the classes, or the mean.
"""


def page(table: pd.DataFrame) -> str:
    by_seeds = table[table["method"] == OURS].groupby("n_seeds", sort=False)["dataset"].unique()
    largest = max(by_seeds.index)
    few = ", ".join(f"{n} for {', '.join(s)}" for n, s in by_seeds.items() if n != largest)
    head = HEAD.format(
        seeds=f"{largest} seeds" + (f" ({few})" if few else ""),
        delta=DELTA,
        n_classification=len(linear_peers.SETTINGS["classification"]),
        n_regression=len(linear_peers.SETTINGS["regression"]),
    )
    text, _, below = losses(table).partition("\n\n")
    parts = [head, "## Summary\n", summary(table), text + "\n", folded("these cells", below)]
    parts.append(SEEN_TEXT)
    for title, metrics in (
        ("Accuracy and R2", ("accuracy", "R2")),
        ("Log loss", ("log loss",)),
        ("ROC AUC", ("ROC AUC",)),
    ):
        parts.append(f"## {title}: ours / DP-SGD, best setting\n")
        for relation, name in RELATION_NAMES.items():
            parts.append(folded(name, cells(table, relation, metrics, BEST, levels=True)))
    parts += ["## DP-EBM (add/remove): ours / DP-EBM\n"]
    parts += [folded("all cells", cells(table, ADD_REMOVE, METRICS, "DP-EBM"))]
    parts += ["## diffprivlib (delta = 0, replace-one): ours with delta = 0 / diffprivlib\n"]
    parts += [folded("all cells", cells(table, REPLACE_ONE, METRICS, "diffprivlib"))]
    parts.append(worse_than_constant(table))
    return "\n".join(parts)


def folded(title: str, text: str) -> str:
    """A part of the page that opens on a click."""
    return f":::{{dropdown}} {title}\n{text}:::\n"


def summary(table: pd.DataFrame) -> str:
    """Cells above / level / below, per peer, score and relation."""
    lines = []
    for name, rows in table[table["verdict"] != ""].groupby("method", sort=False):
        for metric in METRICS:
            of_metric = rows[rows["metric"] == metric]
            if len(of_metric):
                found = [
                    tally(of_metric.loc[of_metric["relation"] == relation, "verdict"])
                    for relation in RELATION_NAMES
                ]
                lines.append([name, metric, *found])
    lines = markdown(["against", "score", *RELATION_NAMES.values()], lines)
    counts = "Number of cells above / level / below.\n\n" + "\n".join(lines) + "\n"
    return counts + choices(table)


def choices(table: pd.DataFrame) -> str:
    """Say how often DP-SGD without a choice, and ours, are below its best settings."""
    others = table[table["method"] == linear_peers.DP_SGD_OTHERS]
    if not len(others):
        return ""
    lost = (others["over_best"] < -SIGNIFICANT * others["over_best_se"]).sum()
    of_best = table[table["method"] == linear_peers.DP_SGD_BEST]
    own = (of_best["verdict"] == BELOW).sum()
    return (
        "\nBelow the best setting of DP-SGD for the cell and the score are DP-SGD without a choice "
        f"in {lost} of {len(others)} cells, and ours in {own} of {len(of_best)}.\n"
    )


def judged(table: pd.DataFrame, method: str) -> pd.DataFrame:
    return table[(table["method"] == method) & (table["verdict"] != "")]


def losses(table: pd.DataFrame) -> str:
    rows = judged(table, BEST)
    rows = rows[rows["verdict"] == BELOW].sort_values(["metric", "difference"])
    free = table[table["method"] == linear_peers.NO_PRIVACY]
    exact = free.set_index(["dataset", "metric"])["mean"].to_dict()
    rows["exact"] = [exact.get((row.dataset, row.metric), math.nan) for row in rows.itertuples()]
    gain = (rows["mean"] - rows["exact"]) * rows["metric"].map(linear_peers.sign).astype(float)
    text = (
        "Cells below the best setting of DP-SGD: the two largest differences of each score; the "
        f"tables below have all in bold. In {(gain > 0.0).sum()} of these {len(rows)} cells the "
        "peer also beats scikit-learn without privacy: with gradients clipped to 0.1, say, DP-SGD "
        "has a different optimum from the log loss, and on some data that optimum classifies more "
        "records correctly.\n"
    )
    head = ["score", "data set", "relation", "epsilon", "ours", "peer", "difference", "no privacy"]
    cells = [
        [
            *(row["metric"], row["dataset"], RELATION_NAMES[row["relation"]]),
            *(f"{row['epsilon']:g}", f"{row['ours_mean']:.3f}", f"{row['mean']:.3f}"),
            f"{row['difference']:+.3f} ± {SIGNIFICANT * row['difference_se']:.3f}",
            f"{row['exact']:.3f}",
        ]
        for row in rows.groupby("metric").head(2).to_dict("records")
    ]
    return "\n".join([text, *markdown(head, cells)]) + "\n"


def cells(
    table: pd.DataFrame,
    relation: str,
    metrics: tuple[str, ...],
    method: str,
    levels: bool = False,
) -> str:
    """One line per data set and score, `ours / theirs` in each cell."""
    given = judged(table[table["relation"] == relation], method)
    if not len(given):
        return "Not measured.\n"
    others = [linear_peers.NO_PRIVACY, linear_peers.CONSTANT] if levels else []
    means = table[table["method"].isin(others)].set_index(["dataset", "metric", "method"])["mean"]
    head = ["data set (n, d)", "score", *(f"{e:g}" for e in EPSILONS), *(others or ["seeds"])]
    lines = []
    for key, rows in given[given["metric"].isin(metrics)].groupby(
        ["dataset", "metric"], sort=False
    ):
        first = rows.iloc[0]
        texts = rows.set_index("epsilon").apply(cell, axis=1).reindex(EPSILONS, fill_value="")
        line = [f"{key[0]} ({first['n_train']}, {first['n_features']})", key[1], *texts]
        line += [f"{means[(*key, other)]:.3f}" for other in others]
        lines.append(line if levels else [*line, first["n_seeds"]])
    return "\n".join(markdown(head, lines)) + "\n"


def cell(row: pd.Series) -> str:
    text = f"{row['ours_mean']:.3f} / {row['mean']:.3f}"
    return f"**{text}**" if row["verdict"] == BELOW else text


def worse_than_constant(table: pd.DataFrame) -> str:
    ours = table[(table["method"] == OURS) & table["over_constant"].notna()]
    lost = ours[ours["over_constant"] < -SIGNIFICANT * ours["over_constant_se"]]
    keys = ["dataset", "relation", "epsilon", "metric"]
    cells = [", ".join(map(str, cell)) for cell in lost[keys].itertuples(index=False)]
    return (
        "## The constant model\n\nThe default is below the constant, which is not private here, in "
        f"{len(lost)} of {len(ours)} cells{': ' if cells else ''}{'; '.join(cells)}.\n"
    )

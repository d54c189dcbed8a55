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
from benchmarks.linear_report import ABOVE, BELOW, LEVEL, OURS, tally
from benchmarks.tables import markdown

#: Peers whose best in a cell stands beside ours.
LINEAR = (linear_peers.DP_SGD_BEST, linear_peers.ADASSP)
RELATION_NAMES = {REPLACE_ONE: "replace-one", ADD_REMOVE: "add/remove"}
#: Data sets on which constants of the default were chosen, or looked at.
SEEN = {
    *("breast_cancer", "digits", "digits >= 5", "adult", "diabetes", "california", "wine"),
    *("logistic, d = 20", "logistic, d = 100", "linear, d = 20", "linear, d = 100"),
    *("5 % positives", "85:15 clusters", "friedman1"),
}

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
Data sets with an asterisk were used to choose constants of the default, or looked at afterwards:
[which, and for what](audits.md#what-data-the-constants-have-seen). Figures on these are no
independent check.
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
        parts.append(f"## {title}: ours / the best linear peer\n")
        parts.append("Losses in bold. The constant is the shares of the classes, or the mean.\n")
        for relation, name in RELATION_NAMES.items():
            parts.append(folded(name, cells(table, relation, metrics, LINEAR, levels=True)))
    parts += ["## DP-EBM (add/remove): ours / DP-EBM\n"]
    parts += [folded("all cells", cells(table, ADD_REMOVE, METRICS, ("DP-EBM",)))]
    parts += ["## diffprivlib (delta = 0, replace-one): ours with delta = 0 / diffprivlib\n"]
    parts += [folded("all cells", cells(table, REPLACE_ONE, METRICS, ("diffprivlib",)))]
    parts.append(worse_than_constant(table))
    return "\n".join(parts)


def folded(title: str, text: str) -> str:
    """A part of the page that opens on a click."""
    return f":::{{dropdown}} {title}\n{text}:::\n"


def summary(table: pd.DataFrame) -> str:
    """Cells above / level / below, per peer, score and relation."""
    judged = [(f"best linear peer ({' or '.join(LINEAR)})", best_peers(table, LINEAR))]
    for method in table.loc[table["verdict"] != "", "method"].drop_duplicates():
        judged.append((method, table[(table["method"] == method) & (table["verdict"] != "")]))
    lines = []
    for name, rows in judged:
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


def best_peers(table: pd.DataFrame, methods: tuple[str, ...]) -> pd.DataFrame:
    """The rows of the best of the methods in each cell, with the verdict on all of them.

    A cell is below if any of the methods is better by more than two standard errors, above if none
    is level.
    """
    rows = table[table["method"].isin(methods) & (table["verdict"] != "")]
    found = []
    for (_, _, _, metric), cell in rows.groupby(
        ["dataset", "relation", "epsilon", "metric"], sort=False
    ):
        best = cell["mean"].idxmin() if metric == "log loss" else cell["mean"].idxmax()
        verdicts = set(cell["verdict"])
        verdict = next(v for v in (BELOW, LEVEL, ABOVE) if v in verdicts)
        found.append(cell.loc[best].to_dict() | {"verdict": verdict})
    return pd.DataFrame(found)


def losses(table: pd.DataFrame) -> str:
    rows = best_peers(table, LINEAR)
    rows = rows[rows["verdict"] == BELOW].sort_values(["metric", "difference"])
    free = table[table["method"] == linear_peers.NO_PRIVACY]
    exact = free.set_index(["dataset", "metric"])["mean"].to_dict()
    rows["exact"] = [exact.get((row.dataset, row.metric), math.nan) for row in rows.itertuples()]
    gain = (rows["mean"] - rows["exact"]) * rows["metric"].map(linear_peers.sign).astype(float)
    text = (
        "Cells below the best linear peer: the four largest differences of each score; the tables "
        f"below have all in bold. In {(gain > 0.0).sum()} of these {len(rows)} cells the peer also "
        "beats scikit-learn without privacy: with gradients clipped to 0.1, for example, DP-SGD "
        "has a different optimum from the log loss, and on some data that optimum classifies more "
        "records correctly.\n"
    )
    head = ["score", "data set", "relation", "epsilon", "ours", "peer", "difference", "no privacy"]
    cells = [
        [
            *(row["metric"], row["dataset"], RELATION_NAMES[row["relation"]]),
            *(f"{row['epsilon']:g}", f"{row['ours_mean']:.3f}", f"{row['mean']:.3f}"),
            f"{row['difference']:+.3f} ± {SIGNIFICANT * row['difference_se']:.3f}",
            *(f"{row['exact']:.3f}", row["method"]),
        ]
        for row in rows.groupby("metric").head(4).to_dict("records")
    ]
    return "\n".join([text, *markdown([*head, "of"], cells)]) + "\n"


def cells(
    table: pd.DataFrame,
    relation: str,
    metrics: tuple[str, ...],
    methods: tuple[str, ...],
    levels: bool = False,
) -> str:
    """One line per data set and score, `ours / theirs` in each cell."""
    given = best_peers(table[table["relation"] == relation], methods)
    if not len(given):
        return "Not measured.\n"
    given = given[given["metric"].isin(metrics)]
    others = [linear_peers.NO_PRIVACY, linear_peers.CONSTANT] if levels else ["seeds"]
    head = ["data set (n, d)", "score", *(f"{e:g}" for e in EPSILONS), *others]
    lines = []
    for (name, metric), rows in given.groupby(["dataset", "metric"], sort=False):
        first = rows.iloc[0]
        star = r"\*" if name in SEEN else ""
        line = [f"{name}{star} ({first['n_train']}, {first['n_features']})", metric]
        by_epsilon = {row["epsilon"]: row for row in rows.to_dict("records")}
        line += [cell(by_epsilon.get(epsilon)) for epsilon in EPSILONS]
        if levels:
            line += [number(table, name, method, metric) for method in others]
        else:
            line.append(str(first["n_seeds"]))
        lines.append(line)
    return "\n".join(markdown(head, lines)) + "\n"


def cell(row: dict | None) -> str:
    if row is None:
        return ""
    text = f"{row['ours_mean']:.3f} / {row['mean']:.3f}"
    return f"**{text}**" if row["verdict"] == BELOW else text


def number(table: pd.DataFrame, dataset: str, method: str, metric: str) -> str:
    rows = table[
        (table["dataset"] == dataset) & (table["method"] == method) & (table["metric"] == metric)
    ]
    return f"{rows['mean'].iloc[0]:.3f}" if len(rows) else ""


def worse_than_constant(table: pd.DataFrame) -> str:
    ours = table[(table["method"] == OURS) & table["over_constant"].notna()]
    lost = ours[ours["over_constant"] < -SIGNIFICANT * ours["over_constant_se"]]
    lines = [
        "## The constant model\n",
        "The default is below the constant, which is not private here, in "
        f"{len(lost)} of {len(ours)} cells.\n",
    ]
    cells = [
        [
            *(row["dataset"], RELATION_NAMES[row["relation"]], f"{row['epsilon']:g}"),
            *(row["metric"], f"{row['mean']:.3f}"),
            f"{row['over_constant']:+.3f} ± {SIGNIFICANT * row['over_constant_se']:.3f}",
        ]
        for row in lost.to_dict("records")
    ]
    head = ["data set", "relation", "epsilon", "score", "ours", "difference"]
    return "\n".join(lines + (markdown(head, cells) if cells else [])) + "\n"

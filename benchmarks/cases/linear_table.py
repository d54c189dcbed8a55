"""Default linear models against tuned DP-SGD, AdaSSP, DP-EBM and diffprivlib, seed by seed.

Every side gets the same records (rows of unit norm, prepared with public knowledge, see
``benchmarks/data.py``), the same 80/20 splits, and the neighbours of the cell. Ours are the default
estimators. The peers are in ``linear_peers.py`` and ``linear_apart.py``.

The scores of all seeds are kept in two files beside the table, ``linear_table_skdp.csv.gz`` and
``linear_table_peers.csv.gz``: ``--only skdp`` fits ours again and compares it with the peers' file,
``--only peers`` the other way round, ``--only page`` fits nothing. ``--page docs/comparison.md``
writes the page.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import data, linear_page, linear_peers
from benchmarks.linear_peers import Setting
from benchmarks.linear_protocol import (
    ADD_REMOVE,
    DELTA,
    EPSILONS,
    KEYS,
    RELATIONS,
    REPLACE_ONE,
    Scores,
    Split,
    n_seeds,
    read,
)
from benchmarks.linear_report import LIMIT, OURS, OURS_PURE, compare, counts
from skdp.linear_model import DPLogisticRegression, DPRidge

#: DP-SGD: sampling rate, steps, intercept, learning rate, clipping norm. The first is the fixed
#: setting; the others were chosen such that some of them is close to the best of about 350 in every
#: cell of this table (a few seeds), which flatters DP-SGD.
CLASSIFICATION = (
    Setting(0.05, 200, 0.1, 4, 1),
    Setting(0.05, 200, 0.1, 16, 0.5),
    Setting(0.05, 200, 0.4, 16, 1),
    Setting(0.2, 250, 0.1, 1, 0.25),
    Setting(0.2, 250, 0.1, 4, 0.1),
    Setting(1, 10, 0.1, 0.25, 0.1),
    Setting(1, 10, 0.1, 1, 0.1),
    Setting(1, 10, 0.1, 4, 0.1),
    Setting(1, 10, 0.1, 8, 0.1),
    Setting(1, 10, 0.1, 8, 0.25),
    Setting(1, 10, 0.4, 32, 1),
    Setting(1, 30, 0.1, 0.25, 0.25),
    Setting(1, 30, 0.1, 4, 0.25),
    Setting(1, 30, 0.1, 8, 0.25),
    Setting(1, 30, 0.4, 1, 0.25),
    Setting(1, 100, 0.1, 0.25, 0.5),
    Setting(1, 100, 0.1, 16, 0.1),
    Setting(1, 300, 0.1, 0.25, 0.1),
    Setting(1, 300, 0.1, 0.5, 0.25),
    Setting(1, 300, 0.1, 1, 0.1),
    Setting(1, 300, 0.1, 2, 0.1),
    Setting(1, 300, 0.1, 16, 0.1),
    Setting(1, 300, 0.1, 16, 0.5),
    Setting(1, 300, 0.4, 4, 0.5),
)
REGRESSION = (
    Setting(0.05, 200, 0.1, 1, 0.25),
    Setting(0.05, 200, 0.1, 0.25, 0.1),
    Setting(0.2, 250, 0.1, 0.25, 0.1),
    Setting(0.2, 250, 0.1, 0.5, 0.1),
    Setting(0.2, 250, 0.1, 2, 0.25),
    Setting(1, 10, 0.1, 4, 0.1),
    Setting(1, 10, 0.4, 1, 0.1),
    Setting(1, 10, 0.4, 4, 0.5),
    Setting(1, 30, 0.1, 0.25, 0.1),
    Setting(1, 30, 0.1, 0.5, 0.1),
    Setting(1, 30, 0.1, 1, 0.1),
    Setting(1, 30, 0.4, 0.03, 0.05),
    Setting(1, 30, 0.4, 0.12, 0.05),
    Setting(1, 100, 0.1, 0.25, 0.5),
    Setting(1, 100, 0.4, 0.12, 0.05),
    Setting(1, 1000, 0.1, 2, 0.5),
)
#: Without sampling, which takes seconds to calibrate.
QUICK = (Setting(1, 20, 0.1, 2, 0.5), Setting(1, 10, 0.1, 1, 1))


def run(options: argparse.Namespace) -> list[dict[str, Any]]:
    ours, peers = (options.out / f"linear_table_{side}.csv.gz" for side in ("skdp", "peers"))
    epsilons = (1.0,) if options.quick else EPSILONS
    of_settings: dict[bool, list[tuple[data.Dataset, dict[str, np.ndarray]]]] = {}
    for dataset in data.load(options.adult, options.california, options.quick):
        seeds = n_seeds(dataset, options.quick)
        start = time.perf_counter()
        if options.only in (None, "skdp"):
            scores = Scores()
            add_ours(scores, dataset, seeds, epsilons)
            scores.write(ours)
        if options.only in (None, "peers"):
            scores, settings = Scores(), settings_for(dataset.is_classification, options.quick)
            found = linear_peers.add_peers(scores, dataset, seeds, settings, epsilons)
            of_settings.setdefault(dataset.is_classification, []).append((dataset, found))
            scores.write(peers)
        seconds = time.perf_counter() - start
        message = f"linear_table: {dataset.name}, {seeds} seeds, {seconds:.0f} s"
        print(message, file=sys.stderr, flush=True)
    for is_classification, found_by_set in of_settings.items():
        scores, settings = Scores(), settings_for(is_classification, options.quick)
        linear_peers.add_other_sets(scores, found_by_set, settings, epsilons)
        if scores.rows:
            scores.write(peers)
    table = compare(read(ours), read(peers))
    if options.page is not None:
        Path(options.page).write_text(linear_page.page(table))
    return table.to_dict("records")


def settings_for(is_classification: bool, quick: bool) -> tuple[Setting, ...]:
    return QUICK if quick else CLASSIFICATION if is_classification else REGRESSION


def add_ours(
    scores: Scores, dataset: data.Dataset, seeds: int, epsilons: tuple[float, ...]
) -> None:
    """Fit and score the default estimators, with delta = 0 too."""
    cells = [(relation, epsilon) for relation in RELATIONS for epsilon in (*epsilons, LIMIT)]
    scores.add_method(dataset, OURS, lambda s, r, e: fit(s, r, e, DELTA), cells, seeds)
    pure = [(REPLACE_ONE, epsilon) for epsilon in epsilons]
    scores.add_method(dataset, OURS_PURE, lambda s, r, e: fit(s, r, e, 0.0), pure, seeds)


def fit(split: Split, relation: str, epsilon: float, delta: float) -> np.ndarray:
    """Probabilities or numbers that the default estimator predicts for the test records."""
    warnings.filterwarnings("ignore", message="The noise ")  # is the subject of the table
    shared = {
        "data_norm": 1.0,
        "neighbouring": relation,
        "n_public": len(split.y) if relation == ADD_REMOVE else None,
        "random_state": split.seed,
    }
    if split.dataset.classes is not None:
        model = DPLogisticRegression(epsilon, delta, classes=split.dataset.classes, **shared)
        return model.fit(split.X, split.y).predict_proba(split.X_test)
    model = DPRidge(epsilon, delta, target_range=split.dataset.target_range, **shared)
    return model.fit(split.X, split.y).predict(split.X_test)


def summarise(table: pd.DataFrame) -> str:
    lost = table[(table["verdict"] == "below") & (table["ours"] == OURS)]
    lost = lost[lost["method"] == linear_peers.DP_SGD_BEST]
    columns = [*KEYS, "ours_mean", "mean", "difference", "difference_se"]
    return (
        f"Cells above, level with and below each peer\n{counts(table).to_string()}\n\n"
        f"Below tuned DP-SGD:\n{lost[columns].to_string(index=False)}"
    )


def plot(table: pd.DataFrame, path: Path) -> None:
    from matplotlib import pyplot as plt

    shown = table[table["metric"].isin(("accuracy", "R2")) & (table["epsilon"] != LIMIT)]
    names = list(shown["dataset"].unique())
    n_columns = min(4, len(names))
    n_rows = math.ceil(len(names) / n_columns)
    figure, axes = plt.subplots(
        n_rows, n_columns, figsize=(3.6 * n_columns, 3.0 * n_rows + 0.8), squeeze=False
    )
    styles = {
        OURS: "C0",
        linear_peers.DP_SGD_BEST: "C3",
        linear_peers.DP_SGD_FIXED: "C1",
        linear_peers.ADASSP: "C2",
        "DP-EBM": "C4",
    }
    for axis in axes.flat[len(names) :]:
        axis.set_visible(False)
    for axis, name in zip(axes.flat, names, strict=False):
        of_set = shown[shown["dataset"] == name]
        for method, color in styles.items():
            for relation, line in ((REPLACE_ONE, "-"), (ADD_REMOVE, "--")):
                curve = of_set[(of_set["method"] == method) & (of_set["relation"] == relation)]
                if len(curve):
                    axis.errorbar(
                        curve["epsilon"],
                        curve["mean"],
                        yerr=2.0 * curve["se"],
                        color=color,
                        linestyle=line,
                        linewidth=1,
                        label=f"{method}, {relation}",
                    )
        for method, line in ((linear_peers.NO_PRIVACY, "--"), (linear_peers.CONSTANT, "-.")):
            level = of_set.loc[of_set["method"] == method, "mean"]
            if len(level):
                axis.axhline(level.iloc[0], color="grey", linestyle=line, label=method)
        axis.set_xscale("log")
        axis.set_title(name, fontsize=9)
        axis.set_ylabel(of_set["metric"].iloc[0], fontsize=8)
        if of_set["metric"].iloc[0] == "R2":
            axis.set_ylim(bottom=-0.3)
    labels = dict(
        pair[::-1]
        for axis in axes.flat
        for pair in zip(*axis.get_legend_handles_labels(), strict=True)
    )
    figure.tight_layout(rect=(0, 0.8 / figure.get_figheight(), 1, 1))
    figure.legend(labels.values(), labels, loc="lower center", ncols=4, fontsize=7, frameon=False)
    figure.savefig(path, dpi=90)
    plt.close(figure)

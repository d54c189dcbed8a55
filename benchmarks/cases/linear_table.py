"""Default linear models against tuned DP-SGD, AdaSSP, DP-EBM and diffprivlib, seed by seed.

Every side gets the same records (rows of unit norm, prepared with public knowledge, see
``benchmarks/data.py``), the same 80/20 splits, and the neighbours of the cell. Ours are the default
estimators. The peers are in ``linear_peers.py`` and ``linear_apart.py``.

Files of scores, and what ``--only`` and ``--redraw`` fit: benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import data, linear_peers, models
from benchmarks.linear_page import losses, page, summary
from benchmarks.linear_protocol import (
    DELTA,
    EPSILONS,
    RELATIONS,
    REPLACE_ONE,
    Scores,
    Split,
    n_seeds,
    read,
)
from benchmarks.linear_report import OURS, OURS_PURE, compare

__all__ = ["page", "run", "summarise"]

FROM_SCORES = True


def run(options: argparse.Namespace) -> list[dict[str, Any]]:
    ours, peers = (options.out / f"linear_table_{side}.csv.gz" for side in ("skdp", "peers"))
    epsilons = (1.0,) if options.quick else EPSILONS
    of_task: dict[str, list[tuple[data.Dataset, dict[str, np.ndarray]]]] = {}
    given = (options.adult, options.california, options.quick)
    for dataset in () if options.redraw else data.load(*given):
        seeds, start = n_seeds(dataset, options.quick), time.perf_counter()
        if options.only in (None, "skdp"):
            add_ours(scores := Scores(), dataset, seeds, epsilons)
            scores.write(ours)
        if options.only in (None, "peers"):
            settings = settings_for(dataset.task, options.quick)
            found = linear_peers.add_peers(scores := Scores(), dataset, seeds, settings, epsilons)
            of_task.setdefault(dataset.task, []).append((dataset, found))
            scores.write(peers)
        seconds = time.perf_counter() - start
        message = f"linear_table: {dataset.name}, {seeds} seeds, {seconds:.0f} s"
        print(message, file=sys.stderr, flush=True)
    for task, of_sets in of_task.items():
        settings = settings_for(task, options.quick)
        linear_peers.add_other_sets(scores := Scores(), of_sets, settings, epsilons)
        if scores.rows:
            scores.write(peers)
    return compare(read(ours), read(peers)).to_dict("records")


def settings_for(task: str, quick: bool) -> tuple[linear_peers.Setting, ...]:
    return linear_peers.QUICK if quick else linear_peers.SETTINGS[task]


def add_ours(
    scores: Scores, dataset: data.Dataset, seeds: int, epsilons: tuple[float, ...]
) -> None:
    """Fit and score the default estimators, with delta = 0 too."""
    cells = [(relation, epsilon) for relation in RELATIONS for epsilon in epsilons]
    scores.add_method(dataset, OURS, lambda s, r, e: fit(s, r, e, DELTA), cells, seeds)
    pure = [(REPLACE_ONE, epsilon) for epsilon in epsilons]
    scores.add_method(dataset, OURS_PURE, lambda s, r, e: fit(s, r, e, 0.0), pure, seeds)


def fit(split: Split, relation: str, epsilon: float, delta: float) -> np.ndarray:
    """Probabilities or numbers that the default estimator predicts for the test records."""
    model = models.ours(split.dataset, epsilon, delta, relation, len(split.y), split.seed)
    return models.predictions(model.fit(split.X, split.y), split.X_test)


def summarise(table: pd.DataFrame) -> str:
    return f"{summary(table)}\n{losses(table)}"

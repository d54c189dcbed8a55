"""Means, paired differences and verdicts of the comparison of linear models."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from benchmarks.linear_peers import CONSTANT, DP_SGD_BEST, DP_SGD_OTHERS
from benchmarks.linear_protocol import KEYS, SIGNIFICANT
from benchmarks.tables import standard_error

OURS, OURS_PURE = "skdp", "skdp, delta=0"
ABOVE, LEVEL, BELOW = "above", "level", "below"
#: Peers with the guarantee of our models with delta = 0.
PURE = ("diffprivlib",)


def compare(ours: pd.DataFrame, peers: pd.DataFrame) -> pd.DataFrame:
    """One row per data set, relation, epsilon, method and metric.

    `difference` is the mean over seeds of our score minus the method's, or the other way
    round for the log loss, so that above 0 ours is better; `ours` says which of ours. Rows of ours
    have the difference to the constant instead.
    """
    table = pd.concat([ours, peers], ignore_index=True)
    order = {name: i for i, name in enumerate(table["dataset"].drop_duplicates())}
    found = {tuple(row[key] for key in KEYS): row for row in table.to_dict("records")}
    rows = []
    for (name, relation, epsilon, method, metric), row in found.items():
        scores = row["scores"]
        base = OURS_PURE if method in PURE else OURS
        mine = found.get((name, relation, epsilon, base, metric))
        out = {key: row[key] for key in KEYS}
        out |= {key: row[key] for key in ("n_train", "n_features", "setting")}
        out |= {"n_seeds": len(scores), "mean": scores.mean(), "se": standard_error(scores)}
        if mine is not None and method not in (OURS, OURS_PURE):
            out |= paired(mine["scores"], scores, metric) | {"ours": base}
        other = found.get((name, "", math.inf, CONSTANT, metric))
        if method == OURS and other is not None:
            difference = paired(scores, other["scores"], metric)
            out["over_constant"] = difference["difference"]
            out["over_constant_se"] = difference["difference_se"]
        if method == DP_SGD_OTHERS:  # beside its best setting per cell and score
            best = found[name, relation, epsilon, DP_SGD_BEST, metric]
            difference = paired(scores, best["scores"], metric)
            out["over_best"] = difference["difference"]
            out["over_best_se"] = difference["difference_se"]
        rows.append(out)
    result = pd.DataFrame(rows)
    for column in ("ours", "verdict"):
        result[column] = result.get(column, pd.Series(dtype=object)).fillna("")
    return result.sort_values(
        by=["dataset", "relation", "epsilon", "method", "metric"],
        key=lambda column: column.map(order) if column.name == "dataset" else column,
    )


def paired(mine: np.ndarray, theirs: np.ndarray, metric: str) -> dict[str, float | str]:
    """Mean difference of the seeds that both have, its standard error and the verdict."""
    n = min(len(mine), len(theirs))
    differences = (mine[:n] - theirs[:n]) * (-1.0 if metric == "log loss" else 1.0)
    mean, error = differences.mean(), standard_error(differences)
    verdict = LEVEL
    if abs(mean) > SIGNIFICANT * error:
        verdict = ABOVE if mean > 0 else BELOW
    return {
        "ours_mean": mine[:n].mean(),
        "difference": mean,
        "difference_se": error,
        "verdict": verdict,
    }


def tally(verdicts: pd.Series) -> str:
    if not len(verdicts):
        return ""
    return " / ".join(str((verdicts == verdict).sum()) for verdict in (ABOVE, LEVEL, BELOW))

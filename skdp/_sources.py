"""What estimators do with records where they are read: validation and encodings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from skdp._estimator import encode
from skdp._records import distinct_persons, validate_records
from skdp._runtime import without_warnings
from skdp.data.sources import Chunk, RecordSource
from skdp.problems.marks import MarkKey

#: Error of labels that were not declared.
UNKNOWN_LABELS = "y contains labels that are not in `classes`: declare all labels that can occur."
_ENCODED = (
    " Meta-estimators such as VotingClassifier, StackingClassifier, BaggingClassifier and "
    "CalibratedClassifierCV, and cross_val_predict(method='predict_proba'), may encode labels as "
    "0, ..., K - 1. Labels that are encoded before work in all of them: "
    "y = np.searchsorted(names, y) with the sorted names, and classes=range(K)."
)


@dataclass(frozen=True)
class ChunkCheck:
    """Validate a chunk like records in memory; return the number of features and their names."""

    y_numeric: bool = False

    def __call__(self, chunk: Chunk) -> tuple[int, tuple[str, ...] | None]:
        table = BaseEstimator()
        self.validate(table, chunk)
        names = getattr(table, "feature_names_in_", None)
        return table.n_features_in_, None if names is None else tuple(names.tolist())

    def validate(self, table: BaseEstimator, chunk: Chunk) -> None:
        """Validate rows and targets; tell `table` the columns."""
        options = {"ensure_min_samples": 0, **({"y_numeric": True} if self.y_numeric else {})}
        validate_records(table, chunk.X, chunk.y, accept_sparse="csr", **options)


@dataclass(frozen=True)
class PersonIds:
    """The ids of the persons of a chunk, texts as hashes."""

    key: MarkKey

    def __call__(self, k: int, source: RecordSource) -> np.ndarray:
        chunk = source.read(k)
        n = chunk.X.shape[0]
        if not n:
            return np.zeros(0, dtype=np.int64)
        try:
            return self.key.of_ids(distinct_persons(chunk.user_ids, n)[0])
        except ValueError as error:
            raise ValueError(f"{source.describe(k)}: {error}") from None


def _united(parts: list[np.ndarray]) -> np.ndarray:
    return np.unique(np.concatenate([part for part in parts if len(part)] or parts))


def number_of_units(source: RecordSource, sizes: Sequence[int]) -> int:
    """Return the number of records; if they have ids, that of persons, in a pass of its own."""
    first = next((k for k, size in enumerate(sizes) if size), None)
    if first is None or source.read(first).user_ids is None:
        return sum(sizes)
    return len(_united([source.reduce(PersonIds(MarkKey.drawn()), _united)]))


def distinct_labels(y: Any) -> np.ndarray:
    """Return the sorted labels of some records; refuse what are no labels of classes."""
    labels = column_or_1d(y)
    try:
        with without_warnings():  # of many distinct labels
            check_classification_targets(labels)
        return np.unique(labels)
    except TypeError:
        raise ValueError("y must have labels of one kind.") from None


@dataclass(frozen=True, eq=False)
class LabelCodes:
    """Positions of labels in the sorted `classes`; of two classes as numbers 0.0 and 1.0."""

    classes: np.ndarray

    def __call__(self, y: Any) -> np.ndarray:
        labels, k = np.asarray(y), len(self.classes)
        kind: Any = np.float64 if k == 2 else np.intp
        are_whole = labels.dtype.kind in "iu" and self.classes.dtype.kind in "iu"
        if are_whole and np.array_equal(self.classes, np.arange(k)):
            unsigned = labels.view(labels.dtype.str.replace("i", "u"))  # -1 is a large number
            if unsigned.max(initial=0) < k:
                return labels.astype(kind)  # they are their codes
        codes = encode(labels, self.classes, UNKNOWN_LABELS + _mismatch(labels, self.classes))
        return codes.astype(kind, copy=False)


def _mismatch(y: np.ndarray, classes: np.ndarray) -> str:
    """Say how the kinds of labels differ, if they do."""
    numeric = [labels.dtype.kind in "biuf" for labels in (y, classes)]
    text = ""
    if numeric[0] != numeric[1]:
        words = [("numbers" if is_numeric else "strings") for is_numeric in numeric]
        text = f" y holds {words[0]}, `classes` {words[1]}: declare the labels as they are in y."
    elif y.dtype.kind == "f" and (y != np.rint(y)).any():
        return " y holds fractional numbers: bin them by public edges, or use a regressor."
    are_codes = numeric[1] and np.array_equal(classes, np.arange(len(classes)))
    return text + (_ENCODED if y.dtype.kind in "iu" or are_codes else "")


@dataclass(frozen=True)
class ClippedTargets:
    """Numeric targets, clipped to a range and centered at its middle."""

    low: float
    high: float
    middle: float

    def __call__(self, y: Any) -> np.ndarray:
        targets = np.asarray(y, dtype=np.float64)
        return np.asarray(np.clip(targets, self.low, self.high) - self.middle)

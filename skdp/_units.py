"""Whose records are they, and how much does each weigh: `user_ids` and `sample_weight` of a fit.

The guarantee is then for a person with all its records, whose weights add up to 1 at most
(docs/theory/persons.md). Errors come before anything is computed and name no number of records.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdp._records import distinct_persons, has_column, refuse_kinds, without_column
from skdp._runtime import without_warnings
from skdp.problems.persons import person_starts, rows_of

#: Error of weights that leave no records.
NO_WEIGHT = "sample_weight is zero for all records."
#: Warning of a bound that was not declared.
NO_WEIGHT_BOUND = "weight_bound was not declared: sample_weight is clipped to 1."


class Persons:
    """Who the records of a table are of: an id and a code for each, and the `number` of persons."""

    def __init__(self, user_ids: Any, n_samples: int) -> None:
        names, self.codes = distinct_persons(user_ids, n_samples)
        self.ids = names[self.codes]
        self._order = np.argsort(self.codes, kind="stable")
        self._starts = person_starts(self.codes[self._order])
        self.number = len(self._starts) - 1

    def rows_of(self, units: np.ndarray) -> np.ndarray:
        """Return the positions of the records of some persons, person by person."""
        return self._order[rows_of(self._starts, units)]

    def codes_of(self, rows: np.ndarray) -> np.ndarray:
        """Return the persons of some rows as numbers from 0 on without a gap."""
        return np.unique(self.codes[rows], return_inverse=True)[1]


def take_user_ids(X: Any, user_ids: Any) -> tuple[Any, Any]:
    """Return X and ids; those that are named come from a column of X, which then is no feature."""
    if not isinstance(user_ids, str):
        return X, user_ids
    if not has_column(X, user_ids):
        remedy = "(In a pipeline X is what the steps before return: pass the values.)"
        if user_ids in list(getattr(getattr(X, "index", None), "names", ())):
            remedy = "It is a level of the index: call reset_index(), or pass its values."
        raise ValueError(f"user_ids == {user_ids!r} is no column of X. {remedy}")
    return without_column(X, user_ids), X[user_ids]


def refuse_id_features(columns: Iterable[tuple[Any, np.ndarray]], user_ids: Any) -> None:
    """Raise ValueError for a feature whose values are the ids of all records.

    It is an error about the input, before anything is computed, and names no value. A feature of
    two or more values equals the ids of all records by chance in the smallest tables only.
    """
    ids = np.asarray(user_ids)
    if not (ids != ids[:1]).any():
        return
    for name, values in columns:
        if _are_equal(values[:1], ids[:1]) and _are_equal(values, ids):
            raise ValueError(
                f"Column {name!r} of X has the ids that are given as user_ids: it is no feature. "
                "Leave it out, or name it: user_ids=..."
            )


def _are_equal(values: np.ndarray, ids: np.ndarray) -> bool:
    """Whether values are ids, as numbers or as text."""
    if values.dtype.kind in "biuf" and ids.dtype.kind in "iu":
        return bool(np.array_equal(values, ids))
    return bool(np.array_equal(values.astype(str), ids.astype(str)))


@dataclass(frozen=True)
class ClippedWeights:
    """Weights of a chunk over their public bound, clipped to [0, 1]."""

    bound: float

    def __call__(self, sample_weight: Any) -> np.ndarray:
        return record_weights(sample_weight, self.bound, len(sample_weight))


@without_warnings()
def record_weights(sample_weight: Any, bound: float, n_samples: int) -> np.ndarray:
    """Return weights, finite numbers >= 0, over their public bound, clipped to [0, 1]."""
    refuse_kinds("sample_weight", sample_weight, "mMcSU")
    try:
        weights = np.asarray(sample_weight)
        if weights.dtype == object and any(isinstance(w, (str, bytes)) for w in weights.flat):
            raise TypeError("float() reads text.")
        weights = weights.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError("sample_weight must be numbers.") from None
    if weights.ndim == 0:
        weights = np.full(n_samples, float(weights))
    if weights.ndim != 1:
        raise ValueError("Sample weights must be 1D array or scalar.")
    if len(weights) != n_samples:
        raise ValueError("sample_weight has another length than X.")
    if not (weights >= 0.0).all() or np.isinf(weights).any():
        raise ValueError("sample_weight must be finite and >= 0, without missing values.")
    return np.minimum(weights, bound) / bound  # a quotient of huge weights is beyond doubles

"""How a chunk of raw rows becomes bounded records, where it is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_array, column_or_1d

from skdp._records import refuse_without_values
from skdp.data.sources import Chunk
from skdp.problems.marks import MarkKey, Positions, as_numbers
from skdp.problems.records import Records

#: From targets, groups or weights of records, of which there may be none, to their encoding.
Encoder = Callable[[Any], np.ndarray]
#: From ids of persons of a chunk, and its number of records, to sorted ids and codes.
Persons = Callable[[Any, int], tuple[np.ndarray, np.ndarray]]


class Encoded(NamedTuple):
    """What a chunk is in numbers, from which bounded records are made."""

    X: Any
    targets: Any = None
    groups: Any = None
    weights: Any = None
    #: Codes of the persons of the chunk, from 0 on without a gap.
    persons: Any = None
    #: Ids of the persons, by their codes.
    ids: Any = None
    #: Numbers for the table that X was computed from.
    unmapped: Any = None

    def marks(self, key: MarkKey, positions: Positions) -> np.ndarray:
        """Return the marks of the records as they were read."""
        X = self.X if self.unmapped is None else self.unmapped
        persons = None
        if self.persons is not None:
            hashed = key.of_ids(self.ids)
            persons = hashed.view(np.int64).reshape(len(hashed), -1)[:, 0][self.persons]
        return key.marks(X, self.targets, self.groups, positions, self.weights, persons)


@dataclass(frozen=True, kw_only=True)
class Bounding:
    """How a chunk becomes bounded records: public numbers and declared names."""

    #: As of :class:`Records`.
    data_norm: float
    intercept: float
    targets: Encoder
    #: None if the source has none.
    groups: Encoder | None = None
    #: None if the source has none, and before that is known.
    weights: Encoder | None = None
    #: None if the source has no ids.
    persons: Persons | None = None
    #: As of :meth:`Records.of_persons`.
    max_records: int | None = None
    #: Each from bounded records to a view of them.
    views: tuple[Callable[[Records], Records], ...] = ()

    def encoded(self, chunk: Chunk) -> Encoded:
        """Return a chunk in numbers: what marks are of."""
        with refuse_without_values():
            X, y, dtypes = chunk.X, chunk.y, [np.float64, np.float32]
            if not (isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype in dtypes):
                X = check_array(
                    X,
                    accept_sparse="csr",
                    dtype=dtypes,
                    ensure_all_finite=False,
                    ensure_min_samples=0,
                )
            y = y if isinstance(y, np.ndarray) and y.ndim == 1 else column_or_1d(y)
            groups = None if self.groups is None else self.groups(chunk.groups)
            weights = chunk.sample_weight
            if weights is not None and self.weights is not None:
                weights = self.weights(weights)
            unmapped = None if chunk.unmapped is None else as_numbers(chunk.unmapped)
            return self.of_persons(chunk, X)._replace(
                targets=self.targets(y), groups=groups, weights=weights, unmapped=unmapped
            )

    def of_persons(self, chunk: Chunk, X: Any) -> Encoded:
        """Return X with the persons of a chunk, where it has ids."""
        if chunk.user_ids is None or self.persons is None:
            return Encoded(X)
        ids, persons = self.persons(chunk.user_ids, X.shape[0])
        return Encoded(X, persons=persons, ids=ids)

    def nothing(self, X: Any) -> Encoded:
        """Return no records in numbers; X has no rows."""
        encoders = self.targets, self.groups, self.weights
        targets, groups, weights = (each and each(np.zeros(0)) for each in encoders)
        persons = None if self.persons is None else np.zeros(0, dtype=np.intp)
        return Encoded(X, targets, groups, weights, persons)

    def records(self, encoded: Encoded) -> Records:
        """Return the bounded records of what was encoded."""
        X, targets, groups = encoded[:3]
        records = Records(X, self.data_norm, self.intercept, targets=targets, groups=groups)
        records = records.of_units(encoded.weights, encoded.persons, self.max_records)
        for view in self.views:
            records = view(records)
        return records

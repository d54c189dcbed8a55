"""Columns in their ranges, of records in memory or of a source, for what is released of columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from skdp._records import distinct_persons, validate_array, validate_records
from skdp._sources import ChunkCheck
from skdp.algorithms.statistics.columns import Columns
from skdp.data.collections import as_source, first_rows
from skdp.data.sources import Chunk
from skdp.preprocessing.ranges import ranges_per_feature, to_unit_interval
from skdp.problems.bounding import Bounding, Encoded
from skdp.problems.chunked_records import ChunkedRecords
from skdp.problems.surveys import Surveyor


@dataclass(frozen=True, kw_only=True, eq=False)
class UnitColumns(Bounding):
    """Rows whose columns are clipped to their ranges and mapped to [-1, 1]."""

    ranges: np.ndarray
    #: Makes a further column in [-1, 1] of the targets.
    last: Callable[[Any], np.ndarray] | None = None
    data_norm: float = 1.0
    intercept: float = 0.0
    targets: Any = None

    def encoded(self, chunk: Chunk) -> Encoded:
        X = to_unit_interval(validate_array(chunk.X), self.ranges)
        if self.last is not None:
            X = np.column_stack([X, self.last(chunk.y)])
        return self.of_persons(chunk, X)

    def records(self, encoded: Encoded) -> Any:
        return encoded.X, encoded.persons


class UnitRows:
    """Rows in memory of which a slice is mapped to [-1, 1] when it is read; none are copied."""

    def __init__(self, rows: np.ndarray, ranges: np.ndarray) -> None:
        self._rows, self._ranges, self.shape = rows, ranges, rows.shape

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, part: tuple[slice, slice]) -> np.ndarray:
        return to_unit_interval(self._rows[part], self._ranges[part[1]])


class ColumnCheck(ChunkCheck):
    """Validate the rows of a chunk alone."""

    def validate(self, table: BaseEstimator, chunk: Chunk) -> None:
        validate_records(table, chunk.X, ensure_min_samples=0)


@contextmanager
def unit_columns(
    table: Any, X: Any, user_ids: Any, name: str, last: Any = None, **options: Any
) -> Iterator[tuple[Columns, tuple[int, int]]]:
    """Open X and yield its columns in the ranges of `table`, and its numbers of units and features.

    `table` has the parameter `ranges`, and gets ``ranges_``, ``n_features_in_`` and names. Of a
    source, whose passes have a `name`, `last` makes a further column of the targets; `options` are
    those of :class:`~skdp.problems.surveys.Surveyor`.
    """
    source = as_source(X, user_ids=user_ids)
    least = int(not options.get("may_be_empty", False))
    rows = X if source is None else first_rows(source, not least)
    rows = validate_records(table, rows, ensure_min_samples=least)
    table.ranges_ = ranges_per_feature(table)
    if source is None:
        persons = None if user_ids is None else distinct_persons(user_ids, len(rows))[1]
        n_units = len(rows) if persons is None else int(persons.max()) + 1
        yield (UnitRows(rows, table.ranges_), persons), (n_units, rows.shape[1])
        return
    with source.opened() as opened:
        surveyor = Surveyor(
            opened,
            source.feature_names,
            check=ColumnCheck(),
            has_targets=last is not None,
            name=name,
            **{"units": ("user_ids",), **options},
        )
        bounding = UnitColumns(ranges=table.ranges_, last=last, persons=distinct_persons)
        survey = surveyor.survey(bounding)
        if survey.n_persons is None:
            bounding = replace(bounding, persons=None)
        records = ChunkedRecords(opened, survey, bounding, name)
        yield (records, None), (records.n_units, survey.shape.n_features)

"""A table to be fitted, in memory or in chunks."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from skdp._records import distinct_persons
from skdp._sources import LabelCodes, number_of_units
from skdp._units import refuse_id_features
from skdp.algorithms.statistics.columns import Columns
from skdp.data.collections import chunk_sizes, first_rows
from skdp.data.sources import RecordSource
from skdp.preprocessing import BoundedScaler
from skdp.preprocessing.columns_of_sources import unit_columns
from skdp.tabular.frames import Table
from skdp.tabular.matching import matched, parts_of
from skdp.tabular.rank_maps import N_BINS, bins_of
from skdp.tabular.table_encoder import TableEncoder, table_of


@dataclass
class TableInMemory:
    """A frame or an array, checked."""

    first: Table
    y: Any
    user_ids: Any
    sample_weight: Any
    persons: np.ndarray | None

    @classmethod
    def of(cls, model: Any, X: Any, y: Any, user_ids: Any, sample_weight: Any) -> TableInMemory:
        """Check the input of a fit."""
        if y is None:
            raise ValueError(
                f"This {type(model).__name__} estimator requires y to be passed, but the target y "
                "is None."
            )
        table = table_of(model, X, reset=True, least=int(not model._may_be_empty))
        persons = None
        if user_ids is not None:
            persons = distinct_persons(user_ids, table.n_rows)[1]
            found = matched(model.columns, table, model.columns_left)
            columns = ((column.name, table.column(column.position)) for column in found)
            refuse_id_features(columns, user_ids)
        return cls(table, y, user_ids, sample_weight, persons)

    @property
    def n_units(self) -> int:
        if self.persons is None:
            return self.first.n_rows
        return int(self.persons.max(initial=-1)) + 1

    @property
    def is_of_persons(self) -> bool:
        return self.persons is not None

    def encoded(self, encoder: TableEncoder) -> Any:
        """Return the features of the rows."""
        return encoder._encode(self.first)

    def blank(self, encoder: TableEncoder) -> Any:
        """Read all values, for errors, and return rows of as many features without any."""
        for _ in encoder._read(self.first):
            pass
        return sp.csr_matrix((self.first.n_rows, encoder.row_features.n_features))

    def bins(self, bins: Bins, labels: LabelCodes | None) -> AbstractContextManager[Columns]:
        """Open the bins of numbers, and the labels."""
        found = bins.of(self.first)
        if labels is not None:
            codes = np.minimum(labels(np.asarray(self.y)), N_BINS).astype(np.int16)
            found = np.column_stack([found, codes])
        return nullcontext((found, self.persons))

    def arguments(self, rows: Any) -> tuple[Any, ...]:
        """Return those of the fit of a model of the rows."""
        return rows, self.y, None, (self.user_ids, self.sample_weight)


@dataclass(frozen=True)
class TableInChunks:
    """A source whose rows are encoded where they are read, with the same methods."""

    source: RecordSource
    sizes: Sequence[int]
    first: Table
    n_units: int
    model: Any

    @classmethod
    def of(cls, model: Any, source: RecordSource) -> TableInChunks:
        """Look at the first rows of a source."""
        sizes, least = chunk_sizes(source), int(not model._may_be_empty)
        table = table_of(model, first_rows(source, not least), reset=True, least=least)
        return cls(source, sizes, table, number_of_units(source, sizes), model)

    @property
    def is_of_persons(self) -> bool:
        # of no records, too: whether there are any is private under add/remove
        first = next((k for k, size in enumerate(self.sizes) if size), 0)
        return self.source.read(first).user_ids is not None

    def _mapped(self, transformer: Any) -> RecordSource:
        rows = self.source.map(transformer)
        rows.chunk_sizes = self.sizes
        return rows

    def encoded(self, encoder: TableEncoder) -> RecordSource:
        return self._mapped(encoder)

    def blank(self, encoder: TableEncoder) -> RecordSource:
        return self._mapped(_Blank(encoder))

    @contextmanager
    def bins(self, bins: Bins, labels: LabelCodes | None) -> Iterator[Columns]:
        rows, name = self._mapped(bins), type(self.model).__name__
        options = {
            "units": ("user_ids", "sample_weight"),
            "may_be_empty": self.model._may_be_empty,
            "last": None if labels is None else _LabelPlaces(labels),
        }
        ranges = BoundedScaler((0.0, float(bins.n_bins)))
        with unit_columns(ranges, rows, None, name, **options) as (columns, _):
            yield columns

    def arguments(self, rows: Any) -> tuple[Any, ...]:
        return rows, None


@dataclass(frozen=True)
class _Reader:
    """What a source asks of a transformer."""

    encoder: TableEncoder

    @property
    def feature_names_in_(self) -> np.ndarray:
        return self.encoder.feature_names_in_


class _Blank(_Reader):
    """Read the rows of a chunk, for errors, and return as many without values."""

    def get_feature_names_out(self) -> range:
        return range(self.encoder.row_features.n_features)

    def transform(self, X: Any) -> Any:
        table = table_of(self.encoder, X, reset=False)
        for _ in self.encoder._read(table):
            pass
        return np.zeros((table.n_rows, self.encoder.row_features.n_features), np.float32)


@dataclass(frozen=True)
class Bins(_Reader):
    """The bins of numbers of a table, of some columns."""

    columns: Container[Any]
    n_bins: int = N_BINS

    def get_feature_names_out(self) -> list[int]:
        given = self.encoder.schema_.items()
        parts = parts_of({name: each for name, each in given if name in self.columns})
        return [k for k, part in enumerate(parts) if part.kind == "number"]

    def of(self, table: Table) -> np.ndarray:
        numbers = self.get_feature_names_out()
        found = np.empty((table.n_rows, len(numbers)), dtype=np.int16)
        for rows, values in self.encoder._read(table, only=self.columns):
            for j, k in enumerate(numbers):
                found[rows, j] = bins_of(values[k], self.n_bins)
        return found

    def transform(self, X: Any) -> np.ndarray:
        return self.of(table_of(self.encoder, X, reset=False)).astype(np.float32)


@dataclass(frozen=True)
class _LabelPlaces:
    """Return the codes of labels as bins, in [-1, 1]."""

    labels: LabelCodes

    def __call__(self, y: Any) -> np.ndarray:
        codes = np.minimum(self.labels(y), N_BINS)
        return np.asarray(2.0 * codes / N_BINS - 1.0)

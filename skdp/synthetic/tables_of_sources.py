"""Categorical tables of sources of records, coded where they are read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from sklearn.base import BaseEstimator

from skdp._records import distinct_persons
from skdp._sources import ChunkCheck
from skdp._units import NO_WEIGHT, ClippedWeights
from skdp.data.sources import Chunk, RecordSource
from skdp.problems import CategoricalRecords
from skdp.problems.bounding import Bounding, Encoded
from skdp.problems.categorical import CategoricalChunks
from skdp.problems.chunked_records import ChunkedRecords
from skdp.problems.surveys import Surveyor
from skdp.synthetic.tables import (
    Categories,
    distinct_values,
    encode,
    ordered_categories,
    refuse_floats,
    validated,
)

_NAME = "DPSyntheticData"


@dataclass(frozen=True)
class TableCheck(ChunkCheck):
    """Validate the table of a chunk."""

    allow_nan: bool = False

    def validate(self, table: BaseEstimator, chunk: Chunk) -> None:
        validated(table, chunk.X, allow_nan=self.allow_nan, reset=True)


@dataclass(frozen=True, kw_only=True, eq=False)
class CodedTable(Bounding):
    """Values as the positions of their categories, with weights and persons; nothing else."""

    categories: Categories
    names: tuple[Any, ...]
    #: Number of persons, or of records, of the whole source; None before it is known.
    n_units: int | None = None
    data_norm: float = 1.0
    intercept: float = 0.0
    targets: Any = None

    def encoded(self, chunk: Chunk) -> Encoded:
        encoded = self.of_persons(chunk, encode(chunk.X, self.categories, self.names))
        if chunk.sample_weight is None or self.weights is None:
            return encoded
        return encoded._replace(weights=self.weights(chunk.sample_weight))

    def records(self, encoded: Encoded) -> Any:
        records = CategoricalRecords(encoded.X, tuple(map(len, self.categories)))
        return records.of_units(encoded.weights, encoded.persons, self.n_units)


@dataclass(frozen=True)
class DistinctValues:
    """Collect the values of each column of a chunk; this is not private."""

    names: tuple[Any, ...]
    pass_number: int = 0
    name: str = _NAME

    def __call__(self, k: int, source: RecordSource) -> list[set[Any]]:
        X = source.read(k).X
        if not X.shape[0]:
            return [set() for _ in self.names]
        try:
            X = validated(BaseEstimator(), X, allow_nan=False, reset=True)
            refuse_floats(X, self.names)
            return distinct_values(X)
        except ValueError as error:
            raise type(error)(f"{source.describe(k)}: {error}") from None


def _joined(parts: list[list[set[Any]]]) -> list[set[Any]]:
    return [set().union(*columns) for columns in zip(*parts, strict=True)]


def inferred_from_source(source: RecordSource, names: tuple[Any, ...]) -> Categories:
    """Collect the categories of each column in a pass of its own; this is not private."""
    return ordered_categories(source.reduce(DistinctValues(names), _joined))


def coded_chunks(
    source: RecordSource,
    categories: Categories,
    names: tuple[Any, ...],
    allow_nan: bool,
    weight_bound: float,
) -> CategoricalChunks:
    """Survey a source; return its records as codes."""
    has_names = source.feature_names
    surveyor = Surveyor(
        source,
        has_names,
        check=TableCheck(allow_nan=allow_nan),
        has_targets=False,
        units=("user_ids", "sample_weight"),
        name=_NAME,
    )
    weights = ClippedWeights(weight_bound)
    bounding = CodedTable(
        categories=categories, names=names, weights=weights, persons=distinct_persons
    )
    survey = surveyor.survey(bounding)
    if survey.shape.is_weighted and not survey.has_weight:
        raise ValueError(NO_WEIGHT)
    bounding = replace(
        bounding,
        weights=weights if survey.shape.is_weighted else None,
        persons=None if survey.n_persons is None else distinct_persons,
        n_units=survey.n_records if survey.n_persons is None else survey.n_persons,
    )
    records = ChunkedRecords(source, survey, bounding, _NAME)
    return CategoricalChunks(records, tuple(map(len, categories)))

"""The first pass over a source: is it what it says, how large is it, and what are its marks.

Invalid records are refused here, before anything is computed or charged. Later passes have to find
the records of this one (:mod:`skdp.problems.chunked_records`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from skdp._runtime import without_warnings
from skdp.data.sources import Chunk, RecordSource
from skdp.problems.bounding import Bounding
from skdp.problems.marks import MODULUS, MarkKey, total_mark


class Shape(NamedTuple):
    """What is known of a table, and has to be the same in every chunk."""

    n_features: int
    names: tuple[str, ...] | None
    is_sparse: bool
    dtype: str
    is_weighted: bool
    #: "" without ids of persons.
    kind_of_ids: str


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What was seen of consecutive chunks."""

    #: Numbers of records.
    sizes: tuple[int, ...]
    #: None if there are no records.
    shape: Shape | None = None
    #: The first chunk with records.
    where: str = ""
    #: The distinct ones, if they were asked for.
    labels: np.ndarray | None = None
    groups: np.ndarray | None = None
    #: None if positions or encodings were not known.
    mark: int | None = 0
    #: Ids of the persons in each chunk, texts as hashes.
    persons: np.ndarray | None = None
    has_weight: bool = False


@dataclass(frozen=True, kw_only=True)
class SurveyTask:
    """Validate a chunk and describe it."""

    #: From a chunk to the number of its features and their names or None; raises ValueError.
    check: Callable[[Chunk], tuple[int, tuple[str, ...] | None]]
    key: MarkKey
    #: Position of the first record of each chunk; None before they are counted.
    starts: tuple[int, ...] | None
    #: None before labels are known.
    bounding: Bounding | None
    #: Return the distinct targets and groups of a chunk.
    labels: Callable[[Any], np.ndarray] | None = None
    groups: Callable[[Any], np.ndarray] | None = None
    #: Whether the source must have targets and groups.
    has_targets: bool = True
    has_groups: bool = False
    #: Which of "user_ids" and "sample_weight" the source may have.
    units: tuple[str, ...] = ()
    pass_number: int = 1
    name: str = "skdp"

    def __call__(self, k: int, source: RecordSource) -> Seen:
        chunk = source.read(k)
        n = chunk.X.shape[0]
        where = source.describe(k)
        if self.starts is not None and self.starts[k + 1] - self.starts[k] != n:
            raise ValueError(f"{where} has {n} rows, and not those that the source states.")
        if not n:
            return Seen(sizes=(0,))
        try:
            with without_warnings():
                return self._seen(k, where, chunk)
        except (TypeError, ValueError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"{where}: {error}") from None

    def _seen(self, k: int, where: str, chunk: Chunk) -> Seen:
        n = chunk.X.shape[0]
        for name in ("user_ids", "sample_weight"):
            if getattr(chunk, name) is not None and name not in self.units:
                raise ValueError(f"{name} need all records in memory here.")
        for name, column, is_needed in (
            ("targets", chunk.y, self.has_targets),
            ("groups", chunk.groups, self.has_groups),
            ("user_ids", chunk.user_ids, False),
            ("sample_weight", chunk.sample_weight, False),
        ):
            if is_needed and column is None:
                raise ValueError(f"the source has no {name}.")
            if column is not None and len(column) != n:
                raise ValueError(f"{n} rows, but {len(column)} {name}.")
        width, names = self.check(chunk)
        labels = _distinct(self.labels, chunk.y)
        groups = _distinct(self.groups, chunk.groups)
        mark, kind, persons, has_weight = None, "<f8", None, False
        if self.bounding is not None:
            encoded = self.bounding.encoded(chunk)
            kind = encoded.X.dtype.str
            has_weight = encoded.weights is not None and bool(encoded.weights.any())
            if encoded.ids is not None:
                persons = self.key.of_ids(encoded.ids)
            if self.starts is not None:
                positions = range(self.starts[k], self.starts[k + 1])
                mark = total_mark(encoded.marks(self.key, positions))
        return Seen(
            sizes=(n,),
            shape=Shape(
                width,
                names,
                bool(sp.issparse(chunk.X)),
                kind,
                chunk.sample_weight is not None,
                "" if persons is None else persons.dtype.kind,
            ),
            where=where,
            labels=labels,
            groups=groups,
            mark=mark,
            persons=persons,
            has_weight=has_weight,
        )


def joined(parts: list[Seen]) -> Seen:
    """Join what was seen of consecutive chunks; refuse tables that do not fit each other."""
    first = next((part for part in parts if part.shape is not None), parts[0])
    for part in parts:
        if part.shape is not None and first.shape is not None:
            _refuse_other(first.shape, part.shape, part.where)
    marks = [part.mark for part in parts if part.mark is not None]
    persons = [part.persons for part in parts if part.persons is not None]
    return replace(
        first,
        sizes=tuple(size for part in parts for size in part.sizes),
        labels=_union([part.labels for part in parts]),
        groups=_union([part.groups for part in parts]),
        mark=sum(marks) % MODULUS if len(marks) == len(parts) else None,
        persons=np.concatenate(persons) if persons else None,
        has_weight=any(part.has_weight for part in parts),
    )


def _refuse_other(first: Shape, other: Shape, where: str) -> None:
    if first == other:
        return
    kinds = [("CSR" if shape.is_sparse else "dense") for shape in (first, other)]
    texts = {
        "is_sparse": f"is {kinds[1]}, the ones before are {kinds[0]}",
        "n_features": f"has {other.n_features} features, the ones before have {first.n_features}",
        "names": "has other names of features, or in another order",
        "dtype": "has numbers of another precision",
        "is_weighted": "differs from the ones before in having sample_weight",
        "kind_of_ids": "has user_ids of another kind, or unlike the ones before it has none",
    }
    for name, text in texts.items():
        if getattr(first, name) != getattr(other, name):
            raise ValueError(f"{where} {text}.")


def _distinct(function: Callable[[Any], np.ndarray] | None, column: Any) -> np.ndarray | None:
    return None if function is None or column is None else function(column)


def _union(parts: list[np.ndarray | None]) -> np.ndarray | None:
    known = [part for part in parts if part is not None]
    if not known:
        return None
    numeric = {part.dtype.kind in "biuf" for part in known}
    if len(numeric) > 1:
        raise ValueError("labels of some chunks are numbers, those of others are not.")
    return np.unique(np.concatenate(known))


@dataclass(frozen=True, kw_only=True)
class Survey:
    """What the first pass found, and every later one has to find."""

    #: Position of the first record of each chunk, and the number of all.
    starts: tuple[int, ...]
    shape: Shape
    key: MarkKey
    #: Of all records.
    mark: int
    #: Number of passes that it took.
    n_passes: int
    #: Whether some weight is not zero.
    has_weight: bool = False
    #: Number of persons; None without ids.
    n_persons: int | None = None

    @property
    def n_records(self) -> int:
        """Number of records."""
        return self.starts[-1]


class Surveyor:
    """Make the one or two passes of a survey over an open source."""

    def __init__(
        self,
        source: RecordSource,
        names: Sequence[str] | None = None,  # of features whose chunks are no frames
        may_be_empty: bool = False,
        **parts: Any,
    ) -> None:
        sizes = source.chunk_sizes
        starts = None if sizes is None else _starts(sizes)
        self.source, self._names = source, names
        self._task = SurveyTask(key=MarkKey.drawn(), starts=starts, bounding=None, **parts)
        self._n_passes, self._may_be_empty = 0, may_be_empty

    @cached_property
    def seen(self) -> Seen:
        """What was found before encodings are known, in a pass of its own."""
        return self._pass(self._task)

    def survey(self, bounding: Bounding) -> Survey:
        """Survey the records, with encodings."""
        task = replace(self._task, bounding=bounding, labels=None, groups=None)
        if self._n_passes:  # positions are known now
            task = replace(task, starts=_starts(self.seen.sizes))
        found = self._pass(task)
        if found.mark is None:
            found = self._pass(replace(task, starts=_starts(found.sizes)))
        assert found.shape is not None
        assert found.mark is not None
        _refuse_divided(found.persons)
        names = found.shape.names if self._names is None else tuple(self._names)
        n_persons = 0 if found.persons is None else len(found.persons)
        return Survey(
            starts=_starts(found.sizes),
            shape=found.shape._replace(names=names),
            key=self._task.key,
            mark=found.mark,
            n_passes=self._n_passes,
            has_weight=found.has_weight,
            n_persons=n_persons if found.shape.kind_of_ids else None,
        )

    def _pass(self, task: SurveyTask) -> Seen:
        self._n_passes += 1
        found: Seen = self.source.reduce(replace(task, pass_number=self._n_passes), joined)
        if found.shape is not None:
            return found
        if not self._may_be_empty:
            raise ValueError("Found a source with 0 records while a minimum of 1 is required.")
        return replace(found, shape=self._shape_of_nothing())

    def _shape_of_nothing(self) -> Shape:
        """Read the shape of a table off its first chunk, which is empty."""
        chunk = self.source.read(0)
        width, names = self._task.check(chunk)
        has_ids, has_weights = chunk.user_ids is not None, chunk.sample_weight is not None
        return Shape(width, names, bool(sp.issparse(chunk.X)), "<f8", has_weights, "i" * has_ids)


def _refuse_divided(persons: np.ndarray | None) -> None:
    """Raise ValueError if there are records of one person in two chunks."""
    if persons is not None and len(np.unique(persons)) < len(persons):
        raise ValueError(
            "The records of a person must be in one chunk, and those of some are in several. "
            "Arrays and files: sort them by user_ids. ParquetRecords: scratch=... makes a sorted "
            "copy. Dask: persist frame.shuffle(on=...)."
        )


def _starts(sizes: Any) -> tuple[int, ...]:
    return tuple(accumulate((int(size) for size in sizes), initial=0))

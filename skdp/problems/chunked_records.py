"""Bounded records of a source: sums over chunks that are read when they are needed.

What is sent to where the records are is a :class:`ChunkTask`: released weights and public numbers.
What comes back is a sum, and the count and the mark of the records that it is of. Both are compared
with those of the first pass before the sum is used, so that no engine has to be trusted to count
every record once (docs/theory/scale.md).
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from skdp._runtime import without_warnings
from skdp.data.sources import (
    DataError,
    RecordsChangedError,
    RecordSource,
    failed_chunk,
)
from skdp.problems.block import Block
from skdp.problems.bounding import Bounding
from skdp.problems.losses import Loss
from skdp.problems.marks import MODULUS, MarkKey, total_mark
from skdp.problems.records import Part, Records
from skdp.problems.surveys import Survey

#: Chunks that the bound on the rounding of sums has levels for.
MOST_CHUNKS = 1 << 28
#: Times that a pass is made before its records are refused.
_TRIES = 2


@dataclass(frozen=True)
class Partial:
    """A sum over some records, with their number and mark; `sums` is None without records."""

    count: int
    mark: int
    sums: Any


def merged(parts: list[Partial]) -> Partial:
    """Add some parts. They are not written to: an engine may merge them once more."""
    sums = None
    for part in parts:
        if part.sums is not None:
            sums = part.sums if sums is None else _added(sums, part.sums)
    mark = sum(part.mark for part in parts) % MODULUS
    return Partial(sum(part.count for part in parts), mark, sums)


def _added(first: Any, second: Any) -> Any:
    if isinstance(first, tuple):
        return tuple(map(_added, first, second))
    return first + second


@dataclass(frozen=True, kw_only=True)
class ChunkTask:
    """Sum a function of bounded records over all of them; what leaves the driver."""

    bounding: Bounding
    key: MarkKey
    #: Position of the first record of each chunk, and the number of all.
    starts: tuple[int, ...]
    #: From :class:`Records` to a number, an array or a tuple of these.
    function: Callable[[Records], Any]
    pass_number: int
    #: On dashboards.
    name: str = "skdp"

    def __call__(self, k: int, source: RecordSource) -> Partial:
        with without_warnings():  # they depend on records; settings of numpy belong to a thread
            positions = range(self.starts[k], self.starts[k + 1])
            if not len(positions):
                return Partial(0, 0, None)
            chunk = source.read(k)
            encoded = self.bounding.encoded(chunk)
            if encoded.X.shape[0] != len(positions):
                raise RecordsChangedError("A chunk has another number of records than before.")
            mark = total_mark(encoded.marks(self.key, positions))
            return Partial(len(positions), mark, self.function(self.bounding.records(encoded)))


@dataclass(frozen=True)
class RecordCall:
    """A method of bounded records, called with public and released arguments."""

    name: str
    arguments: tuple[Any, ...]

    def __call__(self, records: Records) -> Any:
        return getattr(records, self.name)(*self.arguments)


def _of_records(name: str) -> Any:
    """Forward an attribute to the bounded records of no record: it is public."""
    return property(lambda self: getattr(self._empty(), name))


class ChunkedRecords:
    """Bounded records of an open source: the part of :class:`Records` that sums need."""

    in_memory = False
    factors = None
    #: As of :class:`Records`; what there is one of for each record is that of no records.
    targets, groups = map(_of_records, ("targets", "groups"))
    persons, shares, is_slack = map(_of_records, ("persons", "shares", "is_slack"))
    data_norm, intercept = map(_of_records, ("data_norm", "intercept"))
    width, norm_bound, block_size = map(_of_records, ("width", "norm_bound", "block_size"))
    n_features = property(lambda self: self._survey.shape.n_features)
    is_weighted = property(lambda self: self._survey.shape.is_weighted)
    is_sparse = property(lambda self: self._survey.shape.is_sparse)
    n_records = property(lambda self: self._survey.n_records)

    def __init__(
        self, source: RecordSource, survey: Survey, bounding: Bounding, name: str = "skdp"
    ) -> None:
        if source.n_chunks > MOST_CHUNKS:
            raise ValueError(f"{source.n_chunks} chunks: at most {MOST_CHUNKS} are summed.")
        self._source, self._survey, self._bounding = source, survey, bounding
        self.name = name
        #: Number of passes so far, that of the survey included; shared by all views.
        self._passes = [survey.n_passes]
        rows = np.zeros((0, survey.shape.n_features), dtype=survey.shape.dtype)
        self._no_rows = sp.csr_array(rows) if self.is_sparse else rows

    def _empty(self) -> Records:
        """Return bounded records without a record: all else of them is public."""
        return self._bounding.records(self._bounding.nothing(self._no_rows))

    @property
    def has_persons(self) -> bool:
        """Whether it is known whose record each is."""
        return self._survey.n_persons is not None

    @property
    def n_units(self) -> int:
        """As of :class:`Records`."""
        persons = self._survey.n_persons
        return self._survey.n_records if persons is None else persons

    def _bounded(self, **changes: Any) -> ChunkedRecords:
        other = copy.copy(self)
        other._bounding = replace(self._bounding, **changes)
        return other

    def with_intercept(self, intercept: float) -> ChunkedRecords:
        """Replace the value of the intercept feature."""
        return self._bounded(intercept=intercept)

    def viewed(self, view: Callable[[Records], Records]) -> ChunkedRecords:
        """View the bounded records of every chunk, on top of earlier views."""
        return self._bounded(views=(*self._bounding.views, view))

    def check_targets(self, loss: Loss) -> None:
        """Do nothing: the encoding of the targets is that of the loss."""

    def read_only_copy(self) -> ChunkedRecords:
        """Copy the object: nobody has the records."""
        return copy.copy(self)

    def total(self, statistic: Callable[[Block], Any], part: Part = slice(None)) -> Any:
        """As :meth:`Records.total`, over all records."""
        if not (isinstance(part, slice) and part == slice(None)):
            raise NotImplementedError("Sums over chunks are of all records.")
        return self.chunk_total(RecordCall("total", (statistic,)))

    def gram(self, curvature: Callable[[Block], np.ndarray], n_outputs: int = 1) -> Any:
        """As :meth:`Records.gram`."""
        return self.chunk_total(RecordCall("gram", (curvature, n_outputs)))

    def chunk_total(self, function: Callable[[Records], Any]) -> Any:
        """Sum a function of the records of a chunk, over the records of the first pass alone."""
        survey = self._survey
        self._passes[0] += 1
        task = ChunkTask(
            bounding=self._bounding,
            key=survey.key,
            starts=survey.starts,
            function=function,
            pass_number=self._passes[0],
            name=self.name,
        )
        sums = self._accepted(task, survey.n_records, survey.mark)
        return function(self._empty()) if sums is None else sums

    def _accepted(self, task: ChunkTask, count: int, mark: int) -> Any:
        """Make a pass, once more if it is refused; return its sums if the records are right."""
        cause = None
        for _ in range(_TRIES):
            try:
                found = self._source.reduce(task, merged)
                if (found.count, found.mark) == (count, mark):
                    return found.sums
            except RecordsChangedError as error:
                cause = error
            except DataError:
                raise
            except Exception as error:
                k = failed_chunk(error)
                where = "the records" if k is None else self._source.describe(k)
                raise DataError(
                    f"Pass {task.pass_number} could not read {where}: {type(error).__name__}. "
                    "Nothing was released of it."
                ) from error
        raise RecordsChangedError(
            f"The records of pass {task.pass_number} are not those of the first pass, and were not "
            "when it was repeated: they changed, or a chunk was left out or counted twice. Nothing "
            "was released of it. Pass stored or persisted data; a shuffle that is computed again "
            "gives another order."
        ) from cause

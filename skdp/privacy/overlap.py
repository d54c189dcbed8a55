"""What releases from overlapping parts of the records cost together.

A cross-validation fits on k training sets and scores on k test sets. Each record is in k - 1 of the
former and in one of the latter, and what is computed without it does not depend on it. Which record
is in which part must be public: fixed by its position, never by its values. Then, for neighbours
that differ in one record, the releases of the parts that hold it are all that differs. So the cost
is the largest one of a record, over all records, and not the sum over all parts. Proof:
``docs/theory/accounting.md``, section 10.
"""

from __future__ import annotations

import contextlib
import contextvars
import os
import threading
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from skdp.privacy.events import (
    ComposedEvent,
    PrivacyEvent,
    RepeatedEvent,
    common_relation,
    flatten_event,
)
from skdp.privacy.ledger import Entry, Ledger


class OverlappingParts:
    """The running cost of releases from parts of the records; replace-one neighbours.

    Each ledger is charged by the releases that it was charged for itself: one that is opened inside
    of a part pays for its first release in full, and so does one that has lost what it was charged,
    such as an older copy or a new file at the same path. `members`, of shape (n_records, n_parts),
    says whether a record is in a part: a function of its position alone.
    """

    def __init__(self, members: np.ndarray) -> None:
        #: Records that are in the same parts cost the same.
        kinds = np.unique(np.packbits(np.asarray(members, dtype=bool), axis=1), axis=0)
        self._members = np.unpackbits(kinds, axis=1, count=members.shape[1])
        #: For each ledger: its entries, and how often each kind of record is in a release of each
        #: kind.
        self._counts: dict[str, tuple[list[Entry], dict[PrivacyEvent, np.ndarray]]] = {}
        self._process = os.getpid()

    def __getstate__(self) -> dict[str, object]:
        """Leave out what ledgers were charged: a copy would not see what others add to it."""
        return {**self.__dict__, "_counts": {}}

    @contextlib.contextmanager
    def part(self, number: int) -> Iterator[None]:
        """Inside of this block, releases are from one part; of this thread, not of others."""
        token = _CURRENT.set((Part(self, number), threading.get_ident(), os.getpid()))
        try:
            yield
        finally:
            _CURRENT.reset(token)


class Part(NamedTuple):
    """One of the overlapping parts."""

    parts: OverlappingParts
    number: int

    def share(self, ledger: Ledger, event: PrivacyEvent) -> tuple[PrivacyEvent, Callable[[], None]]:
        """Return what a release from the part adds to a ledger, and a function that notes it.

        The sum of what is added is, for each kind of event, its largest number of a record.
        """
        parts, process = self.parts, os.getpid()
        if parts._process != process:  # the counts are those of another process
            parts._counts, parts._process = {}, process
        is_member = parts._members[:, self.number].astype(object)  # integers without a limit
        entries, known = parts._counts.get(ledger.id, ([], {}))
        if ledger.entries[: len(entries)] != entries:
            known = {}
        counts, added = dict(known), []
        for leaf, count in flatten_event(event):
            old = counts.get(leaf, 0 * is_member)
            counts[leaf] = old + count * is_member
            added.append(RepeatedEvent(leaf, int(counts[leaf].max() - old.max(initial=0))))

        def note() -> None:
            parts._counts[ledger.id] = list(ledger.entries), counts

        return ComposedEvent(added), note


_CURRENT: contextvars.ContextVar[tuple[Part, int, int] | None] = contextvars.ContextVar(
    "skdp_part", default=None
)


def part_of(event: PrivacyEvent) -> Part | None:
    """Return the part of the records that an event of this thread is from; None: all of them."""
    current = _CURRENT.get()
    # some threads and processes inherit it
    if current is None or current[1:] != (threading.get_ident(), os.getpid()):
        return None
    relation = common_relation([event])
    if relation is not None and not relation.is_replaced:
        raise ValueError(
            "neighbouring == 'add_remove': a record more or less moves the others to other "
            "parts. Parts of the records are for neighbouring='replace_one'."
        )
    return current[0]

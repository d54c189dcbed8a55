"""What releases from overlapping parts of the records cost together.

A cross-validation fits on k training sets and scores on k test sets. Each record is in k - 1 of the
former and in one of the latter, and what is computed without it does not depend on it. Which record
is in which part must be public: fixed by its position, never by its values. Then, for neighbours
that differ in one record, the releases of the parts that hold it are all that differs. So the cost
is the largest one of a record, over all records, and not the sum over all parts. Proof:
``docs/theory/accounting.md``, section 10.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial

import numpy as np

from skdp.privacy.blocks import OfThisThread
from skdp.privacy.events import (
    ComposedEvent,
    PrivacyEvent,
    RepeatedEvent,
    common_relation,
    flatten_event,
)
from skdp.privacy.ledger import Entry, Ledger

#: From a ledger and an event to what it adds there, and a function that notes it.
Share = Callable[[Ledger, PrivacyEvent], tuple[PrivacyEvent, Callable[[], None]]]
_SHARE: OfThisThread[Share] = OfThisThread("skdp_part")


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

    def part(self, number: int) -> AbstractContextManager[None]:
        """Inside of this block, releases are from one part; of this thread, not of others."""
        return _SHARE.holding(partial(self._share, number))

    def _share(
        self, number: int, ledger: Ledger, event: PrivacyEvent
    ) -> tuple[PrivacyEvent, Callable[[], None]]:
        """Return what a release from a part adds to a ledger, and a function that notes it.

        The sum of what is added is, for each kind of event, its largest number of a record.
        """
        if self._process != os.getpid():  # the counts are those of another process
            self._counts, self._process = {}, os.getpid()
        is_member = self._members[:, number].astype(object)  # integers without a limit
        entries, known = self._counts.get(ledger.id, ([], {}))
        if ledger.entries[: len(entries)] != entries:
            known = {}
        counts, added = dict(known), []
        for leaf, count in flatten_event(event):
            old = counts.get(leaf, 0 * is_member)
            counts[leaf] = old + count * is_member
            added.append(RepeatedEvent(leaf, int(counts[leaf].max() - old.max(initial=0))))

        def note() -> None:
            self._counts[ledger.id] = list(ledger.entries), counts

        return ComposedEvent(added), note


def share_of(event: PrivacyEvent) -> Share | None:
    """Return what an event of this thread adds to ledgers if it is from a part of the records."""
    share = _SHARE.get()
    relation = None if share is None else common_relation([event])
    if relation is not None and not relation.is_replaced:
        raise ValueError(
            "neighbouring == 'add_remove': a record more or less moves the others to other "
            "parts. Parts of the records are for neighbouring='replace_one'."
        )
    return share

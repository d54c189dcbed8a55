"""Charge an event to several ledgers: to each of them once, or to none if one refuses.

A private selection is charged once, for the best of its draws. Its draws then release within a
limit that holds for each of them, and ledgers hear no more of them: how many there were stays
secret.
"""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from skdp.privacy.accountants import GaussianDPAccountant, PureAccountant, UnsupportedEventError
from skdp.privacy.blocks import Block, OfThisThread, active_blocks, remember_closed
from skdp.privacy.composition import tightest_epsilon
from skdp.privacy.events import (
    ComposedEvent,
    Neighbouring,
    PrivacyEvent,
    RepeatedEvent,
    common_relation,
    flatten_event,
)
from skdp.privacy.ledger import Ledger
from skdp.privacy.ledger_files import Identity, MissingLedgerError, ReplacedLedgerError, identity
from skdp.privacy.ledger_moves import MovedLedgerError, resolve, spendable
from skdp.privacy.overlap import share_of

#: Ten fits of epsilon 0.1 may cost 1: decimal fractions are rounded to binary ones.
_SLACK = 1.0 + 1e-12
_IS_PURE = (
    " delta=0 of this budget admits pure fits alone: give it a delta (the sum of those of its fits"
    " will do), or fit with delta=0."
)
_NEEDS_DELTA = " The delta of this budget must be above the sum of those of its fits."


class BudgetExceededError(RuntimeError):
    """A fit would cost more than is left of a budget; it has read no record."""


@dataclass
class _Payer:
    """A ledger that is to be charged."""

    #: One of its names.
    path: str
    #: The with-blocks that it is charged for.
    blocks: list[Block] = field(default_factory=list)
    #: Whether it is charged even if all of them have ended.
    always: bool = False

    def pays(self, ledger: Ledger) -> bool:
        return self.always or any(block.id not in ledger.closed for block in self.blocks)


def charge(
    event: PrivacyEvent, label: str, path: str | None, carried: Iterable[Block] = ()
) -> None:
    """Enter an event in the ledger of a path and in those of all with-blocks that are open.

    Inside of :meth:`Prepaid.paying` it has been paid for. Raises as
    :meth:`skdp.privacy.BudgetAccountant.spend`; nothing was charged then.
    """
    if (prepaid := _PREPAID.get()) is not None:
        return prepaid.cover(event, label)
    carried = tuple(carried)
    place: Callable[[str], str] = str  # where a ledger goes on: mostly where it was
    while True:
        # a file may be moved or replaced before this process has its lock
        with contextlib.suppress(MovedLedgerError, ReplacedLedgerError):
            return _charge(event, label, _payers(path, active_blocks(carried), place))
        place = resolve


def check_affordable(ledger: Ledger, event: PrivacyEvent, label: str) -> None:
    """Refuse an event that a ledger has no budget for, or of another relation."""
    counts = Counter(entry.event for entry in ledger.entries)
    spent = ComposedEvent([RepeatedEvent(*part) for part in counts.items()])
    common_relation([spent, event], ledger.relation)
    if ledger.epsilon == math.inf:
        return
    parts = [RepeatedEvent(*part) for part in flatten_event(ComposedEvent([spent, event]))]
    limit = ledger.epsilon * _SLACK
    total = tightest_epsilon(ComposedEvent(parts), ledger.delta, enough=limit)
    if total > limit:
        before = tightest_epsilon(spent, ledger.delta) if flatten_event(spent) else 0.0
        remedy = "" if total < math.inf else _NEEDS_DELTA if ledger.delta else _IS_PURE
        raise BudgetExceededError(
            f"{label or 'A release'} would raise the total from epsilon = {before:.6g} to "
            f"{total:.6g} at delta = {ledger.delta:g}, above the budget of {ledger.epsilon:g}. "
            f"No record was read for it, and nothing was charged.{remedy}"
        )


def _payers(
    path: str | None, blocks: Iterable[Block], place: Callable[[str], str]
) -> dict[Identity, _Payer]:
    """Return the ledgers to charge by their files: a file may have several names."""
    payers: dict[Identity, _Payer] = {}
    if path is not None:
        found = place(path)
        payers[identity(found)] = _Payer(found, always=True)
    for block in blocks:
        try:
            found = place(block.path)
            payer = payers.setdefault(identity(found), _Payer(found))
        except MissingLedgerError:
            if block.is_gone:
                continue
            raise
        payer.blocks.append(block)
    return payers


def _charge(event: PrivacyEvent, label: str, payers: dict[Identity, _Payer]) -> None:
    share = share_of(event)
    with contextlib.ExitStack() as stack:
        ledgers = []
        for key in sorted(payers):  # one order for all: nobody waits for one who waits for him
            ledger = stack.enter_context(spendable(payers[key].path, key))
            remember_closed(ledger.closed)
            if payers[key].pays(ledger):
                ledgers.append(ledger)
        dues = [share(each, event) if share else (event, None) for each in ledgers]
        for ledger, (due, _) in zip(ledgers, dues, strict=True):
            check_affordable(ledger, due, label)
        for ledger, (due, note) in zip(ledgers, dues, strict=True):
            ledger.spend(due, label)
            if note is not None:
                note()


class Rehearsed(Exception):
    """A rehearsal has reached a payment."""


class Prepaid:
    """A limit for the releases of one draw: on mu of Gaussian DP, on epsilon if `is_pure`.

    A rehearsal raises :class:`Rehearsed` instead of a payment that is within the limit.
    """

    def __init__(
        self,
        limit: float,
        is_pure: bool,
        is_rehearsal: bool = False,
        neighbouring: Neighbouring = Neighbouring.REPLACE_ONE,
    ) -> None:
        self._limit, self._is_pure, self._is_rehearsal = limit, is_pure, is_rehearsal
        kind = PureAccountant if is_pure else GaussianDPAccountant
        self._spent: PureAccountant | GaussianDPAccountant = kind(neighbouring)

    def paying(self) -> contextlib.AbstractContextManager[None]:
        """Inside of this block, releases of this thread are within the limit, or refused."""
        return _PREPAID.holding(self)

    def cover(self, event: PrivacyEvent, label: str) -> None:
        """Take an event off the limit.

        Raises ValueError if it is above the limit, or of a kind that the price of a selection does
        not cover, and Rehearsed in a rehearsal.
        """
        kind = "pure" if self._is_pure else "Gaussian-DP"
        try:
            self._spent.compose(event)
        except UnsupportedEventError as error:
            raise ValueError(
                f"{label or 'A release'} is not {kind}: a selection among its draws has no price. "
                "Choose another method for it, or another delta for the search."
            ) from error
        spent = self._spent
        total = spent.mu if isinstance(spent, GaussianDPAccountant) else spent.total
        if total > self._limit * (1.0 + 1e-9):
            raise ValueError(
                f"{label or 'A release'} costs more than one draw may: each private part must be "
                "fitted once in a draw, with the epsilon that it was given."
            )
        if self._is_rehearsal:
            raise Rehearsed


_PREPAID: OfThisThread[Prepaid] = OfThisThread("skdp_prepaid")

"""Where a ledger is: moves to another file, and how everybody finds it there.

At any time at most one file of a ledger can be spent from. A move has three steps, in each of which
a process may die:

1. a copy from which nothing can be spent is created at the new path, which no other file may have;
2. the old file says where the ledger goes on, and nothing can be spent from it any more;
3. the copy is taken into use.

Before step 2 the copy leads back to the old file. After it, whoever comes to either file does step
3, the process that moves the ledger included.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from skdp.privacy.ledger import Ledger, locked, repair_end
from skdp.privacy.ledger_files import (
    Identity,
    LedgerError,
    MissingLedgerError,
    create_file,
    is_same_file,
)


class MovedLedgerError(LedgerError):
    """The ledger goes on in another file."""


class _LostSourceError(LedgerError):
    """The file that a ledger was being moved from is missing."""


@contextlib.contextmanager
def spendable(path: str, wanted: Identity | None = None) -> Iterator[Ledger]:
    """Lock a ledger as :func:`skdp.privacy.ledger.locked` does, if it can be spent from.

    Raises MovedLedgerError if it goes on elsewhere, or is a copy that is not in use.
    """
    with locked(path, wanted) as ledger:
        other = ledger.moved or ledger.copied
        if other is not None:
            raise MovedLedgerError(f"The ledger {path!r} goes on in {other!r}.")
        yield ledger


@contextlib.contextmanager
def found(path: str) -> Iterator[Ledger]:
    """Lock a ledger, wherever it goes on."""
    while True:
        with contextlib.ExitStack() as stack:
            try:
                ledger = stack.enter_context(spendable(path))
            except MovedLedgerError:
                path = resolve(path)
                continue
            yield ledger
            return


def resolve(path: str) -> str:
    """Follow a ledger to where it goes on, and finish a move on the way that was interrupted.

    Raises LedgerError if a file on the way is missing, is another ledger, or leads in a circle.
    """
    seen: set[tuple[str, bool]] = set()
    before: Ledger | None = None
    while True:
        try:
            ledger = _visited(path, before)
        except MissingLedgerError as error:
            raise _missing(path, before) or error from None
        other = ledger.moved or ledger.copied
        if other is None:
            return path
        step = path, before is not None and before.moved is not None
        if step in seen:
            raise LedgerError(
                f"The ledger {path!r} goes on in {other!r}, and from there back again: what was "
                "spent is unknown. Restore the files from a copy."
            )
        seen.add(step)
        path, before = other, ledger


def move_ledger(old: str, new: str) -> None:
    """Move a ledger to a new file, where it goes on.

    Raises FileExistsError if the new file is there, and holds no earlier try of the same move.
    """
    while True:
        path = resolve(old)
        if is_same_file(path, new):
            return
        rest = _rest_of_a_move(path, new)
        try:
            with spendable(path) as ledger:
                _move(ledger, new, rest)
        except MovedLedgerError:  # while this process waited for the lock
            continue
        resolve(path)
        return


def repair(path: str) -> bool:
    """Write the end line if it is missing, or finish a move whose source is missing.

    Returns whether there was something to do.
    """
    is_repaired = repair_end(path)
    try:
        resolve(path)
    except _LostSourceError:
        with locked(path) as ledger:
            if ledger.copied is not None and not os.path.lexists(ledger.copied):
                ledger.begin()
                return True
        raise
    except LedgerError:
        pass  # of another file
    return is_repaired


def _visited(path: str, before: Ledger | None) -> Ledger:
    """Read a ledger to which another one may have led; take it into use if that has moved."""
    with locked(path) as ledger:
        if before is None:
            return ledger
        if before.id != ledger.id:
            raise LedgerError(
                f"The ledger {before.path!r} leads to {path!r}, which is another ledger: what was "
                "spent is unknown. Restore the files from a copy."
            )
        if before.moved is not None and ledger.copied is not None:
            ledger.begin()
        return ledger


def _missing(path: str, before: Ledger | None) -> LedgerError | None:
    if before is None:
        return None
    if before.moved is not None:
        return MissingLedgerError(
            f"The ledger {before.path!r} goes on in {path!r}, which is missing: nothing can be "
            "spent. Restore that file."
        )
    return _LostSourceError(
        f"The ledger {before.path!r} was being moved from {path!r}, which is missing: what was "
        f"spent there is unknown. Restore that file. If nothing was charged to it after the "
        f"move began, BudgetAccountant.repair({before.path!r}) ends the move."
    )


def _rest_of_a_move(old: str, new: str) -> bytes | None:
    """Return what an interrupted move from a ledger has left at a path; None if it is not that."""
    try:
        with locked(new) as copy:
            is_rest = copy.copied is not None and is_same_file(copy.copied, old)
            return copy.file.read() if is_rest else None
    except LedgerError:
        return None


def _move(ledger: Ledger, new: str, rest: bytes | None) -> None:
    # the ledger is locked, so nobody takes the rest of an earlier try into use
    if rest is not None and os.path.isfile(new) and Path(new).read_bytes() == rest:
        os.unlink(new)
    create_file(new, ledger.copy())
    before = ledger.file.read()
    try:
        ledger.move(new)
    except BaseException:
        if ledger.file.read() == before:
            os.unlink(new)
        raise

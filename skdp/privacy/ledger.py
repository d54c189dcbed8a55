"""Ledgers: files that outlive every process and say what has been spent.

A ledger is a file of JSON lines. The first one is its header, ``{"ledger": "skdp", "id": ...,
"epsilon": ..., "delta": ..., "neighbouring": ...}``. Then lines are appended only: ``{"spent":
event, ...}`` for what was paid for, ``{"closed": id}`` for a with-block that has ended,
``{"moved": path}`` for a ledger that goes on elsewhere. What they cost together is the business of
:mod:`skdp.privacy.budget_accountant`.

A line is on the disk (``fsync``) before the call that appends it returns, and everybody who reads
or writes holds the lock of the file. The operating system releases the lock of a process that dies.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import json
import math
import os
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from skdp.privacy.events import ComposedEvent, Neighbouring, PrivacyEvent, event_from_dict

if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> None:
        while True:
            with contextlib.suppress(OSError):  # it gives up after ten seconds
                os.lseek(descriptor, 0, os.SEEK_SET)
                return msvcrt.locking(descriptor, msvcrt.LK_LOCK, 1)

    def _unlock(descriptor: int) -> None:
        os.lseek(descriptor, 0, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX)

    def _unlock(descriptor: int) -> None:  # also for the copies that a fork has made
        fcntl.flock(descriptor, fcntl.LOCK_UN)


_VERSION = 1


class LedgerError(RuntimeError):
    """A ledger is missing or damaged, so that nothing can be paid for."""


class MissingLedgerError(LedgerError):
    """The file of a ledger is not there."""


class MovedLedgerError(LedgerError):
    """The ledger goes on in another file."""


@dataclass(frozen=True)
class Entry:
    """One payment.

    Attributes
    ----------
    event : PrivacyEvent
    label : str
        Who paid, such as the name of an estimator.
    time : str
        In UTC, as ISO 8601 writes it.
    id : str
        Unlike that of any other payment; empty in older ledgers.
    """

    event: PrivacyEvent
    label: str
    time: str
    id: str = ""


@dataclass
class Ledger:
    """A ledger whose lock this process holds.

    Attributes
    ----------
    path : str
    id : str
        Unlike that of any other ledger, and kept where it moves to.
    epsilon, delta : float
        The budget; an infinite epsilon refuses nothing.
    relation : Neighbouring or None
        That of the header; None if it names none.
    entries : list of Entry
    closed : set of str
        The with-blocks that have ended.
    """

    path: str
    id: str
    descriptor: int
    epsilon: float
    delta: float
    relation: Neighbouring | None
    entries: list[Entry] = field(default_factory=list)
    closed: set[str] = field(default_factory=set)

    @property
    def event(self) -> ComposedEvent:
        """Everything that was paid for."""
        return ComposedEvent([entry.event for entry in self.entries])

    def spend(self, event: PrivacyEvent, label: str) -> None:
        """Append a payment; it is on the disk when this returns."""
        entry = Entry(event, label, _now(), uuid.uuid4().hex)
        line = {"spent": event.to_dict(), "label": label, "time": entry.time, "id": entry.id}
        if event_from_dict(json.loads(json.dumps(line["spent"]))) != event:
            raise TypeError(f"{event!r} cannot be written to a ledger.")
        self.append(line)
        self.entries.append(entry)

    def append(self, line: dict[str, Any]) -> None:
        """Append a line; on an error the ledger is as before."""
        data = (json.dumps(line) + "\n").encode()
        before = os.lseek(self.descriptor, 0, os.SEEK_END)
        written = 0
        try:
            while written < len(data):
                written += os.write(self.descriptor, data[written:])
        except BaseException:
            if written < len(data):
                os.ftruncate(self.descriptor, before)
            raise
        os.fsync(self.descriptor)


def create_ledger(
    path: str, epsilon: float, delta: float, neighbouring: Neighbouring | None
) -> None:
    """Make a new ledger, all at once: nobody sees a part of it.

    Raises FileExistsError if the file is there.
    """
    header = {
        "ledger": "skdp",
        "version": _VERSION,
        "id": uuid.uuid4().hex,
        "epsilon": epsilon if math.isfinite(epsilon) else None,
        "delta": delta,
        "neighbouring": neighbouring and neighbouring.value,
    }
    _write_new(path, (json.dumps(header) + "\n").encode())


def move_ledger(old: str, new: str) -> None:
    """Copy a ledger to a new file, where it goes on: whoever still uses the old one is led there.

    Raises FileExistsError if the new file is there.
    """
    with locked(old) as ledger:
        os.lseek(ledger.descriptor, 0, os.SEEK_SET)
        # a process that dies in between leaves no second ledger that could be spent from
        _write_new(new, _read_all(ledger.descriptor), lambda: ledger.append({"moved": new}))


def resolve(path: str) -> str:
    """Follow a ledger that has moved to where it goes on."""
    while True:
        try:
            with open(path, "rb") as file:
                last = file.read().rstrip(b"\n").rpartition(b"\n")[2]
        except FileNotFoundError:
            return path
        if not last.startswith(b'{"moved"'):
            return path
        path = json.loads(last)["moved"]


@contextlib.contextmanager
def locked(path: str) -> Iterator[Ledger]:
    """Open a ledger, wait for its lock, read it, and keep the lock inside of the block.

    Raises
    ------
    LedgerError
        If it is missing (MissingLedgerError), goes on elsewhere (MovedLedgerError), or holds a line
        that cannot be read: what it cost is then unknown.
    """
    flags = os.O_RDWR | os.O_APPEND | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        raise MissingLedgerError(f"There is no ledger {path!r}: nothing can be spent.") from None
    try:
        _lock(descriptor)
        try:
            yield _parsed(path, descriptor)
        finally:
            _unlock(descriptor)
    finally:
        os.close(descriptor)


def repair(path: str) -> bool:
    """Remove an unfinished last line; return whether there was one."""
    descriptor = os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0))
    try:
        _lock(descriptor)
        try:
            data = _read_all(descriptor)
            kept = data.rpartition(b"\n")[0] + b"\n"
            if data.endswith(b"\n") or kept == b"\n":
                return False
            os.ftruncate(descriptor, len(kept))
            os.fsync(descriptor)
            return True
        finally:
            _unlock(descriptor)
    finally:
        os.close(descriptor)


def _parsed(path: str, descriptor: int) -> Ledger:
    data = _read_all(descriptor)
    if not data.endswith(b"\n"):
        raise LedgerError(
            f"The last line of the ledger {path!r} is unfinished: what it cost is unknown, and "
            "nothing can be spent. If a process died while it wrote the line, its fit had not "
            "begun, and BudgetAccountant.repair(path) removes it. If the file was cut off in any "
            "other way, restore it from a copy."
        )
    first, *lines = data.decode().splitlines()
    try:
        header = json.loads(first)
        if header["ledger"] != "skdp" or header["version"] != _VERSION:
            raise ValueError
        epsilon = math.inf if header["epsilon"] is None else float(header["epsilon"])
        name = header["neighbouring"]
        relation = None if name is None else Neighbouring(name)
        own = str(header.get("id", path))  # older ledgers have none
        ledger = Ledger(path, own, descriptor, epsilon, float(header["delta"]), relation)
    except (ValueError, KeyError, TypeError):
        raise LedgerError(f"{path!r} is no ledger that this version of skdp knows.") from None
    for number, line in enumerate(lines, 2):
        try:
            ((kind, value), *rest) = json.loads(line).items()
            if kind == "spent":
                ledger.entries.append(_entry(json.dumps(value), **dict(rest)))
            elif kind == "closed":
                ledger.closed.add(value)
            elif kind == "moved":
                raise MovedLedgerError(f"The ledger {path!r} goes on in {value!r}.")
            else:
                raise ValueError
        except (ValueError, KeyError, TypeError, AttributeError):
            raise LedgerError(
                f"Line {number} of the ledger {path!r} cannot be read: what it cost is unknown, "
                "and nothing can be spent. Restore the file from a copy."
            ) from None
    return ledger


def _entry(text: str, label: str, time: str, id: str = "") -> Entry:
    return Entry(_event(text), label, time, id)


@functools.lru_cache(maxsize=1024)
def _event(text: str) -> PrivacyEvent:
    return event_from_dict(json.loads(text))


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def _read_all(descriptor: int) -> bytes:
    os.lseek(descriptor, 0, os.SEEK_SET)
    parts = []
    while part := os.read(descriptor, 1 << 20):
        parts.append(part)
    return b"".join(parts)


def _write_new(path: str, data: bytes, announce: Callable[[], None] = lambda: None) -> None:
    """Write a file that must not exist: complete and on the disk, or not at all.

    `announce` is called when everything but the name is on the disk.
    """
    if os.path.lexists(path):
        raise FileExistsError(f"There is a file {path!r}.")
    folder = Path(path).parent
    if not folder.is_dir():
        raise FileNotFoundError(f"There is no folder {str(folder)!r} for the ledger {path!r}.")
    descriptor, draft = tempfile.mkstemp(dir=folder, prefix=".skdp-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        announce()
        if sys.platform == "win32":
            os.rename(draft, path)  # refuses to replace a file there
        else:
            os.link(draft, path)  # unlike a rename, refuses to replace a file
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(draft)
    if sys.platform != "win32":
        directory = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

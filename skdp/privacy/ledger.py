"""Ledgers: files that outlive every process and say what has been spent.

A ledger is a file of JSON lines. The first one is its header, ``{"ledger": "skdp", "version": 2,
"id": ..., "epsilon": ..., "delta": ..., "neighbouring": ...}``. Then come ``{"spent": event, ...}``
for each payment and ``{"closed": id}`` for each with-block that has ended. The last line is the end
line, ``{"end": digest}``, with the SHA-256 digest of all lines before it. It can name a path, which
the digest then covers, too: that to which the ledger has moved, ``{"end": digest, "moved": path}``,
or that from which it is being copied, ``{"end": digest, "copied": path}``. Nothing is spent from a
ledger whose end line names a path (:mod:`skdp.privacy.ledger_moves`).

A new line and a new end line replace the old end line in one step. A file that was cut off, even
between two lines, has no end line that fits, and neither has one of which a byte has changed. The
digest finds accidents; it does not stop anybody who wants to change a ledger.

A line is on the disk (``fsync``) before the call that appends it returns, and everybody who reads
or writes holds the lock of the file. What the payments cost together is the business of
:mod:`skdp.privacy.charges`.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import math
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import (
    ComposedEvent,
    Neighbouring,
    PrivacyEvent,
    common_relation,
    event_from_dict,
)
from skdp.privacy.ledger_files import Identity, LedgerError, LockedFile, create_file, locked_file

_VERSION = 2
#: The lines of ledgers that were read last, and what they say, by the ids of the ledgers.
_READ: dict[str, tuple[bytes, tuple[Entry, ...], frozenset[str]]] = {}
_MOST_READ = 16
#: What a line raises that is not what it should be.
_UNREADABLE = (ValueError, TypeError, AttributeError, LookupError, ArithmeticError, RecursionError)


@dataclass(frozen=True)
class Entry:
    """One payment."""

    event: PrivacyEvent
    #: Who paid, such as the name of an estimator.
    label: str
    #: In UTC, as ISO 8601 writes it.
    time: str
    #: Unlike that of any other payment.
    id: str


@dataclass
class Ledger:
    """A ledger whose lock this process holds."""

    file: LockedFile
    #: Unlike that of any other ledger, and kept where it moves to.
    id: str
    #: The budget; an infinite epsilon refuses nothing.
    epsilon: float
    delta: float
    #: That of the header; None if it names none.
    relation: Neighbouring | None
    #: All lines but the end line.
    lines: bytes = b""
    entries: list[Entry] = field(default_factory=list)
    #: The with-blocks that have ended.
    closed: set[str] = field(default_factory=set)
    #: Where the ledger goes on.
    moved: str | None = None
    #: Where the ledger is copied from, if the copy is not in use yet.
    copied: str | None = None

    @property
    def path(self) -> str:
        return self.file.path

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
        self._append(_line(line))
        self.entries.append(entry)

    def close(self, block: str) -> None:
        """Note that a with-block has ended."""
        self._append(_line({"closed": block}))
        self.closed.add(block)

    def move(self, path: str) -> None:
        """Say that the ledger goes on at a path."""
        self._append(moved=path)

    def begin(self) -> None:
        """Take a copy into use."""
        self._append()
        self.copied = None

    def copy(self) -> bytes:
        """Return a copy of this ledger from which nothing can be spent."""
        return self.lines + _end(self.lines, copied=self.path)

    def _append(self, line: bytes = b"", **path: str) -> None:
        lines = self.lines + line
        end = _end(lines, **path)
        padding = self.file.size - len(lines + end)  # an end line with a path is longer
        line += end[:-1] + b" " * padding + b"\n"
        self.file.rewrite(len(self.lines), line)
        self.lines = lines


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
    create_file(path, _line(header) + _end(_line(header)))


@contextlib.contextmanager
def locked(path: str, wanted: Identity | None = None) -> Iterator[Ledger]:
    """Open a ledger, wait for its lock, read it, and keep the lock inside of the block.

    `wanted` is of the file that the path must denote. Raises LedgerError if the file is missing or
    cannot be opened (:func:`skdp.privacy.ledger_files.locked_file`), is no ledger, or was cut off
    or changed: what was paid for is then unknown.
    """
    with locked_file(path, wanted) as file:
        data = file.read()
        ledger = _with_header(file, data)
        lines, end = _split_end(data)
        if end is None:
            raise LedgerError(
                f"The last line of the ledger {path!r} is unfinished or missing: what it cost is "
                "unknown, and nothing can be spent. If a process died while it wrote the line, its "
                "fit had not begun, and BudgetAccountant.repair(path) removes it. If the file was "
                "cut off in any other way, restore it from a copy."
            )
        _check_end(ledger, lines, end)
        _read_lines(ledger, lines)
        ledger.moved, ledger.copied = end.get("moved"), end.get("copied")
        yield ledger


def repair_end(path: str) -> bool:
    """Remove an unfinished last line, and write the end line; return whether it was missing.

    Raises LedgerError, and changes nothing, if that does not make it a ledger.
    """
    with locked_file(path) as file:
        data = file.read()
        ledger = _with_header(file, data)
        kept = data[: data.rfind(b"\n") + 1]
        lines, end = _split_end(kept)
        if end is not None:
            _check_end(ledger, lines, end)
        elif not _is_line(ledger, last := _last_line(lines)):
            kept = lines = lines[: -len(last)]  # a part of a line, and the rest of the end line
        _read_lines(ledger, lines)
        is_whole = len(kept) == len(data) and end is not None
        if not is_whole:
            file.shorten(len(kept))
            if end is None:
                file.rewrite(len(lines), _end(lines))
        return not is_whole


def _with_header(file: LockedFile, data: bytes) -> Ledger:
    """Return the ledger of a file with this data, of which only the header is taken in."""
    first, newline, _ = data.partition(b"\n")
    try:
        header = json.loads(first)
        version, relation = header["version"], header["neighbouring"]
        is_known = type(version) is int and version == _VERSION
        if header["ledger"] != "skdp" or not is_known or not newline:
            raise ValueError
        epsilon, delta = header["epsilon"], header["delta"]
        PrivacyBudget(1.0 if epsilon is None else epsilon, delta)
        return Ledger(
            file,
            _text(header["id"]),
            math.inf if epsilon is None else float(epsilon),
            float(delta),
            None if relation is None else Neighbouring(relation),
        )
    except _UNREADABLE:
        raise LedgerError(f"{file.path!r} is no ledger that this version of skdp knows.") from None


def _read_lines(ledger: Ledger, lines: bytes) -> None:
    """Fill a ledger with the lines after its header; those that were read before are known."""
    known, entries, closed = _READ.get(ledger.id, (b"", (), frozenset[str]()))
    if not (known and lines.startswith(known)):
        known, entries, closed = lines[: lines.find(b"\n") + 1], (), frozenset()
    ledger.entries, ledger.closed = list(entries), set(closed)
    for number, line in enumerate(lines[len(known) :].split(b"\n")[:-1], known.count(b"\n") + 1):
        try:
            _read_line(ledger, line)
        except _UNREADABLE:
            raise LedgerError(
                f"Line {number} of the ledger {ledger.path!r} cannot be read: what it cost is "
                "unknown, and nothing can be spent. Restore the file from a copy."
            ) from None
    try:
        common_relation(dict.fromkeys(e.event for e in ledger.entries), ledger.relation)
    except ValueError as error:
        raise LedgerError(f"The ledger {ledger.path!r} has no single relation: {error}") from None
    ledger.lines = lines
    if len(_READ) > _MOST_READ:
        _READ.clear()
    _READ[ledger.id] = lines, tuple(ledger.entries), frozenset(ledger.closed)


def _read_line(ledger: Ledger, line: bytes) -> None:
    """Add a line to a ledger, or raise one of _UNREADABLE."""
    ((kind, value), *rest) = json.loads(line).items()
    if kind == "spent":
        ledger.entries.append(_entry(value, **dict(rest)))
    elif kind == "closed":
        ledger.closed.add(_text(value))
    else:
        raise ValueError(kind)


def _split_end(data: bytes) -> tuple[bytes, dict[str, str] | None]:
    """Return the lines before the end line, and what the end line says; None if there is none."""
    last = _last_line(data)
    with contextlib.suppress(*_UNREADABLE):
        end = json.loads(last)
        is_end = last.endswith(b"\n") and "end" in end and set(end) < {"end", "moved", "copied"}
        if is_end and all(isinstance(value, str) for value in end.values()):
            return data[: -len(last)], end
    return data, None


def _check_end(ledger: Ledger, lines: bytes, end: dict[str, str]) -> None:
    path = {name: end[name] for name in ("moved", "copied") if name in end}
    if json.loads(_end(lines, **path)) != end:
        raise LedgerError(
            f"The ledger {ledger.path!r} was changed: its lines are not those that were written. "
            "What was spent is unknown. Restore the file from a copy."
        )


def _end(lines: bytes, **path: str) -> bytes:
    covered = lines + _line(path) if path else lines
    return _line({"end": hashlib.sha256(covered).hexdigest(), **path})


def _line(values: dict[str, Any]) -> bytes:
    return (json.dumps(values) + "\n").encode()


def _last_line(data: bytes) -> bytes:
    return data[data.rfind(b"\n", 0, -1) + 1 :]


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _is_line(ledger: Ledger, line: bytes) -> bool:
    """Return whether a line can be read, or is the header, which was read already."""
    try:
        header = "ledger" in json.loads(line)
        if not header:
            _read_line(replace(ledger, entries=[], closed=set()), line)
    except _UNREADABLE:
        return False
    return True


def _entry(event: dict[str, Any], label: str, time: str, id: str) -> Entry:
    return Entry(event_from_dict(event), _text(label), _text(time), _text(id))


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")

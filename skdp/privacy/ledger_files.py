"""Files that processes share: opened, locked, rewritten at their end, created.

The lock of a file belongs to the file and not to its name. While a process waits for the lock, the
name can come to denote another file, and one file can have several names. So a file is known by its
device and inode, and these are compared again when the lock is held.

The operating system releases the lock of a process that dies.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> None:
        os.lseek(descriptor, 0, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

    def _unlock(descriptor: int) -> None:
        os.lseek(descriptor, 0, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _unlock(descriptor: int) -> None:  # also for the copies that a fork has made
        fcntl.flock(descriptor, fcntl.LOCK_UN)


_FLAGS = os.O_RDWR
#: O_NONBLOCK: opening a pipe does not wait for somebody at its other end.
for _name_of_flag in ("O_BINARY", "O_CLOEXEC", "O_NONBLOCK", "O_NOCTTY"):
    _FLAGS |= getattr(os, _name_of_flag, 0)
#: How long another process may hold a lock, and the shortest and longest pause of who waits for it,
#: in seconds. Nobody who is running holds it for longer than a payment takes.
_LONGEST_WAIT, _PAUSE, _LONGEST_PAUSE = 60.0, 0.0005, 0.02
#: How long a file may stay empty that another process is about to fill, in seconds.
_PATIENCE = 1.0

#: What two names of one file share, and what orders files in the same way for every process.
Identity = tuple[int | str, int]


class LedgerError(RuntimeError):
    """A ledger is missing, damaged or unreadable, so that nothing can be paid for."""


class MissingLedgerError(LedgerError):
    """The file of a ledger is not there."""


class ReplacedLedgerError(LedgerError):
    """A path has come to denote another file than a moment ago."""


@dataclass(frozen=True)
class LockedFile:
    """A regular file whose lock this process holds."""

    path: str
    descriptor: int

    @property
    def size(self) -> int:
        return os.fstat(self.descriptor).st_size

    def read(self, start: int = 0) -> bytes:
        """Read all bytes from `start` on."""
        os.lseek(self.descriptor, start, os.SEEK_SET)
        return b"".join(iter(lambda: os.read(self.descriptor, 1 << 20), b""))

    def rewrite(self, start: int, data: bytes) -> None:
        """Replace all bytes from `start` on; they are on the disk when this returns.

        `data` must not be shorter than what it replaces. Then a single call of the operating system
        does it, and a process that is killed leaves the old bytes or the new ones. On an error the
        old ones are restored.
        """
        former = self.read(start)
        if len(data) < len(former):
            raise ValueError("data is shorter than what it replaces.")
        try:
            self._write(start, data)
            os.fsync(self.descriptor)
        except BaseException:
            with contextlib.suppress(OSError):
                self._write(start, former)
                self.shorten(start + len(former))
            raise

    def shorten(self, size: int) -> None:
        """Cut the file off."""
        os.ftruncate(self.descriptor, size)
        os.fsync(self.descriptor)

    def _write(self, start: int, data: bytes) -> None:
        os.lseek(self.descriptor, start, os.SEEK_SET)
        written = 0
        while written < len(data):
            written += os.write(self.descriptor, data[written:])


def identity(path: str) -> Identity:
    """Return what tells a file from all others, whatever its name.

    Raises MissingLedgerError if it is not there.
    """
    try:
        if sys.platform == "win32":
            os.stat(path)
            return os.path.normcase(os.path.realpath(path)), 0
        return _identity(os.stat(path))
    except (OSError, ValueError) as error:
        raise _unusable(path, error) from error


def is_same_file(path: str, other: str) -> bool:
    """Return whether both paths denote one file that is there."""
    try:
        return identity(path) == identity(other)
    except LedgerError:
        return False


@contextlib.contextmanager
def locked_file(path: str, wanted: Identity | None = None) -> Iterator[LockedFile]:
    """Open a file, wait for its lock, and keep the lock inside of the block.

    Raises LedgerError if it is missing (MissingLedgerError), not the wanted one
    (ReplacedLedgerError), no regular file, or cannot be opened and locked.
    """
    deadline = None
    while True:
        try:
            descriptor = _opened(path)
        except MissingLedgerError as error:
            raise error if wanted is None else _replaced(path) from None
        try:
            if wanted is not None and not _is_at(path, descriptor, wanted):
                raise _replaced(path)
            _locked(path, descriptor)
            try:
                if _is_at(path, descriptor, wanted):
                    if (file := LockedFile(path, descriptor)).size:
                        yield file
                        return
                    deadline = deadline or time.monotonic() + _PATIENCE
            finally:
                _unlock(descriptor)
        finally:
            os.close(descriptor)
        if deadline is not None:  # another process may be about to fill it
            if time.monotonic() > deadline:
                raise LedgerError(
                    f"The file {path!r} is empty. If it was a ledger, it was cut off: restore it "
                    "from a copy. If a process died while it made a ledger, remove the file."
                )
            time.sleep(0.01)


def create_file(path: str, data: bytes) -> None:
    """Create a file that must not exist: complete and on the disk, or not at all.

    Raises FileExistsError if it is there.
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
        _name(draft, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(draft)
    sync_folder(folder)


def sync_folder(folder: str | Path) -> None:
    """Write the names in a folder to the disk."""
    if sys.platform != "win32":
        directory = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def _name(draft: str, path: str) -> None:
    """Give a draft its name, which no other file may have."""
    if sys.platform == "win32":
        return os.rename(draft, path)  # refuses to replace a file
    try:
        return os.link(draft, path)  # unlike a rename, refuses to replace a file
    except FileExistsError:
        raise
    except OSError:  # there are file systems without hard links
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    try:
        os.replace(draft, path)  # nobody writes to the empty file that holds the name
    except BaseException:
        os.unlink(path)
        raise


def _opened(path: str) -> int:
    try:
        descriptor = os.open(path, _FLAGS)
    except (OSError, ValueError) as error:
        raise _unusable(path, error) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise LedgerError(f"{path!r} is no regular file, so it is no ledger.")
    return descriptor


def _locked(path: str, descriptor: int) -> None:
    deadline, pause = time.monotonic() + _LONGEST_WAIT, _PAUSE
    while True:
        try:
            return _lock(descriptor)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EWOULDBLOCK, errno.EACCES):
                raise LedgerError(
                    f"The ledger {path!r} cannot be locked ({error.strerror}). It needs a file "
                    "system with locks that all its users share."
                ) from error
            if time.monotonic() > deadline:
                raise LedgerError(
                    f"Another process has held the lock of the ledger {path!r} for "
                    f"{_LONGEST_WAIT:g} seconds, and nothing was charged. If it is stopped, let it "
                    "go on or end it."
                ) from None
        time.sleep(pause)
        pause = min(2.0 * pause, _LONGEST_PAUSE)


def _is_at(path: str, descriptor: int, wanted: Identity | None) -> bool:
    """Return whether a path still denotes an open file, and that one the wanted file."""
    if sys.platform == "win32":  # an open file is neither replaced nor renamed there
        return True
    own = _identity(os.fstat(descriptor))
    if wanted not in (None, own):
        return False
    try:
        return identity(path) == own
    except MissingLedgerError:
        if wanted is None:
            raise
        return False


def _replaced(path: str) -> ReplacedLedgerError:
    return ReplacedLedgerError(f"The ledger {path!r} was replaced by another file.")


def _identity(status: os.stat_result) -> Identity:
    """Return inode and device: in this order machines that share a file system agree on it."""
    return status.st_ino, status.st_dev


def _unusable(path: str, error: OSError | ValueError) -> LedgerError:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return MissingLedgerError(f"There is no ledger {path!r}: nothing can be spent.")
    reason = getattr(error, "strerror", None) or str(error)
    return LedgerError(f"The ledger {path!r} cannot be opened: {reason}.")

"""A folder for temporary files that one user alone reads and writes.

Its name is predictable, so that the processes of the user find it, and it is in a folder in which
everybody can create files. So nothing is read from it or written to it unless it belongs to the
user and is no link.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import tempfile

from skdp.privacy.ledger_files import LedgerError


def private_path(name: str) -> str:
    """Return the path of a file in the folder, which need not be there."""
    user = os.getuid() if sys.platform != "win32" else "user"
    return os.path.join(tempfile.gettempdir(), f"skdp-{user}", name)


def write_private(path: str, data: bytes) -> None:
    """Write a file, all at once, and make the folder if it is missing.

    Raises LedgerError if somebody else could read or write in the folder.
    """
    folder = os.path.dirname(path)
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    if not _is_own(folder):
        raise _refused(folder)
    descriptor, draft = tempfile.mkstemp(dir=folder)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    os.replace(draft, path)


def read_private(path: str) -> bytes | None:
    """Read a file; None if it is missing, or if the folder belongs to somebody else.

    Raises LedgerError if the folder belongs to this user, but others could have written to it.
    """
    try:
        if not _is_own(os.path.dirname(path)):
            return None
        with open(path, "rb") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None


def remove_private(path: str) -> None:
    """Remove a file if it is there."""
    with contextlib.suppress(OSError, LedgerError):
        if _is_own(os.path.dirname(path)):
            os.unlink(path)


def _is_own(folder: str) -> bool:
    """Return whether a folder belongs to this user, who then must be the only one to use it."""
    status = os.lstat(folder)
    if sys.platform == "win32":
        return True
    if status.st_uid != os.getuid():
        return False
    if not stat.S_ISDIR(status.st_mode) or status.st_mode & 0o077:
        raise _refused(folder)
    return True


def _refused(folder: str) -> LedgerError:
    return LedgerError(
        f"{folder!r} must be a folder of this user with mode 700, and no link: it tells the other "
        "processes of this user which with-blocks are open. Remove it, or set TMPDIR to a private "
        "folder before Python starts."
    )

"""With-blocks of accountants, and how the processes that a block starts hear of them.

Every open block is known to

- all threads of its process, by a list;
- processes started inside of the block, by an environment variable;
- processes started earlier, such as the idle workers of a pool, by a file in the folder for
  temporary files that has the number of the process, in which they look for their parents;
- processes of other machines by the estimators that are sent to them: see
  :class:`skdp.privacy.AccountedMixin`.

A block that has ended says so in its ledger, so that whoever still carries its name no longer pays.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import platform
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

#: Holds the open blocks, for the processes that are started inside of them.
VARIABLE = "SKDP_ACCOUNTANTS"


class Block(NamedTuple):
    """The name of a with-block that works in any process.

    Attributes
    ----------
    path : str
        Of the ledger.
    id : str
    host, process : str, int
        Where the block is.
    is_temporary : bool
        Whether the ledger goes when that process ends.
    """

    path: str
    id: str
    host: str
    process: int
    is_temporary: bool

    @property
    def is_gone(self) -> bool:
        """Whether the block, whose ledger is missing, must have ended.

        A temporary ledger goes with its process. On another machine nobody can tell.
        """
        return self.is_temporary and self.host == platform.node() and not _is_alive(self.process)


#: Blocks of this process, the innermost last: functions that name them as they are now.
_OPEN: list[tuple[str, Callable[[], Block]]] = []
#: Blocks that have ended, as far as this process knows.
_CLOSED: set[str] = set()


def _inherited() -> tuple[Block, ...]:
    return tuple(Block(*each) for each in json.loads(os.environ.get(VARIABLE, "[]")))


_INHERITED = _inherited()


def _file_of(process: int) -> str:
    user = os.getuid() if hasattr(os, "getuid") else "user"
    return os.path.join(tempfile.gettempdir(), f"skdp-{user}-{process}.json")


def _of_parents() -> list[Block]:
    """Blocks that are open in the processes that this one descends from."""
    found = []
    for process in _parents():
        path = _file_of(process)
        with contextlib.suppress(FileNotFoundError, ValueError), open(path, "rb") as file:
            if not hasattr(os, "getuid") or os.fstat(file.fileno()).st_uid == os.getuid():
                found += [Block(*each) for each in json.load(file)]
    return found


def _parents() -> Iterator[int]:
    """Yield the parent, and where the system tells (Linux) those before it."""
    process = os.getppid()
    while process > 1:
        yield process
        try:
            with open(f"/proc/{process}/stat", "rb") as file:
                process = int(file.read().rpartition(b")")[2].split()[1])
        except OSError:
            return


def _forget() -> None:
    """Remove the file of this process; its children do not inherit it."""
    with contextlib.suppress(OSError):
        os.unlink(_file_of(os.getpid()))


atexit.register(_forget)


def open_block(name: str, describe: Callable[[], Block]) -> None:
    """Make a block known to this process and to those started from now on."""
    _OPEN.append((name, describe))
    publish()


def close_block(name: str) -> None:
    """Take a block back."""
    _CLOSED.add(name)
    _OPEN[:] = [each for each in _OPEN if each[0] != name]
    publish()


def publish() -> None:
    """Write the open blocks to where other processes look for them."""
    blocks, own = active_blocks(), _own()
    if blocks:
        os.environ[VARIABLE] = json.dumps(blocks)
    else:
        os.environ.pop(VARIABLE, None)
    if not own:
        return _forget()
    path = _file_of(os.getpid())
    draft = f"{path}.{threading.get_ident()}"
    with open(draft, "w") as file:
        json.dump(own, file)
    os.replace(draft, path)


def active_blocks(carried: Iterable[Block] = ()) -> tuple[Block, ...]:
    """Return all blocks not known to have ended: of this process, its parents, and `carried`."""
    found = {block.id: block for block in (*_INHERITED, *_of_parents(), *carried, *_own())}
    return tuple(block for name, block in found.items() if name not in _CLOSED)


def _own() -> list[Block]:
    return [describe() for _, describe in list(_OPEN)]


def remember_closed(names: Iterable[str]) -> None:
    """Note blocks that a ledger reports as ended."""
    _CLOSED.update(names)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True

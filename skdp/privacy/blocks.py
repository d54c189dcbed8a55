"""With-blocks of accountants, and how the processes that a block starts hear of them.

Every open block is known to

- all threads of its process, by a list;
- processes started inside of the block, by an environment variable;
- processes started earlier, such as the idle workers of a pool, by a file that has the number of
  the process, in which they look for their parents (:mod:`skdp.privacy.private_folder`);
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
import threading
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from functools import lru_cache
from typing import Generic, NamedTuple, TypeVar

from skdp.privacy.ledger_files import LedgerError
from skdp.privacy.private_folder import private_path, read_private, remove_private, write_private

#: Holds the open blocks, for the processes that are started inside of them.
VARIABLE = "SKDP_ACCOUNTANTS"
T = TypeVar("T")


class Block(NamedTuple):
    """The name of a with-block that works in any process."""

    #: Of the ledger.
    path: str
    id: str
    #: Where the block is.
    host: str
    process: int
    #: Whether the ledger goes when that process ends.
    is_temporary: bool

    @property
    def is_gone(self) -> bool:
        """Whether the block, whose ledger is missing, must have ended.

        A temporary ledger goes with its process. On another machine nobody can tell.
        """
        return self.is_temporary and self.host == platform.node() and not _is_alive(self.process)


#: Blocks of this process: functions that describe them as they are now.
_OPEN: dict[str, Callable[[], Block]] = {}
#: Blocks that this process has seen end.
_CLOSED: set[str] = set()


#: Blocks that were open where this process was started.
_INHERITED = tuple(Block(*each) for each in json.loads(os.environ.get(VARIABLE, "[]")))


def _status(process: int) -> tuple[int, int]:
    """Return the parent of a process and when it started, as Linux tells; else zeros."""
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return int(fields[1]), int(fields[19])
    except (OSError, ValueError, IndexError):
        return 0, 0


def _file_of(process: int, start: int | None = None) -> str:
    """Name the file of a process; its start tells it from an older one of the same number."""
    start = _status(process)[1] if start is None else start
    return private_path(f"{process}-{start}.json")


@lru_cache(maxsize=1)
def _ancestors(parent: int) -> tuple[tuple[int, int], ...]:
    """Return numbers and starts of the processes that one with this parent descends from.

    As long as a process has the same parent, it can lose ancestors but not gain any.
    """
    found, process = [], parent
    while process > 0:
        above, start = _status(process)
        found.append((process, start))
        process = above
    return tuple(found)


def _of_parents() -> list[Block]:
    """Blocks that are open in the processes that this one descends from."""
    found = []
    for process, start in _ancestors(os.getppid()):
        blocks = read_private(_file_of(process, start))
        if blocks is not None:
            found += [Block(*each) for each in json.loads(blocks)]
    return found


def _forget() -> None:
    """Remove the file of this process; its children do not inherit it."""
    remove_private(_file_of(os.getpid()))


atexit.register(_forget)


_lock = threading.RLock()


def _renew_lock() -> None:
    """Forget a lock that another thread held when this process was forked."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


def open_block(name: str, describe: Callable[[], Block]) -> None:
    """Make a block known to this process, its children, and those they start."""
    with _lock:
        _OPEN[name] = describe
        try:
            publish()
        except BaseException:
            del _OPEN[name]
            raise


def close_block(name: str) -> None:
    """Take a block back."""
    with _lock:
        _CLOSED.add(name)
        _OPEN.pop(name, None)
        for announce in (_write_file, _set_variable):
            # a process that still finds the name reads in the ledger that the block has ended
            with contextlib.suppress(LedgerError, OSError):
                announce()


def publish() -> None:
    """Write the open blocks to where other processes look for them."""
    with _lock:
        _write_file()
        _set_variable()


def _write_file() -> None:
    own = _own()
    if own:
        write_private(_file_of(os.getpid()), json.dumps(own).encode())
    else:
        _forget()


def _set_variable() -> None:
    blocks = active_blocks()
    if blocks:
        os.environ[VARIABLE] = json.dumps(blocks)
    else:
        os.environ.pop(VARIABLE, None)


def active_blocks(carried: Iterable[Block] = ()) -> tuple[Block, ...]:
    """Return all blocks not known to have ended: of this process, its parents, and `carried`."""
    found = {}
    for block in (*_INHERITED, *_of_parents(), *carried, *_own()):
        if block.id not in _CLOSED:
            found[block.id] = block
    return tuple(found.values())


def _own() -> list[Block]:
    return [describe() for describe in list(_OPEN.values())]


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


class OfThisThread(Generic[T]):
    """A value inside of blocks that no thread and process has that is started there."""

    def __init__(self, name: str) -> None:
        self._held: ContextVar[tuple[T, int, int] | None] = ContextVar(name, default=None)

    @contextlib.contextmanager
    def holding(self, value: T) -> Iterator[None]:
        """Hold a value inside of this block."""
        token = self._held.set((value, threading.get_ident(), os.getpid()))
        try:
            yield
        finally:
            self._held.reset(token)

    def get(self) -> T | None:
        """Return the value of the innermost block; None outside of all."""
        held = self._held.get()
        # some threads and processes inherit it
        if held is None or held[1:] != (threading.get_ident(), os.getpid()):
            return None
        return held[0]

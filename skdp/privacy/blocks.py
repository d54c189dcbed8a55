"""With-blocks of accountants, and how the processes that a block starts hear of them.

Every open block is known to

- all threads of its process, by a list;
- processes started inside of the block, by an environment variable;
- processes started earlier, such as the idle workers of a pool, by the estimators that are sent to
  them: see :class:`skdp.privacy.AccountedMixin`.

A block that has ended says so in its ledger, so that whoever still carries its name no longer pays.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Iterable
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
    """Write the open blocks to the environment."""
    blocks = active_blocks()
    if blocks:
        os.environ[VARIABLE] = json.dumps(blocks)
    else:
        os.environ.pop(VARIABLE, None)


def active_blocks(carried: Iterable[Block] = ()) -> tuple[Block, ...]:
    """Return all blocks not known to have ended: of this process, inherited, and `carried`."""
    own = [describe() for _, describe in list(_OPEN)]
    found = {block.id: block for block in (*_INHERITED, *carried, *own)}
    return tuple(block for name, block in found.items() if name not in _CLOSED)


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

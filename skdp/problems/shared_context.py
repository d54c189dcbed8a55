"""A setting of the whole process that fits in several threads share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any


class SharedContext:
    """Hold a context from the first user that enters to the last one that leaves.

    Parameters
    ----------
    make : callable ``() -> context manager``
        Called by a user that finds no other inside.
    """

    def __init__(self, make: Callable[[], AbstractContextManager[Any]]) -> None:
        self._make, self._lock, self._users = make, threading.Lock(), 0

    def __enter__(self) -> None:
        with self._lock:
            if self._users == 0:
                self._context = self._make()
                self._context.__enter__()
            self._users += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._context.__exit__(None, None, None)

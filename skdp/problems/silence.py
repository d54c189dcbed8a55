"""Silence for numerical work on records."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np


class _Filters:
    """The warning filters of the process, which all threads share."""

    def __init__(self) -> None:
        self.lock, self.users = threading.Lock(), 0

    def ignore(self) -> None:
        with self.lock:
            if self.users == 0:
                self.saved = warnings.catch_warnings()
                self.saved.__enter__()
                warnings.simplefilter("ignore")
            self.users += 1

    def restore(self) -> None:
        """Restore the caller's filters when the last user is done."""
        with self.lock:
            self.users -= 1
            if self.users == 0:
                self.saved.__exit__(None, None, None)


_FILTERS = _Filters()


@contextmanager
def without_warnings() -> Iterator[None]:
    """Suppress Python warnings and floating-point errors; a context manager and a decorator.

    A warning about a computation on records depends on them. With the filter "error" or with
    ``numpy.seterr(all="raise")`` the same holds for whether the computation ends. So the filters
    and settings of the caller do not apply inside. Warnings about public numbers belong outside.
    Filters belong to the process: while one thread is inside, no thread warns.
    """
    _FILTERS.ignore()
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        _FILTERS.restore()

"""Settings of the process that fits share: no warnings in work on records, and threads.

Several fits may run in threads of one process. A setting of the process holds from the first fit
that needs it to the last.
"""

from __future__ import annotations

import functools
import os
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeVar

import joblib
import numpy as np
from threadpoolctl import ThreadpoolController


class SharedContext:
    """Hold a context, made by the first user that enters, until the last one leaves."""

    def __init__(self, make: Callable[[], AbstractContextManager[Any]]) -> None:
        # entered again by a fork in `make`
        self._make, self._lock = make, threading.RLock()
        self._users: Counter[int] = Counter()  # how often each thread is inside
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=self._lock.acquire,
                after_in_parent=self._lock.release,
                after_in_child=self._keep_this_thread,
            )

    def __enter__(self) -> None:
        with self._lock:
            if not self._users:
                self._context = self._make()
                self._context.__enter__()
            self._users[threading.get_ident()] += 1

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            self._leave(threading.get_ident())

    def _leave(self, thread: int) -> None:
        self._users[thread] -= 1
        if self._users[thread] == 0:
            del self._users[thread]
        if not self._users:
            self._context.__exit__(None, None, None)

    def _keep_this_thread(self) -> None:
        """Let the threads leave that a fork has not copied."""
        for thread in set(self._users) - {threading.get_ident()}:
            self._users[thread] = 1
            self._leave(thread)
        self._lock.release()


@contextmanager
def _no_filter_but_ignore() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


_FILTERS = SharedContext(_no_filter_but_ignore)


@contextmanager
def without_warnings() -> Iterator[None]:
    """Suppress Python warnings and floating-point errors; a context manager and a decorator.

    A warning about a computation on records depends on them. With the filter "error" or with
    ``numpy.seterr(all="raise")`` the same holds for whether the computation ends. So the filters
    and settings of the caller do not apply inside. Warnings about public numbers belong outside.
    Filters belong to the process: while one thread is inside, no thread warns.
    """
    with _FILTERS, np.errstate(all="ignore"):
        yield


T = TypeVar("T")


class Threads:
    """A thread for every processor, with the caller's settings of NumPy's errors."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(joblib.cpu_count())

    def map(self, function: Callable[..., T], *arguments: Iterable[Any]) -> Iterator[T]:
        """Call a function for each tuple of arguments; the results are in their order."""
        settings = np.geterr()

        def call(*own: Any) -> T:
            with np.errstate(**settings):
                return function(*own)

        return self._pool.map(call, *arguments)


@functools.cache
def _linear_algebra() -> ThreadpoolController:
    return ThreadpoolController()  # a search of the libraries of the process


_ONE_THREAD = SharedContext(lambda: _linear_algebra().limit(limits=1))


def spare_processors(have_threads: bool) -> AbstractContextManager[None]:
    """Leave the processors to :class:`Threads` if there are any.

    Threads of linear algebra wait for the next product without sleeping. Their number belongs to
    the process: while one sparse fit goes on, no thread has more.
    """
    return _ONE_THREAD if have_threads else nullcontext()

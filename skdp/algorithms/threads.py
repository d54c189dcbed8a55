"""Threads for parts of sparse rows, whose products have none of their own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import joblib
import numpy as np
import scipy.sparse as sp
from threadpoolctl import ThreadpoolController

from skdp.problems.records import Matrix

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


class _LinearAlgebra:
    """The threads of linear algebra in this process, which all fits share."""

    def __init__(self) -> None:
        self.lock, self.users = threading.Lock(), 0
        self.controller: ThreadpoolController | None = None  # a search of the process

    def limit(self) -> None:
        with self.lock:
            if self.users == 0:
                self.controller = self.controller or ThreadpoolController()
                self.saved = self.controller.limit(limits=1)
            self.users += 1

    def restore(self) -> None:
        """Restore the numbers of threads when the last user is done."""
        with self.lock:
            self.users -= 1
            if self.users == 0:
                self.saved.restore_original_limits()


_LINEAR_ALGEBRA = _LinearAlgebra()


@contextmanager
def spare_processors(matrix: Matrix) -> Iterator[None]:
    """Leave the processors to :class:`Threads` where the matrix is sparse.

    Threads of linear algebra wait for the next product without sleeping.
    """
    if not sp.issparse(matrix):
        yield
        return
    _LINEAR_ALGEBRA.limit()
    try:
        yield
    finally:
        _LINEAR_ALGEBRA.restore()

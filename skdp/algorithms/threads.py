"""Threads for parts of sparse rows, whose products have none of their own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

import joblib
import numpy as np
import scipy.sparse as sp
from threadpoolctl import ThreadpoolController

from skdp.problems.records import Matrix
from skdp.problems.shared_context import SharedContext

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


def spare_processors(matrix: Matrix) -> AbstractContextManager[None]:
    """Leave the processors to :class:`Threads` where the matrix is sparse.

    Threads of linear algebra wait for the next product without sleeping. Their number belongs to
    the process: while one sparse fit goes on, no thread has more.
    """
    return _ONE_THREAD if sp.issparse(matrix) else nullcontext()

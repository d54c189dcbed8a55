"""Threads for parts of sparse rows, whose products have none of their own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from contextvars import Context, copy_context
from typing import Any, TypeVar

import joblib
import scipy.sparse as sp
from threadpoolctl import ThreadpoolController

from skdp.problems.records import Matrix

T = TypeVar("T")


class Threads:
    """A thread for every processor, of which each has the caller's context.

    What NumPy ignores, a division by 0 say, is a part of that context.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(joblib.cpu_count())

    def map(self, function: Callable[..., T], *arguments: Iterable[Any]) -> Iterator[T]:
        """Call a function for each tuple of arguments; the results are in their order."""

        def call(context: Context, *own: Any) -> T:
            return context.run(function, *own)

        calls = list(zip(*arguments, strict=True))
        contexts = [copy_context() for _ in calls]
        return self._pool.map(call, contexts, *zip(*calls, strict=True))


def spare_processors(matrix: Matrix) -> AbstractContextManager[Any]:
    """Leave the processors to :class:`Threads` where the matrix is sparse.

    Threads of linear algebra wait for the next product by trying again and again.
    """
    return _controller().limit(limits=1) if sp.issparse(matrix) else nullcontext()


@functools.cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()

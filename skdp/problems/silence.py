"""Silence for numerical work on records."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from skdp.problems.shared_context import SharedContext


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

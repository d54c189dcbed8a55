"""Silence for numerical work on records."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

__all__ = ["without_warnings"]


@contextmanager
def without_warnings() -> Iterator[None]:
    """Suppress Python warnings and floating-point errors; a context manager and a decorator.

    A warning about a computation on records depends on them. With the filter "error" or with
    ``numpy.seterr(all="raise")`` the same holds for whether the computation ends. So the filters
    and settings of the caller do not apply inside. Warnings about public numbers belong outside.
    """
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield

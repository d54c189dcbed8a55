"""From what methods are given to sources of records: for the estimators."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any, TypeVar, cast

from skdp.data.sources import RecordSource, with_names

Method = TypeVar("Method", bound=Callable[..., Any])


def as_source(X: Any, y: Any = None, groups: Any = None, **units: Any) -> RecordSource | None:
    """Return the source of records that X is, or that Dask collections are; None for others.

    `units` are `user_ids` and `sample_weight`. Dask is loaded for its collections only. Raises
    ValueError if there is anything beside a source.
    """
    if isinstance(X, RecordSource):
        if any(part is not None for part in (y, groups, *units.values())):
            raise ValueError(
                "A source holds y, groups, user_ids and sample_weight itself: call fit(source)."
            )
        return X
    if hasattr(X, "__dask_graph__"):
        records = importlib.import_module("skdp.data.dask").DaskRecords
        source: RecordSource = records(X, y, groups, **units)
        return source
    return None


def first_rows(X: Any, may_be_empty: bool = False) -> Any:
    """Return the rows of the first chunk that has any; X itself if it is in memory."""
    source = as_source(X)
    if source is None:
        return X
    for k in range(source.n_chunks):
        rows = source.read(k).X
        if rows.shape[0] or (may_be_empty and k == source.n_chunks - 1):
            return with_names(rows, source.feature_names)
    raise ValueError("The source holds no records.")


def chunk_sizes(source: RecordSource) -> tuple[int, ...]:
    """Return the numbers of rows of the chunks; a source that does not state them is read once."""
    if source.chunk_sizes is None:
        sizes: tuple[int, ...] = source.reduce(_size, _joined)
        return sizes
    return tuple(source.chunk_sizes)


def _size(k: int, source: RecordSource) -> tuple[int, ...]:
    return (int(source.read(k).X.shape[0]),)


def _joined(parts: list[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(size for part in parts for size in part)


def over_chunks(method: Method) -> Method:
    """Let a method of X take Dask collections, for a lazy Dask array of its results.

    ``transform`` also takes sources, and returns the source mapped by the transformer.
    """

    @functools.wraps(method)
    def chunked(model: Any, X: Any, return_std: bool = False) -> Any:
        if isinstance(X, RecordSource) and method.__name__ == "transform":
            return X.map(model)
        if hasattr(X, "__dask_graph__"):
            if return_std:
                raise ValueError("return_std=True needs rows in memory.")
            lazily = importlib.import_module("skdp.data.dask").over_partitions
            return lazily(X, getattr(model, method.__name__))
        return method(model, X, return_std=True) if return_std else method(model, X)

    return cast(Method, chunked)

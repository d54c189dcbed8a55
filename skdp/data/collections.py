"""From what ``fit`` is given to a source of records."""

from __future__ import annotations

import importlib
from typing import Any

from skdp.data.sources import RecordSource


def as_source(X: Any, y: Any = None, groups: Any = None) -> RecordSource | None:
    """Return the source of records that X is, or that Dask collections are; None for others.

    Dask is loaded for its collections only.

    Raises
    ------
    ValueError
        If there are y or groups beside a source.
    """
    if isinstance(X, RecordSource):
        if y is not None or groups is not None:
            raise ValueError("A source holds y and groups itself: call fit(source).")
        return X
    if hasattr(X, "__dask_graph__"):
        source: RecordSource = importlib.import_module("skdp.data.dask").DaskRecords(X, y, groups)
        return source
    return None

"""How a chunk of raw rows becomes bounded records, where it is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from sklearn.utils import check_array, column_or_1d

from skdp._records import refuse_without_values
from skdp.data.sources import Chunk
from skdp.problems.records import Records


class Encoder(Protocol):
    """From targets or groups of a chunk to their encoding."""

    def __call__(self, column: Any, /) -> np.ndarray: ...

    @property
    def nothing(self) -> np.ndarray:
        """The encoding of no records."""


@dataclass(frozen=True, kw_only=True)
class Bounding:
    """How a chunk becomes bounded records: public numbers and declared names.

    Attributes
    ----------
    data_norm, intercept : float
        As of :class:`Records`.
    targets : Encoder
    groups : Encoder or None
        None if the source has none.
    default_groups : callable or None
        From encoded targets to groups, where the source has none.
    view : callable or None
        From bounded records to a view of them.
    """

    data_norm: float
    intercept: float
    targets: Encoder
    groups: Encoder | None = None
    default_groups: Callable[[np.ndarray], np.ndarray] | None = None
    view: Callable[[Records], Records] | None = None

    def encoded(self, chunk: Chunk) -> tuple[Any, np.ndarray, np.ndarray | None]:
        """Return rows of numbers, targets and given groups: what marks are of."""
        with refuse_without_values():
            X, y, dtypes = chunk.X, chunk.y, [np.float64, np.float32]
            if not (isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype in dtypes):
                X = check_array(
                    X,
                    accept_sparse="csr",
                    dtype=dtypes,
                    ensure_all_finite=False,
                    ensure_min_samples=0,
                )
            y = y if isinstance(y, np.ndarray) and y.ndim == 1 else column_or_1d(y)
            groups = None if self.groups is None else self.groups(chunk.groups)
            return X, self.targets(y), groups

    @property
    def nothing(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Targets and groups of no records."""
        return self.targets.nothing, None if self.groups is None else self.groups.nothing

    def records(self, X: Any, targets: np.ndarray, groups: np.ndarray | None) -> Records:
        """Return the bounded records of what was encoded."""
        if self.default_groups is not None:
            groups = self.default_groups(targets)
        records = Records(X, self.data_norm, self.intercept, targets=targets, groups=groups)
        return records if self.view is None else self.view(records)

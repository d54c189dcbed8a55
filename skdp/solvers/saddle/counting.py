"""Counting the operators of single records that a solver evaluates."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from skdp.problems import SaddleProblem
    from skdp.problems.saddle import Response

__all__ = ["counted"]


def counted(problem: SaddleProblem, report: Callable[[int], None]) -> SaddleProblem:
    """The same problem, which tells `report` the number of evaluations so far after each one.

    Problems that are made from it, with other regularisers or fewer records, share its count.
    A best response counts as one evaluation at least. The counts depend on the records.
    """
    kind: Any = type(problem)
    total = 0

    def add(evaluations: int) -> None:
        nonlocal total
        total += evaluations
        report(total)

    class Counted(kind):
        def data_operator(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            add(self.n_records)
            return super().data_operator(x, y)

        def batch_operator(
            self, positions: slice | np.ndarray, x: np.ndarray, y: np.ndarray
        ) -> tuple[np.ndarray, np.ndarray]:
            add(
                len(range(*positions.indices(self.n_records)))
                if isinstance(positions, slice)
                else len(positions)
            )
            return super().batch_operator(positions, x, y)

        def best_response(self, x: np.ndarray) -> Response:
            before = total
            response = super().best_response(x)
            if total == before:  # it has a way of its own
                add(self.n_records)
            return response

    Counted.__name__ = Counted.__qualname__ = kind.__name__
    other = copy.copy(problem)
    other.__class__ = Counted
    return other

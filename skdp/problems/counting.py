"""Counting the evaluations of single records."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from skdp.problems.losses import Loss
from skdp.problems.saddle import SaddleProblem

if TYPE_CHECKING:
    from skdp.problems.saddle import Response

__all__ = ["Counts", "counted"]

_Any = TypeVar("_Any")


class Counts:
    """Numbers of evaluations of single records so far.

    They depend on the records: they are for benchmarks and for the progress that the holder of
    the data may watch, and are not part of anything that is released.

    Attributes
    ----------
    gradients, hessians, values : int
        Of a saddle problem, `gradients` counts operators.
    """

    def __init__(self, report: Callable[[int], None] | None = None) -> None:
        self.gradients = self.hessians = self.values = 0
        self._report = report

    def add_gradients(self, number: int) -> None:
        self.gradients += number
        if self._report is not None:
            self._report(self.gradients)

    def __deepcopy__(self, memo: dict[int, Any]) -> Counts:
        return self  # what copies of a problem evaluate counts as well


def counted(problem: _Any, report: Callable[[int], None] | None = None) -> _Any:
    """Copy a problem so that its evaluations are counted in its attribute `counts`.

    Problems that are made from the copy, with other regularisers or fewer records, share its
    counts::

        given = counted(problem)
        solver.solve(given, accuracy)
        given.counts.gradients

    Parameters
    ----------
    problem : FiniteSumProblem or SaddleProblem
        Other problems are copied without being counted.
    report : callable, optional
        Called with the number of gradients after each evaluation of gradients.
    """
    other: Any = copy.copy(problem)
    other.counts = Counts(report)
    if isinstance(problem, SaddleProblem):
        _extend(other, _CountedSaddle)
    elif isinstance(getattr(problem, "loss", None), Loss):
        loss: Any = copy.copy(other.loss)
        _extend(loss, _CountedLoss)
        vars(loss).update(counts=other.counts, _plain=other.loss)
        other.loss = loss
    return other


def _extend(instance: Any, mixin: type) -> None:
    kind = type(instance)
    extended = type(kind.__name__, (mixin, kind), {"__module__": kind.__module__})
    object.__setattr__(instance, "__class__", extended)


class _CountedLoss:
    """Counts evaluations. Every path of a problem to a gradient, batches included, comes here."""

    counts: Counts
    _plain: Loss

    def value(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        self.counts.values += len(margins)
        return self._plain.value(margins, targets)

    def derivative(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        self.counts.add_gradients(len(margins))
        return self._plain.derivative(margins, targets)

    def value_and_derivative(
        self, margins: np.ndarray, targets: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        self.counts.values += len(margins)
        self.counts.add_gradients(len(margins))
        return self._plain.value_and_derivative(margins, targets)

    def second_derivative(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        self.counts.hessians += len(margins)
        return self._plain.second_derivative(margins, targets)


class _CountedSaddle(SaddleProblem):
    """Counts operators; a best response is one evaluation at least."""

    counts: Counts

    def data_operator(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        self.counts.add_gradients(self.n_records)
        return super().data_operator(x, y)  # type: ignore[safe-super]

    def batch_operator(
        self, rows: slice | np.ndarray, x: np.ndarray, y: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        number = len(range(*rows.indices(self.n_records))) if isinstance(rows, slice) else len(rows)
        self.counts.add_gradients(number)
        return super().batch_operator(rows, x, y)  # type: ignore[safe-super]

    def best_response(self, x: np.ndarray) -> Response:
        before = self.counts.gradients
        response = super().best_response(x)
        if self.counts.gradients == before:  # the problem does not use its operator
            self.counts.add_gradients(self.n_records)
        return response

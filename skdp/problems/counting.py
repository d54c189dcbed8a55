"""Counting the evaluations of single records."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from skdp.problems.losses import Loss
from skdp.problems.saddle import Pair, Response, SaddleProblem

_Any = TypeVar("_Any")


class Counts:
    """Numbers of evaluations of single records so far.

    They depend on the records and are not released: they are for benchmarks, and for the progress
    that the holder of the data may watch. Of a saddle problem, `gradients` counts operators.
    """

    def __init__(self, report: Callable[[int], None] | None = None) -> None:
        self.gradients = self.hessians = 0
        self._report = report

    def add_gradients(self, number: int) -> None:
        self.gradients += number
        if self._report is not None:
            self._report(self.gradients)


def counted(problem: _Any, report: Callable[[int], None] | None = None) -> _Any:
    """Copy a problem so that its evaluations are counted in its attribute `counts`.

    Problems that are made from the copy, with other regularisers or fewer records, share them.

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
        _change_class(other, _counted_saddle(type(other), other.counts))
    elif isinstance(getattr(problem, "loss", None), Loss):
        other.loss = copy.copy(other.loss)
        _change_class(other.loss, _counted_loss(other.loss, other.counts))
    return other


def _change_class(instance: Any, kind: type) -> None:
    kind.__name__, kind.__qualname__ = type(instance).__name__, type(instance).__qualname__
    object.__setattr__(instance, "__class__", kind)


def _counted_loss(loss: Any, counts: Counts) -> type:
    """Return the class of a loss, counting: each path of a problem to a gradient uses its loss."""
    plain, kind = copy.copy(loss), type(loss)

    class Counted(kind):  # type: ignore[misc, valid-type]
        def derivative(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
            counts.add_gradients(len(margins))
            return plain.derivative(margins, targets)

        def value_and_derivative(
            self, margins: np.ndarray, targets: np.ndarray
        ) -> tuple[np.ndarray, np.ndarray]:
            counts.add_gradients(len(margins))
            return plain.value_and_derivative(margins, targets)

        def second_derivative(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
            counts.hessians += len(margins)
            return plain.second_derivative(margins, targets)

    return Counted


def _counted_saddle(kind: Any, counts: Counts) -> type:
    """The class of a saddle problem, counting. A best response is one evaluation at least."""

    class Counted(kind):
        def data_operator(self, x: np.ndarray, y: np.ndarray) -> Pair:
            counts.add_gradients(self.n_records)
            return super().data_operator(x, y)

        def batch_operator(self, rows: slice | np.ndarray, x: np.ndarray, y: np.ndarray) -> Pair:
            size = range(self.n_records)[rows] if isinstance(rows, slice) else rows
            counts.add_gradients(len(size))
            return super().batch_operator(rows, x, y)

        def best_response(self, x: np.ndarray) -> Response:
            before = counts.gradients
            response = super().best_response(x)
            if counts.gradients == before:  # the problem does not use its operator
                counts.add_gradients(self.n_records)
            return response

    return Counted

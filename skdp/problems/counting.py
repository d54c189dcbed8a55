"""Counting the gradients that a solver evaluates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from skdp.problems.losses import Loss

__all__ = ["CountedLoss"]


class CountedLoss(Loss):
    """A loss that counts its evaluations, record by record.

    Every path of a problem to a gradient, batches and thinned problems included, goes
    through the derivative of its loss, so the count is exact::

        problem.loss = counted = CountedLoss(problem.loss)
        solver.solve(problem, accuracy)
        counted.gradients

    The counts depend on the records: they are for benchmarks and for the progress that the
    holder of the data may watch, and are not part of anything that is released.

    Parameters
    ----------
    loss : Loss
    on_gradient : callable, optional
        Called with the count after each evaluation of gradients.

    Attributes
    ----------
    gradients, hessians, values : int
        Number of per-record evaluations so far.
    """

    def __init__(self, loss: Loss, on_gradient: Callable[[int], None] | None = None) -> None:
        self._loss = loss
        self._on_gradient = on_gradient
        self._parent: CountedLoss | None = None
        self.gradients = self.hessians = self.values = 0

    def check_targets(self, targets: np.ndarray) -> None:
        self._loss.check_targets(targets)

    @property
    def is_quadratic(self) -> bool:  # type: ignore[override]
        return self._loss.is_quadratic

    def value(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        self.values += len(margins)
        return self._loss.value(margins, targets)

    def derivative(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        self._count_gradients(len(margins))
        return self._loss.derivative(margins, targets)

    def value_and_derivative(
        self, margins: np.ndarray, targets: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        self.values += len(margins)
        self._count_gradients(len(margins))
        return self._loss.value_and_derivative(margins, targets)

    def second_derivative(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        self.hessians += len(margins)
        return self._loss.second_derivative(margins, targets)

    def _count_gradients(self, number: int) -> None:
        self.gradients += number
        if self._parent is not None:
            self._parent._count_gradients(number)
        if self._on_gradient is not None:
            self._on_gradient(self.gradients)

    @property
    def n_outputs(self) -> int:
        return self._loss.n_outputs

    @property
    def curvature(self) -> float:
        return self._loss.curvature

    @property
    def curvature_trace(self) -> float:
        return self._loss.curvature_trace

    @property
    def margin_scale(self) -> float:
        return self._loss.margin_scale

    @property
    def largest_margin_scale(self) -> float:
        return self._loss.largest_margin_scale

    @property
    def sampling_scale(self) -> float:
        return self._loss.sampling_scale

    def lipschitz(self, feature_norm: float, radius: float) -> float:
        return self._loss.lipschitz(feature_norm, radius)

    def gradient_diameter(self, feature_norm: float, radius: float) -> float:
        return self._loss.gradient_diameter(feature_norm, radius)

    def smoothness(self, feature_norm: float) -> float:
        return self._loss.smoothness(feature_norm)

    def solution_radius(self, feature_norm: float, alpha: float) -> float:
        return self._loss.solution_radius(feature_norm, alpha)

    def value_range(self, feature_norm: float, radius: float) -> float:
        return self._loss.value_range(feature_norm, radius)

    def largest_value(self, feature_norm: float, radius: float) -> float:
        return self._loss.largest_value(feature_norm, radius)

    def least_curvature(self, feature_norm: float, radius: float) -> float:
        return self._loss.least_curvature(feature_norm, radius)

    def noise_cost(self, variance: float) -> float:
        return self._loss.noise_cost(variance)

    def envelope(
        self, targets: np.ndarray, width: float, dual: np.ndarray
    ) -> tuple[Loss, np.ndarray]:
        """That of a piecewise linear loss, counted here."""
        smooth, rows = self._loss.envelope(targets, width, dual)  # type: ignore[attr-defined]
        counted = CountedLoss(smooth)
        counted._parent = self
        return counted, rows

    def __getattr__(self, name: str) -> Any:  # what a loss has beyond the interface
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.__dict__["_loss"], name)

"""Sums of a loss and its derivatives over records: functions of a block of them.

They hold weights and a loss, never records, so that they may leave the process.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skdp.problems.block import Block
from skdp.problems.losses import Loss


@dataclass(frozen=True)
class _OfWeights:
    """A loss under weights of shape (n_outputs, width)."""

    loss: Loss
    weights: np.ndarray


class GradientSum(_OfWeights):
    """Sum of the gradients, shape (n_outputs, width)."""

    def __call__(self, block: Block) -> np.ndarray:
        margins = block.margins(self.weights)
        return block.pull_back(self.loss.derivative(margins, block.targets))


class ValueAndGradientSum(_OfWeights):
    """Sums of the losses and of the gradients."""

    def __call__(self, block: Block) -> tuple[float, np.ndarray]:
        margins = block.margins(self.weights)
        values, residuals = self.loss.value_and_derivative(margins, block.targets)
        return float(block.sum(values)), block.pull_back(residuals)


class Curvature(_OfWeights):
    """Second derivatives of the records in their margins, for :meth:`Records.gram`."""

    def __call__(self, block: Block) -> np.ndarray:
        return self.loss.second_derivative(block.margins(self.weights), block.targets)


@dataclass(frozen=True)
class CurvatureProduct(Curvature):
    """Product of the Hessian of the sum with directions of shape (n_outputs, width)."""

    directions: np.ndarray

    def __call__(self, block: Block) -> np.ndarray:
        curvature, moved = super().__call__(block), block.margins(self.directions)
        if moved.ndim == 1:
            return block.pull_back(curvature * moved)
        return block.pull_back(np.einsum("iab,ib->ia", curvature, moved))


@dataclass(frozen=True)
class QuadraticMoments:
    """Gradient at 0 and Hessian of a quadratic loss of one margin."""

    loss: Loss

    def __call__(self, block: Block) -> tuple[np.ndarray, np.ndarray]:
        at_zero = np.zeros(len(block.targets)), block.targets
        gradient = block.pull_back(self.loss.derivative(*at_zero))
        return gradient, block.gram(self.loss.second_derivative(*at_zero))

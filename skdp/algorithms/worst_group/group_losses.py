"""Sums over the records of each group, of clipped losses above all.

Lemmas 2 to 6 of docs/theory/worst_group.md are about their noise. Losses are in units that are
public or released: the log loss of a model that knows nothing is a public number, that of a hinge,
too. Losses of numeric targets are in units of the one at a multiple of the targets' released
standard deviation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from skdp.algorithms.core.fit import CorePlan
from skdp.algorithms.worst_group import rules
from skdp.algorithms.worst_group.plain_models import relative_noise
from skdp.problems import Loss
from skdp.problems.block import Block
from skdp.problems.rounding import EPS


@dataclass(frozen=True)
class GroupTotals:
    """Sums of ``terms(block)``, k arrays of shape (m,), over the records of each group.

    Their shape is (n_groups, k).
    """

    n_groups: int
    terms: Callable[[Block], Sequence[np.ndarray]]
    needs_norms: ClassVar[bool] = False

    def __call__(self, block: Block, _: Any = None) -> np.ndarray:
        return np.stack(
            [
                np.bincount(block.groups, block.weighted(entry), minlength=self.n_groups)
                for entry in self.terms(block)
            ],
            axis=1,
        )


def has_shift(plan: CorePlan) -> bool:
    """Whether an intercept of two classes can be shifted."""
    return plan.loss.n_outputs == 1 and plan.objective.design.intercept > 0


@dataclass(frozen=True, kw_only=True)
class ClippedLosses:
    """Terms ``min(loss / unit, largest) - centre`` of records."""

    #: A function of public numbers and of earlier releases.
    unit: float
    #: Public, as is the largest one.
    centre: float
    largest: float
    #: Bound on the derivative of a term in the margins.
    slope: float
    #: Of the terms, for losses whose value is about 1/2 if a model knows nothing.
    factor: float = 1.0

    def terms(self, losses: np.ndarray) -> np.ndarray:
        """Return the terms of records, in ``[-centre, largest - centre]``."""
        return np.minimum(losses / self.unit, self.largest) - self.centre

    def moved(self, margins: float) -> float:
        """Bound what a term moves by if its margins move in their last bits."""
        return self.slope * margins + 16.0 * EPS * self.largest

    def losses(self, means: np.ndarray) -> np.ndarray:
        """Return mean losses from mean terms."""
        return self.factor * (self.centre + means)


@dataclass(frozen=True, kw_only=True)
class ClippedLossTerms:
    """The clipped loss of each record under weights of ``(x, 1)`` and a shift of the margins."""

    loss: Loss
    clipped: ClippedLosses
    weights: np.ndarray
    shift: np.ndarray

    def __call__(self, block: Block) -> list[np.ndarray]:
        margins = block.margins(self.weights) + self.shift
        return [self.clipped.terms(self.loss.value(margins, block.targets))]


def clipped_losses(plan: CorePlan) -> ClippedLosses:
    """Return the terms for the loss of a plan, with what it has released of the targets."""
    loss = plan.loss
    centre, largest = loss_range(loss)
    if loss.has_odds:
        return ClippedLosses(unit=1.0, centre=centre, largest=largest, slope=2.0)
    if loss.target_bound:
        deviation = loss.target_bound * plan.numbers.means.deviation
        typical, unit = (
            float(loss.value(np.array([residual, -residual]), np.zeros(2)).max())
            for residual in (deviation, _limit(plan) * deviation)
        )
    else:
        shape = 1 if loss.n_outputs == 1 else (1, loss.n_outputs)
        typical = float(loss.value(np.zeros(shape), np.zeros(1, dtype=int))[0])
        unit = rules.LARGEST_HINGE * typical
    # a loss that is never negative has |derivative|^2 <= 2 curvature loss
    slope = min(loss.lipschitz(1.0, math.inf), math.sqrt(2.0 * loss.curvature * unit)) / unit
    return ClippedLosses(
        unit=unit, centre=centre, largest=largest, slope=slope, factor=unit / (2.0 * typical)
    )


def _limit(plan: CorePlan) -> float:
    """Return the residual that losses are clipped at: clipping is bias, its absence noise."""
    error = relative_noise(plan) * math.sqrt(plan.objective.design.n_features)
    least, largest = rules.LEAST_RESIDUAL, rules.LARGEST_RESIDUAL
    return min(max(least * (rules.RESIDUAL_ERROR / error) ** 0.25, least), largest)


def loss_range(loss: Loss) -> tuple[float, float]:
    """Return what is subtracted from a clipped loss, and the largest one, in its units.

    Of the log loss: the loss of a model that knows nothing, and 1.3 more.
    """
    if not loss.has_odds:
        return rules.CENTRE, 1.0
    centre = math.log(loss.n_classes)
    return centre, centre + 2.0 - math.log(2.0)


def loss_sensitivity(loss: Loss, is_replaced: bool) -> float:
    """Change of the groups' sums of clipped and centered losses by one record, by Lemma 2."""
    centre, largest = loss_range(loss)
    one = max(centre, largest - centre)
    return max(largest, math.sqrt(2.0) * one) if is_replaced else one

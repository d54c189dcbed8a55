"""Clipped losses of records, in units that are public or released: what looks at groups sum up.

Lemmas 2 and 5 of docs/theory/worst_group.md. The log loss of a model that knows nothing is a
public number, that of a hinge, too. Losses of numeric targets are in units of the one at a multiple
of the targets' released standard deviation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from skdp.algorithms.worst_group import rules
from skdp.problems import EmpiricalRisk, Loss, Objective
from skdp.problems.block import Block
from skdp.problems.rounding import EPS


class FirstPlan(Protocol):
    """What looks and fits need of the plan of a plain model, after its preparation.

    Attributes
    ----------
    objective : Objective
    risk : EmpiricalRisk
    loss : Loss
    n_records : float
        Number that sums are divided by.
    relative_noise : float
        Error of a mean of rows, relative to their norm.
    target_variance : float
        Of numeric targets, in units of the squared bound.
    """

    @property
    def objective(self) -> Objective: ...
    @property
    def risk(self) -> EmpiricalRisk: ...
    @property
    def loss(self) -> Loss: ...
    @property
    def n_records(self) -> float: ...
    @property
    def relative_noise(self) -> float: ...
    @property
    def target_variance(self) -> float: ...
    def alarms(self) -> tuple[str, ...]: ...
    def found_alarms(self) -> tuple[str, ...]: ...
    def remarks(self) -> tuple[str, ...]: ...
    def to_dict(self) -> dict[str, Any]: ...


@dataclass(frozen=True, kw_only=True)
class ClippedLosses:
    """Terms ``min(loss / unit, largest) - centre`` of records.

    Attributes
    ----------
    unit : float
        A function of public numbers and of earlier releases.
    centre, largest : float
        Public.
    slope : float
        Bound on the derivative of a term in the margins.
    factor : float, default=1.0
        Of the terms, for losses whose value is about 1/2 if a model knows nothing.
    """

    unit: float
    centre: float
    largest: float
    slope: float
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


def clipped_losses(plan: FirstPlan) -> ClippedLosses:
    """Return the terms for the loss of a plan, with what it has released of the targets."""
    loss = plan.loss
    centre, largest = loss_range(loss)
    if loss.has_odds:
        return ClippedLosses(unit=1.0, centre=centre, largest=largest, slope=2.0)
    if loss.target_bound:
        deviation = loss.target_bound * math.sqrt(plan.target_variance)
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


def _limit(plan: FirstPlan) -> float:
    """Return the residual that losses are clipped at: clipping is bias, its absence noise."""
    error = plan.relative_noise * math.sqrt(plan.objective.design.n_features)
    return min(
        max(rules.LEAST_RESIDUAL * (rules.RESIDUAL_ERROR / error) ** 0.25, rules.LEAST_RESIDUAL),
        rules.LARGEST_RESIDUAL,
    )


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


def is_preferred(loss: Loss) -> bool:
    """Whether the noisy descent was better than the saddle methods in measurements."""
    return loss.has_odds or loss.is_quadratic

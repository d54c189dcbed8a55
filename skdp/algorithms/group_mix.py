"""How far to go from the plain model to the weighted one, and by how much to shift both.

Along the line between two models each group's mean loss is a convex curve, of squares a parabola.
A record adds its losses at both ends and half-way, and its residuals. Step and shift minimise the
largest of the groups' losses, each raised by what is not known of it. Lemma 6 of
docs/theory/worst_group.md.
"""

from __future__ import annotations

import math

import numpy as np

from skdp.algorithms.centering import CenteredRows
from skdp.algorithms.clipped_losses import clipped_losses
from skdp.algorithms.group_sums import GroupSums, has_shift
from skdp.algorithms.noisy_gradient_descent import NoisyGradientDescentPlan
from skdp.mechanisms import NoiseSource
from skdp.problems.records import Block
from skdp.problems.rounding import EPS

#: Prior spreads between groups: of losses, their change and curvature, and of residuals.
_SPREADS = np.array([0.4, 0.3, 0.15, 0.4, 0.4])
#: A tenth of the variances of a record's entries, for the sampling error of a group's.
_SAMPLING = np.array([0.03, 0.01, 0.01, 0.05, 0.05])
#: Standard deviations by which a curve is raised.
_PESSIMISM = 1.0
#: Steps and shifts that are compared; a shift of 1 changes margins by `MixFit.shift_unit`.
_STEPS, _SHIFTS = np.linspace(0.0, 1.25, 51), np.linspace(-1.0, 1.0, 51)


class MixFit:
    """Losses of the groups on the line between two released models.

    Parameters
    ----------
    plan : NoisyGradientDescentPlan
        With what was released of the targets.
    rows : CenteredRows
    ends : tuple of two ndarrays of shape (n_outputs, width)
    offsets : ndarray of shape (n_outputs,)

    Attributes
    ----------
    has_shift : bool
        Whether there is one intercept, which may be shifted.
    shift_unit : float
        With c for the curvature of the loss and u for the unit of losses it is
        ``sqrt(u / (2 c))``: of squares the residual at which losses are clipped, over 2.
    """

    def __init__(
        self,
        plan: NoisyGradientDescentPlan,
        rows: CenteredRows,
        ends: tuple[np.ndarray, np.ndarray],
        offsets: np.ndarray,
    ) -> None:
        self.loss, self.clipped, self.has_shift = plan.loss, clipped_losses(plan), has_shift(plan)
        self.shift_unit = math.sqrt(0.5 * self.clipped.unit / self.loss.curvature)
        self.n_records = plan.objective.design.n_records
        self.ends, self.offsets, self.rows, (first, last) = ends, offsets, rows, ends
        self.raw = [rows.weights(w) for w in (first, 0.5 * (first + last), last)]

    def terms(self, block: Block) -> list[np.ndarray]:
        """Return terms of norm 1 at most: the first loss, its change and curvature, residuals."""
        shift = self.offsets.squeeze()
        margins = [block.margins(raw) + shift for raw in self.raw]
        first, middle, last = (
            self.clipped.terms(self.loss.value(z, block.targets)) for z in margins
        )
        columns = [first, last - first, first + last - 2.0 * middle]
        if self.has_shift:
            unit = 2.0 * self.loss.curvature * self.shift_unit
            columns += [
                np.clip(self.loss.derivative(z, block.targets) / unit, -1.0, 1.0)
                for z in margins[::2]
            ]
        vectors = np.stack(columns)
        lengths = np.sqrt(np.einsum("ij,ij->j", vectors, vectors))
        return list(vectors / np.maximum(lengths, 1.0))

    def release(
        self, sums: GroupSums, proportions: np.ndarray, noise: NoiseSource, moved: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Release the losses along the line; return the best model's weights and offsets.

        `moved` bounds the rounding of a margin.
        """
        (first, last), sizes = self.ends, self.n_records * proportions
        noisy, scale = sums.release(self.rows, self.terms, noise, self.rounding(moved))
        step, shift = self.step(noisy, scale, sizes)
        return first + step * (last - first), self.offsets + shift

    def rounding(self, of_margin: float) -> float:
        """Bound what a term moves by in its last bits, by Lemma 6."""
        residuals = of_margin / self.shift_unit
        return 5.0 * self.clipped.moved(of_margin) + residuals + 32.0 * EPS

    def step(self, sums: np.ndarray, scale: float, sizes: np.ndarray) -> tuple[float, float]:
        """Return the step from the first to the last model, and the shift of the margins.

        Parameters
        ----------
        sums : ndarray of shape (n_groups, 3) or, with a shift, (n_groups, 5)
            Noisy sums of the terms.
        scale : float
            Standard deviation of their noise.
        sizes : ndarray of shape (n_groups,)
        """
        k, factor, p = sums.shape[1], self.clipped.factor, sizes / sizes.sum()
        means = factor * sums / sizes[:, None]
        variances = (factor * scale / sizes[:, None]) ** 2 + _SAMPLING[:k] / sizes[:, None]
        centre = p @ means
        gains = _SPREADS[:k] ** 2 / (_SPREADS[:k] ** 2 + variances)
        means = centre + gains * (means - centre)
        errors = _SPREADS[:k] * np.sqrt(1.0 - gains)
        shifts = _SHIFTS if self.has_shift else np.zeros(1)
        s, b = _STEPS[:, None, None], shifts[:, None]  # groups are the last axis
        # the parabola through three points: a change and a second difference
        losses = means[:, 0] + s * means[:, 1]
        losses = losses - 2.0 * s * (1.0 - s) * np.maximum(means[:, 2], 0.0)
        doubt = errors[:, 0] + s * errors[:, 1]
        if self.has_shift:
            # a bound: no second derivative is above the curvature
            losses = losses + b * ((1.0 - s) * means[:, 3] + s * means[:, 4])
            losses = losses + 0.25 * factor * b**2
            doubt = doubt + np.abs(b) * errors[:, 3:].max(axis=1)
        largest = (losses + _PESSIMISM * doubt).max(axis=2)
        i, j = np.unravel_index(int(np.argmin(largest)), largest.shape)
        return float(_STEPS[i]), float(self.shift_unit * shifts[j])

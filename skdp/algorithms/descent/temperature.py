"""The temperature of a private model: one noisy Newton step on the scale of its margins.

Clipped gradients lead to scores in the right order and of the wrong size, and so do too few steps
on squares. Two numbers, the factor of the scores and (for two classes) a shift, are corrected by
one release of the first and second derivatives of the loss in them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from skdp.algorithms.descent.rules import has_odds
from skdp.algorithms.preparation.centered_rows import CenteredRows, sum_rounding
from skdp.mechanisms import GaussianMechanism, NoiseSource
from skdp.privacy.events import Neighbouring
from skdp.privacy.report import Release
from skdp.problems import ROUNDING_SLACK, Design, LogisticLoss, Loss, SoftmaxLoss
from skdp.problems.records import Block
from skdp.problems.rounding import EPS

#: Largest quotient of the factors of squares after and before.
_LARGEST = 20.0


@dataclass(frozen=True, kw_only=True)
class TemperaturePlan:
    """The release of derivatives; every record adds a vector of norm 1 at most.

    Attributes
    ----------
    loss : LogisticLoss, SoftmaxLoss or HalfSquaredLoss
    design : Design
    neighbouring : Neighbouring
    mechanism : GaussianMechanism
        Its sensitivity lacks the rounding that depends on the weights (add/remove).
    """

    loss: Loss
    design: Design
    neighbouring: Neighbouring
    mechanism: GaussianMechanism

    @property
    def _has_shift(self) -> bool:
        return isinstance(self.loss, LogisticLoss) and self.design.intercept > 0

    def describe(self, neighbouring: Neighbouring) -> Release:
        """Describe the release."""
        return self.mechanism.describe(
            "temperature",
            5 if self._has_shift else 2,
            self.design.n_records,
            "docs/theory/noisy_gradient_descent.md, Theorem 1",
            neighbouring,
        )

    def release(
        self,
        rows: CenteredRows,
        weights: np.ndarray,
        offsets: np.ndarray,
        factor: float,
        noise: NoiseSource,
        spread: float = 1.0,
    ) -> tuple[float, float]:
        """Correct the factor of the margins, and find a shift of the log odds.

        Parameters
        ----------
        rows : CenteredRows
        weights : ndarray of shape (n_outputs, width)
            Released.
        offsets : ndarray of shape (n_outputs,)
            Released.
        factor : float
            Of the margins ``A w``, to start from.
        noise : NoiseSource
        spread : float, default=1.0
            Unit of residuals: for squares about the standard deviation of the targets.

        Returns
        -------
        factor, shift : float
        """
        norm = float(np.linalg.norm(weights))
        unit = 2.0 * norm / math.sqrt(self.design.n_features)
        unit = max(unit, 3.0 if has_odds(self.loss) else 1e-3 * spread)
        raw = rows.weights(weights)

        def part(block: Block, _: np.ndarray) -> np.ndarray:
            scores = block.margins(raw)
            margins = factor * scores + offsets.squeeze()
            return self._derivatives(scores / unit, margins, block, spread)

        total = rows.full_total(part)
        # the other records may be elsewhere, and have margins with other last bits
        bound, d = rows.norm_bound * norm, self.design.n_features
        size = bound + float(np.linalg.norm(offsets)) + self.loss.target_bound
        error = 2.0 * (d + 8) * EPS * size * self._steepness(factor, bound, size, unit, spread)
        moved = self.design.n_records * self.design.size_ratio * error
        mechanism = GaussianMechanism(
            self.mechanism.sensitivity + moved, self.mechanism.noise_multiplier
        )
        q, scale = mechanism.release(total, noise), mechanism.noise_scale
        if not has_odds(self.loss):
            # a step of Newton's method is exact, and steps that are missing may be many
            h = max(float(q[1]), 0.0)
            change = -float(q[0]) * h / (h * h + scale**2) * spread / unit
            return min(max(factor + change, 0.4 * factor), _LARGEST * factor), 0.0
        if not self._has_shift:
            h = max(float(q[1]), 0.0)
            change = -float(q[0]) * h / (h * h + (scale * 4.0 / unit) ** 2)
            shift = 0.0
        else:
            cross = q[3] / math.sqrt(2.0)
            values, vectors = np.linalg.eigh(np.array([[q[2], cross], [cross, q[4]]]))
            hessian = (vectors * np.maximum(values, 0.0)) @ vectors.T
            prior = np.diag([(unit / 4.0) ** 2, 0.09])
            gain = prior @ hessian
            change, shift = -gain @ np.linalg.solve(hessian @ gain + scale**2 * np.eye(2), q[:2])
        change = min(max(float(change), -0.6 * factor * unit), 0.6 * unit)
        return factor + change / unit, float(shift)

    def _steepness(
        self, factor: float, bound: float, size: float, unit: float, spread: float
    ) -> float:
        """Bound what the vector of a record changes by, per change of its score.

        Scores are at most `bound`; scores, offset and target together at most `size`. The columns
        are differentiated one by one; clipping a vector to norm 1 brings no two further apart.
        """
        if has_odds(self.loss):
            return (1.0 + factor) * (1.0 + bound / unit) ** 2
        residual = (1.0 + factor) * size / spread
        return (residual + (factor / spread) * bound + 2.0 * bound / unit) / unit

    def _derivatives(
        self, scores: np.ndarray, margins: np.ndarray, block: Block, spread: float
    ) -> np.ndarray:
        """Sum over records the derivatives in the factor (in units of `scores`) and the shift."""
        if not has_odds(self.loss):
            columns = [(margins - block.targets) / spread * scores, scores**2]
        elif isinstance(self.loss, SoftmaxLoss):
            basis = self.loss.basis
            classes, p = scores @ basis.T, self.loss.probabilities(margins)
            mean = np.einsum("ij,ij->i", p, classes)
            own = np.take_along_axis(classes, block.targets[:, None], axis=1)[:, 0]
            variance = np.einsum("ij,ij,ij->i", p, classes, classes) - mean**2
            columns = [mean - own, variance]
        else:
            p = expit(margins)
            residuals, h = p - block.targets, p * (1.0 - p)
            columns = [residuals * scores, h * scores**2]
            if self._has_shift:
                columns = [
                    columns[0],
                    residuals,
                    columns[1],
                    math.sqrt(2.0) * h * scores,
                    h,
                ]
        vectors = np.stack(columns)
        lengths = np.sqrt(np.einsum("ij,ij->j", vectors, vectors))
        return vectors @ (1.0 / np.maximum(lengths, 1.0))


def plan_temperature(
    loss: Loss, design: Design, neighbouring: Neighbouring, mu: float
) -> TemperaturePlan:
    """Calibrate the release to mu-Gaussian differential privacy."""
    sensitivity = neighbouring.n_changes * ROUNDING_SLACK + sum_rounding(design, 1.0)
    mechanism = GaussianMechanism(sensitivity, 1.0 / mu)
    return TemperaturePlan(loss=loss, design=design, neighbouring=neighbouring, mechanism=mechanism)

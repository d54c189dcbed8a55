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

from skdp.algorithms.preparation.centered_rows import CenteredRecords
from skdp.algorithms.preparation.noisy_sums import NoisySum
from skdp.mechanisms import NoiseSource
from skdp.privacy.events import Neighbouring
from skdp.privacy.report import Release
from skdp.problems import Design, Loss, SoftmaxLoss
from skdp.problems.records import Block
from skdp.problems.rounding import two_margins

#: Largest quotient of the factors of squares after and before.
_LARGEST = 20.0


@dataclass(frozen=True, kw_only=True)
class TemperatureDerivatives:
    """Sums over records of the derivatives of the loss in the factor and the shift of margins.

    Attributes
    ----------
    loss : Loss
    weights : ndarray of shape (n_outputs, width)
        Of ``(x, 1)``.
    offset : ndarray of shape () or (n_outputs,)
    factor : float
        Of the margins.
    unit, spread : float
        Of the scores that the factor multiplies, and of residuals.
    has_shift : bool
    """

    loss: Loss
    weights: np.ndarray
    offset: np.ndarray
    factor: float
    unit: float
    spread: float
    has_shift: bool

    def __call__(self, block: Block, _: np.ndarray) -> np.ndarray:
        scores = block.margins(self.weights)
        margins = self.factor * scores + self.offset
        scores = scores / self.unit
        if not self.loss.has_odds:
            columns = [(margins - block.targets) / self.spread * scores, scores**2]
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
            if self.has_shift:
                columns = [
                    columns[0],
                    residuals,
                    columns[1],
                    math.sqrt(2.0) * h * scores,
                    h,
                ]
        vectors = np.stack(columns)
        lengths = np.sqrt(np.einsum("ij,ij->j", vectors, vectors))
        return vectors @ block.weighted(1.0 / np.maximum(lengths, 1.0))


@dataclass(frozen=True, kw_only=True)
class TemperaturePlan:
    """The release of derivatives; every record adds a vector of norm 1 at most.

    Attributes
    ----------
    loss : LogisticLoss, SoftmaxLoss or HalfSquaredLoss
    sum : NoisySum
    """

    loss: Loss
    sum: NoisySum

    @property
    def _has_shift(self) -> bool:
        return _has_shift(self.loss, self.sum.design)

    def describe(self) -> Release:
        """Describe the release."""
        return self.sum.describe()

    def release(
        self,
        rows: CenteredRecords,
        weights: np.ndarray,
        offsets: np.ndarray,
        factor: float,
        noise: NoiseSource,
        spread: float = 1.0,
    ) -> tuple[float, float]:
        """Correct the factor of the margins, and find a shift of the log odds.

        Parameters
        ----------
        rows : CenteredRecords
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
        norm, d = float(np.linalg.norm(weights)), self.sum.design.n_features
        unit = 2.0 * norm / math.sqrt(d)
        unit = max(unit, 3.0 if self.loss.has_odds else 1e-3 * spread)
        derivatives = TemperatureDerivatives(
            loss=self.loss,
            weights=rows.weights(weights),
            offset=offsets.squeeze(),
            factor=factor,
            unit=unit,
            spread=spread,
            has_shift=self._has_shift,
        )
        # the other records may be elsewhere, and have margins with other last bits
        bound = rows.norm_bound * norm
        size = bound + float(np.linalg.norm(offsets)) + self.loss.target_bound
        moved = two_margins(d, size) * self._steepness(factor, bound, size, unit, spread)
        q, scale = self.sum.release(rows.full_total(derivatives), noise, moved)
        if not self.loss.has_odds:
            # a step of Newton's method is exact, and steps that are missing may be many
            h = max(float(q[1]), 0.0)
            change = -float(q[0]) * h / (h * h + scale**2) * spread / unit
            return min(max(factor + change, 0.4 * factor), _LARGEST * factor), 0.0
        if not self._has_shift:
            h = max(float(q[1]), 0.0)
            change = -float(q[0]) * h / (h * h + (scale * 4.0 / unit) ** 2)
            shift = 0.0
        else:
            change, shift = _step(q, np.diag([(unit / 4.0) ** 2, 0.09]), scale)
        change = min(max(float(change), -0.6 * factor * unit), 0.6 * unit)
        return factor + change / unit, float(shift)

    def _steepness(
        self, factor: float, bound: float, size: float, unit: float, spread: float
    ) -> float:
        """Bound what the vector of a record changes by, per change of its score.

        Scores are at most `bound`; scores, offset and target together at most `size`. The columns
        are differentiated one by one; clipping a vector to norm 1 brings no two further apart.
        """
        if self.loss.has_odds:
            return (1.0 + factor) * (1.0 + bound / unit) ** 2
        residual = (1.0 + factor) * size / spread
        return (residual + (factor / spread) * bound + 2.0 * bound / unit) / unit


def _step(q: np.ndarray, prior: np.ndarray, scale: float) -> np.ndarray:
    """Return the noisy Newton step of factor and shift, whatever was released."""
    cross = q[3] / math.sqrt(2.0)
    values, vectors = np.linalg.eigh(np.array([[q[2], cross], [cross, q[4]]]))
    hessian = (vectors * np.maximum(values, 0.0)) @ vectors.T
    gain = prior @ hessian
    inverse = np.linalg.pinv(hessian @ gain + scale**2 * np.eye(2), hermitian=True)
    return np.asarray(-gain @ (inverse @ q[:2]))


def plan_temperature(
    loss: Loss, design: Design, neighbouring: Neighbouring, mu: float
) -> TemperaturePlan:
    """Calibrate the release to mu-Gaussian differential privacy."""
    derivatives = NoisySum(
        design=design,
        neighbouring=neighbouring,
        mu=mu,
        sensitivity=neighbouring.n_changes,
        size=1.0,
        n_entries=5 if _has_shift(loss, design) else 2,
        name="temperature",
        reference="docs/theory/noisy_gradient_descent.md, Theorem 1",
    )
    return TemperaturePlan(loss=loss, sum=derivatives)


def _has_shift(loss: Loss, design: Design) -> bool:
    return loss.link == "logit" and design.intercept > 0

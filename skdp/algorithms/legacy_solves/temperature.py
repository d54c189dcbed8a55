"""The temperature of a private model: one noisy Newton step on the scale of its margins.

Clipped gradients lead to scores in the right order and of the wrong size, and so do too few steps
on squares. Two numbers, the factor of the scores and (for two classes) a shift, are corrected by
one release of the first and second derivatives of the loss in them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.special import expit

from skdp.algorithms.core.centered_rows import CenteredRecords
from skdp.algorithms.core.noisy_sums import NoisySum
from skdp.algorithms.statistics.margins import normal_law
from skdp.mechanisms import NoiseSource
from skdp.privacy.events import Neighbouring
from skdp.privacy.report import Release
from skdp.problems import Design, Loss, SoftmaxLoss
from skdp.problems.block import Block
from skdp.problems.rounding import two_margins

#: Largest quotient of the factors of squares after and before.
_LARGEST = 20.0
#: Prior variance of the shift.
_SHIFT_PRIOR = 0.09
#: Least second derivative, in standard deviations of its noise over that of the prior.
_LEAST_SECOND = 1e-3


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
    needs_norms: ClassVar[bool] = False

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


@dataclass(frozen=True)
class TemperatureNoise:
    """What the release does to the noise of the margins.

    Attributes
    ----------
    kept_factor, kept_shift : float
        Part of the errors of factor and shift that it takes away.
    factor_variance, shift_variance : float
        Of its own noise.
    """

    kept_factor: float
    factor_variance: float
    kept_shift: float = 0.0
    shift_variance: float = 0.0


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
        unit = self._unit(norm, spread)
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
            change, shift = _step(q, np.diag([(unit / 4.0) ** 2, _SHIFT_PRIOR]), scale)
        change = min(max(float(change), -0.6 * factor * unit), 0.6 * unit)
        return factor + change / unit, float(shift)

    def _unit(self, norm: float, spread: float) -> float:
        """Unit of the scores of weights of a norm."""
        least = 3.0 if self.loss.has_odds else 1e-3 * spread
        return max(2.0 * norm / math.sqrt(self.sum.design.n_features), least)

    def noise(
        self,
        weights: np.ndarray,
        offsets: np.ndarray,
        covariance: np.ndarray,
        factors: tuple[float, float],
        shift: float = 0.0,
        spread: float = 1.0,
    ) -> TemperatureNoise:
        """Predict the noise that is left after a release, for normal scores.

        Parameters
        ----------
        weights, offsets, spread
            As of :meth:`release`.
        covariance : ndarray of shape (n_outputs, n_outputs)
            Of the scores.
        factors : tuple of two floats
            Before and after.
        shift : float
            Found.
        """
        unit = self._unit(float(np.linalg.norm(weights)), spread)
        n, scale, k = self.sum.design.n_records, self.sum.deviation, len(weights)
        moved, residual = (factors[1] - factors[0]) * unit, 1.0
        if not self.loss.has_odds:
            h, residual, prior = n * float(covariance[0, 0]) / unit**2, spread, 1.0
        else:
            nodes, shares = normal_law(k)
            values, vectors = np.linalg.eigh(covariance)
            scores = nodes @ (np.sqrt(np.maximum(values, 0.0)) * vectors).T
            margins, targets = offsets + factors[0] * scores, np.zeros(len(scores), dtype=np.intp)
            margins = margins[:, 0] if k == 1 else margins
            second = self.loss.second_derivative(margins, targets).reshape(-1, k, k)
            squares = np.einsum("ia,iab,ib->i", scores, second, scores) / unit**2
            h, prior = n * float(shares @ squares), (unit / 4.0) ** 2
        kept, variance = _left(h, scale, prior, moved / residual)
        found = TemperatureNoise(kept, variance * (residual / unit) ** 2)
        if not self._has_shift:
            return found
        kept, variance = _left(n * float(shares @ second[:, 0, 0]), scale, _SHIFT_PRIOR, shift)
        return replace(found, kept_shift=kept, shift_variance=variance)

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


def _left(h: float, scale: float, prior: float, moved: float) -> tuple[float, float]:
    """Part of an error that a noisy Newton step takes away, and the variance that it adds.

    The step is ``-q h / (h^2 + scale^2 / prior)`` with noise in both derivatives q and h. A second
    derivative h that is nothing beside its noise is as large as a part of that.
    """
    h = max(h, _LEAST_SECOND * scale / math.sqrt(prior))
    square = h * h + scale**2 / prior
    gain, slope = h / square, (scale**2 / prior - h * h) / square**2
    of_second = moved / gain * slope
    return gain * h, (gain**2 + of_second**2) * scale**2


def _step(q: np.ndarray, prior: np.ndarray, scale: float) -> np.ndarray:
    """Return the noisy Newton step of factor and shift, whatever was released."""
    cross = q[3] / math.sqrt(2.0)
    values, vectors = np.linalg.eigh(np.array([[q[2], cross], [cross, q[4]]]))
    hessian = (vectors * np.maximum(values, 0.0)) @ vectors.T
    gain = prior @ hessian
    inverse = np.linalg.pinv(hessian @ gain + scale**2 * np.eye(2), hermitian=True)
    return np.asarray(-gain @ (inverse @ q[:2]))


def plan_temperature(
    loss: Loss, design: Design, neighbouring: Neighbouring, mu: float, is_pure: bool = False
) -> TemperaturePlan:
    """Calibrate the release as :class:`NoisySum` does."""
    derivatives = NoisySum(
        design=design,
        neighbouring=neighbouring,
        mu=mu,
        sensitivity=neighbouring.n_changes,
        size=1.0,
        n_entries=5 if _has_shift(loss, design) else 2,
        name="temperature",
        reference="docs/theory/preparation.md, Lemma T",
        is_pure=is_pure,
    )
    return TemperaturePlan(loss=loss, sum=derivatives)


def _has_shift(loss: Loss, design: Design) -> bool:
    return loss.link == "logit" and design.intercept > 0

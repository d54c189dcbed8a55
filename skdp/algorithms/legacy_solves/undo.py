"""Undo the shrinkage of a penalty, and shrink by the noise instead: post-processing.

A minimiser with the penalty A on whitened rows is, direction by direction, the minimiser without it
times ``h / (h + A)``. The released second moments tell h (docs/theory/preparation.md, section 4).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from skdp.algorithms.legacy_solves import rules


@dataclass(frozen=True, kw_only=True)
class Curvature:
    """The curvature of the mean loss on prepared rows, from releases.

    Weights have shape (n_outputs, width). It is diagonal in directions of outputs and of features.

    Attributes
    ----------
    moments : ndarray of shape (n_features,)
        Second moments h in the directions.
    directions : ndarray of shape (n_features, n_features)
        One per column.
    shares : ndarray of shape (n_outputs,)
        q, of the second derivative that clipping leaves on average, in the directions of outputs.
    outputs : ndarray of shape (n_outputs, n_outputs)
        These directions, one per column.
    constant : float
        Value of the constant; 0 for none.
    """

    moments: np.ndarray
    directions: np.ndarray
    shares: np.ndarray
    outputs: np.ndarray
    constant: float

    @property
    def floored(self) -> np.ndarray:
        """Curvature of each direction, then of the constant, shape (n_outputs, width)."""
        largest = self.moments.max(initial=0.0)
        own = np.maximum(self.moments, rules.LEAST_MOMENT * largest)
        own = np.append(own, self.constant**2) if self.constant else own
        return np.asarray(self.shares[:, None] * own)

    def rotated(self, weights: np.ndarray) -> np.ndarray:
        """Turn weights into coordinates of the directions, and the constant's."""
        d = len(self.moments)
        turned = self.outputs.T @ weights
        return np.column_stack([turned[:, :d] @ self.directions, turned[:, d:]])

    def rotated_back(self, weights: np.ndarray) -> np.ndarray:
        """Turn coordinates of the directions into weights."""
        d = len(self.moments)
        turned = np.column_stack([weights[:, :d] @ self.directions.T, weights[:, d:]])
        return np.asarray(self.outputs @ turned)

    def factors(self, alpha: float) -> np.ndarray:
        """What a solution with the penalty `alpha` is multiplied by, direction by direction."""
        return (self.floored + alpha) / self.floored

    def inverse(self, alpha: float, factor: float) -> Callable[[np.ndarray], np.ndarray]:
        """Return the function that divides flat gradients by ``factor * (curvature + alpha)``."""
        axes = np.eye(self.floored.shape[1])
        axes[: len(self.moments), : len(self.moments)] = self.directions
        blocks = (axes / (factor * (self.floored + alpha))[:, None, :]) @ axes.T  # of outputs

        def apply(gradient: np.ndarray) -> np.ndarray:
            turned = self.outputs.T @ gradient.reshape(len(blocks), -1)
            return np.ravel(self.outputs @ (blocks @ turned[:, :, None])[:, :, 0])

        return apply


class Average:
    """A weighted average of noisy weights, each in directions of outputs of its own.

    Parameters
    ----------
    shape : tuple of int
        ``(n_outputs, width)``.
    """

    def __init__(self, shape: tuple[int, int]) -> None:
        self._counted, self._total = 0.0, np.zeros(shape)
        #: Covariance of the outputs of each weight.
        self._noise = np.zeros((shape[1], shape[0], shape[0]))

    def add(
        self, weights: np.ndarray, deviations: np.ndarray, curvature: Curvature, counts: float
    ) -> None:
        """Add weights, and the deviations of their noise in coordinates of a curvature."""
        self._total, self._counted = self._total + counts * weights, self._counted + counts
        factors = curvature.outputs * (counts * deviations).T[:, None, :]
        self._noise += factors @ factors.transpose(0, 2, 1)

    def at(self, curvature: Curvature) -> tuple[np.ndarray, np.ndarray]:
        """Return the average and the variances of its noise, in coordinates of a curvature."""
        outputs = curvature.outputs
        variances = np.einsum("ba,jbc,ca->aj", outputs, self._noise, outputs)
        return curvature.rotated(self._total / self._counted), variances / self._counted**2


@dataclass(frozen=True, kw_only=True)
class LeftNoise:
    """Noise of shrunk weights, in coordinates of the directions of a :class:`Curvature`.

    Attributes
    ----------
    outputs : ndarray of shape (n_outputs, n_outputs)
        Directions of outputs, one per column.
    functions : ndarray of shape (n_features, n_features)
        Linear functions of whitened rows, one per row, ...
    variances : ndarray of shape (n_outputs, n_features)
        ... and the variances of their weights.
    constant : ndarray of shape (n_outputs,)
        Variance of the weight of the constant.
    kept : ndarray of shape (n_outputs,)
        Part of that weight that shrinkage has left.
    """

    outputs: np.ndarray
    functions: np.ndarray
    variances: np.ndarray
    constant: np.ndarray
    kept: np.ndarray

    @classmethod
    def of(
        cls,
        curvature: Curvature,
        variances: np.ndarray,
        before: np.ndarray,
        after: np.ndarray,
    ) -> LeftNoise:
        """Make it from noisy weights and what shrinkage has made of them.

        Parameters
        ----------
        curvature : Curvature
        variances, before, after : ndarray of shape (n_outputs, width)
        """
        d = len(curvature.moments)
        kept = after / np.where(before == 0.0, 1.0, before)
        last = np.zeros(len(variances))
        if curvature.constant:  # it is shrunk to a released number, not to 0
            last = np.clip(kept[:, d], 0.0, 1.0)
        constant = np.zeros(len(variances)) if not curvature.constant else variances[:, d]
        return cls(
            outputs=curvature.outputs,
            functions=curvature.directions.T,
            variances=variances[:, :d] * kept[:, :d] ** 2,
            constant=constant * last**2,
            kept=last,
        )


def shrunk(
    weights: np.ndarray,
    variances: np.ndarray,
    curvature: Curvature,
    *,
    cap: float,
    least: float,
    constant_variance: np.ndarray,
    constant: Callable[[np.ndarray], np.ndarray] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Shrink weights by their noise (empirical Bayes), all in coordinates of the directions.

    The prior variance of the weights, one number, is that of the directions with much variance.
    Margins of all outputs are as large on average.

    Parameters
    ----------
    weights, variances : ndarray of shape (n_outputs, width)
        Noisy weights, and the variance of their noise.
    curvature : Curvature
    cap : float
        Largest variance of a margin.
    least : float
        Least prior variance over the mean variance of the noise.
    constant_variance : ndarray of shape (n_outputs,)
        Variance of the margins of a constant model, from the noise of the offsets.
    constant : callable ``weights of the features -> margins``, optional
        What the weight of the constant is shrunk to, margins of shape (n_outputs,). Default: 0.

    Returns
    -------
    weights : ndarray of shape (n_outputs, width)
    penalties : ndarray of shape (n_outputs, n_features)
        What the curvature is enlarged by for the same shrinkage.
    """
    h, d = curvature.moments, len(curvature.moments)
    chosen = h >= rules.COMPARED_MOMENT * h.max(initial=0.0)
    squares = (weights[:, :d] ** 2 - variances[:, :d]).mean(axis=0)
    signal, total = max(float(h[chosen] @ squares[chosen]), 0.0), float(h.sum())
    margins = min(signal * total / float(h[chosen].sum()), cap)
    of_noise = float(variances[:, :d][:, chosen].mean())
    prior = max(margins / total, max(least, rules.LEAST_PRIOR) * of_noise)
    out = weights.copy()
    out[:, :d] *= prior / (prior + variances[:, :d])
    if curvature.constant:
        noise = variances[:, d] * curvature.constant**2
        center = 0.0 if constant is None else constant(out[:, :d]) / curvature.constant
        out[:, d] -= center
        out[:, d] *= constant_variance / (constant_variance + noise)
        out[:, d] += center
    return out, curvature.floored[:, :d] * variances[:, :d] / prior

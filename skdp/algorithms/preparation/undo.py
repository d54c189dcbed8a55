"""Undo the shrinkage of a penalty, and shrink by the noise instead: post-processing.

A minimiser with the penalty A on whitened rows is, direction by direction, the minimiser without it
times ``h / (h + A)``. The released second moments tell h (docs/theory/preparation.md, section 4).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skdp.algorithms.preparation import rules


@dataclass(frozen=True, kw_only=True)
class Curvature:
    """The curvature of the mean loss on prepared rows, from releases.

    Attributes
    ----------
    moments : ndarray of shape (n_features,)
        Second moments h in the directions.
    directions : ndarray of shape (n_features, n_features)
        One per column.
    share : float
        q, of the second derivative that clipping leaves on average.
    constant : float
        Value of the constant; 0 for none.
    """

    moments: np.ndarray
    directions: np.ndarray
    share: float
    constant: float

    @property
    def floored(self) -> np.ndarray:
        """Curvature of each direction, then of the constant."""
        largest = self.moments.max(initial=0.0)
        own = self.share * np.maximum(self.moments, rules.LEAST_MOMENT * largest)
        return np.append(own, self.share * self.constant**2) if self.constant else own

    def rotated(self, weights: np.ndarray) -> np.ndarray:
        """Turn weights into coordinates of the directions, and the constant's."""
        d = len(self.moments)
        return np.concatenate([weights[:d] @ self.directions, weights[d:]])

    def rotated_back(self, weights: np.ndarray) -> np.ndarray:
        """Turn coordinates of the directions into weights."""
        d = len(self.moments)
        return np.concatenate([self.directions @ weights[:d], weights[d:]])

    def factors(self, alpha: float) -> np.ndarray:
        """What a solution with the penalty `alpha` is multiplied by, direction by direction."""
        return (self.floored + alpha) / self.floored


def shrunk(
    weights: np.ndarray,
    variances: np.ndarray,
    curvature: Curvature,
    *,
    cap: float,
    least: float,
    constant_variance: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Shrink weights by their noise (empirical Bayes), all in coordinates of the directions.

    The prior variance of the weights, one number, is that of the directions with much variance.

    Parameters
    ----------
    weights, variances : ndarray of shape (width,)
        Noisy weights, and the variance of their noise.
    curvature : Curvature
    cap : float
        Largest variance of the margins.
    least : float
        Least prior variance over the mean variance of the noise.
    constant_variance : float
        Variance of the margin of a constant model, from the noise of the offset.

    Returns
    -------
    weights : ndarray of shape (width,)
    penalties : ndarray of shape (n_features,)
        What the curvature is enlarged by for the same shrinkage.
    """
    h, d = curvature.moments, len(curvature.moments)
    chosen = h >= rules.COMPARED_MOMENT * h.max(initial=0.0)
    signal = max(float(h[chosen] @ (weights[:d] ** 2 - variances[:d])[chosen]), 0.0)
    total = float(h.sum())
    margins = min(signal * total / float(h[chosen].sum()), cap)
    prior = max(
        margins / total, max(least, rules.LEAST_PRIOR) * float(variances[:d][chosen].mean())
    )
    out = weights.copy()
    out[:d] *= prior / (prior + variances[:d])
    if curvature.constant:
        noise = variances[d] * curvature.constant**2
        out[d] *= constant_variance / (constant_variance + noise)
    return out, curvature.floored[:d] * variances[:d] / prior

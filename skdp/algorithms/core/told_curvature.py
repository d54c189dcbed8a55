"""The curvature that noisy gradients tell, for the noise of the steps: post-processing.

Theory: docs/theory/core.md, section 7.
"""

from __future__ import annotations

import math

import numpy as np

#: Deviations of the curvature from an average one that are compared, over it.
_SPREADS = np.geomspace(0.02, 20.0, 40)
#: Precisions below this part of the largest one tell nothing.
_LEAST = 1e-8
#: Widest rows: directions are kept in models.
WIDEST = 300


def told_curvature(
    points: np.ndarray,
    gradients: np.ndarray,
    deviations: np.ndarray,
    average: float,
    moments: np.ndarray | None = None,
    moment_error: float = 0.0,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the posterior mean of a curvature C: its eigenvalues, and its directions in rows.

    Gradients are ``C (w - b)`` and noise of `deviations` at points w, less their mean with weights
    ``deviations ** -2``. `moments` are a noisy multiple of C, `moment_error` is the deviation of an
    entry on their diagonal. The prior is normal around a multiple of the identity, as wide as is
    most likely, of the `average` curvature of a direction.
    """
    d, weighted = points.shape[1], points / deviations[:, None] ** 2
    told = gradients.T @ weighted
    own, turn = np.linalg.eigh(points.T @ weighted)
    own, told, is_diagonal = np.maximum(own, 0.0), turn.T @ told @ turn, np.eye(d, dtype=bool)
    # entries are independent in the directions of the points
    precisions = np.where(is_diagonal, own, own[:, None] + own)
    sums = np.where(is_diagonal, told, told + told.T)
    if moments is not None:
        factor = average * d / max(float(np.trace(moments)), moment_error)
        known = np.where(is_diagonal, 1.0, 2.0) / (factor * moment_error) ** 2
        precisions, sums = precisions + known, sums + known * factor * (turn.T @ moments @ turn)
    upper = np.triu_indices(d)
    precision, middle = precisions[upper], average * is_diagonal[upper]
    kept = precision > _LEAST * max(float(precision.max()), 1e-300)
    off = sums[upper][kept] / precision[kept] - middle[kept]
    of_prior = np.where(is_diagonal[upper], 1.0, 0.5)[kept]
    fits = []
    for spread in _SPREADS * average:
        variance = spread**2 * of_prior + 1.0 / precision[kept]
        fits.append(float(-np.log(variance).sum() - (off**2 / variance).sum()))
    spread = float(_SPREADS[int(np.argmax(np.nan_to_num(fits, nan=-math.inf)))]) * average
    prior = np.where(is_diagonal, 1.0, 2.0) / spread**2
    found = (sums + prior * average * is_diagonal) / (precisions + prior)
    values, vectors = np.linalg.eigh(np.nan_to_num(0.5 * (found + found.T)))
    return np.maximum(values, 0.0), np.ascontiguousarray((turn @ vectors).T)

"""Second moments of rows by direction, and the curvature that noisy gradients tell of.

Nothing here reads records. Theory: docs/theory/core.md, section 7.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

#: Deviations of the curvature from an average one that are compared, over it.
_SPREADS = np.geomspace(0.02, 20.0, 40)
#: Precisions below this part of the largest one tell nothing.
_LEAST = 1e-8
#: Widest rows: directions are kept in models.
WIDEST = 300


@dataclass(frozen=True, kw_only=True)
class Spectrum:
    """Second moments of centered rows, from a release or public."""

    #: Shape (n_features,). In orthonormal directions, > 0.
    moments: np.ndarray
    #: Shape (n_features, n_features), or None. One per column; None: the coordinates.
    directions: np.ndarray | None = None

    @classmethod
    def public(cls, n_features: int) -> Spectrum:
        """Return the same in all directions, for rows whose mean square norm is 1."""
        return cls(moments=np.full(n_features, 1.0 / n_features))

    @classmethod
    def released(cls, moments: np.ndarray, directions: np.ndarray, floor: float) -> Spectrum:
        """Raise released moments to a floor, and all to the mean square norm 1."""
        moments = np.maximum(moments, floor)
        return cls(moments=moments * max(1.0, 1.0 / moments.sum()), directions=directions)

    def penalised(self, functions: np.ndarray, before: np.ndarray, after: np.ndarray) -> np.ndarray:
        """Shrink functions of the features as a penalty has shrunk weights, by direction.

        All of shape (m, n_features).
        """
        return self.turned_back(self.turned(functions) * self._left(before, after))

    def _left(self, before: np.ndarray, after: np.ndarray) -> np.ndarray:
        before, after = self.turned(before), self.turned(after)
        return np.asarray(
            (before * after).sum(axis=0) / np.maximum((before**2).sum(axis=0), 1e-300)
        )

    def penalty_noise(self, before: np.ndarray, after: np.ndarray, deviation: float) -> np.ndarray:
        """Return R with ``R' R`` the covariance of weights by the noise of the moments H.

        With the penalty they are ``v = (C H + alpha)^-1 C H w``, which an error E of H moves by
        ``(C H + alpha)^-1 C E (w - v)``. Parameters `before` and `after`, of shape (1, n_features),
        are w and v; a diagonal entry of E has a `deviation`.
        """
        left, away = self._left(before, after), self.turned(before - after)[0]
        length, d = float(np.linalg.norm(away)), len(away)
        unit = away / max(length, 1e-300)
        # a root of the covariance of E (w - v): (deviation^2 / 2) (|u|^2 + u u')
        root = np.eye(d) + (math.sqrt(2.0) - 1.0) * np.outer(unit, unit)
        root *= deviation * length / math.sqrt(2.0)
        return self.turned_back(root / self.moments * left)

    def turned(self, weights: np.ndarray) -> np.ndarray:
        """Turn weights of features, shape (n_outputs, n_features), into those of directions."""
        return weights if self.directions is None else weights @ self.directions

    def turned_back(self, weights: np.ndarray) -> np.ndarray:
        return weights if self.directions is None else weights @ self.directions.T


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

"""The constant of log odds: mean probabilities are those of a constant model.

The intercept has no penalty, so that the mean first derivative of the loss is 0 at its minimiser,
and at that of the constant model, too. Margins of rows are taken for normal ones. Then the released
constant model and the covariance of the margins tell the constant of a model, whose log odds are
larger than those of its mean probabilities (docs/theory/preparation.md, section 4).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from skdp.algorithms.preparation.undo import Curvature
from skdp.problems.losses import Loss
from skdp.problems.matrices import read_only_view

#: Nodes and weights of a normal law, and the number of draws of several margins, with their
#: opposites.
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(61)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
_DRAWS = 500
#: Newton steps, the largest change of log odds in one of them, and the change that is none.
_STEPS, _LONGEST, _NO_CHANGE = 100, 1.0, 1e-7


@lru_cache
def normal_law(k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes of a normal law of k margins, shape (m, k), and their weights."""
    if k == 1:
        return _NODES[:, None], _WEIGHTS
    draws, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((_DRAWS, k)))  # public
    nodes = math.sqrt(_DRAWS) * np.concatenate([draws, -draws])
    return read_only_view(nodes), read_only_view(np.full(2 * _DRAWS, 0.5 / _DRAWS))


def mean_derivatives(
    loss: Loss, offsets: np.ndarray, covariance: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean first and second derivative of log odds for normal margins, and target 0."""
    nodes, shares = normal_law(len(offsets))
    values, vectors = np.linalg.eigh(covariance)
    margins = offsets + nodes @ (np.sqrt(np.maximum(values, 0.0)) * vectors).T
    k = len(offsets)
    targets = np.zeros(len(margins), dtype=np.intp)
    margins = margins[:, 0] if k == 1 else margins
    first = loss.derivative(margins, targets).reshape(-1, k)
    second = loss.second_derivative(margins, targets).reshape(-1, k * k)
    return shares @ first, (shares @ second).reshape(k, k)


class ConstantModel:
    """A model of log odds without features, whose mean probabilities others have, too.

    Parameters
    ----------
    loss : Loss
        Of log odds.
    offsets : ndarray of shape (n_outputs,)
        Margins.
    covariance : ndarray of shape (n_outputs, n_outputs), optional
        Of the margins, if the offsets are those of the mean row of another model. Default: 0.

    Attributes
    ----------
    curvature : ndarray of shape (n_outputs, n_outputs)
        Mean second derivative of the loss, at first of this model.
    """

    def __init__(
        self, loss: Loss, offsets: np.ndarray, covariance: np.ndarray | None = None
    ) -> None:
        self.loss, self._margins, self._last, k = loss, offsets, offsets, len(offsets)
        given = np.zeros((k, k)) if covariance is None else covariance
        self._rate, self.curvature = mean_derivatives(loss, offsets, given)

    def offsets(self, covariance: np.ndarray, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the margins of the mean row for a covariance of margins, and the curvature."""
        offsets = start
        for _ in range(_STEPS):
            rate, curvature = mean_derivatives(self.loss, offsets, covariance)
            step = np.linalg.lstsq(curvature, self._rate - rate, rcond=1e-9)[0]
            offsets = offsets + np.clip(step, -_LONGEST, _LONGEST)
            if np.abs(step).max() <= _NO_CHANGE:
                break
        return offsets, curvature

    def around(self, curvature: Curvature) -> Callable[[np.ndarray], np.ndarray]:
        """Return the function that tells by how much the margins of the mean row differ from these.

        Weights of features, shape (n_outputs, n_features), and margins are in the coordinates of a
        curvature of prepared rows. Each search starts where the last one has ended, and leaves the
        mean second derivative there.
        """
        outputs = curvature.outputs

        def away(weights: np.ndarray) -> np.ndarray:
            covariance = outputs @ ((weights * curvature.moments) @ weights.T) @ outputs.T
            self._last, self.curvature = self.offsets(covariance, self._last)
            return outputs.T @ (self._last - self._margins)

        return away

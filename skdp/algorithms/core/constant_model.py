"""The constant of log odds: mean probabilities are those of a constant model.

The intercept has no penalty, so that the mean first derivative of the loss is 0 at its minimiser,
and at that of the constant model, too. Margins of rows are taken for normal ones. Then the released
constant model and the covariance of the margins tell the constant of a model, whose log odds are
larger than those of its mean probabilities (docs/theory/core.md, section 11).
"""

from __future__ import annotations

import numpy as np

from skdp.algorithms.statistics.margins import normal_law
from skdp.problems.losses import Loss

#: Newton steps, the largest change of log odds in one of them, and the change that is none.
_STEPS, _LONGEST, _NO_CHANGE = 100, 1.0, 1e-7


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

    Attributes
    ----------
    curvature : ndarray of shape (n_outputs, n_outputs)
        Mean second derivative of the loss, at first of this model.
    """

    def __init__(self, loss: Loss, offsets: np.ndarray) -> None:
        self.loss, self._margins, self._last, k = loss, offsets, offsets, len(offsets)
        self._rate, self.curvature = mean_derivatives(loss, offsets, np.zeros((k, k)))

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

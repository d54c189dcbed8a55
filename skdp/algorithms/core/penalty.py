"""The penalty that a user wants: after all releases, for nothing.

The released weights are those of a model without a penalty, and second moments of rows were
released, too. A penalty then shrinks the weights direction by direction, as it would have shrunk
the solution (docs/theory/core.md, section 11). The intercept has none.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import softmax

from skdp.algorithms.core.centered_rows import CenteredRecords
from skdp.algorithms.core.margin_laws import Balance, basis
from skdp.algorithms.core.spectrum import Spectrum
from skdp.algorithms.statistics.margins import typical_curvature
from skdp.problems import Objective
from skdp.problems.losses import Loss

#: Penalty over the curvature of an average direction from which on it needs second moments.
_SHRUNK = 0.05
#: What is said of it in reports.
AFTER_RELEASES = "alpha enters after the releases, as if the solution had had it"
#: Steps to the fixed point of curvature and weights, and the change that is none.
_STEPS, _NO_CHANGE = 100, 1e-9
#: Least curvature; draws of a normal law in several directions.
_FLATTEST, _DRAWS = 1e-12, 500


def needs_moments(objective: Objective) -> bool:
    """Whether the penalty would shrink an average direction of rows of norm 1.

    Without second moments all directions would be shrunk alike: large ones too much.
    """
    average = objective.risk.loss.curvature / objective.design.n_features
    return objective.alpha > _SHRUNK * average


def penalised_rows(
    objective: Objective,
    rows: CenteredRecords,
    weights: np.ndarray,
    offsets: np.ndarray,
    spectrum: Spectrum,
    spread: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Give weights of centered rows and their constant the penalty of an objective.

    Parameters and result are those of :func:`penalised`, the penalty being one of coefficients, and
    the last two as one of shape (2, n_outputs).
    """
    d, (of_rows, of_targets) = objective.design.n_features, rows.centering.errors
    constants = rows.constant * weights[:, d:].sum(axis=1)
    shrunk, moved, *errors = penalised(
        objective.risk.loss,
        weights[:, :d],
        offsets + constants,
        spectrum,
        alpha=objective.alpha / rows.unit**2,
        spread=spread,
        first=rows.centering.offsets,
        errors=(of_rows, of_targets * (objective.risk.loss.target_bound or 1.0)),
    )
    return np.column_stack([shrunk, weights[:, d:]]), moved - constants, np.array(errors)


def penalised(
    loss: Loss,
    weights: np.ndarray,
    offsets: np.ndarray,
    spectrum: Spectrum,
    *,
    alpha: float,
    spread: float,
    first: np.ndarray,
    errors: tuple[float, float],
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Give weights the penalty ``alpha |w|^2 / 2`` beside the mean loss.

    Margins of rows are taken for normal ones: then ``C(w) H w + alpha w = C(w*) H w*`` holds for
    the minimisers w and w* with and without the penalty, C the mean second derivative of the loss
    and H the second moments. Log odds are moved so that the mean probabilities are those of a
    constant model.

    The margins of the mean row differ from that because they make up for the errors of two
    releases: of the means of rows, as much as there are weights, and of the constant model. Also
    returned are the part of this that is kept, and deviations of the errors that are left.

    Weights are of centered rows and `offsets` the margins of the mean row; `first` are those of the
    constant model, `spread` is about the deviation of numeric targets, and `errors` are those of a
    coordinate of the mean of rows, and of the mean of targets in units of the loss.
    """
    z = spectrum.turned(weights)
    model = _Shrinkage(loss, z, offsets, first, spectrum.moments, spread)
    shrunk, moved = model.at(alpha)
    # of minus the error of the means times the weights, and the error of the constant model
    of_means, of_first = errors[0] ** 2, (errors[1] / model.first_curvature) ** 2
    if not (loss.has_odds or loss.is_quadratic):  # the mean is not the best constant
        of_first += spread**2
    kept, error = kept_shift(z, shrunk, of_means, of_first)
    return spectrum.turned_back(shrunk), moved + kept * (offsets - model.offsets), kept, error


def kept_shift(
    before: np.ndarray, after: np.ndarray, of_means: float, of_first: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return which part of a correction of two errors is kept, and the deviation of what is left.

    Weights were shrunk, of shape (k, n_features). The errors' variances are those of a coordinate
    of the means of rows, and of the constant model.
    """
    shared = of_means * (before * after).sum(axis=1) + of_first
    kept = shared / np.maximum(of_means * (before * before).sum(axis=1) + of_first, 1e-300)
    left = of_means * (after * after).sum(axis=1) + of_first - kept * shared
    return kept, np.sqrt(np.maximum(left, 0.0))


class _Shrinkage:
    """Minimisers with each penalty, of the one without, in the directions of the spectrum."""

    def __init__(
        self,
        loss: Loss,
        weights: np.ndarray,
        offsets: np.ndarray,
        first: np.ndarray,
        moments: np.ndarray,
        spread: float,
    ) -> None:
        self.loss, self.moments, self.offsets = loss, moments, first
        self.first_curvature, k = 1.0, len(weights)
        if loss.has_odds:
            self._unit = math.sqrt(2.0) if loss.link == "logit" else 1.0
            self._balance = Balance(softmax(basis(k + 1) @ first / self._unit), _DRAWS)
            curvature = float(
                np.trace(self._balance.curvature(np.zeros((k, k)), first / self._unit))
            )
            self.first_curvature = max(curvature / (k * self._unit), _FLATTEST)
            self.offsets, self._curvature = self._calibrated(offsets, weights)
        else:
            self._curvature = typical_curvature(loss, spread) * np.eye(k)
        self._score = self._curvature @ (weights * moments)

    def at(self, alpha: float) -> tuple[np.ndarray, np.ndarray]:
        """Return weights and offsets."""
        offsets, weights = self.offsets, self._solved(self._curvature, alpha)
        for _ in range(_STEPS if self.loss.has_odds and alpha > 0.0 else 0):
            offsets, curvature = self._calibrated(offsets, weights)
            before, weights = weights, self._solved(curvature, alpha)
            if np.abs(weights - before).max() <= _NO_CHANGE * np.abs(weights).max():
                break
        return weights, offsets

    def _calibrated(
        self, offsets: np.ndarray, weights: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return offsets that leave the mean probabilities, and the curvature there."""
        values, vectors = np.linalg.eigh((weights * self.moments) @ weights.T)
        root = vectors * np.sqrt(np.maximum(values, 0.0)) / self._unit
        base = self._balance.base(root, offsets / self._unit)
        return self._unit * base, self._balance.curvature(root, base) / self._unit**2

    def _solved(self, curvature: np.ndarray, alpha: float) -> np.ndarray:
        """Solve ``C w h + alpha w = score`` direction by direction."""
        values, vectors = np.linalg.eigh(curvature)
        scales = np.maximum(values, _FLATTEST)[:, None] * self.moments + alpha
        return np.asarray(vectors @ ((vectors.T @ self._score) / scales))

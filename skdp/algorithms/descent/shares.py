"""Shares of classes, and of the signal in noisy weights."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from skdp.algorithms.descent import rules
from skdp.algorithms.preparation.centered_rows import CenteredRecords
from skdp.problems import Loss, SoftmaxLoss


def class_shares(loss: Loss, offsets: np.ndarray) -> np.ndarray:
    """Return the shares of the classes in a constant model of log odds, shape (n_classes,)."""
    if loss.n_margins == 1:
        share = float(expit(offsets[0]))
        return np.array([1.0 - share, share])
    assert isinstance(loss, SoftmaxLoss)
    return np.asarray(loss.probabilities(offsets[None, :])[0])


def signal_share(weights: np.ndarray, variance: float) -> float:
    """Return the share of the squared weights that is not noise, about; 0 without weights."""
    square = float((weights**2).sum())
    return 0.0 if square == 0.0 else 1.0 - weights.size * variance / square


def balanced(
    raw: np.ndarray, variance: float, weights: np.ndarray, rows: CenteredRecords
) -> np.ndarray:
    """Turn weights into those of classes of equal sizes, beside log odds of 0.

    Without the constant feature, and shrunk once more: the noise in them is no longer small beside
    the log odds of a rare class.

    Parameters
    ----------
    raw : ndarray of shape (n_outputs, width)
        Weights before they were shrunk.
    variance : float
        Of their noise.
    weights : ndarray of shape (n_outputs, width)
    rows : CenteredRecords
    """
    weights = max(signal_share(raw, variance), rules.LEAST_SIGNAL) * weights
    if rows.has_intercept:
        weights[:, -1] = 0.0
    return weights

"""Shares of classes, and of what the records of a column tell."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import expit

from skdp.algorithms.legacy_solves import rules
from skdp.problems import Loss, SoftmaxLoss


def class_shares(loss: Loss, offsets: np.ndarray) -> np.ndarray:
    """Return the shares of the classes in a constant model of log odds, shape (n_classes,)."""
    if loss.n_margins == 1:
        share = float(expit(offsets[0]))
        return np.array([1.0 - share, share])
    assert isinstance(loss, SoftmaxLoss)
    return np.asarray(loss.probabilities(offsets[None, :])[0])


def reliability(moments: np.ndarray, half: float) -> np.ndarray:
    """Return what is kept of weights of columns by their second moments; 1/2 at `half`."""
    squares = (moments / half) ** 2
    return np.asarray(squares / (1.0 + squares))


def expected_reliability(values: np.ndarray, deviation: float, half: float) -> np.ndarray:
    """Return the mean of the :func:`reliability` of each column given noisy numbers of all.

    Empirical Bayes: the law of the numbers is that of the largest likelihood on a grid (Kiefer and
    Wolfowitz, by the EM algorithm), with one column more that is uniform on the grid. So columns
    that noise has raised are known by those that it has lowered.

    Parameters
    ----------
    values : ndarray of shape (n_features,)
        Second moments with normal noise.
    deviation : float
        Of the noise.
    half : float
        Moment at which the reliability is 1/2.
    """
    low, high = rules.GRID_RANGE
    low, high = low * min(half, deviation), high * max(half, deviation)
    grid, values = np.geomspace(low, high, rules.GRID), np.clip(values, -high, high)
    logs = -0.5 * ((values[:, None] - grid) / deviation) ** 2
    likely = np.exp(logs - logs.max(axis=1, keepdims=True))
    uniform = np.full(len(grid), 1.0 / len(grid))
    law = uniform
    for _ in range(rules.EM_STEPS):
        law = (law * ((1.0 / (likely @ law)) @ likely) + uniform) / (len(values) + 1.0)
    posterior = likely * law
    return np.asarray((posterior @ reliability(grid, half)) / posterior.sum(axis=1))


def kept_of_columns(
    learnt: np.ndarray,
    variances: np.ndarray,
    moments: np.ndarray,
    deviation: float,
    *,
    noise: float,
    n_records: float,
) -> np.ndarray:
    """Return the part of weights of log odds that is kept, shape (n_outputs, n_features).

    The weight of a column is mostly noise if all noise together exceeds what the records of the
    column can say, unless it is larger than noise alone makes it. Their number has noise, too: what
    is kept is its mean given the released moments of all columns.

    Parameters
    ----------
    learnt, variances : ndarray of shape (n_outputs, n_features)
        Weights of centered rows, and the variances of their noise.
    moments : ndarray of shape (n_features,)
        Second moments, as released.
    deviation : float
        Of their noise.
    noise : float
        Of a mean of numbers up to 1, with the whole budget.
    n_records : float
    """
    sampled = rules.HALF_SAMPLED / n_records
    half = math.hypot(rules.HALF_RELIABLE * noise, sampled)
    parts = expected_reliability(moments, deviation, half)
    of_noise = variances + (sampled / (np.maximum(moments, 0.0) + deviation)) ** 2
    limit = rules.NOISE_DEVIATIONS**2 * of_noise / np.maximum(learnt**2, 1e-300)
    return np.asarray(np.maximum(parts, 1.0 - limit))

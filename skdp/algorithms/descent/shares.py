"""Shares of classes, of the signal in noisy weights, and of what the records of a column tell."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import expit

from skdp.algorithms.descent import rules
from skdp.algorithms.preparation.centered_rows import Centering
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


def reliability(moments: np.ndarray, half: float) -> np.ndarray:
    """Return what is kept of weights of columns by their second moments; 1/2 at `half`."""
    squares = (moments / half) ** 2
    return np.asarray(squares / (1.0 + squares))


def expected_reliability(
    values: np.ndarray, deviation: float, half: float, is_signed: bool = False
) -> np.ndarray:
    """Return the mean of the :func:`reliability` of each column given noisy numbers of all.

    Empirical Bayes: the law of the numbers is that of the largest likelihood on a grid (Kiefer and
    Wolfowitz, by the EM algorithm), with one column more that is uniform on the grid. So columns
    that noise has raised are known by those that it has lowered.

    Parameters
    ----------
    values : ndarray of shape (n_features,)
        Second moments, or bounds on them up to their sign, with normal noise.
    deviation : float
        Of the noise.
    half : float
        Moment at which the reliability is 1/2.
    is_signed : bool, default=False
        Whether numbers below 0 are not noise alone.
    """
    low, high = rules.GRID_RANGE
    low, high = low * min(half, deviation), high * max(half, deviation)
    grid, values = np.geomspace(low, high, rules.GRID), np.clip(values, -high, high)
    if is_signed:
        grid = np.concatenate([-grid, grid])
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
    centering: Centering,
    loss: Loss,
    noise: float,
    n_records: float,
    is_squared: bool = False,
) -> np.ndarray:
    """Return the part of the weights of each column that is kept, shape (n_outputs, n_features).

    The weight of a column is mostly noise if all noise together exceeds what the records of the
    column can say, unless it is larger than noise alone makes it. Their number has noise, too: what
    is kept is its mean given the released moments of all columns. Of squares the weights of columns
    of small variance matter, too: a column has at least as many records as rows of norm 1 need for
    its mean.

    Parameters
    ----------
    learnt, variances : ndarray of shape (n_outputs, n_features)
        Weights of centered rows, and the variances of their noise.
    moments : ndarray of shape (n_features,)
        Second moments, as released.
    deviation : float
        Of their noise.
    centering : Centering
    loss : Loss
    noise : float
        Of a mean of numbers up to 1, with the whole budget.
    n_records : float
    is_squared : bool, default=False
        Whether errors are squared.
    """
    sampled = rules.HALF_SAMPLED / n_records if loss.has_odds else 0.0
    half = math.hypot(rules.HALF_RELIABLE * noise, sampled)
    parts = expected_reliability(moments, deviation, half)
    if is_squared and centering.mean.any():
        of_means = centering.errors[0] * centering.scale
        by_means = expected_reliability(centering.mean, of_means, half, is_signed=True)
        parts = np.maximum(parts, by_means)
    of_noise = variances + (sampled / (np.maximum(moments, 0.0) + deviation)) ** 2
    limit = rules.NOISE_DEVIATIONS**2 * of_noise / np.maximum(learnt**2, 1e-300)
    return np.asarray(np.maximum(parts, 1.0 - limit))

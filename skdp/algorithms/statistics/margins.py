"""Normal margins: nodes of their law, curvatures of losses there, and what sampling moves."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import expit, gammaincinv

from skdp.problems import Design, Loss
from skdp.problems.matrices import read_only_view
from skdp.problems.multiclass_losses import OneVsRestLoss

#: Mean of the prior of the variance of targets, in units of the squared bound on them.
PRIOR_VARIANCE = 0.15
#: Nodes of a normal law in one direction.
_NODES = 61
#: Halvings of the range of a factor.
_HALVINGS = 12
#: Number of quantiles of the lengths of rows.
_QUANTILES = 9


@lru_cache(maxsize=64)
def normal_law(k: int, n_draws: int = 500) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes of a standard normal law in k directions, shape (m, k), and their weights.

    Several directions have draws, with their opposites.
    """
    if k == 1:
        nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
        return read_only_view(nodes[:, None]), read_only_view(weights / weights.sum())
    n = max(n_draws, 3 * k)
    draws, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((n, k)))  # public
    nodes = math.sqrt(n) * np.concatenate([draws, -draws])
    return read_only_view(nodes), read_only_view(np.full(2 * n, 0.5 / n))


def typical_curvature(loss: Loss, spread: float = 1.0) -> float:
    """Return the mean second derivative of a loss of one margin, by that of its slope.

    ``E phi''(z) = E z phi'(z) / s^2`` for normal z of standard deviation s: for numbers the
    residuals, for classes the margins. It needs no second derivative at a kink.
    """
    return float(typical_curvatures(loss, spread, np.array([math.inf]))[0])


def typical_curvatures(loss: Loss, spread: float, clips: np.ndarray) -> np.ndarray:
    """Return the same for several limits that slopes are clipped at, shape (m,)."""
    z, density, slopes = normal_slopes(loss, spread, clips, 4001)
    return np.asarray((density * z * slopes).sum(axis=1) / density.sum() / spread**2)


def normal_slopes(
    loss: Loss, spread: float, clips: np.ndarray, size: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return points z, their normal density, and the slopes there for each limit, (m, size)."""
    loss = loss.base if isinstance(loss, OneVsRestLoss) else loss
    z = spread * np.linspace(-8.0, 8.0, size)
    density = np.exp(-0.5 * (z / spread) ** 2)
    target = 0.0 if loss.target_bound else 1.0
    slopes = loss.derivative(z, np.full(size, target))
    return z, density, np.clip(slopes, -clips[:, None], clips[:, None])


@dataclass(frozen=True, kw_only=True)
class ClippedCurvature:
    """Means over records of the derivative of clipped residuals in the margins."""

    #: Shape (k, k). Its mean, for directions that the margins do not depend on.
    mean: np.ndarray
    #: Shape (k, k). Mean products of clipped residuals.
    squares: np.ndarray


def clipped_curvature(
    loss: Loss,
    offsets: np.ndarray,
    covariance: np.ndarray,
    clip: float,
    rest: np.ndarray,
    *,
    spread: float = 1.0,
    factor: float | None = None,
) -> ClippedCurvature:
    """Compute the curvature that clipping leaves, for normal margins of the means `offsets`.

    Gradients have at most the norm `clip`, and `rest` are quantiles of the squared lengths of rows
    but for the directions of the margins. `factor`, of the margins in the odds that classes are
    taken to have, is by default that for which the mean clipped gradient along the margins is 0.
    """
    k = len(offsets)
    if not loss.has_odds:
        clips = clip / np.sqrt(rest)
        mean = float(np.mean(typical_curvatures(loss, spread, clips))) * np.eye(k)
        _, density, slopes = normal_slopes(loss, spread, clips, 401)
        squares = np.asarray((density * slopes**2).sum(axis=1) / density.sum())
        square = float(np.mean(squares)) * np.eye(k)
        return ClippedCurvature(mean=mean, squares=square)
    nodes, shares = normal_law(k)
    values, vectors = np.linalg.eigh(covariance)
    away = nodes @ (np.sqrt(np.maximum(values, 0.0)) * vectors).T
    margins = offsets + away
    margins = margins[:, 0] if k == 1 else margins
    derivative, square = np.zeros((len(nodes), k, k)), np.zeros((k, k))
    clips = clip / np.sqrt(rest)
    parts, pulls = [], []
    for code in range(loss.n_outputs + 1 if k > 1 else 2):
        targets = np.full(len(margins), code, dtype=np.intp)
        first = loss.derivative(margins, targets).reshape(-1, k)
        second = loss.second_derivative(margins, targets).reshape(-1, k, k)
        lengths = np.maximum(np.sqrt((first**2).sum(axis=1)), 1e-300)
        cuts = np.minimum(1.0, clips / lengths[:, None])
        unit = first / lengths[:, None]
        turned = second - unit[:, :, None] * np.einsum("ia,iab->ib", unit, second)[:, None, :]
        free = (cuts == 1.0).mean(axis=1)
        turning = np.where(cuts < 1.0, cuts, 0.0).mean(axis=1)  # what is clipped still turns
        own = free[:, None, None] * second + turning[:, None, None] * turned
        parts.append((own, first, (cuts**2).mean(axis=1)))
        pulls.append(cuts.mean(axis=1) * (first * away).sum(axis=1))
    chances = _chances(loss, offsets, away, shares, np.stack(pulls, axis=1), factor)
    for code, (own, first, cut) in enumerate(parts):
        derivative += chances[:, code, None, None] * own
        square += np.einsum("i,ia,ib->ab", shares * chances[:, code] * cut, first, first)
    derivative = 0.5 * (derivative + derivative.transpose(0, 2, 1)) * shares[:, None, None]
    return ClippedCurvature(mean=derivative.sum(axis=0), squares=square)


def _chances(
    loss: Loss,
    offsets: np.ndarray,
    away: np.ndarray,
    shares: np.ndarray,
    pulls: np.ndarray,
    factor: float | None,
) -> np.ndarray:
    """Probabilities of the classes at nodes, (m, n_classes); without a factor by `pulls`."""

    def at(factor: float) -> np.ndarray:
        likely = offsets + factor * away
        if len(offsets) > 1:
            return np.asarray(loss.probabilities(likely))  # type: ignore[attr-defined]
        odds = expit(likely[:, 0])
        return np.column_stack([1.0 - odds, odds])

    if factor is not None:
        return at(factor)
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if float(shares @ (at(middle) * pulls).sum(axis=1)) > 0.0:
            low = middle
        else:
            high = middle
    return at(high)


def row_squares(moments: np.ndarray, trace: float) -> np.ndarray:
    """Quantiles of squared lengths of normal rows, weighted by these, of a mean and a scatter."""
    total = float(moments.sum())
    freedom = max(total**2 / float((moments**2).sum()) * min(trace / total, 1.0), 1.0)
    # weighted by its value, a chi-squared variable has two more degrees of freedom
    levels = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
    quantiles = 2.0 * gammaincinv(0.5 * (freedom + 2.0), levels)
    return np.asarray(trace / freedom * quantiles)


def sampling_noise(loss: Loss, design: Design, alpha: float = 0.0) -> float:
    """Deviation of the margin of an average row over samples of a population, without noise.

    ``sqrt(p E[r^2] / n) / E[r']`` with p weights and the residual r, of margins of variance 1 or
    numbers of the prior's, times ``c m / (c m + alpha)``, c the curvature and m rows' moment.
    """
    k = loss.n_outputs
    spread = loss.target_bound * math.sqrt(PRIOR_VARIANCE) or 1.0
    given = loss, np.zeros(k), np.eye(k)
    found = clipped_curvature(*given, math.inf, np.ones(1), spread=spread, factor=1.0)
    curvature, square = float(np.trace(found.mean)) / k, float(np.trace(found.squares)) / k
    bend = curvature * design.second_moment
    left = bend / (bend + alpha) / curvature
    return left * math.sqrt(design.width * square / design.n_records)

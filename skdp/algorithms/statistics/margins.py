"""Normal margins: nodes of their law, and slopes and curvatures of losses there."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from skdp.problems.losses import Loss
from skdp.problems.matrices import read_only_view
from skdp.problems.multiclass_losses import OneVsRestLoss

#: Mean of the prior of the variance of targets, in units of the squared bound on them.
PRIOR_VARIANCE = 0.15
#: Nodes of a normal law in one direction.
_NODES = 61


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


def typical_curvature(loss: Loss, spread: float = 1.0, clip: float = math.inf) -> float:
    """Return the mean second derivative of a loss of one margin, by that of its slope.

    ``E phi''(z) = E z phi'(z) / s^2`` for normal z of standard deviation s: for numbers the
    residuals, for classes the margins. It needs no second derivative at a kink. Slopes may be
    clipped.
    """
    return float(typical_curvatures(loss, spread, np.array([clip]))[0])


def typical_curvatures(loss: Loss, spread: float, clips: np.ndarray) -> np.ndarray:
    """Return the same for several limits of the slopes, shape (m,)."""
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

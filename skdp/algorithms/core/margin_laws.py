"""What clipped gradients make of normal margins: tables of public or released numbers.

Margins of records are taken for ``t g``, g standard normal in the k directions of the outputs, beside
a base for which mean probabilities are the released shares. The mean clipped gradient along g at
fitted margins ``s g`` is the pull ``G(s, t)``: steps without noise go where it vanishes. By Stein's identity unclipped log odds need one function alone, the slope
``f(s) = E g . p(s g) / k``: the best size s of margins whose correlation with the true ones is r
solves ``f(s) = r f(t)`` (docs/theory/core.md, section 4).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.linalg import helmert
from scipy.special import erf, softmax

#: Norm of an average prepared row, by which residuals are clipped: hypot(1, 0.2).
ROW = math.hypot(1.0, 0.2)
#: Grid of fitted over true deviations.
_RATIOS = np.linspace(0.0, 3.0, 31)
#: Nodes of a normal law in one direction, and draws in several, with their opposites.
_NODES, _DRAWS = 61, 150


@lru_cache(maxsize=64)
def normal_law(k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes of a standard normal law in k directions, shape (m, k), and their weights."""
    if k == 1:
        nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
        return nodes[:, None], weights / weights.sum()
    n = max(_DRAWS, 3 * k)
    draws = np.random.default_rng(0).standard_normal((n, k))  # public
    draws = math.sqrt(n) * np.linalg.qr(draws)[0]
    return np.concatenate([draws, -draws]), np.full(2 * n, 0.5 / n)


@dataclass(frozen=True)
class Law:
    """Tables of normal margins.

    Attributes
    ----------
    deviations : ndarray of shape (m,)
        Grid of true deviations t.
    pull : callable ``clip -> ndarray of shape (m, 31)``
        G at fitted deviations of 0 to 3 times the true one.
    slope : ndarray of shape (m,)
        f at the deviations.
    base : ndarray of shape (m, k)
        Margins of the mean record for which mean probabilities are the shares; 0 for squares.
    center : callable ``clip -> ndarray of shape (m, k)``
        Those for which the mean clipped residual is 0 if the deviation is the true one.
    """

    deviations: np.ndarray
    pull: Callable[[float], np.ndarray]
    slope: np.ndarray
    base: np.ndarray
    center: Callable[[float], np.ndarray]

    def center_at(self, clip: float, size: float) -> np.ndarray:
        """Return the margins of the mean record where clipped residuals have the mean 0."""
        return _interpolated(np.array([size]), self.deviations, self.center(clip))[0]

    def end(self, clip: float, deviation: float) -> tuple[float, float]:
        """Return where steps end, over the true deviation, and the curvature there."""
        row = int(np.argmin(np.abs(self.deviations - deviation)))
        pulls = self.pull(clip)[row]
        first = int(np.argmax(pulls > 0.0)) or len(_RATIOS) - 1
        width = _RATIOS[1] * self.deviations[row]
        rise = max(pulls[first] - pulls[first - 1], 1e-12)
        return float(_RATIOS[first] - _RATIOS[1] * pulls[first] / rise), float(rise / width)

    def pulled(self, clip: float) -> Callable[[np.ndarray], np.ndarray]:
        """Return G as a function of fitted deviations, shape (m, j), one row for each t."""
        table, rows = self.pull(clip), np.arange(len(self.deviations))[:, None]

        def pull(fitted: np.ndarray) -> np.ndarray:
            places = np.clip(fitted / self.deviations[:, None] / _RATIOS[1], 0.0, 29.999)
            cell = places.astype(np.intp)
            part = places - cell
            return np.asarray((1.0 - part) * table[rows, cell] + part * table[rows, cell + 1])

        return pull

    def best(self, correlation: np.ndarray) -> np.ndarray:
        """Return the best size of margins for correlations with the true ones, shape (m, j)."""
        wanted = correlation * self.slope[:, None]
        return np.interp(wanted, np.append(0.0, self.slope), np.append(0.0, self.deviations))

    def base_at(self, size: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the base of margins of a size, and its derivative in the size; each (k,)."""
        step = 0.01 * size + 1e-3
        at, ahead = _interpolated(np.array([size, size + step]), self.deviations, self.base)
        return at, (ahead - at) / step


@lru_cache(maxsize=1)
def squares() -> Law:
    """Return the law of squares, in deviations of the targets: residuals are normal."""
    deviations = np.linspace(0.02, 0.99, 24)

    @lru_cache(maxsize=64)
    def pull(clip: float) -> np.ndarray:
        missing = (_RATIOS - 1.0) * deviations[:, None]
        variance = missing**2 + (1.0 - deviations**2)[:, None]
        return np.asarray(missing * erf(clip / ROW / np.sqrt(2.0 * variance)))

    zero = np.zeros((24, 1))
    return Law(deviations, pull, deviations, zero, lambda clip: zero)


def basis(n_classes: int) -> np.ndarray:
    """Return an orthonormal basis of log odds that sum to 0, shape (K, K - 1)."""
    if n_classes == 2:
        return np.array([[-1.0], [1.0]]) / math.sqrt(2.0)
    return np.asarray(helmert(n_classes).T)


def odds(shares: np.ndarray) -> Law:
    """Return the law of log odds whose mean probabilities are the shares, rounded for a cache."""
    logs = np.log(shares) - np.log(shares).mean()
    return _odds(tuple((np.round(logs * 32.0) / 32.0).tolist()))


@lru_cache(maxsize=32)
def _odds(logs: tuple[float, ...]) -> Law:
    k, of_classes = len(logs) - 1, basis(len(logs))
    nodes, weights = normal_law(k)
    shares, offsets = softmax(np.array(logs)), np.array(logs)
    deviations = np.geomspace(0.05, 10.0, 24 if k == 1 else 16)
    directions = nodes @ of_classes.T  # (nodes, K)
    base = _bases(deviations, shares, offsets @ of_classes, directions, weights, of_classes)
    margins = base @ of_classes.T + deviations[:, None] * directions[:, None]
    true = softmax(margins, axis=2)  # (nodes, m, K)
    slope = np.einsum("n,nj,nmj->m", weights, directions, true, optimize=True) / k

    @lru_cache(maxsize=8)
    def pull(clip: float) -> np.ndarray:
        out = np.empty((len(deviations), len(_RATIOS)))
        clipped = center(clip)
        for row, t in enumerate(deviations):
            at = _interpolated(t * _RATIOS, deviations, clipped) @ of_classes.T
            fitted = softmax(at + (t * _RATIOS)[:, None] * directions[:, None], axis=2)
            left = _left(fitted, clip)
            along = np.einsum("nj,nsj->ns", directions, fitted)[:, :, None] - directions[:, None]
            out[row] = np.einsum("n,nj,nsj->s", weights, true[:, row], left * along, optimize=True)
        return out / k

    @lru_cache(maxsize=8)
    def center(clip: float) -> np.ndarray:
        found = base.copy()
        for row, t in enumerate(deviations):
            at = found[row] if not row else found[row] + found[row - 1] - base[row - 1]
            for _ in range(20):
                p = softmax(of_classes @ at + t * directions, axis=1)
                kept = true[:, row] * _left(p, clip)
                rate = weights @ (kept.sum(axis=1, keepdims=True) * p - kept) @ of_classes
                both = (weights * kept.sum(axis=1))[:, None] * p
                second = np.diag(both.sum(axis=0)) - both.T @ p
                second = of_classes.T @ second @ of_classes + 1e-9 * np.eye(k)
                at = at - np.clip(np.linalg.solve(second, rate), -1.0, 1.0)
                if np.abs(rate).max() < 1e-6:
                    break
            found[row] = at
        return found

    return Law(deviations, pull, slope, base, center)


def _left(fitted: np.ndarray, clip: float) -> np.ndarray:
    """Return what clipping leaves of the residual of each class, the last axis."""
    lengths = (fitted**2).sum(axis=-1, keepdims=True) - 2.0 * fitted + 1.0
    return np.asarray(np.minimum(1.0, clip / ROW / np.sqrt(np.maximum(lengths, 1e-12))))


def _interpolated(sizes: np.ndarray, grid: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Interpolate the columns of a table, constant beyond its ends; shape (m, k)."""
    return np.column_stack([np.interp(sizes, grid, column) for column in table.T])


def _bases(
    deviations: np.ndarray,
    shares: np.ndarray,
    start: np.ndarray,
    directions: np.ndarray,
    weights: np.ndarray,
    of_classes: np.ndarray,
) -> np.ndarray:
    """Find the margins of the mean record by Newton's method, from one deviation to the next."""
    found = np.tile(start, (len(deviations), 1))
    for row, t in enumerate(deviations):
        at = found[row - 1] if row else start
        for _ in range(50):
            p = softmax(of_classes @ at + t * directions, axis=1)
            rate = of_classes.T @ (weights @ p - shares)
            second = np.diag(weights @ p) - (weights[:, None] * p).T @ p
            step = np.linalg.solve(of_classes.T @ second @ of_classes + 1e-9 * np.eye(len(at)), rate)
            at = at - np.clip(step, -1.0, 1.0)
            if np.abs(rate).max() < 1e-9:
                break
        found[row] = at
    return found

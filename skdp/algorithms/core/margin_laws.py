"""What clipped gradients make of normal margins: tables of public or released numbers.

Margins of records are taken for ``t g``, g standard normal in the k directions of the outputs,
beside a base for which mean probabilities are the shares. The mean clipped gradient along g at
fitted margins ``s g`` is the pull ``G(s, t)``: steps without noise end where it vanishes. By
Stein's identity unclipped log odds need one function alone, the slope ``f(s) = E g . p(s g) / k``:
the best size s of margins whose correlation with the true ones is r solves ``f(s) = r f(t)``
(docs/theory/core.md, section 4).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy.linalg import helmert
from scipy.special import erf, softmax

from skdp.algorithms.statistics.margins import normal_law

#: Value of the constant feature beside rows whose mean square is 1, and norm of an average row.
CONSTANT = 0.2
ROW = math.hypot(1.0, CONSTANT)
#: Grid of fitted deviations, over true ones, but those of log odds that are smaller than this.
_RATIOS, _SMALL = np.linspace(0.0, 3.0, 16), math.sqrt(2.0)
#: Draws of a normal law in several directions: of tables, and of a base.
_FEW, DRAWS = 40, 150
#: Most classes of a table, and for which the noise of each output is told apart.
CLASSES = 12
#: Logarithms of shares are rounded to multiples of it, for a cache of tables.
_ROUNDED = 0.25
#: Newton steps for the constant under clipping, and the mean residual that counts as 0 there.
_CENTERED, _NEAR = 8, 1e-5
#: The same for the base without clipping, and the largest margin of the mean record.
_NEWTON, _EXACT, _FAR = 50, 1e-8, 50.0


@dataclass(frozen=True)
class Law:
    """Tables of normal margins."""

    #: Shape (m,). Grid of true deviations t.
    deviations: np.ndarray
    #: G at fitted deviations of 0 to 3 times the scale, shape (m, 16), for a clip; of all rows, or
    #: of the second argument.
    pull: Callable[..., np.ndarray]
    #: Shape (m,). f at the deviations.
    slope: np.ndarray
    #: Shape (m,). Of the fitted deviations: the true ones, or more.
    scales: np.ndarray

    def end(self, clip: float, deviation: float) -> tuple[float, float]:
        """Return where steps end, over the true deviation, and the mean curvature from half of it.

        Quadrature sees a clip as a kink: between neighbours of the grid curvatures are not smooth.
        """
        row = int(np.argmin(np.abs(self.deviations - deviation)))
        pulls, fitted = self.pull(clip, row)[0], _RATIOS * self.scales[row]
        first = int(np.argmax(pulls > 0.0)) or len(_RATIOS) - 1
        rise = max(pulls[first] - pulls[first - 1], 1e-12)
        half = 0.5 * float(fitted[first] - fitted[1] * pulls[first] / rise)
        bend = max(-float(np.interp(half, fitted, pulls)), 1e-12) / half
        return 2.0 * half / float(self.deviations[row]), bend

    def pulled(self, clip: float) -> Callable[[np.ndarray], np.ndarray]:
        """Return G as a function of fitted deviations, shape (m, j), one row for each t."""
        table, rows = self.pull(clip), np.arange(len(self.deviations))[:, None]

        def pull(fitted: np.ndarray) -> np.ndarray:
            places = np.clip(fitted / self.scales[:, None] / _RATIOS[1], 0.0, len(_RATIOS) - 1.001)
            cell = places.astype(np.intp)
            part = places - cell
            return np.asarray((1.0 - part) * table[rows, cell] + part * table[rows, cell + 1])

        return pull

    def best(self, correlation: np.ndarray) -> np.ndarray:
        """Return the best size of margins for correlations with the true ones, shape (m, j)."""
        wanted = correlation * self.slope[:, None]
        return np.interp(wanted, np.append(0.0, self.slope), np.append(0.0, self.deviations))


@lru_cache(maxsize=1)
def squares() -> Law:
    """Return the law of squares, in deviations of the targets: residuals are normal."""
    deviations = np.linspace(0.02, 0.99, 24)

    @lru_cache(maxsize=64)
    def pull(clip: float, row: int | None = None) -> np.ndarray:
        t = deviations[slice(None) if row is None else slice(row, row + 1), None]
        missing = (_RATIOS - 1.0) * t
        variance = missing**2 + 1.0 - t**2
        return np.asarray(missing * erf(clip / ROW / np.sqrt(2.0 * variance)))

    return Law(deviations, pull, deviations, deviations)


def basis(n_classes: int) -> np.ndarray:
    """Return an orthonormal basis of log odds that sum to 0, shape (K, K - 1)."""
    if n_classes == 2:
        return np.array([[-1.0], [1.0]]) / math.sqrt(2.0)
    return np.asarray(helmert(n_classes).T)


def odds(shares: np.ndarray) -> Law:
    """Return the law of log odds whose mean probabilities are the shares, rounded for a cache.

    Many classes are taken for fewer: curvatures are in proportion to 1 / K.
    """
    if len(shares) > CLASSES:
        places = np.linspace(0, len(shares) - 1, CLASSES).round().astype(np.intp)
        law, part = odds(np.sort(shares)[places]), CLASSES / len(shares)
        return replace(law, pull=lambda *which: part * law.pull(*which), slope=part * law.slope)
    logs = np.log(shares) - np.log(shares).mean()
    return _odds(tuple((np.round(logs / _ROUNDED) * _ROUNDED).tolist()))


@lru_cache(maxsize=256)
def _odds(logs: tuple[float, ...]) -> Law:
    k = len(logs) - 1
    balance, (nodes, weights) = Balance(softmax(np.array(logs)), _FEW), normal_law(k, _FEW)
    deviations = np.geomspace(0.05, 10.0, 24 if k == 1 else 12)
    directions = nodes @ balance.basis.T  # (nodes, K)
    base, at = np.empty((len(deviations), k)), balance.start
    for row, t in enumerate(deviations):
        base[row] = at = balance.base(t * np.eye(k), at)
    margins = base @ balance.basis.T + deviations[:, None] * directions[:, None]
    true = softmax(margins, axis=2)  # (nodes, m, K)
    slope = np.einsum("n,nj,nmj->m", weights, directions, true, optimize=True) / k
    scales = np.maximum(deviations, _SMALL)

    @lru_cache(maxsize=32)
    def pull(clip: float, row: int | None = None) -> np.ndarray:
        rows = slice(None) if row is None else slice(row, row + 1)
        of_classes, y, fitted = balance.basis, true[:, rows, None], scales[rows, None] * _RATIOS
        spread = fitted[..., None] * directions[:, None, None]
        at = np.tile(balance.start, (*fitted.shape, 1))
        for _ in range(_CENTERED):  # the constant follows: clipped residuals have the mean 0
            p = softmax(at @ of_classes.T + spread, axis=3)
            kept = y * clipped_part(p, clip)
            total = kept.sum(axis=3, keepdims=True)
            residuals = total * p - kept
            rate = np.einsum("n,nmsj,ja->msa", weights, residuals, of_classes, optimize=True)
            if np.abs(rate).max() < _NEAR:
                break
            both = weights[:, None, None, None] * total * p
            second = -np.einsum("nmsi,nmsj->msij", both, p, optimize=True)
            second[..., range(k + 1), range(k + 1)] += both.sum(axis=0)
            second = of_classes.T @ second @ of_classes + 1e-9 * np.eye(k)
            at = at - np.clip(np.linalg.solve(second, rate[..., None])[..., 0], -1.0, 1.0)
        return np.einsum("n,nj,nmsj->ms", weights, directions, residuals, optimize=True) / k

    return Law(deviations, pull, slope, scales)


def clipped_part(fitted: np.ndarray, clip: float) -> np.ndarray:
    """Return what clipping leaves of the residual of each class, the last axis."""
    lengths = (fitted**2).sum(axis=-1, keepdims=True) - 2.0 * fitted + 1.0
    return np.asarray(np.minimum(1.0, clip / ROW / np.sqrt(np.maximum(lengths, 1e-12))))


class Balance:
    """Margins of the mean record for normal margins ``root g`` around it, and shares of classes."""

    def __init__(self, shares: np.ndarray, n_draws: int = DRAWS) -> None:
        self.basis = basis(len(shares))
        self.start = self.basis.T @ np.log(np.maximum(shares, 1e-300))
        self._shares = shares
        self._nodes, self._weights = normal_law(len(shares) - 1, n_draws)

    def base(self, root: np.ndarray, start: np.ndarray, clip: float = math.inf) -> np.ndarray:
        """Return those for which clipped residuals have the mean 0, by Newton's method.

        Without a clip mean probabilities are the shares; with one, targets do not depend on g.
        """
        spread = self._nodes @ root.T @ self.basis.T
        at = start
        for _ in range(_NEWTON):
            p = softmax(self.basis @ at + spread, axis=1)
            kept = self._shares * clipped_part(p, clip)
            both = kept.sum(axis=1, keepdims=True) * p
            first, weighted = self._weights @ (both - kept), self._weights[:, None] * both
            second = np.diag(weighted.sum(axis=0)) - weighted.T @ p
            second = self.basis.T @ second @ self.basis + 1e-9 * np.eye(len(at))
            at = at - np.clip(np.linalg.solve(second, self.basis.T @ first), -1.0, 1.0)
            if np.abs(first).max() < _EXACT:
                break
        return np.asarray(np.clip(at, -_FAR, _FAR))

    def curvature(self, root: np.ndarray, base: np.ndarray) -> np.ndarray:
        """Return the mean second derivative of the log loss, shape (k, k)."""
        p = softmax((base + self._nodes @ root.T) @ self.basis.T, axis=1)
        weighted = self._weights[:, None] * p
        return np.asarray(self.basis.T @ (np.diag(weighted.sum(0)) - weighted.T @ p) @ self.basis)

"""Penalised least squares on released moments: models, their estimated risk, the best alpha.

All of it is post-processing. A model is evaluated on the moments that it was fitted to, and the
bias of that is computed: for Gaussian noise Stein's identity gives it exactly (Lemma 2 of
docs/theory/tuning.md).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import minimize, minimize_scalar

from skdp.algorithms.tuning import rules
from skdp.algorithms.tuning.moments import PrivateMoments
from skdp.algorithms.tuning.positive_factor import PositiveFactor, rounding_floor
from skdp.problems import PenaltyGroups

#: Candidates of alpha before the best one is refined.
_GRID = 65
#: Every such one of them is a candidate for one group.
_EVERY = 4


class RidgeModels:
    """Penalised least squares on released moments, for many values of alpha.

    With ``Omega = diag(alpha_g(j) r_j)``: ``w = Q c`` and ``Q = (H_+ + Omega)^-1``, where H_+ is
    H without its negative eigenvalues, the nearest matrix that moments can have. (They become as
    large as rounding errors, so that Q can be computed however small Omega is.)

    Parameters
    ----------
    moments : PrivateMoments
    penalties : PenaltyGroups
    center : ndarray of shape (p,), optional
        Where c is minus the gradient of the unpenalised loss: ``w = m + Q (c - Omega m)`` for a
        center m. Default: 0.
    """

    def __init__(
        self, moments: PrivateMoments, penalties: PenaltyGroups, center: np.ndarray | None = None
    ) -> None:
        self.moments, self.penalties = moments, penalties
        #: Eigenvalues of H and its eigenvectors, as columns.
        self.values, self.vectors = eigh(moments.matrix)
        self.center = np.zeros(len(self.values)) if center is None else center
        floor = rounding_floor(len(self.values)) * max(1.0, float(abs(self.values).max()))
        #: Eigenvalues of H_+ in the same order, and H_+.
        self.convex_values = np.maximum(self.values, floor)
        self.convex = (self.vectors * self.convex_values) @ self.vectors.T
        #: In eigenvectors of H, a change E of H changes H_+ by this times E, entry by entry.
        self.differences = _divided_differences(self.values, floor)

    def inverse(self, alpha: np.ndarray) -> np.ndarray:
        """Q."""
        return PositiveFactor(self.convex + np.diag(self.penalties.diagonal(alpha))).inverse()

    def coefficients(self, alpha: np.ndarray) -> np.ndarray:
        """The model w."""
        omega = self.penalties.diagonal(alpha)
        factor = PositiveFactor(self.convex + np.diag(omega))
        return np.asarray(self.center + factor.solve(self.moments.vector - omega * self.center))


def _divided_differences(values: np.ndarray, floor: float) -> np.ndarray:
    """``(f(a) - f(b)) / (a - b)`` for ``f = max(., floor)`` at all pairs of values."""
    gaps = np.subtract.outer(values, values)
    above = (values > floor).astype(float)
    flat = 0.5 * np.add.outer(above, above)
    equal = np.abs(gaps) <= 1e-12 * np.abs(values).max(initial=1e-300)
    clipped = np.maximum(values, floor)
    return np.where(equal, flat, np.subtract.outer(clipped, clipped) / np.where(equal, 1.0, gaps))


class Risk(ABC):
    """Estimated loss of the models of all values of alpha.

    Values below `least_alpha` are no candidates.
    """

    penalties: PenaltyGroups
    least_alpha = 0.0

    @abstractmethod
    def __call__(self, alpha: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the risk at alpha of shape (n_groups,), and its gradient in log alpha."""

    def uniform(self, alphas: np.ndarray) -> np.ndarray:
        """Return the risks where all groups have one alpha, for many of these; shape (n,)."""
        groups = self.penalties.n_groups
        return np.array([self(np.full(groups, alpha))[0] for alpha in alphas])


class SteinRisk(Risk):
    """Estimate of the loss of the model of these very moments, without the bias of that.

    ``w' H w / 2 - c' w + (s^2/2) (tr Q ||w||^2 + w' Q w) + s_c^2 tr Q + (v/n) tr Q H_+`` for the
    noisy H and c, with the deviations s and s_c of their noise: without the last term its
    expectation is that of the loss on the records, but for a constant, where H_+ = H
    (docs/theory/tuning.md, Lemma 2). Where H has negative eigenvalues, the third term is half-way
    between this and the unbiased one. The last term is the excess cost of other records, v the
    variance of the residuals. With a center m, w is w - m in all terms.

    Parameters
    ----------
    ridge : RidgeModels
    target_bound : float
        Its square bounds v.
    residual_variance : float, optional
        v. Default: it is estimated.
    """

    def __init__(
        self, ridge: RidgeModels, target_bound: float, residual_variance: float | None = None
    ) -> None:
        self.ridge, self.penalties, self.target_bound = ridge, ridge.penalties, target_bound
        self.residual_variance = residual_variance
        self._weights = 1.0 - rules.TRUST + rules.TRUST * ridge.differences

    def _spread(self, mean_square: np.ndarray | float) -> np.ndarray:
        """V / n, where the residuals of a model have a noisy mean square."""
        v = mean_square if self.residual_variance is None else self.residual_variance
        return np.clip(v, 0.0, self.target_bound**2) / self.ridge.moments.n_records

    def __call__(self, alpha: np.ndarray) -> tuple[float, np.ndarray]:
        ridge, moments, weights = self.ridge, self.ridge.moments, self._weights
        H, c, vectors = moments.matrix, moments.vector, ridge.vectors
        s, s_c = moments.deviation**2, moments.vector_deviation**2
        # s^2 is multiplied first: Q and w are huge for rows in tiny units
        Q = ridge.inverse(alpha)
        omega = ridge.penalties.diagonal(alpha)
        step = Q @ (c - omega * ridge.center)
        trace, QH = float(np.trace(Q)), Q @ ridge.convex
        residual, freedom = H @ step - c, float(np.trace(QH))
        # in eigenvectors of H: the sum of F_ij (u_i^2 Q_jj + u_i u_j Q_ij) s^2 / 2
        turned, u = Q @ vectors, vectors.T @ step
        Q_turned, su = vectors.T @ turned, s * u
        shift = vectors @ ((weights @ Q_turned.diagonal()) * su + (weights * Q_turned) @ su)
        mean_square = moments.square + float(step @ (residual - c))
        spread = self._spread(mean_square)
        value = 0.5 * float(step @ (residual - c + shift)) + s_c * trace + spread * freedom
        # d step = -Q dOmega w and dQ = -Q dOmega Q
        by_w = residual + shift
        if self.residual_variance is None and 0.0 < mean_square < self.target_bound**2:
            by_w += 2.0 * freedom / moments.n_records * residual
        by_Q = s_c * (Q * Q).sum(axis=1) + spread * (QH * Q).sum(axis=1)
        by_turned = weights * np.outer(su, u) + np.diag(weights @ (su * u))
        by_Q += 0.5 * ((turned @ by_turned) * turned).sum(axis=1)
        w = ridge.center + step
        return float(value), -(ridge.penalties.members @ (omega * (w * (Q @ by_w) + by_Q)))

    def uniform(self, alphas: np.ndarray) -> np.ndarray:
        """Return the risks where all groups have one alpha.

        In eigenvectors of H, Q is diagonal for ``Omega = alpha I``, and one coefficient with
        another penalty factor (the intercept's) makes a change of rank one: a candidate
        takes as many operations as the matrix has entries.
        """
        ridge, moments, weights = self.ridge, self.ridge.moments, self._weights
        factors = np.array(ridge.penalties.factors)
        others = np.flatnonzero(factors != 1.0)
        if len(others) > 1 or factors.min() < 1e-6:  # the change would cancel
            return super().uniform(alphas)
        s, s_c = moments.deviation**2, moments.vector_deviation**2
        h, vectors = ridge.values[:, None], ridge.vectors
        c, m = (vectors.T @ moments.vector)[:, None], (vectors.T @ ridge.center)[:, None]
        excess, row, center = 0.0, np.zeros(len(h)), 0.0
        if len(others):
            j = others[0]
            excess, row, center = factors[j] - 1.0, vectors[j], ridge.center[j]
        g = 1.0 / (ridge.convex_values[:, None] + alphas)
        y = row[:, None] * g
        change = alphas * excess / (1.0 + alphas * excess * (row @ y))
        right = c - alphas * (m + excess * center * row[:, None])
        u = g * right - change * y * (row @ (g * right))
        diagonal = g - change * y**2
        su, residual = s * u, h * u - c
        shift = (weights @ diagonal) * su + weights.diagonal()[:, None] * g * su
        shift -= change * y * (weights @ (y * su))
        spread = self._spread(moments.square + (u * (residual - c)).sum(axis=0))
        values = 0.5 * (u * (residual - c + shift)).sum(axis=0) + s_c * diagonal.sum(axis=0)
        return np.asarray(values + spread * (ridge.convex_values @ diagonal))


def search_alpha(
    risk: Risk, penalties: PenaltyGroups, *, uniform: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Search for the alpha of the least risk: post-processing.

    One alpha for all groups first, on a grid, then refined; then one group after the other on a
    coarser grid; then all by a quasi-Newton method in their logarithms. Groups in
    ``penalties.common``, or all if `uniform`, keep the alpha of the first search.

    Returns
    -------
    alpha : ndarray of shape (n_groups,)
    path : ndarray of shape (n_iterates, n_groups)
    """
    smallest = min(max(penalties.low, risk.least_alpha), penalties.high)
    q = penalties.n_groups
    low, high = math.log(smallest), math.log(penalties.high)
    path: list[np.ndarray] = []

    def values_of(logs: np.ndarray) -> np.ndarray:
        return np.clip(np.exp(logs), smallest, penalties.high)

    def level(point: float) -> float:
        alphas = values_of(np.array([point]))
        path.append(np.full(q, alphas[0]))
        return float(risk.uniform(alphas)[0]) / unit

    def value(logs: np.ndarray) -> tuple[float, np.ndarray]:
        path.append(values_of(logs))
        current, gradient = risk(path[-1])
        return current / unit, gradient / unit

    grid = np.linspace(low, high, _GRID)
    values = risk.uniform(values_of(grid))
    least = int(np.argmin(values))
    unit = float(abs(values[least])) or 1.0  # tolerances of the quasi-Newton method are absolute
    ends = grid[max(0, least - 1)], grid[min(_GRID - 1, least + 1)]
    found = minimize_scalar(level, bounds=ends, method="bounded")
    best, fun = np.full(q, float(found.x)), float(found.fun)
    if values[least] / unit <= fun:  # an end of the range
        best, fun = np.full(q, grid[least]), values[least] / unit
    if q > 1 and not uniform:
        searched = [j for j in range(q) if j not in penalties.common]
        for j in searched:  # the risk is flat where alpha is far too small or too large
            for point in grid[::_EVERY]:
                trial = best.copy()
                trial[j] = point
                current = risk(values_of(trial))[0] / unit
                if current < fun:
                    best, fun = trial, current
        bounds = [(low, high) if j in searched else (best[j], best[j]) for j in range(q)]
        several = minimize(value, best, jac=True, method="L-BFGS-B", bounds=bounds)
        if several.fun < fun:
            best = several.x
    path.append(values_of(best))
    return path[-1], np.array(path)

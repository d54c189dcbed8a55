"""Log loss of rows whose margins are normal: a function of their mean and covariance."""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import eigh
from scipy.special import expit

from skdp.algorithms.tuning.positive_factor import PositiveFactor

#: Nodes and weights of the normal distribution, symmetric.
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(61)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
#: Newton steps, and halvings of each.
_STEPS, _HALVINGS = 100, 60
#: Margins below it are as good as zero.
_SMALL = 1e-5


class NormalMargins:
    """Log loss of rows whose margins are normal, without the part that is linear in w.

    ``F(w) = E[log(2 cosh(z / 2))]`` for ``z ~ N(w'abar, w'C w)``, the expectation being a sum
    over symmetric nodes: convex for any nodes, because ``sqrt(w'C w)`` is.

    Parameters
    ----------
    mean : ndarray of shape (p,)
        abar.
    covariance : ndarray of shape (p, p)
        C; its negative eigenvalues are set to 0.
    """

    def __init__(self, mean: np.ndarray, covariance: np.ndarray) -> None:
        values, vectors = eigh(covariance)
        self.mean = mean
        self._root = vectors * np.sqrt(np.maximum(values, 0.0))  # C = root root'
        self.covariance = self._root @ self._root.T

    def mean_square(self, w: np.ndarray) -> float:
        """Mean square of the margins."""
        mu, s = self._moments(w)
        return mu * mu + s * s

    def gradient_weights(self, w: np.ndarray) -> tuple[float, float]:
        """Return ``E[sigmoid(z) - 1/2] / E z`` and ``E[sigmoid'(z)]``: of abar E z and C w."""
        mu, s = self._moments(w)
        half = 0.5 * np.tanh(0.5 * (mu + s * _NODES))  # sigmoid - 1/2
        level = 0.25 / math.cosh(0.5 * min(abs(mu), 700.0)) ** 2
        spread = float(_WEIGHTS @ (_NODES * half)) / s if s > _SMALL else level
        if abs(mu) > _SMALL:
            return float(_WEIGHTS @ half) / mu, spread
        return float(_WEIGHTS @ self._curvatures(mu, s)), spread

    @staticmethod
    def _curvatures(mu: float, s: float) -> np.ndarray:
        """``sigmoid'(z)`` at the nodes."""
        z = mu + s * _NODES
        return np.asarray(expit(z) * expit(-z))

    def _moments(self, w: np.ndarray) -> tuple[float, float]:
        return float(self.mean @ w), float(np.linalg.norm(w @ self._root))

    def _value(self, w: np.ndarray) -> float:
        mu, s = self._moments(w)
        z = np.abs(mu + s * _NODES)
        return float(_WEIGHTS @ (0.5 * z + np.log1p(np.exp(-z))))

    def gradient(self, w: np.ndarray) -> np.ndarray:
        """Gradient of F."""
        shift, spread = self.gradient_weights(w)
        return shift * float(self.mean @ w) * self.mean + spread * (self.covariance @ w)

    def hessian(self, w: np.ndarray) -> np.ndarray:
        """Hessian of F, as a sum of terms that are positive semi-definite however w is rounded.

        With ``C = root root'``, the unit vector ``q = root'w / s`` and ``u = root q``: the mean of
        ``sigmoid'(z) (abar + node u) (abar + node u)'`` plus ``E[sigmoid'(z)] (C - u u')``.
        """
        mu, s = self._moments(w)
        q = w @ self._root / s if s > _SMALL else np.zeros(len(w))
        u = self._root @ q
        second = _WEIGHTS * self._curvatures(mu, s)
        along = np.sqrt(second)[:, None] * (self.mean + _NODES[:, None] * u)
        across = self._root - np.outer(u, q)
        return np.asarray(along.T @ along + self.gradient_weights(w)[1] * (across @ across.T))

    def minimise(self, linear: np.ndarray, omega: np.ndarray, start: np.ndarray) -> np.ndarray:
        """Minimiser of ``F(w) - linear'w + w' diag(omega) w / 2``, by damped Newton steps."""

        def value(w: np.ndarray) -> float:
            return self._value(w) - float(linear @ w) + 0.5 * float(w @ (omega * w))

        w, current = start, value(start)
        for _ in range(_STEPS):
            gradient = self.gradient(w) - linear + omega * w
            step = -PositiveFactor(self.hessian(w) + np.diag(omega)).solve(gradient)
            decrease, length = -float(gradient @ step), 1.0
            if not decrease > 1e-16 * (1.0 + abs(current)):
                return w + step if decrease >= 0 else w
            for _ in range(_HALVINGS):
                trial = value(w + length * step)
                if trial <= current - 0.1 * length * decrease:
                    break
                length *= 0.5
            else:
                return w
            w, current = w + length * step, trial
        return w

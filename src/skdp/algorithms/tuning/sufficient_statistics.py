"""Ridge regression that tunes its penalty on one noisy release of second moments.

Least squares sees the records through their second moments alone. Once these are released,
everything is post-processing: any number of candidate strengths, one per group of coefficients,
and the final model (Kornowski 2024 specification, 5.5, route C). No budget is split.

Candidates are compared in one of two ways. With folds, models of noisy moments of some folds are
evaluated on those of the others: unbiased, because their noises are independent, but every
fold has the noise of its own few records. Without folds (the default) the moments
are those of all records, and the bias of evaluating a model on the moments that it was fitted to
is computed: for Gaussian noise Stein's identity gives it exactly (docs/theory/tuning.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh
from scipy.optimize import minimize, minimize_scalar

from skdp.algorithms.tuning.model import PenaltyGroups, TunedModel
from skdp.algorithms.tuning.statistics import (
    PrivateMoments,
    plan_private_moments,
    private_moments,
)
from skdp.mechanisms import NoiseSource
from skdp.privacy.budget import PrivacyBudget
from skdp.problems import BoundedRows

__all__ = ["tune_by_sufficient_statistics"]

#: Candidates of a strength before the best one is refined.
_GRID = 65


def tune_by_sufficient_statistics(
    rows: BoundedRows,
    targets: np.ndarray,
    target_bound: float,
    penalties: PenaltyGroups,
    budget: PrivacyBudget,
    *,
    coef_norm: float,
    n_folds: int | None = None,
    noise: NoiseSource | None = None,
) -> TunedModel:
    """Choose the strengths and fit the model on released moments; replace-one neighbours.

    Parameters
    ----------
    rows : BoundedRows
    targets : ndarray of shape (n,)
        Of absolute value at most `target_bound`.
    target_bound : float
        Public.
    penalties : PenaltyGroups
    budget : PrivacyBudget
    coef_norm : float
        Public guess of the norm of a good predictor, for the weight of the targets.
    n_folds : int, optional
        Record i is in fold ``i % n_folds``. Folds are disjoint, so each release has the whole
        budget. Default: no folds.
    noise : NoiseSource, optional
        Default: the operating system's secure generator.

    Returns
    -------
    TunedModel
    """
    noise = NoiseSource() if noise is None else noise
    folds = 1 if n_folds is None else n_folds
    if n_folds is not None and not 2 <= n_folds <= rows.n_records:
        raise ValueError(f"n_folds == {n_folds}, must be from 2 to n_samples={rows.n_records}.")
    plan = plan_private_moments(
        budget,
        n_records=rows.n_records // folds,
        width=rows.width,
        feature_norm=rows.norm_bound,
        target_bound=target_bound,
        coef_norm=coef_norm,
    )
    parts = [
        private_moments(rows, targets, plan, noise, slice(k, None, folds)) for k in range(folds)
    ]
    ridge = _Ridge(PrivateMoments.pooled(parts), penalties)
    risk = _stein_risk(ridge, target_bound) if n_folds is None else _cross_risk(parts, penalties)
    alpha, path = _search(risk, penalties)
    return TunedModel(
        point=ridge.coefficients(alpha),
        alpha=alpha,
        path=path,
        releases=(plan.release(rows.n_records),),
        plan={**plan.to_dict(), "n_folds": folds, "fold_records": plan.n_records},
    )


class _Ridge:
    """Penalised least squares on released moments, for many strengths.

    With ``Omega = diag(alpha_g(j) r_j)``: ``w = Q c`` and ``Q = (H_+ + Omega)^-1``, where H_+ is
    H without its negative eigenvalues, the nearest matrix that moments can have.

    Parameters
    ----------
    moments : PrivateMoments
    penalties : PenaltyGroups
    """

    def __init__(self, moments: PrivateMoments, penalties: PenaltyGroups) -> None:
        values, vectors = eigh(moments.matrix)
        self.moments, self.penalties = moments, penalties
        self.convex = (vectors * np.maximum(values, 0.0)) @ vectors.T

    def inverse(self, alpha: np.ndarray) -> np.ndarray:
        """Q."""
        factor = cho_factor(self.convex + np.diag(self.penalties.diagonal(alpha)))
        return np.asarray(cho_solve(factor, np.eye(len(self.convex))))

    def coefficients(self, alpha: np.ndarray) -> np.ndarray:
        """W."""
        factor = cho_factor(self.convex + np.diag(self.penalties.diagonal(alpha)))
        return np.asarray(cho_solve(factor, self.moments.vector))


#: Estimated risk of strengths, and its derivatives in their logarithms.
_Risk = Callable[[np.ndarray], tuple[float, np.ndarray]]


def _stein_risk(ridge: _Ridge, target_bound: float) -> _Risk:
    """Unbiased estimate of the loss of the model of these very moments.

    ``w' H w / 2 - c' w + (s^2/2) (tr Q ||w||^2 + w' Q w) + s_c^2 tr Q + (v/n) tr Q H_+`` for the
    noisy H and c, with the deviations s and s_c of their noise: without the last term its
    expectation is that of the loss on the records, but for a constant (docs/theory/tuning.md,
    Lemma 2). The last term is what other records cost more, v being the estimated variance of the
    residuals.
    """
    moments, members = ridge.moments, ridge.penalties.members
    H, c, n = moments.matrix, moments.vector, moments.n_records
    s, s_c = moments.deviation**2, moments.vector_deviation**2

    def risk(alpha: np.ndarray) -> tuple[float, np.ndarray]:
        Q = ridge.inverse(alpha)
        w = Q @ c
        residual, trace, square, Qw = H @ w - c, float(np.trace(Q)), float(w @ w), Q @ w
        error = moments.square - 2.0 * (c @ w) + w @ H @ w
        spread = min(max(float(error), 0.0), target_bound**2) / n
        QH = Q @ ridge.convex
        value = 0.5 * float(w @ (residual - c)) + 0.5 * s * (trace * square + float(w @ Qw))
        value += s_c * trace + spread * float(np.trace(QH))
        slopes = np.empty(len(alpha))
        for j, group in enumerate(members):
            strength = alpha[j] * group  # d Omega / d log alpha_j
            dw = -Q @ (strength * w)
            d_trace = -float(((Q * Q) @ strength).sum())
            slope = float(residual @ dw)
            slope += 0.5 * s * (d_trace * square + 2.0 * trace * float(w @ dw))
            # w' Q w = c' Q^3 c
            slope += 0.5 * s * (2.0 * float(dw @ Qw) - float(Qw @ (strength * Qw)))
            slope += s_c * d_trace - spread * float(((QH.T * Q) @ strength).sum())
            slopes[j] = slope
        return value, slopes

    return risk


def _cross_risk(parts: Sequence[PrivateMoments], penalties: PenaltyGroups) -> _Risk:
    """Mean loss of the models of all folds but one, on the noisy moments of that one."""
    others = [
        _Ridge(PrivateMoments.pooled([*parts[:k], *parts[k + 1 :]]), penalties)
        for k in range(len(parts))
    ]
    members = penalties.members

    def risk(alpha: np.ndarray) -> tuple[float, np.ndarray]:
        value, slopes = 0.0, np.zeros(len(alpha))
        for part, ridge in zip(parts, others, strict=True):
            Q = ridge.inverse(alpha)
            w = Q @ ridge.moments.vector
            residual = part.matrix @ w - part.vector
            value += 0.5 * float(w @ (residual - part.vector)) / len(parts)
            pulled = Q @ residual
            slopes -= (members @ (pulled * w)) * alpha / len(parts)
        return value, slopes

    return risk


def _search(risk: _Risk, penalties: PenaltyGroups) -> tuple[np.ndarray, np.ndarray]:
    """Strengths of the least risk, and those on the way: post-processing.

    One strength for all groups first, on a grid, then refined; then one for each by a quasi-Newton
    method in their logarithms.
    """
    low, high, q = math.log(penalties.low), math.log(penalties.high), penalties.n_groups
    path: list[np.ndarray] = []

    def value(logs: np.ndarray) -> tuple[float, np.ndarray]:
        alpha = np.exp(np.clip(logs, low, high))
        path.append(alpha)
        return risk(alpha)

    grid = np.linspace(low, high, _GRID)
    least = int(np.argmin([risk(np.full(q, math.exp(point)))[0] for point in grid]))
    ends = grid[max(0, least - 1)], grid[min(_GRID - 1, least + 1)]
    found = minimize_scalar(
        lambda point: value(np.full(q, point))[0], bounds=ends, method="bounded"
    )
    start = float(found.x)
    if risk(np.full(q, math.exp(grid[least])))[0] <= found.fun:  # an end of the range
        start = float(grid[least])
    best = np.full(q, start)
    if q > 1:
        several = minimize(value, best, jac=True, method="L-BFGS-B", bounds=[(low, high)] * q)
        if several.fun < risk(np.exp(best))[0]:
            best = several.x
    alpha = np.exp(np.clip(best, low, high))
    path.append(alpha)
    return alpha, np.array(path)

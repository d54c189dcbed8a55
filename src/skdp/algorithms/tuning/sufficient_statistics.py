"""Ridge regression that tunes its penalty on one noisy release of second moments.

Least squares sees the records through their second moments alone. Once these are released,
everything is post-processing: any number of candidate strengths, one per group of coefficients,
and the final model (Kornowski 2024 specification, 5.5, route C). No budget is split.

Candidates are compared in one of two ways. With folds, models of noisy moments of some folds are
evaluated on those of the others: unbiased, because their noises are independent, but every
fold has the noise of its own few records, and of strengths that leave some noisy matrix indefinite
the weakest would win. Those are no candidates. Without folds (the default) the moments
are those of all records, and the bias of evaluating a model on the moments that it was fitted to
is computed: for Gaussian noise Stein's identity gives it exactly (docs/theory/tuning.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh, eigvalsh
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
#: Each so many of them are candidates for one group.
_EVERY = 4


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
        block_size=rows.block_size,
    )
    parts = [
        private_moments(rows, targets, plan, noise, slice(k, None, folds)) for k in range(folds)
    ]
    ridge = _Ridge(PrivateMoments.pooled(parts), penalties)
    if n_folds is None:
        alpha, path = _search(_stein_risk(ridge, target_bound), penalties)
    else:
        # below that the noisy loss of some fold has its minimum at a huge model
        least = max(-float(eigvalsh(part.matrix)[0]) for part in parts)
        alpha, path = _search(_cross_risk(parts, penalties), penalties, least)
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
    H without its negative eigenvalues, the nearest matrix that moments can have. (They become as
    large as rounding errors, so that Q can be computed however small Omega is.)

    Parameters
    ----------
    moments : PrivateMoments
    penalties : PenaltyGroups
    centre : ndarray of shape (p,), optional
        Where c is minus the gradient of the unpenalised loss: ``w = m + Q (c - Omega m)`` for a
        centre m. Default: 0.
    """

    def __init__(
        self,
        moments: PrivateMoments,
        penalties: PenaltyGroups,
        centre: np.ndarray | None = None,
    ) -> None:
        values, vectors = eigh(moments.matrix)
        self.moments, self.penalties = moments, penalties
        self.centre = np.zeros(len(values)) if centre is None else centre
        rounding = 8.0 * len(values) * np.finfo(float).eps * float(abs(values).max())
        self.convex = (vectors * np.maximum(values, rounding)) @ vectors.T
        #: Eigenvectors of H, and divided differences of max(., rounding) at its eigenvalues.
        self.vectors, self.differences = vectors, _divided_differences(values, rounding)

    def inverse(self, alpha: np.ndarray) -> np.ndarray:
        """Q."""
        factor = cho_factor(self.convex + np.diag(self.penalties.diagonal(alpha)))
        return np.asarray(cho_solve(factor, np.eye(len(self.convex))))

    def coefficients(self, alpha: np.ndarray) -> np.ndarray:
        """The model w."""
        omega = self.penalties.diagonal(alpha)
        factor = cho_factor(self.convex + np.diag(omega))
        step = cho_solve(factor, self.moments.vector - omega * self.centre)
        return np.asarray(self.centre + step)


def _divided_differences(values: np.ndarray, floor: float) -> np.ndarray:
    """``(f(a) - f(b)) / (a - b)`` for ``f = max(., floor)``: the derivative of H_+ in H.

    In eigenvectors of H, a change E of H changes H_+ by this matrix times E, entry by entry.
    """
    gaps = np.subtract.outer(values, values)
    above = (values > floor).astype(float)
    flat = 0.5 * np.add.outer(above, above)
    equal = np.abs(gaps) <= 1e-12 * np.abs(values).max(initial=1e-300)
    clipped = np.maximum(values, floor)
    return np.where(equal, flat, np.subtract.outer(clipped, clipped) / np.where(equal, 1.0, gaps))


#: Part of the difference between the exact correction and the one for H_+ = H that is believed.
_TRUST = 0.5

#: Estimated risk of strengths, and its derivatives in their logarithms.
_Risk = Callable[[np.ndarray], tuple[float, np.ndarray]]


def _stein_risk(
    ridge: _Ridge, target_bound: float, residual_variance: float | None = None
) -> _Risk:
    """Estimate of the loss of the model of these very moments, without the bias of that.

    ``w' H w / 2 - c' w + (s^2/2) (tr Q ||w||^2 + w' Q w) + s_c^2 tr Q + (v/n) tr Q H_+`` for the
    noisy H and c, with the deviations s and s_c of their noise: without the last term its
    expectation is that of the loss on the records, but for a constant, where H_+ = H
    (docs/theory/tuning.md, Lemma 2). Where H has negative eigenvalues, the second term is half-way
    between this and the unbiased one. The last term is what other records cost more, v being the
    variance of the residuals; it is estimated if it is not given. With a centre m, w is w - m in
    all terms.
    """
    moments, members = ridge.moments, ridge.penalties.members
    H, c, n = moments.matrix, moments.vector, moments.n_records
    s, s_c = moments.deviation**2, moments.vector_deviation**2
    vectors, weights = ridge.vectors, 1.0 - _TRUST + _TRUST * ridge.differences

    def risk(alpha: np.ndarray) -> tuple[float, np.ndarray]:
        # s^2 is multiplied first: Q and w are huge for rows in tiny units
        Q = ridge.inverse(alpha)
        step = Q @ (c - ridge.penalties.diagonal(alpha) * ridge.centre)
        trace, QH = float(np.trace(Q)), Q @ ridge.convex
        residual, freedom = H @ step - c, float(np.trace(QH))
        # in eigenvectors of H: the sum of F_ij (u_i^2 Q_jj + u_i u_j Q_ij) s^2 / 2
        turned, u = Q @ vectors, vectors.T @ step
        Q_turned, su = vectors.T @ turned, s * u
        shift = vectors @ ((weights @ Q_turned.diagonal()) * su + (weights * Q_turned) @ su)
        error = residual_variance
        if error is None:
            error = moments.square + float(step @ (residual - c))
        spread = min(max(error, 0.0), target_bound**2) / n
        value = 0.5 * float(step @ (residual - c + shift)) + s_c * trace + spread * freedom
        # d step = -Q dOmega w and dQ = -Q dOmega Q
        by_w = residual + shift
        if residual_variance is None and 0.0 < error < target_bound**2:
            by_w += 2.0 * freedom / n * residual
        by_Q = s_c * (Q * Q).sum(axis=1) + spread * (QH * Q).sum(axis=1)
        slope = weights * np.outer(su, u) + np.diag(weights @ (su * u))
        by_Q += 0.5 * ((turned @ slope) * turned).sum(axis=1)
        w = ridge.centre + step
        return value, -alpha * (members @ (w * (Q @ by_w) + by_Q))

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


def _search(
    risk: _Risk, penalties: PenaltyGroups, least_strength: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Strengths of the least risk, and those on the way: post-processing.

    One strength for all groups first, on a grid, then refined; then one group after the other on a
    coarser grid; then all by a quasi-Newton method in their logarithms. `least_strength` narrows
    the range of candidates.
    """
    smallest, q = min(max(penalties.low, least_strength), penalties.high), penalties.n_groups
    low, high = math.log(smallest), math.log(penalties.high)
    path: list[np.ndarray] = []

    def strengths(logs: np.ndarray) -> np.ndarray:
        return np.clip(np.exp(logs), smallest, penalties.high)

    grid = np.linspace(low, high, _GRID)
    values = [risk(strengths(np.full(q, point)))[0] for point in grid]
    least = int(np.argmin(values))
    unit = abs(values[least]) or 1.0  # tolerances of the quasi-Newton method are absolute

    def value(logs: np.ndarray) -> tuple[float, np.ndarray]:
        path.append(strengths(logs))
        level, slopes = risk(path[-1])
        return level / unit, slopes / unit

    ends = grid[max(0, least - 1)], grid[min(_GRID - 1, least + 1)]
    found = minimize_scalar(
        lambda point: value(np.full(q, point))[0], bounds=ends, method="bounded"
    )
    best, fun = np.full(q, float(found.x)), float(found.fun)
    if values[least] / unit <= fun:  # an end of the range
        best, fun = np.full(q, grid[least]), values[least] / unit
    if q > 1:
        for j in range(q):  # the risk is flat where a strength is far too small or too large
            for point in grid[::_EVERY]:
                trial = best.copy()
                trial[j] = point
                level = risk(strengths(trial))[0] / unit
                if level < fun:
                    best, fun = trial, level
        several = minimize(value, best, jac=True, method="L-BFGS-B", bounds=[(low, high)] * q)
        if several.fun < fun:
            best = several.x
    path.append(strengths(best))
    return path[-1], np.array(path)

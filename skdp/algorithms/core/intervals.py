"""Debiased coefficients and their standard deviations, from the releases of a fit alone.

Nothing here reads records. Theory: docs/theory/core.md, section 12.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import ndtr, softmax

from skdp.algorithms.core.centered_rows import CenteringMap
from skdp.problems import Loss, SoftmaxLoss

#: Part of the squared mu for second moments.
MOMENTS_SHARE = 0.3
#: Least and largest number of simulated rows, and that for one of the records.
_ROWS, _ROWS_OF_RECORDS = (2000, 12000), 0.25
#: Newton steps, their longest, what counts as 0 of the noise; rounds for shortened rows' moments.
_NEWTON, _LONGEST, _SMALL, _SHORTENED = 20, 2.0, 0.05, 30
#: Least variance of residuals over that of the targets, and least doubt of the latter; how many of
#: its errors it is taken larger by for deviations.
_LEAST_RESIDUAL, _LEAST_DOUBT, _CAREFUL = 0.01, 1e-6, 0.5
#: Moments below so many deviations of their noise are hidden; part of the variance of a
#: coefficient from hidden directions above which its interval has no ends.
_HIDDEN, _LOST = 2.0, 0.1
#: Least singular value over the largest one of a Jacobian that can be inverted.
_SINGULAR = 1e-10
#: Nodes of the law of residuals, simulated rows that their variance is taken from; groups of steps
#: that squares are computed for.
_NODES, _FEW, _GROUPS = 15, 1000, 30


@dataclass(frozen=True, kw_only=True)
class Transcript:
    """What the steps of a fit released, and second moments: no exact sum and no noise.

    Attributes
    ----------
    loss : Loss
    rows : CenteringMap
        Of the centered rows A.
    points : ndarray of shape (n_steps, n_outputs, width)
        Weights of A that gradients were released at.
    gradients : ndarray of shape (n_steps, n_outputs, width)
        Noisy means of clipped gradients.
    deviations : ndarray of shape (n_steps,)
        Of their noise.
    moments : ndarray of shape (n_features, n_features)
        Noisy second moments of rows that are shortened to norm 1.
    moment_error : float
        Deviation of the noise of a diagonal entry.
    clip : float
        Norm of a gradient.
    scale : float
        Margins of the loss over those of the weights.
    doubt : float
        Deviation of the variance of numbers, over it.
    n_records : float
    mix : ndarray of shape (n_scores, n_outputs)
    """

    loss: Loss
    rows: CenteringMap
    points: np.ndarray
    gradients: np.ndarray
    deviations: np.ndarray
    moments: np.ndarray
    moment_error: float
    clip: float
    scale: float
    doubt: float
    n_records: float
    mix: np.ndarray

    @cached_property
    def shares(self) -> np.ndarray:
        """Weights of the steps: their mean has the noise of one release of all the budget."""
        shares = self.deviations.min() ** 2 / self.deviations**2
        return np.asarray(shares / shares.sum())

    def mean(self, of_steps: np.ndarray) -> np.ndarray:
        """Return the mean over the steps."""
        return np.tensordot(self.shares, of_steps, axes=1)

    @cached_property
    def debiased(self) -> Debiased:
        """The coefficients that would have made the mean gradient, and their deviations."""
        with np.errstate(all="ignore"):
            return _debiased(self)


@dataclass(frozen=True, kw_only=True)
class Debiased:
    """Coefficients of rows x and their deviations, arrays of shape (n_scores, n_features).

    Those that are `hidden` depend on directions whose moments are not above their noise.
    """

    estimate: np.ndarray
    noise: np.ndarray
    sampling: np.ndarray
    hidden: np.ndarray


def _debiased(known: Transcript) -> Debiased:
    """Solve for the coefficients whose expected mean gradient is the released one."""
    rows, values, vectors, error = _normal_rows(known)
    law = (_Odds if known.loss.has_odds else _Numbers)(known, rows)
    (k, width), d = known.points.shape[1:], len(values)
    middle, goal = known.mean(known.points), known.mean(known.gradients)
    own = float(1.0 / np.sqrt((1.0 / known.deviations**2).sum()))
    weights = middle
    for _ in range(_NEWTON):
        mean, jacobian = law.expected(weights)
        change = np.linalg.lstsq(jacobian, (goal - mean).ravel(), rcond=_SINGULAR)[0]
        length = float(np.abs(change).max())
        weights = weights + change.reshape(k, width) * min(1.0, _LONGEST / max(length, 1e-300))
        if law.learn() and float(np.abs(goal - mean).max()) < _SMALL * own:
            break
    jacobian, of_law = law.expected(weights, is_last=True)[1], law.doubts()
    inverse = np.linalg.pinv(jacobian, rcond=_SINGULAR)
    singular = np.linalg.svd(jacobian, compute_uv=False)
    # an error E of the moments moves the mean gradient by C E (weights - middle)
    bends = np.einsum("aibi->ab", jacobian.reshape(k, width, k, width)[:, :d, :, :d])
    away = bends / float(values.sum()) @ (weights - middle)[:, :d]
    of_moments = np.zeros((k, width, k, width))
    of_moments[:, :d, :, :d] = np.einsum("ab,ij->aibj", away @ away.T, np.eye(d))
    of_moments[:, :d, :, :d] += np.einsum("ai,bj->biaj", away, away)
    of_noise = 0.5 * error**2 * of_moments.reshape(k * width, k * width)
    of_noise += own**2 * np.eye(k * width) + of_law
    of_sample = law.scatter(weights) / known.n_records

    def variances(of_gradients: np.ndarray, turn: np.ndarray) -> np.ndarray:
        full = (inverse @ of_gradients @ inverse.T).reshape(k, width, k, width)[:, :d, :, :d]
        full = np.einsum(
            "sa,ij,ajbl,il,sb->si", known.mix, turn, full, turn, known.mix, optimize=True
        )
        return np.maximum(full, 0.0)

    below = vectors[:, values < _HIDDEN * error]
    noise, sampling = (variances(each, np.eye(d)) for each in (of_noise, of_sample))
    lost = variances(of_noise + of_sample, below @ below.T) > _LOST * (noise + sampling)
    unit = known.scale / known.rows.unit
    estimate = unit * known.mix @ weights[:, :d]
    finite = np.isfinite(estimate) & np.isfinite(noise) & np.isfinite(sampling)
    lost |= ~finite | (singular[-1] <= _SINGULAR * singular[0])
    return Debiased(
        estimate=np.nan_to_num(estimate),
        noise=unit * np.sqrt(np.nan_to_num(noise)),
        sampling=unit * np.sqrt(np.nan_to_num(sampling)),
        hidden=lost,
    )


def _normal_rows(known: Transcript) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Simulate normal rows A that have the released moments when they are shortened.

    Also return their second moments, the directions of these, and the error of a moment.
    """
    d, constant = len(known.moments), known.rows.constant
    seen, vectors = np.linalg.eigh(known.moments)
    seen = np.maximum(seen, 0.5 * known.moment_error)
    n = int(min(max(_ROWS[0], _ROWS_OF_RECORDS * known.n_records), _ROWS[1]))
    n = max(n, 20 * d) // 2
    draws = np.random.default_rng(0).standard_normal((n, d))  # public
    values, turn = np.linalg.eigh(draws.T @ draws / n)
    draws = draws @ (turn / np.sqrt(values)) @ turn.T
    squares, values = draws**2, seen
    for _ in range(_SHORTENED):
        values = seen / (1.0 / np.maximum(squares @ values + constant**2, 1.0) @ squares / n)
    draws = (draws * np.sqrt(values)) @ vectors.T
    rows = np.column_stack([np.concatenate([draws, -draws]), np.full(2 * n, constant)])
    return rows, values, vectors, known.moment_error * float(values.sum() / seen.sum())


def _products(rows: np.ndarray, matrices: np.ndarray) -> np.ndarray:
    """Mean over the rows A of Kronecker products of a (k, k) matrix and A A'."""
    width, (m, k, _) = rows.shape[1], matrices.shape
    out = np.empty((k, width, k, width))
    for a in range(k):
        for b in range(k):
            out[a, :, b] = rows.T @ (matrices[:, a, b, None] * rows) / m
    return out.reshape(k * width, k * width)


class _Odds:
    """Mean clipped gradients of log odds of two or more classes at simulated rows."""

    def __init__(self, known: Transcript, rows: np.ndarray) -> None:
        loss = known.loss
        self._rows, self._known = rows, known
        self._basis = loss.basis if isinstance(loss, SoftmaxLoss) else np.array([[0.0], [1.0]])
        (n_classes, k), m = self._basis.shape, len(rows)
        limits = known.clip / np.linalg.norm(rows, axis=1)
        #: Mean clipped residuals of each class over the steps: no function of the coefficients.
        self._residuals = np.zeros((m, n_classes, k))
        for share, point in zip(known.shares, known.points, strict=True):
            margins = self._margins(point)
            for code in range(n_classes):
                codes = np.full(m, code, dtype=np.intp)
                each = loss.derivative(margins[:, 0] if k == 1 else margins, codes)
                each = known.scale * each.reshape(m, k)
                cuts = limits / np.maximum(np.linalg.norm(each, axis=1), 1e-300)
                self._residuals[:, code] += each * (share * np.minimum(1.0, cuts))[:, None]

    def _margins(self, weights: np.ndarray) -> np.ndarray:
        known = self._known
        return np.asarray(known.scale * self._rows @ weights.T + known.rows.centering.offsets)

    def _chances(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return chances of the classes at coefficients, and mean residuals."""
        p = softmax(self._margins(weights) @ self._basis.T, axis=1)
        return p, np.einsum("my,myk->mk", p, self._residuals)

    def expected(self, weights: np.ndarray, is_last: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean gradient that coefficients would have made, and its derivative."""
        p, mean = self._chances(weights)
        turned = self._known.scale * p[:, :, None] * (self._basis - (p @ self._basis)[:, None])
        bends = np.einsum("myk,myl->mkl", self._residuals, turned)
        return mean.T @ self._rows / len(p), _products(self._rows, bends)

    def scatter(self, weights: np.ndarray) -> np.ndarray:
        """Return the covariance of the gradient of a record, given its row."""
        p, mean = self._chances(weights)
        squares = np.einsum("my,myk,myl->mkl", p, self._residuals, self._residuals)
        return _products(self._rows, squares - mean[:, :, None] * mean[:, None])

    def learn(self) -> bool:
        """Nothing else is to be learnt."""
        return True

    def doubts(self) -> float:
        """Covariance of what else is not known of the mean gradient: none."""
        return 0.0


class _Numbers:
    """Mean clipped gradients of squares at simulated rows, with normal residuals.

    Their variance is what the coefficients leave of that of the targets. Gradients tell it, too: by
    their changes along what points have moved since the mean of those before, which is free of
    their noise.
    """

    def __init__(self, known: Transcript, rows: np.ndarray) -> None:
        self._rows, self._known = rows, known
        places = np.minimum(_GROUPS * np.cumsum(known.shares), _GROUPS - 1).astype(np.intp)
        first = np.unique(places, return_index=True)[1]
        shares = np.add.reduceat(known.shares, first)

        def pooled(of_steps: np.ndarray) -> np.ndarray:
            sums = np.add.reduceat(known.shares[:, None] * of_steps[:, 0], first, axis=0)
            return np.asarray(sums / shares[:, None])

        points, gradients, deviations = pooled(known.points), pooled(known.gradients), shares**-0.5
        deviations = deviations / math.sqrt(float((known.deviations**-2.0).sum()))
        self._limits = (known.clip / np.linalg.norm(rows, axis=1))[:, None]
        self._margins, self._shares = rows @ points.T, shares
        self._moments = rows.T @ rows / len(rows)
        self._variance = self._next = 1.0
        self._error, self._steep = 0.0, np.zeros(rows.shape[1])
        before = np.cumsum(shares[:, None] * points, axis=0) / np.cumsum(shares)[:, None]
        moved = np.zeros_like(points)  # of the first point of a group, by noise before the group
        moved[1:] = known.points[first[1:], 0] - before[:-1]
        self._along = rows @ (shares[:, None] * moved).T / len(rows)
        self._seen = float(shares @ (moved * gradients).sum(axis=1))
        squares = (shares * deviations) ** 2 @ (moved**2).sum(axis=1)
        self._noise = max(float(squares), 1e-300)

    def expected(self, weights: np.ndarray, is_last: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean gradient that coefficients would have made, and its derivative.

        The last time with a variance larger by half of its error: curvatures are not too large.
        """
        variance = self._variance + _CAREFUL * self._error * is_last
        limits, scale, own = self._limits, math.sqrt(variance), weights[0]
        away = self._margins - (self._rows @ own)[:, None]
        high, low = (limits - away) / scale, (-limits - away) / scale
        above, below = ndtr(high), ndtr(low)
        at_high, at_low = (np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi) for x in (high, low))
        mean = limits - scale * (high * above + at_high - low * below - at_low)
        steep = (at_low - at_high) / (2.0 * scale)  # derivative in the variance
        bend = max(float((self._along * steep).sum() ** 2), 1e-300) / self._noise
        doubt = max(self._known.doubt, _LEAST_DOUBT)
        change = (1.0 - float(own[:-1] @ self._moments[:-1, :-1] @ own[:-1]) - variance) / doubt**2
        off = self._seen - float((self._along * mean).sum())
        change += float((self._along * steep).sum()) * off / self._noise
        self._error = 1.0 / math.sqrt(1.0 / doubt**2 + bend)
        self._next = min(max(variance + self._error**2 * change, 0.5 * variance), 2.0 * variance)
        self._steep = self._rows.T @ (steep @ self._shares) / len(steep)
        bends = (below - above) @ self._shares
        mean = self._rows.T @ (mean @ self._shares) / len(mean)
        return mean[None], _products(self._rows, bends[:, None, None])

    def learn(self) -> bool:
        """Take the variance that follows from the last coefficients; return whether it was so."""
        before, self._variance = self._variance, max(self._next, _LEAST_RESIDUAL)
        return abs(self._variance - before) < _SMALL * self._error

    def doubts(self) -> np.ndarray:
        """Covariance of the mean gradient by the error of the variance."""
        return self._error**2 * np.outer(self._steep, self._steep)

    def scatter(self, weights: np.ndarray) -> np.ndarray:
        """Return the covariance of the gradient of a record, given its row."""
        nodes, law = np.polynomial.hermite_e.hermegauss(_NODES)
        half = len(self._rows) // 2  # rows and their opposites
        few = np.r_[: _FEW // 2, half : half + _FEW // 2]
        rows, limits, scale = (
            self._rows[few],
            self._limits[few],
            math.sqrt(self._variance + _CAREFUL * self._error),
        )
        away = self._margins[few] - (rows @ weights[0])[:, None]
        shares, law = self._shares, law / law.sum()
        psi = np.stack([np.clip(away + scale * e, -limits, limits) @ shares for e in nodes])
        return _products(rows, (law @ psi**2 - (law @ psi) ** 2)[:, None, None])

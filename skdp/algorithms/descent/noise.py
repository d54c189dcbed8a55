"""How far the noise of planned noisy gradient descent moves its coefficients.

Everything is a function of what was released: the second moments tell the curvature of every
direction, the schedule how much of each step's noise is left in it, the weights how many gradients
are clipped (docs/theory/noisy_gradient_descent.md, section 6).
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit

from skdp.algorithms.descent import rules
from skdp.algorithms.descent.temperature import TemperatureNoise
from skdp.algorithms.preparation import rules as preparation_rules
from skdp.algorithms.preparation.centered_noise import margin_noise, of_rows
from skdp.algorithms.preparation.penalty import Spectrum
from skdp.algorithms.statistics.clipped_curvature import (
    ClippedCurvature,
    clipped_curvature,
    row_squares,
    sampling_noise,
)
from skdp.algorithms.weight_noise import MarginNoise, PlannedNoise, WeightNoise

if TYPE_CHECKING:
    from skdp.algorithms.descent.noisy_descent import NoisyGradientDescentPlan
    from skdp.algorithms.descent.steps import Descent

#: Least part of the variance of numeric targets that residuals have.
_LEAST_RESIDUAL = 0.01
#: Least mean square distance of centered rows from 0.
_LEAST_TRACE = 0.1
#: Variance of margins that is none.
_LEAST_MARGIN = 1e-12
#: Least cosine of the margins and the gradient along them.
_LEAST_COSINE = 1e-6


def direction_noise(
    plan: NoisyGradientDescentPlan,
    curvatures: np.ndarray,
    squares: np.ndarray,
    moments: np.ndarray,
    gains: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Variances of weights, and what is learnt, by output and direction.

    Parameters
    ----------
    plan : NoisyGradientDescentPlan
    curvatures, squares : ndarray of shape (k,)
        Curvature of the losses, and mean square of residuals.
    moments, gains : ndarray of shape (m,)
        Second moments, and what gradients are multiplied by.

    Returns
    -------
    variances, learnt : ndarray of shape (k, m)
    """
    unit, n_blocks = plan.sums.bound() / plan.n_records, plan.schedule.n_blocks
    preconditioned = np.outer(curvatures, moments * gains)
    distinct, where = np.unique(preconditioned.ravel(), return_inverse=True)
    weights = plan.schedule.noise_weights(distinct)
    variances = ((weights * (plan.schedule.multipliers * unit * n_blocks)[:, None]) ** 2).sum(
        axis=0
    )
    # blocks are drawn by chance: what differs between them does not cancel at once
    of_blocks = weights.reshape(-1, n_blocks, len(distinct)).sum(axis=0).var(axis=0)
    of_blocks *= n_blocks**2 / plan.n_records
    learnt = -distinct * weights.sum(axis=0)
    shape = preconditioned.shape
    total = variances[where].reshape(shape)
    total = total + of_blocks[where].reshape(shape) * np.outer(squares, moments)
    return total * gains**2, learnt[where].reshape(shape)


def planned_noise(plan: NoisyGradientDescentPlan) -> PlannedNoise:
    """Return the noise that a plan lets expect, on isotropic rows of the largest norm.

    Margins of classes have a variance of 1, and numbers that of the prior.
    """
    objective, loss, d = plan.objective, plan.loss, plan.objective.design.n_features
    k, moment = loss.n_outputs, 1.0 / d
    spread = loss.target_bound * math.sqrt(preparation_rules.PRIOR_VARIANCE) or 1.0
    constant = preparation_rules.CONSTANT**2 * bool(objective.design.intercept)
    rest = row_squares(np.full(d, moment), 1.0) + constant
    given = loss, np.zeros(k), np.eye(k)
    found = clipped_curvature(*given, plan.clip_norm, rest, spread=spread)
    if plan.moments is not None and plan.is_accelerated:
        plan = replace(plan, rate=plan.rate / (moment + 1.0 / plan.moments.size))
    moments = np.array([moment, constant] if constant else [moment])
    gains = np.ones(len(moments))
    if plan.is_preconditioned:
        gains = 1.0 / np.maximum(moments + plan.ridge, plan.floor)
    sizes = np.diag(found.mean), np.diag(found.squares)
    variances, learnt = direction_noise(plan, *sizes, moments, gains)
    mean = variances.mean(axis=0)
    average = float(mean[0] + (mean[1:] * moments[1:]).sum())
    norm = math.sqrt(max(objective.design.feature_norm**2 - objective.design.intercept**2, 0.0))
    margins = MarginNoise(
        coef=math.sqrt(float(mean[0])) / norm,
        average_row=math.sqrt(average),
        rare_row=math.sqrt(float(mean[0])),
    )
    # what is not learnt does not scatter
    part = float(np.clip(learnt[:, 0], 0.0, 1.0).mean())
    return PlannedNoise(margins, part * sampling_noise(loss, objective.design))


class DescentNoise:
    """Covariance of the weights of a descent.

    Parameters
    ----------
    descent : Descent
    raw, scaled, final : ndarray of shape (n_outputs, width)
        Weights of centered rows as averaged, with the factor of their margins, and with a penalty.
    shift : float
        Of the log odds, as released.
    kept : ndarray of shape (n_outputs, width), optional
        Part of the weights of each column that was kept. Default: all.
    """

    def __init__(
        self,
        descent: Descent,
        raw: np.ndarray,
        scaled: np.ndarray,
        final: np.ndarray,
        shift: float = 0.0,
        kept: np.ndarray | None = None,
    ) -> None:
        self.kept = np.ones_like(raw) if kept is None else kept
        self.descent, self.plan, self.rows = descent, descent.plan, descent.rows
        self.raw, self.scaled, self.final, self.shift = raw, scaled, final, shift
        self.d = self.plan.objective.design.n_features
        self.moments, self.gains, self.vectors = self._spectrum()
        features = raw[:, : self.d]
        square = float((features**2).sum())
        self.factor = float((scaled[:, : self.d] * features).sum()) / square if square else 1.0
        turned = self._turned(features)
        self.covariance = np.asarray((turned * self.moments) @ turned.T)
        self.constant_moment = self.rows.constant**2
        self.constant_gain = 1.0
        if self.vectors is not None:
            self.constant_gain /= max(self.constant_moment + self.plan.ridge, self.plan.floor)

    def _spectrum(self) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Second moments and factors of gradients in directions, one per column; None: as is."""
        known, d = self.descent.preconditioner, self.d
        # the scale is that of an upper bound: rows are shorter by one deviation of its noise
        error = self._scale_error()
        trace = max(1.0 - error, _LEAST_TRACE)
        if known is None:
            return np.full(d, trace / d), np.ones(d), None
        ridge = self.plan.ridge
        matrix = (known.vectors * (known.values - ridge)) @ known.vectors.T
        values, vectors = np.linalg.eigh(matrix[:d, :d])
        # the released moments are those of rows that are shortened to norm 1
        squares = row_squares(np.maximum(values, 0.0) + _LEAST_TRACE / d, trace)
        squares += self.rows.constant**2
        left = float(np.minimum(1.0, 1.0 / squares).mean())
        other = ridge**2 * d / (2.0 * len(known.values)) / left**2
        shown = float(known.of_columns[:d].sum()) / left
        trace = (trace * other + shown * error**2) / max(other + error**2, 1e-300)
        # eigenvalues of noisy moments are further apart than those without noise
        level = float(values.mean())
        apart, noise = float(((values - level) ** 2).mean()), 0.25 * ridge**2
        moments = level + max(1.0 - noise / max(apart, noise), 0.0) * (values - level)
        trace = max(trace, _LEAST_TRACE)
        moments = np.maximum(moments * (trace / (d * max(level, 1e-3 / d))), 1e-3 * trace / d)
        gains = 1.0 / np.maximum(np.maximum(values, 0.0) + ridge, self.plan.floor)
        return moments, gains, vectors

    def _scale_error(self) -> float:
        """Noise of the mean square distance of rows from their mean, relative to it."""
        plan = self.plan
        return 0.0 if plan.centering is None else plan.centering.scale_error(self.rows.centering)

    def _turned(self, weights: np.ndarray) -> np.ndarray:
        return weights if self.vectors is None else weights @ self.vectors

    def _noise(
        self, curvatures: np.ndarray, squares: np.ndarray, moments: Any, gains: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        """Variances of weights, and what is learnt, by output and direction.

        Parameters
        ----------
        curvatures, squares : ndarray of shape (k,)
            Curvature of the losses, and mean square of residuals.
        moments, gains : ndarray of shape (m,)
        """
        return direction_noise(self.plan, curvatures, squares, moments, gains)

    def _rest(self, taken: float) -> np.ndarray:
        """Squared lengths of normal rows without a part of them, at quantiles of second moments."""
        left = max(float(self.moments.sum()) - taken, 0.0)
        return row_squares(self.moments, left) + self.constant_moment + 1e-12

    @property
    def share(self) -> float:
        """Noise in the margin of an average row over the variance of margins, but for offsets."""
        noise = float((self._of_outputs[2] @ self.moments).sum())
        return noise / max(float(np.trace(self.covariance)), _LEAST_MARGIN)

    @cached_property
    def curvature(self) -> ClippedCurvature:
        """Mean curvature of the clipped losses in the margins."""
        plan = self.plan
        spread = math.sqrt(max(float(np.trace(self.covariance)) / len(self.raw), 1e-2))
        turned = self._turned(self.raw[:, : self.d])
        moments = (turned * self.moments**2) @ turned.T
        taken = 0.0
        if plan.loss.has_odds:
            taken = float(np.trace(np.linalg.pinv(self.covariance, hermitian=True) @ moments))
        rest = self._rest(taken)

        likely = None if plan.temperature is None else self.factor

        def at(spread: float) -> ClippedCurvature:
            return clipped_curvature(
                plan.loss,
                self.descent.offsets,
                self.covariance,
                plan.clip_norm,
                rest,
                moments=moments,
                spread=spread,
                factor=likely,
            )

        if not plan.loss.target_bound:
            return at(spread)
        variance = plan.loss.target_bound**2 * plan.target_variance
        found = at(math.sqrt(variance))
        sizes = np.diag(found.mean), np.diag(found.squares)
        noise = float(self._noise(*sizes, self.moments, self.gains)[0][0] @ self.moments)
        # explained is what the margins have beyond noise, and noise adds to residuals
        left = variance - float(self.covariance[0, 0]) + 2.0 * noise
        return at(math.sqrt(max(left, _LEAST_RESIDUAL * variance)))

    def offset_variance(self) -> float:
        """Variance of the margins of a constant model at the mean row, from its release."""
        plan, offset = self.plan, float(self.descent.offsets[0])
        if plan.centering is None:
            return 0.0
        deviation = plan.centering.sum.mechanism().noise_scale / plan.n_records
        moved = 0.0
        if plan.centering.moves_rows:
            scale = self.rows.centering.scale
            moved = (deviation / scale) ** 2 * float(
                (self.raw[:, : self.d] ** 2).sum(axis=1).mean()
            )
        if plan.loss.target_bound:
            own = deviation * plan.centering.target_clip * plan.loss.target_bound
        elif plan.loss.link == "logit":
            share = float(expit(offset))
            own = deviation / preparation_rules.LABEL_WEIGHT / (share * (1.0 - share))
        elif plan.loss.has_odds:
            own = deviation * math.sqrt(2.0) * (plan.loss.n_outputs + 1)
        else:
            own = 0.0
        return own**2 + moved

    def weights(self) -> WeightNoise:
        """Return the covariance of the coefficients."""
        plan, rows, d, found = self.plan, self.rows, self.d, self.curvature
        outputs, of_constant, variances = self._of_outputs
        k = len(outputs)
        plain = np.zeros(k)
        # linear functions of the features of A and of 1, one per row
        if self.vectors is not None:
            factors = np.column_stack([self.vectors.T, np.zeros(d)])
            factors, mixed = self._along(factors, variances, found, outputs)
        else:
            plain, variances = variances[:, 0], np.zeros((k, 0))
            factors, mixed = self._along(np.zeros((0, d + 1)), variances, found, outputs)
        factors[:, :d] *= self.factor * self.kept.mean(axis=0)[:d]
        mixed[:, :, :d] *= self.factor * self.kept[:, :d]
        plain = plain * self.factor**2
        if rows.has_intercept:
            variances = np.column_stack([variances, of_constant])
            factors = np.vstack([factors, np.eye(1, d + 1, d)])
        left = self._penalised(np.concatenate([factors, mixed.reshape(-1, d + 1)]))
        factors, mixed = left[: len(factors)], left[len(factors) :].reshape(mixed.shape)
        if plan.objective.is_penalised and k == 1:
            more = self._penalty_noise()
            mixed = np.concatenate([mixed, np.pad(more, ((0, 0), (0, 1)))[:, None, :]])
        to_scores = np.asarray(plan.loss.class_weights(np.eye(k)))
        mixed, kept = np.einsum("sa,qai->qsi", to_scores, mixed), self._kept()
        return WeightNoise(
            directions=of_rows(rows, factors),
            variances=variances,
            plain=plain * (kept / rows.unit) ** 2,
            center=rows.shift * rows.unit,
            mix=to_scores @ outputs,
            mixed=of_rows(rows, mixed),
            margins=margin_noise(
                factors,
                variances,
                plain * kept**2,
                to_scores @ outputs,
                mixed,
                Spectrum(moments=self.moments, directions=self.vectors),
                rows.unit,
            ),
        )

    @cached_property
    def _of_outputs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Noise of outputs that do not depend on each other.

        Returns
        -------
        outputs : ndarray of shape (k, k)
            Combinations of the margins, one per column.
        of_constant : ndarray of shape (k,)
            Variances of the margin of the mean row.
        variances : ndarray of shape (k, d)
            Of weights, by direction.
        """
        curvatures, outputs = np.linalg.eigh(self.curvature.mean)
        squares = np.einsum("ak,ab,bk->k", outputs, self.curvature.squares, outputs)
        moments = np.append(self.moments, self.constant_moment)
        gains = np.append(self.gains, self.constant_gain)
        variances, learnt = self._noise(curvatures, squares, moments, gains)
        constant = variances[:, -1] * self.constant_moment * self.factor**2
        constant += (1.0 - self.factor * learnt[:, -1]) ** 2 * self.offset_variance()
        if self.plan.temperature is not None:
            found = self._tempered
            constant = (1.0 - found.kept_shift) ** 2 * constant + found.shift_variance
        return outputs, constant, variances[:, :-1]

    @cached_property
    def _tempered(self) -> TemperatureNoise:
        plan = self.plan
        assert plan.temperature is not None
        spread = plan.loss.target_bound * math.sqrt(plan.target_variance) or 1.0
        start = plan.shrinkage(self.raw, plan.noise_variance())
        if plan.is_squared:
            start = max(start, rules.LEAST_FACTOR)
        return plan.temperature.noise(
            self.raw,
            self.descent.offsets,
            self.covariance,
            (start, self.factor),
            self.shift,
            spread,
        )

    def _along(
        self,
        factors: np.ndarray,
        variances: np.ndarray,
        found: ClippedCurvature,
        outputs: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Split off the noise along the margins, where the curvature is another one.

        Returns
        -------
        factors : ndarray of shape (n_directions, d + 1)
            Without it.
        mixed : ndarray of shape (n_mixed, n_outputs, d + 1)
            It.
        """
        k, d, axes = len(self.raw), self.d, found.axes
        m = axes.shape[1]
        functions = np.zeros((m, d + 1))
        functions[:, :d] = axes.T @ self.raw[:, :d]  # standardised margins
        turned = self._turned(functions[:, :d]) * self.moments
        pulled = turned if self.vectors is None else turned @ self.vectors.T
        components = factors[:, :d] @ pulled.T
        inner = (components.T * variances[:, None, :]) @ components
        covariance = np.tensordot(outputs[:, None, :] * outputs, inner, 1)
        covariance = covariance.swapaxes(1, 2).reshape(k * m, k * m)
        along = found.along.reshape(k * m, k * m)
        if len(factors):
            level = np.einsum("ab,jl->ajbl", found.mean, np.eye(m)).reshape(k * m, k * m)
            least = 1e-2 * max(float(np.trace(level)) / max(k * m, 1), 1e-12)
            values, vectors = np.linalg.eigh(along)
            other = (vectors / np.maximum(values, least)) @ vectors.T @ level
            covariance = other @ covariance @ other.T
        if self.plan.temperature is not None:
            tempered = self._tempered
            scale = np.einsum("ab,bj->aj", self.covariance, axes).ravel()
            pull = along @ scale
            # the curvature of clipped losses may vanish there, or be negative
            least = _LEAST_COSINE * float(np.linalg.norm(pull) * np.linalg.norm(scale))
            pull /= max(float(pull @ scale), least, 1e-300)
            taken = np.eye(k * m) - tempered.kept_factor * np.outer(scale, pull)
            covariance = taken @ covariance @ taken.T
            relative = tempered.factor_variance / max(self.factor, 1e-12) ** 2
            covariance += relative * np.outer(scale, scale)
        values, vectors = np.linalg.eigh(covariance)
        root = (vectors * np.sqrt(np.maximum(values, 0.0))).T.reshape(k * m, k, m)
        return factors - components @ functions, np.einsum("qaj,ji->qai", root, functions)

    def _kept(self) -> float:
        """What a penalty leaves of the weights, on average."""
        before, after = self.scaled[:, : self.d], self.final[:, : self.d]
        square = float((before**2).sum())
        return float((before * after).sum()) / square if square else 1.0

    def _penalised(self, factors: np.ndarray) -> np.ndarray:
        """Shrink directions as the penalty has shrunk the weights."""
        factors, d = factors.copy(), self.d
        if not self.plan.objective.is_penalised:
            factors[:, :d] *= self._kept()
            return factors
        factors[:, :d] = self.descent.spectrum.penalised(
            factors[:, :d], self.scaled[:, :d], self.final[:, :d]
        )
        return factors

    def _penalty_noise(self) -> np.ndarray:
        """Noise of the features' weights by that of the moments a penalty goes by."""
        known, deviation = self.descent.preconditioner, 0.0
        if known is not None:  # the ridge is the spectral norm of the noise
            deviation = known.deviation(self.plan.ridge)
        before, after = self.scaled[:, : self.d], self.final[:, : self.d]
        return self.descent.spectrum.penalty_noise(before, after, deviation, self._scale_error())

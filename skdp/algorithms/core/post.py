"""What follows from the releases for free: the intercept, coefficients, and their noise.

Nothing here reads records. Theory: docs/theory/core.md, sections 6 and 7.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from skdp.algorithms.core.centered_rows import CenteredRecords
from skdp.algorithms.core.margin_laws import CLASSES, DRAWS, Balance
from skdp.algorithms.core.means import Means
from skdp.algorithms.core.size import Corrected, Size, shortening
from skdp.algorithms.core.spectrum import Spectrum
from skdp.algorithms.core.steps import Path
from skdp.algorithms.statistics.margins import clipped_curvature, normal_law, row_squares
from skdp.algorithms.weight_noise import MarginNoise, WeightNoise, spectral_norm
from skdp.problems import Loss

#: Least part of a constant that steps count as learnt.
_LEAST_LEARNT = 0.5
#: Deviation of the constant over the size of margins: from the base of normal margins, and, for
#: classes of other losses, from half of their log odds.
_OFF_BASE, _OFF_ORIGIN = 0.2, 0.5
#: Least part of the variance of numbers that residuals have.
LEAST_RESIDUAL = 0.01
#: Least part of weights, and of what is lost of them, that a penalty is computed for.
_LEAST_LEFT = 1e-6


def posterior_of_steps(
    means: Means, steps: Path, size: Size, balance: Balance | None, constant: np.ndarray
) -> Corrected:
    """Return the posterior of size and shift; `constant` is the shift that the steps have found."""
    k = len(constant)
    if balance is not None:  # clipping moves the constant of log odds: the released shares count
        known = float(((means.error / means.shares) ** 2 @ balance.basis**2).mean())
        known += (_OFF_BASE * size.size) ** 2
        return Corrected.of(size.size, size.variance, np.zeros(k), known)
    known = (means.error / means.deviation) ** 2
    shift, error = _of_constant(steps, constant)
    error += max(float((shift**2).mean()) - known - error, 0.0)  # apparent bias of clipping
    kept = known / (known + error)
    return Corrected.of(size.size, size.variance, kept * shift, kept * error)


def _of_constant(steps: Path, constant: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the shift that steps have found, had they been long, and the variance of its noise."""
    curvature = steps.constant**2 * steps.bend
    learnt = max(steps.reached(curvature), _LEAST_LEARNT)
    variance = float(steps.variances(np.array([curvature]))[0])
    return constant / learnt, (steps.constant / learnt) ** 2 * variance


def posterior_of_slopes(
    means: Means,
    steps: Path,
    size: Size,
    origin: np.ndarray,
    constant: np.ndarray,
    factor: float,
) -> Corrected:
    """Return the posterior of the shift of other losses from their constant `origin`.

    The size has no other noise than the weights. The `factor` undoes what clipping does to typical
    margins.
    """
    best = factor * size.size
    if not len(constant):
        return Corrected.of(best, 0.0, np.zeros(len(origin)), 0.0)
    expected, known = np.zeros(len(origin)), (_OFF_ORIGIN * size.size) ** 2
    if not len(means.shares):  # residuals have less scatter than targets
        expected = origin * (math.sqrt(max(1.0 - size.size**2, 0.0)) - 1.0)
        known = (means.error / means.deviation) ** 2 + _OFF_BASE**2
    shift, error = _of_constant(steps, constant)
    kept = known / (known + error)
    shift = factor * (origin + expected + kept * (shift - expected)) - origin
    known = factor**2 * kept * error
    return Corrected.of(best, 0.0, shift, known)


def base_at(
    balance: Balance | None, size: float, root: np.ndarray, start: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the base of margins of a size and a shape, and its derivative in the size."""
    if balance is None:
        return start, np.zeros_like(start)
    step = 0.01 * size + 1e-3
    base = balance.base(size * root, start)
    ahead = balance.base((size + step) * root, base)
    return base, (ahead - base) / step


def expected_bends(
    balance: Balance | None, base: np.ndarray, size: float, root: np.ndarray, top: float
) -> np.ndarray:
    """Return the mean of what a round releases of curvatures, for normal margins; (2 + k,).

    That is ``(z'Wz, Wz, tr W / k)``, weighted as in a round.
    """
    k = len(root)
    nodes, weights = normal_law(k, DRAWS)
    z = nodes @ root.T
    if balance is None:
        trace, wz = np.ones(len(z)), z
    else:
        p = softmax((base + size * z) @ balance.basis.T, axis=1)
        trace = (1.0 - (p * p).sum(axis=1)) / k
        classes = z @ balance.basis.T
        wz = (p * (classes - (p * classes).sum(axis=1, keepdims=True))) @ balance.basis
    vectors = np.column_stack([(z * wz).sum(axis=1), wz, trace])
    vectors /= shortening(z)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(weights @ (vectors * np.minimum(1.0, top / np.maximum(lengths, 1e-300))))


def root_of(weights: np.ndarray) -> np.ndarray:
    """Return the root of the covariance of margins on rows of equal variances, shape (k, k)."""
    values, vectors = np.linalg.eigh(weights @ weights.T / weights.shape[1])
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


def step_curvatures(
    loss: Loss,
    steps: Path,
    offsets: np.ndarray,
    covariance: np.ndarray,
    scale: float,
    unit: float,
    trace: float = 1.0,
) -> tuple[np.ndarray, np.ndarray]:
    """Return curvatures of outputs in an average direction, and axes of outputs in columns.

    The directions are those that margins do not depend on, all of an average second moment. Offsets
    are margins of the mean record in units of the loss, the covariance is of margins of the mean
    iterate, `scale` margins of the loss over those of the steps, `unit` the same without the spread
    of targets, `trace` the mean square of centered rows.
    """
    if len(covariance) >= CLASSES:  # all matrices of all classes at all nodes would take minutes
        average = trace * steps.average_curvature
        return np.full(len(covariance), average), np.eye(len(covariance))
    d, variance = steps.n_features, float(np.trace(covariance))
    spread = variance / len(covariance)  # of margins; of residuals of numbers:
    if loss.target_bound:
        spread = max(1.0 - variance, LEAST_RESIDUAL)
    found = clipped_curvature(
        loss,
        offsets,
        scale**2 * covariance,
        steps.clip * scale / unit**2,
        row_squares(np.full(d, 1.0 / d), trace) + steps.constant**2,
        spread=scale * math.sqrt(max(spread, 1e-12)),
    )
    values, axes = np.linalg.eigh(found.mean)
    return np.maximum(values, 0.0) * unit**2 * trace / d, axes


def step_variances(
    loss: Loss, steps: Path, offsets: np.ndarray, covariance: np.ndarray, scale: float, unit: float
) -> np.ndarray:
    """Return variances of the noise of a mean weight, as :func:`step_curvatures` takes rows."""
    return steps.variances(step_curvatures(loss, steps, offsets, covariance, scale, unit)[0])


def equivalent_penalty(curvature: float, signal: np.ndarray | float) -> np.ndarray:
    """Return the penalty for each part of squared weights that is no noise (section 9)."""
    signal = np.clip(signal, _LEAST_LEFT, 1.0 - _LEAST_LEFT)
    return np.asarray(curvature * (1.0 / signal - 1.0))


@dataclass(frozen=True)
class StepNoise:
    """Noise of mean weights that the steps make."""

    #: Shape (n_outputs, n_directions) or (n_outputs, 1). Of independent outputs.
    variances: np.ndarray
    #: Shape (n_outputs, n_outputs). These outputs in columns.
    axes: np.ndarray
    #: The directions; without any, variances are the same in all.
    spectrum: Spectrum
    #: Shape (n_features,), or float. What it has been multiplied by since, in each feature.
    slopes: np.ndarray | float = 1.0


def weight_noise(
    rows: CenteredRecords,
    weights: np.ndarray,
    slope: np.ndarray,
    theta: Corrected,
    of_steps: StepNoise,
    scale: float,
    mix: np.ndarray,
    spectrum: Spectrum,
    after: np.ndarray | None = None,
    of_moments: float = 0.0,
    kept: np.ndarray | float = 1.0,
    error: np.ndarray | float = 0.0,
) -> WeightNoise:
    """Return the noise of the model: of the steps, and of theta.

    Weights make margins per unit of the size, without a constant; `slope` is the derivative of the
    base in the size, `of_steps` is the noise of such a weight, `scale` is
    units of the loss over those of the basis, `mix` has shape (n_scores, k). With a penalty `after`
    are weights in units of the loss, a diagonal second moment behind it has noise `of_moments`,
    shifts are `kept` in part, and intercepts have the deviations `error`.
    """
    k, d = len(weights), len(rows.shift)
    axes, directions = of_steps.axes, None
    if of_steps.spectrum.directions is not None:
        directions = of_steps.spectrum.directions.T * of_steps.slopes
    plain = of_steps.variances * (scale * theta.theta[0]) ** 2
    values, vectors = np.linalg.eigh(theta.covariance)
    roots = scale * (vectors * np.sqrt(np.maximum(values, 0.0))).T  # (1 + k, 1 + k)
    mixed = np.zeros((k + 1, k, d + 1))
    mixed[:, :, :d] = roots[:, :1, None] * weights[:, :d]
    if rows.has_intercept:
        mixed[:, :, d] = roots[:, :1] * slope + kept * roots[:, 1:]
    functions = np.zeros((0, d + 1))
    if directions is not None:
        functions = np.pad(directions, ((0, 0), (0, 1)))
    if after is not None:
        before, after = scale * theta.theta[0] * weights[:, :d], after[:, :d]
        left = float((before * after).sum()) / max(float((before**2).sum()), 1e-300)
        if spectrum.directions is None:
            plain = plain * left**2
        else:
            own = np.eye(d) * of_steps.slopes if directions is None else directions
            functions = np.pad(spectrum.penalised(own, before, after), ((0, 0), (0, 1)))
        flat = mixed[:, :, :d].reshape(-1, d)
        mixed[:, :, :d] = spectrum.penalised(flat, before, after).reshape(k + 1, k, d)
        if k == 1 and of_moments:
            more = spectrum.penalty_noise(before, after, of_moments)
            mixed = np.concatenate([mixed, np.pad(more, ((0, 0), (0, 1)))[:, None, :]])
    if rows.has_intercept and np.any(error):
        mixed = np.concatenate([mixed, np.zeros((k, k, d + 1))])
        mixed[-k:, :, d] = error * np.eye(k)
    dense = np.broadcast_to(plain, (k, max(plain.shape[1], len(functions))))[:, : len(functions)]
    plain = np.zeros((k, d)) if len(functions) else plain * np.ones(d) * of_steps.slopes**2
    mixed = np.einsum("sk,qkj->qsj", mix, mixed)
    shown = of_steps.spectrum if spectrum.directions is None else spectrum
    return WeightNoise(
        directions=of_rows(rows, functions),
        variances=dense,
        plain=plain / rows.unit**2,
        center=rows.shift * rows.unit,
        mix=mix @ axes,
        mixed=of_rows(rows, mixed),
        margins=margin_noise(functions, dense, plain, mix @ axes, mixed, shown, rows.unit),
    )


def of_rows(rows: CenteredRecords, functions: np.ndarray) -> np.ndarray:
    """Turn functions of the features of A and of 1, shape (..., d + 1), into those of (x, 1)."""
    out, d = functions.copy(), functions.shape[-1] - 1
    out[..., :d] /= rows.unit
    out[..., d] -= functions[..., :d] @ rows.shift
    return out


def margin_noise(
    functions: np.ndarray,
    variances: np.ndarray,
    plain: np.ndarray,
    mix: np.ndarray,
    mixed: np.ndarray,
    spectrum: Spectrum,
    unit: float,
) -> MarginNoise:
    """Noise of the coefficients and of the margins of an average and of a rare unit row.

    The arrays are those of :class:`WeightNoise` (`functions` are its directions), but of the
    features of A and of 1; `unit` is that of these features.
    """
    d, shares = functions.shape[1] - 1, (mix**2).mean(axis=0)
    rows = np.sqrt(shares @ variances)[:, None] * functions
    rows = np.concatenate([rows, mixed.reshape(-1, d + 1) / math.sqrt(len(mix))])
    own = shares @ plain
    average = float((spectrum.turned(rows[:, :d]) ** 2 @ spectrum.moments).sum())
    average += float((rows[:, d] ** 2).sum() + own @ spectrum.moments)
    return MarginNoise(
        coef=math.sqrt(float((rows[:, :d] ** 2).sum() + own.sum()) / d) / unit,
        average_row=math.sqrt(average),
        rare_row=math.sqrt(spectral_norm(rows[:, :d]) ** 2 + float(own.max())),
    )

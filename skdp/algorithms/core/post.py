"""What follows from the releases for free: the intercept, coefficients, and their noise.

Nothing here reads records. Theory: docs/theory/core.md, sections 6 and 7.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import softmax

from skdp.algorithms.core.margin_laws import CONSTANT, Balance, normal_law
from skdp.algorithms.core.means import Means
from skdp.algorithms.core.size import Corrected, Size
from skdp.algorithms.core.steps import Steps
from skdp.algorithms.preparation.centered_rows import CenteredRecords
from skdp.algorithms.weight_noise import MarginNoise, WeightNoise

#: Least part of a constant that steps count as learnt.
_LEAST_LEARNT = 0.5
#: Deviation of the constant from the base of normal margins, over their size.
_OFF_BASE = 0.2


def started(
    means: Means, steps: Steps, size: Size, balance: Balance | None, constant: np.ndarray
) -> Corrected:
    """Return the posterior of size and shift after the steps.

    Parameters
    ----------
    means : Means
    steps : Steps
    size : Size
    balance : Balance or None
    constant : ndarray of shape (k,)
        Margins of the mean record beside the offsets, that the steps have found; empty without an
        intercept.
    """
    k = len(constant)
    if balance is not None:  # clipping moves the constant of log odds: the released shares count
        known = float(((means.error / means.shares) ** 2 @ balance.basis**2).mean())
        known += (_OFF_BASE * size.size) ** 2
        return Corrected(np.append(size.size, np.zeros(k)), _diagonal(size.variance, known, k))
    known, curvature = (means.error / means.deviation) ** 2, CONSTANT**2 * steps.bend
    weights = steps.responses(np.array([curvature]))[:, 0]
    learnt = max(curvature * float(weights.sum()), _LEAST_LEARNT)
    shift = constant / learnt
    error = (CONSTANT * steps.unit / learnt) ** 2 * float((weights**2 / steps.parts).sum())
    error += max(float((shift**2).mean()) - known - error, 0.0)  # apparent bias of clipping
    kept = known / (known + error)
    return Corrected(np.append(size.size, kept * shift), _diagonal(size.variance, kept * error, k))


def unmoved(size: Size, k: int) -> Corrected:
    """Return the posterior of a model without an intercept."""
    return Corrected(np.append(size.size, np.zeros(k)), _diagonal(size.variance, 0.0, k))


def _diagonal(first: float, others: float, k: int) -> np.ndarray:
    return np.diag(np.append(first, np.full(k, max(others, 1e-12))))


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
    nodes, weights = normal_law(k)
    z = nodes @ root.T
    if balance is None:
        trace, wz = np.ones(len(z)), z
    else:
        p = softmax((base + size * z) @ balance.basis.T, axis=1)
        trace = (1.0 - (p * p).sum(axis=1)) / k
        classes = z @ balance.basis.T
        wz = (p * (classes - (p * classes).sum(axis=1, keepdims=True))) @ balance.basis
    vectors = np.column_stack([(z * wz).sum(axis=1), wz, trace])
    vectors /= np.maximum(1.0, (z * z).sum(axis=1) / k)[:, None]
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(weights @ (vectors * np.minimum(1.0, top / np.maximum(lengths, 1e-300))))


def root_of(weights: np.ndarray) -> np.ndarray:
    """Return the root of the covariance of margins on rows of equal variances, shape (k, k)."""
    values, vectors = np.linalg.eigh(weights @ weights.T / weights.shape[1])
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


def weight_noise(
    rows: CenteredRecords,
    weights: np.ndarray,
    slope: np.ndarray,
    theta: Corrected,
    variance: float,
    scale: float,
    mix: np.ndarray,
) -> WeightNoise:
    """Return the noise of the model: of the steps, the same in all directions, and of theta.

    Parameters
    ----------
    rows : CenteredRecords
    weights : ndarray of shape (k, width)
        Margins per unit of the size, for centered rows; no constant.
    slope : ndarray of shape (k,)
        Derivative of the base in the size.
    theta : Corrected
    variance : float
        Of such a weight.
    scale : float
        Units of the loss over those of the basis.
    mix : ndarray of shape (n_scores, k)
    """
    k, d = len(weights), len(rows.shift)
    plain = np.full(k, variance * (scale * theta.theta[0] / rows.unit) ** 2)
    values, vectors = np.linalg.eigh(theta.covariance)
    roots = (vectors * np.sqrt(np.maximum(values, 0.0))).T  # (1 + k, 1 + k)
    of_rows = rows.weights(weights)[:, :d]
    of_constant = slope - weights[:, :d] @ rows.shift
    mixed = np.zeros((k + 1, k, d + 1))
    for q, root in enumerate(roots):
        mixed[q, :, :d] = root[0] * of_rows
        if rows.has_intercept:
            mixed[q, :, d] = root[0] * of_constant + root[1:]
    mixed = scale * np.einsum("sk,qkj->qsj", mix, mixed)
    size = float(np.sqrt((mix**2).sum(axis=1).mean()))
    margin = size * scale * float(theta.theta[0]) * math.sqrt(variance)
    of_shift = np.einsum("sk,kl,sl->s", mix, theta.covariance[1:, 1:], mix).mean()
    average = math.hypot(margin, scale * math.sqrt(float(of_shift)))
    return WeightNoise(
        directions=np.zeros((1, d + 1)),
        variances=np.zeros((k, 1)),
        plain=plain,
        center=rows.shift * rows.unit,
        mix=mix,
        mixed=mixed,
        margins=MarginNoise(
            coef=size * math.sqrt(float(plain[0])), average_row=average, rare_row=average
        ),
    )

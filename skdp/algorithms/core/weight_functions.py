"""Functions of centered rows as those of rows, and the noise of their margins: post-processing."""

from __future__ import annotations

import math

import numpy as np

from skdp.algorithms.core.centered_rows import CenteredRecords
from skdp.algorithms.core.penalty import Spectrum
from skdp.algorithms.weight_noise import MarginNoise, spectral_norm


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

    Parameters
    ----------
    functions, variances, plain, mix, mixed
        As of :class:`WeightNoise`, but of the features of A and of 1.
    spectrum : Spectrum
    unit : float
        Of the features of A.
    """
    d, shares = functions.shape[1] - 1, (mix**2).mean(axis=0)
    rows = np.sqrt(shares @ variances)[:, None] * functions
    rows = np.concatenate([rows, mixed.reshape(-1, d + 1) / math.sqrt(len(mix))])
    isotropic = float(shares @ plain)
    average = float((spectrum.turned(rows[:, :d]) ** 2 @ spectrum.moments).sum())
    average += float((rows[:, d] ** 2).sum())
    return MarginNoise(
        coef=math.sqrt(float((rows[:, :d] ** 2).sum()) / d + isotropic) / unit,
        average_row=math.sqrt(average + isotropic * float(spectrum.moments.sum())),
        rare_row=math.sqrt(spectral_norm(rows[:, :d]) ** 2 + isotropic),
    )

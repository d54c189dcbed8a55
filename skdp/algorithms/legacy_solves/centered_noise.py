"""The noise of weights of prepared rows, as one of coefficients: post-processing."""

from __future__ import annotations

import math

import numpy as np

from skdp.algorithms.core.weight_functions import margin_noise, of_rows
from skdp.algorithms.legacy_solves.plan import Preparation
from skdp.algorithms.legacy_solves.temperature import TemperatureNoise
from skdp.algorithms.legacy_solves.undo import LeftNoise
from skdp.algorithms.weight_noise import WeightNoise


def centered_noise(
    prepared: Preparation,
    left: LeftNoise,
    weights: tuple[np.ndarray, np.ndarray, np.ndarray],
    *,
    to_scores: np.ndarray,
    tempered: TemperatureNoise | None,
    offset_variance: np.ndarray,
    kept: np.ndarray,
    moments_noise: tuple[float, float] | None,
) -> WeightNoise:
    """Return the covariance of the coefficients of a model of prepared rows.

    Parameters
    ----------
    prepared : Preparation
    left : LeftNoise
        Of weights of prepared rows.
    weights : tuple of three ndarray of shape (k, width)
        Of centered rows, as released, with the factor of their margins, and with a penalty.
    to_scores : ndarray of shape (n_scores, k)
    tempered : TemperatureNoise or None
        Of the release that found the factor.
    offset_variance : ndarray of shape (k,)
        Of the margins of a constant model, which the weight of the constant corrects in part.
    kept : ndarray of shape (k, n_features)
        Part of the weights of each column that was kept.
    moments_noise : tuple of two floats or None
        Deviation and relative error of the moments, as of :meth:`Spectrum.penalty_noise`; None
        without a penalty.
    """
    rows, spectrum, (raw, scaled, final) = prepared.rows, prepared.spectrum, weights
    d, k = len(rows.shift), len(raw)
    square = max(float((raw[:, :d] ** 2).sum()), 1e-300)
    factor = float((raw[:, :d] * scaled[:, :d]).sum()) / square
    functions = factor * (left.functions @ prepared.whitener) * kept.mean(axis=0)
    constant = left.constant * (factor * prepared.affine.constant) ** 2
    constant = constant + (1.0 - left.kept) ** 2 * offset_variance * rows.has_intercept
    mixed = np.zeros((0, k, d))
    if tempered is not None:
        mixed = math.sqrt(tempered.factor_variance) * raw[None, :, :d]
        constant = (1.0 - tempered.kept_shift) ** 2 * constant + tempered.shift_variance
    if tempered is not None and k == 1:  # of several classes it is one direction of many
        explained = max(float(spectrum.covariance(raw[:, :d])[0, 0]), 1e-300)
        pulled = spectrum.turned_back(spectrum.turned(raw[:, :d]) * spectrum.moments)
        along = functions @ pulled.T / explained
        functions = functions - tempered.kept_factor * along * raw[:, :d]
    if moments_noise is not None:
        before, after = scaled[:, :d], final[:, :d]
        functions = spectrum.penalised(functions, before, after)
        mixed = spectrum.penalised(mixed.reshape(-1, d), before, after).reshape(mixed.shape)
        if k == 1:
            more = spectrum.penalty_noise(before, after, *moments_noise)
            mixed = np.concatenate([mixed, more[:, None, :]])
    extended = np.zeros((len(functions) + 1, d + 1))
    extended[:-1, :d], extended[-1, d] = functions, 1.0
    variances = np.column_stack([left.variances, constant])
    mix, of_scores = to_scores @ left.outputs, np.einsum("sk,qki->qsi", to_scores, mixed)
    of_scores = np.pad(of_scores, ((0, 0), (0, 0), (0, 1)))
    return WeightNoise(
        directions=of_rows(rows, extended),
        variances=variances,
        plain=np.zeros(k),
        center=np.zeros(d),
        mix=mix,
        mixed=of_rows(rows, of_scores),
        margins=margin_noise(extended, variances, np.zeros(k), mix, of_scores, spectrum, rows.unit),
    )

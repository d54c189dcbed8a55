"""Which features matter: the posterior of the weights of the steps, of which many may be 0.

Nothing here reads records. Theory: docs/theory/core.md, section 6.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from skdp.algorithms.core.size import Size

#: Parts of the features that may have weights, and the chance before all that all of them have.
_PARTS, _ALL = np.geomspace(0.01, 1.0, 20), 0.95
#: Least signal over the noise, and largest square of weights over it.
_LEAST, _MOST = 1e-6, 1e9


def relevant(weights: np.ndarray, size: Size, noise: float) -> tuple[np.ndarray, Size]:
    """Return the weights times factors that leave the deviation of margins, and the size then.

    Parameters
    ----------
    weights : ndarray of shape (n_outputs, n_features)
        Those of a feature are 0, or normal; which part of the features has any is not known.
    size : Size
        Of their margins.
    noise : float
        Variance of the noise of a weight.
    """
    k, d = weights.shape
    squares = (weights**2).sum(axis=0)
    total = float(squares.sum()) / (k * d)
    if not 0.0 < total < math.inf:
        return weights, size
    least = (1.0 + _LEAST) * noise  # all that is seen may be noise
    squares, total = squares * max(1.0, least / total), max(total, least)
    parts = _PARTS[_PARTS * d >= 1.0][:, None]
    variances = noise + (total - noise) / parts
    kept = (variances - noise) / variances  # of weights that are not 0
    # logarithms of the law of such weights over that of noise, and of the mixture
    gains = 0.5 * (kept * np.minimum(squares / noise, _MOST) + k * np.log(noise / variances))
    with np.errstate(divide="ignore"):
        laws = np.logaddexp(np.log1p(-parts), np.log(parts) + gains)
    logs = laws.sum(axis=1)
    prior = np.append(np.full(len(parts) - 1, (1.0 - _ALL) / max(len(parts) - 1, 1)), _ALL)
    likely = prior * np.exp(logs - logs.max())
    chances = (likely / likely.sum())[:, None] * np.exp(np.log(parts) + gains - laws)
    factors = (chances * kept).sum(axis=0)
    signal = (chances * kept * (kept * squares + k * noise)).sum(axis=0)  # second moments
    slopes = (signal - factors**2 * squares) / (k * noise)  # by Tweedie's formula
    # parts of the signal and of its product with the true one that are left, and of the noise,
    # which is more than its mean where it looks like weights
    true = float(signal.sum())
    of_signal, crossed = factors**2 @ signal / true, factors**2 @ squares / true
    of_noise = float(factors**2 @ (squares - signal)) / (k * d * noise)
    of_noise = max(of_noise, float((factors**2).mean())) * size.noise
    ratio = size.deviation / math.sqrt(of_signal * (size.deviation**2 - size.noise) + of_noise)
    best, rest = size.size * float(crossed) * ratio, of_noise * ratio**2
    left = replace(size, size=best, noise=rest, slopes=ratio * slopes)
    return ratio * factors * weights, left

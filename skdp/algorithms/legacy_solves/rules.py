"""Rules of prepared solves for clipping, parts of the budget, and columns.

Functions of public numbers, and tuned numbers. No guarantee depends on them:
``tests/contract/test_tuned_numbers.py`` doubles and halves each. They were chosen on simulated
tables; ``benchmarks/run.py linear_families`` and ``over_constant`` show what the choices give.
"""

from __future__ import annotations

import math

from skdp.problems import Loss

#: Noise of a mean of targets that is aimed at, about; no more than a fifth of the budget is for it.
_TARGETS_NOISE = 0.05
#: Number of records of a column, times mu over what one record changes, at which half of its
#: weight is kept; their number for log odds without noise, since a model that fits so few does not
#: know their law; and deviations of its noise up to which a weight may be noise alone.
HALF_RELIABLE, HALF_SAMPLED, NOISE_DEVIATIONS = 1.5, 3.0, 2.0
#: Law of the moments of columns: points of the grid; its ends, in units of the noise and of the
#: moment where half is kept, whichever is further away; steps of the EM algorithm.
GRID, GRID_RANGE, EM_STEPS = 40, (0.1, 20.0), 100

#: Variances of the priors of the targets' variance and of their mean, in units of the squared bound
#: on them.
PRIOR_SPREAD, MEAN_SPREAD = 0.01, 0.05

#: Means: standard deviations of the count from which on it takes the place of the public number.
CONTRADICTION = 2.0
#: Weight of a label of two classes in the release: log odds need its mean more than models the
#: means of rows.
LABEL_WEIGHT = 1.5
#: Parameter of the beta prior of the share of a class (1: uniform), and its least value.
SHARE_PRIOR, LEAST_SHARE = 1.0, 0.005
#: Noise of the targets' mean, in units of the bound on them, above which targets are clipped, and
#: the least bound that they are clipped to.
TARGET_NOISE, LEAST_TARGET_CLIP = 0.06, 0.25

#: Spread of targets: bins by powers of 2 of the bound, and share of a normal law that is further
#: away than its standard deviation.
BINS, OUTSIDE_SHARE = 9, 0.32
#: Prepared rows: least part of the squared mu for the means of numeric targets.
LEAST_MEANS_SHARE = 0.03
#: Noise of a mean of numbers up to 1 from which on the spread has more than its least part; least
#: and largest part.
SPREAD_NOISE, SPREAD_SHARES = 0.02, (0.01, 0.03)
#: Parts for second moments, the noise (times features) that the first sufficient one has, and the
#: noise up to which the last but one is worth it, for numbers and for classes.
MOMENTS_SHARES, LITTLE_NOISE, WORTHY_NOISE = (0.03, 0.06, 0.12, 0.2, 0.3), 0.05, (1.0, 0.5)
#: Pure privacy: parts of epsilon for means and spread, with little noise of a mean of numbers up
#: to 1 and with more; the limit; the part for second moments, and the noise up to which it is used.
PURE_SHARES, PURE_LITTLE_NOISE = ((0.15, 0.1), (0.25, 0.2)), 0.015
PURE_MOMENTS_SHARE, PURE_MOMENTS_NOISE = 0.2, 1.5
#: Norm of the noise of the means of rows above which only those of targets are released.
PURE_MEANS_NOISE = 0.35
#: Ridge of the whitener in units of the noise of the second moments, and least second moment of a
#: whitened direction, so that noise alone makes none 0.
RIDGE, LEAST_KNOWN = 2.0, 1e-3
#: Least second moment that a penalty of the user takes a direction to have, in units of the noise.
PENALISED_MOMENT = 0.5
#: Norm of a prepared row from which on losses of log odds have smaller factors.
LONG_ROW = 1.5
#: Largest norm of a whitened row, whose mean square is about 1: longer ones are shortened.
LARGEST_NORM = 16.0
#: Least second moment of a direction over the largest one where shrinkage is undone, and that of
#: directions in which the squared weights are compared with their noise.
LEAST_MOMENT, COMPARED_MOMENT = 1.0 / 3.0, 0.5
#: Least prior variance over that of the noise: smaller ones are 0.
LEAST_PRIOR = 1e-9


def odds_clip(error: float) -> float:
    """Norm that gradients of log odds are clipped to, by the noise of a released mean of rows."""
    little = 0.05 / error  # above 1 where there is little noise
    return min(max(0.25 * min(little**0.5, little**0.37), 0.05), 1.0)


def largest_residual(loss: Loss) -> float:
    """Bound the derivative of the loss in its margins; ``inf`` without a bound."""
    return loss.lipschitz(1.0, math.inf)


def centering_share(loss: Loss, error: float, noise: float) -> tuple[float, bool]:
    """Part of the squared mu for the means of targets, and whether those of rows are released, too.

    Parameters
    ----------
    loss : Loss
    error : float
        Noise of a released mean of rows, relative to their norm.
    noise : float
        Noise of a mean of numbers up to 1.
    """
    if error <= 0.45:
        share = min(max((error / (0.2 if loss.target_bound else 0.3)) ** 2, 0.01), 0.25)
        if loss.target_bound or loss.has_odds:  # few features: the means of targets decide
            share = max(share, min((noise / _TARGETS_NOISE) ** 2, 0.2))
        return share, True
    # numbers are clipped where their mean would be noise
    limit = 0.2 if loss.target_bound else 0.15 if loss.has_odds else 0.0
    return (0.15 if noise <= limit else 0.0), False


def temperature_share(loss: Loss, noise: float) -> float:
    """Part of the squared mu for the temperature, by the noise of a mean of numbers up to 1."""
    if loss.has_odds and noise <= 0.002:
        return 0.03
    if loss.link == "logit" and noise <= 0.02:
        return 0.05
    return 0.0

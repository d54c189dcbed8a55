"""Rules of prepared solves for clipping, parts of the budget, and columns.

Functions of public numbers, and tuned numbers. No guarantee depends on them:
``tests/contract/test_tuned_numbers.py`` doubles and halves each.
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

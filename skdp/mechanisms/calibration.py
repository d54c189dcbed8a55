"""Noise per unit of sensitivity, exact and as published for comparison, and the range of a draw."""

from __future__ import annotations

import math
from typing import Literal, get_args

from skdp._checks import check_option, check_positive, check_real
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.gaussian_dp import gaussian_mu, pure_epsilon

#: Smallest epsilon of a draw.
_LEAST_EPSILON = 1e-50

Calibration = Literal["analytic", "zwb", "classical"]


def gaussian_noise_multiplier(
    epsilon: float, delta: float, calibration: Calibration = "analytic"
) -> float:
    """Return the standard deviation per unit of sensitivity that makes a Gaussian release private.

    Parameters
    ----------
    epsilon, delta : float
        > 0, and in (0, 1).
    calibration : {"analytic", "zwb", "classical"}, default="analytic"
        - "analytic": the smallest possible, for every epsilon and delta (Balle and Wang
          2018, Theorem 8).
        - "zwb": ``(c + sqrt(c^2 + epsilon)) / (sqrt(2) epsilon)`` with
          ``c = sqrt(log(2 / (sqrt(16 delta + 1) - 1)))`` (Zhao et al. 2019, as used by Lowy
          and Razaviyayn 2021); needs delta < 1/2.
        - "classical": ``sqrt(2 log(1.25 / delta)) / epsilon`` (Dwork and Roth 2014); needs
          epsilon < 1, and is too small above (docs/theory/errata.md).

    Raises
    ------
    ValueError
        Where the chosen calibration has no proof.

    Examples
    --------
    >>> from skdp.mechanisms import gaussian_noise_multiplier
    >>> round(gaussian_noise_multiplier(1.0, 1e-6), 2)
    4.22
    """
    check_positive(epsilon=epsilon)
    check_real("delta", delta, 0.0, 1.0, closed="neither")
    check_option("calibration", calibration, get_args(Calibration))
    multiplier = _multiplier(float(epsilon), float(delta), calibration)
    if not 0.0 < multiplier < math.inf:
        raise ValueError(f"epsilon == {epsilon!r}, delta == {delta!r}: the noise overflows.")
    return multiplier


def _multiplier(epsilon: float, delta: float, calibration: Calibration) -> float:
    if calibration == "analytic":
        mu = gaussian_mu(epsilon, delta)
        return 1.0 / mu if mu else math.inf
    if calibration == "zwb":
        if not delta < 0.5:
            raise ValueError(f"delta == {delta}: the published calibration needs delta < 1/2.")
        # 2 / (sqrt(1 + 16 d) - 1) without its cancellation
        log = math.log(math.sqrt(16.0 * delta + 1.0) + 1.0) - math.log(8.0) - math.log(delta)
        root = math.sqrt(log)
        return (root + math.sqrt(log + epsilon)) / math.sqrt(2.0) / epsilon
    if not epsilon < 1:
        raise ValueError(f"epsilon == {epsilon}: the classical calibration needs epsilon < 1.")
    return math.sqrt(2.0 * (math.log(1.25) - math.log(delta))) / epsilon


def draw_epsilon(budget: PrivacyBudget, share: float) -> float:
    """Return the parameter of a draw that spends a share of the budget.

    For ``delta == 0`` that share of epsilon. Otherwise a draw of range epsilon has the
    Gaussian-DP parameter of a pure ``epsilon / 2`` release (docs/theory/accounting.md, section 3),
    whose square is to be the share of that of the budget.
    """
    check_real("share", share, 0.0, 1.0, closed="right")
    if budget.is_pure:
        epsilon = float(share) * budget.epsilon
    else:
        mu = math.sqrt(share) / gaussian_noise_multiplier(budget.epsilon, budget.delta)
        epsilon = 2.0 * pure_epsilon(mu)
    if not epsilon >= _LEAST_EPSILON:
        raise ValueError(f"{budget} is too small for a draw.")
    return epsilon

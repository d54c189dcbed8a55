"""The exact trade-off of the Gaussian mechanism.

A release is *mu-Gaussian-DP* when telling two neighbouring data sets apart from it is at least as
hard as telling N(0, 1) from N(mu, 1). Adding Gaussian noise of standard deviation
``sigma * sensitivity`` gives exactly ``mu = 1 / sigma``, and mu-Gaussian-DP is the same statement
as (epsilon, delta(epsilon))-DP for every epsilon >= 0 with

    delta(epsilon) = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu).          (1)

This module evaluates (1) and inverts it in both of its arguments. Every answer errs on the private
side: a delta or an epsilon is rounded up, a mu is rounded down. NaN and arguments out of range
raise a ValueError.

How (1) is computed. With ``x = epsilon/mu - mu/2``, ``phi`` the normal density and
``R(u) = Phi(-u) / phi(u)`` Mills' ratio, (1) is ``phi(x) (R(x) - R(x + mu))``, because
``e^epsilon phi(x + mu) = phi(x)``. Where ``R(x + mu) <= R(x) / 2`` nothing cancels and (1) is taken
as it stands, in logarithms. Elsewhere ``R' (u) = u R(u) - 1`` turns the difference into the
integral of the positive, smooth function ``1 - u R(u)`` over ``[x, x + mu]``, an interval short
enough there for a fixed Gauss-Legendre rule to be exact to rounding.

References
----------
.. [1] B. Balle, Y.-X. Wang, "Improving the Gaussian mechanism for differential privacy:
   analytical calibration and optimal denoising", ICML 2018, Theorem 8.
.. [2] J. Dong, A. Roth, W. J. Su, "Gaussian differential privacy", JRSS B 84(1), 2022,
   Corollary 2.13 (equation (1)).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import erf, erfcx, erfinv, log_expit, log_ndtr, ndtri_exp

from skdp._checks import check_non_negative, check_positive, check_real
from skdp.privacy.budget import PrivacyBudget

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(32)
_MAX_DISTANCE = 40.0  # phi(40) is below the smallest double
_MU_SLACK = 1e-9  # ten times the slack of epsilon, so that converting there and back stays below
_EPSILON_SLACK = 1e-10
_LARGE_MU = 1e6  # e^epsilon loses too many digits beyond
_SMALL_MU = 1e-290  # its products with 1e-15 are normal numbers


def _log_delta(epsilon: float, mu: float) -> float:
    """Logarithm of (1) for mu in (0, 1e6], as accurate as ``_log_delta_bound`` allows for."""
    x = epsilon / mu - mu / 2.0
    if x > _MAX_DISTANCE:
        return -math.inf
    log_first = float(log_ndtr(-x))
    log_ratio = epsilon + float(log_ndtr(-x - mu)) - log_first
    if log_ratio < -math.log(2.0):
        return log_first + math.log1p(-math.exp(log_ratio))
    nodes = x + 0.5 * mu * (_NODES + 1.0)
    mills = math.sqrt(0.5 * math.pi) * erfcx(nodes / math.sqrt(2.0))
    mean = 0.5 * float(_WEIGHTS @ (1.0 - nodes * mills))
    return math.log(mu) + math.log(mean) - 0.5 * x * x - 0.5 * math.log(2.0 * math.pi)


def _log_delta_bound(epsilon: float, mu: float) -> float:
    """Bound the logarithm of (1) from above: the computed value plus its rounding error.

    The error is relative in delta where delta is small and relative in 1 - delta where that is
    small; it grows with epsilon because e^epsilon does (tests: 60-digit arithmetic). Where mu is so
    large that this is too much, the second term of (1), at most 1e-4 of the first one, is left out,
    and x is lowered by more than its rounding error.
    """
    if mu > _LARGE_MU:
        x = (1.0 - 1e-15) * (epsilon / mu) - mu / 2.0
        return (1.0 - 1e-11) * float(log_ndtr(-x))
    log_delta = _log_delta(epsilon, mu)
    return log_delta + (1e-11 + 1e-15 * epsilon) * min(1.0, -log_delta)


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Return the smallest delta for which mu-Gaussian-DP is (epsilon, delta)-DP: equation (1).

    Epsilon >= 0 is in nats; mu >= 0, sensitivity over standard deviation, is infinite for a release
    that hides nothing. Delta is rounded up by a relative 1e-11 (more for epsilon above 1e4), and
    positive whenever ``mu > 0``, even where the exact value is below the smallest double.
    """
    check_real("epsilon", epsilon, 0.0)
    check_real("mu", mu, 0.0)
    if mu == 0.0 or epsilon == math.inf:
        return 0.0
    return math.nextafter(math.exp(_log_delta_bound(epsilon, mu)), 1.0)


@lru_cache(maxsize=4096)
def gaussian_epsilon(delta: float, mu: float) -> float:
    """Return the smallest epsilon for which mu-Gaussian-DP is (epsilon, delta)-DP, in nats.

    Delta is in [0, 1], mu >= 0. Epsilon is rounded up, so ``gaussian_delta(epsilon, mu) <= delta``;
    infinite for ``delta = 0`` and ``mu > 0``: no Gaussian release is purely private.
    """
    check_real("delta", delta, 0.0, 1.0)
    check_real("mu", mu, 0.0)
    if mu == 0.0 or gaussian_delta(0.0, mu) <= delta:
        return 0.0
    mu = max(mu, _SMALL_MU)  # valid: a larger mu costs more
    if delta == 0.0:
        return math.inf
    # delta(epsilon) <= Phi(-x) < e^{-x^2/2}, so x = sqrt(2 log(1/delta)) and one more is enough.
    log_target = math.log(delta)
    upper = mu * (0.5 * mu + math.sqrt(-2.0 * log_target) + 1.0)
    if upper == math.inf:
        return math.inf
    root = _solve(lambda epsilon: _log_delta_bound(epsilon, mu) - log_target, 0.0, upper)
    return _verified(
        max(root, 1e-12 * mu),
        1.0 + _EPSILON_SLACK,
        lambda epsilon: gaussian_delta(epsilon, mu) <= delta,
    )


@lru_cache(maxsize=4096)
def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the largest mu for which mu-Gaussian-DP implies (epsilon, delta)-DP.

    ``sensitivity / gaussian_mu(epsilon, delta)`` is the smallest standard deviation with which a
    single Gaussian release is (epsilon, delta)-DP (Balle and Wang 2018, Theorem 8). Epsilon is
    finite and > 0, in nats, delta in (0, 1); mu is rounded down by a relative 1e-9, so
    ``gaussian_delta(epsilon, mu) <= delta``.
    """
    check_positive(epsilon=epsilon)
    check_real("delta", delta, 0.0, 1.0, closed="neither")
    log_target = math.log(delta)
    # Below: mu = 2 delta has delta(epsilon) <= 2 Phi(mu/2) - 1 <= mu / sqrt(2 pi) < delta.
    # Above: at x = -10 all but 1e-23 of the first term of (1) is left, and at most
    # e^epsilon Phi(-mu/2 - epsilon/mu) <= Phi(-10) is taken away.
    lower = math.log(2.0 * delta)
    upper = math.log(10.0 + math.sqrt(2.0) * math.sqrt(50.0 + epsilon))
    root = _solve(
        lambda log_mu: _log_delta_bound(epsilon, math.exp(log_mu)) - log_target, lower, upper
    )
    return _verified(
        math.exp(root), 1.0 - _MU_SLACK, lambda mu: gaussian_delta(epsilon, mu) <= delta
    )


def pure_mu(epsilon: float) -> float:
    """Compute the Gaussian DP parameter of a pure epsilon-DP release, rounded up.

    Every epsilon-DP release is mu-Gaussian-DP with ``mu = -2 Phi^{-1}(1 / (1 + e^epsilon))``, and
    no smaller mu holds for all of them (``docs/theory/accounting.md``, section 2). Epsilon is
    finite and >= 0; mu is rounded by a relative 1e-9.
    """
    check_non_negative(epsilon=epsilon)
    if epsilon <= 1e-8:  # its limit, from above: the next term is negative
        mu = math.sqrt(0.5 * math.pi) * epsilon
    elif epsilon <= 1.0:  # the same number: 2 Phi(mu/2) - 1 = tanh(epsilon/2)
        mu = 2.0 * math.sqrt(2.0) * float(erfinv(math.tanh(0.5 * epsilon)))
    else:
        mu = -2.0 * float(ndtri_exp(log_expit(-epsilon)))
    return math.nextafter(mu * (1.0 + _MU_SLACK), math.inf) if mu > 0.0 else 0.0


def pure_epsilon(mu: float) -> float:
    """Invert :func:`pure_mu` for mu >= 0: ``log(Phi(mu/2) / Phi(-mu/2))``.

    Rounded down by a relative 1e-8, so ``pure_mu(epsilon) <= mu``.
    """
    check_real("mu", mu, 0.0)
    if mu <= 1.0:  # the same number, without a difference
        epsilon = 2.0 * math.atanh(float(erf(mu / (2.0 * math.sqrt(2.0)))))
    else:
        epsilon = float(log_ndtr(0.5 * mu) - log_ndtr(-0.5 * mu))
    return epsilon * (1.0 - 10.0 * _MU_SLACK)


def _solve(function: Callable[[float], float], lower: float, upper: float) -> float:
    """Find the root of a monotone function (or the end of the bracket nearest to it)."""

    def finite(point: float) -> float:
        return max(function(point), -1e6)

    if finite(lower) * finite(upper) >= 0.0:
        return lower if abs(finite(lower)) < abs(finite(upper)) else upper
    width = abs(lower) + abs(upper)
    return float(brentq(finite, lower, upper, xtol=1e-15 * width, rtol=8.9e-16, maxiter=1000))


def _verified(value: float, factor: float, accept: Callable[[float], bool]) -> float:
    """Move ``value`` by ``factor``, and further while it is not on the private side."""
    for _ in range(60):
        value *= factor
        if accept(value):
            return value
        factor *= factor
    raise ArithmeticError("the trade-off could not be inverted to double precision.")


def gaussian_budget(mu: float, delta: float) -> PrivacyBudget:
    """Return a budget at `delta`, or less, whose Gaussian noise is that of mu."""
    epsilon = gaussian_epsilon(delta, mu * (1.0 - 1e-8))
    if epsilon == 0.0:  # so little noise is needed that delta alone covers it
        epsilon = mu
        delta = gaussian_delta(epsilon, mu * (1.0 - 1e-8))
    while gaussian_mu(epsilon, delta) > mu:
        epsilon *= 1.0 - 1e-9
    return PrivacyBudget(epsilon, delta)

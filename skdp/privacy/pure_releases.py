"""The exact trade-off of Gaussian and pure releases together.

Randomised response with parameter epsilon is the hardest epsilon-DP release to tell apart, and a
composition is no harder than that of the hardest ones (docs/theory/accounting.md, section 5). Its
privacy loss is epsilon with probability ``1 / (1 + e^-epsilon)`` and -epsilon otherwise, so with
the sum S of the losses of all pure releases and mu of the Gaussian ones

    delta(epsilon) = E delta_mu(epsilon - S),

delta_mu being the function of :mod:`skdp.privacy.gaussian_dp`, continued to negative arguments.

Rounding. Two slacks below cover the rounding of the chances and of S. That of ``epsilon - S`` is
relative to epsilon, and exceeds them for mu above 100 only; there it is covered by the
``1e-15 * epsilon`` that `_log_delta_bound` of that module adds for its own rounding, and of which
little is used.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

import numpy as np
from scipy.stats import binom

from skdp.privacy.gaussian_dp import gaussian_delta

#: Number of values of S, largest S and least delta with which anything is computed.
_MAX_LOSSES, _MAX_TOTAL, _LEAST_DELTA = 400, 1e6, 1e-100
#: Relative slack of delta, and slack of epsilon per unit of the losses.
_DELTA_SLACK, _LOSS_SLACK = 1e-10, 1e-12


def mixed_epsilon(
    mu: float, pure: Iterable[tuple[float, int]], delta: float, bound: float
) -> float:
    """Return the smallest epsilon of Gaussian and pure releases for a delta in (0, 1).

    mu is that of all Gaussian releases together, `pure` has epsilon and number of the pure ones,
    and the search starts at `bound`, a valid epsilon. Rounded up; inf where it would not be below
    `bound`, or where pure releases have too many different sums.
    """
    groups = [(float(epsilon), count) for epsilon, count in pure if epsilon > 0 and count]
    total = sum((Fraction(epsilon) * count for epsilon, count in groups), Fraction(0))
    too_many = math.prod(count + 1 for _, count in groups) > _MAX_LOSSES
    if too_many or bound == math.inf or total > _MAX_TOTAL or delta < _LEAST_DELTA:
        return math.inf
    losses, chances = np.zeros(1), np.ones(1)
    for epsilon, count in groups:
        heads = np.arange(count + 1)
        likely = binom.pmf(heads, count, 1.0 / (1.0 + math.exp(-epsilon)))
        losses = (losses[:, None] + epsilon * (2.0 * heads - count)).ravel()
        chances = (chances[:, None] * likely).ravel()
    slack = _LOSS_SLACK * (1.0 + float(total))

    def fits(epsilon: float) -> bool:
        terms = (_delta(epsilon - loss, mu) for loss in losses)
        found = math.fsum(chance * term for chance, term in zip(chances, terms, strict=True))
        return found * (1.0 + _DELTA_SLACK) <= delta

    if not fits(bound - slack):
        return math.inf
    if fits(0.0):
        return 0.0
    low, high = 0.0, bound - slack
    while high - low > 1e-9 * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high + slack


def _delta(epsilon: float, mu: float) -> float:
    """Return the delta of mu-Gaussian-DP for an epsilon of either sign, rounded up."""
    if epsilon >= 0.0:
        return gaussian_delta(epsilon, mu)
    # 1 - e^epsilon (1 - delta(-epsilon)), by symmetry of the two laws
    return -math.expm1(epsilon) + math.exp(epsilon) * gaussian_delta(-epsilon, mu)

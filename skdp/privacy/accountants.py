"""Accountants: the (epsilon, delta) of events.

Each accountant measures a release by a number that adds up under adaptive composition, and converts
the total. Every answer is an upper bound on the privacy loss, under the neighbouring relation of
the events. Totals are exact rational numbers, rounded up once, at the end. Proofs, and the sections
that are referred to: ``docs/theory/accounting.md``. To add an accountant, implement `_cost`,
`_epsilon` and `_delta`.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from skdp._checks import check_real
from skdp.privacy.events import (
    ExponentialMechanismEvent,
    GaussianEvent,
    Neighbouring,
    PrivacyEvent,
    PureEvent,
    common_relation,
    flatten_event,
)
from skdp.privacy.gaussian_dp import gaussian_delta, gaussian_epsilon, pure_mu
from skdp.privacy.rounding import ceil_float, ceil_reciprocal, ceil_sqrt

_Curve = Callable[[NDArray[np.float64]], NDArray[np.float64]]
#: Events of pure releases.
PURE = (PureEvent, ExponentialMechanismEvent)


class UnsupportedEventError(ValueError):
    """No proof known to the accountant covers the event."""


class PrivacyAccountant(abc.ABC):
    """Total privacy loss of a sequence of events.

    Parameters
    ----------
    neighbouring : Neighbouring or str, optional
        The relation that all events must have. Default: that of the first one.
    """

    def __init__(self, neighbouring: Neighbouring | str | None = None) -> None:
        self._neighbouring = common_relation([], neighbouring)
        self._total = Fraction(0)

    @property
    def neighbouring(self) -> Neighbouring | None:
        """The relation under which the total holds; None as long as nothing has named one."""
        return self._neighbouring

    @property
    def total(self) -> float:
        """The sum of what adds, rounded up; the same in whichever order the events came."""
        return ceil_float(self._total)

    def supports(self, event: PrivacyEvent) -> bool:
        """Return whether a proof covers every single release in `event`."""
        return all(self._cost(leaf) is not None for leaf, _ in flatten_event(event))

    def compose(self, event: PrivacyEvent, count: int = 1) -> PrivacyAccountant:
        """Add an event that happens `count` >= 0 times to the total, and return the accountant.

        Raises
        ------
        UnsupportedEventError
            If no proof covers a part of the event; the total is then unchanged.
        ValueError
            If the event has another relation than those before; the total is then unchanged.
        """
        relation = common_relation([event], self._neighbouring)
        total = self._total
        for leaf, times in flatten_event(event, count):
            cost = self._cost(leaf)
            if cost is None:
                raise UnsupportedEventError(f"{type(self).__name__} has no bound for {leaf!r}.")
            total += times * cost
        self._neighbouring, self._total = relation, total
        return self

    def get_epsilon(self, delta: float) -> float:
        """Smallest epsilon known for a delta in [0, 1]; nats, infinite where there is none."""
        check_real("delta", delta, 0.0, 1.0)
        return self._epsilon(self._total, float(delta)) if self._total > 0 and delta < 1.0 else 0.0

    def get_delta(self, epsilon: float) -> float:
        """Return the smallest delta known for an epsilon >= 0 in nats; a probability."""
        check_real("epsilon", epsilon, 0.0)
        return self._delta(self._total, float(epsilon)) if self._total > 0 else 0.0

    @abc.abstractmethod
    def _cost(self, leaf: PrivacyEvent) -> Fraction | None:
        """Compute the addend of a single release, rounded up; None where no proof covers it."""

    @abc.abstractmethod
    def _epsilon(self, total: Fraction, delta: float) -> float:
        """Convert a positive total, for delta in [0, 1)."""

    @abc.abstractmethod
    def _delta(self, total: Fraction, epsilon: float) -> float:
        """Convert a positive total."""


class GaussianDPAccountant(PrivacyAccountant):
    """Gaussian differential privacy: mu^2 adds.

    Exact for any composition of Gaussian releases, an upper bound for the others.

    - Gaussian: ``mu = 1 / noise_multiplier``, and composition adds mu^2 (Dong, Roth and Su 2022,
      Theorem 2.7 and Corollary 3.3).
    - Pure: ``mu = -2 Phi^{-1}(1 / (1 + e^epsilon))`` (section 2).
    - Exponential mechanism: the same at ``epsilon / 2`` (section 3).
    - Sampling is refused: a sampled Gaussian is no better than an unsampled one in this measure.

    Parameters
    ----------
    neighbouring : Neighbouring or str, default=None
        The relation of all events. None: that of the first one.

    Examples
    --------
    >>> from skdp.privacy import GaussianDPAccountant, GaussianEvent
    >>> accountant = GaussianDPAccountant()
    >>> _ = accountant.compose(GaussianEvent(4.0, "replace_one"), 4)
    >>> round(accountant.get_epsilon(1e-6), 2)
    2.25
    """

    @property
    def mu(self) -> float:
        """Parameter of the composition: the square root of the total, rounded up."""
        return ceil_sqrt(self._total)

    def _cost(self, leaf: PrivacyEvent) -> Fraction | None:
        if isinstance(leaf, GaussianEvent):
            return ceil_reciprocal(leaf.noise_multiplier) ** 2
        if isinstance(leaf, PureEvent):
            return Fraction(pure_mu(leaf.epsilon)) ** 2
        if isinstance(leaf, ExponentialMechanismEvent):
            return Fraction(pure_mu(ceil_float(Fraction(leaf.epsilon) / 2))) ** 2
        return None

    def _epsilon(self, total: Fraction, delta: float) -> float:
        return gaussian_epsilon(delta, ceil_sqrt(total))

    def _delta(self, total: Fraction, epsilon: float) -> float:
        return gaussian_delta(epsilon, ceil_sqrt(total))


class ZCDPAccountant(PrivacyAccountant):
    """Zero-concentrated differential privacy: rho adds.

    Tighter than Gaussian DP for many exponential mechanisms, looser for Gaussians.

    - Gaussian: ``rho = 1 / (2 noise_multiplier^2)`` (Bun and Steinke 2016, Proposition 1.6).
    - Pure: ``rho = epsilon^2 / 2`` (Bun and Steinke 2016, Proposition 1.4; section 4).
    - Exponential mechanism: ``rho = epsilon^2 / 8`` (Cesar and Rogers 2021; section 4).
    - Conversion: Canonne, Kamath and Steinke 2020, Proposition 12 and Corollary 13, which hold at
      every Renyi order above 1, so also at the one that is found numerically.
    - Sampling is refused: zCDP is not amplified by it.

    Parameters
    ----------
    neighbouring : Neighbouring or str, default=None
        The relation of all events. None: that of the first one.

    Examples
    --------
    >>> from skdp.privacy import GaussianEvent, ZCDPAccountant
    >>> accountant = ZCDPAccountant()
    >>> _ = accountant.compose(GaussianEvent(4.0, "replace_one"), 4)
    >>> round(accountant.get_epsilon(1e-6), 2)
    2.42
    """

    def _cost(self, leaf: PrivacyEvent) -> Fraction | None:
        if isinstance(leaf, GaussianEvent):
            return ceil_reciprocal(leaf.noise_multiplier) ** 2 / 2
        if isinstance(leaf, PureEvent):
            return Fraction(leaf.epsilon) ** 2 / 2
        if isinstance(leaf, ExponentialMechanismEvent):
            return Fraction(leaf.epsilon) ** 2 / 8
        return None

    def _epsilon(self, total: Fraction, delta: float) -> float:
        rho = ceil_float(total)
        if delta == 0.0 or rho == math.inf:
            return math.inf
        if self._delta(total, 0.0) <= delta:
            return 0.0
        budget = 1e-11 - math.log(delta)  # ten times the slack of _delta
        epsilon = _minimise_over_orders(
            lambda t: (1.0 + t) * rho + (budget - np.log1p(t)) / t - np.log1p(1.0 / t)
        )
        return max(epsilon, 0.0) * (1.0 + 1e-10)

    def _delta(self, total: Fraction, epsilon: float) -> float:
        rho = ceil_float(total)
        if rho == math.inf or epsilon == math.inf:
            return 0.0 if epsilon == math.inf else 1.0
        log_delta = _minimise_over_orders(
            lambda t: t * ((1.0 + t) * rho - epsilon) - np.log1p(t) - t * np.log1p(1.0 / t)
        )
        return math.nextafter(math.exp(min(0.0, log_delta + 1e-12)), 1.0)


class PureAccountant(PrivacyAccountant):
    """Pure differential privacy: epsilon adds, and delta = 0 is allowed.

    - Pure, exponential mechanism: epsilon (Dwork and Roth 2014, Theorem 3.16).
    - Conversion: an E-DP release is (epsilon, delta)-DP with
      ``delta = (e^E - e^epsilon) / (e^E + 1)`` for every epsilon <= E (Kairouz, Oh and
      Viswanath 2015, Theorem 3.3 for one release; section 5).
    - Gaussians are refused: they have no pure guarantee. So is sampling.

    Parameters
    ----------
    neighbouring : Neighbouring or str, default=None
        The relation of all events. None: that of the first one.

    Examples
    --------
    >>> from skdp.privacy import PureAccountant, PureEvent
    >>> accountant = PureAccountant()
    >>> _ = accountant.compose(PureEvent(0.5, "replace_one"), 4)
    >>> accountant.get_epsilon(0.0)
    2.0
    """

    def _cost(self, leaf: PrivacyEvent) -> Fraction | None:
        return Fraction(leaf.epsilon) if isinstance(leaf, PURE) else None

    def _epsilon(self, total: Fraction, delta: float) -> float:
        full = ceil_float(total)
        lost = (1.0 - 1e-15) * delta * (1.0 + math.exp(-full))
        if lost >= 1.0 or delta == 0.0:
            return full if delta == 0.0 else 0.0
        return min(full, max(0.0, full + math.log1p(-lost)) + 4.0 * math.ulp(full))

    def _delta(self, total: Fraction, epsilon: float) -> float:
        full = ceil_float(total)
        if epsilon >= full:
            return 0.0
        delta = -math.expm1(epsilon - full) / (1.0 + math.exp(-full))
        return min(1.0, math.nextafter(delta * (1.0 + 1e-15), math.inf))


def _minimise_over_orders(function: _Curve) -> float:
    """Least value found of a function of ``order - 1 > 0``, on ever finer grids in logarithms."""
    center, width = 5.0, 35.0
    for _ in range(5):
        grid = center + width * np.linspace(-1.0, 1.0, 401)
        with np.errstate(over="ignore"):
            values = function(np.exp(grid))
        center, width = float(grid[np.argmin(values)]), width / 50.0
    return float(values.min())

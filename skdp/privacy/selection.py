"""Private selection: the price of the best of a secret, random number of draws.

A draw is the outcome of a private algorithm that ends with a noisy score, such as a model and its
score on held-out records. If the number of draws were fixed, its price would be that of all draws.
If it is random and stays secret, the best draw alone costs little more than one draw, however large
the number is (Liu and Talwar 2019; Papernot and Steinke 2022). The price here is that of
``docs/theory/accounting.md``, section 11: it follows from the whole trade-off between delta and
epsilon of one draw, and is below those of both papers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from scipy.optimize import brentq

from skdp._checks import check_non_negative, check_option, check_positive, check_real
from skdp.privacy.gaussian_dp import gaussian_delta, gaussian_epsilon

DrawsName = Literal["logarithmic", "geometric", "poisson"]
#: Delta of one draw as a function of epsilon >= 0, from above.
Profile = Callable[[float], float]
#: A number of draws above which nothing is left of a law: its chance is below 1e-19.
_TAIL = 44.0


@dataclass(frozen=True, kw_only=True)
class DrawsLaw:
    """Law of a random number of draws K >= 1."""

    #: Expected number of draws, in (1, 500].
    mean: float
    #: "logarithmic": cheapest, and one draw alone is rather likely. "geometric": in between.
    #: "poisson": close to its mean, conditioned on K >= 1; the dearest.
    name: DrawsName = "poisson"

    def __post_init__(self) -> None:
        check_option("name", self.name, get_args(DrawsName))
        check_real("mean", self.mean, 1.0, 500.0, closed="right")

    @cached_property
    def parameter(self) -> float:
        """``gamma`` in (0, 1) of the first two laws, ``lambda`` > 0 of Poisson's."""
        if self.name == "geometric":
            return 1.0 / self.mean
        if self.name == "poisson":
            return _root(lambda rate: -rate / math.expm1(-rate) - self.mean, 1e-9, self.mean + 1.0)
        return math.exp(
            _root(lambda log: math.expm1(-log) / -log - self.mean, -math.log(1e9), -1e-9)
        )

    @cached_property
    def chances(self) -> np.ndarray:
        """Probabilities of 1, 2, ... draws, as long as they matter."""
        if self.name == "poisson":
            rate = self.parameter
            k = np.arange(1, int(rate + 12.0 * math.sqrt(rate) + 60.0))
            logs = k * math.log(rate) - np.cumsum(np.log(k)) - rate - np.log(-np.expm1(-rate))
        else:
            k = np.arange(1, int(_TAIL / -math.log1p(-self.parameter)) + 3)
            logs = (k - 1) * math.log1p(-self.parameter) + math.log(self.parameter)
            if self.name == "logarithmic":
                logs = logs - np.log(k) + math.log1p(-self.parameter)
                logs -= math.log(self.parameter) + math.log(-math.log(self.parameter))
        return np.asarray(np.exp(logs))

    def number(self, happens: Callable[[float], bool]) -> int:
        """Draw a number of draws from independent events of given probabilities."""
        chances = self.chances
        at_least = np.cumsum(chances[::-1])[::-1]  # the small ones first: accurate in the tail
        for k, chance in enumerate(chances[:-1] / at_least[:-1], start=1):
            if happens(float(min(chance, 1.0))):
                return k
        return len(chances)

    def log_ratio(self, profile: Profile) -> float:
        """Bound how much likelier it is under a neighbour that a draw of any rank is the best one.

        The statement allows any ``loss``; the least bound is where both terms agree.
        """
        if self.name == "poisson":
            bound = self.parameter * profile(0.0)
        else:
            odds = (1.0 - self.parameter) / self.parameter
            low, high = 0.0, 1.0
            while math.expm1(high) < odds * profile(high):
                high *= 2.0
            for _ in range(60):
                loss = 0.5 * (low + high)
                low, high = (loss, high) if math.expm1(loss) < odds * profile(loss) else (low, loss)
            power = 2.0 if self.name == "geometric" else 1.0
            bound = power * max(high, math.log1p(odds * profile(high)))
        # rounding of the chances, and of those of the events that they are drawn from
        return bound * (1.0 + 1e-12) + 5e-11 + 1e-14 * len(self.chances)


def selection_epsilon(delta: float, mu: float, law: DrawsLaw) -> float:
    """Compute the epsilon of the best of a random number of mu-Gaussian-DP draws, rounded up.

    mu is that of one draw with its score.
    """
    check_real("delta", delta, 0.0, 1.0, closed="neither")
    check_positive(mu=mu)
    ratio = law.log_ratio(lambda epsilon: gaussian_delta(epsilon, mu))
    return ratio + gaussian_epsilon(delta / law.mean * (1.0 - 1e-9), mu)


def selection_pure_epsilon(epsilon: float, law: DrawsLaw) -> float:
    """Compute the epsilon at ``delta = 0`` of the best of a random number of epsilon-DP draws."""
    check_non_negative(epsilon=epsilon)
    if epsilon == 0.0:
        return 0.0

    def profile(loss: float) -> float:
        if loss >= epsilon:
            return 0.0
        return -math.expm1(loss - epsilon) / (1.0 + math.exp(-epsilon)) * (1.0 + 1e-12)

    return law.log_ratio(profile) + epsilon


def selection_mu(epsilon: float, delta: float, law: DrawsLaw) -> float:
    """Return the largest mu of a draw with which the best of them is (epsilon, delta)-DP."""
    return _largest(lambda mu: selection_epsilon(delta, mu, law), epsilon, "mu")


def selection_draw_epsilon(epsilon: float, law: DrawsLaw) -> float:
    """Return the largest epsilon of a pure draw with which the best of them is epsilon-DP."""
    return _largest(lambda draw: selection_pure_epsilon(draw, law), epsilon, "epsilon of a draw")


def _largest(price: Callable[[float], float], budget: float, name: str) -> float:
    """Find the largest argument whose price is within a budget; prices increase."""
    check_positive(epsilon=budget)
    low, high = math.log(1e-9), math.log(10.0 * (budget + 10.0))
    if price(math.exp(low)) > budget:
        raise ValueError(f"epsilon == {budget:g} is too small for a selection: its {name} is 0.")
    while high - low > 1e-10:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if price(math.exp(middle)) <= budget else (low, middle)
    return math.exp(low)


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    return float(brentq(function, low, high, xtol=1e-15, rtol=8.9e-16))

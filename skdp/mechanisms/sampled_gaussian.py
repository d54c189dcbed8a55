"""Sums over Poisson samples with Gaussian noise: mechanism, calibration, samples.

A step publishes ``sum of v_i over a random batch + noise``: v_i has a bounded norm, and records
join the batch independently. Cost of sampling: ``docs/theory/accounting.md``, sections 6 and 7.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
from scipy.optimize import brentq

from skdp._checks import check_count, check_real
from skdp.mechanisms.additive import GaussianMechanism
from skdp.mechanisms.calibration import gaussian_noise_multiplier
from skdp.mechanisms.noise_source import NoiseSource
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.composition import import_convolution, tightest_epsilon
from skdp.privacy.events import (
    GaussianEvent,
    Neighbouring,
    PoissonSampledSumEvent,
    PrivacyEvent,
    RepeatedEvent,
    flatten_event,
)

#: Relative precision of the calibration.
_PRECISION = 1e-3


@dataclass(frozen=True)
class SampledGaussianMechanism(GaussianMechanism):
    """Gaussian noise for each of several sums over Poisson samples.

    Parameters
    ----------
    sensitivity, noise_multiplier : float
        Of one sum. Under replace-one neighbours the sensitivity is twice what a record adds.
    sampling_rate : float
        Probability with which a record is in a sum, in (0, 1]; 1 stands for no sampling.
    n_steps : int
        Number of sums.
    """

    sampling_rate: float
    n_steps: int

    @classmethod
    def calibrated(
        cls,
        budget: PrivacyBudget | None,
        noise_multiplier: float | None,
        neighbouring: Neighbouring,
        *,
        sensitivity: float,
        sampling_rate: float,
        n_steps: int,
    ) -> SampledGaussianMechanism:
        """Take the given noise, or the least that keeps all steps within a budget.

        The least noise is exact without sampling, else to a relative 1e-3. Exactly one of `budget`,
        with delta > 0, and `noise_multiplier` must be given.

        Raises
        ------
        ImportError
            With sampling, if dp-accounting is missing or older than 0.5.
        TypeError, ValueError
            For invalid parameters, or if the budget allows a run without noise.
        """
        check_real("sampling_rate", sampling_rate, 0.0, 1.0, closed="right")
        check_count("n_steps", n_steps)
        if (budget is None) == (noise_multiplier is None):
            raise ValueError("Exactly one of budget and noise_multiplier must be given.")
        schedule = float(sampling_rate), int(n_steps)
        if noise_multiplier is not None:
            check_real("noise_multiplier", noise_multiplier, 1e-50, 1e50)
        elif not isinstance(budget, PrivacyBudget):
            raise TypeError(f"budget must be a PrivacyBudget, got {budget!r}.")
        elif budget.is_pure:
            raise ValueError("delta == 0: Gaussian noise needs delta > 0.")
        else:
            noise_multiplier = _multiplier(budget, neighbouring, schedule)
        return cls(sensitivity, float(noise_multiplier), *schedule)

    def event(self, neighbouring: Neighbouring) -> PrivacyEvent:
        """Return the cost of all steps, if the sensitivity is that under `neighbouring`."""
        full, rate = GaussianEvent(self.noise_multiplier, neighbouring), self.sampling_rate
        if rate == 1.0:
            return RepeatedEvent(full, self.n_steps)
        # replacing a record moves twice what a record adds
        of_record = full.neighbouring.n_changes * self.noise_multiplier
        return RepeatedEvent(PoissonSampledSumEvent(rate, full, of_record), self.n_steps)


@lru_cache(maxsize=256)
def _multiplier(
    budget: PrivacyBudget, neighbouring: Neighbouring, schedule: tuple[float, int]
) -> float:
    """Smallest noise of a schedule ``(sampling_rate, n_steps)`` within the budget."""
    sampling_rate, n_steps = schedule
    unsampled = gaussian_noise_multiplier(budget.epsilon, budget.delta) * math.sqrt(n_steps)
    if sampling_rate == 1.0:
        return unsampled

    def event(scale: float) -> PrivacyEvent:
        return SampledGaussianMechanism(1.0, scale * unsampled, *schedule).event(neighbouring)

    try:
        return unsampled * smallest_scale(event, budget)
    except ImportError as error:
        raise ImportError(
            f"Noise for sampled batches is calibrated with dp-accounting: {error}. Or use "
            "sampling_rate=1 or noise_multiplier."
        ) from error


def sampling_rates(event: PrivacyEvent) -> list[tuple[float, int]]:
    """Probability of a record and number of releases, for the parts of an event that sample."""
    return [
        (leaf.sampling_probability, count)
        for leaf, count in flatten_event(event)
        if isinstance(leaf, PoissonSampledSumEvent) and leaf.sampling_probability < 1.0
    ]


def smallest_scale(event: Callable[[float], PrivacyEvent], budget: PrivacyBudget) -> float:
    """Return the least factor of the noise of sampled releases that keeps a run within the budget.

    `event` has all releases, with the noise of the sampled parts times the factor, at most 1; at 1
    it must be within the budget, of delta > 0, even if sampling is ignored. To a relative 1e-3.
    Errors: see :meth:`SampledGaussianMechanism.calibrated`.
    """
    unscaled = event(1.0)
    rates = sampling_rates(unscaled)
    if -math.expm1(sum(count * math.log1p(-rate) for rate, count in rates)) <= budget.delta:
        raise ValueError(
            f"delta == {budget.delta:g} is above the chance that a record is ever drawn, "
            "which would allow a run without noise."
        )
    import_convolution()  # without it, noise as if nothing was sampled

    @cache
    def excess(log_scale: float) -> float:
        """Logarithm of the share of epsilon that is spent, decreasing; 0 just below 1, too."""
        spent = tightest_epsilon(event(math.exp(log_scale)), budget.delta)
        share = spent / budget.epsilon
        return 0.0 if 1.0 - _PRECISION <= share <= 1.0 else math.log(max(share, 1e-3))

    if excess(0.0) > 0.0:  # by rounding, or because the event costs more than it may
        return 1.0
    low = math.log(0.5 * max(rate for rate, _ in rates))
    while excess(low) <= 0.0:
        low -= 1.0
    found = float(brentq(excess, low, 0.0, xtol=_PRECISION))
    while excess(found) > 0.0:
        found = min(0.0, found + _PRECISION)
    return math.exp(found)


def poisson_sample(n_records: int, sampling_rate: float, noise: NoiseSource) -> np.ndarray | None:
    """Draw the positions of a Poisson sample, in increasing order; at a rate of 1 None, for all."""
    return (
        None if sampling_rate == 1.0 else np.flatnonzero(noise.bernoulli(n_records, sampling_rate))
    )

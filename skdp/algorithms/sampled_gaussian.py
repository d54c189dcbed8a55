"""Sums over Poisson samples with Gaussian noise: event, calibration, coins, checks of arguments.

What private gradient methods share. A step publishes ``sum of v_i over a random batch + noise``:
the vector v_i of a record has a bounded norm, and every record joins the batch by its own coin.
How sampling is priced, under add/remove and under replace-one neighbours, is proven in
``docs/theory/accounting.md``, sections 6 and 7.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from functools import cache, lru_cache

import numpy as np
from scipy.optimize import brentq

from skdp.mechanisms import NoiseSource, gaussian_noise_multiplier
from skdp.privacy.accountants import import_convolution, tightest_epsilon
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import (
    GaussianEvent,
    Neighbouring,
    PoissonSampledEvent,
    PoissonSampledSumEvent,
    PrivacyEvent,
    RepeatedEvent,
    flatten_event,
)

__all__ = [
    "chosen_delta",
    "poisson_batch",
    "poisson_sample",
    "sampled_gaussian_event",
    "sampled_gaussian_multiplier",
    "sampling_rates",
    "smallest_scale",
]

#: Relative precision of the calibration.
_PRECISION = 1e-3


def sampled_gaussian_event(
    multiplier: float, sampling_rate: float, n_steps: int, sensitivity: float | None = None
) -> PrivacyEvent:
    """The event of `n_steps` noisy sums.

    Parameters
    ----------
    multiplier : float
        Noise in units of the sensitivity under the relation of the event.
    sampling_rate : float
        In (0, 1]; 1 stands for no sampling.
    n_steps : int
    sensitivity : float, optional
        That under replace-one neighbours, in units of a bound on the norm of what one record
        adds; the event is then one of that relation. Default: the event is one of add/remove
        neighbours, where the two are the same.
    """
    relation = Neighbouring.ADD_REMOVE if sensitivity is None else Neighbouring.REPLACE_ONE
    whole = GaussianEvent(multiplier, relation)
    if sampling_rate == 1.0:
        return RepeatedEvent(whole, n_steps)
    if sensitivity is None:
        return RepeatedEvent(PoissonSampledEvent(sampling_rate, whole), n_steps)
    step = PoissonSampledSumEvent(sampling_rate, whole, multiplier * sensitivity)
    return RepeatedEvent(step, n_steps)


@lru_cache(maxsize=256)
def sampled_gaussian_multiplier(
    budget: PrivacyBudget, sampling_rate: float, n_steps: int, sensitivity: float | None = None
) -> float:
    """Smallest noise that keeps the event within the budget, to a relative 1e-3.

    Parameters
    ----------
    budget : PrivacyBudget
        With delta > 0.
    sampling_rate, n_steps, sensitivity
        Of :func:`sampled_gaussian_event`.

    Returns
    -------
    multiplier : float

    Raises
    ------
    ImportError
        With sampling, if dp-accounting is missing or, under replace-one, older than 0.5: the noise
        would be about that of a run without sampling.
    ValueError
        If the budget allows a run without noise.
    """
    unsampled = gaussian_noise_multiplier(budget.epsilon, budget.delta) * math.sqrt(n_steps)
    if sampling_rate == 1.0:
        return unsampled

    def event(scale: float) -> PrivacyEvent:
        return sampled_gaussian_event(scale * unsampled, sampling_rate, n_steps, sensitivity)

    try:
        return unsampled * smallest_scale(event, budget)
    except ImportError as error:
        raise ImportError(
            f"Noise for sampled batches is calibrated with dp-accounting: {error}. Or use "
            "sampling_rate=1 or noise_multiplier."
        ) from error


def chosen_delta(delta: float | None, planned: float | None) -> float:
    """The delta that is asked for or else that of the plan; ValueError if there is neither."""
    chosen = planned if delta is None else delta
    if chosen is None:
        raise ValueError("delta must be given: the plan has no budget.")
    return chosen


def sampling_rates(event: PrivacyEvent) -> list[tuple[float, int]]:
    """Probability of a record and number of releases, for the parts of an event that sample."""
    return [
        (leaf.sampling_probability, count)
        for leaf, count in flatten_event(event)
        if isinstance(leaf, PoissonSampledEvent | PoissonSampledSumEvent)
        and leaf.sampling_probability < 1.0
    ]


def smallest_scale(event: Callable[[float], PrivacyEvent], budget: PrivacyBudget) -> float:
    """Smallest factor of the noise of sampled releases that keeps a run within the budget.

    Parameters
    ----------
    event : callable ``factor -> PrivacyEvent``
        All that is released, with the noise of the sampled parts times the factor. At 1 it must be
        within the budget even if sampling is ignored.
    budget : PrivacyBudget
        With delta > 0.

    Returns
    -------
    scale : float
        At most 1, to a relative 1e-3.

    Raises
    ------
    ImportError
        If dp-accounting is missing or, under replace-one, older than 0.5.
    ValueError
        If the budget allows the sampled releases without noise.
    """
    unscaled = event(1.0)
    rates = sampling_rates(unscaled)
    if -math.expm1(sum(count * math.log1p(-rate) for rate, count in rates)) <= budget.delta:
        raise ValueError(
            f"delta == {budget.delta:g} is above the chance that a record is ever drawn, "
            "which would allow a run without noise."
        )

    assert unscaled.neighbouring is not None  # something is sampled
    import_convolution(unscaled.neighbouring)  # without it, noise as if nothing was sampled

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


def poisson_batch(n_records: int, sampling_rate: float, noise: NoiseSource) -> np.ndarray:
    """A Poisson sample with the coins of a noise source: positions of records, increasing."""
    return np.flatnonzero(noise.coins(n_records, sampling_rate))


def poisson_sample(
    n_records: int, sampling_rate: float, random_bytes: Callable[[int], bytes] = os.urandom
) -> np.ndarray:
    """Positions that each of `n_records` takes with probability `sampling_rate`, independently.

    Compares a uniform binary fraction per record with the rate, 16 bits at a time and only as
    many as it takes, so the probability is exact.

    Parameters
    ----------
    n_records : int
    sampling_rate : float
        In [0, 1).
    random_bytes : callable ``(n) -> bytes``, default=os.urandom

    Returns
    -------
    ndarray of int, increasing
    """
    words = np.frombuffer(random_bytes(2 * n_records), dtype="<u2")
    rest, first = math.modf(sampling_rate * 2.0**16)  # exact: a shift of the binary point
    chosen = words < int(first)
    if rest:
        ties = np.flatnonzero(words == int(first))
        if ties.size:
            chosen[ties[poisson_sample(ties.size, rest, random_bytes)]] = True
    return np.flatnonzero(chosen)

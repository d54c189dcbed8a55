"""Sums over Poisson samples with Gaussian noise: coins, price, and checks of arguments.

What private gradient methods share. A step publishes ``sum of v_i over a random batch + noise``:
the vector v_i of a record has norm at most C, the noise has standard deviation s in each
coordinate, and every record joins the batch by its own coin of probability q.

**Add/remove.** The sensitivity of the sum is C, and sampling is priced as
``docs/theory/accounting.md`` describes in sections 6 and 7.

**Replace-one.** Section 6 shows that the sensitivity 2 C alone gives no amplification. But a sum
says more: without the record it is the *midpoint* of the ball that the record can move it in.

*Proposition.* Each step is dominated by the pair of laws on the line
``P = (1-q) N(0, s^2) + q N(C, s^2)`` and ``Q = (1-q) N(0, s^2) + q N(-C, s^2)``.

*Proof.* By joint convexity of the hockey-stick divergence fix the coins of all other records,
which have one law for both data sets; shift their sum to 0 and let s = 1. The laws are
``(1-q) N(0) + q N(u)`` and ``(1-q) N(0) + q N(v)`` with identity covariance and |u|, |v| <= C.
Swapping the data sets exchanges u and v, swapping P and Q is a reflection of the line, and
``H_b(A|B) = 1 - b + b H_{1/b}(B|A)`` for b > 0: it is enough to take b >= 1. Then

    H_b = int (q N(u) - (b-1)(1-q) N(0) - b q N(v))_+ = q E (1 - c_1 Y_1 - c_2 Y_2)_+ ,

with c_1 >= 0 and c_2 = b, where Y_k is the ratio of the densities of ``N(d_k)`` and ``N(0)`` under
the law N(0), for ``d_1 = -u`` and ``d_2 = v - u``: lognormal of mean 1 and volatility ``|d_k|``,
which is at most ``r_1 = C`` and ``r_2 = 2 C``. P and Q themselves have
``Y_k* = exp(r_k Z - r_k^2 / 2)`` with one and the same Z ~ N(0, 1). Let z be such that
``t_k = exp(r_k z - r_k^2 / 2)`` have ``c_1 t_1 + c_2 t_2 = 1``; it exists because c_2 > 0. Then

    E (1 - sum_k c_k Y_k)_+ <= sum_k c_k E (t_k - Y_k)_+
                            <= sum_k c_k E (t_k - Y_k*)_+ = E (1 - sum_k c_k Y_k*)_+ .

First: the positive part is subadditive. Second: lognormals of mean 1 grow in convex order with
their volatility, because ``exp(B_t - t/2)`` is a martingale. Third: all terms are positive for
Z < z and zero otherwise. QED

The pair is that of u = -v with norm C, so nothing is lost. Dominating pairs of adaptively composed
steps are the products of the pairs (Zhu, Dong and Wang 2022, Theorem 10). Lebeda et al. (2024)
discuss why such a pair must not be taken for granted.

References
----------
C. J. Lebeda, M. Regehr, G. Kamath, T. Steinke, "Avoiding pitfalls for privacy accounting of
subsampled mechanisms under composition", arXiv:2405.20769, 2024.
"""

from __future__ import annotations

import importlib
import inspect
import math
import numbers
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from skdp.privacy.accountants import tightest_epsilon
from skdp.privacy.events import GaussianEvent, PoissonSampledEvent, PrivacyEvent, RepeatedEvent

__all__ = [
    "PoissonSampledSumEvent",
    "check_count",
    "check_real",
    "poisson_sample",
    "replace_one_epsilon",
    "sampled_gaussian_event",
]


@dataclass(frozen=True)
class PoissonSampledSumEvent(PoissonSampledEvent):
    """A noisy sum over a random subset, measured under replace-one neighbours.

    The proposition at the top of the module needs a record's norm bound besides the sensitivity.
    Accountants that do not know this event treat it as a plain sample: valid, and not amplified.

    Parameters
    ----------
    sampling_probability : float
    event : GaussianEvent
        With the noise in units of the sensitivity under replace-one.
    record_multiplier : float
        Standard deviation of the noise per coordinate divided by a bound on the norm of what one
        record adds to the sum; finite and > 0.
    """

    record_multiplier: float
    kind: ClassVar[str] = "poisson_sampled_sum"

    def _validate(self) -> None:
        super()._validate()
        value = float(self.record_multiplier)
        if not 0.0 < value < math.inf:
            raise ValueError(f"record_multiplier must be finite and > 0, got {value!r}.")
        self._set(record_multiplier=value)


def sampled_gaussian_event(
    multiplier: float,
    sampling_rate: float,
    n_steps: int,
    record_multiplier: float | None = None,
) -> PrivacyEvent:
    """The event of `n_steps` noisy sums.

    Parameters
    ----------
    multiplier : float
        Noise in units of the sensitivity under the relation at hand.
    sampling_rate : float
        In (0, 1]; 1 stands for no sampling.
    n_steps : int
    record_multiplier : float, optional
        Noise in units of a record's norm bound, for replace-one neighbours.
    """
    step: PrivacyEvent = GaussianEvent(multiplier)
    if sampling_rate < 1.0:
        step = (
            PoissonSampledEvent(sampling_rate, step)
            if record_multiplier is None
            else PoissonSampledSumEvent(sampling_rate, step, record_multiplier)
        )
    return RepeatedEvent(step, n_steps)


def replace_one_epsilon(event: PoissonSampledSumEvent, n_steps: int, delta: float) -> float:
    """Smallest epsilon known for `n_steps` sampled sums under replace-one neighbours.

    The price without sampling, or that of the numerical convolution of the pair at the top of the
    module by dp-accounting, which rounds privacy losses up. Some delta is kept back for the
    rounding of the convolution; where that is not small beside delta, it is not used
    (``docs/theory/accounting.md``, section 7).

    Parameters
    ----------
    event : PoissonSampledSumEvent
    n_steps : int
    delta : float

    Raises
    ------
    ImportError
        If dp-accounting is not installed, or is too old to know the pair.
    """
    library = _replace_one_library()
    unsampled = tightest_epsilon(RepeatedEvent(event.event, n_steps), delta)
    noise, rate = event.record_multiplier, event.sampling_probability
    span = 0.5 * (2.0 / noise) ** 2 + 10.0 * (2.0 / noise)
    kept_back = 1e-12 * max(1.0, n_steps / 1000.0)
    # the same limits as in skdp.privacy.accountants
    if unsampled == 0.0 or delta < 1000.0 * kept_back or span > 600.0 or rate == 0.0:
        return unsampled
    step = library.from_gaussian_mechanism(
        noise,
        sampling_prob=rate,
        neighboring_relation=_replace_one_relation(),
        value_discretization_interval=max(1e-5 * span, 1e-4 * min(1.0, unsampled)),
    )
    spent = step.self_compose(n_steps).get_epsilon_for_delta(delta - kept_back)
    return min(unsampled, float(spent))


def _replace_one_relation() -> Any:
    return importlib.import_module("dp_accounting").NeighboringRelation.REPLACE_ONE


def _replace_one_library() -> Any:
    library = importlib.import_module("dp_accounting.pld.privacy_loss_distribution")
    if "neighboring_relation" not in inspect.signature(library.from_gaussian_mechanism).parameters:
        raise ImportError(
            "Sampled batches under neighbouring='replace_one' need dp-accounting >= 0.5: upgrade "
            "it, or use sampling_rate=1 or neighbouring='add_remove'."
        )
    return library


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


def check_count(name: str, value: Any) -> None:
    """Raise TypeError or ValueError unless `value` is an integer >= 1."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be an integer, got {value!r}.")
    if value < 1:
        raise ValueError(f"{name} == {value}, must be >= 1.")


def check_real(name: str, value: Any, low: float, high: float) -> None:
    """Raise TypeError or ValueError unless `value` is a real number in [low, high]."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a real number, got {value!r}.")
    if not low <= float(value) <= high:
        raise ValueError(f"{name} == {value}, must be between {low:g} and {high:g}.")

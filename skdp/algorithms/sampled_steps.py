"""Noisy steps on random batches: the part of a plan that says their number, noise and price.

Every record joins a batch independently (Poisson sampling), and the sum over the batch has
Gaussian noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from skdp.algorithms.plan import Plan
from skdp.mechanisms import NoiseSource, SampledGaussianMechanism
from skdp.mechanisms.sampled_gaussian import poisson_sample
from skdp.privacy.accountants import tightest_epsilon
from skdp.privacy.events import Neighbouring, PrivacyEvent
from skdp.privacy.report import Release


@dataclass(frozen=True, kw_only=True)
class NoisyStepsPlan(Plan):
    """Number, noise and batches of noisy steps.

    The mechanism has the noise of a step's sum over its batch and the number of steps; `n_public`
    is the public or nominal number of records, delta that of the budget, or None without one.
    """

    n_public: int
    neighbouring: Neighbouring
    mechanism: SampledGaussianMechanism
    delta: float | None

    #: Name and reference of the release.
    _statement: ClassVar[tuple[str, str]]

    @property
    def dimension(self) -> int:
        """Number of coordinates of a step's noise."""
        raise NotImplementedError

    @property
    def noise_multiplier(self) -> float:
        """Standard deviation of a step's noise, in units of the sensitivity."""
        return self.mechanism.noise_multiplier

    @property
    def expected_batch(self) -> float:
        """Public number that a step's sum is divided by."""
        return self.mechanism.sampling_rate * self.n_public

    def batch(self, n_records: int, noise: NoiseSource) -> np.ndarray | None:
        """Draw the positions of a step's batch; None for all records."""
        return poisson_sample(n_records, self.mechanism.sampling_rate, noise)

    @property
    def releases(self) -> tuple[Release, ...]:
        return (self.release(),)

    def release(self, name: str | None = None) -> Release:
        """State the noisy sums of all steps."""
        default, reference = self._statement
        return self.mechanism.describe(
            name or default, self.dimension, self.n_public, reference, self.neighbouring
        )

    @property
    def event(self) -> PrivacyEvent:
        """The cost of all steps, under :attr:`neighbouring`."""
        return self.mechanism.event(self.neighbouring)

    def epsilon(self, delta: float | None = None) -> float:
        """Find the smallest known epsilon of the run; `delta` is by default that of the budget.

        Far from tight with sampling without the optional extra ``accounting`` (>= 0.5 for
        "replace_one").
        """
        delta = self.delta if delta is None else delta
        if delta is None:
            raise ValueError("delta must be given: the plan has no budget.")
        return tightest_epsilon(self.event, delta)

    def to_dict(self) -> dict[str, Any]:
        return {
            "neighbouring": self.neighbouring.value,
            "delta": self.delta,
            "n_public": self.n_public,
            "sampling_rate": self.mechanism.sampling_rate,
            "expected_batch": self.expected_batch,
            "n_steps": self.mechanism.n_steps,
            "noise_multiplier": self.noise_multiplier,
        }

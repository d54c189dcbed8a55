"""Noisy sums over the records of each group.

Lemmas 2 to 6 of docs/theory/worst_group.md are about the sums that are released so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from skdp.algorithms.descent.noisy_descent import NoisyGradientDescentPlan
from skdp.algorithms.preparation.centered_rows import CenteredRows, sum_rounding
from skdp.mechanisms import GaussianMechanism, NoiseSource
from skdp.privacy.report import Release
from skdp.problems import ROUNDING_SLACK
from skdp.problems.records import Block

#: Where the proofs are.
THEORY = "docs/theory/worst_group.md"


@dataclass(frozen=True, kw_only=True)
class GroupSums:
    """A release of sums over the records of each group, on a public number of records.

    Attributes
    ----------
    plan : NoisyGradientDescentPlan
    n_groups : int
    mu : float
        Of the Gaussian differential privacy of the release.
    sensitivity : float
        Without rounding.
    size : float
        Bound on the norm of a record's term.
    name, lemma : str
    n_entries : int, default=1
        Of a record's term.
    """

    plan: NoisyGradientDescentPlan
    n_groups: int
    mu: float
    sensitivity: float
    size: float
    name: str
    lemma: str
    n_entries: int = 1

    def mechanism(self, moved: float = 0.0) -> GaussianMechanism:
        """Return the noise; `moved` bounds the rounding of a term whose record is elsewhere."""
        design = self.plan.objective.design
        bound = self.sensitivity * ROUNDING_SLACK + sum_rounding(design, self.size)
        bound += design.n_records * design.size_ratio * moved
        return GaussianMechanism(bound, 1.0 / self.mu)

    def describe(self) -> Release:
        """Describe the release."""
        objective = self.plan.objective
        return self.mechanism().describe(
            self.name,
            self.n_groups * self.n_entries,
            objective.design.n_records,
            f"{THEORY}, {self.lemma}",
            objective.neighbouring,
        )

    def release(
        self,
        rows: CenteredRows,
        terms: Callable[[Block], Sequence[np.ndarray]],
        noise: NoiseSource,
        moved: float = 0.0,
    ) -> tuple[np.ndarray, float]:
        """Release the sums of ``terms(block)``, n_entries arrays of shape (m,), and their noise.

        Returns
        -------
        ndarray of shape (n_groups, n_entries)
        float
        """

        def part(block: Block, _: np.ndarray) -> np.ndarray:
            return np.stack(
                [
                    np.bincount(block.groups, weights=entry, minlength=self.n_groups)
                    for entry in terms(block)
                ],
                axis=1,
            )

        mechanism = self.mechanism(moved)
        exact = rows.full_total(part)
        noisy = mechanism.release(exact.ravel(), noise).reshape(exact.shape)
        return np.nan_to_num(noisy), mechanism.noise_scale


def has_shift(plan: NoisyGradientDescentPlan) -> bool:
    """Whether an intercept of two classes can be shifted."""
    return plan.loss.n_outputs == 1 and plan.objective.design.intercept > 0

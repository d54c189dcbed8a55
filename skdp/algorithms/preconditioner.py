"""Private preconditioner: one noisy release of the second moments of centered rows.

Directions in which rows vary little are learnt slowly by gradient descent. Multiplied by the inverse
of the second moments, every step learns all directions above the noise of the release at the same
rate, so that a few steps do (docs/theory/noisy_gradient_descent.md, section 5).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from skdp.algorithms.centering import CenteredRows, sum_rounding
from skdp.mechanisms import GaussianMechanism, NoiseSource
from skdp.privacy.events import Neighbouring
from skdp.privacy.report import Release
from skdp.problems import ROUNDING_SLACK, Design
from skdp.problems.records import Block
from skdp.problems.rounding import EPS

#: Spectral norm of the noise in units of the mean eigenvalue, above which there is no release.
_LARGEST_NOISE = 1.5
#: Number of features above which there is none.
_LARGEST_WIDTH = 1000


@dataclass(frozen=True)
class PreconditionerPlan:
    """A release of ``sum_i A_i A_i' min(1, 1 / |A_i|^2)``.

    Attributes
    ----------
    design : Design
    neighbouring : Neighbouring
    mechanism : GaussianMechanism
        Of the entries on and above the diagonal, those above it times ``sqrt(2)``. Its sensitivity
        lacks the rounding that depends on the centering.
    ridge : float
        Added to the mean matrix before it is inverted.
    """

    design: Design
    neighbouring: Neighbouring
    mechanism: GaussianMechanism
    ridge: float

    def describe(self, neighbouring: Neighbouring) -> Release:
        """Describe the release."""
        width = self.design.width
        return self.mechanism.describe(
            "second moments of centered rows",
            width * (width + 1) // 2,
            self.design.n_records,
            "docs/theory/noisy_gradient_descent.md, Lemma 3",
            neighbouring,
        )

    def release(self, rows: CenteredRows, noise: NoiseSource) -> np.ndarray:
        """Release the inverse of the second moments, shape (width, width)."""
        upper = np.triu_indices(self.design.width)
        factors = np.where(upper[0] == upper[1], 1.0, math.sqrt(2.0))

        def part(block: Block, norms: np.ndarray) -> np.ndarray:
            return block.gram(1.0 / np.maximum(norms, 1.0) ** 2)

        total = rows.products(rows.full_total(part))
        d, n = self.design.n_features, self.design.n_records * self.design.size_ratio
        # raw rows are longer than centered ones, whose norms are known in other last bits
        amplified = rows.amplification**2
        rounding = sum_rounding(self.design, 2.0 * amplified)
        if self.neighbouring is Neighbouring.ADD_REMOVE:
            rounding += 8.0 * n * (d + 8) * EPS * amplified
        sensitivity = self.mechanism.sensitivity + rounding
        mechanism = GaussianMechanism(sensitivity, self.mechanism.noise_multiplier)
        entries = mechanism.release(total[upper] * factors, noise) / factors
        moments = np.zeros_like(total)
        limit = self.design.size_ratio  # of the exact entries; noise may be infinite
        moments[upper] = np.clip(entries / self.design.n_records, -limit, limit)
        moments += np.triu(moments, 1).T
        values, vectors = np.linalg.eigh(moments)
        return (vectors / (np.maximum(values, 0.0) + self.ridge)) @ vectors.T


def plan_preconditioner(
    design: Design,
    neighbouring: Neighbouring,
    mu: float,
) -> PreconditionerPlan | None:
    """Calibrate the release to mu-Gaussian differential privacy, by Lemma 3.

    None where the noise of the release would hide an average direction, or features are so many
    that their products would cost more than many steps.
    """
    width = design.width
    norm = math.sqrt(2.0) if neighbouring is Neighbouring.REPLACE_ONE else 1.0
    noise = math.sqrt(2.0 * width) * norm / (mu * design.n_records)  # its spectral norm, about
    if width * noise > _LARGEST_NOISE or width > _LARGEST_WIDTH:
        return None
    mechanism = GaussianMechanism(norm * ROUNDING_SLACK, 1.0 / mu)
    return PreconditionerPlan(design, neighbouring, mechanism, noise)

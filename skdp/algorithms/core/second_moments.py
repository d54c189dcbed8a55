"""Private second moments of centered rows (docs/theory/core.md, Lemma 5)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from skdp.algorithms.core.centered_rows import CenteredRecords
from skdp.algorithms.core.noisy_sums import NoisySum
from skdp.mechanisms import NoiseSource
from skdp.privacy.events import Neighbouring
from skdp.privacy.report import Release
from skdp.problems import Design
from skdp.problems.block import Block
from skdp.problems.rounding import two_products

#: Spectral norm of the noise in units of the mean eigenvalue, number of features, above which there
#: is no release, and the norm itself up to which there is one.
LARGEST_NOISE, LARGEST_WIDTH, _WORTHY = 1.5, 1000, 0.2


@dataclass(frozen=True)
class ShortenedMoments:
    """Second moments of centered rows that are shortened to norm 1, in coordinates ``(x, 1)``."""

    def __call__(self, block: Block, norms: np.ndarray) -> np.ndarray:
        return block.gram(1.0 / np.maximum(norms, 1.0) ** 2)


@dataclass(frozen=True, kw_only=True)
class RowMomentsPlan:
    """A release of ``sum_i A_i A_i' min(1, 1 / |A_i|^2)``."""

    #: Of the entries on and above the diagonal, those above it times ``sqrt(2)``. It lacks the size
    #: of the vectors, which depends on the centering.
    sum: NoisySum
    #: Spectral norm of the noise of the mean matrix, about.
    noise: float

    def describe(self) -> Release:
        """Describe the release."""
        return self.sum.describe()

    def release(self, rows: CenteredRecords, noise: NoiseSource) -> np.ndarray:
        """Release the second moments of shortened rows, shape (width, width)."""
        total = rows.products(rows.full_total(ShortenedMoments()))
        # raw rows are longer than centered ones, whose norms are known in other last bits
        size = rows.norm_bound**2 if rows.has_intercept else 1.0
        design = self.sum.design
        # the others may be elsewhere, and have terms with other last bits
        moved = two_products(design.n_features, size)
        upper = np.triu_indices(len(total))
        factors = np.where(upper[0] == upper[1], 1.0, math.sqrt(2.0))
        moments_sum = replace(self.sum, size=2.0 * size)
        entries, _ = moments_sum.release(total[upper] * factors, noise, moved)
        limit = design.reach  # of the exact means; noise may be infinite
        moments = np.zeros_like(total)
        n_records = rows.n_counted or design.n_records
        moments[upper] = np.clip(entries / factors / n_records, -limit, limit)
        return moments + np.triu(moments, 1).T


def plan_row_moments(
    design: Design, neighbouring: Neighbouring, mu: float, is_pure: bool = False
) -> RowMomentsPlan | None:
    """Calibrate the release as :class:`NoisySum` does, by Lemma 5.

    None where the noise would hide an average direction and is large, or features are too many.
    """
    norm, size = math.sqrt(neighbouring.n_changes), design.width
    n_entries = size * (size + 1) // 2
    noise = math.sqrt(2.0 * neighbouring.n_changes * size) / (mu * design.n_records)
    noise *= math.sqrt(n_entries + 1.0) if is_pure else 1.0
    if size > LARGEST_WIDTH or noise > max(LARGEST_NOISE / size, _WORTHY):
        return None
    return RowMomentsPlan(
        sum=NoisySum(
            design=design,
            neighbouring=neighbouring,
            mu=mu,
            sensitivity=norm,
            n_entries=n_entries,
            name="second moments of centered rows",
            reference="docs/theory/core.md, Lemma 5",
            is_pure=is_pure,
        ),
        noise=noise,
    )

"""Private second moments of centered rows: a preconditioner, or the largest safe step.

Gradient descent learns directions in which rows vary little slowly. Multiplied by the inverse of
the second moments, every step learns all directions above the noise of their release at the same
rate, so that a few steps do. Where features are too many for that, the largest second moment of
a random projection tells how large a step may be (docs/theory/noisy_gradient_descent.md,
section 5).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from skdp.algorithms.preparation import rules
from skdp.algorithms.preparation.centered_rows import CenteredRecords
from skdp.algorithms.preparation.noisy_sums import NoisySum
from skdp.mechanisms import NoiseSource
from skdp.privacy.events import Neighbouring
from skdp.privacy.report import Release
from skdp.problems import Design
from skdp.problems.block import Block
from skdp.problems.rounding import two_products


@dataclass(frozen=True, kw_only=True)
class Preconditioner:
    """Released second moments plus a ridge, which gradients are divided by.

    Attributes
    ----------
    vectors : ndarray of shape (width, width)
        Directions, one per column.
    values : ndarray of shape (width,)
        Second moments in these directions plus the ridge, > 0.
    of_columns : ndarray of shape (width,)
        Second moments of the coordinates, as released: noise may make some negative.
    """

    vectors: np.ndarray
    values: np.ndarray
    of_columns: np.ndarray

    def matrix(self, floor: float = 0.0) -> np.ndarray:
        """Return the inverse, with values that are raised to a floor."""
        return np.asarray((self.vectors / np.maximum(self.values, floor)) @ self.vectors.T)

    def deviation(self, ridge: float) -> float:
        """Return the deviation of the noise of `of_columns`, whose spectral norm is the ridge."""
        return ridge / math.sqrt(2.0 * len(self.values))


@dataclass(frozen=True)
class ShortenedMoments:
    """Second moments of centered rows that are shortened to norm 1, in coordinates ``(x, 1)``."""

    def __call__(self, block: Block, norms: np.ndarray) -> np.ndarray:
        return block.gram(1.0 / np.maximum(norms, 1.0) ** 2)


@dataclass(frozen=True, kw_only=True)
class ProjectedMoments:
    """Second moments of projected rows that are shortened to norm 1.

    Attributes
    ----------
    of_features : csr_array of shape (n_features, size)
    of_constant : ndarray of shape (size, 1) or (size, 0)
        Projection of the constant feature, if there is one.
    """

    of_features: sp.csr_array
    of_constant: np.ndarray
    needs_norms: ClassVar[bool] = False

    def __call__(self, block: Block, _: np.ndarray) -> np.ndarray:
        projected = block.matrix @ self.of_features
        projected = projected.toarray() if sp.issparse(projected) else projected
        if block.scale is not None:
            projected *= block.scale[:, None]
        if block.intercept:
            projected += block.intercept * self.of_constant[:, 0]
        squares = np.einsum("ij,ij->i", projected, projected)
        projected /= np.sqrt(np.maximum(squares, 1.0))[:, None]
        return projected.T @ block.weighted(projected)


@dataclass(frozen=True, kw_only=True)
class RowMomentsPlan:
    """A release of ``sum_i P A_i A_i' P' min(1, 1 / |P A_i|^2)``.

    Attributes
    ----------
    sum : NoisySum
        Of the entries on and above the diagonal, those above it times ``sqrt(2)``. It lacks the
        size of the vectors, which depends on the centering.
    noise : float
        Spectral norm of the noise of the mean matrix, about.
    size : int
        Number of coordinates of ``P A``.
    is_projected : bool
        Whether P is a random projection, and not the identity.
    """

    sum: NoisySum
    noise: float
    size: int
    is_projected: bool

    def describe(self) -> Release:
        """Describe the release."""
        return self.sum.describe()

    def preconditioner(
        self, rows: CenteredRecords, noise: NoiseSource
    ) -> tuple[Preconditioner, float, float]:
        """Release the second moments plus a ridge.

        Both are enlarged where most of the square norm is that of a few long rows, which the
        moments are too small for: steps would be too large.

        Returns
        -------
        preconditioner : Preconditioner
        ridge : float
        least : float
            Second moments, multiplied by it, are at least this large in every direction, about.
        """
        moments = self.release(rows, noise)
        factor = self._long_rows(rows, moments, 0.5)
        values, vectors = np.linalg.eigh(factor * moments)
        ridge, smallest = factor * self._noise(rows), max(float(values[0]), 0.0)
        preconditioner = Preconditioner(
            vectors=vectors,
            values=np.maximum(values, 0.0) + ridge,
            of_columns=factor * moments.diagonal(),
        )
        return preconditioner, ridge, max(smallest - ridge, 0.0) / (smallest + ridge)

    def release(self, rows: CenteredRecords, noise: NoiseSource) -> np.ndarray:
        """Release the second moments of shortened rows, shape (width, width)."""
        total = rows.products(rows.full_total(ShortenedMoments()))
        # raw rows are longer than centered ones, whose norms are known in other last bits
        size = rows.norm_bound**2 if rows.has_intercept else 1.0
        return self._release(rows, total, size, noise)

    def largest(self, rows: CenteredRecords, noise: NoiseSource) -> float:
        """Release a bound on the second moments in all directions, about.

        The projection leaves a direction its square norm with a standard deviation of
        ``sqrt(2 / size)``; four of them are added. What shortened rows lack is added, too.
        """
        moments = self.projected(rows, noise)
        largest = self._long_rows(rows, moments, 1.0) * float(np.linalg.eigvalsh(moments)[-1])
        largest *= 1.0 + 4.0 * math.sqrt(2.0 / self.size)
        return min(max(largest, self._noise(rows)), _square(rows) * self.sum.design.size_ratio)

    def projected(self, rows: CenteredRecords, noise: NoiseSource) -> np.ndarray:
        """Release the second moments of projected rows, shape (size, size)."""
        d = self.sum.design.n_features
        raw = rows.weights(_public_projection(self.size, self.sum.design.width))
        # few entries in a row
        moments = ProjectedMoments(of_features=sp.csr_array(raw[:, :d].T), of_constant=raw[:, d:])
        amplified = 1.0 + math.sqrt(d) * rows.norm_bound
        return self._release(rows, rows.full_total(moments), amplified, noise)

    def _long_rows(self, rows: CenteredRecords, moments: np.ndarray, share: float) -> float:
        """Return a factor that brings the trace of moments to a share of the mean square norm.

        Shortened rows have less of it. At least 1.
        """
        return max(1.0, share * _square(rows) / max(float(np.trace(moments)), self._noise(rows)))

    def _noise(self, rows: CenteredRecords) -> float:
        """Return the spectral norm of the noise for the number of records that was released."""
        n = self.sum.design.n_records
        return self.noise * n / (rows.n_counted or n)

    def _release(
        self, rows: CenteredRecords, total: np.ndarray, amplified: float, noise: NoiseSource
    ) -> np.ndarray:
        """Release the mean matrix, whose terms are computed from numbers of a size."""
        design = self.sum.design
        # the others may be elsewhere, and have terms with other last bits
        moved = two_products(design.n_features, amplified)
        upper = np.triu_indices(len(total))
        factors = np.where(upper[0] == upper[1], 1.0, math.sqrt(2.0))
        moments_sum = replace(self.sum, size=2.0 * amplified)
        entries, _ = moments_sum.release(total[upper] * factors, noise, moved)
        limit = design.size_ratio  # of the exact means; noise may be infinite
        moments = np.zeros_like(total)
        n_records = rows.n_counted or design.n_records
        moments[upper] = np.clip(entries / factors / n_records, -limit, limit)
        return moments + np.triu(moments, 1).T


def _public_projection(size: int, width: int) -> np.ndarray:
    """Draw public signs: every column has one in each of the parts of the coordinates."""
    public, n_parts = np.random.default_rng(0), min(rules.PLACES, size)
    bounds = np.arange(n_parts + 1) * size // n_parts
    places = public.integers(bounds[:-1], bounds[1:], size=(width, n_parts))
    signs = 2.0 * public.integers(0, 2, size=places.shape) - 1.0
    projection = np.zeros((size, width))
    np.put_along_axis(projection.T, places, signs / math.sqrt(n_parts), axis=1)
    return projection


def _square(rows: CenteredRecords) -> float:
    """Return the mean square norm of the rows, about."""
    return 1.0 + rules.CONSTANT**2 * rows.has_intercept


def plan_row_moments(
    design: Design,
    neighbouring: Neighbouring,
    mu: float,
    is_projected: bool = False,
    worthy_noise: float = 0.0,
    is_pure: bool = False,
) -> RowMomentsPlan | None:
    """Calibrate the release as :class:`NoisySum` does, by Lemma 5.

    None where the noise would hide an average direction, and is not below `worthy_noise`, or
    features are too many, and for a projection where its noise is too large.
    """
    norm = math.sqrt(neighbouring.n_changes)
    unit = math.sqrt(2.0) * norm / (mu * design.n_records)
    if is_projected:  # k coordinates enlarge small moments to 1 / k, about their noise here
        size = int(
            min(max(unit ** (-2.0 / 3.0), rules.PROJECTED[0]), rules.PROJECTED[1], design.width)
        )
        largest = rules.LARGEST_PROJECTED_NOISE
    else:
        size = design.width
        largest = max(rules.LARGEST_NOISE / size, worthy_noise)
        if size > rules.LARGEST_WIDTH:
            largest = 0.0
    n_entries = size * (size + 1) // 2
    noise = unit * math.sqrt(size) * (math.sqrt(n_entries + 1.0) if is_pure else 1.0)
    if noise > largest:
        return None
    return RowMomentsPlan(
        sum=NoisySum(
            design=design,
            neighbouring=neighbouring,
            mu=mu,
            sensitivity=norm,
            n_entries=n_entries,
            name="second moments of centered rows" + (", projected" if is_projected else ""),
            reference="docs/theory/noisy_gradient_descent.md, Lemma 5",
            is_pure=is_pure,
        ),
        noise=noise,
        size=size,
        is_projected=is_projected,
    )

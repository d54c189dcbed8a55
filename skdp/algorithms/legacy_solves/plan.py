"""What is learnt privately of rows and targets before a model: the first stage of prepared methods.

Theory: docs/theory/preparation.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from skdp.algorithms.core.centered_chunks import centered
from skdp.algorithms.core.centered_rows import CenteredRecords, Centering
from skdp.algorithms.core.levels import Level
from skdp.algorithms.core.penalty import PENALTY_NOISE, Spectrum
from skdp.algorithms.core.second_moments import RowMomentsPlan, plan_row_moments
from skdp.algorithms.legacy_solves import rules
from skdp.algorithms.legacy_solves.centering import CenteringPlan, plan_centering
from skdp.algorithms.legacy_solves.prepared_records import AffineMap
from skdp.algorithms.legacy_solves.rules import centering_share
from skdp.algorithms.legacy_solves.spread import SpreadPlan, plan_spread
from skdp.mechanisms import NoiseSource
from skdp.privacy.events import Neighbouring
from skdp.privacy.report import Release
from skdp.problems import Design, Loss, Records


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """What was released of rows and targets, and the views that follow.

    Attributes
    ----------
    centering : Centering
    spread : float
        Standard deviation of numeric targets around the offset, about; 1 for classes.
    moments, directions : ndarray of shapes (n_features,), (n_features, n_features)
        Second moments of whitened rows in orthonormal directions, one per column.
    affine : AffineMap
    rows : CenteredRecords
    whitener : ndarray of shape (n_features, n_features)
    spectrum : Spectrum
        Second moments of centered rows.
    columns : tuple of ndarray of shape (n_features,) and float, or None
        Those of the features, as released, and the deviation of their noise.
    """

    centering: Centering
    spread: float
    moments: np.ndarray
    directions: np.ndarray
    affine: AffineMap
    rows: CenteredRecords
    whitener: np.ndarray
    spectrum: Spectrum
    columns: tuple[np.ndarray, float] | None

    def centered_weights(self, weights: np.ndarray) -> np.ndarray:
        """Turn weights of prepared rows, one row per output, into those of the centered ones."""
        d = len(self.moments)
        out = weights.copy()
        out[:, :d] = weights[:, :d] @ self.whitener
        out[:, d:] *= self.affine.constant / self.rows.constant if self.affine.constant else 1.0
        return out


@dataclass(frozen=True, kw_only=True)
class PreparationPlan:
    """The releases of the preparation, in their order.

    Attributes
    ----------
    design : Design
    n_outputs : int
    centering : CenteringPlan or None
        None where noise would hide the means.
    spread : SpreadPlan or None
        None for classes.
    moments : RowMomentsPlan or None
        None where noise would hide them: rows are not whitened then.
    share : float
        Part of the squared mu that they cost together.
    """

    design: Design
    n_outputs: int
    centering: CenteringPlan | None
    spread: SpreadPlan | None
    moments: RowMomentsPlan | None
    share: float

    @property
    def releases(self) -> tuple[Release, ...]:
        """The statements about the releases."""
        plans = self.centering, self.spread, self.moments
        return tuple(plan.describe() for plan in plans if plan is not None)

    def moments_noise(self, centering: Centering) -> tuple[float, float]:
        """Deviation of a diagonal second moment, and relative error of all of them by the scale."""
        deviation, error = 0.0, 0.0
        if self.moments is not None:
            deviation = self.moments.sum.deviation / self.design.n_records
        if self.centering is not None:
            error = self.centering.scale_error(centering)
        return deviation, error

    def prepare(self, records: Records, noise: NoiseSource) -> Preparation:
        """Release what there is to learn."""
        d = self.design.n_features
        centering = Centering.unknown(d, self.n_outputs)
        if self.centering is not None:
            centering = self.centering.release(records, noise)
        spread = 1.0
        if self.spread is not None:
            offset, counted = float(centering.offsets[0]), centering.n_records
            spread = self.spread.release(records, offset, noise, counted)
        rows = centered(records, centering)
        whitener, moments, directions = np.eye(d), np.full(d, 1.0 / d), np.eye(d)
        spectrum, columns = Spectrum.public(d), None
        if self.moments is not None:
            matrix = self.moments.release(rows, noise)[:d, :d]
            unit = self.moments.noise
            factor = max(1.0, 0.5 / max(float(np.trace(matrix)), unit))
            deviation, _ = self.moments_noise(centering)
            columns = factor * np.diag(matrix), factor * deviation
            values, directions = np.linalg.eigh(factor * matrix)
            values, floor = np.maximum(values, 0.0), rules.RIDGE * unit * factor
            known = np.maximum(values / (values + floor), rules.LEAST_KNOWN)
            size = max(float(known.sum()), 1.0)
            whitener = (directions / np.sqrt((values + floor) * size)) @ directions.T
            moments = known / size
            spectrum = Spectrum.released(values, directions, rules.PENALISED_MOMENT * unit * factor)
        constant = 1.0 / math.sqrt(d) if rows.has_intercept else 0.0
        made = AffineMap.of(whitener, centering.mean, centering.scale, records.data_norm, constant)
        return Preparation(
            centering=centering,
            spread=spread,
            moments=moments,
            directions=directions,
            affine=made,
            rows=rows,
            whitener=whitener,
            spectrum=spectrum,
            columns=columns,
        )


def plan_preparation(
    loss: Loss, design: Design, neighbouring: Neighbouring, level: Level, is_shrunk: bool = False
) -> PreparationPlan:
    """Choose the parts of the budget, and calibrate the releases, from public numbers.

    Parameters
    ----------
    loss : Loss
    design : Design
    neighbouring : Neighbouring
    level : Level
        Of a whole fit.
    is_shrunk : bool, default=False
        Whether a penalty of the user goes by the second moments. More noise of theirs is accepted.
    """
    shares = _pure_shares if level.is_pure else _gaussian_shares
    worthy = PENALTY_NOISE if is_shrunk else 0.0
    of_means, of_spread, of_moments, moves_rows = shares(loss, design, neighbouring, level, worthy)
    means, spreads, seconds = (level.part(each).mu for each in (of_means, of_spread, of_moments))
    centering = spread = moments = None
    if of_means:
        centering = plan_centering(loss, design, neighbouring, means, moves_rows, level.is_pure)
    if of_spread:
        spread = plan_spread(design, loss.target_bound, neighbouring, spreads, level.is_pure)
    if of_moments:
        moments = plan_row_moments(
            design, neighbouring, seconds, worthy_noise=worthy, is_pure=level.is_pure
        )
    return PreparationPlan(
        design=design,
        n_outputs=loss.n_outputs,
        centering=centering,
        spread=spread,
        moments=moments,
        share=of_means + of_spread + (of_moments if moments is not None else 0.0),
    )


def _gaussian_shares(
    loss: Loss, design: Design, neighbouring: Neighbouring, level: Level, worthy_noise: float
) -> tuple[float, float, float, bool]:
    """Parts of the squared mu for means, spread and moments; and whether means of rows have one."""
    n, d, k = design.n_records, design.n_features, neighbouring.n_changes
    noise = k / (n * level.mu)
    means, moves_rows = centering_share(loss, noise * math.sqrt(d), noise)
    spread = 0.0
    if loss.target_bound:
        means = max(means, rules.LEAST_MEANS_SHARE)
        low, high = rules.SPREAD_SHARES
        spread = min(max(0.5 * (noise / rules.SPREAD_NOISE) ** 2, low), high)
    unit = math.sqrt(2.0 * k * d) / (n * level.mu) * d  # spectral noise times features
    moments = rules.MOMENTS_SHARES[-2]
    largest = rules.WORTHY_NOISE[not loss.target_bound]
    if unit > max(largest, d * worthy_noise) * math.sqrt(moments):
        moments = 0.0
    for share in reversed(rules.MOMENTS_SHARES):
        if unit <= rules.LITTLE_NOISE * math.sqrt(share):
            moments = share
    return means, spread, moments, moves_rows


def _pure_shares(
    loss: Loss, design: Design, neighbouring: Neighbouring, level: Level, worthy_noise: float
) -> tuple[float, float, float, bool]:
    """Return the same parts of epsilon."""
    n, d, k = design.n_records, design.n_features, neighbouring.n_changes
    moments = rules.PURE_MOMENTS_SHARE
    deviation = level.part(moments).deviation((d + 1) * (d + 2) // 2)
    unit = math.sqrt(2.0 * k * d) * deviation / n * d
    if unit > max(rules.PURE_MOMENTS_NOISE, d * worthy_noise):
        moments = 0.0
    noise = k * level.deviation(d + 1) / n
    means, spread = rules.PURE_SHARES[noise > rules.PURE_LITTLE_NOISE]
    of_rows = k * level.part(means).deviation(d + 1) * math.sqrt(d) / n
    return means, spread, moments, of_rows < rules.PURE_MEANS_NOISE

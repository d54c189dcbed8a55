"""Release 1: where rows and targets lie.

The vector of a record is ``(u, |u|^2 / 2, t, 1)``: u is its row over the norm bound, t
``1.5 e_y / sqrt(2)`` for classes and ``(y, y^2)`` for numbers in units of their bound
(docs/theory/core.md, Lemma 1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from skdp.algorithms.core.centered_rows import Centering, squared_norms
from skdp.algorithms.core.margin_laws import CONSTANT
from skdp.algorithms.core.noisy_sums import Level, NoisySum
from skdp.mechanisms import NoiseSource
from skdp.privacy.events import Neighbouring
from skdp.problems import Design, Records
from skdp.problems.block import Block
from skdp.problems.rounding import two_norms

#: Weight of a class, whose share log odds need more than the means of rows; least share.
CLASS, _LEAST_SHARE = 1.5, 0.001
#: Directions of shares that the variance of a uniform law counts for.
_KNOWN = 2.0
#: Prior of numbers in units of their bound: variance of the mean; median of the variance, and
#: standard deviation of its logarithm.
_MEAN, VARIANCE, _SPREAD = 0.05, 0.06, 1.5


@dataclass(frozen=True)
class MeansSum:
    """Sum the vectors over the records of a block; `n_classes` is 0 for numbers.

    Of their rows the first `n_features` entries: all or none.
    """

    unit: float
    n_features: int
    n_classes: int
    target_bound: float

    def __call__(self, block: Block) -> np.ndarray:
        squares = squared_norms(block) / self.unit**2
        ones = np.ones(len(squares))
        rows = block.pull_back(ones)[0, : self.n_features] / self.unit
        if self.n_classes:
            codes = block.targets.astype(np.intp)
            targets = block.count(codes, self.n_classes) * (CLASS / math.sqrt(2.0))
        else:
            y = block.targets / self.target_bound
            targets = block.sum(np.column_stack([y, y * y]))
        return np.concatenate([rows, [0.5 * block.sum(squares)], targets, [block.sum(ones)]])


@dataclass(frozen=True)
class Means:
    """What release 1 tells.

    The centering has no offsets yet.
    """

    #: Public or released number of records.
    n_records: float
    #: Deviation of the noise of a mean.
    noise: float
    centering: Centering
    #: Shape (n_classes,). Of the classes; empty for numbers.
    shares: np.ndarray
    #: Posterior deviation of a share, or of the mean of numbers.
    error: float
    #: Of numbers, in units of their bound; 0 and 1 for classes.
    mean: float = 0.0
    deviation: float = 1.0
    #: Posterior deviation of the variance of numbers, over it.
    doubt: float = 0.0


def plan_means(
    n_classes: int, design: Design, neighbouring: Neighbouring, level: Level, has_rows: bool
) -> NoisySum:
    """Calibrate the release by Lemma 1, with the means of rows or without."""
    targets = CLASS**2 if n_classes else 4.0
    alone = math.sqrt(1.25 + has_rows + 0.5 * targets)
    replaced = math.sqrt((4.0 if has_rows else 0.25) + targets)
    return NoisySum(
        design=design,
        neighbouring=neighbouring,
        mu=level.mu,
        is_pure=level.is_pure,
        sensitivity=replaced if neighbouring.is_replaced else alone,
        size=alone,
        n_entries=design.n_features * has_rows + 2 + (n_classes or 2),
        name="means of rows and targets",
        reference="docs/theory/core.md, Lemma 1",
    )


def release_means(
    plan: NoisySum, records: Records, n_classes: int, target_bound: float, noise: NoiseSource
) -> Means:
    """Release the means of the records; the result is a function of the noisy sum."""
    design = plan.design
    released = plan.n_entries - 2 - (n_classes or 2)
    statistic = MeansSum(records.data_norm, released, n_classes, target_bound)
    moved = two_norms(design.n_features, 1.0)  # of a norm and the scale of its row
    noisy, deviation = plan.release(records.total(statistic), noise, moved)
    noisy = np.concatenate([np.zeros(design.n_features - released), noisy])
    is_counted = design.is_slack or not plan.neighbouring.is_replaced
    n = max(float(noisy[-1]), deviation, 1.0) if is_counted else float(design.n_records)
    return found_means(
        noisy[:-1] / n, deviation / n, n, is_counted, n_classes, design.intercept > 0.0
    )


def found_means(
    means: np.ndarray, noise: float, n: float, is_counted: bool, n_classes: int, is_moved: bool
) -> Means:
    """Shrink noisy means by their noise: a function of the release."""
    d = len(means) - 1 - (n_classes or 2)
    mean = means[:d] if is_moved else np.zeros(d)
    square = max(float(mean @ mean), 1e-300)
    mean = mean * max(0.0, 1.0 - d * noise**2 / square)
    mean = mean / max(1.0, float(np.linalg.norm(mean)))
    squared = min(1.0, 2.0 * max(float(means[d]), 0.0) + 2.0 * noise) - float(mean @ mean)
    scale = math.sqrt(min(max(squared, 2.0 * noise, 1e-6), 1.0))
    shares, center, deviation, doubt = np.empty(0), 0.0, 1.0, 0.0
    if n_classes:
        unit = math.sqrt(2.0) / CLASS
        shares, error = _shares(unit * means[d + 1 :], unit * noise)
        shares = shares if is_moved else np.full(n_classes, 1.0 / n_classes)
    else:
        kept = _MEAN / (_MEAN + noise**2)
        error = math.sqrt(kept) * noise
        center = min(max(float(means[d + 1]) * kept, -1.0), 1.0)
        center = center if is_moved else 0.0
        variance, error_of_it = _variance(float(means[d + 2]) - center**2, noise, center)
        deviation, doubt = math.sqrt(variance), error_of_it / variance
    centering = Centering(
        mean=mean,
        scale=scale,
        offsets=np.empty(0),
        n_records=n if is_counted else None,
        errors=(noise / scale, error),
        constant=CONSTANT,
    )
    return Means(n, noise, centering, shares, error, center, deviation, doubt)


def _shares(noisy: np.ndarray, noise: float) -> tuple[np.ndarray, float]:
    """Return posterior means of shares of classes, and the deviation of an untruncated one.

    The prior is normal around 1 / K; its variance is seen, with that of a uniform law before it.
    """
    n_classes = len(noisy)
    off = noisy - noisy.mean()
    prior = 1.0 / (n_classes * (n_classes + 1.0))  # in each of K - 1 directions
    total = (float(off @ off) + _KNOWN * (prior + noise**2)) / (n_classes - 1.0 + _KNOWN)
    kept = max(1.0 - noise**2 / total, 0.0)
    error = math.sqrt(max(kept, 1e-6)) * noise
    shares = 1.0 / n_classes + kept * off
    at = shares / error  # no share is negative: the mean of the truncated law
    shares = shares + error * np.exp(np.maximum(norm.logpdf(at) - norm.logcdf(at), -700.0))
    shares = np.maximum(shares, _LEAST_SHARE)
    return shares / shares.sum(), error


def _variance(noisy: float, noise: float, center: float) -> tuple[float, float]:
    """Return posterior mean and deviation of the variance of numbers; its prior is log-normal."""
    grid = np.geomspace(1e-6, 1.0, 200)
    logs = -0.5 * (np.log(grid / VARIANCE) / _SPREAD) ** 2
    logs -= 0.5 * (grid - noisy) ** 2 / (noise**2 * (1.0 + 4.0 * center**2))
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    mean = float(weights @ grid)
    return mean, math.sqrt(float(weights @ (grid - mean) ** 2))

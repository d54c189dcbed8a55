"""Private centering: one noisy release of the means of rows and targets, and its use.

Gradient descent on rows with a large common part learns that part first and the rest slowly. Here
the rows are moved by a private mean and divided by a private scale, and the model starts from the
private distribution of the targets (docs/theory/preparation.md, section 8).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy.special import erf

from skdp.algorithms.core.centered_rows import Centering, squared_norms
from skdp.algorithms.core.noisy_sums import NoisySum
from skdp.algorithms.legacy_solves import rules
from skdp.algorithms.statistics.margins import PRIOR_VARIANCE
from skdp.mechanisms import NoiseSource
from skdp.privacy.events import Neighbouring
from skdp.privacy.report import Release
from skdp.problems import Design, Loss, Records, SoftmaxLoss
from skdp.problems.block import Block

#: Weights of the squared norm of a row in the release, and of its count.
_SQUARE_WEIGHT = _COUNT_WEIGHT = 0.5


def share_of_ones(noisy: float, deviation: float) -> float:
    """Return the posterior mean of the share of a class under a uniform prior.

    Parameters
    ----------
    noisy : float
        The share with normal noise.
    deviation : float
        Standard deviation of the noise, > 0.
    """
    if not math.isfinite(noisy):
        return 0.5
    noisy = min(max(noisy, -8.0 * deviation), 1.0 + 8.0 * deviation)
    ends = np.clip([noisy - 10.0 * deviation, noisy + 10.0 * deviation], 0.0, 1.0)
    low, high = np.arcsin(np.sqrt(ends))
    # uniform angles have the density of beta(1/2, 1/2)
    shares = np.sin(low + (high - low) * (np.arange(1000) + 0.5) / 1000) ** 2
    logs = (rules.SHARE_PRIOR - 0.5) * np.log(shares * (1.0 - shares))
    logs -= 0.5 * ((noisy - shares) / deviation) ** 2
    weights = np.exp(logs - logs.max())
    share = float(weights @ shares / weights.sum())
    return min(max(share, rules.LEAST_SHARE), 1.0 - rules.LEAST_SHARE)


class _Targets(ABC):
    """The coordinates of the release that come from targets."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of coordinates."""

    @property
    @abstractmethod
    def unit(self) -> float:
        """Mean of the targets for a mean coordinate of 1."""

    @property
    @abstractmethod
    def replaced(self) -> float:
        """Squared change of the coordinates by a record replaced."""

    @property
    @abstractmethod
    def added(self) -> float:
        """Squared change of the coordinates by a record added."""

    @abstractmethod
    def sum(self, block: Block) -> np.ndarray:
        """Sum the coordinates over the records of a block, shape (size,)."""

    @abstractmethod
    def model(self, means: np.ndarray, deviation: float) -> tuple[np.ndarray, float]:
        """Return offsets and target variance from noisy means of the coordinates."""


@dataclass(frozen=True, kw_only=True)
class _NoTargets(_Targets):
    n_outputs: int
    size, unit, replaced, added = 0, 0.0, 0.0, 0.0

    def sum(self, block: Block) -> np.ndarray:
        return np.empty(0)

    def model(self, means: np.ndarray, deviation: float) -> tuple[np.ndarray, float]:
        return np.zeros(self.n_outputs), PRIOR_VARIANCE


@dataclass(frozen=True, kw_only=True)
class _BinaryTargets(_Targets):
    """``1.5 (t - 1/2)`` for targets t in {0, 1}; the offset is the log odds."""

    weight: float
    size = 1

    @property
    def unit(self) -> float:
        return 1.0 / self.weight

    @property
    def replaced(self) -> float:
        return self.weight**2

    @property
    def added(self) -> float:
        return 0.25 * self.weight**2

    def sum(self, block: Block) -> np.ndarray:
        return self.weight * np.array([block.sum(block.targets - 0.5)])

    def model(self, means: np.ndarray, deviation: float) -> tuple[np.ndarray, float]:
        noisy = 0.5 + float(means[0]) / self.weight
        share = share_of_ones(noisy, deviation / self.weight)
        return np.array([math.log(share / (1.0 - share))]), PRIOR_VARIANCE


@dataclass(frozen=True, kw_only=True)
class _ClassTargets(_Targets):
    """Indicators of the classes over sqrt(2); offsets are centered logs of the shares."""

    loss: SoftmaxLoss
    unit, replaced, added = math.sqrt(2.0), 1.0, 0.5

    @property
    def size(self) -> int:
        return self.loss.n_classes

    def sum(self, block: Block) -> np.ndarray:
        return block.count(block.targets, self.size) / math.sqrt(2.0)

    def model(self, means: np.ndarray, deviation: float) -> tuple[np.ndarray, float]:
        surplus = math.sqrt(2.0) * means - 1.0 / self.size
        surplus -= surplus.mean()
        logits = np.zeros(self.size)
        if (surplus**2).sum() > 8.0 * (self.size - 1) * deviation**2:
            logits = np.log(np.clip(1.0 / self.size + surplus, 0.1 / self.size, 1.0))
        return logits @ self.loss.basis, PRIOR_VARIANCE


@dataclass(frozen=True, kw_only=True)
class _NumericTargets(_Targets):
    """Targets and their squares, in units of the bound; the offset is the mean.

    Without an intercept the squares alone. With `clip` below 1 targets are clipped to that part of
    the bound, of which they are in units: to first order around 0 the offset is the mean of a
    normal law with the prior variance whose clipped mean is the released one. Up to a half of the
    bound there are no squares, since those of clipped targets tell little of the variance.
    """

    bound: float
    has_mean: bool
    clip: float = 1.0

    @property
    def has_square(self) -> bool:
        return self.clip > 0.5

    @property
    def size(self) -> int:
        return self.has_mean + self.has_square

    @property
    def unit(self) -> float:
        return self.clip * self.bound

    @property
    def replaced(self) -> float:
        return 4.0 if self.has_mean else 1.0

    @property
    def added(self) -> float:
        return 1.0 + self.has_square if self.has_mean else 1.0

    def sum(self, block: Block) -> np.ndarray:
        unit = block.targets / (self.bound * self.clip)
        if self.clip < 1.0:
            unit = np.clip(unit, -1.0, 1.0)
        sums = (block.sum(unit), block.weighted(unit) @ unit)
        return np.array(sums[not self.has_mean : 1 + self.has_square])

    def model(self, means: np.ndarray, deviation: float) -> tuple[np.ndarray, float]:
        mean, clip = 0.0, self.clip
        if self.has_mean:
            # what clipping leaves of a small mean
            left = erf(clip / math.sqrt(2.0 * PRIOR_VARIANCE)) if clip < 1.0 else 1.0
            shrunk = clip * float(means[0]) * left * rules.MEAN_SPREAD
            mean = shrunk / (left**2 * rules.MEAN_SPREAD + (clip * deviation) ** 2)
            mean = min(max(mean, -1.0), 1.0)
        offset = np.array([mean * self.bound])
        if not self.has_square:
            return offset, PRIOR_VARIANCE
        square = clip**2 * float(means[-1])
        data, prior = (2.0 * clip - 1.0) / deviation**2, 1.0 / rules.PRIOR_SPREAD
        variance = (max(square - mean**2, 0.0) * data + PRIOR_VARIANCE * prior) / (data + prior)
        return offset, min(max(variance, 1e-4), 1.0)


def _targets(loss: Loss, has_intercept: bool, clip: float = 1.0) -> _Targets:
    if loss.target_bound:
        return _NumericTargets(bound=loss.target_bound, has_mean=has_intercept, clip=clip)
    if has_intercept and loss.link == "logit":
        return _BinaryTargets(weight=rules.LABEL_WEIGHT)
    if has_intercept and isinstance(loss, SoftmaxLoss):
        return _ClassTargets(loss=loss)
    return _NoTargets(n_outputs=loss.n_outputs)


@dataclass(frozen=True, kw_only=True)
class MeanSums:
    """What a :class:`CenteringPlan` sums over records.

    Attributes
    ----------
    unit : float
        Bound on the norm of a row.
    n_moved : int
        Number of features whose means are released: all or none.
    targets : _Targets
    count_weight : float
        Of the number of records, or of their weights; 0 leaves it out.
    square_shift : float
        Subtracted from the squared norm of each row.
    """

    unit: float
    n_moved: int
    targets: _Targets
    count_weight: float
    square_shift: float

    def __call__(self, block: Block) -> np.ndarray:
        squares = squared_norms(block)
        of_rows = block.pull_back(np.ones(len(squares)))[0, : self.n_moved] / self.unit
        square, count = _SQUARE_WEIGHT * block.sum(squares) / self.unit**2, np.empty(0)
        if self.count_weight:
            number = block.sum(np.ones(len(squares)))
            square -= self.square_shift * _SQUARE_WEIGHT * number
            count = np.array([self.count_weight * number])
        return np.concatenate([of_rows, [square], self.targets.sum(block), count])


@dataclass(frozen=True, kw_only=True)
class CenteringPlan:
    """A release of ``sum (u, |u|^2 / 2, t)``, or ``(u, (|u|^2 - 1/2) / 2, t, 1/2)``, over records.

    u is a row over its bound, t has the coordinates of the target that the loss needs. Without an
    intercept nothing may be moved: u and the mean of targets are left out. With much noise u is
    left out, too. The second form, whose last entry counts the records, is for add/remove: means
    are then quotients, whatever the public number of records is. Where weights of records may be
    below 1, the first form has such an entry, too, since their sum is private.

    Attributes
    ----------
    loss : Loss
    sum : NoisySum
    moves_rows : bool
        Whether the means of rows are released. Without them the sensitivity is 0.5 to 0.84 times
        as large.
    target_clip : float, default=1.0
        Part of the bound on numeric targets that they are clipped to.
    count_weight : float, default=0.0
        Of the number of records, or of the sum of their weights; 0: it is not released.
    """

    loss: Loss
    sum: NoisySum
    moves_rows: bool
    target_clip: float = 1.0
    count_weight: float = 0.0

    @property
    def has_count(self) -> bool:
        """Whether the records are counted."""
        return self.count_weight > 0.0

    def describe(self) -> Release:
        """Describe the release."""
        return self.sum.describe()

    def scale_error(self, centering: Centering) -> float:
        """Noise of the squared scale of rows, relative to it; no more than 1."""
        n = centering.n_records or self.sum.design.n_records
        deviation = self.sum.deviation / n / _SQUARE_WEIGHT
        return min(deviation / centering.scale**2, 1.0)

    def release(self, records: Records, noise: NoiseSource) -> Centering:
        """Release the means of the records; the result is a function of them."""
        design, unit = self.sum.design, records.data_norm
        d = design.n_features if self.moves_rows else 0
        targets = _targets(self.loss, design.intercept > 0, self.target_clip)
        shift = 0.0 if self.sum.neighbouring.is_replaced else 0.5
        statistic = MeanSums(
            unit=unit,
            n_moved=d,
            targets=targets,
            count_weight=self.count_weight,
            square_shift=shift,
        )
        sums, scale = self.sum.release(records.total(statistic), noise)
        n = self._n_records(float(sums[-1]), scale) if self.has_count else design.n_records
        means, deviation = sums[: len(sums) - self.has_count] / n, scale / n
        means[d] += shift * _SQUARE_WEIGHT
        mean = _shrunk(means[:d], deviation)
        error = deviation / _SQUARE_WEIGHT
        square = min(1.0, max(0.0, float(means[d]) / _SQUARE_WEIGHT) + error)
        spread = min(max(square - float(mean @ mean), error, 1e-6), 1.0)
        if not d:
            mean = np.zeros(design.n_features)
        offsets, variance = targets.model(means[d + 1 :], deviation)
        of_rows = deviation / math.sqrt(spread) if d else 1.0  # unknown means: all is error
        of_targets = deviation * targets.unit
        if not targets.size:  # unknown offsets
            of_rows, of_targets = 0.0, 1.0
        return Centering(
            mean=mean,
            scale=math.sqrt(spread),
            errors=(of_rows, of_targets),
            offsets=offsets,
            target_variance=variance,
            n_records=n if self.has_count else None,
        )

    def _n_records(self, count: float, scale: float) -> float:
        """Return the public number of records, or the released one if they contradict each other.

        A public number that is right has no noise then. Of weights always their released sum, which
        is at least its noise. `scale` is that of the noise.
        """
        n, ratio = float(self.sum.design.n_records), self.sum.design.size_ratio
        found, error = count / self.count_weight, scale / self.count_weight
        if self.sum.design.is_slack:
            return min(max(found, error), n * ratio)
        if abs(found - n) > rules.CONTRADICTION * error:
            return min(max(found, n / ratio), n * ratio)
        return n


def plan_centering(
    loss: Loss,
    design: Design,
    neighbouring: Neighbouring,
    mu: float,
    moves_rows: bool = True,
    is_pure: bool = False,
) -> CenteringPlan:
    """Calibrate the release as :class:`NoisySum` does, by Lemma M."""
    moves_rows = moves_rows and design.intercept > 0
    given = loss, design, neighbouring, mu, moves_rows, is_pure
    (means, weight), clip = _sum(*given, 1.0), 1.0
    if loss.target_bound and design.intercept > 0:
        deviation = means.deviation / design.n_records
        clip = min(max(rules.TARGET_NOISE / deviation, rules.LEAST_TARGET_CLIP), 1.0)
        means, weight = _sum(*given, clip)
    return CenteringPlan(
        loss=loss, sum=means, moves_rows=moves_rows, target_clip=clip, count_weight=weight
    )


def _sum(
    loss: Loss,
    design: Design,
    neighbouring: Neighbouring,
    mu: float,
    moves_rows: bool,
    is_pure: bool,
    target_clip: float,
) -> tuple[NoisySum, float]:
    """Return the release with the sensitivity of Lemma M, and the weight of the count."""
    targets = _targets(loss, design.intercept > 0, target_clip)
    is_replaced, count = neighbouring.is_replaced, _COUNT_WEIGHT
    if is_replaced:
        square = (4.0 if moves_rows else _SQUARE_WEIGHT**2) + targets.replaced
        count = 0.0
        if design.is_slack:  # what the record of weight 0 leaves for the count of another one
            alone = moves_rows + _SQUARE_WEIGHT**2 + targets.added
            count = math.sqrt(max(square - alone, _COUNT_WEIGHT**2))
            square = max(square, alone + count**2)
    else:  # of (u, b (|u|^2 - 1/2), c)
        square = moves_rows + 0.25 * _SQUARE_WEIGHT**2 + count**2 + targets.added
    norm = math.sqrt(square)
    means = NoisySum(
        design=design,
        neighbouring=neighbouring,
        mu=mu,
        sensitivity=norm,
        size=norm,
        n_entries=design.n_features * moves_rows + 1 + targets.size + (count > 0.0),
        name="means of rows and targets" if moves_rows else "mean square norm and targets' means",
        reference="docs/theory/preparation.md, Lemma M",
        is_pure=is_pure,
    )
    return means, count


def _shrunk(mean: np.ndarray, deviation: float) -> np.ndarray:
    """Shrink a noisy mean towards 0 (James and Stein), and to norm 1."""
    square = float(mean @ mean)
    if not square > 0.0:
        return np.zeros_like(mean)
    mean = mean * max(0.0, 1.0 - len(mean) * deviation**2 / square)
    return mean / max(1.0, float(np.linalg.norm(mean)))

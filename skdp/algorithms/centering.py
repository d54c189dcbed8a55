"""Private centering: one noisy release of the means of rows and targets, and its use.

Gradient descent on rows with a large common part learns that part first and the rest slowly. Here
the rows are moved by a private mean and divided by a private scale, and the model starts from the
private distribution of the targets (docs/theory/noisy_gradient_descent.md, section 2).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.special import erf
from sklearn.utils.extmath import row_norms

from skdp.algorithms.threads import Threads
from skdp.mechanisms import GaussianMechanism, NoiseSource, SecretLabels
from skdp.privacy.events import Neighbouring
from skdp.privacy.report import Release
from skdp.problems import ROUNDING_SLACK, Design, LogisticLoss, Loss, Records, SoftmaxLoss
from skdp.problems.records import Block
from skdp.problems.rounding import EPS, chain, tree_sum

#: Value of the constant feature beside centered rows, whose root mean square norm is about 1.
CONSTANT = 0.2
#: Blocks of records in one part of centered rows: many steps are short of time, not of cache.
_LONGER = 4
#: Weight of the squared norm of a row in the release.
_SQUARE_WEIGHT = 0.5
#: Mean and variance of the prior of the targets' variance, in units of the squared bound on them.
PRIOR_VARIANCE, _PRIOR_SPREAD = 0.15, 0.01
#: Variance of the prior of the targets' mean, in units of the squared bound on them.
_MEAN_SPREAD = 0.05
#: Noise of the targets' mean, in units of the bound on them, above which targets are clipped, and
#: the least bound that they are clipped to.
_TARGET_NOISE, _LEAST_TARGET_CLIP = 0.06, 0.25


@dataclass(frozen=True)
class Centering:
    """What is known of rows and targets before the first gradient step.

    Attributes
    ----------
    mean : ndarray of shape (n_features,)
        Of the rows in units of the data norm; 0 without an intercept.
    scale : float
        Root mean square distance of the rows from it, in (0, 1].
    offsets : ndarray of shape (n_outputs,)
        Margins of a constant model.
    target_variance : float
        Variance of the targets around it in units of the squared bound on them.
    """

    mean: np.ndarray
    scale: float
    offsets: np.ndarray
    target_variance: float

    @classmethod
    def unknown(cls, n_features: int, n_outputs: int) -> Centering:
        """Return the centering without a release: none."""
        return cls(np.zeros(n_features), 1.0, np.zeros(n_outputs), PRIOR_VARIANCE)


class _Targets(ABC):
    """The coordinates of the release that come from targets.

    Attributes
    ----------
    size : int
    replaced, added : float
        Squared change of the coordinates by a record replaced, and by one added.
    """

    size: int
    replaced: float
    added: float

    @abstractmethod
    def sum(self, targets: np.ndarray) -> np.ndarray:
        """Sum the coordinates over some records, shape (size,)."""

    @abstractmethod
    def model(self, means: np.ndarray, deviation: float) -> tuple[np.ndarray, float]:
        """Return offsets and target variance from noisy means of the coordinates."""


@dataclass(frozen=True)
class _NoTargets(_Targets):
    n_outputs: int
    size, replaced, added = 0, 0.0, 0.0

    def sum(self, targets: np.ndarray) -> np.ndarray:
        return np.empty(0)

    def model(self, means: np.ndarray, deviation: float) -> tuple[np.ndarray, float]:
        return np.zeros(self.n_outputs), PRIOR_VARIANCE


class _BinaryTargets(_Targets):
    """``t - 1/2`` for targets t in {0, 1}; the offset is the log odds."""

    size, replaced, added = 1, 1.0, 0.25

    def sum(self, targets: np.ndarray) -> np.ndarray:
        return np.array([targets.sum() - 0.5 * len(targets)])

    def model(self, means: np.ndarray, deviation: float) -> tuple[np.ndarray, float]:
        share = 0.5 + float(means[0]) * 0.04 / (0.04 + deviation**2)
        share = min(max(share, 0.02), 0.98)
        return np.array([math.log(share / (1.0 - share))]), PRIOR_VARIANCE


class _ClassTargets(_Targets):
    """Indicators of the classes over sqrt(2); offsets are centered logs of the shares."""

    replaced, added = 1.0, 0.5

    def __init__(self, loss: SoftmaxLoss) -> None:
        self.loss, self.size = loss, loss.n_classes

    def sum(self, targets: np.ndarray) -> np.ndarray:
        return np.bincount(targets, minlength=self.size) / math.sqrt(2.0)

    def model(self, means: np.ndarray, deviation: float) -> tuple[np.ndarray, float]:
        surplus = math.sqrt(2.0) * means - 1.0 / self.size
        surplus -= surplus.mean()
        logits = np.zeros(self.size)
        if (surplus**2).sum() > 8.0 * (self.size - 1) * deviation**2:
            logits = np.log(np.clip(1.0 / self.size + surplus, 0.1 / self.size, 1.0))
        return logits @ self.loss.basis, PRIOR_VARIANCE


class _NumericTargets(_Targets):
    """Targets and their squares, in units of the bound; the offset is the mean.

    Without an intercept the squares alone. With `clip` below 1 targets are clipped to that part of
    the bound, of which they are in units: to first order around 0 the offset is the mean of a
    normal law with the prior variance whose clipped mean is the released one. Up to a half of the
    bound there are no squares, since those of clipped targets tell little of the variance.
    """

    def __init__(self, bound: float, has_intercept: bool, clip: float = 1.0) -> None:
        self.bound, self.has_mean, self.clip = bound, has_intercept, clip
        self.has_square = clip > 0.5
        self.size = has_intercept + self.has_square
        self.replaced, self.added = (4.0, 1.0 + self.has_square) if has_intercept else (1.0, 1.0)

    def sum(self, targets: np.ndarray) -> np.ndarray:
        unit = targets / (self.bound * self.clip)
        if self.clip < 1.0:
            unit = np.clip(unit, -1.0, 1.0)
        sums = (unit.sum(), unit @ unit)
        return np.array(sums[not self.has_mean : 1 + self.has_square])

    def model(self, means: np.ndarray, deviation: float) -> tuple[np.ndarray, float]:
        mean, clip = 0.0, self.clip
        if self.has_mean:
            # what clipping leaves of a small mean
            left = erf(clip / math.sqrt(2.0 * PRIOR_VARIANCE)) if clip < 1.0 else 1.0
            shrunk = clip * float(means[0]) * left * _MEAN_SPREAD
            mean = shrunk / (left**2 * _MEAN_SPREAD + (clip * deviation) ** 2)
            mean = min(max(mean, -1.0), 1.0)
        offset = np.array([mean * self.bound])
        if not self.has_square:
            return offset, PRIOR_VARIANCE
        square = clip**2 * float(means[-1])
        data, prior = (2.0 * clip - 1.0) / deviation**2, 1.0 / _PRIOR_SPREAD
        variance = (max(square - mean**2, 0.0) * data + PRIOR_VARIANCE * prior) / (data + prior)
        return offset, min(max(variance, 1e-4), 1.0)


def _targets(loss: Loss, has_intercept: bool, clip: float = 1.0) -> _Targets:
    if loss.target_bound:
        return _NumericTargets(loss.target_bound, has_intercept, clip)
    if has_intercept and isinstance(loss, LogisticLoss):
        return _BinaryTargets()
    if has_intercept and isinstance(loss, SoftmaxLoss):
        return _ClassTargets(loss)
    return _NoTargets(loss.n_outputs)


@dataclass(frozen=True)
class CenteringPlan:
    """A release of ``sum (u, |u|^2 / 2, t)`` over the records.

    u is a row over its bound, t has the coordinates of the target that the loss needs. Without an
    intercept nothing may be moved: u and the mean of targets are left out. With much noise u is
    left out, too.

    Attributes
    ----------
    loss : Loss
    design : Design
    mechanism : GaussianMechanism
    moves_rows : bool
        Whether the means of rows are released. Without them the sensitivity is 0.5 to 0.84 times
        as large.
    target_clip : float, default=1.0
        Part of the bound on numeric targets that they are clipped to.
    """

    loss: Loss
    design: Design
    mechanism: GaussianMechanism
    moves_rows: bool
    target_clip: float = 1.0

    @property
    def _n_means(self) -> int:
        return self.design.n_features if self.moves_rows else 0

    @property
    def _targets(self) -> _Targets:
        return _targets(self.loss, self.design.intercept > 0, self.target_clip)

    def describe(self, neighbouring: Neighbouring) -> Release:
        """Describe the release."""
        return self.mechanism.describe(
            "means of rows and targets"
            if self.moves_rows
            else "mean square norm and targets' means",
            self._n_means + 1 + self._targets.size,
            self.design.n_records,
            "docs/theory/noisy_gradient_descent.md, Lemma 1",
            neighbouring,
        )

    def release(self, records: Records, noise: NoiseSource) -> Centering:
        """Release the means of the records; the result is a function of them."""
        d, unit, targets = self._n_means, records.data_norm, self._targets

        def statistic(block: Block) -> np.ndarray:
            squares = squared_norms(block)
            of_rows = block.pull_back(np.ones(len(squares)))[0, :d] / unit
            square = _SQUARE_WEIGHT * squares.sum() / unit**2
            return np.concatenate([of_rows, [square], targets.sum(block.targets)])

        n = self.design.n_records
        means = self.mechanism.release(records.total(statistic), noise) / n
        deviation = self.mechanism.noise_scale / n
        mean = _shrunk(means[:d], deviation)
        error = deviation / _SQUARE_WEIGHT
        square = min(1.0, max(0.0, float(means[d]) / _SQUARE_WEIGHT) + error)
        spread = min(max(square - float(mean @ mean), error, 1e-6), 1.0)
        if not d:
            mean = np.zeros(self.design.n_features)
        return Centering(mean, math.sqrt(spread), *targets.model(means[d + 1 :], deviation))


def plan_centering(
    loss: Loss, design: Design, neighbouring: Neighbouring, mu: float, moves_rows: bool = True
) -> CenteringPlan:
    """Calibrate the release to mu-Gaussian differential privacy, by Lemma 1."""
    moves_rows = moves_rows and design.intercept > 0
    sensitivity, clip = _sensitivity(loss, design, neighbouring, moves_rows, 1.0), 1.0
    if loss.target_bound and design.intercept > 0:
        deviation = sensitivity / (mu * design.n_records)
        clip = min(max(_TARGET_NOISE / deviation, _LEAST_TARGET_CLIP), 1.0)
        sensitivity = _sensitivity(loss, design, neighbouring, moves_rows, clip)
    return CenteringPlan(loss, design, GaussianMechanism(sensitivity, 1.0 / mu), moves_rows, clip)


def _sensitivity(
    loss: Loss, design: Design, neighbouring: Neighbouring, moves_rows: bool, target_clip: float
) -> float:
    """Return the sensitivity of Lemma 1 with rounding."""
    targets = _targets(loss, design.intercept > 0, target_clip)
    square = 1.0 + _SQUARE_WEIGHT**2  # of (u, b |u|^2)
    if not moves_rows:
        square = _SQUARE_WEIGHT**2
    elif neighbouring is Neighbouring.REPLACE_ONE:
        square = 4.0
    is_replaced = neighbouring is Neighbouring.REPLACE_ONE
    norm = math.sqrt(square + (targets.replaced if is_replaced else targets.added))
    return norm * ROUNDING_SLACK + sum_rounding(design, norm)


def sum_rounding(design: Design, bound: float) -> float:
    """Bound the rounding of two sums over records of vectors of a bounded norm."""
    n = design.n_records * design.size_ratio
    return float((chain(n, _LONGER * design.block_size) + 16.0) * EPS * n * bound)


def squared_norms(block: Block) -> np.ndarray:
    """Squared Euclidean norms of bounded rows, without the intercept feature; shape (m,)."""
    if block.lengths is not None:
        return block.lengths**2
    squares = row_norms(block.matrix, squared=True)
    return squares if block.scale is None else squares * block.scale**2


def _shrunk(mean: np.ndarray, deviation: float) -> np.ndarray:
    """Shrink a noisy mean towards 0 (James and Stein), and to norm 1."""
    square = float(mean @ mean)
    if not square > 0.0:
        return np.zeros_like(mean)
    mean = mean * max(0.0, 1.0 - len(mean) * deviation**2 / square)
    return mean / max(1.0, float(np.linalg.norm(mean)))


class CenteredRows:
    """View records as rows ``A = ((u - mean) / scale, 0.2)``; nothing is copied but where said.

    The constant is missing without an intercept. Weights and sums are moved between A and the rows
    ``(x, 1)``.

    Parameters
    ----------
    records : Records
    centering : Centering

    Attributes
    ----------
    shift : ndarray of shape (n_features,)
        The mean of the rows in units of the scale.
    norms : list of list of ndarray
        Upper bounds on the norms of A, for each block and part of it.
    norm_bound : float
        Bound for every conceivable row.
    """

    def __init__(self, records: Records, centering: Centering) -> None:
        self.has_intercept = records.intercept > 0.0
        self._records = records.with_intercept(1.0 if self.has_intercept else 0.0)
        self._unit = records.data_norm * centering.scale
        self.shift = centering.mean / centering.scale
        self._constant = CONSTANT if self.has_intercept else 0.0
        self._threads = Threads() if sp.issparse(records.matrix) else None
        mean = float(np.linalg.norm(centering.mean))
        self.norm_bound = (1.0 + mean) / centering.scale + self._constant
        self.amplification = self.norm_bound / CONSTANT if self.has_intercept else 1.0
        #: Error of a squared norm of A relative to it, in units of that of ``|u|^2`` to ``|u|^2``.
        self.cancellation = self._cancellation()
        self._all = self._kept(self._slices(records.n_records))
        self._all_norms = [self._norms(block) for block in self._made(self._all)]
        self._parts, self.norms = [self._all], [self._all_norms]

    def divide(self, n_blocks: int, noise: NoiseSource) -> None:
        """Divide the records into blocks by independent secret labels (docs/theory/order.md).

        Rows of a block are gathered whenever they are needed, but those of a CSR matrix once.
        """
        if n_blocks == len(self.norms):
            return
        if n_blocks == 1:
            self._parts, self.norms = [self._all], [self._all_norms]
            return
        norms = np.concatenate(self._all_norms)
        parts = [
            [members[part] for part in self._slices(len(members))]
            for members in SecretLabels(n_blocks, noise).members(self._records.n_records)
        ]
        self.norms = [[norms[positions] for positions in block] for block in parts]
        self._parts = [self._kept(block) if self._threads else block for block in parts]

    def _slices(self, n: int) -> list[slice]:
        """Cut n records into parts; of sparse rows four in place of one, for threads to share."""
        size = _LONGER * self._records.block_size
        if self._threads is not None and n > self._records.block_size:
            size = -(-n // (4 * -(-n // size)))
        return [slice(i, min(i + size, n)) for i in range(0, max(n, 1), size)]

    def _kept(self, parts: Sequence[slice | np.ndarray]) -> Sequence[slice | np.ndarray | Block]:
        """Make the parts once, but for rows in single precision."""
        is_double = self._records.matrix.dtype == np.float64
        return list(map(self._block, parts)) if is_double else parts

    def _made(self, parts: Sequence[slice | np.ndarray | Block]) -> Iterator[Block]:
        return map(self._block, parts)

    def _block(self, part: slice | np.ndarray | Block) -> Block:
        return part if isinstance(part, Block) else self._records.block(part)

    def block(self, k: int) -> list[Block]:
        """Return the parts of a block."""
        return list(self._made(self._parts[k]))

    def total(self, statistic: Callable[[Block, np.ndarray], np.ndarray], k: int) -> np.ndarray:
        """Sum a statistic of parts and the norms in them over the records of block k, in a tree."""
        return self._sum(statistic, self._parts[k], self.norms[k])

    def full_total(self, statistic: Callable[[Block, np.ndarray], np.ndarray]) -> np.ndarray:
        """Sum a statistic over all records, in their order."""
        return self._sum(statistic, self._all, self._all_norms)

    def _sum(
        self,
        statistic: Callable[[Block, np.ndarray], np.ndarray],
        parts: Sequence[slice | np.ndarray | Block],
        norms: Sequence[np.ndarray],
    ) -> np.ndarray:
        """Sum over parts; those of sparse rows in threads, since their products have none."""
        if self._threads is None or len(parts) == 1:
            return tree_sum(map(statistic, self._made(parts), norms))

        def of_part(part: slice | np.ndarray | Block, norms: np.ndarray) -> np.ndarray:
            return statistic(self._block(part), norms)

        return tree_sum(self._threads.map(of_part, parts, norms))

    def weights(self, weights: np.ndarray) -> np.ndarray:
        """Turn weights of A into weights of ``(x, 1)``, or of x without an intercept."""
        if not self.has_intercept:
            return weights / self._unit
        out = weights / self._unit
        out[:, -1] = self._constant * weights[:, -1] - weights[:, :-1] @ self.shift
        return out

    def coefficients(
        self, weights: np.ndarray, offsets: np.ndarray, intercept: float
    ) -> np.ndarray:
        """Turn weights of A and margins beside them into flat weights of ``(x, intercept)``."""
        point = self.weights(weights)
        if intercept:
            point[:, -1] = (point[:, -1] + offsets) / intercept
        return point.ravel()

    def sums(self, sums: np.ndarray) -> np.ndarray:
        """Turn ``sum_i r_i (x_i, 1)`` into ``sum_i r_i A_i``."""
        out = sums / self._unit
        if self.has_intercept:
            out[:, :-1] -= sums[:, -1:] * self.shift
            out[:, -1] = self._constant * sums[:, -1]
        return out

    def products(self, gram: np.ndarray) -> np.ndarray:
        """Turn ``sum_i r_i (x_i, 1) (x_i, 1)'`` into ``sum_i r_i A_i A_i'``."""
        return self.sums(self.sums(gram).T)

    def _cancellation(self) -> float:
        """Bound ``(|u| + |m|)^2 / (scale |A|)^2`` over all rows (Lemma 4)."""
        if not self.has_intercept:
            return 1.0
        off_center = 9.0 * max(1.0, float(np.linalg.norm(self.shift)) / CONSTANT) ** 2
        return min(self.amplification**2, off_center)

    def _norms(self, block: Block) -> np.ndarray:
        squares = squared_norms(block) / self._unit**2
        if self.has_intercept:
            shift = np.append(self.shift / self._unit, 0.0)[None, :]
            squares -= 2.0 * block.margins(shift)
            # the products cancel: an upper bound on their rounding is added
            squares += self.shift @ self.shift + self._constant**2
            d = len(self.shift)
            squares += 4.0 * (d + 8) * EPS * (self.norm_bound - self._constant) ** 2
        return np.sqrt(np.maximum(squares, 0.0))

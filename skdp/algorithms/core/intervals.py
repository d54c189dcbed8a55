"""A noisy Newton step from the fitted model: debiased coefficients and their deviations.

Score, curvature and squared scores are released together. Theory: docs/theory/core.md, section 12.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from skdp.algorithms.core.centered_rows import CenteredRecords
from skdp.algorithms.core.noisy_sums import NoisySum
from skdp.algorithms.core.second_moments import LARGEST_NOISE
from skdp.mechanisms import NoiseSource
from skdp.privacy.events import Neighbouring
from skdp.problems import Design, Loss, SoftmaxLoss
from skdp.problems.block import Block
from skdp.problems.rounding import two_margins, two_norms, two_products

#: Part of the squared mu, and most coefficients of all outputs with the constants.
INTERVALS_SHARE, LARGEST = 0.5, 500
#: Lengths of curvatures and of squared scores in the vector of a record; that of its score is 1.
_CURVATURE, _SQUARES = math.sqrt(2.0), 0.5
#: Noise over the scatter of scores that longer rows and residuals may bring; clips of residuals of
#: numbers in their deviations: the least, that of an exponential tail, the largest; of classes;
#: records over those for which an average curvature is hidden that longer rows have to leave.
_ROOM, _CLIPS, _CLASSES, _SEEN = 0.75, (1.5, 4.0, 12.0), 2.0, 100.0
#: Records whose rows are shortened by a part of 1 over this to the norm bound do not count.
_FADING = 10.0
#: Eigenvalues of the curvature below so many deviations of its noise are hidden; part of the
#: variance of a coefficient from hidden directions above which its interval has no ends.
HIDDEN, _LOST = 2.0, 0.5


@dataclass(frozen=True, kw_only=True)
class NewtonTerms:
    """Sum scores, curvatures and squared scores of rows A over their squared norm, if above 1.

    In coordinates ``(x, 1)``; each is at most its length in the Frobenius norm.
    """

    loss: Loss
    #: Shape (k, width), of ``(x, 1)``; margins beside them have shape (k,).
    weights: np.ndarray
    offsets: np.ndarray
    #: Largest residual.
    limit: float

    def __call__(self, block: Block, norms: np.ndarray) -> np.ndarray:
        k, short = len(self.weights), 1.0 / np.maximum(norms, 1.0) ** 2
        if block.scale is not None:
            short = short * np.maximum(1.0 - _FADING * (1.0 - block.scale), 0.0)
        margins = block.margins(self.weights).reshape(-1, k) + self.offsets
        scores, bends = self._derivatives(margins, block.targets)
        scores = short[:, None] * scores
        parts = [block.pull_back(scores).ravel()]
        for a, b in np.ndindex(k, k):
            parts.append(_CURVATURE * block.gram(short * bends[:, a, b]).ravel())
            parts.append(_SQUARES * block.gram(scores[:, a] * scores[:, b]).ravel())
        return np.concatenate(parts)

    def _derivatives(
        self, margins: np.ndarray, targets: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return residuals over their limit, and curvatures over their largest norm."""
        loss = self.loss
        if isinstance(loss, SoftmaxLoss):
            p, residuals = loss.probabilities(margins), loss.derivative(margins, targets)
            mean = p @ loss.basis
            bends = np.einsum("mc,ca,cb->mab", p, loss.basis, loss.basis, optimize=True)
            bends -= mean[:, :, None] * mean[:, None]
            return residuals / self.limit, 2.0 * bends
        residuals = loss.derivative(margins[:, 0], targets)[:, None] / self.limit
        if loss.has_odds:
            return residuals, 4.0 * loss.second_derivative(margins, targets)[:, None]
        # Huber's, with a derivative that falls from 1 to 0 between a half and 1.5
        sizes = np.minimum(np.abs(residuals), 1.5)
        over = np.maximum(sizes - 0.5, 0.0)
        return np.copysign(sizes - 0.5 * over**2, residuals), (1.0 - over)[:, None]


@dataclass(frozen=True, kw_only=True, eq=False)
class Newton:
    """What a release tells of a Newton step: no exact sum and no noise."""

    #: Shape (k, width), of rows A, where the step starts.
    weights: np.ndarray
    #: Means, of shape (k, width) and twice (k * width, k * width).
    score: np.ndarray
    curvature: np.ndarray
    squares: np.ndarray
    #: Deviations of the noise of an entry of the score, and of entries on the diagonals.
    errors: tuple[float, float, float]
    n_records: float
    #: Of rows A.
    unit: float
    #: Shape (n_scores, k).
    mix: np.ndarray

    def debiased(
        self, along: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return coefficients of rows x after the step, their deviations, and which are hidden.

        Or sums of coefficients times the rows of `along`, of shape (n_sums, n_features). The
        deviations are of the noise and of the sample; shape (n_scores, n_features or n_sums).
        """
        (k, width), (of_score, of_curvature, of_squares) = self.score.shape, self.errors
        values, vectors = np.linalg.eigh(self.curvature)
        seen = np.maximum(values, of_curvature)
        inverse = (vectors / seen) @ vectors.T
        step = -(inverse @ self.score.ravel()).reshape(k, width)
        # the covariance of the curvature's noise times the step
        products = np.kron(np.eye(k), (step**2).sum() * np.eye(width) + step.T @ step)
        products += np.kron(step @ step.T, np.eye(width)) + np.outer(step, step)
        noise = of_score**2 * np.eye(k * width) + 0.25 * of_curvature**2 * products
        # squared scores are in proportion to the curvature, but for what is above their noise
        ratio = max(float(np.trace(self.squares) / seen.sum()), 0.0)
        off = self.squares - ratio * self.curvature
        known = of_squares**2 + (ratio * of_curvature) ** 2
        known *= k * (k + 1) * width * (width + 1) / 4.0
        kept = max(1.0 - known / max(float((off**2).sum()), 1e-300), 0.0)
        own, turn = np.linalg.eigh(ratio * self.curvature + kept * off)
        sample = (turn * np.maximum(own, 0.0)) @ turn.T / self.n_records
        along = np.eye(width - 1) if along is None else along
        mix = np.kron(self.mix, np.pad(along, ((0, 0), (0, 1)))) / self.unit
        below = vectors[:, values < HIDDEN * of_curvature]
        estimate = self.mix @ (self.weights + step)[:, :-1] @ along.T / self.unit
        of_noise, of_sample, lost = (
            np.sqrt(np.maximum(((root @ each) * root).sum(axis=1), 0.0)).reshape(estimate.shape)
            for root, each in (
                (mix @ inverse, noise),
                (mix @ inverse, sample),
                (mix @ below @ below.T @ inverse, noise + sample),
            )
        )
        return estimate, of_noise, of_sample, lost**2 > _LOST * (of_noise**2 + of_sample**2)


def plan_newton(design: Design, neighbouring: Neighbouring, mu: float, k: int) -> NoisySum:
    """Calibrate the release by Lemma 7."""
    squares, size = _CURVATURE**2 + _SQUARES**2, k * design.width
    moved = 4.0 + 2.0 * squares
    if k == 1:  # scores are opposite only where curvatures are alike
        moved = 2.0 + 2.0 * squares + 0.5 / squares
    return NoisySum(
        design=design,
        neighbouring=neighbouring,
        mu=mu,
        sensitivity=math.sqrt(moved),
        n_entries=size + 2 * size**2,
        name="score and curvature",
        reference="docs/theory/core.md, Lemma 7",
    )


def least_records(plan: NoisySum, k: int, largest_noise: float = LARGEST_NOISE) -> float:
    """Return the least number of records, infinite for too many coefficients.

    The noise of the curvature is then at most so large in units of an average eigenvalue.
    """
    width = plan.design.width
    if k * width > LARGEST:
        return math.inf
    # the mean curvature of classes of equal size is 2 / (k + 1) of the largest one
    noise = plan.deviation / _CURVATURE * math.sqrt((k + 1.0) * width)
    return noise * width * 0.5 * (k + 1.0) / largest_noise


def reach_and_clip(plan: NoisySum, rows: CenteredRecords, loss: Loss) -> tuple[float, float]:
    """Return the norm of rows, and the deviations of residuals, that count in full.

    They bias what is estimated, unless the mean is linear in the rows: the smaller the noise, the
    larger they are.
    """
    n, width, centering = plan.design.n_records, plan.design.width, rows.centering
    longest = (1.0 + float(np.linalg.norm(centering.mean))) / centering.scale
    room, clip = _ROOM * math.sqrt(n / width) / plan.deviation, _CLASSES
    if not loss.has_odds:  # what clipping takes of an exponential tail is of the size of noise
        clip = min(max(math.log(n / (plan.deviation * width)), _CLIPS[0]), _CLIPS[1])
    seen = math.sqrt(n / (_SEEN * least_records(plan, loss.n_outputs)))
    reach = max(min(room / clip, seen, longest), 1.0)
    return reach, max(min(room / reach, _CLIPS[2]), clip)


def release_newton(
    plan: NoisySum,
    rows: CenteredRecords,
    loss: Loss,
    weights: np.ndarray,
    offsets: np.ndarray,
    deviation: float,
    clip: float,
    noise: NoiseSource,
) -> Newton:
    """Release a Newton step from weights of A, and offsets.

    Residuals of numbers are clipped at so many times their deviation.
    """
    (k, width), design = weights.shape, plan.design
    limit, largest = (math.sqrt(2.0), 0.5) if isinstance(loss, SoftmaxLoss) else (1.0, 0.25)
    if not loss.has_odds:
        limit, largest = deviation * clip, 1.0
    terms = NewtonTerms(loss=loss, weights=rows.weights(weights), offsets=offsets, limit=limit)
    total = rows.full_total(terms)
    score, grams = total[: k * width].reshape(k, width), total[k * width :]
    exact = [rows.products(each) for each in grams.reshape(-1, width, width)]
    size, longest = 1.0 + _CURVATURE + _SQUARES, rows.norm_bound**2
    reached = rows.norm_bound * float(np.linalg.norm(weights)) + float(np.linalg.norm(offsets))
    moved = two_products(design.n_features, longest) + _FADING * two_norms(design.n_features, 1.0)
    moved *= size
    moved += 5.0 / min(limit, 1.0) * two_margins(width + k, reached + loss.target_bound)
    sums = replace(plan, size=2.0 * size * longest)
    noisy, error = sums.release(np.append(rows.sums(score), exact), noise, moved)
    n, most = plan.design.n_records, size  # noise may be infinite
    noisy, error = np.clip(noisy / n, -most, most), error / n
    blocks = noisy[k * width :].reshape(k, k, 2, width, width)
    blocks = 0.5 * (blocks + blocks.swapaxes(0, 1))
    blocks = 0.5 * (blocks + blocks.swapaxes(3, 4))
    curvature, squares = blocks.transpose(2, 0, 3, 1, 4).reshape(2, k * width, k * width)
    errors = limit * error, largest / _CURVATURE * error, limit**2 / _SQUARES * error
    return Newton(
        weights=weights,
        score=limit * noisy[: k * width].reshape(k, width),
        curvature=largest / _CURVATURE * curvature,
        squares=limit**2 / _SQUARES * squares,
        errors=errors,
        n_records=n,
        unit=rows.unit,
        mix=np.asarray(loss.class_weights(np.eye(k))),
    )

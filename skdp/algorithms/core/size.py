"""The size of the margins: what the steps tell of it, and release 3, which corrects it.

Also which features matter: the posterior of the weights of the steps, of which many may be 0.

Theory: docs/theory/core.md, section 6.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit, gammaincinv, logit

from skdp.algorithms.core.margin_laws import Law
from skdp.algorithms.core.steps import Path
from skdp.problems import Loss, SoftmaxLoss
from skdp.problems.block import Block

#: Second moments along the signal over an average one.
_MOMENTS = np.geomspace(1.0, 30.0, 8)
#: Relative error of the law of the mean square of margins, and of that of the norm.
_ERRORS = (0.15, 0.05)
#: Noise of margins falls with that second moment, to minus this power of it; 0 for squares.
_DAMPED = 0.25
#: Nodes of that law, and range of logarithms of variances.
_LEVELS, _RATIOS = 200, (-14.0, 14.0)
#: Mean of the exponential prior of the true deviation of log odds, and the chance that it is 0.
_PRIOR, _NONE = 2.5, 0.1
#: Root mean square margin of a record from which on a round counts it less; largest change of size
#: and shift in a round.
_FAR, _LONGEST = 2.0, 1.0
#: Variances of true weights over the mean square of noisy ones, and the chance that all have one.
_VARIANCES, _ALL = np.geomspace(1e-4, 100.0, 19), 0.95
#: Else they are mixed: prior count of features of each, rounds of the search for parts.
_BEFORE, _ROUNDS = 0.025, 100
#: Largest square of a weight over its noise.
_MOST = 1e9


@dataclass(frozen=True)
class Size:
    """What is known of the size of margins ``z`` of the steps."""

    #: Of z, noise included.
    deviation: float
    #: Of the best margins ``size z / deviation``: posterior mean and variance.
    size: float
    variance: float
    #: Variance of z that is noise.
    noise: float
    #: Shape (n_features,), or float. What the noise of the weights of features has been multiplied
    #: by.
    slopes: np.ndarray | float = 1.0


@dataclass(frozen=True)
class Square:
    """A released mean square of margins, of which each counts as 1 at most."""

    #: Deviation that margins are divided by.
    unit: float
    #: With noise of a deviation.
    mean: float
    error: float

    def log_likelihood(self, variances: np.ndarray, n_outputs: int) -> np.ndarray:
        """Return that of variances of normal margins."""
        levels = (np.arange(_LEVELS) + 0.5) / _LEVELS
        squares = 2.0 * gammaincinv(0.5 * n_outputs, levels) / n_outputs
        ratios = np.exp(np.linspace(*_RATIOS, _LEVELS))
        law = np.minimum(ratios[:, None] * squares, 1.0).mean(axis=1)
        expected = np.interp(np.log(variances / self.unit**2), np.log(ratios), law)
        variance = self.error**2 + (_ERRORS[0] * expected) ** 2
        return np.asarray(-0.5 * (self.mean - expected) ** 2 / variance)


class Hypotheses:
    """True deviations of margins, and second moments of rows along them, for a norm of weights."""

    def __init__(
        self, norm: float, steps: Path, law: Law, n_outputs: int, is_squared: bool
    ) -> None:
        d, self._k, self._norm = steps.n_features, n_outputs, norm
        moments = np.minimum(_MOMENTS, max(0.5 * d, 1.0))
        self._law, self._seen = law, steps.learnt(law.pulled(steps.clip), moments / d)
        self._damped = moments ** -(0.0 if is_squared else _DAMPED)
        self._entries, t = n_outputs * d, law.deviations
        self._signal = self._entries * self._seen**2 / moments
        self._prior = np.zeros((len(t), 1))
        if not is_squared:
            prior = np.gradient(t) * np.exp(-t / _PRIOR) / _PRIOR
            prior[0] += _NONE
            self._prior = np.log(prior)[:, None]

    def posterior(self, noise: float, square: Square | None = None) -> Size:
        """Return the posterior of the size for noise of a variance in each weight.

        The mean square of margins may be known, too.
        """
        signal, seen, law = self._signal, self._seen, self._law
        mean = signal + self._entries * noise
        spread = noise * (2.0 * self._entries * noise + 4.0 * signal) / (4.0 * mean)
        spread += _ERRORS[1] ** 2 * mean
        logs = -0.5 * (self._norm - np.sqrt(mean)) ** 2 / spread - 0.5 * np.log(spread)
        logs, own = logs + self._prior, seen**2 + noise * self._damped
        if square is not None:
            logs += square.log_likelihood(own, self._k)
        weights = np.exp(logs - logs.max())
        weights *= own / (weights * own).sum()
        total = 1.0 / float((weights / own).sum())
        ratio = law.best(seen / np.sqrt(own)) / np.sqrt(own)
        best = float((weights * ratio).sum())
        variance = max(float((weights * (ratio - best) ** 2).sum()), 0.01 * best**2, 1e-6)
        left = total * float((weights / own * noise * self._damped).sum())
        return Size(math.sqrt(total), math.sqrt(total) * best, total * variance, left)


def shrunk(norm: float, steps: Path, n_outputs: int, is_free: bool) -> Size:
    """Return the same of other losses: without the noise, by Stein's estimate.

    Where the scale `is_free`, as of hinges for classes, it is left as it is. The variance is that
    of the estimate, and the squared noise that is left.
    """
    entries, noise = n_outputs * steps.n_features, steps.variance
    square = max(norm**2 / entries, 1e-50 * noise)  # weights may be 0
    deviation, signal = math.sqrt(square), max(square - noise, 0.0)
    spread = (1.0 + noise / square) ** 2 * noise * (0.5 * noise + signal) / (square * entries)
    size = deviation if is_free else signal / deviation
    variance = max(spread, 1e-12) + (size - signal / deviation) ** 2
    return Size(deviation, size, variance, noise)


def relevant(
    weights: np.ndarray, size: Size, noise: float, sampled: float
) -> tuple[np.ndarray, Size]:
    """Return the weights times factors that leave the deviation of margins, and the size then.

    True weights of a feature, in a column, are normal with one variance for all features, or with
    one of several. The `size` is that of the margins; `noise` and `sampled` are the variances of
    the noise of a weight, and of what the sample adds to it.
    """
    k, d = weights.shape
    squares, noises = (weights**2).sum(axis=0), noise + sampled
    whole = float(squares.sum())
    if not 0.0 < whole < math.inf:
        return weights, size
    variances = noises + max(whole / (k * d), noises) * _VARIANCES[:, None]
    kept = (variances - noises) / variances
    # logarithms of the laws of what is seen over that of noise
    logs = 0.5 * (kept * np.minimum(squares / noises, _MOST) + k * np.log(noises / variances))
    laws, parts = np.exp(logs - logs.max(axis=0)), np.full((len(logs), 1), 1.0 / len(logs))
    for _ in range(_ROUNDS):
        chances = parts * laws
        likely = chances.sum(axis=0)
        chances /= likely
        parts = chances.sum(axis=1, keepdims=True) + _BEFORE
        parts /= parts.sum()
    alike = logs.sum(axis=1, keepdims=True)
    more = float((np.log(likely) + logs.max(axis=0)).sum() - alike.max())  # by the mixture
    alike, mixed = np.exp(alike - alike.max()), float(expit(more - logit(_ALL)))
    chances = (1.0 - mixed) * alike / alike.sum() + mixed * chances
    factors = (chances * kept).sum(axis=0)
    signal = (chances * kept * (kept * squares + k * noises)).sum(axis=0)  # second moments
    slopes = (signal - factors**2 * squares) / (k * noises)  # by Tweedie's formula
    # the cosine of weights and true ones grows, and with it the signal in their margins
    own = float(factors**2 @ squares)
    ratio = math.sqrt(whole / own)
    gain = math.sqrt(whole) * math.sqrt(own) / float(factors @ squares)
    true = min(gain**2 * (1.0 - size.noise / size.deviation**2), 1.0)
    rest = (1.0 - true) * size.deviation**2
    left = replace(size, size=gain * size.size, noise=rest, slopes=ratio * slopes)
    return ratio * factors * weights, left


@dataclass(frozen=True)
class ShortenedSquares:
    """Sum mean squares of the margins of a record's outputs, each 1 at most."""

    #: Shape (k, width). Of rows ``(x, 1)``.
    weights: np.ndarray
    needs_norms = False

    def __call__(self, block: Block, _: np.ndarray) -> np.ndarray:
        k = len(self.weights)
        z = block.margins(self.weights).reshape(-1, k)
        squares = np.einsum("ij,ij->i", z, z) / k
        return block.weighted(np.minimum(squares, 1.0)).sum(keepdims=True)

    @property
    def steepness(self) -> float:
        """Bound the change of a square per change of z (docs/theory/core.md, Lemma 4)."""
        return 2.0 / math.sqrt(len(self.weights))


@dataclass(frozen=True)
class Derivatives:
    """Sum derivatives of the loss in size and shift of margins, each record's clipped to `top`.

    The vector of a record is ``(r'z, r, z'Wz, Wz, tr W / k)`` over its :func:`shortening`.
    """

    loss: Loss
    #: Shape (k, width). Of rows ``(x, 1)``, for z.
    weights: np.ndarray
    size: float
    #: Shape (k,). Margins of the mean record, in units of the loss.
    shift: np.ndarray
    #: Units of the loss over those of z.
    unit: float
    #: Deviation of the targets in units of the loss; 1 for classes.
    spread: float
    top: float
    needs_norms = False

    def __call__(self, block: Block, _: np.ndarray) -> np.ndarray:
        k = len(self.weights)
        z = block.margins(self.weights).reshape(-1, k)
        margins = self.spread * self.unit * self.size * z + self.shift
        if isinstance(self.loss, SoftmaxLoss):
            basis, p = self.loss.basis, self.loss.probabilities(margins)
            classes = z @ basis.T
            along = p * (classes - np.einsum("ij,ij->i", p, classes)[:, None])
            r = self.loss.derivative(margins, block.targets)
            wz, trace = along @ basis, (1.0 - np.einsum("ij,ij->i", p, p)) / k
        else:
            flat = margins[:, 0]
            r = self.unit / self.spread * self.loss.derivative(flat, block.targets)[:, None]
            trace = self.unit**2 * self.loss.second_derivative(flat, block.targets)
            wz = trace[:, None] * z
        columns = (
            np.einsum("ij,ij->i", r, z)[:, None],
            r,
            np.einsum("ij,ij->i", wz, z)[:, None],
            wz,
            trace[:, None],
        )
        vectors = np.concatenate(columns, axis=1)
        vectors /= shortening(z)
        lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
        return block.weighted(self.top / np.maximum(lengths, self.top)) @ vectors

    @property
    def steepness(self) -> float:
        """Bound the change of a vector per change of z (docs/theory/core.md, Lemma 4)."""
        residual = math.sqrt(2.0)
        if not self.loss.has_odds:
            residual = (self.loss.target_bound + float(np.abs(self.shift).max())) / self.spread
        return 3.0 * (1.0 + residual + self.size) * (1.0 + self.top)


def shortening(z: np.ndarray) -> np.ndarray:
    """Return ``max(1, |z| / (2 sqrt(k)))`` of the margins of records, shape (m, 1)."""
    squares = np.einsum("ij,ij->i", z, z) / (_FAR**2 * z.shape[1])
    return np.sqrt(np.maximum(1.0, squares))[:, None]


@dataclass(frozen=True)
class Corrected:
    """Posterior of size and shift in basis units."""

    #: Shape (1 + k,).
    theta: np.ndarray
    #: Shape (1 + k, 1 + k).
    covariance: np.ndarray

    @classmethod
    def of(cls, size: float, variance: float, shift: np.ndarray, of_shift: float) -> Corrected:
        """Return it from a size and a shift that do not depend on each other; `of_shift` >= 0."""
        variances = np.append(variance, np.full(len(shift), max(of_shift, 1e-12)))
        return cls(np.append(size, shift), np.diag(variances))

    def after(
        self,
        noisy: np.ndarray,
        expected: np.ndarray,
        tau: float,
        n: float,
        slope: np.ndarray,
        bend: np.ndarray,
    ) -> Corrected:
        """Update by noisy mean derivatives, whose noise has the deviation `tau`.

        Second ones are shrunk to those of normal margins, `expected`. `slope` is the derivative of
        the base in the size, `bend` the curvature of the mean record: its shape alone counts.
        """
        k = len(slope)
        gradient, hessian = noisy[: k + 1], np.empty((k + 1, k + 1))
        kept = expected[-1] ** 2 / (expected[-1] ** 2 + tau**2)
        second = expected + kept * (noisy[k + 1 :] - expected)
        hessian[0, 0], hessian[1:, 0], hessian[0, 1:] = second[0], second[1:-1], second[1:-1]
        hessian[1:, 1:] = second[-1] * bend
        chain = np.eye(k + 1)
        chain[1:, 0] = slope
        gradient, hessian = chain.T @ gradient, chain.T @ hessian @ chain
        values, vectors = np.linalg.eigh(hessian)
        values = np.maximum(values, 0.1 * expected[-1])
        hessian = (vectors * values) @ vectors.T
        gain = (vectors * (values / (tau**2 + values / n))) @ vectors.T
        covariance = np.linalg.inv(gain @ hessian + np.linalg.inv(self.covariance))
        covariance = 0.5 * (covariance + covariance.T)
        longest = np.full(k + 1, _LONGEST)
        longest[0] = max(_LONGEST, 0.5 * self.theta[0])
        theta = self.theta - np.clip(covariance @ gain @ gradient, -longest, longest)
        theta[0] = max(theta[0], 0.0)
        return Corrected(theta, covariance)

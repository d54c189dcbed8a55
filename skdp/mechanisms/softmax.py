"""Draws from a softmax, exact for the scores as they are stored.

A softmax in floating point rounds its probabilities, and gives none at all to what lies below the
resolution of its random numbers: the support of such a draw depends on the scores, and its privacy
loss is infinite. Here a proposal is drawn from integer weights, exactly, and kept with a
probability that is compared with a uniform binary fraction bit by bit, until intervals decide. So
every index has exactly its probability. Proofs: ``docs/theory/mirror_descent.md``, section 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from functools import lru_cache

import numpy as np

from skdp._checks import check_count, check_positive
from skdp.mechanisms.noise_source import NoiseSource
from skdp.privacy.accountants import GaussianDPAccountant, PureAccountant, ZCDPAccountant
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import (
    ComposedEvent,
    ExponentialMechanismEvent,
    Neighbouring,
    RepeatedEvent,
)
from skdp.privacy.report import Release

#: A float64 exponential, with the rounding of its argument, is right to this relative error: the
#: libraries in use err by a few units of 2^-53, the argument (at most 745) by 745 * 2^-53.
_EXP_ERROR = 2.0**-40
#: Enough digits for any sum of two doubles.
_EXACT = Context(prec=2200, rounding=ROUND_HALF_EVEN)
_MAX_SIZE = 2**30
#: Scores of the exponential mechanism, and their part in an exponent, have no effect beyond these.
_LARGEST_SCORE, _LARGEST_COST = 2.0**30, 1024.0
#: More kinds of draws than these are calibrated by zCDP or pure composition alone.
_MANY = 16
#: A number of draws at which one costs next to nothing.
_DRAWS = 1_000_000
#: Relative slack of the calibration: a caller's products of c and its units may be rounded in
#: another order than here, by a few units of 2^-53.
_SLACK = 1e-12


@dataclass(frozen=True)
class SoftmaxMechanism:
    """Draws of an index j with probability proportional to ``exp(score_j)``."""

    #: Bound on ``|score_j - score'_j|`` over all j and all pairs of neighbours, with the rounding
    #: of the computed scores. A draw then has a privacy loss of bounded range ``2 sensitivity``
    #: (Cesar and Rogers 2021: ``sensitivity^2 / 2``-zCDP), and is ``2 sensitivity``-DP.
    sensitivity: float

    def __post_init__(self) -> None:
        check_positive(sensitivity=self.sensitivity)

    def event(self, neighbouring: Neighbouring) -> ExponentialMechanismEvent:
        """Describe the cost of one draw, if the sensitivity is that under `neighbouring`."""
        return ExponentialMechanismEvent(2.0 * self.sensitivity, neighbouring)

    def describe(
        self,
        name: str,
        dimension: int,
        n_records: int,
        reference: str,
        *,
        n_draws: int = 1,
        neighbouring: Neighbouring = Neighbouring.REPLACE_ONE,
    ) -> Release:
        """Describe `n_draws` draws among `dimension` indices; see :class:`skdp.privacy.Release`.

        The noise scale is 1: scores are in units of the exponent.
        """
        event = RepeatedEvent(self.event(neighbouring), n_draws)
        return Release(
            name, "exponential", self.sensitivity, 1.0, dimension, n_records, reference, event
        )

    def draw(self, scores: np.ndarray, n_draws: int, noise: NoiseSource) -> np.ndarray:
        """Draw `n_draws` independent indices with exactly the softmax law of the scores.

        These are finite, and taken as the real numbers that they store; there are at most 2^30.
        """
        return draw_softmax(scores, n_draws, noise)


def draw_softmax(scores: np.ndarray, n_draws: int, noise: NoiseSource) -> np.ndarray:
    """Draw indices with exactly the softmax law; see :meth:`SoftmaxMechanism.draw`."""
    check_count("n_draws", n_draws, 0)
    scores = np.asarray(scores, dtype=np.float64)
    if scores.ndim != 1 or not 1 <= scores.size <= _MAX_SIZE:
        raise ValueError(f"scores have shape {scores.shape}, must be (n,) with 1 <= n <= 2^30.")
    if not np.isfinite(scores).all():
        raise ValueError("scores must be finite.")
    top = float(scores.max())
    # exp(score - top) <= weight / 2^bits, for a total below 2^62
    bits = 60 - (scores.size - 1).bit_length()
    weights = np.exp(np.maximum(scores - top, -700.0))
    weights *= 2.0**bits * (1.0 + 4.0 * _EXP_ERROR)
    counts = weights.astype(np.int64)
    counts += 1
    ends = np.cumsum(counts)
    indices = np.empty(n_draws, dtype=np.intp)
    done = 0
    while done < n_draws:
        size = n_draws - done
        proposals = np.searchsorted(ends, _integers_below(int(ends[-1]), size, noise), side="right")
        kept = proposals[_accept(scores, top, bits, counts, proposals, noise)]
        indices[done : done + kept.size] = kept
        done += kept.size
    return indices


def exponential_logits(scores: np.ndarray, epsilon: float) -> np.ndarray:
    """Return ``-epsilon scores / 2`` with rounding on the side of privacy.

    Scores are >= 0, small for good candidates; each moves by at most 1 between neighbours. As the
    real numbers that they store, the logits then move by at most ``epsilon / 2`` each: a draw from
    their softmax has a privacy loss of bounded range epsilon. Scores above
    ``min(2^30, 2048 / epsilon)`` count as that. Proof: ``docs/theory/mirror_descent.md``,
    below Lemma 2.
    """
    largest = min(_LARGEST_SCORE, 2.0 * _LARGEST_COST / epsilon)
    return np.asarray(-0.5 * epsilon * (1.0 - 2.0**-21) * np.minimum(scores, largest))


def draw_exponential(scores: np.ndarray, epsilon: float, noise: NoiseSource) -> int:
    """Draw one index by the exponential mechanism; see :func:`exponential_logits`."""
    return int(draw_softmax(exponential_logits(scores, epsilon), 1, noise)[0])


def _accept(
    scores: np.ndarray,
    top: float,
    bits: int,
    counts: np.ndarray,
    proposals: np.ndarray,
    noise: NoiseSource,
) -> np.ndarray:
    """Return True with probability ``2^bits exp(score - top) / count``, for each proposal."""
    with np.errstate(under="ignore"):
        chance = np.exp(scores[proposals] - top) * 2.0**bits / counts[proposals]
    words = noise.words(proposals.size)
    # the uniform number is in [word, word + 1] 2^-64, give or take its rounding
    middle = words.astype(np.float64) * 2.0**-64
    margin = 2.0**-50 + 4.0 * _EXP_ERROR * chance
    accepted = middle < chance
    for k in np.flatnonzero(np.abs(middle - chance) <= margin):
        j = proposals[k]
        accepted[k] = _below_exp(int(words[k]), float(scores[j]), top, bits, int(counts[j]), noise)
    return accepted


def _below_exp(
    word: int, score: float, top: float, bits: int, count: int, noise: NoiseSource
) -> bool:
    """Decide ``U < 2^bits exp(score - top) / count`` for a uniform U that starts with `word`."""
    exponent = _EXACT.subtract(Decimal(score), Decimal(top))
    length = 64
    while True:
        low, high = Fraction(word, 2**length), Fraction(word + 1, 2**length)
        if exponent > -(length + bits):
            # Decimal's exponential is rounded correctly: half a unit of its last digit, at most
            context = Context(prec=10 + length // 3, rounding=ROUND_HALF_EVEN)
            value = Fraction(context.exp(exponent)) * 2**bits / count
            error = value / 10 ** (context.prec - 1)
            if high <= value - error:
                return True
            if low >= value + error:
                return False
        elif word:  # 2^bits exp(exponent) <= 2^-length <= U
            return False
        word = (word << 64) | int(noise.words(1)[0])
        length += 64


def _integers_below(bound: int, size: int, noise: NoiseSource) -> np.ndarray:
    """Draw integers that are uniform on 0..bound - 1, exactly; 1 < bound < 2^63."""
    shift = np.uint64(64 - (bound - 1).bit_length())
    values = np.empty(size, dtype=np.int64)
    todo = np.arange(size)
    while todo.size:
        words = (noise.words(todo.size) >> shift).astype(np.int64)
        values[todo] = words
        todo = todo[words >= bound]
    return values


def calibrated_draws(budget: PrivacyBudget, draws: Sequence[tuple[float, int]]) -> float:
    """Return the largest scale c at which softmax draws keep a budget together.

    `draws` has sensitivities of scores in units of c, and numbers of such draws. Which draw comes
    next may depend on those before it. Draws of sensitivity ``c * unit`` cost at most `budget`, by
    pure composition, zCDP or Gaussian DP, whichever is best, to a relative 1e-9 on the side of
    privacy. That also holds for sensitivities that are products of c rounded otherwise, to a
    relative 1e-12. (With more than 16 kinds of draws the scale is not searched further in Gaussian
    DP.)
    """
    relation = Neighbouring.REPLACE_ONE

    def fits(scale: float) -> bool:
        event = ComposedEvent(
            [
                RepeatedEvent(ExponentialMechanismEvent(2.0 * scale * unit, relation), count)
                for unit, count in draws
            ]
        )
        return any(
            accountant().compose(event).get_epsilon(budget.delta) <= budget.epsilon
            for accountant in (PureAccountant, ZCDPAccountant, GaussianDPAccountant)
        )

    if not sum(count for _, count in draws):
        raise ValueError("no draws to calibrate.")
    low = budget.epsilon / (2.0 * math.fsum(unit * count for unit, count in draws))
    if not budget.is_pure and len(draws) > 1:
        # zCDP adds squares: as many as one draw of a range may have
        squares = math.fsum(count * unit**2 for unit, count in draws)
        low = max(low, math.sqrt(total_sensitivity(budget) / squares))
    while not fits(low):  # the last digits
        low *= 1.0 - 1e-9
    if len(draws) > _MANY:
        return (1.0 - _SLACK) * low
    high = 1.001 * low
    while fits(high):
        low, high = high, 2.0 * high
    while high > low * (1.0 + 1e-9):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if fits(middle) else (low, middle)
    return (1.0 - _SLACK) * low


@lru_cache(maxsize=64)
def total_sensitivity(budget: PrivacyBudget) -> float:
    """Return the sum of the squared sensitivities that many draws may have; delta > 0."""
    return calibrated_draws(budget, [(1.0, _DRAWS)]) ** 2 * _DRAWS

"""Rules for clipping, steps, parts of the budget and margins of noisy gradient descent.

Functions of public numbers and of earlier releases, and tuned numbers. No guarantee depends on
them: ``tests/contract/test_tuned_numbers.py`` doubles and halves each. They were chosen on
synthetic families, and those of the log loss and of least squares on real data as well:
docs/theory/noisy_gradient_descent.md says which; ``benchmarks/run.py linear_families`` and
``linear_real`` show what the choices give.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from skdp.algorithms.preparation import rules as preparation_rules
from skdp.problems import Loss

#: Least share of the signal in weights that shrinkage of log odds goes by.
_LEAST_SIGNAL = 0.05
#: Noise of a mean of targets that is aimed at, about; no more than a fifth of the budget is for it.
_TARGETS_NOISE = 0.05
#: The least part where records have weights: their sum is far below the number of records.
WEIGHTED_MEANS = 0.05
#: Of the first weights for two classes: their size, the noise below which they are smaller, the
#: log odds below which they are, and the squared distance of the mean of rows where they are half.
_ATYPICAL, _ATYPICAL_NOISE, _ATYPICAL_ODDS, _ATYPICAL_DISTANCE = 1.5, 0.1, 2.0, 0.3
#: Largest noise in the margin of a unit row that no curvature holds back: of log odds and hinges,
#: of numbers in standard deviations of the targets, and its part for weighted descents, which start
#: from a good model.
_DRIFT_OF_ODDS, _DRIFT_OF_NUMBERS, _WEIGHTED_DRIFT = 1.0, 1.5, 0.5
#: Number of records of a column, times mu over what one record changes, at which half of its
#: weight is kept; their number for log odds without noise, since a model that fits so few does not
#: know their law; and deviations of its noise up to which a weight may be noise alone.
HALF_RELIABLE, HALF_SAMPLED, NOISE_DEVIATIONS = 1.5, 3.0, 2.0
#: Law of the moments of columns: points of the grid; its ends, in units of the noise and of the
#: moment where half is kept, whichever is further away; steps of the EM algorithm.
GRID, GRID_RANGE, EM_STEPS = 40, (0.1, 20.0), 100
#: The bound on noise for squares without a preconditioner, where every direction has this noise.
PLAIN_DRIFT_OF_SQUARES = 0.75

#: Part of the squared mu for second moments: least, and largest where steps are missing.
MOMENTS_SHARES = (0.03, 0.3)
#: The same where the penalty of the user goes by the second moments.
PENALTY_SHARE = 0.1
#: Part of the squared mu for the factor of the margins of squares whose steps are missing.
FACTOR_SHARE = 0.03
#: Power of the clipping norm that is about the share of curvature that clipping leaves to the log
#: loss, by simulation; and curvature in an average direction over the mean second moment.
UNCLIPPED_POWER, TYPICAL_CURVATURE = 5.0 / 3.0, 0.8
#: Path times curvature at which least squares have learnt a direction.
SETTLED = 30.0
#: Least path in largest steps where curvatures are those of a constant model; of squares, others.
LEAST_HORIZON = (10.0, 20.0)
#: Part of the variance of targets that noise may cost for the sake of fewer looks at the records.
LOST_VARIANCE = 5e-4
#: Curvatures that the noise of the steps is fitted to, in units of the average one.
CURVATURES = (0.125, 0.5, 2.0)
#: The same for least squares, over the path, where path times average curvature is below a limit.
BRIEF_CURVATURES, BRIEF_PATH = (0.0, 0.5, 2.0, 8.0), 12.0
#: Path of accelerated steps in units of that of plain ones.
ACCELERATED_PATH = 0.3
#: Path times average curvature from which on their iterates are averaged, and the largest one: they
#: add noise to directions that have been learnt.
LEARNT_PATH, LONGEST_PATH = 8.0, 24.0
#: The least number of steps.
LEAST_STEPS = 10
#: For each kind of steps: the number of steps is at most a power of a number over the products of
#: records, features and outputs in one of them, between two bounds.
STEP_LIMITS = {
    "plain": (1.2e9, 1.0, 60, 150),
    "preconditioned": (1e8, 1.0, 12, 60),
    "accelerated": (2.8e15, 0.25, 40, 120),
}
#: Where gradients of persons are clipped, and not of records: part of the squared mu for the
#: temperature of two classes, noise of a mean of numbers up to which there is one, and part of the
#: distortion by clipping, since means of several gradients are clipped less.
_PERSONS_TEMPERATURE, _PERSONS_NOISE, _PERSONS_DISTORTION = 0.3, 0.04, 0.5
#: Rarest class that paths are made longer for, and power of its curvature over 1/4 that gradients
#: are clipped to where their noise is not negligible beside it.
RAREST, _RARE_POWER = 0.02, 0.15
#: Square of the noise of a mean of rows, times features, at which all records are one block.
BLOCK_LIMIT = 1e-4
#: Least factor of margins of squares that is corrected, and part of the distortion by which offsets
#: of log odds are smaller.
LEAST_FACTOR, OFFSET_DISTORTION = 0.05, 0.2
#: Largest steps under attack are divided by 1 plus so many squared lengths of a move.
REACH = 3.0
#: Noise of a mean of rows from which on there is an alarm, of numbers, of classes and of those of
#: tables, which are seldom well apart; rows vary in so many directions at most.
ALARM_NOISE, DIRECTIONS = (0.2, 0.4, 0.15), 1000
#: After a fit: noise of a mean of rows, in units of the share of the rarer class, and part of the
#: variance of margins that is noise, of numbers and of classes, from which on the report says so.
ALARM_RARER, ALARM_SHARE = 0.5, (0.75, 0.33)


@dataclass(frozen=True, kw_only=True)
class StepRule:
    """Numbers of the steps that depend on the kind of loss.

    Attributes
    ----------
    clip : float
        Norm that each record's gradient is clipped to; of squares in units of the standard
        deviation of the targets.
    damping : float
        Penalty that the number of steps stands for, in units of the noise of a mean gradient.
    rate, preconditioned_rate : float
        Largest steps, in units of the inverse of the largest curvature.
    block_limit : float
        Square of the noise of a mean of rows, times features, at which all records are one block.
    """

    clip: float
    damping: float
    rate: float
    preconditioned_rate: float
    block_limit: float


def step_rule(
    loss: Loss, is_squared: bool, error: float, n_features: float, unit: float
) -> StepRule:
    """Choose clipping and steps.

    Parameters
    ----------
    loss : Loss
    is_squared : bool
        Whether residuals near 0 are differences of margins and targets.
    error : float
        Noise of a released mean of rows, relative to their norm.
    n_features : int
    unit : float
        Noise of the sum of gradients that are clipped to norm 1.
    """
    if is_squared:
        return _squares(error * math.sqrt(n_features), unit)
    clip = odds_clip(error)
    if loss.has_odds:
        return StepRule(
            clip=clip, damping=0.25, rate=2.0, preconditioned_rate=1.5, block_limit=BLOCK_LIMIT
        )
    largest = largest_residual(loss)
    if loss.target_bound:  # most residuals are the largest one
        return StepRule(
            clip=largest,
            damping=1.6 / loss.target_bound,
            rate=2.0,
            preconditioned_rate=1.5,
            block_limit=BLOCK_LIMIT,
        )
    # margins of hinges are half of those of the log loss, residuals twice
    return StepRule(
        clip=min(2.0 * clip, largest),
        damping=0.5,
        rate=2.0,
        preconditioned_rate=1.5,
        block_limit=BLOCK_LIMIT,
    )


def rare_clip(clip: float, error: float, slowness: float) -> float:
    """Norm that gradients of two classes are clipped to, once their shares have been released.

    Parameters
    ----------
    clip : float
        Planned.
    error : float
        Noise of a released mean of rows, relative to their norm.
    slowness : float
        Quotient of 1/4 and the curvature of a constant model: noise in weights grows with it.
    """
    return min(clip, max(odds_clip(error * slowness), slowness**-_RARE_POWER))


def odds_clip(error: float) -> float:
    """Norm that gradients of log odds are clipped to, by the noise of a released mean of rows."""
    little = 0.05 / error  # above 1 where there is little noise
    return min(max(0.25 * min(little**0.5, little**0.37), 0.05), 1.0)


def _squares(spread: float, unit: float) -> StepRule:
    clip = min(max(0.30 * 0.05 / spread, 0.15), 2.5)
    noise = unit * clip * math.sqrt(preparation_rules.PRIOR_VARIANCE)
    damping = max(min(max(2.0 * (spread / 0.1) ** 2, 0.12), 2.0), min(2.0, 0.5 / noise))
    return StepRule(
        clip=clip, damping=damping, rate=1.5, preconditioned_rate=1.0, block_limit=2e-4 / clip**2
    )


def drift_limit(loss: Loss, is_weighted: bool) -> float:
    """Bound the noise in the margin of a unit row that no curvature holds back."""
    limit = _DRIFT_OF_NUMBERS if loss.target_bound else _DRIFT_OF_ODDS
    return limit * (_WEIGHTED_DRIFT if is_weighted else 1.0)


def block_count(n_records: int, largest: float) -> int:
    """Return the number of blocks, if noise allows `largest`: no block has less than 8000."""
    return int(min(max(min(n_records / 8000, largest), 1), 12))


def largest_residual(loss: Loss) -> float:
    """Bound the derivative of the loss in its margins; ``inf`` without a bound."""
    return loss.lipschitz(1.0, math.inf)


def centering_share(loss: Loss, error: float, noise: float) -> tuple[float, bool]:
    """Part of the squared mu for the means of targets, and whether those of rows are released, too.

    Parameters
    ----------
    loss : Loss
    error : float
        Noise of a released mean of rows, relative to their norm.
    noise : float
        Noise of a mean of numbers up to 1.
    """
    if error <= 0.45:
        share = min(max((error / (0.2 if loss.target_bound else 0.3)) ** 2, 0.01), 0.25)
        if loss.target_bound or loss.has_odds:  # few features: the means of targets decide
            share = max(share, min((noise / _TARGETS_NOISE) ** 2, 0.2))
        return share, True
    # numbers are clipped where their mean would be noise
    limit = 0.2 if loss.target_bound else 0.15 if loss.has_odds else 0.0
    return (0.15 if noise <= limit else 0.0), False


def temperature_share(loss: Loss, noise: float, of_persons: bool = False) -> float:
    """Part of the squared mu for the temperature, by the noise of a mean of numbers up to 1."""
    if of_persons and loss.link == "logit" and noise <= _PERSONS_NOISE:
        return _PERSONS_TEMPERATURE
    if loss.has_odds and noise <= 0.002:
        return 0.03
    if loss.link == "logit" and noise <= 0.02:
        return 0.05
    return 0.0


def atypical_weights(odds: float, mean: np.ndarray, error: float) -> np.ndarray:
    """Return weights of rows by which the odds of a rare class fall towards the mean of the rows.

    Its records are less typical than others, in most real tables.

    Parameters
    ----------
    odds : float
        Log odds of the classes.
    mean : ndarray of shape (n_features,)
        Of the rows, in units of their distance from it.
    error : float
        Noise of a released mean of rows, relative to their norm.
    """
    size = _ATYPICAL * min(1.0, error / _ATYPICAL_NOISE)
    size *= odds * min(1.0, abs(odds) / _ATYPICAL_ODDS)
    return np.asarray(size * mean / (float(mean @ mean) + _ATYPICAL_DISTANCE))


def squares_factor(signal: float, error: float) -> float:
    """Factor of margins of least squares.

    Parameters
    ----------
    signal : float
        Share of the squared weights that is not noise, about; below 0 where they are less than it.
    error : float
        Noise of a released mean of rows, relative to their norm.
    """
    return float(max(signal, 0.0) ** (1.0 + min(max((error - 0.3) / 0.3, 0.0), 1.0)))


def odds_factor(loss: Loss, signal: float, error: float) -> float:
    """Factor of log odds by their noise; parameters as of :func:`squares_factor`."""
    power = 0.3
    if loss.n_margins == 1:
        power += 0.1 * min(max((error - 0.03) / 0.1, 0.0), 1.0)
    return float(max(signal, _LEAST_SIGNAL) ** power)


def clipping_distortion(loss: Loss, clip: float, error: float, of_persons: bool = False) -> float:
    """How much log odds are changed by clipping, on their log scale; less where noise rules."""
    lost = max(0.0, -math.log(clip)) if loss.has_odds else 0.0
    return lost * min(1.0, 0.06 / error) * (_PERSONS_DISTORTION if of_persons else 1.0)


def clipping_factor(distortion: float, slowness: float, square: float) -> float:
    """Factor of the log odds of two classes by their :func:`clipping_distortion`.

    Parameters
    ----------
    distortion : float
    slowness : float
        Quotient of 1/4 and the curvature of a constant model.
    square : float
        Squared norm of the weights: large ones show classes that are well apart.
    """
    excess = 1.0 - 0.33 * math.log(slowness) - 0.125 * math.log(square)
    return math.exp(-distortion * excess)

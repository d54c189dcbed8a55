"""The zero of a derivative from few noisy answers: all of it is post-processing.

The derivative is that of a loss in log alpha. Both searches start from the public rule
(:class:`skdp.algorithms.tuning.PublicRulePlan`) and trust an answer by as much as it stands out
from its noise, so that they stay there when the answers are noise. See
docs/theory/hypergradient.md, section 3.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import ndtr

from skdp.algorithms.tuning import rules
from skdp.mechanisms import AdditiveMechanism, GaussianMechanism
from skdp.problems import PenaltyGroups

#: Points of the grid on which the position of the zero has a probability.
_GRID = 1025
#: From alpha to a noisy derivative, with the noise that it has.
Query = Callable[[np.ndarray], tuple[np.ndarray, AdditiveMechanism]]


def bisect(
    query: Query, penalties: PenaltyGroups, start: float, n_queries: int, coef_norm: float
) -> np.ndarray:
    """Bisect for one alpha, in its logarithm; `start` and `coef_norm` are those of the public rule.

    Returns the queried values and the answer, shape (n_queries + 1, n_groups).

    The position of the zero has a probability on a grid, at first falling off exponentially from
    `start`, half of it on either side. The median is queried, and the points below and above it
    gain or lose by the probability that the zero is there. With little noise this is bisection;
    with much of it nothing moves (Waeber, Frazier and Henderson 2013, with the confidence of each
    answer).
    """
    grid = np.linspace(math.log(penalties.low), math.log(penalties.high), _GRID)
    mass = np.exp(-np.abs(grid - math.log(start)) / rules.SEARCH_SPREAD)
    for side in (grid < math.log(start), grid >= math.log(start)):
        mass[side] /= max(mass[side].sum(), 1e-300)  # `start` may be an end of the grid
    path = []
    for _ in range(n_queries):
        middle = _median(grid, mass)
        path.append(math.exp(middle))
        answer, mechanism = query(np.array(path[-1:]))
        below = _confidence(float(answer[0]), mechanism, _plausible(path[-1], coef_norm))
        mass = mass * np.where(grid < middle, below, 1.0 - below)
        mass /= mass.sum()
    path.append(math.exp(_median(grid, mass)))
    return np.clip(np.array(path)[:, None], penalties.low, penalties.high)


def _median(grid: np.ndarray, mass: np.ndarray) -> float:
    below = np.cumsum(mass)
    return float(grid[np.searchsorted(below, 0.5 * below[-1])])


def _plausible(alpha: float, coef_norm: float) -> float:
    """Size of a derivative: that of the bias ``alpha B^2 / 2`` of the public rule in log alpha."""
    return 0.5 * alpha * coef_norm**2


def _confidence(answer: float, mechanism: AdditiveMechanism, plausible: float) -> float:
    """Probability that a derivative is positive, given an answer.

    For Gaussian noise of deviation s and a derivative that is N(0, p^2), p its plausible size:
    ``Phi(g p / (s sqrt(s^2 + p^2)))``. The same shrinkage is used for Laplace noise.
    """
    scale = mechanism.noise_scale
    ratio = answer / scale * plausible / math.hypot(scale, plausible)
    if isinstance(mechanism, GaussianMechanism):
        below = float(ndtr(ratio))
    else:
        below = 0.5 * math.exp(-abs(ratio))
        below = below if ratio < 0 else 1.0 - below
    return min(max(below, 1e-9), 1.0 - 1e-9)


def descend(
    query: Query, penalties: PenaltyGroups, start: float, n_queries: int, coef_norm: float
) -> np.ndarray:
    """Follow noisy gradients in several log alpha; parameters as of :func:`bisect`.

    Steps get shorter from one to the next, and are the shorter the less an answer stands out from
    its noise (the factor of James and Stein) and a plausible derivative would.
    """
    low, high = math.log(penalties.low), math.log(penalties.high)
    logs = np.full(penalties.n_groups, math.log(start))
    path = [np.full(penalties.n_groups, start)]
    for k in range(n_queries):
        answer, mechanism = query(path[-1])
        square, spread = float(answer @ answer), mechanism.mean_square(len(answer))
        if square > spread:
            signal = sum(_plausible(alpha, coef_norm) ** 2 for alpha in path[-1])
            length = (
                rules.SEARCH_STEP
                * rules.SEARCH_DECAY**k
                * (1.0 - spread / square)
                * signal
                / (signal + spread)
            )
            logs = np.clip(logs - length * answer / math.sqrt(square), low, high)
        path.append(np.clip(np.exp(logs), penalties.low, penalties.high))
    return np.array(path)

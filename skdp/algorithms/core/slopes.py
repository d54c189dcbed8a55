"""Other losses of one margin: what their clipped slopes are on typical margins, by quadrature.

Residuals of numbers are normal; labels are those of log odds of normal margins, of two equal
classes (docs/theory/core.md, section 8).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit

from skdp.algorithms.core.means import Means
from skdp.algorithms.core.steps import TYPICAL, Path, paced
from skdp.problems import Loss, OneVsRestLoss

#: Value of the constant feature, of which no release but the steps tells; norm of an average row.
_CONSTANT = 0.5
ROW = math.hypot(1.0, _CONSTANT)
#: Nodes of a normal law, and their weights; half of a difference of margins.
_NODES = np.linspace(-6.0, 6.0, 1201)
_WEIGHTS = np.exp(-0.5 * _NODES**2) / np.exp(-0.5 * _NODES**2).sum()
_APART = 0.1
#: Clips that are compared, over the root mean square of the gradient of an average row.
_CLIPS = np.geomspace(0.15, 2.5, 10)
#: Noise of a direction without curvature at the end of all steps, over twice the typical margin;
#: longest path in inverse curvatures of an average direction: heavy balls overshoot kinks.
_DRIFT, _LONGEST_PATH = 0.8, 24.0
#: Deviation of residuals, or of margins around 1, where losses may be most curved.
_NEAR = (0.5, 0.25)
#: Multiples of a logarithm that the deviation of targets is rounded to, for a cache.
_ROUNDED = 0.125


@dataclass(frozen=True)
class Slopes:
    """Slopes of a loss on typical margins, clipped."""

    #: Deviation of targets, or of the margins of classes where steps end without noise.
    size: float
    #: Of the margins; 0 for classes.
    constant: float
    #: Mean curvature there, and the largest one.
    bend: float
    largest: float
    #: Mean squared slope.
    square: float


def typical(loss: Loss, spread: float, clip: float = math.inf) -> Slopes:
    """Return slopes for a clip of gradients; `spread` is that of targets, 1 for classes."""
    base = loss.base if isinstance(loss, OneVsRestLoss) else loss
    if loss.target_bound:
        spread = math.exp(round(math.log(spread) / _ROUNDED) * _ROUNDED)
    return _typical(base, spread, clip / ROW / math.sqrt(loss.n_outputs))


@lru_cache(maxsize=256)
def _typical(loss: Loss, spread: float, limit: float) -> Slopes:
    is_number = bool(loss.target_bound)
    target = np.full(len(_NODES), 0.0 if is_number else 1.0)
    weights = _WEIGHTS
    if not is_number:  # of margins times the sign of the label
        weights = 2.0 * expit(math.sqrt(2.0) * TYPICAL * _NODES) * _WEIGHTS

    def slopes(constant: float, size: float) -> np.ndarray:
        found = loss.derivative(spread * (constant + size * _NODES), target) / spread
        return np.clip(found, -limit, limit)

    def bend(constant: float, size: float) -> float:
        rise = slopes(constant + _APART, size) - slopes(constant - _APART, size)
        return max(float(weights @ rise) / (2.0 * _APART), 1e-9)

    if is_number:
        size, near = 1.0, _NEAR[0]
        constant = brentq(lambda at: float(weights @ slopes(at, 1.0)), -8.0, 8.0)
        others = [bend(near * constant, near)]
    else:
        constant, near = 0.0, _NEAR[1]
        size = brentq(lambda at: float((weights * _NODES) @ slopes(0.0, at)), 0.0, 8.0)
        others = [bend(0.0, near), bend(1.0, near)]
    found, square = bend(constant, size), float(weights @ slopes(constant, size) ** 2)
    return Slopes(size, constant, found, max(found, *others), square)


def constants(loss: Loss, means: Means, spread: float) -> np.ndarray:
    """Return the constants to start from: of numbers that of a constant model.

    Those of classes are half of their log odds, as margins are, and at most 1, as of a constant
    model.
    """
    if loss.target_bound:
        return np.array([typical(loss, spread).constant])
    return np.asarray(np.clip(0.5 * logit(means.shares), -1.0, 1.0)[-loss.n_outputs :])


def plan_slope_steps(
    loss: Loss,
    spread: float,
    n_features: int,
    n_records: float,
    noise: float,
    stiffness: float,
    pace: Callable[..., Path] | None = None,
) -> Path:
    """Choose the clip by noise, sampling and what it does to the constant, and the steps.

    Parameters are those of :func:`typical` and of :func:`~.steps.plan_steps`; `noise` is that of a
    mean of vectors of norm 1.
    """
    exact, costs = typical(loss, spread), []
    clips = _CLIPS * math.sqrt(exact.square * loss.n_outputs) * ROW
    for clip in clips:
        found = typical(loss, spread, clip)
        variance = n_features * (clip * noise) ** 2 + found.square / n_records
        variance *= n_features * (exact.size / (found.size * found.bend)) ** 2
        costs.append(variance + (found.constant - exact.constant) ** 2)
    clip = float(clips[int(np.argmin(costs))])
    found = typical(loss, spread, clip)
    path = min(2.0 * _DRIFT * exact.size / (clip * noise), _LONGEST_PATH * n_features / found.bend)
    largest = found.largest * stiffness
    return (pace or paced)(clip, found.bend, path, largest, n_features, clip * noise, _CONSTANT)

"""Release 2: noisy steps, planned from public numbers and release 1.

Steps of a heavy ball are linear in their noise where the loss is a quadratic, so the noise in the
mean of all iterates is known exactly for every curvature (docs/theory/core.md, section 5).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.special import erf

from skdp.algorithms.core.margin_laws import CONSTANT, ROW, Law

#: Clips of squares that are compared, in deviations of the targets; of log odds.
_CLIPS_OF_SQUARES, _CLIPS_OF_ODDS = np.geomspace(0.15, 2.5, 20), np.geomspace(0.25, 1.0, 5)
#: Predicted loss that a larger clip of log odds may cost; true deviation of margins there.
_WORTH, TYPICAL = 0.002, math.sqrt(2.0)
#: Half of the noise of a direction without curvature at the end of all steps: of squares, of two
#: classes and of more.
_DRIFT = (0.75, 1.2, 2.0)
#: Least and largest number of steps; longest stable step in inverse curvatures.
_FEWEST, _MOST, _STABLE = 10, 150, 1.5
#: Curvatures over an average one for which noise is spread over the steps.
_CURVATURES = np.array([0.125, 0.5, 2.0])


@dataclass(frozen=True)
class Path(ABC):
    """Numbers of a way to the weights: of noisy steps, or of solves."""

    #: Norm of the gradient of a record: in deviations of targets, or in the basis of log odds.
    clip: float
    #: Average curvature of the clipped loss in a margin.
    bend: float
    n_features: int
    #: Noise of a mean of clipped gradients for all of the budget of the path.
    unit: float
    #: Value of the constant feature.
    constant: float

    #: What is released, of all records and of weighted ones; Lemma of its sensitivity.
    nouns: ClassVar[tuple[str, str]]
    lemma: ClassVar[str]
    #: Power of the parts of the budget that variances fall by: 2 of epsilons.
    power: ClassVar[int] = 1

    @property
    @abstractmethod
    def name(self) -> str:
        """What the releases are, with their number."""

    @abstractmethod
    def shown(self) -> dict[str, Any]:
        """Return what reports show."""

    @abstractmethod
    def responses(self, curvature: np.ndarray) -> np.ndarray:
        """Return what the noise of each release adds to the weights, shape (n_releases, m)."""

    @abstractmethod
    def reached(self, curvature: float) -> float:
        """Return which part of the weights of a quadratic is reached."""

    @abstractmethod
    def learnt(self, pull: Callable[[np.ndarray], np.ndarray], moments: np.ndarray) -> np.ndarray:
        """Return the deviations of margins that are reached without noise, shape (m, j).

        `pull` is that of :meth:`Law.pulled`, `moments` are second moments of rows along the signal.
        """

    @property
    def average_curvature(self) -> float:
        """Curvature in a direction of average variance."""
        return self.bend / self.n_features

    @cached_property
    def parts(self) -> np.ndarray:
        """Part of the squared mu of each release: by the weight that its noise has in the end."""
        weights = np.abs(self.responses(_CURVATURES * self.average_curvature))
        weights = (weights / weights.sum(axis=0)).mean(axis=1) + 1e-6 / len(weights)
        if self.power == 2:
            weights = weights ** (2.0 / 3.0)
        return np.asarray(weights / weights.sum())

    def variances(self, curvature: np.ndarray) -> np.ndarray:
        """Return the variance of the noise of a weight for some curvatures, shape (m,)."""
        weights = self.responses(curvature)
        return np.asarray(
            self.unit**2 * (weights**2 / self.parts[:, None] ** self.power).sum(axis=0)
        )

    @cached_property
    def variance(self) -> float:
        """Variance of the noise of a weight in an average direction."""
        return float(self.variances(np.array([self.average_curvature]))[0])


@dataclass(frozen=True)
class Steps(Path):
    """Steps of a heavy ball, whose iterates are averaged."""

    n_steps: int
    size: float
    momentum: float

    nouns = (
        "sums of clipped gradients",
        "sums of weighted gradients over the largest weight",
    )
    lemma = "Lemma 2"

    @property
    def name(self) -> str:
        return f"{self.n_steps} steps"

    def shown(self) -> dict[str, Any]:
        return {"n_steps": self.n_steps, "step_size": self.size, "momentum": self.momentum}

    def responses(self, curvature: np.ndarray) -> np.ndarray:
        change = np.full(len(curvature), self.size)
        weight, total = change.copy(), np.zeros(len(curvature))
        out = np.empty((self.n_steps, len(curvature)))
        for step in range(self.n_steps - 1, -1, -1):  # noise of the last step is in one iterate
            total = total + weight
            out[step] = total
            change = self.momentum * change - self.size * curvature * weight
            weight = weight + change
        return out / self.n_steps

    def reached(self, curvature: float) -> float:
        return curvature * float(self.responses(np.array([curvature])).sum())

    def learnt(self, pull: Callable[[np.ndarray], np.ndarray], moments: np.ndarray) -> np.ndarray:
        fitted = change = total = np.zeros((1, len(moments)))
        for _ in range(self.n_steps):
            change = self.momentum * change - self.size * moments * pull(fitted)
            fitted = fitted + change
            total = total + fitted
        return np.asarray(total / self.n_steps)


def plan_steps(
    law: Law,
    n_classes: int,
    n_features: int,
    n_records: float,
    noise: float,
    stiffness: float = 1.0,
    pace: Callable[..., Path] | None = None,
) -> Path:
    """Choose clip, path and steps; `noise` is that of a mean of vectors of norm 1.

    `stiffness` multiplies the largest curvature. `pace` is :func:`paced`, or that of solves.
    """
    if n_classes:
        losses = np.empty(len(_CLIPS_OF_ODDS))  # that noise costs on the way to the end
        for i, clip in enumerate(_CLIPS_OF_ODDS.tolist()):
            end, bend = law.end(clip, TYPICAL)
            losses[i] = (clip * noise * n_features / (bend * end)) ** 2
        losses *= law.end(1.0, TYPICAL)[1]
        clip = float(_CLIPS_OF_ODDS[losses <= losses.min() + _WORTH].max())
        bend = law.end(clip, TYPICAL)[1]
    else:
        clips = _CLIPS_OF_SQUARES
        z = clips / ROW
        bends = erf(z / math.sqrt(2.0))
        # second moment of a clipped standard normal number
        sampled = bends - z * math.sqrt(2.0 / math.pi) * np.exp(-0.5 * z**2) + z**2 * (1.0 - bends)
        variance = (n_features * (clips * noise) ** 2 + sampled / n_records) / bends**2
        best = int(np.argmin(variance))
        clip, bend = float(clips[best]), float(bends[best])
    drift = _DRIFT[min(n_classes, 3) - 1 if n_classes else 0]
    path, largest = 2.0 * drift / (clip * noise), (0.5 if n_classes else 1.0) * stiffness
    return (pace or paced)(clip, bend, path, largest, n_features, clip * noise)


def paced(
    clip: float,
    bend: float,
    path: float,
    largest: float,
    n_features: int,
    unit: float,
    constant: float = CONSTANT,
) -> Steps:
    """Choose the steps for the length of their path and the largest curvature."""
    horizon = path * largest / _STABLE
    n_steps = int(min(max(2.0 * math.sqrt(horizon), _FEWEST), _MOST))
    size, momentum = path / n_steps, 0.0
    if horizon > n_steps:
        size = _STABLE / largest
        momentum = max(min(1.0 - n_steps / horizon, 1.0 - 4.0 / n_steps), 0.0)
    return Steps(clip, bend, n_features, unit, constant, n_steps, size, momentum)

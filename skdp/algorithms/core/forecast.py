"""What public numbers, and then releases, let expect of a fit: margins, noise, and its penalty.

Theory: docs/theory/core.md, sections 7 and 9.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from skdp._runtime import without_warnings
from skdp.algorithms.core.margin_laws import Balance, Law
from skdp.algorithms.core.means import Means
from skdp.algorithms.core.post import LEAST_RESIDUAL, step_variances
from skdp.algorithms.core.size import Corrected, Size
from skdp.algorithms.core.slopes import typical
from skdp.algorithms.core.steps import TYPICAL, Path
from skdp.algorithms.statistics.margins import PRIOR_VARIANCE, sampling_noise
from skdp.algorithms.weight_noise import MarginNoise, PlannedNoise
from skdp.problems import Design, Loss

#: Rows are expected to vary in so many directions at most.
_DIRECTIONS = 100
#: Part of the sampling variance of a weight that counts as noise where weights are shrunk.
_SAMPLED = 0.2


@dataclass(frozen=True)
class Found:
    """What follows from releases: the means, then the law and the steps, then the size."""

    means: Means
    law: Law | None
    steps: Path
    balance: Balance | None
    start: np.ndarray  # margins of a constant model in the basis
    #: Deviation of the targets in units of the loss, 1 for classes; margins of the loss over those
    #: of the steps; norm of the gradient of a record in units of the loss.
    spread: float
    scale: float
    clip: float
    size: Size | None = None
    theta: Corrected | None = None

    def sampled(self, size: Size) -> float:
        """Return what of the variance that the sample adds to a weight it is shrunk for."""
        steps, scatter = self.steps, self.steps.bend  # of log odds: of residuals, too
        if not len(self.means.shares):
            scatter = max(1.0 - size.size**2, LEAST_RESIDUAL)
        path = float(steps.responses(np.array([steps.average_curvature])).sum())
        return _SAMPLED * scatter * path**2 / (steps.n_features * self.means.n_records)


def is_free(loss: Loss) -> bool:
    """Whether predictions do not depend on the size of margins, as those of hinges."""
    return not (loss.has_odds or loss.target_bound)


@dataclass(frozen=True)
class Forecast:
    """Margins and their noise, of what was found or of what public numbers let expect."""

    found: Found
    loss: Loss
    design: Design
    #: Margins of the loss over those in the basis of log odds.
    unit: float

    @property
    def true_deviation(self) -> float:
        """True deviation of margins that public numbers let expect."""
        return 0.5 if self.loss.target_bound else TYPICAL

    @without_warnings()
    def margins(self, true: float) -> tuple[float, float, float, float]:
        """Return which part of true margins steps learn, their deviation, noise and best factor."""
        law, steps, k = self.found.law, self.found.steps, self.loss.n_outputs
        moment, scale = 1.0 / min(steps.n_features, _DIRECTIONS), self.found.scale
        if law is None:
            margins = typical(self.loss, scale, steps.clip)
            part = steps.reached(margins.bend * moment)
            seen = part * (true if self.loss.target_bound else margins.size)
        else:
            learnt = steps.learnt(law.pulled(steps.clip), np.array([moment]))
            seen = float(np.interp(true, law.deviations, learnt[:, 0]))
            part = seen / true
        given = np.zeros(k), seen**2 * np.eye(k), scale, self.unit
        variance = float(step_variances(self.loss, steps, *given).mean())
        if law is None:
            factor = typical(self.loss, scale).size / margins.size
            kept = 1.0 if is_free(self.loss) else seen**2 / (seen**2 + variance)
            return part, seen, math.sqrt(variance), factor * kept
        own = np.sqrt(learnt**2 + variance)
        factors = (law.best(learnt / own) / own)[:, 0]
        factor = float(np.interp(true, law.deviations, factors))
        return part, seen, math.sqrt(variance), factor

    def noise(self) -> PlannedNoise:
        """Return the noise of predictions."""
        # margins of variance 1, and half of the variance of numbers
        true = 1.0 if self.loss.n_outputs > 1 else math.sqrt(0.5)
        learnt, _, noise, factor = self.margins(true)
        spread = self.loss.target_bound * math.sqrt(PRIOR_VARIANCE) or 1.0
        margin = self.unit * spread * factor * noise
        of_rows = self.design.features_norm
        margins = MarginNoise(coef=margin / of_rows, average_row=margin, rare_row=margin)
        # what is not learnt does not scatter
        return PlannedNoise(margins, factor * learnt * sampling_noise(self.loss, self.design))

    @property
    def signal(self) -> float:
        """Part of the squared margins of the steps that is no noise, or is expected to be none."""
        size = self.found.size
        if size is None:
            _, seen, noise, _ = self.margins(self.true_deviation)
            return seen**2 / (seen**2 + noise**2)
        return 1.0 - size.noise / size.deviation**2

    @property
    def curvature(self) -> float:
        """Mean second derivative of the loss in a coefficient, at the size of the margins."""
        found, theta = self.found, self.found.theta
        scale = self.design.features_norm * found.means.centering.scale / self.unit
        if found.law is None:
            bend = typical(self.loss, found.spread).bend
        else:
            size = self.true_deviation if theta is None else float(theta.theta[0])
            bends = found.law.slope / found.law.deviations
            bend = float(np.interp(size, found.law.deviations, bends))
        return bend * scale**2 / self.design.n_features

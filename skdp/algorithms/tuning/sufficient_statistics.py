"""Ridge regression that tunes its penalty on one noisy release of second moments.

Least squares sees the records through their second moments alone. Once these are released,
everything is post-processing: any number of candidates for alpha, one per group of coefficients,
and the final model (docs/theory/tuning.md). No budget is split.

Candidates are compared by Stein's identity: :mod:`skdp.algorithms.tuning.alpha_search`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from skdp._checks import check_positive
from skdp._runtime import without_warnings
from skdp.algorithms.plan import Run
from skdp.algorithms.statistics.clipped_curvature import sampling_noise
from skdp.algorithms.tuning.alpha_search import (
    RidgeModels,
    SteinRisk,
    search_alpha,
)
from skdp.algorithms.tuning.moments import (
    MomentsPlan,
    plan_private_moments,
    private_moments,
)
from skdp.algorithms.tuning.objective import TunedResult, TuningPlan
from skdp.algorithms.weight_noise import MarginNoise, PlannedNoise, WeightNoise
from skdp.privacy.report import Release
from skdp.problems import Design, HalfSquaredLoss, Records


@dataclass(frozen=True, kw_only=True)
class MomentsTuningPlan(TuningPlan):
    """Choose alpha and fit the model on released statistics.

    Parameters
    ----------
    alpha : float, optional
        Public penalty > 0 for all groups. Default: that of the least estimated risk.
    """

    alpha: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.alpha is not None:
            check_positive(alpha=self.alpha)

    def fixed_alpha(self, unit: float) -> np.ndarray | None:
        """Return the public alpha of all groups for rows divided by a unit; None without one."""
        if self.alpha is None:
            return None
        return np.full(self.objective.penalties.n_groups, self.alpha / unit / unit)

    @property
    def design(self) -> Design:
        return self.objective.design


@dataclass(frozen=True, kw_only=True)
class SufficientStatisticsPlan(MomentsTuningPlan):
    """Choose alpha and fit ridge regression on released moments.

    Parameters
    ----------
    coef_norm : float, optional
        Public guess > 0 of the norm of a good predictor, for the weight of the targets. Default:
        that on isotropic rows.
    """

    coef_norm: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.objective.loss, HalfSquaredLoss):
            raise ValueError(f"Moments say too little about {type(self.objective.loss).__name__}.")
        assert self.moments  # what is refused is refused here

    @cached_property
    def moments(self) -> MomentsPlan:
        """Plan of the release."""
        assert isinstance(self.objective.loss, HalfSquaredLoss)
        bound = self.objective.loss.target_bound
        guess = self.objective.reference_norm if self.coef_norm is None else self.coef_norm
        return plan_private_moments(
            self.budget,
            self.design,
            target_bound=bound,
            coef_norm=guess,
            neighbouring=self.objective.neighbouring,
        )

    @property
    def releases(self) -> tuple[Release, ...]:
        return (self.moments.release,)

    def to_dict(self) -> dict[str, Any]:
        return self.moments.to_dict()

    def planned_noise(self) -> PlannedNoise:
        """At a given alpha, or one that balances bias and noise for a good predictor."""
        design, moments = self.objective.design, self.moments
        moment = design.second_moment
        square = self.objective.reference_norm**2
        variance = moments.deviation**2 * (0.5 / moments.weight**2 + 0.5 * square)
        alpha = self.alpha
        if alpha is None:
            alpha = variance * design.width / (square * moment)
        coef = math.sqrt(variance) / (moment + alpha)
        margin = coef * design.feature_norm
        noise = MarginNoise(coef=coef, average_row=margin, rare_row=margin)
        return PlannedNoise(noise, sampling_noise(self.objective.loss, design, alpha))

    @without_warnings()
    def run(self, data: Records, run: Run) -> TunedResult:
        self.objective.check(data)
        # rows and targets of at most 1 from here on: nothing overflows, and floors are public
        unit, target_bound = self.design.feature_norm, self.moments.target_bound
        for _ in run.counted("second moments")(1):
            moments = private_moments(data, self.moments, run.noise)
        scaled, clipped = self.objective.penalties.rescaled(unit), self.objective.penalties.clipped
        ridge = RidgeModels(moments.rescaled(unit, target_bound), scaled)
        alpha = self.fixed_alpha(unit)
        if alpha is not None:
            path = alpha[None]
        else:
            alpha, path = search_alpha(SteinRisk(ridge, 1.0), scaled)
        point = ridge.coefficients(alpha) * target_bound / unit
        return TunedResult(
            point=point,
            plan=self,
            alpha=clipped(alpha * unit * unit),
            path=clipped(path * unit * unit),
            noise=WeightNoise.dense(
                noise_factor(ridge, alpha) * (target_bound / unit),
                ridge.convex * unit**2,
                data.intercept,
                np.ones((1, 1)),
            ),
        )


def noise_factor(ridge: RidgeModels, alpha: np.ndarray) -> np.ndarray:
    """Return F with ``F' F`` the covariance of the coefficients for a penalty, shape (p, p).

    The noise of ``Q (c - E w)``, with the noise of c and the symmetric noise E of the moments; the
    choice of the penalty is left out (docs/theory/tuning.md, "The noise that is left").
    """
    w, moments = ridge.coefficients(alpha), ridge.moments
    square = moments.vector_deviation**2 + 0.5 * moments.deviation**2 * float(w @ w)
    # a root of square I + deviation^2 w w' / 2
    along = math.sqrt(square + 0.5 * moments.deviation**2 * float(w @ w)) - math.sqrt(square)
    unit = w / max(float(np.linalg.norm(w)), 1e-300)
    root = math.sqrt(square) * np.eye(len(w)) + along * np.outer(unit, unit)
    return root @ ridge.inverse(alpha)

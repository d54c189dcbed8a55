"""A fit to all records at penalties that are public or have been released.

It is output perturbation in whitened coordinates (:mod:`skdp.problems.penalties`). Noise is
isotropic there, so it has covariance ``s^2 Omega^{-1}`` in w (docs/theory/bilevel.md, Lemma 8).
Where alpha has been released before, the noise may depend on it. The cost of the fit does not: its
event is fixed by the budget alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from skdp.algorithms.output.one_shot import OutputPerturbationPlan, plan_output_perturbation
from skdp.algorithms.plan import Plan, Result, Run
from skdp.algorithms.tuning.objective import TuningObjective
from skdp.algorithms.weight_noise import WeightNoise
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.report import Release
from skdp.problems import Records

#: Step in log alpha for the gradient of the cost of noise.
_LOG_STEP = 1e-4


@dataclass(frozen=True, kw_only=True)
class FinalFitPlan(Plan):
    """Output perturbation at an alpha that is public or has been released, for a share."""

    objective: TuningObjective
    alpha: np.ndarray
    budget: PrivacyBudget
    share: float = 1.0

    @cached_property
    def step(self) -> OutputPerturbationPlan:
        """Plan in whitened coordinates."""
        constants = self.objective.constants(self.alpha)
        relation = self.objective.neighbouring
        return plan_output_perturbation(
            constants, self.budget, neighbouring=relation, share=self.share
        )

    @property
    def releases(self) -> tuple[Release, ...]:
        """The statement about the whitened coefficients ``Omega^{1/2} w``.

        Sensitivity and noise scale depend on alpha, the event does not.
        """
        reference = "docs/theory/bilevel.md, Lemma 8: output perturbation, whitened"
        name = "whitened coefficients"
        return (replace(self.step.releases[0], name=name, reference=reference),)

    @property
    def noise_cost(self) -> float:
        """Public bound on what the noise adds to the expected loss: ``c s^2 U^2 / 2``."""
        square = self.objective.whitened(self.alpha).feature_norm ** 2
        width = self.objective.design.width
        return self.objective.loss.noise_cost(
            square * (self.step.mechanism.mean_square(width) / width)
        )

    @property
    def noise_cost_gradient(self) -> np.ndarray:
        """Gradient of `noise_cost` in ``log alpha``, by central differences: it has kinks."""
        steps = np.exp(_LOG_STEP * np.eye(len(self.alpha)))
        ends = [
            replace(self, alpha=self.alpha * step).noise_cost
            - replace(self, alpha=self.alpha / step).noise_cost
            for step in steps
        ]
        return np.array(ends) / (2.0 * _LOG_STEP)

    def to_dict(self) -> dict[str, Any]:
        return self.step.to_dict()

    def run(self, data: Records, run: Run) -> Result:
        point = self.step.run(self.objective.problem(data, self.alpha), run).point
        whitening, objective = self.objective.whitening(self.alpha), self.objective
        variance = self.step.mechanism.mean_square(len(whitening)) / len(whitening)
        design = objective.design
        noise = WeightNoise.dense(
            np.diag(math.sqrt(variance) * whitening),
            design.second_moment * np.eye(len(whitening)),
            data.intercept,
            np.ones((1, 1)),
        )
        return Result(point=point * whitening, plan=self, noise=noise)

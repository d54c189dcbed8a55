"""Output perturbation of a regularised risk: one solve on all records, with a chosen penalty.

The method "output_perturbation" of linear models. :func:`choose_alpha` chooses the penalty by a
public bound, unless the objective has one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from skdp.algorithms.kernel import solution_sensitivity
from skdp.algorithms.output import rules
from skdp.algorithms.output.one_shot import (
    OutputPerturbationPlan,
    PlanCalibration,
    plan_output_perturbation,
)
from skdp.algorithms.output.published import lowy_regularisation
from skdp.algorithms.plan import Plan, Result, Run
from skdp.algorithms.statistics.margins import sampling_noise
from skdp.algorithms.weight_noise import PlannedNoise, WeightNoise
from skdp.mechanisms import calibrated_mechanism
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.report import Release
from skdp.problems import EmpiricalRisk, Objective, ProblemConstants, Records


@dataclass(frozen=True, kw_only=True)
class RegularizedRiskPlan(Plan):
    """One kernel step on all records."""

    #: Its risk is smooth.
    objective: Objective
    #: The penalty of the objective, or one chosen for it.
    alpha: float
    step: OutputPerturbationPlan

    @property
    def risk(self) -> EmpiricalRisk:
        return self.objective.risk

    @property
    def releases(self) -> tuple[Release, ...]:
        return self.step.releases

    def bound(self) -> float:
        step, dimension = self.step, self.step.constants.dimension
        square = step.mechanism.mean_square(dimension)
        return utility_bound(self.objective, step.constants, step.accuracy, square)

    def alarms(self) -> tuple[str, ...]:
        return self.risk.alarms(self.step.constants, self.objective.design)

    def to_dict(self) -> dict[str, Any]:
        return self.step.to_dict()

    def planned_noise(self) -> PlannedNoise:
        design = self.objective.design
        return PlannedNoise(
            self.noise().margins, sampling_noise(self.risk.loss, design, self.alpha)
        )

    def noise(self) -> WeightNoise:
        """Covariance of the released weights, but for the projection onto the ball."""
        design, loss = self.objective.design, self.risk.loss
        k, dimension = loss.n_outputs, self.step.constants.dimension
        variance = self.step.mechanism.mean_square(dimension) / dimension
        squares = np.full((k, design.n_features + 1), variance)
        mix = np.asarray(loss.class_weights(np.eye(k)))
        return WeightNoise.independent(squares, design.intercept, design.feature_norm, mix)

    def run(self, data: Records, run: Run) -> Result:
        self.objective.design.check(data)
        radius = self.step.constants.domain_radius
        assert radius is not None
        problem = self.objective.problem(data, self.alpha, radius)
        return Result(point=self.step.run(problem, run).point, plan=self, noise=self.noise())


def plan_regularized_risk(
    objective: Objective, budget: PrivacyBudget, calibration: str = "analytic"
) -> RegularizedRiskPlan:
    """Choose penalty, accuracy and noise from public numbers.

    Parameters
    ----------
    objective : Objective
    budget : PrivacyBudget
    calibration : {"analytic", "paper"}, default="analytic"
        "paper": Lowy and Razaviyayn (2021), Alg. 1 if the objective has a penalty, else Alg. 6,
        errata corrected.
    """
    alpha, radius = objective.alpha, objective.coef_norm
    kind: PlanCalibration = "analytic"
    if calibration == "paper":
        kind = "lowy2021_alg1" if alpha else "lowy2021_alg6"
    if kind == "lowy2021_alg6":
        alpha, radius = _published_alpha(objective, budget)
    elif not alpha:
        alpha = choose_alpha(objective, budget)
    unit = calibrated_mechanism(budget, 1.0).mean_square(objective.dimension)
    smooth, constants = _smoothed_constants(objective, alpha, radius, unit)
    step = plan_output_perturbation(
        constants, budget, neighbouring=objective.neighbouring, calibration=kind
    )
    return RegularizedRiskPlan(objective=smooth, alpha=alpha, step=step)


def _published_alpha(objective: Objective, budget: PrivacyBudget) -> tuple[float, float]:
    """Return the penalty of Lowy and Razaviyayn (2021), Alg. 6, and its radius."""
    risk, design, radius = objective.risk, objective.design, objective.coef_norm
    if radius is None:
        radius = risk.reference_norm(design)
    constants = risk.constants(design, 1.0, radius)  # of which neither depends on the penalty
    alpha = lowy_regularisation(
        budget,
        objective.dimension,
        design.n_records,
        constants.lipschitz,
        constants.smoothness,
        radius,
        population=objective.population,
    )
    return alpha, radius


def choose_alpha(objective: Objective, budget: PrivacyBudget) -> float:
    """Choose the penalty that minimises :func:`utility_bound`, for isotropic rows."""
    feature_unit, norm = objective.design.feature_norm**2, objective.comparator_norm
    noise_unit = calibrated_mechanism(budget, 1.0).mean_square(objective.dimension)

    def bound(point: float) -> float:
        alpha = feature_unit * math.exp(point)
        given = _smoothed_constants(objective, alpha, objective.coef_norm, noise_unit)
        _, accuracy, sensitivity = solution_sensitivity(given[1], objective.neighbouring)
        square = noise_unit * sensitivity**2
        return utility_bound(*given, accuracy, square, comparator_norm=norm)

    # the bound has flat pieces where the sensitivity is capped, so bracket its minimum first
    grid = np.linspace(*rules.ALPHA_GRID)
    best = int(np.argmin([bound(point) for point in grid.tolist()]))
    bracket = (grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)])
    finest = minimize_scalar(
        lambda point: math.log(bound(point)),
        bounds=bracket,
        method="bounded",
        options={"xatol": 1e-3},
    )
    return feature_unit * math.exp(float(finest.x))


def _smoothed_constants(
    objective: Objective, alpha: float, coef_norm: float | None, noise_unit: float
) -> tuple[Objective, ProblemConstants]:
    """Smooth a non-smooth objective by the noise for a penalty; return it and its constants.

    `noise_unit` is the mean square of the noise for a sensitivity of 1.
    """
    risk, design = objective.risk, objective.design
    constants = risk.constants(design, alpha, risk.radius(design, alpha, coef_norm))
    if risk.is_smooth:
        return objective, constants
    sensitivity = constants.argmin_sensitivity(objective.neighbouring)
    deviation = sensitivity * math.sqrt(noise_unit / constants.dimension)
    smooth = objective.smoothed(design.feature_norm * deviation)
    risk = smooth.risk
    return smooth, risk.constants(design, alpha, risk.radius(design, alpha, coef_norm))


def utility_bound(
    objective: Objective,
    constants: ProblemConstants,
    accuracy: float,
    noise_square: float,
    *,
    comparator_norm: float | None = None,
) -> float:
    """Bound the expected excess of a smooth risk over the best w of the comparator's norm.

    The costs of the penalty, of the noise and of the solver, and the generalisation gap for the
    population risk (docs/theory/output_perturbation.md, "Utility"). A penalty that is part of the
    objective costs only its value at the noise, whose expected squared norm is `noise_square`.
    """
    risk, design, mu = objective.risk, objective.design, constants.strong_convexity
    penalty = 0.0 if objective.alpha else mu  # the part that is there for privacy
    norm = objective.comparator_norm if comparator_norm is None else comparator_norm
    bound = risk.penalty_cost(design, penalty, norm)
    bound += risk.noise_cost(design, noise_square / constants.dimension)
    bound += constants.lipschitz * accuracy
    bound += 0.5 * (mu - penalty) * noise_square
    if objective.population:
        bound += risk.generalisation_cost(design, constants)
    return bound

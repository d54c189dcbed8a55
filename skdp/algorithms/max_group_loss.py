"""The worst group's loss, privately: phases of the saddle problem, by public bounds.

Zhang et al. (2022), specification, section 7.4. The factors of the groups' losses are public, the
same for all data sets, or released first by :func:`private_proportions` with a share of the budget.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from skdp.algorithms.phased_saddle_output_perturbation import (
    PhasedSaddlePlan,
    SaddlePhase,
    phased_saddle_output_perturbation,
    plan_phased_saddle_output_perturbation,
)
from skdp.mechanisms import AdditiveMechanism, NoiseSource, calibrated_mechanism
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.report import Release
from skdp.problems import (
    Design,
    EmpiricalRisk,
    GroupWeights,
    MaxGroupLossProblem,
    Records,
    Simplex,
    max_group_loss_constants,
)
from skdp.problems.domains import euclidean_norm
from skdp.problems.silence import without_warnings

__all__ = [
    "MaxGroupLossBound",
    "MaxGroupLossResult",
    "max_group_loss",
    "plan_max_group_loss",
    "private_proportions",
]


#: Least spread of margins that a kink is smoothed for, in units of a good predictor's margins.
_LEAST_SPREAD = 0.01


@dataclass(frozen=True)
class MaxGroupLossBound:
    """Public estimate of the expected excess of the largest group loss, for choosing a plan.

    As :func:`skdp.algorithms.phased_output_perturbation.phased_utility_bound`, with the
    differences that groups make. The weights' regulariser costs ``(nu/2) ||y* - c||^2``, for which
    y* is taken half-way from equal weights to one group. A group has only ``n / c`` records. Noise
    moves the losses of different groups in different directions, of which the maximum takes the
    worst: ``sqrt(2 log(G) q v)`` with the variance v of a coordinate of the noise and the
    mean square ``q = loss.sampling_scale * h`` of the gradient along one direction,
    ``h = loss.curvature * second_moment``.

    Where mu_1 > 2 h it is multiplied by ``(mu_1 / 2 h)^2``: it would favour the predictor 0 if
    the budget is small, which predicts no label.

    Parameters
    ----------
    risk : EmpiricalRisk
        Smooth.
    design : Design
    weights : GroupWeights
    radius : float
    alpha : float
    objective : {"empirical", "population"}
    """

    risk: EmpiricalRisk
    design: Design
    weights: GroupWeights
    radius: float
    alpha: float
    objective: Literal["empirical", "population"]

    def __call__(self, phases: Sequence[SaddlePhase]) -> float:
        risk, design, weights = self.risk, self.design, self.weights
        lipschitz = risk.loss.lipschitz(design.feature_norm, self.radius)
        largest = risk.loss.largest_value(design.feature_norm, self.radius)
        dimension, c = risk.dimension(design), weights.bound
        comparator = min(self.radius, risk.reference_norm(design))
        curvature = risk.loss.curvature * design.second_moment
        gradient = min(lipschitz, math.sqrt(risk.loss.sampling_scale * curvature))
        gradient *= math.sqrt(2.0 * math.log(weights.n_groups))
        total = risk.penalty_cost(design, phases[0].regularisation, comparator)
        away = 0.5 * Simplex(weights.n_groups).circumradius
        total += 0.5 * phases[0].other_regularisation * away**2
        square, moved = 0.0, 0.0
        for k, phase in enumerate(phases):
            if self.objective == "population":
                stability = lipschitz * lipschitz / phase.modulus
                stability += largest * largest / phase.other_modulus
                total += 2.0 * c**2 * stability / phase.n_records
            else:
                total += c * risk.sampling_cost(design, phase.modulus, phase.n_records)
            if k:
                total += min(0.5 * phase.regularisation * square, moved)
            square = phase.mean_square
            variance = square / dimension
            moved = risk.noise_cost(design, variance) + gradient * math.sqrt(variance)
            moved = min(lipschitz * math.sqrt(square), moved) + 0.5 * self.alpha * square
        return (total + moved) * max(1.0, 0.5 * phases[0].regularisation / curvature) ** 2


@dataclass(frozen=True)
class MaxGroupLossResult:
    """A private predictor and the plan that it was made by.

    Attributes
    ----------
    point : ndarray of shape (dimension,)
    group_weights : ndarray of shape (n_groups,) or None
        The worst-case weights, if released.
    path : tuple of ndarray
        The released points of all phases.
    plan : PhasedSaddlePlan
    risk : EmpiricalRisk
        The smooth risk that was minimised.
    """

    point: np.ndarray
    group_weights: np.ndarray | None
    path: tuple[np.ndarray, ...]
    plan: PhasedSaddlePlan
    risk: EmpiricalRisk


def max_group_loss(
    records: Records,
    risk: EmpiricalRisk,
    weights: GroupWeights,
    budget: PrivacyBudget,
    *,
    radius: float,
    alpha: float = 0.0,
    share: float = 1.0,
    release_weights: bool = False,
    n_phases: int | None = None,
    calibration: Literal["analytic", "paper"] = "analytic",
    objective: Literal["empirical", "population"] = "empirical",
    solver: Any = "auto",
    solver_rng: np.random.Generator | None = None,
    noise: NoiseSource | None = None,
    verbose: int = 0,
) -> MaxGroupLossResult:
    """Minimise the largest loss of a group over a ball, privately.

    Parameters
    ----------
    records : Records
        With targets and groups 0, ..., n_groups - 1.
    risk : EmpiricalRisk
        The mean of a convex loss that is not negative.
    weights : GroupWeights
        Public, or released before with another share of the budget.
    budget : PrivacyBudget
    radius : float
        Public radius of the ball.
    alpha : float, default=0.0
        Of a penalty that is part of the objective.
    share : float, default=1.0
        Part of the budget that may be spent.
    release_weights : bool, default=False
        Whether the worst-case weights are released, together with the last phase's point, whose
        noise grows for it.
    n_phases, calibration, objective
        See :func:`plan_max_group_loss`.
    solver, solver_rng, noise, verbose
        See :func:`skdp.algorithms.phased_saddle_output_perturbation`.

    Returns
    -------
    MaxGroupLossResult
    """
    smooth, _ = plan_max_group_loss(
        risk,
        Design.of(records),
        weights,
        budget,
        radius=radius,
        alpha=alpha,
        share=share,
        release_weights=release_weights,
        n_phases=n_phases,
        calibration=calibration,
        objective=objective,
    )
    # its regularisers are those of the phases
    with without_warnings():
        problem = MaxGroupLossProblem(records, smooth.loss, weights, radius, 1.0, 1.0)
    result = phased_saddle_output_perturbation(
        problem,
        budget,
        release="joint" if release_weights else "x",
        alpha=alpha,
        share=share,
        calibration=calibration,
        utility=MaxGroupLossBound(smooth, Design.of(records), weights, radius, alpha, objective),
        n_phases=n_phases,
        strata=records.groups if weights.public_groups else None,
        solver=solver,
        solver_rng=solver_rng,
        noise=noise,
        verbose=verbose,
    )
    assert result.x is not None
    return MaxGroupLossResult(result.x, result.y, result.path, result.plan, smooth)


@lru_cache(maxsize=256)
def plan_max_group_loss(
    risk: EmpiricalRisk,
    design: Design,
    weights: GroupWeights,
    budget: PrivacyBudget,
    *,
    radius: float,
    alpha: float = 0.0,
    share: float = 1.0,
    release_weights: bool = False,
    n_phases: int | None = None,
    calibration: Literal["analytic", "paper"] = "analytic",
    objective: Literal["empirical", "population"] = "empirical",
) -> tuple[EmpiricalRisk, PhasedSaddlePlan]:
    """Choose the smooth risk, the phases and their noise by :class:`MaxGroupLossBound`.

    Parameters
    ----------
    risk, weights, budget, radius, alpha, share, release_weights
        See :func:`max_group_loss`.
    design : Design
    n_phases : int, optional
        1 is output perturbation of all records; default: the planner chooses.
    calibration : {"analytic", "paper"}, default="analytic"
        "paper": Alg. 4 as printed, for comparison.
    objective : {"empirical", "population"}, default="empirical"
        Whether the bound is on the loss of these records or of others like them.

    Returns
    -------
    risk : EmpiricalRisk
        In place of a piecewise linear loss its envelope.
    plan : PhasedSaddlePlan
    """
    if not risk.is_mean:
        raise ValueError(f"{type(risk).__name__} is no mean over records: phases do not apply.")

    def plan(smooth: EmpiricalRisk) -> PhasedSaddlePlan:
        simplex = Simplex(weights.n_groups)
        center_norm = euclidean_norm(simplex.center(weights.n_groups))
        constants = max_group_loss_constants(
            smooth.loss, weights, design, radius, 1.0, 1.0, center_norm_y=center_norm
        )
        return plan_phased_saddle_output_perturbation(
            constants,
            budget,
            release="joint" if release_weights else "x",
            alpha=alpha,
            share=share,
            calibration=calibration,
            utility=MaxGroupLossBound(smooth, design, weights, radius, alpha, objective),
            n_phases=n_phases,
        )

    if risk.is_smooth:
        return risk, plan(risk)
    # a width that suits the noise of the last phase, which depends on the width a little, but not
    # far below a margin: other solvers than Newton's would take very long
    spread, least = (
        design.feature_norm * risk.reference_norm(design),
        _LEAST_SPREAD * risk.loss.margin_scale,
    )
    for _ in range(3):
        smooth = risk.smoothed(spread)
        planned = plan(smooth)
        spread = max(least, design.feature_norm * planned.phases[-1].noise_deviation_x)
    return smooth, planned


def private_proportions(
    groups: np.ndarray,
    n_groups: int,
    budget: PrivacyBudget,
    *,
    share: float = 1.0,
    noise: NoiseSource | None = None,
) -> tuple[np.ndarray, Release]:
    """Noisy shares of the groups, replace-one neighbours.

    A record that changes its group changes two counts by 1: a distance of sqrt(2).

    Parameters
    ----------
    groups : ndarray of int of shape (n,)
    n_groups : int
    budget : PrivacyBudget
    share : float, default=1.0
        Part of the budget that may be spent.
    noise : NoiseSource, optional

    Returns
    -------
    proportions : ndarray of shape (n_groups,)
        Within [0, 1]; their sum need not be 1.
    release : Release
    """
    if not ((groups >= 0) & (groups < n_groups)).all():
        raise ValueError(f"groups must be in 0, ..., {n_groups - 1}.")
    n = len(groups)
    mechanism: AdditiveMechanism = calibrated_mechanism(
        budget, math.sqrt(2.0) * (1.0 + 1e-12) / n, share=share
    )
    with without_warnings():
        counts = np.bincount(groups, minlength=n_groups) / n
        released = mechanism.release(counts, NoiseSource() if noise is None else noise)
    reference = "Zhang et al. 2022, specification, section 7.4 C; one record, two counts"
    release = mechanism.describe("group proportions", n_groups, n, reference)
    return np.clip(released, 0.0, 1.0), release

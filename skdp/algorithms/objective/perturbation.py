"""Objective perturbation: add a random linear term to the objective, and minimise it exactly.

The coefficients minimise ``sum of losses + (Lambda / 2) ||w||^2 + b'w``. They determine b, so that
their density follows from that of b: the noise hides the gradient of a record, and Lambda its
Hessian. No point is found exactly, so the solution is certified to a public accuracy, and noise for
twice that accuracy is added (Kifer, Smith and Thakurta 2012; Redberg, Koskela and Wang 2023).
Theory: docs/theory/objective_perturbation.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skdp._runtime import without_warnings
from skdp.algorithms.kernel import certifiable_accuracy, solve_and_release
from skdp.algorithms.objective import rules
from skdp.algorithms.objective.theorems import (
    gradient_bound,
    has_theorem,
    hessian_epsilon,
    hessian_rank,
    largest_mu,
    rank_curvature,
)
from skdp.algorithms.plan import LARGE_NOISE, LEAST_MARGINS, Plan, Result, Run
from skdp.algorithms.statistics.margins import clipped_curvature, sampling_noise
from skdp.algorithms.weight_noise import PlannedNoise, WeightNoise
from skdp.mechanisms import (
    AdditiveMechanism,
    GaussianMechanism,
    SphericalLaplaceMechanism,
    calibrated_mechanism,
)
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import Neighbouring, whole_event
from skdp.privacy.report import Release
from skdp.problems import (
    ROUNDING_SLACK,
    Ball,
    ClippedLogisticLoss,
    Design,
    EmpiricalRisk,
    FiniteSumProblem,
    LogisticLoss,
    Loss,
    Objective,
    ProblemConstants,
    Records,
    SoftmaxLoss,
)
from skdp.problems.constants import generalised_linear_constants
from skdp.problems.rounding import EPS

#: Logarithm of the probability that the linear term is longer than planned.
_LOG_TAIL = 700.0


@dataclass(frozen=True, kw_only=True)
class ObjectivePerturbationPlan(Plan):
    """The penalty, the law of the linear term and the accuracy of the solver."""

    #: That is asked for; its design is that of the records.
    objective: Objective
    #: That is minimised: of the log loss the clipped one, of a loss with a kink the envelope.
    loss: Loss
    #: Of the rows with the intercept feature of this method.
    design: Design
    #: Lambda, of the sum over records.
    penalty: float
    #: The law of b. Its sensitivity bounds the difference of the gradients of neighbours.
    linear: AdditiveMechanism
    #: Of the exact minimiser.
    budget: PrivacyBudget
    #: Bound on the distance of the solver's point to the exact minimiser.
    accuracy: float
    #: Noise for twice the accuracy.
    output: AdditiveMechanism
    #: The statement that the law of b comes from.
    theorem: str

    @property
    def risk(self) -> EmpiricalRisk:
        return EmpiricalRisk(self.loss)

    @property
    def alpha(self) -> float:
        """The penalty of the mean over the public number of records."""
        return self.penalty / self.design.n_records

    @property
    def hessian_epsilon(self) -> float:
        """Part of epsilon that the change of the Hessian costs: J."""
        rank = hessian_rank(self.loss, self.design)
        return hessian_epsilon(self.loss, self.design.feature_norm, self.penalty, rank)

    @property
    def releases(self) -> tuple[Release, ...]:
        relation = self.objective.neighbouring
        sizes = self.objective.dimension, self.design.n_records
        linear, page = self.linear, "docs/theory/objective_perturbation.md, Theorem"
        statement = f"{page} {self.theorem}"
        if self.design.of_persons:
            statement = f"docs/theory/persons.md, Lemma {self.theorem}"
        event = whole_event(self.budget.epsilon, self.budget.delta, relation)
        scales = linear.sensitivity, linear.noise_scale
        return (
            Release("gradient at the minimiser", linear.name, *scales, *sizes, statement, event),
            self.output.describe("coefficients", *sizes, f"{page} 4", relation),
        )

    def bound(self) -> float:
        """Estimate the excess risk of isotropic rows, at the curvature that is planned for."""
        objective, design, n = self.objective, self.objective.design, self.design.n_records
        risk, size = self.risk, objective.dimension
        moment = rules.CURVATURE * design.second_moment
        curvature = self.loss.curvature * moment
        square = self.linear.mean_square(size) / (n * curvature + self.penalty) ** 2
        bound = risk.penalty_cost(design, self.alpha, objective.comparator_norm, moment)
        bound += risk.noise_cost(design, (square + self.output.mean_square(size)) / size)
        if objective.population:
            constants = risk.constants(
                design, self.alpha, _radius(self.loss, self.design, self.alpha, 0.0)
            )
            bound += risk.generalisation_cost(design, constants)
        return float(bound)

    def alarms(self) -> tuple[str, ...]:
        hessian = _planned_hessian(self.objective, self.loss)
        noise = _balanced_penalty(self.objective, self.loss, self.linear)
        # their ratio is that of squared margins and noise
        return () if hessian >= LEAST_MARGINS**2 * noise else (f"The {LARGE_NOISE}.",)

    def to_dict(self) -> dict[str, Any]:
        clip = {"clip": self.loss.clip} if isinstance(self.loss, ClippedLogisticLoss) else {}
        return {
            "alpha": self.alpha,
            "penalty": self.penalty,
            **clip,
            "theorem": self.theorem,
            "hessian_epsilon": self.hessian_epsilon,
            "linear_scale": self.linear.noise_scale,
            "accuracy": self.accuracy,
            "intercept": self.design.intercept,
        }

    def run(self, data: Records, run: Run) -> Result:
        objective, size = self.objective, self.objective.dimension
        objective.design.check(data)
        with without_warnings():
            rows = data.with_intercept(self.design.intercept) if data.intercept else data
            linear = np.zeros(size) + self.linear.draw(size, run.noise)  # no release: no grid
            problem = self.problem(rows, linear / -self.penalty)
            point = solve_and_release(problem, self.accuracy, self.output, run, project=False)
            point = point.reshape(self.loss.n_outputs, rows.width)
            if data.intercept:
                point[:, -1] *= self.design.intercept / data.intercept
            point = point.ravel()
            if objective.coef_norm is not None:
                point = Ball(objective.coef_norm).project(point)
            return Result(point=point, plan=self, noise=self.noise(point))

    def planned_noise(self) -> PlannedNoise:
        none = np.zeros(self.objective.dimension)
        sampling = sampling_noise(self.loss, self.design, self.alpha)
        return PlannedNoise(self.noise(none).margins, sampling)

    def noise(self, point: np.ndarray) -> WeightNoise:
        """Covariance of the weights around a released point, for isotropic rows."""
        design, k = self.design, self.loss.n_outputs
        d = design.n_features
        weights = point.reshape(k, -1)
        moment = (design.feature_norm**2 - design.intercept**2) / d
        offsets = np.zeros(k)
        if design.intercept:
            offsets = weights[:, -1] * self.objective.design.intercept
        covariance = moment * (weights[:, :d] @ weights[:, :d].T)
        spread = self.loss.margin_scale
        curvatures, outputs = np.linalg.eigh(
            clipped_curvature(
                self.loss, offsets, covariance, math.inf, np.ones(1), spread=spread
            ).mean
        )
        moments = np.append(np.full(d, moment), design.intercept**2)
        size, n = self.objective.dimension, self.design.n_records
        squares = self.linear.mean_square(size) / size
        variances = squares / (n * np.outer(curvatures, moments) + self.penalty) ** 2
        variances += self.output.mean_square(size) / size
        mix = np.asarray(self.loss.class_weights(np.eye(k))) @ outputs
        return WeightNoise.independent(variances, design.intercept, design.feature_norm, mix)

    def problem(self, records: Records, center: np.ndarray) -> FiniteSumProblem:
        """Make the perturbed problem: a penalty around ``center = -b / Lambda``.

        Up to a constant ``(Lambda / 2) ||w||^2 + b'w`` is ``(Lambda / 2) ||w + b / Lambda||^2``.
        """
        nominal = not self.objective.neighbouring.is_replaced
        return FiniteSumProblem(
            records,
            self.loss,
            self.alpha,
            Ball(_constants(self.loss, self.design, self.alpha, self.linear).radius),
            n_public=self.design.n_records if nominal else None,
            center=center,
        )


def plan_objective_perturbation(
    objective: Objective, budget: PrivacyBudget
) -> ObjectivePerturbationPlan:
    """Choose the penalty, the noise and the accuracy from public numbers.

    Parameters
    ----------
    objective : Objective
        Of a mean of a loss with a bounded derivative in one margin, or of the softmax loss. Its
        penalty, if any, is raised to what privacy needs; coefficients are projected onto its ball.
    budget : PrivacyBudget

    Raises
    ------
    ValueError
        If no theorem covers the loss.
    """
    share = rules.PURE_HESSIAN_SHARE if budget.is_pure else rules.HESSIAN_SHARE
    loss = _bounded_loss(objective, budget, share)
    design = _with_intercept(objective.design)
    plans = [
        _plan(objective, loss, design, budget, share, part, least)
        for part in rules.OUTPUT_SHARES
        for least in rules.LEAST_PENALTIES
    ]
    return min(plans, key=ObjectivePerturbationPlan.bound)


def perturbation_candidate(
    objective: Objective, budget: PrivacyBudget
) -> tuple[float, Callable[[], Plan]] | None:
    """Return the estimate of a plan for comparison with other methods, and the plan.

    None where no theorem covers the loss, and where a penalty or a ball was asked for.
    """
    if objective.alpha or objective.coef_norm is not None or not has_theorem(objective.risk):
        return None
    plan = plan_objective_perturbation(objective, budget)
    return plan.bound(), lambda: plan


def _plan(
    objective: Objective,
    loss: Loss,
    design: Design,
    budget: PrivacyBudget,
    share: float,
    output_share: float,
    least_penalty: float,
) -> ObjectivePerturbationPlan:
    """Plan for a part of epsilon that pays for the accuracy, and a smallest penalty."""
    relation, n, norm = objective.neighbouring, design.n_records, design.feature_norm
    spent, rest = _split(budget, output_share)
    rank = hessian_rank(loss, design)
    curvature = rank_curvature(loss, norm, loss.n_outputs)
    # beyond e^30 the penalty is not the one for privacy
    planned = rank_curvature(loss, norm, rank) / math.expm1(min(share * rest.epsilon / rank, 30.0))
    penalty = max(planned, objective.alpha * n, least_penalty * curvature * n)
    linear, theorem = _linear_term(loss, design, rest, penalty, relation)
    if not objective.alpha:
        balanced = _balanced_penalty(objective, loss, linear)
        if balanced > penalty:
            penalty = balanced
            linear, theorem = _linear_term(loss, design, rest, penalty, relation)
    noise = calibrated_mechanism(spent, 1.0).noise_scale  # for a sensitivity of 1
    least = linear.noise_scale / (n * loss.smoothness(norm) + penalty)
    constants = _constants(loss, design, penalty / n, linear)
    accuracy = max(0.5 * rules.OUTPUT_NOISE * least / noise, certifiable_accuracy(constants))
    return ObjectivePerturbationPlan(
        objective=objective,
        loss=loss,
        design=design,
        penalty=penalty,
        linear=linear,
        budget=rest,
        accuracy=accuracy,
        output=calibrated_mechanism(spent, 2.0 * accuracy),
        theorem=theorem,
    )


def _linear_term(
    loss: Loss, design: Design, budget: PrivacyBudget, penalty: float, relation: Neighbouring
) -> tuple[AdditiveMechanism, str]:
    """Return the law of b for the rest of epsilon after the penalty, and the theorem used."""
    norm = design.feature_norm
    left = budget.epsilon - hessian_epsilon(loss, norm, penalty, hessian_rank(loss, design))
    sensitivity = gradient_bound(loss, norm, relation)
    if budget.is_pure:
        theorem = "5" if relation.unit == "record" else "G"
        return SphericalLaplaceMechanism(sensitivity, left), theorem
    mu, theorem = largest_mu(loss, left, budget.delta, relation)
    unit = norm if isinstance(loss, SoftmaxLoss) else loss.lipschitz(norm, math.inf)
    scale = unit * ROUNDING_SLACK / mu
    return GaussianMechanism(sensitivity, scale / sensitivity), theorem


def _planned_hessian(objective: Objective, loss: Loss) -> float:
    """Return n h in an average direction of isotropic rows."""
    design = objective.design
    return design.n_records * rules.CURVATURE * loss.curvature * design.second_moment


def _balanced_penalty(objective: Objective, loss: Loss, linear: AdditiveMechanism) -> float:
    """Return the penalty whose bias balances the noise of the linear term, for isotropic rows.

    ``(Lambda^2 B^2 + E ||b||^2) / (n h + Lambda)^2`` is least at ``E ||b||^2 / (B^2 n h)``, n h the
    Hessian of the losses and B the norm of a good predictor.
    """
    square, hessian = linear.mean_square(objective.dimension), _planned_hessian(objective, loss)
    signal = objective.comparator_norm * rules.SIGNAL[bool(loss.target_bound)]
    return square / (signal**2 * hessian)


def _split(budget: PrivacyBudget, share: float) -> tuple[PrivacyBudget, PrivacyBudget]:
    """Split a budget into the part for the accuracy and the rest; their sum does not exceed it."""
    spent = PrivacyBudget(share * budget.epsilon, rules.OUTPUT_DELTA_SHARE * budget.delta)
    # one rounding each: down
    epsilon = (budget.epsilon - spent.epsilon) * (1.0 - 1e-9)
    delta = (budget.delta - spent.delta) * (1.0 - 1e-9)
    return spent, PrivacyBudget(epsilon, delta)


def _bounded_loss(objective: Objective, budget: PrivacyBudget, share: float) -> Loss:
    """Return the loss that is minimised; refuse one that no theorem covers."""
    risk = objective.risk
    loss = risk.loss
    if not has_theorem(risk):
        raise ValueError(
            "method='objective' is proven for the log loss of any number of classes, and for two "
            "classes or numeric targets with losses whose derivative is bounded: 'hinge', "
            "'smoothed_hinge', 'huber', 'absolute_error' and 'quantile'. It has no proof for "
            f"{risk}."
        )
    if type(loss) is LogisticLoss:
        return ClippedLogisticLoss(rules.CLIP)
    if risk.is_smooth:
        return loss
    # a narrow envelope needs a large penalty: the width that balances their bias on isotropic rows
    growth = math.expm1(min(share * budget.epsilon, 30.0))
    balance = math.sqrt(objective.dimension / (objective.design.n_records * growth))
    return objective.smoothed(20.0 * loss.margin_scale * min(max(balance, 0.05), 1.0)).risk.loss


def _with_intercept(design: Design) -> Design:
    """Return the design of rows with the intercept feature of this method, rounded up."""
    if not design.intercept:
        return design
    norm, value = design.feature_norm, design.intercept
    ratio = value / norm
    bound = norm * min(math.sqrt(max((1.0 - ratio) * (1.0 + ratio), 0.0) + 16.0 * EPS), 1.0)
    value = rules.INTERCEPT * bound
    return replace(design, feature_norm=math.hypot(bound, value), intercept=value)


def _radius(loss: Loss, design: Design, alpha: float, center_norm: float) -> float:
    """Bound the norm of the minimiser for a center of a norm, by the gradient or the value."""
    ratio, norm = design.reach, design.feature_norm
    by_gradient = ratio * loss.lipschitz(norm, math.inf) / alpha
    by_value = math.hypot(
        math.sqrt(2.0 * ratio * loss.largest_value(norm, 0.0) / alpha), center_norm
    )
    return (center_norm + min(by_gradient, by_value)) * ROUNDING_SLACK


def _constants(
    loss: Loss, design: Design, alpha: float, linear: AdditiveMechanism
) -> ProblemConstants:
    """Constants of the perturbed problem, in the ball for the longest linear term planned for."""
    size = loss.n_outputs * design.width
    longest = math.sqrt(size) + math.sqrt(2.0 * _LOG_TAIL)
    if isinstance(linear, SphericalLaplaceMechanism):
        longest = size + math.sqrt(2.0 * _LOG_TAIL * size) + _LOG_TAIL
    center_norm = longest * linear.noise_scale / (alpha * design.n_records)
    radius = _radius(loss, design, alpha, center_norm)
    return generalised_linear_constants(loss, design, alpha, radius, center_norm)

"""Prepared output perturbation: learn where the data lie, solve, release, undo the shrinkage.

Means, spread and second moments are released first. Each solve is of clipped slopes on prepared
rows with a large penalty around the private point before it, and released with the noise of its
sensitivity; any certified solver gives the same guarantee. What the penalty has shrunk is undone
afterwards with the released moments, which costs nothing. Theory: docs/theory/preparation.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import expit

from skdp._runtime import without_warnings
from skdp.algorithms.descent.rules import largest_residual, odds_clip, temperature_share
from skdp.algorithms.descent.temperature import TemperaturePlan, plan_temperature
from skdp.algorithms.output import rules
from skdp.algorithms.output.kernel import solve_and_release
from skdp.algorithms.output.one_shot import solution_sensitivity
from skdp.algorithms.plan import Plan, Result, Run
from skdp.algorithms.preparation import rules as preparation_rules
from skdp.algorithms.preparation.penalty import AFTER_RELEASES, penalised_rows, typical_curvature
from skdp.algorithms.preparation.plan import Preparation, PreparationPlan, plan_preparation
from skdp.algorithms.preparation.prepared_records import AffineMap, ClippedSlopes
from skdp.algorithms.preparation.undo import Curvature, shrunk
from skdp.mechanisms import GaussianMechanism
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.gaussian_dp import gaussian_mu
from skdp.privacy.report import Release
from skdp.problems import Ball, EmpiricalRisk, FiniteSumProblem, Objective, Records
from skdp.problems.constants import ProblemConstants
from skdp.problems.losses import LogisticLoss
from skdp.problems.piecewise_linear import PiecewiseLinearLoss
from skdp.problems.rounding import EPS, chain
from skdp.problems.slope_clipped import SLOPES, SlopeClippedLoss

#: Largest noise of whitened weights, of numbers and of classes, up to which the method was level
#: with planned noisy gradient descent: above it a fit warns.
_LEVEL = (0.06, 0.15)


@dataclass(frozen=True, kw_only=True)
class PreparedOutputPlan(Plan):
    """The preparation, solves on all records, and the temperature.

    Attributes
    ----------
    objective : Objective
    preparation : PreparationPlan
    mu : float
        Of the Gaussian differential privacy of all solves.
    total_mu : float
        The same of the whole.
    temperature : TemperaturePlan or None
    spread : float
        Of the targets; after a run the released one.
    frequency : float
        Of the second class; after a run the released one.
    curvature : float
        Mean second moment of prepared rows in a direction; after a run by the released ones.
    sensitivity : float or None
        Of a solution with the accuracy of its certificate; after a run, the least of all.
    """

    objective: Objective
    preparation: PreparationPlan
    mu: float
    total_mu: float
    temperature: TemperaturePlan | None
    spread: float
    frequency: float = 0.5
    curvature: float = 0.0
    sensitivity: float | None = None

    @property
    def risk(self) -> EmpiricalRisk:
        return self.objective.risk

    @property
    def is_squared(self) -> bool:
        """Whether targets are numbers."""
        return self.risk.loss.target_bound > 0

    @property
    def _has_kink(self) -> bool:
        """Whether the loss is a narrow envelope of one of numbers that is linear around a kink."""
        return self.is_squared and self.risk.loss.curvature > 1.0

    @property
    def _noise(self) -> float:
        """Noise of a mean of numbers up to 1."""
        return self.objective.neighbouring.n_changes / (
            self.objective.design.n_records * self.total_mu
        )

    @property
    def weights_noise(self) -> float:
        """Noise of whitened weights, relative to the spread of the targets."""
        return self._noise * self.objective.design.n_features

    @property
    def _is_noisy(self) -> bool:
        return self.weights_noise > rules.MUCH_NOISE[not self.is_squared]

    @property
    def clip(self) -> float:
        """Bound on the norm of the gradient of a record."""
        loss = self.risk.loss
        steepest = largest_residual(loss)
        if self._has_kink:  # most slopes are the largest one
            return steepest
        if self.is_squared:
            unit, least, largest = rules.SLOPES_OF_NUMBERS
            clip = self.spread * min(max(unit / self.weights_noise, least), largest)
            return min(clip, steepest)
        clip = odds_clip(self._noise * math.sqrt(self.objective.design.n_features))
        return clip if loss.has_odds else min(2.0 * clip, steepest)

    @property
    def curvature_share(self) -> float:
        """Second derivative that clipping leaves on average."""
        if not self.risk.loss.has_odds:
            return typical_curvature(self.risk.loss, self.spread, self.clip)
        odds = self.frequency * (1.0 - self.frequency)
        return max(odds * math.sqrt(min(self.clip, 1.0)), rules.LEAST_CURVATURE)

    @property
    def first_factor(self) -> float:
        """Factor of log odds that the temperature starts from, where noise is large."""
        return rules.FIRST_FACTOR

    @property
    def n_solves(self) -> int:
        effective = self.weights_noise
        if self.risk.loss.has_odds:
            effective /= 4.0 * self.frequency * (1.0 - self.frequency)
        return rules.SOLVES if effective <= rules.LITTLE_NOISE else 1

    @property
    def penalty(self) -> float:
        """Penalty of a solve."""
        of_much, of_some, of_little = rules.PENALTIES
        relative = of_much if self._is_noisy and self.n_solves == 1 else of_some
        if self.n_solves == 1 and self.weights_noise <= rules.LITTLE_NOISE:
            relative = of_little
        return relative * self.curvature_share * self.curvature

    @property
    def mechanism(self) -> GaussianMechanism:
        """Noise of all solves as one."""
        sensitivity = self.sensitivity
        if sensitivity is None:
            changes = self.objective.neighbouring.n_changes
            sensitivity = changes * self.clip / (self.objective.design.n_records * self.penalty)
        return GaussianMechanism(sensitivity, 1.0 / self.mu)

    @property
    def releases(self) -> tuple[Release, ...]:
        objective = self.objective
        solves = self.mechanism.describe(
            f"solutions on prepared rows, {self.n_solves} as one",
            objective.dimension,
            objective.design.n_records,
            "docs/theory/preparation.md, Theorem 1",
            objective.neighbouring,
        )
        last = self.temperature
        after = () if last is None else (last.describe(),)
        return (*self.preparation.releases, solves, *after)

    @property
    def is_level(self) -> bool:
        return self.weights_noise <= _LEVEL[not self.is_squared]

    def alarms(self) -> tuple[str, ...]:
        if not self._is_noisy:
            return ()
        return ("The noise is large: hardly better than a constant model is to be expected.",)

    def remarks(self) -> tuple[str, ...]:
        sentences = [
            f"{self.n_solves} solves with the penalty {self.penalty:.3g} on prepared rows, whose "
            "shrinkage is undone by the released moments"
        ]
        if self.objective.is_penalised:
            sentences.append(AFTER_RELEASES)
        return tuple(sentences)

    def to_dict(self) -> dict[str, Any]:
        return {
            "alpha": self.objective.alpha,
            "solve_alpha": self.penalty,
            "n_solves": self.n_solves,
            "clip_norm": self.clip,
            "weights_noise": self.weights_noise,
            "is_whitened": self.preparation.moments is not None,
        }

    def run(self, data: Records, run: Run) -> Result:
        self.objective.design.check(data)
        data.check_targets(self.risk.loss)
        with without_warnings():
            data = data.in_double()
            prepared = self.preparation.prepare(data, run.noise)
            plan = replace(self, spread=prepared.spread, curvature=float(prepared.moments.mean()))
            offset = float(prepared.centering.offsets[0])
            if self.risk.loss.has_odds:
                plan = replace(plan, frequency=float(expit(offset)))
            weights, plan = plan._solved(data, prepared, run)
            centered = prepared.centered_weights(weights)
            factor, shift, offsets = 1.0, 0.0, prepared.centering.offsets
            if self.temperature is not None:
                is_noisy = self._noise > rules.FACTOR_NOISE
                if self.risk.loss.has_odds and plan.n_solves > 1 and is_noisy:
                    factor = self.first_factor
                factor, shift = self.temperature.release(
                    prepared.rows, centered, offsets, factor, run.noise, prepared.spread
                )
            centered, offsets = penalised_rows(
                self.objective,
                prepared.rows,
                factor * centered,
                offsets + shift,
                prepared.spectrum,
                prepared.spread,
            )
            point = prepared.rows.coefficients(centered, offsets, data.intercept)
            return Result(point=point, plan=plan)

    def _solved(
        self, data: Records, prepared: Preparation, run: Run
    ) -> tuple[np.ndarray, PreparedOutputPlan]:
        """Release solutions, each around the one before; undo and shrink."""
        objective, alpha, clip = self.objective, self.penalty, self.clip
        nominal = not objective.neighbouring.is_replaced
        n_public = objective.design.n_records if nominal else None
        rows = ClippedSlopes(affine=prepared.affine, clip=clip).of(data)
        loss = SlopeClippedLoss(self.risk.loss, float(prepared.centering.offsets[0]), clip)
        curvature = Curvature(
            moments=prepared.moments,
            directions=prepared.directions,
            share=self.curvature_share,
            constant=prepared.affine.constant,
        )
        factors = curvature.factors(alpha)
        weights, total = np.zeros(rows.width), np.zeros(rows.width)
        counted, least_moved = 0.0, math.inf
        for t in range(1, self.n_solves + 1):
            norm = float(np.linalg.norm(weights))
            radius = (norm + objective.design.size_ratio * clip / alpha) * (1.0 + 1e-9)
            problem = PreparedProblem(
                rows, prepared.affine, loss, alpha, Ball(radius), n_public=n_public, center=weights
            )
            _, accuracy, sensitivity = solution_sensitivity(
                problem.constants, objective.neighbouring
            )
            least_moved = min(least_moved, float(sensitivity))
            mechanism = GaussianMechanism(float(sensitivity), math.sqrt(self.n_solves) / self.mu)
            noisy = solve_and_release(problem, accuracy, mechanism, run, project=False)
            undone = weights + curvature.rotated_back(factors * curvature.rotated(noisy - weights))
            total, counted = total + t * undone, counted + t
            squares = sum(s * s for s in range(1, t + 1)) / counted**2
            variances = (mechanism.noise_scale * factors) ** 2 * squares
            beta, _ = shrunk(
                curvature.rotated(total / counted),
                variances,
                curvature,
                cap=self._cap,
                least=rules.LEAST_PRIOR if self.temperature is not None else 0.0,
                constant_variance=self._constant_variance,
            )
            weights = curvature.rotated_back(beta)
        return weights, replace(self, sensitivity=least_moved)

    @property
    def _cap(self) -> float:
        """Largest variance of the margins."""
        if self.is_squared:
            return self.spread**2 * rules.CAPS_OF_NUMBERS[not self._is_noisy]
        cap = rules.CAPS_OF_CLASSES[not self._is_noisy and self.n_solves == 1]
        return cap * self.risk.loss.margin_scale**2

    @property
    def _constant_variance(self) -> float:
        """Variance of the margin of the constant model that comes from the noise of its release."""
        centering, loss = self.preparation.centering, self.risk.loss
        if centering is None or not (self.is_squared or loss.has_odds):
            return loss.margin_scale**2
        scale = centering.sum.mechanism().noise_scale
        deviation = scale / self.objective.design.n_records
        if self.is_squared:  # the best constant is the mean for squares alone
            moved = 0.0 if loss.is_quadratic else self.spread**2
            return (deviation * centering.target_clip * loss.target_bound) ** 2 + moved
        if self._is_noisy:
            return 0.0
        return (deviation / max(self.frequency * (1.0 - self.frequency), 0.05)) ** 2


class PreparedProblem(FiniteSumProblem):
    """Clipped slopes on prepared rows, whose rounding is that of the map from raw ones."""

    def __init__(
        self,
        records: Any,
        affine: AffineMap,
        loss: SlopeClippedLoss,
        *arguments: Any,
        **options: Any,
    ) -> None:
        super().__init__(records, loss, *arguments, **options)
        self.constants = replace(
            self.constants, additional_rounding=_map_rounding(self.constants, affine, loss)
        )


def _map_rounding(constants: ProblemConstants, affine: AffineMap, loss: SlopeClippedLoss) -> float:
    """Bound the error of a mean gradient that comes from the map; docs/theory/preparation.md, 6."""
    d, raw = constants.row_width, affine.raw_norm + affine.constant
    steep = loss.clip / affine.least_norm  # bound on a slope
    margins = 4.0 * (d + 8) * EPS
    margins *= raw * constants.radius + abs(loss.offset) + max(loss.loss.target_bound, 1.0)
    additions = chain(constants.n_records * constants.size_ratio, constants.block_size)
    sums = (0.51 * additions + 4.0 * d + 32.0) * EPS * steep * raw
    errors = loss.curvature * affine.norm_bound * margins + sums
    errors += 2.0 * affine.relative_rounding * loss.clip
    return float(constants.size_ratio * errors)


def covers_prepared(objective: Objective, budget: PrivacyBudget) -> bool:
    """Whether the method is proven for the loss, and rows are few enough features to whiten."""
    is_covered = isinstance(objective.risk.loss, (*SLOPES, PiecewiseLinearLoss))
    is_narrow = objective.design.n_features <= preparation_rules.LARGEST_WIDTH
    is_mean = objective.risk.is_mean and not objective.population
    return is_covered and is_narrow and is_mean and not budget.is_pure


def plan_prepared_output(objective: Objective, budget: PrivacyBudget) -> PreparedOutputPlan:
    """Choose the parts of the budget, clipping, penalty and the number of solves.

    Parameters
    ----------
    objective : Objective
        That :func:`covers_prepared`. Its penalty and its ball enter after the releases.
    budget : PrivacyBudget
        With delta > 0.
    """
    if not covers_prepared(objective, budget):
        raise ValueError("Prepared output perturbation is not proven for this objective.")
    loss, design, relation = objective.risk.loss, objective.design, objective.neighbouring
    if not objective.risk.is_smooth:
        objective = objective.smoothed(rules.SMOOTHED_SPREAD * loss.margin_scale)
        loss = objective.risk.loss
    mu = gaussian_mu(budget.epsilon, budget.delta)
    noise = relation.n_changes / (design.n_records * mu)
    preparation = plan_preparation(loss, design, relation, mu)
    temperature, share = None, 0.0
    if loss.has_odds or loss.is_quadratic:
        share = temperature_share(LogisticLoss(), noise)  # the same for squares
    if share:
        temperature = plan_temperature(loss, design, relation, mu * math.sqrt(share))
    return PreparedOutputPlan(
        objective=objective,
        preparation=preparation,
        mu=mu * math.sqrt(1.0 - preparation.share - share),
        total_mu=mu,
        temperature=temperature,
        spread=math.sqrt(preparation_rules.PRIOR_VARIANCE) * (loss.target_bound or 1.0),
        curvature=1.0 / design.n_features,
    )

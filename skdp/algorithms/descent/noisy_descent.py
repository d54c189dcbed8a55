"""Planned noisy gradient descent: all records in every step, and nothing to tune.

One release centers rows and targets (:mod:`skdp.algorithms.preparation.centering`), another finds
the second moments of rows, by which steps are preconditioned
(:mod:`skdp.algorithms.preparation.second_moments`); the gradient of every record is clipped to a
planned norm, and every step adds Gaussian noise to their sum
(:mod:`skdp.algorithms.descent.schedule`); margins are shrunk by what is known of the noise, and
where noise is negligible corrected by one more release
(:mod:`skdp.algorithms.descent.temperature`). Every number of the plan is a function of public
numbers or of earlier releases. Theory: docs/theory/noisy_gradient_descent.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy.special import expit

from skdp._runtime import spare_processors, without_warnings
from skdp.algorithms.descent import rules
from skdp.algorithms.descent.noise import DescentNoise, planned_noise
from skdp.algorithms.descent.schedule import (
    Schedule,
    plan_accelerated,
    plan_schedule,
    step_limit,
)
from skdp.algorithms.descent.shares import class_shares, signal_share
from skdp.algorithms.descent.steps import Descent
from skdp.algorithms.descent.temperature import TemperaturePlan, plan_temperature
from skdp.algorithms.plan import Plan, Result, Run
from skdp.algorithms.preparation import rules as preparation_rules
from skdp.algorithms.preparation.centered_chunks import centered
from skdp.algorithms.preparation.centered_rows import (
    CenteredRecords,
    Centering,
)
from skdp.algorithms.preparation.centering import CenteringPlan, plan_centering
from skdp.algorithms.preparation.noisy_sums import NoisySum
from skdp.algorithms.preparation.penalty import AFTER_RELEASES, needs_moments, penalised_rows
from skdp.algorithms.preparation.second_moments import (
    RowMomentsPlan,
    plan_row_moments,
)
from skdp.algorithms.weight_noise import PlannedNoise
from skdp.mechanisms import NoiseSource
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.gaussian_dp import gaussian_mu
from skdp.privacy.report import Release
from skdp.problems import AdversarialRisk, Attack, EmpiricalRisk, Loss, Objective, Records


@dataclass(frozen=True, kw_only=True)
class NoisyGradientDescentPlan(Plan):
    """Clipping, noise and steps.

    Attributes
    ----------
    objective : Objective
    centering : CenteringPlan or None
        None where its noise would drown the means.
    moments : RowMomentsPlan or None
        Of a preconditioner or, projected, of the largest step; None where their noise is too
        large, or plain steps do.
    temperature : TemperaturePlan or None
        For log odds, but None where noise is not negligible; for squares whose steps are missing.
    mu : float
        Of the Gaussian differential privacy of all steps.
    clip : float
        Norm that each record's gradient is clipped to; of squares in units of the standard
        deviation of the targets.
    damping : float
        Penalty that the number of steps stands for, in units of the noise of a mean gradient.
    rate : float
        Largest step.
    n_blocks : int
    is_squared : bool
        Whether residuals near 0 are differences of margins and targets.
    target_variance : float
        Of numeric targets, in units of the squared bound; replaced by the released one.
    slowness : float, default=1.0
        Bound on curvatures over their value for a constant model; for two classes replaced by what
        follows from the released frequencies.
    largest_factor : float, default=1.0
        Of the clipped gradients of records.
    least_moment : float, default=0.0
        Smallest preconditioned second moment of rows, about; replaced by what was released.
    longest : float, default=1.0
        Length of a row at a right angle to the mean, after centering, as released.
    counted : float or None, default=None
        Released number of records, by which sums are divided; None: the public one.
    rarer_share : float or None, default=None
        Of the rarer one of two classes, as released.
    class_shares : tuple of float or None, default=None
        Shares of the classes, as released; None: not known.
    noise_share : float, default=0.0
        Predicted part of the variance of margins that is noise, by all releases.
    attack : Attack or None, default=None
        That moves the rows of all records in every step.
    """

    objective: Objective
    centering: CenteringPlan | None
    moments: RowMomentsPlan | None
    temperature: TemperaturePlan | None
    mu: float
    clip: float
    damping: float
    rate: float
    n_blocks: int
    is_squared: bool
    target_variance: float
    slowness: float = 1.0
    largest_factor: float = 1.0
    least_moment: float = 0.0
    longest: float = 1.0
    counted: float | None = None
    rarer_share: float | None = None
    class_shares: tuple[float, ...] | None = None
    noise_share: float = 0.0
    attack: Attack | None = None

    @property
    def loss(self) -> Loss:
        return self.objective.risk.loss

    @property
    def risk(self) -> EmpiricalRisk:
        return self.objective.risk

    @property
    def n_records(self) -> float:
        """Number of records that sums are divided by; nothing else depends on it."""
        return self.counted or self.objective.design.n_records

    @property
    def _size(self) -> float:
        """Number of records to plan for: of weights their sum, once it is released."""
        design = self.objective.design
        return self.n_records if design.is_slack else design.n_records

    @property
    def clip_norm(self) -> float:
        """Norm that the gradient of a record is clipped to."""
        if not self.is_squared:
            return self.clip
        deviation = self.loss.target_bound * math.sqrt(self.target_variance)
        return min(self.clip * deviation, rules.largest_residual(self.loss))

    @property
    def sensitivity(self) -> float:
        """What one record changes in the sum of clipped gradients, without rounding."""
        return self.objective.neighbouring.n_changes * self.clip_norm * self.largest_factor

    @cached_property
    def schedule(self) -> Schedule:
        schedule = self._steps
        path, typical = schedule.path, self._typical_curvature
        curvatures = np.array(rules.CURVATURES) * min(typical, 0.5 / schedule.step_size)
        if self.is_squared and path * typical < rules.BRIEF_PATH:
            curvatures = np.array(rules.BRIEF_CURVATURES) / path
        return replace(schedule, curvatures=tuple(curvatures.tolist()))

    @property
    def _steps(self) -> Schedule:
        """Steps whose noise is not yet fitted to curvatures."""
        if self.is_accelerated:
            unit = 1.0 / self._typical_curvature
            return plan_accelerated(
                min(rules.ACCELERATED_PATH * self._horizon * self.rate, rules.LONGEST_PATH * unit),
                self.mu,
                learnt=rules.LEARNT_PATH * unit,
                step_size=self.rate,
                products=self._products,
            )
        return plan_schedule(
            self._horizon,
            self.mu,
            rate=self.rate,
            n_blocks=self.n_blocks,
            products=self._products,
            is_preconditioned=self.is_preconditioned,
        )

    @property
    def _horizon(self) -> float:
        """Length of the path in largest steps."""
        noise = self.sensitivity / self.mu
        if self.is_squared:
            noise /= self.loss.target_bound
        damping = self.damping
        if self.moments is None and self.is_squared:
            # noise that no curvature holds back, as of the floor
            limit = rules.PLAIN_DRIFT_OF_SQUARES * math.sqrt(self.target_variance / self.longest)
            damping = max(damping, 0.5 / limit)
        horizon = self._size / (damping * noise * self.rate)
        if not self.is_preconditioned:
            return horizon
        horizon *= self.ridge
        if self.is_squared and self.least_moment > 0.0:  # no direction is that slow
            horizon = min(horizon, rules.SETTLED * self.slowness / self.least_moment)
        return max(horizon, rules.LEAST_HORIZON[not self.is_squared] * self.slowness)

    @property
    def floor(self) -> float:
        """Least number that the preconditioner may divide by; 0 without one.

        Noise of the steps alone then moves the margin of a unit row by `drift_limit` at most,
        also in directions that few records have, where no curvature holds it back.
        """
        if not self.is_preconditioned:
            return 0.0
        unit = self.sensitivity * math.sqrt(self.n_blocks)
        unit /= self.n_records * self.mu
        if self.loss.target_bound:  # margins in standard deviations of the targets
            unit /= self.loss.target_bound * math.sqrt(self.target_variance)
        limit = rules.drift_limit(self.loss, self.largest_factor > 1.0)
        if self.rarer_share is not None and self.largest_factor <= 1.0:
            share = max(self.rarer_share, rules.RAREST)  # noise costs less where losses are flatter
            limit *= max(1.0, 1.0 / math.sqrt(8.0 * share * (1.0 - share)))
        return 0.5 * self._steps.path * unit / limit

    @property
    def _n_blocks(self) -> int:
        """Number of blocks for the released moments: noise costs little if no direction is slow."""
        design, relation = self.objective.design, self.objective.neighbouring
        if not (self.is_squared and relation.is_replaced):
            return self.n_blocks
        lost = (self.clip * self.relative_noise) ** 2 * design.n_features
        wanted = rules.LOST_VARIANCE * self.least_moment / lost
        return max(self.n_blocks, rules.block_count(design.n_records, wanted))

    @property
    def _products(self) -> int:
        """Number of products of records, features and outputs in a step on all records."""
        design = self.objective.design
        return design.n_records * (design.n_features + 1) * self.loss.n_margins

    @property
    def missing_steps(self) -> float:
        """Number of steps to be wished for over the largest one, before they are accelerated."""
        kind = "preconditioned" if self.is_preconditioned else "plain"
        limit = step_limit(self._products / self.n_blocks, kind)
        return 2.0 * math.sqrt(self._horizon) / limit

    @property
    def is_accelerated(self) -> bool:
        """Whether steps are accelerated, on all records."""
        return self.moments is not None and self.moments.is_projected

    @property
    def has_class_shares(self) -> bool:
        """Whether the shares of the classes are known after the first release."""
        return bool(self.loss.has_odds and self.objective.design.intercept > 0)

    @property
    def is_preconditioned(self) -> bool:
        return self.moments is not None and not self.moments.is_projected

    @property
    def ridge(self) -> float:
        """Number added to second moments before they are inverted; 1 where they are not."""
        return 1.0 if self.moments is None or self.is_accelerated else self.moments.noise

    @property
    def alpha(self) -> float:
        """Penalty on weights of centered rows that early stopping is about equivalent to."""
        return self.ridge / self.schedule.path

    @property
    def sums(self) -> NoisySum:
        """All steps as one; what is summed in one has a size that depends on the centering."""
        return NoisySum(
            design=self.objective.design,
            neighbouring=self.objective.neighbouring,
            mu=self.mu,
            sensitivity=self.sensitivity,
            n_entries=self.objective.dimension,
            name=f"sums of clipped gradients, {self.schedule.n_steps} steps as one",
            reference="docs/theory/noisy_gradient_descent.md, Theorem 1",
        )

    @cached_property
    def releases(self) -> tuple[Release, ...]:
        parts = self.centering, self.moments, self.sums, self.temperature
        return tuple(part.describe() for part in parts if part is not None)

    @property
    def relative_noise(self) -> float:
        """Error of a mean of rows with the noise of all steps, relative to the norm of rows."""
        design = self.objective.design
        records = self.objective.neighbouring.n_changes / self._size
        return records * math.sqrt(design.n_features) / self.mu

    def planned_noise(self) -> PlannedNoise:
        return planned_noise(self)

    def alarms(self) -> tuple[str, ...]:
        classes = 2 if self.objective.design.directions else 1  # features of tables, or any rows
        kind = 0 if self.loss.target_bound else classes
        if self._noise_in_few_directions <= rules.ALARM_NOISE[kind]:
            return ()
        return ("The noise is large: hardly better than a constant model is to be expected.",)

    def found_alarms(self) -> tuple[str, ...]:
        return () if self.alarms() else tuple(self._noise_remarks())

    def remarks(self) -> tuple[str, ...]:
        """Say what comes after the releases, and whether they let expect mostly noise."""
        given = (AFTER_RELEASES,) if self.objective.is_penalised else ()
        return (*given, *self._noise_remarks())

    def _noise_remarks(self) -> Iterator[str]:
        """Compare the noise with the share of a rare class and with the spread of margins."""
        share, expected = self.rarer_share, "hardly better than a constant model is to be expected"
        if share is not None and self._noise_in_few_directions > rules.ALARM_RARER * share:
            yield (
                f"the noise of a mean of the rows of the rarer class, about {share:.2g} of the "
                f"records, is of the size of the rows: {expected}"
            )
        elif self.noise_share > rules.ALARM_SHARE[not self.loss.target_bound]:
            part = min(self.noise_share, 1.0)
            yield f"the noise is about {part:.0%} of the variance of margins: {expected}"

    @property
    def _tells_directions(self) -> bool:
        """Whether the noise in the margin of an average row is known well enough for a remark."""
        if self.is_preconditioned:
            return True
        few = self.objective.design.n_features <= rules.DIRECTIONS
        return self.is_squared and few and not self.is_accelerated

    @property
    def _noise_in_few_directions(self) -> float:
        """The relative noise if rows of many features vary in few directions."""
        d = self.objective.design.n_features
        return self.relative_noise * math.sqrt(min(d, rules.DIRECTIONS) / d)

    def to_dict(self) -> dict[str, Any]:
        schedule, objective, shares = self.schedule, self.objective, self.class_shares
        return {
            "alpha": objective.alpha if objective.is_penalised else self.alpha,
            "n_steps": schedule.n_steps,
            "n_blocks": schedule.n_blocks,
            "step_size": schedule.step_size,
            "momentum": schedule.momentum,
            "is_accelerated": schedule.is_accelerated,
            "clip_norm": self.clip_norm,
            "mu": self.mu,
            "noise_multipliers": [float(schedule.multipliers[i]) for i in (0, -1)],
            **({} if shares is None else {"class_shares": list(shares)}),
        }

    def run(self, data: Records, run: Run) -> Result:
        with without_warnings(), spare_processors(data.is_sparse and data.in_memory):
            descent = self.prepare(data, run.noise)
            raw, kept = descent.release(run.noise, counted=run.counted("noisy steps"))
            plan, rows = descent.plan, descent.rows
            weights, offsets = plan._rescaled(rows, raw, descent.offsets, run.noise)
            shift = float((offsets - descent.offsets)[0])
            spread = self.loss.target_bound * math.sqrt(plan.target_variance) or 1.0
            scaled = weights
            weights, offsets = penalised_rows(
                self.objective, rows, weights, offsets, descent.spectrum, spread
            )
            point = rows.coefficients(weights, offsets, data.intercept)
            if self.attack is not None:  # how it bends losses is not known
                return Result(point=point, plan=plan)
            noise = DescentNoise(descent, raw, scaled, weights, shift, kept)
            if plan._tells_directions:
                plan = replace(plan, noise_share=noise.share)
            return Result(point=point, plan=plan, noise=noise.weights())

    def prepare(self, data: Records, noise: NoiseSource) -> Descent:
        """Release what the steps need to know of the records."""
        design, loss = self.objective.design, self.loss
        design.check(data)
        data.check_targets(loss)
        if data.factors is not None:  # norms are those of the columns without factors
            raise ValueError("Records whose columns are scaled have no centered rows.")
        data = data.in_double()
        centering, plan = Centering.unknown(design.n_features, loss.n_outputs), self
        if self.centering is not None:
            centering = self.centering.release(data, noise)
            plan = replace(
                self,
                target_variance=centering.target_variance,
                counted=centering.n_records,
                longest=math.hypot(1.0, float(np.linalg.norm(centering.mean))) / centering.scale,
            )
        if self.attack is not None:
            reach = self.attack.length(design.n_features) / (data.data_norm * centering.scale)
            plan = replace(plan, rate=plan.rate / (1.0 + rules.REACH * reach**2))
        if design.is_slack:  # clipping is for the noise beside the sum of the weights
            plan = plan._clipped_anew()
        if loss.link == "logit":
            share = float(expit(-abs(centering.offsets[0])))
            frequency = max(share, rules.RAREST)
            plan = replace(plan, slowness=0.25 / (frequency * (1.0 - frequency)))
            if self.centering is not None and data.intercept:
                plan = replace(plan, rarer_share=share)._of_rare_class()
        if self.has_class_shares:
            shares = class_shares(loss, centering.offsets)
            plan = replace(plan, class_shares=tuple(shares.tolist()))
        rows = centered(data, centering)
        preconditioner = None
        if self.moments is not None and self.is_accelerated:
            plan = replace(plan, rate=plan.rate / self.moments.largest(rows, noise))
        elif self.moments is not None:
            preconditioner, ridge, least = self.moments.preconditioner(rows, noise)
            plan = replace(plan, moments=replace(self.moments, noise=ridge), least_moment=least)
            plan = replace(plan, n_blocks=plan._n_blocks)
        rows.divide(plan.schedule.n_blocks, noise)
        offsets = centering.offsets
        return Descent(plan=plan, rows=rows, offsets=offsets, preconditioner=preconditioner)

    def _clipped_anew(self) -> NoisyGradientDescentPlan:
        """Choose clipping and damping for the number of records that was released."""
        unit = self.objective.neighbouring.n_changes / self.mu
        given = self.relative_noise, self.objective.design.n_features, unit
        rule = rules.step_rule(self.loss, self.is_squared, *given)
        return replace(self, clip=rule.clip, damping=rule.damping)

    def _of_rare_class(self) -> NoisyGradientDescentPlan:
        """Choose clipping and blocks for the released shares of two classes."""
        if self.attack is not None or self.largest_factor > 1.0:
            return self
        design, error = self.objective.design, self.relative_noise
        clip = rules.rare_clip(self.clip, error, self.slowness)
        largest = rules.BLOCK_LIMIT / (error**2 * design.n_features * self.slowness)
        n_blocks = min(self.n_blocks, rules.block_count(design.n_records, largest))
        return replace(self, clip=clip, n_blocks=n_blocks)

    @property
    def _amplified(self) -> float:
        """What the preconditioner multiplies a gradient by, in an average direction."""
        typical = 1.0 / self.objective.design.n_features
        return 1.0 / max(typical + self.ridge, self.floor) if self.is_preconditioned else 1.0

    @property
    def _typical_curvature(self) -> float:
        """Curvature of the preconditioned objective in an average direction."""
        loss = self.loss
        flatness = 1.0 if self.is_squared else 4.0 if loss.n_margins == 1 else loss.n_margins
        # clipped gradients have no curvature
        share = self.clip**rules.UNCLIPPED_POWER if loss.has_odds else 1.0
        curvature = rules.TYPICAL_CURVATURE * share / flatness
        return curvature / self.objective.design.n_features * self._amplified

    def noise_variance(self) -> float:
        """Variance of the averaged weights in a direction of average curvature."""
        unit = self.sensitivity * self.n_blocks / self.n_records
        variance = self.schedule.average_variance(self._typical_curvature, unit)
        return self._amplified**2 * variance

    def shrinkage(self, weights: np.ndarray, variance: float) -> float:
        """Factor of the margins of weights by the variance of their noise."""
        square, signal = float((weights**2).sum()), signal_share(weights, variance)
        if self.is_squared:
            return rules.squares_factor(signal, self.relative_noise)
        factor = rules.odds_factor(self.loss, signal, self.relative_noise)
        if self.loss.n_margins == 1 and square > 0.0:
            factor *= rules.clipping_factor(self.distortion, self.slowness, square)
        return factor

    @property
    def distortion(self) -> float:
        """How much log odds are changed by clipping, on their log scale; less where noise rules."""
        of_persons = self.objective.design.of_persons
        return rules.clipping_distortion(self.loss, self.clip, self.relative_noise, of_persons)

    def _rescaled(
        self, rows: CenteredRecords, weights: np.ndarray, offsets: np.ndarray, noise: NoiseSource
    ) -> tuple[np.ndarray, np.ndarray]:
        """Shrink the margins, whose gradients were clipped and noisy, by what the noise is."""
        if not (self.loss.has_odds or self.is_squared):
            return weights, offsets
        shrinkage = self.shrinkage(weights, self.noise_variance())
        if self.loss.n_margins == 1:  # squares have no distortion
            offsets = (1.0 - rules.OFFSET_DISTORTION * self.distortion) * offsets
        if self.temperature is None:
            return shrinkage * weights, offsets
        spread = 1.0
        if self.is_squared:
            spread = self.loss.target_bound * math.sqrt(self.target_variance)
            shrinkage = max(shrinkage, rules.LEAST_FACTOR)  # a factor of 0 cannot be corrected
        shrinkage, offset = self.temperature.release(
            rows, weights, offsets, shrinkage, noise, spread
        )
        return shrinkage * weights, offsets + offset


def plan_noisy_gradient_descent(
    objective: Objective, budget: PrivacyBudget, *, reserved: float = 0.0
) -> NoisyGradientDescentPlan:
    """Choose clipping, steps and the parts of the budget from public numbers.

    Parameters
    ----------
    objective : Objective
        Its penalty and its ball enter after the releases. Under attack it has neither, and margins
        are not corrected.
    budget : PrivacyBudget
        With delta > 0.
    reserved : float, default=0.0
        Part of the squared mu that is left to other releases. If there are any, they correct the
        margins, and there is no temperature.
    """
    attack = None
    if isinstance(objective.risk, AdversarialRisk):
        attack = objective.risk.attack if objective.risk.attack.radius else None
        if attack is not None and objective.design.of_persons and objective.risk.loss.n_outputs > 1:
            raise ValueError("method='gradient' has no proof for user_ids and several classes.")
        objective.risk.attack.move(np.ones(objective.design.n_features))  # is it one?
        objective = replace(objective, risk=EmpiricalRisk(objective.risk.loss))
    is_squared = objective.risk.is_smooth and objective.risk.loss.target_bound > 0
    if not objective.risk.is_smooth:
        objective = objective.smoothed(2.0 * objective.risk.loss.margin_scale)
    planned = partial(_planned, objective, budget, is_squared, reserved=reserved, attack=attack)
    least, most = rules.MOMENTS_SHARES
    if attack is not None:  # second moments are not those of attacked rows
        return planned(0.0, 0.0)
    temperature_share = 0.0 if reserved else None
    if needs_moments(objective):
        worthy_noise = preparation_rules.PENALTY_NOISE
        plan = planned(temperature_share, rules.PENALTY_SHARE, worthy_noise=worthy_noise)
        if plan.is_preconditioned:
            return plan
    plan = planned(temperature_share, least)
    if plan.missing_steps <= 1.0:
        return plan
    if plan.is_preconditioned:
        # better second moments make up for steps: their noise falls as the root of the share,
        # and with it the square of the number of steps
        return planned(temperature_share, min(least * plan.missing_steps**4, most))
    if not reserved and objective.risk.loss.is_quadratic:
        temperature_share = rules.FACTOR_SHARE  # margins are too small in directions not learnt yet
    return planned(temperature_share, least, is_projected=True)


def _planned(
    objective: Objective,
    budget: PrivacyBudget,
    is_squared: bool,
    temperature_share: float | None,
    moments_share: float,
    is_projected: bool = False,
    reserved: float = 0.0,
    worthy_noise: float = 0.0,
    attack: Attack | None = None,
) -> NoisyGradientDescentPlan:
    """Plan with a part of the budget for second moments of rows, or of a projection of them.

    `temperature_share` is None for that of the rule. Moments whose noise is below `worthy_noise`
    are released in any case.
    """
    loss, design, relation = objective.risk.loss, objective.design, objective.neighbouring
    n, n_changes = design.n_records, relation.n_changes
    d = design.directions if is_squared and design.directions else design.n_features
    mu = gaussian_mu(budget.epsilon, budget.delta)
    error = n_changes * math.sqrt(d) / (n * mu)  # of a mean of rows, relative to their norm
    means_share, moves_rows = rules.centering_share(loss, error, n_changes / (n * mu))
    if temperature_share is None:
        temperature_share = rules.temperature_share(loss, n_changes / (n * mu), design.of_persons)
    centering = moments = temperature = None
    if means_share and design.is_slack:
        means_share = max(means_share, rules.WEIGHTED_MEANS)
    if means_share:
        mu_means = mu * math.sqrt(means_share)
        centering = plan_centering(loss, design, relation, mu_means, moves_rows)
    if temperature_share:
        temperature = plan_temperature(loss, design, relation, mu * math.sqrt(temperature_share))
    if moments_share:
        # at most half of what is left: the steps need the rest
        moments_share = min(moments_share, 0.5 * (1.0 - reserved - means_share - temperature_share))
        mu_moments = mu * math.sqrt(moments_share)
        moments = plan_row_moments(design, relation, mu_moments, is_projected, worthy_noise)
    parts = reserved + means_share + temperature_share + (moments_share if moments else 0.0)
    mu_steps = mu * math.sqrt(1.0 - parts)

    rule = rules.step_rule(loss, is_squared, error, d, n_changes / mu_steps)
    rate, n_blocks = rule.rate, 1
    if moments is not None:  # accelerated steps are stable up to the inverse of the curvature
        rate = 1.0 if is_projected else rule.preconditioned_rate
    if relation.is_replaced and not (moments and is_projected):
        n_blocks = rules.block_count(n, rule.block_limit / (error**2 * d))
    return NoisyGradientDescentPlan(
        objective=objective,
        centering=centering,
        moments=moments,
        temperature=temperature,
        mu=mu_steps,
        clip=rule.clip,
        damping=rule.damping,
        rate=rate * (1.0 / loss.curvature),
        n_blocks=n_blocks,
        is_squared=is_squared,
        target_variance=preparation_rules.PRIOR_VARIANCE,
        slowness=loss.curvature * loss.n_margins if loss.n_margins > 1 else 1.0,
        attack=attack,
    )

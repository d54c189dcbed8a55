"""Planned noisy descent for the worst group: the plain model first, then what its losses call for.

The plain model is that of :mod:`skdp.algorithms.descent.noisy_descent`, with a part of the
budget. Noisy losses of the groups under it decide how the groups are weighed. A second descent
goes on from the plain model with these weights, and its noise follows the largest weight in use.
Last, scale and shift of the margins are fitted to the worst group. Every number of the plan is a
function of public numbers or of earlier releases. Theory: docs/theory/worst_group.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from skdp._runtime import spare_processors, without_warnings
from skdp.algorithms.descent.noisy_descent import (
    NoisyGradientDescentPlan,
    plan_noisy_gradient_descent,
)
from skdp.algorithms.descent.rules import block_count, temperature_share
from skdp.algorithms.descent.shares import balanced
from skdp.algorithms.descent.temperature import TemperaturePlan, plan_temperature
from skdp.algorithms.plan import Run
from skdp.algorithms.preparation.centered_rows import CenteredRecords
from skdp.algorithms.preparation.noisy_sums import NoisySum
from skdp.algorithms.worst_group import rules
from skdp.algorithms.worst_group.clipped_losses import (
    ClippedLossTerms,
    clipped_losses,
    loss_range,
    loss_sensitivity,
)
from skdp.algorithms.worst_group.group_plan import GroupPlan, GroupResult
from skdp.algorithms.worst_group.group_sums import THEORY, GroupTotals, Ones, has_shift
from skdp.algorithms.worst_group.group_weights import (
    class_weights,
    prefers_plain,
    shrunk_losses,
    worst_case_weights,
)
from skdp.algorithms.worst_group.margin_fits import MixFit, ScaleFit
from skdp.algorithms.worst_group.proportions import positive_shares
from skdp.mechanisms import NoiseSource
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.gaussian_dp import gaussian_mu
from skdp.privacy.report import Release
from skdp.problems import EmpiricalRisk, Loss, Records, SoftmaxLoss
from skdp.problems.group_objective import GroupObjective
from skdp.problems.rounding import two_margins


@dataclass(frozen=True, kw_only=True)
class PlainModelPlan(GroupPlan):
    """The plain model alone: where there is one group, or noise would hide the groups' losses.

    Attributes
    ----------
    plain : NoisyGradientDescentPlan
    """

    plain: NoisyGradientDescentPlan

    @property
    def alpha(self) -> float:
        return self.plain.alpha

    @property
    def releases(self) -> tuple[Release, ...]:
        return self.plain.releases

    def bound(self) -> float:
        return self.plain.bound()

    def alarms(self) -> tuple[str, ...]:
        return self.plain.alarms()

    def remarks(self) -> tuple[str, ...]:
        return self.plain.remarks()

    def to_dict(self) -> dict[str, Any]:
        return self.plain.to_dict()

    def run(self, data: Records, run: Run) -> GroupResult:
        result = self.plain.run(data, run)
        shares = self.objective.proportions
        proportions = None if shares is None else np.array(shares)
        return GroupResult(
            point=result.point,
            plan=replace(self, plain=result.plan),
            weights=proportions if self.objective.release_weights else None,
            proportions=proportions,
            largest=(1.0,) * self.objective.weights.n_groups,
        )


@dataclass(frozen=True, kw_only=True)
class NoisyDescentAscentPlan(GroupPlan):
    """Releases of the worst-group method, in their order.

    Attributes
    ----------
    plain : NoisyGradientDescentPlan
        Of the first descent.
    n_looks : int
        Looks at the losses of the groups, each followed by a weighted descent.
    mu_weighted : float
        Of the Gaussian differential privacy of all weighted descents.
    mu_plain : float
        The same of the second descent where the plain model is taken.
    damping_weighted : float
        Of its number of steps, as in the plan of the first one.
    sizes : NoisySum or None
        None where proportions are public.
    losses : NoisySum or None
        None where the groups are the classes: their weights are equal but for the price of noise.
    scale : NoisySum or None
        None where the scale of the margins is not fitted.
    mix : NoisySum or None
        None where the scale is fitted instead. For the step from the plain model to the last one.
    temperature : TemperaturePlan or None
        Of the plain method, in place of that fit, where the plain model is taken.
    price, spread_price : float
        Of noise, by the square of the largest weight, and of unequal weights at first.
    proportions : tuple of float or None
        Public or, after a run, released.
    weights : tuple of float or None
        After a run: of the groups' losses, in the second descent.
    """

    plain: NoisyGradientDescentPlan
    n_looks: int
    mu_weighted: float
    mu_plain: float
    damping_weighted: float
    sizes: NoisySum | None
    losses: NoisySum | None
    scale: NoisySum | None
    mix: NoisySum | None
    temperature: TemperaturePlan | None
    price: float
    spread_price: float
    proportions: tuple[float, ...] | None
    weights: tuple[float, ...] | None = None
    passes: tuple[NoisyGradientDescentPlan, ...] = ()

    @property
    def parts(self) -> tuple[float, ...]:
        """Parts of the weighted descents in their budget: half of it is for the last one."""
        if self.n_looks == 1:
            return (1.0,)
        return (*[0.5 / (self.n_looks - 1)] * (self.n_looks - 1), 0.5)

    @property
    def risk(self) -> EmpiricalRisk:
        return self.plain.risk

    @property
    def loss(self) -> Loss:
        return self.plain.loss

    @property
    def factors(self) -> tuple[float, ...] | None:
        """Weights of the records of each group in the second descent."""
        if self.weights is None or self.proportions is None:
            return None
        return tuple(q / p for q, p in zip(self.weights, self.proportions, strict=True))

    @property
    def alpha(self) -> float:
        """Penalty that early stopping of the plain model is about equivalent to."""
        return self.plain.alpha

    @property
    def releases(self) -> tuple[Release, ...]:
        parts = [*self.plain.releases]
        if self.sizes is not None:
            parts.append(self.sizes.describe())
        for k, part in enumerate(self.parts):
            number = self.passes[k].schedule.n_steps if self.passes else "all"
            steps = replace(
                self.plain.sums,
                mu=self._mu_second * math.sqrt(part),
                name=f"weighted sums of clipped gradients, {number} steps as one, for the weight 1",
                reference=f"{THEORY}, Lemma 1",
            )
            parts += [] if self.losses is None else [self.losses.describe()]
            parts.append(steps.describe())
        if self._is_plain and self.losses is not None:
            if self.temperature is not None:
                parts.append(self.temperature.describe())
        elif self.mix is not None:
            parts.append(self.mix.describe())
        elif self.scale is not None:
            # without a mix there is one parameter less
            n_entries = self.scale.n_entries
            if self._is_plain:  # without a mix
                n_entries = self.objective.weights.n_groups * (6 if has_shift(self.plain) else 3)
            parts += [replace(self.scale, n_entries=n_entries).describe()] * rules.SCALE_ROUNDS
        return tuple(parts)

    @property
    def _is_plain(self) -> bool:
        """Whether the plain model was taken."""
        return self.n_looks == 1 and self.weights == self.proportions is not None

    @property
    def _mu_second(self) -> float:
        """Mu of all descents after the first one."""
        return self.mu_plain if self._is_plain else self.mu_weighted

    def alarms(self) -> tuple[str, ...]:
        return self.plain.alarms()

    def remarks(self) -> tuple[str, ...]:
        """Say which of both models was released, and what noise lets one expect."""
        remarks = self.plain.remarks()
        if self.losses is None:
            if self._is_plain:
                said = "noise is large: classes were balanced after a fit without weights"
            else:
                said = "classes count alike, as far as the noise of a rare class allows"
            return (*remarks, said)
        error = clipped_losses(self.plain).factor * self.losses.sensitivity
        error /= self.losses.mu * self.objective.design.n_records
        remarks += (
            f"losses of the groups have noise of standard deviation {error:.2g} over the share of "
            f"the group, in each of {self.n_looks} measurements",
        )
        if not self._is_plain:
            return remarks
        return (*remarks, "the worst group is a large one: the plain model was taken")

    def to_dict(self) -> dict[str, Any]:
        numbers: dict[str, Any] = {
            "mu_weighted": self._mu_second,
            "n_looks": self.n_looks,
        }
        if self.weights is not None:
            numbers["group_weights"] = list(self.weights)
        return {**self.plain.to_dict(), **numbers}

    def run(self, data: Records, run: Run) -> GroupResult:
        if data.in_memory:  # else they are encoded where they are read
            self.objective.weights.check_groups(data.groups)
        with without_warnings(), spare_processors(data.is_sparse and data.in_memory):
            noise = run.noise
            descent = self.plain.prepare(data, noise)
            rows, offsets = descent.rows, descent.offsets
            plain = descent.weights(noise, counted=run.counted("noisy steps of the plain model"))
            proportions = self._proportions(descent.plan, rows, noise)
            noise_plain = descent.plan.noise_variance()
            shrinkage = self._shrinkage(plain, noise_plain)
            best, point, passes = proportions, plain, []
            price, excess = self.spread_price, np.zeros(len(proportions))
            for k in range(self.n_looks):
                if self.losses is None:  # the groups are the classes
                    weights = class_weights(proportions, self.price, self.objective.weight_limit)
                    is_plain = prefers_plain(None, weights, proportions)
                    if not is_plain:  # margins start from a constant model for these weights
                        descent = replace(descent, offsets=self._class_odds(weights))
                        offsets = np.zeros_like(offsets)
                else:
                    losses = self._group_losses(
                        descent.plan, rows, shrinkage * point, offsets, proportions, noise
                    )
                    # smaller steps where the last one went too far
                    former, excess = excess, losses - best @ losses
                    price *= (
                        rules.TOO_FAR
                        if (best * former) @ excess < 0.0
                        else rules.NOT_FAR
                        if k
                        else 1.0
                    )
                    best = worst_case_weights(
                        losses,
                        proportions,
                        noise_price=self.price,
                        spread_price=price,
                        largest=self.objective.weight_limit,
                        center=best,
                        # of one look: no other one would find that the step went too far
                        ceiling=rules.CEILING if self.n_looks == 1 else 1.0,
                    )
                    floor = rules.FLOOR / self.n_looks
                    weights = floor * proportions + (1.0 - floor) * best
                    is_plain = self.n_looks == 1 and prefers_plain(
                        losses if self.loss.has_odds else None, weights, proportions
                    )
                weights = proportions if is_plain else weights
                factors = weights / proportions
                second = replace(
                    descent,
                    plan=self._weighted_plan(descent.plan, weights, proportions, k, is_plain),
                )
                rows.divide(second.plan.n_blocks, noise)
                # two independent estimates of the plain model are averaged
                start = None if is_plain else point
                name = f"noisy steps after look {k + 1} of {self.n_looks}"
                point = second.weights(noise, start, factors, run.counted(name))
                variance = second.plan.noise_variance()
                passes.append(second.plan)
                shrinkage = self._shrinkage(point, variance)
            if is_plain:
                point, variance = combined(plain, noise_plain, point, variance)
                shrinkage = self._shrinkage(point, variance)
            if is_plain and self.losses is None:  # the log odds of a rare class do not stay
                point = balanced(point, variance, point, rows)
                offsets = np.zeros_like(offsets)
            if is_plain and self.losses is not None:
                shift = 0.0
                if (temperature := self.temperature) is not None:
                    shrinkage, shift = temperature.release(rows, point, offsets, shrinkage, noise)
                point, offsets = shrinkage * point, offsets + shift
            elif self.mix is not None:
                ends = self._shrinkage(plain, noise_plain) * plain, shrinkage * point
                moved = max(self._margin_rounding(rows, end, offsets) for end in ends)
                fit = MixFit(descent.plan, rows, ends, offsets)
                point, offsets = fit.release(rows, self.mix, proportions, noise, moved)
            else:
                # several looks have found the weights; after one the largest loss may be off
                direction = point - plain if self.n_looks == 1 and not is_plain else None
                point, offsets = self._rescaled(
                    descent.plan, rows, point, offsets, shrinkage, proportions, noise, direction
                )
            done = replace(
                self,
                plain=descent.plan,
                passes=tuple(passes),
                proportions=tuple(proportions.tolist()),
                weights=tuple(weights.tolist()),
            )
            return GroupResult(
                point=rows.coefficients(point, offsets, data.intercept),
                plan=done,
                weights=weights if self.objective.release_weights else None,
                proportions=proportions,
                largest=tuple((weights / proportions).tolist()),
            )

    def _proportions(
        self, plan: NoisyGradientDescentPlan, rows: CenteredRecords, noise: NoiseSource
    ) -> np.ndarray:
        """Return the groups' proportions, public or released; positive, of sum 1."""
        least = rules.LEAST_PROPORTION
        if self.sizes is None:
            shares = np.array(self.proportions)
        else:
            n = plan.n_records
            counted = GroupTotals(self.objective.weights.n_groups, Ones())
            counts, scale = self.sizes.release(rows.full_total(counted), noise)
            shares, least = counts[:, 0] / n, max(least, 2.0 * scale / n)
        return positive_shares(shares, least)

    def _class_odds(self, weights: np.ndarray) -> np.ndarray:
        """Return the margins of a constant model for weights of the classes."""
        logs = np.log(weights)
        basis = self.loss.basis if isinstance(self.loss, SoftmaxLoss) else np.array([[-1.0], [1.0]])
        return np.asarray(logs @ basis)

    def _shrinkage(self, weights: np.ndarray, variance: float) -> float:
        if not (self.loss.has_odds or self.plain.is_squared):
            return 1.0
        return self.plain.shrinkage(weights, variance)

    def _group_losses(
        self,
        plan: NoisyGradientDescentPlan,
        rows: CenteredRecords,
        weights: np.ndarray,
        offsets: np.ndarray,
        proportions: np.ndarray,
        noise: NoiseSource,
    ) -> np.ndarray:
        """Release the groups' losses under released weights, and shrink them."""
        clipped = clipped_losses(plan)
        terms = ClippedLossTerms(
            loss=self.loss, clipped=clipped, weights=rows.weights(weights), shift=offsets.squeeze()
        )
        n = plan.n_records
        moved = clipped.moved(self._margin_rounding(rows, weights, offsets))
        assert self.losses is not None
        exact = rows.full_total(GroupTotals(len(proportions), terms))
        sums, scale = self.losses.release(exact, noise, moved)
        sizes = n * proportions
        losses, errors = clipped.losses(sums[:, 0] / sizes), clipped.factor * scale / sizes
        return shrunk_losses(losses, errors, proportions, n)

    def _margin_rounding(
        self, rows: CenteredRecords, weights: np.ndarray, offsets: np.ndarray
    ) -> float:
        """Bound what margins change by when records are elsewhere in the table."""
        size = rows.norm_bound * float(np.linalg.norm(weights)) + float(np.linalg.norm(offsets))
        return two_margins(self.objective.design.n_features, size)

    def _weighted_plan(
        self,
        plan: NoisyGradientDescentPlan,
        weights: np.ndarray,
        proportions: np.ndarray,
        k: int,
        is_plain: bool,
    ) -> NoisyGradientDescentPlan:
        """Plan the second descent for weights of groups, all of them released.

        Second moments of weighted rows are larger by up to the largest factor of a group. Weighted
        records stand for fewer, Kish's effective sample size, and make fewer blocks.
        """
        largest = float((weights / proportions).max())
        effective = plan.objective.design.n_records / float((weights**2 / proportions).sum())
        return replace(
            plan,
            n_blocks=block_count(round(effective / rules.WEIGHTED_BLOCK), plan.n_blocks),
            mu=(self.mu_plain if is_plain else self.mu_weighted) * math.sqrt(self.parts[k]),
            damping=self.damping_weighted * math.sqrt(self.parts[k]),
            largest_factor=largest,
            rate=plan.rate / largest,
            slowness=plan.slowness * largest,
        )

    def _rescaled(
        self,
        plan: NoisyGradientDescentPlan,
        rows: CenteredRecords,
        weights: np.ndarray,
        offsets: np.ndarray,
        shrinkage: float,
        proportions: np.ndarray,
        noise: NoiseSource,
        direction: np.ndarray | None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Fit scale, shift (for two classes) and mix to the group that is worst then.

        The mix is of the weights with those of the plain model, which differ by the direction.
        """
        if self.scale is None:
            return shrinkage * weights, offsets
        are_classes = self.losses is None
        fit = ScaleFit(plan, rows, weights, offsets, proportions, direction, are_classes)
        moved = self._margin_rounding(rows, weights, offsets)
        if direction is not None:
            moved += self._margin_rounding(rows, direction, np.zeros_like(offsets))
        theta = fit.released(rows, self.scale, rules.SCALE_ROUNDS, shrinkage, noise, moved)
        shift = theta[1] if fit.has_shift else 0.0
        weights = (shrinkage + theta[0] / fit.unit) * weights
        if direction is not None:
            weights = weights + theta[-1] / fit.units[1] * direction
        return weights, offsets + shift


def combined(
    first: np.ndarray, first_variance: float, second: np.ndarray, second_variance: float
) -> tuple[np.ndarray, float]:
    """Average two independent estimates by their variances; return the variance, too."""
    share = first_variance / (first_variance + second_variance)
    return first + share * (second - first), share * second_variance


def plan_noisy_descent_ascent(
    objective: GroupObjective,
    budget: PrivacyBudget,
) -> PlainModelPlan | NoisyDescentAscentPlan:
    """Choose the parts of the budget from public numbers.

    Parameters
    ----------
    objective : GroupObjective
        It has no part for a penalty or a ball.
    budget : PrivacyBudget
        With delta > 0.

    Returns
    -------
    PlainModelPlan or NoisyDescentAscentPlan
        That of the plain model alone if there is one group, or where noise would hide the groups'
        losses.
    """
    if objective.weights.public_groups and not objective.neighbouring.is_replaced:
        raise ValueError("public groups: proven for neighbouring='replace_one' only.")
    whole = plan_noisy_gradient_descent(objective, budget)
    are_classes = objective.are_classes and objective.risk.loss.has_odds
    whole = replace(whole, is_balanced=are_classes)
    n_groups = objective.weights.n_groups
    design, relation = objective.design, objective.neighbouring
    error = whole.relative_noise
    spread = error * math.sqrt(design.n_features)
    if n_groups == 1 or spread >= rules.LARGEST_ERROR:
        return PlainModelPlan(objective=objective, plain=whole)
    mu = gaussian_mu(budget.epsilon, budget.delta)
    has_sizes = objective.proportions is None
    noise = relation.n_changes / (mu * design.n_records)
    sizes_share, losses_share, scale_share = (
        min(max((factor * noise) ** 2, least), largest)
        for least, largest, factor in (rules.SIZES, rules.LOSSES, rules.SCALE)
    )
    if has_sizes and not objective.plans_share:
        sizes_share, most = objective.histogram_share or sizes_share, rules.LARGEST_SHARE
        if sizes_share > most:
            raise ValueError(
                f"histogram_share == {sizes_share:g}, must be at most {most:g} for the "
                "method 'gradient': the rest is for the model."
            )
    if are_classes:  # no looks
        losses_share = 0.0
    room = rules.ALL_SHARES - sizes_share * has_sizes
    fraction = min(1.0, room / (losses_share + scale_share))
    losses_share, scale_share = fraction * losses_share, fraction * scale_share
    fits_scale = objective.risk.loss.has_odds
    n_looks = int(min(math.sqrt(rules.ONE_LOOK / spread), rules.MOST_LOOKS))
    n_looks = n_looks if n_looks >= rules.LEAST_LOOKS and not are_classes else 1
    spread_price = rules.SPREAD_PRICE
    if fits_scale and n_looks == 1:
        spread_price = min(max(rules.PRICE_OF_ERROR * spread, rules.LEAST_PRICE), spread_price)
    reserved = sizes_share * has_sizes + losses_share + scale_share
    plain = plan_noisy_gradient_descent(objective, budget, reserved=reserved)
    in_groups = partial(NoisySum, design=design, neighbouring=relation, n_entries=n_groups)
    sizes = None
    if has_sizes:
        sizes = in_groups(
            mu=mu * math.sqrt(sizes_share),
            sensitivity=math.sqrt(relation.n_changes),
            size=1.0,
            name="sizes of the groups",
            reference=f"{THEORY}, Lemma 3",
        )
    losses = None
    if not are_classes:
        losses = in_groups(
            mu=mu * math.sqrt(losses_share / n_looks),
            sensitivity=loss_sensitivity(plain.loss, relation.is_replaced),
            size=loss_range(plain.loss)[1],
            name="losses of the groups",
            reference=f"{THEORY}, Lemma 2",
        )
    scale = temperature = mix = None
    share = 0.0  # of the temperature
    if fits_scale:
        scale = in_groups(
            mu=mu * math.sqrt(scale_share / rules.SCALE_ROUNDS),
            sensitivity=relation.n_changes,
            size=1.0,
            name="derivatives of the groups' losses in scale, shift and mix",
            reference=f"{THEORY}, Lemma 4",
            n_entries=n_groups * (3, 6, 10)[has_shift(plain) + (n_looks == 1)],
        )
        share = min(scale_share, temperature_share(plain.loss, noise))
        if are_classes:  # the scale is fitted in both branches
            share = scale_share
        elif share:
            temperature = plan_temperature(plain.loss, design, relation, mu * math.sqrt(share))
    else:
        mix = in_groups(
            mu=mu * math.sqrt(scale_share),
            sensitivity=relation.n_changes,
            size=1.0,
            name="losses of the groups between two models",
            reference=f"{THEORY}, Lemma 6",
            n_entries=n_groups * (5 if has_shift(plain) else 3),
        )
    return NoisyDescentAscentPlan(
        objective=objective,
        # as long a path for the budget as that of one descent: the first part of it, and the rest
        plain=replace(
            plain,
            mu=plain.mu * math.sqrt(rules.PLAIN_SHARE),
            damping=plain.damping / math.sqrt(rules.PLAIN_SHARE),
        ),
        n_looks=n_looks,
        mu_weighted=plain.mu * math.sqrt(1.0 - rules.PLAIN_SHARE),
        mu_plain=math.sqrt(plain.mu**2 * (1.0 - rules.PLAIN_SHARE) + mu**2 * (scale_share - share)),
        damping_weighted=plain.damping * math.sqrt(1.0 - rules.PLAIN_SHARE),
        sizes=sizes,
        losses=losses,
        scale=scale,
        mix=mix,
        temperature=temperature,
        price=rules.NOISE_PRICE * error**2 * math.sqrt(design.n_features),
        spread_price=spread_price,
        proportions=objective.proportions,
    )

"""Planned noisy descent for the worst group: the plain model first, then what its losses call for.

The plain model is that of :mod:`skdp.algorithms.descent.noisy_descent`, with a part of the budget.
The next descents go on from the model before them with weights of the groups, and their noise
follows the largest weight in use; :mod:`skdp.algorithms.worst_group.looks` has the frame. Theory:
docs/theory/worst_group.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from skdp.algorithms.descent.noisy_descent import (
    NoisyGradientDescentPlan,
    plan_noisy_gradient_descent,
)
from skdp.algorithms.descent.rules import block_count
from skdp.algorithms.descent.steps import Descent
from skdp.algorithms.plan import Run
from skdp.algorithms.worst_group import rules
from skdp.algorithms.worst_group.group_sums import THEORY
from skdp.algorithms.worst_group.look_shares import (
    are_odds_of_classes,
    check_public_groups,
    plan_looks,
    plan_shares,
)
from skdp.algorithms.worst_group.looks import (
    GroupModels,
    LooksPlan,
    Model,
    PlainModelPlan,
    combined,
)
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.gaussian_dp import gaussian_mu
from skdp.privacy.report import Release
from skdp.problems import Records
from skdp.problems.group_objective import GroupObjective


@dataclass(frozen=True, kw_only=True)
class NoisyDescentAscentPlan(LooksPlan):
    """Releases of the worst-group method, in their order.

    Attributes
    ----------
    damping_weighted : float
        Of the number of steps of the others, as in the plan of the first one.
    passes : tuple of NoisyGradientDescentPlan
        After a run: of the others.
    """

    plain: NoisyGradientDescentPlan
    damping_weighted: float
    passes: tuple[NoisyGradientDescentPlan, ...] = ()

    @property
    def alpha(self) -> float:
        """Penalty that early stopping of the plain model is about equivalent to."""
        return self.plain.alpha

    @property
    def plain_releases(self) -> tuple[Release, ...]:
        return self.plain.releases

    def model_release(self, k: int) -> Release:
        number = self.passes[k].schedule.n_steps if self.passes else "all"
        return replace(
            self.plain.sums,
            mu=self.mu_second * math.sqrt(self.parts[k]),
            name=f"weighted sums of clipped gradients, {number} steps as one, for the weight 1",
            reference=f"{THEORY}, Lemma 1",
        ).describe()

    def models(self, data: Records, run: Run) -> DescentModels:
        return DescentModels(self, data, run)


class DescentModels(GroupModels):
    """The plain descent, and weighted ones from the model before them."""

    def __init__(self, plan: NoisyDescentAscentPlan, data: Records, run: Run) -> None:
        self._plan, self._run = plan, run
        self._descent = plan.plain.prepare(data, run.noise)
        self._passes: list[NoisyGradientDescentPlan] = []
        self.rows, self.offsets = self._descent.rows, self._descent.offsets

    @property
    def first(self) -> NoisyGradientDescentPlan:
        return self._descent.plan

    def plain(self) -> Model:
        counted = self._run.counted("noisy steps of the plain model")
        weights = self._descent.weights(self._run.noise, counted=counted)
        return self._model(weights, self.first.noise_variance())

    def again(self, plain: Model) -> Model:
        proportions = np.ones(1)
        second = self._next(0, proportions, proportions, self._plan.mu_plain)
        counted = self._run.counted("noisy steps after look 1 of 1")
        weights = second.weights(self._run.noise, None, None, counted)
        # two independent estimates of the plain model are averaged
        variances = plain.variance, second.plan.noise_variance()
        return self._model(*combined(plain.weights, variances[0], weights, variances[1]))

    def weighted(
        self, look: int, weights: np.ndarray, proportions: np.ndarray, before: Model
    ) -> Model:
        second = self._next(look, weights, proportions, self._plan.mu_weighted)
        name = f"noisy steps after look {look + 1} of {self._plan.n_looks}"
        counted = self._run.counted(name)
        factors = weights / proportions
        point = second.weights(self._run.noise, before.weights, factors, counted)
        return self._model(point, second.plan.noise_variance())

    def coefficients(
        self, weights: np.ndarray, offsets: np.ndarray, intercept: float
    ) -> np.ndarray:
        return self.rows.coefficients(weights, offsets, intercept)

    def done(self) -> NoisyDescentAscentPlan:
        return replace(self._plan, plain=self.first, passes=tuple(self._passes))

    def _next(self, k: int, weights: np.ndarray, proportions: np.ndarray, mu: float) -> Descent:
        """Plan a descent for weights of groups, all of them released.

        Second moments of weighted rows are larger by up to the largest factor of a group. Weighted
        records stand for fewer, Kish's effective sample size, and make fewer blocks.
        """
        plan, part = self.first, math.sqrt(self._plan.parts[k])
        largest = float((weights / proportions).max())
        effective = plan.objective.design.n_records / float((weights**2 / proportions).sum())
        planned = replace(
            plan,
            n_blocks=block_count(round(effective / rules.WEIGHTED_BLOCK), plan.n_blocks),
            mu=mu * part,
            damping=self._plan.damping_weighted * part,
            largest_factor=largest,
            rate=plan.rate / largest,
            slowness=plan.slowness * largest,
        )
        self._passes.append(planned)
        self.rows.divide(planned.n_blocks, self._run.noise)
        return replace(self._descent, plan=planned, offsets=self.offsets)

    def _model(self, weights: np.ndarray, variance: float) -> Model:
        plain, shrinkage = self._plan.plain, 1.0
        if plain.loss.has_odds or plain.is_squared:
            shrinkage = plain.shrinkage(weights, variance)
        return Model(weights=weights, variance=variance, shrinkage=shrinkage)


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
    check_public_groups(objective)
    whole = plan_noisy_gradient_descent(objective, budget)
    whole = replace(whole, is_balanced=are_odds_of_classes(objective))
    error, d = whole.relative_noise, objective.design.n_features
    spread = error * math.sqrt(d)
    if objective.weights.n_groups == 1 or spread >= rules.LARGEST_ERROR:
        return PlainModelPlan(objective=objective, plain=whole)
    mu = gaussian_mu(budget.epsilon, budget.delta)
    shares = plan_shares(objective, mu, spread)
    plain = plan_noisy_gradient_descent(objective, budget, reserved=shares.reserved)
    return NoisyDescentAscentPlan(
        objective=objective,
        # as long a path for the budget as that of one descent: the first part of it, and the rest
        plain=replace(
            plain,
            mu=plain.mu * math.sqrt(rules.PLAIN_SHARE),
            damping=plain.damping / math.sqrt(rules.PLAIN_SHARE),
        ),
        damping_weighted=plain.damping * math.sqrt(1.0 - rules.PLAIN_SHARE),
        price=rules.NOISE_PRICE * error**2 * math.sqrt(d),
        **plan_looks(objective, plain, mu, shares, plain.mu),
    )

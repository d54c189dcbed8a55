"""The method "mirror_descent" of the worst group's loss: coefficients against groups.

Algorithm 1 of González, Guzmán and Paquette (2024) for the maximal loss of their section 1.4: one
block draws vertices of the l1 ball of the coefficients, the other one draws groups, those with
large losses more often. Theory: docs/theory/mirror_descent.md, section 7.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skdp._runtime import without_warnings
from skdp.algorithms.core.noisy_sums import Level
from skdp.algorithms.mirror.bias_reduced import plan_bias_reduced_mirror_descent
from skdp.algorithms.mirror.boosted import plan_boosted_mirror_descent
from skdp.algorithms.mirror.linear import (
    LinearMirrorDescentPlan,
    linear_design,
    of_loss,
    of_vertices,
)
from skdp.algorithms.mirror.plain import plan_mirror_descent, zcdp_of
from skdp.algorithms.mirror.rounds import VertexPlan
from skdp.algorithms.plan import Plan, Run
from skdp.algorithms.worst_group import rules
from skdp.algorithms.worst_group.group_plan import GroupPlan, GroupResult, noisy_sizes
from skdp.privacy.accountants import PureAccountant, ZCDPAccountant
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import ComposedEvent
from skdp.privacy.report import Release
from skdp.problems import Records
from skdp.problems.group_objective import GroupObjective
from skdp.problems.vertices import GroupLinearProblem, LinearProblem


@dataclass(frozen=True, kw_only=True)
class GroupMirrorDescentPlan(GroupPlan, LinearMirrorDescentPlan):
    """Draws of vertices of the coefficients and of groups, after a histogram if there is one.

    The draws do not depend on the weights of the groups: gradients are in units of the largest one.
    """

    @property
    def releases(self) -> tuple[Release, ...]:
        return (*self.first_releases(), *self.descent.releases)

    def to_dict(self) -> dict[str, Any]:
        return {**self._design.to_dict(), **self.public_numbers(), **self.descent.to_dict()}

    @without_warnings()
    def run(self, data: Records, run: Run) -> GroupResult:
        loss, design = of_vertices(self.risk.loss), self._design
        self.objective.design.check(data)
        data.check_targets(loss)
        self.objective.weights.check_groups(data.groups)
        problem = LinearProblem(data, loss, design)  # refuses entries above their bound
        done = self.weighted(data, run.noise)
        weights = done.objective.weights
        if weights.n_groups > 1:
            problem = GroupLinearProblem(data, loss, design, weights)
        vertices, *groups = self.descent.run(problem, run).point
        y = np.ones(1)
        if groups:
            y = np.bincount(groups[0], minlength=weights.n_groups) / len(groups[0])
        return done.result(of_loss(self.risk.loss, problem.coefficients((vertices,))), y)


def plan_group_mirror_descent(
    objective: GroupObjective, budget: PrivacyBudget, **options: Any
) -> GroupMirrorDescentPlan:
    """Plan mirror descent for the largest loss of a group, of a smooth loss.

    Weights of the groups must not depend on private sizes; `options` are of the variant's planner.
    """
    weights, loss = objective.weights, of_vertices(objective.risk.loss)
    objective.check_relation()
    if weights.bound < 1.0:
        raise ValueError("the largest weight of a group must be at least 1.")
    design = linear_design(objective)
    if weights.n_groups > 1:
        design = design.with_groups(loss, weights.n_groups)
    descent: Plan
    sizes, variant = None, objective.mirror_variant
    if variant == "boosted":
        if weights.n_groups == 1:
            raise ValueError("variant='boosted' is for two groups or more.")
        if objective.histogram_share:
            raise ValueError(
                "variant='boosted' spends the whole budget on each part of the records: it needs "
                "public group_proportions."
            )
        options = {"value_bound": design.magnitudes[1], **options}
        descent = plan_boosted_mirror_descent(design, budget, **options)
    elif variant == "plain":
        # records of one group, if all are equally large
        effective = design.n_records / weights.n_groups * math.sqrt(zcdp_of(budget))
        wanted = round((effective / sum(design.log_sizes)) ** (2.0 / 3.0))
        n_rounds = max(rules.FEWEST_ROUNDS, min(wanted, rules.MOST_ROUNDS))
        descent = plan_mirror_descent(design, budget, **{"n_rounds": n_rounds, **options})
    else:
        descent = plan_bias_reduced_mirror_descent(design, budget, **options)
    if objective.histogram_share:
        part = Level.of(budget).part(objective.histogram_share)
        reference = "docs/theory/mirror_descent.md, Proposition 7"
        sizes = noisy_sizes(objective, part, weights.n_groups, reference)
        assert isinstance(descent, VertexPlan)
        descent = _reduced(descent, sizes.describe(), budget)
    return GroupMirrorDescentPlan(objective=objective, descent=descent, sizes=sizes)


def _reduced(descent: VertexPlan, earlier: Release, budget: PrivacyBudget) -> VertexPlan:
    """Shorten the steps to what an earlier release leaves of the budget."""

    def scaled(factor: float) -> VertexPlan:
        return replace(descent, steps=tuple(factor * step for step in descent.steps))

    def fits(factor: float) -> bool:
        releases = (earlier, *scaled(factor).releases)
        event = ComposedEvent(tuple(release.event for release in releases))
        # the tightest accountants take long for draws of many sensitivities
        accountant = PureAccountant() if budget.is_pure else ZCDPAccountant()
        return accountant.compose(event).get_epsilon(budget.delta) <= budget.epsilon

    low, high = 0.0, 1.0
    for _ in range(rules.HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if fits(middle) else (low, middle)
    if low == 0.0:
        raise ValueError("histogram_share is too large: it leaves no budget for the draws.")
    return scaled(low)

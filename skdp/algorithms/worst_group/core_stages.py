"""Models of the core for the worst group: the plain one first, then what its losses call for.

Means are released once. The plain model is that of noisy steps with a part of the budget; the next
ones go on from the model before them, with factors of the groups' gradients, and their noise
follows the largest factor in use. :mod:`~.looks` has the frame. Theory: docs/theory/worst_group.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from skdp.algorithms.core.centered_rows import CenteredRecords
from skdp.algorithms.core.fit import CorePlan, plan_core
from skdp.algorithms.core.penalty import penalised_rows
from skdp.algorithms.core.plan import Found
from skdp.algorithms.core.post import base_at, root_of
from skdp.algorithms.core.size import Corrected
from skdp.algorithms.core.steps import Path
from skdp.algorithms.plan import Run
from skdp.algorithms.worst_group import rules
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
from skdp.privacy.report import Release
from skdp.problems import Records
from skdp.problems.group_objective import GroupObjective


@dataclass(frozen=True, kw_only=True)
class BalancedPlan(CorePlan):
    """The plain model without the log odds of the classes."""

    def margins(
        self,
        rows: CenteredRecords,
        found: Found,
        weights: np.ndarray,
        theta: Corrected,
        base: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        weights, _ = super().margins(rows, found, weights, theta, base)
        # a shift corrects the released shares, which are left out
        return weights, self.offsets(found.means, base) - rows.centering.offsets


@dataclass(frozen=True, kw_only=True)
class StepsPlan(CorePlan):
    """Releases 1 and 2 of the core with a part of the budget.

    Attributes
    ----------
    level, last : float
        Mu of the steps, and of size and shift where it is taken.
    """

    level: float
    last: float

    @property
    def mu_steps(self) -> float:
        return self.level

    @property
    def mu_round(self) -> float:
        return min(super().mu_round, self.last / math.sqrt(self.n_rounds))

    @property
    def releases(self) -> tuple[Release, ...]:
        moments = () if self.moments is None else (self.moments.describe(),)
        return (self.means.describe(), *moments, self.release_of_steps())

    @property
    def n_records(self) -> float:
        return self.numbers.means.n_records

    @property
    def relative_noise(self) -> float:
        return relative_noise(self)

    @property
    def target_variance(self) -> float:
        return self.numbers.means.deviation**2


def relative_noise(plan: CorePlan) -> float:
    """Error of a mean of rows with the noise of all steps, relative to the norm of rows."""
    design = plan.objective.design
    n: float = design.n_records
    if design.is_slack and plan.found is not None:
        n = plan.found.means.n_records
    return plan.changes * math.sqrt(design.n_features) / (n * plan.mu_steps)


@dataclass(frozen=True, kw_only=True)
class CoreStagesPlan(LooksPlan):
    """Releases of the worst-group method, in their order.

    Attributes
    ----------
    passes : tuple of StepsPlan
        After a run: of the models after looks.
    """

    plain: StepsPlan
    passes: tuple[StepsPlan, ...] = ()
    is_level = True

    @property
    def plain_releases(self) -> tuple[Release, ...]:
        return self.plain.releases

    @property
    def plain_fit(self) -> tuple[Release, ...]:
        return self.plain.releases_of_size

    def model_release(self, k: int) -> Release:
        stage = self.passes[k] if self.passes else self.stage(k)
        return stage.release_of_steps(is_weighted=True)

    def stage(self, k: int) -> StepsPlan:
        """Return the plan of the steps after a look, for the weight 1."""
        level, n_solves = self.mu_second * math.sqrt(self.parts[k]), self.plain.n_solves
        if n_solves is not None and k < self.n_looks - 1:
            n_solves = rules.LOOK_SOLVES
        return replace(self.plain, level=level, n_solves=n_solves)

    def models(self, data: Records, run: Run) -> CoreModels:
        return CoreModels(self, data, run)


class CoreModels(GroupModels):
    """The plain steps, and weighted ones from the model before them."""

    def __init__(self, plan: CoreStagesPlan, data: Records, run: Run) -> None:
        self._plan, self._run, self._passes = plan, run, list[StepsPlan]()
        self.rows, found = plan.plain.prepare(data, run.noise)
        self._spectrum = plan.plain.spectrum(self.rows, run)[0]
        self._first, self._found = replace(plan.plain, found=found), found
        self._raw = np.zeros(0)
        self.offsets = self.rows.centering.offsets
        mu = math.hypot(plan.plain.level, plan.mu_weighted)
        #: Steps as one descent with the budget of all would take them.
        self._whole: Path = replace(plan.plain, level=mu).planned(found.means).steps

    @property
    def first(self) -> StepsPlan:
        return self._first

    def plain(self) -> Model:
        name = "noisy steps of the plain model"
        self._raw = self._first.stepped(self.rows, self._found, self._run, name)
        return self._sized(self._raw, self._found)

    def again(self, plain: Model) -> Model:
        stage = replace(self._first, level=self._plan.mu_plain)
        found = stage.planned(self._found.means)
        self._passes.append(replace(stage, found=found))
        second = stage.stepped(self.rows, found, self._run, "noisy steps after look 1 of 1")
        # two independent estimates of the plain model are averaged
        variances = self._found.steps.variance, found.steps.variance
        raw, variance = combined(self._raw, variances[0], second, variances[1])
        return self._sized(raw, replace(found, steps=self._with(variance)), True)

    def weighted(
        self, look: int, weights: np.ndarray, proportions: np.ndarray, before: Model
    ) -> Model:
        factors = weights / proportions
        stage, means = self._plan.stage(look), self._found.means
        if self._plan.losses is None:  # the groups are the classes
            means = replace(means, shares=weights)
        found = stage.planned(means, float(factors.max()))
        self._passes.append(replace(stage, found=found))
        name = f"noisy steps after look {look + 1} of {self._plan.n_looks}"
        scale, d = stage.scale(found.means), stage.objective.design.n_features
        raw = stage.stepped(
            self.rows, found, self._run, name, before.weights / scale, factors, self.offsets
        )
        steps = self._with(found.steps.variance)
        rows, _, theta = stage.sized(self.rows, replace(found, steps=steps), raw)
        rows *= theta.theta[0]
        if self._plan.losses is not None or len(raw) > 1:  # no shift is fitted, or of all groups
            rows[:, d:] = raw[:, d:]
        return Model(weights=scale * rows)

    def coefficients(
        self, weights: np.ndarray, offsets: np.ndarray, intercept: float
    ) -> np.ndarray:
        plan = self._first
        weights, offsets = penalised_rows(
            plan.objective,
            self.rows,
            weights,
            offsets,
            self._spectrum,
            plan.scale(self._found.means),
        )
        return self.rows.coefficients(weights, offsets, intercept)

    def done(self) -> CoreStagesPlan:
        return replace(self._plan, plain=self._first, passes=tuple(self._passes))

    def _with(self, variance: float) -> Path:
        """Return the steps of the whole budget with another noise."""
        noise = math.sqrt(variance / self._whole.variance)
        return replace(self._whole, unit=self._whole.unit * noise)

    def _sized(self, raw: np.ndarray, found: Found, is_last: bool = False) -> Model:
        """Return the plain model of raw weights; the last one with size and shift released."""
        first, rows, d = self._first, self.rows, self._first.objective.design.n_features
        is_last = is_last and self._plan.losses is not None
        weights, size, theta = first.sized(rows, found, raw, self._run if is_last else None)
        base = np.zeros(len(raw))
        if is_last:
            theta, base, _ = first.corrected(rows, found, weights, theta, self._run)
        elif rows.has_intercept:
            root, factor = root_of(weights[:, :d]), float(theta.theta[0])
            base, _ = base_at(found.balance, factor, root, found.start)
        scaled, offsets = first.margins(rows, found, weights, theta, base)
        self._first = replace(first, found=replace(self._found, size=size, theta=theta))
        if rows.has_intercept and self._plan.losses is not None:
            scaled[:, d] = (offsets - rows.centering.offsets) / rows.constant
        return Model(weights=scaled)


def found_plan(plan: CorePlan) -> StepsPlan:
    """Return a plan of the core, after its run, as looks at losses need it."""
    return StepsPlan(**_fields(plan), level=plan.mu_steps, last=plan.mu)


def _fields(plan: CorePlan) -> dict[str, Any]:
    return {field.name: getattr(plan, field.name) for field in fields(plan)}


def plan_core_stages(
    objective: GroupObjective, budget: PrivacyBudget, is_solved: bool = False
) -> PlainModelPlan | CoreStagesPlan:
    """Choose the parts of the budget from public numbers.

    Parameters
    ----------
    objective : GroupObjective
        Its penalty enters after the releases.
    budget : PrivacyBudget
        With delta > 0.

    Returns
    -------
    PlainModelPlan or CoreStagesPlan
        That of the plain model alone if there is one group, or where noise would hide the groups'
        losses.
    """
    check_public_groups(objective)
    whole = plan_core(objective, budget, is_solved)
    error, d = relative_noise(whole), objective.design.n_features
    spread = error * math.sqrt(d)
    if objective.weights.n_groups == 1 or spread >= rules.LARGEST_ERROR:
        if are_odds_of_classes(objective):
            whole = BalancedPlan(**_fields(whole))
        return PlainModelPlan(objective=objective, plain=whole)
    shares = plan_shares(objective, whole.mu, spread)
    rest = whole.mu * math.sqrt(1.0 - whole.share - whole.moments_share - shares.reserved)
    level, last = rest * math.sqrt(rules.PLAIN_SHARE), whole.mu * math.sqrt(shares.scale)
    plain = StepsPlan(**_fields(whole), level=level, last=last)
    return CoreStagesPlan(
        objective=objective,
        plain=plain,
        price=rules.NOISE_PRICE * error**2 * math.sqrt(d),
        **plan_looks(objective, plain, whole.mu, shares, rest, plain.size_share),
    )

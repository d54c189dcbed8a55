"""Weighted stages: prepared output perturbation for the worst group, with any certified solver.

Looks at the losses of the groups (:mod:`skdp.algorithms.worst_group.looks`) lead to weights of the
groups; the model for them is solved for on prepared rows, with clipped slopes times the factor of
the group, released, and what the penalty has shrunk is undone
(:mod:`skdp.algorithms.output.prepared`). Theory: docs/theory/worst_group.md, section 5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from skdp.algorithms.core.levels import Level
from skdp.algorithms.core.penalty import needs_moments, penalised_rows
from skdp.algorithms.legacy_solves.plan import Preparation, plan_preparation
from skdp.algorithms.legacy_solves.rules import temperature_share
from skdp.algorithms.legacy_solves.temperature import TemperaturePlan, plan_temperature
from skdp.algorithms.output.prepared import (
    PreparedOutputPlan,
    Solved,
    covers_prepared,
    plan_prepared_output,
)
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
from skdp.mechanisms import AdditiveMechanism
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.report import Release
from skdp.problems import Loss, Records
from skdp.problems.group_objective import GroupObjective


@dataclass(frozen=True, kw_only=True)
class StagePlan(PreparedOutputPlan):
    """Solves of one model; the preparation is that of all of them.

    Attributes
    ----------
    count : int or None, default=None
        Number of solves; None: that of the plain method.
    largest_factor : float, default=1.0
        Of the losses of groups.
    counted : float or None, default=None
        Released number of records; None: the public one.
    """

    count: int | None = None
    largest_factor: float = 1.0
    counted: float | None = None

    @property
    def loss(self) -> Loss:
        return self.risk.loss

    @property
    def n_records(self) -> float:
        return self.counted or self.objective.design.n_records

    @property
    def relative_noise(self) -> float:
        design = self.objective.design
        changes = self.objective.neighbouring.n_changes
        return changes * math.sqrt(design.n_features) / (design.n_records * self.level.mu)

    @property
    def target_variance(self) -> float:
        return (self.spread / self.loss.target_bound) ** 2 if self.is_squared else 1.0

    @property
    def n_solves(self) -> int:
        return super().n_solves if self.count is None else self.count

    @property
    def _relative_penalty(self) -> float:
        """Penalty of a solve, in units of the mean curvature of all records.

        Weighted records may have a curvature r times as large in a direction, r up to the largest
        factor: a step with the penalty a is then undone ``r (1 + a) / (r + a)`` times. That is
        kept below a limit, itself below 2, so that no direction overshoots for ever.
        """
        limit, r = 1.0 + rules.OVERSHOOT, self.largest_factor
        usual = super()._relative_penalty
        return usual if r <= limit else min(usual, r * (limit - 1.0) / (r - limit))

    @property
    def mechanism(self) -> AdditiveMechanism:
        if self.sensitivity is not None:
            return super().mechanism
        plain = super().mechanism
        return replace(plain, sensitivity=self.largest_factor * plain.sensitivity)

    @property
    def _least_prior(self) -> float:
        # the factor of log odds is fitted after the last model
        return super()._least_prior if self.is_squared else rules.LEAST_PRIOR

    @property
    def _constant_variance(self) -> np.ndarray:
        """Variance of the constant: weights of groups move it."""
        unit = self.spread if self.is_squared else self.loss.margin_scale
        moved = rules.SHIFT_OF_STAGES * unit * (self.largest_factor - 1.0)
        return super()._constant_variance + moved**2

    def describe(self, name: str) -> Release:
        """Describe the release of all solves."""
        return self.mechanism.describe(
            f"{name}, {self.n_solves} as one",
            self.objective.dimension,
            self.objective.design.n_records,
            f"{THEORY}, Lemma 7",
            self.objective.neighbouring,
        )


@dataclass(frozen=True, kw_only=True)
class WeightedStagesPlan(LooksPlan):
    """Releases of the weighted stages, in their order.

    Attributes
    ----------
    temperature : TemperaturePlan or None
        Of the plain model of log odds, where it is taken after a look at the losses.
    passes : tuple of StagePlan
        After a run: of the models after looks.
    """

    plain: StagePlan
    temperature: TemperaturePlan | None
    passes: tuple[StagePlan, ...] = ()

    @property
    def is_level(self) -> bool:
        return self.plain.is_level

    @property
    def plain_releases(self) -> tuple[Release, ...]:
        solves = self.plain.describe("solutions of the plain model")
        return (*self.plain.preparation.releases, solves)

    @property
    def plain_fit(self) -> tuple[Release, ...]:
        return () if self.temperature is None else (self.temperature.describe(),)

    def model_release(self, k: int) -> Release:
        name = f"weighted solutions after look {k + 1}"
        if self.passes:
            return self.passes[k].describe(name)
        part = self.mu_second * math.sqrt(self.parts[k])
        return replace(self.plain, level=Level(part)).describe(f"{name}, for the weight 1")

    def models(self, data: Records, run: Run) -> SolvedModels:
        return SolvedModels(self, data, run)


@dataclass(frozen=True, kw_only=True)
class SolvedModel(Model):
    """A model from solves, with what was released of it."""

    solved: Solved


class SolvedModels(GroupModels):
    """The plain model and weighted ones, each from solves around the one before it."""

    def __init__(self, plan: WeightedStagesPlan, data: Records, run: Run) -> None:
        plan.objective.design.check(data)
        data.check_targets(plan.loss)
        self._plan, self._run, self._data = plan, run, data.in_double()
        self._prepared = prepared = plan.plain.preparation.prepare(self._data, run.noise)
        self._stage = replace(
            plan.plain,
            spread=prepared.spread,
            curvature=float(prepared.moments.mean()),
            counted=prepared.centering.n_records,
        )
        self._plain_stage, self._passes = self._stage, list[StagePlan]()
        self.rows, self.offsets = prepared.rows, prepared.centering.offsets

    @property
    def first(self) -> StagePlan:
        return self._stage

    def plain(self) -> SolvedModel:
        self._plain_stage, model = self._solved(self._stage)
        return model

    def again(self, plain: Model) -> SolvedModel:
        assert isinstance(plain, SolvedModel)
        stage = replace(self._stage, level=Level(self._plan.mu_plain))
        # from 0: rare directions move by little, and would keep the noise of the first model
        stage, model = self._solved(stage)
        self._passes.append(stage)
        first, second = plain.solved, model.solved
        curvature = second.curvature
        before = first.average.at(curvature)
        mean, variances = combined(*before, second.mean, second.variances)
        constant = stage.constant_model(self.offsets, curvature)
        shrunk = stage.shrunk(mean, variances, curvature, constant)
        weights = curvature.rotated_back(shrunk)
        found = replace(second, weights=weights, mean=mean, variances=variances, shrunk=shrunk)
        model, temperature = _model(self._prepared, found), self._plan.temperature
        shift = 0.0
        if temperature is not None:
            factor, shift = temperature.release(
                self.rows, model.weights, self.offsets, 1.0, self._run.noise
            )
            model = replace(model, weights=factor * model.weights)
        if self.rows.has_intercept:
            kept = self._plan.losses is not None
            model.weights[:, -1] = kept * model.weights[:, -1] + shift / self.rows.constant
        return model

    def weighted(
        self, look: int, weights: np.ndarray, proportions: np.ndarray, before: Model
    ) -> SolvedModel:
        assert isinstance(before, SolvedModel)
        factors = weights / proportions
        largest = float(factors.max())
        is_last = look == self._plan.n_looks - 1
        stage = replace(
            self._stage,
            level=Level(self._plan.mu_weighted).part(self._plan.parts[look]),
            count=rules.LAST_SOLVES if is_last else rules.LOOK_SOLVES,
            largest_factor=largest,
        )
        stage, model = self._solved(stage, before, factors)
        self._passes.append(stage)
        return model

    def _solved(
        self,
        stage: StagePlan,
        before: SolvedModel | None = None,
        factors: np.ndarray | None = None,
    ) -> tuple[StagePlan, SolvedModel]:
        """Solve from a model; return the stage with what follows from releases."""
        if stage.loss.has_odds:
            stage = replace(stage, odds=tuple(self.offsets.tolist()))
        solved = stage.solved(
            self._data,
            self._prepared,
            self._run,
            offsets=self.offsets,
            start=None if before is None else before.solved.weights,
            factors=factors,
        )
        return replace(stage, sensitivity=solved.sensitivity), _model(self._prepared, solved)

    def coefficients(
        self, weights: np.ndarray, offsets: np.ndarray, intercept: float
    ) -> np.ndarray:
        prepared = self._prepared
        weights, offsets = penalised_rows(
            self._plan.objective, self.rows, weights, offsets, prepared.spectrum, prepared.spread
        )
        return self.rows.coefficients(weights, offsets, intercept)

    def done(self) -> WeightedStagesPlan:
        return replace(self._plan, plain=self._plain_stage, passes=tuple(self._passes))


def _model(prepared: Preparation, solved: Solved) -> SolvedModel:
    """Turn weights of prepared rows into those of centered ones."""
    return SolvedModel(weights=prepared.centered_weights(solved.weights), solved=solved)


def covers_stages(objective: GroupObjective, budget: PrivacyBudget) -> bool:
    """Whether the stages are proven for an objective, and were not behind the saddle problem.

    Losses of numbers that are linear far away are: where groups conflict most slopes are the
    largest ones, and solves hardly move.
    """
    loss = objective.risk.loss
    is_near = not loss.target_bound or loss.is_quadratic
    is_covered = covers_prepared(objective, budget) and not budget.is_pure
    return is_near and is_covered and not objective.weights.clipped


def plan_weighted_stages(
    objective: GroupObjective, budget: PrivacyBudget
) -> PlainModelPlan | WeightedStagesPlan:
    """Choose the parts of the budget from public numbers.

    Parameters
    ----------
    objective : GroupObjective
        That :func:`covers_stages`. Its penalty enters after the releases.
    budget : PrivacyBudget
        With delta > 0.

    Returns
    -------
    PlainModelPlan or WeightedStagesPlan
        That of the plain model alone if there is one group, or where noise would hide the groups'
        losses.
    """
    check_public_groups(objective)
    whole = plan_prepared_output(objective, budget)
    design, mu = objective.design, whole.total.mu
    error = objective.neighbouring.n_changes * math.sqrt(design.n_features)
    error /= design.n_records * whole.level.mu
    spread = error * math.sqrt(design.n_features)
    if objective.weights.n_groups == 1 or spread >= rules.LARGEST_ERROR:
        plain_model = replace(whole, is_balanced=are_odds_of_classes(objective))
        return PlainModelPlan(objective=objective, plain=plain_model)
    shares = plan_shares(objective, mu, spread)
    rest = mu * math.sqrt(1.0 - shares.reserved)
    given = whole.risk.loss, design, objective.neighbouring, Level(rest)
    preparation = plan_preparation(*given, needs_moments(objective))
    mu_models = rest * math.sqrt(1.0 - preparation.share)
    fields = {
        **vars(whole),
        "preparation": preparation,
        "level": Level(mu_models).part(rules.PLAIN_SHARE),
        "temperature": None,
    }
    plain = StagePlan(**fields)
    temperature, loss = None, plain.loss
    noise = objective.neighbouring.n_changes / (mu * design.n_records)
    share = 0.0 if are_odds_of_classes(objective) else temperature_share(loss, noise)
    share = min(shares.scale, share)
    if share:
        temperature = plan_temperature(loss, design, objective.neighbouring, mu * math.sqrt(share))
    return WeightedStagesPlan(
        objective=objective,
        plain=plain,
        temperature=temperature,
        price=rules.NOISE_PRICE * error**2 * math.sqrt(design.n_features),
        **plan_looks(objective, plain, mu, shares, mu_models, share, rules.LINE_SHARE),
    )

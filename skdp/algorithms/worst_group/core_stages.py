"""Models of the core for the worst group: a plain one, then others for measured losses of groups.

Means are released once, and a plain model is that of noisy steps with a part of the budget. Noisy
losses of the groups under it decide how the groups are weighed. The next model goes on from the one
before it, with factors of the groups' gradients, and its noise follows the largest factor in use.
Measurements and models alternate. Last, scale and shift of the margins are fitted to the worst
group. Every number of the plan is a function of public numbers or of earlier releases.
Theory: docs/theory/worst_group.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from skdp._runtime import spare_processors, without_warnings
from skdp.algorithms.core.fit import plan_core
from skdp.algorithms.core.forecast import Found
from skdp.algorithms.core.noisy_sums import Level, NoisySum
from skdp.algorithms.core.penalty import penalised_rows
from skdp.algorithms.core.plan import inputs_of
from skdp.algorithms.core.post import base_at, root_of
from skdp.algorithms.core.steps import Path
from skdp.algorithms.plan import Run
from skdp.algorithms.worst_group import rules
from skdp.algorithms.worst_group.group_losses import (
    ClippedLossTerms,
    GroupTotals,
    clipped_losses,
    has_shift,
    loss_range,
    loss_sensitivity,
)
from skdp.algorithms.worst_group.group_plan import (
    GroupPlan,
    GroupResult,
    GroupSizes,
    noisy_sizes,
    positive_shares,
)
from skdp.algorithms.worst_group.group_weights import (
    prefers_plain,
    shrunk_losses,
    worst_case_weights,
)
from skdp.algorithms.worst_group.margin_fits import MixFit, ScaleFit
from skdp.algorithms.worst_group.plain_models import (
    BalancedPlan,
    PlainModelPlan,
    StepsPlan,
    relative_noise,
)
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.report import Release
from skdp.problems import EmpiricalRisk, Loss, Records
from skdp.problems.group_objective import GroupObjective
from skdp.problems.rounding import two_margins

#: Where the proofs are.
THEORY = "docs/theory/worst_group.md"


@dataclass(frozen=True, kw_only=True)
class CoreStagesPlan(GroupPlan):
    """Releases of the worst-group method, in their order."""

    #: Of the plain model; after a run with what was released before it.
    plain: StepsPlan
    #: Of the losses of the groups, each followed by a model for other weights.
    n_measurements: int
    #: Of the Gaussian differential privacy of all weighted models.
    mu_weighted: float
    #: The same of the second plain model, where it is taken.
    mu_plain: float
    losses: NoisySum
    #: For scale and shift of the margins, of losses with odds; of others for the step from the
    #: plain model to the last one.
    last: NoisySum
    #: Of noise, by the square of the largest weight.
    price: float
    #: Of unequal weights, at first.
    spread_price: float
    #: After a run: of the groups' losses, in the last model.
    weights: tuple[float, ...] | None = None
    #: After a run: of the models after measurements.
    passes: tuple[StepsPlan, ...] = ()
    weighs_groups = True

    @property
    def parts(self) -> tuple[float, ...]:
        """Parts of the weighted models in their budget: half of it is for the last one."""
        k = self.n_measurements - 1
        return (*[0.5 / k] * k, 0.5) if k else (1.0,)

    @property
    def risk(self) -> EmpiricalRisk:
        return self.plain.risk

    @property
    def loss(self) -> Loss:
        return self.plain.loss

    def stage(self, k: int) -> StepsPlan:
        """Return the plan of the steps after a measurement, for the weight 1."""
        level, n_solves = self.mu_second * math.sqrt(self.parts[k]), self.plain.n_solves
        if n_solves is not None and k < self.n_measurements - 1:
            n_solves = rules.EARLY_SOLVES
        return replace(self.plain, level=level, n_solves=n_solves)

    @property
    def releases(self) -> tuple[Release, ...]:
        parts = [*self.plain.releases]
        if self.sizes is not None:
            parts.append(self.sizes.describe())
        for k in range(self.n_measurements):
            parts.append(self.losses.describe())
            stage = self.passes[k] if self.passes else self.stage(k)
            parts.append(stage.release_of_steps(is_weighted=True))
        if self.is_plain:
            parts += self.plain.releases_of_size
        else:
            parts += [self.last.describe()] * (rules.SCALE_ROUNDS if self.loss.has_odds else 1)
        return tuple(parts)

    @property
    def is_plain(self) -> bool:
        """Whether the plain model was taken."""
        return self.n_measurements == 1 and self.weights == self.proportions is not None

    @property
    def mu_second(self) -> float:
        """Mu of all models after the first one."""
        return self.mu_plain if self.is_plain else self.mu_weighted

    def alarms(self) -> tuple[str, ...]:
        return self.plain.alarms()

    def found_alarms(self) -> tuple[str, ...]:
        return self.plain.found_alarms()

    def remarks(self) -> tuple[str, ...]:
        error = clipped_losses(self.plain).factor * self.losses.sensitivity
        error /= self.losses.mu * self.objective.design.n_records
        remarks = (
            *self.plain.remarks(),
            f"losses of the groups have noise of standard deviation {error:.2g} over the share of "
            f"the group, in each of {self.n_measurements} measurements",
        )
        if not self.is_plain:
            return remarks
        return (*remarks, "the worst group is a large one: the plain model was taken")

    def to_dict(self) -> dict[str, Any]:
        numbers: dict[str, Any] = {
            "mu_weighted": self.mu_second,
            "n_measurements": self.n_measurements,
        }
        if self.weights is not None:
            numbers["group_weights"] = list(self.weights)
        return {**self.plain.to_dict(), **numbers}

    def run(self, data: Records, run: Run) -> GroupResult:
        if data.in_memory:  # else they are encoded where they are read
            self.objective.weights.check_groups(data.groups)
        with without_warnings(), spare_processors(data.is_sparse and data.in_memory):
            return StagesFit(self, data, run).result()


class StagesFit:
    """The models of one run, released one after the other."""

    def __init__(self, plan: CoreStagesPlan, data: Records, run: Run) -> None:
        self.plan, self.run, self.noise, self.intercept = plan, run, run.noise, data.intercept
        self.passes: list[StepsPlan] = []
        self.rows, self.found = plan.plain.prepare(data, run.noise)
        self.spectrum = plan.plain.spectrum(self.rows, run)[0]
        #: Of the plain model, with what was released.
        self.plain = replace(plan.plain, found=self.found)
        #: Margins of a constant model, which those of the models are added to.
        self.offsets = self.rows.centering.offsets
        mu = math.hypot(plan.plain.level, plan.mu_weighted)
        #: Steps as one descent with the budget of all would take them.
        self.whole: Path = replace(plan.plain, level=mu).planned(self.found.means).steps

    def result(self) -> GroupResult:
        """Release all models; return the last one."""
        plan = self.plan
        name = "noisy steps of the plain model"
        raw = self.plain.stepped(self.rows, self.found, self.run, name)
        before = model = self._sized(raw, self.found)
        p = self.proportions()
        best, price, excess = p, plan.spread_price, np.zeros(len(p))
        for k in range(plan.n_measurements):
            losses = self.losses(model, p)
            # smaller steps where the last one went too far
            former, excess = excess, losses - best @ losses
            is_far = (best * former) @ excess < 0.0
            price *= rules.TOO_FAR if is_far else rules.NOT_FAR if k else 1.0
            best = worst_case_weights(
                losses,
                p,
                noise_price=plan.price,
                spread_price=price,
                center=best,
                # of one measurement: no other one would find that the step went too far
                ceiling=rules.CEILING if plan.n_measurements == 1 else 1.0,
            )
            floor = rules.FLOOR / plan.n_measurements
            weights = floor * p + (1.0 - floor) * best
            is_plain = plan.n_measurements == 1 and prefers_plain(
                losses if plan.loss.has_odds else None, weights, p
            )
            if is_plain:
                weights, model = p, self.second_plain_model(raw)
            else:
                model = self.weighted_model(k, weights, p, model)
        offsets = self.offsets
        if not is_plain:
            # several measurements have found the weights; after one the largest loss may be off
            has_mix = plan.n_measurements == 1
            model, offsets = self.fitted(model, before if has_mix else None, p)
        if plan.objective.is_penalised:
            model, offsets, _ = penalised_rows(
                self.plain.objective,
                self.rows,
                model,
                offsets,
                self.spectrum,
                self.found.scale,
            )
        done = replace(
            plan,
            plain=self.plain,
            passes=tuple(self.passes),
            proportions=tuple(p.tolist()),
            weights=tuple(weights.tolist()),
        )
        point = self.rows.coefficients(model, offsets, self.intercept)
        return done.result(point, weights, tuple((weights / p).tolist()))

    def second_plain_model(self, first: np.ndarray) -> np.ndarray:
        """Release other plain steps, size and shift; return the average of both."""
        stage = replace(self.plain, level=self.plan.mu_plain)
        found = stage.planned(self.found.means)
        self.passes.append(replace(stage, found=found))
        name = "noisy steps after measurement 1 of 1"
        second = stage.stepped(self.rows, found, self.run, name)
        # two independent estimates of the plain model are averaged
        variances = self.found.steps.variance, found.steps.variance
        raw, variance = combined(first, variances[0], second, variances[1])
        return self._sized(raw, replace(found, steps=self._with(variance)), True)

    def weighted_model(
        self, k: int, weights: np.ndarray, proportions: np.ndarray, before: np.ndarray
    ) -> np.ndarray:
        """Release a model for weights of the groups, from the one before it."""
        factors = weights / proportions
        stage = self.plan.stage(k)
        found = stage.planned(self.found.means, float(factors.max()))
        self.passes.append(replace(stage, found=found))
        name = f"noisy steps after measurement {k + 1} of {self.plan.n_measurements}"
        scale, d = found.scale, stage.objective.design.n_features
        raw = stage.stepped(self.rows, found, self.run, name, before / scale, factors, self.offsets)
        steps = self._with(found.steps.variance)
        rows, _, theta = stage.sized(self.rows, replace(found, steps=steps), raw)
        rows *= theta.theta[0]
        rows[:, d:] = raw[:, d:]
        return scale * rows

    def _with(self, variance: float) -> Path:
        """Return the steps of the whole budget with another noise."""
        noise = math.sqrt(variance / self.whole.variance)
        return replace(self.whole, unit=self.whole.unit * noise)

    def _sized(self, raw: np.ndarray, found: Found, is_last: bool = False) -> np.ndarray:
        """Return the plain model of raw weights; the last one with size and shift released."""
        first, rows, d = self.plain, self.rows, self.plain.objective.design.n_features
        weights, size, theta = first.sized(rows, found, raw, self.run if is_last else None)
        base = np.zeros(len(raw))
        if is_last:
            theta, base, _ = first.corrected(rows, found, weights, theta, self.run)
        elif rows.has_intercept:
            root, factor = root_of(weights[:, :d]), float(theta.theta[0])
            base, _ = base_at(found.balance, factor, root, found.start)
        scaled, offsets = first.margins(rows, found, weights, theta, base)
        self.plain = replace(first, found=replace(self.found, size=size, theta=theta))
        if rows.has_intercept:
            scaled[:, d] = (offsets - rows.centering.offsets) / rows.constant
        return scaled

    def proportions(self) -> np.ndarray:
        """Return the groups' proportions, public or released; positive, of sum 1."""
        least, sizes = rules.LEAST_PROPORTION, self.plan.sizes
        if sizes is None:
            shares = np.array(self.plan.proportions)
        else:
            n = self.plain.n_records
            exact = self.rows.full_total(GroupSizes(sizes.n_entries))
            counts, scale = sizes.release(exact, self.noise)
            shares, least = counts / n, max(least, 2.0 * scale / n)
        return positive_shares(shares, least)

    def losses(self, model: np.ndarray, proportions: np.ndarray) -> np.ndarray:
        """Release the groups' losses under a released model, and shrink them."""
        clipped, sums = clipped_losses(self.plain), self.plan.losses
        terms = ClippedLossTerms(
            loss=self.plan.loss,
            clipped=clipped,
            weights=self.rows.weights(model),
            shift=self.offsets.squeeze(),
        )
        n = self.plain.n_records
        moved = clipped.moved(self.margin_rounding(model, self.offsets))
        exact = self.rows.full_total(GroupTotals(len(proportions), terms))
        noisy, scale = sums.release(exact, self.noise, moved)
        sizes = n * proportions
        losses, errors = clipped.losses(noisy[:, 0] / sizes), clipped.factor * scale / sizes
        return shrunk_losses(losses, errors, proportions, n)

    def margin_rounding(self, weights: np.ndarray, offsets: np.ndarray) -> float:
        """Bound what margins change by when records are elsewhere in the table."""
        size = self.rows.norm_bound * float(np.linalg.norm(weights))
        size += float(np.linalg.norm(offsets))
        return two_margins(self.plan.objective.design.n_features, size)

    def fitted(
        self,
        model: np.ndarray,
        before: np.ndarray | None,
        proportions: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Fit scale, shift (of one margin) and the mix with the model before to the worst group."""
        plan, rows, offsets = self.plan, self.rows, self.offsets
        if not plan.loss.has_odds:
            ends = np.zeros_like(model) if before is None else before, model
            moved = max(self.margin_rounding(end, offsets) for end in ends)
            line = MixFit(self.plain, rows, ends, offsets)
            return line.release(rows, plan.last, proportions, self.noise, moved)
        direction = None if before is None else model - before
        fit = ScaleFit(self.plain, rows, model, offsets, proportions, direction)
        moved = self.margin_rounding(model, offsets)
        if direction is not None:
            moved += self.margin_rounding(direction, np.zeros_like(offsets))
        theta = fit.released(rows, plan.last, rules.SCALE_ROUNDS, self.noise, moved)
        model = (1.0 + theta[0] / fit.unit) * model
        if direction is not None:
            model = model + theta[-1] / fit.units[1] * direction
        return model, offsets + (theta[1] if fit.has_shift else 0.0)


def combined(
    first: np.ndarray, first_variance: Any, second: np.ndarray, second_variance: Any
) -> tuple[np.ndarray, Any]:
    """Average two independent estimates by their variances; return the variance, too."""
    share = first_variance / (first_variance + second_variance)
    return first + share * (second - first), share * second_variance


def _shares(objective: GroupObjective, mu: float) -> tuple[float, float, float]:
    """Choose the parts of the squared mu for sizes, losses and the last fit."""
    noise = objective.neighbouring.n_changes / (mu * objective.design.n_records)
    sizes, losses, last = (
        min(max((factor * noise) ** 2, least), largest)
        for least, largest, factor in (rules.SIZES, rules.LOSSES, rules.SCALE)
    )
    if objective.proportions is not None:
        sizes = 0.0
    fraction = min(1.0, (rules.ALL_SHARES - sizes) / (losses + last))
    return sizes, fraction * losses, fraction * last


def plan_core_stages(
    objective: GroupObjective, budget: PrivacyBudget, is_solved: bool = False
) -> PlainModelPlan | CoreStagesPlan:
    """Choose the parts of the budget, with delta > 0, from public numbers.

    The plain model has all of it where there is one group, where the groups are the classes, and
    where noise would hide the groups' losses. A penalty enters after the releases.
    """
    objective.check_relation()
    relation, n_groups = objective.neighbouring, objective.weights.n_groups
    whole = plan_core(objective, budget, is_solved)
    mu, loss, has_odds = whole.mu, whole.loss, whole.loss.has_odds
    error, d = relative_noise(whole), objective.design.n_features
    spread = error * math.sqrt(d)
    if objective.are_classes and has_odds:
        return BalancedPlan(**inputs_of(whole))
    if n_groups == 1 or spread >= rules.LARGEST_ERROR:
        return PlainModelPlan(**inputs_of(whole))
    number = int(min(math.sqrt(rules.ONE_MEASUREMENT / spread), rules.MOST_MEASUREMENTS))
    n_measurements = 1 if number < rules.LEAST_MEASUREMENTS else number
    spread_price = rules.SPREAD_PRICE
    if has_odds and n_measurements == 1:
        spread_price = min(max(rules.PRICE_OF_ERROR * spread, rules.LEAST_PRICE), spread_price)
    of_sizes, of_losses, of_fit = shares = _shares(objective, mu)
    rest = mu * math.sqrt(1.0 - whole.share - whole.shares.moments - sum(shares))
    level, last = rest * math.sqrt(rules.PLAIN_SHARE), mu * math.sqrt(of_fit)
    plain = StepsPlan(**inputs_of(whole), level=level, last=last)
    weighted = rest * math.sqrt(1.0 - rules.PLAIN_SHARE)
    # of the last fit by size and shift of the plain model, where that is taken
    left = mu * math.sqrt(max(of_fit - plain.shares.size, 0.0))
    sizes, in_groups = None, partial(NoisySum, design=objective.design, neighbouring=relation)
    if of_sizes:
        part = Level(mu * math.sqrt(of_sizes))
        sizes = noisy_sizes(objective, part, n_groups, f"{THEORY}, Lemma 3")
    losses = in_groups(
        mu=mu * math.sqrt(of_losses / n_measurements),
        sensitivity=loss_sensitivity(loss, relation.is_replaced),
        size=loss_range(loss)[1],
        n_entries=n_groups,
        name="losses of the groups",
        reference=f"{THEORY}, Lemma 2",
    )
    shift, lemma, n_rounds = has_shift(plain), 6, 1
    n_entries, what = (3, 5)[shift], "losses of the groups between two models"
    if has_odds:
        lemma, n_rounds = 4, rules.SCALE_ROUNDS
        n_entries = (3, 6, 10)[shift + (n_measurements == 1)]
        what = "derivatives of the groups' losses in scale, shift and mix"
    return CoreStagesPlan(
        objective=objective,
        plain=plain,
        n_measurements=n_measurements,
        mu_weighted=weighted,
        mu_plain=math.hypot(weighted, left),
        price=rules.NOISE_PRICE * error**2 * math.sqrt(d),
        spread_price=spread_price,
        proportions=objective.proportions,
        sizes=sizes,
        losses=losses,
        last=in_groups(
            mu=mu * math.sqrt(of_fit / n_rounds),
            sensitivity=relation.n_changes,
            size=1.0,
            n_entries=n_groups * n_entries,
            name=what,
            reference=f"{THEORY}, Lemma {lemma}",
        ),
    )

"""Planned noisy descent for the worst group: the plain model first, then what its losses call for.

The plain model is that of :mod:`skdp.algorithms.noisy_gradient_descent`, with a part of the
budget. Noisy losses of the groups under it decide how the groups are weighed. A second descent
goes on from the plain model with these weights, and its noise follows the largest weight in use.
Last, scale and shift of the margins are fitted to the worst group. Every number of the plan is a
function of public numbers or of earlier releases. Theory: docs/theory/worst_group.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from skdp.algorithms.centering import CenteredRows, sum_rounding
from skdp.algorithms.max_group_loss import GroupObjective
from skdp.algorithms.noisy_gradient_descent import (
    NoisyGradientDescentPlan,
    plan_noisy_gradient_descent,
)
from skdp.algorithms.plan import Plan, Result, Run
from skdp.algorithms.temperature import TemperaturePlan, plan_temperature
from skdp.algorithms.worst_group_weights import minimax_step, shrunk_losses, worst_case_weights
from skdp.mechanisms import GaussianMechanism, NoiseSource
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import Neighbouring
from skdp.privacy.gaussian_dp import gaussian_mu
from skdp.privacy.report import Release
from skdp.problems import ROUNDING_SLACK, EmpiricalRisk, LogisticLoss, Loss, Records, SoftmaxLoss
from skdp.problems.records import Block
from skdp.problems.rounding import EPS
from skdp.problems.silence import without_warnings

#: Parts of the squared mu: least, largest, and root over the noise of a mean of one number.
_SIZES, _LOSSES, _SCALE = (0.003, 0.04, 600.0), (0.005, 0.06, 2000.0), (0.01, 0.12, 3000.0)
#: Part of the steps' budget that the plain model gets.
_PLAIN = 0.25
#: Releases of the fit of the scale.
_ROUNDS = 3
#: Least proportion that is taken into account.
_LEAST_PROPORTION = 0.001
#: Least weight of a group in units of its proportion.
_FLOOR = 0.25
#: Largest weight of a record below which the plain model is taken: the worst group is a large one.
_LEAST_FACTOR = 1.6
#: Price of unequal weights; see docs/theory/worst_group.md.
_SPREAD_PRICE = 0.06
#: Error of all weights, relative to the norm of rows, above which groups are not looked at.
_LARGEST_ERROR = 0.1
_THEORY = "docs/theory/worst_group.md"


@dataclass(frozen=True)
class GroupSums:
    """A release of sums over the records of each group, on a public number of records.

    Attributes
    ----------
    plan : NoisyGradientDescentPlan
    n_groups : int
    mu : float
        Of the Gaussian differential privacy of the release.
    sensitivity : float
        Without rounding.
    size : float
        Bound on the norm of a record's term.
    name, lemma : str
    n_entries : int, default=1
        Of a record's term.
    """

    plan: NoisyGradientDescentPlan
    n_groups: int
    mu: float
    sensitivity: float
    size: float
    name: str
    lemma: str
    n_entries: int = 1

    def mechanism(self, moved: float = 0.0) -> GaussianMechanism:
        """Return the noise; `moved` bounds the rounding of a term whose record changes places."""
        design = self.plan.objective.design
        bound = self.sensitivity * ROUNDING_SLACK + sum_rounding(design, self.size)
        if self.plan.objective.neighbouring is Neighbouring.ADD_REMOVE:
            bound += design.n_records * design.size_ratio * moved
        return GaussianMechanism(bound, 1.0 / self.mu)

    def describe(self) -> Release:
        """Describe the release."""
        objective = self.plan.objective
        return self.mechanism().describe(
            self.name,
            self.n_groups * self.n_entries,
            objective.design.n_records,
            f"{_THEORY}, {self.lemma}",
            objective.neighbouring,
        )

    def release(
        self, rows: CenteredRows, terms: Any, noise: NoiseSource, moved: float = 0.0
    ) -> tuple[np.ndarray, float]:
        """Release the sums of ``terms(block)``, shape (n_entries, m), and their noise.

        Returns
        -------
        ndarray of shape (n_groups, n_entries)
        float
        """

        def part(block: Block, _: np.ndarray) -> np.ndarray:
            return np.stack(
                [
                    np.bincount(block.groups, weights=entry, minlength=self.n_groups)
                    for entry in terms(block)
                ],
                axis=1,
            )

        mechanism = self.mechanism(moved)
        exact = rows.full_total(part)
        noisy = mechanism.release(exact.ravel(), noise).reshape(exact.shape)
        return np.nan_to_num(noisy), mechanism.noise_scale


@dataclass(frozen=True)
class NoisyDescentAscentPlan(Plan):
    """Releases of the worst-group method, in their order.

    Attributes
    ----------
    objective : GroupObjective
    plain : NoisyGradientDescentPlan
        Of the first descent.
    mu_weighted : float
        Of the Gaussian differential privacy of the second descent.
    damping_weighted : float
        Of its number of steps, as in the plan of the first one.
    sizes : GroupSums or None
        None where proportions are public.
    losses : GroupSums
    scale : GroupSums or None
        None where the scale of the margins is not fitted.
    n_rounds : int
        Releases of the fit of the scale.
    temperature : TemperaturePlan or None
        In place of that fit, for the same budget, where the plain model is taken.
    price : float
        Of noise, by the square of the largest weight.
    proportions : tuple of float or None
        Public or, after a run, released.
    weights : tuple of float or None
        After a run: of the groups' losses, in the second descent.
    """

    objective: GroupObjective
    plain: NoisyGradientDescentPlan
    mu_weighted: float
    damping_weighted: float
    sizes: GroupSums | None
    losses: GroupSums
    scale: GroupSums | None
    n_rounds: int
    temperature: TemperaturePlan | None
    price: float
    proportions: tuple[float, ...] | None
    weights: tuple[float, ...] | None = None
    weighted: NoisyGradientDescentPlan | None = field(default=None)

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
        objective = self.objective
        second = GaussianMechanism(
            self.plain.sensitivity * ROUNDING_SLACK, 1.0 / self.mu_weighted
        ).describe(
            "weighted sums of clipped gradients, all steps as one, for the weight 1",
            objective.dimension,
            objective.design.n_records,
            f"{_THEORY}, Lemma 1",
            objective.neighbouring,
        )
        parts = [*self.plain.releases]
        if self.sizes is not None:
            parts.append(self.sizes.describe())
        parts += [self.losses.describe(), second]
        if self.temperature is not None and self.weights == self.proportions is not None:
            parts.append(self.temperature.describe(objective.neighbouring))
        elif self.scale is not None:
            parts += [self.scale.describe()] * self.n_rounds
        return tuple(parts)

    def alarms(self) -> tuple[str, ...]:
        return self.plain.alarms()

    def to_dict(self) -> dict[str, Any]:
        numbers = {f"plain_{key}": value for key, value in self.plain.to_dict().items()}
        return {"alpha": self.alpha, **numbers, "mu_weighted": self.mu_weighted}

    def run(self, data: Records, run: Run) -> Result:
        self.objective.weights.check_groups(data.groups)
        with without_warnings():
            noise = run.noise
            descent = self.plain.prepare(data, noise)
            rows, offsets = descent.rows, descent.offsets
            plain = descent.weights(noise)
            proportions = self._proportions(rows, noise)
            noise_plain = descent.plan.noise_variance()
            shrinkage = self._shrinkage(plain, noise_plain)
            weights = self._group_weights(rows, shrinkage * plain, offsets, proportions, noise)
            factors = weights / proportions
            second = replace(descent, plan=self._weighted_plan(descent.plan, float(factors.max())))
            is_plain = bool((weights == proportions).all())
            # two independent estimates of the plain model are averaged
            point = second.weights(noise, None if is_plain else plain, factors)
            variance = second.plan.noise_variance()
            if is_plain:
                share = noise_plain / (noise_plain + variance)
                point = plain + share * (point - plain)
                variance = share**2 * variance + (1.0 - share) ** 2 * noise_plain
            shrinkage = self._shrinkage(point, variance)
            if is_plain and self.temperature is not None:
                shrinkage, shift = self.temperature.release(rows, point, offsets, shrinkage, noise)
                point, offsets = shrinkage * point, offsets + shift
            else:
                point, offsets = self._rescaled(rows, point, offsets, shrinkage, proportions, noise)
            done = replace(
                self,
                plain=descent.plan,
                weighted=second.plan,
                proportions=tuple(proportions.tolist()),
                weights=tuple(weights.tolist()),
            )
            return Result(rows.coefficients(point, offsets, data.intercept), done)

    def _proportions(self, rows: CenteredRows, noise: NoiseSource) -> np.ndarray:
        """Return the groups' proportions, public or released; positive, of sum 1."""
        least = _LEAST_PROPORTION
        if self.sizes is None:
            shares = np.array(self.proportions)
        else:
            n = self.objective.design.n_records
            counts, scale = self.sizes.release(
                rows, lambda block: [np.ones(len(block.targets))], noise
            )
            shares, least = counts[:, 0] / n, max(least, 2.0 * scale / n)
        shares = np.maximum(shares, least)
        return np.asarray(shares / shares.sum())

    def _shrinkage(self, weights: np.ndarray, variance: float) -> float:
        square = float((weights**2).sum())
        return self.plain.shrinkage(square, weights.size, variance)

    def _group_weights(
        self,
        rows: CenteredRows,
        weights: np.ndarray,
        offsets: np.ndarray,
        proportions: np.ndarray,
        noise: NoiseSource,
    ) -> np.ndarray:
        """Choose weights of the groups by their noisy losses under released weights."""
        raw, shift, loss = rows.weights(weights), offsets.squeeze(), self.loss
        centre, largest = _loss_range(loss)

        def terms(block: Block) -> list[np.ndarray]:
            values = loss.value(block.margins(raw) + shift, block.targets)
            return [np.minimum(values, largest) - centre]

        n = self.objective.design.n_records
        moved = 2.0 * self._margin_rounding(rows, weights, offsets) + 16.0 * EPS * largest
        sums, scale = self.losses.release(rows, terms, noise, moved)
        sizes = n * proportions
        means = shrunk_losses(centre + sums[:, 0] / sizes, scale / sizes, proportions, n)
        best = worst_case_weights(
            means,
            proportions,
            noise_price=self.price,
            spread_price=_SPREAD_PRICE,
            largest=self.objective.weight_limit,
        )
        chosen = _FLOOR * proportions + (1.0 - _FLOOR) * best
        is_worth = (chosen / proportions).max() >= _LEAST_FACTOR
        return np.asarray(chosen if is_worth else proportions)

    def _margin_rounding(
        self, rows: CenteredRows, weights: np.ndarray, offsets: np.ndarray
    ) -> float:
        """Bound what margins change by when records change their positions."""
        d = self.objective.design.n_features
        size = rows.norm_bound * float(np.linalg.norm(weights)) + float(np.linalg.norm(offsets))
        return 2.0 * (d + 8) * EPS * size

    def _weighted_plan(
        self, plan: NoisyGradientDescentPlan, largest: float
    ) -> NoisyGradientDescentPlan:
        """Plan the second descent for the largest factor of a group's gradients.

        Second moments of weighted rows are up to that factor larger.
        """
        return replace(
            plan,
            mu=self.mu_weighted,
            damping=self.damping_weighted,
            largest_factor=largest,
            rate=plan.rate / largest,
            slowness=plan.slowness * largest,
        )

    def _rescaled(
        self,
        rows: CenteredRows,
        weights: np.ndarray,
        offsets: np.ndarray,
        shrinkage: float,
        proportions: np.ndarray,
        noise: NoiseSource,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Fit scale and (for two classes) shift of the margins to the group that is worst then."""
        if self.scale is None:
            return shrinkage * weights, offsets
        fit = ScaleFit(self.plain, rows, weights, offsets, proportions)
        theta = np.zeros(fit.n_parameters)
        for _ in range(self.n_rounds):
            derivatives, scale = self.scale.release(
                rows,
                lambda block: fit.terms(block, shrinkage, theta),  # noqa: B023
                noise,
                self._margin_rounding(rows, weights, offsets) * fit.amplification(shrinkage, theta),
            )
            theta = theta + fit.step(derivatives, scale, shrinkage, theta)
            if not np.isfinite(theta).all():
                theta = np.zeros(fit.n_parameters)
            change = theta[0] / fit.unit
            theta[0] = fit.unit * min(max(change, -0.75 * shrinkage), 0.6)
        shift = theta[1] if fit.has_shift else 0.0
        return (shrinkage + theta[0] / fit.unit) * weights, offsets + shift


class ScaleFit:
    """Derivatives of the groups' losses in scale and shift of the margins.

    Parameters
    ----------
    plan : NoisyGradientDescentPlan
    rows : CenteredRows
    weights : ndarray of shape (n_outputs, width)
    offsets : ndarray of shape (n_outputs,)
    proportions : ndarray of shape (n_groups,)
    """

    def __init__(
        self,
        plan: NoisyGradientDescentPlan,
        rows: CenteredRows,
        weights: np.ndarray,
        offsets: np.ndarray,
        proportions: np.ndarray,
    ) -> None:
        norm, design = float(np.linalg.norm(weights)), plan.objective.design
        self.plan, self.proportions = plan, proportions
        self.sizes = design.n_records * proportions
        self.unit = max(3.0, 2.0 * norm / math.sqrt(design.n_features))
        self.has_shift = has_shift(plan)
        self.n_parameters = 1 + self.has_shift
        self.bound = rows.norm_bound * norm
        self.raw, self.shift = rows.weights(weights), offsets.squeeze()

    def amplification(self, shrinkage: float, theta: np.ndarray) -> float:
        """Bound what a term moves by, per rounding of a margin."""
        largest = 1.0 + shrinkage + float(np.abs(theta).sum())
        return 2.0 * largest * (1.0 + self.bound / self.unit) ** 2

    def terms(self, block: Block, shrinkage: float, theta: np.ndarray) -> np.ndarray:
        """Return terms of norm 1 at most: half of the loss, its gradient and its Hessian."""
        loss = self.plan.loss
        centre, largest = _loss_range(loss)
        scores = block.margins(self.raw)
        margins = (shrinkage + theta[0] / self.unit) * scores + self.shift
        if self.has_shift:
            margins = margins + theta[1]
        values = np.minimum(loss.value(margins, block.targets), largest) - centre
        scores = scores / self.unit
        if isinstance(loss, SoftmaxLoss):
            classes, p = scores @ loss.basis.T, loss.probabilities(margins)
            mean = np.einsum("ij,ij->i", p, classes)
            own = np.take_along_axis(classes, block.targets[:, None], axis=1)[:, 0]
            spread = np.einsum("ij,ij,ij->i", p, classes, classes) - mean**2
            columns = [0.5 * values, mean - own, spread]
        else:
            residuals = loss.derivative(margins, block.targets)
            h = loss.second_derivative(margins, block.targets)
            columns = [0.5 * values, residuals * scores, h * scores**2]
            if self.has_shift:
                columns = [
                    columns[0],
                    columns[1],
                    residuals,
                    columns[2],
                    math.sqrt(2.0) * h * scores,
                    h,
                ]
        vectors = np.stack(columns)
        lengths = np.sqrt(np.einsum("ij,ij->j", vectors, vectors))
        return np.asarray(vectors / np.maximum(lengths, 1.0))

    def step(
        self, sums: np.ndarray, scale: float, shrinkage: float, theta: np.ndarray
    ) -> np.ndarray:
        """Return the change of the parameters by noisy sums of the terms, for each group."""
        p, k = self.proportions, self.n_parameters
        means, errors = sums / self.sizes[:, None], scale / self.sizes
        sampling = 1.0 / self.sizes

        def shrunk(values: np.ndarray, spread: float, variances: np.ndarray) -> np.ndarray:
            mean = p @ values
            gain = spread**2 / (spread**2 + variances)
            return np.asarray(mean + gain[:, None] * (values - mean))

        centre, _ = _loss_range(self.plan.loss)
        losses = centre + 2.0 * shrunk(means[:, :1], 0.15, errors**2 + 0.075 * sampling)[:, 0]
        variances = errors**2 + 0.1 * sampling
        gradients = shrunk(means[:, 1 : 1 + k], 0.2, variances)
        entries = shrunk(means[:, 1 + k :], 0.05, errors**2)
        if k == 2:
            cross = entries[:, 1] / math.sqrt(2.0)
            hessians = np.stack(
                [np.stack([entries[:, 0], cross], 1), np.stack([cross, entries[:, 2]], 1)], 1
            )
            values, vectors = np.linalg.eigh(hessians)
            hessians = np.einsum("gij,gj,gkj->gik", vectors, np.maximum(values, 0.01), vectors)
        else:
            hessians = np.maximum(entries, 0.01)[:, :, None]
        # scores that are too large hurt the worst group most
        gradients[:, 0] += 0.4 * np.sqrt(0.04 * variances / (0.04 + variances))
        known = 0.04 / (0.04 + errors**2)
        noise = max(float((known * errors).max()), float(np.sqrt(((p * errors) ** 2).sum())))
        spread = np.array([self.unit / 4.0, 0.3][:k])
        prior = np.diag((noise**2 / 0.1) / spread**2)
        return minimax_step(losses, gradients, hessians, prior, 1.2 * spread, p)


def plan_noisy_descent_ascent(
    objective: GroupObjective,
    budget: PrivacyBudget,
    calibration: str = "analytic",
) -> Plan:
    """Choose the parts of the budget from public numbers.

    Parameters
    ----------
    objective : GroupObjective
        Of the log loss. It has no part for a penalty or a ball.
    budget : PrivacyBudget
        With delta > 0.
    calibration : {"analytic"}

    Returns
    -------
    NoisyDescentAscentPlan
        That of the plain model alone if there is one group, or where noise would hide the groups'
        losses.
    """
    whole = plan_noisy_gradient_descent(objective, budget)
    n_groups = objective.weights.n_groups
    design, relation = objective.design, objective.neighbouring
    error = whole.relative_noise
    if n_groups == 1 or error * math.sqrt(design.n_features) >= _LARGEST_ERROR:
        return whole
    mu = gaussian_mu(budget.epsilon, budget.delta)
    replaced = relation is Neighbouring.REPLACE_ONE
    has_sizes = objective.proportions is None
    noise = (2.0 if replaced else 1.0) / (mu * design.n_records)
    sizes_share, losses_share, scale_share = (
        min(max((factor * noise) ** 2, least), largest)
        for least, largest, factor in (_SIZES, _LOSSES, _SCALE)
    )
    reserved = sizes_share * has_sizes + losses_share + scale_share
    plain = plan_noisy_gradient_descent(objective, budget, temperature_share=0.0, reserved=reserved)
    sizes = None
    if has_sizes:
        sensitivity = math.sqrt(2.0) if replaced else 1.0
        sizes = GroupSums(
            plain,
            n_groups,
            mu * math.sqrt(sizes_share),
            sensitivity,
            1.0,
            "sizes of the groups",
            "Lemma 3",
        )
    losses = GroupSums(
        plain,
        n_groups,
        mu * math.sqrt(losses_share),
        loss_sensitivity(plain.loss, replaced),
        _loss_range(plain.loss)[1],
        "losses of the groups",
        "Lemma 2",
    )
    scale = GroupSums(
        plain,
        n_groups,
        mu * math.sqrt(scale_share / _ROUNDS),
        2.0 if replaced else 1.0,
        1.0,
        "derivatives of the groups' losses in scale and shift",
        "Lemma 4",
        6 if has_shift(plain) else 3,
    )
    return NoisyDescentAscentPlan(
        objective,
        # as long a path for the budget as that of one descent: the first part of it, and the rest
        replace(
            plain,
            mu=plain.mu * math.sqrt(_PLAIN),
            damping=plain.damping / math.sqrt(_PLAIN),
        ),
        plain.mu * math.sqrt(1.0 - _PLAIN),
        plain.damping * math.sqrt(1.0 - _PLAIN),
        sizes,
        losses,
        scale,
        _ROUNDS,
        plan_temperature(plain.loss, design, relation, mu * math.sqrt(scale_share)),
        8.0 * error**2 * math.sqrt(design.n_features),
        objective.proportions,
    )


def covers(loss: Loss) -> bool:
    """Whether the method is made for a loss."""
    return isinstance(loss, LogisticLoss | SoftmaxLoss)


def loss_sensitivity(loss: Loss, is_replaced: bool) -> float:
    """Change of the groups' sums of clipped and centered losses by one record, by Lemma 2."""
    centre, largest = _loss_range(loss)
    one = max(centre, largest - centre)
    return max(largest, math.sqrt(2.0) * one) if is_replaced else one


def has_shift(plan: NoisyGradientDescentPlan) -> bool:
    """Whether an intercept of two classes can be shifted."""
    return plan.loss.n_outputs == 1 and plan.objective.design.intercept > 0


def _loss_range(loss: Loss) -> tuple[float, float]:
    """Loss of a model that knows nothing, and the value that losses are clipped at."""
    centre = math.log(loss.n_classes if isinstance(loss, SoftmaxLoss) else 2)
    return centre, centre + 2.0 - math.log(2.0)

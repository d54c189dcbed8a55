"""Looks at the losses of groups, with a model before and after each: the worst group's frame.

A plain model is released with a part of the budget. Noisy losses of the groups under it decide how
the groups are weighed, and a model for these weights follows; looks and models alternate. Last,
scale and shift of the margins are fitted to the worst group. How a model is made is left to
:class:`GroupModels` (:mod:`skdp.algorithms.worst_group.core_stages`). Every number of the plan is a
function of public numbers or of earlier releases. Theory: docs/theory/worst_group.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skdp._runtime import spare_processors, without_warnings
from skdp.algorithms.core.centered_rows import CenteredRecords
from skdp.algorithms.core.noisy_sums import NoisySum
from skdp.algorithms.plan import Plan, Run
from skdp.algorithms.worst_group import rules
from skdp.algorithms.worst_group.clipped_losses import ClippedLossTerms, FirstPlan, clipped_losses
from skdp.algorithms.worst_group.group_plan import GroupPlan, GroupResult
from skdp.algorithms.worst_group.group_sums import GroupTotals, Ones, has_shift
from skdp.algorithms.worst_group.group_weights import (
    class_weights,
    prefers_plain,
    shrunk_losses,
    worst_case_weights,
)
from skdp.algorithms.worst_group.margin_fits import MixFit, ScaleFit
from skdp.algorithms.worst_group.proportions import positive_shares
from skdp.mechanisms import NoiseSource
from skdp.privacy.report import Release
from skdp.problems import EmpiricalRisk, Loss, Records, SoftmaxLoss
from skdp.problems.rounding import two_margins


@dataclass(frozen=True, kw_only=True)
class PlainModelPlan(GroupPlan):
    """The plain model alone: where there is one group, or noise would hide the groups' losses.

    Attributes
    ----------
    plain : Plan
    """

    plain: Plan
    weighs_groups = True

    @property
    def is_level(self) -> bool:
        return self.plain.is_level

    @property
    def alpha(self) -> float:
        return float(self.plain.to_dict()["alpha"])

    @property
    def releases(self) -> tuple[Release, ...]:
        return self.plain.releases

    def bound(self) -> float:
        return self.plain.bound()

    def alarms(self) -> tuple[str, ...]:
        return self.plain.alarms()

    def found_alarms(self) -> tuple[str, ...]:
        return self.plain.found_alarms()

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
            weights=proportions,
            proportions=proportions,
            largest=(1.0,) * self.objective.weights.n_groups,
        )


@dataclass(frozen=True, kw_only=True)
class Model:
    """Released weights of centered rows, shape (n_outputs, width), shrunk by their noise."""

    weights: np.ndarray


class GroupModels(ABC):
    """The models of one fit, released one after the other.

    Attributes
    ----------
    rows : CenteredRecords
    offsets : ndarray of shape (n_outputs,)
        Margins of a constant model, which those of the models are added to.
    """

    rows: CenteredRecords
    offsets: np.ndarray

    @property
    @abstractmethod
    def first(self) -> FirstPlan:
        """The plan of the plain model, with what was released of rows and targets."""

    @abstractmethod
    def plain(self) -> Model:
        """Release the plain model."""

    @abstractmethod
    def again(self, plain: Model) -> Model:
        """Release another plain model, and its size and shift; return the average of both.

        Where the groups are the classes without the log odds, and without size and shift.
        """

    @abstractmethod
    def weighted(
        self, look: int, weights: np.ndarray, proportions: np.ndarray, before: Model
    ) -> Model:
        """Release a model for weights of the groups, from the one before it."""

    @abstractmethod
    def coefficients(
        self, weights: np.ndarray, offsets: np.ndarray, intercept: float
    ) -> np.ndarray:
        """Turn weights of centered rows and offsets into flat coefficients."""

    @abstractmethod
    def done(self) -> LooksPlan:
        """Return the plan with the numbers that followed from releases."""


@dataclass(frozen=True, kw_only=True)
class LooksPlan(GroupPlan):
    """Releases of the worst-group methods beside those of their models.

    Attributes
    ----------
    plain : FirstPlan
        Of the plain model; after a run with what was released before it.
    n_looks : int
        Looks at the losses of the groups, each followed by a model for other weights.
    mu_weighted : float
        Of the Gaussian differential privacy of all weighted models.
    mu_plain : float
        The same of the second plain model, where it is taken.
    sizes : NoisySum or None
        None where proportions are public.
    losses : NoisySum or None
        None where the groups are the classes: their weights are equal but for the price of noise.
    scale : NoisySum or None
        None where the scale of the margins is not fitted.
    mix : NoisySum or None
        None where the scale is fitted instead. For the step from the plain model to the last one.
    line : NoisySum or None
        After the fit of the scale: for the step from a constant model to the last one.
    price, spread_price : float
        Of noise, by the square of the largest weight, and of unequal weights at first.
    proportions : tuple of float or None
        Public or, after a run, released.
    weights : tuple of float or None
        After a run: of the groups' losses, in the last model.
    """

    plain: FirstPlan
    n_looks: int
    mu_weighted: float
    mu_plain: float
    sizes: NoisySum | None
    losses: NoisySum | None
    scale: NoisySum | None
    mix: NoisySum | None
    line: NoisySum | None
    price: float
    spread_price: float
    proportions: tuple[float, ...] | None
    weights: tuple[float, ...] | None = None
    weighs_groups = True

    @abstractmethod
    def models(self, data: Records, run: Run) -> GroupModels:
        """Release what models need to know of rows and targets."""

    @property
    @abstractmethod
    def plain_releases(self) -> tuple[Release, ...]:
        """Of the preparation and the plain model."""

    @property
    @abstractmethod
    def plain_fit(self) -> tuple[Release, ...]:
        """Of size and shift of the plain model, where it is taken after a look at the losses."""

    @abstractmethod
    def model_release(self, k: int) -> Release:
        """Of the model after a look."""

    @property
    def parts(self) -> tuple[float, ...]:
        """Parts of the weighted models in their budget: half of it is for the last one."""
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
        """Weights of the records of each group in the last model."""
        if self.weights is None or self.proportions is None:
            return None
        return tuple(q / p for q, p in zip(self.weights, self.proportions, strict=True))

    @property
    def releases(self) -> tuple[Release, ...]:
        parts = [*self.plain_releases]
        if self.sizes is not None:
            parts.append(self.sizes.describe())
        for k in range(self.n_looks):
            parts += [] if self.losses is None else [self.losses.describe()]
            parts.append(self.model_release(k))
        if self.is_plain and self.losses is not None:
            parts += self.plain_fit
        elif self.mix is not None:
            parts.append(self.mix.describe())
        elif self.scale is not None:
            n_entries = self.scale.n_entries
            if self.is_plain:  # without a mix
                n_entries = self.objective.weights.n_groups * (6 if has_shift(self.plain) else 3)
            parts += [replace(self.scale, n_entries=n_entries).describe()] * rules.SCALE_ROUNDS
            if self.line is not None and not self.is_plain:
                parts.append(self.line.describe())
        return tuple(parts)

    @property
    def is_plain(self) -> bool:
        """Whether the plain model was taken."""
        return self.n_looks == 1 and self.weights == self.proportions is not None

    @property
    def mu_second(self) -> float:
        """Mu of all models after the first one."""
        return self.mu_plain if self.is_plain else self.mu_weighted

    def alarms(self) -> tuple[str, ...]:
        return self.plain.alarms()

    def found_alarms(self) -> tuple[str, ...]:
        return self.plain.found_alarms()

    def remarks(self) -> tuple[str, ...]:
        return (*self.plain.remarks(), *self._look_remarks())

    def _look_remarks(self) -> tuple[str, ...]:
        """Say which of both models was released, and what noise lets one expect."""
        if self.losses is None:
            if self.is_plain:
                return ("noise is large: classes were balanced after a fit without weights",)
            return ("classes count alike, as far as the noise of a rare class allows",)
        error = clipped_losses(self.plain).factor * self.losses.sensitivity
        error /= self.losses.mu * self.objective.design.n_records
        remarks = (
            f"losses of the groups have noise of standard deviation {error:.2g} over the share of "
            f"the group, in each of {self.n_looks} measurements",
        )
        if not self.is_plain:
            return remarks
        return (*remarks, "the worst group is a large one: the plain model was taken")

    def to_dict(self) -> dict[str, Any]:
        looks: dict[str, Any] = {"mu_weighted": self.mu_second, "n_looks": self.n_looks}
        if self.weights is not None:
            looks["group_weights"] = list(self.weights)
        return {**self.plain.to_dict(), **looks}

    def run(self, data: Records, run: Run) -> GroupResult:
        if data.in_memory:  # else they are encoded where they are read
            self.objective.weights.check_groups(data.groups)
        with without_warnings(), spare_processors(data.is_sparse and data.in_memory):
            noise, models = run.noise, self.models(data, run)
            rows, offsets = models.rows, models.offsets
            plain = model = models.plain()
            proportions = self._proportions(models.first, rows, noise)
            best, price, excess = proportions, self.spread_price, np.zeros(len(proportions))
            for k in range(self.n_looks):
                if self.losses is None:  # the groups are the classes
                    weights = class_weights(proportions, self.price)
                    is_plain = prefers_plain(None, weights, proportions)
                    if not is_plain:  # margins start from a constant model for these weights
                        models.offsets = self._class_odds(weights)
                else:
                    losses = self._group_losses(
                        models.first, rows, model.weights, offsets, proportions, noise
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
                        center=best,
                        # of one look: no other one would find that the step went too far
                        ceiling=rules.CEILING if self.n_looks == 1 else 1.0,
                    )
                    floor = rules.FLOOR / self.n_looks
                    weights = floor * proportions + (1.0 - floor) * best
                    is_plain = self.n_looks == 1 and prefers_plain(
                        losses if self.loss.has_odds else None, weights, proportions
                    )
                if is_plain:
                    weights, model = proportions, models.again(plain)
                else:
                    model = models.weighted(k, weights, proportions, model)
            point = model.weights
            if self.losses is None:  # the log odds of a rare class do not stay
                offsets = np.zeros_like(offsets)
            if self.losses is None or not is_plain:
                origin = np.zeros_like(point)
                # several looks have found the weights; after one the largest loss may be off
                before = plain.weights if self.n_looks == 1 and not is_plain else origin
                given = models.first, rows, proportions, noise
                if self.mix is not None:
                    ends = before, point
                    point, offsets = self._mixed(self.mix, ends, offsets, *given)
                elif self.scale is not None:
                    direction = None if before is origin else point - before
                    point, offsets = self._rescaled(self.scale, point, offsets, direction, *given)
                if self.line is not None and not is_plain:
                    point, offsets = self._mixed(self.line, (origin, point), offsets, *given)
            done = replace(
                models.done(),
                proportions=tuple(proportions.tolist()),
                weights=tuple(weights.tolist()),
            )
            return GroupResult(
                point=models.coefficients(point, offsets, data.intercept),
                plan=done,
                weights=weights,
                proportions=proportions,
                largest=tuple((weights / proportions).tolist()),
            )

    def _proportions(
        self, plan: FirstPlan, rows: CenteredRecords, noise: NoiseSource
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

    def _group_losses(
        self,
        plan: FirstPlan,
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

    def _mixed(
        self,
        sums: NoisySum,
        ends: tuple[np.ndarray, np.ndarray],
        offsets: np.ndarray,
        plan: FirstPlan,
        rows: CenteredRecords,
        proportions: np.ndarray,
        noise: NoiseSource,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Find the step between two released models, and the shift, that serve the worst group."""
        moved = max(self._margin_rounding(rows, end, offsets) for end in ends)
        fit = MixFit(plan, rows, ends, offsets)
        return fit.release(rows, sums, proportions, noise, moved)

    def _rescaled(
        self,
        sums: NoisySum,
        weights: np.ndarray,
        offsets: np.ndarray,
        direction: np.ndarray | None,
        plan: FirstPlan,
        rows: CenteredRecords,
        proportions: np.ndarray,
        noise: NoiseSource,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Fit scale, shift (for two classes) and mix to the group that is worst then.

        The mix is of the weights with those of the plain model, which differ by the direction.
        """
        are_classes = self.losses is None
        fit = ScaleFit(plan, rows, weights, offsets, proportions, direction, are_classes)
        moved = self._margin_rounding(rows, weights, offsets)
        if direction is not None:
            moved += self._margin_rounding(rows, direction, np.zeros_like(offsets))
        theta = fit.released(rows, sums, rules.SCALE_ROUNDS, noise, moved)
        shift = theta[1] if fit.has_shift else 0.0
        weights = (1.0 + theta[0] / fit.unit) * weights
        if direction is not None:
            weights = weights + theta[-1] / fit.units[1] * direction
        return weights, offsets + shift


def combined(
    first: np.ndarray, first_variance: Any, second: np.ndarray, second_variance: Any
) -> tuple[np.ndarray, Any]:
    """Average two independent estimates by their variances; return the variance, too."""
    share = first_variance / (first_variance + second_variance)
    return first + share * (second - first), share * second_variance

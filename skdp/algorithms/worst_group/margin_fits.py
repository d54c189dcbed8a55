"""Fits of the margins of released models to the largest loss of a group, from noisy sums.

:class:`ScaleFit` changes scale and shift of the margins, by derivatives of the groups' losses
(Lemmas 4 and 5 of docs/theory/worst_group.md).

:class:`MixFit` finds how far to go from the plain model to the weighted one, and by how much to
shift both. Along the line between two models each group's mean loss is a convex curve, of squares a
parabola. A record adds its losses at both ends and half-way, and its residuals. Step and shift
minimise the largest of the groups' losses, each raised by what is not known of it (Lemma 6).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from skdp.algorithms.core.centered_rows import CenteredRecords
from skdp.algorithms.core.noisy_sums import NoisySum
from skdp.algorithms.worst_group import rules
from skdp.algorithms.worst_group.group_losses import (
    ClippedLosses,
    GroupTotals,
    clipped_losses,
    has_shift,
    loss_range,
)
from skdp.algorithms.worst_group.plain_models import StepsPlan
from skdp.mechanisms import NoiseSource
from skdp.problems import Loss, SoftmaxLoss
from skdp.problems.block import Block
from skdp.problems.rounding import EPS


@dataclass(frozen=True, kw_only=True)
class MixTerms:
    """Terms of norm 1 at most: the first loss, its change and curvature, residuals.

    `weights` of ``(x, 1)`` are those of the first model, of the one half-way and of the last.
    `shift` is that of the margins, `unit` that of residuals, None without a shift.
    """

    loss: Loss
    clipped: ClippedLosses
    weights: tuple[np.ndarray, ...]
    shift: np.ndarray
    unit: float | None

    def __call__(self, block: Block) -> list[np.ndarray]:
        margins = [block.margins(weights) + self.shift for weights in self.weights]
        first, middle, last = (
            self.clipped.terms(self.loss.value(z, block.targets)) for z in margins
        )
        columns = [first, last - first, first + last - 2.0 * middle]
        if self.unit is not None:
            columns += [
                np.clip(self.loss.derivative(z, block.targets) / self.unit, -1.0, 1.0)
                for z in margins[::2]
            ]
        return _shortened(np.stack(columns))


@dataclass(frozen=True, kw_only=True)
class ScaleTerms:
    """Terms of norm 1 at most: half of the loss, its gradient and its Hessian.

    `weights` of ``(x, 1)`` are those of the model and of the direction, if there is one, with the
    `units` of their margins and factors in these. `shift` is None if there is none.
    """

    loss: Loss
    weights: tuple[np.ndarray, ...]
    units: tuple[float, ...]
    factors: tuple[float, ...]
    offset: np.ndarray
    shift: float | None

    def __call__(self, block: Block) -> list[np.ndarray]:
        loss, (centre, largest) = self.loss, loss_range(self.loss)
        pairs = zip(self.weights, self.units, strict=True)
        scores = [block.margins(weights) / unit for weights, unit in pairs]
        margins = self.factors[0] * scores[0] + self.offset
        if self.shift is not None:
            margins = margins + self.shift
        if len(scores) > 1:
            margins = margins + self.factors[1] * scores[1]
        values = np.minimum(loss.value(margins, block.targets), largest) - centre
        if isinstance(loss, SoftmaxLoss):
            p = loss.probabilities(margins)
            ways = np.stack([each @ loss.basis.T for each in scores])
            means = np.einsum("ij,aij->ai", p, ways)
            own = np.take_along_axis(ways, block.targets[None, :, None], axis=2)[:, :, 0]
            gradients = means - own
            hessians = np.einsum("ij,aij,bij->abi", p, ways, ways) - means[:, None] * means
        else:
            if self.shift is not None:
                scores.insert(1, np.ones(len(block.targets)))
            ways = np.stack(scores)
            gradients = loss.derivative(margins, block.targets) * ways
            hessians = loss.second_derivative(margins, block.targets) * ways[:, None] * ways
        rows, columns = np.triu_indices(len(ways))
        factors = np.where(rows == columns, 1.0, math.sqrt(2.0))[:, None]
        vectors = np.concatenate([0.5 * values[None], gradients, factors * hessians[rows, columns]])
        return _shortened(vectors)


def _shortened(vectors: np.ndarray) -> list[np.ndarray]:
    """Shorten vectors, one per column, to norm 1 at most; return their entries."""
    lengths = np.sqrt(np.einsum("ij,ij->j", vectors, vectors))
    return list(vectors / np.maximum(lengths, 1.0))


class MixFit:
    """Losses of the groups on the line between two released models, the ends.

    Margins are shifted if there is one intercept, in units of ``sqrt(u / (2 c))``, c the curvature
    of the loss and u the unit of losses: of squares half the residual that they are clipped at.
    """

    def __init__(
        self,
        plan: StepsPlan,
        rows: CenteredRecords,
        ends: tuple[np.ndarray, np.ndarray],
        offsets: np.ndarray,
    ) -> None:
        self.loss, self.clipped, self.has_shift = plan.loss, clipped_losses(plan), has_shift(plan)
        self.shift_unit = math.sqrt(0.5 * self.clipped.unit / self.loss.curvature)
        self.n_records = plan.n_records
        self.ends, self.offsets, (first, last) = ends, offsets, ends
        self.raw = tuple(rows.weights(w) for w in (first, 0.5 * (first + last), last))

    def terms(self) -> MixTerms:
        """Return the terms of records."""
        unit = 2.0 * self.loss.curvature * self.shift_unit if self.has_shift else None
        shift = self.offsets.squeeze()
        return MixTerms(
            loss=self.loss, clipped=self.clipped, weights=self.raw, shift=shift, unit=unit
        )

    def release(
        self,
        rows: CenteredRecords,
        sums: NoisySum,
        proportions: np.ndarray,
        noise: NoiseSource,
        moved: float,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Release the losses along the line; return the best weights and offsets."""
        (first, last), sizes = self.ends, self.n_records * proportions
        exact = rows.full_total(GroupTotals(len(sizes), self.terms()))
        noisy, scale = sums.release(exact, noise, self.rounding(moved))
        step, shift = self.step(noisy, scale, sizes)
        return first + step * (last - first), self.offsets + shift

    def rounding(self, of_margin: float) -> float:
        """Bound what a term moves by in its last bits, by Lemma 6."""
        residuals = of_margin / self.shift_unit
        return 5.0 * self.clipped.moved(of_margin) + residuals + 32.0 * EPS

    def step(self, sums: np.ndarray, scale: float, sizes: np.ndarray) -> tuple[float, float]:
        """Return the step from the first to the last model, and the shift, by noisy sums."""
        k, factor, p = sums.shape[1], self.clipped.factor, sizes / sizes.sum()
        spreads, sampling = np.array(rules.MIX_SPREADS)[:k], np.array(rules.MIX_VARIANCES)[:k]
        means = factor * sums / sizes[:, None]
        variances = (factor * scale / sizes[:, None]) ** 2 + sampling / sizes[:, None]
        centre = p @ means
        gains = spreads**2 / (spreads**2 + variances)
        means = centre + gains * (means - centre)
        errors = spreads * np.sqrt(1.0 - gains)
        steps, shifts = np.linspace(0.0, rules.LONGEST_MIX, rules.MIX_POINTS), np.zeros(1)
        if self.has_shift:
            shifts = np.linspace(-rules.LARGEST_SHIFT, rules.LARGEST_SHIFT, rules.MIX_POINTS)
        s, b = steps[:, None, None], shifts[:, None]  # groups are the last axis
        # the parabola through three points: a change and a second difference
        losses = means[:, 0] + s * means[:, 1]
        losses = losses - 2.0 * s * (1.0 - s) * np.maximum(means[:, 2], 0.0)
        doubt = errors[:, 0] + s * errors[:, 1]
        if self.has_shift:
            # a bound: no second derivative is above the curvature
            losses = losses + b * ((1.0 - s) * means[:, 3] + s * means[:, 4])
            losses = losses + 0.25 * factor * b**2
            doubt = doubt + np.abs(b) * errors[:, 3:].max(axis=1)
        largest = (losses + rules.MIX_PESSIMISM * doubt).max(axis=2)
        i, j = np.unravel_index(int(np.argmin(largest)), largest.shape)
        return float(steps[i]), float(self.shift_unit * shifts[j])


class ScaleFit:
    """Derivatives of the groups' losses in scale and shift of the margins, and in a mix of models.

    The direction of the mix is what the weights differ by from those of another model.
    """

    def __init__(
        self,
        plan: StepsPlan,
        rows: CenteredRecords,
        weights: np.ndarray,
        offsets: np.ndarray,
        proportions: np.ndarray,
        direction: np.ndarray | None = None,
    ) -> None:
        design = plan.objective.design
        self.plan, self.proportions = plan, proportions
        self.sizes = plan.n_records * proportions
        self.has_shift, self.has_mix = has_shift(plan), direction is not None
        self.n_parameters = 1 + self.has_shift + self.has_mix
        ways = [weights] if direction is None else [weights, direction]
        lengths = [float(np.linalg.norm(way)) for way in ways]
        self.units = tuple(
            max(least, 2.0 * length / math.sqrt(design.n_features))
            for least, length in zip((3.0, 1.5), lengths, strict=False)
        )
        self.unit = self.units[0]
        self.bounds = [rows.norm_bound * length for length in lengths]
        self.raw = tuple(rows.weights(way) for way in ways)
        self.offset = offsets.squeeze()

    def rounding(self, of_margin: float, theta: np.ndarray) -> float:
        """Bound what a term moves by, by Lemma 5, if margins before scale and shift move."""
        sizes = np.abs(theta)
        largest = 2.0 + float(sizes.sum())
        moved = of_margin + 4.0 * EPS * float(sizes[1:].sum())
        scores = 1.0 + sum(
            bound / unit for bound, unit in zip(self.bounds, self.units, strict=True)
        )
        return 2.0 * largest * scores**2 * moved + 16.0 * EPS

    def terms(self, theta: np.ndarray) -> ScaleTerms:
        """Return the terms of records at parameters."""
        first = self.unit + float(theta[0])
        return ScaleTerms(
            loss=self.plan.loss,
            weights=self.raw,
            units=self.units,
            factors=(first, float(theta[-1])) if self.has_mix else (first,),
            offset=self.offset,
            shift=float(theta[1]) if self.has_shift else None,
        )

    def released(
        self,
        rows: CenteredRecords,
        sums: NoisySum,
        n_rounds: int,
        noise: NoiseSource,
        moved: float,
    ) -> np.ndarray:
        """Return the parameters after some releases, one for each step; `moved` as in rounding."""
        theta = np.zeros(self.n_parameters)
        for _ in range(n_rounds):
            terms = self.terms(theta)
            exact = rows.full_total(GroupTotals(len(self.sizes), terms))
            derivatives, scale = sums.release(exact, noise, self.rounding(moved, theta))
            theta = self.limited(theta + self.step(derivatives, scale))
        return theta

    def limited(self, theta: np.ndarray) -> np.ndarray:
        """Keep scale and mix within a range; start again from numbers that are not finite."""
        if not np.isfinite(theta).all():
            return np.zeros(self.n_parameters)
        theta, scale = theta.copy(), max(theta[0] / self.unit, -rules.LEAST_SCALE)
        theta[0] = self.unit * min(scale, rules.LARGEST_SCALE)
        if self.has_mix:
            mix = max(theta[-1] / self.units[1], -1.0)
            theta[-1] = self.units[1] * min(mix, rules.LARGEST_MIX)
        return theta

    def step(self, sums: np.ndarray, scale: float) -> np.ndarray:
        """Return the change of the parameters by noisy sums of the terms, for each group."""
        p, k = self.proportions, self.n_parameters
        means, errors = sums / self.sizes[:, None], scale / self.sizes
        of_losses, of_gradients, of_entries = rules.SCALE_SPREADS
        sampling = np.multiply.outer(rules.SCALE_VARIANCES, 1.0 / self.sizes)

        def shrunk(values: np.ndarray, spread: float, variances: np.ndarray) -> np.ndarray:
            mean = p @ values
            gain = spread**2 / (spread**2 + variances)
            return np.asarray(mean + gain[:, None] * (values - mean))

        centre, _ = loss_range(self.plan.loss)
        losses = centre + 2.0 * shrunk(means[:, :1], of_losses, errors**2 + sampling[0])[:, 0]
        variances = errors**2 + sampling[1]
        gradients = shrunk(means[:, 1 : 1 + k], of_gradients, variances)
        entries = shrunk(means[:, 1 + k :], of_entries, errors**2)
        hessians = np.zeros((len(p), k, k))
        upper = np.triu_indices(k)
        hessians[:, upper[0], upper[1]] = entries / np.where(
            upper[0] == upper[1], 1.0, math.sqrt(2.0)
        )
        hessians += np.triu(hessians, 1).transpose(0, 2, 1)
        values, vectors = np.linalg.eigh(hessians)
        hessians = np.einsum("gij,gj,gkj->gik", vectors, np.maximum(values, 0.01), vectors)
        between = rules.GRADIENT_VARIANCE
        # scores that are too large hurt the worst group most
        doubt = np.sqrt(between * variances / (between + variances))
        gradients[:, 0] += rules.SCALE_PESSIMISM * doubt
        known = between / (between + errors**2)
        noise = max(float((known * errors).max()), float(np.sqrt(((p * errors) ** 2).sum())))
        spread = [rules.SCALE_PRIOR * self.unit]
        spread += [rules.SHIFT_PRIOR] * self.has_shift
        spread += [rules.MIX_PRIOR * self.units[1]] if self.has_mix else []
        prior = np.diag((noise**2 / 0.1) / np.square(spread))
        bounds = rules.LARGEST_STEP * np.array(spread)
        return minimax_step(losses, gradients, hessians, prior, bounds, p)


def minimax_step(
    losses: np.ndarray,
    gradients: np.ndarray,
    hessians: np.ndarray,
    prior: np.ndarray,
    bounds: np.ndarray,
    proportions: np.ndarray,
    n_steps: int = 400,
) -> np.ndarray:
    """Minimise the largest of quadratics ``L_g + g_g'd + d'H_g d / 2``, plus ``d'P d / 2``.

    By exponentiated steps on the weights of the groups. No entry of d exceeds its bound.
    """
    logs, mean = np.log(proportions), np.zeros(len(losses))

    def answer(weights: np.ndarray) -> np.ndarray:
        hessian = np.tensordot(weights, hessians, 1) + prior
        return np.clip(-np.linalg.solve(hessian, weights @ gradients), -bounds, bounds)

    for step in range(n_steps):
        weights = np.exp(logs - logs.max())
        weights /= weights.sum()
        if step >= n_steps // 2:
            mean += weights / (n_steps - n_steps // 2)
        d = answer(weights)
        logs = logs + 2.0 * (losses + gradients @ d + 0.5 * hessians @ d @ d)
    return answer(mean)

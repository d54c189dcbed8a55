"""Noisy sums over the records of each group, and a fit of the margins' scale from them.

Lemmas 2 to 5 of docs/theory/worst_group.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from skdp.algorithms.centering import CenteredRows, sum_rounding
from skdp.algorithms.clipped_losses import loss_range
from skdp.algorithms.noisy_gradient_descent import NoisyGradientDescentPlan
from skdp.algorithms.worst_group_weights import minimax_step
from skdp.mechanisms import GaussianMechanism, NoiseSource
from skdp.privacy.report import Release
from skdp.problems import ROUNDING_SLACK, SoftmaxLoss
from skdp.problems.records import Block
from skdp.problems.rounding import EPS

#: Where the proofs are.
THEORY = "docs/theory/worst_group.md"


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
        """Return the noise; `moved` bounds the rounding of a term whose record is elsewhere."""
        design = self.plan.objective.design
        bound = self.sensitivity * ROUNDING_SLACK + sum_rounding(design, self.size)
        bound += design.n_records * design.size_ratio * moved
        return GaussianMechanism(bound, 1.0 / self.mu)

    def describe(self) -> Release:
        """Describe the release."""
        objective = self.plan.objective
        return self.mechanism().describe(
            self.name,
            self.n_groups * self.n_entries,
            objective.design.n_records,
            f"{THEORY}, {self.lemma}",
            objective.neighbouring,
        )

    def release(
        self,
        rows: CenteredRows,
        terms: Callable[[Block], Sequence[np.ndarray]],
        noise: NoiseSource,
        moved: float = 0.0,
    ) -> tuple[np.ndarray, float]:
        """Release the sums of ``terms(block)``, n_entries arrays of shape (m,), and their noise.

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


class ScaleFit:
    """Derivatives of the groups' losses in scale and shift of the margins, and in a mix of models.

    Parameters
    ----------
    plan : NoisyGradientDescentPlan
    rows : CenteredRows
    weights : ndarray of shape (n_outputs, width)
    offsets : ndarray of shape (n_outputs,)
    proportions : ndarray of shape (n_groups,)
    direction : ndarray of shape (n_outputs, width), optional
        Of the mix: what the weights differ by from those of another model. Default: there is none.
    """

    def __init__(
        self,
        plan: NoisyGradientDescentPlan,
        rows: CenteredRows,
        weights: np.ndarray,
        offsets: np.ndarray,
        proportions: np.ndarray,
        direction: np.ndarray | None = None,
    ) -> None:
        design = plan.objective.design
        self.plan, self.rows, self.proportions = plan, rows, proportions
        self.sizes = design.n_records * proportions
        self.has_shift, self.has_mix = has_shift(plan), direction is not None
        self.n_parameters = 1 + self.has_shift + self.has_mix
        ways = [weights] if direction is None else [weights, direction]
        lengths = [float(np.linalg.norm(way)) for way in ways]
        self.units = [
            max(least, 2.0 * length / math.sqrt(design.n_features))
            for least, length in zip((3.0, 1.5), lengths, strict=False)
        ]
        self.unit = self.units[0]
        self.bounds = [rows.norm_bound * length for length in lengths]
        self.raw = [rows.weights(way) for way in ways]
        self.shift = offsets.squeeze()

    def rounding(self, of_margin: float, shrinkage: float, theta: np.ndarray) -> float:
        """Bound what a term moves by in its last bits, by Lemma 5.

        `of_margin` bounds what margins of the weights and of the direction move by before scale
        and shift.
        """
        sizes = np.abs(theta)
        largest = 1.0 + shrinkage + float(sizes.sum())
        moved = of_margin + 4.0 * EPS * float(sizes[1:].sum())
        scores = 1.0 + sum(
            bound / unit for bound, unit in zip(self.bounds, self.units, strict=True)
        )
        return 2.0 * largest * scores**2 * moved + 16.0 * EPS

    def terms(self, block: Block, shrinkage: float, theta: np.ndarray) -> list[np.ndarray]:
        """Return terms of norm 1 at most: half of the loss, its gradient and its Hessian."""
        loss, k = self.plan.loss, self.n_parameters
        centre, largest = loss_range(loss)
        scores = [block.margins(raw) / unit for raw, unit in zip(self.raw, self.units, strict=True)]
        margins = (shrinkage * self.unit + theta[0]) * scores[0] + self.shift
        if self.has_shift:
            margins = margins + theta[1]
        if self.has_mix:
            margins = margins + theta[-1] * scores[1]
        values = np.minimum(loss.value(margins, block.targets), largest) - centre
        if isinstance(loss, SoftmaxLoss):
            p = loss.probabilities(margins)
            ways = np.stack([each @ loss.basis.T for each in scores])
            means = np.einsum("ij,aij->ai", p, ways)
            own = np.take_along_axis(ways, block.targets[None, :, None], axis=2)[:, :, 0]
            gradients = means - own
            hessians = np.einsum("ij,aij,bij->abi", p, ways, ways) - means[:, None] * means
        else:
            if self.has_shift:
                scores.insert(1, np.ones(len(block.targets)))
            ways = np.stack(scores)
            gradients = loss.derivative(margins, block.targets) * ways
            hessians = loss.second_derivative(margins, block.targets) * ways[:, None] * ways
        rows, columns = np.triu_indices(k)
        factors = np.where(rows == columns, 1.0, math.sqrt(2.0))[:, None]
        vectors = np.concatenate([0.5 * values[None], gradients, factors * hessians[rows, columns]])
        lengths = np.sqrt(np.einsum("ij,ij->j", vectors, vectors))
        return list(vectors / np.maximum(lengths, 1.0))

    def released(
        self, sums: GroupSums, n_rounds: int, shrinkage: float, noise: NoiseSource, moved: float
    ) -> np.ndarray:
        """Return the parameters after some releases, one for each step; `moved` as in rounding."""
        theta = np.zeros(self.n_parameters)
        for _ in range(n_rounds):
            derivatives, scale = sums.release(
                self.rows,
                lambda block: self.terms(block, shrinkage, theta),  # noqa: B023
                noise,
                self.rounding(moved, shrinkage, theta),
            )
            step = self.step(derivatives, scale, shrinkage, theta)
            theta = self.limited(theta + step, shrinkage)
        return theta

    def limited(self, theta: np.ndarray, shrinkage: float) -> np.ndarray:
        """Keep scale and mix within a range; start again from numbers that are not finite."""
        if not np.isfinite(theta).all():
            return np.zeros(self.n_parameters)
        theta = theta.copy()
        theta[0] = self.unit * min(max(theta[0] / self.unit, -0.75 * shrinkage), 0.6)
        if self.has_mix:
            theta[-1] = self.units[1] * min(max(theta[-1] / self.units[1], -shrinkage), 0.3)
        return theta

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

        centre, _ = loss_range(self.plan.loss)
        losses = centre + 2.0 * shrunk(means[:, :1], 0.15, errors**2 + 0.075 * sampling)[:, 0]
        variances = errors**2 + 0.1 * sampling
        gradients = shrunk(means[:, 1 : 1 + k], 0.2, variances)
        entries = shrunk(means[:, 1 + k :], 0.05, errors**2)
        hessians = np.zeros((len(p), k, k))
        upper = np.triu_indices(k)
        hessians[:, upper[0], upper[1]] = entries / np.where(
            upper[0] == upper[1], 1.0, math.sqrt(2.0)
        )
        hessians += np.triu(hessians, 1).transpose(0, 2, 1)
        values, vectors = np.linalg.eigh(hessians)
        hessians = np.einsum("gij,gj,gkj->gik", vectors, np.maximum(values, 0.01), vectors)
        # scores that are too large hurt the worst group most
        gradients[:, 0] += 0.4 * np.sqrt(0.04 * variances / (0.04 + variances))
        known = 0.04 / (0.04 + errors**2)
        noise = max(float((known * errors).max()), float(np.sqrt(((p * errors) ** 2).sum())))
        spread = [self.unit / 4.0]
        spread += [0.3] * self.has_shift
        spread += [self.units[1] / 8.0] if self.has_mix else []
        prior = np.diag((noise**2 / 0.1) / np.square(spread))
        return minimax_step(losses, gradients, hessians, prior, 1.2 * np.array(spread), p)


def has_shift(plan: NoisyGradientDescentPlan) -> bool:
    """Whether an intercept of two classes can be shifted."""
    return plan.loss.n_outputs == 1 and plan.objective.design.intercept > 0

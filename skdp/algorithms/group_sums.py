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
from skdp.privacy.events import Neighbouring
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

    def rounding(self, of_margin: float, shrinkage: float, theta: np.ndarray) -> float:
        """Bound what a term moves by in its last bits, by Lemma 5.

        `of_margin` bounds what a margin moves by before scale and shift.
        """
        sizes = np.abs(theta)
        largest = 1.0 + shrinkage + float(sizes.sum())
        moved = of_margin + 4.0 * EPS * float(sizes[1:].sum())
        return 2.0 * largest * (1.0 + self.bound / self.unit) ** 2 * moved + 16.0 * EPS

    def terms(self, block: Block, shrinkage: float, theta: np.ndarray) -> list[np.ndarray]:
        """Return terms of norm 1 at most: half of the loss, its gradient and its Hessian."""
        loss = self.plan.loss
        centre, largest = loss_range(loss)
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
        return list(vectors / np.maximum(lengths, 1.0))

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


def has_shift(plan: NoisyGradientDescentPlan) -> bool:
    """Whether an intercept of two classes can be shifted."""
    return plan.loss.n_outputs == 1 and plan.objective.design.intercept > 0

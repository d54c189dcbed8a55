"""The worst group's loss of a linear model, over vertices of an l1 ball against groups.

``sum_g y_g c_g (1/n) sum_{i in g} loss_i(w)`` with w in an l1 ball and y on the simplex of the
groups. In units of the largest c_g, so that the public numbers hold for all c_g.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skdp._runtime import without_warnings
from skdp.problems.block import Block
from skdp.problems.losses import Loss
from skdp.problems.matrices import scaled_rows
from skdp.problems.max_group_loss import GroupWeights
from skdp.problems.records import Records
from skdp.problems.rounding import ROUNDING_SLACK
from skdp.problems.vertices import LinearDesign, LinearProblem, Point


@dataclass(frozen=True)
class GroupLinearDesign(LinearDesign):
    """Public numbers about a linear model in an l1 ball, and weights of its groups.

    A record's derivative in the coefficients has a factor of at most 1. That in the weights is its
    loss, or a part of it, for one group, and 0 for the others. So both bounds of the second
    block are the largest loss, also for a record that is added.
    """

    @classmethod
    def with_groups(cls, plain: LinearDesign, loss: Loss, n_groups: int) -> GroupLinearDesign:
        """Add a block of groups; the loss must be bounded and not negative."""
        largest = loss.largest_value(1.0, plain.radius * plain.feature_bound) * ROUNDING_SLACK
        numbers = vars(plain) | {
            "sizes": (*plain.sizes, n_groups),
            "magnitudes": (*plain.magnitudes, largest),
            "oscillations": (*plain.oscillations, largest),
        }
        return cls(**numbers)


class GroupLinearProblem(LinearProblem):
    """A linear model in an l1 ball against weights of groups; records have targets and groups."""

    def __init__(
        self, records: Records, loss: Loss, design: GroupLinearDesign, weights: GroupWeights
    ) -> None:
        weights.check_groups(records.groups)
        super().__init__(records, loss, design)
        self.weights = weights
        #: c_g in units of the largest one.
        self.factors = np.array(weights.largest) / weights.bound

    @without_warnings()
    def values(self, point: Point, batch: slice) -> np.ndarray:
        drawn, groups = point
        shares = np.bincount(groups, minlength=self.weights.n_groups) / len(groups) * self.factors
        return super().values((drawn,), batch) * shares[self.records.groups[batch]]

    @without_warnings()
    def gradients(self, point: Point, batch: slice) -> tuple[np.ndarray, ...]:
        drawn, groups = point
        margins, offset = self.margins((drawn,), batch), batch.start
        n_groups, largest = self.weights.n_groups, self.design.magnitudes[1]
        limit = self.design.derivative_bound
        shares = np.bincount(groups, minlength=n_groups) / len(groups) * self.factors

        def statistic(block: Block) -> tuple[np.ndarray, np.ndarray]:
            assert isinstance(block.positions, slice)
            part = margins[block.positions.start - offset : block.positions.stop - offset]
            values, slopes = self.loss.value_and_derivative(part, block.targets)
            slopes = np.clip(np.nan_to_num(slopes, nan=0.0), -limit, limit)
            values = np.clip(np.nan_to_num(values, nan=0.0), 0.0, largest)
            slopes = scaled_rows(slopes, shares[block.groups])
            return block.pull_back(slopes).ravel(), np.bincount(block.groups, values, n_groups)

        pushed, losses = self.records.total(statistic, part=batch)
        replaced = self.design.relation.is_replaced
        size = batch.stop - batch.start if replaced else self.design.n_records
        half = np.asarray(pushed) * (self.design.radius / size)
        if self.design.alpha:
            pull = self.design.alpha * self.design.radius / self.weights.bound
            half += pull * self.coefficients(point)
        return np.concatenate([half, -half]), losses * (self.factors / size)

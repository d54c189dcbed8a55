"""The worst group's loss of a linear model, over vertices of an l1 ball against groups.

``sum_g y_g c_g (1/n) sum_{i in g} loss_i(w)`` with w in an l1 ball and y on the simplex of the
groups. In units of the largest c_g, so that the public numbers hold for all c_g.
"""

from __future__ import annotations

import numpy as np

from skdp._runtime import without_warnings
from skdp.problems.block import Block
from skdp.problems.losses import Loss
from skdp.problems.max_group_loss import GroupWeights
from skdp.problems.records import Records
from skdp.problems.vertices import LinearDesign, LinearProblem, Point


class GroupLinearProblem(LinearProblem):
    """A linear model in an l1 ball against weights of groups; records have targets and groups."""

    def __init__(
        self, records: Records, loss: Loss, design: LinearDesign, weights: GroupWeights
    ) -> None:
        weights.check_groups(records.groups)
        super().__init__(records, loss, design)
        self.weights = weights
        #: c_g in units of the largest one.
        self.factors = np.array(weights.largest) / weights.bound

    def _shares(self, groups: np.ndarray) -> np.ndarray:
        """Return weights of the groups, times their factors."""
        return np.bincount(groups, minlength=self.weights.n_groups) / len(groups) * self.factors

    @without_warnings()
    def values(self, point: Point, batch: slice) -> np.ndarray:
        drawn, groups = point
        return super().values((drawn,), batch) * self._shares(groups)[self.records.groups[batch]]

    @without_warnings()
    def gradients(self, point: Point, batch: slice) -> tuple[np.ndarray, ...]:
        drawn, groups = point
        margins, largest = self.margins((drawn,), batch), self.design.magnitudes[1]
        half = self.gradient_of(margins, batch, factors=self._shares(groups))
        if self.design.alpha:
            pull = self.design.alpha * self.design.radius / self.weights.bound
            half += pull * self.coefficients(point)

        def statistic(block: Block) -> np.ndarray:
            values = self.loss.value(self.part(margins, batch, block), block.targets)
            values = np.clip(np.nan_to_num(values, nan=0.0), 0.0, largest)
            return np.bincount(block.groups, values, self.weights.n_groups)

        losses = self.records.total(statistic, part=batch)
        return np.concatenate([half, -half]), losses * (self.factors / self.size(batch))

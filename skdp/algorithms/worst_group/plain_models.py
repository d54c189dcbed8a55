"""Plans of plain models: alone, and as the first of several models for the worst group."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from skdp.algorithms.core.centered_rows import CenteredRecords
from skdp.algorithms.core.fit import CorePlan
from skdp.algorithms.core.forecast import Found
from skdp.algorithms.core.size import Corrected
from skdp.algorithms.plan import Run
from skdp.algorithms.worst_group.group_plan import GroupPlan, GroupResult
from skdp.privacy.report import Release
from skdp.problems import Records
from skdp.problems.group_objective import GroupObjective


@dataclass(frozen=True, kw_only=True)
class PlainModelPlan(CorePlan, GroupPlan):
    """The plain model alone: of one group, of classes, or where noise would hide groups' losses."""

    objective: GroupObjective
    weighs_groups = True

    @property
    def alpha(self) -> float:
        return float(self.to_dict()["alpha"])

    @property
    def weights(self) -> np.ndarray | None:
        """Weights of the groups' losses, if they are known."""
        shares = self.objective.proportions
        return None if shares is None else np.array(shares)

    def run(self, data: Records, run: Run) -> GroupResult:
        found = super().run(data, run)
        plan: PlainModelPlan = found.plan
        return plan.result(found.point, self.weights, (1.0,) * self.objective.weights.n_groups)


@dataclass(frozen=True, kw_only=True)
class BalancedPlan(PlainModelPlan):
    """The plain model without the log odds of the classes, which are the groups."""

    @property
    def weights(self) -> np.ndarray:
        n_groups = self.objective.weights.n_groups
        return np.full(n_groups, 1.0 / n_groups)

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
        return weights, self.offsets(found, base) - rows.centering.offsets

    def remarks(self) -> tuple[str, ...]:
        balanced = "classes count alike: the log odds of their shares are left out"
        return (*super().remarks(), balanced)


@dataclass(frozen=True, kw_only=True)
class StepsPlan(CorePlan):
    """Releases 1 and 2 of the core with a part of the budget."""

    #: Mu of the steps.
    level: float
    #: Mu of size and shift, where it is taken.
    last: float

    def __post_init__(self) -> None:
        super().__post_init__()
        last = self.last / math.sqrt(self.n_rounds + self.has_square)
        vars(self).update(mu_steps=self.level, mu_round=min(self.mu_round, last))

    @property
    def releases(self) -> tuple[Release, ...]:
        moments = () if self.moments is None else (self.moments.describe(),)
        return (self.means.describe(), *moments, self.release_of_steps())

    @property
    def n_records(self) -> float:
        return self.numbers.means.n_records


def relative_noise(plan: CorePlan) -> float:
    """Error of a mean of rows with the noise of all steps, relative to the norm of rows."""
    design = plan.objective.design
    n: float = design.n_records
    if design.is_slack and plan.found is not None:
        n = plan.found.means.n_records
    changes = plan.objective.neighbouring.n_changes
    return changes * math.sqrt(design.n_features) / (n * plan.mu_steps)

"""What a plan for the largest loss of a group provides, and what its run returns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skdp.algorithms.plan import Plan, Result
from skdp.problems import EmpiricalRisk
from skdp.problems.group_objective import GroupObjective


@dataclass(frozen=True, kw_only=True)
class GroupResult(Result):
    """The releases of a plan for groups.

    Attributes
    ----------
    weights : ndarray of shape (n_groups,) or None
        Of the groups' losses in the worst case; None where they are not released.
    proportions : ndarray of shape (n_groups,) or None
        Sizes of the groups over that of all, public or released.
    largest : tuple of float
        Largest weight of a record of each group, or its weight where that is one number.
    """

    weights: np.ndarray | None
    proportions: np.ndarray | None
    largest: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class GroupPlan(Plan):
    """Base of plans for groups.

    A subclass has :attr:`releases`, ``to_dict()`` and ``run(records, run) -> GroupResult``, and
    overrides what follows where it is not that of the objective.

    Attributes
    ----------
    objective : GroupObjective
    """

    objective: GroupObjective

    @property
    def risk(self) -> EmpiricalRisk:
        """The risk that is minimised; of a loss with kinks its smooth stand-in."""
        return self.objective.risk

    @property
    def alpha(self) -> float:
        """The penalty of the solution."""
        return self.objective.alpha

    @property
    def method(self) -> str | None:
        """Name of the row that this plan comes to, if it is not the one that made it."""
        return None

"""What a plan for the largest loss of a group provides, and what its run returns."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from skdp._runtime import without_warnings
from skdp._types import Self
from skdp.algorithms.core.noisy_sums import Level, NoisySum
from skdp.algorithms.plan import Plan, Result
from skdp.algorithms.worst_group import rules
from skdp.mechanisms import NoiseSource
from skdp.privacy.report import Release
from skdp.problems import EmpiricalRisk, GroupWeights, Objective, Records
from skdp.problems.block import Block
from skdp.problems.group_objective import GroupObjective


@dataclass(frozen=True)
class GroupSizes:
    """Sums of the weights of the records of each group."""

    n_groups: int
    needs_norms: ClassVar[bool] = False

    def __call__(self, block: Block, _: Any = None) -> np.ndarray:
        return block.count(block.groups, self.n_groups).astype(np.float64)


def noisy_sizes(
    objective: Objective, level: Level, n_entries: int, reference: str, what: str = "groups"
) -> NoisySum:
    """Plan a release of sizes: a record that changes its group changes two of them by 1."""
    relation = objective.neighbouring
    return NoisySum(
        design=objective.design,
        neighbouring=relation,
        mu=level.mu,
        is_pure=level.is_pure,
        sensitivity=math.sqrt(relation.n_changes),
        size=1.0,
        n_entries=n_entries,
        name=f"sizes of the {what}",
        reference=reference,
    )


def positive_shares(noisy: np.ndarray, least: float) -> np.ndarray:
    """Raise noisy proportions to a least one, and scale them to sum 1."""
    shares = np.maximum(noisy, least)
    return np.asarray(shares / shares.sum())


@dataclass(frozen=True, kw_only=True)
class GroupResult(Result):
    """The releases of a plan for groups."""

    #: Shape (n_groups,). Of the groups' losses in the worst case; None: they are not released.
    weights: np.ndarray | None
    #: Shape (n_groups,). Sizes of the groups over that of all, public or released.
    proportions: np.ndarray | None
    #: Largest weight of a record of each group, or its weight where that is one number.
    largest: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class GroupPlan(Plan):
    """Base of plans for groups, whose sizes some of them release first.

    A subclass has :attr:`releases`, ``to_dict()`` and ``run(records, run) -> GroupResult``, and
    overrides what follows where it is not that of the objective.
    """

    objective: GroupObjective
    #: Of the records of each group; None where proportions are public, or not needed.
    sizes: NoisySum | None = None
    #: After a run: the released ones of the groups.
    proportions: tuple[float, ...] | None = None
    #: Whether it solves saddle problems, and not minimisation problems.
    has_saddle: ClassVar[bool] = False
    #: Whether it chooses the weight of the records of each group itself.
    weighs_groups: ClassVar[bool] = False

    @property
    def risk(self) -> EmpiricalRisk:
        """The risk that is minimised; of a loss with kinks its smooth stand-in."""
        return self.objective.risk

    @property
    def alpha(self) -> float:
        """The penalty of the solution."""
        return self.objective.alpha

    def result(
        self,
        point: np.ndarray,
        weights: np.ndarray | None,
        largest: tuple[float, ...] | None = None,
    ) -> GroupResult:
        """Return the releases of a run by this plan, which is the one after it."""
        shares = self.objective.proportions if self.proportions is None else self.proportions
        return GroupResult(
            point=point,
            plan=self,
            weights=weights,
            proportions=None if shares is None else np.array(shares),
            largest=largest or self.objective.weights.largest,
        )

    def first_releases(self) -> tuple[Release, ...]:
        """Describe the release of the sizes, if there is one."""
        return () if self.sizes is None else (self.sizes.describe(),)

    def public_numbers(self) -> dict[str, Any]:
        """Return the bounds on the groups' weights, and the noise of the proportions."""
        numbers: dict[str, Any] = {"largest_group_weights": list(self.objective.weights.largest)}
        if self.sizes is not None:
            noise, n = self.sizes.mechanism().noise_scale, self.objective.design.n_records
            numbers["proportions_noise"] = noise / n
        return numbers

    @without_warnings()
    def shares(self, data: Records, noise: NoiseSource) -> np.ndarray:
        """Release the proportions of the groups, within [0, 1]; their sum need not be 1."""
        assert self.sizes is not None
        counts, _ = self.sizes.release(data.total(GroupSizes(self.sizes.n_entries)), noise)
        return np.clip(counts / self.objective.design.n_records, 0.0, 1.0)

    def weighted(self, data: Records, noise: NoiseSource) -> Self:
        """Return the plan with the weights that follow from released proportions, if any are."""
        if self.sizes is None:
            return self
        shares = self.shares(data, noise)
        least = positive_shares(shares, rules.LEAST_PROPORTION)
        weights = GroupWeights.of_proportions(least, self.objective.weights.bound)
        objective = replace(self.objective, weights=weights)
        return replace(self, objective=objective, proportions=tuple(shares.tolist()))

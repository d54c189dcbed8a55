"""Noisy sizes of the groups, and the proportions that follow from them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from skdp.algorithms.core.noisy_sums import Level, NoisySum
from skdp.problems import Objective
from skdp.problems.block import Block


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

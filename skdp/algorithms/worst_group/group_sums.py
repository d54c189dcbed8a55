"""Sums over the records of each group.

Lemmas 2 to 6 of docs/theory/worst_group.md are about their noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from skdp.algorithms.worst_group.clipped_losses import FirstPlan
from skdp.problems.block import Block

#: Where the proofs are.
THEORY = "docs/theory/worst_group.md"


@dataclass(frozen=True)
class GroupTotals:
    """Sums of ``terms(block)``, k arrays of shape (m,), over the records of each group.

    Their shape is (n_groups, k).
    """

    n_groups: int
    terms: Callable[[Block], Sequence[np.ndarray]]
    needs_norms: ClassVar[bool] = False

    def __call__(self, block: Block, _: np.ndarray) -> np.ndarray:
        return np.stack(
            [
                np.bincount(block.groups, block.weighted(entry), minlength=self.n_groups)
                for entry in self.terms(block)
            ],
            axis=1,
        )


@dataclass(frozen=True)
class Ones:
    """1 for each record: sums are the sizes of the groups."""

    def __call__(self, block: Block) -> list[np.ndarray]:
        return [np.ones(len(block.groups))]


@dataclass(frozen=True)
class GroupSizes:
    """Sums of the weights of the records of each group."""

    n_groups: int

    def __call__(self, block: Block) -> np.ndarray:
        return block.count(block.groups, self.n_groups)


def has_shift(plan: FirstPlan) -> bool:
    """Whether an intercept of two classes can be shifted."""
    return plan.loss.n_outputs == 1 and plan.objective.design.intercept > 0

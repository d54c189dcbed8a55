"""Noisy proportions of the groups: the release, and how far one record moves it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from skdp._runtime import without_warnings
from skdp.mechanisms import AdditiveMechanism, NoiseSource
from skdp.privacy.report import Release
from skdp.problems.constants import most_records
from skdp.problems.group_objective import GroupObjective
from skdp.problems.rounding import EPS


def proportions_sensitivity(n_records: int, is_replaced: bool = True) -> float:
    """Bound the distance of the groups' proportions in neighbouring records, as computed.

    A record that changes its group changes two counts by 1, one that is added a single one. Each
    quotient is rounded, by at most ``EPS / 2`` times its size for each of the neighbours.
    """
    if not is_replaced:
        return (1.0 + 1e-12 + most_records(n_records) * EPS) / n_records
    return math.sqrt(2.0) * ((1.0 + 1e-12) / n_records + EPS)


@dataclass(frozen=True, kw_only=True)
class NoisyProportions:
    """A release of the groups' proportions, of the public number of records.

    Attributes
    ----------
    objective : GroupObjective
    mechanism : AdditiveMechanism
        For :func:`proportions_sensitivity`.
    reference : str
        Of the statement.
    """

    objective: GroupObjective
    mechanism: AdditiveMechanism
    reference: str

    def describe(self) -> Release:
        """Describe the release."""
        size, n = self.objective.weights.n_groups, self.objective.design.n_records
        relation = self.objective.neighbouring
        return self.mechanism.describe("group proportions", size, n, self.reference, relation)

    @without_warnings()
    def release(self, groups: np.ndarray, noise: NoiseSource) -> np.ndarray:
        """Release the proportions, within [0, 1]; their sum need not be 1."""
        weights = self.objective.weights
        weights.check_groups(groups)
        counts = np.bincount(groups, minlength=weights.n_groups)
        return self.noisy(counts / self.objective.design.n_records, noise)

    @without_warnings()
    def noisy(self, counts: np.ndarray, noise: NoiseSource) -> np.ndarray:
        """Add the noise to exact proportions."""
        return np.clip(np.nan_to_num(self.mechanism.release(counts, noise)), 0.0, 1.0)


def positive_shares(noisy: np.ndarray, least: float) -> np.ndarray:
    """Raise noisy proportions to a least one, and scale them to sum 1."""
    shares = np.maximum(noisy, least)
    return np.asarray(shares / shares.sum())

"""Scores of a model on held-out records, from noisy sums of what single records contribute.

Each plan releases one vector of sums; the score is computed from the released vector. Proofs:
``docs/theory/scores.md``.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from skdp._checks import check_count
from skdp._runtime import without_warnings
from skdp.algorithms.plan import Plan, Result, Run, require_replace_one
from skdp.mechanisms import calibrated_mechanism
from skdp.mechanisms.additive import AdditiveMechanism
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import Neighbouring
from skdp.privacy.report import Release
from skdp.problems.persons import shared_units
from skdp.problems.rounding import EPS


@dataclass(frozen=True, kw_only=True)
class ScorePlan(Plan):
    """Release sums that a score follows from."""

    #: Or the number of persons, whose records have weights that add up to 1.
    n_records: int
    budget: PrivacyBudget
    #: A record or a person is replaced.
    neighbouring: Neighbouring = Neighbouring.REPLACE_ONE

    shown = ("n_records",)

    #: What one record moves the exact sums by at most, where that is proven, and for how many.
    sensitivity: ClassVar[float]
    statement: ClassVar[str]
    fewest: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_count("n_records", self.n_records, self.fewest)
        require_replace_one(self.neighbouring, type(self).__name__)

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Number of sums."""

    @abstractmethod
    def sums(self, values: Any, labels: Any, persons: Any = None) -> np.ndarray:
        """Compute the sums of all records: not private."""

    @abstractmethod
    def scores(self, point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Compute scores from released sums, and the squares of how much noise moves them.

        The second array is the sum of the squares of the derivatives of each score.
        """

    @cached_property
    def mechanism(self) -> AdditiveMechanism:
        """Noise for the sums, of which those of one data set are off by ``2 EPS n_records``."""
        rounding = 4.0 * EPS * self.n_records
        return calibrated_mechanism(self.budget, self.sensitivity + rounding)

    def deviations(self, point: np.ndarray) -> np.ndarray:
        """Standard deviation of the noise in each score, to first order; from released sums."""
        variance = self.mechanism.mean_square(self.dimension) / self.dimension
        return np.sqrt(variance * self.scores(point)[1])

    @property
    def releases(self) -> tuple[Release, ...]:
        of_persons = ", Lemma 5" if self.neighbouring is Neighbouring.REPLACE_USER else ""
        reference = f"docs/theory/scores.md, {self.statement}{of_persons}"
        sizes = self.dimension, self.n_records
        where = reference, self.neighbouring
        return (self.mechanism.describe("sums of scores", *sizes, *where),)

    @without_warnings()
    def run(self, data: tuple[np.ndarray, Any, Any], run: Run) -> Result:
        """Release the sums of values, labels or None, and persons from 0 on, or None."""
        values, labels, persons = data
        n_units = len(values) if persons is None else int(persons.max()) + 1
        if n_units != self.n_records:
            raise ValueError("The plan is for another number of records.")
        sums = self.sums(values, labels, persons)
        return Result(point=self.mechanism.release(sums, run.noise), plan=self)


def in_unit_interval(values: np.ndarray) -> np.ndarray:
    """Clip scores to [0, 1]; NaN counts as 0."""
    return np.clip(np.nan_to_num(values.astype(np.float64), nan=0.0), 0.0, 1.0)


def weighted(
    values: np.ndarray, labels: Any, persons: Any, n_persons: int, digits: int = 52
) -> tuple[np.ndarray, Any, Any, np.ndarray, int]:
    """Give records integer weights; those of a person add up to a unit, a power of two.

    What division leaves goes to its first records by label and value. The unit times the number of
    persons has so many digits. Without persons weights are 1; else the order is another one.
    """
    if persons is None:
        return values, labels, None, np.ones(len(values), dtype=np.int64), 1
    order = np.lexsort((values, persons) if labels is None else (labels, values, persons))
    unit = 1 << (digits - n_persons.bit_length())
    weights = shared_units(persons[order], unit)
    return values[order], None if labels is None else labels[order], persons[order], weights, unit


class MeanScorePlan(ScorePlan):
    """The mean of scores in [0, 1]."""

    sensitivity, statement = 1.0, "Lemma 1"
    dimension = 1

    def sums(self, values: np.ndarray, labels: Any = None, persons: Any = None) -> np.ndarray:
        """Add up the scores."""
        scores = in_unit_interval(values)
        values, _, _, weights, unit = weighted(scores, None, persons, self.n_records)
        return np.array([math.fsum(values * (weights / unit))])

    def scores(self, point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return point / self.n_records, np.array([self.n_records**-2.0])


@dataclass(frozen=True, kw_only=True)
class LabelledScoresPlan(ScorePlan):
    """The mean of scores in [0, 1] over the records of each label: of a class, or of a group."""

    #: Labels are 0, ..., n_labels - 1.
    n_labels: int

    sensitivity, statement = math.sqrt(2.0), "Lemma 2"

    @property
    def dimension(self) -> int:
        return 2 * self.n_labels

    def sums(self, values: np.ndarray, labels: np.ndarray, persons: Any = None) -> np.ndarray:
        """Add up, for each label, the scores and what they lack of 1."""
        scores = in_unit_interval(values)
        values, labels, _, weights, unit = weighted(scores, labels, persons, self.n_records)
        parts = values * (weights / unit), (1.0 - values) * (weights / unit)
        own = [labels == label for label in range(self.n_labels)]
        return np.array([math.fsum(part[each]) for part in parts for each in own])

    def scores(self, point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        gained, lacking = np.split(point, 2)
        sizes = np.maximum(gained + lacking, 1.0)
        means = np.clip(gained / sizes, 0.0, 1.0)
        return means, (means**2 + (1.0 - means) ** 2) / sizes**2


@dataclass(frozen=True, kw_only=True)
class F1ScorePlan(ScorePlan):
    """F1 scores of classes, from the number of records of a class that are found and of errors."""

    #: 1: F1 of class 1 of the two classes 0 and 1. More: F1 of each of as many classes.
    n_labels: int

    sensitivity, statement = math.sqrt(2.0), "Lemma 3"

    @property
    def dimension(self) -> int:
        return 2 * self.n_labels

    @property
    def _error_weight(self) -> float:
        """An error counts for one class, or for the true one and the predicted one."""
        return 1.0 if self.n_labels == 1 else math.sqrt(0.5)

    def sums(self, values: np.ndarray, labels: np.ndarray, persons: Any = None) -> np.ndarray:
        """Count by classes what is found, and errors; `values` are predicted classes."""
        values, labels, _, weights, unit = weighted(values, labels, persons, self.n_records)
        is_right, own = values == labels, [1] if self.n_labels == 1 else range(self.n_labels)
        found = [np.sum(weights * (is_right & (labels == k))) for k in own]
        errors = [np.sum(weights * (~is_right & ((labels == k) | (values == k)))) for k in own]
        return np.concatenate([found, self._error_weight * np.array(errors)]) / unit

    def scores(self, point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found, errors = np.maximum(np.split(point, 2), 0.0)
        errors = errors / self._error_weight
        sizes = np.maximum(2.0 * found + errors, 1.0)
        slopes = 4.0 * (errors**2 + (found / self._error_weight) ** 2) / sizes**4
        return np.minimum(2.0 * found / sizes, 1.0), slopes


class AUCPlan(ScorePlan):
    """The area under the ROC curve of two classes; pairs within a person are left out."""

    sensitivity, statement, fewest = 1.0, "Lemma 4", 2
    dimension = 2
    #: Of the number of records of class 1.
    size_weight = math.sqrt(0.75)

    def sums(self, values: np.ndarray, labels: np.ndarray, persons: Any = None) -> np.ndarray:
        """Compare the values of all pairs of a record of class 1 with one of class 0.

        The first sum is ``(number of pairs in order - number in disorder) / (2 (n - 1))``.
        """
        values = np.nan_to_num(values.astype(np.float64), nan=0.0)
        values, labels, persons, weights, unit = weighted(
            values, labels, persons, self.n_records, 31
        )  # sums of products have 62 digits
        doubled = _doubled(values, labels, weights, np.zeros_like(labels))
        if persons is not None:
            doubled -= _doubled(values, labels, weights, persons)
        pairs = doubled / unit**2 / (2 * (self.n_records - 1))
        return np.array([pairs, self.size_weight * (int(weights @ labels) / unit)])

    def scores(self, point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        size = float(np.clip(point[1] / self.size_weight, 1.0, self.n_records - 1.0))
        n, pairs = self.n_records, size * (self.n_records - size)
        area = min(max(0.5 + point[0] * (n - 1) / pairs, 0.0), 1.0)
        by_size = (area - 0.5) * (n - 2.0 * size) / (pairs * self.size_weight)
        return np.array([area]), np.array([((n - 1) / pairs) ** 2 + by_size**2])


def _doubled(
    values: np.ndarray, labels: np.ndarray, weights: np.ndarray, strata: np.ndarray
) -> int:
    """Twice the weight of pairs in order less that of pairs in disorder, within each stratum.

    A pair is of a record of class 1 and one of class 0, and weighs the product of their weights.
    """
    order = np.lexsort((values, strata))
    values, strata = values[order], strata[order]
    own, others = (weights * labels)[order], (weights * (1 - labels))[order]
    is_new = np.append(True, (values[1:] != values[:-1]) | (strata[1:] != strata[:-1]))
    starts = np.flatnonzero(is_new)  # of records that are tied
    own, others = np.add.reduceat(own, starts), np.add.reduceat(others, starts)
    strata = strata[starts]
    up_to = np.cumsum(others)
    firsts = np.flatnonzero(np.append(True, strata[1:] != strata[:-1]))
    lengths = np.diff(np.append(firsts, len(strata)))
    before = np.repeat(up_to[firsts] - others[firsts], lengths)
    totals = np.repeat(np.add.reduceat(others, firsts), lengths)
    return int((own * (2 * (up_to - before) - others - totals)).sum())

"""Validation on held-out records: folds and splits are made in a secret random order of units."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdp._checks import check_count
from skdp.algorithms.plan import Run
from skdp.algorithms.tuning.final_fit import SplitPlan
from skdp.algorithms.tuning.objective import TuningObjective
from skdp.mechanisms import NoiseSource, random_order
from skdp.problems import FiniteSumProblem, Records
from skdp.problems.records import Part
from skdp.solvers import resolve_solver, solve_certified

#: Training and validation records of some splits.
Parts = Iterable[tuple[Records, Records]]


def check_folds(n_records: int, n_folds: int | None) -> None:
    """Refuse numbers of folds that do not fit the number of records; None is all in one."""
    if n_folds is not None:
        check_count("n_folds", n_folds, 2, n_records)


def folds(n_records: int, n_folds: int | None, noise: NoiseSource) -> list[Part]:
    """Draw folds of records of equal size, give or take one; or one of all records for None."""
    if n_folds is None:
        return [slice(None)]
    order = random_order(n_records, noise)
    return [order[k::n_folds] for k in range(n_folds)]


@dataclass(frozen=True, kw_only=True)
class Splits:
    """Splits of records, and how far one record moves a mean over the splits.

    Parameters
    ----------
    n_records : int
    n_folds : int or None, default=None
        None: one split, places of even number train and those of odd number validate. An integer K:
        K splits; in the k-th one places with ``i % K == k`` validate and all others train. Places
        are those in a secret random order.
    """

    n_records: int
    n_folds: int | None = None

    def __post_init__(self) -> None:
        if self.n_records < 2:
            raise ValueError(f"n_samples={self.n_records}, must be at least 2.")
        check_folds(self.n_records, self.n_folds)

    def places(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Places of the training and of the validation records of each split."""
        place = np.arange(self.n_records)
        if self.n_folds is None:
            yield place[::2], place[1::2]
            return
        for k in range(self.n_folds):
            fold = slice(k, None, self.n_folds)
            yield np.delete(place, fold), place[fold]

    def of(self, records: Records, order: np.ndarray) -> Iterator[tuple[Records, Records]]:
        """Copy the training and the validation records of each split, one split after another.

        `order` is the unit at each place, a person or a record, drawn by :func:`random_order`.
        """
        for train, validation in self.places():
            parts = [records.records_of(order[part]) for part in (train, validation)]
            yield records.take(parts[0]), records.take(parts[1])

    def sensitivity(self, train: float, validation: float) -> float:
        """Bound how far the mean over the splits moves when one record is replaced.

        A record that trains among m moves the value of its split by ``train / m``, one that
        validates among m by ``validation / m``. In one split it has one of the roles: the larger
        of the two counts. In K splits it validates once and trains K - 1 times:
        ``(validation / m' + (K - 1) train / m) / K`` with the smallest sets.
        """
        n, folds = self.n_records, self.n_folds
        if folds is None:
            return max(train / (n - n // 2), validation / (n // 2))
        largest = -(-n // folds)
        return (validation / (n // folds) + (folds - 1) * train / (n - largest)) / folds


def solve_splits(
    parts: Parts, objective: TuningObjective, alpha: np.ndarray, accuracy: float, run: Run
) -> Iterator[tuple[FiniteSumProblem, FiniteSumProblem, np.ndarray]]:
    """Yield the whitened problems of each split and the minimiser of the first: not private."""
    solver = resolve_solver(run.solver)
    for train, validation in parts:
        problem = objective.problem(train, alpha)
        found = solve_certified(problem, 0.5 * accuracy, solver, rng=run.rng)
        yield problem, objective.problem(validation, alpha), found.point


@dataclass(frozen=True, kw_only=True)
class HeldOutPlan(SplitPlan):
    """Choose alpha by the exact minimisers' losses on held-out records, then fit.

    For squared and log loss; ``delta == 0`` is possible. K folds (:class:`Splits`) need K solves
    per value of alpha and have less noise.
    """

    n_folds: int | None = None

    @property
    def splits(self) -> Splits:
        return Splits(n_records=self.objective.n_records, n_folds=self.n_folds)

    @property
    def weakest(self) -> np.ndarray:
        """The lower bounds of alpha: what is refused at some alpha is refused there."""
        return np.full(self.objective.penalties.n_groups, self.objective.penalties.low)

    def to_dict(self) -> dict[str, Any]:
        return {"n_folds": self.n_folds, "tune_share": float(self.tune_share)}

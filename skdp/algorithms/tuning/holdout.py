"""Validation on held-out records, which are drawn in a secret random order of units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from skdp.algorithms.plan import Run
from skdp.algorithms.tuning.final_fit import SplitPlan
from skdp.algorithms.tuning.objective import TuningObjective
from skdp.problems import FiniteSumProblem, Records
from skdp.solvers import resolve_solver, solve_certified

#: Training and validation records.
Parts = tuple[Records, Records]


@dataclass(frozen=True, kw_only=True)
class Holdout:
    """A half of the units that trains and one that validates, and how far a record moves a mean.

    Places of even number train and those of odd number validate, in a secret random order.

    Parameters
    ----------
    n_records : int
    """

    n_records: int

    def __post_init__(self) -> None:
        if self.n_records < 2:
            raise ValueError(f"n_samples={self.n_records}, must be at least 2.")

    def of(self, records: Records, order: np.ndarray) -> Parts:
        """Copy the training and the validation records.

        `order` is the unit at each place, a person or a record, drawn by :func:`random_order`.
        """
        train, validation = (records.records_of(order[start::2]) for start in (0, 1))
        return records.take(train), records.take(validation)

    def sensitivity(self, train: float, validation: float) -> float:
        """Bound how far a mean over the validation records moves when one record is replaced.

        A record that trains among m moves it by ``train / m``, one that validates among m by
        ``validation / m``. It has one of the roles: the larger of the two counts.
        """
        n = self.n_records
        return max(train / (n - n // 2), validation / (n // 2))


def solve_held_out(
    parts: Parts, objective: TuningObjective, alpha: np.ndarray, accuracy: float, run: Run
) -> tuple[FiniteSumProblem, FiniteSumProblem, np.ndarray]:
    """Return the whitened problems of both parts and the minimiser of the first: not private."""
    train, validation = (objective.problem(part, alpha) for part in parts)
    solver = resolve_solver(run.solver)
    found = solve_certified(train, 0.5 * accuracy, solver, rng=run.rng)
    return train, validation, found.point


@dataclass(frozen=True, kw_only=True)
class HeldOutPlan(SplitPlan):
    """Choose alpha by the exact minimisers' losses on held-out records, then fit.

    For squared and log loss; ``delta == 0`` is possible.
    """

    @property
    def holdout(self) -> Holdout:
        return Holdout(n_records=self.objective.n_records)

    @property
    def weakest(self) -> np.ndarray:
        """The lower bounds of alpha: what is refused at some alpha is refused there."""
        return np.full(self.objective.penalties.n_groups, self.objective.penalties.low)

    def to_dict(self) -> dict[str, Any]:
        return {"tune_share": float(self.tune_share)}

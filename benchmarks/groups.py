"""Data with groups, split for training and testing, and their minimax model without privacy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from skdp.problems import Design, EmpiricalRisk, GroupWeights, Loss, MaxGroupLossProblem, Records
from skdp.solvers import solve_certified

INTERCEPT, ALPHA = 0.1, 1e-4


@dataclass(frozen=True)
class Data:
    """Records for training and for testing, and what is public about the groups."""

    name: str
    X: np.ndarray
    y: np.ndarray
    groups: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    groups_test: np.ndarray
    shares: dict[str, float]

    @property
    def names(self) -> list[str]:
        return sorted(self.shares)

    @property
    def members(self) -> dict[str, np.ndarray]:
        """Test records of each group."""
        return {name: self.groups_test == name for name in self.names}

    def scores(self, margins: np.ndarray) -> dict[str, Any]:
        """On the test records with labels 0 and 1: of the worst group, and of all."""
        right = (margins > 0) == (self.y_test == 1)
        loss = np.logaddexp(0.0, -np.where(self.y_test == 1, margins, -margins))
        losses = {name: float(loss[rows].mean()) for name, rows in self.members.items()}
        return {
            "worst_accuracy": min(float(right[rows].mean()) for rows in self.members.values()),
            "worst_log_loss": max(losses.values()),
            "worst_group": max(losses, key=losses.__getitem__),
            "accuracy": float(right.mean()),
            "log_loss": float(loss.mean()),
        }


def divided(
    name: str,
    records: tuple[np.ndarray, np.ndarray, np.ndarray],
    n: int,
    shares: dict[str, float],
    order: np.ndarray | None = None,
) -> Data:
    """Rows, targets and groups, of which the first n, or those of `order`, are for training."""
    if order is not None:
        records = tuple(part[order] for part in records)  # type: ignore[assignment]
    return Data(name, *(part[:n] for part in records), *(part[n:] for part in records), shares)


def unit_rows(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """Isotropic rows of norm 1."""
    X = rng.standard_normal((n, d))
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def problem_of(data: Data, loss: Loss, stretch: float = 1.0) -> MaxGroupLossProblem:
    """The largest loss of a group, by the shares, in the ball of a good predictor."""
    rows, shares = Records(data.X, 1.0, INTERCEPT), [data.shares[name] for name in data.names]
    weights = GroupWeights.of_proportions(shares, max(10.0, 1.0 / min(shares)))
    codes = np.searchsorted(data.names, data.groups)
    radius = stretch * EmpiricalRisk(loss).reference_norm(Design.of(rows))
    targets = data.y.astype(float)
    return MaxGroupLossProblem(
        rows.with_targets(targets, codes), loss, weights, radius, ALPHA, ALPHA
    )


def minimax(problem: MaxGroupLossProblem) -> np.ndarray:
    """Minimise the largest loss of a group in the training records."""
    accuracy = 1e-3 * problem.constants.localisation
    return solve_certified(problem, accuracy, rng=np.random.default_rng(0)).x


def predicted(point: np.ndarray, X: np.ndarray) -> np.ndarray:
    return X @ point[:-1] + INTERCEPT * point[-1]

"""Searches for neighbours that move the saddle point of groups' losses further than is claimed.

Attacked are ``sensitivity_x`` (Euclidean) and ``argmin_sensitivity`` (norm M) of
:class:`MaxGroupLossProblem`. Neighbours differ in one record: features, target and group. Proofs:
docs/theory/saddle.md, "Groups".
"""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest

from skdp.problems import (
    GroupWeights,
    HalfSquaredLoss,
    HingeLoss,
    LogisticLoss,
    MaxGroupLossProblem,
    Records,
    SmoothedLoss,
    SoftmaxLoss,
)
from skdp.solvers import certifiable_saddle_accuracy, solve_certified

#: Nearly linear up to the kink: its records can have every loss and gradient that is allowed.
HINGE = SmoothedLoss(HingeLoss(), 2e-3)
LOSSES = {
    "logistic": LogisticLoss(),
    "squared": HalfSquaredLoss(1.0),
    "hinge": SmoothedLoss(HingeLoss(), 0.05),
    "softmax": SoftmaxLoss(3),
}


@dataclass(frozen=True)
class Instance:
    """All that is public, and the records."""

    X: np.ndarray
    targets: np.ndarray
    groups: np.ndarray
    loss: object
    weights: GroupWeights
    radius: float
    mu_x: float
    mu_y: float
    center_x: np.ndarray | None = None
    center_y: np.ndarray | None = None

    def problem(self):
        return MaxGroupLossProblem(
            Records(self.X, 1.0, targets=self.targets, groups=self.groups), self.loss, self.weights,
            self.radius, self.mu_x, self.mu_y,
        ).with_regularisers(self.mu_x, self.mu_y, self.center_x, self.center_y)  # fmt: skip

    def with_solution(self, x, y):
        """With the centres that make this feasible pair the saddle point."""
        slope_x, slope_y = self.problem().data_operator(x, y)
        return replace(self, center_x=x + slope_x / self.mu_x, center_y=y + slope_y / self.mu_y)

    def neighbour(self, row, target, group):
        """Record 0 replaced."""
        X, targets, groups = self.X.copy(), self.targets.copy(), self.groups.copy()
        X[0], targets[0], groups[0] = row, target, group
        return replace(self, X=X, targets=targets, groups=groups)


def solution(problem):
    c = problem.constants
    accuracy = max(min(1e-10, 1e-7 * c.sensitivity), certifiable_saddle_accuracy(c))
    return solve_certified(problem, accuracy)


def ratios(first, second):
    """Movements of x and, in the norm M, of the pair over their bounds; above these it fails."""
    one, other = (solution(instance.problem()) for instance in (first, second))
    c = first.problem().constants
    dx, dy = np.linalg.norm(one.x - other.x), np.linalg.norm(one.y - other.y)
    moved, limit = np.array([dx, c.norm(dx, dy)]), np.array([c.sensitivity_x, c.sensitivity])
    slack = (one.distance + other.distance) * np.array([1.0 / math.sqrt(c.x.modulus), 1.0])
    assert (slack <= 1e-6 * limit).all(), "the attack's solver is not accurate"
    assert (moved <= limit * (1 + 1e-6)).all()
    return moved / limit


def signs(mean, n):
    """n numbers 1 and -1 with this mean, as nearly as possible, as a column."""
    return np.where(np.arange(n) < round(0.5 * (1 + mean) * n), 1.0, -1.0)[:, None]


def wanted_coupling(problem, pair):
    """The coupling of x and y that attains the bound of x for this pair of ranges (Lemma 1)."""
    mu_x, mu_y = problem.constants.moduli
    angle = math.atan2(pair[1] / math.sqrt(mu_y), pair[0] / math.sqrt(mu_x))
    return math.sqrt(mu_x * mu_y) * math.tan(0.5 * angle)


def between_groups(loss, coupled, weights, n=8000, radius=1e-3):
    """A record goes from group 0 to group 1, and its row to the opposite one.

    Near w = 0 all losses are alike and large, and slopes as long as they can be. Both groups have
    the largest weight, but for what it moves by. Curved losses count little beside a large mu_x.
    """
    mu_x, mu_y = (1.0, 0.04) if loss is LOSSES["hinge"] else (100.0, 3e-4)
    domain = weights.domain
    groups = np.repeat(
        np.arange(weights.n_groups), np.round(n * np.array(domain.shares)).astype(int)
    )
    squared = isinstance(loss, HalfSquaredLoss)
    targets = np.full(n, loss.target_bound) if squared else np.zeros(n, dtype=int)
    shell = Instance(np.ones((n, 1)), targets, groups, loss, weights, radius, mu_x, mu_y)
    slope, mean, problem = loss.lipschitz(1.0, radius), 0.0, shell.problem()
    p = np.array(domain.shares[:2])
    if coupled:  # slopes of opposite means
        coupling = wanted_coupling(problem, problem.constants.ranges[1])
        mean = min(1.0, coupling / (math.sqrt(2.0) * p[0] * slope))
    row = -1.0 if squared or loss.n_outputs > 1 else 1.0
    sizes = np.bincount(groups)
    means = (mean, -mean, 0.0)[: weights.n_groups]
    X = np.concatenate([row * signs(m, size) for m, size in zip(means, sizes, strict=True)])
    y = np.minimum(domain.upper, 0.5 / p[0])[:2]
    if domain.largest > 1.0 and weights.n_groups > 2:
        y = y - np.array([0.0, problem.constants.sensitivity_y])
    rest = [(1.0 - p @ y) / domain.shares[2]] if weights.n_groups > 2 else []
    start = replace(shell, X=X).with_solution(np.zeros(loss.n_outputs), np.array([*y, *rest]))
    return ratios(start, start.neighbour(-X[0], targets[0], 1))


EXTREMES = {
    "two halves": GroupWeights.of_proportions((0.5, 0.5), 2.0),
    "two quarters": GroupWeights.of_proportions((0.25, 0.25, 0.5), 1.5),
}


@pytest.mark.parametrize("shares", EXTREMES)
@pytest.mark.parametrize("name", LOSSES)
def test_bounds_are_attained_by_a_change_of_group(name, shares):
    """Mode A, all losses: within 2 and 1 %; of two quarters both have the weight W."""
    weights = EXTREMES[shares]
    assert between_groups(LOSSES[name], True, weights)[0] > 0.98
    assert between_groups(LOSSES[name], False, weights)[1] > 0.99


def within_group(n_groups, coupled, weights, mu_x=1.0, mu_y=2.0, n=1200):
    """A record of group 0 goes from the largest loss to none, and to the opposite slope.

    Where x w = 1 for a row x, w is on the sphere; all weight is on group 0 before.
    """
    radius, size = 1.0 - HINGE.width, n // n_groups
    groups, targets = np.repeat(np.arange(n_groups), size), np.ones(n, dtype=int)
    shell = Instance(np.ones((n, 1)), targets, groups, HINGE, weights, radius, mu_x, mu_y)
    problem, mean = shell.problem(), 0.0
    if coupled:
        coupling = wanted_coupling(problem, problem.constants.ranges[0])
        mean = min(1.0, coupling / math.sqrt(1.0 - 1.0 / n_groups))
    others = [signs(0.5 * mean, size)] * (n_groups - 1)
    X = np.concatenate([signs(-0.5 * mean, size)[::-1], *others])
    x = np.array([radius - problem.constants.sensitivity_x])
    start = replace(shell, X=X).with_solution(x, n_groups * np.eye(n_groups)[0])
    return ratios(start, start.neighbour(-X[0], 1, 0))


@pytest.mark.parametrize("n_groups", [2, 3, 5])
def test_bounds_are_attained_by_public_groups(n_groups):
    """Mode B: without the factor sqrt(1 - 1/G) the second ratio would be 0.91 for two groups."""
    weights = GroupWeights((float(n_groups),) * n_groups, public_groups=True)
    assert within_group(n_groups, True, weights)[0] > 0.99
    assert within_group(n_groups, False, weights)[1] > 0.99

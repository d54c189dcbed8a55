"""Searches for neighbours that move the saddle point of groups' losses further than is claimed.

Attacked are ``sensitivity_x`` (Euclidean) and ``argmin_sensitivity`` (norm M) of
:class:`MaxGroupLossProblem`. Neighbours differ in one record: features, target and group. Proofs:
docs/theory/saddle.md, "Groups".
"""

import itertools
import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest

from skdp.problems import (
    Design,
    GroupWeights,
    HalfSquaredLoss,
    HingeLoss,
    LogisticLoss,
    MaxGroupLossProblem,
    Records,
    SmoothedLoss,
    SoftmaxLoss,
)
from skdp.problems.rounding import two_sums
from skdp.problems.saddle import block_sensitivity, joint_sensitivity
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
            self.radius, self.mu_x, self.mu_y, self.center_x, self.center_y,
        )  # fmt: skip

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


def movement(first, second):
    """Movements of x and, in the norm M, of the pair; and how much of them may be inaccuracy."""
    one, other = (solution(instance.problem()) for instance in (first, second))
    c = first.problem().constants
    slack = one.distance + other.distance
    dx, dy = np.linalg.norm(one.x - other.x), np.linalg.norm(one.y - other.y)
    return np.array([dx, c.norm(dx, dy)]), np.array([slack / math.sqrt(c.x.modulus), slack])


def bounds(instance):
    c = instance.problem().constants
    return np.array([c.sensitivity_x, c.sensitivity])


def ratios(first, second):
    """Movements over their bounds, x and norm M; fails where one is provably above."""
    moved, slack = movement(first, second)
    limit = bounds(first)
    assert (slack <= 1e-6 * limit).all(), "the attack's solver is not accurate"
    assert (moved <= limit * (1 + 1e-6)).all()
    return moved / limit


# ------------------------------------------------------------------------- attained bounds


def signs(mean, n):
    """n numbers 1 and -1 with this mean, as nearly as possible, as a column."""
    return np.where(np.arange(n) < round(0.5 * (1 + mean) * n), 1.0, -1.0)[:, None]


def wanted_coupling(problem, pair):
    """The coupling of x and y that attains the bound of x for this pair of ranges (Lemma 1)."""
    mu_x, mu_y = problem.constants.moduli
    angle = math.atan2(pair[1] / math.sqrt(mu_y), pair[0] / math.sqrt(mu_x))
    return math.sqrt(mu_x * mu_y) * math.tan(0.5 * angle)


def between_groups(loss, coupled, mu_x=100.0, mu_y=5e-3, n=4000, radius=1.5e-3):
    """A record goes to the other group, and its row to the opposite one.

    Near w = 0 all losses are alike and large, and slopes as long as they can be.
    """
    half, weights, groups = n // 2, GroupWeights((2.0, 2.0)), np.repeat([0, 1], n // 2)
    squared = isinstance(loss, HalfSquaredLoss)
    targets = np.full(n, loss.target_bound) if squared else np.zeros(n, dtype=int)
    shell = Instance(np.ones((n, 1)), targets, groups, loss, weights, radius, mu_x, mu_y)
    slope, mean = loss.lipschitz(1.0, radius), 0.0
    if coupled:  # slopes of opposite means
        problem = shell.problem()
        coupling = wanted_coupling(problem, problem.constants.ranges[1])
        mean = min(1.0, coupling / (math.sqrt(2.0) * slope))
    row = -1.0 if squared or loss.n_outputs > 1 else 1.0
    X = np.concatenate([row * signs(mean, half), row * signs(-mean, half)])
    start = replace(shell, X=X).with_solution(np.zeros(loss.n_outputs), np.full(2, 0.5))
    return ratios(start, start.neighbour(-X[0], targets[0], 1))


@pytest.mark.parametrize("name", LOSSES)
def test_bounds_are_attained_by_a_change_of_group(name):
    """Mode A, all losses: the bound of x and that of the norm M, within 1 %."""
    assert between_groups(LOSSES[name], coupled=True)[0] > 0.99
    assert between_groups(LOSSES[name], coupled=False)[1] > 0.99


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
    start = replace(shell, X=X).with_solution(x, np.eye(n_groups)[0])
    return ratios(start, start.neighbour(-X[0], 1, 0))


@pytest.mark.parametrize("n_groups", [2, 3, 5])
def test_bounds_are_attained_by_public_groups(n_groups):
    """Mode B: without the factor sqrt(1 - 1/G) the second ratio would be 0.91 for two groups."""
    weights = GroupWeights((float(n_groups),) * n_groups, public_groups=True)
    assert within_group(n_groups, True, weights)[0] > 0.99
    assert within_group(n_groups, False, weights)[1] > 0.99


def across_the_floor(mu_x=1.0, mu_y=2.0, n_floor=500):
    """A record leaves a group just above the floor for one just below it.

    It is the only one of its group that has a loss, and has the opposite slope.
    """
    radius, sizes = 1.0 - HINGE.width, [n_floor + 1, n_floor - 1]
    n, weights = 2 * n_floor, GroupWeights((2.0, 2.0), clipped=True)
    groups, targets = np.repeat([0, 1], sizes), np.ones(n, dtype=int)
    X = np.ones((n, 1))
    X[0] = -1.0
    shell = Instance(X, targets, groups, HINGE, weights, radius, mu_x, mu_y)
    x = np.array([radius - bounds(shell)[0]])
    start = shell.with_solution(x, np.array([1.0, 0.0]))
    return ratios(start, start.neighbour([-1.0], 1, 1))


def test_bounds_are_attained_by_clipped_weights():
    """Mode E. For x alone only where the weights are hardly free, G_y^2 / mu_y << G_x^2 / mu_x."""
    assert across_the_floor()[1] > 0.99
    assert across_the_floor(mu_y=100.0)[0] > 0.99


# ------------------------------------------------------------------------- directed searches

N = 24


def decode(genes, mode, loss):
    """Genes of [-1, 1] to an instance with a saddle point at a chosen place, and a neighbour."""
    take = iter(genes)

    def number(low, high):
        return low + (high - low) * 0.5 * (1.0 + next(take))

    d = 1 if loss.n_outputs > 1 else 2
    n_groups = 2 if next(take) < 0 else 3

    def record():
        row = np.array([next(take) for _ in range(d)])
        length = np.linalg.norm(row)
        row *= min(1.0, 1.5 * length) / max(length, 1e-12)
        level = next(take)
        if isinstance(loss, HalfSquaredLoss):
            target = float(np.clip(1.5 * level, -1, 1))
        else:
            target = int(number_of(level, 3 if loss.n_outputs > 1 else 2))
        return row, target, number_of(next(take), n_groups)

    kinds = [record() for _ in range(5)]
    cuts = np.sort([number(0, N - 1) for _ in range(3)]).astype(int)
    which = np.concatenate([[0], 1 + np.searchsorted(cuts, np.arange(N - 1), side="right") % 3])
    X = np.array([kinds[k][0] for k in which])
    targets = np.array([kinds[k][1] for k in which])
    groups = np.array([kinds[k][2] for k in which])
    row, target, group = kinds[4]
    proportions = np.bincount(groups, minlength=n_groups) / N
    cap, noise = number(1.5, 8.0), np.array([next(take) for _ in range(3)])[:n_groups]
    if mode == "public":
        group = groups[0]
        weights = GroupWeights.of_proportions(proportions, cap, public_groups=True)
    elif mode == "right":
        weights = GroupWeights.of_proportions(proportions, cap)
    elif mode == "noisy":
        weights = GroupWeights.of_proportions(np.maximum(proportions + 0.3 * noise, 0), cap)
    elif mode == "wrong":
        weights = GroupWeights.of_proportions(np.exp(noise) / np.exp(noise).sum(), cap)
    else:  # a floor about the size of the group that the record is in, or anywhere
        at = N * proportions[groups[0]] + noise[0] if next(take) < 0 else number(0.5, N)
        weights = GroupWeights((N / min(max(at, 0.5), N),) * n_groups, clipped=True)
    # moduli that let the domains be a few times as large as the movement
    radius = 10.0 ** number(-3, 0.5)
    lipschitz, largest = loss.lipschitz(1.0, radius), loss.largest_value(1.0, radius)
    mu_x = weights.bound * lipschitz / (N * radius) * 10.0 ** number(0, 3)
    mu_y = weights.bound * largest / N * 10.0 ** number(0, 3)
    instance = Instance(X, targets, groups, loss, weights, radius, mu_x, mu_y)
    problem = instance.problem()
    x = np.array([next(take) for _ in range(problem.constants.x.dimension)])
    x = problem.domain_x.project(2 * radius * x)
    y = problem.domain_y.project(np.array([next(take) for _ in range(n_groups)]))
    start = instance.with_solution(x, y)
    return start, start.neighbour(row, target, group)


def number_of(level, count):
    return min(int((level + 1) / 2 * count), count - 1)


def climb(mode, loss, target, seed, n_random=20, n_steps=40):
    """Best ratio found by random restarts and changes of a few genes at a time."""
    rng = np.random.default_rng(seed)
    best, at = -1.0, None

    def value(genes):
        ends = decode(genes, mode, loss)
        found = ratios(*ends)[target] * bounds(ends[0])[target]
        # where the domain's diameter is the bound, it is no merit to attain it
        c = ends[0].problem().constants
        return found / (block_sensitivity, joint_sensitivity)[target](c.ranges, c.moduli, N)

    for k in range(n_random + n_steps):
        if k < n_random:
            genes = rng.uniform(-1, 1, size=48)
        else:
            some = rng.random(48) < 0.15
            genes = np.where(some, np.clip(at + 0.5 * rng.normal(size=48), -1, 1), at)
        found = value(genes)
        if found > best:
            best, at = found, genes
    return best


@pytest.mark.mostly("search", 1)
@pytest.mark.parametrize("mode", ["right", "wrong", "noisy", "public", "clipped"])
@pytest.mark.parametrize("name", LOSSES)
def test_climbing_stays_below_the_bounds(mode, name):
    """Modes A (right and wrong proportions), C, B and E; :func:`ratios` fails at a violation."""
    for target, least in enumerate((0.35, 0.5)):
        assert least < climb(mode, LOSSES[name], target, seed=0) <= 1 + 1e-6


def centred(vector):
    return float(np.linalg.norm(vector - vector.mean()))


@pytest.mark.mostly("search", 2)
@pytest.mark.parametrize("mode", ["wrong", "public", "clipped"])
@pytest.mark.parametrize("name", LOSSES)
def test_operators_of_neighbours(mode, name):
    """What Lemma 1 needs: one pair of ranges covers both blocks, y without its mean."""
    rng = np.random.default_rng(3)
    for _ in range(60):
        ends = [end.problem() for end in decode(rng.uniform(-1, 1, size=48), mode, LOSSES[name])]
        c, n_groups = ends[0].constants, ends[0].weights.n_groups
        for k in range(4):
            x = rng.normal(size=c.x.dimension)
            x *= c.x.radius / np.linalg.norm(x)
            y = np.eye(n_groups)[k % n_groups] if k < 3 else rng.dirichlet(np.ones(n_groups))
            (x1, y1), (x2, y2) = (end.data_operator(x, y) for end in ends)
            dx, dy = N * np.linalg.norm(x1 - x2), N * centred(y1 - y2)
            slack = 1 + 1e-9
            assert any(dx <= g_x * slack and dy <= g_y * slack for g_x, g_y in c.ranges)


def test_the_range_of_y_is_not_that_of_the_raw_gradient():
    """Whoever needs the norm of the difference itself may not take it (docs/theory, Lemma 9)."""
    weights = GroupWeights((2.0, 2.0), public_groups=True)
    shell = Instance(
        np.array([[1.0], [-1.0]]), np.ones(2, dtype=int), np.array([0, 0]), HINGE, weights,
        1.0 - HINGE.width, 1.0, 1.0,
    )  # fmt: skip
    x, y = np.array([shell.radius]), np.array([0.5, 0.5])
    ends = shell.problem(), shell.neighbour([-1.0], 1, 0).problem()
    change = 2 * (ends[0].data_operator(x, y)[1] - ends[1].data_operator(x, y)[1])
    allowed = ends[0].constants.ranges[0][1]
    assert 0.99 * allowed < centred(change) <= allowed
    assert np.linalg.norm(change) > 1.4 * allowed
    project, free = ends[0].domain_y.project, np.array([0.3, -0.2])
    np.testing.assert_allclose(project(free + 5.0), project(free), atol=1e-15)


def test_clipped_weights_of_all_small_data_sets():
    """Losses 0 and 1, gradients 0, e_1 and e_2 (L = 1, D = sqrt(2)): all sets of 5 records.

    Floors at, between and beyond sizes of groups. ``max(L, D)`` covers x, which is below 2 L.
    """
    losses, slopes = np.array([0, 1]), np.array([[0, 0], [1, 0], [0, 1]])
    kinds = [(g, f, *s) for g in (0, 1) for f in losses for s in slopes]
    table = np.array(kinds, dtype=float)
    rest = np.array(list(itertools.combinations_with_replacement(range(len(kinds)), 4)))
    # by group: size, loss, gradient; summed over the four records that stay
    parts = np.array([[(table[:, 0] == g) * column for column in (np.ones(12), *table.T[1:])]
                      for g in (0, 1)]).transpose(2, 0, 1)  # fmt: skip
    sums = parts[rest].sum(axis=1)[:, None] + parts  # of every set of five, by its last record
    for floor in (0.3, 1.0, 1.4, 2.0, 2.5, 2.9, 3.0, 4.0, 4.7, 5.0):
        weights = GroupWeights((5 / floor,) * 2, clipped=True)
        scale = np.array([weights.of_counts(np.array([m, 5 - m]), 5) for m in range(6)])
        means = sums[..., 1:] * scale[sums[..., 0, 0].astype(int)][..., None]  # times n
        change = means[:, :, None] - means[:, None]
        slope = np.linalg.norm(change[..., 1:], axis=-1).max()
        level = np.linalg.norm(change[..., 0], axis=-1).max()
        (range_x, range_y), slack = weights.ranges(1.0, math.sqrt(2.0), 1.0)[0], 1 + 1e-12
        assert slope <= range_x * slack and slope <= math.sqrt(2.0) * weights.bound * slack
        assert level <= range_y * slack


@pytest.mark.parametrize("is_slack", [False, True])
def test_clipped_weights_of_persons(is_slack):
    """Lemma F of docs/theory/persons.md: persons are mixtures of records, or parts of mixtures."""
    rng, n, floors = np.random.default_rng(0), 5, (0.3, 1.0, 1.4, 2.0, 2.9, 4.7)
    slopes = ((0, 0), (1, 0), (0, 1))
    kinds = np.array([(1, f, *s) for f in (0, 1) for s in slopes], dtype=float)  # 1: the size
    table = np.einsum("ga,kc->gkac", np.eye(2), kinds).reshape(12, 2, 4)

    def some(size):
        mixtures = rng.dirichlet(np.full(12, 0.1), size)
        mixtures *= rng.choice([0.0, 0.01, 1.0], (*size, 1)) if is_slack else 1.0
        return np.tensordot(mixtures, table, axes=1)

    own = np.concatenate([some((24,)), table, np.zeros((int(is_slack), 2, 4))])
    sums = some((60, n - 1)).sum(axis=1)[:, None] + own
    reached = []
    for floor in floors:
        weights = GroupWeights((n / floor,) * 2, clipped=True)
        means = sums[..., 1:] * weights.of_counts(sums[..., 0], n)[..., None]
        change = means[:, :, None] - means[:, None]
        slope = np.linalg.norm(change[..., 1:], axis=-1).max()
        level = np.linalg.norm(change[..., 0], axis=-1).max()
        range_x, range_y = weights.ranges(1.0, math.sqrt(2.0), 1.0)[0]
        reached.append((slope / range_x, level / range_y))
    assert np.max(reached) <= 1.0 + 1e-12
    assert np.max(reached, axis=0) == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("loss", [LogisticLoss(), SoftmaxLoss(3)], ids=repr)
def test_rounding_of_the_sizes_of_groups(loss):
    """Sums of weights are rounded, and so is the weight of each group: two data sets together."""
    rng, n = np.random.default_rng(0), 300
    ids = np.repeat(np.arange(n), rng.integers(1, 40, n))
    groups, c = rng.integers(2, size=len(ids)), 3.0
    weights = GroupWeights((c, c), clipped=True)
    targets = np.ones(len(ids), dtype=int)
    records = Records(np.ones((len(ids), 1)), 1.0, targets=targets, groups=groups)
    records = records.of_persons(ids, None)
    problem = MaxGroupLossProblem(records, loss, weights, 1.0, 1.0, 1.0)
    exact = [Fraction(0)] * 2
    for share, group in zip(records.shares, groups, strict=True):
        exact[group] += Fraction(float(share))
    design = Design.of(records)
    rounding = n * two_sums(design.n_terms)
    for size, factor in zip(exact, problem.multipliers, strict=True):
        wrong = abs(Fraction(float(factor)) / (n / size) - 1)
        assert 0 < n * wrong <= Fraction(c * rounding / 2.0)
    bounds = loss.lipschitz, loss.gradient_diameter, loss.largest_value
    L, D, B = (bound(1.0, 1.0) for bound in bounds)
    assert problem.constants.ranges == weights.ranges(L, D, B, rounding)
    added = np.subtract(problem.constants.ranges, weights.ranges(L, D, B))[0]
    np.testing.assert_allclose(added, c * rounding * np.array([L, math.sqrt(2.0) * B]), rtol=1e-3)


# ------------------------------------------------------------------------- what is not private


def test_the_level_of_a_loss_counts_and_not_its_range():
    """Two groups between which a record moves: the level of its loss counts."""
    n, radius = 100, 0.01
    X, groups = np.repeat([[-1.0], [1.0]], n // 2, axis=0), np.repeat([0, 1], n // 2)
    loss, weights = LogisticLoss(), GroupWeights.of_proportions([0.5, 0.5], 10.0)
    start = Instance(
        X, np.ones(n, dtype=int), groups, loss, weights, radius, 250.0, 0.011088,
        center_y=np.array([1.0, 0.0]),
    )  # fmt: skip
    end = start.neighbour([1.0], 1, 1)
    assert 0.6 < ratios(start, end)[0] <= 1
    one = (loss.lipschitz(1.0, radius), loss.gradient_diameter(1.0, radius))
    wrong = block_sensitivity(
        weights.ranges(*one, loss.value_range(1.0, radius)), (250.0, 0.011088), n
    )
    assert movement(start, end)[0][0] > 30 * wrong


def with_own_sizes(instance, n_groups):
    """What is not private: the means of the groups, by their actual sizes."""
    counts = np.bincount(instance.groups, minlength=n_groups)
    shares = len(instance.groups) / np.maximum(counts, 1)
    return replace(instance, weights=GroupWeights(tuple(shares)))


@pytest.mark.parametrize(("n", "factor"), [(100, 7), (1000, 70)])
def test_means_of_groups_are_not_private(n, factor):
    """The only record of a group leaves it; bound by the other groups' sizes.

    The movement does not shrink with n: 7.5 and 75 times the bound in x, 18 and 179 in norm M.
    """
    groups = np.repeat([0, 1], n // 2)
    groups[0] = 2
    X, targets = signs(0.0, n), np.ones(n, dtype=int)
    loss = LOSSES["hinge"]
    single = Instance(X, targets, groups, loss, GroupWeights((2.0,) * 3), 0.5, 10.0, 10.0)
    left = single.neighbour([1.0], 1, 0)
    ends = [with_own_sizes(instance, 3) for instance in (single, left)]
    moved, _ = movement(*ends)
    assert (moved > factor * bounds(single)).all()
    assert (ratios(single, left) <= 1).all()

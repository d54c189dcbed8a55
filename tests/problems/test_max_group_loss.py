"""The worst group's loss: derivatives, parts of the records, and constants of every record."""

import itertools
import math

import numpy as np
import pytest
import scipy.sparse as sp
from every_loss import LOSSES, targets_for

from skdp.problems import Ball, BilinearProblem, GroupWeights, MaxGroupLossProblem, Records

MAIN = ("logistic", "softmax", "squared", "hinge")
ROWS = ("dense", "csr", "scaled", "intercept")
N_GROUPS = 3


def rows_of(kind, n, rng):
    X = rng.normal(size=(n, 4))
    if kind == "csr":
        X = sp.csr_array(np.where(rng.random(X.shape) < 0.5, X, 0.0))
    norm = 1.2 if kind in ("scaled", "intercept") else 10.0
    return Records(X, norm, intercept=0.4 if kind == "intercept" else 0.0)


WEIGHTS = GroupWeights.of_proportions((0.5, 0.3, 0.2), 3.0)


def random_problem(name, kind="scaled", n=50, seed=0):
    rng = np.random.default_rng(seed)
    loss = LOSSES[name]
    groups = rng.integers(0, N_GROUPS, size=n)
    rows, targets = rows_of(kind, n, rng), targets_for(loss, rng, n)
    width = loss.n_outputs * rows.width
    return MaxGroupLossProblem(
        rows.with_targets(targets, groups), loss, WEIGHTS, 1.3, 0.3, 0.2
    ).with_regularisers(0.3, 0.2, rng.normal(size=width), rng.normal(size=N_GROUPS))


def point(problem, rng):
    x, y = problem.constants.x.dimension, problem.constants.y.dimension
    return problem.project(rng.normal(size=x), rng.dirichlet(np.ones(y)))


def own_losses(problem, x):
    """Loss of each record, written without the package's sums."""
    X = problem.records.materialise()
    X = X.toarray() if sp.issparse(X) else X
    z = X @ x.reshape(problem.loss.n_outputs, -1).T
    z = z[:, 0] if problem.loss.n_outputs == 1 else z
    return problem.loss.value(z, problem.records.targets)


# ----------------------------------------------------------------------------- derivatives


def bilinear(rng, n=50):
    parts = (rng.normal(size=shape) for shape in ((n, 4, 3), (n, 4), (n, 3)))
    return BilinearProblem(*parts, (1.0, 1.0, 1.0), Ball(1.0), Ball(1.0), 0.5, 2.0)


@pytest.mark.parametrize(
    ("name", "kind"), [*zip(MAIN, ROWS, strict=True), ("bilinear", None), ("softmax", "csr")]
)
def test_derivatives(name, kind):
    """Operator, Hessian and cross derivative by differences; batches average to the whole."""
    rng = np.random.default_rng(1)
    problem = bilinear(rng) if name == "bilinear" else random_problem(name, kind)
    x, y = point(problem, rng)
    if name != "bilinear":
        data = float(y[problem.records.groups] @ own_losses(problem, x)) / 50
        assert problem.value(x, y) - problem.regulariser(x, y) == pytest.approx(data, rel=1e-12)
        np.testing.assert_allclose(problem.group_losses(x), -problem.data_operator(x, y)[1])

    def data_value(x, y):
        return problem.value(x, y) - problem.regulariser(x, y)

    slope_x, slope_y = problem.data_operator(x, y)
    hessian, cross = problem.hessian_x(x, y), problem.cross_derivative(x)
    step, d = 1e-5, x.size
    for k in range(d):
        shift = step * np.eye(d)[k]
        slope = (data_value(x + shift, y) - data_value(x - shift, y)) / (2 * step)
        assert slope == pytest.approx(slope_x[k], abs=1e-8)
        ahead, behind = (problem.data_operator(x + s * shift, y) for s in (1, -1))
        np.testing.assert_allclose((ahead[0] - behind[0]) / (2 * step), hessian[k], atol=1e-7)
        np.testing.assert_allclose((behind[1] - ahead[1]) / (2 * step), cross[:, k], atol=1e-7)
    for g in range(N_GROUPS):
        shift = step * np.eye(N_GROUPS)[g]
        slope = (data_value(x, y + shift) - data_value(x, y - shift)) / (2 * step)
        assert slope == pytest.approx(-slope_y[g], abs=1e-8)
    total = np.zeros(d + N_GROUPS)
    for part in (np.arange(0, 50, 3), np.arange(1, 50, 3), slice(2, 50, 3)):
        size = len(np.arange(50)[part])
        total += size / 50 * np.concatenate(problem.batch_operator(part, x, y))
    np.testing.assert_allclose(total, np.concatenate([slope_x, slope_y]), atol=1e-14)


@pytest.mark.parametrize("name", MAIN)
def test_best_response(name):
    rng = np.random.default_rng(2)
    for seed, alpha in enumerate((0.02, 1.0)):
        problem = random_problem(name, seed=seed)
        problem = problem.with_regularisers(0.3, alpha, None, rng.normal(size=N_GROUPS))
        x, _ = point(problem, rng)
        y, free, slope, value = problem.best_response(x)
        assert value == pytest.approx(problem.value(x, y), rel=1e-13)
        np.testing.assert_allclose(problem.domain_y.project(free), y, atol=1e-14)
        np.testing.assert_allclose(slope, problem.data_operator(x, y)[0], atol=1e-13)
        climbing = np.full(N_GROUPS, 1 / N_GROUPS)
        for _ in range(60):  # an ascent whose every step halves the distance
            rise = -problem.operator(x, climbing)[1]
            climbing = problem.domain_y.project(climbing + 0.5 / alpha * rise)
        np.testing.assert_allclose(y, climbing, atol=1e-13)
        best = problem.value(x, y)
        others = map(problem.domain_y.project, 5.0 * rng.normal(size=(50, N_GROUPS)))
        assert max(problem.value(x, other) for other in others) <= best


# --------------------------------------------------------------------- records and regularisers


@pytest.mark.parametrize("kind", ROWS)
def test_parts_are_problems_of_their_own(kind):
    problem = random_problem("logistic", kind)
    rng = np.random.default_rng(4)
    some = rng.permutation(50)[:17]
    center_x, center_y = rng.normal(size=problem.constants.x.dimension), rng.dirichlet(np.ones(3))
    part = problem.take(some).with_regularisers(0.7, 0.9, center_x, center_y)
    rows = problem.records
    X = rows.matrix[some]
    direct = MaxGroupLossProblem(
        Records(
            X, rows.data_norm, rows.intercept, targets=rows.targets[some], groups=rows.groups[some]
        ), problem.loss, problem.weights, 1.3, 0.7, 0.9,
    ).with_regularisers(0.7, 0.9, center_x, center_y)  # fmt: skip
    for name in ("ranges", "sensitivity", "sensitivity_x", "condition_number"):
        assert getattr(part.constants, name) == getattr(direct.constants, name)
    assert part.constants.summation_chain >= direct.constants.summation_chain
    x, y = point(problem, rng)
    for one, other in zip(part.operator(x, y), direct.operator(x, y), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-15)
    assert part.value(x, y) == pytest.approx(direct.value(x, y), rel=1e-13)
    assert problem.n_records == 50  # and left alone


# ------------------------------------------------------------------------------- the weights


def test_group_weights():
    weights = GroupWeights.of_proportions([0.75, 0.125, 0.125], 4.0)
    assert weights.largest == (4 / 3, 4.0, 4.0) and weights.shares == (0.75, 0.125, 0.125)
    assert weights.bound == weights.domain.largest == 4.0 and weights.n_groups == 3
    L, D, B, square = 1.0, 1.5, 3.0, 0.75**2 + 2 / 64
    same, across = weights.ranges(L, D, B)
    assert same == pytest.approx((4 * D, B * math.sqrt(1 - 1 / 64 / square)))
    assert across == pytest.approx((8 * L, B * math.sqrt(2)))
    public = GroupWeights.of_proportions([0.75, 0.125, 0.125], 4.0, public_groups=True)
    assert public.ranges(L, D, B) == (same,)
    # two groups: a weight of one is what the other has not
    across = GroupWeights.of_proportions([0.75, 0.25], 4.0).ranges(L, D, B)[1]
    assert across == pytest.approx((4 * L, B / math.sqrt(0.625)))
    assert GroupWeights.of_proportions([0.75, 0.25], 1.0).ranges(L, D, B) == ((D, 0.0), (2 * L, 0))
    assert GroupWeights((2.0,)).ranges(L, D, B) == ((D, 0.0),)
    assert GroupWeights((1.0, 2.0)).domain.shares == (0.5, 0.5)
    # of absent and odd groups: nobody is in the third
    public = GroupWeights.of_proportions([0.5, 0.5, 0.0], 10.0, public_groups=True)
    assert public.largest == (3.0, 3.0, 3.0)
    largest = GroupWeights.of_proportions([0.5, 0.5, 0.0], 10.0).largest
    assert largest == pytest.approx((2.0, 2.0, 10.0), rel=1e-4)
    assert GroupWeights(np.array([2, 3])).largest == (2.0, 3.0)
    hash(GroupWeights([1.0, 2.0]))


# ------------------------------------------------------------------------- public constants


def extreme_records(loss, direction, radius, rng):
    """Rows along and across w, of full length and shorter, with extreme targets."""
    k = loss.n_outputs
    w = direction.reshape(k, -1)
    along = np.linalg.svd(w)[2][0]  # the direction in which margins are largest
    across = rng.normal(size=along.size)
    across -= (across @ along) * along
    across /= np.linalg.norm(across)
    rows = [along, -along, across, -across, 0.5 * along, 0 * along]
    for angle in rng.uniform(0, 2 * math.pi, size=4):
        rows.append(math.cos(angle) * along + math.sin(angle) * across)
    levels = list(range(3 if k > 1 else 2))
    if loss.target_bound:
        levels = [-loss.target_bound, 0.0, loss.target_bound]
    return list(itertools.product(rows, levels))


@pytest.mark.mostly("search", 1)
@pytest.mark.parametrize("name", LOSSES)
def test_constants_hold_for_every_record(name):
    """Each record's own function, and every pair of records, at extreme and random points."""
    loss, rng = LOSSES[name], np.random.default_rng(6)
    weights = GroupWeights.of_proportions((0.5, 0.25, 0.25), 2.0)
    width, attained = 3, np.zeros(6)
    for (radius, scale), trial in itertools.product(
        ((0.05, 2.0), (1.0, 0.7), (1.0, 2.0), (4.0, 2.0)), (0, 3)
    ):
        direction = rng.normal(size=loss.n_outputs * width)
        if trial == 0:  # margins that differ as much as they can
            direction = np.zeros_like(direction)
            direction[::width] = rng.normal(size=loss.n_outputs)
        x = radius * (1.0 if trial < 3 else rng.random()) * direction
        x /= np.linalg.norm(direction) * (1 + 1e-12)
        records = itertools.product(extreme_records(loss, direction, radius, rng), (1, 2))
        slopes, levels = [], []
        for (row, target), g in records:
            problem = MaxGroupLossProblem(
                Records(scale * row[None], scale, targets=np.array([target]), groups=np.array([g])),
                loss, weights, radius, 1.0, 1.0,
            )  # fmt: skip
            c, y, cross = problem.constants, 2.0 * np.eye(3)[g], problem.cross_derivative(x)
            slope_x, slope_y = problem.data_operator(x, y)
            slopes.append(slope_x)
            levels.append(slope_y)
            assert (slope_y <= 0.0).all() and c.y.smoothness == 0.0
            found = (
                np.linalg.norm(slope_x) / c.x.lipschitz,
                np.linalg.norm(slope_y) / c.y.lipschitz,
                np.linalg.norm(problem.hessian_x(x, y), 2) / c.x.smoothness,
                np.linalg.norm(cross, 2) / c.coupling,
            )
            attained[:4] = np.maximum(attained[:4], found)
        slopes, levels = np.array(slopes), np.array(levels)
        groups = np.arange(len(slopes)) % 2
        (same_x, same_y), (other_x, other_y) = c.ranges
        p = np.array(weights.domain.shares)
        for slope, level, g in zip(slopes, levels, groups, strict=True):
            apart_x = np.linalg.norm(slopes - slope, axis=1)
            apart_y = levels - level
            apart_y -= np.outer(apart_y @ p, p) / (p @ p)
            apart_y = np.linalg.norm(apart_y, axis=1)
            same = groups == g
            found = apart_x[same].max() / same_x, apart_y[same].max() / same_y
            attained[4] = max(attained[4], *found)
            # both groups can have the largest weight
            found = apart_x[~same].max() / other_x, apart_y[~same].max() / other_y
            attained[5] = max(attained[5], *found)
    assert (attained <= 1 + 1e-9).all(), attained
    assert (attained > 0.9).all(), attained  # it is able to find what it looks for

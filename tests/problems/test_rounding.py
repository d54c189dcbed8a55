"""Sums in a tree: no term goes through more additions than stated, and gradients profit."""

import itertools
import math

import numpy as np
import pytest

from skdp.algorithms.output.one_shot import plan_output_perturbation
from skdp.methods.choice import METHODS
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import Neighbouring
from skdp.problems import (
    Design,
    EmpiricalRisk,
    FiniteSumProblem,
    GroupWeights,
    HalfSquaredLoss,
    LogisticLoss,
    MaxGroupLossProblem,
    Objective,
    Records,
    WholeSpace,
)
from skdp.problems.bilevel import WeightedLoss
from skdp.problems.rounding import EPS, chain, tree_sum, two_margins, two_norms, two_products
from tests.support.extended_precision import LONG, bounded_rows


class Term:
    """A summand that counts the additions that its oldest part went through."""

    def __init__(self, depth=0, size=1):
        self.depth, self.size = depth, size

    def __iadd__(self, other):
        return Term(max(self.depth, other.depth) + 1, self.size + other.size)


def test_no_term_goes_through_more_additions_than_the_chain():
    closest = 0.0
    for n_blocks in [*range(1, 300), 4095, 4096, 4097, 4352, 65_537]:
        total = tree_sum(Term() for _ in range(n_blocks))
        assert total.size == n_blocks
        bound = chain(n_blocks, 1, 1) - 128 - 1  # without chunks
        assert total.depth <= bound
        closest = max(closest, total.depth / max(bound, 1))
    assert closest >= 0.9  # the bound is about what happens


@pytest.mark.parametrize("n_chunks", [1, 15, 17, 4096, 5000, 16**7])
def test_the_chain_has_room_for_the_trees_over_chunks(n_chunks):
    """In ranges of any length, and one tree over the ranges."""
    for length in {1, 2, 16, 17, 257, 4097, n_chunks}:
        n_ranges = n_chunks // length  # r m <= n_chunks
        if n_ranges:
            levels = sum(-(-math.frexp(count - 1)[1] // 4) for count in (length, n_ranges))
            assert 15 * levels <= 128


def test_chain():
    assert chain(5, 100, 100) == 5 + 128
    assert chain(100, 100, 100) == 100 + 128
    assert chain(101, 100, 100) == 100 + 16 + 128
    assert chain(1601, 100, 100) == 100 + 32 + 128
    assert chain(1e9, 1300, 1300) == 1300 + 16 * 5 + 128
    assert chain(1e9) == 4096 + 16 * 6 + 128
    assert chain(0.5, 10, 10) == 1 + 128
    # more records never have a shorter chain
    for size in (1, 7, 256):
        chains = [chain(n, size, size) for n in range(1, 5000)]
        assert chains == sorted(chains)
    # no size of blocks has a longer one
    for n, size in itertools.product((1, 257, 4097, 10**6, 2**48), (256, 300, 1310, 4096)):
        assert chain(n, size, size) <= chain(n)


def test_tree_sum_of_nothing_numbers_and_tuples():
    assert tree_sum([]) is None
    assert tree_sum([1.0, 2.0, 3.0]) == 6.0
    total = tree_sum((float(k), np.full(2, k)) for k in range(1000))
    assert total[0] == 499_500.0
    np.testing.assert_array_equal(total[1], [499_500, 499_500])
    records = Records(np.empty((0, 3)), 1.0, targets=np.empty(0))
    total = records.total(lambda block: block.pull_back(block.targets))
    np.testing.assert_array_equal(total, np.zeros((1, 3)))


def made_records(n, size, seed=0, dtype=np.float64, data_norm=1.0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.5, 1.0, (n, 3)) / math.sqrt(3.0)  # all of one sign: nothing cancels
    y, groups = np.ones(n), rng.integers(0, 2, n)
    records = Records(X.astype(dtype), data_norm, 0.3, targets=y, groups=groups)
    records.block_size = size
    return records


SIZES = [(1000, 30_001), (1, 300), (7, 5001), (7, 6)]


@pytest.mark.parametrize(
    ("size", "n", "dtype", "data_norm", "kind"),
    [  # with the norms no row is longer, and most are; moments are those of squares
        *((*each, np.float64, 1.0, "log loss") for each in SIZES),
        (1000, 30_001, np.float64, 1.0, "moments"), (7, 5001, np.float64, 0.7, "weighted moments"),
        (1, 300, np.float32, 1.0, "weighted moments"), (7, 6, np.float32, 0.7, "moments"),
    ],
)  # fmt: skip
def test_gradients_are_within_their_bound_of_exact_sums(size, n, dtype, data_norm, kind):
    records = made_records(n, size, dtype=dtype, data_norm=data_norm)
    weights = np.where(np.arange(n) % 2, 0.3, 2.0) if "weighted" in kind else np.ones(n)
    loss = LogisticLoss() if kind == "log loss" else HalfSquaredLoss(1.0)
    if "weighted" in kind:
        loss = WeightedLoss(loss, 2.0, 1.15)
        records = records.with_targets(np.column_stack([records.targets, weights]))
    problem = FiniteSumProblem(records, loss, 0.1, WholeSpace())
    X, computed = bounded_rows(problem), [lambda w: problem.gradient(w)]
    if kind == "log loss":
        computed.append(lambda w: problem.value_and_gradient(w)[1])
        computed.append(lambda w: problem.residuals_and_gradient(w)[1] + 0.1 * w)
        assert problem.pull_back(np.ones(n)) == pytest.approx(
            [math.fsum(column.astype(float)) / n for column in X.T], rel=EPS * chain(n, size, size)
        )
    else:
        problem = problem.with_moments()
        exact = (X.T @ (weights[:, None] * X)).astype(float) / n + 0.1 * np.eye(4)
        np.testing.assert_allclose(problem.hessian(np.zeros(4)), exact, rtol=1e-12)
        assert problem.with_moments() is problem
    for scale in (0.0, 1.0, 30.0):
        w = scale * np.random.default_rng(1).standard_normal(4)
        margins = X @ w.astype(LONG)
        residuals = -1 / (1 + np.exp(margins)) if kind == "log loss" else weights * (margins - 1)
        exact = residuals @ X / n + LONG(0.1) * w.astype(LONG)
        for gradient in computed:
            error = np.linalg.norm((gradient(w) - exact).astype(float))
            assert error <= problem.gradient_rounding(w)


@pytest.mark.parametrize("loss", [HalfSquaredLoss(1.0), LogisticLoss()], ids=str)
@pytest.mark.parametrize(("size", "n"), SIZES)
def test_saddle_operators_are_within_their_bound_of_exact_sums(size, n, loss):
    records = made_records(n, size)
    problem = MaxGroupLossProblem(records, loss, GroupWeights((2.0, 2.0)), 3.0, 1.0, 1.0)
    X, w, y = records.materialise().astype(LONG), np.array([0.4, -0.2, 0.3, 1.0]), [0.6, 1.4]
    margins = X @ w.astype(LONG)
    slopes, losses = margins - 1, (margins - 1) ** 2 / 2
    if loss.n_classes == 2 and not loss.target_bound:
        slopes, losses = -1 / (1 + np.exp(margins)), np.log1p(np.exp(-margins))
    weights = np.array(y, dtype=LONG)[records.groups]
    exact_x = (slopes * weights) @ X / n
    exact_y = [-losses[records.groups == g].sum() / n for g in range(2)]
    allowed = problem.constants.operator_rounding(np.linalg.norm(w), np.linalg.norm(y))
    slope_x, slope_y = problem.data_operator(w, np.array(y))
    assert np.linalg.norm((slope_x - exact_x).astype(float)) <= allowed[0]
    assert np.linalg.norm((slope_y - np.array(exact_y)).astype(float)) <= allowed[1]
    response = problem.best_response(w)
    gradient = problem.data_operator(w, response.y)[0]
    np.testing.assert_allclose(response.gradient, gradient, rtol=1e-12)


@pytest.mark.parametrize(("epsilon", "loss"), [(0.1, LogisticLoss()), (10.0, HalfSquaredLoss(1.0))])
def test_rounding_adds_at_most_3_percent_of_noise_for_a_billion_records(epsilon, loss):
    design, risk, budget = (
        Design(1.0, 50, 10**9),
        EmpiricalRisk(loss),
        PrivacyBudget(epsilon, 1e-10),
    )
    for step in METHODS["phased"].plan(Objective(risk, design), budget).phases:
        assert step.exact_sensitivity <= step.mechanism.sensitivity
        assert step.mechanism.sensitivity <= 1.03 * step.exact_sensitivity
    for alpha in (1e-5, 1e-3, 1.0):
        constants = risk.constants(design, alpha, risk.radius(design, alpha, None))
        plan = plan_output_perturbation(constants, budget)
        exact = constants.argmin_sensitivity(Neighbouring.REPLACE_ONE)
        assert exact <= plan.mechanism.sensitivity <= 1.03 * exact


@pytest.mark.parametrize("d", [1, 40, 700])
def test_a_record_is_computed_with_within_half_of_lemma_4b(d):
    """In orders of the columns and in sums that differ; against extended precision."""
    rng, closest = np.random.default_rng(d), 0.0
    for _ in range(10):
        x = rng.normal(size=d) * 10.0 ** rng.uniform(-3, 3, size=d)
        m = (x + 1e-3 * rng.normal(size=d)) / np.linalg.norm(x)
        records = Records(x[None, :], 1.0)
        row = x.astype(np.longdouble)
        row /= max(np.sqrt((row**2).sum()), 1)
        block = records.block(slice(0, 1))
        sizes = float(np.sqrt((row**2).sum())), float(np.linalg.norm(m))
        margin = abs(float(block.margins(m[None, :])[0] - row @ m))
        square = block.norms()[0] ** 2 - 2.0 * block.margins(m[None, :])[0] + m @ m
        norm = abs(float(square - ((row - m) ** 2).sum()))
        product = np.linalg.norm((block.gram(np.ones(1)) - np.outer(row, row)).astype(float))
        shares = [
            margin / two_margins(d, sizes[0] * sizes[1]),
            norm / two_norms(d, (sizes[0] + sizes[1]) ** 2),
            float(product) / two_products(d, sizes[0] ** 2),
        ]
        assert max(shares) <= 0.5
        closest = max(closest, *shares)
    assert closest > 1e-4  # rounding is seen

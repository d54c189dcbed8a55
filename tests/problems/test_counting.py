"""The counter of gradient evaluations is exact on every path."""

import numpy as np
import scipy.sparse as sp

from skdp.problems import (
    CountedLoss,
    FiniteSumProblem,
    HingeLoss,
    LogisticLoss,
    Records,
    SoftmaxLoss,
    WholeSpace,
)
from skdp.solvers import AugmentedLagrangian


def make(loss, sparse=False, n=101):
    X = np.random.default_rng(0).standard_normal((n, 3))
    targets = (np.arange(n) % 2) if isinstance(loss, SoftmaxLoss) else np.arange(n) % 2.0
    rows = Records(sp.csr_matrix(X) if sparse else X, 1.0, 0.1)
    rows.block_size = 16
    problem = FiniteSumProblem(rows.with_targets(targets), loss, 0.1, WholeSpace())
    problem.loss = CountedLoss(problem.loss)
    return problem, problem.loss


def test_counts():
    for loss in (LogisticLoss(), SoftmaxLoss(3)):
        for sparse in (False, True):
            problem, counted = make(loss, sparse)
            w = np.zeros(problem.dimension)
            problem.gradient(w)
            assert (counted.gradients, counted.hessians, counted.values) == (101, 0, 0)
            problem.value_and_gradient(w)
            assert (counted.gradients, counted.values) == (202, 101)
            problem.residuals_and_gradient(w)
            assert counted.gradients == 303
            problem.batch(slice(3, 101, 7)).residuals(w)
            assert counted.gradients == 303 + 14
            problem.batch(np.array([5, 5, 7])).residuals(w)
            assert counted.gradients == 303 + 17
            problem.hessian(w)
            problem.hessian_vector(w, w)
            assert (counted.gradients, counted.hessians) == (320, 202)
            problem.thinned(10).gradient(w)
            problem.for_solver().gradient(w)
            assert counted.gradients == 320 + 11 + 101
            problem.margins(w)
            problem.pull_back(np.zeros_like(problem.margins(w)))
            assert counted.gradients == 432


def test_a_counted_loss_changes_nothing():
    problem, counted = make(HingeLoss())
    plain = problem.with_loss(HingeLoss())
    assert not problem.is_smooth
    w = np.array([0.3, -0.2, 0.1, 1.0])
    np.testing.assert_array_equal(problem.gradient(w), plain.gradient(w))
    assert problem.value(w) == plain.value(w)
    for mine, theirs in zip(
        counted.pieces(problem.records.targets),
        HingeLoss().pieces(problem.records.targets),
        strict=True,
    ):
        np.testing.assert_array_equal(mine, theirs)
    for name in ("lipschitz", "gradient_diameter", "solution_radius"):
        assert getattr(counted, name)(1.0, 2.0) == getattr(HingeLoss(), name)(1.0, 2.0)
    for name in ("curvature", "curvature_trace", "margin_scale", "n_outputs"):
        assert getattr(counted, name) == getattr(HingeLoss(), name)


def test_the_augmented_lagrangian_is_counted_too():
    problem, counted = make(HingeLoss())
    AugmentedLagrangian().solve(problem, 1e-4)
    assert counted.gradients > problem.n_records

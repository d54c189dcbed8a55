"""The counter of gradient evaluations is exact on every path."""

import numpy as np
import scipy.sparse as sp

from skdp.problems import (
    FiniteSumProblem,
    LogisticLoss,
    Records,
    SoftmaxLoss,
    WholeSpace,
    counted,
)
from skdp.solvers import Newton


def make(loss, sparse=False, n=101):
    X = np.random.default_rng(0).standard_normal((n, 3))
    targets = (np.arange(n) % 2) if isinstance(loss, SoftmaxLoss) else np.arange(n) % 2.0
    rows = Records(sp.csr_matrix(X) if sparse else X, 1.0, 0.1)
    rows.block_size = 16
    problem = FiniteSumProblem(rows.with_targets(targets), loss, 0.1, WholeSpace())
    problem = counted(problem)
    return problem, problem.counts


def test_counts():
    for loss in (LogisticLoss(), SoftmaxLoss(3)):
        for sparse in (False, True):
            problem, counts = make(loss, sparse)
            w = np.zeros(problem.dimension)
            problem.gradient(w)
            assert (counts.gradients, counts.hessians) == (101, 0)
            problem.value_and_gradient(w)
            assert counts.gradients == 202
            problem.residuals_and_gradient(w)
            assert counts.gradients == 303
            problem.batch(slice(3, 101, 7)).residuals(w)
            assert counts.gradients == 303 + 14
            problem.batch(np.array([5, 5, 7])).residuals(w)
            assert counts.gradients == 303 + 17
            problem.hessian(w)
            problem.hessian_vector(w, w)
            assert (counts.gradients, counts.hessians) == (320, 202)
            problem.subsample(10).gradient(w)
            problem.for_solver().gradient(w)
            assert counts.gradients == 320 + 11 + 101
            problem.margins(w)
            problem.pull_back(np.zeros_like(problem.margins(w)))
            assert counts.gradients == 432


def test_certified_solves_are_counted():
    problem, counts = make(LogisticLoss())
    Newton().solve(problem, 1e-4)
    assert counts.gradients > problem.n_records
    reported = []
    watched = counted(problem.subsample(2), reported.append)
    watched.gradient(np.zeros(4))
    assert reported[-1] == watched.counts.gradients == 51

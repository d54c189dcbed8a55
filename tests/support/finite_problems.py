"""Small finite sums of three losses, and their solutions."""

import numpy as np
import scipy.sparse as sp

from skdp.problems import (
    Ball,
    FiniteSumProblem,
    HalfSquaredLoss,
    LogisticLoss,
    Records,
    SoftmaxLoss,
    WholeSpace,
)
from skdp.solvers import AcceleratedGradient, Newton

LOSSES = {"logistic": LogisticLoss(), "softmax": SoftmaxLoss(3), "squared": HalfSquaredLoss(1.0)}


def random_problem(loss="logistic", *, n=60, d=4, alpha=1e-2, radius=None, sparse=False, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * 10.0 ** rng.integers(-2, 1, d)
    targets = rng.integers(0, 3 if loss == "softmax" else 2, n)
    if loss != "softmax":
        targets = targets.astype(float)
    rows = Records(sp.csr_matrix(X) if sparse else X, 1.0, 0.1)
    domain = WholeSpace() if radius is None else Ball(radius)
    return FiniteSumProblem(rows.with_targets(targets), LOSSES[loss], alpha, domain)


def exact_solution(problem):
    """Far below the accuracies under test, and not by the certificate's word alone."""
    if isinstance(problem.domain, WholeSpace) and isinstance(problem.loss, HalfSquaredLoss):
        hessian = problem.hessian(np.zeros(problem.dimension))
        return -np.linalg.solve(hessian, problem.gradient(np.zeros(problem.dimension)))
    point = np.zeros(problem.dimension)
    for solver in (Newton(), AcceleratedGradient(), Newton()):
        rng = np.random.default_rng(0)
        point = problem.domain.project(solver._solve(problem, 1e-13, point, rng))
    return point

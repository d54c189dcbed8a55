"""Means over records: batches, constants, thinning."""

import numpy as np
import pytest
import scipy.sparse as sp
from every_loss import targets_for

from skdp.privacy.events import Neighbouring
from skdp.problems import (
    AbsoluteLoss,
    Ball,
    Box,
    FiniteSumProblem,
    HalfSquaredLoss,
    LogisticLoss,
    Records,
    Simplex,
    SoftmaxLoss,
    WholeSpace,
    ball_problem,
)


def make(loss, *, sparse=False, n=40, d=3, alpha=0.1, domain=None, **kwargs):
    rng = np.random.default_rng(5)
    X = rng.standard_normal((n, d))
    X[rng.random((n, d)) < 0.3] = 0
    rows = Records(sp.csr_matrix(X) if sparse else X, 1.2, 0.2, targets=targets_for(loss, rng, n))
    rows.block_size = 16
    return FiniteSumProblem(rows, loss, alpha, domain or Ball(5.0), **kwargs)


@pytest.mark.parametrize(
    ("loss", "sparse"),
    [(LogisticLoss(), True), (HalfSquaredLoss(1.0), False), (SoftmaxLoss(3), True)],
)
def test_batches_sum_to_the_gradient(loss, sparse):
    problem = make(loss, sparse=sparse, n_public=30)
    problem.center = np.linspace(0, 1, problem.dimension)
    w = np.linspace(-1, 1, problem.dimension)
    residuals, full = problem.residuals_and_gradient(w)
    np.testing.assert_allclose(full + problem.penalty_gradient(w), problem.gradient(w), atol=1e-14)
    np.testing.assert_allclose(problem.pull_back(residuals), full, atol=1e-15)
    np.testing.assert_allclose(
        loss.derivative(problem.margins(w), problem.records.targets), residuals, atol=1e-15
    )
    for rows in ([slice(a, a + 8) for a in range(0, 40, 8)], [slice(j, 40, 7) for j in range(7)]):
        total = np.zeros(problem.dimension)
        for part in rows:
            batch = problem.batch(part)
            np.testing.assert_allclose(batch.residuals(w), residuals[part], atol=1e-15)
            total += batch.pull_back(residuals[part])
        np.testing.assert_allclose(total / problem.n_public, full, atol=1e-15)
    some = np.array([3, 17, 3, 0])
    batch = problem.batch(some)
    expected = sum(problem.batch(slice(i, i + 1)).pull_back(residuals[i : i + 1]) for i in some)
    np.testing.assert_allclose(batch.pull_back(batch.residuals(w)), expected, atol=1e-15)


def test_prox_minimises_its_definition():
    rng = np.random.default_rng(0)
    for domain in (Ball(0.5), WholeSpace(), Simplex(4), Box(np.full(4, -0.1), np.full(4, 0.3))):
        center = rng.standard_normal(4)
        problem = make(LogisticLoss(), domain=domain, alpha=2.0, center=center)
        point, step = rng.standard_normal(4), 0.7
        prox = problem.prox(point, step)
        np.testing.assert_allclose(domain.project(prox), prox, atol=1e-15)

        def objective(v, center=center, point=point, step=step):
            return np.sum((v - center) ** 2) + np.sum((v - point) ** 2) / (2 * step)

        for _ in range(200):
            other = domain.project(prox + 0.1 * rng.standard_normal(4))
            assert objective(prox) <= objective(other) + 1e-12


def test_constants_of_the_worked_example():
    """Section 9: n = 1e4, d = 20, X = 1, lambda = 0.01: Delta(2L) = 0.02, kappa = 26."""
    records = Records(np.zeros((10_000, 20)), 1.0, targets=np.zeros(10_000))
    constants = FiniteSumProblem(records, LogisticLoss(), 0.01, WholeSpace()).constants
    assert constants.argmin_sensitivity(Neighbouring.REPLACE_ONE) == pytest.approx(0.02)
    assert constants.argmin_sensitivity(Neighbouring.ADD_REMOVE) == pytest.approx(0.01)
    assert constants.condition_number == pytest.approx(26)
    # the ball that holds every solution makes the diameter, hence the noise, smaller
    inside = ball_problem(records, LogisticLoss(), 0.01).constants
    assert inside.radius == pytest.approx(5.27697, abs=5e-6)
    assert inside.argmin_sensitivity(Neighbouring.REPLACE_ONE) < 0.017
    # and no sensitivity is above the diameter of the ball
    one = Records(np.zeros((1, 2)), 1.0, targets=np.zeros(1))
    small = ball_problem(one, LogisticLoss(), 1e-6, coef_norm=0.1).constants
    assert small.argmin_sensitivity(Neighbouring.REPLACE_ONE) == pytest.approx(0.2)
    with pytest.raises(ValueError, match="alpha"):
        make(LogisticLoss(), alpha=0.0)


def test_nominal_size():
    """Under add/remove the actual size changes the work of the solver, not the constants."""
    small, large = make(LogisticLoss(), n=20, n_public=30), make(LogisticLoss(), n=300, n_public=30)
    assert small.constants == large.constants
    assert large.smoothness > small.smoothness
    assert make(LogisticLoss(), n=301, n_public=30).constants == small.constants
    problem = make(SoftmaxLoss(3))  # a thinned one keeps each k-th record
    thin = problem.subsample(4)
    assert thin.n_records == 10 and thin.n_public == 10
    np.testing.assert_array_equal(thin.records.targets, problem.records.targets[::4])


@pytest.mark.parametrize(
    ("loss", "targets", "message"),
    [
        (LogisticLoss(), [-1.0, 1.0, 1.0], "LogisticLoss: targets must be 0 or 1"),
        (LogisticLoss(), ["no", "yes", "no"], "must be numbers"),
        (LogisticLoss(), [[0.0], [1.0], [1.0]], "have shape"),
        (LogisticLoss(), [0.0, 1.0], "there are 3 records"),
        (SoftmaxLoss(3), [0, 1, 3], "must be 0 to 2"),
        (SoftmaxLoss(3), [0.0, 1.0, 2.0], "must be class indices"),
        (HalfSquaredLoss(1.0), [0.0, 1.1, 0.0], "within"),
        (AbsoluteLoss(1.0), [0.0, np.nan, 0.0], "within"),
    ],
)
def test_targets_in_another_encoding_are_refused(loss, targets, message):
    """The constants would not hold, and a certificate would be about another problem."""
    rows = Records(np.eye(3), 1.0)
    with pytest.raises(ValueError, match=message):
        FiniteSumProblem(rows.with_targets(np.array(targets)), loss, 1.0, Ball(1.0))

"""Solvers of scipy and scikit-learn behind the contract."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from kinked_problems import exact_solution
from sklearn.linear_model import (
    LinearRegression,
    LogisticRegression,
    Ridge,
    SGDClassifier,
    SGDRegressor,
)
from sklearn.svm import LinearSVC

from skdp.algorithms import kernel
from skdp.linear_model import DPLogisticRegression, DPRidge
from skdp.methods import OutputPerturbation
from skdp.privacy import PrivacyLeakWarning
from skdp.problems import (
    Box,
    FiniteSumProblem,
    HalfSquaredLoss,
    HingeLoss,
    LogisticLoss,
    Records,
    SoftmaxLoss,
    WholeSpace,
)
from skdp.solvers import Newton, ScipySolver, SklearnSolver, certify

RNG = np.random.default_rng(0)
X = RNG.standard_normal((80, 3))
BINARY = (X[:, 0] + 0.5 * RNG.standard_normal(80) > 0).astype(float)
SCIPY_METHODS = [
    "CG", "BFGS", "L-BFGS-B", "TNC", "SLSQP", "Newton-CG", "trust-ncg", "trust-krylov",
    "trust-exact", "dogleg", "trust-constr", "Nelder-Mead", "Powell", "COBYLA",
]  # fmt: skip


def problem_of(loss, targets, domain=None, sparse=False, **kwargs):
    rows = Records(sp.csr_matrix(X) if sparse else X, 1.0, 0.1)
    return FiniteSumProblem(
        rows.with_targets(targets), loss, 0.05, domain or WholeSpace(), **kwargs
    )


@pytest.mark.parametrize("method", SCIPY_METHODS)
def test_every_scipy_method_comes_near(method):
    problem = problem_of(LogisticLoss(), BINARY)
    exact = Newton().solve(problem, 1e-9).point
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        point = ScipySolver(method)._solve(problem, 1e-3, np.zeros(4), np.random.default_rng(0))
    assert np.linalg.norm(point - exact) <= 0.02 * np.linalg.norm(exact)
    solution = ScipySolver(method).solve(problem, 1e-6)
    assert np.linalg.norm(solution.point - exact) <= 1.1e-6


def test_scipy_methods_with_bounds():
    """Their own answers are certified where bounds are active."""
    problem = problem_of(LogisticLoss(), BINARY, Box(np.full(4, -0.1), np.full(4, 0.2)))
    for accuracy in (1e-3, 2e-5):
        solution = ScipySolver("SLSQP").solve(problem, accuracy)
        assert [attempt.error for attempt in solution.attempts] == [None]
        assert solution.distance <= accuracy


def test_scipy_options_are_passed_on_and_kept():
    options = {"maxiter": 1}
    solver = ScipySolver("L-BFGS-B", options)
    problem = problem_of(LogisticLoss(), BINARY)
    few = solver._solve(problem, 1e-9, np.zeros(4), np.random.default_rng(0))
    assert certify(problem, few).distance > 1e-3
    assert options == {"maxiter": 1}


@pytest.mark.parametrize("sparse", [False, True])
def test_sklearn_estimators_solve_the_same_problem(sparse):
    """Without the gate: bounded rows, penalty and intercept are handed over correctly."""
    counts = np.digitize(X[:, 0], [-0.5, 0.5])
    cases = [
        (LogisticRegression(tol=1e-10, max_iter=10_000), LogisticLoss(), BINARY),
        (LogisticRegression(tol=1e-10, max_iter=10_000), SoftmaxLoss(3), counts),
        (LogisticRegression(tol=1e-10, max_iter=10_000), SoftmaxLoss(2), counts > 0),
        (LogisticRegression(solver="saga", max_iter=10_000), LogisticLoss(), BINARY),
        (Ridge(tol=1e-12), HalfSquaredLoss(4.0), X[:, 1] + 0.1),
        (Ridge(solver="saga", max_iter=10_000), HalfSquaredLoss(4.0), X[:, 1] + 0.1),
    ]
    for estimator, loss, targets in cases:
        problem = problem_of(
            loss, targets.astype(int if isinstance(loss, SoftmaxLoss) else float), None, sparse
        )
        solver = SklearnSolver(estimator)
        point = solver._solve(problem, 0.0, np.zeros(problem.dimension), None)
        exact = Newton().solve(problem, 1e-9).point
        if isinstance(loss, SoftmaxLoss) and loss.n_classes == 2:
            # scikit-learn penalises one vector, softmax half of its square: only a start
            assert point.shape == exact.shape
        else:
            np.testing.assert_allclose(point, exact, atol=1e-6)


def test_sklearn_stochastic_and_hinge_estimators():
    regressor = SGDRegressor(tol=1e-9, max_iter=5000, random_state=0)
    problem = problem_of(HalfSquaredLoss(4.0), X[:, 1])
    point = SklearnSolver(regressor)._solve(problem, 0.0, np.zeros(4), None)
    np.testing.assert_allclose(point, Newton().solve(problem, 1e-9).point, atol=0.05)
    hinge = problem_of(HingeLoss(), BINARY)
    exact, error = exact_solution(hinge)
    assert error <= 1e-4
    svc = LinearSVC(loss="hinge", tol=1e-8, max_iter=1_000_000, random_state=0)
    np.testing.assert_allclose(
        SklearnSolver(svc)._solve(hinge, 0.0, np.zeros(4), None), exact, atol=1e-3
    )
    envelope = problem_of(HingeLoss().smoothed(1e-3), BINARY)
    assert SklearnSolver(SGDClassifier()).solve(envelope, 1e-6).distance <= 1e-6


def test_a_fitted_estimator_is_taken_as_it_is():
    bounded = X / np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    n = len(X)
    fitted = LogisticRegression(
        C=1.0 / (0.05 * n), fit_intercept=False, tol=1e-12, max_iter=10_000
    ).fit(np.column_stack([bounded, np.full(n, 0.1)]), BINARY)
    problem = problem_of(LogisticLoss(), BINARY)
    solver = SklearnSolver(fitted)
    assert solver.holds_records
    point = solver._solve(problem, 0.0, np.zeros(4), None)
    assert certify(problem, point).distance <= 1e-4
    with_intercept = LogisticRegression().fit(bounded, BINARY)
    solver = SklearnSolver(with_intercept)
    point = solver._solve(problem, 0.0, np.zeros(4), None)
    np.testing.assert_allclose(point[:3], with_intercept.coef_[0])
    assert 0.1 * point[3] == pytest.approx(with_intercept.intercept_[0])
    assert solver.solve(problem, 1e-8).distance <= 1e-8


@pytest.mark.parametrize("n_classes", [0, 2, 3])
def test_estimators_as_they_are_meet_the_certificate(n_classes, monkeypatch):
    """With nothing set by the user; no trusted solver has to continue."""
    attempts, original = [], kernel.solve_certified

    def watched(*args, **options):
        found = original(*args, **options)
        attempts.append(len(found.attempts))
        return found

    monkeypatch.setattr(kernel, "solve_certified", watched)
    model, inner, y = DPRidge(target_range=(-4, 4)), Ridge(), X[:, 1]
    if n_classes:
        model, inner = DPLogisticRegression(classes=range(n_classes)), LogisticRegression()
        y = np.digitize(X[:, 0], [-0.5, 0.5]) if n_classes == 3 else BINARY.astype(int)
    solver = SklearnSolver(inner)
    model.set_params(method=OutputPerturbation(solver=solver), random_state=0).fit(X, y)
    assert attempts == [1]
    model.set_params(method="auto", solver=solver)
    with pytest.raises(ValueError, match=r"cannot clip slopes.*ScipySolver\('L-BFGS-B'\)"):
        model.fit(X, y)


@pytest.mark.parametrize("is_own", [False, True])
def test_a_fitted_estimator_in_a_private_model_is_announced(is_own):
    """Also one that was fitted after the solver was made."""
    y = BINARY.astype(int)
    estimator = LogisticRegression()
    solver = SklearnSolver(estimator)
    given = {"method": OutputPerturbation(solver=solver)}
    if not is_own:
        given = {"method": "output_perturbation", "solver": solver}
    model = DPLogisticRegression(classes=[0, 1], random_state=0, **given)
    assert not any("fitted estimator" in caveat for caveat in model.fit(X, y).privacy_.caveats)
    estimator.fit(X, y)
    with pytest.warns(PrivacyLeakWarning, match="fitted estimator") as caught:
        model.fit(X, y)
    assert caught[0].filename == __file__
    assert any("fitted estimator" in caveat for caveat in model.privacy_.caveats)


def test_public_mistakes_are_refused_in_words():
    logistic = problem_of(LogisticLoss(), BINARY)
    squares = problem_of(HalfSquaredLoss(4.0), X[:, 1])
    for solver, problem, message in (
        (ScipySolver("Nonsense"), logistic, "method == 'Nonsense', must be one of"),
        (SklearnSolver(LinearRegression()), squares, "no parameter C or alpha"),
        (SklearnSolver(LogisticRegression()), squares, "not made for HalfSquaredLoss"),
        (SklearnSolver(Ridge()), logistic, "not made for LogisticLoss"),
    ):
        with pytest.raises(ValueError, match=message):
            solver.solve(problem, 1e-3)

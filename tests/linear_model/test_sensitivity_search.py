"""Neighbours through the package's own rows and solvers move no further than the plan says.

The attacked number is ``plan.exact_sensitivity``, from which the noise of the estimators is made.
Climbs with solutions of their own: test_sensitivity_search_losses.py.
"""

import itertools
import math

import numpy as np
import pytest
import scipy.sparse as sp

from skdp.algorithms import plan_output_perturbation
from skdp.linear_model import DPLogisticRegression, DPRidge
from skdp.methods import OutputPerturbation
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import Neighbouring
from skdp.problems import (
    DeclaredProblem,
    Design,
    HalfSquaredLoss,
    LogisticLoss,
    Records,
    SoftmaxLoss,
    ball_problem,
    bounded_problem_radius,
)
from skdp.problems.constants import generalised_linear_constants
from skdp.solvers import CallableSolver, Newton, solve_certified

RELATIONS = ("replace_one", "add_remove")
TARGET_BOUND = 2.0
LOSSES = {
    "logistic": LogisticLoss(),
    "ridge": HalfSquaredLoss(TARGET_BOUND),
    "softmax": SoftmaxLoss(3),
}
LABELS = {"logistic": (0.0, 1.0), "ridge": (-TARGET_BOUND, TARGET_BOUND), "softmax": (0, 1, 2)}
BUDGET = PrivacyBudget(1.0, 1e-6)


# ------------------------------------------------------- through the package's rows and solvers


def certified(
    kind, X, targets, alpha, *, data_norm=1.0, intercept=0.0, relation="replace_one", **kw
):
    """The package's plan and its own solution, to an accuracy of 1e-10 of the sensitivity."""
    problem = ball_problem(
        Records(X, data_norm, intercept, targets=targets), LOSSES[kind], alpha, **kw
    )
    plan = plan_output_perturbation(
        problem.constants, BUDGET, neighbouring=Neighbouring(relation), accuracy_fraction=1e-10
    )
    return plan, Newton().solve(problem, plan.accuracy).point


def duplicated_csr(X, parts=16):
    """CSR matrix whose every entry is stored in `parts` pieces: stored norms are too small."""
    n, d = X.shape
    data = np.repeat(X[:, :, None] / parts, parts, axis=2).ravel()
    indices = np.repeat(np.tile(np.arange(d), n), parts)
    return sp.csr_matrix((data, indices, np.arange(n + 1) * d * parts), shape=X.shape)


def mislabelled_csr(X):
    """The same with a flag that denies the duplicates, as scipy keeps it after edits in place."""
    matrix = duplicated_csr(X)
    matrix.has_canonical_format = True
    return matrix


def single(X):
    return X.astype(np.float32)


@pytest.mark.mostly("slow", 1)
@pytest.mark.parametrize(
    ("kind", "container"),
    [
        ("logistic", mislabelled_csr), ("ridge", np.asarray), ("ridge", duplicated_csr),
        ("softmax", sp.csr_matrix), ("logistic", single),
    ],
)  # fmt: skip
def test_long_rows_move_no_more_than_bounded_ones(kind, container):
    """Rows above `data_norm` are scaled down, also when a CSR matrix hides their norm."""
    data_norm, alpha = 2.0, 300.0
    best = 0.0
    rows = data_norm * np.array([[4.0, 0.0], [-4.0, 0.0], [3.0, -3.0], [1e5, 1e5], [0.5, 0.0]])
    records = list(itertools.product(rows, LABELS[kind]))
    for n_base in (0, 1):
        for base in itertools.combinations(records, n_base):
            points = []
            for record in records:
                X = container(np.array([x for x, _ in (*base, record)]))
                targets = np.array([label for _, label in (*base, record)])
                plan, point = certified(kind, X, targets, alpha, data_norm=data_norm)
                points.append(point)
            gaps = np.array(points)[:, None] - np.array(points)[None]
            moved = np.linalg.norm(gaps, axis=2).max()
            assert moved <= plan.exact_sensitivity + 2 * plan.accuracy
            best = max(best, moved / plan.exact_sensitivity)
    assert best >= 0.98


@pytest.mark.parametrize("estimator", [DPLogisticRegression(classes=[0, 1]), DPRidge()])
def test_fit_on_duplicate_entries_is_fit_on_their_sums(estimator):
    """The estimators' own path bounds the true rows of a CSR matrix with duplicates."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 3)), np.arange(20) % 2
    estimator.set_params(method=OutputPerturbation(alpha=0.1), data_norm=0.5, random_state=3)
    dense = estimator.fit(X, y).coef_.copy()
    tau = estimator.privacy_.plan["accuracy"]
    for container in (duplicated_csr, mislabelled_csr):
        sparse = estimator.fit(container(X), y).coef_
        np.testing.assert_allclose(sparse, dense, rtol=0, atol=2 * tau)


# ------------------------------------------------------------------------- the solver's share


def pushed(distance):
    """A solver that stays away from the solution by `distance` times the accuracy."""

    def solve(problem, accuracy):
        exact = Newton().solve(problem, 1e-8 * accuracy).point
        return exact + distance * accuracy * exact / np.linalg.norm(exact)

    return CallableSolver(solve)


@pytest.mark.parametrize("distance", [0.99, 1.5, 1e6])
def test_solver_error_is_inside_the_released_sensitivity(distance):
    """``Delta + 2 tau``: a distance just below tau passes the gate, larger ones are corrected."""
    alpha, rest = 1000.0, [[0.0]] * 3
    points = []
    for x in (1.0, -1.0):
        rows = Records(np.array([[x], *rest]), 1.0)
        problem = ball_problem(rows.with_targets(np.ones(4)), LogisticLoss(), alpha)
        plan = plan_output_perturbation(problem.constants, BUDGET, accuracy_fraction=0.2)
        points.append(solve_certified(problem, plan.accuracy, pushed(distance)).point)
    moved = np.linalg.norm(points[0] - points[1])
    assert moved <= plan.mechanism.sensitivity
    if distance < 1:
        assert moved > 1.1 * plan.exact_sensitivity


def test_solver_error_is_covered_on_the_whole_space():
    """No projection puts points inside the ball: the cap 2 R must not cut the term 2 tau."""
    points = []
    for x in (1.0, -1.0):  # a linear loss of one record attains every bound of the plan
        problem = DeclaredProblem(
            lambda w, x=x: (-x * w[0], np.array([-x])), dimension=1, lipschitz=1.0, smoothness=1e-9,
            alpha=1.0, hessian=lambda w: np.zeros((1, 1)),
        )  # fmt: skip
        plan = plan_output_perturbation(problem.constants, BUDGET, accuracy_fraction=0.2)
        points.append(solve_certified(problem, plan.accuracy, pushed(0.99)).point)
    assert np.linalg.norm(points[0] - points[1]) <= plan.mechanism.sensitivity


# ----------------------------------------------------- the number is the one in the estimators


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("scaling", "coef_norm"), [(0.0, None), (0.3, 0.01)])
def test_estimators_use_the_attacked_plan(relation, scaling, coef_norm):
    """The sensitivity in ``privacy_`` is the one attacked above, for the declared bounds."""
    n, d, data_norm, alpha = 30, 2, 3.0, 0.7
    X, y = np.ones((n, d)), np.arange(n) % 2
    common = {
        "data_norm": data_norm,
        "fit_intercept": scaling > 0,
        "neighbouring": relation,
        "method": OutputPerturbation(alpha, coef_norm, intercept_scaling=scaling or 0.1),
    }
    models = {
        LogisticLoss(): DPLogisticRegression(classes=[0, 1], **common),
        SoftmaxLoss(4): DPLogisticRegression(classes=[0, 1, 5, 7], **common),
        # an intercept lets the targets be centred; without one their largest size counts
        HalfSquaredLoss(3.0 if scaling else 8.0): DPRidge(target_range=(2.0, 8.0), **common),
    }
    for loss, model in models.items():
        release = model.fit(X, y).privacy_.releases[0]
        norm = data_norm * math.hypot(1.0, scaling)
        radius = bounded_problem_radius(loss, norm, alpha, coef_norm)
        design = Design(norm, d + bool(scaling), n)
        constants = generalised_linear_constants(loss, design, alpha, radius)
        plan = plan_output_perturbation(constants, BUDGET, neighbouring=Neighbouring(relation))
        assert release.sensitivity == pytest.approx(plan.mechanism.sensitivity, rel=1e-12)
        assert release.sensitivity >= plan.exact_sensitivity
        assert release.dimension == loss.n_outputs * (d + bool(scaling))

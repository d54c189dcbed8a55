"""Objective perturbation: its numbers, the algorithm, and whole fits."""

import math
from dataclasses import replace

import numpy as np
import pytest
from laboratory import Laboratory
from objective_plans import ADD, CLIPPED, HUBER, REPLACE, make_plan
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from skdp import DPLinearRegressor, DPLogisticRegression
from skdp.algorithms import plan_objective_perturbation
from skdp.algorithms.objective.theorems import hessian_epsilon, largest_mu
from skdp.algorithms.plan import Run
from skdp.mechanisms import NoiseSource
from skdp.methods import ObjectivePerturbation
from skdp.privacy import ApproximateEvent, PrivacyBudget, tightest_epsilon
from skdp.privacy.events import RECORD_RELATIONS
from skdp.privacy.gaussian_dp import gaussian_mu
from skdp.problems import (
    AbsoluteLoss,
    ClippedLogisticLoss,
    Design,
    EmpiricalRisk,
    FiniteSumProblem,
    HalfSquaredLoss,
    HingeLoss,
    LogisticLoss,
    Objective,
    OneVsRestLoss,
    Records,
    SoftmaxLoss,
    SquaredHingeLoss,
    TiltedRisk,
    WholeSpace,
)
from skdp.solvers import solve_certified

#: Losses, each with a relation and a delta.
SUPPORTED = [
    (LogisticLoss(), REPLACE, 1e-5),
    (HingeLoss(), ADD, 1e-5),
    (HingeLoss().smoothed(1.0), REPLACE, 0.0),
    (HUBER, ADD, 0.0),
    (AbsoluteLoss(1.0), REPLACE, 1e-5),
    (SoftmaxLoss(3), ADD, 0.0),
    (SoftmaxLoss(3), REPLACE, 1e-5),
]
every_loss = pytest.mark.parametrize(("loss", "relation", "delta"), SUPPORTED, ids=str)


@pytest.mark.parametrize(
    ("epsilon", "relation", "penalty", "scale"),
    [
        (1.0, ADD, 2.3770829862, 2.0533121659),
        (1.0, REPLACE, 2.3770829862, 4.1066243317),
        (0.1, ADD, 24.8752083323, 16.9264230533),
        (10.0, REPLACE, 0.1454941767, 0.5447457898),
    ],
)
def test_reference_calibration(epsilon, relation, penalty, scale):
    """A tenth of epsilon for the Hessian, delta = 1e-5, rows of norm 1, c = 1/2."""
    left = 0.9 * epsilon
    assert hessian_epsilon(CLIPPED, 1.0, penalty, 1) == pytest.approx(0.1 * epsilon, rel=3e-9)
    mu, theorem = largest_mu(CLIPPED, left, 1e-5, relation)
    assert 0.5 / mu == pytest.approx(scale, rel=3e-9)
    assert theorem == ("1" if relation is ADD else "2")


def test_a_plan_is_the_calibration_of_its_part_of_the_budget():
    """At little noise: then nothing but privacy asks for a penalty."""
    for relation in RECORD_RELATIONS:
        for delta, share in ((1e-5, 0.1), (0.0, 0.25)):
            plan = make_plan(LogisticLoss(), delta=delta, relation=relation, n=50_000)
            budget, growth = plan.budget, math.expm1(share * plan.budget.epsilon)
            assert plan.penalty == pytest.approx(0.25 / growth, rel=1e-8)
            assert plan.hessian_epsilon == pytest.approx(share * budget.epsilon, rel=1e-8)
            left = budget.epsilon - plan.hessian_epsilon
            replaced = 2.0 if relation is REPLACE else 1.0
            wanted = replaced * 0.5 / left
            if delta:
                wanted = replaced * 0.5 / gaussian_mu(left, budget.delta)
            assert plan.linear.noise_scale == pytest.approx(wanted, rel=1e-8)
            assert plan.output.sensitivity == 2.0 * plan.accuracy


def test_clipped_logistic_loss():
    """Reference numbers of c = 1/4; bounds on slopes and curvatures; c = 1 is the log loss."""
    loss, margins = ClippedLogisticLoss(0.25), np.array([-1.0, 0.0, 1.0, 2.0])
    value = [0.81233514, 0.56233514, 0.31233514, 0.12692801]
    for target, sign in ((1.0, 1.0), (0.0, -1.0)):
        assert loss.value(sign * margins, np.full(4, target)) == pytest.approx(value, abs=1e-8)
    z, plain = np.linspace(-30, 30, 2001), LogisticLoss()
    for clip, bound in ((0.25, 0.1875), (0.5, 0.25), (1.0, 0.25)):
        loss = ClippedLogisticLoss(clip)
        assert (loss.curvature, loss.lipschitz(2.0, math.inf)) == (bound, 2.0 * clip)
        for targets in (np.ones(2001), np.zeros(2001)):
            slopes = np.clip(plain.derivative(z, targets), -clip, clip)
            np.testing.assert_allclose(loss.derivative(z, targets), slopes, atol=1e-15)
            bends = np.where(abs(slopes) < clip, plain.second_derivative(z, targets), 0.0)
            np.testing.assert_allclose(loss.second_derivative(z, targets), bends, atol=1e-15)
            assert bends.max() <= bound * (1 + 1e-12)
    np.testing.assert_allclose(loss.value(z, targets), plain.value(z, targets), atol=1e-14)
    with pytest.raises(ValueError, match="clip"):
        ClippedLogisticLoss(0.0)


def test_link_of_the_clipped_loss():
    """P solves ``p min(1 - q, c) = (1 - p) min(q, c)`` with q = sigmoid(z)."""
    z = np.linspace(-40, 40, 801)
    for clip in (0.1, 0.5, 0.9, 1.0):
        p, q = expit(ClippedLogisticLoss(clip).log_odds(z)), expit(z)
        other = expit(-ClippedLogisticLoss(clip).log_odds(z))
        np.testing.assert_allclose(
            p * np.minimum(expit(-z), clip), other * np.minimum(q, clip), rtol=1e-11, atol=1e-300
        )
    p = expit(CLIPPED.log_odds(z))
    wanted = np.where(z >= 0, 1 / (1 + 2 * expit(-z)), 2 * expit(z) / (1 + 2 * expit(z)))
    np.testing.assert_allclose(p, wanted, rtol=1e-12)


@pytest.mark.parametrize(
    ("clip", "solution"),
    [
        (0.5, [-0.24873328, -0.44020121, -0.48177661]),
        (1.0, [-0.26949357, -0.42162439, -0.44497272]),
    ],
)
@pytest.mark.parametrize("n_public", [None, 3])
def test_reference_minimisers(clip, solution, n_public):
    """The sum form: under add/remove the minimiser does not depend on the nominal size."""
    X = np.array([[0.2, 0.1], [-0.3, 0.4], [0.5, -0.5], [0.1, 0.9]])
    records = Records(X, 1.0, 0.3, targets=np.array([0.0, 1.0, 1.0, 0.0]))
    relation = REPLACE if n_public is None else ADD
    objective = Objective(
        EmpiricalRisk(LogisticLoss()), Design.of(records, n_public), neighbouring=relation
    )
    plan = plan_objective_perturbation(objective, PrivacyBudget(1.0, 1e-5))
    plan = replace(plan, loss=ClippedLogisticLoss(clip))
    object.__setattr__(plan, "penalty", 0.5)
    problem = plan.problem(records, np.array([0.1, -0.2, 0.3]) / -0.5)
    problem.constants = replace(problem.constants, size_ratio=2.0)  # of 4 records, not a million
    found = solve_certified(problem, 1e-9, "newton").point
    assert found == pytest.approx(solution, abs=1e-8)


def sample(loss, n=60, d=3, seed=0, norm=1.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-2, 2, (n, 1))
    if loss.target_bound:
        y = rng.uniform(-loss.target_bound, loss.target_bound, n)
    elif loss.n_outputs > 1:
        y = rng.integers(loss.n_classes, size=n)
    else:
        y = rng.integers(2, size=n).astype(float)
    return Records(X, norm, 0.1, targets=y)


def planned(records, loss, relation=REPLACE, epsilon=1.0, delta=1e-5, **asked):
    n_public = records.n_records if relation is ADD else None
    objective = Objective(
        EmpiricalRisk(loss), Design.of(records, n_public), neighbouring=relation, **asked
    )
    return plan_objective_perturbation(objective, PrivacyBudget(epsilon, delta))


@every_loss
def test_a_run_minimises_what_it_drew(loss, relation, delta):
    """The linear term has the stated law, and the point is where it meets the sum of gradients."""
    records = sample(loss)
    plan = planned(records, loss, relation, delta=delta)
    with Laboratory() as laboratory:
        point = plan.run(records, Run("newton")).point
    linear, output = laboratory.draws
    b = laboratory.releases[0]
    assert not linear.value.any()  # it is drawn by itself
    first, second = plan.releases
    for draw, release in ((linear, first), (output, second)):
        assert draw.scale == pytest.approx(release.noise_scale, rel=1e-12)
        assert draw.kind == release.mechanism
        assert draw.dimension == release.dimension == loss.n_outputs * 4
    rows = records.with_intercept(plan.design.intercept)
    minimiser = output.value.reshape(loss.n_outputs, 4)

    def part(block):
        return block.pull_back(plan.loss.derivative(block.margins(minimiser), block.targets))

    gradient = rows.total(part).ravel() + plan.penalty * output.value + b
    smoothness = plan.loss.smoothness(plan.design.feature_norm) * records.n_records + plan.penalty
    assert np.linalg.norm(gradient) <= smoothness * plan.accuracy
    assert smoothness * plan.accuracy < 0.1 * np.linalg.norm(b)
    # the released weights: with the accuracy's noise, in units of the estimator's intercept feature
    moved = laboratory.releases[1].reshape(loss.n_outputs, 4)
    moved[:, -1] *= plan.design.intercept / 0.1
    np.testing.assert_allclose(point, moved.ravel(), rtol=1e-12)


@every_loss
def test_sums_of_gradients_of_neighbours(loss, relation, delta):
    """``b_D - b_D'`` at any point, rows far beyond their bound, against the sensitivity."""
    records, others = sample(loss), sample(loss, seed=1)
    plan = planned(records, loss, relation, delta=delta)
    rng, worst = np.random.default_rng(0), 0.0
    width = plan.design.width
    for i in range(40):
        w = rng.normal(size=(loss.n_outputs, width)) * 10.0 ** rng.uniform(-2, 3)

        def change(rows, i=i, w=w):
            block = rows.with_intercept(plan.design.intercept).block(np.array([i]))
            return block.pull_back(plan.loss.derivative(block.margins(w), block.targets)).ravel()

        moved = change(records) - (change(others) if relation is REPLACE else 0.0)
        worst = max(worst, float(np.linalg.norm(moved)))
    assert 0.4 * plan.linear.sensitivity < worst <= plan.linear.sensitivity


@pytest.mark.parametrize("loss", [LogisticLoss(), HUBER, SoftmaxLoss(4)], ids=str)
def test_hessians_of_records_change_the_determinant_by_j(loss):
    """Also where the row has its largest norm and the loss its largest curvature."""
    plan = planned(sample(loss), loss)
    k, X = plan.loss.n_outputs, plan.design.feature_norm
    z = np.random.default_rng(0).normal(size=(2000, k)) * np.linspace(0, 3, 2000)[:, None]
    targets = np.zeros(2000, dtype=int) if k > 1 else np.zeros(2000)
    curvature = plan.loss.second_derivative(z[:, 0] if k == 1 else z, targets).reshape(-1, k, k)
    change = np.linalg.slogdet(np.eye(k) + curvature * X**2 / plan.penalty)[1]
    assert 0.95 * plan.hessian_epsilon < change.max() <= plan.hessian_epsilon


@pytest.mark.parametrize(
    ("relation", "delta"), [(ADD, 0.0), (REPLACE, 1e-12), (REPLACE, 1e-5), (ADD, 0.1)]
)
def test_the_accountant_gives_the_budget_back(relation, delta):
    for epsilon in (1e-3, 1.0, 30.0, 1e6):
        for loss in (LogisticLoss(), HUBER, SoftmaxLoss(3)):
            plan = make_plan(loss, epsilon, delta, relation)
            total = tightest_epsilon(plan.event, delta, relation)
            assert total <= epsilon
            if epsilon >= 1.0 and delta <= 1e-5:  # else some of delta buys much of epsilon
                assert total >= 0.99 * epsilon
            linear = plan.releases[0].event
            if delta:
                assert linear == ApproximateEvent(plan.budget.epsilon, relation, plan.budget.delta)
                assert tightest_epsilon(linear, 0.99 * plan.budget.delta) == math.inf


@every_loss
def test_the_ball_holds_the_minimiser_over_the_whole_space(loss, relation, delta):
    for seed in range(4):
        records = sample(loss, n=[1, 5, 40, 300][seed], seed=seed)
        plan = planned(records, loss, relation, [0.01, 1.0, 30.0, 1e4][seed], delta)
        rows = records.with_intercept(plan.design.intercept)
        center = (
            plan.linear.release(np.zeros(plan.objective.dimension), NoiseSource()) / plan.penalty
        )
        problem = plan.problem(rows, center)
        free = FiniteSumProblem(rows, plan.loss, plan.alpha, WholeSpace(), center=center)
        inside = solve_certified(problem, plan.accuracy, "newton").point
        anywhere = solve_certified(free, plan.accuracy, "newton").point
        assert np.linalg.norm(inside - anywhere) <= 2.0 * plan.accuracy


def test_the_result_is_not_projected_onto_the_ball_of_the_problem():
    """The ball follows from the secret linear term."""
    records = sample(LogisticLoss())
    plan = planned(records, LogisticLoss())
    with Laboratory(numbers={1: np.full(4, 1e12)}) as laboratory:
        point = plan.run(records, Run()).point
    problem = plan.problem(records, laboratory.releases[0] / plan.penalty)
    assert np.linalg.norm(point) > 10.0 * problem.domain.radius


def test_nominal_sizes_and_refusals():
    records = sample(LogisticLoss())
    risk = EmpiricalRisk(LogisticLoss())
    nominal = Objective(risk, Design.of(records, 50), neighbouring=ADD)
    added = plan_objective_perturbation(nominal, PrivacyBudget(1.0))
    assert added.theorem == "5" and added.event.neighbouring is ADD
    assert added.run(records, Run()).point.shape == (4,)
    for loss in (HalfSquaredLoss(1.0), SquaredHingeLoss(), OneVsRestLoss(HingeLoss(), 3)):
        with pytest.raises(ValueError, match="method='objective' is proven for"):
            make_plan(loss)
    tilted = Objective(TiltedRisk(LogisticLoss(), 0.1), Design(1.0, 3, 100))
    with pytest.raises(ValueError, match="method='objective' is proven for"):
        plan_objective_perturbation(tilted, PrivacyBudget(1.0))


def classes(n=400, d=3, seed=0, k=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X /= np.linalg.norm(X, axis=1).max()
    return X, np.digitize(X[:, 0], np.quantile(X[:, 0], np.arange(1, k) / k))


def test_probabilities_use_the_link_of_the_loss():
    X, y = classes()
    model = DPLogisticRegression(
        10.0, method="objective", data_norm=1.0, classes=[0, 1], random_state=0
    ).fit(X, y)
    z = model.decision_function(X)
    np.testing.assert_allclose(z, X @ model.coef_[0] + model.intercept_[0])
    p = model.predict_proba(X)
    np.testing.assert_allclose(p[:, 1], expit(CLIPPED.log_odds(z)), rtol=1e-12)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_allclose(np.log(p), model.predict_log_proba(X), atol=1e-12)
    assert ((p[:, 1] > 0.5) == (model.predict(X) == 1)).all()
    model.set_params(method="output").fit(X, y)  # which keeps nothing of the fit before
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], expit(model.decision_function(X)))


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_coefficients_lie_in_the_ball_that_is_asked_for(delta):
    X, y = classes()
    model = DPLogisticRegression(
        5.0, delta, method=ObjectivePerturbation(alpha=1e-6, coef_norm=0.3), data_norm=1.0,
        classes=[0, 1],
    ).fit(X, y)  # fmt: skip
    weights = np.append(model.coef_, model.intercept_ / 0.1)
    assert np.linalg.norm(weights) == pytest.approx(0.3)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_without_noise_the_fit_is_that_of_scikit_learn(delta):
    """A budget of 1e6: Huber's line and the classes of a softmax fit."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (5000, 2))
    target = np.clip(X @ [1.0, -0.5] + 0.1, -1, 1)
    line = DPLinearRegressor(
        1e6, delta, loss="huber", method="objective", data_norm=1.0, target_range=(-1, 1)
    ).fit(X, target)
    assert line.score(X, target) > 0.999
    assert line.privacy_.plan["theorem"] == ("6" if delta else "5")
    scores = 3.0 * X @ rng.normal(size=(2, 3))
    labels = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    public = LogisticRegression(C=1e4).fit(X, labels)
    private = DPLogisticRegression(
        1e6, delta, method="objective", data_norm=1.0, classes=range(3)
    ).fit(X, labels)
    np.testing.assert_allclose(private.predict_proba(X), public.predict_proba(X), atol=5e-3)


def test_the_alarm_of_few_records():
    """30 columns of 300 records are too many for delta = 0 at epsilon 1, three are not."""
    plans = [make_plan(LogisticLoss(), 1.0, 0.0, n=300, width=width) for width in (31, 4)]
    assert [len(plan.alarms()) for plan in plans] == [1, 0]

"""Output perturbation: plans, published constants, errata, utility."""

import dataclasses
import math

import numpy as np
import pytest
from scipy.optimize import minimize

from skdp.algorithms import output_perturbation, plan_output_perturbation
from skdp.algorithms.output.published import (
    lowy_gap,
    lowy_regularisation,
    zhang_minimisation_noise,
    zhang_saddle_noise,
)
from skdp.algorithms.output.regularized_risk import choose_alpha, utility_bound
from skdp.mechanisms import NoiseSource
from skdp.privacy import Neighbouring, PrivacyBudget
from skdp.problems import (
    Design,
    EmpiricalRisk,
    FiniteSumProblem,
    HalfSquaredLoss,
    LogisticLoss,
    Objective,
    ProblemConstants,
    Records,
    SoftmaxLoss,
    WholeSpace,
    ball_problem,
)
from skdp.solvers import Newton

UNIT = ProblemConstants(
    n_records=1000, dimension=10, strong_convexity=0.1, lipschitz=1.0, gradient_diameter=2.0,
    smoothness=0.25, radius=100.0, row_width=10,
)  # fmt: skip


def test_zhang_algorithm_1_and_the_tight_kernel():
    budget = PrivacyBudget(0.5, 1e-5)
    published = plan_output_perturbation(UNIT, budget, calibration="zhang2022_alg1")
    assert published.mechanism.noise_scale == pytest.approx(0.3988659, abs=5e-8)
    assert published.accuracy == pytest.approx(1 / (0.1 * 1000))
    tight = plan_output_perturbation(UNIT, budget, accuracy_fraction=0.01)
    assert tight.mechanism.noise_scale == pytest.approx(0.1420429, abs=5e-8)
    assert tight.mechanism.sensitivity == pytest.approx(2.02 / 100)


def test_lowy_algorithm_1_worked_example():
    """n = 1e4, d = 20, X = L = 1, lambda = 0.01, eps = 1: s / Delta = 2.4142."""
    rows = Records(np.zeros((10_000, 20)), 1.0)
    constants = FiniteSumProblem(
        rows.with_targets(np.zeros(10_000)), LogisticLoss(), 0.01, WholeSpace()
    ).constants
    for budget in (PrivacyBudget(1.0), PrivacyBudget(1.0, 1e-6)):
        plan = plan_output_perturbation(constants, budget, calibration="lowy2021_alg1")
        assert plan.exact_sensitivity == pytest.approx(0.02)
        assert 2 * plan.accuracy == pytest.approx(0.02828, abs=5e-6)
        ratio = plan.mechanism.sensitivity / plan.exact_sensitivity
        assert ratio == pytest.approx(2.4142, abs=5e-5)
    assert plan.mechanism.noise_multiplier == pytest.approx(5.084168, abs=5e-7)
    tight = plan_output_perturbation(constants, PrivacyBudget(1.0, 1e-6))
    assert tight.accuracy == pytest.approx(1e-5)  # theta Delta / 2, theta = 1e-3
    # an erratum: the regulariser does not count
    plan = plan_output_perturbation(UNIT, PrivacyBudget(1.0), calibration="lowy2021_alg6")
    assert plan.exact_sensitivity == pytest.approx(2.0 / (0.1 * 1000))  # not 2(L + lambda R)


@pytest.mark.parametrize("radius", [1e-9, 1.0, 1e7])
def test_problems_beyond_double_precision_need_no_solution(radius):
    """From public numbers, so that no data set can make a fit fail or run for ever."""
    constants = dataclasses.replace(UNIT, strong_convexity=1e-16, radius=radius)
    plan = plan_output_perturbation(constants, PrivacyBudget(1.0))
    assert plan.accuracy >= radius
    assert plan.mechanism.sensitivity == 2 * radius


def test_what_has_no_bound_is_refused():
    """Without a nominal size under add/remove, without a ball, and where nothing is proven."""
    records = Records(np.eye(2), 1.0, targets=np.zeros(2))
    with pytest.raises(ValueError, match="n_public"):
        problem = ball_problem(records, LogisticLoss(), 1.0)
        output_perturbation(problem, PrivacyBudget(1.0), neighbouring="add_remove")
    problem = FiniteSumProblem(records, HalfSquaredLoss(1.0), 0.1, WholeSpace())
    with pytest.raises(ValueError, match="ball"):
        output_perturbation(problem, PrivacyBudget(1.0))
    with pytest.raises(ValueError, match="epsilon < 1"):
        zhang_minimisation_noise(PrivacyBudget(1.0, 1e-5), 1.0, 0.1, 1000)
    with pytest.raises(ValueError, match="epsilon < 1"):
        zhang_saddle_noise(PrivacyBudget(2.0, 1e-5), 1.0, 0.1, 0.1, 1000)
    for name in ("lowy2021_alg1", "lowy2021_alg6", "zhang2022_alg1"):
        given = {"neighbouring": Neighbouring.ADD_REMOVE, "calibration": name}
        with pytest.raises(ValueError, match="replace_one"):
            plan_output_perturbation(UNIT, PrivacyBudget(0.5, 1e-5), **given)


@pytest.mark.parametrize("n", [1, 10**3, 10**6, 10**8])
@pytest.mark.parametrize("alpha", [1e-10, 1e-4, 1.0, 1e4])
def test_the_accuracy_is_always_certifiable(n, alpha):
    """The public floor keeps the gate satisfiable; where it binds, the noise grows with it."""
    constants = dataclasses.replace(
        UNIT, n_records=n, strong_convexity=alpha, radius=min(0.5 / alpha, 0.53 / alpha**0.5)
    )
    plan = plan_output_perturbation(constants, PrivacyBudget(1.0, 1e-6))
    assert plan.accuracy * alpha > constants.gradient_rounding
    covered = min(plan.exact_sensitivity + 2 * plan.accuracy, 2 * constants.radius)
    assert plan.mechanism.sensitivity == pytest.approx(covered)


@pytest.mark.parametrize("n_records", [1, 2, 40])
@pytest.mark.parametrize("alpha", [1e-9, 1e-3, 1e6])
def test_extreme_penalties_can_be_solved(n_records, alpha):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((n_records, 3)), np.ones(n_records)
    for loss in (LogisticLoss(), HalfSquaredLoss(1.0)):
        problem = ball_problem(Records(X, 1.0, targets=y), loss, alpha)
        result = output_perturbation(problem, PrivacyBudget(1.0, 1e-6))
        assert np.linalg.norm(result.point) <= problem.domain.radius


@pytest.mark.parametrize(
    ("loss", "epsilon", "delta"),
    [(LogisticLoss(), 0.3, 0.0), (SoftmaxLoss(3), 3.0, 1e-6), (HalfSquaredLoss(1.0), 0.3, 1e-6)],
    ids=str,
)
def test_measured_excess_risk_is_below_the_bound(loss, epsilon, delta):
    """The mean of 200 releases exceeds the bound by 5 standard errors: false-alarm rate 3e-7."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((400, 3))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    z = 2 * X[:, 0] + rng.standard_normal(400)
    if isinstance(loss, SoftmaxLoss):
        targets = np.digitize(z, [-0.5, 0.5])
    else:
        targets = (z > 0).astype(float) if isinstance(loss, LogisticLoss) else np.clip(z, -1, 1)
    rows = Records(X, 1.0)
    problem = ball_problem(rows.with_targets(targets), loss, 0.05)
    free = FiniteSumProblem(rows.with_targets(targets), loss, 1e-12, WholeSpace())
    best = minimize(free.value, np.zeros(free.dimension), jac=free.gradient, tol=1e-9)
    plan = plan_output_perturbation(problem.constants, PrivacyBudget(epsilon, delta))
    square = plan.mechanism.mean_square(problem.dimension)
    bound = utility_bound(
        Objective(EmpiricalRisk(loss), Design.of(rows)), plan.constants, plan.accuracy, square,
        comparator_norm=float(np.linalg.norm(best.x)),
    )  # fmt: skip
    source = NoiseSource(np.random.default_rng(2).bytes)
    exact = Newton().solve(problem, plan.accuracy).point
    excess = [free.value(plan.mechanism.release(exact, source)) - best.fun for _ in range(200)]
    error = np.std(excess) / math.sqrt(200)
    assert np.mean(excess) - 5 * error <= bound


def test_chosen_alpha_minimises_the_bound_and_scales_with_the_data():
    def chosen(feature_norm=1.0, **kwargs):
        settings = {
            "budget": PrivacyBudget(1.0, 1e-6), "neighbouring": Neighbouring.REPLACE_ONE,
        } | kwargs  # fmt: skip
        design = Design(feature_norm, 20, settings.pop("n_records", 10_000))
        budget = settings.pop("budget")
        return choose_alpha(Objective(EmpiricalRisk(LogisticLoss()), design, **settings), budget)

    base = chosen()
    # in units of the squared norm of a row, alpha does not depend on that norm
    assert chosen(feature_norm=100.0) == pytest.approx(1e4 * base, rel=5e-3)
    assert chosen(n_records=100_000) < base < chosen(n_records=1000)
    assert chosen(budget=PrivacyBudget(10.0, 1e-6)) < base < chosen(budget=PrivacyBudget(0.1, 1e-6))
    assert chosen(neighbouring=Neighbouring.ADD_REMOVE) < base
    assert chosen(coef_norm=0.5) > base
    assert chosen(coef_norm=1e3) == pytest.approx(base, rel=5e-3)
    # the bound is flat where the sensitivity is capped by the ball: no collapse there
    for epsilon in (50.0, 100.0, 300.0):
        budget = PrivacyBudget(epsilon, 1e-6)
        assert chosen(coef_norm=0.2, budget=budget) > 1e-5


def test_lowy_accuracies_and_regularisation():
    """Class H: alpha = 1e-6 in the worked example; F, J and G by their formulas."""
    budget = PrivacyBudget(1.0)
    assert lowy_gap(budget, 20, 10_000, 1.0, 0.25, strong_convexity=0.01) == pytest.approx(1e-6)
    non_smooth = lowy_gap(budget, 20, 10_000, 1.0, math.inf, strong_convexity=0.01)
    assert non_smooth == pytest.approx(1e-6)  # L^2/(mu n) min(1/n, q), q = 20
    r = 20 / 10_000
    assert lowy_gap(budget, 20, 10_000, 1.0, math.inf, radius=2.0) == pytest.approx(
        2.0 * r**1.5 / 21**2
    )
    with pytest.raises(ValueError, match="must be given"):
        lowy_gap(budget, 20, 10_000, 1.0, 0.25)
    smooth = lowy_regularisation(budget, 20, 10_000, 1.0, 0.25, 2.0)
    assert smooth == pytest.approx((0.25 / 4) ** (1 / 3) * r ** (2 / 3))
    rough = lowy_regularisation(budget, 20, 10_000, 1.0, math.inf, 2.0)
    assert rough == pytest.approx(1 / (2 * math.sqrt(1 + 1 / r)))

"""Output perturbation of saddle points: plans and published constants."""

import math

import numpy as np
import pytest
from saddle_problems import changed

from skdp.algorithms import plan_saddle_output_perturbation, saddle_output_perturbation
from skdp.privacy import PrivacyBudget
from skdp.privacy.gaussian_dp import gaussian_delta
from skdp.problems import (
    Ball,
    BilinearProblem,
    BlockConstants,
    SaddleConstants,
    Simplex,
)
from skdp.solvers import certifiable_saddle_accuracy, solve_certified

#: The reference case: L = 1 jointly.
UNIT = SaddleConstants(1000, BlockConstants(10, 0.1, 1.0), BlockConstants(10, 0.4, 0.0))
BUDGET = PrivacyBudget(0.5, 1e-5)


def problem_of(n=50, seed=0, domains=None, bounds=(1.0, 1.0, 1.0), mu=(0.5, 2.0)):
    rng = np.random.default_rng(seed)
    shapes = (n, 3, 2), (n, 3), (n, 2)
    domains = domains or (Ball(1.0), Simplex(2))
    return BilinearProblem(*(rng.normal(size=shape) for shape in shapes), bounds, *domains, *mu)


def test_published_algorithm_3():
    plan = plan_saddle_output_perturbation(UNIT, BUDGET, calibration="paper")
    assert plan.noise_scale_x == pytest.approx(0.8196737, abs=5e-8)
    assert plan.noise_scale_y == pytest.approx(0.4098369, abs=5e-8)
    assert plan.accuracy == pytest.approx(1 / (math.sqrt(0.1) * 1000))  # (3): L^2 / (mu n^2)
    assert plan.exact_sensitivity == pytest.approx(2 / (math.sqrt(0.1) * 1000))


def test_tight_algorithm_3():
    plan = plan_saddle_output_perturbation(UNIT, BUDGET, accuracy_fraction=0.01)
    assert plan.noise_scale_x == pytest.approx(0.1420429, abs=5e-8)
    assert plan.noise_scale_y == pytest.approx(0.0710214, abs=5e-8)
    assert plan.mechanism.sensitivity == pytest.approx(2.02 * UNIT.localisation / 1000)
    assert plan.dimension == 20
    delta = gaussian_delta(0.5, plan.mechanism.sensitivity / plan.mechanism.noise_scale)
    assert delta == pytest.approx(1e-5)


@pytest.mark.parametrize("release", ["both", "x", "y"])
@pytest.mark.parametrize("mu", [(0.1, 0.4), (3.0, 0.01)])
def test_published_noise_is_private(release, mu):
    constants = changed(UNIT, x_modulus=mu[0], y_modulus=mu[1], y_lipschitz=0.7)
    for budget in (PrivacyBudget(0.9, 1e-5), PrivacyBudget(0.1, 1e-2)):
        plan = plan_saddle_output_perturbation(
            constants, budget, release=release, calibration="paper"
        )
        tight = plan_saddle_output_perturbation(constants, budget, release=release)
        ratio = plan.mechanism.sensitivity / plan.mechanism.noise_scale
        assert gaussian_delta(budget.epsilon, ratio) < budget.delta
        assert tight.mechanism.noise_scale < plan.mechanism.noise_scale
        assert tight.exact_sensitivity <= plan.exact_sensitivity


def test_block_release_is_smaller_than_a_joint_one():
    constants = changed(UNIT, y_lipschitz=1.0)
    plans = {
        release: plan_saddle_output_perturbation(constants, BUDGET, release=release)
        for release in ("both", "x", "y")
    }
    assert plans["x"].noise_scale_x < plans["both"].noise_scale_x
    assert plans["y"].noise_scale_y < plans["both"].noise_scale_y
    known = (1 / 0.1 + math.sqrt(1 / 0.1**2 + 1 / (0.1 * 0.4))) / 1000
    assert plans["x"].exact_sensitivity == pytest.approx(known)
    for plan in plans.values():
        c = plan.constants
        unit = {"both": 1.0, "x": c.x.modulus**-0.5, "y": c.y.modulus**-0.5}
        total = plan.exact_sensitivity + 2 * plan.accuracy * unit[plan.released]
        assert plan.mechanism.sensitivity == pytest.approx(total, rel=1e-14)
        assert plan.release().sensitivity == plan.mechanism.sensitivity
        assert plan.release().event == plan.mechanism.event("replace_one")
        assert plan.to_dict()["noise_scale_x"] == plan.noise_scale_x
    assert plans["x"].release("weights").name == "weights"


def test_sensitivity_is_at_most_the_diameter():
    constants = changed(UNIT, n_records=1, x_radius=0.5, y_radius=1.0, y_circumradius=0.7)
    for release, known in (("both", 2 * constants.norm(0.5, 0.7)), ("x", 1.0)):
        plan = plan_saddle_output_perturbation(constants, BUDGET, release=release)
        assert plan.mechanism.sensitivity == pytest.approx(known)


def test_accuracy_is_certifiable():
    tiny = changed(UNIT, y_lipschitz=1.0, coupling=1.0, n_records=10**9)
    plan = plan_saddle_output_perturbation(tiny, BUDGET)
    assert plan.accuracy == certifiable_saddle_accuracy(tiny)
    assert plan.mechanism.sensitivity >= plan.exact_sensitivity + 2 * plan.accuracy


@pytest.mark.parametrize("release", ["both", "x", "y"])
def test_result(release):
    problem = problem_of()
    exact = solve_certified(problem, 1e-10)
    result = saddle_output_perturbation(problem, PrivacyBudget(1e8, 1e-5), release=release)
    assert (result.x is None) == (release == "y") and (result.y is None) == (release == "x")
    if result.x is not None:
        np.testing.assert_allclose(result.x, exact.x, atol=1e-3)
    if result.y is not None:
        np.testing.assert_allclose(result.y, exact.y, atol=1e-3)
        assert result.y.min() >= 0 and result.y.sum() == pytest.approx(1)
    noisy = saddle_output_perturbation(problem, PrivacyBudget(1e-3, 1e-5), release=release)
    if noisy.x is not None:
        assert np.linalg.norm(noisy.x) <= 1
    if noisy.y is not None:
        assert noisy.y.min() >= 0 and noisy.y.sum() == pytest.approx(1)

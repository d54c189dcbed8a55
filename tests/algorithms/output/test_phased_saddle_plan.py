"""Plans of phased saddle output perturbation: published numbers, and the planner."""

import math

import numpy as np
import pytest
from phased_saddle import ACCURACY_FRACTION, BUDGET, TABLE, TABLE_BUDGET, UNIT
from saddle_problems import changed

from skdp.algorithms import (
    SaddleUtilityBound,
    plan_phased_saddle_output_perturbation,
)
from skdp.algorithms.output import rules
from skdp.algorithms.output.blocks import block_sizes
from skdp.mechanisms import gaussian_noise_multiplier
from skdp.privacy import PrivacyBudget
from skdp.privacy.gaussian_dp import gaussian_delta


def test_published_algorithms_4_and_5():
    plan = plan_phased_saddle_output_perturbation(UNIT, BUDGET, calibration="paper")
    assert plan.block_sizes == (100,) * 10
    assert plan.other_regularisation == pytest.approx(2.978375, abs=5e-7)
    assert plan.regularisation == pytest.approx([2.978375 * 2**k for k in range(1, 11)])
    assert plan.noise_scales[0] == pytest.approx(0.1946017, abs=5e-8)
    assert plan.noise_scales[-1] == pytest.approx(8.600261e-3, abs=5e-10)  # a misprint of 1e-9
    mu = plan.other_regularisation
    for alpha, phase in zip(plan.regularisation, plan.phases, strict=True):
        assert phase.noise_scale_x == pytest.approx(
            8 / (100 * 0.5) * math.sqrt(2 * math.log(5 / 1e-5) / (alpha * mu)), rel=1e-8
        )
        assert phase.noise_scale_y == 0.0
        # the printed accuracy, mu_k ||.||^2 + mu ||.||^2 <= L^2 / (mu nbar^2)
        assert phase.accuracy == pytest.approx(1 / (math.sqrt(mu) * 100))
        assert phase.mechanism.sensitivity == pytest.approx(4 / (100 * math.sqrt(alpha * mu)))
    mirror = plan_phased_saddle_output_perturbation(
        UNIT.exchanged(), BUDGET, release="y", calibration="paper"
    )
    assert mirror.noise_scales == plan.noise_scales
    assert [phase.noise_scale_x for phase in mirror.phases] == [0.0] * 10
    assert "Alg. 4" in plan.release().reference and "Alg. 5" in mirror.release().reference
    # two runs of ours share the budget: less than with a half of epsilon and of delta each
    for phase in plan_phased_saddle_output_perturbation(UNIT, BUDGET, share=0.5).phases:
        assert phase.mechanism.noise_multiplier == pytest.approx(9.944505, abs=1e-6)


def test_published_convex_strongly_concave_variant():
    plan = plan_phased_saddle_output_perturbation(
        UNIT, BUDGET, record_moduli=(0.0, 0.2), calibration="paper"
    )
    assert plan.other_regularisation == 0.0
    assert plan.regularisation[0] == pytest.approx(2 * 2.675673, abs=1e-6)
    assert plan.noise_scales[0] == pytest.approx(0.3855496, abs=5e-8)
    assert {phase.constants.y.modulus for phase in plan.phases} == {0.2}
    # the number of coordinates is that of the released block
    wide = changed(UNIT, y_dimension=1000)
    assert plan.regularisation == (
        plan_phased_saddle_output_perturbation(
            wide, BUDGET, record_moduli=(0.0, 0.2), calibration="paper"
        ).regularisation
    )
    mirror = plan_phased_saddle_output_perturbation(
        UNIT.exchanged(), BUDGET, release="y", record_moduli=(0.2, 0.0), calibration="paper"
    )
    assert mirror.noise_scales == plan.noise_scales


def test_published_phases_spend_half():
    """Erratum Z3: Alg. 4 alone is (epsilon/2, delta/2)-DP; the variant is (epsilon, delta)-DP."""
    half = PrivacyBudget(0.5 * BUDGET.epsilon, 0.5 * BUDGET.delta)
    for budget, own in ((half, 0.0), (BUDGET, 0.2)):
        plan = plan_phased_saddle_output_perturbation(
            UNIT, BUDGET, record_moduli=(0.0, own), calibration="paper"
        )
        for phase in plan.phases:
            ratio = phase.mechanism.sensitivity / phase.mechanism.noise_scale
            assert gaussian_delta(budget.epsilon, ratio) < budget.delta
            assert 1 / ratio == pytest.approx(plan.release().event.noise_multiplier)


def grid_bound(constants, budget, sizes, growth, first, nu):
    """The formula for many (mu_1, nu) at once, written down a second time."""
    r, c = ACCURACY_FRACTION, constants
    if budget.is_pure:
        unit = c.x.dimension * (c.x.dimension + 1) / budget.epsilon**2
    else:
        unit = c.x.dimension * gaussian_noise_multiplier(budget.epsilon, budget.delta) ** 2
    distances = c.x.radius + c.x.center_norm, c.y.radius + c.y.center_norm
    total = 0.5 * first * distances[0] ** 2 + 0.5 * nu * distances[1] ** 2
    before = 0.0
    for k, size in enumerate(sizes):
        mu = first * growth**k
        square = c.x.lipschitz**2 / mu + c.y.lipschitz**2 / nu
        moved = (1 + r) * (c.x.lipschitz / mu + np.sqrt(square / mu)) / size
        moved = np.minimum(moved, 2 * c.x.radius)
        last = k + 1 == len(sizes)
        total = total + 2.0 * square / size
        if not last:
            total = total + 0.5 * c.y.lipschitz * np.sqrt(growth * mu / nu) * moved
        total = total + 0.5 * mu * before
        before = unit * moved**2
    total = total + c.x.lipschitz * np.sqrt(before)
    return total + c.y.lipschitz * c.coupling / nu * moved


@pytest.mark.parametrize(
    ("changes", "budget", "mirrored"),
    [
        ({}, TABLE_BUDGET, False),
        ({"coupling": 1.0}, PrivacyBudget(0.1, 1e-6), True),
        ({"n_records": 300, "coupling": 0.3, "y_radius": 0.2}, PrivacyBudget(1.0), False),
        (
            {"x_lipschitz": 30.0, "y_radius": 1e-3, "n_records": 10**6, "x_center_norm": 0.5},
            TABLE_BUDGET,
            True,
        ),
        ({"y_lipschitz": 30.0, "coupling": 30.0, "x_radius": 50.0}, PrivacyBudget(1.0), True),
    ],
    ids=str,
)
def test_the_plan_is_the_best_of_a_grid(changes, budget, mirrored):
    constants = changed(TABLE, **changes)
    plan = plan_phased_saddle_output_perturbation(
        constants.exchanged() if mirrored else constants, budget, release="y" if mirrored else "x"
    )
    found = SaddleUtilityBound(constants=constants)(plan.summaries)
    n, first, nu = constants.n_records, plan.regularisation[0], plan.other_regularisation
    growth = plan.regularisation[1] / first if len(plan.phases) > 1 else 1.0
    again = grid_bound(constants, budget, plan.block_sizes, growth, first, nu)
    assert found == pytest.approx(again, rel=1e-6)
    grid = np.exp(np.linspace(-9, 9, 60))
    alphas = constants.x.lipschitz / constants.x.radius / math.sqrt(n) * grid
    others = constants.y.lipschitz / constants.y.radius / math.sqrt(n) * grid
    best = min(
        grid_bound(constants, budget, sizes, growth, alphas[:, None], others).min()
        for growth, decrease in (*rules.GROWING_SCHEDULES, (8.0, 1.0), (64.0, 2.0))
        for sizes in (block_sizes(n, count, decrease) for count in range(1, 9))
        if sizes[-1] >= 1
    )
    assert found <= 1.01 * best

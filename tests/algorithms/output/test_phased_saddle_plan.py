"""Plans of phased saddle output perturbation: published numbers, and the planner."""

import itertools
import math

import numpy as np
import pytest
from phased_saddle import ACCURACY_FRACTION, BUDGET, TABLE, TABLE_BUDGET, UNIT
from saddle_problems import changed

from skdp.algorithms import (
    SaddleUtilityBound,
    plan_phased_saddle_output_perturbation,
    plan_saddle_output_perturbation,
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


def test_erratum_z8():
    """The printed bound of Corollary 4.9 is below a part of what it is to bound."""
    n, d, eps, delta, mu_y = 10**6, 20, 0.1, 1e-10, 3e-3
    constants = changed(UNIT, n_records=n, x_dimension=d)
    plan = plan_phased_saddle_output_perturbation(
        constants, PrivacyBudget(eps, delta), record_moduli=(0.0, mu_y), calibration="paper"
    )
    phases, count = plan.summaries, len(plan.phases)
    assert count == 20
    noise = sum(
        0.5 * later.regularisation * phase.mean_square
        for phase, later in itertools.pairwise(phases)
    )
    log = float(count)  # base 2, rounded up
    printed = 6 * log * (1 / math.sqrt(n) + 4 * math.sqrt(d * math.log(2.5 / delta)) / (n * eps))
    root = 65 * d * math.log(2.5 * n / delta) / (mu_y * (n * eps) ** 2)
    printed += log**2 * (8 / (mu_y * n) + root)
    assert printed == pytest.approx(1.95, abs=0.01)
    assert noise > 1.9 * printed
    # with (K - 1) K^2 in place of log(n)^2 and log(2.5 / delta): above the noise for 1/mu_y
    last = 65 * (count - 1) * count**2 * d * math.log(2.5 / delta) / (mu_y * (n * eps) ** 2)
    assert 0.4 * last < noise < last


@pytest.mark.parametrize(
    ("epsilon", "gain", "basic", "composed"),
    [(0.5, 5.8, 13.94799, 9.944505), (1.0, 5.4, 7.351149, 5.275910)],
)
def test_gain_over_the_published_noise(epsilon, gain, basic, composed):
    """With Lambda in place of the block bound, and r = 0.01."""
    budget = PrivacyBudget(epsilon, 1e-5)
    joint = changed(UNIT, x_lipschitz=0.0, y_lipschitz=1.0)
    paper = plan_phased_saddle_output_perturbation(joint, budget, calibration="paper")
    for phase in paper.phases:
        tight = plan_saddle_output_perturbation(phase.constants, budget, accuracy_fraction=0.01)
        assert phase.noise_scale_x / tight.noise_scale_x == pytest.approx(gain, abs=0.05)
        # the bound of the block is smaller still, by up to 2
        block = plan_saddle_output_perturbation(phase.constants, budget, release="x")
        assert 1.9 < tight.noise_scale_x / block.noise_scale_x < 2.1
    # two runs with half of the budget each: Alg. 4 and Alg. 5
    shared = plan_phased_saddle_output_perturbation(UNIT, budget, share=0.5)
    for phase in shared.phases:
        assert phase.mechanism.noise_multiplier == pytest.approx(composed, abs=1e-6)
    both = math.sqrt(2) / composed
    assert gaussian_delta(epsilon, both) == pytest.approx(1e-5, rel=1e-4)
    assert gaussian_noise_multiplier(epsilon / 2, 0.5e-5) == pytest.approx(basic, abs=1e-5)


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

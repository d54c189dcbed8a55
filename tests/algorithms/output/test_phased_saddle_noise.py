"""Noise of phased saddle output perturbation, and what one record can change (Lemmas 6 and 7)."""

import dataclasses
import math

import numpy as np
import pytest
from phased_saddle import (
    ACCURACY_FRACTION,
    BUDGET,
    UNIT,
    Weakest,
    group_problem,
    plan_of,
    problem_of,
    run,
    spying,
)
from plain_noise import PlainNoise, seeded

from skdp.algorithms import plan_phased_saddle_output_perturbation, plan_saddle_output_perturbation
from skdp.algorithms.output.blocks import assign_blocks
from skdp.mechanisms import NoiseSource, gaussian_noise_multiplier
from skdp.privacy import PrivacyBudget
from skdp.privacy.gaussian_dp import gaussian_delta
from skdp.problems import Ball, BilinearProblem, HalfSquaredLoss
from skdp.solvers import certifiable_saddle_accuracy


class Scripted(PlainNoise):
    """Given draws in place of noise; remembers how many numbers were asked for."""

    def __init__(self, draws):
        super().__init__(np.random.default_rng(3).bytes)
        self.draws, self.sizes = list(draws), []

    def standard_normal(self, size):
        self.sizes.append(size)
        return np.asarray(self.draws[len(self.sizes) - 1], dtype=float)[:size]


class Shared(BilinearProblem):
    """All records have the same public matrix: only offsets differ between neighbours."""

    def __init__(self, matrices, offsets_x, offsets_y, bounds, *rest, **kwargs):
        super().__init__(matrices, offsets_x, offsets_y, bounds, *rest, **kwargs)
        ranges = ((2.0 * bounds[1], 2.0 * bounds[2]),)
        self.constants = dataclasses.replace(self.constants, gradient_ranges=ranges)


def assignment_of(problem, plan, seed=3):
    return assign_blocks(seeded(seed), problem.n_records, plan.block_sizes)


def test_joint_noise_is_that_of_the_norm_of_the_moduli():
    """sigma_x = c Delta_M / sqrt(mu_x), sigma_y with mu_y."""
    plan = plan_phased_saddle_output_perturbation(UNIT, BUDGET, release="joint", n_phases=2)
    last, c = plan.phases[-1], plan.phases[-1].constants
    moved = 2 * math.sqrt(0.64 / c.x.modulus + 0.36 / c.y.modulus) / c.n_records
    multiplier = gaussian_noise_multiplier(0.5, 1e-5) * (1 + ACCURACY_FRACTION)
    known = multiplier * moved / math.sqrt(c.x.modulus)
    assert last.noise_scale_x == pytest.approx(known, rel=1e-6)
    known = multiplier * moved / math.sqrt(c.y.modulus)
    assert last.noise_scale_y == pytest.approx(known, rel=1e-6)
    assert plan.phases[0].noise_scale_y == 0.0
    alone = plan_saddle_output_perturbation(c, BUDGET, release="x")
    assert alone.noise_scale_x < last.noise_scale_x


@pytest.mark.parametrize(
    ("make", "release", "calibration"),
    [
        (problem_of, "x", "paper"),
        (problem_of, "joint", "analytic"),
        (lambda: problem_of(own=(0.0, 0.3)), "y", "paper"),
        (lambda: problem_of(own=(0.7, 0.3), domains=(Ball(0.3), Ball(4.0))), "x", "analytic"),
        (lambda: problem_of(center_x=np.array([3.0, 0, 0])), "joint", "analytic"),
        (lambda: problem_of(center_y=np.array([0.5, -2.0])), "y", "analytic"),
        (group_problem, "joint", "analytic"),
        (lambda: group_problem(public=True), "x", "analytic"),
        (lambda: group_problem(public=True, block_size=256), "y", "paper"),
        (lambda: group_problem(loss=HalfSquaredLoss(1.0), block_size=256), "x", "paper"),
    ],
)
def test_no_block_has_larger_constants_than_its_plan(make, release, calibration):
    """Constants are put together twice: for the plan, and by the problem that is solved."""
    problem, seen = make(), []

    def spy(given, accuracy):
        seen.append((given, accuracy))
        return given.start()

    alpha = 0.1 / 3  # not a binary fraction: sums in another order differ
    result = run(
        problem, release=release, alpha=alpha, calibration=calibration, solver=spying(spy),
        strata=getattr(problem, "groups", None), n_phases=3, noise=NoiseSource(),
    )  # fmt: skip
    assert len(seen) == len(result.plan.phases)
    ulp = 1 + 1e-14  # far below the slack of 1e-9 that sensitivities have
    for (block, accuracy), phase in zip(seen, result.plan.phases, strict=True):
        real, plan = block.constants, phase.constants
        assert real.n_records == plan.n_records
        data = block.matrices if isinstance(block, BilinearProblem) else block.records.targets
        assert len(data) == plan.n_records
        moduli = problem.record_moduli
        for block_real, block_plan, modulus, alpha in (
            (real.x, plan.x, moduli[0], block.alpha_x),
            (real.y, plan.y, moduli[1], block.alpha_y),
        ):
            assert block_real.modulus >= block_plan.modulus / ulp
            assert block_real.modulus <= (modulus + alpha) * ulp
            for name in (
                *("dimension", "lipschitz", "smoothness", "radius", "diameter", "center_norm"),
                *("projection_rounding", "additional_rounding"),
            ):
                assert getattr(block_real, name) <= getattr(block_plan, name) * ulp, name
        for name in (
            *("diameter", "sensitivity", "sensitivity_x", "sensitivity_y"),
            *("coupling", "data_lipschitz"),
        ):
            assert getattr(real, name) <= getattr(plan, name) * ulp, name
        for ours, planned in zip(real.ranges, plan.ranges, strict=True):
            assert ours[0] <= planned[0] and ours[1] <= planned[1]
        for ours, planned in zip(
            real.operator_rounding(1.0, 1.0), plan.operator_rounding(1.0, 1.0), strict=True
        ):
            assert ours <= planned * ulp
        assert certifiable_saddle_accuracy(real) <= phase.accuracy * ulp
        assert accuracy == 0.5 * phase.accuracy
        unit = {"x": plan.x.modulus**-0.5, "y": plan.y.modulus**-0.5}
        exact = {"x": real.sensitivity_x, "y": real.sensitivity_y}
        moved = exact.get(phase.released, real.sensitivity)
        total = moved + 2 * phase.accuracy * unit.get(phase.released, 1.0)
        diameters = {"x": real.x.diameter, "y": real.y.diameter}
        total = min(total, diameters.get(phase.released, real.diameter))
        assert phase.mechanism.sensitivity >= total / ulp


def extremal_pair(plan, k, release, bounds, radius, n, position):
    """Neighbours whose solutions of phase k are as far apart as Lemma 1 lets them be."""
    c = plan.phases[k].constants
    root = math.sqrt(c.x.modulus * c.y.modulus)
    released = plan.phases[k].released
    g_x = bounds[1] / math.sqrt(c.x.modulus)
    g_y = bounds[2] / math.sqrt(c.y.modulus)
    first, second = (g_y, g_x) if released == "y" else (g_x, g_y)
    tilt = 0.0 if released == "both" else root * math.tan(0.5 * math.atan2(second, first))
    assert tilt <= bounds[0]
    problems = []
    for sign in (1.0, -1.0):
        offsets_x, offsets_y = np.zeros((n, 1)), np.zeros((n, 1))
        offsets_x[position] = sign * bounds[1]
        offsets_y[position] = sign * bounds[2] * (1.0 if released == "y" else -1.0)
        problems.append(
            Shared(
                *(np.full((n, 1, 1), tilt), offsets_x, offsets_y, bounds),
                *(Ball(radius), Ball(radius), 1.0, 1.0),
            )
        )
    return problems


@pytest.mark.parametrize(
    ("release", "budget", "k"),
    [
        *(("x", BUDGET, k) for k in (0, 1, 2)),
        ("y", BUDGET, 0),
        ("joint", BUDGET, 2),
        ("x", PrivacyBudget(0.5), 2),
        ("y", PrivacyBudget(0.5), 1),
        ("joint", PrivacyBudget(0.5), 0),
    ],
)
def test_worst_neighbours_are_as_far_apart_as_the_noise_expects(budget, release, k):
    """The phase that differs uses its sensitivity up, wherever it is; later phases cost nothing."""
    n, bounds, radius = 60, (0.1, 0.8, 0.6), 20.0
    kwargs = {"release": release, "n_phases": 3, "utility": Weakest(0.01)}
    zeros = np.zeros((n, 1))
    empty = Shared(
        *(np.zeros((n, 1, 1)), zeros, zeros, bounds, Ball(radius), Ball(radius), 1.0, 1.0)
    )
    plan = plan_of(empty, budget, **kwargs)
    position = int(np.flatnonzero(assignment_of(empty, plan) == k)[0])
    ends = extremal_pair(plan, k, release, bounds, radius, n, position)
    results = [run(end, budget, **kwargs) for end in ends]
    phase = plan.phases[k]
    assert results[0].plan == results[1].plan == plan
    for j in range(k):
        np.testing.assert_array_equal(results[0].path[j], results[1].path[j])
    step = results[0].path[k] - results[1].path[k]
    moved = float(np.linalg.norm(step))
    if phase.released == "both":
        away = results[0].y - results[1].y
        moved = phase.constants.norm(moved, float(np.linalg.norm(away)))
    sensitivity = phase.mechanism.sensitivity
    assert 0.995 * sensitivity < moved <= sensitivity
    if budget.is_pure:
        assert moved / phase.mechanism.noise_scale <= budget.epsilon
    else:  # the whole algorithm's delta, because all else has the same law
        delta = gaussian_delta(budget.epsilon, moved / phase.mechanism.noise_scale)
        assert 0.9 * budget.delta < delta <= budget.delta
    if phase.released != "both" and not budget.is_pure:
        # noise that hides the step: from then on the two runs are one
        draws = np.zeros((3, 2))
        draws[k, 0] = step[0] / phase.mechanism.noise_scale
        hidden = run(ends[1], budget, noise=Scripted(draws), **kwargs)
        for j in range(3):
            accuracy = 2e-3 * plan.phases[j].mechanism.sensitivity if j > k else 1e-12
            np.testing.assert_allclose(hidden.path[j], results[0].path[j], atol=accuracy)

"""Phased saddle output perturbation ("Phases", Lemmas 6 and 7): moduli, solutions, refusals."""

import math

import numpy as np
import pytest
from phased_saddle import group_problem, plan_of, problem_of, run, spying

from skdp.algorithms import SaddleUtilityBound, plan_phased_saddle_output_perturbation
from skdp.mechanisms import NoiseSource
from skdp.privacy import PrivacyBudget
from skdp.problems import Ball, BlockConstants, SaddleConstants, Simplex, WholeSpace
from skdp.solvers import BestResponse, solve_certified


@pytest.mark.parametrize("release", ["x", "y", "joint"])
def test_own_moduli_take_the_place_of_the_other_regulariser(release):
    own = (4.0, 0.0) if release == "y" else (0.0, 4.0)
    problem, seen = problem_of(own=own), []

    def spy(given, accuracy):
        seen.append((given.alpha_x, given.alpha_y))
        return given.start()

    plan = run(problem, release=release, solver=spying(spy), n_phases=2).plan
    assert plan.other_regularisation == 0.0
    other = [pair[release != "y"] for pair in seen]
    assert other == [0.0, 0.0]
    for phase, alpha in zip(plan.phases, plan.regularisation, strict=True):
        c = phase.constants
        moduli = c.x.modulus, c.y.modulus
        assert moduli == pytest.approx((4.0, alpha) if release == "y" else (alpha, 4.0))
    # the other way round it adds to the alphas, and a regulariser is needed
    around = plan_of(problem, release="x" if release == "y" else "y", n_phases=2)
    assert around.other_regularisation > 0
    c = around.phases[0].constants
    modulus = c.x.modulus if release == "y" else c.y.modulus
    assert modulus == pytest.approx(4.0 + around.regularisation[0])


@pytest.mark.parametrize(("own", "alpha"), [(1.2, 1e16), (1e-3, 1e6), (0.3, 0.1)])
def test_own_moduli_are_not_overstated_by_rounding(own, alpha):
    """Constants of a phase are made of what is left when the old regulariser is taken away."""
    problem = problem_of(20, own=(own, own)).with_regularisers(alpha, alpha)
    assert max(problem.record_moduli) <= own


def test_alpha_is_a_penalty_of_the_objective():
    problem = problem_of(n=2000, domains=(Ball(2.0), Ball(1.0)))
    rich = PrivacyBudget(1e7, 1e-5)
    exact = solve_certified(problem.with_regularisers(0.5, 1e-6), 1e-6)
    plain = run(problem, rich, noise=NoiseSource())
    result = run(problem, rich, alpha=0.5, noise=NoiseSource())
    assert result.plan.alpha == 0.5
    for phase, alpha in zip(result.plan.phases, result.plan.regularisation, strict=True):
        assert phase.constants.x.modulus == pytest.approx(0.5 + alpha)
    assert np.linalg.norm(result.x) < np.linalg.norm(plain.x)
    np.testing.assert_allclose(result.x, exact.x, atol=0.02)


@pytest.mark.parametrize("release", ["x", "joint"])
def test_a_large_budget_gives_the_solution(release):
    problem = problem_of(n=4000, domains=(Ball(1.0), Simplex(2)))
    result = run(problem, PrivacyBudget(1e7, 1e-5), release=release, noise=NoiseSource())

    def primal(x):
        return float(problem.mean_x @ x + (x @ problem.mean_matrix - problem.mean_y).max())

    exact = solve_certified(problem.with_regularisers(1e-5, 1e-5), 1e-5)
    bound = SaddleUtilityBound(constants=problem.constants)
    assert primal(exact.x) - 1e-4 <= primal(result.x)
    assert primal(result.x) <= primal(exact.x) + min(0.02, bound(result.plan.summaries))
    assert np.linalg.norm(result.x) <= 1.0
    if release == "joint":
        assert result.y.min() >= 0 and result.y.sum() == pytest.approx(1)


def test_strata_reach_the_blocks():
    problem, seen = group_problem(600, public=True), []

    def spy(given, accuracy):
        seen.append(np.bincount(given.records.groups, minlength=3))
        return given.start()

    plan = run(problem, solver=spying(spy), strata=problem.records.groups, n_phases=4).plan
    whole = np.bincount(problem.records.groups, minlength=3)
    for counts, size in zip(seen, plan.block_sizes, strict=True):
        assert (np.abs(counts - whole * size / 600) <= 1 + 4 * size / 600).all()


def test_single_records_and_blocks():
    """The smallest sizes: n = 1, and blocks of one record."""
    for n in (1, 2, 3):
        result = run(problem_of(n))
        assert sum(result.plan.block_sizes) == n
        paper = run(problem_of(n), calibration="paper")
        assert 1 <= sum(paper.plan.block_sizes) <= n


def test_what_the_algorithm_refuses():
    with pytest.raises(ValueError, match="bounded"):
        run(problem_of(domains=(WholeSpace(), Ball(1.0)), bounds=(0.0, 1.0, 1.0)))
    with pytest.raises(ValueError, match="solver"):
        run(problem_of(), solver="newton")
    for length in (500, 700):
        with pytest.raises(ValueError, match="strata"):
            run(problem_of(), strata=np.zeros(length))


def test_functions_with_memory_are_refused():
    kept = []

    def remembers(problem, accuracy):
        kept.append(problem.mean_x[0])
        return problem.start()

    for solver in (remembers, BestResponse(lambda p, a: kept.append(p))):
        with pytest.raises(ValueError, match="'kept', a list that it refers to"):
            run(problem_of(), solver=solver, n_phases=2)
    assert kept == []
    run(problem_of(), solver=lambda problem, accuracy: problem.start(), n_phases=2)


def test_the_printed_variant_needs_its_condition():
    """Section 4.3 is for mu_y >= L / (D sqrt(n)); a smaller one would ruin the noise."""
    constants = SaddleConstants(
        1000, BlockConstants(2, 1.0, 1.0, radius=1.0), BlockConstants(2, 1.0, 0.0, radius=1.0)
    )
    budget = PrivacyBudget(0.5, 1e-5)

    def plan(own):
        return plan_phased_saddle_output_perturbation(
            constants, budget, record_moduli=(0.0, own), calibration="paper"
        )

    assert "Alg. 4" in plan(0.9 / math.sqrt(1000)).reference
    assert "4.3" in plan(1.1 / math.sqrt(1000)).reference
    scales = plan(0.0).noise_scales
    assert plan(1e-12).noise_scales == pytest.approx(scales)

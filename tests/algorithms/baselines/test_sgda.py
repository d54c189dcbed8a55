"""DP-SGDA: price, sensitivity, noise, and that nothing but public numbers makes the plan.

Seeded tests of a law either always pass or always fail; the rate of false alarms is stated for
those who change a seed.
"""

import dataclasses
import importlib
import inspect
import json
import math
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_noise import in_step, seeded
from refusals import one_at_a_time
from saddle_problems import changed

from skdp.algorithms import Run, dp_sgda, plan_dp_sgda
from skdp.algorithms.baselines.sgda import DPSGDAPlan
from skdp.mechanisms import SampledGaussianMechanism
from skdp.mechanisms.sampled_gaussian import poisson_sample
from skdp.privacy import (
    GaussianEvent,
    PoissonSampledEvent,
    PoissonSampledSumEvent,
    PrivacyBudget,
    RepeatedEvent,
    tightest_epsilon,
)
from skdp.problems import (
    Ball,
    BilinearProblem,
    BlockConstants,
    GroupWeights,
    LogisticLoss,
    MaxGroupLossProblem,
    Records,
    SaddleConstants,
    SaddleProblem,
    Simplex,
    WholeSpace,
)
from skdp.solvers import solve_certified

CONSTANTS = SaddleConstants(100, BlockConstants(3, 0.5, 3.0), BlockConstants(2, 0.5, 0.5))
PLAN = {"sampling_rate": 0.1, "n_steps": 20, "learning_rate_x": 0.1, "learning_rate_y": 0.2}
#: Valid public arguments without noise to speak of.
RUN = PLAN | {"sampling_rate": 1.0, "noise_multiplier": 1e-13}
RELATIONS = pytest.mark.parametrize("relation", ["replace_one", "add_remove"])


def problem_of(n=40, seed=0, domains=None, bounds=(1.0, 1.0, 1.0), mu=(0.5, 1.0), **centers):
    rng = np.random.default_rng(seed)
    shapes = (n, 3, 2), (n, 3), (n, 2)
    domains = domains or (Ball(1.0), Simplex(2))
    records = [rng.normal(0.3, 1.0, size=shape) for shape in shapes]
    return BilinearProblem(*records, bounds, *domains, *mu, **centers)


def linear_problem(b, c, bounds=(1.0, 1.0), mu=1e-12):
    """Records <b_i, x> - <c_i, y>: the operator of a record does not depend on the point."""
    matrices = np.zeros((len(b), b.shape[1], c.shape[1]))
    return BilinearProblem(matrices, b, c, (0.0, *bounds), WholeSpace(), WholeSpace(), mu, mu)


# --- price --------------------------------------------------------------------------------


@pytest.mark.mostly("slow", 1)
@pytest.mark.parametrize(
    ("epsilon", "delta", "sampling_rate", "n_steps"),
    [(0.3, 1e-5, 0.05, 200), (2.0, 1e-5, 0.05, 200), (0.5, 1e-6, 0.01, 1000), (0.7, 1e-8, 0.5, 1)],
)
@RELATIONS
def test_noise_honours_the_budget(epsilon, delta, sampling_rate, n_steps, relation):
    accounting = pytest.importorskip("dp_accounting")
    from dp_accounting.pld import PLDAccountant

    changes = {"sampling_rate": sampling_rate, "n_steps": n_steps, "neighbouring": relation}
    plan = plan_dp_sgda(CONSTANTS, PrivacyBudget(epsilon, delta), **PLAN | changes, n_public=77)
    assert plan.epsilon(delta) <= epsilon
    # the library itself, with steps finer than those of the calibration: a tighter bound.
    # It measures noise in units of a record's bound, which is 1 (and 1e-9) in scaled coordinates
    step = accounting.PoissonSampledDpEvent(
        sampling_rate, accounting.GaussianDpEvent(plan.mechanism.noise_scale / (1 + 1e-9))
    )
    neighbours = {
        "replace_one": accounting.NeighboringRelation.REPLACE_ONE,
        "add_remove": accounting.NeighboringRelation.ADD_OR_REMOVE_ONE,
    }[relation]
    accountant = PLDAccountant(neighbours, value_discretization_interval=5e-5 * epsilon)
    spent = accountant.compose(step, n_steps).get_epsilon(delta)
    assert spent <= epsilon
    assert spent > 0.99 * epsilon  # no more noise than needed


@pytest.mark.parametrize("delta", [1e-5, 1e-300])
@RELATIONS
def test_noise_without_sampling_is_exact_and_needs_no_extra(delta, relation, monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    changes = {"sampling_rate": 1.0, "n_steps": 30, "neighbouring": relation, "n_public": 50}
    plan = plan_dp_sgda(CONSTANTS, PrivacyBudget(0.7, delta), **PLAN | changes)
    assert plan.event == RepeatedEvent(GaussianEvent(plan.noise_multiplier, relation), 30)
    assert 0.7 * (1 - 1e-6) < tightest_epsilon(plan.event, delta, relation) <= 0.7
    assert plan.epsilon() == plan.epsilon(delta) <= 0.7
    # a record adds a vector of length 1 in scaled coordinates, and replacing it moves by 2
    known = {"replace_one": 2.0, "add_remove": 1.0}[relation]
    assert plan.mechanism.sensitivity == pytest.approx(known, rel=1e-8)


@pytest.mark.slow
def test_sampling_saves_noise_and_steps_cost():
    pytest.importorskip("dp_accounting")

    def noise(**changes):
        plan = plan_dp_sgda(CONSTANTS, PrivacyBudget(0.3, 1e-5), **PLAN | changes, n_public=100)
        return plan.noise_scale_x

    assert noise(sampling_rate=0.05) < noise() < noise(n_steps=40) < noise(sampling_rate=1.0)
    assert noise(neighbouring="add_remove") < noise() < 2.01 * noise(neighbouring="add_remove")


def test_smaller_gradient_ranges_save_noise():
    budget = PrivacyBudget(0.3, 1e-5)
    close = dataclasses.replace(CONSTANTS, gradient_ranges=((3.0, 1.0), (6.0, 0.2)))
    plans = [
        plan_dp_sgda(constants, budget, **PLAN | {"sampling_rate": 1.0})
        for constants in (CONSTANTS, close)
    ]
    ranges = [math.hypot(3 / plans[0].unit_x, 1 / plans[0].unit_y)]
    ranges.append(math.hypot(6 / plans[0].unit_x, 0.2 / plans[0].unit_y))
    assert plans[1].mechanism.sensitivity == pytest.approx(max(ranges), rel=1e-8)
    assert plans[1].noise_scale_x < plans[0].noise_scale_x
    assert plans[1].noise_multiplier == plans[0].noise_multiplier


@pytest.mark.slow
def test_sampling_never_costs_more_noise_than_small_ranges_without_it():
    """Where the records' operators are nearly equal, the range may beat the sampling."""
    pytest.importorskip("dp_accounting")
    near = dataclasses.replace(CONSTANTS, gradient_ranges=((0.06, 0.01),))
    sampled, full = (
        plan_dp_sgda(near, PrivacyBudget(0.5, 1e-5), **PLAN | {"sampling_rate": q, "n_steps": 5})
        for q in (0.9, 1.0)
    )
    assert full.noise_scale_x < 0.1 * plan_dp_sgda(
        CONSTANTS, PrivacyBudget(0.5, 1e-5), **PLAN | {"sampling_rate": 1.0, "n_steps": 5}
    ).noise_scale_x  # fmt: skip
    assert sampled.noise_scale_x <= full.noise_scale_x * 1.01
    assert sampled.epsilon(1e-5) <= 0.5


@pytest.mark.slow
def test_the_sampled_event_says_what_happened():
    plan = plan_dp_sgda(CONSTANTS, **PLAN, noise_multiplier=1.5)
    step = plan.event.event
    assert plan.event == RepeatedEvent(step, 20)
    gaussian = GaussianEvent(1.5, "replace_one")
    assert step == PoissonSampledSumEvent(0.1, gaussian, step.record_multiplier)
    # a record adds a vector of length 1 in scaled coordinates
    assert step.record_multiplier == pytest.approx(plan.mechanism.noise_scale, rel=1e-8)
    assert step.record_multiplier == pytest.approx(3.0, rel=1e-8)
    assert plan.epsilon(1e-5) == tightest_epsilon(plan.event, 1e-5)
    other = plan_dp_sgda(
        CONSTANTS, **PLAN, noise_multiplier=1.5, neighbouring="add_remove", n_public=9
    )
    gaussian = GaussianEvent(1.5, "add_remove")
    assert other.event == RepeatedEvent(PoissonSampledEvent(0.1, gaussian), 20)
    steps = SampledGaussianMechanism(1.0, 1.5, 0.1, 20)
    assert other.event == steps.event("add_remove")
    assert other.epsilon(1e-5) == tightest_epsilon(other.event, 1e-5)


def test_a_delta_beyond_the_convolution_gets_more_noise_not_less_privacy():
    pytest.importorskip("dp_accounting")
    usual, tiny = (plan_dp_sgda(CONSTANTS, PrivacyBudget(0.5, d), **PLAN) for d in (1e-5, 1e-30))
    assert tiny.noise_multiplier > usual.noise_multiplier
    assert tiny.epsilon(1e-30) <= 0.5
    assert tightest_epsilon(tiny.event, 1e-30) <= 0.5  # without sampling


def test_a_missing_or_old_accountant_is_named(monkeypatch):
    library = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    with monkeypatch.context() as patch:
        patch.setattr(library, "from_gaussian_mechanism", lambda standard_deviation: None)
        with pytest.raises(ImportError, match=r"dp-accounting >= 0\.5.*add_remove"):
            plan_dp_sgda(CONSTANTS, PrivacyBudget(0.123, 1e-5), **PLAN)
    plan = plan_dp_sgda(CONSTANTS, **PLAN, noise_multiplier=1.5)
    unsampled = tightest_epsilon(RepeatedEvent(GaussianEvent(1.5, "replace_one"), 20), 1e-5)
    assert plan.epsilon(1e-5) < 0.5 * unsampled
    for name in ("dp_accounting", "dp_accounting.pld", library.__name__):
        monkeypatch.setitem(sys.modules, name, None)
    for relation in ("replace_one", "add_remove"):
        with pytest.raises(ImportError, match=r"skdp\[accounting\].*noise_multiplier"):
            plan_dp_sgda(
                CONSTANTS, PrivacyBudget(0.123, 1e-5), **PLAN, n_public=5, neighbouring=relation
            )
    assert plan_dp_sgda(CONSTANTS, **PLAN, noise_multiplier=1.5) == plan
    assert plan.epsilon(1e-5) == unsampled


# --- the plan is public -------------------------------------------------------------------


@pytest.mark.mostly("slow", 1)
@RELATIONS
def test_the_plan_depends_on_public_numbers_only(relation):
    pytest.importorskip("dp_accounting")
    sizes = [40, 40, 40] if relation == "replace_one" else [40, 3, 90]
    results = [
        dp_sgda(
            problem_of(n, seed), PrivacyBudget(0.5, 1e-5), **PLAN, neighbouring=relation,
            n_public=50, run=Run(noise=seeded(seed)),
        )
        for seed, n in enumerate(sizes)
    ]  # fmt: skip
    plans = [result.plan for result in results]
    assert plans == plans[:1] * 3
    assert isinstance(plans[0], DPSGDAPlan)
    assert (plans[0].n_public, plans[0].expected_batch) == (50, pytest.approx(5.0))
    assert not np.array_equal(results[0].x, results[1].x)


def test_the_size_is_the_default_under_replace_one_and_never_under_add_remove():
    assert plan_dp_sgda(CONSTANTS, **RUN).n_public == 100
    with pytest.raises(ValueError, match="needs n_public"):
        plan_dp_sgda(CONSTANTS, **RUN, neighbouring="add_remove")
    sizes = (
        plan_dp_sgda(dataclasses.replace(CONSTANTS, n_records=n), **RUN, n_public=30,
                     neighbouring="add_remove")
        for n in (7, 3000)
    )  # fmt: skip
    assert next(sizes) == next(sizes)


def test_the_plan_as_plain_types_and_as_a_release():
    plan = plan_dp_sgda(CONSTANTS, **PLAN, noise_multiplier=3.0, n_public=80)
    numbers = json.loads(json.dumps(plan.to_dict()))
    assert numbers["neighbouring"] == "replace_one"
    assert numbers["noise_scale_x"] == plan.noise_scale_x
    assert "mechanism" not in numbers
    release = plan.releases[0]
    assert release.sensitivity == pytest.approx(2.0)
    assert release.noise_scale == pytest.approx(6.0)
    assert (release.dimension, release.n_records) == (5, 80)
    assert json.loads(json.dumps(release.to_dict()))["event"]["type"] == "repeated"
    # the balance is 1/2: both blocks have noise of sqrt(2) L per unit
    assert plan.noise_scale_x == pytest.approx(6.0 * math.sqrt(2) * 3.0)
    assert plan.noise_scale_y == pytest.approx(6.0 * math.sqrt(2) * 0.5)


def test_the_automatic_balance_minimises_the_noise_in_the_bound():
    def cost(balance):
        plan = plan_dp_sgda(CONSTANTS, **RUN, balance=balance)
        return (
            0.1 * 3 * plan.noise_scale_x**2 + 0.2 * 2 * plan.noise_scale_y**2
        ) / plan.mechanism.noise_scale**2

    best = (3.0 / plan_dp_sgda(CONSTANTS, **RUN, balance="auto").unit_x) ** 2
    assert cost("auto") == pytest.approx(cost(best))
    assert cost("auto") < min(map(cost, (0.5, best + 0.02, best - 0.02, 0.1)))


def test_a_block_without_records_gets_no_noise():
    constants = changed(CONSTANTS, y_lipschitz=0.0)
    for balance in (0.3, "auto"):
        plan = plan_dp_sgda(constants, **PLAN, noise_multiplier=1.0, balance=balance)
        assert (plan.noise_scale_y, plan.unit_x) == (0.0, 3.0)
        assert plan.mechanism.sensitivity == pytest.approx(2.0)
    for change in ({"x_lipschitz": 0.0}, {"gradient_ranges": ((0.0, 0.0),)}):
        nothing = changed(constants, **change)
        with pytest.raises(ValueError, match="depends on no record"):
            plan_dp_sgda(nothing, **PLAN, noise_multiplier=1.0)


# --- sensitivity --------------------------------------------------------------------------


def sums_of(problem, x, y):
    module = importlib.import_module("skdp.algorithms.baselines.sgda")
    return module._batch_sums(problem, None, x, y)


def scaled_movement(plan, one, other, x, y):
    sums = zip(sums_of(one, x, y), sums_of(other, x, y), strict=True)
    moved = [np.linalg.norm(first - second) for first, second in sums]
    return math.hypot(moved[0] / plan.unit_x, moved[1] / plan.unit_y)


@pytest.mark.slow
@settings(max_examples=200)
@given(data=st.data(), relation=st.sampled_from(["replace_one", "add_remove"]))
def test_a_record_moves_the_scaled_sums_by_the_sensitivity_at_most(data, relation):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    n, dx, dy = (data.draw(st.integers(1, 4)) for _ in range(3))
    bounds = tuple(data.draw(st.sampled_from([1e-3, 1.0, 50.0])) for _ in range(3))
    size = 10.0 ** data.draw(st.integers(-3, 3))
    records = [rng.normal(0, size, (n + 1, *shape)) for shape in ((dx, dy), (dx,), (dy,))]
    domains = Ball(data.draw(st.sampled_from([0.1, 3.0]))), Ball(2.0)
    problems = []
    for kept in (slice(0, n), slice(1, n + 1) if relation == "replace_one" else slice(0, n + 1)):
        parts = [part[kept] for part in records]
        problems.append(BilinearProblem(*parts, bounds, *domains, 1.0, 1.0))
    balance = data.draw(st.sampled_from([0.5, 0.01, 0.9, "auto"]))
    plan = plan_dp_sgda(
        problems[0].constants, **RUN, neighbouring=relation, n_public=5, balance=balance
    )
    x, y = problems[0].project(rng.normal(0, 5, dx), rng.normal(0, 5, dy))
    assert scaled_movement(plan, *problems, x, y) <= plan.mechanism.sensitivity


@pytest.mark.parametrize("balance", [0.5, 0.1, "auto"])
@RELATIONS
def test_the_sensitivity_is_reached(relation, balance):
    """Records (a, b, c) = +-(1, 1, 1) at (x, y) = (-1, 1): both blocks are as long as can be."""
    record = [np.ones((1, 1, 1)), np.ones((1, 1)), np.ones((1, 1))]
    minus = [-part for part in record]
    still = [0 * part for part in record]
    other = minus if relation == "replace_one" else still  # a record of zeros adds nothing
    problems = [
        BilinearProblem(*parts, (1.0, 1.0, 1.0), Ball(1.0), Ball(1.0), 1.0, 1.0)
        for parts in (record, other)
    ]
    plan = plan_dp_sgda(
        problems[0].constants, **RUN, neighbouring=relation, n_public=1, balance=balance
    )
    moved = scaled_movement(plan, *problems, np.array([-1.0]), np.array([1.0]))
    assert 0.99 * plan.mechanism.sensitivity < moved <= plan.mechanism.sensitivity


@pytest.mark.mostly("slow", 2)
@pytest.mark.parametrize("sampling_rate", [0.5, 1.0])
@RELATIONS
def test_a_record_moves_a_step_by_the_learning_rate_over_the_batch(sampling_rate, relation):
    """Through the public function: neighbours under the same batches and noise."""
    rng = np.random.default_rng(4)
    n, n_public, moved = 20, 15, []
    for trial in range(100):
        b, c = rng.normal(0, 3, (n + 1, 3)), rng.normal(0, 3, (n + 1, 2))
        b[n], c[n] = -b[0] * 100, -c[0] * 100
        blocks = []
        for kept in (np.arange(n), np.arange(n + 1) if relation == "add_remove" else np.r_[n, 1:n]):
            result = dp_sgda(
                linear_problem(b[kept], c[kept], (2.0, 0.3)), sampling_rate=sampling_rate,
                n_steps=1, learning_rate_x=0.7, learning_rate_y=5.0, neighbouring=relation,
                n_public=n_public, noise_multiplier=0.5, run=Run(noise=in_step(trial)),
            )  # fmt: skip
            blocks.append(result)
        one, two = blocks
        moved.append(
            math.hypot(
                np.linalg.norm(one.x - two.x) / (0.7 * one.plan.unit_x),
                np.linalg.norm(one.y - two.y) / (5.0 * one.plan.unit_y),
            )
        )
    bound = one.plan.mechanism.sensitivity / (sampling_rate * n_public)
    assert max(moved) <= bound
    assert max(moved) > 0.99 * bound
    drawn = np.mean(np.array(moved) > 1e-9)  # the batch has the record; false alarms below 1e-6
    assert abs(drawn - sampling_rate) < 0.25


def test_a_batch_is_summed_and_an_empty_one_is_zero():
    module = importlib.import_module("skdp.algorithms.baselines.sgda")
    problem = problem_of(30)
    x, y = np.array([0.1, -0.2, 0.3]), np.array([0.4, 0.6])
    alone = [np.concatenate(problem.batch_operator(np.array([i]), x, y)) for i in range(30)]
    for seed in range(5):
        drawn = poisson_sample(30, 0.3, seeded(seed))
        sums = module._batch_sums(problem, drawn, x, y)
        assert 0 < len(drawn) < 30
        np.testing.assert_allclose(np.concatenate(sums), sum(alone[i] for i in drawn), atol=1e-12)
    everything = module._batch_sums(problem, None, x, y)
    np.testing.assert_allclose(np.concatenate(everything), sum(alone), atol=1e-12)
    for block in module._batch_sums(problem, np.arange(0), x, y):
        np.testing.assert_array_equal(block, 0.0)


# --- noise --------------------------------------------------------------------------------


def test_batches_and_noise_are_secret_by_default():
    assert inspect.signature(dp_sgda).parameters["run"].default is None
    assert inspect.signature(Run).parameters["noise"].default is None
    for changes in ({"sampling_rate": 0.5}, {"noise_multiplier": 1.0}):
        points = []
        for _ in range(2):
            np.random.seed(0)  # noqa: NPY002
            points.append(dp_sgda(problem_of(50), **RUN | changes).x)
        assert np.abs(points[0] - points[1]).max() > 1e-9


# --- optimisation -------------------------------------------------------------------------


@pytest.mark.parametrize("domains", [(Ball(1.0), Simplex(2)), (Ball(0.2), Ball(3.0))])
def test_without_noise_or_sampling_it_converges_to_the_saddle_point(domains):
    centers = {"center_x": np.array([0.1, 0.0, 0.1]), "center_y": np.array([0.3, 0.7])}
    problem = problem_of(domains=domains, **centers)
    exact = solve_certified(problem, 1e-9)
    steps = RUN | {"n_steps": 800, "learning_rate_x": 0.1, "learning_rate_y": 0.1}
    result = dp_sgda(problem, **steps)
    for point in ((result.x, result.y), (result.last_x, result.last_y)):
        np.testing.assert_allclose(point[0], exact.x, atol=1e-7)
        np.testing.assert_allclose(point[1], exact.y, atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("sampling_rate", [0.2, 1.0])
@RELATIONS
def test_it_converges_as_epsilon_grows(sampling_rate, relation):
    """Mean distance of ten seeded runs; it falls with every step by far more than it varies."""
    if sampling_rate < 1:
        pytest.importorskip("dp_accounting")
    problem = problem_of(500, mu=(1.0, 1.0))
    exact = solve_certified(problem, 1e-8)
    distances = []
    for epsilon in (0.1, 1.0, 20.0):
        far = [
            dp_sgda(
                problem, PrivacyBudget(epsilon, 1e-5), sampling_rate=sampling_rate, n_steps=60,
                learning_rate_x=0.1, learning_rate_y=0.1, neighbouring=relation, n_public=500,
                run=Run(noise=seeded(seed)),
            )
            for seed in range(10)
        ]  # fmt: skip
        distances.append(
            np.mean([np.hypot(*map(np.linalg.norm, (r.x - exact.x, r.y - exact.y))) for r in far])
        )
    assert distances[0] > 1.5 * distances[1] > 2.0 * distances[2]
    assert distances[2] < 0.05


def test_what_is_averaged():
    problem = linear_problem(-np.ones((1, 1)), np.ones((1, 1)))

    def run(n_steps, average):
        steps = RUN | {"n_steps": n_steps, "learning_rate_x": 1.0, "learning_rate_y": 2.0}
        return dp_sgda(problem, **steps, average=average)

    # x grows by 1 in each step, y falls by 2
    for n_steps, half in [(1, 1.0), (2, 2.0), (3, 2.5), (4, 3.5), (5, 4.0)]:
        for average, mean in ((True, half), ("all", (n_steps + 1) / 2), (False, n_steps)):
            result = run(n_steps, average)
            assert (result.x[0], result.y[0]) == pytest.approx((mean, -2 * mean), rel=1e-8)
            assert (result.last_x[0], result.last_y[0]) == pytest.approx((n_steps, -2 * n_steps))


def test_a_step_with_regularisers_and_a_nominal_size_by_hand():
    centers = {"center_x": np.array([0.5]), "center_y": np.array([-0.25])}
    problem = BilinearProblem(
        np.full((2, 1, 1), 0.5), np.full((2, 1), 0.25), np.full((2, 1), 1.0), (1.0, 1.0, 1.0),
        Ball(10.0), Ball(10.0), 0.5, 0.25, **centers,
    )  # fmt: skip
    steps = RUN | {"n_steps": 2, "learning_rate_x": 0.1, "learning_rate_y": 0.2}
    result = dp_sgda(problem, **steps, n_public=4, neighbouring="add_remove", average=False)
    x, y = 0.5, -0.25
    for _ in range(2):
        step_x = 2 / 4 * (0.5 * y + 0.25) + 0.5 * (x - 0.5)
        step_y = 2 / 4 * (1.0 - 0.5 * x) + 0.25 * (y + 0.25)
        x, y = x - 0.1 * step_x, y - 0.2 * step_y
    assert (result.x[0], result.y[0]) == pytest.approx((x, y), rel=1e-9)


@pytest.mark.parametrize("average", [True, False, "all"])
@pytest.mark.parametrize("noise_multiplier", [0.1, 1e6])
def test_results_are_feasible(average, noise_multiplier):
    problem = problem_of(domains=(Ball(0.3), Simplex(2)))
    for seed in range(5):
        changes = {"noise_multiplier": noise_multiplier, "run": Run(noise=seeded(seed))}
        result = dp_sgda(problem, **RUN | changes, average=average)
        for x, y in ((result.x, result.y), (result.last_x, result.last_y)):
            assert np.linalg.norm(x) <= 0.3
            assert (y >= 0).all()
            assert y.sum() == pytest.approx(1.0, abs=1e-12)


# --- refusals -----------------------------------------------------------------------------


class Untouchable(SaddleProblem):
    """Fails as soon as a record is read."""

    def __init__(self):
        super().__init__(WholeSpace(), WholeSpace(), CONSTANTS)

    def value(self, x, y):
        raise AssertionError("records were read")

    def data_operator(self, x, y):
        raise AssertionError("records were read")

    def batch_operator(self, rows, x, y):
        raise AssertionError("records were read")


REFUSED = [
    *one_at_a_time(
        n_public=[0, 2.5], n_steps=[0, True], sampling_rate=[0.0, 1.1, math.nan, "half"],
        learning_rate_x=[0.0], learning_rate_y=[math.inf, None], average=[1, "some"],
        balance=[0.0, 1.0, "even"], noise_multiplier=[0.0],
    ),
    ({"learning_rate_x": 3.0}, "learning_rate_x .* overshoot"),
    ({"noise_multiplier": None}, "Exactly one of budget and noise_multiplier"),
    ({"budget": PrivacyBudget(1.0, 1e-6)}, "Exactly one of"),
    ({"budget": 1.0, "noise_multiplier": None}, "PrivacyBudget"),
    ({"budget": PrivacyBudget(1.0), "noise_multiplier": None}, "delta == 0"),
    ({"neighbouring": "swap"}, "swap"),
    ({"neighbouring": "add_remove"}, "needs n_public"),
    ({"problem": CONSTANTS}, "problem must be a SaddleProblem"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "match"), REFUSED, ids=str)
def test_invalid_arguments_are_refused_before_a_record_is_read(changes, match):
    with pytest.raises((ValueError, TypeError), match=match):
        dp_sgda(**{"problem": Untouchable()} | PLAN | {"noise_multiplier": 1.0} | changes)


def test_the_untouchable_problem_notices():
    with pytest.raises(AssertionError, match="were read"):
        dp_sgda(Untouchable(), **RUN)


def test_constants_are_constants():
    with pytest.raises(TypeError, match="constants must be SaddleConstants"):
        plan_dp_sgda(problem_of(), **RUN)


def test_a_budget_that_allows_no_noise_is_refused():
    pytest.importorskip("dp_accounting")
    with pytest.raises(ValueError, match="without noise"):
        plan_dp_sgda(
            CONSTANTS, PrivacyBudget(1.0, 1e-5), **PLAN | {"sampling_rate": 1e-6, "n_steps": 1}
        )


def test_groups_whose_weights_depend_on_the_records():
    """Clipped weights: one record rescales the others, so only ranges of the whole are proven."""
    rng = np.random.default_rng(0)
    X, groups = rng.normal(size=(60, 2)), np.arange(60) % 2
    targets = (X[:, 0] > 0).astype(float)

    def run(clipped, public_groups=False, **changes):
        weights = GroupWeights((4.0, 4.0), clipped=clipped, public_groups=public_groups)
        problem = MaxGroupLossProblem(
            Records(X, 1.0, targets=targets, groups=groups), LogisticLoss(), weights, 2.0, 0.1, 0.1
        )
        return dp_sgda(problem, **RUN | changes)

    for changes in ({"sampling_rate": 0.5}, {"neighbouring": "add_remove", "n_public": 60}):
        with pytest.raises(ValueError, match="clipped"):
            run(True, **changes)
        assert np.isfinite(run(False, **changes).x).all()
    with pytest.raises(ValueError, match="clipped"):
        run(True, True, neighbouring="add_remove", n_public=60)
    assert np.isfinite(run(True).x).all()
    assert np.isfinite(run(True, True, sampling_rate=0.5).x).all()

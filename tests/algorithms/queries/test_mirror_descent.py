"""Both methods for linear queries: what is charged, what leaves, and attacks on both."""

import itertools
import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skdp.algorithms.plan import Run
from skdp.algorithms.queries.adaptive_measurements import plan_adaptive_measurements, rounds_plan
from skdp.algorithms.queries.mirror_descent import MAX_UNIVERSE, plan_linear_queries
from skdp.algorithms.queries.query_groups import groups_of
from skdp.mechanisms import GaussianMechanism, NoiseSource, SoftmaxMechanism
from skdp.privacy import PrivacyBudget
from skdp.privacy.accountants import GaussianDPAccountant, PureAccountant, ZCDPAccountant
from skdp.privacy.events import GaussianEvent, Neighbouring, flatten_event
from skdp.problems import CategoricalRecords, Marginals, QueryMatrix, QueryObjective

SIZES = (3, 4, 2, 3)
BUDGET = PrivacyBudget(1.0, 1e-6)
PLANNERS = [plan_adaptive_measurements, plan_linear_queries]


def table(n, seed=0, sizes=SIZES):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, sizes, (n, len(sizes)))
    codes[:, 1] = np.minimum(codes[:, 0], sizes[1] - 1)
    return CategoricalRecords(codes, sizes)


def workloads(kind, sizes=SIZES):
    if kind == "matrix":
        matrix = np.random.default_rng(1).uniform(-2, 1, (9, math.prod(sizes)))
        return QueryMatrix(sizes, matrix)
    return Marginals(sizes, kind)


def seeded(seed=0):
    rng = np.random.default_rng(seed)
    return Run(rng=np.random.default_rng(seed), noise=NoiseSource(rng.bytes))


class Transcript:
    """Records what the mechanisms get and release, or plays a recorded transcript back."""

    def __init__(self, monkeypatch, script=None):
        self.inputs, self.outputs, self.mechanisms = [], [], []
        draw, release = SoftmaxMechanism.draw, GaussianMechanism.release
        script = None if script is None else iter(script)

        def passed(original):
            def act(mechanism, value, *rest):
                out = original(mechanism, value, *rest) if script is None else next(script)
                self.inputs.append(np.array(value))
                self.outputs.append(out)
                self.mechanisms.append((mechanism, rest))
                return out

            return act

        monkeypatch.setattr(SoftmaxMechanism, "draw", passed(draw))
        monkeypatch.setattr(GaussianMechanism, "release", passed(release))


def all_plans(n=100):
    for planner, kind in itertools.product(PLANNERS, (2, "matrix")):
        yield planner(QueryObjective(workloads(kind), n), BUDGET)
    complete = plan_adaptive_measurements(
        QueryObjective(workloads(2), n), PrivacyBudget(30.0, 1e-6)
    )
    assert complete.is_complete
    yield complete
    yield rounds_plan(groups_of(workloads(2)), n, 50.0, n_rounds=4)  # nearly exact answers
    yield plan_linear_queries(QueryObjective(workloads(2), n), BUDGET, "paper")
    yield plan_linear_queries(QueryObjective(workloads(2), n), PrivacyBudget(1.0, 0.0))
    yield replace(plan_linear_queries(QueryObjective(workloads(2), n), BUDGET), n_draws=3)


@pytest.mark.parametrize("plan", list(all_plans()), ids=lambda plan: type(plan).__name__)
def test_what_is_executed_is_charged_and_the_result_a_function_of_it(plan, monkeypatch):
    """Played back on unrelated records, the releases give the same distribution."""
    with monkeypatch.context() as patch:
        played = Transcript(patch)
        first = plan.run(table(100), seeded(1)).model.table()
    executed = {}
    for mechanism, rest in played.mechanisms:
        event = mechanism.event("replace_one")
        count = rest[0] if isinstance(mechanism, SoftmaxMechanism) else 1
        executed[event] = executed.get(event, 0) + count
    # all marginals of single columns are one vector and one release
    charged = dict(flatten_event(plan.event))
    for event, count in executed.items():
        if isinstance(event, GaussianEvent) and plan_is_adaptive(plan) and plan.first:
            is_first = event == plan.first_mechanism.event("replace_one")
            count = count - len(SIZES) + 1 if is_first else count
        assert charged.pop(event) == count
    assert not charged
    with monkeypatch.context() as patch:
        Transcript(patch, played.outputs)
        unrelated = CategoricalRecords(np.zeros((100, 4), dtype=int), SIZES)
        second = plan.run(unrelated, seeded(1)).model.table()
    np.testing.assert_array_equal(first, second)
    assert first.min() >= 0
    assert abs(first.sum() - 1) < 1e-9


@pytest.mark.parametrize("kind", [1, 2, 3, "matrix"])
@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize("epsilon", [1e-4, 3.0])
def test_plans_keep_the_budget(planner, kind, epsilon):
    budget = PrivacyBudget(epsilon, 1e-6)
    plan = planner(QueryObjective(workloads(kind), 1000), budget)
    accountants = (GaussianDPAccountant, ZCDPAccountant)
    costs = [accountant().compose(plan.event).get_epsilon(1e-6) for accountant in accountants]
    assert (1 - 1e-6) * epsilon <= min(costs) <= epsilon
    assert all(type(value) in (int, float, type(None)) for value in plan.to_dict().values())


@settings(max_examples=4)
@given(seed=st.integers(0, 2**32 - 1), kind=st.sampled_from([2, 3, "matrix"]))
@pytest.mark.parametrize("planner", [*PLANNERS, "paper"])
def test_no_neighbour_moves_an_input_further_than_declared(planner, seed, kind):
    """Rounding included: both runs follow one transcript, and their inputs are compared."""
    rng = np.random.default_rng(seed)
    n = int(rng.choice([1, 2, 30]))
    objective = QueryObjective(workloads(kind), n)
    if planner == "paper":
        planner = partial(plan_linear_queries, calibration="paper")
    plan = planner(objective, BUDGET)
    one = table(n, seed)
    codes = one.codes.copy()
    codes[rng.integers(n)] = rng.integers(0, SIZES)
    with pytest.MonkeyPatch.context() as patch:
        played = Transcript(patch)
        plan.run(one, seeded(seed))
    with pytest.MonkeyPatch.context() as patch:
        other = Transcript(patch, played.outputs)
        plan.run(CategoricalRecords(codes, SIZES), seeded(seed))
    first = 0.0
    for (mechanism, _), a, b in zip(played.mechanisms, played.inputs, other.inputs, strict=True):
        if isinstance(mechanism, SoftmaxMechanism):
            assert np.abs(a - b).max() <= mechanism.sensitivity
            continue
        distance = float(np.sum((a - b) ** 2))
        if plan_is_adaptive(plan) and plan.first and mechanism == plan.first_mechanism:
            first += distance
        else:
            assert math.sqrt(distance) <= mechanism.sensitivity
    if first:
        assert math.sqrt(first) <= plan.first_mechanism.sensitivity


def test_the_sensitivities_are_attained():
    """The bounds are no larger than they must be, but for the slack of rounding."""
    one, two = (CategoricalRecords(np.full((1, 4), k), SIZES) for k in (0, 1))
    for plan in (planner(QueryObjective(workloads(2), 1), BUDGET) for planner in PLANNERS):
        with pytest.MonkeyPatch.context() as patch:
            played = Transcript(patch)
            plan.run(one, seeded())
        with pytest.MonkeyPatch.context() as patch:
            other = Transcript(patch, played.outputs)
            plan.run(two, seeded())
        ratios = {SoftmaxMechanism: 0.0, GaussianMechanism: 0.0}
        for (mechanism, _), a, b in zip(
            played.mechanisms, played.inputs, other.inputs, strict=True
        ):
            moved = np.abs(a - b).max() if isinstance(mechanism, SoftmaxMechanism) else 0.0
            if isinstance(mechanism, GaussianMechanism):
                moved = np.linalg.norm(a - b)
            ratios[type(mechanism)] = max(ratios[type(mechanism)], moved / mechanism.sensitivity)
        assert ratios[SoftmaxMechanism] > 0.999 or plan_is_adaptive(plan)
        if plan_is_adaptive(plan):
            assert ratios[GaussianMechanism] > 0.999


@pytest.mark.parametrize("planner", PLANNERS)
def test_only_replaced_records_are_covered(planner):
    objective = QueryObjective(workloads(2), 100, Neighbouring.ADD_REMOVE)
    with pytest.raises(ValueError, match="replace_one"):
        planner(objective, BUDGET)


def plan_is_adaptive(plan):
    return hasattr(plan, "groups")


def test_a_draw_of_a_group_has_the_range_that_is_charged(monkeypatch):
    """Moving one record improves one marginal by 2 and worsens another: the range is attained."""
    sizes = (2, 2, 2)
    plan = rounds_plan(groups_of(Marginals(sizes, 2)), 40, 0.2, n_rounds=2)
    others = [(0, 0, 1)] * 15 + [(0, 1, 1)] * 15 + [(1, 0, 1)] * 9
    logs = []
    for row in [(0, 0, 0), (1, 1, 1)]:
        with monkeypatch.context() as patch:
            played = Transcript(patch, _uniform_answers(20))
            plan.run(CategoricalRecords(np.array([*others, row]), sizes), seeded())
        scores = next(x for x in played.inputs if x.shape == (3,))
        logs.append(scores - np.logaddexp.reduce(scores))
    spread = np.ptp(logs[0] - logs[1])
    assert (1 - 1e-6) * plan.draw_epsilon < spread <= plan.draw_epsilon


def _uniform_answers(half):
    """Single columns are uniform; then the first group is drawn, and uniform as well."""
    yield from (np.full(2, float(half)) for _ in range(3))
    while True:
        yield np.array([0])
        yield np.full(4, half / 2)


@pytest.mark.parametrize("epsilon", [1e-6, 1e5])
@pytest.mark.parametrize("planner", PLANNERS)
def test_no_budget_and_no_table_make_a_run_fail(planner, epsilon):
    for data in (table(7), CategoricalRecords(np.zeros((7, 4), dtype=int), SIZES)):
        plan = planner(QueryObjective(workloads(2), 7), PrivacyBudget(epsilon, 1e-6))
        found = plan.run(data, seeded()).model.table()
        assert np.isfinite(found).all()
        assert abs(found.sum() - 1) < 1e-9


def test_large_universes():
    objective = QueryObjective(Marginals((50,) * 30, 2), 1000)
    with pytest.raises(ValueError, match="writes the universe out"):
        plan_linear_queries(objective, BUDGET)
    plan = plan_adaptive_measurements(objective, BUDGET)
    assert plan.n_rounds >= 29
    assert MAX_UNIVERSE >= 10**6


def test_answers_come_near_with_many_records():
    """At n = 1e5 and epsilon 3 both are far better than the uniform distribution."""
    data = table(100_000)
    workload = Marginals(SIZES, 2)
    exact = workload.sums(data) / data.n_records
    uniform = np.abs(workload.answers(np.full(SIZES, 1 / 72)) - exact).sum()
    for planner, share in ((plan_adaptive_measurements, 0.02), (plan_linear_queries, 0.05)):
        plan = planner(QueryObjective(workload, data.n_records), PrivacyBudget(3.0, 1e-6))
        found = workload.answers(plan.run(data, seeded()).model.table())
        assert np.abs(found - exact).sum() < share * uniform


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_large_budgets_pay_for_more_draws(delta):
    """Beyond a step of 250 all draws of a round would be of the worst query; the cost is whole."""
    plan = plan_linear_queries(QueryObjective(workloads(2), 200_000), PrivacyBudget(3.0, delta))
    assert plan.n_draws > 2
    assert 150.0 < plan.query_step <= 250.0
    ((_, count),) = flatten_event(plan.event)
    assert count == plan.n_draws * plan.n_charged
    accountant = ZCDPAccountant() if delta else PureAccountant()
    assert 3.0 * (1 - 1e-6) <= accountant.compose(plan.event).get_epsilon(delta) <= 3.0

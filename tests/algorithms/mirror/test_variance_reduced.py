"""Variance-reduced Frank-Wolfe: exact laws of its draws, and a run that is written out anew."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from plain_noise import seeded

from skdp.algorithms import Run, plan_variance_reduced_frank_wolfe
from skdp.algorithms.mirror import rounds as vertex_rounds
from skdp.algorithms.mirror.variance_reduced import distance
from skdp.mechanisms import SoftmaxMechanism
from skdp.privacy import PrivacyBudget, tightest_epsilon
from skdp.privacy.events import RepeatedEvent
from skdp.problems import LogisticLoss, Records
from skdp.problems.vertices import FunctionProblem, LinearDesign, LinearProblem, VertexDesign

BUDGET = PrivacyBudget(1.0, 1e-6)
N = 14  # two phases with batches of 4, 2; 4, 2, 1, 1
DESIGN = VertexDesign(N, (2,), (1.0,), (2.0,))


@pytest.fixture
def kept(kept_order, monkeypatch):
    """Nothing is shuffled; `kept(choices)` follows a script and returns its log probability."""
    state = {}

    def draw(scores, count, noise):
        law = scores - np.logaddexp.reduce(scores)
        chosen = next(state["left"])
        state["total"] += law[chosen]
        return np.array([chosen])

    monkeypatch.setattr(vertex_rounds, "_draw", draw)

    def log_probability(plan, problem, choices):
        state.update(left=iter(choices), total=0.0)
        plan.run(problem, Run(noise=seeded()))
        assert next(state["left"], None) is None
        return state["total"]

    return log_probability


def table_problem(tables):
    """Derivatives by record and by the vertex with the larger weight: shape (n, 2, 2)."""

    def derivative(points, batch):
        return [tables[batch, int(points[0].argmax())]]

    return FunctionProblem(DESIGN, derivative)


def worst_ratio(plan, charged, record, log_probability):
    """Largest Renyi divergence over all transcripts, in units of order times the charged cost."""
    rng, worst = np.random.default_rng(record), 0.0
    hard = np.stack([np.tile([1.0, -1.0], (2, 1)), np.array([[1.0, -1.0], [-1.0, 1.0]])])
    pairs = [(hard[0], -hard[0]), (hard[1], -hard[1])]
    for pair in pairs:
        tables = rng.choice([-1.0, 1.0], size=(N, 2, 2))
        laws = []
        for changed in pair:
            tables[record] = changed
            problem = table_problem(tables)
            laws.append(np.array([
                log_probability(plan, problem, choices)
                for choices in itertools.product(range(2), repeat=plan.n_draws + 1)
            ]))  # fmt: skip
        assert np.exp(laws[0]).sum() == pytest.approx(1.0)
        for p, q in itertools.permutations(laws):
            for order in (1.25, 2.0, 16.0):
                divergence = np.logaddexp.reduce(order * p + (1.0 - order) * q) / (order - 1.0)
                worst = max(worst, divergence / (order * charged))
    return worst


NODES = {0: (0, 0), 11: (1, 1), 13: (1, 2)}


@pytest.mark.audit
@pytest.mark.parametrize("record", NODES)
def test_exact_laws_of_transcripts_stay_within_the_cost_of_a_record(kept, record):
    plan = plan_variance_reduced_frank_wolfe(DESIGN, BUDGET, n_phases=2, smoothness=0.8)
    phase, depth = NODES[record]
    node = plan.trees[phase][depth]
    charged = node.n_leaves * (plan.factors[phase] * node.sensitivity) ** 2 / 2.0
    worst = worst_ratio(plan, charged, record, kept)
    assert (0.9 if depth == 0 else 0.05) < worst <= 1.0 + 1e-9
    if depth == 0:  # the attack finds twice the noise missing
        loud = replace(plan, factors=tuple(2.0 * factor for factor in plan.factors))
        assert worst_ratio(loud, charged, record, kept) > 2.0


def test_a_record_of_a_right_child_attains_its_sensitivity(monkeypatch, kept_order):
    """Changes of +-limit, whatever the derivatives are, and no other leaf is moved."""
    plan, seen = plan_variance_reduced_frank_wolfe(DESIGN, BUDGET, n_phases=2, smoothness=0.8), []

    def draw(scores, count, noise):
        seen.append(scores)
        return np.array([len(seen) % 2])

    monkeypatch.setattr(vertex_rounds, "_draw", draw)
    calls = []

    def derivative(points, batch):
        records = np.arange(N)[batch]
        if 11 in records:  # read twice: at its own point, then at that of its parent
            calls.append(None)
        sign = state["sign"] * (1.0 if len(calls) % 2 else -1.0)
        return [np.where(records[:, None] == 11, sign, 0.0) * np.array([1.0, -1.0])]

    runs = []
    for sign in (1.0, -1.0):
        state = {"sign": sign}
        seen.clear(), calls.clear()
        plan.run(FunctionProblem(DESIGN, derivative), Run(noise=seeded()))
        runs.append(np.array(seen))
    moved = np.abs(runs[0] - runs[1]).max(axis=1)
    unit = plan.factors[1] * plan.trees[1][1].sensitivity
    assert moved[:5].tolist() == [0.0] * 5  # before, and left of the node
    assert (moved[5:] <= unit).all() and (moved[5:] > 0.999 * unit).all()


def test_every_record_costs_at_most_the_budget():
    design = VertexDesign(20_000, (100,), (1.0,), (2.0,))
    for budget in (BUDGET, PrivacyBudget(0.5)):
        plan = plan_variance_reduced_frank_wolfe(design, budget, n_phases=2)
        assert tightest_epsilon(plan.event, budget.delta) == budget.epsilon
        for factor, tree in zip(plan.factors, plan.trees, strict=True):
            costs = []
            for node in tree:
                draw = SoftmaxMechanism(factor * node.sensitivity).event(plan.design.neighbouring)
                event = RepeatedEvent(draw, node.n_leaves)
                costs.append(tightest_epsilon(event, budget.delta, enough=budget.epsilon))
            assert 0.999 * budget.epsilon < max(costs) <= budget.epsilon
        used = sum(
            tree[0].batch + sum(2 ** (j - 1) * tree[j].batch for j in range(1, len(tree)))
            for tree in plan.trees
        )
        assert 0.97 * 20_000 < used <= 20_000


def test_distance_is_that_of_the_steps():
    x, points = np.eye(40)[0], []
    for k in range(1, 40):
        points.append(x)
        x = (1.0 - 2.0 / (k + 2.0)) * x + 2.0 / (k + 2.0) * np.eye(40)[k]
    for first, last in itertools.combinations(range(1, 40), 2):
        apart = np.abs(points[last - 1] - points[first - 1]).sum()
        assert apart == pytest.approx(distance(first, last))


def test_the_run_is_that_of_a_reference(monkeypatch, kept_order):
    """Leaves by their binary digits, without a recursion; the vertex of the largest score."""
    rng, d, n, phases = np.random.default_rng(0), 6, 1200, 3
    targets = rng.dirichlet(np.ones(d), size=n)
    design = VertexDesign(n, (d,), (2.0,), (4.0,))
    problem = FunctionProblem(design, lambda points, batch: [points[0] - targets[batch]])
    monkeypatch.setattr(
        vertex_rounds, "_draw", lambda scores, count, noise: np.array([scores.argmax()])
    )
    plan = plan_variance_reduced_frank_wolfe(design, BUDGET, n_phases=phases, smoothness=1.0)
    result = plan.run(problem, Run(noise=seeded()))
    b = int(n / sum(1.0 + 0.5 * t for t in range(1, phases + 1)))
    x, k, start, drawn = np.eye(d)[0], 1, 0, [0]
    for t in range(1, phases + 1):
        gradients, points = {(): x - targets[start : start + b].mean(axis=0)}, {(): x}
        start += b
        for leaf in range(2**t):
            path = tuple(int(digit) for digit in f"{leaf:0{t}b}")
            for j in range(1, t + 1):
                node, parent = path[:j], path[: j - 1]
                if node in gradients:
                    continue
                gradients[node], points[node] = gradients[parent], points[parent]
                if node[-1]:
                    gradients[node] = gradients[parent] + (x - points[parent])
                    points[node], start = x, start + b // 2**j
            vertex, k = int(gradients[path].argmin()), k + 1
            drawn.append(vertex)
            x = (1.0 - 2.0 / (k + 1.0)) * x + 2.0 / (k + 1.0) * np.eye(d)[vertex]
    (point,) = problem.points(result.point)
    assert point == pytest.approx(x)
    assert [int(result.point[0][i * (i + 1) // 2]) for i in range(k)] == drawn


def test_linear_models_learn_and_their_changes_are_clipped():
    rng, n, d = np.random.default_rng(0), 20_000, 30
    X = rng.uniform(-1.0, 1.0, size=(n, d))
    loss = LogisticLoss()
    design = LinearDesign.of(loss, n, d, 3.0, 1.0)
    problem = LinearProblem(Records(X, 10.0, targets=(X[:, 0] > 0).astype(float)), loss, design)
    plan = plan_variance_reduced_frank_wolfe(design, BUDGET)
    result = plan.run(problem, Run(noise=seeded()))
    weights = problem.coefficients(result.point)
    assert weights[0] > 1.0 and np.abs(weights).sum() <= 3.0
    new, old = (np.array([0]),), (np.array([d]),)
    batch = slice(10, 50)
    (free,) = problem.changes(new, old, batch, (design.smoothness * 2.0,))
    difference = problem.gradients(new, batch)[0] - problem.gradients(old, batch)[0]
    assert free == pytest.approx(difference)
    (held,) = problem.changes(new, old, batch, (1e-3,))
    assert 0.0 < np.abs(held).max() <= 1e-3 * (1.0 + 1e-12)

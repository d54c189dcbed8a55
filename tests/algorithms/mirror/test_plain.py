"""Mirror descent with draws of vertices: accounting by enumeration, errata, invariants."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logsumexp, softmax

from skdp.algorithms import (
    Run,
    plan_anytime_mirror_descent,
    plan_bias_reduced_mirror_descent,
    plan_boosted_mirror_descent,
    plan_mirror_descent,
)
from skdp.algorithms.mirror import rounds as vertex_rounds
from skdp.algorithms.mirror.bias_reduced import correction, published_work, truncated_geometric
from skdp.algorithms.mirror.rounds import (
    OUTPUT,
    GridScores,
    Round,
    VertexPlan,
    grid,
    score_sensitivities,
)
from skdp.mechanisms import NoiseSource
from skdp.privacy import Neighbouring, PrivacyBudget, ZCDPAccountant, tightest_epsilon
from skdp.problems import LogisticLoss, Records
from skdp.problems.vertices import (
    FunctionProblem,
    LinearDesign,
    LinearProblem,
    VertexDesign,
    vertex_coefficients,
)

pytestmark = pytest.mark.usefixtures("kept_order")

BUDGET = PrivacyBudget(1.0, 1e-6)
RHO = (math.sqrt(-math.log(1e-6) + 1.0) - math.sqrt(-math.log(1e-6))) ** 2


def quiet(seed=0):
    rng = np.random.default_rng(seed)
    return Run(rng=rng, noise=NoiseSource(rng.bytes))


def rho_of(plan):
    return ZCDPAccountant().compose(plan.event).total


def table_problem(tables, n_blocks=1):
    """Records with derivatives of +-1 that depend on which vertex was drawn most."""
    n, size = len(tables), tables.shape[1]
    design = VertexDesign(n, (size,) * n_blocks, (1.0,) * n_blocks, (2.0,) * n_blocks)

    def derivative(points, batch):
        return tables[batch, int(points[0].argmax())].transpose(1, 0, 2)

    return FunctionProblem(design, derivative)


class Script:
    """Follow a list of vertices instead of drawing, and add up their log probabilities."""

    def __init__(self, monkeypatch):
        monkeypatch.setattr(vertex_rounds, "_draw", self.draw)

    def start(self, choices):
        self.left, self.log_probability, self.count = list(choices), 0.0, 0
        return self

    def draw(self, scores, count, noise):
        drawn = np.array([self.left.pop(0) for _ in range(count)], dtype=np.intp)
        law = scores - scores.max()
        law -= math.log(np.exp(law).sum())
        self.log_probability += float(law[drawn].sum())
        self.count += count
        return drawn


def transcript_laws(plan, problems, monkeypatch):
    """Log probabilities of all sequences of draws, for each problem."""
    script, size = Script(monkeypatch), plan.design.sizes[0]
    total = len(plan.design.sizes) * sum(each.n_draws for each in plan.rounds)
    laws = []
    for problem in problems:
        law = []
        for choices in itertools.product(range(size), repeat=total):
            plan.run(problem, script.start(choices) and quiet())
            assert not script.left
            law.append(script.log_probability)
        laws.append(np.array(law))
    for law in laws:
        assert np.exp(law).sum() == pytest.approx(1.0)
    return laws


def worst_ratio(laws, rho):
    """Largest Renyi divergence in units of order times rho."""
    ratio = 0.0
    for p, q in itertools.permutations(laws):
        for order in (1.25, 2.0, 8.0, 64.0):
            log_sum = np.logaddexp.reduce(order * p + (1.0 - order) * q)
            ratio = max(ratio, log_sum / (order - 1.0) / (order * rho))
    return ratio


def neighbours(n, size, rng, n_blocks=1, record=0):
    tables = rng.choice([-1.0, 1.0], size=(n, size, n_blocks, size))
    other = tables.copy()
    other[record] = rng.choice([-1.0, 1.0], size=(size, n_blocks, size))
    return tables, other


def hardest(n, n_blocks=1):
    """The first record pushes two vertices apart, whatever was drawn; or the other way round."""
    tables = np.ones((n, 2, n_blocks, 2))
    tables[..., 1] = -1.0
    other = tables.copy()
    other[0] *= -1.0
    return tables, other


def plans(rng):
    """Plans by their names; at the ends and in the middle some with few transcripts."""
    one, two = (VertexDesign(3, (2,) * b, (1.0,) * b, (2.0,) * b) for b in (1, 2))
    return {
        "bias reduced, few records": plan_bias_reduced_mirror_descent(one, BUDGET, rng=rng),
        "three vertices": plan_mirror_descent(one, BUDGET, n_rounds=3, n_vertices=3),
        "saddle": plan_mirror_descent(two, BUDGET, n_rounds=4),
        "all records": plan_mirror_descent(one, BUDGET, n_rounds=4),
        "anytime": plan_anytime_mirror_descent(
            one, BUDGET, rng=rng, n_rounds=3, n_vertices=2, calibration="paper"
        ),
        "bias reduced": VertexPlan(
            design=one,
            rounds=tuple(
                Round(requests=((t, 2 ** (k + 1)),), point=t, batch=1, level=k, correction=1.5)
                for t, k in enumerate((0, 1, 0))
            ),
            steps=(0.05,), full_batch=False, average=True, algorithm="Algorithm 3",
        ),
        "paper": plan_mirror_descent(one, BUDGET, n_rounds=3, calibration="paper"),
    }  # fmt: skip


NAMES = tuple(plans(np.random.default_rng(0)))


@pytest.mark.mostly("audit", 3)
@pytest.mark.parametrize("name", NAMES)
def test_exact_laws_of_transcripts_stay_within_the_accounted_cost(name, monkeypatch):
    rng = np.random.default_rng(1)
    plan = plans(rng)[name]
    blocks = len(plan.design.sizes)
    rho, worst = rho_of(plan), 0.0
    for tables in (hardest(3, blocks), neighbours(3, 2, rng, blocks)):
        laws = transcript_laws(plan, [table_problem(t, blocks) for t in tables], monkeypatch)
        worst = max(worst, worst_ratio(laws, rho))
        epsilon = tightest_epsilon(plan.event, 1e-3)
        p, q = laws
        delta = np.maximum(np.exp(p) - math.exp(epsilon) * np.exp(q), 0.0).sum()
        assert delta <= 1e-3
    # at N = 0 the three points coincide, and the worst record is milder than what is charged
    assert (0.02 if name == "bias reduced" else 0.1) < worst <= 1.0 + 1e-9


@pytest.mark.parametrize("name", ["all records", "paper"])
def test_the_audit_finds_steps_of_twice_the_size(name, monkeypatch):
    plan = plans(np.random.default_rng(1))[name]
    loud = replace(plan, steps=tuple(2.0 * step for step in plan.steps))
    laws = transcript_laws(loud, [table_problem(t) for t in hardest(3)], monkeypatch)
    assert worst_ratio(laws, rho_of(plan)) > 2.0


def test_the_rounding_of_gradients_is_in_the_sensitivity():
    """A record of three that turns from -1 to 1 moves the mean to another point of the grid."""
    design = VertexDesign(3, (2,), (1.0,), (2.0,))
    rounds = Round(requests=((0, 1),), batch=3), Round(requests=((OUTPUT, 1),))
    (((unit, _),),) = score_sensitivities(design, rounds, True)
    spacing, moved = grid(design, rounds, 0), []
    for others in np.linspace(-2.0, 2.0, 101):
        low, high = (GridScores(1, spacing, 1.0) for _ in range(2))
        low.add(np.array([others - 1.0]) / 3.0)
        high.add(np.array([others + 1.0]) / 3.0)
        moved.append(float(high._sums[0] - low._sums[0]) * spacing)
    assert 2.0 / 3.0 * (1.0 + 1e-6) < max(moved) <= unit


def test_published_numbers_of_the_bias_reduced_algorithm():
    design = VertexDesign(100_000, (1000, 10), (1.0, 1.0), (2.0, 2.0))
    published = 1.0 / (48.0 * 81.0 * math.log(1e6))
    most, work, step, alpha = published_work(design, published)
    assert most == 4
    assert (work, step, alpha) == pytest.approx((443.030, 0.0231353, 0.00886059), rel=1e-5)
    assert published / (step * alpha) ** 2 == pytest.approx(work)
    most, work, step, alpha = published_work(design, RHO / 243.0)
    assert most == 4
    assert (work, step, alpha) == pytest.approx((870.581, 0.0165039, 0.0174116), rel=1e-4)


def test_levels_are_truncated_geometric():
    """Erratum G2: C_M is above 1; with 1 in its place the probabilities would not add up."""
    assert [correction(m) for m in range(5)] == [1.0, 1.5, 1.75, 1.875, 1.9375]
    for most in range(5):
        law = 0.5 ** np.arange(most + 1) / correction(most)
        assert law.sum() == pytest.approx(1.0)
        assert law @ 2.0 ** np.arange(most + 1) == pytest.approx((most + 1) / correction(most))
    # false alarms: 1e-6, by five standard deviations
    drawn = truncated_geometric(3, 40_000, np.random.default_rng(0))
    assert np.bincount(drawn)[0] / 40_000 == pytest.approx(1.0 / 1.875, abs=0.0125)


def expected(level, c, probability):
    """Mean of a bias-reduced gradient of x^3 over all draws of two vertices, by enumeration."""
    design = VertexDesign(1, (2,), (100.0,), (200.0,))
    cube = FunctionProblem(
        design, lambda points, batch: [np.array([[points[0][0] ** 2, points[0][1] ** 4]])]
    )
    requests, mean = ((0, 2 ** (level + 1)),), np.zeros(2)
    each = Round(requests=requests, point=0, batch=1, level=level, correction=c)
    for choices in itertools.product(range(2), repeat=2 ** (level + 1)):
        drawn = np.array(choices)
        chance = np.prod(np.where(drawn == 0, probability, 1.0 - probability))
        mean += chance * each.gradient(cube, (drawn,), slice(0, 1))[0]
    return mean


def plain(count, probability):
    """Mean gradient at `count` draws."""
    mean = np.zeros(2)
    for choices in itertools.product(range(2), repeat=count):
        drawn = np.array(choices)
        chance = np.prod(np.where(drawn == 0, probability, 1.0 - probability))
        share = (drawn == 0).mean()
        mean += chance * np.array([share**2, (1.0 - share) ** 4])
    return mean


def test_the_bias_is_that_of_the_most_draws():
    """The mean over N is the mean gradient at 2^(M + 1) draws; not so with C_M = 1 (erratum G2)."""
    most, p = 2, 0.3
    c = correction(most)

    def mean(factor):
        return sum(0.5**k / c * expected(k, factor, p) for k in range(most + 1))

    assert mean(c) == pytest.approx(plain(2 ** (most + 1), p), abs=1e-12)
    assert np.abs(mean(1.0) - plain(2 ** (most + 1), p)).max() > 0.01
    assert np.abs(plain(1, p) - plain(2 ** (most + 1), p)).max() > 0.01


GAME = np.array([[0.0, 1.0], [2.0, 3.0]])


def game(matrix, n=400):
    """Rows minimise, columns maximise; all records are alike."""
    bound = float(np.abs(matrix).max())
    design = VertexDesign(n, matrix.shape, (bound,) * 2, (bound,) * 2)

    def derivative(points, batch):
        m, (x, y) = len(np.arange(n)[batch]), points
        return np.tile(matrix @ y, (m, 1)), np.tile(x @ matrix, (m, 1))

    def function(points, batch):
        return np.full(len(np.arange(n)[batch]), points[0] @ matrix @ points[1])

    return FunctionProblem(design, derivative, function)


def test_the_second_block_ascends():
    """Erratum G1: with the printed sign both blocks would descend, to column 0."""
    loose = PrivacyBudget(1e4, 1e-6)
    plan = plan_mirror_descent(game(GAME).design, loose, n_rounds=40)
    rows, columns = plan.run(game(GAME), quiet()).point
    assert (rows == 0).mean() > 0.9
    assert (columns == 1).mean() > 0.9
    printed = replace(plan, steps=(plan.steps[0], -plan.steps[1]))
    _, columns = printed.run(game(GAME), quiet()).point
    assert (columns == 0).mean() > 0.9


@pytest.mark.parametrize(("n", "numbers"), [(8, (1, 1)), (400, (5, 10)), (4000, (7, 11))])
def test_few_records_are_boosted_less(n, numbers):
    """By as many runs, and then responses, as have two records each; given numbers stay."""
    design = game(GAME, n).design
    plan = plan_boosted_mirror_descent(design, BUDGET, value_bound=3.0)
    assert (len(plan.runs), plan.n_responses) == numbers
    assert all(part.design.n_records >= 2 for part in (*plan.runs, *plan.responses))
    with pytest.raises(ValueError, match="too few"):
        plan_boosted_mirror_descent(design, BUDGET, value_bound=3.0, n_runs=n)
    with pytest.raises(ValueError, match="too few"):
        plan_boosted_mirror_descent(game(GAME, 7).design, BUDGET, value_bound=3.0)


def test_the_average_is_a_mixture_of_softmaxes(monkeypatch):
    """Erratum G14: no softmax of log-sum-exps. 5 deviations of 10,000 draws: false alarm 1e-6."""
    seen, draw, n_draws = [], vertex_rounds._draw, 10_000

    def watched(scores, count, noise):
        seen.append(tuple(scores))
        return draw(scores, count, noise)

    monkeypatch.setattr(vertex_rounds, "_draw", watched)
    design, slopes = VertexDesign(10, (4,), (1.0,), (2.0,)), np.array([-1.0, 0.0, 0.5, 1.0])
    problem = FunctionProblem(design, lambda points, batch: [np.tile(slopes, (10, 1))])
    budget = PrivacyBudget(1e4, 1e-6)
    plan = plan_anytime_mirror_descent(design, budget, n_rounds=3, n_vertices=n_draws)
    (drawn,) = plan.run(problem, quiet()).point
    scores = np.array(sorted(set(seen)))
    assert len(scores) == 3
    found = np.bincount(drawn, minlength=4) / n_draws
    assert np.abs(found - softmax(scores, axis=1).mean(axis=0)).max() < 0.025
    assert np.abs(found - softmax(logsumexp(scores, axis=0))).max() > 0.1


def linear_case(n=60, d=5, seed=0, X=None):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, size=(n, d)) if X is None else X
    y = (X[:, 0] > 0).astype(float)
    design = LinearDesign.of(LogisticLoss(), n, d, 2.0, 1.0)
    return LinearProblem(Records(X, 10.0, targets=y), LogisticLoss(), design)


def test_batches_are_not_for_a_private_number_of_records():
    relation = Neighbouring.ADD_REMOVE
    design = LinearDesign.of(LogisticLoss(), 60, 5, 2.0, 1.0, neighbouring=relation)
    for plan in (plan_mirror_descent, plan_anytime_mirror_descent):
        assert plan(design, BUDGET, n_rounds=4).event.neighbouring == relation
        with pytest.raises(ValueError, match="replace_one"):
            plan(design, BUDGET, n_rounds=4, calibration="paper")


def test_small_data_cannot_reduce_bias():
    """Two plain rounds are left, of two draws each; "paper" has published sizes, and refuses."""
    design = VertexDesign(10, (9,), (1.0,), (2.0,))
    plan = plan_bias_reduced_mirror_descent(design, BUDGET)
    assert [(each.level, each.batch, each.weight) for each in plan.rounds] == 2 * [(0, 5, 1.0)]
    for options in ({"calibration": "paper"}, {"work": 3.9, "most": 1}):
        with pytest.raises(ValueError, match="too few records"):
            plan_bias_reduced_mirror_descent(design, BUDGET, **options)
    with pytest.raises(ValueError, match="more than the 10 records"):
        plan_anytime_mirror_descent(
            VertexDesign(10, (9,), (1.0,), (2.0,)), BUDGET, n_rounds=11, calibration="paper"
        )


def test_rounding_of_gradients_is_within_its_bound():
    """A sum that cancels: against exact arithmetic."""
    rng = np.random.default_rng(7)
    X = rng.choice([-1.0, 1.0], size=(20_000, 2))
    X[:, 1] = 1.0 - 1e-9 * rng.uniform(size=20_000)
    problem = linear_case(n=20_000, d=2, X=X)
    design, records = problem.design, problem.records
    drawn = np.array([1])
    (gradient,) = problem.gradients((drawn,), slice(0, 20_000))
    slopes = LogisticLoss().derivative(problem.margins((drawn,), slice(0, 20_000)), records.targets)
    exact = [math.fsum(slopes * X[:, j]) * 2.0 / 20_000 for j in range(2)]
    error = np.abs(gradient[:2] - exact).max()
    assert error <= design.rounding(0, 20_000)
    spacing = grid(design, plan_mirror_descent(design, BUDGET).rounds, 0)
    assert design.rounding(0, 20_000) + spacing < 0.01 * design.oscillations[0] / 20_000


def test_coefficients_stay_in_the_ball():
    rng = np.random.default_rng(0)
    for _ in range(300):
        radius = float(rng.uniform(0.1, 7.0))
        drawn = rng.integers(0, 20, size=int(rng.integers(1, 60)))
        w = vertex_coefficients(drawn, 10, radius)
        assert math.fsum(np.abs(w)) <= radius
        assert np.count_nonzero(w) <= len(drawn)


def test_pure_budgets_are_split_plainly():
    design = VertexDesign(1000, (8,), (1.0,), (2.0,))
    plan = plan_mirror_descent(design, PrivacyBudget(1.0), n_rounds=5)
    assert tightest_epsilon(plan.event, 0.0) == pytest.approx(1.0, rel=1e-6)
    assert tightest_epsilon(plan.event, 0.0) <= 1.0
    # draws of rounds 2 to 5 move by 1, ..., 4 times 2 / n
    assert plan.steps[0] == pytest.approx(1000.0 / (4.0 * 10), rel=1e-3)


@pytest.mark.parametrize("n_rounds", [2, 3])
def test_no_plan_is_refused_because_of_its_random_indices(n_rounds):
    """With one vertex per point all indices may name the first round, which reads no record."""
    design = VertexDesign(1000, (10,), (1.0,), (2.0,))
    for seed in range(12):
        plan = plan_anytime_mirror_descent(
            design, PrivacyBudget(1.0, 1e-6), rng=np.random.default_rng(seed), n_rounds=n_rounds,
            n_vertices=1,
        )  # fmt: skip
        assert plan.n_draws > 0 and plan.releases[0].sensitivity > 0

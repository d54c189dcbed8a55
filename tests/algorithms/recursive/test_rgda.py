"""DP-RGDA: queries, clipping, noise, and what the printed form gets wrong."""

import contextlib
import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from plain_noise import Silent, seeded

from skdp._runtime import without_warnings
from skdp.algorithms import EscapePhase, RGDASettings, Run, dp_rgda, plan_dp_rgda, plan_escape_phase
from skdp.algorithms.recursive import rgda as module
from skdp.algorithms.recursive.oracle import NoisyGradientOracle
from skdp.algorithms.recursive.outer_loop import OuterLoop, uniform_in_ball
from skdp.mechanisms import GaussianMechanism
from skdp.privacy import PrivacyBudget, tightest_epsilon
from skdp.privacy.events import Neighbouring
from skdp.problems import RecordGradients

BUDGET = PrivacyBudget(1.0, 1e-6)


def run(seed=0):
    return Run(rng=np.random.default_rng(seed), noise=seeded(seed + 1))


def quadratic(n=50, d=3, seed=0, targets=None):
    """Records ``x'A_i x / 2 + y'(x - b_i) - y'y / 2``, of which the last term holds no data."""
    rng = np.random.default_rng(seed)
    scale = 1.0 + rng.random((n, d))
    shift = rng.normal(size=(n, d)) if targets is None else targets

    def gradients(block, point, positions):
        x, y = point
        return np.hstack([scale[positions] * x + y, x - shift[positions]])

    def public(point):
        return np.zeros(d), -point[1]

    problem = RecordGradients(n, d, d, gradients, public_gradient=public)
    problem.scale, problem.shift = scale, shift
    return problem


def plan(problem, budget=None, noise_multiplier=1.0, n_public=None, **options):
    """The plan for a budget, or with the noise of a gradient in its place."""
    relation, share = options.pop("neighbouring", "replace_one"), options.pop("share", 1.0)
    chosen = {"n_steps": 20, "period": 5, "clip": 1e6, "smoothness": 1e6, "normalise": False}
    settings = RGDASettings(**{**chosen, **options})
    full = replace(settings, sampling_rate=1.0, sampling_rate_difference=None)
    made = plan_dp_rgda(
        BUDGET if budget is None else budget,
        settings=settings if budget else full,
        n_public=problem.n_records if n_public is None else n_public,
        dimension_x=problem.dimension_x,
        dimension_y=problem.dimension_y,
        linear_dual=problem.is_dual_linear,
        neighbouring=relation,
        share=share,
    )
    if budget is not None:
        return made
    refresh, increment = module._mechanisms(noise_multiplier, made.neighbouring, settings)
    return replace(made, settings=settings, refresh=refresh, increment=increment)


def cost_of(made):
    return tightest_epsilon(made.event, 1e-6)


@contextlib.contextmanager
def watched_steps():
    """A list of ``((x, y), v, u)``, the released numbers of each outer step of the runs inside."""
    seen, estimates = [], []
    made, moved = module._Estimate.__init__, OuterLoop.move

    def make(estimate, *args):
        estimates.append(estimate)
        made(estimate, *args)

    def move(loop, y, v):
        seen.append(((loop.x, y), v, estimates[-1].u))
        moved(loop, y, v)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module._Estimate, "__init__", make)
        patch.setattr(OuterLoop, "move", move)
        yield seen


# 1. the estimates are always for the anchor, and one inner step moves y (as printed, none does)
@pytest.mark.parametrize("inner_steps", [1, 3])
def test_without_noise_estimates_are_the_exact_gradients(inner_steps):
    problem, start = quadratic(), (np.ones(3), np.zeros(3))
    made = plan(problem, period=10, inner_steps=inner_steps)
    with watched_steps() as seen:
        made.run(problem, Run(noise=Silent()), start)
    assert len(seen) == 20
    for (x, y), v, u in seen:
        # y is after the last ascent step: both estimates belong to the y before it
        before = y - 0.1 * u
        assert_allclose(v, problem.scale.mean(0) * x + before, rtol=0, atol=1e-12)
        assert_allclose(u, x - problem.shift.mean(0) - before, rtol=0, atol=1e-12)


# 4. one record moves the sums by the clip, whatever it holds
@pytest.mark.parametrize("factor", [1e6, -1e6, 1e300, math.inf, math.nan])
@pytest.mark.parametrize("is_increment", [False, True])
@without_warnings()  # as a run
def test_one_record_moves_sums_by_no_more_than_the_clip(factor, is_increment):
    base, clip = quadratic(), 0.7

    def gradients(block, point, positions):
        made = base.gradients(block, point, positions)
        made[positions == 7] *= factor
        return made

    other = RecordGradients(50, 3, 3, gradients)
    point = np.ones(3), np.zeros(3)
    anchor = (np.full(3, 0.9), np.zeros(3)) if is_increment else None  # only x moves
    sums = [
        p.clipped_sum("joint", point, anchor, p.limit(clip, "joint", point, anchor), None)
        for p in (base, other)
    ]
    assert np.isfinite(sums[1]).all()
    assert np.linalg.norm(sums[0] - sums[1]) <= 2.0 * clip
    everyone_but_one = np.delete(np.arange(50), 7)
    limit = other.limit(clip, "joint", point, anchor)
    without = other.clipped_sum("joint", point, anchor, limit, everyone_but_one)
    assert np.linalg.norm(sums[1] - without) <= clip
    # the noise of a change in x alone is not 0 (as printed, it is)
    planned = plan(base, clip=clip, smoothness=1.0)
    kind = "increment" if is_increment else "refresh"
    query = NoisyGradientOracle(base, planned, seeded()).query(kind)
    assert query.clip("joint", point, anchor) > 0.1
    far = np.full(3, -1e9), np.zeros(3)
    assert query.clip("joint", point, far) == clip


def test_every_coordinate_of_a_release_has_noise_of_its_own():
    problem = RecordGradients(50, 3, 3, lambda block, point, own: np.zeros((len(own), 6)))
    query = NoisyGradientOracle(problem, plan(problem), seeded()).query("refresh")
    released = query.release("joint", (np.zeros(3), np.zeros(3)))
    assert released.all() and len(np.unique(released)) == 6


# 5. the outer loop needs no data
def test_outer_loop_replays_from_released_numbers():
    problem = quadratic()
    escape = EscapePhase(alpha=0.5, step_size=0.1, radius=0.1, n_steps=5, movement=1e-3)
    made = plan(problem, clip=5.0, n_steps=40, escape=escape, normalise=True, step_size=0.05)
    with watched_steps() as seen:
        result = made.run(problem, run(3))
    loop = OuterLoop(np.zeros(3), made.settings, np.random.default_rng(3))
    for (x, y), v, _ in seen:
        assert_allclose(loop.x, x, rtol=0, atol=0)
        loop.move(y, v)
    assert loop.status == result.status
    last = loop.anchor[0] if loop.is_done else loop.x
    assert_allclose(last, result.point, rtol=0, atol=0)


# 6. the oracle counts, and refuses what the plan does not have
def test_oracle_counts_every_query_and_refuses_more():
    problem = quadratic()
    made = plan(problem, n_steps=11, period=4, inner_steps=3)
    planned = made
    assert (planned.refresh.n_steps, planned.increment.n_steps) == (3, 30)
    oracle = NoisyGradientOracle(problem, planned, seeded())
    point = np.zeros(3), np.zeros(3)
    for _ in range(3):
        query = oracle.query("refresh")
        query.release("joint", point)
        with pytest.raises(RuntimeError, match="does not pay"):
            query.release("joint", point)
    with pytest.raises(RuntimeError, match="All 3 queries"):
        oracle.query("refresh")
    with pytest.raises(RuntimeError, match="does not pay"):
        oracle.query("increment").release("joint", point)  # without an anchor
    assert oracle.counts == {"refresh": 3, "increment": 1}


def test_accounting_of_full_batches_and_its_direction():
    problem = quadratic()
    epsilons = [
        cost_of(plan(problem, noise_multiplier=20.0, n_steps=steps, inner_steps=inner))
        for steps, inner in ((20, 1), (40, 1), (40, 2))
    ]
    assert epsilons == sorted(epsilons) and epsilons[0] < epsilons[2]
    made = plan(problem, budget=BUDGET, noise_ratio=0.5)
    assert cost_of(made) == pytest.approx(1.0, rel=1e-6) and cost_of(made) <= 1.0 + 1e-12
    # the two blocks of a linear dual cost what one joint release does
    settings = RGDASettings(n_steps=1, share_y=0.3)
    planned = replace(made, settings=settings, is_linear_dual=True)
    parts = [1.0 / planned.multiplier("refresh", block) ** 2 for block in ("x", "y")]
    assert sum(parts) == pytest.approx(1.0 / (2.0 * made.refresh.noise_multiplier) ** 2)
    (sampled,) = plan(problem, period=1, sampling_rate=0.5).releases
    assert "20 steps, " in sampled.name and sampled.noise_scale == 2.0  # of each of them


@pytest.mark.parametrize("kind", ["refresh", "increment"])
def test_batches_are_of_the_rate_that_is_paid_for_and_sums_of_the_public_size(kind, monkeypatch):
    """Sums over a batch are divided by the rate times the public size, not by what was drawn."""
    n, batches, rates = 400, [], {"refresh": 0.3, "increment": 0.1}

    class Watched(RecordGradients):
        def clipped_sum(self, block, point, anchor, limit, batch=None):
            batches.append(batch)
            return super().clipped_sum(block, point, anchor, limit, batch)

    def ones(block, point, rows):
        return point[0] * np.ones((len(rows), 1))

    problem, calls = Watched(n, 1, 0, ones), 60
    made = plan(problem, n_steps=2 * calls, period=2, sampling_rate=0.3, n_public=500,
                sampling_rate_difference=0.1, neighbouring="add_remove")  # fmt: skip
    monkeypatch.setattr(GaussianMechanism, "release", lambda self, value, noise: value)
    oracle = NoisyGradientOracle(problem, made, seeded())
    point, start = (np.ones(1), np.zeros(0)), (np.zeros(1), np.zeros(0))
    anchor = start if kind == "increment" else None
    values = [oracle.query(kind).release("joint", point, anchor)[0] for _ in range(calls)]
    sizes = np.array([len(batch) for batch in batches])
    assert_allclose(values, sizes / (rates[kind] * 500), rtol=1e-6)
    assert len({tuple(batch) for batch in batches}) == calls  # each drawn anew
    # 6 deviations of a mean of binomial numbers: false alarm below 1e-8
    deviation = math.sqrt(n * rates[kind] * (1.0 - rates[kind]) / calls)
    assert abs(sizes.mean() - n * rates[kind]) < 6.0 * deviation


def test_share_of_a_plan_is_that_share_of_its_cost():
    whole, part = (
        sum(m.n_steps / m.noise_multiplier**2 for m in (each.refresh, each.increment))
        for each in (plan(quadratic(), BUDGET, noise_ratio=0.5, share=s) for s in (1.0, 0.3))
    )
    assert part == pytest.approx(0.3 * whole, rel=1e-12)
    for rates in ({"sampling_rate": 0.5}, {"sampling_rate_difference": 0.5}):
        with pytest.raises(ValueError, match="batches of all records"):
            plan(quadratic(), BUDGET, **rates, share=0.3)


@pytest.mark.parametrize(
    "relation, rate, expected",
    [("replace_one", 1.0, 1.5), ("replace_one", 0.5, 2.0), ("add_remove", 1.0, 1.0)],
)
def test_noise_is_for_the_diameter_of_a_block(relation, rate, expected, monkeypatch):
    """The cost of a Poisson sample is that of records at a distance of twice the clip."""

    class Close(RecordGradients):
        def diameter(self, block, anchor):
            return 1.5

    problem, used = Close(9, 1, 1, lambda *_: np.ones((9, 1)), best_dual=lambda mean: mean), []
    made = plan(problem, neighbouring=relation, sampling_rate=rate, clip=3.0, n_steps=1, period=1)

    def release(mechanism, value, noise):
        used.append((mechanism.sensitivity, mechanism.noise_multiplier))
        return value

    monkeypatch.setattr(GaussianMechanism, "release", release)
    query = NoisyGradientOracle(problem, made, seeded()).query("refresh")
    query._batch = None
    for block in ("y", "x"):
        query.release(block, (np.ones(1), np.ones(1)))
    assert_allclose([each[0] for each in used], 3.0 * expected)
    assert_allclose(sum(each[1] ** -2.0 for each in used), 1.0)  # the plan's multiplier


def test_plan_refuses_records_that_it_was_not_made_for():
    made = plan(quadratic(50))
    for n in (49, 51):
        with pytest.raises(ValueError, match="for 50 records"):
            made.run(quadratic(n), run())
    few = plan(quadratic(50), n_public=5, neighbouring="add_remove", n_steps=2, period=1)
    few.run(quadratic(51), run())


def test_numbers_that_are_not_finite_move_nothing():
    settings = RGDASettings(n_steps=9, step_size=1.0)
    loop = OuterLoop(np.zeros(2), settings, np.random.default_rng(0))
    for v, place in (
        ([2.0, 0.0], [-1.0, 0.0]),
        ([math.inf, 1.0], [-1.0, 0.0]),
        ([math.nan, 1.0], [-1.0, 0.0]),
        ([0.0, 3.0], [-1.0, -1.0]),
    ):
        loop.move(np.zeros(1), np.array(v))
        assert_allclose(loop.x, place)
    # a step of y, of which no gradient of a record may hear
    seen, steps = [], iter([0.0, math.inf, math.nan, 0.0])

    def gradients(block, point, rows):
        seen.append(point[1].copy())
        return np.ones((len(rows), 2))

    problem = RecordGradients(
        9, 1, 1, gradients, public_gradient=lambda point: (np.zeros(1), np.full(1, next(steps)))
    )
    made = plan(problem, n_steps=4, period=1, step_size_y=1.0)
    result = made.run(problem, Run(noise=Silent()))
    assert_allclose(seen, [[0.0], [1.0], [1.0], [1.0]], rtol=1e-6)
    assert_allclose(result.y, [2.0], rtol=1e-6)


# 9. the strict saddle
def saddle(dimension=10):
    """``-x_1^2 / 2 + x_1^4 / 4 + sum x_j^2 / 2 + y x_2 - y^2 / 2``; minima at x_1 = +-1."""

    def gradients(block, point, positions):
        x, y = point
        g = x.copy()
        g[0] = x[0] ** 3 - x[0]
        g[1] += y[0]
        return np.concatenate([g, [x[1] - y[0]]])[None]

    return RecordGradients(1, dimension, 1, gradients)


def escaping(n_steps, with_escape=True):
    problem = saddle()
    escape = plan_escape_phase(0.02, dimension=10, smoothness=2.5, hessian_lipschitz=7.2)
    made = plan(
        problem, n_steps=n_steps, period=n_steps, inner_steps=5, clip=10.0, smoothness=10.0,
        step_size=0.005, step_size_y=0.5, normalise=True, escape=escape if with_escape else None,
    )  # fmt: skip
    return made.run(problem, Run(rng=np.random.default_rng(0), noise=Silent()))


def test_escape_from_the_strict_saddle_ends_at_a_minimum():
    result = escaping(1500)
    assert result.status == "sosp_candidate"
    assert abs(abs(result.point[0]) - 1.0) < 0.01
    stuck = escaping(300, with_escape=False)
    assert np.linalg.norm(stuck.point) < 1e-12 and stuck.status == "max_iter"


def test_last_step_of_an_escape_phase_uses_up_the_movement_exactly():
    escape = EscapePhase(alpha=1.0, step_size=0.5, radius=0.1, n_steps=100, movement=0.04)
    settings = RGDASettings(n_steps=99, escape=escape)
    loop = OuterLoop(np.zeros(4), settings, np.random.default_rng(0))
    loop.move(np.zeros(1), np.full(4, 0.1))
    assert loop.phase == "escape" and np.linalg.norm(loop.x) <= 0.1
    places, v = [loop.x], np.array([0.2, 0.0, 0.0, 0.0])
    for _ in range(50):
        loop.move(np.zeros(1), v)
        places.append(loop.x)
        if loop.phase == "descent":
            break
        v = v * 1.5
    moves = np.square(np.diff(places, axis=0)).sum(axis=1)
    assert loop.phase == "descent" and len(moves) > 2
    assert moves.sum() == pytest.approx(len(moves) * 0.04, rel=1e-12)
    assert_allclose(moves[:-1], [(0.1 * 1.5**k) ** 2 for k in range(len(moves) - 1)])


def test_momentum_and_decay_shape_the_descent_steps():
    settings = RGDASettings(n_steps=4, step_size=1.0, momentum=0.5, decay=True)
    loop = OuterLoop(np.zeros(2), settings, np.random.default_rng(0))
    loop.move(np.zeros(1), np.array([2.0, 0.0]))
    assert_allclose(loop.x, [-1.0, 0.0])
    loop.move(np.zeros(1), np.array([0.0, 1.0]))  # the mean is now (0.5, 0.5)
    assert_allclose(loop.x, [-1.0 - 0.75 / math.sqrt(2.0), -0.75 / math.sqrt(2.0)])


def test_perturbation_is_uniform_in_the_ball():
    rng = np.random.default_rng(0)
    norms = np.array([np.linalg.norm(uniform_in_ball(3, 2.0, rng)) for _ in range(2000)])
    assert norms.max() <= 2.0
    # false alarm below 1e-6: 5 deviations of a mean of uniform variables
    assert np.mean((norms / 2.0) ** 3) == pytest.approx(0.5, abs=5 * 0.289 / math.sqrt(2000))


# 14. a linear dual: fewer queries, and the path of many inner steps
def test_linear_dual_follows_the_path_of_many_inner_steps():
    base = quadratic()
    solved = RecordGradients(
        50, 3, 3, _linear(base), best_dual=lambda mean: mean, public_gradient=None
    )
    start = np.ones(3), np.zeros(3)
    short = plan(solved, n_steps=12, period=4)
    assert (short.refresh.n_steps, short.increment.n_steps) == (3, 9)
    long = plan(base, n_steps=12, period=4, inner_steps=60, step_size_y=0.5)
    paths = []
    for made, problem in ((short, solved), (long, base)):
        with watched_steps() as seen:
            made.run(problem, Run(noise=Silent()), start)
        paths.append([point[0] for point, *_ in seen])
    assert_allclose(paths[0], paths[1], atol=1e-8)


def _linear(base):
    def gradients(block, point, positions):
        x, y = point
        if block == "y":
            return x - base.shift[positions]
        return base.scale[positions] * x + y

    return gradients


@pytest.mark.parametrize(
    "options, message",
    [
        ({"period": 21}, "period"),
        ({"inner_steps": 0}, "inner_steps"),
        ({"sampling_rate": 1.5}, "sampling_rate"),
        ({"clip": 0.0}, "clip"),
        ({"budget": PrivacyBudget(1.0, 0.0)}, "delta"),
    ],
)
def test_invalid_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        plan(quadratic(), **options)


def test_add_remove_needs_a_public_number_of_records():
    problem, settings = quadratic(), RGDASettings(n_steps=3)
    with pytest.raises(ValueError, match="n_public"):
        dp_rgda(problem, BUDGET, settings=settings, neighbouring="add_remove")
    result = dp_rgda(problem, BUDGET, settings=settings, neighbouring="add_remove", n_public=60)
    assert result.plan.event.neighbouring is Neighbouring.ADD_REMOVE
    assert result.plan.refresh.sensitivity == 1.0


def test_escape_phase_drowned_in_noise_is_announced():
    escape = plan_escape_phase(0.02, dimension=3, smoothness=1.0, hessian_lipschitz=1.0)
    assert plan(quadratic(), clip=1.0, escape=escape).alarms()
    assert not plan(quadratic(), clip=1e-9, escape=escape).alarms()


def test_limits_of_clipping_follow_from_the_public_size():
    """Neighbours of n and n + 1 records clip alike, also where the tree of a sum gets a level."""
    seen = []

    class Watched(RecordGradients):
        def clipped_sum(self, block, point, anchor, limit, batch=None):
            seen.append(limit)
            return super().clipped_sum(block, point, anchor, limit, batch)

    for n in (16 * 256, 16 * 256 + 1):
        made = Watched(n, 3, 3, lambda block, point, rows: np.ones((len(rows), 3)))
        planned = replace(plan(made, neighbouring="add_remove"), n_public=5000)
        query = NoisyGradientOracle(made, planned, seeded()).query("refresh")
        query.release("joint", (np.ones(3), np.zeros(3)), None)
    assert len(seen) == 2 and seen[0] == seen[1]

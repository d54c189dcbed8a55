"""Exponential mechanism: the law of the sampler, privacy by quadrature, localisation, plans."""

import math
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from plain_noise import seeded
from scipy.stats import binom, kstest

from skdp.algorithms import Run
from skdp.algorithms.exponential import mechanism, rules, sampling
from skdp.algorithms.exponential.localisation import (
    localized_exponential,
    plan_localized_exponential,
)
from skdp.algorithms.exponential.mechanism import (
    bound_log_proposals,
    bound_oscillation,
    exponential_mechanism,
    plan_exponential_mechanism,
)
from skdp.privacy import PrivacyBudget
from skdp.problems import (
    Ball,
    Design,
    FiniteSumProblem,
    HalfSquaredLoss,
    HingeLoss,
    LogisticLoss,
    Records,
    SoftmaxLoss,
    SquaredHingeLoss,
)
from skdp.solvers import Newton

LOSSES = {
    "logistic": LogisticLoss(),
    "squared": HalfSquaredLoss(1.0),
    "squared_hinge": SquaredHingeLoss(),
}
#: False-alarm rate of every statistical test here; their seeds are fixed.
ALARM = 1e-6


def records(loss, n=30, d=1, seed=0, shift=1.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) / math.sqrt(d)
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    signal = shift * X.sum(axis=1) + 0.3 * rng.standard_normal(n)
    targets = np.clip(signal, -1, 1) if loss == "squared" else (signal > 0).astype(float)
    return Records(X, 1.0), targets


def balls_around(*pairs):
    return tuple(
        sampling.CenteredBall(center=np.array(center), radius=radius) for center, radius in pairs
    )


def objective(rows, targets, loss, alpha, points):
    """F at each point, straight from the definition."""
    margins = rows.materialise() @ points.T
    values = loss.value(margins, targets[:, None]).mean(axis=0)
    return values + 0.5 * alpha * np.square(points).sum(axis=1)


def grid_law(rows, targets, loss, alpha, s, balls, cells):
    """Points of a fine grid on the balls and their probabilities."""
    d, radius = rows.width, balls[0].radius
    axis = radius * (2.0 * np.arange(cells) + 1.0 - cells) / cells
    points = np.stack(np.meshgrid(*[axis] * d), axis=-1).reshape(-1, d)
    for ball in balls:
        points = points[np.linalg.norm(points - ball.center, axis=1) <= ball.radius]
    energy = s * objective(rows, targets, loss, alpha, points)
    weights = np.exp(energy.min() - energy)
    return points, weights / weights.sum()


def p_value(draws, points, weights):
    """Kolmogorov-Smirnov test of a statistic's draws against its law on the grid."""
    order = np.argsort(points)
    cumulative = np.cumsum(weights[order]) - 0.5 * weights[order]
    return kstest(draws, lambda x: np.interp(x, points[order], cumulative)).pvalue


def sample(rows, targets, loss, alpha, s, balls, anchor, size, multipliers=None, seed=0):
    """Draws of the sampler with a given anchor and given multipliers."""
    density = sampling.Density(
        records=rows.with_targets(targets), loss=loss, alpha=alpha, concentration=s, balls=balls
    )
    bound = sampling.LowerBound.at(np.asarray(anchor, dtype=float), density)
    multipliers = None if multipliers is None else np.array(multipliers)
    proposal = sampling.Proposal.of(bound, density, multipliers)
    noise = seeded(seed)
    return np.array([sampling.sample(density, bound, proposal, noise) for _ in range(size)])


@pytest.mark.mostly("audit", 2)
@pytest.mark.parametrize(
    ("loss", "s", "alpha", "radius", "anchor", "multipliers"),
    [
        ("logistic", 20.0, 0.3, 2.0, None, None),
        ("squared", 20.0, 0.3, 0.3, None, None),  # the minimiser lies on the sphere
        ("squared_hinge", 20.0, 0.3, 0.3, 0.3, [2.0]),
        ("logistic", 20.0, 0.3, 1.0, None, [0.3]),
        ("squared", 10.0, 0.3, 0.6, -0.4, None),  # far from the minimiser
        ("logistic", 1.0, 0.0, 1.0, 0.4, None),  # a Gaussian much wider than the ball
        ("squared_hinge", 1e-3, 0.1, 1.0, 0.0, None),
    ],
)
def test_law_in_one_dimension(loss, s, alpha, radius, anchor, multipliers):
    """Neither the anchor nor the multipliers show; a slightly different law would."""
    rows, targets = records(loss)
    phi, balls = LOSSES[loss], balls_around(([0.0], radius))
    if anchor is None:
        problem = FiniteSumProblem(rows.with_targets(targets), phi, max(alpha, 0.01), Ball(radius))
        anchor = Newton().solve(problem, 1e-6).point[0]
    draws = sample(rows, targets, phi, alpha, s, balls, [anchor], 1500, multipliers)[:, 0]
    points, weights = grid_law(rows, targets, phi, alpha, s, balls, 20_000)
    assert p_value(draws, points[:, 0], weights) > ALARM
    other, weights = grid_law(rows, targets, phi, alpha, 2.0 * s + 2.0, balls, 20_000)
    assert p_value(draws, other[:, 0], weights) < ALARM


@pytest.mark.audit
@pytest.mark.parametrize(
    ("loss", "lens"), [("logistic", True), ("squared", False), ("squared_hinge", True)]
)
def test_law_in_two_dimensions(loss, lens):
    rows, targets = records(loss, d=2, shift=2.0)
    phi, s, alpha = LOSSES[loss], 30.0, 0.05
    balls = balls_around(([0.0, 0.0], 0.8), *([([0.3, -0.6], 0.5)] if lens else []))
    density = sampling.Density(
        records=rows.with_targets(targets), loss=phi, alpha=alpha, concentration=s, balls=balls
    )
    anchor = density.near_minimiser("auto", np.random.default_rng(0))
    draws = sample(rows, targets, phi, alpha, s, balls, anchor, 1000)
    for ball in balls:
        assert np.linalg.norm(draws - ball.center, axis=1).max() <= ball.radius
    points, weights = grid_law(rows, targets, phi, alpha, s, balls, 400)
    flat = np.full(len(points), 1.0 / len(points))
    for statistic in (
        lambda w: w @ [0.8, 0.6],
        lambda w: w @ [0.6, -0.8],
        lambda w: np.square(w - anchor).sum(axis=1),
    ):
        assert p_value(statistic(draws), statistic(points), weights) > ALARM
    assert p_value(draws @ [0.8, 0.6], points @ [0.8, 0.6], flat) < ALARM


@pytest.mark.parametrize("loss", list(LOSSES))
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("n_balls", [1, 2])
def test_the_quadratic_lies_below_the_objective(loss, kind, n_balls):
    rng = np.random.default_rng(3)
    _, targets = records(loss, n=400, d=3)
    X = 2.0 * rng.standard_normal((400, 3))  # most rows are scaled down
    rows = Records(sp.csr_matrix(X) if kind == "sparse" else X, 1.5, intercept=0.7)
    phi, alpha = LOSSES[loss], 0.02
    balls = balls_around((np.zeros(4), 2.0), (np.full(4, 0.6), 0.5))[:n_balls]
    density = sampling.Density(
        records=rows.with_targets(targets), loss=phi, alpha=alpha, concentration=100.0, balls=balls
    )
    points = rng.standard_normal((500, 4))
    points *= balls[-1].radius * rng.random((500, 1)) / np.linalg.norm(points, axis=1)[:, None]
    points += balls[-1].center
    anchor, points = points[0], points[1:]
    bound = sampling.LowerBound.at(anchor, density)
    H = (bound.eigenvectors * bound.eigenvalues) @ bound.eigenvectors.T

    def q(w):
        return 0.5 * np.einsum("ij,jk,ik->i", w, H, w) - w @ bound.linear

    gap = objective(rows, targets, phi, alpha, points) - q(points)
    gap -= (objective(rows, targets, phi, alpha, anchor[None]) - q(anchor[None]))[0]
    assert gap.min() >= -1e-12
    assert gap.max() < 1e-12 if loss == "squared" else gap.max() > 1e-3
    # rejection block by block comes to the same: those whose allowance is above s (F - q)
    if loss != "squared":
        allowances = 100.0 * gap * rng.uniform(0.5, 1.5, len(gap))
        passed = sampling.accept(density, bound, points, allowances)
        assert np.array_equal(passed, np.flatnonzero(allowances >= 100.0 * gap))


@pytest.mark.parametrize("loss", list(LOSSES))
def test_oscillation_search(loss):
    """Pairs of records, on a ball and on the part of a small ball in a large one."""
    rng = np.random.default_rng(1)
    phi, angles = LOSSES[loss], np.linspace(0, 2 * math.pi, 60)
    circle = np.column_stack([np.cos(angles), np.sin(angles)])
    worst = 0.0
    for outer in (0.2, 1.0, 4.0):
        for norm, radius in ((0.0, outer), (0.6 * outer, 0.3 * outer), (outer, outer)):
            disc = np.array([norm, 0.0]) + np.vstack([r * circle for r in (radius, 0.5 * radius)])
            disc = disc[np.linalg.norm(disc, axis=1) <= outer * (1 + 1e-12)]
            bound = bound_oscillation(phi, 1.0, radius, norm, outer)
            low = -1.0 if loss == "squared" else 0.0
            for _ in range(100):
                x = circle[rng.integers(60, size=2)]
                values = phi.value(disc @ x.T, rng.choice([low, 1.0], 2))
                worst = max(worst, np.ptp(values[:, 0] - values[:, 1]) / bound)
    assert 0.8 < worst <= 1.0


def test_a_draw_around_a_center_is_priced_for_its_norm():
    """Losses differ by more around a center that is far from 0."""
    loss = LogisticLoss()
    design, budget = Design(1.0, 3, 5000), PrivacyBudget(50.0)
    plan = plan_localized_exponential(loss, design, budget, radius=20.0, alpha=1.0)
    near, far = (plan.localised(np.array([0.0, 0.0, norm])).oscillation for norm in (0.0, 5.0))
    assert far == bound_oscillation(loss, 1.0, plan.local_radius, 5.0, plan.radius) > 1.2 * near


@pytest.mark.parametrize(("loss", "alpha"), [("logistic", 0.0), ("squared", 0.2)])
def test_utility_bound(loss, alpha):
    """Mean excess of 30 draws; by Markov's inequality and the bound's slack far below it."""
    rows, targets = records(loss, n=500, d=3)
    phi, noise = LOSSES[loss], seeded(0)
    problem = FiniteSumProblem(rows.with_targets(targets), phi, alpha or 1e-6, Ball(1.0))
    best = problem.value(Newton().solve(problem, 1e-3).point)
    arguments = (rows.with_targets(targets), phi, PrivacyBudget(0.5))
    results = [
        exponential_mechanism(*arguments, radius=1.0, alpha=alpha, run=Run(noise=noise))
        for _ in range(30)
    ]
    excess = np.mean([problem.value(result.point) for result in results]) - best
    bound = results[0].plan.bound()
    assert 0.05 * bound < excess <= bound
    if alpha:
        results = [
            localized_exponential(*arguments, radius=1.0, alpha=alpha, run=Run(noise=noise))
            for _ in range(10)
        ]
        excess = np.mean([problem.value(result.point) for result in results]) - best
        assert excess <= results[0].plan.bound()


@pytest.mark.slow
def test_the_local_ball_holds_the_minimiser(monkeypatch):
    monkeypatch.setattr(rules, "LOCAL_RADII", (0.5, 0.5, 1))
    rows, targets = records("squared", n=500, d=2)
    phi, noise = LOSSES["squared"], seeded(0)
    problem = FiniteSumProblem(rows.with_targets(targets), phi, 0.5, Ball(0.5))
    best = Newton().solve(problem, 1e-8).point
    missed, excess, runs = 0, [], 300
    for _ in range(runs):
        result = localized_exponential(
            rows.with_targets(targets), phi, PrivacyBudget(4.0), radius=1.0, alpha=0.5,
            run=Run(noise=noise),
        )  # fmt: skip
        plan = result.plan
        distance = np.linalg.norm(result.path[0] - best)
        missed += distance > plan.local_radius
        excess.append(max(distance - plan.local_radius, 0.0))
        assert np.linalg.norm(result.point - result.path[0]) <= plan.local_radius * (1 + 1e-12)
        assert np.linalg.norm(result.point) <= plan.radius * (1 + 1e-12)
    p = plan.miss_probability
    assert 0.0 < p < 1.0
    assert missed <= binom.ppf(1 - ALARM, runs, p)
    assert missed >= binom.ppf(ALARM, runs, 0.9 * p)  # the noise has about the stated size
    cost = plan.miss_cost / (plan.output.constants.lipschitz + plan.alpha * plan.radius)
    spread = 5.0 * np.std(excess) / math.sqrt(runs)
    assert np.mean(excess) == pytest.approx(cost, rel=0.05, abs=spread + 1e-6)


class Untouchable:
    """Records of which only public numbers can be had."""

    norm_bound, width, n_units, intercept = 1.0, 4, 1000, 0.0
    persons, is_slack = None, False

    def __getattr__(self, name):
        raise AssertionError(f"{name} was read")

    def __len__(self):
        raise AssertionError("the records were counted")


@pytest.mark.parametrize("method", [exponential_mechanism, localized_exponential])
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"budget": PrivacyBudget(1.0, 1e-6)}, "delta"),
        ({"loss": SoftmaxLoss(3)}, "one margin"),
        ({"loss": HingeLoss()}, "no exact sampler|smooth"),
        ({"loss": SquaredHingeLoss(), "alpha": 1e-9}, "no exact sampler"),
        ({"radius": 40.0, "alpha": 1e-9}, "no exact sampler"),
        ({"radius": math.inf}, "radius"),
        ({"radius": 0.0}, "radius"),
        ({"alpha": -1.0}, "alpha"),
    ],
)
def test_refusals_before_the_records_are_read(method, changes, message):
    arguments = {"loss": LogisticLoss(), "budget": PrivacyBudget(1.0), "radius": 2.0, "alpha": 0.1}
    with pytest.raises(ValueError, match=message):
        method(Untouchable(), **{**arguments, **changes})


def test_the_bound_on_the_number_of_proposals():
    """With a good anchor the mean number stays below the public bound (Lemma 4)."""
    phi, alpha, s, radius = LogisticLoss(), 0.01, 400.0, 3.0
    rows, targets = records("logistic", n=200, d=3, shift=0.5)
    balls = balls_around((np.zeros(3), radius))
    density = sampling.Density(
        records=rows.with_targets(targets), loss=phi, alpha=alpha, concentration=s, balls=balls
    )
    anchor = density.near_minimiser("auto", np.random.default_rng(0))
    bound = sampling.LowerBound.at(anchor, density)
    points, allowances = sampling.Proposal.of(bound, density).draw(20_000, seeded(0))
    passed = sampling.accept(density, bound, points, allowances)
    mean = len(points) / len(passed)
    assert 2.0 < mean <= math.exp(bound_log_proposals(phi, 1.0, radius, radius, alpha, 3, s))


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_the_law_does_not_depend_on_units(scale):
    """A log loss with short rows is still no quadratic: the same seeds give the same draws."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (60, 1))
    labels = (X[:, 0] > 0).astype(float)
    for seed in range(8):
        points = [
            exponential_mechanism(
                Records(X * unit, unit, targets=labels),
                LogisticLoss(),
                PrivacyBudget(2.0, 0.0),
                radius=4.0 / unit,
                run=Run(noise=seeded(seed)),
            ).point
            * unit
            for unit in (1.0, scale)
        ]
        np.testing.assert_allclose(points[1], points[0], rtol=1e-6)


def test_an_uncertified_anchor_is_no_error(monkeypatch):
    """A tiny ball at the edge of the large one, where projections are inaccurate."""
    monkeypatch.setattr(rules, "LOCAL_RADII", (1.88e-6, 1.88e-6, 1))
    rng = np.random.default_rng(0)
    rows = Records(rng.uniform(-1, 1, (3, 2)), 1.0)
    for seed in range(20):
        result = localized_exponential(
            rows.with_targets(np.array([0.0, 1.0, 1.0])), SquaredHingeLoss(),
            PrivacyBudget(94.7, 0.0), radius=3.716, alpha=1.01e-4,
            run=Run(noise=seeded(seed)),
        )  # fmt: skip
        assert np.linalg.norm(result.point) <= 3.716 * (1 + 1e-12)


@pytest.mark.parametrize("scale", [1e-6, 1.0])
def test_points_are_on_a_grid_that_no_record_moves(scale):
    """The lowest bits of a released point tell nothing: it is a multiple of a public step."""
    rng = np.random.default_rng(0)
    points, steps = [], set()
    for spread in (1.0, 1e-3):
        X = scale * spread * rng.uniform(-0.5, 0.5, (60, 2))
        rows = Records(X, scale, 0.1 * scale, targets=(X[:, 0] > 0).astype(float))
        plan = plan_exponential_mechanism(
            LogisticLoss(), Design.of(rows), PrivacyBudget(5.0), radius=2.0 / scale
        )
        steps.add(plan.step)
        points += [plan.run(rows, Run(noise=seeded(k))).point for k in range(20)]
    (step,) = steps
    points = np.array(points)
    assert math.log2(step) == round(math.log2(step))
    np.testing.assert_array_equal(points, np.rint(points / step) * step)
    assert np.linalg.norm(points, axis=1).max() <= 2.0 / scale
    # far below the spread of the points, of which as many are odd as even
    assert step < 1e-5 * points.std(axis=0).min()
    assert 0.3 < (np.rint(points / step) % 2).mean() < 0.7


@pytest.mark.parametrize("s", [1.0, 1e6])
def test_the_grid_is_as_coarse_as_the_narrowest_density_allows(s, monkeypatch):
    """Of two public lower bounds on the width of a density the larger one counts."""
    monkeypatch.setattr(mechanism, "PROPOSAL_LIMIT", math.inf)
    loss, design = LogisticLoss(), Design(1.0, 2, 1000)
    budget = PrivacyBudget(s * 2.0 * 3.0 / 1000)  # the oscillation is 2 R X
    plan = plan_exponential_mechanism(loss, design, budget, radius=3.0)
    assert plan.concentration == pytest.approx(s)
    slope, curvature = loss.lipschitz(1.0, 3.0), loss.smoothness(1.0)
    widths = 1.0 / (s * slope), 1.0 / math.sqrt(s * curvature)
    assert max(widths) > 1.5 * min(widths)
    assert 2.0**-21 < plan.step / max(widths) <= 2.0**-20


@pytest.mark.parametrize("signs", [(1.0, 1.0), (-1.0, 1.0), (-1.0, -1.0)])
def test_points_are_cut_off_towards_zero(signs, monkeypatch):
    """Points next to the sphere stay in the ball; each coordinate moves by less than a step."""
    rows = Records(np.full((10, 2), 0.5), 1.0, targets=np.ones(10))
    plan = plan_exponential_mechanism(
        LogisticLoss(), Design.of(rows), PrivacyBudget(2.0), radius=1.0
    )
    module = sys.modules[type(plan).__module__]
    for angle in np.linspace(0.1, 1.5, 20):
        exact = np.array(signs) * [math.cos(angle), math.sin(angle)]
        monkeypatch.setattr(module, "draw", lambda *_, exact=exact: exact)
        point = plan.run(rows, Run()).point
        moved = np.array(signs) * (exact - point)
        assert (moved >= 0.0).all() and (moved < plan.step).all()
        assert np.linalg.norm(point) <= 1.0


def test_the_sampler_counts_a_person_once():
    """Persons of 1, 2 and 4 records, and four records of each: the same bound and acceptance."""
    rng = np.random.default_rng(0)
    persons = np.repeat(np.arange(30), rng.choice([1, 2, 4], 30))
    X, t = rng.normal(size=(len(persons), 3)), rng.integers(0, 2, len(persons)) + 0.0
    repeats = 4 // np.bincount(persons)[persons]
    repeated = Records(np.repeat(X, repeats, axis=0), 1.0, targets=np.repeat(t, repeats))
    balls = (sampling.CenteredBall(center=np.zeros(3), radius=2.0),)
    points, allowances = rng.uniform(-1, 1, (400, 3)), rng.exponential(size=400)
    found = []
    for records in (Records(X, 1.0, targets=t).of_units(None, persons), repeated):
        density = sampling.Density(
            records=records, loss=LogisticLoss(), alpha=0.0, concentration=90.0, balls=balls
        )
        bound = sampling.LowerBound.at(np.full(3, 0.3), density)
        accepted = sampling.accept(density, bound, points, allowances)
        found.append((bound.eigenvalues, bound.linear, accepted))
    for ours, reference in zip(*found, strict=True):
        np.testing.assert_allclose(ours, reference, rtol=1e-10)
    assert 20 < len(found[0][2]) < 380

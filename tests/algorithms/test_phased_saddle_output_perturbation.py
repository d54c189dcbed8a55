"""Phases of saddle problems: published numbers, the planner, and what one record can change.

Theory: docs/theory/saddle.md, "Phases" (Lemmas 6 and 7).
"""

import dataclasses
import itertools
import json
import math

import numpy as np
import pytest
from bilinear_problem import BilinearProblem
from plain_noise import PlainNoise
from saddle_problems import changed

from skdp.algorithms import (
    Run,
    SaddleUtilityBound,
    phased_saddle_output_perturbation,
    plan_phased_saddle_output_perturbation,
    plan_saddle_output_perturbation,
)
from skdp.algorithms.blocks import GROWING_SCHEDULES, assign_blocks, block_sizes
from skdp.mechanisms import NoiseSource, gaussian_noise_multiplier
from skdp.privacy import PrivacyBudget
from skdp.privacy.gaussian_dp import gaussian_delta
from skdp.problems import (
    Ball,
    BlockConstants,
    GroupWeights,
    HalfSquaredLoss,
    LogisticLoss,
    MaxGroupLossProblem,
    Records,
    SaddleConstants,
    Simplex,
    WholeSpace,
)
from skdp.solvers import (
    BestResponse,
    Catalyst,
    SaddleSolver,
    certifiable_saddle_accuracy,
    solve_certified,
)

#: The reference case: L = 1 jointly, D = 1.
UNIT = SaddleConstants(
    1000, BlockConstants(10, 1.0, 0.8, radius=1.0), BlockConstants(10, 1.0, 0.6, radius=1.0)
)
BUDGET = PrivacyBudget(0.5, 1e-5)
ACCURACY_FRACTION = 1e-3


class Silent(PlainNoise):
    """No noise at all: exact movements become visible."""

    def standard_normal(self, size):
        return np.zeros(size)

    def gamma(self, shape):
        return 0.0

    def direction(self, dimension):
        return np.full(dimension, dimension**-0.5)


class Scripted(PlainNoise):
    """Given draws in place of noise; remembers how many numbers were asked for."""

    def __init__(self, draws):
        super().__init__()
        self.draws, self.sizes = list(draws), []

    def standard_normal(self, size):
        self.sizes.append(size)
        return np.asarray(self.draws[len(self.sizes) - 1], dtype=float)[:size]


@dataclasses.dataclass(frozen=True)
class Weakest:
    """Likes regularisers of a given small alpha."""

    alpha: float

    def __call__(self, phases):
        wanted = (phases[0].regularisation, phases[0].other_regularisation)
        return sum(abs(math.log(alpha / self.alpha)) for alpha in wanted)


class Shared(BilinearProblem):
    """All records have the same public matrix: only offsets differ between neighbours."""

    def __init__(self, matrices, offsets_x, offsets_y, bounds, *rest, **kwargs):
        super().__init__(matrices, offsets_x, offsets_y, bounds, *rest, **kwargs)
        ranges = ((2.0 * bounds[1], 2.0 * bounds[2]),)
        self.constants = dataclasses.replace(self.constants, gradient_ranges=ranges)


class Curved(BilinearProblem):
    """Every record's function has ``(own_x/2) ||x||^2 - (own_y/2) ||y||^2`` of its own."""

    offers = frozenset()

    def __init__(self, *args, own):
        super().__init__(*args)
        self.own = own
        c = self.constants
        constants = changed(
            c,
            x_modulus=own[0] + self.alpha_x,
            y_modulus=own[1] + self.alpha_y,
            x_lipschitz=c.x.lipschitz + own[0] * c.x.radius,
            y_lipschitz=c.y.lipschitz + own[1] * c.y.radius,
            x_smoothness=own[0],
            y_smoothness=own[1],
            gradient_ranges=((2 * c.x.lipschitz, 2 * c.y.lipschitz),),
        )
        super(BilinearProblem, self).__init__(
            self.domain_x, self.domain_y, constants, None, None, self.alpha_x, self.alpha_y
        )

    def value(self, x, y):
        return super().value(x, y) + 0.5 * float(self.own[0] * (x @ x) - self.own[1] * (y @ y))

    def data_operator(self, x, y):
        slope_x, slope_y = super().data_operator(x, y)
        return slope_x + self.own[0] * x, slope_y + self.own[1] * y

    def batch_operator(self, rows, x, y):
        slope_x, slope_y = super().batch_operator(rows, x, y)
        return slope_x + self.own[0] * x, slope_y + self.own[1] * y


def spying(function):
    """A solver object that calls a function of a test, which may keep what it sees."""

    class Spy(SaddleSolver):
        def _solve(self, problem, accuracy, start, rng):
            return function(problem, accuracy)

    return Spy()


def problem_of(n=600, seed=0, dims=(3, 2), domains=None, bounds=(0.5, 1.0, 1.0), **kwargs):
    rng = np.random.default_rng(seed)
    parts = [rng.normal(size=shape) for shape in ((n, *dims), (n, dims[0]), (n, dims[1]))]
    domains = domains or (Ball(2.0), Simplex(dims[1]))
    own = kwargs.pop("own", None)
    arguments = (*parts, bounds, *domains, 1.0, 1.0)
    if own is not None:
        return Curved(*arguments, own=own)
    return BilinearProblem(*arguments, **kwargs)


def group_problem(n=900, seed=0, clipped=False, public=False, loss=None, block_size=None):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3)) / np.sqrt(3)
    groups = rng.choice(3, n, p=[0.7, 0.2, 0.1])
    targets = (X[:, 0] + 0.5 * (groups == 2) * X[:, 1] + 0.1 * rng.standard_normal(n) > 0) * 1.0
    rows = Records(X, 1.0)
    if block_size:
        rows.block_size = block_size
    weights = GroupWeights((4.0,) * 3, clipped=clipped, public_groups=public)
    return MaxGroupLossProblem(
        rows.with_targets(targets, groups), loss or LogisticLoss(), weights, 2.0, 1.0, 1.0
    )


def plan_of(problem, budget=BUDGET, **kwargs):
    return plan_phased_saddle_output_perturbation(
        problem.constants,
        budget,
        record_moduli=problem.record_moduli,
        **kwargs,
    )


def run(problem, budget=BUDGET, seed=3, solver="auto", noise=None, **kwargs):
    how = Run(solver, np.random.default_rng(seed), Silent() if noise is None else noise)
    return phased_saddle_output_perturbation(problem, budget, run=how, **kwargs)


def assignment_of(problem, plan, seed=3):
    return assign_blocks(np.random.default_rng(seed), problem.n_records, plan.block_sizes)


# ---------------------------------------------------------------------------------------------
# published numbers


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
    """E3: Alg. 4 alone is (epsilon/2, delta/2)-DP; the variant is (epsilon, delta)-DP."""
    half = PrivacyBudget(0.5 * BUDGET.epsilon, 0.5 * BUDGET.delta)
    for budget, own in ((half, 0.0), (BUDGET, 0.2)):
        plan = plan_phased_saddle_output_perturbation(
            UNIT, BUDGET, record_moduli=(0.0, own), calibration="paper"
        )
        for phase in plan.phases:
            ratio = phase.mechanism.sensitivity / phase.mechanism.noise_scale
            assert gaussian_delta(budget.epsilon, ratio) < budget.delta
            assert 1 / ratio == pytest.approx(plan.release().event.noise_multiplier)


def test_errata_e8():
    """The printed bound of Corollary 4.9 is below a part of what it is to bound.

    Specification, section 6: n = 1e6, d = 20, eps = 0.1, delta = 1e-10, mu_y = 3e-3, L = D = 1.
    """
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
    """Specification 2.7: with Lambda in place of the block bound, and r = 0.01."""
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


def test_gain_at_epsilon_4():
    """There the printed noise has no proof (eps/2 >= 1): by its formula."""
    printed = 8 * math.sqrt(2 * math.log(5 / 1e-5)) / 4
    assert printed / (2.02 * gaussian_noise_multiplier(4.0, 1e-5)) == pytest.approx(4.7, abs=0.05)


# ---------------------------------------------------------------------------------------------
# the planner

TABLE = SaddleConstants(10**5, *(BlockConstants(20, 1.0, 2**-0.5, radius=1.0) for _ in range(2)))
TABLE_BUDGET = PrivacyBudget(1.0, 1e-5**1.1)


@pytest.mark.parametrize(
    ("cross", "known"),
    [(0.0, 0.029), (1.0, 0.041)],
    ids=["weak", "primal"],
)
def test_numbers_of_the_specification(cross, known):
    """Specification 3.5, last line: L_x = L_y = 1/sqrt(2), D = 1, delta = n^-1.1."""
    constants = changed(TABLE, coupling=cross)
    plan = plan_phased_saddle_output_perturbation(constants, TABLE_BUDGET)
    paper = plan_phased_saddle_output_perturbation(constants, TABLE_BUDGET, calibration="paper")
    bound = SaddleUtilityBound(constants)
    assert bound(plan.summaries) < 0.1 * bound(paper.summaries)
    assert bound(plan.summaries) <= 1.02 * known


def grid_bound(constants, budget, sizes, growth, first, nu):
    """The specification's formula for many (mu_1, nu) at once, written down a second time."""
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


@pytest.mark.mostly("slow", 5)
@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("budget", [TABLE_BUDGET, PrivacyBudget(0.1, 1e-6), PrivacyBudget(1.0)])
@pytest.mark.parametrize(
    "changes",
    [
        {}, {"coupling": 1.0}, {"n_records": 300, "coupling": 0.3, "y_radius": 0.2},
        {"x_lipschitz": 30.0, "y_radius": 1e-3, "n_records": 10**6, "x_center_norm": 0.5},
        {"y_lipschitz": 30.0, "coupling": 30.0, "x_radius": 50.0},
    ],
    ids=str,
)  # fmt: skip
def test_the_plan_is_the_best_of_a_grid(changes, budget, mirrored):
    constants = changed(TABLE, **changes)
    plan = plan_phased_saddle_output_perturbation(
        constants.exchanged() if mirrored else constants,
        budget,
        release="y" if mirrored else "x",
    )
    found = SaddleUtilityBound(constants)(plan.summaries)
    n, first, nu = constants.n_records, plan.regularisation[0], plan.other_regularisation
    growth = plan.regularisation[1] / first if len(plan.phases) > 1 else 1.0
    again = grid_bound(constants, budget, plan.block_sizes, growth, first, nu)
    assert found == pytest.approx(again, rel=1e-6)
    grid = np.exp(np.linspace(-9, 9, 90))
    alphas = constants.x.lipschitz / constants.x.radius / math.sqrt(n) * grid
    others = constants.y.lipschitz / constants.y.radius / math.sqrt(n) * grid
    best = min(
        grid_bound(constants, budget, sizes, growth, alphas[:, None], others).min()
        for growth, decrease in (*GROWING_SCHEDULES, (8.0, 1.0), (64.0, 2.0))
        for sizes in (block_sizes(n, count, decrease) for count in range(1, 9))
        if sizes[-1] >= 1
    )
    assert found <= 1.01 * best


def test_utility_bound_holds_on_average():
    """Records drawn from a known distribution: the population's primal risk."""
    rng = np.random.default_rng(0)
    n, A = 2000, np.array([[0.3, -0.1], [0.0, 0.2], [0.1, 0.1]])
    b, c = np.array([0.3, -0.2, 0.1]), np.array([0.1, -0.3])

    def primal(x):  # max over the ball |y| <= 1 of <x, A y> + <b, x> - <c, y>
        return float(b @ x + np.linalg.norm(A.T @ x - c))

    excess = []
    radii = Ball(1.0), Ball(1.0)
    exact = solve_certified(
        BilinearProblem(A[None], b[None], c[None], (1.0, 1.0, 1.0), *radii, 1e-6, 1e-6), 1e-5
    )
    for _ in range(8):
        # signs keep the norms at their bounds; the means are A, b and c
        offsets_x = b + 0.5 * rng.choice([-1.0, 1.0], (n, 3)) / math.sqrt(3)
        offsets_y = c + 0.5 * rng.choice([-1.0, 1.0], (n, 2)) / math.sqrt(2)
        problem = BilinearProblem(
            *(np.tile(A, (n, 1, 1)), offsets_x, offsets_y, (0.5, 1.0, 1.0), *radii, 1.0, 1.0)
        )
        result = run(problem, noise=NoiseSource(rng.bytes))
        excess.append(primal(result.x) - primal(exact.x))
    bound = SaddleUtilityBound(problem.constants)(result.plan.summaries)
    assert -1e-4 <= np.mean(excess) <= bound < 2.0


def test_the_number_of_phases_can_be_given():
    for count in (1, 2, 7):
        plan = plan_phased_saddle_output_perturbation(UNIT, BUDGET, n_phases=count)
        assert len(plan.phases) == len(plan.regularisation) == len(plan.block_sizes) == count
        assert sum(plan.block_sizes) == 1000
        json.dumps(plan.to_dict())
    for release in ("x", "y", "joint"):
        plan = plan_phased_saddle_output_perturbation(UNIT, BUDGET, release=release, n_phases=3)
        assert plan.to_dict()["noise_scales"] == list(plan.noise_scales)
        assert plan.release().n_records == 1000
        assert plan.release("weights").name == "weights"


def test_another_bound_gives_another_plan():
    @dataclasses.dataclass(frozen=True)
    class FewRecords:
        """Likes last phases that are small."""

        def __call__(self, phases):
            return phases[-1].n_records + abs(math.log(phases[0].regularisation))

    plan = plan_phased_saddle_output_perturbation(UNIT, BUDGET, utility=FewRecords())
    assert plan.block_sizes[-1] == 1
    assert plan.regularisation[0] == pytest.approx(1.0, rel=0.1)


def test_plan_is_public():
    """Two data sets, one plan; and it is made before a record is looked at."""
    problems = [problem_of(seed=1), problem_of(seed=2)]
    problems[0].matrices = problems[0].mean_matrix = problems[0].mean_x = None
    plans = [plan_of(problem) for problem in problems]
    assert plans[0] == plans[1] == run(problems[1]).plan
    groups = [group_problem(seed=1, clipped=True), group_problem(seed=2, clipped=True)]
    assert run(groups[0]).plan == run(groups[1]).plan


# ---------------------------------------------------------------------------------------------
# what the phases spend


@pytest.mark.parametrize("release", ["x", "y", "joint"])
@pytest.mark.parametrize("share", [1.0, 0.25])
@pytest.mark.parametrize("budget", [BUDGET, PrivacyBudget(0.5)])
def test_every_phase_has_the_whole_share(budget, share, release):
    plan = plan_phased_saddle_output_perturbation(
        UNIT, budget, release=release, share=share, n_phases=3
    )
    blocks = [release] * 3 if release != "joint" else ["x", "x", "both"]
    assert [phase.released for phase in plan.phases] == blocks
    events = {phase.release().event for phase in plan.phases}
    assert events == {plan.release().event}
    for phase in plan.phases:
        ratio = phase.mechanism.sensitivity / phase.mechanism.noise_scale
        if budget.is_pure:
            assert ratio == pytest.approx(share * budget.epsilon)
        else:
            assert gaussian_delta(0.5, ratio / math.sqrt(share)) == pytest.approx(1e-5, rel=1e-6)
        c = phase.constants
        sizes = {"x": c.sensitivity_x, "y": c.sensitivity_y}
        exact = sizes.get(phase.released, c.sensitivity)
        assert exact < phase.mechanism.sensitivity <= (1 + 1.1 * ACCURACY_FRACTION) * exact


def test_joint_noise_is_that_of_the_norm_of_the_moduli():
    """sigma_x = c Delta_M / sqrt(mu_x), sigma_y with mu_y; review Z-5."""
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


@pytest.mark.parametrize("release", ["x", "y", "joint"])
@pytest.mark.parametrize("budget", [BUDGET, PrivacyBudget(0.5)])
def test_injected_noise(budget, release):
    """Records of zeros: each solution is its centre, and a step is the noise of one draw."""
    n, dims = 90, (4, 3)
    shapes = (n, *dims), (n, 4), (n, 3)
    problem = BilinearProblem(
        *(np.zeros(shape) for shape in shapes), (0.0, 1.0, 1.0), Ball(1e4), Ball(1e4), 1.0, 1.0
    )
    draws = np.random.default_rng(5).standard_normal((3, 7))
    noise = Scripted(draws)
    noise.gamma = lambda shape: 2.0
    noise.direction = lambda dimension: noise.standard_normal(dimension) / 10
    result = run(problem, budget, release=release, n_phases=3, noise=noise)
    own = 3 if release == "y" else 4
    assert noise.sizes == ([4, 4, 7] if release == "joint" else [own] * 3)
    factor = 0.2 if budget.is_pure else 1.0
    previous = np.zeros(own)
    for point, scale, draw in zip(result.path, result.plan.noise_scales, draws, strict=True):
        step = factor * scale * draw[:own]
        np.testing.assert_allclose(point - previous, step, rtol=1e-9, atol=1e-9 * scale)
        previous = point
    assert (result.x is None) == (release == "y") and (result.y is None) == (release == "x")
    if release == "joint":
        scale = result.plan.phases[-1].noise_scale_y
        np.testing.assert_allclose(result.y, factor * scale * draws[2, 4:], rtol=1e-9)
    assert result.path[-1] is (result.y if release == "y" else result.x)


@pytest.mark.mostly("slow", 11)
@pytest.mark.parametrize("calibration", ["analytic", "paper"])
@pytest.mark.parametrize("release", ["x", "y", "joint"])
@pytest.mark.parametrize(
    "make",
    [
        problem_of,
        lambda: problem_of(own=(0.0, 0.3)),
        lambda: problem_of(own=(0.7, 0.1 + 0.2), domains=(Ball(0.3), Ball(4.0))),
        lambda: problem_of(center_x=np.array([3.0, 0, 0]), center_y=np.array([0.5, -2.0])),
        group_problem,
        lambda: group_problem(clipped=True),
        lambda: group_problem(public=True),
        lambda: group_problem(clipped=True, public=True, block_size=256),
        lambda: group_problem(loss=HalfSquaredLoss(1.0), block_size=256),
    ],
)
def test_no_block_has_larger_constants_than_its_plan(make, release, calibration):
    """Constants are put together twice: for the plan, and by the problem that is solved."""
    if release == "joint" and calibration == "paper":
        return
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


# ---------------------------------------------------------------------------------------------
# what one record can change


@pytest.mark.parametrize("release", ["x", "y"])
def test_changing_one_record_changes_the_input_of_one_phase(release):
    """Blocks are disjoint, and only the released point goes from one phase to the next."""
    problem = problem_of()
    parts = [np.array(part) for part in (problem.matrices, problem.offsets_x, problem.offsets_y)]
    other = [part.copy() for part in parts]
    for part in other:
        part[17] = -part[17]
    seen = []

    def spy(given, accuracy):
        rows = [part.reshape(given.n_records, -1) for part in (given.matrices, given.offsets_x)]
        seen[-1].append((np.column_stack([*rows, given.offsets_y]), given))
        point = solve_certified(given, accuracy)
        return point.x, point.y

    results = []
    for data in (parts, other):
        seen.append([])
        changed = BilinearProblem(*data, (0.5, 1.0, 1.0), Ball(2.0), Simplex(2), 1.0, 1.0)
        results.append(run(changed, release=release, n_phases=4, solver=spying(spy), alpha=0.1))
    plan = results[0].plan
    differ = [not np.array_equal(a[0], b[0]) for a, b in zip(*seen, strict=True)]
    assert sum(differ) == 1
    assert differ[assignment_of(problem, plan)[17]]
    everything = np.vstack([rows for rows, _ in seen[0]])
    assert len(np.unique(everything, axis=0)) == len(everything) <= 600
    # centres: the released block of the phase before, and a fixed one for the other
    start = np.zeros(3) if release == "x" else np.array([0.5, 0.5])
    for run_seen, result in zip(seen, results, strict=True):
        for (_, given), alpha, before in zip(
            run_seen, plan.regularisation, (start, *result.path[:-1]), strict=True
        ):
            own, fixed = given.center_x, given.center_y
            own_alpha, other_alpha = given.alpha_x, given.alpha_y
            if release == "y":
                own, fixed, own_alpha, other_alpha = fixed, own, other_alpha, own_alpha
            np.testing.assert_array_equal(own, before * (alpha / (0.1 + alpha)))
            assert own_alpha == 0.1 + alpha and other_alpha == plan.other_regularisation
            assert not fixed.any()


#: What the solvers below have seen; they are copied for each phase, so it cannot be in them.
LOG = []


class Gambler(SaddleSolver):
    """Uses as many random numbers as the records tell it, and stores what it has seen."""

    def __init__(self):
        self.memory = None

    def _solve(self, problem, accuracy, start, rng):
        LOG.append((rng.random(), self.memory))
        self.memory = problem.mean_x[0]
        rng.random(int(1000 * abs(self.memory)))
        return start


def test_random_numbers_and_memory_of_a_phase_stay_there():
    """Review W8: neither random numbers used nor a state of a solver reach the next phase."""
    logs, solver = [], Gambler()
    for seed in (0, 1):
        LOG.clear()
        run(problem_of(seed=seed), solver=solver, n_phases=4)
        logs.append(list(LOG))
    assert len(logs[0]) == 4
    assert logs[0] == logs[1]
    assert solver.memory is None
    assert [memory for _, memory in logs[0]] == [None] * 4
    assert len({number for number, _ in logs[0]}) == 4


class Peeping(Gambler):
    """Stores something before it is copied."""

    def check_supports(self, problem):
        self.memory = problem.n_records


def test_no_method_of_a_solver_carries_anything_over():
    LOG.clear()
    solver = Peeping()
    run(problem_of(), solver=solver, n_phases=3)
    assert solver.memory is None


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


@pytest.mark.parametrize("k", [0, 1, 2])
@pytest.mark.parametrize("release", ["x", "y", "joint"])
@pytest.mark.parametrize("budget", [BUDGET, PrivacyBudget(0.5)])
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


@pytest.mark.mostly("search", 1)
@pytest.mark.parametrize("release", ["x", "y", "joint"])
@pytest.mark.parametrize("kind", ["bilinear", "own", "groups", "clipped"])
def test_sensitivity_search(release, kind):
    """Random and adverse neighbours in small blocks, constraints active or not."""
    worst, rng = 0.0, np.random.default_rng(0)
    for trial in range(12):
        n = int(rng.integers(6, 20))
        problems = []
        for end in range(2):
            if kind in ("bilinear", "own"):
                own = (0.3, 0.2) if kind == "own" else None
                changed = problem_of(n, trial, own=own, domains=(Ball(2.0), Ball(1.0)))
                parts = [np.array(p) for p in (changed.matrices, changed.offsets_x)]
                parts.append(np.array(changed.offsets_y))
                parts[0][0] = 0.25 * (1 - 2 * end)
                parts[1][0] = 1 - 2 * end
                parts[2][0] = 2 * end - 1
                arguments = (*parts, (0.5, 1.0, 1.0), Ball(2.0), Ball(1.0), 1.0, 1.0)
                maker = BilinearProblem if own is None else Curved
                problems.append(maker(*arguments, **({} if own is None else {"own": own})))
            else:
                base = group_problem(n, trial, clipped=kind == "clipped")
                X, targets = np.array(base.records.matrix), np.array(base.records.targets)
                groups = np.array(base.records.groups)
                X[0], targets[0], groups[0] = ((1, 0, 0), 0.0, 0) if end else ((1, 0, 0), 1.0, 1)
                problems.append(
                    MaxGroupLossProblem(
                        *(Records(X, 1.0, targets=targets, groups=groups), base.loss, base.weights),
                        *(2.0, 1.0, 1.0),
                    )
                )
        count = int(rng.integers(1, 4))
        results = [run(p, release=release, n_phases=count, seed=trial) for p in problems]
        plan = results[0].plan
        assert results[1].plan == plan
        k = int(assignment_of(problems[0], plan, trial)[0])
        for j in range(k):
            np.testing.assert_array_equal(results[0].path[j], results[1].path[j])
        phase = plan.phases[k]
        moved = float(np.linalg.norm(results[0].path[k] - results[1].path[k]))
        if phase.released == "both":
            away = float(np.linalg.norm(results[0].y - results[1].y))
            moved = phase.constants.norm(moved, away)
        worst = max(worst, moved / phase.mechanism.sensitivity)
    assert 0.02 < worst <= 1.0


@pytest.mark.parametrize("mu", [(0.1, 3.0), (2.0, 2.0), (50.0, 0.2)])
def test_movement_of_y_with_the_centre_of_x(mu):
    """Lemma 8 (b): at most ``mu_x / (2 sqrt(mu_x mu_y))`` of that of the centre, and attained."""
    root, ratios = math.sqrt(mu[0] * mu[1]), []
    for tilt in (0.01, 0.3, 1.0, 4.0):
        ends = []
        for center in (1.0, -1.0):
            problem = BilinearProblem(
                *(np.full((2, 1, 1), tilt * root), np.zeros((2, 1)), np.zeros((2, 1))),
                *((10 * root, 0.0, 0.0), Ball(20.0), Ball(20.0), *mu, np.array([center])),
            )
            ends.append(solve_certified(problem, 1e-8).y[0])
        ratios.append(abs(ends[0] - ends[1]) / 2 / (0.5 * mu[0] / root))
    assert max(ratios) == pytest.approx(1.0, abs=1e-6)
    assert max(ratios) == ratios[2]


# ---------------------------------------------------------------------------------------------
# own moduli, penalty, results


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


@pytest.mark.parametrize("own", [1e-12, 1e-4, 3e-3])
def test_a_little_own_concavity_does_no_harm(own):
    constants = changed(TABLE, coupling=0.3)
    plans = [
        plan_phased_saddle_output_perturbation(
            constants, TABLE_BUDGET, record_moduli=(0.0, concavity)
        )
        for concavity in (0.0, own)
    ]
    bounds = [SaddleUtilityBound(constants)(plan.summaries) for plan in plans]
    assert bounds[1] <= 1.001 * bounds[0]


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
    bound = SaddleUtilityBound(problem.constants)
    assert primal(exact.x) - 1e-4 <= primal(result.x)
    assert primal(result.x) <= primal(exact.x) + min(0.02, bound(result.plan.summaries))
    assert np.linalg.norm(result.x) <= 1.0
    if release == "joint":
        assert result.y.min() >= 0 and result.y.sum() == pytest.approx(1)


@pytest.mark.parametrize("public", [False, True])
def test_a_large_budget_gives_the_solution_of_groups(public):
    problem = group_problem(3000, public=public)
    result = run(
        problem, PrivacyBudget(1e7, 1e-5), utility=Weakest(1e-3), noise=NoiseSource(),
        strata=problem.records.groups if public else None,
    )  # fmt: skip
    assert result.plan.other_regularisation == pytest.approx(1e-3, rel=0.1)
    exact = solve_certified(problem.with_regularisers(1e-3, 1e-3), 1e-4)
    worst = problem.group_losses(exact.x).max()
    assert problem.group_losses(result.x).max() == pytest.approx(worst, abs=0.01)
    phased = run(
        problem, PrivacyBudget(1e7, 1e-5), noise=NoiseSource(), n_phases=3,
        strata=problem.records.groups if public else None,
    )  # fmt: skip
    assert problem.group_losses(phased.x).max() <= worst + 0.3
    poor = run(problem, PrivacyBudget(1e-3, 1e-6), release="joint", noise=NoiseSource())
    assert np.linalg.norm(poor.x) <= 2.0 and poor.y.sum() == pytest.approx(1)


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


# ---------------------------------------------------------------------------------------------
# refusals


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"release": "both"}, "release"), ({"calibration": "tight"}, "calibration"),
        ({"alpha": -1.0}, "alpha"), ({"alpha": math.nan}, "alpha"), ({"alpha": math.inf}, "alpha"),
        ({"share": 1.5}, "share"), ({"n_phases": 2000}, "n_phases"),
        ({"constants": changed(UNIT, x_radius=math.inf)}, "bounded"),
        ({"constants": changed(UNIT, y_radius=math.inf)}, "bounded"),
        ({"calibration": "paper", "release": "joint"}, "one block"),
        ({"calibration": "paper", "share": 0.5}, "shares of the budget"),
        ({"calibration": "paper", "budget": PrivacyBudget(2.0, 1e-5)}, "epsilon"),
        (
            {
                **{"calibration": "paper", "budget": PrivacyBudget(1.0, 1e-5)},
                "record_moduli": (0.0, 0.2),
            },
            "epsilon",
        ),
    ],
)  # fmt: skip
def test_what_plans_refuse(changes, message):
    arguments = {"constants": UNIT, "budget": BUDGET} | changes
    with pytest.raises(ValueError, match=message):
        plan_phased_saddle_output_perturbation(
            arguments.pop("constants"), arguments.pop("budget"), **arguments
        )


@pytest.mark.parametrize(
    "changes",
    [
        {"calibration": "paper", "budget": PrivacyBudget(0.5)}, {"share": 0.0}, {"n_phases": 0},
        {"n_phases": 300}, {"n_phases": 2.5}, {"record_moduli": (0.0, -1.0)},
    ],
    ids=str,
)  # fmt: skip
def test_what_plans_should_refuse_in_words(changes):
    arguments = {"constants": UNIT, "budget": BUDGET} | changes
    with pytest.raises(ValueError, match=r"delta|share|n_phases|record_moduli"):
        plan_phased_saddle_output_perturbation(
            arguments.pop("constants"), arguments.pop("budget"), **arguments
        )


def test_what_the_algorithm_refuses():
    with pytest.raises(ValueError, match="bounded"):
        run(problem_of(domains=(WholeSpace(), Ball(1.0)), bounds=(0.0, 1.0, 1.0)))
    with pytest.raises(ValueError, match="solver"):
        run(problem_of(), solver="newton")


@pytest.mark.parametrize("length", [500, 700])
def test_strata_of_another_length(length):
    with pytest.raises(ValueError, match="strata"):
        run(problem_of(), strata=np.zeros(length))


class Uncopyable(SaddleSolver):
    """Cannot be copied, and remembers what it has seen."""

    def __deepcopy__(self, memo):
        return self

    def _solve(self, problem, accuracy, start, rng):
        return start


def test_solvers_that_cannot_be_copied_are_refused():
    rng = np.random.default_rng(0)
    parts = rng.normal(size=(50, 2, 3)), rng.normal(size=(50, 2)), rng.normal(size=(50, 3))
    problem = BilinearProblem(*parts, (1.0, 1.0, 1.0), Ball(1.0), Ball(1.0), 1.0, 1.0)
    shared = {"budget": PrivacyBudget(1.0, 1e-6), "run": Run(Uncopyable())}
    with pytest.raises(ValueError, match="cannot be copied"):
        phased_saddle_output_perturbation(problem, n_phases=2, **shared)
    # one phase has nothing to carry over
    assert len(phased_saddle_output_perturbation(problem, n_phases=1, **shared).plan.phases) == 1


def test_functions_with_memory_are_refused():
    kept = []

    def remembers(problem, accuracy):
        kept.append(problem.mean_x[0])
        return problem.start()

    for solver in (remembers, Catalyst(remembers), BestResponse(lambda p, a: kept.append(p))):
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

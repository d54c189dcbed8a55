"""Phased output perturbation: blocks, sensitivities, noise, the planner."""

import json
import math

import numpy as np
import pytest
from plain_noise import seeded
from scipy.optimize import minimize

from skdp.algorithms import Run
from skdp.algorithms.output.phased import phased_candidate, plan_phased_output_perturbation
from skdp.algorithms.output.published import zhang_minimisation_noise, zhang_schedule
from skdp.linear_model import DPRidge
from skdp.privacy import PrivacyBudget
from skdp.privacy.events import Neighbouring
from skdp.problems import (
    AbsoluteLoss,
    AdversarialRisk,
    Attack,
    Ball,
    Design,
    EmpiricalRisk,
    FiniteSumProblem,
    HalfSquaredLoss,
    HingeLoss,
    LogisticLoss,
    Objective,
    QuantileLoss,
    Records,
    SoftmaxLoss,
    TiltedRisk,
)
from skdp.problems.constants import generalised_linear_constants
from skdp.solvers import SOLVERS, Newton, resolve_solver
from skdp.solvers.copying import require_copyable

LARGE = PrivacyBudget(20.0, 1e-6)
LOSSES = {"logistic": LogisticLoss(), "softmax": SoftmaxLoss(3), "squared": HalfSquaredLoss(1.0)}


def plan_of(loss="logistic", *, n=1000, width=4, epsilon=1.0, delta=1e-6, radius=2.0, **kwargs):
    design, calibration = Design(1.0, width, n), kwargs.pop("calibration", "analytic")
    options = {"shrinking": kwargs.pop("shrinking", False)}
    objective = Objective(EmpiricalRisk(LOSSES[loss]), design, coef_norm=radius, **kwargs)
    budget = PrivacyBudget(epsilon, delta)
    return plan_phased_output_perturbation(objective, budget, calibration, **options)


def records(loss, n, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) / np.sqrt(d)
    if loss == "squared":
        return X, np.clip(X[:, 0] + 0.1 * rng.standard_normal(n), -1, 1)
    classes = 3 if loss == "softmax" else 2
    targets = np.digitize(X[:, 0] + 0.3 * rng.standard_normal(n), [-0.2, 0.2][: classes - 1])
    return X, targets.astype(int if loss == "softmax" else float)


def solved(data, run=None, loss="squared", budget=LARGE, radius=1.0, **options):
    """Phases on records with targets."""
    risk = EmpiricalRisk(LOSSES[loss])
    return planned(data, risk, budget, radius, **options).run(data, run or Run())


def planned(data, risk, budget, radius, calibration="analytic", **options):
    design = Design.of(data)
    objective = Objective(risk, design, coef_norm=radius, neighbouring=design.replaced, **options)
    return plan_phased_output_perturbation(objective, budget, calibration)


@pytest.mark.parametrize("calibration", ["analytic", "paper"])
@pytest.mark.parametrize("loss", list(LOSSES))
def test_plans(loss, calibration):
    """Sizes add up; every phase has the kernel's sensitivity and the whole budget."""
    for n in (1, 2, 100, 10_000):
        plan = plan_of(loss, n=n, epsilon=0.5, calibration=calibration, alpha=0.01)
        assert n - len(plan.phases) <= sum(plan.block_sizes) <= n
        assert min(plan.block_sizes) >= 1
        for phase, alpha in zip(plan.phases, plan.regularisation, strict=True):
            constants = phase.constants
            assert constants.strong_convexity == pytest.approx(0.01 + alpha)
            assert constants.radius <= 2.0
            moved = constants.gradient_diameter / (constants.strong_convexity * constants.n_records)
            assert phase.exact_sensitivity >= min(moved, 2 * constants.radius)
            floor = min(phase.exact_sensitivity + 2 * phase.accuracy, 2 * constants.radius)
            assert phase.mechanism.sensitivity >= floor
            assert phase.mechanism.noise_multiplier == pytest.approx(
                plan.releases[0].event.noise_multiplier, rel=1e-12
            )
        json.dumps(plan.to_dict())


def test_the_plan_is_that_of_the_bound_that_is_compared():
    objective = Objective(EmpiricalRisk(LogisticLoss()), Design(1.0, 4, 10**5), coef_norm=2.0)
    bound, make = phased_candidate(objective, PrivacyBudget(1.0))
    plan = make()
    assert len(plan.phases) > 1
    assert plan.bound() == pytest.approx(bound, rel=1e-6)


def test_printed_schedule_and_noise():
    """Alg. 2: K = log2(n) equal blocks, mu_k = mu 2^k for k = 1..K, printed sigma_k."""
    budget = PrivacyBudget(0.5, 1e-5)
    plan = plan_of(n=1000, width=10, epsilon=0.5, delta=1e-5, radius=1.0, calibration="paper")
    lipschitz = LogisticLoss().lipschitz(1.0, 1.0)
    sizes, moduli = zhang_schedule(budget, "alg2", lipschitz, 1.0, 1000, 10)
    assert plan.block_sizes == tuple(sizes) == (100,) * 10
    for k, phase in enumerate(plan.phases, start=1):
        alpha = 0.5 * moduli[0] * 2**k
        assert plan.regularisation[k - 1] == pytest.approx(alpha)
        sigma = zhang_minimisation_noise(budget, lipschitz, alpha, 100)
        assert phase.mechanism.noise_scale == pytest.approx(sigma, rel=1e-6)
    # an example for L = 1 scales with L: mu_1 = 2 mu and sigma is free of L / mu
    assert 0.5 * moduli[0] / lipschitz == pytest.approx(3.121619, rel=1e-6)
    assert plan.phases[0].mechanism.noise_scale == pytest.approx(0.0638877, rel=1e-5)


def test_shrinking_blocks_remove_the_logarithm():
    """Section 3.2, in units of ``L D / sqrt(n)``: 8 / sqrt(6), else more than the phases."""
    lipschitz, radius = LogisticLoss().lipschitz(1.0, 1.0), 1.0

    def bound(plan):
        mus, sizes = np.array(plan.regularisation), np.array(plan.block_sizes)
        squares = 10 * np.array(plan.noise_scales) ** 2
        total = 0.5 * mus[0] * radius**2 + (2.0 * lipschitz**2 / (mus * sizes)).sum()
        total += 0.5 * (mus[1:] * squares[:-1]).sum() + lipschitz * math.sqrt(squares[-1])
        return total / lipschitz * math.sqrt(sizes.sum())

    shared = {"width": 10, "epsilon": 0.9, "delta": 1e-5, "radius": radius, "calibration": "paper"}
    for n in (10**5, 10**6):  # with more, the last phases are at the end of precision
        plan = plan_of(n=n, shrinking=True, **shared)
        count = n.bit_length() - 1
        assert len(plan.phases) == count and sum(plan.block_sizes) == n
        assert plan.block_sizes[1] == pytest.approx(n / 4, rel=1e-3)
        mu = lipschitz * math.sqrt(1 / (6 * n) + 320 * math.log(2.5e5) / (0.9 * n) ** 2)
        assert plan.regularisation == pytest.approx([mu * 8.0**k for k in range(1, count + 1)])
        phases = zip(plan.regularisation, plan.block_sizes, plan.phases, strict=True)
        for alpha, size, phase in list(phases)[:8]:
            sigma = zhang_minimisation_noise(PrivacyBudget(0.9, 1e-5), lipschitz, alpha, size)
            assert phase.mechanism.noise_scale == pytest.approx(sigma, rel=1e-6)
        private = 1.0 + 192 * 10 * math.log(2.5e5) / (0.81 * n)
        assert bound(plan) == pytest.approx(8 / math.sqrt(6) * math.sqrt(private), rel=0.01)
    for n in (10**7, 10**8):
        assert bound(plan_of(n=n, **shared)) > math.log2(n)


@pytest.mark.parametrize("loss", list(LOSSES))
def test_the_bound_holds_on_average(loss):
    X, targets = records(loss, 4000)
    data = Records(X, 1.0, targets=targets)
    free = FiniteSumProblem(data, LOSSES[loss], 1e-6, Ball(3.0))
    best = free.value(Newton().solve(free, 1e-3).point)
    results = [
        solved(data, Run(noise=seeded(s)), loss, PrivacyBudget(1.0, 1e-6), 3.0) for s in range(10)
    ]
    excess = [free.value(result.point) - best for result in results]
    assert -1e-6 <= np.mean(excess) <= results[0].plan.bound()


def test_only_own_solvers_by_name_get_views_of_the_records(monkeypatch):
    """Views save the copies of blocks, and lead to the records of other phases."""
    X, targets = records("squared", 40_000)
    rows, sizes = Records(X, 1.0).with_targets(targets), []

    class Spy(Newton):
        def _solve(self, problem, accuracy, start, rng):
            sizes.append((len(problem.records.matrix), problem.n_records))
            return super()._solve(problem, accuracy, start, rng)

    class Disguised(Spy):
        __module__ = "skdp.solvers.newton"

    def point(solver):
        return solved(rows, Run(solver, np.random.default_rng(0), seeded(1))).point

    expected = point("newton")
    monkeypatch.setitem(SOLVERS, "spy", Spy)
    monkeypatch.setitem(SOLVERS, "newton", Disguised)
    for solver in (Spy(), "spy", Disguised(), "newton"):
        np.testing.assert_allclose(point(solver), expected, rtol=1e-9)
    assert len(sizes) >= 8
    assert all(stored == known < 40_000 for stored, known in sizes)


@pytest.mark.parametrize("loss", list(LOSSES))
def test_sensitivity_search_around_any_center(loss):
    """Neighbours of a phase's problem, with a center on or in the ball and it active or not."""
    worst = 0.0
    rng = np.random.default_rng(0)
    phi = LOSSES[loss]
    for _ in range(40):
        n, width = int(rng.integers(1, 5)), 2
        radius, alpha = 10 ** rng.uniform(-1, 1), 10 ** rng.uniform(-2, 2)
        dimension = phi.n_outputs * width
        center = rng.standard_normal(dimension)
        center *= radius * min(1.0, rng.uniform(0, 1.5)) / np.linalg.norm(center)
        X = rng.standard_normal((n, width))
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        targets = rng.integers(0, 3 if loss == "softmax" else 2, n)
        targets = 2.0 * targets - 1.0 if loss == "squared" else targets
        targets = targets.astype(int if loss == "softmax" else float)
        points = []
        direction = center / np.linalg.norm(center)
        for row, target in ((direction[:width], targets[0]), (-X[0], targets[-1])):
            X[0] = row / max(np.linalg.norm(row), 1e-12)
            targets[0] = target
            problem = FiniteSumProblem(
                Records(X.copy(), 1.0, targets=targets.copy()),
                phi,
                alpha,
                Ball(radius),
                center=center,
            )
            points.append(Newton().solve(problem, 1e-7 * radius).point)
        design = Design(1.0, width, n)
        constants = generalised_linear_constants(phi, design, alpha, radius, radius)
        bound = constants.argmin_sensitivity(Neighbouring.REPLACE_ONE)
        worst = max(worst, np.linalg.norm(points[0] - points[1]) / (bound + 2e-7 * radius))
    assert 0.3 < worst <= 1.0


def test_only_means_are_split_into_blocks():
    """In a block a record of a tilted risk weighs more than in all: the plan would be wrong."""
    X, targets = records("squared", 100)
    for risk in (
        TiltedRisk(HalfSquaredLoss(1.0), 0.5),
        AdversarialRisk(HalfSquaredLoss(1.0), Attack(2, 0.1, 0.0)),
    ):
        with pytest.raises(ValueError, match="no mean"):
            planned(Records(X, 1.0, targets=targets), risk, PrivacyBudget(1.0, 1e-6), 1.0)


@pytest.mark.parametrize("loss", [HingeLoss(), AbsoluteLoss(1.0), QuantileLoss(1.0, 0.2)], ids=str)
def test_kinks_are_smoothed_by_the_noise_of_the_last_phase(loss):
    design = Design(1.0, 5, 20_000)
    objective = Objective(EmpiricalRisk(loss), design, coef_norm=3.0)
    plan = plan_phased_output_perturbation(objective, PrivacyBudget(1.0, 1e-6))
    assert len(plan.phases) > 1 and plan.risk.is_smooth
    spread = plan.phases[-1].mechanism.noise_scale
    assert plan.risk.smoothing * loss.derivative_bound == pytest.approx(0.05 * spread, rel=0.2)


def newton_point(problem, accuracy):
    """A function of a module that refers to a class of another."""
    return Newton().solve(problem, accuracy).point


class Callable:
    """A callable object: deep copies have a memory of their own."""

    def __init__(self, function=None):
        self.kept, self.function = [], function

    def __call__(self, problem, accuracy):
        self.kept.append(problem.records.targets)
        return (self.function or newton_point)(problem, accuracy)


#: What the solvers below refer to; each of them defines `solve`.
SHARED = """
import functools
MEMORY, COUNT = {}, 0
keeps = (lambda kept: lambda problem, accuracy: kept.append(problem))([])
class Kept:
    kept = []
class Holds:
    def __init__(self, function): self.function = function
    def __call__(self, problem, accuracy): return self.function(problem, accuracy)
"""
WITH_MEMORY = {
    "closure": "solve = keeps",
    "variable of a closure": "def make():\n n = 0\n def solve(p, a):\n  nonlocal n\n  n += 1\n"
    " return solve\nsolve = make()",
    "global": "def solve(p, a): MEMORY[len(MEMORY)] = p",
    "assigned global": "def solve(p, a):\n global COUNT\n COUNT += 1",
    "itself": "def solve(p, a): solve.seen = p",
    "default": "def solve(p, a, kept=[]): kept.append(p)",
    "keyword": "def solve(p, a, *, kept=[]): kept.append(p)",
    "attribute": "def solve(p, a): solve.kept.append(p)\nsolve.kept = []",
    "name": "def solve(p, a): setattr(solve, 'seen', p)",
    "another function": "def solve(p, a): keeps(p, a)",
    "inner function": "def solve(p, a):\n def inner(): MEMORY[0] = p\n inner()",
    "class": "def solve(p, a): Kept.kept.append(p)",
    "object of a class": "Kept.__call__ = lambda self, p, a: self.kept.append(p)\nsolve = Kept()",
    "method": "solve = [].append",
    "cache": "solve = functools.lru_cache(lambda p, a: None)",
    "partial": "solve = functools.partial(keeps, accuracy=1e-6)",
    "keyword of a partial": "solve = functools.partial(lambda *args, f: f(*args), f=keeps)",
    "part of an object": "solve = Holds(keeps)",
    "dictionary of an object": "solve = Holds({'function': keeps})",
    "slot": "class Slotted:\n __slots__ = ('function',)\n __call__ = Holds.__call__\n"
    "solve = Slotted()\nsolve.function = keeps",
}


def with_memory(kind):
    """A solver of a user's module, and the names of that module."""
    module = {"__name__": "of_a_user"}
    exec(SHARED + WITH_MEMORY[kind], module)
    return module["solve"], module


def solve_in_phases(solver):
    X, targets = records("squared", 2000)
    return solved(Records(X, 1.0, targets=targets), Run(solver))


@pytest.mark.parametrize("kind", WITH_MEMORY)
def test_functions_with_memory_are_refused(kind):
    """Deep copies share functions: one block's records could be kept for the next phase."""
    solver, module = with_memory(kind)
    with pytest.raises(ValueError, match=r"cannot be copied|could keep something of one block"):
        solve_in_phases(solver)
    assert (module["MEMORY"], module["COUNT"], module["Kept"].kept) == ({}, 0, [])


def by_scipy(problem, accuracy):
    """Names of attributes are not taken for global variables."""
    start = np.zeros(problem.dimension)
    return minimize(problem.value, start, jac=problem.gradient, method="L-BFGS-B").x


def test_auto_takes_one_shot_where_phases_refuse_the_solver():
    """By the solver alone."""
    X, targets = records("squared", 20_000)
    shared = {"data_norm": 1.0, "target_range": (-1, 1), "random_state": 0}
    for kind in ("default", "class"):
        model = DPRidge(3.0, solver=with_memory(kind)[0], **shared).fit(X, targets)
        assert model.privacy_.method == "output"


def test_what_has_no_memory_is_accepted():
    threshold = 1e-3

    def with_numbers(problem, accuracy, factor=0.5):
        return newton_point(problem, min(threshold, factor * accuracy))

    instance = Callable()
    own = newton_point, with_numbers, instance.__call__, Callable(np.asarray)
    for solver in (*own, by_scipy, "lbfgs"):
        require_copyable(resolve_solver(solver))
    assert len(solve_in_phases(instance).path) > 1
    assert instance.kept == []


#: What the solvers below have seen; they are copied for each phase, so it cannot be in them.
LOG = []


class Gambler(Newton):
    """Uses as many random numbers as the records tell it, and keeps what it has seen."""

    memory = None

    def _solve(self, problem, accuracy, start, rng):
        LOG.append((rng.random(), self.memory))
        self.memory = float(problem.records.targets.mean())
        rng.random(int(1000 * abs(self.memory)))
        return super()._solve(problem, accuracy, start, rng)


class Witness(Newton):
    """Tells the regulariser of each phase."""

    def _solve(self, problem, accuracy, start, rng):
        LOG.append((problem.alpha, problem.center))
        return super()._solve(problem, accuracy, start, rng)


def run_of(solver, seed=0, **options):
    X, targets = records("squared", 20_000, seed=seed)
    LOG.clear()
    run = Run(solver, np.random.default_rng(0), seeded(1))
    return solved(Records(X, 1.0, targets=targets), run, **options)


def test_random_numbers_and_memory_of_a_phase_stay_there():
    """Neither how many were used nor a solver's state reaches the next phase."""
    logs = []
    for seed in (0, 1):
        result = run_of(Gambler(), seed)
        logs.append(list(LOG))
    assert len(logs[0]) == len(result.path) > 1
    assert logs[0] == logs[1]
    assert len({number for number, _ in logs[0]}) == len(logs[0])
    assert {memory for _, memory in logs[0]} == {None}


def test_a_phase_is_penalised_around_the_released_point_and_the_origin():
    """Both penalties are one: its center is ``mu / (alpha + mu)`` of the point before."""
    result = run_of(Witness(), alpha=1e-4)
    plan, before = result.plan, [np.zeros(4), *result.path]
    assert len(LOG) == len(result.path) > 1
    w = np.array([0.3, -0.2, 0.1, 0.5])
    for (alpha, center), mu, point in zip(LOG, plan.regularisation, before, strict=False):
        both = 1e-4 * w + mu * (w - point)
        np.testing.assert_allclose(alpha * (w - center), both, rtol=1e-12, atol=1e-12)
    assert plan.releases[0].n_records == sum(plan.block_sizes) == 20_000

"""Bilevel optimisation: accounting, the leak, errata, an audit of the outer noise."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import stats

from skdp.algorithms import (
    LocalizedGradientDescent,
    OutputPerturbation,
    PrivateSolver,
    dp_bilevel,
    plan_bilevel,
)
from skdp.algorithms.bilevel import private_hypergradient
from skdp.mechanisms import GaussianMechanism, NoiseSource, gaussian_noise_multiplier
from skdp.privacy import PrivacyBudget
from skdp.privacy.accountants import tightest_epsilon
from skdp.privacy.events import ComposedEvent, GaussianEvent
from skdp.privacy.gaussian_dp import gaussian_delta, gaussian_epsilon, gaussian_mu
from skdp.problems import (
    Ball,
    BilevelConstants,
    BilevelProblem,
    BoundedRows,
    DeclaredProblem,
    HalfSquaredLoss,
    PenaltyProblem,
)
from skdp.solvers import LBFGS

BUDGET = PrivacyBudget(1.0, 1e-6)


def seeded(seed):
    return NoiseSource(np.random.default_rng(seed).bytes)


class Leak(BilevelProblem):
    """Example 3.1: ``f = ||x + y||^2 / 2`` has no records, ``g = mean of ||y - xi_i||^2 / 2``.

    Bounded, ``||xi_i|| <= 1``, ``||x|| <= 2``.
    """

    domain_x, domain_y = Ball(2.0), Ball(2.0)
    disjoint, is_record_free = False, True

    def __init__(self, points):
        self.mean = points.mean(axis=0)
        self.n_train = self.n_val = len(points)
        self.dimension_x = self.dimension_y = points.shape[1]

    def lower(self, x):
        return self._problem(0.0, x)

    def penalised(self, x, lam):
        return self._problem(1.0 / lam, x)

    def _problem(self, u, x):
        def f(y):
            value = 0.5 * float(y @ y) - float(y @ self.mean) + 0.5 * u * float((y + x) @ (y + x))
            return value, y - self.mean + u * (y + x)

        return DeclaredProblem(
            f, dimension=len(x), lipschitz=3.0 + 4.0 * u, gradient_diameter=2.0,
            smoothness=1.0 + u, strong_convexity=1.0 + u, radius=2.0,
            n_records=self.n_train, mean_of_records=True,
        )  # fmt: skip

    def upper_gradient_x(self, x, y, batch=None):
        return x + y

    def lower_gradient_x(self, x, y, batch=None):
        return np.zeros_like(x)


class Replay(PrivateSolver):
    """Returns given points; for tests of what the update does with them."""

    def __init__(self, points):
        self.points = list(points)

    def event(self, multiplier):
        return GaussianEvent(multiplier)

    def sensitivity(self, constants):
        return 1.0

    def solve(self, problem, multiplier, solver_rng, noise):
        return self.points.pop(0), 0.0


class Remembering(OutputPerturbation):
    """Solves each of two problems once; for many runs at the same x."""

    def __init__(self):
        super().__init__()
        self.points, self.count = {}, 0

    def solve(self, problem, multiplier, solver_rng, noise):
        which, self.count = self.count % 2, self.count + 1
        if which not in self.points:
            self.points[which] = super().solve(problem, 1e-12, solver_rng, noise)[0]
        mechanism = GaussianMechanism(self.sensitivity(problem.constants), multiplier)
        return mechanism.release(self.points[which], noise), mechanism.noise_scale**2


# -----------------------------------------------------------------------------------------------
# the leak


def test_leak_closed_forms():
    """Specification, section 2 (a): a hypergradient at 0 is the mean of the records."""
    rng = np.random.default_rng(0)
    points = rng.uniform(-0.5, 0.5, size=(7, 3))
    problem, lam = Leak(points), 5.0
    for x in (np.zeros(3), rng.normal(size=3) * 0.3):
        m = points.mean(axis=0)
        y, y_lam = (
            LBFGS().solve(p, 1e-9).point for p in (problem.lower(x), problem.penalised(x, lam))
        )
        np.testing.assert_allclose(y, m, atol=1e-8)
        np.testing.assert_allclose(y_lam, (lam * m - x) / (1 + lam), atol=1e-8)
        gradient = problem.hypergradient(x, y, y_lam, lam)
        np.testing.assert_allclose(gradient, lam / (1 + lam) * (x + m), atol=1e-8)


def test_leak_is_covered_by_the_inner_noise():
    """(c): the mean moves by 2 / n, the noise is calibrated to that, and no more is added."""
    problem = Leak(np.zeros((100, 3)))
    plan = plan_bilevel(problem, BUDGET, penalty=5.0, n_steps=1, split=(0.5, 0.5, 0.0))
    assert plan.outer_multiplier is None
    assert len(plan.releases) == 2
    assert plan.releases[0].sensitivity >= 2.0 / 100
    outputs = [
        private_hypergradient(problem, np.zeros(3), 5.0, plan, np.random.default_rng(0), seeded(k))[
            1
        ]
        for k in range(300)
    ]
    spread = plan.releases[1].noise_scale
    # 900 normal numbers: 20 % of the deviation is 8 standard errors
    assert np.std(outputs) == pytest.approx(spread, rel=0.2)


# -----------------------------------------------------------------------------------------------
# accounting


def test_reference_values():
    """Specification, section 4, delta = 1e-6."""
    for epsilon, mu, ratio in (
        (0.5, 0.124106, 8.0576),
        (1, 0.236704, 4.22468),
        (3, 0.647727, 1.54386),
    ):
        assert gaussian_mu(epsilon, 1e-6) == pytest.approx(mu, abs=1e-6)
        assert gaussian_noise_multiplier(epsilon, 1e-6) == pytest.approx(ratio, rel=1e-4)


def lemma(epsilon, delta, T):
    """Advanced composition, Lemma 2.1."""
    return math.sqrt(2 * T * math.log(1 / delta)) * epsilon + 2 * T * epsilon**2


def test_printed_split_exceeds_the_budget():
    """E7: what the cited lemma gives for the printed split, and the exact totals."""
    d = 1e-6
    for epsilon, T, total in ((1, 100, 5.29), (1, 10, 5.03), (1, 1000, 5.55), (0.5, 100, 2.40)):
        printed = lemma(epsilon / math.sqrt(2 * T), d / (T + 1), T)
        assert printed == pytest.approx(total, abs=5e-3)
    for calibration, exact in (("classical", 0.25), ("analytic", 0.36)):
        z = gaussian_noise_multiplier(1 / math.sqrt(1800), d / 303, calibration)
        assert gaussian_epsilon(d, math.sqrt(300) / z) == pytest.approx(exact, abs=5e-3)


@pytest.mark.parametrize("T", [1, 8, 100])
@pytest.mark.parametrize("calibration", ["analytic", "paper"])
def test_whole_run_is_within_the_budget(T, calibration):
    problem = Mixed(*records(20))
    plan = plan_bilevel(problem, BUDGET, penalty=3.0, n_steps=T, calibration=calibration)
    spent = tightest_epsilon(plan.event, 1e-6)
    assert spent <= 1.0
    if calibration == "analytic":
        assert spent == pytest.approx(1.0, rel=1e-6)
    else:  # the lemma solved for its epsilon: 0.22 times the printed one for T = 100
        each = plan.multipliers[0]
        assert plan.multipliers == (each, each)
        assert plan.outer_multiplier == each
        root = lemma(1.0, 1.0, 1)  # 2
        assert root == 2.0
        epsilon = 3 * math.sqrt(2 * math.log(1.25 * 3 * (T + 1) / 1e-6)) / each
        assert lemma(epsilon, 1e-6 / (T + 1), T) == pytest.approx(1.0)
        if T == 100:
            assert epsilon * math.sqrt(200) == pytest.approx(0.2215, abs=1e-4)


def test_split_and_share():
    problem = Mixed(*records(20))
    plan = plan_bilevel(problem, BUDGET, penalty=3.0, n_steps=5, split=(0.5, 0.3, 0.2), share=0.25)
    squares = 5 / np.array([*plan.multipliers, plan.outer_multiplier]) ** 2
    np.testing.assert_allclose(
        squares, 0.25 * gaussian_mu(1.0, 1e-6) ** 2 * np.array([0.5, 0.3, 0.2])
    )


def test_sampled_run_is_within_the_budget():
    """Algorithm 3: the outer batches too; with half of the budget left for a Gaussian."""
    pytest.importorskip("dp_accounting")
    problem = Mixed(*records(50))
    inner = LocalizedGradientDescent(10, sampling_rate=0.2)
    plan = plan_bilevel(
        problem, BUDGET, penalty=3.0, n_steps=3, inner=inner, outer_sampling_rate=0.2, share=0.5
    )
    other = GaussianEvent(gaussian_noise_multiplier(1.0, 1e-6) / math.sqrt(0.5))
    spent = tightest_epsilon(ComposedEvent((plan.event, other)), 1e-6)
    assert 0.97 < spent <= 1.0
    whole = plan_bilevel(problem, BUDGET, penalty=3.0, n_steps=3, share=0.5)
    assert plan.multipliers[0] < 0.7 * whole.multipliers[0]


def test_minibatch_run():
    pytest.importorskip("dp_accounting")
    rows = BoundedRows(np.random.default_rng(0).normal(size=(60, 2)), 1.0)
    problem = PenaltyProblem(
        rows, np.zeros(60), HalfSquaredLoss(1.0), (0, 0), (1.0, 1.0), 1e-2, 1.0
    )
    inner = LocalizedGradientDescent(5, sampling_rate=0.3)
    result = dp_bilevel(problem, BUDGET, penalty=2.0, n_steps=2, inner=inner, noise=seeded(0))
    assert result.path.shape == (3, 1)
    assert tightest_epsilon(result.plan.event, 1e-6) <= 1.0


# -----------------------------------------------------------------------------------------------
# the run


def tuning_problem(n=400, seed=0, low=1e-3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    t = np.clip(X @ [0.8, 0.0, 0.0] + 0.1 * rng.normal(size=n), -1, 1)
    return PenaltyProblem(
        BoundedRows(X, 1.0), t, HalfSquaredLoss(1.0), (0,) * 3, (1.0,) * 3, low, 10.0
    )


class Exact(OutputPerturbation):
    """No noise; for tests of directions."""

    def solve(self, problem, multiplier, solver_rng, noise):
        return super().solve(problem, 1e-9, solver_rng, noise)


def validation_loss(problem, x):
    y = LBFGS().solve(problem.lower(x), 1e-9).point / problem.metric(x)
    rows, t = problem._rows.materialise()[1::2], problem._targets[1::2]
    return 0.5 * float(((rows @ y - t) ** 2).mean())


@pytest.mark.parametrize("sign", [1, -1])
def test_printed_sign_ascends(sign):
    """E1: the rule as printed, with +, increases the validation loss; ours decreases it."""
    problem = tuning_problem()
    start = np.log([0.3])
    result = dp_bilevel(
        problem, BUDGET, penalty=20.0, n_steps=8, step_size=sign * 10.0, start=start,
        inner=Exact(), output="last",
    )  # fmt: skip
    values = [validation_loss(problem, x) for x in result.path]
    steps = np.diff(values)
    assert (steps < 0).all() if sign == 1 else (steps > 0).all()


def test_update_uses_releases_only():
    """The same released points give the same path, whatever the records are (E2, wall 2)."""
    points = np.random.default_rng(1).normal(size=(8, 3))
    paths = [
        dp_bilevel(
            tuning_problem(seed=k), BUDGET, penalty=2.0, n_steps=4, inner=Replay(points)
        ).path
        for k in range(2)
    ]
    np.testing.assert_array_equal(*paths)
    assert len(np.unique(paths[0])) > 2


def test_plan_is_public():
    plans = [plan_bilevel(tuning_problem(seed=k), BUDGET, penalty=2.0, n_steps=4) for k in range(2)]
    assert plans[0].to_dict() == plans[1].to_dict()
    assert plans[0].releases == plans[1].releases


def test_outputs():
    points = np.random.default_rng(1).normal(size=(8, 3)) * 0.1
    points[4:6] = 0.0  # the third step does not move
    found = {
        output: dp_bilevel(
            tuning_problem(), BUDGET, penalty=2.0, n_steps=4, inner=Replay(points), output=output
        )
        for output in ("last", "min_step", "tail_average")
    }
    path = found["last"].path
    np.testing.assert_array_equal(found["last"].x, path[4])
    np.testing.assert_array_equal(found["min_step"].x, path[2])
    np.testing.assert_allclose(found["tail_average"].x, path[3:].mean(axis=0))
    assert found["last"].y.shape == (3,)


def test_bad_solvers_cost_no_privacy():
    """A lazy solver's answers are finished by trusted ones: same noise, nearly same path."""
    results = [
        dp_bilevel(
            tuning_problem(), BUDGET, penalty=2.0, n_steps=3, solver=solver, noise=seeded(5)
        ).path
        for solver in ("auto", lambda problem, accuracy: np.ones(3))
    ]
    np.testing.assert_allclose(*results, rtol=1e-2)


class Unequal(Replay):
    """Exact points plus noise, in the penalised solution much more than in the other."""

    is_unbiased = True

    def __init__(self, points, deviations):
        self.exact, self.deviations, self.count = points, deviations, 0

    def solve(self, problem, multiplier, solver_rng, noise):
        which, self.count = self.count % 2, self.count + 1
        deviation = self.deviations[which]
        return self.exact[which] + deviation * noise.standard_normal(3), deviation**2


def test_debiasing():
    """Mean hypergradient of 4000 noisy runs: 5 standard errors (6e-7), and far off without."""
    problem, x, lam = tuning_problem(n=100), np.log([0.05]), 3.0
    points, deviations = np.random.default_rng(1).normal(size=(2, 3)), (0.1, 1.0)
    inner = Unequal(points, deviations)
    plan = plan_bilevel(problem, BUDGET, penalty=lam, n_steps=1, inner=inner)
    exact = problem.hypergradient(x, *points, lam)[0]
    rng, source = np.random.default_rng(0), seeded(2)
    found = [private_hypergradient(problem, x, lam, plan, rng, source)[1] for _ in range(4000)]
    error = np.std(found) / math.sqrt(len(found))
    assert abs(np.mean(found) - exact) < 5 * error
    assert lam * 0.05 / 2 * 3 * (1.0 - 0.01) > 20 * error  # what is subtracted
    inner.is_unbiased = False  # a point that is not exact plus noise: nothing is subtracted
    inner.deviations = (0.0, 0.0)
    assert private_hypergradient(problem, x, lam, plan, rng, source)[1][0] == pytest.approx(exact)


def test_refusals():
    problem = tuning_problem()
    with pytest.raises(ValueError, match="delta"):
        dp_bilevel(problem, PrivacyBudget(1.0), penalty=1.0)
    with pytest.raises(TypeError, match="PrivacyBudget"):
        dp_bilevel(problem, 1.0, penalty=1.0)
    with pytest.raises(ValueError, match="penalty"):
        dp_bilevel(problem, BUDGET, penalty=-1.0)
    with pytest.raises(ValueError, match="output"):
        dp_bilevel(problem, BUDGET, penalty=1.0, output="best")
    with pytest.raises(ValueError, match="inner"):
        dp_bilevel(problem, BUDGET, penalty=1.0, inner="sgd")
    with pytest.raises(ValueError, match="third part"):
        plan_bilevel(problem, BUDGET, penalty=1.0, split=(0.4, 0.4, 0.2))
    with pytest.raises(ValueError, match="third part"):
        plan_bilevel(Mixed(*records(4)), BUDGET, penalty=1.0, split=(0.5, 0.5, 0.0))
    with pytest.raises(ValueError, match="three parts"):
        plan_bilevel(problem, BUDGET, penalty=1.0, split=(0.5, 0.6, 0.0))
    with pytest.raises(ValueError, match="paper"):
        plan_bilevel(problem, BUDGET, penalty=1.0, calibration="paper", share=0.5)
    with pytest.raises(ValueError, match="calibration"):
        plan_bilevel(problem, BUDGET, penalty=1.0, calibration="printed")
    with pytest.raises(ValueError, match="published composition"):
        plan_bilevel(problem, PrivacyBudget(30.0, 0.5), penalty=1.0, n_steps=1, calibration="paper")
    with pytest.raises(ValueError, match="start"):
        dp_bilevel(problem, BUDGET, penalty=1.0, start=np.zeros(2))


# -----------------------------------------------------------------------------------------------
# errata


class Mixed(BilevelProblem):
    """E3: ``f = v . y``, ``g_i = ||y||^2 / 2 - xi_i . y + x' B_i y``, all norms at most 1.

    Gradients in x are 0 for f and ``B_i y`` for g: bounded by ``||y|| <= 2``, 1-Lipschitz in y.
    """

    domain_x, domain_y = Ball(1.0), Ball(2.0)
    disjoint = False
    constants = BilevelConstants(0.0, 2.0, 1.0)

    def __init__(self, xi, B):
        self.xi, self.B = xi, B
        self.n_train = self.n_val = len(xi)
        self.dimension_x = self.dimension_y = xi.shape[1]
        self.v = np.eye(xi.shape[1])[0]

    def lower(self, x):
        return self._problem(0.0, x)

    def penalised(self, x, lam):
        return self._problem(1.0 / lam, x)

    def _problem(self, u, x):
        slope = -self.xi.mean(axis=0) + x @ self.B.mean(axis=0) + u * self.v

        def f(y):
            return 0.5 * float(y @ y) + float(slope @ y), y + slope

        return DeclaredProblem(
            f, dimension=len(x), lipschitz=4.0 + u + u, gradient_diameter=4.0, smoothness=1.0,
            strong_convexity=1.0, radius=2.0 + u, n_records=self.n_train, mean_of_records=True,
        )  # fmt: skip

    def upper_gradient_x(self, x, y, batch=None):
        return np.zeros_like(x)

    def lower_gradient_x(self, x, y, batch=None):
        part = self.B if batch is None else self.B[batch]
        return (part @ y).sum(axis=0) / self.n_train


def records(n, d=3, seed=0):
    rng = np.random.default_rng(seed)
    xi = rng.normal(size=(n, d))
    B = rng.normal(size=(n, d, d))
    B /= np.linalg.norm(B, ord=2, axis=(1, 2))[:, None, None]
    return xi / np.linalg.norm(xi, axis=1, keepdims=True), B


class Printed(Mixed):
    """Noise for the distance of the exact solutions, ``||y_lam - y|| <= L0f / (lam mu_g)``."""

    def record_bound(self, distance, lam):
        return super().record_bound(1.0 / lam, lam)


class ByMean(Mixed):
    """The same problem with its mean in place of its records, and the points it was asked for."""

    def __init__(self, problem):
        self.__dict__.update(problem.__dict__)
        self.record_bound = problem.record_bound
        self.mean, self.known = problem.B.mean(axis=0), {}

    def _problem(self, u, x):  # x is 0 throughout
        return (
            self.known.setdefault(u, super()._problem(u, x))
            if u not in self.known
            else self.known[u]
        )

    def lower_difference_x(self, x, y, y_lam, batch=None):
        self.seen = y, y_lam
        return self.mean @ (y_lam - y)


@pytest.mark.parametrize("kind", [Mixed, Printed])
def test_audit_of_the_outer_noise(kind):
    """E3. At x = 0 the lower solutions of the two neighbours are the same, so all that tells them
    apart is the outer release, with a third of the budget.

    3000 runs for each of two data sets; the event is decided on beforehand. Each of two bounds
    fails with probability 1e-6.
    """
    n, d, lam, runs = 10000, 10, 1e4, 3000
    hits = []
    for k, sign in enumerate((1.0, -1.0)):
        B = np.zeros((n, d, d))
        B[0] = sign * np.eye(d)
        problem = ByMean(kind(np.zeros((n, d)), B))
        plan = plan_bilevel(problem, BUDGET, penalty=lam, n_steps=1, inner=Remembering())
        rng, count = np.random.default_rng(0), 0
        for run in range(runs):
            noise = seeded((k, run))
            _, gradient, _ = private_hypergradient(problem, np.zeros(d), lam, plan, rng, noise)
            y, y_lam = problem.seen
            shift = lam * (y_lam - y) / n  # of the first data set; the other has the opposite
            moved = 2 * problem.record_bound(float(np.linalg.norm(y_lam - y)), lam)
            # twice the inner product over the variance is the log likelihood ratio
            count += 2 * float(gradient @ shift) > (plan.outer_multiplier * moved) ** 2
        hits.append(count)
    often = stats.beta.ppf(1e-6, hits[0], runs - hits[0] + 1) if hits[0] else 0.0
    seldom = stats.beta.ppf(1 - 1e-6, hits[1] + 1, runs - hits[1])
    delta = often - math.e * seldom
    if kind is Printed:
        assert delta > 0.02  # 20000 times what is claimed for all releases together
    else:
        assert delta <= gaussian_delta(1.0, 1.0 / plan.outer_multiplier)


def test_law_of_the_outer_noise():
    """Standard deviation ``multiplier * 2 b`` at the points used: 3e4 normal numbers, 2.5 % is
    6 standard errors. Points beyond Y are projected before the bounds are used."""
    problem = ByMean(Mixed(*records(5)))
    plan = plan_bilevel(problem, BUDGET, penalty=7.0, n_steps=1)
    far = 3.0 * np.ones(3)
    plan = dataclasses.replace(plan, inner=Replay([far, -far] * 10000))
    rng, source, scaled = np.random.default_rng(0), seeded(3), []
    for _ in range(10000):
        _, gradient, _ = private_hypergradient(problem, np.zeros(3), 7.0, plan, rng, source)
        y, y_lam = problem.seen
        scaled.append(gradient - 7.0 * problem.mean @ (y_lam - y))
    assert np.linalg.norm(y) <= 2.0
    assert np.linalg.norm(y_lam) <= 2.0
    b = 7.0 / 5 * min(np.linalg.norm(y_lam - y), 4.0)
    assert np.std(scaled) == pytest.approx(plan.outer_multiplier * 2 * b, rel=0.025)


def test_condition_on_the_penalty():
    """E6: ``f = -y^2``, ``g = y^2 / 2`` and the printed condition lam >= 2 L1g / mu_g = 2 allow a
    penalised problem without curvature; it is refused."""
    lam = 2.0
    curvature = 1.0 - 2.0 / lam
    assert curvature == 0.0
    with pytest.raises(ValueError, match="strong"):
        DeclaredProblem(
            lambda y: (0.0, 0.0 * y), dimension=1, lipschitz=1.0, smoothness=1.0,
            strong_convexity=curvature, radius=1.0,
        )  # fmt: skip


def test_sampling_with_replacement_is_not_amplified_as_printed():
    """E8: a record that is drawn k times moves the Gaussian by k. Exact deltas, by quadrature."""
    grid = np.linspace(-10, 15, 100001)
    for eps0, delta0, n, b, least in (
        (1.0, 1e-6, 1000, 1000, 1.27e-3),
        (0.5, 1e-8, 1000, 500, 1.7e-6),
    ):
        mu = gaussian_mu(eps0, delta0)
        epsilon = math.log1p((1 - (1 - 1 / n) ** b) * math.expm1(eps0))
        k = np.arange(25)
        weights = stats.binom.pmf(k, b, 1 / n)
        p = sum(w * stats.norm.pdf(grid - j * mu) for w, j in zip(weights, k, strict=True))
        excess = np.maximum(0.0, p - math.exp(epsilon) * stats.norm.pdf(grid))
        delta = (
            float(np.trapezoid(excess, grid)) if hasattr(np, "trapezoid") else excess.sum() * 25e-5
        )
        assert delta >= least
        assert delta > 100 * delta0

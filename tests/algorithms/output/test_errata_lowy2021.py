"""The errata of Lowy and Razaviyayn (2021) on noise and accuracy: L1 to L3, L8 and L13.

Each printed form is written out in a function ``printed_...``. A test shows what it does to the
stated (epsilon, delta), by exact computation, and that ours keeps it on the same data. Where the
printed form costs utility but no privacy, the test says so. The errata of solvers, L4 to L7, are
in test_errata_lowy2021_solvers.py.

Throughout, d is the dimension, ``k = c + sqrt(c^2 + epsilon)``, ``q = d / epsilon`` (delta = 0) or
``sqrt(d) k / epsilon``, ``r = q / n``; F has L, mu, beta on the ball of radius R.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from lowy2021 import exact_delta, k_factor, printed_e7_gap, published_scale
from scipy.special import ndtr

from skdp.algorithms import plan_output_perturbation
from skdp.algorithms.output.published import lowy_gap, lowy_noise_factor, lowy_regularisation
from skdp.mechanisms import GaussianMechanism, SphericalLaplaceMechanism, gaussian_noise_multiplier
from skdp.privacy import PrivacyBudget
from skdp.problems import (
    Ball,
    FiniteSumProblem,
    HalfSquaredLoss,
    LogisticLoss,
    ProblemConstants,
    Records,
    WholeSpace,
)
from skdp.solvers import Solver, solve_certified

UNIT = ProblemConstants(
    n_records=1000, dimension=10, strong_convexity=0.1, lipschitz=1.0, gradient_diameter=2.0,
    smoothness=0.25, radius=100.0, row_width=10,
)  # fmt: skip


# --- erratum L1 -----------------------------------------------------------------------------------


def printed_e1_scale(budget, sensitivity):
    """Alg. 6, delta > 0: density ``exp(-2 epsilon^2 z^2 / (s^2 k^2))``."""
    return sensitivity * k_factor(budget) / (2 * budget.epsilon)


class TestE1NoiseOfAlgorithm6:
    """Printed: a 2 in the exponent of the Gaussian density. Correct: none, as in Alg. 1."""

    @pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-5, 1e-2])
    @pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.5, 1.0, 10.0, 100.0])
    def test_e1_broken_as_printed_and_kept_by_us(self, epsilon, delta):
        budget = PrivacyBudget(epsilon, delta)
        minimum = gaussian_noise_multiplier(epsilon, delta)
        private_by_accident = printed_e1_scale(budget, 1.0) >= minimum
        assert private_by_accident == (
            (epsilon, delta)
            in [(0.01, 1e-6), (0.01, 1e-5), (0.1, 1e-5), *((e, 1e-2) for e in (0.01, 0.1, 0.5, 1))]
        )
        for calibration in ("lowy2021_alg6", "analytic"):
            plan = plan_output_perturbation(UNIT, budget, calibration=calibration)
            moved = plan.exact_sensitivity + 2 * plan.accuracy
            assert exact_delta(moved, plan.mechanism.noise_scale, epsilon) <= delta
            if not private_by_accident:
                assert exact_delta(moved, printed_e1_scale(budget, moved), epsilon) > 1.4 * delta


# --- erratum L2 -----------------------------------------------------------------------------------


def printed_e2_sensitivity(exact, gap, mu):
    """Alg. 8, delta > 0."""
    return exact + 2 * gap / mu


@dataclasses.dataclass(frozen=True)
class Adversarial:
    """``H(w, v) = (mu/2) w^2 + w mean(x_i + v_i)``, ``|v_i| <= rho``: strongly convex, linear."""

    mu: float
    rho: float
    mean: float

    def robust(self, w):
        """G: the maximum over v."""
        return 0.5 * self.mu * w * w + w * self.mean + self.rho * abs(w)

    def minimiser(self):
        return -math.copysign(max(abs(self.mean) - self.rho, 0.0), self.mean) / self.mu

    def saddle_gap(self, w):
        """``max_v H(w, v) - min_w' H(w', v_T)`` with v_T the best answer to w."""
        slope = self.mean + math.copysign(self.rho, w)
        return self.robust(w) + 0.5 * slope**2 / self.mu


class TestE2NoiseOfAlgorithm8:
    """Printed: ``s = Delta + 2 alpha / mu``. Correct: ``Delta + 2 sqrt(2 alpha / mu)``."""

    n, mu = 10_000, 0.01

    @pytest.fixture
    def constants(self):
        rows = Records(np.zeros((self.n, 20)), 1.0)
        return FiniteSumProblem(
            rows.with_targets(np.zeros(self.n)), LogisticLoss(), self.mu, WholeSpace()
        ).constants

    def placed(self, distance):
        """Two neighbours (one x_i from 1 to -1) and points that far off, outwards."""
        sets = [Adversarial(self.mu, 0.25, 0.5 + step / self.n) for step in (-1, 1)]
        first, second = (data.minimiser() for data in sets)
        assert first > second
        return sets, (first + distance, second - distance)

    def test_e2_delta_is_thousands_of_times_the_stated_one(self, constants):
        budget = PrivacyBudget(1.0, 1e-6)
        plan = plan_output_perturbation(constants, budget, calibration="lowy2021_alg1")
        gap = lowy_gap(budget, 20, self.n, 1.0, constants.smoothness, strong_convexity=self.mu)
        sets, points = self.placed(math.sqrt(2 * gap / self.mu))
        for data, point in zip(sets, points, strict=True):
            assert data.saddle_gap(point) == pytest.approx(gap, rel=1e-6)
            excess = data.robust(point) - data.robust(data.minimiser())
            assert excess == pytest.approx(gap, rel=1e-6)
        moved, exact = abs(points[0] - points[1]), 2 / (self.mu * self.n)
        assert moved == pytest.approx(exact + 2 * math.sqrt(2 * gap / self.mu))
        printed = published_scale(budget, printed_e2_sensitivity(exact, gap, self.mu))
        assert exact_delta(moved, printed, 1.0) == pytest.approx(4.6e-3, rel=2e-2)
        assert moved <= plan.mechanism.sensitivity * (1 + 1e-9)
        assert exact_delta(moved, plan.mechanism.noise_scale, 1.0) <= budget.delta

    @pytest.mark.parametrize("calibration", ["analytic", "lowy2021_alg1", "lowy2021_alg6"])
    @pytest.mark.parametrize("delta", [0.0, 1e-6])
    def test_e2_our_plans_cover_the_worst_placement(self, constants, calibration, delta):
        budget = PrivacyBudget(1.0, delta)
        bounded = dataclasses.replace(constants, radius=100.0)  # Alg. 6 has a radius
        plan = plan_output_perturbation(bounded, budget, calibration=calibration)
        _, points = self.placed(plan.accuracy)
        moved = abs(points[0] - points[1])
        if delta:
            assert exact_delta(moved, plan.mechanism.noise_scale, 1.0) <= delta
        else:
            assert moved / plan.mechanism.noise_scale <= budget.epsilon * (1 + 1e-9)


# --- erratum L3 -----------------------------------------------------------------------------------


def printed_e3_solver(minimiser, tolerance, rate, outward):
    """Alg. 1: "accuracy in expectation". The two points and their probabilities.

    With probability `rate` the point is off by ``tolerance / sqrt(rate)``, else exact: the
    expected gap is ``(mu/2) tolerance^2 = alpha``.
    """
    return [(1 - rate, minimiser), (rate, minimiser + outward * tolerance / math.sqrt(rate))]


class Unreliable(Solver):
    """Right with probability 1/2, else the point of the ball that is farthest from right."""

    def __init__(self, solution):
        self.solution = solution

    def _solve(self, problem, accuracy, start, rng):
        if rng.random() < 0.5:
            return self.solution
        return -self.solution * problem.domain.radius / np.linalg.norm(self.solution)


class TestE3AccuracyInExpectation:
    """Printed: ``E[F(w_T) - F*] <= alpha`` (Algs 1 and 6). Correct: surely ``<= alpha``."""

    n = 1000

    def setting(self, budget):
        gap = lowy_gap(budget, 1, self.n, 1.0, 0.0, strong_convexity=1.0)
        tolerance, exact = math.sqrt(2 * gap), 2 / self.n
        return tolerance, exact, exact + 2 * tolerance

    @pytest.mark.parametrize(
        ("rate", "factor"), [(1e-3, 2.5), (1e-4, 20.0), (1e-5, 80.0), (1e-6, 250.0)]
    )
    def test_e3_the_privacy_loss_of_pure_privacy_is_unbounded(self, rate, factor):
        """Exact log density ratio far out, where that of Laplace noise is constant."""
        budget = PrivacyBudget(1.0)
        tolerance, exact, sensitivity = self.setting(budget)
        here = printed_e3_solver(exact, tolerance, rate, 1)
        there = printed_e3_solver(0.0, tolerance, rate, -1)
        assert sum(p * (w - exact) ** 2 / 2 for p, w in here) == pytest.approx(tolerance**2 / 2)
        assert all(abs(w) <= 2 for _, w in here + there)  # within a ball of radius 2
        scale = sensitivity / budget.epsilon
        tails = [math.log(sum(p * math.exp(w / scale) for p, w in law)) for law in (here, there)]
        assert tails[0] - tails[1] > factor * budget.epsilon

    @pytest.mark.parametrize("rate", [1e-4, 1e-5])
    def test_e3_delta_is_exceeded(self, rate):
        """Lower bound on delta from one event, a half-line, whose probabilities are exact."""
        budget = PrivacyBudget(1.0, 1e-6)
        tolerance, exact, sensitivity = self.setting(budget)
        here = printed_e3_solver(exact, tolerance, rate, 1)
        there = printed_e3_solver(0.0, tolerance, rate, -1)
        scale, threshold = published_scale(budget, sensitivity), here[1][1]
        p, other = (sum(p * ndtr((w - threshold) / scale) for p, w in law) for law in (here, there))
        assert p - math.e * other > 0.4 * rate > 4 * budget.delta
        surely = exact + 2 * tolerance  # an accuracy that holds surely: the same noise will do
        assert exact_delta(surely, scale, 1.0) <= budget.delta

    def test_e3_behind_the_gate_accuracy_holds_surely(self):
        rng = np.random.default_rng(0)
        X, y = rng.uniform(-0.5, 0.5, (500, 3)), rng.uniform(-1, 1, 500)
        problem = FiniteSumProblem(Records(X, 1.0, targets=y), HalfSquaredLoss(1.0), 0.1, Ball(2.0))
        solution = np.linalg.solve(X.T @ X / 500 + 0.1 * np.eye(3), X.T @ y / 500)
        plan = plan_output_perturbation(
            problem.constants, PrivacyBudget(1.0, 1e-6), calibration="lowy2021_alg1"
        )
        failures = 0
        for seed in range(60):
            generator = np.random.default_rng(seed)
            found = solve_certified(problem, plan.accuracy, Unreliable(solution), rng=generator)
            assert np.linalg.norm(found.point - solution) <= plan.accuracy
            failures += len(found.attempts) > 1
        assert failures > 15
        wrong = -solution * 2.0 / np.linalg.norm(solution)
        assert np.linalg.norm(wrong - solution) > plan.mechanism.sensitivity


# --- erratum L8 -----------------------------------------------------------------------------------


def printed_e8_gap(lipschitz, beta, radius, q):
    """Cor. 3.7 a: ``L^{4/3} R^{2/3} beta^{-1/3} q^{-2/3}``, the first term alone."""
    return lipschitz ** (4 / 3) * radius ** (2 / 3) * beta ** (-1 / 3) * q ** (-2 / 3)


def printed_e8_iterations(lipschitz, beta, radius, q):
    """Cor. 3.7 a: ``ceil(sqrt(2) (beta R / (L q))^{1/3} log(2 (beta R / L)^{4/3} q^{2/3}))``."""
    size = beta * radius / lipschitz
    return math.ceil(
        math.sqrt(2) * (size / q) ** (1 / 3) * math.log(2 * size ** (4 / 3) * q ** (2 / 3))
    )


class TestE8AccuracyForSmoothConvexLosses:
    """Printed, Cor. 3.7 a: the first term of ``alpha``. Correct: the minimum of both (Thm 3.5)."""

    lipschitz, beta, radius = 2.0, 1.0, 1.0  # F = (w - 1)^2 / 2 on [-1, 1]

    def bound(self, q, constant):
        size = self.beta ** (1 / 3) * self.lipschitz ** (2 / 3) * self.radius ** (4 / 3)
        return constant * size * q ** (2 / 3)

    def risk(self, epsilon, gap, distance):
        """Exact expected excess of Alg. 6 (d = 1, delta = 0) from a point that far from w*."""
        budget = PrivacyBudget(epsilon)
        ridge = lowy_regularisation(budget, 1, 1, self.lipschitz, self.beta, self.radius)
        exact = 2 * (self.lipschitz + ridge * self.radius) / ridge
        mechanism = SphericalLaplaceMechanism(exact + 2 * math.sqrt(2 * gap / ridge), epsilon)
        return 0.5 * self.beta * (distance**2 + mechanism.mean_square(1))

    @pytest.mark.parametrize("q", [0.5, 0.1, 1e-3, 1e-6])
    @pytest.mark.parametrize(("lipschitz", "beta", "radius"), [(2, 1, 1), (1, 3, 0.7), (5, 0.1, 9)])
    def test_e8_ours_keeps_the_minimum(self, q, lipschitz, beta, radius):
        printed = printed_e8_gap(lipschitz, beta, radius, q)
        ours = lowy_gap(PrivacyBudget(1 / q), 1, 1, lipschitz, beta, radius=radius)
        assert ours <= printed * (1 + 1e-12)
        if q**2 <= lipschitz / (radius * beta):
            ratio = (lipschitz / (beta * radius) / q**2) ** (2 / 3)
            assert printed / ours == pytest.approx(ratio)
        second = beta ** (1 / 3) * lipschitz ** (2 / 3) * radius ** (4 / 3) * q ** (2 / 3)
        assert ours == pytest.approx(min(printed, second))

    @pytest.mark.parametrize("epsilon", [1e4, 1e5, 1e6])
    def test_e8_the_risk_bound_fails_as_printed(self, epsilon):
        q = 1 / epsilon
        printed = printed_e8_gap(self.lipschitz, self.beta, self.radius, q)
        assert printed_e8_iterations(self.lipschitz, self.beta, self.radius, q) <= 0
        ridge = lowy_regularisation(
            PrivacyBudget(epsilon), 1, 1, self.lipschitz, self.beta, self.radius
        )
        assert math.sqrt(2 * printed / ridge) > 2 * self.radius  # any point will do
        released_start = self.risk(epsilon, printed, 1.0)
        for constant in (65, 142):
            assert released_start > self.bound(q, constant)

    @pytest.mark.parametrize("epsilon", [1e4, 1e5, 1e6])
    def test_e8_the_risk_bound_holds_with_the_minimum(self, epsilon):
        """At the worst point that the corrected alpha allows, noise included."""
        budget = PrivacyBudget(epsilon)
        gap = lowy_gap(budget, 1, 1, self.lipschitz, self.beta, radius=self.radius)
        ridge = lowy_regularisation(budget, 1, 1, self.lipschitz, self.beta, self.radius)
        shrunk = self.beta / (self.beta + ridge)  # the regularised solution
        distance = 1 - shrunk + math.sqrt(2 * gap / (self.beta + ridge))
        assert self.risk(epsilon, gap, distance) <= self.bound(1 / epsilon, 65)

    def test_e8_our_plan_is_calibrated_to_the_minimum(self):
        constants = dataclasses.replace(
            UNIT, n_records=1, dimension=1, lipschitz=2.0, gradient_diameter=4.0, smoothness=1.0,
            radius=1.0, strong_convexity=0.5,
        )  # fmt: skip
        budget = PrivacyBudget(1e4)
        plan = plan_output_perturbation(constants, budget, calibration="lowy2021_alg6")
        gap = lowy_gap(budget, 1, 1, 2.0, 1.0, radius=1.0)
        assert plan.accuracy == pytest.approx(math.sqrt(2 * gap / 0.5))
        assert plan.accuracy < 1e-2 * math.sqrt(2 * printed_e8_gap(2.0, 1.0, 1.0, 1e-4) / 0.5)


# --- erratum L13 ----------------------------------------------------------------------------------


class TestE13AccuracyForConvexLosses:
    """Printed, Thm 3.4, 2b: ``alpha = L R r^{3/2}``. Correct: divided by ``(1 + q)^2``."""

    def test_e13_the_tolerance_alone_exceeds_the_stated_risk(self):
        budget, d, n = PrivacyBudget(1.0, 1e-6), 400, 10**9
        q = lowy_noise_factor(budget, d)
        r = q / n
        ridge = lowy_regularisation(budget, d, n, 1.0, math.inf, 1.0)
        exact = 2 * (1 + ridge) / (ridge * n)
        # E ||N(0, I_d)||, whose spread is below 1 against 20: no draw reaches the ball's boundary
        norm = math.sqrt(2) * math.exp(math.lgamma((d + 1) / 2) - math.lgamma(d / 2))
        risks = {}
        for name, gap in (
            ("printed", printed_e7_gap(budget, d, n)),
            ("ours", lowy_gap(budget, d, n, 1.0, math.inf, radius=1.0)),
        ):
            tolerance = math.sqrt(2 * gap / ridge)
            multiplier = gaussian_noise_multiplier(1.0, 1e-6, "zwb")
            mechanism = GaussianMechanism(exact + 2 * tolerance, multiplier)
            assert mechanism.noise_scale * (norm + 10) < 1.0
            risks[name] = mechanism.noise_scale * norm + tolerance
        assert risks["printed"] > 25 * math.sqrt(r)
        assert risks["ours"] <= 25 * math.sqrt(r)

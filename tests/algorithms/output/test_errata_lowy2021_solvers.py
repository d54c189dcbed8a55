"""The errata of Lowy and Razaviyayn (2021) on solvers: L4 to L7.

As in test_errata_lowy2021.py, whose notation this module shares, each printed form is written out
in a function ``printed_...``.
"""

import math

import numpy as np
import pytest
from lowy2021 import exact_delta, k_factor, printed_e7_gap, published_scale

from skdp.algorithms.output.published import lowy_gap, lowy_noise_factor, lowy_regularisation
from skdp.mechanisms import calibrated_mechanism
from skdp.privacy import PrivacyBudget
from skdp.problems import AbsoluteLoss, Ball, FiniteSumProblem, HalfSquaredLoss, Records
from skdp.solvers import SVRG, AcceleratedGradient, CallableSolver, Solver, solve_certified
from skdp.solvers.accelerated_gradient import accelerated_gradient_iterations

# --- erratum L4 -----------------------------------------------------------------------------------


def printed_e4_subgradient(subgradient, choose, n, mu, radius, iterations, start=0.0):
    """Alg. 2 in one dimension: ``n`` times the subgradient of one record; the last iterate."""
    w = start
    for t in range(1, iterations + 1):
        step = 2 / (mu * ((t - 1) + 1))  # eta_{t-1}
        w = min(max(w - step * n * subgradient(w, choose(t)), -radius), radius)
    return w


class TestE4SubgradientListings:
    """Printed, Alg. 2: steps along ``n g(w, x_i)`` of one record. Correct: of the whole F."""

    n = 100

    def setting(self, budget):
        gap = lowy_gap(budget, 1, self.n, 2.0, math.inf, strong_convexity=1.0)
        return gap, math.ceil(2 * 2.0**2 / gap), 2 * 2.0 / self.n + 2 * math.sqrt(2 * gap)

    def solve(self, x, choose, iterations):
        return printed_e4_subgradient(lambda w, i: w - x[i], choose, self.n, 1.0, 1.0, iterations)

    @pytest.mark.parametrize("delta", [0.0, 1e-6])
    def test_e4_one_record_decides_where_the_point_is(self, delta):
        """With i fixed the replaced record is all that the listing sees: delta near 1."""
        budget = PrivacyBudget(10.0, delta)
        _, iterations, sensitivity = self.setting(budget)
        x = np.zeros(self.n)
        points = []
        for value in (-1.0, 1.0):
            x[0] = value
            points.append(self.solve(x, lambda t: 0, iterations))
        moved = abs(points[0] - points[1])
        assert moved > 10 * sensitivity
        if delta:
            assert exact_delta(moved, published_scale(budget, sensitivity), 10.0) > 0.999
        else:
            assert moved / (sensitivity / budget.epsilon) > 100  # exact log density ratio

    @pytest.mark.parametrize(
        "loss", [HalfSquaredLoss(1.0), AbsoluteLoss(1.0).smoothed(0.01)], ids=str
    )
    @pytest.mark.parametrize("listing", ["ours", "printed"])
    def test_e4_ours_moves_as_little_as_assumed(self, loss, listing):
        """Our solver, and the printed listing too, behind the gate: same data, same accuracy."""
        budget, mu = PrivacyBudget(10.0, 1e-6), 0.5
        lipschitz = loss.lipschitz(1.0, 1.0)
        gap = lowy_gap(budget, 1, self.n, lipschitz, math.inf, strong_convexity=mu)
        tolerance = math.sqrt(2 * gap / mu)
        sensitivity = 2 * lipschitz / (mu * self.n) + 2 * tolerance
        unchecked = []

        def single_record(problem, accuracy):
            def subgradient(w, i):
                slope = loss.derivative(np.array([w]), problem.records.targets[i : i + 1])
                return float(slope[0]) + mu * w

            w = printed_e4_subgradient(subgradient, lambda t: 0, self.n, mu, 1.0, 20_000)
            unchecked.append(w)
            return np.array([w])

        points = []
        for value in (-1.0, 1.0):
            x = np.linspace(-0.6, 0.6, self.n)
            x[0] = value
            rows = Records(np.ones((self.n, 1)), 1.0)
            problem = FiniteSumProblem(rows.with_targets(x), loss, mu, Ball(1.0))
            solver = AcceleratedGradient() if listing == "ours" else CallableSolver(single_record)
            points.append(solve_certified(problem, tolerance, solver).point)
        moved = float(np.linalg.norm(points[0] - points[1]))
        assert moved <= sensitivity
        assert exact_delta(moved, published_scale(budget, sensitivity), 10.0) <= budget.delta
        if listing == "printed":
            moved = abs(unchecked[0] - unchecked[1])
            assert moved > 3 * sensitivity
            assert exact_delta(moved, published_scale(budget, sensitivity), 10.0) > 0.5


# --- erratum L5 -----------------------------------------------------------------------------------


def printed_e5_iterations(beta, mu, lipschitz, radius, q):
    """Cor. 3.3 b: ``ceil(sqrt(kappa) log(beta R^2 mu / L^2 max{1, q^2 / kappa}))``."""
    kappa = beta / mu
    inside = beta * radius**2 * mu / lipschitz**2 * max(1.0, q**2 / kappa)
    return math.ceil(math.sqrt(kappa) * math.log(inside))


def accelerated_gradient(problem, beta, mu, start, iterations):
    """Alg. 4 as printed."""
    ratio = math.sqrt(beta / mu)
    momentum = (ratio - 1) / (ratio + 1)
    w, y = start, start
    for _ in range(iterations):
        before, y = y, problem.domain.project(w - problem.gradient(w) / beta)
        w = (1 + momentum) * y - momentum * before
    return y


class TestE5IterationsOfAcceleratedGradient:
    """Printed, Cor. 3.3 b: ``max{1, q^2 / kappa}``. Correct: ``max{1, 1 / (kappa q^2)}``."""

    budget = PrivacyBudget(500.0, 1e-5)
    mu, beta, radius = 1.0, 5 / 3, 1.0
    center = 0.999

    def neighbours(self):
        x = math.sqrt(self.beta - self.mu)
        for record in (0.0, x):
            yield FiniteSumProblem(
                Records(np.array([[record]]), x, targets=np.array([record * self.center])),
                HalfSquaredLoss(x),
                self.mu,
                Ball(self.radius),
                center=np.array([self.center]),
            )

    def setting(self):
        lipschitz = self.beta * (self.radius + self.center)
        q = lowy_noise_factor(self.budget, 1)
        gap = lipschitz**2 / self.mu * min(self.beta / self.mu * q**2, 1.0)
        return lipschitz, q, gap, math.sqrt(2 * gap / self.mu)

    def test_e5_the_printed_iterations_break_the_promise(self):
        lipschitz, q, gap, tolerance = self.setting()
        printed = printed_e5_iterations(self.beta, self.mu, lipschitz, self.radius, q)
        printed = max(1, printed)  # it is not even positive
        start = np.array([-self.radius])
        points, gaps = [], []
        for problem in self.neighbours():
            points.append(accelerated_gradient(problem, self.beta, self.mu, start, printed))
            gaps.append(problem.value(points[-1]) - problem.value(np.array([self.center])))
        assert max(gaps) > 4 * gap
        moved = float(np.linalg.norm(points[0] - points[1]))
        scale = published_scale(self.budget, 2 * tolerance)
        assert exact_delta(moved, scale, self.budget.epsilon) > 0.5

    def test_e5_our_iterations_are_enough(self):
        _, _, gap, tolerance = self.setting()
        iterations = accelerated_gradient_iterations(
            self.beta, self.mu, self.radius + self.center, tolerance
        )
        start = np.array([-self.radius])
        counted, certified = [], []
        for problem in self.neighbours():
            assert problem.smoothness == pytest.approx(self.beta)
            counted.append(accelerated_gradient(problem, self.beta, self.mu, start, iterations))
            best = problem.value(np.array([self.center]))
            assert problem.value(counted[-1]) - best <= gap
            solution = solve_certified(problem, tolerance, AcceleratedGradient(), start)
            assert len(solution.attempts) == 1
            certified.append(solution.point)
        scale = calibrated_mechanism(self.budget, 2 * tolerance, "zwb").noise_scale
        for points in (counted, certified):
            moved = float(np.linalg.norm(points[0] - points[1]))
            assert moved <= 2 * tolerance
            assert exact_delta(moved, scale, self.budget.epsilon) <= self.budget.delta


# --- erratum L6 -----------------------------------------------------------------------------------


def printed_e6_momentum(n, mu, lipschitz):
    """Alg. 5: ``tau_1 = min{sqrt(m mu) / sqrt(3 L), 1/2}``, m = 2 n; L the Lipschitz constant."""
    return min(math.sqrt(2 * n * mu) / math.sqrt(3 * lipschitz), 0.5)


def corrected_e6_momentum(n, mu, beta):
    """Allen-Zhu (2018), Algorithm 1: the smoothness."""
    return min(math.sqrt(2 * n * mu / (3 * beta)), 0.5)


def katyusha(problem, beta, tau, start, epochs, rng):
    """Alg. 5 with the given tau_1; psi is the regulariser."""
    n, mu = problem.n_records, problem.strong_convexity
    X, targets = problem.records.matrix, problem.records.targets
    gamma, length = 1 / (3 * tau * beta), 2 * n
    y = z = snapshot = start
    weights = (1 + gamma * mu) ** (np.arange(length) - length + 1.0)
    weights /= weights.sum()
    for _ in range(epochs):
        full = X.T @ (X @ snapshot - targets) / n
        mean = np.zeros_like(start)
        for j, i in enumerate(rng.integers(n, size=length)):
            w = tau * z + 0.5 * snapshot + (0.5 - tau) * y
            v = full + X[i] * (X[i] @ (w - snapshot))
            z = (z - gamma * v) / (1 + gamma * mu)
            y = (3 * beta * w - v) / (3 * beta + mu)
            mean = mean + weights[j] * y
        snapshot = mean
    return snapshot


class TestE6Katyusha:
    """Printed: ``tau_1 = min{sqrt(m mu) / sqrt(3 L), 1/2}``. Correct: beta in place of L."""

    budget = PrivacyBudget(1.0, 1e-6)
    n, mu, beta, radius = 500, 1.0, 10.0, 1e6

    def neighbours(self):
        x = math.sqrt(self.beta - self.mu)
        targets = np.random.default_rng(0).uniform(-0.5, 0.5, self.n) * self.radius
        X = np.tile([x, 0.0], (self.n, 1))
        for value in (-1.0, 1.0):
            targets = targets.copy()
            targets[0] = value * self.radius
            problem = FiniteSumProblem(
                Records(X, x * (1 + 1e-12), targets=targets), HalfSquaredLoss(self.radius), self.mu,
                Ball(self.radius),
            )  # fmt: skip
            solution = np.array([x * targets.mean() / self.beta, 0.0])
            yield problem, solution, np.array([0.0, value * self.radius])

    def setting(self):
        lipschitz = next(self.neighbours())[0].lipschitz + self.mu * self.radius
        gap = lowy_gap(
            self.budget, 2, self.n, lipschitz, self.beta - self.mu, strong_convexity=self.mu
        )
        # Theorem 2.1, m mu / beta >= 3/4: the gap shrinks by 1.5 per epoch
        epochs = math.ceil(math.log(4 * lipschitz * self.radius / gap) / math.log(1.5))
        tolerance = math.sqrt(2 * gap / self.mu)
        return lipschitz, gap, epochs, tolerance, 2 * lipschitz / (self.mu * self.n) + 2 * tolerance

    def run(self, tau, epochs):
        points, gaps = [], []
        for problem, solution, start in self.neighbours():
            rng = np.random.default_rng(1)
            points.append(katyusha(problem, self.beta, tau, start, epochs, rng))
            gaps.append(problem.value(points[-1]) - problem.value(solution))
        return float(np.linalg.norm(points[0] - points[1])), gaps

    def test_e6_the_printed_momentum_breaks_the_promise(self):
        lipschitz, gap, epochs, _, sensitivity = self.setting()
        moved, gaps = self.run(printed_e6_momentum(self.n, self.mu, lipschitz), epochs)
        assert min(gaps) > 4 * gap
        scale = published_scale(self.budget, sensitivity)
        assert exact_delta(moved, scale, 1.0) > 100 * self.budget.delta

    def test_e6_the_corrected_momentum_keeps_it(self):
        _, gap, epochs, _, sensitivity = self.setting()
        moved, gaps = self.run(corrected_e6_momentum(self.n, self.mu, self.beta), epochs)
        assert max(gaps) <= gap
        scale = published_scale(self.budget, sensitivity)
        assert exact_delta(moved, scale, 1.0) <= self.budget.delta

    @pytest.mark.parametrize("batch_size", [1, None])
    def test_e6_ours_certifies(self, batch_size):
        _, _, _, tolerance, sensitivity = self.setting()
        points = []
        for problem, solution, start in self.neighbours():
            solver = SVRG(batch_size=batch_size)
            found = solve_certified(problem, tolerance, solver, start, np.random.default_rng(1))
            assert len(found.attempts) == 1  # its own work, not that of a fallback
            assert np.linalg.norm(found.point - solution) <= tolerance
            points.append(found.point)
        moved = float(np.linalg.norm(points[0] - points[1]))
        scale = calibrated_mechanism(self.budget, sensitivity, "zwb").noise_scale
        assert exact_delta(moved, scale, 1.0) <= self.budget.delta


# --- erratum L7 -----------------------------------------------------------------------------------


def printed_e7_strongly_convex(budget, d, n):
    """Cor. 3.2 b: ``2 n max{n, epsilon / (sqrt(d) (2 c + sqrt(epsilon)))}``."""
    c = (k_factor(budget) ** 2 - budget.epsilon) / (2 * k_factor(budget))
    return 2 * n * max(n, budget.epsilon / (math.sqrt(d) * (2 * c + math.sqrt(budget.epsilon))))


def printed_e7_convex_pure(budget, d, n):
    """Cor. 3.6, 1: ``ceil(12 n^2 (1 + (epsilon / d)^2))``."""
    return math.ceil(12 * n**2 * (1 + (budget.epsilon / d) ** 2))


def printed_e7_convex(budget, d, n):
    """Cor. 3.6, 2: ``ceil(12 n^2 epsilon / (d c + sqrt(c^2 + epsilon)))``."""
    k, epsilon = k_factor(budget), budget.epsilon
    c = (k * k - epsilon) / (2 * k)
    return math.ceil(12 * n**2 * epsilon / (d * c + math.sqrt(c * c + epsilon)))


class TestE7IterationsOfStochasticSubgradient:
    """Printed T of Cor. 3.2 b and 3.6. Correct: ``2 (L + lambda R)^2 / (lambda alpha)``."""

    def ratio(self, printed, budget, d, n):
        """Guarantee after the printed T over alpha, class G, L = R = 1."""
        ridge = lowy_regularisation(budget, d, n, 1.0, math.inf, 1.0)
        return 2 * (1 + ridge) ** 2 / (ridge * printed) / printed_e7_gap(budget, d, n)

    @pytest.mark.parametrize(("n", "least"), [(1, 1.37), (2, 1.23), (3, 1.09), (4, 1.01)])
    def test_e7_corollary_36_1_is_short_for_up_to_four_records(self, n, least):
        """At r = 1. Two points of the ball are 2 R apart, so the loss is at most 1.01 epsilon."""
        budget = PrivacyBudget(1 / n)
        ratio = self.ratio(printed_e7_convex_pure(budget, 1, n), budget, 1, n)
        assert ratio > least
        ridge = lowy_regularisation(budget, 1, n, 1.0, math.inf, 1.0)
        exact, tolerance = (
            2 * (1 + ridge) / (ridge * n),
            math.sqrt(2 * printed_e7_gap(budget, 1, n) / ridge),
        )
        sensitivity = exact + 2 * tolerance
        moved = min(2.0, exact + 2 * math.sqrt(ratio) * tolerance)
        loss = moved / (sensitivity / budget.epsilon)  # exact log density ratio
        assert loss <= 1.01 * budget.epsilon
        assert (loss > budget.epsilon) == (n == 4)

    @pytest.mark.parametrize(
        ("epsilon", "d", "least"), [(200.0, 1, 1.5), (1e3, 1, 4.0), (1e4, 1, 15.0), (1e4, 4, 4.0)]
    )
    def test_e7_corollary_36_2_breaks_the_promise(self, epsilon, d, least):
        """A solver that is as accurate as its guarantee, placed at its worst on two neighbours."""
        budget, n = PrivacyBudget(epsilon, 1e-5), 1000
        gap = printed_e7_gap(budget, d, n)
        ratio = self.ratio(printed_e7_convex(budget, d, n), budget, d, n)
        assert ratio > least
        ridge = lowy_regularisation(budget, d, n, 1.0, math.inf, 1.0)
        exact, tolerance = 2 * (1 + ridge) / (ridge * n), math.sqrt(2 * gap / ridge)
        moved = exact + 2 * math.sqrt(ratio) * tolerance
        assert moved <= 2.0  # there is room for that in the ball
        scale = published_scale(budget, exact + 2 * tolerance)
        assert exact_delta(exact + 2 * tolerance, scale, epsilon) <= budget.delta
        if epsilon > 500:
            assert exact_delta(moved, scale, epsilon) > 10 * budget.delta

    def test_e7_corollary_32_breaks_the_promise_slightly(self):
        """As in the test of Cor. 3.6, 2, with ``R = L / mu``, the largest radius there is."""
        budget, n = PrivacyBudget(200.0, 1e-5), 10
        gap = lowy_gap(budget, 1, n, 1.0, math.inf, strong_convexity=1.0)
        guarantee = 2 / printed_e7_strongly_convex(budget, 1, n)
        exact, tolerance = 2 / n, math.sqrt(2 * gap)
        moved = exact + 2 * math.sqrt(2 * guarantee)
        assert guarantee > 1.1 * gap
        assert moved <= 2.0
        scale = published_scale(budget, exact + 2 * tolerance)
        assert exact_delta(exact + 2 * tolerance, scale, 200.0) <= budget.delta
        assert exact_delta(moved, scale, 200.0) > 2 * budget.delta

    def test_e7_the_gate_repairs_a_solver_that_stops_at_the_printed_iterations(self):
        budget, n = PrivacyBudget(1e4, 1e-5), 2
        ridge = lowy_regularisation(budget, 1, n, 1.0, math.inf, 1.0)
        tolerance = math.sqrt(2 * printed_e7_gap(budget, 1, n) / ridge)
        iterations = printed_e7_convex(budget, 1, n)

        answers = []

        class StopsEarly(Solver):
            def _solve(self, problem, accuracy, start, rng):
                w = average = 0.0
                for t in range(1, iterations + 1):
                    average += 2 / (t + 1) * (w - average)
                    slope = -float(problem.records.targets[rng.integers(n)])
                    w = min(max(w - 2 / (ridge * (t + 1)) * (slope + ridge * w), -1.0), 1.0)
                answers.append(average)
                return np.array([average])

        rows, targets = Records(np.ones((n, 1)), 1.0), np.array([-1.0, 1.0])
        problem = FiniteSumProblem(
            rows.with_targets(targets), AbsoluteLoss(1.0).smoothed(0.1), ridge, Ball(1.0)
        )
        for seed in range(20):
            generator = np.random.default_rng(seed)
            found = solve_certified(problem, tolerance, StopsEarly(), rng=generator)
            assert found.distance <= tolerance
            assert abs(float(found.point[0])) <= tolerance  # the solution is 0
        assert max(map(abs, answers)) > 1.5 * tolerance

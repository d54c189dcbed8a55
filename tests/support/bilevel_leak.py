"""Bilevel problems with closed forms, and inner algorithms that replay points."""

import dataclasses

import numpy as np

from skdp.algorithms import OutputPerturbation
from skdp.algorithms.bilevel.penalty_method import private_hypergradient
from skdp.algorithms.plan import Run
from skdp.privacy import PrivacyBudget
from skdp.problems import Ball, BilevelConstants, BilevelProblem, DeclaredProblem

BUDGET = PrivacyBudget(1.0, 1e-6)


class OfWeights(BilevelProblem):
    """The problem of y for a weight of f; that of g has none of it."""

    def lower(self, x):
        return self._problem(0.0, x)

    def penalised(self, x, lam):
        return self._problem(1.0 / lam, x)


class Leak(OfWeights):
    """Example 3.1: f = |x + y|^2 / 2 without records, g = mean of |y - xi_i|^2 / 2; |xi_i| <= 1."""

    domain_x, domain_y = Ball(2.0), Ball(2.0)
    disjoint, is_record_free = False, True

    def __init__(self, points):
        self.mean = points.mean(axis=0)
        self.n_train = self.n_val = len(points)
        self.dimension_x = self.dimension_y = points.shape[1]

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


class Replay(OutputPerturbation):
    """Returns given points; for tests of what the update does with them."""

    is_unbiased = False

    def __init__(self, points):
        super().__init__()
        self.points = list(points)

    def solve(self, problem, multiplier, run):
        return self.points.pop(0), 0.0


def one_step(problem, x, lam, inner, plan, rng, noise):
    """A step with another private solver than that of the plan."""
    plan = dataclasses.replace(plan, inner=inner)
    return private_hypergradient(problem, x, lam, plan, Run("auto", rng, noise))


class Mixed(OfWeights):
    """Erratum K3: ``f = v . y``, ``g_i = ||y||^2 / 2 - xi_i . y + x' B_i y``, all norms at most 1.

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

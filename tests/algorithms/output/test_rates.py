"""Output perturbation attains the rates of Lowy and Razaviyayn (2021) where they are tight.

Classes of losses: F strongly convex, H also smooth, G convex, J also smooth; the penalty of G and J
minimises the bound. The losses are of w itself, and every direction feels the noise, so that
the upper bounds cannot be improved by more than constants. A seed gives the same noise, up to its
scale, at every n: few seeds are enough.
"""

import math

import numpy as np
import pytest

from skdp.algorithms import Run, output_perturbation, plan_output_perturbation
from skdp.mechanisms import NoiseSource, calibrated_mechanism
from skdp.privacy import PrivacyBudget
from skdp.problems import Ball, DeclaredProblem
from skdp.solvers import resolve_solver

#: The rate up to factors without n and q, which is d / epsilon, or sqrt(d) sigma / sensitivity.
RATES = {
    "F": lambda n, q: q / n,
    "H": lambda n, q: (q / n) ** 2,
    "G": lambda n, q: (q / n) ** 0.5,
    "J": lambda n, q: (q / n) ** (2.0 / 3.0),
}


def slope(x, y):
    return np.polyfit(np.log(x), np.log(y), 1)[0]


def noise_units(d, budget):
    """Root mean square of the noise for sensitivity 1: about d / epsilon, or sqrt(d) sigma."""
    return math.sqrt(calibrated_mechanism(budget, 1.0).mean_square(d))


def released(problem, budget, seeds):
    """Private points, shape (len(seeds), dimension); the exact solution is found once."""
    plan = plan_output_perturbation(problem.constants, budget)
    zero, rng = np.zeros(problem.dimension), np.random.default_rng(0)
    solution = resolve_solver("auto")._solve(problem, 0.25 * plan.accuracy, zero, rng)
    points = [
        output_perturbation(
            problem,
            budget,
            run=Run(
                solver=lambda problem, accuracy: solution,
                noise=NoiseSource(np.random.default_rng(seed).bytes),
            ),  # certified for every seed again
        ).point
        for seed in seeds
    ]
    return np.array(points)


def cone(n, d, budget, seeds, convex):
    """``||w - c||`` for every record: the kink is at the minimiser, where the noise costs most.

    What is minimised is the cone's Moreau envelope, what is measured the cone. Strongly convex: a
    public penalty ``||w||^2 / 2`` belongs to the loss; else the penalty is there for privacy and
    minimises ``L E||z|| + (alpha / 2) R^2`` (R = 1).
    """
    center = np.full(d, 0.5 / math.sqrt(d))
    units = noise_units(d, budget) / n
    alpha = 2.0 * math.sqrt(units) if convex else 1.0
    noise = 2.0 / alpha * units  # Lipschitz constant 1, hence sensitivity 2 / (alpha n)
    width = 0.05 * noise  # costs at most 2.5 % of what the noise costs

    def value_and_gradient(w):
        offset = w - center
        distance = float(np.linalg.norm(offset))
        if distance <= width:
            return 0.5 * distance**2 / width, offset / width
        return distance - 0.5 * width, offset / distance

    def hessian(w):
        offset = w - center
        distance = float(np.linalg.norm(offset))
        if distance <= width:
            return np.eye(d) / width
        return np.eye(d) / distance - np.outer(offset, offset) / distance**3

    problem = DeclaredProblem(
        value_and_gradient, dimension=d, lipschitz=1.0, smoothness=1.0 / width, alpha=alpha,
        domain=Ball(1.0), n_records=n, mean_of_records=True, hessian=hessian,
    )  # fmt: skip
    points = released(problem, budget, range(seeds))
    excess = np.linalg.norm(points - center, axis=1)
    if not convex:  # the center minimises the penalised cone too: its slope 1 exceeds alpha ||c||
        excess += 0.5 * alpha * ((points**2).sum(axis=1) - center @ center)
    return excess, noise + (0.5 * alpha if convex else 0.0)


def quadratic(n, d, budget, seeds, convex):
    """``||w - x_i||^2 / 2`` for records in the unit ball: their mean is the minimiser.

    Strongly convex as it is (class H). As a member of class J it is regularised like a loss of
    which only smoothness is known, with the penalty that minimises
    ``E||z||^2 / 2 + (alpha / 2) R^2`` (R = 1).
    """
    rng = np.random.default_rng([n, d])
    records = rng.standard_normal((n, d))
    records *= 0.5 / np.linalg.norm(records, axis=1, keepdims=True)
    records += 0.5 / math.sqrt(d)
    mean = records.mean(axis=0)
    square = 0.5 * float((records**2).sum(axis=1).mean())
    diameter = 2.0  # of the gradients w - x_i
    units = noise_units(d, budget) * diameter / n  # root mean square of the noise times mu
    alpha = (2.0 * units**2) ** (1.0 / 3.0) if convex else 0.0
    problem = DeclaredProblem(
        lambda w: (square + 0.5 * float(w @ w) - float(w @ mean), w - mean), dimension=d,
        lipschitz=2.0, smoothness=1.0, strong_convexity=0.0 if convex else 1.0, alpha=alpha,
        domain=Ball(1.0), n_records=n, mean_of_records=True, gradient_diameter=diameter,
        hessian=lambda w: np.eye(d),
    )  # fmt: skip
    points = released(problem, budget, range(seeds))
    excess = 0.5 * ((points - mean) ** 2).sum(axis=1)
    noise = 0.5 * (units / (alpha if convex else 1.0)) ** 2
    return excess, noise + 0.5 * alpha


@pytest.mark.parametrize(
    ("instance", "convex", "delta"),
    [(cone, False, 1e-6), (cone, True, 0.0), (quadratic, False, 0.0), (quadratic, True, 1e-6)],
)
def test_excess_falls_with_n_as_the_theory_says(instance, convex, delta):
    rate = RATES[{cone: "FG", quadratic: "HJ"}[instance][convex]]
    grid, budget = (20_000, 40_000, 80_000), PrivacyBudget(1.0, delta)
    found = [instance(n, 4, budget, 5, convex) for n in grid]
    means = [excess.mean() for excess, _ in found]
    assert slope(grid, means) == pytest.approx(slope(grid, [rate(n, 1.0) for n in grid]), abs=0.05)
    assert all(0.0 < mean < 4.0 * bound for mean, (_, bound) in zip(means, found, strict=True))

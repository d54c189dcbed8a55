"""DP-SGDA (Yang et al. 2022) on all records: noisy descent ascent, a rival for the worst group.

Lipschitz constants that hold for every record bound the sums, so nothing is clipped; one joint
Gaussian has the noise of both blocks, in units of sqrt(2) times their constants. Replace-one
neighbours; the cost is exact (docs/theory/saddle.md, "Noisy gradient descent ascent").
"""

from __future__ import annotations

import math

import numpy as np

from skdp.mechanisms import gaussian_noise_multiplier
from skdp.problems import SaddleConstants, SaddleProblem


def sensitivity(constants: SaddleConstants, units: tuple[float, float]) -> float:
    """Bound how far one record moves the sums of a step, each block in its unit."""
    moved = (math.hypot(x / units[0], y / units[1]) for x, y in constants.ranges)
    return min(max(moved), 2.0)


def dp_sgda(
    problem: SaddleProblem,
    budget: tuple[float, float],
    rates: tuple[float, float],
    n_steps: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return the mean of the x of the second half; steps are regularised gradients plus noise."""
    constants, (x, y) = problem.constants, problem.start()
    units = math.sqrt(2.0) * constants.x.lipschitz, math.sqrt(2.0) * constants.y.lipschitz
    noise = gaussian_noise_multiplier(*budget) * math.sqrt(n_steps)
    noise *= sensitivity(constants, units) / problem.n_records
    total = np.zeros_like(x)
    for step in range(n_steps):
        move_x, move_y = problem.data_operator(x, y)  # minus the gradient in y: both descend
        move_x = move_x + noise * units[0] * rng.standard_normal(len(x))
        move_y = move_y + noise * units[1] * rng.standard_normal(len(y))
        x, y = problem.project(
            x - rates[0] * (move_x + problem.alpha_x * (x - problem.center_x)),
            y - rates[1] * (move_y + problem.alpha_y * (y - problem.center_y)),
        )
        if step >= n_steps // 2:
            total += x
    return problem.project(total / (n_steps - n_steps // 2), y)[0]

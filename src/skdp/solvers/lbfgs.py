"""Limited-memory BFGS through scipy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import brentq, minimize

from skdp.solvers.base import Solver

if TYPE_CHECKING:
    from skdp.problems import FiniteSumProblem

__all__ = ["LBFGS"]


class _AccurateEnough(Exception):
    """Carries the point at which an objective was found to be accurate enough."""

    def __init__(self, point: np.ndarray) -> None:
        self.point = point


class LBFGS(Solver):
    """scipy's L-BFGS-B on the whole space; on the ball, on its Lagrangian.

    When the free minimiser lies outside of the ball, the solution minimises the objective
    plus ``(t/2) ||w||^2`` for the multiplier t > 0 at which its norm is the radius; t is
    found by bracketing, each minimisation starting from the last.

    Parameters
    ----------
    memory : int, default=10
        Number of stored correction pairs.
    max_iterations : int, default=2000
        Iterations of one minimisation; the gate finishes the job if they do not suffice.
    """

    def __init__(self, memory: int = 10, max_iterations: int = 2000) -> None:
        self.memory = memory
        self.max_iterations = max_iterations

    def minimise(
        self,
        problem: FiniteSumProblem,
        accuracy: float,
        start: np.ndarray,
        rng: np.random.Generator,
    ) -> np.ndarray:
        radius = problem.domain.radius
        # ||grad|| <= mu accuracy / 2 certifies the point; half is left for rounding
        tolerance = 0.5 * problem.strong_convexity * accuracy
        point = start

        def minimiser(t: float) -> np.ndarray:
            nonlocal point

            def objective(w: np.ndarray) -> tuple[float, np.ndarray]:
                value, gradient = problem.value_and_gradient(w)
                gradient += t * w
                if float(np.linalg.norm(gradient)) <= tolerance:
                    raise _AccurateEnough(w.copy())
                return value + 0.5 * t * float(w @ w), gradient

            # scipy stops on the largest entry only, which would ask for sqrt(d) times too much
            options = {
                "maxcor": self.memory,
                "maxiter": self.max_iterations,
                "maxfun": 2 * self.max_iterations,
                "gtol": 0.0,
                "ftol": 0.0,
            }
            try:
                point = minimize(objective, point, jac=True, method="L-BFGS-B", options=options).x
            except _AccurateEnough as done:
                point = done.point
            return point

        if float(np.linalg.norm(minimiser(0.0))) <= radius:
            return point

        def excess(t: float) -> float:
            return 1.0 / radius - 1.0 / max(float(np.linalg.norm(minimiser(t))), 1e-300)

        # at the solution t R <= ||grad of the data part|| <= Lipschitz constant
        upper = (
            2.0
            * problem.constants.lipschitz
            * (max(1.0, problem.n_records / problem.n_public) / radius)
        )
        t = brentq(excess, 0.0, upper, rtol=1e-14, maxiter=60, disp=False)
        return minimiser(float(t))

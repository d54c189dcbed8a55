"""Private solvers of strongly convex problems, as parts of larger algorithms.

What such an algorithm needs of a solver are two things: the statement about a number of solves
with a given noise (:meth:`PrivateSolver.release`), from public constants alone, and a solve.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np

from skdp._checks import check_count, check_real
from skdp.algorithms.kernel import solve_and_release
from skdp.algorithms.localized_gradient_descent import dp_localized_gd, plan_localized_gd
from skdp.algorithms.output_perturbation import solution_sensitivity
from skdp.algorithms.plan import Run
from skdp.mechanisms import GaussianMechanism, NoiseSource, SampledGaussianMechanism
from skdp.privacy.events import RepeatedEvent
from skdp.privacy.report import Release
from skdp.problems import Problem, ProblemConstants
from skdp.solvers import Solver, resolve_solver

__all__ = [
    "LocalizedGradientDescent",
    "OutputPerturbation",
    "PrivateSolver",
    "resolve_private_solver",
]


class PrivateSolver(ABC):
    """Minimises strongly convex problems privately, at a price that is fixed beforehand.

    A subclass is trusted: nothing checks that its points are private. Replace-one neighbours.
    """

    #: Whether the point is the solver's plus noise of mean 0 and of exactly the stated variance.
    is_unbiased = False

    @abstractmethod
    def release(
        self, name: str, constants: ProblemConstants, multiplier: float, count: int
    ) -> Release:
        """The statement about `count` solves of problems with these constants.

        The event must follow from `multiplier` and `count` alone and cost no more than as many
        ``GaussianEvent(multiplier)``; with sampling, no more than these if that is ignored.
        """

    @abstractmethod
    def solve(
        self,
        problem: Problem,
        multiplier: float,
        solver_rng: np.random.Generator,
        noise: NoiseSource,
    ) -> tuple[np.ndarray, float]:
        """A private point, and (roughly) the variance of a coordinate of its noise."""


class OutputPerturbation(PrivateSolver):
    """The certified solution plus noise, not projected: the mean of the noise stays 0.

    Parameters
    ----------
    solver : str, Solver or callable, default="auto"
        See :func:`skdp.solvers.resolve_solver`.
    """

    is_unbiased = True

    def __init__(self, solver: Any = "auto") -> None:
        self.solver = solver if isinstance(solver, Solver) else resolve_solver(solver)

    def release(
        self, name: str, constants: ProblemConstants, multiplier: float, count: int
    ) -> Release:
        sensitivity = solution_sensitivity(constants)[2]
        mechanism = SampledGaussianMechanism(sensitivity, multiplier, 1.0, count)
        reference = "docs/theory/bilevel.md, Lemmas 1 and 5: Kornowski 2024, Alg. 1, corrected"
        return mechanism.describe(name, constants.dimension, constants.n_records, reference)

    def solve(
        self,
        problem: Problem,
        multiplier: float,
        solver_rng: np.random.Generator,
        noise: NoiseSource,
    ) -> tuple[np.ndarray, float]:
        _, accuracy, sensitivity = solution_sensitivity(problem.constants)
        mechanism = GaussianMechanism(sensitivity, multiplier)
        run = Run(self.solver, solver_rng, noise)
        point = solve_and_release(problem, accuracy, mechanism, run, project=False)
        return point, mechanism.noise_scale**2


class LocalizedGradientDescent(PrivateSolver):
    """Localised noisy gradient descent: see :func:`skdp.algorithms.dp_localized_gd`.

    Parameters
    ----------
    n_steps : int, default=100
        Of a round.
    n_rounds : int, default=1
    sampling_rate : float, default=1.0
        Of a record, per step.
    """

    def __init__(self, n_steps: int = 100, n_rounds: int = 1, sampling_rate: float = 1.0) -> None:
        check_count("n_steps", n_steps)
        check_count("n_rounds", n_rounds)
        check_real("sampling_rate", sampling_rate, 1e-12, 1.0)
        self.n_steps, self.n_rounds, self.sampling_rate = n_steps, n_rounds, float(sampling_rate)

    def _options(self, multiplier: float) -> dict[str, Any]:
        """Steps and the noise of each, so that all of them cost ``GaussianEvent(multiplier)``."""
        return {
            "n_rounds": self.n_rounds,
            "n_steps": self.n_steps,
            "sampling_rate": self.sampling_rate,
            "noise_multiplier": multiplier * math.sqrt(self.n_steps * self.n_rounds),
        }

    def release(
        self, name: str, constants: ProblemConstants, multiplier: float, count: int
    ) -> Release:
        plan = plan_localized_gd(constants, **self._options(multiplier))
        return replace(
            plan.release(f"{name}, by a noisy gradient per step"),
            event=RepeatedEvent(plan.event, count),
        )

    def solve(
        self,
        problem: Problem,
        multiplier: float,
        solver_rng: np.random.Generator,
        noise: NoiseSource,
    ) -> tuple[np.ndarray, float]:
        found = dp_localized_gd(problem, noise=noise, **self._options(multiplier))
        deviation = found.plan.mechanism.noise_scale / problem.strong_convexity
        # averaging T steps: at most sigma^2 / (mu^2 T) asymptotically
        return found.point, deviation**2 / self.n_steps


def resolve_private_solver(inner: Any, solver: Any = "auto") -> PrivateSolver:
    """The private solver that `inner` names; `solver` is for output perturbation.

    Parameters
    ----------
    inner : {"output_perturbation", "localized_gd", "localized_sgd"} or PrivateSolver
    solver : str, Solver or callable, default="auto"
    """
    if isinstance(inner, str) and inner == "output_perturbation":
        return OutputPerturbation(solver)
    if not (isinstance(solver, str) and solver == "auto"):
        raise ValueError("solver is for inner='output_perturbation' only.")
    if isinstance(inner, PrivateSolver):
        return inner
    if isinstance(inner, str) and inner == "localized_gd":
        return LocalizedGradientDescent()
    if isinstance(inner, str) and inner == "localized_sgd":
        return LocalizedGradientDescent(sampling_rate=0.1)
    raise ValueError(
        f"inner == {inner!r}, must be 'output_perturbation', 'localized_gd', 'localized_sgd' or a "
        "PrivateSolver."
    )

"""Private solvers of strongly convex problems, as parts of larger algorithms.

An algorithm needs the cost of a number of solves with a given noise (:meth:`PrivateSolver.event`),
the statement about them from public constants (:meth:`PrivateSolver.release`), and a solve.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skdp._checks import check_count, check_real
from skdp.algorithms.bilevel.localized_descent import dp_localized_gd, plan_localized_gd
from skdp.algorithms.kernel import solution_sensitivity, solve_and_release
from skdp.algorithms.plan import Run
from skdp.mechanisms import GaussianMechanism, SampledGaussianMechanism
from skdp.privacy.events import Neighbouring, PrivacyEvent, RepeatedEvent
from skdp.privacy.report import Release
from skdp.problems import Problem, ProblemConstants


class PrivateSolver(ABC):
    """Minimises strongly convex problems privately, at a price that is fixed beforehand.

    A subclass is trusted: nothing checks that its points are private. Neighbours differ in one
    record replaced, or in one person with all its records: `neighbouring` is one of the two.
    """

    #: Whether the point is the solver's plus noise of mean 0 and of exactly the stated variance.
    is_unbiased = False

    @abstractmethod
    def event(self, multiplier: float, count: int, neighbouring: Neighbouring) -> PrivacyEvent:
        """Cost of `count` solves.

        No more than as many ``GaussianEvent(multiplier)``; with sampling, no more than these if
        that is ignored.
        """

    @abstractmethod
    def release(
        self,
        name: str,
        constants: ProblemConstants,
        multiplier: float,
        count: int,
        neighbouring: Neighbouring = Neighbouring.REPLACE_ONE,
    ) -> Release:
        """The statement about `count` solves of problems with these constants; it has the event."""

    @abstractmethod
    def solve(self, problem: Problem, multiplier: float, run: Run) -> tuple[np.ndarray, float]:
        """A private point, and (roughly) the variance of a coordinate of its noise."""


@dataclass(frozen=True, kw_only=True)
class OutputPerturbation(PrivateSolver):
    """The certified solution plus noise, not projected: the mean of the noise stays 0."""

    is_unbiased = True

    def event(self, multiplier: float, count: int, neighbouring: Neighbouring) -> PrivacyEvent:
        return SampledGaussianMechanism(1.0, multiplier, 1.0, count).event(neighbouring)

    def release(
        self,
        name: str,
        constants: ProblemConstants,
        multiplier: float,
        count: int,
        neighbouring: Neighbouring = Neighbouring.REPLACE_ONE,
    ) -> Release:
        sensitivity = solution_sensitivity(constants)[2]
        mechanism = SampledGaussianMechanism(sensitivity, multiplier, 1.0, count)
        reference = "docs/theory/bilevel.md, Lemmas 1 and 5: Kornowski 2024, Alg. 1, corrected"
        sizes = constants.dimension, constants.n_records
        return mechanism.describe(name, *sizes, reference, neighbouring)

    def solve(self, problem: Problem, multiplier: float, run: Run) -> tuple[np.ndarray, float]:
        _, accuracy, sensitivity = solution_sensitivity(problem.constants)
        mechanism = GaussianMechanism(sensitivity, multiplier)
        point = solve_and_release(problem, accuracy, mechanism, run, project=False)
        return point, mechanism.noise_scale**2


@dataclass(frozen=True, kw_only=True)
class LocalizedGradientDescent(PrivateSolver):
    """A round of noisy gradient descent: see :func:`skdp.algorithms.plan_localized_gd`."""

    n_steps: int = 50
    sampling_rate: float = 1.0

    def __post_init__(self) -> None:
        check_count("n_steps", self.n_steps)
        check_real("sampling_rate", self.sampling_rate, 1e-12, 1.0)

    def _options(self, multiplier: float) -> dict[str, Any]:
        """Steps and the noise of each, so that all of them cost ``GaussianEvent(multiplier)``."""
        return {
            "n_steps": self.n_steps,
            "sampling_rate": self.sampling_rate,
            "noise_multiplier": multiplier * math.sqrt(self.n_steps),
        }

    def event(self, multiplier: float, count: int, neighbouring: Neighbouring) -> PrivacyEvent:
        noise = multiplier * math.sqrt(self.n_steps)
        each = SampledGaussianMechanism(1.0, noise, self.sampling_rate, self.n_steps)
        return RepeatedEvent(each.event(neighbouring), count)

    def release(
        self,
        name: str,
        constants: ProblemConstants,
        multiplier: float,
        count: int,
        neighbouring: Neighbouring = Neighbouring.REPLACE_ONE,
    ) -> Release:
        plan = plan_localized_gd(constants, **self._options(multiplier))
        event = self.event(multiplier, count, neighbouring)
        return replace(plan.releases[0], name=f"{name}, by a noisy gradient per step", event=event)

    def solve(self, problem: Problem, multiplier: float, run: Run) -> tuple[np.ndarray, float]:
        found = dp_localized_gd(problem, run=run, **self._options(multiplier))
        deviation = found.plan.mechanism.noise_scale / problem.strong_convexity
        # averaging T steps: at most sigma^2 / (mu^2 T) asymptotically
        return found.point, deviation**2 / self.n_steps


#: Private solvers by name.
SOLVERS: dict[str, PrivateSolver] = {
    "output_perturbation": OutputPerturbation(),
    "localized_gd": LocalizedGradientDescent(),
    "localized_sgd": LocalizedGradientDescent(sampling_rate=0.1),
}


def resolve_private_solver(inner: Any) -> PrivateSolver:
    """Return the private solver that `inner` names, or `inner` if it is one."""
    if isinstance(inner, PrivateSolver):
        return inner
    if isinstance(inner, str) and inner in SOLVERS:
        return SOLVERS[inner]
    raise ValueError(f"inner == {inner!r}, must be one of {list(SOLVERS)} or a PrivateSolver.")

"""Output perturbation: release the exact solution plus noise calibrated to its sensitivity.

Algorithms 1 and 6 of Lowy and Razaviyayn (2021), with the errata corrected, and Algorithm 1
of Zhang et al. (2022) are one kernel step (:mod:`skdp.algorithms.kernel`) with different
constants.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

from skdp._checks import check_option
from skdp._runtime import without_warnings
from skdp.algorithms.kernel import (
    ACCURACY_FRACTION,
    certifiable_accuracy,
    solution_sensitivity,
    solve_and_release,
)
from skdp.algorithms.output.published import lowy_gap, zhang_minimisation_noise
from skdp.algorithms.plan import Plan, Result, Run
from skdp.mechanisms import AdditiveMechanism, GaussianMechanism, calibrated_mechanism
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import Neighbouring
from skdp.privacy.report import Release
from skdp.problems import ROUNDING_SLACK, Problem, ProblemConstants

#: Published calibrations: Lowy and Razaviyayn's Alg. 1 (strongly convex by the user's alpha)
#: and Alg. 6 (convex, regularised for the purpose), and Zhang et al.'s Alg. 1.
PlanCalibration = Literal["analytic", "lowy2021_alg1", "lowy2021_alg6", "zhang2022_alg1"]


@dataclass(frozen=True, kw_only=True)
class OutputPerturbationPlan(Plan):
    """One solve of a problem with the given constants, and its noise."""

    constants: ProblemConstants
    neighbouring: Neighbouring
    #: Bound on the movement of the exact solution.
    exact_sensitivity: float
    #: Certified distance of the solver's point to the exact solution.
    accuracy: float
    #: Calibrated to ``exact_sensitivity + 2 accuracy``, or 2 R if that is smaller.
    mechanism: AdditiveMechanism
    #: Where the noise scale comes from.
    reference: str

    shown = (
        *("alpha=constants.strong_convexity", "constants.radius", "constants.lipschitz"),
        *("constants.gradient_diameter", "constants.smoothness", "exact_sensitivity", "accuracy"),
    )

    @property
    def releases(self) -> tuple[Release, ...]:
        sizes = self.constants.dimension, self.constants.n_records
        where = self.reference, self.neighbouring
        return (self.mechanism.describe("coefficients", *sizes, *where),)

    def run(self, data: Problem, run: Run) -> Result:
        """Solve a problem whose constants are those of the plan, or smaller; add noise."""
        self._check(data)
        with without_warnings():
            point = solve_and_release(data, self.accuracy, self.mechanism, run)
        return Result(point=point, plan=self)

    def _check(self, problem: Problem) -> None:
        """Refuse a problem that the noise and the statement are not for."""
        planned, actual = self.constants, problem.constants
        sizes = [(each.dimension, each.n_records) for each in (planned, actual)]
        if sizes[0] != sizes[1]:
            raise ValueError(f"The plan is for (dimension, n_records) {sizes[0]}, not {sizes[1]}.")
        if problem.of_persons != (self.neighbouring.unit == "user"):
            raise ValueError("Records of persons go with a relation of persons.")
        if not self.neighbouring.is_replaced and not problem.has_nominal_size:
            raise ValueError("The problem needs n_public: under add/remove n is not public.")
        # points of neighbours are this far apart; constants have a slack of 1e-9 for last bits
        moved = actual.argmin_sensitivity(self.neighbouring) + 2.0 * self.accuracy
        if actual.in_ball:
            moved = min(moved, 2.0 * actual.longest)
        if moved > self.mechanism.sensitivity * (1.0 + 1e-12):
            raise ValueError("The sensitivity of the problem exceeds that of the plan.")


def output_perturbation(
    problem: Problem,
    budget: PrivacyBudget,
    *,
    neighbouring: Neighbouring | str = Neighbouring.REPLACE_ONE,
    run: Run | None = None,
    **options: Any,
) -> Result:
    """Minimise a regularised empirical risk privately.

    Parameters
    ----------
    problem : Problem
    budget : PrivacyBudget
    neighbouring : Neighbouring or str, default="replace_one"
    run : Run, optional
        Solver, randomness and noise.
    **options
        `calibration` and `accuracy_fraction` of :func:`plan_output_perturbation`.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.algorithms import output_perturbation
    >>> from skdp.privacy import PrivacyBudget
    >>> from skdp.problems import Ball, DeclaredProblem
    >>> problem = DeclaredProblem(
    ...     lambda w: (0.5 * float(w @ w), w), dimension=2, lipschitz=2.0, smoothness=1.0,
    ...     strong_convexity=1.0, domain=Ball(2.0),
    ... )
    >>> result = output_perturbation(problem, PrivacyBudget(1.0, 1e-6))
    >>> result.point.shape
    (2,)
    """
    if not isinstance(budget, PrivacyBudget):
        raise TypeError(f"budget must be a PrivacyBudget, got {budget!r}.")
    relation = Neighbouring(neighbouring)
    relation = relation.of_persons if problem.of_persons else relation
    plan = plan_output_perturbation(problem.constants, budget, neighbouring=relation, **options)
    return plan.run(problem, run or Run())


def plan_output_perturbation(
    constants: ProblemConstants,
    budget: PrivacyBudget,
    *,
    neighbouring: Neighbouring = Neighbouring.REPLACE_ONE,
    calibration: PlanCalibration = "analytic",
    accuracy_fraction: float = ACCURACY_FRACTION,
    share: float = 1.0,
) -> OutputPerturbationPlan:
    """Choose the accuracy and the noise from public constants.

    With Delta the argmin sensitivity and tau the solver's accuracy, two neighbours' points
    differ by at most ``Delta + 2 tau``, and by at most 2 R where both lie in the ball.

    Parameters
    ----------
    constants : ProblemConstants
    budget : PrivacyBudget
    neighbouring : Neighbouring, default=Neighbouring.REPLACE_ONE
    calibration : str, default="analytic"
        - "analytic": the tight kernel (docs/theory/output_perturbation.md, Lemma 2):
          ``tau = accuracy_fraction Delta / 2`` and the analytic Gaussian mechanism.
        - "lowy2021_alg1", "lowy2021_alg6": published accuracies and noise, errata corrected
          (L1, L5, L8, L25), with the certificate in place of an expectation (L3).
        - "zhang2022_alg1": ``sigma = 4 L sqrt(2 log(2.5/delta)) / (mu n epsilon)``.

        The published ones cover replace-one neighbours only.
    accuracy_fraction : float, default=1e-3
    share : float, default=1.0
        Part of the budget that may be spent (:func:`skdp.mechanisms.calibrated_mechanism`); with
        "analytic" only.

    Raises
    ------
    ValueError
        If the sensitivity is unbounded or the calibration's proof does not cover the case.
    """
    exact, accuracy, sensitivity = solution_sensitivity(constants, neighbouring, accuracy_fraction)
    if share != 1.0 and calibration != "analytic":
        raise ValueError(f"calibration == {calibration!r} spends the whole budget.")
    if calibration == "analytic":
        mechanism = calibrated_mechanism(budget, sensitivity, share=share)
        reference = "Lowy & Razaviyayn 2021, Prop. 3.1 with the analytic Gaussian mechanism"
        if budget.is_pure:
            reference = "Lowy & Razaviyayn 2021, Prop. 3.1, delta = 0"
    else:
        check_option("calibration", calibration, get_args(PlanCalibration))
        if not neighbouring.is_replaced:
            raise ValueError(
                f"calibration {calibration!r} is proven for neighbouring='replace_one' only."
            )
        exact, accuracy, mechanism, reference = _published(constants, budget, calibration)
    return OutputPerturbationPlan(
        constants=constants,
        neighbouring=neighbouring,
        exact_sensitivity=exact,
        accuracy=accuracy,
        mechanism=mechanism,
        reference=reference,
    )


def _published(
    constants: ProblemConstants, budget: PrivacyBudget, calibration: PlanCalibration
) -> tuple[float, float, AdditiveMechanism, str]:
    """Return exact sensitivity, accuracy, noise and reference of a published algorithm."""
    lipschitz, mu, n = constants.lipschitz, constants.strong_convexity, constants.effective_records
    exact, floor = 2.0 * lipschitz / (mu * n) * ROUNDING_SLACK, certifiable_accuracy(constants)
    if calibration == "zhang2022_alg1":
        if budget.is_pure:
            raise ValueError("delta == 0: Zhang et al. (2022), Alg. 1 needs delta > 0.")
        accuracy = max(0.5 * exact, floor)
        published = zhang_minimisation_noise(budget, lipschitz, mu, n)
        mechanism = GaussianMechanism(exact + 2.0 * accuracy, published / (2.0 * exact))
        return exact, accuracy, mechanism, "Zhang et al. 2022, Alg. 1"
    sizes = (budget, constants.dimension, n, lipschitz, constants.smoothness)
    if calibration == "lowy2021_alg1":
        gap = lowy_gap(*sizes, strong_convexity=mu)
        reference = "Lowy & Razaviyayn 2021, Alg. 1"
    else:
        gap = lowy_gap(*sizes, radius=constants.radius)
        reference = "Lowy & Razaviyayn 2021, Alg. 6, corrected (errata L1, L8, L13, L25)"
    accuracy = max(math.sqrt(2.0 * gap / mu), floor)
    return exact, accuracy, calibrated_mechanism(budget, exact + 2.0 * accuracy, "zwb"), reference

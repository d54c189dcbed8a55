"""Output perturbation: release the exact solution plus noise of the size it can move.

Algorithms 1 and 6 of Lowy and Razaviyayn (2021), with the errata corrected, and Algorithm 1
of Zhang et al. (2022) are one kernel step (:mod:`skdp.algorithms.kernel`) with different
constants. The plan is a function of public numbers alone; it is made before a record is
read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from scipy.optimize import minimize_scalar

from skdp.algorithms.kernel import solve_and_release
from skdp.algorithms.published import lowy_gap, zhang_minimisation_noise
from skdp.mechanisms import (
    AdditiveMechanism,
    GaussianMechanism,
    NoiseSource,
    calibrated_mechanism,
)
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import Neighbouring
from skdp.privacy.report import Release
from skdp.problems import (
    ROUNDING_SLACK,
    Design,
    EmpiricalRisk,
    Problem,
    ProblemConstants,
)
from skdp.problems.silence import without_warnings
from skdp.solvers import Solver, resolve_solver

__all__ = [
    "OutputPerturbationPlan",
    "OutputPerturbationResult",
    "certifiable_accuracy",
    "choose_alpha",
    "output_perturbation",
    "plan_output_perturbation",
    "smoothed_risk",
    "solution_sensitivity",
    "utility_bound",
]

#: Published calibrations: Lowy and Razaviyayn's Alg. 1 (strongly convex by the user's alpha)
#: and Alg. 6 (convex, regularised for the purpose), and Zhang et al.'s Alg. 1.
PlanCalibration = Literal["analytic", "lowy2021_alg1", "lowy2021_alg6", "zhang2022_alg1"]

#: What the automatic choices minimise a bound on: the risk on the records, or on others from
#: the same distribution.
Objective = Literal["empirical", "population"]

#: Solver accuracy as a fraction of half the sensitivity: costs 0.1 % of noise.
ACCURACY_FRACTION = 1e-3


@dataclass(frozen=True)
class OutputPerturbationPlan:
    """Everything that is decided before the records are read.

    Attributes
    ----------
    constants : ProblemConstants
    neighbouring : Neighbouring
    exact_sensitivity : float
        Bound on the movement of the exact solution.
    accuracy : float
        Certified distance of the solver's point to the exact solution.
    mechanism : AdditiveMechanism
        Calibrated to ``exact_sensitivity + 2 accuracy``, or 2 R if that is smaller.
    reference : str
        Where the noise scale comes from.
    """

    constants: ProblemConstants
    neighbouring: Neighbouring
    exact_sensitivity: float
    accuracy: float
    mechanism: AdditiveMechanism
    reference: str

    def release(self, name: str = "coefficients") -> Release:
        """The statement about what leaves the algorithm."""
        constants = self.constants
        return self.mechanism.describe(
            name, constants.dimension, constants.n_records, self.reference, self.neighbouring
        )

    def to_dict(self) -> dict[str, Any]:
        """The public numbers of the plan as plain Python types."""
        constants = self.constants
        return {
            "alpha": constants.strong_convexity,
            "radius": constants.radius,
            "lipschitz": constants.lipschitz,
            "gradient_diameter": constants.gradient_diameter,
            "smoothness": constants.smoothness,
            "exact_sensitivity": self.exact_sensitivity,
            "accuracy": self.accuracy,
        }


@dataclass(frozen=True)
class OutputPerturbationResult:
    """A private point and the plan that it was made by.

    Attributes
    ----------
    point : ndarray of shape (dimension,)
    plan : OutputPerturbationPlan
    """

    point: np.ndarray
    plan: OutputPerturbationPlan


def output_perturbation(
    problem: Problem,
    budget: PrivacyBudget,
    *,
    neighbouring: Neighbouring | str = Neighbouring.REPLACE_ONE,
    calibration: PlanCalibration = "analytic",
    accuracy_fraction: float = ACCURACY_FRACTION,
    solver: Any = "auto",
    solver_rng: np.random.Generator | None = None,
    noise: NoiseSource | None = None,
    verbose: int = 0,
) -> OutputPerturbationResult:
    """Minimise a regularised empirical risk privately.

    Parameters
    ----------
    problem : Problem
    budget : PrivacyBudget
    neighbouring : Neighbouring or str, default="replace_one"
    calibration, accuracy_fraction
        See :func:`plan_output_perturbation`.
    solver : str, Solver or callable, default="auto"
        See :func:`skdp.solvers.resolve_solver`.
    solver_rng : numpy.random.Generator, optional
        The solver's own randomness.
    noise : NoiseSource, optional
        Default: the operating system's secure generator.
    verbose : int, default=0
        See :func:`skdp.solvers.solve_certified`.

    Returns
    -------
    OutputPerturbationResult
    """
    if not isinstance(budget, PrivacyBudget):
        raise TypeError(f"budget must be a PrivacyBudget, got {budget!r}.")
    if Neighbouring(neighbouring) is Neighbouring.ADD_REMOVE and not problem.has_nominal_size:
        raise ValueError(
            "Under add/remove the number of records is not public: the problem must be a "
            "FiniteSumProblem with n_public."
        )
    plan = plan_output_perturbation(
        problem.constants,
        budget,
        neighbouring=Neighbouring(neighbouring),
        calibration=calibration,
        accuracy_fraction=accuracy_fraction,
    )
    solver = solver if isinstance(solver, Solver) else resolve_solver(solver)
    with without_warnings():
        point = solve_and_release(
            problem,
            plan.accuracy,
            plan.mechanism,
            solver,
            np.random.default_rng() if solver_rng is None else solver_rng,
            NoiseSource() if noise is None else noise,
            verbose,
        )
    return OutputPerturbationResult(point, plan)


def plan_output_perturbation(
    constants: ProblemConstants,
    budget: PrivacyBudget,
    *,
    neighbouring: Neighbouring = Neighbouring.REPLACE_ONE,
    calibration: PlanCalibration = "analytic",
    accuracy_fraction: float = ACCURACY_FRACTION,
    share: float = 1.0,
) -> OutputPerturbationPlan:
    """Fix the accuracy and the noise from public constants.

    With Delta the argmin sensitivity and tau the solver's accuracy, two neighbours' points
    differ by at most ``Delta + 2 tau``, and by at most 2 R where both lie in the ball.

    Parameters
    ----------
    constants : ProblemConstants
    budget : PrivacyBudget
    neighbouring : Neighbouring, default=Neighbouring.REPLACE_ONE
    calibration : str, default="analytic"
        - "analytic": the tight kernel (Zhang et al. specification, section 2.7):
          ``tau = accuracy_fraction Delta / 2`` and the analytic Gaussian mechanism.
        - "lowy2021_alg1", "lowy2021_alg6": published accuracies and noise, errata corrected
          (E1, E5, E8, E25), with the certificate in place of an expectation (E3).
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
        return OutputPerturbationPlan(
            constants, neighbouring, exact, accuracy, mechanism, reference
        )
    if neighbouring is not Neighbouring.REPLACE_ONE:
        raise ValueError(
            f"calibration {calibration!r} is proven for neighbouring='replace_one' only."
        )
    lipschitz, mu, n = constants.lipschitz, constants.strong_convexity, constants.effective_records
    exact, floor = 2.0 * lipschitz / (mu * n) * ROUNDING_SLACK, certifiable_accuracy(constants)
    if calibration == "zhang2022_alg1":
        if budget.is_pure:
            raise ValueError("delta == 0: Zhang et al. (2022), Alg. 1 needs delta > 0.")
        accuracy = max(0.5 * exact, floor)
        sensitivity = exact + 2.0 * accuracy
        published = zhang_minimisation_noise(budget, lipschitz, mu, n)
        mechanism = GaussianMechanism(sensitivity, published / (2.0 * exact))
        return OutputPerturbationPlan(
            constants, neighbouring, exact, accuracy, mechanism, "Zhang et al. 2022, Alg. 1"
        )
    sizes = (budget, constants.dimension, n, lipschitz, constants.smoothness)
    if calibration == "lowy2021_alg1":
        gap = lowy_gap(*sizes, strong_convexity=mu)
        reference = "Lowy & Razaviyayn 2021, Alg. 1"
    elif calibration == "lowy2021_alg6":
        gap = lowy_gap(*sizes, radius=constants.radius)
        reference = "Lowy & Razaviyayn 2021, Alg. 6, corrected (E1, E8, E13, E25)"
    else:
        raise ValueError(f"Unknown calibration {calibration!r}.")
    accuracy = max(math.sqrt(2.0 * gap / mu), floor)
    mechanism = calibrated_mechanism(budget, exact + 2.0 * accuracy, "zwb")
    return OutputPerturbationPlan(constants, neighbouring, exact, accuracy, mechanism, reference)


def solution_sensitivity(
    constants: ProblemConstants,
    neighbouring: Neighbouring = Neighbouring.REPLACE_ONE,
    accuracy_fraction: float = ACCURACY_FRACTION,
) -> tuple[float, float, float]:
    """How far the exact solution moves, how well to solve, how far the solver's point moves.

    Delta, ``tau = accuracy_fraction Delta / 2`` or what is certifiable, and ``Delta + 2 tau``, or
    2 R if that is smaller (Zhang et al. specification, section 2.7).

    Parameters
    ----------
    constants : ProblemConstants
    neighbouring : Neighbouring, default=Neighbouring.REPLACE_ONE
    accuracy_fraction : float, default=1e-3

    Returns
    -------
    exact, accuracy, sensitivity : float

    Raises
    ------
    ValueError
        If the sensitivity is unbounded or no accuracy is certifiable.
    """
    exact = constants.argmin_sensitivity(neighbouring)
    if not math.isfinite(exact):
        raise ValueError(
            "The loss has no Lipschitz constant on the whole space: bound the domain by a ball."
        )
    if not math.isfinite(constants.smoothness):
        raise ValueError(
            "The loss is not smooth: no accuracy is known to be certifiable on all data. Use its "
            "Moreau envelope, loss.smoothed(width), with a public width."
        )
    accuracy = max(0.5 * accuracy_fraction * exact, certifiable_accuracy(constants))
    sensitivity = exact + 2.0 * accuracy
    if constants.in_ball:
        # points lie in the domain, which may be larger than the ball that holds solutions
        sensitivity = min(sensitivity, 2.0 * (constants.domain_radius or constants.radius))
    return exact, accuracy, sensitivity


def certifiable_accuracy(constants: ProblemConstants) -> float:
    """Public accuracy that a certificate in double precision reaches with a wide margin.

    Eight times a bound on the rounding terms of :func:`skdp.solvers.certify`. For condition
    numbers beyond 1e14 it exceeds the radius: any point of the ball will do then, and the
    noise hides all of it.
    """
    radius, mu = constants.radius, constants.strong_convexity
    gap = 2.0 * (constants.dimension + 8) * float(np.finfo(np.float64).eps) * radius
    curvature = constants.total_smoothness + constants.size_ratio * constants.lipschitz / radius
    return 8.0 * ((2.0 * constants.gradient_rounding + curvature * gap) / mu + gap)


def utility_bound(
    plan: OutputPerturbationPlan,
    risk: EmpiricalRisk,
    design: Design,
    comparator_norm: float,
    *,
    second_moment: float | None = None,
    penalty: float | None = None,
    objective: Objective = "empirical",
) -> float:
    """Public bound on the expected excess risk over the best w of norm `comparator_norm`.

    The cost of the penalty, plus that of the noise, plus that of the solver:
    ``(B^2 / 2) alpha h / (alpha + h) + (T / 2) X^2 v + L tau`` for a smooth loss, with B the
    comparator's norm, ``h = loss.curvature * second_moment``, T the bound on the trace of the
    loss's curvature, X the norm bound of the rows and v the variance of one coordinate of the
    noise; plus the difference of population and empirical risk, if asked for. Proof:
    docs/theory/output_perturbation.md, "Utility".

    Parameters
    ----------
    plan : OutputPerturbationPlan
    risk : EmpiricalRisk
    design : Design
    comparator_norm : float
        B.
    second_moment : float, optional
        Assumed bound on the largest eigenvalue of the rows' second moment, at most ``X^2``;
        default: that of isotropic rows.
    penalty : float, optional
        The part of the plan's alpha that is there for privacy only; default: all of it. The rest
        belongs to the objective, to which the noise adds ``(alpha - penalty) / 2`` times its
        mean square.
    objective : {"empirical", "population"}, default="empirical"
    """
    constants = plan.constants
    penalty = constants.strong_convexity if penalty is None else penalty
    square = plan.mechanism.mean_square(constants.dimension)
    bound = risk.penalty_cost(design, penalty, comparator_norm, second_moment)
    bound += risk.noise_cost(design, square / constants.dimension)
    bound += constants.lipschitz * plan.accuracy
    bound += 0.5 * (constants.strong_convexity - penalty) * square
    if objective == "population":
        bound += risk.generalisation_cost(design, constants)
    return bound


def smoothed_risk(
    risk: EmpiricalRisk,
    design: Design,
    alpha: float,
    *,
    budget: PrivacyBudget,
    neighbouring: Neighbouring = Neighbouring.REPLACE_ONE,
    coef_norm: float | None = None,
) -> EmpiricalRisk:
    """The smooth risk that stands for a non-smooth one; public inputs only.

    Its width is a small part of the standard deviation of the noise in the margins, see
    :meth:`skdp.problems.EmpiricalRisk.smoothed`.
    """
    if risk.is_smooth:
        return risk
    constants = risk.constants(design, alpha, risk.radius(design, alpha, coef_norm))
    mechanism = calibrated_mechanism(budget, constants.argmin_sensitivity(neighbouring))
    variance = mechanism.mean_square(constants.dimension) / constants.dimension
    return risk.smoothed(design.feature_norm * math.sqrt(variance))


@lru_cache(maxsize=256)
def choose_alpha(
    risk: EmpiricalRisk,
    design: Design,
    *,
    budget: PrivacyBudget,
    neighbouring: Neighbouring = Neighbouring.REPLACE_ONE,
    coef_norm: float | None = None,
    objective: Objective = "empirical",
) -> float:
    """Regularisation that minimises :func:`utility_bound`; public inputs only.

    The bound is evaluated for a reference design: isotropic rows and a
    comparator of the norm ``risk.reference_norm(design)``, or `coef_norm` if that is smaller.
    Other data cost utility, never privacy.

    Parameters
    ----------
    risk : EmpiricalRisk
    design : Design
    budget : PrivacyBudget
    neighbouring : Neighbouring, default=Neighbouring.REPLACE_ONE
    coef_norm : float, optional
        Radius of the ball.
    objective : {"empirical", "population"}, default="empirical"

    Returns
    -------
    float
    """
    comparator = risk.reference_norm(design)
    if coef_norm is not None:
        comparator = min(comparator, coef_norm)
    unit = design.feature_norm**2

    def bound(log_alpha: float) -> float:
        alpha = unit * math.exp(log_alpha)
        smooth = smoothed_risk(
            risk, design, alpha, budget=budget, neighbouring=neighbouring, coef_norm=coef_norm
        )
        constants = smooth.constants(design, alpha, smooth.radius(design, alpha, coef_norm))
        plan = plan_output_perturbation(constants, budget, neighbouring=neighbouring)
        return math.log(utility_bound(plan, smooth, design, comparator, objective=objective))

    # the bound has flat pieces where the sensitivity is capped, so bracket it first
    grid = np.linspace(-25.0, 15.0, 41)
    best = int(np.argmin([bound(point) for point in grid]))
    bracket = (grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)])
    finest = minimize_scalar(bound, bounds=bracket, method="bounded", options={"xatol": 1e-3})
    return unit * math.exp(float(finest.x))

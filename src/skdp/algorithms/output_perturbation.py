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
    FiniteSumProblem,
    Loss,
    ProblemConstants,
    bounded_problem_radius,
    generalised_linear_constants,
)
from skdp.solvers import Solver, resolve_solver

__all__ = [
    "OutputPerturbationPlan",
    "OutputPerturbationResult",
    "choose_alpha",
    "output_perturbation",
    "plan_output_perturbation",
    "utility_bound",
]

#: Published calibrations: Lowy and Razaviyayn's Alg. 1 (strongly convex by the user's alpha)
#: and Alg. 6 (convex, regularised for the purpose), and Zhang et al.'s Alg. 1.
PlanCalibration = Literal["analytic", "lowy2021_alg1", "lowy2021_alg6", "zhang2022_alg1"]

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
        return Release(
            name=name,
            mechanism=self.mechanism.name,
            sensitivity=self.mechanism.sensitivity,
            noise_scale=self.mechanism.noise_scale,
            dimension=self.constants.dimension,
            n_records=self.constants.n_records,
            reference=self.reference,
            event=self.mechanism.event,
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
    problem: FiniteSumProblem,
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
    problem : FiniteSumProblem
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
    if Neighbouring(neighbouring) is Neighbouring.ADD_REMOVE and not problem.has_nominal_size:
        raise ValueError(
            "Under add/remove the problem needs n_public: the number of records is not public."
        )
    plan = plan_output_perturbation(
        problem.constants,
        budget,
        neighbouring=Neighbouring(neighbouring),
        calibration=calibration,
        accuracy_fraction=accuracy_fraction,
    )
    point = solve_and_release(
        problem,
        plan.accuracy,
        plan.mechanism,
        resolve_solver(solver) if not isinstance(solver, Solver) else solver,
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

    Raises
    ------
    ValueError
        If the sensitivity is unbounded or the calibration's proof does not cover the case.
    """
    if not math.isfinite(constants.argmin_sensitivity(neighbouring)):
        raise ValueError(
            "The loss has no Lipschitz constant on the whole space: bound the domain by a ball."
        )
    if not math.isfinite(constants.smoothness):
        raise ValueError(
            "Non-smooth losses are not supported: no accuracy is known to be certifiable."
        )
    floor = _certifiable_accuracy(constants)
    if calibration == "analytic":
        exact = constants.argmin_sensitivity(neighbouring)
        accuracy = max(0.5 * accuracy_fraction * exact, floor)
        sensitivity = exact + 2.0 * accuracy
        if constants.in_ball:
            # points lie in the domain, which may be larger than the ball that holds solutions
            sensitivity = min(sensitivity, 2.0 * (constants.domain_radius or constants.radius))
        mechanism = calibrated_mechanism(budget, sensitivity)
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
    lipschitz, mu, n = constants.lipschitz, constants.strong_convexity, constants.n_records
    exact = 2.0 * lipschitz / (mu * n) * ROUNDING_SLACK
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


def _certifiable_accuracy(constants: ProblemConstants) -> float:
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
    loss: Loss,
    feature_norm: float,
    comparator_norm: float,
    second_moment: float,
) -> float:
    """Public bound on the expected excess mean loss over the best w of norm `comparator_norm`.

    ``(B^2 / 2) alpha h / (alpha + h) + (T / 2) X^2 v + L tau`` with B the comparator's norm,
    ``h = loss.curvature * second_moment``, T the bound on the trace of the loss's curvature,
    X the norm bound of the rows and v the variance of one coordinate of the noise.

    The first term is the cost of the penalty (compare with the minimiser shrunk by
    ``h / (alpha + h)``). The second is that of the noise: isotropic noise moves each margin
    by a variable of mean 0 and variance at most ``X^2 v``, whatever the dimension. The third
    is that of the solver. Proof: docs/theory/output_perturbation.md, "Utility".

    Parameters
    ----------
    plan : OutputPerturbationPlan
    loss : Loss
    feature_norm : float
        X.
    comparator_norm : float
        B.
    second_moment : float
        Assumed bound on the largest eigenvalue of the rows' second moment, at most ``X^2``.
    """
    constants = plan.constants
    alpha, h = constants.strong_convexity, loss.curvature * second_moment
    variance = plan.mechanism.mean_square(constants.dimension) / constants.dimension
    return (
        0.5 * comparator_norm**2 * alpha * h / (alpha + h)
        + 0.5 * loss.curvature_trace * feature_norm**2 * variance
        + constants.lipschitz * plan.accuracy
    )


def reference_norm(loss: Loss, feature_norm: float, row_width: int) -> float:
    """Norm of a good predictor on the reference design of :func:`choose_alpha`."""
    return loss.margin_scale * math.sqrt(row_width) / feature_norm


@lru_cache(maxsize=256)
def choose_alpha(
    loss: Loss,
    *,
    feature_norm: float,
    row_width: int,
    n_records: int,
    block_size: int,
    budget: PrivacyBudget,
    neighbouring: Neighbouring,
    coef_norm: float | None = None,
) -> float:
    """Regularisation that minimises :func:`utility_bound`; public inputs only.

    The bound is evaluated for a reference design: rows without a preferred direction
    (largest eigenvalue of the second moment ``feature_norm^2 / row_width``) and a comparator
    whose margins have the standard deviation ``loss.margin_scale`` on them, hence the norm
    ``margin_scale sqrt(row_width) / feature_norm``, or `coef_norm` if that is smaller. Other
    data cost utility, never privacy.

    Parameters
    ----------
    loss : Loss
    feature_norm : float
        Norm bound of a row, intercept feature included.
    row_width, n_records, block_size : int
        As in :func:`skdp.problems.generalised_linear_constants`.
    budget : PrivacyBudget
    neighbouring : Neighbouring
    coef_norm : float, optional
        Radius of the ball.

    Returns
    -------
    float
    """
    second_moment = feature_norm**2 / row_width
    comparator = reference_norm(loss, feature_norm, row_width)
    if coef_norm is not None:
        comparator = min(comparator, coef_norm)

    def bound(log_alpha: float) -> float:
        alpha = feature_norm**2 * math.exp(log_alpha)
        constants = generalised_linear_constants(
            loss,
            alpha=alpha,
            radius=bounded_problem_radius(loss, feature_norm, alpha, coef_norm),
            feature_norm=feature_norm,
            row_width=row_width,
            n_records=n_records,
            block_size=block_size,
        )
        plan = plan_output_perturbation(constants, budget, neighbouring=neighbouring)
        return math.log(utility_bound(plan, loss, feature_norm, comparator, second_moment))

    # the bound has flat pieces where the sensitivity is capped, so bracket it first
    grid = np.linspace(-25.0, 15.0, 41)
    best = int(np.argmin([bound(point) for point in grid]))
    bracket = (grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)])
    finest = minimize_scalar(bound, bounds=bracket, method="bounded", options={"xatol": 1e-3})
    return feature_norm**2 * math.exp(float(finest.x))

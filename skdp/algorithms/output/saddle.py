"""Output perturbation of a saddle point: solve, certify, add noise, project.

Algorithm 3 of Zhang et al. (2022) with a certificate in place of a probability, one joint
release in the norm of the moduli in place of two with half of the budget each, block
Lipschitz constants and any budget. Proofs: docs/theory/saddle.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from skdp._checks import check_option, check_positive
from skdp._runtime import without_warnings
from skdp.algorithms.kernel import ACCURACY_FRACTION
from skdp.algorithms.output.published import zhang_saddle_noise
from skdp.algorithms.plan import Plan, Result, Run
from skdp.mechanisms import AdditiveMechanism, GaussianMechanism, calibrated_mechanism
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import Neighbouring
from skdp.privacy.report import Release
from skdp.problems import ROUNDING_SLACK, SaddleConstants, SaddleProblem
from skdp.solvers import certifiable_saddle_accuracy, resolve_solver, solve_certified

#: The released blocks. A second release would cost a second budget.
SaddleRelease = Literal["both", "x", "y"]
SaddleCalibration = Literal["analytic", "paper", "zhang2022_alg4"]


@dataclass(frozen=True, kw_only=True)
class SaddleResult(Result):
    """Released blocks of a saddle point, and the plan; the point is y if it is alone, else x."""

    #: None if not released.
    x: np.ndarray | None
    y: np.ndarray | None


@dataclass(frozen=True, kw_only=True)
class SaddleOutputPerturbationPlan(Plan):
    """One solve of a saddle problem with the given constants, and its noise."""

    constants: SaddleConstants
    released: SaddleRelease
    #: Sensitivity of the exact solution: in the norm
    #: ``||(x, y)||_M = sqrt(mu_x ||x||^2 + mu_y ||y||^2)`` if both blocks are released, else the
    #: Euclidean one of the block.
    exact_sensitivity: float
    #: Certified distance of the solver's pair to the saddle point, in the norm M.
    accuracy: float
    #: For the block or, if both are released, for ``(sqrt(mu_x) x, sqrt(mu_y) y)``.
    mechanism: AdditiveMechanism
    reference: str

    shown = (
        *("released", "mu_x=constants.x.modulus", "mu_y=constants.y.modulus"),
        *("lipschitz_x=constants.x.lipschitz", "lipschitz_y=constants.y.lipschitz"),
        *("gradient_ranges=constants.ranges", "exact_sensitivity", "accuracy"),
        *("noise_scale_x", "noise_scale_y"),
    )

    @property
    def noise_scale_x(self) -> float:
        """Noise scale of the coordinates of x; 0 if x is not released."""
        return self.unit("x") * self.mechanism.noise_scale

    @property
    def noise_scale_y(self) -> float:
        """Noise scale of the coordinates of y; 0 if y is not released."""
        return self.unit("y") * self.mechanism.noise_scale

    def noise_deviation(self, block: Literal["x", "y"]) -> float:
        """Standard deviation of the noise in a coordinate of a block; 0 if not released."""
        variance = self.mechanism.mean_square(self.dimension) / self.dimension
        return self.unit(block) * math.sqrt(variance)

    def unit(self, block: Literal["x", "y"]) -> float:
        """Unit of the mechanism in the coordinates of a block; 0 if it is not released."""
        if self.released == "both":
            return 1.0 / math.sqrt(getattr(self.constants, block).modulus)
        return float(self.released == block)

    @property
    def dimension(self) -> int:
        """Number of coordinates that are released."""
        blocks = ("x", "y") if self.released == "both" else (self.released,)
        return sum(getattr(self.constants, block).dimension for block in blocks)

    def release(
        self, name: str | None = None, neighbouring: Neighbouring = Neighbouring.REPLACE_ONE
    ) -> Release:
        """State the release of the plan; `name` replaces that of the blocks."""
        default = "(sqrt(mu_x) x, sqrt(mu_y) y)" if self.released == "both" else self.released
        n_records = self.constants.n_records
        size, reference = self.dimension, self.reference
        return self.mechanism.describe(name or default, size, n_records, reference, neighbouring)

    @property
    def releases(self) -> tuple[Release, ...]:
        return (self.release(),)

    @without_warnings()
    def run(self, data: SaddleProblem, run: Run) -> SaddleResult:
        """Solve a problem whose constants are those of the plan, or smaller; add noise.

        The pair is certified to half of the accuracy, so that another solver changes it by no
        more than the accuracy. Projecting the noisy blocks is post-processing.
        """
        self._check(data)
        solver = resolve_solver(run.solver, saddle=True)
        pair = solve_certified(data, 0.5 * self.accuracy, solver, rng=run.rng, verbose=run.verbose)
        release = self.mechanism.release
        if self.released == "y":
            y = data.domain_y.project(release(pair.y, run.noise))
            return SaddleResult(point=y, plan=self, x=None, y=y)
        if self.released == "x":
            x = data.domain_x.project(release(pair.x, run.noise))
            return SaddleResult(point=x, plan=self, x=x, y=None)
        root_x, root_y = map(math.sqrt, self.constants.moduli)
        noisy = release(np.concatenate([root_x * pair.x, root_y * pair.y]), run.noise)
        x, y = np.split(noisy, [self.constants.x.dimension])
        x, y = data.project(x / root_x, y / root_y)
        return SaddleResult(point=x, plan=self, x=x, y=y)

    def _check(self, problem: SaddleProblem) -> None:
        """Refuse a problem that the noise and the statement are not for."""
        both = self.constants, problem.constants
        planned, actual = ((each.x.dimension, each.y.dimension, each.n_records) for each in both)
        if planned != actual:
            raise ValueError(f"The plan is for (dimensions, n_records) {planned}, not {actual}.")
        # what points of neighbours can be apart grows with each of these
        limits, numbers = (
            [each.sensitivity, each.sensitivity_x, each.sensitivity_y]
            + [n for b in (each.x, each.y) for n in (b.lipschitz, b.diameter, 1.0 / b.modulus)]
            for each in both
        )
        if any(n > limit * (1.0 + 1e-12) for n, limit in zip(numbers, limits, strict=True)):
            raise ValueError("The sensitivity of the problem exceeds that of the plan.")


def plan_saddle_output_perturbation(
    constants: SaddleConstants,
    budget: PrivacyBudget,
    *,
    release: SaddleRelease = "both",
    calibration: SaddleCalibration = "analytic",
    accuracy_fraction: float = ACCURACY_FRACTION,
    share: float = 1.0,
) -> SaddleOutputPerturbationPlan:
    """Fix the accuracy and the noise from public constants; replace-one neighbours.

    Two neighbours' certified pairs differ by at most ``Delta + 2 tau`` in the norm M, Delta being
    ``constants.sensitivity``. For a joint release, noise that is isotropic in the
    coordinates ``(sqrt(mu_x) x, sqrt(mu_y) y)`` therefore protects both blocks with one budget:
    ``sigma_x = c (Delta + 2 tau) / sqrt(mu_x)``, sigma_y with mu_y (docs/theory/saddle.md,
    Lemma 2), spherical Laplace noise for delta = 0. A block alone moves by
    at most ``Delta_x + 2 tau / sqrt(mu_x)`` with Delta_x of ``constants.sensitivity_x``.

    Parameters
    ----------
    constants : SaddleConstants
    budget : PrivacyBudget
    release : {"both", "x", "y"}, default="both"
        The released blocks, with the whole budget. The smaller bounds of single blocks must not be
        used for two releases with one budget.
    calibration : {"analytic", "paper", "zhang2022_alg4"}, default="analytic"
        "paper": noise and accuracy as published, with ``L = sqrt(L_x^2 + L_y^2)``, for comparison.
        Both blocks: Alg. 3, ``sigma_x = (8 L / (n eps)) sqrt(2 log(5 / delta) / (mu_x mu))``. One
        block: ``(4 L / (n eps)) sqrt(2 log(2.5 / delta) / (mu_x mu))``, the noise of a phase
        of the convex-strongly-concave variant. ``mu = min(mu_x, mu_y)``. "zhang2022_alg4": the
        noise of Alg. 3 for one block, a phase of Alg. 4 or 5, which spends half of the budget.
    accuracy_fraction : float, default=1e-3
    share : float, default=1.0
        Part of the budget that may be spent, see :func:`skdp.mechanisms.calibrated_mechanism`;
        with "analytic" only.

    Raises
    ------
    ValueError
        If the calibration's proof does not cover the budget, or a number makes no sense.
    """
    check_option("release", release, ("both", "x", "y"))
    check_option("calibration", calibration, ("analytic", "paper", "zhang2022_alg4"))
    check_positive(accuracy_fraction=accuracy_fraction)
    # `unit` turns distances in the norm M into those that the mechanism sees
    unit, exact, diameter = 1.0, constants.sensitivity, constants.diameter
    if release != "both":
        block = constants.x if release == "x" else constants.y
        unit, diameter = 1.0 / math.sqrt(block.modulus), block.diameter
        exact = constants.sensitivity_x if release == "x" else constants.sensitivity_y
    certifiable = certifiable_saddle_accuracy(constants)
    if calibration == "analytic":
        if not exact > 0:
            raise ValueError("The released blocks depend on no record: their sensitivity is 0.")
        accuracy = max(0.5 * accuracy_fraction * exact / unit, certifiable)
        sensitivity = min(exact + 2.0 * accuracy * unit, diameter)
        mechanism = calibrated_mechanism(budget, sensitivity, share=share)
        reference = "Alg. 3 with one joint release in the norm of the moduli"
        if release != "both":
            reference = f"Lemma 4.5, block {release}, with block Lipschitz constants"
        reference += ", delta = 0" if budget.is_pure else " and the analytic Gaussian mechanism"
    elif share != 1.0 or (release == "both" and calibration == "zhang2022_alg4"):
        raise ValueError(f"calibration == {calibration!r} has its own shares of the budget.")
    elif budget.is_pure:
        raise ValueError("delta == 0: Zhang et al. (2022), Alg. 3 to 5 need delta > 0.")
    else:
        lipschitz = math.hypot(constants.x.lipschitz, constants.y.lipschitz)
        moduli, n = constants.moduli, constants.n_records
        # in the norm M the saddle point moves by 2 L / (n sqrt(mu)), the solver may err by half
        distance = 2.0 * lipschitz / (n * math.sqrt(min(moduli))) * ROUNDING_SLACK
        accuracy, exact = max(0.5 * distance, certifiable), distance * unit
        primal_only = calibration == "paper" and release != "both"
        scales = zhang_saddle_noise(budget, lipschitz, *moduli, n, primal_only=primal_only)
        # for both blocks: the two published scales are one in the coordinates of the norm M
        scale = {"x": scales[0], "y": scales[1], "both": scales[0] * math.sqrt(moduli[0])}[release]
        # published for a sensitivity of 2 exact; the noise grows with the accuracy beyond it
        mechanism = GaussianMechanism(exact + 2.0 * accuracy * unit, scale / (2.0 * exact))
        reference = "Alg. 3" if release == "both" else "Alg. 4 and 5"
        if primal_only:
            reference = "section 4.3 (convex-strongly-concave)"
    return SaddleOutputPerturbationPlan(
        constants=constants,
        released=release,
        exact_sensitivity=exact,
        accuracy=accuracy,
        mechanism=mechanism,
        reference=f"Zhang et al. 2022, {reference}",
    )


def saddle_output_perturbation(
    problem: SaddleProblem,
    budget: PrivacyBudget,
    *,
    run: Run | None = None,
    **options: Any,
) -> SaddleResult:
    """Solve a saddle problem privately.

    Parameters
    ----------
    problem : SaddleProblem
    budget : PrivacyBudget
    run : Run, optional
        Its solver is the name of a saddle solver, a SaddleSolver or a callable
        ``(problem, accuracy) -> (x, y)``. Nothing else of the solve is kept.
    **options
        Those of :func:`plan_saddle_output_perturbation`.
    """
    plan = plan_saddle_output_perturbation(problem.constants, budget, **options)
    return plan.run(problem, run or Run())

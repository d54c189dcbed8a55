"""Phased output perturbation of saddle points: merely convex-concave problems.

Phase k solves the saddle problem of its block of records with ``(mu_k / 2) ||x - x_{k-1}||^2``
around the *released* point of the phase before and a fixed ``(nu / 2) ||y - c||^2``, and releases
its x. Its y is dropped. With mu_k growing, later phases stay nearer to their start and need less
noise (Zhang et al. 2022, Alg. 4; Alg. 5 is the same with x and y exchanged). Every phase spends the
whole budget, as in :mod:`skdp.algorithms.output.phased` (docs/theory/saddle.md, "Phases").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.optimize import minimize

from skdp._checks import check_count, check_non_negative, check_option
from skdp._runtime import without_warnings
from skdp._types import Calibration
from skdp.algorithms.kernel import ACCURACY_FRACTION
from skdp.algorithms.output import rules
from skdp.algorithms.output.blocks import block_remarks, block_sizes, phase_runs
from skdp.algorithms.output.published import zhang_schedule
from skdp.algorithms.output.saddle import (
    SaddleCalibration,
    SaddleOutputPerturbationPlan,
    SaddleResult,
    plan_saddle_output_perturbation,
)
from skdp.algorithms.plan import Plan, Run
from skdp.mechanisms import calibrated_mechanism
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import Neighbouring
from skdp.privacy.report import Release
from skdp.problems import SaddleConstants, SaddleProblem
from skdp.problems.saddle import block_sensitivity, joint_sensitivity
from skdp.solvers import resolve_solver

#: The released blocks. "joint": x of all phases, and y of the last one.
PhasedRelease = Literal["x", "y", "joint"]


class SaddlePhase(NamedTuple):
    """Numbers of one phase that bounds on the utility depend on.

    Regularisation and modulus (of the whole objective) are those of the released block (mu_k) and
    of the other one (nu); sensitivity and mean square of the noise those of the released block.
    """

    n_records: int
    regularisation: float
    other_regularisation: float
    modulus: float
    other_modulus: float
    sensitivity: float
    mean_square: float


#: A public function that schedules are compared by; smaller is better.
UtilityBound = Callable[[Sequence[SaddlePhase]], float]


@dataclass(frozen=True, kw_only=True)
class SaddleUtilityBound:
    """Bound on the expected excess of ``max over y of F`` at the released x, F the population's.

    ``(mu_1/2) D_x^2 + (nu/2) D_y^2 + sum_k 2 Lam_k^2/n_k
    + sum_{k < K} (L_y/2) sqrt(mu_{k+1}/nu) Delta_k
    + sum_{k >= 2} (mu_k/2) V_{k-1} + L_x sqrt(V_K) + L_y (coupling / nu) Delta_K`` with
    ``Lam_k^2 = L_x^2/mu_k + L_y^2/nu``, Delta_k the sensitivity and V_k the mean square of the
    noise (Zhang et al. 2022, with erratum Z9; the last term is not in the paper, the second sum is
    at most half of the paper's). Proof: docs/theory/saddle.md, "Phases".

    D_x and D_y are the sums of the radii and the norms of the centers; x is released.
    """

    constants: SaddleConstants

    def __call__(self, phases: Sequence[SaddlePhase]) -> float:
        x, y, first, last = self.constants.x, self.constants.y, phases[0], phases[-1]
        total = 0.5 * first.regularisation * (x.radius + x.center_norm) ** 2
        total += 0.5 * first.other_regularisation * (y.radius + y.center_norm) ** 2
        for k, phase in enumerate(phases):
            square = x.lipschitz**2 / phase.modulus + y.lipschitz**2 / phase.other_modulus
            total += 2.0 * square / phase.n_records
            if k + 1 < len(phases):
                later = phases[k + 1]
                pull = later.regularisation / math.sqrt(later.modulus * later.other_modulus)
                total += 0.5 * y.lipschitz * pull * phase.sensitivity
            if k:
                total += 0.5 * phase.regularisation * phases[k - 1].mean_square
        total += x.lipschitz * math.sqrt(last.mean_square)
        return total + y.lipschitz * self.constants.coupling / last.other_modulus * last.sensitivity


@dataclass(frozen=True, kw_only=True)
class PhasedSaddlePlan(Plan):
    """Blocks of records, their regularisation and their noise."""

    #: One kernel step each, all with the same share of the budget; ``constants.n_records`` is the
    #: size of the block.
    phases: tuple[SaddleOutputPerturbationPlan, ...]
    #: mu_k, of the block that is released.
    regularisation: tuple[float, ...]
    #: nu, of the other block.
    other_regularisation: float
    #: The rest as of :func:`plan_phased_saddle_output_perturbation`.
    alpha: float
    released: PhasedRelease
    utility: UtilityBound
    reference: str

    shown = (
        *("released", "alpha", "lipschitz_x=last.constants.x.lipschitz"),
        *("lipschitz_y=last.constants.y.lipschitz", "gradient_ranges=last.constants.ranges"),
        *("block_sizes", "regularisation", "other_regularisation"),
        *("sensitivities=phases.mechanism.sensitivity", "noise_scales"),
        "accuracies=phases.accuracy",
    )

    @property
    def last(self) -> SaddleOutputPerturbationPlan:
        return self.phases[-1]

    @property
    def block_sizes(self) -> tuple[int, ...]:
        return tuple(phase.constants.n_records for phase in self.phases)

    @property
    def noise_scales(self) -> tuple[float, ...]:
        """Noise scale of the coordinates of the released block, phase by phase."""
        name = "noise_scale_y" if self.released == "y" else "noise_scale_x"
        return tuple(getattr(phase, name) for phase in self.phases)

    @property
    def summaries(self) -> list[SaddlePhase]:
        """The phases as `utility` sees them."""
        phases = []
        for step, mu in zip(self.phases, self.regularisation, strict=True):
            block: Literal["x", "y"] = "y" if self.released == "y" else "x"
            constants = step.constants.exchanged() if block == "y" else step.constants
            sensitivity = step.unit(block) * step.mechanism.sensitivity
            square = constants.x.dimension * step.noise_deviation(block) ** 2
            alphas = mu, self.other_regularisation
            numbers = constants.n_records, *alphas, *constants.moduli, sensitivity, square
            phases.append(SaddlePhase(*numbers))
        return phases

    def bound(self) -> float:
        return self.utility(self.summaries)

    def release(
        self, name: str | None = None, neighbouring: Neighbouring = Neighbouring.REPLACE_ONE
    ) -> Release:
        """State the release of the last point; with its event the points of all phases."""
        last = self.last.release(name, neighbouring)
        return replace(last, n_records=sum(self.block_sizes), reference=self.reference)

    @property
    def releases(self) -> tuple[Release, ...]:
        return (self.release(),)

    def remarks(self) -> tuple[str, ...]:
        return block_remarks(self.block_sizes, self.noise_scales)

    @without_warnings()
    def run(self, data: SaddleProblem, run: Run, strata: np.ndarray | None = None) -> SaddleResult:
        """Carry out the phases; `strata` are *public* labels that all blocks share equally.

        The regularisers of the problem are replaced by those of the phases, their centers stay.
        """
        solver, planned = resolve_solver(run.solver, saddle=True), sum(self.block_sizes)
        if not 0 <= data.n_records - planned < len(self.phases):  # what equal blocks leave over
            raise ValueError(f"The plan is for {planned} records, not for {data.n_records}.")
        blocks = phase_runs(run, solver, self.block_sizes, data.n_records, strata)
        domain, start, fixed = data.domain_x, data.center_x, data.center_y
        if self.released == "y":
            domain, start, fixed = data.domain_y, fixed, start
        path = [domain.project(start)]
        for phase, mu, (units, step) in zip(self.phases, self.regularisation, blocks, strict=True):
            # alpha/2 ||x||^2 + mu_k/2 ||x - c||^2 is one quadratic around a point nearer to 0
            alphas = self.alpha + mu, self.other_regularisation
            centers = path[-1] * (mu / (self.alpha + mu)), fixed
            if self.released == "y":
                alphas, centers = alphas[::-1], centers[::-1]
            block = data if units is None else data.take(units)
            block = block.with_regularisers(*alphas, *centers)
            result = phase.run(block, step)
            path.append(result.point)
            del block  # before the next one is copied
        return replace(result, plan=self, path=tuple(path[1:]))


def phased_saddle_output_perturbation(
    problem: SaddleProblem,
    budget: PrivacyBudget,
    *,
    strata: np.ndarray | None = None,
    run: Run | None = None,
    **options: Any,
) -> SaddleResult:
    """Solve a convex-concave saddle problem in private phases; replace-one neighbours.

    Parameters
    ----------
    problem : SaddleProblem
        Its regularisers are replaced by those of the phases; their centers stay: that of the
        released block is where the phases start. The strong concavity
        (convexity) of every record's function serves in place of nu.
    budget : PrivacyBudget
    strata : ndarray of shape (n,), optional
        A *public* property of the records that all blocks should have in equal proportions.
    run : Run, optional
        As in :func:`skdp.algorithms.saddle_output_perturbation`. Its `rng` also draws the
        assignment of records to blocks. The solver is copied for each phase. An object that
        cannot be copied is refused, and so is a function that refers to something that can change.
    **options
        See :func:`plan_phased_saddle_output_perturbation`; not `record_moduli`.
    """
    plan = plan_phased_saddle_output_perturbation(
        problem.constants, budget, record_moduli=problem.record_moduli, **options
    )
    return plan.run(problem, run or Run(), strata)


def plan_phased_saddle_output_perturbation(
    constants: SaddleConstants,
    budget: PrivacyBudget,
    *,
    record_moduli: tuple[float, float] = (0.0, 0.0),
    release: PhasedRelease = "x",
    alpha: float = 0.0,
    share: float = 1.0,
    calibration: Calibration = "analytic",
    utility: UtilityBound | None = None,
    n_phases: int | None = None,
) -> PhasedSaddlePlan:
    """Choose blocks and regularisation by a public bound.

    Parameters
    ----------
    constants : SaddleConstants
        Of all records; bounded domains. The moduli in it do not matter.
    budget : PrivacyBudget
    record_moduli : pair of float, default=(0.0, 0.0)
        Strong convexity in x and strong concavity in y of every record's function.
    release : {"x", "y", "joint"}, default="x"
        "x": Alg. 4, or the convex-strongly-concave variant if every record's function is
        strongly concave. "y": Alg. 5 or the mirror of that variant. "joint": "x", with a last
        phase that releases both of its blocks together.
    alpha : float, default=0.0
        Of a penalty ``(alpha / 2) ||x||^2`` on the released block, part of the objective.
    share : float, default=1.0
        Part of the budget that may be spent: Alg. 4 and 5 cost one budget with 1/2 each.
    calibration : {"analytic", "paper"}, default="analytic"
        - "analytic": the number of phases, their sizes, mu_1 and nu minimise `utility`; noise of
          the tight kernel (docs/theory/saddle.md).
        - "paper": Alg. 4 or 5 as published, ``log2(n)`` equal blocks and ``mu_k = mu 2^k``, which
          spends half of the budget; or the convex-strongly-concave variant.
    utility : callable from a list of :class:`SaddlePhase` to float, optional
        Default: :class:`SaddleUtilityBound` for a solution on the boundary of the domain.
    n_phases : int, optional
        Default: the planner chooses. "paper" prescribes it.

    Raises
    ------
    ValueError
        If a domain is not bounded, or a number makes no sense.
    """
    check_option("release", release, ("x", "y", "joint"))
    check_option("calibration", calibration, ("analytic", "paper"))
    check_non_negative(alpha=alpha)
    for modulus in record_moduli:
        check_non_negative(record_moduli=modulus)
    if n_phases is not None:
        check_count("n_phases", n_phases, 1, 255)
    if not (math.isfinite(constants.x.radius) and math.isfinite(constants.y.radius)):
        raise ValueError("Phases need bounded domains.")
    mirrored, joint = release == "y", release == "joint"
    view = constants.exchanged() if mirrored else constants  # x is the released block in it
    convexity, concavity = record_moduli[::-1] if mirrored else record_moduli
    convexity += alpha
    bound = SaddleUtilityBound(constants=view) if utility is None else utility

    def plan(
        sizes: list[int], mus: list[float], nu: float, kind: SaddleCalibration, reference: str
    ) -> PhasedSaddlePlan:
        phases = []
        for k, (size, mu) in enumerate(zip(sizes, mus, strict=True)):
            # any point of the domain may be the center
            x, y = (
                replace(block, modulus=modulus, center_norm=max(block.radius, block.center_norm))
                for block, modulus in ((view.x, convexity + mu), (view.y, concavity + nu))
            )
            step = replace(view, n_records=size, x=x, y=y)
            phases.append(
                plan_saddle_output_perturbation(
                    step.exchanged() if mirrored else step,
                    budget,
                    release="both" if joint and k + 1 == len(sizes) else "y" if mirrored else "x",
                    calibration=kind,
                    share=share,
                )
            )
        return PhasedSaddlePlan(
            phases=tuple(phases),
            regularisation=tuple(mus),
            other_regularisation=nu,
            alpha=alpha,
            released=release,
            utility=bound,
            reference=reference,
        )

    reference = f"Zhang et al. 2022, Alg. {5 if mirrored else 4}"
    if calibration == "analytic":
        search = _ScheduleSearch(
            constants=view,
            budget=budget,
            convexity=convexity,
            concavity=concavity,
            share=share,
            utility=bound,
            joint=joint,
        )
        found = plan(*search.best(n_phases), "analytic", reference)
        noise = "delta = 0" if budget.is_pure else "analytic Gaussian mechanism"
        reference += f" with planned blocks and parallel composition, {noise}"
        one = len(found.phases) == 1
        return replace(found, reference=found.phases[0].reference if one else reference)
    if joint:
        raise ValueError("calibration='paper' releases one block: 'x' (Alg. 4) or 'y' (Alg. 5).")
    n_records, radius = constants.n_records, max(constants.x.radius, constants.y.radius)
    lipschitz = math.hypot(constants.x.lipschitz, constants.y.lipschitz)
    # the condition of section 4.3; a concavity below it is left unused
    is_strong = concavity > 0 and concavity * radius * math.sqrt(n_records) >= lipschitz
    dimension = view.x.dimension if is_strong else max(view.x.dimension, view.y.dimension)
    variant = "c-sc" if is_strong else "alg4"
    sizes, mus = zhang_schedule(budget, variant, lipschitz, radius, n_records, dimension)
    if is_strong:
        return plan(sizes, mus, 0.0, "paper", "Zhang et al. 2022, section 4.3")
    return plan(sizes, mus, 0.5 * mus[0], "zhang2022_alg4", reference)


@dataclass(frozen=True, kw_only=True)
class _ScheduleSearch:
    """Search of the schedule with the smallest bound; x is the block that is released.

    In plain numbers, because a schedule is tried a few thousand times: noise scales are those of
    the plan that is made of the best one.
    """

    constants: SaddleConstants
    budget: PrivacyBudget
    convexity: float
    concavity: float
    share: float
    utility: UtilityBound
    joint: bool

    def best(self, n_phases: int | None) -> tuple[list[int], list[float], float]:
        """Return the sizes of the blocks, mu_k and nu."""
        best, best_value = None, math.inf
        n_records = self.constants.n_records
        counts = range(1, rules.MOST_PHASES + 1) if n_phases is None else (n_phases,)
        schedules = (*rules.GROWING_SCHEDULES, *rules.SADDLE_SCHEDULES)
        for growth, decrease in schedules[: 1 if n_phases == 1 else None]:
            stale, least = 0, math.inf
            for count in counts:
                sizes = block_sizes(n_records, count, decrease)
                if sizes[-1] < 1 or stale == rules.SADDLE_PATIENCE:
                    break
                value, mus, nu = self._tuned(sizes, growth, None)
                if self.concavity > 0:  # then there need not be a regulariser
                    plain = self._tuned(sizes, growth, 0.0)
                    if plain[0] <= 1.01 * value:
                        value, mus, nu = plain
                stale = 0 if value < least else stale + 1
                least = min(least, value)
                if value < best_value * (1.0 - 1e-9):
                    best, best_value = (sizes, mus, nu), value
        if best is None:
            raise ValueError(f"n_phases == {n_phases} for {n_records} records.")
        return best

    def _tuned(
        self, sizes: list[int], growth: float, nu: float | None
    ) -> tuple[float, list[float], float]:
        """Tune mu_1 and, if it is None, nu; return the bound, mu_k and nu."""
        constants = self.constants
        balance = math.sqrt(2.0 / constants.n_records)
        suited = [
            max(block.lipschitz, 1e-300) / (block.radius or 1.0) * balance
            for block in (constants.x, constants.y)
        ]
        if nu is None and constants.y.diameter == 0:
            nu = suited[1]  # there is one y, so any regulariser will do
        start = [math.log(number) for number in suited[: 2 if nu is None else 1]]
        weakest = [begin + math.log(rules.WEAKEST) for begin in start]

        def regularisation(logs: Sequence[float]) -> tuple[list[float], float]:
            first, *rest = (
                math.exp(min(max(pair), 300.0)) for pair in zip(logs, weakest, strict=True)
            )
            return [first * growth**k for k in range(len(sizes))], rest[0] if nu is None else nu

        def bound(logs: Sequence[float]) -> float:
            return self.utility(self._phases(sizes, *regularisation(logs)))

        simplex = np.vstack([start, np.array(start) + rules.SADDLE_STEP * np.eye(len(start))])
        options = {
            "initial_simplex": simplex,
            "xatol": rules.SADDLE_ACCURACY,
            "fatol": math.inf,
            "maxfev": rules.SADDLE_EVALUATIONS,
        }
        with np.errstate(all="ignore"):  # bounds may be infinite
            found = minimize(bound, start, method="Nelder-Mead", options=options)
        return float(found.fun), *regularisation([float(number) for number in found.x])

    def _phases(self, sizes: list[int], mus: list[float], nu: float) -> list[SaddlePhase]:
        constants, phases = self.constants, []
        for k, (size, mu) in enumerate(zip(sizes, mus, strict=True)):
            moduli = self.convexity + mu, self.concavity + nu
            joint = self.joint and k + 1 == len(sizes)
            if joint:
                sensitivity = joint_sensitivity(constants.ranges, moduli, size)
                sensitivity /= math.sqrt(moduli[0])
            else:
                sensitivity = block_sensitivity(constants.ranges, moduli, size)
            sensitivity = min((1.0 + ACCURACY_FRACTION) * sensitivity, constants.x.diameter)
            square = self._noise_units[joint] * sensitivity**2
            phases.append(SaddlePhase(size, mu, nu, *moduli, sensitivity, square))
        return phases

    @cached_property
    def _noise_units(self) -> tuple[float, float]:
        """Mean square of the noise of x, alone and jointly released, for a sensitivity of 1."""
        unit = calibrated_mechanism(self.budget, 1.0, share=self.share)
        x, y = self.constants.x.dimension, self.constants.y.dimension
        return unit.mean_square(x), unit.mean_square(x + y) * x / (x + y)

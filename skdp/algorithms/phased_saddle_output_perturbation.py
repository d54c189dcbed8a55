"""Phased output perturbation of saddle points: merely convex-concave problems.

The records are split into disjoint blocks. Phase k solves the saddle problem of its block with
``(mu_k / 2) ||x - x_{k-1}||^2`` around the *released* point of the phase before and a fixed
regulariser ``(nu / 2) ||y - c||^2``, and releases its x by the kernel: solve, certify, add noise,
project. Its y is dropped. With mu_k growing, later phases stay nearer to their start and need
less noise (Zhang et al. 2022, Alg. 4; Alg. 5 is the same with x and y exchanged).

Every phase spends the whole budget: neighbours differ in one record, hence in one block, and
all that later phases see of that block is its released point (parallel composition,
specification section 3.2, review Z-9 and Z-10). Positions matter for that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from scipy.optimize import minimize

from skdp._checks import check_count, check_non_negative, check_option, check_real
from skdp.algorithms.blocks import (
    GROWING_SCHEDULES,
    assign_blocks,
    block_sizes,
    spawn_generators,
)
from skdp.algorithms.output_perturbation import ACCURACY_FRACTION
from skdp.algorithms.published import zhang_schedule
from skdp.algorithms.saddle_output_perturbation import (
    SaddleCalibration,
    SaddleOutputPerturbationPlan,
    SaddleRelease,
    plan_saddle_output_perturbation,
    solve_and_release_saddle,
)
from skdp.mechanisms import AdditiveMechanism, NoiseSource, calibrated_mechanism
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.report import Release
from skdp.problems import SaddleConstants, SaddleProblem
from skdp.problems.saddle import block_sensitivity, joint_sensitivity
from skdp.problems.silence import without_warnings
from skdp.solvers import SaddleSolver, resolve_solver
from skdp.solvers.copying import require_copyable

__all__ = [
    "PhasedSaddlePlan",
    "PhasedSaddleResult",
    "SaddlePhase",
    "SaddleUtilityBound",
    "phased_saddle_output_perturbation",
    "plan_phased_saddle_output_perturbation",
]

#: The released blocks. "joint": x of all phases, and y of the last one.
PhasedRelease = Literal["x", "y", "joint"]

_MAX_PHASES = 24
#: Those of minimisation, and steps between blocks of about equal size: the terms of y do not
#: fall with mu_k, only with the size of the blocks.
_SCHEDULES = (*GROWING_SCHEDULES, (8.0, 1.0), (64.0, 2.0))
#: Least regularisers, in units of those that suit records without noise: smaller ones would need an
#: accuracy beyond double precision.
_WEAKEST = 1e-7
#: Numbers of phases in a row without a lower bound that end the search of a schedule.
_PATIENCE = 2


class SaddlePhase(NamedTuple):
    """One phase as bounds on the utility see it; "released" is the block that is released.

    Attributes
    ----------
    n_records : int
    regularisation, other_regularisation : float
        Of the released block (mu_k) and of the other one (nu).
    modulus, other_modulus : float
        Of the whole objective in them.
    sensitivity : float
        Of the released block, solver error included.
    mean_square : float
        Of its noise.
    """

    n_records: int
    regularisation: float
    other_regularisation: float
    modulus: float
    other_modulus: float
    sensitivity: float
    mean_square: float


class UtilityBound(Hashable, Protocol):
    """A public, hashable function that plans are compared by; smaller is better."""

    def __call__(self, phases: Sequence[SaddlePhase]) -> float: ...


@dataclass(frozen=True)
class SaddleUtilityBound:
    """Bound on the expected excess of ``max over y of F`` at the released x, F the population's.

    ``(mu_1/2) D_x^2 + (nu/2) D_y^2 + sum_k 2 Lam_k^2/n_k
    + sum_{k < K} (L_y/2) sqrt(mu_{k+1}/nu) Delta_k
    + sum_{k >= 2} (mu_k/2) V_{k-1} + L_x sqrt(V_K) + L_y (ell_xy / nu) Delta_K`` with
    ``Lam_k^2 = L_x^2/mu_k + L_y^2/nu``, Delta_k the sensitivity and V_k the mean square of the
    noise (Zhang et al. 2022 specification, section 3.5 and E9; the last term is not in the
    paper, the second sum is at most half of the paper's). Proof: docs/theory/saddle.md, "Phases".

    D_x and D_y are the sums of the radii and the norms of the centers.

    Parameters
    ----------
    constants : SaddleConstants
        x is the block that is released.
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
        response = self.constants.coupling / last.other_modulus
        return total + y.lipschitz * response * last.sensitivity


@dataclass(frozen=True)
class PhasedSaddlePlan:
    """Everything that is decided before the records are read.

    Attributes
    ----------
    phases : tuple of SaddleOutputPerturbationPlan
        One kernel step each, all with the same share of the budget; ``constants.n_records`` is
        the size of the block.
    regularisation : tuple of float
        mu_k, of the block that is released.
    other_regularisation : float
        nu, of the other block.
    alpha : float
        Of the penalty on the released block that is part of the objective.
    released : {"x", "y", "joint"}
    reference : str
    """

    phases: tuple[SaddleOutputPerturbationPlan, ...]
    regularisation: tuple[float, ...]
    other_regularisation: float
    alpha: float
    released: PhasedRelease
    reference: str

    @property
    def block_sizes(self) -> tuple[int, ...]:
        return tuple(phase.constants.n_records for phase in self.phases)

    @property
    def noise_scales(self) -> tuple[float, ...]:
        """Noise scale of the coordinates of the released block, phase by phase."""
        if self.released == "y":
            return tuple(phase.noise_scale_y for phase in self.phases)
        return tuple(phase.noise_scale_x for phase in self.phases)

    def release(self, name: str | None = None) -> Release:
        """The statement about the last point; with its event the points of all phases."""
        last = self.phases[-1].release(name)
        return replace(last, n_records=sum(self.block_sizes), reference=self.reference)

    def to_dict(self) -> dict[str, Any]:
        """The public numbers of the plan as plain Python types."""
        constants = self.phases[-1].constants
        return {
            "released": self.released,
            "alpha": self.alpha,
            "lipschitz_x": constants.x.lipschitz,
            "lipschitz_y": constants.y.lipschitz,
            "gradient_ranges": [list(pair) for pair in constants.ranges],
            "block_sizes": list(self.block_sizes),
            "regularisation": list(self.regularisation),
            "other_regularisation": self.other_regularisation,
            "sensitivities": [phase.mechanism.sensitivity for phase in self.phases],
            "noise_scales": list(self.noise_scales),
            "accuracies": [phase.accuracy for phase in self.phases],
        }


@dataclass(frozen=True)
class PhasedSaddleResult:
    """Private blocks, the released points of all phases, and the plan.

    Attributes
    ----------
    x, y : ndarray or None
        None if not released.
    path : tuple of ndarray
        The released blocks of all phases; they may be published together.
    plan : PhasedSaddlePlan
    """

    x: np.ndarray | None
    y: np.ndarray | None
    path: tuple[np.ndarray, ...]
    plan: PhasedSaddlePlan


def phased_saddle_output_perturbation(
    problem: SaddleProblem,
    budget: PrivacyBudget,
    *,
    release: PhasedRelease = "x",
    alpha: float = 0.0,
    share: float = 1.0,
    calibration: Literal["analytic", "paper"] = "analytic",
    utility: UtilityBound | None = None,
    n_phases: int | None = None,
    strata: np.ndarray | None = None,
    solver: str | SaddleSolver | Callable[..., Any] = "auto",
    solver_rng: np.random.Generator | None = None,
    noise: NoiseSource | None = None,
    verbose: int = 0,
) -> PhasedSaddleResult:
    """Solve a convex-concave saddle problem in private phases.

    Parameters
    ----------
    problem : SaddleProblem
        Its regularisers are replaced by those of the phases; their centers stay: that of the
        released block is where the phases start. The strong concavity
        (convexity) of every record's function serves in place of nu.
    budget : PrivacyBudget
    release : {"x", "y", "joint"}, default="x"
        "x": Alg. 4, or the convex-strongly-concave variant if every record's function is
        strongly concave. "y": Alg. 5 or the mirror of that variant. "joint": "x", with a last
        phase that releases both of its blocks together.
    alpha : float, default=0.0
        Of a penalty ``(alpha / 2) ||x||^2`` on the released block, part of the objective.
    share : float, default=1.0
        Part of the budget that may be spent (:func:`skdp.mechanisms.calibrated_mechanism`): Alg. 4
        and Alg. 5 on the same records cost one budget with 1/2 each.
    calibration, utility, n_phases
        See :func:`plan_phased_saddle_output_perturbation`.
    strata : ndarray of shape (n,), optional
        A *public* property of the records that all blocks should have in equal proportions.
    solver : str, SaddleSolver or callable ``(problem, accuracy) -> (x, y)``, default="auto"
        Copied for each phase. Refused if it cannot be copied, or if it is a function that refers to
        something that can change.
    solver_rng : numpy.random.Generator, optional
        The solver's own randomness; also draws the assignment of records to blocks.
    noise : NoiseSource, optional
        Default: the operating system's secure generator.
    verbose : int, default=0
        See :func:`skdp.solvers.solve_certified`.

    Returns
    -------
    PhasedSaddleResult

    Notes
    -----
    Replace-one neighbours only.
    """
    chosen = resolve_solver(solver, saddle=True)
    plan = plan_phased_saddle_output_perturbation(
        problem.constants,
        budget,
        record_moduli=problem.record_moduli,
        release=release,
        alpha=alpha,
        share=share,
        calibration=calibration,
        utility=utility,
        n_phases=n_phases,
    )
    if len(plan.phases) > 1:
        require_copyable(chosen)
    rng = np.random.default_rng() if solver_rng is None else solver_rng
    noise = NoiseSource() if noise is None else noise
    assignment = assign_blocks(rng, problem.n_records, plan.block_sizes, strata)
    mirrored = release == "y"
    start, fixed = problem.center_x, problem.center_y
    domain = problem.domain_y if mirrored else problem.domain_x
    if mirrored:
        start, fixed = fixed, start
    path, x, y = [domain.project(start)], None, None
    generators = spawn_generators(rng, len(plan.phases))
    with without_warnings():
        for k, (phase, mu, generator) in enumerate(
            zip(plan.phases, plan.regularisation, generators, strict=True)
        ):
            # alpha/2 ||x||^2 + mu_k/2 ||x - c||^2 is one quadratic around a point nearer to 0
            alphas = alpha + mu, plan.other_regularisation
            centers = path[-1] * (mu / (alpha + mu)), fixed
            if mirrored:
                alphas, centers = alphas[::-1], centers[::-1]
            block = problem
            if plan.block_sizes[0] < problem.n_records:
                block = problem.take(np.flatnonzero(assignment == k))
            block = block.with_regularisers(*alphas, *centers)
            x, y = solve_and_release_saddle(block, phase, chosen, generator, noise, verbose)
            released = y if mirrored else x
            assert released is not None
            path.append(released)
            del block  # before the next one is copied
    return PhasedSaddleResult(x, y, tuple(path[1:]), plan)


def plan_phased_saddle_output_perturbation(
    constants: SaddleConstants,
    budget: PrivacyBudget,
    *,
    record_moduli: tuple[float, float] = (0.0, 0.0),
    release: PhasedRelease = "x",
    alpha: float = 0.0,
    share: float = 1.0,
    calibration: Literal["analytic", "paper"] = "analytic",
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
    release, alpha, share
        See :func:`phased_saddle_output_perturbation`.
    calibration : {"analytic", "paper"}, default="analytic"
        - "analytic": the number of phases, their sizes, mu_1 and nu minimise `utility`; noise of
          the tight kernel (Zhang et al. 2022 specification, sections 2.7 and 3.5).
        - "paper": Alg. 4 or 5 as printed, ``log2(n)`` equal blocks and ``mu_k = mu 2^k``, which
          spends half of the budget; or the convex-strongly-concave variant. With the certificate
          in place of a failure probability.
    utility : callable, optional
        Hashable. Default: :class:`SaddleUtilityBound` for a solution on the boundary of the domain.
    n_phases : int, optional
        Default: the planner chooses. "paper" prescribes it.

    Returns
    -------
    PhasedSaddlePlan

    Raises
    ------
    ValueError
        If a domain is not bounded, or a number makes no sense.
    """
    check_option("release", release, ("x", "y", "joint"))
    check_non_negative(alpha=alpha)
    for modulus in record_moduli:
        check_non_negative(record_moduli=modulus)
    check_real("share", share, 0.0, 1.0, closed="right")
    if n_phases is not None:
        check_count("n_phases", n_phases, 1, 255)
    if not (math.isfinite(constants.x.radius) and math.isfinite(constants.y.radius)):
        raise ValueError("Phases need bounded domains.")
    mirrored = release == "y"
    view = constants.exchanged() if mirrored else constants  # x is the released block in it
    convexity, concavity = record_moduli[::-1] if mirrored else record_moduli
    convexity += alpha

    def phase(
        size: int, mu: float, nu: float, kind: SaddleCalibration, block: SaddleRelease
    ) -> SaddleOutputPerturbationPlan:
        # any point of the domain may be the center
        x, y = (
            replace(block, modulus=modulus, center_norm=max(block.radius, block.center_norm))
            for block, modulus in ((view.x, convexity + mu), (view.y, concavity + nu))
        )
        stated = replace(constants, n_records=size, x=y if mirrored else x, y=x if mirrored else y)
        return plan_saddle_output_perturbation(
            stated, budget, release=block, calibration=kind, share=share
        )

    def plan(
        mus: Sequence[float], sizes: Sequence[int], nu: float, kind: SaddleCalibration, name: str
    ) -> PhasedSaddlePlan:
        blocks: list[SaddleRelease] = ["y" if mirrored else "x"] * len(sizes)
        if release == "joint":
            blocks[-1] = "both"
        phases = tuple(
            phase(size, mu, nu, kind, block)
            for size, mu, block in zip(sizes, mus, blocks, strict=True)
        )
        return PhasedSaddlePlan(phases, tuple(mus), nu, alpha, release, name)

    if calibration == "paper":
        if release == "joint":
            raise ValueError(
                "calibration='paper' releases one block: 'x' (Alg. 4) or 'y' (Alg. 5)."
            )
        lipschitz = math.hypot(constants.x.lipschitz, constants.y.lipschitz)
        radius = max(constants.x.radius, constants.y.radius)
        # the condition of section 4.3; a concavity below it is left unused
        strong = concavity * radius * math.sqrt(constants.n_records) >= lipschitz
        variant = "c-sc" if concavity > 0 and strong else "alg4"
        dimension = view.x.dimension
        if variant == "alg4":
            dimension = max(dimension, view.y.dimension)
        published = zhang_schedule(
            budget, variant, lipschitz, radius, constants.n_records, dimension
        )
        mus: Sequence[float] = [
            published.regularisation * 2.0**k for k in range(1, published.n_phases + 1)
        ]
        sizes: Sequence[int] = [published.block_records] * published.n_phases
        if variant == "c-sc":
            return plan(mus, sizes, 0.0, "paper", "Zhang et al. 2022, section 4.3")
        reference = f"Zhang et al. 2022, Alg. {5 if mirrored else 4}"
        return plan(mus, sizes, published.regularisation, "zhang2022_alg4", reference)
    check_option("calibration", calibration, ("analytic", "paper"))
    if utility is None:
        utility = SaddleUtilityBound(view)
    joint = release == "joint"
    schedule = _Schedules(view, budget, convexity, concavity, share, utility, joint)
    sizes, mus, nu = _best_schedule(schedule, n_phases)
    noise = "delta = 0" if budget.is_pure else "analytic Gaussian mechanism"
    chosen = plan(
        mus,
        sizes,
        nu,
        "analytic",
        f"Zhang et al. 2022, Alg. {5 if mirrored else 4} with planned blocks and parallel "
        f"composition, {noise}",
    )
    if len(sizes) == 1:
        chosen = replace(chosen, reference=chosen.phases[0].reference)
    return chosen


@dataclass(frozen=True)
class _Schedules:
    """The search for a schedule; x is the block that is released.

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

    def best(self, n_phases: int | None) -> tuple[tuple[int, ...], tuple[float, ...], float]:
        """Sizes of the blocks, mu_k and nu."""
        best, best_value = None, math.inf
        n_records = self.constants.n_records
        counts = range(1, _MAX_PHASES + 1) if n_phases is None else (n_phases,)
        for growth, decrease in _SCHEDULES:
            stale, least = 0, math.inf
            for count in counts:
                sizes = block_sizes(n_records, count, decrease)
                if sizes[-1] < 1 or stale == _PATIENCE:
                    break
                value, mus, nu = self._tuned(sizes, growth, None)
                if self.concavity > 0:  # then there need not be a regulariser
                    plain = self._tuned(sizes, growth, 0.0)
                    if plain[0] <= 1.01 * value:
                        value, mus, nu = plain
                stale = 0 if value < least else stale + 1
                least = min(least, value)
                if value < best_value * (1.0 - 1e-9):
                    best, best_value = (tuple(sizes), tuple(mus), nu), value
        if best is None:
            raise ValueError(f"n_phases == {n_phases} for {n_records} records.")
        return best

    def _tuned(
        self, sizes: list[int], growth: float, fixed: float | None
    ) -> tuple[float, list[float], float]:
        constants = self.constants
        balance = math.sqrt(2.0 / constants.n_records)
        suited = [
            max(block.lipschitz, 1e-300) / (block.radius or 1.0) * balance
            for block in (constants.x, constants.y)
        ]
        if fixed is None and constants.y.diameter == 0:
            fixed = suited[1]  # there is one y, so any regulariser will do
        start = [math.log(number) for number in suited[: 2 if fixed is None else 1]]

        def split(logs: Sequence[float]) -> tuple[list[float], float]:
            first, *rest = (
                math.exp(min(max(number, begin + math.log(_WEAKEST)), 300.0))
                for number, begin in zip(logs, start, strict=True)
            )
            return [first * growth**k for k in range(len(sizes))], rest[
                0
            ] if fixed is None else fixed

        def bound(logs: Sequence[float]) -> float:
            return self.utility(self._phases(sizes, *split(logs)))

        simplex = np.vstack([start, np.array(start) + 3.0 * np.eye(len(start))])
        options = {"initial_simplex": simplex, "xatol": 0.02, "fatol": math.inf, "maxfev": 200}
        with np.errstate(all="ignore"):  # bounds may be infinite
            found = minimize(bound, start, method="Nelder-Mead", options=options)
        return float(found.fun), *split([float(number) for number in found.x])

    def _phases(self, sizes: list[int], mus: list[float], nu: float) -> list[SaddlePhase]:
        constants, phases = self.constants, []
        for k, (size, mu) in enumerate(zip(sizes, mus, strict=True)):
            moduli = self.convexity + mu, self.concavity + nu
            if self.joint and k + 1 == len(sizes):
                moved = joint_sensitivity(constants.ranges, moduli, size) / math.sqrt(moduli[0])
                square = self._joint_square
            else:
                moved = block_sensitivity(constants.ranges, moduli, size)
                square = self._square
            moved = min((1.0 + ACCURACY_FRACTION) * moved, constants.x.diameter)
            phases.append(SaddlePhase(size, mu, nu, *moduli, moved, square * moved**2))
        return phases

    @cached_property
    def _square(self) -> float:
        """Mean square of the noise of x for a sensitivity of 1."""
        return self._unit.mean_square(self.constants.x.dimension)

    @cached_property
    def _joint_square(self) -> float:
        x, y = self.constants.x.dimension, self.constants.y.dimension
        return self._unit.mean_square(x + y) * x / (x + y)

    @cached_property
    def _unit(self) -> AdditiveMechanism:
        return calibrated_mechanism(self.budget, 1.0, share=self.share)


@lru_cache(maxsize=256)
def _best_schedule(
    schedule: _Schedules, n_phases: int | None
) -> tuple[tuple[int, ...], tuple[float, ...], float]:
    """A search takes as long as a fit of 1e5 records, and plans are asked for more than once."""
    return schedule.best(n_phases)

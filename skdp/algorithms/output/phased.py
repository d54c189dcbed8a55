"""Phased output perturbation: convex problems without a penalty.

The records are split into disjoint blocks. Phase k minimises the mean loss of its block plus
``(mu_k / 2) ||w - w_{k-1}||^2`` around the *released* point of the phase before, and releases its
solution by the kernel: solve, certify, add noise, project. With mu_k growing, later phases stay
nearer to their start and need less noise. Only the first, weak regulariser adds bias
(Zhang et al. 2022, Alg. 2; Feldman, Koren and Talwar 2020).

Every phase spends the full budget: neighbours differ in one record, hence in one block, and
later phases use of that block only its released point (parallel composition:
docs/theory/output_perturbation.md, Lemma 4). That holds for neighbours with another record in one
place; the secret random order makes it hold wherever the table keeps the record
(docs/theory/order.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skdp._checks import check_option
from skdp._runtime import without_warnings
from skdp.algorithms.kernel import solution_sensitivity, solve_and_release
from skdp.algorithms.output import rules
from skdp.algorithms.output.blocks import block_remarks, block_sizes, phase_runs
from skdp.algorithms.output.one_shot import (
    OutputPerturbationPlan,
    PlanCalibration,
    plan_output_perturbation,
)
from skdp.algorithms.output.published import shrinking_schedule, zhang_schedule
from skdp.algorithms.plan import Plan, Result, Run, require_replace_one
from skdp.mechanisms import calibrated_mechanism
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.report import Release
from skdp.problems import EmpiricalRisk, Objective, ProblemConstants, Records
from skdp.problems.elementwise import minimum
from skdp.solvers import resolve_solver
from skdp.solvers.registry import OWN_SOLVERS


@dataclass(frozen=True, kw_only=True)
class PhasedPlan(Plan):
    """Blocks of records or persons, their regularisation and their noise."""

    #: Minimised by the phases; its risk is smooth.
    objective: Objective
    #: One kernel step each, all with the full budget. ``constants.n_records`` is the size of the
    #: block, ``constants.strong_convexity`` is ``alpha + mu_k``.
    phases: tuple[OutputPerturbationPlan, ...]
    #: mu_k.
    regularisation: tuple[float, ...]
    reference: str

    shown = (
        *("alpha", "objective.radius", "last.constants.lipschitz"),
        *("last.constants.gradient_diameter", "last.constants.smoothness"),
        *("block_sizes", "regularisation", "sensitivities=phases.mechanism.sensitivity"),
        *("noise_scales", "accuracies=phases.accuracy"),
    )

    @property
    def risk(self) -> EmpiricalRisk:
        return self.objective.risk

    @property
    def alpha(self) -> float:
        return self.objective.alpha

    @property
    def last(self) -> OutputPerturbationPlan:
        return self.phases[-1]

    @property
    def block_sizes(self) -> tuple[int, ...]:
        return tuple(phase.constants.n_records for phase in self.phases)

    @property
    def releases(self) -> tuple[Release, ...]:
        """The last point, of all blocks; with its event the points of all phases."""
        last = self.last.releases[0]
        return (replace(last, n_records=sum(self.block_sizes), reference=self.reference),)

    def bound(self) -> float:
        steps = [
            _step_costs(
                self.objective,
                step.constants,
                step.accuracy,
                step.mechanism.mean_square(step.constants.dimension),
            )
            for step in self.phases
        ]
        return float(phased_utility_bound(self.objective, self.regularisation, steps))

    @property
    def noise_scales(self) -> tuple[float, ...]:
        return tuple(phase.mechanism.noise_scale for phase in self.phases)

    def remarks(self) -> tuple[str, ...]:
        return block_remarks(self.block_sizes, self.noise_scales)

    def run(self, data: Records, run: Run) -> Result:
        self.objective.design.check(data)
        solver = resolve_solver(run.solver)
        blocks = phase_runs(run, solver, self.block_sizes, data.n_units)
        path = [np.zeros(self.phases[0].constants.dimension)]
        # solvers of others get no access to the records of other phases
        view = isinstance(run.solver, str) and type(solver) in OWN_SOLVERS
        with without_warnings():
            for phase, mu, (units, step) in zip(
                self.phases, self.regularisation, blocks, strict=True
            ):
                # alpha/2 ||w||^2 + mu_k/2 ||w - c||^2 is one quadratic around a point nearer to 0
                total = self.alpha + mu
                center = path[-1] * (mu / total)
                block = data if units is None else data.take(data.records_of(units), view)
                problem = self.risk.problem(block, total, self.objective.radius, center=center)
                path.append(solve_and_release(problem, phase.accuracy, phase.mechanism, step))
                del problem, block  # before the next block is copied
        return Result(point=path[-1], plan=self, path=tuple(path[1:]))


def plan_phased_output_perturbation(
    objective: Objective,
    budget: PrivacyBudget,
    calibration: str = "analytic",
    shrinking: bool = False,
) -> PhasedPlan:
    """Choose blocks and regularisation by a public bound.

    Parameters
    ----------
    objective : Objective
        The plan is made for a comparator of the norm ``objective.comparator_norm``.
    budget : PrivacyBudget
    calibration : {"analytic", "paper"}, default="analytic"
        - "analytic": the number of phases, their sizes and mu_1 minimise
          :func:`phased_utility_bound` (docs/theory/output_perturbation.md, "Phases").
        - "paper": the published Alg. 2, ``log2(n)`` equal blocks and ``mu_k = mu 2^k``, with the
          certificate in place of a failure probability. Needs epsilon < 1 and delta > 0.
    shrinking : bool, default=False
        With "paper": blocks of ``n / 2^k`` records and ``mu_k = mu 8^k`` (section 3.2), whose
        bound has no logarithm of n. "analytic" tries these among others.

    Raises
    ------
    ValueError
        For a risk that is no mean over records: a block would be another objective, in which one
        record weighs more.
    """
    risk, design = objective.risk, objective.design
    require_replace_one(objective.neighbouring, "Phases")
    if not risk.is_mean:
        raise ValueError(f"{type(risk).__name__} is no mean over records: phases do not apply.")
    check_option("calibration", calibration, ("analytic", "paper"))
    if not risk.is_smooth:
        # a width that suits the noise of the last phase, which depends on the width a little
        spread = design.feature_norm * risk.reference_norm(design)
        for _ in range(3):
            smooth = objective.smoothed(spread)
            planned = plan_phased_output_perturbation(smooth, budget, calibration, shrinking)
            noise, constants = planned.phases[-1].mechanism, planned.phases[-1].constants
            variance = noise.mean_square(constants.dimension) / constants.dimension
            spread = design.feature_norm * math.sqrt(variance)
        return planned
    if calibration == "paper":
        public = _ball_constants(objective).lipschitz, objective.radius, design.n_records
        if shrinking:
            count, mu = shrinking_schedule(budget, *public, objective.dimension)
            sizes = block_sizes(design.n_records, count, 2.0)
            moduli = mu * 8.0 ** np.arange(1, count + 1)
            return _phased_plan(objective, budget, sizes, moduli, "zhang2022_alg1")
        schedule = zhang_schedule(budget, "alg2", *public, objective.dimension)
        return _phased_plan(objective, budget, *schedule, "zhang2022_alg1")
    return phased_candidate(objective, budget)[1]()


def phased_candidate(
    objective: Objective, budget: PrivacyBudget
) -> tuple[float, Callable[[], PhasedPlan]]:
    """Search the best phases; return a bound on their excess risk, and what makes their plan."""
    if not objective.risk.is_smooth:
        plan = plan_phased_output_perturbation(objective, budget)
        return plan.bound(), lambda: plan
    bound, log_first, growth, sizes = _ScheduleSearch(objective, budget).best()
    moduli = math.exp(log_first) * growth ** np.arange(len(sizes))
    return bound, lambda: _phased_plan(objective, budget, sizes, moduli, "analytic")


def _ball_constants(objective: Objective) -> ProblemConstants:
    """Bound the constants of a phase, for any center; its size and modulus are left out."""
    radius = objective.radius
    return objective.risk.constants(objective.design, 1.0, radius, center_norm=radius)


def _phased_plan(
    objective: Objective,
    budget: PrivacyBudget,
    sizes: Sequence[int],
    moduli: Sequence[float] | np.ndarray,
    calibration: PlanCalibration,
) -> PhasedPlan:
    """Plan phases of the given sizes n_k and moduli mu_k."""
    constants = _ball_constants(objective)
    regularisation = tuple(float(mu) for mu in moduli)
    phases = tuple(
        plan_output_perturbation(
            replace(constants, n_records=size, strong_convexity=objective.alpha + mu),
            budget,
            neighbouring=objective.neighbouring,
            calibration=calibration,
        )
        for size, mu in zip(sizes, regularisation, strict=True)
    )
    reference = "Zhang et al. 2022, Alg. 2"
    if calibration == "analytic":
        reference += " with planned blocks and parallel composition, "
        reference += "delta = 0" if budget.is_pure else "analytic Gaussian mechanism"
    return PhasedPlan(
        objective=objective, phases=phases, regularisation=regularisation, reference=reference
    )


class _ScheduleSearch:
    """Search of the number, the sizes n_k and the moduli mu_k of phases with the least bound."""

    def __init__(self, objective: Objective, budget: PrivacyBudget) -> None:
        self.objective = objective
        self.constants = _ball_constants(objective)
        self.unit = calibrated_mechanism(budget, 1.0).mean_square(objective.dimension)
        # around the balance of the two terms of one shot on all records
        balance = math.sqrt(2.0 / objective.design.n_records) / objective.radius
        self.middle = math.log(self.constants.lipschitz * balance)
        self.range = self.middle - rules.HALF_RANGE, self.middle + rules.HALF_RANGE

    def bounds(self, log_first: np.ndarray, growth: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """Compute many bounds; phases are the first axis of `sizes`, absent ones are 1/2."""
        powers = growth ** np.arange(len(sizes))[:, None]
        moduli = np.exp(log_first) * powers[:, None, :]
        is_present = sizes[:, None, :] >= 1
        steps = zip(*self._costs(sizes[:, None, :], moduli), is_present, strict=True)
        return np.asarray(phased_utility_bound(self.objective, moduli, list(steps)))

    def _costs(self, size: Any, modulus: Any) -> tuple[Any, Any, Any]:
        alpha = self.objective.alpha
        constants = replace(self.constants, n_records=size, strong_convexity=alpha + modulus)
        _, accuracy, sensitivity = solution_sensitivity(constants)
        return _step_costs(self.objective, constants, accuracy, self.unit * sensitivity**2)

    def best(self) -> tuple[float, float, float, list[int]]:
        """Find the least bound on grids; return it, ``log mu_1``, growth and sizes."""
        n_records = self.objective.design.n_records
        best = math.inf, self.middle, 1.0, [n_records]
        # stale numbers and least bound
        searching = dict.fromkeys(rules.GROWING_SCHEDULES, (0, math.inf))
        for start in range(1, rules.MOST_PHASES + 1, rules.PATIENCE + 1):
            numbers = range(start, min(start + rules.PATIENCE, rules.MOST_PHASES) + 1)
            candidates = [
                (schedule, sizes)
                for schedule in searching
                for number in numbers
                if (sizes := block_sizes(n_records, number, schedule[1]))[-1] >= 1
            ]
            if not candidates:
                break
            growth = np.array([schedule[0] for schedule, _ in candidates])
            padded = np.full((numbers[-1], len(candidates)), 0.5)
            for column, (_, sizes) in zip(padded.T, candidates, strict=True):
                column[: len(sizes)] = sizes
            centers = np.full(len(candidates), self.middle)
            for width, points in rules.GRIDS:
                grid = np.clip(centers + np.linspace(-width, width, points)[:, None], *self.range)
                values = self.bounds(grid, growth, padded)
                centers = grid[values.argmin(axis=0), np.arange(len(candidates))]
            for (schedule, sizes), center, value in zip(
                candidates, centers, values.min(axis=0), strict=True
            ):
                if schedule not in searching:
                    continue
                stale, least = searching[schedule]
                searching[schedule] = (0 if value < least else stale + 1, min(least, value))
                if value < best[0] * (1.0 - 1e-9):
                    best = float(value), float(center), schedule[0], sizes
                if searching[schedule][0] == rules.PATIENCE:
                    del searching[schedule]
        return best


def _step_costs(
    objective: Objective, constants: ProblemConstants, accuracy: Any, noise_square: Any
) -> tuple[Any, Any, Any]:
    """Compute what a phase costs: its sample size, V_k, and its noise."""
    risk, design, lipschitz = objective.risk, objective.design, constants.lipschitz
    if objective.population:
        estimation = risk.generalisation_cost(design, constants)
    else:
        estimation = risk.sampling_cost(design, constants.strong_convexity, constants.n_records)
    square = noise_square + accuracy**2
    moved = risk.noise_cost(design, noise_square / constants.dimension) + lipschitz * accuracy
    # the last term is the value of the objective's penalty at the noise
    moved = minimum(lipschitz * square**0.5, moved) + 0.5 * objective.alpha * square
    return estimation, square, moved


def phased_utility_bound(
    objective: Objective, regularisation: Any, steps: Sequence[tuple[Any, ...]]
) -> Any:
    """Bound the expected excess risk of phases (Zhang et al. 2022, Theorem 3.7), to choose a plan.

    ``(mu_1 / 2) D^2 + sum_k G L / (mu_k n_k) + sum_{k >= 2} (mu_k / 2) V_{k-1} + L sqrt(V_K)``,
    each term replaced by a smaller bound if the smooth risk has one. `steps` have the second term
    of each phase, V_k and the cost of its noise, for arrays also a mask of the phases there are.
    """
    total: Any = objective.risk.penalty_cost(
        objective.design, regularisation[0], objective.comparator_norm
    )
    last: Any = None  # V and the cost of the noise of the phase before
    for mu, (estimation, square, moved, *is_present) in zip(regularisation, steps, strict=True):
        if last is not None:
            estimation = estimation + minimum(0.5 * mu * last[0], last[1])
            for here in is_present:  # none for numbers
                estimation = estimation * here
                square, moved = np.where(here, square, last[0]), np.where(here, moved, last[1])
        total, last = total + estimation, (square, moved)
    return total + last[1]

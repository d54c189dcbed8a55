"""Phased output perturbation: convex problems without a penalty of their own.

The records are split into disjoint blocks. Phase k minimises the mean loss of its block plus
``(mu_k / 2) ||w - w_{k-1}||^2`` around the *released* point of the phase before, and releases its
solution by the kernel: solve, certify, add noise, project. With mu_k growing, later phases stay
nearer to their start and need less noise; the bias of the first, weak regulariser is all the
bias there is (Zhang et al. 2022, Alg. 2; Feldman, Koren and Talwar 2020).

Every phase spends the whole budget: neighbours differ in one record, hence in one block, and
all that later phases see of that block is its released point (parallel composition,
specification section 3.2, review Z-9). Positions matter for that: the neighbour of a data set
has another record in the same place.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from skdp.algorithms.blocks import (
    GROWING_SCHEDULES,
    assign_blocks,
    block_sizes,
    spawn_generators,
)
from skdp.algorithms.kernel import solve_and_release
from skdp.algorithms.output_perturbation import (
    Objective,
    OutputPerturbationPlan,
    PlanCalibration,
    plan_output_perturbation,
)
from skdp.algorithms.published import zhang_schedule
from skdp.mechanisms import NoiseSource
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import Neighbouring
from skdp.privacy.report import Release
from skdp.problems import (
    Design,
    EmpiricalRisk,
    Records,
)
from skdp.problems.silence import without_warnings
from skdp.solvers import resolve_solver
from skdp.solvers.gate import refuse_shared

__all__ = [
    "PhasedPlan",
    "PhasedResult",
    "phased_output_perturbation",
    "phased_utility_bound",
    "plan_phased_output_perturbation",
]

_MAX_PHASES = 24
#: So many numbers of phases in a row that do not lower the bound end the search of a schedule.
_PATIENCE = 3


@dataclass(frozen=True)
class PhasedPlan:
    """Everything that is decided before the records are read.

    Attributes
    ----------
    phases : tuple of OutputPerturbationPlan
        One kernel step each, all with the full budget. ``constants.n_records`` is the size of
        the block, ``constants.strong_convexity`` is ``alpha + mu_k``.
    regularisation : tuple of float
        mu_k.
    alpha : float
        Strength of the penalty that is part of the objective.
    radius : float
        Of the ball around 0 that all phases solve on.
    risk : EmpiricalRisk
        What the phases minimise: smooth.
    reference : str
    """

    phases: tuple[OutputPerturbationPlan, ...]
    regularisation: tuple[float, ...]
    alpha: float
    radius: float
    risk: EmpiricalRisk
    reference: str

    @property
    def block_sizes(self) -> tuple[int, ...]:
        return tuple(phase.constants.n_records for phase in self.phases)

    def release(self, name: str = "coefficients") -> Release:
        """The statement about the last point; with its event the points of all phases.

        Its noise is that of the last phase, around a point that carries what is left of the
        noise of those before; the number of records is that of all blocks.
        """
        last = self.phases[-1]
        return Release(
            name=name,
            mechanism=last.mechanism.name,
            sensitivity=last.mechanism.sensitivity,
            noise_scale=last.mechanism.noise_scale,
            dimension=last.constants.dimension,
            n_records=sum(self.block_sizes),
            reference=self.reference,
            event=last.mechanism.event(last.neighbouring),
        )

    def to_dict(self) -> dict[str, Any]:
        """The public numbers of the plan as plain Python types."""
        constants = self.phases[-1].constants
        return {
            "alpha": self.alpha,
            "radius": self.radius,
            "lipschitz": constants.lipschitz,
            "gradient_diameter": constants.gradient_diameter,
            "smoothness": constants.smoothness,
            "block_sizes": list(self.block_sizes),
            "regularisation": list(self.regularisation),
            "sensitivities": [phase.mechanism.sensitivity for phase in self.phases],
            "noise_scales": [phase.mechanism.noise_scale for phase in self.phases],
            "accuracies": [phase.accuracy for phase in self.phases],
        }


@dataclass(frozen=True)
class PhasedResult:
    """A private point, the released points of all phases, and the plan.

    Attributes
    ----------
    point : ndarray of shape (dimension,)
        That of the last phase.
    path : tuple of ndarray
        The points of all phases; they may be published together.
    plan : PhasedPlan
    """

    point: np.ndarray
    path: tuple[np.ndarray, ...]
    plan: PhasedPlan


def phased_output_perturbation(
    records: Records,
    risk: EmpiricalRisk,
    budget: PrivacyBudget,
    *,
    radius: float,
    alpha: float = 0.0,
    neighbouring: Neighbouring | str = Neighbouring.REPLACE_ONE,
    calibration: str = "analytic",
    objective: Objective = "empirical",
    solver: Any = "auto",
    solver_rng: np.random.Generator | None = None,
    noise: NoiseSource | None = None,
    verbose: int = 0,
) -> PhasedResult:
    """Minimise a risk plus ``(alpha/2) ||w||^2`` over a ball, in private phases.

    Parameters
    ----------
    records : Records
    risk : EmpiricalRisk
        The mean of a convex loss. A piecewise linear one is replaced by its envelope, of a
        public width; see :func:`plan_phased_output_perturbation`.
    budget : PrivacyBudget
    radius : float
        Public radius of the ball.
    alpha : float, default=0.0
    neighbouring : Neighbouring or str, default="replace_one"
        The only relation that is covered: blocks have public sizes.
    calibration, objective
        See :func:`plan_phased_output_perturbation`.
    solver, solver_rng, noise, verbose
        As in :func:`skdp.algorithms.output_perturbation`. `solver_rng` also assigns the
        records to blocks. The guarantee assumes that the solver keeps
        nothing from one phase to the next: it is copied for each. An object that cannot be copied
        is refused, and so is a function that refers to something that can change.

    Returns
    -------
    PhasedResult

    Raises
    ------
    ValueError
        For another relation, a solver that could keep something from one phase to the next, or if
        the plan does not cover the case.
    """
    if Neighbouring(neighbouring) is not Neighbouring.REPLACE_ONE:
        raise ValueError("The phased method is proven for neighbouring='replace_one' only.")
    plan = plan_phased_output_perturbation(
        risk,
        Design.of(records),
        budget=budget,
        radius=radius,
        alpha=alpha,
        calibration=calibration,
        objective=objective,
    )
    solver = resolve_solver(solver)
    if len(plan.phases) > 1:
        refuse_shared(solver)
    rng = np.random.default_rng() if solver_rng is None else solver_rng
    noise = NoiseSource() if noise is None else noise
    assignment = assign_blocks(rng, records.n_records, plan.block_sizes)
    generators = spawn_generators(rng, len(plan.phases))
    path = [np.zeros(plan.phases[0].constants.dimension)]
    with without_warnings():
        for k, (phase, strength, generator) in enumerate(
            zip(plan.phases, plan.regularisation, generators, strict=True)
        ):
            # alpha/2 ||w||^2 + mu_k/2 ||w - c||^2 is one quadratic around a point nearer to 0
            total = alpha + strength
            center = path[-1] * (strength / total)
            block = records
            if plan.block_sizes[0] < records.n_records:
                block = records.take(np.flatnonzero(assignment == k))
            problem = plan.risk.problem(block, total, radius, center=center)
            path.append(
                solve_and_release(
                    problem, phase.accuracy, phase.mechanism, solver, generator, noise, verbose
                )
            )
            del problem, block  # before the next block is copied
    return PhasedResult(path[-1], tuple(path[1:]), plan)


@lru_cache(maxsize=256)
def plan_phased_output_perturbation(
    risk: EmpiricalRisk,
    design: Design,
    *,
    budget: PrivacyBudget,
    radius: float,
    alpha: float = 0.0,
    calibration: str = "analytic",
    objective: Objective = "empirical",
) -> PhasedPlan:
    """Choose blocks and regularisation by a public bound.

    Parameters
    ----------
    risk : EmpiricalRisk
    design : Design
    budget : PrivacyBudget
    radius : float
        Radius of the ball. The plan is made for a comparator of this norm, or of the norm of a
        good predictor on a reference design if that is smaller.
    alpha : float, default=0.0
    calibration : {"analytic", "paper"}, default="analytic"
        - "analytic": the number of phases, their sizes and mu_1 minimise
          :func:`phased_utility_bound`; noise of the tight kernel (Zhang et al. 2022
          specification, sections 2.7 and 3.5).
        - "paper": Alg. 2 as printed, ``log2(n)`` equal blocks and ``mu_k = mu 2^k``, with the
          certificate in place of a failure probability. Needs epsilon < 1 and delta > 0.
    objective : {"empirical", "population"}, default="empirical"
        See :func:`phased_utility_bound`.

    Returns
    -------
    PhasedPlan

    Raises
    ------
    ValueError
        For a risk that is no mean over records: blocks of them would be another objective, in which
        one record weighs more.
    """
    if not risk.is_mean:
        raise ValueError(f"{type(risk).__name__} is no mean over records: phases do not apply.")
    if not risk.is_smooth:
        # a width that suits the noise of the last phase, which depends on the width a little
        spread = design.feature_norm * risk.reference_norm(design)
        for _ in range(3):
            planned = plan_phased_output_perturbation(
                risk.smoothed(spread),
                design,
                budget=budget,
                radius=radius,
                alpha=alpha,
                calibration=calibration,
                objective=objective,
            )
            noise, constants = planned.phases[-1].mechanism, planned.phases[-1].constants
            variance = noise.mean_square(constants.dimension) / constants.dimension
            spread = design.feature_norm * math.sqrt(variance)
        return planned

    # only these two differ from phase to phase: any point of the ball may be the centre
    whole = risk.constants(design, 1.0, radius, center_norm=radius)

    def phase(strength: float, size: int, kind: PlanCalibration) -> OutputPerturbationPlan:
        constants = replace(whole, n_records=size, strong_convexity=alpha + strength)
        return plan_output_perturbation(constants, budget, calibration=kind)

    def plan(
        first: float, growth: float, sizes: Sequence[int], kind: PlanCalibration, reference: str
    ) -> PhasedPlan:
        strengths = tuple(first * growth**k for k in range(len(sizes)))
        phases = tuple(
            phase(strength, size, kind) for strength, size in zip(strengths, sizes, strict=True)
        )
        return PhasedPlan(phases, strengths, alpha, radius, risk, reference)

    n_records = design.n_records
    lipschitz = risk.loss.lipschitz(design.feature_norm, radius)
    if calibration == "paper":
        dimension = risk.dimension(design)
        printed = zhang_schedule(budget, "alg2", lipschitz, radius, n_records, dimension)
        sizes = [printed.block_records] * printed.n_phases
        return plan(
            2.0 * printed.regularisation, 2.0, sizes, "zhang2022_alg1", "Zhang et al. 2022, Alg. 2"
        )
    if calibration != "analytic":
        raise ValueError(f"calibration == {calibration!r}, must be 'analytic' or 'paper'.")
    reference = "Zhang et al. 2022, Alg. 2 with planned blocks and parallel composition, "
    reference += "delta = 0" if budget.is_pure else "analytic Gaussian mechanism"
    comparator = min(radius, risk.reference_norm(design))
    best, best_bound = None, math.inf
    # around the balance of the two terms of one shot on the whole data set
    middle = math.log(lipschitz / radius * math.sqrt(2.0 / n_records))
    bracket, options = (middle - 12.0, middle + 12.0), {"xatol": 0.02}
    for growth, decrease in GROWING_SCHEDULES:
        stale, least = 0, math.inf
        for n_phases in range(1, _MAX_PHASES + 1):
            sizes = block_sizes(n_records, n_phases, decrease)
            if sizes[-1] < 1 or stale == _PATIENCE:
                break

            def bound(log_first: float, growth: float = growth, sizes: Any = sizes) -> float:
                candidate = plan(math.exp(log_first), growth, sizes, "analytic", reference)
                return phased_utility_bound(candidate, design, comparator, objective)

            found = minimize_scalar(bound, bounds=bracket, method="bounded", options=options)
            stale = 0 if found.fun < least else stale + 1
            least = min(least, found.fun)
            if found.fun < best_bound * (1.0 - 1e-9):
                best_bound = found.fun
                best = plan(math.exp(float(found.x)), growth, sizes, "analytic", reference)
    assert best is not None  # one phase is always possible
    return best


def phased_utility_bound(
    plan: PhasedPlan,
    design: Design,
    comparator_norm: float,
    objective: Objective = "empirical",
) -> float:
    """Public bound on the expected excess risk of a plan, for choosing among plans.

    The recursion of Zhang et al. (2022), Theorem 3.7 (specification, section 3.5),

    ``(mu_1 / 2) D^2 + sum_k G L / (mu_k n_k) + sum_{k >= 2} (mu_k / 2) V_{k-1} + L sqrt(V_K)``

    with D the comparator's norm, V_k the mean square of the noise plus the squared accuracy
    of phase k and G the gradient diameter, where each term is replaced by a smaller bound if
    the risk has one (:meth:`skdp.problems.EmpiricalRisk.penalty_cost`, `generalisation_cost`,
    `noise_cost`): for ``(mu_k / 2) V_{k-1}``, the cost of moving to the noisy point itself. Proof:
    docs/theory/output_perturbation.md, "Utility".

    Parameters
    ----------
    plan : PhasedPlan
    design : Design
    comparator_norm : float
        D.
    objective : {"empirical", "population"}, default="empirical"
        "population": on records from the same distribution. "empirical": on all these records;
        the second term is then what it costs to have seen only a block of them
        (:meth:`skdp.problems.EmpiricalRisk.sampling_cost`, an estimate).
    """
    risk = plan.risk
    total = risk.penalty_cost(design, plan.regularisation[0], comparator_norm)
    square, moved = 0.0, 0.0  # of the phase before: V, and the cost of its noise
    for k, (phase, strength) in enumerate(zip(plan.phases, plan.regularisation, strict=True)):
        constants = phase.constants
        if objective == "population":
            total += risk.generalisation_cost(design, constants)
        else:
            total += risk.sampling_cost(design, constants.strong_convexity, constants.n_records)
        if k:
            total += min(0.5 * strength * square, moved)
        noise = phase.mechanism.mean_square(constants.dimension)
        square = noise + phase.accuracy**2
        moved = risk.noise_cost(design, noise / constants.dimension)
        moved += constants.lipschitz * phase.accuracy
        penalty = 0.5 * plan.alpha * square  # the noise's own, of a penalty of the objective
        moved = min(constants.lipschitz * math.sqrt(square), moved) + penalty
    return total + moved

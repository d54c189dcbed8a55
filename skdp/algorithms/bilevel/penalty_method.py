"""First-order private bilevel optimisation: two private lower solutions per step.

Algorithms 1 and 3 of Kornowski (2024), corrected. A step solves ``min g(x, y)`` and ``min g(x, y) +
f(x, y) / lam`` privately, forms the penalty hypergradient at the two released points, adds noise if
that depends on records, and moves x. What is corrected: the outer noise is scaled by the realised
distance of the released points (erratum K3) or left out where the update is post-processing (K2),
the composition is exact (K7), each record joins a batch independently (K8, K9).

Lower problems are solved by :mod:`skdp.algorithms.bilevel.private_solvers`. Proofs:
docs/theory/bilevel.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from skdp._checks import check_bool, check_count, check_option, check_real
from skdp._runtime import without_warnings
from skdp._types import Calibration
from skdp.algorithms.bilevel.private_solvers import (
    OutputPerturbation,
    PrivateSolver,
    resolve_private_solver,
)
from skdp.algorithms.plan import Plan, Result, Run
from skdp.mechanisms import GaussianMechanism, gaussian_noise_multiplier
from skdp.mechanisms.sampled_gaussian import (
    SampledGaussianMechanism,
    poisson_sample,
    sampling_rates,
    smallest_scale,
)
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.composition import tightest_epsilon
from skdp.privacy.events import ComposedEvent, GaussianEvent, Neighbouring, PrivacyEvent
from skdp.privacy.report import Release
from skdp.problems import BilevelProblem, Domain
from skdp.problems.domains import euclidean_norm
from skdp.solvers import resolve_solver

Output = Literal["tail_average", "last", "min_step"]
#: ``(step number, hypergradient, deviation of its noise) -> movement of x``.
StepRule = Callable[[int, np.ndarray, np.ndarray], np.ndarray]
Penalty = Callable[[np.ndarray], float]


@dataclass(frozen=True, kw_only=True)
class BilevelPlan(Plan):
    """Steps and their noise, from public numbers alone."""

    inner: PrivateSolver
    n_steps: int
    #: Noise multiplier of each of the two lower solutions of a step.
    multiplier: float
    #: That of the hypergradient; None if it is post-processing.
    outer_multiplier: float | None
    outer_sampling_rate: float
    penalty: float | Penalty
    step_size: float | StepRule
    output: Output
    start: tuple[float, ...] | None
    #: Or that of persons.
    neighbouring: Neighbouring = Neighbouring.REPLACE_ONE
    #: Their events are those of all steps; sensitivity and noise scale, which follow x and the
    #: released points, are those of the first step. Empty until the problem is known.
    releases: tuple[Release, ...] = ()

    @property
    def event(self) -> PrivacyEvent:
        """Cost of all steps; it does not depend on the problem."""
        events = 2 * [self.inner.event(self.multiplier, self.n_steps, self.neighbouring)]
        if self.outer_multiplier is not None:
            events.append(self._outer(1.0).event(self.neighbouring))
        return ComposedEvent(tuple(events))

    def _outer(self, sensitivity: float) -> SampledGaussianMechanism:
        """Noise of the hypergradients."""
        assert self.outer_multiplier is not None
        return SampledGaussianMechanism(
            sensitivity, self.outer_multiplier, self.outer_sampling_rate, self.n_steps
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "inner": type(self.inner).__name__,
            "n_steps": self.n_steps,
            "noise_multiplier": self.multiplier,
            "outer_noise_multiplier": self.outer_multiplier,
            "outer_sampling_rate": self.outer_sampling_rate,
        }

    def first_point(self, problem: BilevelProblem) -> np.ndarray:
        """x_0."""
        domain, shape = problem.domain_x, (problem.dimension_x,)
        if self.start is None:
            return domain.project(domain.center(problem.dimension_x))
        start = np.array(self.start)
        if start.shape != shape or not np.isfinite(start).all():
            raise ValueError(f"start must be a finite vector of shape {shape}.")
        return domain.project(start)

    def stated(self, problem: BilevelProblem) -> BilevelPlan:
        """The plan with its releases; of the problem only public numbers are read."""
        x, steps, relation = self.first_point(problem), self.n_steps, self.neighbouring
        lam = _penalty_at(self.penalty, x)
        lower = ("lower", problem.lower(x)), ("penalised lower", problem.penalised(x, lam))
        given = self.multiplier, steps, relation
        releases = [
            self.inner.release(f"{steps} {name} solutions, at first", part.constants, *given)
            for name, part in lower
        ]
        if self.outer_multiplier is not None:
            # the largest distance that the domain allows
            moved = 2.0 * problem.record_bound(2.0 * problem.domain_y.circumradius, lam)
            name = f"{steps} hypergradients, at first"
            sizes = problem.dimension_x, problem.n_records
            reference = "docs/theory/bilevel.md, Lemmas 4 and 5: Kornowski 2024, Alg. 1 and 3"
            outer = self._outer(moved / self.outer_sampling_rate)
            releases.append(outer.describe(name, *sizes, f"{reference}, corrected", relation))
        return replace(self, releases=tuple(releases))

    @without_warnings()
    def run(self, data: BilevelProblem, run: Run) -> BilevelResult:
        if data.is_record_free != (self.outer_multiplier is None):
            raise ValueError("Whether hypergradients depend on records is fixed by the plan.")
        if data.of_persons != (self.neighbouring.unit == "user"):
            raise ValueError("Records of persons go with a relation of persons.")
        plan = self.stated(data)
        if self.releases not in ((), plan.releases):
            raise ValueError("The statement of the plan is for a problem of other public numbers.")
        x, step_size = self.first_point(data), self.step_size
        path, y = [x], np.zeros(data.dimension_y)
        for t in range(self.n_steps):
            lam = _penalty_at(self.penalty, x)
            y, gradient, deviation = private_hypergradient(data, x, lam, self, run)
            if callable(step_size):
                move = step_size(t, gradient, deviation)
            else:
                move = -step_size * gradient
            x = data.domain_x.project(x + _checked("The movement of x", move, x.shape))
            path.append(x)
        iterates = np.array(path)
        if self.output == "min_step":
            x = iterates[int(np.argmin(np.linalg.norm(np.diff(iterates, axis=0), axis=1)))]
        elif self.output == "tail_average":
            x = iterates[1 + self.n_steps // 2 :].mean(axis=0)
        return BilevelResult(point=x, plan=plan, path=iterates, y=y)


@dataclass(frozen=True, kw_only=True)
class BilevelResult(Result):
    """A private upper variable x, and all iterates; functions of what was released."""

    #: Shape (dimension_y,). Lower solution of the last step, with the noise of that step.
    y: np.ndarray


def plan_bilevel(problem: BilevelProblem, budget: PrivacyBudget, **options: Any) -> BilevelPlan:
    """Fix the noise of :func:`plan_steps`, and state it for a problem's public numbers."""
    _check_problem(problem)
    relation = Neighbouring.REPLACE_ONE
    relation = relation.of_persons if problem.of_persons else relation
    plan = plan_steps(budget, problem.is_record_free, neighbouring=relation, **options)
    return plan.stated(problem)


def plan_steps(
    budget: PrivacyBudget,
    is_record_free: bool,
    *,
    penalty: float | Penalty,
    n_steps: int = 10,
    step_size: float | StepRule = 1.0,
    inner: Any = "output_perturbation",
    output: Output = "tail_average",
    calibration: Calibration = "analytic",
    share: float = 1.0,
    start: np.ndarray | None = None,
    outer_sampling_rate: float = 1.0,
    neighbouring: Neighbouring = Neighbouring.REPLACE_ONE,
) -> BilevelPlan:
    """Fix the noise before the problem is known; replace-one neighbours.

    No parameter may depend on records, but for released ones. With mu that of the budget in
    Gaussian differential privacy, the two or three releases of each of T steps get equal parts of
    ``share mu^2 / T``. This splits the budget as if all records took part everywhere; what sampling
    saves goes to the releases with samples, as less noise by one common factor.

    Parameters
    ----------
    budget : PrivacyBudget
        Delta > 0.
    is_record_free : bool
        See :class:`skdp.problems.BilevelProblem`.
    penalty : float or callable ``x -> float``
        lam, from 1e-50 to 1e50; as a function of the released x.
    n_steps : int, default=10
        T.
    step_size : float or callable ``(t, gradient, deviation) -> movement``, default=1.0
        ``x <- project(x - step_size gradient)``, or ``project(x + movement)``. The deviation is
        that of the inner noise in the gradient, where the problem knows it.
    inner : {"output_perturbation", "localized_gd", "localized_sgd"} or PrivateSolver
    output : {"tail_average", "last", "min_step"}, default="tail_average"
        The mean of the later half of the iterates, the last one, or that before the shortest step
        (as published; misleading at the boundary of the domain and under much noise, T10).
    calibration : {"analytic", "paper"}, default="analytic"
        "paper": the published split and formulas with the errata corrected, for comparison. Every
        step gets the epsilon that the advanced composition lemma allows (the published one is about
        5 times too large, erratum K7), each of its three releases a third and the classical
        Gaussian noise; hypergradients get noise for their true sensitivity (K3), none if
        post-processing (K2).
    share : float, default=1.0
        Part of the budget, in mu^2, that the run may spend. The rest is for Gaussian releases.
    start : ndarray of shape (dimension_x,), optional
        x_0. Default: the center of the domain.
    outer_sampling_rate : float, default=1.0
        Probability with which a record takes part in a hypergradient (Algorithm 3).
    neighbouring : Neighbouring, default=REPLACE_ONE
        Or that of persons.

    Raises
    ------
    ImportError
        If there is sampling and dp-accounting is missing or older than 0.5.
    ValueError
        If the releases of `inner` cost more than the noise that they are given.
    """
    if not isinstance(budget, PrivacyBudget):
        raise TypeError(f"budget must be a PrivacyBudget, got {budget!r}.")
    if budget.is_pure:
        raise ValueError("delta == 0: the bilevel method needs delta > 0.")
    check_count("n_steps", n_steps)
    check_real("share", share, 1e-9, 1.0)
    check_real("outer_sampling_rate", outer_sampling_rate, 1e-12, 1.0)
    check_option("output", output, ("tail_average", "last", "min_step"))
    check_option("calibration", calibration, ("analytic", "paper"))
    if not callable(step_size):
        check_real("step_size", step_size, 1e-50, 1e50)
    private_solver = resolve_private_solver(inner)
    full = gaussian_noise_multiplier(budget.epsilon, budget.delta)
    rest = []
    if share < 1.0:
        rest.append(GaussianEvent(full / math.sqrt(1.0 - share), neighbouring))
    inner_sampled = bool(sampling_rates(private_solver.event(1.0, 1, neighbouring)))
    outer_sampled = outer_sampling_rate < 1.0
    if outer_sampled and is_record_free:
        raise ValueError("outer_sampling_rate < 1: the hypergradient has no records to sample.")
    if calibration == "paper":
        if share != 1.0 or inner_sampled or outer_sampled:
            raise ValueError("calibration == 'paper' has the whole budget, and no sampling.")
        multiplier = _published_multiplier(budget, n_steps)
    else:
        part = 1 / 2 if is_record_free else 1 / 3
        multiplier = full * math.sqrt(n_steps / (share * part))

    def plan(scale: float) -> BilevelPlan:
        """`scale` is a factor of the noise of all releases with samples."""
        inner_scale, outer_scale = (scale if s else 1.0 for s in (inner_sampled, outer_sampled))
        return BilevelPlan(
            inner=private_solver,
            n_steps=int(n_steps),
            multiplier=inner_scale * multiplier,
            outer_multiplier=None if is_record_free else outer_scale * multiplier,
            outer_sampling_rate=float(outer_sampling_rate),
            penalty=penalty,
            step_size=step_size,
            output=output,
            start=None if start is None else tuple(np.asarray(start, dtype=np.float64).tolist()),
            neighbouring=neighbouring,
        )

    def total(scale: float) -> PrivacyEvent:
        return ComposedEvent([plan(scale).event, *rest])

    scale = smallest_scale(total, budget) if inner_sampled or outer_sampled else 1.0
    if not tightest_epsilon(total(scale), budget.delta) <= (1.0 + 1e-9) * budget.epsilon:
        raise ValueError(
            f"The releases of {type(private_solver).__name__} cost more than Gaussian ones with "
            "the noise that it is given: the budget would be exceeded."
        )
    return plan(scale)


def _check_problem(problem: Any) -> None:
    """Raise TypeError or ValueError unless the attributes of a problem make sense."""
    if not isinstance(problem, BilevelProblem):
        raise TypeError(f"problem must be a BilevelProblem, got {problem!r}.")
    for name in ("domain_x", "domain_y"):
        if not isinstance(getattr(problem, name, None), Domain):
            raise TypeError(f"{name} of the problem must be a Domain.")
    for name in ("dimension_x", "dimension_y", "n_train", "n_val"):
        check_count(name, getattr(problem, name, None))
    for name in ("disjoint", "is_record_free"):
        check_bool(name, getattr(problem, name, None))
    if not problem.disjoint and problem.n_train != problem.n_val:
        raise ValueError(
            f"n_train == {problem.n_train} and n_val == {problem.n_val}, must be equal where every "
            "record has both roles."
        )


def _published_multiplier(budget: PrivacyBudget, n_steps: int) -> float:
    """Noise of one of three releases per step by advanced composition, solved for its epsilon.

    ``epsilon = sqrt(2 T L) e + 2 T e^2`` with ``L = log((T + 1) / delta)`` (Lemma 2.1), a third of
    e and ``delta / (3 (T + 1))`` for each release, and Lemma 2.2.
    """
    root = 2.0 * n_steps * math.log((n_steps + 1) / budget.delta)
    step = (math.sqrt(root + 8.0 * n_steps * budget.epsilon) - math.sqrt(root)) / (4.0 * n_steps)
    if not step < 1.0:
        raise ValueError("The published composition needs less than 1 of epsilon per step.")
    return gaussian_noise_multiplier(step / 3.0, budget.delta / (3 * (n_steps + 1)), "classical")


def _penalty_at(penalty: float | Penalty, x: np.ndarray) -> float:
    lam = penalty(x.copy()) if callable(penalty) else penalty
    check_real("penalty", lam, 1e-50, 1e50)
    return float(lam)


def dp_bilevel(
    problem: BilevelProblem,
    budget: PrivacyBudget,
    *,
    run: Run | None = None,
    **options: Any,
) -> BilevelResult:
    """Minimise ``f(x, argmin g(x, .))`` privately.

    Parameters
    ----------
    problem : BilevelProblem
    budget : PrivacyBudget
    run : Run, optional
        Its solver is for output perturbation.
    **options
        `penalty`, and others with defaults: see :func:`plan_steps`.

    Notes
    -----
    Every release of a step is a Gaussian one at a point that earlier releases determine. The
    sensitivity of a hypergradient is ``2 record_bound(||y_lam - y||)`` with the *released* points;
    a noise scale chosen from releases is legitimate because the multiplier is fixed.

    References
    ----------
    G. Kornowski, "Differentially private bilevel optimization", 2024: Algorithms 1 and 3.
    """
    inner = resolve_private_solver(options.get("inner", "output_perturbation"))
    run = run or Run()
    is_default = isinstance(run.solver, str) and run.solver == "auto"
    if not (is_default or isinstance(inner, OutputPerturbation)):
        raise ValueError("solver is for inner='output_perturbation' only.")
    plan = plan_bilevel(problem, budget, **options)
    resolve_solver(run.solver)  # a wrong name is refused before anything is computed
    return plan.run(problem, run)


def private_hypergradient(
    problem: BilevelProblem, x: np.ndarray, lam: float, plan: BilevelPlan, run: Run
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One step's lower solution, hypergradient and deviation of its inner noise: all private."""
    metric = problem.metric(x)
    points, variances = [], []
    for lower in (problem.lower(x), problem.penalised(x, lam)):
        point, variance = plan.inner.solve(lower, plan.multiplier, run)
        name = f"The point of {type(plan.inner).__name__}"
        point = _checked(name, point, (problem.dimension_y,))
        points.append(problem.domain_y.project(point / metric))
        variances.append(variance)
    y, y_lam = points
    rate, outer = plan.outer_sampling_rate, plan.outer_multiplier
    if outer is None:
        gradient = problem.hypergradient(x, y, y_lam, lam)
    else:
        batch = poisson_sample(problem.n_records, rate, run.noise)
        gradient = problem.hypergradient(x, y, y_lam, lam, batch) / rate
        moved = 2.0 * problem.record_bound(euclidean_norm(y_lam - y), lam) / rate
        if moved != 0.0:  # else no record adds anything
            gradient = GaussianMechanism(moved, outer).release(gradient, run.noise)
    if plan.inner.is_unbiased:
        energies = [problem.noise_energy(x, variance) for variance in variances]
        gradient = gradient - lam * (energies[1] - energies[0])
    deviation = lam * problem.noise_deviation(x, y, y_lam, (variances[0], variances[1]))
    return y, gradient, np.broadcast_to(deviation, gradient.shape)


def _checked(name: str, vector: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """A vector that follows from released ones, so that an error is a release of nothing else."""
    if np.shape(vector) != shape or not np.isfinite(vector).all():
        raise ValueError(f"{name} must be finite and of shape {shape}.")
    return np.asarray(vector)

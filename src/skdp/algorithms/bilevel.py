"""First-order private bilevel optimisation: two private lower solutions per step.

Algorithms 1 and 3 of Kornowski (2024), corrected. A step solves ``min g(x, y)`` and ``min g(x, y) +
f(x, y) / lam`` privately, forms the penalty hypergradient at the two released points, adds noise if
that depends on records, and moves x. What is corrected: the outer noise is scaled by the realised
distance of the released points (E3) or left out where the update is post-processing (E2), the
composition is exact (E7), batches are drawn by independent coins (E8, E9).

*Kernel*: a private solver of strongly convex problems (:class:`PrivateSolver`), output
perturbation unless told otherwise. *Schedule*: the plan, a function of public numbers alone.
Proofs: docs/theory/bilevel.md.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from skdp.algorithms.localized_gradient_descent import (
    dp_localized_gd,
    localized_event,
    plan_localized_gd,
)
from skdp.algorithms.output_perturbation import ACCURACY_FRACTION, certifiable_accuracy
from skdp.algorithms.sampled_gaussian import check_count, check_real, sampled_gaussian_event
from skdp.mechanisms import GaussianMechanism, NoiseSource, gaussian_noise_multiplier
from skdp.privacy.accountants import import_convolution, tightest_epsilon
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import (
    ComposedEvent,
    GaussianEvent,
    Neighbouring,
    PrivacyEvent,
    RepeatedEvent,
)
from skdp.privacy.report import Release
from skdp.problems import BilevelProblem, Problem, ProblemConstants
from skdp.problems.domains import euclidean_norm
from skdp.solvers import Solver, resolve_solver, solve_certified
from skdp.solvers.base import own_copy

__all__ = [
    "BilevelPlan",
    "BilevelResult",
    "LocalizedGradientDescent",
    "OutputPerturbation",
    "PrivateSolver",
    "dp_bilevel",
    "plan_bilevel",
]

Calibration = Literal["analytic", "paper"]
Output = Literal["tail_average", "last", "min_step"]


# ---------------------------------------------------------------------------------------------
# private solvers of the lower problems


class PrivateSolver(ABC):
    """Minimises strongly convex problems privately, at a price that is fixed beforehand.

    A subclass is trusted: nothing checks that its points are private. Its noise must follow from
    the public constants of the problem, and its price from `multiplier` alone.
    """

    @abstractmethod
    def event(self, multiplier: float) -> PrivacyEvent:
        """What a solve costs, replace-one neighbours; without sampling as much as
        ``GaussianEvent(multiplier)``.
        """

    @abstractmethod
    def sensitivity(self, constants: ProblemConstants) -> float:
        """That of one release of a solve."""

    @abstractmethod
    def solve(
        self,
        problem: Problem,
        multiplier: float,
        solver_rng: np.random.Generator,
        noise: NoiseSource,
    ) -> tuple[np.ndarray, float]:
        """A private point, and (roughly) the variance of a coordinate of its noise."""

    #: Whether the point is the exact solution plus noise of mean 0 and of exactly that variance.
    is_unbiased = False
    #: Whether the price involves sampling, so that it does not compose in closed form.
    is_sampled = False


class OutputPerturbation(PrivateSolver):
    """The certified solution plus noise, not projected: the mean of the noise stays 0.

    Parameters
    ----------
    solver : str, Solver or callable, default="auto"
        See :func:`skdp.solvers.resolve_solver`.
    """

    is_unbiased = True

    def __init__(self, solver: Any = "auto") -> None:
        self.solver = solver if isinstance(solver, Solver) else resolve_solver(solver)

    def event(self, multiplier: float) -> PrivacyEvent:
        return GaussianEvent(multiplier)

    def sensitivity(self, constants: ProblemConstants) -> float:
        """Movement of the exact solution plus twice the accuracy of the solver's."""
        exact = constants.argmin_sensitivity(Neighbouring.REPLACE_ONE)
        moved = exact + 2.0 * self._accuracy(constants)
        if constants.in_ball:
            moved = min(moved, 2.0 * (constants.domain_radius or constants.radius))
        return moved

    def solve(
        self,
        problem: Problem,
        multiplier: float,
        solver_rng: np.random.Generator,
        noise: NoiseSource,
    ) -> tuple[np.ndarray, float]:
        accuracy = self._accuracy(problem.constants)
        solution = solve_certified(problem, 0.5 * accuracy, own_copy(self.solver), rng=solver_rng)
        mechanism = GaussianMechanism(self.sensitivity(problem.constants), multiplier)
        return mechanism.release(solution.point, noise), mechanism.noise_scale**2

    @staticmethod
    def _accuracy(constants: ProblemConstants) -> float:
        exact = constants.argmin_sensitivity(Neighbouring.REPLACE_ONE)
        return max(0.5 * ACCURACY_FRACTION * exact, certifiable_accuracy(constants))


class LocalizedGradientDescent(PrivateSolver):
    """Localised noisy gradient descent: see :func:`skdp.algorithms.dp_localized_gd`.

    Parameters
    ----------
    n_steps : int, default=100
        Of a round.
    n_rounds : int, default=1
    sampling_rate : float, default=1.0
        Of a record, per step.
    """

    def __init__(self, n_steps: int = 100, n_rounds: int = 1, sampling_rate: float = 1.0) -> None:
        check_count("n_steps", n_steps)
        check_count("n_rounds", n_rounds)
        check_real("sampling_rate", sampling_rate, 1e-12, 1.0)
        self.n_steps, self.n_rounds, self.sampling_rate = n_steps, n_rounds, float(sampling_rate)
        self.is_sampled = sampling_rate < 1.0

    def _per_step(self, multiplier: float) -> float:
        return multiplier * math.sqrt(self.n_steps * self.n_rounds)

    def event(self, multiplier: float) -> PrivacyEvent:
        steps = self.n_steps * self.n_rounds
        return localized_event(self._per_step(multiplier), self.sampling_rate, steps)

    def _options(self, multiplier: float) -> dict[str, Any]:
        return {
            "n_rounds": self.n_rounds,
            "n_steps": self.n_steps,
            "sampling_rate": self.sampling_rate,
            "noise_multiplier": self._per_step(multiplier),
        }

    def sensitivity(self, constants: ProblemConstants) -> float:
        return plan_localized_gd(constants, **self._options(1.0)).mechanism.sensitivity

    def solve(
        self,
        problem: Problem,
        multiplier: float,
        solver_rng: np.random.Generator,
        noise: NoiseSource,
    ) -> tuple[np.ndarray, float]:
        found = dp_localized_gd(problem, noise=noise, **self._options(multiplier))
        deviation = found.plan.mechanism.noise_scale / problem.strong_convexity
        # averaging T steps: at most sigma^2 / (mu^2 T) asymptotically
        return found.point, deviation**2 / self.n_steps


def _resolve_inner(inner: Any, solver: Any) -> PrivateSolver:
    if isinstance(inner, PrivateSolver):
        return inner
    if inner == "output_perturbation":
        return OutputPerturbation(solver)
    if inner == "localized_gd":
        return LocalizedGradientDescent()
    if inner == "localized_sgd":
        return LocalizedGradientDescent(sampling_rate=0.1)
    raise ValueError(
        f"inner == {inner!r}, must be 'output_perturbation', 'localized_gd', 'localized_sgd' or a "
        "PrivateSolver."
    )


# ---------------------------------------------------------------------------------------------
# the plan


@dataclass(frozen=True)
class BilevelPlan:
    """Everything that is decided before the records are read.

    Attributes
    ----------
    inner : PrivateSolver
    n_steps : int
    multipliers : tuple of float
        Noise multipliers of the two lower solutions of a step.
    outer_multiplier : float or None
        That of the hypergradient; None if it is post-processing.
    outer_sampling_rate : float
    releases : tuple of Release
        Their events are those of all steps. Sensitivity and noise scale are those of the first
        step: both follow the released x from step to step, and the multipliers do not.
    """

    inner: PrivateSolver
    n_steps: int
    multipliers: tuple[float, float]
    outer_multiplier: float | None
    outer_sampling_rate: float
    releases: tuple[Release, ...]

    @property
    def event(self) -> PrivacyEvent:
        """What the whole run costs, under replace-one neighbours."""
        return ComposedEvent(tuple(release.event for release in self.releases))

    def to_dict(self) -> dict[str, Any]:
        """The public numbers of the plan as plain Python types."""
        return {
            "inner": type(self.inner).__name__,
            "n_steps": self.n_steps,
            "noise_multipliers": list(self.multipliers),
            "outer_noise_multiplier": self.outer_multiplier,
            "outer_sampling_rate": self.outer_sampling_rate,
        }


@dataclass(frozen=True)
class BilevelResult:
    """A private upper variable; all parts are functions of what was released.

    Attributes
    ----------
    x : ndarray of shape (dimension_x,)
    path : ndarray of shape (n_steps + 1, dimension_x)
        The iterates.
    y : ndarray of shape (dimension_y,)
        Lower solution of the last step, with the noise of that step.
    plan : BilevelPlan
    """

    x: np.ndarray
    path: np.ndarray
    y: np.ndarray
    plan: BilevelPlan


#: ``(step number, hypergradient, deviation of its noise) -> movement of x``.
StepRule = Callable[[int, np.ndarray, np.ndarray], np.ndarray]
Penalty = Callable[[np.ndarray], float]


def plan_bilevel(
    problem: BilevelProblem,
    budget: PrivacyBudget,
    *,
    penalty: float | Penalty,
    n_steps: int = 10,
    inner: Any = "output_perturbation",
    calibration: Calibration = "analytic",
    split: tuple[float, float, float] | None = None,
    share: float = 1.0,
    start: np.ndarray | None = None,
    outer_sampling_rate: float = 1.0,
    solver: Any = "auto",
) -> BilevelPlan:
    """Fix the noise from public numbers; replace-one neighbours.

    The squares of the reciprocal noise multipliers of Gaussian releases add, also if later
    releases and their sensitivities depend on earlier ones (Gaussian differential privacy). With mu
    that of the budget, the releases of each of T steps get ``a, b, c`` parts of ``share mu^2 / T``.

    Parameters
    ----------
    problem : BilevelProblem
        Only its public numbers are used.
    budget : PrivacyBudget
        Delta > 0.
    penalty : float or callable ``x -> float``
        lam > 0; as a function of the released x.
    n_steps : int, default=10
        T.
    inner : {"output_perturbation", "localized_gd", "localized_sgd"} or PrivateSolver
    calibration : {"analytic", "paper"}, default="analytic"
        "paper": the published split and formulas with the errata corrected, for comparison. Every
        step gets the epsilon that the advanced composition lemma allows (the printed one
        is about 5 times too large, E7), each of its three releases a third and the classical
        Gaussian noise; hypergradients get noise for their true sensitivity (E3), and none if they
        are post-processing (E2). The formulas as printed are not private and are not offered.
    split : tuple of three floats, optional
        a, b, c >= 0 with sum 1. Default: equal parts; c = 0 if no outer noise is needed.
    share : float, default=1.0
        Part of the budget, in mu^2, that the run may spend. The rest is for Gaussian releases.
    start : ndarray of shape (dimension_x,), optional
        x_0. Default: the centre of the domain.
    outer_sampling_rate : float, default=1.0
        Probability with which a record takes part in a hypergradient (Algorithm 3).
    solver
        For output perturbation.

    Raises
    ------
    ImportError
        If there is sampling and dp-accounting is missing or older than 0.5.
    """
    if not isinstance(budget, PrivacyBudget):
        raise TypeError(f"budget must be a PrivacyBudget, got {budget!r}.")
    if budget.is_pure:
        raise ValueError("delta == 0: the bilevel method needs delta > 0.")
    check_count("n_steps", n_steps)
    check_real("share", share, 1e-9, 1.0)
    check_real("outer_sampling_rate", outer_sampling_rate, 1e-12, 1.0)
    chosen = _resolve_inner(inner, solver)
    a, b, c = _checked_split(split, problem.is_record_free)
    if calibration == "paper":
        if split is not None or share != 1.0 or chosen.is_sampled or outer_sampling_rate < 1.0:
            raise ValueError("calibration == 'paper' has its own split, and no sampling.")
        each = _published_multiplier(budget, n_steps)
        first, second, outer = each, each, each
    elif calibration == "analytic":
        whole = gaussian_noise_multiplier(budget.epsilon, budget.delta)
        first, second, outer = (
            whole * math.sqrt(n_steps / (share * part)) if part > 0 else math.inf
            for part in (a, b, c)
        )
    else:
        raise ValueError(f"calibration == {calibration!r}, must be 'analytic' or 'paper'.")

    def releases(scale: float) -> tuple[Release, ...]:
        outer_scaled = None if problem.is_record_free else scale * outer
        return _releases(
            problem, chosen, n_steps, (scale * first, scale * second), outer_scaled,
            outer_sampling_rate, penalty, _start(problem, start),
        )  # fmt: skip

    scale = 1.0
    if chosen.is_sampled or (outer_sampling_rate < 1.0 and not problem.is_record_free):
        import_convolution(Neighbouring.REPLACE_ONE)  # without it, noise as if nothing was sampled
        rest = 1.0 - share
        others = [GaussianEvent(whole / math.sqrt(rest))] if rest > 0 else []
        scale = _smallest_scale(
            lambda s: ComposedEvent([*(r.event for r in releases(s)), *others]), budget
        )
    return BilevelPlan(
        inner=chosen,
        n_steps=n_steps,
        multipliers=(scale * first, scale * second),
        outer_multiplier=None if problem.is_record_free else scale * outer,
        outer_sampling_rate=float(outer_sampling_rate),
        releases=releases(scale),
    )


def _checked_split(
    split: tuple[float, float, float] | None, is_record_free: bool
) -> tuple[float, float, float]:
    if split is None:
        return (0.5, 0.5, 0.0) if is_record_free else (1 / 3, 1 / 3, 1 / 3)
    a, b, c = (float(part) for part in split)
    if not (a > 0 and b > 0 and c >= 0 and abs(a + b + c - 1.0) < 1e-9):
        raise ValueError(f"split == {split}, must be three parts with sum 1, the first two > 0.")
    if (c == 0) != is_record_free:
        raise ValueError(
            "The third part is for the noise of the hypergradient: it must be > 0, or 0 if that "
            "depends on no record."
        )
    return a / (a + b + c), b / (a + b + c), c / (a + b + c)


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


def _start(problem: BilevelProblem, start: np.ndarray | None) -> np.ndarray:
    if start is None:
        return problem.domain_x.project(problem.domain_x.center(problem.dimension_x))
    start = np.array(start, dtype=np.float64)
    if start.shape != (problem.dimension_x,) or not np.isfinite(start).all():
        raise ValueError(f"start must be a finite vector of shape ({problem.dimension_x},).")
    return problem.domain_x.project(start)


def _releases(
    problem: BilevelProblem,
    inner: PrivateSolver,
    n_steps: int,
    multipliers: tuple[float, float],
    outer_multiplier: float | None,
    outer_sampling_rate: float,
    penalty: float | Penalty,
    start: np.ndarray,
) -> tuple[Release, ...]:
    lam = _penalty_at(penalty, start)
    lower = problem.lower(start).constants, problem.penalised(start, lam).constants
    sizes = problem.n_train, problem.n_records
    reference = "Kornowski 2024, Alg. 1 and 3, corrected (E2, E3, E7 to E9), exact accounting"
    found = []
    for k, constants in enumerate(lower):
        sensitivity = inner.sensitivity(constants)
        found.append(
            Release(
                name=f"{n_steps} {('lower', 'penalised lower')[k]} solutions, at first",
                mechanism="gaussian",
                sensitivity=sensitivity,
                noise_scale=multipliers[k] * sensitivity,
                dimension=problem.dimension_y,
                n_records=sizes[k],
                reference=reference,
                event=RepeatedEvent(inner.event(multipliers[k]), n_steps),
            )
        )
    if outer_multiplier is not None:
        # at the largest distance that the domain allows
        moved = 2.0 * problem.record_bound(math.inf, lam) / outer_sampling_rate
        found.append(
            Release(
                name=f"{n_steps} hypergradients, at most",
                mechanism="gaussian",
                sensitivity=moved,
                noise_scale=outer_multiplier * moved,
                dimension=problem.dimension_x,
                n_records=problem.n_records,
                reference=reference,
                event=sampled_gaussian_event(outer_multiplier, outer_sampling_rate, n_steps, 2.0),
            )
        )
    return tuple(found)


def _smallest_scale(event: Callable[[float], PrivacyEvent], budget: PrivacyBudget) -> float:
    """Factor of all multipliers at which sampled releases spend the budget, to 0.5 %; at most 1."""

    def is_private(log_scale: float) -> bool:
        return tightest_epsilon(event(math.exp(log_scale)), budget.delta) <= budget.epsilon

    high, low = 0.0, -1.0
    while low > -12.0 and is_private(low):
        high, low = low, low - 1.0
    while high - low > 5e-3:
        middle = 0.5 * (low + high)
        high, low = (middle, low) if is_private(middle) else (high, middle)
    return math.exp(high)


def _penalty_at(penalty: float | Penalty, x: np.ndarray) -> float:
    lam = float(penalty(x.copy()) if callable(penalty) else penalty)
    if not (lam > 0 and math.isfinite(lam)):
        raise ValueError(f"penalty == {lam}, must be > 0 and finite.")
    return lam


# ---------------------------------------------------------------------------------------------
# the run


def dp_bilevel(
    problem: BilevelProblem,
    budget: PrivacyBudget,
    *,
    penalty: float | Penalty,
    n_steps: int = 10,
    step_size: float | StepRule = 1.0,
    inner: Any = "output_perturbation",
    output: Output = "tail_average",
    calibration: Calibration = "analytic",
    split: tuple[float, float, float] | None = None,
    share: float = 1.0,
    start: np.ndarray | None = None,
    outer_sampling_rate: float = 1.0,
    solver: Any = "auto",
    solver_rng: np.random.Generator | None = None,
    noise: NoiseSource | None = None,
) -> BilevelResult:
    """Minimise ``f(x, argmin g(x, .))`` privately.

    Parameters
    ----------
    problem : BilevelProblem
    budget : PrivacyBudget
    penalty, n_steps, inner, calibration, split, share, start, outer_sampling_rate, solver
        See :func:`plan_bilevel`. None may depend on records, but for released ones.
    step_size : float or callable ``(t, gradient, deviation) -> movement``, default=1.0
        ``x <- project(x - step_size gradient)``, or ``project(x + movement)``. The deviation is
        that of the inner noise in the gradient, where the problem knows it.
    output : {"tail_average", "last", "min_step"}, default="tail_average"
        The mean of the later half of the iterates, the last one, or that before the shortest step
        (as published; misleading at the boundary of the domain and under much noise, T10).
    solver_rng : numpy.random.Generator, optional
        The solver's own randomness.
    noise : NoiseSource, optional
        Default: the operating system's secure generator.

    Returns
    -------
    BilevelResult

    Notes
    -----
    Every release of a step is a Gaussian one at a point that earlier releases determine. Of the
    exact lower solutions nothing is kept. The sensitivity of a hypergradient is
    ``2 record_bound(||y_lam - y||)`` with the *released* points, projected onto the domain on which
    the constants hold; a noise scale chosen from releases is legitimate because the multiplier is
    fixed.

    References
    ----------
    G. Kornowski, "Differentially private bilevel optimization", 2024: Algorithms 1 and 3.
    """
    if output not in ("tail_average", "last", "min_step"):
        raise ValueError(f"output == {output!r}, must be 'tail_average', 'last' or 'min_step'.")
    plan = plan_bilevel(
        problem,
        budget,
        penalty=penalty,
        n_steps=n_steps,
        inner=inner,
        calibration=calibration,
        split=split,
        share=share,
        start=start,
        outer_sampling_rate=outer_sampling_rate,
        solver=solver,
    )
    source = NoiseSource() if noise is None else noise
    rng = np.random.default_rng() if solver_rng is None else solver_rng
    x = _start(problem, start)
    path, y = [x], np.zeros(problem.dimension_y)
    for t in range(n_steps):
        lam = _penalty_at(penalty, x)
        y, gradient, deviation = private_hypergradient(problem, x, lam, plan, rng, source)
        move = step_size(t, gradient, deviation) if callable(step_size) else -step_size * gradient
        x = problem.domain_x.project(x + move)
        path.append(x)
    iterates = np.array(path)
    if output == "last":
        x = iterates[-1]
    elif output == "min_step":
        x = iterates[int(np.argmin(np.linalg.norm(np.diff(iterates, axis=0), axis=1)))]
    else:
        x = iterates[1 + n_steps // 2 :].mean(axis=0)
    return BilevelResult(x, iterates, y, plan)


def private_hypergradient(
    problem: BilevelProblem,
    x: np.ndarray,
    lam: float,
    plan: BilevelPlan,
    solver_rng: np.random.Generator,
    noise: NoiseSource,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One step's lower solution, hypergradient and deviation of its inner noise: all private."""
    metric = problem.metric(x)
    points, variances = [], []
    for k, lower in enumerate((problem.lower(x), problem.penalised(x, lam))):
        point, variance = plan.inner.solve(lower, plan.multipliers[k], solver_rng, noise)
        points.append(problem.domain_y.project(point / metric))
        variances.append(variance)
    y, y_lam = points
    rate, outer = plan.outer_sampling_rate, plan.outer_multiplier
    batch = None
    if outer is not None and rate < 1.0:
        batch = np.flatnonzero(noise.uniform(problem.n_records) <= rate)
    gradient = problem.hypergradient(x, y, y_lam, lam, batch)
    moved = 2.0 * problem.record_bound(euclidean_norm(y_lam - y), lam)
    if outer is not None and moved > 0:
        mechanism = GaussianMechanism(moved / rate, outer)
        gradient = mechanism.release(gradient / rate, noise)
    if plan.inner.is_unbiased:
        energies = [problem.noise_energy(x, variance) for variance in variances]
        gradient = gradient - lam * (energies[1] - energies[0])
    deviation = lam * problem.noise_deviation(x, y, y_lam, (variances[0], variances[1]))
    return y, gradient, np.broadcast_to(deviation, gradient.shape)

"""The one step that every solution-based algorithm repeats: solve, certify, release.

*Kernel*: solve a strongly convex problem to a proven accuracy with any solver, add noise
calibrated to how far the solution can move plus twice that accuracy, project onto the
public domain. *Schedule*: which records, which regularisation, which budget. One-shot
output perturbation is one kernel step on all records; phased methods are several steps on
disjoint blocks. Only this package sees both the records and the noise.
"""

from __future__ import annotations

import math

import numpy as np

from skdp.algorithms.plan import Run
from skdp.mechanisms import AdditiveMechanism
from skdp.privacy.events import Neighbouring
from skdp.problems import Problem, ProblemConstants
from skdp.problems.elementwise import is_finite, maximum, minimum
from skdp.problems.rounding import EPS
from skdp.solvers import solve_certified

#: Solver accuracy as a fraction of half the sensitivity: costs 0.1 % of noise.
ACCURACY_FRACTION = 1e-3


def solve_and_release(
    problem: Problem,
    accuracy: float,
    mechanism: AdditiveMechanism,
    run: Run,
    *,
    project: bool = True,
) -> np.ndarray:
    """Solve `problem` to `accuracy`, add the noise of `mechanism`, project.

    The mechanism's sensitivity must be at least the argmin sensitivity of the problem plus
    ``2 * accuracy`` (Lowy and Razaviyayn 2021, Prop. 3.1; Zhang et al. 2022, Lemma 3.5). The point
    is certified to half of it, so that another solver changes it by no more than `accuracy`. With
    ``project=False`` the noise has mean 0.
    """
    solution = solve_certified(
        problem, 0.5 * accuracy, run.solver, rng=run.rng, verbose=run.verbose
    )
    point = mechanism.release(solution.point, run.noise)
    return problem.domain.project(point) if project else point


def solution_sensitivity(
    constants: ProblemConstants,
    neighbouring: Neighbouring = Neighbouring.REPLACE_ONE,
    accuracy_fraction: float = ACCURACY_FRACTION,
) -> tuple[float, float, float]:
    """Return the sensitivity Delta of the exact solution, the accuracy tau and ``Delta + 2 tau``.

    Tau is ``accuracy_fraction Delta / 2``, or the certifiable one if that is larger; the last is at
    most 2 R; arrays if there are arrays among the constants.
    """
    exact = constants.argmin_sensitivity(neighbouring)
    if not is_finite(exact):
        raise ValueError(
            "The loss has no Lipschitz constant on the whole space: bound the domain by a ball."
        )
    if not math.isfinite(constants.smoothness):
        raise ValueError(
            "The loss is not smooth: no accuracy is known to be certifiable on all data. Use its "
            "Moreau envelope, loss.smoothed(width), with a public width."
        )
    accuracy = maximum(0.5 * accuracy_fraction * exact, certifiable_accuracy(constants))
    sensitivity = exact + 2.0 * accuracy
    if constants.in_ball:
        # points lie in the domain, which may be larger than the ball that holds solutions
        sensitivity = minimum(sensitivity, 2.0 * constants.longest)
    return exact, accuracy, sensitivity


def certifiable_accuracy(constants: ProblemConstants) -> float:
    """Bound the accuracy that a certificate in double precision reaches with a wide margin.

    Eight times a bound on the rounding terms of :func:`skdp.solvers.certify`.
    """
    radius, mu = constants.radius, constants.strong_convexity
    gap = 2.0 * (constants.dimension + 8) * EPS * radius
    curvature = constants.total_smoothness + constants.size_ratio * constants.lipschitz / radius
    return 8.0 * ((2.0 * constants.gradient_rounding + curvature * gap) / mu + gap)

"""The one step that every solution-based algorithm repeats: solve, certify, release.

*Kernel*: solve a strongly convex problem to a proven accuracy with any solver, add noise
calibrated to how far the solution can move plus twice that accuracy, project onto the
public domain. *Schedule*: which records, which regularisation, which budget. One-shot
output perturbation is one kernel step on all records; phased methods are several steps on
disjoint blocks. Only this package sees both the records and the noise.
"""

from __future__ import annotations

import numpy as np

from skdp.algorithms.plan import Run
from skdp.mechanisms import AdditiveMechanism
from skdp.problems import Problem
from skdp.solvers import solve_certified
from skdp.solvers.secants import SolutionPath


def solve_and_release(
    problem: Problem,
    accuracy: float,
    mechanism: AdditiveMechanism,
    run: Run,
    *,
    project: bool = True,
    path: SolutionPath | None = None,
) -> np.ndarray:
    """Solve `problem` to `accuracy`, add the noise of `mechanism`, project.

    The mechanism's sensitivity must be at least the argmin sensitivity of the problem plus
    ``2 * accuracy`` (Lowy and Razaviyayn 2021, Prop. 3.1, with the accuracy holding surely;
    Zhang et al. 2022, Lemma 3.5). The point is certified to half of the accuracy, so that
    another solver changes it by no more than `accuracy`. Before noise it is projected onto the
    domain by the certified solve; projecting the noisy one is post-processing, and with
    ``project=False`` it is left out: the noise then has mean 0. Where the solver starts does not
    matter: on a `path`, where the minimisers before it say.

    Returns
    -------
    ndarray of shape (problem.dimension,)
    """
    start, center = None, problem.center
    if path is not None and center is not None:
        start, problem.guess = path.start(problem.alpha * center), path.inverse
    solution = solve_certified(
        problem, 0.5 * accuracy, run.solver, start, rng=run.rng, verbose=run.verbose
    )
    if path is not None and center is not None:
        path.add(problem.alpha * center, solution.point)
    point = mechanism.release(solution.point, run.noise)
    return problem.domain.project(point) if project else point

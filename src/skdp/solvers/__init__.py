"""Non-private solvers: each returns a point and a certificate of its distance to the solution.

Pass a name, a :class:`Solver`, or any callable ``(problem, accuracy) -> array``; whatever
comes back is checked in one place, :func:`solve_certified`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from skdp.solvers.accelerated_gradient import AcceleratedGradient
from skdp.solvers.base import CallableSolver, Solution, Solver, solve_certified
from skdp.solvers.certificates import Certificate, certify
from skdp.solvers.lbfgs import LBFGS
from skdp.solvers.newton import Newton

if TYPE_CHECKING:
    from skdp.problems import FiniteSumProblem

__all__ = [
    "LBFGS",
    "SOLVERS",
    "AcceleratedGradient",
    "CallableSolver",
    "Certificate",
    "Newton",
    "Solution",
    "Solver",
    "certify",
    "resolve_solver",
    "solve_certified",
]

#: Solvers by name.
SOLVERS: dict[str, type[Solver]] = {
    "newton": Newton,
    "lbfgs": LBFGS,
    "accelerated_gradient": AcceleratedGradient,
}


class _Auto(Solver):
    """Newton when its Hessians pay, else L-BFGS; decided by the shape alone.

    A Hessian costs about ``dimension`` gradients for several outputs, and about ``width``
    gradients of a faster kind (matrix products) for one.
    """

    def minimise(
        self,
        problem: FiniteSumProblem,
        accuracy: float,
        start: np.ndarray,
        rng: np.random.Generator,
    ) -> np.ndarray:
        limit = 600 if problem.loss.n_outputs == 1 else 100
        chosen: Solver = Newton() if problem.dimension <= limit else LBFGS()
        return chosen.minimise(problem, accuracy, start, rng)


def resolve_solver(
    solver: str | Solver | Callable[[FiniteSumProblem, float], np.ndarray],
) -> Solver:
    """Turn a name, a solver or a callable into a :class:`Solver`.

    Raises
    ------
    ValueError
        For an unknown name or anything else.
    """
    if isinstance(solver, Solver):
        return solver
    if solver == "auto":
        return _Auto()
    if isinstance(solver, str) and solver in SOLVERS:
        return SOLVERS[solver]()
    if callable(solver) and not isinstance(solver, type):
        return CallableSolver(solver)
    raise ValueError(
        f"solver == {solver!r}, must be 'auto', one of {sorted(SOLVERS)}, a "
        "skdp.solvers.Solver or a callable (problem, accuracy) -> array."
    )

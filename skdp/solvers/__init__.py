"""Non-private solvers: each returns a point and a certificate of its distance to the solution.

Pass a name, a :class:`Solver`, or any callable ``(problem, accuracy) -> array``; whatever
comes back is checked in one place, :func:`solve_certified`.

=========================  ======================================================
full gradients             :class:`GradientDescent`, :class:`AcceleratedGradient`,
                           :class:`LBFGS`, :class:`Newton`
mini-batches               :class:`SVRG`, :class:`SARAH`, :class:`SAGA`,
                           :class:`Katyusha`
non-smooth losses          :class:`AugmentedLagrangian`, :class:`Subgradient`,
                           :class:`StochasticSubgradient`
other packages             :class:`ScipySolver`, :class:`SklearnSolver`
saddle points              :mod:`skdp.solvers.saddle`
=========================  ======================================================
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from sklearn.base import BaseEstimator

from skdp.solvers.accelerated_gradient import AcceleratedGradient
from skdp.solvers.adapters import ScipySolver, SklearnSolver
from skdp.solvers.augmented_lagrangian import AugmentedLagrangian
from skdp.solvers.base import CallableSolver, Solver, solve_certified
from skdp.solvers.certificates import (
    Attempt,
    Certificate,
    ForwardBackwardStep,
    Solution,
    certify,
    certify_dual,
    forward_backward_distance,
)
from skdp.solvers.gradient_descent import GradientDescent
from skdp.solvers.katyusha import Katyusha
from skdp.solvers.lbfgs import LBFGS
from skdp.solvers.newton import Newton
from skdp.solvers.saddle import (
    GDA,
    LSVRE,
    AcceleratedSaddleSVRG,
    BestResponse,
    CallableSaddleSolver,
    Catalyst,
    Extragradient,
    SaddlePoint,
    SaddleSAGA,
    SaddleSolver,
    SaddleSVRG,
    certifiable_saddle_accuracy,
    certify_saddle,
    resolve_saddle_solver,
    solve_saddle_certified,
)
from skdp.solvers.saga import SAGA
from skdp.solvers.sarah import SARAH
from skdp.solvers.subgradient import StochasticSubgradient, Subgradient
from skdp.solvers.svrg import SVRG

if TYPE_CHECKING:
    from skdp.problems import Problem

__all__ = [
    "GDA",
    "LBFGS",
    "LSVRE",
    "SAGA",
    "SARAH",
    "SOLVERS",
    "SVRG",
    "AcceleratedGradient",
    "AcceleratedSaddleSVRG",
    "Attempt",
    "AugmentedLagrangian",
    "BestResponse",
    "CallableSaddleSolver",
    "CallableSolver",
    "Catalyst",
    "Certificate",
    "Extragradient",
    "ForwardBackwardStep",
    "GradientDescent",
    "Katyusha",
    "Newton",
    "SaddlePoint",
    "SaddleSAGA",
    "SaddleSVRG",
    "SaddleSolver",
    "ScipySolver",
    "SklearnSolver",
    "Solution",
    "Solver",
    "StochasticSubgradient",
    "Subgradient",
    "certifiable_saddle_accuracy",
    "certify",
    "certify_dual",
    "certify_saddle",
    "forward_backward_distance",
    "resolve_saddle_solver",
    "resolve_solver",
    "solve_certified",
    "solve_saddle_certified",
]

#: Solvers by name.
SOLVERS: dict[str, type[Solver]] = {
    "newton": Newton,
    "lbfgs": LBFGS,
    "gradient_descent": GradientDescent,
    "accelerated_gradient": AcceleratedGradient,
    "svrg": SVRG,
    "sarah": SARAH,
    "saga": SAGA,
    "katyusha": Katyusha,
    "subgradient": Subgradient,
    "stochastic_subgradient": StochasticSubgradient,
    "augmented_lagrangian": AugmentedLagrangian,
}


#: Cost of a Hessian per coefficient, in units of the passes of L-BFGS as estimated below.
_HESSIAN_WEIGHT = 0.4


class _Auto(Solver):
    """Newton when its Hessians pay, else L-BFGS; decided by public numbers alone.

    L-BFGS takes about ``kappa^0.4 log(1 / accuracy)`` passes, measured over three decades of
    kappa; a Hessian costs about ``dimension`` passes, of a faster kind (matrix products) if there
    is one output. The constants come from the same measurements (benchmarks/cases/solvers.py).
    """

    def minimise(
        self,
        problem: Problem,
        accuracy: float,
        start: np.ndarray,
        rng: np.random.Generator,
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        return self._choice(problem, accuracy).minimise(problem, accuracy, start, rng)

    def pass_limit(self, problem: Problem, accuracy: float) -> float:
        return self._choice(problem, accuracy).pass_limit(problem, accuracy)

    @staticmethod
    def _choice(problem: Problem, accuracy: float) -> Solver:
        if not problem.is_smooth:
            return AugmentedLagrangian()
        constants = problem.constants
        digits = math.log(max(math.e, constants.localisation / accuracy))
        passes = constants.condition_number**0.4 * digits
        weight = _HESSIAN_WEIGHT * (2.0 if problem.n_outputs > 1 else 1.0)
        newton = weight * problem.dimension <= passes and Newton.affordable(problem)
        return Newton() if newton else LBFGS()


def resolve_solver(
    solver: str | Solver | Callable[[Problem, float], np.ndarray],
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
    hint = ""
    if isinstance(solver, type):
        hint = f" Pass an object, {solver.__name__}(), not the class."
    elif isinstance(solver, str):
        close = difflib.get_close_matches(solver.lower(), [*SOLVERS, "auto"], n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
    elif isinstance(solver, BaseEstimator):
        hint = " Wrap an estimator in skdp.solvers.SklearnSolver."
    elif hasattr(solver, "minimise"):
        hint = " Derive its class from skdp.solvers.Solver."
    raise ValueError(
        f"solver == {solver!r}, must be 'auto', one of {sorted(SOLVERS)}, a "
        f"skdp.solvers.Solver or a callable (problem, accuracy) -> array.{hint}"
    )

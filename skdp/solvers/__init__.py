"""Non-private solvers: each returns a point and a certificate of its distance to the solution.

Pass a name, a :class:`Solver`, or any callable ``(problem, accuracy) -> array``; every answer is
checked in one place, :func:`solve_certified`.

=========================  ======================================================
full gradients             :class:`Newton`, :class:`LBFGS`, :class:`AcceleratedGradient`
mini-batches               :class:`SVRG`
other packages             :class:`ScipySolver`, :class:`SklearnSolver`
saddle points              :mod:`skdp.solvers.saddle`
=========================  ======================================================
"""

from skdp.solvers.accelerated_gradient import AcceleratedGradient
from skdp.solvers.adapters import ScipySolver, SklearnSolver
from skdp.solvers.base import CallableSaddleSolver, CallableSolver, SaddleSolver, Solver
from skdp.solvers.certificates import (
    Attempt,
    Certificate,
    SaddlePoint,
    Solution,
    certifiable_saddle_accuracy,
    certify,
    certify_saddle,
)
from skdp.solvers.lbfgs import LBFGS
from skdp.solvers.newton import Newton
from skdp.solvers.registry import solve_certified
from skdp.solvers.resolve import SADDLE_SOLVERS, SOLVERS, resolve_solver
from skdp.solvers.saddle import LSVRE, BestResponse, Extragradient
from skdp.solvers.svrg import SVRG

__all__ = [
    "LBFGS",
    "LSVRE",
    "SADDLE_SOLVERS",
    "SOLVERS",
    "SVRG",
    "AcceleratedGradient",
    "Attempt",
    "BestResponse",
    "CallableSaddleSolver",
    "CallableSolver",
    "Certificate",
    "Extragradient",
    "Newton",
    "SaddlePoint",
    "SaddleSolver",
    "ScipySolver",
    "SklearnSolver",
    "Solution",
    "Solver",
    "certifiable_saddle_accuracy",
    "certify",
    "certify_saddle",
    "resolve_solver",
    "solve_certified",
]

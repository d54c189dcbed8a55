"""Non-private solvers: each returns a point and a certificate of its distance to the solution.

Pass a name, a :class:`Solver`, or any callable ``(problem, accuracy) -> array``; every answer is
checked in one place, :func:`solve_certified`.

=========================  ======================================================
full gradients             :class:`GradientDescent`, :class:`AcceleratedGradient`,
                           :class:`LBFGS`, :class:`Newton`
mini-batches               :class:`SVRG`, :class:`SARAH`, :class:`SAGA`,
                           :class:`Katyusha`
subgradients               :class:`Subgradient`, :class:`StochasticSubgradient`
other packages             :class:`ScipySolver`, :class:`SklearnSolver`
saddle points              :mod:`skdp.solvers.saddle`
=========================  ======================================================
"""

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
from skdp.solvers.gradient_descent import AcceleratedGradient, GradientDescent
from skdp.solvers.lbfgs import LBFGS
from skdp.solvers.newton import Newton
from skdp.solvers.registry import solve_certified
from skdp.solvers.resolve import SADDLE_SOLVERS, SOLVERS, resolve_solver
from skdp.solvers.saddle import (
    GDA,
    LSVRE,
    AcceleratedSaddleSVRG,
    BestResponse,
    Catalyst,
    Extragradient,
    MaximinAG2,
    SaddleSAGA,
    SaddleSVRG,
)
from skdp.solvers.subgradient import StochasticSubgradient, Subgradient
from skdp.solvers.variance_reduced import SAGA, SARAH, SVRG, Katyusha

__all__ = [
    "GDA",
    "LBFGS",
    "LSVRE",
    "SADDLE_SOLVERS",
    "SAGA",
    "SARAH",
    "SOLVERS",
    "SVRG",
    "AcceleratedGradient",
    "AcceleratedSaddleSVRG",
    "Attempt",
    "BestResponse",
    "CallableSaddleSolver",
    "CallableSolver",
    "Catalyst",
    "Certificate",
    "Extragradient",
    "GradientDescent",
    "Katyusha",
    "MaximinAG2",
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
    "certify_saddle",
    "resolve_solver",
    "solve_certified",
]

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

from skdp.solvers.accelerated_gradient import AcceleratedGradient
from skdp.solvers.adapters import ScipySolver, SklearnSolver
from skdp.solvers.base import CallableSaddleSolver, CallableSolver, SaddleSolver, Solver
from skdp.solvers.certificates import (
    Attempt,
    Certificate,
    ForwardBackwardStep,
    SaddlePoint,
    Solution,
    certifiable_saddle_accuracy,
    certify,
    certify_saddle,
    forward_backward_distance,
)
from skdp.solvers.gradient_descent import GradientDescent
from skdp.solvers.katyusha import Katyusha
from skdp.solvers.lbfgs import LBFGS
from skdp.solvers.newton import Newton
from skdp.solvers.registry import SADDLE_SOLVERS, SOLVERS, resolve_solver, solve_certified
from skdp.solvers.saddle import (
    GDA,
    LSVRE,
    AcceleratedSaddleSVRG,
    BestResponse,
    Catalyst,
    Extragradient,
    SaddleSAGA,
    SaddleSVRG,
)
from skdp.solvers.saga import SAGA
from skdp.solvers.sarah import SARAH
from skdp.solvers.subgradient import StochasticSubgradient, Subgradient
from skdp.solvers.svrg import SVRG

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
    "certify_saddle",
    "forward_backward_distance",
    "resolve_solver",
    "solve_certified",
]

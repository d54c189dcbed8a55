"""Non-private solvers of saddle problems, and the gate that checks their answers.

=====================  ==========================================================
full operators         :class:`GradientDescentAscent`, :class:`Extragradient`
mini-batches           :class:`SaddleSVRG`, :class:`SaddleSAGA`,
                       :class:`AcceleratedSaddleSVRG`,
                       :class:`VarianceReducedExtragradient`
=====================  ==========================================================

All of them work in the coordinates ``(sqrt(mu_x) x, sqrt(mu_y) y)``, in which a strong
regulariser of one block does not spoil the condition of the other: steps ``eta / mu_x`` and
``eta / mu_y``, and Euclidean projections of each block.
"""

from skdp.solvers.saddle.base import (
    CallableSaddleSolver,
    SaddleSolver,
    resolve_saddle_solver,
    solve_saddle_certified,
)
from skdp.solvers.saddle.certificate import (
    SaddlePoint,
    certifiable_saddle_accuracy,
    certify_saddle,
)
from skdp.solvers.saddle.extragradient import Extragradient
from skdp.solvers.saddle.gradient_descent_ascent import GradientDescentAscent
from skdp.solvers.saddle.saga import SaddleSAGA
from skdp.solvers.saddle.svrg import AcceleratedSaddleSVRG, SaddleSVRG
from skdp.solvers.saddle.variance_reduced_extragradient import VarianceReducedExtragradient

__all__ = [
    "AcceleratedSaddleSVRG",
    "CallableSaddleSolver",
    "Extragradient",
    "GradientDescentAscent",
    "SaddlePoint",
    "SaddleSAGA",
    "SaddleSVRG",
    "SaddleSolver",
    "VarianceReducedExtragradient",
    "certifiable_saddle_accuracy",
    "certify_saddle",
    "resolve_saddle_solver",
    "solve_saddle_certified",
]

"""What is minimised: losses, domains, regularisers, and their public constants.

A problem is the only thing that knows where the rows live (dense or CSR); solvers see
values, gradients and Hessians, privacy analyses see :class:`ProblemConstants` alone.
"""

from skdp.problems.adversarial import AdversarialProblem, AdversarialRisk, Attack
from skdp.problems.bilevel import (
    BilevelConstants,
    BilevelProblem,
    PenaltyProblem,
    WeightedLoss,
)
from skdp.problems.bilinear import BilinearProblem
from skdp.problems.constants import ROUNDING_SLACK, ProblemConstants
from skdp.problems.counting import Counts, counted
from skdp.problems.declared import DeclaredProblem
from skdp.problems.declared_saddle import DeclaredSaddleProblem
from skdp.problems.domains import Ball, Box, Domain, Simplex, WholeSpace
from skdp.problems.finite_sum import (
    MAX_SIZE_RATIO,
    Batch,
    FiniteSumProblem,
    ball_problem,
    bounded_problem_radius,
    generalised_linear_constants,
)
from skdp.problems.losses import (
    HalfSquaredLoss,
    LogisticLoss,
    Loss,
    OneVsRestLoss,
    SoftmaxLoss,
    SquaredHingeLoss,
)
from skdp.problems.max_group_loss import (
    GroupWeights,
    MaxGroupLossProblem,
    max_group_loss_constants,
)
from skdp.problems.penalties import PenaltyGroups
from skdp.problems.piecewise_linear import (
    AbsoluteLoss,
    HingeLoss,
    PiecewiseLinearLoss,
    QuantileLoss,
    SmoothedLoss,
    huber_loss,
)
from skdp.problems.problem import Problem
from skdp.problems.records import Records
from skdp.problems.risks import Design, EmpiricalRisk, Objective
from skdp.problems.saddle import BlockConstants, SaddleConstants, SaddleProblem
from skdp.problems.tilted import TiltedProblem, TiltedRisk

__all__ = [
    "MAX_SIZE_RATIO",
    "ROUNDING_SLACK",
    "AbsoluteLoss",
    "AdversarialProblem",
    "AdversarialRisk",
    "Attack",
    "Ball",
    "Batch",
    "BilevelConstants",
    "BilevelProblem",
    "BilinearProblem",
    "BlockConstants",
    "Box",
    "Counts",
    "DeclaredProblem",
    "DeclaredSaddleProblem",
    "Design",
    "Domain",
    "EmpiricalRisk",
    "FiniteSumProblem",
    "GroupWeights",
    "HalfSquaredLoss",
    "HingeLoss",
    "LogisticLoss",
    "Loss",
    "MaxGroupLossProblem",
    "Objective",
    "OneVsRestLoss",
    "PenaltyGroups",
    "PenaltyProblem",
    "PiecewiseLinearLoss",
    "Problem",
    "ProblemConstants",
    "QuantileLoss",
    "Records",
    "SaddleConstants",
    "SaddleProblem",
    "Simplex",
    "SmoothedLoss",
    "SoftmaxLoss",
    "SquaredHingeLoss",
    "TiltedProblem",
    "TiltedRisk",
    "WeightedLoss",
    "WholeSpace",
    "ball_problem",
    "bounded_problem_radius",
    "counted",
    "generalised_linear_constants",
    "huber_loss",
    "max_group_loss_constants",
]

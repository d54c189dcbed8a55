"""Losses, domains and problems, and their public constants.

Solvers see values, gradients and Hessians, privacy analyses see :class:`ProblemConstants` alone.
"""

from skdp.problems.adversarial import AdversarialProblem, AdversarialRisk, Attack
from skdp.problems.bilevel import BilevelConstants, BilevelProblem, PenaltyProblem
from skdp.problems.bilinear import BilinearProblem
from skdp.problems.categorical import CategoricalRecords, universe_size
from skdp.problems.constants import Design, ProblemConstants, bounded_problem_radius
from skdp.problems.declared import DeclaredProblem, DeclaredSaddleProblem
from skdp.problems.domains import Ball, Box, CappedSimplex, Domain, Simplex, WholeSpace
from skdp.problems.finite_sum import Batch, FiniteSumProblem, ball_problem
from skdp.problems.group_network import GroupNetworkProblem, Network
from skdp.problems.losses import (
    ClippedLogisticLoss,
    HalfSquaredLoss,
    LogisticLoss,
    Loss,
    SquaredHingeLoss,
)
from skdp.problems.max_group_loss import GroupWeights, MaxGroupLossProblem, max_group_loss_constants
from skdp.problems.minimax import MinimaxProblem, RecordGradients
from skdp.problems.multiclass_losses import OneVsRestLoss, SoftmaxLoss
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
from skdp.problems.risks import EmpiricalRisk, Objective
from skdp.problems.rounding import ROUNDING_SLACK
from skdp.problems.saddle import BlockConstants, SaddleConstants, SaddleProblem
from skdp.problems.tilted import TiltedProblem, TiltedRisk
from skdp.problems.workloads import Marginals, QueryMatrix, QueryObjective, Workload

__all__ = [
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
    "CappedSimplex",
    "CategoricalRecords",
    "ClippedLogisticLoss",
    "DeclaredProblem",
    "DeclaredSaddleProblem",
    "Design",
    "Domain",
    "EmpiricalRisk",
    "FiniteSumProblem",
    "GroupNetworkProblem",
    "GroupWeights",
    "HalfSquaredLoss",
    "HingeLoss",
    "LogisticLoss",
    "Loss",
    "Marginals",
    "MaxGroupLossProblem",
    "MinimaxProblem",
    "Network",
    "Objective",
    "OneVsRestLoss",
    "PenaltyGroups",
    "PenaltyProblem",
    "PiecewiseLinearLoss",
    "Problem",
    "ProblemConstants",
    "QuantileLoss",
    "QueryMatrix",
    "QueryObjective",
    "RecordGradients",
    "Records",
    "SaddleConstants",
    "SaddleProblem",
    "Simplex",
    "SmoothedLoss",
    "SoftmaxLoss",
    "SquaredHingeLoss",
    "TiltedProblem",
    "TiltedRisk",
    "WholeSpace",
    "Workload",
    "ball_problem",
    "bounded_problem_radius",
    "huber_loss",
    "max_group_loss_constants",
    "universe_size",
]

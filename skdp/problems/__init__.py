"""Losses, domains and problems, and their public constants.

Solvers see values, gradients and Hessians, privacy analyses see :class:`ProblemConstants` alone.
"""

from skdp.problems.adversarial import AdversarialRisk, Attack
from skdp.problems.bilevel import BilevelConstants, BilevelProblem, PenaltyProblem
from skdp.problems.bilinear import BilinearProblem
from skdp.problems.categorical import CategoricalRecords, universe_size
from skdp.problems.constants import Design, ProblemConstants, bounded_problem_radius
from skdp.problems.declared import DeclaredProblem, DeclaredSaddleProblem
from skdp.problems.domains import Ball, Box, Domain, Simplex, WholeSpace
from skdp.problems.finite_sum import FiniteSumProblem, ball_problem
from skdp.problems.losses import (
    ClippedLogisticLoss,
    HalfSquaredLoss,
    LogisticLoss,
    Loss,
    SquaredHingeLoss,
)
from skdp.problems.max_group_loss import GroupWeights, MaxGroupLossProblem
from skdp.problems.minimax import MinimaxProblem, RecordGradients
from skdp.problems.multiclass_losses import OneVsRestLoss, SoftmaxLoss
from skdp.problems.penalties import PenaltyGroups
from skdp.problems.piecewise_linear import (
    AbsoluteLoss,
    HingeLoss,
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
    "AdversarialRisk",
    "Attack",
    "Ball",
    "BilevelConstants",
    "BilevelProblem",
    "BilinearProblem",
    "BlockConstants",
    "Box",
    "CategoricalRecords",
    "ClippedLogisticLoss",
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
    "Marginals",
    "MaxGroupLossProblem",
    "MinimaxProblem",
    "Objective",
    "OneVsRestLoss",
    "PenaltyGroups",
    "PenaltyProblem",
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
    "universe_size",
]

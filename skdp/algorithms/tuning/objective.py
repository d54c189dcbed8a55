"""Public side of a tuning problem: a loss, penalties to choose, and the design of the records."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from skdp.algorithms.plan import Result
from skdp.mechanisms import calibrated_mechanism
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import Neighbouring
from skdp.problems import (
    Design,
    EmpiricalRisk,
    FiniteSumProblem,
    Loss,
    PenaltyGroups,
    ProblemConstants,
    Records,
    ball_problem,
)
from skdp.problems.records import scaled_norm


@dataclass(frozen=True, kw_only=True)
class TuningObjective:
    """``mean loss(<w, x>) + (1/2) sum_j alpha_g(j) r_j w_j^2`` before alpha and records are known.

    Whitened coordinates (:mod:`skdp.problems.penalties`) have the penalty 1 whatever alpha is.
    `data_norm` is the norm bound of the features, `intercept` that feature's value or 0.
    """

    loss: Loss
    penalties: PenaltyGroups
    design: Design
    data_norm: float
    intercept: float
    neighbouring: Neighbouring = Neighbouring.REPLACE_ONE

    def __post_init__(self) -> None:
        self.penalties.check_width(self.design.width)

    @classmethod
    def of(cls, records: Records, loss: Loss, penalties: PenaltyGroups) -> TuningObjective:
        """Take the public numbers of records of which one is replaced; no column may be scaled."""
        if records.factors is not None:
            raise ValueError("Tuning scales columns itself: the records must have none scaled.")
        relation = Neighbouring.REPLACE_ONE
        if records.persons is not None:
            relation = relation.of_persons
        return cls(
            loss=loss,
            penalties=penalties,
            design=Design.of(records),
            data_norm=records.data_norm,
            intercept=records.intercept,
            neighbouring=relation,
        )

    def check(self, records: Records) -> None:
        """Refuse records that are not those of the design, and targets that are not of the loss."""
        if TuningObjective.of(records, self.loss, self.penalties) != self:
            raise ValueError("The records are not of the design that the plan is made for.")
        records.check_targets(self.loss)

    def whitening(self, alpha: np.ndarray) -> np.ndarray:
        """Factors of the columns, shape (width,)."""
        return np.asarray(1.0 / np.sqrt(self.penalties.diagonal(alpha)))

    def whitened(self, alpha: np.ndarray) -> Design:
        """Design of whitened records."""
        norm = scaled_norm(self.data_norm, self.intercept, self.whitening(alpha))
        return replace(self.design, feature_norm=norm)

    def constants(self, alpha: np.ndarray) -> ProblemConstants:
        """Constants of :meth:`problem` on all records."""
        risk, design = EmpiricalRisk(self.loss), self.whitened(alpha)
        return risk.constants(design, 1.0, risk.radius(design, 1.0, None))

    def problem(self, records: Records, alpha: np.ndarray) -> FiniteSumProblem:
        """Penalised mean loss of some records in whitened coordinates."""
        return ball_problem(records.scaled(self.whitening(alpha)), self.loss, 1.0)

    def public_alpha(self, budget: PrivacyBudget, coef_norm: float, share: float = 1.0) -> float:
        """Minimise bias plus noise over one alpha for all groups, from public numbers.

        ``alpha^3 = 2 c m (2 k^2 r / n)^2 / B^2`` for a predictor of norm B, the loss's curvature c,
        the variance m of the noise for a sensitivity of 1, gradients of at most ``U r`` and rows
        whitened to the norm ``U = k / sqrt(alpha)``; the fit will have a share of the budget.
        """
        loss, norm = self.loss, self.design.feature_norm
        square = self.whitened(np.ones(self.penalties.n_groups)).feature_norm ** 2
        slope = loss.lipschitz(norm, coef_norm) / norm
        unit = calibrated_mechanism(budget, 1.0, share=share)
        variance = unit.mean_square(self.design.width) / self.design.width
        moved = 2.0 * square * slope / self.design.n_records
        alpha = (2.0 * loss.curvature * variance * (moved / coef_norm) ** 2) ** (1.0 / 3.0)
        return float(self.penalties.clipped(alpha))


@dataclass(frozen=True, kw_only=True)
class TunedResult(Result):
    """A private model with a private alpha, and the path of alphas; functions of the releases."""

    #: Shape (n_groups,).
    alpha: np.ndarray

"""Tilted empirical risk: between the mean loss and the worst one.

``F_t(w) = (1/t) log((1/n) sum_i exp(t f_i(w)))`` for a tilt t > 0 is the mean loss in the limit
t -> 0 and the largest loss in the limit t -> infinity (Li, Beirami, Sanjabi and Smith 2021;
Lowy and Razaviyayn 2021, section 5.1). Its gradient is the mean of the records' gradients under
weights proportional to ``exp(t f_i(w))``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skdp._checks import check_positive
from skdp.problems.constants import Design, ProblemConstants
from skdp.problems.domains import Ball, Domain
from skdp.problems.finite_sum import UnbatchedProblem
from skdp.problems.losses import Loss
from skdp.problems.records import Records
from skdp.problems.risks import EmpiricalRisk
from skdp.problems.rounding import EPS, chain


def tilted_constants(
    mean: ProblemConstants, loss: Loss, tilt: float, design: Design
) -> ProblemConstants:
    """Compute the constants of a tilted problem from those of the mean.

    Weights that may add up to less than 1 are refused: one person may outweigh all others then.

    * Lipschitz constant and gradient diameter are those of the loss.
    * Smoothness ``beta + t L^2``, L on the ball of three times the radius, which accelerated
      methods may visit.
    * Weight of a record: ``C / (C + n - 1)`` with ``C = exp(t (A - a))`` and A - a the range of
      the loss at one w. The sensitivity is then ``D C / (mu (C + n - 1))``.

    Proofs, that of the rounding bound included: docs/theory/constants.md, "Tilted losses".
    """
    if design.size_ratio != 1.0:
        raise ValueError("tilt > 0 is proven for neighbouring='replace_one' only.")
    if design.is_slack:
        raise ValueError("tilt > 0 has no proof for sample_weight, nor for max_records_per_user.")
    n, lipschitz, feature_norm = mean.n_records, mean.lipschitz, design.feature_norm
    radius = mean.longest
    exponent = tilt * loss.value_range(feature_norm, radius)
    # C / (C + n - 1) = 1 / (1 + (n - 1) / C) without overflow
    weight = 1.0 / (1.0 + (n - 1) * math.exp(-exponent))
    largest = loss.value_range(feature_norm, 0.0) + math.log(loss.n_outputs + 1.0)
    largest += lipschitz * radius
    error = EPS * ((mean.row_width + 16) * lipschitz * radius + 16.0 * largest)
    additions = chain(mean.most_terms, most_rows=mean.most_rows) + 32.0
    return replace(
        mean,
        smoothness=mean.smoothness + tilt * loss.lipschitz(feature_norm, 3.0 * radius) ** 2,
        record_weight=weight,
        additional_rounding=lipschitz * (4.0 * tilt * error + 4.0 * additions * EPS),
    )


class TiltedProblem(UnbatchedProblem):
    """``min over w of (1/t) log mean exp(t phi(W x_i, t_i)) + (alpha/2) ||w - center||^2``.

    For a tilt t > 0 and replace-one neighbours.
    """

    def __init__(
        self,
        records: Records,
        loss: Loss,
        alpha: float,
        domain: Domain,
        tilt: float,
        **options: Any,
    ) -> None:
        check_positive(tilt=tilt)
        super().__init__(records, loss, alpha, domain, **options)
        self.tilt = float(tilt)
        design = Design.of(records, options.get("n_public"))
        self.constants = tilted_constants(self.constants, loss, self.tilt, design)

    def _evaluate(
        self, w: np.ndarray, hessian: bool = False
    ) -> tuple[float, np.ndarray, np.ndarray | None]:
        margins, targets, n = self.margins(w), self.records.targets, self.n_public
        losses = self.loss.value(margins, targets)
        largest = float(losses.max())
        exponents = self.tilt * (losses - largest)
        # > -1: the largest loss contributes 0
        mean = self._sum(np.expm1(exponents)) / n
        # not 1 + expm1: an absolute error of eps in each small weight would add up
        weights = np.exp(exponents)
        tilted = math.log1p(mean) if mean > -0.5 else math.log(self._sum(weights) / n)
        value = largest + tilted / self.tilt
        weights /= self._sum(weights)
        residuals = self.loss.derivative(margins, targets)
        single = residuals.ndim == 1
        total = n * self.pull_back(residuals * (weights if single else weights[:, None]))
        if not hessian:
            return value, total, None
        curvature = self.loss.second_derivative(margins, targets)
        if single:
            curvature = weights * (curvature + self.tilt * residuals**2)
        else:
            curvature = curvature + self.tilt * residuals[:, :, None] * residuals[:, None, :]
            curvature *= weights[:, None, None]
        gram = self.records.gram(lambda block: curvature[block.positions], self.n_outputs)
        return value, total, gram - self.tilt * np.outer(total, total)


@dataclass(frozen=True)
class TiltedRisk(EmpiricalRisk):
    """The tilted mean of a loss over the records, for a tilt t > 0."""

    tilt: float = 1.0

    is_mean = False

    def __post_init__(self) -> None:
        check_positive(tilt=self.tilt)

    def constants(
        self, design: Design, alpha: float, radius: float, center_norm: float = 0.0
    ) -> ProblemConstants:
        mean = super().constants(design, alpha, radius, center_norm)
        return tilted_constants(mean, self.loss, self.tilt, design)

    def alarms(self, constants: ProblemConstants, design: Design) -> tuple[str, ...]:
        if constants.effective_records >= 2.0:
            return ()
        apart = self.loss.value_range(design.feature_norm, constants.longest)
        most = math.log(max(1.0, constants.n_records - 1.0)) / apart
        return (
            f"tilt == {self.tilt:g} lets one record outweigh all the others together, so that the "
            f"noise does not shrink with their number: take less than {most:.2g}, or a smaller "
            "coef_norm.",
        )

    def penalty_cost(
        self, design: Design, alpha: float, distance: float, second_moment: float | None = None
    ) -> float:
        """``(D^2 / 2) mu``: the tilted risk has no bound on its curvature from second moments."""
        return 0.5 * distance**2 * alpha

    def noise_cost(self, design: Design, variance: float) -> float:
        """Return ``(T X^2 + t L^2) v / 2``: the trace of the covariance is at most ``L^2``.

        L is that on the ball of the reference norm.
        """
        lipschitz = self.loss.lipschitz(design.feature_norm, self.reference_norm(design))
        return super().noise_cost(design, variance) + 0.5 * self.tilt * lipschitz**2 * variance

    def problem(
        self, records: Records, alpha: float, radius: float, **options: Any
    ) -> TiltedProblem:
        return TiltedProblem(records, self.loss, alpha, Ball(radius), self.tilt, **options)

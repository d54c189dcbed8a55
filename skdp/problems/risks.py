"""Objectives before their records are known, for plans.

A *risk* turns a loss into an objective: the mean over the records (:class:`EmpiricalRisk`), the
tilted mean (:class:`skdp.problems.TiltedRisk`), the mean of worst cases under an attack
(:class:`skdp.problems.AdversarialRisk`). With a :class:`Design` it has constants, and bounds on the
cost of penalty, noise and smoothing. Only :meth:`problem` sees records.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from skdp.privacy.events import Neighbouring
from skdp.problems.constants import (
    Design,
    ProblemConstants,
    bounded_problem_radius,
    generalised_linear_constants,
)
from skdp.problems.domains import Ball
from skdp.problems.elementwise import minimum
from skdp.problems.finite_sum import FiniteSumProblem
from skdp.problems.losses import Loss
from skdp.problems.multiclass_losses import OneVsRestLoss
from skdp.problems.piecewise_linear import PiecewiseLinearLoss, SmoothedLoss
from skdp.problems.problem import Problem
from skdp.problems.records import Records

#: Width of an envelope in units of the noise in the margins: its bias is then at most 5 % of
#: what the noise may cost.
_SMOOTHING = 0.05

_Risk = TypeVar("_Risk", bound="EmpiricalRisk")


def _smoothed(loss: Loss, spread: float) -> Loss:
    if isinstance(loss, OneVsRestLoss):
        return replace(loss, base=_smoothed(loss.base, spread))
    if not isinstance(loss, PiecewiseLinearLoss):
        raise TypeError(f"{type(loss).__name__} is neither smooth nor piecewise linear.")
    return loss.smoothed(_SMOOTHING * spread / loss.derivative_bound)


@dataclass(frozen=True)
class EmpiricalRisk:
    """The mean of a loss over the records."""

    loss: Loss

    def radius(self, design: Design, alpha: float, coef_norm: float | None) -> float:
        """Radius of the ball to solve in: see :func:`skdp.problems.bounded_problem_radius`."""
        return bounded_problem_radius(self.loss, design.feature_norm, alpha, coef_norm)

    def constants(
        self, design: Design, alpha: float, radius: float, center_norm: float = 0.0
    ) -> ProblemConstants:
        """Constants of the problem on the ball; see :class:`skdp.problems.ProblemConstants`."""
        return generalised_linear_constants(self.loss, design, alpha, radius, center_norm)

    def problem(
        self, records: Records, alpha: float, radius: float, **options: Any
    ) -> FiniteSumProblem:
        """Make the problem of some records; the options are `n_public` and `center`."""
        return FiniteSumProblem(records, self.loss, alpha, Ball(radius), **options)

    #: Whether it is a mean of one function per record, so that blocks of records make sense.
    is_mean = True

    @property
    def is_smooth(self) -> bool:
        """Whether the objective has a Lipschitz gradient."""
        return math.isfinite(self.loss.curvature)

    def smoothed(self: _Risk, spread: float) -> _Risk:
        """Return a smooth risk whose bias is a small part of what noise costs.

        A piecewise linear loss is replaced by its Moreau envelope of width ``0.05 spread / S``: S
        bounds its derivatives, `spread` is the public standard deviation of the noise in the
        margins. The envelope is below the loss by at most ``0.025 S spread``, 5 % of the cost of
        noise or less. It *is* the private objective.
        """
        return self if self.is_smooth else replace(self, loss=_smoothed(self.loss, spread))

    @property
    def smoothing(self) -> float:
        """Width of the envelope that stands for a piecewise linear loss; 0 without one."""
        loss = self.loss.base if isinstance(self.loss, OneVsRestLoss) else self.loss
        return loss.width if isinstance(loss, SmoothedLoss) else 0.0

    def reference_norm(self, design: Design) -> float:
        """Return the norm at which margins on isotropic rows deviate by ``loss.margin_scale``."""
        return self.loss.margin_scale * math.sqrt(design.width) / design.feature_norm

    def alarms(self, constants: ProblemConstants, design: Design) -> tuple[str, ...]:
        """Return the warnings about constants under which a result is useless."""
        return ()

    def penalty_cost(
        self, design: Design, alpha: Any, distance: float, second_moment: float | None = None
    ) -> Any:
        """Bound the excess risk that a penalty causes over a point at a distance.

        ``(D^2 / 2) mu h / (mu + h)`` with ``h = loss.curvature * second_moment``; proof in
        docs/theory/output_perturbation.md, "Utility".
        """
        moment = design.second_moment if second_moment is None else second_moment
        h = self.loss.curvature * moment
        return 0.5 * distance**2 * alpha / (1.0 + alpha / h)

    def noise_cost(self, design: Design, variance: Any) -> Any:
        """Bound the expected excess risk of isotropic noise of a variance per coordinate."""
        return self.loss.noise_cost(design.feature_norm**2 * variance)

    def sampling_cost(self, design: Design, alpha: Any, size: Any) -> Any:
        """Estimate the excess risk on all records of a solution for `size` of them.

        ``(d s / 2) (1 / size - 1 / n) (h / (h + mu))^2``, the asymptotic value on isotropic rows,
        ``s = loss.sampling_scale`` and h as in :meth:`penalty_cost`.
        """
        h = self.loss.curvature * design.second_moment
        shrunk = 1.0 / (1.0 + alpha / h)
        missing = 1.0 / size - 1.0 / design.n_records
        dimension = self.loss.n_outputs * design.width
        return 0.5 * dimension * self.loss.sampling_scale * missing * shrunk**2

    def generalisation_cost(self, design: Design, constants: ProblemConstants) -> Any:
        """Bound the expected difference of population and empirical risk of a solution.

        The smaller of ``L Delta`` (uniform stability, Delta the sensitivity of the solution) and
        ``2 L^2 / (n (mu + c X^2 / width))`` (average stability, Gonen and Shalev-Shwartz 2017), c
        the least curvature on the ball. Proof: docs/theory/output_perturbation.md, "Utility".
        """
        lipschitz, mu, n = constants.lipschitz, constants.strong_convexity, constants.n_records
        moved = constants.argmin_sensitivity(Neighbouring.REPLACE_ONE)
        least = self.loss.least_curvature(design.feature_norm, constants.radius)
        average = 2.0 * lipschitz**2 / (n * (mu + least * design.second_moment))
        return minimum(lipschitz * moved, average)


@dataclass(frozen=True)
class Objective:
    """A risk on a public design: all that is known of a private problem before its records."""

    risk: EmpiricalRisk
    design: Design
    #: Of a penalty that is part of the objective. Without one, methods choose a penalty for
    #: privacy.
    alpha: float = 0.0
    #: Radius of the ball that the coefficients live in.
    coef_norm: float | None = None
    neighbouring: Neighbouring = Neighbouring.REPLACE_ONE
    #: Whether choices are made for the expected loss on other records of the same distribution, or
    #: for the loss on these records.
    population: bool = False
    #: Radius of the l1 ball, for methods with such a geometry.
    coef_norm_l1: float | None = None
    #: Bound on the absolute value of each feature, for these methods.
    feature_bound: float = 1.0
    #: Which algorithm of these methods.
    mirror_variant: str = "plain"

    def __post_init__(self) -> None:
        if self.design.of_persons != (self.neighbouring.unit == "user"):
            raise ValueError("Records of persons go with a relation of persons.")

    @property
    def radius(self) -> float:
        """Radius of the ball; by default margins deviate by the loss's `largest_margin_scale`."""
        if self.coef_norm is not None:
            return self.coef_norm
        scale = self.risk.loss.largest_margin_scale
        return scale * math.sqrt(self.design.width) / self.design.feature_norm

    @property
    def comparator_norm(self) -> float:
        """Norm of a good predictor, at most the radius: bounds compare with it."""
        return min(self.risk.reference_norm(self.design), self.radius)

    @property
    def is_penalised(self) -> bool:
        """Whether a penalty or a bound on the norm was asked for."""
        return self.alpha > 0.0 or self.coef_norm is not None

    @property
    def dimension(self) -> int:
        """Number of coefficients."""
        return self.risk.loss.n_outputs * self.design.width

    def smoothed(self, spread: float) -> Objective:
        """Return the objective with :meth:`EmpiricalRisk.smoothed` in place of its risk."""
        return replace(self, risk=self.risk.smoothed(spread))

    def problem(self, records: Records, alpha: float, radius: float) -> Problem:
        """Return the problem that the records make with a penalty on the ball."""
        nominal = not self.neighbouring.is_replaced
        n_public = self.design.n_records if nominal else None
        return self.risk.problem(records, alpha, radius, n_public=n_public)

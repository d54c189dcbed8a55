"""The method "mirror_descent" of linear models: vertices of an l1 ball.

Where features are bounded entrywise, the error of these algorithms grows with the logarithm of
their number. Theory: docs/theory/mirror_descent.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdp.algorithms.mirror.anytime import plan_anytime_mirror_descent
from skdp.algorithms.mirror.bias_reduced import plan_bias_reduced_mirror_descent
from skdp.algorithms.mirror.plain import plan_mirror_descent
from skdp.algorithms.mirror.variance_reduced import plan_variance_reduced_frank_wolfe
from skdp.algorithms.plan import Plan, Result, Run
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.report import Release
from skdp.problems import Loss, Objective, Records, SoftmaxLoss
from skdp.problems.multiclass_losses import LogitLoss
from skdp.problems.vertices import LinearDesign, LinearProblem

#: Planners by ``objective.mirror_variant``.
VARIANTS: dict[str, Callable[..., Plan]] = {
    "plain": plan_mirror_descent,
    "anytime": plan_anytime_mirror_descent,
    "bias_reduced": plan_bias_reduced_mirror_descent,
    "variance_reduced": plan_variance_reduced_frank_wolfe,
}


@dataclass(frozen=True, kw_only=True)
class LinearMirrorDescentPlan(Plan):
    """The method "mirror_descent" of linear models."""

    #: With the radius of the l1 ball and the bound on entries.
    objective: Objective
    #: Of the variant of the objective; its run gives vertices of each block.
    descent: Plan

    @property
    def releases(self) -> tuple[Release, ...]:
        return self.descent.releases

    @property
    def _design(self) -> LinearDesign:
        design: LinearDesign = self.descent.design  # type: ignore[attr-defined]
        return design

    def alarms(self) -> tuple[str, ...]:
        return self.descent.alarms()

    def remarks(self) -> tuple[str, ...]:
        return (self._design.remark,)

    def to_dict(self) -> dict[str, Any]:
        return {**self._design.to_dict(), **self.descent.to_dict()}

    def run(self, data: Records, run: Run) -> Result:
        self.objective.design.check(data)
        loss, design = self.objective.risk.loss, self._design
        problem = LinearProblem(data, of_vertices(loss), design)
        vertices: Any = self.descent.run(problem, run).point
        return Result(point=of_loss(loss, problem.coefficients(vertices)), plan=self)


def plan_linear_mirror_descent(
    objective: Objective, budget: PrivacyBudget, **options: Any
) -> LinearMirrorDescentPlan:
    """Plan mirror descent for a linear model in an l1 ball.

    Parameters
    ----------
    objective : Objective
        Of the mean of a smooth loss, with or without a penalty, on records whose
        entries are at most ``objective.feature_bound``; ``objective.coef_norm_l1`` is the radius.
    budget : PrivacyBudget
    **options
        Those of the planner of the variant, such as :func:`skdp.algorithms.plan_mirror_descent`.

    Raises
    ------
    ValueError
        For losses with kinks, or as the planner.
    """
    variant = objective.mirror_variant
    descent = VARIANTS[variant](linear_design(objective), budget, **options)
    return LinearMirrorDescentPlan(objective=objective, descent=descent)


def of_vertices(loss: Loss) -> Loss:
    """Return a loss in margins that coefficients of an l1 ball belong to."""
    return LogitLoss(loss.n_classes) if isinstance(loss, SoftmaxLoss) else loss


def of_loss(loss: Loss, point: np.ndarray) -> np.ndarray:
    """Turn coefficients of the margins of :func:`of_vertices` into those of a loss."""
    if isinstance(loss, SoftmaxLoss):  # from the logits to its coordinates
        return np.asarray(loss.basis.T @ point.reshape(loss.n_classes, -1)).ravel()
    return point


def linear_design(objective: Objective) -> LinearDesign:
    """Return the public numbers of a linear model in the l1 ball of an objective."""
    if not objective.risk.is_smooth:
        raise ValueError("method='mirror_descent' is for smooth losses.")
    loss, design = of_vertices(objective.risk.loss), objective.design
    bound = objective.feature_bound
    # margins up to the largest target, or 1.5 for each class
    largest = loss.target_bound or 1.5 * max(loss.n_outputs, 2)
    radius = objective.coef_norm_l1 or largest / bound
    public = (design.n_records, design.width, radius, bound, objective.alpha)
    return LinearDesign.of(loss, *public, neighbouring=objective.neighbouring)

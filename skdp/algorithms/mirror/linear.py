"""The method "mirror_descent" of linear models: vertices of an l1 ball.

Where features are bounded entrywise, the error of these algorithms grows with the logarithm of
their number. Theory: docs/theory/mirror_descent.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdp.algorithms.mirror.anytime import plan_anytime_mirror_descent
from skdp.algorithms.mirror.bias_reduced import plan_bias_reduced_mirror_descent
from skdp.algorithms.mirror.plain import plan_mirror_descent
from skdp.algorithms.mirror.variance_reduced import plan_variance_reduced_frank_wolfe
from skdp.algorithms.plan import Plan, Result, Run, require_replace_one
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.report import Release
from skdp.problems import Objective, Records
from skdp.problems.vertices import (
    LinearDesign,
    LinearProblem,
    default_radius,
    vertex_coefficients,
)

#: Planners by ``objective.mirror_variant``.
VARIANTS: dict[str, Callable[..., Plan]] = {
    "plain": plan_mirror_descent,
    "anytime": plan_anytime_mirror_descent,
    "bias_reduced": plan_bias_reduced_mirror_descent,
    "variance_reduced": plan_variance_reduced_frank_wolfe,
}


@dataclass(frozen=True, kw_only=True)
class LinearMirrorDescentPlan(Plan):
    """The method "mirror_descent" of linear models.

    Attributes
    ----------
    objective : Objective
        With the radius of the l1 ball and the bound on entries.
    descent : Plan
        Of the variant of the objective; its run gives vertices of each block.
    """

    objective: Objective
    descent: Plan

    @property
    def releases(self) -> tuple[Release, ...]:
        return self.descent.releases

    @property
    def _design(self) -> LinearDesign:
        design: LinearDesign = self.descent.design  # type: ignore[attr-defined]
        return design

    def remarks(self) -> tuple[str, ...]:
        return (self._design.remark,)

    def to_dict(self) -> dict[str, Any]:
        return {**self._design.to_dict(), **self.descent.to_dict()}

    def run(self, data: Records, run: Run) -> Result:
        self.objective.design.check(data)
        problem = LinearProblem(data, self.objective.risk.loss, self._design)
        (vertices,) = self.descent.run(problem, run).point
        return Result(
            point=vertex_coefficients(vertices, data.width, self._design.radius), plan=self
        )


def plan_linear_mirror_descent(
    objective: Objective, budget: PrivacyBudget, **options: Any
) -> LinearMirrorDescentPlan:
    """Plan mirror descent for a linear model in an l1 ball.

    Parameters
    ----------
    objective : Objective
        Of the mean of a smooth loss of one margin, with or without a penalty, on records whose
        entries are at most ``objective.feature_bound``; ``objective.coef_norm_l1`` is the radius.
    budget : PrivacyBudget
    **options
        Those of the planner of the variant, such as :func:`skdp.algorithms.plan_mirror_descent`.

    Raises
    ------
    ValueError
        For losses with kinks or of several margins, or as the planner.
    """
    check_linear(objective)
    variant = objective.mirror_variant
    descent = VARIANTS[variant](
        linear_design(objective), budget, **public_sequence(variant), **options
    )
    return LinearMirrorDescentPlan(objective=objective, descent=descent)


def public_sequence(variant: str) -> dict[str, Any]:
    """Return the generator of a variant that draws numbers before it reads records.

    They may be published. A fixed seed makes the plan a function of public numbers.
    """
    return {} if variant in ("plain", "variance_reduced") else {"rng": np.random.default_rng(0)}


def check_linear(objective: Objective) -> None:
    """Refuse relations and losses that the proof for linear models does not cover."""
    loss = objective.risk.loss
    require_replace_one(objective.neighbouring, "mirror descent")
    if loss.n_outputs != 1 or not math.isfinite(loss.curvature):
        raise ValueError(
            "method='mirror_descent' is for smooth losses, and of classifiers for two classes."
        )


def linear_design(objective: Objective) -> LinearDesign:
    """Return the public numbers of a linear model in the l1 ball of an objective."""
    loss, bound, design = objective.risk.loss, objective.feature_bound, objective.design
    radius = objective.coef_norm_l1 or default_radius(loss, bound)
    public = (design.n_records, design.width, radius, bound, objective.alpha)
    return LinearDesign.of(loss, *public, of_persons=design.of_persons)

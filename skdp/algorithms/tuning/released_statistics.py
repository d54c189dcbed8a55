"""Linear models from released statistics: least squares and the log loss of two classes.

The method "statistics" of linear models makes the releases of the models that tune their own
penalty: second moments (:class:`~skdp.algorithms.tuning.SufficientStatisticsPlan`), and gradients
at private points for the log loss (:class:`~skdp.algorithms.tuning.NewtonPlan`). The rest is
post-processing, so a penalty that is not given is chosen on the releases at no cost.

The number of released moments grows with the square of the number of features, and with it the
noise of pure privacy. Theory: docs/theory/tuning.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from skdp.algorithms.plan import Plan, Result, Run
from skdp.algorithms.tuning import rules
from skdp.algorithms.tuning.newton import NewtonPlan
from skdp.algorithms.tuning.objective import TuningObjective
from skdp.algorithms.tuning.sufficient_statistics import MomentsTuningPlan, SufficientStatisticsPlan
from skdp.algorithms.weight_noise import PlannedNoise
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.report import Release
from skdp.problems import HalfSquaredLoss, LogisticLoss, Loss, Objective, PenaltyGroups, Records

#: Range of a penalty that is chosen, in units of the squared norm of the rows.
_RANGE = 1e-6, 1e6
#: Plans by the loss.
_PLANS: dict[type[Loss], type[MomentsTuningPlan]] = {
    HalfSquaredLoss: SufficientStatisticsPlan,
    LogisticLoss: NewtonPlan,
}


@dataclass(frozen=True, kw_only=True)
class ReleasedStatisticsPlan(Plan):
    """Releases and penalty.

    Attributes
    ----------
    objective : Objective
    tuner : MomentsTuningPlan
        Its design has an intercept feature of another value than that of the objective.
    alpha : float or None
        The penalty: that of the objective, or the chosen one. None before the run.
    """

    objective: Objective
    tuner: MomentsTuningPlan
    alpha: float | None

    @property
    def releases(self) -> tuple[Release, ...]:
        return self.tuner.releases

    def planned_noise(self) -> PlannedNoise | None:
        return self.tuner.planned_noise()

    def remarks(self) -> tuple[str, ...]:
        if self.objective.alpha:
            return ()
        return ("alpha was chosen on what was released, at no further cost",)

    def to_dict(self) -> dict[str, Any]:
        value = self.tuner.objective.intercept
        return {"alpha": self.alpha, "intercept_value": value, **self.tuner.to_dict()}

    def run(self, data: Records, run: Run) -> Result:
        design, given = self.objective.design, self.tuner.objective
        design.check(data)
        nominal = not given.neighbouring.is_replaced
        moved = data.with_intercept(given.intercept)
        # the norm of the features is known in its last bits now
        exact = TuningObjective.of(
            moved, given.loss, given.penalties, design.n_records if nominal else None
        )
        tuner = replace(self.tuner, objective=exact)
        found = tuner.run(moved, run)
        point = found.point
        if design.intercept:
            point[-1] *= given.intercept / design.intercept
        alpha = float(found.alpha[0]) if self.objective.alpha == 0.0 else self.objective.alpha
        done = replace(self, tuner=tuner, alpha=alpha)
        return Result(point=point, plan=done, noise=found.noise)


def plan_statistics(objective: TuningObjective, budget: PrivacyBudget) -> MomentsTuningPlan:
    """Plan the releases by which a model of squares or of two classes tunes its penalty."""
    return _plan_of(objective.loss)(objective=objective, budget=budget)


def _plan_of(loss: Loss) -> type[MomentsTuningPlan]:
    """Return the plan for a loss."""
    if type(loss) not in _PLANS:
        raise ValueError(
            "method='statistics' is for squared_error, and for log_loss with two classes: few "
            "statistics say enough about other losses. method='gradient' (delta > 0) and "
            "method='output' take them."
        )
    return _PLANS[type(loss)]


def plan_released_statistics(objective: Objective, budget: PrivacyBudget) -> ReleasedStatisticsPlan:
    """Fix the releases from public numbers.

    Parameters
    ----------
    objective : Objective
        Of the mean half squared loss or log loss of two classes. It has no part for a ball. A
        penalty > 0 is that of all coefficients; else one is chosen on the releases, and that of the
        intercept is as if its feature had the norm of the others.
    budget : PrivacyBudget

    Raises
    ------
    ValueError
        For other losses.
    """
    loss, design = objective.risk.loss, objective.design
    kind = _plan_of(loss)
    norm = math.sqrt(max(design.feature_norm**2 - design.intercept**2, 0.0))
    value, factor = 0.0, 1.0
    if design.intercept:
        value = rules.INTERCEPT * norm
        factor = (value / design.intercept) ** 2 if objective.alpha else rules.INTERCEPT**2
    factors = (1.0,) * design.n_features + ((factor,) if value else ())
    low, high = (end * norm**2 for end in _RANGE)
    if objective.alpha:  # bounds of a search that there is not
        low, high = 0.5 * objective.alpha, 2.0 * objective.alpha
    tuned = TuningObjective(
        loss=loss,
        penalties=PenaltyGroups((0,) * design.width, factors, low, high),
        design=replace(design, feature_norm=math.hypot(norm, value), intercept=value),
        data_norm=norm,
        intercept=value,
        neighbouring=objective.neighbouring,
    )
    tuner = kind(objective=tuned, budget=budget, alpha=objective.alpha or None)
    return ReleasedStatisticsPlan(objective=objective, tuner=tuner, alpha=objective.alpha or None)

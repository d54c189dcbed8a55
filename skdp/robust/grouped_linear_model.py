"""What the linear estimators for the worst group share: the choice of a method, its parameters."""

from __future__ import annotations

from typing import Any

import numpy as np

from skdp.algorithms.worst_group.group_plan import GroupPlan, GroupResult
from skdp.linear_model.base import DPLinearModel
from skdp.methods import Gradient, Method
from skdp.methods.choice import GROUP_METHODS, Choice, choose
from skdp.methods.groups import Grouped
from skdp.problems import Design, EmpiricalRisk
from skdp.problems.group_objective import GroupObjective
from skdp.robust.grouped_model import GroupedModel, Groups
from skdp.solvers import resolve_solver
from skdp.solvers.resolve import is_saddle_solver


class GroupedLinearModel(GroupedModel, DPLinearModel):
    """Base of linear models for the worst group; not for direct use."""

    def _choose(
        self, design: Design, risk: EmpiricalRisk, groups: Groups, are_given: bool
    ) -> Choice:
        weights, proportions = groups
        own = self._grouped
        has_histogram = self._mode == "private" and weights.n_groups > 1
        objective = GroupObjective(
            **vars(self._objective(design, risk)),
            weights=weights,
            release_weights=bool(own.release_group_weights),
            histogram_share=own.histogram_share if has_histogram else 0.0,
            proportions=None if proportions is None else tuple(proportions.tolist()),
            are_classes=not are_given and weights.n_groups > 1,
        )
        choice = choose(
            self._methods,
            self.method,
            objective,
            self._budget,
            solver=self.solver,
            is_slack=design.is_slack,
        )
        assert isinstance(choice.plan, GroupPlan)
        if choice.plan.has_saddle:
            resolve_solver(self._solver, saddle=True)
        return choice

    @property
    def _grouped(self) -> Any:
        """The object of `method`, or defaults where it has no parameters of groups."""
        own = self._method
        return own if isinstance(own, Grouped) else GROUP_METHODS["phased"]

    def _unpacked(self, result: GroupResult, risk: EmpiricalRisk) -> np.ndarray:
        self.alpha_ = result.plan.alpha
        return np.asarray(result.point).reshape(risk.loss.n_outputs, -1)

    def _weight_bound(self, design: Design) -> float:
        return float(self._grouped.weight_bound(design, self._budget))

    def _group_caveats(self, plan: Any, are_given: bool) -> tuple[str, ...]:
        caveats = super()._group_caveats(plan, are_given)
        if getattr(self._method, "calibration", "") == "paper":
            caveats += ("calibration='paper' spends half of the budget",)
        return caveats

    def _takes_alpha(self, method: Method) -> bool:
        return method.takes_alpha and not isinstance(method, Gradient)

    def _check_parameters(self) -> None:
        self._check_proportions()
        super()._check_parameters()

    def _check_chunked(self) -> None:
        super()._check_chunked()
        if self._mode == "public":
            raise ValueError("group_proportions='public' needs all records in memory.")

    def _check_solver(self) -> None:
        if self.method == "auto" and is_saddle_solver(self.solver):
            resolve_solver(self.solver, saddle=True)
            return
        super()._check_solver()

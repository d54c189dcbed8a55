"""What the linear estimators for the worst group share: the choice of a method, its parameters."""

from __future__ import annotations

import math
from typing import Any, get_args

import numpy as np

from skdp._checks import check_bool, check_option, check_real
from skdp._types import GroupMode
from skdp.algorithms.methods import Choice, Method, choose, named
from skdp.algorithms.worst_group.group_plan import GroupPlan, GroupResult
from skdp.linear_model.base import DPLinearModel
from skdp.privacy.gaussian_dp import gaussian_mu
from skdp.problems import Design, EmpiricalRisk
from skdp.problems.group_objective import GroupObjective
from skdp.robust.grouped_model import GroupedModel, Groups
from skdp.solvers import resolve_solver
from skdp.solvers.resolve import is_saddle_solver

#: Part of the budget for noisy proportions, and largest weight over the relative noise of a mean.
_HISTOGRAM_SHARE, _WEIGHT_FOR_NOISE = 0.1, 0.08


class GroupedLinearModel(GroupedModel, DPLinearModel):
    """Base of linear models for the worst group; not for direct use."""

    loss: str
    max_group_weight: float | str
    histogram_share: float | str
    release_group_weights: bool

    _gradient_losses: tuple[str, ...] = ()

    def _choose(
        self, design: Design, risk: EmpiricalRisk, groups: Groups, are_given: bool
    ) -> Choice:
        relation = self._relation(design)
        if design.of_persons and relation not in self._row.relations:
            proven = named(self._methods, lambda method: relation in method.relations)
            raise ValueError(
                f"method={self.method!r} has no proof for user_ids with these parameters: take "
                f"{proven}, with delta > 0 and without a penalty, a ball and a solver."
            )
        weights, proportions = groups
        has_histogram = self._mode == "histogram" and len(weights.largest) > 1
        share = _HISTOGRAM_SHARE if self.histogram_share == "auto" else float(self.histogram_share)
        objective = GroupObjective(
            **vars(self._objective(design, risk)),
            weights=weights,
            release_weights=bool(self.release_group_weights),
            histogram_share=share if has_histogram else 0.0,
            plans_share=self.histogram_share == "auto",
            proportions=None if proportions is None else tuple(proportions.tolist()),
            weight_limit=math.inf
            if self.max_group_weight == "auto"
            else float(self.max_group_weight),
            are_classes=not are_given and weights.n_groups > 1,
        )
        choice = choose(
            self._methods,
            self.method,
            objective,
            self._budget,
            self.calibration,
            has_solver=self._has_solver,
            is_slack=design.is_slack,
        )
        assert isinstance(choice.plan, GroupPlan)
        if choice.plan.has_saddle:
            resolve_solver(self.solver, saddle=True)
        return choice

    @property
    def _prepares(self) -> bool:
        """Whether weighted stages take the place of the saddle problem, where they are proven."""
        return super()._prepares and not is_saddle_solver(self.solver)

    def _unpacked(self, result: GroupResult, risk: EmpiricalRisk) -> np.ndarray:
        self.alpha_ = result.plan.alpha
        return np.asarray(result.point).reshape(risk.loss.n_outputs, -1)

    @property
    def _mode(self) -> str:
        # the published calibration releases the coefficients alone; not checked yet
        is_published = isinstance(self.calibration, str) and self.calibration == "paper"
        return "proportions" if is_published and self.group_mode == "auto" else super()._mode

    def _weight_bound(self, design: Design) -> float:
        if self.max_group_weight != "auto":
            return float(self.max_group_weight)
        if self.delta == 0:
            return 10.0
        # as far as the noise of a mean gradient allows
        mu = gaussian_mu(self.epsilon, self.delta)
        # a draw of a vertex has the noise of the logarithm of their number
        d = math.log(2.0 * design.width) if self._is_entrywise else design.n_features
        noise = 2.0 * math.sqrt(d) / (design.n_records * mu)
        return min(max(_WEIGHT_FOR_NOISE / noise, 1.0), 1000.0)

    def _group_caveats(self, plan: Any, are_given: bool) -> tuple[str, ...]:
        caveats = super()._group_caveats(plan, are_given)
        if self.calibration == "paper":
            caveats += ("calibration='paper' spends half of the budget",)
        return caveats

    def _check_parameters(self) -> None:
        check_option("group_mode", self.group_mode, get_args(GroupMode))
        if self.group_proportions is not None and self._mode != "proportions":
            raise ValueError(
                f"group_proportions are for group_mode='proportions', not {self.group_mode!r}."
            )
        if self._mode == "public" and self.neighbouring != "replace_one":
            raise ValueError(
                "group_mode='public' is proven for neighbouring='replace_one' only: a record more "
                "changes the sizes of the groups."
            )
        for name, bounds in (
            ("max_group_weight", (1.0, 1e9)),
            ("histogram_share", (1e-6, 1.0 - 1e-6)),
        ):
            value = getattr(self, name)
            if isinstance(value, str) and value == "auto":
                continue
            check_real(name, value, *bounds)
        check_bool("release_group_weights", self.release_group_weights)
        super()._check_parameters()
        if self._mode == "floored" and not self._row.clips_groups:
            raise ValueError(f"method={self.method!r} is not for group_mode='floored'.")

    @property
    def _row(self) -> Method:
        """Row of the method; that of "auto" follows from the parameters alone."""
        is_gradient = (
            self.method == "auto"
            and self.calibration == "analytic"
            and self.delta > 0
            and not self._has_solver
            and self.alpha == "auto"
            and self.coef_norm is None
            and self.objective == "empirical"
            and self._mode != "floored"
            and self.loss in self._gradient_losses
        )
        if is_gradient:
            return self._methods["gradient"]
        if self.method != "auto":
            return self._methods[self.method]
        has_stages = self._prepares and self.delta > 0 and self._mode != "floored"
        return self._methods["output" if has_stages else "phased"]

    def _check_chunked(self) -> None:
        super()._check_chunked()
        if self._mode == "public":
            raise ValueError("group_mode='public' needs all records in memory.")

    def _check_solver(self) -> None:
        resolve_solver(self.solver, saddle=not self._prepares)

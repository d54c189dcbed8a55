"""What the self-tuning estimators share: penalty groups, bounds, the report."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from skdp._checks import check_pair, shown
from skdp.algorithms.plan import Result
from skdp.algorithms.tuning.objective import TunedResult, TuningObjective
from skdp.linear_model.base import DPLinearModel
from skdp.methods import Bilevel
from skdp.methods.choice import METHODS, TUNING_METHODS, Choice, choose
from skdp.problems import Design, EmpiricalRisk, PenaltyGroups


class TunedLinearModel(DPLinearModel):
    """Base of linear models that tune their own penalty; not for direct use."""

    alpha_bounds: tuple[float, float] | None
    penalty_groups: Any
    alpha_: Any

    _methods = TUNING_METHODS
    alpha = "auto"  # it is tuned

    def _found(self, choice: Choice, result: Result) -> dict[str, Any]:
        if not isinstance(result, TunedResult):
            public = super()._found(choice, result)
            self.alpha_path_ = np.array([self.alpha_])
            return public
        if self.penalty_groups is None:
            self.alpha_, self.alpha_path_ = float(result.alpha[0]), result.path[:, 0]
        else:
            self.alpha_, self.alpha_path_ = result.alpha, result.path
        n_groups = result.path.shape[1]
        return {"alpha_bounds": list(self._bounds()), "n_penalty_groups": n_groups}

    def _chosen(self, design: Design, risk: EmpiricalRisk, in_memory: bool = True) -> Choice:
        if self._tuner is None:
            return self._choice(METHODS, design, risk, in_memory)
        objective = TuningObjective(
            loss=risk.loss,
            penalties=self._penalties(design.n_features),
            design=design,
            data_norm=self._norm_bound,
            intercept=self._intercept_value,
            neighbouring=self._objective(design, risk).neighbouring,
        )
        return choose(self._methods, self._tuner, objective, self._budget, is_slack=design.is_slack)

    @property
    def _tuner(self) -> Any:
        """The tuner; None where the fit is that of the model without one."""
        if self.method != "auto":
            return self.method
        if self._has_solver or self._budget.is_pure:
            return None
        has_blocks = self.penalty_groups is not None and self.alpha_bounds is None
        return "bilevel" if has_blocks else "gradient"

    def _penalties(self, n_features: int) -> PenaltyGroups:
        """The groups of all coefficients; if there are several, the intercept is the last one."""
        groups, intercept = np.zeros(n_features, dtype=np.intp), 0
        if self.penalty_groups is not None:
            labels = self._group_labels()
            if len(labels) != n_features:
                raise ValueError(
                    f"penalty_groups has {len(labels)} labels, but X has {n_features} features."
                )
            distinct, groups = np.unique(labels, return_inverse=True)
            intercept = len(distinct)
        members, factors = tuple(int(group) for group in groups), (1.0,) * n_features
        if self.fit_intercept:
            members = (*members, intercept)
            factors = (*factors, float(self._method.intercept_scaling) ** 2)
        return PenaltyGroups(members, factors, *self._bounds())

    def _group_labels(self) -> np.ndarray:
        """`penalty_groups` as an array of integers or of strings, not cast."""
        labels = np.asarray(self.penalty_groups, dtype=object)
        strings = all(isinstance(label, str) for label in labels.flat)
        if labels.ndim != 1 or not (
            strings or all(isinstance(label, numbers.Integral) for label in labels)
        ):
            raise ValueError(
                "penalty_groups must be None or hold one label per feature, all of them integers "
                f"or all strings; got {shown(self.penalty_groups)}."
            )
        return labels

    def _bounds(self) -> tuple[float, float]:
        if self.alpha_bounds is None:
            unit = self._norm_bound**2
            low, high = self._method.alpha_bounds
            return low * unit, high * unit
        return check_pair("alpha_bounds", self.alpha_bounds, 1e-100, 1e100)

    def _check_alpha(self) -> None:
        self._bounds()
        if self.penalty_groups is not None:
            self._group_labels()

    def _check_method(self) -> None:
        super()._check_method()
        is_bounded = self.alpha_bounds is not None
        if is_bounded and isinstance(self._method, Bilevel) and not self._method.as_published:
            raise ValueError(f"method={self.method!r} scales columns: alpha_bounds must be None.")
        if self._tuner is None and (is_bounded or self.penalty_groups is not None):
            raise ValueError(
                "Penalties are tuned with delta > 0 and without a solver: alpha_bounds and "
                "penalty_groups must be None, which is DPRidge or DPLogisticRegression. "
                "method=Bilevel(as_published=True, solver=...) tunes with a solver."
            )

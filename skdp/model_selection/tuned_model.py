"""What the self-tuning estimators share: penalty groups, bounds, the report."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from skdp._checks import check_real, shown
from skdp.algorithms.tuning import TunedResult, TuningObjective, rules
from skdp.linear_model.base import DPLinearModel
from skdp.methods import Bilevel, Method
from skdp.methods.choice import METHODS, TUNING_METHODS, Choice, choose
from skdp.problems import Design, EmpiricalRisk, PenaltyGroups, Records

#: Value of the intercept's feature in units of the norm of a row, whose weight is penalised.
_INTERCEPT_SCALING = 0.3


class TunedLinearModel(DPLinearModel):
    """Base of linear models that tune their own penalty; not for direct use."""

    alpha_bounds: tuple[float, float] | None
    penalty_groups: Any
    alpha_: Any

    _methods = TUNING_METHODS
    alpha = "auto"  # it is tuned

    def _private_weights(
        self, records: Records, risk: EmpiricalRisk, caveats: tuple[str, ...] = ()
    ) -> np.ndarray:
        design = Design.of(records, self._public_size(records.n_units))
        choice = self._chosen(design, risk, records.in_memory)
        self._warn(choice.plan, records)
        self._warn_of_solver()
        self._warn_of_method(choice)
        result = self._pay_and_run(choice.plan, records)
        remarks = (*result.plan.remarks(), *choice.remarks)
        public: dict[str, Any] = {}
        if isinstance(result, TunedResult):
            several = self.penalty_groups is not None
            self.alpha_ = result.alpha if several else float(result.alpha[0])
            self.alpha_path_ = result.path if several else result.path[:, 0]
            low, high = self._bounds()
            public |= {"alpha_bounds": [low, high], "n_penalty_groups": result.path.shape[1]}
        else:
            remarks += self._untuned(choice.method)
        caveats += self._caveats()
        self._report(choice.method, result.plan, records, risk, caveats, public, remarks)
        if not isinstance(result, TunedResult):
            self.alpha_ = float(self.privacy_.plan["alpha"])
            self.alpha_path_ = np.array([self.alpha_])
        self._keep_noise(result.noise)
        return np.asarray(result.point).reshape(risk.loss.n_outputs, records.width)

    def _untuned(self, method: str) -> tuple[str, ...]:
        """Say why the fit is that of a model without a tuner."""
        reason = "a solver was given" if self._has_solver else "that needs delta > 0"
        return (f"method={method!r} in place of 'gradient', since {reason}",)

    def _chosen(self, design: Design, risk: EmpiricalRisk, in_memory: bool = True) -> Choice:
        penalties = self._penalties(design.n_features)
        name = self._tuner(design, risk)
        if name is None:
            return choose(
                METHODS,
                "auto",
                self._objective(design, risk),
                self._budget,
                solver=self.solver,
                in_memory=in_memory,
                is_slack=design.is_slack,
            )
        objective = TuningObjective(
            loss=risk.loss,
            penalties=penalties,
            design=design,
            data_norm=self._norm_bound,
            intercept=self._intercept_value,
            neighbouring=self._relation(design),
        )
        return choose(self._methods, name, objective, self._budget, is_slack=design.is_slack)

    def _tuner(self, design: Design, risk: EmpiricalRisk) -> Any:
        """Return the tuner; None for a model without one."""
        if self.method != "auto":
            return self.method
        if self._has_solver:
            return None
        if not self._budget.is_pure:
            has_blocks = self.penalty_groups is not None and self.alpha_bounds is None
            return "bilevel" if has_blocks else "gradient"
        if not self._candidates:
            known = design.n_records * self._budget.epsilon / design.n_features**2
            is_known = known >= rules.ENOUGH_FOR_NEWTON or not risk.loss.has_odds
            if not is_known or risk.loss.is_quadratic or risk.loss.n_outputs > 1:
                return None
        return "statistics"

    @property
    def _candidates(self) -> tuple[str, ...]:
        """Parameters that candidates were given by."""
        names = "alpha_bounds", "penalty_groups"
        return tuple(name for name in names if getattr(self, name) is not None)

    @property
    def _intercept_value(self) -> float:
        return _INTERCEPT_SCALING * self._norm_bound * bool(self.fit_intercept)

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
        common: tuple[int, ...] = ()
        if self.fit_intercept:
            members, factors = (*members, intercept), (*factors, _INTERCEPT_SCALING**2)
            common = (intercept,) if intercept else ()
        return PenaltyGroups(members, factors, *self._bounds(), common)

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
        bounds = self.alpha_bounds
        if not isinstance(bounds, tuple | list | np.ndarray) or len(bounds) != 2:
            raise ValueError(f"alpha_bounds must be a pair (low, high), got {shown(bounds)}.")
        for end in bounds:
            check_real("an end of alpha_bounds", end, 1e-100, 1e100)
        low, high = (float(end) for end in bounds)
        if not low < high:
            raise ValueError(f"alpha_bounds == {shown(bounds)}, must be low < high.")
        return low, high

    def _check_alpha(self) -> None:
        self._bounds()
        if self.penalty_groups is not None:
            self._group_labels()

    def _takes_alpha(self, method: Method) -> bool:
        return False

    def _check_method(self) -> None:
        super()._check_method()
        is_bounded = self.alpha_bounds is not None
        if is_bounded and isinstance(self._method, Bilevel) and not self._method.as_published:
            raise ValueError(
                f"method={self.method!r} scales the columns of blocks: alpha_bounds must be None."
            )
        if self.method == "auto" and self._has_solver and self._candidates:
            raise ValueError(
                f"method='auto' with a solver compares no penalties: {self._candidates[0]} must be "
                "None. method=Bilevel(as_published=True, solver=...) tunes with a solver."
            )

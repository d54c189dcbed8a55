"""What the self-tuning estimators share: penalty groups, bounds, the report."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import Any, get_args

import numpy as np

from skdp._checks import check_option, check_real, shown
from skdp._types import InnerSolver, Tuner
from skdp.algorithms.output.prepared import covers_prepared
from skdp.algorithms.tuning import (
    TUNING_METHODS,
    TunedResult,
    TuningMethod,
    TuningObjective,
    rules,
)
from skdp.linear_model.base import DPLinearModel
from skdp.methods.choice import METHODS, Choice, choose
from skdp.privacy.events import Neighbouring
from skdp.problems import Design, EmpiricalRisk, Loss, PenaltyGroups, Records
from skdp.solvers import resolve_solver


def methods(own: str) -> Mapping[str, TuningMethod]:
    """Return the tuners of a model: the core, that of its statistics, those that end with a fit.

    The second one is for ``delta == 0``.
    """
    return {name: TUNING_METHODS[name] for name in ("gradient", own, *get_args(Tuner))}


class TunedLinearModel(DPLinearModel):
    """Base of linear models that tune their own penalty; not for direct use."""

    alphas: Any
    alpha_bounds: tuple[float, float] | None
    penalty_groups: Any
    tune_share: float
    inner: str | None
    alpha_: Any

    #: The private tuners by name, as of :func:`methods`.
    _methods: Mapping[str, TuningMethod]
    alpha = "auto"  # it is tuned
    intercept_scaling: float

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
        method = self._methods[name]
        method.check_design(name, design, self._relation(design))
        options = {
            "tune_share": float(self.tune_share),
            "inner": self.inner or "output_perturbation",
            "grid": None if self.alphas is None else self._grid(),
        }
        plan = method.plan(
            objective=TuningObjective(
                loss=risk.loss,
                penalties=penalties,
                design=design,
                data_norm=self._norm_bound,
                intercept=self._intercept_value,
                neighbouring=self._relation(design),
            ),
            budget=self._budget,
            **{name: options[name] for name in method.options},
        )
        return Choice(method=name, plan=plan, bounds={})

    def _tuner(self, design: Design, risk: EmpiricalRisk) -> str | None:
        """Return the name of the tuner; None for a model without one."""
        if self.method != "auto":
            return self.method
        if self._has_solver:
            return None
        names = list(self._methods)
        if not self._budget.is_pure:
            return names[0]
        if not self._candidates:
            known = design.n_records * self._budget.epsilon / design.n_features**2
            is_known = known >= rules.ENOUGH_FOR_NEWTON or not risk.loss.has_odds
            is_prepared = covers_prepared(self._objective(design, risk), self._budget)
            is_tuned = is_known and not is_prepared and risk.loss.n_outputs == 1
            return names[1] if is_tuned else None
        return names[1]

    @property
    def _candidates(self) -> tuple[str, ...]:
        """Parameters that candidates were given by."""
        names = "alphas", "alpha_bounds", "penalty_groups"
        return tuple(name for name in names if getattr(self, name) is not None)

    @property
    def _own(self) -> TuningMethod:
        """Row of the method; of "auto" that of the core."""
        return self._methods["gradient" if self.method == "auto" else self.method]

    @property
    def _solver(self) -> Any:
        return self.solver

    @property
    def _intercept_value(self) -> float:
        scaling = float(self.intercept_scaling) * self._norm_bound
        return scaling * bool(self.fit_intercept)

    @property
    def _is_mean(self) -> bool:
        return True

    def _risk(self, loss: Loss) -> EmpiricalRisk:
        return EmpiricalRisk(loss)

    def _grid(self) -> tuple[float, ...]:
        """The public candidates."""
        try:
            grid = np.asarray(self.alphas, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            grid = np.empty(0)
        if grid.ndim != 1 or not grid.size or not ((grid >= 1e-100) & (grid <= 1e100)).all():
            raise ValueError(
                f"alphas must be None or hold numbers from 1e-100 to 1e100; got "
                f"{shown(self.alphas)}."
            )
        return tuple(grid.tolist())

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
            members, factors = (*members, intercept), (*factors, float(self.intercept_scaling) ** 2)
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
            low, high = self._own.bounds
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
        check_option("method", self.method, ["auto", *self._methods])
        check_real("intercept_scaling", self.intercept_scaling, 1e-6, 1e6)
        self._bounds()
        if self.penalty_groups is not None:
            self._group_labels()
        if self.alphas is not None:
            self._grid()
            if len(self._candidates) > 1:
                raise ValueError(
                    f"alphas are candidates of one alpha for all features: {self._candidates[1]} "
                    "must be None."
                )
        check_real("tune_share", self.tune_share, 1e-6, 1.0 - 1e-6)
        if self.inner is not None:
            check_option("inner", self.inner, get_args(InnerSolver))

    def _check_solver(self) -> None:
        resolve_solver(self.solver)

    def _check_method(self) -> None:
        asked = {name: getattr(self, name) for name in ("alphas", "inner")}
        asked["solver"] = self.solver if self._has_solver else None
        relation = Neighbouring(self.neighbouring)
        if self.method != "auto":
            self._methods[self.method].check(self.method, self._budget, relation, asked)
            return
        statistics = list(self._methods)[1]
        if self.alphas is not None or self.inner is not None:
            name = statistics if self._budget.is_pure else "gradient"
            self._methods[name].check(name, self._budget, relation, asked)
        if self._has_solver and self._candidates:
            raise ValueError(
                f"method='auto' with a solver compares no penalties: {self._candidates[0]} must be "
                "None. method='hypergradient' and 'bilevel' tune with a solver."
            )

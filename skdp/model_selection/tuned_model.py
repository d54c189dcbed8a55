"""What the self-tuning estimators share: penalty groups, bounds, the report."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import Any, get_args

import numpy as np

from skdp._checks import check_count, check_real, shown
from skdp._types import Tuner
from skdp.algorithms.methods import Choice
from skdp.algorithms.tuning import TUNING_METHODS, TuningMethod, TuningObjective
from skdp.linear_model.base import DPLinearModel
from skdp.problems import Design, EmpiricalRisk, PenaltyGroups, Records

#: Lower bound of alpha in units of the squared norm bound of a row.
_LEAST = 1e-6
#: More folds would take long and find nothing: each has the noise of few records.
_MOST_FOLDS = 100


def methods(default: str) -> Mapping[str, TuningMethod]:
    """Return the tuners of a model: its default, and those that end with a fit."""
    return {name: TUNING_METHODS[name] for name in (default, *get_args(Tuner))}


class TunedLinearModel(DPLinearModel):
    """Base of linear models that tune their own penalty; not for direct use."""

    alpha_bounds: tuple[float, float] | None
    penalty_groups: Any
    cv: int | None
    tune_share: float
    alpha_: Any

    #: The private tuners by name; the first is the default.
    _methods: Mapping[str, TuningMethod]
    _is_entrywise = False

    @property
    def _method_names(self) -> tuple[str, ...]:
        return tuple(self._methods)

    def _private_weights(
        self, records: Records, risk: EmpiricalRisk, caveats: tuple[str, ...] = ()
    ) -> np.ndarray:
        plan = self._planned(Design.of(records), risk).plan
        penalties = self._penalties(records.n_features)
        self._warn(plan, records)
        self._warn_of_solver()
        result = self._pay_and_run(plan, records)
        several = self.penalty_groups is not None
        self.alpha_ = result.alpha if several else float(result.alpha[0])
        self.alpha_path_ = result.path if several else result.path[:, 0]
        public = {
            "alpha_bounds": [penalties.low, penalties.high],
            "n_penalty_groups": penalties.n_groups,
        }
        self._report(self.method, result.plan, records, risk, caveats + self._caveats(), public)
        return np.asarray(result.point).reshape(risk.loss.n_outputs, records.width)

    def _planned(self, design: Design, risk: EmpiricalRisk, n_groups: int | None = None) -> Choice:
        if n_groups is not None:
            raise ValueError(f"n_groups == {n_groups}: {type(self).__name__} has no groups.")
        n, cv = design.n_records, self.cv
        if cv is not None and cv > n:
            raise ValueError(f"cv == {cv}, but there are n_samples={n} only.")
        method, penalties = self._methods[self.method], self._penalties(design.n_features)
        options = {"n_folds": None if cv is None else int(cv), "tune_share": float(self.tune_share)}
        plan = method.plan(
            objective=TuningObjective(
                loss=risk.loss,
                penalties=penalties,
                design=design,
                data_norm=self._norm_bound,
                intercept=self._intercept_value,
            ),
            budget=self._budget,
            **{name: options[name] for name in method.options},
        )
        return Choice(method=self.method, plan=plan, bounds={})

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
            return _LEAST * unit, self._methods[self.method].largest * unit
        bounds = self.alpha_bounds
        if not isinstance(bounds, tuple | list | np.ndarray) or len(bounds) != 2:
            raise ValueError(f"alpha_bounds must be a pair (low, high), got {shown(bounds)}.")
        for end in bounds:
            check_real("an end of alpha_bounds", end, 1e-100, 1e100)
        low, high = (float(end) for end in bounds)
        if not low < high:
            raise ValueError(f"alpha_bounds == {shown(bounds)}, must be low < high.")
        return low, high

    def _check_objective(self) -> None:
        if self.neighbouring == "add_remove":
            raise ValueError("Private tuning is proven for neighbouring='replace_one' only.")
        self._bounds()
        if self.penalty_groups is not None:
            self._group_labels()
        check_real("tune_share", self.tune_share, 1e-6, 1.0 - 1e-6)

    def _check_chunked(self) -> None:
        super()._check_chunked()
        if self.cv is not None:
            raise ValueError("cv needs all records in memory: folds are drawn in a random order.")

    def _check_method(self) -> None:
        if self.cv is not None:
            check_count("cv", self.cv, 2, _MOST_FOLDS)
        self._methods[self.method].check(self.method, self._budget, self.cv)

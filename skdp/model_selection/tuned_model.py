"""What the self-tuning estimators share: penalty groups, bounds, the report."""

from __future__ import annotations

import numbers
from abc import abstractmethod
from typing import Any

import numpy as np

from skdp._checks import check_count, check_option, check_real
from skdp.algorithms.tuning import (
    PenaltyGroups,
    TunedModel,
    tune_by_bilevel,
    tune_by_exponential_mechanism,
    tune_by_hypergradient,
    tune_by_public_rule,
)
from skdp.linear_model.base import (
    DPLinearModel,
    randomness,
)
from skdp.mechanisms import NoiseSource
from skdp.privacy.budget import PrivacyBudget
from skdp.problems import Design, EmpiricalRisk, Records

__all__ = ["TunedLinearModel"]

#: Bounds of the strengths in units of the squared norm bound of a row; for a model's own method,
#: which can see that nothing but noise was released, up to what makes it a constant.
_LEAST, _LARGEST, _OWN_LARGEST = 1e-6, 10.0, 1e6
#: More folds would take long and find nothing.
_MOST_FOLDS = 100


class TunedLinearModel(DPLinearModel):
    """Base of linear models that tune their own penalty; not for direct use."""

    alpha_bounds: tuple[float, float] | None
    penalty_groups: Any
    cv: int | None

    # parameters of other linear models that these need not have
    alpha = "auto"
    coef_norm = None
    n_public = None
    objective = "empirical"
    calibration = "analytic"
    verbose = 0

    solver: Any
    tune_share: float
    _is_bounded = True

    @property
    def _method_names(self) -> tuple[str, ...]:
        return tuple(self._methods)

    @abstractmethod
    def _tune(
        self,
        records: Records,
        risk: EmpiricalRisk,
        penalties: PenaltyGroups,
        budget: PrivacyBudget,
        noise: NoiseSource,
        solver_rng: np.random.Generator,
    ) -> TunedModel:
        """Run the method that is the estimator's own."""

    def _tune_by_fits(
        self,
        records: Records,
        risk: EmpiricalRisk,
        penalties: PenaltyGroups,
        budget: PrivacyBudget,
        noise: NoiseSource,
        solver_rng: np.random.Generator,
    ) -> TunedModel:
        """Methods that solve penalised problems, for the choice and for the final model."""
        arguments = (records, risk.loss, penalties, budget)
        shared: dict[str, Any] = {
            "coef_norm": risk.reference_norm(Design.of(records)),
            "solver": self.solver,
            "solver_rng": solver_rng,
            "noise": noise,
        }
        if self.method == "public":
            return tune_by_public_rule(*arguments, **shared)
        shared["tune_share"] = float(self.tune_share)
        if self.method in ("bilevel", "bilevel_minibatch"):
            minibatch = self.method == "bilevel_minibatch"
            return tune_by_bilevel(*arguments, minibatch=minibatch, **shared)
        folds = None if self.cv is None else int(self.cv)
        if self.method == "hypergradient":
            return tune_by_hypergradient(*arguments, n_folds=folds, **shared)
        return tune_by_exponential_mechanism(*arguments, n_folds=folds, **shared)

    def _private_weights(
        self, records: Records, risk: EmpiricalRisk, caveats: tuple[str, ...] = ()
    ) -> np.ndarray:
        budget = PrivacyBudget(self.epsilon, self.delta)
        penalties = self._penalties(records.matrix.shape[1], risk.loss.n_outputs)
        solver_rng, noise = randomness(self.random_state)
        n = records.n_records
        if self.cv is not None and self.cv > n:
            raise ValueError(f"cv == {self.cv}, but there are n_samples={n} only.")
        own = self.method == self._methods[0]
        tune = self._tune if own else self._tune_by_fits
        tuned = tune(records, risk, penalties, budget, noise, solver_rng)
        several = self.penalty_groups is not None
        self.alpha_: Any = tuned.alpha if several else float(tuned.alpha[0])
        self.alpha_path_ = tuned.path if several else tuned.path[:, 0]
        plan = {
            "risk": repr(risk),
            "alpha_bounds": [penalties.low, penalties.high],
            "n_penalty_groups": penalties.n_groups,
            **tuned.plan,
        }
        self.privacy_ = self._report(
            self.method, tuned.releases, plan, records, n, caveats + self._caveats()
        )
        return tuned.point.reshape(risk.loss.n_outputs, records.width)

    def _penalties(self, n_features: int, n_outputs: int) -> PenaltyGroups:
        """The groups of all coefficients; if there are several, the intercept is the last one."""
        if self.penalty_groups is None:
            groups, own_group = np.zeros(n_features, dtype=np.intp), 0
        else:
            labels = self._group_labels()
            if len(labels) != n_features:
                raise ValueError(
                    f"penalty_groups has {len(labels)} labels, but X has {n_features} features."
                )
            distinct, groups = np.unique(labels, return_inverse=True)
            own_group = len(distinct)
        own, relative = [int(group) for group in groups], [1.0] * n_features
        common = (own_group,) if self.fit_intercept and own_group else ()
        if self.fit_intercept:
            own.append(own_group)
            relative.append(float(self.intercept_scaling) ** 2)
        low, high = self._bounds()
        return PenaltyGroups(tuple(own * n_outputs), tuple(relative * n_outputs), low, high, common)

    def _group_labels(self) -> np.ndarray:
        """`penalty_groups` as an array of integers or of strings, not cast."""
        labels = np.asarray(self.penalty_groups, dtype=object)
        strings = all(isinstance(label, str) for label in labels.flat)
        if labels.ndim != 1 or not (
            strings or all(isinstance(label, numbers.Integral) for label in labels)
        ):
            raise ValueError(
                "penalty_groups must be None or hold one label per feature, all of them integers "
                f"or all strings; got {self.penalty_groups!r}."
            )
        return labels

    def _bounds(self) -> tuple[float, float]:
        if self.alpha_bounds is None:
            unit = self._norm_bound**2
            own = self.method == self._methods[0]
            return _LEAST * unit, (_OWN_LARGEST if own else _LARGEST) * unit
        bounds = self.alpha_bounds
        if not isinstance(bounds, tuple | list | np.ndarray) or len(bounds) != 2:
            raise ValueError(f"alpha_bounds must be a pair (low, high), got {bounds!r}.")
        for end in bounds:
            check_real("an end of alpha_bounds", end, 1e-100, 1e100)
        low, high = (float(end) for end in bounds)
        if not low < high:
            raise ValueError(f"alpha_bounds == {bounds!r}, must be low < high.")
        return low, high

    def _check_parameters(self) -> None:
        if self.neighbouring == "add_remove":
            raise ValueError("Private tuning is proven for neighbouring='replace_one' only.")
        check_option("neighbouring", self.neighbouring, ("replace_one",))
        super()._check_parameters()
        self._bounds()
        if self.penalty_groups is not None:
            self._group_labels()
        check_real("tune_share", self.tune_share, 1e-6, 1.0 - 1e-6)

    def _check_method(self) -> None:
        if self.cv is not None:
            check_count("cv", self.cv, 2, _MOST_FOLDS)  # each fold has the noise of few records
        if self.cv is not None and self.method in ("bilevel", "bilevel_minibatch", "public"):
            raise ValueError(f"method={self.method!r} has no folds: cv must be None.")
        if self.method in ("bilevel", "bilevel_minibatch") and self.delta == 0:
            raise ValueError(
                f"method={self.method!r} needs delta > 0. The other methods give pure privacy."
            )

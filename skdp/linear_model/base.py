"""Base of the linear estimators: parameters, bounding of records, the private fit."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skdp._checks import LARGEST_UNIT, check_bool, check_count, check_real, check_unit
from skdp._model import PrivateModel
from skdp._records import validate_records
from skdp._runtime import without_warnings
from skdp._types import Self
from skdp.algorithms.plan import Result
from skdp.methods import Gradient, Method, Output
from skdp.methods.choice import METHODS, Choice, choose, resolved
from skdp.privacy.events import Neighbouring
from skdp.privacy.report import PrivacyLeakWarning
from skdp.problems import Design, EmpiricalRisk, Loss, Objective, Records
from skdp.problems.vertices import clipped_entries
from skdp.solvers import resolve_solver
from skdp.solvers.copying import is_copyable


class DPLinearModel(PrivateModel):
    """Base of private linear models; not for direct use."""

    # Parameters are set by the subclasses' signatures, as scikit-learn requires.
    alpha: float | str
    fit_intercept: bool
    method: Any
    solver: Any
    #: The methods by name; "auto" takes the first that leads.
    _methods: Mapping[str, Any] = METHODS
    #: Whether the mean loss is of records that are known beforehand, so that batches tell of it.
    _is_mean = True
    #: Released numbers that intervals follow from, of the last fit.
    _transcript: Any = None

    def set_params(self, **params: Any) -> Self:
        """Set parameters; those of a method as ``method__<name>``, if it is an object."""
        method = params.get("method", getattr(self, "method", None))
        if isinstance(method, str) and any(name.startswith("method__") for name in params):
            raise ValueError(
                f"method={method!r} is a name, which has no parameters to set: pass an object of "
                "skdp.methods, such as method=OutputPerturbation()."
            )
        return super().set_params(**params)

    def _undeclared(self) -> Iterator[str]:
        if not self._method.is_entrywise:
            yield from super()._undeclared()
        elif self._method.feature_bound is None:
            yield (
                "feature_bound was not declared: entries of X are clipped to [-1, 1]. Scale raw "
                "features with skdp.preprocessing.BoundedScaler(ranges), and declare "
                f"method={type(self._method).__name__}(feature_bound=1.0)."
            )

    def _records(self, X: Any, targets: np.ndarray, groups: np.ndarray | None = None) -> Records:
        if not self._method.is_entrywise:
            return super()._records(X, targets, groups)
        # a norm that no row of bounded entries exceeds
        self.data_norm_ = self._entry_bound * math.sqrt(X.shape[1]) * 1.001
        X = clipped_entries(X, self._entry_bound)
        return Records(X, self.data_norm_, self._intercept_value, targets=targets, groups=groups)

    def _scores(self, X: Any) -> np.ndarray:
        """Compute linear scores of the bounded rows, shape (n_samples, n_outputs)."""
        check_is_fitted(self)
        X = validate_records(self, self._features_of(X), accept_sparse="csr", reset=False)
        with without_warnings():
            if (bound := self.privacy_.plan.get("feature_bound")) is not None:
                X = clipped_entries(X, bound)
            records = Records(X, self.data_norm_)
            return records.scores(np.atleast_2d(self.coef_)) + self.intercept_

    def _of_scores(self, coef: np.ndarray, intercept: np.ndarray) -> tuple[np.ndarray, Any]:
        """Give arrays of one row per score the shapes of ``coef_`` and ``intercept_``."""
        return coef, intercept

    def _private_weights(
        self, records: Records, risk: EmpiricalRisk, caveats: tuple[str, ...] = ()
    ) -> np.ndarray:
        """Return weights of shape (n_outputs, n_features + fit_intercept)."""
        design = Design.of(records, self._public_size(records.n_units))
        choice = self._chosen(design, risk, records.in_memory)
        self._warn(choice.plan, records)
        solver = self._solver
        holds_records = not isinstance(solver, str) and resolve_solver(solver).holds_records
        if holds_records:
            warnings.warn(
                "The solver holds a fitted estimator, which stays in this model without noise: do "
                "not publish or pickle the model with its parameter `solver`.",
                PrivacyLeakWarning,
                stacklevel=4,
            )
        result = self._pay_and_run(choice.plan, records)
        hidden = self._hidden_ends(result.transcript)
        remarks = (*result.plan.remarks(), *choice.remarks, *hidden)
        public = self._found(choice, result)
        if holds_records:
            caveats += (
                "the solver holds a fitted estimator, which is not private: clear the parameter "
                "`solver` before the model is published",
            )
        self._report(choice.method, result.plan, records, risk, caveats, public, remarks)
        self._found_alarms += hidden
        self._noise, self._transcript = result.noise, result.transcript
        for name in ("coef_noise_", "intercept_noise_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        if self._noise is not None:  # the method tells it
            self.privacy_ = replace(self.privacy_, noise=self._noise.margins.to_dict())
            intercept = self._noise.intercept() * bool(self.fit_intercept)
            coef = self._noise.coef()
            self.coef_noise_, self.intercept_noise_ = self._of_scores(coef, intercept)
        return np.asarray(result.point).reshape(risk.loss.n_outputs, records.width)

    def _hidden_ends(self, step: Any) -> tuple[str, ...]:
        """Return a sentence if noise hides most intervals of coefficients, or none."""
        return ()

    def _found(self, choice: Choice, result: Result) -> dict[str, Any]:
        """Set ``alpha_``; return what a report says besides the plan."""
        self.alpha_ = result.plan.to_dict()["alpha"]
        return {"method_bounds": choice.bounds} if choice.bounds else {}

    def _check_chunked(self) -> None:
        if not self._method.chunked:
            others = ", ".join(repr(name) for name, row in self._methods.items() if row.chunked)
            raise ValueError(
                f"method={self.method!r} needs all records in memory. Methods for a source: "
                f"{others}."
            )
        if getattr(self._method, "tilt", 0.0):
            raise ValueError("tilt > 0 needs all records in memory.")
        solver = resolve_solver(self._solver)
        if "records" in solver.needs:
            raise ValueError(
                f"{type(solver).__name__} works on batches of records: it needs all records in "
                "memory. Solvers of full gradients, such as 'newton' and 'lbfgs', do not."
            )

    def _planned(self, design: Design, risk: EmpiricalRisk, n_groups: int | None = None) -> Choice:
        if n_groups is not None:
            raise ValueError(f"n_groups == {n_groups}: {type(self).__name__} has no groups.")
        return self._chosen(design, risk)

    def _chosen(self, design: Design, risk: EmpiricalRisk, in_memory: bool = True) -> Choice:
        """Choose the method and its plan, for records in memory or in chunks."""
        return self._choice(self._methods, design, risk, in_memory)

    def _choice(
        self, methods: Mapping[str, Any], design: Design, risk: EmpiricalRisk, in_memory: bool
    ) -> Choice:
        # several solves need a solver that keeps nothing from one block to the next
        may_split = isinstance(self._solver, str) or is_copyable(resolve_solver(self._solver))
        return choose(
            methods,
            self.method,
            self._objective(design, risk),
            self._budget,
            solver=self.solver,
            may_split=may_split,
            in_memory=in_memory,
            is_slack=design.is_slack,
        )

    def _objective(self, design: Design, risk: EmpiricalRisk) -> Objective:
        """Make the objective from the parameters and the public numbers of the records."""
        relation = Neighbouring(self.neighbouring)
        return Objective(
            risk,
            design,
            alpha=0.0 if self.alpha == "auto" else float(self.alpha),
            neighbouring=relation.of_persons if design.of_persons else relation,
        )

    def _risk(self, loss: Loss) -> EmpiricalRisk:
        return self._method.risk(loss)

    @property
    def _method(self) -> Any:
        """The object of `method`; of "auto" the default."""
        found = resolved(self._methods, self.method)
        return Gradient() if found is None else found

    @property
    def _solver(self) -> Any:
        """The solver: that of the object, or of a name and "auto" the parameter."""
        is_own = isinstance(self.method, Method) and self.method.has_solver
        return self._method.solver if is_own else self.solver

    @property
    def _entry_bound(self) -> float:
        """Public bound on an entry of X."""
        bound = self._method.feature_bound
        return 1.0 if bound is None else float(bound)

    @property
    def _intercept_value(self) -> float:
        unit = self._entry_bound if self._method.is_entrywise else self._norm_bound
        return float(self._method.intercept_scaling) * unit * bool(self.fit_intercept)

    def _check_parameters(self) -> None:
        self._check_shared()
        check_bool("fit_intercept", self.fit_intercept)
        if self.data_norm is not None:
            check_unit("data_norm", self.data_norm)
        if self.weight_bound is not None:
            check_unit("weight_bound", self.weight_bound)
        if self.max_records_per_user is not None:
            check_count("max_records_per_user", self.max_records_per_user)
        if self.n_public is not None:
            if self.neighbouring == "replace_one":
                raise ValueError("n_public is for neighbouring='add_remove'.")
            check_count("n_public", self.n_public)
        self._check_alpha()
        self._check_method()
        self._check_solver()

    def _check_alpha(self) -> None:
        """Refuse a penalty that is none, or that the method does not take."""
        if isinstance(self.alpha, str):
            if self.alpha != "auto":
                raise ValueError(f"alpha == {self.alpha!r}, must be 'auto' or a number >= 0.")
            return
        check_real("alpha", self.alpha, 0.0, LARGEST_UNIT**2)
        if self.method != "auto" and not self._takes_alpha(self._method):
            raise ValueError(
                f"method={self.method!r} has no penalty, or one of its own: alpha must be 'auto'."
            )
        if self.alpha == 0 and self._budget.is_pure:
            raise ValueError(
                "alpha == 0 needs delta > 0, or a method with a ball such as "
                "skdp.methods.OutputPerturbation(alpha=0, coef_norm=1.0)."
            )

    def _takes_alpha(self, method: Method) -> bool:
        """Whether a method has the penalty of this model, after its releases."""
        return method.takes_alpha

    def _check_method(self) -> None:
        """Refuse a method where its proof does not apply."""
        own = resolved(self._methods, self.method)
        if own is None:
            return
        own.check(self.method, self._budget, Neighbouring(self.neighbouring))
        if own.is_entrywise and self.data_norm is not None:
            raise ValueError(
                f"data_norm is for methods in the Euclidean geometry: method={self.method!r} clips "
                "the entries of X to feature_bound."
            )

    @property
    def _has_solver(self) -> bool:
        return not (isinstance(self.solver, str) and self.solver == "auto")

    def _check_solver(self) -> None:
        """Refuse a solver beside that of an object, and one that is not made for the objective."""
        own = self._method
        if not (own.has_solver or self._has_solver):
            return
        may_have = own.has_solver and not isinstance(self.method, Method)
        if self.method != "auto" and self._has_solver and not may_have:
            raise ValueError(
                f"method={self.method!r} has no solver, or one of its own: solver must be 'auto'."
            )
        (own if own.has_solver else Output()).check_solver(self._solver)
        is_mean = self._is_mean and not getattr(own, "tilt", 0.0)
        if not is_mean and "records" in (solver := resolve_solver(self._solver)).needs:
            raise ValueError(
                f"{type(solver).__name__} works on batches of records, which say too little about "
                "this objective. Solvers of full gradients such as 'newton' do."
            )

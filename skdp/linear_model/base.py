"""Base of the linear estimators: parameters, bounding of records, the private fit."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, get_args

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skdp._checks import LARGEST_UNIT, check_bool, check_count, check_option, check_real, check_unit
from skdp._estimator import randomness
from skdp._model import PrivateModel
from skdp._records import validate_records
from skdp._runtime import without_warnings
from skdp._types import Auto, Calibration, MirrorVariant, Risk
from skdp.algorithms.methods import METHODS, Choice, check_chunked, choose, named
from skdp.algorithms.plan import Run
from skdp.algorithms.weight_noise import WeightNoise
from skdp.privacy.events import Neighbouring
from skdp.privacy.report import PrivacyLeakWarning
from skdp.problems import (
    MAX_SIZE_RATIO,
    Design,
    EmpiricalRisk,
    Loss,
    Objective,
    Records,
    TiltedRisk,
)
from skdp.problems.vertices import clipped_entries
from skdp.solvers import resolve_solver
from skdp.solvers.copying import is_copyable


class DPLinearModel(PrivateModel):
    """Base of private linear models; not for direct use."""

    # Parameters are set by the subclasses' signatures, as scikit-learn requires.
    alpha: float | str
    coef_norm: float | None
    fit_intercept: bool
    intercept_scaling: float
    n_public: int | None
    method: str
    objective: str
    solver: Any
    calibration: str
    #: The private algorithms by name; the first is the choice where no other competes.
    _methods: Mapping[str, Any] = METHODS
    #: Of the coefficients of the last fit.
    _noise: WeightNoise | None = None
    #: Set by the estimators that have the parameters.
    preparation: str | None = None
    tilt: float = 0.0
    coef_norm_l1: float | None = None
    feature_bound: float | None = None
    mirror_variant: str = "plain"
    _mirror_variants: tuple[str, ...] = get_args(MirrorVariant)

    def _undeclared(self) -> Iterator[str]:
        if not self._is_entrywise:
            yield from super()._undeclared()
        elif self.feature_bound is None:
            yield (
                "feature_bound was not declared: entries of X are clipped to [-1, 1]. Scale raw "
                "features with skdp.preprocessing.BoundedScaler(ranges) and declare "
                "feature_bound=1.0, or declare their public bound."
            )

    def _records(self, X: Any, targets: np.ndarray, groups: np.ndarray | None = None) -> Records:
        if not self._is_entrywise:
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

    def _score_noise(self, X: Any, slopes: np.ndarray | None = None) -> np.ndarray:
        check_is_fitted(self)
        if self._noise is None:
            return super()._score_noise(X, slopes)
        X = validate_records(self, self._features_of(X), accept_sparse="csr", reset=False)
        with without_warnings():
            return self._noise.scores(Records(X, self.data_norm_), slopes)

    def _keep_noise(self, noise: WeightNoise | None) -> None:
        """Set the noise of the coefficients, where the method tells it."""
        for name in ("coef_noise_", "intercept_noise_"):
            self.__dict__.pop(name, None)
        self._noise = noise
        if noise is not None:
            self.privacy_ = replace(self.privacy_, noise=noise.margins.to_dict())
            intercept = noise.intercept() * bool(self.fit_intercept)
            self.coef_noise_, self.intercept_noise_ = self._of_scores(noise.coef(), intercept)

    def _of_scores(self, coef: np.ndarray, intercept: np.ndarray) -> tuple[np.ndarray, Any]:
        """Give arrays of one row per score the shapes of ``coef_`` and ``intercept_``."""
        return coef, intercept

    def _private_weights(
        self, records: Records, risk: EmpiricalRisk, caveats: tuple[str, ...] = ()
    ) -> np.ndarray:
        """Return weights of shape (n_outputs, n_features + fit_intercept); set ``alpha_``."""
        design = Design.of(records, self._public_size(records.n_units))
        choice = self._chosen(design, risk, records.in_memory)
        self._warn(choice.plan, records)
        self._warn_of_solver()
        if self._prepares:  # printed algorithms were asked for elsewhere
            self._warn_of_method(choice)
        result = self._pay_and_run(choice.plan, records)
        public: dict[str, Any] = {}
        remarks = (*result.plan.remarks(), *choice.remarks)
        if choice.bounds:
            public["method_bounds"] = choice.bounds
        caveats += self._caveats()
        self._report(choice.method, result.plan, records, risk, caveats, public, remarks)
        self.alpha_ = self.privacy_.plan["alpha"]
        self._keep_noise(result.noise)
        return np.asarray(result.point).reshape(risk.loss.n_outputs, records.width)

    def _check_chunked(self) -> None:
        if self.method != "auto" or not any(row.chunked for row in self._methods.values()):
            name = next(iter(self._methods)) if self.method == "auto" else self.method
            check_chunked(self._methods, name)
        if self.tilt > 0:
            raise ValueError("tilt > 0 needs all records in memory.")
        solver = resolve_solver(self.solver)
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
        # several solves need a solver that keeps nothing from one block to the next
        may_split = isinstance(self.solver, str) or is_copyable(resolve_solver(self.solver))
        return choose(
            self._methods,
            self.method,
            self._objective(design, risk),
            self._budget,
            self.calibration,
            may_split=may_split,
            has_solver=self._has_solver,
            in_memory=in_memory,
            is_slack=design.is_slack,
        )

    def _warn_of_solver(self) -> None:
        """Warn of a solver that keeps what it computed from the records."""
        if resolve_solver(self.solver).holds_records:
            warnings.warn(
                "The solver holds a fitted estimator, which stays in this model without noise: do "
                "not publish or pickle the model with its parameter `solver`.",
                PrivacyLeakWarning,
                stacklevel=5,
            )

    def _run(self) -> Run:
        return Run(self.solver, *randomness(self.random_state), self.verbose)

    def _objective(self, design: Design, risk: EmpiricalRisk) -> Objective:
        """Make the objective from the parameters and the public numbers of the records."""
        return Objective(
            risk,
            design,
            alpha=0.0 if self.alpha == "auto" else float(self.alpha),
            coef_norm=None if self.coef_norm is None else float(self.coef_norm),
            neighbouring=self._relation(design),
            population=self.objective == "population",
            coef_norm_l1=None if self.coef_norm_l1 is None else float(self.coef_norm_l1),
            feature_bound=self._entry_bound,
            mirror_variant=self.mirror_variant,
            prepares=self._prepares,
        )

    def _relation(self, design: Design) -> Neighbouring:
        """Return the relation of the guarantee, for persons if records are of persons."""
        relation = Neighbouring(self.neighbouring)
        return relation.of_persons if design.of_persons else relation

    def _caveats(self) -> tuple[str, ...]:
        """State the conditions of the guarantee besides the constants."""
        caveats = self._size_caveats()
        if resolve_solver(self.solver).holds_records:
            caveats += (
                "the solver holds a fitted estimator, which is not private: clear the parameter "
                "`solver` before the model is published",
            )
        return caveats

    def _size_caveats(self) -> tuple[str, ...]:
        if self.neighbouring == "replace_one" or self.n_public is not None:
            return ()
        return (
            "n_public was not given: len(X) is disclosed, and the guarantee holds only as if "
            "that number had been fixed beforehand",
        )

    def _risk(self, loss: Loss) -> EmpiricalRisk:
        return TiltedRisk(loss, float(self.tilt)) if self.tilt > 0 else super()._risk(loss)

    @property
    def _prepares(self) -> bool:
        """Whether penalties enter after the releases, where there is a proof."""
        return self.preparation == "auto" and self.calibration == "analytic"

    @property
    def _is_entrywise(self) -> bool:
        """Whether the method bounds the entries of X, not its rows."""
        return bool(self.method != "auto" and self._row.is_entrywise)

    @property
    def _entry_bound(self) -> float:
        """Public bound on an entry of X."""
        return 1.0 if self.feature_bound is None else float(self.feature_bound)

    @property
    def _intercept_value(self) -> float:
        if self._is_entrywise:
            return self._entry_bound * bool(self.fit_intercept)
        return float(self.intercept_scaling) * self._norm_bound * bool(self.fit_intercept)

    def _public_size(self, n_units: int) -> int | None:
        if self.neighbouring == "replace_one":
            return None
        n_public = max(1, n_units) if self.n_public is None else int(self.n_public)
        if n_units > MAX_SIZE_RATIO * n_public:
            raise ValueError(
                f"X has more than {MAX_SIZE_RATIO:g} times as many records (or persons, with "
                f"user_ids) as n_public == {self.n_public}."
            )
        return n_public

    def _check_parameters(self) -> None:
        self._check_shared()
        for name in ("feature_bound", "coef_norm_l1"):
            if getattr(self, name) is not None:
                check_unit(name, getattr(self, name))
        check_real("intercept_scaling", self.intercept_scaling, 1e-6, 1e6)
        check_bool("fit_intercept", self.fit_intercept)
        check_option("method", self.method, self._method_names)
        if self.weight_bound is not None:
            check_unit("weight_bound", self.weight_bound)
        if self.max_records_per_user is not None:
            check_count("max_records_per_user", self.max_records_per_user)
        if self.preparation is not None:
            check_option("preparation", self.preparation, get_args(Auto))
        self._check_objective()
        self._check_method()
        self._check_solver()

    def _check_objective(self) -> None:
        """Refuse parameters of the objective and of its planning."""
        if self.coef_norm is not None:
            check_unit("coef_norm", self.coef_norm)
        if isinstance(self.alpha, str):
            if self.alpha != "auto":
                raise ValueError(f"alpha == {self.alpha!r}, must be 'auto' or a number >= 0.")
        else:
            check_real("alpha", self.alpha, 0.0, LARGEST_UNIT**2)
            has_radius = self._row.is_bounded or (self._prepares and not self._budget.is_pure)
            if self.alpha == 0 and self.coef_norm is None and not has_radius:
                bounded = named(self._methods, lambda method: method.is_bounded)
                raise ValueError(
                    "alpha == 0 needs coef_norm: without a penalty the coefficients must be "
                    "bounded by a public radius."
                    + (f" There is a default for {bounded}." if bounded else "")
                )
        check_option("objective", self.objective, get_args(Risk))
        check_real("tilt", self.tilt, 0.0)
        if self.tilt > 1e6:
            raise ValueError(
                f"tilt == {self.tilt:g}, must be in [0, 1e+06]: no private model comes near the "
                "smallest largest loss of a record, however many records there are. A tilt is of "
                "use below log(n_samples) / coef_norm (for the log loss of rows of norm 1); for "
                "the largest loss of groups take a DPMaxGroupLoss model."
            )
        if self.tilt > 0 and self.neighbouring != "replace_one":
            raise ValueError("tilt > 0 is proven for neighbouring='replace_one' only.")
        check_option("calibration", self.calibration, get_args(Calibration))
        if self.calibration == "paper" and self.neighbouring != "replace_one":
            raise ValueError("calibration='paper' is proven for neighbouring='replace_one' only.")
        if self.n_public is not None:
            if self.neighbouring == "replace_one":
                raise ValueError("n_public is for neighbouring='add_remove'.")
            check_count("n_public", self.n_public)

    @property
    def _method_names(self) -> tuple[str, ...]:
        return ("auto", *self._methods)

    @property
    def _row(self) -> Any:
        """Row of the method; of "auto" the first one."""
        return self._methods[next(iter(self._methods)) if self.method == "auto" else self.method]

    def _check_method(self) -> None:
        """Refuse a method where its proof does not apply."""
        method = self._row
        method.check(self.method, self._budget, Neighbouring(self.neighbouring), self.calibration)
        asked = (self.alpha != "auto", self.coef_norm is not None, self._has_solver)
        refused = asked[2:] if method.penalises_after and self._prepares else asked
        if not method.is_penalised and (any(refused) or self.objective == "population"):
            words = "alpha='auto', coef_norm=None, " if refused is asked else ""
            raise ValueError(
                f"method={self.method!r} stops early in place of a penalty, and has no solver: it "
                f"needs {words}objective='empirical' and solver='auto'."
            )
        if self._is_entrywise and self.data_norm is not None:
            raise ValueError(
                f"data_norm is for methods in the Euclidean geometry: method={self.method!r} clips "
                "the entries of X to feature_bound."
            )
        check_option("mirror_variant", self.mirror_variant, self._mirror_variants)
        given = self.feature_bound, self.coef_norm_l1, self.mirror_variant
        if not self._is_entrywise and given != (None, None, "plain"):
            entrywise = named(self._methods, lambda method: method.is_entrywise)
            raise ValueError(
                f"feature_bound, coef_norm_l1 and mirror_variant are for {entrywise}: "
                f"method={self.method!r} has rows of norm data_norm and the ball of coef_norm."
            )
        needs_ball = self.alpha == 0 or any(asked[1:]) or self.objective == "population"
        if method.is_penalised and not method.has_ball and needs_ball:
            raise ValueError(
                f"method={self.method!r} has no ball and no solver: it needs alpha > 0 or 'auto', "
                "coef_norm=None, objective='empirical' and solver='auto'."
            )
        if self.tilt > 0 and method.needs_mean:
            others = named(self._methods, lambda method: not method.needs_mean)
            raise ValueError(f"tilt > 0 needs {others}: the tilted loss is no mean over records.")

    @property
    def _has_solver(self) -> bool:
        return not (isinstance(self.solver, str) and self.solver == "auto")

    def _check_solver(self) -> None:
        """Refuse a solver that is not made for the objective."""
        solver = resolve_solver(self.solver)
        if not self._is_mean and "records" in solver.needs:
            raise ValueError(
                f"{type(solver).__name__} works on batches of records, which say too little "
                "about this objective. Solvers of full gradients such as 'newton' do."
            )

    @property
    def _is_mean(self) -> bool:
        """Whether the objective is a mean of one function per record for batch solvers."""
        return self.tilt == 0

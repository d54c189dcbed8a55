"""What the linear estimators share: parameters, bounding of records, the private fit."""

from __future__ import annotations

import copy
import numbers
import warnings
from abc import abstractmethod
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from skdp.algorithms.output_perturbation import choose_alpha, output_perturbation, reference_norm
from skdp.algorithms.phased_output_perturbation import phased_output_perturbation
from skdp.algorithms.published import lowy_regularisation
from skdp.mechanisms import NoiseSource
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import Neighbouring
from skdp.privacy.report import PrivacyLeakWarning, PrivacyReport
from skdp.problems import MAX_SIZE_RATIO, BoundedRows, Loss, ball_problem
from skdp.solvers import resolve_solver

__all__ = ["DPLinearModel"]


class DPLinearModel(BaseEstimator):
    """Base of private linear models; not for direct use.

    ``fit`` is atomic: everything happens on a shallow copy, whose state is taken over when
    nothing can fail any more.
    """

    # Parameters are set by the subclasses' signatures, as scikit-learn requires.
    epsilon: float
    delta: float
    alpha: float | str
    data_norm: float
    coef_norm: float | None
    fit_intercept: bool
    intercept_scaling: float
    neighbouring: str
    n_public: int | None
    method: str
    solver: Any
    calibration: str
    random_state: Any
    verbose: int

    _methods = ("auto", "output", "phased")

    def fit(self, X: Any, y: Any, **fit_params: Any) -> Any:
        """Fit the model privately.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows longer than `data_norm` are scaled down to it.
        y : array-like of shape (n_samples,)
        **fit_params : dict
            Nothing is accepted here; `sample_weight` is refused, because the guarantee is per
            record: a weight w makes a record count like w records, and multiplies the
            sensitivity by the largest weight.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            For invalid parameters or input. Such an error is made before anything is
            computed, is meant for the data holder, and lies outside of the guarantee.
        """
        _refuse(fit_params)
        staged = copy.copy(self)
        staged._fit(X, y)
        self.__dict__ = staged.__dict__
        return self

    @abstractmethod
    def _fit(self, X: Any, y: Any) -> None:
        """Set the fitted attributes."""

    def _validated(self, X: Any, y: Any, **kwargs: Any) -> tuple[Any, Any]:
        # sums of huge entries overflow in the check for NaN; that must not show as a warning
        with np.errstate(over="ignore", invalid="ignore"):
            return validate_data(
                self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], **kwargs
            )

    def _private_weights(
        self, X: Any, targets: np.ndarray, loss: Loss, caveats: tuple[str, ...] = ()
    ) -> np.ndarray:
        """Run the chosen method; set ``privacy_`` and ``alpha_``.

        Returns
        -------
        ndarray of shape (loss.n_outputs, n_features + fit_intercept)
        """
        budget = PrivacyBudget(self.epsilon, self.delta)
        neighbouring = Neighbouring(self.neighbouring)
        n_public = self._public_size(X.shape[0])
        rows = BoundedRows(X, float(self.data_norm), self._intercept_value)
        solver_rng, noise, seeded = _randomness(self.random_state)
        shared: dict[str, Any] = {
            "neighbouring": neighbouring,
            "solver": self.solver,
            "solver_rng": solver_rng,
            "noise": noise,
            "verbose": self.verbose,
        }
        if self.method == "phased":
            # no penalty is needed, but a ball is
            alpha = 0.0 if self.alpha == "auto" else float(self.alpha)
            radius = self.coef_norm or reference_norm(loss, rows.norm_bound, rows.width)
            phased = phased_output_perturbation(
                rows,
                targets,
                loss,
                budget,
                radius=float(radius),
                alpha=alpha,
                calibration=self.calibration,
                **shared,
            )
            point, release, plan = phased.point, phased.plan.release(), phased.plan.to_dict()
        else:
            alpha, coef_norm, calibration = self._regularisation(
                rows, n_public, loss, budget, neighbouring
            )
            problem = ball_problem(
                rows,
                targets,
                loss,
                alpha,
                coef_norm=coef_norm,
                n_public=n_public if neighbouring is Neighbouring.ADD_REMOVE else None,
            )
            result = output_perturbation(problem, budget, calibration=calibration, **shared)
            point, release, plan = result.point, result.plan.release(), result.plan.to_dict()
        if neighbouring is Neighbouring.ADD_REMOVE and self.n_public is None:
            caveats += (
                "n_public was not given: len(X) is disclosed, and the guarantee holds only as if "
                "that number had been fixed beforehand",
            )
        if resolve_solver(self.solver).holds_records:
            warnings.warn(
                "The solver holds a fitted estimator, which stays in this model without noise: do "
                "not publish or pickle the model with its parameter `solver`.",
                PrivacyLeakWarning,
                stacklevel=4,
            )
            caveats += (
                "the solver holds a fitted estimator, which is not private: clear the parameter "
                "`solver` before the model is published",
            )
        if seeded:
            caveats += (
                "random_state was given: the guarantee holds only if the seed is secret and used "
                "for this fit alone",
            )
        self.alpha_ = alpha
        self.privacy_ = PrivacyReport(
            epsilon=budget.epsilon,
            delta=budget.delta,
            neighbouring=neighbouring,
            method="phased" if self.method == "phased" else "output",
            releases=(release,),
            plan=plan,
            caveats=caveats,
        )
        return point.reshape(loss.n_outputs, rows.width)

    @property
    def _intercept_value(self) -> float:
        """Value of the constant feature; 0 without an intercept."""
        return float(self.intercept_scaling) * float(self.data_norm) * bool(self.fit_intercept)

    def _public_size(self, n_records: int) -> int:
        if self.neighbouring == "replace_one" or self.n_public is None:
            return n_records
        if n_records > MAX_SIZE_RATIO * self.n_public:
            raise ValueError(
                f"n_public == {self.n_public} is more than {MAX_SIZE_RATIO:g} times too small."
            )
        return int(self.n_public)

    def _regularisation(
        self,
        rows: BoundedRows,
        n_public: int,
        loss: Loss,
        budget: PrivacyBudget,
        neighbouring: Neighbouring,
    ) -> tuple[float, float | None, Any]:
        """The strength of the penalty, the radius and the calibration that go together."""
        radius = None if self.coef_norm is None else float(self.coef_norm)
        analytic = self.calibration == "analytic"
        if self.alpha != "auto" and self.alpha != 0:
            return float(self.alpha), radius, "analytic" if analytic else "lowy2021_alg1"
        if not analytic:
            if radius is None:
                radius = reference_norm(loss, rows.norm_bound, rows.width)
            published = lowy_regularisation(
                budget,
                loss.n_outputs * rows.width,
                n_public,
                loss.lipschitz(rows.norm_bound, radius),
                loss.smoothness(rows.norm_bound),
                radius,
            )
            return published, radius, "lowy2021_alg6"
        automatic = choose_alpha(
            loss,
            feature_norm=rows.norm_bound,
            row_width=rows.width,
            n_records=n_public,
            block_size=rows.block_size,
            budget=budget,
            neighbouring=neighbouring,
            coef_norm=radius,
        )
        return automatic, radius, "analytic"

    def _check_parameters(self) -> None:
        """Refuse invalid parameters before any input is looked at."""
        PrivacyBudget(self.epsilon, self.delta)
        _check_real("epsilon", self.epsilon, 1e-20, 1e20)
        # squares of the bound must neither overflow nor vanish
        _check_real("data_norm", self.data_norm, 1e-50, 1e50)
        if self.coef_norm is not None:
            _check_real("coef_norm", self.coef_norm, 1e-50, 1e50)
        _check_real("intercept_scaling", self.intercept_scaling, 1e-6, 1e6)
        if not isinstance(self.fit_intercept, (bool, np.bool_)):
            raise ValueError(f"fit_intercept == {self.fit_intercept!r}, must be True or False.")
        if isinstance(self.alpha, str):
            if self.alpha != "auto":
                raise ValueError(f"alpha == {self.alpha!r}, must be 'auto' or a number >= 0.")
        else:
            _check_real("alpha", self.alpha, 0.0, 1e150)
            if self.alpha == 0 and self.coef_norm is None and self.method != "phased":
                raise ValueError(
                    "alpha == 0 needs coef_norm: without a penalty the coefficients must be "
                    "bounded by a public radius."
                )
        _check_option("neighbouring", self.neighbouring, ("replace_one", "add_remove"))
        _check_option("method", self.method, self._methods)
        if self.method == "phased" and self.neighbouring != "replace_one":
            raise ValueError("method='phased' is proven for neighbouring='replace_one' only.")
        _check_option("calibration", self.calibration, ("analytic", "paper"))
        if self.calibration == "paper" and self.neighbouring != "replace_one":
            raise ValueError("calibration='paper' is proven for neighbouring='replace_one' only.")
        if self.n_public is not None:
            if self.neighbouring == "replace_one":
                raise ValueError("n_public is for neighbouring='add_remove'.")
            if isinstance(self.n_public, bool) or not isinstance(self.n_public, numbers.Integral):
                raise TypeError(f"n_public must be an integer, got {self.n_public!r}.")
            if self.n_public < 1:
                raise ValueError(f"n_public == {self.n_public}, must be >= 1.")
        if not isinstance(self.verbose, numbers.Integral):
            raise TypeError(f"verbose must be an integer, got {self.verbose!r}.")
        resolve_solver(self.solver)
        _randomness(self.random_state, probe=True)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _refuse(fit_params: dict[str, Any]) -> None:
    if fit_params.get("sample_weight") is not None:
        raise ValueError(
            "sample_weight is not supported: the privacy guarantee is per record, and a weight "
            "makes one record count like several."
        )
    unknown = set(fit_params) - {"sample_weight"}
    if unknown:
        raise TypeError(f"fit() got unexpected keyword arguments: {sorted(unknown)}.")


def _check_real(name: str, value: Any, low: float, high: float) -> None:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a real number, got {value!r}.")
    if not low <= float(value) <= high:
        raise ValueError(f"{name} == {value}, must be between {low:g} and {high:g}.")


def _check_option(name: str, value: Any, options: tuple[str, ...]) -> None:
    if not (isinstance(value, str) and value in options):
        raise ValueError(f"{name} == {value!r}, must be one of {list(options)}.")


def _randomness(
    random_state: Any, probe: bool = False
) -> tuple[np.random.Generator, NoiseSource, bool]:
    """Separate generators for the solver and for the noise, and whether they were seeded."""
    if random_state is None:
        return np.random.default_rng(), NoiseSource(), False
    if isinstance(random_state, numbers.Integral) and not isinstance(random_state, bool):
        if random_state < 0:
            raise ValueError(f"random_state == {random_state}, must be >= 0.")
        for_noise, for_solver = np.random.SeedSequence(int(random_state)).spawn(2)
    elif isinstance(random_state, (np.random.RandomState, np.random.Generator)):
        if probe:
            return np.random.default_rng(), NoiseSource(), True
        entropy = [int(word) for word in np.frombuffer(random_state.bytes(32), dtype=np.uint32)]
        for_noise, for_solver = np.random.SeedSequence(entropy).spawn(2)
    else:
        raise ValueError(
            f"random_state == {random_state!r}, must be None, an integer or a numpy generator."
        )
    return (
        np.random.default_rng(for_solver),
        NoiseSource(np.random.default_rng(for_noise).bytes),
        True,
    )


def warn_inferred(what: str, parameter: str) -> None:
    """Tell the user that something public was read off the records."""
    warnings.warn(
        f"{what} were inferred from the data, which the privacy guarantee does not cover. "
        f"Declare them with the parameter `{parameter}`.",
        PrivacyLeakWarning,
        stacklevel=4,
    )

"""Solvers of other packages: scipy's minimisers and scikit-learn's estimators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import Generator
from scipy.optimize import Bounds, minimize
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from skdp.problems import Problem
from skdp.problems.domains import Box
from skdp.solvers.base import FiniteSum, Solver, Vector

#: Methods of scipy.optimize.minimize, and the options that ask for a gradient of norm g or,
#: where there is no such option, for an accuracy a, at strong convexity mu.
_OPTIONS: dict[str, Callable[[float, float, float], dict[str, float]]] = {
    "Nelder-Mead": lambda g, a, mu: {"xatol": a, "fatol": 0.5 * mu * a**2},
    "Powell": lambda g, a, mu: {"xtol": a, "ftol": 1e-15},
    "CG": lambda g, a, mu: {"gtol": g, "norm": 2},
    "BFGS": lambda g, a, mu: {"gtol": g, "norm": 2},
    "Newton-CG": lambda g, a, mu: {"xtol": 1e-3 * a},
    "L-BFGS-B": lambda g, a, mu: {"gtol": g, "ftol": 0.0, "maxiter": 10_000, "maxfun": 10_000},
    "TNC": lambda g, a, mu: {"gtol": g, "ftol": 0.0, "xtol": 0.0, "maxfun": 10_000},
    "COBYLA": lambda g, a, mu: {"tol": a},
    "SLSQP": lambda g, a, mu: {"ftol": 0.05 * mu * a**2, "maxiter": 1000},
    "trust-constr": lambda g, a, mu: {"gtol": g, "xtol": 1e-3 * a},
    "dogleg": lambda g, a, mu: {"gtol": g},
    "trust-ncg": lambda g, a, mu: {"gtol": g},
    "trust-exact": lambda g, a, mu: {"gtol": g},
    "trust-krylov": lambda g, a, mu: {"gtol": g},
}
_NAMES = {name.lower(): name for name in _OPTIONS}
_WITHOUT_GRADIENT = {"Nelder-Mead", "Powell", "COBYLA"}
_WITH_HESSIAN = {"dogleg", "trust-exact"}
_WITH_HESSIAN_PRODUCT = {"Newton-CG", "trust-ncg", "trust-krylov", "trust-constr"}
_WITH_BOUNDS = {"Nelder-Mead", "L-BFGS-B", "TNC", "SLSQP", "Powell", "COBYLA"}


class ScipySolver(Solver):
    """A method of :func:`scipy.optimize.minimize`.

    It gets derivatives, and the bounds of a :class:`~skdp.problems.Box`, if it uses them. Else it
    minimises over the whole space, and the certified solve projects the answer.

    Parameters
    ----------
    method : str, default="BFGS"
    options : dict, optional
        For scipy, such as ``{"maxiter": 500}``; they override the tolerances set for the accuracy.
    """

    def __init__(self, method: str = "BFGS", options: dict[str, Any] | None = None) -> None:
        self.method = method
        self.options = options

    def check_supports(self, problem: Problem) -> None:
        super().check_supports(problem)
        if str(self.method).lower() not in _NAMES:
            raise ValueError(f"method == {self.method!r}, must be one of {list(_OPTIONS)}.")

    def _solve(self, problem: Problem, accuracy: float, start: Vector, rng: Generator) -> Vector:
        method, domain = _NAMES[self.method.lower()], problem.domain
        arguments: dict[str, Any] = {}
        if method not in _WITHOUT_GRADIENT:
            arguments["jac"] = problem.gradient
        if method in _WITH_HESSIAN:
            arguments["hess"] = problem.hessian
        if method in _WITH_HESSIAN_PRODUCT:
            arguments["hessp"] = problem.hessian_vector
        if method in _WITH_BOUNDS and isinstance(domain, Box):
            arguments["bounds"] = Bounds(domain.lower, domain.upper)
        mu = problem.strong_convexity
        options = _OPTIONS[method](0.5 * mu * accuracy, accuracy, mu)
        options |= dict(self.options or {})
        return minimize(problem.value, start, method=method, options=options, **arguments).x


class SklearnSolver(Solver):
    """A linear model of scikit-learn, fitted already or to be fitted on the bounded rows.

    Parameters
    ----------
    estimator : estimator
        With ``coef_`` of the problem's shape after fitting, such as LogisticRegression,
        LinearSVC, SGDClassifier, Ridge or SGDRegressor.

        - Not fitted: a clone is fitted without an intercept on a copy of the bounded rows with the
          intercept feature, with the problem's alpha (its parameter ``C`` or ``alpha``).
          LogisticRegression and Ridge have a `tol` for the accuracy, and "newton-cholesky" in
          place of "lbfgs", which stops too early. For the plain losses of algorithms as published,
          such as :class:`skdp.methods.OutputPerturbation`.
        - Fitted: its coefficients are returned. Unless it was fitted in that way, they are only a
          start. It stays, without noise, among the parameters of the private model: do not
          publish or pickle that model (fitting it warns, and its report has a caveat).

    Where an estimator does not reach the accuracy, for example with few ``max_iter``, trusted
    solvers continue.
    """

    needs = frozenset({"records"})

    def __init__(self, estimator: BaseEstimator) -> None:
        self.estimator = estimator

    @property
    def holds_records(self) -> bool:
        """A fitted estimator is not private, and stays in this object."""
        return self._is_fitted()

    def check_supports(self, problem: FiniteSum) -> None:
        super().check_supports(problem)
        if self._is_fitted():
            return
        name = type(self.estimator).__name__
        if not {"C", "alpha"} & set(self.estimator.get_params(deep=False)):
            raise ValueError(f"{name} has no parameter C or alpha: its penalty cannot be set.")
        numbers = problem.records.targets.dtype.kind not in "iub"
        labels = not (numbers and getattr(problem.loss, "target_bound", 0.0) > 0)
        if is_classifier(self.estimator) != labels:
            raise ValueError(f"{name} is not made for {type(problem.loss).__name__}.")

    def _is_fitted(self) -> bool:
        try:
            check_is_fitted(self.estimator)
        except NotFittedError:
            return False
        return True

    def _solve(self, problem: FiniteSum, accuracy: float, start: Vector, rng: Generator) -> Vector:
        if self._is_fitted():
            return self._coefficients(problem, self.estimator)
        estimator = clone(self.estimator)
        names = estimator.get_params(deep=False)
        if "fit_intercept" in names:
            estimator.set_params(fit_intercept=False)
        is_sum = "C" in names or type(estimator).__name__ in {"Ridge", "RidgeClassifier"}
        if "C" in names:  # C sum_i loss_i + ||w||^2 / 2
            estimator.set_params(C=1.0 / (problem.alpha * problem.n_public))
        elif "alpha" in names:  # Ridge: sum of squares; the others: mean loss
            estimator.set_params(alpha=problem.alpha * (problem.n_public if is_sum else 1))
        if isinstance(estimator, (LogisticRegression, Ridge)):
            entry = 0.1 * problem.strong_convexity * accuracy / np.sqrt(problem.dimension)
            estimator.set_params(tol=min(names["tol"], max(float(entry), 1e-15)))
            if names["solver"] == "lbfgs":
                estimator.set_params(solver="newton-cholesky")
        weights: dict[str, Any] = {}
        if problem.records.shares is not None and has_fit_parameter(estimator, "sample_weight"):
            ratio = problem.n_records / problem.n_public  # of the mean over all records
            weights["sample_weight"] = problem.records.shares * (1.0 if is_sum else ratio)
        estimator.fit(problem.records.materialise(), problem.records.targets, **weights)
        return self._coefficients(problem, estimator)

    def _coefficients(self, problem: FiniteSum, estimator: Any) -> np.ndarray:
        coef = np.atleast_2d(np.asarray(estimator.coef_, dtype=np.float64))
        if coef.shape[1] < problem.records.width:  # a separate intercept
            intercept = np.broadcast_to(np.ravel(estimator.intercept_), (len(coef),))
            coef = np.column_stack([coef, intercept / problem.records.intercept])
        basis = getattr(problem.loss, "basis", None)
        if basis is not None:
            if len(coef) == 1:  # two classes with one row of coefficients
                coef = np.vstack([-0.5 * coef, 0.5 * coef])
            coef = basis.T @ coef
        return coef.ravel()

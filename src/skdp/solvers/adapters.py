"""Solvers of other packages: scipy's minimisers and scikit-learn's estimators."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, NonlinearConstraint, minimize
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from skdp.privacy.report import PrivacyLeakWarning
from skdp.problems.domains import Ball, Box, Simplex
from skdp.solvers.base import Solver

if TYPE_CHECKING:
    from skdp.problems import FiniteSumProblem

__all__ = ["ScipySolver", "SklearnSolver"]

#: Methods of scipy.optimize.minimize that use what this adapter can give.
_WITH_GRADIENT = {"CG", "BFGS", "L-BFGS-B", "TNC", "SLSQP"}
_WITH_HESSIAN = {"Newton-CG", "dogleg", "trust-ncg", "trust-krylov", "trust-exact", "trust-constr"}
_WITH_BOUNDS = {"Nelder-Mead", "L-BFGS-B", "TNC", "SLSQP", "Powell", "trust-constr", "COBYLA"}
_WITH_CONSTRAINTS = {"SLSQP", "trust-constr"}


class ScipySolver(Solver):
    """Any method of :func:`scipy.optimize.minimize`.

    Gradients and Hessians are passed to the methods that use them, bounds and constraints to
    those that accept them; the others minimise over the whole space, and the gate
    projects their answer.

    Parameters
    ----------
    method : str, default="L-BFGS-B"
    options : dict, optional
        For scipy, such as ``{"maxiter": 500}``. The accuracy is asked for through ``tol``.
    """

    def __init__(self, method: str = "L-BFGS-B", options: dict[str, Any] | None = None) -> None:
        self.method = method
        self.options = options

    def minimise(
        self,
        problem: FiniteSumProblem,
        accuracy: float,
        start: np.ndarray,
        rng: np.random.Generator,
    ) -> np.ndarray:
        arguments: dict[str, Any] = {}
        if self.method in _WITH_GRADIENT | _WITH_HESSIAN:
            arguments["jac"] = problem.gradient
        if self.method in _WITH_HESSIAN:
            if self.method in {"dogleg", "trust-exact"}:
                arguments["hess"] = problem.hessian
            else:
                arguments["hessp"] = problem.hessian_vector
        domain = problem.domain
        if self.method in _WITH_BOUNDS and isinstance(domain, Box):
            arguments["bounds"] = Bounds(domain.lower, domain.upper)
        if self.method in _WITH_BOUNDS and isinstance(domain, Simplex):
            arguments["bounds"] = Bounds(0.0, 1.0)
        if self.method in _WITH_CONSTRAINTS and isinstance(domain, Simplex):
            arguments["constraints"] = LinearConstraint(np.ones((1, start.size)), 1.0, 1.0)
        if self.method in _WITH_CONSTRAINTS and isinstance(domain, Ball):
            arguments["constraints"] = NonlinearConstraint(
                lambda w: w @ w, -np.inf, domain.radius**2, jac=lambda w: 2.0 * w[None]
            )
        tolerance = 0.1 * problem.strong_convexity * accuracy
        # trust-constr copies its options into the result; give each run its own
        options = dict(self.options or {})
        found = minimize(
            problem.value, start, method=self.method, tol=tolerance, options=options, **arguments
        )
        return found.x


class SklearnSolver(Solver):
    """A linear model of scikit-learn, fitted already or to be fitted on the bounded rows.

    Parameters
    ----------
    estimator : estimator
        With ``coef_`` of the problem's shape after fitting, such as LogisticRegression,
        LinearSVC, SGDClassifier, Ridge or SGDRegressor.

        - Not fitted: a clone is fitted on a copy of the rows as the problem sees them (scaled
          to the norm bound, intercept feature appended) without an intercept of its own
          and with the problem's strength of regularisation (its parameter ``C`` or ``alpha``).
        - Fitted: its coefficients are what is returned. Fit it on rows that lie within
          ``data_norm``; otherwise it solves a different problem and is only a start.

    Warns
    -----
    PrivacyLeakWarning
        If the estimator is fitted: it stays in this object, and this object in the parameters
        of the private estimator that uses it, so pickling that one would publish it.

    Notes
    -----
    scikit-learn stops on its own tolerances: give the estimator a small ``tol`` and enough
    ``max_iter``, or the gate has to finish the job.
    """

    def __init__(self, estimator: BaseEstimator) -> None:
        self.estimator = estimator
        if self._is_fitted():
            warnings.warn(
                "The fitted estimator stays in this solver and in every model that has it as a "
                "parameter; it is not private: do not publish or pickle them.",
                PrivacyLeakWarning,
                stacklevel=2,
            )

    def _is_fitted(self) -> bool:
        try:
            check_is_fitted(self.estimator)
        except NotFittedError:
            return False
        return True

    def minimise(
        self,
        problem: FiniteSumProblem,
        accuracy: float,
        start: np.ndarray,
        rng: np.random.Generator,
    ) -> np.ndarray:
        if self._is_fitted():
            return self._coefficients(problem, self.estimator)
        estimator = clone(self.estimator)
        sizes = estimator.get_params(deep=False)
        if "fit_intercept" in sizes:
            estimator.set_params(fit_intercept=False)
        if "C" in sizes:  # C sum_i loss_i + ||w||^2 / 2
            estimator.set_params(C=1.0 / (problem.alpha * problem.n_public))
        elif "alpha" in sizes:  # Ridge: sum of squares; the others: mean loss
            per_record = {"alpha": problem.alpha * problem.n_public}
            is_sum = type(estimator).__name__ in {"Ridge", "RidgeClassifier"}
            estimator.set_params(**(per_record if is_sum else {"alpha": problem.alpha}))
        estimator.fit(problem.rows.materialise(), problem.targets)
        return self._coefficients(problem, estimator)

    def _coefficients(self, problem: FiniteSumProblem, estimator: Any) -> np.ndarray:
        coef = np.atleast_2d(np.asarray(estimator.coef_, dtype=np.float64))
        if coef.shape[1] < problem.rows.width:  # an intercept of its own
            intercept = np.broadcast_to(np.ravel(estimator.intercept_), (len(coef),))
            coef = np.column_stack([coef, intercept / problem.rows.intercept])
        basis = getattr(problem.loss, "basis", None)
        if basis is not None:
            if len(coef) == 1:  # two classes with one row of coefficients
                coef = np.vstack([-0.5 * coef, 0.5 * coef])
            coef = basis.T @ coef
        return coef.ravel()

"""Settings at the edges of what estimators accept, and neighbours at the edges of doubles."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from fit_cases import Case, Records

from skdp.linear_model import DPLinearClassifier, DPLinearRegressor, DPLogisticRegression, DPRidge
from skdp.methods import Bilevel, Method
from skdp.methods.tuning import INNER
from skdp.model_selection import DPLogisticRegressionCV, DPRidgeCV
from skdp.robust import (
    DPAdversarialClassifier,
    DPAdversarialRegressor,
    DPMaxGroupLossClassifier,
    DPMaxGroupLossRegressor,
)

__all__ = ["extreme_records", "neighbour", "outcome", "random_case"]

_CLASSIFIER_LOSSES = ("log_loss", "hinge", "smoothed_hinge", "squared_hinge")
_REGRESSOR_LOSSES = ("squared_error", "huber", "absolute_error", "quantile")
#: Estimators and how often each is tried.
_ESTIMATORS: dict[type, int] = {
    DPLogisticRegression: 3, DPRidge: 3, DPLinearClassifier: 2, DPLinearRegressor: 2,
    DPAdversarialClassifier: 2, DPAdversarialRegressor: 2, DPMaxGroupLossClassifier: 1,
    DPMaxGroupLossRegressor: 1, DPLogisticRegressionCV: 2, DPRidgeCV: 3,
}  # fmt: skip


def random_case(rng: np.random.Generator) -> Case:
    """A configuration with unusual public numbers; it may be one that is refused."""

    def one(*options: Any) -> Any:
        return options[rng.integers(len(options))]

    weights = np.array(list(_ESTIMATORS.values()), dtype=float)
    estimator = list(_ESTIMATORS)[rng.choice(len(weights), p=weights / weights.sum())]
    name = estimator.__name__
    method = one(*(() if "CV" in name else ("auto",)), *estimator._methods)
    parameters: dict[str, Any] = {
        "method": method,
        "epsilon": one(1e-3, 1.0, 30.0, 1e3, 1e6),
        "delta": one(0.0, 1e-6, 0.1),
        "data_norm": one(1.0, 1.0, 1e-3, 1e3),
        "fit_intercept": one(True, False),
        "solver": one("auto", "auto", "auto", "newton", "lbfgs"),
    }
    n, d, n_classes, n_groups = int(rng.integers(2, 7)), int(rng.integers(1, 4)), 0, 0
    is_classifier = "Classifier" in name or "Logistic" in name
    if is_classifier:
        n_classes = one(2, 2, 2, 3)
    if "CV" in name:
        n_classes = min(n_classes, 2)
        low = one(None, 1e-12, 1e-3)
        if low is not None:
            parameters["alpha_bounds"] = (low, low * one(2.0, 1e6))
        if one(True, False):
            parameters["penalty_groups"] = [int(label) for label in rng.integers(2, size=d)]
        if method == "bilevel":
            if parameters["delta"] == 0:
                parameters["delta"] = 0.1
            if rng.random() < 0.6:
                # batches are far slower than the others
                inner = one("output_perturbation", "localized_gd", *INNER)
                solver = parameters.pop("solver")
                own = Bilevel(as_published=True, inner=inner, solver=solver)
                parameters["method"] = own
                if inner == "localized_sgd":  # calibrated once for each number of records
                    parameters |= {"epsilon": 1.0, "delta": 0.1}
                    n = 4
            elif rng.random() < 0.9:  # else it is refused
                parameters["solver"] = "auto"
                if rng.random() < 0.3:
                    parameters |= {"neighbouring": "add_remove", "n_public": n}
    else:
        parameters["alpha"] = one("auto", "auto", 1e-9, 1.0, 1e6, 0)
    if method in ("gradient", "rgda") and rng.random() < 0.9:  # else it is refused
        if "CV" not in name:
            parameters["alpha"] = "auto"
        parameters |= {"solver": "auto", "delta": one(1e-6, 0.1)}
        if rng.random() < 0.3:
            parameters |= {"neighbouring": "add_remove", "n_public": n}
    if method == "exponential":
        parameters |= {"delta": 0.0, "epsilon": one(1e-3, 1.0, 30.0)}
        n_classes = min(n_classes, 2)
    if "Linear" in name:
        parameters["loss"] = one(*(_CLASSIFIER_LOSSES if is_classifier else _REGRESSOR_LOSSES))
    if "Adversarial" in name:
        if method == "output":
            n_classes = min(n_classes, 2)
        parameters["attack_norm"] = one(1, 2, np.inf)
        parameters["attack_radius"] = one(0.0, 0.1, 10.0)
    if "MaxGroup" in name:
        n_groups, sizes = one(0, 2, 3), one("declared", "public", "private")
        parameters["solver"] = "auto"
        parameters["data_norm"] = 1.0
        parameters["epsilon"] = one(1e-3, 1.0, 30.0)
        if sizes != "declared":
            parameters["group_proportions"] = sizes
        elif n_groups:
            parameters["group_proportions"] = [1.0 / n_groups] * n_groups
    elif method in ("auto", "output", "output_perturbation") and rng.random() < 0.2:
        parameters |= {"neighbouring": "add_remove", "n_public": n}
    row = estimator._methods.get(method)
    if isinstance(row, Method) and (row.is_entrywise or "alpha" in row.get_params()):
        parameters |= {"method": _unusual(type(row), parameters, one), "solver": "auto"}
        del parameters["alpha"]
        if row.is_entrywise:
            del parameters["data_norm"]
    return Case(name, estimator, parameters, n, d, n_classes, n_groups)


def _unusual(kind: type, parameters: dict[str, Any], one: Any) -> Any:
    """An object of a class of methods with unusual parameters, some in place of the model's."""
    is_free = "neighbouring" not in parameters and "attack_norm" not in parameters
    given = {
        "alpha": parameters["alpha"],
        "coef_norm": one(None, 1e-3, 1.0),
        "population": one(True, False),
        "solver": parameters["solver"],
        "tilt": one(0.0, 0.0, 0.0, 0.1, 3.0) if is_free else 0.0,
        "release_group_weights": one(True, False),
        "feature_bound": one(1.0, 1e-3, 1e3),
        "coef_norm_l1": one(None, 1e-3, 1.0),
    }
    if given["alpha"] == 0 and given["coef_norm"] is None:
        given["coef_norm"] = 1.0
    known = inspect.signature(kind).parameters
    return kind(**{name: value for name, value in given.items() if name in known})


def extreme_records(case: Case, rng: np.random.Generator) -> Records:
    """Records of a public shape: zeros, duplicates, denormals, and up to 1e300."""
    n, d = case.n, case.d
    X = np.array([_extreme_row(rng, d) for _ in range(n)])
    for i in range(1, n):
        if rng.random() < 0.2:
            X[i] = X[i - 1]
    if rng.random() < 0.1:
        X[:] = X[0]
    if case.n_classes:
        y = rng.integers(case.n_classes, size=n)
        if rng.random() < 0.3:
            y[:] = y[0]
    else:
        y = np.array([_extreme_number(rng) for _ in range(n)])
        if rng.random() < 0.3:
            y[:] = y[0]
    groups = None
    if case.n_groups:
        groups = rng.integers(case.n_groups, size=n)
        if rng.random() < 0.3:
            groups[:] = groups[0]
    return Records(X, y, groups)


def _extreme_number(rng: np.random.Generator) -> float:
    kind = rng.integers(6)
    if kind == 0:
        return 0.0
    if kind == 1:
        return float(rng.choice([-1.0, 1.0, 3.0, -2.0]))
    sign = float(rng.choice([-1.0, 1.0]))
    if kind == 2:
        return sign * float(rng.choice([5e-324, 1e-310, 1e-300, 1e-155, 1e155, 1e300, 1.7e308]))
    if kind == 3:
        return float(rng.normal())
    return sign * float(10.0 ** rng.uniform(-300, 300))


def _extreme_row(rng: np.random.Generator, d: int) -> np.ndarray:
    kind = rng.integers(4)
    if kind == 0:
        return np.zeros(d)
    if kind == 1:
        return rng.normal(size=d)
    row = np.array([_extreme_number(rng) for _ in range(d)])
    if kind == 2 and d > 1:
        row[rng.integers(d)] = 0.0
    return row


def neighbour(case: Case, records: Records, rng: np.random.Generator) -> Records:
    """The same records but one; what is public of that one stays."""
    i, other = int(rng.integers(case.n)), extreme_records(case, rng)
    if case.parameters.get("group_proportions") == "public":
        if records.groups is None:  # classes, or nothing, are the groups
            other = other._replace(y=records.y if case.n_classes else other.y)
        else:
            other = other._replace(groups=records.groups)
    return records.replaced(i, other)


def outcome(case: Case, records: Records, sparse: bool = False) -> tuple[Any, ...]:
    """An error, if any, and the warnings of a fit but those that follow from releases."""
    X = sp.csr_matrix(records.X) if sparse else records.X
    error: tuple[Any, ...] = ()
    told: set[str] = set()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            remarks = getattr(case.fit(records._replace(X=X)).privacy_, "remarks", ())
            told = {f"{text[0].upper()}{text[1:]}." for text in remarks}
        except Exception as found:  # which one it is will be compared
            error = (type(found), str(found))
    said = [(warning.category, str(warning.message)) for warning in caught]
    return error, [each for each in said if each[1] not in told]

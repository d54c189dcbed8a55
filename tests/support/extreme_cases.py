"""Settings at the edges of what estimators accept, and neighbours at the edges of doubles."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from every_fit import kinds_of_fits
from fit_case import Case, Records, TableCase, TabularCase
from fit_cases import CASES
from sklearn.base import clone

from skdp.methods import Method

__all__ = ["extreme_records", "neighbour", "outcome", "random_case"]

#: Cases of records: each estimator with each of its methods.
_KINDS = [
    CASES[name] for name in kinds_of_fits() if not isinstance(CASES[name], TableCase | TabularCase)
]
#: Public numbers that are tried in place of those of a case.
_UNUSUAL: dict[str, tuple[Any, ...]] = {
    "epsilon": (1e-3, 1.0, 30.0, 1e3, 1e6),
    "delta": (1e-6, 0.1),
    "data_norm": (1e-3, 1e3),
    "fit_intercept": (True, False),
    "attack_radius": (0.0, 10.0),
    "alpha_bounds": ((1e-12, 2e-12), (1e-3, 1e3)),
}
#: Those of objects of methods.
_OF_METHODS: dict[str, tuple[Any, ...]] = {
    "alpha": (1e-9, 1.0, 1e6),
    "coef_norm": (1e-3, 1.0),
    "population": (True,),
    "solver": ("newton", "lbfgs"),
    "tilt": (0.1, 3.0),
    "feature_bound": (1e-3, 1e3),
    "coef_norm_l1": (1e-3, 1.0),
}
#: The beginning of warnings that follow from releases: tests/contract/test_warnings.py.
_LATE = "The noise is of the size of the margins", "The noise hides "


def random_case(rng: np.random.Generator) -> Case:
    """A case with a few records and unusual public numbers; it may be one that is refused."""
    case = _KINDS[rng.integers(len(_KINDS))]

    def some(values: dict[str, tuple[Any, ...]], known: Any) -> dict[str, Any]:
        chosen = [name for name in values if name in known and rng.random() < 0.4]
        return {name: values[name][rng.integers(len(values[name]))] for name in chosen}

    given = case.parameters | some(_UNUSUAL, case.estimator().get_params())
    if case.parameters.get("delta") == 0.0:
        given["delta"] = 0.0
    if case.n_groups:  # plans of saddle problems take long
        given["epsilon"] = min(given["epsilon"], 30.0)
    if case.draws_vertices:
        given.pop("data_norm", None)
    method = given.get("method")
    method = method if isinstance(method, Method) else case.row
    if isinstance(method, Method) and "method" in given:
        own = some(_OF_METHODS, method.get_params())
        given["method"] = clone(method).set_params(**own)
    return replace(case, parameters=given, n=int(rng.integers(2, 7)))


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
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            case.fit(records._replace(X=X))
        except Exception as found:  # which one it is will be compared
            error = (type(found), str(found))
    said = [(warning.category, str(warning.message)) for warning in caught]
    return error, [each for each in said if not each[1].startswith(_LATE)]

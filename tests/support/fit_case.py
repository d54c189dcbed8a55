"""What a case of the privacy contract is: an estimator, its parameters, the shape of its records.

Cases are small, so that a fit takes milliseconds. All public bounds are declared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator

from skdp.algorithms.statistics.quantiles import QuantilesPlan
from skdp.data import ArrayRecords
from skdp.linear_model import DPLinearClassifier, DPLinearRegressor, DPLogisticRegression, DPRidge
from skdp.methods import Bilevel, Method
from skdp.methods.choice import GROUP_METHODS, METHODS, SYNTHETIC_METHODS
from skdp.model_selection import DPLogisticRegressionCV, DPRidgeCV
from skdp.preprocessing import private_ranges
from skdp.privacy import PrivacyBudget
from skdp.privacy.events import Neighbouring
from skdp.robust import (
    DPAdversarialClassifier,
    DPAdversarialRegressor,
    DPMaxGroupLossClassifier,
    DPMaxGroupLossMLPClassifier,
    DPMaxGroupLossRegressor,
)
from skdp.synthetic import DPSyntheticData

#: The declared range of targets.
TARGETS = (-2.0, 3.0)
_LINEAR = DPLinearClassifier, DPLinearRegressor, DPLogisticRegression, DPRidge
#: The methods of each estimator that has a parameter for them, or that always takes the same one.
METHOD_TABLES: dict[type, Mapping[str, Any]] = {
    **dict.fromkeys(_LINEAR, METHODS),
    **dict.fromkeys(
        (DPMaxGroupLossClassifier, DPMaxGroupLossRegressor, DPMaxGroupLossMLPClassifier),
        GROUP_METHODS,
    ),
    **{kind: kind._methods for kind in (
        DPAdversarialClassifier, DPAdversarialRegressor, DPLogisticRegressionCV, DPRidgeCV
    )},
    DPSyntheticData: SYNTHETIC_METHODS,
}  # fmt: skip
#: An algorithm of its own, though its class has a row.
PUBLISHED = Bilevel(as_published=True)
FIXED: dict[type, str] = {DPMaxGroupLossMLPClassifier: "rgda"}


class Records(NamedTuple):
    """What a fit takes; None for what it does not."""

    X: np.ndarray
    y: np.ndarray | None = None
    groups: np.ndarray | None = None
    user_ids: np.ndarray | None = None
    sample_weight: np.ndarray | None = None

    def _map(self, function: Any, *others: Records) -> Records:
        columns = zip(self, *others, strict=True)
        return Records(*(None if column[0] is None else function(*column) for column in columns))

    def at(self, unit: int) -> np.ndarray:
        """Where the records of a unit are: of a person, if there are ids."""
        units = np.arange(len(self.X)) if self.user_ids is None else self.user_ids
        return units == unit

    def replaced(self, unit: int, other: Records) -> Records:
        """The records of a unit replaced by those of another data set."""
        first, own, foreign = int(self.at(unit).argmax()), self.at(unit), other.at(unit)

        def exchange(mine: np.ndarray, its: np.ndarray) -> np.ndarray:
            rest = mine[~own]
            return np.concatenate([rest[:first], its[foreign], rest[first:]])

        return self._map(exchange, other)

    def without(self, unit: int) -> Records:
        """All records but those of a unit."""
        kept = ~self.at(unit)
        return self._map(lambda part: part[kept])

    def turned(self) -> Records:
        """Every record one place before, the first at the end."""
        return self._map(lambda part: np.roll(part, -1, axis=0))


@dataclass(frozen=True)
class Case:
    """An estimator, its parameters and the public shape of its records."""

    name: str
    estimator: type
    #: Without labels, ranges and the seed, which :meth:`make` adds.
    parameters: dict[str, Any] = field(default_factory=dict)
    n: int = 8
    d: int = 2
    n_classes: int = 0  # 0 for a regressor
    n_groups: int = 0
    n_phases: int = 1  # of the plan, so that a case keeps its meaning
    whole_budget: bool = True  # some record's releases cost exactly the budget
    is_slow: bool = False  # the plan of the case takes seconds
    unit: str = "record"  # or "person" (there are ids), or "weight"
    place: str = "dense"  # or "sparse", or "chunks"

    @property
    def row(self) -> Any:
        """The method in the table of its estimator, an object outside of it, or None ("auto")."""
        methods = METHOD_TABLES.get(self.estimator, {})
        method = self.parameters.get("method", FIXED.get(self.estimator))
        if isinstance(method, Bilevel) and method.as_published:
            return PUBLISHED if method.inner == PUBLISHED.inner else method
        if isinstance(method, Method):
            return next((row for row in methods.values() if type(row) is type(method)), method)
        return methods.get(method)

    @property
    def relation(self) -> Neighbouring:
        """The relation of its neighbours."""
        relation = Neighbouring(self.parameters.get("neighbouring", "replace_one"))
        return relation.of_persons if self.unit == "person" else relation

    @property
    def n_units(self) -> int:
        """Number of records, or of persons."""
        return self.n // 2 if self.unit == "person" else self.n

    @property
    def draws_vertices(self) -> bool:
        """Whether the fit draws vertices in place of adding noise."""
        return getattr(self.row, "is_entrywise", False)

    def make(self, **parameters: Any) -> Any:
        """The estimator, unfitted."""
        declared: dict[str, Any] = {"random_state": 0}
        if not self.draws_vertices:
            declared["data_norm"] = 1.0
        elif self.parameters["method"] == "mirror_descent":
            parameters = {"method": type(self.row)(feature_bound=1.0), **parameters}
        if self.n_classes:
            declared["classes"] = list(range(self.n_classes))
        else:
            declared["target_range"] = TARGETS
        if self.n_groups:
            declared["group_names"] = list(range(self.n_groups))
        if self.unit == "weight":
            declared["weight_bound"] = 1.0
        return self.estimator(**{**declared, **self.parameters, **parameters})

    def arguments(self, records: Records) -> dict[str, Any]:
        """Arguments of ``fit``, in the place of the case."""
        given = {name: part for name, part in records._asdict().items() if part is not None}
        if self.place == "chunks":
            return {"X": ArrayRecords(**given, chunk_rows=4)}
        return given | ({"X": csr_array(records.X)} if self.place == "sparse" else {})

    def fit(self, records: Records, **parameters: Any) -> Any:
        """The fitted estimator."""
        return self.make(**parameters).fit(**self.arguments(records))

    def records(self, seed: int, kind: str = "plain", n: int | None = None) -> Records:
        """Records of the public shape.

        "wild": rows from 1e-3 to 1e3 times the norm bound, targets far out of their range, one
        class and one group that hold all records but one; persons with other numbers of records,
        and weights of 0 and above the bound.
        """
        rng, n = np.random.default_rng(seed), self.n if n is None else n
        is_plain = kind == "plain"
        ids = np.arange(n) // 2 if self.unit == "person" else None
        if ids is not None and not is_plain:
            ids = np.repeat(np.arange(n // 2), rng.integers(1, 5, n // 2))
            n = len(ids)
        weights = None
        if self.unit == "weight":
            weights = rng.uniform(0.1, 1.0, n) if is_plain else rng.choice([0.0, 1e3], n)
        return Records(*self._columns(rng, n, is_plain), ids, weights)

    def pair(self) -> tuple[Records, Records]:
        """Two very different data sets of one public shape."""
        plain, wild = self.records(0), self.records(1, "wild")
        if self.parameters.get("group_proportions") == "public":
            wild = wild._replace(groups=plain.groups, y=wild.y if self.n_groups else plain.y)
        return plain, wild

    def _columns(self, rng: np.random.Generator, n: int, is_plain: bool) -> tuple[Any, Any, Any]:
        """Features, targets and groups."""
        X = rng.normal(size=(n, self.d))
        if not is_plain:
            X *= 10.0 ** rng.uniform(-3, 3, size=(n, 1))
        lone = int(rng.integers(n))

        def labels(count: int) -> np.ndarray:
            if is_plain:
                return rng.permutation(np.arange(n) % count)
            return np.where(np.arange(n) == lone, count - 1, 0)

        if self.n_classes:
            y = labels(self.n_classes)
        else:
            y = rng.uniform(*TARGETS, size=n) if is_plain else 1e3 * rng.normal(size=n)
        return X, y, labels(self.n_groups) if self.n_groups else None


class Ranges(BaseEstimator):
    """What :func:`private_ranges` finds, and its plan in place of a report."""

    def __init__(self, epsilon: float = 1.0, delta: float = 1e-6, random_state: Any = None) -> None:
        self.epsilon, self.delta, self.random_state = epsilon, delta, random_state

    def fit(self, X: Any, y: Any = None, user_ids: Any = None) -> Ranges:
        numbers = {"quantiles": (0.25, 0.75), "n_candidates": 5}
        given = {} if user_ids is None else {"neighbouring": Neighbouring.REPLACE_USER}
        plan = QuantilesPlan(
            n_records=len(X if user_ids is None else set(user_ids)), n_features=X.shape[1],
            budget=PrivacyBudget(self.epsilon, self.delta), **numbers, **given,
        )  # fmt: skip
        self.ranges_ = private_ranges(
            X, (-1.0, 1.0), user_ids=user_ids, **numbers, **self.get_params()
        )
        self.privacy_ = SimpleNamespace(
            method="quantiles", epsilon=self.epsilon, delta=self.delta, plan=plan.to_dict(),
            releases=plan.releases, event=plan.event, remarks=(),
        )  # fmt: skip
        return self


@dataclass(frozen=True)
class TableCase(Case):
    """A fit of a table alone: numbers, or categories 0, 1 and 2."""

    def make(self, **parameters: Any) -> Any:
        weight = {"weight_bound": 1.0} if self.unit == "weight" else {}
        return self.estimator(**{"random_state": 0, **weight, **self.parameters, **parameters})

    def _columns(self, rng: np.random.Generator, n: int, is_plain: bool) -> tuple[Any, Any, Any]:
        shape = n, self.d
        if self.estimator is DPSyntheticData:
            X = rng.integers(0, 3, shape) if is_plain else np.zeros(shape, int)
        else:
            X = rng.uniform(-1, 1, shape) if is_plain else np.full(shape, 1e9)
        return X, None, None


class TabularCase(Case):
    """A model of a table of numbers in [-1, 1]; their products are among its features."""

    def make(self, **parameters: Any) -> Any:
        declared = {"classes": [0, 1]} if self.n_classes else {"target_range": TARGETS}
        declared |= {"weight_bound": 1.0} if self.unit == "weight" else {}
        given = {"features": "pairs", "random_state": 0, **declared, **self.parameters}
        return self.estimator(**{**given, **parameters})


def supported(row: Any, unit: str, relation: Neighbouring) -> bool:
    """Whether a row of a table of methods says that it covers a kind of fits."""
    neighbouring = relation.of_persons if unit == "person" else relation
    return neighbouring in row.relations and (unit != "weight" or row.is_weighted)

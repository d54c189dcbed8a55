"""Small configurations of every public estimator and method, for tests of the privacy contract.

A case is an estimator with its parameters and the public shape of the records that it is fitted
on. Cases are small, so that a fit takes milliseconds. All public bounds are declared.
"""

from __future__ import annotations

import functools
import importlib
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator

from skdp.algorithms.bilevel import penalty_method as bilevel
from skdp.algorithms.statistics.quantiles import QuantilesPlan
from skdp.data import ArrayRecords
from skdp.linear_model import DPLinearClassifier, DPLinearRegressor, DPLogisticRegression, DPRidge
from skdp.mechanisms import sampled_gaussian
from skdp.methods import (
    Bilevel,
    ExponentialMechanism,
    Method,
    MirrorDescent,
    OutputPerturbation,
    PhasedOutputPerturbation,
    PhasedSaddle,
    SaddleOutputPerturbation,
)
from skdp.methods.choice import GROUP_METHODS, METHODS, SYNTHETIC_METHODS
from skdp.model_selection import DPLogisticRegressionCV, DPRidgeCV
from skdp.preprocessing import DPStandardScaler, private_ranges
from skdp.privacy import PrivacyBudget
from skdp.privacy.events import RECORD_RELATIONS, Neighbouring
from skdp.robust import (
    DPAdversarialClassifier,
    DPAdversarialRegressor,
    DPMaxGroupLossClassifier,
    DPMaxGroupLossMLPClassifier,
    DPMaxGroupLossRegressor,
)
from skdp.synthetic import DPSyntheticData
from skdp.tabular import DPTabularClassifier, DPTabularRegressor, Number

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


def _tabular() -> list[Case]:
    apart = {"neighbouring": "add_remove", "n_public": 8, "features": "curves"}
    return [
        TabularCase("tabular classifier", DPTabularClassifier, {"delta": 0.01}, n_classes=2),
        TabularCase("tabular regressor", DPTabularRegressor, {"delta": 0.01, **apart}),
        TabularCase("tabular classifier, persons", DPTabularClassifier, {"delta": 0.01}, n=16,
                    n_classes=2, unit="person"),
        TabularCase("tabular regressor, weights", DPTabularRegressor, {"delta": 0.01},
                    unit="weight", place="chunks"),
        TabularCase("tabular classifier, maps", DPTabularClassifier, {"delta": 0.01, "epsilon": 1e4,
                    "features": "curves"}, n_classes=2),
        TabularCase("tabular regressor, maps, persons", DPTabularRegressor, {"delta": 0.01,
                    "epsilon": 1e4, **apart}, n=16, unit="person", place="chunks"),
        TabularCase("tabular regressor, maps, weights", DPTabularRegressor, {"delta": 0.01,
                    "epsilon": 1e4, **apart}, unit="weight"),
        TabularCase("tabular classifier, maps of labels", DPTabularClassifier, {"delta": 0.01,
                    "epsilon": 1e4, "features": "auto"}, n_classes=2),
        TabularCase("tabular classifier, maps of labels, persons", DPTabularClassifier,
                    {"delta": 0.01, "epsilon": 1e4, **apart, "features": "auto"}, n=16,
                    n_classes=2, unit="person", place="chunks"),
        TabularCase("tabular classifier, intervals", DPTabularClassifier, {"delta": 0.01,
                    "epsilon": 1e4, "features": "linear", "intervals": True}, n_classes=2),
        TabularCase("tabular regressor, limits", DPTabularRegressor, {"delta": 0.01,
                    "epsilon": 1e4, **apart, "columns": Number()}),
        TabularCase("tabular regressor, delta 0", DPTabularRegressor, {"delta": 0.0, "features":
                    "auto", "epsilon": 1e3}),
    ]  # fmt: skip


def _tables() -> list[Case]:
    categories = {"categories": [[0, 1, 2]] * 3}
    return [
        TableCase("scaler", DPStandardScaler, n=20, d=3),
        TableCase("scaler, delta 0", DPStandardScaler, {"delta": 0.0}, n=20, d=3),
        TableCase("scaler, persons", DPStandardScaler, n=20, d=3, unit="person"),
        TableCase("scaler, chunks", DPStandardScaler, n=20, d=3, place="chunks"),
        TableCase("ranges, persons", Ranges, {"delta": 0.0}, n=402, unit="person"),
        TableCase("ranges, delta 0", Ranges, {"delta": 0.0}, n=201),
        TableCase("ranges", Ranges, {"delta": 0.01}, n=201, whole_budget=False),
        TableCase("table of queries", DPSyntheticData, categories, n=200, d=3),
        TableCase("table of queries, delta 0", DPSyntheticData, categories | {"delta": 0.0},
                  n=200, d=3),
    ]  # fmt: skip


def _linear() -> list[Case]:
    """Each method: its first kind with all losses that it serves, the other kinds with some."""
    losses: dict[str, tuple[type, int, dict[str, Any]]] = {
        "logistic": (DPLogisticRegression, 2, {}),
        "multinomial": (DPLogisticRegression, 3, {}),
        "ridge": (DPRidge, 0, {}),
        "hinge": (DPLinearClassifier, 2, {"loss": "hinge"}),
        "smoothed hinge": (DPLinearClassifier, 3, {"loss": "smoothed_hinge"}),
        "huber": (DPLinearRegressor, 0, {"loss": "huber"}),
        "quantile": (DPLinearRegressor, 0, {"loss": "quantile", "quantile": 0.3}),
    }
    both = ["logistic", "ridge"]
    perturbed = ["logistic", "multinomial", "hinge", "huber", "quantile"]
    solved = [name for name, (_, n_classes, _) in losses.items() if n_classes < 3]
    deltas = (0.0, 0.01)
    no_intercept = {"fit_intercept": False}
    penalised = {"alpha": 0.3, **no_intercept}
    add_remove = {"neighbouring": "add_remove", "n_public": 8}
    little_noise = {"epsilon": 1e4, "n": 12}
    printed = {"method": "output_perturbation"}
    bounded = {"method": OutputPerturbation(alpha=0, coef_norm=2.0)}
    population = {"method": OutputPerturbation(alpha=0.1, population=True)}
    # title, values of delta, losses of the first kind and of the others, what all kinds share
    families: list[tuple[str, Any, Any, Any, dict[str, Any], dict[str, dict[str, Any]]]] = [
        ("{}, {}, delta {:g}", deltas, losses, both, {}, {
            "output": printed,
            "output, no intercept": printed | no_intercept,
            "output, alpha 0": bounded,
            "add/remove": printed | add_remove,
            "output, population": population,
        }),
        ("{}, {}, delta {:g}", deltas, perturbed, perturbed[:2], {"method": "objective"}, {
            "objective": {},
            "objective, no intercept": {"epsilon": 30.0, **no_intercept},
            "objective, add/remove": add_remove,
        }),
        ("{}, gradient, {}", [0.01], losses, both, {"method": "gradient"}, {
            "replace-one": {},
            "no intercept": no_intercept,
            "add/remove": add_remove,
            "little noise": little_noise,
            "alpha": {"alpha": 0.3},
            "alpha, little noise": little_noise | {"alpha": 0.3},
        }),
        ("{}, intervals, {}", [0.01], [*both, "multinomial"], both, {"intervals": True}, {
            "replace-one": {"epsilon": 40.0, "n": 12},
        }),
        ("{}, solved, {}", [0.01], solved, both, {"method": "output"}, {
            "replace-one": {},
            "alpha, no intercept": penalised,
            "add/remove": add_remove,
            "little noise": little_noise,
        }),
    ]  # fmt: skip
    cases = []
    for title, values, first, others, shared, kinds in families:
        for number, (kind, parameters) in enumerate(kinds.items()):
            for name, delta in itertools.product(others if number else first, values):
                estimator, n_classes, loss = losses[name]
                given = {"delta": delta, **shared, **loss, **parameters}
                n, title_of_kind = given.pop("n", 8), title.format(name, kind, delta)
                cases.append(Case(title_of_kind, estimator, given, n=n, n_classes=n_classes))
    return cases


def _descents() -> list[Case]:
    """Noisy gradient steps of persons and weights, and of groups with little noise."""
    shared = {"method": "gradient", "delta": 0.01}
    groups = shared | {"epsilon": 1e4, "group_proportions": [0.5, 0.25, 0.25]}
    return [
        Case("multinomial, gradient, persons", DPLogisticRegression, shared, n=16, n_classes=3,
             unit="person"),
        Case("ridge, gradient, persons", DPRidge, shared, n=16, unit="person"),
        Case("hinge, gradient, persons", DPLinearClassifier, shared | {"loss": "hinge"}, n=16,
             n_classes=3, unit="person"),
        Case("adversarial classifier, gradient, persons", DPAdversarialClassifier, shared, n=16,
             n_classes=3, unit="person"),
        Case("adversarial regressor, gradient, weights", DPAdversarialRegressor, shared, n=16,
             unit="weight"),
        Case("ridge, gradient, many features", DPRidge, shared | {"epsilon": 1e4}, n=20, d=100),
        Case("max-group classifier, gradient, rescaled", DPMaxGroupLossClassifier, groups,
             n=24, d=1, n_classes=2, n_groups=3, n_phases=0, whole_budget=False),
        Case("max-group classifier, gradient, three classes", DPMaxGroupLossClassifier, shared |
             {"epsilon": 1e3}, n=24, n_classes=3, n_groups=3, n_phases=0, whole_budget=False),
        Case("max-group classifier, gradient, hinges", DPMaxGroupLossClassifier, shared |
             {"epsilon": 1e3, "loss": "squared_hinge"}, n=24, n_classes=3, n_groups=3, n_phases=0,
             whole_budget=False),
    ]  # fmt: skip


def _special() -> list[Case]:
    logistic, ridge = DPLogisticRegression, DPRidge
    phased: dict[str, Any] = {"method": PhasedOutputPerturbation(coef_norm=0.01)}
    in_a_ball = {"method": ExponentialMechanism(coef_norm=1.0), "delta": 0.0}
    localised = {"method": ExponentialMechanism(alpha=2.0), "delta": 0.0, "epsilon": 200.0}
    tilted = OutputPerturbation(tilt=0.3, coef_norm=1.0)
    published = partial(OutputPerturbation, calibration="paper")
    of_phases = {"method": PhasedOutputPerturbation(calibration="paper"), "delta": 0.01}
    adversarial = [
        ("classifier", DPAdversarialClassifier, 2),
        ("regressor", DPAdversarialRegressor, 0),
    ]
    cases = [
        Case("ridge, tilt", ridge, {"method": tilted, "epsilon": 2.0, "delta": 0.01}),
        Case("logistic, tilt", logistic, {"method": tilted, "delta": 0}, n_classes=2),
        Case("hinge, tilt", DPLinearClassifier,
             {"method": OutputPerturbation(tilt=0.3), "loss": "hinge"}, n_classes=2),
        Case("logistic, paper", logistic, {"method": published(coef_norm=3.0), "delta": 0.01},
             n_classes=2, whole_budget=False),
        Case("ridge, paper", ridge, {"method": published(alpha=0.5), "delta": 0.01},
             whole_budget=False),
        Case("ridge, one phase", ridge, {"method": "phased", "delta": 0.01}),
        Case("logistic, one phase", logistic, {"method": PhasedOutputPerturbation(), "delta": 0.01},
             n_classes=2),
        Case("ridge, three phases", ridge, {**phased, "epsilon": 1000.0, "delta": 0.0}, n_phases=3),
        Case("ridge, two phases", ridge, {**phased, "epsilon": 3000.0, "delta": 0.01}, n=40,
             n_phases=2),
        Case("logistic, three phases", logistic, {**phased, "epsilon": 1000.0, "delta": 0.0},
             n_classes=2, n_phases=3),
        Case("ridge, phases, paper", ridge, {**of_phases, "epsilon": 0.5}, n_phases=3,
             whole_budget=False),
        Case("logistic, phases, paper", logistic, {**of_phases, "epsilon": 0.5}, n_classes=2,
             n_phases=3, whole_budget=False),
        Case("logistic, exponential", logistic, in_a_ball, n_classes=2),
        Case("ridge, exponential", ridge, in_a_ball),
        Case("logistic, localised exponential", logistic, localised | {"fit_intercept": False},
             n_classes=2),
        Case("ridge, localised exponential", ridge, localised),
    ]  # fmt: skip
    for task, estimator, n_classes in adversarial:
        for delta in (0.0, 0.01):
            for norm in (2, np.inf):
                for relation in ("replace_one", "add_remove")[: 2 if norm == 2 else 1]:
                    parameters: dict[str, Any] = {"delta": delta, "attack_norm": norm}
                    parameters["method"] = "output"
                    if relation == "add_remove":
                        parameters |= {"neighbouring": relation, "n_public": 8}
                    title = f"adversarial {task}, {norm:g}, delta {delta:g}, {relation}"
                    cases.append(Case(title, estimator, parameters, n_classes=n_classes))
        for norm in (1, np.inf):
            title = f"adversarial {task}, gradient, {norm:g}"
            parameters = {"attack_norm": norm, "method": "gradient"}
            cases.append(Case(title, estimator, parameters, n_classes=n_classes))
    title = "adversarial classifier, gradient, three classes"
    given = {"attack_norm": 2, "neighbouring": "add_remove", "n_public": 8, "method": "gradient"}
    cases.append(Case(title, DPAdversarialClassifier, given, n_classes=3))
    return cases


def _blocks() -> list[Case]:
    """Penalties of blocks, at budgets at which they are tuned."""
    blocks = {"penalty_groups": 2 * [0] + 10 * [1], "delta": 0.06, "epsilon": 30.0}
    add_remove = {"neighbouring": "add_remove", "n_public": 16, "epsilon": 10.0}
    return [
        Case(f"blocks, {name}", estimator, blocks | given, n=16, d=12, n_classes=n_classes,
             unit=unit, n_phases=0, whole_budget=False)
        for name, estimator, n_classes, unit, given in (
            ("ridge", DPRidgeCV, 0, "record", {}),
            ("logistic", DPLogisticRegressionCV, 2, "record", {}),
            ("ridge, add/remove", DPRidgeCV, 0, "record", add_remove | {"fit_intercept": False}),
            ("logistic, persons", DPLogisticRegressionCV, 2, "person", {"epsilon": 90.0}),
            ("ridge, weights", DPRidgeCV, 0, "weight", {}),
        )
    ]  # fmt: skip


def _grouped() -> list[Case]:
    cases = []
    modes: list[tuple[str, Any, int]] = [
        ("proportions", [0.5, 0.25, 0.25], 3),
        ("public", "public", 3),
        ("histogram", "private", 3),
        ("one group", "private", 0),
    ]
    tasks = [("classifier", DPMaxGroupLossClassifier, 2), ("regressor", DPMaxGroupLossRegressor, 0)]
    for task, estimator, n_classes in tasks:
        for mode, proportions, n_groups in modes:
            for delta in (0.0, 0.01):
                for weights in (False, True):
                    if weights and (mode == "one group" or delta == 0):
                        continue
                    kind = SaddleOutputPerturbation if mode == "one group" else PhasedSaddle
                    others = {
                        "delta": delta,
                        # budgets at which the planner takes several phases, where there are any
                        "epsilon": 3.0 if mode == "histogram" else 0.3,
                        "method": kind(release_group_weights=weights, max_group_weight=2.0),
                        "group_proportions": proportions,
                    }
                    title = f"max-group {task}, {mode}, delta {delta:g}"
                    # n_phases: of the planner's choice
                    cases.append(Case(
                        title + ", weights" * weights, estimator, others,
                        n=12, n_classes=n_classes, n_groups=n_groups, n_phases=0,
                    ))  # fmt: skip
        for mode, proportions, n_groups in modes[:3]:
            weights = mode == "public" or (mode == "histogram" and n_classes > 0)
            method = PhasedSaddle(release_group_weights=weights)
            cases.append(Case(
                f"max-group {task}, {mode}, look" + ", weights" * weights, estimator,
                {"method": method, "group_proportions": proportions, "delta": 0.01,
                 "epsilon": 100.0},
                n=24, n_classes=n_classes, n_groups=n_groups, n_phases=0, whole_budget=False,
            ))  # fmt: skip
        for method, kind, parameters, n_groups in (
            ("output", "proportions", {"group_proportions": [0.5, 0.25, 0.25]}, 3),
            ("output", "histogram", {"epsilon": 1e4}, 3),
            ("output", "add/remove", {"neighbouring": "add_remove", "n_public": 12}, 3),
            ("output", "one group", {"alpha": 0.01}, 0),
            ("gradient", "proportions", {"group_proportions": [0.5, 0.25, 0.25]}, 3),
            ("gradient", "histogram", {}, 3),
            ("gradient", "add/remove", {"neighbouring": "add_remove", "n_public": 12}, 3),
            ("gradient", "public", {"group_proportions": "public", "fit_intercept": False}, 3),
            ("gradient", "much noise", {"epsilon": 0.3}, 3),
        ):
            parameters = {"delta": 0.01, "epsilon": 200.0, "method": method, **parameters}
            title = f"max-group {task}, {method}, {kind}"
            cases.append(
                Case(
                    title, estimator, parameters, n=12, n_classes=n_classes, n_groups=n_groups,
                    whole_budget=False,
                )
            )  # fmt: skip
        for mode, proportions, n_groups in modes[:2]:
            method = PhasedSaddle(calibration="paper")
            cases.append(
                Case(
                    f"max-group {task}, {mode}, paper", estimator,
                    {"method": method, "group_proportions": proportions, "delta": 0.01}, n=12,
                    n_classes=n_classes, n_groups=n_groups, n_phases=4, whole_budget=False,
                )
            )  # fmt: skip
    return cases


def _recursive() -> list[Case]:
    """DP-RGDA: linear models, and a network."""
    shared = {"delta": 0.01, "epsilon": 200.0}
    linear, network = {"method": "rgda"}, {"hidden_units": 2, "n_steps": 3}
    proportions = {"group_proportions": [0.5, 0.25, 0.25]}
    rows: list[tuple[str, type, int, int, dict[str, Any]]] = [
        ("classifier, proportions", DPMaxGroupLossClassifier, 2, 3, linear | proportions),
        ("classifier, three classes", DPMaxGroupLossClassifier, 3, 3, linear),
        ("regressor", DPMaxGroupLossRegressor, 0, 3, linear),
        ("regressor, huber", DPMaxGroupLossRegressor, 0, 0, linear | {"loss": "huber"}),
        ("network, proportions", DPMaxGroupLossMLPClassifier, 2, 3, network | proportions),
        ("network", DPMaxGroupLossMLPClassifier, 3, 3, network),
        (
            "network, public",
            DPMaxGroupLossMLPClassifier,
            2,
            3,
            network | {"group_proportions": "public"},
        ),
        ("network, much noise", DPMaxGroupLossMLPClassifier, 2, 0, network | {"epsilon": 0.3}),
    ]
    return [
        Case(f"rgda, {name}", estimator, {**shared, **parameters}, n=12, n_classes=n_classes,
             n_groups=n_groups, whole_budget=False)
        for name, estimator, n_classes, n_groups, parameters in rows
    ]  # fmt: skip


def _vertices() -> list[Case]:
    """Mirror descent, with budgets at which there are several rounds."""
    shared = {"method": "mirror_descent", "delta": 0.01, "epsilon": 200.0}
    proportions = {"group_proportions": [0.5, 0.25, 0.25]}
    public = {"group_proportions": "public"}
    rows: list[tuple[str, type, int, int, dict[str, Any]]] = [
        ("logistic", DPLogisticRegression, 2, 0, {}),
        ("logistic, delta 0", DPLogisticRegression, 2, 0, {"delta": 0.0, "epsilon": 2000.0}),
        ("three classes", DPLogisticRegression, 3, 0, {}),
        ("add/remove", DPLogisticRegression, 2, 0, {"neighbouring": "add_remove", "n_public": 12}),
        ("ridge", DPRidge, 0, 0, {"method": MirrorDescent(feature_bound=1.0, alpha=0.1)}),
        ("huber", DPLinearRegressor, 0, 0, {"loss": "huber", "fit_intercept": False}),
        ("max-group classifier", DPMaxGroupLossClassifier, 2, 3, proportions),
        ("max-group classifier, delta 0", DPMaxGroupLossClassifier, 2, 3, {"delta": 0.0}),
        ("max-group classifier, public", DPMaxGroupLossClassifier, 2, 3, public),
        ("max-group classifier, histogram", DPMaxGroupLossClassifier, 2, 3, {}),
        ("max-group classifier, three classes", DPMaxGroupLossClassifier, 3, 3, proportions),
        ("max-group classifier, histogram, add/remove", DPMaxGroupLossClassifier, 2, 3,
         {"neighbouring": "add_remove", "n_public": 12}),
        ("max-group regressor, proportions", DPMaxGroupLossRegressor, 0, 3, proportions),
        ("max-group regressor, one group", DPMaxGroupLossRegressor, 0, 0, {}),
    ]  # fmt: skip
    return [
        Case(f"vertices, {name}", estimator, shared | parameters, n=12, n_classes=n_classes,
             n_groups=n_groups, whole_budget=False)
        for name, estimator, n_classes, n_groups, parameters in rows
    ]  # fmt: skip


def _tuned() -> list[Case]:
    cases = []
    for name, estimator, n_classes in (
        ("ridge", DPRidgeCV, 0),
        ("logistic", DPLogisticRegressionCV, 2),
    ):
        for variant, parameters in {
            "": {},
            ", groups": {"penalty_groups": [0, 1]},
            ", add/remove": {"neighbouring": "add_remove", "n_public": 8},
            ", no intercept": {"fit_intercept": False, "alpha_bounds": (0.01, 1.0)},
            ", little noise": {"epsilon": 1e4},
        }.items():
            title = f"tuned {name}, gradient{variant}, delta 0.01"
            parameters = {"method": "gradient", "delta": 0.01, **parameters}
            cases.append(Case(title, estimator, parameters, n_classes=n_classes))
        title = f"tuned {name}, auto, delta 0"
        cases.append(Case(title, estimator, {"delta": 0.0}, n_classes=n_classes))
        cases += _published(name, estimator, n_classes)
    return cases


def _published(name: str, estimator: type, n_classes: int) -> Iterator[Case]:
    """Bilevel tuning as published."""
    for variant, own, parameters in (
        ("", {}, {}),
        (", groups", {}, {"penalty_groups": [0, 1]}),
        (", no intercept", {}, {"fit_intercept": False}),
        (", noisy steps", {"inner": "localized_gd"}, {}),
        (", minibatch", {"inner": "localized_sgd"}, {}),
    ):
        sampled, method = variant == ", minibatch", Bilevel(as_published=True, **own)
        if n_classes and variant not in ("", ", noisy steps"):
            continue
        yield Case(
            f"tuned {name}, published{variant}, delta 0.01", estimator,
            {"method": method, "delta": 0.01, **parameters}, n_classes=n_classes,
            whole_budget=not sampled, is_slow=sampled,
        )  # fmt: skip
    for unit, delta in (("person", 0.06), ("weight", 0.01)):
        given = {"method": Bilevel(as_published=True), "delta": delta, "epsilon": 20.0}
        yield Case(
            f"tuned {name}, published, {unit}", estimator, given, n=16, n_classes=n_classes,
            unit=unit, whole_budget=False, n_phases=0,
        )  # fmt: skip


def supported(row: Any, unit: str, relation: Neighbouring) -> bool:
    """Whether a row of a table of methods says that it covers a kind of fits."""
    neighbouring = relation.of_persons if unit == "person" else relation
    return neighbouring in row.relations and (unit != "weight" or row.is_weighted)


def _kinds(row: Any, is_table: bool) -> Iterator[tuple[str, str, str]]:
    """What a row is fitted with: each unit with each relation that it covers, in each place."""
    places = [place for place in ("dense", "sparse", "chunks") if place != "chunks" or row.chunked]
    for unit in ("record", "person", "weight"):
        relations = [each for each in RECORD_RELATIONS if supported(row, unit, each)]
        has_sparse = unit == "record" and not is_table
        of_unit = [place for place in places if place != "sparse" or has_sparse]
        for k in range(max(len(relations), len(of_unit)) if relations else 0):
            yield unit, relations[k % len(relations)].value, of_unit[k % len(of_unit)]


#: Estimators that have all rows of a table between them, with what their cases need.
ROWS: dict[type, dict[str, Any]] = {
    DPLogisticRegression: {"n_classes": 2},
    DPMaxGroupLossClassifier: {"n_classes": 2, "n_groups": 2},
    DPLogisticRegressionCV: {"n_classes": 2},
    DPRidgeCV: {},
    DPSyntheticData: {"n": 40, "d": 3},
}


def _rows() -> Iterator[Case]:
    """Each row of each table of methods, with all that it says it covers."""
    for estimator, shape in ROWS.items():
        for name, row in METHOD_TABLES[estimator].items():
            is_table = estimator is DPSyntheticData
            for unit, relation, place in _kinds(row, is_table):
                given = {"n": 16, **shape}
                # below 1 / n of 8 persons, and above it if all their wild records are counted
                delta = 0.06 if unit == "person" else 0.01
                parameters: dict[str, Any] = {"method": name, "delta": delta, "epsilon": 20.0}
                if relation == "add_remove":
                    parameters |= {"neighbouring": relation, "n_public": given["n"]}
                if getattr(row, "is_pure", False):
                    method = ExponentialMechanism(coef_norm=1.0)
                    parameters |= {"delta": 0.0, "epsilon": 1.0, "method": method}
                if is_table:
                    parameters["categories"] = [[0, 1, 2]] * 3
                title = f"row {estimator.__name__}, {name}, {unit}, {relation}, {place}"
                yield (TableCase if is_table else Case)(
                    title, estimator, parameters, **given, unit=unit, place=place,
                    whole_budget=False, n_phases=0,
                )  # fmt: skip


#: All of them, by name.
CASES: dict[str, Case] = {
    case.name: case
    for case in (
        *_linear(), *_special(), *_blocks(), *_grouped(), *_descents(), *_recursive(), *_vertices(),
        *_tuned(), *_tables(), *_tabular(), *_rows(),
    )
}  # fmt: skip


@pytest.fixture(scope="session")
def remembered_calibrations() -> Any:
    """Noise of sampled releases is calibrated once: a calibration takes seconds."""
    with pytest.MonkeyPatch.context() as patch:
        remember_calibrations(patch)
        yield


def remember_calibrations(patch: pytest.MonkeyPatch) -> None:
    """Remember what calibrations of sampled releases found, by the event that they are for."""
    scales: dict[Any, float] = {}
    smallest = sampled_gaussian.smallest_scale

    def smallest_scale(event: Any, budget: Any, *args: Any) -> float:
        key = event(1.0), event(0.5), budget, args
        if key not in scales:
            scales[key] = smallest(event, budget, *args)
        return scales[key]

    patch.setattr(bilevel, "smallest_scale", smallest_scale)
    patch.setattr(bilevel, "tightest_epsilon", functools.cache(bilevel.tightest_epsilon))


def remember_schedules(patch: pytest.MonkeyPatch) -> None:
    """Remember schedules of phases by all that they follow from: public numbers alone."""
    module = importlib.import_module("skdp.algorithms.output.phased_saddle")
    search = module._ScheduleSearch
    patch.setattr(search, "best", functools.cache(search.best))


@pytest.fixture(scope="module", autouse=True)
def remembered_schedules() -> Any:
    """Schedules of phases are searched once in a module, for a folder whose conftest imports it."""
    with pytest.MonkeyPatch.context() as patch:
        remember_schedules(patch)
        yield

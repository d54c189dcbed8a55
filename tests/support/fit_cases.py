"""Small configurations of every public estimator and method, for tests of the privacy contract.

A case is an estimator with its parameters and the public shape of the records that it is fitted
on. Cases are small, so that a fit takes milliseconds. All public bounds are declared.
"""

from __future__ import annotations

import functools
import importlib
import itertools
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from skdp.algorithms.bilevel import penalty_method as bilevel
from skdp.algorithms.statistics.quantiles import QuantilesPlan
from skdp.linear_model import DPLinearClassifier, DPLinearRegressor, DPLogisticRegression, DPRidge
from skdp.mechanisms import sampled_gaussian
from skdp.model_selection import DPLogisticRegressionCV, DPRidgeCV
from skdp.preprocessing import DPStandardScaler, private_ranges
from skdp.privacy import PrivacyBudget
from skdp.robust import (
    DPAdversarialClassifier,
    DPAdversarialRegressor,
    DPMaxGroupLossClassifier,
    DPMaxGroupLossMLPClassifier,
    DPMaxGroupLossRegressor,
)
from skdp.synthetic import DPSyntheticData
from skdp.tabular import DPTabularClassifier, DPTabularRegressor

#: The declared range of targets.
TARGETS = (-2.0, 3.0)


class Records(NamedTuple):
    """Features, targets and groups; targets and groups are None where an estimator takes none."""

    X: np.ndarray
    y: np.ndarray | None
    groups: np.ndarray | None

    def replaced(self, i: int, other: Records, j: int) -> Records:
        """Record i replaced by record j of another data set."""
        parts = []
        for mine, foreign in zip(self, other, strict=True):
            if mine is not None:
                mine = mine.copy()
                mine[i] = foreign[j]
            parts.append(mine)
        return Records(*parts)

    def turned(self) -> Records:
        """Every record one place before, the first at the end."""
        return Records(*(None if part is None else np.roll(part, -1, axis=0) for part in self))

    def without(self, i: int) -> Records:
        """All records but the i-th."""
        return Records(*(None if part is None else np.delete(part, i, axis=0) for part in self))


@dataclass(frozen=True)
class Case:
    """An estimator, its parameters and the public shape of its records.

    Attributes
    ----------
    name : str
    estimator : type
    parameters : dict
        Without labels, ranges and the seed, which :meth:`make` adds.
    n, d : int
        Records and features.
    n_classes : int
        0 for a regressor.
    n_groups : int
        0 where no groups are given.
    n_phases : int
        Number of phases that the plan must have, so that a case keeps its meaning.
    whole_budget : bool
        Whether some record's releases cost exactly the budget.
    is_slow : bool
        Whether the plan of the case takes seconds.
    """

    name: str
    estimator: type
    parameters: dict[str, Any] = field(default_factory=dict)
    n: int = 8
    d: int = 2
    n_classes: int = 0
    n_groups: int = 0
    n_phases: int = 1
    whole_budget: bool = True
    is_slow: bool = False

    @property
    def draws_vertices(self) -> bool:
        """Whether the fit draws vertices in place of adding noise."""
        return self.parameters.get("method") == "mirror_descent"

    def make(self, **parameters: Any) -> Any:
        """The estimator, unfitted."""
        bound = "feature_bound" if self.draws_vertices else "data_norm"
        declared: dict[str, Any] = {bound: 1.0, "random_state": 0}
        if self.n_classes:
            declared["classes"] = list(range(self.n_classes))
        else:
            declared["target_range"] = TARGETS
        if self.n_groups:
            declared["group_names"] = list(range(self.n_groups))
        return self.estimator(**{**declared, **self.parameters, **parameters})

    def fit(self, records: Records, **parameters: Any) -> Any:
        """The fitted estimator."""
        groups = {} if records.groups is None else {"groups": records.groups}
        return self.make(**parameters).fit(records.X, records.y, **groups)

    def records(self, seed: int, kind: str = "plain", n: int | None = None) -> Records:
        """Records of the public shape.

        Parameters
        ----------
        seed : int
        kind : {"plain", "wild"}
            "wild": rows from 1e-3 to 1e3 times the norm bound, targets far out of their range, one
            class and one group that hold all records but one.
        n : int, optional
        """
        rng, n = np.random.default_rng(seed), self.n if n is None else n
        X = rng.normal(size=(n, self.d))
        if kind == "wild":
            X *= 10.0 ** rng.uniform(-3, 3, size=(n, 1))
        lone = int(rng.integers(n))

        def labels(count: int) -> np.ndarray:
            if kind == "plain":
                return rng.permutation(np.arange(n) % count)
            return np.where(np.arange(n) == lone, count - 1, 0)

        if self.n_classes:
            y = labels(self.n_classes)
        else:
            y = rng.uniform(*TARGETS, size=n) if kind == "plain" else 1e3 * rng.normal(size=n)
        return Records(X, y, labels(self.n_groups) if self.n_groups else None)


class Ranges(BaseEstimator):
    """What :func:`private_ranges` finds, and its plan in place of a report."""

    def __init__(self, epsilon: float = 1.0, delta: float = 1e-6, random_state: Any = None) -> None:
        self.epsilon, self.delta, self.random_state = epsilon, delta, random_state

    def fit(self, X: Any, y: Any = None) -> Ranges:
        numbers = {"quantiles": (0.25, 0.75), "n_candidates": 5}
        plan = QuantilesPlan(
            n_records=len(X), n_features=X.shape[1], **numbers,
            budget=PrivacyBudget(self.epsilon, self.delta),
        )  # fmt: skip
        self.ranges_ = private_ranges(X, (-1.0, 1.0), **numbers, **self.get_params())
        self.privacy_ = SimpleNamespace(
            method="quantiles", epsilon=self.epsilon, delta=self.delta, plan=plan.to_dict(),
            releases=plan.releases, event=plan.event,
        )  # fmt: skip
        return self


@dataclass(frozen=True)
class TableCase(Case):
    """A fit of a table alone: numbers, or categories 0, 1 and 2."""

    def make(self, **parameters: Any) -> Any:
        return self.estimator(**{"random_state": 0, **self.parameters, **parameters})

    def fit(self, records: Records, **parameters: Any) -> Any:
        return self.make(**parameters).fit(records.X)

    def records(self, seed: int, kind: str = "plain", n: int | None = None) -> Records:
        rng, shape = np.random.default_rng(seed), (self.n if n is None else n, self.d)
        is_plain = kind == "plain"
        if self.estimator is DPSyntheticData:
            return Records(
                rng.integers(0, 3, shape) if is_plain else np.zeros(shape, int), None, None
            )
        return Records(rng.uniform(-1, 1, shape) if is_plain else np.full(shape, 1e9), None, None)


class TabularCase(Case):
    """A model of a table of numbers in [-1, 1]; their products are among its features."""

    def make(self, **parameters: Any) -> Any:
        declared = {"classes": [0, 1]} if self.n_classes else {"target_range": TARGETS}
        given = {"features": "pairs", "random_state": 0, **declared, **self.parameters}
        return self.estimator(**{**given, **parameters})


def _tabular() -> list[Case]:
    apart = {"neighbouring": "add_remove", "n_public": 8, "features": "curves"}
    return [
        TabularCase("tabular classifier", DPTabularClassifier, {"delta": 0.01}, n_classes=2),
        TabularCase("tabular regressor", DPTabularRegressor, {"delta": 0.01, **apart}),
        TabularCase("tabular regressor, delta 0", DPTabularRegressor, {"delta": 0.0, "features":
                    "auto", "epsilon": 1e3}),
    ]  # fmt: skip


def _tables() -> list[Case]:
    categories = {"categories": [[0, 1, 2]] * 3}
    return [
        TableCase("scaler", DPStandardScaler, n=20, d=3),
        TableCase("scaler, delta 0", DPStandardScaler, {"delta": 0.0}, n=20, d=3),
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
    core = ["logistic", "multinomial", "ridge"]
    perturbed = ["logistic", "multinomial", "hinge", "huber", "quantile"]
    prepared = [name for name, (_, n_classes, _) in losses.items() if n_classes < 3]
    deltas = (0.0, 0.01)
    no_intercept = {"fit_intercept": False}
    penalised = {"alpha": 0.3, **no_intercept}
    add_remove = {"neighbouring": "add_remove", "n_public": 8}
    little_noise = {"epsilon": 1e4, "n": 12}
    printed = {"method": "output", "preparation": None}
    # title, values of delta, losses of the first kind and of the others, what all kinds share
    families: list[tuple[str, Any, Any, Any, dict[str, Any], dict[str, dict[str, Any]]]] = [
        ("{}, {}, delta {:g}", deltas, losses, ["multinomial", *both], {}, {
            "output": printed,
            "output, no intercept": printed | no_intercept,
            "output, alpha 0": printed | {"alpha": 0, "coef_norm": 2.0},
            "add/remove": printed | add_remove,
            "auto, population": {"objective": "population", "alpha": 0.1},
        }),
        ("{}, {}, delta {:g}", deltas, perturbed, perturbed[:2], {"method": "objective"}, {
            "objective": {},
            "objective, no intercept": {"epsilon": 30.0, **no_intercept},
            "objective, add/remove": add_remove,
        }),
        ("{}, gradient, {}", [0.01], losses, losses, {"method": "gradient"}, {
            "replace-one": {},
            "no intercept": no_intercept,
            "add/remove": add_remove,
            "little noise": little_noise,
            "alpha": {"alpha": 0.3},
        }),
        ("{}, core, {}", [0.01], core, core, {"method": "core"}, {
            "replace-one": {},
            "no intercept": no_intercept,
            "add/remove": add_remove,
            "little noise": little_noise,
            "alpha": {"alpha": 0.3},
        }),
        ("{}, prepared, {}", [0.01], prepared, both, {"method": "output"}, {
            "replace-one": {},
            "alpha, no intercept": penalised,
            "add/remove": add_remove,
            "little noise": little_noise | {"coef_norm": 1.0},
        }),
        ("{}, statistics, {}, delta {:g}", deltas, both, both, {"method": "statistics"}, {
            "replace-one": {}, "alpha": penalised, "add/remove": add_remove | {"n_public": 6},
        }),
        ("{}, statistics, {}, delta {:g}", [0.01], both, both, {"method": "statistics"}, {
            "little noise": add_remove | {"epsilon": 1e5},
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


class PairedClassifier(DPLogisticRegression):
    """Every two records are of one person."""

    def fit(self, X: Any, y: Any) -> Any:
        """As of its base, with ids."""
        return super().fit(X, y, user_ids=np.arange(len(X)) // 2)


class PairedRegressor(DPRidge):
    """Every two records are of one person."""

    def fit(self, X: Any, y: Any) -> Any:
        """As of its base, with ids."""
        return super().fit(X, y, user_ids=np.arange(len(X)) // 2)


def _descents() -> list[Case]:
    """Noisy gradient descent on ways that small records and budgets do not take."""
    shared, core = ({"method": name, "delta": 0.01} for name in ("gradient", "core"))
    groups = shared | {"epsilon": 1e4, "group_proportions": [0.5, 0.25, 0.25]}
    return [
        Case("logistic, gradient, persons", PairedClassifier, shared | {"epsilon": 50.0},
             n=16, n_classes=2),
        Case("multinomial, gradient, persons", PairedClassifier, shared, n=16, n_classes=3),
        Case("ridge, gradient, persons", PairedRegressor, shared, n=16),
        Case("multinomial, core, persons", PairedClassifier, core, n=16, n_classes=3),
        Case("ridge, core, persons", PairedRegressor, core, n=16),
        Case("ridge, gradient, accelerated", DPRidge, shared | {"epsilon": 1e4}, n=20, d=100),
        Case("max-group classifier, gradient, rescaled", DPMaxGroupLossClassifier, groups,
             n=24, d=1, n_classes=2, n_groups=3, n_phases=0, whole_budget=False),
    ]  # fmt: skip


def _special() -> list[Case]:
    logistic, ridge = DPLogisticRegression, DPRidge
    phased: dict[str, Any] = {"method": "phased"}
    exponential: dict[str, Any] = {"method": "exponential", "delta": 0.0}
    paper = {"calibration": "paper", "delta": 0.01}
    adversarial = [
        ("classifier", DPAdversarialClassifier, 2),
        ("regressor", DPAdversarialRegressor, 0),
    ]
    cases = [
        Case("ridge, tilt", ridge, {"tilt": 0.3, "epsilon": 2.0, "coef_norm": 1.0, "delta": 0.01}),
        Case("logistic, tilt", logistic, {"tilt": 0.3, "coef_norm": 1.0, "delta": 0}, n_classes=2),
        Case("hinge, tilt", DPLinearClassifier, {"tilt": 0.3, "loss": "hinge"}, n_classes=2),
        Case("logistic, paper", logistic, {**paper, "coef_norm": 3.0}, n_classes=2,
             whole_budget=False),
        Case("ridge, paper", ridge, {**paper, "alpha": 0.5}, whole_budget=False),
        Case("ridge, one phase", ridge, {**phased, "delta": 0.01}),
        Case("ridge, three phases", ridge,
             {**phased, "epsilon": 1000.0, "delta": 0.0, "coef_norm": 0.01}, n_phases=3),
        Case("ridge, two phases", ridge,
             {**phased, "epsilon": 3000.0, "delta": 0.01, "coef_norm": 0.01}, n=40, n_phases=2),
        Case("logistic, three phases", logistic,
             {**phased, "epsilon": 1000.0, "delta": 0.0, "coef_norm": 0.01}, n_classes=2,
             n_phases=3),
        Case("ridge, phases, paper", ridge, {**phased, **paper, "epsilon": 0.5}, n_phases=3,
             whole_budget=False),
        Case("logistic, phases, paper", logistic, {**phased, **paper, "epsilon": 0.5}, n_classes=2,
             n_phases=3, whole_budget=False),
        Case("logistic, exponential", logistic, {**exponential, "coef_norm": 1.0}, n_classes=2),
        Case("ridge, exponential", ridge, {**exponential, "coef_norm": 1.0}),
        Case("logistic, localised exponential", logistic,
             {**exponential, "epsilon": 200.0, "alpha": 2.0, "fit_intercept": False}, n_classes=2),
        Case("ridge, localised exponential", ridge,
             {**exponential, "epsilon": 200.0, "alpha": 2.0}),
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
            title, parameters = f"adversarial {task}, gradient, {norm:g}", {"attack_norm": norm}
            cases.append(Case(title, estimator, parameters, n_classes=n_classes))
    classes = {"attack_norm": 2, "neighbouring": "add_remove", "n_public": 8}
    title = "adversarial classifier, gradient, three classes"
    cases.append(Case(title, DPAdversarialClassifier, classes, n_classes=3))
    return cases


def _grouped() -> list[Case]:
    cases = []
    modes: list[tuple[str, dict[str, Any], int]] = [
        ("proportions", {"group_proportions": [0.5, 0.25, 0.25]}, 3),
        ("public", {"group_mode": "public"}, 3),
        ("histogram", {"group_mode": "histogram"}, 3),
        ("floored", {"group_mode": "floored"}, 3),
        ("one group", {"group_proportions": None}, 0),
    ]
    tasks = [("classifier", DPMaxGroupLossClassifier, 2), ("regressor", DPMaxGroupLossRegressor, 0)]
    for task, estimator, n_classes in tasks:
        for mode, parameters, n_groups in modes:
            for delta in (0.0, 0.01):
                for weights in (False, True):
                    if mode == "one group" and weights:
                        continue
                    # budgets at which the planner takes several phases, where there are any
                    epsilon = 3.0 if mode == "histogram" else 0.3
                    others = {
                        "delta": delta,
                        "epsilon": epsilon,
                        "release_group_weights": weights,
                        "method": "output" if mode == "one group" else "phased",
                        "preparation": None,
                    }
                    title = f"max-group {task}, {mode}, delta {delta:g}"
                    # n_phases: of the planner's choice
                    cases.append(Case(
                        title + ", weights" * weights, estimator, {**parameters, **others},
                        n=12, n_classes=n_classes, n_groups=n_groups, n_phases=0,
                    ))  # fmt: skip
        for method, kind, parameters, n_groups in (
            ("output", "proportions", {"group_proportions": [0.5, 0.25, 0.25]}, 3),
            ("output", "histogram", {"epsilon": 1e4}, 3),
            ("output", "add/remove", {"neighbouring": "add_remove", "n_public": 12}, 3),
            ("output", "one group", {"alpha": 0.01}, 0),
            ("gradient", "proportions", {"group_proportions": [0.5, 0.25, 0.25]}, 3),
            ("gradient", "histogram", {}, 3),
            ("gradient", "add/remove", {"neighbouring": "add_remove", "n_public": 12}, 3),
            ("gradient", "public", {"group_mode": "public", "fit_intercept": False}, 3),
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
        for mode, parameters, n_groups in modes[:2] + modes[3:4]:
            cases.append(
                Case(
                    f"max-group {task}, {mode}, paper", estimator,
                    {**parameters, "calibration": "paper", "delta": 0.01}, n=12,
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
        ("network, public", DPMaxGroupLossMLPClassifier, 2, 3, network | {"group_mode": "public"}),
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
    rows: list[tuple[str, type, int, int, dict[str, Any]]] = [
        ("logistic", DPLogisticRegression, 2, 0, {}),
        ("logistic, delta 0", DPLogisticRegression, 2, 0, {"delta": 0.0, "epsilon": 2000.0}),
        ("three classes", DPLogisticRegression, 3, 0, {}),
        ("add/remove", DPLogisticRegression, 2, 0, {"neighbouring": "add_remove", "n_public": 12}),
        ("ridge", DPRidge, 0, 0, {"alpha": 0.1}),
        ("huber", DPLinearRegressor, 0, 0, {"loss": "huber", "fit_intercept": False}),
        ("max-group classifier", DPMaxGroupLossClassifier, 2, 3, proportions),
        ("max-group classifier, delta 0", DPMaxGroupLossClassifier, 2, 3, {"delta": 0.0}),
        ("max-group classifier, public", DPMaxGroupLossClassifier, 2, 3, {"group_mode": "public"}),
        ("max-group classifier, histogram", DPMaxGroupLossClassifier, 2, 3,
         {"group_mode": "histogram"}),
        ("max-group classifier, three classes", DPMaxGroupLossClassifier, 3, 3, proportions),
        ("max-group classifier, histogram, add/remove", DPMaxGroupLossClassifier, 2, 3,
         {"group_mode": "histogram", "neighbouring": "add_remove", "n_public": 12}),
        ("max-group regressor, weights", DPMaxGroupLossRegressor, 0, 3,
         proportions | {"release_group_weights": True}),
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
        for method in estimator._methods:
            sampled = method == "bilevel_minibatch"
            for delta in (0.0, 0.01):
                if delta == 0 and (method.startswith("bilevel") or method == "rounds"):
                    continue
                variants: dict[str, dict[str, Any]] = {"": {}}
                if delta > 0 and not sampled:
                    variants[", groups"] = {"penalty_groups": [0, 1]}
                if delta == 0 or method == "bilevel":
                    variants[", no intercept"] = {"fit_intercept": False}
                if method == "bilevel":
                    variants[", noisy steps"] = {"inner": "localized_gd"}
                if method == "rounds":
                    nominal = {"neighbouring": "add_remove", "n_public": 8}
                    variants[", add/remove"] = nominal
                    variants[", no intercept"] = {"fit_intercept": False, "alphas": [0.01, 1.0]}
                    variants[", little noise"] = {"epsilon": 1e4}
                for variant, parameters in variants.items():
                    title = f"tuned {name}, {method}{variant}, delta {delta:g}"
                    parameters = {"method": method, "delta": delta, **parameters}
                    cases.append(
                        Case(
                            title, estimator, parameters, n_classes=n_classes,
                            whole_budget=not sampled, is_slow=sampled,
                        )
                    )  # fmt: skip
    return cases


#: All of them, by name.
CASES: dict[str, Case] = {
    case.name: case
    for case in (
        *_linear(), *_descents(), *_special(), *_grouped(), *_recursive(), *_vertices(), *_tuned(),
        *_tables(),
        *_tabular(),
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
    """Remember schedules of phases for the largest loss of a group, by all that they follow from.

    A search looks at public numbers alone and takes nearly all the time of a small fit.
    """
    module = importlib.import_module("skdp.algorithms.output.phased_saddle")
    search = module._ScheduleSearch
    patch.setattr(search, "best", functools.cache(search.best))


@pytest.fixture(scope="module", autouse=True)
def remembered_schedules() -> Any:
    """Schedules of phases are searched once in a module, for a folder whose conftest imports it."""
    with pytest.MonkeyPatch.context() as patch:
        remember_schedules(patch)
        yield

"""Small configurations of every public estimator and method, for tests of the privacy contract."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from fit_case import METHOD_TABLES, Case, Ranges, TableCase, TabularCase, supported

from skdp.linear_model import DPLinearClassifier, DPLinearRegressor, DPLogisticRegression, DPRidge
from skdp.methods import (
    Bilevel,
    ExponentialMechanism,
    MirrorDescent,
    OutputPerturbation,
    PhasedOutputPerturbation,
    PhasedSaddle,
    SaddleOutputPerturbation,
)
from skdp.model_selection import DPLogisticRegressionCV, DPRidgeCV
from skdp.preprocessing import DPStandardScaler
from skdp.privacy.events import RECORD_RELATIONS
from skdp.robust import (
    DPAdversarialClassifier,
    DPAdversarialRegressor,
    DPMaxGroupLossClassifier,
    DPMaxGroupLossMLPClassifier,
    DPMaxGroupLossRegressor,
)
from skdp.synthetic import DPSyntheticData
from skdp.tabular import DPTabularClassifier, DPTabularRegressor, Number


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
    """Each method: its first kind with all losses that it serves, the other kinds with some.

    The first kind has all values of delta with each loss, the others have them by turns.
    """
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
    deltas = [0.0, 0.01]
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
            turns = zip(others, itertools.cycle(values[number % len(values) :] + values))
            for name, delta in turns if number else itertools.product(first, values):
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
        for norm, delta, relation in (
            (2, 0.0, "replace_one"), (2, 0.01, "add_remove"), (np.inf, 0.01, "replace_one"),
        ):  # fmt: skip
            given: dict[str, Any] = {"delta": delta, "attack_norm": norm, "method": "output"}
            if relation == "add_remove":
                given |= {"neighbouring": relation, "n_public": 8}
            title = f"adversarial {task}, {norm:g}, delta {delta:g}, {relation}"
            cases.append(Case(title, estimator, given, n_classes=n_classes))
        for norm in (1, np.inf):
            title = f"adversarial {task}, gradient, {norm:g}"
            given = {"attack_norm": norm, "method": "gradient"}
            cases.append(Case(title, estimator, given, n_classes=n_classes))
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


#: A case whose phases, or whose use of the budget, the planner chooses.
_planned = partial(Case, n_phases=0, whole_budget=False)
_PROPORTIONS: dict[str, Any] = {"group_proportions": [0.5, 0.25, 0.25]}
_PUBLIC: dict[str, Any] = {"group_proportions": "public"}
_ADDED: dict[str, Any] = {"neighbouring": "add_remove", "n_public": 12}
#: Names of models of groups, with their numbers of classes.
_GROUPED = (("classifier", DPMaxGroupLossClassifier, 2), ("regressor", DPMaxGroupLossRegressor, 0))


def _grouped() -> Iterator[Case]:
    modes: list[tuple[str, Any, int]] = [
        ("proportions", [0.5, 0.25, 0.25], 3),
        ("public", "public", 3),
        ("histogram", "private", 3),
        ("one group", "private", 0),
    ]
    weighted = {"release_group_weights": True, "max_group_weight": 2.0}
    for task, estimator, n_classes in _GROUPED:
        made = partial(_planned, estimator=estimator, n_classes=n_classes)
        deltas = (0.0, 0.01) if n_classes else (0.01,)
        for (mode, proportions, n_groups), delta in itertools.product(modes, deltas):
            kind = SaddleOutputPerturbation if mode == "one group" else PhasedSaddle
            # budgets at which the planner takes several phases, where there are any
            given = {"delta": delta, "group_proportions": proportions,
                     "epsilon": 3.0 if mode == "histogram" else 0.3}  # fmt: skip
            title, shape = f"max-group {task}, {mode}, delta {delta:g}", {"n_groups": n_groups}
            some = partial(made, **shape, n=12, whole_budget=True)
            yield some(title, parameters=given | {"method": kind(max_group_weight=2.0)})
            if delta and mode != "one group":
                yield some(f"{title}, weights", parameters=given | {"method": kind(**weighted)})
        for mode, proportions, n_groups in modes[:3]:
            weights = mode == "public" or (mode == "histogram" and n_classes > 0)
            method = PhasedSaddle(release_group_weights=weights)
            given = {"method": method, "group_proportions": proportions, "delta": 0.01}
            yield made(f"max-group {task}, {mode}, look" + ", weights" * weights,
                       parameters=given | {"epsilon": 100.0}, n=24, n_groups=n_groups)  # fmt: skip
        for method, kind, parameters, n_groups in (
            ("output", "proportions", _PROPORTIONS, 3),
            ("output", "histogram", {"epsilon": 1e4}, 3),
            ("output", "add/remove", _ADDED, 3),
            ("output", "one group", {"alpha": 0.01}, 0),
            ("gradient", "proportions", _PROPORTIONS, 3),
            ("gradient", "histogram", {}, 3),
            ("gradient", "add/remove", _ADDED, 3),
            ("gradient", "public", _PUBLIC | {"fit_intercept": False}, 3),
            ("gradient", "much noise", {"epsilon": 0.3}, 3),
        ):
            given = {"delta": 0.01, "epsilon": 200.0, "method": method, **parameters}
            yield made(f"max-group {task}, {method}, {kind}", parameters=given, n=12,
                       n_groups=n_groups, n_phases=1)  # fmt: skip
        for mode, proportions, n_groups in modes[:2]:
            method = PhasedSaddle(calibration="paper")
            given = {"method": method, "group_proportions": proportions, "delta": 0.01}
            yield made(f"max-group {task}, {mode}, paper", parameters=given, n=12,
                       n_groups=n_groups, n_phases=4)  # fmt: skip


#: Kinds of cases with budgets at which there are several steps: what they share, and rows of names,
#: estimators, numbers of classes and of groups, and parameters.
_STEPS: dict[str, tuple[dict[str, Any], list[tuple[str, type, int, int, dict[str, Any]]]]] = {
    "rgda": ({"method": "rgda", "delta": 0.01, "epsilon": 200.0}, [
        ("classifier, proportions", DPMaxGroupLossClassifier, 2, 3, _PROPORTIONS),
        ("classifier, three classes", DPMaxGroupLossClassifier, 3, 3, {}),
        ("regressor", DPMaxGroupLossRegressor, 0, 3, {}),
        ("regressor, huber", DPMaxGroupLossRegressor, 0, 0, {"loss": "huber"}),
        ("network, proportions", DPMaxGroupLossMLPClassifier, 2, 3, _PROPORTIONS),
        ("network", DPMaxGroupLossMLPClassifier, 3, 3, {}),
        ("network, public", DPMaxGroupLossMLPClassifier, 2, 3, _PUBLIC),
        ("network, much noise", DPMaxGroupLossMLPClassifier, 2, 0, {"epsilon": 0.3}),
    ]),
    "vertices": ({"method": "mirror_descent", "delta": 0.01, "epsilon": 200.0}, [
        ("logistic", DPLogisticRegression, 2, 0, {}),
        ("logistic, delta 0", DPLogisticRegression, 2, 0, {"delta": 0.0, "epsilon": 2000.0}),
        ("three classes", DPLogisticRegression, 3, 0, {}),
        ("add/remove", DPLogisticRegression, 2, 0, _ADDED),
        ("ridge", DPRidge, 0, 0, {"method": MirrorDescent(feature_bound=1.0, alpha=0.1)}),
        ("huber", DPLinearRegressor, 0, 0, {"loss": "huber", "fit_intercept": False}),
        ("max-group classifier", DPMaxGroupLossClassifier, 2, 3, _PROPORTIONS),
        ("max-group classifier, delta 0", DPMaxGroupLossClassifier, 2, 3, {"delta": 0.0}),
        ("max-group classifier, public", DPMaxGroupLossClassifier, 2, 3, _PUBLIC),
        ("max-group classifier, histogram", DPMaxGroupLossClassifier, 2, 3, {}),
        ("max-group classifier, three classes", DPMaxGroupLossClassifier, 3, 3, _PROPORTIONS),
        ("max-group classifier, histogram, add/remove", DPMaxGroupLossClassifier, 2, 3, _ADDED),
        ("max-group regressor, proportions", DPMaxGroupLossRegressor, 0, 3, _PROPORTIONS),
        ("max-group regressor, one group", DPMaxGroupLossRegressor, 0, 0, {}),
    ]),
}  # fmt: skip


def _steps() -> Iterator[Case]:
    """DP-RGDA of linear models and of a network, and mirror descent."""
    for kind, (shared, rows) in _STEPS.items():
        for name, estimator, n_classes, n_groups, own in rows:
            given = shared | own
            if estimator is DPMaxGroupLossMLPClassifier:  # it has no other method
                given |= {"hidden_units": 2, "n_steps": 3}
                del given["method"]
            yield Case(f"{kind}, {name}", estimator, given, n=12, n_classes=n_classes,
                       n_groups=n_groups, whole_budget=False)  # fmt: skip


def _tuned() -> Iterator[Case]:
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
            given: dict[str, Any] = {"method": "gradient", "delta": 0.01, **parameters}
            yield Case(title, estimator, given, n_classes=n_classes)
        yield Case(f"tuned {name}, auto, delta 0", estimator, {"delta": 0.0}, n_classes=n_classes)
        yield from _published(name, estimator, n_classes)


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
            whole_budget=not sampled, is_slow=sampled or bool(variant and n_classes),
        )  # fmt: skip
    for unit, delta in (("person", 0.06), ("weight", 0.01)):
        given = {"method": Bilevel(as_published=True), "delta": delta, "epsilon": 20.0}
        yield Case(
            f"tuned {name}, published, {unit}", estimator, given, n=16, n_classes=n_classes,
            unit=unit, whole_budget=False, n_phases=0,
        )  # fmt: skip


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
        *_linear(), *_special(), *_blocks(), *_grouped(), *_descents(), *_steps(),
        *_tuned(), *_tables(), *_tabular(), *_rows(),
    )
}  # fmt: skip

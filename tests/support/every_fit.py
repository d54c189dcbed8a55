"""Fits of each kind: estimator, method, way of the groups, relation, and kind of delta."""

import importlib
import inspect
import pkgutil
from functools import cache

from fit_cases import CASES
from sklearn.base import BaseEstimator, MetaEstimatorMixin

import skdp


def make(name, **parameters):
    return CASES[name].make(**parameters)


def records(name):
    """Arguments of two fits on very different records of one public shape."""
    return [CASES[name].arguments(each) for each in CASES[name].pair()]


@cache
def kinds_of_fits():
    """Cases that have each method with each estimator, relation, way of the groups and so on."""
    names, seen = [], set()
    for case in CASES.values():
        # a slow calibration takes as long as all others; a function has no parameters of estimators
        is_package = case.estimator.__module__.startswith("skdp.")
        if case.place != "dense" or case.is_slow or not is_package:
            continue
        parameters = {"delta": 1e-6, **case.parameters}
        values = (
            (case.estimator, parameters["delta"] > 0),
            parameters.get("neighbouring"),
            str(parameters.get("group_proportions")),
            case.n_classes > 2,
            bool(getattr(parameters.get("method"), "tilt", False)),
        )
        kinds = {(id(case.row), *pair) for pair in enumerate(values)}
        if not kinds <= seen:
            names.append(case.name)
            seen |= kinds
    return names


def private_estimators():
    """All public classes with a `fit` and a parameter `epsilon`, but for what fits other ones."""
    found = set()
    for module in pkgutil.walk_packages(skdp.__path__, "skdp."):
        for kind in vars(importlib.import_module(module.name)).values():
            is_estimator = inspect.isclass(kind) and issubclass(kind, BaseEstimator)
            is_estimator = is_estimator and not issubclass(kind, MetaEstimatorMixin)
            if is_estimator and "epsilon" in inspect.signature(kind).parameters:
                found.add(kind)
    return found


def subclasses(kind):
    for each in kind.__subclasses__():
        yield each
        yield from subclasses(each)

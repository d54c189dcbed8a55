"""One fit of each kind: estimator, method, way of the groups, relation, and kind of delta."""

from __future__ import annotations

from functools import partial

import numpy as np
from fit_cases import CASES

from skdp.preprocessing import DPStandardScaler
from skdp.synthetic import DPSyntheticData


def _tables():
    rng = np.random.default_rng(0)
    return [{"X": rng.uniform(-1, 1, (20, 3))}, {"X": np.full((20, 3), 1e9)}]


def _categorical_tables():
    rng = np.random.default_rng(0)
    return [{"X": rng.integers(0, 3, (200, 3))}, {"X": np.zeros((200, 3), dtype=int)}]


#: Estimators without a case there: how to make one, and the arguments of two fits on
#: very different records of one public shape.
OTHERS = {
    "DPStandardScaler": (DPStandardScaler, _tables),
    "DPSyntheticData": (partial(DPSyntheticData, categories=[[0, 1, 2]] * 3), _categorical_tables),
}


def make(name, **parameters):
    if name in OTHERS:
        return OTHERS[name][0](random_state=0, **parameters)
    return CASES[name].make(**parameters)


def records(name):
    """Arguments of two fits on very different records of one public shape."""
    if name in OTHERS:
        return OTHERS[name][1]()
    case = CASES[name]
    plain, wild = case.records(0), case.records(1, "wild")
    if case.parameters.get("group_mode") == "public":
        wild = wild._replace(groups=plain.groups, y=wild.y if case.n_groups else plain.y)
    both = [each._asdict() for each in (plain, wild)]
    return [{key: value for key, value in each.items() if value is not None} for each in both]


def kinds_of_fits():
    """One case for each estimator, method, way of the groups, relation, and kind of delta."""
    names = {}
    for case in CASES.values():
        parameters = {"delta": 1e-6, **case.parameters}
        options = (parameters.get(key) for key in ("method", "group_mode", "neighbouring", "tilt"))
        key = case.estimator, parameters["delta"] > 0, case.n_classes > 2, *options
        if not case.is_slow:  # their calibration takes as long as all others
            names.setdefault(key, case.name)
    return [*names.values(), *OTHERS]

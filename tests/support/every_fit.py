"""One fit of each kind: estimator, method, way of the groups, relation, and kind of delta."""

from fit_cases import CASES


def make(name, **parameters):
    return CASES[name].make(**parameters)


def records(name):
    """Arguments of two fits on very different records of one public shape."""
    return [CASES[name].arguments(each) for each in CASES[name].pair()]


def kinds_of_fits():
    """One case for each estimator, method, way of the groups, relation, and kind of delta."""
    names = {}
    for case in CASES.values():
        parameters = {"delta": 1e-6, **case.parameters}
        given = parameters.get("method")
        own = (bool(getattr(given, name, False)) for name in ("tilt",))
        groups = str(parameters.get("group_proportions"))
        options = case.row, parameters.get("neighbouring"), groups, *own
        key = case.estimator, parameters["delta"] > 0, case.n_classes > 2, *options
        # a slow calibration takes as long as all others; a function has no parameters of estimators
        is_array = case.place == "dense"
        if is_array and not case.is_slow and case.estimator.__module__.startswith("skdp."):
            names.setdefault(key, case.name)
    return list(names.values())

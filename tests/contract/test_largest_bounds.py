"""Fits at the ends of the public bounds: no overflow, and finite models."""

import numpy as np
import pytest
from every_fit import kinds_of_fits
from fit_case import TableCase, TabularCase
from fit_cases import CASES

from skdp._checks import LARGEST_UNIT


def has_units(method):
    """Whether an object has a penalty, a ball or published constants."""
    defaults = {"alpha": "auto", "coef_norm": None, "calibration": "analytic"}
    return any(getattr(method, name, default) != default for name, default in defaults.items())


#: Whose other parameters are in no units, so that every bound suits them.
FREE = [
    name
    for name, case in CASES.items()
    if name in kinds_of_fits()
    and not isinstance(case, TableCase | TabularCase)
    and not {"alpha", "alphas"} & set(case.parameters)
    and not has_units(case.parameters.get("method"))
    and case.parameters.get("method") != "rgda"  # its bounds are those of its own
]


@pytest.mark.mostly("slow", 12)
@pytest.mark.parametrize("name", FREE)
@pytest.mark.filterwarnings("ignore::UserWarning")  # of much noise; others are errors
def test_fits_at_the_ends_are_finite(name):
    case = CASES[name]
    records = case.records(0)
    groups = {} if records.groups is None else {"groups": records.groups}
    ends = 1.0 / LARGEST_UNIT, LARGEST_UNIT
    for unit in ends:
        for width in (1.0,) if case.n_classes else ends:
            declared = {} if case.n_classes else {"target_range": (-width, width)}
            bound = {"data_norm": unit}
            if case.draws_vertices:
                bound = {"method": type(case.row)(feature_bound=unit)}
            model = case.make(**bound, **declared)
            y = records.y if case.n_classes else width * records.y
            model.fit(unit * records.X, y, **groups)
            scores = getattr(model, "decision_function", model.predict)(unit * records.X)
            assert np.isfinite(scores).all()
            if not case.n_classes:
                assert np.abs(scores).max() <= width

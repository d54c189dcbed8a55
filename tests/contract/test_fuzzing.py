"""Strange parameters end in a fitted model, or in an error that says what is wrong.

A case is an estimator whose parameters are good but for at most three. A fit of it ends in a fitted
model that predicts, or in a ValueError or TypeError that this package or scikit-learn's checks
raised on purpose, that says which parameter it is about, and that leaves nothing fitted behind;
with an accountant it may also end in a BudgetExceededError. Strange input: test_odd_inputs.py,
test_kinds_of_inputs.py. The cases are always the same.
"""

from __future__ import annotations

import re
import traceback
import warnings
from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from skdp import linear_model, model_selection, preprocessing, robust, synthetic
from skdp.methods import Method
from skdp.privacy import BudgetAccountant, BudgetExceededError

#: Every public class with a fit, by name.
ESTIMATORS: dict[str, type] = {
    name: thing
    for package in (linear_model, robust, model_selection, preprocessing, synthetic)
    for name in package.__all__
    if hasattr(thing := getattr(package, name), "fit") and name != "DPSearchCV"  # fits others
}
#: What is wrong wherever it stands, or at least unusual.
_ODD: list[Any] = [
    None, True, False, 0, 1, -1, 2, 7, 0.0, -0.5, 0.5, 1.5, 5e-324, 1e-9, 1e9, 1e300, np.nan,
    np.inf, -np.inf, np.float32(0.25), np.int64(3), np.array(0.5), np.array([1.0, 2.0]), 1 + 2j,
    "", "auto", "no such option", b"auto", (), [], {}, [0, 1], (0.0, 1.0), (1.0, 0.0), (-1, 1),
    (np.nan, 1.0), (0.0, np.inf), [[1.0]], ["a", "b"], {"a": 1.0}, {0: 0.5, 1: 0.5}, object(), int,
    len, range(3), np.array([0, 1]), np.array(["a", None], dtype=object), pd.NA,
    np.datetime64("NaT"),
    [[0, 1], [2]], "2-way", 10**400, -(10**400), 10**5000,
]  # fmt: skip
#: Values in and out of use for single parameters; all of `_ODD` is tried as well.
_VALUES: dict[str, list[Any]] = {
    "epsilon": [1e-300, 1e-6, 0.1, 1.0, 20.0, 1e4, 1e8],
    "delta": [0, 0.0, 1e-300, 1e-9, 0.1, 0.999, 1.0],
    "loss": [
        "log_loss", "hinge", "smoothed_hinge", "squared_hinge", "squared_error", "huber",
        "absolute_error", "quantile",
    ],
    "alpha": ["auto", 0, 1e-12, 0.1, 1e3],
    "data_norm": [None, 1e-6, 1.0, 1e6],
    "coef_norm": [None, 1e-6, 1.0, 1e6],
    "coef_norm_l1": [None, 1e-6, 1.0, 1e6],
    "feature_bound": [None, 1e-6, 1.0, 1e6],
    "variant": ["plain", "anytime", "bias_reduced", "variance_reduced", "boosted"],
    "intercept_scaling": [1e-6, 0.1, 1.0, 1e6],
    "classes": [None, [0, 1], [1, 0], [0, 1, 2], ["no", "yes"], [0], [0, 0], [False, True], "01"],
    "neighbouring": ["replace_one", "add_remove"],
    "n_public": [None, 1, 6, 10**6],
    "population": [True, False],
    "tilt": [0.0, 0.3, -0.3, 50.0],
    "solver": ["auto", "newton", "lbfgs", "sag", lambda *arguments: None],
    "calibration": ["analytic", "paper"],
    "accountant": [None, BudgetAccountant(1e12, 0.999999)],
    "random_state": [None, 0, 2**32 - 1, 2**32, np.random.RandomState(0), np.random.default_rng(0)],
    "verbose": [0, 1, 2],
    "target_range": [(-1, 1), (-1.0, 1.0), (0, 1e-9), (-1e9, 1e9), (1, 1), [-1, 1], (-1, 0, 1)],
    "huber_threshold": [None, 1e-6, 0.5, 1e6],
    "quantile": [0.01, 0.5, 0.99],
    "attack_norm": [1, 2, np.inf, "2"],
    "attack_radius": [0, 0.1, 10.0],
    "group_names": [None, ["a", "b"], ["a", "b", "c"], ["a"], ["a", "a"], [0, 1]],
    "group_proportions": [
        None, "private", "public", [0.5, 0.5], {"a": 0.3, "b": 0.7}, {"a": 1.0}, [0.9, 0.9], [0, 1],
    ],
    "max_group_weight": ["auto", 1.0, 2.0, 10.0, 1e9],
    "histogram_share": [0.1, 0.9],
    "release_group_weights": [True, False],
    "hidden_units": [1, 3],
    "balance": [0.1, 0.9],
    "n_steps": [1, 4],
    "step_size": [0.01, 1.0, 1e6],
    "clip_norm": [1e-6, 1.0, 1e6],
    "alpha_bounds": [None, (1e-3, 1.0), (1.0, 1.0), (1e-12, 1e12)],
    "penalty_groups": [None, [0, 0], [0, 1], ["a", "b"], [0], [0, 1, 2], [[0, 1]]],
    "tune_share": [0.01, 0.5, 0.99],
    "as_published": [True, False],
    "inner": ["output_perturbation", "localized_gd"],
    "ranges": [(-1.0, 1.0), [(-1, 1), (0, 2)], ([-1, -1], [1, 1]), {"p": (-1, 1), "q": (-1, 1)}],
    "fill_value": [None, 0.0, [0.0, 0.5], "middle", {"p": 0.0}],
    "n_knots": [2, 3, 5],
    "degree": [0, 1, 3],
    "sparse_output": [True, False],
    "categories": ["auto", [2, 2], [[0, 1], [0, 1]], {"p": [0, 1], "q": [0, 1]}, [["a"], ["b"]]],
    "queries": ["1-way", "2-way", "3-way", [(0,), (1,)], [("p", "q")], [("no",)]],
}  # fmt: skip
#: Files whose errors are on purpose.
_SPEAKING = re.compile(r"(/skdp/|/sklearn/(utils|base|preprocessing|model_selection))")


def _base(name: str) -> dict[str, Any]:
    """Parameters with which small records are fitted."""
    known = _parameters(name)
    base: dict[str, Any] = {"random_state": 0, "data_norm": 1.0, "classes": [0, 1], "epsilon": 5.0}
    base |= {"target_range": (-1.0, 1.0), "group_names": ["a", "b"], "n_steps": 3}
    base |= {"hidden_units": 2, "categories": [[0, 1], [0, 1]]}
    return {key: value for key, value in base.items() if key in known}


@cache
def _parameters(name: str) -> tuple[str, ...]:
    return tuple(ESTIMATORS[name]().get_params(deep=False))


def _values_of(key: str, more: Iterable[Any] = ()) -> st.SearchStrategy[Any]:
    """Values in and out of use for a parameter."""
    value = st.sampled_from(_ODD)
    if values := [*_VALUES.get(key, ()), *more]:
        value = st.sampled_from(values) | value
    if key in ("epsilon", "delta", "alpha", "data_norm", "coef_norm", "quantile", "tilt"):
        value |= st.floats()
    return value


@st.composite
def fuzzed_fits(draw: st.DrawFn) -> tuple[str, dict[str, Any], tuple[str, ...]]:
    """Draw the name of an estimator, parameters, and which of them, or of its method, are odd."""
    name = draw(st.sampled_from(sorted(ESTIMATORS)))
    table, parameters = getattr(ESTIMATORS[name](), "_methods", {}), _base(name)
    methods = list(table)
    methods += ["auto"] * ("CV" not in name)
    if "method" in _parameters(name) and draw(st.booleans()):
        parameters["method"] = draw(st.sampled_from(methods))
        if parameters["method"] == "exponential":
            parameters["delta"] = 0.0
        if parameters["method"] == "mirror_descent" and "data_norm" in parameters:
            parameters["data_norm"] = None
    row = table.get(parameters.get("method"))
    own: list[str] = []
    if isinstance(row, Method) and name != "DPSyntheticData" and draw(st.booleans()):
        known = sorted(row.get_params())
        own = draw(st.lists(st.sampled_from(known), max_size=3, unique=True)) if known else []
        given = {"coef_norm_l1": 1.0, "feature_bound": 1.0} if row.is_entrywise else {}
        parameters["method"] = type(row)(**given | {key: draw(_values_of(key)) for key in own})
    odd = draw(st.lists(st.sampled_from(_parameters(name)), max_size=3 - len(own), unique=True))
    for key in odd:
        parameters[key] = draw(_values_of(key, methods if key == "method" else ()))
    return name, parameters, (*odd, *own)


def arguments(name: str) -> dict[str, Any]:
    """Six records."""
    rng, known = np.random.default_rng(0), _parameters(name)
    is_table = name == "DPSyntheticData"
    X = rng.integers(0, 2, (6, 2)) if is_table else rng.uniform(-0.6, 0.6, (6, 2))
    y = rng.permutation([0, 1] * 3) if "classes" in known else rng.uniform(-1, 1, 6)
    return {"X": X, "y": y} | ({"groups": list("ababab")} if "group_names" in known else {})


def problems_of_an_error(error: Exception, model: Any, odd: tuple[str, ...]) -> list[str]:
    kind, message = type(error), str(error)
    *_, last = traceback.extract_tb(error.__traceback__)
    described = f"{kind.__name__} at {last.filename}:{last.lineno} {last.name}: {message[:200]}"
    left = [key for key in vars(model) if key.endswith("_") and not key.startswith("_")]
    found = [f"half fitted: {left} after {described}"] if left else []
    # of the accountant that cases share
    if isinstance(error, BudgetExceededError) and model.accountant is not None:
        return found
    if not isinstance(error, (ValueError, TypeError)) or isinstance(error, np.linalg.LinAlgError):
        return [f"wrong kind of error: {described}"]
    if not _SPEAKING.search(last.filename) and "unexpected keyword argument" not in message:
        found.append(f"an accident: {described}")
    words = [*model.get_params(deep=False), *odd]
    if not any(re.search(rf"\b{word}", message) for word in words):
        found.append(f"does not name a parameter: {described}")
    # a method may not be made for the loss, which the message says
    if not odd and not re.match("method='(objective|gradient)'", message):
        found.append(f"good parameters: {described}")
    return found


@pytest.mark.search
@seed(12)
@settings(max_examples=200, database=None, suppress_health_check=list(HealthCheck))
@given(fuzzed_fits())
def test_every_fit_ends_in_a_model_or_a_clear_error(case):
    name, parameters, odd = case
    model, given_to = ESTIMATORS[name](**parameters), arguments(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # a warning of numerical work is as bad as an error
        warnings.simplefilter("error", RuntimeWarning)
        try:
            model.fit(**given_to)
        except Exception as error:  # every kind is judged
            assert not problems_of_an_error(error, model, odd), case
        else:
            assert any(key.endswith("_") and not key.startswith("_") for key in vars(model))
            if hasattr(model, "predict"):
                predicted = model.predict(given_to["X"])
                assert len(predicted) == 6
                assert predicted.dtype.kind not in "fc" or np.isfinite(predicted).all(), case
            elif hasattr(model, "transform"):
                model.transform(given_to["X"])
    for key, value in model.get_params(deep=False).items():
        assert key not in parameters or value is parameters[key], f"{key} was replaced"

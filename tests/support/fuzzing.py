"""Hypothesis cases over the parameters and inputs of every estimator.

``python tests/support/fuzzing.py 10000`` tries as many and prints what went wrong; ``--seed`` gives
other ones. A case is an estimator whose parameters are good but for at most three, and input that
is good but for at most one defect. A fit of it ends in a fitted model that predicts, or in a
ValueError or TypeError that this package or scikit-learn's checks of input raised on purpose, that
says which parameter or argument it is about, and that leaves nothing fitted behind; with an
accountant it may also end in a BudgetExceededError.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import signal
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from fit_cases import remember_calibrations
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from skdp import linear_model, model_selection, preprocessing, robust, synthetic
from skdp.methods import Method
from skdp.privacy import BudgetAccountant, BudgetExceededError

__all__ = ["ESTIMATORS", "FuzzedFit", "fuzzed_fits", "problems_of", "tried"]

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
#: Kinds of input; the first ones are good.
_GOOD_INPUT = ("array", "list", "frame", "sparse", "float32", "integers", "read only")
_BAD_INPUT = (
    "nan", "inf", "huge", "1-D", "3-D", "no rows", "no columns", "one row", "strings", "objects",
    "complex", "short y", "y nan", "y inf", "y 2-D", "y strings", "y None", "y constant",
    "y undeclared", "groups short", "groups unknown", "groups nan", "groups missing", "groups 2-D",
    "y text for numbers", "y numbers of mixed type", "unknown argument", "X None", "X scalar",
    "mixed columns", "sparse nan", "dates", "booleans",
)  # fmt: skip
_WORDS = (
    "X", "y", "groups", "sample", "feature", "input", "array", "label", "dtype", "class", "budget",
    "record", "row", "column", "target", "argument", "n_samples", "DType",
    "metadata", "fit_params", "sparse",
)  # fmt: skip
#: Files whose errors are on purpose.
_SPEAKING = re.compile(r"(/skdp/|/sklearn/(utils|base|preprocessing|model_selection))")
#: Time of the processor that a case must not exceed: the machine may have other work.
_SECONDS = 60


@dataclass(frozen=True)
class FuzzedFit:
    """An estimator, its parameters, and the kind and the seed of the input.

    Odd parameters of a method that is an object are among `odd`.
    """

    name: str
    parameters: dict[str, Any]
    odd: tuple[str, ...]
    kind: str
    seed: int

    def __str__(self) -> str:
        return f"{self.name}({self.parameters}) odd={self.odd} on {self.kind!r}, seed {self.seed}"


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
def fuzzed_fits(draw: st.DrawFn) -> FuzzedFit:
    """Draw a case."""
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
    kinds = st.sampled_from(_GOOD_INPUT)
    if draw(st.integers(0, 2)) == 0:
        kinds = st.sampled_from(_BAD_INPUT)
    return FuzzedFit(name, parameters, (*odd, *own), draw(kinds), draw(st.integers(0, 999)))


def _input(case: FuzzedFit) -> tuple[Any, Any, dict[str, Any]]:
    """X, y and the other arguments of fit."""
    rng, n, kind = np.random.default_rng(case.seed), 6, case.kind
    X: Any = rng.uniform(-0.6, 0.6, (n, 2))
    if case.name == "DPSyntheticData":
        X = rng.integers(0, 2, (n, 2))
    y: Any = rng.uniform(-1, 1, n)
    if "classes" in _parameters(case.name):
        y = rng.permutation([0, 1] * (n // 2))
    groups: Any = np.array(list("ab" * (n // 2)))
    more: dict[str, Any] = {}
    if kind == "nan":
        X = X.astype(float)
        X[1, 1] = np.nan
    elif kind in ("inf", "huge"):
        X = X.astype(float)
        X[1, 1] = np.inf if kind == "inf" else 1e308
    makers: dict[str, Callable[[Any], Any]] = {
        "list": lambda X: X.tolist(), "frame": lambda X: pd.DataFrame(X, columns=["p", "q"]),
        "sparse": sp.csr_matrix, "float32": lambda X: X.astype(np.float32),
        "integers": lambda X: np.rint(X).astype(int), "1-D": lambda X: X[:, 0],
        "3-D": lambda X: X[:, :, None], "no columns": lambda X: X[:, :0],
        "strings": lambda X: X.astype(str),
        "objects": lambda X: np.array([[{}, "a"]] * n, dtype=object), "complex": lambda X: X + 1j,
        "X None": lambda X: None, "X scalar": lambda X: 1.0,
        "mixed columns": lambda X: pd.DataFrame({"p": list("uvwxyz"), 3: X[:, 0]}),
        "sparse nan": lambda X: sp.csc_matrix(np.where(X > 0, np.nan, X)),
        "dates": lambda X: pd.DataFrame({"p": pd.date_range("2020", periods=n), "q": X[:, 0]}),
        "booleans": lambda X: X > 0,
    }  # fmt: skip
    labels: dict[str, Callable[[Any], Any]] = {
        "short y": lambda y: y[:-1],
        "y nan": lambda y: np.where(np.arange(n) == 2, np.nan, y),
        "y inf": lambda y: np.where(np.arange(n) == 2, np.inf, y),
        "y 2-D": lambda y: np.column_stack([y, y]),
        "y strings": lambda y: np.where(y > 0, "yes", "no"),
        "y None": lambda y: None,
        "y constant": lambda y: np.zeros(n, dtype=y.dtype),
        "y undeclared": lambda y: y + 5,
        "y text for numbers": lambda y: y.astype(str),
        "y numbers of mixed type": lambda y: np.array([0, "1", None, 1.0, 0, 1], dtype=object),
    }
    sets: dict[str, Any] = {
        "groups short": groups[:-1],
        "groups unknown": np.array(list("abcdef")),
        "groups nan": np.array([0.0, np.nan, 1.0, 1.0, 0.0, 0.0]),
        "groups 2-D": np.column_stack([groups, groups]),
    }
    X = makers.get(kind, lambda X: X)(X)
    y = labels.get(kind, lambda y: y)(y)
    groups = sets.get(kind, groups)
    rows = {"no rows": 0, "one row": 1}.get(kind)
    if rows is not None:
        X, y, groups = X[:rows], y[:rows], groups[:rows]
    if kind == "read only":
        X.setflags(write=False)
        y.setflags(write=False)
    if "group_names" in _parameters(case.name) and kind != "groups missing":
        more["groups"] = groups
    if kind == "unknown argument":
        more["no_such_argument"] = 1
    return X, y, more


@contextlib.contextmanager
def _alarm() -> Iterator[None]:
    def ring(*_: Any) -> None:
        raise TimeoutError(f"more than {_SECONDS} s")

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, _SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _same(mine: Any, other: Any) -> bool:
    if mine is other:
        return True
    if sp.issparse(mine):
        return np.array_equal(mine.toarray(), other.toarray(), equal_nan=True)
    if isinstance(mine, pd.DataFrame):
        return bool(mine.equals(other))
    return repr(mine) == repr(other)


def problems_of(case: FuzzedFit) -> list[str]:
    """What is wrong with the end of a case's fit; empty if nothing is."""
    return tried(case)[1]


def tried(case: FuzzedFit) -> tuple[str, list[str]]:
    """How a case's fit ended, "fitted" or "error", and what is wrong with that."""
    end = "fitted"
    model = ESTIMATORS[case.name](**case.parameters)
    X, y, more = _input(case)
    kept_X, kept_y, _ = _input(case)
    found = []
    with warnings.catch_warnings(), _alarm():
        warnings.simplefilter("ignore")
        # a warning of numerical work is as bad as an error
        warnings.simplefilter("error", RuntimeWarning)
        try:
            model.fit(X, y, **more)
            found += _problems_of_a_model(model, case, X)
        except Exception as error:  # every kind is judged
            end = "error"
            found += _problems_of_an_error(error, model, case)
    if not (_same(X, kept_X) and _same(y, kept_y)):
        found.append("the input was changed")
    for key, value in model.get_params(deep=False).items():
        if key in case.parameters and value is not case.parameters[key]:
            found.append(f"{key} was replaced")
    return end, found


def _problems_of_a_model(model: Any, case: FuzzedFit, X: Any) -> list[str]:
    fitted = [key for key in vars(model) if key.endswith("_") and not key.startswith("_")]
    if not fitted:
        return ["nothing was fitted"]
    if case.kind in ("nan", "sparse nan") and hasattr(model, "transform"):
        return []
    if hasattr(model, "predict"):
        predicted = model.predict(X)
        number = predicted.dtype.kind in "fc"
        if len(predicted) != (X.shape[0] if hasattr(X, "shape") else len(X)):
            return ["predictions of another length"]
        if number and not np.isfinite(predicted).all():
            return ["predictions that are not finite"]
    elif hasattr(model, "transform"):
        model.transform(X)
    return []


def _problems_of_an_error(error: Exception, model: Any, case: FuzzedFit) -> list[str]:
    kind, message = type(error), str(error)
    *_, last = traceback.extract_tb(error.__traceback__)
    place = f"{last.filename}:{last.lineno} {last.name}"
    described = f"{kind.__name__} at {place}: {message[:200]}"
    found = []
    left = [key for key in vars(model) if key.endswith("_") and not key.startswith("_")]
    if left:
        found.append(f"half fitted: {left} after {described}")
    # of the accountant that cases share
    if isinstance(error, BudgetExceededError) and case.parameters.get("accountant") is not None:
        return found
    if not isinstance(error, (ValueError, TypeError)) or isinstance(error, np.linalg.LinAlgError):
        return [f"wrong kind of error: {described}"]
    if not _SPEAKING.search(last.filename) and "unexpected keyword argument" not in message:
        found.append(f"an accident: {described}")
    words = [*_parameters(case.name), *case.odd]
    if case.kind not in _GOOD_INPUT or (case.kind == "sparse" and hasattr(model, "transform")):
        words += _WORDS
    if not any(re.search(rf"\b{word}", message) for word in words):
        found.append(f"does not name a parameter: {described}")
    # a method may not be made for the loss, which the message says
    is_expected = re.match("method='(objective|gradient)'", message)
    good = case.kind in _GOOD_INPUT and case.kind != "sparse" and not case.odd
    if good and not is_expected:
        found.append(f"good parameters and input: {described}")
    return found


def main() -> int:
    """Try many cases and print what went wrong, most frequent first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("n_cases", type=int)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    wrong: Counter[str] = Counter()
    examples: dict[str, str] = {}
    ends: Counter[str] = Counter()

    @seed(options.seed)
    @settings(
        max_examples=options.n_cases, deadline=None, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(fuzzed_fits())
    def try_all(case: FuzzedFit) -> None:
        end, found = tried(case)
        ends["wrong" if found else end] += 1
        for problem in found:
            key = case.name + ": " + re.sub(r"0x[0-9a-f]+|\d+\.\d+", "#", problem)[:160]
            wrong[key] += 1
            examples.setdefault(key, f"{case}\n      {problem}")

    with pytest.MonkeyPatch.context() as patch:
        remember_calibrations(patch)
        try_all()
    for key, count in wrong.most_common():
        print(f"{count:5d}  {examples[key]}", flush=True)
    print(
        f"{sum(ends.values())} cases: {ends['fitted']} fitted, {ends['error']} clear errors, "
        f"{ends['wrong']} wrong"
    )
    return int(bool(wrong))


if __name__ == "__main__":
    # for the modules next to this one
    sys.path.insert(0, str(Path(__file__).parent))
    sys.exit(main())

"""Everything but the noisy coefficients is a function of public inputs.

Attacked: ``privacy_.to_dict()``, ``alpha_``, ``classes_``, warnings, errors and the set of fitted
attributes must not depend on the records, whatever these are; and no un-noised number may
survive a fit.
"""

from __future__ import annotations

import dataclasses
import gc
import json
import math
import pickle
import re
import struct
import weakref

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import skdp.algorithms.output.kernel
from skdp.linear_model import DPLogisticRegression, DPRidge
from skdp.problems import MAX_SIZE_RATIO

ALLOWED = {
    "privacy_",
    "alpha_",
    "coef_",
    "intercept_",
    "data_norm_",
    "target_range_",
    "classes_",
    "n_features_in_",
    "feature_names_in_",
}
LOW, HIGH = -1.0, 3.0
MODELS = {"binary": 2, "multinomial": 3, "ridge": 0}

every_model = pytest.mark.parametrize("model", MODELS)


def estimator(model, **kwargs):
    if model == "ridge":  # the plan of "gradient" has a number that was released
        kwargs = {"method": "output", **kwargs}
        return DPRidge(target_range=(LOW, HIGH), **kwargs)
    return DPLogisticRegression(classes=range(MODELS[model]), **kwargs)


def random_targets(model, rng, n):
    return rng.integers(MODELS[model], size=n) if MODELS[model] else rng.uniform(LOW, HIGH, n)


def constant_targets(model, rng, n):
    return np.full(n, 1) if MODELS[model] else np.full(n, LOW)


def far_targets(model, rng, n):
    if MODELS[model]:
        return random_targets(model, rng, n)
    return rng.choice([-1e300, -1e9, 0.0, 1e9, 1e300], size=n)


def _mixed(rng, shape):
    return rng.normal(size=shape) * 10.0 ** rng.uniform(-300, 300, size=(shape[0], 1))


#: Kinds of records: features from (rng, shape), targets from (model, rng, n).
RECORDS = {
    "random": (lambda rng, shape: rng.normal(size=shape), random_targets),
    "zeros": (lambda rng, shape: np.zeros(shape), random_targets),
    "one class": (lambda rng, shape: np.abs(rng.normal(size=shape)), constant_targets),
    "duplicates": (
        lambda rng, shape: np.tile(rng.normal(size=shape[1]), (shape[0], 1)),
        far_targets,
    ),
    "huge": (lambda rng, shape: rng.choice([-1.0, 1.0], size=shape) * 1e300, far_targets),
    "long": (lambda rng, shape: rng.normal(size=shape) * 1e160, random_targets),
    "tiny": (lambda rng, shape: rng.normal(size=shape) * 1e-310, random_targets),
    "mixed": (_mixed, far_targets),
    "sparse": (lambda rng, shape: np.eye(*shape) * 1e5, far_targets),
}


def single(X):
    """X in single precision, cut to its range."""
    largest = float(np.finfo(np.float32).max)
    return np.clip(X, -largest, largest).astype(np.float32)


#: Containers by kind of storage, which is public.
CONTAINERS = {
    "dense": (np.asarray, np.asfortranarray),
    "single": (single, lambda X: np.asfortranarray(single(X))),
    "single sparse": (lambda X: sp.csr_matrix(single(X)),),
    "sparse": (sp.csr_matrix, sp.csc_matrix, sp.coo_matrix, sp.csr_array),
}


def fitted_on(records, container, model, n, d, seed, params):
    features, targets = RECORDS[records]
    rng = np.random.default_rng(seed)
    X, y = container(features(rng, (n, d))), targets(model, rng, n)
    return estimator(model, **params).fit(X, y)


def statement(fitted):
    """All public fitted state, in a form that shows every bit."""
    return (
        json.dumps(fitted.privacy_.to_dict(), sort_keys=True),
        str(fitted.privacy_),
        fitted.privacy_,
        fitted.alpha_,
        getattr(fitted, "classes_", np.empty(0)).tolist(),
        fitted.n_features_in_,
        fitted.coef_.shape,
        np.shape(fitted.intercept_),
    )


@st.composite
def public_parameters(draw):
    """A model, a shape and constructor parameters over all branches of the plan."""
    model = draw(st.sampled_from(sorted(MODELS)))
    neighbouring = draw(st.sampled_from(["replace_one", "add_remove"]))
    paper = neighbouring == "replace_one" and draw(st.booleans())
    coef_norm = draw(st.sampled_from([None, 1e-3, 2.0]))
    alphas = ["auto", 1e-7, 0.1, 50.0] + ([0] if coef_norm else [])
    params = {
        "epsilon": draw(st.sampled_from([0.05, 1.0, 20.0])),
        "delta": draw(st.sampled_from([0.0, 1e-6, 0.1])),
        "alpha": draw(st.sampled_from(alphas)),
        "data_norm": draw(st.sampled_from([1e-3, 1.0, 1e3])),
        "coef_norm": coef_norm,
        "fit_intercept": draw(st.booleans()),
        "neighbouring": neighbouring,
        "calibration": "paper" if paper else "analytic",
        "random_state": draw(st.sampled_from([None, 0])),
    }
    n, d = draw(st.sampled_from([(1, 1), (5, 2), (40, 3)]))
    if neighbouring == "add_remove":
        params["n_public"] = draw(st.sampled_from([None, n, 2 * n]))
    return model, n, d, params


@pytest.mark.slow
@settings(max_examples=250, deadline=None)
@given(
    public=public_parameters(),
    storage=st.sampled_from(sorted(CONTAINERS)),
    records=st.tuples(*[st.sampled_from(sorted(RECORDS))] * 2),
    choices=st.tuples(*[st.integers(0, 3)] * 2),
    seeds=st.tuples(*[st.integers(0, 99)] * 2),
)
def test_statement_does_not_depend_on_records(public, storage, records, choices, seeds):
    """Two data sets of equal shape and any content give the same statement, silently.

    Every warning is an error in this suite, so this also attacks the silence on rows and
    targets out of range.
    """
    model, n, d, params = public
    containers = CONTAINERS[storage]
    first, second = (
        fitted_on(kind, containers[choice % len(containers)], model, n, d, seed, params)
        for kind, choice, seed in zip(records, choices, seeds, strict=True)
    )
    assert statement(first) == statement(second)


@pytest.mark.mostly("slow", 3)
@pytest.mark.parametrize("storage", CONTAINERS)
@pytest.mark.parametrize("records", RECORDS)
@every_model
def test_records_out_of_range_are_bounded_silently(model, records, storage):
    """Whatever the bounds are set to, no record outside of them raises or warns."""
    for container in CONTAINERS[storage]:
        for data_norm in (1e-50, 1.0, 1e50):
            for alpha in (1e-12, 1e12):
                params = {"data_norm": data_norm, "alpha": alpha * data_norm**2}
                fitted = fitted_on(records, container, model, 6, 2, 0, params)
                assert np.isfinite(fitted.coef_).all()
                assert np.isfinite(fitted.intercept_).all()


@pytest.mark.parametrize("storage", CONTAINERS)
@every_model
def test_largest_doubles_are_bounded_silently(model, storage):
    """Sums over the records overflow in both directions: not even a floating-point warning."""
    largest = np.finfo(np.float64).max
    signs = np.random.default_rng(1).choice([-1.0, 1.0], size=(64, 2))
    for container in CONTAINERS[storage]:
        y = np.arange(64) % 2 if MODELS[model] else signs[:, 0] * largest
        fitted = estimator(model, alpha=1.0).fit(container(signs * largest), y)
        assert np.isfinite(fitted.coef_).all()


@every_model
def test_duplicate_entries_that_overflow_are_bounded_silently(model):
    """Finite stored entries of a CSR matrix whose sum is infinite are a long row like others."""
    X = sp.csr_matrix(
        (np.array([1.7e308, 1.7e308, 0.1]), np.array([0, 0, 1]), np.array([0, 2, 3])), shape=(2, 2)
    )
    fitted = estimator(model, alpha=1.0, random_state=0).fit(X, [0, 1])
    dense = estimator(model, alpha=1.0, random_state=0).fit([[1.7e308, 0.0], [0.0, 0.1]], [0, 1])
    tau = fitted.privacy_.plan["accuracy"]
    np.testing.assert_allclose(fitted.coef_, dense.coef_, rtol=0, atol=2 * tau)


@pytest.mark.mostly("slow", 1)
@pytest.mark.parametrize("calibration", ["analytic", "paper"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("alpha", ["auto", 1e-4])
@every_model
def test_statement_changes_with_public_parameters(model, alpha, delta, calibration):
    """The comparison above is not empty: each public parameter shows in the statement."""
    params = {"alpha": alpha, "delta": delta, "calibration": calibration, "epsilon": 2.0}
    base = statement(fitted_on("random", np.asarray, model, 20, 2, 0, params))
    for change in (
        {"epsilon": 3.0},
        {"data_norm": 2.0},
        {"coef_norm": 1e-3},
        {"fit_intercept": False},
        {"intercept_scaling": 0.5},
        {"random_state": 0},
    ):
        other = fitted_on("random", np.asarray, model, 20, 2, 0, {**params, **change})
        assert statement(other) != base
    assert statement(fitted_on("random", np.asarray, model, 21, 2, 0, params)) != base


# ------------------------------------------------------------------- the number of records itself


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("alpha", ["auto", 1e-3, 10.0])
@every_model
def test_statement_does_not_depend_on_the_number_of_rows(model, alpha, delta):
    """add_remove with `n_public`: one statement for every number of rows."""
    params = {
        "alpha": alpha,
        "delta": delta,
        "neighbouring": "add_remove",
        "n_public": 20,
    }
    statements = [
        statement(fitted_on("mixed", np.asarray, model, n, 2, n, params))
        for n in (1, 2, 19, 20, 21, int(20 * MAX_SIZE_RATIO))
    ]
    assert all(other == statements[0] for other in statements)
    assert json.loads(statements[0][0])["releases"][0]["n_records"] == 20


@pytest.mark.parametrize(
    ("alpha", "coef_norm"), [(1e-6, 1e-3), (1e-8, 1.0), (1e-10, None), (1e-12, 1e3), (1e-16, None)]
)
@pytest.mark.parametrize("ratio", [2, int(MAX_SIZE_RATIO)])
@every_model
def test_more_rows_than_declared_never_raise(model, ratio, alpha, coef_norm):
    """add_remove: the planned accuracy can be certified for every number of rows allowed.

    An error that appears when records are added would be an output that depends on them.
    """
    params = {
        "alpha": alpha,
        "coef_norm": coef_norm,
        "neighbouring": "add_remove",
        "n_public": 100,
    }
    fitted_on("one class", np.asarray, model, 100 * ratio, 1, 0, params)


def test_undisclosed_size_is_not_in_the_report():
    """replace_one discloses n by definition; add_remove without `n_public` says that it does."""
    X, y = np.zeros((37, 1)), np.arange(37) % 2
    report = estimator("binary", neighbouring="add_remove").fit(X, y).privacy_
    assert report.releases[0].n_records == 37
    assert any("n_public" in caveat for caveat in report.caveats)
    report = estimator("binary", neighbouring="add_remove", n_public=50).fit(X, y).privacy_
    assert not re.search(r"(?<![.\d])37(?![.\d])", str(report))
    assert not report.caveats


# ------------------------------------------------------------------------ what a fit leaves behind


def leaking_values(X, y, solutions):
    """Numbers that only the records know: data, solutions, their norms, all in several units."""
    values = [np.ravel(X), np.ravel(y).astype(float)]
    for point in solutions:
        values += [point, [np.linalg.norm(point)], point * 0.1, point * 0.1 + (LOW + HIGH) / 2]
    values = np.concatenate(values)
    return values[(values != 0) & (values != 1) & (values != 2)]  # labels are public numbers


def floats_in(thing, seen=None):
    """Every number reachable from an object through containers, arrays and attributes."""
    seen = set() if seen is None else seen
    if id(thing) in seen or isinstance(thing, (str, bytes, type)) or callable(thing):
        return
    seen.add(id(thing))
    if isinstance(thing, np.ndarray):
        if thing.dtype.kind in "fiub":
            yield from thing.astype(float).ravel()
        return
    if isinstance(thing, (bool, int, float, np.number)):
        yield float(thing)
    elif isinstance(thing, dict):
        for key, value in thing.items():
            yield from floats_in(key, seen)
            yield from floats_in(value, seen)
    elif isinstance(thing, (list, tuple, set)):
        for part in thing:
            yield from floats_in(part, seen)
    elif dataclasses.is_dataclass(thing) or hasattr(thing, "__dict__"):
        yield from floats_in(vars(thing), seen)


def leaks(thing, values):
    """The secret values that some number inside `thing` equals to six digits."""
    found = np.array(list(floats_in(thing)))
    close = np.abs(found[:, None] - values) <= 1e-6 * np.abs(values)
    return values[close.any(axis=0)]


@pytest.fixture
def solutions(monkeypatch):
    """Records the un-noised points of all fits."""
    points, original = [], skdp.algorithms.output.kernel.solve_certified

    def recording(*args, **kwargs):
        solution = original(*args, **kwargs)
        points.append(solution.point.copy())
        return solution

    monkeypatch.setattr(skdp.algorithms.output.kernel, "solve_certified", recording)
    return points


@pytest.fixture
def secret_data():
    rng = np.random.default_rng(8)
    return rng.uniform(-0.5, 0.5, size=(30, 2)) + rng.normal(size=(30, 2)) * 1e-3


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@every_model
def test_no_unnoised_number_survives_a_fit(model, delta, solutions, secret_data):
    """Neither the estimator nor its report nor its pickle holds the solution or the data."""
    y = random_targets(model, np.random.default_rng(9), 30)
    fitted = estimator(model, alpha=0.05, delta=delta, random_state=3).fit(secret_data, y)
    (point,) = solutions
    values = leaking_values(secret_data, y, solutions)
    assert leaks(vars(fitted), values).size == 0
    assert leaks(fitted.privacy_.to_dict(), values).size == 0
    stored = pickle.dumps(fitted)
    for value in [*point, *secret_data.ravel()]:
        assert struct.pack("<d", value) not in stored
        assert struct.pack(">d", value) not in stored


def test_the_search_for_leaks_finds_them(solutions, secret_data):
    """Positive control: a solution hidden in an array, a list or the report is found."""
    y = random_targets("binary", np.random.default_rng(9), 30)
    fitted = estimator("binary", alpha=0.05, random_state=3).fit(secret_data, y)
    values = leaking_values(secret_data, y, solutions)
    for hidden in (
        {"a": [(1, {"b": solutions[0].reshape(1, -1)})]},
        [float(solutions[0][0])],
        dataclasses.replace(fitted.privacy_, plan={"x": np.linalg.norm(solutions[0])}),
        fitted.set_params(solver=solutions[0]),
    ):
        assert leaks(hidden, values).size > 0
    assert struct.pack("<d", solutions[0][0]) in pickle.dumps(fitted)


@every_model
def test_no_reference_to_records_or_solution_survives(model, monkeypatch, secret_data):
    """After a fit, X, y and the un-noised point are garbage."""
    references, original = [], skdp.algorithms.output.kernel.solve_certified

    def recording(problem, *args, **kwargs):
        solution = original(problem, *args, **kwargs)
        references.extend(weakref.ref(thing) for thing in (problem, solution.point))
        return solution

    monkeypatch.setattr(skdp.algorithms.output.kernel, "solve_certified", recording)
    X, y = secret_data.copy(), random_targets(model, np.random.default_rng(9), 30)
    references += [weakref.ref(X), weakref.ref(y)]
    fitted = estimator(model, alpha=0.05).fit(X, y)
    del X, y
    gc.collect()
    assert len(references) == 4
    assert [reference() for reference in references] == [None] * 4
    assert np.isfinite(fitted.coef_).all()


@pytest.mark.parametrize("container", [np.asarray, sp.csr_matrix, pd.DataFrame])
@every_model
def test_fitted_attributes_are_on_the_list(model, container, secret_data):
    """Only attributes that are noisy or public are set, also by a second fit."""
    y = random_targets(model, np.random.default_rng(9), 30)
    X = container(secret_data)
    if container is pd.DataFrame:
        X.columns = ["a", "b"]
    fitted = estimator(model, alpha=0.1)
    before = set(vars(fitted))
    fitted.fit(X, y).fit(X, y)
    added = set(vars(fitted)) - before
    assert before == set(fitted.get_params())
    assert {"privacy_", "alpha_", "coef_", "intercept_", "n_features_in_"} <= added <= ALLOWED
    assert ("classes_" in added) == (model != "ridge")
    assert ("feature_names_in_" in added) == (container is pd.DataFrame)


@every_model
def test_statement_is_made_of_plain_finite_numbers(model, secret_data):
    """``to_dict()`` survives a round trip through strict JSON: no array, NaN or infinity."""
    y = random_targets(model, np.random.default_rng(9), 30)
    report = estimator(model).fit(secret_data, y).privacy_.to_dict()
    assert json.loads(json.dumps(report, allow_nan=False)) == report
    assert all(math.isfinite(value) for value in floats_in(report))

"""Bounding of any records in silence, a size that does not show, and what a fit leaves behind."""

import itertools
import re

import numpy as np
import pytest
import scipy.sparse as sp
from linear_models import made

from skdp.linear_model import DPLogisticRegression, DPRidge
from skdp.methods import OutputPerturbation

LOW, HIGH = -1.0, 3.0
MODELS = {"binary": 2, "multinomial": 3, "ridge": 0}

every_model = pytest.mark.parametrize("model", MODELS)


def estimator(model, **kwargs):
    method, kwargs = made(OutputPerturbation, kwargs)
    if model == "ridge":  # the plan of "gradient" has a number that was released
        return DPRidge(target_range=(LOW, HIGH), method=method, **kwargs)
    kwargs["method"] = "auto" if method.alpha == "auto" else method
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


@pytest.mark.parametrize("records", RECORDS)
def test_records_out_of_range_are_bounded_silently(records):
    """Whatever the bounds are set to, no record outside of them raises or warns."""
    turns = itertools.product(MODELS, (1e-24, 1.0, 1e24), (1e-12, 1e12))
    containers = itertools.cycle(itertools.chain(*CONTAINERS.values()))
    for (model, data_norm, alpha), container in zip(turns, containers, strict=False):
        params = {"data_norm": data_norm, "alpha": alpha * data_norm**2}
        fitted = fitted_on(records, container, model, 6, 2, 0, params)
        assert np.isfinite(fitted.coef_).all()
        assert np.isfinite(fitted.intercept_).all()


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


# ------------------------------------------------------------------- the number of records itself


@pytest.mark.parametrize(
    ("alpha", "coef_norm"), [(1e-6, 1e-3), (1e-8, 1.0), (1e-10, None), (1e-12, 1e3), (1e-16, None)]
)
@pytest.mark.parametrize("n_rows", [1_000, 30_000])
@every_model
def test_more_rows_than_declared_never_raise(model, n_rows, alpha, coef_norm):
    """add_remove: the accuracy is certified for any number of rows; an error would tell it."""
    params = {"alpha": alpha, "coef_norm": coef_norm, "neighbouring": "add_remove", "n_public": 100}
    fitted_on("one class", np.asarray, model, n_rows, 1, 0, params)


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

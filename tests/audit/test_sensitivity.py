"""Searches for far neighbours: they reach what is attainable, and find false claims."""

import math

import numpy as np
import pytest

from skdp.audit import worst_case_sensitivity
from skdp.linear_model import DPLogisticRegression, DPRidge
from skdp.methods import OutputPerturbation


def logistic(**options):
    method = OutputPerturbation(alpha=5.0, coef_norm=1e6)
    declared = {"data_norm": 1.0, "classes": [0, 1], "fit_intercept": False}
    return DPLogisticRegression(method=method, **declared, **options)


def test_mean_of_rows():
    """Its sensitivity, 2 norm / n, is attained by a row and its negative."""
    search = worst_case_sensitivity(
        logistic(), 8, 3, solution=lambda X, y: X.mean(axis=0), norm=2.0, n_starts=3, random_state=0
    )
    assert 0.9 * 0.5 < search.distance <= 0.5 * (1 + 1e-12)
    (X, y), (X_prime, y_prime) = search.D, search.D_prime
    np.testing.assert_array_equal(X[:-1], X_prime[:-1])
    np.testing.assert_array_equal(y[:-1], y_prime[:-1])
    assert X.shape == (8, 3) and y.shape == (8,)
    assert np.linalg.norm(X, axis=1).max() <= 2.0 * (1 + 1e-12)
    assert np.linalg.norm(X.mean(axis=0) - X_prime.mean(axis=0)) == pytest.approx(search.distance)


def test_estimators_of_this_package():
    search = worst_case_sensitivity(logistic(), 10, 1, n_starts=1, n_steps=20, random_state=0)
    assert search.n_fits == 2 * 21
    assert 0.9 * search.claimed < search.distance <= search.claimed
    assert not search.refutes
    method = OutputPerturbation(alpha=100.0, coef_norm=1e6)
    ridge = DPRidge(method=method, data_norm=1.0, target_range=(-3, 3), fit_intercept=False)
    search = worst_case_sensitivity(ridge, 10, 1, n_starts=1, n_steps=10, random_state=0)
    assert 0.8 * search.claimed < search.distance <= search.claimed
    assert set(np.abs(search.D[1])) == {3.0}


class Careless(DPLogisticRegression):
    """States a third of its sensitivity."""

    def fit(self, X, y):
        super().fit(X, y)
        (release,) = self.privacy_.releases
        object.__setattr__(release, "sensitivity", release.sensitivity / 3.0)
        return self


def test_sensitivities_that_are_stated_too_small_are_found():
    model = Careless(**{**logistic().get_params(deep=False), "epsilon": 1e4})
    search = worst_case_sensitivity(model, 10, 2, n_starts=1, n_steps=10, random_state=0)
    assert search.refutes


def test_without_a_claim():
    search = worst_case_sensitivity(
        None, 4, 1, solution=lambda X, y: [math.fsum(y)], targets=[0, 5], n_starts=1, n_steps=5
    )
    assert search.distance == 5.0
    assert search.claimed is None and not search.refutes


@pytest.mark.parametrize(
    "options", [{"n": 1}, {"d": 0}, {"n_starts": 0}, {"n_steps": -1}, {"norm": 0.0}]
)
def test_what_is_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        worst_case_sensitivity(logistic(), **{"n": 5, "d": 1} | options)


@pytest.mark.parametrize("epsilon", [0.1, 1e4])
def test_a_ball_that_cuts_the_noise_is_said(epsilon, recwarn):
    model = DPRidge(
        epsilon, method=OutputPerturbation(alpha=0.5, coef_norm=2.0), data_norm=1.0,
        target_range=(-1, 1), fit_intercept=False,
    )  # fmt: skip
    search = worst_case_sensitivity(model, n=10, d=1, n_starts=2, n_steps=12, random_state=0)
    said = [str(w.message) for w in recwarn if "boundary of a ball" in str(w.message)]
    assert len(said) == (epsilon < 1.0)
    assert (search.distance < 0.2 * search.claimed) == (epsilon < 1.0)

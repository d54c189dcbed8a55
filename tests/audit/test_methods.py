"""Audits of this package's mechanisms and methods, and of planted bugs that audits must find.

A few of the audits of tests/support/method_audits.py with fewer runs. Seeds are fixed: an audit of
a correct claim fails always or never, with a probability of 1e-6.
"""

from dataclasses import replace

import numpy as np
import pytest
from audit_cases import MECHANISMS, METHODS, PERSONS
from method_audits import audited, replayed
from plain_noise import scale_noise
from remembered_plans import remember_calibrations, remember_schedules
from sklearn.linear_model import Ridge

from skdp.audit import audit_estimator, worst_case_sensitivity
from skdp.data import ArrayRecords
from skdp.linear_model import DPRidge
from skdp.methods import OutputPerturbation
from skdp.problems import ProblemConstants

CONFIDENCE = 1.0 - 1e-6
#: Runs on each side, and part of the claim that they show.
POWER = {
    "Laplace noise": (1200, 0.5),
    "Gaussian noise": (1200, 0.2),
    "softmax draws": (1200, 0.35),
    "exponential mechanism on a ball": (800, 0.2),
}
#: Methods with a way of their own to what they release.
NAMES = (
    "DPLogisticRegression, objective", "DPRidge, gradient",
    "DPRidge, mirror_descent", "DPMaxGroupLossClassifier, gradient, private",
    "DPMaxGroupLossClassifier, mirror_descent, private",
    "DPLogisticRegressionCV, gradient",
    "DPRidgeCV, bilevel, batches", "DPStandardScaler",
    "private_ranges", "dp_cross_validate", "DPSyntheticData, mirror_descent",
)  # fmt: skip
#: Cases of persons whose releases have additive noise.
REPLAYED = [case for case in PERSONS if case.method != "mirror_descent"]
CASES = [
    case
    for case in METHODS
    if case.title in NAMES
    and case.epsilon == 4.0
    and (case.delta == 0 or any(part in case.title for part in ("gradient", "batches")))
]


@pytest.mark.audit
@pytest.mark.parametrize("case", [c for c in MECHANISMS if c.mechanism in POWER], ids=str)
def test_mechanisms_stay_below_their_claims_and_come_near(case):
    n_runs, part = POWER[case.mechanism]
    found = audited(case, CONFIDENCE, n_runs=n_runs)
    assert part * case.epsilon < found.bound <= case.epsilon


@pytest.mark.audit
@pytest.mark.parametrize("case", (*CASES, *(set(PERSONS) - set(REPLAYED))), ids=str)
def test_methods_stay_below_their_claims(case, monkeypatch):
    remember_calibrations(monkeypatch)
    remember_schedules(monkeypatch)
    assert audited(case, CONFIDENCE, n_runs=50).bound <= case.epsilon


def test_all_methods_are_in_the_catalogue():
    titles = {case.title for case in METHODS}
    assert set(NAMES) <= titles and len(CASES) >= len(NAMES)
    assert len({str(case) for case in METHODS}) == len(METHODS)


# ------------------------------------------------------------------------------------ planted bugs


@pytest.mark.audit
@pytest.mark.parametrize("name", ["Laplace noise", "Gaussian noise"])
def test_half_of_the_noise_is_found(name, monkeypatch):
    scale_noise(monkeypatch, 0.5)
    (case,) = (replace(case, epsilon=2.0) for case in MECHANISMS if case.mechanism == name)
    assert audited(case, CONFIDENCE, n_runs=1500).bound > case.epsilon


@pytest.mark.audit
@pytest.mark.parametrize("part", [1.0, 0.5])
@pytest.mark.parametrize("case", REPLAYED, ids=str)
def test_half_of_the_noise_for_persons_is_found(case, part, monkeypatch):
    """By what fits add noise to; a bound is wrong with a probability of 1e-6."""
    remember_calibrations(monkeypatch)
    scale_noise(monkeypatch, part)
    n_draws = 80 if case.method == "adaptive" else 150 if case.delta else 400
    bound, claim = replayed(case, CONFIDENCE, n_draws)
    assert 0.5 * claim < bound <= claim if part == 1.0 else bound > claim


def ridge(**options):
    method = OutputPerturbation(alpha=100.0, coef_norm=1e6, intercept_scaling=1.0)
    return DPRidge(4.0, 0, method=method, data_norm=1.0, target_range=(-1, 1), **options)


def test_a_sensitivity_without_the_factor_2_is_found(monkeypatch):
    """The bound for added records, L / (mu n), is taken for replaced ones."""
    options = {"n": 6, "d": 1, "n_starts": 1, "n_steps": 5, "random_state": 0}
    model = ridge(fit_intercept=False)
    assert not worst_case_sensitivity(model, **options).refutes
    full = ProblemConstants.argmin_sensitivity
    monkeypatch.setattr(ProblemConstants, "argmin_sensitivity", lambda *given: 0.5 * full(*given))
    assert worst_case_sensitivity(model, **options).refutes


class Unpenalised(DPRidge):
    """States the sensitivity of a penalised intercept, and has one without a penalty."""

    def fit(self, X, y):
        super().fit(X, y)
        exact = Ridge(alpha=self.method.alpha).fit(X, y)
        self.coef_, self.intercept_ = exact.coef_, exact.intercept_
        return self


def test_an_intercept_without_a_penalty_is_found():
    options = {"n": 6, "d": 1, "n_starts": 1, "n_steps": 5, "random_state": 0}
    model = ridge().set_params(epsilon=1e4)
    assert not worst_case_sensitivity(model, **options).refutes
    assert worst_case_sensitivity(Unpenalised(**model.get_params(deep=False)), **options).refutes


class OnChunks(DPRidge):
    """Fits on chunks of seven records."""

    def fit(self, X, y):
        return super().fit(ArrayRecords(X, y, chunk_rows=7))


@pytest.mark.audit
def test_fits_on_chunks_keep_their_epsilon_and_too_little_noise_is_found(monkeypatch):
    X, y = np.full((30, 1), 0.99), np.ones(30)
    pair = (X, y), (X, np.where(np.arange(30) == 20, -1.0, 1.0))
    model = OnChunks(1.0, 1e-5, data_norm=1.0, target_range=(-1, 1), fit_intercept=False)
    assert not audit_estimator(model, *pair, 120, random_state=0).refutes
    scale_noise(monkeypatch, 0.02)
    assert audit_estimator(model, *pair, 120, random_state=0).refutes


class OneSeed(DPRidge):
    """All fits have the same noise."""

    def fit(self, X, y):
        own, self.random_state = self.random_state, 0
        super().fit(X, y)
        self.random_state = own
        return self


@pytest.mark.audit
def test_a_seed_that_fits_share_is_found():
    X, y = np.ones((4, 1)), np.array([1.0, -1.0, 1.0, -1.0])
    pair = (X, y), (X, np.where(np.arange(4) == 0, -1.0, y))
    model = OneSeed(**ridge(fit_intercept=False).get_params(deep=False))
    assert audit_estimator(model.set_params(epsilon=1.0), *pair, 100, random_state=0).refutes
    unseeded = ridge(fit_intercept=False)
    assert len({float(unseeded.fit(X, y).coef_[0]) for _ in range(5)}) == 5

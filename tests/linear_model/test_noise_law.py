"""One draw for each fit, of what seeds, generators and the system's bits say, and its law.

That fits add the noise of their reports: tests/contract/test_fits.py. The law of the source
itself is tested at the end, with exact bounds on false alarms: chi-squared laws, and the inequality
of Dvoretzky, Kiefer, Wolfowitz and Massart (:func:`assert_law`). Seeded tests either always pass or
always fail; their rate is stated for those who change a seed.
"""

import math
from functools import cache

import numpy as np
import pytest
from scipy import stats

from skdp.algorithms import plan_output_perturbation
from skdp.linear_model import DPLogisticRegression, DPRidge
from skdp.mechanisms import NoiseSource
from skdp.methods import OutputPerturbation
from skdp.privacy.budget import PrivacyBudget
from skdp.problems import HalfSquaredLoss, LogisticLoss, Records, SoftmaxLoss, ball_problem
from skdp.solvers import Newton

N_RECORDS, N_FEATURES, DATA_NORM, SCALING, ALPHA = 100, 2, 5.0, 0.3, 30.0
LOW, HIGH = 10.0, 14.0

#: Model by name: number of classes (0: ridge) and whether an intercept is fitted.
MODELS = {"binary": (2, True), "flat": (2, False), "multinomial": (3, True), "ridge": (0, True)}

every_model = pytest.mark.parametrize("model", MODELS)


def data(n_classes):
    rng = np.random.default_rng(12)
    X = rng.normal(size=(N_RECORDS, N_FEATURES)) * 4.0  # some rows are longer than DATA_NORM
    if n_classes:
        return X, np.arange(N_RECORDS) % n_classes
    return X, 12.0 + 0.2 * X[:, 0] + rng.normal(size=N_RECORDS)  # some targets are out of range


def estimator(model, **kwargs):
    n_classes, fit_intercept = MODELS[model]
    kwargs = {
        "epsilon": 4.0,
        "method": OutputPerturbation(alpha=ALPHA, intercept_scaling=SCALING),
        "data_norm": DATA_NORM,
        "fit_intercept": fit_intercept,
        **kwargs,
    }
    if n_classes:
        return DPLogisticRegression(classes=range(n_classes), **kwargs)
    return DPRidge(target_range=(LOW, HIGH), **kwargs)


def weights_of(fitted):
    """Fitted coefficients as the internal weights that the noise was added to, flat."""
    coef, intercept = np.atleast_2d(fitted.coef_), np.atleast_1d(fitted.intercept_)
    if isinstance(fitted, DPRidge):
        intercept = intercept - (LOW + HIGH) / 2
    if not fitted.fit_intercept:
        return coef.ravel()
    return np.column_stack([coef, intercept / (SCALING * DATA_NORM)]).ravel()


def exact_weights(model):
    """The same coordinates of the exact solution."""
    n_classes, fit_intercept = MODELS[model]
    X, y = data(n_classes)
    rows = Records(X, DATA_NORM, SCALING * DATA_NORM * fit_intercept)
    loss = {0: HalfSquaredLoss((HIGH - LOW) / 2), 2: LogisticLoss()}.get(n_classes)
    if n_classes == 0:
        y = np.clip(y, LOW, HIGH) - (LOW + HIGH) / 2
    problem = ball_problem(rows.with_targets(y), loss or SoftmaxLoss(n_classes), ALPHA)
    plan = plan_output_perturbation(problem.constants, PrivacyBudget(1.0), accuracy_fraction=1e-9)
    point = Newton().solve(problem, plan.accuracy).point
    if loss is None:
        point = (problem.loss.basis @ point.reshape(n_classes - 1, -1)).ravel()
    return point


def assert_law(sample, law, rate):
    """The sample is drawn from `law`; false alarms at most `rate`, for every sample size.

    Massart (1990): the empirical distribution function of n independent draws is further than
    t from the true one with probability at most ``2 exp(-2 n t^2)``.
    """
    allowed = math.sqrt(math.log(2.0 / rate) / (2.0 * len(sample)))
    assert stats.kstest(sample, law.cdf).statistic <= allowed


def assert_plausible(statistic, law, rate):
    """`statistic` is not in either tail of `law`; false alarms exactly `rate`."""
    assert law.ppf(rate / 2) <= statistic <= law.isf(rate / 2)


# ------------------------------------------------------------------------------- the random bits


@every_model
def test_system_noise_ignores_seeds_of_numpy(model):
    """``random_state=None``: seeding numpy's global generator does not repeat the noise.

    False alarms: two equal normal draws in double precision, below 1e-15.
    """
    X, y = data(MODELS[model][0])
    state = np.random.get_state()  # noqa: NPY002
    try:
        points = []
        for _ in range(2):
            np.random.seed(0)  # noqa: NPY002
            points.append(weights_of(estimator(model).fit(X, y)))
    finally:
        np.random.set_state(state)  # noqa: NPY002
    assert (points[0] != points[1]).all()


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
def test_generators_decide_the_noise_and_move_on(make):
    """A generator gives reproducible noise, but never the same noise twice. No false alarms."""
    X, y = data(2)
    first, second = (
        [weights_of(estimator("binary", random_state=generator).fit(X, y)) for _ in range(2)]
        for generator in (make(3), make(3))
    )
    np.testing.assert_array_equal(first, second)
    assert (first[0] != first[1]).all()


# ---------------------------------------------------------- release = solution + scale * draw


@pytest.mark.mostly("slow", 1)
@every_model
def test_large_noise_is_projected_onto_the_ball(model):
    """The release is the projection of solution plus noise, no more and no less.

    The same seed gives the same standard draw under a large and a small budget.
    """
    X, y = data(MODELS[model][0])
    exact, on_sphere = exact_weights(model), 0
    for seed in range(40):
        inside = estimator(model, delta=0.01, random_state=seed).fit(X, y)
        outside = estimator(model, epsilon=0.01, delta=1e-3, random_state=seed).fit(X, y)
        radius = outside.privacy_.plan["radius"]
        draw = (weights_of(inside) - exact) / inside.privacy_.releases[0].noise_scale
        noisy = exact + draw * outside.privacy_.releases[0].noise_scale
        expected = noisy * min(1.0, radius / np.linalg.norm(noisy))
        released = weights_of(outside)
        np.testing.assert_allclose(released, expected, rtol=0, atol=5e-3 * radius)
        assert np.linalg.norm(released) <= radius * (1 + 1e-12)
        on_sphere += np.linalg.norm(noisy) > radius
    assert on_sphere >= 20


# ------------------------------------------------------------------------------------ NoiseSource


@cache
def source_sample():
    return NoiseSource(np.random.default_rng(99).bytes).standard_normal(1_000_000)


def test_source_draws_normal_variables():
    """A million draws: distribution, mean and variance. False-alarm rate 3e-6."""
    sample = source_sample()
    assert_law(sample, stats.norm(), 1e-6)
    assert_plausible(sample.sum() / math.sqrt(len(sample)), stats.norm(), 1e-6)
    assert_plausible((sample**2).sum(), stats.chi2(len(sample)), 1e-6)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_source_has_normal_tails(sign):
    """As many draws beyond each edge as the normal law has, on either side. Rate 1e-5 each."""
    sample = source_sample()
    for edge in (0.5, 2.0, 3.0, 4.0, 4.5):
        beyond = int((sign * sample > edge).sum())
        assert_plausible(beyond, stats.binom(len(sample), stats.norm.sf(edge)), 1e-5)


def test_source_draws_are_uncorrelated_in_sequence():
    """Neighbouring draws are independent: given one of them the product is normal. Rate 1e-5."""
    sample = source_sample()
    first, second = sample[::2], sample[1::2]
    assert_plausible(first @ second / np.linalg.norm(first), stats.norm(), 1e-5)

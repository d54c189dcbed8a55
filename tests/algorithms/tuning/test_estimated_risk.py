"""Tuning on released second moments: the estimated risk, and models without noise."""

import dataclasses
import math

import numpy as np
import pytest
from ridge_tuning import HUGE, Recorder, exact_moments, one_alpha, plan_of, records, tune

from skdp.algorithms.tuning import PrivateMoments, private_moments
from skdp.algorithms.tuning.alpha_search import RidgeModels, SteinRisk
from skdp.algorithms.tuning.moments import unpack
from skdp.mechanisms import NoiseSource
from skdp.privacy.budget import PrivacyBudget
from skdp.problems import PenaltyGroups, Records

pytestmark = pytest.mark.usefixtures("kept_order")


GROUPS = {
    "one": PenaltyGroups((0, 0, 0), (1.0, 1.0, 0.3), 1e-3, 10.0),
    "two": PenaltyGroups((0, 1, 1), (1.0, 0.5, 1.0), 1e-3, 10.0),
}


def noisy_moments(rng, H, c, s, s_c, n=10**15):
    """Gaussian noise; so many records that the last term of the estimate vanishes."""
    E = unpack(s * rng.standard_normal(len(c) * (len(c) + 1) // 2), len(c))
    return PrivateMoments(
        matrix=H + E, vector=c + s_c * rng.standard_normal(len(c)), square=0.0, deviation=s,
        vector_deviation=s_c, n_records=n,
    )  # fmt: skip


def biases(groups, lowest, draws, seed):
    """Estimates minus losses on the records, so for noisy losses, and how many are indefinite."""
    rng = np.random.default_rng(seed)
    penalties = GROUPS[groups]
    H = np.array([[0.5, 0.2, 0.0], [0.2, 0.4, 0.1], [0.0, 0.1, 0.3]])
    H += (lowest - np.linalg.eigvalsh(H)[0]) * np.eye(3)
    c, alpha = np.array([0.3, -0.2, 0.25]), np.array([0.05, 0.2])[: penalties.n_groups]
    estimates, plain, indefinite = np.empty(draws), np.empty(draws), 0
    fixed = np.linalg.solve(H + np.diag(penalties.diagonal(alpha)), c)
    for i in range(draws):
        moments = noisy_moments(rng, H, c, 0.1, 0.07)
        ridge = RidgeModels(moments, penalties)
        w = ridge.coefficients(alpha)
        # the noise of the loss of a fixed model: of mean zero, it makes the variance smaller
        loss = 0.5 * w @ H @ w - c @ w
        loss += 0.5 * fixed @ (moments.matrix - H) @ fixed - (moments.vector - c) @ fixed
        estimates[i] = SteinRisk(ridge, 1.0)(alpha)[0] - loss
        plain[i] = 0.5 * w @ moments.matrix @ w - moments.vector @ w - loss
        indefinite += np.linalg.eigvalsh(moments.matrix)[0] < 0
    return estimates, plain, indefinite / draws


@pytest.mark.audit
def test_estimate_is_unbiased():
    """Lemma 2, where H is positive definite with noise and without.

    The mean of 2,500 differences is within 4 standard errors: false-alarm rate about 1e-4. That
    of the noisy loss itself is eight times further away.
    """
    estimates, plain, indefinite = biases("two", 0.6, 2_500, 1)
    assert indefinite == 0.0
    allowed = 4.0 * estimates.std() / math.sqrt(len(estimates))
    assert abs(estimates.mean()) <= allowed
    assert plain.mean() < -8.0 * allowed


def test_estimate_is_too_high_where_moments_are_indefinite():
    """Lemma 2 with the projection: never too low in expectation, here far too high."""
    estimates, _, indefinite = biases("one", 0.05, 300, 3)
    assert 0.3 < indefinite < 0.7
    assert estimates.mean() >= 4.0 * estimates.std() / math.sqrt(len(estimates))


@pytest.mark.audit
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_estimate_is_unbiased_for_released_moments(delta):
    """From records to the estimate, with the noise of the plan, spherical Laplace too.

    Within 4 standard errors (rate about 1e-4 for Gaussian noise, where the lemma is exact).
    """
    X, t = records(400, 2)
    rows = Records(X, 1.0)
    plan = plan_of(rows, budget=PrivacyBudget(3.0, delta))
    exact, penalties, alpha = exact_moments(rows, t), one_alpha(2), np.array([0.05])
    H, c, source = exact[:2, :2], exact[:2, 2], Recorder(5)
    fixed = np.linalg.solve(H + 0.05 * np.eye(2), c)
    difference = np.empty(600)
    for i in range(len(difference)):
        out = private_moments(rows.with_targets(t), plan, source)
        ridge = RidgeModels(out, penalties)
        w = ridge.coefficients(alpha)
        estimate = SteinRisk(ridge, 1.0)(alpha)[0]
        error = out.square + w @ (out.matrix @ w - 2 * out.vector)
        spread = min(max(error, 0.0), 1.0) / 400
        estimate -= spread * np.trace(ridge.inverse(alpha) @ ridge.convex)
        loss = 0.5 * w @ H @ w - c @ w
        loss += 0.5 * fixed @ (out.matrix - H) @ fixed - (out.vector - c) @ fixed
        difference[i] = estimate - loss
    assert abs(difference.mean()) <= 4.0 * difference.std() / math.sqrt(len(difference))


def finite_differences(risk, alpha, step=1e-5):
    logs = np.log(alpha)
    return np.array(
        [
            (risk(np.exp(logs + step * e))[0] - risk(np.exp(logs - step * e))[0]) / (2 * step)
            for e in np.eye(len(alpha))
        ]
    )


@pytest.mark.parametrize("groups", GROUPS)
@pytest.mark.parametrize("seed", [0, 3])
def test_gradients_against_finite_differences(groups, seed):
    """Of the estimate with all its terms, also for indefinite matrices."""
    rng = np.random.default_rng(seed)
    penalties = GROUPS[groups]
    alpha = np.exp(rng.uniform(-4, 0, penalties.n_groups))
    H = (0.1 + 0.1 * seed) * np.eye(3)
    moments = noisy_moments(rng, H, 0.1 * rng.normal(size=3), 0.2, 0.1, n=5)
    moments = dataclasses.replace(moments, square=2.0)  # so is the variance of the residuals
    for risk in (
        SteinRisk(RidgeModels(moments, penalties), 2.0),
        SteinRisk(RidgeModels(moments, penalties), 1e-3),  # the variance is clipped
    ):
        expected = finite_differences(risk, alpha)
        np.testing.assert_allclose(risk(alpha)[1], expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("residual_variance", [None, 0.3])
@pytest.mark.parametrize("relative", [(1.0,) * 4, (1.0, 1.0, 1.0, 0.01), (1.0, 7.0, 1.0, 1.0)])
@pytest.mark.parametrize("seed", [0, 1])
def test_one_alpha_for_all_costs_no_inverse(relative, seed, residual_variance, monkeypatch):
    """The same values as those of any alphas, for indefinite matrices and centers too."""
    rng = np.random.default_rng(seed)
    penalties = PenaltyGroups((0, 1, 1, 0), relative, 1e-3, 10.0)
    H = np.diag([0.1 * seed, 0.2, 0.3, 0.4])
    moments = noisy_moments(rng, H, 0.1 * rng.normal(size=4), 0.2, 0.1, n=7)
    ridge = RidgeModels(moments, penalties, rng.normal(size=4) * (seed % 2))
    risk = SteinRisk(ridge, 2.0, residual_variance)
    alphas = np.geomspace(1e-3, 10.0, 9)
    expected = [risk(np.full(2, alpha))[0] for alpha in alphas]
    monkeypatch.setattr(RidgeModels, "inverse", None)
    np.testing.assert_allclose(risk.uniform(alphas), expected, rtol=1e-9)


@pytest.mark.parametrize("relative", [(1.0, 1.0, 1e-14), (1.0, 3.0, 0.5)])
def test_one_alpha_where_the_change_would_cancel_or_is_larger(relative):
    rng = np.random.default_rng(0)
    penalties = PenaltyGroups((0, 0, 0), relative, 1e-3, 10.0)
    risk = SteinRisk(RidgeModels(noisy_moments(rng, np.eye(3), np.ones(3), 0.1, 0.1), penalties), 2)
    expected = [risk(np.array([alpha]))[0] for alpha in (1e-3, 1.0)]
    np.testing.assert_allclose(risk.uniform(np.array([1e-3, 1.0])), expected, rtol=1e-12)


def test_without_noise_the_risk_is_that_of_mallows():
    """Training loss plus the variance of the residuals times the degrees of freedom over n."""
    X, y = records(80, 4)
    rows = Records(X, 1.0)
    matrix = rows.materialise()
    moments = private_moments(rows.with_targets(y), plan_of(rows, budget=HUGE), NoiseSource())
    risk = SteinRisk(RidgeModels(moments, one_alpha(4)), 1.0)
    for alpha in (1e-4, 0.01, 1.0):
        hat = matrix @ np.linalg.solve(matrix.T @ matrix + 80 * alpha * np.eye(4), matrix.T)
        error = np.mean((y - hat @ y) ** 2)
        expected = 0.5 * error + error * np.trace(hat) / 80 - 0.5 * np.mean(y**2)
        assert risk(np.array([alpha]))[0] == pytest.approx(expected, abs=1e-9)


def test_groups_equal_a_direct_solve():
    X, y = records(200, 4, seed=2)
    penalties = PenaltyGroups((0, 1, 0, 1, 0), (1.0, 1.0, 1.0, 1.0, 0.25), 1e-5, 1.0)
    tuned = tune(X, y, HUGE, penalties=penalties, intercept=0.5)
    matrix = Records(X, 1.0, 0.5).materialise()
    alphas = tuned.alpha[[0, 1, 0, 1, 0]] * [1.0, 1.0, 1.0, 1.0, 0.25]
    exact = np.linalg.solve(matrix.T @ matrix / 200 + np.diag(alphas), matrix.T @ y / 200)
    np.testing.assert_allclose(tuned.point, exact, atol=1e-9)
    assert tuned.path.shape[1] == 2
    np.testing.assert_array_equal(tuned.path[-1], tuned.alpha)

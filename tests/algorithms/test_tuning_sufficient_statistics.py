"""Tuning on released second moments: the proofs of docs/theory/tuning.md, attacked."""

from __future__ import annotations

import dataclasses
import math
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_noise import PlainNoise
from scipy import stats
from scipy.optimize import minimize_scalar
from sklearn.linear_model import Ridge, RidgeCV
from sklearn.model_selection import PredefinedSplit

import skdp.algorithms.tuning.sufficient_statistics as module
from skdp.algorithms import Run
from skdp.algorithms.tuning import (
    PrivateMoments,
    plan_private_moments,
    private_moments,
)
from skdp.algorithms.tuning import tune as tune_by
from skdp.algorithms.tuning.alpha_search import CrossRisk, RidgeModels, SteinRisk
from skdp.algorithms.tuning.moments import pack, unpack
from skdp.mechanisms import NoiseSource
from skdp.privacy.budget import PrivacyBudget
from skdp.problems import Design, HalfSquaredLoss, PenaltyGroups, Records
from skdp.problems.rounding import chain

#: No noise to speak of.
HUGE = PrivacyBudget(1e20, 0.0)
GAUSSIAN, PURE = PrivacyBudget(1.0, 1e-6), PrivacyBudget(1.0, 0.0)


class Recorder(PlainNoise):
    """Seeded noise that counts the numbers it was asked for; or none at all."""

    def __init__(self, seed=0, silent=False):
        super().__init__(np.random.default_rng(seed).bytes)
        self.sizes, self.silent = [], silent

    def standard_normal(self, size):
        self.sizes.append(size)
        return super().standard_normal(size) * (not self.silent)


def tune_by_sufficient_statistics(records, target_bound, penalties, budget, **options):
    loss = HalfSquaredLoss(target_bound)
    return tune_by("sufficient_statistics", records, loss, penalties, budget, **options)


def records(n=60, d=3, seed=0, target_bound=1.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) / math.sqrt(d)
    y = X @ np.linspace(1.0, -0.5, d) + 0.2 * rng.normal(size=n)
    return X, np.clip(target_bound * y, -target_bound, target_bound)


def one_alpha(p, low=1e-6, high=10.0):
    return PenaltyGroups((0,) * p, (1.0,) * p, low, high)


def plan_of(rows, target_bound=1.0, budget=GAUSSIAN, n_records=None, coef_norm=1.0):
    design = dataclasses.replace(Design.of(rows), n_records=n_records or rows.n_records)
    return plan_private_moments(budget, design, target_bound=target_bound, coef_norm=coef_norm)


def exact_moments(rows, targets, weight=1.0):
    """Mean of ``u u'`` for ``u = (x, weight t)``, without the package's blocks."""
    X = rows.materialise()
    U = np.column_stack([X.toarray() if sp.issparse(X) else X, weight * targets])
    return U.T @ U / len(U)


def tune(X, y, budget=GAUSSIAN, *, bound=1.0, penalties=None, intercept=0.0, **kwargs):
    rows = Records(X, 1.0, intercept)
    penalties = one_alpha(rows.width) if penalties is None else penalties
    kwargs = {"coef_norm": 1.0, "run": Run(noise=Recorder()), **kwargs}
    return tune_by_sufficient_statistics(rows.with_targets(y), bound, penalties, budget, **kwargs)


# ------------------------------------------------------------------------------- the coordinates


@pytest.mark.parametrize("size", [1, 2, 5])
def test_coordinates_are_an_isometry(size):
    rng = np.random.default_rng(size)
    matrices = rng.normal(size=(2, size, size))
    A, B = matrices + matrices.transpose(0, 2, 1)
    assert pack(A).shape == (size * (size + 1) // 2,)
    np.testing.assert_allclose(unpack(pack(A), size), A, rtol=1e-15)
    np.testing.assert_array_equal(unpack(pack(A), size), unpack(pack(A), size).T)
    assert pack(A) @ pack(B) == pytest.approx((A * B).sum(), rel=1e-12)


# ---------------------------------------------------------------------------------- sensitivity


@pytest.mark.search
@settings(max_examples=200, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    n=st.integers(1, 6),
    d=st.integers(1, 4),
    data_norm=st.sampled_from([1e-3, 1.0, 50.0]),
    target_bound=st.sampled_from([1e-2, 1.0, 1e3]),
    coef_norm=st.sampled_from([1e-9, 1.0, 100.0]),
    intercept=st.sampled_from([0.0, 0.3, 5.0]),
    size=st.sampled_from([0.5, 1.0, 1e10, 1e300]),
)
def test_neighbours_never_move_further(
    seed, n, d, data_norm, target_bound, coef_norm, intercept, size
):
    """One replaced record moves the value before the noise by at most the sensitivity."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * data_norm * size
    t = rng.choice([-1.0, 1.0, 0.3], size=n) * target_bound
    i = rng.integers(n)
    other_X, other_t = X.copy(), t.copy()
    other_X[i] = rng.choice([-1.0, 0.0, 1.0]) * X[i] + rng.choice([0.0, 1.0]) * rng.normal(size=d)
    other_t[i] = rng.choice([-t[i], t[i]])
    values = []
    for matrix, targets in ((X, t), (other_X, other_t)):
        rows = Records(matrix, data_norm, intercept * data_norm)
        plan = plan_of(rows, target_bound, coef_norm=coef_norm)
        out = private_moments(rows.with_targets(targets), plan, Recorder(silent=True))
        square = out.square * plan.weight**2
        column = np.append(out.vector * plan.weight, square)[:, None]
        values.append(np.hstack([np.vstack([out.matrix, column[:-1].T]), column]))
        expected = exact_moments(rows, targets, plan.weight)
        np.testing.assert_allclose(values[-1], expected, rtol=1e-9, atol=1e-9 * data_norm**2)
    assert np.linalg.norm(values[0] - values[1]) <= plan.mechanism.sensitivity


@pytest.mark.parametrize("intercept", [0.0, 0.1])
@pytest.mark.parametrize("n", [1, 50])
def test_sensitivity_is_attained(n, intercept):
    """Two longest records with orthogonal ``(x, gamma t)``."""
    rows = Records(np.zeros((n, 2)), 1.0, intercept)
    plan = plan_of(rows)
    cosine = plan.weight**2 - intercept**2
    first, second = [1.0, 0.0], [cosine, math.sqrt(1.0 - cosine**2)]
    values = []
    for row, target in ((first, 1.0), (second, -1.0)):
        X, t = np.full((n, 2), 0.4), np.full(n, 0.3)
        X[-1], t[-1] = row, target
        values.append(exact_moments(Records(X, 1.0, intercept), t, plan.weight))
    moved = np.linalg.norm(values[0] - values[1])
    assert 0.999 * plan.mechanism.sensitivity <= moved <= plan.mechanism.sensitivity


def test_sensitivity_has_room_for_rounding():
    """It grows over the exact one with the length of the sums."""
    exact = math.sqrt(2.0) * 2.0 / 10**9
    design = Design(1.0, 3, 10**9, block_size=1000)
    plan = plan_private_moments(GAUSSIAN, design, target_bound=1.0, coef_norm=1e-9)
    rounding = 2.0 * chain(10**9, 1000) * 2.0**-53 * 2.0  # of two sums, relative to U = 2
    assert exact + rounding < plan.mechanism.sensitivity < 1.001 * exact


def test_weight_minimises_the_noise_of_the_gradient():
    for k in (1e-3, 0.5, 1.0, 7.0, 1e4):

        def noise(log_ratio, k=k):
            return 2 * math.log1p(math.exp(log_ratio)) + math.log(k**2 + math.exp(-log_ratio))

        best = minimize_scalar(noise, bounds=(-30, 5), method="bounded", options={"xatol": 1e-10})
        plan = plan_private_moments(
            GAUSSIAN, Design(3.0, 3, 10), target_bound=2.0, coef_norm=k * 2.0 / 3.0
        )
        ratio = (plan.weight * 2.0 / 3.0) ** 2
        assert noise(math.log(ratio)) <= best.fun + 1e-12
        assert 0 < ratio <= 1.0
        bound = math.sqrt(2.0) * 9.0 * (1.0 + ratio) / 10
        assert plan.mechanism.sensitivity == pytest.approx(bound, rel=1e-8)


# ------------------------------------------------------------------------------------------ noise


@pytest.mark.parametrize("budget", [GAUSSIAN, PURE])
def test_noise_has_the_stated_law(budget):
    """Released minus exact moments, over the stated scale, are standard noise.

    False-alarm rate 1e-4 per case; seeded.
    """
    X, t = records(20, 2)
    rows = Records(X, 1.0, 0.1)
    plan = plan_of(rows, budget=budget)
    exact, m, draws = exact_moments(rows, t), 10, 600
    assert plan.dimension == m
    noise = np.empty((draws, m))
    for seed in range(draws):
        out = private_moments(rows.with_targets(t), plan, Recorder(seed))
        assert np.array_equal(out.matrix, out.matrix.T)
        released = np.empty((4, 4))
        released[:3, :3], released[3, 3] = out.matrix - exact[:3, :3], out.square - exact[3, 3]
        released[:3, 3] = released[3, :3] = out.vector - exact[:3, 3]
        released[:, 3] *= plan.weight
        released[3] *= plan.weight
        noise[seed] = pack(released) / plan.mechanism.noise_scale
    rate = 1e-4 / (m + 1)
    norms = np.linalg.norm(noise, axis=1)
    if budget is PURE:
        law, statistic = stats.gamma(m * draws), norms.sum()
    else:
        law, statistic = stats.chi2(m * draws), (norms**2).sum()
    assert law.ppf(rate / 2) <= statistic <= law.isf(rate / 2)
    directions = noise / norms[:, None]
    allowed = math.sqrt(math.log(2.0 / rate) / (2.0 * draws))
    for sample in directions.T:  # uniform on the sphere
        beta = stats.beta((m - 1) / 2, (m - 1) / 2)
        assert stats.kstest((1 + sample) / 2, beta.cdf).statistic <= allowed
    # and what is said about single entries
    scale = plan.deviation / plan.mechanism.noise_scale
    assert scale == pytest.approx(math.sqrt(m + 1) if budget is PURE else 1.0)


def test_noise_is_drawn_once_for_each_entry():
    """(p + 1)(p + 2) / 2 numbers: one for each pair of mirrored entries."""
    X, t = records(10, 3)
    noise = Recorder()
    tune(X, t, intercept=0.5, run=Run(noise=noise))
    assert noise.sizes == [15]
    noise = Recorder()
    tune(X, t, intercept=0.5, run=Run(noise=noise), n_folds=3)
    assert noise.sizes == [15] * 3


@pytest.mark.audit
@pytest.mark.parametrize("budget", [GAUSSIAN, PURE])
def test_stated_deviations(budget):
    """Off the diagonal and in the vector the noise is as large as stated. Rate 1e-4; seeded."""
    X, t = records(20, 2)
    rows, draws = Records(X, 1.0), 3000
    plan = plan_of(rows, budget=budget)
    source = Recorder(1)
    outs = [private_moments(rows.with_targets(t), plan, source) for _ in range(draws)]
    exact = exact_moments(rows, t)
    for value, truth, deviation in (
        ([out.matrix[1, 1] for out in outs], exact[1, 1], outs[0].deviation),
        ([out.matrix[0, 1] for out in outs], exact[0, 1], outs[0].deviation / math.sqrt(2)),
        ([out.vector[1] for out in outs], exact[1, 2], outs[0].vector_deviation),
    ):
        squares = ((np.array(value) - truth) / deviation) ** 2
        # means of squares of nearly normal variables: 4.5 deviations of a chi-squared law
        assert abs(squares.mean() - 1.0) <= 4.5 * math.sqrt(2.0 / draws)


# ------------------------------------------------------------------------------------------ folds


def test_a_record_is_seen_by_its_own_fold_alone():
    X, t = records(17, 2)
    rows = Records(X, 1.0)
    changed_X, changed_t = X.copy(), t.copy()
    changed_X[10], changed_t[10] = [0.9, 0.1], -t[10]
    changed = Records(changed_X, 1.0)
    plan = plan_of(rows, n_records=17 // 3)
    for k in range(3):
        part = slice(k, None, 3)
        out = private_moments(rows.with_targets(t), plan, Recorder(k), part)
        other = private_moments(changed.with_targets(changed_t), plan, Recorder(k), part)
        assert out.n_records == len(range(k, 17, 3))
        assert np.array_equal(out.matrix, other.matrix) == (k != 10 % 3)
        assert np.array_equal(out.vector, other.vector) == (k != 10 % 3)
        silent = private_moments(rows.with_targets(t), plan, Recorder(silent=True), part)
        expected = exact_moments(Records(X[k::3], 1.0), t[k::3])
        np.testing.assert_allclose(silent.matrix, expected[:2, :2], atol=1e-15)
        np.testing.assert_allclose(silent.vector, expected[:2, 2], atol=1e-15)
        assert silent.square == pytest.approx(expected[2, 2])


def test_folds_have_the_whole_budget():
    X, t = records(31, 2)
    for folds in (2, 3):
        tuned = tune(X, t, n_folds=folds)
        (release,) = tuned.plan.releases
        # the sensitivity, n_records and the reference are those of one fold
        assert release.n_records == tuned.plan.to_dict()["fold_records"] == 31 // folds
        assert release.reference.endswith(f"in each of {folds} folds")
        assert tuned.plan.to_dict()["n_folds"] == folds
        alone = plan_of(Records(X, 1.0), n_records=31 // folds).mechanism
        assert (release.sensitivity, release.noise_scale) == (alone.sensitivity, alone.noise_scale)
        assert release.event == alone.event("replace_one")
    tuned = tune(X, t)
    assert tuned.plan.releases[0].n_records == 31 and "fold" not in tuned.plan.releases[0].reference
    assert tuned.plan.to_dict()["n_folds"] is None
    with pytest.raises(ValueError, match="records, the plan is for"):
        private_moments(
            Records(X, 1.0, targets=t), plan_of(Records(X, 1.0)), Recorder(), slice(0, None, 2)
        )
    for folds in (1, 32):
        with pytest.raises(ValueError, match="n_folds"):
            tune(X, t, n_folds=folds)


def test_pooled_moments():
    """Means weighted by numbers of records; variances by their squares."""
    rng = np.random.default_rng(0)
    parts = [
        PrivateMoments(rng.normal(size=(2, 2)), rng.normal(size=2), rng.normal(), s, 3 * s, n)
        for s, n in ((0.1, 10), (0.2, 20), (0.3, 70))
    ]
    pooled = PrivateMoments.pooled(parts)
    assert pooled.n_records == 100
    for name in ("matrix", "vector", "square"):
        mean = sum(part.n_records / 100 * getattr(part, name) for part in parts)
        np.testing.assert_allclose(getattr(pooled, name), mean)
    assert pooled.deviation == pytest.approx(math.sqrt(0.01**2 + 0.04**2 + 0.21**2))
    assert pooled.vector_deviation == pytest.approx(3 * pooled.deviation)


# -------------------------------------------------------------------------------- Stein's identity

GROUPS = {
    "one": PenaltyGroups((0, 0, 0), (1.0, 1.0, 0.3), 1e-3, 10.0),
    "two": PenaltyGroups((0, 1, 1), (1.0, 0.5, 1.0), 1e-3, 10.0),
}


def noisy_moments(rng, H, c, s, s_c, n=10**15):
    """Gaussian noise; so many records that the last term of the estimate vanishes."""
    E = unpack(s * rng.standard_normal(len(c) * (len(c) + 1) // 2), len(c))
    return PrivateMoments(H + E, c + s_c * rng.standard_normal(len(c)), 0.0, s, s_c, n)


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
@pytest.mark.parametrize("groups", GROUPS)
def test_estimate_is_unbiased(groups):
    """Lemma 2, where H is positive definite with noise and without.

    The mean of 12,000 differences is within 4 standard errors: false-alarm rate about 1e-4. That
    of the noisy loss itself is twenty times further away.
    """
    estimates, plain, indefinite = biases(groups, 0.6, 12_000, 1)
    assert indefinite == 0.0
    allowed = 4.0 * estimates.std() / math.sqrt(len(estimates))
    assert abs(estimates.mean()) <= allowed
    assert plain.mean() < -20.0 * allowed


def test_estimate_is_too_high_where_moments_are_indefinite():
    """Lemma 2 with the projection: never too low in expectation, here far too high."""
    estimates, _, indefinite = biases("one", 0.05, 1_000, 3)
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
    difference = np.empty(2000)
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
@pytest.mark.parametrize("seed", range(6))
def test_gradients_against_finite_differences(groups, seed):
    """Of the estimate with all its terms, also for indefinite matrices, and of folds."""
    rng = np.random.default_rng(seed)
    penalties = GROUPS[groups]
    alpha = np.exp(rng.uniform(-4, 0, penalties.n_groups))
    parts = [
        noisy_moments(rng, (0.1 + 0.1 * seed) * np.eye(3), 0.1 * rng.normal(size=3), 0.2, 0.1, n=5)
        for _ in range(3)
    ]
    parts[0] = dataclasses.replace(parts[0], square=2.0)  # so is the variance of the residuals
    for risk in (
        SteinRisk(RidgeModels(parts[0], penalties), 2.0),
        SteinRisk(RidgeModels(parts[0], penalties), 1e-3),  # the variance is clipped
        CrossRisk(parts, penalties),
    ):
        expected = finite_differences(risk, alpha)
        np.testing.assert_allclose(risk(alpha)[1], expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("residual_variance", [None, 0.3])
@pytest.mark.parametrize("relative", [(1.0,) * 4, (1.0, 1.0, 1.0, 0.01), (1.0, 7.0, 1.0, 1.0)])
@pytest.mark.parametrize("seed", range(4))
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


# --------------------------------------------------------------------- without noise: scikit-learn


@pytest.mark.parametrize("intercept", [0.0, 0.4])
def test_without_noise_models_are_those_of_scikit_learn(intercept):
    X, y = records(80, 4)
    rows = Records(X, 1.0, intercept)
    matrix = rows.materialise()
    plan = plan_of(rows, budget=HUGE)
    moments = private_moments(rows.with_targets(y), plan, NoiseSource())
    ridge = RidgeModels(moments, one_alpha(rows.width))
    for alpha in (1e-6, 1e-2, 10.0):
        exact = Ridge(alpha=80 * alpha, fit_intercept=False).fit(matrix, y)
        np.testing.assert_allclose(ridge.coefficients(np.array([alpha])), exact.coef_, atol=1e-9)


@pytest.mark.mostly("slow", 1)
@pytest.mark.parametrize("folds", [2, 3])
def test_without_noise_folds_choose_as_brute_force_cross_validation(folds):
    n = 84  # equal folds: scores are means over folds
    X, y = records(n, 4, seed=3)
    matrix = Records(X, 1.0).materialise()
    split = PredefinedSplit(np.arange(n) % folds)

    def brute(alpha):
        scores = []
        for train, test in split.split():
            model = Ridge(alpha=len(train) * alpha, fit_intercept=False)
            model.fit(matrix[train], y[train])
            scores.append(0.5 * np.mean((y[test] - model.predict(matrix[test])) ** 2))
        return float(np.mean(scores))

    tuned = tune(X, y, HUGE, n_folds=folds)
    best = min(brute(alpha) for alpha in np.geomspace(1e-6, 10.0, 100))
    assert brute(tuned.alpha[0]) <= best + 1e-8
    exact = Ridge(alpha=n * tuned.alpha[0], fit_intercept=False).fit(matrix, y)
    np.testing.assert_allclose(tuned.point, exact.coef_, atol=1e-9)
    # the values themselves, but for the mean of y^2
    rows = Records(X, 1.0)
    plan = plan_of(rows, budget=HUGE, n_records=n // folds)
    parts = [
        private_moments(rows.with_targets(y), plan, NoiseSource(), slice(k, None, folds))
        for k in range(folds)
    ]
    risk = CrossRisk(parts, one_alpha(4))
    for alpha in (1e-4, 0.01, 1.0):
        value = risk(np.array([alpha]))[0] + 0.5 * np.mean(y**2)
        assert value == pytest.approx(brute(alpha), abs=1e-8)


@pytest.mark.parametrize("folds", [2, 4])
def test_without_noise_folds_choose_as_ridge_cv(folds):
    """scikit-learn's RidgeCV itself, choice and score; its alpha is ours times n."""
    n, rng = 120, np.random.default_rng(1)
    X = rng.normal(size=(n, 6)) / 4
    y = np.clip(X[:, 0] + 0.4 * rng.normal(size=n), -1, 1)
    rows = Records(X, 1.0)
    matrix, grid, train = rows.materialise(), np.geomspace(1e-4, 1.0, 25), n - n // folds
    theirs = RidgeCV(
        train * grid,
        fit_intercept=False,
        scoring="neg_mean_squared_error",
        cv=PredefinedSplit(np.arange(n) % folds),
    ).fit(matrix, y)
    plan = plan_of(rows, budget=HUGE, n_records=n // folds)
    parts = [
        private_moments(rows.with_targets(y), plan, NoiseSource(), slice(k, None, folds))
        for k in range(folds)
    ]
    risk = CrossRisk(parts, one_alpha(6, 1e-4, 1.0))
    values = risk.uniform(grid) + 0.5 * np.mean(y**2)
    best = int(np.argmin(values))
    assert 0 < best < 24
    assert theirs.alpha_ == pytest.approx(train * grid[best])
    assert -theirs.best_score_ == pytest.approx(2 * values[best], abs=1e-9)
    # the whole: between the neighbours on that grid, and the model of all records
    tuned = tune(X, y, HUGE, penalties=one_alpha(6, 1e-4, 1.0), n_folds=folds)
    assert grid[best - 1] < tuned.alpha[0] < grid[best + 1]
    again = Ridge(n * tuned.alpha[0], fit_intercept=False).fit(matrix, y)
    np.testing.assert_allclose(tuned.point, again.coef_, atol=1e-8)


def test_without_noise_and_folds_the_risk_is_that_of_mallows():
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


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("folds", [None, 2])
def test_groups_find_the_alphas_in_any_unit_of_the_targets(unit, folds):
    """Two features matter, four do not: their alphas differ, and better than one for all."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 6)) / 4
    y = X[:, 0] - X[:, 1] + 0.5 * rng.normal(size=600)
    y = unit * np.clip(y, -2, 2)
    penalties = PenaltyGroups((0, 0, 1, 1, 1, 1), (1.0,) * 6, 1e-6, 10.0)
    tuned = tune(X, y, HUGE, bound=2 * unit, penalties=penalties, n_folds=folds)
    assert tuned.alpha[1] > 10 * tuned.alpha[0]
    reference = tune(X, y / unit, HUGE, bound=2.0, penalties=penalties, n_folds=folds)
    np.testing.assert_allclose(tuned.point, reference.point * unit, rtol=1e-3, atol=1e-4 * unit)


# ------------------------------------------------------------------------------------ the contract


@pytest.mark.mostly("slow", 3)
@pytest.mark.parametrize("folds", [None, 2, 5])
@pytest.mark.parametrize("seed", range(8))
def test_bounds_are_respected(folds, seed):
    """Whatever the noise; for all alphas that are looked at."""
    X, y = records(30, 3)
    for low, high in ((1e-6, 10.0), (0.1, 0.3), (1e-12, 1e-11)):
        penalties = PenaltyGroups((0, 1, 1), (1.0, 1.0, 0.01), low, high)
        tuned = tune(X, y, penalties=penalties, n_folds=folds, run=Run(noise=Recorder(seed)))
        assert low <= tuned.path.min() and tuned.path.max() <= high
        assert np.isfinite(tuned.point).all()


@pytest.mark.parametrize("folds", [None, 2])
def test_only_released_numbers_are_used(folds, monkeypatch):
    """Other records and another order with the same released moments: the same result."""
    X, y = records(40, 3)
    released, original = [], module.private_moments

    def recording(*args, **kwargs):
        released.append(original(*args, **kwargs))
        return released[-1]

    monkeypatch.setattr(module, "private_moments", recording)
    first = tune(X, y, n_folds=folds)
    queue = list(released)
    monkeypatch.setattr(module, "private_moments", lambda *args, **kwargs: queue.pop(0))
    rng = np.random.default_rng(1)
    second = tune(100 * rng.normal(size=(40, 3)), rng.uniform(-1, 1, 40), n_folds=folds)
    assert not queue
    for name in ("point", "alpha", "path"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
    assert first.plan.releases == second.plan.releases
    assert first.plan.to_dict() == second.plan.to_dict()


@pytest.mark.parametrize("folds", [None, 3])
@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("low", [1e-12, 1e-3])
def test_the_records_are_read_once(low, groups, folds, monkeypatch):
    """However many alphas are compared; rows of several blocks."""
    X, y = records(5000, 4)
    rows = Records(X, 1.0)
    rows.block_size = 1000
    read, original = [], Records.block

    def counting(self, which, raw=False):
        read.append(np.arange(5000)[which])
        return original(self, which, raw)

    monkeypatch.setattr(Records, "block", counting)
    penalties = PenaltyGroups(tuple(np.arange(4) % groups), (1.0,) * 4, low, 1e3)
    tune_by_sufficient_statistics(
        rows.with_targets(y),
        1.0,
        penalties,
        GAUSSIAN,
        coef_norm=1.0,
        n_folds=folds,
        run=Run(noise=Recorder()),
    )
    np.testing.assert_array_equal(np.sort(np.concatenate(read)), np.arange(5000))
    assert max(map(len, read)) <= 1000


@pytest.mark.parametrize("folds", [None, 2])
def test_equal_moments_give_equal_models(folds):
    """Records with turned signs have the same second moments."""
    X, y = records(40, 3)
    signs = np.where(np.arange(40) % 3 == 0, -1.0, 1.0)
    first, second = tune(X, y, n_folds=folds), tune(X * signs[:, None], y * signs, n_folds=folds)
    np.testing.assert_array_equal(first.point, second.point)
    np.testing.assert_array_equal(first.alpha, second.alpha)


@pytest.mark.parametrize("folds", [None, 2])
@pytest.mark.parametrize("container", [sp.csr_matrix, sp.csr_array])
def test_sparse_rows_equal_dense_ones(container, folds):
    X, y = records(50, 4)
    X[np.abs(X) < 0.3] = 0.0
    dense = tune(X, y, intercept=0.3, n_folds=folds)
    sparse = tune(container(X), y, intercept=0.3, n_folds=folds)
    np.testing.assert_allclose(sparse.point, dense.point, rtol=1e-6)


@pytest.mark.mostly("slow", 9)
@pytest.mark.parametrize("folds", [None, 2])
@pytest.mark.parametrize("budget", [GAUSSIAN, PURE, HUGE])
@pytest.mark.parametrize(
    "X",
    [np.zeros((6, 2)), np.full((6, 2), 1e300), np.full((6, 2), 1e-310), np.eye(6, 2)],
    ids=["zeros", "huge", "tiny", "eye"],
)
def test_degenerate_records(X, budget, folds):
    for target in (0.0, 1.0):
        tuned = tune(X, np.full(6, target), budget, n_folds=folds)
        assert np.isfinite(tuned.point).all() and np.isfinite(tuned.path).all()
    tuned = tune(X[:2], np.zeros(2), budget, n_folds=folds)
    assert np.isfinite(tuned.point).all()
    with pytest.raises(ValueError, match="records, the plan"):
        private_moments(
            Records(X[:0], 1.0, targets=np.zeros(0)), plan_of(Records(X, 1.0)), Recorder()
        )


@pytest.mark.parametrize("folds", [None, 2])
@pytest.mark.parametrize("target_bound", [1e-50, 1.0, 1e50])
@pytest.mark.parametrize("data_norm", [1e-50, 1.0, 1e50])
def test_extreme_units(data_norm, target_bound, folds):
    """The same model in any units, and no overflow on the way."""
    X, y = records(60, 3)
    results = []
    for x_unit, y_unit in ((1.0, 1.0), (data_norm, target_bound)):
        rows = Records(X * x_unit, x_unit)
        penalties = one_alpha(3, 1e-6 * x_unit**2, 10 * x_unit**2)
        results.append(
            tune_by_sufficient_statistics(
                rows.with_targets(y * y_unit),
                y_unit,
                penalties,
                GAUSSIAN,
                coef_norm=y_unit / x_unit,
                n_folds=folds,
                run=Run(noise=Recorder(4)),
            ).point
            * (x_unit / y_unit)
        )
    np.testing.assert_allclose(results[1], results[0], rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("low", [1e-6, 1e-30, 1e-200])
@pytest.mark.parametrize("folds", [None, 2])
def test_noisy_moments_without_full_rank_are_solved(low, folds):
    """Half of the eigenvalues are negative: no penalty is too small for a factorisation."""
    X, y = records(6, 5)
    for seed in range(5):
        penalties = one_alpha(5, low, 1.0)
        tuned = tune(X, y, penalties=penalties, n_folds=folds, run=Run(noise=Recorder(seed)))
        assert np.isfinite(tuned.point).all()


@pytest.mark.slow
def test_folds_do_not_choose_the_largest_model():
    """Few records: noise would make the weakest penalty look best; it is no candidate then.

    The loss on the records stays below twice that of the zero model, in all of 20 draws.
    """
    X, y = records(400, 10)
    bounded = Records(X, 1.0).materialise()
    for seed in range(20):
        for folds in (2, 5):
            tuned = tune(X, y, n_folds=folds, run=Run(noise=Recorder(seed)))
            assert np.mean((y - bounded @ tuned.point) ** 2) < 2.0 * np.mean(y**2)


@pytest.mark.mostly("slow", 1)
@pytest.mark.parametrize("folds", [None, 2])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_no_copy_of_the_rows(dtype, folds):
    rng = np.random.default_rng(0)
    X = rng.random(size=(200_000, 50), dtype=np.float32).astype(dtype, copy=False)
    y = np.clip(X[:, 0], -1, 1).astype(float)
    tracemalloc.start()
    try:
        tune(X, y, n_folds=folds)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 0.25 * X.size * 8


# ------------------------------------------------------------------------------ what is refused


class Forbidden(PlainNoise):
    """Nothing may be released."""

    def standard_normal(self, size):
        raise AssertionError("something was released")


@pytest.mark.parametrize("folds", [None, 2])
@pytest.mark.parametrize("bad", ["long", "short", "large", "small", "nan", "matrix", "text"])
def test_targets_are_refused_before_anything_is_released(bad, folds):
    """One target of 1e6 under a bound of 1 would move the moments by 1e6 times their sensitivity.

    That of the last record: not only a first fold is looked at.
    """
    X, y = records(31, 2)
    y[-1] = {"large": 1e6, "small": -1.001, "nan": math.nan}.get(bad, y[-1])
    y = {"long": np.append(y, 0.0), "short": y[:-1], "matrix": y[:, None]}.get(bad, y)
    y = y.astype(str) if bad == "text" else y
    with pytest.raises(ValueError, match="targets"):
        tune(X, y, n_folds=folds, run=Run(noise=Forbidden()))


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"coef_norm": -1.0}, "coef_norm == -1.0"),
        ({"coef_norm": 0.0}, "coef_norm == 0.0"),
        ({"coef_norm": math.inf}, "coef_norm == inf"),
        ({"coef_norm": math.nan}, "coef_norm == nan"),
        ({"bound": -1.0}, "target_bound == -1.0"),
        ({"bound": 0.0}, "target_bound == 0.0"),
        ({"bound": math.nan}, "target_bound == nan"),
    ],
)
def test_bad_numbers_are_refused(kwargs, message):
    X, y = records(30, 2)
    with pytest.raises(ValueError, match=message):
        tune(X, y, run=Run(noise=Forbidden()), **kwargs)


def test_penalties_for_other_coefficients_are_refused():
    X, y = records(30, 2)
    with pytest.raises(ValueError, match="3 penalties for 2 coefficients"):
        tune(X, y, penalties=one_alpha(3), run=Run(noise=Forbidden()))


def test_rows_that_the_plan_is_not_made_for_are_refused():
    """Longer ones, ones of another width, and what is not a number."""
    X, y = records(30, 2)
    plan = plan_of(Records(X, 1.0))
    for rows, message in (
        (Records(X, 100.0), "rows of norm 100.0, the plan is for 1.0"),
        (Records(X, 1.0, 0.1), "rows of 3 features, the plan is for 2"),
        (Records(X[:, :1], 1.0), "rows of 1 features, the plan is for 2"),
        (Records(np.where(np.arange(30)[:, None] == 5, math.nan, X), 1.0), "finite"),
    ):
        with pytest.raises(ValueError, match=message):
            private_moments(rows.with_targets(y), plan, Forbidden())
    with pytest.raises(ValueError, match="targets must be numbers within"):
        private_moments(Records(X, 1.0, targets=3 * y), plan, Forbidden())
    # shorter ones are fine
    private_moments(Records(X, 0.5, targets=y), plan, Recorder())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((), (), 1e-3, 1.0), "one entry per coefficient"),
        (((0, 0), (1.0,), 1e-3, 1.0), "one entry per coefficient"),
        (((0, 2), (1.0, 1.0), 1e-3, 1.0), "without a gap"),
        (((0, 1), (1.0, math.inf), 1e-3, 1.0), "penalty factors"),
        (((0, 1), (1.0, math.nan), 1e-3, 1.0), "penalty factors"),
        (((0, 1), (0.0, 1.0), 1e-3, 1.0), "penalty factors"),
        (((0,), (1.0,), 1.0, 1.0), "0 < low < high"),
        (((0,), (1.0,), 1.0, math.inf), "0 < low < high"),
    ],
)
def test_groups_that_are_none_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        PenaltyGroups(*arguments)

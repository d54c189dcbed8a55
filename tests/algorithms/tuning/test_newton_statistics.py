"""Statistics of Newton steps: sensitivities, estimate of the risk, the limit.

Seeded tests either always pass or always fail; the rate of false alarms is stated for those who
change a seed.
"""

import itertools
import math

import numpy as np
import pytest
from plain_noise import seeded
from scipy.optimize import check_grad, minimize
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from tuning_runs import tune

from skdp.algorithms import Run
from skdp.algorithms.tuning import NewtonPlan, PrivateMoments, TuningObjective
from skdp.algorithms.tuning.alpha_search import RidgeModels, SteinRisk
from skdp.algorithms.tuning.moments import unpack
from skdp.algorithms.tuning.newton import mean_gradient, round_shares
from skdp.algorithms.tuning.normal_margins import NormalMargins
from skdp.privacy import tightest_epsilon
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import ComposedEvent
from skdp.problems import Design, LogisticLoss, PenaltyGroups, Records
from skdp.problems.rounding import chain

BUDGET = PrivacyBudget(1.0, 1e-6)
#: So much that the noise is below rounding errors.
NO_NOISE = PrivacyBudget(1e20, 1e-6)


def penalties(width, low=1e-6, high=10.0):
    return PenaltyGroups((0,) * width, (1.0,) * width, low, high)


def tune_by_newton(records, penalties, budget, **options):
    return tune(NewtonPlan, records, LogisticLoss(), penalties, budget, **options)


def plan_of(rows, budget=BUDGET, **options):
    objective = TuningObjective.of(rows, LogisticLoss(), penalties(rows.width))
    return NewtonPlan(objective=objective, budget=budget, **options)


def records(n, d, seed=0, intercept=0.0, norm=1.0, shift=0.5):
    """Rows, some of which are shortened, and targets 0 and 1 of a logistic model."""
    rng = np.random.default_rng(seed)
    rows = Records(rng.normal(size=(n, d)) * 1.2 * norm / math.sqrt(d), norm, intercept)
    slope = np.linspace(-4.0, 6.0, d) / norm
    margins = rows.block(slice(0, n)).matrix @ slope + shift
    return rows, (rng.random(n) < 1.0 / (1.0 + np.exp(-margins))).astype(float)


def distance_at_zero(x, y, t, u, weight):
    """Frobenius distance of two records' matrices of the first round."""
    a, b = np.append(x, weight * (t - 0.5)), np.append(y, weight * (u - 0.5))
    return np.linalg.norm(np.outer(a, a) - np.outer(b, b))


@pytest.mark.parametrize(("d", "intercept"), [(2, 0.0), (5, 0.3), (20, 0.1)])
def test_first_round_moves_by_its_sensitivity(d, intercept):
    n, norm = 50, 2.0
    rows = Records(np.zeros((n, d)), norm, intercept * norm)
    plan = plan_of(rows).moments
    rng = np.random.default_rng(1)
    largest = 0.0

    def record(direction, length):
        return np.append(direction * length, [rows.intercept] if intercept else [])

    for _ in range(300):
        first, second = rng.normal(size=(2, d))
        first, second = (v / np.linalg.norm(v) * norm for v in (first, second))
        lengths = rng.choice([0.0, 0.5, 1.0], size=2)
        moved = distance_at_zero(
            record(first, lengths[0]),
            record(second, lengths[1]),
            *rng.integers(2, size=2),
            plan.weight,
        )
        largest = max(largest, moved)
    # rows and scaled targets at right angles
    inner = plan.weight**2 / 4 - rows.intercept**2
    cosine = np.clip(inner / norm**2, -1, 1)
    first, second = np.eye(d)[0] * norm, np.zeros(d)
    second[:2] = norm * np.array([cosine, math.sqrt(1 - cosine**2)])
    attack = distance_at_zero(record(first, 1), record(second, 1), 0, 1, plan.weight)
    bound = plan.mechanism.sensitivity * n
    assert max(largest, attack) <= bound * (1 + 1e-12)
    assert attack >= 0.999 * bound


@pytest.mark.parametrize("d", [1, 3, 30])
def test_further_rounds_move_by_their_sensitivity(d):
    """A search over pairs of records and points."""
    n, norm = 50, 2.0
    bound = plan_of(Records(np.zeros((n, d)), norm, 0.0)).gradients[0].sensitivity * n
    # only the part of a record in the plane of w and of the difference matters
    angles = np.linspace(0.0, math.pi, 181)
    largest = 0.0
    for length, s, (t, u) in itertools.product(
        (0.0, 1.0, 10.0, 1000.0), (0.5, 1.0), itertools.product((0, 1), repeat=2)
    ):
        if d == 1:
            first = second = np.array([[-norm, 0.0], [norm, 0.0]])
        else:
            first = norm * np.column_stack([np.cos(angles), np.sin(angles)])
            second = s * norm * np.column_stack([np.cos(angles), -np.sin(angles)])
        ends = [
            (expit(length * a[:, 0]) - target)[:, None] * a
            for a, target in ((first, t), (second, u))
        ]
        moved = np.linalg.norm(ends[0][:, None] - ends[1][None], axis=2).max()
        largest = max(largest, float(moved))
    assert largest <= bound <= 2.0 * norm * (1 + 1e-8)
    assert largest >= (0.99 * bound if d > 1 else 0.499 * bound)


def test_margins_are_bounded(monkeypatch):
    """By the moments that were released; a separable sample has no optimum without a penalty."""
    rows, _ = records(400, 3, intercept=0.3)
    matrix = rows.materialise()
    seen = []

    def spy(records, point, *others):
        seen.append(point)
        return mean_gradient(records, point, *others)

    monkeypatch.setattr("skdp.algorithms.tuning.newton.mean_gradient", spy)
    separable = (matrix[:, 0] > 0).astype(float)
    bound = LogisticLoss().largest_margin_scale
    for rounds, largest in ((2, [1.0, 1.0, 2.0]), (4, [1.0, 2**0.5, 2.0, 8**0.5, 2 * 8**0.5])):
        seen.clear()
        model = tune_by_newton(
            rows.with_targets(separable),
            penalties(4, 1e-9, 2e-9),
            NO_NOISE,
            shares=(0.6, *(0.4 / rounds,) * rounds),
        )
        assert model.plan.to_dict()["margin_bounds"] == pytest.approx(bound * np.array(largest))
        spreads = [math.sqrt(np.mean((matrix @ point) ** 2)) for point in [*seen, model.point]]
        np.testing.assert_allclose(
            spreads[:-1], model.plan.to_dict()["margin_bounds"][:-1], rtol=1e-6
        )
        assert largest[-2] < spreads[-1] / bound <= largest[-1] * (1 + 1e-6)


def test_noise_of_the_gradients_has_room_for_rounding():
    """Two sums of 1e9 terms are each off by their chain of additions."""
    n, norm = 10**9, 2.0
    objective = TuningObjective(
        loss=LogisticLoss(),
        penalties=penalties(3),
        design=Design(norm, 3, n),
        data_norm=norm,
        intercept=0.0,
    )
    exact = LogisticLoss().gradient_diameter(norm, math.inf) / n
    rounding = 2.0 * chain(n) * 2.0**-53 * norm
    # margins of at most 1000, and rows, of records that are elsewhere in the table
    rounding += (2.0 * 1e3 + 8.0) * (3 + 8) * 2.0**-52 * norm
    assert rounding > 1e-5 * exact
    for mechanism in NewtonPlan(objective=objective, budget=BUDGET).gradients:
        assert exact + rounding < mechanism.sensitivity < exact + 3.0 * rounding


@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_number_of_gradients_grows_with_the_budget(delta):
    """Two where gradients drown in noise, up to twelve; whatever the rows are."""
    counts = []
    for epsilon in (0.1, 1.0, 10.0, 1e2, 1e3, 1e4, 1e6):
        shares = round_shares(PrivacyBudget(epsilon, delta), n_records=9000, width=21)
        assert sum(shares) == pytest.approx(1.0, abs=1e-12) and shares[0] == 0.6
        counts.append(len(shares) - 1)
    assert counts == sorted(counts) and counts[:2] == [2, 2] and counts[-1] == 12
    assert set(counts) <= {2, *range(6, 13)}
    budget = PrivacyBudget(1e4, delta)
    releases = plan_of(Records(np.zeros((9000, 20)), 5.0, 1.5), budget).releases
    assert len(releases) == len(round_shares(budget, n_records=9000, width=21)) > 3
    total = tightest_epsilon(ComposedEvent(tuple(r.event for r in releases)), delta)
    assert 0.999e4 <= total <= 1e4 * (1 + 1e-9)


@pytest.mark.parametrize(("low", "groups"), [(1e-12, 1), (1e-3, 4)])
def test_the_records_are_read_once_per_round(low, groups, monkeypatch):
    """However many alphas are compared: for moments and for each of two gradients."""
    rows, targets = records(5000, 4)
    rows.block_size = 1000
    read, original = [], Records.block

    def counting(self, which, raw=False):
        read.append(np.arange(5000)[which])
        return original(self, which, raw)

    monkeypatch.setattr(Records, "block", counting)
    pen = PenaltyGroups(tuple(np.arange(4) % groups), (1.0,) * 4, low, 1e3)
    tune_by_newton(rows.with_targets(targets), pen, BUDGET, run=Run(noise=seeded(0)))
    np.testing.assert_array_equal(np.bincount(np.concatenate(read)), np.full(5000, 3))
    assert max(map(len, read)) <= 1000


@pytest.mark.parametrize("shares", [(), (1.2, -0.2), (0.5,), (0.5, math.nan), np.array([0.5, 0.6])])
def test_shares_must_be_a_budget(shares):
    rows, targets = records(10, 2)
    with pytest.raises(ValueError, match="of sum 1"):
        tune_by_newton(rows.with_targets(targets), penalties(2), BUDGET, shares=shares)


@pytest.mark.audit
def test_estimate_with_a_center_is_unbiased():
    """Against the mean true loss over draws of the noise; false alarms below 1e-5 (4.5 sigma)."""
    rng = np.random.default_rng(2)
    p, draws, alpha = 5, 1500, np.array([0.07, 0.2])
    pen = PenaltyGroups((0, 0, 0, 1, 1), (1.0, 1.0, 1.0, 1.0, 0.5), 1e-3, 1e3)
    half = rng.normal(size=(p, p))
    H, c, center = half @ half.T / p + np.eye(p), rng.normal(size=p), rng.normal(size=p)
    s, s_c, omega = 0.05, 0.1, np.diag(pen.diagonal(alpha))
    # the noise of the loss of a fixed model: of mean zero, it makes the variance smaller
    fixed = np.linalg.solve(H + omega, c - omega @ center)
    gaps, plain = np.empty((2, draws))
    for i in range(draws):
        noise = unpack(s * rng.normal(size=p * (p + 1) // 2), p)
        moments = PrivateMoments(
            matrix=H + noise, vector=c + s_c * rng.normal(size=p), square=0.0, deviation=s,
            vector_deviation=s_c, n_records=100,
        )  # fmt: skip
        ridge = RidgeModels(moments, pen, center)
        step = ridge.coefficients(alpha) - center
        truth = 0.5 * step @ H @ step - c @ step
        truth += 0.5 * fixed @ noise @ fixed - (moments.vector - c) @ fixed
        gaps[i] = SteinRisk(ridge, 1.0, 0.0)(alpha)[0] - truth
        plain[i] = 0.5 * step @ moments.matrix @ step - moments.vector @ step - truth
    allowed = 4.5 * gaps.std() / math.sqrt(draws)
    assert abs(gaps.mean()) < allowed
    # without its corrections it is far off
    assert plain.mean() < -5.0 * allowed


@pytest.mark.parametrize("residual_variance", [None, 1.0])
def test_slopes_of_the_estimate_with_a_center(residual_variance):
    rng = np.random.default_rng(3)
    p = 5
    pen = PenaltyGroups((0, 0, 1, 1, 1), (1.0, 1.0, 2.0, 1.0, 0.1), 1e-3, 1e3)
    half = rng.normal(size=(p, p))
    moments = PrivateMoments(
        matrix=half @ half.T, vector=rng.normal(size=p), square=5.0, deviation=0.1,
        vector_deviation=0.2, n_records=10,
    )  # fmt: skip
    risk = SteinRisk(RidgeModels(moments, pen, rng.normal(size=p)), 9.0, residual_variance)
    error = check_grad(
        lambda logs: risk(np.exp(logs))[0], lambda logs: risk(np.exp(logs))[1], np.log([0.3, 0.8])
    )
    assert error < 1e-5


def margins_model(p, seed):
    rng = np.random.default_rng(seed)
    half = rng.normal(size=(p, p))
    return NormalMargins(rng.normal(size=p), half @ half.T / p), rng


@pytest.mark.parametrize("scale", [1e-7, 0.1, 1.0, 30.0])
def test_derivatives_of_the_loss_of_normal_margins(scale):
    model, rng = margins_model(4, 0)
    w = scale * rng.normal(size=4)
    step = 1e-5 * max(scale, 1e-3)
    if scale > 1e-5:
        assert check_grad(model._value, model.gradient, w, epsilon=step) < 1e-4
    v = rng.normal(size=4)
    numeric = (model.gradient(w + step * v) - model.gradient(w - step * v)) / (2 * step)
    np.testing.assert_allclose(model.hessian(w) @ v, numeric, rtol=1e-4, atol=1e-6)


def test_normal_margins_are_those_of_normal_rows():
    """Stein's lemma: the gradient over normal rows; 5 standard errors, 4 entries."""
    model, rng = margins_model(4, 1)
    n, w = 400000, rng.normal(size=4)
    root = np.linalg.cholesky(model.covariance)
    rows = model.mean + rng.normal(size=(n, 4)) @ root.T
    sample = (1 / (1 + np.exp(-rows @ w)) - 0.5)[:, None] * rows
    error = sample.std(axis=0) / math.sqrt(n)
    assert (abs(sample.mean(axis=0) - model.gradient(w)) < 5 * error).all()


@pytest.mark.parametrize("scale", [1e-3, 1.0, 100.0])
def test_minimiser_of_the_loss_of_normal_margins(scale):
    model, rng = margins_model(6, 2)
    linear, omega = scale * rng.normal(size=6), np.full(6, 1e-2)
    w = model.minimise(linear, omega, np.zeros(6))
    gradient = model.gradient(w) - linear + omega * w
    assert np.linalg.norm(gradient) < 1e-6 * np.linalg.norm(linear)
    other = minimize(
        lambda v: model._value(v) - linear @ v + 0.5 * v @ (omega * v), np.zeros(6), tol=1e-10
    )
    assert np.linalg.norm(w - other.x) < 1e-2 * np.linalg.norm(w)


def test_singular_rows_are_no_problem():
    model = NormalMargins(np.zeros(3), np.zeros((3, 3)))
    w = model.minimise(np.ones(3), np.full(3, 0.5), np.zeros(3))
    np.testing.assert_allclose(w, 2.0)


@pytest.mark.parametrize("scale", [1e-5, 1.0, 1e15])
@pytest.mark.parametrize("rank", [0, 1, 5])
def test_hessian_is_positive_however_far_the_model_is(rank, scale):
    """Also where w is long in directions that hardly any row has."""
    rng = np.random.default_rng(4)
    half = rng.normal(size=(5, rank))
    model = NormalMargins(rng.normal(size=5), half @ half.T)
    hessian = model.hessian(scale * rng.normal(size=5))
    assert np.isfinite(hessian).all()
    assert np.linalg.eigvalsh(hessian)[0] >= -1e-14 * np.trace(hessian)


@pytest.mark.parametrize(("alpha", "intercept"), [(1e-3, 0.1), (1e-1, 0.0)])
def test_without_noise_rounds_converge_to_the_penalised_optimum(alpha, intercept):
    n, d = 900, 4
    rows, targets = records(n, d, intercept=intercept, shift=1.0)
    pen = penalties(rows.width, alpha, alpha * (1 + 1e-12))
    exact = LogisticRegression(C=1 / (n * alpha), fit_intercept=False, tol=1e-12, max_iter=10000)
    optimum = exact.fit(rows.materialise(), targets).coef_[0]
    errors = []
    for rounds in (1, 2, 12):
        shares = (1 / rounds,) * rounds
        model = tune_by_newton(rows.with_targets(targets), pen, NO_NOISE, shares=shares)
        errors.append(np.linalg.norm(model.point - optimum) / np.linalg.norm(optimum))
    assert errors[0] < 0.3
    assert errors[1] < 0.5 * errors[0]
    assert errors[2] < 1e-6

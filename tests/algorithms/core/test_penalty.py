"""Penalties and norms after the releases: those of the solutions that have them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import logit
from sklearn.linear_model import Ridge

from skdp import DPLogisticRegression, DPRidge
from skdp.algorithms import GroupObjective
from skdp.algorithms.core.fit import plan_core
from skdp.algorithms.core.penalty import penalised
from skdp.algorithms.core.spectrum import Spectrum
from skdp.algorithms.statistics.margins import typical_curvature
from skdp.algorithms.worst_group.core_stages import CoreStagesPlan, plan_core_stages
from skdp.privacy import PrivacyBudget, tightest_epsilon
from skdp.problems import (
    AbsoluteLoss,
    Design,
    EmpiricalRisk,
    GroupWeights,
    HalfSquaredLoss,
    HingeLoss,
    LogisticLoss,
    Objective,
    SoftmaxLoss,
    SquaredHingeLoss,
)

N, D = 10_000, 5
EXACT = {"spread": 1.0, "errors": (1.0, 0.0)}


def made(loss, seed=0):
    """Normal rows of mean square norm 1, and targets of a model."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, D)) * [1.0, 0.7, 0.5, 0.3, 0.1]
    X /= np.sqrt((X**2).sum(axis=1).mean())
    k = loss.n_outputs
    margins = X @ (3.0 * rng.standard_normal((D, k))) + rng.standard_normal(k) - 1.0
    if isinstance(loss, SoftmaxLoss):
        shares = loss.probabilities(margins).cumsum(axis=1)
        return X, (shares < rng.random(N)[:, None]).sum(axis=1)
    if isinstance(loss, LogisticLoss):
        return X, (rng.random(N) < 1.0 / (1.0 + np.exp(-margins[:, 0]))) * 1.0
    return X, 0.1 * margins[:, 0] + 0.1 * rng.standard_normal(N)


def solved(loss, X, targets, alpha):
    """Minimise with a penalty and a free intercept."""
    rows, k = np.column_stack([X, np.ones(N)]), loss.n_outputs

    def objective(w):
        weights = w.reshape(k, D + 1)
        margins = rows @ weights.T
        margins = margins[:, 0] if k == 1 else margins
        penalty = alpha * weights
        penalty[:, -1] = 0.0
        slopes = loss.derivative(margins, targets).reshape(N, k)
        value = loss.value(margins, targets).mean() + 0.5 * (penalty * weights).sum()
        return value, (slopes.T @ rows / N + penalty).ravel()

    start = np.zeros(k * (D + 1))
    weights = minimize(objective, start, jac=True, method="L-BFGS-B", tol=1e-12).x
    return weights.reshape(k, D + 1)[:, :D], weights.reshape(k, D + 1)[:, D]


def constant(loss, targets):
    """Margins of a constant model, without noise."""
    first = np.atleast_1d(targets.mean())
    if isinstance(loss, SoftmaxLoss):
        first = loss.basis.T @ np.log(np.bincount(targets) / N)
    elif isinstance(loss, LogisticLoss):
        first = logit(first)
    return {"first": first, **EXACT}


def spectrum(X):
    moments, directions = np.linalg.eigh(X.T @ X / N)
    return Spectrum(moments=moments, directions=directions)


@pytest.mark.parametrize(
    ("loss", "error"),
    [(HalfSquaredLoss(1.0), 1e-3), (LogisticLoss(), 0.02), (SoftmaxLoss(4), 0.08)],
)
def test_the_penalised_solution_follows_from_the_free_one(loss, error):
    X, targets = made(loss)
    free, given = solved(loss, X, targets, 0.0), constant(loss, targets)
    for alpha in (1e-2, 100.0):
        weights, offsets = solved(loss, X, targets, alpha)
        found = penalised(loss, *free, spectrum(X), alpha=alpha, **given)
        assert found[0] == pytest.approx(weights, abs=error * np.linalg.norm(weights))
        assert found[1] == pytest.approx(offsets, abs=0.12)
    same = penalised(loss, *free, spectrum(X), alpha=0.0, **given)
    assert same[0] == pytest.approx(free[0], rel=1e-6) and same[1] == pytest.approx(free[1])


def test_the_same_moments_in_all_directions_shorten_weights_alone():
    """So the loss is at most the larger one of those of the free model and a constant."""
    weights, spread = np.array([[1.0, -2.0, 0.5]]), Spectrum.public(3)
    given = {"alpha": 0.1, "first": np.zeros(1), **EXACT}
    for loss in (HalfSquaredLoss(1.0), LogisticLoss(), HingeLoss(), AbsoluteLoss(1.0)):
        found, *_ = penalised(loss, weights, np.zeros(1), spread, **given)
        factor = found[0, 0] / weights[0, 0]
        assert 0.0 < factor < 1.0 and found == pytest.approx(factor * weights)


@pytest.mark.parametrize(
    ("weight", "offset", "alpha"),
    [(8e-13, 34.8, 1e-9), (0.02, -843.0, 0.0), (1.0, 425.0, 4e-4)],  # no curvature
)
def test_weights_far_off_have_an_answer(weight, offset, alpha):
    # what fails here would fail after the releases, and for some records alone
    weights, offsets = np.array([[weight]]), np.array([offset])
    given = {"alpha": alpha, "spread": 1.0, "first": offsets, "errors": (0.1, 0.1)}
    found = penalised(LogisticLoss(), weights, offsets, Spectrum.public(1), **given)
    assert np.isfinite(np.concatenate([found[0].ravel(), found[1]])).all()
    assert np.linalg.norm(found[0]) <= weight * (1.0 + 1e-9)


def test_typical_curvatures():
    density = 1.0 / np.sqrt(2.0 * np.pi)
    assert typical_curvature(HalfSquaredLoss(1.0), 0.2) == pytest.approx(1.0, abs=1e-6)
    assert typical_curvature(AbsoluteLoss(1.0), 0.2) == pytest.approx(2 * density / 0.2, rel=1e-3)
    inside = 0.8413  # of a normal law, below 1
    assert typical_curvature(HingeLoss()) == pytest.approx(density * np.exp(-0.5), rel=1e-2)
    assert typical_curvature(SquaredHingeLoss()) == pytest.approx(2 * inside, rel=1e-2)


@pytest.mark.parametrize(("alpha", "solver"), [(1e-6, "auto"), (0.01, "lbfgs"), (100.0, "auto")])
def test_no_penalty_is_a_cliff(alpha, solver):
    """Beside a constant and beside the model without the penalty."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-0.5, 0.5, (10_000, 3)) * [1.0, 0.5, 0.1] + 0.1
    y = np.clip(X @ [1.0, -1.0, 3.0] + 0.1 * rng.standard_normal(10_000), -1, 1)
    shared = {"data_norm": 1.0, "random_state": 0, "solver": solver, "alpha": alpha}
    ridge = DPRidge(target_range=(-1, 1), **shared).fit(X, y)
    assert ridge.score(X, y) > -0.02
    labels = (y > 0.3).astype(int)
    model = DPLogisticRegression(classes=[0, 1], **shared).fit(X, labels)
    assert model.score(X, labels) > 1.0 - labels.mean() - 0.02
    if alpha == 1e-6:
        assert ridge.score(X, y) > 0.75 and model.score(X, labels) > 0.85
    report = ridge.privacy_
    assert "enters after the releases" in str(report)
    assert ridge.alpha_ == alpha
    plain = DPRidge(target_range=(-1, 1), data_norm=1.0, random_state=0, solver=solver).fit(X, y)
    if alpha != 100.0:  # which has second moments
        assert report.releases == plain.privacy_.releases


def test_a_strong_penalty_leaves_the_mean_of_the_targets():
    """The constant's correction for errors of the means goes with the weights."""
    scores = []
    for seed in range(2):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((4500, 12)) * np.linspace(2.0, 0.3, 12)
        y = (X / np.linspace(2.0, 0.3, 12)) @ rng.standard_normal(12) / 4.0
        X = (X + 3.0) / np.linalg.norm(X + 3.0, axis=1).max()
        model = DPRidge(alpha=10.0, data_norm=1.0, target_range=(-5, 5), random_state=seed)
        scores.append(model.fit(X, y).score(X, y))
    assert np.mean(scores) > -0.05


def test_a_strong_penalty_leaves_the_share_of_a_rare_class():
    """The intercept at the mean row is far below the log odds of the class, and no error of it."""
    losses = []
    for seed in range(2):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((8000, 10))
        y = (rng.random(8000) < 1.0 / (1.0 + np.exp(7.0 - 4.0 * X[:, 0]))).astype(int)
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        model = DPLogisticRegression(alpha=10.0, data_norm=1.0, classes=[0, 1], random_state=seed)
        p, share = model.fit(X, y).predict_proba(X)[:, 1], y.mean()
        loss = -np.mean(y * np.log(p) + (1 - y) * np.log1p(-p))
        losses.append(loss + share * np.log(share) + (1 - share) * np.log1p(-share))
    assert np.mean(losses) < 0.01


@pytest.mark.parametrize(
    ("options", "alpha"), [({"method": "gradient"}, 1e-2), ({"solver": "lbfgs"}, 1e-1)], ids=str
)
def test_a_penalty_of_rows_with_long_directions_is_that_of_ridge(alpha, options):
    """One moment for all directions would shrink the long ones most: R2 lower by .2 here."""
    gaps, fit, held_out = [], slice(0, 6_000), slice(6_000, None)
    for seed in range(2):
        rng, n = np.random.default_rng(seed), 8_000
        share = np.r_[0.44, np.full(7, 0.08)]
        codes = np.hstack([np.eye(8)[rng.choice(8, n, p=share)] for _ in range(6)])
        z = rng.standard_normal((n, 2))
        X = np.hstack([0.35 * codes, 0.3 * z, 0.03 * rng.standard_normal((n, 10))])
        X /= np.linalg.norm(X, axis=1).max()
        y = z.sum(axis=1) + 0.5 * codes @ rng.standard_normal(48)
        y = np.clip(y / y.std() / 5.0 + 0.1 * rng.standard_normal(n), -1.0, 1.0)
        model = DPRidge(1.0, 1e-6, alpha=alpha, data_norm=1.0, target_range=(-1, 1), **options)
        model.set_params(random_state=seed).fit(X[fit], y[fit])
        ridge = Ridge(alpha * 6_000).fit(X[fit], y[fit])
        gaps.append(ridge.score(X[held_out], y[held_out]) - model.score(X[held_out], y[held_out]))
    assert np.mean(gaps) < 0.07


@pytest.mark.parametrize(
    ("alpha", "n", "has_moments"),
    [(0.0, 6_000, False), (1e-5, 6_000, False), (1e-2, 6_000, True), (1e-2, 100, False)],
)
def test_moments_are_released_where_a_penalty_goes_by_them(alpha, n, has_moments):
    def goal(kind, d, **options):
        design = Design(np.sqrt(2.0), d + 1, n, intercept=1.0)
        return kind(EmpiricalRisk(LogisticLoss()), design, alpha=alpha, **options)

    budget = PrivacyBudget(1.0, 1e-6)
    of_groups = goal(GroupObjective, 40, weights=GroupWeights((5.0, 5.0)))
    stages = plan_core_stages(of_groups, budget, True)
    for plan in (
        plan_core(goal(Objective, 60), budget),
        plan_core(goal(Objective, 60), budget, True),
        stages.plain if isinstance(stages, CoreStagesPlan) else stages,
    ):
        assert (plan.moments is not None) == has_moments
    for is_solved in (False, True):
        plan = plan_core_stages(of_groups, budget, is_solved)
        assert tightest_epsilon(plan.event, 1e-6) == pytest.approx(1.0, rel=1e-6)


def test_public_moments_need_no_matrix_of_all_features():
    X = sp.random(60, 40_000, density=1e-4, format="csr", random_state=0)
    model = DPRidge(0.5, alpha=0.1, data_norm=1.0, target_range=(-1, 1), random_state=0)
    noise = model.fit(X, np.linspace(-1.0, 1.0, 60)).coef_noise_  # a matrix of them has 12 GB
    assert noise.shape == (40_000,) and np.isfinite(noise).all()

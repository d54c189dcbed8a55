"""Models of the core for the worst group: plans, lemmas, weights, fallbacks, quality."""

import math
import warnings
from itertools import product

import numpy as np
import pytest
from laboratory import Laboratory
from noisy_group_runs import ADD, RELATIONS, REPLACE, data_of, design_of, planned, records_of
from plain_noise import seeded
from scipy.optimize import minimize

from skdp.algorithms import GroupObjective
from skdp.algorithms.core.centered_rows import CenteredRows, Centering, sum_rounding
from skdp.algorithms.core.noisy_sums import NoisySum
from skdp.algorithms.plan import Run
from skdp.algorithms.worst_group import core_stages
from skdp.algorithms.worst_group.core_stages import StagesFit, combined, plan_core_stages
from skdp.algorithms.worst_group.group_weights import (
    prefers_plain,
    shrunk_losses,
    worst_case_weights,
)
from skdp.algorithms.worst_group.margin_fits import ScaleFit, minimax_step
from skdp.algorithms.worst_group.plain_models import PlainModelPlan
from skdp.privacy import PrivacyBudget
from skdp.privacy.composition import tightest_epsilon
from skdp.privacy.gaussian_dp import gaussian_mu
from skdp.problems import (
    Design,
    EmpiricalRisk,
    GroupWeights,
    HalfSquaredLoss,
    HingeLoss,
    LogisticLoss,
    SoftmaxLoss,
)
from skdp.problems.rounding import EPS
from skdp.robust import DPMaxGroupLossClassifier


def plan_of(loss, n, epsilon, relation=REPLACE, d=6, delta=1e-6, **options):
    ratio = 1.0 if relation is REPLACE else 10.0
    return planned(loss, Design(1.01, d, n, ratio, 0.1), relation, epsilon, delta, **options)


def mu_of(releases):
    return math.hypot(*(1.0 / release.event.noise_multiplier for release in releases))


@RELATIONS
@pytest.mark.parametrize("loss", [LogisticLoss(), SoftmaxLoss(4)], ids=repr)
@pytest.mark.parametrize("proportions", [None, (0.7, 0.2, 0.05, 0.05)])
def test_the_releases_cost_the_budget(loss, relation, proportions):
    for n, epsilon in ((30, 0.1), (500, 1.0), (10**5, 0.1), (10**6, 30.0)):
        plan = plan_of(loss, n, epsilon, relation, d=10, proportions=proportions)
        is_plain = n == 30 or (n == 500 and relation is REPLACE)
        assert isinstance(plan, PlainModelPlan) == is_plain
        assert mu_of(plan.releases) == pytest.approx(gaussian_mu(epsilon, 1e-6), rel=1e-9)
        assert tightest_epsilon(plan.event, 1e-6) == pytest.approx(epsilon, rel=1e-6)
        names = [release.name for release in plan.releases]
        assert ("sizes of the groups" in names) == (not is_plain and proportions is None)


@RELATIONS
@pytest.mark.parametrize(
    ("loss", "n", "d"),
    [(LogisticLoss(), 10**4, 10), (SoftmaxLoss(3), 10**7, 10), (LogisticLoss(), 10**6, 400)],
)
def test_both_models_have_the_budget(loss, n, d, relation):
    """Size and shift have the plain method's part, and the second plain model what it leaves."""
    plan = plan_of(loss, n, 1.0, relation, d)
    weighted = [plan.mu_weighted] + [plan.last.mu] * 3
    own = mu_of(plan.plain.releases_of_size)
    assert math.hypot(plan.mu_plain, own) == pytest.approx(math.hypot(*weighted), rel=1e-9)
    assert own**2 <= plan.plain.shares.size * gaussian_mu(1.0, 1e-6) ** 2 * (1.0 + 1e-9)
    if d == 400:  # the last fit has less than that part
        assert plan.n_measurements == 1 and own == pytest.approx(plan.plain.last, rel=1e-9)


@pytest.mark.parametrize("has_signal", [True, False])
def test_it_is_told_that_the_plain_model_is_noise(has_signal):
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (2000, 2))
    y = (X[:, 0] > 0).astype(int)
    model = DPMaxGroupLossClassifier(
        0.1, data_norm=1.0, classes=[0, 1], group_names=[0, 1], random_state=0
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y if has_signal else rng.permutation(y), groups=(X[:, 1] > 0).astype(int))
    assert "losses of the groups" in str(model.privacy_)
    said = [str(each.message) for each in caught if "hardly better" in str(each.message)]
    assert len(said) == (not has_signal)


@pytest.mark.parametrize("proportions", [None, (0.7, 0.2, 0.05, 0.05)])
@pytest.mark.parametrize(
    ("u", "sizes", "losses", "scale"),
    [
        (1e-6, 0.003, 0.05, 0.03),
        (7e-5, 0.003, 0.05, 0.0784),
        (1.25e-4, 0.005625, 0.0625, 0.25),
        (3e-4, 0.0324, 0.2, 0.3),
    ],
)
def test_parts_of_the_budget(u, sizes, losses, scale, proportions):
    """(600 u)^2, (2000 u)^2 and (4000 u)^2 within their bounds, and a half of all at most."""
    mu = gaussian_mu(1.0, 1e-6)
    n = round(2.0 / (mu * u))
    plan = plan_of(LogisticLoss(), n, 1.0, proportions=proportions)
    room = 0.5 - (sizes if proportions is None else 0.0)
    fraction = min(1.0, room / (losses + scale))
    found = [plan.losses.mu**2 * plan.n_measurements, plan.last.mu**2 * 3]
    expected = [fraction * losses, fraction * scale]
    if proportions is None:
        found, expected = [*found, plan.sizes.mu**2], [*expected, sizes]
    np.testing.assert_allclose(np.array(found) / mu**2, expected, rtol=1e-3)


@pytest.mark.parametrize("loss", [LogisticLoss(), SoftmaxLoss(3)], ids=repr)
def test_terms_of_the_scale_reach_their_bound(loss):
    """Lemma 4: norms of at most 1, and nearly opposite vectors of records of one group."""
    rng, n = np.random.default_rng(0), 4000
    X = rng.normal(size=(n, 3))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    records = records_of(X, rng.integers(0, 2, n), np.zeros(n, dtype=int))
    rows = CenteredRows(records, Centering.unknown(3, loss.n_outputs))
    plan = planned(loss, Design.of(records), REPLACE, 1e4)
    found = []
    for size in (3.0, 30.0, 3000.0):
        weights = size * rng.normal(size=(loss.n_outputs, records.width))
        way = rng.normal(size=weights.shape)
        origin, quarters = np.zeros(loss.n_outputs), np.ones(4) / 4
        fits = [ScaleFit(plan.plain, rows, weights, origin, quarters, v) for v in (None, way)]
        for fit, theta in product(fits, ([0.0, 0.0, 0.0], [-0.5, 0.3, 0.2])):
            terms = []

            def part(block, _, fit=fit, theta=theta, terms=terms):
                terms.append(np.array(fit.terms(np.array(theta[: fit.n_parameters]))(block)))
                return np.zeros(1)

            rows.full_total(part)
            vectors = np.concatenate(terms, axis=1).T
            k = fit.n_parameters
            assert vectors.shape == (n, 1 + k + k * (k + 1) // 2)
            assert np.linalg.norm(vectors, axis=1).max() <= 1.0 + 1e-12
            found.append(np.sqrt(max(0.0, 2.0 - 2.0 * (vectors[:500] @ vectors.T).min())))
    assert 1.5 < max(found) <= 2.0
    assert plan.last.sensitivity == 2.0
    assert planned(loss, design_of(records, ADD), ADD, 1e4).last.sensitivity == 1.0


@RELATIONS
def test_rounding_is_that_of_lemma_5(relation):
    """At n = 1e9 it is far above the slack of 1e-9: no part of it may be left out."""
    size, design = 1e9, Design(1.01, 10, 10**9, 1.0 if relation is REPLACE else 10.0, 0.1)
    plan = planned(LogisticLoss(), design, relation, 1.0, 1e-12)
    for sums in (plan.losses, plan.last, plan.sizes):
        rounding = sum_rounding(design, sums.size)
        assert rounding > 1e-3
        for moved in (0.0, 1e-12):
            expected = sums.sensitivity * (1.0 + 1e-9) + rounding
            expected += (1.0 if relation is REPLACE else 10.0) * size * moved
            assert sums.mechanism(moved).sensitivity == pytest.approx(expected, rel=1e-12)
    records = records_of(np.eye(3), np.array([0, 1, 0]), np.zeros(3, dtype=int))
    rows = CenteredRows(records, Centering.unknown(3, 1))
    fit = ScaleFit(plan.plain, rows, np.full((1, 4), 2.0), np.zeros(1), np.ones(4) / 4)
    factor = 2.0 * (2.0 + 0.7) * (1.0 + rows.norm_bound * 4.0 / fit.unit) ** 2
    expected = factor * (1e-12 + 4.0 * EPS * 0.3) + 16.0 * EPS
    found = fit.rounding(1e-12, np.array([-0.4, 0.3]))
    assert found == pytest.approx(expected, rel=1e-12)
    mixed = ScaleFit(
        plan.plain, rows, np.full((1, 4), 2.0), np.zeros(1), np.ones(4) / 4, np.full((1, 4), 5.0)
    )
    steepness = 4.0 / mixed.units[0] + 10.0 / mixed.units[1]
    factor = 2.0 * (2.0 + 0.9) * (1.0 + rows.norm_bound * steepness) ** 2
    expected = factor * (1e-12 + 4.0 * EPS * 0.5) + 16.0 * EPS
    found = mixed.rounding(1e-12, np.array([-0.4, 0.3, 0.2]))
    assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("loss", [LogisticLoss(), SoftmaxLoss(3)], ids=repr)
def test_terms_of_the_scale_are_derivatives(loss):
    """Half of the loss, its gradient and its Hessian in scale, shift and mix, of one record."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(30, 3))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    records = records_of(X, rng.integers(0, loss.n_outputs + 1, 30), np.zeros(30, dtype=int))
    rows = CenteredRows(records, Centering.unknown(3, loss.n_outputs))
    plan = planned(loss, Design.of(records), REPLACE, 1e4)
    weights, way = 0.3 * rng.normal(size=(2, loss.n_outputs, records.width))
    origin = 0.3 * rng.normal(size=loss.n_outputs)
    fit = ScaleFit(plan.plain, rows, weights, origin, np.ones(4) / 4, way)
    k = fit.n_parameters

    def sums(theta):
        def part(block, _):
            return np.stack([entry.sum() for entry in fit.terms(theta)(block)])

        return rows.full_total(part)

    theta = rng.uniform(-0.2, 0.2, k)
    here, step = sums(theta), 1e-5
    upper = [(i, j) for i in range(k) for j in range(i, k)]
    for i in range(k):
        moved = np.eye(k)[i] * step
        slope = (sums(theta + moved) - sums(theta - moved)) / (2.0 * step)
        assert 2.0 * slope[0] == pytest.approx(here[1 + i], abs=1e-6)
        for (a, b), value in zip(upper, here[1 + k :], strict=True):
            if a == i or b == i:
                other = b if a == i else a
                factor = 1.0 if a == b else math.sqrt(2.0)
                assert factor * slope[1 + other] == pytest.approx(value, abs=1e-6)


def test_public_groups_are_for_replaced_records():
    goal = GroupObjective(
        EmpiricalRisk(LogisticLoss()),
        Design(1.01, 10, 10**5, 10.0, 0.1),
        neighbouring=ADD,
        weights=GroupWeights.of_proportions([0.5, 0.5], 10.0, public_groups=True),
        proportions=(0.5, 0.5),
    )
    with pytest.raises(ValueError, match="sizes of the groups"):
        plan_core_stages(goal, PrivacyBudget(1.0, 1e-6))


P = np.array([0.7, 0.15, 0.1, 0.05])
L = np.array([0.35, 0.45, 0.6, 0.8])


def test_weights_are_the_best_of_their_programme():
    rng = np.random.default_rng(0)
    for _ in range(5):
        p, losses = rng.dirichlet(np.ones(5)), rng.uniform(0.2, 1.0, size=5)
        p = 0.9 * p + 0.02

        def value(q, p=p, losses=losses):
            return q @ losses - 0.003 * max(q / p) ** 2 - 0.03 * (q**2 / p).sum()

        q = worst_case_weights(losses, p, noise_price=0.003, spread_price=0.03)
        best = minimize(
            lambda z, p=p, losses=losses: (
                -(z[:5] @ losses - 0.003 * z[5] ** 2 - 0.03 * (z[:5] ** 2 / p).sum())
            ),
            np.append(p, 1.0),
            bounds=[(0, 1)] * 5 + [(1, None)],
            constraints=[
                {"type": "eq", "fun": lambda z: z[:5].sum() - 1.0},
                {"type": "ineq", "fun": lambda z, p=p: z[5] - z[:5] / p},
            ],
        )
        assert q.sum() == pytest.approx(1.0) and (q >= 0).all()
        assert value(q) >= -best.fun - 0.01 * abs(best.fun)


def test_two_estimates_are_averaged_by_their_variances():
    point, variance = combined(np.array([0.0, 4.0]), 1.0, np.array([4.0, 0.0]), 3.0)
    assert point == pytest.approx([1.0, 3.0])
    assert variance == pytest.approx(0.75**2 * 1.0 + 0.25**2 * 3.0)


def test_a_large_group_that_is_about_the_worst_asks_for_the_plain_model():
    p = np.array([0.6, 0.3, 0.1])
    weights = np.array([0.6, 0.2, 0.2])
    assert prefers_plain(np.array([0.45, 0.2, 0.5]), weights, p)
    assert not prefers_plain(np.array([0.45, 0.2, 0.6]), weights, p)
    assert not prefers_plain(np.array([0.2, 0.45, 0.5]), weights, p)  # 0.3 is no large group
    assert not prefers_plain(None, weights, p)
    assert prefers_plain(np.array([0.45, 0.2, 0.6]), np.array([0.6, 0.25, 0.15]), p)
    half, others = np.array([0.5, 0.4, 0.1]), np.array([0.4, 0.4, 0.2])
    assert prefers_plain(np.array([0.45, 0.2, 0.5]), others, half)  # a half is large


def test_noise_does_not_pass_for_a_difference():
    """Of losses whose errors are as large as their spread nothing remains."""
    noisy = shrunk_losses(np.array([0.5, 0.9, 0.2, 1.5]), np.array([0.01, 0.5, 0.5, 1.0]), P, 1000)
    assert np.ptp(noisy) < 0.1  # of 1.3
    clear = shrunk_losses(L, np.full(4, 1e-4), P, 10**6)
    np.testing.assert_allclose(clear, L, atol=2e-3)


def test_minimax_step_is_that_of_a_solver():
    rng = np.random.default_rng(1)
    losses, gradients = rng.uniform(0.3, 0.6, size=4), 0.1 * rng.normal(size=(4, 2))
    hessians = np.einsum("gij,gkj->gik", *(rng.normal(size=(4, 2, 2)),) * 2)
    d = minimax_step(losses, gradients, hessians, 0.01 * np.eye(2), np.full(2, 9.0), P, 2000)

    def largest(d):
        values = losses + gradients @ d + 0.5 * np.einsum("gij,i,j->g", hessians, d, d)
        return values.max() + 0.005 * d @ d

    best = min(
        minimize(largest, start, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12}).fun
        for start in (d, np.zeros(2))
    )
    assert largest(d) <= best + 2e-3


@pytest.mark.parametrize(
    "loss", [LogisticLoss(), SoftmaxLoss(3), HalfSquaredLoss(2.0), HingeLoss()], ids=repr
)
def test_added_records_pay_for_the_rounding_of_margins(loss, monkeypatch):
    """With every sum over groups."""
    records = records_of(*data_of(loss))
    plan = planned(loss, design_of(records, ADD), ADD, 300.0)
    seen, release = [], NoisySum.release
    margins, rounding = [], ScaleFit.rounding

    def watched(self, exact, noise, moved=0.0):
        if "group" in self.name:
            seen.append((self.name, moved))
        return release(self, exact, noise, moved)

    def rounded(self, moved, theta):
        margins.append(moved)
        return rounding(self, moved, theta)

    monkeypatch.setattr(NoisySum, "release", watched)
    monkeypatch.setattr(ScaleFit, "rounding", rounded)
    monkeypatch.setattr(StagesFit, "margin_rounding", lambda *_: 1e-9)
    plan.run(records, Run(noise=seeded(0)))
    moved = [amount for name, amount in seen if not name.startswith("sizes")]
    assert len(moved) >= 1
    assert min(moved) > 1e-12  # EPS alone is below
    # margins of the last model, and those of its way from the plain one
    assert set(margins) == ({2e-9} if loss.has_odds else set())


@pytest.mark.parametrize(
    ("loss", "relation", "word"),
    [(LogisticLoss(), ADD, "derivatives"), (HalfSquaredLoss(2.0), REPLACE, "between two models")],
)
def test_the_report_is_that_of_the_draws_where_weights_do_not_differ(
    loss, relation, word, monkeypatch
):
    """Several looks whose weights are the proportions are no plain model."""
    monkeypatch.setattr(core_stages, "worst_case_weights", lambda losses, shares, **_: shares)
    records = records_of(*data_of(loss))
    design = design_of(records, relation)
    plan = planned(loss, design, relation, 7e3, 0.01, (0.25,) * 4)
    with Laboratory() as laboratory:
        done = plan.run(records, Run(noise=seeded(0))).plan
    assert done.n_measurements > 1 and max(np.divide(done.weights, done.proportions)) == 1.0
    names = [release.name for release in done.releases]
    assert not any(name.startswith("size and shift") for name in names) and any(
        word in name for name in names
    )
    last, draw = done.releases[-1], laboratory.draws[-1]
    assert last.dimension == draw.value.size
    assert last.noise_scale / last.sensitivity == pytest.approx(
        draw.scale / draw.mechanism.sensitivity, rel=1e-12
    )

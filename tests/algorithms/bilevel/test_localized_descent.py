"""Localised noisy gradient descent: noise, radii, domain, price."""

import dataclasses
import math

import numpy as np
import pytest
from plain_noise import seeded

from skdp.algorithms import Run, dp_localized_gd, plan_localized_gd
from skdp.privacy import Neighbouring, PrivacyBudget
from skdp.privacy.composition import tightest_epsilon
from skdp.problems import (
    Ball,
    Box,
    DeclaredProblem,
    HalfSquaredLoss,
    LogisticLoss,
    Records,
    ball_problem,
)
from skdp.problems.rounding import EPS, chain

BUDGET = PrivacyBudget(1.0, 1e-6)


def problem_of(n=200, loss=None, alpha=0.3, seed=0):
    rng = np.random.default_rng(seed)
    loss = LogisticLoss() if loss is None else loss
    X = rng.normal(size=(n, 3))
    t = (X[:, 0] > 0) * 1.0
    return ball_problem(Records(X, 1.0, targets=t), loss, alpha)


@pytest.mark.parametrize("n_rounds", [1, 3])
def test_noise_of_the_corrected_algorithm(n_rounds):
    """``D sqrt(M T) / (n mu)`` with D <= 2 L, the diameter of the gradients."""
    constants = problem_of().constants
    plan = plan_localized_gd(constants, BUDGET, n_rounds=n_rounds, n_steps=40)
    moved = constants.gradient_diameter / 200
    assert moved <= 2 * constants.lipschitz / 200
    known = moved * math.sqrt(n_rounds * 40) / 0.2367043804
    assert plan.mechanism.noise_scale == pytest.approx(known, rel=1e-8)
    spent = tightest_epsilon(plan.event, 1e-6)
    assert spent <= 1.0
    assert spent == pytest.approx(1.0, rel=1e-6)
    assert plan.to_dict()["n_steps"] == 40
    persons = dataclasses.replace(plan, neighbouring=Neighbouring.REPLACE_ONE.of_persons)
    assert persons.event.neighbouring.unit == "user" != plan.event.neighbouring.unit


class FirstThree:
    """Chooses the first three of the records."""

    def bernoulli(self, size, probability):
        return np.arange(size) < 3


def test_batches_are_divided_by_their_expected_size():
    """The realised size is private: dividing by it is not a sum of bounded vectors."""
    problem, w = problem_of(), np.array([0.1, -0.2, 0.3])
    batch = problem.batch(np.arange(3))
    known = batch.pull_back(batch.residuals(w)) / (0.1 * 200) + 0.3 * w
    plan = plan_localized_gd(
        problem.constants, n_rounds=1, n_steps=1, sampling_rate=0.1, noise_multiplier=1.0
    )
    np.testing.assert_allclose(plan.gradient(problem, w, FirstThree()), known, rtol=1e-12)


@pytest.mark.parametrize("sampling_rate", [1.0, 0.5])
def test_noise_covers_the_rounding_of_large_sums(sampling_rate):
    """Two sums of n gradients are each off by their chain of additions."""
    n = 10**9
    constants = dataclasses.replace(problem_of().constants, n_records=n)
    plan = plan_localized_gd(
        constants, n_rounds=1, n_steps=1, sampling_rate=sampling_rate, noise_multiplier=1.0
    )
    exact = constants.gradient_diameter
    if sampling_rate < 1:
        exact = 2.0 * constants.lipschitz
    # of a record that is drawn alone, half of the sensitivity
    share = 1.0 if sampling_rate == 1 else 2.0
    additions = chain(n, most_rows=constants.most_rows)
    rounding = share * 2.0 * 0.51 * EPS * additions * constants.lipschitz
    assert rounding > 1e-4 * exact / n
    assert plan.mechanism.sensitivity >= (exact / n + rounding) / sampling_rate


def test_batches_are_added_in_a_tree():
    """One after the other, all but the first are lost in its last bit."""
    targets = np.full(5000, 1e-16)
    targets[0] = 1.0
    records = Records(np.full((5000, 1), -1.0), 1.0, targets=targets)
    records.block_size = 1
    problem = ball_problem(records, HalfSquaredLoss(1.0), 0.3)
    plan = plan_localized_gd(
        problem.constants, n_rounds=1, n_steps=1, sampling_rate=0.5, noise_multiplier=1.0
    )

    class Everyone:
        def bernoulli(self, size, probability):
            return np.ones(size, dtype=bool)

    exact = math.fsum(targets) / 2500
    total = plan.gradient(problem, np.zeros(1), Everyone())[0]
    assert abs(total - exact) <= EPS * chain(5000, 1, 1) * exact < 0.1 * (exact - 1 / 2500)


def test_price_of_batches():
    pytest.importorskip("dp_accounting")
    constants = problem_of(n=1000).constants
    plan = plan_localized_gd(constants, BUDGET, n_rounds=1, n_steps=50, sampling_rate=0.1)
    assert tightest_epsilon(plan.event, 1e-6) <= 1.0
    whole = math.sqrt(50) / 0.2367043804
    assert plan.mechanism.noise_multiplier < 0.3 * whole  # sampling pays
    assert plan.mechanism.sensitivity == pytest.approx(2 * constants.lipschitz / 100)
    with pytest.raises(ValueError, match="batches"):
        dp_localized_gd(_declared(Ball(2.0)), sampling_rate=0.5, noise_multiplier=1.0, n_steps=3)


def _declared(domain=None, radius=None):
    def f(w):
        return 0.5 * float(w @ w) - w[0], w - np.eye(2)[0]

    return DeclaredProblem(
        f, dimension=2, lipschitz=3.0, smoothness=1.0, strong_convexity=1.0,
        domain=domain, radius=radius, n_records=10, mean_of_records=True,
    )  # fmt: skip


class Watched(HalfSquaredLoss):
    """Remembers the largest margin that it was asked for."""

    largest = 0.0

    def derivative(self, margins, targets):
        Watched.largest = max(Watched.largest, float(np.abs(margins).max()))
        return super().derivative(margins, targets)


def test_points_never_leave_the_domain():
    """Erratum K13: squared losses have no Lipschitz constant outside of the ball."""
    problem = problem_of(loss=Watched(1.0))
    Watched.largest = 0.0
    dp_localized_gd(
        problem, n_rounds=2, n_steps=30, noise_multiplier=100.0, run=Run(noise=seeded(1))
    )
    limit = problem.domain.radius
    assert 0.5 * limit < Watched.largest <= limit * (1 + 1e-12)
    rows = problem.records.materialise()
    assert np.linalg.norm(rows, axis=1).max() <= 1 + 1e-12


def test_declared_problems():
    problem = _declared(domain=Ball(2.0))
    found = dp_localized_gd(problem, n_rounds=1, n_steps=200, noise_multiplier=1e-9).point
    np.testing.assert_allclose(found, [1.0, 0.0], atol=0.05)
    with pytest.raises(ValueError, match="whole domain"):
        box = Box(np.full(2, -5.0), np.full(2, 5.0))
        dp_localized_gd(_declared(domain=box, radius=2.0), noise_multiplier=1.0, n_steps=3)

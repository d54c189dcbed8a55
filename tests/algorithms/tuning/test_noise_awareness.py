"""Tuners that end with a fit of their own compare models with the noise that these will have.

What is minimised is the validation loss plus the public cost of
the final fit's noise. Without that, alphas go to the lower end.
"""

import dataclasses

import numpy as np
import pytest
from plain_noise import Silent
from tuning_attacks import records

from skdp.algorithms import Run
from skdp.algorithms.tuning import (
    BilevelTuningPlan,
    DrawPlan,
    FinalFitPlan,
    HypergradientPlan,
    TuningObjective,
    tune,
)
from skdp.algorithms.tuning import bilevel as route_a
from skdp.algorithms.tuning import exponential as route_d
from skdp.mechanisms import GaussianMechanism
from skdp.privacy import PrivacyBudget
from skdp.problems import HalfSquaredLoss, PenaltyGroups

LOSS = HalfSquaredLoss(1.0)
ONE = PenaltyGroups((0,) * 5, (1.0, 1.0, 1.0, 1.0, 0.01), 1e-3, 10.0)


class Quiet(Silent):
    """No additive noise, and draws in the middle."""

    def exponential(self, size):
        return np.full(size, np.log(2.0))


def test_bilevel_gradients_have_the_slopes_of_the_cost_of_noise():
    rows, t = records("squared")
    penalties = PenaltyGroups((0, 0, 1, 1, 0), (1.0,) * 5, 1e-4, 10.0)
    budget = PrivacyBudget(1.0, 1e-6)
    objective = TuningObjective.of(rows, LOSS, penalties)
    plan = BilevelTuningPlan(objective=objective, budget=budget)
    problem = route_a.NoiseAwareProblem(rows.with_targets(t), plan)

    def cost(logs):
        return FinalFitPlan(
            objective=objective, alpha=np.exp(logs), budget=budget, share=0.8
        ).noise_cost

    x, step = np.log([0.3, 0.1]), 1e-3
    slopes = [(cost(x + step * e) - cost(x - step * e)) / (2 * step) for e in np.eye(2)]
    y, y_lam = np.random.default_rng(0).normal(size=(2, 5))
    gradient = problem.hypergradient(x, y, y_lam, 3.0)
    plain = 3.0 * problem.lower_difference_x(x, y, y_lam)
    np.testing.assert_allclose(gradient - plain, slopes, rtol=1e-4, atol=1e-10)
    assert np.abs(slopes).max() > 1e-3


def by_hypergradient(rows, t, budget, monkeypatch):
    """Exact answers that are trusted, from the same start."""
    original = HypergradientPlan.query

    def sure(*args):
        return dataclasses.replace(original(*args), mechanism=GaussianMechanism(1e-9, 1.0))

    monkeypatch.setattr(HypergradientPlan, "query", sure)
    monkeypatch.setattr(HypergradientPlan, "rule_alpha", 0.3)
    return tune(
        "hypergradient", rows.with_targets(t), LOSS, ONE, budget, coef_norm=1.0,
        run=Run(noise=Quiet()),
    )  # fmt: skip


def by_bilevel(rows, t, budget, monkeypatch):
    """Steps of the same lengths against the sign of exact gradients, from the same start."""
    monkeypatch.setattr(
        route_a, "_cautious_step", lambda step, gradient, _: -(0.8**step) * np.sign(gradient)
    )
    return tune(
        "bilevel", rows.with_targets(t), LOSS, ONE, budget, coef_norm=1.0, start=0.1,
        run=Run(noise=Quiet()),
    )  # fmt: skip


def by_draws(rows, t, budget, monkeypatch):
    """Draws that take the best score, without the prior weights."""
    monkeypatch.setattr(DrawPlan, "draw_epsilon", 1e9)
    monkeypatch.setattr(route_d, "log_prior_weights", lambda grid, *args: np.zeros(len(grid)))
    return tune(
        "exponential", rows.with_targets(t), LOSS, ONE, budget, coef_norm=1.0,
        run=Run(noise=Quiet()),
    )  # fmt: skip


@pytest.mark.parametrize("route", [by_hypergradient, by_bilevel, by_draws])
def test_less_budget_for_the_final_fit_means_more_regularisation(route, monkeypatch):
    """All that differs is the noise that the final model will have."""
    rows, t = records("squared", n=400)
    alphas = []
    for epsilon in (1e3, 3.0):
        with monkeypatch.context() as patch:
            tuned = route(rows, t, PrivacyBudget(epsilon, 1e-6), patch)
        alphas.append(float(tuned.alpha[0]))
    assert alphas[1] > 2.0 * alphas[0]

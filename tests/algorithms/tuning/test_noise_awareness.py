"""The published rule compares models with the noise that these will have.

What is minimised is the validation loss plus the public cost of
the final fit's noise. Without that, alphas go to the lower end.
"""

import numpy as np
from tuning_attacks import records

from skdp.algorithms.tuning import BilevelTuningPlan, FinalFitPlan, TuningObjective
from skdp.algorithms.tuning import bilevel as route
from skdp.privacy import PrivacyBudget
from skdp.problems import HalfSquaredLoss, PenaltyGroups

LOSS = HalfSquaredLoss(1.0)


def test_bilevel_gradients_have_the_slopes_of_the_cost_of_noise():
    rows, t = records("squared")
    penalties = PenaltyGroups((0, 0, 1, 1, 0), (1.0,) * 5, 1e-4, 10.0)
    budget = PrivacyBudget(1.0, 1e-6)
    objective = TuningObjective.of(rows, LOSS, penalties)
    plan = BilevelTuningPlan(objective=objective, budget=budget)
    problem = route.NoiseAwareProblem(rows.with_targets(t), plan)

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
